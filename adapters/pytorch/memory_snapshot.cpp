/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch.cuda.memory_snapshot and _dump_snapshot.
 *
 * The pool of libvram has no segments as PyTorch's allocator has them, so the snapshot makes some
 * from the live blocks: granules (2 MiB) that hold blocks and follow each other are one region. A
 * region is cut where small blocks (at most 1 MiB) and others meet: small blocks that touch are a
 * segment of the small pool; the other blocks and all gaps are segments of the large pool. Memory
 * that is held and has no block in its granule is one more segment without blocks in use, after the
 * last address. So the sums of a snapshot are those of memory_stats. Segments of private pools are
 * shown as they are.
 */
#include "allocator.h"

namespace vram_torch {

static void add_block(TorchSegmentInfo *segment, uint64_t size, uint64_t requested, bool allocated,
                      bool active, Context context) {
    BlockInfo info;
    info.size = size;
    info.requested_size = active ? requested : 0;
    info.allocated = allocated;
    info.active = active;
    info.context_when_allocated = std::move(context);
    segment->total_size += size;
    segment->allocated_size += allocated ? size : 0;
    segment->active_size += active ? size : 0;
    segment->requested_size += active ? requested : 0;
    segment->blocks.push_back(std::move(info));
}

static TorchSegmentInfo new_segment(int device, uintptr_t addr, void *stream, bool large,
                                    const PoolId &pool) {
    TorchSegmentInfo segment;
    segment.device = static_cast<c10::DeviceIndex>(device);
    segment.address = addr;
    segment.stream = static_cast<StreamField>(stream);
    segment.is_large = large;
    segment.is_expandable = pool == PoolId(0, 0);
    segment.owner_private_pool_id = pool;
    return segment;
}

/* Builds the segments of the device's pool from blocks in the order of addresses. */
class SegmentWriter {
  public:
    SegmentWriter(int device, History &history, std::vector<TorchSegmentInfo> *segments)
        : device_(device), history_(history), segments_(segments) {}

    void block(const Block &block) {
        uintptr_t granule = block.addr / GRANULE * GRANULE;
        if (granule > end_) { /* a new region */
            close();
            end_ = granule;
        }
        if (block.addr > end_) {
            part(true, block.stream);
            add_block(&segments_->back(), block.addr - end_, 0, false, false, nullptr);
        }
        end_ = block.addr;
        part(!block.small, block.stream);
        add_block(&segments_->back(), block.held, block.requested, true, true,
                  history_.context_of(block.addr));
        end_ += block.held;
    }

    /* The gap up to the end of the last granule. */
    void close() {
        uintptr_t end = (end_ + GRANULE - 1) / GRANULE * GRANULE;
        if (end > end_) {
            part(true, nullptr);
            add_block(&segments_->back(), end - end_, 0, false, false, nullptr);
        }
        end_ = end;
        open_ = false;
    }

    uintptr_t end() const { return end_; }

  private:
    void part(bool large, void *stream) {
        if (!open_ || segments_->back().is_large != large) {
            segments_->push_back(new_segment(device_, end_, stream, large, PoolId(0, 0)));
            open_ = true;
        }
    }

    int device_;
    History &history_;
    std::vector<TorchSegmentInfo> *segments_;
    uintptr_t end_ = 0; /* of what was written so far */
    bool open_ = false; /* the last segment may grow */
};

void Allocator::pool_segments(Heap &heap, std::vector<TorchSegmentInfo> *segments) {
    SegmentWriter writer(heap.ordinal(), history_, segments);
    size_t first = segments->size();
    for (const Block &block : Heap::table().blocks(heap.ordinal())) {
        if (block.source == Source::POOL) {
            writer.block(block);
        }
    }
    writer.close();
    uint64_t shown = 0;
    for (size_t i = first; i < segments->size(); i++) {
        shown += (*segments)[i].total_size;
    }
    for (const auto &pool : heap.pools()) {
        for (const SegmentInfo &segment : pool->segments()) {
            shown += segment.size;
        }
    }
    uint64_t reserved = static_cast<uint64_t>(heap.reserved().bytes.current);
    if (reserved > shown) {
        segments->push_back(
            new_segment(heap.ordinal(), writer.end() + GRANULE, nullptr, true, PoolId(0, 0)));
        add_block(&segments->back(), reserved - shown, 0, false, false, nullptr);
    }
}

void Allocator::private_segments(Heap &heap, PrivatePool &pool,
                                 std::vector<TorchSegmentInfo> *segments) {
    for (const SegmentInfo &info : pool.segments()) {
        segments->push_back(
            new_segment(heap.ordinal(), info.addr, info.stream, !info.small, pool.id()));
        set_registration(&segments->back(), info.number, 0);
        for (const PartInfo &part : info.parts) {
            add_block(&segments->back(), part.size, part.requested, part.live,
                      part.live || part.pending,
                      part.live ? history_.context_of(part.addr) : nullptr);
        }
    }
}

cca::SnapshotInfo Allocator::make_snapshot(MempoolId id, bool traces) {
    cca::SnapshotInfo snapshot;
    auto to_ns = clock_.makeConverter();
    int devices = device_count_.load();
    for (int device = 0; device < devices && device < DEVICES_MAX; device++) {
        Heap *heap = heap_if_made(device);
        snapshot.device_traces.emplace_back();
        if (heap == nullptr) {
            continue;
        }
        if (id == MempoolId(0, 0)) {
            pool_segments(*heap, &snapshot.segments);
        }
        for (const auto &pool : heap->pools()) {
            if (id == MempoolId(0, 0) || pool->id() == id) {
                private_segments(*heap, *pool, &snapshot.segments);
            }
        }
        if (traces) {
            snapshot.device_traces.back() = history_.entries(device);
        }
        if (history_.active()) {
            history_.event(HistoryEvent{TraceEntry::SNAPSHOT, device, 0,
                                        static_cast<uint64_t>(heap->reserved().bytes.current),
                                        nullptr, PoolId(0, 0)},
                           nullptr);
        }
        for (TraceEntry &entry : snapshot.device_traces.back()) {
            entry.time_.t_ = to_ns(entry.time_.approx_t_) / 1000;
        }
    }
    if (traces) {
        snapshot.external_annotations = history_.annotations();
        for (AnnotationEntry &entry : snapshot.external_annotations) {
            entry.time_.t_ = to_ns(entry.time_.approx_t_) / 1000;
        }
    }
    cca::AllocatorConfigInfo &config = snapshot.config_metadata;
    config = cca::AllocatorConfigInfo();
    config.max_split_size = static_cast<size_t>(-1);
    config.last_allocator_settings = "vram.torch";
    return snapshot;
}

#if VRAM_TORCH_SNAPSHOT_TRACES
cca::SnapshotInfo Allocator::snapshot(MempoolId id, bool traces) {
    return make_snapshot(id, traces);
}
#else
cca::SnapshotInfo Allocator::snapshot(MempoolId id) {
    return make_snapshot(id, true);
}
#endif

#if VRAM_TORCH_SKIPS_ACTIONS
void Allocator::recordHistory(bool enabled, CreateContextFn recorder, size_t max_entries,
                              RecordContext when, bool clear,
                              const std::vector<std::string> &skip) {
    history_.configure(enabled, recorder, max_entries, when, clear, skip);
}
#else
void Allocator::recordHistory(bool enabled, CreateContextFn recorder, size_t max_entries,
                              RecordContext when, bool clear) {
    history_.configure(enabled, recorder, max_entries, when, clear, {});
}
#endif

void Allocator::recordAnnotation(const std::vector<std::pair<std::string, std::string>> &pairs) {
    c10::DeviceIndex device = 0;
    if (history_.enabled() && c10::cuda::GetDevice(&device) == cudaSuccess) {
        history_.annotate(device, pairs);
    }
}

/* NCCL attaches a tracker before it registers the segments of a MemPool. */
void Allocator::attachAllocatorTraceTracker(AllocatorTraceTracker tracker) {
    history_.track(std::move(tracker));
    std::lock_guard<std::mutex> guard(mutex_);
    for (std::atomic<Heap *> &heap : heaps_) {
        if (heap.load() != nullptr) {
            heap.load()->segments_pin();
        }
    }
}

} // namespace vram_torch

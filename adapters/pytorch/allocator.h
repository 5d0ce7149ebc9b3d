/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's CUDA allocator over libvram: c10::cuda::CUDACachingAllocator::CUDAAllocator, whole. One
 * heap (heap.h) for each device, made at its first allocation and kept until the process ends.
 *
 * The path of a hit: current device and stream, a lookup of the stream's queue, vram_alloc, an
 * entry in the table of blocks, and PyTorch's counters.
 */
#ifndef VRAM_TORCH_ALLOCATOR_H
#define VRAM_TORCH_ALLOCATOR_H

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <c10/util/ApproximateClock.h>

#include "event_history.h"
#include "heap.h"
#include "shared_blocks.h"
#include "torch_versions.h"

namespace vram_torch {

enum { DEVICES_MAX = 64 };

class Allocator final : public cca::CUDAAllocator {
  public:
    /* The one of the process; made by the first call and never destroyed. */
    static Allocator &get();

    /* Before the first allocation; false after it if something would change. */
    bool choose(bool moving, bool sharing);
    bool used(); /* whether there is a heap */

    /* ---- c10::Allocator */
    c10::DataPtr allocate(size_t size) override;
    c10::DeleterFnPtr raw_deleter() const override;
    void copy_data(void *to, const void *from, size_t count) const override;

    /* ---- allocation */
    void *raw_alloc(size_t size) override;
    void *raw_alloc_with_stream(size_t size, cudaStream_t stream) override;
    void raw_delete(void *pointer) override;
    void recordStream(const c10::DataPtr &pointer, c10::cuda::CUDAStream stream) override;
    void enable(bool value) override { enabled_.store(value); }
    bool isEnabled() const override { return enabled_.load(); }

    /* ---- life and limits */
    void init(int device_count) override;
    /* From the first moment: PyTorch lets nobody replace an allocator that is. */
    bool initialized() override { return true; }
    double getMemoryFraction(c10::DeviceIndex device) override;
    void setMemoryFraction(double fraction, c10::DeviceIndex device) override;
    void emptyCache(MempoolId id) override;
    void cacheInfo(c10::DeviceIndex device, size_t *largest) override;
    void *getBaseAllocation(void *pointer, size_t *size) override;
    void enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex peer) override;
    cudaError_t memcpyAsync(void *to, int to_device, const void *from, int from_device,
                            size_t count, cudaStream_t stream, bool peer) override;
    std::string name() override { return "vram"; }

    /* ---- statistics */
    c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override;
    void resetAccumulatedStats(c10::DeviceIndex device) override;
    void resetPeakStats(c10::DeviceIndex device) override;

    /* ---- private pools */
    void beginAllocateToPool(c10::DeviceIndex device, MempoolId id,
                             std::function<bool(cudaStream_t)> filter) override;
    void endAllocateToPool(c10::DeviceIndex device, MempoolId id) override;
    void releasePool(c10::DeviceIndex device, MempoolId id) override;
    int getPoolUseCount(c10::DeviceIndex device, MempoolId id) override;
    bool checkPoolLiveAllocations(c10::DeviceIndex device, MempoolId id,
                                  const std::unordered_set<void *> &expected) override;
    std::shared_ptr<cca::AllocatorState> getCheckpointState(c10::DeviceIndex device,
                                                            MempoolId id) override;
    cca::CheckpointDelta
    setCheckpointPoolState(c10::DeviceIndex device,
                           std::shared_ptr<cca::AllocatorState> state) override;
#if VRAM_TORCH_POOL_OWNS
    void createOrIncrefPool(c10::DeviceIndex device, MempoolId id,
                            std::shared_ptr<cca::CUDAAllocator> source) override;
#else
    void createOrIncrefPool(c10::DeviceIndex device, MempoolId id,
                            cca::CUDAAllocator *source) override;
#endif
#if VRAM_TORCH_USE_ON_OOM_FLAG
    void setUseOnOOM(c10::DeviceIndex device, MempoolId id, bool value) override;
#else
    void setUseOnOOM(c10::DeviceIndex device, MempoolId id) override;
#endif
#if VRAM_TORCH_NO_SPLIT
    void setNoSplit(c10::DeviceIndex device, MempoolId id) override;
#endif
#if VRAM_TORCH_SEGMENT_SIZES
    std::vector<cca::StreamSegmentSize> getExpandableSegmentSizes(c10::DeviceIndex) override {
        return {}; /* PyTorch's expandable segments: there are none */
    }
#endif

    /* ---- history and snapshots */
    bool isHistoryEnabled() override {
        return history_.enabled();
    }
#if VRAM_TORCH_SKIPS_ACTIONS
    void recordHistory(bool enabled, CreateContextFn recorder, size_t max_entries,
                       RecordContext when, bool clear,
                       const std::vector<std::string> &skip) override;
#else
    void recordHistory(bool enabled, CreateContextFn recorder, size_t max_entries,
                       RecordContext when, bool clear) override;
#endif
#if VRAM_TORCH_SNAPSHOT_TRACES
    cca::SnapshotInfo snapshot(MempoolId id, bool traces) override;
#else
    cca::SnapshotInfo snapshot(MempoolId id) override;
#endif
    void recordAnnotation(const std::vector<std::pair<std::string, std::string>> &pairs) override;
    void pushCompileContext(std::string &text) override {
        History::compile_push(text);
    }
    void popCompileContext() override {
        History::compile_pop();
    }
#if VRAM_TORCH_USER_METADATA
    void setUserMetadata(const std::string &text) override {
        history_.metadata_set(text);
    }
    std::string getUserMetadata() override {
        return history_.metadata();
    }
#endif
#if VRAM_TORCH_ANNOTATES
    bool supportsUserMetadata() override {
        return true;
    }
#endif
#if VRAM_TORCH_CONTEXT_OF_POINTER
    std::shared_ptr<GatheredContext> getContextForPointer(const void *pointer) override {
        return history_.context_of(reinterpret_cast<uintptr_t>(pointer));
    }
#endif
    void attachOutOfMemoryObserver(cca::OutOfMemoryObserver observer) override;
    void attachAllocatorTraceTracker(AllocatorTraceTracker tracker) override;
#if VRAM_TORCH_REJECTION_OBSERVER
    /* Called for requests that a policy of PyTorch's own allocator rejects; there is none here. */
    void attachOomRejectionObserver(cca::OomRejectionObserver) override {}
#endif

    /* ---- other processes */
    cca::ShareableHandle shareIpcHandle(void *pointer) override;
    std::shared_ptr<void> getIpcDevPtr(std::string handle) override;

    /* ---- for the rest of the adapter */

    /* The heap of a device, made if there is none yet. Throws c10::Error. */
    Heap &heap(int device);
    Heap *heap_if_made(int device) {
        return heaps_[device].load(std::memory_order_acquire);
    }
    History &history() {
        return history_;
    }
    /* Bytes that stay free on every device. */
    vram_status margin_set(uint64_t bytes);

  private:
    void *alloc(int device, size_t size, const c10::cuda::CUDAStream &stream);
    /* `lasting`: the stream is never destroyed. */
    void *alloc(int device, size_t size, void *stream, bool lasting);
    void *alloc_uncached(int device, size_t size, void *stream);
    [[noreturn]] void fail(Heap &heap, size_t size, vram_status status);
    [[noreturn]] void out_of_memory(Heap &heap, size_t size);
    Heap *make_heap(int device);
    std::shared_ptr<PrivatePool> find_pool(int device, MempoolId id);
    void report_use(const Block &block, Heap &heap, bool allocated);
    void hold_pool(int device, MempoolId id, std::shared_ptr<cca::CUDAAllocator> source);

    cca::SnapshotInfo make_snapshot(MempoolId id, bool traces);
    void pool_segments(Heap &heap, std::vector<TorchSegmentInfo> *segments);
    void private_segments(Heap &heap, PrivatePool &pool, std::vector<TorchSegmentInfo> *segments);

    std::mutex mutex_;    /* of making heaps, of options, and of the observers */
    bool moving_ = true;  /* memory comes in handles that may move, else in segments */
    bool sharing_ = true; /* other processes may open it */
    std::atomic<Heap *> heaps_[DEVICES_MAX] = {};
    std::atomic<int> device_count_{0};
    uint64_t margin_ = 0; /* of heaps to be made; under mutex_ */
    std::atomic<bool> enabled_{true};
    History history_;
    c10::ApproximateClockToUnixTimeConverter clock_; /* older than any event: others have no time */
    std::vector<cca::OutOfMemoryObserver> observers_;
    ExportedBlocks exported_;
    OpenedBlocks opened_;
};

/* Whether a stream that exists is being captured. */
bool is_captured(void *stream);

/* Whether it is one of PyTorch's own streams, which are never destroyed. */
bool stream_lasts(const c10::cuda::CUDAStream &stream);

/* What a graph that is being captured looks like, while PyTorch's setting
   graph_capture_record_stream_reuse is on. */
CaptureGraph capture_graph();

/* The tag of allocations of this thread, and of autograd's threads that work for it; NULL: none. */
const char *current_tag();

/* Throw a c10::Error: with the thread's error record of libvram, or with the text alone. */
[[noreturn]] void throw_error(const std::string &what);
[[noreturn]] void throw_text(const std::string &text);

} // namespace vram_torch

#endif

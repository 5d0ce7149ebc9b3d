/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's private pools: torch.cuda.graph, torch.cuda.MemPool, and the checkpoints with which
 * torch.compile(mode="reduce-overhead") brings a pool back to the state of an earlier capture.
 */
#include "allocator.h"

#include <algorithm>

#include <dlfcn.h>

namespace vram_torch {

struct PoolState : public cca::AllocatorState {
    Checkpoint checkpoint;
};

std::shared_ptr<PrivatePool> Allocator::find_pool(int device, MempoolId id) {
    std::shared_ptr<PrivatePool> pool = heap(device).pool_find(id);
    if (pool == nullptr) {
        throw_text("could not find private pool (" + std::to_string(id.first) + ", " +
                   std::to_string(id.second) + ")");
    }
    return pool;
}

/* ---------------------------------------------------------------------- routes */

void Allocator::beginAllocateToPool(c10::DeviceIndex device, MempoolId id,
                                    std::function<bool(cudaStream_t)> filter) {
    Heap &heap = this->heap(device);
    heap.pool_hold(id);
    c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream(device);
    bool begun = heap.route_begin(
        id, [filter](void *stream) { return filter(static_cast<cudaStream_t>(stream)); },
        stream_lasts(current) ? current.stream() : nullptr);
    if (!begun) {
        heap.pool_release(id);
        throw_text("beginAllocateToPool: already recording to this pool");
    }
}

void Allocator::endAllocateToPool(c10::DeviceIndex device, MempoolId id) {
    if (!heap(device).route_end(id)) {
        throw_text("endAllocateToPool: not recording to this pool");
    }
}

void Allocator::releasePool(c10::DeviceIndex device, MempoolId id) {
    Heap *heap = heap_if_made(device);
    if (heap == nullptr || !heap->pool_release(id)) {
        throw_text("releasePool: nobody holds this pool");
    }
}

int Allocator::getPoolUseCount(c10::DeviceIndex device, MempoolId id) {
    return heap(device).pool_uses(id);
}

/* ---------------------------------------------------------------------- MemPools */

/* `source` allocates the segments, if there is one; the pool keeps it alive. */
void Allocator::hold_pool(int device, MempoolId id, std::shared_ptr<cca::CUDAAllocator> source) {
    SegmentSource segments;
    if (source != nullptr && source.get() != this) {
        segments.alloc = [source](uint64_t bytes, bool, uintptr_t *addr) {
            void *pointer = source->raw_alloc(bytes);
            *addr = reinterpret_cast<uintptr_t>(pointer);
            if (pointer != nullptr) {
                return VRAM_OK;
            }
            vram_error error = {};
            error.status = VRAM_ERR_DEVICE_MEMORY;
            error.backend = error.operation = "";
            snprintf(error.text, sizeof error.text,
                     "the allocator of a MemPool returned no memory for %llu bytes",
                     static_cast<unsigned long long>(bytes));
            return vram_error_set(&error);
        };
        segments.free = [source](uintptr_t addr, uint64_t, bool) {
            source->raw_delete(reinterpret_cast<void *>(addr));
        };
    }
    heap(device).pool_hold(id, std::move(segments));
}

#if VRAM_TORCH_POOL_OWNS
void Allocator::createOrIncrefPool(c10::DeviceIndex device, MempoolId id,
                                   std::shared_ptr<cca::CUDAAllocator> source) {
    hold_pool(device, id, std::move(source));
}
#else
void Allocator::createOrIncrefPool(c10::DeviceIndex device, MempoolId id,
                                   cca::CUDAAllocator *source) {
    hold_pool(device, id, std::shared_ptr<cca::CUDAAllocator>(source, [](cca::CUDAAllocator *) {}));
}
#endif

#if VRAM_TORCH_USE_ON_OOM_FLAG
void Allocator::setUseOnOOM(c10::DeviceIndex device, MempoolId id, bool value) {
    find_pool(device, id)->use_on_oom = value;
}
#else
void Allocator::setUseOnOOM(c10::DeviceIndex device, MempoolId id) {
    find_pool(device, id)->use_on_oom = true;
}
#endif

#if VRAM_TORCH_NO_SPLIT
void Allocator::setNoSplit(c10::DeviceIndex device, MempoolId id) {
    find_pool(device, id)->no_split = true;
}
#endif

/* ----------------------------------------------------------- graphs that grow */

/* CUDA 12 has these calls with edges under names of their own, CUDA 13 under the plain names. */
template <typename Call> static Call find_call(const char *cuda12, const char *cuda13) {
    void *found = dlsym(RTLD_DEFAULT, cuda12);
    return reinterpret_cast<Call>(found != nullptr ? found : dlsym(RTLD_DEFAULT, cuda13));
}

using Edge = uint64_t; /* cudaGraphEdgeData; not 0: the work may begin before the other ends */

static uint64_t capture_ends(void *stream, std::vector<void *> *nodes) {
    using Call = cudaError_t (*)(cudaStream_t, cudaStreamCaptureStatus *, unsigned long long *,
                                 cudaGraph_t *, void *const **, const Edge **, size_t *);
    static const Call call =
        find_call<Call>("cudaStreamGetCaptureInfo_v3", "cudaStreamGetCaptureInfo");
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long id = 0;
    void *const *ends = nullptr;
    const Edge *edges = nullptr;
    size_t count = 0;
    if (!configured_reuse() || call == nullptr) {
        return 0;
    }
    if (call(static_cast<cudaStream_t>(stream), &status, &id, nullptr, &ends, &edges, &count) !=
        cudaSuccess) {
        cudaGetLastError(); /* it is not the program's */
        return 0;
    }
    if (status != cudaStreamCaptureStatusActive ||
        (edges != nullptr && std::any_of(edges, edges + count, [](Edge e) { return e != 0; }))) {
        return 0;
    }
    nodes->insert(nodes->end(), ends, ends + count);
    return id;
}

static std::vector<void *> nodes_before(void *node) {
    using Call = cudaError_t (*)(void *, void **, Edge *, size_t *);
    static const Call call =
        find_call<Call>("cudaGraphNodeGetDependencies_v2", "cudaGraphNodeGetDependencies");
    size_t count = 0;
    std::vector<void *> nodes, kept;
    if (call == nullptr || call(node, nullptr, nullptr, &count) != cudaSuccess) {
        cudaGetLastError();
        return kept;
    }
    nodes.resize(count);
    std::vector<Edge> edges(count);
    if (count != 0 && call(node, nodes.data(), edges.data(), &count) != cudaSuccess) {
        cudaGetLastError();
        return kept;
    }
    for (size_t i = 0; i < count; i++) {
        if (edges[i] == 0) {
            kept.push_back(nodes[i]);
        }
    }
    return kept;
}

CaptureGraph capture_graph() {
    return CaptureGraph{capture_ends, nodes_before};
}

/* -------------------------------------------------------------------- checkpoints */

bool Allocator::checkPoolLiveAllocations(c10::DeviceIndex device, MempoolId id,
                                         const std::unordered_set<void *> &expected) {
    return find_pool(device, id)->live_equals(expected);
}

std::shared_ptr<cca::AllocatorState> Allocator::getCheckpointState(c10::DeviceIndex device,
                                                                   MempoolId id) {
    auto state = std::make_shared<PoolState>();
    state->checkpoint = find_pool(device, id)->checkpoint();
    return state;
}

cca::CheckpointDelta Allocator::setCheckpointPoolState(c10::DeviceIndex device,
                                                       std::shared_ptr<cca::AllocatorState> state) {
    auto *own = dynamic_cast<PoolState *>(state.get());
    if (own == nullptr) {
        throw_text("this checkpoint was not made by vram.torch");
    }
    find_pool(device, own->checkpoint.id);
    Context context = history_.active() ? history_.gather(RecordContext::STATE) : nullptr;
    Restored restored;
    vram_status status = heap(device).restore(own->checkpoint, &restored);
    if (status == VRAM_ERR_BUSY) {
        throw_text("a block of the pool was freed, but a stream still uses it (record_stream)");
    }
    if (status != VRAM_OK) {
        throw_text("a segment of the checkpoint does not exist any more");
    }
    cca::CheckpointDelta delta;
    for (const PartInfo &part : restored.freed) {
        delta.ptrs_freed.push_back(reinterpret_cast<void *>(part.addr));
    }
    for (const PartInfo &part : restored.allocated) {
        void *pointer = reinterpret_cast<void *>(part.addr);
        delta.dataptrs_allocd.emplace_back(pointer, pointer, raw_deleter(),
                                           c10::Device(c10::DeviceType::CUDA, device));
        Block block;
        if (history_.active() && Heap::table().find(part.addr, &block)) {
            history_.allocated(block, context);
        }
    }
    return delta;
}

} // namespace vram_torch

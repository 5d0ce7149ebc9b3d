/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What differs between the versions of PyTorch in c10::cuda::CUDACachingAllocator::CUDAAllocator.
 * Everything else here is written once; a new version of PyTorch is a change of this file.
 */
#ifndef VRAM_TORCH_VERSIONS_H
#define VRAM_TORCH_VERSIONS_H

#if __has_include(<torch/headeronly/version.h>)
#include <torch/headeronly/version.h> /* 2.10 and later */
#else
#include <torch/version.h>
#endif

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#if TORCH_VERSION_MINOR >= 11
#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDAAllocatorConfig.h>
#endif

#if TORCH_VERSION_MAJOR != 2 || TORCH_VERSION_MINOR < 8
#error "adapters/pytorch needs PyTorch 2.8 or later"
#endif

namespace vram_torch {

namespace cca = c10::cuda::CUDACachingAllocator;

/* 2.11 moved these from c10::cuda::CUDACachingAllocator to c10::CachingDeviceAllocator. */
#if TORCH_VERSION_MINOR >= 11
using c10::CachingDeviceAllocator::AnnotationEntry;
#else
using cca::AnnotationEntry;
#endif
using cca::AllocatorTraceTracker;
using cca::BlockInfo;
using cca::CreateContextFn;
using cca::RecordContext;
using TorchSegmentInfo = cca::SegmentInfo;
using c10::GatheredContext;
using cca::TraceEntry;
using MempoolId = c10::cuda::MempoolId_t;

/* Streams in entries: cudaStream_t until 2.10, void * from 2.11. */
using StreamField = decltype(TorchSegmentInfo::stream);

/* 2.11: torch.cuda.memory._snapshot(include_traces=...), _record_memory_history(skip_actions=...),
   MemPools that own their allocator, and use_on_oom that can be turned off again. */
#define VRAM_TORCH_SKIPS_ACTIONS   (TORCH_VERSION_MINOR >= 11)
#define VRAM_TORCH_POOL_OWNS       (TORCH_VERSION_MINOR >= 11)
#define VRAM_TORCH_USE_ON_OOM_FLAG (TORCH_VERSION_MINOR >= 11)
#define VRAM_TORCH_SNAPSHOT_TRACES (TORCH_VERSION_MINOR >= 11)

/* 2.10: MemPool(no_split=...), user metadata in traces, sizes of expandable segments. */
#define VRAM_TORCH_NO_SPLIT      (TORCH_VERSION_MINOR >= 10)
#define VRAM_TORCH_USER_METADATA (TORCH_VERSION_MINOR >= 10)
#define VRAM_TORCH_SEGMENT_SIZES (TORCH_VERSION_MINOR >= 10)

/* 2.12, 2.13 and 2.14; other later additions have defaults that fit. */
#define VRAM_TORCH_ANNOTATES          (TORCH_VERSION_MINOR >= 14)
#define VRAM_TORCH_REJECTION_OBSERVER (TORCH_VERSION_MINOR >= 12)
#define VRAM_TORCH_CONTEXT_OF_POINTER (TORCH_VERSION_MINOR >= 13)

/* 2.11: settings of PYTORCH_ALLOC_CONF that are followed here. Before, they are ignored. */
inline double configured_fraction() {
#if TORCH_VERSION_MINOR >= 11
    return cca::CUDAAllocatorConfig::per_process_memory_fraction();
#else
    return 1;
#endif
}

inline bool configured_reuse() {
#if TORCH_VERSION_MINOR >= 11
    return cca::CUDAAllocatorConfig::graph_capture_record_stream_reuse();
#else
    return false;
#endif
}

inline size_t configured_divisions(size_t size) {
#if TORCH_VERSION_MINOR >= 11
    return c10::CachingAllocator::AcceleratorAllocatorConfig::roundup_power2_divisions(size);
#else
    (void)size;
    return 0;
#endif
}

/* 2.11: the order in which NCCL registers the segments of a pool; less than 0: never. */
template <typename Segment>
auto set_registration(Segment *segment, int number, int)
    -> decltype(segment->registration_counter = number, void()) {
    segment->registration_counter = number;
}
template <typename Segment> void set_registration(Segment *, int, long) {}

inline TraceEntry make_trace_entry(TraceEntry::Action action, int device, size_t addr, size_t size,
                                   void *stream, const MempoolId &pool,
                                   std::shared_ptr<GatheredContext> context,
                                   const std::string &compiled, const std::string &metadata) {
    (void)metadata;
    return TraceEntry(action, static_cast<c10::DeviceIndex>(device), addr, size,
                      static_cast<StreamField>(stream), pool, c10::getApproximateTime(),
                      std::move(context), compiled
#if VRAM_TORCH_USER_METADATA
                      ,
                      metadata
#endif
    );
}

} // namespace vram_torch

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch.cuda.memory._record_memory_history: the last events of each device, with the stacks that
 * PyTorch gathers, and whoever wants to see each event (attachAllocatorTraceTracker).
 *
 * The pool of libvram maps memory by its own rules, so events of segments are made here: a granule
 * (2 MiB) in which a block appears is a segment_map; a granule without blocks after a trim is a
 * segment_unmap. This is what the snapshot shows as segments, too. Private pools have whole
 * segments: a segment_alloc with the first block that is seen in one, a segment_free before its
 * memory goes back. NCCL registers segments by these two.
 *
 * Stacks are gathered with no lock held, because PyTorch takes Python's lock for them.
 */
#ifndef VRAM_TORCH_EVENT_HISTORY_H
#define VRAM_TORCH_EVENT_HISTORY_H

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "live_blocks.h"
#include "private_pool.h"
#include "torch_versions.h"

namespace vram_torch {

using Context = std::shared_ptr<GatheredContext>;

enum : uintptr_t { GRANULE = UINT64_C(2) << 20 };

struct HistoryEvent {
    TraceEntry::Action action;
    int device;
    uintptr_t addr;
    uint64_t size;
    void *stream;
    PoolId pool;
};

class History {
  public:
    /* Whether anybody wants events: one load on the path of every allocation. Stacks of live blocks
       outlast the recording, as in PyTorch. */
    bool active() const { return active_.load(std::memory_order_relaxed); }
    bool enabled() const { return enabled_.load(); }

    void configure(bool enabled, CreateContextFn recorder, size_t max_entries, RecordContext when,
                   bool clear, const std::vector<std::string> &skip);
    void track(AllocatorTraceTracker tracker);
    bool tracked();
    /* The stack of the caller, if stacks of that level are wanted. */
    Context gather(RecordContext level) const;

    void allocated(const Block &block, Context context);
    void freed(const Block &block, Context context);
    /* A segment of a private pool is about to go back. Throws what a tracker throws. */
    void segment_freed(int device, uintptr_t addr, uint64_t size, PoolId pool);
    void event(const HistoryEvent &event, Context context);
    /* After a trim, with what is live now: segments that are gone. */
    void trimmed(int device, const std::vector<std::pair<uintptr_t, uintptr_t>> &kept,
                 Context context);

    /* Copies for a snapshot. */
    std::vector<TraceEntry> entries(int device);
    std::vector<AnnotationEntry> annotations();
    Context context_of(uintptr_t addr);

    void annotate(int device, const std::vector<std::pair<std::string, std::string>> &pairs);
    void metadata_set(const std::string &text);
    std::string metadata();

    /* The names of regions of torch.compile, a stack for each thread. */
    static void compile_push(const std::string &text);
    static void compile_pop();

  private:
    void add(const HistoryEvent &event, const Context &context); /* with mutex_ held */
    bool wanted() const { return enabled_.load() || !trackers_.empty(); }
    void map_granules(const Block &block, const Context &context);
    void map_segment(const Block &block, const Context &context);
    void forget(uintptr_t addr); /* with mutex_ held */
    /* Also while blocks live whose stacks a snapshot still shows. */
    void update_active() { active_.store(wanted() || !contexts_.empty()); }

    std::atomic<bool> active_{false}, enabled_{false};
    std::atomic<CreateContextFn> recorder_{nullptr};
    std::atomic<int> when_{0}; /* RecordContext */

    std::mutex mutex_; /* of all below */
    size_t max_entries_ = 1;
    std::unordered_set<int> skipped_; /* actions */
    std::map<int, std::deque<TraceEntry>> entries_;
    std::map<int, std::set<uintptr_t>> granules_; /* by device: addr / GRANULE */
    std::set<uintptr_t> segments_; /* of private pools, whose segment_alloc was told */
    std::unordered_map<uintptr_t, Context> contexts_; /* of live blocks */
    std::vector<AnnotationEntry> annotations_;
    std::vector<AllocatorTraceTracker> trackers_;
    std::string metadata_;
};

} // namespace vram_torch

#endif

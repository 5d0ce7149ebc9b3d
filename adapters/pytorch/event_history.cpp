/* SPDX-License-Identifier: Apache-2.0 */
#include "event_history.h"

namespace vram_torch {

static std::vector<std::string> &compile_stack() {
    static thread_local std::vector<std::string> stack;
    return stack;
}

void History::compile_push(const std::string &text) {
    compile_stack().push_back(text);
}

void History::compile_pop() {
    if (!compile_stack().empty()) {
        compile_stack().pop_back();
    }
}

static int action_number(const std::string &name) {
    static const std::pair<const char *, TraceEntry::Action> names[] = {
        {"alloc", TraceEntry::ALLOC},
        {"free_requested", TraceEntry::FREE_REQUESTED},
        {"free_completed", TraceEntry::FREE_COMPLETED},
        {"segment_alloc", TraceEntry::SEGMENT_ALLOC},
        {"segment_free", TraceEntry::SEGMENT_FREE},
        {"segment_map", TraceEntry::SEGMENT_MAP},
        {"segment_unmap", TraceEntry::SEGMENT_UNMAP},
        {"snapshot", TraceEntry::SNAPSHOT},
        {"oom", TraceEntry::OOM},
    };
    for (const auto &entry : names) {
        if (name == entry.first) {
            return entry.second;
        }
    }
    return -1;
}

void History::configure(bool enabled, CreateContextFn recorder, size_t max_entries,
                        RecordContext when, bool clear, const std::vector<std::string> &skip) {
    std::lock_guard<std::mutex> guard(mutex_);
    enabled_.store(enabled);
    recorder_.store(enabled ? recorder : nullptr);
    when_.store(enabled ? static_cast<int>(when) : 0);
    max_entries_ = max_entries > 0 ? max_entries : 1;
    skipped_.clear();
    for (const std::string &name : skip) {
        skipped_.insert(action_number(name));
    }
    if (!enabled || clear) {
        entries_.clear();
        annotations_.clear();
    }
    if (!enabled) {
        granules_.clear();
    }
    update_active();
}

void History::track(AllocatorTraceTracker tracker) {
    std::lock_guard<std::mutex> guard(mutex_);
    trackers_.push_back(std::move(tracker));
    update_active();
}

bool History::tracked() {
    std::lock_guard<std::mutex> guard(mutex_);
    return !trackers_.empty();
}

Context History::gather(RecordContext level) const {
    CreateContextFn recorder = recorder_.load();
    if (recorder == nullptr || when_.load() < static_cast<int>(level)) {
        return nullptr;
    }
    return recorder();
}

/* ---------------------------------------------------------------------- events */

void History::add(const HistoryEvent &event, const Context &context) {
    bool stacks = when_.load() >= static_cast<int>(RecordContext::ALLOC);
    TraceEntry entry =
        make_trace_entry(event.action, event.device, event.addr, event.size, event.stream,
                         event.pool, stacks ? context : nullptr,
                         compile_stack().empty() ? "N/A" : compile_stack().back(), metadata_);
    for (const AllocatorTraceTracker &tracker : trackers_) {
        tracker(entry);
    }
    if (!enabled_.load() || skipped_.count(event.action) != 0) {
        return;
    }
    std::deque<TraceEntry> &entries = entries_[event.device];
    while (entries.size() >= max_entries_) {
        entries.pop_front();
    }
    entries.push_back(std::move(entry));
}

static PoolId pool_of(const Block &block) {
    return block.owner != nullptr ? block.owner->id() : PoolId(0, 0);
}

/* One event for each run of granules that had no block before. */
void History::map_granules(const Block &block, const Context &context) {
    std::set<uintptr_t> &known = granules_[block.device];
    uintptr_t first = block.addr / GRANULE, end = (block.addr + block.held - 1) / GRANULE + 1;
    uintptr_t from = first;
    for (uintptr_t granule = first; granule <= end; granule++) {
        if (granule < end && known.insert(granule).second) {
            continue;
        }
        if (granule > from) {
            add(HistoryEvent{TraceEntry::SEGMENT_MAP, block.device, from * GRANULE,
                             (granule - from) * GRANULE, block.stream, pool_of(block)},
                context);
        }
        from = granule + 1;
    }
}

/* Segments are told late, after all locks of pools are released, but before anybody can free one:
   its first block has not been handed out yet. */
void History::map_segment(const Block &block, const Context &context) {
    uintptr_t base = 0;
    uint64_t size = 0;
    if (block.owner->segment_of(block.addr, &base, &size) && segments_.count(base) == 0) {
        add(HistoryEvent{TraceEntry::SEGMENT_ALLOC, block.device, base, size, block.stream,
                         pool_of(block)},
            context);
        segments_.insert(base);
    }
}

void History::segment_freed(int device, uintptr_t addr, uint64_t size, PoolId pool) {
    std::lock_guard<std::mutex> guard(mutex_);
    add(HistoryEvent{TraceEntry::SEGMENT_FREE, device, addr, size, nullptr, pool}, nullptr);
    segments_.erase(addr);
}

void History::allocated(const Block &block, Context context) {
    std::lock_guard<std::mutex> guard(mutex_);
    forget(block.addr); /* of a block that a checkpoint took back */
    if (!wanted()) {
        return;
    }
    if (block.owner != nullptr) {
        map_segment(block, context);
    } else {
        map_granules(block, context);
    }
    add(HistoryEvent{TraceEntry::ALLOC, block.device, block.addr, block.requested, block.stream,
                     pool_of(block)},
        context);
    if (context != nullptr) {
        contexts_[block.addr] = std::move(context);
    }
}

void History::freed(const Block &block, Context context) {
    std::lock_guard<std::mutex> guard(mutex_);
    for (TraceEntry::Action action : {TraceEntry::FREE_REQUESTED, TraceEntry::FREE_COMPLETED}) {
        add(HistoryEvent{action, block.device, block.addr, block.requested, block.stream,
                         pool_of(block)},
            context);
    }
    forget(block.addr);
}

void History::forget(uintptr_t addr) {
    if (contexts_.erase(addr) != 0) {
        update_active();
    }
}

void History::event(const HistoryEvent &event, Context context) {
    std::lock_guard<std::mutex> guard(mutex_);
    add(event, context);
}

void History::trimmed(int device, const std::vector<std::pair<uintptr_t, uintptr_t>> &kept,
                      Context context) {
    std::lock_guard<std::mutex> guard(mutex_);
    std::set<uintptr_t> live, gone;
    for (const auto &range : kept) {
        for (uintptr_t granule = range.first / GRANULE; granule * GRANULE < range.second;
             granule++) {
            live.insert(granule);
        }
    }
    for (uintptr_t granule : granules_[device]) {
        if (live.count(granule) == 0) {
            gone.insert(granule);
        }
    }
    for (auto it = gone.begin(); it != gone.end();) {
        uintptr_t from = *it, end = from;
        for (; it != gone.end() && *it == end; ++it) {
            granules_[device].erase(end++);
        }
        add(HistoryEvent{TraceEntry::SEGMENT_UNMAP, device, from * GRANULE, (end - from) * GRANULE,
                         nullptr, PoolId(0, 0)},
            context);
    }
}

/* -------------------------------------------------------------------- snapshots */

std::vector<TraceEntry> History::entries(int device) {
    std::lock_guard<std::mutex> guard(mutex_);
    const std::deque<TraceEntry> &entries = entries_[device];
    return std::vector<TraceEntry>(entries.begin(), entries.end());
}

std::vector<AnnotationEntry> History::annotations() {
    std::lock_guard<std::mutex> guard(mutex_);
    return annotations_;
}

Context History::context_of(uintptr_t addr) {
    std::lock_guard<std::mutex> guard(mutex_);
    auto found = contexts_.find(addr);
    return found == contexts_.end() ? nullptr : found->second;
}

void History::annotate(int device, const std::vector<std::pair<std::string, std::string>> &pairs) {
    std::lock_guard<std::mutex> guard(mutex_);
    if (!enabled_.load()) {
        return;
    }
    AnnotationEntry entry(static_cast<c10::DeviceIndex>(device), c10::getApproximateTime());
    for (const auto &pair : pairs) {
        entry.recordUserMetadata(pair.first, pair.second);
    }
    if (annotations_.size() >= max_entries_) {
        annotations_.erase(annotations_.begin());
    }
    annotations_.push_back(std::move(entry));
}

void History::metadata_set(const std::string &text) {
    std::lock_guard<std::mutex> guard(mutex_);
    metadata_ = text;
}

std::string History::metadata() {
    std::lock_guard<std::mutex> guard(mutex_);
    return metadata_;
}

} // namespace vram_torch

/* SPDX-License-Identifier: Apache-2.0 */
#include "private_pool.h"

#include <algorithm>

namespace vram_torch {

static const uint64_t MIDDLE_MAX = UINT64_C(10) << 20;
static const uint64_t MIDDLE_SEGMENT = UINT64_C(20) << 20;

static uint64_t segment_size(uint64_t size) {
    if (size <= SMALL_MAX) {
        return SMALL_SEGMENT;
    }
    return size < MIDDLE_MAX ? MIDDLE_SEGMENT : round_up(size, SMALL_SEGMENT);
}

PrivatePool::~PrivatePool() {
    for (auto &entry : segments_) {
        for (Part *part = entry.second->first, *after; part != nullptr; part = after) {
            after = part->after;
            delete part;
        }
    }
}

/* ------------------------------------------------------------------ allocation */

PrivatePool::Part *PrivatePool::fit(uint64_t size, void *stream, bool small) {
    Segment kind{0, 0, stream, small, nullptr, 0};
    Part key;
    key.segment = &kind;
    key.stream = stream;
    key.size = size;
    auto found = free_.lower_bound(&key);
    if (found == free_.end() || (*found)->stream != stream || (*found)->segment->small != small) {
        return nullptr;
    }
    if (no_split && (*found)->size >= 2 * size && (*found)->size >= MIDDLE_SEGMENT) {
        return nullptr;
    }
    return *found;
}

PrivatePool::Part *PrivatePool::grow_segment(uint64_t size, void *stream, bool small,
                                             vram_status *status) {
    static std::atomic<int> numbers{0};
    std::unique_ptr<Segment> segment(new Segment{0, 0, stream, small, nullptr, numbers++});
    std::unique_ptr<Part> part(new Part());
    segment->size = no_split ? round_up(size, SMALL_SEGMENT) : segment_size(size);
    *status = source_.alloc(segment->size, small, &segment->addr);
    if (*status != VRAM_OK && segment->size > round_up(size, SMALL_SEGMENT)) {
        segment->size = round_up(size, SMALL_SEGMENT);
        *status = source_.alloc(segment->size, small, &segment->addr);
    }
    if (*status != VRAM_OK) {
        return nullptr;
    }
    part->addr = segment->addr;
    part->size = segment->size;
    part->stream = stream;
    part->segment = segment.get();
    segment->first = part.get();
    uintptr_t addr = segment->addr;
    segments_[addr] = std::move(segment);
    return part.release();
}

/* Cuts a part that is not in free_ after `size` bytes; the rest becomes free. */
PrivatePool::Part *PrivatePool::split(Part *part, uint64_t size) {
    uint64_t rest = part->size - size;
    if (no_split || rest < (part->segment->small ? UNIT : SMALL_MAX + 1)) {
        return part;
    }
    Part *after = new Part();
    after->addr = part->addr + size;
    after->size = rest;
    after->stream = part->stream;
    after->segment = part->segment;
    after->round = part->round;
    after->before = part;
    after->after = part->after;
    if (part->after != nullptr) {
        part->after->before = after;
    }
    part->after = after;
    part->size = size;
    free_.insert(after);
    return part;
}

vram_status PrivatePool::alloc(uint64_t size, void *stream, bool grow, uintptr_t *addr,
                               uint64_t *held, bool lasting) {
    uint64_t rounded = round_up(size, UNIT);
    bool small = rounded <= SMALL_MAX;
    vram_status status = VRAM_ERR_DEVICE_MEMORY;
    std::lock_guard<std::mutex> guard(mutex_);
    if (lasting) {
        settle_captured(stream);
    }
    settle_locked();
    Part *part = fit(rounded, stream, small);
    if (part != nullptr) {
        free_.erase(part);
    } else if (grow) {
        part = grow_segment(rounded, stream, small, &status);
    }
    if (part == nullptr) {
        return status;
    }
    part = split(part, rounded);
    part->live = true;
    part->lasting = lasting;
    part->requested = size;
    live_[part->addr] = part;
    *addr = part->addr;
    *held = part->size;
    return VRAM_OK;
}

/* --------------------------------------------------------------------- freeing */

/* Merges a part that is neither live nor pending with free neighbours. Keeps (2) and (3). */
void PrivatePool::make_free(Part *part) {
    part->live = part->pending = false;
    part->until_idle = false;
    part->requested = 0;
    part->uses.clear();
    part->points.clear();
    part->capture = 0;
    part->ends.clear();
    for (bool ahead : {false, true}) {
        Part *other = ahead ? part->after : part->before;
        if (other == nullptr || other->live || other->pending) {
            continue;
        }
        free_.erase(other);
        part->size += other->size;
        part->round = std::max(part->round, other->round);
        if (ahead) {
            part->after = other->after;
            if (part->after != nullptr) {
                part->after->before = part;
            }
        } else {
            part->addr = other->addr;
            part->before = other->before;
            if (part->before != nullptr) {
                part->before->after = part;
            } else {
                part->segment->first = part;
            }
        }
        delete other;
    }
    part->stream = part->segment->stream;
    free_.insert(part);
}

/* Makes points on the streams that use a part. Streams that are being captured stay in `uses`, and
   are asked again later. Returns whether none is left. */
bool PrivatePool::mark_uses(Part *part) {
    std::vector<void *> later;
    for (void *stream : part->uses) {
        vram_queue *queue = nullptr;
        vram_point point;
        vram_status status = source_.queue_of(stream, &queue);
        if (status == VRAM_OK) {
            status = vram_queue_mark(queue, &point);
        }
        if (status == VRAM_OK) {
            part->points.push_back(point);
        } else {
            later.push_back(stream);
        }
    }
    part->uses.swap(later);
    return part->uses.empty();
}

bool PrivatePool::points_passed(Part *part) {
    while (!part->points.empty() && vram_point_poll(part->points.back()) == VRAM_OK) {
        part->points.pop_back();
    }
    return part->points.empty();
}

/* Frees the pending parts for which `done` says so. */
template <typename F> void PrivatePool::settle_if(F done) {
    for (size_t i = 0; i < pending_.size();) {
        Part *part = pending_[i];
        if (!done(part)) {
            i++;
            continue;
        }
        pending_[i] = pending_.back();
        pending_.pop_back();
        uint64_t size = part->size, requested = part->requested;
        bool small = part->segment->small;
        make_free(part);
        if (idle) {
            idle(size, requested, small);
        }
    }
}

void PrivatePool::settle_locked() {
    settle_if(
        [this](Part *part) { return !part->until_idle && mark_uses(part) && points_passed(part); });
}

void PrivatePool::settle() {
    std::lock_guard<std::mutex> guard(mutex_);
    settle_locked();
}

bool PrivatePool::free(uintptr_t addr) {
    std::lock_guard<std::mutex> guard(mutex_);
    auto found = live_.find(addr);
    if (found == live_.end()) {
        return true;
    }
    Part *part = found->second;
    live_.erase(found);
    part->live = false;
    part->round = round_;
    mark_capture(part);
    bool marked = part->uses.empty() || mark_uses(part);
    if (part->until_idle || !marked || !points_passed(part)) {
        part->pending = true;
        pending_.push_back(part);
        return false;
    }
    make_free(part);
    return true;
}

/* --------------------------------------------------------------- during a capture */

/* Notes the end of the graph so far on all streams that use a part. Nothing, unless all of them
   take part in one capture. */
void PrivatePool::mark_capture(Part *part) {
    std::vector<void *> ends;
    if (part->uses.empty() || part->until_idle || !part->lasting || !source_.graph.ends_of) {
        return;
    }
    uint64_t capture = source_.graph.ends_of(part->stream, &ends);
    for (void *stream : part->uses) {
        if (capture == 0 || source_.graph.ends_of(stream, &ends) != capture) {
            return;
        }
    }
    part->capture = ends.empty() ? 0 : capture;
    part->ends.swap(ends);
}

/* Frees pending parts of a stream whose last uses the graph orders before all next work of that
   stream. A graph only grows while it is captured, so nodes that were reached once stay so. */
void PrivatePool::settle_captured(void *stream) {
    std::vector<void *> nodes;
    auto freed_here = [stream](const Part *part) {
        return part->capture != 0 && part->stream == stream;
    };
    if (std::none_of(pending_.begin(), pending_.end(), freed_here)) {
        return;
    }
    uint64_t capture = source_.graph.ends_of(stream, &nodes);
    if (capture != capture_) {
        capture_ = capture;
        reached_.clear();
    }
    std::unordered_set<void *> &reached = reached_[stream];
    while (capture != 0 && !nodes.empty()) {
        void *node = nodes.back();
        nodes.pop_back();
        if (reached.insert(node).second) {
            std::vector<void *> before = source_.graph.before(node);
            nodes.insert(nodes.end(), before.begin(), before.end());
        }
    }
    settle_if([&](Part *part) {
        return capture != 0 && freed_here(part) && part->capture == capture &&
               std::all_of(part->ends.begin(), part->ends.end(),
                           [&](void *node) { return reached.count(node) != 0; });
    });
}

void PrivatePool::use(uintptr_t addr, void *stream, bool lasting) {
    std::lock_guard<std::mutex> guard(mutex_);
    auto found = live_.find(addr);
    if (found == live_.end() || found->second->stream == stream) {
        return;
    }
    if (!lasting) {
        found->second->until_idle = true;
        return;
    }
    std::vector<void *> &uses = found->second->uses;
    if (std::find(uses.begin(), uses.end(), stream) == uses.end()) {
        uses.push_back(stream);
    }
}

uint64_t PrivatePool::round_begin() {
    std::lock_guard<std::mutex> guard(mutex_);
    return ++round_;
}

void PrivatePool::idle_before(uint64_t round) {
    std::lock_guard<std::mutex> guard(mutex_);
    for (Part *part : pending_) {
        part->until_idle = part->until_idle && part->round >= round;
    }
    settle_locked();
}

bool PrivatePool::waits_for_idle() {
    std::lock_guard<std::mutex> guard(mutex_);
    return std::any_of(pending_.begin(), pending_.end(),
                       [](const Part *part) { return part->until_idle; });
}

uint64_t PrivatePool::release_free(uint64_t round) {
    uint64_t released = 0;
    std::lock_guard<std::mutex> guard(mutex_);
    settle_locked();
    for (auto it = segments_.begin(); it != segments_.end();) {
        Segment *segment = it->second.get();
        Part *part = segment->first;
        if (part->size != segment->size || part->live || part->pending || part->round >= round) {
            ++it;
            continue;
        }
        source_.free(segment->addr, segment->size, segment->small); /* may throw: first */
        free_.erase(part);
        delete part;
        released += segment->size;
        it = segments_.erase(it);
    }
    return released;
}

/* ------------------------------------------------------------------ checkpoints */

std::vector<SegmentInfo> PrivatePool::segments_locked() {
    std::vector<SegmentInfo> all;
    for (auto &entry : segments_) {
        Segment *segment = entry.second.get();
        SegmentInfo info{segment->addr,  segment->size,   segment->stream,
                         segment->small, segment->number, {}};
        for (Part *part = segment->first; part != nullptr; part = part->after) {
            info.parts.push_back(PartInfo{part->addr, part->size, part->requested, part->stream,
                                          part->live, part->pending});
        }
        all.push_back(std::move(info));
    }
    return all;
}

std::vector<SegmentInfo> PrivatePool::segments() {
    std::lock_guard<std::mutex> guard(mutex_);
    settle_locked();
    return segments_locked();
}

Checkpoint PrivatePool::checkpoint() {
    return Checkpoint{id_, segments()};
}

/* Cuts a segment that is wholly free as the checkpoint has it. Keeps (1), (2) and (3): of the parts
   that are free there, none has a free neighbour. */
void PrivatePool::shape(Segment *segment, const SegmentInfo &wanted, Restored *restored) {
    free_.erase(segment->first);
    delete segment->first;
    segment->first = nullptr;
    Part *before = nullptr;
    for (const PartInfo &info : wanted.parts) {
        Part *part = new Part();
        part->addr = info.addr;
        part->size = info.size;
        part->stream = info.stream;
        part->segment = segment;
        part->round = round_;
        part->before = before;
        (before != nullptr ? before->after : segment->first) = part;
        before = part;
        if (info.live) {
            part->live = true;
            part->requested = info.requested;
            live_[part->addr] = part;
            restored->allocated.push_back(info);
        } else {
            free_.insert(part);
        }
    }
}

vram_status PrivatePool::restore(const Checkpoint &checkpoint, Restored *restored) {
    std::lock_guard<std::mutex> guard(mutex_);
    settle_locked();
    if (!pending_.empty()) {
        return VRAM_ERR_BUSY;
    }
    for (const SegmentInfo &wanted : checkpoint.segments) {
        auto found = segments_.find(wanted.addr);
        if (found == segments_.end() || found->second->size != wanted.size) {
            return VRAM_ERR_INVALID;
        }
        for (const PartInfo &part : wanted.parts) {
            if (part.pending) {
                return VRAM_ERR_BUSY;
            }
        }
    }
    while (!live_.empty()) {
        Part *part = live_.begin()->second;
        restored->freed.push_back(
            PartInfo{part->addr, part->size, part->requested, part->stream, true, false});
        live_.erase(live_.begin());
        part->round = round_;
        make_free(part);
    }
    for (const SegmentInfo &wanted : checkpoint.segments) {
        shape(segments_[wanted.addr].get(), wanted, restored);
    }
    return VRAM_OK;
}

/* --------------------------------------------------------------------- queries */

bool PrivatePool::live_equals(const std::unordered_set<void *> &expected) {
    std::lock_guard<std::mutex> guard(mutex_);
    for (auto &entry : live_) {
        if (expected.count(reinterpret_cast<void *>(entry.first)) == 0) {
            return false;
        }
    }
    return live_.size() == expected.size();
}

void PrivatePool::for_segments(const std::function<void(uintptr_t segment)> &each) {
    std::lock_guard<std::mutex> guard(mutex_);
    for (auto &entry : segments_) {
        each(entry.first);
    }
}

bool PrivatePool::empty() {
    std::lock_guard<std::mutex> guard(mutex_);
    return segments_.empty();
}

bool PrivatePool::segment_of(uintptr_t addr, uintptr_t *base, uint64_t *size) {
    std::lock_guard<std::mutex> guard(mutex_);
    auto after = segments_.upper_bound(addr);
    if (after == segments_.begin()) {
        return false;
    }
    Segment *segment = (--after)->second.get();
    if (addr - segment->addr >= segment->size) {
        return false;
    }
    *base = segment->addr;
    *size = segment->size;
    return true;
}

} // namespace vram_torch

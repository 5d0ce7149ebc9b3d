/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of one captured graph (or several that share it), or of one torch.cuda.MemPool.
 *
 * It consists of segments, each of them one block of the device's pool, or of the allocator that
 * the MemPool was made with. A segment keeps its addresses and its memory while it exists: live
 * blocks of libvram never move. What is freed in a private pool serves only the same pool and the
 * same stream again, and the order in which addresses are handed out depends on the calls alone,
 * so that a state can be saved and put back (checkpoint, restore) as torch.compile needs it.
 *
 *   segment   | part (live) | part (free) | part (live) | part (free)      |
 *             ^ address, 512-byte steps                  neighbours that are free are one part
 *
 * Sizes are PyTorch's own: requests are rounded to 512 bytes; up to 1 MiB they come from segments
 * of 2 MiB, up to 10 MiB from segments of 20 MiB, and larger ones have a segment of their own.
 *
 * Invariants: (1) the parts of a segment cover it without gaps or overlaps; (2) no two neighbours
 * are both free; (3) a part is in `free_` exactly while it is free and no stream uses it.
 *
 * Any thread may call anything: one lock for each pool. Calls of libvram are made with it held, but
 * never calls of PyTorch.
 */
#ifndef VRAM_TORCH_PRIVATE_POOL_H
#define VRAM_TORCH_PRIVATE_POOL_H

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

#include <vram/queue.h>

namespace vram_torch {

using PoolId = std::pair<unsigned long long, unsigned long long>; /* c10::MempoolId_t */

/* PyTorch's sizes: of what blocks are multiples, up to where they are small, and segments for small
   ones. */
const uint64_t UNIT = 512, SMALL_MAX = UINT64_C(1) << 20, SMALL_SEGMENT = UINT64_C(2) << 20;

inline uint64_t round_up(uint64_t size, uint64_t step) {
    return (size + step - 1) / step * step;
}

/* What a pool asks about graphs that are being captured. Both must be set. */
struct CaptureGraph {
    /* Adds the nodes that the next work on a stream follows. The id of the stream's capture; 0 if
       there is none, or if what is freed during captures is not to be used again in them. */
    std::function<uint64_t(void *stream, std::vector<void *> *nodes)> ends_of;
    /* The nodes that a node waits for. */
    std::function<std::vector<void *>(void *node)> before;
};

/* Where segments come from. The first three must be set. */
struct SegmentSource {
    std::function<vram_status(uint64_t bytes, bool small, uintptr_t *addr)> alloc;
    std::function<void(uintptr_t addr, uint64_t bytes, bool small)> free;
    std::function<vram_status(void *stream, vram_queue **queue)> queue_of;
    CaptureGraph graph; /* without functions: nothing is known */
};

/* A part of a segment as others see it. */
struct PartInfo {
    uintptr_t addr;
    uint64_t size, requested; /* bytes; requested is 0 for a free part */
    void *stream;
    bool live;
    bool pending; /* freed, but a stream still uses it */
};

struct SegmentInfo {
    uintptr_t addr;
    uint64_t size; /* bytes */
    void *stream;
    bool small;
    int number;                  /* counts the segments of the process as they are made */
    std::vector<PartInfo> parts; /* in the order of addresses */
};

/* The state of a pool at one moment: plain data. */
struct Checkpoint {
    PoolId id;
    std::vector<SegmentInfo> segments;
};

/* What a restore changed. An address may be in both lists. */
struct Restored {
    std::vector<PartInfo> freed, allocated;
};

class PrivatePool {
  public:
    PrivatePool(PoolId id, SegmentSource source) : id_(id), source_(std::move(source)) {}
    ~PrivatePool(); /* segments that are left are not given back */
    PrivatePool(const PrivatePool &) = delete;
    PrivatePool &operator=(const PrivatePool &) = delete;

    /* `size` is what the program asked for, more than 0; *held is what it got. `grow`: may take a
       new segment. Not `lasting`: `stream` may be gone, or be no stream but an id. */
    vram_status alloc(uint64_t size, void *stream, bool grow, uintptr_t *addr, uint64_t *held,
                      bool lasting = true);
    /* Frees a live part. Returns whether no stream uses it any more; else `idle` is called for it
       by a later call of any kind. */
    bool free(uintptr_t addr);
    /* Another stream uses the live part at `addr`. Not `lasting`: one that the program may destroy,
       which is never asked what it has finished. After its free the part is pending until the
       device was idle. */
    void use(uintptr_t addr, void *stream, bool lasting);
    /* Calls `each` with every segment, which no thread can free meanwhile. */
    void for_segments(const std::function<void(uintptr_t segment)> &each);
    /* Looks for parts whose streams have finished. */
    void settle();
    /* A new round of frees begins. What was freed in earlier ones is idle once the device is. */
    uint64_t round_begin();
    /* The device was idle after that round began: parts of earlier rounds wait for no stream. */
    void idle_before(uint64_t round);
    /* Whether freed parts wait for an idle device. */
    bool waits_for_idle();
    /* Gives back segments without live or pending parts that were freed before the round. Only when
       no work can use them: the device was idle after the round began. */
    uint64_t release_free(uint64_t round);

    Checkpoint checkpoint();
    /* Frees all live parts, and makes the parts of the checkpoint live again, at the same
       addresses. VRAM_ERR_INVALID, and nothing is changed, if a segment of the checkpoint is gone;
       VRAM_ERR_BUSY if a freed part is still in use by a stream. */
    vram_status restore(const Checkpoint &checkpoint, Restored *restored);

    /* Whether exactly these are live. */
    bool live_equals(const std::unordered_set<void *> &expected);
    std::vector<SegmentInfo> segments();
    bool empty();
    /* The segment that `addr` lies in; false if none does. */
    bool segment_of(uintptr_t addr, uintptr_t *base, uint64_t *size);

    const PoolId &id() const { return id_; }

    std::atomic<int> use_count{0}; /* graphs and MemPools that hold it */
    /* May serve requests of the device's pool that found no memory. */
    std::atomic<bool> use_on_oom{false};
    std::atomic<bool> no_split{false}; /* a segment has one part */
    /* Called, with the lock held, for a part that was freed earlier and is idle now. */
    std::function<void(uint64_t size, uint64_t requested, bool small)> idle;

  private:
    struct Segment;
    struct Part {
        uintptr_t addr = 0;
        uint64_t size = 0, requested = 0;
        void *stream = nullptr;
        Segment *segment = nullptr;
        bool live = false, pending = false;
        bool lasting = true;                      /* `stream` may be asked */
        bool until_idle = false;                  /* a stream that may be destroyed uses it */
        uint64_t round = 0;                       /* of its last free */
        Part *before = nullptr, *after = nullptr; /* neighbours in the segment */
        std::vector<void *> uses;                 /* other streams; no duplicates */
        std::vector<vram_point> points;           /* of pending parts: what has to pass */
        uint64_t capture = 0;     /* of pending parts: in which they were freed; 0: none */
        std::vector<void *> ends; /* of that capture's graph: the last work that may use it */
    };
    struct Segment {
        uintptr_t addr;
        uint64_t size;
        void *stream;
        bool small;
        Part *first;
        int number;
    };
    /* Best fit among the free parts of a stream and kind: the smallest, then the lowest. */
    struct FitOrder {
        bool operator()(const Part *a, const Part *b) const {
            if (a->segment->small != b->segment->small) {
                return a->segment->small;
            }
            if (a->stream != b->stream) {
                return std::less<void *>()(a->stream, b->stream);
            }
            return a->size != b->size ? a->size < b->size : a->addr < b->addr;
        }
    };

    Part *fit(uint64_t size, void *stream, bool small);
    Part *grow_segment(uint64_t size, void *stream, bool small, vram_status *status);
    Part *split(Part *part, uint64_t size);
    void make_free(Part *part);
    bool mark_uses(Part *part);
    bool points_passed(Part *part);
    void mark_capture(Part *part);
    void settle_captured(void *stream);
    template <typename F> void settle_if(F done);
    void settle_locked();
    void shape(Segment *segment, const SegmentInfo &wanted, Restored *restored);
    std::vector<SegmentInfo> segments_locked();

    PoolId id_;
    SegmentSource source_;
    std::mutex mutex_;
    std::map<uintptr_t, std::unique_ptr<Segment>> segments_;
    std::set<Part *, FitOrder> free_;
    std::map<uintptr_t, Part *> live_;
    std::vector<Part *> pending_;
    uint64_t round_ = 0;
    uint64_t capture_ =
        0; /* of which `reached_` is: nodes that all next work of a stream follows */
    std::map<void *, std::unordered_set<void *>> reached_;
};

} // namespace vram_torch

#endif

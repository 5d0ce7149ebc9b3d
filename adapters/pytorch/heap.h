/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of one device as PyTorch uses it: a pool of libvram, its streams, private pools for
 * captured graphs and MemPools, and PyTorch's counters. It knows nothing of PyTorch's classes and
 * calls no CUDA function, so that its tests run on a simulated device.
 *
 * Threads: any thread may call anything. `mutex_` guards the list of private pools and of captures.
 * It is taken before a private pool's own lock, and never while a block is allocated or freed in
 * the device's pool, except that `capturing()` is asked first, which is one load.
 */
#ifndef VRAM_TORCH_HEAP_H
#define VRAM_TORCH_HEAP_H

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <vram/limits.h>
#include <vram/oom.h>
#include <vram/pool.h>
#include <vram/shared.h>
#include <vram/stats.h>

#include "live_blocks.h"
#include "private_pool.h"
#include "statistics.h"
#include "stream_table.h"

namespace vram_torch {

struct HeapOptions {
    const char *backend = "cuda";  /* whose device it is */
    vram_device *device = nullptr; /* instead of the process's own handle on it; borrowed */
    bool moving = true; /* false: whole segments of the driver, which libraries may register */
    /* Waits until the device is idle; called with no lock held, never during a capture. */
    std::function<void()> synchronize;
    /* Asked, with no lock held, when memory is short: frees what it can, returns whether it did. */
    std::function<bool()> reclaim;
    /* The tag of a segment that the calling thread's private pool needs now; NULL: none of the
       program's. A segment with a tag has granules of its own, so that it can sleep alone. */
    std::function<const char *()> segment_tag;
    /* Told, with locks held, before a segment of a private pool goes back to where it came from. If
       it throws, the segment stays. */
    std::function<void(PoolId pool, uintptr_t segment, uint64_t bytes)> releasing;
    CaptureGraph graph; /* may have no functions */
};

/* What a pool of libvram says, with sums that only this heap can keep. */
struct Reserved {
    vram_pool_stats now;
    /* Taken from the driver: all, and of it for small blocks. The first peak is exact; the rest,
       and what was ever taken, is counted when somebody looks. Small: small blocks of the pool, and
       the segments of private pools for them; all other memory serves any size. Snapshots say the
       same, which PyTorch's tests compare. */
    Count bytes, small_bytes;
};

class Heap {
  public:
    /* A heap on the process's own pool of a device (vram/shared.h), which CuPy, Numba and C code in
       the process may use too; on a pool of its own if the options ask for another device handle or
       for no moving. NULL, with the status and the thread's error record set, if that
       fails. */
    static std::unique_ptr<Heap> create(int ordinal, const HeapOptions &options,
                                        vram_status *status);
    ~Heap();
    Heap(const Heap &) = delete;
    Heap &operator=(const Heap &) = delete;

    /* Allocates for work on `stream`: from the private pool whose capture takes the stream, else
       from the device's pool. `size` is more than 0. `tag` may be NULL. `granted` is what the
       device's pool gives, 0: `size`. */
    vram_status alloc(uint64_t size, void *stream, const char *tag, Block *block,
                      uint64_t granted = 0);
    /* The same on a stream that the program may destroy without a word (an ExternalStream). The
       device's pool asks streams what they have finished, also later; such a stream must not be
       asked. So its memory comes from one private pool for all such streams, which reuses it on
       the same stream, and elsewhere after the device was idle, as PyTorch's own allocator does.
       It has the tag of private pools. `id` tells the stream from a later one that the driver gives
       the same handle; the handle itself, if nothing else does. */
    vram_status alloc_external(uint64_t size, void *stream, void *id, Block *block);
    /* Frees a block that the caller has taken out of the table. */
    void free(const Block &block);
    /* Work of another stream uses the block. Not `lasting`: as with alloc_external, the stream is
       not asked what it has finished, now or later. Once freed, the block serves others after the
       device was idle. */
    vram_status use(const Block &block, void *stream, bool lasting = true);

    /* Waits until the device is idle, also for streams that never allocated, and puts the pool to
       sleep. Not during a capture. */
    vram_status sleep(const vram_sleep_options &options);
    /* Waits until the device is idle. False, without a wait for the device, while a stream that is
       known here is captured. */
    bool wait_for_device();

    /* Gives free memory back to the driver; of one private pool if `id` is not {0, 0}. Returns how
       many bytes that was. */
    uint64_t trim(PoolId id);

    /* ---- private pools: see c10::cuda::CUDACachingAllocator::CUDAAllocator */

    using Filter = std::function<bool(void *stream)>;
    /* One more user; makes the pool if there is none. `source` without functions: the device's own
       pool. */
    void pool_hold(PoolId id, SegmentSource source = SegmentSource());
    /* One user less. After the last one the memory goes back with the next trim. False: no pool. */
    bool pool_release(PoolId id);
    int pool_uses(PoolId id);
    std::shared_ptr<PrivatePool> pool_find(PoolId id);
    /* Routes allocations on streams that the filter accepts. False if it is routed already.
       `stream` is the one on which a capture begins, if one does. */
    bool route_begin(PoolId id, Filter filter, void *stream = nullptr);
    bool route_end(PoolId id);
    /* The streams on which the routes of now began: a capture is on one of them. */
    std::vector<void *> route_streams();
    /* From now on the memory of private pools stays where it is also in a sleep, which is refused:
       libraries register their segments. */
    void segments_pin();
    bool capturing() const { return routes_count_.load(std::memory_order_acquire) != 0; }
    std::vector<std::shared_ptr<PrivatePool>> pools();
    /* The parts of a checkpoint as live blocks again. */
    vram_status restore(const Checkpoint &checkpoint, Restored *restored);

    /* ---- limits and counters */

    vram_status fraction_set(double fraction);
    double fraction() const { return fraction_.load(); }
    /* What the fraction allows, to the nearest byte: a fraction that a program made of bytes gives
       those bytes. UINT64_MAX: all. */
    uint64_t allowed_bytes() const;
    /* Bytes that stay free on the device; 0: none. */
    vram_status margin_set(uint64_t bytes);
    Statistics &statistics() { return statistics_; }
    Reserved reserved();
    void reset_peaks();
    void reset_accumulated();
    /* The largest block that could be allocated now. */
    uint64_t largest();

    vram_pool *pool() const { return pool_; }
    vram_device *device() const { return device_; }
    int ordinal() const { return ordinal_; }
    StreamTable &streams() { return streams_; }
    static BlockTable &table();

  private:
    struct Route {
        PoolId id;
        Filter filter;
        void *stream; /* on which it began */
    };

    Heap(int ordinal, const HeapOptions &options) : ordinal_(ordinal), options_(options) {}
    vram_status open();
    vram_status limits_apply();
    PrivatePool *route_of(void *stream);
    vram_status alloc_pool(uint64_t size, vram_queue *queue, const char *tag, uintptr_t *addr,
                           uint64_t alignment = 0);
    vram_status alloc_segment(uint64_t bytes, uintptr_t *addr);
    vram_status alloc_after_release(uint64_t size, void *stream, const char *tag, Block *block);
    vram_status alloc_private(PrivatePool *owner, uint64_t size, void *stream, void *id, bool grow,
                              Block *block, bool lasting = true);
    PrivatePool *external_pool();
    void enter(Block *block);
    SegmentSource own_source();
    void segment_pin(uintptr_t addr);
    void segment_unpin(uintptr_t addr);
    SegmentSource counted(PoolId id, SegmentSource source, bool own);
    vram_status foreign_check(uint64_t bytes);
    void foreign_change(int64_t bytes);
    bool settle_streams();
    uint64_t release_private(PoolId id);
    void sample(const vram_pool_stats &now);

    int ordinal_;
    HeapOptions options_;
    vram_device *device_ = nullptr;
    vram_pool *pool_ = nullptr;
    bool owns_pool_ = false;
    uint64_t total_bytes_ = 0; /* of the device; 0: unknown */
    uint64_t granule_ = 0;     /* of the device's physical memory; 0: unknown */
    uint64_t reclaim_id_ = 0;
    std::atomic<double> fraction_{1.0};
    std::atomic<uint64_t> margin_{0}; /* bytes */
    StreamTable streams_;
    Statistics statistics_;

    std::mutex mutex_;
    std::atomic<PrivatePool *> external_{nullptr}; /* in pools_, and held for ever; or NULL */
    std::map<PoolId, std::shared_ptr<PrivatePool>> pools_;
    std::vector<Route> routes_;
    std::atomic<int> routes_count_{0};

    std::mutex pins_mutex_; /* the last lock of all */
    bool pins_ = false;     /* segments are pinned; this and the next under pins_mutex_ */
    std::set<uintptr_t> pinned_;

    /* Blocks of the device's pool that streams use which may be destroyed. */
    std::mutex external_mutex_;
    std::set<uintptr_t> external_uses_;     /* live ones; under external_mutex_ */
    std::vector<Block> until_idle_;         /* freed ones; under external_mutex_ */
    std::atomic<bool> external_any_{false}; /* ever: others pay one load */

    std::mutex sample_mutex_;
    Count reserved_bytes_, small_bytes_;          /* under sample_mutex_ */
    std::atomic<int64_t> private_small_bytes_{0}; /* segments for small blocks */
    std::atomic<int64_t> foreign_bytes_{0};       /* segments of other allocators */
};

} // namespace vram_torch

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "heap.h"

#include <cmath>

namespace vram_torch {

/* Leaked on purpose: PyTorch frees tensors until the very end of the process. */
BlockTable &Heap::table() {
    static BlockTable *table = new BlockTable();
    return *table;
}

/* ---------------------------------------------------------------------- making */

static uint64_t reclaim_memory(void *user, const vram_oom_event *event) {
    (void)event;
    const std::function<bool()> *reclaim = static_cast<const std::function<bool()> *>(user);
    return *reclaim && (*reclaim)() ? 1 : 0;
}

/* PyTorch's own allocator has no limits unless the program sets one, and never hands out host
   memory. What MemPools have of other allocators counts against the limit too. */
vram_status Heap::limits_apply() {
    vram_limits limits = {};
    limits.size = sizeof limits;
    limits.fraction = 1;
    uint64_t margin = margin_.load();
    limits.min_free_bytes = margin != 0 ? margin : 1;
    limits.hard_bytes = VRAM_LIMIT_NONE;
    limits.cpu_fallback = VRAM_SWITCH_OFF;
    uint64_t allowed = allowed_bytes();
    if (allowed != UINT64_MAX) {
        uint64_t foreign = static_cast<uint64_t>(foreign_bytes_.load());
        limits.hard_bytes = allowed <= foreign ? 1 : allowed - foreign;
    }
    vram_status status = vram_pool_limits_set(pool_, &limits);
    return status == VRAM_ERR_LIMIT ? VRAM_OK : status; /* in force, although more is live now */
}

vram_status Heap::open() {
    vram_status status = VRAM_OK;
    device_ = options_.device;
    if (device_ == nullptr) {
        status = vram_device_shared(options_.backend, static_cast<uint32_t>(ordinal_), &device_);
    }
    if (status == VRAM_OK && options_.moving && options_.device == nullptr) {
        status = vram_pool_shared(device_, &pool_);
    } else if (status == VRAM_OK) {
        vram_pool_options options = {};
        options.size = sizeof options;
        options.flags = options_.moving ? 0 : VRAM_POOL_SEGMENTS;
        options.name = "pytorch";
        status = vram_pool_create(device_, &options, &pool_);
        owns_pool_ = status == VRAM_OK;
    }
    if (status == VRAM_OK) {
        vram_memory_info memory = {};
        memory.size = sizeof memory;
        if (vram_memory_info_get(device_, &memory) == VRAM_OK && memory.total_bytes.known) {
            total_bytes_ = memory.total_bytes.value;
        }
        vram_device_info info = {};
        info.size = sizeof info;
        if (vram_device_describe(device_, &info) == VRAM_OK && info.vmm_granule.known) {
            granule_ = info.vmm_granule.value;
        }
        status = limits_apply();
    }
    vram_option_source ladder_from = VRAM_OPTION_FROM_DEFAULT;
    if (status == VRAM_OK) {
        status = vram_option_get("ladder", nullptr, 0, &ladder_from);
    }
    if (status == VRAM_OK && ladder_from == VRAM_OPTION_FROM_DEFAULT) {
        /* Everything but to wait for other threads and to hand out other memory, as PyTorch. */
        vram_ladder_options ladder = {};
        ladder.size = sizeof ladder;
        ladder.steps = "drain,finished,move,trim,others,callbacks,cleanup,retry";
        status = vram_pool_ladder_set(pool_, &ladder);
    }
    if (status == VRAM_OK && options_.reclaim) {
        status = vram_oom_callback_add(device_, reclaim_memory, &options_.reclaim, &reclaim_id_);
    }
    return status;
}

std::unique_ptr<Heap> Heap::create(int ordinal, const HeapOptions &options, vram_status *status) {
    std::unique_ptr<Heap> heap(new Heap(ordinal, options));
    *status = heap->open();
    if (*status != VRAM_OK) {
        vram_error error = *vram_error_get();
        heap.reset();
        vram_error_set(&error);
    }
    return heap;
}

/* Only of a heap that was not made whole, and in tests: PyTorch keeps its allocator for ever. */
Heap::~Heap() {
    if (reclaim_id_ != 0) {
        vram_oom_callback_remove(device_, reclaim_id_);
    }
    pools_.clear();
    if (owns_pool_) {
        vram_pool_destroy(pool_);
    }
}

/* ------------------------------------------------------------------ allocation */

vram_status Heap::alloc_pool(uint64_t size, vram_queue *queue, const char *tag, uintptr_t *addr,
                             uint64_t alignment) {
    vram_addr made = 0;
    vram_status status;
    if (tag == nullptr) {
        status = vram_alloc(pool_, size, queue, &made);
    } else {
        vram_alloc_options options = {};
        options.size = sizeof options;
        options.tag = tag;
        options.alignment = alignment;
        status = vram_alloc_with(pool_, size, queue, &options, &made);
    }
    if (status == VRAM_OK) {
        *addr = static_cast<uintptr_t>(made);
    }
    return status;
}

/* The block becomes visible to free, use and the counters. */
void Heap::enter(Block *block) {
    block->small = round_up(block->requested, UNIT) <= SMALL_MAX;
    block->device = ordinal_;
    table().insert(*block);
    statistics_.block_allocated(*block);
}

/* `id` is what the pool knows the stream by. */
vram_status Heap::alloc_private(PrivatePool *owner, uint64_t size, void *stream, void *id,
                                bool grow, Block *block, bool lasting) {
    vram_status status = owner->alloc(size, id, grow, &block->addr, &block->held, lasting);
    if (status == VRAM_OK) {
        block->requested = size;
        block->stream = stream;
        block->source = Source::PRIVATE;
        block->owner = owner;
        enter(block);
    }
    return status;
}

vram_status Heap::alloc(uint64_t size, void *stream, const char *tag, Block *block,
                        uint64_t granted) {
    *block = Block();
    granted = granted < size ? size : granted;
    if (capturing()) {
        PrivatePool *owner = route_of(stream);
        if (owner != nullptr) {
            return alloc_private(owner, size, stream, stream, true, block);
        }
    }
    vram_status status = streams_.get(device_, stream, &block->queue);
    if (status == VRAM_OK) {
        status = alloc_pool(granted, block->queue, tag, &block->addr);
        if (status != VRAM_OK && vram_status_is_exhausted(status)) {
            status = alloc_after_release(granted, stream, tag, block);
        }
    }
    if (status == VRAM_OK && block->source == Source::POOL) {
        block->requested = size;
        block->held = round_up(granted, UNIT);
        block->stream = stream;
        enter(block);
    }
    return status;
}

/* PyTorch counts the ids of its pools from (0, 1) and (1, 0). */
static const PoolId EXTERNAL(0, UINT64_MAX);

PrivatePool *Heap::external_pool() {
    PrivatePool *pool = external_.load(std::memory_order_acquire);
    if (pool == nullptr) {
        pool_hold(EXTERNAL);
        pool = pool_find(EXTERNAL).get();
        external_.store(pool, std::memory_order_release);
    }
    return pool;
}

vram_status Heap::alloc_external(uint64_t size, void *stream, void *id, Block *block) {
    *block = Block();
    PrivatePool *owner = capturing() ? route_of(stream) : nullptr;
    owner = owner != nullptr ? owner : external_pool();
    vram_status status = alloc_private(owner, size, stream, id, true, block, false);
    if (status != VRAM_OK && vram_status_is_exhausted(status)) {
        vram_error error = *vram_error_get();
        if (release_private(PoolId(0, 0)) != 0) {
            return alloc_private(owner, size, stream, id, true, block, false);
        }
        vram_error_set(&error);
    }
    return status;
}

/* Memory ran out: what private pools do not need any more, then pools that offer theirs. The error
   record and the report stay those of the last attempt in the device's pool. */
vram_status Heap::alloc_after_release(uint64_t size, void *stream, const char *tag, Block *block) {
    vram_error error = *vram_error_get();
    vram_status status = error.status;
    if (release_private(PoolId(0, 0)) != 0) {
        status = alloc_pool(size, block->queue, tag, &block->addr);
        error = *vram_error_get();
    }
    if (status == VRAM_OK) {
        return status;
    }
    for (const std::shared_ptr<PrivatePool> &pool : pools()) {
        if (pool->use_on_oom &&
            alloc_private(pool.get(), size, stream, stream, false, block) == VRAM_OK) {
            return VRAM_OK;
        }
    }
    vram_error_set(&error);
    return error.status;
}

void Heap::free(const Block &block) {
    if (block.source == Source::PRIVATE) {
        statistics_.block_freed(block, block.owner->free(block.addr));
        return;
    }
    statistics_.block_freed(block, true);
    if (external_any_.load(std::memory_order_acquire)) {
        std::lock_guard<std::mutex> guard(external_mutex_);
        if (external_uses_.erase(block.addr) != 0) {
            until_idle_.push_back(block);
            return;
        }
    }
    /* A failure (the process exits, a forked child, a lost device) leaves nothing to do. */
    vram_free(block.addr, block.queue);
}

/* One handle for a stream of each thread. */
static void *const PER_THREAD = reinterpret_cast<void *>(uintptr_t(2));

vram_status Heap::use(const Block &block, void *stream, bool lasting) {
    if (block.stream == stream && stream != PER_THREAD) {
        return VRAM_OK;
    }
    lasting = lasting || streams_.knows(stream); /* another name of a stream of PyTorch's */
    if (block.source == Source::PRIVATE) {
        block.owner->use(block.addr, stream, lasting);
        return VRAM_OK;
    }
    if (!lasting) {
        std::lock_guard<std::mutex> guard(external_mutex_);
        external_uses_.insert(block.addr);
        external_any_.store(true, std::memory_order_release);
        return VRAM_OK;
    }
    vram_queue *queue = nullptr;
    vram_status status = streams_.get(device_, stream, &queue);
    return status == VRAM_OK ? vram_use(block.addr, queue) : status;
}

/* ------------------------------------------------------------------ giving back */

/* Waits until the streams have finished all work so far: on streams of the program a pool makes no
   marks when it is asked to trim, and here it is the program that asks. False: one of them is
   captured, by another library perhaps, or the default stream waits for one that is. Then nobody
   may wait for the device. */
bool Heap::settle_streams() {
    bool captured = false;
    std::vector<vram_point>
        points; /* of all, before the first wait: a program may have many streams */
    for (vram_queue *queue : streams_.queues()) {
        vram_point point;
        vram_status status = vram_queue_mark(queue, &point);
        if (status == VRAM_OK) {
            points.push_back(point);
        }
        captured = captured || status == VRAM_ERR_CAPTURE;
    }
    for (vram_point point : points) {
        vram_point_wait(point, VRAM_TIMEOUT_DEFAULT);
    }
    return !captured;
}

/* Free segments of pools that no graph and no MemPool holds, of external streams, or of the pool
   named, and blocks that external streams used. A graph may have been launched on any stream, so
   the device has to be idle. What is freed after this call began may be in use. Nothing during a
   capture. */
uint64_t Heap::release_private(PoolId id) {
    bool any = false;
    uint64_t released = 0;
    std::vector<Block> blocks;
    std::map<PoolId, uint64_t> rounds;
    auto concerns = [id](const PrivatePool &pool) {
        return pool.use_count == 0 || pool.id() == id || pool.id() == EXTERNAL;
    };
    if (capturing()) {
        return 0;
    }
    {
        std::lock_guard<std::mutex> guard(external_mutex_);
        blocks.swap(until_idle_);
    }
    for (const std::shared_ptr<PrivatePool> &pool : pools()) {
        any = any || concerns(*pool) || pool->waits_for_idle();
        pool->settle(); /* makes the marks that a capture put off, to be waited for below */
        rounds[pool->id()] = pool->round_begin();
    }
    if (!any && blocks.empty()) {
        return 0;
    }
    if (!wait_for_device()) {
        std::lock_guard<std::mutex> guard(external_mutex_);
        until_idle_.insert(until_idle_.end(), blocks.begin(), blocks.end());
        return 0;
    }
    for (const Block &block : blocks) {
        vram_free(block.addr, block.queue);
        released += block.held;
    }
    std::lock_guard<std::mutex> guard(mutex_);
    for (auto it = pools_.begin(); it != pools_.end();) {
        PrivatePool *pool = it->second.get();
        uint64_t round = rounds[pool->id()]; /* 0, before all frees: the pool is new */
        pool->idle_before(round);
        if (concerns(*pool)) {
            released += pool->release_free(round);
        }
        it = pool->use_count == 0 && pool->empty() ? pools_.erase(it) : std::next(it);
    }
    return released;
}

uint64_t Heap::trim(PoolId id) {
    if (capturing()) {
        return 0; /* as PyTorch's own allocator */
    }
    uint64_t first = 0, second = 0;
    release_private(id);
    /* The first trim takes blocks out of the caches of threads, and says when they are free. */
    vram_pool_trim(pool_, nullptr, &first);
    settle_streams();
    vram_pool_trim(pool_, nullptr, &second);
    return first + second;
}

/* The pool waits for the queues that it knows. A program's kernels may run on streams on which
   nothing was ever allocated. */
vram_status Heap::sleep(const vram_sleep_options &options) {
    (void)wait_for_device();
    return vram_pool_sleep(pool_, &options); /* says so if a stream is captured */
}

bool Heap::wait_for_device() {
    if (!settle_streams()) {
        return false;
    }
    if (options_.synchronize) {
        options_.synchronize();
    }
    return true;
}

/* ---------------------------------------------------------------- private pools */

void Heap::pool_hold(PoolId id, SegmentSource source) {
    std::lock_guard<std::mutex> guard(mutex_);
    std::shared_ptr<PrivatePool> &pool = pools_[id];
    if (pool == nullptr) {
        bool own = !source.alloc;
        pool.reset(new PrivatePool(id, counted(id, own ? own_source() : std::move(source), own)));
        pool->idle = [this](uint64_t size, uint64_t requested, bool small) {
            statistics_.block_idle(size, requested, small);
        };
    }
    pool->use_count++;
}

bool Heap::pool_release(PoolId id) {
    std::lock_guard<std::mutex> guard(mutex_);
    auto found = pools_.find(id);
    if (found == pools_.end() || found->second->use_count == 0) {
        return false;
    }
    found->second->use_count--;
    return true;
}

int Heap::pool_uses(PoolId id) {
    std::lock_guard<std::mutex> guard(mutex_);
    auto found = pools_.find(id);
    return found == pools_.end() ? 0 : found->second->use_count.load();
}

std::shared_ptr<PrivatePool> Heap::pool_find(PoolId id) {
    std::lock_guard<std::mutex> guard(mutex_);
    auto found = pools_.find(id);
    return found == pools_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<PrivatePool>> Heap::pools() {
    std::lock_guard<std::mutex> guard(mutex_);
    std::vector<std::shared_ptr<PrivatePool>> all;
    for (auto &entry : pools_) {
        all.push_back(entry.second);
    }
    return all;
}

bool Heap::route_begin(PoolId id, Filter filter, void *stream) {
    std::lock_guard<std::mutex> guard(mutex_);
    for (const Route &route : routes_) {
        if (route.id == id) {
            return false;
        }
    }
    routes_.push_back(Route{id, std::move(filter), stream});
    routes_count_.store(static_cast<int>(routes_.size()), std::memory_order_release);
    return true;
}

bool Heap::route_end(PoolId id) {
    std::lock_guard<std::mutex> guard(mutex_);
    for (size_t i = 0; i < routes_.size(); i++) {
        if (routes_[i].id == id) {
            routes_.erase(routes_.begin() + static_cast<ptrdiff_t>(i));
            routes_count_.store(static_cast<int>(routes_.size()), std::memory_order_release);
            return true;
        }
    }
    return false;
}

std::vector<void *> Heap::route_streams() {
    std::lock_guard<std::mutex> guard(mutex_);
    std::vector<void *> all;
    for (const Route &route : routes_) {
        all.push_back(route.stream);
    }
    return all;
}

PrivatePool *Heap::route_of(void *stream) {
    std::lock_guard<std::mutex> guard(mutex_);
    for (auto at = routes_.rbegin(); at != routes_.rend(); ++at) { /* the innermost first */
        if (at->filter(stream)) {
            auto found = pools_.find(at->id);
            return found == pools_.end() ? nullptr : found->second.get();
        }
    }
    return nullptr;
}

vram_status Heap::restore(const Checkpoint &checkpoint, Restored *restored) {
    std::shared_ptr<PrivatePool> pool = pool_find(checkpoint.id);
    if (pool == nullptr) {
        return VRAM_ERR_INVALID;
    }
    vram_status status = pool->restore(checkpoint, restored);
    if (status != VRAM_OK) {
        return status;
    }
    for (const PartInfo &part : restored->freed) {
        Block block;
        if (table().remove(part.addr, &block)) {
            statistics_.block_freed(block, true);
        }
    }
    for (const PartInfo &part : restored->allocated) {
        Block block;
        block.addr = part.addr;
        block.requested = part.requested;
        block.held = part.size;
        block.stream = part.stream;
        block.source = Source::PRIVATE;
        block.owner = pool.get();
        enter(&block);
    }
    return VRAM_OK;
}

/* ----------------------------------------------------------- limits and counters */

uint64_t Heap::allowed_bytes() const {
    double fraction = fraction_.load();
    return fraction < 1 && total_bytes_ != 0
               ? static_cast<uint64_t>(std::llround(fraction * static_cast<double>(total_bytes_)))
               : UINT64_MAX;
}

vram_status Heap::fraction_set(double fraction) {
    fraction_.store(fraction);
    return limits_apply();
}

vram_status Heap::margin_set(uint64_t bytes) {
    margin_.store(bytes);
    return limits_apply();
}

/* The pool has exact numbers of now and of the peak; what came and went in between is counted from
   one look to the next. With sample_mutex_ held. */
void Heap::sample(const vram_pool_stats &now) {
    int64_t foreign = foreign_bytes_.load();
    int64_t bytes = static_cast<int64_t>(now.reserved_bytes) + foreign;
    int64_t small = statistics_.get().pool_small_bytes.current + private_small_bytes_.load();
    for (auto change :
         {std::make_pair(&reserved_bytes_, bytes), std::make_pair(&small_bytes_, small)}) {
        int64_t difference = change.second - change.first->current;
        if (difference > 0) {
            change.first->add(static_cast<uint64_t>(difference));
        } else {
            change.first->take(static_cast<uint64_t>(-difference));
        }
    }
    int64_t peak = static_cast<int64_t>(now.peak_reserved_bytes) + foreign;
    reserved_bytes_.peak = peak > reserved_bytes_.peak ? peak : reserved_bytes_.peak;
}

Reserved Heap::reserved() {
    Reserved reserved = {};
    reserved.now.size = sizeof reserved.now;
    std::lock_guard<std::mutex> guard(sample_mutex_);
    if (vram_pool_stats_get(pool_, &reserved.now) == VRAM_OK) {
        sample(reserved.now);
    }
    reserved.bytes = reserved_bytes_;
    reserved.small_bytes = small_bytes_;
    return reserved;
}

void Heap::reset_peaks() {
    reserved();
    std::lock_guard<std::mutex> guard(sample_mutex_);
    vram_pool_peaks_reset(pool_);
    reserved_bytes_.reset_peak();
    small_bytes_.reset_peak();
    statistics_.reset_peaks();
}

void Heap::reset_accumulated() {
    reserved();
    std::lock_guard<std::mutex> guard(sample_mutex_);
    reserved_bytes_.reset_accumulated();
    small_bytes_.reset_accumulated();
    statistics_.reset_accumulated();
}

uint64_t Heap::largest() {
    vram_memory_info memory = {};
    memory.size = sizeof memory;
    Reserved now = reserved();
    uint64_t unused = now.now.reserved_bytes - now.now.allocated_bytes;
    if (vram_memory_info_get(device_, &memory) == VRAM_OK && memory.free_bytes.known) {
        unused += memory.free_bytes.value;
    }
    return unused;
}

} // namespace vram_torch

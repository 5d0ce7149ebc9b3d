/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch_plugin: a pool as PyTorch's allocator, the least that CUDAPluggableAllocator needs.
 *
 *   torch.cuda.memory.CUDAPluggableAllocator("libvram_torch.so", "vram_torch_alloc",
 *                                            "vram_torch_free")
 *
 * One context, and one pool for each device, made at the first allocation and kept until the
 * process ends. A stream is adopted as a queue when it is first seen; PyTorch never destroys its
 * streams, so a handle means the same stream for ever. PyTorch frees in host order on the stream of
 * the allocation, which is just what vram_free wants to know; vram_torch_record_stream tells of
 * others.
 *
 * PyTorch does not look at the pointer in this mode, so a failed allocation prints one line on
 * stderr and throws std::bad_alloc, which arrives in Python as an exception. C cannot throw by
 * itself: libstdc++ is asked to. In a process without it nobody could catch, and the answer is
 * NULL.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <vram/limits.h>
#include <vram/pool.h>
#include <vram/vram.h>

#define EXPORT __attribute__((visibility("default")))

enum { DEVICES_MAX = 16, STREAMS_MAX = 256, STATS_MAX = 12 };

/* A stream that was adopted. Rows are written once and published by raising `stream_count`. */
struct stream {
    void *native;
    vram_queue *queue;
};

struct device {
    vram_device *device;
    _Atomic(vram_pool *) pool; /* NULL: not made yet; set last */
    struct stream streams[STREAMS_MAX];
    _Atomic uint32_t stream_count;
    _Atomic uint64_t requested,
        requested_peak;   /* bytes, exact: pools count peaks in larger steps */
    uint64_t limit_bytes; /* most that the pool may hold; 0: no limit of ours; mutex */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of making things; never of hits */
static vram_context *context;
static struct device devices[DEVICES_MAX];

EXPORT void *vram_torch_alloc(size_t size, int device, void *stream);
EXPORT void vram_torch_free(void *ptr, size_t size, int device, void *stream);
EXPORT void vram_torch_record_stream(void *ptr, void *stream);
EXPORT void vram_torch_empty_cache(void);
EXPORT int vram_torch_stats(int device, uint64_t *values, int count);
EXPORT int vram_torch_limit(int device, uint64_t bytes);

static void say(const char *what, vram_status status) {
    fprintf(stderr, "vram_torch: %s: %s: %s\n", what, vram_status_name(status),
            vram_error_get()->text);
}

/* --------------------------------------------------------------------- making */

/* The index in the context of the driver's device `ordinal`. */
static vram_status find_device(int ordinal, uint32_t *index) {
    vram_device_info info = {.size = sizeof info};
    for (uint32_t i = 0; i < vram_device_count(context); i++) {
        vram_status status = vram_device_info_get(context, i, &info);
        if (status == VRAM_OK && (int)info.backend_index == ordinal) {
            *index = i;
            return VRAM_OK;
        }
    }
    return VRAM_ERR_NO_DEVICE;
}

/* With the mutex held. */
static vram_status make_pool(struct device *device, int ordinal) {
    vram_context_options options = {.size = sizeof options, .backends = "cuda"};
    vram_limits limits = {.size = sizeof limits, .hard_bytes = device->limit_bytes};
    vram_pool_options pool_options = {.size = sizeof pool_options, .limits = &limits};
    vram_pool *pool = NULL;
    uint32_t index = 0;
    vram_status status = VRAM_OK;
    if (context == NULL) {
        status = vram_context_create(&options, &context);
    }
    if (status == VRAM_OK) {
        status = find_device(ordinal, &index);
    }
    if (status == VRAM_OK && device->device == NULL) {
        status = vram_device_open(context, index, &device->device);
    }
    if (status == VRAM_OK) {
        status = vram_pool_create(device->device, &pool_options, &pool);
    }
    if (status == VRAM_OK) {
        atomic_store(&device->pool, pool);
    }
    return status;
}

/* The device with its pool, which is made at the first call; NULL after one line on stderr. */
__attribute__((noinline)) static struct device *make_device(int ordinal) {
    if (ordinal < 0 || ordinal >= DEVICES_MAX) {
        fprintf(stderr, "vram_torch: device %d is out of range\n", ordinal);
        return NULL;
    }
    struct device *device = &devices[ordinal];
    pthread_mutex_lock(&mutex);
    vram_status status = atomic_load(&device->pool) != NULL ? VRAM_OK : make_pool(device, ordinal);
    pthread_mutex_unlock(&mutex);
    if (status != VRAM_OK) {
        say("cannot make a pool", status);
        return NULL;
    }
    return device;
}

static inline struct device *get_device(int ordinal) {
    struct device *device = &devices[(uint32_t)ordinal % DEVICES_MAX];
    bool made = ordinal >= 0 && ordinal < DEVICES_MAX &&
                atomic_load_explicit(&device->pool, memory_order_acquire) != NULL;
    return made ? device : make_device(ordinal);
}

static vram_queue *find_stream(struct device *device, void *native) {
    uint32_t count = atomic_load_explicit(&device->stream_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        if (device->streams[i].native == native) {
            return device->streams[i].queue;
        }
    }
    return NULL;
}

/* With the mutex held; another thread may have been faster. */
static vram_queue *adopt(struct device *device, void *native) {
    vram_queue *queue = find_stream(device, native);
    uint32_t count = atomic_load(&device->stream_count);
    if (queue != NULL) {
        return queue;
    }
    if (count == STREAMS_MAX) {
        fprintf(stderr, "vram_torch: more than %d streams\n", STREAMS_MAX);
        return NULL;
    }
    vram_status status = vram_queue_adopt(device->device, native, &queue);
    if (status != VRAM_OK) {
        say("cannot adopt a stream", status);
        return NULL;
    }
    device->streams[count] = (struct stream){native, queue};
    atomic_store_explicit(&device->stream_count, count + 1, memory_order_release);
    return queue;
}

__attribute__((noinline)) static vram_queue *search_queue(struct device *device, void *native) {
    vram_queue *queue = find_stream(device, native);
    if (queue == NULL) {
        pthread_mutex_lock(&mutex);
        queue = adopt(device, native);
        pthread_mutex_unlock(&mutex);
    }
    return queue;
}

/* Nearly all blocks are of the stream that was seen first. */
static inline vram_queue *get_queue(struct device *device, void *native) {
    bool first = atomic_load_explicit(&device->stream_count, memory_order_acquire) > 0 &&
                 device->streams[0].native == native;
    return first ? device->streams[0].queue : search_queue(device, native);
}

/* ----------------------------------------------------------------- plug points */

static void count_alloc(struct device *device, uint64_t size) {
    uint64_t now = atomic_fetch_add(&device->requested, size) + size;
    uint64_t peak = atomic_load(&device->requested_peak);
    while (now > peak && !atomic_compare_exchange_weak(&device->requested_peak, &peak, now)) {
    }
}

/* Throws std::bad_alloc where the process has libstdc++; else returns NULL. Holds no lock. */
static void *fail_alloc(void) {
    void *library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_NOLOAD);
    void *symbol = library != NULL ? dlsym(library, "_ZSt17__throw_bad_allocv") : NULL;
    void (*throw_bad_alloc)(void) = NULL;
    if (symbol != NULL) {
        memcpy(&throw_bad_alloc, &symbol, sizeof symbol);
        throw_bad_alloc();
    }
    return NULL;
}

void *vram_torch_alloc(size_t size, int device, void *stream) {
    struct device *where = get_device(device);
    vram_queue *queue = where != NULL ? get_queue(where, stream) : NULL;
    vram_addr addr = 0;
    if (queue == NULL) {
        return fail_alloc();
    }
    vram_status status = vram_alloc(atomic_load(&where->pool), size, queue, &addr);
    if (status != VRAM_OK) {
        say("cannot allocate", status);
        return fail_alloc();
    }
    count_alloc(where, size);
    return (void *)(uintptr_t)addr;
}

/* Four arguments, whatever PyTorch's documentation shows. */
void vram_torch_free(void *ptr, size_t size, int device, void *stream) {
    struct device *where = ptr != NULL ? get_device(device) : NULL;
    vram_queue *queue = where != NULL ? get_queue(where, stream) : NULL;
    if (queue == NULL) {
        return;
    }
    vram_status status = vram_free((vram_addr)(uintptr_t)ptr, queue);
    if (status != VRAM_OK) {
        say("cannot free", status);
        return;
    }
    atomic_fetch_sub(&where->requested, size);
}

/* A stream belongs to one device; the block knows which. */
void vram_torch_record_stream(void *ptr, void *stream) {
    vram_native_info info = {.size = sizeof info};
    vram_addr addr = (vram_addr)(uintptr_t)ptr;
    if (vram_native(addr, &info) != VRAM_OK) {
        return;
    }
    for (int i = 0; i < DEVICES_MAX; i++) {
        if (devices[i].device == info.device && devices[i].device != NULL) {
            vram_queue *queue = get_queue(&devices[i], stream);
            vram_status status = queue != NULL ? vram_use(addr, queue) : VRAM_OK;
            if (status != VRAM_OK) {
                say("cannot note a stream", status);
            }
        }
    }
}

/* Has the streams come as far as all frees: on streams of the program a pool makes no marks when it
   is asked to trim, and here it is the program that asks. A stream that is being captured is left
   out. */
static void settle_streams(struct device *device) {
    uint32_t count = atomic_load_explicit(&device->stream_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        vram_point point;
        if (vram_queue_mark(device->streams[i].queue, &point) == VRAM_OK) {
            vram_point_wait(point, VRAM_TIMEOUT_DEFAULT);
        }
    }
}

/* The first trim takes blocks out of the caches of threads, and tells when they are free. */
void vram_torch_empty_cache(void) {
    for (int i = 0; i < DEVICES_MAX; i++) {
        vram_pool *pool = atomic_load(&devices[i].pool);
        if (pool != NULL) {
            vram_pool_trim(pool, NULL, NULL);
            settle_streams(&devices[i]);
            vram_pool_trim(pool, NULL, NULL);
        }
    }
}

/*
 * Writes up to `count` numbers and returns how many there are: peak requested, peak reserved,
 * requested, reserved (bytes), allocations, hits, moved handles, ns of moving, and driver calls:
 * creates, releases, maps, unmaps. 0 while the device has no pool.
 */
int vram_torch_stats(int device, uint64_t *values, int count) {
    vram_pool_stats stats = {.size = sizeof stats};
    if (device < 0 || device >= DEVICES_MAX) {
        return 0;
    }
    struct device *where = &devices[device];
    vram_pool *pool = atomic_load(&where->pool);
    if (pool == NULL || vram_pool_stats_get(pool, &stats) != VRAM_OK) {
        return 0;
    }
    const uint64_t all[STATS_MAX] = {atomic_load(&where->requested_peak),
                                     stats.peak_reserved_bytes,
                                     atomic_load(&where->requested),
                                     stats.reserved_bytes,
                                     stats.allocs,
                                     stats.hits,
                                     stats.moved_handles,
                                     stats.move_ns,
                                     stats.driver_creates,
                                     stats.driver_releases,
                                     stats.driver_maps,
                                     stats.driver_unmaps};
    for (int i = 0; i < count && i < STATS_MAX; i++) {
        values[i] = all[i];
    }
    return STATS_MAX;
}

/* With the mutex held. A pool without live blocks makes way for a new one; else it stays. */
static vram_status set_limit(struct device *device, vram_pool *pool) {
    vram_limits limits = {.size = sizeof limits, .hard_bytes = device->limit_bytes};
    if (pool == NULL) {
        return VRAM_OK;
    }
    if (atomic_load(&device->requested) != 0) {
        return vram_pool_limits_set(pool, &limits);
    }
    atomic_store(&device->pool, NULL);
    atomic_store(&device->requested_peak, 0);
    return vram_pool_destroy(pool);
}

/*
 * Sets how many bytes the pool of a device may hold from now on; 0: as many as the device has. If
 * no block is live the next allocation has a new pool, which knows nothing of the program. No other
 * thread may use the plug-in meanwhile, and the streams have to be idle. Returns 1 if a new pool
 * will be made, 0 if the pool stays, -1 on failure.
 */
int vram_torch_limit(int device, uint64_t bytes) {
    if (device < 0 || device >= DEVICES_MAX) {
        return -1;
    }
    struct device *where = &devices[device];
    pthread_mutex_lock(&mutex);
    where->limit_bytes = bytes;
    vram_status status = set_limit(where, atomic_load(&where->pool));
    bool fresh = atomic_load(&where->pool) == NULL;
    pthread_mutex_unlock(&mutex);
    if (status != VRAM_OK) {
        say("cannot set the limit", status);
        return -1;
    }
    return fresh;
}

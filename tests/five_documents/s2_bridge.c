/* SPDX-License-Identifier: Apache-2.0 */
/*
 * s2_bridge.c: the code of document S2: memory of every kind with an owner, and messages between
 * the host and a running kernel.
 */
#include "sample.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <vram/compat.h>
#include <vram/ring_device.h>

#include <pthread.h>

/* The document's GpuAllocator: a table of the program's own in front of the driver. */
struct gpu_allocator {
    vram_device *device;
    uint64_t allocations, frees;
};

static vram_status gpu_allocate(void *user, uint64_t bytes, vram_addr *addr) {
    struct gpu_allocator *allocator = user;
    allocator->allocations++;
    return vram_device_alloc(allocator->device, bytes, VRAM_MEMORY_DEVICE, addr);
}

static vram_status gpu_free(void *user, vram_addr addr, uint64_t bytes) {
    struct gpu_allocator *allocator = user;
    (void)bytes;
    allocator->frees++;
    return vram_device_free(allocator->device, addr);
}

struct particle {
    float x, y, z;
};

/* A buffer of any T, with an allocator of its own. Sizes are multiplied unchecked there; here what
   does not fit is refused. */
static void gpu_buffer(struct sample_world *world) {
    struct gpu_allocator allocator = {.device = world->device};
    vram_provider provider = {
        .size = sizeof provider, .user = &allocator, .alloc = gpu_allocate, .free = gpu_free};
    vram_growth particles = {.size = sizeof particles,
                             .policy = VRAM_GROWTH_FIXED,
                             .element_bytes = sizeof(struct particle)};
    vram_buffer_options options = {
        .size = sizeof options, .provider = &provider, .growth = &particles};
    {
        VRAM_AUTO(vram_buffer) *buffer = NULL;
        vram_buffer *too_large = NULL;
        vram_addr pointer;
        must(vram_buffer_create_elements(world->pool, 1000, VRAM_PRECISION_BYTES, NULL, &options,
                                         &buffer));
        must(vram_buffer_addr(buffer, &pointer));      /* as_ptr */
        hold(sample_info(buffer).elements == 1000);    /* len */
        hold(sample_info(buffer).used_bytes == 12000); /* size_bytes */
        hold(sample_info(buffer).capacity_bytes == 12000);
        hold(pointer != 0 && allocator.allocations == 1 && allocator.frees == 0);
        hold(vram_buffer_create_elements(world->pool, UINT64_MAX / 10, VRAM_PRECISION_BYTES, NULL,
                                         &options, &too_large) == VRAM_ERR_OVERFLOW);
        hold(!too_large);
    } /* dropped: its memory is the allocator's again */
    hold(allocator.frees == 1 && allocator.allocations == 1);
}

/* The document's HostAllocator and UnifiedAllocator are ready-made: one table a kind. */
static void host_allocator(struct sample_world *world) {
    static const vram_memory_kind kinds[] = {VRAM_MEMORY_PINNED, VRAM_MEMORY_MANAGED};
    static const uint32_t caps[] = {VRAM_CAP_PINNED, VRAM_CAP_MANAGED};
    vram_device_info device = {.size = sizeof device};
    must(vram_device_describe(world->device, &device));
    for (size_t i = 0; i < COUNT(kinds); i++) {
        vram_provider allocator = {.size = sizeof allocator};
        vram_addr pointer;
        if (!(device.caps & caps[i])) {
            hold(vram_provider_get(world->device, kinds[i], &allocator) == VRAM_ERR_UNSUPPORTED);
            continue;
        }
        must(vram_provider_get(world->device, kinds[i], &allocator));
        must(allocator.alloc(allocator.user, allocator.granule, &pointer)); /* allocate_pinned */
        memset((void *)(uintptr_t)pointer, 1, allocator.granule);
        must(allocator.free(allocator.user, pointer, allocator.granule)); /* free_pinned */

        /* PinnedBuffer::new(len, allocator), UnifiedBuffer::new(len, allocator) */
        vram_buffer_options options = {.size = sizeof options,
                                       .kind = i ? VRAM_BUFFER_MANAGED : VRAM_BUFFER_PINNED,
                                       .provider = &allocator};
        VRAM_AUTO(vram_buffer) *buffer = NULL;
        void *slice;
        must(vram_buffer_create_elements(world->pool, 1024, VRAM_PRECISION_FP32, NULL, &options,
                                         &buffer));
        must(vram_buffer_host(buffer, &slice)); /* as_mut_slice */
        sample_numbers(slice, 1024, 7);
        hold(sample_info(buffer).location == kinds[i]);
    }
}

static void pinned_buffer(struct sample_world *world) {
    vram_buffer_options pinned = {.size = sizeof pinned, .kind = VRAM_BUFFER_PINNED};
    VRAM_AUTO(vram_buffer) *host = NULL;
    VRAM_AUTO(vram_auto_block) device = {world->pool, 0, world->queue};
    vram_async async;
    void *memory;
    must(vram_buffer_create_elements(world->pool, 1024, VRAM_PRECISION_FP32, NULL, &pinned, &host));
    hold(sample_info(host).pinned);
    must(vram_buffer_host(host, &memory));
    float *slice = memory; /* as_mut_slice */
    sample_numbers(slice, 1024, 7);

    /* Required for efficient DMA transfers: this one runs beside everything else. */
    must(vram_alloc(world->pool, 4096, world->queue, &device.addr));
    must(vram_transfer_upload(world->queue, device.addr, slice, 4096, NULL, &async));
    must(vram_async_wait(&async, WAIT));
    vram_async_end(&async);
    float first = slice[0]; /* as_slice */
    memset(slice, 0, 4096);
    must(vram_transfer_download(world->queue, slice, device.addr, 4096, NULL, &async));
    must(vram_async_wait(&async, WAIT));
    vram_async_end(&async);
    hold(slice[0] == first && first != 0);
}

enum { THREADS = 4, ROUNDS = 200 };

/* Each thread gets and gives back, by the older names and by a handle that gives itself back. */
static void *acquire_and_release(void *user) {
    vram_pool *pool = user;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        vram_addr addr = 0;
        VRAM_AUTO(vram_auto_block) pooled = {pool, 0, NULL}; /* PooledBuffer */
        if (vram_acquire(pool, 500 + i, &addr) != VRAM_OK ||
            vram_alloc(pool, 3000, NULL, &pooled.addr) != VRAM_OK || addr == pooled.addr ||
            vram_release(pool, addr) != VRAM_OK) {
            return pool;
        }
    }
    return NULL;
}

static void memory_pool(struct sample_world *world) {
    pthread_t threads[THREADS];
    void *failed;
    for (int i = 0; i < THREADS; i++) {
        hold(pthread_create(&threads[i], NULL, acquire_and_release, world->pool) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        hold(pthread_join(threads[i], &failed) == 0 && !failed);
    }
    vram_pool_stats stats = sample_stats(world->pool);
    hold(stats.hits + stats.misses == 2 * THREADS * ROUNDS);
    hold(stats.hits > stats.misses && stats.returns > 0);
    hold(stats.allocs == stats.frees && stats.live_blocks == 0);

    /* The document's bucket is the next power of two: an option here. */
    vram_pool_options buckets = {.size = sizeof buckets, .flags = VRAM_POOL_POWER_OF_TWO};
    VRAM_AUTO(vram_pool) *bucketed = NULL;
    vram_block_info bucket = {.size = sizeof bucket};
    vram_addr acquired;
    must(vram_pool_create(world->device, &buckets, &bucketed));
    must(vram_acquire(bucketed, 33000, &acquired));
    must(vram_block_info_get(acquired, &bucket));
    hold(bucket.held_bytes == 65536);
    must(vram_release(bucketed, acquired));

    /* Such a bucket wastes up to half of its size; size classes waste at most an eighth. */
    vram_block_info info = {.size = sizeof info};
    VRAM_AUTO(vram_auto_block) pooled = {world->pool, 0, NULL};
    must(vram_alloc(world->pool, 33000, NULL, &pooled.addr));
    must(vram_block_info_get(pooled.addr, &info));
    hold(info.held_bytes >= 33000 && info.held_bytes < 33000 + 33000 / 8);
}

/* The document passes its length in elements for bytes; offsets and sizes are bytes here. */
static void managed_buffer(struct sample_world *world) {
    vram_buffer_options managed = {.size = sizeof managed, .kind = VRAM_BUFFER_MANAGED};
    vram_device_info device = {.size = sizeof device};
    VRAM_AUTO(vram_buffer) *buffer = NULL;
    void *memory;
    must(vram_device_describe(world->device, &device));
    vram_status status = vram_buffer_create_elements(world->pool, 1024, VRAM_PRECISION_FP32,
                                                     world->queue, &managed, &buffer);
    if (!(device.caps & VRAM_CAP_MANAGED)) {
        hold(status == VRAM_ERR_UNSUPPORTED); /* "where available" */
        return;
    }
    must(status);
    must(vram_buffer_host(buffer, &memory));
    float *slice = memory; /* as_slice: from the CPU */
    sample_numbers(slice, 1024, 3);
    must(vram_buffer_prefetch(buffer, 0, 4096, VRAM_TARGET_OWN, world->queue));
    for (int32_t id = 0; id < (int32_t)vram_device_count(world->context); id++) {
        vram_device_info other = {.size = sizeof other};
        must(vram_device_info_get(world->context, (uint32_t)id, &other));
        if (strcmp(other.backend, device.backend) == 0 && strcmp(other.backend, "opencl") != 0) {
            must(vram_buffer_prefetch(buffer, 0, 4096, id, world->queue)); /* prefetch_to_device */
        }
    }
    must(vram_queue_wait(world->queue, WAIT));
    hold(sample_info(buffer).addr == (uintptr_t)memory); /* one address for both */
}

/* detect() of the document, for each of its platforms, and for this one. */
static void memory_visibility(struct sample_world *world) {
    static const struct {
        vram_platform platform;
        const char *version;
        vram_visibility visibility;
    } expected[] = {
        {VRAM_PLATFORM_LINUX, "Linux version 6.1.0-21-amd64", VRAM_VISIBILITY_SYSTEM},
        {VRAM_PLATFORM_LINUX, "Linux version 5.15.90.1-microsoft-standard-WSL2",
         VRAM_VISIBILITY_DEVICE},
        {VRAM_PLATFORM_LINUX, NULL, VRAM_VISIBILITY_SYSTEM}, /* unreadable: not WSL */
        {VRAM_PLATFORM_WINDOWS, NULL, VRAM_VISIBILITY_SYSTEM},
        {VRAM_PLATFORM_MACOS, NULL, VRAM_VISIBILITY_DEVICE},
        {VRAM_PLATFORM_UNKNOWN, NULL,
         VRAM_VISIBILITY_DMA}, /* ExplicitDma, which it never returns */
    };
    for (size_t i = 0; i < COUNT(expected); i++) {
        vram_visibility visibility;
        must(vram_visibility_of_platform(expected[i].platform, expected[i].version, &visibility));
        hold(visibility == expected[i].visibility);
    }
    vram_visibility here;
    char reason[VRAM_VISIBILITY_REASON_MAX];
    must(vram_visibility_detect(world->device, "Linux version 6.1.0", &here, reason));
    hold(here != VRAM_VISIBILITY_AUTO && (here == VRAM_VISIBILITY_SYSTEM) == (reason[0] == '\0'));
}

/* Takes what was sent, gives back its double, and ends when there is no more. */
static void twice(const vram_kernel_call *call) {
    vram_ring_peer peer;
    uint32_t bytes;
    const uint64_t *in;
    if (vram_ring_peer_open(*(vram_ring_control *const *)call->arguments[0], &peer) != 0) {
        return;
    }
    while ((in = vram_ring_peer_take(&peer, &bytes)) != NULL) {
        uint64_t *out = vram_ring_peer_room(&peer);
        if (!out) {
            break;
        }
        *out = *in * 2;
        vram_ring_peer_publish(&peer, sizeof *out, 0);
        vram_ring_peer_done(&peer);
    }
    vram_ring_peer_end(&peer, VRAM_RING_RELAUNCHABLE);
}

static void launch_twice(vram_queue *queue, vram_kernel *kernel, vram_addr control) {
    vram_launch launch = {.size = sizeof launch,
                          .groups = {1, 1, 1},
                          .group_size = {1, 1, 1},
                          .argument_count = 1,
                          .arguments = (const void *[]){&control},
                          .argument_bytes = (size_t[]){sizeof control},
                          .address_mask = 1};
    must(vram_queue_launch(queue, kernel, &launch));
}

/* flush_to_device with each strategy, and a kernel at the other end. The document has comments
   instead of the copies, and only one direction. */
static void bridge(struct sample_world *world, vram_kernel *kernel, vram_ring_strategy strategy) {
    vram_ring_options options = {.size = sizeof options,
                                 .strategy = strategy,
                                 .input_capacity = 8,
                                 .output_capacity = 8,
                                 .message_bytes = 8,
                                 .poll_ns = strategy == VRAM_RING_DMA_POLLING ? 100000 : 0};
    vram_ring_info info = {.size = sizeof info};
    vram_ring_stats stats = {.size = sizeof stats};
    vram_ring *ring;
    vram_async async;
    uint64_t moved, answer;
    vram_status status = vram_ring_create(world->pool, &options, &ring);
    if (strategy == VRAM_RING_DIRECT && status == VRAM_ERR_UNSUPPORTED) {
        hold(vram_error_get()->text[0] != '\0'); /* the device does not see the host's writes */
        return;
    }
    must(status);
    must(vram_ring_info_get(ring, &info));
    for (uint64_t i = 0; i < 5; i++) {
        must(vram_ring_send(ring, &i, sizeof i, 0, WAIT));
    }
    must(vram_ring_flush(ring, &moved, &async));
    must(vram_async_wait(&async, WAIT));
    vram_async_end(&async);
    hold(strategy == VRAM_RING_DMA_POLLING || moved == (strategy == VRAM_RING_DIRECT ? 0 : 5));
    launch_twice(info.queue ? info.queue : world->queue, kernel, info.control);
    for (uint64_t i = 0; i < 5; i++) {
        must(vram_ring_receive(ring, &answer, sizeof answer, WAIT, NULL));
        hold(answer == 2 * i);
    }
    must(vram_queue_wait(info.queue ? info.queue : world->queue, WAIT));
    must(vram_ring_stats_get(ring, &stats));
    hold(stats.host_to_device_count == 5 && stats.device_to_host_count == 5);
    must(vram_ring_destroy(ring));
}

static void transfer_strategies(struct sample_world *world) {
    static const vram_transfer_strategy copies[] = {VRAM_TRANSFER_SYNC, VRAM_TRANSFER_ASYNC,
                                                    VRAM_TRANSFER_DMA_POLLING};
    static const vram_ring_strategy rings[] = {VRAM_RING_SYNC, VRAM_RING_ASYNC, VRAM_RING_DIRECT,
                                               VRAM_RING_DMA_POLLING};
    VRAM_AUTO(vram_auto_block) block = {world->pool, 0, world->queue};
    uint64_t sent = 41, back;
    must(vram_alloc(world->pool, sizeof sent, world->queue, &block.addr));
    for (size_t i = 0; i < COUNT(copies); i++) {
        vram_transfer_options options = {
            .size = sizeof options, .strategy = copies[i], .poll_ns = 100000};
        vram_async async;
        sent++;
        back = 0;
        must(vram_transfer_upload(world->queue, block.addr, &sent, sizeof sent, &options, NULL));
        must(
            vram_transfer_download(world->queue, &back, block.addr, sizeof back, &options, &async));
        must(vram_async_wait(&async, WAIT));
        vram_async_end(&async);
        hold(back == sent);
    }

    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_C,
                                 .code = (const void *)(uintptr_t)twice,
                                 .entry = "twice"};
    vram_kernel *kernel;
    must(vram_kernel_create(world->device, &source, &kernel));
    for (size_t i = 0; i < COUNT(rings); i++) {
        bridge(world, kernel, rings[i]);
    }
    vram_kernel_destroy(kernel);
}

struct VRAM_CACHE_ALIGNED cache_line_aligned {
    float value;
};

/* Compile-time assertions, as there. */
_Static_assert(sizeof(struct cache_line_aligned) == 128, "CacheLineAligned<T> has its own lines");
_Static_assert(_Alignof(vram_ring_control) == 128, "ControlBlock is aligned to two cache lines");
_Static_assert(sizeof(vram_ring_control) == 128, "size_of::<ControlBlock>() == 128");
_Static_assert(_Alignof(vram_ring_telemetry) == 64, "TelemetryBuffer is aligned to one");
_Static_assert(sizeof(vram_ring_telemetry) == 64, "size_of::<TelemetryBuffer>() == 64");

static void cache_line_alignment(struct sample_world *world) {
    vram_ring_info info = {.size = sizeof info};
    vram_ring_telemetry telemetry;
    vram_ring *ring;
    must(vram_ring_create(world->pool, NULL, &ring));
    must(vram_ring_info_get(ring, &info));
    hold(info.control % 128 == 0); /* on the device too */
    must(vram_ring_telemetry_get(ring, &telemetry));
    hold(telemetry.messages_processed == 0);
    must(vram_ring_check(ring));
    must(vram_ring_destroy(ring));
}

const struct sample s2_samples[] = {
    {"S2-01 S2-06 S2-07 S2-08 S2-09 S2-11", "GpuBuffer Wrapper", gpu_buffer},
    {"S2-02 S2-12", "Pinned Host Memory", pinned_buffer},
    {"S2-12 S2-18", "HostAllocator, UnifiedAllocator", host_allocator},
    {"S2-04 S2-10 S2-13 S2-14 S2-15 S2-16 S2-17", "Memory Pool for Ring Buffers", memory_pool},
    {"S2-03 S2-18", "Unified Memory", managed_buffer},
    {"S2-19 S2-20 S2-21", "WSL2 Memory Visibility Issues", memory_visibility},
    {"S2-22 S2-23 S2-24 S2-25", "Memory Transfer Strategies", transfer_strategies},
    {"S2-26 S2-27 S2-28", "Cache-Line Alignment", cache_line_alignment},
    {0},
};

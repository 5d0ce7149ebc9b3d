/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_pool.c: any order of calls on pools, each a few bytes of the input, on a simulated device
 * whose calls fail as the input says. Live blocks never meet and are what the pool says they are,
 * mistakes are refused, the driver sees no breach of its protocol, and once faults are over
 * everything goes.
 */
#include "fuzz.h"
#include "trims.h"

#include "base/handle.h"
#include "base/memory.h"
#include "vram/vram.h"

#include <stdbool.h>
#include <string.h>

static const char *const fuzz_words[] = {NULL};

enum { BLOCKS = 64, QUEUES = 3, POOLS = 2, CALLS_MAX = 3000 };

struct block {
    vram_pool *pool;
    vram_queue *home;  /* it was allocated on; gone, perhaps */
    vram_queue *queue; /* it is freed on */
    vram_addr addr;    /* 0: none */
    uint64_t bytes;
};

static struct {
    const uint8_t *data;
    size_t left;
    vram_context *context;
    vram_device *device;
    vram_queue *queues[QUEUES];
    vram_pool *pools[POOLS];
    struct block blocks[BLOCKS];
    bool lossy; /* a fault has lost the device, or a lie was told: fewer things are certain */
} world;

static uint8_t next(void) {
    if (world.left == 0) {
        return 0;
    }
    world.left--;
    return *world.data++;
}

/* Success, or one of the failures that a program has to live with. */
static vram_status judge(vram_status status, const char *call) {
    bool fine = status == VRAM_OK || vram_status_is_exhausted(status) ||
                status == VRAM_ERR_DEVICE_LOST || status == VRAM_ERR_BACKEND ||
                status == VRAM_ERR_CORRUPT || status == VRAM_ERR_TIMEOUT ||
                status == VRAM_ERR_NOT_READY || status == VRAM_ERR_UNSUPPORTED ||
                status == VRAM_ERR_SHUTDOWN ||
                (status == VRAM_ERR_INVALID && vram_error_get()->native_code);
    if (!fine) {
        fprintf(stderr, "%s: %s: %s\n", call, vram_status_name(status), vram_error_get()->text);
        abort();
    }
    return status;
}

#define TRY(call) judge(call, #call)

/* ---------------------------------------------------------------- operations */

static void check_block(const struct block *block) {
    for (int i = 0; i < BLOCKS; i++) {
        const struct block *other = &world.blocks[i];
        FUZZ_EXPECT(other == block || !other->addr || other->addr >= block->addr + block->bytes ||
                    block->addr >= other->addr + other->bytes);
    }
    vram_block_info info = {.size = sizeof info};
    FUZZ_EXPECT(vram_block_info_get(block->addr, &info) == VRAM_OK);
    FUZZ_EXPECT(info.pool == block->pool && info.held_bytes >= block->bytes);
}

static uint64_t draw_size(void) {
    uint8_t kind = next(), more = next();
    switch (kind % 6) {
    case 0:
        return more;
    case 1:
        return (uint64_t)more * 512;
    case 2:
        return (uint64_t)more << 12;
    case 3:
        return (uint64_t)more << 16;
    case 4:
        return UINT64_MAX - more;
    default:
        return (uint64_t)(more % 16) << 20;
    }
}

static void give(struct block *block) {
    if (block->addr) {
        FUZZ_EXPECT(vram_free(block->addr, block->queue) == VRAM_OK); /* never fails */
        vram_block_info info = {.size = sizeof info};
        FUZZ_EXPECT(vram_block_info_get(block->addr, &info) == VRAM_ERR_INVALID);
        FUZZ_EXPECT(vram_free(block->addr, block->queue) == VRAM_ERR_INVALID);
        block->addr = 0;
    }
}

static void allocate(void) {
    static const uint64_t alignments[] = {0, 256, 512, 4096, 65536, 3, 1 << 30};
    struct block *block = &world.blocks[next() % BLOCKS];
    uint8_t how = next();
    struct block made = {.pool = world.pools[how % POOLS], .queue = world.queues[how / 2 % QUEUES]};
    vram_alloc_options options = {.size = sizeof options, .alignment = alignments[how / 8 % 7]};
    uint64_t size = draw_size();
    options.flags = how >= 192 ? VRAM_ALLOC_CACHED_ONLY : 0;
    options.reserve_bytes = how % 3 ? 0 : (uint64_t)how << 16;
    made.home = made.queue;
    give(block);
    vram_status status = how & 128
                             ? vram_alloc_with(made.pool, size, made.queue, &options, &made.addr)
                             : vram_alloc(made.pool, size, made.queue, &made.addr);
    if (status == VRAM_ERR_INVALID || status == VRAM_ERR_OVERFLOW) {
        FUZZ_EXPECT(size > UINT64_MAX / 2 || (how & 128) || vram_error_get()->native_code);
    } else if (TRY(status) == VRAM_OK) {
        made.bytes = size ? size : 1;
        *block = made;
        check_block(block);
        FUZZ_EXPECT(made.addr % 512 == 0 || ((how & 128) && made.addr % 256 == 0));
        FUZZ_EXPECT(!(how & 128) || !options.alignment || made.addr % options.alignment == 0);
    }
}

/* Work on another queue than the one it was allocated on must be said, or waited for. */
static void work(struct block *block, vram_queue *queue) {
    if (TRY(vram_queue_fill(queue, block->addr, 7, 1, block->bytes)) == VRAM_OK &&
        queue != block->home && TRY(vram_use(block->addr, queue)) != VRAM_OK) {
        (void)vram_sim_fault_set(world.context, NULL);
        (void)TRY(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
    }
}

/* A block that was not resized is as it was; one that becomes smaller always is. */
static void resize(struct block *block) {
    uint64_t size = draw_size();
    vram_status status = vram_resize(block->addr, size, block->queue);
    if (status == VRAM_ERR_OVERFLOW || status == VRAM_ERR_BUSY) {
        FUZZ_EXPECT(size > block->bytes);
    } else if (TRY(status) == VRAM_OK) {
        block->bytes = size ? size : 1;
    }
    FUZZ_EXPECT(status == VRAM_OK || size > block->bytes);
    check_block(block);
}

static void use(void) {
    struct block *block = &world.blocks[next() % BLOCKS];
    uint8_t how = next();
    if (!block->addr) {
        return;
    }
    switch (how / 4 % 5) {
    case 0:
        work(block, block->queue);
        break;
    case 1:
        work(block, world.queues[how % QUEUES]);
        break;
    case 2:
        FUZZ_EXPECT(vram_pin(block->addr) == VRAM_OK);
        break;
    case 3:
        resize(block);
        break;
    default:
        (void)vram_unpin(block->addr);
    }
}

static void mistake(void) {
    struct block *block = &world.blocks[next() % BLOCKS];
    vram_addr addr = block->addr + (uint64_t)next() * 256;
    for (int i = 0; i < BLOCKS; i++) {
        if (!addr || world.blocks[i].addr == addr) {
            return;
        }
    }
    FUZZ_EXPECT(vram_free(addr, world.queues[0]) == VRAM_ERR_INVALID);
    FUZZ_EXPECT(vram_unpin(addr) != VRAM_OK || block->addr == 0);
}

static void plan_fault(void) {
    vram_sim_fault fault = {.size = sizeof fault, .call = (vram_sim_call)next()};
    uint8_t how = next();
    fault.nth = 1 + next() % 32;
    fault.for_ever = how & 1;
    if (how & 2) {
        fault.lie = (vram_sim_lie)(1 + how / 4 % 3);
    } else {
        fault.code = how / 4 % 9;
    }
    if (vram_sim_fault_set(world.context, &fault) == VRAM_OK) {
        world.lossy = world.lossy || fault.code == VRAM_SIM_DEVICE_LOST || fault.lie;
    }
}

static void renew_queue(void) {
    int at = next() % QUEUES;
    vram_queue *queue, *old = world.queues[at];
    if (TRY(vram_queue_create(world.device, NULL, &queue)) == VRAM_OK) {
        for (int i = 0; i < BLOCKS; i++) {
            world.blocks[i].queue = world.blocks[i].queue == old ? queue : world.blocks[i].queue;
        }
        vram_queue_destroy(old);
        world.queues[at] = queue;
    }
}

static void renew_pool(void) {
    int at = next() % POOLS;
    vram_pool_options options = {.size = sizeof options, .flags = next() % 4};
    vram_pool *pool;
    if (TRY(vram_pool_create(world.device, &options, &pool)) != VRAM_OK) {
        return;
    }
    for (int i = 0; i < BLOCKS; i++) {
        world.blocks[i].addr = world.blocks[i].pool == world.pools[at] ? 0 : world.blocks[i].addr;
    }
    (void)TRY(vram_pool_destroy(world.pools[at]));
    world.pools[at] = pool;
}

static void look_after(void) {
    uint8_t how = next();
    vram_pool_stats stats = {.size = sizeof stats};
    switch (how % 4) {
    case 0:
        (void)TRY(vram_pool_trim(world.pools[how / 4 % POOLS],
                                 TRIM(.keep_bytes = (uint64_t)(how / 8) << 20), NULL));
        break;
    case 1:
        (void)TRY(vram_pool_warm(world.pools[how / 4 % POOLS], (uint64_t)how << 8, 1 + how % 40,
                                 world.queues[how % QUEUES]));
        break;
    case 2:
        (void)TRY(vram_queue_wait(world.queues[how / 4 % QUEUES], VRAM_TIMEOUT_DEFAULT));
        break;
    default:
        for (int p = 0; p < POOLS; p++) {
            uint64_t live = 0, bytes = 0;
            for (int i = 0; i < BLOCKS; i++) {
                bool here = world.blocks[i].addr && world.blocks[i].pool == world.pools[p];
                live += here;
                bytes += here ? world.blocks[i].bytes : 0;
            }
            FUZZ_EXPECT(vram_pool_stats_get(world.pools[p], &stats) == VRAM_OK);
            FUZZ_EXPECT(stats.live_blocks == live && stats.allocated_bytes >= bytes);
            FUZZ_EXPECT(stats.reserved_bytes >= stats.allocated_bytes + stats.cached_bytes);
        }
    }
}

/* --------------------------------------------------------------------- a run */

static void (*const operations[])(void) = {allocate,   allocate,   allocate,  allocate,
                                           use,        use,        mistake,   renew_queue,
                                           plan_fault, renew_pool, look_after};

static bool begin(void) {
    char sim[96];
    uint8_t how = next();
    snprintf(sim, sizeof sim, "memory=%uM,granule=%uK,lag=%u,seed=%u,vmm=%s,journal=0",
             8u + how % 8 * 8, 64u << how / 8 % 4, how % 5u * 3, how % 3u,
             how & 128 ? "off" : "on");
    vram_context_options options = {.size = sizeof options, .backends = "sim", .sim = sim};
    FUZZ_EXPECT(vram_context_create(&options, &world.context) == VRAM_OK);
    FUZZ_EXPECT(vram_device_open(world.context, 0, &world.device) == VRAM_OK);
    for (int i = 0; i < QUEUES; i++) {
        FUZZ_EXPECT(vram_queue_create(world.device, NULL, &world.queues[i]) == VRAM_OK);
    }
    for (int i = 0; i < POOLS; i++) {
        FUZZ_EXPECT(vram_pool_create(world.device, NULL, &world.pools[i]) == VRAM_OK);
    }
    return true;
}

static void end(void) {
    vram_sim_state state = {.size = sizeof state};
    char text[200] = "";
    (void)vram_sim_fault_set(world.context, NULL);
    for (int i = 0; i < BLOCKS; i++) {
        give(&world.blocks[i]);
    }
    vram_device_close(world.device);
    FUZZ_EXPECT(vram_sim_state_get(world.context, &state) == VRAM_OK);
    if (vram_sim_violation(world.context, 0, text, sizeof text) == VRAM_OK) {
        fprintf(stderr, "violation: %s\n", text);
        abort();
    }
    FUZZ_EXPECT(world.lossy || (state.live_bytes == 0 && state.live_handles == 0));
    vram_context_destroy(world.context);
    FUZZ_EXPECT(vr_handle_live(0) == 0);
    FUZZ_EXPECT(vr_mem_live_bytes() == 0);
}

static int fuzz_take(const uint8_t *data, size_t bytes) {
    memset(&world, 0, sizeof world);
    world.data = data;
    world.left = bytes;
    begin();
    for (int i = 0; i < CALLS_MAX && world.left > 0; i++) {
        operations[next() % (sizeof operations / sizeof operations[0])]();
    }
    end();
    return 0;
}

/* No reader, so that neither single bytes nor sizes mean much; the memory is that of a simulated
   device and its pools. */
FUZZ_TARGET(pool, .memory_more = 64 << 20, .most = 1)

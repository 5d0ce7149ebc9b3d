/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_bounds.c: every number, handle and pointer that a program can hand to a pool, at every
 * bound there is. Each call answers with a status that exists and a record that fits it, and what
 * is refused changes nothing.
 */
#include "base/handle.h"
#include "base/memory.h"
#include "base/option.h"
#include "byte_units.h"
#include "trims.h"
#include "unit/assert_ok.h"
#include "unit/stats_of.h"
#include "vram/vram.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "edge_values.h"
#include "unit/whole_device.h"

enum { CANARY = 77 };

/* A failure is in the record, success leaves none. */
static vram_status judge(vram_status status, const char *call) {
    const vram_error *error = vram_error_get();
    if (strcmp(vram_status_name(status), "VRAM_ERR_UNKNOWN") == 0 || error->status != status ||
        (status != VRAM_OK && !error->text[0])) {
        fail_msg("%s: %s, the record says %s: %s", call, vram_status_name(status),
                 vram_status_name(error->status), error->text);
    }
    return status;
}

#define TRY(call)           (vram_error_clear(), judge(call, #call))
#define EXPECT(call, wants) assert_int_equal(TRY(call), wants)

/* ----------------------------------------------------------------------- a pool */

struct world {
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_addr addr; /* a live block of 3000 bytes */
    vram_pool_stats before;
};

static struct world world_make(const char *sim, uint32_t flags) {
    struct world world;
    vram_context_options options = {.size = sizeof options, .backends = "sim", .sim = sim};
    vram_pool_options wishes = {.size = sizeof wishes, .flags = flags};
    assert_ok(vram_context_create(&options, &world.context));
    assert_ok(vram_device_open(world.context, 0, &world.device));
    assert_ok(vram_queue_create(world.device, NULL, &world.queue));
    whole_device(world.device);
    assert_ok(vram_pool_create(world.device, &wishes, &world.pool));
    assert_ok(vram_alloc(world.pool, 3000, world.queue, &world.addr));
    world.before = stats_of(world.pool);
    return world;
}

/* Nothing but the one block is live, and it can be freed. */
static void world_end(struct world *world) {
    vram_sim_state state = {.size = sizeof state};
    vram_pool_stats stats = stats_of(world->pool);
    assert_int_equal(stats.live_blocks, 1);
    assert_int_equal(stats.requested_bytes, world->before.requested_bytes);
    assert_int_equal(stats.allocated_bytes, world->before.allocated_bytes);
    assert_ok(TRY(vram_free(world->addr, world->queue)));
    assert_ok(TRY(vram_pool_destroy(world->pool)));
    vram_device_close(world->device);
    assert_ok(vram_sim_state_get(world->context, &state));
    assert_int_equal(state.violations, 0);
    assert_int_equal(state.live_bytes, 0);
    assert_int_equal(state.live_handles, 0);
    vram_context_destroy(world->context);
    vr_option_reset();
    assert_int_equal(vr_mem_live_bytes(), 0);
    assert_int_equal(vr_handle_live(0), 0);
}

static const struct {
    const char *sim;
    uint32_t flags;
} places[] = {
    {"memory=64M", 0},
    {"memory=64M", VRAM_POOL_SEGMENTS},
    {"memory=64M,vmm=off", VRAM_POOL_DETERMINISTIC},
    {"memory=1T,journal=4", 0},
};

#define FOR_PLACES(world)                                                                          \
    for (size_t place = 0; place < sizeof places / sizeof places[0]; place++)                      \
        for (struct world world = world_make(places[place].sim, places[place].flags),              \
                          *once = &world;                                                          \
             once; world_end(&world), once = NULL)

/* ------------------------------------------------------------------ allocations */

static void sizes(void **state) {
    (void)state;
    FOR_PLACES(world) {
        FOR_EACH(size) {
            vram_addr addr = CANARY;
            vram_status status = TRY(vram_alloc(world.pool, size, world.queue, &addr));
            if (status == VRAM_OK) {
                vram_block_info info = {.size = sizeof info};
                assert_ok(TRY(vram_block_info_get(addr, &info)));
                assert_int_equal(info.requested_bytes, size);
                assert_true(info.held_bytes >= size);
                assert_ok(TRY(vram_free(addr, world.queue)));
            } else {
                /* A deterministic pool keeps every segment that it has. */
                bool repeats = places[place].flags & VRAM_POOL_DETERMINISTIC;
                assert_true(size > (repeats ? 8 : 32) * MIB);
                assert_int_equal(status, size > UINT64_MAX - 511 ? VRAM_ERR_OVERFLOW
                                                                 : VRAM_ERR_DEVICE_MEMORY);
                assert_int_equal(addr, CANARY);
            }
        }
    }
}

/* Powers of two from 256 to the granule, which is 2 MiB for mapped memory here, and 0. */
static void alignments_and_flags(void **state) {
    (void)state;
    FOR_PLACES(world) {
        FOR_EACH(value) {
            vram_addr addr = CANARY;
            vram_alloc_options options = {.size = sizeof options, .alignment = value};
            vram_status status =
                TRY(vram_alloc_with(world.pool, 5000, world.queue, &options, &addr));
            bool good = value == 0 || (value >= 256 && (value & (value - 1)) == 0);
            if (status == VRAM_OK) {
                assert_true(good && (value == 0 || addr % value == 0));
                assert_ok(TRY(vram_free(addr, world.queue)));
            } else {
                assert_int_equal(status, VRAM_ERR_INVALID);
                assert_true(!good || value > 4096);
                assert_int_equal(addr, CANARY);
            }
            options = (vram_alloc_options){.size = sizeof options, .flags = (uint32_t)value};
            if ((uint32_t)value > 7) {
                EXPECT(vram_alloc_with(world.pool, 1, world.queue, &options, &addr),
                       VRAM_ERR_INVALID);
            }
            options = (vram_alloc_options){.size = value};
            if (value < sizeof options.size || value > 1 << 16) {
                EXPECT(vram_alloc_with(world.pool, 1, world.queue, &options, &addr),
                       VRAM_ERR_INVALID);
            }
        }
        EXPECT(vram_alloc_with(world.pool, 1, world.queue, NULL, NULL), VRAM_ERR_INVALID);
        EXPECT(vram_alloc(world.pool, 1, world.queue, NULL), VRAM_ERR_INVALID);
    }
}

/* Every address is tried as it is, and as a distance from the live block on both sides. */
static void addresses(void **state) {
    (void)state;
    FOR_PLACES(world) {
        FOR_EACH(value) {
            const uint64_t tried[] = {value, world.addr + value, world.addr - value};
            for (int i = 0; i < 3; i++) {
                vram_block_info info = {.size = sizeof info};
                if (tried[i] == world.addr) {
                    continue;
                }
                EXPECT(vram_free(tried[i], world.queue), tried[i] ? VRAM_ERR_INVALID : VRAM_OK);
                EXPECT(vram_block_info_get(tried[i], &info), VRAM_ERR_INVALID);
                EXPECT(vram_use(tried[i], world.queue), VRAM_ERR_INVALID);
                EXPECT(vram_pin(tried[i]), VRAM_ERR_INVALID);
                EXPECT(vram_unpin(tried[i]), VRAM_ERR_INVALID);
            }
        }
        EXPECT(vram_block_info_get(world.addr, NULL), VRAM_ERR_INVALID);
        EXPECT(vram_unpin(world.addr), VRAM_ERR_INVALID); /* live, and not pinned */
        EXPECT(vram_use(world.addr, NULL), VRAM_ERR_INVALID);
    }
}

/* --------------------------------------------------------------- ahead of time */

/* A count that cannot be met is refused at once: it costs neither time nor host memory. */
static void counts_of_warm_blocks(void **state) {
    (void)state;
    FOR_PLACES(world) {
        uint64_t reserved = stats_of(world.pool).reserved_bytes;
        uint64_t memory = strstr(places[place].sim, "1T") ? UINT64_C(1) << 40 : 64 * MIB;
        FOR_EACH(value) {
            uint32_t count = (uint32_t)value;
            if (count > 4096 && count <= memory / 512) {
                continue; /* it could be met: that would take a while */
            }
            uint64_t host = vram_host_bytes();
            vram_status status = TRY(vram_pool_warm(world.pool, 1, count, world.queue));
            if (count == 0) {
                assert_int_equal(status, VRAM_ERR_INVALID);
            } else {
                assert_int_equal(status, count <= 4096 ? VRAM_OK : VRAM_ERR_DEVICE_MEMORY);
            }
            assert_true(status == VRAM_OK || vram_host_bytes() == host);
        }
        FOR_EACH(size) {
            if (size <= 8 * MIB) {
                assert_ok(TRY(vram_pool_warm(world.pool, size, 2, world.queue)));
            } else if (size > memory / 2) {
                EXPECT(vram_pool_warm(world.pool, size, 2, world.queue),
                       size > UINT64_MAX - 511 ? VRAM_ERR_OVERFLOW : VRAM_ERR_DEVICE_MEMORY);
                EXPECT(vram_pool_warm(world.pool, size, UINT32_MAX, world.queue),
                       size > UINT64_MAX - 511 ? VRAM_ERR_OVERFLOW : VRAM_ERR_DEVICE_MEMORY);
            }
        }
        /* What fails half-way gives back what it took. A deterministic pool gives nothing back:
           whether work is over is no part of the order of requests. */
        bool repeats = places[place].flags & VRAM_POOL_DETERMINISTIC;
        uint64_t most = stats_of(world.pool).reserved_bytes;
        if (memory == 64 * MIB) {
            EXPECT(vram_pool_warm(world.pool, 7 * MIB, 9, world.queue), VRAM_ERR_DEVICE_MEMORY);
            assert_true(repeats || stats_of(world.pool).reserved_bytes <= most);
        }
        FOR_EACH(keep) {
            assert_ok(TRY(vram_pool_trim(world.pool, TRIM(.keep_bytes = keep), NULL)));
        }
        assert_ok(TRY(vram_pool_trim(world.pool, NULL, NULL)));
        assert_true(repeats || stats_of(world.pool).reserved_bytes <= reserved);
    }
}

/* A list of blocks that cannot grow is a failure like any other: all or nothing. */
static void warm_lists_that_do_not_fit(void **state) {
    (void)state;
    struct world world = world_make("memory=64M", 0);
    vram_status status = VRAM_ERR_HOST_MEMORY;
    for (uint64_t nth = 1; status != VRAM_OK; nth++) {
        uint64_t reserved = stats_of(world.pool).reserved_bytes;
        vr_mem_fail_at(nth, true);
        status = TRY(vram_pool_warm(world.pool, 8192, 1000, world.queue));
        vr_mem_fail_at(0, false);
        assert_true(status == VRAM_OK || status == VRAM_ERR_HOST_MEMORY);
        assert_int_equal(stats_of(world.pool).live_blocks, 1);
        if (status != VRAM_OK) {
            assert_ok(vram_pool_trim(world.pool, TRIM(.keep_bytes = reserved), NULL));
            assert_true(stats_of(world.pool).reserved_bytes <= reserved);
        }
    }
    world_end(&world);
}

/* -------------------------------------------------------------------- structs */

static uint64_t nothing(void *user, const vram_oom_event *event) {
    (void)user, (void)event;
    return 0;
}

static void sizes_of_structs(void **state) {
    uint64_t id = 0;
    static union {
        size_t size;
        unsigned char room[1 << 17];
    } any;
    (void)state;
    struct world world = world_make("memory=64M", 0);
    FOR_EACH(size) {
        memset(&any, 0, sizeof any);
        any.size = size;
        bool known = size >= sizeof(vram_pool_stats) && size <= 1 << 16;
        EXPECT(vram_pool_stats_get(world.pool, (void *)&any), known ? VRAM_OK : VRAM_ERR_INVALID);
        any.size = size;
        known = size >= sizeof(vram_block_info) && size <= 1 << 16;
        EXPECT(vram_block_info_get(world.addr, (void *)&any), known ? VRAM_OK : VRAM_ERR_INVALID);
        memset(&any, 0, sizeof any);
        any.size = size;
        vram_pool *pool = NULL;
        known = size >= sizeof(size_t) && size <= 1 << 16;
        EXPECT(vram_pool_ladder_set(world.pool, (void *)&any), known ? VRAM_OK : VRAM_ERR_INVALID);
        known = size >= sizeof(size_t) && size <= 1 << 16;
        EXPECT(vram_pool_create(world.device, (void *)&any, &pool),
               known ? VRAM_OK : VRAM_ERR_INVALID);
        assert_true(known == (pool != NULL));
        assert_ok(TRY(vram_pool_destroy(pool)));
    }
    EXPECT(vram_pool_stats_get(world.pool, NULL), VRAM_ERR_INVALID);
    EXPECT(vram_pool_ladder_set(world.pool, NULL), VRAM_OK);
    EXPECT(vram_error_handler_set(world.context, NULL, NULL), VRAM_OK);
    EXPECT(vram_oom_report_get(world.pool, NULL), VRAM_ERR_INVALID);
    EXPECT(vram_oom_report_write(NULL, VRAM_REPORT_TEXT, NULL, NULL), VRAM_ERR_INVALID);
    EXPECT(vram_oom_callback_add(world.device, NULL, NULL, &id), VRAM_ERR_INVALID);
    EXPECT(vram_oom_callback_add(world.device, nothing, NULL, NULL), VRAM_ERR_INVALID);
    world_end(&world);
}

static vram_status no_memory(void *user, uint64_t bytes, vram_addr *addr) {
    (void)user, (void)bytes, (void)addr;
    return VRAM_ERR_DEVICE_MEMORY;
}

static vram_status none_back(void *user, vram_addr addr, uint64_t bytes) {
    (void)user, (void)bytes, (void)addr;
    return VRAM_OK;
}

/* A pool of each wish that can be had; the others are refused with a reason. */
static void options_of_pools(void **state) {
    (void)state;
    struct world world = world_make("memory=64M", 0);
    vram_pool *canary = (vram_pool *)(uintptr_t)CANARY, *pool = canary;
    FOR_EACH(value) {
        vram_provider provider = {
            .size = sizeof provider, .alloc = no_memory, .free = none_back, .granule = value};
        vram_pool_options options = {.size = sizeof options, .flags = (uint32_t)value};
        bool known = (uint32_t)value < 2 * VRAM_POOL_SHARE_GROUP; /* SHARE_FABRIC needs another */
        EXPECT(vram_pool_create(world.device, &options, &pool), known ? VRAM_OK : VRAM_ERR_INVALID);
        if (known) {
            assert_ok(TRY(vram_pool_destroy(pool)));
            pool = canary;
        }
        options = (vram_pool_options){.size = sizeof options, .slack_bytes = value};
        assert_ok(TRY(vram_pool_create(world.device, &options, &pool)));
        vram_addr addr;
        assert_ok(TRY(vram_alloc(pool, 100, world.queue, &addr)));
        assert_ok(TRY(vram_pool_destroy(pool)));
        pool = canary;
        /* Addresses cost nothing, but there is an end to them. */
        options = (vram_pool_options){.size = sizeof options, .range_bytes = value};
        vram_status status = TRY(vram_pool_create(world.device, &options, &pool));
        assert_true(status == VRAM_OK || value > UINT64_C(1) << 40);
        if (status == VRAM_OK) {
            assert_ok(TRY(vram_pool_destroy(pool)));
            pool = canary;
        }
        options = (vram_pool_options){.size = sizeof options, .provider = &provider};
        known = value == 0 || (value >= 4096 && (value & (value - 1)) == 0);
        EXPECT(vram_pool_create(world.device, &options, &pool), known ? VRAM_OK : VRAM_ERR_INVALID);
        if (known) {
            EXPECT(vram_alloc(pool, 1, world.queue, &addr), VRAM_ERR_DEVICE_MEMORY);
            assert_ok(TRY(vram_pool_destroy(pool)));
            pool = canary;
        }
        provider = (vram_provider){.size = value, .alloc = no_memory, .free = none_back};
        if (value != sizeof provider) {
            EXPECT(vram_pool_create(world.device, &options, &pool), VRAM_ERR_INVALID);
        }
    }
    assert_ptr_equal(pool, canary);
    EXPECT(vram_pool_create(world.device, NULL, NULL), VRAM_ERR_INVALID);
    /* A range of the user's choice is all there is only in a deterministic pool. */
    vram_pool_options narrow = {.size = sizeof narrow, .range_bytes = 4 * MIB};
    vram_addr addr = CANARY;
    assert_ok(TRY(vram_pool_create(world.device, &narrow, &pool)));
    EXPECT(vram_alloc(pool, 65 * MIB, world.queue, &addr), VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(addr, CANARY);
    assert_ok(TRY(vram_alloc(pool, 4 * MIB + 1, world.queue, &addr)));
    assert_ok(TRY(vram_pool_destroy(pool)));
    narrow.flags = VRAM_POOL_DETERMINISTIC;
    addr = CANARY;
    assert_ok(TRY(vram_pool_create(world.device, &narrow, &pool)));
    EXPECT(vram_alloc(pool, 4 * MIB + 1, world.queue, &addr), VRAM_ERR_FRAGMENTED);
    EXPECT(vram_alloc(pool, 65 * MIB, world.queue, &addr), VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(addr, CANARY);
    assert_ok(TRY(vram_alloc(pool, 4 * MIB, world.queue, &addr)));
    EXPECT(vram_alloc(pool, 2 * MIB, world.queue, &addr), VRAM_ERR_FRAGMENTED);
    assert_ok(TRY(vram_pool_destroy(pool)));
    world_end(&world);
}

/* Names as long as the header says, and not a byte more. */
static void names_of_pools(void **state) {
    char name[65];
    (void)state;
    struct world world = world_make("memory=64M", 0);
    vram_pool *canary = (vram_pool *)(uintptr_t)CANARY, *pool = canary;
    vram_pool_options options = {.size = sizeof options, .name = name};
    memset(name, 'n', sizeof name);
    name[64] = 0;
    EXPECT(vram_pool_create(world.device, &options, &pool), VRAM_ERR_INVALID);
    assert_ptr_equal(pool, canary);
    name[63] = 0;
    assert_ok(TRY(vram_pool_create(world.device, &options, &pool)));
    vram_addr addr;
    EXPECT(vram_alloc(pool, UINT64_C(1) << 40, world.queue, &addr), VRAM_ERR_DEVICE_MEMORY);
    assert_ok(TRY(vram_pool_destroy(pool)));
    world_end(&world);
}

/* A limit of the user's own is told as one, whatever is short by it, and all of it can be had. */
static void limits(void **state) {
    static const char *const sims[] = {"memory=64M,lag=100", "memory=64M,lag=100,alias=off",
                                       "memory=64M,lag=100,vmm=off"};
    (void)state;
    for (size_t i = 0; i < sizeof sims / sizeof sims[0]; i++) {
        assert_ok(vram_option_set("device_limit", "32M"));
        struct world world = world_make(sims[i], 0);
        vram_queue *other;
        vram_addr addr, more = CANARY;
        assert_ok(vram_queue_create(world.device, NULL, &other));
        assert_ok(TRY(vram_alloc(world.pool, 20 * MIB, world.queue, &addr)));
        assert_ok(vram_queue_fill(world.queue, addr, 1, 1, 20 * MIB));
        assert_ok(TRY(vram_free(addr, world.queue)));
        assert_ok(TRY(vram_alloc(world.pool, 28 * MIB, other, &addr)));
        EXPECT(vram_alloc(world.pool, 8 * MIB, other, &more), VRAM_ERR_LIMIT);
        EXPECT(vram_pool_warm(world.pool, MIB, 8, other), VRAM_ERR_LIMIT);
        assert_ok(TRY(vram_free(addr, other)));
        EXPECT(vram_alloc(world.pool, 33 * MIB, other, &more), VRAM_ERR_LIMIT);
        assert_int_equal(more, CANARY);
        world_end(&world);
    }
}

/* -------------------------------------------------------------------- handles */

/* Numbers in the place of handles are told apart, whatever they are. */
static void made_up_handles(void **state) {
    (void)state;
    FOR_PLACES(world) {
        FOR_EACH(value) {
            void *made_up = (void *)(uintptr_t)value;
            vram_addr addr = CANARY;
            vram_pool *pool;
            vram_pool_stats stats = {.size = sizeof stats};
            assert_int_not_equal(TRY(vram_pool_create(made_up, NULL, &pool)), VRAM_OK);
            assert_int_not_equal(TRY(vram_alloc(made_up, 1, world.queue, &addr)), VRAM_OK);
            assert_int_not_equal(TRY(vram_alloc_with(made_up, 1, world.queue, NULL, &addr)),
                                 VRAM_OK);
            assert_int_not_equal(TRY(vram_pool_warm(made_up, 1, 1, world.queue)), VRAM_OK);
            assert_int_not_equal(TRY(vram_pool_warm(made_up, 1, UINT32_MAX, world.queue)), VRAM_OK);
            assert_int_not_equal(TRY(vram_pool_trim(made_up, NULL, NULL)), VRAM_OK);
            assert_int_not_equal(TRY(vram_pool_sleep(made_up, NULL)), VRAM_OK);
            assert_int_not_equal(TRY(vram_pool_wake(made_up, NULL)), VRAM_OK);
            assert_int_not_equal(TRY(vram_pool_seal(made_up, NULL)), VRAM_OK);
            assert_int_not_equal(TRY(vram_pool_unseal(made_up, NULL)), VRAM_OK);
            assert_int_not_equal(TRY(vram_pool_rebuild(made_up, NULL, NULL)), VRAM_OK);
            assert_int_not_equal(TRY(vram_pool_stats_get(made_up, &stats)), VRAM_OK);
            assert_int_not_equal(TRY(vram_use(world.addr, made_up)), VRAM_OK);
            if (made_up) { /* NULL is no pool, and for a queue: no queue */
                assert_int_not_equal(TRY(vram_pool_destroy(made_up)), VRAM_OK);
                assert_int_not_equal(TRY(vram_alloc(world.pool, 1, made_up, &addr)), VRAM_OK);
                assert_int_not_equal(TRY(vram_free(world.addr, made_up)), VRAM_OK);
                assert_int_not_equal(TRY(vram_pool_warm(world.pool, 1, 1, made_up)), VRAM_OK);
            }
            assert_int_equal(addr, CANARY);
        }
        assert_ok(TRY(vram_pool_destroy(NULL)));
    }
}

/* ----------------------------------------------------------------------- copies */

/* What begins with a block stays in it: the next bytes may be another block's. */
static void copies_stay_in_their_block(void **state) {
    (void)state;
    FOR_PLACES(world) {
        static char host[8192];
        vram_block_info info = {.size = sizeof info};
        vram_addr other, at = world.addr;
        assert_ok(vram_alloc(world.pool, 6000, world.queue, &other));
        assert_ok(vram_block_info_get(at, &info));
        for (uint64_t more = 0; more < 2; more++) {
            uint64_t bytes = info.held_bytes + more;
            vram_status wants = more ? VRAM_ERR_INVALID : VRAM_OK;
            vram_copy copy = {.to = at, .from_host = host, .bytes = bytes};
            vram_copy_2d rows = {
                .first = copy, .row_bytes = 8, .rows = 2, .to_pitch = bytes - 8, .from_pitch = 8};
            EXPECT(vram_queue_upload(world.queue, at, host, bytes), wants);
            EXPECT(vram_queue_download(world.queue, host, at, bytes), wants);
            EXPECT(vram_queue_copy(world.queue, at, other, bytes), wants);
            EXPECT(vram_queue_copy(world.queue, other, at, bytes), wants);
            EXPECT(vram_queue_fill(world.queue, at, 0, 1, bytes), wants);
            EXPECT(vram_transfer_upload(world.queue, at, host, bytes, NULL, NULL), wants);
            EXPECT(vram_transfer_download(world.queue, host, at, bytes, NULL, NULL), wants);
            EXPECT(vram_transfer_copy(world.queue, other, at, bytes, NULL, NULL), wants);
            EXPECT(vram_transfer_fill(world.queue, at, 0, 1, bytes, NULL, NULL), wants);
            EXPECT(vram_transfer_batch(world.queue, &copy, 1, NULL, NULL), wants);
            EXPECT(vram_transfer_2d(world.queue, &rows, NULL, NULL), wants);
        }
        assert_non_null(strstr(vram_error_get()->text, "past the end of its block of 3072 bytes"));
        assert_ok(vram_queue_upload(world.queue, at + 512, host, info.held_bytes - 512));
        assert_ok(vram_queue_wait(world.queue, VRAM_TIMEOUT_DEFAULT));
        assert_ok(vram_free(other, world.queue));
    }
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(alignments_and_flags),
        cmocka_unit_test(addresses),
        cmocka_unit_test(counts_of_warm_blocks),
        cmocka_unit_test(warm_lists_that_do_not_fit),
        cmocka_unit_test(sizes_of_structs),
        cmocka_unit_test(options_of_pools),
        cmocka_unit_test(names_of_pools),
        cmocka_unit_test(limits),
        cmocka_unit_test(made_up_handles),
        cmocka_unit_test(copies_stay_in_their_block),
    };
    make_values();
    cmocka_set_test_filter(count > 1 ? words[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

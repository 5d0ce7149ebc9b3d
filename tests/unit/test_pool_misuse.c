/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_misuse.c: what programs do wrong with pools, and what devices cannot do: late frees of
 * blocks whose records stand for others, calls in a forked child, ranges that no device has,
 * devices with next to no memory. A status each time, and nothing else.
 */
#include "byte_units.h"
#include "unit/child.h"
#include "unit/device_world.h"
#include "unit/fault_step.h"
#include "unit/stats_of.h"
#include "unit/whole_device.h"
#include "vram/pool.h"
#include "vram/transfer.h"

#include <pthread.h>

static vram_pool *pool_of(struct rig *rig, const vram_pool_options *options) {
    vram_pool *pool;
    assert_ok(vram_pool_create(rig->device, options, &pool));
    return pool;
}

/* ------------------------------------------------------------------ late frees */

struct thief {
    vram_pool *pool;
    vram_queue *queue;
    atomic_uintptr_t target; /* freed again and again, whoever has it */
    atomic_uintptr_t won;    /* the last of these frees that succeeded */
    atomic_bool stop;
};

static void *steal(void *argument) {
    struct thief *thief = argument;
    while (!atomic_load(&thief->stop)) {
        vram_addr addr = atomic_load(&thief->target);
        if (addr && vram_free(addr, thief->queue) == VRAM_OK) {
            atomic_store(&thief->won, addr);
        }
    }
    return NULL;
}

/* Whether the thief has freed that address: the same one, handed out again, cannot be told
   apart. */
static bool was_stolen(struct thief *thief, vram_addr addr) {
    for (int i = 0; i < 1000 && atomic_load(&thief->won) != addr; i++) {
        vr_os_sleep(1000000);
    }
    return atomic_load(&thief->won) == addr;
}

/* Another thread frees every block a second time, at any moment. It may win the race for a block
   that is being freed; it must never get one at another address. */
TEST(second_frees_hit_no_other_block, "sim:memory=1G") {
    struct thief thief = {.pool = pool_of(rig, NULL), .queue = rig->queue};
    vram_addr kept, addr;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, steal, &thief), 0);
    for (unsigned round = 0; round < race_rounds(20000); round++) {
        /* Records wander between sizes when what is free is drained and cut anew. */
        uint64_t size = 512 + (uint64_t)(round * 2654435761u >> 20) * 64;
        assert_ok(vram_alloc(thief.pool, size, rig->queue, &addr));
        atomic_store(&thief.target, addr);
        (void)vram_free(addr, rig->queue);
        atomic_store(&thief.target, 0);
        assert_ok(vram_alloc(thief.pool, size + 512, rig->queue, &kept));
        if (round % 256 == 0) {
            assert_ok(vram_pool_trim(thief.pool, NULL, NULL));
        }
        if (vram_free(kept, rig->queue) != VRAM_OK) {
            assert_true(was_stolen(&thief, kept));
        }
    }
    atomic_store(&thief.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(stats_of(thief.pool).live_blocks, 0);
}

/* --------------------------------------------------------------- odd devices */

/* Devices of one granule or two, and of less than one: what is there can be had, to the last
   one. */
TEST(tiny_devices_give_what_they_have) {
    static const struct {
        const char *sim;
        uint64_t small,
            large; /* the largest sizes that must be served, one after the other; 0: none */
    } rows[] = {
        {"memory=64K", 0, 0},
        {"memory=1M", 0, 0},
        {"memory=2M", 1, 2 * MIB},
        {"memory=3M", 32 * KIB, 2 * MIB},
        {"memory=4M", 1, 4 * MIB},
        {"memory=64K,vmm=off", 32 * KIB, 64 * KIB},
        {"memory=100K,vmm=off", 1, 64 * KIB},
        {"memory=1M,vmm=off", 1, MIB},
        {"memory=3M,vmm=off", 1, 3 * MIB},
        {"memory=64K,granule=64K", 1, 64 * KIB},
        {"memory=192K,granule=64K", 32 * KIB, 192 * KIB},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct rig rig = rig_make("sim", rows[i].sim);
        whole_device(rig.device);
        vram_pool *pool = pool_of(&rig, NULL);
        const uint64_t sizes[] = {rows[i].small, rows[i].large};
        for (int n = 0; n < 6; n++) {
            vram_addr addr;
            uint64_t size = sizes[n % 2];
            vram_status status = vram_alloc(pool, size ? size : 1, rig.queue, &addr);
            if (size) {
                if (status != VRAM_OK) {
                    print_error("%s: %llu bytes: %s\n", rows[i].sim, (unsigned long long)size,
                                vram_error_get()->text);
                }
                assert_ok(status);
                assert_ok(vram_free(addr, rig.queue));
            } else {
                assert_int_equal(status, VRAM_ERR_DEVICE_MEMORY);
                assert_int_equal(vram_error_get()->status, status);
            }
        }
        rig_end_clean(&rig);
    }
}

/* Addresses are finite. A range that was asked for is refused with what to do about it. */
TEST(ranges_are_refused_in_words) {
    static const uint64_t sizes[] = {UINT64_MAX, UINT64_MAX / 2 + 1, UINT64_C(1) << 62,
                                     UINT64_C(1) << 60};
    static const char *const backends[] = {"host", "sim"};
    for (int i = 0; i < 2; i++) {
        struct rig rig = rig_make(backends[i], "memory=1G");
        for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
            vram_pool_options options = {.size = sizeof options, .range_bytes = sizes[n]};
            vram_pool *pool = NULL;
            vram_status status = vram_pool_create(rig.device, &options, &pool);
            assert_true(status == VRAM_ERR_OVERFLOW || vram_status_is_exhausted(status));
            assert_int_equal(vram_error_get()->status, status);
            assert_non_null(strstr(vram_error_get()->text, "range_bytes"));
            assert_null(pool);
        }
        vram_device_close(rig.device);
        vram_context_destroy(rig.context);
    }
}

static vram_status tight_reserve(struct vr_device *device, uint64_t bytes, uint64_t align,
                                 vram_addr *addr) {
    if (bytes > 64 * MIB) {
        return vr_error_set(VRAM_ERR_DEVICE_MEMORY, "hook", "reserve", 1, "refused");
    }
    return hook.vmm->reserve(device, bytes, align, addr);
}

/* Where nothing was asked for, less will do, and further ranges follow as far as there are any;
   what no range can hold is refused as such. */
TEST(tight_systems_get_smaller_ranges, "sim:memory=1G") {
    vram_addr addr, other, none;
    hook_set(rig->device);
    hook.vmm_copy.reserve = tight_reserve;
    vram_pool *pool = pool_of(rig, NULL);
    expect_no_record();
    assert_ok(vram_alloc(pool, 20 * MIB, rig->queue, &addr));
    assert_ok(vram_alloc(pool, 64 * MIB, rig->queue, &other));
    expect_no_record();
    assert_int_equal(vram_alloc(pool, 64 * MIB + 1, rig->queue, &none), VRAM_ERR_FRAGMENTED);
    assert_non_null(strstr(vram_error_get()->text, "range_bytes"));
    assert_ok(vram_free(addr, rig->queue));
    assert_ok(vram_free(other, rig->queue));
}

/* --------------------------------------------------------------------- the limits */

/* A count that cannot be met is refused at once: it costs neither time nor host memory. */
TEST(too_many_warm_blocks_cost_nothing) {
    static const char *const sims[] = {"memory=64M", "memory=64M,vmm=off", "memory=1T,journal=4"};
    for (size_t i = 0; i < sizeof sims / sizeof sims[0]; i++) {
        struct rig rig = rig_make("sim", sims[i]);
        vram_pool *pool = pool_of(&rig, NULL);
        uint64_t before = vram_host_bytes(), most = i == 2 ? UINT64_C(1) << 40 : 64 * MIB;
        assert_int_equal(vram_pool_warm(pool, 1, 0, rig.queue), VRAM_ERR_INVALID);
        for (uint64_t count = UINT32_MAX; count > most / 512; count /= 2) {
            assert_int_equal(vram_pool_warm(pool, 1, (uint32_t)count, rig.queue),
                             VRAM_ERR_DEVICE_MEMORY);
        }
        assert_int_equal(vram_pool_warm(pool, most / 2 + 1, 2, rig.queue), VRAM_ERR_DEVICE_MEMORY);
        assert_int_equal(vram_pool_warm(pool, UINT64_MAX, UINT32_MAX, rig.queue),
                         VRAM_ERR_OVERFLOW);
        assert_int_equal(vram_host_bytes(), before);
        assert_int_equal(vram_pool_warm(pool, most / 2, 2, rig.queue), VRAM_ERR_LIMIT);
        assert_ok(vram_pool_destroy(pool));
        rig_end_clean(&rig);
    }
}

/* A range of the user's choice is all there is only in a deterministic pool. */
TEST(a_narrow_range, "sim:memory=64M") {
    vram_pool_options narrow = {.size = sizeof narrow, .range_bytes = 4 * MIB};
    vram_addr addr;
    whole_device(rig->device);
    vram_pool *pool = pool_of(rig, &narrow);
    assert_int_equal(vram_alloc(pool, 65 * MIB, rig->queue, &addr), VRAM_ERR_DEVICE_MEMORY);
    assert_ok(vram_alloc(pool, 4 * MIB + 1, rig->queue, &addr));
    assert_ok(vram_pool_destroy(pool));
    narrow.flags = VRAM_POOL_DETERMINISTIC;
    pool = pool_of(rig, &narrow);
    assert_int_equal(vram_alloc(pool, 4 * MIB + 1, rig->queue, &addr), VRAM_ERR_FRAGMENTED);
    assert_int_equal(vram_alloc(pool, 65 * MIB, rig->queue, &addr), VRAM_ERR_DEVICE_MEMORY);
    assert_ok(vram_alloc(pool, 4 * MIB, rig->queue, &addr));
    assert_int_equal(vram_alloc(pool, 2 * MIB, rig->queue, &addr), VRAM_ERR_FRAGMENTED);
    assert_ok(vram_pool_destroy(pool));
}

/* What begins with a block stays in it: the next bytes may be another block's. */
TEST(copies_stay_in_their_block, "sim:memory=64M") {
    static char host[8192];
    vram_pool *pool = pool_of(rig, NULL);
    vram_block_info info = {.size = sizeof info};
    vram_queue *queue = rig->queue;
    vram_addr at, other;
    assert_ok(vram_alloc(pool, 3000, queue, &at));
    assert_ok(vram_alloc(pool, 6000, queue, &other));
    assert_ok(vram_block_info_get(at, &info));
    for (uint64_t more = 0; more < 2; more++) {
        uint64_t bytes = info.held_bytes + more;
        vram_status wants = more ? VRAM_ERR_INVALID : VRAM_OK;
        vram_copy copy = {.to = at, .from_host = host, .bytes = bytes};
        vram_copy_2d rows = {
            .first = copy, .row_bytes = 8, .rows = 2, .to_pitch = bytes - 8, .from_pitch = 8};
        assert_int_equal(vram_queue_upload(queue, at, host, bytes), wants);
        assert_int_equal(vram_queue_download(queue, host, at, bytes), wants);
        assert_int_equal(vram_queue_copy(queue, at, other, bytes), wants);
        assert_int_equal(vram_queue_copy(queue, other, at, bytes), wants);
        assert_int_equal(vram_queue_fill(queue, at, 0, 1, bytes), wants);
        assert_int_equal(vram_transfer_upload(queue, at, host, bytes, NULL, NULL), wants);
        assert_int_equal(vram_transfer_download(queue, host, at, bytes, NULL, NULL), wants);
        assert_int_equal(vram_transfer_copy(queue, other, at, bytes, NULL, NULL), wants);
        assert_int_equal(vram_transfer_fill(queue, at, 0, 1, bytes, NULL, NULL), wants);
        assert_int_equal(vram_transfer_batch(queue, &copy, 1, NULL, NULL), wants);
        assert_int_equal(vram_transfer_2d(queue, &rows, NULL, NULL), wants);
    }
    assert_non_null(strstr(vram_error_get()->text, "past the end of its block of 3072 bytes"));
    assert_ok(vram_queue_upload(queue, at + 512, host, info.held_bytes - 512));
    assert_ok(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_pool_destroy(pool));
}

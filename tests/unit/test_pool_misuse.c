/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_pool_misuse.c: what programs do wrong with pools, and what devices cannot do: late frees of
 * blocks whose records stand for others, calls in a forked child, ranges that no device has,
 * devices with next to no memory. A status each time, and nothing else.
 */
#include "byte_units.h"
#include "core/space/space.h"
#include "unit/child.h"
#include "unit/device_world.h"
#include "unit/race_rounds.h"
#include "unit/stats_of.h"
#include "unit/whole_device.h"
#include "vram/pool.h"
#include "vram/transfer.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>

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

/* ------------------------------------------------------------------------- tags */

/* Wishes that any block fulfils are served from what the thread has at hand. */
TEST(tagged_requests_hit, "sim:memory=1G") {
    vram_alloc_options options = {.size = sizeof options, .tag = "kv", .alignment = 512};
    vram_block_info info = {.size = sizeof info};
    vram_addr addr, again;
    vram_pool *pool = pool_of(rig, NULL);
    assert_ok(vram_alloc(pool, 4000, rig->queue, &addr));
    assert_ok(vram_free(addr, rig->queue));
    vram_pool_stats before = stats_of(pool);
    assert_ok(vram_alloc_with(pool, 4000, rig->queue, &options, &again));
    assert_int_equal(again, addr);
    assert_int_equal(stats_of(pool).cache_hits, before.cache_hits + 1);
    assert_int_equal(stats_of(pool).misses, before.misses);
    assert_ok(vram_block_info_get(again, &info));
    assert_string_equal(info.tag, "kv");
    assert_ok(vram_free(again, rig->queue));
}

/* -------------------------------------------------------------- sizes, alignments */

/* No sum of a size and an alignment comes round to something small. */
TEST(wide_alignments_do_not_overflow) {
    static const uint64_t sizes[] = {UINT64_MAX,        UINT64_MAX - 511, UINT64_MAX - 2 * MIB,
                                     UINT64_MAX / 2,    UINT64_MAX / 4,   UINT64_MAX / 4 - 512,
                                     UINT64_C(1) << 40, UINT64_C(1) << 62};
    for (uint32_t flags = 0; flags <= VRAM_POOL_SEGMENTS; flags += VRAM_POOL_SEGMENTS) {
        vram_pool_options options = {.size = sizeof options, .flags = flags};
        struct rig rig = rig_make("sim", "memory=1G");
        vram_pool *pool = pool_of(&rig, &options);
        vram_device_info info = {.size = sizeof info};
        vram_addr addr = 77;
        assert_ok(vram_device_describe(rig.device, &info));
        uint64_t granule = flags ? info.alloc_granule.value : info.vmm_granule.value;
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            for (uint64_t align = 256; align <= granule; align *= 2) {
                vram_alloc_options wide = {.size = sizeof wide, .alignment = align};
                vram_status status = vram_alloc_with(pool, sizes[i], rig.queue, &wide, &addr);
                assert_true(status == VRAM_ERR_OVERFLOW || vram_status_is_exhausted(status));
                assert_int_equal(vram_error_get()->status, status);
            }
        }
        assert_int_equal(addr, 77);
        assert_int_equal(stats_of(pool).reserved_bytes, 0);
        rig_end_clean(&rig);
    }
}

/* 0 bytes have the same rights as any: an address of their own, aligned, freed once. */
TEST(nothing_can_be_aligned, "sim:memory=1G") {
    vram_addr addrs[14];
    int count = 0;
    vram_pool *pool = pool_of(rig, NULL);
    for (uint64_t align = 256; align <= 2 * MIB; align *= 2) {
        vram_alloc_options options = {.size = sizeof options, .alignment = align};
        assert_ok(vram_alloc_with(pool, 0, rig->queue, &options, &addrs[count]));
        assert_int_equal(addrs[count] % align, 0);
        for (int i = 0; i < count; i++) {
            assert_int_not_equal(addrs[i], addrs[count]);
        }
        count++;
    }
    assert_int_equal(stats_of(pool).requested_bytes, 0);
    assert_int_equal(stats_of(pool).live_blocks, count);
    while (count-- > 0) {
        assert_ok(vram_free(addrs[count], rig->queue));
        assert_int_equal(vram_free(addrs[count], rig->queue), VRAM_ERR_INVALID);
    }
}

/* ---------------------------------------------------------------------- children */

struct family {
    struct rig rig;
    vram_pool *pool;
    vram_addr live;
};

/* Every call on a parent's pool, in the child. */
static int use_parents_pool(void *argument) {
    struct family *family = argument;
    vram_pool *pool = family->pool, *made = NULL;
    vram_queue *queue = family->rig.queue;
    vram_block_info info = {.size = sizeof info};
    vram_pool_stats stats = {.size = sizeof stats};
    vram_alloc_options options = {.size = sizeof options};
    vram_addr addr;
    const vram_status answers[] = {
        vram_alloc(pool, 4096, queue, &addr),
        vram_alloc(pool, 3 * MIB, NULL, &addr),
        vram_alloc_with(pool, 4096, queue, &options, &addr),
        vram_free(family->live, queue),
        vram_free(family->live, NULL),
        vram_use(family->live, queue),
        vram_pin(family->live),
        vram_unpin(family->live),
        vram_block_info_get(family->live, &info),
        vram_pool_warm(pool, 4096, 2, queue),
        vram_pool_trim(pool, NULL, NULL),
        vram_pool_stats_get(pool, &stats),
        vram_pool_create(family->rig.device, NULL, &made),
    };
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        if (answers[i] != VRAM_ERR_FORKED) {
            print_error("call %zu answered %s\n", i, vram_status_name(answers[i]));
            return (int)i + 1;
        }
    }
    return vram_pool_destroy(pool) == VRAM_OK ? 0 : 100; /* forgets it, without a word */
}

/* The same, and then the child has a pool of its own. */
static int use_own_pool(void *argument) {
    int answer = use_parents_pool(argument);
    if (answer) {
        return answer;
    }
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = pool_of(&rig, NULL);
    vram_addr addrs[40];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 40; i++) {
            assert_ok(vram_alloc(pool, 4096, rig.queue, &addrs[i]));
        }
        for (int i = 0; i < 40; i++) {
            assert_ok(vram_free(addrs[i], rig.queue));
        }
    }
    assert_true(stats_of(pool).cache_hits > 0);
    assert_int_equal(stats_of(pool).live_blocks, 0);
    assert_ok(vram_pool_trim(pool, NULL, NULL)); /* reaches into this thread's cache */
    assert_int_equal(stats_of(pool).reserved_bytes, 0);
    rig_end_clean(&rig);
    return 0;
}

/* A clone behind the C library's back: no handler runs. */
static int in_clone(int (*work)(void *argument), void *argument) {
    fflush(NULL);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        alarm(CHILD_SECONDS);
        child_leave(work(argument));
    }
    return child_end(child);
}

TEST(children_have_no_pools) {
    static const char *const backends[] = {"host", "sim"};
    for (int i = 0; i < 2; i++) {
        struct family family = {.rig = rig_make(backends[i], "memory=1G")};
        vram_queue *queue = family.rig.queue;
        vram_addr cached[4];
        family.pool = pool_of(&family.rig, NULL);
        for (int n = 0; n < 4; n++) { /* so that the thread has something at hand */
            assert_ok(vram_alloc(family.pool, 4096, queue, &cached[n]));
        }
        for (int n = 0; n < 3; n++) {
            assert_ok(vram_free(cached[n], queue));
        }
        family.live = cached[3];
        assert_int_equal(in_child(use_own_pool, &family), 0);
        assert_int_equal(in_clone(use_own_pool, &family), 0);
        assert_ok(vram_free(family.live, queue)); /* the parent never noticed */
        assert_int_equal(stats_of(family.pool).live_blocks, 0);
        vram_device_close(family.rig.device);
        vram_context_destroy(family.rig.context);
    }
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

/* ------------------------------------------------------- addresses of a pool in the making */

static vram_queue *late_user; /* uses the addresses of the next pool while it is being made */

vram_status __real_vr_space_create(const struct vr_space_config *config, struct vr_space **space);
vram_status __wrap_vr_space_create(const struct vr_space_config *config, struct vr_space **space);
vram_status __wrap_vr_space_create(const struct vr_space_config *config, struct vr_space **space) {
    vram_queue *queue = late_user;
    if (!queue) {
        return __real_vr_space_create(config, space);
    }
    late_user = NULL;
    assert_int_equal(vram_use(config->base, queue), VRAM_ERR_INVALID);
    return vr_fail(VRAM_ERR_HOST_MEMORY, "host memory ran out");
}

/* A block of a pool that has ended is used in another thread, by mistake, and host memory runs out
   for the pool that has its addresses now. */
TEST(late_uses_leave_nothing_in_a_new_pool) {
    const vram_pool_options options = {.size = sizeof options, .flags = VRAM_POOL_DETERMINISTIC};
    struct rig rig = rig_make("sim", "memory=1G");
    vram_pool *pool = NULL;
    late_user = rig.queue;
    assert_int_equal(vram_pool_create(rig.device, &options, &pool), VRAM_ERR_HOST_MEMORY);
    assert_null(late_user); /* it was there */
    rig_end_clean(&rig);
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

/* A limit of the user's own is told as one, whatever is short by it, and all of it can be had. */
TEST(a_limit_is_told) {
    static const char *const sims[] = {"memory=64M,lag=100", "memory=64M,lag=100,alias=off",
                                       "memory=64M,lag=100,vmm=off"};
    for (size_t i = 0; i < sizeof sims / sizeof sims[0]; i++) {
        assert_ok(vram_option_set("device_limit", "32M"));
        struct rig rig = rig_make("sim", sims[i]);
        vram_addr addr, more;
        vram_queue *other;
        whole_device(rig.device);
        vram_pool *pool = pool_of(&rig, NULL);
        assert_ok(vram_queue_create(rig.device, NULL, &other));
        assert_ok(vram_alloc(pool, 20 * MIB, rig.queue, &addr));
        assert_ok(vram_queue_fill(rig.queue, addr, 1, 1, 20 * MIB));
        assert_ok(vram_free(addr, rig.queue));
        assert_ok(vram_alloc(pool, 28 * MIB, other, &addr));
        assert_int_equal(vram_alloc(pool, 8 * MIB, other, &more), VRAM_ERR_LIMIT);
        assert_int_equal(vram_pool_warm(pool, MIB, 8, other), VRAM_ERR_LIMIT);
        assert_ok(vram_free(addr, other));
        assert_int_equal(vram_alloc(pool, 33 * MIB, other, &more), VRAM_ERR_LIMIT);
        assert_ok(vram_pool_destroy(pool));
        rig_end_clean(&rig);
        vr_option_reset();
    }
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

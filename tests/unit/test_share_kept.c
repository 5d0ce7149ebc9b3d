/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_share_kept.c: descriptors that exporters make before somebody asks: an open does not wait
 * for them, there are never too many, and none is left.
 */
#include "share_world.h"

#include "fake/fake_cuda.h"

#include <dlfcn.h>
#include <sys/resource.h>
#include <time.h>

enum { SLOW_US = 150000, MANY = 100, MOST = 64 };

static const struct fake_cuda_control *fake;

static void fake_find(void) {
    const struct fake_cuda_control *(*get)(void) = NULL;
    void *library = dlopen(FAKE_CUDA_PATH, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *found = dlsym(library, "fake_cuda_control");
    assert_non_null(found);
    memcpy(&get, &found, sizeof get);
    fake = get();
}

static uint64_t exports_made(void) {
    return fake->calls("cuMemExportToShareableHandle");
}

/* Waits until so many descriptors were begun, and then until they are made. */
static void await_exports(uint64_t count) {
    for (int i = 0; i < 5000 && exports_made() < count; i++) {
        usleep(1000);
    }
    assert_int_equal(exports_made(), count);
    usleep(SLOW_US * 3 / 2);
}

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static double open_ms(struct share_world *world, const vram_share_token *token,
                      vram_share **opened) {
    double start = now_ms();
    assert_ok(vram_share_open(world->device, token, NULL, opened));
    return now_ms() - start;
}

static void cuda_world_open(struct share_world *world, uint32_t flags) {
    share_backend = "cuda";
    share_world_open(world, flags);
    fake->refuse(NULL, 0, 0, false); /* counts calls from here */
}

/* ------------------------------------------------------------------------- time */

/* The driver needs SLOW_US for a descriptor: neither the export nor an open waits for it. */
TEST(an_open_does_not_wait_for_the_driver) {
    struct share_world world;
    vram_share *share, *opened[3];
    vram_share_token token;
    cuda_world_open(&world, VRAM_POOL_SHAREABLE);
    vram_addr addr = share_block(&world, 8 * MIB, 7);
    uint32_t descriptors = descriptors_open();
    double start = now_ms();
    share_export_one(addr, 0, &share, &token);
    assert_true(now_ms() - start < SLOW_US / 1e3);
    await_exports(1);
    for (int i = 0; i < 3; i++) {
        assert_true(open_ms(&world, &token, &opened[i]) < SLOW_US / 1e3);
    }
    assert_int_equal(exports_made(), 1);
    for (int i = 0; i < 3; i++) {
        assert_ok(vram_share_close(opened[i]));
    }
    assert_ok(vram_share_close(share));
    share_await_descriptors(descriptors);
    share_world_close(&world);
}

/* One that is closed while its descriptor is being made has none when the call returns, and none is
   begun then: its handle may be gone. */
TEST(a_close_meanwhile_leaves_none) {
    struct share_world world;
    vram_share *kept, *share;
    vram_share_token token;
    cuda_world_open(&world, VRAM_POOL_SHAREABLE);
    vram_addr addr = share_block(&world, 2 * MIB, 7);
    share_export_one(addr, 0, &kept, &token); /* so that the server stays */
    await_exports(1);
    uint32_t descriptors = descriptors_open();
    for (unsigned i = 0; i < 24; i++) {
        share_export_one(addr, 0, &share, &token);
        usleep(i < 20 ? 10 * i : (i - 20) * SLOW_US / 3);
        assert_ok(vram_share_close(share));
        assert_true(descriptors_open() <= descriptors);
        uint64_t made = exports_made();
        usleep(5000);
        assert_int_equal(exports_made(), made);
    }
    share_export_one(addr, 0, &share, &token);
    assert_ok(vram_pool_destroy(world.pool));
    assert_int_equal(vram_share_close(share), VRAM_ERR_STALE);
    share_world_close(&world);
}

/* A driver that refuses to make one ahead is asked again by the open. */
TEST(a_refusal_ahead_is_no_failure) {
    struct share_world world;
    vram_share *share, *opened;
    vram_share_token token;
    cuda_world_open(&world, VRAM_POOL_SHAREABLE);
    vram_addr addr = share_block(&world, 2 * MIB, 7);
    fake->refuse("cuMemExportToShareableHandle", 1, VR_CU_OPERATING_SYSTEM, false);
    share_export_one(addr, 0, &share, &token);
    for (int i = 0; i < 5000 && !fake->struck(); i++) {
        usleep(1000);
    }
    assert_int_equal(fake->struck(), 1);
    assert_true(open_ms(&world, &token, &opened) >= SLOW_US / 1e3);
    assert_ok(vram_share_close(opened));
    assert_true(open_ms(&world, &token, &opened) < SLOW_US / 1e3); /* kept, since the first */
    assert_ok(vram_share_close(opened));
    fake->refuse("cuMemExportToShareableHandle", 1, VR_CU_OPERATING_SYSTEM, true);
    assert_true(open_ms(&world, &token, &opened) < SLOW_US / 1e3);
    assert_ok(vram_share_close(opened));
    fake->refuse(NULL, 0, 0, false);
    share_world_close(&world);
}

/* ----------------------------------------------------------------------- numbers */

static uint64_t sim_exports(struct share_world *world) {
    vram_sim_entry entry;
    uint64_t count = 0;
    for (uint64_t back = 0; vram_sim_journal_get(world->context, back, &entry) == VRAM_OK; back++) {
        count += entry.call == VRAM_SIM_EXPORT;
    }
    return count;
}

/* Waits until the server has made `made` descriptors and kept them. */
static void await_made(struct share_world *world, uint64_t made) {
    for (int i = 0; i < 5000 && sim_exports(world) < made; i++) {
        usleep(1000);
    }
    usleep(20000);
    assert_int_equal(sim_exports(world), made);
}

/* Exports of simulated memory, whose descriptors are kept as a GPU's are. */
static void many_open(struct share_world *world, uint32_t count, vram_share **shares,
                      vram_share_token *tokens, uint64_t made) {
    share_backend = "sim";
    share_world_open(world, VRAM_POOL_SHAREABLE);
    vram_addr addr = share_block(world, 2 * MIB, 7);
    for (uint32_t i = 0; i < count; i++) {
        share_export_one(addr, 0, &shares[i], &tokens[i]);
    }
    await_made(world, made);
}

TEST(a_process_keeps_a_few_of_many) {
    struct share_world world;
    static vram_share *shares[MANY];
    static vram_share_token tokens[MANY];
    vram_share *opened;
    many_open(&world, 1, shares, tokens, 1);
    uint32_t before = descriptors_open() - 1; /* one is kept */
    for (uint32_t i = 1; i < MANY; i++) {
        vram_share_part part;
        assert_ok(vram_share_parts_get(shares[0], 0, 1, &part));
        share_export_one(part.addr, 0, &shares[i], &tokens[i]);
    }
    await_made(&world, MOST); /* none was closed for another that nobody wants */
    assert_int_equal(descriptors_open(), before + MOST);
    uint64_t made = MOST;
    /* What is opened is kept, instead of what was not opened for the longest time. */
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(vram_share_open(world.device, &tokens[MANY - 1], NULL, &opened));
        assert_ok(vram_share_close(opened));
        assert_int_equal(sim_exports(&world), made + 1);
    }
    assert_ok(vram_share_open(world.device, &tokens[1], NULL, &opened));
    assert_ok(vram_share_close(opened));
    assert_int_equal(sim_exports(&world), made + 1);
    assert_ok(vram_share_open(world.device, &tokens[0], NULL, &opened));
    assert_ok(vram_share_close(opened));
    assert_int_equal(sim_exports(&world), made + 2);
    for (uint32_t i = 1; i < MANY; i++) {
        assert_ok(vram_share_close(shares[i]));
    }
    share_await_descriptors(before + 2); /* the timeline of the first is a descriptor, too */
    share_world_close(&world);
}

/* With every descriptor of the process in use, those that are kept go first. */
TEST(kept_ones_go_when_others_are_missing) {
    struct share_world world;
    struct rlimit limit, low;
    static vram_share *shares[20], *opened;
    static vram_share_token tokens[20];
    int taken[400], count = 0;
    many_open(&world, 20, shares, tokens, 20);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    low = (struct rlimit){400, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    while (count < 400 && (taken[count] = dup(0)) >= 0) {
        count++;
    }
    assert_true(count > 0 && count < 400);
    vram_status status = vram_share_open(world.device, &tokens[3], NULL, &opened);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while (count > 0) {
        close(taken[--count]);
    }
    assert_ok(status);
    assert_ok(vram_share_close(opened));
    share_world_close(&world);
}

/* ------------------------------------------------------------------------- forks */

static int count_in_child(void *argument) {
    (void)argument;
    return (int)descriptors_open();
}

TEST(a_forked_child_has_none) {
    struct share_world world;
    static vram_share *shares[10];
    static vram_share_token tokens[10];
    vram_share *opened;
    many_open(&world, 10, shares, tokens, 10);
    uint32_t descriptors = descriptors_open();
    assert_true(in_child(count_in_child, NULL) <= (int)descriptors - 10);
    assert_int_equal(descriptors_open(), descriptors);
    uint64_t made = sim_exports(&world);
    assert_ok(vram_share_open(world.device, &tokens[0], NULL, &opened));
    assert_int_equal(sim_exports(&world), made);
    assert_ok(vram_share_close(opened));
    share_world_close(&world);
}

static int begin_file(void) {
    char slow[16];
    snprintf(slow, sizeof slow, "%d", SLOW_US);
    setenv("FAKE_CUDA_EXPORT_DELAY", slow, 1);
    setenv("VRAM_CUDA_LIBRARY", FAKE_CUDA_PATH, 1);
    setenv("VRAM_LIVE", "off", 1); /* it opens files when it likes */
    fake_find();
    return 0;
}
WHOLE_FILE(begin_file, NULL)
EACH_TEST(share_folder_make, share_folder_end)

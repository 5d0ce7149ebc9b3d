/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_nvtx.c: what a tool such as compute-sanitizer is told about the blocks of pools, over the
 * fake driver and a fake tool (tests/fake/fake_nvtx.h) that NVTX_INJECTION64_PATH names. A tool is
 * loaded once in a process, so tools that are absent or want nothing have processes of their own.
 */
#include "byte_units.h"
#include "fake/fake_nvtx.h"
#include "unit/assert_ok.h"
#include "unit/cuda_world.h"
#include "unit/fault_step.h"
#include "unit/whole_device.h"
#include "vram/pool.h"
#include "vram/vram.h"

#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const struct fake_nvtx_control *tool;

static const struct fake_nvtx_control *tool_open(void) {
    const struct fake_nvtx_control *(*get)(void) = NULL;
    void *library = dlopen(FAKE_NVTX_PATH, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *found = dlsym(library, "fake_nvtx_control");
    assert_non_null(found);
    memcpy(&get, &found, sizeof get);
    return get();
}

struct stage {
    vram_context *context;
    vram_device *device;
    vram_queue *queue, *other;
    vram_pool *pool;
};

static void stage_open(struct stage *stage, const vram_pool_options *options) {
    vram_context_options cuda = {.size = sizeof cuda, .backends = "cuda"};
    assert_ok(vram_context_create(&cuda, &stage->context));
    assert_ok(vram_device_open(stage->context, 0, &stage->device));
    assert_ok(vram_queue_create(stage->device, NULL, &stage->queue));
    assert_ok(vram_queue_create(stage->device, NULL, &stage->other));
    whole_device(stage->device);
    assert_ok(vram_pool_create(stage->device, options, &stage->pool));
}

static void stage_close(struct stage *stage) {
    vram_context_destroy(stage->context);
    assert_int_equal(live_total(), 0);
    assert_clean();
    assert_int_equal(tool->heaps(), 0);
    assert_int_equal(tool->regions(), 0);
    assert_int_equal(tool->breaches(), 0);
}

static int begin(void) {
    static struct stage stage;
    tool = tool ? tool : tool_open();
    fake = fake ? fake : fake_open(FAKE_CUDA_PATH);
    fake->reset();
    assert_ok(vram_option_set("cuda_library", FAKE_CUDA_PATH));
    memset(&stage, 0, sizeof stage);
    rig_state = &stage;
    return 0;
}

static int end(void) {
    assert_ok(vram_option_set("cuda_library", NULL));
    return vr_mem_live_blocks() == 0 ? 0 : -1;
}

/* --------------------------------------------------------------------- announcing */

/* The region is what was asked for, not what it was rounded to: one byte more is an overrun. */
TEST(blocks_are_regions) {
    static const uint64_t sizes[] = {1, 511, 513, 70000, 3 * MIB + 1};
    struct stage *stage = rig_state;
    vram_addr addrs[5];
    stage_open(stage, NULL);
    for (int round = 0; round < 3; round++) { /* misses, then hits */
        for (int i = 0; i < 5; i++) {
            assert_ok(vram_alloc(stage->pool, sizes[i], stage->queue, &addrs[i]));
            assert_int_equal(tool->region(addrs[i]), sizes[i]);
            assert_true(tool->accessible(addrs[i], sizes[i]));
            assert_false(tool->accessible(addrs[i], sizes[i] + 1));
        }
        for (int i = 0; i < 5; i++) {
            assert_ok(vram_free(addrs[i], stage->queue));
            assert_false(tool->accessible(addrs[i], 1));
        }
    }
    assert_true(tool->heaps() > 0);
    assert_int_equal(fake->calls("cuMemCreate"), 0); /* segments: announce.h (2) */
    assert_ok(vram_pool_trim(stage->pool, NULL, NULL));
    assert_int_equal(tool->heaps(), 0);
    stage_close(stage);
}

TEST(names_and_sizes_change) {
    struct stage *stage = rig_state;
    vram_alloc_options named = {.size = sizeof named, .name = "weights", .tag = "model"};
    vram_alloc_options strange = {.size = sizeof strange, .name = "two\nlines\x1b[31m"};
    vram_addr addr, other;
    stage_open(stage, NULL);
    assert_ok(vram_alloc_with(stage->pool, 5 * MIB, stage->queue, &named, &addr));
    assert_string_equal(tool->name(addr), "weights");
    assert_ok(vram_resize(addr, 4 * MIB + 100, stage->queue));
    assert_int_equal(tool->region(addr), 4 * MIB + 100);
    assert_ok(vram_alloc_with(stage->pool, 100, stage->queue, &strange, &other));
    assert_int_equal(tool->region(other), 100);
    assert_string_equal(tool->name(other), ""); /* a tool would refuse it */
    assert_ok(vram_free(addr, stage->queue));
    assert_ok(vram_free(other, NULL));
    assert_int_equal(tool->regions(), 0);
    stage_close(stage);
}

/* A kernel may still use a block when it is freed: the tool hears of the free after it. */
TEST(a_free_waits_for_the_work) {
    struct stage *stage = rig_state;
    vram_addr addr;
    vram_point first, second; /* the free itself marks both queues behind them */
    stage_open(stage, NULL);
    assert_ok(vram_alloc(stage->pool, MIB, stage->queue, &addr));
    assert_ok(vram_queue_fill(stage->queue, addr, 1, 4, MIB));
    assert_ok(vram_queue_mark(stage->queue, &first));
    assert_ok(vram_queue_fill(stage->other, addr, 2, 4, MIB));
    assert_ok(vram_queue_mark(stage->other, &second));
    assert_ok(vram_use(addr, stage->other));
    assert_ok(vram_free(addr, stage->queue));
    assert_ok(vram_point_poll(first));
    assert_ok(vram_point_poll(second));
    assert_int_equal(tool->region(addr), 0);
    stage_close(stage);
}

/* Blocks that are live when the pool ends are withdrawn with their segments. */
TEST(an_end_withdraws_all) {
    struct stage *stage = rig_state;
    vram_addr addr;
    stage_open(stage, NULL);
    for (int i = 0; i < 20; i++) {
        assert_ok(vram_alloc(stage->pool, 100 + 70000 * (uint64_t)i, stage->queue, &addr));
    }
    assert_int_equal(tool->regions(), 20);
    stage_close(stage);
}

/* A trace takes hits by a shorter way when it is alone; with a tool it must not. */
TEST(a_trace_hides_nothing) {
    struct stage *stage = rig_state;
    vram_addr addr, before = 0;
    char path[] = "/tmp/vram_nvtx_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    stage_open(stage, NULL);
    vram_trace_options options = {.size = sizeof options, .path = path};
    vram_trace *trace;
    vram_pool *pool;
    assert_ok(vram_trace_begin(stage->context, &options, &trace));
    assert_ok(vram_pool_create(stage->device, NULL, &pool));
    for (int i = 0; i < 100; i++) {
        assert_ok(vram_alloc(pool, 4000, stage->queue, &addr));
        assert_true(i == 0 || addr == before);
        assert_int_equal(tool->region(addr), 4000);
        assert_ok(vram_free(addr, stage->queue));
        assert_int_equal(tool->region(addr), 0);
        before = addr;
    }
    assert_ok(vram_trace_end(trace));
    stage_close(stage);
    unlink(path);
}

/* Pools whose memory is written outside of blocks, or is not the driver's, are left alone. */
TEST(other_pools_are_not_announced) {
    static const uint32_t flags[] = {VRAM_POOL_ZERO_ALLOC, VRAM_POOL_RED_ZONES, VRAM_POOL_POISON};
    struct stage *stage = rig_state;
    for (int i = 0; i < 4; i++) {
        vram_pool_options options = {.size = sizeof options, .flags = i < 3 ? flags[i] : 0};
        vram_addr addr;
        options.kind = i == 3 ? VRAM_MEMORY_PINNED : VRAM_MEMORY_DEVICE;
        uint64_t calls = tool->calls();
        stage_open(stage, &options);
        assert_ok(vram_alloc(stage->pool, 5000, stage->queue, &addr));
        assert_ok(vram_free(addr, stage->queue));
        assert_int_equal(tool->calls(), calls);
        stage_close(stage);
    }
}

static void *storm(void *given) {
    struct stage *stage = given;
    vram_addr addrs[8] = {0};
    for (unsigned i = 0; i < race_rounds(2000); i++) {
        vram_addr *addr = &addrs[i * 7 % 8];
        if (*addr) {
            vram_free(*addr, NULL);
        }
        if (vram_alloc(stage->pool, 1 + i * 997 % 100000, NULL, addr) != VRAM_OK ||
            tool->region(*addr) != 1 + i * 997 % 100000) {
            return given;
        }
    }
    for (unsigned i = 0; i < 8; i++) {
        vram_free(addrs[i], NULL);
    }
    return NULL;
}

TEST(threads_together) {
    struct stage *stage = rig_state;
    pthread_t threads[4];
    stage_open(stage, NULL);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, storm, stage), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(tool->regions(), 0);
    stage_close(stage);
}

/* A segment that the driver does not take back stays announced, and so do the blocks after it. */
TEST(refused_releases) {
    struct stage *stage = rig_state;
    vram_addr addr;
    stage_open(stage, NULL);
    assert_ok(vram_alloc(stage->pool, 5 * MIB, stage->queue, &addr));
    assert_ok(vram_free(addr, stage->queue));
    fake->refuse("cuMemFree", 1, 999, false);
    (void)vram_pool_trim(stage->pool, NULL, NULL);
    fake->refuse(NULL, 0, 0, false);
    assert_int_equal(tool->heaps(), 1);
    assert_ok(vram_alloc(stage->pool, 5 * MIB, stage->queue, &addr));
    assert_int_equal(tool->region(addr), 5 * MIB);
    stage_close(stage);
}

/* ------------------------------------------------------------------- nobody asks */

/* In a process of its own: the pool maps memory as ever, and the tool hears nothing. */
static int quiet_process(void) {
    struct stage stage;
    vram_addr addr;
    begin();
    stage_open(&stage, NULL);
    assert_ok(vram_alloc(stage.pool, 5000, stage.queue, &addr));
    assert_ok(vram_free(addr, stage.queue));
    assert_true(fake->calls("cuMemCreate") > 0);
    assert_int_equal(tool->calls(), 0);
    stage_close(&stage);
    return end();
}

/* Spawned, not forked: a sanitizer's process is too large to be copied. */
static void run_quiet(const char *path, const char *mode) {
    char *words[] = {(char[]){"test_nvtx"}, (char[]){"quiet"}, NULL};
    int status = -1;
    pid_t child;
    if (path) {
        setenv("NVTX_INJECTION64_PATH", path, 1);
    } else {
        unsetenv("NVTX_INJECTION64_PATH");
    }
    setenv("FAKE_NVTX", mode, 1);
    assert_int_equal(posix_spawn(&child, "/proc/self/exe", NULL, NULL, words, environ), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

TEST_IN(NULL, NULL, tools_that_want_nothing) {
    run_quiet(NULL, "");
    run_quiet("", "");
    run_quiet("/nowhere/libtool.so", "");
    run_quiet(FAKE_CUDA_PATH, ""); /* a library without the entry point */
    run_quiet(FAKE_NVTX_PATH, "none");
    run_quiet(FAKE_NVTX_PATH, "refuse");
}

static int play(int count, char **words) {
    (void)words;
    return count == 2 ? quiet_process() : 2;
}
CHILD(play)

static int begin_file(void) {
    return setenv("NVTX_INJECTION64_PATH", FAKE_NVTX_PATH, 1);
}
WHOLE_FILE(begin_file, NULL)
EACH_TEST(begin, end)

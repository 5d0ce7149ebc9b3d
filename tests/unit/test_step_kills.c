/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_step_kills.c: processes that are killed between two instructions while they trace, publish a
 * name, or are recorded by `vram run`. What they had completed is there, what they were at is there
 * or not, and whoever comes next goes on. Some of the instructions; STEP_KILLS=N tries about N of
 * each kind, and of the long way to a name a twentieth.
 */
#include "unit/share_world.h"
#include "unit/step_kill.h"
#include "unit/trace_world.h"

#include "interpose/run_record.h"
#include "unit/watched_world.h"

#include <stdatomic.h>

/* Seen by the child and by the test: what the child has completed. */
static struct done { atomic_uint events; } * done;

static struct share_world world;

static uint64_t kills_wanted(uint64_t otherwise) {
    const char *text = getenv("STEP_KILLS");
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static int begin(void) {
    done = mmap(NULL, sizeof *done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return done == MAP_FAILED || trace_world_begin() || share_folder_make();
}

static int end(void) {
    share_folder_remove();
    return trace_world_end() | munmap(done, sizeof *done);
}

/* Kills a child at instructions of the whole work, and looks at what it has left each time. */
static void kill_everywhere(const struct stepped *stepped, uint64_t wanted, void (*look)(void)) {
    atomic_store(&done->events, 0);
    uint64_t total = step_count(stepped), kills = 0;
    if (!total) {
        print_message("this system traces nobody\n");
        skip();
    }
    look();
    uint64_t step = STEP_EVERY(total, wanted);
    for (uint64_t at = step / 2 + 1; at < total; at += step) {
        atomic_store(&done->events, 0);
        step_kill(stepped, at);
        look();
        kills++;
    }
    print_message("%llu kills within %llu instructions\n", (unsigned long long)kills,
                  (unsigned long long)total);
}

/* ------------------------------------------------------------------------ traces */

static int trace_work(void *argument) {
    vram_addr addr;
    (void)argument;
    if (vram_alloc(world.pool, 1000, NULL, &addr) != VRAM_OK) {
        return 1;
    }
    atomic_fetch_add(&done->events, 1);
    if (vram_free(addr, NULL) != VRAM_OK) {
        return 2;
    }
    atomic_fetch_add(&done->events, 1);
    return 0;
}

static int trace_prepare(void *argument) {
    vram_pool_options tracked = {.size = sizeof tracked, .flags = VRAM_POOL_TRACKED};
    vram_trace_options options = {.size = sizeof options, .path = trace_path};
    vram_trace *trace;
    (void)argument;
    (void)unlink(trace_path);
    share_device_open(&world);
    if (vram_pool_create(world.device, &tracked, &world.pool) != VRAM_OK ||
        vram_trace_begin(world.context, &options, &trace) != VRAM_OK) {
        return 1;
    }
    int code = 0;
    for (int i = 0; i < 20 && code == 0; i++) {
        code = trace_work(NULL); /* the first blocks take memory, and the file its first pages */
    }
    return code;
}

static void trace_look(void) {
    struct found found = read_trace();
    uint64_t completed = atomic_load(&done->events);
    assert_int_equal(found.lost, 0);
    assert_true(found.allocs + found.frees >= completed);
    assert_true(found.allocs + found.frees <= completed + 1);
}

/* Every event whose call has returned is in the file. */
TEST(events_are_there) {
    const struct stepped stepped = {trace_prepare, trace_work, NULL};
    kill_everywhere(&stepped, kills_wanted(12), trace_look);
}

/* ------------------------------------------------------------------------- names */

static vram_share *share;

static int name_prepare(void *argument) {
    vram_share_token token;
    (void)argument;
    share_world_open(&world, VRAM_POOL_SHAREABLE);
    share_export_one(share_block(&world, 4096, 7), 0, &share, &token);
    return 0;
}

static int name_work(void *argument) {
    (void)argument;
    return vram_share_publish(share, "weights/layer0", NULL) == VRAM_OK ? 0 : 1;
}

/* Whatever was left of the name: it can be asked for, and the next process takes it over. */
static void name_look(void) {
    struct share_world next;
    vram_share_token token;
    vram_share *mine, *opened;
    uint32_t names = 0;
    uint64_t version = 0;
    uint32_t descriptors = descriptors_open();
    share_world_open(&next, VRAM_POOL_SHAREABLE);
    assert_ok(vram_share_list(NULL, NULL, &names));
    vram_status status = vram_share_open_name(next.device, "weights/layer0", NULL, &opened);
    assert_true(status == VRAM_ERR_STALE || status == VRAM_ERR_INVALID);
    share_export_one(share_block(&next, 4096, 9), 0, &mine, &token);
    assert_ok(vram_share_publish(mine, "weights/layer0", &version));
    assert_true(version >= 1);
    assert_ok(vram_share_open_name(next.device, "weights/layer0", NULL, &opened));
    assert_ok(vram_share_close(opened));
    assert_ok(vram_share_close(mine));
    share_world_close(&next);
    share_await_descriptors(descriptors);
}

TEST(names_are_taken_over) {
    const struct stepped stepped = {name_prepare, name_work, NULL};
    if (!getenv("STEP_KILLS")) {
        skip(); /* 70,000 instructions: in make test-long */
    }
    kill_everywhere(&stepped, kills_wanted(20) / 20, name_look);
}

/* ---------------------------------------------------------------------- vram run */

static int record_work(void *argument) {
    static uint64_t number;
    uint64_t value = ++number << 20;
    struct run_block block = {.kind = RUN_DEVICE, .value = value, .bytes = 1 << 20};
    (void)argument;
    run_alloc(&block);
    atomic_fetch_add(&done->events, 1);
    if (!run_free_begin(RUN_SPACE_ADDRESS, value, &block)) {
        return 1;
    }
    run_free_end(&block, true);
    atomic_fetch_add(&done->events, 1);
    return 0;
}

static int record_prepare(void *argument) {
    (void)argument;
    (void)unlink(trace_path);
    if (setenv(RUN_TRACE_VARIABLE, trace_path, 1) != 0) {
        return 1;
    }
    watched_begin();
    watched_page->settings.root = getpid();
    if (run_device_find(RUN_CUDA, 0, "a device", 0) >= RUN_DEVICES) {
        return 1;
    }
    return record_work(NULL); /* the first event opens the file */
}

static void record_look(void) {
    uint64_t completed = atomic_load(&done->events);
    struct found found = read_trace();
    assert_true(found.allocs + found.frees >= completed);
    assert_true(found.allocs + found.frees <= completed + 1);
}

TEST(recorded_events_are_there) {
    const struct stepped stepped = {record_prepare, record_work, NULL};
    kill_everywhere(&stepped, kills_wanted(8), record_look);
}

EACH_TEST(begin, end)

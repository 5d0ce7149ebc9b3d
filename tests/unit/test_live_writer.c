/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_live_writer.c: the live page says what the pools say, comes and goes with them, and whatever
 * happens to its file or its thread, the program does not notice.
 */
#include "assert_ok.h"
#include "base/option.h"
#include "base/os/os.h"
#include "child.h"
#include "core/live/live_writer.h"
#include "fault_step.h"
#include "live/page_folder.h"
#include "nothing_left.h"
#include "vram/vram.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#define MIB (UINT64_C(1) << 20)

static char runtime[64], pages[80]; /* XDG_RUNTIME_DIR, and `vram` in it */

struct world {
    vram_context *context;
    vram_device *device;
    vram_pool *pool;
};

static vram_status world_try(struct world *world, const char *sim) {
    vram_context_options options = {.size = sizeof options, .backends = "sim", .sim = sim};
    vram_pool_options named = {.size = sizeof named, .name = "weights", .flags = VRAM_POOL_TRACKED};
    *world = (struct world){0};
    vram_status status = vram_context_create(&options, &world->context);
    status = status == VRAM_OK ? vram_device_open(world->context, 0, &world->device) : status;
    return status == VRAM_OK ? vram_pool_create(world->device, &named, &world->pool) : status;
}

static void world_open(struct world *world) {
    assert_ok(world_try(world, "memory=1G"));
}

static void world_close(struct world *world) {
    assert_ok(vram_context_destroy(world->context));
}

/* -------------------------------------------------------------------- looking */

struct wanted {
    uint64_t pid, updates; /* of this process, with at least so many updates */
    struct page_view view;
    bool found;
};

static bool page_match(void *user, const char *folder, struct page_view *view) {
    struct wanted *wanted = user;
    (void)folder; /* a fault may lead to the other one */
    if (!wanted->found && view->head.pid == wanted->pid && view->head.updates >= wanted->updates) {
        wanted->view = *view;
        wanted->found = true;
    } else {
        page_view_free(view);
    }
    return true;
}

/* Waits up to ten seconds for an update of the process's page. */
static bool page_wait(uint64_t pid, uint64_t updates, struct page_view *view) {
    struct wanted wanted = {.pid = pid, .updates = updates};
    struct pages_met met;
    for (int i = 0; i < 2000 && !wanted.found; i++) {
        pages_visit(page_match, &wanted, &met);
        assert_string_equal(met.problem, "");
        if (!wanted.found) {
            vr_os_sleep(5000000);
        }
    }
    *view = wanted.view;
    return wanted.found;
}

/* A page with all that was done before the call. */
static struct page_view page_now(void) {
    struct page_view view;
    assert_true(page_wait((uint64_t)getpid(), 1, &view));
    uint64_t updates = view.head.updates;
    page_view_free(&view);
    assert_true(page_wait((uint64_t)getpid(), updates + 2, &view));
    return view;
}

static int entries(const char *path) {
    DIR *folder = opendir(path);
    int count = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        count += entry->d_name[0] != '.';
    }
    if (folder) {
        closedir(folder);
    }
    return count;
}

/* ------------------------------------------------------------------- contents */

static void assert_counts(const vram_live_page_counts *counts, const vram_pool_stats *stats) {
    assert_int_equal(counts->held_bytes, stats->reserved_bytes);
    assert_int_equal(counts->live_bytes, stats->requested_bytes);
    assert_int_equal(counts->allocated_bytes, stats->allocated_bytes);
    assert_int_equal(counts->cached_bytes, stats->cached_bytes);
    assert_int_equal(counts->asleep_bytes, stats->asleep_bytes);
    assert_int_equal(counts->live_blocks, stats->live_blocks);
    assert_int_equal(counts->allocs, stats->allocs);
    assert_int_equal(counts->frees, stats->frees);
    assert_int_equal(counts->hits, stats->hits);
    assert_int_equal(counts->misses, stats->misses);
    assert_int_equal(counts->cache_hits, stats->cache_hits);
    assert_int_equal(counts->refusals, stats->refusals);
    assert_int_equal(counts->peak_held_bytes, stats->peak_reserved_bytes);
    assert_int_equal(counts->driver_calls, stats->driver_creates + stats->driver_releases +
                                               stats->driver_maps + stats->driver_unmaps +
                                               stats->driver_accesses + stats->driver_allocs +
                                               stats->driver_frees + stats->driver_markers);
}

static void the_page_says_what_the_pools_say(void **state) {
    (void)state;
    struct world world;
    vram_pool *second;
    vram_addr addr[5];
    vram_pool_stats stats = {.size = sizeof stats};
    vram_alloc_options tagged = {.size = sizeof tagged, .tag = "model/layer"};
    vram_pool_options options = {.size = sizeof options, .name = "second"};
    assert_ok(vram_option_set("tracking", "off")); /* debug builds track every pool */
    world_open(&world);
    assert_ok(vram_pool_create(world.device, &options, &second));
    for (int i = 0; i < 3; i++) {
        assert_ok(vram_alloc(world.pool, MIB << i, NULL, &addr[i]));
    }
    assert_ok(vram_alloc_with(world.pool, 3000, NULL, &tagged, &addr[3]));
    assert_ok(vram_free(addr[0], NULL));
    assert_ok(vram_alloc(world.pool, MIB, NULL, &addr[0]));
    assert_int_not_equal(vram_alloc(world.pool, UINT64_C(2) << 30, NULL, &addr[4]), VRAM_OK);

    struct page_view view = page_now();
    assert_int_equal(view.head.pools.count, 2);
    assert_int_equal(view.head.pools.total, 2);
    assert_string_equal(view.pools[0].name, "weights"); /* it holds more */
    assert_string_equal(view.pools[1].name, "second");
    assert_int_equal(view.pools[0].flags, VRAM_LIVE_PAGE_TRACKED);
    assert_int_equal(view.pools[0].id, (uintptr_t)world.pool);
    assert_int_equal(view.pools[0].device, 0);
    assert_ok(vram_pool_stats_get(world.pool, &stats));
    assert_counts(&view.pools[0].counts, &stats);
    assert_ok(vram_context_stats_get(world.context, &stats));
    assert_int_equal(view.head.sum.live_bytes, stats.requested_bytes);
    assert_int_equal(view.head.sum.allocs, stats.allocs);
    assert_int_equal(view.head.tracked_pools, 1);

    vram_device_info info = {.size = sizeof info};
    assert_ok(vram_device_info_get(world.context, 0, &info));
    assert_int_equal(view.head.devices.count, 1);
    assert_string_equal(view.devices[0].backend, "sim");
    assert_string_equal(view.devices[0].name, info.name);
    assert_int_equal(view.devices[0].uuid_known, info.uuid_known);
    assert_memory_equal(view.devices[0].uuid, info.uuid, 16);
    assert_int_equal(view.devices[0].memory_bytes, UINT64_C(1) << 30);
    assert_int_equal(view.devices[0].held_bytes, view.head.sum.held_bytes);
    assert_int_equal(view.devices[0].pools, 2);

    assert_int_equal(view.head.tags.count, 2);
    assert_string_equal(view.tags[0].name, "model");
    assert_string_equal(view.tags[1].name, "model/layer");
    assert_int_equal(view.tags[1].live_blocks, 1);
    assert_true(view.tags[1].hard_bytes == VRAM_LIVE_PAGE_UNKNOWN);

    assert_int_equal(view.head.refusals.count, 1);
    assert_int_equal(view.head.refusals.total, 1);
    assert_int_equal(view.refusals[0].bytes, UINT64_C(2) << 30);
    assert_int_equal(view.refusals[0].cause, VRAM_OOM_TOO_LARGE);
    assert_int_equal(view.head.causes[VRAM_OOM_TOO_LARGE], 1);
    assert_string_equal(view.refusals[0].pool, "weights");
    vram_oom_report report = {.size = sizeof report};
    assert_ok(vram_oom_report_get(world.pool, &report));
    assert_string_equal(view.refusals[0].text, report.summary);
    page_view_free(&view);
    world_close(&world);
    assert_int_equal(entries(pages), 0);
}

static void the_histogram_counts_live_blocks(void **state) {
    (void)state;
    struct world world;
    struct page_view view;
    vram_addr addr;
    world_open(&world);
    for (int i = 0; i < 3000; i++) {
        assert_ok(vram_alloc(world.pool, 1000, NULL, &addr)); /* bin 10: up to 1024 */
    }
    assert_ok(vram_alloc(world.pool, 1024, NULL, &addr));
    assert_ok(vram_alloc(world.pool, 1025, NULL, &addr));
    for (int i = 0;; i++) {
        view = page_now();
        uint64_t blocks = view.head.sizes[10].blocks, bytes = view.head.sizes[10].bytes;
        uint64_t more = view.head.sizes[11].blocks;
        page_view_free(&view);
        if (blocks == 3001) {
            assert_int_equal(bytes, 3000 * 1000 + 1024);
            assert_int_equal(more, 1);
            break;
        }
        assert_true(i < 1000);
    }
    world_close(&world);
}

static void rates_are_of_the_last_second(void **state) {
    (void)state;
    struct world world;
    struct page_view view;
    world_open(&world);
    uint64_t rate = 0;
    for (int i = 0; i < 400 && rate == 0; i++) {
        vram_addr addr;
        assert_ok(vram_alloc(world.pool, 1000, NULL, &addr));
        assert_ok(vram_free(addr, NULL));
        vr_os_sleep(5000000);
        assert_true(page_wait((uint64_t)getpid(), 1, &view));
        rate = view.pools[0].counts.alloc_rate;
        page_view_free(&view);
    }
    assert_true(rate > 1000 && rate < 200 * 1000); /* at most 200 in a second */
    world_close(&world);
}

/* --------------------------------------------------------------------- lives */

static void it_can_be_left_out(void **state) {
    (void)state;
    struct world world;
    assert_ok(vram_option_set("live", "off"));
    world_open(&world);
    vr_os_sleep(30000000);
    assert_int_equal(entries(pages), 0);
    assert_ok(vram_option_set("live", "on"));
    world_close(&world);
}

static void it_has_no_descriptor_and_one_thread(void **state) {
    (void)state;
    struct world world;
    int threads = entries("/proc/self/task");
    assert_ok(vram_option_set("live", "off"));
    world_open(&world);
    int without = entries("/proc/self/task"), files = entries("/proc/self/fd");
    world_close(&world);
    assert_ok(vram_option_set("live", "on"));
    for (int i = 0; i < 3; i++) {
        world_open(&world);
        struct page_view view = page_now();
        page_view_free(&view);
        assert_int_equal(entries("/proc/self/task"), without + 1);
        int open = files + 1; /* during an update the page is open */
        for (int tries = 0; tries < 100 && open != files; tries++) {
            open = entries("/proc/self/fd");
        }
        assert_int_equal(open, files);
        world_close(&world);
        assert_int_equal(entries("/proc/self/task"), threads);
        assert_int_equal(entries(pages), 0);
    }
}

static void several_contexts_share_a_page(void **state) {
    (void)state;
    struct world one, two;
    world_open(&one);
    world_open(&two);
    struct page_view view = page_now();
    assert_int_equal(view.head.pools.count, 2);
    assert_int_equal(view.head.devices.count, 2);
    page_view_free(&view);
    world_close(&one);
    view = page_now();
    assert_int_equal(view.head.pools.count, 1);
    page_view_free(&view);
    world_close(&two);
    assert_int_equal(entries(pages), 0);
}

static void a_page_that_is_removed_or_cut_comes_back(void **state) {
    (void)state;
    struct world world;
    struct page_view view;
    char path[400];
    world_open(&world);
    view = page_now();
    snprintf(path, sizeof path, "%s/%d-%llu-%llu.page", pages, (int)getpid(),
             (unsigned long long)view.head.start_ticks, (unsigned long long)view.head.pid_space);
    page_view_free(&view);
    assert_int_equal(unlink(path), 0);
    assert_true(page_wait((uint64_t)getpid(), 1, &view));
    page_view_free(&view);
    assert_int_equal(truncate(path, 0), 0);
    assert_true(page_wait((uint64_t)getpid(), 1, &view));
    page_view_free(&view);
    world_close(&world);
}

/* ------------------------------------------------------------------ processes */

/* Plays a part in a child; returns how it ended. */
static int play(void (*part)(void)) {
    pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_SECONDS);
        part();
        child_leave(0);
    }
    return child_end(child);
}

static void child_has_none(void) {
    struct page_view view;
    bool own = page_wait((uint64_t)getppid(), 1, &view); /* the parent's is there */
    page_view_free(&view);
    child_leave(own && entries(pages) == 1 ? 0 : 1);
}

#if !defined(__SANITIZE_THREAD__)
static void child_makes_its_own(void) {
    struct world world;
    struct page_view view;
    if (world_try(&world, "memory=1G") != VRAM_OK || !page_wait((uint64_t)getpid(), 2, &view) ||
        view.head.pools.count != 1 || view.head.refusals.count != 0) {
        child_leave(1);
    }
    page_view_free(&view);
    child_leave(entries(pages) == 2 && vram_context_destroy(world.context) == VRAM_OK &&
                        entries(pages) == 1
                    ? 0
                    : 2);
}

#endif

static void child_exits(void) {
    exit(0); /* runs the handlers that the parent registered */
}

static void a_forked_child_leaves_its_parents_page_alone(void **state) {
    (void)state;
    struct world world;
    struct page_view view;
    world_open(&world);
    view = page_now();
    page_view_free(&view);
    assert_int_equal(play(child_has_none), 0);
#if !defined(__SANITIZE_THREAD__) /* which allows no thread in a child of several */
    assert_int_equal(play(child_makes_its_own), 0);
#endif
    assert_int_equal(play(child_exits), 0);
    view = page_now();
    assert_int_equal(view.head.pools.count, 1);
    page_view_free(&view);
    world_close(&world);
}

static void child_exits_with_a_pool(void) {
    struct world world;
    struct page_view view;
    if (world_try(&world, "memory=1G") != VRAM_OK || !page_wait((uint64_t)getpid(), 2, &view)) {
        child_leave(1);
    }
    exit(0);
}

static void child_closes_all(void) {
    struct world world;
    struct page_view view;
    if (world_try(&world, "memory=1G") != VRAM_OK || !page_wait((uint64_t)getpid(), 2, &view)) {
        child_leave(1);
    }
    uint64_t updates = view.head.updates;
    page_view_free(&view);
    for (int fd = 3; fd < 1024; fd++) {
        close(fd);
    }
    int mine = open("/dev/null", O_RDWR); /* gets a number that was in use before */
    bool goes_on = page_wait((uint64_t)getpid(), updates + 5, &view);
    page_view_free(&view);
    child_leave(goes_on && mine >= 0 && vram_context_destroy(world.context) == VRAM_OK ? 0 : 2);
}

static void child_is_killed(void) {
    struct world world;
    struct page_view view;
    if (world_try(&world, "memory=1G") == VRAM_OK && page_wait((uint64_t)getpid(), 2, &view)) {
        kill(getpid(), SIGKILL);
    }
}

static void a_page_ends_with_its_process(void **state) {
    (void)state;
    struct world world;
    assert_int_equal(play(child_exits_with_a_pool), 0);
    assert_int_equal(entries(pages), 0);
    assert_int_equal(play(child_closes_all), 0);
    assert_int_equal(entries(pages), 0);
    assert_int_equal(play(child_is_killed), 1000 + SIGKILL);
    assert_int_equal(entries(pages), 1);
    world_open(&world); /* its writer removes what the killed one left */
    struct page_view view = page_now();
    page_view_free(&view);
    assert_int_equal(entries(pages), 1);
    world_close(&world);
}

/* ------------------------------------------------------------------- failures */

static atomic_int warnings;
static char warning[512];
static struct world *to_end; /* ended by the log callback */

static void hear(void *user, vram_log_level level, const char *text) {
    (void)user;
    if (level == VRAM_LOG_WARN && strstr(text, "live page")) {
        snprintf(warning, sizeof warning, "%s", text);
        atomic_fetch_add(&warnings, 1);
        if (to_end) {
            assert_ok(vram_context_destroy(to_end->context));
        }
    }
}

static void warnings_wait(int count) {
    for (int i = 0; i < 2000 && atomic_load(&warnings) < count; i++) {
        vr_os_sleep(5000000);
    }
    assert_int_equal(atomic_load(&warnings), count);
}

/* A file may not grow: as on a full file system, but without one. */
static void child_has_no_room(void) {
    struct world world;
    struct rlimit none = {.rlim_cur = 0, .rlim_max = RLIM_INFINITY};
    vram_addr addr;
    vram_log_set(hear, NULL, VRAM_LOG_WARN);
    (void)setrlimit(RLIMIT_FSIZE, &none);
    if (world_try(&world, "memory=1G") != VRAM_OK) {
        child_leave(1);
    }
    warnings_wait(1);
    bool fine = vram_alloc(world.pool, 1000, NULL, &addr) == VRAM_OK && entries(pages) == 0;
    child_leave(fine && vram_context_destroy(world.context) == VRAM_OK ? 0 : 2);
}

static void no_room_costs_a_line_in_the_log(void **state) {
    (void)state;
    assert_int_equal(play(child_has_no_room), 0);
}

static void child_ends_it_from_the_log(void) {
    struct world world;
    vram_log_set(hear, NULL, VRAM_LOG_WARN);
    to_end = &world;
    vram_option_set("live", "off");
    bool made = world_try(&world, "memory=1G") == VRAM_OK;
    vram_option_set("live", "on");
    struct world other;
    vr_os_fail_at(2, true, ENOSPC); /* the thread starts, and nothing works in it */
    made = made && world_try(&other, "memory=1G") == VRAM_OK;
    warnings_wait(1);
    vr_os_fail_at(0, false, 0);
    child_leave(made && vram_context_destroy(other.context) == VRAM_OK ? 0 : 1);
}

static void its_log_callback_may_end_a_context(void **state) {
    (void)state;
    assert_int_equal(play(child_ends_it_from_the_log), 0);
}

/* The n-th system call fails while a pool is created and its page written: there is a page in the
   end, or a line in the log. Exits with 3 if there were not so many calls. */
static void fault_play(uint64_t nth, bool for_ever) {
    struct world world;
    struct wanted wanted = {.pid = (uint64_t)getpid(), .updates = 3};
    struct pages_met met;
    vram_pool *pool;
    vram_addr addr;
    vram_log_set(hear, NULL, VRAM_LOG_WARN);
    assert_ok(vram_option_set("live", "off"));
    world_open(&world);
    assert_ok(vram_option_set("live", "on"));
    vr_os_fail_at(nth, for_ever, ENOSPC);
    bool made = vram_pool_create(world.device, NULL, &pool) == VRAM_OK;
    for (int i = 0; i < 1000 && made && !wanted.found && !warnings; i++) {
        pages_visit(page_match, &wanted, &met);
        vr_os_sleep(2000000);
    }
    bool hit = vr_os_failed() > 0;
    vr_os_fail_at(0, false, 0);
    page_view_free(&wanted.view);
    bool fine = (!made || wanted.found || warnings == 1) &&
                vram_alloc(world.pool, 1000, NULL, &addr) == VRAM_OK &&
                vram_context_destroy(world.context) == VRAM_OK && entries(pages) == 0;
    child_leave(!fine ? 1 : hit ? 0 : 3);
}

static uint64_t fault_nth;
static bool fault_for_ever;

static void child_with_a_fault(void) {
    fault_play(fault_nth, fault_for_ever);
}

static void every_system_call_may_fail(void **state) {
    (void)state;
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        int ended = 0;
        for (fault_nth = 1; ended == 0; fault_nth += FAULT_STEP) {
            fault_for_ever = for_ever;
            ended = play(child_with_a_fault);
            assert_true(fault_nth < 200);
            ended = fault_nth > 60 ? 3 : ended; /* each update makes some calls, and so on */
        }
        print_message("%d calls failed%s\n", (int)fault_nth, for_ever ? " for ever" : "");
        assert_int_equal(ended, 3);
        assert_true(fault_nth > 10);
    }
}

/* ----------------------------------------------------------------------- races */

static void *contexts_come_and_go(void *user) {
    (void)user;
    for (int i = 0; i < 25; i++) {
        struct world world;
        vram_addr addr[16];
        world_open(&world);
        for (int round = 0; round < 20; round++) {
            for (int j = 0; j < 16; j++) {
                assert_ok(vram_alloc(world.pool, 1000u << (j % 8), NULL, &addr[j]));
            }
            for (int j = 0; j < 16; j++) {
                assert_ok(vram_free(addr[j], NULL));
            }
        }
        if (i % 2) {
            assert_ok(vram_pool_destroy(world.pool));
        }
        world_close(&world);
    }
    return NULL;
}

static void *children_come_and_go(void *user) {
    (void)user;
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (child == 0) {
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    return NULL;
}

static void pools_and_forks_race_with_it(void **state) {
    (void)state;
    pthread_t threads[4];
    uint64_t before = vr_live_interval_ns;
    vr_live_interval_ns = 100000;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL,
                                        i < 3 ? contexts_come_and_go : children_come_and_go, NULL),
                         0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    vr_live_interval_ns = before;
    assert_int_equal(entries(pages), 0);
}

/* Removes what is left; returns whether nothing was. */
static int world_begin(void **state) {
    (void)state;
    snprintf(runtime, sizeof runtime, "%s/vram-live-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(runtime));
    snprintf(pages, sizeof pages, "%s/vram", runtime);
    vr_live_interval_ns = 10000000;
    return setenv("XDG_RUNTIME_DIR", runtime, 1) || setenv("VRAM_LIVE", "on", 1);
}

static int world_end(void **state) {
    char other[64];
    (void)state;
    snprintf(other, sizeof other, "/dev/shm/vram-%u", (unsigned)geteuid());
    (void)rmdir(other);                    /* unless others use it */
    return rmdir(pages) || rmdir(runtime); /* nothing is left in them */
}

#define TEST(name) cmocka_unit_test_teardown(name, nothing_left)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_page_says_what_the_pools_say),
        TEST(the_histogram_counts_live_blocks),
        TEST(rates_are_of_the_last_second),
        TEST(it_can_be_left_out),
        TEST(it_has_no_descriptor_and_one_thread),
        TEST(several_contexts_share_a_page),
        TEST(a_page_that_is_removed_or_cut_comes_back),
        TEST(a_forked_child_leaves_its_parents_page_alone),
        TEST(a_page_ends_with_its_process),
        TEST(no_room_costs_a_line_in_the_log),
        TEST(its_log_callback_may_end_a_context),
        TEST(every_system_call_may_fail),
        TEST(pools_and_forks_race_with_it),
    };
    return cmocka_run_group_tests(tests, world_begin, world_end);
}

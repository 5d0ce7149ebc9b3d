/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_live_process.c: whatever happens to a live page's file, its thread or its process, other
 * processes and the program itself do not notice.
 */
#include "child.h"
#include "fault_step.h"
#include "live/attach.h"
#include "live_world.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

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

TEST(a_forked_child_leaves_its_parents_page_alone) {
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

TEST(a_page_ends_with_its_process) {
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

/* The program is replaced by another one, which has the same process id and start. */
static void child_execs(void) {
    struct world world;
    struct page_view view;
    char *words[] = {(char[]){"test_live_process"}, (char[]){"--after-exec"}, NULL};
    if (world_try(&world, "memory=1G") == VRAM_OK && page_wait((uint64_t)getpid(), 2, &view)) {
        execv("/proc/self/exe", words);
    }
}

static int after_exec(void) {
    struct world world;
    struct page_view view;
    vr_live_interval_ns = 10000000;
    snprintf(pages, sizeof pages, "%s/vram", getenv("XDG_RUNTIME_DIR"));
    if (world_try(&world, "memory=1G") != VRAM_OK || !page_wait((uint64_t)getpid(), 1, &view)) {
        return 1;
    }
    bool own = strstr(view.head.command, "--after-exec") != NULL;
    page_view_free(&view);
    for (int i = 0; i < 1000 && !own; i++) { /* that of the program before, until it is replaced */
        vr_os_sleep(5000000);
        own = page_wait((uint64_t)getpid(), 1, &view) && strstr(view.head.command, "--after-exec");
        page_view_free(&view);
    }
    return own && vram_context_destroy(world.context) == VRAM_OK && entries(pages) == 0 ? 0 : 2;
}

TEST(an_exec_replaces_the_page) {
    assert_int_equal(play(child_execs), 0);
    assert_int_equal(entries(pages), 0);
}

static void child_goes_on(void) {
    struct world world;
    vram_addr addr;
    while (world_try(&world, "memory=1G") == VRAM_OK &&
           vram_alloc(world.pool, 1000, NULL, &addr) == VRAM_OK &&
           vram_context_destroy(world.context) == VRAM_OK) {
    }
}

static bool page_pass(void *user, const char *folder, struct page_view *view) {
    (void)user, (void)folder;
    page_view_free(view);
    return true;
}

TEST(it_may_be_killed_at_any_moment) {
    struct pages_met met;
    const char *many = getenv("LIVE_KILLS"); /* ctest -C Long */
    uint64_t kills = many ? strtoull(many, NULL, 10) : 25;
    for (uint64_t i = 0; i < kills; i++) {
        pid_t child = fork();
        if (child == 0) {
            vr_live_interval_ns = 100000;
            child_goes_on();
            _exit(1);
        }
        vr_os_sleep(i * 317000 % 8000000);
        pages_visit_in(pages, page_pass, NULL, &met);
        assert_string_equal(met.problem, "");
        kill(child, SIGKILL);
        assert_int_equal(child_end(child), 1000 + SIGKILL);
        pages_visit_in(pages, page_pass, NULL, &met);
        assert_string_equal(met.problem, "");
        assert_int_equal(entries(pages), 0);
    }
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
    none.rlim_cur = RLIM_INFINITY; /* counts of coverage are written to files when it leaves */
    (void)setrlimit(RLIMIT_FSIZE, &none);
    child_leave(fine && vram_context_destroy(world.context) == VRAM_OK ? 0 : 2);
}

TEST(no_room_costs_a_line_in_the_log) {
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

TEST(its_log_callback_may_end_a_context) {
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
    for (int i = 0; i < 10000 && made && !wanted.found && !warnings; i++) {
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

TEST(every_system_call_may_fail) {
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

/* -------------------------------------------------------------------- requests */

TEST(a_request_is_answered) {
    struct world world;
    struct page_view view;
    struct attach_answer answer;
    char problem[ATTACH_PROBLEM_MAX];
    vram_alloc_options tagged = {.size = sizeof tagged, .tag = "model/layer"};
    vram_addr addr;
    world_open(&world);
    assert_ok(vram_alloc_with(world.pool, 5 * MIB, NULL, &tagged, &addr));
    for (int i = 0; i < 3; i++) {
        assert_ok(vram_alloc(world.pool, 1000, NULL, &addr));
    }
    view = page_now();
    page_view_free(&view);
    assert_true(attach_ask((uint64_t)getpid(), &view, &answer, problem));
    assert_int_equal(answer.blocks, 4);
    assert_int_equal(answer.bytes, 5 * MIB + 3000);
    assert_int_equal(answer.tracked_pools, 1);
    assert_int_equal(answer.group_count, 2);
    assert_string_equal(answer.groups[0].tag, "model/layer");
    assert_int_equal(answer.groups[0].bytes, 5 * MIB);
    assert_int_equal(answer.groups[1].blocks, 3);
    assert_int_equal(answer.largest_count, 4);
    assert_string_equal(answer.largest[0].pool, "weights");
    attach_free(&answer);
    page_view_free(&view);
    world_close(&world);
    assert_int_equal(entries(pages), 0);
}

static atomic_bool asking;

static void *requests_come(void *user) {
    (void)user;
    for (int i = 0; i < 20; i++) {
        struct page_view view;
        struct attach_answer answer;
        char problem[ATTACH_PROBLEM_MAX];
        (void)attach_ask((uint64_t)getpid(), &view, &answer, problem);
        attach_free(&answer);
        page_view_free(&view);
    }
    atomic_store(&asking, false);
    return NULL;
}

TEST(contexts_end_while_they_are_asked_for) {
    pthread_t thread;
    uint64_t before = vr_live_interval_ns;
    vr_live_interval_ns = 1000000;
    atomic_store(&asking, true);
    assert_int_equal(pthread_create(&thread, NULL, requests_come, NULL), 0);
    while (atomic_load(&asking)) {
        struct world world;
        vram_addr addr;
        world_open(&world);
        for (int i = 0; i < 100; i++) {
            assert_ok(vram_alloc(world.pool, 1000, NULL, &addr));
            vr_os_sleep(100000);
        }
        world_close(&world);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    vr_live_interval_ns = before;
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

TEST(pools_and_forks_race_with_it) {
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

static int play_after_exec(int count, char **words) {
    (void)words;
    return count == 2 ? after_exec() : 2;
}
CHILD(play_after_exec)
WHOLE_FILE(world_begin, world_end)

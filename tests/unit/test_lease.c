/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: two holders lend each other memory, in one process and in several. */
#include "lease_world.h"

#include "base/os/os.h"
#include "fault_step.h"
#include "json_check.h"
#include "report_text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>

extern char **environ;

/* ------------------------------------------------------------------- grants */

static void grants(void **state) {
    struct holder first, second;
    vram_lease_options options = lease_options("first", 100 * UNIT, 700 * UNIT);
    (void)state;
    holder_open(&first, &options);
    assert_int_equal(holder_granted(&first), 700 * UNIT);
    options = lease_options("second", 100 * UNIT, 700 * UNIT);
    holder_open(&second, &options);
    assert_int_equal(holder_granted(&second), 324 * UNIT); /* what is left */
    vram_lease_info info = lease_info(second.lease);
    assert_true(info.connected && info.brokers == 1 && info.held_bytes == 0);
    assert_int_equal(info.broker, getpid());
    holder_fill(&second, 600 * UNIT, 2); /* the first does not use its grant: it gives at once */
    assert_int_equal(holder_granted(&first) + holder_granted(&second), 1024 * UNIT);
    holder_expect(&second, 600 * UNIT, 2);
    holder_close(&second);
    holder_fill(&first, 650 * UNIT, 1); /* what the second had is free again */
    holder_close(&first);
}

/* Without a lease nothing is bound, and memory that is held stays. */
static void held_before(void **state) {
    struct holder first, second;
    vram_lease_options options = lease_options("first", 0, 300 * UNIT);
    (void)state;
    holder_device(&first);
    holder_fill(&first, 400 * UNIT, 1);
    assert_int_equal(vram_lease_open(first.device, &options, &first.lease), VRAM_ERR_LIMIT);
    options.want_bytes = 600 * UNIT;
    assert_ok(vram_lease_open(first.device, &options, &first.lease));
    assert_true(holder_granted(&first) >= 400 * UNIT);
    options = lease_options("second", 800 * UNIT, 900 * UNIT);
    options.timeout_ns = SECOND / 5;
    holder_device(&second);
    assert_int_equal(vram_lease_open(second.device, &options, &second.lease), VRAM_ERR_LIMIT);
    assert_non_null(strstr(vram_error_get()->text, "first"));
    assert_ok(vram_lease_close(first.lease));
    assert_ok(vram_lease_open(second.device, &options, &second.lease));
    vram_addr more;
    assert_ok(vram_alloc(first.pool, 500 * UNIT, first.queue, &more)); /* bound by no lease */
    holder_close(&second);
    assert_ok(vram_context_destroy(first.context));
}

/* ------------------------------------------------------------------- giving */

static void *points_run(void *holder) {
    (void)points_until_given(holder);
    return NULL;
}

/* The holder's pool sleeps at a safe point with its contents, and wakes when memory is back. */
static void at_point(void **state) {
    struct holder first, second;
    struct waiter waiter;
    vram_lease_options options = lease_options("first", 0, 800 * UNIT);
    (void)state;
    holder_open(&first, &options);
    holder_list(&first, VRAM_SLEEP_HOST);
    holder_fill(&first, 700 * UNIT, 0x11111111);
    options = lease_options("second", 0, 800 * UNIT);
    holder_open(&second, &options);
    holder_list(&second, VRAM_SLEEP_DROP);
    waiter_start(&waiter, &second, 600 * UNIT);
    assert_true(points_until_given(&first) >= 200 * UNIT);
    waiter_join(&waiter);
    assert_ok(waiter.status);
    assert_int_equal(lease_info(first.lease).revocations, 1);
    assert_true(holder_granted(&first) + holder_granted(&second) <= 1024 * UNIT);
    /* And back: the second is at its safe points while the first wakes. */
    pthread_t thread;
    pthread_create(&thread, NULL, points_run, &second);
    assert_ok(vram_pool_wake(first.pool, NULL));
    pthread_join(thread, NULL);
    holder_expect(&first, 700 * UNIT, 0x11111111);
    holder_close(&first);
    holder_close(&second);
}

static vram_lease_answer count_and_refuse(void *user, const vram_lease_event *event) {
    *(int *)user += event->bytes > 0 && !event->at_point && strcmp(event->name, "second") == 0;
    return VRAM_LEASE_REFUSE;
}

static vram_lease_answer free_block(void *user, const vram_lease_event *event) {
    struct holder *holder = user;
    (void)event;
    return vram_free(holder->addr, holder->queue) == VRAM_OK ? VRAM_LEASE_DONE : VRAM_LEASE_REFUSE;
}

/* From the lease's own thread: no call of the holder is needed. */
static void at_once(void **state) {
    struct holder first, second;
    vram_lease_options options = lease_options("first", 0, 1024 * UNIT);
    (void)state;
    options.flags = VRAM_LEASE_AT_ONCE;
    holder_open(&first, &options);
    holder_list(&first, VRAM_SLEEP_HOST);
    holder_fill(&first, 700 * UNIT, 0x22222222);
    options = lease_options("second", 0, 1024 * UNIT);
    holder_open(&second, &options);
    holder_fill(&second, 700 * UNIT, 2);
    vram_pool_stats stats = {.size = sizeof stats};
    assert_ok(vram_pool_stats_get(first.pool, &stats));
    assert_int_equal(stats.asleep_bytes, 700 * UNIT);
    assert_ok(vram_pool_stats_get(second.pool, &stats));
    assert_int_equal(stats.ladder_rescues[VRAM_LADDER_LEASE], 1);
    assert_ok(vram_free(second.addr, second.queue)); /* free memory is trimmed when it is asked */
    assert_ok(vram_pool_wake(first.pool, NULL));
    holder_expect(&first, 700 * UNIT, 0x22222222);
    holder_close(&first);
    holder_close(&second);
}

static void by_callback(void **state) {
    struct holder first, second;
    vram_lease_options options = lease_options("first", 0, 1024 * UNIT);
    (void)state;
    options.flags = VRAM_LEASE_AT_ONCE;
    options.revoke = free_block;
    options.user = &first;
    holder_device(&first);
    assert_ok(vram_lease_open(first.device, &options, &first.lease));
    holder_fill(&first, 700 * UNIT, 1);
    options = lease_options("second", 0, 1024 * UNIT);
    holder_open(&second, &options);
    holder_fill(&second, 900 * UNIT, 2);
    assert_true(lease_info(first.lease).given_bytes >= 576 * UNIT);
    assert_true(lease_info(second.lease).got_bytes >= 576 * UNIT);
    holder_close(&first);
    holder_close(&second);
}

static vram_lease_answer alloc_inside(void *user, const vram_lease_event *event) {
    struct holder *holder = user;
    vram_addr addr;
    (void)event;
    assert_int_equal(vram_alloc(holder->pool, 400 * UNIT, holder->queue, &addr), VRAM_ERR_LIMIT);
    return VRAM_LEASE_DONE;
}

/* Who is giving does not ask: the other one waits for it. */
static void no_request_inside(void **state) {
    struct holder first, second;
    struct waiter waiter;
    vram_lease_options options = lease_options("first", 0, 1024 * UNIT);
    (void)state;
    options.revoke = alloc_inside;
    options.user = &first;
    holder_device(&first);
    assert_ok(vram_lease_open(first.device, &options, &first.lease));
    holder_list(&first, VRAM_SLEEP_DROP);
    holder_fill(&first, 700 * UNIT, 1);
    options = lease_options("second", 0, 1024 * UNIT);
    holder_open(&second, &options);
    waiter_start(&waiter, &second, 900 * UNIT);
    assert_true(points_until_given(&first) >= 500 * UNIT);
    waiter_join(&waiter);
    assert_ok(waiter.status);
    assert_true(waiter.ns < 5 * SECOND); /* not at a deadline, which is after 20 */
    holder_close(&first);
    holder_close(&second);
}

/* ------------------------------------------------------------------ refusals */

/* The lease and who did not give are in the JSON too. */
static void expect_report_json(const vram_oom_report *report, const char *name) {
    static struct report_text written;
    char part[96];
    memset(&written, 0, sizeof written);
    assert_ok(vram_oom_report_write(report, VRAM_REPORT_JSON, report_text_take, &written));
    assert_true(json_check(written.text, strlen(written.text)));
    const char *lease = strstr(written.text, "\"lease\": {");
    assert_non_null(lease);
    snprintf(part, sizeof part, "\"granted_bytes\": %llu",
             (unsigned long long)report->lease_bytes.value);
    assert_non_null(strstr(lease, part));
    snprintf(part, sizeof part, "\"name\": \"%s\"", name);
    assert_non_null(strstr(lease, part));
}

/* Tries to get more than others give; checks who is named, and why. */
static void expect_refusal(struct holder *holder, const char *name, vram_lease_why why,
                           uint64_t most_ns) {
    struct waiter waiter;
    waiter_start(&waiter, holder, 900 * UNIT);
    waiter_join(&waiter);
    assert_int_equal(waiter.status, VRAM_ERR_LIMIT);
    assert_true(waiter.ns < most_ns);
    assert_int_equal(waiter.report.cause, VRAM_OOM_LEASE);
    assert_int_equal(waiter.report.lender_count, 1);
    assert_string_equal(waiter.report.lenders[0].name, name);
    assert_int_equal(waiter.report.lenders[0].why, why);
    assert_int_equal(waiter.report.lenders[0].process, getpid());
    assert_non_null(strstr(waiter.report.summary, vram_lease_why_text(why)));
    assert_true(waiter.report.lease_bytes.known);
    expect_report_json(&waiter.report, name);
}

static void refusals(void **state) {
    struct holder first, second;
    int calls = 0;
    vram_lease_options options = lease_options("first", 0, 700 * UNIT);
    (void)state;
    options.flags = VRAM_LEASE_AT_ONCE;
    options.revoke = count_and_refuse;
    options.user = &calls;
    holder_open(&first, &options);
    holder_list(&first, VRAM_SLEEP_DROP);
    holder_fill(&first, 600 * UNIT, 1);
    options = lease_options("second", 0, 1024 * UNIT);
    holder_open(&second, &options);
    expect_refusal(&second, "first", VRAM_LEASE_REFUSED, SECOND);
    assert_int_equal(calls, 1);
    holder_expect(&first, 600 * UNIT, 1); /* untouched */
    holder_close(&first);

    options = lease_options("mean", 700 * UNIT, 700 * UNIT);
    holder_open(&first, &options);
    holder_fill(&first, 600 * UNIT, 1);
    expect_refusal(&second, "mean", VRAM_LEASE_MINIMUM, SECOND);
    holder_close(&first);

    options = lease_options("busy", 0, 700 * UNIT);
    options.flags = VRAM_LEASE_AT_ONCE; /* but nothing is listed */
    holder_open(&first, &options);
    holder_fill(&first, 600 * UNIT, 1);
    expect_refusal(&second, "busy", VRAM_LEASE_IN_USE, SECOND);
    holder_close(&first);

    options = lease_options("high", 0, 700 * UNIT);
    options.flags = VRAM_LEASE_AT_ONCE;
    options.priority = 5;
    holder_open(&first, &options);
    holder_list(&first, VRAM_SLEEP_DROP);
    holder_fill(&first, 600 * UNIT, 1);
    expect_refusal(&second, "high", VRAM_LEASE_PRIORITY, SECOND);
    assert_true(holder_granted(&first) <= 602 * UNIT); /* what it did not use, it gave */
    holder_close(&first);
    holder_close(&second);
}

/* A holder without safe points costs the asker its whole deadline, and not more. */
static void no_point(void **state) {
    struct holder first, second;
    uint64_t given = 1;
    vram_lease_options options = lease_options("late", 0, 700 * UNIT);
    (void)state;
    holder_open(&first, &options);
    holder_list(&first, VRAM_SLEEP_DROP);
    holder_fill(&first, 600 * UNIT, 1);
    options = lease_options("second", 0, 1024 * UNIT);
    options.timeout_ns = SECOND / 5;
    holder_open(&second, &options);
    uint64_t begin = lease_now();
    expect_refusal(&second, "late", VRAM_LEASE_NO_POINT, SECOND);
    assert_true(lease_now() - begin >= SECOND / 5);
    for (int i = 0; i < 2000 && lease_info(first.lease).asked_bytes; i++) {
        usleep(1000); /* the broker tells it a moment later */
    }
    assert_ok(vram_lease_point(first.lease, &given)); /* nobody waits any more: nothing sleeps */
    assert_int_equal(given, 0);
    holder_expect(&first, 600 * UNIT, 1);
    holder_close(&first);
    holder_close(&second);
}

/* -------------------------------------------------------------------- inputs */

static void bad_input(void **state) {
    struct holder holder;
    vram_lease *lease = NULL;
    vram_lease_options options = lease_options("x", 0, 0);
    (void)state;
    holder_device(&holder);
    assert_int_equal(vram_lease_open(holder.device, &options, &lease), VRAM_ERR_INVALID);
    assert_non_null(strstr(vram_error_get()->text, "0 bytes"));
    assert_int_equal(vram_lease_open(holder.device, NULL, &lease), VRAM_ERR_INVALID);
    options = lease_options("x", 2 * UNIT, UNIT);
    assert_int_equal(vram_lease_open(holder.device, &options, &lease), VRAM_ERR_INVALID);
    options = lease_options("x", 0, 1025 * UNIT);
    assert_int_equal(vram_lease_open(holder.device, &options, &lease), VRAM_ERR_LIMIT);
    assert_non_null(strstr(vram_error_get()->text, "64.00 MiB in all"));
    options = lease_options("x", 512 * UNIT, 512 * UNIT);
    options.capacity_bytes = 256 * UNIT;
    assert_int_equal(vram_lease_open(holder.device, &options, &lease), VRAM_ERR_LIMIT);
    options = lease_options("x", 0, UNIT);
    options.flags = 6;
    assert_int_equal(vram_lease_open(holder.device, &options, &lease), VRAM_ERR_INVALID);
    options.flags = 0;
    options.priority = 101;
    assert_int_equal(vram_lease_open(holder.device, &options, &lease), VRAM_ERR_INVALID);
    options.priority = 0;
    options.dir = "/proc/self/no such folder";
    assert_int_equal(vram_lease_open(holder.device, &options, &lease), VRAM_ERR_IO);
    options.dir = NULL;
    assert_int_equal(vram_lease_open(holder.device, &options, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_lease_open(NULL, &options, &lease), VRAM_ERR_INVALID);
    assert_null(lease);
    assert_ok(vram_lease_open(holder.device, &options, &lease));
    assert_int_equal(vram_lease_info_get(lease, NULL), VRAM_ERR_INVALID);
    assert_int_equal(vram_broker_run(NULL), VRAM_ERR_BUSY); /* this process is one already */
    assert_int_equal(vram_lease_open(holder.device, &options, &holder.lease), VRAM_ERR_BUSY);
    assert_ok(vram_lease_close(lease));
    assert_int_equal(vram_lease_close(lease), VRAM_ERR_STALE);
    assert_int_equal(vram_lease_point(lease, NULL), VRAM_ERR_STALE);
    assert_ok(vram_lease_close(NULL));
    assert_ok(vram_context_destroy(holder.context));
}

static void pool_lists(void **state) {
    struct holder first, second;
    vram_pool *segments;
    vram_pool_options plain = {.size = sizeof plain, .flags = VRAM_POOL_SEGMENTS};
    vram_sleep_options drop = {.size = sizeof drop};
    vram_lease_options options = lease_options("first", 0, 100 * UNIT);
    (void)state;
    holder_open(&first, &options);
    holder_device(&second);
    assert_ok(vram_pool_create(first.device, &plain, &segments));
    assert_int_equal(vram_lease_pool_add(first.lease, segments, NULL), VRAM_ERR_UNSUPPORTED);
    assert_int_equal(vram_lease_pool_add(first.lease, second.pool, NULL), VRAM_ERR_INVALID);
    assert_ok(vram_lease_pool_add(first.lease, first.pool, NULL));
    assert_int_equal(vram_lease_pool_add(first.lease, first.pool, &drop), VRAM_ERR_INVALID);
    drop.tag = "";
    assert_int_equal(vram_lease_pool_add(first.lease, first.pool, &drop), VRAM_ERR_INVALID);
    for (int i = 1; i < VRAM_LEASE_POOLS_MAX; i++) {
        char tag[16];
        snprintf(tag, sizeof tag, "tag%d", i);
        drop.tag = tag;
        assert_ok(vram_lease_pool_add(first.lease, first.pool, &drop));
    }
    drop.tag = "one more";
    assert_int_equal(vram_lease_pool_add(first.lease, first.pool, &drop), VRAM_ERR_LIMIT);
    assert_ok(vram_pool_destroy(first.pool)); /* its entries go with it */
    assert_ok(vram_pool_create(first.device, NULL, &first.pool));
    assert_ok(vram_lease_pool_add(first.lease, first.pool, &drop));
    assert_ok(vram_context_destroy(second.context));
    assert_ok(vram_device_close(first.device)); /* and the lease with its device */
    assert_int_equal(vram_lease_point(first.lease, NULL), VRAM_ERR_STALE);
    assert_ok(vram_context_destroy(first.context));
}

/* -------------------------------------------------------------------- lists */

static void lists(void **state) {
    struct holder first, second;
    vram_lease_entry entries[4];
    vram_lease_record records[32];
    uint32_t count = 4, lines = 32;
    vram_lease_options options = lease_options("first", 10 * UNIT, 800 * UNIT);
    (void)state;
    assert_int_equal(vram_lease_list(NULL, entries, &count, NULL, NULL), VRAM_ERR_STALE);
    options.flags = VRAM_LEASE_AT_ONCE;
    holder_open(&first, &options);
    holder_list(&first, VRAM_SLEEP_DROP);
    holder_fill(&first, 700 * UNIT, 1);
    options = lease_options("sec\"ond\n", 0, 800 * UNIT);
    options.priority = -7;
    holder_open(&second, &options);
    holder_fill(&second, 300 * UNIT, 2);
    assert_ok(vram_lease_list(NULL, entries, &count, records, &lines));
    assert_int_equal(count, 2);
    assert_string_equal(entries[0].name, "first");
    assert_string_equal(entries[1].name, "sec?ond?");
    assert_string_equal(entries[0].device, "sim 0");
    assert_int_equal(entries[0].min_bytes, 10 * UNIT);
    assert_int_equal(entries[1].priority, -7);
    assert_int_equal(entries[1].process, getpid());
    assert_int_equal(entries[0].capacity_bytes, 1024 * UNIT);
    assert_true(lines >= 2);
    assert_int_equal(records[0].happening, VRAM_LEASE_LOG_OPENED);
    assert_string_equal(records[0].to, "first");
    count = 1;
    assert_ok(vram_lease_list(lease_dir, entries, &count, NULL, NULL));
    assert_int_equal(count, 2);
    assert_string_equal(vram_lease_happening_name(VRAM_LEASE_LOG_GAVE), "gave");
    assert_string_equal(vram_lease_happening_name((vram_lease_happening)99), "unknown");
    assert_string_equal(vram_lease_why_name((vram_lease_why)99), "unknown");
    holder_close(&first);
    holder_close(&second);
}

/* ------------------------------------------------------------------ processes */

/* The broker is another process, and is killed. Both keep what they have; the next one knows. */
static void broker_killed(void **state) {
    struct holder first, second;
    vram_lease_options options = lease_options("first", 0, 1024 * UNIT);
    (void)state;
    pid_t broker = fork();
    if (broker == 0) {
        vram_broker_options run = {.size = sizeof run, .dir = lease_dir};
        _exit(vram_broker_run(&run) == VRAM_OK ? 0 : 1);
    }
    uint32_t count = 0;
    while (vram_lease_list(NULL, NULL, &count, NULL, NULL) != VRAM_OK) {
        usleep(1000);
    }
    vram_broker_options again = {.size = sizeof again};
    assert_int_equal(vram_broker_run(&again), VRAM_ERR_BUSY);
    options.flags = VRAM_LEASE_AT_ONCE;
    holder_open(&first, &options);
    holder_list(&first, VRAM_SLEEP_HOST);
    holder_fill(&first, 600 * UNIT, 1);
    options = lease_options("second", 0, 1024 * UNIT);
    holder_open(&second, &options);
    assert_int_equal(lease_info(first.lease).broker, broker);
    assert_int_equal(kill(broker, SIGKILL), 0);
    assert_int_equal(child_end(broker), 1000 + SIGKILL);
    holder_fill(&second, 500 * UNIT, 2); /* asks the next broker, which this process hosts */
    assert_int_equal(lease_info(second.lease).brokers, 2);
    assert_int_equal(lease_info(second.lease).broker, getpid());
    assert_true(holder_granted(&first) + holder_granted(&second) <= 1024 * UNIT);
    assert_ok(vram_free(second.addr, second.queue));
    assert_ok(vram_pool_wake(first.pool, NULL));
    holder_expect(&first, 600 * UNIT, 1);
    holder_close(&first);
    holder_close(&second);
}

/* The part of a child, which is this program executed anew: threads and forks do not mix. It holds
   a lease until it is killed. A child that it has forked does not: the library closes the
   connection there. */
static int play_holder(void) {
    struct holder holder;
    vram_lease_options options = lease_options("first", 800 * UNIT, 800 * UNIT);
    alarm(CHILD_SECONDS);
    (void)vram_option_set("broker", "thread");
    holder_open(&holder, &options);
    pid_t grandchild = fork();
    if (grandchild == 0) {
        alarm(CHILD_SECONDS);
        pause();
        _exit(0);
    }
    if (write(1, &grandchild, sizeof grandchild) == sizeof grandchild) {
        pause();
    }
    return 1;
}

/* A process that is killed gives all that it had. */
static void holder_killed(void **state) {
    struct holder second;
    vram_lease_options options = lease_options("second", 0, 1024 * UNIT);
    char *const arguments[] = {"test_lease", "holder", NULL};
    posix_spawn_file_actions_t actions;
    int ready[2];
    pid_t child, grandchild;
    (void)state;
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ready[1], 1);
    assert_int_equal(posix_spawn(&child, "/proc/self/exe", &actions, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ready[1]);
    assert_int_equal(read(ready[0], &grandchild, sizeof grandchild), sizeof grandchild);
    holder_open(&second, &options);
    assert_true(holder_granted(&second) <= 224 * UNIT);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(child_end(child), 1000 + SIGKILL);
    holder_fill(&second, 1000 * UNIT, 2);
    assert_int_equal(kill(grandchild, SIGKILL), 0);
    close(ready[0]);
    holder_close(&second);
}

/* -------------------------------------------------------------------- faults */

/* A broker that failed is a thread that may still be ending. */
static void await_nothing_left(uint64_t blocks, uint32_t descriptors) {
    for (int i = 0; i < 2000; i++) {
        if (vr_mem_live_blocks() <= blocks && descriptors_open() <= descriptors) {
            return;
        }
        usleep(1000);
    }
    fail_msg("%d blocks and %d descriptors are left", (int)(vr_mem_live_blocks() - blocks),
             (int)(descriptors_open() - descriptors));
}

/* Every allocation of host memory, and every call of the system, fails in turn. */
static void faults(void **state) {
    struct holder holder;
    vram_lease_options options = lease_options("x", 0, 100 * UNIT);
    (void)state;
    holder_device(&holder);
    uint64_t blocks = vr_mem_live_blocks();
    uint32_t descriptors = descriptors_open();
    vram_status status = VRAM_ERR_IO;
    for (uint64_t n = 1; n < 200 && status != VRAM_OK; n += FAULT_STEP) {
        vram_lease *lease = NULL;
        vr_mem_fail_at(n, false);
        status = vram_lease_open(holder.device, &options, &lease);
        bool failed = vr_mem_failed() > 0;
        vr_mem_fail_at(0, false);
        if (status == VRAM_OK) {
            assert_ok(vram_lease_close(lease));
            status = failed ? VRAM_ERR_IO : VRAM_OK; /* the broker had none, and another did it */
        }
        await_nothing_left(blocks, descriptors);
    }
    assert_ok(status);
    status = VRAM_ERR_IO;
    for (uint64_t n = 1; n < 400 && status != VRAM_OK; n += FAULT_STEP) {
        vram_lease *lease = NULL;
        uint64_t before = vr_os_failed();
        vr_os_fail_at(n, false, EMFILE);
        status = vram_lease_open(holder.device, &options, &lease);
        status = status == VRAM_OK ? vram_lease_close(lease) : status;
        vr_os_fail_at(0, false, 0);
        if (status == VRAM_OK && vr_os_failed() != before) {
            status = VRAM_ERR_IO; /* a call that was repeated, or did not matter */
        }
        await_nothing_left(blocks, descriptors);
    }
    assert_ok(status);
    assert_ok(vram_context_destroy(holder.context));
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "holder") == 0) {
        return play_holder();
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(grants, lease_folder_make, lease_folder_remove),
        cmocka_unit_test_setup_teardown(held_before, lease_folder_make, lease_folder_remove),
        cmocka_unit_test_setup_teardown(at_point, lease_folder_make, lease_folder_remove),
        cmocka_unit_test_setup_teardown(at_once, lease_folder_make, lease_folder_remove),
        cmocka_unit_test_setup_teardown(by_callback, lease_folder_make, lease_folder_remove),
        cmocka_unit_test_setup_teardown(no_request_inside, lease_folder_make, lease_folder_remove),
        cmocka_unit_test_setup_teardown(refusals, lease_folder_make, lease_folder_remove),
        cmocka_unit_test_setup_teardown(no_point, lease_folder_make, lease_folder_remove),
        cmocka_unit_test_setup_teardown(bad_input, lease_folder_make, lease_folder_remove),
        cmocka_unit_test_setup_teardown(pool_lists, lease_folder_make, lease_folder_remove),
        cmocka_unit_test_setup_teardown(lists, lease_folder_make, lease_folder_remove),
        cmocka_unit_test_setup_teardown(broker_killed, lease_folder_make, lease_folder_remove),
        cmocka_unit_test_setup_teardown(holder_killed, lease_folder_make, lease_folder_remove),
        cmocka_unit_test_setup_teardown(faults, lease_folder_make, lease_folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

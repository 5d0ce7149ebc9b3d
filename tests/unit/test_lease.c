/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: two holders lend each other memory, in one process and in several. */
#include "lease_world.h"

#include "json_check.h"
#include "report_text.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>

extern char **environ;

/* ------------------------------------------------------------------- grants */

/* Without a lease nothing is bound, and memory that is held stays. */
TEST(held_before) {
    struct holder first, second;
    vram_lease_options options = lease_options("first", 0, 300 * UNIT);
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

/* ------------------------------------------------------------------ beginning */

/* Without a capacity the device's own figure is shared out: what is free, and what is held. */
TEST(capacity_of_the_device) {
    struct holder first, second;
    vram_lease_options options = lease_options("first", 0, 1024 * UNIT);
    options.capacity_bytes = 0;
    holder_device(&first);
    holder_fill(&first, 200 * UNIT, 1);
    assert_ok(vram_lease_open(first.device, &options, &first.lease));
    assert_int_equal(holder_granted(&first), 1024 * UNIT);
    options.name = "second";
    holder_open(&second, &options);
    assert_int_equal(holder_granted(&second), 0); /* nothing is left */
    holder_close(&second);
    holder_close(&first);
}

/* Leases in two folders have a broker each, though one process hosts both. */
TEST(folders_are_apart) {
    struct holder first, second;
    vram_lease_options options = lease_options("first", 0, 1024 * UNIT);
    char other[] = "/tmp/vram-test-XXXXXX", path[64];
    vram_lease_entry entry;
    uint32_t count = 1;
    assert_non_null(mkdtemp(other));
    holder_open(&first, &options);
    options.name = "second";
    options.dir = other;
    holder_open(&second, &options);
    assert_int_equal(holder_granted(&second), 1024 * UNIT); /* the first has as much */
    assert_ok(vram_lease_list(other, &entry, &count, NULL, NULL));
    assert_int_equal(count, 1);
    assert_string_equal(entry.name, "second");
    holder_close(&second); /* ends the second broker alone */
    assert_int_equal(vram_lease_list(other, &entry, &count, NULL, NULL), VRAM_ERR_STALE);
    assert_ok(vram_lease_list(lease_dir, &entry, &count, NULL, NULL));
    assert_string_equal(entry.name, "first");
    holder_close(&first);
    strcpy(path, lease_dir);
    strcpy(lease_dir, other);
    lease_folder_remove();
    strcpy(lease_dir, path);
}

/* A command that does not start a broker, or does not exist, costs half of the time limit. */
TEST(broker_command_fails) {
    static const char *const commands[] = {"/bin/true", "/bin/false", "/nowhere/vram"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        struct holder holder;
        vram_lease_options options = lease_options("first", 0, 700 * UNIT);
        assert_ok(vram_option_set("broker", commands[i]));
        options.timeout_ns = SECOND / 2;
        uint64_t begin = lease_now();
        holder_open(&holder, &options);
        assert_true(lease_now() - begin < 20 * SECOND);
        assert_int_equal(lease_info(holder.lease).broker, getpid()); /* a thread of ours */
        assert_int_equal(holder_granted(&holder), 700 * UNIT);
        holder_close(&holder);
    }
}

/* ------------------------------------------------------------------- giving */

static void *points_run(void *holder) {
    (void)points_until_given(holder);
    return NULL;
}

/* The holder's pool sleeps at a safe point with its contents, and wakes when memory is back. */
TEST(at_point) {
    struct holder first, second;
    struct waiter waiter;
    vram_lease_options options = lease_options("first", 0, 800 * UNIT);
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

static vram_lease_answer free_block(void *user, const vram_lease_event *event) {
    struct holder *holder = user;
    (void)event;
    return vram_free(holder->addr, holder->queue) == VRAM_OK ? VRAM_LEASE_DONE : VRAM_LEASE_REFUSE;
}

TEST(by_callback) {
    struct holder first, second;
    vram_lease_options options = lease_options("first", 0, 1024 * UNIT);
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
TEST(no_request_inside) {
    struct holder first, second;
    struct waiter waiter;
    vram_lease_options options = lease_options("first", 0, 1024 * UNIT);
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

/* A holder without safe points costs the asker its whole deadline, and not more. */
TEST(no_point) {
    struct holder first, second;
    uint64_t given = 1;
    vram_lease_options options = lease_options("late", 0, 700 * UNIT);
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

TEST(pool_lists) {
    struct holder first, second;
    vram_pool *segments;
    vram_pool_options plain = {.size = sizeof plain, .flags = VRAM_POOL_SEGMENTS};
    vram_sleep_options drop = {.size = sizeof drop};
    vram_lease_options options = lease_options("first", 0, 100 * UNIT);
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

/* ------------------------------------------------------------------ processes */

/* The broker is another process, and is killed. Both keep what they have; the next one knows. */
TEST(broker_killed) {
    struct holder first, second;
    vram_lease_options options = lease_options("first", 0, 1024 * UNIT);
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
    assert_int_equal(vram_broker_run(NULL), VRAM_ERR_BUSY); /* this process is one already */
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
TEST(holder_killed) {
    struct holder second;
    vram_lease_options options = lease_options("second", 0, 1024 * UNIT);
    char *const arguments[] = {"test_lease", "holder", NULL};
    posix_spawn_file_actions_t actions;
    int ready[2];
    pid_t child, grandchild;
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

static int play(int count, char **words) {
    (void)words;
    return count == 2 ? play_holder() : 2;
}
CHILD(play)
EACH_TEST(lease_folder_make, lease_folder_remove)

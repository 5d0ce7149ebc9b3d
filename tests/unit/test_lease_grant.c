/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was granted belongs to the request that asked for it: a broker that asks for memory back in
 * the same breath gets what is not needed, and no more. The broker is a script here, so that its
 * messages come in the worst order every time.
 */
#include "lease_world.h"

#include "base/os/os.h"
#include "base/wire.h"
#include "lease/broker.h"
#include "lease/lease_wire.h"

#include <stdatomic.h>
#include <sys/socket.h>

#define FIRST (20 * UNIT) /* granted at the beginning */

/* Answers each request. */
struct script {
    uint64_t before;                /* bytes that it asks for before it grants, the first time */
    uint64_t more;                  /* bytes that it grants beside what was asked for */
    bool after;                     /* asks for everything behind the grant */
    bool late;                      /* answers when the request's time is over */
    uint64_t timeout_ns, revoke_ns; /* of requests and of revocations, if not 0 */
    vram_lease_answer (*answer)(void *user, const vram_lease_event *event); /* of the holder */

    int listener;
    pthread_t thread;
    atomic_bool stop;
    _Atomic uint64_t needs;    /* requests */
    _Atomic uint64_t held;     /* when the first of them was made */
    _Atomic uint64_t asked[8]; /* bytes of each */
    atomic_bool revoke;        /* it asks now, */
    atomic_bool cancel;        /* and does not want it any more */
    atomic_bool again;         /* the same, but asks anew */
    _Atomic uint64_t given;    /* in all */
    _Atomic uint64_t answers;  /* of the holder's callback */
    atomic_bool goes_on;       /* a slow callback may return */
};

struct message {
    uint8_t bytes[VR_LEASE_MESSAGE_BYTES];
};

static struct message message_of(uint8_t type, uint64_t a, uint64_t b, uint64_t c) {
    struct message to;
    vr_lease_message_write(to.bytes, &(struct vr_lease_message){.type = type, .n = {a, b, c, 1}});
    return to;
}

static void need_answer(struct script *script, int fd, const uint64_t *n) {
    uint64_t at = script->needs++;
    struct message out[2];
    size_t count = 0;
    script->asked[at % 8] = n[1];
    if (at == 0) {
        script->held = n[3];
    }
    if (at == 0 && script->before) {
        struct message revoke = message_of(VR_LEASE_REVOKE, 100, script->before, 10 * SECOND);
        (void)!send(fd, &revoke, sizeof revoke, MSG_NOSIGNAL);
        usleep(20000); /* it gives what it does not use */
    }
    if (script->late) {
        vr_os_sleep(n[2] + 10000000);
    }
    out[count++] = message_of(VR_LEASE_GRANTED, n[0], n[1] + script->more, 0);
    if (script->after) {
        out[count++] = message_of(VR_LEASE_REVOKE, 200 + at, 1000 * UNIT, 10 * SECOND);
    }
    (void)!send(fd, out, count * sizeof out[0], MSG_NOSIGNAL);
}

static void message_take(struct script *script, int fd, const uint8_t *bytes) {
    uint64_t n[VR_LEASE_NUMBERS];
    for (int i = 0; i < VR_LEASE_NUMBERS; i++) {
        n[i] = vr_wire_get(bytes + VR_WIRE_HEADER_BYTES + (size_t)i * 8, 8);
    }
    if (bytes[5] == VR_LEASE_OPEN) {
        struct message opened = message_of(VR_LEASE_OPENED, n[2] ? 0 : FIRST, 1, 1024 * UNIT);
        (void)!send(fd, &opened, sizeof opened, MSG_NOSIGNAL);
    } else if (bytes[5] == VR_LEASE_NEED) {
        need_answer(script, fd, n);
    } else if (bytes[5] == VR_LEASE_GIVE) {
        script->given += n[1];
    }
}

static void *script_run(void *argument) {
    struct script *script = argument;
    int fd = -1;
    while (!script->stop) {
        struct vr_os_poll polls[] = {{.fd = fd < 0 ? script->listener : fd, .read = true}};
        uint8_t bytes[VR_LEASE_MESSAGE_BYTES];
        vr_os_poll(polls, 1, 2000000);
        if (fd < 0) {
            fd = accept(script->listener, NULL, NULL);
        } else if (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) == (ssize_t)sizeof bytes) {
            message_take(script, fd, bytes);
        }
        if (atomic_exchange(&script->revoke, false)) {
            struct message revoke = message_of(VR_LEASE_REVOKE, 300, 10 * UNIT,
                                               script->revoke_ns ? script->revoke_ns : 10 * SECOND);
            (void)!send(fd, &revoke, sizeof revoke, MSG_NOSIGNAL);
        }
        if (atomic_exchange(&script->again, false)) {
            struct message out[] = {message_of(VR_LEASE_CANCEL, 300, 0, 0),
                                    message_of(VR_LEASE_REVOKE, 301, 10 * UNIT, 10 * SECOND)};
            (void)!send(fd, out, sizeof out, MSG_NOSIGNAL);
        }
        if (atomic_exchange(&script->cancel, false)) {
            struct message cancel = message_of(VR_LEASE_CANCEL, 300, 0, 0);
            (void)!send(fd, &cancel, sizeof cancel, MSG_NOSIGNAL);
        }
    }
    close(fd);
    return NULL;
}

static void script_begin(struct script *script, struct holder *holder, uint32_t flags) {
    char path[VR_SOCKET_PATH_MAX];
    vram_lease_options options = lease_options("asker", 0, 300 * UNIT);
    vr_broker_path(lease_dir, path);
    assert_ok(vr_os_socket_listen(path, &script->listener));
    assert_int_equal(pthread_create(&script->thread, NULL, script_run, script), 0);
    options.timeout_ns = script->timeout_ns ? script->timeout_ns : 2 * SECOND;
    options.flags = flags;
    options.revoke = script->answer;
    options.user = script;
    holder_open(holder, &options);
    assert_int_equal(holder_granted(holder), FIRST);
}

static void script_end(struct script *script, struct holder *holder) {
    char path[VR_SOCKET_PATH_MAX];
    holder_close(holder);
    script->stop = true;
    pthread_join(script->thread, NULL);
    close(script->listener);
    vr_broker_path(lease_dir, path);
    (void)unlink(path);
}

/* Waits until so much was given in all. */
static void expect_given(struct script *script, uint64_t bytes) {
    for (int i = 0; i < 2000 && script->given < bytes; i++) {
        usleep(1000);
    }
    assert_int_equal(script->given, bytes);
}

/* An allocation takes its memory after the grant; the question that comes with the grant gets
   nothing of it. */
TEST(an_allocation_keeps_its_grant) {
    for (int turn = 0; turn < 20; turn++) {
        struct script script = {.after = true};
        struct holder holder;
        script_begin(&script, &holder, 0);
        holder_fill(&holder, 100 * UNIT, 7);
        assert_int_equal(script.needs, 1);
        holder_expect(&holder, 100 * UNIT, 7);
        script_end(&script, &holder);
    }
}

/* A pool asks for all that it lacks before it takes anything. What it was granted beyond that is
   given when it is awake, without a safe point. */
TEST(a_pool_keeps_its_grant) {
    for (int turn = 0; turn < 20; turn++) {
        struct script script = {.after = true, .more = 30 * UNIT};
        struct holder holder;
        script_begin(&script, &holder, 0);
        holder_fill(&holder, 16 * UNIT, 7);
        vram_sleep_options keep = {.size = sizeof keep, .contents = VRAM_SLEEP_HOST};
        assert_ok(vram_pool_sleep(holder.pool, &keep));
        vram_addr other;
        vram_pool *pool;
        assert_ok(vram_pool_create(holder.device, NULL, &pool));
        assert_ok(vram_alloc(pool, 12 * UNIT, holder.queue, &other));
        uint64_t held = lease_info(holder.lease).held_bytes;
        assert_ok(vram_pool_wake(holder.pool, NULL));
        assert_int_equal(script.needs, 1);
        assert_int_equal(script.held, held);
        holder_expect(&holder, 16 * UNIT, 7);
        uint64_t all = FIRST + script.asked[0] + 30 * UNIT;
        expect_given(&script, all - lease_info(holder.lease).held_bytes);
        script_end(&script, &holder);
    }
}

/* The lease's own thread cannot put a pool to sleep that is waking. It does so behind that, and
   does not say before that no more comes. */
TEST(at_once_means_afterwards) {
    for (int turn = 0; turn < 20; turn++) {
        struct script script = {.after = true};
        struct holder holder;
        script_begin(&script, &holder, VRAM_LEASE_AT_ONCE);
        holder_list(&holder, VRAM_SLEEP_HOST);
        holder_fill(&holder, 16 * UNIT, 7);
        vram_sleep_options keep = {.size = sizeof keep, .contents = VRAM_SLEEP_HOST};
        assert_ok(vram_pool_sleep(holder.pool, &keep));
        vram_addr other;
        vram_pool *pool;
        assert_ok(vram_pool_create(holder.device, NULL, &pool));
        assert_ok(vram_alloc(pool, 12 * UNIT, holder.queue, &other));
        uint64_t held = lease_info(holder.lease).held_bytes;
        assert_ok(vram_pool_wake(holder.pool, NULL));
        expect_given(&script, FIRST + script.asked[0] - held);
        assert_int_equal(lease_info(holder.lease).held_bytes, held); /* it sleeps again */
        script_end(&script, &holder);
    }
}

/* Who waits gives what it does not use yet, and asks for that, too. */
TEST(a_waiting_request_keeps_nothing) {
    struct script script = {.before = 15 * UNIT};
    struct holder holder;
    script_begin(&script, &holder, 0);
    holder_fill(&holder, 100 * UNIT, 7);
    assert_int_equal(script.given, 15 * UNIT);
    assert_int_equal(script.needs, 2);
    assert_int_equal(script.asked[1], 15 * UNIT);
    holder_expect(&holder, 100 * UNIT, 7);
    script_end(&script, &holder);
}

static vram_lease_answer answer_count(void *user, const vram_lease_event *event) {
    struct script *script = user;
    (void)event;
    script->answers++;
    return VRAM_LEASE_DONE;
}

static vram_lease_answer answer_slowly(void *user, const vram_lease_event *event) {
    struct script *script = user;
    (void)event;
    script->answers++;
    for (int i = 0; i < 20000 && !script->goes_on; i++) {
        usleep(1000);
    }
    return VRAM_LEASE_DONE;
}

static void *point_once(void *lease) {
    (void)vram_lease_point(lease, NULL);
    return NULL;
}

static struct script *script_of_log;
static vram_lease *lease_of_log;

/* Called when the pool has fallen asleep, and before anything was given. */
static void cancel_in_sleep(void *user, vram_log_level level, const char *text) {
    (void)user;
    (void)level;
    if (strncmp(text, "sleep:", 6) == 0) {
        script_of_log->cancel = true;
        for (int i = 0; i < 2000 && lease_info(lease_of_log).asked_bytes; i++) {
            usleep(1000);
        }
    }
}

/* Whoever asked gives up while the pool falls asleep: the program learns that it sleeps. */
TEST(a_sleep_for_nothing_is_told) {
    struct script script = {.more = 0};
    struct holder holder;
    uint64_t given = 0;
    script_begin(&script, &holder, 0);
    holder_list(&holder, VRAM_SLEEP_HOST);
    holder_fill(&holder, 18 * UNIT, 7);
    script_of_log = &script;
    lease_of_log = holder.lease;
    vram_log_set(cancel_in_sleep, NULL, VRAM_LOG_DEBUG);
    script.revoke = true;
    given = points_until_given(&holder);
    vram_log_set(NULL, NULL, VRAM_LOG_OFF);
    assert_int_equal(lease_info(holder.lease).asked_bytes, 0);
    assert_true(given >= 18 * UNIT);
    assert_true(script.given <= 2 * UNIT); /* what it did not use */
    assert_ok(vram_pool_wake(holder.pool, NULL));
    assert_int_equal(script.needs, 0); /* it has its grant still */
    holder_expect(&holder, 18 * UNIT, 7);
    script_end(&script, &holder);
}

/* What was asked for before its time was over is not worth a sleep afterwards. */
TEST(a_point_after_the_deadline) {
    struct script script = {.revoke_ns = 1, .answer = answer_count};
    struct holder holder;
    vram_pool_stats stats = {.size = sizeof stats};
    uint64_t given = 1;
    script_begin(&script, &holder, 0);
    holder_list(&holder, VRAM_SLEEP_HOST);
    holder_fill(&holder, 18 * UNIT, 7);
    uint64_t unused = FIRST - lease_info(holder.lease).held_bytes;
    script.revoke = true;
    for (int i = 0; i < 5000 && !lease_info(holder.lease).revocations; i++) {
        usleep(1000);
    }
    expect_given(&script, unused);
    assert_int_equal(lease_info(holder.lease).asked_bytes, 10 * UNIT - unused);
    assert_ok(vram_lease_point(holder.lease, &given));
    assert_int_equal(given, 0);
    assert_int_equal(script.answers, 0);
    assert_ok(vram_pool_stats_get(holder.pool, &stats));
    assert_int_equal(stats.asleep_bytes, 0);
    script_end(&script, &holder);
}

/* A question that comes while the program answers another is served behind that, by the lease's
   own thread, from what the program has freed meanwhile. */
TEST(a_question_during_an_answer) {
    struct script script = {.answer = answer_slowly};
    struct holder holder;
    pthread_t thread;
    script_begin(&script, &holder, 0);
    holder_fill(&holder, 18 * UNIT, 7);
    uint64_t unused = FIRST - lease_info(holder.lease).held_bytes;
    script.revoke = true;
    expect_given(&script, unused);
    assert_int_equal(pthread_create(&thread, NULL, point_once, holder.lease), 0);
    for (int i = 0; i < 5000 && !script.answers; i++) {
        usleep(1000);
    }
    assert_int_equal(script.answers, 1);
    script.again = true;
    for (int i = 0; i < 5000 && lease_info(holder.lease).revocations < 2; i++) {
        usleep(1000);
    }
    usleep(10000); /* the lease's thread leaves it to the one that answers */
    assert_int_equal(script.given, unused);
    assert_ok(vram_free(holder.addr, holder.queue));
    script.goes_on = true;
    pthread_join(thread, NULL);
    expect_given(&script, unused + 10 * UNIT);
    assert_int_equal(script.answers, 1);
    script_end(&script, &holder);
}

/* A request for more than the lease may have asks for what it may have, and for nothing then. */
TEST(a_request_beyond_the_wanted_bytes) {
    struct script script = {.more = 0};
    struct holder holder;
    struct waiter waiter;
    script_begin(&script, &holder, 0);
    waiter_start(&waiter, &holder, 400 * UNIT);
    waiter_join(&waiter);
    assert_int_equal(waiter.status, VRAM_ERR_LIMIT);
    assert_non_null(strstr(waiter.report.lease_reason, "want_bytes"));
    assert_int_equal(script.needs, 1);
    assert_int_equal(script.asked[0], 300 * UNIT - FIRST);
    script_end(&script, &holder);
}

/* What was granted too late for a second request, when others have got the first part meanwhile. */
TEST(a_grant_that_comes_too_late) {
    bool seen = false;
    for (int turn = 0; turn < 10 && !seen; turn++) { /* on a busy machine it comes later still */
        struct script script = {.before = 15 * UNIT, .late = true, .timeout_ns = SECOND / 20};
        struct holder holder;
        struct waiter waiter;
        script_begin(&script, &holder, 0);
        waiter_start(&waiter, &holder, 100 * UNIT);
        waiter_join(&waiter);
        assert_int_equal(waiter.status, VRAM_ERR_LIMIT);
        seen = strstr(waiter.report.lease_reason, "other processes took what was granted");
        assert_true(script.needs >= 1);
        script_end(&script, &holder);
    }
    assert_true(seen);
}

/* A lease that is closed while a request holds its grant. */
static void *close_soon(void *lease) {
    usleep(30000);
    (void)vram_lease_close(lease);
    return NULL;
}

TEST(a_lease_ends_in_a_request) {
    struct script script = {.before = 5 * UNIT};
    struct holder holder;
    pthread_t thread;
    script_begin(&script, &holder, 0);
    assert_int_equal(pthread_create(&thread, NULL, close_soon, holder.lease), 0);
    for (int i = 0; i < 50; i++) {
        vram_addr addr;
        if (vram_alloc(holder.pool, 6 * UNIT, holder.queue, &addr) != VRAM_OK) {
            break;
        }
        usleep(1000);
    }
    pthread_join(thread, NULL);
    holder.lease = NULL;
    script_end(&script, &holder);
}

EACH_TEST(lease_folder_make, lease_folder_remove)

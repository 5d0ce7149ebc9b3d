/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brokers and holders that do not keep to the protocol: silent, lying, of another version, or
 * sending anything at all. Every call ends with a status and a sentence by its deadline, and
 * nothing is left open.
 */
#include "lease_world.h"

#include "base/clock.h"
#include "base/wire.h"
#include "lease/broker.h"
#include "lease/lease_object.h"
#include "vram/sim.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>

/* ------------------------------------------------------------- a false broker */

enum lie {
    LIE_SILENT,        /* accepts, and never answers */
    LIE_CLOSE,         /* closes at once */
    LIE_NOISE,         /* bytes that are no message */
    LIE_LONG,          /* a header that announces too much */
    LIE_VERSION,       /* another version */
    LIE_MUCH,          /* more than was asked for */
    LIE_TYPE,          /* a message out of place */
    LIE_REFUSE,        /* a refusal with a status that makes no sense */
    LIE_MEMORY,        /* a refusal because its memory ran out */
    LIE_CUT,           /* half a message */
    LIE_SILENT_LATER,  /* opens properly; answers no request */
    LIE_GRANT_LATER,   /* opens properly; then grants too much */
    LIE_DENY_LATER,    /* opens properly; denies with lenders that do not fit */
    LIE_REFUSE_LATER,  /* opens properly; then refuses, as if it had not */
    LIE_VERSION_LATER, /* opens properly; then speaks another version */
    LIE_REVOKE_LATER,  /* opens properly; asks for what nobody waits for any more */
    LIE_LENDERS_LATER, /* opens properly; denies with three lenders, of whom the second kept most */
    LIE_GONE_LATER,    /* opens properly; at a request it closes all, and then as LIE_CLOSE */
    LIES
};

struct liar {
    enum lie lie;
    int listener;
    pthread_t thread;
    atomic_bool stop;
};

static void put(int fd, uint8_t type, vram_status status, uint64_t a, uint64_t b, uint64_t c) {
    uint8_t bytes[VR_LEASE_MESSAGE_BYTES];
    struct vr_lease_message message = {.type = type, .status = status, .n = {a, b, c, 1, 99, 7}};
    vr_lease_message_write(bytes, &message);
    (void)!send(fd, bytes, sizeof bytes, MSG_NOSIGNAL);
}

static void put_lender(int fd, const char *name, uint64_t asked, uint64_t given) {
    uint8_t bytes[VR_LEASE_MESSAGE_BYTES];
    struct vr_lease_message message = {.type = VR_LEASE_LENDER,
                                       .n = {1, 77, asked, given, VRAM_LEASE_IN_USE, 1000}};
    strcpy(message.name, name);
    vr_lease_message_write(bytes, &message);
    (void)!send(fd, bytes, sizeof bytes, MSG_NOSIGNAL);
}

static void liar_answer(enum lie lie, int fd, uint64_t grant) {
    uint8_t bytes[VR_LEASE_MESSAGE_BYTES];
    memset(bytes, 0x5a, sizeof bytes);
    switch (lie) {
    case LIE_NOISE:
        (void)!send(fd, bytes, sizeof bytes, MSG_NOSIGNAL);
        break;
    case LIE_LONG:
    case LIE_VERSION:
        vr_wire_header_write(
            bytes, &(struct vr_wire_header){.version = lie == LIE_VERSION ? 9 : VR_LEASE_VERSION,
                                            .type = VR_LEASE_REFUSED,
                                            .status = VRAM_ERR_UNSUPPORTED,
                                            .bytes = lie == LIE_VERSION ? 0 : 1 << 30});
        (void)!send(fd, bytes, VR_WIRE_HEADER_BYTES, MSG_NOSIGNAL);
        break;
    case LIE_MUCH:
        put(fd, VR_LEASE_OPENED, VRAM_OK, UINT64_MAX, 1, 1);
        break;
    case LIE_TYPE:
        put(fd, VR_LEASE_REVOKE, VRAM_OK, 1, 1, 1);
        break;
    case LIE_REFUSE:
        put(fd, VR_LEASE_REFUSED, (vram_status)-9999, 0, 0, 0);
        break;
    case LIE_MEMORY:
        put(fd, VR_LEASE_REFUSED, VRAM_ERR_HOST_MEMORY, 0, 0, 0);
        break;
    case LIE_CUT:
        (void)!send(fd, bytes, 7, MSG_NOSIGNAL);
        break;
    case LIE_SILENT_LATER:
    case LIE_GRANT_LATER:
    case LIE_DENY_LATER:
    case LIE_REFUSE_LATER:
    case LIE_VERSION_LATER:
    case LIE_REVOKE_LATER:
    case LIE_LENDERS_LATER:
    case LIE_GONE_LATER:
        put(fd, VR_LEASE_OPENED, VRAM_OK, grant ? 0 : 10 * UNIT, 1, 1024 * UNIT);
        break;
    default:
        break;
    }
}

/* What it says to a request, which is always its number 1. */
static void liar_lie(enum lie lie, int fd) {
    if (lie == LIE_GRANT_LATER) {
        put(fd, VR_LEASE_GRANTED, VRAM_OK, 1, UINT64_MAX - 1, 0);
    } else if (lie == LIE_DENY_LATER) {
        put(fd, VR_LEASE_GRANTED, VRAM_OK, 12345, 0, 0); /* of no request */
        for (int i = 0; i < 20; i++) {
            put(fd, VR_LEASE_LENDER, VRAM_OK, 1, UINT64_MAX, UINT64_MAX);
        }
        put(fd, VR_LEASE_LENDER, VRAM_OK, 12345, 1, 1);
        put(fd, VR_LEASE_DENIED, VRAM_OK, 12345, 0, 0);
        put(fd, 250, VRAM_OK, 1, 1, 1); /* of a later version's types */
        put(fd, VR_LEASE_REVOKE, VRAM_OK, 5, UINT64_MAX, UINT64_MAX);
        put(fd, VR_LEASE_CANCEL, VRAM_OK, 4, 0, 0);
        put(fd, VR_LEASE_DENIED, VRAM_OK, 1, 3, UINT64_MAX);
        put(fd, VR_LEASE_DENIED, VRAM_OK, 1, 3, UINT64_MAX); /* and once more */
        put(fd, VR_LEASE_GRANTED, VRAM_OK, 1, 0, 0);
    } else if (lie == LIE_REFUSE_LATER) {
        put(fd, VR_LEASE_REFUSED, VRAM_ERR_LIMIT, 0, 0, 0);
    } else if (lie == LIE_VERSION_LATER) {
        uint8_t bytes[VR_WIRE_HEADER_BYTES];
        vr_wire_header_write(bytes,
                             &(struct vr_wire_header){.version = 9, .type = VR_LEASE_GRANTED});
        (void)!send(fd, bytes, sizeof bytes, MSG_NOSIGNAL);
    } else if (lie == LIE_REVOKE_LATER) {
        put(fd, VR_LEASE_REVOKE, VRAM_OK, 5, 100 * UNIT, 0);
    } else if (lie == LIE_LENDERS_LATER) {
        put_lender(fd, "little", 3 * UNIT, 2 * UNIT);
        put_lender(fd, "most", 9 * UNIT, 4 * UNIT);
        put_lender(fd, "some", 2 * UNIT, 0);
        put(fd, VR_LEASE_DENIED, VRAM_OK, 1, 3, 1024 * UNIT);
    }
}

/* Time of the library's clock that a test adds; it is the system's otherwise. */
static _Atomic uint64_t clock_ahead;

static uint64_t clock_moved(void *user) {
    (void)user;
    return vr_os_now() + clock_ahead;
}

static void *liar_run(void *argument) {
    struct liar *liar = argument;
    int open[16], count = 0;
    while (!liar->stop) {
        bool leaves = false;
        struct vr_os_poll polls[17] = {{.fd = liar->listener, .read = true}};
        for (int i = 0; i < count; i++) {
            polls[i + 1] = (struct vr_os_poll){.fd = open[i], .read = true};
        }
        vr_os_poll(polls, (uint32_t)count + 1, 5000000);
        for (int i = 0; i < count; i++) {
            uint8_t bytes[VR_LEASE_MESSAGE_BYTES];
            if (polls[i + 1].readable && recv(open[i], bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
                if (bytes[5] == VR_LEASE_OPEN) {
                    liar_answer(liar->lie, open[i],
                                vr_wire_get(bytes + VR_WIRE_HEADER_BYTES + 16, 8));
                } else if (bytes[5] == VR_LEASE_NEED) {
                    liar_lie(liar->lie, open[i]);
                    leaves = liar->lie == LIE_GONE_LATER;
                } else if (bytes[5] == VR_LEASE_LIST) { /* takes its time, and begins */
                    clock_ahead += 60 * SECOND;
                    (void)!send(open[i], bytes, 7, MSG_NOSIGNAL);
                }
            }
        }
        while (leaves && count) {
            close(open[--count]);
            liar->lie = LIE_CLOSE;
        }
        if (polls[0].readable && count < 16) {
            int fd = accept(liar->listener, NULL, NULL);
            if (fd >= 0 && liar->lie == LIE_CLOSE) {
                close(fd);
            } else if (fd >= 0) {
                open[count++] = fd;
            }
        }
    }
    while (count) {
        close(open[--count]);
    }
    return NULL;
}

static void liar_start(struct liar *liar, enum lie lie) {
    char path[VR_SOCKET_PATH_MAX];
    liar->lie = lie;
    atomic_init(&liar->stop, false);
    vr_broker_path(lease_dir, path);
    (void)unlink(path);
    assert_ok(vr_os_socket_listen(path, &liar->listener));
    assert_int_equal(pthread_create(&liar->thread, NULL, liar_run, liar), 0);
}

static void liar_end(struct liar *liar) {
    char path[VR_SOCKET_PATH_MAX];
    liar->stop = true;
    pthread_join(liar->thread, NULL);
    close(liar->listener);
    vr_broker_path(lease_dir, path);
    (void)unlink(path);
}

TEST(lying_brokers) {
    static const vram_status expected[LIES] = {
        [LIE_SILENT] = VRAM_ERR_TIMEOUT,      [LIE_CLOSE] = VRAM_ERR_STALE,
        [LIE_NOISE] = VRAM_ERR_CORRUPT,       [LIE_LONG] = VRAM_ERR_CORRUPT,
        [LIE_VERSION] = VRAM_ERR_UNSUPPORTED, [LIE_MUCH] = VRAM_ERR_CORRUPT,
        [LIE_TYPE] = VRAM_ERR_CORRUPT,        [LIE_REFUSE] = VRAM_ERR_INVALID,
        [LIE_MEMORY] = VRAM_ERR_HOST_MEMORY,  [LIE_CUT] = VRAM_ERR_TIMEOUT};
    vram_lease_options options = lease_options("x", 0, 100 * UNIT);
    struct holder holder;
    holder_device(&holder);
    uint64_t blocks = vr_mem_live_blocks(), patience = vr_lease_broker_ns;
    for (enum lie lie = 0; lie < LIE_SILENT_LATER; lie++) {
        struct liar liar;
        bool waits = expected[lie] == VRAM_ERR_TIMEOUT || lie == LIE_CLOSE;
        vr_lease_broker_ns = waits ? SECOND / 4 : patience; /* nothing else comes than this end */
        liar_start(&liar, lie);
        uint32_t descriptors = descriptors_open(), none = 0;
        uint64_t begin = lease_now();
        vram_status status = vram_lease_open(holder.device, &options, &holder.lease);
        if (lie != LIE_CLOSE || status != VRAM_ERR_TIMEOUT) { /* it is tried until the deadline */
            assert_int_equal(status, expected[lie]);
        }
        assert_true(lease_now() - begin < 6 * SECOND);
        assert_true(!waits || lease_now() - begin >= vr_lease_broker_ns);
        assert_true(strlen(vram_error_get()->text) > 10);
        if (lie == LIE_CLOSE) {
            assert_int_not_equal(vram_lease_list(NULL, NULL, &none, NULL, NULL), VRAM_OK);
        }
        usleep(10000);
        assert_true(descriptors_open() <= descriptors + 2); /* the liar's own ends */
        liar_end(&liar);
        assert_int_equal(vr_mem_live_blocks(), blocks);
    }
    vr_lease_broker_ns = patience;
    assert_ok(vram_context_destroy(holder.context));
}

/* It keeps the lease, with what it has, and requests end by their deadline. */
TEST(brokers_that_change) {
    for (enum lie lie = LIE_SILENT_LATER; lie < LIES; lie++) {
        struct liar liar;
        struct holder holder;
        struct waiter waiter;
        vram_lease_options options = lease_options("x", 0, 100 * UNIT);
        options.timeout_ns = SECOND / 10;
        options.flags = lie == LIE_REVOKE_LATER ? VRAM_LEASE_AT_ONCE : 0;
        liar_start(&liar, lie);
        holder_open(&holder, &options);
        holder_fill(&holder, 8 * UNIT, 3);
        waiter_start(&waiter, &holder, 50 * UNIT);
        waiter_join(&waiter);
        assert_int_equal(waiter.status, VRAM_ERR_LIMIT);
        assert_true(waiter.ns < 3 * SECOND);
        assert_int_equal(waiter.report.cause, VRAM_OOM_LEASE);
        assert_true(waiter.report.lender_count <= VRAM_OOM_LIST_MAX);
        assert_true(strlen(waiter.report.lease_reason) > 10);
        liar_end(&liar);
        assert_ok(vram_free(holder.addr, holder.queue));
        holder_close(&holder);
    }
}

/* The minimum is asked for, and nobody answers. */
TEST(a_minimum_nobody_answers_for) {
    struct liar liar;
    struct holder holder;
    vram_lease_options options = lease_options("x", 50 * UNIT, 100 * UNIT);
    options.timeout_ns = SECOND / 100;
    liar_start(&liar, LIE_SILENT_LATER);
    holder_device(&holder);
    assert_int_equal(vram_lease_open(holder.device, &options, &holder.lease), VRAM_ERR_TIMEOUT);
    assert_non_null(strstr(vram_error_get()->text, "minimum cannot be granted"));
    liar_end(&liar);
    assert_ok(vram_context_destroy(holder.context));
}

/* Waits until so many requests were made. */
static void requests_await(const struct holder *holder, uint64_t count) {
    for (int i = 0; i < 5000 && lease_info(holder->lease).requests < count; i++) {
        usleep(1000);
    }
    assert_int_equal(lease_info(holder->lease).requests, count);
}

/* The same holder with another pool: a pool asks once at a time. */
static struct holder second_pool(const struct holder *holder) {
    struct holder same = *holder;
    assert_ok(vram_pool_create(holder->device, NULL, &same.pool));
    return same;
}

/* Two requests wait, one for the broker and one for its turn, when the lease is closed. */
TEST(a_close_ends_what_waits) {
    struct liar liar;
    struct holder holder, same;
    struct waiter first, second;
    vram_lease_options options = lease_options("x", 0, 100 * UNIT);
    options.timeout_ns = 20 * SECOND;
    liar_start(&liar, LIE_SILENT_LATER);
    holder_open(&holder, &options);
    same = second_pool(&holder);
    waiter_start(&first, &holder, 50 * UNIT);
    requests_await(&holder, 1);
    waiter_start(&second, &same, 60 * UNIT);
    requests_await(&holder, 2);
    uint64_t begin = lease_now();
    assert_ok(vram_lease_close(holder.lease));
    waiter_join(&first);
    waiter_join(&second);
    assert_true(lease_now() - begin < 10 * SECOND);
    liar_end(&liar);
    assert_ok(vram_context_destroy(holder.context));
}

/* A request does not wait for its turn for longer than its own time limit: the first one has the
   broker's answer to wait for half a second longer. */
TEST(a_turn_has_a_time_limit) {
    struct liar liar;
    struct holder holder, same;
    struct waiter first, second;
    vram_lease_options options = lease_options("x", 0, 100 * UNIT);
    bool in_time = false;
    options.timeout_ns = SECOND / 20;
    liar_start(&liar, LIE_SILENT_LATER);
    holder_open(&holder, &options);
    same = second_pool(&holder);
    for (uint64_t turn = 0; turn < 20 && !in_time; turn++) { /* a busy machine is too slow */
        waiter_start(&first, &holder, 50 * UNIT);
        requests_await(&holder, 2 * turn + 1);
        waiter_start(&second, &same, 60 * UNIT);
        waiter_join(&second);
        waiter_join(&first);
        assert_int_equal(first.status, VRAM_ERR_LIMIT);
        assert_int_equal(second.status, VRAM_ERR_LIMIT);
        assert_non_null(strstr(first.report.lease_reason, "does not answer"));
        in_time = strstr(second.report.lease_reason, "other threads of this process are asking");
    }
    assert_true(in_time);
    liar_end(&liar);
    holder_close(&holder);
}

/* The broker leaves while a request waits for it, and none stays; then the lease is closed. */
TEST(a_close_ends_the_wait_for_a_broker) {
    struct liar liar;
    struct holder holder;
    struct waiter waiter;
    vram_lease_options options = lease_options("x", 0, 100 * UNIT);
    uint64_t patience = vr_lease_broker_ns;
    options.timeout_ns = 60 * SECOND;
    vr_lease_broker_ns = 60 * SECOND;
    liar_start(&liar, LIE_GONE_LATER);
    holder_open(&holder, &options);
    waiter_start(&waiter, &holder, 50 * UNIT);
    for (int i = 0; i < 5000 && lease_info(holder.lease).connected; i++) {
        usleep(1000);
    }
    assert_false(lease_info(holder.lease).connected);
    usleep(10000); /* it tries to connect again */
    uint64_t begin = lease_now();
    assert_ok(vram_lease_close(holder.lease));
    waiter_join(&waiter);
    assert_true(lease_now() - begin < 10 * SECOND);
    vr_lease_broker_ns = patience;
    liar_end(&liar);
    assert_ok(vram_context_destroy(holder.context));
}

/* Without a broker nobody can be given anything: a grant that the driver does not fulfil stays. */
TEST(a_grant_stays_without_a_broker) {
    struct liar liar;
    struct holder holder;
    struct waiter waiter;
    vram_lease_options options = lease_options("x", 0, 100 * UNIT);
    options.timeout_ns = SECOND / 20;
    liar_start(&liar, LIE_GONE_LATER);
    holder_open(&holder, &options);
    waiter_start(&waiter, &holder, 50 * UNIT);
    waiter_join(&waiter);
    assert_int_equal(waiter.status, VRAM_ERR_LIMIT);
    assert_non_null(strstr(waiter.report.lease_reason, "no broker of leases can be reached"));
    assert_false(lease_info(holder.lease).connected);
    assert_ok(vram_sim_others_set(holder.context, 0, 1024 * UNIT));
    waiter_start(&waiter, &holder, 6 * UNIT);
    waiter_join(&waiter);
    assert_true(vram_status_is_exhausted(waiter.status));
    assert_int_equal(lease_info(holder.lease).requests, 2);
    assert_int_equal(lease_info(holder.lease).given_bytes, 0);
    assert_int_equal(holder_granted(&holder), 10 * UNIT);
    assert_ok(vram_sim_others_set(holder.context, 0, 0));
    holder_fill(&holder, 6 * UNIT, 5);
    liar_end(&liar);
    holder_close(&holder);
}

/* The sentence names the one who kept the most, and counts the others. */
TEST(who_kept_the_most_is_named) {
    struct liar liar;
    struct holder holder;
    struct waiter waiter;
    vram_lease_options options = lease_options("x", 0, 100 * UNIT);
    liar_start(&liar, LIE_LENDERS_LATER);
    holder_open(&holder, &options);
    waiter_start(&waiter, &holder, 50 * UNIT);
    waiter_join(&waiter);
    assert_int_equal(waiter.status, VRAM_ERR_LIMIT);
    assert_int_equal(waiter.report.lender_count, 3);
    assert_non_null(strstr(waiter.report.lease_reason, "\"most\" (process 77)"));
    assert_non_null(strstr(waiter.report.lease_reason, "2 more were asked"));
    liar_end(&liar);
    holder_close(&holder);
}

/* A list that has begun and does not go on ends with its time limit. */
TEST(a_list_has_a_time_limit) {
    struct liar liar;
    uint32_t count = 7;
    vr_clock_set(&(struct vr_clock_source){.now = clock_moved});
    liar_start(&liar, LIE_SILENT);
    assert_int_equal(vram_lease_list(NULL, NULL, &count, NULL, NULL), VRAM_ERR_TIMEOUT);
    assert_non_null(strstr(vram_error_get()->text, "does not answer"));
    assert_int_equal(count, 7);
    liar_end(&liar);
    vr_clock_set(NULL);
}

/* ------------------------------------------------------------ a false holder */

static int holder_connect(void) {
    char path[VR_SOCKET_PATH_MAX];
    int fd;
    vr_broker_path(lease_dir, path);
    assert_ok(vr_os_socket_connect(path, vr_deadline_in(SECOND), &fd));
    return fd;
}

static void put_open(int fd, uint64_t grant) {
    uint8_t bytes[VR_LEASE_MESSAGE_BYTES];
    struct vr_lease_message message = {.type = VR_LEASE_OPEN,
                                       .n = {0, UINT64_MAX, grant, 0, 1024 * UNIT, 1000, 1},
                                       .device = "sim 0",
                                       .name = "liar"};
    vr_lease_message_write(bytes, &message);
    (void)!send(fd, bytes, sizeof bytes, MSG_NOSIGNAL);
}

/* Waits until the other side has closed. */
static bool is_closed(int fd) {
    uint8_t bytes[512];
    for (int i = 0; i < 2000; i++) {
        ssize_t some = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (some == 0 || (some < 0 && errno != EAGAIN)) {
            return true;
        }
        usleep(1000);
    }
    return false;
}

TEST(lying_holders) {
    struct holder holder;
    vram_lease_options options = lease_options("honest", 0, 600 * UNIT);
    uint8_t noise[4096];
    holder_open(&holder, &options);
    for (size_t i = 0; i < sizeof noise; i++) {
        noise[i] = (uint8_t)(i * 31 + 7);
    }
    int fd = holder_connect(); /* noise */
    (void)!send(fd, noise, sizeof noise, MSG_NOSIGNAL);
    assert_true(is_closed(fd));
    close(fd);
    fd = holder_connect(); /* another version: it is told so */
    vr_wire_header_write(noise, &(struct vr_wire_header){.version = 7, .type = VR_LEASE_OPEN});
    (void)!send(fd, noise, VR_WIRE_HEADER_BYTES, MSG_NOSIGNAL);
    struct vr_os_poll poll = {.fd = fd, .read = true};
    vr_os_poll(&poll, 1, SECOND);
    assert_int_equal(recv(fd, noise, VR_LEASE_MESSAGE_BYTES, 0), VR_LEASE_MESSAGE_BYTES);
    assert_int_equal(noise[4], VR_LEASE_VERSION);
    assert_int_equal(noise[5], VR_LEASE_REFUSED);
    assert_true(is_closed(fd));
    close(fd);
    fd = holder_connect(); /* gives what it never had */
    put_open(fd, 0);
    put(fd, VR_LEASE_GIVE, VRAM_OK, 0, UINT64_MAX, 0);
    assert_true(is_closed(fd));
    close(fd);
    fd = holder_connect(); /* two leases on one connection */
    put_open(fd, 0);
    put_open(fd, 0);
    assert_true(is_closed(fd));
    close(fd);
    fd = holder_connect(); /* begins with what only a holder says */
    put(fd, VR_LEASE_HELD, VRAM_OK, 1, 0, 0);
    assert_true(is_closed(fd));
    close(fd);
    fd = holder_connect(); /* claims everything, and gives nothing: requests name it */
    put_open(fd, UINT64_MAX - 1);
    usleep(20000);
    options.timeout_ns = SECOND / 10;
    struct waiter waiter;
    waiter_start(&waiter, &holder, 620 * UNIT);
    waiter_join(&waiter);
    assert_int_equal(waiter.status, VRAM_ERR_LIMIT);
    holder_fill(&holder, 500 * UNIT, 3); /* what was granted before stays */
    close(fd);
    holder_close(&holder);
}

/* A holder that reads none of its answers costs the broker a bounded buffer, and then its lease. */
TEST(a_holder_that_does_not_read) {
    struct holder holder;
    vram_lease_options options = lease_options("honest", 0, 600 * UNIT);
    uint8_t need[VR_LEASE_MESSAGE_BYTES];
    struct vr_lease_message message = {.type = VR_LEASE_NEED, .n = {1, 1, SECOND}};
    uint64_t sent = 0, end = lease_now() + 20 * SECOND;
    uint32_t count = 0;
    bool closed = false;
    holder_open(&holder, &options);
    vr_lease_message_write(need, &message);
    int fd = holder_connect();
    put_open(fd, UINT64_MAX); /* wants no more: each request is granted at once, with nothing */
    while (!closed && sent < 100000 && lease_now() < end) {
        ssize_t some = send(fd, need, sizeof need, MSG_NOSIGNAL | MSG_DONTWAIT);
        closed = some < 0 && errno != EAGAIN;
        sent += some > 0;
        if (!closed && some != (ssize_t)sizeof need) {
            assert_true(some < 0); /* messages are sent whole, or not at all */
            usleep(100);
        }
    }
    assert_true(closed);
    assert_true(sent > 1000); /* many are kept for it before */
    close(fd);
    assert_ok(vram_lease_list(NULL, NULL, &count, NULL, NULL));
    assert_int_equal(count, 1);
    assert_int_equal(lease_info(holder.lease).brokers, 1); /* which goes on for the others */
    holder_close(&holder);
}

/* A connection whose first message does not come is closed. */
TEST(a_holder_that_says_nothing) {
    struct holder holder;
    vram_lease_options options = lease_options("honest", 0, 600 * UNIT);
    uint8_t byte;
    vr_clock_set(&(struct vr_clock_source){.now = clock_moved});
    holder_open(&holder, &options);
    int fd = holder_connect();
    usleep(150000); /* longer than a turn of the broker */
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
    clock_ahead += 6 * SECOND;
    assert_true(is_closed(fd));
    close(fd);
    assert_true(lease_info(holder.lease).connected); /* a lease may be silent */
    holder_close(&holder);
    vr_clock_set(NULL);
}

EACH_TEST(lease_folder_make, lease_folder_remove)

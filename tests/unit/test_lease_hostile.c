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
    }
}

static void *liar_run(void *argument) {
    struct liar *liar = argument;
    int open[16], count = 0;
    while (!liar->stop) {
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
                }
            }
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

static void lying_brokers(void **state) {
    static const vram_status expected[LIES] = {
        [LIE_SILENT] = VRAM_ERR_TIMEOUT,      [LIE_CLOSE] = VRAM_ERR_STALE,
        [LIE_NOISE] = VRAM_ERR_CORRUPT,       [LIE_LONG] = VRAM_ERR_CORRUPT,
        [LIE_VERSION] = VRAM_ERR_UNSUPPORTED, [LIE_MUCH] = VRAM_ERR_CORRUPT,
        [LIE_TYPE] = VRAM_ERR_CORRUPT,        [LIE_REFUSE] = VRAM_ERR_INVALID,
        [LIE_MEMORY] = VRAM_ERR_HOST_MEMORY,  [LIE_CUT] = VRAM_ERR_TIMEOUT};
    vram_lease_options options = lease_options("x", 0, 100 * UNIT);
    struct holder holder;
    (void)state;
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
static void brokers_that_change(void **state) {
    for (enum lie lie = LIE_SILENT_LATER; lie < LIES; lie++) {
        struct liar liar;
        struct holder holder;
        struct waiter waiter;
        vram_lease_options options = lease_options("x", 0, 100 * UNIT);
        (void)state;
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
static void a_minimum_nobody_answers_for(void **state) {
    struct liar liar;
    struct holder holder;
    vram_lease_options options = lease_options("x", 50 * UNIT, 100 * UNIT);
    (void)state;
    options.timeout_ns = SECOND / 100;
    liar_start(&liar, LIE_SILENT_LATER);
    holder_device(&holder);
    assert_int_equal(vram_lease_open(holder.device, &options, &holder.lease), VRAM_ERR_TIMEOUT);
    assert_non_null(strstr(vram_error_get()->text, "minimum cannot be granted"));
    liar_end(&liar);
    assert_ok(vram_context_destroy(holder.context));
}

/* Two requests wait, one for the broker and one for its turn, when the lease is closed. */
static void a_close_ends_what_waits(void **state) {
    struct liar liar;
    struct holder holder, same;
    struct waiter first, second;
    vram_lease_options options = lease_options("x", 0, 100 * UNIT);
    (void)state;
    options.timeout_ns = 20 * SECOND;
    liar_start(&liar, LIE_SILENT_LATER);
    holder_open(&holder, &options);
    same = holder;
    waiter_start(&first, &holder, 50 * UNIT);
    usleep(20000);
    waiter_start(&second, &same, 60 * UNIT);
    usleep(20000);
    uint64_t begin = lease_now();
    assert_ok(vram_lease_close(holder.lease));
    waiter_join(&first);
    waiter_join(&second);
    assert_true(lease_now() - begin < 10 * SECOND);
    liar_end(&liar);
    assert_ok(vram_context_destroy(holder.context));
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

static void lying_holders(void **state) {
    struct holder holder;
    vram_lease_options options = lease_options("honest", 0, 600 * UNIT);
    uint8_t noise[4096];
    (void)state;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lying_brokers, lease_folder_make, lease_folder_remove),
        cmocka_unit_test_setup_teardown(brokers_that_change, lease_folder_make,
                                        lease_folder_remove),
        cmocka_unit_test_setup_teardown(a_minimum_nobody_answers_for, lease_folder_make,
                                        lease_folder_remove),
        cmocka_unit_test_setup_teardown(a_close_ends_what_waits, lease_folder_make,
                                        lease_folder_remove),
        cmocka_unit_test_setup_teardown(lying_holders, lease_folder_make, lease_folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

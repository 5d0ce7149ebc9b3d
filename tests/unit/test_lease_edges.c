/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases at their edges: system calls that fail in their turn, drivers that refuse what was
 * granted, callbacks that do not return, as many holders as a broker takes, brokers that end.
 */
#include "lease_world.h"

#include "base/clock.h"
#include "base/os/unix_socket.h"
#include "lease/broker.h"
#include "lease/lease_wire.h"
#include "system_call.h"
#include "vram/sim.h"

#include <stdatomic.h>
#include <sys/resource.h>

/* -------------------------------------------------------------------- inputs */

/* Whether there is another cannot be known without descriptors: that is not "there is one". */
TEST(a_broker_says_what_it_lacks) {
    vram_broker_options options = {.size = sizeof options, .idle_ns = 1};
    unsigned failed = 0;
    bool struck = true;
    for (unsigned nth = 1; struck; nth++) {
        system_call_plan(nth, EMFILE);
        vram_status status = vram_broker_run(&options);
        struck = atomic_load(&system_call.calls) >= nth;
        system_call_plan(0, 0);
        assert_int_not_equal(status, VRAM_ERR_BUSY);
        failed += status != VRAM_OK;
    }
    assert_true(failed > 2);
}

/* ------------------------------------------------------------------- drivers */

/* The device's own figure is taken where the driver says nothing. */
TEST(drivers_without_figures) {
    struct holder holder;
    vram_lease_options options = lease_options("x", 0, 1024 * UNIT);
    vram_sim_fault fault = {.size = sizeof fault,
                            .call = VRAM_SIM_MEMORY_INFO,
                            .nth = 1,
                            .for_ever = true,
                            .code = VRAM_SIM_INVALID_VALUE};
    options.capacity_bytes = 0;
    holder_device(&holder);
    assert_ok(vram_sim_fault_set(holder.context, &fault));
    assert_ok(vram_lease_open(holder.device, &options, &holder.lease));
    assert_int_equal(holder_granted(&holder), 1024 * UNIT);
    assert_ok(vram_lease_close(holder.lease));
    options.capacity_bytes = 300 * UNIT; /* a request says nothing of what is free */
    options.timeout_ns = SECOND / 20;
    assert_ok(vram_lease_open(holder.device, &options, &holder.lease));
    assert_true(vram_status_is_exhausted(
        vram_alloc(holder.pool, 650 * UNIT, holder.queue, &(vram_addr){0})));
    assert_ok(vram_lease_close(holder.lease));
    assert_ok(vram_sim_fault_set(holder.context, NULL));
    assert_ok(vram_sim_others_set(holder.context, 0, 1024 * UNIT)); /* nothing is free */
    options.capacity_bytes = 0;
    assert_ok(vram_lease_open(holder.device, &options, &holder.lease));
    assert_int_equal(holder_granted(&holder), 1024 * UNIT);
    holder_close(&holder);
}

static void *others_leave(void *argument) {
    struct holder *holder = argument;
    usleep(20000);
    (void)vram_sim_others_set(holder->context, 0, 0);
    return NULL;
}

/* The grant is there, but the memory is not: somebody without a lease has it. */
TEST(drivers_refuse_what_was_granted) {
    struct holder holder;
    vram_lease_options options = lease_options("x", 0, 600 * UNIT);
    vram_alloc_options at_once = {.size = sizeof at_once, .flags = VRAM_ALLOC_NO_WAIT};
    vram_addr addr;
    pthread_t thread;
    options.timeout_ns = SECOND / 10;
    holder_open(&holder, &options);
    assert_ok(vram_sim_others_set(holder.context, 0, 900 * UNIT));
    assert_true(vram_status_is_exhausted(
        vram_alloc_with(holder.pool, 400 * UNIT, holder.queue, &at_once, &addr)));
    vram_status status = vram_alloc(holder.pool, 400 * UNIT, holder.queue, &addr);
    assert_true(vram_status_is_exhausted(status));
    assert_int_equal(pthread_create(&thread, NULL, others_leave, &holder), 0);
    status = vram_alloc(holder.pool, 400 * UNIT, holder.queue, &addr);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (status != VRAM_OK) { /* it left too late */
        assert_true(vram_status_is_exhausted(status));
        assert_ok(vram_alloc(holder.pool, 400 * UNIT, holder.queue, &addr));
    }
    assert_int_not_equal(vram_alloc(holder.pool, UINT64_MAX / 2, holder.queue, &(vram_addr){0}),
                         VRAM_OK);
    assert_ok(vram_free(addr, holder.queue));
    holder_close(&holder);
}

/* ----------------------------------------------------------------- callbacks */

struct patience {
    struct holder *holder;
    atomic_bool inside, may_return;
    vram_lease_answer answer;
    atomic_int asked;
};

static vram_lease_answer take_time(void *user, const vram_lease_event *event) {
    struct patience *patience = user;
    (void)event;
    atomic_store(&patience->inside, true);
    while (!atomic_load(&patience->may_return)) {
        usleep(200);
    }
    return VRAM_LEASE_REFUSE;
}

/* A callback that does not return holds nobody up for longer than the option wait_timeout. */
TEST(a_callback_takes_its_time) {
    struct holder first, second;
    struct patience patience = {.holder = &first};
    struct waiter waiter;
    vram_lease_options options = lease_options("first", 0, 1024 * UNIT);
    assert_ok(vram_option_set("wait_timeout", "20ms"));
    options.flags = VRAM_LEASE_AT_ONCE;
    options.revoke = take_time;
    options.user = &patience;
    holder_open(&first, &options);
    assert_ok(vram_option_set("wait_timeout", NULL));
    holder_fill(&first, 900 * UNIT, 1);
    options = lease_options("second", 0, 1024 * UNIT);
    options.timeout_ns = SECOND / 10;
    holder_open(&second, &options);
    waiter_start(&waiter, &second, 600 * UNIT);
    while (!atomic_load(&patience.inside)) {
        usleep(200);
    }
    assert_int_equal(vram_lease_close(first.lease), VRAM_ERR_TIMEOUT);
    assert_non_null(strstr(vram_error_get()->text, "has not returned"));
    atomic_store(&patience.may_return, true);
    waiter_join(&waiter);
    assert_ok(vram_context_destroy(first.context));
    holder_close(&second);
}

static vram_lease_answer close_inside(void *user, const vram_lease_event *event) {
    struct patience *patience = user;
    if (atomic_fetch_add(&patience->asked, 1) == 0) {
        vram_addr addr; /* a request from here asks nobody: all wait for this thread */
        assert_int_not_equal(
            vram_alloc(patience->holder->pool, 300 * UNIT, patience->holder->queue, &addr),
            VRAM_OK);
        assert_ok(vram_lease_close(event->lease));
    }
    return VRAM_LEASE_DONE;
}

/* On the lease's own thread: it ends once the callback has returned. */
TEST(a_callback_closes_its_lease) {
    struct holder first, second;
    struct patience patience = {.holder = &first};
    vram_lease_options options = lease_options("first", 0, 1024 * UNIT);
    options.flags = VRAM_LEASE_AT_ONCE;
    options.revoke = close_inside;
    options.user = &patience;
    holder_open(&first, &options);
    holder_fill(&first, 900 * UNIT, 1);
    options = lease_options("second", 0, 1024 * UNIT);
    options.timeout_ns = 2 * SECOND;
    holder_open(&second, &options);
    vram_status status = VRAM_ERR_LIMIT; /* the first answer is still the closed lease's */
    for (int i = 0; i < 2000 && status != VRAM_OK; i++) {
        status = vram_alloc(second.pool, 600 * UNIT, second.queue, &second.addr);
        usleep(status == VRAM_OK ? 0 : 1000);
    }
    assert_ok(status); /* what the first had is nobody's now */
    assert_int_equal(atomic_load(&patience.asked), 1);
    (void)vram_lease_close(first.lease);
    assert_ok(vram_context_destroy(first.context));
    holder_close(&second);
}

static vram_lease_answer answer_later(void *user, const vram_lease_event *event) {
    struct patience *patience = user;
    atomic_fetch_add(&patience->asked, 1);
    return event->at_point ? (vram_lease_answer)7 : VRAM_LEASE_LATER; /* 7 is as good as done */
}

/* "Later" is the next safe point, where what is listed sleeps: pools that are still there, and only
   what has their tag. A deterministic pool is not trimmed meanwhile. */
TEST(later_at_a_point) {
    struct holder first, second;
    struct patience patience = {.holder = &first};
    struct waiter waiter;
    vram_lease_options options = lease_options("first", 0, 1024 * UNIT);
    vram_sleep_options tagged = {
        .size = sizeof tagged, .contents = VRAM_SLEEP_DROP, .tag = "weights"};
    vram_pool_options fixed = {.size = sizeof fixed, .flags = VRAM_POOL_DETERMINISTIC};
    vram_alloc_options weights = {.size = sizeof weights, .tag = "weights"};
    vram_pool_options pinned = {.size = sizeof pinned, .kind = VRAM_MEMORY_PINNED};
    vram_pool *gone, *deterministic, *host, *spare;
    vram_addr addr;
    options.flags = VRAM_LEASE_AT_ONCE;
    options.revoke = answer_later;
    options.user = &patience;
    holder_open(&first, &options);
    assert_ok(vram_pool_create(first.device, &fixed, &deterministic));
    assert_ok(vram_alloc(deterministic, 4 * UNIT, first.queue, &addr));
    assert_ok(vram_free(addr, first.queue));
    assert_ok(vram_pool_create(first.device, NULL, &gone));
    assert_ok(vram_lease_pool_add(first.lease, gone, NULL));
    assert_ok(vram_lease_pool_add(first.lease, first.pool, &tagged));
    assert_ok(vram_pool_create(first.device, NULL, &spare));
    assert_ok(vram_lease_pool_add(first.lease, spare, NULL));  /* its turn does not come */
    assert_ok(vram_pool_create(first.device, &pinned, &host)); /* is no memory of the device */
    assert_ok(vram_pool_destroy(gone));
    assert_ok(vram_alloc_with(first.pool, 800 * UNIT, first.queue, &weights, &addr));
    options = lease_options("second", 0, 1024 * UNIT);
    holder_open(&second, &options);
    waiter_start(&waiter, &second, 600 * UNIT);
    while (atomic_load(&patience.asked) == 0) {
        usleep(200);
    }
    assert_true(points_until_given(&first) > 0);
    waiter_join(&waiter);
    assert_ok(waiter.status);
    assert_true(atomic_load(&patience.asked) >= 2);
    holder_close(&second);
    holder_close(&first);
}

/* ------------------------------------------------------------------- brokers */

static atomic_bool broker_stops;

static bool broker_stop(void *user) {
    (void)user;
    return atomic_load(&broker_stops);
}

static void *broker_main(void *argument) {
    vram_broker_options options = {
        .size = sizeof options, .idle_ns = UINT64_MAX, .stop = broker_stop};
    *(vram_status *)argument = vram_broker_run(&options);
    return NULL;
}

static pthread_t broker_thread;
static vram_status broker_status;

static void broker_begin(void) {
    uint32_t count = 0;
    atomic_store(&broker_stops, false);
    assert_int_equal(pthread_create(&broker_thread, NULL, broker_main, &broker_status), 0);
    while (vram_lease_list(NULL, NULL, &count, NULL, NULL) != VRAM_OK) {
        usleep(1000);
    }
}

static void broker_end(void) {
    atomic_store(&broker_stops, true);
    assert_int_equal(pthread_join(broker_thread, NULL), 0);
    assert_ok(broker_status);
}

/* It is told to stop while a lease is open: the holder finds the next one, with what it had. */
TEST(a_broker_ends_under_its_holders) {
    struct holder holder;
    vram_lease_options options = lease_options("x", 0, 700 * UNIT);
    broker_begin();
    holder_open(&holder, &options);
    holder_fill(&holder, 300 * UNIT, 1);
    broker_end();
    for (int i = 0; i < 5000 && lease_info(holder.lease).brokers < 2; i++) {
        usleep(1000);
    }
    vram_lease_info info = lease_info(holder.lease);
    assert_true(info.brokers == 2 && info.connected);
    assert_int_equal(info.granted_bytes, 700 * UNIT);
    holder_close(&holder);
}

static int raw_connect(void) {
    char path[VR_SOCKET_PATH_MAX];
    int fd;
    vr_broker_path(lease_dir, path);
    assert_ok(vr_os_socket_connect(path, vr_deadline_in(10 * SECOND), &fd));
    return fd;
}

static void raw_send(int fd, const struct vr_lease_message *message) {
    uint8_t bytes[VR_LEASE_MESSAGE_BYTES];
    vr_lease_message_write(bytes, message);
    assert_int_equal(send(fd, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
}

/* The broker takes so many connections and no more; a list that its reader does not read yet waits,
   and delays nobody. */
TEST(as_many_holders_as_there_may_be) {
    enum { MANY = 1030 };
    static int fds[MANY];
    struct rlimit before, more;
    struct vr_lease_message open = {.type = VR_LEASE_OPEN,
                                    .n = {0, UNIT, 0, 0, 1024 * UNIT, 1000, 0},
                                    .device = "other 0",
                                    .name = "one of many"};
    uint8_t bytes[65536];
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    more = before;
    more.rlim_cur = before.rlim_max < 4096 ? before.rlim_max : 4096;
    if (more.rlim_cur < 2 * MANY + 100 || setrlimit(RLIMIT_NOFILE, &more) != 0) {
        skip();
    }
    broker_begin();
    for (int i = 0; i < MANY; i++) {
        fds[i] = raw_connect();
        if (i < MANY - 20) { /* the last ones may not be let in */
            raw_send(fds[i], &open);
        }
    }
    close(fds[0]);
    fds[0] = raw_connect();
    raw_send(fds[1000 + 12], &(struct vr_lease_message){.type = VR_LEASE_LIST});
    usleep(50000); /* its socket is full meanwhile */
    uint64_t got = 0, end = lease_now() + 20 * SECOND;
    for (ssize_t some = 1; some != 0 && lease_now() < end;) {
        some = recv(fds[1000 + 12], bytes, sizeof bytes, MSG_DONTWAIT);
        got += some > 0 ? (uint64_t)some : 0;
        usleep(some > 0 ? 0 : 200);
    }
    assert_true(got > 1000 * 2 * VR_LEASE_MESSAGE_BYTES);
    for (int i = 0; i < MANY; i++) {
        close(fds[i]);
    }
    broker_end();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* ------------------------------------------------------------- a lying broker */

struct teller {
    int listener;
    int tale; /* which list it tells */
    pthread_t thread;
};

static void tell(int fd, const struct vr_lease_message *message) {
    uint8_t bytes[VR_LEASE_MESSAGE_BYTES];
    vr_lease_message_write(bytes, message);
    bytes[4] = message->version ? message->version : bytes[4];
    (void)!send(fd, bytes, sizeof bytes, MSG_NOSIGNAL);
}

static void *teller_run(void *argument) {
    struct teller *teller = argument;
    int fd = accept(teller->listener, NULL, NULL);
    struct vr_os_poll poll = {.fd = fd, .read = true};
    uint8_t bytes[VR_LEASE_MESSAGE_BYTES];
    vr_os_poll(&poll, 1, 5 * SECOND);
    (void)!recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    switch (teller->tale) {
    case 0: /* of another version */
        tell(fd, &(struct vr_lease_message){.version = 9, .type = VR_LEASE_ENTRY});
        break;
    case 1: /* without an end */
    case 2:
        for (int i = 0; i < (1 << 16) + 10; i++) {
            tell(fd, &(struct vr_lease_message){.type = teller->tale == 1 ? VR_LEASE_ENTRY
                                                                          : VR_LEASE_RECORD});
        }
        break;
    default: /* more of an entry that was not there, and a type that nobody knows */
        tell(fd, &(struct vr_lease_message){.type = VR_LEASE_ENTRY_MORE, .n = {7}});
        tell(fd, &(struct vr_lease_message){.type = 250});
        tell(fd, &(struct vr_lease_message){.type = VR_LEASE_ENTRY});
        tell(fd, &(struct vr_lease_message){.type = VR_LEASE_ENTRY_MORE, .n = {7}});
        tell(fd, &(struct vr_lease_message){.type = VR_LEASE_END});
        break;
    }
    close(fd);
    return NULL;
}

TEST(lists_that_lie) {
    static const vram_status answers[] = {VRAM_ERR_UNSUPPORTED, VRAM_ERR_CORRUPT, VRAM_ERR_CORRUPT,
                                          VRAM_OK, VRAM_OK};
    char path[VR_SOCKET_PATH_MAX];
    vram_lease_entry entry;
    vr_broker_path(lease_dir, path);
    for (int tale = 0; tale < 5; tale++) {
        struct teller teller = {.tale = tale};
        uint32_t room = tale < 4, count = room;
        assert_ok(vr_os_socket_listen(path, &teller.listener));
        assert_int_equal(fcntl(teller.listener, F_SETFL, 0), 0); /* accept waits */
        assert_int_equal(pthread_create(&teller.thread, NULL, teller_run, &teller), 0);
        vram_status status = vram_lease_list(NULL, &entry, &count, NULL, NULL);
        if (status != VRAM_ERR_TIMEOUT || tale < 1 ||
            tale > 2) { /* a slow machine gives up first */
            assert_int_equal(status, answers[tale]);
        }
        assert_int_equal(count, status == VRAM_OK ? 1 : room);
        assert_int_equal(pthread_join(teller.thread, NULL), 0);
        close(teller.listener);
        (void)unlink(path);
    }
}

/* -------------------------------------------------------------- the system */

static struct holder scene;

/* A child does not take its parent's broker for its own: it finds it by its socket or starts it. */
static int lease_of_a_child(void *argument) {
    vram_lease_options options = lease_options("child", 0, 700 * UNIT);
    struct holder holder;
    (void)argument;
    options.dir = lease_dir;
    setenv("PATH", lease_dir, 1); /* where no command is */
    (void)vram_option_set("broker", "");
    holder_device(&holder);
    if (vram_lease_open(holder.device, &options, &holder.lease) != VRAM_OK) {
        return 1;
    }
    return vram_lease_close(holder.lease) == VRAM_OK ? 0 : 2;
}

TEST(forked_children_host_their_own) {
    vram_lease_options options = lease_options("parent", 0, 700 * UNIT);
    struct holder holder;
#ifdef __SANITIZE_THREAD__ /* which forbids new threads after such a fork */
    skip();
#endif
    holder_open(&holder, &options); /* its broker is a thread of this process */
#ifndef __SANITIZE_ADDRESS__        /* whose allocator that thread may have locked */
    assert_int_equal(in_child(lease_of_a_child, NULL), 0);
#endif
    holder_close(&holder);
    assert_int_equal(in_child(lease_of_a_child, NULL), 0);
}

static void seems_of_another_user(void *credentials) {
    ((struct ucred *)credentials)->uid++;
}

/* Neither side talks to somebody else's. */
TEST(peers_of_another_user) {
    vram_lease_options options = lease_options("x", 0, 700 * UNIT);
    holder_device(&scene);
    system_call.peer = seems_of_another_user;
    vram_status status = vram_lease_open(scene.device, &options, &scene.lease);
    system_call.peer = NULL;
    assert_int_equal(status, VRAM_ERR_BUSY);
    assert_non_null(strstr(vram_error_get()->text, "belongs to user"));
    assert_ok(vram_context_destroy(scene.context));
}

EACH_TEST(lease_folder_make, lease_folder_remove)

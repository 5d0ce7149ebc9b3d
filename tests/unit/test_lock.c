/* SPDX-License-Identifier: Apache-2.0 */
/* test_lock.c: exclusion, conditions, once, the order of ranks, and locks across a fork. */
#include "base/lock.h"
#include "base/os/os.h"

#include "base/clock.h"
#include "base/entry_guard.h"
#include "rig/rig.h"
#include "unit/child.h"

#include <signal.h>
#include <string.h>

#define THREADS 4

static void start_all(struct vr_thread threads[THREADS], void (*run)(void *), void *argument) {
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(vr_os_thread_start(&threads[i], "test", run, argument), VRAM_OK);
    }
}

static void join_all(struct vr_thread threads[THREADS]) {
    for (int i = 0; i < THREADS; i++) {
        vr_os_thread_join(&threads[i]);
    }
}

/* ------------------------------------------------------------------ exclusion */

struct counter {
    struct vr_mutex lock;
    struct vr_cond changed;
    uint64_t value;
};

/* ----------------------------------------------------------------- conditions */

static void wait_for_one(void *argument) {
    struct counter *counter = argument;
    vr_mutex_lock(&counter->lock);
    while (counter->value == 0) {
        (void)vr_cond_wait(&counter->changed, &counter->lock, UINT64_MAX);
    }
    counter->value++;
    vr_mutex_unlock(&counter->lock);
}

TEST(broadcast_wakes_all) {
    struct counter counter = {.value = 0};
    struct vr_thread threads[THREADS];
    vr_mutex_init(&counter.lock, VR_RANK_QUEUE);
    assert_int_equal(vr_cond_init(&counter.changed), VRAM_OK);
    start_all(threads, wait_for_one, &counter);
    vr_os_sleep(UINT64_C(5000000));
    vr_mutex_lock(&counter.lock);
    counter.value = 1;
    vr_cond_broadcast(&counter.changed);
    vr_mutex_unlock(&counter.lock);
    join_all(threads);
    assert_int_equal(counter.value, 1 + THREADS);
    vr_cond_destroy(&counter.changed);
    vr_mutex_destroy(&counter.lock);
}

TEST(a_wait_ends_in_time) {
    struct counter counter = {.value = 0};
    vr_mutex_init(&counter.lock, VR_RANK_QUEUE);
    assert_int_equal(vr_cond_init(&counter.changed), VRAM_OK);
    const uint64_t times[] = {0, 1, UINT64_C(3000000), UINT64_C(30000000)};
    vr_mutex_lock(&counter.lock);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        uint64_t start = vr_os_now();
        while (vr_cond_wait(&counter.changed, &counter.lock, times[i])) {
        }
        uint64_t waited = vr_os_now() - start;
        assert_true(waited >= times[i]);
        assert_true(waited < times[i] + UINT64_C(60000000000)); /* machines may be busy */
    }
    vr_mutex_unlock(&counter.lock);
    vr_cond_destroy(&counter.changed);
    vr_mutex_destroy(&counter.lock);
}

/* ----------------------------------------------------------------------- once */

static struct vr_once once = VR_ONCE_INIT;
static vr_atomic_u32 once_runs;

static void once_body(void) {
    vr_os_sleep(UINT64_C(2000000));
    vr_fetch_add(&once_runs, 1, VR_RELAXED);
}

static void once_user(void *argument) {
    (void)argument;
    vr_once(&once, once_body);
    assert_int_equal(vr_load(&once_runs, VR_RELAXED), 1);
}

TEST(once_runs_once) {
    struct vr_thread threads[THREADS];
    start_all(threads, once_user, NULL);
    join_all(threads);
    assert_int_equal(vr_load(&once_runs, VR_RELAXED), 1);
}

/* ---------------------------------------------------------------------- ranks */

static struct vr_mutex low = VR_MUTEX_INIT(VR_RANK_CONTEXT);
static struct vr_mutex middle = VR_MUTEX_INIT(VR_RANK_DEVICE);
static struct vr_mutex high = VR_MUTEX_INIT(VR_RANK_STABLE);

#ifdef VR_DEBUG

static unsigned violations;
static char violation_text[128];

static void count_violation(const char *text) {
    violations++;
    strncpy(violation_text, text, sizeof violation_text - 1);
}

TEST(rising_ranks_are_fine) {
    violations = 0;
    vr_lock_violation_set(count_violation);
    assert_int_equal(vr_locks_held(), 0);
    vr_mutex_lock(&low);
    vr_mutex_lock(&middle);
    vr_mutex_lock(&high);
    assert_int_equal(vr_locks_held(), 3);
    assert_true(vr_mutex_is_held(&low) && vr_mutex_is_held(&middle) && vr_mutex_is_held(&high));
    vr_mutex_unlock(&middle); /* in any order */
    assert_int_equal(vr_locks_held(), 2);
    assert_true(vr_mutex_is_held(&low) && !vr_mutex_is_held(&middle) && vr_mutex_is_held(&high));
    vr_mutex_unlock(&low);
    vr_mutex_unlock(&high);
    assert_int_equal(vr_locks_held(), 0);
    assert_false(vr_mutex_is_held(&high));
    assert_int_equal(violations, 0);
    vr_lock_violation_set(NULL);
}

TEST(falling_and_equal_ranks_are_found) {
    struct vr_mutex same;
    vr_mutex_init(&same, VR_RANK_DEVICE);
    violations = 0;
    vr_lock_violation_set(count_violation);
    vr_mutex_lock(&middle);
    vr_mutex_lock(&same);
    assert_int_equal(violations, 1);
    assert_string_equal(violation_text, "libvram: lock taken out of order (rank 20, held 20)");
    vr_mutex_unlock(&same);
    vr_mutex_unlock(&middle);
    vr_mutex_destroy(&same);
    vr_mutex_init(&same, VR_RANK_CONTEXT); /* below one that is not the last taken */
    vr_mutex_lock(&middle);
    vr_mutex_lock(&high);
    vr_mutex_unlock(&high);
    vr_mutex_lock(&same);
    assert_int_equal(violations, 2);
    vr_mutex_unlock(&same);
    vr_mutex_unlock(&middle);
    vr_mutex_destroy(&same);
    vr_lock_violation_set(NULL);
}

static int unlock_not_held(void *argument) {
    (void)argument;
    violations = 0;
    vr_lock_violation_set(count_violation);
    pthread_mutex_lock(&low.native); /* behind the back of the checks */
    vr_mutex_unlock(&low);
    return violations == 1 && strstr(violation_text, "not held") ? 0 : 1;
}

/* With `low` held by this thread a fork could only wait for itself: the report comes first. */
static void report_and_leave(const char *text) {
    child_leave(strstr(text, "fork with a lock held") ? 7 : 8);
}

static int fork_while_held(void *argument) {
    (void)argument;
    vr_lock_violation_set(report_and_leave);
    vr_mutex_lock(&low);
    (void)fork();
    return 9;
}

static int out_of_order_for_real(void *argument) {
    int *ends = argument;
    dup2(ends[1], STDERR_FILENO);
    signal(SIGABRT, SIG_DFL);
    vr_mutex_lock(&high);
    vr_mutex_lock(&low);
    return 0;
}

TEST(other_mistakes_are_found) {
    assert_int_equal(in_child(unlock_not_held, NULL), 0);
    assert_int_equal(in_child(fork_while_held, NULL), 7);
}

TEST(by_default_the_report_ends_the_process) {
    int ends[2];
    char text[128] = "";
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(in_child(out_of_order_for_real, ends), 1000 + SIGABRT);
    assert_true(read(ends[0], text, sizeof text - 1) > 0);
    const char *expected = "libvram: lock taken out of order (rank 10, held 90)\n";
    assert_int_equal(strncmp(text, expected, strlen(expected)), 0);
    close(ends[0]);
    close(ends[1]);
}

#else

TEST(releases_check_nothing) {
    vr_lock_violation_set(NULL);
    vr_mutex_lock(&high);
    vr_mutex_lock(&middle);
    vr_mutex_lock(&low);
    assert_int_equal(vr_locks_held(), 0);
    vr_mutex_unlock(&low);
    vr_mutex_unlock(&middle);
    vr_mutex_unlock(&high);
}

#endif

/* ----------------------------------------------------------------------- fork */

#define NEW_LOCKS 40

/* Two numbers that are equal whenever the lock is free. */
struct guarded_pair {
    struct vr_mutex lock;
    uint64_t a, b;
};

static struct guarded_pair first = {.lock = VR_MUTEX_INIT(VR_RANK_RADIX)};
static struct guarded_pair second = {.lock = VR_MUTEX_INIT(VR_RANK_HANDLE)};

/* Locked for the first time while forks are under way. */
#define TWO                                                                                        \
    {.lock = VR_MUTEX_INIT(VR_RANK_OPTION)}, {                                                     \
        .lock = VR_MUTEX_INIT(VR_RANK_LOG)                                                         \
    }
#define EIGHT TWO, TWO, TWO, TWO
static struct guarded_pair fresh[NEW_LOCKS] = {EIGHT, EIGHT, EIGHT, EIGHT, EIGHT};

static vr_atomic_bool stop;
static vr_atomic_u32 next_fresh;

static void change(struct guarded_pair *pair) {
    pair->a++;
    vr_os_pause();
    pair->b++;
}

static void keep_changing(void *argument) {
    (void)argument;
    while (!vr_load(&stop, VR_RELAXED)) {
        vr_mutex_lock(&first.lock);
        change(&first);
        vr_mutex_lock(&second.lock);
        change(&second);
        if (first.a % 64 == 0) {
            struct guarded_pair *pair =
                &fresh[vr_fetch_add(&next_fresh, 1, VR_RELAXED) % NEW_LOCKS];
            vr_mutex_lock(&pair->lock);
            change(pair);
            vr_mutex_unlock(&pair->lock);
        }
        vr_mutex_unlock(&second.lock);
        vr_mutex_unlock(&first.lock);
        vr_os_yield();
    }
}

static int take_one(struct guarded_pair *pair) {
    vr_mutex_lock(&pair->lock);
    int wrong = pair->a != pair->b;
    change(pair);
    vr_mutex_unlock(&pair->lock);
    return wrong;
}

static int take_all(void *argument) {
    (void)argument;
    int wrong = take_one(&first) + take_one(&second);
    for (int i = 0; i < NEW_LOCKS; i++) {
        wrong += take_one(&fresh[i]);
    }
    return wrong;
}

TEST(a_child_finds_locks_free_and_data_whole) {
    struct vr_thread threads[THREADS];
    vr_store(&stop, false, VR_RELAXED);
    start_all(threads, keep_changing, NULL);
    int wrong = 0;
    for (uint64_t seen = 0; seen < 100;) { /* they are at work */
        vr_mutex_lock(&first.lock);
        seen = first.a;
        vr_mutex_unlock(&first.lock);
        vr_os_yield();
    }
    for (int i = 0; i < 60; i++) {
        wrong += in_child(take_all, NULL);
    }
    vr_store(&stop, true, VR_RELAXED);
    join_all(threads);
    assert_int_equal(wrong, 0);
}

/* A mutex that is locked for the first time while a fork waits for another is found all the
   same. */
static struct vr_mutex latest = VR_MUTEX_INIT(VR_RANK_STABLE);
static vr_atomic_bool held_up, let_go;

static void hold_up(void *argument) {
    (void)argument;
    vr_mutex_lock(&first.lock);
    vr_store(&held_up, true, VR_RELEASE);
    vr_os_sleep(UINT64_C(50000000)); /* by now the fork waits for the lock */
    vr_mutex_lock(&latest);
    vr_mutex_unlock(&first.lock);
    vr_os_sleep(UINT64_C(20000000));
    vr_mutex_unlock(&latest);
    while (!vr_load(&let_go, VR_ACQUIRE)) { /* alive at the moment of the fork, whenever that is */
        vr_os_sleep(UINT64_C(1000000));
    }
}

static int take_latest(void *argument) {
    (void)argument;
    vr_mutex_lock(&latest);
    vr_mutex_unlock(&latest);
    return 0;
}

TEST(a_fork_finds_the_latest_mutex) {
    struct vr_thread thread;
    vr_mutex_lock(&first.lock); /* known from here on */
    vr_mutex_unlock(&first.lock);
    assert_int_equal(vr_os_thread_start(&thread, "test", hold_up, NULL), VRAM_OK);
    while (!vr_load(&held_up, VR_ACQUIRE)) {
        vr_os_yield();
    }
    int code = in_child(take_latest, NULL);
    vr_store(&let_go, true, VR_RELEASE);
    vr_os_thread_join(&thread);
    assert_int_equal(code, 0);
}

/* Forks of several threads at a time do not wait for each other for ever. */
static void fork_often(void *argument) {
    vr_atomic_u32 *wrong = argument;
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(CHILD_SECONDS);
            child_leave(take_all(NULL));
        }
        int status = 1;
        if (waitpid(child, &status, 0) != child || status != 0) {
            vr_fetch_add(wrong, 1, VR_RELAXED);
        }
    }
}

TEST(several_threads_fork) {
    struct vr_thread threads[THREADS];
    vr_atomic_u32 wrong = 0;
    start_all(threads, fork_often, &wrong);
    join_all(threads);
    assert_int_equal(vr_load(&wrong, VR_RELAXED), 0);
}

static int lock_again(void *argument) {
    struct vr_mutex *mutex = argument;
    vr_mutex_lock(mutex);
    vr_mutex_unlock(mutex);
    return 0;
}

TEST(a_destroyed_mutex_is_forgotten) {
    static struct vr_mutex passing = VR_MUTEX_INIT(VR_RANK_LOG);
    vr_mutex_lock(&passing);
    vr_mutex_unlock(&passing);
    assert_int_equal(vr_load(&passing.at_fork, VR_RELAXED), VR_MUTEX_REGISTERED);
    vr_mutex_destroy(&passing);
    memset(&passing, 0xff, sizeof passing); /* touched at a fork, this would hang or crash */
    assert_int_equal(in_child(lock_again, &low), 0);
}

/* A mutex of an object is nobody's business at a fork: held here, it is held in the child. */
static int is_locked(void *argument) {
    struct vr_mutex *mutex = argument;
    return pthread_mutex_trylock(&mutex->native) != 0;
}

TEST(an_objects_mutex_is_left_alone) {
    struct vr_mutex mutex;
    vr_mutex_init(&mutex, VR_RANK_DEVICE);
    pthread_mutex_lock(&mutex.native);
    assert_int_equal(in_child(is_locked, &mutex), 1);
    pthread_mutex_unlock(&mutex.native);
    vr_mutex_destroy(&mutex);
}

/* ------------------------------------------------- the guard of objects that end */

#define SECOND UINT64_C(1000000000)

TEST(a_closed_guard_lets_nobody_in) {
    struct vr_entry_guard guard = {0};
    assert_true(vr_entry_enter(&guard));
    assert_true(vr_entry_enter(&guard));
    assert_int_equal(vr_entry_inside(&guard), 2);
    assert_true(vr_entry_close(&guard));
    assert_false(vr_entry_close(&guard));
    assert_false(vr_entry_is_open(&guard));
    assert_false(vr_entry_enter(&guard));
    assert_int_equal(vr_entry_inside(&guard), 2);
    vr_entry_leave(&guard);
    vr_entry_leave(&guard);
    assert_true(vr_entry_wait(&guard, 0, NULL));
    vr_entry_reopen(&guard);
    assert_true(vr_entry_enter(&guard));
    assert_false(vr_entry_close_empty(&guard));
    vr_entry_leave(&guard);
    assert_true(vr_entry_close_empty(&guard));
    assert_false(vr_entry_close_empty(&guard));
    assert_false(vr_entry_enter(&guard));
    vr_entry_close_to_enter(&guard);
    assert_true(vr_entry_is_open(&guard));
    assert_int_equal(vr_entry_inside(&guard), 1);
    vr_entry_leave(&guard);
    assert_int_equal(vr_entry_inside(&guard), 0);
}

TEST(the_wait_ends_at_its_deadline_or_when_it_is_stopped) {
    struct vr_entry_guard guard = {0};
    vr_atomic_bool stopped = false;
    assert_true(vr_entry_enter(&guard));
    assert_true(vr_entry_close(&guard));
    uint64_t began = vr_os_now();
    assert_false(vr_entry_wait(&guard, vr_deadline_in(SECOND / 100), &stopped));
    assert_true(vr_os_now() - began >= SECOND / 100);
    vr_store(&stopped, true, VR_RELEASE);
    assert_false(vr_entry_wait(&guard, UINT64_MAX, &stopped));
    vr_entry_leave(&guard);
}

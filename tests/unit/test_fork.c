/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_fork.c: the process generation and the handlers that run at a fork.
 *
 * The source is compiled into this program twice over, once for a system that wipes a word at a
 * fork and once for one that cannot, so that both ways are tested here.
 */
#include "base/os/platform.h"

vr_atomic_u64 *no_word(void);
uint64_t generation_without_word(void);
vram_status at_fork_without_word(void (*prepare)(void), void (*parent)(void), void (*child)(void));

#define vr_os_fork_word          no_word
#define vr_os_process_generation generation_without_word
#define vr_os_at_fork            at_fork_without_word
#include "base/os/fork.c" /* NOLINT(bugprone-suspicious-include) */
#undef vr_os_fork_word
#undef vr_os_process_generation
#undef vr_os_at_fork

#include "unit/child.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

vr_atomic_u64 *no_word(void) {
    return NULL;
}

/* Both ways of telling, by what this library has for them. */
struct way {
    uint64_t (*generation)(void);
};
static struct way wiped = {vr_os_process_generation}, by_pid = {generation_without_word};

/* 0 when the child's generation differs from `argument`'s, is stable, and differs again below. */
static int differs(void *argument) {
    uint64_t (*generation)(void) = ((struct way *)argument)->generation;
    static uint64_t above;
    uint64_t before = above;
    above = generation();
    if (above == before || above == 0 || generation() != above) {
        return 1;
    }
    static int depth;
    return ++depth < 3 ? in_child(differs, argument) : 0;
}

static void a_child_has_another_generation(void) {
    struct way *way = rig_state;
    uint64_t generation = way->generation();
    assert_true(generation != 0);
    assert_int_equal(way->generation(), generation);
    assert_int_equal(in_child(differs, way), 0);
    assert_int_equal(way->generation(), generation);
}

/* A fork that no handler sees. */
static void so_has_one_made_behind_our_back(void) {
    struct way *way = rig_state;
    uint64_t generation = way->generation();
    long child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) {
        uint64_t own = way->generation();
        child_leave(own != generation && own == way->generation() ? 0 : 1);
    }
    assert_int_equal(child_end((pid_t)child), 0);
    assert_int_equal(way->generation(), generation);
}

static char order[64];

static void note(const char *what) {
    strncat(order, what, sizeof order - strlen(order) - 1);
}

static void prepare_a(void) {
    note("pA ");
}
static void parent_a(void) {
    note("A ");
}
static void child_a(void) {
    note("cA ");
}
static void prepare_b(void) {
    note("pB ");
}
static void child_b(void) {
    note("cB ");
}

static int order_in_child(void *expected) {
    return strcmp(order, expected) == 0 ? 0 : 1;
}

TEST(handlers_run_in_order) {
    assert_int_equal(at_fork_without_word(prepare_a, parent_a, child_a), VRAM_OK);
    assert_int_equal(at_fork_without_word(prepare_b, NULL, child_b), VRAM_OK);
    assert_int_equal(at_fork_without_word(NULL, NULL, NULL), VRAM_OK);
    order[0] = 0;
    assert_int_equal(in_child(order_in_child, "pB pA cA cB "), 0);
    assert_string_equal(order, "pB pA A ");
}

TEST(the_table_has_an_end) {
    unsigned registered = 0;
    while (at_fork_without_word(NULL, NULL, NULL) == VRAM_OK) {
        assert_true(++registered < 100);
    }
    assert_int_equal(registered, ROWS - 3);
    assert_int_equal(vram_error_get()->status, VRAM_ERR_LIMIT);
    order[0] = 0;
    assert_int_equal(in_child(order_in_child, "pB pA cA cB "), 0);
}

TEST(refused_handlers_are_told) {
    handlers_error = 12;
    assert_int_equal(at_fork_without_word(NULL, NULL, NULL), VRAM_ERR_HOST_MEMORY);
    assert_string_equal(vram_error_get()->operation, "pthread_atfork");
    handlers_error = 0;
}

static int with_a_word(void) {
    rig_state = &wiped;
    return 0;
}

static int without_one(void) {
    rig_state = &by_pid;
    return 0;
}
RUN_AS("a_child_has_another_generation", with_a_word, NULL, a_child_has_another_generation)
RUN_AS("a_child_without_a_word", without_one, NULL, a_child_has_another_generation)
RUN_AS("so_has_one_made_behind_our_back", with_a_word, NULL, so_has_one_made_behind_our_back)
RUN_AS("one_behind_our_back_without_a_word", without_one, NULL, so_has_one_made_behind_our_back)

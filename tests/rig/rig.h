/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rig.h: a program of many files of tests. Tests register themselves:
 *
 *     TEST(a_name) { ... }
 *     TEST(another, "sim:memory=64M,real=on") { ... rig->device ... }
 *
 * `unit space` runs the tests of one file, in the order in which they stand there, `unit
 * space.settles_in_parts` one of them, `unit` all, each file in a process of its own, and `unit
 * --list` names them. A test with a world has a context, devices and queues (unit/device_world.h),
 * which are ended behind it; it fails when the driver still holds something then. After each test
 * the library must hold as much as before: no memory of its own, no handle and no lock is left.
 * Planned failures of its memory end with the test, and so do options and the log's callback where
 * no hook is around the whole file.
 *
 * Asserts, registration and the runner are our own, and not cmocka's: tests register themselves,
 * all of them are one program, an assert that fails in a thread or in a child of the test is told,
 * and nothing is to be installed.
 */
#ifndef TEST_RIG_H
#define TEST_RIG_H

#include "rig/asserts.h"

/* A test of the file, without and with a context on a backend, which ends clean; one between hooks
   of its own, which fail it when they do not return 0. */
#define TEST(...) TEST_PICK(__VA_ARGS__, TEST_THERE, TEST_HERE, )(__VA_ARGS__)
#define TEST_IN(begin, end, name)                                                                  \
    static void name(void);                                                                        \
    RIG_ADD(__COUNTER__, #name, name, RIG_PAIR(begin, end), false)                                 \
    static void name(void)

/* The first of its file: nothing of its kind has happened before. */
#define TEST_FIRST(name)                                                                           \
    static void name(void);                                                                        \
    RIG_ADD(__COUNTER__, #name, name, &rig_each, true)                                             \
    static void name(void)

/* The same for functions that are tests of several files, or several tests. */
#define RUN(function)                RIG_ADD(__COUNTER__, #function, function, &rig_each, false)
#define RUN_IN(begin, end, function) RUN_AS(#function, begin, end, function)
#define RUN_AS(label, begin, end, function)                                                        \
    RIG_ADD(__COUNTER__, label, function, RIG_PAIR(begin, end), false)

/* Hooks around each TEST and RUN of the file, and around all its tests. */
#define EACH_TEST(begin, end)  static const struct rig_pair rig_each = {begin, end};
#define WHOLE_FILE(begin, end) static const struct rig_pair rig_whole = {begin, end};

/* In a header: hooks around each test of a file that has no others, nor any around all of it. */
#define EACH_TEST_ELSE(begin, end) static const struct rig_pair rig_common = {begin, end};

/* What a process does that a test started from /proc/self/exe with rig_self() as its first word. */
#define CHILD(function) static rig_child_fn *const rig_child = function;

/* ------------------------------------------------------------------------ what that makes */

typedef int rig_child_fn(int count, char **words);

struct rig_pair {
    int (*begin)(void), (*end)(void);
};

struct rig_test {
    const char *name;
    void (*run)(void);
    const struct rig_pair *hooks;
    struct rig_test *next;
};

#define RIG_PAIR(begin, end) (&(const struct rig_pair){begin, end})
#define RIG_ADD(number, label, function, hooks, first)                                             \
    RIG_ADD_(number, label, function, hooks, first)
#define RIG_ADD_(number, label, function, hooks, first)                                            \
    static struct rig_test rig_test_##number = {label, function, hooks, NULL};                     \
    __attribute__((constructor)) static void rig_add_##number(void) {                              \
        rig_add(__BASE_FILE__, &rig_test_##number, &rig_whole, &rig_common, &rig_child, first);    \
    }
#define TEST_PICK(name, world, test, ...) test
#define TEST_HERE(name)                                                                            \
    static void name(void);                                                                        \
    RUN(name)                                                                                      \
    static void name(void)
#define TEST_THERE(name, world)                                                                    \
    static void name(struct rig *rig);                                                             \
    static void name##_there(void) {                                                               \
        struct rig rig = rig_world(world);                                                         \
        name(&rig);                                                                                \
        rig_end_clean(&rig);                                                                       \
    }                                                                                              \
    RIG_ADD(__COUNTER__, #name, name##_there, &rig_each, false)                                    \
    static void name(struct rig *rig)

/* Empty where the file does not define them. */
__attribute__((unused)) static const struct rig_pair rig_each, rig_whole, rig_common;
__attribute__((unused)) static rig_child_fn *const rig_child;

void rig_add(const char *source, struct rig_test *test, const struct rig_pair *whole,
             const struct rig_pair *common, rig_child_fn *const *child, bool first);

/* ----------------------------------------------------------------------------- for tests */

extern void *rig_state; /* what a begin hook hands to its test */

/* What the library holds when this test ends is as it must be. */
void may_leave(const char *why);
void may_leave_locks(const char *why);

/* What the library asks of the host fails until the test ends: its n-th allocation from now on, or
   its n-th call to the system, with this errno, or all from that one on; 0: none. And how many have
   failed since. */
void memory_fails(uint64_t nth, bool for_ever);
uint64_t memory_failed(void);
void system_fails(uint64_t nth, bool for_ever, int error);
uint64_t system_failed(void);

/* For a file with hooks around the whole of it: all options are as they were when it began. */
void options_reset(void);

/* Until the library holds no memory and no handle: what its threads are about to end has ended. Ten
   seconds at most; 0, as a hook of a test that does so. */
int await_nothing_held(void);

/* The n-th word behind the file's name on the command line; NULL: there is none. */
const char *rig_word(int n);

/* The first word of a process of this program that is the file's CHILD. */
const char *rig_self(void);

/* Set in a process whose memory LeakSanitizer is to leave alone at its exit. */
extern bool rig_no_leak_check;

/* ----------------------------------------------------------------- what CMake knows of files */

/* A function that a file replaces, in the place of the library's or the system's. */
struct rig_wrap {
    void (**place)(void);
    void (*function)(void);
};

struct rig_note {
    const char *file;
    const struct rig_wrap *wraps; /* NULL, or up to one without a place */
    bool one_thread;              /* nothing in it may start a thread */
};

/* Up to one without a file. */
extern const struct rig_note rig_notes[];

#endif

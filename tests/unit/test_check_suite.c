/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_check_suite.c: the conformance suite notices what it is there to notice.
 *
 * Each test is a case that gives a wrong answer itself, on a simulated device; what the suite makes
 * of it is compared word for word. Its own cases meet a library that lies in tests/golden/lies.t.
 */
#include "check/case.h"

#include "base/os/platform.h"
#include "rig/rig.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* --------------------------------------------------------------- expectations */

static bool ok_fails(struct check *check) {
    CHECK_OK(check, vram_queue_wait(NULL, 0));
    return true;
}

static bool ok_without_record(struct check *check) {
    vram_error_clear();
    CHECK_OK(check, VRAM_ERR_TIMEOUT);
    return true;
}

/* An answer, not a failure: it leaves no record. */
static bool ok_not_ready(struct check *check) {
    vram_error_clear();
    CHECK_OK(check, VRAM_ERR_NOT_READY);
    return true;
}

static bool status_is_another(struct check *check) {
    CHECK_STATUS(check, VRAM_OK, VRAM_OK);
    CHECK_STATUS(check, vram_queue_wait(NULL, 0), VRAM_ERR_STALE);
    return true;
}

static bool status_without_record(struct check *check) {
    vram_error_clear();
    CHECK_STATUS(check, VRAM_ERR_TIMEOUT, VRAM_ERR_STALE);
    return true;
}

static bool refused_succeeds(struct check *check) {
    CHECK_REFUSED(check, vram_queue_wait(NULL, 0));
    CHECK_REFUSED(check, VRAM_OK);
    return true;
}

static bool exhausted_succeeds(struct check *check) {
    CHECK_EXHAUSTED(check, VRAM_OK);
    return true;
}

static bool facts(struct check *check) {
    check_note(check, "round %d", 3);
    CHECK_THAT(check, 1 == 1);
    CHECK_THAT(check, 1 == 2);
    return true;
}

static bool numbers(struct check *check) {
    CHECK_EQUAL(check, 1, 1);
    CHECK_EQUAL(check, 1, 2);
    return true;
}

/* A wrong result counts for more than a call that failed; the first of each stays. */
static bool worse(struct check *check) {
    check_ok(check, vram_queue_wait(NULL, 0), CHECK_AT("first"));
    check_ok(check, vram_queue_wait(NULL, 0), CHECK_AT("second"));
    check_fail(check, (struct check_place){"third", "no_folder.c", 7}, "wrong");
    check_fail(check, CHECK_AT("fourth"), "wrong");
    check_ok(check, vram_queue_wait(NULL, 0), CHECK_AT("fifth"));
    return check_skip(check, "too late");
}

static bool early(struct check *check) {
    (void)check;
    return false;
}

static bool fine(struct check *check) {
    struct check_device *device;
    CHECK_OPEN(check, &device);
    return true;
}

/* --------------------------------------------------------------- what it needs */

static bool lacks_one(struct check *check) {
    check->info.caps &= ~(uint32_t)VRAM_CAP_PINNED;
    CHECK_NEEDS(check, VRAM_CAP_KERNELS);
    CHECK_NEEDS(check, VRAM_CAP_PINNED);
    return true;
}

static bool lacks_several(struct check *check) {
    check->info.caps = 0;
    CHECK_NEEDS(check, VRAM_CAP_PINNED | VRAM_CAP_VMM);
    return true;
}

static bool shares_memory(struct check *check) {
    CHECK_NEEDS_OWN_MEMORY(check);
    check->info.caps |= VRAM_CAP_INTEGRATED;
    check->info.caps_known |= VRAM_CAP_INTEGRATED;
    CHECK_NEEDS_OWN_MEMORY(check);
    return true;
}

static bool lacks_pools(struct check *check) {
    CHECK_NEEDS_POOLS(check);
    vram_option_set("pool", "off");
    bool needs = check_needs_pools(check);
    vram_option_set("pool", NULL);
    return needs;
}

/* ------------------------------------------------------------------- contents */

static bool make_buffer(struct check *check, struct check_buffer *buffer) {
    struct check_device *device;
    vram_queue *queue;
    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, 4096, buffer);
    CHECK_FILL(check, buffer, 0, 0, 4, 0); /* nothing */
    CHECK_VERIFY(check, buffer);
    return true;
}

/* A copy that is refused must not have copied. */
static bool refused_copy(struct check *check, bool copied) {
    struct check_buffer buffer;
    CHECK_TRY(make_buffer(check, &buffer));
    buffer.model[7] ^= copied;
    CHECK_UPLOAD(check, &buffer, 4096, 4096, 1);
    return true;
}

static bool copy_refused(struct check *check) {
    return refused_copy(check, false);
}

static bool copy_refused_and_made(struct check *check) {
    return refused_copy(check, true);
}

/* --------------------------------------------------------------------- the list */

#define SIM "devices=1,memory=64M,real=on"

static const struct {
    bool (*run)(struct check *check);
    enum check_outcome outcome;
    const char *reason; /* a part of it */
} rows[] = {
    {fine, CHECK_PASSED, ""},
    {ok_fails, CHECK_ERRORED, "vram_queue_wait(NULL, 0): VRAM_ERR_INVALID from vram_queue_wait: "},
    {ok_without_record, CHECK_FAILED,
     "returned VRAM_ERR_TIMEOUT, but the error record says VRAM_OK"},
    {ok_not_ready, CHECK_ERRORED, "VRAM_ERR_NOT_READY: VRAM_ERR_NOT_READY"},
    {status_is_another, CHECK_ERRORED, "expected VRAM_ERR_STALE, got VRAM_ERR_INVALID from "},
    {status_without_record, CHECK_FAILED, "returned VRAM_ERR_TIMEOUT, but the error record"},
    {refused_succeeds, CHECK_FAILED, "succeeded, expected VRAM_ERR_INVALID or VRAM_ERR_STALE"},
    {exhausted_succeeds, CHECK_FAILED, "succeeded, expected an exhaustion"},
    {facts, CHECK_FAILED, "1 == 2: does not hold (round 3)"},
    {numbers, CHECK_FAILED, "1 == 2: 1 is not 2"},
    {worse, CHECK_FAILED, "no_folder.c:7: third: wrong"},
    {early, CHECK_FAILED, "planted: ended early without saying why"},

    {lacks_one, CHECK_SKIPPED, "the device lacks pinned"},
    {lacks_several, CHECK_SKIPPED, "the device lacks all capabilities it takes"},
    {shares_memory, CHECK_SKIPPED, "the device shares its memory with the host"},
    {lacks_pools, CHECK_SKIPPED, "pooling is off (option pool)"},

    {copy_refused, CHECK_ERRORED, "vram_queue_upload(&buffer, 4096): VRAM_ERR_"},
    {copy_refused_and_made, CHECK_FAILED, "byte 7 of 4096 is 0x"},

};

static void run_on(bool (*run)(struct check *check), const vram_context_options *options,
                   uint32_t device, struct check_result *result) {
    const struct check_case planted = {"planted", "nothing", run};
    const struct check_target target = {.options = options, .device = device, .quick = true};
    check_run(&planted, &target, result);
}

TEST(every_wrong_answer_is_noticed) {
    const vram_context_options options = {.size = sizeof options, .backends = "sim", .sim = SIM};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct check_result result;
        run_on(rows[i].run, &options, 0, &result);
        if (result.outcome != rows[i].outcome || strstr(result.reason, rows[i].reason) == NULL) {
            fail_msg("row %zu, \"%s\": outcome %d, \"%s\"", i, rows[i].reason, result.outcome,
                     result.reason);
        }
    }
}

/* A context that cannot be made, and a device that is not there, end the case before it begins. */
TEST(what_cannot_begin_is_errored) {
    const vram_context_options bad = {.size = sizeof bad, .backends = "sim", .sim = "devices=x"};
    const vram_context_options good = {.size = sizeof good, .backends = "sim", .sim = SIM};
    struct check_result result;
    run_on(fine, &bad, 0, &result);
    assert_int_equal(result.outcome, CHECK_ERRORED);
    run_on(fine, &good, 1, &result);
    assert_int_equal(result.outcome, CHECK_ERRORED);
}

/* Another device of the same backend, with those of others before it and after it. */
static bool has_another(struct check *check) {
    uint32_t index = 9;
    CHECK_THAT(check, check_other_device(check, &index));
    CHECK_EQUAL(check, index, check->target->device ^ 1);
    return true;
}

static bool has_no_other(struct check *check) {
    uint32_t index;
    CHECK_THAT(check, !check_other_device(check, &index));
    return true;
}

TEST(other_devices_are_of_the_same_backend) {
    const vram_context_options two = {
        .size = sizeof two, .backends = "sim", .sim = "devices=2,memory=64M"};
    const vram_context_options one = {
        .size = sizeof one, .backends = "sim,host", .sim = "devices=1,memory=64M"};
    struct check_result result;
    for (uint32_t device = 0; device < 2; device++) {
        run_on(has_another, &two, device, &result);
        assert_string_equal(result.reason, "");
        run_on(has_no_other, &one, device, &result);
        assert_string_equal(result.reason, "");
    }
}

/* ------------------------------------------------- what the user may not lock */

static bool locks(struct check *check, uint64_t bytes) {
    return check_ok(check, vr_os_error_as(VRAM_ERR_LIMIT, ENOMEM, "mlock", bytes), CHECK_AT("it"));
}

static bool locks_much(struct check *check) {
    return locks(check, 65536 + 4096);
}

static bool locks_little(struct check *check) {
    return locks(check, 65536);
}

/* Past the limit it is the user's; below it, and where calls are made to fail, the library's. */
TEST(a_limit_of_locked_memory_is_no_failure) {
    const vram_context_options options = {.size = sizeof options, .backends = "sim", .sim = SIM};
    const struct check_case planted = {"planted", "nothing", locks_much};
    const struct check_target faulty = {.options = &options, .quick = true, .faulty = true};
    struct check_result result;
    struct rlimit before, low;
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
    if (before.rlim_max < 65536) {
        skip();
    }
    low = before;
    low.rlim_cur = 65536;
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &low), 0);
    run_on(locks_much, &options, 0, &result);
    assert_int_equal(result.outcome, CHECK_SKIPPED);
    assert_string_equal(result.reason, "needs 68 KiB of locked memory (ulimit -l)");
    run_on(locks_little, &options, 0, &result);
    assert_int_equal(result.outcome, CHECK_ERRORED);
    check_run(&planted, &faulty, &result);
    assert_int_equal(result.outcome, CHECK_ERRORED);
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

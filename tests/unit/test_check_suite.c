/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_check_suite.c: the conformance suite notices what it is there to notice.
 *
 * Each test is a case that meets a wrong answer, or gives one itself, on a simulated device; what
 * the suite makes of it is compared word for word. Calls that tell what the library holds lie when
 * a case asks for it.
 */
#include "check/case.h"

#include "base/error.h"
#include "base/os/platform.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

/* ----------------------------------------------------------------------- lies */

static const char *lie = ""; /* what is wrong from now on */

static bool lies(const char *about) {
    return strcmp(lie, about) == 0;
}

/* WRAPPED(name, parameters): declares both. */
#define WRAPPED(name, ...)                                                                         \
    vram_status __real_##name(__VA_ARGS__);                                                        \
    vram_status __wrap_##name(__VA_ARGS__)

WRAPPED(vram_native, vram_addr addr, vram_native_info *info);
WRAPPED(vram_block_info_get, vram_addr addr, vram_block_info *info);
WRAPPED(vram_memory_info_get, vram_device *device, vram_memory_info *info);
WRAPPED(vram_sim_state_get, vram_context *context, vram_sim_state *state);
WRAPPED(vram_device_free, vram_device *device, vram_addr addr);
WRAPPED(vram_free, vram_addr addr, vram_queue *queue);
WRAPPED(vram_resize, vram_addr addr, uint64_t size, vram_queue *queue);
WRAPPED(vram_alloc, vram_pool *pool, uint64_t size, vram_queue *queue, vram_addr *addr);
WRAPPED(vram_pool_stats_get, vram_pool *pool, vram_pool_stats *stats);
WRAPPED(vram_queue_download, vram_queue *queue, void *to, vram_addr from, uint64_t bytes);
WRAPPED(vram_queue_wait, vram_queue *queue, uint64_t timeout);

static vram_status refuse(const char *operation) {
    return vr_error_set(VRAM_ERR_BACKEND, "", operation, 0, "planted");
}

vram_status __wrap_vram_native(vram_addr addr, vram_native_info *info) {
    vram_status status = __real_vram_native(addr, info);
    info->base += lies("native base");
    info->kind = lies("native kind") ? VRAM_MEMORY_PINNED : info->kind;
    info->device = lies("native device") ? NULL : info->device;
    info->bytes = lies("native bytes") ? 1 : info->bytes;
    return status;
}

vram_status __wrap_vram_block_info_get(vram_addr addr, vram_block_info *info) {
    if (lies("block unknown")) {
        return refuse("vram_block_info_get");
    }
    vram_status status = __real_vram_block_info_get(addr, info);
    info->requested_bytes += lies("block size");
    info->pool = lies("block pool") ? NULL : info->pool;
    return status;
}

vram_status __wrap_vram_memory_info_get(vram_device *device, vram_memory_info *info) {
    if (lies("memory unknown")) {
        return refuse("vram_memory_info_get");
    }
    vram_status status = __real_vram_memory_info_get(device, info);
    info->held_count += lies("held count");
    info->held_peak_bytes += lies("held peak");
    return status;
}

vram_status __wrap_vram_sim_state_get(vram_context *context, vram_sim_state *state) {
    vram_status status = __real_vram_sim_state_get(context, state);
    state->violations += lies("violation");
    state->live_handles += lies("handle");
    return lies("no state") ? refuse("vram_sim_state_get") : status;
}

vram_status __wrap_vram_device_free(vram_device *device, vram_addr addr) {
    vram_status status = VRAM_OK;
    if (!lies("free fails")) {
        status = __real_vram_device_free(device, addr);
    }
    return lies("free fails") || lies("free fails late") ? refuse("vram_device_free") : status;
}

vram_status __wrap_vram_free(vram_addr addr, vram_queue *queue) {
    return lies("free fails") ? refuse("vram_free") : __real_vram_free(addr, queue);
}

vram_status __wrap_vram_resize(vram_addr addr, uint64_t size, vram_queue *queue) {
    return lies("resize fails") ? refuse("vram_resize") : __real_vram_resize(addr, size, queue);
}

vram_status __wrap_vram_alloc(vram_pool *pool, uint64_t size, vram_queue *queue, vram_addr *addr) {
    if (lies("alloc fails") || lies("reserved grows")) {
        return refuse("vram_alloc");
    }
    return __real_vram_alloc(pool, size, queue, addr);
}

vram_status __wrap_vram_pool_stats_get(vram_pool *pool, vram_pool_stats *stats) {
    static uint64_t more;
    vram_status status = __real_vram_pool_stats_get(pool, stats);
    if (lies("reserved grows")) {
        stats->reserved_bytes += ++more;
    }
    stats->live_blocks += lies("live blocks");
    return status;
}

vram_status __wrap_vram_queue_download(vram_queue *queue, void *to, vram_addr from,
                                       uint64_t bytes) {
    return lies("download fails") ? refuse("vram_queue_download")
                                  : __real_vram_queue_download(queue, to, from, bytes);
}

vram_status __wrap_vram_queue_wait(vram_queue *queue, uint64_t timeout) {
    vram_status status = __real_vram_queue_wait(queue, timeout);
    return lies("wait fails") ? refuse("vram_queue_wait") : status;
}

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

/* Where a device does not tell its granules. */
static bool unknown_granules(struct check *check) {
    struct check_device *device;
    vram_addr addr;
    CHECK_OPEN(check, &device);
    device->info.alloc_granule.known = device->info.vmm_granule.known = false;
    CHECK_EQUAL(check, check_granule(device), 4096);
    CHECK_EQUAL(check, check_pool_granule(device, false), 4096);
    CHECK_ALLOC(check, device, 100, &addr);
    CHECK_FREE(check, device, addr);
    return true;
}

static bool too_many_contexts(struct check *check) {
    vram_context *context;
    for (int i = 0; i < CHECK_CONTEXTS_MAX; i++) {
        CHECK_CONTEXT(check, "sim", "", &context);
    }
    return true;
}

static bool too_many_devices(struct check *check) {
    struct check_device *device;
    for (int i = 0; i <= CHECK_DEVICES_MAX; i++) {
        CHECK_OPEN(check, &device);
    }
    return true;
}

/* ----------------------------------------------------------------- the ledger */

static bool counts(struct check *check) {
    struct check_device *device;
    CHECK_OPEN(check, &device);
    lie = "held count";
    CHECK_LEDGER(check, device);
    return true;
}

static bool peaks(struct check *check) {
    struct check_device *device;
    CHECK_OPEN(check, &device);
    lie = "held peak";
    CHECK_LEDGER(check, device);
    return true;
}

static bool take_lied_about(struct check *check, const char *about) {
    struct check_device *device;
    vram_addr addr;
    CHECK_OPEN(check, &device);
    lie = about;
    CHECK_ALLOC_KIND(check, device, 4096, VRAM_MEMORY_MANAGED, &addr);
    return true;
}

static bool native_base(struct check *check) {
    return take_lied_about(check, "native base");
}

static bool native_bytes(struct check *check) {
    return take_lied_about(check, "native bytes");
}

static bool native_kind(struct check *check) {
    return take_lied_about(check, "native kind");
}

static bool native_device(struct check *check) {
    return take_lied_about(check, "native device");
}

static bool free_lied_about(struct check *check, const char *about) {
    struct check_device *device;
    vram_addr addr;
    CHECK_OPEN(check, &device);
    CHECK_ALLOC(check, device, 4096, &addr);
    lie = about;
    CHECK_FREE(check, device, addr);
    return true;
}

static bool free_fails(struct check *check) {
    return free_lied_about(check, "free fails");
}

static bool free_fails_late(struct check *check) {
    return free_lied_about(check, "free fails late");
}

/* The device does not even say what it holds: nothing can be compared. */
static bool nothing_told(struct check *check) {
    struct check_device *device;
    CHECK_OPEN(check, &device);
    lie = "memory unknown";
    return check_ok(check, vram_queue_wait(NULL, 0), CHECK_AT("a call"));
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

static bool contents_differ(struct check *check) {
    struct check_buffer buffer;
    CHECK_TRY(make_buffer(check, &buffer));
    buffer.model[7] ^= 0xFF;
    CHECK_VERIFY(check, &buffer);
    return true;
}

/* A copy that is refused must not have copied. */
static bool refused_copy(struct check *check, bool copied, const char *about) {
    struct check_buffer buffer;
    CHECK_TRY(make_buffer(check, &buffer));
    buffer.model[7] ^= copied;
    lie = about;
    CHECK_UPLOAD(check, &buffer, 4096, 4096, 1);
    return true;
}

static bool copy_refused(struct check *check) {
    return refused_copy(check, false, "");
}

static bool copy_refused_and_made(struct check *check) {
    return refused_copy(check, true, "");
}

static bool copy_refused_unread(struct check *check) {
    return refused_copy(check, true, "download fails");
}

static bool copy_refused_unwaited(struct check *check) {
    return refused_copy(check, true, "wait fails");
}

/* ---------------------------------------------------------------------- pools */

/* A pool with one block. */
static bool make_stock(struct check *check, struct check_stock *stock, vram_addr *addr) {
    struct check_device *device;
    vram_queue *queue;
    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_STOCK(check, device, NULL, stock);
    CHECK_TAKE(check, stock, 5000, queue, addr);
    CHECK_STOCK_VERIFY(check, stock);
    return true;
}

static bool mark_differs(struct check *check) {
    struct check_stock stock;
    vram_addr addr;
    CHECK_TRY(make_stock(check, &stock, &addr));
    CHECK_OK(check, vram_queue_fill(stock.blocks[0].queue, addr, 0, 4, 4));
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}

static bool verify_lied_about(struct check *check, const char *about) {
    struct check_stock stock;
    vram_addr addr;
    CHECK_TRY(make_stock(check, &stock, &addr));
    lie = about;
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}

static bool block_unknown(struct check *check) {
    return verify_lied_about(check, "block unknown");
}

static bool block_size(struct check *check) {
    return verify_lied_about(check, "block size");
}

static bool block_pool(struct check *check) {
    return verify_lied_about(check, "block pool");
}

static bool live_blocks(struct check *check) {
    return verify_lied_about(check, "live blocks");
}

static bool unread_blocks(struct check *check) {
    return verify_lied_about(check, "download fails");
}

static bool unwaited_blocks(struct check *check) {
    return verify_lied_about(check, "wait fails");
}

static bool take_fails(struct check *check, const char *about) {
    struct check_stock stock;
    vram_addr addr;
    CHECK_TRY(make_stock(check, &stock, &addr));
    lie = about;
    CHECK_TAKE(check, &stock, 5000, stock.blocks[0].queue, &addr);
    return true;
}

static bool alloc_fails(struct check *check) {
    return take_fails(check, "alloc fails");
}

static bool alloc_fails_and_keeps(struct check *check) {
    return take_fails(check, "reserved grows");
}

/* What failed is compared with what is there, as far as that can be read. */
static bool fails_unread(struct check *check, const char *about) {
    struct check_stock stock;
    vram_addr addr;
    CHECK_TRY(make_stock(check, &stock, &addr));
    lie = about;
    CHECK_STOCK_OK(check, &stock, vram_queue_copy(NULL, 0, 0, 1));
    return true;
}

static bool stock_fails_unread(struct check *check) {
    return fails_unread(check, "download fails");
}

static bool stock_fails_unwaited(struct check *check) {
    return fails_unread(check, "wait fails");
}

static bool stock_fails_and_differs(struct check *check) {
    return fails_unread(check, "live blocks");
}

static bool give_fails(struct check *check) {
    struct check_stock stock;
    vram_addr addr;
    CHECK_TRY(make_stock(check, &stock, &addr));
    lie = "free fails";
    CHECK_GIVE(check, &stock, addr, NULL);
    return true;
}

static bool give_unknown(struct check *check) {
    struct check_stock stock;
    vram_addr addr;
    CHECK_TRY(make_stock(check, &stock, &addr));
    CHECK_GIVE(check, &stock, addr + 1, NULL);
    return true;
}

static bool shrink_fails(struct check *check) {
    struct check_stock stock;
    vram_addr addr;
    bool done;
    CHECK_TRY(make_stock(check, &stock, &addr));
    lie = "resize fails";
    CHECK_RESIZE(check, &stock, addr, 100, &done);
    return true;
}

/* ----------------------------------------------------------------- the driver */

static bool violates(struct check *check) {
    (void)check;
    lie = "violation";
    return true;
}

static bool leaves(struct check *check) {
    (void)check;
    lie = "handle";
    return true;
}

/* It does not say what it holds: nothing is judged by that. */
static bool tells_nothing(struct check *check) {
    CHECK_OK(check, VRAM_OK);
    lie = "no state";
    return true;
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
    {unknown_granules, CHECK_PASSED, ""},
    {too_many_contexts, CHECK_FAILED, "vram_context_create: does not hold"},
    {too_many_devices, CHECK_FAILED, "vram_device_open: does not hold"},

    {counts, CHECK_FAILED, "held_count is 1, but the calls made so far add up to 0"},
    {peaks, CHECK_FAILED, "held_peak_bytes is 1, but the calls made so far add up to 0"},
    {native_base, CHECK_FAILED, "vram_native does not describe it"},
    {native_bytes, CHECK_FAILED, "vram_native does not describe it"},
    {native_kind, CHECK_FAILED, "vram_native does not describe it"},
    {native_device, CHECK_FAILED, "vram_native does not describe it"},
    {free_fails, CHECK_ERRORED, "VRAM_ERR_BACKEND from vram_device_free: planted"},
    {free_fails_late, CHECK_FAILED, "the free failed, yet the memory is no longer known"},
    {nothing_told, CHECK_ERRORED, "a call: VRAM_ERR_INVALID from vram_queue_wait: "},

    {contents_differ, CHECK_FAILED, "byte 7 of 4096 is 0x"},
    {copy_refused, CHECK_ERRORED, "vram_queue_upload(&buffer, 4096): VRAM_ERR_"},
    {copy_refused_and_made, CHECK_FAILED, "byte 7 of 4096 is 0x"},
    {copy_refused_unread, CHECK_ERRORED, "vram_queue_upload(&buffer, 4096): VRAM_ERR_"},
    {copy_refused_unwaited, CHECK_ERRORED, "vram_queue_upload(&buffer, 4096): VRAM_ERR_"},

    {mark_differs, CHECK_FAILED, "a block of 5000 bytes holds 0x0 and 0xb10c0001, not 0xb10c0001"},
    {block_unknown, CHECK_FAILED, "a live block of 5000 bytes is not known"},
    {block_size, CHECK_FAILED, "pool: 5001 is not 5000"},
    {block_pool, CHECK_FAILED, "pool: does not hold"},
    {live_blocks, CHECK_FAILED, "pool: 2 is not 1"},
    {unread_blocks, CHECK_ERRORED, "pool: VRAM_ERR_BACKEND from vram_queue_download: planted"},
    {unwaited_blocks, CHECK_ERRORED, "pool: VRAM_ERR_BACKEND from vram_queue_wait: planted"},
    {alloc_fails, CHECK_ERRORED, "vram_alloc(5000): VRAM_ERR_BACKEND from vram_alloc: planted"},
    {alloc_fails_and_keeps, CHECK_FAILED, "bytes after a failure, "},
    {stock_fails_unread, CHECK_ERRORED, "vram_queue_copy(NULL, 0, 0, 1): VRAM_ERR_INVALID from "},
    {stock_fails_unwaited, CHECK_ERRORED, "vram_queue_copy(NULL, 0, 0, 1): VRAM_ERR_INVALID from "},
    {stock_fails_and_differs, CHECK_FAILED, "2 is not 1"},
    {give_fails, CHECK_FAILED, "a free of a live block failed: VRAM_ERR_BACKEND"},
    {give_unknown, CHECK_FAILED, "vram_free(addr + 1): does not hold"},
    {shrink_fails, CHECK_FAILED, "vram_resize(100): does not hold"},

    {violates, CHECK_FAILED, "simulated driver: protocol violated: "},
    {leaves, CHECK_FAILED, "native handles: 1 is not 0"},
    {tells_nothing, CHECK_PASSED, ""},
};

static void run_on(bool (*run)(struct check *check), const vram_context_options *options,
                   uint32_t device, struct check_result *result) {
    const struct check_case planted = {"planted", "nothing", run};
    const struct check_target target = {.options = options, .device = device, .quick = true};
    lie = "";
    check_run(&planted, &target, result);
    lie = "";
}

static void every_wrong_answer_is_noticed(void **state) {
    const vram_context_options options = {.size = sizeof options, .backends = "sim", .sim = SIM};
    (void)state;
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
static void what_cannot_begin_is_errored(void **state) {
    const vram_context_options bad = {.size = sizeof bad, .backends = "sim", .sim = "devices=x"};
    const vram_context_options good = {.size = sizeof good, .backends = "sim", .sim = SIM};
    struct check_result result;
    (void)state;
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

static void other_devices_are_of_the_same_backend(void **state) {
    const vram_context_options two = {
        .size = sizeof two, .backends = "sim", .sim = "devices=2,memory=64M"};
    const vram_context_options one = {
        .size = sizeof one, .backends = "sim,host", .sim = "devices=1,memory=64M"};
    struct check_result result;
    (void)state;
    for (uint32_t device = 0; device < 2; device++) {
        run_on(has_another, &two, device, &result);
        assert_string_equal(result.reason, "");
        run_on(has_no_other, &one, device, &result);
        assert_string_equal(result.reason, "");
    }
}

/* Without options a case's contexts are those of the environment. */
static void the_environment_decides_without_options(void **state) {
    struct check_result result;
    (void)state;
    setenv("VRAM_BACKENDS", "sim", 1);
    run_on(fine, NULL, 0, &result);
    assert_string_equal(result.reason, "");
    unsetenv("VRAM_BACKENDS");
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
static void a_limit_of_locked_memory_is_no_failure(void **state) {
    const vram_context_options options = {.size = sizeof options, .backends = "sim", .sim = SIM};
    const struct check_case planted = {"planted", "nothing", locks_much};
    const struct check_target faulty = {.options = &options, .quick = true, .faulty = true};
    struct check_result result;
    struct rlimit before, low;
    (void)state;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_of_locked_memory_is_no_failure),
        cmocka_unit_test(every_wrong_answer_is_noticed),
        cmocka_unit_test(what_cannot_begin_is_errored),
        cmocka_unit_test(other_devices_are_of_the_same_backend),
        cmocka_unit_test(the_environment_decides_without_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

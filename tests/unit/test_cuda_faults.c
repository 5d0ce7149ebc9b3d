/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_faults.c: every call of the driver fails, once and for ever, with one code after the
 * other, and so does every allocation of bookkeeping. One scenario uses all of the backend; it is
 * run once per failing call. Whatever fails, the status is the right one, the record names the call
 * and its code, the caller's context is found again, and nothing is left behind.
 */
#include "unit/cuda_scenario.h"

#include <limits.h>

/* --------------------------------------------------------------------- sweep */

/* What a code of a call must become, by this table and not by the backend's. */
static vram_status expected(const char *name, const char *call, vr_cu_result code) {
    if (strcmp(name, "start") == 0 || strcmp(name, "describe") == 0) {
        return VRAM_ERR_NO_DRIVER;
    }
    switch (code) {
    case 1:
        return VRAM_ERR_INVALID;
    case 2:
        return strcmp(call, "cuMemHostAlloc") == 0 || strcmp(call, "cuMemHostRegister") == 0 ||
                       strcmp(call, "cuMemHostUnregister") == 0
                   ? VRAM_ERR_HOST_MEMORY
               : strcmp(call, "cuMemAddressReserve") == 0 ? VRAM_ERR_LIMIT
                                                          : VRAM_ERR_DEVICE_MEMORY;
    case 4:
        return VRAM_ERR_SHUTDOWN;
    case 700:
        return VRAM_ERR_DEVICE_LOST;
    case 801:
        return VRAM_ERR_UNSUPPORTED;
    case 900:
        return VRAM_ERR_CAPTURE;
    default:
        return VRAM_ERR_BACKEND;
    }
}

/* Calls whose failure is an unknown value, a slower way, or a line in the log. */
static bool may_be_ignored(const char *call, vr_cu_result code) {
    static const char *const calls[] = {
        "cuDeviceGetAttribute",
        "cuDeviceGetPCIBusId",
        "cuDeviceGetUuid",
        "cuDeviceTotalMem",
        "cuDeviceCanAccessPeer",
        "cuMemHostGetFlags", /* not page-locked is an answer */
        "cuMemcpy2DAsync",   /* the rows go one by one */
        "cuMemPrefetchAsync",
        "cuMemAdvise",
        "cuMemGetAllocationGranularity",
        "cuThreadExchangeStreamCaptureMode",
        "cuCtxPopCurrent",
        "cuStreamWriteValue64",
        "cuStreamWaitValue64",
        "cuEventDestroy",
        "cuStreamQuery",       /* the word had passed meanwhile */
        "cuStreamIsCapturing", /* likewise, of the poll */
        "cuCtxGetId",          /* likewise */
        "cuCtxPushCurrent",    /* likewise */
        "cuGetErrorName",
        "cuGetErrorString",
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (strcmp(calls[i], call) == 0) {
            return true;
        }
    }
    bool create = strcmp(call, "cuMemCreate") == 0; /* then without what network cards need */
    return (code == VR_CU_NOT_SUPPORTED && (create || strcmp(call, "cuMemHostRegister") == 0)) ||
           (code == VR_CU_INVALID_VALUE && create);
}

static void check_answer(const struct holdings *held, const char *struck_call, vr_cu_result code) {
    if (!held->step) {
        if (!may_be_ignored(struck_call, code)) {
            fail_msg("%s answered %d and nobody said so", struck_call, code);
        }
        return;
    }
    const char *call = held->error.operation;
    if (held->status != expected(held->step, call, code) || held->error.status != held->status ||
        held->error.native_code != code || strncmp(call, "cu", 2) != 0 || !held->error.text[0]) {
        fail_msg("%s: %s answered %d, which became %s: %s", held->step, call, code,
                 vram_status_name(held->status), held->error.text);
    }
}

/* One run with the n-th call failing; whether a call failed at all. */
static bool run_once(uint64_t nth, vr_cu_result code, bool for_ever) {
    struct holdings held = {.step = NULL};
    uint64_t blocks = vr_mem_live_blocks();
    struct vr_cu_context *mine;
    held.stream = fake->stream_make(0, false, false);
    fake->push_other(0);
    mine = fake->current();
    fake->refuse("any", nth, code, for_ever);
    (void)(run_open(&held) && run_rest(&held));
    bool struck = fake->struck() > 0;
    const char *call = fake->last_call();
    if (struck && held.step) {
        check_answer(&held, call, code);
    }
    fake->refuse(NULL, 0, 0, false);
    /* The thread is found as it was, unless it is the putting back itself that failed. */
    if (!for_ever && strcmp(call, "cuCtxPopCurrent") != 0) {
        assert_ptr_equal(fake->current(), mine);
        assert_int_equal(fake->depth(), 1);
    }
    if (!for_ever && strcmp(call, "cuThreadExchangeStreamCaptureMode") != 0) {
        assert_int_equal(fake->thread_mode(), VR_CU_MODE_GLOBAL);
    }
    while (fake->depth() > 1) {
        fake->pop();
    }
    settle_all(&held);
    end_one(&held, &held.own);
    end_one(&held, &held.adopted);
    release_all(&held);
    close_all(&held);
    fake->pop();
    fake->stream_end(held.stream);
    assert_int_equal(vr_mem_live_blocks(), blocks);
    bool lost = held.status == VRAM_ERR_DEVICE_LOST;
    struct fake_cuda_live live;
    fake->live(&live);
    bool refused_end = strcmp(call, "cuEventDestroy") == 0;
    if (!lost && !for_ever && !held.forgiven && !refused_end && live.total) {
        fail_msg("call %llu (%s) answered %d: %llu objects are left", (unsigned long long)nth, call,
                 code, (unsigned long long)live.total);
    }
    if (struck && !held.step) {
        check_answer(&held, call, code);
    }
    return struck;
}

static int open_fake(void **state) {
    (void)state;
    fake = fake_open(FAKE_CUDA_PATH);
    return vram_option_set("cuda_library", FAKE_CUDA_PATH) == VRAM_OK ? 0 : 1;
}

static unsigned sweep(vr_cu_result code, bool for_ever) {
    unsigned faults = 0;
    for (uint64_t nth = 1;; nth++) {
        const char *text = "";
        fake->reset();
        if (!run_once(nth, code, for_ever)) {
            return faults;
        }
        if (fake->violations(&text)) {
            fail_msg("call %llu, code %d: %s", (unsigned long long)nth, code, text);
        }
        faults++;
    }
}

static void every_call_fails_once(void **state) {
    (void)state;
    static const vr_cu_result codes[] = {1, 2, 4, 700, 801, 900, 999, -1, INT_MIN};
    unsigned faults = 0;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        faults += sweep(codes[i], false);
    }
    print_message("%u calls failed once\n", faults);
    assert_true(faults > 900);
}

static void every_call_fails_for_ever(void **state) {
    (void)state;
    static const vr_cu_result codes[] = {2, 4, 700, 999};
    unsigned faults = 0;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        faults += sweep(codes[i], true);
    }
    print_message("%u calls failed for ever\n", faults);
    assert_true(faults > 400);
}

/* The same with bookkeeping that cannot be had. */
static void every_allocation_fails(void **state) {
    (void)state;
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        for (uint64_t nth = 1;; nth++) {
            struct holdings held = {.step = NULL};
            uint64_t blocks = vr_mem_live_blocks();
            fake->reset();
            held.stream = fake->stream_make(0, false, false);
            vr_mem_fail_at(nth, for_ever);
            (void)(run_open(&held) && run_rest(&held));
            bool failed = vr_mem_failed() > 0;
            vr_mem_fail_at(0, false);
            assert_int_equal(held.status, failed ? VRAM_ERR_HOST_MEMORY : VRAM_OK);
            settle_all(&held);
            end_one(&held, &held.own);
            end_one(&held, &held.adopted);
            release_all(&held);
            close_all(&held);
            fake->stream_end(held.stream);
            assert_int_equal(vr_mem_live_blocks(), blocks);
            assert_int_equal(live_total(), 0);
            assert_clean();
            if (!failed) {
                assert_true(nth > 4);
                break;
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_fails_once),
        cmocka_unit_test(every_call_fails_for_ever),
        cmocka_unit_test(every_allocation_fails),
    };
    return cmocka_run_group_tests_name("cuda_faults", tests, open_fake, NULL);
}

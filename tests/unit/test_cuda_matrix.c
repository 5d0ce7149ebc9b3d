/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cuda_matrix.c: every entry point of the driver fails with every code that is documented for
 * it, and with three that are not. Each combination is one run of the scenario. Whatever fails, the
 * status is what the one table says, the record names the call and its code, outputs are untouched,
 * the thread is found as it was, and nothing is left behind. The sum is printed: it must be all.
 */
#include "unit/cuda_scenario.h"

#include WORLD_TABLE

#include <limits.h>

enum { ENTRIES = sizeof WORLD_ENTRIES / sizeof WORLD_ENTRIES[0] };

/* Codes that no driver documents. */
static const int bogus[] = {-1, 12345, INT_MIN};

enum { BOGUS = sizeof bogus / sizeof bogus[0] };

/* How the fake is set so that the scenario comes by an entry. */
static const struct manner {
    const char *name;
    bool no_memory_ops; /* words are written by host functions, waits are events */
    bool no_functions;  /* nor by these: by events alone */
    bool full;          /* the device has no memory: some call fails, and its words are asked for */
} manners[] = {
    {"plain", false, false, false},
    {"without memory operations", true, false, false},
    {"with events alone", true, true, false},
    {"full", false, false, true},
};

/* When the entry is to fail: from the start, or once the device is open. */
enum moment { AT_START, WHEN_OPEN, MOMENTS };

enum { MANNERS = sizeof manners / sizeof manners[0] };

static void set_up(const struct manner *manner) {
    fake->reset();
    fake->devices(2);
    if (manner->no_memory_ops) {
        fake->attribute(VR_CU_ATTRIBUTE_MEMORY_OPS, 0);
        fake->attribute(VR_CU_ATTRIBUTE_MEMORY_OPS_V1, 0);
    }
    fake->host_functions(!manner->no_functions);
    if (manner->full) {
        fake->capacity(0);
    }
}

/* ---------------------------------------------------------------- judgement */

static bool same(const char *a, const char *b) {
    return strcmp(a, b) == 0;
}

/* A context that is held and that the driver does not know was reset. */
static bool tells_reset(const struct driver_entry *entry, int code) {
    return code == VR_CU_INVALID_CONTEXT &&
           (same(entry->twin, "cuCtxPushCurrent") || same(entry->twin, "cuCtxGetId"));
}

/* What the one table makes of a code in a step of the scenario. */
static vram_status expected(const char *step, const struct driver_entry *entry, int code) {
    vram_status status = vr_cuda_status(&WORLD_DIALECT, code);
    if (same(step, "start") || same(step, "describe")) {
        return status == VRAM_ERR_NO_DEVICE ? status : VRAM_ERR_NO_DRIVER;
    }
    if (tells_reset(entry, code)) {
        return VRAM_ERR_DEVICE_LOST;
    }
    if (status == VRAM_ERR_DEVICE_MEMORY) {
        status = same(entry->twin, "cuMemHostAlloc")        ? VRAM_ERR_HOST_MEMORY
                 : same(entry->twin, "cuMemHostRegister")   ? VRAM_ERR_HOST_MEMORY
                 : same(entry->twin, "cuMemHostUnregister") ? VRAM_ERR_HOST_MEMORY
                 : same(entry->twin, "cuMemAddressReserve") ? VRAM_ERR_LIMIT
                                                            : status;
    }
    return status;
}

/* Failures that are an unknown value, a slower way, or a line in the log. */
static bool may_pass(const struct driver_entry *entry, int code) {
    static const struct {
        const char *name;
        int code; /* the only one that may; 0: all */
    } rows[] = {
        {"cuDeviceGetPCIBusId", 0},
        {"cuDeviceGetUuid", 0},
        {"cuDeviceTotalMem", 0},
        {"cuDeviceCanAccessPeer", 0},
        {"cuCtxEnablePeerAccess", VR_CU_PEER_ACCESS_ALREADY_ENABLED},
        {"hipDeviceEnablePeerAccess", VR_CU_PEER_ACCESS_ALREADY_ENABLED},
        {"cuMemHostGetFlags", VR_CU_INVALID_VALUE}, /* it is not page-locked: an answer */
        {"cuMemHostRegister", VR_CU_NOT_PERMITTED}, /* the driver allocates */
        {"cuMemHostRegister", VR_CU_NOT_SUPPORTED},
        {"cuMemPrefetchAsync", VR_CU_NOT_SUPPORTED},
        {"hipMemPrefetchAsync", VR_CU_NOT_SUPPORTED},
        {"cuMemCreate", VR_CU_INVALID_VALUE}, /* then without what network cards need */
        {"cuMemCreate", VR_CU_NOT_SUPPORTED},
        {"cuMemcpy2DAsync", VR_CU_INVALID_VALUE}, /* the rows go one by one */
        {"hipMemcpy2DAsync", VR_CU_INVALID_VALUE},
        {"hipMemcpy2DAsync", 12}, /* hipErrorInvalidPitchValue */
        {"cuMemAdvise", VR_CU_NOT_SUPPORTED},
        {"hipMemAdvise", VR_CU_NOT_SUPPORTED},
        {"cuMemGetAllocationGranularity", 0},
        {"cuThreadExchangeStreamCaptureMode", 0},
        {"cuCtxPopCurrent", 0},
        {"cuEventDestroy", 0},
        {"cuStreamQuery", 0},                            /* the word had passed meanwhile */
        {"cuStreamIsCapturing", VR_CU_CAPTURE_IMPLICIT}, /* an adopted stream's id is asked later */
        {"cuStreamWriteValue64", VR_CU_NOT_SUPPORTED},
        {"cuLaunchHostFunc", VR_CU_NOT_SUPPORTED},
        {"cuEventQuery", 0}, /* the work was done when the queue ended */
        {"hipStreamWaitValue64", VR_CU_NOT_SUPPORTED},
        {"hipPeekAtLastError", 0},
        {"hipGetLastError", 0},
        {"cuStreamWaitValue64", VR_CU_NOT_SUPPORTED},
    };
    if (WORLD_TRIES && same(entry->twin, "cuDeviceGetAttribute")) {
        return true; /* HIP is asked nothing that has to be known */
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (same(rows[i].name, entry->twin) && (!rows[i].code || rows[i].code == code)) {
            return true;
        }
    }
    return false;
}

/* What the program sees of a failure in a trial is a device that can do less, or one that is not
   opened. */
static bool tried(const struct holdings *held, enum moment moment) {
    return WORLD_TRIES && moment == AT_START &&
           (!held->step || same(held->step, "open") || held->tried);
}

static void judge(const struct holdings *held, const struct driver_entry *entry, int code,
                  const struct manner *manner, enum moment moment) {
    if (!held->step) {
        if (!held->forgiven && !may_pass(entry, code) && !tried(held, moment)) {
            fail_msg("%s answered %d and nobody said so", entry->name, code);
        }
        return;
    }
    if (manner->full) { /* another call has failed; only the words about it are missing */
        assert_int_equal(held->status, VRAM_ERR_DEVICE_MEMORY);
        return;
    }
    bool implicit = code == VR_CU_CAPTURE_IMPLICIT; /* the answer to a question */
    bool untold = tried(held, moment) && same(held->error.operation, "device_open");
    int64_t native = tells_reset(entry, code) ? VR_CU_CONTEXT_DESTROYED : code;
    if ((!untold && held->status != expected(held->step, entry, code)) ||
        held->error.status != held->status ||
        (!implicit && !untold &&
         (held->error.native_code != native || !same(held->error.operation, entry->name))) ||
        !same(held->error.backend, WORLD_NAME) || !held->error.text[0]) {
        fail_msg("%s: %s answered %d, which became %s: %s", held->step, entry->name, code,
                 vram_status_name(held->status), held->error.text);
    }
}

/* ------------------------------------------------------------- combinations */

/* Ends everything while the plan still stands, then, what was refused, without it. Returns how
   often the plan struck. */
static uint64_t end_all(struct holdings *held) {
    settle_all(held);
    end_one(held, &held->own);
    end_one(held, &held->adopted);
    if (held->device.impl) {
        release_all(held);
    }
    uint64_t struck = fake->struck();
    if (held->addr || held->pinned || held->managed || held->base || held->handle ||
        held->registered || held->shared[0] || held->shared[1]) {
        fake->refuse(NULL, 0, 0, false);
        release_all(held);
        assert_true(!held->addr && !held->pinned && !held->managed && !held->base &&
                    !held->handle && !held->registered && !held->shared[0] && !held->shared[1]);
        close_all(held);
        return struck;
    }
    close_all(held);
    return fake->struck();
}

/* Runs the scenario with the entry failing once; whether it did while the scenario ran. */
static bool run_with(struct holdings *held, const struct driver_entry *entry, int code,
                     enum moment moment) {
    if (moment == AT_START) {
        fake->refuse(entry->name, 1, code, false);
    }
    bool open = run_open(held);
    held->tried = fake->struck() > 0;
    if (open && moment == WHEN_OPEN) {
        fake->refuse(entry->name, 1, code, false);
    }
    if (open) {
        run_rest(held);
    }
    bool struck = fake->struck() > 0;
    if (struck) {
        fake->refuse(NULL, 0, 0, false);
    }
    return struck;
}

/* One combination; whether the scenario came by the entry at all. */
static bool combine(const struct driver_entry *entry, int code, const struct manner *manner,
                    enum moment moment) {
    struct holdings held = {.step = NULL};
    const char *text = "";
    struct fake_cuda_live live;
    uint64_t blocks = vr_mem_live_blocks();
    set_up(manner);
    held.stream = fake->stream_make(WORLD_INDEX, false, false);
    bool struck = run_with(&held, entry, code, moment);
    bool put_back = same(entry->twin, "cuCtxPopCurrent") ||
                    same(entry->twin, "cuThreadExchangeStreamCaptureMode");
    while (put_back && fake->depth()) {
        fake->pop();
    }
    struck = end_all(&held) > 0 || struck;
    if (struck) {
        judge(&held, entry, code, manner, moment);
    }
    while (put_back && fake->depth()) {
        fake->pop();
    }
    fake->stream_end(held.stream);
    assert_int_equal(fake->depth(), 0);
    assert_int_equal(vr_mem_live_blocks(), blocks);
    fake->live(&live);
    bool lost = held.status == VRAM_ERR_DEVICE_LOST || held.status == VRAM_ERR_SHUTDOWN;
    bool refused_end = held.forgiven || same(entry->twin, "cuEventDestroy") || tried(&held, moment);
    if (live.total && !lost && !refused_end) {
        fail_msg("%s answered %d: %llu objects are left", entry->name, code,
                 (unsigned long long)live.total);
    }
    if (fake->violations(&text)) {
        fail_msg("%s answered %d: %s", entry->name, code, text);
    }
    return struck;
}

/* Whether the scenario comes by the entry in one of the manners, with this code. */
static bool covered(const struct driver_entry *entry, int code) {
    for (int i = 0; i < MANNERS; i++) {
        bool struck = false;
        for (int moment = 0; moment < MOMENTS; moment++) {
            struck = combine(entry, code, &manners[i], (enum moment)moment) || struck;
        }
        if (struck) {
            return true;
        }
    }
    return false;
}

static void every_entry_fails_with_every_code(void **state) {
    (void)state;
    unsigned done = 0, all = 0;
    for (int i = 0; i < ENTRIES; i++) {
        const struct driver_entry *entry = &WORLD_ENTRIES[i];
        for (unsigned j = 0; j < entry->code_count + BOGUS; j++) {
            int code = j < entry->code_count ? entry->codes[j] : bogus[j - entry->code_count];
            all++;
            if (covered(entry, code)) {
                done++;
            } else {
                print_message("%s is never called\n", entry->name);
            }
        }
    }
    print_message("%s: %u of %u combinations of entry point and result code, %u %%\n", WORLD_NAME,
                  done, all, done * 100 / all);
    assert_int_equal(done, all);
}

static int open_fake(void **state) {
    (void)state;
    fake = fake_open(WORLD_PATH);
    return vram_option_set(WORLD_OPTION, WORLD_PATH) == VRAM_OK ? 0 : 1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_entry_fails_with_every_code),
    };
    return cmocka_run_group_tests_name(WORLD_NAME "_matrix", tests, open_fake, NULL);
}

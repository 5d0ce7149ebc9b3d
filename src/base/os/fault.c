/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.c: the plan by which tests make system calls fail, and how an errno becomes a status.
 *
 * The plan is three atomics and no lock. `plan_nth` is cleared first and set last when the plan is
 * changed, so a call sees the old plan, none, or the new one whole.
 */
#include "base/atomic.h"
#include "base/error.h"
#include "base/os/platform.h"

#include <errno.h>
#include <string.h>

static vr_atomic_u64 plan_nth;       /* which call fails, 1 is the next; 0: none */
static vr_atomic_bool plan_for_ever; /* and all calls after it */
static vr_atomic_u32 plan_error;     /* the errno */
static vr_atomic_u64 calls;          /* counted since the plan was set */
static vr_atomic_u64 failed;         /* failed by the plan */

void vr_os_fail_at(uint64_t nth, bool for_ever, int error) {
    vr_store(&plan_nth, 0, VR_RELEASE);
    vr_store(&plan_for_ever, for_ever, VR_RELAXED);
    vr_store(&plan_error, (uint32_t)error, VR_RELAXED);
    vr_store(&calls, 0, VR_RELAXED);
    vr_store(&failed, 0, VR_RELAXED);
    vr_store(&plan_nth, nth, VR_RELEASE);
}

uint64_t vr_os_calls(void) {
    return vr_load(&calls, VR_RELAXED);
}

uint64_t vr_os_failed(void) {
    return vr_load(&failed, VR_RELAXED);
}

int vr_os_fault(void) {
    uint64_t nth = vr_load(&plan_nth, VR_ACQUIRE);
    uint64_t call = vr_fetch_add(&calls, 1, VR_RELAXED) + 1;
    if (nth == 0 || call < nth || (call > nth && !vr_load(&plan_for_ever, VR_RELAXED))) {
        return 0;
    }
    vr_fetch_add(&failed, 1, VR_RELAXED);
    int error = (int)vr_load(&plan_error, VR_RELAXED);
    return error ? error : EIO;
}

/* Distinguishes exhaustion from other failures, and memory from limits: callers can react to
   these. */
static vram_status status_of(int error) {
    switch (error) {
    case ENOMEM:
    case ENOSPC:
        return VRAM_ERR_HOST_MEMORY;
    case EAGAIN:
    case EMFILE:
    case ENFILE:
    case EFBIG:
    case EDQUOT:
        return VRAM_ERR_LIMIT;
    default:
        return VRAM_ERR_IO;
    }
}

/* glibc's strerror_r returns the text, which may be a constant instead of the buffer. In other C
   libraries it is POSIX's, which returns 0 or an errno and writes the buffer. */
static const char *answer_text(const char *answer, const char *buffer) {
    (void)buffer;
    return answer;
}

static const char *answer_number(int answer, const char *buffer) {
    return answer == 0 ? buffer : "unknown error";
}

#define ANSWER(answer, buffer)                                                                     \
    _Generic((answer), int : answer_number, default : answer_text)(answer, buffer)

/* The system's text for an errno, always terminated. */
static void error_text(int error, char *text, size_t bytes) {
    char buffer[96];
    const char *answer = ANSWER(strerror_r(error, buffer, sizeof buffer), buffer);
    size_t length = strnlen(answer, bytes - 1);
    memcpy(text, answer, length);
    text[length] = 0;
}

vram_status vr_os_error_as(vram_status status, int error, const char *call, uint64_t bytes) {
    char why[96];
    error_text(error, why, sizeof why);
    if (bytes == 0) {
        return vr_error_set(status, "os", call, error, "%s: %s", call, why);
    }
    return vr_error_set(status, "os", call, error, "%s of %llu bytes: %s", call,
                        (unsigned long long)bytes, why);
}

vram_status vr_os_error(int error, const char *call, uint64_t bytes) {
    return vr_os_error_as(status_of(error), error, call, bytes);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * expect.c: what happens when an expectation does not hold: the first one is recorded, with its
 * place, the status and the error record's own words.
 *
 * (1) The first record stays, with one exception: a FAILED replaces an ERRORED, because a failing
 *     call may be the work of an injected fault and a wrong result never is.
 * (2) Every failing call must have left a matching error record. That is looked at here, for all
 *     calls of all cases, rather than in a case of its own.
 * (3) A call that fails because this user may not lock as much memory as the case needs says
 *     nothing of the device: the case is skipped, whichever call it was.
 */
#include "case.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* Where the sources lay when they were built is nobody's business. */
static const char *base_name(const char *file) {
    const char *slash = strrchr(file, '/');
    return slash != NULL ? slash + 1 : file;
}

static void record(struct check *check, enum check_outcome outcome, vram_status status,
                   struct check_place place, const char *text) {
    struct check_result *result = check->result;

    pthread_mutex_lock(&check->lock);
    bool first = result->outcome == CHECK_PASSED;
    bool worse = result->outcome == CHECK_ERRORED && outcome == CHECK_FAILED; /* keeps (1) */
    if (first || worse) {
        result->outcome = outcome;
        result->status = status;
        snprintf(result->reason, sizeof result->reason, "%s:%d: %s: %s%s%s%s",
                 base_name(place.file), place.line, place.what, text,
                 check->note[0] != 0 ? " (" : "", check->note, check->note[0] != 0 ? ")" : "");
    }
    pthread_mutex_unlock(&check->lock);
}

/* Keeps (2). NOT_READY is an answer, not a failure: it may leave the record alone. */
static bool record_matches(struct check *check, vram_status status, struct check_place place) {
    vram_status recorded = vram_error_get()->status;
    if (status == VRAM_OK || status == VRAM_ERR_NOT_READY || recorded == status) {
        return true;
    }
    return check_fail(check, place, "returned %s, but the error record says %s",
                      vram_status_name(status), vram_status_name(recorded));
}

/* What this process has locked; 0 where the system does not tell. */
static uint64_t locked_bytes(void) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[128];
    uint64_t kib = 0;

    while (file != NULL && fgets(line, sizeof line, file) != NULL &&
           sscanf(line, "VmLck: %" SCNu64, &kib) != 1) {
    }
    if (file != NULL) {
        fclose(file);
    }
    return kib << 10;
}

/* What would have had to be locked for a call of mlock to succeed; 0 if the user's limit allows
   that, so that the call failed for another reason. Only the text has the number. */
static uint64_t locked_past_limit(const vram_error *error) {
    const char *call = strstr(error->text, "mlock of ");
    struct rlimit limit;
    uint64_t bytes = 0;

    if (call == NULL || sscanf(call, "mlock of %" SCNu64, &bytes) != 1 ||
        getrlimit(RLIMIT_MEMLOCK, &limit) != 0) {
        return 0;
    }
    bytes += locked_bytes();
    return bytes > limit.rlim_cur ? bytes : 0;
}

/* Keeps (3). Where calls are made to fail the limit is not why. */
static bool skipped_by_limit(struct check *check, const vram_error *error) {
    uint64_t bytes = 0;

    if (strcmp(error->operation, "mlock") == 0 && !check->target->faulty) {
        bytes = locked_past_limit(error);
    }
    if (bytes != 0) {
        check_skip(check, "needs %" PRIu64 " KiB of locked memory (ulimit -l)", bytes >> 10);
    }
    return bytes != 0;
}

static void errored(struct check *check, vram_status status, struct check_place place,
                    const char *wanted) {
    const vram_error *error = vram_error_get();
    char text[400];

    if (error->status == status && skipped_by_limit(check, error)) {
        return;
    }
    if (error->status == status) {
        snprintf(text, sizeof text, "%s%s from %s: %s", wanted, vram_status_name(status),
                 error->operation, error->text);
    } else {
        snprintf(text, sizeof text, "%s%s", wanted, vram_status_name(status));
    }
    record(check, CHECK_ERRORED, status, place, text);
}

/* The most used of all: a call that nothing but a fault may make fail. */
bool check_ok(struct check *check, vram_status status, struct check_place place) {
    if (status == VRAM_OK) {
        return true;
    }
    if (record_matches(check, status, place)) {
        errored(check, status, place, "");
    }
    return false;
}

/* A call that should have failed and did not is FAILED; one that failed otherwise is ERRORED. */
static bool unexpected(struct check *check, vram_status status, const char *wanted,
                       struct check_place place) {
    char text[96];

    if (status == VRAM_OK) {
        return check_fail(check, place, "succeeded, expected %s", wanted);
    }
    snprintf(text, sizeof text, "expected %s, got ", wanted);
    if (record_matches(check, status, place)) {
        errored(check, status, place, text);
    }
    return false;
}

bool check_status(struct check *check, vram_status status, vram_status expected,
                  struct check_place place) {
    if (status == expected) {
        return record_matches(check, status, place);
    }
    return unexpected(check, status, vram_status_name(expected), place);
}

/* A number that never was a handle may be called invalid or stale: both tell the truth. */
bool check_refused(struct check *check, vram_status status, struct check_place place) {
    if (status == VRAM_ERR_INVALID || status == VRAM_ERR_STALE) {
        return record_matches(check, status, place);
    }
    return unexpected(check, status, "VRAM_ERR_INVALID or VRAM_ERR_STALE", place);
}

/* Which of the four it is depends on who is asked first: the device, the system or our limit. */
bool check_exhausted(struct check *check, vram_status status, struct check_place place) {
    if (vram_status_is_exhausted(status)) {
        return record_matches(check, status, place);
    }
    return unexpected(check, status, "an exhaustion", place);
}

bool(check_that)(struct check *check, bool holds, struct check_place place) {
    if (!holds) {
        return check_fail(check, place, "does not hold");
    }
    return true;
}

bool check_equal(struct check *check, uint64_t left, uint64_t right, struct check_place place) {
    if (left != right) {
        return check_fail(check, place, "%llu is not %llu", (unsigned long long)left,
                          (unsigned long long)right);
    }
    return true;
}

bool(check_fail)(struct check *check, struct check_place place, const char *format, ...) {
    char text[400];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    record(check, CHECK_FAILED, VRAM_OK, place, text);
    return false;
}

bool(check_skip)(struct check *check, const char *format, ...) {
    va_list list;

    pthread_mutex_lock(&check->lock);
    if (check->result->outcome == CHECK_PASSED) {
        check->result->outcome = CHECK_SKIPPED;
        va_start(list, format);
        vsnprintf(check->result->reason, sizeof check->result->reason, format, list);
        va_end(list);
    }
    pthread_mutex_unlock(&check->lock);
    return false;
}

void check_note(struct check *check, const char *format, ...) {
    va_list list;

    pthread_mutex_lock(&check->lock);
    va_start(list, format);
    vsnprintf(check->note, sizeof check->note, format, list);
    va_end(list);
    pthread_mutex_unlock(&check->lock);
}

bool check_has(const struct check *check, uint32_t cap) {
    return (check->info.caps & check->info.caps_known & cap) == cap;
}

static const char *cap_name(uint32_t cap) {
#define NAME_OF(NAME, bit, name, text)                                                             \
    if (cap == VRAM_CAP_##NAME) {                                                                  \
        return name;                                                                               \
    }
    VRAM_CAP_MAP(NAME_OF)
#undef NAME_OF
    return "all capabilities it takes";
}

bool check_needs(struct check *check, uint32_t cap) {
    if (!check_has(check, cap)) {
        return check_skip(check, "the device lacks %s", cap_name(cap));
    }
    return true;
}

bool check_needs_own_memory(struct check *check) {
    if (check_has(check, VRAM_CAP_INTEGRATED)) {
        return check_skip(check, "the device shares its memory with the host");
    }
    return true;
}

static bool option_is_on(const char *name) {
    static const char *const off[] = {"off", "0", "no", "false"};
    char text[8] = "";
    bool on = vram_option_get(name, text, sizeof text, NULL) == VRAM_OK;
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++) {
        on = on && strcmp(text, off[i]) != 0;
    }
    return on;
}

bool check_pools(void) {
    return option_is_on("pool");
}

uint64_t check_block_bytes(uint64_t size) {
    uint64_t bytes = 512;
    if (!option_is_on("power_of_two")) {
        return check_round_up(size, bytes);
    }
    while (bytes < size && bytes <= UINT64_MAX / 2) {
        bytes *= 2;
    }
    return bytes < size ? 0 : bytes;
}

bool check_needs_pools(struct check *check) {
    if (!check_pools()) {
        return check_skip(check, "pooling is off (option pool)");
    }
    return true;
}

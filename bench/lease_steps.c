/* SPDX-License-Identifier: Apache-2.0 */
/* lease_steps.c: the steps of a switch of lease_bench; see lease_steps.h. */
#include "lease_steps.h"

#include "driver_spent.h"

#include <string.h>
#include <time.h>

enum { SWITCHES_MAX = 10000, RECORDS_MAX = 256 };

/* In the order in which one wake after the other reaches them. */
enum lease_step {
    STEP_POINT,
    STEP_GAVE,
    STEP_GRANTED,
    STEP_WEIGHTS,
    STEP_POINT_2,
    STEP_GAVE_2,
    STEP_GRANTED_2,
    STEP_CACHE,
    STEP_WORK,
    STEP_UNMAPS,
    STEP_CREATES,
    STEP_DRIVER,
    STEPS = STEP_DRIVER + MARKS - MARK_DRIVER
};

static const char *const step_names[] = {
    "point reached",   "cache dropped",    "granted",         "weights awake",
    "second point",    "weights released", "second granted",  "cache awake",
    "first work",      "handles unmapped", "handles created", "cuMemUnmap ms",
    "cuMemRelease ms", "cuMemCreate ms",   "cuMemMap ms",     "cuMemSetAccess ms",
};

/* The first two count for the holder, the others for the one that wakes. */
static const char *const calls[] = {"cuMemUnmap", "cuMemRelease", "cuMemCreate", "cuMemMap",
                                    "cuMemSetAccess"};
enum { CALLS = sizeof calls / sizeof calls[0], HOLDER_CALLS = 2 };

static double steps[STEPS][SWITCHES_MAX];
static bool times_known; /* of driver calls */

double lease_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* --------------------------------------------------------------------- workers */

void lease_marks_point(double marks[MARKS], double begin) {
    int at = marks[MARK_POINT] == 0 ? MARK_POINT : MARK_POINT_2;
    if (marks[at] == 0) {
        marks[at] = begin;
    }
    marks[at + 1] = lease_now_ms();
}

void lease_marks_write(double marks[MARKS], vram_pool *const pools[2], FILE *to) {
    marks[MARK_CREATES] = marks[MARK_UNMAPS] = 0;
    for (int kind = 0; kind < 2 && pools[kind]; kind++) {
        vram_pool_stats stats = {.size = sizeof stats};
        if (vram_pool_stats_get(pools[kind], &stats) == VRAM_OK) {
            marks[MARK_CREATES] += (double)stats.driver_creates;
            marks[MARK_UNMAPS] += (double)stats.driver_unmaps;
        }
    }
    for (int i = 0; i < CALLS; i++) {
        marks[MARK_DRIVER + i] = driver_spent_ms(calls[i]);
    }
    for (int i = 0; i < MARKS; i++) {
        fprintf(to, "%.3f ", marks[i]);
        marks[i] = 0;
    }
    fprintf(to, "\n");
    fflush(to);
}

/* ------------------------------------------------------------------ the parent */

static bool marks_read(double marks[MARKS], FILE *from) {
    for (int i = 0; i < MARKS; i++) {
        if (fscanf(from, "%lf", &marks[i]) != 1) {
            return false;
        }
    }
    return true;
}

/* When the broker granted what was asked since the last question. */
static void grants_find(double granted[2]) {
    static vram_lease_record records[RECORDS_MAX];
    static uint64_t last;
    uint32_t count = RECORDS_MAX;
    int found = 0;
    granted[0] = granted[1] = 0;
    if (vram_lease_list(NULL, NULL, NULL, records, &count) != VRAM_OK) {
        return;
    }
    double now = lease_now_ms();
    for (uint32_t i = 0; i < count && i < RECORDS_MAX; i++) {
        if (records[i].number > last && records[i].happening == VRAM_LEASE_LOG_GRANTED &&
            found < 2) {
            granted[found++] = now - (double)records[i].ago_ns / 1e6;
        }
        last = records[i].number > last ? records[i].number : last;
    }
}

bool lease_steps_take(int at, double request, FILE *holder, FILE *waker) {
    static double before[2][MARKS]; /* by the side, which takes turns: even switches as listed */
    double found[2][MARKS], granted[2];
    int holds = at % 2 == 0 ? 0 : 1;
    if (!marks_read(found[holds], holder) || !marks_read(found[1 - holds], waker)) {
        return false;
    }
    grants_find(granted);
    const double *gave = found[holds], *woke = found[1 - holds];
    if (at >= 0 && at < SWITCHES_MAX) {
        const double times[] = {gave[MARK_POINT],   gave[MARK_GAVE],    granted[0],
                                woke[MARK_WEIGHTS], gave[MARK_POINT_2], gave[MARK_GAVE_2],
                                granted[1],         woke[MARK_CACHE],   woke[MARK_WORK]};
        for (int i = STEP_POINT; i <= STEP_WORK; i++) {
            steps[i][at] = times[i] > request ? times[i] - request : 0;
        }
        steps[STEP_UNMAPS][at] = gave[MARK_UNMAPS] - before[holds][MARK_UNMAPS];
        steps[STEP_CREATES][at] = woke[MARK_CREATES] - before[1 - holds][MARK_CREATES];
        for (int i = 0; i < CALLS; i++) {
            int side = i < HOLDER_CALLS ? holds : 1 - holds;
            steps[STEP_DRIVER + i][at] =
                found[side][MARK_DRIVER + i] - before[side][MARK_DRIVER + i];
            times_known = times_known || steps[STEP_DRIVER + i][at] > 0;
        }
    }
    memcpy(before, found, sizeof before);
    return true;
}

static int step_order(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

/* One line: of the first switch, or the medians of the others. */
static void line_print(const char *way, int count, bool first) {
    int columns = times_known ? STEPS : STEP_DRIVER;
    printf("%-10s  %s", way,
           first ? "first switch, ms after the request:" : "the others, ms, medians:");
    for (int i = 0; i < columns; i++) {
        double value = steps[i][0];
        if (!first) {
            qsort(steps[i] + 1, (size_t)count - 1, sizeof steps[i][0], step_order);
            value = steps[i][1 + (count - 1) / 2];
        }
        const char *separator = i == 0 ? "" : i == STEP_UNMAPS || i == STEP_DRIVER ? ";" : ",";
        bool counts = i == STEP_UNMAPS || i == STEP_CREATES;
        printf("%s %s %.*f", separator, step_names[i], counts ? 0 : 1, value);
    }
    printf("\n");
}

void lease_steps_print(const char *way, int count) {
    line_print(way, count, true);
    line_print(way, count, false);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* checked.h: calls that must succeed, and the time, for programs of this folder. */
#ifndef BENCH_CHECKED_H
#define BENCH_CHECKED_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <vram/base.h>

static inline void must(vram_status status, const char *what) {
    if (status != VRAM_OK) {
        fprintf(stderr, "%s: %s: %s: %s\n", program_invocation_short_name, what,
                vram_status_name(status), vram_error_get()->text);
        exit(2);
    }
}

static inline double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compose_soak.c: the case compose.random of the conformance suite, with one seed after the other.
 *
 *     compose_soak [--backend B] [--seconds N] [--seed S] [--runs N]
 *
 * Each run makes a pool and turns the eight features of docs/composition.md on and off at random,
 * takes and frees blocks between, and looks at all contents. It ends after --seconds (10) or --runs
 * (no end), or with the first seed that fails, which is printed: --seed S --runs 1 repeats it. Exit
 * 0: all passed.
 */
#include "check/suite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static const struct check_case *find_case(const char *name) {
    const struct check_case *which;
    for (size_t i = 0; (which = check_case_at(i)) != NULL; i++) {
        if (strcmp(which->name, name) == 0) {
            break;
        }
    }
    return which;
}

int main(int count, char **words) {
    uint64_t seconds = 10, seed = 1, runs = UINT64_MAX, done = 0;
    vram_context_options options = {.size = sizeof options, .backends = "host"};
    struct check_target target = {.options = &options};
    struct check_result result = {.outcome = CHECK_PASSED};
    for (int i = 1; i < count; i += 2) {
        const char *value = i + 1 < count ? words[i + 1] : "";
        uint64_t *number = strcmp(words[i], "--seconds") == 0 ? &seconds
                           : strcmp(words[i], "--seed") == 0  ? &seed
                           : strcmp(words[i], "--runs") == 0  ? &runs
                                                              : NULL;
        if (number && *value) {
            *number = strtoull(value, NULL, 10);
        } else if (strcmp(words[i], "--backend") == 0 && *value) {
            options.backends = value;
        } else {
            fprintf(stderr, "usage: compose_soak [--backend B] [--seconds N] [--seed S] "
                            "[--runs N]\n");
            return 2;
        }
    }
    const struct check_case *which = find_case("compose.random");
    double end = now_s() + (double)seconds;
    while (which && done < runs && (now_s() < end || done == 0)) {
        target.seed = seed + done;
        check_run(which, &target, &result);
        done++;
        if (result.outcome != CHECK_PASSED) {
            break;
        }
    }
    if (result.outcome == CHECK_PASSED) {
        printf("compose on %s: %" PRIu64 " sequences from seed %" PRIu64 ", 0 failed\n",
               options.backends, done, seed);
        return 0;
    }
    printf("compose on %s: seed %" PRIu64 " %s: %s\n", options.backends, target.seed,
           result.outcome == CHECK_SKIPPED ? "skipped" : "failed", result.reason);
    return result.outcome != CHECK_SKIPPED;
}

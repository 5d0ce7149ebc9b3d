/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conform.c: the conformance suite on every device of a backend, in less time than `vram check`.
 *
 *     conform BACKEND
 *
 * For sanitizers, which make every byte dear. Cases about threads run in full on the first device;
 * all others, and all on further devices, with a tenth of their rounds and with small sizes, as
 * they do under injected faults. The same suite in full runs in the build that users get, and on
 * the host's memory and the simulated device under AddressSanitizer.
 */
#include "check/suite.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What a case's name begins with when several threads are at work in it, or late queues. */
static const char *const in_full[] = {"thread.", "lifetime.", "reuse.", "together.", "point."};

static bool is_quick(const char *name) {
    for (size_t i = 0; i < sizeof in_full / sizeof in_full[0]; i++) {
        if (strncmp(name, in_full[i], strlen(in_full[i])) == 0) {
            return false;
        }
    }
    return true;
}

/* Runs all cases on one device; how many of them failed. */
static uint32_t run_device(const vram_context_options *options, uint32_t device, uint32_t *passed) {
    const struct check_case *which;
    uint32_t failed = 0;
    for (size_t i = 0; (which = check_case_at(i)) != NULL; i++) {
        struct check_target target = {
            .options = options, .device = device, .quick = device > 0 || is_quick(which->name)};
        struct check_result result;
        check_run(which, &target, &result);
        *passed += result.outcome == CHECK_PASSED;
        if (result.outcome == CHECK_FAILED || result.outcome == CHECK_ERRORED) {
            failed++;
            printf("failed   %s on device %" PRIu32 ": %s\n", which->name, device, result.reason);
        }
    }
    return failed;
}

int main(int count, char **words) {
    vram_context *context;
    uint32_t devices, failed = 0, passed = 0;
    if (count != 2) {
        fprintf(stderr, "usage: conform BACKEND\n");
        return 2;
    }
    vram_context_options options = {.size = sizeof options, .backends = words[1]};
    if (vram_context_create(&options, &context) != VRAM_OK) {
        fprintf(stderr, "conform: %s\n", vram_error_get()->text);
        return 2;
    }
    devices = vram_device_count(context);
    vram_context_destroy(context);
    for (uint32_t i = 0; i < devices; i++) {
        failed += run_device(&options, i, &passed);
    }
    printf("%" PRIu32 " passed, %" PRIu32 " failed\n", passed, failed);
    /* A backend that shows no device would prove nothing. */
    return failed || !passed;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conform.c: the conformance suite on every device of a backend, in less time than `vram check`.
 *
 *     conform BACKEND [CAPTURE]
 *
 * For sanitizers, which make every byte dear. Cases about threads run in full on the first device;
 * all others, and all on further devices, with a tenth of their rounds and with small sizes, as
 * they do under injected faults. The same suite in full runs in the build that users get, and on
 * the host's memory and the simulated device under AddressSanitizer.
 *
 * CAPTURE, "global" for example, is that of capture.h: a stream beside the suite is captured all
 * the time, and no case may end that but those of libvram-compute: the end of cuBLAS waits for the
 * device.
 */
#include "capture.h"
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

/* What became of all cases on all devices. */
struct total {
    uint32_t passed, failed;
};

/* After a case: whether the capture goes on, which the next case then has again. */
static bool capture_kept(const char *capture, uint32_t device) {
    if (!capture || capture_alive()) {
        return true;
    }
    capture_end();
    return capture_begin(capture, device) && false;
}

static void run_case(const struct check_case *which, const struct check_target *target,
                     const char *capture, struct total *total) {
    struct check_result result;
    check_run(which, target, &result);
    bool kept = capture_kept(capture, target->device) || strncmp(which->name, "compute.", 8) == 0;
    if (!kept || result.outcome == CHECK_FAILED || result.outcome == CHECK_ERRORED) {
        total->failed++;
        printf("failed   %s on device %" PRIu32 ": %s%s\n", which->name, target->device,
               kept ? "" : "it ended the capture; ", result.reason);
    }
    total->passed += result.outcome == CHECK_PASSED;
}

static void run_device(const vram_context_options *options, uint32_t device, const char *capture,
                       struct total *total) {
    const struct check_case *which;
    if (capture && !capture_begin(capture, device)) {
        total->failed++;
        return;
    }
    for (size_t i = 0; (which = check_case_at(i)) != NULL; i++) {
        struct check_target target = {
            .options = options, .device = device, .quick = device > 0 || is_quick(which->name)};
        run_case(which, &target, capture, total);
    }
    if (capture && !capture_end()) {
        total->failed++;
        printf("failed   the capture on device %" PRIu32 " has no graph\n", device);
    }
}

int main(int count, char **words) {
    vram_context *context;
    struct total total = {.passed = 0};
    const char *capture = count == 3 ? words[2] : NULL;
    if (count < 2 || count > 3 || (capture && !capture_name_ok(capture))) {
        fprintf(stderr, "usage: conform BACKEND [global|thread_local|relaxed[,blocking]]\n");
        return 2;
    }
    vram_context_options options = {.size = sizeof options, .backends = words[1]};
    if (vram_context_create(&options, &context) != VRAM_OK) {
        fprintf(stderr, "conform: %s\n", vram_error_get()->text);
        return 2;
    }
    uint32_t devices = vram_device_count(context);
    vram_context_destroy(context);
    for (uint32_t i = 0; i < devices; i++) {
        run_device(&options, i, capture, &total);
    }
    printf("%" PRIu32 " passed, %" PRIu32 " failed\n", total.passed, total.failed);
    /* A backend that shows no device would prove nothing. */
    return total.failed || !total.passed;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target.c: see target.h.
 */
#include "target.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *device_kind_name(vram_device_kind kind) {
    switch (kind) {
    case VRAM_DEVICE_GPU:
        return "gpu";
    case VRAM_DEVICE_CPU:
        return "cpu";
    case VRAM_DEVICE_SIMULATED:
        return "simulated";
    }
    return "unknown";
}

vram_status target_context(const char *backends, vram_context **context) {
    vram_context_options options = {.size = sizeof options, .backends = backends};
    return vram_context_create(&options, context);
}

/*
 * No device where one was asked for. When the backend was named, what the user wants to know is
 * why it has none, and the context kept that.
 */
static int say_no_device(vram_context *context, const char *backend, uint32_t count,
                         uint64_t wanted) {
    vram_backend_info info = {.size = sizeof info};
    for (uint32_t i = 0; backend != NULL && vram_backend_info_get(context, i, &info) == VRAM_OK;
         i++) {
        if (strcmp(info.name, backend) == 0 && !info.present) {
            say_error("backend %s is absent: %s", backend, info.reason);
            return EXIT_MISUSE;
        }
    }
    if (count == 0) {
        say_error("no device was found; `vram info` says why");
    } else {
        say_error("there is no device %" PRIu64 "; `vram info` lists %" PRIu32 " device%s", wanted,
                  count, count == 1 ? "" : "s");
    }
    return EXIT_MISUSE;
}

static int choose(const struct invocation *invocation, struct target *target) {
    uint32_t count = vram_device_count(target->context);
    uint64_t wanted = 0;
    if (!flag_number(invocation, "device", 0, UINT32_MAX, &wanted)) {
        return EXIT_MISUSE;
    }
    bool best = !flag_given(invocation, "device");
    if (wanted >= count) {
        return say_no_device(target->context, flag_value(invocation, "backend"), count, wanted);
    }
    target->index = (uint32_t)wanted;
    vram_status status = best ? vram_device_best(target->context, &target->index) : VRAM_OK;
    if (status == VRAM_OK) {
        target->info.size = sizeof target->info;
        status = vram_device_info_get(target->context, target->index, &target->info);
    }
    return status == VRAM_OK ? EXIT_YES : say_failure("cannot choose a device", status);
}

int target_open(const struct invocation *invocation, struct target *target) {
    memset(target, 0, sizeof *target);
    vram_status status = target_context(flag_value(invocation, "backend"), &target->context);
    if (status != VRAM_OK) {
        return say_failure("cannot start", status);
    }
    int code = choose(invocation, target);
    if (code != EXIT_YES) {
        target_close(target);
    }
    return code;
}

void target_close(struct target *target) {
    vram_context_destroy(target->context);
    target->context = NULL;
}

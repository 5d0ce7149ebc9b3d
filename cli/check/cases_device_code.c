/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_device_code.c: code in the device's own language. The same kernel stands in every language
 * that a device of some backend runs; the case takes the first that this one accepts.
 */
#include "case.h"
#include "scale_kernel.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 1000, GROUP = 64 };

static bool load(struct check *check, struct check_device *device, vram_kernel **kernel) {
    CHECK_NEEDS(check, VRAM_CAP_KERNELS);
    vram_status status = scale_kernel_create(device->device, NULL, kernel);
    if (status == VRAM_ERR_UNSUPPORTED) {
        return check_skip(check, "no code of the suite is in the device's language");
    }
    CHECK_OK(check, status);
    return true;
}

/* to = from * factor + i on the device, behind an upload and before a download of the same
   queue. */
static bool scale(struct check *check) {
    static const size_t bytes[] = {8, 8, 8, 8};
    static uint32_t from[COUNT], to[COUNT];
    struct check_device *device;
    vram_queue *queue;
    vram_kernel *kernel;
    vram_addr in, out;

    CHECK_OPEN(check, &device);
    CHECK_TRY(load(check, device, &kernel));
    CHECK_QUEUE(check, device, &queue);
    CHECK_ALLOC(check, device, sizeof from, &in);
    CHECK_ALLOC(check, device, sizeof to, &out);
    for (uint64_t factor = 1; factor < 100; factor += 33) {
        const uint64_t values[] = {out, in, factor, COUNT};
        const void *const arguments[] = {&values[0], &values[1], &values[2], &values[3]};
        const vram_launch launch = {.size = sizeof launch,
                                    .groups = {(COUNT + GROUP - 1) / GROUP, 1, 1},
                                    .group_size = {GROUP, 1, 1},
                                    .argument_count = 4,
                                    .arguments = arguments,
                                    .argument_bytes = bytes,
                                    .address_mask = 3};
        for (uint32_t i = 0; i < COUNT; i++) {
            from[i] = i * 7919 + (uint32_t)factor;
        }
        memset(to, 0, sizeof to);
        CHECK_OK(check, vram_queue_upload(queue, in, from, sizeof from));
        CHECK_OK(check, vram_queue_launch(queue, kernel, &launch));
        CHECK_OK(check, vram_queue_download(queue, to, out, sizeof to));
        CHECK_WAIT(check, queue);
        for (uint32_t i = 0; i < COUNT; i++) {
            CHECK_EQUAL(check, to[i], from[i] * (uint32_t)factor + i);
        }
    }
    vram_kernel_destroy(kernel);
    return true;
}

/* A driver's compiler may write to standard error itself (PoCL's does). What it says of code that
   is meant to be wrong is no part of our output. */
static vram_status create_quietly(vram_device *device, const vram_kernel_source *source,
                                  vram_kernel **kernel) {
    fflush(stderr);
    int saved = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (saved >= 0 && nowhere >= 0) {
        (void)dup2(nowhere, STDERR_FILENO);
    }
    vram_status status = vram_kernel_create(device, source, kernel);
    if (saved >= 0) {
        (void)dup2(saved, STDERR_FILENO);
        close(saved);
    }
    if (nowhere >= 0) {
        close(nowhere);
    }
    return status;
}

/* What does not load leaves nothing, whichever part of it is wrong. */
static bool broken(struct check *check) {
    struct check_device *device;
    vram_kernel *kernel, *canary = (vram_kernel *)(uintptr_t)CHECK_CANARY, *refused = canary;

    CHECK_OPEN(check, &device);
    CHECK_TRY(load(check, device, &kernel));
    vram_kernel_destroy(kernel);
    for (int i = 0; i < SCALE_LANGUAGES; i++) {
        vram_kernel_source half = {.size = sizeof half,
                                   .format = scale_languages[i].format,
                                   .code = scale_languages[i].code,
                                   .code_bytes = scale_languages[i].bytes / 2,
                                   .entry = "vram_check_scale"};
        vram_kernel_source nobody = half;
        nobody.code_bytes = scale_languages[i].bytes;
        nobody.entry = "vram_check_nobody";
        CHECK_THAT(check, create_quietly(device->device, &half, &refused) != VRAM_OK);
        CHECK_THAT(check, create_quietly(device->device, &nobody, &refused) != VRAM_OK);
    }
    CHECK_THAT(check, refused == canary);
    return true;
}

const struct check_case check_cases_device_code[] = {
    {"device_code.scale", "a kernel in the device's own language computes on its memory", scale},
    {"device_code.broken", "code that is cut off, or lacks its entry, is refused", broken},
    {NULL, NULL, NULL},
};

/* SPDX-License-Identifier: Apache-2.0 */
/* cases_context.c: contexts and the list of backends. */
#include "case.h"

#include <string.h>

/* A program may load and unload a plug-in that uses the library a thousand times. */
static bool again(struct check *check) {
    uint32_t devices = vram_device_count(check->context);
    uint64_t before = 0;

    for (uint32_t round = 0; round < 4; round++) {
        vram_context *context;
        check_note(check, "round %u", round);
        /* The first round may leave tables behind that are kept for ever; later ones may not. */
        if (round == 1) {
            before = vram_host_bytes();
        }
        CHECK_CONTEXT(check, NULL, NULL, &context);
        CHECK_EQUAL(check, vram_device_count(context), devices);
        check_context_end(check, context);
        CHECK_EQUAL(check, vram_device_count(context), 0);
        CHECK_EQUAL(check, vram_backend_count(context), 0);
    }
    CHECK_EQUAL(check, vram_host_bytes(), before);
    return true;
}

/* Two libraries in one process each have a context and know nothing of each other. */
static bool side_by_side(struct check *check) {
    vram_context *one, *two;
    struct check_device *device;
    vram_queue *queue;
    struct check_buffer buffer;

    CHECK_CONTEXT(check, NULL, NULL, &one);
    CHECK_CONTEXT(check, NULL, NULL, &two);
    CHECK_THAT(check, one != two);
    CHECK_OPEN_OF(check, two, check->target->device, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_BUFFER(check, device, queue, 10000, &buffer);
    check_context_end(check, one);
    CHECK_VERIFY(check, &buffer);
    return true;
}

/* Present with devices, or absent with a reason: nothing between. */
static bool backend_is_whole(struct check *check, uint32_t index, uint32_t *devices) {
    vram_backend_info info = {.size = sizeof info}, other = {.size = sizeof other};

    CHECK_OK(check, vram_backend_info_get(check->context, index, &info));
    CHECK_EQUAL(check, info.size, sizeof info);
    CHECK_THAT(check, info.name != NULL && info.name[0] != 0);
    check_note(check, "%s", info.name);
    CHECK_THAT(check, info.present == (info.reason[0] == 0));
    CHECK_THAT(check, info.present || info.device_count == 0);
    for (uint32_t i = 0; i < index; i++) {
        CHECK_OK(check, vram_backend_info_get(check->context, i, &other));
        CHECK_THAT(check, other.name != NULL && strcmp(other.name, info.name) != 0);
    }
    *devices += info.device_count;
    return true;
}

/* Every device belongs to exactly one backend of the list. */
static bool backends(struct check *check) {
    uint32_t count = vram_backend_count(check->context), devices = 0;
    vram_backend_info info = {.size = sizeof info};

    CHECK_THAT(check, count > 0);
    for (uint32_t i = 0; i < count; i++) {
        CHECK_TRY(backend_is_whole(check, i, &devices));
    }
    check_note(check, "%s", "");
    CHECK_EQUAL(check, devices, vram_device_count(check->context));
    CHECK_STATUS(check, vram_backend_info_get(check->context, count, &info), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_backend_info_get(check->context, UINT32_MAX, &info), VRAM_ERR_INVALID);
    return true;
}

/* Every context lists the same backends; only the chosen one is there. */
static bool chosen_backend(struct check *check) {
    vram_context *context;
    CHECK_CONTEXT(check, check->info.backend, NULL, &context);
    CHECK_EQUAL(check, vram_backend_count(context), vram_backend_count(check->context));
    for (uint32_t i = 0; i < vram_backend_count(context); i++) {
        vram_backend_info info = {.size = sizeof info};
        CHECK_OK(check, vram_backend_info_get(context, i, &info));
        check_note(check, "%s", info.name);
        CHECK_THAT(check, info.present == (strcmp(info.name, check->info.backend) == 0));
    }
    for (uint32_t i = 0; i < vram_device_count(context); i++) {
        vram_device_info info = {.size = sizeof info};
        CHECK_OK(check, vram_device_info_get(context, i, &info));
        CHECK_THAT(check, strcmp(info.backend, check->info.backend) == 0);
        CHECK_EQUAL(check, info.backend_index, i);
    }
    return true;
}

/* A typing mistake in a list must not pass for "all" or for "none". */
static bool bad_options(struct check *check) {
    vram_context *canary = (vram_context *)(uintptr_t)CHECK_CANARY, *context = canary;
    vram_context_options unknown = {.size = sizeof unknown, .backends = "nonesuch"};
    vram_context_options half = {.size = sizeof half, .backends = "host,nonesuch"};
    vram_context_options sim = {.size = sizeof sim, .backends = "sim", .sim = "devices=many"};
    vram_context_options key = {.size = sizeof key, .backends = "sim", .sim = "colour=red"};
    vram_context_options unsized = {.size = 0};

    CHECK_STATUS(check, vram_context_create(&unknown, &context), VRAM_ERR_INVALID);
    CHECK_THAT(check, strstr(vram_error_get()->text, "nonesuch") != NULL);
    CHECK_STATUS(check, vram_context_create(&half, &context), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_context_create(&sim, &context), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_context_create(&key, &context), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_context_create(&unsized, &context), VRAM_ERR_INVALID);
    CHECK_THAT(check, context == canary);
    CHECK_STATUS(check, vram_context_create(NULL, NULL), VRAM_ERR_INVALID);
    return true;
}

/* Ownership is a tree: what hangs below goes with it, and knows that it is gone. */
static bool ends_children(struct check *check) {
    vram_context *context;
    struct check_device *device;
    vram_queue *queue;
    vram_addr addr, untouched = CHECK_CANARY;
    vram_native_info native = {.size = sizeof native};

    CHECK_CONTEXT(check, NULL, NULL, &context);
    CHECK_OPEN_OF(check, context, check->target->device, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_ALLOC(check, device, 100, &addr);
    vram_device *closed = device->device;
    device->device = NULL; /* ended by its context: nothing is left for the runner */
    check_context_end(check, context);
    CHECK_STATUS(check, vram_queue_poll(queue), VRAM_ERR_STALE);
    CHECK_STATUS(check, vram_native(addr, &native), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_device_alloc(closed, 1, VRAM_MEMORY_DEVICE, &untouched),
                 VRAM_ERR_STALE);
    CHECK_STATUS(check, vram_device_open(context, 0, &closed), VRAM_ERR_STALE);
    CHECK_EQUAL(check, untouched, CHECK_CANARY);
    return true;
}

/* Clean-up code runs on half-built objects and runs twice; it must never do harm. */
static bool destroy_leniently(struct check *check) {
    vram_context *context;
    vram_context_destroy(NULL);
    CHECK_CONTEXT(check, NULL, NULL, &context);
    check_context_end(check, context);
    vram_context_destroy(context); /* a second time, and one that never was */
    vram_context_destroy((vram_context *)(uintptr_t)CHECK_CANARY);
    CHECK_THAT(check, vram_device_count(check->context) > 0);
    return true;
}

const struct check_case check_cases_context[] = {
    {"context.again",
     "contexts can be created and destroyed again and again, and leave no bookkeeping behind",
     again},
    {"context.side_by_side", "destroying one context leaves another and its memory intact",
     side_by_side},
    {"context.backends", "each backend is listed once, and every absent one with a reason",
     backends},
    {"context.chosen_backend", "only the backends that were named are started", chosen_backend},
    {"context.bad_options", "unknown backends, invalid simulations and sizes are refused",
     bad_options},
    {"context.ends_children", "destroying a context destroys its devices, queues and memory",
     ends_children},
    {"context.destroy_leniently", "destroying NULL, twice or an unknown handle does no harm",
     destroy_leniently},
    {NULL, NULL, NULL},
};

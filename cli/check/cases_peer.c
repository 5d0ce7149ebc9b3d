/* SPDX-License-Identifier: Apache-2.0 */
/* cases_peer.c: two devices: copies between them, and what does not go together. */
#include "case.h"

#include <stdio.h>
#include <string.h>

/* The target device and another of its backend, each with a queue. */
struct pair {
    struct check_device *own, *other;
    vram_queue *queue, *other_queue;
};

static bool begin(struct check *check, struct pair *pair) {
    uint32_t index;
    if (!check_other_device(check, &index)) {
        return check_skip(check, "needs two devices of the backend %s", check->info.backend);
    }
    CHECK_OPEN(check, &pair->own);
    CHECK_OPEN_OF(check, check->context, index, &pair->other);
    CHECK_QUEUE(check, pair->own, &pair->queue);
    CHECK_QUEUE(check, pair->other, &pair->other_queue);
    return true;
}

/* Both queues wait for each other, so an early copy shows in the contents. */
static bool copy(struct check *check) {
    struct pair pair;
    struct check_buffer from, to;
    vram_point point;

    CHECK_TRY(begin(check, &pair));
    CHECK_NEEDS(check, VRAM_CAP_PEERS);
    CHECK_BUFFER(check, pair.other, pair.other_queue, 50000, &from);
    CHECK_BUFFER(check, pair.own, pair.queue, 50000, &to);
    CHECK_STATUS(check, vram_queue_copy(pair.queue, to.addr, from.addr, 100), VRAM_ERR_INVALID);
    vram_status status = vram_device_peer_enable(pair.own->device, pair.other->device);
    if (status == VRAM_ERR_UNSUPPORTED) {
        return check_skip(check, "the two devices have no direct path");
    }
    CHECK_OK(check, status);
    CHECK_OK(check, vram_device_peer_enable(pair.own->device, pair.other->device)); /* again */
    for (uint32_t round = 0; round < check_rounds(check, 20); round++) {
        CHECK_UPLOAD(check, &from, 0, 50000, round);
        CHECK_OK(check, vram_queue_mark(pair.other_queue, &point)); /* the device waits for it */
        CHECK_OK(check, vram_queue_after(pair.queue, point));
        CHECK_COPY(check, &to, round * 7, &from, round * 3, 40000 + round);
        CHECK_OK(check, vram_queue_mark(pair.queue, &point));
        CHECK_OK(check, vram_queue_after(pair.other_queue, point));
    }
    CHECK_VERIFY(check, &to);
    CHECK_VERIFY(check, &from);
    CHECK_STATUS(check, vram_queue_copy(pair.queue, to.addr, from.addr, UINT64_C(1) << 40),
                 VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_copy(pair.queue, from.addr, to.addr, 100), VRAM_ERR_INVALID);
    return true;
}

/* Addresses are unique in the process, so a mix-up is found instead of hitting other memory. */
static bool apart(struct check *check) {
    struct pair pair;
    struct check_buffer own, other;

    CHECK_TRY(begin(check, &pair));
    CHECK_BUFFER(check, pair.own, pair.queue, 3000, &own);
    CHECK_BUFFER(check, pair.other, pair.other_queue, 3000, &other);
    CHECK_STATUS(check, vram_queue_fill(pair.queue, other.addr, 1, 1, 100), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_device_free(pair.own->device, other.addr), VRAM_ERR_INVALID);
    check_close(pair.own);
    CHECK_VERIFY(check, &other);
    return true;
}

static bool refused(struct check *check) {
    struct check_device *device;
    CHECK_OPEN(check, &device);
    CHECK_STATUS(check, vram_device_peer_enable(device->device, device->device), VRAM_ERR_INVALID);
    CHECK_REFUSED(check, vram_device_peer_enable(device->device, NULL));
    CHECK_REFUSED(check, vram_device_peer_enable(NULL, device->device));
    return true;
}

/* A device of any other backend in a context that has both. */
static bool find_stranger(struct check *check, vram_context *context, uint32_t *own,
                          uint32_t *stranger) {
    bool found = false;
    for (uint32_t i = vram_device_count(context); i-- > 0;) {
        vram_device_info info = {.size = sizeof info};
        CHECK_OK(check, vram_device_info_get(context, i, &info));
        bool ours = strcmp(info.backend, check->info.backend) == 0;
        *(ours ? own : stranger) = i;
        found = found || !ours;
    }
    if (!found) {
        return check_skip(check, "needs a device of another backend");
    }
    return true;
}

/* Backends do not know each other's queues and memory; the host stands between them. */
static bool other_backend(struct check *check) {
    bool host = strcmp(check->info.backend, "host") == 0;
    char both[64];
    vram_context *context;
    uint32_t own_index = 0, stranger_index = 0;
    struct check_device *own, *stranger;
    vram_queue *queue, *strange_queue;
    struct check_buffer buffer, strange;
    vram_point point;

    snprintf(both, sizeof both, "%s,%s", check->info.backend, host ? "sim" : "host");
    CHECK_CONTEXT(check, both, NULL, &context);
    CHECK_TRY(find_stranger(check, context, &own_index, &stranger_index));
    CHECK_OPEN_OF(check, context, own_index, &own);
    CHECK_OPEN_OF(check, context, stranger_index, &stranger);
    CHECK_QUEUE(check, own, &queue);
    CHECK_QUEUE(check, stranger, &strange_queue);
    CHECK_BUFFER(check, own, queue, 2000, &buffer);
    CHECK_BUFFER(check, stranger, strange_queue, 2000, &strange);
    CHECK_STATUS(check, vram_device_peer_enable(own->device, stranger->device),
                 VRAM_ERR_UNSUPPORTED);
    CHECK_STATUS(check, vram_queue_copy(queue, buffer.addr, strange.addr, 10), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_fill(queue, strange.addr, 0, 1, 10), VRAM_ERR_INVALID);
    CHECK_OK(check, vram_queue_mark(strange_queue, &point));
    vram_status status = vram_queue_after(queue, point); /* fine if it has passed already */
    if (status != VRAM_OK) {
        CHECK_STATUS(check, status, VRAM_ERR_UNSUPPORTED);
    }
    CHECK_VERIFY(check, &buffer);
    CHECK_VERIFY(check, &strange);
    return true;
}

const struct check_case check_cases_peer[] = {
    {"peer.copy", "a device copies from an enabled peer, in order with both queues", copy},
    {"peer.apart", "two devices cannot access each other's memory unless enabled", apart},
    {"peer.refused", "a device cannot be a peer of itself or of NULL", refused},
    {"peer.other_backend", "devices of two backends are kept apart", other_backend},
    {NULL, NULL, NULL},
};

/* SPDX-License-Identifier: Apache-2.0 */
/* ring_query.c: telemetry of a ring and its kernel, and a check of its integrity. */
#include "ring/ring_object.h"

#include "base/error.h"

#include <string.h>

static uint64_t count_of(const vr_atomic_u64 *counter) {
    return vr_load(counter, VR_RELAXED);
}

static void stats_fill(struct vr_ring *ring, struct vram_ring_stats *stats) {
    bool copies = vr_ring_copies(ring);
    uint64_t word = vr_load(
        copies ? &ring->seen : (const vr_atomic_u64 *)(const void *)(ring->shared + 8), VR_ACQUIRE);
    int32_t fields[2]; /* has_terminated and errors_encountered */
    memcpy(fields, &word, sizeof word);
    *stats = (struct vram_ring_stats){
        .size = sizeof *stats,
        .host_to_device_count =
            ring->input.capacity ? count_of(copies ? &ring->moved : ring->input.head) : 0,
        .device_to_host_count = ring->output.capacity ? count_of(ring->output.head) : 0,
        .sent = count_of(&ring->sent),
        .received = count_of(&ring->received),
        .taken = ring->input.capacity ? count_of(ring->input.tail) : 0,
        .copies = count_of(&ring->copies),
        .copied_bytes = count_of(&ring->copied_bytes),
        .words = count_of(&ring->words),
        .full_waits = count_of(&ring->full_waits),
        .empty_waits = count_of(&ring->empty_waits),
        .crc_errors = count_of(&ring->crc_errors),
        .kernel_errors = (uint32_t)fields[1],
        .stopped = vr_load(&ring->stopped, VR_ACQUIRE),
        .corrupt = vr_load(&ring->corrupt, VR_ACQUIRE),
        .has_terminated = fields[0]};
}

vram_status vram_ring_stats_get(vram_ring *handle, vram_ring_stats *stats) {
    VR_CALL;
    struct vram_ring_stats filled;
    void *entered;
    vram_status status = vr_enter(VR_KIND_RING, handle, &entered);
    if (status == VRAM_OK) {
        stats_fill(entered, &filled);
        status = vr_info_give(stats, &filled, sizeof filled, sizeof filled);
        vr_leave(entered);
    }
    return status;
}

vram_status vram_ring_telemetry_get(vram_ring *handle, vram_ring_telemetry *telemetry) {
    VR_CALL;
    struct vram_ring_telemetry found;
    void *entered;
    if (!telemetry) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the telemetry is NULL");
    }
    vram_status status = vr_enter(VR_KIND_RING, handle, &entered);
    if (status == VRAM_OK) {
        status = vr_ring_peek(entered, VRAM_RING_AT_TELEMETRY, &found, sizeof found);
        if (status == VRAM_OK) {
            *telemetry = found;
        }
        vr_leave(entered);
    }
    return status;
}

/* Whether the counters of one direction contradict each other. */
static bool counters_invalid(uint64_t head, uint64_t tail, uint64_t capacity) {
    return head - tail > capacity;
}

static uint64_t word_of(const unsigned char *block, uint64_t offset) {
    uint64_t value;
    memcpy(&value, block + offset, sizeof value);
    return value;
}

/* Heads are read before tails, so while messages flow a tail may be ahead of its head here. */
static vram_status check_block(struct vr_ring *ring, const unsigned char *block) {
    if (memcmp(block + 32, ring->control + 32, sizeof ring->control - 32) != 0) {
        return vr_ring_damaged(ring, "a constant of the control block");
    }
    uint64_t tail = word_of(block, VRAM_RING_AT_INPUT_TAIL);
    uint64_t head = word_of(block, VRAM_RING_AT_OUTPUT_HEAD);
    uint64_t sent = vr_load(ring->input.head, VR_ACQUIRE);
    uint64_t consumed = vr_load(ring->output.tail, VR_ACQUIRE);
    if (ring->input.capacity && counters_invalid(sent, tail, INT64_MAX)) {
        return vr_ring_damaged(ring, "the device's input tail");
    }
    if (ring->output.capacity && head - consumed > ring->output.capacity &&
        consumed - head > ring->output.capacity) {
        return vr_ring_damaged(ring, "the device's output head");
    }
    return VRAM_OK;
}

vram_status vram_ring_check(vram_ring *handle) {
    VR_CALL;
    unsigned char block[VRAM_RING_AT_SLOTS];
    void *entered;
    vram_status status = vr_enter(VR_KIND_RING, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_ring *ring = entered;
    if (vr_load(&ring->corrupt, VR_ACQUIRE)) {
        status = vr_fail(VRAM_ERR_CORRUPT, "the ring was found damaged earlier");
    } else {
        status = vr_ring_peek(ring, 0, block, sizeof block);
    }
    if (status == VRAM_OK) {
        status = check_block(ring, block);
    }
    vr_leave(ring);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contents.c: device memory with a model of its contents in host memory.
 *
 * (1) The model is changed when, and only when, the call that changes the device has succeeded.
 * (2) Only one queue writes a buffer, so the order of calls is the order of effects.
 * (3) A buffer is compared whole. Bytes beside a range that was written are compared with it, which
 *     is how a write of one byte too many is found.
 * (4) After a call that failed the buffer is compared as well: a failure has no effect.
 */
#include "case.h"

#include <string.h>

/* Where two memories part; `bytes` when they do not. */
static uint64_t first_difference(const uint8_t *left, const uint8_t *right, uint64_t bytes) {
    if (memcmp(left, right, bytes) == 0) {
        return bytes;
    }
    uint64_t at = 0;
    while (left[at] == right[at]) {
        at++;
    }
    return at;
}

bool check_same_at(struct check *check, const uint8_t *found, const uint8_t *expected,
                   uint64_t bytes, struct check_place place) {
    uint64_t at = first_difference(found, expected, bytes);
    if (at != bytes) {
        return check_fail(check, place, "byte %llu of %llu is 0x%02x, expected 0x%02x",
                          (unsigned long long)at, (unsigned long long)bytes, found[at],
                          expected[at]);
    }
    return true;
}

/* Keeps (4), as far as the device still answers. */
static bool failed(struct check *check, struct check_buffer *buffer, struct check_place place) {
    uint8_t *found;
    if (check_host_seeded(check, buffer->bytes, 0, &found) &&
        vram_queue_download(buffer->queue, found, buffer->addr, buffer->bytes) == VRAM_OK &&
        vram_queue_wait(buffer->queue, CHECK_DEADLINE_NS) == VRAM_OK) {
        check_same_at(check, found, buffer->model, buffer->bytes, place);
    }
    return false;
}

bool check_buffer_at(struct check *check, struct check_device *device, vram_queue *queue,
                     uint64_t bytes, struct check_buffer *buffer, struct check_place place) {
    uint8_t *start, *model;
    uint64_t seed = check_random(check, UINT64_MAX);

    *buffer = (struct check_buffer){.device = device, .queue = queue, .bytes = bytes};
    CHECK_TRY(check_alloc_at(check, device, bytes, VRAM_MEMORY_DEVICE, &buffer->addr, place));
    CHECK_TRY(check_host_seeded(check, bytes, seed, &start));
    CHECK_TRY(check_host_seeded(check, bytes, seed, &model));
    buffer->model = model;
    return check_ok(check, vram_queue_upload(queue, buffer->addr, start, bytes), place);
}

bool check_buffer_upload_at(struct check *check, struct check_buffer *to, uint64_t offset,
                            uint64_t bytes, uint64_t seed, struct check_place place) {
    uint8_t *from;
    CHECK_TRY(check_host_seeded(check, bytes, seed, &from));
    if (!check_ok(check, vram_queue_upload(to->queue, to->addr + offset, from, bytes), place)) {
        return failed(check, to, place);
    }
    memcpy(to->model + offset, from, bytes); /* keeps (1), here and below */
    return true;
}

/* The pattern's bytes from the lowest on, then what is there already, twice as much each time. */
static void repeat(uint8_t *to, uint32_t pattern, uint32_t pattern_bytes, uint64_t bytes) {
    for (uint32_t i = 0; i < pattern_bytes && i < bytes; i++) {
        to[i] = (uint8_t)(pattern >> (8 * i));
    }
    for (uint64_t done = pattern_bytes; done < bytes; done *= 2) {
        memcpy(to + done, to, done < bytes - done ? done : bytes - done);
    }
}

bool check_buffer_fill_at(struct check *check, struct check_buffer *to, uint64_t offset,
                          uint32_t pattern, uint32_t pattern_bytes, uint64_t bytes,
                          struct check_place place) {
    vram_status status =
        vram_queue_fill(to->queue, to->addr + offset, pattern, pattern_bytes, bytes);
    if (!check_ok(check, status, place)) {
        return failed(check, to, place);
    }
    repeat(to->model + offset, pattern, pattern_bytes, bytes);
    return true;
}

bool check_buffer_copy_at(struct check *check, struct check_buffer *to, uint64_t to_offset,
                          struct check_buffer *from, uint64_t from_offset, uint64_t bytes,
                          struct check_place place) {
    vram_status status =
        vram_queue_copy(to->queue, to->addr + to_offset, from->addr + from_offset, bytes);
    if (!check_ok(check, status, place)) {
        return failed(check, to, place);
    }
    memmove(to->model + to_offset, from->model + from_offset, bytes);
    return true;
}

bool check_buffer_verify_at(struct check *check, struct check_buffer *buffer,
                            struct check_place place) {
    uint8_t *found;
    CHECK_TRY(check_host_seeded(check, buffer->bytes, 0, &found));
    CHECK_TRY(check_ok(
        check, vram_queue_download(buffer->queue, found, buffer->addr, buffer->bytes), place));
    CHECK_TRY(check_ok(check, vram_queue_wait(buffer->queue, CHECK_DEADLINE_NS), place));
    return check_same_at(check, found, buffer->model, buffer->bytes, place); /* keeps (3) */
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checker.c: see checker.h.
 */
#include "checker.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ patterns */

/* Follows from the serial number, so a block that is filled again gets the same; no byte is 0,
   because memory that nobody wrote often is. */
static uint32_t pattern_of(const struct replay_block *block) {
    uint64_t x = block->serial * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)(x >> 32) | 0x01010101u;
}

/* Fills take four bytes at once; up to three are left at the end. */
static uint64_t body_of(uint64_t bytes) {
    return bytes / 4 * 4;
}

vram_status checker_fill(struct place *place, const struct replay_block *block, uint32_t queue,
                         uint64_t bytes) {
    vram_queue *on = place->queues[queue];
    uint64_t body = body_of(bytes);
    uint32_t pattern = pattern_of(block);
    if (bytes == 0 || block->addr == 0) {
        return VRAM_OK;
    }
    place->busy_queues |= UINT64_C(1) << queue;
    vram_status status = vram_queue_fill(on, block->addr, pattern, 4, body);
    /* A part of a block may end inside the pattern: only the block's own end is filled by bytes. */
    if (status == VRAM_OK && body < bytes && bytes == block->bytes) {
        status = vram_queue_fill(on, block->addr + body, pattern & 0xff, 1, bytes - body);
    }
    return status;
}

/* The common case, all of it right, runs eight bytes at a time; wrong ones are counted one by
   one. */
uint64_t checker_compare(const uint8_t *memory, uint64_t bytes, uint64_t body, uint32_t pattern) {
    uint64_t wide = pattern | (uint64_t)pattern << 32, word, wrong = 0;
    uint8_t expected[8];
    memcpy(expected, &wide, sizeof expected);
    uint64_t at = 0;
    for (; at + 8 <= body; at += 8) {
        memcpy(&word, memory + at, sizeof word);
        if (word != wide) {
            for (int i = 0; i < 8; i++) {
                wrong += memory[at + (uint64_t)i] != expected[i];
            }
        }
    }
    for (; at < bytes; at++) {
        wrong += memory[at] != expected[at < body ? at % 4 : 0];
    }
    return wrong;
}

/* ----------------------------------------------------------------------- ring */

vram_status checker_begin(struct checker *checker, struct place *place, uint64_t largest) {
    memset(checker, 0, sizeof *checker);
    checker->buffer_bytes = largest < CHECKER_BUFFER_MAX - CHECKER_BUFFER_ALIGN
                                ? (largest / CHECKER_BUFFER_ALIGN + 1) * CHECKER_BUFFER_ALIGN
                                : CHECKER_BUFFER_MAX;
    size_t bytes = CHECKER_BUFFERS * (size_t)checker->buffer_bytes;
    checker->place = place;
    checker->scanner = scanner_open(place);
    if (checker->scanner != NULL) {
        return VRAM_OK;
    }
    /* Page-locked memory is several times as fast where there is any; plain memory always works. */
    if (vram_device_alloc(place->device, bytes, VRAM_MEMORY_PINNED, &checker->pinned) == VRAM_OK) {
        checker->memory = (uint8_t *)(uintptr_t)checker->pinned;
    } else {
        checker->pinned = 0;
        checker->memory = malloc(bytes);
    }
    return checker->memory != NULL ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
}

void checker_end(struct checker *checker) {
    scanner_close(checker->scanner);
    if (checker->pinned != 0) {
        vram_device_free(checker->place->device, checker->pinned);
    } else {
        free(checker->memory);
    }
    memset(checker, 0, sizeof *checker);
}

static uint8_t *buffer_of(const struct checker *checker, uint32_t index) {
    return checker->memory + index * (size_t)checker->buffer_bytes;
}

/* Waits for one piece and compares it. */
static vram_status settle_piece(struct checker *checker, uint32_t index) {
    struct checker_piece *piece = &checker->pieces[index];
    if (piece->bytes == 0) {
        return VRAM_OK;
    }
    vram_status status = vram_point_wait(piece->point, VRAM_TIMEOUT_DEFAULT);
    if (status == VRAM_OK) {
        checker->mismatched_bytes +=
            checker_compare(buffer_of(checker, index), piece->bytes, piece->body, piece->pattern);
        piece->bytes = 0;
    }
    return status;
}

vram_status checker_settle(struct checker *checker) {
    vram_status status = VRAM_OK;
    if (checker->scanner != NULL) {
        return scanner_read(checker->scanner, &checker->mismatched_bytes);
    }
    for (uint32_t i = 0; i < CHECKER_BUFFERS && status == VRAM_OK; i++) {
        status = settle_piece(checker, i);
    }
    return status;
}

/* Sends for one piece of a block. */
static vram_status fetch(struct checker *checker, const struct replay_block *block, uint64_t at,
                         uint64_t bytes) {
    uint32_t index = checker->next;
    struct checker_piece *piece = &checker->pieces[index];
    vram_queue *queue = checker->place->queues[block->queue];
    uint64_t body = body_of(block->bytes);
    vram_point point = {NULL, 0};
    vram_status status = settle_piece(checker, index);
    if (status == VRAM_OK) {
        checker->place->busy_queues |= UINT64_C(1) << block->queue;
        status = vram_queue_download(queue, buffer_of(checker, index), block->addr + at, bytes);
    }
    if (status == VRAM_OK) {
        status = vram_queue_mark(queue, &point);
    }
    if (status == VRAM_OK) {
        *piece = (struct checker_piece){.point = point,
                                        .bytes = bytes,
                                        .body = body - at < bytes ? body - at : bytes,
                                        .pattern = pattern_of(block)};
        checker->next = (index + 1) % CHECKER_BUFFERS;
    }
    return status;
}

vram_status checker_check(struct checker *checker, const struct replay_block *block) {
    vram_status status = VRAM_OK;
    if (checker->scanner != NULL && block->addr != 0) {
        return scanner_look(checker->scanner, block->queue, block->addr, block->bytes,
                            body_of(block->bytes), pattern_of(block));
    }
    for (uint64_t at = 0; block->addr != 0 && at < block->bytes && status == VRAM_OK;) {
        uint64_t left = block->bytes - at;
        uint64_t bytes = left < checker->buffer_bytes ? left : checker->buffer_bytes;
        status = fetch(checker, block, at, bytes);
        at += bytes;
    }
    return status;
}

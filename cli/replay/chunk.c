/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chunk.c: see chunk.h.
 */
#include "chunk.h"

#include <stdlib.h>

struct chunk *chunk_create(vram_addr addr, uint64_t bytes, uint32_t queue) {
    struct chunk *chunk = calloc(1, sizeof *chunk);
    if (chunk != NULL) {
        chunk->node = (struct size_node){.addr = addr, .bytes = bytes, .queue = queue};
    }
    return chunk;
}

struct chunk *chunk_cut(struct chunk *chunk, uint64_t bytes) {
    struct chunk *rest = malloc(sizeof *rest);
    if (rest == NULL) {
        return NULL;
    }
    *rest = *chunk;
    rest->node.addr += bytes;
    rest->node.bytes -= bytes;
    rest->before = chunk;
    if (rest->behind != NULL) {
        rest->behind->before = rest;
    }
    chunk->behind = rest;
    chunk->node.bytes = bytes;
    return rest;
}

void chunk_join(struct chunk *chunk) {
    struct chunk *behind = chunk->behind;
    chunk->node.bytes += behind->node.bytes;
    chunk->behind = behind->behind;
    if (chunk->behind != NULL) {
        chunk->behind->before = chunk;
    }
    free(behind);
}

struct chunk *chunk_carve(struct chunk *chunk, vram_addr addr, uint64_t bytes) {
    struct chunk *middle = chunk;
    if (chunk->node.addr < addr) {
        middle = chunk_cut(chunk, addr - chunk->node.addr);
    }
    if (middle != NULL && middle->node.bytes > bytes && chunk_cut(middle, bytes) == NULL) {
        if (middle != chunk) {
            chunk_join(chunk);
        }
        return NULL;
    }
    return middle;
}

/* -------------------------------------------------------------------- waiting */

/* A chunk waits for one point; it has as many of these as queues used it. */
struct chunk_wait {
    struct chunk_wait *next;
    vram_point point;
    struct chunk *chunk;
    uint32_t *left; /* points that the chunk still waits for; shared by its entries */
};

void chunk_waits_begin(struct chunk_waits *waits) {
    waits->oldest = NULL;
    waits->newest = &waits->oldest;
}

/* The oldest point has passed, or counts as passed. */
static void drop_oldest(struct chunk_waits *waits) {
    struct chunk_wait *wait = waits->oldest;
    waits->oldest = wait->next;
    if (waits->oldest == NULL) {
        waits->newest = &waits->oldest;
    }
    if (--*wait->left == 0) {
        waits->ready(waits->user, wait->chunk);
        free(wait->left);
    }
    free(wait);
}

vram_status chunk_waits_settle(struct chunk_waits *waits, bool wait) {
    vram_status status = VRAM_OK;
    while (waits->oldest != NULL && status == VRAM_OK) {
        vram_point point = waits->oldest->point;
        status = wait ? vram_point_wait(point, VRAM_TIMEOUT_DEFAULT) : vram_point_poll(point);
        if (status == VRAM_OK) {
            drop_oldest(waits);
        }
    }
    return status == VRAM_ERR_NOT_READY ? VRAM_OK : status;
}

/* Puts a point of one queue at the end of the line. */
static vram_status wait_add(struct chunk_waits *waits, struct chunk *chunk, uint32_t queue,
                            uint32_t *left) {
    struct chunk_wait *wait = calloc(1, sizeof *wait);
    if (wait == NULL) {
        return VRAM_ERR_HOST_MEMORY;
    }
    waits->counts->calls[POLICY_CALL_MARKER]++;
    vram_status status = vram_queue_mark(waits->place->queues[queue], &wait->point);
    if (status != VRAM_OK) {
        free(wait);
        return status;
    }
    wait->chunk = chunk;
    wait->left = left;
    ++*left;
    *waits->newest = wait;
    waits->newest = &wait->next;
    return VRAM_OK;
}

vram_status chunk_waits_add(struct chunk_waits *waits, struct chunk *chunk, uint64_t queues) {
    uint32_t *left = calloc(1, sizeof *left);
    vram_status status = left != NULL ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
    for (uint32_t i = 0; i < waits->place->queue_count && status == VRAM_OK; i++) {
        if (queues & UINT64_C(1) << i) {
            status = wait_add(waits, chunk, i, left);
        }
    }
    if (left == NULL || *left == 0) { /* it waits for nothing: only after a failure */
        waits->ready(waits->user, chunk);
        free(left);
    }
    return status;
}

void chunk_waits_end(struct chunk_waits *waits) {
    while (waits->oldest != NULL) {
        drop_oldest(waits);
    }
}

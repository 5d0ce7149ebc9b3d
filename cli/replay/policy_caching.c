/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_caching.c: a faithful model of PyTorch's caching allocator with its default settings, on
 * segments from vram_device_alloc. It is the base line that people know.
 *
 * How it works, and what must hold:
 *  (1) Sizes are rounded up to 512 bytes. Up to 1 MiB they are served from the small pool, whose
 *      segments have 2 MiB; larger ones from the large pool: below 10 MiB from segments of 20 MiB,
 *      else from one of their own size, rounded up to 2 MiB.
 *  (2) A free block serves only the queue that its segment was made for: the smallest that fits,
 *      the lowest address among equals.
 *  (3) A block is split when 512 bytes (small) or more than 1 MiB (large) would be left over.
 *  (4) A freed block joins free neighbours of its segment. Blocks of a segment are linked in the
 *      order of addresses and cover it.
 *  (5) A block that other queues used is free only when these have come as far as they were at the
 *      free. Every allocation asks, oldest first.
 *  (6) When the driver refuses, all segments that are wholly free are given back and it is asked
 *      again; nothing is given back before.
 */
#include "chunk.h"

#include <stdlib.h>

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)

static const uint64_t round_bytes = 512;
static const uint64_t small_max = MIB;
static const uint64_t small_segment = 2 * MIB;
static const uint64_t large_segment = 20 * MIB;
static const uint64_t own_segment_from = 10 * MIB;
static const uint64_t own_segment_round = 2 * MIB;

struct caching {
    struct place *place;
    struct size_tree pools[2]; /* free chunks; [1] is the small pool */
    struct chunk_waits waits;
    uint64_t reserved_bytes;
    struct policy_counts counts;
};

/* ------------------------------------------------------------- free and join */

static void put_free(struct caching *caching, struct chunk *chunk) {
    chunk->taken = false;
    size_tree_add(&caching->pools[chunk->small], &chunk->node);
}

/* Keeps (4). */
static void give_back(void *state, struct chunk *chunk) {
    struct caching *caching = state;
    struct chunk *before = chunk->before, *behind = chunk->behind;
    if (behind != NULL && !behind->taken) {
        size_tree_remove(&caching->pools[chunk->small], &behind->node);
        chunk_join(chunk);
    }
    if (before != NULL && !before->taken) {
        size_tree_remove(&caching->pools[chunk->small], &before->node);
        chunk_join(before);
        chunk = before;
    }
    put_free(caching, chunk);
}

static vram_status begin(struct place *place, void **state) {
    struct caching *caching = calloc(1, sizeof *caching);
    if (caching == NULL) {
        return VRAM_ERR_HOST_MEMORY;
    }
    caching->place = place;
    caching->waits = (struct chunk_waits){
        .place = place, .counts = &caching->counts, .ready = give_back, .user = caching};
    chunk_waits_begin(&caching->waits);
    *state = caching;
    return VRAM_OK;
}

/* ----------------------------------------------------------------- segments */

/* Keeps (1). */
static uint64_t segment_bytes(uint64_t bytes) {
    if (bytes <= small_max) {
        return small_segment;
    }
    return bytes < own_segment_from
               ? large_segment
               : (bytes + own_segment_round - 1) / own_segment_round * own_segment_round;
}

static vram_status make_segment(struct caching *caching, uint64_t bytes, uint32_t queue,
                                struct chunk **made) {
    struct chunk *chunk = chunk_create(0, segment_bytes(bytes), queue);
    if (chunk == NULL) {
        return VRAM_ERR_HOST_MEMORY;
    }
    chunk->small = bytes <= small_max;
    chunk->taken = true;
    caching->counts.calls[POLICY_CALL_ALLOC]++;
    vram_status status = vram_device_alloc(caching->place->device, chunk->node.bytes,
                                           VRAM_MEMORY_DEVICE, &chunk->node.addr);
    if (status != VRAM_OK) {
        free(chunk);
        return status;
    }
    caching->reserved_bytes += chunk->node.bytes;
    if (caching->reserved_bytes > caching->counts.peak_reserved_bytes) {
        caching->counts.peak_reserved_bytes = caching->reserved_bytes;
    }
    *made = chunk;
    return VRAM_OK;
}

/* Gives back the segments of one pool that are wholly free. */
static vram_status release_pool(struct caching *caching, struct size_tree *pool) {
    vram_status status = VRAM_OK;
    struct size_node *next;
    for (struct size_node *node = size_tree_next(pool, NULL); node != NULL && status == VRAM_OK;
         node = next) {
        struct chunk *chunk = (struct chunk *)node;
        next = size_tree_next(pool, node);
        if (chunk->before != NULL || chunk->behind != NULL) {
            continue;
        }
        caching->counts.calls[POLICY_CALL_FREE]++;
        status = vram_device_free(caching->place->device, node->addr);
        if (status == VRAM_OK) {
            caching->reserved_bytes -= node->bytes;
            size_tree_remove(pool, node);
            free(chunk);
        }
    }
    return status;
}

/* Keeps (6). The driver must not be given what a queue still works on. */
static vram_status release_all(struct caching *caching) {
    vram_status status = chunk_waits_settle(&caching->waits, true);
    if (status == VRAM_OK) {
        status = place_wait(caching->place, UINT64_MAX);
    }
    for (int i = 0; i < 2 && status == VRAM_OK; i++) {
        status = release_pool(caching, &caching->pools[i]);
    }
    return status;
}

/* --------------------------------------------------------------- operations */

/* Keeps (3): the first part is taken, the rest is free. */
static vram_status cut(struct caching *caching, struct chunk *chunk, uint64_t bytes) {
    uint64_t left = chunk->node.bytes - bytes;
    if (chunk->small ? left < round_bytes : left <= small_max) {
        return VRAM_OK;
    }
    struct chunk *rest = chunk_cut(chunk, bytes);
    if (rest == NULL) {
        return VRAM_ERR_HOST_MEMORY;
    }
    put_free(caching, rest);
    return VRAM_OK;
}

/* A free chunk by (2), else a new segment, else a new segment after (6). */
static vram_status find(struct caching *caching, uint64_t bytes, uint32_t queue,
                        struct chunk **found) {
    struct size_tree *pool = &caching->pools[bytes <= small_max];
    struct size_node *node = size_tree_fit(pool, queue, bytes);
    if (node != NULL) {
        size_tree_remove(pool, node);
        *found = (struct chunk *)node;
        (*found)->taken = true;
        return VRAM_OK;
    }
    vram_status status = make_segment(caching, bytes, queue, found);
    if (vram_status_is_exhausted(status) && status != VRAM_ERR_HOST_MEMORY) {
        status = release_all(caching);
        if (status == VRAM_OK) {
            status = make_segment(caching, bytes, queue, found);
        }
    }
    return status;
}

static vram_status alloc(void *state, uint64_t bytes, uint32_t queue, struct replay_block *block) {
    struct caching *caching = state;
    struct chunk *chunk = NULL;
    if (bytes == 0) {
        return VRAM_OK;
    }
    if (bytes > UINT64_MAX - own_segment_round) {
        return VRAM_ERR_OVERFLOW;
    }
    bytes = (bytes + round_bytes - 1) / round_bytes * round_bytes;
    vram_status status = chunk_waits_settle(&caching->waits, false);
    if (status == VRAM_OK) {
        status = find(caching, bytes, queue, &chunk);
    }
    if (status == VRAM_OK) {
        status = cut(caching, chunk, bytes);
    }
    if (status != VRAM_OK) {
        if (chunk != NULL) {
            give_back(caching, chunk);
        }
        return status;
    }
    block->addr = chunk->node.addr;
    block->note = chunk;
    return VRAM_OK;
}

static vram_status release(void *state, struct replay_block *block, uint32_t queue) {
    struct caching *caching = state;
    struct chunk *chunk = block->note;
    uint64_t others = block->used_queues;
    if (chunk == NULL) {
        return VRAM_OK;
    }
    if (queue != block->queue) {
        others |= UINT64_C(1) << queue;
    }
    if (others != 0) {
        return chunk_waits_add(&caching->waits, chunk, others);
    }
    give_back(caching, chunk);
    return VRAM_OK;
}

static vram_status counts(void *state, struct policy_counts *to) {
    *to = ((struct caching *)state)->counts;
    to->reserved_bytes = ((struct caching *)state)->reserved_bytes;
    return VRAM_OK;
}

/* The player has freed every block. On a lost device nothing can be given back: it is forgotten. */
static void end(void *state) {
    struct caching *caching = state;
    release_all(caching);
    chunk_waits_end(&caching->waits);
    for (int i = 0; i < 2; i++) {
        for (struct size_node *node; (node = caching->pools[i].root) != NULL;) {
            size_tree_remove(&caching->pools[i], node);
            free((struct chunk *)node);
        }
    }
    free(caching);
}

const struct policy policy_caching = {
    .name = "caching",
    .begin = begin,
    .alloc = alloc,
    .free = release,
    .counts = counts,
    .end = end,
};

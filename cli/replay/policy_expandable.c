/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_expandable.c: a faithful model of PyTorch's allocator with expandable_segments:True.
 *
 * How it works, and what must hold:
 *  (1) Sizes are rounded up to 512 bytes. Up to 1 MiB they are served from the small pool, whose
 *      pages have 2 MiB; larger ones from the large pool with pages of 20 MiB.
 *  (2) A segment is a range of addresses for 9/8 of the device's memory, for one queue and pool.
 *      Its chunks cover it: taken, free, or unmapped. Unmapped ones begin and end between pages.
 *      There is a second segment only when the first has no addresses left.
 *  (3) The smallest free chunk that fits is taken. A chunk in front of an unmapped one counts as
 *      large as it could become, so it comes late.
 *  (4) When none fits, pages are mapped from the first unmapped chunk on which has enough room,
 *      the free chunk in front of it included.
 *  (5) A chunk is split when 512 bytes or more would be left over. Chunks of one kind join.
 *  (6) When the driver refuses, all pages that lie in free chunks are unmapped and released, and it
 *      is asked again; nothing is given back before.
 *  (7) A block that other queues used is free when these have come as far (chunk_waits).
 */
#include "page_range.h"

#include <stdlib.h>

#define MIB (UINT64_C(1) << 20)

static const uint64_t round_bytes = 512;
static const uint64_t small_max = MIB;
static const uint64_t page_bytes[2] = {20 * MIB, 2 * MIB}; /* [1]: small */

struct expandable {
    struct place *place;
    struct size_tree pools[2];      /* free chunks; [1] is the small pool */
    struct page_range *segments[2]; /* oldest first */
    struct chunk_waits waits;
    struct policy_counts counts;
};

/* ------------------------------------------------------------- free and join */

static void put_free(struct expandable *all, struct chunk *chunk) {
    chunk->taken = false;
    size_tree_add(&all->pools[chunk->small], &chunk->node);
}

/* Takes a chunk that is not taken out of the tree that it is in, if any. */
static void take_out(struct expandable *all, struct chunk *chunk) {
    if (!chunk->unmapped) {
        size_tree_remove(&all->pools[chunk->small], &chunk->node);
    }
}

static bool joins(const struct chunk *chunk, const struct chunk *other) {
    return other != NULL && !other->taken && other->unmapped == chunk->unmapped;
}

/* Joins a chunk that is in no tree with its neighbours, by (5). Returns what it became. */
static struct chunk *join(struct expandable *all, struct chunk *chunk) {
    if (joins(chunk, chunk->behind)) {
        take_out(all, chunk->behind);
        chunk_join(chunk);
    }
    struct chunk *before = chunk->before;
    if (!joins(chunk, before)) {
        return chunk;
    }
    take_out(all, before);
    chunk_join(before);
    return before;
}

static void give_back(void *state, struct chunk *chunk) {
    chunk->taken = false;
    put_free(state, join(state, chunk));
}

/* ------------------------------------------------------------------- segments */

static vram_status make_segment(struct expandable *all, bool small, uint32_t queue, uint64_t bytes,
                                struct page_range **made) {
    uint64_t memory = all->place->info.memory_bytes.value, page = page_bytes[small];
    uint32_t pages = (uint32_t)((memory + memory / 8 + page - 1) / page);
    if (bytes > page * pages) {
        return VRAM_ERR_DEVICE_MEMORY;
    }
    vram_status status = page_range_create(all->place, &all->counts, page, pages, made);
    if (status != VRAM_OK) {
        return status;
    }
    struct chunk *chunk = chunk_create((*made)->base, page * pages, queue);
    if (chunk == NULL) {
        page_range_destroy(*made);
        return VRAM_ERR_HOST_MEMORY;
    }
    chunk->small = small;
    chunk->unmapped = true;
    chunk->segment = *made;
    (*made)->first = chunk;
    struct page_range **at = &all->segments[small];
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = *made;
    return VRAM_OK;
}

/* Whether there are enough addresses from a chunk on that nobody has taken. */
static bool has_room(const struct chunk *chunk, uint64_t bytes) {
    uint64_t sum = 0;
    for (; chunk != NULL && !chunk->taken && sum < bytes; chunk = chunk->behind) {
        sum += chunk->node.bytes;
    }
    return sum >= bytes;
}

/* Where to map for `bytes`, by (4): a free chunk with an unmapped one behind it, or an unmapped
   one. NULL: nowhere. */
static struct chunk *room_find(const struct page_range *segment, uint32_t queue, uint64_t bytes) {
    struct chunk *chunk = segment->first->node.queue == queue ? segment->first : NULL;
    for (; chunk != NULL; chunk = chunk->behind) {
        if (chunk->unmapped) {
            bool before = chunk->before != NULL && !chunk->before->taken;
            struct chunk *from = before ? chunk->before : chunk;
            if (has_room(from, bytes)) {
                return from;
            }
        }
    }
    return NULL;
}

/* Maps pages for the first `bytes` of an unmapped chunk, joins it to free neighbours and returns
   what it became; that is in the tree. */
static vram_status map_chunk(struct expandable *all, struct chunk *chunk, uint64_t bytes,
                             struct chunk **mapped) {
    struct page_range *segment = chunk->segment;
    uint64_t pages = (bytes + segment->page_bytes - 1) / segment->page_bytes;
    bytes = pages * segment->page_bytes;
    if (bytes < chunk->node.bytes && chunk_cut(chunk, bytes) == NULL) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = page_range_map(segment, chunk->node.addr, (uint32_t)pages, NULL, 0);
    if (status != VRAM_OK) {
        join(all, chunk);
        return status;
    }
    chunk->unmapped = false;
    chunk = join(all, chunk);
    put_free(all, chunk);
    *mapped = chunk;
    return VRAM_OK;
}

/* Maps until a free chunk has `bytes`; a failure leaves what was mapped as free chunks. */
static vram_status expand(struct expandable *all, bool small, uint32_t queue, uint64_t bytes,
                          struct chunk **found) {
    struct chunk *chunk = NULL;
    vram_status status = VRAM_OK;
    for (struct page_range *at = all->segments[small]; at != NULL && chunk == NULL; at = at->next) {
        chunk = room_find(at, queue, bytes);
    }
    if (chunk == NULL) {
        struct page_range *made;
        status = make_segment(all, small, queue, bytes, &made);
        if (status != VRAM_OK) {
            return status;
        }
        chunk = made->first;
    }
    while (status == VRAM_OK && (chunk->unmapped || chunk->node.bytes < bytes)) {
        struct chunk *next = chunk->unmapped ? chunk : chunk->behind;
        uint64_t missing = chunk->unmapped ? bytes : bytes - chunk->node.bytes;
        missing = missing < next->node.bytes ? missing : next->node.bytes;
        status = map_chunk(all, next, missing, &chunk);
    }
    if (status == VRAM_OK) {
        take_out(all, chunk);
        *found = chunk;
    }
    return status;
}

/* ---------------------------------------------------------------- giving back */

/* Unmaps the whole pages of a free chunk; what is left at its ends stays free. */
static void unmap_chunk(struct expandable *all, struct chunk *chunk) {
    struct page_range *segment = chunk->segment;
    vram_addr first, end = chunk->node.addr + chunk->node.bytes;
    uint32_t pages = page_range_whole(segment, chunk, &first);
    uint64_t bytes = page_range_unmap(segment, first, pages, NULL) * segment->page_bytes;
    if (bytes == 0) {
        return;
    }
    take_out(all, chunk);
    struct chunk *middle = chunk_carve(chunk, first, bytes);
    if (middle == NULL) { /* no host memory: nobody gets these addresses any more */
        chunk->taken = true;
        return;
    }
    if (middle != chunk) {
        put_free(all, chunk);
    }
    if (first + bytes < end) {
        put_free(all, middle->behind);
    }
    middle->unmapped = true;
    join(all, middle);
}

/* Keeps (6). The driver must not be given what a queue still works on. */
static vram_status release_all(struct expandable *all) {
    vram_status status = chunk_waits_settle(&all->waits, true);
    if (status == VRAM_OK) {
        status = place_wait(all->place, UINT64_MAX);
    }
    for (int i = 0; i < 2 && status == VRAM_OK; i++) {
        struct size_node *next;
        for (struct size_node *node = size_tree_next(&all->pools[i], NULL); node != NULL;
             node = next) {
            next = size_tree_next(&all->pools[i], node); /* ends of chunks have no whole page */
            unmap_chunk(all, (struct chunk *)node);
        }
    }
    return status;
}

/* ----------------------------------------------------------------- operations */

static uint64_t expandable_bytes(const struct size_node *node) {
    const struct chunk *chunk = (const struct chunk *)node, *behind = chunk->behind;
    return node->bytes + (behind != NULL && behind->unmapped ? behind->node.bytes : 0);
}

/* Keeps (3). */
static struct chunk *fit(struct expandable *all, bool small, uint32_t queue, uint64_t bytes) {
    struct size_tree *pool = &all->pools[small];
    struct size_node *node = size_tree_fit(pool, queue, bytes), *next = NULL;
    while (node != NULL && (next = size_tree_next(pool, node)) != NULL && next->queue == queue &&
           expandable_bytes(next) < expandable_bytes(node)) {
        node = next;
    }
    if (node != NULL) {
        size_tree_remove(pool, node);
    }
    return (struct chunk *)node;
}

static vram_status find(struct expandable *all, uint64_t bytes, uint32_t queue,
                        struct chunk **found) {
    bool small = bytes <= small_max;
    *found = fit(all, small, queue, bytes);
    if (*found != NULL) {
        return VRAM_OK;
    }
    vram_status status = expand(all, small, queue, bytes, found);
    if (vram_status_is_exhausted(status) && status != VRAM_ERR_HOST_MEMORY) {
        status = release_all(all);
        if (status == VRAM_OK) {
            status = expand(all, small, queue, bytes, found);
        }
    }
    return status;
}

static vram_status alloc(void *state, uint64_t bytes, uint32_t queue, struct replay_block *block) {
    struct expandable *all = state;
    struct chunk *chunk = NULL;
    if (bytes == 0) {
        return VRAM_OK;
    }
    if (bytes > UINT64_MAX - round_bytes) {
        return VRAM_ERR_OVERFLOW;
    }
    bytes = (bytes + round_bytes - 1) / round_bytes * round_bytes;
    vram_status status = chunk_waits_settle(&all->waits, false);
    if (status == VRAM_OK) {
        status = find(all, bytes, queue, &chunk);
    }
    if (status != VRAM_OK) {
        return status;
    }
    chunk->taken = true;
    if (chunk->node.bytes > bytes) { /* both are multiples of 512 */
        struct chunk *rest = chunk_cut(chunk, bytes);
        if (rest == NULL) {
            give_back(all, chunk);
            return VRAM_ERR_HOST_MEMORY;
        }
        put_free(all, rest);
    }
    block->addr = chunk->node.addr;
    block->note = chunk;
    return VRAM_OK;
}

static vram_status release(void *state, struct replay_block *block, uint32_t queue) {
    struct expandable *all = state;
    uint64_t others = block->used_queues;
    if (block->note == NULL) {
        return VRAM_OK;
    }
    if (queue != block->queue) {
        others |= UINT64_C(1) << queue;
    }
    if (others != 0) {
        return chunk_waits_add(&all->waits, block->note, others);
    }
    give_back(all, block->note);
    return VRAM_OK;
}

/* ---------------------------------------------------------------------- policy */

static vram_status begin(struct place *place, void **state) {
    struct expandable *all = calloc(1, sizeof *all);
    if (all == NULL) {
        return VRAM_ERR_HOST_MEMORY;
    }
    all->place = place;
    all->waits = (struct chunk_waits){
        .place = place, .counts = &all->counts, .ready = give_back, .user = all};
    chunk_waits_begin(&all->waits);
    *state = all;
    return VRAM_OK;
}

static vram_status counts(void *state, struct policy_counts *to) {
    *to = ((struct expandable *)state)->counts;
    return VRAM_OK;
}

/* The player has freed every block. */
static void end(void *state) {
    struct expandable *all = state;
    chunk_waits_settle(&all->waits, true);
    place_wait(all->place, UINT64_MAX);
    chunk_waits_end(&all->waits);
    for (int i = 0; i < 2; i++) {
        for (struct page_range *next; all->segments[i] != NULL; all->segments[i] = next) {
            next = all->segments[i]->next;
            page_range_destroy(all->segments[i]);
        }
    }
    free(all);
}

const struct policy policy_expandable = {
    .name = "expandable",
    .needs_vmm = true,
    .begin = begin,
    .alloc = alloc,
    .free = release,
    .counts = counts,
    .end = end,
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arena.c: memory for metadata that is freed together, and memory that keeps one type for ever.
 *
 *   arena:   chunks -> [header | used ... | free ... ] -> [header | full] -> [header | one big] ->
 *            NULL
 *   stable:  blocks -> [object | object | ... | fresh ... fresh | link] -> [ ... | link] -> NULL
 */
#include "base/arena.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/size.h"

#include <assert.h>
#include <string.h>

/* ---------------------------------------------------------------------- arena */

#define CHUNK_BYTES 4096 /* of an ordinary chunk, the header included */

struct vr_arena_chunk {
    struct vr_arena_chunk *next; /* allocated before this one */
    size_t bytes;                /* of data */
    char data[];
};

/* Where the next object starts in `chunk`, of which `used` bytes are taken; false if it does not
   fit. */
static bool chunk_place(const struct vr_arena_chunk *chunk, size_t used, size_t bytes, size_t align,
                        size_t *start) {
    size_t rest = ((uintptr_t)chunk->data + used) % align;
    size_t at = used + (rest ? align - rest : 0);
    if (!vr_inside(at, bytes, 0, chunk->bytes)) {
        return false;
    }
    *start = at;
    return true;
}

/* An object that would take most of an ordinary chunk gets a chunk of its own, linked behind the
   newest one, whose free bytes stay in use. */
static void *alloc_alone(struct vr_arena *arena, struct vr_arena_chunk *chunk, size_t align) {
    size_t start = 0;
    bool fits = chunk_place(chunk, 0, 1, align, &start);
    assert(fits);
    (void)fits;
    if (arena->chunks) {
        chunk->next = arena->chunks->next;
        arena->chunks->next = chunk;
    } else {
        arena->chunks = chunk;
        arena->used = chunk->bytes;
    }
    return chunk->data + start;
}

static struct vr_arena_chunk *chunk_alloc(struct vr_arena *arena, uint64_t data_bytes,
                                          const char *operation) {
    uint64_t total = sizeof(struct vr_arena_chunk) + data_bytes;
    struct vr_arena_chunk *chunk = vr_mem_alloc(1, (size_t)total, operation);
    if (chunk) {
        chunk->bytes = (size_t)data_bytes;
        arena->total += (size_t)total;
    }
    return chunk;
}

void *vr_arena_alloc(struct vr_arena *arena, size_t bytes, size_t align, const char *operation) {
    assert(vr_is_power_of_two(align) && align <= 4096);
    bytes = bytes ? bytes : 1;
    size_t start = 0;
    if (arena->chunks && chunk_place(arena->chunks, arena->used, bytes, align, &start)) {
        arena->used = start + bytes;
        return arena->chunks->data + start;
    }
    uint64_t most; /* an aligned object fits into this at any address of the chunk */
    if (!vr_add(bytes, align + sizeof(struct vr_arena_chunk), &most)) {
        vr_fail_in(VRAM_ERR_OVERFLOW, operation, "%zu bytes of metadata overflow the address space",
                   bytes);
        return NULL;
    }
    most -= sizeof(struct vr_arena_chunk);
    uint64_t ordinary = CHUNK_BYTES - sizeof(struct vr_arena_chunk);
    struct vr_arena_chunk *chunk =
        chunk_alloc(arena, most > ordinary / 2 ? most : ordinary, operation);
    if (!chunk) {
        return NULL;
    }
    if (most > ordinary / 2) {
        return alloc_alone(arena, chunk, align);
    }
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    bool fits = chunk_place(chunk, 0, bytes, align, &start);
    assert(fits);
    (void)fits;
    arena->used = start + bytes;
    return chunk->data + start;
}

void vr_arena_clear(struct vr_arena *arena) {
    struct vr_arena_chunk *chunk = arena->chunks;
    while (chunk) {
        struct vr_arena_chunk *next = chunk->next;
        vr_mem_free(chunk);
        chunk = next;
    }
    *arena = (struct vr_arena){0};
}

/* --------------------------------------------------------------------- stable */

#define BLOCK_BYTES                                                                                \
    (UINT64_C(256) * VR_KIB) /* of an ordinary block; untouched pages cost nothing */

/* Takes a block from the OS. Objects are handed out in address order instead of through a free
   list: building that list would touch pages that are not needed yet. */
static vram_status stable_grow(struct vr_stable *stable, const char *operation) {
    uint64_t need = 0, bytes = 0;
    void *block = NULL;
    vram_error why;
    vram_status status = VRAM_ERR_OVERFLOW;
    if (vr_add(stable->object_bytes, sizeof(void *), &need) &&
        vr_round_up(need > BLOCK_BYTES ? need : BLOCK_BYTES, vr_os_page_bytes(), &bytes)) {
        status = vr_os_pages_alloc(bytes, &block);
    }
    if (status != VRAM_OK) {
        vr_error_save(&why);
        return vr_error_set(VRAM_ERR_HOST_MEMORY, "os", operation, why.native_code,
                            "cannot map pages for metadata: %s", why.text);
    }
    if (stable->wiped) {
        vr_os_pages_wipe(block, bytes);
    }
    memcpy((char *)block + bytes - sizeof(void *), &stable->blocks, sizeof(void *));
    stable->blocks = block;
    stable->fresh = block;
    stable->fresh_count = (size_t)((bytes - sizeof(void *)) / stable->object_bytes);
    stable->page_bytes += bytes;
    return VRAM_OK;
}

void *vr_stable_take(struct vr_stable *stable, const char *operation) {
    assert(stable->object_bytes >= sizeof(void *));
    void *object = NULL;
    vr_mutex_lock(&stable->lock);
    if (stable->free) {
        object = stable->free;
        memcpy(&stable->free, object, sizeof(void *));
    } else if (stable->fresh_count || stable_grow(stable, operation) == VRAM_OK) {
        object = stable->fresh;
        stable->fresh += stable->object_bytes;
        stable->fresh_count--;
    }
    vr_mutex_unlock(&stable->lock);
    return object;
}

void vr_stable_give(struct vr_stable *stable, void *object) {
    vr_mutex_lock(&stable->lock);
    memcpy(object, &stable->free, sizeof(void *));
    stable->free = object;
    vr_mutex_unlock(&stable->lock);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.h: one request for memory.
 */
#ifndef VR_REQUEST_H
#define VR_REQUEST_H

#include "core/object/pool_object.h"

/* Of vr_request.flags, beside vram_alloc_flag. */
enum {
    VR_REQUEST_AHEAD = 1u << 30,  /* the block is prepared for later use */
    VR_REQUEST_CHOSEN = 1u << 29, /* the caller chose other memory: not counted as a fallback */
    VR_REQUEST_MOVED = 1u << 28   /* existing contents move to other memory: not counted either */
};

struct vr_provided; /* cache/provided.h */

struct vr_request {
    uint64_t size;                        /* as requested */
    uint64_t bytes;                       /* rounded */
    uint64_t align;                       /* 0: that of all blocks */
    struct vr_queue_id queue;             /* 0: none */
    struct vr_queue_object *queue_object; /* pinned by the caller; NULL: none */
    uint32_t flags;                       /* vram_alloc_flag */
    bool try_cache;                       /* the thread's cache was not searched yet */
    struct vr_tag *tag;                   /* NULL: none */
    uint64_t reserve;                     /* addresses to keep behind it: vr_want.reserve */
    struct vr_block *behind; /* a live block, `growing`, directly in front of it; NULL: none */
    const char *name;        /* label; NULL: none */
    uint64_t elements;       /* label; 0: not given */
    uint32_t record;         /* number of its prepared tracking record; 0: none; pool_tracking.h */
    uint32_t stack;          /* number of the call stack; 0: not known */
    uint32_t other;          /* vram_fallback: take the first of these, not the pool's own memory */
    const struct vr_provided *provided; /* take its memory instead, not the pool's; NULL: none */
    bool *missed; /* set if the driver is called for its memory; NULL: not asked */
};

/* A block that can grow is placed among the large ones, whatever its size. */
static inline enum vr_pool_part vr_request_part(const struct vr_request *request) {
    return request->behind    ? (enum vr_pool_part)request->behind->part
           : request->reserve ? VR_PART_LARGE
                              : vr_part_of(request->bytes);
}

/* Whether it is for other memory than the pool's own. */
static inline bool vr_request_is_other(const struct vr_request *request) {
    return request->other || request->provided;
}

/* Notes that the driver is called for its memory: the request is a miss. */
static inline void vr_request_miss(const struct vr_request *request) {
    if (request->missed) {
        *request->missed = true;
    }
}

/* The space of its block. */
static inline struct vr_space *vr_request_space(const struct vr_pool *pool,
                                                const struct vr_request *request) {
    return pool->spaces[vr_request_part(request)];
}

#endif

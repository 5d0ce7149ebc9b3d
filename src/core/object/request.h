/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.h: what one request for memory is about.
 */
#ifndef VR_REQUEST_H
#define VR_REQUEST_H

#include "core/object/pool_object.h"

/* Of vr_request.flags, beside vram_alloc_flag. */
enum {
    VR_REQUEST_AHEAD = 1u << 30, /* nobody uses the block, it is prepared */
    VR_REQUEST_WISHED =
        1u << 29,               /* other memory is what was asked for, and counts as no fallback */
    VR_REQUEST_MOVED = 1u << 28 /* contents fall back that had a place: no fallback more */
};

/* What one request is about. */
struct vr_request {
    uint64_t size;                        /* as asked for */
    uint64_t bytes;                       /* rounded */
    uint64_t align;                       /* 0: as all blocks are */
    struct vr_queue_id queue;             /* 0: none */
    struct vr_queue_object *queue_object; /* pinned by the caller; NULL: none */
    uint32_t flags;                       /* vram_alloc_flag */
    bool try_cache;                       /* came with options: no cache has been looked into yet */
    struct vr_tag *tag;                   /* NULL: none */
    uint64_t reserve;                     /* addresses to keep behind it: vr_want.room */
    struct vr_block
        *behind;       /* a live block that it is to follow without a gap; `growing`; NULL: none */
    const char *name;  /* label; NULL: none */
    uint64_t elements; /* label; 0: not said */
    uint32_t record;   /* that was prepared; 0: none; pool_tracking.h */
    uint32_t stack;    /* who asks; 0: not known */
    uint32_t other;    /* vram_fallback: not of the pool's own memory but of the first of these */
};

/* What is to grow lies among the large ones, whatever its size. */
static inline enum vr_pool_part vr_request_part(const struct vr_request *request) {
    return request->behind    ? (enum vr_pool_part)request->behind->part
           : request->reserve ? VR_PART_LARGE
                              : vr_part_of(request->bytes);
}

/* Where its block will lie. */
static inline struct vr_space *vr_request_space(const struct vr_pool *pool,
                                                const struct vr_request *request) {
    return pool->spaces[vr_request_part(request)];
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * provided.h: memory of a provider of the program's (vram_provider), in the address map.
 */
#ifndef VR_PROVIDED_H
#define VR_PROVIDED_H

#include "core/object/pool_object.h"

/* What is asked for it, beside the bytes. */
struct vr_provided {
    const struct vram_provider *provider;
    vram_memory_kind kind; /* that it serves */
    vr_extent_fn *extent;  /* of the record; NULL: the memory is one block */
};

/* VRAM_ERR_INVALID for a provider that no call can use; NULL is allowed. */
vram_status vr_provided_check(const struct vram_provider *provider);
/* Its granule, also where the provider leaves it to the library. */
uint64_t vr_provided_granule(const struct vram_provider *provider);

/* Takes `bytes`, a multiple of the granule, and enters them in the address map for the pool. No
   lock held, as for the next. */
vram_status vr_provided_take(struct vr_pool *pool, const struct vr_provided *source, uint64_t bytes,
                             struct vr_record **record);
vram_status vr_provided_release(const struct vram_provider *provider, vram_addr addr,
                                uint64_t bytes);

#endif

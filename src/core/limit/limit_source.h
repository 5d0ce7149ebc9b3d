/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limit_source.h: which setting a limit in force comes from, so that messages name the one that
 * helps.
 */
#ifndef VR_LIMIT_SOURCE_H
#define VR_LIMIT_SOURCE_H

#include "core/limit/budget.h"

struct vr_limit_source {
    const char *name;   /* "hard_bytes of the pool", "VRAM_POOL_LIMIT"; "" if there is no limit */
    const char *advice; /* what to change, and how */
};

/* For a limit that vr_budget_get reports as the bound of the pool. No lock held. */
struct vr_limit_source vr_limit_source_of(const struct vr_pool *pool, enum vr_bound bound);

/* Writes which limit refuses a request of so many bytes. No lock held. */
void vr_limit_explain(const struct vr_pool *pool, uint64_t bytes, char *text, size_t text_bytes);

#endif

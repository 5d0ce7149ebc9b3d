/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fragmentation.c: how scattered the free memory of a pool is.
 */
#include "core/object/pool_object.h"

#include "base/error.h"

static vram_fragmentation_level level_of(double value) {
    return value >= 0.50   ? VRAM_FRAGMENTATION_HIGH
           : value >= 0.25 ? VRAM_FRAGMENTATION_MEDIUM
                           : VRAM_FRAGMENTATION_LOW;
}

void vr_pool_measure_fragmentation(struct vr_pool *pool, struct vram_fragmentation *found) {
    struct vr_survey survey;
    struct vr_space_stats space;
    vr_decay_survey(pool, false, &survey);
    *found = (struct vram_fragmentation){.size = sizeof *found,
                                         .cached_bytes = survey.all_bytes,
                                         .rare_bytes = survey.rare_bytes,
                                         .types = survey.types,
                                         .rare_types = survey.rare_types};
    vr_mutex_lock(&pool->lock);
    for (int part = 0; part < VR_PART_COUNT; part++) {
        vr_space_stats_get(pool->spaces[part], &space);
        found->free_bytes += space.hole_bytes + space.spare_bytes;
        if (space.largest_hole_bytes > found->largest_free_bytes) {
            found->largest_free_bytes = space.largest_hole_bytes;
        }
    }
    vr_mutex_unlock(&pool->lock);
    if (found->free_bytes) {
        found->scattered = 1 - (double)found->largest_free_bytes / (double)found->free_bytes;
    }
    if (found->cached_bytes) {
        found->rare = (double)found->rare_bytes / (double)found->cached_bytes;
    }
    found->level = level_of(found->scattered > found->rare ? found->scattered : found->rare);
}

double vr_pool_fragmentation(struct vr_pool *pool) {
    struct vram_fragmentation found;
    vr_pool_measure_fragmentation(pool, &found);
    return found.scattered > found.rare ? found.scattered : found.rare;
}

vram_status vram_pool_fragmentation_get(vram_pool *handle, vram_fragmentation *fragmentation) {
    VR_CALL;
    struct vram_fragmentation full;
    void *pool;
    vram_status status = vr_enter(VR_KIND_POOL, handle, &pool);
    if (status != VRAM_OK) {
        return status;
    }
    vr_pool_measure_fragmentation(pool, &full);
    status = vr_info_give(fragmentation, &full, sizeof full, sizeof full);
    vr_leave(pool);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stats_sum.c: the counters of pools summed for a device and a context, and those of a tag.
 */
#include "core/object/walk.h"
#include "core/stats/pool_stats.h"

#include "base/error.h"
#include "vram/stats.h"

#include <stddef.h>

/* Runs of counters in vram_pool_stats, from the first to the last of each: all are uint64_t. */
#define RUN(first, last)                                                                           \
    {                                                                                              \
        offsetof(struct vram_pool_stats, first),                                                   \
            offsetof(struct vram_pool_stats, last) + sizeof(((struct vram_pool_stats *)0)->last)   \
    }

static const struct {
    size_t from, to;
} runs[] = {
    RUN(requested_bytes, thread_cache_bytes),
    RUN(refusals, cleaned_bytes),
    RUN(sleeps, shared_bytes),
};

static void add_run(struct vram_pool_stats *sum, const struct vram_pool_stats *one, size_t from,
                    size_t to) {
    uint64_t *into = (uint64_t *)(void *)((char *)sum + from);
    const uint64_t *add = (const uint64_t *)(const void *)((const char *)one + from);
    for (size_t i = 0; i < (to - from) / sizeof *into; i++) {
        into[i] += add[i];
    }
}

static void add_stats(struct vram_pool_stats *sum, const struct vram_pool_stats *one) {
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        add_run(sum, one, runs[i].from, runs[i].to);
    }
    if (one->last_cleanup_ns.known &&
        (!sum->last_cleanup_ns.known || one->last_cleanup_ns.value > sum->last_cleanup_ns.value)) {
        sum->last_cleanup_ns = one->last_cleanup_ns;
    }
}

/* Sums the pools of a device, or with slot NULL of all devices of the context. */
static void add_pools(struct vr_context *context, const struct vr_slot *slot,
                      struct vram_pool_stats *sum) {
    struct vr_walk walk = {.context = context, .slot = slot};
    for (struct vr_pool *pool; (pool = vr_walk_next(&walk)); vr_leave(pool)) {
        struct vram_pool_stats one = {.size = sizeof one};
        vr_stats_of_pool(pool, &one);
        add_stats(sum, &one);
    }
}

/* ------------------------------------------------------------------- devices */

/* Open scopes of peaks of a device or of the whole context. */
static uint64_t scopes_at(struct vr_context *context, void *const *place) {
    vr_mutex_lock(&context->lock);
    const struct vr_peak_stack *stack = *place;
    uint64_t scopes = stack ? stack->depth : 0;
    vr_mutex_unlock(&context->lock);
    return scopes;
}

void vr_stats_of_device(struct vr_device_object *device, struct vram_pool_stats *stats) {
    struct vr_ledger *ledger = vr_ledger_of(device);
    add_pools(device->context, device->slot, stats);
    stats->peak_scopes = scopes_at(device->context, &device->slot->peaks);
    stats->reserved_bytes = vr_load(&device->slot->charged_bytes, VR_RELAXED);
    stats->peak_reserved_bytes = vr_load(&device->slot->charged_peak, VR_RELAXED);
    stats->peak_requested_bytes = vr_load(&device->slot->requested.peak, VR_RELAXED);
    if (ledger) {
        uint64_t most = vr_limit_device_bytes(device, ledger);
        stats->budget_bytes = (vram_value){most != UINT64_MAX ? most : 0, most != UINT64_MAX};
    }
    vr_stats_derive(stats);
}

vram_status vram_device_stats_get(vram_device *handle, vram_pool_stats *stats) {
    VR_CALL;
    struct vram_pool_stats full = {.size = sizeof full};
    void *device;
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status != VRAM_OK) {
        return status;
    }
    vr_stats_of_device(device, &full);
    status = vr_info_give(stats, &full, sizeof full, sizeof full);
    vr_leave(device);
    return status;
}

/* ------------------------------------------------------------------- contexts */

void vr_stats_of_context(struct vr_context *context, struct vram_pool_stats *stats) {
    add_pools(context, NULL, stats);
    stats->reserved_bytes = vr_load(&context->charged.now, VR_RELAXED);
    stats->peak_reserved_bytes = vr_load(&context->charged.peak, VR_RELAXED);
    stats->peak_requested_bytes = vr_load(&context->requested.peak, VR_RELAXED);
    stats->peak_scopes = scopes_at(context, &context->peaks);
    vr_stats_derive(stats);
}

vram_status vram_context_stats_get(vram_context *handle, vram_pool_stats *stats) {
    VR_CALL;
    struct vram_pool_stats full = {.size = sizeof full};
    void *context;
    vram_status status = vr_enter(VR_KIND_CONTEXT, handle, &context);
    if (status != VRAM_OK) {
        return status;
    }
    vr_stats_of_context(context, &full);
    status = vr_info_give(stats, &full, sizeof full, sizeof full);
    vr_leave(context);
    return status;
}

/* ----------------------------------------------------------------------- tags */

/* Sums the tags below it: a block counts for its own tag only, except for its bytes. */
static struct vram_pool_stats stats_of_tag(struct vr_ledger *ledger, const struct vr_tag *tag) {
    struct vram_pool_stats sum = {.size = sizeof sum};
    for (struct vr_tag *at = vr_load(&ledger->tags.newest, VR_ACQUIRE); at; at = at->older) {
        if (vr_tag_is_within(at, tag->name)) {
            sum.requested_bytes += vr_load(&at->requested, VR_RELAXED);
            sum.allocs += vr_load(&at->allocs, VR_RELAXED);
            sum.frees += vr_load(&at->frees, VR_RELAXED);
            sum.quota_refusals += vr_load(&at->refusals, VR_RELAXED);
            sum.quota_crossings += vr_load(&at->crossings, VR_RELAXED);
        }
    }
    uint64_t hard = vr_load(&tag->hard, VR_RELAXED);
    sum.allocated_bytes = vr_load(&tag->used, VR_RELAXED);
    sum.peak_allocated_bytes = vr_load(&tag->peak, VR_RELAXED);
    sum.limit_refusals = sum.refusals = sum.quota_refusals;
    sum.budget_bytes = (vram_value){hard, hard != 0};
    vr_stats_derive(&sum);
    return sum;
}

vram_status vram_tag_stats_get(vram_device *handle, const char *name, vram_pool_stats *stats) {
    VR_CALL;
    void *device;
    if (!name) {
        return vr_fail(VRAM_ERR_INVALID, "the tag is NULL");
    }
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_ledger *ledger = vr_ledger_of(device);
    const struct vr_tag *tag = ledger ? vr_tag_find(ledger, name) : NULL;
    if (tag) {
        struct vram_pool_stats full = stats_of_tag(ledger, tag);
        status = vr_info_give(stats, &full, sizeof full, sizeof full);
    } else {
        status = vr_fail(VRAM_ERR_INVALID, "no tag \"%.48s\" is known on this device", name);
    }
    vr_leave(device);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tag_quota.c: setting quotas of tags, calling the handler, and reading the accounts of tags.
 */
#include "core/limit/tag.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "core/limit/limit.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------- setting */

/* Enters the device, which the caller leaves, and gets its ledger. */
static vram_status ledger_enter(vram_device *handle, struct vr_device_object **device,
                                struct vr_ledger **ledger) {
    void *entered;
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    *device = entered;
    *ledger = vr_ledger_get(entered);
    if (!*ledger) {
        status = vr_error_get()->status;
        vr_leave(entered);
    }
    return status;
}

vram_status vram_tag_quota_set(vram_device *handle, const char *name, uint64_t soft_bytes,
                               uint64_t hard_bytes) {
    VR_CALL;
    struct vr_device_object *device;
    struct vr_ledger *ledger;
    struct vr_tag *tag;
    if (!name) {
        return vr_fail(VRAM_ERR_INVALID, "the tag is NULL");
    }
    vram_status status = ledger_enter(handle, &device, &ledger);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_quota_check(soft_bytes, hard_bytes);
    if (status == VRAM_OK) {
        status = vr_tag_get(ledger, name, &tag);
    }
    if (status == VRAM_OK) {
        vr_mutex_lock(&ledger->lock);
        tag->set_soft = soft_bytes;
        tag->set_hard = hard_bytes;
        vr_quota_enforce(tag);
        vr_mutex_unlock(&ledger->lock);
        uint64_t used = vr_load(&tag->used, VR_RELAXED), hard = vr_load(&tag->hard, VR_RELAXED);
        if (hard && used > hard) {
            status = vr_fail(VRAM_ERR_LIMIT,
                             "tag \"%.80s\" has %llu bytes and its quota is now %llu: the quota is "
                             "in force, and allocations fail until the tag has fewer",
                             tag->name, (unsigned long long)used, (unsigned long long)hard);
        }
    }
    vr_leave(device);
    return status;
}

vram_status vram_tag_handler_set(vram_device *handle, vram_tag_fn *handler, void *user) {
    VR_CALL;
    struct vr_device_object *device;
    struct vr_ledger *ledger;
    vram_status status = ledger_enter(handle, &device, &ledger);
    if (status == VRAM_OK) {
        vr_mutex_lock(&ledger->lock);
        ledger->tags.handler = handler;
        ledger->tags.handler_user = user;
        vr_mutex_unlock(&ledger->lock);
        vr_leave(device);
    }
    return status;
}

/* ----------------------------------------------------------------- notifying */

static _Thread_local bool inside; /* a handler that crosses a quota is not called again */

void vr_tag_notify(struct vr_device_object *device, struct vr_pool *pool, struct vr_tag *tag,
                   uint32_t crossed) {
    struct vr_ledger *ledger = vr_ledger_of(device);
    for (struct vr_tag *at = tag; at && crossed; at = at->parent, crossed >>= 1) {
        if (!(crossed & 1)) {
            continue;
        }
        vr_fetch_add(&at->crossings, 1, VR_RELAXED);
        if (pool) {
            vr_counter_add(&pool->counters.quota_crossings, 1);
        }
        vr_mutex_lock(&ledger->lock);
        vram_tag_fn *handler = ledger->tags.handler;
        void *user = ledger->tags.handler_user;
        vr_mutex_unlock(&ledger->lock);
        if (handler && !inside) {
            struct vram_tag_event event = {
                .size = sizeof event,
                .device = (vram_device *)(uintptr_t)device->object.handle,
                .tag = at->name,
                .used_bytes = vr_load(&at->used, VR_RELAXED),
                .soft_bytes = vr_load(&at->soft, VR_RELAXED),
                .hard_bytes = vr_load(&at->hard, VR_RELAXED),
            };
            VR_UNCANCELLED;
            inside = true;
            handler(user, &event);
            inside = false;
        }
    }
}

/* ------------------------------------------------------------------- reading */

static struct vram_tag_info info_of(const struct vr_tag *tag) {
    uint64_t frees = vr_load(&tag->frees, VR_RELAXED), allocs = vr_load(&tag->allocs, VR_RELAXED);
    return (struct vram_tag_info){
        .size = sizeof(struct vram_tag_info),
        .name = tag->name,
        .used_bytes = vr_load(&tag->used, VR_RELAXED),
        .own_bytes = vr_load(&tag->own, VR_RELAXED),
        .requested_bytes = vr_load(&tag->requested, VR_RELAXED),
        .peak_bytes = vr_load(&tag->peak, VR_RELAXED),
        .live_blocks = allocs > frees ? allocs - frees : 0,
        .allocs = allocs,
        .soft_bytes = vr_load(&tag->soft, VR_RELAXED),
        .hard_bytes = vr_load(&tag->hard, VR_RELAXED),
        .crossings = vr_load(&tag->crossings, VR_RELAXED),
        .refusals = vr_load(&tag->refusals, VR_RELAXED),
    };
}

/* Most bytes first, then by name. */
static int compare_tags(const void *a, const void *b) {
    const struct vram_tag_info *one = a, *other = b;
    if (one->used_bytes != other->used_bytes) {
        return one->used_bytes > other->used_bytes ? -1 : 1;
    }
    return strcmp(one->name, other->name);
}

uint32_t vr_tags_top(const struct vr_device_object *device, struct vram_tag_info *infos,
                     uint32_t capacity) {
    struct vr_ledger *ledger = vr_ledger_of(device);
    struct vr_tag *tag = ledger ? vr_load(&ledger->tags.newest, VR_ACQUIRE) : NULL;
    uint32_t count = 0;
    for (; tag; tag = tag->older) {
        struct vram_tag_info info = info_of(tag);
        uint32_t at = count;
        while (at > 0 && compare_tags(&info, &infos[at - 1]) < 0) {
            at--;
        }
        if (at < capacity) {
            uint32_t last = count < capacity ? count++ : capacity - 1;
            memmove(&infos[at + 1], &infos[at], (last - at) * sizeof *infos);
            infos[at] = info;
        }
    }
    return count;
}

void vr_tags_live(const struct vr_device_object *device, const char *name, uint64_t *bytes,
                  uint64_t *blocks) {
    struct vr_ledger *ledger = vr_ledger_of(device);
    struct vr_tag *tag = ledger ? vr_load(&ledger->tags.newest, VR_ACQUIRE) : NULL;
    *bytes = *blocks = 0;
    for (; tag; tag = tag->older) {
        if (!name || vr_tag_is_within(tag, name)) {
            struct vram_tag_info info = info_of(tag);
            *bytes += info.own_bytes;
            *blocks += info.live_blocks;
        }
    }
}

uint32_t vram_tag_count(vram_device *handle) {
    VR_CALL;
    void *device;
    uint32_t count = 0;
    if (vr_enter(VR_KIND_DEVICE, handle, &device) != VRAM_OK) {
        return 0;
    }
    struct vr_ledger *ledger = vr_ledger_of(device);
    if (ledger) {
        vr_mutex_lock(&ledger->lock);
        count = ledger->tags.count;
        vr_mutex_unlock(&ledger->lock);
    }
    vr_leave(device);
    return count;
}

/* Reads tag number `rank` in the order of compare_tags. */
static vram_status rank_of(struct vr_ledger *ledger, uint32_t rank, struct vram_tag_info *info) {
    vr_mutex_lock(&ledger->lock);
    uint32_t capacity = ledger->tags.count, count = 0;
    struct vr_tag *tag = vr_load(&ledger->tags.newest, VR_ACQUIRE);
    vr_mutex_unlock(&ledger->lock);
    if (rank >= capacity) {
        return vr_fail(VRAM_ERR_INVALID, "there are %u tags and no number %u", capacity, rank);
    }
    struct vram_tag_info *all = vr_mem_alloc(capacity, sizeof *all, vr_operation());
    if (!all) {
        return VRAM_ERR_HOST_MEMORY;
    }
    for (; tag && count < capacity; tag = tag->older) {
        all[count++] = info_of(tag);
    }
    qsort(all, count, sizeof *all, compare_tags);
    *info = all[rank];
    vr_mem_free(all);
    return VRAM_OK;
}

vram_status vram_tag_info_at(vram_device *handle, uint32_t rank, vram_tag_info *info) {
    VR_CALL;
    struct vr_device_object *device;
    struct vr_ledger *ledger;
    struct vram_tag_info full;
    vram_status status = ledger_enter(handle, &device, &ledger);
    if (status != VRAM_OK) {
        return status;
    }
    status = rank_of(ledger, rank, &full);
    if (status == VRAM_OK) {
        status = vr_info_give(info, &full, sizeof full, sizeof full);
    }
    vr_leave(device);
    return status;
}

vram_status vram_tag_info_get(vram_device *handle, const char *name, vram_tag_info *info) {
    VR_CALL;
    struct vr_device_object *device;
    struct vr_ledger *ledger;
    if (!name) {
        return vr_fail(VRAM_ERR_INVALID, "the tag is NULL");
    }
    vram_status status = ledger_enter(handle, &device, &ledger);
    if (status != VRAM_OK) {
        return status;
    }
    const struct vr_tag *tag = vr_tag_find(ledger, name);
    if (tag) {
        struct vram_tag_info full = info_of(tag);
        status = vr_info_give(info, &full, sizeof full, sizeof full);
    } else {
        status = vr_fail(VRAM_ERR_INVALID, "no tag \"%.48s\" is known on this device", name);
    }
    vr_leave(device);
    return status;
}

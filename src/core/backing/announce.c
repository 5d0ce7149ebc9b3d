/* SPDX-License-Identifier: Apache-2.0 */
/*
 * announce.c: the receiver of events that passes blocks on to a tool. See announce.h.
 */
#include "core/backing/announce.h"

#include "base/clock.h"
#include "base/option.h"
#include "core/cache/drain.h"
#include "device/device_calls.h"
#include "track/event.h"
#include "track/nvtx.h"

#define ANNOUNCE_WAIT_NS UINT64_C(1000000000)

/* What is left of the time until `deadline`. */
static uint64_t left_until(uint64_t deadline) {
    uint64_t now = vr_clock_now();
    return now < deadline ? deadline - now : 0;
}

/* Keeps (3). The caller has claimed the block. */
static void work_wait(struct vr_pool *pool, const struct vr_event *event) {
    uint64_t deadline = vr_clock_now() + ANNOUNCE_WAIT_NS;
    if (event->queue) {
        (void)vr_queue_wait((vram_queue *)(uintptr_t)event->queue, left_until(deadline));
    }
    for (const struct vr_uses *use = vr_pool_uses(pool, event->block); use; use = use->next) {
        (void)vr_queue_wait(vr_queue_id_handle(use->stamp.queue), left_until(deadline));
    }
}

/* The tool's heap at an address; 0: none, as for memory that a block fell back to. */
static uint64_t heap_at(uint64_t addr) {
    struct vr_address_info place;
    return vr_address_find(addr, &place) ? vr_load(&place.record->heap, VR_ACQUIRE) : 0;
}

/* What a tool is told: of a block by its event, or of a segment. */
struct announcement {
    const struct vr_event *event;
    uint64_t heap, addr, bytes;
};

static void heap_begin(void *user) {
    struct announcement *told = user;
    told->heap = vr_nvtx_heap_begin(told->addr, told->bytes);
}

static void block_tell(void *user) {
    const struct announcement *told = user;
    const struct vr_event *event = told->event;
    if (event->kind == VR_EVENT_ALLOC) {
        vr_nvtx_block_begin(told->heap, event->addr, event->bytes, event->name);
    } else if (event->kind == VR_EVENT_RESIZE) {
        vr_nvtx_block_resize(event->addr, event->bytes);
    } else if (event->kind == VR_EVENT_FREE) {
        vr_nvtx_block_end(event->addr);
    }
}

static void heap_end(void *user) {
    const struct announcement *told = user;
    vr_nvtx_heap_end(told->heap);
}

/* Keeps (4). */
static void tool_call(const struct vr_pool *pool, void (*call)(void *user),
                      struct announcement *told) {
    pool->device->base.within(&pool->device->base, call, told);
}

void vr_announce_segment(const struct vr_pool *pool, struct vr_record *record, uint64_t addr,
                         uint64_t bytes) {
    struct announcement told = {.addr = addr, .bytes = bytes};
    if (pool->announced) {
        tool_call(pool, heap_begin, &told);
        vr_store(&record->heap, told.heap, VR_RELEASE);
    }
}

void vr_announce_segment_end(const struct vr_pool *pool, struct vr_record *record) {
    struct announcement told = {.heap = vr_exchange(&record->heap, 0, VR_ACQ_REL)};
    if (told.heap) {
        tool_call(pool, heap_end, &told);
    }
}

static void event_announce(void *user, const struct vr_event *event) {
    struct vr_pool *pool = event->source;
    (void)user;
    if (event->kind == VR_EVENT_TRANSFER || !pool->announced) {
        return;
    }
    struct announcement told = {.event = event, .heap = heap_at(event->addr)};
    if (told.heap) {
        if (event->kind == VR_EVENT_FREE) {
            work_wait(pool, event);
        }
        tool_call(pool, block_tell, &told);
    }
}

bool vr_announce_begin(const struct vr_pool *pool, const struct vram_pool_options *options) {
    uint32_t others = VRAM_POOL_SHAREABLE | VRAM_POOL_SHARE_GROUP;
    if (!VR_TRACKER || !pool->device->base.within || options->provider ||
        pool->kind != VRAM_MEMORY_DEVICE || options->flags & others ||
        vr_guard_modes(pool, options) || !vr_option_number(VR_OPTION_NVTX) || !vr_nvtx_wanted()) {
        return false;
    }
    vr_events_also_to(event_announce);
    return true;
}

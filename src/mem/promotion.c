/* SPDX-License-Identifier: Apache-2.0 */
/*
 * promotion.c: moves buffers of the kind fallback, with contents, between device and host memory.
 *
 * A move keeps buffer_object.h (3): new memory, order, copy, installation, and then the old memory
 * is freed in the order of the queue that copies. It never waits on the host. Also here: the hints
 * for managed memory, which migrates by itself.
 */
#include "mem/buffer_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/status.h"
#include "core/limit/budget.h"
#include "core/limit/limit.h"
#include "core/pressure/trim.h"
#include "device/device_calls.h"
#include "mem/mem_calls.h"
#include "track/event.h"

#include <stdlib.h>

/* ------------------------------------------------------------------- one buffer */

/* Allocates device memory. Memory that the pool's ladder fell back to is refused: moving there
   gains nothing. */
static vram_status take_device(struct vr_buffer *buffer, vram_queue *queue,
                               struct vr_buffer_memory *memory) {
    VR_OPERATION("vram_buffer_promote");
    vram_status status = vr_buffer_take_block(buffer, buffer->capacity_bytes, queue, memory);
    if (status == VRAM_OK && memory->kind != VRAM_MEMORY_DEVICE) {
        (void)vr_buffer_give(buffer, memory, queue);
        status = vr_fail(VRAM_ERR_DEVICE_MEMORY, "the device has no memory left for the buffer");
    }
    return status;
}

/* Moves the claimed buffer. A failure leaves it unchanged. */
static vram_status move_claimed(struct vr_buffer *buffer, vram_queue *queue, bool to_device) {
    struct vr_buffer_memory old = buffer->memory, memory = {0};
    vram_point point;
    vram_status status = vr_submit_mark(queue, &point); /* fails inside a capture */
    if (status != VRAM_OK) {
        return status;
    }
    status = to_device ? take_device(buffer, queue, &memory)
                       : vr_buffer_take_host(buffer, buffer->capacity_bytes, queue, &memory);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_buffer_copy(buffer, queue, &memory, &old, buffer->used_bytes);
    if (status == VRAM_OK) {
        status = vr_buffer_install(buffer, &memory, queue);
    }
    struct vram_error error;
    vr_error_save(&error);
    (void)vr_buffer_give(buffer, status == VRAM_OK ? &old : &memory, queue);
    vr_error_restore(&error);
    return status;
}

/* Counts a completed move. The buffer is claimed. */
static void count_move(struct vr_buffer *buffer, bool to_device) {
    struct vr_pool_counters *counters = &buffer->pool->counters;
    vr_counter_add(to_device ? &counters->promotions : &counters->demotions, 1);
    vr_counter_add(to_device ? &counters->promoted_bytes : &counters->demoted_bytes,
                   buffer->used_bytes);
    vr_mutex_lock(&buffer->lock);
    buffer->displaced = false;
    buffer->promotions += to_device;
    buffer->demotions += !to_device;
    vr_mutex_unlock(&buffer->lock);
}

/* The event of a move that the claimed buffer is about to make. */
static vram_buffer_event event_of(const struct vr_buffer *buffer, bool to_device) {
    return (vram_buffer_event){.size = sizeof(vram_buffer_event),
                               .buffer = (vram_buffer *)(uintptr_t)buffer->object.handle,
                               .id = buffer->id,
                               .cause = to_device ? VRAM_MOVE_PROMOTE : VRAM_MOVE_DEMOTE,
                               .from = buffer->memory.kind,
                               .bytes = buffer->used_bytes};
}

/* The buffer is entered. *bytes: the bytes moved; 0 if it was there already. */
static vram_status move_entered(struct vr_buffer *buffer, vram_queue *given, bool to_device,
                                uint64_t *bytes) {
    vram_queue *queue;
    *bytes = 0;
    if (buffer->kind != VRAM_BUFFER_FALLBACK) {
        return vr_fail(VRAM_ERR_INVALID, "only buffers of the kind fallback move, not %s",
                       vr_buffer_kind_name(buffer->kind));
    }
    if (!to_device && buffer->pool->device->base.info.caps & VRAM_CAP_INTEGRATED) {
        return vr_fail(VRAM_ERR_UNSUPPORTED,
                       "the device shares its memory with the host: moving there frees nothing");
    }
    vram_status status = vr_buffer_queue(buffer, given, &queue);
    if (status != VRAM_OK || (status = vr_buffer_claim(buffer)) != VRAM_OK) {
        return status;
    }
    vram_buffer_event event = event_of(buffer, to_device);
    bool there = (event.from == VRAM_MEMORY_DEVICE) == to_device;
    if (there) {
        vr_mutex_lock(&buffer->lock);
        buffer->displaced = false; /* by a growth that failed later */
        vr_mutex_unlock(&buffer->lock);
    } else {
        status = move_claimed(buffer, queue, to_device);
    }
    if (!there && status == VRAM_OK) {
        count_move(buffer, to_device);
        event.to = buffer->memory.kind;
        *bytes = buffer->capacity_bytes;
    }
    if (!there && status == VRAM_OK) {
        vr_memory_log(buffer->name, buffer->tag, buffer->pool->name,
                      "move: %llu bytes from %s to %s memory", (unsigned long long)event.bytes,
                      vr_memory_name(event.from), vr_memory_name(event.to));
    }
    vr_buffer_unclaim(buffer);
    if (!there && status == VRAM_OK && buffer->moved) {
        VR_UNCANCELLED;
        buffer->moved(buffer->user, &event);
    }
    return status;
}

static vram_status move_one(vram_buffer *handle, vram_queue *queue, bool to_device,
                            uint64_t *bytes) {
    struct vr_buffer *buffer;
    struct vr_pool *pool;
    struct vr_queue_object *entered;
    vram_status status = vr_buffer_enter(handle, &buffer);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_pool_enter((vram_pool *)(uintptr_t)buffer->pool_handle, queue, &pool, &entered);
    if (status == VRAM_OK) {
        status = move_entered(buffer, queue, to_device, bytes);
        vr_pool_leave(pool, entered);
    }
    return vr_buffer_finish(buffer, status);
}

vram_status vram_buffer_promote(vram_buffer *buffer, vram_queue *queue) {
    VR_CALL;
    uint64_t bytes;
    return move_one(buffer, queue, true, &bytes);
}

vram_status vram_buffer_demote(vram_buffer *buffer, vram_queue *queue) {
    VR_CALL;
    uint64_t bytes;
    return move_one(buffer, queue, false, &bytes);
}

/* ------------------------------------------------------------- returning by itself */

enum { RETURN_PAUSE_NS = 1000000000 }; /* after an attempt that failed */

/* Whether the pool could probably supply so many bytes without a shortage: from what it holds
   unused, and from what its limits and the device have left. */
static bool has_memory(struct vr_pool *pool, uint64_t bytes) {
    vr_budget_refresh(pool, false);
    uint64_t usable = vr_load(&vr_ledger_of(pool->device)->usable_bytes, VR_RELAXED);
    uint64_t charged = vr_load(&pool->device->slot->account->charged_bytes, VR_RELAXED);
    struct vr_budget budget = vr_budget_get(pool);
    uint64_t left = budget.bytes > budget.held_bytes ? budget.bytes - budget.held_bytes : 0;
    uint64_t free = usable > charged ? usable - charged : 0; /* the last sample, minus ours since */
    left = usable != UINT64_MAX && free < left ? free : left;
    vr_mutex_lock(&pool->lock);
    uint64_t unused = vr_pool_idle_bytes(pool);
    vr_mutex_unlock(&pool->lock);
    return unused >= bytes || left >= bytes - unused;
}

/* Whether the buffer was displaced and may try to return now; the attempt is then noted. */
static bool may_return(vram_buffer *handle) {
    void *entered;
    if (vr_enter(VR_KIND_BUFFER, handle, &entered) != VRAM_OK) {
        return false;
    }
    struct vr_buffer *buffer = entered;
    uint64_t now = vr_clock_now(), bytes = 0;
    vr_mutex_lock(&buffer->lock);
    if (buffer->displaced && now >= buffer->return_ns) {
        bytes = buffer->capacity_bytes;
        buffer->return_ns = now + RETURN_PAUSE_NS;
    }
    vr_mutex_unlock(&buffer->lock);
    bool may = false;
    struct vr_pool *pool =
        bytes ? vr_handle_pin(VR_KIND_POOL, (const void *)(uintptr_t)buffer->pool_handle) : NULL;
    if (pool) {
        may = has_memory(pool, bytes);
        vr_leave(pool);
    }
    if (bytes && !may) { /* that cost nothing: ask again at the next call */
        vr_mutex_lock(&buffer->lock);
        buffer->return_ns = 0;
        vr_mutex_unlock(&buffer->lock);
    }
    vr_leave(buffer);
    return may;
}

/* A displaced buffer returns to the device when its address is asked for: the program gets the new
   one from this very call. */
vram_status vram_buffer_addr(vram_buffer *handle, vram_addr *addr) {
    VR_CALL;
    struct vram_error error;
    vr_error_save(&error);
    if (addr && may_return(handle)) {
        uint64_t bytes;
        (void)move_one(handle, NULL, true, &bytes);
    }
    vr_error_restore(&error);
    return vr_buffer_addr(handle, addr);
}

/* --------------------------------------------------- all buffers of a pool */

/* A buffer that can move, as it was when the list was made. */
struct candidate {
    uint64_t handle, accessed_ns;
};

static int by_age(const void *a, const void *b) {
    const struct candidate *one = a, *two = b;
    return (one->accessed_ns > two->accessed_ns) - (one->accessed_ns < two->accessed_ns);
}

static bool could_move(struct vr_buffer *buffer, bool to_device, struct candidate *candidate) {
    vr_mutex_lock(&buffer->lock);
    bool device = buffer->memory.kind == VRAM_MEMORY_DEVICE;
    *candidate = (struct candidate){buffer->object.handle, buffer->accessed_ns};
    vr_mutex_unlock(&buffer->lock);
    return buffer->kind == VRAM_BUFFER_FALLBACK && device != to_device;
}

/* Writes at most `capacity` candidates; returns how many there are. */
static uint32_t list_candidates(struct vr_pool *pool, bool to_device, struct candidate *list,
                                uint32_t capacity) {
    uint32_t count = 0;
    vr_mutex_lock(&pool->lock);
    for (struct vr_link *link = vr_list_first(&pool->children); link;
         link = vr_list_next(&pool->children, link)) {
        struct vr_pool_child *child = VR_CONTAINER(link, struct vr_pool_child, link);
        struct vr_buffer *buffer = VR_CONTAINER(child, struct vr_buffer, child);
        struct candidate found;
        if (child->pool_ended == vr_buffer_pool_ended && could_move(buffer, to_device, &found)) {
            if (count < capacity) {
                list[count] = found;
            }
            count++;
        }
    }
    vr_mutex_unlock(&pool->lock);
    return count;
}

/* Moves one after another: least recently used first, or with `to_device` most recently used
   first. */
static vram_status move_list(const struct candidate *list, uint32_t count, bool to_device,
                             uint64_t wanted, vram_queue *queue, uint64_t *moved) {
    vram_status status = VRAM_OK;
    for (uint32_t i = 0; i < count && *moved < wanted && status == VRAM_OK; i++) {
        uint64_t handle = list[to_device ? count - 1 - i : i].handle, bytes = 0;
        struct vram_error error;
        vr_error_save(&error);
        status = move_one((vram_buffer *)(uintptr_t)handle, queue, to_device, &bytes);
        if (status == VRAM_ERR_BUSY || status == VRAM_ERR_STALE) {
            vr_error_restore(&error); /* in use, or destroyed meanwhile */
            status = VRAM_OK;
        } else if (to_device && vr_status_is_exhausted(status)) {
            vr_error_restore(&error); /* no memory for this one; a smaller one may fit */
            status = VRAM_OK;
        }
        *moved += bytes;
    }
    return status;
}

static vram_status move_many(vram_pool *handle, uint64_t wanted, vram_queue *queue, bool to_device,
                             uint64_t *moved) {
    struct vr_pool *pool;
    struct vr_queue_object *entered;
    struct candidate *list = NULL;
    vram_status status = vr_pool_enter(handle, queue, &pool, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    uint32_t count = list_candidates(pool, to_device, NULL, 0);
    if (count && !(list = vr_mem_alloc(count, sizeof *list, vr_operation()))) {
        status = VRAM_ERR_HOST_MEMORY;
    }
    if (list) {
        uint32_t found = list_candidates(pool, to_device, list, count);
        count = found < count ? found : count;
        qsort(list, count, sizeof *list, by_age);
        status = move_list(list, count, to_device, wanted, queue, moved);
    }
    vr_mem_free(list);
    vr_pool_leave(pool, entered);
    return status;
}

vram_status vram_pool_promote(vram_pool *pool, vram_queue *queue, uint64_t *bytes) {
    VR_CALL;
    uint64_t moved = 0;
    vram_status status = move_many(pool, UINT64_MAX, queue, true, &moved);
    if (status == VRAM_OK && bytes) {
        *bytes = moved;
    }
    return status;
}

vram_status vram_pool_demote(vram_pool *pool, uint64_t wanted, vram_queue *queue, uint64_t *bytes) {
    VR_CALL;
    uint64_t moved = 0;
    vram_status status = move_many(pool, wanted, queue, false, &moved);
    if (status == VRAM_OK && bytes) {
        *bytes = moved;
    }
    return status;
}

/* --------------------------------------------------------------- managed memory */

/* Enters a MANAGED buffer and shares it; *addr is its first byte. */
static vram_status enter_managed(vram_buffer *handle, struct vr_buffer **buffer, vram_addr *addr,
                                 uint64_t *bytes) {
    vram_status status = vr_buffer_enter(handle, buffer);
    if (status != VRAM_OK) {
        return status;
    }
    if ((*buffer)->kind != VRAM_BUFFER_MANAGED) {
        status = vr_fail(VRAM_ERR_INVALID, "the buffer is %s, not managed",
                         vr_buffer_kind_name((*buffer)->kind));
    } else {
        status = vr_buffer_share(*buffer);
    }
    if (status != VRAM_OK) {
        vr_buffer_leave(*buffer);
        return status;
    }
    vr_mutex_lock(&(*buffer)->lock);
    *addr = (*buffer)->memory.addr;
    *bytes = (*buffer)->used_bytes;
    vr_mutex_unlock(&(*buffer)->lock);
    return VRAM_OK;
}

static vram_status leave_managed(struct vr_buffer *buffer, vram_status status) {
    vr_buffer_unshare(buffer);
    vr_buffer_touch(buffer);
    return vr_buffer_finish(buffer, status);
}

vram_status vram_buffer_prefetch(vram_buffer *handle, uint64_t offset, uint64_t bytes,
                                 int32_t target, vram_queue *given) {
    VR_CALL;
    struct vr_buffer *buffer;
    vram_queue *queue;
    vram_addr addr;
    uint64_t used;
    vram_status status = enter_managed(handle, &buffer, &addr, &used);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_buffer_span_check(buffer, offset, bytes);
    if (status == VRAM_OK) {
        status = vr_buffer_queue(buffer, given, &queue);
    }
    void *entered;
    if (status == VRAM_OK && (status = vr_submit_enter(queue, &entered)) == VRAM_OK) {
        status = vr_submit_prefetch(queue, addr + offset, bytes, target);
        if (status == VRAM_OK && given) {
            status = vr_buffer_note(buffer, given);
        }
        vr_submit_leave(entered);
    }
    return leave_managed(buffer, status);
}

vram_status vram_buffer_advise(vram_buffer *handle, vram_advice advice, int32_t target) {
    VR_CALL;
    struct vr_buffer *buffer;
    vram_addr addr;
    uint64_t used;
    vram_status status = enter_managed(handle, &buffer, &addr, &used);
    if (status == VRAM_OK) {
        uint64_t device = buffer->pool->device->object.handle;
        status = vr_device_advise((vram_device *)(uintptr_t)device, addr, used, advice, target);
        status = leave_managed(buffer, status);
    }
    return status;
}

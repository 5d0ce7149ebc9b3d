/* SPDX-License-Identifier: Apache-2.0 */
/*
 * growth.c: buffers that grow and shrink.
 *
 *  (1) One change at a time: the buffer is claimed for it (buffer_object.h (2)).
 *  (2) In place first: vr_pool_resize leaves the block unchanged when it cannot. Else with new
 *      memory and a copy, in the order of buffer_object.h (3): a failure before the new memory is
 *      installed leaves the buffer unchanged, and the new memory is freed.
 *  (3) A resize on a queue other than the home queue is first ordered behind all work that uses the
 *      buffer. That queue then becomes its home.
 *  (4) Only used bytes are copied. A buffer's bytes count as used unless the program has set fewer.
 */
#include "core/guard/block_lookup.h"
#include "core/pool/pool_calls.h"
#include "mem/buffer_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/os/os.h"
#include "base/size.h"
#include "base/status.h"
#include "device/device_calls.h"
#include "mem/mem_calls.h"

enum {
    RESERVE_TIMES = 16,   /* most addresses, in times its size, of a buffer that has moved */
    CLAIM_WAIT_NS = 20000 /* between two looks at a buffer that other calls use */
};

/* One call. */
struct growth_call {
    struct vr_buffer *buffer;
    struct vr_queue_object *queue; /* entered; NULL: none was given */
    vram_buffer_event event;       /* size 0: the kind of memory has not changed */
    bool in_place_only;            /* the buffer must grow in place */
    bool damaged;                  /* the buffer has moved, and its old memory is damaged; */
    struct vram_error damage;      /* the error of that; the call itself did not fail */
};

/* One change of a claimed buffer. */
struct change {
    struct growth_call *call;
    struct vr_buffer *buffer;
    vram_queue *queue; /* its new home; NULL: none */
    uint64_t bytes;    /* the new capacity */
};

static vram_pool *pool_of(const struct vr_buffer *buffer) {
    return (vram_pool *)(uintptr_t)buffer->pool_handle;
}

/* ------------------------------------------------------------------- changing */

/* The given queue, or the buffer's home; NULL for a home that has ended with all its work. */
static vram_queue *queue_for(const struct vr_buffer *buffer, vram_queue *queue) {
    vram_queue *home = buffer->home;
    return queue ? queue : home && vr_handle_was(VR_KIND_QUEUE, home) ? NULL : home;
}

/* Records the new capacity. */
static void note_change(const struct change *change, bool copied, uint64_t copied_bytes) {
    struct vr_buffer *buffer = change->buffer;
    vr_mutex_lock(&buffer->lock);
    buffer->capacity_bytes = change->bytes;
    buffer->home = change->queue;
    buffer->resizes++;
    buffer->growth.in_place += !copied;
    buffer->growth.copies += copied;
    buffer->growth.copied_bytes += copied_bytes;
    vr_mutex_unlock(&buffer->lock);
}

/* Whether moving may help where resizing in place did not: memory of another kind may be free. */
static bool may_move(const struct vr_buffer *buffer, vram_status status) {
    return status == VRAM_ERR_BUSY || status == VRAM_ERR_UNSUPPORTED ||
           (vr_status_is_exhausted(status) && buffer->kind != VRAM_BUFFER_DEVICE);
}

/* Addresses to reserve behind memory of `bytes` for growth by the policy. Smaller than a granule:
   none, as copying is cheap and a reserve would occupy a whole granule. */
static uint64_t reserve_for(const struct vr_buffer *buffer, uint64_t bytes) {
    const struct vram_growth *growth = &buffer->growth.growth;
    uint64_t most;
    if (bytes < buffer->pool->granule ||
        (growth->policy == VRAM_GROWTH_FIXED && !growth->step_bytes)) {
        return 0;
    }
    most = vr_mul(bytes, RESERVE_TIMES, &most) ? most : bytes;
    most = growth->max_bytes && growth->max_bytes < most ? growth->max_bytes : most;
    return most - bytes;
}

vram_status vr_buffer_take_growing(struct vr_buffer *buffer, uint64_t bytes, vram_queue *queue,
                                   struct vr_buffer_memory *memory) {
    struct vram_alloc_options options = vr_buffer_alloc_options(buffer, bytes);
    vram_addr addr;
    options.reserve_bytes = reserve_for(buffer, bytes);
    if (buffer->kind != VRAM_BUFFER_DEVICE || buffer->provider.alloc || !options.reserve_bytes) {
        return vr_buffer_take(buffer, bytes, queue, memory);
    }
    vram_status status = vr_alloc_owned(pool_of(buffer), bytes, queue, &options, &addr);
    if (status == VRAM_OK) {
        vr_buffer_found(addr, memory);
    }
    return status;
}

/* Records the event for the program's handler, called at the end of the call, if the contents now
   lie in another kind of memory. */
static void note_kind(const struct change *change, enum vram_memory_kind from, uint64_t kept) {
    const struct vr_buffer *buffer = change->buffer;
    enum vram_memory_kind to = buffer->memory.kind;
    if (from != to) {
        change->call->event = (vram_buffer_event){
            .size = sizeof(vram_buffer_event),
            .buffer = (vram_buffer *)(uintptr_t)buffer->object.handle,
            .id = buffer->id,
            .cause = to == VRAM_MEMORY_DEVICE ? VRAM_MOVE_PROMOTE : VRAM_MOVE_FALLBACK,
            .from = from,
            .to = to,
            .bytes = kept};
    }
}

/* Checks whether the buffer may move, with `kept` bytes of contents. */
static vram_status check_move(const struct change *change, uint64_t kept) {
    vram_point point;
    if (kept && !change->queue) {
        return vr_fail(VRAM_ERR_INVALID,
                       "the buffer has to move, and there is no queue to copy it on");
    }
    return kept ? vr_submit_mark(change->queue, &point) : VRAM_OK; /* fails inside a capture */
}

/* Allocates new memory, copies, frees the old memory: keeps (2). */
static vram_status move_buffer(const struct change *change) {
    struct vr_buffer *buffer = change->buffer;
    struct vr_buffer_memory old = buffer->memory, fresh = {0};
    uint64_t kept = buffer->used_bytes < change->bytes ? buffer->used_bytes : change->bytes;
    vram_status status = check_move(change, kept);
    if (status == VRAM_OK) {
        status = vr_buffer_take_growing(buffer, change->bytes, change->queue, &fresh);
    }
    if (status != VRAM_OK) {
        return status;
    }
    status = kept ? vr_buffer_copy(buffer, change->queue, &fresh, &old, kept) : VRAM_OK;
    if (status == VRAM_OK) {
        status = vr_buffer_install(buffer, &fresh, change->queue);
    }
    if (status != VRAM_OK) {
        struct vram_error error;
        vr_error_save(&error);
        (void)vr_buffer_give(buffer, &fresh, change->queue);
        vr_error_restore(&error);
        return status;
    }
    note_change(change, true, kept);
    note_kind(change, old.kind, kept);
    if (vr_buffer_give(buffer, &old, change->queue) != VRAM_OK) { /* it is freed in any case */
        change->call->damaged = true;
        vr_error_save(&change->call->damage);
    }
    return VRAM_OK;
}

static vram_status move_if_allowed(const struct change *change) {
    return change->call->in_place_only ? VRAM_ERR_UNSUPPORTED : move_buffer(change);
}

/* Keeps (3). */
static vram_status follow_uses(const struct change *change) {
    struct vr_buffer *buffer = change->buffer;
    return change->queue && change->queue != buffer->home ? vr_buffer_order(buffer, change->queue)
                                                          : VRAM_OK;
}

/* Changes the capacity of the claimed buffer. With `stay` it does so in place or not at all, which
   is not a failure. */
static vram_status change_capacity(const struct change *change, bool stay) {
    struct vr_buffer *buffer = change->buffer;
    struct vram_error error;
    vram_status status = follow_uses(change);
    if (status != VRAM_OK) {
        return status;
    }
    if (buffer->memory.wrapped) {
        return stay ? VRAM_OK
                    : vr_fail(VRAM_ERR_INVALID,
                              "the buffer wraps the program's own memory, which cannot be resized");
    }
    if (buffer->memory.base) { /* the block is shared, and may begin where the buffer does */
        return stay ? VRAM_OK : move_if_allowed(change);
    }
    vr_error_save(&error);
    status = vr_pool_resize(pool_of(buffer), buffer->memory.addr, change->bytes, change->queue);
    if (status == VRAM_OK) {
        note_change(change, false, 0);
        return VRAM_OK;
    }
    if (stay || may_move(buffer, status)) {
        vr_error_restore(&error); /* no failure yet */
        status = stay ? VRAM_OK : move_if_allowed(change);
    }
    return status;
}

static void count_refusal(struct vr_buffer *buffer, vram_status status) {
    vr_mutex_lock(&buffer->lock);
    buffer->growth.refusals += vr_status_is_exhausted(status);
    vr_mutex_unlock(&buffer->lock);
}

/* Makes the capacity at least `bytes`. The buffer is claimed, so no other thread changes what is
   read here. */
static vram_status ensure_capacity(struct growth_call *call, uint64_t bytes, vram_queue *queue) {
    struct vr_buffer *buffer = call->buffer;
    struct change change = {.call = call, .buffer = buffer, .queue = queue_for(buffer, queue)};
    struct vram_error error;
    vr_error_save(&error);
    vram_status status =
        vr_growth_next(&buffer->growth.growth, buffer->capacity_bytes, bytes, &change.bytes);
    if (status == VRAM_OK && change.bytes > buffer->capacity_bytes) {
        status = change_capacity(&change, false);
        if (vr_status_is_exhausted(status) && change.bytes > bytes) {
            change.bytes = bytes; /* without the policy's reserve */
            status = change_capacity(&change, false);
        }
        if (status == VRAM_OK) {
            vr_error_restore(&error);
        }
    }
    count_refusal(buffer, status);
    return status;
}

/* ---------------------------------------------------------------------- calls */

/* Enters buffer, pool and queue, and claims the buffer. */
static vram_status call_begin(vram_buffer *handle, vram_queue *queue, struct growth_call *call) {
    struct vr_pool *pool;
    *call = (struct growth_call){0};
    vram_status status = vr_buffer_enter(handle, &call->buffer);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_pool_enter(pool_of(call->buffer), queue, &pool, &call->queue);
    if (status == VRAM_OK) {
        status = vr_buffer_claim(call->buffer);
        if (status != VRAM_OK) {
            vr_pool_leave(pool, call->queue);
        }
    }
    if (status != VRAM_OK) {
        vr_buffer_leave(call->buffer);
    }
    return status;
}

/* The same, and waits for other calls on the buffer. */
static vram_status call_begin_within(vram_buffer *handle, vram_queue *queue, uint64_t wait_ns,
                                     struct growth_call *call) {
    uint64_t deadline = vr_deadline_in(wait_ns);
    struct vram_error error;
    vr_error_save(&error);
    for (;;) {
        vram_status status = call_begin(handle, queue, call);
        if (status != VRAM_ERR_BUSY || vr_deadline_passed(deadline)) {
            return status;
        }
        vr_error_restore(&error);
        vr_clock_sleep(CLAIM_WAIT_NS);
    }
}

/* Calls the program's handler when no other call is inside the buffer. Returns the call's status:
   damage is reported if everything else succeeded. */
static vram_status call_end(struct growth_call *call, vram_status status) {
    struct vr_buffer *buffer = call->buffer;
    vr_buffer_unclaim(buffer);
    vr_buffer_touch(buffer);
    if (call->event.size && buffer->moved) {
        VR_UNCANCELLED;
        buffer->moved(buffer->user, &call->event);
    }
    vr_pool_leave(buffer->pool, call->queue);
    if (status == VRAM_OK && call->damaged) {
        vr_error_restore(&call->damage);
        status = VRAM_ERR_CORRUPT;
    }
    return vr_buffer_finish(buffer, status);
}

vram_status vram_buffer_reserve(vram_buffer *handle, uint64_t bytes, vram_queue *queue) {
    VR_CALL;
    struct growth_call call;
    vram_status status = call_begin(handle, queue, &call);
    if (status == VRAM_OK) {
        status = call_end(&call, ensure_capacity(&call, bytes, queue));
    }
    return status;
}

/* The buffer is claimed. */
static vram_status resize_claimed(struct growth_call *call, uint64_t bytes, vram_queue *queue) {
    struct vr_buffer *buffer = call->buffer;
    if (!buffer->growth.growth.element_bytes && bytes % vr_precision_bytes(buffer->precision)) {
        return vr_fail(VRAM_ERR_INVALID, "%llu bytes are not a whole number of %s elements",
                       (unsigned long long)bytes, vr_precision_name(buffer->precision));
    }
    vram_status status = ensure_capacity(call, bytes, queue);
    if (status == VRAM_OK) {
        vr_mutex_lock(&buffer->lock);
        buffer->used_bytes = bytes;
        vr_mutex_unlock(&buffer->lock);
    }
    return status;
}

vram_status vr_buffer_resize_within(vram_buffer *handle, uint64_t bytes, vram_queue *queue,
                                    uint64_t wait_ns, bool in_place_only) {
    VR_OPERATION("vram_buffer_resize");
    struct growth_call call;
    vram_status status = wait_ns ? call_begin_within(handle, queue, wait_ns, &call)
                                 : call_begin(handle, queue, &call);
    if (status == VRAM_OK) {
        call.in_place_only = in_place_only;
        status = call_end(&call, resize_claimed(&call, bytes, queue));
    }
    return status;
}

vram_status vr_buffer_resize(vram_buffer *handle, uint64_t bytes, vram_queue *queue) {
    return vr_buffer_resize_within(handle, bytes, queue, 0, false);
}

vram_status vram_buffer_resize(vram_buffer *handle, uint64_t bytes, vram_queue *queue) {
    return vr_buffer_resize(handle, bytes, queue);
}

vram_status vram_buffer_resize_elements(vram_buffer *handle, uint64_t count, vram_queue *queue) {
    VR_CALL;
    struct growth_call call;
    uint64_t bytes;
    vram_status status = call_begin(handle, queue, &call);
    if (status != VRAM_OK) {
        return status;
    }
    uint32_t each = vr_element_bytes(&call.buffer->growth.growth, call.buffer->precision);
    status = vr_elements_size(each, count, &bytes);
    if (status == VRAM_OK) {
        status = resize_claimed(&call, bytes, queue);
    }
    return call_end(&call, status);
}

/* ------------------------------------------------------------------- shrinking */

static vram_status fit_claimed(struct vr_buffer *buffer, vram_queue *queue) {
    uint64_t least = buffer->growth.growth.min_bytes;
    struct change change = {.buffer = buffer,
                            .queue = queue_for(buffer, queue),
                            .bytes = buffer->used_bytes > least ? buffer->used_bytes : least};
    return change.bytes < buffer->capacity_bytes ? change_capacity(&change, true) : VRAM_OK;
}

vram_status vram_buffer_fit(vram_buffer *handle, vram_queue *queue) {
    VR_CALL;
    struct growth_call call;
    vram_status status = call_begin(handle, queue, &call);
    if (status == VRAM_OK) {
        status = call_end(&call, fit_claimed(call.buffer, queue));
    }
    return status;
}

/* The handle of the pool's child with the lowest handle above `last`; 0: none. */
static uint64_t child_behind(struct vr_pool *pool, uint64_t last) {
    uint64_t best = 0;
    vr_mutex_lock(&pool->lock);
    for (struct vr_link *link = vr_list_first(&pool->children); link;
         link = vr_list_next(&pool->children, link)) {
        uint64_t handle = VR_CONTAINER(link, struct vr_pool_child, link)->handle;
        best = handle > last && (!best || handle < best) ? handle : best;
    }
    vr_mutex_unlock(&pool->lock);
    return best;
}

/* Frees the capacity of a buffer without used bytes that has been idle long enough. Returns the
   bytes freed. A buffer that cannot be claimed is in use. */
static uint64_t fit_idle(struct vr_buffer *buffer, uint64_t idle_ns) {
    uint64_t now = vr_clock_now();
    vr_mutex_lock(&buffer->lock);
    uint64_t before = buffer->capacity_bytes, seen = buffer->accessed_ns;
    bool idle = !buffer->used_bytes && before && now - seen >= idle_ns && !buffer->orphan &&
                vr_entry_close_empty(&buffer->sharers);
    vr_mutex_unlock(&buffer->lock);
    if (!idle) {
        return 0;
    }
    (void)fit_claimed(buffer, NULL);
    vr_mutex_lock(&buffer->lock);
    uint64_t after = buffer->capacity_bytes;
    vr_mutex_unlock(&buffer->lock);
    vr_buffer_unclaim(buffer); /* does not count as a use of the buffer */
    return before - after;
}

uint64_t vr_buffers_fit(struct vr_pool *pool, uint64_t idle_ns) {
    uint64_t sum = 0, child = 0;
    struct vram_error error;
    vr_error_save(&error);
    while ((child = child_behind(pool, child))) {
        struct vr_buffer *buffer = vr_handle_pin(VR_KIND_BUFFER, (const void *)(uintptr_t)child);
        if (buffer) {
            sum += fit_idle(buffer, idle_ns);
            vr_leave(buffer);
        }
    }
    vr_error_restore(&error);
    return sum;
}

/* ------------------------------------------------------------------- policies */

vram_status vr_buffer_growth_set(vram_buffer *handle, const vram_growth *given) {
    VR_OPERATION("vram_buffer_growth_set");
    struct vram_growth growth;
    void *entered;
    vram_status status = vr_growth_take(given, &growth);
    if (status == VRAM_OK) {
        status = vr_enter(VR_KIND_BUFFER, handle, &entered);
    }
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_buffer *buffer = entered;
    status = vr_buffer_claim(buffer);
    if (status == VRAM_OK) {
        vr_mutex_lock(&buffer->lock);
        buffer->growth.growth = growth;
        vr_mutex_unlock(&buffer->lock);
        vr_buffer_unclaim(buffer);
    }
    vr_leave(buffer);
    return status;
}

vram_status vram_buffer_growth_set(vram_buffer *handle, const vram_growth *given) {
    return vr_buffer_growth_set(handle, given);
}

vram_status vr_buffer_growth_get(vram_buffer *handle, vram_growth_info *info) {
    VR_OPERATION("vram_buffer_growth_get");
    struct vram_growth_info full = {.size = sizeof full};
    void *entered;
    vram_status status = vr_enter(VR_KIND_BUFFER, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_buffer *buffer = entered;
    vr_mutex_lock(&buffer->lock);
    full.growth = buffer->growth.growth;
    full.growth.size = sizeof full.growth;
    full.capacity_bytes = buffer->capacity_bytes;
    full.used_bytes = buffer->used_bytes;
    full.in_place = buffer->growth.in_place;
    full.copies = buffer->growth.copies;
    full.copied_bytes = buffer->growth.copied_bytes;
    full.refusals = buffer->growth.refusals;
    vr_mutex_unlock(&buffer->lock);
    if (full.capacity_bytes) {
        full.utilisation = (double)full.used_bytes / (double)full.capacity_bytes;
    }
    status = vr_info_give(info, &full, sizeof full, sizeof full);
    vr_leave(buffer);
    return status;
}

vram_status vram_buffer_growth_get(vram_buffer *handle, vram_growth_info *info) {
    return vr_buffer_growth_get(handle, info);
}

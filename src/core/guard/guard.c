/* SPDX-License-Identifier: Apache-2.0 */
/* guard.c: zeros, poison and red zones: writes them, and checks them later. */
#include "core/guard/guard.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/size.h"
#include "core/cache/drain.h"
#include "core/limit/tag.h"
#include "core/object/request.h"
#include "device/device_calls.h"

#include <assert.h>
#include <stdio.h>

enum {
    CHECKING_MODES = VRAM_POOL_POISON | VRAM_POOL_RED_ZONES,
    FILL_ZONE = 0xFD,        /* around a block */
    FILL_FREED = 0xDD,       /* in a freed block */
    CHECK_BYTES = 256 * 1024 /* checked at a time; also the minimum size of a buffer */
};

/* --------------------------------------------------------------------- buffers */

/* Host memory that blocks are read into. */
struct vr_guard_buffer {
    struct vr_guard_buffer *next; /* in the list of buffers that a copy may still write to */
    uint8_t data[];
};

static struct vr_guard_buffer *make_buffer(uint64_t bytes) {
    return vr_mem_alloc(
        1, sizeof(struct vr_guard_buffer) + (size_t)(bytes > CHECK_BYTES ? bytes : CHECK_BYTES),
        vr_operation());
}

/* The pool's own buffer, or a new one if that is too small or in use by another thread. */
static struct vr_guard_buffer *take_buffer(struct vr_pool *pool, uint64_t bytes) {
    struct vr_guard_buffer *buffer = NULL;
    if (bytes <= CHECK_BYTES) {
        vr_mutex_lock(&pool->lock);
        buffer = pool->guard.buffer;
        pool->guard.buffer = NULL;
        vr_mutex_unlock(&pool->lock);
    }
    return buffer ? buffer : make_buffer(bytes);
}

/* After a failure a copy may still write to the buffer, so it stays until the pool ends. */
static void drop_buffer(struct vr_pool *pool, vram_status status, struct vr_guard_buffer *buffer) {
    struct vr_guard *guard = &pool->guard;
    if (!buffer) {
        return;
    }
    vr_mutex_lock(&pool->lock);
    if (status != VRAM_OK) {
        buffer->next = guard->stuck;
        guard->stuck = buffer;
        buffer = NULL;
    } else if (!guard->buffer) {
        guard->buffer = buffer;
        buffer = NULL;
    }
    vr_mutex_unlock(&pool->lock);
    vr_mem_free(buffer);
}

void vr_guard_forget(struct vr_pool *pool) {
    vr_mem_free(pool->guard.buffer);
    pool->guard.buffer = NULL;
    while (pool->guard.stuck) {
        struct vr_guard_buffer *buffer = pool->guard.stuck;
        pool->guard.stuck = buffer->next;
        vr_mem_free(buffer);
    }
}

/* -------------------------------------------------------------------- creating */

uint32_t vr_guard_modes(const struct vr_pool *pool, const struct vram_pool_options *options) {
    static const struct {
        enum vr_option option;
        uint32_t mode;
    } rows[] = {
        {VR_OPTION_ZERO_ALLOC, VRAM_POOL_ZERO_ALLOC},
        {VR_OPTION_ZERO_FREE, VRAM_POOL_ZERO_FREE},
        {VR_OPTION_POISON, VRAM_POOL_POISON},
        {VR_OPTION_RED_ZONES, VRAM_POOL_RED_ZONES},
    };
    uint32_t modes = options->flags & VR_GUARD_MODES;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && vr_pool_on_device(pool); i++) {
        modes |= vr_option_number(rows[i].option) == 1 ? rows[i].mode : 0;
    }
    return modes;
}

vram_status vr_guard_make(struct vr_pool *pool, const struct vram_pool_options *options) {
    struct vr_guard *guard = &pool->guard;
    uint32_t modes = vr_guard_modes(pool, options);
    vr_store(&guard->modes, modes, VR_RELAXED);
    guard->by_stream =
        vr_pool_on_device(pool) && vr_option_number(VR_OPTION_POISON) == VR_OPTION_CHOICE;
    guard->most_bytes = options->quarantine_bytes ? options->quarantine_bytes
                                                  : vr_option_number(VR_OPTION_QUARANTINE);
    if (!modes) {
        return VRAM_OK;
    }
    if (!vr_pool_on_device(pool)) {
        return vr_fail(VRAM_ERR_UNSUPPORTED,
                       "safety modes need device memory: this pool has another kind");
    }
    if (modes & CHECKING_MODES) { /* allocated now, so that a free does not have to */
        guard->buffer = make_buffer(CHECK_BYTES);
        if (!guard->buffer) {
            return VRAM_ERR_HOST_MEMORY;
        }
    }
    vr_store(&pool->uncached, vr_load(&pool->uncached, VR_RELAXED) | VR_UNCACHED_GUARD, VR_RELAXED);
    return vr_queue_make((vram_device *)(uintptr_t)pool->device->object.handle, NULL,
                         &guard->queue);
}

/* ----------------------------------------------------------------------- zones */

bool vr_guard_widen(const struct vr_pool *pool, struct vr_request *request) {
    uint64_t bytes = request->size;
    if (!(vr_load(&pool->guard.modes, VR_RELAXED) & VRAM_POOL_RED_ZONES)) {
        return true;
    }
    uint64_t front = request->align > VR_GUARD_ZONE ? request->align : VR_GUARD_ZONE;
    if (!vr_add(bytes, VR_GUARD_ZONE, &bytes) || !vr_add(bytes, front, &bytes) ||
        !vr_block_bytes(bytes, &request->bytes)) {
        return false;
    }
    return true;
}

struct vr_block *vr_guard_find(struct vr_pool *pool, vram_addr addr) {
    if (!(vr_load(&pool->guard.modes, VR_RELAXED) & VRAM_POOL_RED_ZONES)) {
        return vr_block_table_find(&pool->table, addr);
    }
    for (uint64_t front = VR_GUARD_ZONE; front <= pool->granule && front < addr; front *= 2) {
        struct vr_block *block = vr_block_table_find(&pool->table, addr - front);
        if (block && vr_guard_front(block) == front) {
            return block;
        }
    }
    return NULL;
}

/* The first address behind the block, rear zone included. */
static uint64_t block_end(const struct vr_block *block) {
    return vr_load(&block->addr, VR_RELAXED) + vr_load(&block->bytes, VR_RELAXED);
}

/* --------------------------------------------------------------------- writing */

/* Fills, downloads and waits take a handle, although the queue is entered: these calls check the
   memory and that the queue is not ending, and functions on the object would serve this file alone.
   The same holds for vr_queue_make, which a pool calls once. */
static vram_queue *queue_handle(const struct vr_queue_object *queue) {
    return (vram_queue *)(uintptr_t)queue->object.handle;
}

/* Enters the queue for the work on a block: `given`, or the pool's own if that is NULL or is being
   captured into a graph, which would run the work at another time. NULL with the error set. */
static struct vr_queue_object *choose_queue(struct vr_pool *pool, struct vr_queue_object *given,
                                            bool *own) {
    VR_OPERATION("vram_alloc");
    vram_point point;
    void *entered;
    struct vram_error error;
    vr_error_save(&error);
    *own = !given || vr_queue_submit_mark(given, &point) == VRAM_ERR_CAPTURE;
    vr_error_restore(&error);
    const vram_queue *handle = *own ? pool->guard.queue : queue_handle(given);
    return vr_queue_enter(handle, &entered) == VRAM_OK ? entered : NULL;
}

static vram_status queue_fill(const struct vr_queue_object *queue, vram_addr addr, uint32_t pattern,
                              uint64_t bytes) {
    return bytes ? vr_submit_fill(queue_handle(queue), addr, pattern, 1, bytes) : VRAM_OK;
}

static vram_status prepare_on(const struct vr_pool *pool, const struct vr_queue_object *queue,
                              uint64_t size, const struct vr_block *block) {
    uint32_t modes = vr_load(&pool->guard.modes, VR_RELAXED);
    vram_addr addr = vr_load(&block->addr, VR_RELAXED) + vr_guard_front(block);
    uint64_t behind = block_end(block) - addr - size;
    assert(addr + size <= block_end(block));
    vram_status status = VRAM_OK;
    if (vr_load(&pool->guard.unzeroed, VR_ACQUIRE)) { /* keeps (6) */
        status = queue_fill(queue, vr_load(&block->addr, VR_RELAXED), 0,
                            vr_load(&block->bytes, VR_RELAXED));
    }
    if (status == VRAM_OK && modes & VRAM_POOL_RED_ZONES) {
        status = queue_fill(queue, addr - VR_GUARD_ZONE, FILL_ZONE, VR_GUARD_ZONE);
        if (status == VRAM_OK) {
            status = queue_fill(queue, addr + size, FILL_ZONE, behind);
        }
    }
    if (status == VRAM_OK && modes & (VRAM_POOL_ZERO_ALLOC | VRAM_POOL_POISON)) {
        status = queue_fill(queue, addr, modes & VRAM_POOL_ZERO_ALLOC ? 0 : VR_GUARD_NEW, size);
    }
    return status;
}

/* Whether prepare_on writes to new blocks. */
static bool is_filled(const struct vr_pool *pool) {
    return vr_load(&pool->guard.modes, VR_RELAXED) & ~(uint32_t)VRAM_POOL_ZERO_FREE ||
           vr_load(&pool->guard.unzeroed, VR_ACQUIRE);
}

static bool is_ours(const struct vr_block *block) {
    return !vr_block_is_other(block);
}

vram_status vr_guard_prepare(struct vr_pool *pool, const struct vr_request *request,
                             struct vr_block *block) {
    bool own;
    if (vr_load(&pool->guard.modes, VR_RELAXED) & VRAM_POOL_RED_ZONES) {
        uint64_t front = request->align > VR_GUARD_ZONE ? request->align : VR_GUARD_ZONE;
        vr_store(&block->zone, (uint8_t)vr_low_bit(front), VR_RELAXED);
    }
    if (!is_ours(block)) {
        return VRAM_OK;
    }
    struct vr_queue_object *queue = choose_queue(pool, request->queue_object, &own);
    if (!queue) {
        vr_pool_return(pool, request->queue, &block, 1);
        return vr_error_get()->status;
    }
    vram_status status = prepare_on(pool, queue, request->size, block);
    if (status == VRAM_OK && own) { /* the block is ready for any queue */
        status = vr_queue_wait(queue_handle(queue), VRAM_TIMEOUT_DEFAULT);
    } else if (status == VRAM_OK && is_filled(pool)) {
        block->home = request->queue; /* the fills may not be complete: keeps block.h (5) */
    }
    if (status != VRAM_OK) { /* a submitted fill may still be running */
        vr_pool_return_new(pool, queue, block);
    }
    vr_leave(queue);
    if (status != VRAM_OK &&
        vr_handle_was(VR_KIND_POOL, (const void *)(uintptr_t)pool->object.handle)) {
        status = vr_fail(VRAM_ERR_STALE, "the pool was destroyed meanwhile");
    }
    return status;
}

/* -------------------------------------------------------------------- checking */

/* One byte of a block that was overwritten. */
struct damage {
    const char *where;
    int64_t offset; /* from the program's first byte */
    uint8_t found;
};

static const char *tag_of(const struct vr_block *block) {
    return vr_tag_name(vr_load(&block->tag, VR_RELAXED));
}

static unsigned long long address_of(const struct vr_block *block) {
    return vr_load(&block->addr, VR_RELAXED) + vr_guard_front(block);
}

/* Reports damage by log, counter and error record. */
static void report_damage(struct vr_pool *pool, const struct vr_block *block,
                          const struct damage *damage) {
    const char *tag = tag_of(block);
    char text[VRAM_ERROR_TEXT_MAX];
    snprintf(text, sizeof text,
             "block 0x%llx of %llu bytes%s%s%s was written %s: byte %lld is 0x%02x",
             address_of(block), (unsigned long long)vr_load(&block->requested, VR_RELAXED),
             tag ? " tagged \"" : "", tag ? tag : "", tag ? "\"" : "", damage->where,
             (long long)damage->offset, damage->found);
    vr_counter_add(&pool->counters.damaged_blocks, 1);
    vr_log(VRAM_LOG_ERROR, "pool \"%s\": %s", pool->name, text);
    (void)vr_fail(VRAM_ERR_CORRUPT, "%s", text);
}

/* Logs what was not done to a block that is freed; the error record has the reason. */
static void log_undone(const struct vr_pool *pool, const struct vr_block *block,
                       const char *undone) {
    vr_log(VRAM_LOG_WARN, "pool \"%s\": block 0x%llx was freed and %s: %s", pool->name,
           address_of(block), undone, vr_error_get()->text);
}

/* Keeps (6). */
static void note_unzeroed(struct vr_pool *pool) {
    if (vr_load(&pool->guard.modes, VR_RELAXED) & VRAM_POOL_ZERO_FREE) {
        vr_store(&pool->guard.unzeroed, true, VR_RELEASE);
    }
}

/* The first byte that is not `pattern`; `bytes` when all are. */
static uint64_t first_other(const uint8_t *data, uint64_t bytes, uint8_t pattern) {
    uint64_t i = 0;
    while (i < bytes && data[i] == pattern) {
        i++;
    }
    return i;
}

/* The first of the two zones that was written to; rear first. False: neither was. */
static bool zones_differ(const uint8_t *data, uint64_t size, uint64_t behind,
                         struct damage *damage) {
    uint64_t front = first_other(data, VR_GUARD_ZONE, FILL_ZONE);
    uint64_t rear = first_other(data + VR_GUARD_ZONE, behind, FILL_ZONE);
    if (rear < behind) {
        *damage =
            (struct damage){"behind its end", (int64_t)(size + rear), data[VR_GUARD_ZONE + rear]};
    } else if (front < VR_GUARD_ZONE) {
        *damage = (struct damage){"before its start", (int64_t)front - VR_GUARD_ZONE, data[front]};
    }
    return rear < behind || front < VR_GUARD_ZONE;
}

/* Reads the zones of a block on its queue, after all work that uses it, and waits. Returns whether
   they are damaged. *checked: they could be read. */
static bool read_zones(struct vr_pool *pool, struct vr_queue_object *queue,
                       const struct vr_block *block, bool *checked) {
    uint64_t size = vr_load(&block->requested, VR_RELAXED);
    vram_addr addr = address_of(block);
    uint64_t behind = block_end(block) - addr - size;
    struct vr_guard_buffer *buffer = take_buffer(pool, VR_GUARD_ZONE + behind);
    vram_status status = buffer ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
    if (status == VRAM_OK) {
        status = vr_submit_download(queue_handle(queue), buffer->data, addr - VR_GUARD_ZONE,
                                    VR_GUARD_ZONE);
    }
    if (status == VRAM_OK) {
        status = vr_submit_download(queue_handle(queue), buffer->data + VR_GUARD_ZONE, addr + size,
                                    behind);
    }
    if (status == VRAM_OK) {
        status = vr_queue_wait(queue_handle(queue), VRAM_TIMEOUT_DEFAULT);
    }
    struct damage damage;
    *checked = status == VRAM_OK;
    bool damaged = *checked && zones_differ(buffer->data, size, behind, &damage);
    if (damaged) {
        report_damage(pool, block, &damage);
    } else if (!*checked) {
        log_undone(pool, block, "its red zones were not checked");
    }
    drop_buffer(pool, status, buffer);
    return damaged;
}

/* Fills the block with poison or zeros. Returns whether it has poison and all work of the queue is
   complete. */
static bool overwrite_block(struct vr_pool *pool, const struct vr_queue_object *queue,
                            const struct vr_block *block) {
    bool poison = vr_load(&pool->guard.modes, VR_RELAXED) & VRAM_POOL_POISON;
    vram_status status = queue_fill(queue, vr_load(&block->addr, VR_RELAXED),
                                    poison ? FILL_FREED : 0, vr_load(&block->bytes, VR_RELAXED));
    if (status != VRAM_OK) {
        note_unzeroed(pool);
    } else if (poison) { /* keeps guard.h (3) */
        status = vr_queue_wait(queue_handle(queue), VRAM_TIMEOUT_DEFAULT);
    }
    if (status != VRAM_OK) {
        log_undone(pool, block, "not overwritten");
    }
    return poison && status == VRAM_OK;
}

/* Returns whether the zones are damaged; the error record has the damage, or the last failure.
   *checked: they could be read. */
static bool check_on(struct vr_pool *pool, struct vr_queue_object *queue, struct vr_block *block,
                     bool *checked, bool *poisoned) {
    uint32_t modes = vr_load(&pool->guard.modes, VR_RELAXED);
    struct vram_error error;
    if (!vr_pool_join_block(queue, block)) { /* other queues may still use it */
        note_unzeroed(pool);
        log_undone(pool, block, "neither checked nor overwritten");
        return false;
    }
    bool damaged = modes & VRAM_POOL_RED_ZONES && read_zones(pool, queue, block, checked);
    vr_error_save(&error);
    if (modes & (VRAM_POOL_POISON | VRAM_POOL_ZERO_FREE)) {
        *poisoned = overwrite_block(pool, queue, block);
    }
    vr_error_restore(&error);
    return damaged;
}

/* Keeps guard.h (5). */
static bool is_left_alone(struct vr_pool *pool, const struct vr_block *block) {
    vr_mutex_lock(&pool->lock);
    bool alone = block->pins || block->asleep || block->sealed || !is_ours(block);
    vr_mutex_unlock(&pool->lock);
    return alone;
}

/* The queue to check and overwrite a block on; NULL: the block is left alone. */
static struct vr_queue_object *check_queue(struct vr_pool *pool, struct vr_queue_object *given,
                                           const struct vr_block *block, bool *is_own) {
    if (is_left_alone(pool, block)) {
        return NULL;
    }
    struct vr_queue_object *chosen = choose_queue(pool, given, is_own);
    if (!chosen) {
        log_undone(pool, block, "neither checked nor overwritten");
    } else if (*is_own && given) { /* `given` is being captured: no work can be ordered after it */
        vr_leave(chosen);
        chosen = NULL;
    }
    return chosen;
}

/* Counts a block of device memory that is freed without a check of its zones, or without the poison
   that a later check needs. */
static void note_unchecked(struct vr_pool *pool, const struct vr_block *block, bool checked,
                           bool poisoned) {
    uint32_t modes = vr_load(&pool->guard.modes, VR_RELAXED);
    if (is_ours(block) &&
        ((modes & VRAM_POOL_RED_ZONES && !checked) || (modes & VRAM_POOL_POISON && !poisoned))) {
        vr_counter_add(&pool->counters.unchecked_blocks, 1);
    }
}

bool vr_guard_check(struct vr_pool *pool, struct vr_queue_object **queue,
                    struct vr_queue_object **own, struct vr_block *block, bool *poisoned) {
    struct vram_error error;
    bool is_own, checked = false;
    *own = NULL;
    *poisoned = false;
    if (!(vr_load(&pool->guard.modes, VR_RELAXED) & ~(uint32_t)VRAM_POOL_ZERO_ALLOC)) {
        return false;
    }
    vr_error_save(&error);
    struct vr_queue_object *chosen = check_queue(pool, *queue, block, &is_own);
    if (!chosen) {
        note_unzeroed(pool);
        note_unchecked(pool, block, false, false);
        vr_error_restore(&error);
        return false;
    }
    bool damaged = check_on(pool, chosen, block, &checked, poisoned);
    note_unchecked(pool, block, checked, *poisoned);
    if (damaged) {
        vr_error_save(&error);
    }
    /* What is freed without a queue serves any queue: nobody else waits for the pool's own. */
    if (!is_own || vr_queue_wait(queue_handle(chosen), VRAM_TIMEOUT_DEFAULT) == VRAM_OK) {
        vr_leave(chosen);
    } else {
        *queue = *own = chosen;
    }
    vr_error_restore(&error);
    return damaged;
}

/* ------------------------------------------------------------------ quarantine */

/* Checks the poison of a block that leaves quarantine; no other code can reach the block. Returns
   whether something was written to it. *checked: it was read to its end or to the damage. If not,
   a copy may still be running on *busy, the pool's own queue, which the caller leaves. */
static bool check_poison(struct vr_pool *pool, const struct vr_block *block, bool *checked,
                         struct vr_queue_object **busy) {
    VR_OPERATION("vram_free");
    vram_addr addr = vr_load(&block->addr, VR_RELAXED);
    uint64_t bytes = vr_load(&block->bytes, VR_RELAXED), at = 0, other = 0, part = 0;
    void *queue = NULL;
    struct vr_guard_buffer *buffer = take_buffer(pool, CHECK_BYTES);
    vram_status status = buffer ? vr_queue_enter(pool->guard.queue, &queue) : VRAM_ERR_HOST_MEMORY;
    for (; at < bytes && status == VRAM_OK && other == part; at += part) {
        part = bytes - at < CHECK_BYTES ? bytes - at : CHECK_BYTES;
        status = vr_submit_download(queue_handle(queue), buffer->data, addr + at, part);
        if (status == VRAM_OK) {
            status = vr_queue_wait(queue_handle(queue), VRAM_TIMEOUT_DEFAULT);
        }
        other = status == VRAM_OK ? first_other(buffer->data, part, FILL_FREED) : part;
    }
    *checked = status == VRAM_OK;
    bool damaged = *checked && other < part;
    if (damaged) {
        report_damage(
            pool, block,
            &(struct damage){"after it was freed",
                             (int64_t)(at - part + other) - (int64_t)vr_guard_front(block),
                             buffer->data[other]});
    } else if (!*checked) {
        log_undone(pool, block, "its poison was not checked");
    }
    drop_buffer(pool, status, buffer);
    if (queue && !*checked) {
        *busy = queue;
    } else if (queue) {
        vr_leave(queue);
    }
    return damaged;
}

/* Takes the oldest block out of quarantine if that holds more than `most` bytes. Under the lock. */
static struct vr_block *quarantine_pop(struct vr_pool *pool, uint64_t most) {
    struct vr_guard *guard = &pool->guard;
    struct vr_block *block = guard->bytes > most ? guard->first : NULL;
    if (block) {
        assert(vr_block_is_cached(block) && guard->bytes >= vr_load(&block->bytes, VR_RELAXED));
        guard->first = block->next;
        guard->last = guard->first ? guard->last : NULL;
        guard->bytes -= vr_load(&block->bytes, VR_RELAXED);
        vr_store(&pool->counters.quarantine_bytes, guard->bytes, VR_RELAXED);
    }
    assert(vr_pool_is_locked(pool) && !guard->first == !guard->bytes);
    return block;
}

/* Takes blocks out of quarantine until at most `most` bytes are left; the error record has the
   first damage found. The memory of an ended pool can no longer be checked. */
static bool quarantine_empty(struct vr_pool *pool, uint64_t most, bool ended) {
    struct vram_error error;
    bool damaged = false;
    vr_error_save(&error);
    for (;;) {
        vr_mutex_lock(&pool->lock);
        struct vr_block *block = quarantine_pop(pool, most);
        bool readable = block && !block->asleep && !ended, checked = true;
        struct vr_queue_object *busy = NULL;
        vr_mutex_unlock(&pool->lock);
        if (!block) {
            break;
        }
        if (readable && check_poison(pool, block, &checked, &busy) && !damaged) {
            damaged = true;
            vr_error_save(&error);
        }
        if (!readable || !checked) {
            vr_counter_add(&pool->counters.unchecked_blocks, 1);
        }
        vr_pool_return_new(pool, busy, block);
        if (busy) {
            vr_leave(busy);
        }
    }
    vr_error_restore(&error);
    return damaged;
}

bool vr_guard_quarantine(struct vr_pool *pool, struct vr_block *block, bool *kept) {
    struct vr_guard *guard = &pool->guard;
    vr_mutex_lock(&pool->lock);
    *kept = !block->pins && !block->asleep && !block->sealed && is_ours(block) &&
            vr_load(&block->bytes, VR_RELAXED) <= guard->most_bytes;
    if (*kept) {
        assert(vr_block_is_cached(block) && !(block->home.handle & VR_HOME_TAGGED));
        block->next = NULL;
        block->home.handle = 0;
        *(guard->last ? &guard->last->next : &guard->first) = block;
        guard->last = block;
        guard->bytes += vr_load(&block->bytes, VR_RELAXED);
        vr_store(&pool->counters.quarantine_bytes, guard->bytes, VR_RELAXED);
    }
    vr_mutex_unlock(&pool->lock);
    return *kept && quarantine_empty(pool, guard->most_bytes, false);
}

bool vr_guard_empty_quarantine(struct vr_pool *pool) {
    return vr_load(&pool->guard.modes, VR_RELAXED) & VRAM_POOL_POISON &&
           quarantine_empty(pool, 0, false);
}

bool vr_guard_release(struct vr_pool *pool) {
    struct vram_error error;
    if (!(vr_load(&pool->guard.modes, VR_RELAXED) & VRAM_POOL_POISON)) {
        return false;
    }
    vr_mutex_lock(&pool->lock);
    bool any = pool->guard.first != NULL;
    vr_mutex_unlock(&pool->lock);
    if (any) {
        vr_error_save(&error);
        (void)quarantine_empty(pool, 0, false); /* damage is logged and counted */
        vr_error_restore(&error);
    }
    return any;
}

void vr_guard_end(struct vr_pool *pool) {
    if (pool->guard.queue) {
        (void)quarantine_empty(pool, 0, true);
        vr_queue_end(pool->guard.queue); /* stays set: other calls may be reading it */
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sleep_copy.c: copies contents to the host and back, and compares both.
 *
 *     contents of state 0 | state 1 | state 2 | ...     one sequence of bytes, cut into chunks
 *     [ chunk ][ chunk ][ chunk ][ chunk ] ...
 *        ^next                                           taken one by one
 *
 *  (1) Each thread has a queue and two slots of page-locked memory. A chunk goes from the device to
 *      a slot, and from there to its place on the host, while the next one goes to the other slot;
 *      on the way back the reverse. So the bus is busy while threads clear and write pages, which
 *      takes one of them five times as long as the bus.
 *  (2) A thread that gets no slots, and the only thread of a small change, copies chunks without
 *      them: the driver accepts pageable memory.
 *      A comparison needs slots, and takes pageable ones too.
 *  (3) A chunk is copied once its states are allowed. A thread that fails stops the others.
 *  (4) Slots and places that a copy may still use when its queue has not ended are not freed.
 *  (5) States form parts of up to 256 MiB. The thread that completes the last chunk of a part does
 *      what the caller wants done with it then, while the others go on: release its memory, or make
 *      it read-only. No thread waits for a part.
 */
#include "core/object/pool_object.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/os/os.h"
#include "base/size.h"
#include "device/device_calls.h"
#include "device/ops.h"

#include <assert.h>
#include <string.h>

enum { THREADS_MAX = 12, SLOTS = 2 };

#define SLOT_BYTES  (UINT64_C(2) << 20)   /* of one, at most: a large page */
#define SHARE_BYTES (UINT64_C(256) << 20) /* of a thread, at least: its slots are 1.6 % of that */
#define POLL_NS     UINT64_C(20000)       /* between two looks whether a chunk is allowed */

/* A chunk on its way. */
struct copy_slot {
    char *memory;          /* NULL: (2) */
    uint64_t first, bytes; /* of the sequence; no bytes: empty */
    uint64_t value;        /* of the queue, when the bus is done with it */
};

struct copy_thread {
    struct vr_thread thread;
    struct vr_sleep_copies *copies;
    struct vr_queue_object *queue;
    struct copy_slot slots[SLOTS];
    bool safe; /* its queue has ended */
};

/* See (5). */
struct copy_part {
    uint32_t first, last; /* its states */
    uint64_t begin, end;  /* of the sequence */
    vr_atomic_u64 left;   /* bytes not yet copied */
};

struct vr_sleep_copies {
    const struct vr_sleep_change *change;
    enum vr_sleep_copy_kind kind;
    const char *operation;
    uint64_t *starts;         /* of each state in the sequence, and the end of the last */
    vr_sleep_part_fn *copied; /* NULL: nothing is to be done: (5) */
    struct copy_part *parts;
    uint32_t part_count;
    uint64_t chunk; /* bytes */
    vr_atomic_u64 next;
    vr_atomic_u64 allowed; /* bytes of the sequence */
    vr_atomic_bool stop;
    struct vr_mutex lock; /* of status and error */
    vram_status status;   /* the first failure */
    struct vram_error error;
    uint32_t thread_count;
    struct copy_thread threads[THREADS_MAX];
};

/* ------------------------------------------------------------------- failures */

/* Records the calling thread's failure, if it is the first. Keeps (3). */
static void copies_fail(struct vr_sleep_copies *copies, vram_status status) {
    vr_mutex_lock(&copies->lock);
    if (copies->status == VRAM_OK) {
        copies->status = status;
        vr_error_save(&copies->error);
    }
    vr_mutex_unlock(&copies->lock);
    vr_store(&copies->stop, true, VR_RELEASE);
}

/* --------------------------------------------------------------------- chunks */

/* Takes the next chunk, once it is allowed; false: none is left, or a copy has failed. */
static bool chunk_take(struct vr_sleep_copies *copies, struct copy_slot *slot) {
    uint64_t all = copies->starts[copies->change->count];
    slot->first = vr_fetch_add(&copies->next, copies->chunk, VR_RELAXED);
    slot->bytes = slot->first < all ? vr_smaller(copies->chunk, all - slot->first) : 0;
    while (slot->bytes && !vr_load(&copies->stop, VR_ACQUIRE) &&
           vr_load(&copies->allowed, VR_ACQUIRE) < slot->first + slot->bytes) {
        vr_os_sleep(POLL_NS);
    }
    if (vr_load(&copies->stop, VR_ACQUIRE)) {
        slot->bytes = 0;
    }
    return slot->bytes > 0;
}

/* The state in whose contents a byte of the sequence lies. */
static uint32_t state_at(const struct vr_sleep_copies *copies, uint64_t at) {
    uint32_t low = 0, high = copies->change->count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        *(copies->starts[middle] <= at ? &low : &high) = middle;
    }
    return low;
}

/* A part of a chunk that lies in one state. */
struct chunk_part {
    vram_addr device;
    char *host, *slot; /* slot: NULL without one */
    uint64_t bytes;
};

/* Calls `visit` for each part of a chunk, until one fails. */
static vram_status chunk_walk(const struct copy_thread *thread, const struct copy_slot *slot,
                              vram_status (*visit)(const struct copy_thread *thread,
                                                   const struct chunk_part *part)) {
    const struct vr_sleep_copies *copies = thread->copies;
    vram_status status = VRAM_OK;
    uint32_t i = state_at(copies, slot->first);
    for (uint64_t at = slot->first, end = at + slot->bytes; at < end && status == VRAM_OK; i++) {
        const struct vr_sleep_state *sleep_state = copies->change->sleep_states[i];
        uint64_t offset = at - copies->starts[i];
        uint64_t bytes = vr_smaller(copies->starts[i + 1], end) - at;
        if (bytes) {
            const struct chunk_part part = {sleep_state->from + offset, sleep_state->host + offset,
                                            slot->memory ? slot->memory + (at - slot->first) : NULL,
                                            bytes};
            status = visit(thread, &part);
        }
        at += bytes;
    }
    return status;
}

static vram_status part_download(const struct copy_thread *thread, const struct chunk_part *part) {
    return vr_queue_download(&thread->queue->base, part->slot ? part->slot : part->host,
                             part->device, part->bytes);
}

static vram_status part_upload(const struct copy_thread *thread, const struct chunk_part *part) {
    return vr_queue_upload(&thread->queue->base, part->device, part->slot ? part->slot : part->host,
                           part->bytes);
}

static vram_status part_empty(const struct copy_thread *thread, const struct chunk_part *part) {
    (void)thread;
    memcpy(part->host, part->slot, part->bytes);
    return VRAM_OK;
}

/* VRAM_ERR_CORRUPT: the device has other contents. */
static vram_status part_compare(const struct copy_thread *thread, const struct chunk_part *part) {
    uint64_t at = 0;
    if (memcmp(part->host, part->slot, part->bytes) == 0) {
        return VRAM_OK;
    }
    while (part->host[at] == part->slot[at]) {
        at++;
    }
    return vr_sleep_seal_broken(thread->copies->change, part->device + at, (uint8_t)part->host[at],
                                (uint8_t)part->slot[at]);
}

static vram_status part_fill(const struct copy_thread *thread, const struct chunk_part *part) {
    (void)thread;
    memcpy(part->slot, part->host, part->bytes);
    return VRAM_OK;
}

/* Counts a chunk as copied. Keeps (5). */
static vram_status chunk_done(struct vr_sleep_copies *copies, const struct copy_slot *slot) {
    vram_status status = VRAM_OK;
    uint64_t first = slot->first, end = first + slot->bytes;
    for (uint32_t i = 0; i < copies->part_count && status == VRAM_OK; i++) {
        struct copy_part *part = &copies->parts[i];
        uint64_t from = vr_larger(first, part->begin), to = vr_smaller(end, part->end);
        if (from < to && vr_fetch_sub(&part->left, to - from, VR_ACQ_REL) == to - from) {
            status = copies->copied(copies->change, part->first, part->last);
        }
    }
    return status;
}

/* Waits until the bus is done with a slot, and empties it. The context's wait limit applies to each
   chunk. */
static vram_status slot_finish(struct copy_thread *thread, struct copy_slot *slot) {
    if (!slot->bytes) {
        return VRAM_OK;
    }
    struct vr_sleep_copies *copies = thread->copies;
    uint64_t wait_ns = copies->change->pool->device->context->wait_ns;
    vram_status status = vr_queue_wait_value(thread->queue, slot->value, wait_ns);
    if (status == VRAM_OK && copies->kind != VR_SLEEP_IN && slot->memory) {
        status = chunk_walk(thread, slot, copies->kind == VR_SLEEP_OUT ? part_empty : part_compare);
    }
    if (status == VRAM_OK) {
        status = chunk_done(thread->copies, slot);
    }
    slot->bytes = 0;
    return status;
}

static vram_status slot_start(struct copy_thread *thread, struct copy_slot *slot) {
    bool out = thread->copies->kind != VR_SLEEP_IN;
    vram_status status = VRAM_OK;
    if (!out && slot->memory) {
        status = chunk_walk(thread, slot, part_fill);
    }
    if (status == VRAM_OK) {
        status = chunk_walk(thread, slot, out ? part_download : part_upload);
    }
    return status == VRAM_OK ? vr_queue_mark(thread->queue, &slot->value) : status;
}

static vram_status copy_chunks(struct copy_thread *thread) {
    vram_status status = VRAM_OK;
    bool more = true;
    uint32_t at = 0;
    for (; status == VRAM_OK && more; at = (at + 1) % SLOTS) {
        struct copy_slot *slot = &thread->slots[at];
        status = slot_finish(thread, slot);
        if (status == VRAM_OK && (more = chunk_take(thread->copies, slot))) {
            status = slot_start(thread, slot);
        }
    }
    for (uint32_t i = 0; status == VRAM_OK && i < SLOTS; i++) {
        status = slot_finish(thread, &thread->slots[(at + i) % SLOTS]);
    }
    return status;
}

/* -------------------------------------------------------------------- threads */

/* Two slots in one page-locked range; NULL: (2). */
static struct vr_sleep_store *slots_make(const struct vr_sleep_copies *copies) {
    struct vr_pool *pool = copies->change->pool;
    struct vr_sleep_store *store;
    bool needed = copies->kind == VR_SLEEP_CHECK;
    if ((copies->thread_count == 1 && !needed) ||
        vr_sleep_store_make(SLOTS * SLOT_BYTES, &store) != VRAM_OK) {
        return NULL;
    }
    /* Locking takes longer if it meets pages that do not exist. */
    memset(vr_sleep_store_pages(store), 0, SLOTS * SLOT_BYTES);
    if (vr_sleep_store_lock(pool, store) != VRAM_OK && !needed) {
        vr_sleep_store_end(pool, store);
        return NULL;
    }
    return store;
}

/* With the thread's queue, which is ended here. */
static void copy_with_slots(struct copy_thread *thread, vram_queue *handle) {
    struct vr_sleep_copies *copies = thread->copies;
    struct vram_error error;
    vr_error_save(&error);
    struct vr_sleep_store *store = slots_make(copies);
    vr_error_restore(&error);
    for (uint32_t i = 0; i < SLOTS && store; i++) {
        thread->slots[i].memory = vr_sleep_store_pages(store) + i * SLOT_BYTES;
    }
    vram_status status;
    if (!store && copies->kind == VR_SLEEP_CHECK) {
        status =
            vr_fail(VRAM_ERR_HOST_MEMORY, "there is no host memory to read sealed memory into");
    } else if (vr_submit_begin(thread->queue)) {
        status = copy_chunks(thread);
        vr_submit_end(thread->queue);
    } else {
        status = vr_fail(VRAM_ERR_SHUTDOWN, "the device is being closed");
    }
    if (status != VRAM_OK) {
        copies_fail(copies, status);
    }
    vr_queue_end(handle); /* waits */
    thread->safe = vr_load(&thread->queue->finished, VR_ACQUIRE);
    if (store && thread->safe) { /* keeps (4) */
        vr_sleep_store_end(copies->change->pool, store);
    }
}

/* A thread that gets no queue leaves its share to the others; the caller's own thread must. */
static void thread_run(void *argument) {
    struct copy_thread *thread = argument;
    struct vr_sleep_copies *copies = thread->copies;
    VR_OPERATION(copies->operation);
    vram_queue *handle;
    void *entered;
    vram_status status = vr_queue_make(
        (vram_device *)(uintptr_t)copies->change->pool->device->object.handle, NULL, &handle);
    if (status == VRAM_OK && (status = vr_enter(VR_KIND_QUEUE, handle, &entered)) != VRAM_OK) {
        vr_queue_end(handle);
    }
    if (status == VRAM_OK) {
        thread->queue = entered;
        copy_with_slots(thread, handle);
        vr_leave(entered);
    } else if (thread == &copies->threads[0]) {
        copies_fail(copies, status);
    }
}

/* ---------------------------------------------------------------- a whole copy */

/* Whether there is anything to copy out of a state, or back into it. What is sealed was copied, and
   what was not released has its contents. */
static bool has_copy(const struct vr_sleep_state *sleep_state, enum vr_sleep_copy_kind kind) {
    bool any = sleep_state->from != sleep_state->to, sealed = sleep_state->piece->seal != NULL;
    return kind == VR_SLEEP_OUT ? any && !sealed
           : kind == VR_SLEEP_IN
               ? sleep_state->host && sleep_state->emptied && sleep_state->changing
               : any && sealed;
}

static uint32_t threads_wanted(uint64_t bytes) {
    uint64_t wanted = vr_option_number(VR_OPTION_STAGING_THREADS);
    if (!wanted) {
        wanted = vr_smaller(vr_os_processors(), bytes / SHARE_BYTES);
    }
    return (uint32_t)vr_larger(vr_smaller(wanted, THREADS_MAX), 1);
}

/* Sets where each state begins in the sequence; returns the bytes of all. */
static uint64_t starts_set(const struct vr_sleep_change *change, enum vr_sleep_copy_kind kind,
                           uint64_t *starts) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < change->count; i++) {
        const struct vr_sleep_state *sleep_state = change->sleep_states[i];
        starts[i] = bytes;
        bytes += has_copy(sleep_state, kind) ? sleep_state->to - sleep_state->from : 0;
    }
    return starts[change->count] = bytes;
}

static void parts_set(struct vr_sleep_copies *copies) {
    for (uint32_t first = 0, last; copies->copied && first < copies->change->count; first = last) {
        struct copy_part *part = &copies->parts[copies->part_count++];
        last = vr_sleep_part_end(copies->change, first);
        *part = (struct copy_part){first, last, copies->starts[first], copies->starts[last], 0};
        vr_store(&part->left, part->end - part->begin, VR_RELAXED);
    }
}

static void copies_free(struct vr_sleep_copies *copies) {
    if (copies) {
        vr_mem_free(copies->parts);
        vr_mem_free(copies->starts);
        vr_mem_free(copies);
    }
}

static void threads_start(struct vr_sleep_copies *copies) {
    struct vram_error error;
    for (uint32_t i = 0; i < copies->thread_count; i++) {
        copies->threads[i] = (struct copy_thread){.copies = copies, .safe = true};
    }
    vr_error_save(&error);
    for (uint32_t i = 1; i < copies->thread_count; i++) { /* it is no failure if none starts */
        (void)vr_os_thread_start(&copies->threads[i].thread, "vram-sleep", thread_run,
                                 &copies->threads[i]);
    }
    vr_error_restore(&error);
}

vram_status vr_sleep_copies_begin(const struct vr_sleep_change *change,
                                  enum vr_sleep_copy_kind kind, vr_sleep_part_fn *copied,
                                  struct vr_sleep_copies **to) {
    struct vr_sleep_copies *copies = vr_mem_alloc(1, sizeof *copies, vr_operation());
    *to = NULL;
    if (copies) {
        *copies = (struct vr_sleep_copies){
            .change = change, .kind = kind, .operation = vr_operation(), .copied = copied};
        copies->starts = vr_mem_alloc(change->count + 1, sizeof(uint64_t), vr_operation());
        copies->parts = vr_mem_alloc(change->count + 1, sizeof(struct copy_part), vr_operation());
    }
    if (!copies || !copies->starts || !copies->parts) {
        copies_free(copies);
        return VRAM_ERR_HOST_MEMORY;
    }
    uint64_t bytes = starts_set(change, kind, copies->starts);
    if (!bytes) {
        copies_free(copies);
        return VRAM_OK;
    }
    parts_set(copies);
    copies->thread_count = threads_wanted(bytes);
    copies->chunk =
        vr_smaller(SLOT_BYTES, bytes / (UINT64_C(4) * copies->thread_count) / 4096 * 4096 + 4096);
    vr_mutex_init(&copies->lock, VR_RANK_COPY);
    threads_start(copies);
    *to = copies;
    return VRAM_OK;
}

void vr_sleep_copies_allow(struct vr_sleep_copies *copies, uint32_t count) {
    if (copies) {
        vr_store(&copies->allowed, copies->starts[count], VR_RELEASE);
    }
}

vram_status vr_sleep_copies_end(struct vr_sleep_copies *copies, vram_status status, bool *safe) {
    *safe = true;
    if (!copies) {
        return status;
    }
    if (status != VRAM_OK) {
        copies_fail(copies, status);
    } else {
        thread_run(&copies->threads[0]);
    }
    for (uint32_t i = 0; i < copies->thread_count; i++) {
        vr_os_thread_join(&copies->threads[i].thread); /* the first was never started */
        *safe = *safe && copies->threads[i].safe;
    }
    status = copies->status;
    if (status != VRAM_OK) {
        vr_error_restore(&copies->error);
    }
    vr_mutex_destroy(&copies->lock);
    copies_free(copies);
    return status;
}

vram_status vr_sleep_seals_verify(const struct vr_sleep_change *change) {
    struct vr_sleep_copies *copies;
    struct vram_error error;
    bool safe = true;
    if (!(vr_load(&change->pool->guard.modes, VR_RELAXED) & VRAM_POOL_POISON)) {
        return VRAM_OK;
    }
    vr_error_save(&error);
    vram_status status = vr_sleep_copies_begin(change, VR_SLEEP_CHECK, NULL, &copies);
    if (status == VRAM_OK) {
        vr_sleep_copies_allow(copies, change->count);
        status = vr_sleep_copies_end(copies, VRAM_OK, &safe);
    }
    if (status == VRAM_OK || status == VRAM_ERR_CORRUPT) {
        return status;
    }
    vr_log(VRAM_LOG_WARN, "pool \"%s\": sealed memory was not checked: %s", change->pool->name,
           vr_error_get()->text);
    vr_error_restore(&error);
    return VRAM_OK;
}

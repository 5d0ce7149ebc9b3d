/* SPDX-License-Identifier: Apache-2.0 */
/*
 * staging_transfer.c: one copy of pageable memory, chunk by chunk; see staging.h.
 *
 * Uploads. The caller gives chunks to the workers as long as there are slots, and helps them.
 * Whoever copies the last piece of a chunk submits it, and the slot is busy until the bus has it;
 * chunks are of different places, so their order among themselves is nobody's concern.
 *
 * Downloads. The caller submits chunks as long as there are slots. When the oldest has arrived it
 * goes to the workers, and its slot is free when they are done. One whose chunks can all be
 * submitted at once need not keep its caller: a worker looks after it until it is over.
 */
#include "xfer/staging.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/status.h"
#include "device/device_calls.h"
#include "xfer/async_record.h"

enum { CHUNKS = 8 }; /* a small transfer has so many chunks, so that copies and bus overlap, */
#define CHUNK_LEAST (UINT64_C(256) << 10) /* of at least so many bytes, */
enum { PIECES = 4 };                      /* each in so many pieces or more */
#define ALONE      (UINT64_C(128) << 10)  /* bytes that are copied before anybody else is awake */
#define PAST_CACHE (UINT64_C(1) << 20) /* bytes: of less the program finds in the cache what came */

#define MOMENT   UINT64_C(1000000)  /* ns: between two looks where others have to move, */
#define SLICE    UINT64_C(20000000) /* and where only the device has; it may close */
#define PATIENCE UINT64_C(5000000)  /* ns: how long a transfer without slots waits for one */

/* Downloads on their way, oldest first; a ring of all slots there can be. */
struct fetched {
    struct vr_staging_slot *slots[VR_STAGING_SLOTS_MAX];
    uint32_t first, count;
};

struct transfer {
    struct vr_copy_task task; /* with a record */
    struct vr_async *record;  /* who is told of its end; NULL: the caller waits */
    bool *begun;              /* with a record: it is the workers' */
    struct fetched fetched;
    struct vr_staging *staging;
    uint64_t number; /* never 0 */
    vram_queue *queue;
    const char *operation;
    vram_addr device;
    char *host;
    uint64_t bytes, chunk, piece;
    uint64_t at;    /* what comes before has a slot, or had one */
    bool refused;   /* no slot could be made */
    bool fetches;   /* a download */
    uint64_t until; /* vr_clock_now; each chunk that moves gives the next one as long */
    /* The staging's lock: */
    uint32_t copying;        /* slots that workers have */
    vram_status status;      /* the first failure, */
    struct vram_error error; /* and its record */
};

/* --------------------------------------------------------------------- failures */

/* Notes the calling thread's failure, if it is the first. */
static void fail(struct transfer *transfer, vram_status status) {
    struct vram_error error;
    vr_error_save(&error);
    vr_mutex_lock(&transfer->staging->lock);
    if (status != VRAM_OK && transfer->status == VRAM_OK) {
        transfer->status = status;
        transfer->error = error;
    }
    vr_mutex_unlock(&transfer->staging->lock);
}

static bool has_failed(struct transfer *transfer) {
    vr_mutex_lock(&transfer->staging->lock);
    const struct vr_staging *staging = transfer->staging;
    bool failed = transfer->status != VRAM_OK;
    bool stop = transfer->record ? staging->abandoned : !vr_entry_is_open(&staging->calls);
    vr_mutex_unlock(&transfer->staging->lock);
    if (stop && !failed) {
        fail(transfer,
             vr_fail_in(VRAM_ERR_SHUTDOWN, transfer->operation, "the device is being closed"));
    }
    return failed || stop;
}

/* ----------------------------------------------------------------------- chunks */

static void begin_copying(struct transfer *transfer, struct vr_staging_slot *slot) {
    struct vr_staging *staging = transfer->staging;
    char *memory = (char *)(uintptr_t)slot->memory, *host = transfer->host + slot->at;
    slot->job.to = transfer->fetches ? host : memory;
    slot->job.from = transfer->fetches ? memory : host;
    slot->job.bytes = slot->bytes;
    slot->job.piece = transfer->piece;
    slot->job.past_cache = transfer->fetches && transfer->bytes >= PAST_CACHE;
    slot->job.user = transfer;
    vr_mutex_lock(&staging->lock);
    transfer->copying++;
    vr_mutex_unlock(&staging->lock);
    vr_copy_add(&staging->workers, &slot->job);
}

/* The transfer may end as soon as the lock is open: the last that is known of it here. Keeps
   (4). */
static void end_copying(struct transfer *transfer) {
    struct vr_staging *staging = transfer->staging;
    vr_mutex_lock(&staging->lock);
    transfer->copying--;
    vr_cond_broadcast(&staging->changed);
    vr_mutex_unlock(&staging->lock);
}

/* A driver that has run out of memory for its own records has some again when work completes.
   Earlier chunks were submitted already, so a second attempt is worthwhile. */
static bool try_again(struct transfer *transfer, vram_status status) {
    if (!vr_status_is_exhausted(status)) {
        return false;
    }
    (void)vr_queue_wait(transfer->queue, SLICE);
    return true;
}

static vram_status send(struct transfer *transfer, const struct vr_staging_slot *slot) {
    return vr_submit_upload(transfer->queue, transfer->device + slot->at,
                            (const void *)(uintptr_t)slot->memory, slot->bytes);
}

/* Submits the upload of a filled slot. On any thread. If the driver refuses the marker, that is not
   a failure: the slot then waits for the whole queue. */
static void filled(struct vr_copy_job *job) {
    struct vr_staging_slot *slot = VR_CONTAINER(job, struct vr_staging_slot, job);
    struct transfer *transfer = job->user;
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = send(transfer, slot);
    if (try_again(transfer, status)) {
        status = send(transfer, slot);
    }
    if (status == VRAM_OK) {
        (void)vr_slot_busy(transfer->staging, slot, transfer->queue);
        vr_error_restore(&error);
    } else {
        vr_slot_free(transfer->staging, slot);
        fail(transfer, status);
    }
    end_copying(transfer);
}

/* The slot's chunk of a download is where it belongs. On any thread. */
static void emptied(struct vr_copy_job *job) {
    struct vr_staging_slot *slot = VR_CONTAINER(job, struct vr_staging_slot, job);
    struct transfer *transfer = job->user;
    vr_slot_free(transfer->staging, slot);
    end_copying(transfer);
}

static void cut(struct transfer *transfer, struct vr_staging_slot *slot) {
    uint64_t rest = transfer->bytes - transfer->at;
    slot->at = transfer->at;
    slot->bytes = rest < transfer->chunk ? rest : transfer->chunk;
    slot->job.ended = transfer->fetches ? emptied : filled;
    transfer->at += slot->bytes;
    vr_fetch_add(&transfer->staging->counts.chunks, 1, VR_RELAXED);
}

/* --------------------------------------------------------------------- the way */

/* What is left goes without a slot: the driver reads and writes pageable memory too. Keeps (3). */
static void go_plain(struct transfer *transfer) {
    uint64_t rest = transfer->bytes - transfer->at;
    vram_addr device = transfer->device + transfer->at;
    char *host = transfer->host + transfer->at;
    vram_status status = transfer->fetches ? vr_submit_download(transfer->queue, host, device, rest)
                                           : vr_submit_upload(transfer->queue, device, host, rest);
    if (status == VRAM_OK) {
        status = vr_queue_wait(transfer->queue, VRAM_TIMEOUT_DEFAULT);
    }
    fail(transfer, status);
    transfer->at = transfer->bytes;
    vr_fetch_add(&transfer->staging->counts.plain, 1, VR_RELAXED);
    vr_fetch_add(&transfer->staging->counts.plain_bytes, rest, VR_RELAXED);
}

/* Until a worker is done with a slot of this transfer, or for a moment: its own slots may pass
   meanwhile. */
static void rest(struct transfer *transfer, uint64_t ns) {
    struct vr_staging *staging = transfer->staging;
    vr_mutex_lock(&staging->lock);
    bool copying = transfer->copying > 0;
    if (copying) {
        (void)vr_cond_wait(&staging->changed, &staging->lock, ns);
    }
    vr_mutex_unlock(&staging->lock);
    if (!copying) {
        vr_os_yield(); /* another transfer has a look at a slot of this one */
    }
}

static bool is_late(struct transfer *transfer) {
    if (vr_clock_now() < transfer->until) {
        return false;
    }
    fail(transfer,
         vr_fail_in(VRAM_ERR_TIMEOUT, transfer->operation,
                    "%llu of %llu bytes had begun when the deadline passed",
                    (unsigned long long)transfer->at, (unsigned long long)transfer->bytes));
    return true;
}

static void moved(struct transfer *transfer) {
    uint64_t now = vr_clock_now(), most = transfer->staging->device->context->wait_ns;
    transfer->until = vr_add(now, most, &transfer->until) ? transfer->until : UINT64_MAX;
}

static bool is_copying(struct transfer *transfer) {
    vr_mutex_lock(&transfer->staging->lock);
    bool copying = transfer->copying > 0;
    vr_mutex_unlock(&transfer->staging->lock);
    return copying;
}

/* Keeps (4). Others' pieces may be among those that are copied here: they help us, too. */
static void end_all(struct transfer *transfer) {
    while (is_copying(transfer)) {
        if (!vr_copy_help(&transfer->staging->workers)) {
            rest(transfer, MOMENT);
        }
    }
}

/* Waits for a slot of others, but not for long: keeps (3). */
static struct vr_staging_slot *borrow(struct transfer *transfer) {
    struct vr_staging *staging = transfer->staging;
    struct vr_staging_slot *slot = NULL;
    uint64_t begun = vr_os_now();
    while (!slot && vr_slot_any(staging, 0) && vr_os_now() - begun < PATIENCE &&
           !has_failed(transfer)) {
        if (!vr_copy_help(&staging->workers)) {
            (void)vr_slot_await(staging, 0, transfer->number, MOMENT, &slot);
            vr_os_yield();
        }
        slot = slot ? slot : vr_slot_take(staging, transfer->number, false, &transfer->refused);
    }
    return slot;
}

/* A slot for the next chunk, or NULL: there is none at present, or what is left went the plain
   way. */
static struct vr_staging_slot *next_slot(struct transfer *transfer) {
    struct vr_staging *staging = transfer->staging;
    struct vr_staging_slot *slot =
        vr_slot_take(staging, transfer->number, !transfer->refused, &transfer->refused);
    if (!slot && !vr_slot_any(staging, transfer->number)) {
        slot = borrow(transfer);
        if (!slot && !has_failed(transfer)) {
            go_plain(transfer);
        }
    }
    return slot;
}

static void upload(struct transfer *transfer) {
    struct vr_staging *staging = transfer->staging;
    while (transfer->at < transfer->bytes && !has_failed(transfer)) {
        struct vr_staging_slot *slot = next_slot(transfer);
        if (!slot && transfer->at < transfer->bytes && !vr_copy_help(&staging->workers)) {
            vram_status status =
                vr_slot_await(staging, transfer->number, transfer->number, SLICE, &slot);
            if (status != VRAM_OK) {
                fail(transfer, status);
            } else if (!slot) {
                rest(transfer, MOMENT);
                if (is_late(transfer)) {
                    break;
                }
            }
        }
        if (slot) {
            cut(transfer, slot);
            begin_copying(transfer, slot);
            moved(transfer);
        }
    }
    end_all(transfer);
}

static vram_status fetch(struct transfer *transfer, const struct vr_staging_slot *slot) {
    return vr_submit_download(transfer->queue, (void *)(uintptr_t)slot->memory,
                              transfer->device + slot->at, slot->bytes);
}

static void submit(struct transfer *transfer, struct vr_staging_slot *slot) {
    struct fetched *fetched = &transfer->fetched;
    struct vram_error error;
    vr_error_save(&error);
    cut(transfer, slot);
    vram_status status = fetch(transfer, slot);
    if (try_again(transfer, status)) {
        status = fetch(transfer, slot);
    }
    if (status == VRAM_OK) {
        slot->point = (vram_point){transfer->queue, 0};
        status = vr_submit_mark(transfer->queue, &slot->point);
        if (try_again(transfer, status)) {
            status = vr_submit_mark(transfer->queue, &slot->point);
        }
        fetched->slots[(fetched->first + fetched->count++) % VR_STAGING_SLOTS_MAX] = slot;
    } else {
        vr_slot_free(transfer->staging, slot);
    }
    if (status == VRAM_OK) {
        vr_error_restore(&error);
    } else {
        fail(transfer, status);
    }
    moved(transfer);
}

/* Gives the oldest to the workers when it has arrived, waiting for it at most so long; whether it
   had. */
static bool receive(struct transfer *transfer, uint64_t ns) {
    struct fetched *fetched = &transfer->fetched;
    struct vr_staging_slot *slot = fetched->slots[fetched->first];
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = ns ? vr_point_wait(slot->point, ns) : vr_point_poll(slot->point);
    if (vr_status_is_exhausted(status)) { /* a second try, as in try_again */
        status = vr_point_poll(slot->point);
    }
    if (status == VRAM_ERR_NOT_READY || status == VRAM_ERR_TIMEOUT) {
        vr_error_restore(&error);
        return false;
    }
    if (status != VRAM_OK) {
        fail(transfer, status);
        return false;
    }
    fetched->first = (fetched->first + 1) % VR_STAGING_SLOTS_MAX;
    fetched->count--;
    begin_copying(transfer, slot);
    moved(transfer);
    return true;
}

/* After a failure: the device may still write into what is on its way. */
static void give_up(struct transfer *transfer) {
    struct fetched *fetched = &transfer->fetched;
    for (; fetched->count; fetched->count--) {
        struct vr_staging_slot *slot = fetched->slots[fetched->first];
        fetched->first = (fetched->first + 1) % VR_STAGING_SLOTS_MAX;
        (void)vr_slot_busy(transfer->staging, slot, transfer->queue);
    }
}

static void download(struct transfer *transfer) {
    struct vr_staging *staging = transfer->staging;
    struct fetched *fetched = &transfer->fetched;
    while ((transfer->at < transfer->bytes || fetched->count) && !has_failed(transfer)) {
        if (fetched->count && receive(transfer, 0)) {
            continue;
        }
        struct vr_staging_slot *slot = transfer->at < transfer->bytes ? next_slot(transfer) : NULL;
        if (slot) {
            submit(transfer, slot);
        } else if (!vr_copy_help(&staging->workers)) {
            if (fetched->count) {
                (void)receive(transfer, SLICE);
            } else {
                rest(transfer, MOMENT);
            }
            if (!has_failed(transfer) && is_late(transfer)) {
                break;
            }
        }
    }
    give_up(transfer);
    end_all(transfer);
}

/* ---------------------------------------------------------------------- the door */

/* Small chunks have small pieces: a thread alone would take longer for one of 512 KiB than the bus
   for all. */
static uint64_t piece_of(uint64_t chunk) {
    uint64_t piece = chunk / PIECES / VR_COPY_PIECE_LEAST * VR_COPY_PIECE_LEAST;
    piece = piece > VR_COPY_PIECE_LEAST ? piece : VR_COPY_PIECE_LEAST;
    return piece < VR_COPY_PIECE ? piece : VR_COPY_PIECE;
}

static uint64_t chunk_of(const struct vr_staging *staging, uint64_t bytes) {
    uint64_t chunk = bytes / CHUNKS;
    chunk = chunk > CHUNK_LEAST ? chunk : CHUNK_LEAST;
    uint64_t piece = piece_of(chunk);
    chunk = (chunk + piece - 1) / piece * piece;
    return chunk < staging->slot_bytes ? chunk : staging->slot_bytes;
}

static vram_status begin(struct vr_queue_object *queue, struct transfer *transfer) {
    VR_OPERATION(transfer->operation);
    struct vr_staging *staging;
    vram_status status = vr_staging_enter(queue->device, &staging);
    if (status == VRAM_OK) {
        vr_mutex_lock(&staging->lock);
        transfer->number = ++staging->transfers;
        staging->used_ns = vr_os_now();
        vr_mutex_unlock(&staging->lock);
        transfer->staging = staging;
        transfer->chunk = chunk_of(staging, transfer->bytes);
        transfer->piece = transfer->bytes > ALONE ? piece_of(transfer->chunk) : VR_COPY_PIECE;
        moved(transfer);
    }
    return status;
}

/* Counts it; its status. */
static vram_status conclude(struct transfer *transfer) {
    struct vr_staging_counts *counts = &transfer->staging->counts;
    vr_mutex_lock(&transfer->staging->lock);
    transfer->staging->used_ns = vr_os_now();
    vr_mutex_unlock(&transfer->staging->lock);
    if (transfer->status == VRAM_OK) {
        vr_fetch_add(transfer->fetches ? &counts->downloads : &counts->uploads, 1, VR_RELAXED);
        vr_fetch_add(transfer->fetches ? &counts->download_bytes : &counts->upload_bytes,
                     transfer->bytes, VR_RELAXED);
    }
    return transfer->status;
}

static vram_status run(struct vr_queue_object *queue, struct transfer *transfer) {
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = begin(queue, transfer);
    if (status != VRAM_OK) {
        return status;
    }
    if (transfer->fetches) {
        download(transfer);
    } else {
        upload(transfer);
    }
    status = conclude(transfer);
    vr_error_restore(status == VRAM_OK ? &error : &transfer->error);
    vr_staging_leave(transfer->staging);
    return status;
}

typedef vram_status act_fn(struct vr_queue_object *queue, struct transfer *transfer);

/* Enters the queue, checks the two sides, and acts when there is something to do. */
static vram_status enter_and(vram_queue *handle, struct transfer *transfer, act_fn *act) {
    VR_OPERATION(transfer->operation);
    void *entered;
    vram_status status = vr_queue_enter(handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_queue_object *queue = entered;
    if (!transfer->host && transfer->bytes) {
        status = vr_fail_in(VRAM_ERR_INVALID, transfer->operation, "the host memory is NULL");
    } else if (transfer->bytes) {
        status = vr_span_check(queue->device, transfer->device, transfer->bytes);
    }
    if (status == VRAM_OK && transfer->bytes) {
        transfer->queue = handle;
        status = act(queue, transfer);
    }
    vr_leave(queue);
    return status;
}

vram_status vr_staging_upload(vram_queue *queue, vram_addr to, const void *from, uint64_t bytes) {
    struct transfer transfer = {
        .operation = "upload", .device = to, .host = (char *)(uintptr_t)from, .bytes = bytes};
    return enter_and(queue, &transfer, run);
}

vram_status vr_staging_download(vram_queue *queue, void *to, vram_addr from, uint64_t bytes) {
    struct transfer transfer = {
        .operation = "download", .device = from, .host = to, .bytes = bytes, .fetches = true};
    return enter_and(queue, &transfer, run);
}

/* ------------------------------------------------------------- looked after */

/* Tells of the end with nothing of the staging in hand: a callback may end the device right
   there. */
static void end_task(struct transfer *transfer) {
    struct vr_async *record = transfer->record;
    vram_status status = conclude(transfer);
    struct vram_error error = transfer->error;
    vr_staging_leave(transfer->staging);
    vr_mem_free(transfer);
    if (status != VRAM_OK) {
        vr_error_restore(&error);
    }
    vr_async_finish(record, status);
}

/* On a worker, as often as it takes. */
static bool look(struct vr_copy_task *task) {
    struct transfer *transfer = VR_CONTAINER(task, struct transfer, task);
    while (transfer->fetched.count && !has_failed(transfer) && receive(transfer, 0)) {
    }
    if (has_failed(transfer)) {
        give_up(transfer);
    }
    if (transfer->fetched.count || is_copying(transfer)) {
        return false;
    }
    end_task(transfer);
    return true;
}

/* All slots at once, or none. */
static bool take_slots(struct transfer *transfer, struct vr_staging_slot **slots, uint64_t count) {
    struct vr_staging *staging = transfer->staging;
    uint32_t taken = 0;
    while (taken < count &&
           (slots[taken] = vr_slot_take(staging, transfer->number, true, &transfer->refused))) {
        taken++;
    }
    for (uint32_t i = 0; taken < count && i < taken; i++) {
        vr_slot_free(staging, slots[i]);
    }
    return taken == count;
}

/* Submits all chunks; false: there are not slots for them, and nothing was submitted. */
static bool submit_all(struct transfer *transfer) {
    struct vr_staging *staging = transfer->staging;
    struct vr_staging_slot *slots[VR_STAGING_SLOTS_MAX];
    uint64_t count = (transfer->bytes + transfer->chunk - 1) / transfer->chunk;
    if (count > staging->slot_most || !staging->workers.most ||
        !take_slots(transfer, slots, count)) {
        return false;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (transfer->status == VRAM_OK) {
            submit(transfer, slots[i]);
        } else {
            vr_slot_free(staging, slots[i]);
        }
    }
    return true;
}

static vram_status begin_task(struct vr_queue_object *queue, struct transfer *transfer) {
    vram_status status = begin(queue, transfer);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_staging *staging = transfer->staging;
    bool submitted = submit_all(transfer);
    status = transfer->status;
    if (submitted && status == VRAM_OK) {
        *transfer->begun = true;
        transfer->task.look = look;
        if (!vr_copy_look_after(&staging->workers, &transfer->task)) {
            download(transfer); /* no worker after all: the caller sees it through */
            end_task(transfer);
        }
        return VRAM_OK;
    }
    give_up(transfer);
    if (status != VRAM_OK) {
        vr_error_restore(&transfer->error);
    }
    vr_staging_leave(staging);
    return status;
}

vram_status vr_staging_download_begin(vram_queue *queue, void *to, vram_addr from, uint64_t bytes,
                                      struct vr_async *record, bool *begun) {
    VR_OPERATION("download");
    struct vram_error error;
    *begun = false;
    vr_error_save(&error);
    struct transfer *transfer = vr_mem_alloc(1, sizeof *transfer, vr_operation());
    if (!transfer) {
        vr_error_restore(&error); /* the caller may wait instead */
        return VRAM_OK;
    }
    transfer->operation = "download";
    transfer->device = from;
    transfer->host = to;
    transfer->bytes = bytes;
    transfer->fetches = true;
    transfer->record = record;
    transfer->begun = begun;
    vram_status status = enter_and(queue, transfer, begin_task);
    if (!*begun) {
        vr_mem_free(transfer);
    }
    return status;
}

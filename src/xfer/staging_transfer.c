/* SPDX-License-Identifier: Apache-2.0 */
/*
 * staging_transfer.c: one copy of pageable memory, chunk by chunk; see staging.h.
 *
 * Uploads. The caller passes chunks to the workers as long as there are slots, and helps them. The
 * thread that copies the last piece of a chunk submits it, and the slot is busy until the bus has
 * read it. Chunks go to different addresses, so their order does not matter.
 *
 * Downloads. The caller submits chunks as long as there are slots. When the oldest has arrived the
 * workers copy it, and its slot is free when they are done. If all chunks can be submitted at once,
 * the caller need not wait: a worker polls the transfer until it is over.
 */
#include "xfer/staging.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/status.h"
#include "device/device_calls.h"
#include "device/ops.h"
#include "xfer/async_record.h"

enum { CHUNKS = 8 };                      /* of a small transfer, so that copies and bus overlap */
#define CHUNK_LEAST (UINT64_C(256) << 10) /* bytes of a chunk */
enum { PIECES = 4 };                      /* of a chunk, at least */
#define ALONE      (UINT64_C(128) << 10)  /* bytes that one thread copies before others wake up */
#define PAST_CACHE (UINT64_C(1) << 20)    /* bytes: smaller downloads are left in the cache */

#define WORKER_POLL_NS UINT64_C(1000000)  /* ns between two checks for progress of workers */
#define DEVICE_POLL_NS UINT64_C(20000000) /* ns between two checks if only the device works */
#define SLOT_WAIT_NS   UINT64_C(5000000)  /* ns that a transfer without slots waits for one */

/* Downloads in flight, oldest first; a ring as large as the most slots. */
struct slot_ring {
    struct vr_staging_slot *slots[VR_STAGING_SLOTS_MAX];
    uint32_t first, count;
};

struct transfer {
    struct vr_copy_task task; /* with a record */
    struct vr_async *record;  /* settled at the end; NULL: the caller waits */
    bool *begun;              /* with a record: the workers have taken over */
    struct slot_ring fetched;
    struct vr_staging *staging;
    uint64_t number; /* never 0 */
    vram_queue *queue;
    const char *operation;
    vram_addr device;
    char *host;
    uint64_t bytes, chunk, piece;
    uint64_t at;    /* everything before it has, or had, a slot */
    bool refused;   /* no slot could be made */
    bool fetches;   /* a download */
    uint64_t until; /* vr_clock_now; each chunk that moves extends it */
    /* Guarded by the staging's lock: */
    uint32_t copying;        /* slots that workers are copying */
    vram_status status;      /* the first failure */
    struct vram_error error; /* the error of that */
};

/* --------------------------------------------------------------------- failures */

/* Records the calling thread's failure, if it is the first. */
static void transfer_fail(struct transfer *transfer, vram_status status) {
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
        transfer_fail(transfer, vr_fail_in(VRAM_ERR_SHUTDOWN, transfer->operation,
                                           "the device is being closed"));
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

/* The last access to the transfer here: it may end as soon as the lock is released. Keeps (4). */
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
    (void)vr_queue_wait(transfer->queue, DEVICE_POLL_NS);
    return true;
}

static vram_status send_slot(struct transfer *transfer, const struct vr_staging_slot *slot) {
    return vr_submit_upload(transfer->queue, transfer->device + slot->at,
                            (const void *)(uintptr_t)slot->memory, slot->bytes);
}

/* Submits the upload of a filled slot. On any thread. If the driver refuses the marker, that is not
   a failure: the slot then waits for the whole queue. */
static void slot_filled(struct vr_copy_job *job) {
    struct vr_staging_slot *slot = VR_CONTAINER(job, struct vr_staging_slot, job);
    struct transfer *transfer = job->user;
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = send_slot(transfer, slot);
    if (try_again(transfer, status)) {
        status = send_slot(transfer, slot);
    }
    if (status == VRAM_OK) {
        (void)vr_slot_busy(transfer->staging, slot, transfer->queue);
        vr_error_restore(&error);
    } else {
        vr_slot_free(transfer->staging, slot);
        transfer_fail(transfer, status);
    }
    end_copying(transfer);
}

/* A chunk of a download has been copied to its destination. On any thread. */
static void slot_emptied(struct vr_copy_job *job) {
    struct vr_staging_slot *slot = VR_CONTAINER(job, struct vr_staging_slot, job);
    struct transfer *transfer = job->user;
    vr_slot_free(transfer->staging, slot);
    end_copying(transfer);
}

static void cut_chunk(struct transfer *transfer, struct vr_staging_slot *slot) {
    uint64_t left = transfer->bytes - transfer->at;
    slot->at = transfer->at;
    slot->bytes = left < transfer->chunk ? left : transfer->chunk;
    slot->job.ended = transfer->fetches ? slot_emptied : slot_filled;
    transfer->at += slot->bytes;
    vr_fetch_add(&transfer->staging->counts.chunks, 1, VR_RELAXED);
}

/* ---------------------------------------------------------------------- uploads */

/* Copies what is left without a slot: the driver accepts pageable memory too. Keeps (3). */
static void copy_unstaged(struct transfer *transfer) {
    uint64_t left = transfer->bytes - transfer->at;
    vram_addr device = transfer->device + transfer->at;
    char *host = transfer->host + transfer->at;
    vram_status status = transfer->fetches ? vr_submit_download(transfer->queue, host, device, left)
                                           : vr_submit_upload(transfer->queue, device, host, left);
    if (status == VRAM_OK) {
        status = vr_queue_wait(transfer->queue, VRAM_TIMEOUT_DEFAULT);
    }
    transfer_fail(transfer, status);
    transfer->at = transfer->bytes;
    vr_fetch_add(&transfer->staging->counts.plain, 1, VR_RELAXED);
    vr_fetch_add(&transfer->staging->counts.plain_bytes, left, VR_RELAXED);
}

/* Sleeps until a worker is done with a slot of this transfer, or for at most `ns`: its own slots
   may pass meanwhile. */
static void wait_for_workers(struct transfer *transfer, uint64_t ns) {
    struct vr_staging *staging = transfer->staging;
    vr_mutex_lock(&staging->lock);
    bool copying = transfer->copying > 0;
    if (copying) {
        (void)vr_cond_wait(&staging->changed, &staging->lock, ns);
    }
    vr_mutex_unlock(&staging->lock);
    if (!copying) {
        vr_os_yield(); /* another transfer is polling a slot of this one */
    }
}

static bool is_late(struct transfer *transfer) {
    if (vr_clock_now() < transfer->until) {
        return false;
    }
    transfer_fail(transfer, vr_fail_in(VRAM_ERR_TIMEOUT, transfer->operation,
                                       "%llu of %llu bytes had begun when the deadline passed",
                                       (unsigned long long)transfer->at,
                                       (unsigned long long)transfer->bytes));
    return true;
}

static void extend_deadline(struct transfer *transfer) {
    uint64_t now = vr_clock_now(), most = transfer->staging->device->context->wait_ns;
    transfer->until = vr_add(now, most, &transfer->until) ? transfer->until : UINT64_MAX;
}

static bool is_copying(struct transfer *transfer) {
    vr_mutex_lock(&transfer->staging->lock);
    bool copying = transfer->copying > 0;
    vr_mutex_unlock(&transfer->staging->lock);
    return copying;
}

/* Keeps (4). The pieces copied here may belong to other transfers, which help this one, too. */
static void end_all(struct transfer *transfer) {
    while (is_copying(transfer)) {
        if (!vr_copy_help(&transfer->staging->workers)) {
            wait_for_workers(transfer, WORKER_POLL_NS);
        }
    }
}

/* Waits briefly for a slot of others: keeps (3). */
static struct vr_staging_slot *borrow_slot(struct transfer *transfer) {
    struct vr_staging *staging = transfer->staging;
    struct vr_staging_slot *slot = NULL;
    uint64_t begun = vr_os_now();
    while (!slot && vr_slot_any(staging, 0) && vr_os_now() - begun < SLOT_WAIT_NS &&
           !has_failed(transfer)) {
        if (!vr_copy_help(&staging->workers)) {
            (void)vr_slot_await(staging, 0, transfer->number, WORKER_POLL_NS, &slot);
            vr_os_yield();
        }
        slot = slot ? slot : vr_slot_take(staging, transfer->number, false, &transfer->refused);
    }
    return slot;
}

/* A slot for the next chunk, or NULL: none at present, or the rest was copied without slots. */
static struct vr_staging_slot *next_slot(struct transfer *transfer) {
    struct vr_staging *staging = transfer->staging;
    struct vr_staging_slot *slot =
        vr_slot_take(staging, transfer->number, !transfer->refused, &transfer->refused);
    if (!slot && !vr_slot_any(staging, transfer->number)) {
        slot = borrow_slot(transfer);
        if (!slot && !has_failed(transfer)) {
            copy_unstaged(transfer);
        }
    }
    return slot;
}

static void upload_chunks(struct transfer *transfer) {
    struct vr_staging *staging = transfer->staging;
    while (transfer->at < transfer->bytes && !has_failed(transfer)) {
        struct vr_staging_slot *slot = next_slot(transfer);
        if (!slot && transfer->at < transfer->bytes && !vr_copy_help(&staging->workers)) {
            vram_status status =
                vr_slot_await(staging, transfer->number, transfer->number, DEVICE_POLL_NS, &slot);
            if (status != VRAM_OK) {
                transfer_fail(transfer, status);
            } else if (!slot) {
                wait_for_workers(transfer, WORKER_POLL_NS);
                if (is_late(transfer)) {
                    break;
                }
            }
        }
        if (slot) {
            cut_chunk(transfer, slot);
            begin_copying(transfer, slot);
            extend_deadline(transfer);
        }
    }
    end_all(transfer);
}

static vram_status fetch_slot(struct transfer *transfer, const struct vr_staging_slot *slot) {
    return vr_submit_download(transfer->queue, (void *)(uintptr_t)slot->memory,
                              transfer->device + slot->at, slot->bytes);
}

static void submit_download(struct transfer *transfer, struct vr_staging_slot *slot) {
    struct slot_ring *fetched = &transfer->fetched;
    struct vram_error error;
    vr_error_save(&error);
    cut_chunk(transfer, slot);
    vram_status status = fetch_slot(transfer, slot);
    if (try_again(transfer, status)) {
        status = fetch_slot(transfer, slot);
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
    transfer_fail(transfer, status);
    vr_error_restore(&error);
    extend_deadline(transfer);
}

/* Passes the oldest chunk to the workers when it has arrived, and waits for that at most so long.
   Returns whether it had arrived. */
static bool receive_oldest(struct transfer *transfer, uint64_t ns) {
    struct slot_ring *fetched = &transfer->fetched;
    struct vr_staging_slot *slot = fetched->slots[fetched->first];
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = ns ? vr_point_wait(slot->point, ns) : vr_point_poll(slot->point);
    if (vr_status_is_exhausted(status)) { /* retries, as in try_again */
        status = vr_point_poll(slot->point);
    }
    if (status == VRAM_ERR_NOT_READY || status == VRAM_ERR_TIMEOUT) {
        vr_error_restore(&error);
        return false;
    }
    if (status != VRAM_OK) {
        transfer_fail(transfer, status);
        return false;
    }
    fetched->first = (fetched->first + 1) % VR_STAGING_SLOTS_MAX;
    fetched->count--;
    begin_copying(transfer, slot);
    extend_deadline(transfer);
    return true;
}

/* After a failure, waits for chunks in flight: the device may still write into their slots. */
static void drain_in_flight(struct transfer *transfer) {
    struct slot_ring *fetched = &transfer->fetched;
    for (; fetched->count; fetched->count--) {
        struct vr_staging_slot *slot = fetched->slots[fetched->first];
        fetched->first = (fetched->first + 1) % VR_STAGING_SLOTS_MAX;
        (void)vr_slot_busy(transfer->staging, slot, transfer->queue);
    }
}

static void download_chunks(struct transfer *transfer) {
    struct vr_staging *staging = transfer->staging;
    struct slot_ring *fetched = &transfer->fetched;
    while ((transfer->at < transfer->bytes || fetched->count) && !has_failed(transfer)) {
        if (fetched->count && receive_oldest(transfer, 0)) {
            continue;
        }
        struct vr_staging_slot *slot = transfer->at < transfer->bytes ? next_slot(transfer) : NULL;
        if (slot) {
            submit_download(transfer, slot);
        } else if (!vr_copy_help(&staging->workers)) {
            if (fetched->count) {
                (void)receive_oldest(transfer, DEVICE_POLL_NS);
            } else {
                wait_for_workers(transfer, WORKER_POLL_NS);
            }
            if (!has_failed(transfer) && is_late(transfer)) {
                break;
            }
        }
    }
    drain_in_flight(transfer);
    end_all(transfer);
}

/* ------------------------------------------------------------------------ calls */

/* Small chunks have small pieces: one thread would take longer for a piece of 512 KiB than the bus
   for all. */
static uint64_t piece_of(uint64_t chunk) {
    uint64_t piece = chunk / PIECES / VR_COPY_PIECE_LEAST * VR_COPY_PIECE_LEAST;
    piece = piece > VR_COPY_PIECE_LEAST ? piece : VR_COPY_PIECE_LEAST;
    return piece < VR_COPY_PIECE ? piece : VR_COPY_PIECE;
}

static uint64_t chunk_of(const struct vr_staging *staging, uint64_t bytes) {
    uint64_t chunk = bytes / CHUNKS > CHUNK_LEAST ? bytes / CHUNKS : CHUNK_LEAST;
    uint64_t piece = piece_of(chunk);
    chunk = (chunk + piece - 1) / piece * piece;
    return chunk < staging->slot_bytes ? chunk : staging->slot_bytes;
}

static vram_status transfer_begin(struct vr_queue_object *queue, struct transfer *transfer) {
    VR_OPERATION(transfer->operation);
    vram_status status = vr_device_check(queue->base.device); /* slots may be gone */
    if (status != VRAM_OK ||
        (status = vr_staging_enter(queue->device, &transfer->staging)) != VRAM_OK) {
        return status;
    }
    vr_mutex_lock(&transfer->staging->lock);
    transfer->number = ++transfer->staging->transfers;
    transfer->staging->used_ns = vr_os_now();
    vr_mutex_unlock(&transfer->staging->lock);
    transfer->chunk = chunk_of(transfer->staging, transfer->bytes);
    transfer->piece = transfer->bytes > ALONE ? piece_of(transfer->chunk) : VR_COPY_PIECE;
    extend_deadline(transfer);
    return VRAM_OK;
}

/* Counts the transfer and returns its status. */
static vram_status transfer_conclude(struct transfer *transfer) {
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

/* False: there is no slot, or the driver is short of memory. */
static bool download_alone(struct transfer *transfer) {
    vram_status status = VRAM_OK;
    bool done = vr_slot_fetch(transfer->staging, transfer->queue, transfer->number, transfer->host,
                              transfer->device, transfer->bytes, &status);
    transfer_fail(transfer, done ? status : VRAM_OK);
    return done;
}

static vram_status transfer_run(struct vr_queue_object *queue, struct transfer *transfer) {
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = transfer_begin(queue, transfer);
    if (status != VRAM_OK) {
        return status;
    }
    if (!transfer->fetches) {
        upload_chunks(transfer);
    } else if (transfer->bytes > ALONE || !download_alone(transfer)) {
        download_chunks(transfer);
    }
    status = transfer_conclude(transfer);
    vr_error_restore(status == VRAM_OK ? &error : &transfer->error);
    vr_staging_leave(transfer->staging);
    return status;
}

typedef vram_status act_fn(struct vr_queue_object *queue, struct transfer *transfer);

/* Enters the queue, checks the two sides, and calls `act` if there are bytes to copy. */
static vram_status enter_and(vram_queue *handle, struct transfer *transfer, act_fn *act) {
    VR_OPERATION(transfer->operation);
    vram_status (*check)(struct vr_device_object * device, vram_addr addr, uint64_t bytes) =
        transfer->fetches ? vr_span_check : vr_span_check_write;
    void *entered;
    vram_status status = vr_queue_enter(handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_queue_object *queue = entered;
    if (!transfer->host && transfer->bytes) {
        status = vr_fail_in(VRAM_ERR_INVALID, transfer->operation, "the host memory is NULL");
    } else if (transfer->bytes &&
               (status = check(queue->device, transfer->device, transfer->bytes)) == VRAM_OK) {
        transfer->queue = handle;
        status = act(queue, transfer);
    }
    vr_leave(queue);
    return status;
}

vram_status vr_staging_upload(vram_queue *queue, vram_addr to, const void *from, uint64_t bytes) {
    struct transfer transfer = {
        .operation = "upload", .device = to, .host = (char *)(uintptr_t)from, .bytes = bytes};
    return enter_and(queue, &transfer, transfer_run);
}

vram_status vr_staging_download(vram_queue *queue, void *to, vram_addr from, uint64_t bytes) {
    struct transfer transfer = {
        .operation = "download", .device = from, .host = to, .bytes = bytes, .fetches = true};
    return enter_and(queue, &transfer, transfer_run);
}

/* ---------------------------------------------------------- tasks of workers */

/* Settles the record after it has released the staging: a callback may close the device at once. */
static void end_task(struct transfer *transfer) {
    struct vr_async *record = transfer->record;
    vram_status status = transfer_conclude(transfer);
    struct vram_error error = transfer->error;
    vr_staging_leave(transfer->staging);
    vr_mem_free(transfer);
    if (status != VRAM_OK) {
        vr_error_restore(&error);
    }
    vr_async_finish(record, status);
}

/* Polls the transfer, on a worker, until it is over. */
static bool poll_transfer(struct vr_copy_task *task) {
    struct transfer *transfer = VR_CONTAINER(task, struct transfer, task);
    while (transfer->fetched.count && !has_failed(transfer) && receive_oldest(transfer, 0)) {
    }
    if (has_failed(transfer)) {
        drain_in_flight(transfer);
    }
    if (transfer->fetched.count || is_copying(transfer)) {
        return false;
    }
    end_task(transfer);
    return true;
}

/* Takes all slots at once, or none. */
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

/* Submits all chunks; false: too few slots, and nothing was submitted. */
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
            submit_download(transfer, slots[i]);
        } else {
            vr_slot_free(staging, slots[i]);
        }
    }
    return true;
}

static vram_status begin_task(struct vr_queue_object *queue, struct transfer *transfer) {
    vram_status status = transfer_begin(queue, transfer);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_staging *staging = transfer->staging;
    bool submitted = submit_all(transfer);
    status = transfer->status;
    if (submitted && status == VRAM_OK) {
        *transfer->begun = true;
        transfer->task.poll = poll_transfer;
        if (!vr_copy_task_add(&staging->workers, &transfer->task)) {
            download_chunks(transfer); /* no worker after all: the caller completes it */
            end_task(transfer);
        }
        return VRAM_OK;
    }
    drain_in_flight(transfer);
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

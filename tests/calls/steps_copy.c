/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steps_copy.c: copies and fills of blocks, on queues and as transfers.
 *
 * Work on a block goes to any queue. If another one used it last, the queue waits for that first,
 * as a program would have it; so a block's contents are always those of the last step.
 */
#include "calls/program.h"

enum { PIECES = 256 << 10 }; /* from so many bytes on ordinary memory is copied in pieces */

/* A step on a part of a block, ready to be made. */
struct part {
    const struct op *op;
    struct object *one, *on;
    struct pending *pending; /* NULL: the host's memory has no part in it */
    vram_queue *queue;
    unsigned char *host;
    vram_addr at, from;
    uint64_t bytes, may;
};

/* Units of a part of the block on the drawn queue. */
static bool part_on(struct run *r, struct op *op, struct part *part, uint32_t unit) {
    struct object *one = OBJECT(BLOCK, op->block);
    if (!op->queue) {
        return false;
    }
    if (op->nth % 4 == 0) { /* all of it */
        op->offset = 0;
        op->bytes = one->bytes;
    }
    op->offset = one->bytes ? op->offset % one->bytes / unit * unit : 0;
    op->bytes = op->bytes % (one->bytes - op->offset + 1) / unit * unit;
    *part = (struct part){.op = op,
                          .one = one,
                          .on = OBJECT(QUEUE, op->queue),
                          .queue = queue[op->queue],
                          .at = block[op->block] + op->offset,
                          .bytes = op->bytes,
                          .may = r->may | pool_awake(one->parent, INVALID | BUSY)};
    return order_on(r, one, op->queue);
}

/* The same with host memory. */
static bool part_host(struct run *r, struct op *op, struct part *part, bool upload) {
    if (!part_on(r, op, part, 1) || !(part->pending = pending_new(r, op, op->queue, upload))) {
        return false;
    }
    part->host = part->pending->host;
    return true;
}

/* The block `from` as the source of a copy to `block`; the same part of both. */
static bool part_source(struct run *r, struct op *op, struct part *part) {
    struct object *from = OBJECT(BLOCK, op->from);
    if (!(r->may & OK) || op->from == op->block || !part_on(r, op, part, 1) ||
        object_device(from) != object_device(part->one) || op->offset > from->bytes) {
        return false;
    }
    uint64_t most = from->bytes - op->offset;
    part->bytes = op->bytes = op->bytes < most ? op->bytes : most;
    part->from = block[op->from] + op->offset;
    part->may |= pool_awake(from->parent, INVALID | BUSY);
    return order_on(r, from, op->queue);
}

/* Says that a queue other than its home uses a block. If that fails, the program waits: nobody else
   knows of the work. */
static void block_used(struct run *r, unsigned queue_slot, unsigned slot) {
    if (OBJECT(BLOCK, slot)->home != OBJECT(QUEUE, queue_slot) &&
        DO(OK, vram_use(block[slot], queue[queue_slot])) != VRAM_OK) {
        step_fault_clear(r, NULL);
        queue_finish(r, queue_slot);
    }
}

/* A call that failed has changed nothing, except one that a driver stopped in the middle of
   pieces. True: what the model knows of the block is to be written. */
static bool part_done(struct run *r, struct part *part, vram_status status, bool writes) {
    bool done = status == VRAM_OK;
    bool pieces = part->bytes >= PIECES && status != VRAM_ERR_HOST_MEMORY && faults_were;
    if (done) {
        block_used(r, part->op->queue, part->op->block);
    }
    if (r->loose && done) { /* in another round nobody knows of it */
        queue_finish(r, part->op->queue);
    } else if (done) {
        part->one->last = part->on;
    } else if (!r->loose && writes && pieces) {
        part->one->contents.count = 0;
    }
    if (part->pending && !done) {
        pending_fail(r, part->pending, !pieces);
    } else if (part->pending && !writes && !r->loose) {
        part->pending->expected = part->one->contents;
    }
    return done && writes && !r->loose;
}

static void part_written(struct run *r, struct part *part, vram_status status, uint64_t seed) {
    if (part_done(r, part, status, true)) {
        contents_write(&part->one->contents, part->op->offset,
                       (struct extent){0, part->bytes, seed, 0});
    }
}

static void part_copied(struct run *r, struct part *part, vram_status status) {
    struct object *from = OBJECT(BLOCK, part->op->from);
    bool known = part_done(r, part, status, true);
    if (status == VRAM_OK) {
        block_used(r, part->op->queue, part->op->from);
    }
    if (known) {
        from->last = part->on;
        contents_copy(&part->one->contents, &from->contents, part->op->offset, part->bytes);
    }
}

STEP(upload) {
    struct part p;
    if (part_host(r, op, &p, true)) {
        part_written(r, &p, DO(p.may, vram_queue_upload(p.queue, p.at, p.host, p.bytes)),
                     op->seed >> 1);
    }
}

STEP(download) {
    struct part p;
    if (part_host(r, op, &p, false)) {
        part_done(r, &p, DO(p.may, vram_queue_download(p.queue, p.host, p.at, p.bytes)), false);
    }
}

STEP(copy) {
    struct part p;
    if (part_source(r, op, &p)) {
        part_copied(r, &p, DO(p.may, vram_queue_copy(p.queue, p.at, p.from, p.bytes)));
    }
}

STEP(fill) {
    struct part p;
    uint32_t unit = 1u << op->choice % 3, value = (uint32_t)op->seed;
    if (part_on(r, op, &p, unit)) {
        part_written(r, &p, DO(p.may, vram_queue_fill(p.queue, p.at, value, unit, p.bytes)),
                     fill_seed(value, unit));
    }
}

/* -------------------------------------------------------------------- transfers */

static const vram_transfer_options *transfer_options(uint32_t choice) {
    static const vram_transfer_options options[] = {
        {.size = sizeof *options},
        {.size = sizeof *options, .strategy = VRAM_TRANSFER_SYNC},
        {.size = sizeof *options, .strategy = VRAM_TRANSFER_ASYNC},
        {.size = sizeof *options, .strategy = VRAM_TRANSFER_DMA_POLLING}};
    return &options[choice % 4];
}

/* The handle slot of a transfer is free again. */
static vram_async *async_ready(struct run *r, const struct op *op) {
    if (is_live(OBJECT(ASYNC, op->async))) {
        DO(OK | INVALID | STALE, vram_async_end(&async[op->async]));
        OBJECT(ASYNC, op->async)->state = STATE_NONE;
    }
    return &async[op->async];
}

static vram_status async_made(struct part *part, vram_status status) {
    if (status == VRAM_OK) {
        struct object *made = object_new(OBJECT(ASYNC, part->op->async), OBJECT(CONTEXT, 0));
        made->home = part->on;
        made->portable = part->one->portable;
        made->bytes = part->bytes;
    }
    return status;
}

STEP(transfer_upload) {
    struct part p;
    if (part_host(r, op, &p, true)) {
        vram_async *handle = async_ready(r, op);
        vram_status status = DO(p.may, vram_transfer_upload(p.queue, p.at, p.host, p.bytes,
                                                            transfer_options(op->choice), handle));
        part_written(r, &p, async_made(&p, status), op->seed >> 1);
    }
}

/* The handle alone tells when ordinary memory has been written. */
STEP(transfer_download) {
    struct part p;
    vram_async handle = {{0}};
    if (!part_host(r, op, &p, false)) {
        return;
    }
    vram_status status = DO(p.may, vram_transfer_download(p.queue, p.host, p.at, p.bytes,
                                                          transfer_options(op->choice), &handle));
    part_done(r, &p, status, false);
    if (status == VRAM_OK && op->flags & 1) {
        status = DO(OK, vram_async_wait(&handle, VRAM_TIMEOUT_DEFAULT));
    } else if (status == VRAM_OK) {
        while (vram_async_poll(&handle) == VRAM_ERR_NOT_READY) {
            vram_queue_wait(p.queue, VRAM_TIMEOUT_DEFAULT);
        }
    }
    if (status == VRAM_OK) {
        pending_finish(r, p.pending);
    }
    vram_async_end(&handle);
}

STEP(transfer_copy) {
    struct part p;
    if (part_source(r, op, &p)) {
        vram_async *handle = async_ready(r, op);
        vram_status status = DO(p.may, vram_transfer_copy(p.queue, p.at, p.from, p.bytes,
                                                          transfer_options(op->choice), handle));
        part_copied(r, &p, async_made(&p, status));
    }
}

STEP(transfer_fill) {
    struct part p;
    uint32_t unit = 1u << op->choice % 3, value = (uint32_t)op->seed;
    if (part_on(r, op, &p, unit)) {
        part_written(r, &p,
                     DO(p.may, vram_transfer_fill(p.queue, p.at, value, unit, p.bytes, NULL, NULL)),
                     fill_seed(value, unit));
    }
}

/* Both halves of an upload, in one list. */
STEP(transfer_batch) {
    struct part p;
    uint64_t half;
    if (part_host(r, op, &p, true)) {
        half = p.bytes / 2;
        vram_copy copies[] = {
            {.to = p.at, .from_host = p.host, .bytes = half},
            {.to = p.at + half, .from_host = p.host + half, .bytes = p.bytes - half}};
        part_written(r, &p, DO(p.may, vram_transfer_batch(p.queue, copies, 2, NULL, NULL)),
                     op->seed >> 1);
    }
}

/* --------------------------------------------------------------------- handles */

STEP(async_wait) {
    struct object *one = OBJECT(ASYNC, op->async);
    uint64_t result = 0, may = r->may | (faults_were ? FAULTED : 0);
    if (DO(may, vram_async_wait(&async[op->async], VRAM_TIMEOUT_DEFAULT)) == VRAM_OK &&
        DO(OK, vram_async_result_get(&async[op->async], &result)) == VRAM_OK && !r->loose) {
        expect_number(r, "bytes that the handle tells of", one->bytes, result);
    }
}

STEP(async_poll) {
    QUIETLY(r->may | NOT_READY | (faults_were ? FAULTED : 0), vram_async_poll(&async[op->async]));
}

STEP(async_end) {
    DO(OK, vram_async_end(&async[op->async]));
    object_end(r, OBJECT(ASYNC, op->async));
}

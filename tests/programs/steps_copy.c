/* SPDX-License-Identifier: Apache-2.0 */
/*
 * steps_copy.c: copies and fills of blocks, on queues and as transfers.
 *
 * Work on a block goes to any queue. If another one used it last, the queue waits for that first,
 * as a program would have it; so a block's contents are always those of the last operation.
 */
#include "programs/steps.h"

#include <string.h>

enum { PIECES = 256 << 10 }; /* from so many bytes on ordinary memory is copied in pieces */

/* An operation on a part of a block, ready to be made. */
struct part {
    struct op op;
    struct object *one, *on;
    struct pending *pending;
    uint64_t allowed;
};

static bool part_on(struct run *r, const struct op *op, struct part *part, uint32_t unit) {
    bool skip = false;
    *part = (struct part){.op = *op, .one = OBJECT(BLOCK, op->block)};
    part->allowed = ALLOWED(&skip, part->one);
    if (skip || !queue_for(op, part->one->parent)) {
        return false;
    }
    part->on = OBJECT(QUEUE, op->queue);
    part->op.offset = part->one->bytes ? op->offset % part->one->bytes / unit * unit : 0;
    part->op.bytes = op->bytes % (part->one->bytes - part->op.offset + 1) / unit * unit;
    part->allowed |= pool_awake(part->one->parent, INVALID | BUSY);
    return order_on(r, op, part->one, op->queue);
}

/* The same with host memory: the pattern of the operation, or scribble for a download. */
static bool part_host(struct run *r, const struct op *op, struct part *part, bool upload) {
    if (!part_on(r, op, part, 1) || !(part->pending = pending_new(r, op, op->queue))) {
        return false;
    }
    uint64_t seed = upload ? part->op.seed >> 1 : fill_seed(0x11, 1);
    part->pending->bytes = part->op.bytes;
    part->pending->offset = part->op.offset;
    part->pending->what = upload ? PENDING_UPLOAD : PENDING_DOWNLOAD;
    part->op.nth = part->pending->slot;
    host[part->op.nth] = pattern(seed, 0, part->op.bytes);
    say(r, "host[%llu] = pattern(0x%llx, 0, %llu);", (unsigned long long)part->op.nth,
        (unsigned long long)seed, (unsigned long long)part->op.bytes);
    return true;
}

/* Says that a queue other than its home uses a block. If that fails, the program waits: nobody else
   knows of the work. */
static void block_used(struct run *r, const struct op *op, unsigned slot) {
    struct op drawn = *op;
    drawn.block = (uint8_t)slot;
    op = &drawn;
    if (OBJECT(BLOCK, slot)->home != OBJECT(QUEUE, op->queue) &&
        DO(OK, vram_use(block[op->block], queue[op->queue])) != VRAM_OK) {
        step_fault_clear(r, op);
        DO(OK, vram_queue_wait(queue[op->queue], VRAM_TIMEOUT_DEFAULT));
    }
}

/* A call that failed has changed nothing, except one that a driver stopped in the middle of
   pieces. */
static void part_done(struct run *r, struct part *part, vram_status status, bool writes) {
    bool pieces = part->op.bytes >= PIECES && status != VRAM_ERR_HOST_MEMORY && faults_were;
    if (status == VRAM_OK) {
        block_used(r, &part->op, part->op.block);
    }
    if (r->loose && status == VRAM_OK) {
        const struct op *op = &part->op; /* in another round nobody knows of it */
        DO(OK, vram_queue_wait(queue[op->queue], VRAM_TIMEOUT_DEFAULT));
    } else if (!r->loose && status == VRAM_OK) {
        part->one->last = part->on;
    } else if (!r->loose && writes && pieces) {
        part->one->contents.count = 0;
    }
    if (!part->pending) {
        return;
    }
    if (status == VRAM_OK && writes && !r->loose) {
        contents_write(&part->one->contents, part->op.offset,
                       (struct extent){0, part->op.bytes, part->op.seed >> 1, 0});
    } else if (status == VRAM_OK && !writes && !r->loose) {
        part->pending->expected = part->one->contents;
    } else if (status != VRAM_OK && writes) {
        memset(host[part->op.nth], 0x33, part->op.bytes);
        pending_finish(r, part->pending);
    } else if (status != VRAM_OK) {
        memset(host[part->op.nth], 0x11, part->op.bytes);
        part->pending->what = pieces ? PENDING_UPLOAD : PENDING_FAILED;
    }
}

void step_upload(struct run *r, const struct op *op) {
    struct part part;
    if (part_host(r, op, &part, true)) {
        op = &part.op;
        part_done(
            r, &part,
            DO(part.allowed, vram_queue_upload(queue[op->queue], block[op->block] + op->offset,
                                               host[op->nth], op->bytes)),
            true);
    }
}

void step_download(struct run *r, const struct op *op) {
    struct part part;
    if (part_host(r, op, &part, false)) {
        op = &part.op;
        part_done(r, &part,
                  DO(part.allowed, vram_queue_download(queue[op->queue], host[op->nth],
                                                       block[op->block] + op->offset, op->bytes)),
                  false);
    }
}

/* The block `from` as the source of a copy to `block`; the same part of both. */
static bool part_source(struct run *r, const struct op *op, struct part *part) {
    bool skip = false;
    struct object *from = OBJECT(BLOCK, op->from);
    uint64_t allowed = ALLOWED(&skip, from);
    if (skip || !(allowed & OK) || op->from == op->block || !part_on(r, op, part, 1) ||
        object_device(from) != object_device(part->one) || part->op.offset > from->bytes) {
        return false;
    }
    uint64_t most = from->bytes - part->op.offset;
    part->op.bytes = part->op.bytes < most ? part->op.bytes : most;
    part->allowed |= pool_awake(from->parent, INVALID | BUSY);
    return order_on(r, op, from, op->queue);
}

static void part_copied(struct run *r, struct part *part, vram_status status) {
    struct object *from = OBJECT(BLOCK, part->op.from);
    part_done(r, part, status, true);
    if (status == VRAM_OK) {
        block_used(r, &part->op, part->op.from);
    }
    if (status == VRAM_OK && !r->loose) {
        from->last = part->on;
        contents_copy(&part->one->contents, part->op.offset, &from->contents, part->op.offset,
                      part->op.bytes);
    }
}

void step_copy(struct run *r, const struct op *op) {
    struct part part;
    if (part_source(r, op, &part)) {
        op = &part.op;
        part_copied(
            r, &part,
            DO(part.allowed, vram_queue_copy(queue[op->queue], block[op->block] + op->offset,
                                             block[op->from] + op->offset, op->bytes)));
    }
}

static void part_filled(struct run *r, struct part *part, vram_status status) {
    part_done(r, part, status, true);
    if (status == VRAM_OK && !r->loose) {
        contents_write(&part->one->contents, part->op.offset,
                       (struct extent){0, part->op.bytes,
                                       fill_seed((uint32_t)part->op.seed, part->op.choice), 0});
    }
}

void step_fill(struct run *r, const struct op *op) {
    struct part part;
    struct op drawn = *op;
    drawn.choice = 1u << op->choice % 3;
    drawn.seed = (uint32_t)op->seed;
    op = &drawn;
    if (part_on(r, op, &part, op->choice)) {
        op = &part.op;
        part_filled(
            r, &part,
            DO(part.allowed, vram_queue_fill(queue[op->queue], block[op->block] + op->offset,
                                             (uint32_t)op->seed, op->choice, op->bytes)));
    }
}

/* -------------------------------------------------------------------- transfers */

static const vram_transfer_options *transfer_options(uint32_t choice) {
    static const vram_transfer_options options[] = {
        {.size = sizeof(vram_transfer_options)},
        {.size = sizeof(vram_transfer_options), .strategy = VRAM_TRANSFER_SYNC},
        {.size = sizeof(vram_transfer_options), .strategy = VRAM_TRANSFER_ASYNC},
        {.size = sizeof(vram_transfer_options), .strategy = VRAM_TRANSFER_DMA_POLLING}};
    return &options[choice % 4];
}

/* The handle slot of a transfer is free again. */
static void async_ready(struct run *r, const struct op *op) {
    if (OBJECT(ASYNC, op->async)->state == STATE_LIVE) {
        DO(OK | INVALID | STALE, vram_async_end(&async[op->async]));
        OBJECT(ASYNC, op->async)->state = STATE_NONE;
    }
}

static void async_made(struct part *part, vram_status status) {
    if (status == VRAM_OK) {
        struct object *made = object_new(OBJECT(ASYNC, part->op.async), OBJECT(CONTEXT, 0));
        made->home = part->on;
        made->portable = part->one->portable;
        made->bytes = part->op.bytes;
    }
}

void step_transfer_upload(struct run *r, const struct op *op) {
    struct part part;
    if (!part_host(r, op, &part, true)) {
        return;
    }
    op = &part.op;
    async_ready(r, op);
    vram_status status =
        DO(part.allowed,
           vram_transfer_upload(queue[op->queue], block[op->block] + op->offset, host[op->nth],
                                op->bytes, transfer_options(op->choice), &async[op->async]));
    async_made(&part, status);
    part_done(r, &part, status, true);
}

void step_transfer_download(struct run *r, const struct op *op) {
    struct part part;
    vram_async handle = {{0}};
    if (!part_host(r, op, &part, false)) {
        return;
    }
    op = &part.op;
    say(r, "vram_async handle = {{0}};");
    vram_status status =
        DO(part.allowed,
           vram_transfer_download(queue[op->queue], host[op->nth], block[op->block] + op->offset,
                                  op->bytes, transfer_options(op->choice), &handle));
    part_done(r, &part, status, false);
    if (status == VRAM_OK && op->flags & 1) {
        /* The handle alone tells when ordinary memory has been written. */
        status = DO(OK, vram_async_wait(&handle, VRAM_TIMEOUT_DEFAULT));
        if (status == VRAM_OK) {
            pending_finish(r, part.pending);
        }
    } else if (status == VRAM_OK) {
        while (vram_async_poll(&handle) == VRAM_ERR_NOT_READY) {
            vram_queue_wait(queue[op->queue], VRAM_TIMEOUT_DEFAULT);
        }
        pending_finish(r, part.pending);
    }
    vram_async_end(&handle);
}

void step_transfer_copy(struct run *r, const struct op *op) {
    struct part part;
    if (part_source(r, op, &part)) {
        op = &part.op;
        async_ready(r, op);
        vram_status status =
            DO(part.allowed, vram_transfer_copy(queue[op->queue], block[op->block] + op->offset,
                                                block[op->from] + op->offset, op->bytes,
                                                transfer_options(op->choice), &async[op->async]));
        async_made(&part, status);
        part_copied(r, &part, status);
    }
}

void step_transfer_fill(struct run *r, const struct op *op) {
    struct part part;
    struct op drawn = *op;
    drawn.choice = 1u << op->choice % 3;
    drawn.seed = (uint32_t)op->seed;
    op = &drawn;
    if (part_on(r, op, &part, op->choice)) {
        op = &part.op;
        part_filled(r, &part,
                    DO(part.allowed,
                       vram_transfer_fill(queue[op->queue], block[op->block] + op->offset,
                                          (uint32_t)op->seed, op->choice, op->bytes, NULL, NULL)));
    }
}

/* An upload to one block and a copy to it of another's part, in one list. */
void step_transfer_batch(struct run *r, const struct op *op) {
    struct part part;
    if (!part_host(r, op, &part, true)) {
        return;
    }
    op = &part.op;
    vram_status status =
        DO(part.allowed,
           vram_transfer_batch(queue[op->queue],
                               (vram_copy[]){{.to = block[op->block] + op->offset,
                                              .from_host = host[op->nth],
                                              .bytes = op->bytes / 2},
                                             {.to = block[op->block] + op->offset + op->bytes / 2,
                                              .from_host = host[op->nth] + op->bytes / 2,
                                              .bytes = op->bytes - op->bytes / 2}},
                               2, NULL, NULL));
    part_done(r, &part, status, true);
}

/* --------------------------------------------------------------------- handles */

void step_async_wait(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *one = OBJECT(ASYNC, op->async);
    uint64_t result = 0, allowed = ALLOWED(&skip, one);
    if (skip || !(allowed & OK)) {
        return;
    }
    say(r, "uint64_t result = 0;");
    allowed |= faults_were ? FAULTED : 0;
    if (DO(allowed, vram_async_wait(&async[op->async], VRAM_TIMEOUT_DEFAULT)) == VRAM_OK &&
        DO(OK, vram_async_result_get(&async[op->async], &result)) == VRAM_OK && !r->loose) {
        EXPECT(result == one->bytes, "the result is %llu bytes, not %llu",
               (unsigned long long)result, (unsigned long long)one->bytes);
    }
}

void step_async_poll(struct run *r, const struct op *op) {
    bool skip = false;
    uint64_t allowed = ALLOWED(&skip, OBJECT(ASYNC, op->async));
    if (!skip && allowed & OK) {
        r->portable = false;
        allowed |= NOT_READY | (faults_were ? FAULTED : 0);
        DO(allowed, vram_async_poll(&async[op->async]));
    }
}

void step_async_end(struct run *r, const struct op *op) {
    struct object *one = OBJECT(ASYNC, op->async);
    if (one->state == STATE_LIVE) {
        DO(OK, vram_async_end(&async[op->async]));
        object_end(r, one);
    }
}

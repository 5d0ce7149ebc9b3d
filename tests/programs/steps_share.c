/* SPDX-License-Identifier: Apache-2.0 */
/* steps_share.c: blocks that are exported, and opened again by the same process. */
#include "programs/steps.h"

#include <stdlib.h>
#include <string.h>

enum { SHAREABLE = VRAM_POOL_SHAREABLE | VRAM_POOL_SHARE_GROUP };

void step_share_export(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *one = OBJECT(BLOCK, op->block), *made = OBJECT(SHARE, op->share);
    uint64_t allowed = ALLOWED(&skip, one);
    if (skip || made->state == STATE_LIVE || op->choice % 4) {
        return;
    }
    r->portable = false;
    if (allowed & OK) {
        bool can = one->parent->flags & SHAREABLE;
        allowed = can ? OK | pool_awake(one->parent, BUSY) : INVALID | UNSUPPORTED;
    }
    if (DO(allowed, vram_share_export(&block[op->block], 1, NULL, &share[op->share])) == VRAM_OK) {
        object_new(made, one->parent)->home = one;
        made->bytes = one->bytes;
    }
}

void step_share_open(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *from = OBJECT(SHARE, op->share), *made = OBJECT(OPENED, op->opened);
    uint64_t allowed = ALLOWED(&skip, from);
    vram_share_token token;
    if (skip || made->state == STATE_LIVE || !(allowed & OK)) {
        return;
    }
    struct op drawn = *op;
    drawn.device = (uint8_t)(object_device(from) - objects[TYPE_DEVICE]);
    op = &drawn;
    r->portable = false;
    say(r, "vram_share_token token;");
    if (DO(OK, vram_share_token_get(share[op->share], &token)) == VRAM_OK &&
        DO(OK, vram_share_open(device[op->device], &token, NULL, &opened[op->opened])) == VRAM_OK) {
        object_new(made, object_device(from))->home = from->home;
        made->bytes = from->bytes;
        made->portable = false;
    }
}

void step_share_close(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *ended = OBJECT(SHARE, op->share);
    uint64_t allowed = ALLOWED(&skip, ended);
    if (!skip && DO(allowed, vram_share_close(share[op->share])) == VRAM_OK) {
        object_end(r, ended);
    }
}

void step_opened_close(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *ended = OBJECT(OPENED, op->opened);
    uint64_t allowed = ALLOWED(&skip, ended);
    if (!skip && DO(allowed, vram_share_close(opened[op->opened])) == VRAM_OK) {
        object_end(r, ended);
    }
}

/* What was opened is the same memory: it has the contents of the block. */
void step_share_read(struct run *r, const struct op *op) {
    bool skip = op->queue == 0;
    struct object *from = OBJECT(OPENED, op->opened), *on = OBJECT(QUEUE, op->queue);
    uint64_t allowed = ALLOWED(&skip, from, on);
    vram_share_part part;
    if (skip || !(allowed & OK) || on->parent != object_device(from) || r->loose) {
        return;
    }
    r->portable = false;
    say(r, "vram_share_part part;");
    if (DO(OK, vram_share_parts_get(opened[op->opened], 0, 1, &part)) != VRAM_OK) {
        return;
    }
    EXPECT(part.bytes == from->bytes, "the part has %llu bytes, not %llu",
           (unsigned long long)part.bytes, (unsigned long long)from->bytes);
    struct object *one = from->home;
    if (one->state != STATE_LIVE || one->bytes != from->bytes || one->bytes == 0 ||
        one->bytes > 1 << 20 || !order_on(r, op, one, op->queue)) {
        return;
    }
    unsigned char *bytes = malloc(one->bytes);
    say(r, "unsigned char *bytes = malloc(part.bytes);");
    if (bytes &&
        DO(OK, vram_queue_download(queue[op->queue], bytes, part.addr, part.bytes)) == VRAM_OK) {
        DO(OK, vram_queue_wait(queue[op->queue], VRAM_TIMEOUT_DEFAULT));
    }
    free(bytes);
}

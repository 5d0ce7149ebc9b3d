/* SPDX-License-Identifier: Apache-2.0 */
/* steps_owner.c: scopes, batches and managers of named buffers. */
#include "programs/steps.h"

#include <stdlib.h>

const char *const names[] = {"one", "two", "three", "four"};
enum { NAMES = 4 };
static struct {
    bool there;
    uint64_t bytes;
} known_names[SLOTS_named][NAMES];

/* ---------------------------------------------------------------------- scopes */

void step_scope_begin(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *made = OBJECT(SCOPE, op->scope), *from = OBJECT(POOL, op->pool);
    struct object *above = OBJECT(SCOPE, op->parent);
    uint64_t allowed = ALLOWED(&skip, from);
    if (skip || made->state == STATE_LIVE) {
        return;
    }
    bool nested = op->choice % 2 && above->state == STATE_LIVE && above != made &&
                  object_device(above) == object_device(from) && above->portable == from->portable;
    vram_status status;
    if (nested) {
        status =
            DO(allowed, vram_scope_begin(pool[op->pool], scope[op->parent], &scope[op->scope]));
    } else {
        status = DO(allowed, vram_scope_begin(pool[op->pool], NULL, &scope[op->scope]));
    }
    if (status == VRAM_OK) {
        object_new(made, from)->owner = nested ? above : NULL;
    }
}

/* A pin keeps the memory of a block that was freed. */
void unpin_all(struct run *r, const struct object *of) {
    for (unsigned i = 0; i < SLOTS_block; i++) {
        struct object *one = OBJECT(BLOCK, i);
        struct op unpin = {.block = (uint8_t)i};
        const struct op *op = &unpin;
        while (one->state == STATE_LIVE && one->owner && object_under(one->owner, of) &&
               one->parent != of && one->count) {
            DO(OK, vram_unpin(block[op->block]));
            one->count--;
        }
    }
}

void step_scope_end(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *ended = OBJECT(SCOPE, op->scope);
    uint64_t allowed = ALLOWED(&skip, ended);
    if (skip) {
        return;
    }
    if (allowed & OK && settings.threads == 1) {
        unpin_all(r, ended);
    }
    if (DO(allowed, vram_scope_end(scope[op->scope])) == VRAM_OK) {
        object_end(r, ended);
    }
}

void step_scope_alloc(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *in = OBJECT(SCOPE, op->scope), *made = OBJECT(BLOCK, op->block);
    uint64_t allowed = ALLOWED(&skip, in);
    struct op drawn = *op;
    if (skip || made->state == STATE_LIVE) {
        return;
    }
    if (allowed & OK) {
        drawn.queue = (uint8_t)queue_for(op, in);
        allowed |= pool_awake(in->parent, BUSY) | (in->parent->count ? EXHAUSTED : 0);
    } else {
        drawn.queue = 0;
    }
    op = &drawn;
    if (DO(allowed, vram_scope_alloc(scope[op->scope], op->bytes, queue[op->queue],
                                     &block[op->block])) == VRAM_OK) {
        object_new(made, in->parent)->owner = in;
        made->bytes = op->bytes;
        made->home = made->last = op->queue ? OBJECT(QUEUE, op->queue) : NULL;
        if (!r->loose) {
            in->count++;
        }
    }
}

void step_scope_free(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *one = OBJECT(BLOCK, op->block), *in = OBJECT(SCOPE, op->scope);
    uint64_t allowed = ALLOWED(&skip, one, in);
    struct op drawn = *op;
    if (skip || r->loose || one->count) {
        return;
    }
    if (allowed & OK) {
        drawn.queue = (uint8_t)queue_for(op, one);
        allowed = one->owner == in ? OK : INVALID;
        op = &drawn;
        if (one->last && one->last->state == STATE_LIVE &&
            (!op->queue || !order_on(r, op, one, op->queue))) {
            return;
        }
    }
    if (DO(allowed, vram_scope_free(scope[op->scope], block[op->block], queue[op->queue])) ==
        VRAM_OK) {
        object_end(r, one);
    }
}

void step_scope_take(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *one = OBJECT(BLOCK, op->block), *in = OBJECT(SCOPE, op->scope);
    uint64_t allowed = ALLOWED(&skip, one, in);
    if (skip) {
        return;
    }
    if (allowed & OK) {
        allowed = one->owner == in ? OK : INVALID;
    }
    if (DO(allowed, vram_scope_take(scope[op->scope], block[op->block])) == VRAM_OK) {
        if (r->loose) {
            r->unsures[r->unsure_count++] = one;
        } else {
            one->owner = NULL;
        }
    }
}

void step_scope_give(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *one = OBJECT(BLOCK, op->block), *in = OBJECT(SCOPE, op->scope);
    uint64_t allowed = ALLOWED(&skip, one, in);
    struct op drawn = *op;
    if (skip || r->loose) {
        return;
    }
    if (allowed & OK) {
        drawn.queue = (uint8_t)queue_for(op, one);
        allowed = one->owner || one->parent != in->parent ? INVALID : OK;
    }
    op = &drawn;
    if (DO(allowed, vram_scope_give(scope[op->scope], block[op->block], queue[op->queue])) ==
        VRAM_OK) {
        one->owner = in;
        one->home = op->queue ? OBJECT(QUEUE, op->queue) : NULL;
    }
}

void step_scope_buffer(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *in = OBJECT(SCOPE, op->scope), *made = OBJECT(BUFFER, op->buffer);
    uint64_t allowed = ALLOWED(&skip, in);
    struct op drawn = *op;
    if (skip || made->state == STATE_LIVE) {
        return;
    }
    drawn.queue = (uint8_t)(allowed & OK ? queue_for(op, in) : 0);
    allowed |=
        allowed & OK ? pool_awake(in->parent, BUSY) | (in->parent->count ? EXHAUSTED : 0) : 0;
    op = &drawn;
    if (DO(allowed, vram_scope_buffer_create(scope[op->scope], op->bytes, queue[op->queue], NULL,
                                             &buffer[op->buffer])) == VRAM_OK) {
        buffer_made(made, in->parent, op->bytes, op->queue);
        made->owner = in;
    }
}

/* --------------------------------------------------------------------- batches */

void step_batch_create(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *made = OBJECT(BATCH, op->batch), *from = OBJECT(POOL, op->pool);
    uint64_t allowed = ALLOWED(&skip, from);
    struct op drawn = *op;
    drawn.queue = (uint8_t)queue_for(op, from);
    op = &drawn;
    if (skip || made->state == STATE_LIVE) {
        return;
    }
    if (DO(allowed, vram_batch_create(pool[op->pool], queue[op->queue], NULL, &batch[op->batch])) ==
        VRAM_OK) {
        object_new(made, from)->home = op->queue ? OBJECT(QUEUE, op->queue) : NULL;
    }
}

/* Two buffers, of which the first is used further; its contents come along if there is a queue. */
void step_batch_add(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *in = OBJECT(BATCH, op->batch), *made = OBJECT(BUFFER, op->buffer);
    uint64_t allowed = ALLOWED(&skip, in);
    struct op drawn = *op;
    uint32_t first = 0;
    if (skip || made->state == STATE_LIVE || (in->home && in->home->state != STATE_LIVE)) {
        return;
    }
    drawn.bytes = op->bytes % 65536;
    op = &drawn;
    struct pending *pending = NULL;
    bool with = in->home && allowed & OK && op->bytes;
    unsigned slot = in->home ? (unsigned)(in->home - objects[TYPE_QUEUE]) : 0;
    if (with && !(pending = pending_new(r, op, slot))) {
        return;
    }
    drawn.nth = pending ? pending->slot : 0;
    if (pending) {
        pending->bytes = op->bytes;
        host[op->nth] = pattern(op->seed >> 1, 0, op->bytes);
        say(r, "host[%llu] = pattern(0x%llx, 0, %llu);", (unsigned long long)op->nth,
            (unsigned long long)op->seed >> 1, (unsigned long long)op->bytes);
    }
    drawn.choice = with;
    drawn.flags = op->flags % 3 == 1; /* page-locked */
    allowed |= allowed & OK
                   ? pool_awake(in->parent, BUSY | INVALID) | (in->parent->count ? EXHAUSTED : 0)
                   : 0;
    say(r, "uint32_t first = 0;");
    vram_status status = DO(
        allowed, vram_batch_add(batch[op->batch],
                                (vram_batch_item[]){{.size = sizeof(vram_batch_item),
                                                     .elements = op->bytes,
                                                     .kind = (vram_buffer_kind)op->flags,
                                                     .flags = op->flags ? VRAM_BUFFER_PAGEABLE : 0,
                                                     .host = op->choice ? host[op->nth] : NULL,
                                                     .host_bytes = op->choice ? op->bytes : 0},
                                                    {.size = sizeof(vram_batch_item),
                                                     .elements = op->bytes / 4,
                                                     .precision = VRAM_PRECISION_FP32}},
                                2, &first));
    if (status != VRAM_OK) {
        /* The host's memory may be read until the queue has completed the upload. */
        return;
    }
    if (DO(OK, vram_batch_get(batch[op->batch], first, &buffer[op->buffer])) == VRAM_OK) {
        buffer_made(made, in->parent, op->bytes, slot);
        made->owner = in;
        made->kind = op->flags;
        if (with && !r->loose) {
            contents_write(&made->contents, 0, (struct extent){0, op->bytes, op->seed >> 1, 0});
        }
    }
}

void step_batch_destroy(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *ended = OBJECT(BATCH, op->batch);
    uint64_t allowed = ALLOWED(&skip, ended);
    if (!skip && DO(allowed, vram_batch_destroy(batch[op->batch])) == VRAM_OK) {
        object_end(r, ended);
    }
}

/* ---------------------------------------------------------------- named buffers */

void step_named_create(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *made = OBJECT(NAMED, op->named), *from = OBJECT(POOL, op->pool);
    uint64_t allowed = ALLOWED(&skip, from);
    struct op drawn = *op;
    drawn.queue = (uint8_t)queue_for(op, from);
    op = &drawn;
    if (skip || made->state == STATE_LIVE || !op->queue) {
        return;
    }
    if (DO(allowed, vram_named_create(pool[op->pool], queue[op->queue], NULL, &named[op->named])) ==
        VRAM_OK) {
        object_new(made, from)->home = OBJECT(QUEUE, op->queue);
        for (unsigned i = 0; i < NAMES; i++) {
            known_names[op->named][i].there = false;
        }
    }
}

static bool named_ready(const struct op *op, struct op *drawn, uint64_t *allowed) {
    bool skip = false;
    struct object *in = OBJECT(NAMED, op->named);
    *allowed = ALLOWED(&skip, in);
    *drawn = *op;
    drawn->choice = op->choice % NAMES;
    drawn->bytes = op->bytes % 200000;
    /* In a pool that sleeps an ensure waits for another thread to wake it. */
    if (skip || (in->home && in->home->state != STATE_LIVE) ||
        (*allowed & OK && in->parent->sleeping)) {
        return false;
    }
    *allowed |= *allowed & OK
                    ? pool_awake(in->parent, BUSY | INVALID) | (in->parent->count ? EXHAUSTED : 0)
                    : 0;
    return true;
}

void step_named_add(struct run *r, const struct op *op) {
    uint64_t allowed;
    struct op drawn;
    vram_buffer *made;
    if (!named_ready(op, &drawn, &allowed) || r->loose) {
        return;
    }
    op = &drawn;
    say(r, "vram_buffer *made;");
    bool there = known_names[op->named][op->choice].there && allowed & OK;
    if (DO(there ? INVALID : allowed, vram_named_add(named[op->named], names[op->choice], op->bytes,
                                                     NULL, &made)) == VRAM_OK) {
        known_names[op->named][op->choice].there = true;
        known_names[op->named][op->choice].bytes = op->bytes;
    }
}

void step_named_ensure(struct run *r, const struct op *op) {
    uint64_t allowed;
    struct op drawn;
    if (!named_ready(op, &drawn, &allowed) || r->loose) {
        return;
    }
    op = &drawn;
    bool there = known_names[op->named][op->choice].there || !(allowed & OK);
    vram_status status =
        DO(there ? allowed : INVALID,
           vram_named_ensure(named[op->named], names[op->choice], op->bytes, NULL));
    if (!there || !(allowed & OK)) {
        return;
    }
    uint64_t *bytes = &known_names[op->named][op->choice].bytes;
    *bytes = status == VRAM_OK && op->bytes > *bytes ? op->bytes : *bytes;
    vram_named_info info = {.size = sizeof info};
    if (vram_named_info_get(named[op->named], names[op->choice], &info) == VRAM_OK) {
        EXPECT(info.used_bytes == *bytes && info.capacity_bytes >= *bytes,
               "the buffer has %llu bytes in use, capacity %llu, and should have %llu",
               (unsigned long long)info.used_bytes, (unsigned long long)info.capacity_bytes,
               (unsigned long long)*bytes);
    }
}

void step_named_remove(struct run *r, const struct op *op) {
    uint64_t allowed;
    struct op drawn;
    if (!named_ready(op, &drawn, &allowed) || r->loose) {
        return;
    }
    op = &drawn;
    bool there = known_names[op->named][op->choice].there || !(allowed & OK);
    if (DO(there ? allowed & (OK | STALE) : INVALID,
           vram_named_remove(named[op->named], names[op->choice])) == VRAM_OK) {
        known_names[op->named][op->choice].there = false;
    }
}

void step_named_destroy(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *ended = OBJECT(NAMED, op->named);
    uint64_t allowed = ALLOWED(&skip, ended);
    if (!skip && DO(allowed, vram_named_destroy(named[op->named])) == VRAM_OK) {
        object_end(r, ended);
    }
}

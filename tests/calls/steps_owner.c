/* SPDX-License-Identifier: Apache-2.0 */
/* steps_owner.c: scopes, batches, managers of named buffers, and rings. */
#include "calls/program.h"

#include <stdlib.h>

/* ---------------------------------------------------------------------- scopes */

STEP(scope_begin) {
    struct object *from = OBJECT(POOL, op->pool), *above = OBJECT(SCOPE, op->parent);
    bool nested = op->choice % 2 && is_live(above) && op->parent != op->scope &&
                  object_device(above) == object_device(from) && above->portable == from->portable;
    if (DO(r->may, vram_scope_begin(pool[op->pool], nested ? scope[op->parent] : NULL,
                                    &scope[op->scope])) == VRAM_OK) {
        object_new(OBJECT(SCOPE, op->scope), from)->owner = nested ? above : NULL;
    }
}

/* A pin keeps the memory of a block that was freed. */
void unpin_all(struct run *r, const struct object *of) {
    for (unsigned i = 0; i < SLOTS_block; i++) {
        struct object *one = OBJECT(BLOCK, i);
        for (; is_live(one) && one->owner && object_under(one->owner, of) && one->parent != of &&
               one->count;
             one->count--) {
            DO(OK, vram_unpin(block[i]));
        }
    }
}

STEP(scope_end) {
    struct object *ended = OBJECT(SCOPE, op->scope);
    if (r->may & OK && settings.threads == 1) {
        unpin_all(r, ended);
    }
    if (DO(r->may, vram_scope_end(scope[op->scope])) == VRAM_OK) {
        object_end(r, ended);
    }
}

/* What its calls may return that take from the pool above. */
static uint64_t taken_may(const struct run *r, const struct object *from, uint64_t asleep) {
    return r->may | (r->may & OK ? pool_gives(from->parent, asleep) : 0);
}

STEP(scope_alloc) {
    struct object *in = OBJECT(SCOPE, op->scope), *made = OBJECT(BLOCK, op->block);
    if (DO(taken_may(r, in, BUSY), vram_scope_alloc(scope[op->scope], op->bytes, queue[op->queue],
                                                    &block[op->block])) == VRAM_OK) {
        object_new(made, in->parent)->owner = in;
        made->bytes = op->bytes;
        made->home = made->last = op->queue ? OBJECT(QUEUE, op->queue) : NULL;
        in->count += !r->loose;
    }
}

STEP(scope_free) {
    struct object *one = OBJECT(BLOCK, op->block), *in = OBJECT(SCOPE, op->scope);
    uint64_t may = !(r->may & OK) ? r->may : one->owner == in ? OK : INVALID;
    if (r->loose || one->count ||
        (r->may & OK && one->last && is_live(one->last) &&
         (!op->queue || !order_on(r, one, op->queue)))) {
        return;
    }
    if (DO(may, vram_scope_free(scope[op->scope], block[op->block], queue[op->queue])) == VRAM_OK) {
        object_end(r, one);
    }
}

STEP(scope_take) {
    struct object *one = OBJECT(BLOCK, op->block), *in = OBJECT(SCOPE, op->scope);
    uint64_t may = !(r->may & OK) ? r->may : one->owner == in ? OK : INVALID;
    if (DO(may, vram_scope_take(scope[op->scope], block[op->block])) == VRAM_OK) {
        if (r->loose) {
            r->unsures[r->unsure_count++] = one;
        } else {
            one->owner = NULL;
        }
    }
}

STEP(scope_give) {
    struct object *one = OBJECT(BLOCK, op->block), *in = OBJECT(SCOPE, op->scope);
    bool fits = !one->owner && one->parent == in->parent;
    if (!r->loose &&
        DO(!(r->may & OK) ? r->may
           : fits         ? OK
                          : INVALID,
           vram_scope_give(scope[op->scope], block[op->block], queue[op->queue])) == VRAM_OK) {
        one->owner = in;
        one->home = op->queue ? OBJECT(QUEUE, op->queue) : NULL;
    }
}

STEP(scope_buffer) {
    struct object *in = OBJECT(SCOPE, op->scope), *made = OBJECT(BUFFER, op->buffer);
    if (DO(taken_may(r, in, BUSY),
           vram_scope_buffer_create(scope[op->scope], op->bytes, queue[op->queue], NULL,
                                    &buffer[op->buffer])) == VRAM_OK) {
        buffer_made(made, in->parent, op->bytes, op->queue);
        made->owner = in;
    }
}

/* --------------------------------------------------------------------- batches */

STEP(batch_create) {
    if (DO(r->may, vram_batch_create(pool[op->pool], queue[op->queue], NULL, &batch[op->batch])) ==
        VRAM_OK) {
        object_new(OBJECT(BATCH, op->batch), OBJECT(POOL, op->pool))->home =
            op->queue ? OBJECT(QUEUE, op->queue) : NULL;
    }
}

/* Two buffers, of which the first is used further; its contents come along if there is a queue. */
STEP(batch_add) {
    struct object *in = OBJECT(BATCH, op->batch), *made = OBJECT(BUFFER, op->buffer);
    unsigned slot = in->home ? SLOT_OF(in->home) : 0;
    struct pending *pending = NULL;
    uint32_t first = 0;
    op->bytes %= 65536;
    if ((in->home && !is_live(in->home)) ||
        (in->home && r->may & OK && op->bytes && !(pending = pending_new(r, op, slot, true)))) {
        return;
    }
    uint32_t pinned = op->flags % 3 == 1;
    vram_batch_item items[] = {
        {.size = sizeof *items,
         .elements = op->bytes,
         .kind = (vram_buffer_kind)pinned,
         .flags = pinned ? VRAM_BUFFER_PAGEABLE : 0,
         .host = pending ? pending->host : NULL,
         .host_bytes = pending ? op->bytes : 0},
        {.size = sizeof *items, .elements = op->bytes / 4, .precision = VRAM_PRECISION_FP32}};
    /* After a failure, too, the host's memory may be read until the queue has completed that. */
    if (DO(taken_may(r, in, BUSY | INVALID), vram_batch_add(batch[op->batch], items, 2, &first)) ==
            VRAM_OK &&
        DO(OK, vram_batch_get(batch[op->batch], first, &buffer[op->buffer])) == VRAM_OK) {
        buffer_made(made, in->parent, op->bytes, slot);
        made->owner = in;
        made->kind = pinned;
        if (pending && !r->loose) {
            contents_write(&made->contents, 0, (struct extent){0, op->bytes, op->seed >> 1, 0});
        }
    }
}

STEP(batch_destroy) {
    if (DO(r->may, vram_batch_destroy(batch[op->batch])) == VRAM_OK) {
        object_end(r, OBJECT(BATCH, op->batch));
    }
}

/* ---------------------------------------------------------------- named buffers */

enum { NAMES = 4 };
static const char *const names[NAMES] = {"one", "two", "three", "four"};
struct known_name {
    bool there;
    uint64_t bytes;
};
static struct known_name known_names[SLOTS_named][NAMES];

STEP(named_create) {
    if (op->queue && DO(r->may, vram_named_create(pool[op->pool], queue[op->queue], NULL,
                                                  &named[op->named])) == VRAM_OK) {
        object_new(OBJECT(NAMED, op->named), OBJECT(POOL, op->pool))->home =
            OBJECT(QUEUE, op->queue);
        for (unsigned i = 0; i < NAMES; i++) {
            known_names[op->named][i].there = false;
        }
    }
}

/* The name that the step is about; NULL: none. In a pool that sleeps an ensure waits for another
   thread to wake it. */
static struct known_name *name_of(const struct run *r, struct op *op, uint64_t *may) {
    struct object *in = OBJECT(NAMED, op->named);
    op->choice %= NAMES;
    op->bytes %= 200000;
    *may = taken_may(r, in, BUSY | INVALID);
    bool ready = !(in->home && !is_live(in->home)) && !(r->may & OK && in->parent->sleeping);
    return ready && !r->loose ? &known_names[op->named][op->choice] : NULL;
}

STEP(named_add) {
    uint64_t may;
    vram_buffer *made;
    struct known_name *name = name_of(r, op, &may);
    if (name && DO(name->there && may & OK ? INVALID : may,
                   vram_named_add(named[op->named], names[op->choice], op->bytes, NULL, &made)) ==
                    VRAM_OK) {
        *name = (struct known_name){true, op->bytes};
    }
}

STEP(named_ensure) {
    uint64_t may;
    struct known_name *name = name_of(r, op, &may);
    vram_named_info info = {.size = sizeof info};
    if (!name) {
        return;
    }
    bool grown =
        DO(name->there || !(may & OK) ? may : INVALID,
           vram_named_ensure(named[op->named], names[op->choice], op->bytes, NULL)) == VRAM_OK &&
        op->bytes > name->bytes;
    if (!name->there || !(may & OK)) {
        return;
    }
    name->bytes = grown ? op->bytes : name->bytes;
    if (vram_named_info_get(named[op->named], names[op->choice], &info) == VRAM_OK) {
        expect_number(r, "bytes in use of the named buffer", name->bytes, info.used_bytes);
        EXPECT(info.capacity_bytes >= name->bytes, "more is in use than there is");
    }
}

STEP(named_remove) {
    uint64_t may;
    struct known_name *name = name_of(r, op, &may);
    if (name && DO(name->there || !(may & OK) ? may & (OK | STALE) : INVALID,
                   vram_named_remove(named[op->named], names[op->choice])) == VRAM_OK) {
        name->there = false;
    }
}

STEP(named_destroy) {
    if (DO(r->may, vram_named_destroy(named[op->named])) == VRAM_OK) {
        object_end(r, OBJECT(NAMED, op->named));
    }
}

/* ------------------------------------- rings whose kernel never comes: sent to until full */

enum { CAPACITY = 8 };

STEP(ring_create) {
    struct object *made = OBJECT(RING, op->ring), *from = OBJECT(POOL, op->pool);
    vram_ring_options options = {.size = sizeof options,
                                 .strategy = op->choice % 8 == 7   ? VRAM_RING_DMA_POLLING
                                             : op->choice % 2 == 0 ? VRAM_RING_SYNC
                                                                   : VRAM_RING_ASYNC,
                                 .flags = VRAM_RING_MULTI_INPUT,
                                 .input_capacity = CAPACITY,
                                 .output_capacity = CAPACITY,
                                 .message_bytes = op->nth % 8 ? 64 : 65536};
    if (DO(r->may | (r->may & OK ? pool_gives(from, BUSY | INVALID) : 0),
           vram_ring_create(pool[op->pool], &options, &ring[op->ring])) == VRAM_OK) {
        object_new(made, from)->capacity = options.message_bytes;
        made->kind = options.strategy;
        made->portable = made->portable && options.strategy != VRAM_RING_DMA_POLLING;
    }
}

static uint64_t ring_may(const struct run *r, const struct object *one) {
    if (!(r->may & OK)) {
        return r->may;
    }
    return r->may | pool_awake(one->parent, BUSY | INVALID) | (one->lost ? CORRUPT : 0) |
           (faults_were ? FAULTED : 0); /* of its thread, earlier */
}

STEP(ring_destroy) {
    if (DO(ring_may(r, OBJECT(RING, op->ring)) & (OK | STALE), vram_ring_destroy(ring[op->ring])) ==
        VRAM_OK) {
        object_end(r, OBJECT(RING, op->ring));
    }
}

STEP(ring_send) {
    static const unsigned char message[65536];
    struct object *one = OBJECT(RING, op->ring);
    uint32_t bytes = (uint32_t)(op->bytes % (one->capacity + 1));
    uint64_t may = r->may;
    if (may & OK) {
        may = one->stopped ? SHUTDOWN : one->count >= CAPACITY ? NOT_READY : OK;
        may |= pool_awake(one->parent, BUSY | INVALID | OK | NOT_READY | SHUTDOWN);
        may |= one->lost ? CORRUPT | OK | NOT_READY : 0;
        may |= settings.threads > 1 ? OK | NOT_READY | SHUTDOWN : 0;
    }
    if (DO(may, vram_ring_send(ring[op->ring], message, bytes, op->choice, 0)) == VRAM_OK &&
        settings.threads == 1) {
        one->count++;
    }
}

STEP(ring_flush) {
    DO(ring_may(r, OBJECT(RING, op->ring)), vram_ring_flush(ring[op->ring], NULL, NULL));
}

STEP(ring_fetch) {
    DO(ring_may(r, OBJECT(RING, op->ring)), vram_ring_fetch(ring[op->ring], NULL, NULL));
}

STEP(ring_receive) {
    static _Thread_local unsigned char message[65536];
    uint64_t may = ring_may(r, OBJECT(RING, op->ring));
    may = may & OK ? (may & ~OK) | NOT_READY : may;
    may |= settings.threads > 1 ? BUSY : 0; /* another thread is receiving */
    DO(may, vram_ring_receive(ring[op->ring], message, sizeof message, 0, NULL));
}

STEP(ring_stop) {
    struct object *one = OBJECT(RING, op->ring);
    if (op->choice % 4 == 0 &&
        DO(ring_may(r, one), vram_ring_stop(ring[op->ring])) != VRAM_ERR_STALE && !r->loose) {
        one->stopped = true; /* after a failure, too */
    }
}

STEP(ring_look) {
    struct object *one = OBJECT(RING, op->ring);
    vram_ring_stats stats = {.size = sizeof stats};
    uint64_t may = ring_may(r, one);
    if (DO(may & (OK | STALE), vram_ring_stats_get(ring[op->ring], &stats)) == VRAM_OK &&
        !r->loose && settings.threads == 1 && !faults_were && !one->lost) {
        expect_number(r, "messages that were sent", one->count, stats.sent);
        EXPECT(!stats.corrupt && stats.host_to_device_count <= stats.sent, "the ring is damaged");
    }
    DO(may, vram_ring_check(ring[op->ring]));
}

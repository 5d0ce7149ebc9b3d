/* SPDX-License-Identifier: Apache-2.0 */
/* steps_buffer.c: buffers: spans, maps, growth and moves. */
#include "calls/program.h"

#include <stdlib.h>
#include <string.h>

static struct extent mapped_part[SLOTS_buffer];

/* The queue that a step on the buffer runs on: the drawn one, or its home with slot 0. */
static struct object *buffer_queue(const struct op *op) {
    struct object *home = OBJECT(BUFFER, op->buffer)->home;
    if (op->queue) {
        return OBJECT(QUEUE, op->queue);
    }
    return home && is_live(home) ? home : NULL;
}

static uint64_t buffer_may(const struct run *r, const struct op *op) {
    return r->may | pool_awake(OBJECT(BUFFER, op->buffer)->parent, INVALID | BUSY);
}

void buffer_made(struct object *made, struct object *from, uint64_t bytes, unsigned on) {
    object_new(made, from);
    made->bytes = bytes;
    made->home = made->last = on ? OBJECT(QUEUE, on) : NULL;
}

STEP(buffer_create) {
    static const vram_buffer_kind some[] = {
        VRAM_BUFFER_DEVICE, VRAM_BUFFER_PINNED,   VRAM_BUFFER_FALLBACK, VRAM_BUFFER_MANAGED,
        VRAM_BUFFER_MAPPED, VRAM_BUFFER_FALLBACK, VRAM_BUFFER_FALLBACK}; /* these move */
    struct object *from = OBJECT(POOL, op->pool), *made = OBJECT(BUFFER, op->buffer);
    vram_buffer_kind kind = some[op->choice % (op->pool == FREE_POOL ? 7 : 3)];
    vram_buffer_options options = {.size = sizeof options,
                                   .kind = kind,
                                   .flags = kind == VRAM_BUFFER_PINNED ? VRAM_BUFFER_PAGEABLE : 0,
                                   .name = "drawn"};
    uint64_t may = r->may;
    if (may & OK) {
        may |= pool_gives(from, BUSY);
        may |= kind == VRAM_BUFFER_MANAGED || kind == VRAM_BUFFER_MAPPED ? UNSUPPORTED : 0;
    }
    if (DO(may, vram_buffer_create(pool[op->pool], op->bytes, queue[op->queue], &options,
                                   &buffer[op->buffer])) == VRAM_OK) {
        buffer_made(made, from, op->bytes, op->queue);
        made->kind = kind;
    }
}

STEP(buffer_destroy) {
    if (DO(r->may, vram_buffer_destroy(buffer[op->buffer])) == VRAM_OK) {
        object_end(r, OBJECT(BUFFER, op->buffer));
    }
}

STEP(buffer_info) {
    struct object *one = OBJECT(BUFFER, op->buffer);
    vram_buffer_info info = {.size = sizeof info};
    if (DO(r->may, vram_buffer_info_get(buffer[op->buffer], &info)) == VRAM_OK && !r->loose &&
        settings.threads == 1) {
        expect_number(r, "bytes in use of the buffer", one->bytes, info.used_bytes);
        EXPECT(info.capacity_bytes >= one->bytes && info.kind == (vram_buffer_kind)one->kind &&
                   info.mapped == one->mapped,
               "the buffer is said to be another");
        answer(r, info.used_bytes);
    }
}

/* ----------------------------------------------------------------------- spans */

/* A copy of a part of the buffer; NULL: none can be made. */
static struct pending *span_ready(struct run *r, struct op *op, bool upload) {
    struct object *one = OBJECT(BUFFER, op->buffer), *on = buffer_queue(op);
    if (one->mapped || !on) {
        return NULL;
    }
    if (op->nth % 4 == 0) { /* all of it */
        op->offset = 0;
        op->bytes = one->bytes;
    }
    op->offset = one->bytes ? op->offset % one->bytes : 0;
    op->bytes = op->bytes % (one->bytes - op->offset + 1);
    return order_on(r, one, SLOT_OF(on)) ? pending_new(r, op, SLOT_OF(on), upload) : NULL;
}

static void span_done(struct run *r, struct op *op, struct pending *pending, vram_status status) {
    struct object *one = OBJECT(BUFFER, op->buffer);
    if (status != VRAM_OK) {
        pending_fail(r, pending, true);
    } else if (r->loose) { /* nobody knows of it, not even the thread's next step */
        queue_finish(r, SLOT_OF(pending->queue));
    } else {
        one->last = pending->queue;
        if (pending->what == PENDING_UPLOAD) {
            contents_write(&one->contents, op->offset,
                           (struct extent){0, op->bytes, op->seed >> 1, 0});
        } else {
            pending->expected = one->contents;
        }
    }
}

STEP(span_upload) {
    struct pending *pending = span_ready(r, op, true);
    vram_span span = {buffer[op->buffer], op->offset, op->bytes};
    if (pending) {
        span_done(r, op, pending,
                  DO(buffer_may(r, op), vram_span_upload(queue[op->queue], span, pending->host)));
    }
}

STEP(span_download) {
    struct pending *pending = span_ready(r, op, false);
    vram_span span = {buffer[op->buffer], op->offset, op->bytes};
    if (pending) {
        span_done(r, op, pending,
                  DO(buffer_may(r, op), vram_span_download(queue[op->queue], pending->host, span)));
    }
}

/* ------------------------------------------------------------------------ maps */

static void map_written(struct op *op, void *memory) {
    unsigned char *bytes = pattern(op->seed >> 1, 0, op->bytes);
    memcpy(memory, bytes, op->bytes);
    free(bytes);
}

STEP(buffer_map) {
    struct object *one = OBJECT(BUFFER, op->buffer), *on = buffer_queue(op);
    uint32_t flags = 1 + op->flags % 3;
    bool writes = flags & VRAM_MAP_WRITE;
    void *memory = NULL;
    if (one->bytes == 0 || r->loose) {
        return;
    }
    op->offset %= one->bytes;
    op->bytes = 1 + op->bytes % (one->bytes - op->offset);
    if (!on || !order_on(r, one, SLOT_OF(on)) ||
        DO(one->mapped ? BUSY : buffer_may(r, op),
           vram_buffer_map(buffer[op->buffer], op->offset, op->bytes, flags, queue[op->queue],
                           &memory)) != VRAM_OK) {
        return;
    }
    one->mapped = true;
    one->lost = false;
    one->last = on;
    mapped_part[op->buffer] = (struct extent){op->offset, writes ? op->bytes : 0, op->seed >> 1, 0};
    if (flags & VRAM_MAP_READ) {
        uint64_t bad = contents_check(&one->contents, op->offset, memory, op->bytes);
        EXPECT(bad == UINT64_MAX, "mapped contents differ at byte %llu of %llu",
               (unsigned long long)bad, (unsigned long long)op->bytes);
    }
    if (writes) {
        map_written(op, memory);
    }
}

STEP(buffer_unmap) {
    struct object *one = OBJECT(BUFFER, op->buffer);
    const struct extent *part = &mapped_part[op->buffer];
    /* Its queue may have ended since the map. Then it depends on the device: what is written to a
       copy in host memory can no longer be brought back. */
    bool gone = !one->last || !is_live(one->last);
    if (r->loose || (one->mapped && gone && r->portable)) {
        return;
    }
    if (DO(one->mapped ? buffer_may(r, op) | (gone ? STALE : 0) : INVALID,
           vram_buffer_unmap(buffer[op->buffer])) == VRAM_OK) {
        one->mapped = false;
        if (!one->lost) { /* memory that the host reaches loses in a sleep what was written there */
            contents_write(&one->contents, part->offset, *part);
        }
    }
}

/* --------------------------------------------------------------- growth, moves */

static vram_buffer_info info_of(const struct op *op) {
    vram_buffer_info info = {.size = sizeof info};
    (void)vram_buffer_info_get(buffer[op->buffer], &info);
    return info;
}

/* The queue is its home from now on if the call has changed its memory. The library puts a move,
   and a change on another queue than its home, behind all work on the buffer. It does not so for
   growth in place on its home, and a call that had nothing to do has ordered nothing. */
static void learn_home(struct run *r, const struct op *op, struct object *on,
                       const vram_buffer_info *before) {
    struct object *one = OBJECT(BUFFER, op->buffer);
    vram_buffer_info after = info_of(op);
    unsigned slot = SLOT_OF(on);
    bool stayed = after.addr == before->addr && after.queue == before->queue;
    if (after.queue != queue[slot] || (stayed && after.capacity_bytes == before->capacity_bytes)) {
        return;
    }
    if (stayed && !order_on(r, one, slot)) {
        step_fault_clear(r, NULL);
        (void)order_on(r, one, slot);
    }
    one->home = one->last = on;
}

/* The queue of a change; NULL: none is made. Of portable buffers only their home: whether that
   changes depends on how they were rounded. */
static struct object *change_queue(const struct run *r, struct op *op) {
    op->queue = OBJECT(BUFFER, op->buffer)->portable ? 0 : op->queue;
    return r->loose ? NULL : buffer_queue(op);
}

STEP(buffer_resize) {
    struct object *one = OBJECT(BUFFER, op->buffer), *on = change_queue(r, op);
    if (!on || one->unsure) {
        return;
    }
    uint64_t may = buffer_may(r, op) | (one->parent->count ? EXHAUSTED : 0);
    vram_buffer_info before = info_of(op);
    vram_status status = DO(one->mapped ? BUSY | OK : may,
                            vram_buffer_resize(buffer[op->buffer], op->bytes, queue[op->queue]));
    if (status == VRAM_OK) {
        contents_cut(&one->contents, op->bytes);
        one->bytes = op->bytes;
        learn_home(r, op, on, &before);
    }
    vram_buffer_info info = {.size = sizeof info};
    if (vram_buffer_info_get(buffer[op->buffer], &info) == VRAM_OK) {
        expect_number(r, "bytes in use after a resize", one->bytes, info.used_bytes);
        EXPECT(info.capacity_bytes >= info.used_bytes, "more is in use than there is");
    }
}

STEP(buffer_fit) {
    struct object *one = OBJECT(BUFFER, op->buffer), *on = change_queue(r, op);
    if (on && !one->mapped && order_on(r, one, SLOT_OF(on))) {
        vram_buffer_info before = info_of(op);
        DO(buffer_may(r, op), vram_buffer_fit(buffer[op->buffer], queue[op->queue]));
        one->last = on;
        learn_home(r, op, on, &before);
    }
}

STEP(buffer_move) {
    struct object *one = OBJECT(BUFFER, op->buffer), *on = buffer_queue(op);
    if (!on || r->loose) {
        return;
    }
    uint64_t may = one->kind == VRAM_BUFFER_FALLBACK ? buffer_may(r, op) | EXHAUSTED : INVALID;
    may |= UNSUPPORTED | (one->mapped ? BUSY : 0);
    vram_buffer_info before = info_of(op);
    if (QUIETLY(may, op->choice % 2
                         ? vram_buffer_promote(buffer[op->buffer], queue[op->queue])
                         : vram_buffer_demote(buffer[op->buffer], queue[op->queue])) == VRAM_OK) {
        learn_home(r, op, on, &before);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* steps_buffer.c: buffers: spans, maps, growth and moves. */
#include "programs/steps.h"

#include <stdlib.h>
#include <string.h>

static void *mapping[SLOTS_buffer];
static struct extent mapped_part[SLOTS_buffer];

/* The queue that an operation on the buffer runs on: the drawn one, or its home with slot 0. */
static struct object *buffer_queue(struct op *op, struct object *one) {
    op->queue = (uint8_t)queue_for(op, one->parent);
    if (op->queue) {
        return OBJECT(QUEUE, op->queue);
    }
    return one->home && one->home->state == STATE_LIVE ? one->home : NULL;
}

static bool buffer_ready(const struct op *op, uint64_t *allowed) {
    bool skip = false;
    struct object *one = OBJECT(BUFFER, op->buffer);
    *allowed = ALLOWED(&skip, one);
    *allowed |= *allowed & OK ? pool_awake(one->parent, INVALID | BUSY) : 0;
    return !skip;
}

void buffer_made(struct object *made, struct object *from, uint64_t bytes, unsigned on) {
    object_new(made, from);
    made->bytes = bytes;
    made->home = made->last = on ? OBJECT(QUEUE, on) : NULL;
}

void step_buffer_create(struct run *r, const struct op *op) {
    static const vram_buffer_kind some[] = {VRAM_BUFFER_DEVICE, VRAM_BUFFER_PINNED,
                                            VRAM_BUFFER_FALLBACK, VRAM_BUFFER_MANAGED,
                                            VRAM_BUFFER_MAPPED};
    bool skip = false, anything = op->pool == FREE_POOL;
    struct object *from = OBJECT(POOL, op->pool), *made = OBJECT(BUFFER, op->buffer);
    uint64_t allowed = ALLOWED(&skip, from);
    struct op drawn = *op;
    drawn.queue = (uint8_t)queue_for(op, from);
    drawn.choice = some[op->choice % (anything ? 5 : 3)];
    drawn.flags = drawn.choice == VRAM_BUFFER_PINNED ? VRAM_BUFFER_PAGEABLE : 0;
    op = &drawn;
    if (skip || made->state == STATE_LIVE) {
        return;
    }
    if (allowed & OK) {
        allowed |= pool_awake(from, BUSY) | (from->count ? EXHAUSTED : 0);
        allowed |=
            op->choice == VRAM_BUFFER_MANAGED || op->choice == VRAM_BUFFER_MAPPED ? UNSUPPORTED : 0;
    }
    if (DO(allowed, vram_buffer_create(pool[op->pool], op->bytes, queue[op->queue],
                                       &(vram_buffer_options){.size = sizeof(vram_buffer_options),
                                                              .kind = (vram_buffer_kind)op->choice,
                                                              .flags = op->flags,
                                                              .name = "drawn"},
                                       &buffer[op->buffer])) == VRAM_OK) {
        buffer_made(made, from, op->bytes, op->queue);
        made->kind = op->choice;
    }
}

void step_buffer_destroy(struct run *r, const struct op *op) {
    uint64_t allowed;
    struct object *one = OBJECT(BUFFER, op->buffer);
    if (buffer_ready(op, &allowed) &&
        (DO(allowed & (OK | STALE), vram_buffer_destroy(buffer[op->buffer])) == VRAM_OK)) {
        object_end(r, one);
    }
}

void step_buffer_info(struct run *r, const struct op *op) {
    uint64_t allowed;
    struct object *one = OBJECT(BUFFER, op->buffer);
    vram_buffer_info info = {.size = sizeof info};
    if (!buffer_ready(op, &allowed)) {
        return;
    }
    say(r, "vram_buffer_info info = {.size = sizeof info};");
    if (DO(allowed & (OK | STALE), vram_buffer_info_get(buffer[op->buffer], &info)) == VRAM_OK &&
        !r->loose && settings.threads == 1) {
        EXPECT(info.used_bytes == one->bytes && info.capacity_bytes >= one->bytes &&
                   info.kind == (vram_buffer_kind)one->kind && info.mapped == one->mapped,
               "a buffer with %llu bytes in use is said to have %llu, capacity %llu",
               (unsigned long long)one->bytes, (unsigned long long)info.used_bytes,
               (unsigned long long)info.capacity_bytes);
        answer(r, info.used_bytes);
    }
}

/* ----------------------------------------------------------------------- spans */

struct span_part {
    struct op op;
    struct object *one, *on;
    struct pending *pending;
    uint64_t allowed;
};

static bool span_ready(struct run *r, const struct op *op, struct span_part *part, bool upload) {
    *part = (struct span_part){.op = *op, .one = OBJECT(BUFFER, op->buffer)};
    if (!buffer_ready(op, &part->allowed) || !(part->allowed & OK) || part->one->mapped) {
        return false;
    }
    part->on = buffer_queue(&part->op, part->one);
    part->op.offset = part->one->bytes ? op->offset % part->one->bytes : 0;
    part->op.bytes = op->bytes % (part->one->bytes - part->op.offset + 1);
    unsigned slot = part->on ? (unsigned)(part->on - objects[TYPE_QUEUE]) : 0;
    if (!part->on || !order_on(r, op, part->one, slot) ||
        !(part->pending = pending_new(r, op, slot))) {
        return false;
    }
    uint64_t seed = upload ? op->seed >> 1 : fill_seed(0x11, 1);
    part->pending->bytes = part->op.bytes;
    part->pending->offset = part->op.offset;
    part->pending->what = upload ? PENDING_UPLOAD : PENDING_DOWNLOAD;
    part->op.nth = part->pending->slot;
    host[part->op.nth] = pattern(seed, 0, part->op.bytes);
    say(r, "host[%llu] = pattern(0x%llx, 0, %llu);", (unsigned long long)part->op.nth,
        (unsigned long long)seed, (unsigned long long)part->op.bytes);
    return true;
}

void step_span_upload(struct run *r, const struct op *op) {
    struct span_part part;
    if (!span_ready(r, op, &part, true)) {
        return;
    }
    op = &part.op;
    if (DO(part.allowed, vram_span_upload(queue[op->queue],
                                          (vram_span){buffer[op->buffer], op->offset, op->bytes},
                                          host[op->nth])) != VRAM_OK) {
        memset(host[op->nth], 0x33, op->bytes);
        pending_finish(r, part.pending);
    } else if (!r->loose) {
        part.one->last = part.on;
        contents_write(&part.one->contents, op->offset,
                       (struct extent){0, op->bytes, op->seed >> 1, 0});
    } else { /* nobody knows of it, not even the thread's next operation */
        DO(OK, vram_queue_wait(queue[op->queue], VRAM_TIMEOUT_DEFAULT));
    }
}

void step_span_download(struct run *r, const struct op *op) {
    struct span_part part;
    if (!span_ready(r, op, &part, false)) {
        return;
    }
    op = &part.op;
    if (DO(part.allowed,
           vram_span_download(queue[op->queue], host[op->nth],
                              (vram_span){buffer[op->buffer], op->offset, op->bytes})) != VRAM_OK) {
        memset(host[op->nth], 0x11, op->bytes);
        part.pending->what = PENDING_FAILED;
    } else if (!r->loose) {
        part.one->last = part.on;
        part.pending->expected = part.one->contents;
    } else {
        DO(OK, vram_queue_wait(queue[op->queue], VRAM_TIMEOUT_DEFAULT));
    }
}

/* ------------------------------------------------------------------------ maps */

void step_buffer_map(struct run *r, const struct op *op) {
    uint64_t allowed;
    struct object *one = OBJECT(BUFFER, op->buffer);
    struct op drawn = *op;
    void *memory = NULL;
    if (!buffer_ready(op, &allowed) || !(allowed & OK) || one->bytes == 0 || r->loose) {
        return;
    }
    struct object *on = buffer_queue(&drawn, one);
    drawn.offset = op->offset % one->bytes;
    drawn.bytes = 1 + op->bytes % (one->bytes - drawn.offset);
    drawn.flags = 1 + op->flags % 3;
    op = &drawn;
    if (!on || !order_on(r, op, one, (unsigned)(on - objects[TYPE_QUEUE]))) {
        return;
    }
    say(r, "void *memory;");
    vram_status status =
        DO(one->mapped ? BUSY : allowed, vram_buffer_map(buffer[op->buffer], op->offset, op->bytes,
                                                         op->flags, queue[op->queue], &memory));
    if (status != VRAM_OK) {
        return;
    }
    one->mapped = true;
    one->lost = false;
    one->last = on;
    mapping[op->buffer] = memory;
    mapped_part[op->buffer] = (struct extent){op->offset, op->bytes, op->seed >> 1, 0};
    if (op->flags & VRAM_MAP_READ) {
        uint64_t bad = contents_check(&one->contents, op->offset, memory, op->bytes);
        EXPECT(bad == UINT64_MAX, "mapped contents differ at byte %llu of %llu",
               (unsigned long long)bad, (unsigned long long)op->bytes);
    }
    if (op->flags & VRAM_MAP_WRITE) {
        unsigned char *bytes = pattern(op->seed >> 1, 0, op->bytes);
        say(r, "memcpy(memory, pattern(0x%llx, 0, %llu), %llu);", (unsigned long long)op->seed >> 1,
            (unsigned long long)op->bytes, (unsigned long long)op->bytes);
        memcpy(memory, bytes, op->bytes);
        memset(bytes, 0x44, op->bytes);
        free(bytes);
    } else {
        mapped_part[op->buffer].bytes = 0;
    }
}

void step_buffer_unmap(struct run *r, const struct op *op) {
    uint64_t allowed;
    struct object *one = OBJECT(BUFFER, op->buffer);
    if (!buffer_ready(op, &allowed) || !(allowed & OK) || r->loose) {
        return;
    }
    /* Its queue may have ended since the map. Then it depends on the device: what is written to a
       copy in host memory can no longer be brought back. */
    bool gone = !one->last || one->last->state != STATE_LIVE;
    if (one->mapped && gone && r->portable) {
        return;
    }
    vram_status status = DO(one->mapped ? allowed | (gone ? STALE : 0) : INVALID,
                            vram_buffer_unmap(buffer[op->buffer]));
    if (status == VRAM_OK) {
        one->mapped = false;
        if (!one->lost) { /* memory that the host reaches loses in a sleep what was written there */
            contents_write(&one->contents, mapped_part[op->buffer].offset, mapped_part[op->buffer]);
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
static void learn_home(struct run *r, const struct op *op, struct object *one, struct object *on,
                       const vram_buffer_info *before) {
    vram_buffer_info after = info_of(op);
    unsigned slot = (unsigned)(on - objects[TYPE_QUEUE]);
    if (after.queue != queue[slot] || (after.addr == before->addr && after.queue == before->queue &&
                                       after.capacity_bytes == before->capacity_bytes)) {
        return;
    }
    if (after.addr == before->addr && after.queue == before->queue && !order_on(r, op, one, slot)) {
        step_fault_clear(r, op);
        (void)order_on(r, op, one, slot);
    }
    one->home = one->last = on;
}

void step_buffer_resize(struct run *r, const struct op *op) {
    uint64_t allowed;
    struct object *one = OBJECT(BUFFER, op->buffer);
    struct op drawn = *op;
    if (!buffer_ready(op, &allowed) || !(allowed & OK) || r->loose) {
        return;
    }
    if (one->portable) {
        drawn.queue = 0; /* whether its home changes depends on how it was rounded */
    }
    struct object *on = buffer_queue(&drawn, one);
    op = &drawn;
    if (!on || one->unsure) {
        return;
    }
    allowed |= one->parent->count ? EXHAUSTED : 0;
    vram_buffer_info before = info_of(op);
    vram_status status = DO(one->mapped ? BUSY | OK : allowed,
                            vram_buffer_resize(buffer[op->buffer], op->bytes, queue[op->queue]));
    if (status == VRAM_OK) {
        contents_cut(&one->contents, op->bytes);
        one->bytes = op->bytes;
        learn_home(r, op, one, on, &before);
    }
    vram_buffer_info info = {.size = sizeof info};
    if (vram_buffer_info_get(buffer[op->buffer], &info) == VRAM_OK) {
        EXPECT(info.used_bytes == one->bytes && info.capacity_bytes >= info.used_bytes,
               "after a resize %llu bytes are in use, not %llu; capacity %llu",
               (unsigned long long)info.used_bytes, (unsigned long long)one->bytes,
               (unsigned long long)info.capacity_bytes);
    }
}

void step_buffer_fit(struct run *r, const struct op *op) {
    uint64_t allowed;
    struct object *one = OBJECT(BUFFER, op->buffer);
    struct op drawn = *op;
    if (!buffer_ready(op, &allowed) || !(allowed & OK) || r->loose || one->mapped) {
        return;
    }
    if (one->portable) {
        drawn.queue = 0; /* as for a resize */
    }
    struct object *on = buffer_queue(&drawn, one);
    op = &drawn;
    if (on && order_on(r, op, one, (unsigned)(on - objects[TYPE_QUEUE]))) {
        vram_buffer_info before = info_of(op);
        DO(allowed, vram_buffer_fit(buffer[op->buffer], queue[op->queue]));
        one->last = on;
        learn_home(r, op, one, on, &before);
    }
}

void step_buffer_move(struct run *r, const struct op *op) {
    uint64_t allowed;
    struct object *one = OBJECT(BUFFER, op->buffer);
    struct op drawn = *op;
    if (!buffer_ready(op, &allowed) || !(allowed & OK) || r->loose) {
        return;
    }
    struct object *on = buffer_queue(&drawn, one);
    op = &drawn;
    if (!on) {
        return;
    }
    r->portable = false;
    allowed |= EXHAUSTED | UNSUPPORTED;
    allowed = one->kind != VRAM_BUFFER_FALLBACK ? INVALID | UNSUPPORTED : allowed;
    allowed |= one->mapped ? BUSY : 0;
    vram_buffer_info before = info_of(op);
    vram_status status;
    if (op->choice % 2) {
        status = DO(allowed, vram_buffer_promote(buffer[op->buffer], queue[op->queue]));
    } else {
        status = DO(allowed, vram_buffer_demote(buffer[op->buffer], queue[op->queue]));
    }
    if (status == VRAM_OK) {
        learn_home(r, op, one, on, &before);
    }
}

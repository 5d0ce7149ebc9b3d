/* SPDX-License-Identifier: Apache-2.0 */
/*
 * known_contents.c: what the model knows of the bytes of blocks and buffers, and the copies under
 * way.
 *
 * Every byte that a program writes is a byte of a numbered pattern, so contents are a short list of
 * extents. Bytes in none are undefined, and nobody looks at them. What does not fit in the list is
 * forgotten.
 */
#include "programs/program.h"

#include <stdlib.h>
#include <string.h>

enum { FILL_SHIFT = 63, SCRIBBLE = 0x11 };

uint64_t fill_seed(uint32_t value, uint32_t width) {
    return UINT64_C(1) << FILL_SHIFT | (uint64_t)width << 32 | value;
}

static unsigned char pattern_byte(uint64_t seed, uint64_t at) {
    if (seed >> FILL_SHIFT) {
        uint32_t width = (uint32_t)(seed >> 32) & 7;
        return (unsigned char)((uint32_t)seed >> 8 * (at % width));
    }
    return (unsigned char)(mix(seed + at / 8) >> 8 * (at % 8));
}

static bool pattern_is(const unsigned char *data, uint64_t seed, uint64_t at, uint64_t bytes,
                       uint64_t *bad) {
    uint64_t i = 0;
    while (i < bytes) {
        if (seed >> FILL_SHIFT == 0 && (at + i) % 8 == 0 && bytes - i >= 8) {
            uint64_t word = mix(seed + (at + i) / 8);
            if (memcmp(data + i, &word, 8) == 0) {
                i += 8;
                continue;
            }
        }
        if (data[i] != pattern_byte(seed, at + i)) {
            *bad = i;
            return false;
        }
        i++;
    }
    return true;
}

unsigned char *pattern(uint64_t seed, uint64_t at, uint64_t bytes) {
    unsigned char *memory = malloc(bytes + 1);
    for (uint64_t i = 0; memory && i < bytes;) {
        if (seed >> FILL_SHIFT == 0 && (at + i) % 8 == 0 && bytes - i >= 8) {
            uint64_t word = mix(seed + (at + i) / 8);
            memcpy(memory + i, &word, 8);
            i += 8;
        } else {
            memory[i] = pattern_byte(seed, at + i);
            i++;
        }
    }
    return memory;
}

/* ------------------------------------------------------------------- extents */

static void extent_add(struct contents *contents, struct extent extent) {
    if (extent.bytes && contents->count < EXTENTS_MAX) {
        contents->extents[contents->count++] = extent;
    }
}

/* Forgets a part. */
static void contents_clear(struct contents *contents, uint64_t offset, uint64_t bytes) {
    struct contents old = *contents;
    uint64_t end = offset + bytes;
    contents->count = 0;
    for (unsigned i = 0; i < old.count; i++) {
        struct extent extent = old.extents[i];
        uint64_t extent_end = extent.offset + extent.bytes;
        if (extent_end <= offset || extent.offset >= end) {
            extent_add(contents, extent);
            continue;
        }
        if (extent.offset < offset) {
            extent_add(contents, (struct extent){extent.offset, offset - extent.offset, extent.seed,
                                                 extent.at});
        }
        if (extent_end > end) {
            extent_add(contents, (struct extent){end, extent_end - end, extent.seed,
                                                 extent.at + (end - extent.offset)});
        }
    }
}

void contents_write(struct contents *contents, uint64_t offset, struct extent extent) {
    contents_clear(contents, offset, extent.bytes);
    if (contents->count == EXTENTS_MAX) {
        contents->count--;
    }
    extent.offset = offset;
    extent_add(contents, extent);
}

void contents_copy(struct contents *to, uint64_t to_offset, const struct contents *from,
                   uint64_t from_offset, uint64_t bytes) {
    struct contents source = *from;
    uint64_t end = from_offset + bytes;
    contents_clear(to, to_offset, bytes);
    for (unsigned i = 0; i < source.count; i++) {
        struct extent extent = source.extents[i];
        uint64_t first = extent.offset > from_offset ? extent.offset : from_offset;
        uint64_t last = extent.offset + extent.bytes < end ? extent.offset + extent.bytes : end;
        if (first < last) {
            extent_add(to, (struct extent){to_offset + (first - from_offset), last - first,
                                           extent.seed, extent.at + (first - extent.offset)});
        }
    }
}

void contents_cut(struct contents *contents, uint64_t bytes) {
    contents_clear(contents, bytes, UINT64_MAX - bytes);
}

uint64_t contents_check(const struct contents *contents, uint64_t offset, const unsigned char *data,
                        uint64_t bytes) {
    struct contents part = {0};
    contents_copy(&part, 0, contents, offset, bytes);
    for (unsigned i = 0; i < part.count; i++) {
        const struct extent *extent = &part.extents[i];
        uint64_t bad;
        if (!pattern_is(data + extent->offset, extent->seed, extent->at, extent->bytes, &bad)) {
            return extent->offset + bad;
        }
    }
    return UINT64_MAX;
}

/* ---------------------------------------------------------- copies under way */

void pending_finish(struct run *r, struct pending *pending) {
    unsigned char *memory = host[pending->slot];
    static const struct contents failed = {1, {{0, UINT64_MAX / 2, 0, 0}}};
    uint64_t bad = UINT64_MAX;
    if (pending->what == PENDING_DOWNLOAD) {
        bad = contents_check(&pending->expected, pending->offset, memory, pending->bytes);
    } else if (pending->what == PENDING_FAILED) {
        struct contents scribble = failed;
        scribble.extents[0].seed = fill_seed(SCRIBBLE, 1);
        bad = contents_check(&scribble, 0, memory, pending->bytes);
    }
    if (told->keep_text && pending->what == PENDING_DOWNLOAD) {
        for (unsigned i = 0; i < pending->expected.count; i++) {
            const struct extent *extent = &pending->expected.extents[i];
            if (extent->offset == pending->offset && extent->bytes >= pending->bytes) {
                say(r, "SAME(host[%u], pattern(0x%llx, %llu, %llu), %llu);", pending->slot,
                    (unsigned long long)extent->seed, (unsigned long long)extent->at,
                    (unsigned long long)pending->bytes, (unsigned long long)pending->bytes);
            }
        }
    }
    EXPECT(bad == UINT64_MAX,
           pending->what == PENDING_FAILED
               ? "host memory of a download that failed was written at byte %llu of %llu"
               : "contents differ at byte %llu of %llu that were downloaded from offset %llu",
           (unsigned long long)bad, (unsigned long long)pending->bytes,
           (unsigned long long)pending->offset);
    say(r, "free(host[%u]);", pending->slot);
    memset(memory, 0x22, pending->bytes);
    free(memory);
    host[pending->slot] = NULL;
    pending->queue = NULL;
}

void queue_passed(struct run *r, struct object *queue_object) {
    for (unsigned i = 0; i < PENDING_MAX; i++) {
        if (r->pending[i].queue == queue_object) {
            pending_finish(r, &r->pending[i]);
        }
    }
}

struct pending *pending_new(struct run *r, const struct op *op, unsigned queue_slot) {
    struct object *queue_object = OBJECT(QUEUE, queue_slot);
    for (int round = 0; round < 2; round++) {
        for (unsigned i = 0; i < PENDING_MAX; i++) {
            if (!r->pending[i].queue) {
                r->pending[i] =
                    (struct pending){.queue = queue_object, .slot = r->thread * PENDING_MAX + i};
                return &r->pending[i];
            }
        }
        /* All are under way: wait for the queue of the first. */
        struct op first = *op;
        struct object *busy = r->pending[0].queue;
        first.queue = (uint8_t)(busy - objects[TYPE_QUEUE]);
        op = &first;
        bool portable = r->portable;
        r->portable = false; /* when this is needed is no answer */
        vram_status status = DO(OK, vram_queue_wait(queue[op->queue], VRAM_TIMEOUT_DEFAULT));
        r->portable = portable;
        if (status != VRAM_OK) {
            return NULL;
        }
        queue_passed(r, busy);
    }
    return NULL;
}

bool order_on(struct run *r, const struct op *op, struct object *object, unsigned slot) {
    struct object *to = OBJECT(QUEUE, slot);
    if (!object->last || object->last == to || object->last->state != STATE_LIVE) {
        return true;
    }
    if (!slot) {
        return false;
    }
    struct op ordered = *op;
    ordered.other = (uint8_t)(object->last - objects[TYPE_QUEUE]);
    ordered.queue = (uint8_t)slot;
    ordered.choice = r->thread;
    op = &ordered;
    bool portable = r->portable;
    r->portable = false;
    bool ordered_now = DO(OK, vram_queue_mark(queue[op->other], &mark[op->choice])) == VRAM_OK &&
                       DO(OK, vram_queue_after(queue[op->queue], mark[op->choice])) == VRAM_OK;
    r->portable = portable;
    return ordered_now;
}

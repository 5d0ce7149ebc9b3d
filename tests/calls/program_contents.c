/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program_contents.c: what the model knows of the bytes of blocks and buffers, and the copies under
 * way.
 *
 * Every byte that a program writes is a byte of a numbered pattern, so contents are a short list of
 * extents. Bytes in none are undefined, and nobody looks at them. What does not fit in the list is
 * forgotten.
 */
#include "calls/program.h"

#include <stdlib.h>
#include <string.h>

enum { FILL_SHIFT = 63, SCRIBBLE = 0x11, UPLOADED = 0x33 };

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

/* Eight bytes at once, where the pattern has a whole word; false: there is none. */
static bool pattern_word(uint64_t seed, uint64_t at, uint64_t left, uint64_t *word) {
    bool whole = seed >> FILL_SHIFT == 0 && at % 8 == 0 && left >= 8;
    *word = whole ? mix(seed + at / 8) : 0;
    return whole;
}

/* Where the bytes first differ from the pattern, or UINT64_MAX. */
static uint64_t pattern_differs(const unsigned char *data, uint64_t seed, uint64_t at,
                                uint64_t bytes) {
    uint64_t word;
    for (uint64_t i = 0; i < bytes; i++) {
        if (pattern_word(seed, at + i, bytes - i, &word) && memcmp(data + i, &word, 8) == 0) {
            i += 7;
        } else if (data[i] != pattern_byte(seed, at + i)) {
            return i;
        }
    }
    return UINT64_MAX;
}

unsigned char *pattern(uint64_t seed, uint64_t at, uint64_t bytes) {
    unsigned char *memory = malloc(bytes + 1);
    uint64_t word;
    for (uint64_t i = 0; memory && i < bytes; i++) {
        if (pattern_word(seed, at + i, bytes - i, &word)) {
            memcpy(memory + i, &word, 8);
            i += 7;
        } else {
            memory[i] = pattern_byte(seed, at + i);
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

/* The part of it between two offsets; of no bytes if there is none. */
static struct extent extent_part(struct extent extent, uint64_t first, uint64_t end) {
    uint64_t extent_end = extent.offset + extent.bytes;
    first = first > extent.offset ? first : extent.offset;
    end = end < extent_end ? end : extent_end;
    return (struct extent){first, first < end ? end - first : 0, extent.seed,
                           extent.at + (first - extent.offset)};
}

/* Forgets a part. */
static void contents_clear(struct contents *contents, uint64_t offset, uint64_t bytes) {
    struct contents old = *contents;
    contents->count = 0;
    for (unsigned i = 0; i < old.count; i++) {
        extent_add(contents, extent_part(old.extents[i], 0, offset));
        extent_add(contents, extent_part(old.extents[i], offset + bytes, UINT64_MAX));
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

void contents_copy(struct contents *to, const struct contents *from, uint64_t offset,
                   uint64_t bytes) {
    struct contents source = *from;
    contents_clear(to, offset, bytes);
    for (unsigned i = 0; i < source.count; i++) {
        extent_add(to, extent_part(source.extents[i], offset, offset + bytes));
    }
}

void contents_cut(struct contents *contents, uint64_t bytes) {
    contents_clear(contents, bytes, UINT64_MAX - bytes);
}

uint64_t contents_check(const struct contents *contents, uint64_t offset, const unsigned char *data,
                        uint64_t bytes) {
    for (unsigned i = 0; i < contents->count; i++) {
        struct extent part = extent_part(contents->extents[i], offset, offset + bytes);
        uint64_t at = part.offset - offset;
        uint64_t bad =
            part.bytes ? pattern_differs(data + at, part.seed, part.at, part.bytes) : UINT64_MAX;
        if (bad != UINT64_MAX) {
            return at + bad;
        }
    }
    return UINT64_MAX;
}

/* ---------------------------------------------------------- copies under way */

void pending_finish(struct run *r, struct pending *pending) {
    struct contents scribble = {1, {{0, pending->bytes, fill_seed(SCRIBBLE, 1), 0}}};
    bool failed = pending->what == PENDING_FAILED;
    uint64_t bad =
        pending->what == PENDING_UPLOAD
            ? UINT64_MAX
            : contents_check(failed ? &scribble : &pending->expected, failed ? 0 : pending->offset,
                             pending->host, pending->bytes);
    EXPECT(bad == UINT64_MAX,
           failed ? "host memory of a download that failed was written at byte %llu of %llu"
                  : "contents differ at byte %llu of %llu that were downloaded from offset %llu",
           (unsigned long long)bad, (unsigned long long)pending->bytes,
           (unsigned long long)pending->offset);
    memset(pending->host, 0x22, pending->bytes);
    free(pending->host);
    pending->queue = NULL;
}

void pending_fail(struct run *r, struct pending *pending, bool read_back) {
    if (pending->what == PENDING_UPLOAD) {
        memset(pending->host, UPLOADED, pending->bytes);
        pending_finish(r, pending);
    } else {
        memset(pending->host, SCRIBBLE, pending->bytes);
        pending->what = read_back ? PENDING_FAILED : PENDING_UPLOAD;
    }
}

void queue_passed(struct run *r, struct object *queue_object) {
    for (unsigned i = 0; i < PENDING_MAX; i++) {
        if (r->pending[i].queue == queue_object) {
            pending_finish(r, &r->pending[i]);
        }
    }
}

void queue_finish(struct run *r, unsigned slot) {
    DO(OK, vram_queue_wait(queue[slot], VRAM_TIMEOUT_DEFAULT));
}

static struct pending *pending_free(struct run *r) {
    for (unsigned i = 0; i < PENDING_MAX; i++) {
        if (!r->pending[i].queue) {
            return &r->pending[i];
        }
    }
    return NULL;
}

struct pending *pending_new(struct run *r, const struct op *op, unsigned queue_slot, bool upload) {
    struct pending *made = pending_free(r);
    if (!made) { /* all are under way: wait for the queue of the first */
        struct object *busy = r->pending[0].queue;
        bool portable = r->portable; /* when this is needed is no answer */
        vram_status status =
            QUIETLY(OK, vram_queue_wait(queue[SLOT_OF(busy)], VRAM_TIMEOUT_DEFAULT));
        r->portable = portable;
        if (status != VRAM_OK) {
            return NULL;
        }
        queue_passed(r, busy);
        made = pending_free(r);
    }
    *made = (struct pending){
        .queue = OBJECT(QUEUE, queue_slot),
        .host = pattern(upload ? op->seed >> 1 : fill_seed(SCRIBBLE, 1), 0, op->bytes),
        .bytes = op->bytes,
        .offset = op->offset,
        .what = upload ? PENDING_UPLOAD : PENDING_DOWNLOAD};
    return made;
}

bool order_on(struct run *r, struct object *object, unsigned slot) {
    struct object *last = object->last;
    bool portable = r->portable;
    if (!last || last == OBJECT(QUEUE, slot) || !is_live(last)) {
        return true;
    }
    if (!slot) {
        return false;
    }
    bool ordered =
        QUIETLY(OK, vram_queue_mark(queue[SLOT_OF(last)], &mark[r->thread])) == VRAM_OK &&
        DO(OK, vram_queue_after(queue[slot], mark[r->thread])) == VRAM_OK;
    r->portable = portable;
    return ordered;
}

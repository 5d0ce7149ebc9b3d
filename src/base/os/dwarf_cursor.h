/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dwarf_cursor.h: reads the numbers of DWARF tables, from a file or from memory.
 *
 * The bytes are untrusted: none is read outside the section. After a read past its end, `bad` is
 * set and all further bytes are 0.
 */
#ifndef VR_DWARF_CURSOR_H
#define VR_DWARF_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

/* Where tables are: offsets of a file, or addresses. */
struct vr_dwarf_source {
    /* Reads all of it, or fails. */
    bool (*read)(const void *file, uint64_t offset, void *to, uint64_t bytes);
    const void *file;
};

/* A part of a source; no bytes if there is none. */
struct vr_dwarf_section {
    uint64_t offset, bytes;
};

struct vr_dwarf_cursor {
    const struct vr_dwarf_source *source;
    uint64_t at, end;     /* in the source */
    uint64_t first, have; /* what the window holds of it */
    bool bad;
    uint8_t window[1024];
};

/* Begins at `from` bytes of a section. */
static inline void vr_dwarf_begin(struct vr_dwarf_cursor *cursor,
                                  const struct vr_dwarf_source *source,
                                  const struct vr_dwarf_section *section, uint64_t from) {
    bool inside = from <= section->bytes && section->bytes <= UINT64_MAX - section->offset;
    cursor->source = source;
    cursor->at = inside ? section->offset + from : 0;
    cursor->end = inside ? section->offset + section->bytes : 0;
    cursor->first = cursor->have = 0;
    cursor->bad = !inside;
}

static inline bool vr_dwarf_fill(struct vr_dwarf_cursor *cursor) {
    uint64_t rest = cursor->end - cursor->at;
    cursor->first = cursor->at;
    cursor->have = rest < sizeof cursor->window ? rest : sizeof cursor->window;
    return cursor->source->read(cursor->source->file, cursor->first, cursor->window, cursor->have);
}

static inline uint8_t vr_dwarf_byte(struct vr_dwarf_cursor *cursor) {
    bool held = cursor->at - cursor->first < cursor->have;
    if (cursor->bad || cursor->at >= cursor->end || !(held || vr_dwarf_fill(cursor))) {
        cursor->bad = true;
        return 0;
    }
    return cursor->window[cursor->at++ - cursor->first];
}

static inline void vr_dwarf_skip(struct vr_dwarf_cursor *cursor, uint64_t bytes) {
    cursor->bad = cursor->bad || bytes > cursor->end - cursor->at;
    cursor->at += cursor->bad ? 0 : bytes;
}

static inline uint64_t vr_dwarf_number(struct vr_dwarf_cursor *cursor, uint32_t bytes) {
    uint64_t value = 0;
    for (uint32_t i = 0; i < bytes; i++) {
        value |= (uint64_t)vr_dwarf_byte(cursor) << 8 * i;
    }
    return value;
}

/* LEB128; bits past the 64th are dropped. With `is_signed` the last bit is extended. */
static inline uint64_t vr_dwarf_leb(struct vr_dwarf_cursor *cursor, bool is_signed) {
    uint64_t value = 0;
    uint32_t shift = 0;
    uint8_t byte;
    do {
        byte = vr_dwarf_byte(cursor);
        if (shift < 64) {
            value |= (uint64_t)(byte & 0x7F) << shift;
            shift += 7;
        }
    } while (byte & 0x80);
    return is_signed && shift < 64 && byte & 0x40 ? value | UINT64_MAX << shift : value;
}

#endif

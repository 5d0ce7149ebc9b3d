/* SPDX-License-Identifier: Apache-2.0 */
/*
 * python_stack.c: see python_stack.h.
 *
 *  (1) Most allocations of a GPU are made by threads that have released the interpreter's lock
 *      (ctypes does, PyTorch, CuPy), and a hook in a driver must not wait for it: its holder may
 *      wait for an allocator that this thread has locked. So nothing here takes the lock, calls
 *      into the interpreter (its functions make objects of frames, and may collect garbage), or
 *      changes a reference count. The structures are read.
 *  (2) That is sound because the calling thread reads its own frames while it executes none: they,
 *      their code objects and what these refer to are held by the frames, and do not change.
 *      Other threads only read them, or attach objects to them.
 *  (3) Except at the end: the thread that finalizes the interpreter frees the states of threads
 *      that do not hold the lock. A thread that could meet this (it neither holds the lock nor is
 *      the process's first) has the kernel copy everything, which fails where memory is gone.
 *  (4) The first walk in a process has the kernel copy everything too. If a structure is not what
 *      it should be, the interpreter is not one that we know, and is never walked again.
 *  (5) Every object that is read must have its type; a walk that meets another one has no frames.
 *      A file's name may be of a class that is made of the type of strings.
 *  (6) There are no frames while there is a second interpreter: which one a thread executes cannot
 *      be seen from here.
 *  (7) A frame is known by a hash of all that its text is made of: the file, the function, the
 *      table of lines and the instruction. Code objects come and go, and others take their places.
 *      Several hashes may have one text: other instructions of a line, and a string whose own hash
 *      the interpreter makes later.
 */
#include "track/python_stack.h"

#include "base/text.h"
#include "track/frame_name.h"
#include "track/xxh64.h"

#include <string.h>

enum {
    PIECE = 1024, /* bytes that are copied at a time */
    STRUCT = VR_PYTHON_STRUCT,
    LINES_MOST = 1 << 20 /* bytes of a table of lines */
};

struct reader {
    const struct vr_python *python;
    bool direct; /* else by the kernel; keeps (3) */
};

/* NULL: the memory is gone. `to` has the bytes, unless they are read where they are. */
static const unsigned char *bytes_get(const struct reader *reader, uintptr_t from, void *to,
                                      size_t bytes) {
    if (reader->direct) {
        return (const unsigned char *)from;
    }
    struct vr_memory_part part = {from, to, bytes};
    return vr_os_memory_copy(&part, 1) ? to : NULL;
}

/* The same of a structure. */
static const unsigned char *object_get(const struct reader *reader, uintptr_t from, void *to,
                                       size_t bytes) {
    return from && from % sizeof from == 0 ? bytes_get(reader, from, to, bytes) : NULL;
}

static uintptr_t word_at(const unsigned char *bytes, size_t offset) {
    uintptr_t word;
    memcpy(&word, bytes + offset, sizeof word);
    return word;
}

static int32_t number_at(const unsigned char *bytes, size_t offset) {
    int32_t number;
    memcpy(&number, bytes + offset, sizeof number);
    return number;
}

static bool word_get(const struct reader *reader, uintptr_t from, uintptr_t *word) {
    unsigned char copy[sizeof *word];
    const unsigned char *at = object_get(reader, from, copy, sizeof copy);
    if (at) {
        *word = word_at(at, 0);
    }
    return at != NULL;
}

/* Of every object of variable size, and of a string. */
enum {
    OBJECT_TYPE = 8,
    OBJECT_SIZE = 16,
    TEXT_HASH = 24,
    TEXT_STATE = 32,
    TEXT_HEAD = 40,
    BYTES_DATA = 32,
    TYPE_FLAGS = 168,
    FLAG_OF_TEXTS = 28 /* bit: of the type of strings, and of classes that are made of it */
};

/* Keeps (5). */
static const unsigned char *typed_get(const struct reader *reader, uintptr_t object, uintptr_t type,
                                      unsigned char *to, size_t bytes) {
    const unsigned char *at = object_get(reader, object, to, bytes);
    return at && word_at(at, OBJECT_TYPE) == type ? at : NULL;
}

/* --------------------------------------------------------------------- places */

/* Characters, or the bytes of a table of lines. */
struct span {
    uintptr_t from;
    uint64_t count;
    unsigned width; /* bytes of each */
    unsigned utf8;  /* of each in UTF-8, at most */
    int64_t hash;   /* the interpreter's, of 64 bits; -1: not made yet */
};

/* Where a frame is. */
struct place {
    struct span file, name, lines;
    int64_t first; /* line of the function */
    int64_t at;    /* bytes from its first instruction */
};

/* The beginning of an object that a code object refers to. */
struct head {
    uintptr_t object, type;
    size_t bytes;
    const unsigned char *at;
    unsigned char copy[TEXT_HEAD];
};

static void head_begin(struct head *head, uintptr_t object, uintptr_t type, size_t bytes) {
    head->object = object;
    head->type = type;
    head->bytes = bytes;
}

/* By the kernel: all at once. */
static bool heads_copy(struct head *heads, unsigned count) {
    struct vr_memory_part parts[VR_MEMORY_PARTS];
    for (unsigned i = 0; i < count; i++) {
        parts[i] = (struct vr_memory_part){heads[i].object, heads[i].copy, heads[i].bytes};
    }
    return vr_os_memory_copy(parts, count);
}

/* Keeps (5). By the kernel: it may be any object. */
static bool is_text(const struct reader *reader, const struct head *head) {
    const struct reader careful = {reader->python, false};
    uintptr_t flags;
    return head->type == reader->python->text_type &&
           word_get(&careful, word_at(head->at, OBJECT_TYPE) + TYPE_FLAGS, &flags) &&
           flags >> FLAG_OF_TEXTS & 1;
}

/* Keeps (5). */
static bool heads_get(const struct reader *reader, struct head *heads, unsigned count) {
    bool good = true;
    for (unsigned i = 0; i < count && good; i++) {
        good = heads[i].object && heads[i].object % sizeof heads[i].object == 0;
    }
    good = good && (reader->direct || heads_copy(heads, count));
    for (unsigned i = 0; i < count && good; i++) {
        struct head *head = &heads[i];
        head->at = reader->direct ? (const unsigned char *)head->object : head->copy;
        good = word_at(head->at, OBJECT_TYPE) == head->type || is_text(reader, head);
    }
    return good;
}

static bool text_find(const struct reader *reader, const struct head *head, struct span *text) {
    const struct vr_python_layout *layout = &reader->python->layout;
    uint32_t state = (uint32_t)number_at(head->at, TEXT_STATE);
    bool compact = state >> 5 & 1, ascii = state >> 6 & 1;
    *text = (struct span){head->object + (ascii ? layout->text_ascii : layout->text_wide),
                          word_at(head->at, OBJECT_SIZE), state >> 2 & 7, 0,
                          (int64_t)word_at(head->at, TEXT_HASH)};
    text->utf8 = ascii ? 1 : text->width == 4 ? 4 : text->width + 1;
    return (compact || word_get(reader, head->object + layout->text_wide, &text->from)) &&
           (text->width == 1 || text->width == 2 || text->width == 4) && text->count < LINES_MOST;
}

static bool lines_find(const struct head *head, struct span *lines) {
    *lines = (struct span){head->object + BYTES_DATA, word_at(head->at, OBJECT_SIZE), 1, 0, -1};
    return lines->count < LINES_MOST;
}

static bool place_of(const struct reader *reader, uintptr_t code, struct place *place) {
    const struct vr_python *python = reader->python;
    const struct vr_python_layout *layout = &python->layout;
    unsigned char copy[STRUCT];
    const unsigned char *body =
        typed_get(reader, code, python->code_type, copy, layout->code_bytes);
    if (!body) {
        return false;
    }
    place->first = number_at(body, layout->code_first);
    if (layout->code_instructions) {
        place->at -= (int64_t)(code + layout->code_instructions);
        if (place->at >= 2 * (int64_t)word_at(body, OBJECT_SIZE)) {
            return false;
        }
    }
    struct head heads[3]; /* what is copied is not cleared first */
    head_begin(&heads[0], word_at(body, layout->code_file), python->text_type, TEXT_HEAD);
    head_begin(&heads[1], word_at(body, layout->code_name), python->text_type, TEXT_HEAD);
    head_begin(&heads[2], word_at(body, layout->code_lines), python->bytes_type, BYTES_DATA);
    return heads_get(reader, heads, sizeof heads / sizeof heads[0]) &&
           text_find(reader, &heads[0], &place->file) &&
           text_find(reader, &heads[1], &place->name) && lines_find(&heads[2], &place->lines);
}

static bool span_hash(const struct reader *reader, const struct span *span, int64_t *hash) {
    unsigned char piece[PIECE];
    *hash = span->hash;
    if (*hash != -1) {
        return true;
    }
    for (uint64_t left = span->count * span->width, at = 0; left > 0;) {
        size_t bytes = left < PIECE ? (size_t)left : PIECE;
        const unsigned char *here = bytes_get(reader, span->from + at, piece, bytes);
        if (!here) {
            return false;
        }
        *hash = (int64_t)vr_xxh64(here, bytes, (uint64_t)*hash);
        at += bytes;
        left -= bytes;
    }
    return true;
}

/* Keeps (7); never 0. */
static bool place_hash(const struct reader *reader, const struct place *place, uint64_t *hash) {
    int64_t parts[5] = {place->first, place->at};
    if (!span_hash(reader, &place->file, &parts[2]) ||
        !span_hash(reader, &place->name, &parts[3]) ||
        !span_hash(reader, &place->lines, &parts[4])) {
        return false;
    }
    *hash = vr_xxh64(parts, sizeof parts, 0) | 1;
    return true;
}

/* ---------------------------------------------------------------------- lines */

/* The bytes of a table of lines, one after another. */
struct cursor {
    const struct reader *reader;
    struct span left;
    const unsigned char *at, *end;
    unsigned char piece[256];
};

/* -1: the table has ended. */
static int cursor_next(struct cursor *cursor) {
    if (cursor->at == cursor->end) {
        struct span *left = &cursor->left;
        size_t bytes = left->count < sizeof cursor->piece ? left->count : sizeof cursor->piece;
        cursor->at = bytes ? bytes_get(cursor->reader, left->from, cursor->piece, bytes) : NULL;
        if (!cursor->at) {
            cursor->end = NULL;
            left->count = 0;
            return -1;
        }
        cursor->end = cursor->at + bytes;
        left->from += bytes;
        left->count -= bytes;
    }
    return *cursor->at++;
}

/* 3.9 and 3.10: each entry has a step in bytes and one in lines. Before 3.10 the first is before
   the line's first instruction, since then it ends a range, and a step of -128 lines is a range
   without a line. */
static int64_t line_by_steps(struct cursor *cursor, int64_t line, int64_t at, bool ranges) {
    int64_t end = 0;
    int bytes, lines;
    while ((bytes = cursor_next(cursor)) >= 0 && (lines = cursor_next(cursor)) >= 0) {
        int step = lines < 128 ? lines : lines - 256;
        bool none = ranges && step == -128;
        end += bytes;
        if (!ranges && end > at) {
            return line;
        }
        line += none ? 0 : step;
        if (ranges && end > at) {
            return none ? 0 : line;
        }
    }
    return ranges ? 0 : line;
}

/* Six bits at a time, the lowest first; the lowest of all is the sign. */
static int64_t signed_next(struct cursor *cursor) {
    uint64_t value = 0;
    int byte;
    unsigned shift = 0;
    do {
        byte = cursor_next(cursor);
        value |= byte < 0 ? 0 : (uint64_t)(byte & 63) << shift;
        shift += 6;
    } while (byte >= 0 && byte & 64 && shift < 60);
    return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

/* From 3.11 on: the first byte of an entry has the highest bit set, a code and the length of its
   range; what follows has columns, mostly. */
static int64_t line_by_locations(struct cursor *cursor, int64_t line, int64_t at) {
    enum { NONE = 15, LONG = 14, NO_COLUMNS = 13, ONE_LINE = 10 };
    int64_t end = 0;
    for (int byte = cursor_next(cursor); byte >= 0;) {
        int code = byte >> 3 & 15;
        end += 2 * ((byte & 7) + 1);
        line += code == LONG || code == NO_COLUMNS ? signed_next(cursor)
                : code >= ONE_LINE && code != NONE ? code - ONE_LINE
                                                   : 0;
        if (end > at) {
            return code == NONE ? 0 : line;
        }
        do {
            byte = cursor_next(cursor);
        } while (byte >= 0 && byte < 128);
    }
    return 0;
}

/* 0: the instruction has none. */
static int64_t line_of(const struct reader *reader, const struct place *place) {
    struct cursor cursor = {.reader = reader, .left = place->lines};
    enum vr_python_lines lines = reader->python->layout.lines;
    return lines == VR_PYTHON_LOCATIONS
               ? line_by_locations(&cursor, place->first, place->at)
               : line_by_steps(&cursor, place->first, place->at, lines == VR_PYTHON_RANGES);
}

/* ---------------------------------------------------------------------- texts */

/* Writes a character in UTF-8; what would break a line, or is no character, is a question mark. */
static size_t character_write(uint32_t character, char *to) {
    if (character < 128) {
        to[0] = character < 32 || character == 127 ? '?' : (char)character;
        return 1;
    }
    if (character >> 11 == 27 || character > 0x10FFFF) { /* half of a pair */
        to[0] = '?';
        return 1;
    }
    size_t bytes = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    for (size_t i = bytes; i-- > 1; character >>= 6) {
        to[i] = (char)(128 | (character & 63));
    }
    to[0] = (char)((0xF00u >> bytes & 0xFF) | character);
    return bytes;
}

/* The beginning of a text, or its end if `tail`: as much as fits. False: its memory is gone. */
static bool text_write(const struct reader *reader, const struct span *text, bool tail, char *to,
                       size_t capacity) {
    unsigned char piece[PIECE];
    size_t most = (capacity - 4) / text->utf8, used = 0;
    size_t count = text->count < most ? (size_t)text->count : most;
    uint64_t first = tail ? text->count - count : 0;
    const unsigned char *at =
        count ? bytes_get(reader, text->from + first * text->width, piece, count * text->width)
              : piece;
    if (!at) {
        return false;
    }
    if (first) {
        memcpy(to, "...", used = 3);
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t character = 0;
        memcpy(&character, at + i * text->width, text->width); /* little-endian, as both are */
        used += character_write(character, to + used);
    }
    to[used] = 0;
    return true;
}

/* "function (file.py:42)"; of a long path the end. */
static bool place_write(const struct reader *reader, const struct place *place,
                        char text[VR_FRAME_TEXT]) {
    enum { NAME = 96, LINE = 24 };
    char name[NAME], file[VR_FRAME_TEXT], line[LINE] = "";
    int64_t number = line_of(reader, place);
    if (!text_write(reader, &place->name, false, name, sizeof name) ||
        !text_write(reader, &place->file, true, file, VR_FRAME_TEXT - LINE - strlen(name))) {
        return false;
    }
    if (number > 0) {
        (void)vr_text_format(line, sizeof line, ":%lld", (long long)number);
    }
    return vr_text_format(text, VR_FRAME_TEXT, "%s (%s%s)", name, file, line);
}

enum found {
    FOUND,
    SKIPPED, /* a frame without Python code */
    UNNAMED, /* memory ran out */
    BROKEN   /* memory is gone, or has something else */
};

static enum found place_name(const struct reader *reader, const struct place *place,
                             uint64_t *frame) {
    char text[VR_FRAME_TEXT];
    uint64_t hash;
    if (!place_hash(reader, place, &hash)) {
        return BROKEN;
    }
    *frame = vr_frame_name_find(hash);
    if (!*frame) {
        if (!place_write(reader, place, text)) {
            return BROKEN;
        }
        *frame = vr_frame_name_add(hash, text);
    }
    return *frame ? FOUND : UNNAMED;
}

/* ----------------------------------------------------------------------- walk */

/* Reads the frame at *at, and sets *at to its caller's. */
static enum found frame_read(const struct reader *reader, uintptr_t *at, uint64_t *name) {
    enum { OF_C_CODE = 3, TAGS = 3 };
    const struct vr_python_layout *layout = &reader->python->layout;
    unsigned char copy[STRUCT];
    struct place place;
    const unsigned char *frame =
        layout->frame_object
            ? typed_get(reader, *at, reader->python->frame_type, copy, layout->frame_bytes)
            : object_get(reader, *at, copy, layout->frame_bytes);
    if (!frame) {
        return BROKEN;
    }
    *at = word_at(frame, layout->frame_previous);
    if (layout->frame_owner && frame[layout->frame_owner] >= OF_C_CODE) {
        return SKIPPED;
    }
    place.at = layout->code_instructions ? (int64_t)word_at(frame, layout->frame_instruction)
                                         : (int64_t)number_at(frame, layout->frame_instruction) *
                                               layout->instruction_bytes;
    if (!place_of(reader, word_at(frame, layout->frame_code) & ~(uintptr_t)TAGS, &place)) {
        return BROKEN;
    }
    /* It has not begun, or is the interpreter's own around an __init__: without any lines. */
    if (place.at < 0 || (layout->lines == VR_PYTHON_LOCATIONS && place.lines.count == 1)) {
        return SKIPPED;
    }
    return place_name(reader, &place, name);
}

/* Where the calling thread's innermost frame is; *at 0: there is none. False: unknown. */
static bool first_find(const struct reader *reader, uintptr_t *at) {
    const struct vr_python_layout *layout = &reader->python->layout;
    uintptr_t thread = (uintptr_t)reader->python->thread_state(), owner;
    uintptr_t only = (uintptr_t)reader->python->interpreter_first();
    *at = 0;
    if (!thread || !only || only != (uintptr_t)reader->python->interpreter_latest() ||
        reader->python->is_finalizing()) { /* keeps (3) and (6) */
        return true;
    }
    return word_get(reader, thread + layout->thread_interpreter, &owner) && owner == only &&
           word_get(reader, thread + layout->thread_frame, at) &&
           (!layout->frame_between || !*at || word_get(reader, *at + layout->between, at));
}

static enum found frames_walk(const struct reader *reader, uint64_t *frames, uint32_t capacity,
                              uint32_t *count) {
    enum found found = FOUND;
    uintptr_t at;
    if (!first_find(reader, &at)) {
        return BROKEN;
    }
    for (uint32_t steps = 0; at && *count < capacity && steps < 4 * capacity; steps++) {
        found = frame_read(reader, &at, &frames[*count]);
        if (found > SKIPPED) {
            return found;
        }
        *count += found == FOUND;
    }
    return *count ? FOUND : SKIPPED;
}

uint32_t vr_python_frames(const struct vr_python *python, uint64_t *frames, uint32_t capacity) {
    static vr_atomic_bool trusted; /* keeps (4) */
    bool known = vr_load(&trusted, VR_RELAXED);
    struct reader reader = {python, known && (vr_os_thread_is_first() || python->is_locked())};
    uint32_t count = 0;
    enum found found = frames_walk(&reader, frames, capacity, &count);
    if (!known && found == FOUND) {
        vr_store(&trusted, true, VR_RELAXED);
    } else if (!known && found == BROKEN) {
        vr_python_reject();
    }
    return found == FOUND ? count : 0;
}

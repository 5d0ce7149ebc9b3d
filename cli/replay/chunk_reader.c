/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chunk_reader.c: see chunk_reader.h.
 */
#include "chunk_reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADER_USED = 112, /* bytes of a header that mean something */
    HEAD_BYTES = 48,   /* before a chunk's records */
    AT_SEAL = 8,
    AT_SEQUENCE = 16
};

#define RING_MAX    (UINT64_C(256) << 20)
#define SEAL_MARK   UINT64_C(0x80A5)
#define SEAL_VOID   UINT64_MAX
#define END_ENDED   UINT64_C(0x80A50001)
#define END_STOPPED UINT64_C(0x80A50002)

uint32_t chunk_crc(const uint8_t *data, size_t bytes) {
    static uint32_t table[256];
    uint32_t crc = UINT32_MAX;
    for (uint32_t i = 0; table[255] == 0 && i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++) {
            value = value >> 1 ^ (value & 1 ? UINT32_C(0xEDB88320) : 0);
        }
        table[i] = value;
    }
    for (size_t i = 0; i < bytes; i++) {
        crc = crc >> 8 ^ table[(crc ^ data[i]) & 255];
    }
    return ~crc;
}

static uint64_t get(const uint8_t *from, unsigned bytes) {
    uint64_t value = 0;
    for (unsigned i = bytes; i-- > 0;) {
        value = value << 8 | from[i];
    }
    return value;
}

static bool refuse(struct chunk_reader *reader, uint64_t offset, const char *problem) {
    snprintf(reader->problem, sizeof reader->problem, "%s", problem);
    reader->problem_at = offset;
    return false;
}

/* Up to `bytes` bytes; *got is less only at the end of the file. */
static bool read_bytes(struct chunk_reader *reader, uint8_t *to, size_t bytes, size_t *got) {
    *got = 0;
    while (*got < bytes) {
        size_t some = bytes - *got;
        if (!trace_source_read(reader->source, to + *got, &some)) {
            return refuse(reader, reader->offset, reader->source->problem);
        }
        if (some == 0) {
            break;
        }
        *got += some;
        reader->offset += some;
    }
    return true;
}

/* -------------------------------------------------------------------- header */

static bool check_layout(struct chunk_reader *reader) {
    uint32_t chunk = reader->chunk_bytes;
    bool good = reader->header_bytes >= HEADER_USED && reader->header_bytes <= 65536 &&
                chunk >= 4096 && chunk <= 65536 && (chunk & (chunk - 1)) == 0 &&
                (uint64_t)reader->slots * chunk <= RING_MAX && reader->slots != 1;
    return good || refuse(reader, 12, "the size of the header, the chunks or the ring is invalid");
}

/* How it ended. 0 in the place of the seal: it has not. */
static bool read_end(struct chunk_reader *reader, const uint8_t *header) {
    uint64_t seal = get(header + 64, 8), mark = seal & UINT32_MAX;
    if (seal == 0) {
        return true;
    }
    if ((mark != END_ENDED && mark != END_STOPPED) ||
        seal >> 32 != chunk_crc(header + 72, HEADER_USED - 72)) {
        return refuse(reader, 64, "the end is damaged: its CRC does not match");
    }
    reader->ended = true;
    reader->stopped = mark == END_STOPPED;
    reader->events = get(header + 72, 8);
    reader->lost = get(header + 80, 8);
    reader->chunks = get(header + 88, 8);
    reader->end_ns = get(header + 96, 8);
    reader->file_bytes = get(header + 104, 8);
    return true;
}

static bool read_header(struct chunk_reader *reader) {
    uint8_t header[HEADER_USED], rest[512];
    size_t got;
    if (!read_bytes(reader, header, sizeof header, &got)) {
        return false;
    }
    if (got < RECORDING_MAGIC_BYTES ||
        memcmp(header, RECORDING_MAGIC, RECORDING_MAGIC_BYTES) != 0) {
        return refuse(reader, 0, "this is not a trace of libvram");
    }
    if (got < sizeof header) {
        return refuse(reader, got, "the file ends inside its header");
    }
    if (get(header + 8, 4) != 1) {
        char text[CHUNK_PROBLEM_MAX];
        snprintf(text, sizeof text,
                 "format version %" PRIu64 " is not supported; this command reads 1",
                 get(header + 8, 4));
        return refuse(reader, 8, text);
    }
    if (get(header + 52, 4) != chunk_crc(header, 52)) {
        return refuse(reader, 0, "the header is damaged: its CRC does not match");
    }
    reader->header_bytes = (uint32_t)get(header + 12, 4);
    reader->chunk_bytes = (uint32_t)get(header + 16, 4);
    reader->slots = (uint32_t)get(header + 20, 4);
    reader->date_ns = get(header + 24, 8);
    reader->process = get(header + 32, 8);
    if (!check_layout(reader) || !read_end(reader, header)) {
        return false;
    }
    for (uint32_t left = reader->header_bytes - HEADER_USED; left > 0 && got > 0;) {
        size_t some = left < sizeof rest ? left : sizeof rest;
        if (!read_bytes(reader, rest, some, &got)) {
            return false;
        }
        left -= (uint32_t)some;
    }
    return true;
}

/* -------------------------------------------------------------------- chunks */

enum chunk_state { CHUNK_NONE, CHUNK_VOID, CHUNK_OPEN, CHUNK_SEALED, CHUNK_TORN, CHUNK_WRONG };

/* What the bytes at `offset` of the file are: `got` of them are there. */
static enum chunk_state look(struct chunk_reader *reader, const uint8_t *chunk, size_t got,
                             uint64_t offset, struct chunk_view *view) {
    static const uint8_t zeros[HEAD_BYTES];
    if (got < HEAD_BYTES) {
        return got > 0 ? CHUNK_TORN : CHUNK_NONE;
    }
    if (memcmp(chunk, zeros, HEAD_BYTES) == 0) {
        return CHUNK_NONE;
    }
    uint64_t seal = get(chunk + AT_SEAL, 8);
    if (seal == SEAL_VOID) {
        return CHUNK_VOID;
    }
    if (memcmp(chunk, "VRTC", 4) != 0) {
        refuse(reader, offset, "no chunk begins here");
        return CHUNK_WRONG;
    }
    view->sequence = get(chunk + AT_SEQUENCE, 8);
    view->time_ns = get(chunk + 24, 8);
    view->live_blocks = get(chunk + 32, 8);
    view->live_bytes = get(chunk + 40, 8);
    view->records = chunk + HEAD_BYTES;
    view->offset = offset + HEAD_BYTES;
    view->bytes = got - HEAD_BYTES;
    view->whole = false;
    if (seal == 0) {
        return CHUNK_OPEN;
    }
    size_t bytes = (size_t)(seal & 0xFFFF);
    if ((seal >> 16 & 0xFFFF) != SEAL_MARK || bytes > reader->chunk_bytes - HEAD_BYTES) {
        refuse(reader, offset + AT_SEAL, "the seal of the chunk is damaged");
        return CHUNK_WRONG;
    }
    if (bytes > view->bytes) {
        return CHUNK_TORN;
    }
    if (seal >> 32 != chunk_crc(chunk + AT_SEQUENCE, HEAD_BYTES - AT_SEQUENCE + bytes)) {
        refuse(reader, offset, "the chunk is damaged: its CRC does not match");
        return CHUNK_WRONG;
    }
    view->bytes = bytes;
    view->whole = true;
    return CHUNK_SEALED;
}

/* Behind a chunk that is the last because it is not whole there may be room, but no other chunk. A
   file that is as long as it says has not been cut, so it is damaged. */
static bool must_end(struct chunk_reader *reader, uint64_t offset) {
    uint8_t some[4096];
    size_t got = sizeof some;
    reader->last = reader->cut = true;
    if (reader->ended && reader->file_bytes == reader->offset) {
        return refuse(reader, offset,
                      "the chunk is damaged: it is incomplete, but the file is complete");
    }
    while (got > 0) {
        if (!read_bytes(reader, some, sizeof some, &got)) {
            return false;
        }
        for (size_t i = 0; i < got; i++) {
            if (some[i] != 0) {
                return refuse(reader, offset, "the chunk was never finished, and another follows");
            }
        }
    }
    return true;
}

static bool next_of_file(struct chunk_reader *reader, struct chunk_view *view, bool *there) {
    uint64_t offset = reader->offset;
    size_t got;
    *there = false;
    if (reader->last) {
        return true;
    }
    if (!read_bytes(reader, reader->memory, reader->chunk_bytes, &got)) {
        return false;
    }
    enum chunk_state state = look(reader, reader->memory, got, offset, view);
    if (state == CHUNK_WRONG) {
        return false;
    }
    if (state == CHUNK_NONE && got == 0) {
        reader->last = true;
        reader->cut = reader->cut || !reader->ended || reader->chunks != reader->next;
        return true;
    }
    bool readable =
        state == CHUNK_SEALED || state == CHUNK_OPEN || (state == CHUNK_TORN && got >= HEAD_BYTES);
    if (readable && view->sequence != reader->next) {
        return refuse(reader, offset + AT_SEQUENCE, "the chunk is out of order");
    }
    reader->next += readable;
    *there = readable;
    return state == CHUNK_SEALED || must_end(reader, offset);
}

/* --------------------------------------------------------------------- rings */

static bool load_ring(struct chunk_reader *reader) {
    size_t whole = (size_t)reader->slots * reader->chunk_bytes, capacity = 0, got = 1;
    while (got > 0 && reader->memory_bytes < whole) {
        if (reader->memory_bytes == capacity) {
            capacity = capacity > 0 ? capacity * 2 : 1 << 20;
            capacity = capacity < whole ? capacity : whole;
            uint8_t *memory = realloc(reader->memory, capacity);
            if (memory == NULL) {
                return refuse(reader, reader->offset, "out of host memory");
            }
            reader->memory = memory;
        }
        if (!read_bytes(reader, reader->memory + reader->memory_bytes,
                        capacity - reader->memory_bytes, &got)) {
            return false;
        }
        reader->memory_bytes += got;
    }
    return true;
}

static size_t ring_bytes(const struct chunk_reader *reader, uint32_t slot) {
    size_t at = (size_t)slot * reader->chunk_bytes;
    size_t left = at < reader->memory_bytes ? reader->memory_bytes - at : 0;
    return left < reader->chunk_bytes ? left : reader->chunk_bytes;
}

static const uint8_t *ring_chunk(const struct chunk_reader *reader, uint32_t slot) {
    return reader->memory + (size_t)slot * reader->chunk_bytes;
}

/* The chunk of a slot, if it can be read. */
static bool look_slot(struct chunk_reader *reader, uint32_t slot, struct chunk_view *view,
                      enum chunk_state *state) {
    uint64_t offset = reader->header_bytes + (uint64_t)slot * reader->chunk_bytes;
    size_t got = ring_bytes(reader, slot);
    *state = got > 0 ? look(reader, ring_chunk(reader, slot), got, offset, view) : CHUNK_NONE;
    if (*state == CHUNK_WRONG) {
        return false;
    }
    bool readable = *state == CHUNK_SEALED || *state == CHUNK_OPEN;
    if (readable && view->sequence % reader->slots != slot) {
        return refuse(reader, offset + AT_SEQUENCE, "the chunk is in the wrong place");
    }
    return true;
}

static uint64_t sequence_at(const struct chunk_reader *reader, uint32_t slot) {
    return get(ring_chunk(reader, slot) + AT_SEQUENCE, 8);
}

/* The slots in the order of their chunks: they go round, so the smallest is sought and the rest
   follow. */
static bool order_ring(struct chunk_reader *reader) {
    struct chunk_view view;
    enum chunk_state state;
    uint32_t first = UINT32_MAX, count = 0;
    reader->order = calloc(reader->slots, sizeof *reader->order);
    bool *there = calloc(reader->slots, sizeof *there);
    bool good = reader->order != NULL && there != NULL;
    if (!good) {
        refuse(reader, reader->offset, "out of host memory");
    }
    for (uint32_t slot = 0; good && slot < reader->slots; slot++) {
        good = look_slot(reader, slot, &view, &state);
        there[slot] = good && (state == CHUNK_SEALED || state == CHUNK_OPEN);
        reader->cut = reader->cut || state == CHUNK_TORN;
        if (there[slot]) {
            count++;
            first =
                first == UINT32_MAX || view.sequence < sequence_at(reader, first) ? slot : first;
        }
    }
    for (uint32_t i = 0; good && i < count; i++) {
        uint32_t slot = (first + i) % reader->slots;
        if (!there[slot] || sequence_at(reader, slot) != sequence_at(reader, first) + i) {
            good = refuse(reader, reader->header_bytes + (uint64_t)slot * reader->chunk_bytes,
                          "a chunk of the ring is missing here");
        }
        reader->order[i] = slot;
    }
    reader->order_count = count;
    free(there);
    return good;
}

static bool next_of_ring(struct chunk_reader *reader, struct chunk_view *view, bool *there) {
    enum chunk_state state;
    *there = reader->order_next < reader->order_count;
    if (!*there) {
        reader->cut = reader->cut || !reader->ended || reader->chunks != reader->next;
        return true;
    }
    uint32_t slot = reader->order[reader->order_next++];
    bool last = reader->order_next == reader->order_count;
    if (!look_slot(reader, slot, view, &state)) {
        return false;
    }
    reader->next = view->sequence + 1;
    if (state == CHUNK_OPEN && (!last || reader->ended)) {
        return refuse(reader, view->offset - HEAD_BYTES, "the chunk was never finished");
    }
    return true;
}

/* --------------------------------------------------------------------- reader */

bool chunk_reader_open(struct chunk_reader *reader, struct trace_source *source) {
    memset(reader, 0, sizeof *reader);
    reader->source = source;
    if (!read_header(reader)) {
        return false;
    }
    if (reader->slots > 0) {
        bool loaded = load_ring(reader);
        reader->cut = reader->ended && reader->offset < reader->file_bytes;
        return loaded && order_ring(reader);
    }
    reader->memory = malloc(reader->chunk_bytes);
    return reader->memory != NULL || refuse(reader, reader->offset, "out of host memory");
}

bool chunk_reader_next(struct chunk_reader *reader, struct chunk_view *view, bool *there) {
    return (reader->slots > 0 ? next_of_ring : next_of_file)(reader, view, there);
}

enum recording_end chunk_reader_end(const struct chunk_reader *reader) {
    return reader->cut ? RECORDING_CUT : reader->stopped ? RECORDING_STOPPED : RECORDING_ENDED;
}

void chunk_reader_close(struct chunk_reader *reader) {
    free(reader->memory);
    free(reader->order);
    reader->memory = NULL;
    reader->order = NULL;
}

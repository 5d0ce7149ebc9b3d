/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chunk_reader.c: see chunk_reader.h.
 */
#include "chunk_reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADER_1 = 112, /* bytes of a header that mean something, by version */
    HEADER_2 = 144,
    HEAD_1 = 48, /* before a chunk's records */
    HEAD_2 = 64,
    AT_SEAL = 8,
    AT_SEQUENCE = 16
};

#define RING_MAX    (UINT64_C(256) << 20)
#define RATE_MAX    UINT64_C(10000000000)
#define SEAL_MARK   UINT64_C(0x80A5)
#define SEAL_VOID   UINT64_MAX
#define END_ENDED   UINT64_C(0x80A50001)
#define END_STOPPED UINT64_C(0x80A50002)

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
    bool good = reader->header_bytes >= (reader->version == 1 ? HEADER_1 : HEADER_2) &&
                reader->header_bytes <= 65536 && chunk >= 4096 && chunk <= 65536 &&
                (chunk & (chunk - 1)) == 0 && (uint64_t)reader->slots * chunk <= RING_MAX &&
                reader->slots != 1;
    return good || refuse(reader, 12, "the size of the header, the chunks or the ring is invalid");
}

/* How it ended. 0 in the place of the seal: it has not. */
static bool read_end(struct chunk_reader *reader, const uint8_t *header) {
    uint64_t seal = get(header + 64, 8), mark = seal & UINT32_MAX;
    size_t bytes = reader->version == 1 ? 40 : 48;
    if (seal == 0) {
        reader->rate = reader->version == 1 ? 1000000000 : get(header + 128, 8);
        reader->lost = reader->version == 1 ? 0 : get(header + 136, 8);
        return true;
    }
    if ((mark != END_ENDED && mark != END_STOPPED) || seal >> 32 != chunk_crc(header + 72, bytes)) {
        return refuse(reader, 64, "the end is damaged: its CRC does not match");
    }
    reader->ended = true;
    reader->stopped = mark == END_STOPPED;
    reader->events = get(header + 72, 8);
    reader->lost = get(header + 80, 8);
    reader->chunks = get(header + 88, 8);
    reader->end_ticks = get(header + 96, 8);
    reader->file_bytes = get(header + 104, 8);
    reader->rate = reader->version == 1 ? 1000000000 : get(header + 112, 8);
    return true;
}

static bool read_numbers(struct chunk_reader *reader, const uint8_t *header) {
    reader->head_bytes = reader->version == 1 ? HEAD_1 : HEAD_2;
    reader->header_bytes = (uint32_t)get(header + 12, 4);
    reader->chunk_bytes = (uint32_t)get(header + 16, 4);
    reader->slots = (uint32_t)get(header + 20, 4);
    reader->date_ns = get(header + 24, 8);
    reader->process = get(header + 32, 8);
    if (!check_layout(reader) || !read_end(reader, header)) {
        return false;
    }
    return (reader->rate > 0 && reader->rate <= RATE_MAX) ||
           refuse(reader, reader->ended ? 112 : 128, "the rate of the clock is invalid");
}

static bool check_version(struct chunk_reader *reader, const uint8_t *header) {
    char text[CHUNK_PROBLEM_MAX];
    reader->version = (uint32_t)get(header + 8, 4);
    if (reader->version == 1 || reader->version == 2) {
        return true;
    }
    snprintf(text, sizeof text,
             "format version %" PRIu32 " is not supported; this command reads 1 and 2",
             reader->version);
    return refuse(reader, 8, text);
}

static bool skip_bytes(struct chunk_reader *reader, size_t left) {
    uint8_t rest[512];
    for (size_t got = 1; left > 0 && got > 0;) {
        size_t some = left < sizeof rest ? left : sizeof rest;
        if (!read_bytes(reader, rest, some, &got)) {
            return false;
        }
        left -= some;
    }
    return true;
}

static bool read_header(struct chunk_reader *reader) {
    uint8_t header[HEADER_2];
    size_t got, more = 0;
    if (!read_bytes(reader, header, HEADER_1, &got)) {
        return false;
    }
    if (got < RECORDING_MAGIC_BYTES ||
        memcmp(header, RECORDING_MAGIC, RECORDING_MAGIC_BYTES) != 0) {
        return refuse(reader, 0, "this is not a trace of libvram");
    }
    if (got < HEADER_1) {
        return refuse(reader, got, "the file ends inside its header");
    }
    if (!check_version(reader, header)) {
        return false;
    }
    if (get(header + 52, 4) != chunk_crc(header, 52)) {
        return refuse(reader, 0, "the header is damaged: its CRC does not match");
    }
    if (reader->version == 2) {
        if (!read_bytes(reader, header + HEADER_1, HEADER_2 - HEADER_1, &more)) {
            return false;
        }
        if (more < HEADER_2 - HEADER_1) {
            return refuse(reader, got + more, "the file ends inside its header");
        }
    }
    return read_numbers(reader, header) &&
           skip_bytes(reader, reader->header_bytes - (size_t)reader->offset);
}

/* -------------------------------------------------------------------- chunks */

enum chunk_state { CHUNK_NONE, CHUNK_VOID, CHUNK_OPEN, CHUNK_SEALED, CHUNK_TORN, CHUNK_WRONG };

static void read_head(const struct chunk_reader *reader, const uint8_t *chunk,
                      struct chunk_view *view) {
    view->sequence = get(chunk + AT_SEQUENCE, 8);
    view->begin = get(chunk + 24, 8);
    view->gone_blocks = (int64_t)get(chunk + 32, 8);
    view->gone_bytes = (int64_t)get(chunk + 40, 8);
    view->gone_chunks = view->sequence; /* version 1: of the first chunk there is */
    if (reader->version == 2) {
        view->shard = (uint32_t)get(chunk + 4, 4);
        view->gone_until = get(chunk + 48, 8);
        view->gone_chunks = get(chunk + 56, 8);
    }
}

static bool is_sound(const struct chunk_reader *reader, const uint8_t *chunk, uint64_t seal) {
    size_t bytes = reader->head_bytes - AT_SEQUENCE + (size_t)(seal & 0xFFFF);
    uint32_t sum = reader->version == 1
                       ? chunk_crc(chunk + AT_SEQUENCE, bytes)
                       : (uint32_t)chunk_xxh64(chunk + AT_SEQUENCE, bytes, get(chunk + 4, 4));
    return seal >> 32 == sum;
}

/* What the bytes at `offset` of the file are: `got` of them are there. */
static enum chunk_state look(struct chunk_reader *reader, const uint8_t *chunk, size_t got,
                             uint64_t offset, struct chunk_view *view) {
    static const uint8_t zeros[HEAD_2];
    size_t head = reader->head_bytes;
    if (got < head) {
        return got > 0 ? CHUNK_TORN : CHUNK_NONE;
    }
    if (memcmp(chunk, zeros, head) == 0) {
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
    *view =
        (struct chunk_view){.records = chunk + head, .offset = offset + head, .bytes = got - head};
    read_head(reader, chunk, view);
    if (view->shard >= CHUNK_SHARDS_MAX) {
        refuse(reader, offset + 4, "the chunk's shard is out of range");
        return CHUNK_WRONG;
    }
    if (seal == 0) {
        return CHUNK_OPEN;
    }
    size_t bytes = (size_t)(seal & 0xFFFF);
    if ((seal >> 16 & 0xFFFF) != SEAL_MARK || bytes > reader->chunk_bytes - head) {
        refuse(reader, offset + AT_SEAL, "the seal of the chunk is damaged");
        return CHUNK_WRONG;
    }
    if (bytes > view->bytes) {
        return CHUNK_TORN;
    }
    if (!is_sound(reader, chunk, seal)) {
        refuse(reader, offset, "the chunk is damaged: its checksum does not match");
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

/* The file has ended. */
static bool end_of_file(struct chunk_reader *reader) {
    reader->last = true;
    reader->cut = reader->cut || !reader->ended || reader->chunks != reader->found;
    return true;
}

/* What follows a chunk that is not sealed: in version 1 nothing, in version 2 chunks of other
   shards, unless this one was cut off. */
static bool after_unsealed(struct chunk_reader *reader, uint64_t offset, enum chunk_state state) {
    if (reader->version == 1 || state == CHUNK_TORN) {
        return must_end(reader, offset);
    }
    reader->cut = true;
    return !reader->ended || reader->file_bytes != reader->offset ||
           refuse(reader, offset, "the chunk was never finished, but the trace has ended");
}

/* Chunks are begun one after the other. */
static bool check_order(struct chunk_reader *reader, uint64_t offset,
                        const struct chunk_view *view) {
    if (reader->version == 2 && reader->found > 0 && view->begin <= reader->last_begin) {
        return refuse(reader, offset + 24, "the chunk begins before the one in front of it");
    }
    reader->last_begin = view->begin;
    reader->found++;
    return true;
}

/* The chunk in the next place of the file; *there is false for one that was never begun. */
static bool next_place(struct chunk_reader *reader, struct chunk_view *view, bool *there) {
    uint64_t offset = reader->offset;
    size_t got;
    if (reader->memory == NULL && (reader->memory = malloc(reader->chunk_bytes)) == NULL) {
        return refuse(reader, reader->offset, "out of host memory");
    }
    if (!read_bytes(reader, reader->memory, reader->chunk_bytes, &got)) {
        return false;
    }
    enum chunk_state state = look(reader, reader->memory, got, offset, view);
    if (state == CHUNK_WRONG) {
        return false;
    }
    if (state == CHUNK_NONE && got == 0) {
        return end_of_file(reader);
    }
    if ((state == CHUNK_NONE || state == CHUNK_VOID) && reader->version == 2) {
        reader->next++;
        return true;
    }
    bool readable = state == CHUNK_SEALED || state == CHUNK_OPEN ||
                    (state == CHUNK_TORN && got >= reader->head_bytes);
    if (readable && view->sequence != reader->next) {
        return refuse(reader, offset + AT_SEQUENCE, "the chunk is out of order");
    }
    if (readable && !check_order(reader, offset, view)) {
        return false;
    }
    reader->next += readable;
    *there = readable;
    return state == CHUNK_SEALED || after_unsealed(reader, offset, state);
}

static bool next_of_file(struct chunk_reader *reader, struct chunk_view *view, bool *there) {
    *there = false;
    while (!*there && !reader->last) {
        if (!next_place(reader, view, there)) {
            return false;
        }
    }
    if (*there) {
        view->memory = reader->memory;
        reader->memory = NULL;
    }
    return true;
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
    if (readable && reader->version == 1 && view->sequence % reader->slots != slot) {
        return refuse(reader, offset + AT_SEQUENCE, "the chunk is in the wrong place");
    }
    return true;
}

static uint64_t sequence_at(const struct chunk_reader *reader, uint32_t slot) {
    return get(ring_chunk(reader, slot) + AT_SEQUENCE, 8);
}

/* Sorts by sequence: few are out of place, since slots are mostly used one after the other. */
static void order_insert(struct chunk_reader *reader, uint32_t slot) {
    uint32_t at = reader->order_count++;
    uint64_t sequence = sequence_at(reader, slot);
    for (; at > 0 && sequence_at(reader, reader->order[at - 1]) > sequence; at--) {
        reader->order[at] = reader->order[at - 1];
    }
    reader->order[at] = slot;
}

static bool order_check(struct chunk_reader *reader) {
    for (uint32_t i = 1; i < reader->order_count; i++) {
        uint32_t slot = reader->order[i];
        uint64_t before = sequence_at(reader, reader->order[i - 1]);
        uint64_t now = sequence_at(reader, slot);
        if (now == before || (reader->version == 1 && now != before + 1)) {
            return refuse(reader, reader->header_bytes + (uint64_t)slot * reader->chunk_bytes,
                          "a chunk of the ring is missing here");
        }
    }
    return true;
}

/* The slots in the order of their chunks. */
static bool order_ring(struct chunk_reader *reader) {
    struct chunk_view view;
    enum chunk_state state;
    bool good = (reader->order = calloc(reader->slots, sizeof *reader->order)) != NULL ||
                refuse(reader, reader->offset, "out of host memory");
    for (uint32_t slot = 0; good && slot < reader->slots; slot++) {
        good = look_slot(reader, slot, &view, &state);
        reader->cut = reader->cut || state == CHUNK_TORN;
        if (good && (state == CHUNK_SEALED || state == CHUNK_OPEN)) {
            order_insert(reader, slot);
        }
    }
    if (!good || !order_check(reader)) {
        return false;
    }
    return reader->order_count == 0 ||
           look_slot(reader, reader->order[reader->version == 1 ? 0 : reader->order_count - 1],
                     &reader->gone, &state);
}

/* Of an unfinished chunk in version 1 nothing follows. */
static bool may_be_open(const struct chunk_reader *reader) {
    return !reader->ended && (reader->version == 2 || reader->order_next == reader->order_count);
}

static bool next_of_ring(struct chunk_reader *reader, struct chunk_view *view, bool *there) {
    enum chunk_state state;
    uint64_t before = reader->version == 1 ? 0 : reader->gone.gone_chunks;
    *there = reader->order_next < reader->order_count;
    if (!*there) {
        uint64_t chunks = reader->version == 1 ? reader->next : before + reader->found;
        reader->cut = reader->cut || !reader->ended || reader->chunks != chunks;
        return true;
    }
    uint32_t slot = reader->order[reader->order_next++];
    if (!look_slot(reader, slot, view, &state) ||
        !check_order(reader, view->offset - reader->head_bytes, view)) {
        return false;
    }
    reader->next = view->sequence + 1;
    if (state == CHUNK_OPEN && !may_be_open(reader)) {
        return refuse(reader, view->offset - reader->head_bytes, "the chunk was never finished");
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
    return true;
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

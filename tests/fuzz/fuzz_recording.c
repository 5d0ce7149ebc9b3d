/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_recording.c: whatever is called a trace of libvram's is refused with an offset inside of it,
 * or read to its end in time that never falls. Most changes end at a CRC, so the checksums of the
 * header and of the first chunk are made right after them, which leads into the records.
 */
#include "fuzz.h"

#include "report/advice.h"

#include <string.h>

static const char fuzz_words[] =
    " \x89VRT\r\n\x1a\n VRTC \x01\x01\x01x \x02\x02\003f() \x03\x03\x01\x02 \x08\x07 \x10\x01"
    " \x11\x01 \x17\x05\x01 \x41\x02zz \x40\x08\x01\x02\x03\x04\x05\x06\x07\x08 \xff\xff\xff\xff";

static void read_all(const uint8_t *data, size_t bytes) {
    static struct trace_source source;
    struct recording recording;
    struct recorded event;
    struct history history;
    struct advice advice[ADVICE_MAX];
    bool there = true;
    uint64_t last = 0;
    trace_source_open_memory(&source, data, bytes);
    FUZZ_EXPECT(history_begin(&history, "input"));
    bool good = recording_open(&recording, &source);
    while (good && there) {
        good = recording_next(&recording, &event, &there);
        if (good && there) {
            FUZZ_EXPECT(event.time_ns >= last);
            bool transfer = event.kind == RECORDED_TRANSFER;
            FUZZ_EXPECT(event.offset < bytes);
            FUZZ_EXPECT(event.tag != NULL && event.name != NULL && event.pool_name != NULL);
            last = transfer ? last : event.time_ns;
            if (!history_add(&history, &event)) {
                FUZZ_EXPECT(history.problem[0] != 0);
                break;
            }
            FUZZ_EXPECT(history.live_bytes <= history.peak_bytes);
            for (uint32_t i = 0; recording_frame(&recording, event.stack, i) != NULL; i++) {
                FUZZ_EXPECT(i < RECORDING_FRAMES_MAX);
            }
        }
    }
    FUZZ_EXPECT(good == (recording.problem[0] == 0));
    FUZZ_EXPECT(good || recording.problem_at <= bytes);
    history_finish(&history);
    FUZZ_EXPECT(advice_give(&history, advice) < ADVICE_MAX);
    history_free(&history);
    recording_close(&recording);
    trace_source_close(&source);
}

static void put(uint8_t *to, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) {
        to[i] = (uint8_t)(value >> 8 * i);
    }
}

/* ---------------------------------------------------------------- structure */

enum { HEADER = 512, CHUNK = 4096 };

/* Before the records of a chunk. */
static size_t head_bytes(const uint8_t *data, size_t bytes) {
    return bytes > 8 && data[8] == 2 ? 64 : 48;
}

/* Makes the seals of a file right whose header is 512 bytes long, in the version that it says. */
static size_t mend(uint8_t *data, size_t bytes, size_t capacity) {
    size_t head = head_bytes(data, bytes);
    bool second = head == 64;
    (void)capacity;
    if (bytes < HEADER + head) {
        return bytes;
    }
    uint64_t records = bytes - HEADER - head;
    records = records < CHUNK - head ? records : CHUNK - head;
    memcpy(data, RECORDING_MAGIC, 8);
    put(data + 8, second ? 2 : 1, 4);
    put(data + 12, HEADER, 4);
    put(data + 16, CHUNK, 4);
    put(data + 20, 0, 4);
    put(data + 52, chunk_crc(data, 52), 4);
    put(data + 64, 0, 8);
    uint8_t *chunk = data + HEADER;
    put(chunk + 16, 0, 8);
    memcpy(chunk, "VRTC", 4);
    size_t summed = head - 16 + (size_t)records;
    uint64_t sum =
        second ? chunk_xxh64(chunk + 16, summed, chunk[4]) : chunk_crc(chunk + 16, summed);
    put(chunk + 4, chunk[4], 4);
    put(chunk + 8, sum << 32 | UINT64_C(0x80A50000) | records, 8);
    for (size_t at = HEADER + CHUNK; second && at + head <= bytes; at += CHUNK) {
        put(data + at + 8, 0, 8); /* more shards, each unfinished */
    }
    return bytes;
}

/* Reads a number, and moves on; UINT64_MAX: it is cut off. */
static uint64_t number_take(const uint8_t *data, size_t bytes, size_t *at) {
    uint64_t value = 0;
    for (unsigned shift = 0; *at < bytes && shift < 64; shift += 7) {
        uint8_t byte = data[(*at)++];
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return value;
        }
    }
    return UINT64_MAX;
}

/* The end of the record that begins here; 0: there is none. */
static size_t record_end(const uint8_t *data, size_t bytes, size_t at) {
    /* Numbers of each kind; with 64 the last one is a length, with 128 a count of numbers. */
    static const uint8_t numbers[] = {
        [1] = 64 + 2, [2] = 64 + 2, [3] = 128 + 2, [4] = 2,     [5] = 2,
        [6] = 64 + 4, [8] = 1,      [0x10] = 9,    [0x11] = 5,  [0x12] = 7,
        [0x13] = 6,   [0x14] = 2,   [0x15] = 4,    [0x16] = 11, [0x17] = 2};
    uint8_t kind = at < bytes ? data[at++] : 0;
    uint8_t form = kind >= 0x40 ? 64 + 1 : kind < sizeof numbers ? numbers[kind] : 0;
    uint64_t last = 0;
    for (uint8_t i = 0; i < form % 64 && last != UINT64_MAX; i++) {
        last = number_take(data, bytes, &at);
    }
    for (uint64_t i = 0; form >= 128 && i < last && i < 64; i++) {
        (void)number_take(data, bytes, &at);
    }
    if (form == 0 || last == UINT64_MAX || (form / 64 == 1 && last > bytes - at)) {
        return 0;
    }
    return form / 64 == 1 ? at + (size_t)last : at;
}

/* The records of the first chunk. */
static size_t split(const uint8_t *data, size_t bytes, struct fuzz_part *parts) {
    size_t count = 0, at = HEADER + head_bytes(data, bytes), end;
    while (count < FUZZ_PARTS_MAX && (end = record_end(data, bytes, at)) > 0) {
        parts[count++] = (struct fuzz_part){at, end - at};
        at = end;
    }
    return count;
}

static int fuzz_take(const uint8_t *data, size_t bytes) {
    read_all(data, bytes);
    return 0;
}

/* A definition has a number up to 65536, and a table has a place of 40 bytes for each. */
FUZZ_TARGET(recording, .split = split, .mend = mend,
            .memory_more = (1 << 20) + RECORDING_DEFINITIONS_MAX * 48, .plain = true)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_chunk_reader.c: headers, chunks and rings of both versions of the trace format, made byte by
 * byte: what is read of them, and what is said of those that cannot be.
 */
#include "replay/chunk_reader.h"
#include "rig/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER = 512, CHUNK = 4096, PLACES = 5 };
enum { SEAL_AT = 8, SEQUENCE_AT = 16, BEGIN_AT = 24 };

#define SEALED_NOT  UINT64_C(0)
#define SEALED      UINT64_C(1)
#define SEALED_VOID UINT64_MAX

static uint8_t file[HEADER + PLACES * CHUNK];
static unsigned version;

static void put(size_t at, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) {
        file[at + i] = (uint8_t)(value >> 8 * i);
    }
}

static void sign_header(void) {
    put(52, chunk_crc(file, 52), 4);
}

/* As the writer leaves it when it ends; `chunks` were written. */
static void end_header(uint64_t chunks, uint64_t file_bytes) {
    put(88, chunks, 8);
    put(104, file_bytes, 8);
    put(112, 1000000000, 8);
    uint64_t crc = chunk_crc(file + 72, version == 1 ? 40 : 48);
    put(64, crc << 32 | UINT64_C(0x80A50001), 8);
}

static void begin(unsigned of, uint32_t slots) {
    memset(file, 0, sizeof file);
    version = of;
    memcpy(file, RECORDING_MAGIC, RECORDING_MAGIC_BYTES);
    put(8, version, 4);
    put(12, HEADER, 4);
    put(16, CHUNK, 4);
    put(20, slots, 4);
    put(128, 1000000000, 8);
    sign_header();
}

static size_t place_of(unsigned place) {
    return HEADER + (size_t)place * CHUNK;
}

/* A chunk without records. */
static void chunk(unsigned place, uint64_t sequence, uint64_t sealed) {
    size_t at = place_of(place), head = version == 1 ? 48 : 64;
    memcpy(file + at, "VRTC", 4);
    put(at + SEQUENCE_AT, sequence, 8);
    put(at + BEGIN_AT, sequence + 1, 8);
    uint64_t sum = version == 1 ? chunk_crc(file + at + SEQUENCE_AT, head - SEQUENCE_AT)
                                : (uint32_t)chunk_xxh64(file + at + SEQUENCE_AT, head - SEQUENCE_AT,
                                                        file[at + 4]);
    put(at + SEAL_AT, sealed == SEALED ? sum << 32 | UINT64_C(0x80A50000) : sealed, 8);
}

/* Reads all chunks. Their number, or -1 with the problem in `said`. */
static struct {
    char problem[CHUNK_PROBLEM_MAX];
    enum recording_end end;
    uint64_t first; /* sequence of the first chunk */
} said;

static int read_file(size_t bytes) {
    static struct trace_source source;
    struct chunk_reader reader;
    struct chunk_view view;
    bool there = true;
    int count = 0;
    trace_source_open_memory(&source, file, bytes);
    bool good = chunk_reader_open(&reader, &source);
    while (good && there) {
        good = chunk_reader_next(&reader, &view, &there);
        if (good && there) {
            said.first = count++ == 0 ? view.sequence : said.first;
            free(view.memory);
        }
    }
    snprintf(said.problem, sizeof said.problem, "%s", reader.problem);
    said.end = chunk_reader_end(&reader);
    assert_true(good == (said.problem[0] == 0));
    chunk_reader_close(&reader);
    trace_source_close(&source);
    return good ? count : -1;
}

static void refused(size_t bytes, const char *words) {
    assert_int_equal(read_file(bytes), -1);
    if (strstr(said.problem, words) == NULL) {
        fail_msg("\"%s\", expected \"%s\"", said.problem, words);
    }
}

/* ------------------------------------------------------------------- headers */

TEST(sizes_of_headers) {
    static const struct {
        size_t at;
        uint32_t value;
    } rows[] = {{12, 111}, {12, 65537}, {16, 2048},       {16, 131072}, {16, 5000},
                {20, 1},   {20, 65537}, {20, UINT32_MAX}, {12, 0},      {16, 0}};
    for (unsigned of = 1; of <= 2; of++) {
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            begin(of, 0);
            put(rows[i].at, rows[i].value, 4);
            sign_header();
            refused(sizeof file, "the size of the header, the chunks or the ring is invalid");
        }
        begin(of, 0);
        for (size_t cut = 0; cut < (of == 1 ? 112 : 144); cut++) {
            refused(cut, cut < 8 ? "not a trace of libvram" : "ends inside its header");
        }
        assert_int_equal(read_file(200), 0); /* behind what means something */
        assert_int_equal(said.end, RECORDING_CUT);
    }
    begin(2, 0);
    put(12, 143, 4);
    sign_header();
    refused(sizeof file, "the size of the header");
    begin(2, 0);
    file[30] ^= 1;
    refused(sizeof file, "the header is damaged");
    begin(3, 0);
    refused(sizeof file, "format version 3 is not supported");
}

TEST(ends_and_rates) {
    static const uint64_t rates[] = {0, UINT64_C(10000000001), UINT64_MAX};
    for (size_t i = 0; i < 3; i++) {
        begin(2, 0);
        put(128, rates[i], 8);
        refused(sizeof file, "the rate of the clock");
        begin(2, 0);
        end_header(0, HEADER);
        put(112, rates[i], 8);
        put(68, chunk_crc(file + 72, 48), 4);
        refused(HEADER, "the rate of the clock");
    }
    for (unsigned of = 1; of <= 2; of++) {
        begin(of, 0);
        end_header(0, HEADER);
        assert_int_equal(read_file(HEADER), 0);
        assert_int_equal(said.end, RECORDING_ENDED);
        put(64, 0x80A50002, 4); /* it stopped */
        assert_int_equal(read_file(HEADER), 0);
        assert_int_equal(said.end, RECORDING_STOPPED);
        put(64, 0x80A50003, 4);
        refused(HEADER, "the end is damaged");
        put(64, 0x80A50001, 4);
        file[72] ^= 1;
        refused(HEADER, "the end is damaged");
    }
}

/* -------------------------------------------------------------------- chunks */

TEST(chunks_that_are_damaged) {
    for (unsigned of = 1; of <= 2; of++) {
        size_t at = place_of(1);
        begin(of, 0);
        chunk(0, 0, SEALED);
        chunk(1, 1, SEALED);
        assert_int_equal(read_file(place_of(2)), 2);
        assert_int_equal(said.end, RECORDING_CUT); /* it has no end */
        end_header(2, place_of(2));
        assert_int_equal(read_file(place_of(2)), 2);
        assert_int_equal(said.end, RECORDING_ENDED);
        assert_int_equal(read_file(place_of(1)), 1);
        assert_int_equal(said.end, RECORDING_CUT);
        assert_int_equal(read_file(at + 7), 1); /* in the middle of a head */
        assert_int_equal(said.end, RECORDING_CUT);
        file[at] = 'W';
        refused(place_of(2), "no chunk begins here");
        file[at] = 'V';
        put(at + SEAL_AT + 2, 0, 2);
        refused(place_of(2), "the seal of the chunk is damaged");
        chunk(1, 1, SEALED);
        put(at + SEAL_AT, CHUNK, 2);
        refused(place_of(2), "the seal of the chunk is damaged");
        chunk(1, 1, SEALED);
        file[at + 40] ^= 1;
        refused(place_of(2), "its checksum does not match");
        file[at + 40] ^= 1;
        chunk(1, 7, SEALED);
        refused(place_of(2), "the chunk is out of order");
    }
    put(place_of(1) + 4, CHUNK_SHARDS_MAX, 4);
    chunk(1, 1, SEALED);
    refused(place_of(2), "shard is out of range");
    begin(2, 0);
    chunk(0, 0, SEALED);
    chunk(1, 1, SEALED);
    put(place_of(1) + BEGIN_AT, 0, 8);
    put(place_of(1) + SEAL_AT, 0, 8);
    refused(place_of(2), "begins before the one in front of it");
}

/* A chunk that was never sealed: in version 1 the last, in version 2 one among others. */
TEST(chunks_that_are_open) {
    begin(1, 0);
    chunk(0, 0, SEALED);
    chunk(1, 1, SEALED_NOT);
    assert_int_equal(read_file(place_of(3)), 2); /* zeros follow */
    assert_int_equal(said.end, RECORDING_CUT);
    chunk(2, 2, SEALED);
    refused(place_of(3), "the chunk was never finished, and another follows");
    end_header(2, place_of(2));
    refused(place_of(2), "it is incomplete, but the file is complete");

    begin(2, 0);
    chunk(0, 0, SEALED);
    chunk(1, 1, SEALED_NOT);
    chunk(2, 2, SEALED_VOID);
    chunk(4, 4, SEALED); /* behind a place that was never begun */
    assert_int_equal(read_file(place_of(5)), 3);
    assert_int_equal(said.end, RECORDING_CUT);
    end_header(3, place_of(2));
    refused(place_of(2), "the chunk was never finished, but the trace has ended");
    end_header(3, place_of(5));
    assert_int_equal(read_file(place_of(5)), 3);

    begin(2, 0); /* its records are cut off: it is the last */
    put(place_of(0) + 64, 1, 8);
    chunk(0, 0, SEALED);
    put(place_of(0) + SEAL_AT, 100, 2);
    assert_int_equal(read_file(place_of(0) + 100), 1);
    assert_int_equal(said.end, RECORDING_CUT);
}

/* --------------------------------------------------------------------- rings */

TEST(rings) {
    for (unsigned of = 1; of <= 2; of++) {
        begin(of, 4);
        assert_int_equal(read_file(place_of(4)), 0);
        for (unsigned i = 2; i < 6; i++) {
            chunk(i % 4, i, SEALED);
        }
        assert_int_equal(read_file(place_of(4)), 4);
        assert_int_equal(said.first, 2);
        assert_int_equal(said.end, RECORDING_CUT);
        end_header(of == 1 ? 6 : 4, place_of(4));
        assert_int_equal(read_file(place_of(4)), 4);
        assert_int_equal(said.end, RECORDING_ENDED);
        end_header(9, place_of(4)); /* more than there are */
        assert_int_equal(read_file(place_of(4)), 4);
        assert_int_equal(said.end, RECORDING_CUT);
        chunk(1, 5, SEALED_NOT);
        refused(place_of(4), "the chunk was never finished");
        file[place_of(0)] = 'W';
        refused(place_of(4), "no chunk begins here");
    }
    begin(1, 4);
    chunk(0, 0, SEALED);
    chunk(1, 1, SEALED_NOT);
    assert_int_equal(read_file(place_of(4)), 2); /* the last may be open */
    chunk(2, 2, SEALED);
    refused(place_of(4), "the chunk was never finished");
    chunk(1, 1, SEALED);
    assert_int_equal(read_file(place_of(1) + 20), 1); /* cut off */
    assert_int_equal(said.end, RECORDING_CUT);
    chunk(1, 2, SEALED);
    refused(place_of(4), "the chunk is in the wrong place");
    memset(file + place_of(1), 0, CHUNK);
    refused(place_of(4), "a chunk of the ring is missing here");

    begin(2, 4);
    chunk(0, 3, SEALED);
    chunk(1, 3, SEALED);
    refused(place_of(4), "a chunk of the ring is missing here");
    chunk(1, 9, SEALED_NOT);
    chunk(2, 7, SEALED);
    assert_int_equal(read_file(place_of(4)), 3);
    assert_int_equal(said.first, 3);
    put(place_of(1) + BEGIN_AT, 1, 8);
    refused(place_of(4), "begins before the one in front of it");
    begin(2, 4);
    end_header(0, place_of(4));
    assert_int_equal(read_file(place_of(2)), 0);
    assert_int_equal(said.end, RECORDING_CUT);
}

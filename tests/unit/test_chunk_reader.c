/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_chunk_reader.c: headers, chunks, rings and records of both versions of the trace format,
 * made byte by byte: what is read of them, and what is said of those that cannot be.
 */
#include "track/crc32.h"
#include "unit/trace_world.h"

enum { HEADER = 512, CHUNK = 4096, PLACES = 5 };
enum sealing { SEALED, OPEN, VOID };

static uint8_t file[HEADER + PLACES * CHUNK];
static unsigned version;

static void put(size_t at, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) {
        file[at + i] = (uint8_t)(value >> 8 * i);
    }
}

static void sign_header(void) {
    put(VR_TRACE_AT_CRC, chunk_crc(file, VR_TRACE_AT_CRC), 4);
}

static void begin(unsigned of, uint32_t slots) {
    memset(file, 0, sizeof file);
    version = of;
    memcpy(file, RECORDING_MAGIC, RECORDING_MAGIC_BYTES);
    put(VR_TRACE_AT_VERSION, version, 4);
    put(VR_TRACE_AT_HEADER_BYTES, HEADER, 4);
    put(VR_TRACE_AT_CHUNK_BYTES, CHUNK, 4);
    put(VR_TRACE_AT_SLOTS, slots, 4);
    put(VR_TRACE_AT_RATE_NOW, 1000000000, 8);
    sign_header();
}

/* As the writer leaves it when it ends; `chunks` were written. */
static void end_header(uint64_t chunks, uint64_t file_bytes) {
    put(VR_TRACE_AT_CHUNKS, chunks, 8);
    put(VR_TRACE_AT_FILE_BYTES, file_bytes, 8);
    put(VR_TRACE_AT_RATE, 1000000000, 8);
    uint64_t crc = chunk_crc(file + VR_TRACE_AT_EVENTS, version == 1 ? 40 : 48);
    put(VR_TRACE_AT_END_SEAL, crc << 32 | VR_TRACE_ENDED_MARK, 8);
}

static size_t place_of(size_t place) {
    return HEADER + place * CHUNK;
}

struct records {
    const char *text;
    size_t bytes;
    uint32_t shard;
    uint64_t begin;
};

static size_t chunk(size_t place, uint64_t sequence, enum sealing sealing,
                    const struct records *records) {
    size_t at = place_of(place), head = version == 1 ? 48 : 64;
    size_t bytes = head - VR_TRACE_AT_SEQUENCE + records->bytes;
    memcpy(file + at, "VRTC", 4);
    put(at + VR_TRACE_AT_SHARD, records->shard, 4);
    put(at + VR_TRACE_AT_SEQUENCE, sequence, 8);
    put(at + VR_TRACE_AT_BEGIN, records->begin, 8);
    memcpy(file + at + head, records->text, records->bytes);
    const uint8_t *of = file + at + VR_TRACE_AT_SEQUENCE;
    uint64_t sum =
        version == 1 ? chunk_crc(of, bytes) : (uint32_t)chunk_xxh64(of, bytes, records->shard);
    uint64_t seals[] = {
        [OPEN] = 0,
        [VOID] = VR_TRACE_VOID_SEAL,
        [SEALED] = sum << 32 | VR_TRACE_CHUNK_MARK | records->bytes,
    };
    put(at + VR_TRACE_AT_SEAL, seals[sealing], 8);
    return at + head + records->bytes;
}

/* Reads all chunks. Their number, or -1 with the problem. */
static struct {
    char problem[CHUNK_PROBLEM_MAX];
    enum recording_end end;
    uint64_t first; /* sequence of the first chunk */
} told;

static int read_chunks(size_t bytes) {
    static struct trace_source source;
    struct chunk_reader reader;
    struct chunk_view view;
    bool there = true;
    int count = 0;
    told.first = 0;
    trace_source_open_memory(&source, file, bytes);
    bool good = chunk_reader_open(&reader, &source);
    while (good && there) {
        good = chunk_reader_next(&reader, &view, &there);
        if (good && there) {
            told.first = count++ == 0 ? view.sequence : told.first;
            free(view.memory);
        }
    }
    snprintf(told.problem, sizeof told.problem, "%s", reader.problem);
    told.end = chunk_reader_end(&reader);
    assert_true(good == (told.problem[0] == 0));
    chunk_reader_close(&reader);
    trace_source_close(&source);
    return good ? count : -1;
}

static void refused(size_t bytes, const char *words) {
    assert_int_equal(read_chunks(bytes), -1);
    if (strstr(told.problem, words) == NULL) {
        fail_msg("\"%s\", expected \"%s\"", told.problem, words);
    }
}

TEST(headers_that_cannot_be) {
    static const struct {
        size_t at;
        uint64_t value;
        const char *words;
    } rows[] = {
        {12, 111, "the size of the header, the chunks or the ring is invalid"},
        {12, 0, "the size of the header"},
        {12, 65537, "the size of the header"},
        {16, 0, "the size of the header"},
        {16, 2048, "the size of the header"},
        {16, 5000, "the size of the header"},
        {16, 131072, "the size of the header"},
        {20, 1, "the size of the header"},
        {20, 65537, "the size of the header"},
        {20, UINT32_MAX, "the size of the header"},
        {8, 3, "format version 3 is not supported"},
    };
    static const uint64_t rates[] = {0, UINT64_C(10000000001), UINT64_MAX};
    for (unsigned of = 1; of <= 2; of++) {
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            begin(of, 0);
            put(rows[i].at, rows[i].value, 4);
            sign_header();
            refused(sizeof file, rows[i].words);
        }
        begin(of, 0);
        for (size_t cut = 0; cut < (of == 1 ? 112 : 144); cut++) {
            refused(cut, cut < 8 ? "not a trace of libvram" : "ends inside its header");
        }
        assert_int_equal(read_chunks(200), 0); /* behind what means something */
        assert_int_equal(told.end, RECORDING_CUT);
        file[30] ^= 1;
        refused(sizeof file, "the header is damaged");
        begin(of, 0);
        end_header(0, HEADER);
        assert_int_equal(read_chunks(HEADER), 0);
        assert_int_equal(told.end, RECORDING_ENDED);
        put(VR_TRACE_AT_END_SEAL, VR_TRACE_STOPPED_MARK, 4);
        assert_int_equal(read_chunks(HEADER), 0);
        assert_int_equal(told.end, RECORDING_STOPPED);
        put(VR_TRACE_AT_END_SEAL, VR_TRACE_STOPPED_MARK + 1, 4);
        refused(HEADER, "the end is damaged");
        put(VR_TRACE_AT_END_SEAL, VR_TRACE_ENDED_MARK, 4);
        file[VR_TRACE_AT_EVENTS] ^= 1;
        refused(HEADER, "the end is damaged");
    }
    for (size_t i = 0; i < 3; i++) {
        begin(2, 0);
        put(VR_TRACE_AT_RATE_NOW, rates[i], 8);
        refused(sizeof file, "the rate of the clock");
        begin(2, 0);
        end_header(0, HEADER);
        put(VR_TRACE_AT_RATE, rates[i], 8);
        put(VR_TRACE_AT_END_SEAL + 4, chunk_crc(file + VR_TRACE_AT_EVENTS, 48), 4);
        refused(HEADER, "the rate of the clock");
    }
    begin(2, 0);
    put(VR_TRACE_AT_HEADER_BYTES, 143, 4);
    sign_header();
    refused(sizeof file, "the size of the header");
}

/* -------------------------------------------------------------------- chunks */

/* Chunks without records in their places, by sequence: "?" was never sealed, "x" is void, "-" is
   not there. Then something is changed, and that many places and some bytes are read. */
static const struct layout {
    const char *versions;
    unsigned slots; /* of a ring */
    const char *chunks;
    unsigned places, more;
    const char *is; /* "how many, from which, how it ended", or what is wrong */
    struct {
        unsigned chunks, places; /* 0: the file has no end */
    } end;
    struct {
        unsigned bytes, place, at; /* 0: nothing */
        uint64_t value;
    } change;
} layouts[] = {
    {"12", 0, "0 1", 2, 0, .is = "2 from 0, cut"}, /* it has no end */
    {"12", 0, "0 1", 2, 0, .is = "2 from 0, ended", .end = {2, 2}},
    {"12", 0, "0 1", 1, 0, .is = "1 from 0, cut", .end = {2, 2}},
    {"12", 0, "0 1", 1, 7, .is = "1 from 0, cut", .end = {2, 2}},
    {"12", 0, "0 1", 2, 0, .is = "no chunk begins here", .end = {2, 2}, .change = {1, 1, 0, 'W'}},
    {"12", 0, "0 1", 2, 0, .is = "the seal of the chunk is damaged", .end = {2, 2},
     .change = {2, 1, 10, 0}},
    {"12", 0, "0 1", 2, 0, .is = "the seal of the chunk is damaged", .end = {2, 2},
     .change = {2, 1, 8, CHUNK}},
    {"12", 0, "0 1", 2, 0, .is = "its checksum does not match", .end = {2, 2},
     .change = {1, 1, 40, 9}},
    {"12", 0, "0 7", 2, 0, .is = "the chunk is out of order", .end = {2, 2}},
    {"2", 0, "0 1?", 2, 0, .is = "begins before the one in front of it", .change = {8, 1, 24, 0}},
    /* A chunk that was never sealed: in version 1 the last, in version 2 one among others. */
    {"1", 0, "0 1?", 3, 0, .is = "2 from 0, cut"}, /* zeros follow */
    {"1", 0, "0 1? 2", 3, 0, .is = "the chunk was never finished, and another follows"},
    {"1", 0, "0 1?", 2, 0, .is = "it is incomplete, but the file is complete", .end = {2, 2}},
    {"2", 0, "0 1? 2x - 4", 5, 0, .is = "3 from 0, cut"},
    {"2", 0, "0 1? 2x - 4", 2, 0, .is = "was never finished, but the trace has ended",
     .end = {3, 2}},
    {"2", 0, "0 1? 2x - 4", 5, 0, .is = "3 from 0, cut", .end = {3, 5}},
    {"2", 0, "0", 0, 100, .is = "1 from 0, cut",
     .change = {2, 0, 8, 100}}, /* its records are cut off */
    /* Rings. */
    {"12", 4, "", 4, 0, .is = "0 from 0, cut"},
    {"12", 4, "4 5 2 3", 4, 0, .is = "4 from 2, cut"},
    {"1", 4, "4 5 2 3", 4, 0, .is = "4 from 2, ended", .end = {6, 4}},
    {"2", 4, "4 5 2 3", 4, 0, .is = "4 from 2, ended", .end = {4, 4}},
    {"12", 4, "4 5 2 3", 4, 0, .is = "4 from 2, cut", .end = {9, 4}}, /* more than there are */
    {"12", 4, "4 5? 2 3", 4, 0, .is = "the chunk was never finished", .end = {9, 4}},
    {"12", 4, "4 5 2 3", 4, 0, .is = "no chunk begins here", .end = {9, 4},
     .change = {1, 0, 0, 'W'}},
    {"1", 4, "0 1?", 4, 0, .is = "2 from 0, cut"}, /* the last may be open */
    {"1", 4, "0 1? 2", 4, 0, .is = "the chunk was never finished"},
    {"1", 4, "0 1 2", 1, 20, .is = "1 from 0, cut"},
    {"1", 4, "0 2 2", 4, 0, .is = "the chunk is in the wrong place"},
    {"1", 4, "0 - 2", 4, 0, .is = "a chunk of the ring is missing here"},
    {"2", 4, "3 3", 4, 0, .is = "a chunk of the ring is missing here"},
    {"2", 4, "3 9? 7", 4, 0, .is = "3 from 3, cut"},
    {"2", 4, "3 9? 7", 4, 0, .is = "begins before the one in front of it", .change = {8, 1, 24, 1}},
    {"2", 4, "", 2, 0, .is = "0 from 0, cut", .end = {0, 4}},
};

static void layout_make(const struct layout *layout, unsigned of) {
    const char *at = layout->chunks;
    begin(of, layout->slots);
    for (size_t place = 0; *at; place++) {
        size_t length = strcspn(at, " ");
        struct records records = {"", 0, 0, strtoull(at, NULL, 10) + 1};
        enum sealing sealing = at[length - 1] == '?' ? OPEN : at[length - 1] == 'x' ? VOID : SEALED;
        if (*at != '-') {
            chunk(place, records.begin - 1, sealing, &records);
        }
        at += length + strspn(at + length, " ");
    }
    if (layout->end.places) {
        end_header(layout->end.chunks, place_of(layout->end.places));
    }
    put(place_of(layout->change.place) + layout->change.at, layout->change.value,
        layout->change.bytes);
}

TEST(chunks_and_rings) {
    static const char *const ends[] = {
        [RECORDING_ENDED] = "ended", [RECORDING_STOPPED] = "stopped", [RECORDING_CUT] = "cut"};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        for (const char *of = layouts[i].versions; *of; of++) {
            char found[CHUNK_PROBLEM_MAX + 64];
            layout_make(&layouts[i], (unsigned)(*of - '0'));
            int count = read_chunks(place_of(layouts[i].places) + layouts[i].more);
            snprintf(found, sizeof found, "%d from %llu, %s %s", count,
                     (unsigned long long)told.first, ends[told.end], told.problem);
            if (strstr(found, layouts[i].is) == NULL) {
                fail_msg("row %zu, version %c: %s, not %s", i, *of, found, layouts[i].is);
            }
        }
    }
}

/* -------------------------------------------------------------------- records */

#define TEXT(text) (text), sizeof(text) - 1

/* A file with one sealed chunk of these records. */
static struct found read_records(const char *text, size_t bytes, each_event *each) {
    begin(1, 0);
    return read_memory(file, chunk(0, 0, SEALED, &(struct records){text, bytes, 0, 0}), each);
}

TEST(records_that_cannot_be) {
    static const struct {
        const char *text;
        size_t bytes;
        unsigned at;
        const char *why;
    } rows[] = {
        {TEXT("\x08"), 0, "this kind of record is unknown"},
        {TEXT("\x18\x00"), 0, "this kind of record is unknown"},
        {TEXT("\x00"), 0, "this kind of record is unknown"},
        {TEXT("\x17"), 0, "a record extends past its chunk"},
        {TEXT("\x17\x00\x05"), 0, "a number refers to something that was not defined"},
        {TEXT("\x01\x00\x01x"), 0, "a number is defined that is out of range"},
        {TEXT("\x01\xff\xff\xff\xff\x0f\x01x"), 0, "a number is defined that is out of range"},
        {TEXT("\x01\x01\x01x\x01\x01\x01y"), 4, "a number is defined again as something else"},
        {TEXT("\x01\x01\x01x\x04\x01\x09"), 4, "a number is defined again as something else"},
        {TEXT("\x01\x01\x80\x02x"), 0, "a text is longer than 255 bytes"},
        {TEXT("\x01\x01\x09x"), 0, "a record extends past its chunk"},
        {TEXT("\x03\x01\x41"), 0, "a stack has more than 64 frames"},
        {TEXT("\x03\x01\x01\x01"), 0, "a number refers to something that was not defined"},
        {TEXT("\x01\x01\x01x\x03\x02\x01\x01"), 4,
         "a number refers to something that was not defined"},
        {TEXT("\x17\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02\x00"), 0,
         "a number has more than 64 bits"},
        {TEXT("\x17\x01\x00\x17\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"), 3,
         "a sum does not fit in 64 bits"},
        {TEXT("\x10\0\0\0\0\x02\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01\0\0\0"), 0,
         "a sum does not fit in 64 bits"},
        {TEXT("\x41\x05\x00"), 0, "a record extends past its chunk"},
        {TEXT("\x40\x09\x00"), 0, "a record extends past its chunk"},
        {TEXT("\x40\x00"), 0, "a transfer record is too short"},
        {TEXT("\x41\x00"), 0, "the report of a refusal is too short"},
        {TEXT("\x41\x16\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1"), 0,
         "the report of a refusal is too short"},
        {TEXT("\x17\x05\x00\x40\x07\x00\x01\x02\x03\x04\x05\x06"), 3,
         "a transfer record is too short"},
        {TEXT("\x40\x08\x00\x01\x02\x03\x04\x05\x06\x80"), 0, "a transfer record is too short"},
        {TEXT("\x17\x01\x00\x40\x11\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\0\0\0\0\0\0\0"), 3,
         "a sum does not fit in 64 bits"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct found found = read_records(rows[i].text, rows[i].bytes, NULL);
        assert_string_equal(found.problem, rows[i].why);
        assert_int_equal(found.problem_at, 560 + rows[i].at);
    }
}

static char order[64]; /* what was read: kinds, and times of what is no block */

static void note_order(const struct recording *recording, const struct recorded *event) {
    (void)recording;
    size_t at = strlen(order);
    if (event->kind == RECORDED_TRANSFER) {
        snprintf(order + at, sizeof order - at, "t%llu:%llu,%llu,%llu,%llu,%llu,%llu,%d",
                 (unsigned long long)event->time_ns, (unsigned long long)event->thread,
                 (unsigned long long)event->device, (unsigned long long)event->direction,
                 (unsigned long long)event->route, (unsigned long long)event->bytes,
                 (unsigned long long)event->took_ns, event->status);
    } else if (event->kind == RECORDED_MARK) {
        snprintf(order + at, sizeof order - at, "m%llu", (unsigned long long)event->time_ns);
    } else {
        snprintf(order + at, sizeof order - at, event->kind == RECORDED_ALLOC ? "a" : "f");
    }
}

/* A file of shards with a chunk each. */
static struct found read_shards(const struct records *shards, uint32_t count) {
    begin(2, 0);
    for (uint32_t i = 0; i < count; i++) {
        chunk(i, i, SEALED, &shards[i]);
    }
    order[0] = '\0';
    return read_memory(file, place_of(count), note_order);
}

/* A transfer is none of the events, its time is not part of the next one's, and what lies behind
   its numbers is left. Records of the future are passed over. */
TEST(records_that_are_read) {
    static const struct {
        const char *text;
        size_t bytes;
        unsigned events;
        const char *order;
    } rows[] = {
        {TEXT("\x17\x05\x00\x40\x0b\x07\x01\x02\x03\x04\x80\x01\x06\x09zz\x17\x01\x00"), 2,
         "m5t12:1,2,3,4,128,6,-9m6"},
        {TEXT("\x42\x03\x01\x02\x03\x17\x05\x00\x7f\x00\x17\x00\x00"), 2, "m5m5"},
        {TEXT("\x01\x01\x01x\x01\x01\x01x\x17\x00\x01"), 1, "m0"}, /* defined as it was */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        order[0] = '\0';
        struct found found = read_records(rows[i].text, rows[i].bytes, note_order);
        assert_string_equal(found.problem, "");
        assert_int_equal(found.events, rows[i].events);
        assert_string_equal(order, rows[i].order);
    }
}

/* At equal times an allocation waits for the free of its address, and a free for the allocation,
   whichever shard comes first in the file. */
TEST(shards_are_one_recording) {
#define TWICE                                                                                      \
    TEXT("\x10\x01\x00\x00\x80\x01\x01\x00\x00\x00\x00"                                            \
         "\x10\x04\x00\x00\x00\x01\x00\x00\x00\x00") /* address 64 at 1 and at 5 */
    static const struct {
        struct records shards[2];
        uint32_t count;
        const char *problem, *order;
    } rows[] = {
        {{{TWICE, 0, 0}, {TEXT("\x11\x04\x00\x00\x80\x01\x01"), 1, 1}}, 2, "", "afa"},
        {{{TEXT("\x11\x05\x00\x00\x80\x01\x01"), 0, 0},
          {TEXT("\x10\x04\x00\x00\x80\x01\x01\x00\x00\x00\x00"), 1, 1}},
         2,
         "",
         "af"},
        {{{TWICE, 0, 0}}, 1, "", "afa"}, /* a free that is lost: the reader makes one */
        {{{TEXT("\x17\x09\x00"), 0, 0}, {TEXT("\x17\x09\x00"), 0, 9}}, 2, "", "m9m18"},
        {{{TEXT("\x17\x09\x00"), 0, 1}, {TEXT("\x17\x09\x00"), 0, 0}},
         2,
         "the chunk begins before the one in front of it",
         ""},
        {{{TEXT("\x17\x09\x00"), 0, 0}, {TEXT("\x17\x09\x00"), 0, 5}},
         2,
         "the chunk begins before the end of the one before it in its shard",
         "m9"},
        {{{TEXT("\x17\x09\x00"), 0, 0}, {TEXT("\x17\x09\x00"), 256, 9}},
         2,
         "the chunk's shard is out of range",
         ""},
        {{{TEXT("\x09\x00"), 0, 0}}, 1, "this kind of record is unknown", ""},
        {{{TEXT("\x42\x02\x00\x00\x17\x01\x00"), 0, 0}}, 1, "", "m1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct found found = read_shards(rows[i].shards, rows[i].count);
        assert_string_equal(found.problem, rows[i].problem);
        assert_string_equal(order, rows[i].order);
        assert_true(!found.good || found.end == RECORDING_CUT); /* the header has no end */
    }
}

TEST(crc_is_that_of_gzip) {
    static const char text[] = "123456789";
    assert_int_equal(vr_crc32(0, text, 9), 0xCBF43926);
    assert_int_equal(vr_crc32(vr_crc32(0, text, 4), text + 4, 5), 0xCBF43926);
    assert_int_equal(chunk_crc((const uint8_t *)text, 9), 0xCBF43926);
}

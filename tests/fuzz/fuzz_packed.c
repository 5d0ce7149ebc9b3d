/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_packed.c: a trace that is packed with gzip or zstd, and damaged. Whatever the bytes are,
 * what comes out does not depend on how much is asked for at a time, and a reader of any format
 * gets it or one reason why not. A small file may hold gigabytes: only the first part is read.
 */
#include "events_expect.h"

/* The third has a window of 2 MiB. */
static const char fuzz_words[] =
    " \x1f\x8b\x08 \x28\xb5\x2f\xfd \x28\xb5\x2f\xfd\x04\x58 \x50\x2a\x4d\x18 \x80\x04 VRTC"
    " \xff\xff\xff\xff op,id,bytes,stream\n [{";

enum { OUT_MAX = 1 << 18, PIECE = 13 };

struct unpacked {
    uint8_t text[OUT_MAX];
    size_t bytes;
    bool good;
    char problem[SOURCE_PROBLEM_MAX];
};

/* Reads `step` bytes at a time, until it ends or OUT_MAX are there. */
static void unpack(const uint8_t *data, size_t bytes, size_t step, struct unpacked *out) {
    static struct trace_source source;
    size_t some = 1;
    trace_source_open_memory(&source, data, bytes);
    out->bytes = 0;
    out->good = true;
    while (out->good && some > 0 && out->bytes < OUT_MAX) {
        size_t left = OUT_MAX - out->bytes;
        some = step < left ? step : left;
        size_t wanted = some;
        out->good = trace_source_read(&source, out->text + out->bytes, &some);
        FUZZ_EXPECT(!out->good || some <= wanted);
        out->bytes += out->good ? some : 0;
    }
    FUZZ_EXPECT(out->good == (source.problem[0] == 0));
    snprintf(out->problem, sizeof out->problem, "%s", source.problem);
    trace_source_close(&source);
}

/* As `vram report` does: recognised by its first bytes, then read. */
static void read_as_report(const uint8_t *data, size_t bytes) {
    static struct trace_source source;
    trace_source_open_memory(&source, data, bytes);
    enum event_format format = event_format_of(&source);
    trace_source_close(&source);
    if (format != FORMAT_CSV) {
        read_events(data, bytes, format);
    } else {
        struct trace trace;
        char problem[TRACE_PROBLEM_MAX] = "";
        if (trace_read_memory("input", data, bytes, &trace, problem)) {
            trace_free(&trace);
        } else {
            FUZZ_EXPECT(strncmp(problem, "input", 5) == 0);
        }
    }
}

static int fuzz_take(const uint8_t *data, size_t bytes) {
    static struct unpacked whole, pieces;
    unpack(data, bytes, OUT_MAX, &whole);
    unpack(data, bytes, PIECE, &pieces);
    FUZZ_EXPECT(whole.bytes == pieces.bytes || !whole.good);
    FUZZ_EXPECT(whole.bytes == OUT_MAX || whole.good == pieces.good);
    size_t both = whole.bytes < pieces.bytes ? whole.bytes : pieces.bytes;
    FUZZ_EXPECT(memcmp(whole.text, pieces.text, both) == 0);
    if (whole.bytes < OUT_MAX) { /* a bomb would only take its time */
        read_as_report(data, bytes);
    }
    return 0;
}

/* ------------------------------------------------------------------- structure */

enum { GZIP_LEAST = 18, TRAILER = 8 };

/* Makes the checksum and the length of a gzip member those of what it unpacks to, so that what
   follows is read as far as it goes. */
static size_t mend(uint8_t *data, size_t bytes, size_t capacity) {
    static struct unpacked out;
    (void)capacity;
    if (bytes < GZIP_LEAST || memcmp(data, "\x1f\x8b\x08", 3) != 0) {
        return bytes;
    }
    unpack(data, bytes, 1, &out);
    /* zlib looks at the checksum with the last byte, which is there but was not counted. */
    size_t all = out.bytes < OUT_MAX ? out.bytes + 1 : OUT_MAX;
    uint64_t trailer = (uint64_t)all << 32 | chunk_crc(out.text, all);
    if (!out.good) {
        fuzz_put(data + bytes - TRAILER, trailer, TRAILER);
    }
    return bytes;
}

/* zstd says how large a window it needs, up to 128 MiB, and what is unpacked may be OUT_MAX. */
FUZZ_TARGET(packed, .mend = mend, .memory_more = 160 << 20)

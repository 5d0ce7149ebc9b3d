/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_recording.c: whatever is called a trace of libvram's is refused with an offset inside of it,
 * or read to its end in time that never falls. Most mutations end at a CRC, so each input is read a
 * second time with the checksums of its header and of its first chunk made right, which leads into
 * the records.
 */
#include "fuzz.h"

#include "report/advice.h"

#include <string.h>

const char *const fuzz_words[] = {"\x89VRT\r\n\x1a\n",
                                  "VRTC",
                                  "\x01\x01\x01x",
                                  "\x02\x02\x03"
                                  "f()",
                                  "\x03\x03\x01\x02",
                                  "\x08\x07",
                                  "\x10\x01\x00\x00\x80\x01\x01\x00\x00\x00\x00",
                                  "\x11\x01\x00\x00\x80\x01\x01",
                                  "\x17\x05\x01",
                                  "\x41\x02zz",
                                  "\x40\x08\x01\x02\x03\x04\x05\x06\x07\x08",
                                  "\xff\xff\xff\xff",
                                  NULL};

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
            FUZZ_EXPECT(event.offset < bytes || source.inflater != NULL);
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
    FUZZ_EXPECT(good || source.inflater != NULL || recording.problem_at <= bytes);
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

/* Makes the seals of a file right whose header is 512 bytes long, in the version that it says. */
static void mend(uint8_t *data, size_t bytes) {
    bool second = bytes > 8 && data[8] == 2;
    size_t head = second ? 64 : 48;
    if (bytes < 512 + head) {
        return;
    }
    uint64_t records = bytes - 512 - head;
    records = records < 4096 - head ? records : 4096 - head;
    memcpy(data, RECORDING_MAGIC, 8);
    put(data + 8, second ? 2 : 1, 4);
    put(data + 12, 512, 4);
    put(data + 16, 4096, 4);
    put(data + 20, 0, 4);
    put(data + 52, chunk_crc(data, 52), 4);
    put(data + 64, 0, 8);
    put(data + 512 + 16, 0, 8);
    memcpy(data + 512, "VRTC", 4);
    uint8_t *chunk = data + 512;
    size_t summed = head - 16 + (size_t)records;
    uint64_t sum =
        second ? chunk_xxh64(chunk + 16, summed, data[512 + 4]) : chunk_crc(chunk + 16, summed);
    put(chunk + 4, data[512 + 4], 4);
    put(chunk + 8, sum << 32 | UINT64_C(0x80A50000) | records, 8);
    for (size_t at = 512 + 4096; second && at + head <= bytes; at += 4096) {
        put(data + at + 8, 0, 8); /* more shards, each unfinished */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    uint8_t *mended = malloc(bytes > 0 ? bytes : 1);
    FUZZ_EXPECT(mended != NULL);
    read_all(data, bytes);
    memcpy(mended, data, bytes);
    mend(mended, bytes);
    read_all(mended, bytes);
    free(mended);
    return 0;
}

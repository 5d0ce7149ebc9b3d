/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_frame_rule.c: whatever .eh_frame_hdr and .eh_frame contain, a rule is found in bounded time
 * from their bytes alone. An input is two bytes, an offset of the code in it, then the segment that
 * begins with .eh_frame_hdr.
 */
#include "fuzz.h"

#include "base/os/frame_rule.h"
#include "base/size.h"

#include <string.h>

static const char fuzz_words[] =
    " \x0c\x07\x08\x90\x01 \x0f\x03\x76\x78\x06 \x10\x06\x02\x76\x00 \x0a\x0b \xff\xff\xff\xff"
    " \x80\x80 zPLR";

enum { BASE = 1 << 20, ADDRESSES = 64 };

struct input {
    const uint8_t *data;
    size_t bytes;
};

static bool input_read(const void *file, uint64_t offset, void *to, uint64_t bytes) {
    const struct input *input = file;
    FUZZ_EXPECT(bytes > 0 && vr_inside(offset, bytes, BASE, input->bytes));
    memcpy(to, input->data + (offset - BASE), bytes);
    return true;
}

static int fuzz_take(const uint8_t *data, size_t bytes) {
    if (bytes < 2) {
        return 0;
    }
    uint64_t code = BASE + (uint64_t)data[0] + 256 * (uint64_t)data[1];
    struct input input = {data + 2, bytes - 2};
    struct vr_frame_table table = {.source = {.read = input_read, .file = &input},
                                   .segment = {BASE, input.bytes},
                                   .index = BASE};
    for (uint64_t i = 0; i < ADDRESSES; i++) {
        struct vr_frame_rule rule = vr_frame_rule_find(&table, code + i);
        FUZZ_EXPECT(rule.kind <= VR_FRAME_LAST);
        if (rule.kind != VR_FRAME_STEP) {
            struct vr_frame_rule bare = {.kind = rule.kind};
            FUZZ_EXPECT(memcmp(&rule, &bare, sizeof rule) == 0);
        }
    }
    return 0;
}

FUZZ_TARGET(frame_rule, .memory_times = 0)

/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_snapshot.c: the reader of PyTorch's memory snapshots; see events_expect.h. */
#include "events_expect.h"

static const char fuzz_words[] =
    " \x80\x04 \x80\x02 } ] ( u e a s \x94 h\x03 q\x07 \x8a\x06\x04\xff\x7f\x34\x12\x7f"
    " \x8c\006action \x8c\005alloc \x8c\016free_requested \x8c\015device_traces \x86"
    " cos\nsystem\n .";

static int fuzz_take(const uint8_t *data, size_t bytes) {
    read_events(data, bytes, FORMAT_SNAPSHOT);
    return 0;
}

/* ---------------------------------------------------------------- structure */

/* Bytes of the opcode that begins here with its arguments; 0: it is cut off. */
static size_t opcode_bytes(const uint8_t *at, size_t left) {
    static const struct {
        const char *codes;
        size_t fixed;  /* bytes behind the code */
        size_t length; /* of a number behind the code, of bytes that follow */
    } kinds[] = {{"\x80Khq", 1, 0},    {"M", 2, 0},       {"Jjr", 4, 0},         {"\x95G", 8, 0},
                 {"\x8a\x8cUC", 0, 1}, {"\x8bXTB", 0, 4}, {"\x8d\x8e\x96", 0, 8}};
    if (at[0] != 0 && strchr("ILFSVpgPi", at[0]) != NULL) {
        const uint8_t *end = memchr(at, '\n', left);
        return end ? (size_t)(end - at) + 1 : 0;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (at[0] != 0 && strchr(kinds[i].codes, at[0]) != NULL) {
            size_t bytes = 1 + kinds[i].fixed + kinds[i].length;
            uint64_t more = bytes <= left ? fuzz_get(at + 1, kinds[i].length) : 0;
            return bytes <= left && more <= left - bytes ? bytes + (size_t)more : 0;
        }
    }
    return 1;
}

/* Opcodes, and everything from a mark to the opcode that takes it. */
static size_t split(const uint8_t *data, size_t bytes, struct fuzz_part *parts) {
    size_t count = 0, marks[64], depth = 0, some;
    for (size_t at = 0; at < bytes && count + 1 < FUZZ_PARTS_MAX; at += some) {
        some = opcode_bytes(data + at, bytes - at);
        if (some == 0) {
            break;
        }
        parts[count++] = (struct fuzz_part){at, some};
        if (data[at] == '(' && depth < 64) {
            marks[depth++] = at;
        } else if (data[at] != 0 && strchr("eutdl", data[at]) != NULL && depth > 0) {
            size_t begin = marks[--depth];
            parts[count++] = (struct fuzz_part){begin, at + some - begin};
        }
    }
    return count;
}

/* A frame ends where the next one begins. */
static size_t mend(uint8_t *data, size_t bytes, size_t capacity) {
    size_t frame = 0, some = 1, at = 0;
    (void)capacity;
    for (; at < bytes && some > 0; at += some) {
        some = opcode_bytes(data + at, bytes - at);
        bool begins = some == 9 && data[at] == 0x95;
        if (begins || at + some >= bytes || some == 0) {
            uint64_t length = (begins ? at : bytes) - frame;
            if (frame > 0) {
                fuzz_put(data + frame - 8, length, 8);
            }
            frame = begins ? at + some : frame;
        }
    }
    return bytes;
}

/* One byte of a pickle, '}', makes an object and a value on the stack, 40 bytes, in arrays that
   double: 96 bytes while the second of them grows. A file may take SNAPSHOT_MEMORY_MAX. */
FUZZ_TARGET(snapshot, .split = split, .mend = mend, .memory_times = 128, .plain = true)

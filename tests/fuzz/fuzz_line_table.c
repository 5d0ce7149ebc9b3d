/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_line_table.c: whatever .debug_line contains, its sequences are found in bounded time, and a
 * line that is found has a name that ends. An input is two bytes, the size of .debug_line, then
 * that section; the rest is .debug_line_str and .debug_str at once.
 */
#include "fuzz.h"

#include "base/os/line_table.h"
#include "base/size.h"

#include <string.h>

static const char fuzz_words[] = " \x01\x01 \x09\x02 \x1f \x0e \x80\x80 \xff\xff\xff\xff";

enum { SEQUENCES = 256 };

struct input {
    const uint8_t *data;
    size_t bytes;
};

static bool input_read(const void *file, uint64_t offset, void *to, uint64_t bytes) {
    const struct input *input = file;
    FUZZ_EXPECT(bytes > 0 && vr_inside(offset, bytes, 0, input->bytes));
    memcpy(to, input->data + offset, bytes);
    return true;
}

static void look(const struct vr_line_table *table, const struct vr_line_sequence *in,
                 uint64_t address) {
    struct vr_code_source source;
    memset(&source, 'x', sizeof source);
    if (vr_line_find(table, in, address, &source)) {
        FUZZ_EXPECT(source.line > 0 && source.file[0] != 0);
        FUZZ_EXPECT(memchr(source.file, 0, sizeof source.file) != NULL);
    } else {
        FUZZ_EXPECT(source.file[0] == 'x');
    }
}

static int fuzz_take(const uint8_t *data, size_t bytes) {
    struct vr_line_sequence list[SEQUENCES];
    if (bytes < 2) {
        return 0;
    }
    size_t lines = (size_t)data[0] + 256 * (size_t)data[1];
    struct input input = {data, bytes};
    struct vr_dwarf_section names = {.offset = 2};
    if (lines > bytes - 2) {
        lines = bytes - 2;
    }
    names.offset += lines;
    names.bytes = bytes - names.offset;
    struct vr_line_table table = {.source = {.read = input_read, .file = &input},
                                  .lines = {.offset = 2, .bytes = lines},
                                  .line_names = names,
                                  .names = names};
    uint32_t count = vr_line_sequences(&table, list, SEQUENCES);
    FUZZ_EXPECT(count <= SEQUENCES);
    for (uint32_t i = 0; i < count; i++) {
        FUZZ_EXPECT(list[i].low < list[i].high && list[i].unit < list[i].program &&
                    list[i].program < lines);
        look(&table, &list[i], list[i].low);
        look(&table, &list[i], list[i].high - 1);
        look(&table, &list[i], list[i].high);
    }
    return 0;
}

FUZZ_TARGET(line_table, .memory_times = 0)

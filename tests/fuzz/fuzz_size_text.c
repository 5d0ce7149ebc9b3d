/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_size_text.c: whatever text a size or a duration is, it is refused, or the number reads back
 * from what is written of it.
 */
#include "fuzz.h"

#include "base/size_text.h"
#include "vram/vram.h"

#include <string.h>

static const char fuzz_words[] = "|K|M|G|T|P|E|iB|KiB|MB|ms|us|ns|s|min|.|0.5|1.5G|+|-| |e9";

enum { TEXT_MAX = 65536 };

static void size_try(const char *text) {
    char written[VR_NUMBER_TEXT_MAX], shown[VRAM_SIZE_TEXT_MAX];
    uint64_t bytes = 7, again, whole = 7;
    vram_status status = vr_size_read(text, &bytes);
    FUZZ_EXPECT(status == VRAM_OK || bytes == 7);
    FUZZ_EXPECT(vram_size_parse(text, &whole) == status && whole == bytes);
    if (status == VRAM_OK) {
        FUZZ_EXPECT(vr_size_read(vr_size_write(bytes, written), &again) == VRAM_OK &&
                    again == bytes);
        FUZZ_EXPECT(strlen(vr_size_format(bytes, shown)) < sizeof shown);
    } else {
        FUZZ_EXPECT(status == VRAM_ERR_INVALID || status == VRAM_ERR_OVERFLOW);
    }
}

static void duration_try(const char *text) {
    char written[VR_NUMBER_TEXT_MAX];
    uint64_t ns = 7, again;
    vram_status status = vr_duration_read(text, &ns);
    FUZZ_EXPECT(status == VRAM_OK || ns == 7);
    FUZZ_EXPECT(
        status != VRAM_OK ||
        (vr_duration_read(vr_duration_write(ns, written), &again) == VRAM_OK && again == ns));
}

static int fuzz_take(const uint8_t *data, size_t bytes) {
    static char text[TEXT_MAX + 1];
    bytes = bytes < TEXT_MAX ? bytes : TEXT_MAX;
    memcpy(text, data, bytes);
    text[bytes] = 0;
    size_try(text);
    duration_try(text);
    return 0;
}

FUZZ_TARGET(size_text, .most = TEXT_MAX)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_suppress.c: whatever a file of suppressions contains, it is read or refused, and its
 * patterns match what a plain search finds. An input is a line, the text that is looked for, then
 * the file.
 */
#include "fuzz.h"

#include "base/memory.h"
#include "base/os/os.h"
#include "track/suppress.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char fuzz_words[] = " leak: leak:^ leak:* $\n * # \n \r\n a*b aaaa";

enum { TEXT_MAX = 200, PATTERN_MAX = 24 };

/* Written anew, not as the library does it: every way is tried. */
static bool plain_match(const char *pattern, size_t bytes, const char *text, bool whole) {
    if (bytes == 0) {
        return !whole || *text == 0;
    }
    if (pattern[0] == '*') {
        for (;; text++) {
            if (plain_match(pattern + 1, bytes - 1, text, whole)) {
                return true;
            }
            if (*text == 0) {
                return false;
            }
        }
    }
    return *text != 0 && *text == pattern[0] &&
           plain_match(pattern + 1, bytes - 1, text + 1, whole);
}

static bool plain_search(const char *pattern, size_t bytes, const char *text) {
    bool first = bytes > 0 && pattern[0] == '^';
    bool last = bytes > first && pattern[bytes - 1] == '$';
    size_t inner = bytes - first - last;
    if (first) {
        return plain_match(pattern + 1, inner, text, last);
    }
    for (;; text++) {
        if (plain_match(pattern, inner, text, last)) {
            return true;
        }
        if (*text == 0) {
            return false;
        }
    }
}

/* Short patterns with few stars: every way is many. */
static void patterns_compare(const char *file, size_t bytes, const char *text) {
    for (size_t at = 0; at < bytes; at++) {
        const char *end = memchr(file + at, '\n', bytes - at);
        size_t length = end ? (size_t)(end - file) - at : bytes - at, stars = 0;
        for (size_t i = 0; i < length; i++) {
            stars += file[at + i] == '*';
        }
        if (length <= PATTERN_MAX && stars <= 2 && strlen(text) <= 40) {
            FUZZ_EXPECT(vr_suppress_matches(file + at, length, text) ==
                        plain_search(file + at, length, text));
        }
        at += length;
    }
}

static int world_file(void) {
    static int file = -1;
    if (file < 0) {
        file = memfd_create("fuzz", MFD_CLOEXEC);
        FUZZ_EXPECT(file >= 0);
    }
    return file;
}

static int fuzz_take(const uint8_t *data, size_t bytes) {
    const uint8_t *newline = bytes ? memchr(data, '\n', bytes) : NULL;
    size_t line = newline ? (size_t)(newline - data) : bytes;
    size_t begin = newline ? line + 1 : bytes, text_bytes = line < TEXT_MAX ? line : TEXT_MAX;
    char text[TEXT_MAX + 1], path[64];
    struct vr_suppressions suppressions;
    memcpy(text, data, text_bytes);
    text[text_bytes] = 0;
    int file = world_file();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    FUZZ_EXPECT(ftruncate(file, 0) == 0 &&
                pwrite(file, data + begin, bytes - begin, 0) == (ssize_t)(bytes - begin));
    if (vr_suppressions_read(path, &suppressions) == VRAM_OK) {
        (void)vr_suppressed(&suppressions, text);
        FUZZ_EXPECT(!vr_suppressed(&suppressions, NULL));
        vr_suppressions_free(&suppressions);
    } else {
        FUZZ_EXPECT(vram_error_get()->text[0] != 0);
    }
    FUZZ_EXPECT(vr_mem_live_blocks() == 0);
    patterns_compare((const char *)data + begin, bytes - begin, text);
    return 0;
}

/* The most that a file may have, 1 MiB, is allocated before one above 16 KiB is read. */
FUZZ_TARGET(suppress, .split = fuzz_split_lines, .memory_more = (1 << 20) + (1 << 16))

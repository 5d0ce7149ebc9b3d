/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utf8_text.c: see utf8_text.h.
 */
#include "utf8_text.h"

#include <stdbool.h>
#include <string.h>

/* Bytes of the character at `text`; 0: it is not UTF-8. */
static unsigned character_bytes(const unsigned char *text) {
    unsigned first = text[0];
    unsigned bytes = first < 0x80                    ? 1
                     : first >= 0xC2 && first < 0xE0 ? 2
                     : first >= 0xE0 && first < 0xF0 ? 3
                     : first >= 0xF0 && first < 0xF5 ? 4
                                                     : 0;
    for (unsigned i = 1; i < bytes; i++) {
        if ((text[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    bool wrong = (first == 0xE0 && text[1] < 0xA0) || (first == 0xED && text[1] >= 0xA0) ||
                 (first == 0xF0 && text[1] < 0x90) || (first == 0xF4 && text[1] >= 0x90);
    return wrong ? 0 : bytes;
}

size_t utf8_copy(const char *text, char *to, size_t bytes) {
    size_t used = 0;
    while (*text != 0) {
        unsigned valid = character_bytes((const unsigned char *)text);
        unsigned taken = valid > 0 ? valid : 1;
        if (used + taken > bytes) {
            break;
        }
        memcpy(to + used, valid > 0 ? text : "?", taken);
        used += taken;
        text += taken;
    }
    return used;
}

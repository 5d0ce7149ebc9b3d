/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pickle_writer.c: see pickle_writer.h.
 */
#include "pickle_writer.h"
#include "utf8_text.h"

enum { SHORT_TEXT_MAX = 255 };

static void put_bytes(FILE *to, int code, uint64_t number, unsigned bytes) {
    putc(code, to);
    for (unsigned i = 0; i < bytes; i++) {
        putc((int)(number >> (8 * i) & 0xFF), to);
    }
}

void pickle_write_begin(FILE *to) {
    put_bytes(to, 0x80, 4, 1);
}

void pickle_write_end(FILE *to) {
    putc('.', to);
}

void pickle_write_dict(FILE *to) {
    putc('}', to);
}

void pickle_write_list(FILE *to) {
    putc(']', to);
}

void pickle_write_mark(FILE *to) {
    putc('(', to);
}

void pickle_write_items(FILE *to) {
    putc('u', to);
}

void pickle_write_appends(FILE *to) {
    putc('e', to);
}

void pickle_write_pair(FILE *to) {
    putc(0x86, to);
}

void pickle_write_false(FILE *to) {
    putc(0x89, to);
}

/* LONG1 is signed: a number with its highest bit set needs one byte more. */
void pickle_write_number(FILE *to, uint64_t number) {
    if (number <= 0xFF) {
        put_bytes(to, 'K', number, 1);
    } else if (number <= 0xFFFF) {
        put_bytes(to, 'M', number, 2);
    } else if (number <= INT32_MAX) {
        put_bytes(to, 'J', number, 4);
    } else {
        unsigned bytes = 4;
        while (bytes < 9 && number >> (8 * bytes - 1) != 0) {
            bytes++;
        }
        put_bytes(to, 0x8a, bytes, 1);
        for (unsigned i = 0; i < bytes; i++) {
            putc(i < 8 ? (int)(number >> (8 * i) & 0xFF) : 0, to);
        }
    }
}

void pickle_write_text(FILE *to, const char *text) {
    char clean[SHORT_TEXT_MAX];
    size_t used = utf8_copy(text, clean, sizeof clean);
    put_bytes(to, 0x8c, used, 1);
    fwrite(clean, 1, used, to);
}

void pickle_write_put(FILE *to, uint32_t memo) {
    if (memo <= 0xFF) {
        put_bytes(to, 'q', memo, 1);
    } else {
        put_bytes(to, 'r', memo, 4);
    }
}

void pickle_write_get(FILE *to, uint32_t memo) {
    if (memo <= 0xFF) {
        put_bytes(to, 'h', memo, 1);
    } else {
        put_bytes(to, 'j', memo, 4);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decimal.h: the one reader of numbers as JSON writes them, for model files and, in the command,
 * for traces. Without floating point, so that no digit is lost, and without state or other headers:
 * the command includes it, too.
 */
#ifndef VR_DECIMAL_H
#define VR_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vr_decimal {
    uint64_t value; /* without its sign, rounded towards 0 */
    bool negative;
    bool exact; /* nothing was rounded */
};

static inline size_t vr_decimal_digits(const char *text, size_t bytes, size_t at) {
    size_t from = at;
    while (at < bytes && text[at] >= '0' && text[at] <= '9') {
        at++;
    }
    return at - from;
}

/* The length of the number that the text begins with, by the grammar of RFC 8259; 0: it begins with
   none. */
static inline size_t vr_decimal_bytes(const char *text, size_t bytes) {
    size_t at = bytes > 0 && text[0] == '-', digits = vr_decimal_digits(text, bytes, at);
    if (digits == 0 || (text[at] == '0' && digits > 1)) {
        return 0;
    }
    at += digits;
    if (at < bytes && text[at] == '.') {
        digits = vr_decimal_digits(text, bytes, at + 1);
        at += 1 + digits;
    }
    if (digits > 0 && at < bytes && (text[at] == 'e' || text[at] == 'E')) {
        at++;
        at += at < bytes && (text[at] == '+' || text[at] == '-');
        digits = vr_decimal_digits(text, bytes, at);
        at += digits;
    }
    return digits > 0 ? at : 0;
}

/* Reads a text that is one number and nothing else, times 10^shift. False: it is not, or 64 bits
   are not enough. */
static inline bool vr_decimal_read(const char *text, size_t bytes, int shift,
                                   struct vr_decimal *number) {
    size_t length = vr_decimal_bytes(text, bytes);
    if (length == 0 || length != bytes) {
        return false;
    }
    struct vr_decimal read = {0, text[0] == '-', true};
    const char *at = text + read.negative, *end = text + bytes, *mantissa_end = at;
    int64_t exponent = 0, power = shift; /* of ten: digits that are still before the point */
    while (mantissa_end < end && *mantissa_end != 'e' && *mantissa_end != 'E') {
        mantissa_end++;
    }
    for (const char *digit = mantissa_end; digit < end; digit++) {
        if (*digit >= '0' && *digit <= '9' && exponent < 1000000) {
            exponent = exponent * 10 + (*digit - '0');
        }
    }
    bool minus = end - mantissa_end > 1 && mantissa_end[1] == '-';
    power += minus ? -exponent : exponent;
    power += (int64_t)vr_decimal_digits(at, (size_t)(mantissa_end - at), 0);
    for (; at < mantissa_end; at++) {
        if (*at != '.' && power-- <= 0) {
            read.exact = read.exact && *at == '0';
        } else if (*at != '.' &&
                   (__builtin_mul_overflow(read.value, 10, &read.value) ||
                    __builtin_add_overflow(read.value, (uint64_t)(*at - '0'), &read.value))) {
            return false;
        }
    }
    for (; power > 0 && read.value != 0; power--) {
        if (__builtin_mul_overflow(read.value, 10, &read.value)) {
            return false;
        }
    }
    *number = read;
    return true;
}

#endif

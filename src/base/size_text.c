/* SPDX-License-Identifier: Apache-2.0 */
/*
 * size_text.c: a quantity is digits, an optional decimal point with more digits, optional spaces,
 * and a unit.
 *
 *  (1) A fraction of a byte (or nanosecond) is dropped: "0.3K" is 307.
 *  (2) But no value is rounded to 0, and the smallest unit takes no decimal point: 0 often means
 *      "no limit", and a limit must not vanish by rounding.
 */
#include "base/size_text.h"

#include "base/error.h"
#include "base/size.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A number as written: whole.fraction, and the start of its unit. */
struct quantity {
    uint64_t whole;
    const char *fraction; /* digits after the point; NULL without a point */
    size_t digits;        /* how many there are */
    const char *unit;
    bool too_large; /* whole does not fit in 64 bits */
};

struct unit {
    const char *name;
    uint64_t factor;
};

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Reads digits into `q->whole` and returns the first character after them. */
static const char *read_whole(const char *at, struct quantity *q) {
    for (; is_digit(*at); at++) {
        uint64_t tens;
        if (!vr_mul(q->whole, 10, &tens) || !vr_add(tens, (uint64_t)(*at - '0'), &q->whole)) {
            q->too_large = true;
        }
    }
    return at;
}

/* False if `text` does not begin with a number, or if spaces are not followed by a unit. */
static bool quantity_read(const char *text, struct quantity *q) {
    *q = (struct quantity){0};
    if (!is_digit(*text)) {
        return false;
    }
    const char *at = read_whole(text, q);
    if (*at == '.') {
        q->fraction = ++at;
        while (is_digit(*at)) {
            at++;
        }
        q->digits = (size_t)(at - q->fraction);
        if (q->digits == 0) {
            return false;
        }
    }
    q->unit = at;
    while (*q->unit == ' ') {
        q->unit++;
    }
    return q->unit == at || *q->unit != '\0';
}

/*
 * floor(0.fraction * factor), exact for any number of digits. From the last digit to the first,
 * floor((d * factor + floor(rest)) / 10) loses nothing, since d * factor is whole. No step passes
 * 10 * factor, which fits for every factor up to 2^60.
 */
static uint64_t scale_fraction(const struct quantity *q, uint64_t factor) {
    uint64_t part = 0;
    for (size_t i = q->digits; i-- > 0;) {
        part = ((uint64_t)(q->fraction[i] - '0') * factor + part) / 10;
    }
    return part;
}

static bool fraction_is_zero(const struct quantity *q) {
    return strspn(q->fraction, "0") >= q->digits;
}

static vram_status quantity_scale(const struct quantity *q, uint64_t factor, uint64_t *out) {
    uint64_t result;
    if (q->fraction && factor == 1) { /* keeps (2) */
        return VRAM_ERR_INVALID;
    }
    uint64_t part = q->fraction ? scale_fraction(q, factor) : 0;
    if (q->too_large || !vr_mul(q->whole, factor, &result) || !vr_add(result, part, &result)) {
        return VRAM_ERR_OVERFLOW;
    }
    if (result == 0 && q->fraction && !fraction_is_zero(q)) { /* keeps (2) */
        return VRAM_ERR_INVALID;
    }
    *out = result;
    return VRAM_OK;
}

/* ---------------------------------------------------------------------- sizes */

static const char prefixes[] = "kmgtpe";

/* The factor of a unit of size; 0 if it is not a unit. */
static uint64_t size_factor(const char *unit) {
    char name[4] = "";
    if (strlen(unit) >= sizeof name) {
        return 0;
    }
    for (size_t i = 0; unit[i]; i++) {
        name[i] = vr_text_lower(unit[i]);
    }
    if (name[0] == '\0' || strcmp(name, "b") == 0) {
        return 1;
    }
    const char *prefix = strchr(prefixes, name[0]);
    bool decimal = strcmp(name + 1, "b") == 0;
    if (!prefix || (!decimal && name[1] != '\0' && strcmp(name + 1, "ib") != 0)) {
        return 0;
    }
    uint64_t factor = 1;
    for (ptrdiff_t power = prefix - prefixes; power >= 0; power--) {
        factor *= decimal ? 1000 : 1024;
    }
    return factor;
}

vram_status vr_size_read(const char *text, uint64_t *bytes) {
    struct quantity q;
    if (!quantity_read(text, &q)) {
        return VRAM_ERR_INVALID;
    }
    uint64_t factor = size_factor(q.unit);
    return factor ? quantity_scale(&q, factor, bytes) : VRAM_ERR_INVALID;
}

vram_status vram_size_parse(const char *text, uint64_t *bytes) {
    VR_CALL;
    if (!text || !bytes) {
        return vr_fail(VRAM_ERR_INVALID, "%s is NULL", text ? "bytes" : "text");
    }
    vram_status status = vr_size_read(text, bytes);
    if (status == VRAM_ERR_OVERFLOW) {
        return vr_fail(status, "\"%.40s\" does not fit in 64 bits", text);
    }
    if (status != VRAM_OK) {
        return vr_fail(status,
                       "\"%.40s\" is not a size; write bytes, or a unit as in 64K, 1.5GiB, 2 MB",
                       text);
    }
    return VRAM_OK;
}

/* bytes / 2^shift in hundredths, rounded to the nearest; `shift` leaves less than 2^14. The
   fraction's digits are computed one by one: ten times a remainder below 2^60 still fits. */
static unsigned hundredths_of(uint64_t bytes, unsigned shift) {
    uint64_t mask = (UINT64_C(1) << shift) - 1;
    uint64_t tenths = (bytes & mask) * 10;
    uint64_t rest = (tenths & mask) * 10 + (mask >> 1) + 1;
    return (unsigned)((bytes >> shift) * 100 + (tenths >> shift) * 10 + (rest >> shift));
}

const char *vr_size_format(uint64_t bytes, char text[VRAM_SIZE_TEXT_MAX]) {
    static const char names[] = "KMGTPE";
    if (!text) {
        return NULL;
    }
    if (bytes < VR_KIB) {
        snprintf(text, VRAM_SIZE_TEXT_MAX, "%" PRIu64 " B", bytes);
        return text;
    }
    unsigned power = vr_high_bit(bytes) / 10;
    unsigned hundredths = hundredths_of(bytes, 10 * power);
    if (hundredths >= 102400) { /* rounding reached the next unit: 1023.999 KiB is 1.00 MiB */
        hundredths = hundredths_of(bytes, 10 * ++power);
    }
    snprintf(text, VRAM_SIZE_TEXT_MAX, "%u.%02u %ciB", hundredths / 100, hundredths % 100,
             names[power - 1]);
    return text;
}

const char *vram_size_format(uint64_t bytes, char text[VRAM_SIZE_TEXT_MAX]) {
    return vr_size_format(bytes, text);
}

/* ------------------------------------------------------------------ durations */

/* In descending order, so that writing finds the largest unit that divides the number. */
static const struct unit durations[] = {
    {"min", UINT64_C(60000000000)}, {"s", 1000000000}, {"ms", 1000000}, {"us", 1000}, {"ns", 1}};

vram_status vr_duration_read(const char *text, uint64_t *ns) {
    struct quantity q;
    if (!quantity_read(text, &q)) {
        return VRAM_ERR_INVALID;
    }
    for (size_t i = 0; i < sizeof durations / sizeof durations[0]; i++) {
        if (strcmp(q.unit, durations[i].name) == 0) {
            return quantity_scale(&q, durations[i].factor, ns);
        }
    }
    /* The unit of a bare number is unknown; only 0 is the same in all. */
    if (*q.unit == '\0' && q.whole == 0 && !q.fraction) { /* one too large is not 0 */
        *ns = 0;
        return VRAM_OK;
    }
    return VRAM_ERR_INVALID;
}

static const char *write_exact(uint64_t value, const struct unit *units, size_t count,
                               char text[VR_NUMBER_TEXT_MAX]) {
    size_t i = 0;
    while (i + 1 < count && (value == 0 || value % units[i].factor != 0)) {
        i++;
    }
    snprintf(text, VR_NUMBER_TEXT_MAX, "%" PRIu64 "%s", value / units[i].factor, units[i].name);
    return text;
}

const char *vr_duration_write(uint64_t ns, char text[VR_NUMBER_TEXT_MAX]) {
    return write_exact(ns, durations, sizeof durations / sizeof durations[0], text);
}

const char *vr_size_write(uint64_t bytes, char text[VR_NUMBER_TEXT_MAX]) {
    static const struct unit sizes[] = {
        {"T", VR_GIB * 1024}, {"G", VR_GIB}, {"M", VR_MIB}, {"K", VR_KIB}, {"", 1}};
    return write_exact(bytes, sizes, sizeof sizes / sizeof sizes[0], text);
}

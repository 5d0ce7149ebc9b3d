/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_check.h: whether some text is JSON, by RFC 8259 to the letter: one value, valid UTF-8, no
 * raw control characters, surrogates only in pairs, no number that begins with a point or
 * a needless 0. Shares no code with the writer, so that it can find the writer's mistakes.
 */
#ifndef JSON_CHECK_H
#define JSON_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { JSON_CHECK_DEPTH = 128 };

struct json_check {
    const unsigned char *at, *end;
    unsigned depth;
};

static inline bool json_check_value(struct json_check *c);

static inline bool json_check_byte(struct json_check *c, unsigned char byte) {
    if (c->at < c->end && *c->at == byte) {
        c->at++;
        return true;
    }
    return false;
}

static inline void json_check_space(struct json_check *c) {
    while (c->at < c->end &&
           (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r')) {
        c->at++;
    }
}

static inline bool json_check_word(struct json_check *c, const char *word) {
    size_t bytes = strlen(word);
    if ((size_t)(c->end - c->at) < bytes || memcmp(c->at, word, bytes) != 0) {
        return false;
    }
    c->at += bytes;
    return true;
}

static inline bool json_check_digits(struct json_check *c) {
    const unsigned char *start = c->at;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9') {
        c->at++;
    }
    return c->at > start;
}

static inline bool json_check_number(struct json_check *c) {
    json_check_byte(c, '-');
    if (!json_check_byte(c, '0') && !json_check_digits(c)) {
        return false;
    }
    if (json_check_byte(c, '.') && !json_check_digits(c)) {
        return false;
    }
    if (json_check_byte(c, 'e') || json_check_byte(c, 'E')) {
        if (!json_check_byte(c, '-')) {
            json_check_byte(c, '+');
        }
        return json_check_digits(c);
    }
    return true;
}

/* Four hexadecimal digits; -1 when they are not there. */
static inline long json_check_hex(struct json_check *c) {
    long code = 0;
    for (int i = 0; i < 4; i++, c->at++) {
        const char *digits = "0123456789abcdef0123456789ABCDEF";
        const char *digit = c->at < c->end && *c->at ? strchr(digits, *c->at) : NULL;
        if (!digit) {
            return -1;
        }
        code = code * 16 + (digit - digits) % 16;
    }
    return code;
}

static inline bool json_check_escape(struct json_check *c) {
    if (c->at < c->end && *c->at && strchr("\"\\/bfnrt", *c->at)) {
        c->at++;
        return true;
    }
    if (!json_check_byte(c, 'u')) {
        return false;
    }
    long code = json_check_hex(c);
    if (code < 0 || (code >= 0xDC00 && code <= 0xDFFF)) {
        return false;
    }
    if (code < 0xD800 || code > 0xDBFF) {
        return true;
    }
    long low = json_check_word(c, "\\u") ? json_check_hex(c) : -1;
    return low >= 0xDC00 && low <= 0xDFFF;
}

/* One UTF-8 character, by the table of RFC 3629. */
static inline bool json_check_utf8(struct json_check *c) {
    unsigned char lead = *c->at++;
    unsigned char low = 0x80, high = 0xBF;
    int more;
    if (lead < 0x80) {
        return lead >= 0x20;
    } else if (lead >= 0xC2 && lead <= 0xDF) {
        more = 1;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
        more = 2;
        low = lead == 0xE0 ? 0xA0 : low;
        high = lead == 0xED ? 0x9F : high;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
        more = 3;
        low = lead == 0xF0 ? 0x90 : low;
        high = lead == 0xF4 ? 0x8F : high;
    } else {
        return false;
    }
    for (; more > 0; more--, low = 0x80, high = 0xBF) {
        if (c->at >= c->end || *c->at < low || *c->at > high) {
            return false;
        }
        c->at++;
    }
    return true;
}

static inline bool json_check_string(struct json_check *c) {
    if (!json_check_byte(c, '"')) {
        return false;
    }
    while (c->at < c->end) {
        if (json_check_byte(c, '"')) {
            return true;
        }
        bool good = json_check_byte(c, '\\') ? json_check_escape(c) : json_check_utf8(c);
        if (!good) {
            return false;
        }
    }
    return false;
}

/* The inside of an object or array up to `close`. */
static inline bool json_check_members(struct json_check *c, bool object, unsigned char close) {
    json_check_space(c);
    if (json_check_byte(c, close)) {
        return true;
    }
    for (;;) {
        json_check_space(c);
        if (object) {
            if (!json_check_string(c)) {
                return false;
            }
            json_check_space(c);
            if (!json_check_byte(c, ':')) {
                return false;
            }
        }
        if (!json_check_value(c)) {
            return false;
        }
        if (json_check_byte(c, close)) {
            return true;
        }
        if (!json_check_byte(c, ',')) {
            return false;
        }
    }
}

/* A value with the blanks around it. */
static inline bool json_check_value(struct json_check *c) {
    bool good = false;
    json_check_space(c);
    if (c->at < c->end && c->depth < JSON_CHECK_DEPTH) {
        c->depth++;
        if (*c->at == '{' || *c->at == '[') {
            bool object = *c->at++ == '{';
            good = json_check_members(c, object, object ? '}' : ']');
        } else if (*c->at == '"') {
            good = json_check_string(c);
        } else {
            good = json_check_word(c, "true") || json_check_word(c, "false") ||
                   json_check_word(c, "null") || json_check_number(c);
        }
        c->depth--;
    }
    json_check_space(c);
    return good;
}

/* Whether `bytes` bytes of `text` are one JSON document and nothing else. */
static inline bool json_check(const char *text, size_t bytes) {
    struct json_check c = {(const unsigned char *)text, (const unsigned char *)text + bytes, 0};
    return json_check_value(&c) && c.at == c.end;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_scan.h: the tokens of a JSON text of any size, one at a time. The structure is checked; of a
 * text the first JSON_SCAN_TEXT_MAX bytes are kept.
 *
 * src/model/json_reader.h is for files that are held in memory whole, which a trace is not, and
 * refuses what is not UTF-8, of which names in traces have some. Both read numbers by
 * src/base/decimal.h.
 */
#ifndef FORMATS_JSON_SCAN_H
#define FORMATS_JSON_SCAN_H

#include "replay/trace_source.h"

enum { JSON_SCAN_TEXT_MAX = 255, JSON_SCAN_DEPTH_MAX = 64 };

#define JSON_SCAN_MARK "\xef\xbb\xbf" /* a byte order mark, which may stand before a text */

enum json_kind {
    JSON_END, /* behind the last token */
    JSON_OBJECT_BEGIN,
    JSON_OBJECT_END,
    JSON_ARRAY_BEGIN,
    JSON_ARRAY_END,
    JSON_KEY,
    JSON_TEXT,
    JSON_NUMBER,
    JSON_WORD /* true, false or null */
};

struct json_scan {
    struct trace_source *source;
    uint64_t offset; /* bytes read */
    size_t begin, end;
    enum json_kind kind;
    char text[JSON_SCAN_TEXT_MAX + 1]; /* of a key, a text, a number or a word */
    size_t text_bytes;
    uint32_t depth;                    /* open objects and arrays */
    bool objects[JSON_SCAN_DEPTH_MAX]; /* by level: it is an object */
    bool expects_value, expects_key;   /* what may come next */
    bool may_end;                      /* the present object or array may end here */
    bool done;                         /* the one value is whole */
    const char *problem;
    uint8_t buffer[SOURCE_PIECE_BYTES];
};

void json_scan_begin(struct json_scan *scan, struct trace_source *source);

/* The next token. False with the problem set. */
bool json_scan_next(struct json_scan *scan);

/* Skips the rest of the object or array whose begin was the last token. */
bool json_scan_skip(struct json_scan *scan);

#endif

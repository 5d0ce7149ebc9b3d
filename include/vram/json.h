/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/json.h: a small JSON writer, the one all of libvram's reports go through.
 *
 * Streams to a callback, allocates nothing, escapes everything (invalid UTF-8 becomes U+FFFD), and
 * cannot produce malformed JSON: misuse (a value without a key inside an object, more than 32
 * levels, an unbalanced end) sets an error that vram_json_end reports.
 */
#ifndef VRAM_JSON_H
#define VRAM_JSON_H

#include <vram/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Takes `bytes` bytes; returns false when it cannot, after which nothing more is written. */
typedef bool vram_json_write_fn(void *user, const char *text, size_t bytes);

#define VRAM_JSON_DEPTH_MAX 32

/** A writer. Lives where the caller puts it; fields are the writer's own. */
typedef struct vram_json {
    vram_json_write_fn *write;
    void *user;
    uint32_t depth;       /* open objects and arrays */
    uint32_t object_bits; /* bit d: level d is an object */
    uint32_t filled_bits; /* bit d: level d has an element already */
    bool pretty;          /* line breaks and two spaces a level */
    bool done;            /* the one top value is complete */
    vram_status status;   /* first failure */
    const char *mistake;  /* what was misused, for the error's text; NULL when nothing was */
} vram_json;

/** Starts a document. Pretty or not, no line break is written behind its end. */
VRAM_API void vram_json_begin(vram_json *json, vram_json_write_fn *write, void *user, bool pretty);

/** Ends it: VRAM_OK, VRAM_ERR_IO when the callback refused, VRAM_ERR_INVALID after misuse. */
VRAM_API vram_status vram_json_end(vram_json *json);

/*
 * Elements. `key` is the name inside an object and NULL inside an array or at the top.
 */

VRAM_API void vram_json_object_begin(vram_json *json, const char *key);
VRAM_API void vram_json_object_end(vram_json *json);
VRAM_API void vram_json_array_begin(vram_json *json, const char *key);
VRAM_API void vram_json_array_end(vram_json *json);

/** A string; NULL writes null. */
VRAM_API void vram_json_text(vram_json *json, const char *key, const char *text);
VRAM_API void vram_json_unsigned(vram_json *json, const char *key, uint64_t value);
VRAM_API void vram_json_signed(vram_json *json, const char *key, int64_t value);
/** Shortest text that reads back the same; what is not finite becomes null. */
VRAM_API void vram_json_number(vram_json *json, const char *key, double value);
VRAM_API void vram_json_bool(vram_json *json, const char *key, bool value);
VRAM_API void vram_json_null(vram_json *json, const char *key);
/** The number when it is known, null when not. */
VRAM_API void vram_json_value(vram_json *json, const char *key, vram_value value);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.h: the JSON writer of the library's reports.
 *
 * Allocates nothing, escapes everything (invalid UTF-8 becomes U+FFFD), and cannot produce
 * malformed JSON. A mistake in the library's own calls (a value without a key inside an object,
 * more than 32 levels, an unbalanced end) stops the output, and vr_json_document_end reports it.
 *
 * src/model/json_reader.h reads JSON; the command has a writer of its own, cli/json_out.h.
 */
#ifndef VR_JSON_H
#define VR_JSON_H

#include "base/writer.h"

#define VR_JSON_LEVELS_MAX 32

struct vr_json {
    struct vr_writer *writer;
    uint32_t depth;       /* open objects and arrays */
    uint32_t object_bits; /* bit d: level d is an object */
    uint32_t filled_bits; /* bit d: level d has an element already */
    bool done;            /* the one top value is complete */
    const char *mistake;  /* the first mistake, for the error text; NULL: none */
};

/* Writes line breaks, and two spaces per level. */
void vr_json_document_begin(struct vr_json *json, struct vr_writer *writer);

/* Writes the last line break. VRAM_ERR_IO if the callback refused, VRAM_ERR_INVALID after a
   mistake. */
vram_status vr_json_document_end(struct vr_json *json, const char *operation);

/* Elements. `key` is the name inside an object, and NULL inside an array and at the top level. */
void vr_json_object_begin(struct vr_json *json, const char *key);
void vr_json_object_end(struct vr_json *json);
void vr_json_array_begin(struct vr_json *json, const char *key);
void vr_json_array_end(struct vr_json *json);

/* A string; NULL writes null. */
void vr_json_text(struct vr_json *json, const char *key, const char *text);
void vr_json_unsigned(struct vr_json *json, const char *key, uint64_t value);
void vr_json_bool(struct vr_json *json, const char *key, bool value);
/* "0x7f60c0000000"; 0 writes null. A string, because addresses are larger than 2^53, up to which
   readers that know only doubles are exact. */
void vr_json_address(struct vr_json *json, const char *key, uint64_t addr);
/* The shortest text that reads back as the same value; null if it is not finite. */
void vr_json_number(struct vr_json *json, const char *key, double value);
/* The number if it is known, else null. */
void vr_json_value(struct vr_json *json, const char *key, vram_value value);

#endif

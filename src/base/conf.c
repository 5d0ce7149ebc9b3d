/* SPDX-License-Identifier: Apache-2.0 */
#include "base/conf.h"

#include <string.h>

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

static const char *skip_blanks(const char *at) {
    while (is_blank(*at)) {
        at++;
    }
    return at;
}

/* Length of [from, to) without trailing blanks. */
static size_t trimmed_length(const char *from, const char *to) {
    while (to > from && is_blank(to[-1])) {
        to--;
    }
    return (size_t)(to - from);
}

/* Reads a value whose opening quote is at `at`; returns the end of the entry. A malformed entry
   ends at the next comma, so that one mistake does not discard the rest of the text. After a quote
   that is never closed the rest is discarded, since the intended end is unknown. */
static const char *read_quoted(const char *at, struct vr_conf_entry *entry) {
    const char *close = strchr(++at, '"');
    if (!close) {
        entry->problem = "has a quote that is never closed";
        return at + strlen(at);
    }
    entry->value = at;
    entry->value_bytes = (size_t)(close - at);
    entry->quoted = true;
    const char *end = skip_blanks(close + 1);
    if (*end != '\0' && *end != ',') {
        entry->problem = "has text after the closing quote";
        end += strcspn(end, ",");
    }
    return end;
}

bool vr_conf_next(const char **cursor, struct vr_conf_entry *entry) {
    const char *at = *cursor;
    while (is_blank(*at) || *at == ',') {
        at++;
    }
    *entry = (struct vr_conf_entry){.key = at};
    *cursor = at;
    if (*at == '\0') {
        return false;
    }
    const char *stop = at + strcspn(at, "=,");
    entry->key_bytes = trimmed_length(at, stop);
    if (*stop != '=') {
        entry->problem = "has no value; write key=value";
        *cursor = stop;
        return true;
    }
    at = skip_blanks(stop + 1);
    if (*at == '"') {
        *cursor = read_quoted(at, entry);
        return true;
    }
    *cursor = at + strcspn(at, ",");
    entry->value = at;
    entry->value_bytes = trimmed_length(at, *cursor);
    return true;
}

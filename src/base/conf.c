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

/* Bytes of [from, to) without the blanks at its end. */
static size_t trimmed(const char *from, const char *to) {
    while (to > from && is_blank(to[-1])) {
        to--;
    }
    return (size_t)(to - from);
}

/* Reads a value whose opening quote is at `at`; gives the end of the entry. A broken entry ends at
   the next comma, so that one slip does not take the rest of the text with it; only a quote that
   never closes does, since nobody can say where it was meant to. */
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
        entry->problem = "has text behind the closing quote";
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
    entry->key_bytes = trimmed(at, stop);
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
    entry->value_bytes = trimmed(at, *cursor);
    return true;
}

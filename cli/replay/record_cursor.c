/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record_cursor.c: see record_cursor.h.
 */
#include "record_cursor.h"

#include <stdlib.h>
#include <string.h>

void cursor_refuse(struct cursor *cursor, const char *why) {
    cursor->wrong = cursor->wrong != NULL ? cursor->wrong : why;
}

/* ------------------------------------------------------------------- numbers */

uint64_t cursor_number(struct cursor *cursor) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (cursor->at == cursor->end) {
            cursor->cut_short = true;
            return 0;
        }
        uint8_t byte = *cursor->at++;
        if (shift == 63 && byte > 1) {
            break;
        }
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            return value;
        }
    }
    cursor_refuse(cursor, "a number has more than 64 bits");
    return 0;
}

uint64_t cursor_difference(struct cursor *cursor, uint64_t *last) {
    uint64_t zigzag = cursor_number(cursor);
    *last += zigzag >> 1 ^ (zigzag & 1 ? UINT64_MAX : 0);
    return *last;
}

uint64_t cursor_sum(struct cursor *cursor, uint64_t one, uint64_t other) {
    if (one > UINT64_MAX - other) {
        cursor_refuse(cursor, "a sum does not fit in 64 bits");
        return UINT64_MAX;
    }
    return one + other;
}

/* --------------------------------------------------------------- definitions */

const struct definition *cursor_definition(struct cursor *cursor, enum definition_kind kind,
                                           uint32_t *which) {
    uint64_t own = cursor_number(cursor);
    *which = 0;
    if (own == 0 || cursor->cut_short || cursor->wrong != NULL) {
        return NULL;
    }
    const struct definition *definition =
        own <= cursor->definitions->count ? &cursor->definitions->all[own - 1] : NULL;
    if (definition == NULL || definition->kind != kind) {
        cursor_refuse(cursor, "a number refers to something that was not defined");
        return NULL;
    }
    *which = (uint32_t)own;
    return definition;
}

const char *cursor_text(struct cursor *cursor, uint32_t *which) {
    const struct definition *definition = cursor_definition(cursor, DEFINITION_TEXT, which);
    return definition != NULL ? definition->text : "";
}

static char *read_text(struct cursor *cursor) {
    uint64_t bytes = cursor_number(cursor);
    if (cursor->cut_short || cursor->wrong != NULL) {
        return NULL;
    }
    if (bytes > RECORDING_TEXT_MAX) {
        cursor_refuse(cursor, "a text is longer than 255 bytes");
        return NULL;
    }
    if (bytes > (uint64_t)(cursor->end - cursor->at)) {
        cursor->cut_short = true;
        return NULL;
    }
    char *text = calloc(bytes + 1, 1);
    if (text == NULL) {
        cursor_refuse(cursor, "out of host memory");
        return NULL;
    }
    memcpy(text, cursor->at, bytes);
    cursor->at += bytes;
    for (uint64_t i = 0; i < bytes; i++) {
        text[i] = text[i] != 0 ? text[i] : '?';
    }
    return text;
}

static uint32_t *read_frames(struct cursor *cursor, uint8_t *count) {
    uint64_t frames = cursor_number(cursor);
    if (frames > RECORDING_FRAMES_MAX) {
        cursor_refuse(cursor, "a stack has more than 64 frames");
    }
    if (cursor->cut_short || cursor->wrong != NULL) {
        return NULL;
    }
    uint32_t *numbers = calloc(frames + 1, sizeof *numbers);
    if (numbers == NULL) {
        cursor_refuse(cursor, "out of host memory");
        return NULL;
    }
    *count = (uint8_t)frames;
    for (uint64_t i = 0; i < frames; i++) {
        cursor_definition(cursor, DEFINITION_FRAME, &numbers[i]);
    }
    return numbers;
}

static void forget(struct definition *definition) {
    if (definition->kind == DEFINITION_STACK) {
        free(definition->frames);
    } else {
        free(definition->text);
    }
    memset(definition, 0, sizeof *definition);
}

static bool same(const struct definition *one, const struct definition *other) {
    if (one->kind != other->kind || one->handle != other->handle || one->device != other->device ||
        one->count != other->count) {
        return false;
    }
    if (one->kind == DEFINITION_STACK) {
        return memcmp(one->frames, other->frames, one->count * sizeof one->frames[0]) == 0;
    }
    return one->text == NULL || strcmp(one->text, other->text) == 0;
}

/* The place of a number that may be defined; NULL: no memory. */
static struct definition *place_of(struct definitions *definitions, uint64_t own) {
    size_t count = definitions->count;
    if (own > count) {
        size_t wanted = count > 0 ? count : 32;
        while (wanted < own) {
            wanted *= 2;
        }
        struct definition *grown = realloc(definitions->all, wanted * sizeof *grown);
        if (grown == NULL) {
            return NULL;
        }
        memset(grown + count, 0, (wanted - count) * sizeof *grown);
        definitions->all = grown;
        definitions->count = wanted;
    }
    return &definitions->all[own - 1];
}

/* Every chunk defines what it speaks of; a number always stands for the same. */
void cursor_define(struct cursor *cursor, enum definition_kind kind) {
    struct definition made = {.kind = (uint8_t)kind};
    uint64_t own = cursor_number(cursor);
    if (!cursor->cut_short && (own == 0 || own > RECORDING_DEFINITIONS_MAX)) {
        cursor_refuse(cursor, "a number is defined that is out of range");
    }
    if (kind == DEFINITION_THREAD || kind == DEFINITION_QUEUE || kind == DEFINITION_POOL) {
        made.handle = cursor_number(cursor);
    }
    if (kind == DEFINITION_POOL) {
        made.device = cursor_number(cursor);
    }
    if (kind == DEFINITION_STACK) {
        made.frames = read_frames(cursor, &made.count);
    } else if (kind != DEFINITION_THREAD && kind != DEFINITION_QUEUE) {
        made.text = read_text(cursor);
    }
    if (cursor->cut_short || cursor->wrong != NULL) {
        forget(&made);
        return;
    }
    struct definition *place = place_of(cursor->definitions, own);
    if (place != NULL && place->kind == 0) {
        *place = made;
        return;
    }
    if (place == NULL) {
        cursor_refuse(cursor, "out of host memory");
    } else if (!same(place, &made)) {
        cursor_refuse(cursor, "a number is defined again as something else");
    }
    forget(&made);
}

void definitions_free(struct definitions *definitions) {
    for (size_t i = 0; i < definitions->count; i++) {
        forget(&definitions->all[i]);
    }
    free(definitions->all);
    *definitions = (struct definitions){NULL, 0};
}

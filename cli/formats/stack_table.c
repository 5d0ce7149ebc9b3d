/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack_table.c: see stack_table.h.
 */
#include "stack_table.h"

#include <stdio.h>
#include <string.h>

bool stack_table_begin(struct stack_table *table, uint64_t *budget) {
    bool texts = interner_begin(&table->texts, budget);
    bool frames = interner_begin(&table->frames, budget);
    return interner_begin(&table->stacks, budget) && texts && frames;
}

void stack_table_free(struct stack_table *table) {
    interner_free(&table->texts);
    interner_free(&table->frames);
    interner_free(&table->stacks);
}

/* A text ends at its first zero byte, and is not cut inside a character. */
uint32_t stack_table_text(struct stack_table *table, const char *text, size_t bytes) {
    const char *zero = memchr(text, 0, bytes);
    bytes = zero != NULL ? (size_t)(zero - text) : bytes;
    if (bytes > STACK_TABLE_TEXT_MAX) {
        bytes = STACK_TABLE_TEXT_MAX;
        while (bytes > 0 && ((unsigned char)text[bytes] & 0xC0) == 0x80) {
            bytes--;
        }
    }
    return interner_number(&table->texts, text, bytes);
}

uint32_t stack_table_frame(struct stack_table *table, const struct stack_frame *frame) {
    return interner_number(&table->frames, frame, sizeof *frame);
}

uint32_t stack_table_stack(struct stack_table *table, const uint32_t *frames, size_t count) {
    count = count < STACK_TABLE_FRAMES_MAX ? count : STACK_TABLE_FRAMES_MAX;
    return interner_number(&table->stacks, frames, count * sizeof *frames);
}

uint32_t stack_table_depth(const struct stack_table *table, uint32_t stack) {
    size_t bytes;
    interner_get(&table->stacks, stack, &bytes);
    return (uint32_t)(bytes / sizeof(uint32_t));
}

static bool is_known(const char *file) {
    return file[0] != 0 && strcmp(file, "??") != 0;
}

const char *stack_table_write(const struct stack_table *table, uint32_t stack, uint32_t index,
                              char text[STACK_TABLE_TEXT_MAX + 1]) {
    size_t bytes;
    uint32_t number;
    struct stack_frame frame;
    const uint8_t *numbers = interner_get(&table->stacks, stack, &bytes);
    if (numbers == NULL || index >= bytes / sizeof number) {
        return NULL;
    }
    memcpy(&number, numbers + index * sizeof number, sizeof number);
    const void *known = interner_get(&table->frames, number, &bytes);
    if (known == NULL) {
        return "?";
    }
    memcpy(&frame, known, sizeof frame);
    const char *file = interner_text(&table->texts, frame.file);
    const char *name = interner_text(&table->texts, frame.name);
    int room = STACK_TABLE_TEXT_MAX + 1;
    if (!is_known(file)) {
        snprintf(text, (size_t)room, "%s", name);
    } else if (frame.line == 0) {
        snprintf(text, (size_t)room, "%.160s (%.90s)", name, file);
    } else { /* the end of a path says the most */
        size_t length = strlen(file), cut = length > 80 ? length - 80 : 0;
        snprintf(text, (size_t)room, "%.150s (%s%s:%u)", name, cut > 0 ? "..." : "", file + cut,
                 frame.line);
    }
    return text;
}

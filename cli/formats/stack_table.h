/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack_table.h: the texts, frames and stacks of a trace that is not the library's own.
 */
#ifndef FORMATS_STACK_TABLE_H
#define FORMATS_STACK_TABLE_H

#include "interner.h"

enum {
    STACK_TABLE_FRAMES_MAX = 256, /* of one stack, the innermost first; more are left out */
    STACK_TABLE_TEXT_MAX = 255    /* bytes of a frame's text; a longer one is cut */
};

struct stack_table {
    struct interner texts, frames, stacks;
};

/* A frame by the numbers of its texts. */
struct stack_frame {
    uint32_t name, file, line;
};

bool stack_table_begin(struct stack_table *table, uint64_t *budget);
void stack_table_free(struct stack_table *table);

/* Numbers; 0: no memory. A text that is longer than STACK_TABLE_TEXT_MAX is cut. */
uint32_t stack_table_text(struct stack_table *table, const char *text, size_t bytes);
uint32_t stack_table_frame(struct stack_table *table, const struct stack_frame *frame);
uint32_t stack_table_stack(struct stack_table *table, const uint32_t *frames, size_t count);

/* How many frames a stack has; 0 for no stack. */
uint32_t stack_table_depth(const struct stack_table *table, uint32_t stack);

/* Frame `index` of a stack as "name (file:line)", the innermost first, in memory of the caller's;
   NULL behind the outermost. */
const char *stack_table_write(const struct stack_table *table, uint32_t stack, uint32_t index,
                              char text[STACK_TABLE_TEXT_MAX + 1]);

#endif

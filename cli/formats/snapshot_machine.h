/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot_machine.h: carries out the operations of a pickle, and turns each dictionary of a
 * snapshot into its compact form as soon as it is complete.
 *
 * (1) A value on the stack or in the memo is a number, a text, or refers to an object: a list or
 *     dictionary that is still being filled. Once complete it is a frame, a stack, an entry, a
 *     block, a segment or a note, and the object is used again.
 * (2) An entry is on the stack once, and gone when it went into its list: no snapshot refers to it
 *     a second time. What refers to it nevertheless reads as None.
 */
#ifndef FORMATS_SNAPSHOT_MACHINE_H
#define FORMATS_SNAPSHOT_MACHINE_H

#include "pickle.h"
#include "snapshot_data.h"

enum value_kind {
    VALUE_NONE,
    VALUE_NUMBER,
    VALUE_TEXT,    /* number of a text */
    VALUE_PAIR,    /* a tuple of two numbers: its number in data->pairs */
    VALUE_OBJECT,  /* a list, tuple or dictionary: index in `objects` */
    VALUE_FRAME,   /* number of a frame */
    VALUE_STACK,   /* number of a stack */
    VALUE_EVENT,   /* index in `pending` */
    VALUE_BLOCK,   /* index in data->blocks */
    VALUE_SEGMENT, /* index in data->segments */
    VALUE_NOTE     /* index in data->notes */
};

struct value {
    enum value_kind kind;
    uint64_t data;
};

enum object_kind { OBJECT_FREE, OBJECT_LIST, OBJECT_DICT, OBJECT_EVENTS };

/* One byte of a pickle makes an object, so that what it takes bounds the memory of reading one. */
struct object {
    uint8_t kind;  /* enum object_kind */
    bool shared;   /* it was put into the memo more than once */
    uint32_t memo; /* place in the memo and 1; 0: none */
    union {
        struct value *items;           /* of a dictionary: keys and values in turn */
        struct snapshot_event *events; /* of OBJECT_EVENTS */
    };
    uint32_t count, capacity; /* of these; of a free one: the next that is free, and 1 */
};

struct snapshot_machine {
    struct pickle pickle;
    struct snapshot_data *data;
    struct value *stack;
    size_t stack_count, stack_capacity;
    size_t *marks;
    size_t mark_count, mark_capacity;
    uint64_t *memo; /* kind in the upper byte, data below */
    size_t memo_count, memo_capacity;
    struct object *objects;
    uint32_t object_count, object_capacity, object_unused;
    struct snapshot_event *pending; /* entries that are in no list yet */
    uint32_t *pending_unused;
    uint32_t pending_count, pending_capacity, pending_unused_count;
};

/* Runs until the end of the pickle; *top is its value. False with pickle.problem set. */
bool snapshot_machine_run(struct snapshot_machine *machine, struct value *top);
void snapshot_machine_free(struct snapshot_machine *machine);

/* Always false: out of memory, or of the budget. */
bool snapshot_machine_refuse_memory(struct snapshot_machine *machine);

/* The object of a value; NULL when it is none of that kind. */
struct object *snapshot_machine_object(struct snapshot_machine *machine, struct value value,
                                       enum object_kind kind);
/* Gives the object of a value back, where it is one that nothing else refers to. */
void snapshot_machine_give(struct snapshot_machine *machine, struct value value);

/* The text of a value; "" when it is none. */
const char *snapshot_machine_text(const struct snapshot_machine *machine, struct value value);

/* snapshot_entries.c: what a dictionary of `count` keys and values is. *entry stays as it is for
   one that is of no known kind. False: no memory. */
bool snapshot_entry_make(struct snapshot_machine *machine, const struct value *items, size_t count,
                         struct value *entry);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot_machine.c: see snapshot_machine.h.
 */
#include "snapshot_machine.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { STACK_MAX = 1 << 22, MARKS_MAX = 1 << 16, KIND_SHIFT = 56, FIRST = 64 };

bool snapshot_machine_refuse_memory(struct snapshot_machine *machine) {
    return pickle_refuse(&machine->pickle,
                         machine->data->budget < (UINT64_C(64) << 20)
                             ? "the snapshot needs more than 1 GB of memory to be read; record a "
                               "shorter history (max_entries of _record_memory_history)"
                             : "out of host memory");
}

/* Makes place for one more element of an array that grows; `first` elements if it has none yet. */
static bool grow(struct snapshot_machine *machine, void *array, size_t *capacity, size_t bytes,
                 size_t first) {
    void **at = array;
    size_t wanted = *capacity > 0 ? *capacity * 2 : first;
    if (*capacity >= (size_t)1 << 20) {
        wanted = *capacity + *capacity / 4; /* less unused memory where it matters */
    }
    void *grown = budget_grow(&machine->data->budget, *at, *capacity * bytes, wanted * bytes);
    if (grown == NULL) {
        return snapshot_machine_refuse_memory(machine);
    }
    *at = grown;
    *capacity = wanted;
    return true;
}

static bool grow_small(struct snapshot_machine *machine, void *array, uint32_t *capacity,
                       size_t bytes, size_t first) {
    size_t wide = *capacity;
    if (wide >= UINT32_C(1) << 30 || !grow(machine, array, &wide, bytes, first)) {
        return snapshot_machine_refuse_memory(machine);
    }
    *capacity = (uint32_t)wide;
    return true;
}

/* ---------------------------------------------------------------------- stack */

static bool push(struct snapshot_machine *machine, struct value value) {
    if (machine->stack_count == STACK_MAX) {
        return pickle_refuse(&machine->pickle, "the pickle nests too much");
    }
    if (machine->stack_count == machine->stack_capacity &&
        !grow(machine, &machine->stack, &machine->stack_capacity, sizeof *machine->stack, FIRST)) {
        return false;
    }
    machine->stack[machine->stack_count++] = value;
    return true;
}

/* The stack below which nothing may be taken: the last mark. */
static size_t bottom(const struct snapshot_machine *machine) {
    return machine->mark_count > 0 ? machine->marks[machine->mark_count - 1] : 0;
}

static bool need(struct snapshot_machine *machine, size_t count) {
    return machine->stack_count - bottom(machine) >= count ||
           pickle_refuse(&machine->pickle, "the pickle takes a value that is not there");
}

/* The top of the stack once more; an entry reads as None: keeps (2). */
static bool push_copy(struct snapshot_machine *machine) {
    if (!need(machine, 1)) {
        return false;
    }
    struct value value = machine->stack[machine->stack_count - 1];
    return push(machine, value.kind == VALUE_EVENT ? (struct value){VALUE_NONE, 0} : value);
}

static bool push_mark(struct snapshot_machine *machine) {
    if (machine->mark_count == MARKS_MAX) {
        return pickle_refuse(&machine->pickle, "the pickle nests too much");
    }
    if (machine->mark_count == machine->mark_capacity &&
        !grow(machine, &machine->marks, &machine->mark_capacity, sizeof *machine->marks, FIRST)) {
        return false;
    }
    machine->marks[machine->mark_count++] = machine->stack_count;
    return true;
}

/* Takes the last mark; *first is where what is behind it begins. */
static bool take_mark(struct snapshot_machine *machine, size_t *first) {
    if (machine->mark_count == 0) {
        return pickle_refuse(&machine->pickle, "the pickle has no mark where one is needed");
    }
    *first = machine->marks[--machine->mark_count];
    return true;
}

/* -------------------------------------------------------------------- objects */

static bool new_object(struct snapshot_machine *machine, enum object_kind kind, uint32_t *index) {
    if (machine->object_unused > 0) {
        *index = machine->object_unused - 1;
        machine->object_unused = machine->objects[*index].count;
    } else {
        if (machine->object_count == machine->object_capacity &&
            !grow_small(machine, &machine->objects, &machine->object_capacity,
                        sizeof *machine->objects, FIRST)) {
            return false;
        }
        *index = machine->object_count++;
    }
    memset(&machine->objects[*index], 0, sizeof *machine->objects);
    machine->objects[*index].kind = (uint8_t)kind;
    return true;
}

struct object *snapshot_machine_object(struct snapshot_machine *machine, struct value value,
                                       enum object_kind kind) {
    struct object *object = value.kind == VALUE_OBJECT && value.data < machine->object_count
                                ? &machine->objects[value.data]
                                : NULL;
    return object != NULL && object->kind == kind ? object : NULL;
}

/* What the memo says of an object from now on: keeps (1). */
static void memo_replace(struct snapshot_machine *machine, const struct object *object,
                         struct value value) {
    if (object->memo > 0) {
        machine->memo[object->memo - 1] = (uint64_t)value.kind << KIND_SHIFT | value.data;
    }
}

static void give(struct snapshot_machine *machine, struct value value, struct value instead) {
    if (value.kind != VALUE_OBJECT || machine->objects[value.data].shared) {
        return;
    }
    struct object *object = &machine->objects[value.data];
    if (object->kind != OBJECT_LIST && object->kind != OBJECT_DICT) {
        return;
    }
    memo_replace(machine, object, instead);
    machine->data->budget += object->capacity * sizeof *object->items;
    free(object->items);
    object->items = NULL;
    object->kind = OBJECT_FREE;
    object->count = machine->object_unused;
    machine->object_unused = (uint32_t)value.data + 1;
}

void snapshot_machine_give(struct snapshot_machine *machine, struct value value) {
    give(machine, value, (struct value){VALUE_NONE, 0});
}

const char *snapshot_machine_text(const struct snapshot_machine *machine, struct value value) {
    return value.kind == VALUE_TEXT
               ? interner_text(&machine->data->stacks.texts, (uint32_t)value.data)
               : "";
}

/* The first items are all that most objects ever have: no more place than for these. */
static bool add_items(struct snapshot_machine *machine, struct object *object,
                      const struct value *items, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (object->count == object->capacity &&
            !grow_small(machine, &object->items, &object->capacity, sizeof *object->items, count)) {
            return false;
        }
        object->items[object->count++] = items[i];
    }
    return true;
}

/* ----------------------------------------------------------------------- memo */

static bool memo_put(struct snapshot_machine *machine, uint64_t at) {
    if (!need(machine, 1)) {
        return false;
    }
    if (at > machine->pickle.offset) { /* each number has a value before it, of a byte or more */
        return pickle_refuse(&machine->pickle, "the pickle skips numbers of its memo");
    }
    while (at >= machine->memo_capacity) {
        if (!grow(machine, &machine->memo, &machine->memo_capacity, sizeof *machine->memo, FIRST)) {
            return false;
        }
    }
    for (; machine->memo_count <= at; machine->memo_count++) {
        machine->memo[machine->memo_count] = 0;
    }
    struct value value = machine->stack[machine->stack_count - 1];
    bool fits = value.data >> KIND_SHIFT == 0 && value.kind != VALUE_EVENT; /* keeps (2) */
    machine->memo[at] = fits ? (uint64_t)value.kind << KIND_SHIFT | value.data : 0;
    if (value.kind == VALUE_OBJECT) {
        struct object *object = &machine->objects[value.data];
        object->shared = object->shared || object->memo > 0;
        object->memo = at < UINT32_MAX ? (uint32_t)at + 1 : 0;
    }
    return true;
}

static bool memo_get(struct snapshot_machine *machine, uint64_t at) {
    if (at >= machine->memo_count) {
        return pickle_refuse(&machine->pickle,
                             "the pickle refers to value %" PRIu64 ", which is not there", at);
    }
    uint64_t entry = machine->memo[at];
    struct value value = {(enum value_kind)(entry >> KIND_SHIFT),
                          entry & ((UINT64_C(1) << KIND_SHIFT) - 1)};
    return push(machine, value);
}

/* ----------------------------------------------------------------- containers */

/* A list of frames becomes a stack; true when it was one. */
static bool fold_stack(struct snapshot_machine *machine, const struct value *items, size_t count,
                       struct value *stack) {
    uint32_t frames[STACK_TABLE_FRAMES_MAX];
    size_t kept = count < STACK_TABLE_FRAMES_MAX ? count : STACK_TABLE_FRAMES_MAX;
    for (size_t i = 0; i < kept; i++) {
        if (items[i].kind != VALUE_FRAME) {
            return false;
        }
        frames[i] = (uint32_t)items[i].data;
    }
    uint32_t number = stack_table_stack(&machine->data->stacks, frames, kept);
    *stack = (struct value){VALUE_STACK, number};
    return number != 0 || snapshot_machine_refuse_memory(machine);
}

static bool add_event(struct snapshot_machine *machine, struct object *object,
                      const struct value *value, size_t first) {
    if (value->kind != VALUE_EVENT) {
        return pickle_refuse(&machine->pickle, "a history has something among its entries that is "
                                               "not an entry");
    }
    if (object->count == object->capacity &&
        !grow_small(machine, &object->events, &object->capacity, sizeof *object->events, first)) {
        return false;
    }
    object->events[object->count++] = machine->pending[value->data];
    return true;
}

/* Entries go from `pending` into their list, and are gone from there: keeps (2). */
static bool add_events(struct snapshot_machine *machine, struct object *object,
                       const struct value *items, size_t count) {
    object->kind = OBJECT_EVENTS;
    for (size_t i = 0; i < count; i++) {
        if (!add_event(machine, object, &items[i], count)) {
            return false;
        }
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t index = (uint32_t)items[i].data;
        if (machine->pending_unused_count < machine->pending_count) {
            machine->pending_unused[machine->pending_unused_count++] = index;
        }
    }
    return true;
}

/* Adds to the list at `at` of the stack. */
static bool append(struct snapshot_machine *machine, size_t at, size_t first) {
    struct value list = machine->stack[at];
    const struct value *items = machine->stack + first;
    size_t count = machine->stack_count - first;
    machine->stack_count = first;
    if (count == 0 || list.kind == VALUE_STACK) { /* frames beyond those that are kept */
        return true;
    }
    struct object *object = snapshot_machine_object(machine, list, OBJECT_EVENTS);
    if (object != NULL) {
        return add_events(machine, object, items, count);
    }
    object = snapshot_machine_object(machine, list, OBJECT_LIST);
    if (object == NULL) {
        return pickle_refuse(&machine->pickle, "the pickle adds to what is not a list");
    }
    if (object->count == 0 && items[0].kind == VALUE_EVENT) {
        return add_events(machine, object, items, count);
    }
    if (object->count == 0 && items[0].kind == VALUE_FRAME) {
        struct value stack;
        if (!fold_stack(machine, items, count, &stack)) {
            return pickle_refuse(&machine->pickle, "a stack has something that is not a frame");
        }
        give(machine, list, stack);
        machine->stack[at] = stack;
        return true;
    }
    return add_items(machine, object, items, count);
}

/* Sets keys of the dictionary at `at` of the stack. */
static bool set_items(struct snapshot_machine *machine, size_t at, size_t first) {
    struct value dict = machine->stack[at], entry = {VALUE_NONE, 0};
    const struct value *items = machine->stack + first;
    size_t count = machine->stack_count - first;
    struct object *object = snapshot_machine_object(machine, dict, OBJECT_DICT);
    if (object == NULL || count % 2 != 0) {
        return pickle_refuse(&machine->pickle, object == NULL
                                                   ? "the pickle adds to an entry that is complete"
                                                   : "the pickle has a key without a value");
    }
    if (object->count == 0 && !snapshot_entry_make(machine, items, count, &entry)) {
        return false;
    }
    machine->stack_count = first;
    if (entry.kind == VALUE_NONE) {
        return add_items(machine, object, items, count);
    }
    give(machine, dict, entry.kind == VALUE_EVENT ? (struct value){VALUE_NONE, 0} : entry);
    machine->stack[at] = entry;
    return true;
}

/* A tuple of two numbers, as ids of private pools are. */
static bool build_pair(struct snapshot_machine *machine) {
    struct value *two = machine->stack + machine->stack_count - 2;
    uint64_t numbers[2] = {two[0].data, two[1].data};
    uint32_t pair = interner_number(&machine->data->pairs, numbers, sizeof numbers);
    machine->stack_count--;
    two[0] = (struct value){VALUE_PAIR, pair};
    return pair != 0 || snapshot_machine_refuse_memory(machine);
}

/* A new list, tuple or dictionary of what lies on the stack from `first` on. */
static bool build(struct snapshot_machine *machine, enum object_kind kind, size_t first) {
    uint32_t index;
    size_t count = machine->stack_count - first;
    if (!new_object(machine, kind, &index) || !push(machine, (struct value){VALUE_NONE, 0})) {
        return false;
    }
    memmove(machine->stack + first + 1, machine->stack + first, count * sizeof *machine->stack);
    machine->stack[first] = (struct value){VALUE_OBJECT, index};
    return kind == OBJECT_DICT ? set_items(machine, first, first + 1)
                               : append(machine, first, first + 1);
}

/* ----------------------------------------------------------------- operations */

static bool push_text(struct snapshot_machine *machine, const struct pickle_op *op) {
    uint32_t text = stack_table_text(&machine->data->stacks, op->text, op->text_bytes);
    return text != 0 ? push(machine, (struct value){VALUE_TEXT, text})
                     : snapshot_machine_refuse_memory(machine);
}

static bool push_object(struct snapshot_machine *machine, enum object_kind kind) {
    uint32_t index;
    return new_object(machine, kind, &index) && push(machine, (struct value){VALUE_OBJECT, index});
}

/* Operations on what is behind the mark. */
static bool run_marked(struct snapshot_machine *machine, enum pickle_kind kind) {
    size_t first = 0;
    if (!take_mark(machine, &first)) {
        return false;
    }
    switch (kind) {
    case PICKLE_POP_MARK:
        machine->stack_count = first;
        return true;
    case PICKLE_LIST:
    case PICKLE_TUPLE:
        return build(machine, OBJECT_LIST, first);
    case PICKLE_DICT:
        return build(machine, OBJECT_DICT, first);
    default:
        if (first <= bottom(machine)) {
            return pickle_refuse(&machine->pickle, "the pickle takes a value that is not there");
        }
        return kind == PICKLE_APPENDS ? append(machine, first - 1, first)
                                      : set_items(machine, first - 1, first);
    }
}

static bool run_tuple(struct snapshot_machine *machine, size_t size) {
    size_t count = machine->stack_count;
    if (!need(machine, size)) {
        return false;
    }
    bool pair = size == 2 && machine->stack[count - 1].kind == VALUE_NUMBER &&
                machine->stack[count - 2].kind == VALUE_NUMBER;
    return pair ? build_pair(machine) : build(machine, OBJECT_LIST, count - size);
}

static bool run_op(struct snapshot_machine *machine, const struct pickle_op *op) {
    size_t count = machine->stack_count;
    switch (op->kind) {
    case PICKLE_NOTHING:
    case PICKLE_STOP:
        return true;
    case PICKLE_NUMBER:
        return push(machine, (struct value){VALUE_NUMBER, op->number});
    case PICKLE_FLOAT:
    case PICKLE_NONE:
        return push(machine, (struct value){VALUE_NONE, 0});
    case PICKLE_TEXT:
        return push_text(machine, op);
    case PICKLE_MARK:
        return push_mark(machine);
    case PICKLE_POP:
        machine->stack_count -= need(machine, 1);
        return machine->stack_count < count;
    case PICKLE_DUP:
        return push_copy(machine);
    case PICKLE_EMPTY_LIST:
        return push_object(machine, OBJECT_LIST);
    case PICKLE_EMPTY_DICT:
        return push_object(machine, OBJECT_DICT);
    case PICKLE_TUPLE_OF:
        return run_tuple(machine, op->number);
    case PICKLE_APPEND:
        return need(machine, 2) && append(machine, count - 2, count - 1);
    case PICKLE_SETITEM:
        return need(machine, 3) && set_items(machine, count - 3, count - 2);
    case PICKLE_PUT:
        return memo_put(machine, op->number);
    case PICKLE_MEMOIZE:
        return memo_put(machine, machine->memo_count);
    case PICKLE_GET:
        return memo_get(machine, op->number);
    default:
        return run_marked(machine, op->kind);
    }
}

bool snapshot_machine_run(struct snapshot_machine *machine, struct value *top) {
    struct pickle_op op = {.kind = PICKLE_NOTHING};
    while (op.kind != PICKLE_STOP) {
        if (!pickle_next(&machine->pickle, &op) || !run_op(machine, &op)) {
            return false;
        }
    }
    if (machine->stack_count == 0) {
        return pickle_refuse(&machine->pickle, "the pickle is empty");
    }
    *top = machine->stack[machine->stack_count - 1];
    return true;
}

void snapshot_machine_free(struct snapshot_machine *machine) {
    for (uint32_t i = 0; i < machine->object_count; i++) {
        free(machine->objects[i].items); /* or events */
    }
    free(machine->objects);
    free(machine->stack);
    free(machine->marks);
    free(machine->memo);
    free(machine->pending);
    free(machine->pending_unused);
}

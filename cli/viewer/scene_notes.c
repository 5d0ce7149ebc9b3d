/* SPDX-License-Identifier: Apache-2.0 */
/* scene_notes.c: see scene_notes.h. */
#include "scene_notes.h"

#include <stdlib.h>
#include <string.h>

/* Adds a stack to the list, which is ordered by size; the smallest drops out of a full one. */
static void stack_add(struct scene_refusal *refusal, uint32_t stack, uint64_t bytes) {
    size_t at = refusal->stack_count;
    if (at == REFUSAL_STACKS) {
        at--;
        if (refusal->bytes[at] >= bytes) {
            return;
        }
    }
    refusal->stack_count = at + 1;
    for (; at > 0 && refusal->bytes[at - 1] < bytes; at--) {
        refusal->bytes[at] = refusal->bytes[at - 1];
        refusal->stacks[at] = refusal->stacks[at - 1];
    }
    refusal->bytes[at] = bytes;
    refusal->stacks[at] = stack;
}

static struct scene_refusal *refusal_make(const struct scene *scene, const struct recorded *event,
                                          double held) {
    struct scene_refusal *refusal = calloc(1, sizeof *refusal);
    if (refusal == NULL) {
        return NULL;
    }
    const struct scene_grouped *tags = &scene->grouped[SCENE_TAGS];
    refusal->live = scene->live;
    refusal->held = held;
    refusal->device_free = event->held;
    refusal->stack = event->stack;
    memcpy(refusal->tag, event->tag, strnlen(event->tag, sizeof refusal->tag - 1));
    memcpy(refusal->pool, event->pool_name, strnlen(event->pool_name, sizeof refusal->pool - 1));
    for (uint32_t i = 0; i < tags->column_count; i++) {
        refusal->tags[i] = tags->columns[i].live;
    }
    for (uint32_t i = 0; i < scene->stack_count; i++) {
        if (scene->stack_columns[i].live > 0) {
            stack_add(refusal, i, scene->stack_columns[i].live);
        }
    }
    if (event->report != NULL) {
        refusal->reported = true;
        refusal->report = *event->report;
    }
    return refusal;
}

bool notes_add(struct scene *scene, const struct recorded *event, uint64_t step, double held) {
    if (scene->note_count == SCENE_NOTES_MAX) {
        scene->notes_left_out++;
        return true;
    }
    bool refused = event->kind == RECORDED_REFUSE;
    struct scene_note *note = &scene->notes[scene->note_count++];
    *note = (struct scene_note){.time_ns = event->time_ns,
                                .step = step,
                                .bytes = event->bytes,
                                .status = refused ? event->status : 0,
                                .refusal = refused ? refusal_make(scene, event, held) : NULL};
    memcpy(note->text, event->name, strnlen(event->name, sizeof note->text - 1));
    return !refused || note->refusal != NULL;
}

void notes_free(struct scene *scene) {
    for (size_t i = 0; i < scene->note_count; i++) {
        free(scene->notes[i].refusal);
    }
    free(scene->notes);
}

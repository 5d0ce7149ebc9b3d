/* SPDX-License-Identifier: Apache-2.0 */
/* scene_notes.h: refusals and marks, and who had what when a request was refused. */
#ifndef VIEWER_SCENE_NOTES_H
#define VIEWER_SCENE_NOTES_H

#include "scene.h"

enum { REFUSAL_STACKS = 24 }; /* those with most, of each refusal */

struct scene_refusal {
    uint64_t live;                    /* bytes, of the whole trace */
    double held;                      /* NaN: not known */
    uint64_t device_free;             /* as a snapshot has it; 0: not known */
    uint64_t tags[SCENE_COLUMNS + 1]; /* live bytes by column */
    uint32_t stack;                   /* of the request, the recording's number; 0: not known */
    char tag[64], pool[64];           /* of the request; "": none */
    uint32_t stacks[REFUSAL_STACKS];  /* as in scene_stack, the largest first */
    uint64_t bytes[REFUSAL_STACKS];   /* that each had live */
    size_t stack_count;
    bool reported;
    struct refusal_report report; /* if `reported` */
};

/* In the second pass, before the event changes anything. False: no memory. */
bool notes_add(struct scene *scene, const struct recorded *event, uint64_t step, double held);

void notes_free(struct scene *scene);

#endif

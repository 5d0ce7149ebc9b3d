/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_groups.h: which group of each grouping a block belongs to, and which groups are shown by
 * name.
 */
#ifndef VIEWER_SCENE_GROUPS_H
#define VIEWER_SCENE_GROUPS_H

#include "scene.h"

/* False: no memory. */
bool groups_begin(struct scene *scene, enum event_format format);

/* Before an event is used: its tag, site, stream and stack have groups. False: no memory. */
bool groups_note(struct scene *scene, struct report_input *input, const struct recorded *event);

/* The groups of a block, by grouping. */
void groups_find(const struct scene *scene, const struct live_block *block,
                 uint32_t groups[SCENE_GROUPINGS]);

/* The group of a stack's call site. */
uint32_t groups_site(const struct scene *scene, uint32_t stack);

/* The place in scene->stacks. */
uint32_t groups_stack(const struct scene *scene, uint32_t number);

/* After the first pass: gives columns to the largest groups, and keeps the largest stacks. False:
   no memory. */
bool groups_rank(struct scene *scene);

void groups_free(struct scene *scene);

#endif

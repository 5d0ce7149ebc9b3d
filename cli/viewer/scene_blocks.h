/* SPDX-License-Identifier: Apache-2.0 */
/* scene_blocks.h: the largest blocks by area, and the grid of the others. */
#ifndef VIEWER_SCENE_BLOCKS_H
#define VIEWER_SCENE_BLOCKS_H

#include "scene.h"

/* False: no memory. */
bool blocks_begin(struct scene *scene);

/* A block whose end is known. */
void blocks_add(struct scene *scene, const struct scene_block *block);

/* Behind the last: the kept blocks by time, the grid as sums. */
void blocks_finish(struct scene *scene);

#endif

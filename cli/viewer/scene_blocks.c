/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_blocks.c: see scene_blocks.h.
 *
 * The kept blocks are a heap with the smallest area on top. What drops out of it is added to the
 * grid as a rectangle of cells: four changes at its corners, of which blocks_finish makes the sums.
 */
#include "scene_blocks.h"

#include <stdlib.h>
#include <string.h>

enum { GRID_WIDTH = SCENE_GRID_TIMES + 1, GRID_HEIGHT = SCENE_GRID_PLACES + 1 };

bool blocks_begin(struct scene *scene) {
    scene->kept = malloc(scene->kept_max * sizeof *scene->kept);
    scene->grid = calloc((size_t)GRID_WIDTH * GRID_HEIGHT, sizeof(double));
    return scene->kept != NULL && scene->grid != NULL;
}

/* --------------------------------------------------------------------- grid */

static uint32_t cell_of(double at, double all, uint32_t cells) {
    double cell = all > 0 ? at / all * cells : 0;
    return cell < cells - 1 ? (uint32_t)cell : cells - 1;
}

static void grid_change(double *grid, uint32_t x, uint32_t x_end, uint32_t y, uint32_t y_end,
                        double by) {
    grid[y * GRID_WIDTH + x] += by;
    grid[y * GRID_WIDTH + x_end] -= by;
    grid[y_end * GRID_WIDTH + x] -= by;
    grid[y_end * GRID_WIDTH + x_end] += by;
}

static double part(double of, double whole) {
    return of < whole ? of / whole : 1;
}

static void grid_add(struct scene *scene, const struct scene_block *block) {
    double from = scene_at(scene, block->begin_ns, block->begin_step);
    double to = scene_at(scene, block->end_ns, block->end_step);
    double all = (double)scene->ranges.bytes;
    uint32_t x = cell_of(from, 1, SCENE_GRID_TIMES);
    uint32_t x_end = cell_of(to, 1, SCENE_GRID_TIMES) + 1;
    uint32_t y = cell_of((double)block->place, all, SCENE_GRID_PLACES);
    double last = (double)block->place + (double)block->bytes - 1;
    uint32_t y_end = cell_of(last, all, SCENE_GRID_PLACES) + 1;
    double cover = part(to - from, 1.0 / SCENE_GRID_TIMES) *
                   part((double)block->bytes, all / SCENE_GRID_PLACES);
    grid_change(scene->grid, x, x_end, y, y_end, cover);
    scene->merged++;
}

static void grid_sum(double *grid) {
    for (uint32_t y = 0; y < GRID_HEIGHT; y++) {
        for (uint32_t x = 0; x < GRID_WIDTH; x++) {
            double *cell = &grid[y * GRID_WIDTH + x];
            *cell += x > 0 ? cell[-1] : 0;
        }
    }
    for (uint32_t i = GRID_WIDTH; i < GRID_WIDTH * GRID_HEIGHT; i++) {
        grid[i] += grid[i - GRID_WIDTH];
    }
}

/* --------------------------------------------------------------------- heap */

static void heap_up(struct scene_block *heap, size_t at) {
    struct scene_block block = heap[at];
    while (at > 0 && block.area < heap[(at - 1) / 2].area) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = block;
}

static void heap_down(struct scene_block *heap, size_t count) {
    struct scene_block block = heap[0];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < count) {
        child += child + 1 < count && heap[child + 1].area < heap[child].area;
        if (block.area <= heap[child].area) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = block;
}

void blocks_add(struct scene *scene, const struct scene_block *block) {
    if (scene->kept_count < scene->kept_max) {
        scene->kept[scene->kept_count] = *block;
        heap_up(scene->kept, scene->kept_count++);
    } else if (block->area <= scene->kept[0].area) {
        grid_add(scene, block);
    } else {
        grid_add(scene, &scene->kept[0]);
        scene->kept[0] = *block;
        heap_down(scene->kept, scene->kept_count);
    }
}

static int block_order(const void *a, const void *b) {
    const struct scene_block *one = a, *other = b;
    if (one->begin_ns != other->begin_ns) {
        return one->begin_ns < other->begin_ns ? -1 : 1;
    }
    if (one->begin_step != other->begin_step) {
        return one->begin_step < other->begin_step ? -1 : 1;
    }
    return one->place < other->place ? -1 : one->place > other->place;
}

void blocks_finish(struct scene *scene) {
    qsort(scene->kept, scene->kept_count, sizeof *scene->kept, block_order);
    grid_sum(scene->grid);
}

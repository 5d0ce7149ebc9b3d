/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forces_reference.c: the layout on one thread, in plain C and wider numbers, written from the
 * description in forces_body.h and not from its code: so a mistake would have to be made twice to
 * be missed.
 */
#include "forces.h"

#include <stdlib.h>
#include <string.h>

enum { WORLD_BITS = 21, HALF = 1 << 20, PARTS = 256 };

/* ------------------------------------------------------------------ memory */

static void *enlarged(const void *old, size_t old_bytes, size_t bytes) {
    void *grown = calloc(1, bytes);
    if (grown && old_bytes) {
        memcpy(grown, old, old_bytes);
    }
    return grown;
}

bool reference_grow(struct reference *reference, const struct graph *graph) {
    size_t old = (size_t)reference->nodes * 2 * sizeof(int32_t);
    size_t now = (size_t)graph->nodes * 2 * sizeof(int32_t);
    size_t cells = (sizeof(uint32_t) * 3) << 2 * graph->cell_bits;
    struct reference grown = {.nodes = graph->nodes,
                              .positions = enlarged(reference->positions, old, now),
                              .velocities = enlarged(reference->velocities, old, now),
                              .forces = enlarged(NULL, 0, now),
                              .cells = enlarged(NULL, 0, cells)};
    if (!grown.positions || !grown.velocities || !grown.forces || !grown.cells) {
        reference_end(&grown);
        return false;
    }
    memcpy((char *)grown.positions + old, (const char *)graph->beginnings + old, now - old);
    reference_end(reference);
    *reference = grown;
    return true;
}

void reference_end(struct reference *reference) {
    free(reference->positions);
    free(reference->velocities);
    free(reference->forces);
    free(reference->cells);
    *reference = (struct reference){0};
}

/* -------------------------------------------------------------------- step */

/* Where a coordinate is: its cell, and how far into that in parts of 256. */
struct place {
    int64_t cell, part;
};

static struct place place_of(int64_t coordinate, uint32_t bits) {
    int64_t size = (INT64_C(1) << WORLD_BITS) >> bits, from_edge = coordinate + HALF;
    return (struct place){from_edge / size, from_edge % size * PARTS / size};
}

static void count(struct reference *reference, uint32_t bits) {
    memset(reference->cells, 0, (sizeof(uint32_t) * 3) << 2 * bits);
    for (uint32_t i = 0; i < reference->nodes; i++) {
        struct place x = place_of(reference->positions[2 * i], bits);
        struct place y = place_of(reference->positions[2 * i + 1], bits);
        uint32_t *cell = reference->cells + 3 * ((y.cell << bits) + x.cell);
        cell[0] += 1;
        cell[1] += (uint32_t)x.part;
        cell[2] += (uint32_t)y.part;
    }
}

/* What the cell at (column, row) pushes a node with, added to push[2]. */
static void push_of(const struct reference *reference, uint32_t bits, struct place x,
                    struct place y, int64_t column, int64_t row, int64_t push[2]) {
    const uint32_t *cell = reference->cells + 3 * ((row << bits) + column);
    bool own = column == x.cell && row == y.cell;
    int64_t others = (int64_t)cell[0] - own;
    if (others == 0) {
        return;
    }
    int64_t middle_x = (cell[1] - (own ? x.part : 0)) / others;
    int64_t middle_y = (cell[2] - (own ? y.part : 0)) / others;
    int64_t away_x = x.part - (column - x.cell) * PARTS - middle_x;
    int64_t away_y = y.part - (row - y.cell) * PARTS - middle_y;
    int64_t weight = (others < 1024 ? others : 1024) * 1024;
    int64_t distance = away_x * away_x + away_y * away_y + 64;
    push[0] += away_x * weight / distance;
    push[1] += away_y * weight / distance;
}

static void gather(struct reference *reference, const struct graph *graph, uint32_t i) {
    const int32_t *at = reference->positions + 2 * (size_t)i;
    uint32_t bits = graph->cell_bits, degree = graph->offsets[i + 1] - graph->offsets[i];
    struct place x = place_of(at[0], bits), y = place_of(at[1], bits);
    int64_t push[2] = {0}, side = INT64_C(1) << bits;
    int64_t unit = (INT64_C(1) << WORLD_BITS) / side / PARTS;
    for (int64_t row = y.cell - 1; row <= y.cell + 1; row++) {
        for (int64_t column = x.cell - 1; column <= x.cell + 1; column++) {
            if (row >= 0 && row < side && column >= 0 && column < side) {
                push_of(reference, bits, x, y, column, row, push);
            }
        }
    }
    for (int axis = 0; axis < 2; axis++) {
        int64_t pull = 0;
        for (uint32_t e = graph->offsets[i]; e < graph->offsets[i + 1]; e++) {
            pull += reference->positions[2 * (size_t)graph->ends[e] + axis] - at[axis];
        }
        reference->forces[2 * (size_t)i + axis] =
            (int32_t)(pull / (4 * (int64_t)degree + 1) - at[axis] / 64 + push[axis] * unit / 16);
    }
}

static int64_t within(int64_t value, int64_t low, int64_t high) {
    return value < low ? low : value > high ? high : value;
}

void reference_step(struct reference *reference, const struct graph *graph) {
    int64_t limit = (INT64_C(1) << WORLD_BITS >> graph->cell_bits) / 2;
    count(reference, graph->cell_bits);
    for (uint32_t i = 0; i < reference->nodes; i++) {
        gather(reference, graph, i);
    }
    for (size_t k = 0; k < (size_t)reference->nodes * 2; k++) {
        int64_t speed = ((int64_t)reference->velocities[k] + reference->forces[k]) * 3 / 4;
        reference->velocities[k] = (int32_t)within(speed, -limit, limit);
        reference->positions[k] = (int32_t)within(
            (int64_t)reference->positions[k] + reference->velocities[k], -HALF, HALF - 1);
    }
}

struct forces_measure forces_measure_of(const int32_t *positions, uint32_t nodes) {
    struct forces_measure measure = {0, 0};
    for (uint32_t i = 0; i < nodes; i++) {
        int32_t x = positions[2 * (size_t)i], y = positions[2 * (size_t)i + 1];
        uint32_t mix = (uint32_t)x * 2654435761u ^ (uint32_t)y * 2246822519u;
        mix = (mix ^ mix >> 15) * (2u * i + 3266489917u);
        measure.checksum += mix ^ mix >> 13;
        measure.distance += (uint32_t)(abs(x) + abs(y)) >> 11;
    }
    return measure;
}

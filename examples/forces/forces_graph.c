/* SPDX-License-Identifier: Apache-2.0 */
/* forces_graph.c: a graph that grows as citations do: a node that comes in knows two older ones. */
#include "forces.h"

#include <stdlib.h>

/* A number that looks random and is the same on every machine. */
static uint32_t mixed(uint32_t node, uint32_t salt) {
    uint32_t value = node * 2654435761u ^ salt * 2246822519u;
    value = (value ^ value >> 15) * 3266489917u;
    return value ^ value >> 16;
}

/* The older end of edge `which`, 0 or 1, of a node that is not the first. */
static uint32_t older(uint32_t node, uint32_t which) {
    return mixed(node, which + 1) % node;
}

static uint32_t cell_bits_for(uint32_t nodes) {
    uint32_t bits = 4; /* fewer, and the sums of forces_body.h could overflow */
    while (nodes / 4 > UINT32_C(1) << 2 * bits) {
        bits++;
    }
    return bits;
}

/* Counts the ends at each node, makes places of the counts, and puts each end into its place. */
static void join(struct graph *graph) {
    uint32_t *offsets = graph->offsets, place = 0;
    for (uint32_t i = 0; i <= graph->nodes; i++) {
        offsets[i] = 0;
    }
    for (uint32_t edge = 0; edge < graph->edges; edge++) {
        uint32_t node = 1 + edge / 2;
        offsets[node]++;
        offsets[older(node, edge % 2)]++;
    }
    for (uint32_t i = 0; i <= graph->nodes; i++) {
        uint32_t count = offsets[i];
        offsets[i] = place;
        place += count;
    }
    for (uint32_t edge = 0; edge < graph->edges; edge++) {
        uint32_t node = 1 + edge / 2, other = older(node, edge % 2);
        graph->ends[offsets[node]++] = other;
        graph->ends[offsets[other]++] = node;
    }
    for (uint32_t i = graph->nodes; i > 0; i--) { /* each has run to where the next one began */
        offsets[i] = offsets[i - 1];
    }
    offsets[0] = 0;
}

bool graph_grow(struct graph *graph, uint32_t nodes) {
    struct graph grown = {.nodes = nodes,
                          .edges = 2 * (nodes - 1),
                          .cell_bits = cell_bits_for(nodes),
                          .offsets = malloc(((size_t)nodes + 1) * sizeof(uint32_t)),
                          .ends = malloc((size_t)nodes * 4 * sizeof(uint32_t)),
                          .beginnings = malloc((size_t)nodes * 2 * sizeof(int32_t))};
    if (!grown.offsets || !grown.ends || !grown.beginnings) {
        graph_end(&grown);
        return false;
    }
    join(&grown);
    for (uint32_t i = 0; i < 2 * nodes; i++) {
        grown.beginnings[i] = (int32_t)(mixed(i, 7) >> 12) - (1 << 19); /* the inner quarter */
    }
    graph_end(graph);
    *graph = grown;
    return true;
}

void graph_end(struct graph *graph) {
    free(graph->offsets);
    free(graph->ends);
    free(graph->beginnings);
    *graph = (struct graph){0};
}

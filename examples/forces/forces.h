/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forces.h: what the files of the example share: a graph that grows, a layout of it in plain C that
 * is the truth, the kernel for each backend, and the layout on a device.
 */
#ifndef FORCES_H
#define FORCES_H

#include <vram/vram.h>

enum {
    FORCES_NODES_MIN = 1000,    /* where a run begins */
    FORCES_NODES_MAX = 1 << 22, /* what the sums of forces_body.h have room for */
    FORCES_COUNT = 0,           /* the stages of the kernel, in their order */
    FORCES_GATHER = 1,
    FORCES_MOVE = 2,
    FORCES_MEASURE = 3
};

/* What a frame comes to: as the device measured it, or as the reference has it. */
struct forces_measure {
    uint32_t checksum;
    uint32_t distance; /* from the middle, summed over all nodes, in steps of 2048 */
};

/* ------------------------------------------------------------------- graph */

/* Nodes with two older neighbours each, and both ends of every edge in one list, node after
   node. */
struct graph {
    uint32_t nodes, edges;
    uint32_t *offsets;   /* nodes + 1: where the neighbours of a node begin in `ends` */
    uint32_t *ends;      /* 2 * edges */
    int32_t *beginnings; /* 2 * nodes: where a node is put when it is new, x and y */
    uint32_t cell_bits;  /* cells a side as a power of two: about four nodes share a cell */
};

/* Makes the graph of `nodes`; a larger one contains every smaller one. False: no memory, nothing
   changed. */
bool graph_grow(struct graph *graph, uint32_t nodes);
void graph_end(struct graph *graph);

/* --------------------------------------------------------------- reference */

/* The same layout in plain loops: what every device must arrive at, bit by bit. */
struct reference {
    uint32_t nodes;
    int32_t *positions, *velocities, *forces; /* 2 * nodes each */
    uint32_t *cells;                          /* 3 for each cell */
};

/* Takes the new nodes of a graph that has grown. False: no memory, nothing changed. */
bool reference_grow(struct reference *reference, const struct graph *graph);
void reference_step(struct reference *reference, const struct graph *graph);
struct forces_measure forces_measure_of(const int32_t *positions, uint32_t nodes);
void reference_end(struct reference *reference);

/* ------------------------------------------------------------------ kernel */

/* Fills in the kernel of a backend. VRAM_ERR_UNSUPPORTED when there is none; `code` is for hip
   alone. */
vram_status forces_source(const char *backend, const void *code, size_t code_bytes,
                          vram_kernel_source *source);

/* ------------------------------------------------------------------ layout */

struct forces_options {
    const char *backend; /* NULL: all; the best device is used */
    const char *sim;     /* what a simulated device is to be; NULL: as VRAM_SIM says */
    uint32_t nodes;      /* at the end; it begins with FORCES_NODES_MIN */
    uint32_t steps;      /* at each size, and as many frames */
    const void *code;    /* a code object for hip; NULL: none */
    size_t code_bytes;
    bool careless; /* read frames back without waiting for their copies: they must be found wrong */
    bool report;   /* also print what differs from device to device and from run to run */
};

/* Runs it all and prints a line for each size. The exit code of the program. */
int forces_run(const struct forces_options *options);

#endif

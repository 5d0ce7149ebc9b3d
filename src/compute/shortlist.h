/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shortlist.h: finds the nearest on the device: vectors are sent once, unconverted, and only the k
 * best of each query are fetched.
 *
 *   shortlist.c          memory, tiles and slots
 *   shortlist_kernel.c   the two kernels in every format, and their launches
 *   shortlist.cu         what they do, in CUDA; in the others: shortlist_opencl.h, vectors.comp,
 *                        shortlist.comp
 *
 * A list has k places for each query, the best first. A place is a word of 64 bits: the upper half
 * is the rank of a distance, where lower is better; the lower half is the number of the vector in
 * its part of the corpus.
 */
#ifndef VR_SHORTLIST_H
#define VR_SHORTLIST_H

#include "compute/half.h"
#include "compute/search.h"

enum {
    VR_SHORTLIST_MAX = VRAM_NEAREST_DEVICE, /* places of a list; larger k is found on the host */
    VR_SHORTLIST_LENGTH = 8,                /* bytes reserved for the length of a vector */
    VR_SHORTLIST_FOUND_WORDS = 2            /* of 32 bits, for what kernels report */
};

#define VR_SHORTLIST_NONE UINT64_MAX /* an empty place */

/*
 * Searches on the device if it can and the rule says so; *done tells. VRAM_OK without *done:
 * nothing has changed, and the search is done by tiles.
 */
vram_status vr_shortlist_run(struct vr_scheduler *scheduler, const struct vr_search *search,
                             bool *done);

/* ---------------------------------------------------------------------- kernels */

struct vr_shortlist_kernels {
    vram_kernel *vectors, *shortlist; /* both NULL: this device has none */
    bool in_c;
};

/* The scheduler's kernels, loaded at first use. */
vram_status vr_shortlist_open(struct vr_scheduler *scheduler, struct vr_shortlist_kernels **out);
/* NULL is allowed; their memory stays. */
void vr_shortlist_close(struct vr_shortlist_kernels *kernels);

/* Converts vectors as they were sent to what products use. */
struct vr_vectors_launch {
    vram_addr from;    /* rows of `dim` numbers of single precision */
    vram_addr to;      /* rows of `stride` halves; `from` for single precision */
    vram_addr lengths; /* written: one for each row */
    vram_addr found;   /* words that become 1: [0] not finite, [1] too long or too short */
    uint32_t rows, dim, stride;
    vram_precision precision; /* of the search */
    vram_metric metric;
};

vram_status vr_vectors_launch(const struct vr_shortlist_kernels *kernels, vram_queue *queue,
                              const struct vr_vectors_launch *launch);

/* Adds the best of the products to lists. */
struct vr_shortlist_launch {
    vram_addr products;        /* `queries` rows of `stride`, of which `columns` count */
    vram_addr queries, corpus; /* lengths */
    vram_addr best;            /* lists */
    uint32_t rows, columns, stride, k;
    uint32_t place; /* of the first column; above all places in the lists */
    bool empty;     /* the lists are empty, whatever they hold */
    vram_precision precision;
    vram_metric metric;
};

vram_status vr_shortlist_launch(const struct vr_shortlist_kernels *kernels, vram_queue *queue,
                                const struct vr_shortlist_launch *launch);

/* ------------------------------------------------------------------------ ranks */

static inline uint32_t vr_shortlist_rank(float value, bool largest) {
    uint32_t bits = value == 0 ? 0 : vr_float_bits(value);
    bits = bits & UINT32_C(0x80000000) ? ~bits : bits | UINT32_C(0x80000000);
    return largest ? ~bits : bits;
}

static inline float vr_shortlist_value(uint32_t rank, bool largest) {
    uint32_t bits = largest ? ~rank : rank;
    return vr_bits_float(bits & UINT32_C(0x80000000) ? bits & UINT32_C(0x7FFFFFFF) : ~bits);
}

#endif

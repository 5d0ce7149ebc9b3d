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
 * is the rank of a key (metric.h), where lower is better; then comes the number of the vector in
 * its part of the corpus; the lowest bit is set while the key is only a bound, never in a list.
 */
#ifndef VR_SHORTLIST_H
#define VR_SHORTLIST_H

#include "compute/half.h"
#include "compute/search.h"

enum {
    VR_SHORTLIST_MAX = VRAM_NEAREST_DEVICE + 8, /* places of a list; the host finds larger k */
    VR_SHORTLIST_TERM = 8,                      /* bytes reserved for the term of a vector */
    VR_SHORTLIST_FOUND_WORDS = 6                /* of 32 bits, for what kernels report */
};

/* Words that kernels report in. */
enum {
    VR_FOUND_NOT_FINITE, /* 1: a number is not finite */
    VR_FOUND_RANGE,      /* 1: a vector is too long or too short for single precision */
    VR_FOUND_CORPUS,     /* saturated numbers of the corpus */
    VR_FOUND_QUERIES,    /* and of the queries */
    VR_FOUND_LONGEST,    /* the bits of the largest squared length of the corpus */
    VR_FOUND_SHORTEST    /* those of the least, all inverted */
};

#define VR_SHORTLIST_NONE UINT64_MAX /* an empty place */

/*
 * Searches on the device if it can and the rule says so; *done tells. VRAM_OK without *done:
 * nothing has changed, and the search is done by tiles.
 */
vram_status vr_shortlist_run(struct vr_scheduler *scheduler, struct vr_search *search, bool *done);

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
    vram_addr from;   /* rows of `dim` numbers of single precision */
    vram_addr to;     /* rows of `stride` numbers; `from` for single precision without a centre */
    vram_addr terms;  /* written: one for each row */
    vram_addr found;  /* words of the enum above */
    vram_addr centre; /* `dim` numbers; 0: none */
    uint32_t rows, dim, stride;
    vram_precision stored;    /* of `to` */
    vram_precision precision; /* of the search */
    vram_metric metric;
    float scale;
    bool queries; /* they are queries, not the corpus */
};

vram_status vr_vectors_launch(const struct vr_shortlist_kernels *kernels, vram_queue *queue,
                              const struct vr_vectors_launch *launch);

/* Adds the best of the products to lists. */
struct vr_shortlist_launch {
    vram_addr products;        /* `rows` rows of `stride`, of which `columns` count */
    vram_addr queries, corpus; /* terms */
    vram_addr best;            /* lists */
    vram_addr query, vector;   /* the vectors themselves, as they were sent */
    vram_addr centre;          /* 0: none */
    uint32_t rows, columns, stride, k;
    uint32_t place; /* of the first column; above all places in the lists */
    uint32_t dim;
    vram_metric metric;
    vram_precision precision;
    float scale;
    bool empty;    /* the lists are empty, whatever they hold */
    bool integers; /* products are integers of 32 bits */
};

vram_status vr_shortlist_launch(const struct vr_shortlist_kernels *kernels, vram_queue *queue,
                                const struct vr_shortlist_launch *launch);

/* ------------------------------------------------------------------------ ranks */

static inline uint32_t vr_shortlist_rank(float value) {
    uint32_t bits = value == 0 ? 0 : vr_float_bits(value);
    return bits & UINT32_C(0x80000000) ? ~bits : bits | UINT32_C(0x80000000);
}

static inline float vr_shortlist_value(uint32_t rank) {
    return vr_bits_float(rank & UINT32_C(0x80000000) ? rank & UINT32_C(0x7FFFFFFF) : ~rank);
}

static inline uint64_t vr_shortlist_word(float value, uint32_t place) {
    return (uint64_t)vr_shortlist_rank(value) << 32 | (uint64_t)place << 1;
}

static inline uint32_t vr_shortlist_place(uint64_t word) {
    return (uint32_t)word >> 1;
}

/* Fills an empty list with the best of `count` sorted lists of as many places, sorted. The numbers
   of vectors begin at `first`. */
static inline void vr_shortlist_merge(const uint64_t **heads, uint32_t count, uint64_t first,
                                      struct vr_nearest *nearest) {
    for (; nearest->count < nearest->capacity; nearest->count++) {
        const uint64_t **best = heads;
        for (uint32_t i = 1; i < count; i++) {
            best = *heads[i] < **best ? &heads[i] : best;
        }
        uint64_t word = *(*best)++;
        if (word == VR_SHORTLIST_NONE) {
            return;
        }
        nearest->values[nearest->count] = (double)vr_shortlist_value((uint32_t)(word >> 32));
        nearest->places[nearest->count] = first + vr_shortlist_place(word);
    }
}

#endif

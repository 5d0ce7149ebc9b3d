/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample.h: the base of the documents' samples: a device, a queue and a pool, and two functions.
 * must() is for calls that have to succeed, hold() for conditions that have to be true; both end
 * the program with the number of their line.
 */
#ifndef SAMPLE_H
#define SAMPLE_H

#include "../byte_units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vram/auto.h>
#include <vram/compute.h>
#include <vram/model.h>
#include <vram/vram.h>

#define WAIT         VRAM_TIMEOUT_DEFAULT
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

struct sample_world {
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    uint32_t index; /* of the device in the context */
    bool simulated; /* it has a fault plan, and time of its own */
};

/* One block of code of a document. */
struct sample {
    const char *features; /* that the block shows, as docs/coverage.md numbers them */
    const char *title;    /* of the document's section */
    void (*run)(struct sample_world *world);
};

/* A document's blocks, in its order; the last has no run. */
extern const struct sample s0_samples[], s1_samples[], s2_samples[], s3_samples[], s4_samples[];

_Noreturn void sample_failed(const char *file, int line, const char *what);

#define hold(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            sample_failed(__FILE__, __LINE__, #condition);                                         \
        }                                                                                          \
    } while (0)

#define must(call)                                                                                 \
    do {                                                                                           \
        vram_status status_ = (call);                                                              \
        if (status_ != VRAM_OK) {                                                                  \
            sample_failed(__FILE__, __LINE__, #call);                                              \
        }                                                                                          \
    } while (0)

/* Statistics, by value. */
static inline vram_pool_stats sample_stats(vram_pool *pool) {
    vram_pool_stats stats = {.size = sizeof stats};
    must(vram_pool_stats_get(pool, &stats));
    return stats;
}

static inline vram_buffer_info sample_info(vram_buffer *buffer) {
    vram_buffer_info info = {.size = sizeof info};
    must(vram_buffer_info_get(buffer, &info));
    return info;
}

/* A matrix, or vectors: numbers from -1 to 1 that are the same every time. */
static inline void sample_numbers(float *numbers, size_t count, uint32_t seed) {
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525 + 1013904223;
        numbers[i] = (float)(seed >> 8) / 8388608.0F - 1.0F;
    }
}

#endif

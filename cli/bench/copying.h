/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copying.h: what `vram bench copy` measures, for the files that measure it and show it.
 */
#ifndef COPYING_H
#define COPYING_H

#include "bench/copy_driver.h"
#include "bench/ways.h"

enum { TO_DEVICE, TO_HOST, DIRECTIONS };

/* One copy of one size, each way. Those of the host show what bounds a copy through page-locked
   memory. */
enum {
    VRAM_PAGEABLE, /* libvram, from and to ordinary memory */
    VRAM_PINNED,   /* libvram, from and to page-locked memory */
    DRIVER_PAGEABLE,
    DRIVER_PINNED,
    MEMCPY_ALL, /* between ordinary and page-locked memory, by `threads` threads */
    MEMCPY_ONE, /* by one */
    COPY_WAYS
};

/* Many small copies. */
enum { BATCHED, SUBMITTED, ONE_BY_ONE, BATCH_WAYS };

/* Page-locked memory that comes and goes. */
enum { PAIR_POOL, PAIR_DRIVER, PAIR_WAYS };

enum { COPY_SIZES_MAX = 7, PAIR_SIZES = 2, BATCH_COUNT = 10000, BATCH_BYTES = 4096 };

struct copy_size {
    uint64_t bytes;
    struct way ways[DIRECTIONS][COPY_WAYS];
};

struct copying {
    vram_device *device;
    vram_queue *queue;
    struct copy_driver driver;
    struct team *team;
    uint32_t threads; /* of MEMCPY_ALL */
    uint32_t size_count;
    struct copy_size sizes[COPY_SIZES_MAX];
    uint32_t batch_count; /* copies of the batch */
    vram_copy *list;      /* of the batch that is being measured */
    struct way batch[BATCH_WAYS];
    uint32_t pair_count;
    struct copy_pair {
        uint64_t bytes;
        struct way ways[PAIR_WAYS];
    } pairs[PAIR_SIZES];

    uint64_t most;               /* bytes of any copy, and of the two that follow */
    unsigned char *page, *spare; /* ordinary memory */

    /* Of the size that is being measured. */
    uint64_t bytes;
    vram_addr addr;      /* on the device */
    unsigned char *lock; /* page-locked, or `spare` where there is none; `locked` says which */
    bool locked;
    unsigned char *copy_to, *copy_from; /* of the threads' memcpy */
};

/* A goal, what it is held against, and what was reached. */
struct copy_goal {
    char name[80];
    bool known;
    double reached, goal;
};

enum { GOALS_MAX = 16 };

void copy_print(const struct terminal *terminal, const struct target *target,
                const struct copying *copying);
bool copy_write(const struct target *target, const struct copying *copying);

#endif

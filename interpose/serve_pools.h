/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve_pools.h: which pool of libvram stands for which pool of the CUDA driver. See serve.h.
 */
#ifndef SERVE_POOLS_H
#define SERVE_POOLS_H

#include "serve.h"

#include <vram/vram.h>

#define RUN_POOL_OWNER "libvram pool" /* as `vram run` knows it: cli/run/run_report.h */

enum { SERVE_POOLS = 64, SERVE_STREAMS = 1024 };

struct served_pool {
    void *handle;                      /* the driver's; NULL: a free place */
    int ordinal;                       /* of its device */
    vram_pool *pool;                   /* NULL: not made yet, or the driver keeps this pool */
    vram_device *device;               /* of it */
    bool refused;                      /* the driver keeps it */
    uint64_t used_high, reserved_high; /* peaks that the library has forgotten */
};

/* The pool that stands for the driver's, made at the first call; NULL: the driver keeps it. `begin`
   and `end` go around calls of the library. */
struct served_pool *serve_pool_take(void *handle, int ordinal, void (*begin)(void),
                                    void (*end)(void));
/* The same if there is one. */
struct served_pool *serve_pool_find(void *handle);
/* A pool of the program's own: what its properties say. */
void serve_pool_note(void *handle, const void *props);
void serve_pool_forget(void *handle, void (*begin)(void), void (*end)(void));
/* Other devices get access to a pool: the driver serves it from now on. */
void serve_pool_refuse(void *handle, const int *locations, size_t count);
/* Reads or sets an attribute; false: it is the driver's. */
bool serve_pool_value(struct served_pool *pool, int attribute, void *value, bool set, int *code);

/* The device of that ordinal, as far as it is open. */
vram_device *serve_device(int ordinal);

#endif

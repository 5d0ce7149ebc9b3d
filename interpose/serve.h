/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.h: --serve: stream-ordered memory of CUDA from libvram's pools instead of the driver's.
 *
 * A pool of the driver keeps its handle, and a pool of libvram stands for it from its first
 * allocation on. What libvram cannot stand for stays with the driver: streams that are being
 * captured into a graph, pools for other processes or of host memory, and everything once the
 * process exits. Memory is known by its address, so each call finds whose it is.
 */
#ifndef SERVE_H
#define SERVE_H

#include "cuda_run.h"

/* True with *code set: the call was answered here. False: it is the driver's. `pool` NULL: the
   current pool of the device. */
bool serve_alloc(cuda_addr *addr, size_t bytes, void *pool, void *stream, const void *caller,
                 int *code);
bool serve_free_async(cuda_addr addr, void *stream, int *code);
/* cuMemFree of such memory: waits until no stream uses it. */
bool serve_free(cuda_addr addr, int *code);
/* After the driver made a pool; before it destroys one. */
void serve_pool_created(void *pool, const void *props);
void serve_pool_ends(void *pool);
bool serve_pool_trim(void *pool, size_t keep, int *code);
bool serve_pool_attribute(void *pool, int attribute, void *value, bool set, int *code);
/* After the program gave other devices access to a pool: ordinals. */
void serve_pool_shared(void *pool, const int *locations, size_t count);
/* Before the driver destroys a stream. */
void serve_stream_ends(void *stream);

#endif

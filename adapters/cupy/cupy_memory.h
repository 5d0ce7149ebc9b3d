/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C functions that vram.cupy gives to CuPy (cupy.cuda.CFunctionAllocator).
 *
 * CuPy calls them with the interpreter's lock held, with the number of a device and without a
 * stream. So there is one record for each stream and device, which CuPy passes as `param`:
 * vram.cupy chooses the record of the current stream before the call, and a block is freed on the
 * queue of the record that it came from. Only what the pool holds already is handed out here. For
 * everything else the answer is NULL, and vram.cupy allocates through Python, where waiting lets
 * other threads run and an error becomes an exception.
 *
 * The library links with nothing: the record has the two functions of libvram, of the copy that the
 * Python package has loaded. All calls may be made from any thread.
 */
#ifndef VRAM_ADAPTERS_CUPY_CUPY_MEMORY_H
#define VRAM_ADAPTERS_CUPY_CUPY_MEMORY_H

#include <stddef.h>
#include <vram/pool.h>

#define VRAM_CUPY_ABI 2 /* of these functions; bindings/python/vram/cupy.py asks for it */

typedef vram_status (*vram_cupy_alloc_fn)(vram_pool *pool, uint64_t bytes, vram_queue *queue,
                                          const vram_alloc_options *options, vram_addr *addr);
typedef vram_status (*vram_cupy_free_fn)(vram_addr addr, vram_queue *queue);

int vram_cupy_abi(void);

/* A record for a stream of the device `device`, whose blocks have the tag "cupy"; NULL if memory ran
   out. It is never freed, because blocks point to it: vram.cupy makes one for each address of a
   stream, and the driver uses those again. */
void *vram_cupy_stream_make(vram_cupy_alloc_fn alloc, vram_cupy_free_fn release, vram_pool *pool,
                            int device);

/* The queue of the stream. If it ends, allocations answer NULL until there is another. */
void vram_cupy_stream_set(void *stream, vram_queue *queue);

/* Takes the queue away from a stream without live blocks: 1. 0: it has some, and nothing changed.
   The caller has the interpreter's lock, so no block is allocated meanwhile. */
int vram_cupy_stream_retire(void *stream);

/* A block of `bytes`, or NULL: the pool has to grow, to wait or to refuse, or `device` is another
   one. */
void *vram_cupy_alloc(void *stream, size_t bytes, int device);

/* Frees a block in the order of its stream. If the queue has ended, so has all its work. */
void vram_cupy_free(void *stream, void *block, int device);

#endif

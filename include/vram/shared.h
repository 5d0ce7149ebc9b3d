/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/shared.h: one pool per device for everything in the process.
 *
 * A program and the libraries in it (PyTorch, CuPy, Numba, its own C code) do not know each other's
 * contexts. If each makes a pool of its own, memory that one has freed does not serve the others.
 * These calls find the objects that belong to the process instead: one handle on a device, its
 * pool, and one queue for each native queue. Whoever calls first creates them.
 *
 *   vram_device_shared("cuda", 0, &device);
 *   vram_pool_shared(device, &pool);
 *   vram_queue_shared(device, stream, &queue);             a CUstream that the program made
 *   vram_alloc_with(pool, bytes, queue, &(vram_alloc_options){.size = ..., .tag = "mine"}, &addr);
 *
 * A program that keeps one object for the pools of all devices needs no table of its own: the
 * number of a device leads to its handle, and that to pool, limits, statistics and cleanup.
 *
 * Every user gives its blocks a tag of its own (vram/limits.h): tags have statistics and quotas,
 * and reports of exhausted memory name them.
 *
 * Ownership: the objects belong to the process and last until it ends. No user destroys or closes
 * them, because the others use them too. Where it happens all the same, handles that others have
 * are VRAM_ERR_STALE, and the next call here creates new objects. So it does once a device is known
 * to be lost, after a reset for example; its old handles stay VRAM_ERR_DEVICE_LOST. A forked child
 * gets objects of its own.
 *
 * Two copies of the library in a process, one in the program and one in a plug-in, share nothing.
 */
#ifndef VRAM_SHARED_H
#define VRAM_SHARED_H

#include <vram/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The process's own handle on device `backend_index` of the backend that is called `backend`
 * ("cuda"; vram_device_info has both). The first call starts that backend alone, in a context that
 * the options configure (VRAM_SIM and others), and opens the device; later ones look it up without
 * a lock. VRAM_ERR_INVALID for a name that no backend has; _NO_DRIVER, with the reason, if the
 * backend is not present; _NO_DEVICE if it has no device of that number.
 */
VRAM_API vram_status vram_device_shared(const char *backend, uint32_t backend_index,
                                        vram_device **device);

/**
 * The process's own pool of a device that vram_device_shared returned, with the options of a pool
 * by default and the name "shared". VRAM_ERR_INVALID for any other handle on the device, whose
 * queues could not use the pool. Takes no lock.
 */
VRAM_API vram_status vram_pool_shared(vram_device *device, vram_pool **pool);

/**
 * The queue that stands for a native queue of the program's (vram_queue_adopt) on this handle on
 * the device: the one that was adopted first and has not ended, or a new one. Memory that two users
 * free and allocate on one native queue is reused at once only if both name it by the same queue.
 * The time grows with the number of queues of the device: keep the result. Before the native queue
 * is destroyed, one of its users calls vram_queue_end. Two threads that make the first call at the
 * same time may adopt it twice; later calls return one of the two.
 *
 * CU_STREAM_PER_THREAD and hipStreamPerThread mean another stream in each thread, so each thread
 * gets a queue of its own, to which it alone submits. Any thread may free in its order. The queue
 * ends by itself, after its thread and all its work have ended: calls with it are VRAM_ERR_STALE
 * then, and a block is freed without a queue. Destructors of thread_local objects that submit work
 * call vram_queue_shared again.
 */
VRAM_API vram_status vram_queue_shared(vram_device *device, void *native, vram_queue **queue);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/vram.hpp: libvram for C++17: objects that own their handles and can be moved, not copied.
 *
 *   vram::context context;
 *   vram::device device(context);                     the best device
 *   vram::queue queue(device);
 *   vram::pool pool(device);
 *   vram::block a = pool.alloc(4096, queue);          freed in stream order at the end of its block
 *   vram::buffer b(pool, 1000, VRAM_PRECISION_FP32, queue);
 *   vram::async copy = vram::upload(queue, b.addr(), data, 4000);     copy.wait() waits for it
 *
 *   vram/hpp/owner.hpp    exceptions, and what all owners share
 *   vram/hpp/objects.hpp  contexts, devices, queues, kernels, pools, buffers, scopes, batches,
 *                         names
 *   vram/hpp/moving.hpp   async handles, transfers, stream sets, readbacks, feeds, rings, pinned
 *                         memory
 *   vram/hpp/resource.hpp std::pmr::memory_resource over pools that the host can access
 *
 * vram/cuda.hpp (cuda::mr and Thrust on pools of CUDA devices) is not included: it includes CCCL's
 * headers where they are. vram/compute.hpp (schedulers, weights, distances, labels) and
 * vram/model.hpp belong to libvram-compute and libvram-model.
 *
 * Failures are exceptions: every call here that can fail throws vram::error, which has the status
 * and the thread's error record. Calls of the C API take `get()` of these objects and return
 * statuses; vram::check turns one into an exception. Destructors do not throw and drop the status:
 * call end() to get it. Objects that are declared later are destroyed first, so children go before
 * their parents. An object that was moved from owns nothing: calls on it throw, and as an argument
 * it is NULL, which for a queue means that there is none.
 *
 * There is only this header: the library contains no C++, and these classes are not part of its
 * ABI.
 */
#ifndef VRAM_VRAM_HPP
#define VRAM_VRAM_HPP

#include <vram/hpp/moving.hpp>
#include <vram/hpp/objects.hpp>
#include <vram/hpp/resource.hpp>

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/vram.hpp: libvram for C++17: objects that own what they name, move and do not copy.
 *
 *   vram::context context;
 *   vram::device device(context);                     the best there is
 *   vram::queue queue(device);
 *   vram::pool pool(device);
 *   vram::block a = pool.alloc(4096, queue);          freed, in the time of the queue, with its name
 *   vram::buffer b(pool, 1000, VRAM_PRECISION_FP32, queue);
 *   vram::async copy = vram::upload(queue, b.addr(), data, 4000);   given up with its name; copy.wait() waits
 *
 *   vram/hpp/owner.hpp    failures, and what all owners share
 *   vram/hpp/objects.hpp  contexts, devices, queues, kernels, pools, buffers, scopes, batches, names
 *   vram/hpp/moving.hpp   async handles, transfers, stream sets, readbacks, feeds, rings, pinned memory
 *
 * vram/compute.hpp (schedulers, weights, distances, labels) and vram/model.hpp are not part of it: they belong to
 * libvram-compute and libvram-model.
 *
 * Failures are exceptions: every call here that can fail throws vram::error, which carries the status and
 * the error record of the thread. The calls of C take `get()` of these objects and return statuses as ever;
 * vram::check turns one into an exception. Destructors throw nothing and lose the end's answer: who wants it
 * calls end(). Objects that are declared later end first, so children end before their parents.
 *
 * This header is all there is: nothing of C++ is compiled into the library, and no symbol of it is part of
 * its ABI.
 */
#ifndef VRAM_VRAM_HPP
#define VRAM_VRAM_HPP

#include <vram/hpp/moving.hpp>
#include <vram/hpp/objects.hpp>

#endif

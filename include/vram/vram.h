/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/vram.h: a memory manager for every GPU. Include this header; link libvram.
 *
 *   vram_context *context;
 *   vram_context_create(NULL, &context);        finds every backend and device
 *   vram_device_open(context, 0, &device);      devices are sorted, the best first
 *   vram_queue_create(device, NULL, &queue);    work runs in order on a queue
 *   vram_pool_create(device, NULL, &pool);      memory comes from a pool
 *   vram_alloc(pool, bytes, queue, &addr);
 *   vram_queue_upload(queue, addr, data, bytes);
 *   vram_free(addr, queue);                     in stream order: no need to wait
 *   vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT);
 *   vram_context_destroy(context);              destroys everything below it
 *
 * Ownership is a tree: context > device > queue, pool and memory. Destroying a parent destroys all
 * its children; docs/ownership.md has a drawing.
 *
 * Two libraries build on this one, each with its own header: libvram-compute, <vram/compute.h>
 * (matrix products, distances, labels), and libvram-model, <vram/model.h> (how much memory a model
 * needs).
 *
 * The C API is experimental: it will be made smaller before 0.1.0 (CHANGELOG.md). Build programs
 * anew for each version.
 */
#ifndef VRAM_VRAM_H
#define VRAM_VRAM_H

#include <vram/async.h>
#include <vram/base.h>
#include <vram/batch.h>
#include <vram/buffer.h>
#include <vram/device.h>
#include <vram/feed.h>
#include <vram/foreign.h>
#include <vram/growth.h>
#include <vram/lease.h>
#include <vram/limits.h>
#include <vram/metal.h>
#include <vram/metrics.h>
#include <vram/named.h>
#include <vram/oom.h>
#include <vram/opencl.h>
#include <vram/pinned.h>
#include <vram/pool.h>
#include <vram/pressure.h>
#include <vram/queue.h>
#include <vram/readback.h>
#include <vram/ring.h>
#include <vram/scope.h>
#include <vram/share.h>
#include <vram/shared.h>
#include <vram/sim.h>
#include <vram/stats.h>
#include <vram/stream.h>
#include <vram/trace.h>
#include <vram/transfer.h>
#include <vram/visibility.h>
#include <vram/vmm.h>
#include <vram/vulkan.h>

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handle.h: what users hold instead of pointers.
 *
 * A handle is a 64-bit number of pointer type: generation (32 bits), slot (24), kind (8). It is
 * never dereferenced. The table says whether it is live and where the object is, so every call
 * detects a stale, foreign or made-up handle. The number of a queue is never issued again, so it is
 * safe to remember.
 *
 *     63            32 31          8 7     0
 *    +----------------+-------------+-------+
 *    |   generation   |    slot     | kind  |      never 0: kinds start at 1
 *    +----------------+-------------+-------+
 *      xor         mark             |              bits 52 to 8
 *
 * There may be two copies of the library in a process, one in the program and one in a plug-in.
 * Each copy has its own mark, so the other copy decodes a foreign handle to a random slot and a
 * random generation. Of 2^45 such numbers, a table that has issued n handles of that kind accepts
 * n.
 *
 * Life of an object:
 *  (1) publish gives it a handle and one reference, the owner's.
 *  (2) pin adds a reference if the handle is live; every API call pins what it works on and unpins
 *      it at its end. A child pins its parent for its whole life.
 *  (3) retire makes the handle dead at once: later pins fail. It succeeds for one caller only,
 *      which then drops the owner's reference. A thread that learns from vr_handle_was or an error
 *      that a handle is dead sees all writes made before it was retired. So a result whose handle
 *      is dead can be read.
 *  (4) The thread that drops the last reference runs the object's destructor, with no lock held. So
 *      unpin is called with no lock held (debug builds check it). A pin that fails touches nothing,
 *      so pin and ref may be called under any lock.
 * A slot's memory is type-stable, so a pin of a long dead handle is safe. A slot belongs to one
 * kind for ever, so its last generation tells which numbers were ever issued for it. A slot whose
 * generation would wrap is never used again.
 */
#ifndef VR_HANDLE_H
#define VR_HANDLE_H

#include "vram/base.h"

_Static_assert(sizeof(void *) == sizeof(uint64_t), "a handle's number needs 64 bits of a pointer");

/* Every kind of object, and its name in messages. */
#define VR_KINDS(KIND)                                                                             \
    KIND(CONTEXT, "context")                                                                       \
    KIND(DEVICE, "device")                                                                         \
    KIND(QUEUE, "queue")                                                                           \
    KIND(KERNEL, "kernel")                                                                         \
    KIND(PHYSICAL, "physical memory")                                                              \
    KIND(POOL, "pool")                                                                             \
    KIND(WATCH, "watch")                                                                           \
    KIND(MONITOR, "monitor")                                                                       \
    KIND(BUFFER, "buffer")                                                                         \
    KIND(SCOPE, "scope")                                                                           \
    KIND(BATCH, "batch")                                                                           \
    KIND(NAMED, "manager of names")                                                                \
    KIND(TRACE, "trace")                                                                           \
    KIND(LABELS, "cache of labels")                                                                \
    KIND(SCHEDULER, "scheduler")                                                                   \
    KIND(WEIGHTS, "matrix of weights")                                                             \
    KIND(ASYNC, "work under way")                                                                  \
    KIND(FLIGHT, "list of work under way")                                                         \
    KIND(STREAM_SET, "stream set")                                                                 \
    KIND(READBACK, "readback")                                                                     \
    KIND(FEED, "feed")                                                                             \
    KIND(RING, "ring")                                                                             \
    KIND(STAGING, "staging ring")                                                                  \
    KIND(ATTACHMENT, "attachment")                                                                 \
    KIND(SHARE, "share")                                                                           \
    KIND(LEASE, "lease")                                                                           \
    KIND(REMOTE, "remote")                                                                         \
    KIND(REMOTE_REGION, "remote region")                                                           \
    KIND(REMOTE_PEER, "remote peer")

enum vr_kind {
    VR_KIND_NONE = 0,
#define KIND(name, text) VR_KIND_##name,
    VR_KINDS(KIND)
#undef KIND
        VR_KIND_COUNT
};

enum { VR_HANDLE_BYTES = 32 }; /* of host memory that a handle takes */

/* Gives `object` a handle of `kind`; `destroy` runs when its last reference is dropped. The first
   1024 handles need no memory; later ones may fail with VRAM_ERR_HOST_MEMORY. VRAM_ERR_LIMIT when
   all slots are used. */
vram_status vr_handle_publish(enum vr_kind kind, void *object, void (*destroy)(void *object),
                              uint64_t *handle);

/* The object behind a live handle of `kind`, with a reference added; NULL when there is none. The
   error is not recorded here: see vr_handle_error. Lock-free. */
void *vr_handle_pin(enum vr_kind kind, const void *handle);

/* The same for a handle that may be retired, as long as the object has a reference. */
void *vr_handle_hold(enum vr_kind kind, const void *handle);

/* Adds a reference to an object that is referenced already. */
void vr_handle_ref(uint64_t handle);

/* The same where the object may already be ending; false then. */
bool vr_handle_try_ref(uint64_t handle);

/* Drops a reference; the last one destroys. The handle may be dead already. No lock may be held. */
void vr_handle_unpin(uint64_t handle);

/* Makes the handle dead; true for the one caller that did. That caller must call vr_handle_unpin
   once for the owner's reference. */
bool vr_handle_retire(uint64_t handle);

/* Whether the object of a retired handle has only the owner's reference and one of the caller's:
   then no other call is inside it, and none can enter. */
bool vr_handle_is_last(uint64_t handle);

/* Whether `handle` was retired: of this kind, issued, not live. False for made-up numbers. */
bool vr_handle_was(enum vr_kind kind, const void *handle);

/* Records why a pin failed: VRAM_ERR_INVALID for NULL and for numbers that never were a handle of
   this kind, VRAM_ERR_STALE for handles that were. */
vram_status vr_handle_error(enum vr_kind kind, const void *handle);

/* Live handles of a kind, those published and not retired; 0: of all kinds. */
uint64_t vr_handle_live(unsigned kind);

/* For tests: the last generation a slot may have and the number of slots, so that the end of either
   can be reached. 0 restores the full range. */
void vr_handle_limits_set(uint32_t generations, uint32_t slots);

#endif

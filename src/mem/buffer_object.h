/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffer_object.h: the object behind a vram_buffer, and the steps that every change of a buffer
 * consists of.
 *
 *   vr_pool
 *     +- vr_pool_child        the buffer as its pool knows it: notified when the pool ends
 *          +- vr_buffer       pins nothing: its memory is the pool's, and ends with the pool
 *               +- memory     one block of the pool, or wrapped memory of the program
 *
 *  (1) `lock` guards everything that may change. No call into pool, queue or driver is made under
 *      it.
 *  (2) A call that changes where the buffer lies claims it; a call that needs it to stay shares it.
 *      Each excludes the other: VRAM_ERR_BUSY. Between claim and unclaim only the claimer changes
 *      `memory`.
 *  (3) A change allocates the new memory first, submits the copy, installs the new memory, and
 *      frees the old memory in the order of the queue that copies. A failure before the
 *      installation leaves the buffer unchanged.
 *  (4) `uses` holds each queue other than home that uses the memory. The pool knows these too
 *      (vram_use); they are kept here so that a move can be ordered behind their work so far.
 *  (5) Destroying a buffer frees its memory at once, unless a call shares or claims it at that
 *      moment. Then the destructor frees it, when the last such call has left.
 *  (6) A pool that ends frees the memory of its buffers. `orphan` records that, and the buffer
 *      frees nothing.
 */
#ifndef VR_BUFFER_OBJECT_H
#define VR_BUFFER_OBJECT_H

#include "core/object/pool_object.h"
#include "mem/growth_state.h"
#include "vram/buffer.h"

/* Where contents lie. */
struct vr_buffer_memory {
    vram_addr addr;            /* 0: there is none */
    vram_memory_kind kind;     /* where it lies; for PINNED and HOST `addr` is a host pointer */
    vram_addr base;            /* the block it is part of, which its owner frees; 0: not a part */
    bool pageable;             /* kind PINNED, but the driver says it is not page-locked */
    bool wrapped;              /* the program's own: never freed by the library */
    struct vr_record *foreign; /* wrapped: its record in the address map; NULL: none was needed */
    struct vr_device_object
        *keeper; /* device of a wrapped object, referenced; NULL: not an object */
};

/* What the host sees between map and unmap. */
struct vr_buffer_mapping {
    bool open;      /* mapped: the mapping shares the buffer */
    bool ending;    /* a call is ending it */
    uint32_t flags; /* vram_map_flag */
    uint64_t offset, bytes;
    vram_queue *queue; /* for the copies */
    vram_addr staging; /* the copy, a block of host memory; 0: the memory itself is mapped */
};

struct vr_buffer {
    struct vr_object object;
    struct vr_pool_child child;
    struct vr_pool *pool;          /* not pinned: valid while the caller has entered it */
    uint64_t pool_handle;          /* its handle, always valid */
    uint64_t id;                   /* unique and increasing over the process */
    enum vram_buffer_kind kind;    /* as asked for */
    enum vram_precision precision; /* type of the elements */
    struct vram_provider provider; /* of its memory; alloc NULL: the pool */
    uint32_t flags;                /* of vram_buffer_options */
    vram_buffer_moved_fn *moved;   /* called when the kind of memory changes; NULL: none */
    void *user;                    /* argument of `moved` */
    const char *tag;               /* the ledger's; NULL: none */
    uint64_t created_ns;           /* vr_clock_now */
    char name[VRAM_BUFFER_NAME_MAX];

    /* Calls that need the memory to stay. Closed while a call changes it, and after it is freed:
       (2), (5). */
    struct vr_entry_guard sharers;
    struct vr_mutex lock; /* guards the rest */
    struct vr_buffer_memory memory;
    struct vr_buffer_mapping mapping;
    uint64_t promotions, demotions; /* moves to the device, and away from it */
    bool displaced;     /* it lies elsewhere because the device was exhausted, not by a call */
    uint64_t return_ns; /* vr_clock_now from which it may try to return */
    uint64_t capacity_bytes, used_bytes;
    vram_queue *home;     /* NULL: none */
    uint64_t accessed_ns; /* vr_clock_now of the last call that used it */
    uint64_t resizes;     /* times that the capacity changed */
    vram_queue **uses;    /* keeps (4); vr_mem's */
    uint32_t use_count, use_capacity;
    bool captured_use; /* captured work uses it: its end is unknown */
    bool orphan;       /* its pool has ended */
    struct vr_growth_state growth;
};

/* ------------------------------------------------------------ entering, leaving */

/* Enters the buffer and its pool; STALE when either has ended. After VRAM_OK the caller calls
   vr_buffer_leave. */
vram_status vr_buffer_enter(vram_buffer *handle, struct vr_buffer **buffer);
void vr_buffer_leave(struct vr_buffer *buffer);
/* Leaves the buffer and returns the call's status, with STALE instead of INVALID if the buffer, its
   pool or its device has ended. */
vram_status vr_buffer_finish(struct vr_buffer *buffer, vram_status status);

/* Share keeps the memory where it is; claim makes the caller the only one that may change it:
   (2). */
vram_status vr_buffer_share(struct vr_buffer *buffer);
void vr_buffer_unshare(struct vr_buffer *buffer);
vram_status vr_buffer_claim(struct vr_buffer *buffer);
void vr_buffer_unclaim(struct vr_buffer *buffer);

/* Records that submitted work of `queue` uses the shared buffer, or waits for that work if it
   cannot be recorded. The caller has entered the queue (vr_submit_enter) before it submitted: the
   use of a queue that has ended cannot be recorded. */
vram_status vr_buffer_note(struct vr_buffer *buffer, vram_queue *queue);

/* Sets the time of the last access. */
void vr_buffer_touch(struct vr_buffer *buffer);

/* --------------------------------------------------------------------- making */

/* Refuses options (read by vr_options_take) that are invalid for `bytes`. */
vram_status vr_buffer_options_check(const struct vram_buffer_options *taken, uint64_t bytes);
/* Makes a record without memory and without a handle; the pool is entered. vr_buffer_free frees
   it. */
vram_status vr_buffer_make(struct vr_pool *pool, uint64_t bytes, vram_queue *queue,
                           const struct vram_buffer_options *options, struct vr_buffer **out);
/* Gives a complete record its handle and adds it to the pool's children. On failure the record is
   freed. */
vram_status vr_buffer_publish(struct vr_pool *pool, struct vr_buffer *buffer, vram_buffer **out);
/* The destructor, also of a half-built buffer. */
void vr_buffer_free(void *object);
/* Notifies a buffer that its pool ends. A child with this callback is a buffer. */
void vr_buffer_pool_ended(struct vr_pool_child *child);

/* Creates a buffer over a part of a live block of the pool. The block stays the caller's and must
   live longer than the buffer uses it. The options are checked and the pool is entered. */
vram_status vr_buffer_carve(struct vr_pool *pool, vram_addr base, vram_addr addr, uint64_t bytes,
                            vram_queue *queue, const struct vram_buffer_options *options,
                            vram_buffer **buffer);

/* ------------------------------------------------------- memory; buffer_memory.c */

/* The pool's options for `bytes` of this buffer, with its tag and the name that tracking shows. */
struct vram_alloc_options vr_buffer_alloc_options(const struct vr_buffer *buffer, uint64_t bytes);
/* Records where a newly allocated block lies. */
void vr_buffer_found(vram_addr addr, struct vr_buffer_memory *memory);
/* Allocates `bytes` from the buffer's pool, ready for `queue`, of the memory that its kind begins
   with. */
vram_status vr_buffer_take(struct vr_buffer *buffer, uint64_t bytes, vram_queue *queue,
                           struct vr_buffer_memory *memory);
/* The same from the pool's own memory, and from host memory for contents that leave the device. */
vram_status vr_buffer_take_block(struct vr_buffer *buffer, uint64_t bytes, vram_queue *queue,
                                 struct vr_buffer_memory *memory);
vram_status vr_buffer_take_host(struct vr_buffer *buffer, uint64_t bytes, vram_queue *queue,
                                struct vr_buffer_memory *memory);
/* The same with addresses reserved for growth by its policy, where only addresses are needed;
   growth.c. */
vram_status vr_buffer_take_growing(struct vr_buffer *buffer, uint64_t bytes, vram_queue *queue,
                                   struct vr_buffer_memory *memory);
/* vram_buffer_resize, which waits up to `wait_ns` for other calls on the buffer. in_place_only:
   VRAM_ERR_UNSUPPORTED, without an error record and with nothing changed, when the buffer would
   have to move; growth.c. */
vram_status vr_buffer_resize_within(vram_buffer *handle, uint64_t bytes, vram_queue *queue,
                                    uint64_t wait_ns, bool in_place_only);
/* Frees memory in the order of `queue`; without memory it does nothing. The memory is always freed;
   VRAM_ERR_CORRUPT if the pool found damage. The queue may have ended. */
vram_status vr_buffer_give(struct vr_buffer *buffer, const struct vr_buffer_memory *memory,
                           vram_queue *queue);
/* Makes later work of `queue` wait for all work that uses the claimed buffer: that of its home
   queue, and (4). */
vram_status vr_buffer_order(struct vr_buffer *buffer, vram_queue *queue);
/* Waits on the host until all work that uses the claimed or shared buffer is complete, for at most
   the option wait_timeout. */
vram_status vr_buffer_settle(struct vr_buffer *buffer);
/* Submits a copy of the first `bytes` from one memory of the claimed buffer to another, after all
   work that uses the buffer (vr_buffer_order); from host to host memory it waits for the queue and
   copies. */
vram_status vr_buffer_copy(struct vr_buffer *buffer, vram_queue *queue,
                           const struct vr_buffer_memory *to, const struct vr_buffer_memory *from,
                           uint64_t bytes);
/* Places the claimed buffer in `memory` with the home `queue`. The other queues that use it go on
   using it there; if host memory to note them runs out, nothing changes. */
vram_status vr_buffer_install(struct vr_buffer *buffer, const struct vr_buffer_memory *memory,
                              vram_queue *queue);

/* Refuses a handle that is not a queue of the buffer's device; NULL is allowed. */
vram_status vr_buffer_queue_check(struct vr_buffer *buffer, vram_queue *queue);
/* The queue of a call: `given`, entered already or not, or else the buffer's home; VRAM_ERR_INVALID
   when there is neither. */
vram_status vr_buffer_queue(struct vr_buffer *buffer, vram_queue *given, vram_queue **queue);
/* A host pointer to the first byte; NULL: the host cannot access the memory. */
void *vr_buffer_host_pointer(const struct vr_buffer_memory *memory);
/* Whether copies address the memory by a device address. */
bool vr_buffer_on_device(const struct vr_buffer_memory *memory);
/* VRAM_ERR_INVALID unless [offset, offset + bytes) lies in the used bytes. */
vram_status vr_buffer_span_check(struct vr_buffer *buffer, uint64_t offset, uint64_t bytes);

/* vram_buffer_fit for every buffer of a pool that has no used bytes and that no call has used for
   `idle_ns`. Returns the bytes that the pool got; growth.c. */
uint64_t vr_buffers_fit(struct vr_pool *pool, uint64_t idle_ns);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buffer_object.h: what stands behind a vram_buffer, and the steps that every change of one is made
 * of.
 *
 *   vr_pool
 *     +- vr_pool_child        the buffer as its pool knows it: told when the pool ends
 *          +- vr_buffer       pins nothing: memory is the pool's, and ends with it
 *               +- memory     one block of the pool, or memory that was wrapped
 *
 *  (1) `lock` guards everything that may change. No call into pool, queue or driver is made under
 *      it.
 *  (2) Who wants to change where the buffer lies claims it; who needs it to stay shares it. One
 *      excludes the other: VRAM_ERR_BUSY. So between claim and unclaim only the claimer changes
 *      `memory`.
 *  (3) A change takes the new memory first, submits the copy, installs it, and gives the old memory
 *      back on the queue of the copy. Whatever fails before the installation leaves the buffer as
 *      it was.
 *  (4) `uses` holds the last point of each queue besides home that uses the memory. The pool knows
 *      of them too (vram_use): they are kept here so that a move can be ordered behind them.
 *  (5) A destroyed buffer gives its memory back at once unless somebody shares or claims it at that
 *      moment: then the destructor does, when the last of them has left.
 *  (6) A pool that ends takes the memory of its buffers with it: `orphan` says so, and nothing is
 *      freed.
 */
#ifndef VR_BUFFER_OBJECT_H
#define VR_BUFFER_OBJECT_H

#include "core/object/pool_object.h"
#include "mem/growth_state.h"
#include "vram/buffer.h"

/* Where contents lie. */
struct vr_buffer_memory {
    vram_addr addr;        /* 0: there is none */
    vram_memory_kind kind; /* of what it is; for PINNED and HOST `addr` is a host pointer */
    vram_addr base; /* of the block it is a part of, which somebody else frees; 0: it is no part */
    bool pageable;  /* PINNED, but not page-locked by the driver's own word */
    bool wrapped;   /* the program's own: never given back */
    struct vr_record *foreign; /* wrapped: its record in the address map; NULL: none was needed */
    struct vr_device_object
        *keeper; /* of a wrapped object; a reference is held. NULL: it is none */
};

/* What the host was given to look at, between map and unmap. */
struct vr_buffer_mapping {
    bool open;      /* there is one: it shares the buffer */
    bool ending;    /* a call is ending it */
    uint32_t flags; /* vram_map_flag */
    uint64_t offset, bytes;
    vram_queue *queue; /* that copies come and go on */
    vram_addr staging; /* the copy, a block of host memory; 0: the memory itself was given */
};

struct vr_buffer {
    struct vr_object object;
    struct vr_pool_child child;
    struct vr_pool *pool;          /* not pinned: valid for who has entered it */
    uint64_t pool_handle;          /* its number, which stays good */
    uint64_t id;                   /* rising over the process */
    enum vram_buffer_kind kind;    /* as asked for */
    enum vram_precision precision; /* what elements are */
    uint32_t flags;                /* of vram_buffer_options */
    vram_buffer_moved_fn *moved;   /* NULL: nobody is told */
    void *user;                    /* handed to it */
    const char *tag;               /* the ledger's; NULL: none */
    uint64_t created_ns;           /* vr_clock_now */
    char name[VRAM_BUFFER_NAME_MAX];

    /* Calls that need the memory to stay. Closed: a call changes it, or it was freed: (2), (5). */
    struct vr_entry_guard sharers;
    struct vr_mutex lock; /* guards the rest */
    struct vr_buffer_memory memory;
    struct vr_buffer_mapping mapping;
    uint64_t promotions, demotions; /* moves to the device, and away from it */
    uint64_t capacity_bytes, used_bytes;
    vram_queue *home;        /* NULL: none */
    uint64_t accessed_ns;    /* vr_clock_now of the last call that used it */
    uint64_t resizes;        /* times that the capacity changed */
    struct vram_point *uses; /* keeps (4); vr_mem's */
    uint32_t use_count, use_room;
    bool captured_use; /* a queue in a capture uses it: nobody knows until when */
    bool orphan;       /* its pool has ended */
    struct vr_growth_state growth;
};

/* ------------------------------------------------------------ entering, leaving */

/* Enters the buffer and its pool; STALE when either has ended. On VRAM_OK a vr_buffer_leave is
   owed. */
vram_status vr_buffer_enter(vram_buffer *handle, struct vr_buffer **buffer);
void vr_buffer_leave(struct vr_buffer *buffer);
/* Leaves the buffer and returns the call's status, with STALE instead of INVALID if the buffer, its
   pool or its device has ended. */
vram_status vr_buffer_finish(struct vr_buffer *buffer, vram_status status);

/* Keeps the memory where it is, or makes the caller the only one who may change it: (2). */
vram_status vr_buffer_share(struct vr_buffer *buffer);
void vr_buffer_unshare(struct vr_buffer *buffer);
vram_status vr_buffer_claim(struct vr_buffer *buffer);
void vr_buffer_unclaim(struct vr_buffer *buffer);

/* Notes that work which a call of the library's own has submitted to `queue` uses the shared
   buffer; when that cannot be noted it waits for it. The call has entered the queue
   (vr_submit_enter) before it submitted: a queue that ended in between could not be noted any
   more. */
vram_status vr_buffer_note(struct vr_buffer *buffer, vram_queue *queue);

/* Notes that somebody looked. */
void vr_buffer_touch(struct vr_buffer *buffer);

/* --------------------------------------------------------------------- making */

/* Refuses options, as vr_options_take gave them, that make no sense for `bytes`. */
vram_status vr_buffer_options_check(const struct vram_buffer_options *taken, uint64_t bytes);
/* A record without memory and without a handle; the pool is entered. vr_buffer_free ends it. */
vram_status vr_buffer_make(struct vr_pool *pool, uint64_t bytes, vram_queue *queue,
                           const struct vram_buffer_options *options, struct vr_buffer **out);
/* Gives a finished record its handle and its place under the pool. When that fails the record is
   gone. */
vram_status vr_buffer_publish(struct vr_pool *pool, struct vr_buffer *buffer, vram_buffer **out);
/* The destructor, also of a half-built buffer. */
void vr_buffer_free(void *object);
/* What a pool tells its buffers when it ends, and what tells buffers among its children. */
void vr_buffer_pool_ended(struct vr_pool_child *child);

/* A buffer over a part of a live block of the pool, which stays the caller's and outlasts the
   buffer's use of it. The options are checked and the pool is entered. */
vram_status vr_buffer_carve(struct vr_pool *pool, vram_addr base, vram_addr addr, uint64_t bytes,
                            vram_queue *queue, const struct vram_buffer_options *options,
                            vram_buffer **buffer);

/* ------------------------------------------------------- memory; buffer_memory.c */

/* What the pool is told of `bytes` that it is asked for: for whom, and what the tracker calls
   them. */
struct vram_alloc_options vr_buffer_wishes(const struct vr_buffer *buffer, uint64_t bytes);
/* `bytes` of memory from the buffer's pool, ready for `queue`, as a buffer of its kind begins. */
vram_status vr_buffer_take(struct vr_buffer *buffer, uint64_t bytes, vram_queue *queue,
                           struct vr_buffer_memory *memory);
/* The same of the pool's own memory, and of host memory for contents that leave the device. */
vram_status vr_buffer_take_block(struct vr_buffer *buffer, uint64_t bytes, vram_queue *queue,
                                 struct vr_buffer_memory *memory);
vram_status vr_buffer_take_host(struct vr_buffer *buffer, uint64_t bytes, vram_queue *queue,
                                struct vr_buffer_memory *memory);
/* The same with room for what its policy may still ask for, where that is a matter of addresses;
   growth.c. */
vram_status vr_buffer_take_growing(struct vr_buffer *buffer, uint64_t bytes, vram_queue *queue,
                                   struct vr_buffer_memory *memory);
/* vram_buffer_resize, but VRAM_ERR_UNSUPPORTED, without an error record and with nothing changed,
   when the buffer would have to move; growth.c. */
vram_status vr_buffer_extend(vram_buffer *handle, uint64_t bytes, vram_queue *queue);
/* Frees memory in the order of `queue`; does nothing if there is none. The memory is freed in any
   case; VRAM_ERR_CORRUPT if the pool found damage. The queue may have ended. */
vram_status vr_buffer_give(struct vr_buffer *buffer, const struct vr_buffer_memory *memory,
                           vram_queue *queue);
/* Has later work of `queue` wait for all work that uses the claimed buffer: that of its home, and
   (4). */
vram_status vr_buffer_order(struct vr_buffer *buffer, vram_queue *queue);
/* Waits on the host until all work that uses the claimed or shared buffer is done, up to the option
   wait_timeout. */
vram_status vr_buffer_settle(struct vr_buffer *buffer);
/* Submits a copy of the first `bytes` from one memory of the claimed buffer to another, after all
   work that uses the buffer (vr_buffer_order); from host to host memory it waits for the queue and
   copies. */
vram_status vr_buffer_copy(struct vr_buffer *buffer, vram_queue *queue,
                           const struct vr_buffer_memory *to, const struct vr_buffer_memory *from,
                           uint64_t bytes);
/* The claimed buffer lies in `memory` from now on, at home on `queue`, and nobody else uses it
   there. */
void vr_buffer_install(struct vr_buffer *buffer, const struct vr_buffer_memory *memory,
                       vram_queue *queue);

/* Refuses a queue that is none or another device's; NULL is allowed. */
vram_status vr_buffer_queue_check(struct vr_buffer *buffer, vram_queue *queue);
/* The queue of a call: the one given, entered already or not, or else the buffer's home;
   VRAM_ERR_INVALID when there is neither. */
vram_status vr_buffer_queue(struct vr_buffer *buffer, vram_queue *given, vram_queue **queue);
/* The first byte for the host; NULL: it may not touch the memory. */
void *vr_buffer_host_pointer(const struct vr_buffer_memory *memory);
/* Whether the memory is of the kinds that copies take an address of. */
bool vr_buffer_on_device(const struct vr_buffer_memory *memory);
/* VRAM_ERR_INVALID unless [offset, offset + bytes) lies in the used bytes. */
vram_status vr_buffer_span_check(struct vr_buffer *buffer, uint64_t offset, uint64_t bytes);

/* vram_buffer_fit for all buffers of a pool of which nothing is in use and that no call has used
   for `idle_ns`: how many bytes the pool got; growth.c. */
uint64_t vr_buffers_fit(struct vr_pool *pool, uint64_t idle_ns);

#endif

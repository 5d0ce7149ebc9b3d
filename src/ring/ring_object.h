/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_object.h: the struct behind a vram_ring, and the files that work on it.
 *
 *   ring.c        creating, describing and ending rings
 *   ring_flow.c   send, receive, stop, drain and join: what waits, and for how long
 *   ring_pump.c   copies between the host's half and the device's, one step at a time
 *   ring_query.c  telemetry and the check of a ring
 *   channel.c     the host's end of one direction
 *   visibility.c  which of each other's writes host and device see
 *
 * With DIRECT there is one block, and the channels point into it. With the other strategies the
 * device has the block, and the host has a half of its own, which its channels point to:
 *
 *     host's half                                    device's block
 *     staging: input slots    -- slots, then head -> input slots, input head
 *     moved, input tail       <- tail --------------- input tail
 *     output tail             -- tail --------------> output tail
 *     staging: output slots   <- head, then slots --- output head, output slots
 *
 *  (1) The host's half is a complete ring: `input` holds the messages that the device has not been
 *      seen to take. So a slot of the staging is not overwritten before the copy from it has long
 *      ended.
 *  (2) A head is copied after its slots on the same queue, so the device sees it after them. In the
 *      other direction the head is fetched first, and slots below it afterwards.
 *  (3) One thread at a time pumps, guarded by `pumping`; no lock is held across a driver call. A
 *      step never waits.
 *  (4) A step that failed half-way is repeated: it may copy the same data twice.
 *  (5) Counters are copied as words of 8 bytes, never as parts of something larger: the device may
 *      be using them.
 *  (6) What the device writes is checked against the host's own numbers before it is used.
 *      `corrupt` is never cleared.
 *  (7) Copies of slots are counted as transfers, one for each step that has any, from before they
 *      are submitted until their point is seen to have passed; words are not counted.
 *  (8) A ring pins its pool, and so all memory that its calls use, until the last call has left the
 *      ring, even if the ring, the pool, the device or the context is ended before. Calls that wait
 *      see `ending` and leave.
 */
#ifndef VR_RING_OBJECT_H
#define VR_RING_OBJECT_H

#include "base/os/os.h"
#include "core/object/pool_object.h"
#include "ring/channel.h"
#include "vram/buffer.h"
#include "vram/ring.h"
#include "xfer/transfer_counts.h"

enum {
    VR_RING_STEPS = 32, /* steps whose words may still be in transit */
    VR_RING_PEEK = VRAM_RING_AT_SLOTS / sizeof(uint64_t), /* words that can be read together */
    VR_RING_PAD = VRAM_CACHE_LINE - sizeof(uint64_t)
};

/* A word with a cache line of its own, at any address of the object. */
struct vr_ring_word {
    vr_atomic_u64 word;
    char padding[VR_RING_PAD];
};

/* The words that one step sends, in page-locked memory. */
struct vr_ring_step {
    uint64_t input_head, output_tail, control;
    uint64_t unused;
};

/* Slots in transit, counted: (7). All zero: none. */
struct vr_ring_load {
    struct vr_transfer_count count;
    uint64_t bytes;
};

/* Counters that are fetched, in page-locked memory. */
struct vr_ring_counters {
    uint64_t input_tail, output_head, control; /* bytes 8..15 of the control block */
    uint64_t unused;
};

struct vr_ring {
    struct vr_object object;
    struct vr_pool_child child;
    struct vr_pool *pool;            /* pinned: (8) */
    struct vr_device_object *device; /* of the pool */
    struct vram_ring_info info;
    /* The control block as it was written; its constants never change. An array of bytes, since the
       type's alignment of a cache line exceeds that of the allocator. */
    unsigned char control[sizeof(struct vram_ring_control)];
    vram_buffer *block, *staging;    /* the device's block, and the host's half; NULL: none */
    unsigned char *shared;           /* DIRECT: the block for the host; else NULL */
    uint64_t wait_ns;                /* the context's option wait_timeout */
    bool own_queue;                  /* info.queue is to be destroyed with the ring */
    bool pinned;                     /* the block is; DIRECT */
    struct vr_channel input, output; /* capacity 0: the ring lacks this direction */

    char padding[VRAM_CACHE_LINE];
    struct vr_ring_word head, claim, tail; /* the host's half: of the input, ... */
    struct vr_ring_word arrived, consumed; /* ... and head and tail of the output */
    vr_atomic_bool sending, receiving;     /* a call is inside; unused with several producers */
    vr_atomic_bool stopped, corrupt;
    vr_atomic_bool ending; /* it is being destroyed: waits end, and nothing more is submitted */
    vr_atomic_u64 sent, received, full_waits, empty_waits, crc_errors;
    vr_atomic_u64 copies, copied_bytes, words, fences;

    /* State of the pump, guarded by `pumping`; fields that others read are atomic. */
    vr_atomic_bool pumping;
    vr_atomic_u64 moved;                  /* input messages sent to the device */
    vr_atomic_u64 seen;                   /* bytes 8..15 of the control block, as last fetched */
    vr_atomic_u64 counters_asked, rounds; /* times that counters were requested, and read */
    uint64_t asked;                       /* output messages whose copies were submitted */
    vr_atomic_u64 output_seen;            /* the device's output head, as last fetched */
    uint64_t tail_sent;                   /* the output tail last sent to the device */
    uint64_t control_sent;                /* the control word last sent to it */
    uint64_t step;                        /* number of the next vr_ring_step */
    struct vram_point step_points[VR_RING_STEPS];
    struct vr_ring_load loads[VR_RING_STEPS]; /* sent by each step, */
    uint64_t loads_ended;                     /* steps whose copies have ended; at most `step` */
    struct vr_ring_load fetched;              /* and those that `slots_point` belongs to */
    struct vram_point counters_point, slots_point;
    vr_atomic_u64 last_value; /* of the last point of a step; 0: none */
    bool counters_pending, slots_pending;
    bool step_failed;                  /* words of a failed step may be in transit */
    struct vr_ring_step *steps;        /* in the staging */
    struct vr_ring_counters *counters; /* in the staging, as is ... */
    uint64_t *peeked;                  /* ... space for VR_RING_PEEK words */

    /* DMA_POLLING's thread. */
    struct vr_thread thread;
    vr_atomic_u64 thread_number; /* its vr_os_thread_number; 0: there is no thread */
    struct vr_mutex lock;        /* guards the rest */
    struct vr_cond wake;
    bool thread_ends;
    bool thread_has_reference; /* the thread could not be joined: it has a reference to the ring */
    vram_status thread_status; /* failure of the last step; VRAM_OK: none */
};

/* The word at bytes 0..7 of the control block, with the host's current values. */
static inline uint64_t vr_ring_control_word(const struct vr_ring *ring) {
    bool stopped = vr_load(&ring->stopped, VR_ACQUIRE);
    struct {
        int32_t is_active, should_terminate;
    } word = {!stopped, stopped};
    uint64_t value;
    _Static_assert(sizeof word == sizeof value, "two fields are one word");
    __builtin_memcpy(&value, &word, sizeof value);
    return value;
}

static inline bool vr_ring_copies(const struct vr_ring *ring) {
    return ring->shared == NULL;
}

/* Marks the ring as damaged, for good, and records that. */
vram_status vr_ring_damaged(struct vr_ring *ring, const char *what);

/* ------------------------------------------------------------- ring_pump.c */

/* One step: processes what has arrived, submits what there is to submit. VRAM_OK,
   VRAM_ERR_NOT_READY if another thread is pumping (no error record), VRAM_ERR_SHUTDOWN if the ring
   is ending, or a failure. *moved and *arrived are the messages of this step. */
vram_status vr_ring_pump(struct vr_ring *ring, uint64_t *moved, uint64_t *arrived);
/* Repeats steps, with waits in between. push: until everything sent before the call has been copied
   to the device. pull: until counters fetched after the call have been read, and the messages they
   announce have arrived. */
vram_status vr_ring_push(struct vr_ring *ring, uint64_t deadline, uint64_t *moved);
vram_status vr_ring_pull(struct vr_ring *ring, uint64_t deadline, uint64_t *arrived);
/* Pauses between two attempts of a loop, longer with each one. */
void vr_ring_backoff(uint32_t attempts);
/* The last point of a step; without a queue: there is none. */
struct vram_point vr_ring_last_point(const struct vr_ring *ring);
/* Waits for it, and counts the time as a wait of the program for copies of this direction. */
vram_status vr_ring_settle(struct vr_ring *ring, bool out, uint64_t deadline);
/* Copies `bytes`, a multiple of 8, at `offset` of the block to the host, word by word, and
   waits. */
vram_status vr_ring_peek(struct vr_ring *ring, uint64_t offset, void *to, uint64_t bytes);
/* Ends all counted copies; called when no thread pumps any more. */
void vr_ring_loads_end(struct vr_ring *ring);
vram_status vr_ring_thread_start(struct vr_ring *ring);
void vr_ring_thread_stop(struct vr_ring *ring);
/* Whether the caller is the ring's own thread, in a callback. */
bool vr_ring_thread_is_own(struct vr_ring *ring);
/* Whether the last step of the ring's thread failed. That may be over, as for a pool that slept: a
   step of the caller's own tells. */
bool vr_ring_thread_failed(struct vr_ring *ring);
int32_t vr_ring_terminated(struct vr_ring *ring); /* ring_flow.c */

#endif

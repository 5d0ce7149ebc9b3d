/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_object.h: what stands behind a vram_ring, and who does what to it.
 *
 *   ring.c        making, describing and ending rings
 *   ring_flow.c   send, receive, stop, drain and join: what waits, and for how long
 *   ring_pump.c   copies between the host's half and the device's, one step at a time
 *   channel.c     the host's end of one direction
 *   visibility.c  what host and device see of each other
 *
 * With DIRECT there is one block, and the channels point into it. With the other strategies the
 * device has the block, and the host has a half of its own, whose channels point to it:
 *
 *     host's half                                    device's block
 *     staging: input slots    -- slots, then head -> input slots, input head
 *     moved, input tail       <- tail --------------- input tail
 *     output tail             -- tail --------------> output tail
 *     staging: output slots   <- head, then slots --- output head, output slots
 *
 *  (1) The host's half is a ring by itself: what `input` holds are messages that the device has not
 *      been seen to take, so a slot of the staging is not written again before the copy from it is
 *      long over.
 *  (2) A head is copied behind its slots on the same queue, so the device sees it after them. In
 *      the other direction the head is fetched first, and slots below it afterwards.
 *  (3) One thread at a time pumps, by `pumping`; no lock is held across a call of a driver. A step
 *      never waits.
 *  (4) A step that failed half-way is made again: what it copied once it may copy twice.
 *  (5) Words are copied as words of 8 bytes, never as parts of something larger: the device may be
 *      at them.
 *  (6) What the device writes is checked against the host's own numbers before it is used.
 *      `corrupt` stays.
 *  (7) Copies of slots are counted as transfers, one for a step that has any, from before they are
 *      submitted until their point is seen to have passed; words are not.
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
#include "xfer/metrics.h"

enum {
    VR_RING_STEPS = 32, /* steps whose words may still be on their way */
    VR_RING_PEEK = VRAM_RING_AT_SLOTS / sizeof(uint64_t), /* words that can be looked at together */
    VR_RING_PAD = VRAM_CACHE_LINE - sizeof(uint64_t)
};

/* A word with a cache line to itself, wherever the object lies. */
struct vr_ring_word {
    vr_atomic_u64 word;
    char padding[VR_RING_PAD];
};

/* The words that one step sends, in page-locked memory. */
struct vr_ring_step {
    uint64_t input_head, output_tail, control;
    uint64_t unused;
};

/* Slots on their way, counted: (7). All zero: none. */
struct vr_ring_load {
    struct vr_transfer_count count;
    uint64_t bytes;
};

/* What is fetched, in page-locked memory. */
struct vr_ring_news {
    uint64_t input_tail, output_head, control; /* bytes 8..15 of the control block */
    uint64_t unused;
};

struct vr_ring {
    struct vr_object object;
    struct vr_pool_child child;
    struct vr_pool *pool;            /* pinned: (8) */
    struct vr_device_object *device; /* the pool's */
    struct vram_ring_info info;
    /* The control block as it was written; the constants hold for ever. Bytes, since its type wants
       a line of its own, which no bookkeeping has. */
    unsigned char control[sizeof(struct vram_ring_control)];
    vram_buffer *block, *staging;    /* the device's block, and the host's half; NULL: none */
    unsigned char *shared;           /* DIRECT: the block for the host; else NULL */
    uint64_t wait_ns;                /* the context's option wait_timeout */
    bool own_queue;                  /* info.queue is to be destroyed with the ring */
    struct vr_channel input, output; /* capacity 0: no such direction */

    char padding[VRAM_CACHE_LINE];
    struct vr_ring_word head, claim, tail; /* the host's half: of the input, ... */
    struct vr_ring_word arrived, consumed; /* ... and head and tail of the output */
    vr_atomic_bool sending, receiving;     /* a call is inside; not with several producers */
    vr_atomic_bool stopped, corrupt;
    vr_atomic_bool ending; /* it is being destroyed: waits end, and nothing more is submitted */
    vr_atomic_u64 sent, received, full_waits, empty_waits, crc_errors;
    vr_atomic_u64 copies, copied_bytes, words, fences;

    /* The pump's, guarded by `pumping`; those that others read are atomic. */
    vr_atomic_bool pumping;
    vr_atomic_u64 moved;              /* input messages that the device was sent */
    vr_atomic_u64 seen;               /* bytes 8..15 of the control block, as last fetched */
    vr_atomic_u64 news_asked, rounds; /* times that news were asked for, and read */
    uint64_t asked;                   /* output messages whose copies were submitted */
    vr_atomic_u64 output_seen;        /* the device's output head, as last fetched */
    uint64_t tail_sent;               /* the output tail that the device was told */
    uint64_t control_sent;            /* the control word that it was told */
    uint64_t step;                    /* of vr_ring_step, rising */
    struct vram_point step_points[VR_RING_STEPS];
    struct vr_ring_load loads[VR_RING_STEPS]; /* that each step sent, */
    uint64_t loads_ended;                     /* steps whose load is over; at most `step` */
    struct vr_ring_load fetched;              /* and that `slots_point` is of */
    struct vram_point news_point, slots_point;
    vr_atomic_u64 last_value; /* of the last point that a step has made; 0: none */
    bool news_pending, slots_pending;
    bool broken;                /* words of a failed step may be under way */
    struct vr_ring_step *steps; /* in the staging */
    struct vr_ring_news *news;  /* in the staging, as is ... */
    uint64_t *peeked;           /* ... room for VR_RING_PEEK words */

    /* DMA_POLLING's thread. */
    struct vr_thread thread;
    vr_atomic_u64 thread_number; /* vr_os_thread_number of it; 0: there is none */
    struct vr_mutex lock;        /* guards the rest */
    struct vr_cond wake;
    bool thread_ends;
    bool thread_keeps; /* nobody could wait for the thread's end: it has a reference to the ring */
    vram_status thread_status; /* the last step's failure; VRAM_OK: none */
    struct vram_error thread_error;
};

/* The word at bytes 0..7 of the control block, as the host would have it now. */
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

/* What vram_ring_destroy does; ring.c. */
vram_status vr_ring_destroy(vram_ring *handle);

/* Says that the ring is damaged, for good. */
vram_status vr_ring_damaged(struct vr_ring *ring, const char *what);

/* ------------------------------------------------------------- ring_pump.c */

/* One step: takes in what has come, submits what there is to submit. VRAM_OK, VRAM_ERR_NOT_READY
   when another thread is at it (no error record), VRAM_ERR_SHUTDOWN when the ring is ending, or a
   failure. *moved and *arrived are the messages of this step. */
vram_status vr_ring_pump(struct vr_ring *ring, uint64_t *moved, uint64_t *arrived);
/* Steps, with waits in between, until all that was sent when it was called has been copied to the
   device, or until the device's news are younger than the call and what they told of has
   arrived. */
vram_status vr_ring_push(struct vr_ring *ring, uint64_t deadline, uint64_t *moved);
vram_status vr_ring_pull(struct vr_ring *ring, uint64_t deadline, uint64_t *arrived);
/* Pauses between two attempts of a loop, longer with each turn. */
void vr_ring_backoff(uint32_t turns);
/* The last point that a step has made; no queue: none has. */
struct vram_point vr_ring_last_point(const struct vr_ring *ring);
/* Waits for it, and counts the time as one that the program waited for copies of this direction. */
vram_status vr_ring_settle(struct vr_ring *ring, bool out, uint64_t deadline);
/* Copies `bytes`, a multiple of 8, at `offset` of the block to the host, word by word, and
   waits. */
vram_status vr_ring_peek(struct vr_ring *ring, uint64_t offset, void *to, uint64_t bytes);
/* Nobody pumps any more: what is still counted as under way is over. */
void vr_ring_loads_end(struct vr_ring *ring);
vram_status vr_ring_thread_start(struct vr_ring *ring);
void vr_ring_thread_stop(struct vr_ring *ring);
/* Whether the caller is the thread of the ring, in a callback. */
bool vr_ring_thread_is_own(struct vr_ring *ring);
/* What the thread failed with last, recorded for the caller; VRAM_OK: nothing. */
int32_t vr_ring_terminated(struct vr_ring *ring); /* ring_flow.c */
vram_status vr_ring_thread_status(struct vr_ring *ring);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_workers.h: threads that copy host memory together, because one alone fills neither the
 * memory's bandwidth nor the bus.
 *
 *     job    [ piece | piece | piece | piece | rest ]   one copy, of any size
 *               ^next                                    taken one by one, by workers and helpers
 *
 *  (1) A job is in the list from vr_copy_add until its last piece was taken. It is over when its
 *      last piece was copied; whoever copied that calls `ended`, with no lock held, and nobody
 *      touches the job afterwards.
 *  (2) Workers are never needed: who adds a job may copy all of it by vr_copy_help. They are
 *      started when a job has pieces for them, up to the number allowed; a system that starts none
 *      is no failure. A task is looked at again and again by some worker until it is over; it never
 *      waits itself, so that one that has to cannot keep others from being looked at. Tasks need a
 *      worker.
 *  (3) A worker has a reference to the object that the workers are part of, and drops it at its
 *      end. A worker that has rested for `idle_ns` calls `idle`, with no lock held, and rests for
 *      good when there was nothing left to do; vr_copy_keep has it look again.
 *  (4) vr_copy_end waits for them, but for the one that calls it, until the deadline: `ended` may
 *      call the log's callback, and that may do anything. Who is not done then is let go of.
 *  (5) What is kept has one worker at least that may give it back, although there was no job for it
 *      and although none are allowed: that one rests and copies nothing.
 */
#ifndef VR_COPY_WORKERS_H
#define VR_COPY_WORKERS_H

#include "base/list.h"
#include "base/lock.h"
#include "base/os/os.h"

enum { VR_COPY_WORKERS_MAX = 63 };
#define VR_COPY_PIECE (UINT64_C(512) << 10) /* bytes; tens of microseconds, many times a lock's */
#define VR_COPY_PIECE_LEAST                                                                        \
    (UINT64_C(64) << 10) /* of jobs that would be a piece or two otherwise */

struct vr_copy_job {
    struct vr_link link; /* in workers->jobs */
    char *to;
    const char *from;
    uint64_t bytes;
    uint64_t piece;  /* bytes of one, at most */
    bool past_cache; /* nobody reads the target soon */
    void (*ended)(struct vr_copy_job *job);
    void *user;    /* of who added it */
    uint64_t next; /* first byte that nobody has taken; the workers' lock, */
    uint64_t left; /* bytes that are not copied; as this */
};

/* Something that has to be looked after until it is over, as copies that arrive. */
struct vr_copy_task {
    struct vr_link link;                     /* in workers->tasks */
    bool (*look)(struct vr_copy_task *task); /* true: it is over, and the task is gone */
};

struct vr_copy_worker {
    struct vr_copy_workers *workers;
    struct vr_thread thread;
    uint64_t number; /* of the thread; 0: not running yet */
    bool done;
};

struct vr_copy_workers {
    uint64_t owner;                                /* handle of the object they are part of: (3) */
    uint32_t most;                                 /* workers */
    vram_value node;                               /* that they run on */
    uint64_t idle_ns;                              /* 0: never, */
    bool (*idle)(struct vr_copy_workers *workers); /* false: there is something kept still */
    struct vr_mutex lock;
    struct vr_cond changed;
    struct vr_list jobs, tasks;
    uint64_t untaken; /* pieces of all of them */
    uint32_t count;   /* started */
    uint32_t resting; /* of them, waiting for a job */
    bool keeps;       /* what `idle` is for may be there */
    bool stop;
    bool refused; /* the system starts no more */
    struct vr_copy_worker worker[VR_COPY_WORKERS_MAX];
};

/* `most` may be 0. */
vram_status vr_copy_begin(struct vr_copy_workers *workers, uint32_t most, vram_value node);
/* False: not all have ended by the deadline (vr_os_now). */
bool vr_copy_end(struct vr_copy_workers *workers, uint64_t deadline);
/* After vr_copy_end, when the last worker has ended, or before any began. */
void vr_copy_destroy(struct vr_copy_workers *workers);

/* to, from, bytes, piece, past_cache and ended are set; bytes and piece > 0. */
void vr_copy_add(struct vr_copy_workers *workers, struct vr_copy_job *job);
/* Has workers look after it; false: there is none, and none could be started. */
bool vr_copy_look_after(struct vr_copy_workers *workers, struct vr_copy_task *task);
/* Copies one piece of some job on the calling thread; false: there is none to take. */
bool vr_copy_help(struct vr_copy_workers *workers);
/* Something is kept from now on that `idle` gives back; starts a worker for that where there is
   none. */
void vr_copy_keep(struct vr_copy_workers *workers);
/* How many workers there are now that copy. */
uint32_t vr_copy_count(struct vr_copy_workers *workers);

#endif

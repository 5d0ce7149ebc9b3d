/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_workers.h: threads that copy host memory together, because one thread alone reaches the
 * bandwidth of neither the memory nor the bus.
 *
 *     job    [ piece | piece | piece | piece | rest ]   one copy, of any size
 *               ^next                                    taken one by one, by workers and helpers
 *
 *  (1) A job is in the list from vr_copy_add until its last piece is taken. It ends when its last
 *      piece is copied: the thread that copied it calls `ended`, with no lock held, and no thread
 *      accesses the job afterwards.
 *  (2) Copying does not need workers: the thread that adds a job can copy all of it by
 *      vr_copy_help. Workers are started when a job has pieces for them, up to the number allowed;
 *      it is not a failure if the system starts none. A task does need a worker. Workers poll it
 *      until it is over; a poll never waits, so that no task delays another.
 *  (3) A worker has a reference to the object that the workers are part of, and drops it at its
 *      end. A worker that has slept for `idle_ns` calls `idle`, with no lock held. If nothing is
 *      left to free then, it sleeps without a timeout until vr_copy_keep.
 *  (4) vr_copy_end waits until the deadline for all workers but the calling thread: `ended` may
 *      call the log's callback, which may do anything. Workers that have not ended by then are left
 *      to themselves.
 *  (5) While something is kept there is at least one worker that can free it, even without a job
 *      and even if no workers are allowed. That worker only sleeps, and copies nothing.
 */
#ifndef VR_COPY_WORKERS_H
#define VR_COPY_WORKERS_H

#include "base/list.h"
#include "base/lock.h"
#include "base/os/os.h"

enum { VR_COPY_WORKERS_MAX = 63 };
#define VR_COPY_PIECE (UINT64_C(512) << 10) /* bytes; tens of microseconds, many times a lock's */
#define VR_COPY_PIECE_LEAST                                                                        \
    (UINT64_C(64) << 10) /* for jobs that would otherwise be one or two pieces */

struct vr_copy_job {
    struct vr_link link; /* in workers->jobs */
    char *to;
    const char *from;
    uint64_t bytes;
    uint64_t piece;  /* bytes of one, at most */
    bool past_cache; /* the target is not read soon */
    void (*ended)(struct vr_copy_job *job);
    void *user;    /* for the thread that added it */
    uint64_t next; /* first byte that is not taken; guarded by the workers' lock */
    uint64_t left; /* bytes that are not copied; the same lock */
};

/* Something to poll until it is over, as copies that arrive. */
struct vr_copy_task {
    struct vr_link link;                     /* in workers->tasks */
    bool (*poll)(struct vr_copy_task *task); /* true: it is over, and the task is freed */
};

struct vr_copy_worker {
    struct vr_copy_workers *workers;
    struct vr_thread thread;
    uint64_t number; /* of the thread; 0: not running yet */
    bool done;
};

struct vr_copy_workers {
    uint64_t owner;                                /* handle of the object they are part of: (3) */
    uint32_t most;                                 /* workers allowed */
    vram_value node;                               /* that they run on */
    uint64_t idle_ns;                              /* before `idle`; 0: never */
    bool (*idle)(struct vr_copy_workers *workers); /* false: something is still kept */
    struct vr_mutex lock;
    struct vr_cond changed;
    struct vr_list jobs, tasks;
    uint64_t untaken; /* pieces of all jobs that are not taken */
    uint32_t count;   /* started */
    uint32_t resting; /* of them, sleeping */
    bool keeps;       /* something may be kept that `idle` frees */
    bool stop;
    bool refused; /* the system starts no more */
    struct vr_copy_worker worker[VR_COPY_WORKERS_MAX];
};

/* `most` may be 0. */
vram_status vr_copy_begin(struct vr_copy_workers *workers, uint32_t most, vram_value node);
/* False: not all workers have ended by the deadline (vr_os_now). */
bool vr_copy_end(struct vr_copy_workers *workers, uint64_t deadline);
/* After vr_copy_end, when the last worker has ended, or before any was started. */
void vr_copy_destroy(struct vr_copy_workers *workers);

/* to, from, bytes, piece, past_cache and ended are set; bytes and piece > 0. */
void vr_copy_add(struct vr_copy_workers *workers, struct vr_copy_job *job);
/* Adds a task, which workers poll; false: there is no worker, and none could be started. */
bool vr_copy_task_add(struct vr_copy_workers *workers, struct vr_copy_task *task);
/* Copies one piece of some job on the calling thread; false: there is none to take. */
bool vr_copy_help(struct vr_copy_workers *workers);
/* Announces that something is kept that `idle` frees. Starts a worker for that if there is none. */
void vr_copy_keep(struct vr_copy_workers *workers);
/* How many workers there are that copy. */
uint32_t vr_copy_count(struct vr_copy_workers *workers);

#endif

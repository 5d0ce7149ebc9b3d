/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_workers.c: see copy_workers.h.
 */
#include "xfer/copy_workers.h"

#include "base/error.h"
#include "base/handle.h"
#include "base/log.h"

#include <string.h>

/* ---------------------------------------------------------------------- pieces */

struct job_piece {
    struct vr_copy_job *job;
    uint64_t at, bytes;
};

/* Under the lock. Keeps (1). */
static bool take_piece(struct vr_copy_workers *workers, struct job_piece *piece) {
    struct vr_link *link = vr_list_first(&workers->jobs);
    if (!link) {
        return false;
    }
    struct vr_copy_job *job = VR_CONTAINER(link, struct vr_copy_job, link);
    uint64_t left = job->bytes - job->next;
    *piece = (struct job_piece){job, job->next, left < job->piece ? left : job->piece};
    job->next += piece->bytes;
    workers->untaken--;
    if (job->next == job->bytes) {
        vr_link_remove(link);
    }
    return true;
}

static void copy_piece(struct vr_copy_workers *workers, const struct job_piece *piece) {
    struct vr_copy_job *job = piece->job;
    if (job->past_cache) {
        vr_os_copy_nontemporal(job->to + piece->at, job->from + piece->at, piece->bytes);
    } else {
        memcpy(job->to + piece->at, job->from + piece->at, piece->bytes);
    }
    vr_mutex_lock(&workers->lock);
    job->left -= piece->bytes;
    bool last = job->left == 0;
    vr_mutex_unlock(&workers->lock);
    if (last) {
        job->ended(job);
    }
}

bool vr_copy_help(struct vr_copy_workers *workers) {
    struct job_piece piece;
    vr_mutex_lock(&workers->lock);
    bool taken = take_piece(workers, &piece);
    vr_mutex_unlock(&workers->lock);
    if (taken) {
        copy_piece(workers, &piece);
    }
    return taken;
}

/* ----------------------------------------------------------------------- tasks */

#define TASK_POLL_NS UINT64_C(50000) /* ns between two polls of a task */

/* Polls the oldest task once. Under the lock, which it releases meanwhile. False: there is no
   task. */
static bool poll_task(struct vr_copy_workers *workers) {
    struct vr_link *link = vr_list_first(&workers->tasks);
    if (!link) {
        return false;
    }
    struct vr_copy_task *task = VR_CONTAINER(link, struct vr_copy_task, link);
    vr_link_remove(link);
    vr_mutex_unlock(&workers->lock);
    bool over = task->poll(task);
    vr_error_clear();
    vr_mutex_lock(&workers->lock);
    if (!over) {
        vr_list_append(&workers->tasks, &task->link);
        if (!workers->stop && !workers->untaken) {
            (void)vr_cond_wait(&workers->changed, &workers->lock, TASK_POLL_NS);
        }
    }
    return true;
}

/* --------------------------------------------------------------------- workers */

/* Sleeps until there is work, and calls `idle` after the idle time. Under the lock, which it
   releases meanwhile. */
static void sleep_idle(struct vr_copy_workers *workers) {
    uint64_t ns = workers->keeps && workers->idle_ns ? workers->idle_ns : UINT64_MAX;
    workers->resting++;
    bool woken = vr_cond_wait(&workers->changed, &workers->lock, ns);
    workers->resting--;
    if (!woken && workers->keeps && !workers->untaken && !workers->stop) {
        workers->keeps = false; /* before the call, so that a vr_copy_keep during it counts */
        vr_mutex_unlock(&workers->lock);
        bool done = workers->idle(workers);
        vr_error_clear();
        vr_mutex_lock(&workers->lock);
        workers->keeps = workers->keeps || !done;
    }
}

static void run_worker(void *argument) {
    struct vr_copy_worker *worker = argument;
    struct vr_copy_workers *workers = worker->workers;
    uint64_t owner = workers->owner;
    struct job_piece piece;
    if (workers->node.known) {
        (void)vr_os_numa_run("", workers->node.value);
    }
    vr_mutex_lock(&workers->lock);
    worker->number = vr_os_thread_number();
    while (!workers->stop) {
        if (workers->most && take_piece(workers, &piece)) { /* keeps (5) */
            vr_mutex_unlock(&workers->lock);
            copy_piece(workers, &piece);
            vr_error_clear();
            vr_mutex_lock(&workers->lock);
        } else if (!poll_task(workers)) {
            sleep_idle(workers);
        }
    }
    worker->done = true;
    vr_cond_broadcast(&workers->changed);
    vr_mutex_unlock(&workers->lock);
    vr_handle_unpin(owner); /* keeps (3) */
}

/* Starts one worker; keeps (2). Holds the lock over a system call, which is made a few times per
   process. A reference cannot be dropped under the lock: the caller drops it if no thread was
   started. */
static bool start_one(struct vr_copy_workers *workers) {
    struct vram_error error;
    struct vr_copy_worker *worker = &workers->worker[workers->count];
    worker->workers = workers;
    vr_handle_ref(workers->owner);
    vr_error_save(&error);
    if (vr_os_thread_start(&worker->thread, "vram-copy", run_worker, worker) == VRAM_OK) {
        workers->count++;
        return true;
    }
    vr_error_restore(&error);
    return false;
}

/* Starts workers for pieces that neither the caller nor sleeping workers would take. False: the
   system refused. */
static bool start_some(struct vr_copy_workers *workers) {
    uint64_t takers = 1 + (uint64_t)workers->resting;
    for (; workers->untaken > takers && workers->count < workers->most && !workers->stop;
         takers++) {
        if (workers->refused || !start_one(workers)) {
            bool first = !workers->refused;
            workers->refused = true;
            return !first;
        }
    }
    return true;
}

void vr_copy_add(struct vr_copy_workers *workers, struct vr_copy_job *job) {
    job->next = 0;
    job->left = job->bytes;
    vr_mutex_lock(&workers->lock);
    vr_list_append(&workers->jobs, &job->link);
    workers->untaken += (job->bytes + job->piece - 1) / job->piece;
    bool started = start_some(workers);
    if (workers->resting && workers->untaken > 1) {
        vr_cond_broadcast(&workers->changed);
    }
    vr_mutex_unlock(&workers->lock);
    if (!started) {
        vr_handle_unpin(workers->owner);
        vr_log(VRAM_LOG_INFO, "no further thread for copies could be started");
    }
}

bool vr_copy_task_add(struct vr_copy_workers *workers, struct vr_copy_task *task) {
    bool refused = false;
    vr_mutex_lock(&workers->lock);
    if (!workers->resting && workers->count < workers->most && !workers->stop &&
        !workers->refused) {
        refused = workers->refused = !start_one(workers);
    }
    bool taken = workers->most && workers->count > 0 && !workers->stop;
    if (taken) {
        vr_list_append(&workers->tasks, &task->link);
        vr_cond_broadcast(&workers->changed);
    }
    vr_mutex_unlock(&workers->lock);
    if (refused) {
        vr_handle_unpin(workers->owner);
    }
    return taken;
}

void vr_copy_keep(struct vr_copy_workers *workers) {
    bool refused = false;
    vr_mutex_lock(&workers->lock);
    if (!workers->keeps) {
        workers->keeps = true;
        vr_cond_broadcast(&workers->changed);
    }
    if (workers->idle_ns && !workers->count && !workers->stop && !workers->refused) {
        refused = workers->refused = !start_one(workers); /* keeps (5) */
    }
    vr_mutex_unlock(&workers->lock);
    if (refused) {
        vr_handle_unpin(workers->owner);
    }
}

uint32_t vr_copy_count(struct vr_copy_workers *workers) {
    vr_mutex_lock(&workers->lock);
    uint32_t count = workers->count < workers->most ? workers->count : workers->most;
    vr_mutex_unlock(&workers->lock);
    return count;
}

/* --------------------------------------------------------------- begin and end */

vram_status vr_copy_begin(struct vr_copy_workers *workers, uint32_t most, vram_value node) {
    vram_status status = vr_cond_init(&workers->changed);
    if (status == VRAM_OK) {
        vr_mutex_init(&workers->lock, VR_RANK_COPY);
        vr_list_init(&workers->jobs);
        vr_list_init(&workers->tasks);
        workers->most = most < VR_COPY_WORKERS_MAX ? most : VR_COPY_WORKERS_MAX;
        workers->node = node;
    }
    return status;
}

/* Waits until the worker is done, or is the calling thread, or the deadline has passed. Under the
   lock. */
static bool await_worker(struct vr_copy_workers *workers, const struct vr_copy_worker *worker,
                         uint64_t deadline) {
    uint64_t self = vr_os_thread_number();
    for (uint64_t now = vr_os_now(); !worker->done && worker->number != self && now < deadline;
         now = vr_os_now()) {
        (void)vr_cond_wait(&workers->changed, &workers->lock, deadline - now);
    }
    return worker->done;
}

/* Keeps (4). */
bool vr_copy_end(struct vr_copy_workers *workers, uint64_t deadline) {
    bool all = true;
    vr_mutex_lock(&workers->lock);
    workers->stop = true;
    vr_cond_broadcast(&workers->changed);
    uint32_t count = workers->count;
    vr_mutex_unlock(&workers->lock);
    for (uint32_t i = 0; i < count; i++) {
        struct vr_copy_worker *worker = &workers->worker[i];
        vr_mutex_lock(&workers->lock);
        bool done = await_worker(workers, worker, deadline);
        bool self = worker->number == vr_os_thread_number();
        vr_mutex_unlock(&workers->lock);
        if (done) {
            vr_os_thread_join(&worker->thread);
        } else {
            vr_os_thread_detach(&worker->thread);
        }
        all = all && (done || self);
    }
    return all;
}

void vr_copy_destroy(struct vr_copy_workers *workers) {
    vr_cond_destroy(&workers->changed);
    vr_mutex_destroy(&workers->lock);
}

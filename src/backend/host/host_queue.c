/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_queue.c: a queue is a list of commands and a thread, the worker, that runs them in order.
 *
 *  (1) A command is run by the worker alone, one at a time, with no lock held.
 *  (2) Submitting never waits for work: backend.h (6) forbids it, so the list has no bound and a
 *      command costs one allocation. When that fails nothing was submitted.
 *  (3) A command is freed first; then its signal is written and it counts as finished, in one step
 *      under the lock. So word and poll never disagree, and whoever sees the word rise finds the
 *      bookkeeping of the work before it returned.
 *  (4) A queue ends when its list has run empty. On a lost device it is given up instead: what has
 *      not run is dropped, waits for other queues end, and no signal is written any more.
 *
 * Concurrency: `lock` guards the list, `busy` and `ending`. Words and waits are host_word.c's.
 */
#include "backend/host/host.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"

/* vr_queue.impl */
struct vr_host_worker {
    struct vr_host *host;
    struct vr_host_word *word; /* the queue's reference */
    struct vr_thread thread;
    struct vr_mutex lock;
    struct vr_cond wake;     /* the worker's: a command came, or the end */
    struct vr_list commands; /* submitted, not yet taken by the worker */
    bool busy;               /* the worker is inside a command */
    bool ending;             /* it leaves when the list is empty */
    vr_atomic_bool given_up; /* it drops commands instead of running them */
};

/* ----------------------------------------------------------------- commands */

void *vr_host_command_create(size_t bytes, const char *operation) {
    return vr_mem_alloc(1, bytes, operation);
}

static void command_free(struct vr_host_command *command) {
    vr_host_word_unref(command->after);
    vr_mem_free(command);
}

void vr_host_command_submit(struct vr_queue *queue, struct vr_host_command *command) {
    struct vr_host_worker *worker = queue->impl;
    vr_mutex_lock(&worker->lock);
    vr_list_append(&worker->commands, &command->link);
    vr_cond_broadcast(&worker->wake);
    vr_mutex_unlock(&worker->lock);
}

bool vr_host_given_up(struct vr_host_worker *worker) {
    return vr_load(&worker->given_up, VR_ACQUIRE);
}

/* ------------------------------------------------------------------- worker */

/* The next command, when there is one; NULL at the end. */
static struct vr_host_command *next_command(struct vr_host_worker *worker) {
    vr_mutex_lock(&worker->lock);
    while (vr_list_empty(&worker->commands) && !worker->ending) {
        vr_cond_wait(&worker->wake, &worker->lock, UINT64_MAX);
    }
    struct vr_link *link = vr_list_first(&worker->commands);
    if (link) {
        vr_link_remove(link);
        worker->busy = true;
    }
    vr_mutex_unlock(&worker->lock);
    return link ? VR_CONTAINER(link, struct vr_host_command, link) : NULL;
}

/* Keeps (3). Waiters of other queues are woken last: no lock is taken inside another. */
static void finish_command(struct vr_host_worker *worker, uint64_t signal) {
    vr_mutex_lock(&worker->lock);
    vr_host_word_raise(worker->word, signal);
    worker->busy = false;
    vr_mutex_unlock(&worker->lock);
    if (signal) {
        vr_host_wake(worker->host);
    }
}

static void run_command(struct vr_host_worker *worker, struct vr_host_command *command) {
    if (command->after) {
        vr_host_word_wait(worker->host, command->after, command->after_value, &worker->given_up);
    }
    if (command->work && !vr_host_given_up(worker)) {
        command->work(worker, command);
    }
    uint64_t signal = vr_host_given_up(worker) ? 0 : command->signal;
    command_free(command);
    finish_command(worker, signal);
}

static void work(void *argument) {
    struct vr_host_worker *worker = argument;
    for (struct vr_host_command *command; (command = next_command(worker));) {
        run_command(worker, command);
    }
}

/* --------------------------------------------------------------------- life */

static vram_status worker_create(struct vr_host *host, struct vr_host_worker **created) {
    struct vr_host_worker *worker = vr_mem_alloc(1, sizeof *worker, "queue create");
    if (!worker) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = VRAM_ERR_HOST_MEMORY;
    worker->word = vr_host_word_create("queue create");
    if (!worker->word) {
        goto fail;
    }
    status = vr_cond_init(&worker->wake);
    if (status != VRAM_OK) {
        goto fail;
    }
    vr_mutex_init(&worker->lock, VR_RANK_BACKEND);
    vr_list_init(&worker->commands);
    worker->host = host;
    *created = worker;
    return VRAM_OK;

fail:
    vr_host_word_unref(worker->word);
    vr_mem_free(worker);
    return status;
}

static void worker_destroy(struct vr_host_worker *worker) {
    vr_mutex_destroy(&worker->lock);
    vr_cond_destroy(&worker->wake);
    vr_host_word_unref(worker->word);
    vr_mem_free(worker);
}

/* The system's priorities need rights that programs seldom have: options have no effect here. */
static vram_status queue_create(struct vr_queue *queue, const struct vram_queue_options *options) {
    (void)options;
    struct vr_host_worker *worker;
    vram_status status = worker_create(queue->device->impl, &worker);
    if (status != VRAM_OK) {
        return status;
    }
    if (vr_os_thread_start(&worker->thread, "vram-host", work, worker) != VRAM_OK) {
        status = vr_host_error(VRAM_ERR_HOST_MEMORY, "no thread for the queue");
        worker_destroy(worker);
        return status;
    }
    queue->impl = worker;
    queue->native = NULL;
    queue->word = &worker->word->value;
    return VRAM_OK;
}

static void give_up(struct vr_host_worker *worker) {
    vr_store(&worker->given_up, true, VR_RELEASE);
    vr_host_wake(worker->host); /* it may be inside a wait for another queue */
}

/* Waits for the worker: as a rule nothing is left to run. A C kernel that never returns cannot be
   stopped by anybody, and neither can its queue. */
static void queue_destroy(struct vr_queue *queue) {
    struct vr_host_worker *worker = queue->impl;
    if (vr_load(&queue->device->lost, VR_ACQUIRE)) {
        give_up(worker); /* keeps (4) */
    }
    vr_mutex_lock(&worker->lock);
    worker->ending = true;
    vr_cond_broadcast(&worker->wake);
    vr_mutex_unlock(&worker->lock);
    vr_os_thread_join(&worker->thread);

    vr_host_word_raise(worker->word, UINT64_MAX); /* for those who still wait for it */
    vr_host_wake(worker->host);
    worker_destroy(worker);
    queue->impl = NULL;
    queue->word = NULL;
}

/* --------------------------------------------------------------------- time */

static vram_status queue_signal(struct vr_queue *queue, uint64_t value) {
    struct vr_host_command *command = vr_host_command_create(sizeof *command, "signal");
    if (!command) {
        return VRAM_ERR_HOST_MEMORY;
    }
    command->signal = value;
    vr_host_command_submit(queue, command);
    return VRAM_OK;
}

static vram_status queue_after(struct vr_queue *queue, struct vr_queue *other, uint64_t value) {
    struct vr_host_worker *awaited = other->impl;
    struct vr_host_command *command = vr_host_command_create(sizeof *command, "after");
    if (!command) {
        return VRAM_ERR_HOST_MEMORY;
    }
    command->after = vr_host_word_ref(awaited->word);
    command->after_value = value;
    vr_host_command_submit(queue, command);
    return VRAM_OK;
}

/* The worker needs no help to get on, and this device cannot be found lost. */
static vram_status queue_poll(struct vr_queue *queue) {
    struct vr_host_worker *worker = queue->impl;
    vr_mutex_lock(&worker->lock);
    bool idle = !worker->busy && vr_list_empty(&worker->commands);
    vr_mutex_unlock(&worker->lock);
    return idle ? VRAM_OK : VRAM_ERR_NOT_READY;
}

const struct vr_queue_ops vr_host_queue = {
    .create = queue_create,
    .destroy = queue_destroy,
    .upload = vr_host_upload,
    .download = vr_host_download,
    .copy = vr_host_copy,
    .fill = vr_host_fill,
    .signal = queue_signal,
    .after = queue_after,
    .poll = queue_poll,
};

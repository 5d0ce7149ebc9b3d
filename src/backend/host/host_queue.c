/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_queue.c: a queue is a list of commands and a thread, the worker, that runs them in order.
 *
 *  (1) Only the worker runs commands, one at a time, with no lock held.
 *  (2) Submitting never waits for work: backend.h (6) forbids it, so the list has no bound and a
 *      command costs one allocation. If that fails, nothing was submitted.
 *  (3) A command is freed first; then its signal is written and it counts as finished, in one step
 *      under the lock. So word and poll never disagree, and a thread that sees the word rise finds
 *      the memory of the commands before it already freed.
 *  (4) A queue ends when its list is empty. On a lost device it is abandoned instead: commands that
 *      have not run are dropped, waits for other queues end, and no signal is written any more.
 *
 * Concurrency: `lock` guards the list, `busy` and `ending`. host_timeline.c has words and waits.
 */
#include "backend/host/host_backend.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"

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

bool vr_host_abandoned(struct vr_host_worker *worker) {
    return vr_load(&worker->abandoned, VR_ACQUIRE);
}

/* ------------------------------------------------------------------- worker */

/* Waits for the next command; NULL at the end. */
static struct vr_host_command *command_next(struct vr_host_worker *worker) {
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
static void command_finish(struct vr_host_worker *worker, uint64_t signal) {
    vr_mutex_lock(&worker->lock);
    vr_host_word_raise(worker->word, signal);
    worker->busy = false;
    vr_mutex_unlock(&worker->lock);
    if (signal) {
        vr_host_wake(worker->host);
    }
}

static void command_run(struct vr_host_worker *worker, struct vr_host_command *command) {
    if (command->after) {
        vr_host_word_wait(worker->host, command->after, command->after_value, &worker->abandoned);
    }
    if (command->work && !vr_host_abandoned(worker)) {
        command->work(worker, command);
    }
    uint64_t signal = vr_host_abandoned(worker) ? 0 : command->signal;
    command_free(command);
    command_finish(worker, signal);
}

static void worker_run(void *argument) {
    struct vr_host_worker *worker = argument;
    for (struct vr_host_command *command; (command = command_next(worker));) {
        command_run(worker, command);
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

/* Priorities of the system need rights that programs seldom have: options have no effect here. */
static vram_status queue_create(struct vr_queue *queue, const struct vram_queue_options *options) {
    (void)options;
    struct vr_host_worker *worker;
    vram_status status = worker_create(queue->device->impl, &worker);
    if (status != VRAM_OK) {
        return status;
    }
    if (vr_os_thread_start(&worker->thread, "vram-host", worker_run, worker) != VRAM_OK) {
        status = vr_host_error(VRAM_ERR_HOST_MEMORY, "no thread for the queue");
        worker_destroy(worker);
        return status;
    }
    queue->impl = worker;
    queue->native = NULL;
    queue->word = &worker->word->value;
    return VRAM_OK;
}

static void worker_abandon(struct vr_host_worker *worker) {
    vr_store(&worker->abandoned, true, VR_RELEASE);
    vr_host_wake(worker->host); /* it may be waiting for another queue */
}

/* Waits for the worker; normally no command is left. A C kernel that never returns cannot be
   stopped, and neither can its queue. */
static void queue_destroy(struct vr_queue *queue) {
    struct vr_host_worker *worker = queue->impl;
    if (vr_load(&queue->device->lost, VR_ACQUIRE)) {
        worker_abandon(worker); /* keeps (4) */
    }
    vr_mutex_lock(&worker->lock);
    worker->ending = true;
    vr_cond_broadcast(&worker->wake);
    vr_mutex_unlock(&worker->lock);
    vr_os_thread_join(&worker->thread);

    vr_host_word_raise(worker->word, UINT64_MAX); /* for commands that still wait for it */
    vr_host_wake(worker->host);
    worker_destroy(worker);
    queue->impl = NULL;
    queue->word = NULL;
}

const struct vr_queue_ops vr_host_queue_ops = {
    .create = queue_create,
    .destroy = queue_destroy,
    .upload = vr_host_upload,
    .download = vr_host_download,
    .copy = vr_host_copy,
    .fill = vr_host_fill,
    .signal = vr_host_signal,
    .after = vr_host_after,
    .poll = vr_host_poll,
};

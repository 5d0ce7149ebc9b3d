/* SPDX-License-Identifier: Apache-2.0 */
/*
 * soak.c: threads allocate, write, check and free for a given time, in a pool that is too small for
 * them, while it is trimmed, cleared and maintained.
 *
 * Every block has a number at both ends. What is read back must be what was written. A request may
 * fail only because memory ran out. When all blocks are freed, nothing may be left.
 */
#include "stress.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SLOTS = 48, EDGE = 256, CHORES = 512 };

struct block {
    vram_addr addr; /* 0: none */
    uint64_t size;
    uint32_t mark;
};

/* What all threads share. */
struct soak {
    vram_pool *pool;
    vram_device *device;
    atomic_bool stop;
    pthread_mutex_t lock; /* guards the first failure */
    struct soak_result *result;
};

struct worker {
    struct soak *soak;
    vram_queue *queue;
    pthread_t thread;
    bool started;
    uint64_t random;
    uint64_t largest; /* of a block */
    struct block blocks[SLOTS];
    uint32_t head[EDGE / 4], tail[EDGE / 4]; /* read back; copies that failed may end late */
    uint64_t allocs, frees, refusals, failures, verified, wrong;
};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static uint64_t draw(struct worker *worker) {
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return worker->random;
}

/* Counts a call that failed; the first one is told. */
static void blame(struct worker *worker, const char *doing, vram_status status) {
    struct soak *soak = worker->soak;
    worker->failures++;
    pthread_mutex_lock(&soak->lock);
    if (soak->result->first[0] == 0) {
        snprintf(soak->result->first, sizeof soak->result->first, "%s: %s (%s)", doing,
                 failure_text(status), vram_status_name(status));
    }
    pthread_mutex_unlock(&soak->lock);
}

static bool good(struct worker *worker, const char *doing, vram_status status) {
    if (status != VRAM_OK) {
        blame(worker, doing, status);
    }
    return status == VRAM_OK;
}

/* -------------------------------------------------------------------- blocks */

static uint64_t edge_of(const struct block *block) {
    return block->size < EDGE ? block->size / 4 * 4 : EDGE;
}

static void take(struct worker *worker, struct block *block) {
    uint64_t kind = draw(worker) % 8, most = worker->largest;
    block->size = 16 + draw(worker) % (kind < 5 ? 32768 : kind < 7 ? most / 8 : most);
    block->mark = (uint32_t)draw(worker) | 1;
    vram_status status = vram_alloc(worker->soak->pool, block->size, worker->queue, &block->addr);
    if (status != VRAM_OK) {
        block->addr = 0;
        if (vram_status_is_exhausted(status)) {
            worker->refusals++;
        } else {
            blame(worker, "vram_alloc", status);
        }
        return;
    }
    worker->allocs++;
    uint64_t edge = edge_of(block), tail = block->size / 4 * 4 - edge;
    good(worker, "vram_queue_fill",
         vram_queue_fill(worker->queue, block->addr, block->mark, 4, edge));
    good(worker, "vram_queue_fill",
         vram_queue_fill(worker->queue, block->addr + tail, block->mark, 4, edge));
}

/* Reads both ends. */
static void verify(struct worker *worker, const struct block *block) {
    uint64_t edge = edge_of(block), at = block->size / 4 * 4 - edge;
    if (!good(worker, "vram_queue_download",
              vram_queue_download(worker->queue, worker->head, block->addr, edge)) ||
        !good(worker, "vram_queue_download",
              vram_queue_download(worker->queue, worker->tail, block->addr + at, edge)) ||
        !good(worker, "vram_queue_wait", vram_queue_wait(worker->queue, VRAM_TIMEOUT_DEFAULT))) {
        return;
    }
    bool same = true;
    for (uint64_t i = 0; i < edge / 4; i++) {
        same = same && worker->head[i] == block->mark && worker->tail[i] == block->mark;
    }
    worker->verified++;
    worker->wrong += !same;
}

static void give(struct worker *worker, struct block *block) {
    if (draw(worker) % 8 == 0) {
        verify(worker, block);
    }
    if (good(worker, "vram_free", vram_free(block->addr, worker->queue))) {
        worker->frees++;
    }
    block->addr = 0;
}

/* What else programs do to a pool, now and then. */
static void do_chore(struct worker *worker) {
    vram_pool *pool = worker->soak->pool;
    vram_trim_options rare = {.size = sizeof rare, .flags = VRAM_TRIM_RARE};
    vram_trim_options caches = {.size = sizeof caches, .flags = VRAM_TRIM_CACHES};
    vram_pressure pressure = {.size = sizeof pressure};
    vram_fragmentation fragmentation = {.size = sizeof fragmentation};
    vram_health_options options = {.size = sizeof options, .look_only = true};
    vram_health_info health = {.size = sizeof health};
    uint64_t bytes;
    switch (draw(worker) % 6) {
    case 0:
        good(worker, "vram_pool_trim, rare", vram_pool_trim(pool, &rare, &bytes));
        break;
    case 1:
        good(worker, "vram_pool_trim, caches", vram_pool_trim(pool, &caches, &bytes));
        break;
    case 2:
        good(worker, "vram_pool_pressure_get", vram_pool_pressure_get(pool, &pressure));
        break;
    case 3:
        good(worker, "vram_pool_fragmentation_get",
             vram_pool_fragmentation_get(pool, &fragmentation));
        break;
    case 4:
        good(worker, "vram_health", vram_health(worker->soak->device, &options, &health));
        break;
    default:
        good(worker, "vram_pool_trim", vram_pool_trim(pool, NULL, &bytes));
        break;
    }
}

static void *work(void *argument) {
    struct worker *worker = argument;
    while (!atomic_load_explicit(&worker->soak->stop, memory_order_relaxed)) {
        struct block *block = &worker->blocks[draw(worker) % SLOTS];
        if (block->addr == 0) {
            take(worker, block);
        } else {
            give(worker, block);
        }
        if (draw(worker) % CHORES == 0) {
            do_chore(worker);
        }
    }
    for (int i = 0; i < SLOTS; i++) {
        if (worker->blocks[i].addr != 0) {
            verify(worker, &worker->blocks[i]);
            give(worker, &worker->blocks[i]);
        }
    }
    good(worker, "vram_queue_wait", vram_queue_wait(worker->queue, VRAM_TIMEOUT_DEFAULT));
    return NULL;
}

/* ----------------------------------------------------------------- a signal */

static volatile sig_atomic_t interrupted;

static void note_signal(int number) {
    (void)number;
    interrupted = 1;
}

/* Ctrl-C ends the soak early, and what was found is printed; a second one ends the process. Only
   the caller's thread receives it: those that it starts inherit its mask. */
static void watch_signal(sigset_t *mask) {
    struct sigaction action = {.sa_handler = note_signal, .sa_flags = SA_RESETHAND};
    sigset_t blocked;
    interrupted = 0;
    sigemptyset(&action.sa_mask);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGINT);
    pthread_sigmask(SIG_BLOCK, &blocked, mask);
    sigaction(SIGINT, &action, NULL);
}

/* ----------------------------------------------------------------------- run */

static void run_workers(struct soak *soak, struct worker *workers, const struct soak_plan *plan,
                        const struct terminal *terminal) {
    double begin = now();
    sigset_t mask;
    watch_signal(&mask);
    for (uint32_t i = 0; i < plan->threads; i++) {
        workers[i].started = pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0;
        if (!workers[i].started) {
            blame(&workers[i], "pthread_create", VRAM_ERR_HOST_MEMORY);
        }
    }
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    for (double spent; (spent = now() - begin) < plan->seconds && !interrupted;) {
        struct timespec pause = {0, 50000000};
        terminal_progress(terminal, (uint64_t)(spent * 10), (uint64_t)(plan->seconds * 10),
                          "tenths of a second");
        nanosleep(&pause, NULL);
    }
    atomic_store(&soak->stop, true);
    for (uint32_t i = 0; i < plan->threads; i++) {
        if (workers[i].started) {
            pthread_join(workers[i].thread, NULL);
        }
    }
    terminal_progress_end(terminal);
    signal(SIGINT, SIG_DFL);
    soak->result->seconds = now() - begin;
    soak->result->interrupted = interrupted;
}

static void add_up(struct soak_result *result, const struct worker *workers, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        result->allocs += workers[i].allocs;
        result->frees += workers[i].frees;
        result->refusals += workers[i].refusals;
        result->failures += workers[i].failures;
        result->verified += workers[i].verified;
        result->wrong += workers[i].wrong;
    }
}

/* What the pool may hold: so little that there is never enough. */
static uint64_t limit_of(const struct soak_plan *plan, vram_device *device) {
    vram_memory_info memory = {.size = sizeof memory};
    uint64_t most = UINT64_C(1) << 30;
    if (plan->bytes) {
        return plan->bytes;
    }
    if (vram_memory_info_get(device, &memory) == VRAM_OK && memory.free_bytes.known &&
        memory.free_bytes.value / 4 < most) {
        most = memory.free_bytes.value / 4;
    }
    return most;
}

static vram_status set_up(struct soak *soak, struct worker *workers, const struct soak_plan *plan) {
    vram_limits limits = {.size = sizeof limits, .hard_bytes = limit_of(plan, soak->device)};
    vram_pool_options options = {.size = sizeof options, .limits = &limits, .name = "soak"};
    vram_status status = vram_pool_create(soak->device, &options, &soak->pool);
    soak->result->limit_bytes = limits.hard_bytes;
    for (uint32_t i = 0; i < plan->threads && status == VRAM_OK; i++) {
        workers[i] = (struct worker){.soak = soak,
                                     .random = (plan->seed + i + 1) * UINT64_C(0x9E3779B97F4A7C15),
                                     .largest = limits.hard_bytes / plan->threads / 2 + 64};
        status = vram_queue_create(soak->device, NULL, &workers[i].queue);
    }
    return status;
}

/* All blocks are freed: the pool can give everything back. */
static vram_status wind_up(struct soak *soak) {
    struct soak_result *result = soak->result;
    uint64_t released;
    vram_pool_stats stats = {.size = sizeof stats};
    vram_status status = vram_pool_trim(soak->pool, NULL, &released);
    result->stats.size = sizeof result->stats;
    if (status == VRAM_OK) {
        status = vram_pool_stats_get(soak->pool, &result->stats);
        stats = result->stats;
    }
    result->left_bytes = stats.reserved_bytes;
    return status;
}

bool soak_run(const struct soak_plan *plan, const struct target *target,
              const struct terminal *terminal, struct soak_result *result) {
    static struct worker workers[SOAK_THREADS_MAX];
    struct soak soak = {.result = result};
    *result = (struct soak_result){.seconds = 0};
    pthread_mutex_init(&soak.lock, NULL);
    vram_status status = vram_device_open(target->context, target->index, &soak.device);
    if (status == VRAM_OK) {
        status = set_up(&soak, workers, plan);
    }
    if (status == VRAM_OK) {
        run_workers(&soak, workers, plan, terminal);
        add_up(result, workers, plan->threads);
        status = wind_up(&soak);
    }
    if (status != VRAM_OK) {
        say_failure("soaking the device", status);
    }
    vram_device_close(soak.device);
    pthread_mutex_destroy(&soak.lock);
    return status == VRAM_OK;
}

bool soak_is_good(const struct soak_result *result) {
    return result->failures == 0 && result->wrong == 0 && result->left_bytes == 0 &&
           result->stats.live_blocks == 0 && result->stats.requested_bytes == 0 &&
           result->stats.allocs == result->allocs;
}

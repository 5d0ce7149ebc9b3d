/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zero_handouts: no block that a pool hands out shows what an earlier owner wrote.
 *
 *   zero_handouts [BACKEND [HANDOUTS [SECONDS]]]      (cuda, 1000000, 150)
 *
 * Threads with a queue each take blocks from one small pool, have the device look at every byte and
 * make it dirty, and give them back at once, while the kernel may still run. So what is handed out
 * was somebody else's just before, often another queue's. First with no mode, where dirty bytes
 * must be found, which proves that the test can fail; then with zero_alloc, and with zero_free in a
 * pool that has all its memory before the first look.
 *
 * One line a mode. Exit code 0 when the test passed, 1 when not, 2 for misuse or a failure.
 */
#include "checked.h"
#include "zero_block.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MIB (UINT64_C(1) << 20)

enum { THREADS = 4, AHEAD = 64 };

static vram_context *context;
static vram_device *device;
static vram_kernel *kernel;

/* One pool under test, and what its threads share. */
struct trial {
    const char *name;
    vram_pool *pool;
    uint64_t each;     /* hand-outs of a thread */
    double deadline;   /* seconds() when to stop */
    uint64_t handouts; /* added up when the threads have ended */
    uint64_t asked;    /* bytes handed out */
    struct zero_counts counts;
    pthread_mutex_t lock;
};

/* Sizes of all magnitudes up to 64 KiB, one in 64 up to 1 MiB. */
static uint64_t next_size(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t random = *state >> 20;
    unsigned bits = random % 64 == 0 ? 20 : (unsigned)(random / 64 % 16) + 1;
    return 1 + random / 1024 % (UINT64_C(1) << bits);
}

static bool print(void *user, const char *text, size_t bytes) {
    (void)user;
    return fwrite(text, 1, bytes, stderr) == bytes;
}

/* As must, with the report of a refused allocation. */
static vram_addr take(vram_pool *pool, uint64_t bytes, vram_queue *queue) {
    vram_oom_report report = {.size = sizeof report};
    vram_addr addr;
    vram_status status = vram_alloc(pool, bytes, queue, &addr);
    if (status != VRAM_OK && vram_oom_report_get(NULL, &report) == VRAM_OK) {
        vram_oom_report_write(&report, VRAM_REPORT_TEXT, print, NULL);
    }
    must(status, "vram_alloc");
    return addr;
}

static void *work(void *given) {
    struct trial *trial = given;
    vram_queue *queue;
    vram_addr counts_at;
    struct zero_counts counts = {0, 0};
    uint64_t done = 0, asked = 0, state;
    must(vram_queue_create(device, NULL, &queue), "vram_queue_create");
    state = (uintptr_t)queue; /* another one for each thread, the same in every run */
    must(vram_device_alloc(device, sizeof counts, VRAM_MEMORY_DEVICE, &counts_at),
         "vram_device_alloc");
    must(vram_queue_fill(queue, counts_at, 0, 4, sizeof counts), "vram_queue_fill");
    for (; done < trial->each && (done % AHEAD || seconds() < trial->deadline); done++) {
        uint64_t bytes = next_size(&state);
        vram_addr addr = take(trial->pool, bytes, queue);
        must(zero_look_launch(queue, kernel, addr, bytes, counts_at), "vram_queue_launch");
        must(vram_free(addr, queue), "vram_free");
        asked += bytes;
        if (done % AHEAD == AHEAD - 1) { /* so that the queue does not grow without end */
            must(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT), "vram_queue_wait");
        }
    }
    must(vram_queue_download(queue, &counts, counts_at, sizeof counts), "vram_queue_download");
    must(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT), "vram_queue_wait");
    must(vram_device_free(device, counts_at), "vram_device_free");
    must(vram_queue_destroy(queue), "vram_queue_destroy");
    pthread_mutex_lock(&trial->lock);
    trial->handouts += done;
    trial->asked += asked;
    trial->counts.seen += counts.seen;
    trial->counts.dirty += counts.dirty;
    pthread_mutex_unlock(&trial->lock);
    return NULL;
}

/* Takes all the memory that the pool may have, makes it dirty and frees it. */
static void fill_pool(vram_pool *pool, uint64_t bytes) {
    enum { PART = 1 << 20 };
    vram_addr addrs[64];
    uint64_t count = bytes / PART - 8; /* some stays for small blocks */
    vram_queue *queue;
    must(vram_queue_create(device, NULL, &queue), "vram_queue_create");
    for (uint64_t i = 0; i < count; i++) {
        must(vram_alloc(pool, PART, queue, &addrs[i]), "vram_alloc");
        must(vram_queue_fill(queue, addrs[i], 0xA5A5A5A5, 4, PART), "vram_queue_fill");
    }
    for (uint64_t i = 0; i < count; i++) {
        must(vram_free(addrs[i], queue), "vram_free");
    }
    must(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT), "vram_queue_wait");
    must(vram_queue_destroy(queue), "vram_queue_destroy");
}

/* Whether the mode held; with no mode, whether the test found what it must. */
static bool run(const char *name, uint32_t flags, uint64_t handouts, double limit) {
    vram_limits limits = {.size = sizeof limits, .hard_bytes = 64 * MIB};
    vram_pool_options options = {.size = sizeof options, .flags = flags, .limits = &limits};
    struct trial trial = {.name = name,
                          .each = (handouts + THREADS - 1) / THREADS,
                          .deadline = seconds() + limit,
                          .lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t threads[THREADS];
    must(vram_pool_create(device, &options, &trial.pool), "vram_pool_create");
    if (flags & VRAM_POOL_ZERO_FREE) {
        fill_pool(trial.pool, 64 * MIB);
    }
    double start = seconds();
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, work, &trial) != 0) {
            fprintf(stderr, "zero_handouts: no thread\n");
            exit(2);
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    must(vram_pool_destroy(trial.pool), "vram_pool_destroy");
    bool all = trial.counts.seen == trial.asked && trial.handouts >= handouts;
    bool held = flags ? all && trial.counts.dirty == 0 : trial.counts.dirty > 0;
    printf("%-10s %llu hand-outs, %llu of %llu bytes looked at, %llu not zero, %.1f s: %s\n", name,
           (unsigned long long)trial.handouts, (unsigned long long)trial.counts.seen,
           (unsigned long long)trial.asked, (unsigned long long)trial.counts.dirty,
           seconds() - start, held ? "ok" : "FAILED");
    fflush(stdout);
    return held;
}

int main(int argc, char **argv) {
    const char *backend = argc > 1 ? argv[1] : "cuda";
    uint64_t handouts = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000;
    double limit = argc > 3 ? strtod(argv[3], NULL) : 150;
    vram_context_options options = {.size = sizeof options, .backends = backend};
    if (argc > 4 || handouts == 0 || limit <= 0) {
        fprintf(stderr, "usage: zero_handouts [BACKEND [HANDOUTS [SECONDS]]]\n");
        return 2;
    }
    must(vram_context_create(&options, &context), "vram_context_create");
    must(vram_device_open(context, 0, &device), "vram_device_open");
    must(zero_look_create(device, backend, &kernel), "vram_kernel_create");
    bool finds = run("no mode", 0, handouts / 100 + 1, limit);
    bool allocs = run("zero_alloc", VRAM_POOL_ZERO_ALLOC, handouts, limit);
    bool frees = run("zero_free", VRAM_POOL_ZERO_FREE, handouts, limit);
    vram_context_destroy(context);
    printf("%s\n", finds && allocs && frees ? "every byte was zero" : "FAILED");
    return !(finds && allocs && frees);
}

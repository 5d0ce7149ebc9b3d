/* SPDX-License-Identifier: Apache-2.0 */
/*
 * threads.c: a thousand short-lived threads, each with a queue of its own, come and go on one pool
 * and leave nothing behind.
 *
 *   threads [--count N] [--at-once N] [--backend B] [--seed S] [--json]
 *
 * A thread allocates blocks, works on them, frees some, puts others on a table for whoever comes,
 * and takes and frees what it finds there: memory of threads and queues that have ended long ago.
 * At the end everything is freed and the pool trimmed. Blocks that are still live, or memory that
 * the pool cannot give back because it is stuck with a thread or a queue that is gone, are
 * failures.
 */
#include "json_out.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vram/pool.h>
#include <vram/vram.h>

enum {
    AT_ONCE_MAX = 64,
    TABLE_ROWS = 256, /* blocks that wait for somebody to free them */
    STEPS = 60,       /* of one thread */
    HAND_MAX = 24     /* blocks that a thread holds itself */
};

struct options {
    uint64_t count, at_once, seed;
    const char *backend;
    bool json;
};

static struct options options;
static vram_context *context;
static vram_device *device;
static vram_pool *pool;

static pthread_mutex_t table_mutex = PTHREAD_MUTEX_INITIALIZER;
static vram_addr table[TABLE_ROWS]; /* 0: a free row; its mutex's */

static void must(vram_status status, const char *what) {
    if (status != VRAM_OK) {
        fprintf(stderr, "threads: %s: %s: %s\n", what, vram_status_name(status),
                vram_error_get()->text);
        exit(2);
    }
}

/* One thread's life. */
struct visit {
    uint64_t random;
    vram_queue *queue;
    vram_addr hand[HAND_MAX];
    uint32_t hand_count;
};

static uint64_t chance(struct visit *visit, uint64_t below) {
    visit->random ^= visit->random << 13;
    visit->random ^= visit->random >> 7;
    visit->random ^= visit->random << 17;
    return visit->random % below;
}

/* Few sizes, so that threads find each other's blocks; now and then a large one. */
static void grow(struct visit *visit) {
    static const uint64_t sizes[] = {1, 512, 4096, 5000, 65536, 300000, 1 << 20, 5 << 20};
    uint64_t bytes = sizes[chance(visit, sizeof sizes / sizeof sizes[0])];
    vram_addr addr;
    must(vram_alloc(pool, bytes, visit->queue, &addr), "vram_alloc");
    if (bytes >= 4) {
        must(vram_queue_fill(visit->queue, addr, 1, 4, 4), "vram_queue_fill");
    }
    visit->hand[visit->hand_count++] = addr;
}

/* Puts a block on the table and takes what lay there, 0: nothing. */
static vram_addr swap(struct visit *visit, vram_addr addr) {
    uint64_t row = chance(visit, TABLE_ROWS);
    pthread_mutex_lock(&table_mutex);
    vram_addr found = table[row];
    table[row] = addr;
    pthread_mutex_unlock(&table_mutex);
    return found;
}

/* Whoever takes the block from the table may use it on any queue: the work here must be done. */
static void hand_over(struct visit *visit) {
    vram_addr addr = visit->hand[--visit->hand_count];
    must(vram_queue_wait(visit->queue, VRAM_TIMEOUT_DEFAULT), "vram_queue_wait");
    vram_addr found = swap(visit, addr);
    must(vram_free(found, visit->queue), "vram_free of another's block");
}

static void shrink(struct visit *visit) {
    uint32_t index = (uint32_t)chance(visit, visit->hand_count);
    must(vram_free(visit->hand[index], visit->queue), "vram_free");
    visit->hand[index] = visit->hand[--visit->hand_count];
}

static void *live(void *argument) {
    struct visit *visit = argument;
    must(vram_queue_create(device, NULL, &visit->queue), "vram_queue_create");
    for (uint32_t i = 0; i < STEPS; i++) {
        uint64_t what = chance(visit, 8);
        if (visit->hand_count == 0 || (visit->hand_count < HAND_MAX && what < 4)) {
            grow(visit);
        } else if (what == 7) {
            hand_over(visit);
        } else {
            shrink(visit);
        }
    }
    while (visit->hand_count > 0) {
        shrink(visit);
    }
    vram_queue_destroy(visit->queue);
    return NULL;
}

/* Keeps `at_once` threads going until `count` have lived. */
static void run_crowd(void) {
    static struct visit visits[AT_ONCE_MAX];
    pthread_t threads[AT_ONCE_MAX];
    for (uint64_t i = 0; i < options.count + options.at_once; i++) {
        uint64_t place = i % options.at_once;
        if (i >= options.at_once) {
            pthread_join(threads[place], NULL);
        }
        if (i < options.count) {
            uint64_t seed = (options.seed + i) * UINT64_C(0x9e3779b97f4a7c15) | 1;
            visits[place] = (struct visit){.random = seed};
            if (pthread_create(&threads[place], NULL, live, &visits[place]) != 0) {
                fprintf(stderr, "threads: no thread to be had\n");
                exit(2);
            }
        }
    }
}

static void clear_table(void) {
    vram_queue *queue;
    must(vram_queue_create(device, NULL, &queue), "vram_queue_create");
    for (uint32_t i = 0; i < TABLE_ROWS; i++) {
        must(vram_free(table[i], queue), "vram_free from the table");
    }
    vram_queue_destroy(queue);
}

static vram_pool_stats look(void) {
    vram_pool_stats stats = {.size = sizeof stats};
    must(vram_pool_stats_get(pool, &stats), "vram_pool_stats_get");
    return stats;
}

static void report(const vram_pool_stats *before, const vram_pool_stats *after) {
    int64_t delta = (int64_t)(after->reserved_bytes - before->reserved_bytes);
    struct json_out json;
    if (!options.json) {
        printf("%" PRIu64 " threads, %" PRIu64 " allocations, peak reserved %" PRIu64
               " bytes\nreserved_delta_bytes %" PRId64 "\nlive_blocks %" PRIu64 "\n",
               options.count, after->allocs, after->peak_reserved_bytes, delta, after->live_blocks);
        return;
    }
    json_begin(&json, stdout);
    json_object_begin(&json, NULL);
    json_unsigned(&json, "count", options.count);
    json_unsigned(&json, "allocs", after->allocs);
    json_unsigned(&json, "frees", after->frees);
    json_unsigned(&json, "peak_reserved_bytes", after->peak_reserved_bytes);
    json_signed(&json, "reserved_delta_bytes", delta);
    json_unsigned(&json, "live_blocks", after->live_blocks);
    json_unsigned(&json, "cached_bytes", after->cached_bytes);
    json_object_end(&json);
    json_end(&json);
}

static bool parse(int count, char **words) {
    options = (struct options){.count = 1000, .at_once = 16, .seed = 1, .backend = "sim"};
    const struct {
        const char *flag;
        uint64_t *place;
    } numbers[] = {
        {"--count", &options.count}, {"--at-once", &options.at_once}, {"--seed", &options.seed}};
    for (int i = 1; i < count; i++) {
        bool known = strcmp(words[i], "--json") == 0;
        options.json = options.json || known;
        if (!known && strcmp(words[i], "--backend") == 0 && i + 1 < count) {
            options.backend = words[++i];
            known = true;
        }
        for (size_t n = 0; n < 3 && !known && i + 1 < count; n++) {
            if (strcmp(words[i], numbers[n].flag) == 0) {
                char *rest;
                *numbers[n].place = strtoull(words[++i], &rest, 10);
                known = *rest == 0;
            }
        }
        if (!known) {
            return false;
        }
    }
    return options.count > 0 && options.at_once > 0 && options.at_once <= AT_ONCE_MAX;
}

int main(int count, char **words) {
    if (!parse(count, words)) {
        fprintf(stderr, "usage: threads [--count N] [--at-once 1..64] [--backend B] [--seed S] "
                        "[--json]\n");
        return 2;
    }
    vram_context_options wishes = {
        .size = sizeof wishes, .backends = options.backend, .sim = "memory=8G,lag=10,seed=3"};
    must(vram_context_create(&wishes, &context), "vram_context_create");
    must(vram_device_open(context, 0, &device), "vram_device_open");
    /* With tracking a hit and a miss go other ways: even seeds go those. */
    vram_limits limits = {.size = sizeof limits,
                          .tracking = options.seed % 2 ? VRAM_SWITCH_OFF : VRAM_SWITCH_ON};
    vram_pool_options tracked = {.size = sizeof tracked, .limits = &limits};
    must(vram_pool_create(device, &tracked, &pool), "vram_pool_create");
    vram_pool_stats before = look();
    run_crowd();
    clear_table();
    must(vram_pool_trim(pool, NULL, NULL), "vram_pool_trim");
    vram_pool_stats after = look();
    report(&before, &after);
    bool clean = after.live_blocks == 0 && after.reserved_bytes == before.reserved_bytes &&
                 after.allocs == after.frees;
    vram_context_destroy(context);
    return clean ? 0 : 1;
}

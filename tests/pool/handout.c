/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handout.c: no byte of a pool is handed out while earlier users of it are still at work.
 *
 *   handout [--ops N] [--seed S] [--lag L] [--careless] [--json]
 *
 * Several queues of a simulated device run late and out of order. Every queue counts its own work
 * in a word of a ledger on the device, by fills that run in the order of the queue: when the word
 * reaches n, all work up to n is done. The simulation's memory is real, so the host reads the
 * ledger without a call, and nothing is hurried along by looking.
 *
 * The test keeps a list of unfinished blocks: freed blocks whose users have not completed. A block
 * that is handed out over an unfinished one is judged on the device: its queue copies the ledger
 * before any other work, and the copy must show that the users of the unfinished block were done.
 * So a pool may hand memory out early if it makes the queue wait, and not otherwise.
 *
 * --careless leaves out the vram_use calls that a program owes. The test must then find early
 * reuse, and fails when it does not: that proves that it can.
 */
#include "../byte_units.h"
#include "json_out.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <vram/pool.h>
#include <vram/vram.h>

enum {
    QUEUES = 12,
    LIVE_MAX = 400,         /* blocks */
    UNFINISHED_MAX = 20000, /* freed blocks with unfinished users */
    TRIALS_MAX = 4096,      /* hand-outs that wait for their copy of the ledger */
    USERS_MAX = 3,          /* queues that use one block */
    SIZES = 40,             /* block sizes that come again and again */
    CHURN = 5000            /* operations between two changes of a queue */
};
#define LIVE_BYTES (128 * MIB)

/* Until when a queue uses a block: its word in the ledger must reach `count`. */
struct user {
    uint32_t queue, count;
};

struct block {
    vram_addr addr;
    uint64_t bytes;
    struct user users[USERS_MAX];
    uint32_t user_count;
};

/* A hand-out over unfinished blocks: `required` by queue, and where the ledger is copied to. */
struct trial {
    struct user first; /* the queue it was given to, and when its copy is there */
    uint32_t required[QUEUES];
    bool open;
};

struct options {
    uint64_t ops, seed, lag;
    bool careless, json;
};

struct totals {
    uint64_t handouts, over_unfinished, early_reuse, overlaps, refused, moved_handles, violations;
};

struct test {
    struct options options;
    struct totals totals;
    vram_context *context;
    vram_device *device;
    vram_pool *pool;
    vram_queue *queues[QUEUES];
    uint32_t counts[QUEUES];         /* work submitted to each queue */
    vram_addr ledger_addr;           /* QUEUES words */
    volatile const uint32_t *ledger; /* the same, as the host sees it */
    vram_addr copies_addr;           /* TRIALS_MAX copies of it */
    volatile const uint32_t *copies;
    struct trial trials[TRIALS_MAX];
    uint32_t next_trial;
    struct block live[LIVE_MAX];
    uint32_t live_count;
    uint64_t live_bytes;
    struct block unfinished[UNFINISHED_MAX];
    uint32_t unfinished_count;
    uint64_t sizes[SIZES];
    uint64_t random;
};

static struct test test; /* too large for a stack */

static void must(vram_status status, const char *what) {
    if (status != VRAM_OK) {
        fprintf(stderr, "handout: %s: %s: %s\n", what, vram_status_name(status),
                vram_error_get()->text);
        exit(2);
    }
}

static uint64_t chance(uint64_t below) {
    test.random ^= test.random << 13;
    test.random ^= test.random >> 7;
    test.random ^= test.random << 17;
    return test.random % below;
}

/* Mostly small, some of many MiB: by chance in the exponent. */
static uint64_t any_size(void) {
    uint64_t top = UINT64_C(1) << (9 + chance(15)); /* 512 B to 8 MiB */
    return top + chance(top);
}

/* ---------------------------------------------------------------------- users */

static bool is_done(struct user user) {
    return test.ledger[user.queue] >= user.count;
}

static bool all_done(const struct block *block) {
    for (uint32_t i = 0; i < block->user_count; i++) {
        if (!is_done(block->users[i])) {
            return false;
        }
    }
    return true;
}

/* One more piece of work of the queue, whose end the ledger will show. */
static struct user count_work(uint32_t queue) {
    uint32_t count = ++test.counts[queue];
    must(vram_queue_fill(test.queues[queue], test.ledger_addr + 4 * queue, count, 4, 4), "ledger");
    return (struct user){queue, count};
}

/* Work that touches both ends of the block, and its entry in the ledger. */
static void use(struct block *block, uint32_t queue) {
    vram_queue *native = test.queues[queue];
    must(vram_queue_fill(native, block->addr, queue, 4, 4), "fill");
    if (chance(4) == 0) {
        must(vram_queue_fill(native, block->addr + block->bytes / 4 * 4 - 4, queue, 4, 4), "fill");
    }
    struct user user = count_work(queue);
    for (uint32_t i = 0; i < block->user_count; i++) {
        if (block->users[i].queue == queue) {
            block->users[i] = user;
            return;
        }
    }
    block->users[block->user_count++] = user;
}

static void wait_for(uint32_t queue, uint32_t before) {
    vram_point point;
    must(vram_queue_mark(test.queues[before], &point), "mark");
    must(vram_queue_after(test.queues[queue], point), "after");
}

/* ------------------------------------------------------------------- unfinished blocks */

static bool overlaps(const struct block *a, const struct block *b) {
    return a->addr < b->addr + b->bytes && b->addr < a->addr + a->bytes;
}

/* Which work the users of unfinished blocks under `block` still owe, by queue. Blocks whose users
   are done leave the list. */
static bool gather(const struct block *block, uint32_t required[QUEUES]) {
    bool any = false;
    memset(required, 0, QUEUES * sizeof required[0]);
    for (uint32_t i = 0; i < test.unfinished_count;) {
        const struct block *freed = &test.unfinished[i];
        if (all_done(freed)) {
            test.unfinished[i] = test.unfinished[--test.unfinished_count];
            continue;
        }
        for (uint32_t u = 0; overlaps(block, freed) && u < freed->user_count; u++) {
            struct user user = freed->users[u];
            required[user.queue] =
                user.count > required[user.queue] ? user.count : required[user.queue];
            any = any || !is_done(user);
        }
        i++;
    }
    return any;
}

static void judge(uint32_t index) {
    struct trial *trial = &test.trials[index];
    for (uint32_t i = 0; trial->open && i < QUEUES; i++) {
        if (test.copies[index * QUEUES + i] < trial->required[i]) {
            test.totals.early_reuse++;
            break;
        }
    }
    trial->open = false;
}

static void judge_arrived(void) {
    for (uint32_t i = 0; i < TRIALS_MAX; i++) {
        if (test.trials[i].open && is_done(test.trials[i].first)) {
            judge(i);
        }
    }
}

/* The row of the trial before last round's; its copy is waited for if it has not come yet. */
static void try_handout(uint32_t queue, const uint32_t required[QUEUES]) {
    uint32_t index = test.next_trial++ % TRIALS_MAX;
    struct trial *trial = &test.trials[index];
    if (trial->open) {
        if (!is_done(trial->first)) {
            must(vram_queue_wait(test.queues[trial->first.queue], VRAM_TIMEOUT_DEFAULT), "wait");
        }
        judge(index);
    }
    memcpy(trial->required, required, sizeof trial->required);
    must(vram_queue_copy(test.queues[queue], test.copies_addr + (uint64_t)index * QUEUES * 4,
                         test.ledger_addr, QUEUES * 4),
         "copy of the ledger");
    trial->first = count_work(queue);
    trial->open = true;
    test.totals.over_unfinished++;
}

/* ----------------------------------------------------------------- operations */

static void check_live(const struct block *block) {
    for (uint32_t i = 0; i < test.live_count; i++) {
        test.totals.overlaps += overlaps(block, &test.live[i]);
    }
}

static void allocate(void) {
    uint32_t queue = (uint32_t)chance(QUEUES), required[QUEUES];
    struct block block = {.bytes = chance(4) == 0 ? any_size() : test.sizes[chance(SIZES)]};
    vram_status status = vram_alloc(test.pool, block.bytes, test.queues[queue], &block.addr);
    /* The simulated driver refuses to move memory under work that nobody told the pool of. */
    bool excused = test.options.careless && status == VRAM_ERR_INVALID;
    if (vram_status_is_exhausted(status) || excused) {
        test.totals.refused++;
        return;
    }
    must(status, "vram_alloc");
    test.totals.handouts++;
    check_live(&block);
    if (gather(&block, required)) {
        try_handout(queue, required);
    }
    use(&block, queue);
    test.live[test.live_count++] = block;
    test.live_bytes += block.bytes;
}

/* Another queue uses the block behind the first one, and the pool is told. */
static void share(struct block *block) {
    uint32_t queue = (uint32_t)chance(QUEUES);
    wait_for(queue, block->users[0].queue);
    use(block, queue);
    if (!test.options.careless) {
        must(vram_use(block->addr, test.queues[queue]), "vram_use");
    }
}

static void haunt(const struct block *block) {
    if (all_done(block)) {
        return;
    }
    if (test.unfinished_count == UNFINISHED_MAX) {
        fprintf(stderr,
                "handout: too many freed blocks with unfinished users; choose a lower --lag\n");
        exit(2);
    }
    test.unfinished[test.unfinished_count++] = *block;
}

/* On its own queue as a rule; else on another one, which is made to wait for the first. */
static void release(void) {
    uint32_t index = (uint32_t)chance(test.live_count);
    struct block block = test.live[index];
    uint32_t queue = block.users[0].queue;
    if (chance(4) == 0) {
        share(&block);
    }
    if (chance(4) == 0) {
        uint32_t other = (uint32_t)chance(QUEUES);
        wait_for(other, queue);
        queue = other;
    }
    must(vram_free(block.addr, test.queues[queue]), "vram_free");
    haunt(&block);
    test.live[index] = test.live[--test.live_count];
    test.live_bytes -= block.bytes;
}

/* The queue's work is done when destroy returns; memory freed on it may lie in any cache. */
static void churn(void) {
    uint32_t queue = (uint32_t)chance(QUEUES);
    vram_queue_destroy(test.queues[queue]);
    must(vram_queue_create(test.device, NULL, &test.queues[queue]), "vram_queue_create");
}

static void step(uint64_t number) {
    if (number % CHURN == CHURN - 1) {
        churn();
        judge_arrived();
    }
    bool full = test.live_count == LIVE_MAX || test.live_bytes > LIVE_BYTES;
    if (test.live_count > 0 && (full || chance(2) == 0)) {
        release();
    } else {
        allocate();
    }
}

/* ----------------------------------------------------------------------- test */

static volatile const uint32_t *map(uint64_t bytes, vram_addr *addr) {
    vram_native_info info = {.size = sizeof info};
    must(vram_device_alloc(test.device, bytes, VRAM_MEMORY_DEVICE, addr), "vram_device_alloc");
    must(vram_native(*addr, &info), "vram_native");
    if (info.host_pointer == NULL) {
        fprintf(stderr, "handout: the simulated memory is not real\n");
        exit(2);
    }
    return info.host_pointer;
}

static void begin(void) {
    char sim[128];
    snprintf(sim, sizeof sim, "memory=256M,real=on,lag=%" PRIu64 ",seed=%" PRIu64, test.options.lag,
             test.options.seed);
    vram_context_options options = {.size = sizeof options, .backends = "sim", .sim = sim};
    must(vram_context_create(&options, &test.context), "vram_context_create");
    must(vram_device_open(test.context, 0, &test.device), "vram_device_open");
    /* With tracking a hit and a miss go other ways: even seeds go those. */
    vram_limits limits = {.size = sizeof limits,
                          .tracking = test.options.seed % 2 ? VRAM_SWITCH_OFF : VRAM_SWITCH_ON};
    vram_pool_options wishes = {.size = sizeof wishes, .limits = &limits};
    must(vram_pool_create(test.device, &wishes, &test.pool), "vram_pool_create");
    for (uint32_t i = 0; i < QUEUES; i++) {
        must(vram_queue_create(test.device, NULL, &test.queues[i]), "vram_queue_create");
    }
    test.ledger = map(QUEUES * 4, &test.ledger_addr);
    test.copies = map((uint64_t)TRIALS_MAX * QUEUES * 4, &test.copies_addr);
    test.random = test.options.seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    for (uint32_t i = 0; i < SIZES; i++) {
        test.sizes[i] = any_size();
    }
}

static void end(void) {
    while (test.live_count > 0) {
        release();
    }
    for (uint32_t i = 0; i < QUEUES; i++) {
        must(vram_queue_wait(test.queues[i], VRAM_TIMEOUT_DEFAULT), "vram_queue_wait");
    }
    judge_arrived();
    vram_pool_stats stats = {.size = sizeof stats};
    must(vram_pool_stats_get(test.pool, &stats), "vram_pool_stats_get");
    test.totals.moved_handles = stats.moved_handles;
    vram_pool_destroy(test.pool);
    vram_sim_state state = {.size = sizeof state};
    must(vram_sim_state_get(test.context, &state), "vram_sim_state_get");
    test.totals.violations = state.violations;
    vram_context_destroy(test.context);
}

static void report(double seconds) {
    const struct {
        const char *key;
        uint64_t value;
    } rows[] = {{"ops", test.options.ops},
                {"handouts", test.totals.handouts},
                {"over_unfinished", test.totals.over_unfinished},
                {"early_reuse", test.totals.early_reuse},
                {"overlaps", test.totals.overlaps},
                {"refused", test.totals.refused},
                {"moved_handles", test.totals.moved_handles},
                {"violations", test.totals.violations}};
    size_t count = sizeof rows / sizeof rows[0];
    for (size_t i = 0; i < count && !test.options.json; i++) {
        printf("%-16s %" PRIu64 "\n", rows[i].key, rows[i].value);
    }
    if (!test.options.json) {
        return;
    }
    struct json_out json;
    json_begin(&json, stdout);
    json_object_begin(&json, NULL);
    for (size_t i = 0; i < count; i++) {
        json_unsigned(&json, rows[i].key, rows[i].value);
    }
    json_number(&json, "seconds", seconds);
    json_object_end(&json);
    json_end(&json);
}

static bool parse(int count, char **words) {
    test.options = (struct options){.ops = 200000, .seed = 1, .lag = 400};
    const struct {
        const char *flag;
        uint64_t *place;
    } numbers[] = {
        {"--ops", &test.options.ops}, {"--seed", &test.options.seed}, {"--lag", &test.options.lag}};
    for (int i = 1; i < count; i++) {
        bool known = strcmp(words[i], "--json") == 0 || strcmp(words[i], "--careless") == 0;
        test.options.json = test.options.json || strcmp(words[i], "--json") == 0;
        test.options.careless = test.options.careless || strcmp(words[i], "--careless") == 0;
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
    return true;
}

int main(int count, char **words) {
    if (!parse(count, words)) {
        fprintf(stderr, "usage: handout [--ops N] [--seed S] [--lag L] [--careless] [--json]\n");
        return 2;
    }
    struct timespec start, stop;
    clock_gettime(CLOCK_MONOTONIC, &start);
    begin();
    for (uint64_t i = 0; i < test.options.ops; i++) {
        step(i);
    }
    end();
    clock_gettime(CLOCK_MONOTONIC, &stop);
    report((double)(stop.tv_sec - start.tv_sec) + (double)(stop.tv_nsec - start.tv_nsec) / 1e9);
    if (test.options.careless) {
        return test.totals.early_reuse > 0 ? 0 : 1;
    }
    return test.totals.early_reuse || test.totals.overlaps || test.totals.violations ? 1 : 0;
}

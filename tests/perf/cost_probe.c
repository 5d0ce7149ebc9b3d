/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost_probe.c: what gate.py counts, in functions that callgrind finds by their names.
 *
 *   cost_probe               runs the probes on a simulated device, for gate.py under callgrind
 *   cost_probe --cold        prints what a cold start takes, from opening a simulated device to the
 *                            first block and its free: operations of the backend
 *   cost_probe --cold CUDA   the same on the tests' CUDA driver, which lies there: its calls
 *   cost_probe --emptied     prints what half of the device as one block takes, and what a program
 *                            takes that empties its cache again and again
 *
 * Each probe repeats its operation COUNT times, in rounds of which the last counts: by then
 * everything is in place. Burst, mixed and handover repeat it MANY times as often: only then do
 * bins overflow. The pool's counters tell whether it did what its name says.
 */
#include "fake/fake_cuda.h"

#include <vram/vram.h>

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 16, BYTES = 4096, WARM_ROUNDS = 4 };
enum { MANY = 64, SMALL_BYTES = 1024, SLOTS = 32 }; /* as in `vram bench alloc` */
enum { QUEUES = 512 };

#define MIB (UINT64_C(1) << 20)

/* Not inlined, cloned or left out: callgrind must see the call. */
#define PROBE __attribute__((noinline, noclone))

static vram_context *context;
static vram_device *device;
static vram_queue *queue;
static vram_pool *plain, *tracked;

static void fail(const char *what) {
    fprintf(stderr, "cost_probe: %s: %s\n", what, vram_error_get()->text);
    exit(1);
}

static void check(vram_status status, const char *what) {
    if (status != VRAM_OK) {
        fail(what);
    }
}

/* ------------------------------------------------------------------- probes */

void probe_calibration(void *unused);
void probe_hit(void *addrs);
void probe_free(void *addrs);
void probe_miss(void *addrs);
void probe_tagged_pair(void *unused);
void probe_tracked_pair(void *unused);
void probe_burst(void *addrs);
void probe_mixed(void *slots);
void probe_handover(void *unused);
void probe_spread(void *queues);
void probe_end(void *unused);

/* The loop that all counts are relative to: loads, stores, multiplications and branches. */
PROBE void probe_calibration(void *unused) {
    static volatile uint64_t table[64];
    uint64_t seed = 88172645463325252u;
    (void)unused;
    for (int i = 0; i < COUNT; i++) {
        for (int j = 0; j < 16; j++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            if (table[seed >> 58] & 1) {
                table[seed >> 58] += seed >> 32;
            } else {
                table[seed >> 58] ^= seed;
            }
        }
    }
}

PROBE void probe_hit(void *addrs) {
    for (int i = 0; i < COUNT; i++) {
        check(vram_alloc(plain, BYTES, queue, (vram_addr *)addrs + i), "hit");
    }
}

PROBE void probe_free(void *addrs) {
    for (int i = 0; i < COUNT; i++) {
        check(vram_free(((vram_addr *)addrs)[i], queue), "free");
    }
}

/* A size of its own each time, so that no cache has it: a part of a hole. */
PROBE void probe_miss(void *addrs) {
    static uint64_t bytes = MIB;
    for (int i = 0; i < COUNT; i++) {
        bytes += 4608;
        check(vram_alloc(plain, bytes, queue, (vram_addr *)addrs + i), "miss");
    }
}

PROBE void probe_tagged_pair(void *unused) {
    const vram_alloc_options options = {.size = sizeof options, .tag = "model/layer"};
    (void)unused;
    for (int i = 0; i < COUNT; i++) {
        vram_addr addr;
        check(vram_alloc_with(plain, BYTES, queue, &options, &addr), "tagged allocation");
        check(vram_free(addr, queue), "tagged free");
    }
}

PROBE void probe_tracked_pair(void *unused) {
    (void)unused;
    for (int i = 0; i < COUNT; i++) {
        vram_addr addr;
        check(vram_alloc(tracked, BYTES, queue, &addr), "tracked allocation");
        check(vram_free(addr, queue), "tracked free");
    }
}

static uint64_t random_next(void) {
    static uint64_t seed = 88172645463325252u;
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

/* Many allocations, then their frees in another order: 37 and their number have no common
   divisor. */
PROBE void probe_burst(void *addrs) {
    vram_addr *blocks = addrs;
    for (int i = 0; i < MANY * COUNT; i++) {
        check(vram_alloc(plain, SMALL_BYTES, queue, &blocks[i]), "burst");
    }
    for (int i = 0; i < MANY * COUNT; i++) {
        check(vram_free(blocks[i * 37 % (MANY * COUNT)], queue), "free of a burst");
    }
}

/* Replaces one of SLOTS blocks by one of another size: sizes of the traces, of which most are too
   large for caches. */
PROBE void probe_mixed(void *slots) {
    static const uint32_t sizes[] = {24,       3072,     12288,    172032,   2359296, 7397376,
                                     15433728, 24625152, 1536,     1179648,  3538944, 8073216,
                                     16146432, 45121536, 29968,    4194304,  9043968, 18087936,
                                     29646848, 57442304, 65536000, 20971520, 6291456, 33554432};
    vram_addr *blocks = slots;
    for (int i = 0; i < MANY * COUNT; i++) {
        uint64_t drawn = random_next();
        vram_addr *slot = &blocks[drawn % SLOTS];
        uint64_t size = sizes[(drawn >> 32) % (sizeof sizes / sizeof sizes[0])];
        if (*slot) {
            check(vram_free(*slot, queue), "free of a mixed size");
        }
        check(vram_alloc(plain, size, queue, slot), "mixed size");
    }
}

/* Blocks that this thread allocates and another one frees. */
static struct {
    sem_t full, empty;
    vram_addr blocks[4 * COUNT];
    bool ends;
} belt;

static void *free_elsewhere(void *unused) {
    (void)unused;
    for (;;) {
        sem_wait(&belt.full);
        if (belt.ends) {
            return NULL;
        }
        for (int i = 0; i < 4 * COUNT; i++) {
            check(vram_free(belt.blocks[i], queue), "free on another thread");
        }
        sem_post(&belt.empty);
    }
}

PROBE void probe_handover(void *unused) {
    (void)unused;
    for (int part = 0; part < MANY / 4; part++) {
        for (int i = 0; i < 4 * COUNT; i++) {
            check(vram_alloc(plain, SMALL_BYTES, queue, &belt.blocks[i]), "handover");
        }
        sem_post(&belt.full);
        sem_wait(&belt.empty);
    }
}

/* One block at a time, on one queue after another: each miss passes the caches of all queues. */
PROBE void probe_spread(void *queues) {
    vram_queue **each = queues;
    for (int i = 0; i < MANY * COUNT; i++) {
        vram_addr addr;
        check(vram_alloc(plain, 1 + random_next() % 100000, each[i % QUEUES], &addr), "spread");
        check(vram_free(addr, each[i % QUEUES]), "spread free");
    }
}

/* Where the count of a probe ends. */
PROBE void probe_end(void *unused) {
    (void)unused;
}

/* --------------------------------------------------------------------- runs */

static void open_device(const char *backend) {
    vram_context_options options = {
        .size = sizeof options, .backends = backend, .sim = "memory=8G"};
    check(vram_context_create(&options, &context), "context");
    check(vram_device_open(context, 0, &device), "device");
    check(vram_queue_create(device, NULL, &queue), "queue");
    check(vram_pool_create(device, NULL, &plain), "pool");
}

static vram_pool_stats stats_of(vram_pool *pool) {
    vram_pool_stats stats = {.size = sizeof stats};
    check(vram_pool_stats_get(pool, &stats), "statistics");
    return stats;
}

/* Through a pointer that the compiler cannot see through. */
static void call(void (*volatile probe)(void *), void *argument) {
    void (*volatile end)(void *) = probe_end;
    probe(argument);
    end(NULL);
}

static void expect(const char *what, uint64_t found, uint64_t wanted) {
    if (found != wanted) {
        fprintf(stderr, "cost_probe: %s: %" PRIu64 " instead of %" PRIu64 "\n", what, found,
                wanted);
        exit(1);
    }
}

static void run_hits(void) {
    vram_addr addrs[COUNT];
    for (int round = 0; round < WARM_ROUNDS; round++) {
        vram_pool_stats before = stats_of(plain);
        call(probe_hit, addrs);
        call(probe_free, addrs);
        vram_pool_stats after = stats_of(plain);
        if (round == WARM_ROUNDS - 1) {
            expect("hits from the cache", after.cache_hits - before.cache_hits, COUNT);
            expect("frees to the cache", after.cache_returns - before.cache_returns, COUNT);
        }
    }
}

static void run_misses(void) {
    vram_addr addrs[COUNT], whole;
    check(vram_alloc(plain, 128 * MIB, queue, &whole), "hole");
    check(vram_free(whole, queue), "hole");
    for (int round = 0; round < 2; round++) {
        vram_pool_stats before = stats_of(plain);
        call(probe_miss, addrs);
        vram_pool_stats after = stats_of(plain);
        if (round == 1) {
            expect("misses of the cache", after.cache_hits, before.cache_hits);
            expect("misses without the driver", after.misses, before.misses);
        }
    }
}

static void run_pairs(void) {
    vram_pool_options options = {.size = sizeof options, .flags = VRAM_POOL_TRACKED};
    check(vram_pool_create(device, &options, &tracked), "tracked pool");
    for (int round = 0; round < WARM_ROUNDS; round++) {
        call(probe_tagged_pair, NULL);
        call(probe_tracked_pair, NULL);
    }
}

static void run_many(void) {
    static vram_addr blocks[MANY * COUNT], slots[SLOTS];
    vram_pool_stats before = stats_of(plain);
    for (int round = 0; round < WARM_ROUNDS; round++) {
        before = stats_of(plain);
        call(probe_burst, blocks);
    }
    expect("bursts without the driver", stats_of(plain).misses, before.misses);
    check(vram_alloc(plain, 3072 * MIB, queue, blocks), "memory for mixed sizes");
    check(vram_free(blocks[0], queue), "memory for mixed sizes");
    for (int round = 0; round < WARM_ROUNDS; round++) {
        before = stats_of(plain);
        call(probe_mixed, slots);
    }
    vram_pool_stats after = stats_of(plain);
    expect("mixed sizes without the driver", after.misses, before.misses);
    expect("mixed sizes that miss the cache",
           (after.cache_hits - before.cache_hits) * 2 < MANY * COUNT, true);
    for (int i = 0; i < SLOTS; i++) {
        check(vram_free(slots[i], queue), "last free");
    }
}

static void run_handover(void) {
    pthread_t thread;
    if (sem_init(&belt.full, 0, 0) || sem_init(&belt.empty, 0, 0) ||
        pthread_create(&thread, NULL, free_elsewhere, NULL)) {
        fail("a thread");
    }
    for (int round = 0; round < WARM_ROUNDS; round++) {
        call(probe_handover, NULL);
    }
    belt.ends = true;
    sem_post(&belt.full);
    pthread_join(thread, NULL);
}

static void run_spread(void) {
    static vram_queue *queues[QUEUES];
    for (int i = 0; i < QUEUES; i++) {
        check(vram_queue_create(device, NULL, &queues[i]), "one of many queues");
    }
    for (int round = 0; round < 2; round++) {
        call(probe_spread, queues);
    }
}

/* How often the tests' driver was called. */
static uint64_t calls_of(const char *driver) {
    const struct fake_cuda_control *(*get)(void) = NULL;
    void *library = dlopen(driver, RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, "fake_cuda_control") : NULL;
    if (!found) {
        fail("the tests' driver");
    }
    memcpy(&get, &found, sizeof get);
    return get()->calls(NULL);
}

static uint64_t operations(void) {
    vram_memory_info memory = {.size = sizeof memory};
    check(vram_memory_info_get(device, &memory), "memory");
    return memory.driver_calls;
}

static void print_cold_start(const char *driver) {
    vram_addr addr;
    if (driver) {
        check(vram_option_set("cuda_library", driver), "option");
    }
    open_device(driver ? "cuda" : "sim");
    check(vram_alloc(plain, 64 * MIB, queue, &addr), "first block");
    check(vram_free(addr, queue), "first free");
    printf("%" PRIu64 "\n", driver ? calls_of(driver) : operations());
}

/* Each round puts new blocks of 2 to 20 MiB in the place of four of six, and has what is free
   released. */
static void print_emptied(void) {
    enum { ROUNDS = 100, BLOCKS = 6, EACH = 4 };
    vram_addr blocks[BLOCKS] = {0}, vast;
    uint64_t random = 1, before;
    open_device("sim");
    before = operations();
    check(vram_alloc(plain, 4 * 1024 * MIB, queue, &vast), "a vast block");
    check(vram_free(vast, queue), "its free");
    check(vram_pool_trim(plain, NULL, NULL), "its trim");
    printf("%" PRIu64, operations() - before);
    before = operations();
    for (int i = 0; i < ROUNDS * EACH; i++) {
        vram_addr *block = &blocks[i % BLOCKS];
        random = random * UINT64_C(6364136223846793005) + 1;
        check(*block ? vram_free(*block, queue) : VRAM_OK, "free");
        check(vram_alloc(plain, 2 * MIB + (random >> 33) % (18 * MIB), queue, block), "block");
        if (i % EACH == 0) {
            check(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT), "wait");
            check(vram_pool_trim(plain, NULL, NULL), "trim");
        }
    }
    printf(" %" PRIu64 "\n", operations() - before);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--emptied") == 0) {
        print_emptied();
    } else if (argc > 1 && strcmp(argv[1], "--cold") == 0) {
        print_cold_start(argc > 2 ? argv[2] : NULL);
    } else {
        open_device("sim");
        call(probe_calibration, NULL);
        run_hits();
        run_misses();
        run_pairs();
        run_many();
        run_handover();
        run_spread();
    }
    check(vram_context_destroy(context), "end");
    return 0;
}

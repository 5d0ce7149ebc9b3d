/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_reuse.c: memory is reused in the time of queues: at once by the queue it was freed on, by
 * others when the work is done, and by nobody while another queue uses it or it is pinned.
 */
#include "case.h"

static bool begin(struct check *check, struct check_device **device, vram_queue **queue,
                  vram_queue **other, struct check_stock *stock) {
    CHECK_OPEN(check, device);
    CHECK_QUEUE(check, *device, queue);
    CHECK_QUEUE(check, *device, other);
    CHECK_STOCK(check, *device, NULL, stock);
    return true;
}

static bool same_queue(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue, *other;
    vram_addr first, second;

    CHECK_NEEDS_POOLS(check);
    CHECK_TRY(begin(check, &device, &queue, &other, &stock));
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_TAKE(check, &stock, 2000 + i * 20000, queue, &first);
        CHECK_GIVE(check, &stock, first, queue);
        CHECK_TAKE(check, &stock, 2000 + i * 20000, queue, &second);
        CHECK_EQUAL(check, first, second);
    }
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}

/* Late work of the first owner must never reach the second one's block. */
static bool other_queue(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queues[2];
    vram_addr addr, next;

    CHECK_TRY(begin(check, &device, &queues[0], &queues[1], &stock));
    for (uint32_t round = 0; round < check_rounds(check, 40); round++) {
        uint64_t size = round % 3 == 0 ? 4096 : 100000 + round * 512;
        vram_queue *from = queues[round % 2], *to = queues[1 - round % 2];
        CHECK_TAKE(check, &stock, size, from, &addr);
        CHECK_OK(check, vram_queue_fill(from, addr, 0xDD, 1, size));
        CHECK_GIVE(check, &stock, addr, from);
        CHECK_TAKE(check, &stock, size, to, &next);
        CHECK_WAIT(check, to);
        CHECK_WAIT(check, from);
        CHECK_STOCK_VERIFY(check, &stock);
        CHECK_GIVE(check, &stock, next, to);
    }
    return true;
}

/* With work that certainly is not done. */
static bool not_before(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    struct check_gate gate;
    vram_queue *queue, *other;
    vram_addr freed, next;

    CHECK_TRY(begin(check, &device, &queue, &other, &stock));
    CHECK_GATE(check, device, &gate);
    CHECK_TAKE(check, &stock, 300000, queue, &freed);
    CHECK_WAIT(check, queue);
    CHECK_GATE_PASS(check, &gate, queue);
    CHECK_GIVE(check, &stock, freed, queue);
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_TAKE(check, &stock, 300000, other, &next);
        CHECK_THAT(check, next + 300000 <= freed || freed + 300000 <= next);
    }
    check_gate_open(&gate);
    CHECK_WAIT(check, queue);
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}

/* Even the queue it was freed on has to wait for the others: for the work that they have at the
   free, whether it was submitted before vram_use or after it. */
static bool used_elsewhere(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    struct check_gate gate;
    vram_queue *queue, *other;
    vram_addr used, next;

    CHECK_TRY(begin(check, &device, &queue, &other, &stock));
    CHECK_GATE(check, device, &gate);
    CHECK_TAKE(check, &stock, 4096, queue, &used);
    CHECK_OK(check, vram_use(used, other));
    CHECK_OK(check, vram_use(used, other)); /* once is enough, twice does no harm */
    CHECK_OK(check, vram_use(used, queue));
    CHECK_WAIT(check, queue);
    CHECK_GATE_PASS(check, &gate, other);
    CHECK_OK(check, vram_queue_fill(other, used, 0xDD, 1, 4096));
    CHECK_GIVE(check, &stock, used, queue);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_TAKE(check, &stock, 4096, queue, &next);
        CHECK_THAT(check, next != used);
    }
    check_gate_open(&gate);
    CHECK_WAIT(check, other);
    CHECK_STOCK_VERIFY(check, &stock);
    CHECK_STOCK_OK(check, &stock, vram_pool_trim(stock.pool, NULL, NULL)); /* settles it */
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}

/* Where nothing can be held up: late work of the other queue must not be seen. */
static bool used_late(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue, *other;
    vram_addr used, next;

    CHECK_TRY(begin(check, &device, &queue, &other, &stock));
    for (uint32_t round = 0; round < check_rounds(check, 30); round++) {
        CHECK_TAKE(check, &stock, 400000, queue, &used);
        CHECK_WAIT(check, queue); /* the other queue must not overtake the mark */
        if (round % 3 != 0) {
            CHECK_OK(check, vram_use(used, other)); /* what comes until the free counts, too */
            CHECK_WAIT(check, other);
        }
        CHECK_OK(check, vram_queue_fill(other, used, 0xDD, 1, 400000));
        if (round % 3 == 0) {
            CHECK_OK(check, vram_use(used, other));
        }
        CHECK_GIVE(check, &stock, used, queue);
        CHECK_TAKE(check, &stock, 400000, queue, &next);
        CHECK_WAIT(check, queue);
        CHECK_WAIT(check, other);
        CHECK_STOCK_VERIFY(check, &stock);
        CHECK_GIVE(check, &stock, next, queue);
    }
    return true;
}

static bool use_mistakes(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue, *other;
    vram_addr addr, coarse;

    CHECK_TRY(begin(check, &device, &queue, &other, &stock));
    CHECK_TAKE(check, &stock, 4096, queue, &addr);
    CHECK_OK(check, vram_device_alloc(device->device, 1, VRAM_MEMORY_DEVICE, &coarse));
    CHECK_STOCK_REFUSES(check, &stock, vram_use(addr + 512, other), VRAM_ERR_INVALID);
    CHECK_STOCK_REFUSES(check, &stock, vram_use(coarse, other), VRAM_ERR_INVALID);
    CHECK_STOCK_REFUSES(check, &stock, vram_use(0, other), VRAM_ERR_INVALID);
    CHECK_REFUSED(check, vram_use(addr, NULL));
    CHECK_STOCK_REFUSES(check, &stock, vram_pin(addr + 512), VRAM_ERR_INVALID);
    CHECK_STOCK_REFUSES(check, &stock, vram_pin(coarse), VRAM_ERR_INVALID);
    CHECK_STOCK_REFUSES(check, &stock, vram_unpin(addr), VRAM_ERR_INVALID);
    CHECK_GIVE(check, &stock, addr, queue);
    CHECK_STOCK_REFUSES(check, &stock, vram_use(addr, other), VRAM_ERR_INVALID);
    CHECK_STOCK_REFUSES(check, &stock, vram_pin(addr), VRAM_ERR_INVALID);
    CHECK_STOCK_REFUSES(check, &stock, vram_unpin(addr), VRAM_ERR_INVALID);
    vram_queue_destroy(other);
    CHECK_TAKE(check, &stock, 4096, queue, &addr);
    CHECK_STOCK_REFUSES(check, &stock, vram_use(addr, other), VRAM_ERR_STALE);
    CHECK_OK(check, vram_device_free(device->device, coarse));
    return true;
}

/* Pins count; a pinned block outlives its free until the last one goes. */
static bool pinned(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue, *other;
    vram_addr held, next;
    vram_pool_stats stats;

    CHECK_TRY(begin(check, &device, &queue, &other, &stock));
    CHECK_TAKE(check, &stock, 50000, queue, &held);
    CHECK_STOCK_OK(check, &stock, vram_pin(held));
    CHECK_STOCK_OK(check, &stock, vram_pin(held));
    CHECK_GIVE(check, &stock, held, queue);
    CHECK_STOCK_OK(check, &stock, vram_unpin(held));
    CHECK_WAIT(check, queue);
    CHECK_STOCK_OK(check, &stock, vram_pool_trim(stock.pool, NULL, NULL));
    CHECK_TRY(check_stats(check, stock.pool, &stats));
    CHECK_THAT(check, stats.reserved_bytes >= 50000); /* its memory is still there */
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_TAKE(check, &stock, 50000, queue, &next);
        CHECK_THAT(check, next != held);
    }
    CHECK_STOCK_REFUSES(check, &stock, vram_free(held, queue), VRAM_ERR_INVALID);
    CHECK_STOCK_OK(check, &stock, vram_unpin(held));
    CHECK_STOCK_REFUSES(check, &stock, vram_unpin(held), VRAM_ERR_INVALID);
    CHECK_TAKE(check, &stock, 50000, queue, &next); /* now it can come back */
    CHECK_EQUAL(check, next, held);
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}

/* ------------------------------------------------------- queues that come and go */

/* The frees of a queue that ends have all passed, and what it used is free for others. */
static bool queue_ends(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue, *other, *brief;
    vram_addr used, freed, next;
    vram_pool_stats stats;

    CHECK_NEEDS_POOLS(check);
    CHECK_TRY(begin(check, &device, &queue, &other, &stock));
    uint64_t granule = check_pool_granule(device, false), first = 0;
    CHECK_TAKE(check, &stock, 4096, queue, &used);
    CHECK_WAIT(check, queue);
    for (uint32_t round = 0, rounds = check_rounds(check, 30); round < rounds; round++) {
        CHECK_QUEUE(check, device, &brief);
        CHECK_TAKE(check, &stock, granule, brief, &freed);
        CHECK_OK(check, vram_queue_fill(brief, freed, 1, 1, granule));
        CHECK_GIVE(check, &stock, freed, brief);
        CHECK_TAKE(check, &stock, 700, brief, &next);
        CHECK_OK(check, vram_use(used, brief));
        CHECK_GIVE(check, &stock, next, brief);
        if (round + 1 == rounds) { /* the block still is in the stock, which looks at it */
            CHECK_OK(check, vram_queue_fill(brief, used, 0xDD, 1, 4096));
        }
        vram_queue_destroy(brief);
        /* A later queue may get the same native one: it is another queue all the same. */
        CHECK_STATUS(check, vram_alloc(stock.pool, 1, brief, &next), VRAM_ERR_STALE);
        CHECK_STATUS(check, vram_free(used, brief), VRAM_ERR_STALE);
        CHECK_TRY(check_stats(check, stock.pool, &stats));
        first = round == 0 ? stats.reserved_bytes : first;
        CHECK_EQUAL(check, stats.reserved_bytes, first); /* one round's memory, not thirty's */
    }
    CHECK_GIVE(check, &stock, used, queue);
    CHECK_TAKE(check, &stock, granule, queue, &next);
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}

/* A free never fails because memory ran out, on any queue: the runner of faults relies on it. */
static bool unseen_queue(struct check *check) {
    enum { QUEUES = 6 };
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue, *other, *queues[QUEUES];
    vram_addr addrs[QUEUES], next;

    CHECK_TRY(begin(check, &device, &queue, &other, &stock));
    for (uint32_t i = 0; i < QUEUES; i++) {
        CHECK_QUEUE(check, device, &queues[i]);
        CHECK_TAKE(check, &stock, 70000 + i * 4096, queue, &addrs[i]);
    }
    CHECK_WAIT(check, queue);
    for (uint32_t i = 0; i < QUEUES; i++) {
        CHECK_OK(check, vram_queue_fill(queues[i], addrs[i], 0xDD, 1, 70000));
        CHECK_GIVE(check, &stock, addrs[i], queues[i]);
    }
    for (uint32_t i = 0; i < QUEUES; i++) {
        CHECK_TAKE(check, &stock, 70000 + i * 4096, other, &next);
    }
    vram_queue_destroy(queues[0]);
    for (uint32_t i = 1; i < QUEUES; i++) {
        CHECK_WAIT(check, queues[i]);
    }
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}

/* An adopted queue is marked by the freeing thread alone, and its end frees what was freed on
   it. */
static bool adopted(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue, *other, *adopted_queue;
    vram_addr addr, next;
    void *native = NULL;

    CHECK_NEEDS(check, VRAM_CAP_ADOPT);
    CHECK_TRY(begin(check, &device, &queue, &other, &stock));
    CHECK_OK(check, vram_queue_native(queue, &native));
    for (uint32_t round = 0; round < 2; round++) {
        CHECK_OK(check, vram_queue_adopt(device->device, native, &adopted_queue));
        CHECK_TAKE(check, &stock, 80000, adopted_queue, &addr);
        CHECK_OK(check, vram_queue_fill(adopted_queue, addr, 0xDD, 1, 80000));
        CHECK_GIVE(check, &stock, addr, adopted_queue);
        CHECK_TAKE(check, &stock, 80000, other, &next);
        CHECK_OK(check, vram_queue_end(adopted_queue));
        CHECK_STOCK_VERIFY(check, &stock);
        CHECK_STATUS(check, vram_free(next, adopted_queue), VRAM_ERR_STALE);
        CHECK_GIVE(check, &stock, next, other);
    }
    return true;
}

/* ------------------------------------------------------------------- threads */

struct worker {
    struct check_stock *stock;
    struct check_device *device;
    vram_queue *queue; /* shared; NULL: its own */
    uint32_t number, rounds;
    vram_addr *handed; /* one block for the main thread */
    uint32_t *found;   /* read back; host memory that outlives the work */
};

/* Allocates, writes, reads, frees; half of the blocks are freed by another thread. */
static bool work(struct check *check, void *argument) {
    struct worker *worker = argument;
    vram_pool *pool = worker->stock->pool;
    vram_queue *queue = worker->queue;
    vram_addr held[4] = {0};

    if (queue == NULL) {
        CHECK_OK(check, vram_queue_create(worker->device->device, NULL, &queue));
    }
    for (uint32_t i = 0; i < worker->rounds; i++) {
        uint32_t slot = (i * 3 + worker->number) % 4, mark = worker->number << 24 | i;
        uint64_t size = 600 + (uint64_t)(i * 7919 + worker->number * 131) % 90000;
        if (held[slot] != 0) {
            CHECK_OK(check, vram_free(held[slot], queue));
        }
        CHECK_OK(check, vram_alloc(pool, size, queue, &held[slot]));
        CHECK_OK(check, vram_queue_fill(queue, held[slot], mark, 4, 512));
        CHECK_OK(check, vram_queue_download(queue, worker->found, held[slot] + 508, 4));
        CHECK_OK(check, vram_queue_wait(queue, CHECK_DEADLINE_NS));
        CHECK_EQUAL(check, *worker->found, mark);
    }
    for (uint32_t i = 0; i < 3; i++) {
        if (held[i] != 0) {
            CHECK_OK(check, vram_free(held[i], queue));
        }
    }
    *worker->handed = held[3];
    if (worker->queue == NULL) {
        vram_queue_destroy(queue);
    }
    return true;
}

/* What threads had at hand when they ended is not lost, and what they allocated can be freed. */
static bool threads(struct check *check) {
    enum { CREW = 4 };
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue, *other;
    vram_addr left[CREW] = {0};
    vram_pool_stats stats;
    void *words;

    CHECK_TRY(begin(check, &device, &queue, &other, &stock));
    CHECK_TRY(check_host(check, CREW * sizeof(uint32_t), &words));
    for (uint32_t round = 0; round < check_rounds(check, 6); round++) {
        struct worker workers[CREW];
        for (uint32_t i = 0; i < CREW; i++) {
            workers[i] = (struct worker){.stock = &stock,
                                         .device = device,
                                         .queue = i % 2 == 0 ? queue : NULL,
                                         .number = i + 1,
                                         .rounds = check_rounds(check, 60),
                                         .handed = &left[i],
                                         .found = (uint32_t *)words + i};
        }
        CHECK_TRY(check_threads(check, CREW, work, workers, sizeof workers[0]));
        for (uint32_t i = 0; i < CREW; i++) {
            CHECK_OK(check, vram_free(left[i], other));
        }
    }
    CHECK_STOCK_VERIFY(check, &stock);
    CHECK_WAIT(check, other);
    CHECK_WAIT(check, queue);
    CHECK_TRY(check_trim(check, &stock, &stats));
    return true;
}

const struct check_case check_cases_reuse[] = {
    {"reuse.same_queue", "memory freed on a queue comes back to that queue at once", same_queue},
    {"reuse.other_queue", "late work on freed memory never reaches its next owner", other_queue},
    {"reuse.not_before", "no other queue gets memory that unfinished work uses", not_before},
    {"reuse.used_elsewhere",
     "a block that another queue uses is not reused until that queue is done", used_elsewhere},
    {"reuse.used_late", "late work of another queue that uses a block never reaches the next owner",
     used_late},
    {"reuse.use_mistakes", "uses and pins of addresses that are not live blocks are refused",
     use_mistakes},
    {"reuse.pinned", "a pinned block keeps its memory until the last pin is removed", pinned},
    {"reuse.queue_ends", "memory freed on a queue that has ended can be reused by others",
     queue_ends},
    {"reuse.unseen_queue", "a free on a queue that the pool has never seen succeeds", unseen_queue},
    {"reuse.adopted",
     "memory freed on an adopted queue waits for it, and for nothing after its end", adopted},
    {"reuse.threads", "threads that end leave nothing behind, and any thread may free", threads},
    {NULL, NULL, NULL},
};

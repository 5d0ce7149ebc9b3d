/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_transfer: a key-value cache moves from the process that makes it (prefill) to the one that
 * uses it (decode), here on one machine.
 *
 *   kv_transfer [--figures] [--pages N] [--transports tcp]
 *
 * The prefill process opens a region over the pages of its cache and raises the region's mark with
 * every page that is complete. The decode process has asked for all pages beforehand, each with the
 * mark that it needs: a page is pulled as soon as it is complete, and used as soon as it is here.
 * Beside it is the other way: all pages are sent after the last is complete, and then used. What
 * the models would compute is a pause here (STEP_US a page, on both sides).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* usleep and clock_gettime, also with -std=c11 */
#endif
#include <vram/remote.h>
#include <vram/vram.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The first round touches all memory for the first time and is not counted. */
enum { WARM_UP, BY_PAGES, AT_ONCE, ROUNDS };

enum { PAGE_BYTES = 1 << 20, PAGES_MAX = 1024, STEP_US = 4000 };

/* What prefill tells decode, over a pipe; between machines it would be the scheduler's. */
struct offer {
    vram_remote_token token;
    size_t bytes;
    uint8_t address[VRAM_REMOTE_ADDRESS_MAX];
};

struct side {
    vram_context *context;
    vram_queue *queue;
    vram_pool *pool;
    vram_remote *remote;
    vram_addr pages[PAGES_MAX];
};

static uint32_t page_count = 32;
static const char *transports; /* UCX decides */

static void check(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "kv_transfer: %s\n", vram_error_get()->text);
        exit(status == VRAM_ERR_NO_DRIVER || status == VRAM_ERR_UNSUPPORTED ? 77 : 1);
    }
}

static double now_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

/* A device, the network, and a cache of pages in memory that processes on this machine share. */
static void side_open(struct side *side) {
    vram_context_options options = {.size = sizeof options, .backends = "host"};
    vram_remote_options network = {.size = sizeof network, .transports = transports};
    vram_provider provider = {.size = sizeof provider};
    vram_pool_options pool = {.size = sizeof pool};
    vram_device *device;
    check(vram_context_create(&options, &side->context));
    check(vram_device_open(side->context, 0, &device));
    check(vram_queue_create(device, NULL, &side->queue));
    check(vram_remote_open(device, &network, &side->remote));
    if (vram_remote_provider_get(side->remote, &provider) == VRAM_OK) {
        pool.provider = &provider;
    }
    check(vram_pool_create(device, &pool, &side->pool));
    for (uint32_t i = 0; i < page_count; i++) {
        check(vram_alloc(side->pool, PAGE_BYTES, side->queue, &side->pages[i]));
    }
}

static void side_close(struct side *side) {
    check(vram_remote_close(side->remote));
    for (uint32_t i = 0; i < page_count; i++) {
        check(vram_free(side->pages[i], side->queue));
    }
    check(vram_context_destroy(side->context));
}

/* ------------------------------------------------------------------- prefill */

/* Serves rounds: each begins with a byte from the other side. */
static void prefill(int offers, int orders) {
    struct side side = {0};
    struct offer offer = {.bytes = sizeof offer.address};
    vram_remote_region *region;
    char order;
    side_open(&side);
    check(vram_remote_region_open(side.remote, side.pages, page_count, NULL, &region));
    check(vram_remote_token_get(region, &offer.token));
    check(vram_remote_address_get(side.remote, offer.address, &offer.bytes));
    if (write(offers, &offer, sizeof offer) != sizeof offer) {
        exit(1);
    }
    for (uint32_t round = 0; read(orders, &order, 1) == 1; round++) {
        for (uint32_t i = 0; i < page_count; i++) {
            usleep(STEP_US); /* the model computes keys and values */
            check(vram_queue_fill(side.queue, side.pages[i], round * 1000 + i, 4, PAGE_BYTES));
            check(vram_remote_mark(region, side.queue, round * page_count + i + 1));
        }
    }
    check(vram_remote_region_close(region));
    side_close(&side);
    exit(0);
}

/* -------------------------------------------------------------------- decode */

struct times {
    double first, last_arrived, end; /* ms after the start of prefill */
};

/* ms of the clock; written by the thread that completes a get, which then counts it. A wait for the
   get may return before. */
static double arrived[PAGES_MAX];
static atomic_uint arrived_count;

static void page_arrives(void *at, vram_status status) {
    (void)status; /* the wait tells */
    *(double *)at = now_ms();
    atomic_fetch_add(&arrived_count, 1);
}

/* Uses a page: the model attends to it. The contents must be this round's. */
static void page_use(const struct side *side, uint32_t page, uint32_t round) {
    const uint32_t *words = (const uint32_t *)(uintptr_t)side->pages[page];
    for (uint32_t i = 0; i < PAGE_BYTES / 4; i++) {
        if (words[i] != round * 1000 + page) {
            fprintf(stderr, "kv_transfer: page %u is not what prefill wrote\n", page);
            exit(1);
        }
    }
    usleep(STEP_US);
}

/* Pages are pulled as they complete, each with a handle of its own. */
static struct times by_pages(struct side *side, vram_remote_peer *peer, const struct offer *offer,
                             uint32_t round, double start) {
    static vram_async asyncs[PAGES_MAX];
    struct times times = {0};
    atomic_store(&arrived_count, 0);
    for (uint32_t i = 0; i < page_count; i++) {
        vram_remote_copy copy = {.part = i, .addr = side->pages[i], .bytes = PAGE_BYTES};
        vram_remote_transfer options = {.size = sizeof options,
                                        .after = round * page_count + i + 1};
        check(vram_remote_get(peer, &offer->token, &copy, 1, &options, &asyncs[i]));
        check(vram_async_then(&asyncs[i], page_arrives, &arrived[i]));
    }
    for (uint32_t i = 0; i < page_count; i++) {
        check(vram_async_wait(&asyncs[i], VRAM_TIMEOUT_DEFAULT));
        check(vram_async_end(&asyncs[i]));
        times.first = i == 0 ? now_ms() - start : times.first;
        page_use(side, i, round);
    }
    while (atomic_load(&arrived_count) < page_count) {
        usleep(STEP_US);
    }
    times.last_arrived = arrived[page_count - 1] - start;
    times.end = now_ms() - start;
    return times;
}

/* One list of all pages, when the last is complete; then they are used. */
static struct times all_at_once(struct side *side, vram_remote_peer *peer,
                                const struct offer *offer, uint32_t round, double start) {
    static vram_remote_copy copies[PAGES_MAX];
    vram_remote_transfer options = {.size = sizeof options, .after = (round + 1) * page_count};
    struct times times = {0};
    vram_async async;
    for (uint32_t i = 0; i < page_count; i++) {
        copies[i] = (vram_remote_copy){.part = i, .addr = side->pages[i], .bytes = PAGE_BYTES};
    }
    check(vram_remote_get(peer, &offer->token, copies, page_count, &options, &async));
    check(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT));
    check(vram_async_end(&async));
    times.first = times.last_arrived = now_ms() - start;
    for (uint32_t i = 0; i < page_count; i++) {
        page_use(side, i, round);
    }
    times.end = now_ms() - start;
    return times;
}

static void decode(int offers, int orders, bool figures) {
    struct side side = {0};
    struct offer offer;
    struct times times[ROUNDS];
    vram_remote_peer *peer;
    if (read(offers, &offer, sizeof offer) != sizeof offer) {
        exit(77); /* prefill has said why */
    }
    side_open(&side);
    check(vram_remote_peer_open(side.remote, offer.address, offer.bytes, 0, &peer));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        double start = now_ms();
        if (write(orders, "+", 1) != 1) {
            exit(1);
        }
        times[round] =
            (round == BY_PAGES ? by_pages : all_at_once)(&side, peer, &offer, round, start);
    }
    printf("%u pages of 1 MiB, contents equal each time\n", page_count);
    printf("page by page: decode began before the last page had arrived: %s\n",
           times[BY_PAGES].first < times[BY_PAGES].last_arrived ? "yes" : "no");
    printf("page by page was the first to begin: %s\n",
           times[BY_PAGES].first < times[AT_ONCE].first ? "yes" : "no");
    for (uint32_t round = BY_PAGES; figures && round < ROUNDS; round++) {
        printf("%-14s decode begins after %6.1f ms, last page after %6.1f ms, end after %6.1f ms\n",
               round == AT_ONCE ? "all, then use:" : "page by page:", times[round].first,
               times[round].last_arrived, times[round].end);
    }
    check(vram_remote_peer_close(peer));
    side_close(&side);
}

int main(int argc, char **argv) {
    int offers[2], orders[2], status = 0;
    bool figures = false;
    for (int i = 1; i < argc; i++) {
        figures |= strcmp(argv[i], "--figures") == 0;
        if (strcmp(argv[i], "--pages") == 0 && i + 1 < argc) {
            page_count = (uint32_t)atoi(argv[++i]);
        } else if (strcmp(argv[i], "--transports") == 0 && i + 1 < argc) {
            transports = argv[++i];
        }
    }
    if (page_count < 2 || page_count > PAGES_MAX || pipe(offers) || pipe(orders)) {
        fprintf(stderr, "kv_transfer: --pages takes 2 to %d\n", PAGES_MAX);
        return 2;
    }
    pid_t child = fork(); /* before either opens a context */
    if (child == 0) {
        close(offers[0]);
        close(orders[1]);
        prefill(offers[1], orders[0]);
    }
    close(offers[1]);
    close(orders[0]);
    decode(offers[0], orders[1], figures);
    close(orders[1]); /* prefill ends */
    return child < 0 || waitpid(child, &status, 0) != child || status != 0;
}

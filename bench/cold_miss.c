/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cold_miss.c: counts the calls inside the library that a pool's first block takes; see
 * cold_miss.sh.
 *
 * The library is compiled so that each function that was not inlined calls
 * __cyg_profile_func_enter. Prints one line "calls N, driver calls N", then "count address" for
 * each function, most first.
 */
#include <vram/vram.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROOM = 4096 }; /* functions that are told apart; a power of two */

static struct row {
    void *function;
    unsigned long count;
} rows[ROOM];
static bool counting;
static unsigned long calls;

#define PLAIN __attribute__((no_instrument_function))

PLAIN void __cyg_profile_func_enter(void *function, void *site);
PLAIN void __cyg_profile_func_exit(void *function, void *site);

void __cyg_profile_func_enter(void *function, void *site) {
    size_t at = ((uintptr_t)function * UINT64_C(0x9E3779B97F4A7C15)) >> 52;
    (void)site;
    if (!counting) {
        return;
    }
    while (rows[at].function && rows[at].function != function) {
        at = (at + 1) % ROOM;
    }
    rows[at].function = function;
    rows[at].count++;
    calls++;
}

void __cyg_profile_func_exit(void *function, void *site) {
    (void)function, (void)site;
}

static int most_first(const void *a, const void *b) {
    const struct row *one = a, *other = b;
    return one->count < other->count ? 1 : one->count > other->count ? -1 : 0;
}

static void check(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "cold_miss: %s\n", vram_error_get()->text);
        exit(1);
    }
}

int main(void) {
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_addr addr;
    vram_pool_stats stats = {.size = sizeof stats};
    check(vram_context_create(NULL, &context));
    check(vram_device_open(context, 0, &device));
    check(vram_queue_create(device, NULL, &queue));
    check(vram_pool_create(device, NULL, &pool));
    counting = true;
    vram_status status = vram_alloc(pool, UINT64_C(64) << 20, queue, &addr);
    counting = false;
    check(status);
    check(vram_pool_stats_get(pool, &stats));
    printf("calls %lu, driver calls %" PRIu64 "\n", calls,
           stats.driver_creates + stats.driver_maps + stats.driver_accesses + stats.driver_allocs);
    qsort(rows, ROOM, sizeof rows[0], most_first);
    for (size_t i = 0; i < ROOM && rows[i].count; i++) {
        printf("%lu %p\n", rows[i].count, rows[i].function);
    }
    vram_context_destroy(context);
    return 0;
}

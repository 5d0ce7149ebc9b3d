/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blocks.c: host memory of a case, and the numbers and bytes it works with. Nothing here depends on
 * the clock or the machine: a case does the same every time, so that a fault at its n-th call is a
 * fault at the same place.
 */
#include "case.h"

#include <stdlib.h>
#include <string.h>

/* Heads a block; blocks of a case are one list. */
struct block {
    struct block *next;
    max_align_t start[];
};

/* One list for all threads of a case; nothing is freed before the end. */
bool check_host(struct check *check, size_t bytes, void **memory) {
    struct block *block = calloc(1, sizeof *block + (bytes != 0 ? bytes : 1));
    CHECK_THAT(check, block != NULL);
    pthread_mutex_lock(&check->lock);
    block->next = check->blocks;
    check->blocks = block;
    pthread_mutex_unlock(&check->lock);
    *memory = block->start;
    return true;
}

bool check_host_seeded(struct check *check, size_t bytes, uint64_t seed, uint8_t **memory) {
    void *block;
    CHECK_TRY(check_host(check, bytes, &block));
    *memory = block;
    check_seed(*memory, bytes, seed);
    return true;
}

void check_host_end(struct check *check) {
    for (struct block *block = check->blocks, *next; block != NULL; block = next) {
        next = block->next;
        free(block);
    }
    check->blocks = NULL;
}

/* splitmix64: every state gives a good number, so seeds may be small and neighbouring. */
static uint64_t mix(uint64_t number) {
    number = (number ^ (number >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    number = (number ^ (number >> 27)) * UINT64_C(0x94D049BB133111EB);
    return number ^ (number >> 31);
}

void check_seed(uint8_t *to, size_t bytes, uint64_t seed) {
    uint64_t state = mix(seed + 1), word;
    size_t whole = bytes - bytes % sizeof word;
    for (size_t at = 0; at < whole; at += sizeof word) {
        word = mix(state += UINT64_C(0x9E3779B97F4A7C15));
        memcpy(to + at, &word, sizeof word); /* of a known size: a store, no call */
    }
    word = mix(state + UINT64_C(0x9E3779B97F4A7C15));
    memcpy(to + whole, &word, bytes - whole);
}

/* The same numbers in every run of a case, whatever ran before it. */
uint64_t check_random(struct check *check, uint64_t limit) {
    check->random += UINT64_C(0x9E3779B97F4A7C15);
    return mix(check->random) % limit;
}

uint32_t check_rounds(const struct check *check, uint32_t full) {
    uint32_t few = full / 10 < 2 ? 2 : full / 10;
    return check->target->quick && few < full ? few : full;
}

uint64_t check_round_up(uint64_t bytes, uint64_t step) {
    return (bytes + step - 1) / step * step;
}

uint64_t check_granule(const struct check_device *device) {
    return device->info.alloc_granule.known ? device->info.alloc_granule.value : 4096;
}

uint64_t check_pool_granule(const struct check_device *device, bool segments) {
    bool mapped = !segments && check_pools() &&
                  (device->info.caps & device->info.caps_known & VRAM_CAP_VMM) != 0;
    return mapped && device->info.vmm_granule.known ? device->info.vmm_granule.value
                                                    : check_granule(device);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* transfer_world.h: what the tests of transfers share: patterns, and contents read back the plain
   way. */
#ifndef TEST_TRANSFER_WORLD_H
#define TEST_TRANSFER_WORLD_H

#include "byte_units.h"
#include "unit/device_world.h"
#include "vram/transfer.h"

#include <stdlib.h>

#define NS UINT64_C(1)

static inline unsigned char *pattern_of(size_t bytes, unsigned seed) {
    unsigned char *memory = malloc(bytes ? bytes : 1);
    assert_non_null(memory);
    for (size_t i = 0; i < bytes; i++) {
        memory[i] = (unsigned char)((i * 131 + i / 251 + seed * 7) & 0xff);
    }
    return memory;
}

static inline vram_addr memory_of(vram_device *device, uint64_t bytes) {
    vram_addr addr;
    assert_ok(vram_device_alloc(device, bytes, VRAM_MEMORY_DEVICE, &addr));
    return addr;
}

static inline void put(vram_queue *queue, vram_addr to, const void *from, uint64_t bytes) {
    assert_ok(vram_queue_upload(queue, to, from, bytes));
    assert_ok(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
}

static inline void expect_contents(vram_queue *queue, vram_addr from, const void *expected,
                                   uint64_t bytes) {
    void *found = malloc(bytes);
    assert_non_null(found);
    assert_ok(vram_queue_download(queue, found, from, bytes));
    assert_ok(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
    assert_memory_equal(found, expected, bytes);
    free(found);
}

static inline vram_transfer_options by(vram_transfer_strategy strategy) {
    return (vram_transfer_options){.size = sizeof(vram_transfer_options), .strategy = strategy};
}

static inline void expect_result(const vram_async *async, uint64_t expected) {
    uint64_t result = ~expected;
    assert_ok(vram_async_wait(async, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_async_result_get(async, &result));
    assert_int_equal(result, expected);
}

/* How many calls of a kind the simulated driver remembers. */
static inline unsigned calls_of(struct rig *rig, vram_sim_call call) {
    unsigned found = 0;
    vram_sim_entry entry;
    for (uint64_t back = 0; vram_sim_journal_get(rig->context, back, &entry) == VRAM_OK; back++) {
        found += entry.call == call;
    }
    vram_error_clear();
    return found;
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_flags.h: pools of tests that run under every pool flag.
 *
 * TEST_POOL_FLAGS ("deterministic", "zero_free poison") names flags that every pool of device
 * memory gets in addition to those of the test. CTest sets it; a test whose expectation differs
 * asks pool_has.
 */
#ifndef TEST_POOL_FLAGS_H
#define TEST_POOL_FLAGS_H

#include "vram/pool.h"

#include <stdlib.h>
#include <string.h>

static inline uint32_t pool_flags(void) {
    static const struct {
        const char *name;
        uint32_t flag;
    } rows[] = {{"deterministic", VRAM_POOL_DETERMINISTIC},
                {"segments", VRAM_POOL_SEGMENTS},
                {"zero_alloc", VRAM_POOL_ZERO_ALLOC},
                {"zero_free", VRAM_POOL_ZERO_FREE},
                {"poison", VRAM_POOL_POISON},
                {"red_zones", VRAM_POOL_RED_ZONES},
                {"tracked", VRAM_POOL_TRACKED}};
    const char *wanted = getenv("TEST_POOL_FLAGS");
    uint32_t flags = 0;
    for (size_t i = 0; wanted && i < sizeof rows / sizeof rows[0]; i++) {
        flags |= strstr(wanted, rows[i].name) ? rows[i].flag : 0;
    }
    return flags;
}

/* Whether pools have one of these flags by TEST_POOL_FLAGS; and whether pooling is switched off. */
static inline bool pool_has(uint32_t flags) {
    return (pool_flags() & flags) != 0;
}
static inline bool pooling_is_off(void) {
    const char *pool = getenv("VRAM_POOL");
    return pool && strcmp(pool, "off") == 0;
}

/* For a test whose expectation does not hold under these flags, or with pooling off: says why, and
   skips it. */
#define SKIP_UNDER(flags, off, reason)                                                             \
    do {                                                                                           \
        if (pool_has(flags) || ((off) && pooling_is_off())) {                                      \
            print_message("not under this flag: %s\n", reason);                                    \
            skip();                                                                                \
        }                                                                                          \
    } while (0)

enum {
    TEST_POOL_GUARDS =
        VRAM_POOL_ZERO_ALLOC | VRAM_POOL_ZERO_FREE | VRAM_POOL_POISON | VRAM_POOL_RED_ZONES
};

/* vram_pool_create with the flags. */
static inline vram_status test_pool_create(vram_device *device, const vram_pool_options *options,
                                           vram_pool **pool) {
    vram_pool_options flagged = {.size = sizeof flagged};
    if (options) {
        flagged = *options;
    }
    if (!flagged.provider && flagged.kind == VRAM_MEMORY_DEVICE) {
        flagged.flags |= pool_flags();
    }
    return vram_pool_create(device, &flagged, pool);
}

#endif

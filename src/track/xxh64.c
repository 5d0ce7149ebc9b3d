/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xxh64.c: see xxh64.h, and https://github.com/Cyan4973/xxHash for the definition.
 */
#include "track/xxh64.h"

#include <string.h>

#define PRIME_1 UINT64_C(0x9E3779B185EBCA87)
#define PRIME_2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define PRIME_3 UINT64_C(0x165667B19E3779F9)
#define PRIME_4 UINT64_C(0x85EBCA77C2B2AE63)
#define PRIME_5 UINT64_C(0x27D4EB2F165667C5)

static uint64_t rotate_left(uint64_t value, unsigned by) {
    return value << by | value >> (64 - by);
}

/* Little-endian, on any machine; a load where that is the machine's own order. */
static uint64_t read_number(const uint8_t *at, unsigned bytes) {
    uint64_t value = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(&value, at, bytes);
#else
    for (unsigned i = bytes; i-- > 0;) {
        value = value << 8 | at[i];
    }
#endif
    return value;
}

static uint64_t mix_sum(uint64_t sum, uint64_t input) {
    return rotate_left(sum + input * PRIME_2, 31) * PRIME_1;
}

/* All whole stripes of 32 bytes. */
static uint64_t mix_stripes(const uint8_t **at, size_t *left, uint64_t seed) {
    uint64_t sums[4] = {seed + PRIME_1 + PRIME_2, seed + PRIME_2, seed, seed - PRIME_1};
    for (; *left >= 32; *at += 32, *left -= 32) {
        for (size_t i = 0; i < 4; i++) {
            sums[i] = mix_sum(sums[i], read_number(*at + 8 * i, 8));
        }
    }
    uint64_t hash = rotate_left(sums[0], 1) + rotate_left(sums[1], 7) + rotate_left(sums[2], 12) +
                    rotate_left(sums[3], 18);
    for (unsigned i = 0; i < 4; i++) {
        hash = (hash ^ mix_sum(0, sums[i])) * PRIME_1 + PRIME_4;
    }
    return hash;
}

uint64_t vr_xxh64(const void *data, size_t bytes, uint64_t seed) {
    const uint8_t *at = data;
    size_t left = bytes;
    uint64_t hash = bytes >= 32 ? mix_stripes(&at, &left, seed) : seed + PRIME_5;
    hash += bytes;
    for (; left >= 8; at += 8, left -= 8) {
        hash = rotate_left(hash ^ mix_sum(0, read_number(at, 8)), 27) * PRIME_1 + PRIME_4;
    }
    for (; left >= 4; at += 4, left -= 4) {
        hash = rotate_left(hash ^ read_number(at, 4) * PRIME_1, 23) * PRIME_2 + PRIME_3;
    }
    for (; left > 0; at++, left--) {
        hash = rotate_left(hash ^ *at * PRIME_5, 11) * PRIME_1;
    }
    hash = (hash ^ hash >> 33) * PRIME_2;
    hash = (hash ^ hash >> 29) * PRIME_3;
    return hash ^ hash >> 32;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chunk_sum.c: the checksums of trace files: CRC-32 and XXH64.
 */
#include "chunk_reader.h"

#define PRIME_1 UINT64_C(0x9E3779B185EBCA87)
#define PRIME_2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define PRIME_3 UINT64_C(0x165667B19E3779F9)
#define PRIME_4 UINT64_C(0x85EBCA77C2B2AE63)
#define PRIME_5 UINT64_C(0x27D4EB2F165667C5)

uint32_t chunk_crc(const uint8_t *data, size_t bytes) {
    static uint32_t table[256];
    uint32_t crc = UINT32_MAX;
    for (uint32_t i = 0; table[255] == 0 && i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++) {
            value = value >> 1 ^ (value & 1 ? UINT32_C(0xEDB88320) : 0);
        }
        table[i] = value;
    }
    for (size_t i = 0; i < bytes; i++) {
        crc = crc >> 8 ^ table[(crc ^ data[i]) & 255];
    }
    return ~crc;
}

static uint64_t number_at(const uint8_t *from, unsigned bytes) {
    uint64_t value = 0;
    for (unsigned i = bytes; i-- > 0;) {
        value = value << 8 | from[i];
    }
    return value;
}

static uint64_t rotate(uint64_t value, unsigned by) {
    return value << by | value >> (64 - by);
}

static uint64_t mixed(uint64_t sum, uint64_t input) {
    return rotate(sum + input * PRIME_2, 31) * PRIME_1;
}

uint64_t chunk_xxh64(const uint8_t *data, size_t bytes, uint64_t seed) {
    uint64_t four[4] = {seed + PRIME_1 + PRIME_2, seed + PRIME_2, seed, seed - PRIME_1};
    uint64_t hash = seed + PRIME_5;
    size_t at = 0;
    for (; at + 32 <= bytes; at += 32) {
        for (size_t i = 0; i < 4; i++) {
            four[i] = mixed(four[i], number_at(data + at + 8 * i, 8));
        }
    }
    if (bytes >= 32) {
        hash = rotate(four[0], 1) + rotate(four[1], 7) + rotate(four[2], 12) + rotate(four[3], 18);
        for (unsigned i = 0; i < 4; i++) {
            hash = (hash ^ mixed(0, four[i])) * PRIME_1 + PRIME_4;
        }
    }
    hash += bytes;
    for (; at + 8 <= bytes; at += 8) {
        hash = rotate(hash ^ mixed(0, number_at(data + at, 8)), 27) * PRIME_1 + PRIME_4;
    }
    for (; at + 4 <= bytes; at += 4) {
        hash = rotate(hash ^ number_at(data + at, 4) * PRIME_1, 23) * PRIME_2 + PRIME_3;
    }
    for (; at < bytes; at++) {
        hash = rotate(hash ^ data[at] * PRIME_5, 11) * PRIME_1;
    }
    hash = (hash ^ hash >> 33) * PRIME_2;
    hash = (hash ^ hash >> 29) * PRIME_3;
    return hash ^ hash >> 32;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crc32.c: see crc32.h. Eight bytes a step by eight tables, which are made at the first use: a
 * chunk of a trace is 64 KiB, and who writes its last record waits for this.
 */
#include "track/crc32.h"

#include "base/lock.h"

#include <string.h>

static uint32_t tables[8][256];
static struct vr_once made = VR_ONCE_INIT;

static void make(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xEDB88320) : 0);
        }
        tables[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++) {
        for (int k = 1; k < 8; k++) {
            uint32_t before = tables[k - 1][i];
            tables[k][i] = before >> 8 ^ tables[0][before & 255];
        }
    }
}

/* Four bytes, the first the lowest, on any machine. */
static uint32_t four(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

uint32_t vr_crc32(uint32_t crc, const void *data, size_t bytes) {
    const uint8_t *at = data;
    vr_once(&made, make);
    crc = ~crc;
    for (; bytes >= 8; bytes -= 8, at += 8) {
        uint32_t low = crc ^ four(at), high = four(at + 4);
        crc = tables[7][low & 255] ^ tables[6][low >> 8 & 255] ^ tables[5][low >> 16 & 255] ^
              tables[4][low >> 24] ^ tables[3][high & 255] ^ tables[2][high >> 8 & 255] ^
              tables[1][high >> 16 & 255] ^ tables[0][high >> 24];
    }
    for (; bytes > 0; bytes--) {
        crc = crc >> 8 ^ tables[0][(crc ^ *at++) & 255];
    }
    return ~crc;
}

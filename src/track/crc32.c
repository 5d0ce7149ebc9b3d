/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crc32.c: see crc32.h. Eight bytes per step with eight tables, which are computed at the first
 * use. The speed matters: a chunk of a trace is 64 KiB, and the thread that writes its last record
 * waits for this.
 */
#include "track/crc32.h"

#include "base/lock.h"

#include <string.h>

static uint32_t tables[8][256];
static struct vr_once made = VR_ONCE_INIT;

static void tables_make(void) {
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

/* Reads four bytes as a little-endian number, on any machine. */
static uint32_t read_u32(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

uint32_t vr_crc32(uint32_t crc, const void *data, size_t bytes) {
    const uint8_t *at = data;
    vr_once(&made, tables_make);
    crc = ~crc;
    for (; bytes >= 8; bytes -= 8, at += 8) {
        uint32_t low = crc ^ read_u32(at), high = read_u32(at + 4);
        crc = tables[7][low & 255] ^ tables[6][low >> 8 & 255] ^ tables[5][low >> 16 & 255] ^
              tables[4][low >> 24] ^ tables[3][high & 255] ^ tables[2][high >> 8 & 255] ^
              tables[1][high >> 16 & 255] ^ tables[0][high >> 24];
    }
    for (; bytes > 0; bytes--) {
        crc = crc >> 8 ^ tables[0][(crc ^ *at++) & 255];
    }
    return ~crc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* crc32.h: CRC-32 as in gzip and PNG (polynomial 0xEDB88320). */
#ifndef VR_CRC32_H
#define VR_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Extends `crc`, the CRC of the data so far, by `bytes` more bytes; start with 0. */
uint32_t vr_crc32(uint32_t crc, const void *data, size_t bytes);

#endif

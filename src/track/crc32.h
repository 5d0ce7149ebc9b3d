/* SPDX-License-Identifier: Apache-2.0 */
/* crc32.h: CRC-32 as gzip and PNG have it (polynomial 0xEDB88320). */
#ifndef VR_CRC32_H
#define VR_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* The CRC of what `crc` is the CRC of, and `bytes` more; 0 begins. */
uint32_t vr_crc32(uint32_t crc, const void *data, size_t bytes);

#endif

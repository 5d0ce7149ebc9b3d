/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xxh64.h: XXH64, the checksum of chunks in a trace: a chunk of 64 KiB takes some microseconds.
 */
#ifndef VR_XXH64_H
#define VR_XXH64_H

#include <stddef.h>
#include <stdint.h>

uint64_t vr_xxh64(const void *data, size_t bytes, uint64_t seed);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unzstd.h: zstd'd bytes made plain. unzstd_zstd.c does it; a build without zstd has unzstd_none.c,
 * in which unzstd_create always gives NULL. All as in inflate.h.
 */
#ifndef REPLAY_UNZSTD_H
#define REPLAY_UNZSTD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct unzstd;

extern const bool unzstd_built;

struct unzstd *unzstd_create(void);
void unzstd_destroy(struct unzstd *unzstd);
bool unzstd_step(struct unzstd *unzstd, const uint8_t *from, size_t *from_bytes, uint8_t *to,
                 size_t *to_bytes);
bool unzstd_whole(const struct unzstd *unzstd);

#endif

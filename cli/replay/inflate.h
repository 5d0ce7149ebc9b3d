/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inflate.h: gzip'd bytes made plain. inflate_zlib.c does it; a build without zlib has
 * inflate_none.c, in which inflater_create always gives NULL.
 */
#ifndef REPLAY_INFLATE_H
#define REPLAY_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct inflater;

/* Whether this build reads gzip at all. */
extern const bool inflate_built;

/* NULL: no memory, or not built. */
struct inflater *inflater_create(void);
void inflater_destroy(struct inflater *inflater);

/*
 * Takes from `from` and gives to `to`; the two counts hold what is there and are set to what was
 * taken and given. False when the data is broken.
 */
bool inflater_step(struct inflater *inflater, const uint8_t *from, size_t *from_bytes, uint8_t *to,
                   size_t *to_bytes);

/* Whether what was taken so far ends at the end of a gzip member: a file may end here. */
bool inflater_whole(const struct inflater *inflater);

#endif

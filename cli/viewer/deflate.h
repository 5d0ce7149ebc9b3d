/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deflate.h: bytes made gzip. deflate_zlib.c does it; a build without zlib has deflate_none.c, in
 * which deflater_create always gives NULL.
 */
#ifndef VIEWER_DEFLATE_H
#define VIEWER_DEFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct deflater;

/* Whether this build writes gzip at all. */
extern const bool deflate_built;

/* NULL: no memory, or not built. */
struct deflater *deflater_create(void);
void deflater_destroy(struct deflater *deflater);

/*
 * Takes from `from` and gives to `to`; the two counts hold what is there and are set to what was
 * taken and given. With `end` nothing more follows, and *done is set once all was given. False when
 * it cannot.
 */
bool deflater_step(struct deflater *deflater, const uint8_t *from, size_t *from_bytes, uint8_t *to,
                   size_t *to_bytes, bool end, bool *done);

#endif

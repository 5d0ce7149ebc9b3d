/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inflate_none.c: see inflate.h; this build has no zlib.
 */
#include "inflate.h"

const bool inflate_built = false;

struct inflater *inflater_create(void) {
    return NULL;
}

void inflater_destroy(struct inflater *inflater) {
    (void)inflater;
}

bool inflater_step(struct inflater *inflater, const uint8_t *from, size_t *from_bytes, uint8_t *to,
                   size_t *to_bytes) {
    (void)inflater, (void)from, (void)from_bytes, (void)to, (void)to_bytes;
    return false;
}

bool inflater_whole(const struct inflater *inflater) {
    (void)inflater;
    return false;
}

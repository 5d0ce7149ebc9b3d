/* SPDX-License-Identifier: Apache-2.0 */
/* deflate_none.c: a build without zlib; see deflate.h. */
#include "deflate.h"

const bool deflate_built = false;

struct deflater *deflater_create(void) {
    return NULL;
}

void deflater_destroy(struct deflater *deflater) {
    (void)deflater;
}

bool deflater_step(struct deflater *deflater, const uint8_t *from, size_t *from_bytes, uint8_t *to,
                   size_t *to_bytes, bool end, bool *done) {
    (void)deflater, (void)from, (void)to, (void)end, (void)done;
    *from_bytes = *to_bytes = 0;
    return false;
}

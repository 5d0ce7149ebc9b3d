/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unzstd_none.c: see unzstd.h; this build has no zstd.
 */
#include "unzstd.h"

const bool unzstd_built = false;

struct unzstd *unzstd_create(void) {
    return NULL;
}

void unzstd_destroy(struct unzstd *unzstd) {
    (void)unzstd;
}

bool unzstd_step(struct unzstd *unzstd, const uint8_t *from, size_t *from_bytes, uint8_t *to,
                 size_t *to_bytes) {
    (void)unzstd, (void)from, (void)from_bytes, (void)to, (void)to_bytes;
    return false;
}

bool unzstd_whole(const struct unzstd *unzstd) {
    (void)unzstd;
    return false;
}

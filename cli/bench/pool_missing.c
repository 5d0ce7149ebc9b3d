/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_missing.c: stands in for pool_entry.c in a build without pools: the peers are measured alone.
 */
#include "bench/contest.h"

#include <stdio.h>

static bool open_entry(struct entry *entry) {
    snprintf(entry->reason, sizeof entry->reason, "this build has no pools");
    return false;
}

static void close_entry(struct entry *entry) {
    (void)entry;
}

const struct allocator allocator_pool = {.open = open_entry, .close = close_entry};

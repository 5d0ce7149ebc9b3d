/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history_ask.c: what a history is asked once it is whole; see history.h.
 */
#include "history.h"

#include <string.h>

static uint64_t more(uint64_t one, uint64_t other) {
    return one > UINT64_MAX - other ? UINT64_MAX : one + other;
}

bool history_hit_rate(const struct history *history, uint64_t *hits, uint64_t *misses) {
    bool known = false;
    *hits = *misses = 0;
    for (size_t i = 0; i < history->pool_count; i++) {
        if (history->pools[i].sampled) {
            known = true;
            *hits = more(*hits, history->pools[i].last.hits);
            *misses = more(*misses, history->pools[i].last.misses);
        }
    }
    return known && (*hits > 0 || *misses > 0);
}

const vram_transfer_stats *history_transfers(const struct history *history, size_t direction,
                                             size_t route) {
    const vram_transfer_stats *sum = &history->transfers[direction][route];
    return sum->operations > 0 ? sum : NULL;
}

/* ---------------------------------------------------------------------- growth */

/* While a model is loaded everything grows. Where memory comes and goes meanwhile, what only comes
   is worth a look. */
static bool comes_and_goes(const struct history *history, const struct growth_span *span) {
    uint64_t allocs = 0, frees = 0;
    for (uint32_t i = span->from; i <= span->to; i++) {
        allocs += history->slices[i].allocs;
        frees += history->slices[i].frees;
    }
    return frees * 2 >= allocs;
}

static bool is_worse(const struct history_growth *one, const struct history_growth *other) {
    return one->span.rises != other->span.rises ? one->span.rises > other->span.rises
                                                : one->span.blocks > other->span.blocks;
}

size_t history_find_growth(const struct history *history, struct history_growth *list,
                           size_t most) {
    size_t count = 0;
    for (size_t i = 0; i < history->group_count; i++) {
        struct history_growth found = {.group = &history->groups[i]};
        if (!growth_find(&found.group->growth, (uint32_t)history->slice_count, &found.span) ||
            !comes_and_goes(history, &found.span)) {
            continue;
        }
        size_t at = count;
        while (at > 0 && is_worse(&found, &list[at - 1])) {
            at--;
        }
        if (at == most) {
            continue;
        }
        count += count < most;
        memmove(list + at + 1, list + at, (count - 1 - at) * sizeof *list);
        list[at] = found;
    }
    return count;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history.h: what a trace adds up to, from one pass over its events.
 *
 * What was live at the peak is known without a copy: every new peak raises `epoch`, and a group
 * keeps what it had then when it is changed for the first time after it. Memory is bounded by what
 * was live at once, of which HISTORY_BLOCKS_MAX blocks are the most, and by the limits below.
 */
#ifndef REPORT_HISTORY_H
#define REPORT_HISTORY_H

#include "replay/pool_lists.h"
#include "report_input.h"
#include "site_growth.h"

#include <vram/transfer.h>

enum {
    HISTORY_BLOCKS_MAX = 1 << 22, /* live at once */
    HISTORY_LOST_MAX =
        1 << 16, /* blocks kept that were lost with their pool; further ones are only counted */
    HISTORY_GROUPS_MAX = 1 << 16, /* pairs of tag and stack; what is more shares the last */
    HISTORY_POOLS_MAX = 256,      /* what is more shares the last */
    HISTORY_SLICES = 64,          /* of the timeline, at most */
    HISTORY_SIZES = 64,           /* by power of two */
    HISTORY_MARKS_MAX = 32,       /* kept; the rest is counted */
    HISTORY_STATUSES_MAX = 16,
    HISTORY_DIRECTIONS = VRAM_TRANSFER_ANY + 1, /* the last: of no direction that is known */
    HISTORY_ROUTES = VRAM_ROUTE_ANY + 1         /* the same */
};

/* Blocks with one tag and one stack. */
struct history_group {
    uint32_t tag_number, stack; /* of the recording; 0: none */
    const char *tag;
    uint64_t bytes, blocks;           /* live */
    uint64_t lost_bytes, lost_blocks; /* live when their pool ended */
    uint64_t peak_bytes, peak_blocks; /* at the peak, once history_finish was called */
    uint64_t epoch;
    uint64_t allocs, alloc_bytes; /* in all */
    uint64_t brief;               /* freed within HISTORY_BRIEF_NS */
    uint64_t next;                /* in its chain, and 1; 0: the last */
    uint64_t most_blocks;         /* live at once */
    struct growth growth;
};

#define HISTORY_BRIEF_NS UINT64_C(10000000)
#define HISTORY_OLD_NS   UINT64_C(60000000000)

struct history_pool {
    uint64_t handle;
    char name[64];
    uint64_t allocs, frees, refusals;
    uint64_t bytes, peak_bytes; /* live, as asked for */
    bool begun, ended, sampled;
    struct recorded_sample last; /* of it, when it was looked at last */
    uint64_t reserved;           /* what it holds: as in `last`, but never less than `bytes` */
    uint64_t peak_reserved;
};

struct history_block {
    uint64_t id, bytes, held, addr, time_ns, thread, queue;
    uint32_t group, pool;
    const char *name; /* "" when it has none */
    bool lost;        /* its pool has ended before it was freed */
};

/* A part of the time. */
struct history_slice {
    bool used;
    uint64_t live, peak;                 /* bytes at its end, and most */
    uint64_t reserved, reserved_last;    /* most that pools held, and at its end; 0: not known */
    uint64_t cached, free, largest_free; /* of all pools, at the last look; 0: none */
    bool sampled;
    double scattered; /* worst of 1 - largest / free of any pool */
    uint64_t allocs, frees;
};

struct history_mark {
    uint64_t time_ns;
    char text[64];
};

struct history {
    char name[TRACE_NAME_MAX];
    enum event_format format;
    enum recording_end end;
    bool partial;                         /* something is not known: */
    char missing[400];                    /* what, in a sentence */
    uint64_t lost_events, missing_chunks; /* not written; overwritten by a ring */
    uint64_t events, duration_ns;
    uint64_t allocs, frees, resizes, refusals;
    uint64_t strangers;   /* frees of blocks from before the trace */
    uint64_t alloc_bytes; /* in all */
    uint64_t live_bytes, live_blocks, first_bytes, first_blocks;
    uint64_t lost_bytes, lost_blocks;       /* live when their pool ended, and never freed */
    uint64_t earlier_bytes, earlier_blocks; /* live before the first event, of those above */
    uint64_t peak_bytes, peak_blocks, peak_ns, epoch;
    uint64_t live_held, peak_held; /* the same with rounding, each at its own time */
    bool sampled;                  /* a pool has been looked at, */
    bool rough;                    /* and only what it holds is known, not how */
    uint64_t reserved;             /* what all pools hold now; see history_pool.reserved */
    uint64_t peak_reserved;        /* most of it since the first look; 0: there was none */
    uint64_t largest_bytes;        /* of one request */
    uint64_t small;                /* requests below 512 bytes */
    uint64_t brief;                /* blocks freed within HISTORY_BRIEF_NS */
    uint64_t sizes[HISTORY_SIZES]; /* requests of 2^i bytes up to the next power */
    double worst_scattered;        /* with at least a tenth of what is held free */
    double worst_pressure;         /* reserved / limit of any pool; 0: no limit was known */
    double worst_idle;             /* (cached + free) / reserved of all pools */
    uint64_t worst_idle_bytes;
    struct {
        int status;
        uint64_t count, bytes;
    } statuses[HISTORY_STATUSES_MAX];
    size_t status_count;
    struct history_group *groups;
    size_t group_count, group_capacity;
    uint32_t *chains; /* groups by hash, and 1 */
    struct history_pool *pools;
    size_t pool_count;
    struct history_block *blocks; /* by slot; id UINT64_MAX and bytes 0: not used */
    bool *used;
    uint32_t *unused;
    uint32_t block_capacity, block_slots, unused_count;
    struct trace_ids *ids;
    struct pool_lists by_pool; /* live blocks */
    struct history_slice slices[HISTORY_SLICES];
    uint64_t slice_ns; /* of one */
    size_t slice_count;
    struct history_mark marks[HISTORY_MARKS_MAX];
    uint64_t mark_count;
    uint64_t transfer_count;
    vram_transfer_stats transfers[HISTORY_DIRECTIONS][HISTORY_ROUTES]; /* only what a trace tells */
    char problem[TRACE_PROBLEM_MAX];
};

/* Whether it has all events: else something more may have been freed, or allocated. */
static inline bool history_is_whole(const struct history *history) {
    return history->end == RECORDING_ENDED && history->lost_events == 0;
}

/* False: no memory. history_free is due either way. */
bool history_begin(struct history *history, const char *name);

/* One event; false with the problem set when it cannot be. */
bool history_add(struct history *history, const struct recorded *event);

/* Call before each event of a recording: takes over what a ring without its beginning says was live
   before. */
void history_note_first(struct history *history, const struct recording *recording);

/* Behind the last event. */
void history_finish(struct history *history);

/* Who sees the events of a file, too; add is false when memory ran out. */
struct event_sink {
    bool (*add)(void *user, const struct recorded *event);
    void *user;
};

/* Reads a whole file, which stays open: stacks are asked of it. `sink` may be NULL. */
bool history_read(struct history *history, struct report_input *input,
                  const struct event_sink *sink);

/* Groups whose blocks grew steadily; those with the most rises first, `most` at most. How many. */
struct history_growth {
    const struct history_group *group;
    struct growth_span span;
};
size_t history_find_growth(const struct history *history, struct history_growth *list, size_t most);

/* Whether no memory was ever asked for. */
static inline bool history_is_empty(const struct history *history) {
    return history->allocs == 0 && history->peak_blocks == 0 && history->refusals == 0;
}

/* Whether all pools' hits and misses are known, and their rate. */
bool history_hit_rate(const struct history *history, uint64_t *hits, uint64_t *misses);

/* Transfers of one direction and one route, with bytes_per_second set: the bytes over their own
   times added up, as if there had been one at a time. NULL: there were none. Numbers from 0 to
   those above. */
const vram_transfer_stats *history_transfers(const struct history *history, size_t direction,
                                             size_t route);

void history_free(struct history *history);

#endif

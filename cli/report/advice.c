/* SPDX-License-Identifier: Apache-2.0 */
/*
 * advice.c: see advice.h. A rule looks at the history and fills an advice, or says that it does not
 * apply.
 */
#include "advice.h"

#include <vram/vram.h>

#include <inttypes.h>
#include <string.h>

enum { ENOUGH_ALLOCS = 1000 }; /* below which rates say nothing */

#define MIB (UINT64_C(1) << 20)

const char *advice_weight_name(enum advice_weight weight) {
    static const char *const names[] = {"note", "warn", "bad"};
    return names[weight];
}

static double percent(uint64_t part, uint64_t whole) {
    return whole > 0 ? (double)part / (double)whole * 100 : 0;
}

static bool on_leaks(const struct history *history, struct advice *advice) {
    char size[VRAM_SIZE_TEXT_MAX];
    uint64_t blocks = history->live_blocks + history->lost_blocks;
    if (blocks == 0) {
        return false;
    }
    advice->weight = history->end == RECORDING_ENDED ? ADVICE_WARN : ADVICE_NOTE;
    snprintf(advice->found, sizeof advice->found,
             "%" PRIu64 " block%s, %s, live when %sthe trace %s", blocks, blocks == 1 ? "" : "s",
             vram_size_format(history->live_bytes + history->lost_bytes, size),
             history->lost_blocks > 0 ? "their pool or " : "",
             history->end == RECORDING_ENDED ? "ended" : "broke off");
    advice->mend = "`vram report --leaks FILE` lists them by tag and stack; a scope (vram/scope.h) "
                   "frees what was allocated in it however it ends";
    return true;
}

static bool on_refusals(const struct history *history, struct advice *advice) {
    char size[VRAM_SIZE_TEXT_MAX];
    if (history->refusals == 0) {
        return false;
    }
    advice->weight = ADVICE_BAD;
    snprintf(advice->found, sizeof advice->found,
             "%" PRIu64 " allocation%s refused, with %s first, the largest of %s",
             history->refusals, history->refusals == 1 ? " was" : "s were",
             vram_status_name((vram_status)history->statuses[0].status),
             vram_size_format(history->statuses[0].bytes, size));
    advice->mend = "vram_oom_report_get says why each failed and which setting would help; "
                   "vram_oom_callback_add lets the program free memory before a request fails";
    return true;
}

/* S4: "High memory usage: check for long-lived buffer references." */
static bool on_long_lived(const struct history *history, struct advice *advice) {
    uint64_t bytes = 0, blocks = 0;
    char size[VRAM_SIZE_TEXT_MAX];
    for (uint32_t i = 0; i < history->block_slots; i++) {
        if (history->used[i] && !history->blocks[i].lost &&
            history->duration_ns - history->blocks[i].time_ns > HISTORY_OLD_NS) {
            bytes += history->blocks[i].bytes;
            blocks++;
        }
    }
    if (blocks == 0 || bytes < history->peak_bytes / 4) {
        return false;
    }
    advice->weight = ADVICE_NOTE;
    snprintf(advice->found, sizeof advice->found,
             "%" PRIu64 " blocks, %s, were older than a minute at the end, %.0f %% of the peak",
             blocks, vram_size_format(bytes, size), percent(bytes, history->peak_bytes));
    advice->mend =
        "see who holds them (by tag and stack above): weights may live that long, results of a "
        "step should not; vram_pool_sleep releases their memory while they are not used";
    return true;
}

static bool on_pressure(const struct history *history, struct advice *advice) {
    if (history->worst_pressure <= 0.7) {
        return false;
    }
    advice->weight = history->worst_pressure > 0.9 ? ADVICE_BAD : ADVICE_WARN;
    snprintf(advice->found, sizeof advice->found, "a pool reached %.0f %% of what it may hold",
             history->worst_pressure * 100);
    advice->mend = "vram_pool_watch_begin tells the program at 0.7 and 0.9; vram_health cleans up; "
                   "vram_monitor_begin does both at intervals";
    return true;
}

/* S4: "Consider more frequent emergency cleanup. Reduce pool size limits." */
static bool on_idle(const struct history *history, struct advice *advice) {
    char size[VRAM_SIZE_TEXT_MAX];
    if (history->worst_idle < 0.3 || history->worst_idle_bytes < 64 * MIB) {
        return false;
    }
    advice->weight = ADVICE_WARN;
    snprintf(advice->found, sizeof advice->found,
             "at one time %.0f %% of what pools held, %s, was cached or free",
             history->worst_idle * 100, vram_size_format(history->worst_idle_bytes, size));
    advice->mend = "call vram_pool_trim (VRAM_TRIM_RARE) in the program's loop to release what it "
                   "does not need, or vram_device_trim to release all at once; VRAM_CACHED_LIMIT "
                   "or VRAM_POOL_LIMIT limits it";
    return true;
}

/* S4: "Monitor fragmentation levels." */
static bool on_fragmentation(const struct history *history, struct advice *advice) {
    bool high = history->worst_scattered >= 0.5;
    if (history->worst_scattered < 0.25) {
        return false;
    }
    advice->weight = high ? ADVICE_WARN : ADVICE_NOTE;
    snprintf(advice->found, sizeof advice->found,
             "fragmentation was %s: the largest free piece was %.0f %% of the free memory",
             high ? "high" : "medium", (1 - history->worst_scattered) * 100);
    advice->mend = "on a device with VMM (see `vram info`) the pool moves free memory together; on "
                   "others, batches (vram/batch.h) put blocks of the same lifetime side by side, "
                   "and vram_pool_trim (VRAM_TRIM_CACHES) merges cached blocks";
    return true;
}

/* S4: "Use batch operations for related work." */
static bool on_churn(const struct history *history, struct advice *advice) {
    const struct history_group *most = NULL;
    char size[VRAM_SIZE_TEXT_MAX];
    if (history->allocs < ENOUGH_ALLOCS || history->peak_bytes == 0 ||
        history->alloc_bytes / 20 < history->peak_bytes) {
        return false;
    }
    for (size_t i = 0; i < history->group_count; i++) {
        const struct history_group *group = &history->groups[i];
        most = most == NULL || group->alloc_bytes > most->alloc_bytes ? group : most;
    }
    advice->weight = ADVICE_NOTE;
    bool tagged = most != NULL && most->tag[0] != 0;
    snprintf(
        advice->found, sizeof advice->found,
        "%s were allocated in all, %.0f times the peak, and %.0f %% of the blocks lived less than "
        "10 ms%s%.64s",
        vram_size_format(history->alloc_bytes, size),
        (double)history->alloc_bytes / (double)history->peak_bytes,
        percent(history->brief, history->allocs), tagged ? "; most bytes had the tag " : "",
        tagged ? most->tag : "");
    advice->mend = "keep the buffers that every step needs: a named buffer (vram/named.h), or a "
                   "batch for buffers of the same lifetime (vram/batch.h)";
    return true;
}

/* S4: "Avoid very small or very large buffer requests." */
static bool on_small(const struct history *history, struct advice *advice) {
    if (history->allocs < ENOUGH_ALLOCS || history->small < history->allocs / 2) {
        return false;
    }
    advice->weight = ADVICE_NOTE;
    snprintf(advice->found, sizeof advice->found,
             "%.0f %% of the requests were below 512 bytes, which is what each of them takes",
             percent(history->small, history->allocs));
    advice->mend = "put them into one block: a batch (vram/batch.h) places them side by side";
    return true;
}

static bool on_large(const struct history *history, struct advice *advice) {
    char size[VRAM_SIZE_TEXT_MAX];
    if (history->largest_bytes < 64 * MIB || history->largest_bytes < history->peak_bytes / 2 ||
        history->live_blocks + history->frees < 2) {
        return false;
    }
    advice->weight = ADVICE_NOTE;
    snprintf(advice->found, sizeof advice->found, "one request was of %s, %.0f %% of the peak",
             vram_size_format(history->largest_bytes, size),
             percent(history->largest_bytes, history->peak_bytes));
    advice->mend = "allocate it first, or let it grow in place (vram_resize, vram/buffer.h): a "
                   "block that large needs as much free memory in one piece";
    return true;
}

/* S4: "Consider warmup operations for consistent performance." */
static bool on_misses(const struct history *history, struct advice *advice) {
    uint64_t hits, misses;
    if (!history_hit_rate(history, &hits, &misses) || hits + misses < ENOUGH_ALLOCS ||
        (double)hits >= 0.8 * (double)(hits + misses)) {
        return false;
    }
    advice->weight = ADVICE_NOTE;
    snprintf(advice->found, sizeof advice->found,
             "%.0f %% of the allocations were served from memory that the pools held",
             percent(hits, hits + misses));
    advice->mend = "vram_pool_warm prepares the most used sizes in advance; a pool that gives "
                   "memory back between steps (a trim, cached_bytes) calls the driver again";
    return true;
}

static bool on_loss(const struct history *history, struct advice *advice) {
    if (history->lost_events == 0 && history->missing_chunks == 0) {
        return false;
    }
    advice->weight = history->lost_events > 0 ? ADVICE_WARN : ADVICE_NOTE;
    if (history->lost_events > 0) {
        snprintf(advice->found, sizeof advice->found,
                 "%" PRIu64 " events were lost: the disk was full or slow", history->lost_events);
        advice->mend = "write the trace to another disk, or as a ring that keeps the last events: "
                       "VRAM_TRACE_RING=64M";
    } else {
        snprintf(advice->found, sizeof advice->found,
                 "the ring wrapped around: its first %" PRIu64 " chunks were overwritten",
                 history->missing_chunks);
        advice->mend = "a larger VRAM_TRACE_RING, or none, keeps more";
    }
    return true;
}

/* Programs that do not use the library cannot follow advice that names its calls: what they can do
   instead; NULL: nothing. */
static const char *foreign_mend(const char *name) {
    static const struct {
        const char *name, *mend;
    } mends[] = {
        {"refusals",
         "`vram replay FILE --least` finds the least memory in which it runs with other "
         "allocators"},
        {"leaks", "`vram report FILE --leaks` lists them by call site; weights and caches may live "
                  "that long"},
        {"churn", "keep the buffers that every step needs instead of allocating them again"},
    };
    for (size_t i = 0; i < sizeof mends / sizeof mends[0]; i++) {
        if (strcmp(name, mends[i].name) == 0) {
            return mends[i].mend;
        }
    }
    return NULL;
}

static bool is_foreign(const struct history *history) {
    return history->format != FORMAT_RECORDING && history->format != FORMAT_CSV;
}

/* S4: "Check for reference cycles": what every step adds. */
static bool on_growth(const struct history *history, struct advice *advice) {
    struct history_growth first;
    if (history_find_growth(history, &first, 1) == 0) {
        return false;
    }
    advice->weight = ADVICE_WARN;
    snprintf(advice->found, sizeof advice->found,
             "blocks of one call site grew by %u and were not freed meanwhile; the story names it",
             first.span.blocks);
    advice->mend = is_foreign(history)
                       ? "see whether a list or a graph holds the result of each step: in PyTorch "
                         "append loss.item() or loss.detach(), not the loss"
                       : "see who holds the result of each step; a scope (vram/scope.h) around a "
                         "step frees what was allocated in it";
    return true;
}

static bool on_reserved(const struct history *history, struct advice *advice) {
    char size[VRAM_SIZE_TEXT_MAX];
    if (history->format != FORMAT_SNAPSHOT || history->peak_reserved <= history->peak_held) {
        return false;
    }
    uint64_t gap = history->peak_reserved - history->peak_held;
    if (percent(gap, history->peak_reserved) < 10) {
        return false;
    }
    advice->weight = ADVICE_WARN;
    snprintf(advice->found, sizeof advice->found,
             "PyTorch reserved %s, %.0f %%, more than was ever allocated at once",
             vram_size_format(gap, size), percent(gap, history->peak_reserved));
    advice->mend = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or libvram's allocator "
                   "(docs/pytorch.md); `vram replay FILE -b sim -p caching -p expandable -p vram` "
                   "compares them";
    return true;
}

size_t advice_give(const struct history *history, struct advice list[ADVICE_MAX]) {
    static const struct {
        const char *name;
        bool (*applies)(const struct history *history, struct advice *advice);
    } rules[] = {{"refusals", on_refusals},
                 {"growth", on_growth},
                 {"reserved", on_reserved},
                 {"leaks", on_leaks},
                 {"pressure", on_pressure},
                 {"idle", on_idle},
                 {"fragmentation", on_fragmentation},
                 {"long-lived", on_long_lived},
                 {"churn", on_churn},
                 {"small", on_small},
                 {"large", on_large},
                 {"misses", on_misses},
                 {"loss", on_loss}};
    size_t count = 0;
    for (int weight = ADVICE_BAD; weight >= ADVICE_NOTE; weight--) {
        for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
            struct advice *advice = &list[count];
            memset(advice, 0, sizeof *advice);
            advice->name = rules[i].name;
            bool applies = rules[i].applies(history, advice);
            bool own = rules[i].applies == on_growth || rules[i].applies == on_reserved;
            if (applies && is_foreign(history) && !own) {
                advice->mend = foreign_mend(advice->name);
                applies = advice->mend != NULL;
            }
            if (applies && advice->weight == (enum advice_weight)weight) {
                count++;
            }
        }
    }
    return count;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_cause.c: why a request failed, and which setting would help; see report.h.
 *
 * A quota and a lack of addresses are causes by themselves. Otherwise memory that exists but could
 * not be used comes first, since the program can free it: memory in pieces, in use by queues,
 * pinned, or in other pools, in this order, each if it would have sufficed. Then a limit, or other
 * processes. A full device comes last.
 */
#include "core/ladder/report.h"

#include "base/size.h"
#include "base/size_text.h"
#include "base/text.h"
#include "core/limit/limit_source.h"

static const struct {
    const char *name, *text;
} causes[] = {
#define ROW(NAME, value, name, text) [value] = {name, text},
    VRAM_OOM_CAUSE_MAP(ROW)
#undef ROW
};

enum { CAUSE_COUNT = sizeof causes / sizeof causes[0] };

const char *vr_oom_cause_name(vram_oom_cause cause) {
    return (unsigned)cause < CAUSE_COUNT ? causes[cause].name : "unknown";
}

const char *vram_oom_cause_name(vram_oom_cause cause) {
    return vr_oom_cause_name(cause);
}

/* ------------------------------------------------------------------------ cause */

/* Memory that the pool could still have taken from the driver. */
static uint64_t available_bytes(const struct vram_oom_report *report, const struct vr_pool *pool) {
    uint64_t available = report->free_bytes.known ? report->free_bytes.value : 0;
    if (report->limit_bytes.known) {
        struct vr_budget budget = vr_budget_get(pool);
        uint64_t left = budget.bytes > budget.held_bytes ? budget.bytes - budget.held_bytes : 0;
        available = left < available ? left : available;
    }
    return available;
}

/* Whether no state of the device could have served the request. */
static bool is_too_large(const struct vram_oom_report *report, const struct vr_pool *pool) {
    return vr_pool_on_device(pool) && report->total_bytes.known &&
           report->needed_bytes > report->total_bytes.value;
}

static bool is_refused(const struct vram_oom_report *report, const struct vr_pool *pool) {
    uint64_t granules;
    return report->status == VRAM_ERR_DEVICE_MEMORY && vr_pool_on_device(pool) &&
           report->free_bytes.known &&
           vr_round_up(report->needed_bytes, pool->granule, &granules) &&
           report->free_bytes.value >= granules;
}

/* What other programs hold: as the driver reports it, but no more than everything that is not ours.
   The report may be a moment old, and `vram run --limit` does not make it smaller, as it does the
   device. */
static uint64_t other_bytes(const struct vram_oom_report *report) {
    const vram_value all = report->others_bytes, known = report->processes_bytes;
    return known.known && (!all.known || known.value < all.value) ? known.value : all.value;
}

/* Whether the request would fit without the limit that refused it. It would not where the device
   itself has no more, and less must stay free than is missing. */
static bool is_limited(const struct vram_oom_report *report, const struct vr_pool *pool,
                       uint64_t missing) {
    return report->status == VRAM_ERR_LIMIT &&
           (vr_budget_get(pool).bound != VR_BOUND_FREE ||
            vr_load(&pool->caps.min_free_bytes, VR_RELAXED) >= missing);
}

static vram_oom_cause cause_of(const struct vram_oom_report *report, const struct vr_pool *pool) {
    uint64_t available = available_bytes(report, pool), need = report->needed_bytes;
    uint64_t missing = need > available ? need - available : 1;
    bool limited = report->status == VRAM_ERR_LIMIT;
    uint64_t others = other_bytes(report), ours = report->process_bytes;
    if (*report->quota_tag) {
        return VRAM_OOM_QUOTA;
    }
    if (report->status == VRAM_ERR_HOST_MEMORY) {
        return VRAM_OOM_HOST;
    }
    if (is_too_large(report, pool)) {
        return VRAM_OOM_TOO_LARGE;
    }
    if (report->status == VRAM_ERR_FRAGMENTED && pool->range) {
        return VRAM_OOM_ADDRESSES;
    }
    if (report->status == VRAM_ERR_FRAGMENTED || report->unused_bytes >= missing) {
        return VRAM_OOM_FRAGMENTED;
    }
    if (report->pending_bytes + report->unused_bytes >= missing) {
        return VRAM_OOM_PENDING;
    }
    if (report->pinned_bytes + report->pending_bytes + report->unused_bytes >= missing) {
        return VRAM_OOM_PINNED;
    }
    bool pools_own = limited && vr_budget_get(pool).bound == VR_BOUND_POOL;
    if (vr_pool_on_device(pool) && !pools_own && report->stranded_bytes >= missing) {
        return VRAM_OOM_STRANDED;
    }
    if (*report->lease_reason && (!limited || vr_budget_get(pool).bound == VR_BOUND_LEASE)) {
        return VRAM_OOM_LEASE;
    }
    bool scarce = !limited || vr_budget_get(pool).bound == VR_BOUND_FREE;
    if (scarce && others >= missing && others > ours) {
        return VRAM_OOM_OTHERS;
    }
    if (is_limited(report, pool, missing)) {
        return VRAM_OOM_LIMIT;
    }
    return is_refused(report, pool) ? VRAM_OOM_REFUSED : VRAM_OOM_FULL;
}

/* -------------------------------------------------------------------------- text */

/* Sizes as text, up to four at a time. */
struct size_texts {
    char buffers[4][VRAM_SIZE_TEXT_MAX];
    unsigned used;
};

static const char *size_text(struct size_texts *texts, uint64_t bytes) {
    return vr_size_format(bytes, texts->buffers[texts->used++ % 4]);
}

/* Writes what follows on "pool "x" needs 4.00 GiB: ". */
static void explain_cause(struct vram_oom_report *report, char *text, size_t bytes) {
    struct size_texts texts = {.used = 0};
    switch (report->cause) {
    case VRAM_OOM_FRAGMENTED:
        vr_text_format(text, bytes, "it has %s unused%s%s, but the largest piece is %s",
                       size_text(&texts, report->unused_bytes),
                       report->free_bytes.known ? ", the device " : "",
                       report->free_bytes.known ? size_text(&texts, report->free_bytes.value) : "",
                       size_text(&texts, report->largest_bytes));
        return;
    case VRAM_OOM_PENDING:
        vr_text_format(text, bytes, "%s were freed, but %u queue%s not finished with them",
                       size_text(&texts, report->pending_bytes), report->queue_count,
                       report->queue_count == 1 ? " has" : "s have");
        return;
    case VRAM_OOM_PINNED:
        vr_text_format(text, bytes, "%s were freed, but are pinned",
                       size_text(&texts, report->pinned_bytes));
        return;
    case VRAM_OOM_STRANDED:
        vr_text_format(text, bytes, "%s lie unused in other pools, most in \"%.32s\"",
                       size_text(&texts, report->stranded_bytes), report->pools[0].name);
        return;
    case VRAM_OOM_LIMIT:
        vr_text_format(text, bytes, "the limit of %s (%s) is reached, with %s held",
                       size_text(&texts, report->limit_bytes.value),
                       *report->limit_name ? report->limit_name : "the system's",
                       size_text(&texts, report->reserved_bytes));
        return;
    case VRAM_OOM_OTHERS:
        vr_text_format(text, bytes, "other programs hold %s of the device's %s",
                       size_text(&texts, other_bytes(report)),
                       size_text(&texts, report->total_bytes.value));
        return;
    case VRAM_OOM_TOO_LARGE:
        vr_text_format(text, bytes, "the device has %s in all",
                       size_text(&texts, report->total_bytes.value));
        return;
    case VRAM_OOM_REFUSED:
        vr_text_format(text, bytes, "the driver refused, although it reports %s as free",
                       size_text(&texts, report->free_bytes.value));
        return;
    case VRAM_OOM_HOST:
        vr_text_format(text, bytes, "the library has no host memory for its own bookkeeping");
        return;
    case VRAM_OOM_QUOTA:
        vr_text_format(text, bytes, "tag \"%.48s\" has %s of its quota of %s", report->quota_tag,
                       size_text(&texts, report->quota_used_bytes),
                       size_text(&texts, report->quota_bytes));
        return;
    case VRAM_OOM_LEASE:
        vr_text_format(text, bytes, "%s", report->lease_reason);
        return;
    case VRAM_OOM_ADDRESSES:
        vr_text_format(
            text, bytes, "of its %s of addresses for such blocks the longest free run has %s",
            size_text(&texts, report->address_bytes), size_text(&texts, report->longest_bytes));
        return;
    case VRAM_OOM_FULL:
        vr_text_format(text, bytes, "the device is full: this program holds %s, %s are free",
                       size_text(&texts, report->process_bytes),
                       report->free_bytes.known ? size_text(&texts, report->free_bytes.value)
                                                : "an unknown amount");
    }
}

/* The tag that holds the most, for the advice; "" if nothing is tagged. */
static const char *first_tag(const struct vram_oom_report *report) {
    for (uint32_t i = 0; i < report->holder_count; i++) {
        if (*report->holders[i].tag) {
            return report->holders[i].tag;
        }
    }
    return "";
}

static bool has_step(const struct vram_oom_report *report, vram_ladder_step step) {
    for (uint32_t i = 0; i < report->step_count; i++) {
        if (report->steps[i].step == step) {
            return true;
        }
    }
    return false;
}

static void advise_full(struct vram_oom_report *report, char *text, size_t bytes) {
    const char *tag = first_tag(report);
    if (*tag) {
        vr_text_format(text, bytes, "free some of what \"%.48s\" holds%s", tag,
                       report->integrated ? ""
                                          : ", or allow other memory by "
                                            "vram_ladder_options.fallback");
    } else {
        vr_text_format(text, bytes,
                       "free memory or ask for less; tags (vram_alloc_options.tag) would show what "
                       "holds it%s",
                       report->integrated ? ""
                                          : "; vram_ladder_options.fallback allows other memory");
    }
}

static void advise_limit(const struct vram_oom_report *report, const struct vr_pool *pool,
                         char *text, size_t bytes) {
    enum vr_bound bound = vr_budget_get(pool).bound;
    if (bound == VR_BOUND_NONE) {
        vr_text_format(text, bytes, "look at the driver's own error: %s", report->error);
    } else {
        vr_text_format(text, bytes, "%s", vr_limit_source_of(pool, bound).advice);
    }
}

/* A deterministic pool never reserves more addresses; for other pools the system has refused
   them. */
static void advise_addresses(const struct vr_pool *pool, char *text, size_t bytes) {
    vr_text_format(
        text, bytes,
        "reserve more at first, by vram_pool_options.range_bytes or the option range_bytes "
        "(VRAM_RANGE_BYTES)%s",
        pool->flags & VRAM_POOL_DETERMINISTIC
            ? ""
            : ", or let the process have more (ulimit -v): no more could be reserved now");
}

/* A quota of the environment is a ceiling that the program cannot raise. */
static void advise_quota(const struct vr_tag *full, char *text, size_t bytes) {
    bool outer = full && full->env_hard == vr_load(&full->hard, VR_RELAXED);
    vr_text_format(text, bytes,
                   outer ? "free some of what \"%.48s\" holds, or raise its quota in the option "
                           "quotas (VRAM_QUOTAS)"
                         : "free some of what \"%.48s\" holds, or raise its quota by "
                           "vram_tag_quota_set",
                   full ? full->name : "");
}

static void advise_cause(struct vram_oom_report *report, const struct vr_pool *pool,
                         const struct vr_tag *full, char *text, size_t bytes) {
    char wait[VR_NUMBER_TEXT_MAX];
    switch (report->cause) {
    case VRAM_OOM_FRAGMENTED:
        vr_text_format(text, bytes,
                       pool->range
                           ? "ask for blocks of %s or less, or free neighbours of what is free"
                           : "ask for blocks of %s or less; a pool that can map memory would "
                             "put the pieces together (a device with the capability vmm, no "
                             "VRAM_POOL_SEGMENTS)",
                       size_text(&(struct size_texts){.used = 0}, report->largest_bytes));
        return;
    case VRAM_OOM_PENDING:
        vr_text_format(text, bytes,
                       "wait for those queues, free on the queue that allocates next, or raise the "
                       "option wait_timeout (%s)%s",
                       vr_duration_write(pool->device->context->wait_ns, wait),
                       has_step(report, VRAM_LADDER_FINISHED) ? ""
                                                              : "; the ladder lacks `finished`");
        return;
    case VRAM_OOM_PINNED:
        vr_text_format(text, bytes, "call vram_unpin for blocks that were freed while pinned");
        return;
    case VRAM_OOM_STRANDED:
        vr_text_format(text, bytes, "%s",
                       has_step(report, VRAM_LADDER_OTHERS)
                           ? "use one pool for both: what is left there lies between live blocks"
                           : "put `others` into the ladder, or call vram_pool_trim on that pool");
        return;
    case VRAM_OOM_LIMIT:
        advise_limit(report, pool, text, bytes);
        return;
    case VRAM_OOM_OTHERS:
        vr_text_format(text, bytes, "%s",
                       report->integrated
                           ? "end programs of the host, which uses the same memory"
                           : "end those programs, choose another device (vram_device_select), or "
                             "allow other memory by vram_ladder_options.fallback");
        return;
    case VRAM_OOM_TOO_LARGE:
        vr_text_format(text, bytes, "ask for less, or split it over several devices");
        return;
    case VRAM_OOM_REFUSED:
        vr_text_format(text, bytes, "look at the driver's own error: %s", report->error);
        return;
    case VRAM_OOM_HOST:
        vr_text_format(text, bytes, "free memory of the process, or lower its number of blocks");
        return;
    case VRAM_OOM_QUOTA:
        advise_quota(full, text, bytes);
        return;
    case VRAM_OOM_LEASE:
        vr_text_format(text, bytes, "%s",
                       report->lender_count
                           ? "lower the minimum of those leases, or let them reach "
                             "vram_lease_point more often; `vram info --leases` shows them"
                           : "raise want_bytes of the lease; `vram info --leases` shows them all");
        return;
    case VRAM_OOM_ADDRESSES:
        advise_addresses(pool, text, bytes);
        return;
    case VRAM_OOM_FULL:
        advise_full(report, text, bytes);
    }
}

void vr_report_judge(struct vram_oom_report *report, const struct vr_pool *pool,
                     const struct vr_tag *full) {
    char why[160];
    struct size_texts texts = {.used = 0};
    report->cause = cause_of(report, pool);
    explain_cause(report, why, sizeof why);
    vr_text_format(report->summary, sizeof report->summary,
                   "out of memory (%s): pool \"%.40s\" needs %s: %s", causes[report->cause].name,
                   report->pool_name, size_text(&texts, report->needed_bytes), why);
    advise_cause(report, pool, full, report->advice, sizeof report->advice);
}

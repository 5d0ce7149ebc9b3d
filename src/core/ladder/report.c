/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.c: collects what is known when a request fails, and keeps it; see report.h.
 */
#include "core/ladder/report.h"
#include "core/cache/stamp.h"
#include "core/object/request.h"

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "core/limit/limit_source.h"
#include "core/object/walk.h"
#include "core/space/hole.h"
#include "core/space/span.h"
#include "core/stats/pool_stats.h"
#include "core/tracking/pool_tracking.h"
#include "device/ops.h"

enum { THREADS = 32 }; /* that keep their last report */

#define PROCESSES_NS UINT64_C(1000000000) /* between two queries for other processes */

/* ----------------------------------------------------------------- the device */

static void read_device(struct vram_oom_report *report, struct vr_device_object *device) {
    vram_value free = {0}, total = {0};
    const struct vram_device_info *info = &device->base.info;
    vr_text_format(report->device_name, sizeof report->device_name, "%s %u", info->backend,
                   info->backend_index);
    if (!(info->caps & VRAM_CAP_MEMORY_INFO) ||
        vr_memory_info(&device->base, &free, &total) != VRAM_OK) {
        free = total = (vram_value){0};
    }
    report->integrated = info->caps & VRAM_CAP_INTEGRATED;
    report->free_bytes = free;
    report->total_bytes = total.known ? total : info->memory_bytes;
    report->process_bytes = vr_load(&device->slot->account->charged_bytes, VR_RELAXED);
    if (free.known && report->total_bytes.known) {
        uint64_t taken =
            report->total_bytes.value > free.value ? report->total_bytes.value - free.value : 0;
        report->others_bytes.known = true;
        report->others_bytes.value =
            taken > report->process_bytes ? taken - report->process_bytes : 0;
    }
}

/* Reads what other processes hold. The query opens a library and takes milliseconds, so it is made
   at most once per PROCESSES_NS. */
static void read_processes(struct vram_oom_report *report, struct vr_device_object *device) {
    struct vr_ledger *ledger = vr_ledger_of(device);
    uint64_t now = vr_device_now(device), due = vr_load(&ledger->processes_due_ns, VR_ACQUIRE);
    vram_value bytes = {0};
    if ((!due || now >= due) &&
        vr_cas(&ledger->processes_due_ns, &due, now + PROCESSES_NS, VR_ACQ_REL)) {
        if (vr_memory_others(&device->base, &bytes) != VRAM_OK) {
            bytes = (vram_value){0};
        }
        vr_mutex_lock(&ledger->lock);
        ledger->processes = bytes;
        vr_mutex_unlock(&ledger->lock);
    }
    vr_mutex_lock(&ledger->lock);
    report->processes_bytes = ledger->processes;
    vr_mutex_unlock(&ledger->lock);
}

static void read_limit(struct vram_oom_report *report, const struct vr_pool *pool) {
    struct vr_budget budget = vr_budget_get(pool);
    report->limit_bytes.known = budget.bound != VR_BOUND_NONE;
    report->limit_bytes.value = report->limit_bytes.known ? budget.bytes : 0;
    vr_text_copy(report->limit_name, sizeof report->limit_name,
                 vr_limit_source_of(pool, budget.bound).name);
}

/* ------------------------------------------------------------------- the pool */

/* Adds bytes that wait for a queue to the list, which is ordered by size. If it is full, the
   smallest entry is replaced. */
static void add_queue(struct vram_oom_report *report, struct vr_queue_id id, uint64_t bytes) {
    vram_queue *queue = vr_queue_id_handle(id);
    uint32_t i = 0;
    while (i < report->queue_count && report->queues[i].queue != queue) {
        i++;
    }
    if (i == VRAM_OOM_LIST_MAX) {
        i--; /* ordered by size: the last is the smallest */
        if (report->queues[i].bytes >= bytes) {
            return;
        }
    }
    if (i == report->queue_count || report->queues[i].queue != queue) {
        report->queues[i] = (vram_oom_queue){queue, 0};
        report->queue_count = i + 1 > report->queue_count ? i + 1 : report->queue_count;
    }
    report->queues[i].bytes += bytes;
    for (; i > 0 && report->queues[i - 1].bytes < report->queues[i].bytes; i--) {
        vram_oom_queue above = report->queues[i - 1];
        report->queues[i - 1] = report->queues[i];
        report->queues[i] = above;
    }
}

static void read_space(struct vram_oom_report *report, struct vr_pool *pool, struct vr_space *space,
                       bool elsewhere) {
    struct vr_space_stats stats;
    struct vr_stamp stamp;
    uint64_t pending = 0;
    (void)vr_space_pending(space, &stamp); /* settles holes whose stamp has passed */
    vr_space_stats_get(space, &stats);
    for (struct vr_link *link = vr_list_first(&space->pending); link;
         link = vr_list_next(&space->pending, link)) {
        const struct vr_block *hole = VR_CONTAINER(link, struct vr_block, span.age);
        pending += vr_span_bytes(hole);
        add_queue(report, vr_pool_stamp_from_space(pool, hole->stamp).queue, vr_span_bytes(hole));
    }
    uint64_t unused = stats.hole_bytes - pending + stats.spare_bytes;
    report->reserved_bytes += stats.reserved_bytes;
    report->pending_bytes += pending;
    report->unused_bytes += unused;
    report->elsewhere_bytes += elsewhere ? unused : 0;
    report->spare_bytes += stats.spare_bytes;
    report->lost_bytes += stats.lost_bytes;
    report->address_bytes += elsewhere ? 0 : stats.address_bytes;
    report->longest_bytes += elsewhere ? 0 : stats.largest_void_bytes;
    const struct vr_block *hole =
        vr_hole_smaller(space, 0, NULL); /* the largest that no work uses */
    uint64_t bytes = hole ? vr_span_bytes(hole) : 0;
    report->largest_bytes = bytes > report->largest_bytes ? bytes : report->largest_bytes;
}

/* Adds blocks that wait for other queues than the one they were freed on, or for an unpin or
   unseal; blocks of other memory are not in the sum. A block freed while asleep has memory where
   its pieces were not released. After read_asleep; under the lock. */
static void read_deferred(struct vram_oom_report *report, struct vr_pool *pool) {
    for (struct vr_block *block = pool->deferred; block; block = block->next) {
        uint64_t bytes = vr_load(&block->bytes, VR_RELAXED);
        if (vr_block_is_other(block)) {
            report->fallback_bytes -= vr_smaller(bytes, report->fallback_bytes);
            continue;
        }
        if (block->asleep || block->sealed || block->pins) {
            uint64_t asleep =
                block->asleep ? vr_space_released(pool->spaces[block->part], block) : 0;
            report->asleep_bytes -= asleep;
            report->pinned_bytes += bytes - asleep;
            continue;
        }
        bool foreign = !block->stateless && block->before.queue.handle;
        struct vr_queue_id queue = block->uses ? block->uses->stamp.queue
                                   : foreign   ? block->before.queue
                                               : block->freed.queue;
        report->pending_bytes += bytes;
        add_queue(report, queue, bytes);
    }
}

/* What pieces that are asleep or sealed have under blocks and under holes. Under the lock. */
static void read_asleep(struct vram_oom_report *report, const struct vr_pool *pool) {
    for (const struct vr_sleep_state *at = pool->sleep.sleep_states; at; at = at->next) {
        uint64_t hidden = at->hidden_bytes + (at->piece->seal ? at->piece->seal->hidden_bytes : 0);
        report->asleep_bytes += at->piece->released ? at->piece->bytes - hidden : 0;
        report->pinned_bytes += at->piece->released ? 0 : at->hidden_bytes;
    }
    for (const struct vr_sleep_state *seal = pool->sleep.seals; seal; seal = seal->next) {
        report->pinned_bytes += seal->piece->released ? 0 : seal->hidden_bytes;
    }
}

/* Who has memory of the pool open. Under the lock. */
static void read_readers(struct vram_oom_report *report, const struct vr_pool *pool) {
    for (int i = 0; i < VR_READERS_MOST && report->reader_count < VRAM_OOM_LIST_MAX; i++) {
        if (pool->readers[i].opens) {
            report->readers[report->reader_count++] =
                (vram_oom_reader){pool->readers[i].process, pool->readers[i].bytes};
        }
    }
}

static void read_pool(struct vram_oom_report *report, struct vr_pool *pool, uint64_t bytes) {
    struct vram_pool_stats stats = {.size = sizeof stats};
    const struct vr_space *own = pool->spaces[vr_part_of(bytes)];
    vr_stats_of_pool(pool, &stats);
    report->cached_bytes = stats.cached_bytes;
    report->fallback_bytes = stats.fallback_bytes + stats.other_bytes;
    report->pinned_bytes = stats.quarantine_bytes;
    report->rounding_bytes = stats.allocated_bytes > stats.requested_bytes
                                 ? stats.allocated_bytes - stats.requested_bytes
                                 : 0;
    report->shared_bytes = stats.shared_bytes;
    vr_mutex_lock(&pool->lock);
    for (int part = 0; part < VR_PART_COUNT; part++) {
        read_space(report, pool, pool->spaces[part], pool->spaces[part] != own);
    }
    read_asleep(report, pool);
    read_deferred(report, pool);
    read_readers(report, pool);
    vr_mutex_unlock(&pool->lock);
    report->live_bytes =
        stats.allocated_bytes - vr_smaller(report->fallback_bytes, stats.allocated_bytes);
}

/* ---------------------------------------------------------------- other pools */

static void add_pool(struct vram_oom_report *report, struct vr_pool *pool) {
    struct vram_oom_pool entry = {.pool = (vram_pool *)(uintptr_t)pool->object.handle};
    struct vr_space_stats stats;
    vr_text_format(entry.name, sizeof entry.name, "%s", pool->name);
    vr_mutex_lock(&pool->lock);
    for (int part = 0; part < VR_PART_COUNT; part++) {
        vr_space_stats_get(pool->spaces[part], &stats);
        entry.reserved_bytes += stats.reserved_bytes;
        entry.free_bytes += stats.hole_bytes + stats.spare_bytes;
    }
    vr_mutex_unlock(&pool->lock);
    if (!vr_pool_on_device(pool)) {
        return; /* its memory is not the device's */
    }
    report->stranded_bytes += entry.free_bytes;
    uint32_t at = report->pool_count;
    if (at == VRAM_OOM_LIST_MAX) {
        at--;
        if (report->pools[at].free_bytes >= entry.free_bytes) {
            return;
        }
    }
    report->pool_count = at + 1;
    for (; at > 0 && report->pools[at - 1].free_bytes < entry.free_bytes; at--) {
        report->pools[at] = report->pools[at - 1];
    }
    report->pools[at] = entry;
}

/* Memory allocated by others that counts is held as well; the tags' accounts include it. */
static void add_foreign(struct vr_live *live) {
    struct vr_ledger *ledger = vr_ledger_of(live->device);
    vr_mutex_lock(&ledger->lock);
    live->bytes += ledger->foreigns.counted_bytes;
    for (size_t i = 0; i < ledger->foreigns.count; i++) {
        live->blocks += ledger->foreigns.records[i]->counts;
    }
    vr_mutex_unlock(&ledger->lock);
}

/* Reads all pools of the device, this one included, since tags count over all of them. */
static void read_pools(struct vram_oom_report *report, struct vr_pool *own,
                       const struct vr_request *charged) {
    struct vr_live live = {.device = own->device, .charged = charged};
    struct vr_walk walk = {.context = own->device->context, .account = own->device->slot->account};
    struct vr_pool *pool;
    while ((pool = vr_walk_next(&walk))) {
        struct vram_pool_stats stats = {.size = sizeof stats};
        if (pool != own) {
            add_pool(report, pool);
        }
        vr_stats_of_pool(pool, &stats);
        live.bytes += stats.allocated_bytes;
        live.blocks += stats.live_blocks;
        vr_leave(pool);
    }
    add_foreign(&live);
    vr_report_holders(report, &live);
}

/* ------------------------------------------------------------------- keeping it */

static struct {
    struct vr_mutex lock;
    uint64_t count;   /* reports written */
    uint64_t threads; /* that have written one */
    struct {
        uint64_t thread; /* 0: free */
        struct vram_oom_report report;
    } places[THREADS];
    uint64_t process; /* whose refusals these are */
    struct vr_refusals refusals;
} kept = {.lock = VR_MUTEX_INIT(VR_RANK_REPORT)};

static _Thread_local uint64_t own_number; /* of the calling thread; 0: none yet */

/* The calling thread's entry: its own, a free one, or the oldest. Under the lock. */
static struct vram_oom_report *own_place(void) {
    uint32_t best = 0;
    own_number = own_number ? own_number : ++kept.threads;
    for (uint32_t i = 0; i < THREADS; i++) {
        if (kept.places[i].thread == own_number) {
            best = i;
            break;
        }
        best = kept.places[i].report.number < kept.places[best].report.number ? i : best;
    }
    kept.places[best].thread = own_number;
    return &kept.places[best].report;
}

/* Forgets the refusals of a parent. Under the lock. */
static void own_refusals(void) {
    if (kept.process != vr_os_process_generation()) {
        kept.process = vr_os_process_generation();
        kept.refusals = (struct vr_refusals){.causes = {0}};
    }
}

static void keep_refusal(const struct vram_oom_report *report) {
    struct vr_refusal *last = &kept.refusals.last[(report->number - 1) % VR_REFUSALS_LAST];
    own_refusals();
    kept.refusals.causes[report->cause % VR_REFUSAL_CAUSES]++;
    *last = (struct vr_refusal){.number = report->number,
                                .date_ns = vr_os_date(),
                                .bytes = report->asked_bytes,
                                .cause = report->cause,
                                .status = report->status};
    vr_text_copy(last->pool, sizeof last->pool, report->pool_name);
    vr_text_copy(last->tag, sizeof last->tag, report->tag);
    vr_text_copy(last->text, sizeof last->text, report->summary);
}

void vr_refusals_get(struct vr_refusals *refusals) {
    vr_mutex_lock(&kept.lock);
    own_refusals();
    *refusals = kept.refusals;
    vr_mutex_unlock(&kept.lock);
}

static void keep_report(struct vram_oom_report *report, struct vr_pool *pool) {
    vr_mutex_lock(&kept.lock);
    report->number = ++kept.count;
    keep_refusal(report);
    *own_place() = *report;
    pool->report = *report;
    vr_mutex_unlock(&kept.lock);
}

/* -------------------------------------------------------------------- the whole */

static void read_request(struct vram_oom_report *report, const struct vr_pool *pool,
                         const struct vr_request *request) {
    report->pool = (vram_pool *)(uintptr_t)pool->object.handle;
    report->queue = vr_queue_id_handle(request->queue);
    report->asked_bytes = request->size;
    report->needed_bytes = request->bytes;
    report->alignment = request->align ? request->align : VR_UNIT;
    vr_text_format(report->pool_name, sizeof report->pool_name, "%s", pool->name);
    vr_text_format(report->tag, sizeof report->tag, "%s", request->tag ? request->tag->name : "");
}

static void read_quota(struct vram_oom_report *report, const struct vr_tag *full) {
    vr_text_format(report->quota_tag, sizeof report->quota_tag, "%s", full->name);
    report->quota_bytes = vr_load(&full->hard, VR_RELAXED);
    report->quota_used_bytes = vr_load(&full->used, VR_RELAXED);
}

static void read_run(struct vram_oom_report *report, const struct vr_ladder_run *run) {
    for (uint32_t i = 0; i < run->ladder.count; i++) {
        uint8_t step = run->ladder.steps[i];
        const struct vr_step_result *result = &run->results[step];
        report->steps[report->step_count++] =
            (vram_oom_step){(vram_ladder_step)step, result->taken, result->bytes, result->ns};
    }
}

static void read_lease(struct vram_oom_report *report, const struct vr_device_object *device,
                       const struct vr_lease_refusal *refusal) {
    uint64_t lease = vr_lease_limit(device);
    report->lease_bytes.known = lease != UINT64_MAX;
    report->lease_bytes.value = report->lease_bytes.known ? lease : 0;
    vr_text_copy(report->lease_reason, sizeof report->lease_reason, refusal->text);
    report->lender_count = refusal->count;
    for (uint32_t i = 0; i < refusal->count; i++) {
        report->lenders[i] = refusal->lenders[i];
    }
}

static void write_report(struct vr_pool *pool, const struct vr_request *request, vram_status status,
                         const struct vr_ladder_run *run, struct vr_tag *full) {
    struct vram_oom_report report = {.size = sizeof report, .status = status};
    struct vram_error error;
    vr_error_save(&error);
    vr_text_copy(report.error, sizeof report.error, error.text);
    read_request(&report, pool, request);
    read_device(&report, pool->device);
    if (run) {
        read_processes(&report, pool->device);
    }
    read_limit(&report, pool);
    read_pool(&report, pool, request->bytes);
    read_pools(&report, pool, request->tag && !full ? request : NULL);
    if (run) {
        read_run(&report, run);
        read_lease(&report, pool->device, &run->refusal);
    }
    if (full) {
        read_quota(&report, full);
    }
    vr_report_judge(&report, pool, full);
    keep_report(&report, pool);
    vr_tracking_report(pool, request, &report);
    vr_log(VRAM_LOG_INFO, "%s; %s", report.summary, report.advice);
    vr_error_restore(&error);
}

void vr_report_write(struct vr_pool *pool, const struct vr_request *request, vram_status status,
                     const struct vr_ladder_run *run) {
    write_report(pool, request, status, run, NULL);
}

void vr_report_write_quota(struct vr_pool *pool, const struct vr_request *request,
                           vram_status status, struct vr_tag *full) {
    write_report(pool, request, status, NULL, full);
}

vram_status vram_oom_report_get(vram_pool *handle, vram_oom_report *out) {
    VR_CALL;
    const struct vram_oom_report *found = NULL;
    struct vram_oom_report copy = {.size = 0};
    void *pool = NULL;
    vram_status status = handle ? vr_enter(VR_KIND_POOL, handle, &pool) : VRAM_OK;
    if (status != VRAM_OK) {
        return status;
    }
    vr_mutex_lock(&kept.lock);
    for (uint32_t i = 0; i < THREADS && !pool && own_number; i++) {
        found = kept.places[i].thread == own_number ? &kept.places[i].report : found;
    }
    found = pool ? &((struct vr_pool *)pool)->report : found;
    if (found && found->number) {
        copy = *found;
    }
    vr_mutex_unlock(&kept.lock);
    status = copy.number ? vr_info_give(out, &copy, sizeof copy, sizeof copy)
                         : vr_fail(VRAM_ERR_INVALID, "no request %s has run out of memory",
                                   pool ? "in this pool" : "of this thread");
    if (pool) {
        vr_leave(pool);
    }
    return status;
}

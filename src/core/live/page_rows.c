/* SPDX-License-Identifier: Apache-2.0 */
/* page_rows.c: collects the rows of a live page. See page_rows.h. */
#include "core/live/page_rows.h"

#include "base/text.h"
#include "core/cache/cache.h"
#include "core/cache/thread.h"
#include "core/ladder/report.h"
#include "core/limit/budget.h"

#include <stddef.h>
#include <string.h>

enum {
    WALK_SLOTS = 1024, /* of a table of blocks, looked at in one collection */
    MISSED_MAX = 9     /* collections without a visit to threads, before one waits for them */
};

#define RATE_NS UINT64_C(1000000000)

static uint64_t or_unknown(vram_value value) {
    return value.known ? value.value : VRAM_LIVE_PAGE_UNKNOWN;
}

/* Counters of several places, read one after the other, may disagree for a moment. */
static uint64_t not_negative(uint64_t value) {
    return (int64_t)value < 0 ? 0 : value;
}

static uint64_t millionths_of(const struct vram_pressure *pressure) {
    return !pressure->known        ? VRAM_LIVE_PAGE_UNKNOWN
           : pressure->value > 1e6 ? UINT64_C(1000000000000)
                                   : (uint64_t)(pressure->value * 1e6 + 0.5);
}

/* ------------------------------------------------------------------ threads */

static struct vr_page_pool *pool_known(struct vr_page_rows *rows, uint64_t handle) {
    for (uint32_t i = 0; i < rows->known_count; i++) {
        if (rows->known[i].handle == handle) {
            return &rows->known[i];
        }
    }
    if (rows->known_count == VR_PAGE_POOLS_KNOWN) {
        return NULL;
    }
    struct vr_page_pool *known = &rows->known[rows->known_count++];
    *known = (struct vr_page_pool){.handle = handle};
    return known;
}

static void thread_add(struct vr_thread_state *thread, void *user) {
    for (uint32_t i = 0; thread->caches && i <= thread->cache_mask; i++) {
        const struct vr_cache *cache = thread->caches[i];
        struct vr_page_pool *known = cache ? pool_known(user, cache->pool_handle) : NULL;
        if (known) {
            vr_thread_counts_add(&known->counting, cache);
        }
    }
}

/* Keeps (2). */
static void threads_add(struct vr_page_rows *rows) {
    for (uint32_t i = 0; i < rows->known_count; i++) {
        rows->known[i].counting = (struct vr_thread_counts){0};
    }
    if (rows->missed >= MISSED_MAX || rows->image.head.updates == 1) {
        vr_thread_visit_all(thread_add, rows);
    } else if (!vr_thread_visit_idle(thread_add, rows)) {
        rows->missed++;
        return;
    }
    rows->missed = 0;
    for (uint32_t i = 0; i < rows->known_count; i++) {
        rows->known[i].threads = rows->known[i].counting;
    }
}

/* -------------------------------------------------------------------- rates */

static uint64_t per_1000_seconds(uint64_t count, uint64_t ns) {
    return (uint64_t)((double)count * 1e12 / (double)ns);
}

static void rate_update(struct vr_page_rate *rate, vram_live_page_counts *counts, uint64_t now) {
    bool first = rate->at_ns == 0 || counts->allocs < rate->allocs || counts->frees < rate->frees;
    if (!first && now - rate->at_ns >= RATE_NS) {
        rate->alloc_rate = per_1000_seconds(counts->allocs - rate->allocs, now - rate->at_ns);
        rate->free_rate = per_1000_seconds(counts->frees - rate->frees, now - rate->at_ns);
    }
    if (first || now - rate->at_ns >= RATE_NS) {
        rate->at_ns = now;
        rate->allocs = counts->allocs;
        rate->frees = counts->frees;
    }
    counts->alloc_rate = rate->alloc_rate;
    counts->free_rate = rate->free_rate;
}

/* ------------------------------------------------------------------- counts */

static void counts_fill(vram_live_page_counts *counts, const struct vram_pool_stats *stats) {
    *counts = (vram_live_page_counts){
        .held_bytes = stats->reserved_bytes,
        .live_bytes = not_negative(stats->requested_bytes),
        .allocated_bytes = not_negative(stats->allocated_bytes),
        .cached_bytes = stats->cached_bytes,
        .asleep_bytes = stats->asleep_bytes,
        .limit_bytes = or_unknown(stats->budget_bytes),
        .peak_held_bytes = stats->peak_reserved_bytes,
        .peak_live_bytes = stats->peak_requested_bytes,
        .live_blocks = not_negative(stats->live_blocks),
        .allocs = stats->allocs,
        .frees = stats->frees,
        .hits = not_negative(stats->hits),
        .misses = stats->misses,
        .cache_hits = not_negative(stats->cache_hits),
        .refusals = stats->refusals,
        .limit_refusals = stats->limit_refusals,
        .quota_refusals = stats->quota_refusals,
        .fallbacks = stats->fallbacks,
        .moved_bytes = stats->moved_bytes,
        .driver_calls = stats->driver_creates + stats->driver_releases + stats->driver_maps +
                        stats->driver_unmaps + stats->driver_accesses + stats->driver_allocs +
                        stats->driver_frees + stats->driver_markers,
    };
}

/* Adds all but the limit: several limits have no sum. The rates come later. */
static void sum_add(vram_live_page_counts *sum, const vram_live_page_counts *counts) {
    uint64_t *into = &sum->held_bytes;
    const uint64_t *from = &counts->held_bytes;
    for (size_t i = 0; i < sizeof *sum / sizeof *into; i++) {
        into[i] += from[i];
    }
    sum->limit_bytes = VRAM_LIVE_PAGE_UNKNOWN;
}

/* ---------------------------------------------------------------- histogram */

static uint32_t size_bin(uint64_t bytes) {
    uint32_t bin = bytes > 1 ? 64 - (uint32_t)__builtin_clzll(bytes - 1) : 0;
    return bin < VRAM_LIVE_PAGE_SIZES ? bin : VRAM_LIVE_PAGE_SIZES - 1;
}

/* One step through the table of the pool whose turn it is. The walk goes by rising handles. */
static void walk_step(struct vr_page_walk *walk, struct vr_pool *pool) {
    uint64_t handle = pool->object.handle;
    uint32_t slots = WALK_SLOTS;
    struct vr_block *block;
    if (handle != walk->pool) {
        walk->next = handle > walk->pool && handle < walk->next ? handle : walk->next;
        return;
    }
    vr_mutex_lock(&pool->lock);
    while ((block = vr_block_table_step(&pool->table, &walk->at, &slots))) {
        if (vr_block_is_live(block)) {
            uint64_t bytes = vr_load(&block->requested, VR_RELAXED);
            vram_live_page_size *size = &walk->sizes[size_bin(bytes)];
            size->blocks++;
            size->bytes += bytes;
        }
    }
    vr_mutex_unlock(&pool->lock);
    walk->more = slots == 0;
}

/* Goes on to the next pool if this one is done or gone. After the last the histogram is
   complete. */
static void walk_end(struct vr_page_rows *rows) {
    struct vr_page_walk *walk = &rows->walk;
    if (!walk->more) {
        walk->at = 0;
        walk->pool = walk->next;
    }
    if (walk->pool == UINT64_MAX) {
        memcpy(rows->image.head.sizes, walk->sizes, sizeof walk->sizes);
        rows->image.head.sizes_ns = rows->image.head.updated_ns;
        *walk = (struct vr_page_walk){.pool = 0};
    }
    walk->more = false;
    walk->next = UINT64_MAX;
}

/* -------------------------------------------------------------------- pools */

/* Puts a row where it belongs by the held bytes, most first; the last one falls out. */
static void pool_insert(struct vr_page_rows *rows, const vram_live_page_pool *row) {
    vram_live_page_table *table = &rows->image.head.pools;
    vram_live_page_pool *pools = rows->image.pools;
    uint32_t at = table->count;
    table->total++;
    while (at > 0 && pools[at - 1].counts.held_bytes < row->counts.held_bytes) {
        at--;
    }
    if (at < VRAM_LIVE_PAGE_POOLS) {
        table->count += table->count < VRAM_LIVE_PAGE_POOLS;
        memmove(&pools[at + 1], &pools[at], (table->count - 1 - at) * sizeof *pools);
        pools[at] = *row;
    }
}

static void pool_add(struct vr_page_rows *rows, struct vr_pool *pool, uint32_t device) {
    static const struct vr_thread_counts none = {0};
    struct vr_page_pool *known = pool_known(rows, pool->object.handle);
    struct vram_pool_stats stats = {.size = sizeof stats};
    struct vram_pressure pressure;
    vram_live_page_pool row = {.id = pool->object.handle, .device = device};
    vr_pressure_last(pool, &pressure);
    stats.budget_bytes = pressure.limit_bytes;
    vr_stats_last(pool, known ? &known->threads : &none, &stats);
    counts_fill(&row.counts, &stats);
    sum_add(&rows->image.head.sum, &row.counts);
    if (known) {
        known->seen = true;
        rate_update(&known->rate, &row.counts, rows->image.head.updated_ns);
    }
    (void)vr_text_copy(row.name, sizeof row.name, pool->name);
    row.pressure_level = (uint32_t)pressure.level;
    row.pressure_millionths = millionths_of(&pressure);
    row.flags = pool->track ? VRAM_LIVE_PAGE_TRACKED : 0;
    rows->image.head.tracked_pools += pool->track != NULL;
    pool_insert(rows, &row);
    if (device < VRAM_LIVE_PAGE_DEVICES) {
        rows->image.devices[device].pools++;
    }
    walk_step(&rows->walk, pool);
}

/* --------------------------------------------------------------------- tags */

static void tag_insert(struct vr_page_rows *rows, const struct vram_tag_info *info,
                       uint32_t device) {
    vram_live_page_table *table = &rows->image.head.tags;
    vram_live_page_tag *tags = rows->image.tags;
    uint32_t at = table->count;
    while (at > 0 && tags[at - 1].used_bytes < info->used_bytes) {
        at--;
    }
    if (at < VRAM_LIVE_PAGE_TAGS) {
        table->count += table->count < VRAM_LIVE_PAGE_TAGS;
        memmove(&tags[at + 1], &tags[at], (table->count - 1 - at) * sizeof *tags);
        tags[at] = (vram_live_page_tag){
            .device = device,
            .used_bytes = info->used_bytes,
            .own_bytes = info->own_bytes,
            .peak_bytes = info->peak_bytes,
            .live_blocks = info->live_blocks,
            .allocs = info->allocs,
            .soft_bytes = info->soft_bytes ? info->soft_bytes : VRAM_LIVE_PAGE_UNKNOWN,
            .hard_bytes = info->hard_bytes ? info->hard_bytes : VRAM_LIVE_PAGE_UNKNOWN,
            .refusals = info->refusals,
        };
        (void)vr_text_copy(tags[at].name, sizeof tags[at].name, info->name);
    }
}

static void tags_add(struct vr_page_rows *rows, const struct vr_device_object *device,
                     struct vr_ledger *ledger, uint32_t row) {
    struct vram_tag_info infos[VRAM_LIVE_PAGE_TAGS];
    uint32_t count = vr_tags_top(device, infos, VRAM_LIVE_PAGE_TAGS);
    for (uint32_t i = 0; i < count; i++) {
        tag_insert(rows, &infos[i], row);
    }
    vr_mutex_lock(&ledger->lock);
    rows->image.head.tags.total += ledger->tags.count;
    rows->image.head.foreign_bytes += ledger->foreigns.bytes;
    vr_mutex_unlock(&ledger->lock);
}

/* ------------------------------------------------------------------ devices */

static void device_fill(vram_live_page_device *row, struct vr_device_object *device,
                        struct vr_ledger *ledger) {
    const struct vram_device_info *info = &device->slot->info;
    struct vram_pressure given = {.size = sizeof given}, pressure;
    struct vr_sample sample;
    uint64_t limit = vr_limit_device_bytes(device, ledger);
    given.total_bytes = info->memory_bytes;
    if (vr_sample_get(device, &sample)) {
        given.free_bytes = sample.free;
        given.total_bytes = sample.total.known ? sample.total : given.total_bytes;
    }
    vr_pressure_of_device(device, &given, &pressure);
    *row = (vram_live_page_device){
        .uuid_known = info->uuid_known,
        .kind = (uint32_t)info->kind,
        .index = info->backend_index,
        .pressure_level = (uint32_t)pressure.level,
        .pressure_millionths = millionths_of(&pressure),
        .memory_bytes = or_unknown(given.total_bytes),
        .free_bytes = or_unknown(given.free_bytes),
        .held_bytes = vr_load(&device->slot->charged_bytes, VR_RELAXED),
        .peak_held_bytes = vr_load(&device->slot->charged_peak, VR_RELAXED),
        .limit_bytes = limit == UINT64_MAX ? VRAM_LIVE_PAGE_UNKNOWN : limit,
    };
    (void)vr_text_copy(row->backend, sizeof row->backend, info->backend);
    (void)vr_text_copy(row->name, sizeof row->name, info->name);
    if (info->pci_known) {
        (void)vr_text_copy(row->pci, sizeof row->pci, info->pci);
    }
    if (info->uuid_known) {
        memcpy(row->uuid, info->uuid, sizeof row->uuid);
    }
}

/* The row of the device, which all handles on it share; UINT32_MAX: the table is full. */
static uint32_t device_row(struct vr_page_rows *rows, struct vr_device_object *device,
                           struct vr_ledger *ledger) {
    vram_live_page_table *table = &rows->image.head.devices;
    bool fresh = true; /* its ledger has not been seen: several backends may show one GPU */
    for (uint32_t i = 0; i < table->count; i++) {
        if (rows->slots[i] == device->slot) {
            return i;
        }
        fresh = fresh && rows->ledgers[i] != ledger;
    }
    table->total++;
    if (table->count == VRAM_LIVE_PAGE_DEVICES) {
        return UINT32_MAX;
    }
    uint32_t row = table->count++;
    rows->slots[row] = device->slot;
    rows->ledgers[row] = ledger;
    device_fill(&rows->image.devices[row], device, ledger);
    if (fresh) {
        tags_add(rows, device, ledger, row);
    }
    return row;
}

/* Under the context's lock. A device without a pool has no ledger, or nothing to show. */
static void device_add(struct vr_page_rows *rows, struct vr_device_object *device) {
    struct vr_ledger *ledger = vr_ledger_of(device);
    uint32_t row = UINT32_MAX;
    bool any = false;
    vr_mutex_lock(&device->lock);
    for (struct vr_link *link = vr_list_first(&device->watchers); link && ledger;
         link = vr_list_next(&device->watchers, link)) {
        struct vr_watcher *watcher = VR_CONTAINER(link, struct vr_watcher, link);
        if ((watcher->handle & 0xff) != VR_KIND_POOL) {
            continue;
        }
        if (!any) {
            any = true;
            row = device_row(rows, device, ledger);
        }
        pool_add(rows, VR_CONTAINER(watcher, struct vr_pool, watcher), row);
    }
    vr_mutex_unlock(&device->lock);
}

/* --------------------------------------------------------------- collection */

static void table_set(vram_live_page_table *table, size_t offset, size_t stride) {
    *table = (vram_live_page_table){.offset = (uint32_t)offset, .stride = (uint32_t)stride};
}

void vr_page_rows_begin(struct vr_page_rows *rows, uint64_t now_ns) {
    vram_live_page *head = &rows->image.head;
    table_set(&head->devices, offsetof(struct vr_page_image, devices),
              sizeof rows->image.devices[0]);
    table_set(&head->pools, offsetof(struct vr_page_image, pools), sizeof rows->image.pools[0]);
    table_set(&head->tags, offsetof(struct vr_page_image, tags), sizeof rows->image.tags[0]);
    table_set(&head->refusals, offsetof(struct vr_page_image, refusals),
              sizeof rows->image.refusals[0]);
    head->updated_ns = now_ns;
    head->sum = (vram_live_page_counts){.limit_bytes = VRAM_LIVE_PAGE_UNKNOWN};
    head->tracked_pools = head->foreign_bytes = 0;
    head->updates++;
    for (uint32_t i = 0; i < rows->known_count; i++) {
        rows->known[i].seen = false;
    }
    threads_add(rows);
}

void vr_page_rows_add(struct vr_page_rows *rows, struct vr_context *context) {
    vr_mutex_lock(&context->lock);
    for (struct vr_link *link = vr_list_first(&context->devices); link;
         link = vr_list_next(&context->devices, link)) {
        device_add(rows, VR_CONTAINER(link, struct vr_device_object, link));
    }
    vr_mutex_unlock(&context->lock);
}

static void refusals_add(struct vr_page_rows *rows) {
    struct vr_refusals refusals;
    vram_live_page *head = &rows->image.head;
    uint64_t newest = 0;
    _Static_assert((int)VR_REFUSAL_CAUSES == (int)VRAM_LIVE_PAGE_CAUSES &&
                       (int)VR_REFUSALS_LAST == (int)VRAM_LIVE_PAGE_REFUSALS,
                   "the page has room for all");
    vr_refusals_get(&refusals);
    memcpy(head->causes, refusals.causes, sizeof head->causes);
    for (uint32_t i = 0; i < VR_REFUSALS_LAST; i++) {
        newest = refusals.last[i].number > newest ? refusals.last[i].number : newest;
    }
    for (uint64_t number = newest; number > 0 && number + VR_REFUSALS_LAST > newest; number--) {
        const struct vr_refusal *from = &refusals.last[(number - 1) % VR_REFUSALS_LAST];
        vram_live_page_refusal *row = &rows->image.refusals[head->refusals.count];
        if (from->number != number) { /* of a parent process, and forgotten */
            break;
        }
        *row = (vram_live_page_refusal){.number = number,
                                        .date_ns = from->date_ns,
                                        .bytes = from->bytes,
                                        .cause = (uint32_t)from->cause,
                                        .status = (int32_t)from->status};
        memcpy(row->pool, from->pool, sizeof row->pool);
        memcpy(row->tag, from->tag, sizeof row->tag);
        memcpy(row->text, from->text, sizeof row->text);
        head->refusals.count++;
    }
    for (uint32_t i = 0; i < VR_REFUSAL_CAUSES; i++) {
        head->refusals.total += (uint32_t)refusals.causes[i];
    }
}

void vr_page_rows_end(struct vr_page_rows *rows) {
    rate_update(&rows->rate, &rows->image.head.sum, rows->image.head.updated_ns);
    refusals_add(rows);
    walk_end(rows);
    for (uint32_t i = rows->known_count; i-- > 0;) {
        if (!rows->known[i].seen) {
            rows->known[i] = rows->known[--rows->known_count];
        }
    }
}

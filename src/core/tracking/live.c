/* SPDX-License-Identifier: Apache-2.0 */
/*
 * live.c: the public queries for live blocks (vram/stats.h).
 *
 * A query pins the object that it names, which keeps its context and all tags alive. The tracks of
 * pools that end meanwhile stay until the query ends (track/tracks.h).
 */
#include "core/tracking/pool_tracking.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/os/os.h"
#include "base/text.h"
#include "core/limit/limit.h"
#include "track/leak.h"
#include "track/stack.h"

#include <stdlib.h>
#include <string.h>

/* A valid query, with what it needs. */
struct live_search {
    struct vram_live_query query;
    void *entered; /* the object that it names */
    struct vr_tracks tracks;
    struct vr_live_filter filter;
    uint64_t now_ns;
};

/* Enters the object that the query names; *filter selects its tracks. */
static vram_status enter_named(struct live_search *search, struct vr_tracks_filter *filter) {
    const struct vram_live_query *query = &search->query;
    if (!!query->pool + !!query->device + !!query->context != 1) {
        return vr_fail(VRAM_ERR_INVALID,
                       "a query must name exactly one of pool, device and context");
    }
    enum vr_kind kind = query->pool     ? VR_KIND_POOL
                        : query->device ? VR_KIND_DEVICE
                                        : VR_KIND_CONTEXT;
    const void *handle = query->pool     ? (const void *)query->pool
                         : query->device ? (const void *)query->device
                                         : (const void *)query->context;
    vram_status status = vr_enter(kind, handle, &search->entered);
    if (status == VRAM_OK) {
        struct vr_object *object = search->entered;
        filter->pool = query->pool ? object->handle : 0;
        filter->context = query->context ? object->handle : 0;
        filter->group =
            query->device ? (uintptr_t)((struct vr_device_object *)search->entered)->slot : 0;
    }
    return status;
}

/* Copies the records of foreign memory of one device. False: memory ran out. */
static bool add_foreign(struct live_search *search, const struct vr_account *account) {
    struct vr_ledger *ledger = vr_load(&account->ledger, VR_ACQUIRE);
    if (!ledger) {
        return true;
    }
    vr_mutex_lock(&ledger->lock);
    bool good = vr_foreigns_copy(&ledger->foreigns, &search->tracks);
    vr_mutex_unlock(&ledger->lock);
    return good;
}

/* The same for what the query names: none of a pool, and each account of a context once. */
static bool add_all_foreign(struct live_search *search) {
    bool good = true;
    if (search->query.device) {
        good = add_foreign(search, ((struct vr_device_object *)search->entered)->slot->account);
    } else if (search->query.context) {
        const struct vr_context *context = search->entered;
        for (uint32_t i = 0; i < context->slot_count && good; i++) {
            const struct vr_slot *slot = &context->slots[i];
            good = slot->account != &slot->own || add_foreign(search, slot->account);
        }
    }
    return good;
}

static vram_status search_begin(struct live_search *search, const vram_live_query *query) {
    struct vr_tracks_filter filter = {0};
    if (!query) {
        return vr_fail(VRAM_ERR_INVALID, "the query is NULL");
    }
    *search = (struct live_search){.now_ns = vr_clock_coarse()};
    vram_status status = vr_options_take(&search->query, sizeof search->query, query);
    if (status == VRAM_OK && (unsigned)search->query.order > VRAM_LIVE_OLDEST) {
        status = vr_fail(VRAM_ERR_INVALID, "unknown order: %d", (int)search->query.order);
    }
    if (status == VRAM_OK) {
        status = enter_named(search, &filter);
    }
    if (status != VRAM_OK) {
        return status;
    }
    uint64_t older = search->query.older_ns;
    search->filter = (struct vr_live_filter){
        .tag = search->query.tag,
        .stack = search->query.stack,
        .before_ns = older == 0                ? UINT64_MAX
                     : older <= search->now_ns ? search->now_ns - older
                                               : 0,
    };
    if (!vr_tracks_find(&filter, &search->tracks) || !add_all_foreign(search)) {
        vr_tracks_let_go(&search->tracks);
        vr_leave(search->entered);
        return VRAM_ERR_HOST_MEMORY;
    }
    return VRAM_OK;
}

static void search_end(struct live_search *search) {
    vr_tracks_let_go(&search->tracks);
    vr_leave(search->entered);
}

/* ------------------------------------------------------------------- blocks */

/* `about`: its pool; NULL: foreign memory. */
static void describe_block(const struct vr_track_view *view, const struct vr_track_config *about,
                           uint64_t now, struct vram_live_block *block) {
    *block = (struct vram_live_block){
        .size = sizeof *block,
        .id = view->id,
        .pool = about ? (vram_pool *)(uintptr_t)about->pool : NULL,
        .device = (vram_device *)(uintptr_t)(about ? about->device : view->device),
        .queue = (vram_queue *)(uintptr_t)view->site.queue,
        .addr = view->addr,
        .requested_bytes = view->requested,
        .held_bytes = view->held,
        .elements = view->elements,
        .kind = (vram_memory_kind)view->memory,
        .stack = view->site.stack,
        .thread = view->thread,
        .created_ns = view->time_ns,
        .age_ns = now > view->time_ns ? now - view->time_ns : 0,
        .tag = view->site.tag,
        .foreign = view->foreign,
    };
    (void)vr_text_copy(block->name, sizeof block->name, view->name);
}

/* Visits blocks in the order they are found, a few at a time. */
static void visit_any(struct live_search *search, vram_live_fn *visit, void *user) {
    VR_UNCANCELLED;
    struct vr_track_view views[16];
    struct vram_live_block block;
    uint32_t most = search->query.most, shown = 0;
    for (uint32_t i = 0; i < search->tracks.count; i++) {
        struct vr_track *track = search->tracks.all[i];
        uint32_t at = 0;
        do {
            uint32_t found = vr_track_list(track, &at, views, 16);
            for (uint32_t k = 0; k < found; k++) {
                if (!vr_live_is(&search->filter, &views[k])) {
                    continue;
                }
                describe_block(&views[k], vr_track_about(track), search->now_ns, &block);
                if (!visit(user, &block) || (most && ++shown == most)) {
                    return;
                }
            }
        } while (at);
    }
    for (uint32_t i = 0; i < search->tracks.foreign_count; i++) {
        const struct vr_track_view *view = &search->tracks.foreign[i];
        if (vr_live_is(&search->filter, view)) {
            describe_block(view, NULL, search->now_ns, &block);
            if (!visit(user, &block) || (most && ++shown == most)) {
                return;
            }
        }
    }
}

/* Highest key first; of equal keys the older block. */
static int by_key(const void *one, const void *other) {
    const struct vr_live_ref *a = one, *b = other;
    return a->key != b->key ? (a->key < b->key ? 1 : -1) : (a->id > b->id) - (a->id < b->id);
}

static vram_status visit_ordered(struct live_search *search, vram_live_fn *visit, void *user) {
    VR_UNCANCELLED;
    struct vr_live_ref *refs;
    struct vr_track_view view;
    uint64_t count, shown = 0;
    if (!vr_live_gather(&search->tracks, &search->filter, &refs, &count)) {
        return VRAM_ERR_HOST_MEMORY;
    }
    for (uint64_t i = 0; i < count; i++) {
        bool live = vr_live_look(&search->tracks, &refs[i], &view);
        refs[i].key = !live                                      ? 0
                      : search->query.order == VRAM_LIVE_LARGEST ? view.requested
                                                                 : UINT64_MAX - view.time_ns;
    }
    if (count) {
        qsort(refs, count, sizeof *refs, by_key);
    }
    for (uint64_t i = 0; i < count; i++) {
        struct vram_live_block block;
        if (vr_live_look(&search->tracks, &refs[i], &view)) {
            describe_block(&view, vr_live_about(&search->tracks, &refs[i]), search->now_ns, &block);
            if (!visit(user, &block) || ++shown == search->query.most) {
                break;
            }
        }
    }
    vr_mem_free(refs);
    return VRAM_OK;
}

vram_status vram_live_visit(const vram_live_query *query, vram_live_fn *visit, void *user) {
    VR_CALL;
    struct live_search search;
    if (!visit) {
        return vr_fail(VRAM_ERR_INVALID, "the function to call is NULL");
    }
    vram_status status = search_begin(&search, query);
    if (status == VRAM_OK) {
        if (search.query.order == VRAM_LIVE_ANY) {
            visit_any(&search, visit, user);
        } else {
            status = visit_ordered(&search, visit, user);
        }
        search_end(&search);
    }
    return status;
}

vram_status vram_live_get(vram_addr addr, vram_live_block *block) {
    VR_CALL;
    struct vram_live_block full;
    struct vr_track_view view;
    struct vr_pool *pool;
    uint32_t record;
    vram_status status = vr_pool_record_of(addr, &pool, &record);
    if (status != VRAM_OK) {
        return status;
    }
    if (pool->track && vr_track_look(pool->track, record, &view) && view.addr == addr) {
        describe_block(&view, vr_track_about(pool->track), vr_clock_coarse(), &full);
        status = vr_info_give(block, &full, sizeof full, sizeof full);
    } else {
        status = vr_fail(VRAM_ERR_UNSUPPORTED, "there is no record of the block at 0x%llx",
                         (unsigned long long)addr);
    }
    vr_leave(pool);
    return status;
}

/* --------------------------------------------------------------------- sums */

vram_status vram_live_stats_get(const vram_live_query *query, vram_live_stats *stats) {
    VR_CALL;
    struct vram_live_stats full = {.size = sizeof full};
    struct vr_track_totals one;
    struct live_search search;
    vram_status status = search_begin(&search, query);
    if (status != VRAM_OK) {
        return status;
    }
    for (uint32_t i = 0; i < search.tracks.count; i++) {
        vr_track_totals_get(search.tracks.all[i], &one);
        full.pools++;
        full.live_blocks += one.count;
        full.live_bytes += one.bytes;
        full.held_bytes += one.held;
        full.peak_bytes += one.peak_bytes;
        full.peak_blocks += one.peak_count;
        full.allocs += one.allocs;
        full.frees += one.frees;
        full.resizes += one.resizes;
        full.lost_records += one.lost;
        full.record_bytes += one.record_bytes;
        full.metadata_bytes += one.metadata_bytes;
        full.peak_ns = (vram_value){.known = search.tracks.count == 1, .value = one.peak_ns};
    }
    for (uint32_t i = 0; i < search.tracks.foreign_count; i++) {
        full.foreign_blocks++;
        full.foreign_bytes += search.tracks.foreign[i].requested;
    }
    search_end(&search);
    return vr_info_give(stats, &full, sizeof full, sizeof full);
}

struct groups {
    struct vram_live_group *all;
    uint64_t count, capacity;
    vram_live_by by;
};

static bool is_same(const struct vram_live_group *group, const struct vr_site_key *key,
                    vram_live_by by) {
    switch (by) {
    case VRAM_LIVE_BY_STACK:
        return group->stack == key->stack;
    case VRAM_LIVE_BY_QUEUE:
        return (uintptr_t)group->queue == key->queue;
    default:
        return group->tag == key->tag || (group->tag && key->tag && !strcmp(group->tag, key->tag));
    }
}

/* NULL: host memory ran out. */
static struct vram_live_group *group_of(struct groups *groups, const struct vr_site_key *key) {
    for (uint64_t i = 0; i < groups->count; i++) {
        if (is_same(&groups->all[i], key, groups->by)) {
            return &groups->all[i];
        }
    }
    if (groups->count == groups->capacity) {
        uint64_t capacity = groups->capacity ? 2 * groups->capacity : 64;
        struct vram_live_group *all =
            vr_mem_resize(groups->all, capacity, sizeof *all, vr_operation());
        if (!all) {
            return NULL;
        }
        groups->all = all;
        groups->capacity = capacity;
    }
    struct vram_live_group *made = &groups->all[groups->count++];
    *made = (struct vram_live_group){
        .size = sizeof *made,
        .tag = groups->by == VRAM_LIVE_BY_TAG ? key->tag : NULL,
        .stack = groups->by == VRAM_LIVE_BY_STACK ? key->stack : 0,
        .queue = groups->by == VRAM_LIVE_BY_QUEUE ? (vram_queue *)(uintptr_t)key->queue : NULL,
    };
    return made;
}

static vram_status add_sites(struct groups *groups, const struct live_search *search) {
    struct vr_site sites[16];
    for (uint32_t i = 0; i < search->tracks.count; i++) {
        uint32_t at = 0;
        do {
            uint32_t found = vr_track_sites(search->tracks.all[i], &at, sites, 16);
            for (uint32_t k = 0; k < found; k++) {
                struct vr_track_view like = {.site = sites[k].key};
                struct vr_live_filter tag = {.tag = search->filter.tag, .before_ns = UINT64_MAX};
                if (!vr_live_is(&tag, &like)) {
                    continue;
                }
                struct vram_live_group *group = group_of(groups, &sites[k].key);
                if (!group) {
                    return VRAM_ERR_HOST_MEMORY;
                }
                group->live_blocks += sites[k].count;
                group->live_bytes += sites[k].bytes;
                group->peak_blocks += sites[k].peak_count;
                group->peak_bytes += sites[k].peak_bytes;
            }
        } while (at);
    }
    return VRAM_OK;
}

static vram_status add_records(struct groups *groups, const struct live_search *search) {
    struct vr_live_filter tag = {.tag = search->filter.tag, .before_ns = UINT64_MAX};
    for (uint32_t i = 0; i < search->tracks.foreign_count; i++) {
        const struct vr_track_view *view = &search->tracks.foreign[i];
        if (!vr_live_is(&tag, view)) {
            continue;
        }
        struct vram_live_group *group = group_of(groups, &view->site);
        if (!group) {
            return VRAM_ERR_HOST_MEMORY;
        }
        group->foreign_blocks++;
        group->foreign_bytes += view->requested;
    }
    return VRAM_OK;
}

static int by_peak(const void *one, const void *other) {
    const struct vram_live_group *a = one, *b = other;
    return a->peak_bytes != b->peak_bytes
               ? (a->peak_bytes < b->peak_bytes ? 1 : -1)
               : (a->live_bytes < b->live_bytes) - (a->live_bytes > b->live_bytes);
}

vram_status vram_live_groups(const vram_live_query *query, vram_live_by by,
                             vram_live_group_fn *visit, void *user) {
    VR_CALL;
    VR_UNCANCELLED;
    struct groups groups = {.by = by};
    struct live_search search;
    if (!visit || (unsigned)by > VRAM_LIVE_BY_QUEUE) {
        return vr_fail(VRAM_ERR_INVALID, "%s",
                       visit ? "there is no such grouping" : "the function to call is NULL");
    }
    vram_status status = search_begin(&search, query);
    if (status != VRAM_OK) {
        return status;
    }
    status = add_sites(&groups, &search);
    if (status == VRAM_OK) {
        status = add_records(&groups, &search);
    }
    if (status == VRAM_OK && groups.count) {
        qsort(groups.all, groups.count, sizeof *groups.all, by_peak);
        for (uint64_t i = 0; i < groups.count && visit(user, &groups.all[i]); i++) {
        }
    }
    vr_mem_free(groups.all);
    search_end(&search);
    return status;
}

/* ------------------------------------------------------- stacks and reports */

size_t vram_stack_text(uint32_t stack, char *text, size_t text_bytes) {
    uint64_t frames[VR_STACK_DEPTH];
    uint32_t depth = vr_stack_frames(stack, frames);
    size_t used = 0;
    if (text && text_bytes) {
        text[0] = '\0';
    }
    for (uint32_t i = 0; i < depth; i++) {
        char line[VR_FRAME_TEXT + 1];
        vr_frame_text(frames[i], line);
        size_t bytes = strlen(line);
        line[bytes++] = '\n';
        for (size_t k = 0; k < bytes; k++, used++) {
            if (text && used + 1 < text_bytes) {
                text[used] = line[k];
                text[used + 1] = '\0';
            }
        }
    }
    return used;
}

vram_status vram_leaks_write(const vram_live_query *query, vram_report_format format,
                             vram_write_fn *write, void *user, vram_leak_summary *summary) {
    VR_CALL;
    struct vram_leak_summary full = {.size = sizeof full};
    struct vr_suppressions but;
    struct live_search search;
    struct vr_writer writer;
    char path[VR_OPTION_TEXT_MAX];
    vram_status status = vr_writer_begin(&writer, format, write, user, vr_operation());
    if (status == VRAM_OK && summary) {
        status = vr_info_give(summary, &full, sizeof full, sizeof full);
    }
    if (status == VRAM_OK) {
        status = search_begin(&search, query);
    }
    if (status != VRAM_OK) {
        return status;
    }
    vr_option_text(VR_OPTION_LEAK_SUPPRESSIONS, path);
    status = vr_suppressions_read(path, &but);
    if (status == VRAM_OK) {
        status = vr_leaks_report(&search.tracks, &search.filter, &but, "live blocks", format,
                                 &writer, &full, NULL);
        vr_suppressions_free(&but);
    }
    search_end(&search);
    return status == VRAM_OK && summary ? vr_info_give(summary, &full, sizeof full, sizeof full)
                                        : status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leaks.c: reports of leaks when pools and processes end. See leaks.h.
 */
#include "core/tracking/leaks.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/os/os.h"
#include "base/text.h"
#include "track/leak_output.h"

/* The live blocks of a pool, by tag. */
static void sum_live(struct vr_pool *pool, const struct vr_suppressions *but,
                     struct vr_leak_tags *tags) {
    VR_OPERATION("vram_pool_destroy");
    uint64_t at = 0;
    vr_mutex_lock(&pool->lock);
    for (struct vr_block *block; (block = vr_block_table_next(&pool->table, &at));) {
        const char *tag = vr_tag_name(vr_load(&block->tag, VR_RELAXED));
        if (vr_block_is_live(block) && !vr_suppressed(but, tag)) {
            vr_leak_tags_add(tags, tag, 1, vr_load(&block->requested, VR_RELAXED));
        }
    }
    vr_mutex_unlock(&pool->lock);
}

/* A pool that is not tracked knows sizes and tags of its blocks. */
static void warn_untracked(struct vr_pool *pool, const char *title) {
    struct vr_leak_tags tags = {0};
    struct vram_error error;
    vr_error_save(&error);
    struct vr_suppressions but = vr_leaks_suppressed();
    sum_live(pool, &but, &tags);
    if (tags.blocks) {
        vr_leaks_warn(title, &tags, 0);
    }
    vr_leak_tags_free(&tags);
    vr_suppressions_free(&but);
    vr_error_restore(&error);
}

void vr_leaks_of_pool(struct vr_pool *pool) {
    struct vr_track_totals totals = {0};
    char title[VR_POOL_NAME_MAX + 32];
    struct vr_tracks one = {.all = &pool->track, .count = 1};
    bool warns = vr_log_enabled(VRAM_LOG_WARN);
    (void)vr_text_format(title, sizeof title, "pool \"%s\"", pool->name);
    if (!pool->track && warns) {
        warn_untracked(pool, title);
    } else if (pool->track && (warns || vr_option_number(VR_OPTION_LEAKS))) {
        vr_track_totals_get(pool->track, &totals);
        if (totals.count) {
            vr_leaks_tell(&one, title);
        }
    }
}

/* --------------------------------------------------------------------- exit */

static void report_exit(void) {
    VR_OPERATION("vram_leaks_write");
    static const struct vr_tracks_filter every = {0};
    struct vr_tracks tracks;
    struct vr_track_totals totals;
    uint64_t live = 0;
    if (!vr_tracks_find(&every, &tracks)) {
        return;
    }
    for (uint32_t i = 0; i < tracks.count; i++) {
        vr_track_totals_get(tracks.all[i], &totals);
        live += totals.count;
    }
    if (live) {
        vr_leaks_tell(&tracks, "at exit");
    }
    vr_tracks_let_go(&tracks);
}

void vr_leaks_watch_exit(void) {
    static vr_atomic_bool watched;
    struct vram_error error;
    if (!vr_option_number(VR_OPTION_LEAK_EXIT) || vr_exchange(&watched, true, VR_RELAXED)) {
        return;
    }
    vr_error_save(&error);
    if (vr_os_at_exit(report_exit) != VRAM_OK) {
        vr_store(&watched, false, VR_RELAXED);
        vr_log(VRAM_LOG_ERROR, "leaks will not be reported at exit: %s", vr_error_get()->text);
    }
    vr_error_restore(&error);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leaks.c: reports of leaks when pools and processes end. See leaks.h.
 *
 * Reports go only where the options say. A failure to write one is logged and changes no call's
 * status.
 */
#include "core/tracking/leaks.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/os/os.h"
#include "base/text.h"
#include "track/leak.h"

#include <string.h>

/* A report under construction: it is written in one piece, so that reports of several threads do
   not mix. */
struct leak_text {
    char *text;
    size_t bytes, capacity;
};

static bool text_append(void *user, const char *text, size_t bytes) {
    VR_OPERATION("vram_leaks_write");
    struct leak_text *report = user;
    if (report->capacity - report->bytes < bytes) {
        size_t capacity = 2 * (report->capacity + bytes) + 1024;
        char *grown = vr_mem_resize(report->text, capacity, 1, vr_operation());
        if (!grown) {
            return false;
        }
        report->text = grown;
        report->capacity = capacity;
    }
    memcpy(report->text + report->bytes, text, bytes);
    report->bytes += bytes;
    return true;
}

static void write_report(const struct leak_text *report) {
    char path[VR_OPTION_TEXT_MAX];
    vr_option_text(VR_OPTION_LEAK_FILE, path);
    if (!*path) {
        vr_os_stderr(report->text, report->bytes);
    } else if (vr_os_text_append(path, report->text, report->bytes) != VRAM_OK) {
        vr_log(VRAM_LOG_ERROR, "cannot write the report of leaks to \"%s\": %s", path,
               vr_error_get()->text);
    }
}

/* Reads the suppressions from the file that the option names. A file that cannot be read suppresses
   nothing. */
static struct vr_suppressions read_suppressions(void) {
    VR_OPERATION("vram_leaks_write");
    struct vr_suppressions but;
    char path[VR_OPTION_TEXT_MAX];
    vr_option_text(VR_OPTION_LEAK_SUPPRESSIONS, path);
    if (vr_suppressions_read(path, &but) != VRAM_OK) {
        vr_log(VRAM_LOG_ERROR, "the suppressions of leaks in \"%s\" cannot be read: %s", path,
               vr_error_get()->text);
    } else if (but.bad_lines) {
        vr_log(VRAM_LOG_WARN, "%llu lines of \"%s\" are not suppressions, which begin with leak:",
               (unsigned long long)but.bad_lines, path);
    }
    return but;
}

/* Logs one warning; details are in the report. */
static void warn_leaks(const char *title, struct vr_leak_tags *tags, uint64_t lost) {
    char text[VRAM_ERROR_TEXT_MAX];
    vr_leak_tags_text(tags, text, sizeof text);
    vr_log(VRAM_LOG_WARN, "%s: %s", title, text);
    if (lost) {
        vr_log(VRAM_LOG_WARN, "%s: %llu records were lost because memory ran out", title,
               (unsigned long long)lost);
    }
}

static void report_leaks(const struct vr_tracks *tracks, const char *title) {
    static const struct vr_live_filter all = {.before_ns = UINT64_MAX};
    uint64_t asked = vr_option_number(VR_OPTION_LEAKS); /* 1: text, 2: JSON */
    struct vr_suppressions but = read_suppressions();
    struct vram_leak_summary summary = {0};
    struct vram_error error;
    struct leak_text report = {0};
    struct vr_leak_tags tags = {0};
    struct vr_writer writer = {.write = text_append, .user = &report};
    vr_error_save(&error);
    vram_status status =
        vr_leaks_report(tracks, &all, &but, title, asked == 2 ? VRAM_REPORT_JSON : VRAM_REPORT_TEXT,
                        asked ? &writer : NULL, &summary, &tags);
    if (status != VRAM_OK) {
        vr_log(VRAM_LOG_ERROR, "%s: not enough memory for a report of leaks", title);
    } else if (summary.blocks) {
        warn_leaks(title, &tags, summary.lost_records);
        if (asked) {
            write_report(&report);
        }
    }
    vr_mem_free(report.text);
    vr_leak_tags_free(&tags);
    vr_suppressions_free(&but);
    vr_error_restore(&error);
}

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
    struct vr_suppressions but = read_suppressions();
    sum_live(pool, &but, &tags);
    if (tags.blocks) {
        warn_leaks(title, &tags, 0);
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
            report_leaks(&one, title);
        }
    }
}

void vr_leaks_of_foreign(const struct vr_foreigns *foreigns) {
    VR_OPERATION("vram_context_destroy");
    struct vr_tracks records = {0};
    struct vram_error error;
    bool heard = vr_option_number(VR_OPTION_LEAKS) || vr_log_enabled(VRAM_LOG_WARN);
    if (!foreigns->count || !heard) {
        return;
    }
    vr_error_save(&error);
    if (vr_foreigns_copy(foreigns, &records)) {
        report_leaks(&records, "foreign memory");
    }
    vr_tracks_let_go(&records);
    vr_error_restore(&error);
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
        report_leaks(&tracks, "at exit");
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

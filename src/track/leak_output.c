/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leak_output.c: the warnings and reports of leaks that nobody called for.
 *
 * Reports go only where the options say. A failure to write one is logged and changes no call's
 * status.
 */
#include "track/leak_output.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/os/os.h"

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

struct vr_suppressions vr_leaks_suppressed(void) {
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

void vr_leaks_warn(const char *title, struct vr_leak_tags *tags, uint64_t lost) {
    char text[VRAM_ERROR_TEXT_MAX];
    vr_leak_tags_text(tags, text, sizeof text);
    vr_log(VRAM_LOG_WARN, "%s: %s", title, text);
    if (lost) {
        vr_log(VRAM_LOG_WARN, "%s: %llu records were lost because memory ran out", title,
               (unsigned long long)lost);
    }
}

void vr_leaks_tell(const struct vr_tracks *tracks, const char *title) {
    static const struct vr_live_filter all = {.before_ns = UINT64_MAX};
    uint64_t asked = vr_option_number(VR_OPTION_LEAKS); /* 1: text, 2: JSON */
    struct vr_suppressions but = vr_leaks_suppressed();
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
        vr_leaks_warn(title, &tags, summary.lost_records);
        if (asked) {
            write_report(&report);
        }
    }
    vr_mem_free(report.text);
    vr_leak_tags_free(&tags);
    vr_suppressions_free(&but);
    vr_error_restore(&error);
}

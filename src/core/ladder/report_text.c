/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_text.c: a report for people and for programs; see report.h.
 */
#include "core/ladder/report.h"

#include "base/size_text.h"
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

/* ------------------------------------------------------------------- for people */

/* Text as it grows; what finds no room is counted all the same. */
struct page {
    char *text;
    size_t room, used;
};

static void add(struct page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct page *page, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    size_t left = page->used < page->room ? page->room - page->used : 0;
    int bytes = vsnprintf(left ? page->text + page->used : NULL, left, format, arguments);
    va_end(arguments);
    page->used += bytes > 0 ? (size_t)bytes : 0;
}

static void add_size(struct page *page, const char *before, uint64_t bytes, const char *behind) {
    char text[VRAM_SIZE_TEXT_MAX];
    add(page, "%s%s%s", before, vr_size_format(bytes, text), behind);
}

static void add_value(struct page *page, const char *before, vram_value value, const char *behind) {
    if (value.known) {
        add_size(page, before, value.value, behind);
    } else {
        add(page, "%san unknown amount%s", before, behind);
    }
}

static void add_request(struct page *page, const struct vram_oom_report *report) {
    add(page, "  asked    %llu bytes, aligned to %llu", (unsigned long long)report->asked_bytes,
        (unsigned long long)report->alignment);
    if (*report->tag) {
        add(page, ", for \"%s\"", report->tag);
    }
    add(page, "\n");
}

static void add_device(struct page *page, const struct vram_oom_report *report) {
    add(page, "  device   %s: ", report->device_name);
    add_value(page, "", report->total_bytes, " in all, ");
    add_value(page, "", report->free_bytes, " free, ");
    add_size(page, "", report->process_bytes, " held here, ");
    add_value(page, "", report->others_bytes, " by others");
    if (report->processes_bytes.known && report->others_bytes.value) {
        add_size(page, " (", report->processes_bytes.value, " by other processes)");
    }
    add(page, "\n");
    if (report->limit_bytes.known) {
        add_size(page, "  limit    ", report->limit_bytes.value, " for this pool");
        add(page, " (%s)\n", report->limit_name);
    }
    if (*report->quota_tag) {
        add_size(page, "  quota    ", report->quota_bytes, "");
        add(page, " for \"%s\"", report->quota_tag);
        add_size(page, ", which has ", report->quota_used_bytes, "\n");
    }
}

static void add_part(struct page *page, uint64_t bytes, const char *what) {
    if (bytes) {
        add_size(page, ", ", bytes, what);
    }
}

static void add_pool(struct page *page, const struct vram_oom_report *report) {
    add(page, "  pool     \"%s\": ", report->pool_name);
    add_size(page, "", report->reserved_bytes, " held, ");
    add_size(page, "", report->live_bytes, " live");
    add_part(page, report->rounding_bytes, " of it by rounding");
    add_part(page, report->cached_bytes, " at hand in threads");
    add_part(page, report->asleep_bytes, " asleep");
    add_part(page, report->pending_bytes, " pending");
    add_part(page, report->pinned_bytes, " freed but pinned");
    add_part(page, report->unused_bytes, " unused");
    if (report->unused_bytes) {
        add_size(page, " (largest piece ", report->largest_bytes, "");
        if (report->elsewhere_bytes) {
            add_size(page, ", ", report->elsewhere_bytes, " among blocks of other sizes");
        }
        if (report->spare_bytes) {
            add_size(page, ", ", report->spare_bytes, " mapped nowhere");
        }
        add(page, ")");
    }
    add_part(page, report->lost_bytes, " lost");
    add_part(page, report->fallback_bytes, " of other memory");
    add(page, "\n");
}

static void add_addresses(struct page *page, const struct vram_oom_report *report) {
    if (report->cause == VRAM_OOM_ADDRESSES) {
        add_size(page, "  range    ", report->address_bytes, " of addresses for such blocks, ");
        add_size(page, "", report->longest_bytes, " free in one run\n");
    }
}

static void add_lists(struct page *page, const struct vram_oom_report *report) {
    for (uint32_t i = 0; i < report->queue_count; i++) {
        add_size(page, "  pending  ", report->queues[i].bytes, "");
        add(page, " on queue 0x%llx\n", (unsigned long long)(uintptr_t)report->queues[i].queue);
    }
    for (uint32_t i = 0; i < report->pool_count; i++) {
        add(page, "  pools    \"%s\": ", report->pools[i].name);
        add_size(page, "", report->pools[i].reserved_bytes, " held, ");
        add_size(page, "", report->pools[i].free_bytes, " of it unused\n");
    }
    for (uint32_t i = 0; i < report->holder_count; i++) {
        const struct vram_oom_holder *holder = &report->holders[i];
        add(page,
            *holder->tag ? "  holders  \"%s\": " : "  holders  %swithout a tag: ", holder->tag);
        add_size(page, "", holder->bytes, "");
        add(page, " in %llu block%s\n", (unsigned long long)holder->blocks,
            holder->blocks == 1 ? "" : "s");
    }
}

static void add_steps(struct page *page, const struct vram_oom_report *report) {
    add(page, "  ladder   ");
    for (uint32_t i = 0; i < report->step_count; i++) {
        const struct vram_oom_step *step = &report->steps[i];
        add(page, "%s%s", i ? ", " : "", vr_ladder_step_name(step->step));
        if (!step->taken) {
            add(page, " -");
        } else if (step->bytes) {
            add_size(page, " ", step->bytes, "");
        } else if (step->step != VRAM_LADDER_RETRY) {
            add(page, " 0");
        }
    }
    add(page, "%s\n", report->step_count ? "" : "no step was taken");
}

static bool is_report(const struct vram_oom_report *report) {
    return report && report->size >= sizeof *report && report->number;
}

size_t vram_oom_report_text(const vram_oom_report *report, char *text, size_t text_bytes) {
    struct page page = {.text = text, .room = text ? text_bytes : 0};
    if (page.room) {
        *text = '\0';
    }
    if (!is_report(report)) {
        return 0;
    }
    add(&page, "%s\n", report->summary);
    add_request(&page, report);
    add_device(&page, report);
    add_pool(&page, report);
    add_addresses(&page, report);
    add_lists(&page, report);
    add_steps(&page, report);
    add(&page, "  error    %s: %s\n", vr_status_name(report->status), report->error);
    add(&page, "  help     %s\n", report->advice);
    return page.used;
}

/* ----------------------------------------------------------------- for programs */

static void write_request(const struct vram_oom_report *report, vram_json *json) {
    vram_json_object_begin(json, "request");
    vram_json_text(json, "pool", report->pool_name);
    vram_json_text(json, "tag", *report->tag ? report->tag : NULL);
    vram_json_unsigned(json, "queue", (uintptr_t)report->queue);
    vram_json_unsigned(json, "asked_bytes", report->asked_bytes);
    vram_json_unsigned(json, "needed_bytes", report->needed_bytes);
    vram_json_unsigned(json, "alignment_bytes", report->alignment);
    vram_json_object_end(json);
}

static void write_device(const struct vram_oom_report *report, vram_json *json) {
    vram_json_object_begin(json, "device");
    vram_json_text(json, "name", report->device_name);
    vram_json_value(json, "total_bytes", report->total_bytes);
    vram_json_value(json, "free_bytes", report->free_bytes);
    vram_json_unsigned(json, "process_bytes", report->process_bytes);
    vram_json_value(json, "others_bytes", report->others_bytes);
    vram_json_value(json, "processes_bytes", report->processes_bytes);
    vram_json_value(json, "limit_bytes", report->limit_bytes);
    vram_json_text(json, "limit", *report->limit_name ? report->limit_name : NULL);
    vram_json_object_end(json);
}

static void write_quota(const struct vram_oom_report *report, vram_json *json) {
    if (!*report->quota_tag) {
        vram_json_null(json, "quota");
        return;
    }
    vram_json_object_begin(json, "quota");
    vram_json_text(json, "tag", report->quota_tag);
    vram_json_unsigned(json, "hard_bytes", report->quota_bytes);
    vram_json_unsigned(json, "used_bytes", report->quota_used_bytes);
    vram_json_object_end(json);
}

static void write_pool(const struct vram_oom_report *report, vram_json *json) {
    vram_json_object_begin(json, "pool");
    vram_json_unsigned(json, "reserved_bytes", report->reserved_bytes);
    vram_json_unsigned(json, "live_bytes", report->live_bytes);
    vram_json_unsigned(json, "rounding_bytes", report->rounding_bytes);
    vram_json_unsigned(json, "cached_bytes", report->cached_bytes);
    vram_json_unsigned(json, "unused_bytes", report->unused_bytes);
    vram_json_unsigned(json, "largest_bytes", report->largest_bytes);
    vram_json_unsigned(json, "elsewhere_bytes", report->elsewhere_bytes);
    vram_json_unsigned(json, "spare_bytes", report->spare_bytes);
    vram_json_unsigned(json, "lost_bytes", report->lost_bytes);
    vram_json_unsigned(json, "pending_bytes", report->pending_bytes);
    vram_json_unsigned(json, "pinned_bytes", report->pinned_bytes);
    vram_json_unsigned(json, "asleep_bytes", report->asleep_bytes);
    vram_json_unsigned(json, "fallback_bytes", report->fallback_bytes);
    vram_json_unsigned(json, "stranded_bytes", report->stranded_bytes);
    vram_json_unsigned(json, "address_bytes", report->address_bytes);
    vram_json_unsigned(json, "longest_bytes", report->longest_bytes);
    vram_json_object_end(json);
}

static void write_lists(const struct vram_oom_report *report, vram_json *json) {
    vram_json_array_begin(json, "pending");
    for (uint32_t i = 0; i < report->queue_count; i++) {
        vram_json_object_begin(json, NULL);
        vram_json_unsigned(json, "queue", (uintptr_t)report->queues[i].queue);
        vram_json_unsigned(json, "bytes", report->queues[i].bytes);
        vram_json_object_end(json);
    }
    vram_json_array_end(json);
    vram_json_array_begin(json, "other_pools");
    for (uint32_t i = 0; i < report->pool_count; i++) {
        vram_json_object_begin(json, NULL);
        vram_json_text(json, "name", report->pools[i].name);
        vram_json_unsigned(json, "reserved_bytes", report->pools[i].reserved_bytes);
        vram_json_unsigned(json, "unused_bytes", report->pools[i].free_bytes);
        vram_json_object_end(json);
    }
    vram_json_array_end(json);
    vram_json_array_begin(json, "holders");
    for (uint32_t i = 0; i < report->holder_count; i++) {
        vram_json_object_begin(json, NULL);
        vram_json_text(json, "tag", *report->holders[i].tag ? report->holders[i].tag : NULL);
        vram_json_unsigned(json, "bytes", report->holders[i].bytes);
        vram_json_unsigned(json, "blocks", report->holders[i].blocks);
        vram_json_object_end(json);
    }
    vram_json_array_end(json);
}

static void write_steps(const struct vram_oom_report *report, vram_json *json) {
    vram_json_array_begin(json, "ladder");
    for (uint32_t i = 0; i < report->step_count; i++) {
        vram_json_object_begin(json, NULL);
        vram_json_text(json, "step", vr_ladder_step_name(report->steps[i].step));
        vram_json_unsigned(json, "taken", report->steps[i].taken);
        vram_json_unsigned(json, "bytes", report->steps[i].bytes);
        vram_json_unsigned(json, "ns", report->steps[i].ns);
        vram_json_object_end(json);
    }
    vram_json_array_end(json);
}

void vram_oom_report_json(const vram_oom_report *report, vram_json *json, const char *key) {
    if (!json) {
        return;
    }
    if (!is_report(report)) {
        vram_json_null(json, key);
        return;
    }
    vram_json_object_begin(json, key);
    vram_json_text(json, "schema", "vram.oom/1");
    vram_json_unsigned(json, "number", report->number);
    vram_json_text(json, "status", vr_status_name(report->status));
    vram_json_text(json, "cause", vr_oom_cause_name(report->cause));
    vram_json_text(json, "summary", report->summary);
    vram_json_text(json, "advice", report->advice);
    vram_json_text(json, "error", report->error);
    write_request(report, json);
    write_device(report, json);
    write_quota(report, json);
    write_pool(report, json);
    write_lists(report, json);
    write_steps(report, json);
    vram_json_object_end(json);
}

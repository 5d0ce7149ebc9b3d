/* SPDX-License-Identifier: Apache-2.0 */
/*
 * leak.c: collects, groups and writes leaks. See leak.h.
 */
#include "track/leak.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "track/frame_name.h"
#include "track/stack.h"

#include <stdlib.h>
#include <string.h>

/* Blocks of one tag and stack, or foreign records of one tag: refs[first] to
   refs[first + count - 1]. */
struct group {
    const char *tag;
    uint32_t stack;
    uint64_t first, count, bytes;
    bool suppressed, foreign;
};

struct report {
    const struct vr_tracks *tracks;
    const struct vr_suppressions *but;
    const char *title;
    struct vr_live_ref *refs;
    uint64_t ref_count;
    struct group *groups;
    uint64_t group_count;
    struct vram_leak_summary summary;
    struct vr_writer *writer;
    uint64_t now_ns;
};

/* ----------------------------------------------------------------- grouping */

static int by_key(const void *one, const void *other) {
    const struct vr_live_ref *a = one, *b = other;
    return a->key != b->key ? (a->key < b->key ? -1 : 1) : (a->id > b->id) - (a->id < b->id);
}

static int by_bytes(const void *one, const void *other) {
    const struct group *a = one, *b = other;
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1)
                                : (a->first > b->first) - (a->first < b->first);
}

static bool is_suppressed(const struct report *report, const struct group *group) {
    uint64_t frames[VR_STACK_DEPTH];
    uint32_t depth = report->but->text ? vr_stack_frames(group->stack, frames) : 0;
    bool found = vr_suppressed(report->but, group->tag);
    for (uint32_t i = 0; i < depth && !found; i++) {
        struct vr_code symbol;
        vr_os_code_at(frames[i], &symbol);
        found = vr_suppressed(report->but, vr_frame_name(frames[i])) ||
                vr_suppressed(report->but, symbol.function) ||
                vr_suppressed(report->but, symbol.module) ||
                vr_suppressed(report->but, symbol.source.line ? symbol.source.file : NULL);
    }
    return found;
}

/* A hash of a tag, a stack and whether the memory is foreign; never 0. */
static uint64_t key_of(const struct vr_track_view *view) {
    uint64_t mixed = (uint64_t)(uintptr_t)view->site.tag * UINT64_C(0x9E3779B97F4A7C15);
    mixed = (mixed ^ mixed >> 29 ^ view->site.stack) * UINT64_C(0xBF58476D1CE4E5B9);
    return ((mixed ^ mixed >> 32) & ~(uint64_t)2) | (view->foreign ? 3 : 1);
}

/* Sorts the blocks by key and returns the number of groups. Blocks that were freed meanwhile have
   key 0 and come first. */
static uint64_t sort_refs(struct report *report) {
    struct vr_track_view view;
    uint64_t groups = 0;
    for (uint64_t i = 0; i < report->ref_count; i++) {
        struct vr_live_ref *ref = &report->refs[i];
        ref->key = vr_live_look(report->tracks, ref, &view) ? key_of(&view) : 0;
    }
    if (report->ref_count) {
        qsort(report->refs, report->ref_count, sizeof *report->refs, by_key);
    }
    for (uint64_t i = 0; i < report->ref_count; i++) {
        groups += report->refs[i].key && (i == 0 || report->refs[i].key != report->refs[i - 1].key);
    }
    return groups;
}

static void count_group(struct report *report, struct group *group) {
    struct vram_leak_summary *sum = &report->summary;
    group->suppressed = is_suppressed(report, group);
    *(group->suppressed ? &sum->suppressed_blocks : &sum->blocks) += group->count;
    *(group->suppressed ? &sum->suppressed_bytes : &sum->bytes) += group->bytes;
    sum->groups += !group->suppressed;
    if (group->foreign && !group->suppressed) {
        sum->foreign_blocks += group->count;
        sum->foreign_bytes += group->bytes;
    }
}

static bool make_groups(struct report *report) {
    uint64_t groups = sort_refs(report);
    report->groups = vr_mem_alloc(groups + 1, sizeof *report->groups, vr_operation());
    if (!report->groups) {
        return false;
    }
    for (uint64_t i = 0, key = 0; i < report->ref_count; i++) {
        struct vr_track_view view;
        if (!report->refs[i].key || !vr_live_look(report->tracks, &report->refs[i], &view)) {
            continue;
        }
        if (report->refs[i].key != key) {
            key = report->refs[i].key;
            report->groups[report->group_count++] = (struct group){.tag = view.site.tag,
                                                                   .stack = view.site.stack,
                                                                   .first = i,
                                                                   .foreign = view.foreign};
        }
        struct group *group = &report->groups[report->group_count - 1];
        group->count = i - group->first + 1;
        group->bytes += view.requested;
    }
    for (uint64_t i = 0; i < report->group_count; i++) {
        count_group(report, &report->groups[i]);
    }
    qsort(report->groups, report->group_count, sizeof *report->groups, by_bytes);
    return true;
}

/* --------------------------------------------------------------------- text */

static const char *plural_of(uint64_t count) {
    return count == 1 ? "" : "s";
}

static void block_text(struct report *report, const struct vr_live_ref *ref) {
    struct vr_track_view view;
    if (!vr_live_look(report->tracks, ref, &view)) {
        return;
    }
    uint64_t age = report->now_ns > view.time_ns ? report->now_ns - view.time_ns : 0;
    if (view.foreign) {
        vr_writer_line(report->writer, "    foreign record %llu: %llu bytes%s%s%s, %llu ms old",
                       (unsigned long long)view.id, (unsigned long long)view.requested,
                       view.name[0] ? " \"" : "", view.name, view.name[0] ? "\"" : "",
                       (unsigned long long)(age / 1000000));
        return;
    }
    vr_writer_line(report->writer,
                   "    #%llu at 0x%llx: %llu bytes (%llu held)%s%s%s, %llu ms old, thread %llu",
                   (unsigned long long)view.id, (unsigned long long)view.addr,
                   (unsigned long long)view.requested, (unsigned long long)view.held,
                   view.name[0] ? " \"" : "", view.name, view.name[0] ? "\"" : "",
                   (unsigned long long)(age / 1000000), (unsigned long long)view.thread);
}

static void group_text(struct report *report, const struct group *group) {
    uint64_t frames[VR_STACK_DEPTH];
    vr_writer_line(report->writer, "  %llu bytes in %llu %s%s, tag %s%s%s",
                   (unsigned long long)group->bytes, (unsigned long long)group->count,
                   group->foreign ? "foreign record" : "block", plural_of(group->count),
                   group->tag ? "\"" : "", group->tag ? group->tag : "none",
                   group->tag ? "\"" : "");
    uint32_t depth = vr_stack_frames(group->stack, frames);
    for (uint32_t i = 0; i < depth; i++) {
        char text[VR_FRAME_TEXT];
        vr_frame_text(frames[i], text);
        vr_writer_line(report->writer, "    at %s", text);
    }
    for (uint64_t i = 0; i < group->count; i++) {
        block_text(report, &report->refs[group->first + i]);
    }
}

static vram_status write_text(struct report *report) {
    const struct vram_leak_summary *sum = &report->summary;
    vr_writer_line(report->writer, "libvram: %s: %llu bytes in %llu block%s never freed",
                   report->title, (unsigned long long)sum->bytes, (unsigned long long)sum->blocks,
                   sum->blocks == 1 ? " was" : "s were");
    for (uint64_t i = 0; i < report->group_count; i++) {
        if (!report->groups[i].suppressed) {
            group_text(report, &report->groups[i]);
        }
    }
    if (sum->suppressed_blocks) {
        vr_writer_line(report->writer, "  suppressed: %llu bytes in %llu block%s",
                       (unsigned long long)sum->suppressed_bytes,
                       (unsigned long long)sum->suppressed_blocks,
                       plural_of(sum->suppressed_blocks));
    }
    if (sum->lost_records) {
        vr_writer_line(
            report->writer,
            "  %llu records were lost because memory ran out: blocks may be missing here",
            (unsigned long long)sum->lost_records);
    }
    return vr_writer_end(report->writer, "vram_leaks_write");
}

/* --------------------------------------------------------------------- JSON */

static void block_json(struct report *report, struct vr_json *json, const struct vr_live_ref *ref) {
    struct vr_track_view view;
    if (!vr_live_look(report->tracks, ref, &view)) {
        return;
    }
    const struct vr_track_config *about = vr_live_about(report->tracks, ref);
    vr_json_object_begin(json, NULL);
    vr_json_unsigned(json, "id", view.id);
    vr_json_text(json, "pool", about ? about->name : NULL);
    vr_json_address(json, "address", view.addr);
    vr_json_unsigned(json, "requested_bytes", view.requested);
    vr_json_unsigned(json, "held_bytes", view.held);
    vr_json_unsigned(json, "elements", view.elements);
    vr_json_text(json, "name", view.name[0] ? view.name : NULL);
    vr_json_text(json, "kind", vr_memory_name(view.memory));
    vr_json_unsigned(json, "thread", view.thread);
    vr_json_unsigned(json, "age_ns",
                     report->now_ns > view.time_ns ? report->now_ns - view.time_ns : 0);
    vr_json_object_end(json);
}

static void group_json(struct report *report, struct vr_json *json, const struct group *group) {
    uint64_t frames[VR_STACK_DEPTH];
    vr_json_object_begin(json, NULL);
    vr_json_text(json, "tag", group->tag);
    vr_json_unsigned(json, "bytes", group->bytes);
    vr_json_unsigned(json, "blocks", group->count);
    vr_json_bool(json, "foreign", group->foreign);
    vr_json_array_begin(json, "stack");
    uint32_t depth = vr_stack_frames(group->stack, frames);
    for (uint32_t i = 0; i < depth; i++) {
        char text[VR_FRAME_TEXT];
        vr_frame_text(frames[i], text);
        vr_json_text(json, NULL, text);
    }
    vr_json_array_end(json);
    vr_json_array_begin(json, "live");
    for (uint64_t i = 0; i < group->count; i++) {
        block_json(report, json, &report->refs[group->first + i]);
    }
    vr_json_array_end(json);
    vr_json_object_end(json);
}

static vram_status write_json(struct report *report) {
    const struct vram_leak_summary *sum = &report->summary;
    struct vr_json json;
    vr_json_document_begin(&json, report->writer);
    vr_json_object_begin(&json, NULL);
    vr_json_text(&json, "schema", "vram.leaks/1");
    vr_json_text(&json, "of", report->title);
    vr_json_unsigned(&json, "bytes", sum->bytes);
    vr_json_unsigned(&json, "blocks", sum->blocks);
    vr_json_unsigned(&json, "suppressed_bytes", sum->suppressed_bytes);
    vr_json_unsigned(&json, "suppressed_blocks", sum->suppressed_blocks);
    vr_json_unsigned(&json, "foreign_bytes", sum->foreign_bytes);
    vr_json_unsigned(&json, "foreign_blocks", sum->foreign_blocks);
    vr_json_unsigned(&json, "lost_records", sum->lost_records);
    vr_json_array_begin(&json, "groups");
    for (uint64_t i = 0; i < report->group_count; i++) {
        if (!report->groups[i].suppressed) {
            group_json(report, &json, &report->groups[i]);
        }
    }
    vr_json_array_end(&json);
    vr_json_object_end(&json);
    return vr_json_document_end(&json, "vram_leaks_write");
}

/* ----------------------------------------------------------------------- all */

vram_status vr_leaks_report(const struct vr_tracks *tracks, const struct vr_live_filter *filter,
                            const struct vr_suppressions *but, const char *title,
                            vram_report_format format, struct vr_writer *writer,
                            struct vram_leak_summary *summary, struct vr_leak_tags *tags) {
    VR_OPERATION("vram_leaks_write");
    struct report report = {.tracks = tracks,
                            .but = but,
                            .title = title,
                            .writer = writer,
                            .summary.size = sizeof report.summary,
                            .now_ns = vr_clock_coarse()};
    vram_status status = VRAM_ERR_HOST_MEMORY;
    for (uint32_t i = 0; i < tracks->count; i++) {
        struct vr_track_totals totals;
        vr_track_totals_get(tracks->all[i], &totals);
        report.summary.lost_records += totals.lost;
    }
    if (vr_live_gather(tracks, filter, &report.refs, &report.ref_count) && make_groups(&report)) {
        status = !writer                      ? VRAM_OK
                 : format == VRAM_REPORT_JSON ? write_json(&report)
                                              : write_text(&report);
    }
    if (status == VRAM_OK) {
        *summary = report.summary;
    }
    for (uint64_t i = 0; i < report.group_count && tags; i++) {
        const struct group *group = &report.groups[i];
        if (!group->suppressed) {
            vr_leak_tags_add(tags, group->tag, group->count, group->bytes);
        }
    }
    vr_mem_free(report.refs);
    vr_mem_free(report.groups);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_json.c: the report of `vram run` for programs; see run_report.h and
 * docs/schema/vram.run-1.schema.json.
 */
#include "output.h"
#include "report/report_view.h"
#include "run_report.h"

#include <stdlib.h>
#include <string.h>

static void write_group(struct run_history *history, const struct history_group *group,
                        struct json_out *json) {
    const char *frame;
    json_object_begin(json, NULL);
    json_text(json, "library", group->tag[0] != 0 ? group->tag : NULL);
    json_unsigned(json, "peak_bytes", group->peak_bytes);
    json_unsigned(json, "peak_blocks", group->peak_blocks);
    json_unsigned(json, "never_freed_bytes", group->bytes + group->lost_bytes);
    json_unsigned(json, "never_freed_blocks", group->blocks + group->lost_blocks);
    json_unsigned(json, "allocs", group->allocs);
    json_unsigned(json, "alloc_bytes", group->alloc_bytes);
    json_array_begin(json, "frames");
    for (uint32_t i = 0; (frame = report_input_frame(&history->input, group->stack, i)) != NULL;
         i++) {
        json_text(json, NULL, frame);
    }
    json_array_end(json);
    json_object_end(json);
}

static void write_part(struct run_report *report, struct run_history *history, enum run_part part,
                       const char *key, struct json_out *json) {
    const struct history *from = &history->parts[part];
    struct run_leaks leaks;
    size_t count;
    run_leaks_sum(report, history, part, &leaks);
    if (part != RUN_PART_DRIVER && part != RUN_PART_OTHER) {
        report->leaked_blocks += leaks.blocks;
        report->leaked_bytes += leaks.bytes;
    }
    json_object_begin(json, key);
    json_unsigned(json, "peak_bytes", from->peak_bytes);
    json_unsigned(json, "peak_blocks", from->peak_blocks);
    json_unsigned(json, "peak_ns", from->peak_ns);
    json_unsigned(json, "never_freed_bytes", leaks.bytes);
    json_unsigned(json, "never_freed_blocks", leaks.blocks);
    json_unsigned(json, "suppressed_blocks", leaks.suppressed);
    json_unsigned(json, "allocs", from->allocs);
    json_unsigned(json, "frees", from->frees);
    json_unsigned(json, "alloc_bytes", from->alloc_bytes);
    json_unsigned(json, "brief_blocks", from->brief);
    const struct history_group **groups = report_order(from, ORDER_CHURN, &count);
    json_array_begin(json, "groups");
    for (size_t i = 0; groups != NULL && i < count; i++) {
        write_group(history, groups[i], json);
    }
    json_array_end(json);
    free(groups);
    json_object_end(json);
}

static void write_device(const struct run_device_view *device, struct json_out *json) {
    json_object_begin(json, NULL);
    json_text(json, "api", device->api);
    json_unsigned(json, "ordinal", device->ordinal);
    json_text(json, "name", device->name[0] != 0 ? device->name : NULL);
    json_value(json, "total_bytes", (vram_value){device->total, device->total != 0});
    json_unsigned(json, "counted_bytes", device->counted);
    json_unsigned(json, "counted_peak_bytes", device->counted_peak);
    json_object_begin(json, "peak_bytes_by_kind");
    for (unsigned i = 0; i < RUN_KINDS; i++) {
        json_unsigned(json, run_kind_name(i), device->peak[i]);
    }
    json_object_end(json);
    if (device->figures) {
        json_object_begin(json, "driver");
        json_unsigned(json, "used_bytes", device->driver_used);
        json_unsigned(json, "counted_bytes", device->counted_then);
        json_unsigned(json, "first_bytes", device->driver_first);
        json_value(json, "context_bytes", device->own_first);
        json_signed(json, "unexplained_bytes", device->unexplained);
        json_object_end(json);
    } else {
        json_null(json, "driver");
    }
    json_object_end(json);
}

static void write_slot(struct run_report *report, const struct run_slot *slot,
                       struct json_out *json) {
    char path[RUN_PATH], command[RUN_NAME];
    struct run_device_view device;
    struct run_history *history = calloc(1, sizeof *history);
    run_page_text(slot->trace, sizeof slot->trace, path);
    run_page_text(slot->command, sizeof slot->command, command);
    bool recorded = atomic_load(&slot->recorded) == 1;
    bool good = recorded && history != NULL && run_history_read(history, path);
    run_report_doubt(report, slot, good ? history : NULL);
    run_trace_warn(slot, history);
    json_object_begin(json, NULL);
    json_signed(json, "pid", atomic_load(&slot->pid));
    json_text(json, "command", command);
    json_bool(json, "ended", atomic_load(&slot->state) == RUN_ENDED);
    json_text(json, "trace", recorded ? path : NULL);
    json_unsigned(json, "allocs", atomic_load(&slot->allocs));
    json_unsigned(json, "frees", atomic_load(&slot->frees));
    json_unsigned(json, "refusals", atomic_load(&slot->refusals));
    json_unsigned(json, "limit_refusals", atomic_load(&slot->limit_refusals));
    json_unsigned(json, "unknown_frees", atomic_load(&slot->strangers));
    json_unsigned(json, "unknown_entry_points", atomic_load(&slot->unknown));
    json_array_begin(json, "devices");
    for (unsigned i = 0; i < RUN_DEVICES; i++) {
        if (run_device_view(slot, i, &device)) {
            write_device(&device, json);
        }
    }
    json_array_end(json);
    if (good) {
        json_unsigned(json, "lost_events", history->parts[RUN_PART_PROGRAM].lost_events);
        write_part(report, history, RUN_PART_PROGRAM, "device_memory", json);
        write_part(report, history, RUN_PART_DRIVER, "driver_memory", json);
        write_part(report, history, RUN_PART_HOST, "host_memory", json);
        write_part(report, history, RUN_PART_SERVED, "served_memory", json);
        write_part(report, history, RUN_PART_OTHER, "other_memory", json);
    }
    json_object_end(json);
    if (history != NULL) {
        run_history_free(history);
        free(history);
    }
}

bool run_report_write(struct run_report *report) {
    struct json_out json;
    output_json_begin(&json, "vram.run/1");
    json_array_begin(&json, "command");
    for (size_t i = 0; report->words[i] != NULL; i++) {
        json_text(&json, NULL, report->words[i]);
    }
    json_array_end(&json);
    json_unsigned(&json, "wall_ns", report->wall_ns);
    json_bool(&json, "running", report->running);
    json_signed(&json, "exit_code", report->exit_code);
    json_value(&json, "signal", (vram_value){(uint64_t)report->signal, report->signal != 0});
    json_value(
        &json, "limit_bytes",
        (vram_value){report->page->settings.limit_bytes, report->page->settings.limit_bytes != 0});
    json_bool(&json, "serve", report->page->settings.serve != 0);
    json_unsigned(&json, "programs", atomic_load(&report->page->processes));
    json_unsigned(&json, "opencl_without_layer",
                  atomic_load(&report->page->unlayered[RUN_OPENCL - 1]));
    json_unsigned(&json, "vulkan_without_layer",
                  atomic_load(&report->page->unlayered[RUN_VULKAN - 1]));
    json_array_begin(&json, "processes");
    for (unsigned i = 0; i < RUN_SLOTS; i++) {
        if (atomic_load(&report->page->slots[i].pid) > 0) {
            write_slot(report, &report->page->slots[i], &json);
        }
    }
    json_array_end(&json);
    json_unsigned(&json, "never_freed_blocks", report->leaked_blocks);
    json_unsigned(&json, "never_freed_bytes", report->leaked_bytes);
    json_text(&json, "in_doubt", report->doubt[0] != 0 ? report->doubt : NULL);
    return output_json_end(&json);
}

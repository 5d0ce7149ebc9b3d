/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_view.c: figures from the page and the traces of `vram run`, for text and JSON alike. The page
 * is shared with other programs, so nothing in it is trusted to make sense.
 */
#include "output.h"
#include "run_report.h"

#include <stdio.h>
#include <string.h>

void run_page_text(const char *from, size_t bytes, char *to) {
    size_t length = strnlen(from, bytes - 1);
    memcpy(to, from, length);
    to[length] = 0;
}

const char *run_kind_name(unsigned kind) {
    static const char *const names[RUN_KINDS] = {
        "device",  "stream-ordered", "physical", "managed",     "array",      "code",
        "context", "served",         "imported", "pinned host", "registered", "host"};
    return kind < RUN_KINDS ? names[kind] : "unknown";
}

static const char *api_name(uint32_t api) {
    static const char *const names[] = {"cuda", "hip", "opencl", "vulkan"};
    return api >= 1 && api <= RUN_APIS ? names[api - 1] : NULL;
}

static uint64_t less(uint64_t from, uint64_t by) {
    return from > by ? from - by : 0;
}

/* What the driver said, against what was counted. */
static void figures_view(const struct run_device *device, struct run_device_view *view) {
    view->figures = atomic_load(&device->least.time_ns) != 0 &&
                    atomic_load(&device->first.time_ns) != 0 && view->total != 0;
    if (!view->figures) {
        return;
    }
    uint64_t before = atomic_load(&device->before);
    uint64_t counted_first = atomic_load(&device->first.counted);
    view->driver_used = less(view->total, atomic_load(&device->least.free));
    view->driver_first = less(view->total, atomic_load(&device->first.free));
    view->counted_then = atomic_load(&device->least.counted);
    uint64_t at_first = less(view->driver_first, counted_first);
    view->own_first = (vram_value){less(at_first, less(before, 1)), before != 0};
    view->unexplained =
        (int64_t)view->driver_used - (int64_t)at_first - (int64_t)view->counted_then;
}

bool run_device_view(const struct run_slot *slot, unsigned number, struct run_device_view *view) {
    const struct run_device *device = &slot->devices[number];
    memset(view, 0, sizeof *view);
    view->api = api_name(atomic_load(&device->api));
    if (view->api == NULL) {
        return false;
    }
    view->ordinal = device->ordinal;
    run_page_text(device->name, sizeof device->name, view->name);
    view->total = atomic_load(&device->total);
    view->counted = atomic_load(&device->counted);
    view->counted_peak = atomic_load(&device->counted_peak);
    for (unsigned i = 0; i < RUN_KINDS; i++) {
        view->live[i] = atomic_load(&device->live[i]);
        view->peak[i] = atomic_load(&device->peak[i]);
    }
    figures_view(device, view);
    return true;
}

/* Bytes that nobody has freed so far, of the kinds that programs free. */
static uint64_t slot_live(const struct run_slot *slot) {
    uint64_t live = 0;
    for (unsigned i = 0; i < RUN_DEVICES; i++) {
        for (unsigned kind = 0; kind < RUN_KINDS; kind++) {
            bool own = kind != RUN_CODE && kind != RUN_CONTEXT && kind != RUN_IMPORTED;
            live |= own ? atomic_load(&slot->devices[i].live[kind]) : 0;
        }
    }
    return live;
}

void run_report_doubt(struct run_report *report, const struct run_slot *slot,
                      const struct run_history *history) {
    char command[RUN_NAME], path[RUN_PATH];
    uint64_t lost = history != NULL ? history->parts[RUN_PART_PROGRAM].lost_events : 0;
    uint32_t slotless = atomic_load(&report->page->slotless);
    if (slot == NULL) {
        report->doubt[0] = 0;
        if (atomic_load(&report->page->processes) == 0) {
            snprintf(report->doubt, sizeof report->doubt,
                     "the loader did not load the library into %s", report->words[0]);
        } else if (slotless > 0) {
            snprintf(report->doubt, sizeof report->doubt,
                     "%u processes that used a device are more than are recorded", slotless);
        } else if (report->lost_programs > 0) {
            snprintf(report->doubt, sizeof report->doubt,
                     "programs of another user or in a container lost the page's descriptor: %u",
                     report->lost_programs);
        }
        return;
    }
    if (report->doubt[0] != 0 || (history != NULL && lost == 0) || slot_live(slot) == 0) {
        return;
    }
    run_page_text(slot->command, sizeof slot->command, command);
    run_page_text(slot->trace, sizeof slot->trace, path);
    if (lost > 0) {
        snprintf(report->doubt, sizeof report->doubt, "%s lost %llu events", path,
                 (unsigned long long)lost);
    } else if (atomic_load(&slot->recorded) == 0) {
        snprintf(report->doubt, sizeof report->doubt,
                 "the child %s was not recorded: --follow-children records it", command);
    } else {
        snprintf(report->doubt, sizeof report->doubt, "there is no trace at %s", path);
    }
}

void run_trace_problem(const struct run_slot *slot, const struct run_history *history,
                       char text[RUN_PROBLEM]) {
    char told[sizeof slot->problem];
    run_page_text(slot->problem, sizeof slot->problem, told);
    bool refused = atomic_load(&slot->recorded) == 2 && told[0] != 0;
    snprintf(text, RUN_PROBLEM, "%s",
             refused           ? told
             : history != NULL ? history->problem
                               : "out of host memory");
}

void run_trace_warn(const struct run_slot *slot, const struct run_history *history) {
    char path[RUN_PATH], problem[RUN_PROBLEM];
    uint64_t lost = history != NULL ? history->parts[RUN_PART_PROGRAM].lost_events : 0;
    run_page_text(slot->trace, sizeof slot->trace, path);
    if (atomic_load(&slot->recorded) == 0 || strcmp(path, "/dev/null") == 0) {
        return;
    }
    run_trace_problem(slot, history, problem);
    if (problem[0] != 0) {
        say_warning("no trace at %s: %s", path, problem);
    } else if (lost > 0) {
        say_warning("%s lost %llu events: the disk was full or slow", path,
                    (unsigned long long)lost);
    }
}

bool run_leak_is_out(const struct run_report *report, struct run_history *history,
                     const struct history_group *group) {
    return strcmp(group->tag, RUN_POOL_OWNER) == 0 ||
           run_suppressed(report->suppressions, &history->input, group);
}

void run_leaks_sum(const struct run_report *report, struct run_history *history, enum run_part part,
                   struct run_leaks *sum) {
    const struct history *from = &history->parts[part];
    *sum = (struct run_leaks){0};
    for (size_t i = 0; i < from->group_count; i++) {
        const struct history_group *group = &from->groups[i];
        uint64_t blocks = group->blocks + group->lost_blocks;
        if (blocks == 0) {
            continue;
        }
        if (strcmp(group->tag, RUN_POOL_OWNER) == 0) {
            continue;
        }
        if (run_leak_is_out(report, history, group)) {
            sum->suppressed += blocks;
        } else {
            sum->blocks += blocks;
            sum->bytes += group->bytes + group->lost_bytes;
        }
    }
}

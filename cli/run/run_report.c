/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_report.c: the report of `vram run` as text; see run_report.h.
 */
#include "run_report.h"
#include "report/report_view.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_COLUMNS = 30, SIZE_COLUMNS = 12, FIGURE_COLUMNS = 14, TOP = 8, LEAKS_TOP = 1000 };

static void print_title(const struct run_report *report, const char *text) {
    printf("\n");
    terminal_print(report->terminal, STYLE_BOLD, "%s", text);
    printf("\n");
}

static void print_line(const struct run_report *report, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void print_line(const struct run_report *report, const char *name, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    printf("  ");
    terminal_cell(report->terminal, STYLE_DIM, FIGURE_COLUMNS, "%s", name);
    terminal_print(report->terminal, STYLE_PLAIN, "%s", text);
    printf("\n");
}

static const char *plural(uint64_t count) {
    return count == 1 ? "" : "s";
}

/* ------------------------------------------------------------------------- rows */

/* `whole` is not 0: a part that holds nothing has no rows. */
static void print_row(const struct run_report *report, const char *name, uint64_t bytes,
                      uint64_t whole, uint64_t blocks) {
    char size[VRAM_SIZE_TEXT_MAX];
    printf("  ");
    terminal_cell(report->terminal, STYLE_PLAIN, NAME_COLUMNS, "%.60s", name);
    terminal_print(report->terminal, STYLE_ACCENT, "%*s", SIZE_COLUMNS,
                   vram_size_format(bytes, size));
    printf("%6.1f %%%10" PRIu64 "\n", (double)bytes / (double)whole * 100, blocks);
}

static void print_heads(const struct run_report *report, const char *name) {
    printf("  ");
    terminal_cell(report->terminal, STYLE_DIM, NAME_COLUMNS, "%s", name);
    terminal_print(report->terminal, STYLE_DIM, "%*s%8s%10s", SIZE_COLUMNS, "bytes", "share",
                   "blocks");
    printf("\n");
}

struct owner {
    const char *name;
    uint64_t bytes, blocks;
};

static int by_bytes(const void *one, const void *other) {
    const struct owner *a = one, *b = other;
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : strcmp(a->name, b->name);
}

/* Which library had what at the peak: the program's own allocator is one of the rows, and what
   others took beside it are the rest. */
static void print_owners(const struct run_report *report, const char *title,
                         const struct history *history) {
    struct owner *owners = calloc(history->group_count + 1, sizeof *owners);
    size_t count = 0;
    for (size_t i = 0; owners != NULL && i < history->group_count; i++) {
        const struct history_group *group = &history->groups[i];
        size_t at = 0;
        while (at < count && strcmp(owners[at].name, group->tag) != 0) {
            at++;
        }
        owners[at].name = group->tag;
        owners[at].bytes += group->peak_bytes;
        owners[at].blocks += group->peak_blocks;
        count += at == count;
    }
    if (count > 0) {
        qsort(owners, count, sizeof *owners, by_bytes);
        print_title(report, title);
        print_heads(report, "library");
    }
    for (size_t i = 0; i < count && i < TOP && owners[i].blocks > 0; i++) {
        print_row(report, owners[i].name[0] != 0 ? owners[i].name : "unknown", owners[i].bytes,
                  history->peak_bytes, owners[i].blocks);
    }
    free(owners);
}

/* --------------------------------------------------------------------- sections */

/* The device memory of the program's own calls. */
static void print_program(const struct run_report *report, struct run_history *history) {
    const struct history *program = &history->parts[RUN_PART_PROGRAM];
    char size[VRAM_SIZE_TEXT_MAX], other[VRAM_SIZE_TEXT_MAX], duration[DURATION_TEXT_MAX];
    if (program->allocs == 0 && program->peak_blocks == 0) {
        print_line(report, "nothing", "was allocated from a device%s",
                   report->running ? " yet" : "");
        return;
    }
    print_line(report, "peak", "%s of device memory in %" PRIu64 " block%s, after %s",
               vram_size_format(program->peak_bytes, size), program->peak_blocks,
               plural(program->peak_blocks), duration_format(program->peak_ns, duration));
    struct run_leaks leaks;
    run_leaks_sum(report, history, RUN_PART_PROGRAM, &leaks);
    print_line(report, report->running ? "live now" : "never freed", "%s in %" PRIu64 " block%s%s",
               vram_size_format(leaks.bytes, size), leaks.blocks, plural(leaks.blocks),
               leaks.suppressed > 0 ? ", others are suppressed" : "");
    print_line(
        report, "churn",
        "%" PRIu64 " allocation%s of %s in all, the largest %s; %" PRIu64 " freed within 10 ms",
        program->allocs, plural(program->allocs), vram_size_format(program->alloc_bytes, size),
        vram_size_format(program->largest_bytes, other), program->brief);
}

static void print_figures(const struct run_report *report, const struct run_slot *slot,
                          struct run_history *history) {
    const struct history *program = &history->parts[RUN_PART_PROGRAM];
    char size[VRAM_SIZE_TEXT_MAX], other[VRAM_SIZE_TEXT_MAX];
    uint64_t limited = atomic_load(&slot->limit_refusals), refused = atomic_load(&slot->refusals);
    struct run_leaks leaks;
    print_program(report, history);
    if (limited > 0 || refused > 0) {
        print_line(report, "refused", "%" PRIu64 " by the limit of %s, %" PRIu64 " by the driver",
                   limited, vram_size_format(report->page->settings.limit_bytes, size), refused);
    }
    if (history->parts[RUN_PART_HOST].peak_bytes > 0) {
        run_leaks_sum(report, history, RUN_PART_HOST, &leaks);
        print_line(report, "host memory", "%s page-locked at the peak, %s never freed",
                   vram_size_format(history->parts[RUN_PART_HOST].peak_bytes, size),
                   vram_size_format(leaks.bytes, other));
    }
    if (program->lost_events > 0) {
        print_line(report, "lost", "%" PRIu64 " events: the disk was full or slow",
                   program->lost_events);
    }
}

static void print_part(const struct run_report *report, int64_t bytes, const char *what) {
    char size[VRAM_SIZE_TEXT_MAX];
    if (bytes != 0) {
        vram_size_format(bytes < 0 ? (uint64_t)-bytes : (uint64_t)bytes, size);
        print_line(report, "", "%s%s %s", bytes < 0 ? "-" : "", size, what);
    }
}

/* The driver's own figure, and what it is made of. */
static void print_device(const struct run_report *report, const struct run_device_view *device) {
    char size[VRAM_SIZE_TEXT_MAX], other[VRAM_SIZE_TEXT_MAX];
    printf("\n");
    terminal_print(report->terminal, STYLE_BOLD, "%s:%u %s", device->api, device->ordinal,
                   device->name);
    printf("\n");
    if (device->counted_peak > 0) {
        print_line(report, "counted", "%s at the peak, %s now",
                   vram_size_format(device->counted_peak, size),
                   vram_size_format(device->counted, other));
    }
    for (unsigned i = 0; i < RUN_KINDS; i++) {
        if (device->peak[i] > 0) {
            print_line(report, "", "%s %s at its own peak", vram_size_format(device->peak[i], size),
                       run_kind_name(i));
        }
    }
    if (!device->figures) {
        print_line(report, "driver", "was never asked how much memory is free");
        return;
    }
    print_line(report, "driver says", "%s of %s in use when the least was free",
               vram_size_format(device->driver_used, size), vram_size_format(device->total, other));
    print_part(report, (int64_t)device->counted_then, "counted above at that time");
    if (device->own_first.known) {
        print_part(report, (int64_t)device->own_first.value,
                   "by the driver itself for the context");
    } else {
        print_part(report, (int64_t)device->driver_first,
                   "by the driver's context and by other processes");
    }
    print_part(report, device->unexplained,
               "unexplained: code loaded later, rounding, pools of the driver");
}

/* Groups that were never freed, the largest first, with their frames. */
static void print_leaks(const struct run_report *report, struct run_history *history,
                        enum run_part part) {
    size_t count, shown = 0;
    const struct history *from = &history->parts[part];
    const struct history_group **groups = report_order(from, ORDER_END, &count);
    for (size_t i = 0; groups != NULL && i < count && shown < LEAKS_TOP; i++) {
        const char *frame;
        if (run_leak_is_out(report, history, groups[i])) {
            continue;
        }
        if (shown++ == 0) {
            print_title(report, part == RUN_PART_HOST     ? "Host memory never freed"
                                : part == RUN_PART_SERVED ? "Served memory never freed"
                                                          : "Never freed");
            print_heads(report, "library");
        }
        print_row(report, groups[i]->tag, groups[i]->bytes + groups[i]->lost_bytes,
                  from->live_bytes + from->lost_bytes, groups[i]->blocks + groups[i]->lost_blocks);
        for (uint32_t k = 0;
             (frame = report_input_frame(&history->input, groups[i]->stack, k)) != NULL; k++) {
            printf("    ");
            terminal_print(report->terminal, STYLE_DIM, "%s", frame);
            printf("\n");
        }
    }
    free(groups);
}

static void print_unknown(const struct run_report *report, const struct run_slot *slot) {
    uint64_t count = atomic_load(&slot->unknown);
    for (uint64_t i = 0; i < count && i < RUN_UNKNOWN_NAMES; i++) {
        char name[RUN_NAME];
        run_page_text(slot->unknown_names[i], RUN_NAME, name);
        print_line(report, i == 0 ? "not counted" : "", "%s: an entry point that is not known here",
                   name);
    }
    if (count > RUN_UNKNOWN_NAMES) {
        print_line(report, "", "and %" PRIu64 " more", count - RUN_UNKNOWN_NAMES);
    }
}

static void print_history(struct run_report *report, const struct run_slot *slot,
                          struct run_history *history) {
    const struct history *program = &history->parts[RUN_PART_PROGRAM];
    struct report_view view = {
        .history = program, .input = &history->input, .terminal = report->terminal, .top = TOP};
    struct run_device_view device;
    print_figures(report, slot, history);
    print_unknown(report, slot);
    if (program->peak_bytes > 0) {
        print_owners(report, "Who had it at the peak", program);
        report_print_holders(&view, ORDER_PEAK, program->peak_bytes);
    }
    if (history->parts[RUN_PART_SERVED].peak_bytes > 0) {
        print_owners(report, "Who had it of libvram's pool, at its peak",
                     &history->parts[RUN_PART_SERVED]);
    }
    for (unsigned i = 0; i < RUN_DEVICES; i++) {
        if (run_device_view(slot, i, &device)) {
            print_device(report, &device);
        }
    }
    if (report->leaks) {
        print_leaks(report, history, RUN_PART_PROGRAM);
        print_leaks(report, history, RUN_PART_SERVED);
        print_leaks(report, history, RUN_PART_HOST);
    }
}

/* -------------------------------------------------------------------- processes */

static void print_head(const struct run_report *report) {
    char duration[DURATION_TEXT_MAX];
    terminal_print(report->terminal, STYLE_BOLD, "vram run: %s", report->words[0]);
    duration_format(report->wall_ns, duration);
    if (report->running) {
        terminal_print(report->terminal, STYLE_PLAIN, ", running for %s", duration);
    } else if (report->signal != 0) {
        terminal_print(report->terminal, STYLE_WARN, ", killed by signal %d after %s",
                       report->signal, duration);
    } else {
        terminal_print(report->terminal, STYLE_PLAIN, ", exit code %d after %s", report->exit_code,
                       duration);
    }
    printf("\n");
}

static void leaks_note(struct run_report *report, struct run_history *history) {
    static const enum run_part parts[] = {RUN_PART_PROGRAM, RUN_PART_SERVED, RUN_PART_HOST};
    for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        struct run_leaks leaks;
        run_leaks_sum(report, history, parts[i], &leaks);
        report->leaked_blocks += leaks.blocks;
        report->leaked_bytes += leaks.bytes;
    }
}

/* One process, with its trace if it has one. True if it is recorded. */
static bool print_slot(struct run_report *report, const struct run_slot *slot, bool quiet) {
    char path[RUN_PATH], command[RUN_NAME], problem[RUN_PROBLEM];
    struct run_history *history = NULL;
    uint32_t recorded = atomic_load(&slot->recorded);
    long long pid = atomic_load(&slot->pid);
    run_page_text(slot->trace, sizeof slot->trace, path);
    run_page_text(slot->command, sizeof slot->command, command);
    if (recorded == 1) {
        history = calloc(1, sizeof *history);
    }
    bool good = history != NULL && run_history_read(history, path);
    run_report_doubt(report, slot, good ? history : NULL);
    if (good) {
        leaks_note(report, history);
    }
    if (!quiet && pid != report->page->settings.root) {
        printf("\n");
        terminal_print(report->terminal, STYLE_BOLD, "child %lld: %s", pid, command);
        printf("\n");
    }
    if (!quiet && good) {
        print_history(report, slot, history);
        printf("\n");
        terminal_print(report->terminal, STYLE_PLAIN, "next: vram report %s%s", path,
                       report->leaks ? " --leaks" : "");
        printf("\n");
    } else if (!quiet && recorded == 0) {
        print_line(report, "", "used a device and was not recorded: --follow-children records it");
    } else if (!quiet) {
        run_trace_problem(slot, history, problem);
        print_line(report, "no trace", "%s: %s", path, problem);
    }
    if (quiet) {
        run_trace_warn(slot, history);
    }
    if (history != NULL) {
        run_history_free(history);
        free(history);
    }
    return good;
}

/* Why an API may have been used without being seen. */
static void print_unlayered(const struct run_report *report) {
    if (atomic_load(&report->page->unlayered[RUN_OPENCL - 1]) > 0) {
        print_line(report, "",
                   "libOpenCL.so was loaded without the layer of vram run: it was never "
                   "called, or it has no layers (ocl-icd has them since 2.3)");
    }
    if (atomic_load(&report->page->unlayered[RUN_VULKAN - 1]) > 0) {
        print_line(report, "",
                   "libvulkan.so was loaded without the layer of vram run: it made no "
                   "instance, or it is older than VK_ADD_LAYER_PATH (March 2022)");
    }
}

void run_report_print(struct run_report *report, bool quiet) {
    unsigned slots = 0;
    uint32_t processes = atomic_load(&report->page->processes);
    if (!quiet) {
        print_head(report);
    }
    for (unsigned i = 0; i < RUN_SLOTS; i++) {
        if (atomic_load(&report->page->slots[i].pid) > 0) {
            slots++;
            (void)print_slot(report, &report->page->slots[i], quiet);
        }
    }
    if (quiet) {
        return;
    }
    if (slots == 0) {
        print_line(report, "nothing",
                   processes == 0 ? "the library was not loaded: a static or set-user-ID program?"
                                  : "no device was used");
        print_unlayered(report);
    }
    if (processes > 1 && slots == 0 && !report->page->settings.follow) {
        print_line(report, "", "it started %u other program%s: --follow-children records them",
                   processes - 1, plural(processes - 1));
    }
    if (report->lost_programs > 0) {
        print_line(report, "not recorded",
                   "%u program%s of another user or in a container, without the page's descriptor",
                   report->lost_programs, plural(report->lost_programs));
    }
    if (atomic_load(&report->page->slotless) > 0) {
        print_line(report, "", "%u more processes used a device: only %d are recorded",
                   atomic_load(&report->page->slotless), RUN_SLOTS);
    }
    fflush(stdout);
}

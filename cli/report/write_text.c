/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write_text.c: a trace as plain text in the manner of heaptrack_print: the call sites with the
 * most allocations, the most memory at the peak, and what was never freed, each with its stack; see
 * report_writer.h.
 */
#include "report_writer.h"
#include "story.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Names come from anywhere: one line stays one line. */
static void write_line(FILE *to, const char *text) {
    char clean[SITE_TEXT_MAX];
    snprintf(clean, sizeof clean, "%s", text);
    text_sanitize(clean);
    fprintf(to, "%s\n", clean);
}

static void write_stack(const struct report_view *view, FILE *to, uint32_t stack) {
    const char *frame;
    for (uint32_t i = 0; (frame = report_input_frame(view->input, stack, i)) != NULL; i++) {
        fprintf(to, "    ");
        write_line(to, frame);
    }
}

static bool write_section(const struct report_view *view, FILE *to, enum report_order order,
                          const char *title) {
    static const char *const calls[] = {" at the peak", " never freed", " in all"};
    size_t count = 0;
    const struct history_group **groups = report_order(view->history, order, &count);
    if (groups == NULL) {
        return false;
    }
    fprintf(to, "\n%s\n", title);
    for (size_t i = 0; i < count && i < view->top; i++) {
        const struct history_group *group = groups[i];
        char size[VRAM_SIZE_TEXT_MAX], site[SITE_TEXT_MAX];
        uint64_t blocks = order == ORDER_PEAK  ? group->peak_blocks
                          : order == ORDER_END ? group->blocks + group->lost_blocks
                                               : group->allocs;
        fprintf(to, "%s in %" PRIu64 " block%s%s from\n  ",
                vram_size_format(report_weight(group, order), size), blocks, blocks == 1 ? "" : "s",
                calls[order]);
        site_name(view->input, group, site);
        write_line(to, site);
        write_stack(view, to, group->stack);
    }
    if (count == 0) {
        fprintf(to, "nothing\n");
    }
    free(groups);
    return true;
}

bool write_text_end(struct report_writer *writer, const struct report_view *view) {
    const struct history *history = view->history;
    FILE *to = writer->to;
    char size[VRAM_SIZE_TEXT_MAX], duration[DURATION_TEXT_MAX];
    struct story *story = malloc(sizeof *story);
    if (story == NULL) {
        return false;
    }
    write_line(to, history->name);
    story_tell(story, history, view->input);
    for (size_t i = 0; i < story->count; i++) {
        text_sanitize(story->sentences[i]);
        fprintf(to, "%s\n", story->sentences[i]);
    }
    free(story);
    bool good = write_section(view, to, ORDER_CHURN, "MOST MEMORY ALLOCATED") &&
                write_section(view, to, ORDER_PEAK, "PEAK MEMORY CONSUMERS") &&
                write_section(view, to, ORDER_END, "MEMORY LEAKS");
    fprintf(to, "\ntotal runtime: %s\n", duration_format(history->duration_ns, duration));
    fprintf(to, "calls to allocation functions: %" PRIu64 "\n", history->allocs);
    fprintf(to, "temporary memory allocations: %" PRIu64 " (freed within 10 ms)\n", history->brief);
    fprintf(to, "peak memory consumption: %s\n", vram_size_format(history->peak_bytes, size));
    fprintf(to, "total memory leaked: %s\n",
            vram_size_format(history->live_bytes + history->lost_bytes, size));
    return good;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_view.c: what the views of a report share, and the text for people. See report_view.h;
 * folded.c and report_json.c have the rest.
 */
#include "report_view.h"
#include "output.h"
#include "story.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------------- orders */

uint64_t report_weight(const struct history_group *group, enum report_order order) {
    return order == ORDER_PEAK  ? group->peak_bytes
           : order == ORDER_END ? group->bytes + group->lost_bytes
                                : group->alloc_bytes;
}

static uint64_t count_of(const struct history_group *group, enum report_order order) {
    return order == ORDER_PEAK  ? group->peak_blocks
           : order == ORDER_END ? group->blocks + group->lost_blocks
           : order == ORDER_ALL ? group->allocs + group->peak_blocks + group->blocks
                                : group->allocs;
}

static enum report_order sorting; /* for qsort, which passes nothing on */

static int compare_groups(const void *one, const void *other) {
    const struct history_group *a = *(const struct history_group *const *)one;
    const struct history_group *b = *(const struct history_group *const *)other;
    uint64_t left = report_weight(a, sorting), right = report_weight(b, sorting);
    return left != right ? (left < right ? 1 : -1) : (a > b) - (a < b);
}

const struct history_group **report_order(const struct history *history, enum report_order order,
                                          size_t *count) {
    const struct history_group **list = output_alloc(history->group_count + 1, sizeof(void *));
    *count = 0;
    for (size_t i = 0; list != NULL && i < history->group_count; i++) {
        if (count_of(&history->groups[i], order) > 0) {
            list[(*count)++] = &history->groups[i];
        }
    }
    sorting = order;
    if (*count > 0) {
        qsort(list, *count, sizeof(void *), compare_groups);
    }
    return list;
}

static int compare_blocks(const void *one, const void *other) {
    const struct history_block *a = *(const struct history_block *const *)one;
    const struct history_block *b = *(const struct history_block *const *)other;
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1)
                                : (a->id > b->id) - (a->id < b->id);
}

const struct history_block **report_blocks(const struct history *history, size_t *count) {
    const struct history_block **list =
        output_alloc((size_t)history->block_slots + 1, sizeof(void *));
    *count = 0;
    for (size_t i = 0; list != NULL && i < history->block_slots; i++) {
        if (history->used[i]) {
            list[(*count)++] = &history->blocks[i];
        }
    }
    if (*count > 0) {
        qsort(list, *count, sizeof(void *), compare_blocks);
    }
    return list;
}

/* --------------------------------------------------------------------- tables */

enum { NAME_COLUMNS = 26, SIZE_COLUMNS = 12, BLOCKS_COLUMNS = 10, BAR_COLUMNS = 20 };

static void print_size(const struct terminal *terminal, enum style style, uint64_t bytes) {
    char size[VRAM_SIZE_TEXT_MAX];
    terminal_print(terminal, style, "%*s", SIZE_COLUMNS, vram_size_format(bytes, size));
}

static void title(const struct terminal *terminal, const char *text) {
    printf("\n");
    terminal_print(terminal, STYLE_BOLD, "%s", text);
    printf("\n");
}

/* Cut so that a table stays one; sanitized where it is printed. */
static void short_text(const char *text, char *to, size_t columns) {
    if (terminal_columns(text) <= columns) {
        snprintf(to, columns * 4 + 4, "%s", text);
        return;
    }
    size_t bytes = 0;
    for (size_t column = 0; column + 3 < columns; column++) {
        do {
            bytes++;
        } while (((unsigned char)text[bytes] & 0xC0) == 0x80);
    }
    snprintf(to, columns * 4 + 4, "%.*s...", (int)bytes, text);
}

static void print_row(const struct report_view *view, const char *name, uint64_t bytes,
                      uint64_t whole, uint64_t blocks) {
    char text[NAME_COLUMNS * 4 + 4];
    short_text(name, text, NAME_COLUMNS);
    printf("  ");
    terminal_cell(view->terminal, STYLE_PLAIN, NAME_COLUMNS, "%s", text);
    print_size(view->terminal, STYLE_ACCENT, bytes);
    printf("%6.1f %%%*" PRIu64 "\n", whole > 0 ? (double)bytes / (double)whole * 100 : 0,
           BLOCKS_COLUMNS, blocks);
}

static void print_heads(const struct terminal *terminal, const char *name) {
    printf("  ");
    terminal_cell(terminal, STYLE_DIM, NAME_COLUMNS, "%s", name);
    terminal_print(terminal, STYLE_DIM, "%*s%8s%*s", SIZE_COLUMNS, "bytes", "share", BLOCKS_COLUMNS,
                   "blocks");
    printf("\n");
}

/* Tags, with the groups of each put together. */
struct tag_sum {
    const char *tag;
    uint64_t bytes, blocks;
};

static int compare_names(const void *one, const void *other) {
    const struct tag_sum *a = one, *b = other;
    return strcmp(a->tag, b->tag);
}

static int compare_sums(const void *one, const void *other) {
    const struct tag_sum *a = one, *b = other;
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : strcmp(a->tag, b->tag);
}

/* By name first, so that what belongs together lies together; then by size. */
static size_t sum_tags(struct tag_sum *sums, size_t count) {
    size_t tags = 0;
    qsort(sums, count, sizeof *sums, compare_names);
    for (size_t i = 0; i < count; i++) {
        if (tags > 0 && strcmp(sums[tags - 1].tag, sums[i].tag) == 0) {
            sums[tags - 1].bytes += sums[i].bytes;
            sums[tags - 1].blocks += sums[i].blocks;
        } else {
            sums[tags++] = sums[i];
        }
    }
    qsort(sums, tags, sizeof *sums, compare_sums);
    return tags;
}

static void print_tags(const struct report_view *view, enum report_order order, uint64_t whole) {
    size_t count, tags = 0;
    const struct history_group **groups = report_order(view->history, order, &count);
    struct tag_sum *sums = output_alloc(count + 1, sizeof *sums);
    for (size_t i = 0; groups != NULL && sums != NULL && i < count; i++) {
        sums[i] = (struct tag_sum){groups[i]->tag, report_weight(groups[i], order),
                                   count_of(groups[i], order)};
    }
    if (groups != NULL && sums != NULL && count > 0) {
        tags = sum_tags(sums, count);
        print_heads(view->terminal, "tag");
    }
    for (size_t i = 0; i < tags && i < view->top; i++) {
        print_row(view, sums[i].tag[0] != 0 ? sums[i].tag : "(no tag)", sums[i].bytes, whole,
                  sums[i].blocks);
    }
    if (tags > view->top) {
        printf("  and %zu more tags\n", tags - view->top);
    }
    free(sums);
    free(groups);
}

/* The stacks that had the most: a line of figures and the frames below it, the innermost first. */
void report_print_holders(const struct report_view *view, enum report_order order, uint64_t whole) {
    size_t count, shown = 0;
    const struct history_group **groups = report_order(view->history, order, &count);
    for (size_t i = 0; groups != NULL && i < count && shown < view->top; i++) {
        uint32_t depth = report_depth(view, groups[i]->stack);
        uint32_t first = site_first_frame(view->input, groups[i]->stack);
        if (depth == 0) {
            continue;
        }
        if (shown++ == 0) {
            printf("\n");
            print_heads(view->terminal, "stack");
        }
        print_row(view, groups[i]->tag[0] != 0 ? groups[i]->tag : "(no tag)",
                  report_weight(groups[i], order), whole, count_of(groups[i], order));
        for (uint32_t k = first, lines = 1; k < depth && lines <= 8; lines++) {
            printf("    ");
            terminal_print(view->terminal, STYLE_DIM, "%s",
                           report_input_frame(view->input, groups[i]->stack, k));
            printf("\n");
            k = site_next_frame(view->input, groups[i]->stack, k, lines);
        }
    }
    free(groups);
}

/* ------------------------------------------------------------------- sections */

static bool is_foreign(const struct history *history) {
    return history->format != FORMAT_RECORDING && history->format != FORMAT_CSV;
}

static void print_source(const struct report_view *view) {
    const struct history *history = view->history;
    char duration[DURATION_TEXT_MAX];
    terminal_print(view->terminal, STYLE_BOLD, "%s", history->name);
    terminal_print(view->terminal, STYLE_PLAIN, ": %s%s%" PRIu64 " events in %s",
                   is_foreign(history) ? event_format_words(history->format) : "",
                   is_foreign(history) ? ", " : "", history->events,
                   duration_format(history->duration_ns, duration));
    static const char *const ends[] = {
        "", ", until the disk was full",
        ", until it ends abruptly: the program was killed or is still running"};
    terminal_print(view->terminal, STYLE_WARN, "%s", ends[history->end]);
    printf("\n");
}

static void print_figure(const struct report_view *view, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void print_figure(const struct report_view *view, const char *name, const char *format,
                         ...) {
    char text[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    printf("  ");
    terminal_cell(view->terminal, STYLE_DIM, 12, "%s", name);
    terminal_print(view->terminal, STYLE_PLAIN, "%s", text);
    printf("\n");
}

static void print_story(const struct report_view *view) {
    struct story *story = output_alloc(1, sizeof *story);
    if (story == NULL) {
        return;
    }
    story_tell(story, view->history, view->input);
    for (size_t i = 0; i < story->count; i++) {
        printf("  ");
        terminal_wrap(view->terminal, STYLE_PLAIN, 2, story->sentences[i]);
    }
    free(story);
}

static void print_figures(const struct report_view *view) {
    const struct history *history = view->history;
    char size[VRAM_SIZE_TEXT_MAX], other[VRAM_SIZE_TEXT_MAX], duration[DURATION_TEXT_MAX];
    uint64_t hits, misses;
    if (history_is_empty(history)) { /* which the story has said */
        return;
    }
    printf("\n");
    print_figure(view, "peak", "%s live in %" PRIu64 " block%s, after %s",
                 vram_size_format(history->peak_bytes, size), history->peak_blocks,
                 history->peak_blocks == 1 ? "" : "s", duration_format(history->peak_ns, duration));
    if (history->peak_held > history->peak_bytes) {
        print_figure(view, "rounded", "%s at most, as blocks were cut",
                     vram_size_format(history->peak_held, size));
    }
    if (history->peak_reserved > 0) {
        print_figure(view, "held", "%s by pools at most",
                     vram_size_format(history->peak_reserved, size));
    }
    print_figure(view, "live", "%s in %" PRIu64 " block%s at the end",
                 vram_size_format(history->live_bytes, size), history->live_blocks,
                 history->live_blocks == 1 ? "" : "s");
    if (history->lost_blocks > 0) {
        print_figure(view, "lost", "%s in %" PRIu64 " block%s that %s live when the pool ended",
                     vram_size_format(history->lost_bytes, size), history->lost_blocks,
                     history->lost_blocks == 1 ? "" : "s",
                     history->lost_blocks == 1 ? "was" : "were");
    }
    print_figure(view, "churn", "%" PRIu64 " allocation%s of %s in all, the largest %s",
                 history->allocs, history->allocs == 1 ? "" : "s",
                 vram_size_format(history->alloc_bytes, size),
                 vram_size_format(history->largest_bytes, other));
    if (history->refusals > 0) {
        print_figure(view, "refused", "%" PRIu64, history->refusals);
    }
    if (history_hit_rate(history, &hits, &misses)) {
        print_figure(view, "hit rate", "%.1f %% of %" PRIu64,
                     (double)hits / (double)(hits + misses) * 100, hits + misses);
    }
    if (history->resizes > 0) {
        print_figure(view, "resized", "%" PRIu64 " time%s", history->resizes,
                     history->resizes == 1 ? "" : "s");
    }
}

static void print_pools(const struct report_view *view) {
    const struct history *history = view->history;
    if (history->pool_count < 2) {
        return;
    }
    title(view->terminal, "Pools");
    print_heads(view->terminal, "pool");
    for (size_t i = 0; i < history->pool_count && i < view->top; i++) {
        const struct history_pool *pool = &history->pools[i];
        print_row(view, pool->name[0] != 0 ? pool->name : "(no name)", pool->peak_bytes,
                  history->peak_bytes, pool->allocs);
    }
}

static const char *direction_word(size_t direction) {
    return direction < VRAM_TRANSFER_ANY
               ? vram_transfer_direction_name((vram_transfer_direction)direction)
               : "unknown";
}

static const char *route_word(size_t route) {
    return route < VRAM_ROUTE_ANY ? vram_transfer_route_name((vram_transfer_route)route)
                                  : "unknown";
}

static void print_transfer(const struct report_view *view, const char *direction, const char *route,
                           const vram_transfer_stats *sum) {
    char half[DURATION_TEXT_MAX], most[DURATION_TEXT_MAX], longest[DURATION_TEXT_MAX];
    printf("  ");
    terminal_cell(view->terminal, STYLE_PLAIN, 11, "%s", direction);
    terminal_cell(view->terminal, STYLE_PLAIN, 12, "%s", route);
    printf("%9" PRIu64, sum->operations);
    print_size(view->terminal, STYLE_ACCENT, sum->bytes);
    printf("%8.2f%9s%9s%9s", sum->bytes_per_second / 1e9,
           duration_format(vram_transfer_stats_percentile(sum, 50), half),
           duration_format(vram_transfer_stats_percentile(sum, 99), most),
           duration_format(sum->max_latency_ns, longest));
    if (sum->failures > 0) {
        terminal_print(view->terminal, STYLE_BAD, "  %" PRIu64 " failed", sum->failures);
    }
    printf("\n");
}

static void print_transfers(const struct report_view *view) {
    if (view->history->transfer_count == 0) {
        return;
    }
    title(view->terminal, "Transfers");
    printf("  ");
    terminal_cell(view->terminal, STYLE_DIM, 11, "direction");
    terminal_cell(view->terminal, STYLE_DIM, 12, "route");
    terminal_print(view->terminal, STYLE_DIM, "%9s%*s%8s%9s%9s%9s", "copies", SIZE_COLUMNS, "bytes",
                   "GB/s", "half in", "99 % in", "longest");
    printf("\n");
    for (size_t i = 0; i < (size_t)HISTORY_DIRECTIONS * HISTORY_ROUTES; i++) {
        size_t direction = i / HISTORY_ROUTES, route = i % HISTORY_ROUTES;
        const vram_transfer_stats *sum = history_transfers(view->history, direction, route);
        if (sum != NULL) {
            print_transfer(view, direction_word(direction), route_word(route), sum);
        }
    }
}

/* The program's own marks of a part of the time. */
static void print_marks(const struct report_view *view, uint64_t from_ns, uint64_t to_ns) {
    const struct history *history = view->history;
    for (size_t i = 0; i < history->mark_count && i < HISTORY_MARKS_MAX; i++) {
        const struct history_mark *mark = &history->marks[i];
        if (mark->time_ns >= from_ns && mark->time_ns < to_ns) {
            char duration[DURATION_TEXT_MAX];
            printf("  ");
            terminal_cell(view->terminal, STYLE_ACCENT, 10, "%s",
                          duration_format(mark->time_ns, duration));
            terminal_print(view->terminal, STYLE_ACCENT, "%s", mark->text);
            printf("\n");
        }
    }
}

/* At most 16 lines: a bar of what was live, and the fragmentation of what was free. */
static void print_timeline(const struct report_view *view) {
    const struct history *history = view->history;
    size_t step = (history->slice_count + 15) / 16;
    if (history->slice_count < 2) {
        return;
    }
    title(view->terminal, "Over time");
    printf("  ");
    terminal_cell(view->terminal, STYLE_DIM, 10, "from");
    terminal_cell(view->terminal, STYLE_DIM, BAR_COLUMNS + 1, "live, of the peak");
    terminal_print(view->terminal, STYLE_DIM, "%*s%*s%s", SIZE_COLUMNS, "live", SIZE_COLUMNS,
                   "held", history->rough ? "" : " fragmentation");
    printf("\n");
    for (size_t i = 0; i < history->slice_count; i += step) {
        struct history_slice all = history->slices[i];
        for (size_t k = i + 1; k < i + step && k < history->slice_count; k++) {
            const struct history_slice *slice = &history->slices[k];
            all.peak = slice->peak > all.peak ? slice->peak : all.peak;
            all.scattered = slice->scattered > all.scattered ? slice->scattered : all.scattered;
            all.reserved = slice->reserved > all.reserved ? slice->reserved : all.reserved;
            all.sampled = all.sampled || slice->sampled;
        }
        char duration[DURATION_TEXT_MAX];
        printf("  ");
        terminal_cell(view->terminal, STYLE_PLAIN, 10, "%s",
                      duration_format(i * history->slice_ns, duration));
        terminal_bar(view->terminal, BAR_COLUMNS, all.peak, history->peak_bytes);
        printf(" ");
        print_size(view->terminal, STYLE_PLAIN, all.peak);
        if (all.sampled) {
            print_size(view->terminal, STYLE_PLAIN, all.reserved);
            if (!history->rough) {
                printf("%14.2f", all.scattered);
            }
        }
        printf("\n");
        print_marks(view, i * history->slice_ns, (i + step) * history->slice_ns);
    }
}

static void print_advice(const struct report_view *view) {
    static const enum style styles[] = {STYLE_ACCENT, STYLE_WARN, STYLE_BAD};
    struct advice list[ADVICE_MAX];
    size_t count = advice_give(view->history, list);
    title(view->terminal, "Advice");
    for (size_t i = 0; i < count; i++) {
        char text[2 * ADVICE_TEXT_MAX];
        printf("  ");
        terminal_cell(view->terminal, styles[list[i].weight], 15, "%s", list[i].name);
        snprintf(text, sizeof text, "%s. Fix: %s.", list[i].found, list[i].mend);
        terminal_wrap(view->terminal, STYLE_PLAIN, 17, text);
    }
    if (count == 0) {
        printf("  ");
        terminal_print(view->terminal, STYLE_GOOD, "no advice");
        printf("\n");
    }
}

void report_print(const struct report_view *view) {
    print_source(view);
    print_story(view);
    print_figures(view);
    if (view->history->peak_bytes > 0) {
        title(view->terminal, "Live at the peak");
        print_tags(view, ORDER_PEAK, view->history->peak_bytes);
        report_print_holders(view, ORDER_PEAK, view->history->peak_bytes);
    }
    print_pools(view);
    print_transfers(view);
    print_timeline(view);
    print_advice(view);
}

static void print_leak(const struct report_view *view, const struct history_block *block) {
    char size[VRAM_SIZE_TEXT_MAX], duration[DURATION_TEXT_MAX];
    const struct history_group *group = &view->history->groups[block->group];
    terminal_print(view->terminal, STYLE_PLAIN,
                   "  block %" PRIu64 " of %s, tag %s%s%s, from thread %" PRIu64 " after %s",
                   block->id, vram_size_format(block->bytes, size),
                   group->tag[0] != 0 ? group->tag : "(none)", block->name[0] != 0 ? ", name " : "",
                   block->name, block->thread, duration_format(block->time_ns, duration));
    printf("\n");
}

void report_print_leaks(const struct report_view *view) {
    const struct history *history = view->history;
    size_t count;
    uint64_t leaks = history->live_blocks + history->lost_blocks;
    uint64_t bytes = history->live_bytes + history->lost_bytes;
    const struct history_block **blocks = report_blocks(history, &count);
    print_source(view);
    if (leaks == 0) {
        bool whole = history_is_whole(history);
        terminal_print(view->terminal, whole ? STYLE_GOOD : STYLE_WARN, "%s",
                       whole ? "no leaks: nothing was live at the end"
                             : "nothing was live where the trace breaks off");
        printf("\n");
        free(blocks);
        return;
    }
    char size[VRAM_SIZE_TEXT_MAX];
    terminal_print(view->terminal, STYLE_BAD, "%" PRIu64 " block%s, %s, live at the end%s", leaks,
                   leaks == 1 ? "" : "s", vram_size_format(bytes, size),
                   history->lost_blocks > 0 ? " or when their pool ended" : "");
    printf("\n\n");
    print_tags(view, ORDER_END, bytes);
    report_print_holders(view, ORDER_END, bytes);
    title(view->terminal, "Largest");
    for (size_t i = 0; blocks != NULL && i < count && i < view->top; i++) {
        print_leak(view, blocks[i]);
    }
    if (history->first_blocks > 0) {
        printf("  and %" PRIu64 " blocks from before the first event that is left\n",
               history->first_blocks);
    }
    free(blocks);
}

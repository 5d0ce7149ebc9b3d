/* SPDX-License-Identifier: Apache-2.0 */
/* attach_view.c: what a running process holds, as text and as JSON. See attach_view.h. */
#include "live/attach_view.h"

#include "live/attach_json.h"
#include "live/page_json.h"
#include "output.h"
#include "report/sites.h"

#include <inttypes.h>
#include <stdio.h>

enum { TAG_COLUMNS = 28, SIZE_COLUMNS = 12, BLOCKS_COLUMNS = 10, AGE_COLUMNS = 12, FRAMES = 8 };

/* What the view shows of a group. */
static uint64_t bytes_of(const struct attach_view *view, const struct attach_group *group) {
    return view->leaks ? group->old_bytes : group->bytes;
}

static uint64_t blocks_of(const struct attach_view *view, const struct attach_group *group) {
    return view->leaks ? group->old_blocks : group->blocks;
}

uint64_t attach_old_blocks(const struct attach_answer *answer) {
    uint64_t blocks = 0;
    for (size_t i = 0; i < answer->group_count; i++) {
        blocks = page_sum(blocks, answer->groups[i].old_blocks);
    }
    return blocks;
}

/* --------------------------------------------------------------------- text */

static void figure_print(const struct attach_view *view, const char *name, const char *text) {
    printf("  ");
    terminal_cell(view->terminal, STYLE_DIM, 12, "%s", name);
    terminal_print(view->terminal, STYLE_PLAIN, "%s", text);
    printf("\n");
}

static const char *size_text(uint64_t bytes, char text[VRAM_SIZE_TEXT_MAX]) {
    return bytes == VRAM_LIVE_PAGE_UNKNOWN ? "-" : vram_size_format(bytes, text);
}

static const char *count_text(uint64_t count, char text[24]) {
    snprintf(text, 24, count == VRAM_LIVE_PAGE_UNKNOWN ? "-" : "%" PRIu64, count);
    return text;
}

static void figures_print(const struct attach_view *view) {
    const vram_live_page_counts *sum = &view->page->head.sum;
    char text[200], count[24], one[VRAM_SIZE_TEXT_MAX], two[VRAM_SIZE_TEXT_MAX],
        three[VRAM_SIZE_TEXT_MAX];
    snprintf(text, sizeof text, "%s by %" PRIu32 " pool%s, %s cached, %s at most",
             size_text(sum->held_bytes, one), view->page->head.pools.total,
             view->page->head.pools.total == 1 ? "" : "s", size_text(sum->cached_bytes, two),
             size_text(sum->peak_held_bytes, three));
    figure_print(view, "held", text);
    snprintf(text, sizeof text, "%s in %s block%s", size_text(sum->live_bytes, one),
             count_text(sum->live_blocks, count), sum->live_blocks == 1 ? "" : "s");
    figure_print(view, "live", text);
    snprintf(text, sizeof text, "%s in %" PRIu64 " block%s of %" PRIu64 " pool%s",
             size_text(view->answer->bytes, one), view->answer->blocks,
             view->answer->blocks == 1 ? "" : "s", view->answer->tracked_pools,
             view->answer->tracked_pools == 1 ? "" : "s");
    figure_print(view, "tracked", text);
    if (view->answer->lost_records) {
        snprintf(text, sizeof text, "%" PRIu64 " records: blocks may be missing here",
                 view->answer->lost_records);
        figure_print(view, "lost", text);
    }
}

/* As in reports: after SITE_NATIVE frames those of Python, if there are any. */
static void frames_print(const struct attach_view *view, size_t first, size_t count) {
    const char **frames = view->answer->frames + first;
    size_t python = 0, next = 0;
    while (python < count && !site_is_python(frames[python])) {
        python++;
    }
    for (size_t shown = 1; next < count && shown <= FRAMES; shown++) {
        printf("    ");
        terminal_print(view->terminal, STYLE_DIM, "%s", frames[next]);
        printf("\n");
        next = shown == SITE_NATIVE && next < python && python < count ? python : next + 1;
    }
}

static void group_print(const struct attach_view *view, const struct attach_group *group) {
    char size[VRAM_SIZE_TEXT_MAX], age[DURATION_TEXT_MAX];
    const char *tag = group->rest ? "(all others)" : group->tag[0] ? group->tag : "(no tag)";
    printf("  ");
    terminal_cell(view->terminal, STYLE_PLAIN, TAG_COLUMNS, "%.*s%s", TAG_COLUMNS * 2, tag,
                  group->foreign ? " (foreign)" : "");
    terminal_print(view->terminal, STYLE_ACCENT, "%*s", SIZE_COLUMNS,
                   vram_size_format(bytes_of(view, group), size));
    terminal_print(view->terminal, STYLE_PLAIN, "%*" PRIu64 "%*s", BLOCKS_COLUMNS,
                   blocks_of(view, group), AGE_COLUMNS, duration_format(group->oldest_ns, age));
    printf("\n");
    frames_print(view, group->first_frame, group->frames);
}

static void groups_print(const struct attach_view *view) {
    size_t shown = 0, left = 0;
    for (size_t i = 0; i < view->answer->group_count; i++) {
        const struct attach_group *group = &view->answer->groups[i];
        if (blocks_of(view, group) == 0) {
            continue;
        }
        if (shown == view->top) {
            left++;
            continue;
        }
        if (shown++ == 0) {
            printf("\n  ");
            terminal_cell(view->terminal, STYLE_DIM, TAG_COLUMNS, "tag, stack");
            terminal_print(view->terminal, STYLE_DIM, "%*s%*s%*s", SIZE_COLUMNS, "bytes",
                           BLOCKS_COLUMNS, "blocks", AGE_COLUMNS, "oldest");
            printf("\n");
        }
        group_print(view, group);
    }
    if (left) {
        printf("  and %zu more\n", left);
    }
}

static bool block_is_shown(const struct attach_view *view, const struct attach_block *block) {
    return !view->leaks || block->age_ns >= VRAM_LIVE_OLD_NS;
}

static void largest_print(const struct attach_view *view) {
    size_t shown = 0;
    for (size_t i = 0; i < view->answer->largest_count && shown < view->top; i++) {
        const struct attach_block *block = &view->answer->largest[i];
        char size[VRAM_SIZE_TEXT_MAX], age[DURATION_TEXT_MAX];
        if (!block_is_shown(view, block)) {
            continue;
        }
        if (shown++ == 0) {
            printf("\n");
            terminal_print(view->terminal, STYLE_BOLD, "Largest");
            printf("\n");
        }
        printf("  ");
        terminal_print(view->terminal, STYLE_ACCENT, "%*s", SIZE_COLUMNS,
                       vram_size_format(block->requested_bytes, size));
        terminal_print(view->terminal, STYLE_PLAIN, "  %s old, pool \"%s\"%s%s%s%s%s%s",
                       duration_format(block->age_ns, age), block->pool,
                       block->tag[0] ? ", tag \"" : "", block->tag, block->tag[0] ? "\"" : "",
                       block->name[0] ? ", \"" : "", block->name, block->name[0] ? "\"" : "");
        printf("\n");
    }
}

/* What to do to see more. */
static void advice_print(const struct attach_view *view) {
    bool stacks = view->answer->frame_count > 0;
    const char *text = NULL;
    if (view->page->head.pools.total > view->answer->tracked_pools) {
        text = "Pools that are not tracked know no blocks: run the program with VRAM_TRACKING=on.";
    } else if (!stacks && view->answer->blocks) {
        text = "No stacks were taken: run the program with VRAM_TRACK_STACKS=1.";
    }
    if (text) {
        printf("\n");
        terminal_wrap(view->terminal, STYLE_PLAIN, 0, text);
    }
}

void attach_print(const struct attach_view *view) {
    const vram_live_page *head = &view->page->head;
    terminal_print(view->terminal, STYLE_BOLD, "process %" PRIu64, head->pid);
    terminal_print(view->terminal, STYLE_PLAIN, ": %s", head->command);
    printf("\n");
    figures_print(view);
    if (view->leaks) {
        uint64_t old = attach_old_blocks(view->answer);
        printf("\n");
        terminal_print(view->terminal, old ? STYLE_BAD : STYLE_GOOD, "%s",
                       old ? "" : "no block is a minute old");
        if (old) {
            terminal_print(view->terminal, STYLE_BAD, "%" PRIu64 " block%s a minute old or older",
                           old, old == 1 ? " is" : "s are");
        }
        printf("\n");
    }
    groups_print(view);
    largest_print(view);
    advice_print(view);
}

/* --------------------------------------------------------------------- JSON */

bool attach_write(const struct attach_view *view) {
    const vram_live_page *head = &view->page->head;
    struct json_out json;
    output_json_begin(&json, "vram.report.live/1");
    json_object_begin(&json, "process");
    json_unsigned(&json, "pid", head->pid);
    json_text(&json, "command", head->command);
    json_unsigned(&json, "user", head->user);
    json_text(&json, "library", head->library);
    json_object_end(&json);
    json_unsigned(&json, "pools", head->pools.total);
    json_unsigned(&json, "tracked_pools", view->answer->tracked_pools);
    page_json_number(&json, "held_bytes", head->sum.held_bytes);
    page_json_number(&json, "cached_bytes", head->sum.cached_bytes);
    page_json_number(&json, "live_bytes", head->sum.live_bytes);
    page_json_number(&json, "live_blocks", head->sum.live_blocks);
    json_unsigned(&json, "tracked_bytes", view->answer->bytes);
    json_unsigned(&json, "tracked_blocks", view->answer->blocks);
    json_unsigned(&json, "lost_records", view->answer->lost_records);
    json_bool(&json, "leaks", view->leaks);
    attach_json_groups(&json, view->answer, view->leaks, SIZE_MAX);
    attach_json_largest(&json, view->answer, view->leaks, SIZE_MAX);
    return output_json_end(&json);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report_json.c: a report for programs; see report_view.h and
 * docs/schema/vram.report-1.schema.json.
 */
#include "output.h"
#include "report_view.h"
#include "story.h"

#include <stdlib.h>
#include <string.h>

static void write_text_or_null(struct json_out *json, const char *key, const char *text) {
    json_text(json, key, text[0] != 0 ? text : NULL);
}

/* The innermost first. */
static void write_frames(const struct report_view *view, struct json_out *json, uint32_t stack) {
    const char *frame;
    json_array_begin(json, "frames");
    for (uint32_t i = 0; (frame = report_input_frame(view->input, stack, i)) != NULL; i++) {
        json_text(json, NULL, frame);
    }
    json_array_end(json);
}

static void write_source(const struct history *history, struct json_out *json) {
    static const char *const ends[] = {"ended", "stopped", "cut"};
    json_text(json, "file", history->name);
    json_text(json, "format", event_format_name(history->format));
    json_text(json, "end", ends[history->end]);
    json_unsigned(json, "lost_events", history->lost_events);
    json_unsigned(json, "missing_chunks", history->missing_chunks);
    json_unsigned(json, "events", history->events);
    json_unsigned(json, "duration_ns", history->duration_ns);
    json_text(json, "partial", history->partial ? history->missing : NULL);
    json_unsigned(json, "earlier_blocks", history->earlier_blocks);
}

static void write_peak(const struct history *history, struct json_out *json) {
    json_object_begin(json, "peak");
    json_unsigned(json, "bytes", history->peak_bytes);
    json_unsigned(json, "blocks", history->peak_blocks);
    json_unsigned(json, "time_ns", history->peak_ns);
    json_unsigned(json, "held_bytes", history->peak_held);
    json_value(json, "reserved_bytes",
               (vram_value){history->peak_reserved, history->peak_reserved > 0});
    json_object_end(json);
    json_object_begin(json, "live");
    json_unsigned(json, "bytes", history->live_bytes);
    json_unsigned(json, "blocks", history->live_blocks);
    json_unsigned(json, "unknown_blocks", history->first_blocks);
    json_object_end(json);
    json_object_begin(json, "lost");
    json_unsigned(json, "bytes", history->lost_bytes);
    json_unsigned(json, "blocks", history->lost_blocks);
    json_object_end(json);
}

static void write_churn(const struct history *history, struct json_out *json) {
    uint64_t hits, misses;
    bool known = history_hit_rate(history, &hits, &misses);
    json_object_begin(json, "churn");
    json_unsigned(json, "allocs", history->allocs);
    json_unsigned(json, "frees", history->frees);
    json_unsigned(json, "resizes", history->resizes);
    json_unsigned(json, "refusals", history->refusals);
    json_unsigned(json, "unknown_frees", history->strangers);
    json_unsigned(json, "alloc_bytes", history->alloc_bytes);
    json_unsigned(json, "largest_bytes", history->largest_bytes);
    json_unsigned(json, "small_allocs", history->small);
    json_unsigned(json, "brief_blocks", history->brief);
    json_object_end(json);
    json_value(json, "hits", (vram_value){hits, known});
    json_value(json, "misses", (vram_value){misses, known});
    if (known) {
        json_number(json, "hit_rate", (double)hits / ((double)hits + (double)misses));
    } else {
        json_null(json, "hit_rate");
    }
}

static void write_refusals(const struct history *history, struct json_out *json) {
    json_array_begin(json, "refusals");
    for (size_t i = 0; i < history->status_count; i++) {
        const char *name = vram_status_name((vram_status)history->statuses[i].status);
        json_object_begin(json, NULL);
        json_text(json, "status", name);
        json_unsigned(json, "count", history->statuses[i].count);
        json_unsigned(json, "largest_bytes", history->statuses[i].bytes);
        json_object_end(json);
    }
    json_array_end(json);
}

static void write_groups(const struct report_view *view, struct json_out *json) {
    size_t count;
    const struct history_group **groups = report_order(view->history, ORDER_ALL, &count);
    json_array_begin(json, "groups");
    for (size_t i = 0; groups != NULL && i < count; i++) {
        json_object_begin(json, NULL);
        write_text_or_null(json, "tag", groups[i]->tag);
        json_unsigned(json, "peak_bytes", groups[i]->peak_bytes);
        json_unsigned(json, "peak_blocks", groups[i]->peak_blocks);
        json_unsigned(json, "live_bytes", groups[i]->bytes);
        json_unsigned(json, "live_blocks", groups[i]->blocks);
        json_unsigned(json, "lost_bytes", groups[i]->lost_bytes);
        json_unsigned(json, "lost_blocks", groups[i]->lost_blocks);
        json_unsigned(json, "allocs", groups[i]->allocs);
        json_unsigned(json, "alloc_bytes", groups[i]->alloc_bytes);
        json_unsigned(json, "brief_blocks", groups[i]->brief);
        write_frames(view, json, groups[i]->stack);
        json_object_end(json);
    }
    json_array_end(json);
    free(groups);
}

static void write_pools(const struct history *history, struct json_out *json) {
    json_array_begin(json, "pools");
    for (size_t i = 0; i < history->pool_count; i++) {
        const struct history_pool *pool = &history->pools[i];
        json_object_begin(json, NULL);
        json_unsigned(json, "handle", pool->handle);
        write_text_or_null(json, "name", pool->name);
        json_bool(json, "ended", pool->ended);
        json_unsigned(json, "allocs", pool->allocs);
        json_unsigned(json, "frees", pool->frees);
        json_unsigned(json, "refusals", pool->refusals);
        json_unsigned(json, "live_bytes", pool->bytes);
        json_unsigned(json, "peak_bytes", pool->peak_bytes);
        json_value(json, "peak_reserved_bytes", (vram_value){pool->peak_reserved, pool->sampled});
        json_value(json, "limit_bytes", (vram_value){pool->last.limit, pool->last.limit > 0});
        json_value(json, "hits", (vram_value){pool->last.hits, pool->sampled});
        json_value(json, "misses", (vram_value){pool->last.misses, pool->sampled});
        json_object_end(json);
    }
    json_array_end(json);
}

static void write_sizes(const struct history *history, struct json_out *json) {
    json_array_begin(json, "sizes");
    for (size_t i = 0; i < HISTORY_SIZES; i++) {
        if (history->sizes[i] > 0) {
            json_object_begin(json, NULL);
            json_unsigned(json, "from_bytes", i > 0 ? UINT64_C(1) << i : 0);
            json_unsigned(json, "allocs", history->sizes[i]);
            json_object_end(json);
        }
    }
    json_array_end(json);
}

static void write_timeline(const struct history *history, struct json_out *json) {
    json_unsigned(json, "slice_ns", history->slice_ns);
    json_array_begin(json, "timeline");
    for (size_t i = 0; i < history->slice_count; i++) {
        const struct history_slice *slice = &history->slices[i];
        bool detailed = slice->sampled && !history->rough;
        json_object_begin(json, NULL);
        json_unsigned(json, "time_ns", i * history->slice_ns);
        json_unsigned(json, "live_bytes", slice->live);
        json_unsigned(json, "peak_bytes", slice->peak);
        json_value(json, "reserved_bytes", (vram_value){slice->reserved, slice->sampled});
        json_value(json, "cached_bytes", (vram_value){slice->cached, detailed});
        json_value(json, "free_bytes", (vram_value){slice->free, detailed});
        json_value(json, "largest_free_bytes", (vram_value){slice->largest_free, detailed});
        if (detailed) {
            json_number(json, "fragmentation", slice->scattered);
        } else {
            json_null(json, "fragmentation");
        }
        json_unsigned(json, "allocs", slice->allocs);
        json_unsigned(json, "frees", slice->frees);
        json_object_end(json);
    }
    json_array_end(json);
}

static void write_marks(const struct history *history, struct json_out *json) {
    uint64_t kept =
        history->mark_count < HISTORY_MARKS_MAX ? history->mark_count : HISTORY_MARKS_MAX;
    json_unsigned(json, "mark_count", history->mark_count);
    json_array_begin(json, "marks");
    for (uint64_t i = 0; i < kept; i++) {
        json_object_begin(json, NULL);
        json_unsigned(json, "time_ns", history->marks[i].time_ns);
        json_text(json, "text", history->marks[i].text);
        json_object_end(json);
    }
    json_array_end(json);
}

static void write_transfer(struct json_out *json, size_t direction, size_t route,
                           const vram_transfer_stats *sum) {
    json_object_begin(json, NULL);
    json_text(json, "direction",
              direction < VRAM_TRANSFER_ANY
                  ? vram_transfer_direction_name((vram_transfer_direction)direction)
                  : NULL);
    json_text(json, "route",
              route < VRAM_ROUTE_ANY ? vram_transfer_route_name((vram_transfer_route)route) : NULL);
    json_unsigned(json, "operations", sum->operations);
    json_unsigned(json, "failures", sum->failures);
    json_unsigned(json, "bytes", sum->bytes);
    json_unsigned(json, "latency_ns", sum->latency_ns);
    json_unsigned(json, "min_latency_ns", sum->min_latency_ns);
    json_unsigned(json, "p50_latency_ns", vram_transfer_stats_percentile(sum, 50));
    json_unsigned(json, "p99_latency_ns", vram_transfer_stats_percentile(sum, 99));
    json_unsigned(json, "max_latency_ns", sum->max_latency_ns);
    json_number(json, "bytes_per_second", sum->bytes_per_second);
    json_object_end(json);
}

static void write_transfers(const struct history *history, struct json_out *json) {
    json_unsigned(json, "transfer_count", history->transfer_count);
    json_array_begin(json, "transfers");
    for (size_t i = 0; i < (size_t)HISTORY_DIRECTIONS * HISTORY_ROUTES; i++) {
        size_t direction = i / HISTORY_ROUTES, route = i % HISTORY_ROUTES;
        const vram_transfer_stats *sum = history_transfers(history, direction, route);
        if (sum != NULL) {
            write_transfer(json, direction, route, sum);
        }
    }
    json_array_end(json);
}

static void write_leaks(const struct report_view *view, struct json_out *json) {
    const struct history *history = view->history;
    size_t count;
    const struct history_block **blocks = report_blocks(history, &count);
    json_array_begin(json, "leaks");
    for (size_t i = 0; blocks != NULL && i < count; i++) {
        const struct history_group *group = &history->groups[blocks[i]->group];
        json_object_begin(json, NULL);
        json_unsigned(json, "id", blocks[i]->id);
        json_address(json, "addr", blocks[i]->addr);
        json_unsigned(json, "bytes", blocks[i]->bytes);
        json_unsigned(json, "held_bytes", blocks[i]->held);
        json_unsigned(json, "time_ns", blocks[i]->time_ns);
        json_unsigned(json, "thread", blocks[i]->thread);
        json_unsigned(json, "queue", blocks[i]->queue);
        json_unsigned(json, "pool", history->pools[blocks[i]->pool].handle);
        json_bool(json, "lost", blocks[i]->lost);
        write_text_or_null(json, "tag", group->tag);
        write_text_or_null(json, "name", blocks[i]->name);
        write_frames(view, json, group->stack);
        json_object_end(json);
    }
    json_array_end(json);
    free(blocks);
}

void report_write_advice(const struct history *history, struct json_out *json) {
    struct advice list[ADVICE_MAX];
    size_t count = advice_give(history, list);
    json_array_begin(json, "advice");
    for (size_t i = 0; i < count; i++) {
        json_object_begin(json, NULL);
        json_text(json, "name", list[i].name);
        json_text(json, "weight", advice_weight_name(list[i].weight));
        json_text(json, "found", list[i].found);
        json_text(json, "mend", list[i].mend);
        json_object_end(json);
    }
    json_array_end(json);
}

static void write_growth(const struct report_view *view, struct json_out *json) {
    const struct history *history = view->history;
    struct history_growth list[STORY_GROWTH_MAX];
    size_t count = history_find_growth(history, list, STORY_GROWTH_MAX);
    json_array_begin(json, "growth");
    for (size_t i = 0; i < count; i++) {
        char site[SITE_TEXT_MAX];
        site_name(view->input, list[i].group, site);
        json_object_begin(json, NULL);
        json_text(json, "site", site);
        json_unsigned(json, "from_ns", list[i].span.from * history->slice_ns);
        json_unsigned(json, "to_ns", (list[i].span.to + 1) * history->slice_ns);
        json_unsigned(json, "blocks", list[i].span.blocks);
        json_unsigned(json, "rises", list[i].span.rises);
        json_unsigned(json, "most_blocks", list[i].group->most_blocks);
        write_text_or_null(json, "tag", list[i].group->tag);
        write_frames(view, json, list[i].group->stack);
        json_object_end(json);
    }
    json_array_end(json);
}

static void write_story(const struct report_view *view, struct json_out *json) {
    struct story *story = output_alloc(1, sizeof *story);
    json_array_begin(json, "story");
    if (story != NULL) {
        story_tell(story, view->history, view->input);
    }
    for (size_t i = 0; story != NULL && i < story->count; i++) {
        json_text(json, NULL, story->sentences[i]);
    }
    json_array_end(json);
    free(story);
}

void report_write_summary(const struct report_view *view, struct json_out *json) {
    write_source(view->history, json);
    write_story(view, json);
    write_peak(view->history, json);
    write_churn(view->history, json);
    write_refusals(view->history, json);
}

bool report_write(const struct report_view *view, FILE *to) {
    struct json_out json;
    json_begin(&json, to);
    json_object_begin(&json, NULL);
    json_text(&json, "schema", "vram.report/1");
    json_text(&json, "version", vram_version_text());
    report_write_summary(view, &json);
    write_groups(view, &json);
    write_pools(view->history, &json);
    write_sizes(view->history, &json);
    write_timeline(view->history, &json);
    write_marks(view->history, &json);
    write_transfers(view->history, &json);
    write_growth(view, &json);
    write_leaks(view, &json);
    report_write_advice(view->history, &json);
    against_write(view->against, &json);
    return output_json_end(&json);
}

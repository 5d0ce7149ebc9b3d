/* SPDX-License-Identifier: Apache-2.0 */
/* page_json.c: see page_json.h. */
#include "live/page_json.h"

#include <stdio.h>
#include <vram/vram.h>

void page_json_number(struct json_out *json, const char *key, uint64_t value) {
    json_value(json, key, (vram_value){.value = value, .known = value != VRAM_LIVE_PAGE_UNKNOWN});
}

void page_json_share(struct json_out *json, const char *key, uint64_t value, double unit) {
    if (value == VRAM_LIVE_PAGE_UNKNOWN) {
        json_null(json, key);
    } else {
        json_number(json, key, (double)value / unit);
    }
}

void page_json_counts(struct json_out *json, const vram_live_page_counts *counts) {
    page_json_number(json, "held_bytes", counts->held_bytes);
    page_json_number(json, "live_bytes", counts->live_bytes);
    page_json_number(json, "allocated_bytes", counts->allocated_bytes);
    page_json_number(json, "cached_bytes", counts->cached_bytes);
    page_json_number(json, "asleep_bytes", counts->asleep_bytes);
    page_json_number(json, "limit_bytes", counts->limit_bytes);
    page_json_number(json, "peak_held_bytes", counts->peak_held_bytes);
    page_json_number(json, "peak_live_bytes", counts->peak_live_bytes);
    page_json_number(json, "live_blocks", counts->live_blocks);
    page_json_number(json, "allocations", counts->allocs);
    page_json_number(json, "frees", counts->frees);
    page_json_number(json, "hits", counts->hits);
    page_json_number(json, "misses", counts->misses);
    page_json_number(json, "refusals", counts->refusals);
    page_json_number(json, "moved_bytes", counts->moved_bytes);
    page_json_number(json, "driver_calls", counts->driver_calls);
    page_json_share(json, "allocations_per_second", counts->alloc_rate, 1000);
    page_json_share(json, "frees_per_second", counts->free_rate, 1000);
}

static const char *row_label(const struct page_view *view, uint32_t row, char text[40]) {
    if (row >= view->head.devices.count) {
        return NULL;
    }
    snprintf(text, 40, "%.15s:%u", view->devices[row].backend, (unsigned)view->devices[row].index);
    return text;
}

void page_json_pools(struct json_out *json, const struct page_view *view) {
    char label[40];
    json_array_begin(json, "pools");
    for (uint32_t i = 0; i < view->head.pools.count; i++) {
        const vram_live_page_pool *pool = &view->pools[i];
        json_object_begin(json, NULL);
        json_text(json, "name", pool->name);
        json_text(json, "device", row_label(view, pool->device, label));
        json_text(json, "pressure",
                  vram_pressure_level_name((vram_pressure_level)pool->pressure_level));
        page_json_share(json, "pressure_value", pool->pressure_millionths, 1e6);
        page_json_counts(json, &pool->counts);
        json_object_end(json);
    }
    json_array_end(json);
}

void page_json_tags(struct json_out *json, const struct page_view *view) {
    char label[40];
    json_array_begin(json, "tags");
    for (uint32_t i = 0; i < view->head.tags.count; i++) {
        const vram_live_page_tag *tag = &view->tags[i];
        json_object_begin(json, NULL);
        json_text(json, "tag", tag->name);
        json_text(json, "device", row_label(view, tag->device, label));
        page_json_number(json, "used_bytes", tag->used_bytes);
        page_json_number(json, "own_bytes", tag->own_bytes);
        page_json_number(json, "peak_bytes", tag->peak_bytes);
        page_json_number(json, "soft_bytes", tag->soft_bytes);
        page_json_number(json, "hard_bytes", tag->hard_bytes);
        page_json_number(json, "refusals", tag->refusals);
        json_object_end(json);
    }
    json_array_end(json);
}

void page_json_refusals(struct json_out *json, const struct page_view *view) {
    json_array_begin(json, "refusals");
    for (uint32_t i = 0; i < view->head.refusals.count; i++) {
        const vram_live_page_refusal *refusal = &view->refusals[i];
        json_object_begin(json, NULL);
        page_json_number(json, "date_ns", refusal->date_ns);
        page_json_number(json, "bytes", refusal->bytes);
        json_text(json, "cause", vram_oom_cause_name((vram_oom_cause)refusal->cause));
        json_text(json, "pool", refusal->pool);
        json_text(json, "tag", refusal->tag[0] != 0 ? refusal->tag : NULL);
        json_text(json, "text", refusal->text);
        json_object_end(json);
    }
    json_array_end(json);
}

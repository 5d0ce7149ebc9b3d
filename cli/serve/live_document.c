/* SPDX-License-Identifier: Apache-2.0 */
/* live_document.c: see live_document.h. */
#include "serve/live_document.h"

#include "live/attach_json.h"
#include "live/page_json.h"

#include <string.h>
#include <time.h>
#include <vram/vram.h>

enum { GROUPS = 60, LARGEST = 20 };

void live_document_free(struct live_document *now) {
    page_view_free(&now->view);
    live_past_free(&now->past);
    attach_free(&now->blocks);
}

void live_refusals_add(struct live_document *now, bool again) {
    now->refusal_number = again ? 0 : now->refusal_number;
    for (uint32_t i = now->view.head.refusals.count; i-- > 0;) {
        const vram_live_page_refusal *refusal = &now->view.refusals[i];
        if (refusal->number == VRAM_LIVE_PAGE_UNKNOWN || refusal->number <= now->refusal_number) {
            continue;
        }
        memmove(&now->refusals[1], &now->refusals[0],
                (LIVE_REFUSALS - 1) * sizeof now->refusals[0]);
        now->refusals[0] = *refusal;
        now->refusal_number = refusal->number;
        now->refusal_count += now->refusal_count < LIVE_REFUSALS;
    }
}

/* ------------------------------------------------------------------------- JSON */

static void process_write(struct json_out *json, const struct live_document *now) {
    const vram_live_page *head = &now->view.head;
    json_object_begin(json, "process");
    json_unsigned(json, "pid", head->pid);
    json_text(json, "command", head->command);
    json_text(json, "library", head->library);
    json_text(json, "origin", head->origin == VRAM_LIVE_PAGE_RUN ? "run" : "library");
    json_unsigned(json, "pools", head->pools.total);
    json_unsigned(json, "tags", head->tags.total);
    json_text(json, "pressure",
              vram_pressure_level_name((vram_pressure_level)live_pressure(&now->view)));
    json_object_begin(json, "sum");
    page_json_counts(json, &head->sum);
    json_object_end(json);
    json_object_end(json);
}

static void devices_write(struct json_out *json, const struct page_view *view) {
    json_array_begin(json, "devices");
    for (uint32_t i = 0; i < view->head.devices.count; i++) {
        const vram_live_page_device *device = &view->devices[i];
        json_object_begin(json, NULL);
        json_text(json, "backend", device->backend);
        json_unsigned(json, "index", device->index);
        json_text(json, "name", device->name);
        json_text(json, "pressure",
                  vram_pressure_level_name((vram_pressure_level)device->pressure_level));
        page_json_share(json, "pressure_value", device->pressure_millionths, 1e6);
        page_json_number(json, "memory_bytes", device->memory_bytes);
        page_json_number(json, "free_bytes", device->free_bytes);
        page_json_number(json, "held_bytes", device->held_bytes);
        page_json_number(json, "limit_bytes", device->limit_bytes);
        json_object_end(json);
    }
    json_array_end(json);
}

static void column_write(struct json_out *json, const struct live_past *past, size_t from,
                         size_t column) {
    json_object_begin(json, NULL);
    json_text(json, "tag", past->tags[column].name);
    json_array_begin(json, "bytes");
    for (size_t i = from; i < past->count; i++) {
        json_unsigned(json, NULL, past->slots[i].tags[column]);
    }
    json_array_end(json);
    json_object_end(json);
}

/* Slots as columns, from one on. */
static void past_write(struct json_out *json, const struct live_past *past, uint64_t generation,
                       uint64_t from) {
    static const struct {
        const char *key;
        size_t offset;
    } fields[] = {{"number", offsetof(struct past_slot, number)},
                  {"live_bytes", offsetof(struct past_slot, live_bytes)},
                  {"held_bytes", offsetof(struct past_slot, held_bytes)},
                  {"limit_bytes", offsetof(struct past_slot, limit_bytes)},
                  {"level", offsetof(struct past_slot, level)}};
    size_t first = generation == past->generation && from < past->count ? (size_t)from : 0;
    json_object_begin(json, "past");
    json_unsigned(json, "generation", past->generation);
    json_unsigned(json, "interval_ns", past->interval_ns);
    json_unsigned(json, "from", first);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        json_array_begin(json, fields[i].key);
        for (size_t row = first; row < past->count; row++) {
            uint64_t value;
            memcpy(&value, (const char *)&past->slots[row] + fields[i].offset, sizeof value);
            page_json_number(json, NULL, value);
        }
        json_array_end(json);
    }
    json_array_begin(json, "columns");
    for (size_t i = 0; i < past->tag_count; i++) {
        column_write(json, past, first, i);
    }
    json_array_end(json);
    json_object_end(json);
}

static void blocks_write(struct json_out *json, const struct live_document *now,
                         uint64_t since_ns) {
    json_object_begin(json, "blocks");
    json_text(json, "problem", now->blocks_problem[0] != 0 ? now->blocks_problem : NULL);
    json_bool(json, "known", now->blocks_known);
    json_unsigned(json, "age_ns",
                  now->blocks_known && since_ns > now->blocks_ns ? since_ns - now->blocks_ns : 0);
    json_unsigned(json, "bytes", now->blocks.bytes);
    json_unsigned(json, "blocks", now->blocks.blocks);
    json_unsigned(json, "lost_records", now->blocks.lost_records);
    json_unsigned(json, "group_count", now->blocks.group_count);
    attach_json_groups(json, &now->blocks, false, GROUPS);
    attach_json_largest(json, &now->blocks, false, LARGEST);
    json_object_end(json);
}

bool live_document_write(const struct live_document *now, uint64_t since_ns, uint64_t generation,
                         uint64_t from, FILE *to) {
    static const char *const states[] = {"running", "silent", "ended"};
    const struct page_view refused = {
        .head.refusals.count = now->refusal_count,
        .refusals = (vram_live_page_refusal *)(uintptr_t)now->refusals,
    };
    struct timespec date = {0};
    struct json_out json;
    (void)clock_gettime(CLOCK_REALTIME, &date);
    json_begin(&json, to);
    json_object_begin(&json, NULL);
    json_text(&json, "version", vram_version_text());
    json_unsigned(&json, "since_ns", since_ns);
    json_unsigned(&json, "date_ns",
                  (uint64_t)date.tv_sec * UINT64_C(1000000000) + (uint64_t)date.tv_nsec);
    json_text(&json, "state", states[now->state]);
    json_text(&json, "words", now->words[0] != 0 ? now->words : NULL);
    process_write(&json, now);
    devices_write(&json, &now->view);
    page_json_pools(&json, &now->view);
    page_json_tags(&json, &now->view);
    page_json_refusals(&json, &refused);
    past_write(&json, &now->past, generation, from);
    blocks_write(&json, now, since_ns);
    json_object_end(&json);
    return json_end(&json) == NULL && !ferror(to);
}

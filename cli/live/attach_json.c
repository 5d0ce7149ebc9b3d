/* SPDX-License-Identifier: Apache-2.0 */
/* attach_json.c: see attach_json.h. */
#include "live/attach_json.h"

#include <vram/vram.h>

static void stack_write(struct json_out *json, const struct attach_answer *answer, size_t first,
                        size_t count) {
    json_array_begin(json, "stack");
    for (size_t i = 0; i < count; i++) {
        json_text(json, NULL, answer->frames[first + i]);
    }
    json_array_end(json);
}

static const char *text_or_null(const char *text) {
    return text[0] ? text : NULL;
}

void attach_json_groups(struct json_out *json, const struct attach_answer *answer, bool leaks,
                        size_t most) {
    json_array_begin(json, "groups");
    for (size_t i = 0, rows = 0; i < answer->group_count && rows < most; i++) {
        const struct attach_group *group = &answer->groups[i];
        if ((leaks ? group->old_blocks : group->blocks) == 0) {
            continue;
        }
        rows++;
        json_object_begin(json, NULL);
        json_text(json, "tag", text_or_null(group->tag));
        json_bool(json, "foreign", group->foreign);
        json_bool(json, "rest", group->rest);
        json_unsigned(json, "bytes", group->bytes);
        json_unsigned(json, "blocks", group->blocks);
        json_unsigned(json, "old_bytes", group->old_bytes);
        json_unsigned(json, "old_blocks", group->old_blocks);
        json_unsigned(json, "oldest_ns", group->oldest_ns);
        json_unsigned(json, "largest_bytes", group->largest_bytes);
        stack_write(json, answer, group->first_frame, group->frames);
        json_object_end(json);
    }
    json_array_end(json);
}

void attach_json_largest(struct json_out *json, const struct attach_answer *answer, bool leaks,
                         size_t most) {
    json_array_begin(json, "largest");
    for (size_t i = 0, rows = 0; i < answer->largest_count && rows < most; i++) {
        const struct attach_block *block = &answer->largest[i];
        if (leaks && block->age_ns < VRAM_LIVE_OLD_NS) {
            continue;
        }
        rows++;
        json_object_begin(json, NULL);
        json_unsigned(json, "id", block->id);
        json_text(json, "pool", text_or_null(block->pool));
        json_address(json, "address", block->addr);
        json_unsigned(json, "requested_bytes", block->requested_bytes);
        json_unsigned(json, "held_bytes", block->held_bytes);
        json_unsigned(json, "age_ns", block->age_ns);
        json_unsigned(json, "thread", block->thread);
        json_text(json, "tag", text_or_null(block->tag));
        json_text(json, "name", text_or_null(block->name));
        stack_write(json, answer, block->first_frame, block->frames);
        json_object_end(json);
    }
    json_array_end(json);
}

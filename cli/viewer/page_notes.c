/* SPDX-License-Identifier: Apache-2.0 */
/* page_notes.c: see page_notes.h. */
#include "page_notes.h"

#include <math.h>
#include <vram/oom.h>

static void known_write(struct json_out *json, const char *key, uint64_t value) {
    if (value == REFUSAL_NOT_KNOWN) {
        json_null(json, key);
    } else {
        json_unsigned(json, key, value);
    }
}

static const char *cause_words(uint64_t cause) {
    static const struct {
        uint64_t cause;
        const char *words;
    } all[] = {
#define CAUSE_WORDS(NAME, value, name, text) {value, text},
        VRAM_OOM_CAUSE_MAP(CAUSE_WORDS)
#undef CAUSE_WORDS
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i].cause == cause) {
            return all[i].words;
        }
    }
    return "the cause is not known";
}

static void steps_write(struct json_out *json, const struct refusal_report *report) {
    json_array_begin(json, "steps");
    for (uint32_t i = 0; i < report->step_count; i++) {
        const struct refusal_step *step = &report->steps[i];
        json_object_begin(json, NULL);
        json_text(json, "name", vram_ladder_step_name((vram_ladder_step)step->step));
        json_unsigned(json, "taken", step->taken);
        json_unsigned(json, "bytes", step->bytes);
        json_unsigned(json, "ns", step->ns);
        json_object_end(json);
    }
    json_array_end(json);
}

static void holders_write(struct json_out *json, const struct refusal_report *report) {
    json_array_begin(json, "holders");
    for (uint32_t i = 0; i < report->holder_count; i++) {
        const struct refusal_holder *holder = &report->holders[i];
        json_object_begin(json, NULL);
        json_text(json, "tag", holder->tag);
        json_unsigned(json, "bytes", holder->bytes);
        json_unsigned(json, "blocks", holder->blocks);
        json_object_end(json);
    }
    json_array_end(json);
}

/* What the library itself said. */
static void report_write_json(struct json_out *json, const struct refusal_report *report) {
    json_object_begin(json, "report");
    json_text(json, "summary", report->summary);
    json_text(json, "advice", report->advice);
    json_text(json, "cause", cause_words(report->cause));
    json_unsigned(json, "needed", report->needed);
    json_unsigned(json, "reserved", report->reserved);
    json_unsigned(json, "live", report->live);
    json_unsigned(json, "rounding", report->rounding);
    json_unsigned(json, "cached", report->cached);
    json_unsigned(json, "unused", report->unused);
    json_unsigned(json, "largest", report->largest);
    json_unsigned(json, "pending", report->pending);
    json_unsigned(json, "pinned", report->pinned);
    json_unsigned(json, "stranded", report->stranded);
    json_unsigned(json, "process", report->process);
    known_write(json, "total", report->total);
    known_write(json, "free", report->free);
    known_write(json, "others", report->others);
    known_write(json, "limit", report->limit);
    steps_write(json, report);
    holders_write(json, report);
    json_object_end(json);
}

void page_frames_write(struct json_out *json, struct report_input *input, uint32_t stack) {
    const char *frame;
    json_array_begin(json, "frames");
    for (uint32_t i = 0; stack > 0 && (frame = report_input_frame(input, stack, i)) != NULL; i++) {
        json_text(json, NULL, frame);
    }
    json_array_end(json);
}

static void refusal_write(struct json_out *json, const struct scene *scene,
                          struct report_input *input, const struct scene_refusal *refusal) {
    json_object_begin(json, "refusal");
    json_unsigned(json, "live", refusal->live);
    json_number(json, "held", refusal->held); /* null if it is not known */
    json_unsigned(json, "device_free", refusal->device_free);
    json_text(json, "tag", refusal->tag);
    json_text(json, "pool", refusal->pool);
    page_frames_write(json, input, refusal->stack);
    json_array_begin(json, "tags");
    for (uint32_t i = 0; i < scene->grouped[SCENE_TAGS].column_count; i++) {
        json_unsigned(json, NULL, refusal->tags[i]);
    }
    json_array_end(json);
    json_array_begin(json, "stacks");
    for (size_t i = 0; i < refusal->stack_count; i++) {
        json_object_begin(json, NULL);
        json_unsigned(json, "stack", refusal->stacks[i]);
        json_unsigned(json, "bytes", refusal->bytes[i]);
        json_object_end(json);
    }
    json_array_end(json);
    if (refusal->reported) {
        report_write_json(json, &refusal->report);
    }
    json_object_end(json);
}

void page_notes_write(struct json_out *json, const struct scene *scene,
                      struct report_input *input) {
    json_array_begin(json, "notes");
    for (size_t i = 0; i < scene->note_count; i++) {
        const struct scene_note *note = &scene->notes[i];
        json_object_begin(json, NULL);
        json_unsigned(json, "time", note->time_ns - scene->begin_ns);
        json_unsigned(json, "step", note->step);
        json_unsigned(json, "bytes", note->bytes);
        json_text(json, "status",
                  note->status != 0 ? vram_status_name((vram_status)note->status) : NULL);
        json_text(json, "text", note->text);
        if (note->refusal != NULL) {
            refusal_write(json, scene, input, note->refusal);
        }
        json_object_end(json);
    }
    json_array_end(json);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* top_output.c: see top_output.h. */
#include "top/top_output.h"

#include "live/page_json.h"
#include "output.h"
#include "survey.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------------- JSON */

static void device_json(struct json_out *json, const struct machine_device *device) {
    char uuid[UUID_TEXT_MAX];
    json_object_begin(json, NULL);
    json_text(json, "device", device->label);
    json_text(json, "name", device->name[0] != 0 ? device->name : NULL);
    json_text(json, "uuid", device->uuid_known ? uuid_format(device->uuid, uuid) : NULL);
    json_text(json, "pci", device->pci[0] != 0 ? device->pci : NULL);
    json_bool(json, "simulated", device->simulated);
    page_json_number(json, "total_bytes", device->total_bytes);
    page_json_number(json, "free_bytes", device->free_bytes);
    page_json_number(json, "used_bytes", machine_used(device));
    page_json_number(json, "libvram_held_bytes", device->held_bytes);
    page_json_number(json, "others_bytes", machine_others(device));
    json_object_end(json);
}

static void sizes_json(struct json_out *json, const struct page_view *view) {
    json_array_begin(json, "sizes");
    for (uint32_t i = 0; i < VRAM_LIVE_PAGE_SIZES; i++) {
        const vram_live_page_size *size = &view->head.sizes[i];
        if (size->blocks != 0) {
            json_object_begin(json, NULL);
            json_unsigned(json, "up_to_bytes", UINT64_C(1) << i);
            page_json_number(json, "blocks", size->blocks);
            page_json_number(json, "bytes", size->bytes);
            json_object_end(json);
        }
    }
    json_array_end(json);
}

static void uses_json(struct json_out *json, const struct machine *machine,
                      const struct machine_process *process) {
    json_array_begin(json, "devices");
    for (uint32_t i = 0; i < process->use_count; i++) {
        const struct machine_use *use = &process->uses[i];
        json_object_begin(json, NULL);
        json_text(json, "device", machine->devices[use->device].label);
        page_json_number(json, "held_bytes", use->held_bytes);
        page_json_number(json, "driver_bytes", use->driver_bytes);
        page_json_number(json, "host_bytes", use->other_bytes);
        json_object_end(json);
    }
    json_array_end(json);
}

static void process_json(struct json_out *json, const struct machine *machine,
                         const struct machine_process *process) {
    const struct page_view *view = &process->view;
    char user[USER_TEXT_MAX];
    json_object_begin(json, NULL);
    json_unsigned(json, "pid", process->pid);
    json_text(json, "user", process->user_known ? user_format(process, user) : NULL);
    json_text(json, "command", process->command[0] != 0 ? process->command : NULL);
    json_text(json, "origin",
              !process->paged                           ? "driver"
              : view->head.origin == VRAM_LIVE_PAGE_RUN ? "run"
                                                        : "library");
    json_bool(json, "stopped", view->silent);
    page_json_number(json, "held_bytes", process->held_bytes);
    page_json_number(json, "driver_bytes", process->driver_bytes);
    page_json_share(json, "ratio", process->ratio_hundreds, 100);
    json_text(json, "pressure",
              process->paged ? vram_pressure_level_name((vram_pressure_level)process->level)
                             : NULL);
    uses_json(json, machine, process);
    if (process->paged) {
        json_object_begin(json, "sum");
        page_json_counts(json, &view->head.sum);
        json_object_end(json);
        json_unsigned(json, "pool_count", view->head.pools.total);
        json_unsigned(json, "tag_count", view->head.tags.total);
        page_json_pools(json, view);
        page_json_tags(json, view);
        sizes_json(json, view);
        page_json_refusals(json, view);
    }
    json_object_end(json);
}

bool top_json(const struct view *view, const struct machine *machine) {
    struct json_out json;
    output_json_begin(&json, "vram.top/1");
    json_unsigned(&json, "time_ns", machine->now_ns);
    json_bool(&json, "complete", !machine->cut && !machine->silent);
    json_array_begin(&json, "devices");
    for (uint32_t i = 0; i < machine->device_count; i++) {
        device_json(&json, &machine->devices[i]);
    }
    json_array_end(&json);
    json_array_begin(&json, "processes");
    for (uint32_t i = 0; i < view->row_count; i++) {
        process_json(&json, machine, &machine->processes[view->order[i]]);
    }
    json_array_end(&json);
    return output_json_end(&json);
}

/* -------------------------------------------------------------------------- CSV */

/* A field in quotes if it needs them. A spreadsheet takes what begins with = for a formula: such
   names get a quote mark before. */
static void field_text(const char *text) {
    bool formula = text[0] != 0 && strchr("=+-@", text[0]) != NULL && text[1] != 0;
    if (!formula && text[strcspn(text, ",\"\r\n")] == 0) {
        printf("%s", text);
        return;
    }
    printf("\"%s", formula ? "'" : "");
    for (; *text != 0; text++) {
        printf("%s%c", *text == '"' ? "\"" : "", *text);
    }
    printf("\"");
}

/* What is not known is empty, as spreadsheets and pandas have it. */
static void field_number(uint64_t value) {
    if (value != UNKNOWN) {
        printf("%" PRIu64, value);
    }
}

static void process_csv(const struct machine *machine, const struct machine_process *process) {
    char text[CELL_BYTES];
    const uint64_t bytes[] = {process->held_bytes, process->live_bytes, process->cached_bytes};
    printf("%" PRIu64 ",%" PRIu64 ",", machine->now_ns, process->pid);
    field_text(process->user_known ? column_format(machine, process, COLUMN_USER, text) : "");
    printf(",");
    field_text(process->use_count > 0 ? column_format(machine, process, COLUMN_DEVICE, text) : "");
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        printf(",");
        field_number(bytes[i]);
    }
    printf(",");
    if (process->ratio_hundreds != UNKNOWN) {
        printf("%" PRIu64 ".%02" PRIu64, process->ratio_hundreds / 100,
               process->ratio_hundreds % 100);
    }
    printf(",");
    field_number(process->peak_bytes);
    printf(",");
    field_number(process->driver_bytes);
    printf(",%s,", process->paged && process->level > 0
                       ? vram_pressure_level_name((vram_pressure_level)process->level)
                       : "");
    if (process->alloc_rate != UNKNOWN) {
        printf("%" PRIu64 ".%03" PRIu64, process->alloc_rate / 1000, process->alloc_rate % 1000);
    }
    printf(",");
    field_text(process->top_tag);
    printf(",");
    field_text(process->command);
    printf("\n");
}

void top_csv(const struct view *view, const struct machine *machine, bool head) {
    if (head) {
        printf("time_ns");
        for (int i = 0; i < COLUMN_COUNT; i++) {
            printf(",%s", top_columns[i].key);
        }
        printf("\n");
    }
    for (uint32_t i = 0; i < view->row_count; i++) {
        process_csv(machine, &machine->processes[view->order[i]]);
    }
}

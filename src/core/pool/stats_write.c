/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stats_write.c: the counters of a pool, a device or a context, and their pressure, as text and as
 * JSON.
 */
#include "core/ladder/ladder.h"
#include "core/pressure/pressure_state.h"
#include "core/stats/pool_stats.h"

#include "base/error.h"
#include "base/json.h"
#include "vram/pressure.h"
#include "vram/stats.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum field_kind { NUMBER, RATE, VALUE, BY_STEP, BY_RESPONSE, BY_LEVEL };

/* Every field of vram_pool_stats, in its order. */
#define STATS_FIELDS(X)                                                                            \
    X(requested_bytes, NUMBER)                                                                     \
    X(allocated_bytes, NUMBER)                                                                     \
    X(cached_bytes, NUMBER)                                                                        \
    X(reserved_bytes, NUMBER)                                                                      \
    X(peak_requested_bytes, NUMBER)                                                                \
    X(peak_allocated_bytes, NUMBER)                                                                \
    X(peak_reserved_bytes, NUMBER)                                                                 \
    X(live_blocks, NUMBER)                                                                         \
    X(allocs, NUMBER)                                                                              \
    X(frees, NUMBER)                                                                               \
    X(hits, NUMBER)                                                                                \
    X(misses, NUMBER)                                                                              \
    X(cache_hits, NUMBER)                                                                          \
    X(returns, NUMBER)                                                                             \
    X(cache_returns, NUMBER)                                                                       \
    X(moved_handles, NUMBER)                                                                       \
    X(moved_bytes, NUMBER)                                                                         \
    X(move_ns, NUMBER)                                                                             \
    X(spare_handles, NUMBER)                                                                       \
    X(driver_creates, NUMBER)                                                                      \
    X(driver_releases, NUMBER)                                                                     \
    X(driver_maps, NUMBER)                                                                         \
    X(driver_unmaps, NUMBER)                                                                       \
    X(driver_accesses, NUMBER)                                                                     \
    X(driver_allocs, NUMBER)                                                                       \
    X(driver_frees, NUMBER)                                                                        \
    X(driver_markers, NUMBER)                                                                      \
    X(metadata_bytes, NUMBER)                                                                      \
    X(thread_cache_bytes, NUMBER)                                                                  \
    X(hit_rate, RATE)                                                                              \
    X(rounding_bytes, NUMBER)                                                                      \
    X(active_buffers, NUMBER)                                                                      \
    X(peak_scopes, NUMBER)                                                                         \
    X(budget_bytes, VALUE)                                                                         \
    X(refusals, NUMBER)                                                                            \
    X(limit_refusals, NUMBER)                                                                      \
    X(quota_refusals, NUMBER)                                                                      \
    X(quota_crossings, NUMBER)                                                                     \
    X(fallbacks, NUMBER)                                                                           \
    X(fallback_bytes, NUMBER)                                                                      \
    X(ladder_runs, NUMBER)                                                                         \
    X(ladder_steps, BY_STEP)                                                                       \
    X(ladder_bytes, BY_STEP)                                                                       \
    X(ladder_rescues, BY_STEP)                                                                     \
    X(response_steps, BY_RESPONSE)                                                                 \
    X(response_bytes, BY_RESPONSE)                                                                 \
    X(rises, BY_LEVEL)                                                                             \
    X(falls, BY_LEVEL)                                                                             \
    X(cleanups, NUMBER)                                                                            \
    X(cleaned_bytes, NUMBER)                                                                       \
    X(last_cleanup_ns, VALUE)                                                                      \
    X(sleeps, NUMBER)                                                                              \
    X(wakes, NUMBER)                                                                               \
    X(asleep_bytes, NUMBER)                                                                        \
    X(asleep_host_bytes, NUMBER)                                                                   \
    X(quarantine_bytes, NUMBER)                                                                    \
    X(damaged_blocks, NUMBER)                                                                      \
    X(other_bytes, NUMBER)                                                                         \
    X(promotions, NUMBER)                                                                          \
    X(promoted_bytes, NUMBER)                                                                      \
    X(demotions, NUMBER)                                                                           \
    X(demoted_bytes, NUMBER)                                                                       \
    X(unchecked_blocks, NUMBER)                                                                    \
    X(sealed_bytes, NUMBER)                                                                        \
    X(shared_bytes, NUMBER)

#define FIELD_BYTES(name, kind) +sizeof(((struct vram_pool_stats *)0)->name)
_Static_assert(sizeof(size_t) STATS_FIELDS(FIELD_BYTES) == sizeof(struct vram_pool_stats),
               "a field of vram_pool_stats is missing in STATS_FIELDS");

static const struct field {
    const char *name;
    size_t offset;
    enum field_kind kind;
} fields[] = {
#define FIELD_ROW(name, kind) {#name, offsetof(struct vram_pool_stats, name), kind},
    STATS_FIELDS(FIELD_ROW)};

enum { FIELD_COUNT = sizeof fields / sizeof fields[0] };

static const char *const responses[] = {"halve", "drop", "emergency", "decay", "maintain"};

static const char *const levels[] = {
#define LEVEL_NAME(NAME, number, name, text) [number] = name,
    VRAM_PRESSURE_MAP(LEVEL_NAME)};

/* The name of element `index` of a field by steps or levels; NULL after the last. */
static const char *element_name(enum field_kind kind, unsigned index) {
    switch (kind) {
    case BY_STEP:
        return index < VRAM_LADDER_STEPS ? vr_ladder_step_name((vram_ladder_step)index) : NULL;
    case BY_RESPONSE:
        return index < sizeof responses / sizeof *responses ? responses[index] : NULL;
    case BY_LEVEL:
        return index < sizeof levels / sizeof *levels ? levels[index] : NULL;
    default:
        return NULL;
    }
}

/* What is written, and of what. */
struct stats_report {
    const char *of; /* "pool", "device" or "context" */
    const char *name;
    struct vram_pool_stats stats;
    struct vram_pressure pressure;             /* size 0: there is none, of a context */
    struct vr_reader readers[VR_READERS_MOST]; /* of a pool; else all 0 */
};

/* ----------------------------------------------------------------------- text */

static void field_text(struct vr_writer *writer, const struct field *field, const void *at) {
    const uint64_t *numbers = at;
    const char *name;
    switch (field->kind) {
    case RATE:
        vr_writer_line(writer, "  %s: %.4f", field->name, *(const double *)at);
        break;
    case VALUE: {
        const struct vram_value *value = at;
        char text[24] = "unknown";
        if (value->known) {
            snprintf(text, sizeof text, "%llu", (unsigned long long)value->value);
        }
        vr_writer_line(writer, "  %s: %s", field->name, text);
        break;
    }
    case NUMBER:
        vr_writer_line(writer, "  %s: %llu", field->name, (unsigned long long)*numbers);
        break;
    default:
        for (unsigned i = 0; (name = element_name(field->kind, i)); i++) {
            vr_writer_line(writer, "  %s.%s: %llu", field->name, name,
                           (unsigned long long)numbers[i]);
        }
        break;
    }
}

static vram_status stats_text(const struct stats_report *report, struct vr_writer *writer) {
    vr_writer_line(writer, "%s \"%s\"", report->of, report->name);
    for (unsigned i = 0; i < FIELD_COUNT; i++) {
        field_text(writer, &fields[i], (const char *)&report->stats + fields[i].offset);
    }
    for (int i = 0; i < VR_READERS_MOST; i++) {
        const struct vr_reader *reader = &report->readers[i];
        if (reader->opens) {
            vr_writer_line(writer, "  shared with pid %llu: %llu",
                           (unsigned long long)reader->process, (unsigned long long)reader->bytes);
        }
    }
    if (report->pressure.size) {
        vr_writer_line(writer, "  pressure: %s", levels[report->pressure.level]);
    }
    return vr_writer_end(writer, vr_operation());
}

/* ----------------------------------------------------------------------- JSON */

static void field_json(struct vr_json *json, const struct field *field, const void *at) {
    const uint64_t *numbers = at;
    const char *name;
    switch (field->kind) {
    case RATE:
        vr_json_number(json, field->name, *(const double *)at);
        break;
    case VALUE:
        vr_json_value(json, field->name, *(const struct vram_value *)at);
        break;
    case NUMBER:
        vr_json_unsigned(json, field->name, *numbers);
        break;
    default:
        vr_json_object_begin(json, field->name);
        for (unsigned i = 0; (name = element_name(field->kind, i)); i++) {
            vr_json_unsigned(json, name, numbers[i]);
        }
        vr_json_object_end(json);
        break;
    }
}

static void number_or_null(struct vr_json *json, const char *key, bool known, double value) {
    if (known) {
        vr_json_number(json, key, value);
    } else {
        vr_json_text(json, key, NULL);
    }
}

static void pressure_json(struct vr_json *json, const struct vram_pressure *pressure) {
    if (!pressure->size) {
        vr_json_text(json, "pressure", NULL);
        return;
    }
    vr_json_object_begin(json, "pressure");
    vr_json_text(json, "level", levels[pressure->level]);
    number_or_null(json, "value", pressure->known, pressure->value);
    number_or_null(json, "own", pressure->own_known, pressure->own);
    number_or_null(json, "device", pressure->device_known, pressure->device);
    vr_json_value(json, "limit_bytes", pressure->limit_bytes);
    vr_json_value(json, "free_bytes", pressure->free_bytes);
    vr_json_value(json, "total_bytes", pressure->total_bytes);
    vr_json_object_end(json);
}

static void readers_json(struct vr_json *json, const struct vr_reader *readers) {
    vr_json_array_begin(json, "shared_with");
    for (int i = 0; i < VR_READERS_MOST; i++) {
        if (readers[i].opens) {
            vr_json_object_begin(json, NULL);
            vr_json_unsigned(json, "process", readers[i].process);
            vr_json_unsigned(json, "bytes", readers[i].bytes);
            vr_json_object_end(json);
        }
    }
    vr_json_array_end(json);
}

static vram_status stats_json(const struct stats_report *report, struct vr_writer *writer) {
    struct vr_json json;
    vr_json_document_begin(&json, writer);
    vr_json_object_begin(&json, NULL);
    vr_json_text(&json, "schema", "vram.stats/1");
    vr_json_text(&json, "of", report->of);
    vr_json_text(&json, "name", report->name);
    for (unsigned i = 0; i < FIELD_COUNT; i++) {
        field_json(&json, &fields[i], (const char *)&report->stats + fields[i].offset);
    }
    readers_json(&json, report->readers);
    pressure_json(&json, &report->pressure);
    vr_json_object_end(&json);
    return vr_json_document_end(&json, vr_operation());
}

/* --------------------------------------------------------------------- public */

/* Enters the object, whose kind the caller has named. */
static vram_status report_begin(enum vr_kind kind, const void *handle, vram_report_format format,
                                vram_write_fn *write, void *user, struct vr_writer *writer,
                                void **entered) {
    vram_status status = vr_writer_begin(writer, format, write, user, vr_operation());
    return status == VRAM_OK ? vr_enter(kind, handle, entered) : status;
}

/* The object is entered, so that its name stays valid, and no lock is held: the writer may be the
   program's. */
static vram_status report_end(const struct stats_report *report, vram_report_format format,
                              struct vr_writer *writer, void *entered) {
    vram_status status =
        format == VRAM_REPORT_JSON ? stats_json(report, writer) : stats_text(report, writer);
    vr_leave(entered);
    return status;
}

vram_status vram_pool_stats_write(vram_pool *handle, vram_report_format format,
                                  vram_write_fn *write, void *user) {
    VR_CALL;
    struct stats_report report = {.of = "pool", .stats.size = sizeof report.stats};
    struct vr_writer writer;
    void *entered;
    vram_status status = report_begin(VR_KIND_POOL, handle, format, write, user, &writer, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_pool *pool = entered;
    report.name = pool->name;
    vr_stats_of_pool(pool, &report.stats);
    vr_pressure_of_pool(pool, false, &report.pressure);
    vr_mutex_lock(&pool->lock);
    memcpy(report.readers, pool->readers, sizeof report.readers);
    vr_mutex_unlock(&pool->lock);
    return report_end(&report, format, &writer, entered);
}

vram_status vram_device_stats_write(vram_device *handle, vram_report_format format,
                                    vram_write_fn *write, void *user) {
    VR_CALL;
    struct stats_report report = {.of = "device", .stats.size = sizeof report.stats};
    struct vr_writer writer;
    void *entered;
    vram_status status =
        report_begin(VR_KIND_DEVICE, handle, format, write, user, &writer, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_device_object *device = entered;
    report.name = device->base.info.name;
    vr_stats_of_device(device, &report.stats);
    vr_pressure_of_device(device, NULL, &report.pressure);
    return report_end(&report, format, &writer, entered);
}

vram_status vram_context_stats_write(vram_context *handle, vram_report_format format,
                                     vram_write_fn *write, void *user) {
    VR_CALL;
    struct stats_report report = {
        .of = "context", .name = "all devices", .stats.size = sizeof report.stats};
    struct vr_writer writer;
    void *entered;
    vram_status status =
        report_begin(VR_KIND_CONTEXT, handle, format, write, user, &writer, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    vr_stats_of_context(entered, &report.stats);
    return report_end(&report, format, &writer, entered);
}

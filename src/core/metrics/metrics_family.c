/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics_family.c: the list of metrics; see metrics_text.h.
 *
 *  (1) Names never change, and a name means one thing. A metric that is not known of an object has
 *      no sample of it; 0 is a number like any other.
 *  (2) No two samples of a family have the same labels.
 */
#include "core/metrics/metrics_text.h"

#include "vram/oom.h"
#include "vram/pressure.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum family_scope { OF_PROCESS, OF_DEVICE, OF_POOL, OF_TAG };

enum family_kind {
    NUMBER,  /* uint64_t */
    RATIO,   /* uint64_t in millionths */
    LEVEL,   /* uint32_t, a vram_pressure_level */
    CAUSES,  /* uint64_t by vram_oom_cause */
    REFUSED, /* the three counters of refusals of vram_live_page_counts */
    IDENTITY /* 1, with labels that describe the object */
};

struct family {
    struct vr_metric_head head;
    enum family_scope scope;
    enum family_kind kind;
    size_t offset; /* of the field in its row */
};

#define PROCESS(field) OF_PROCESS, NUMBER, offsetof(struct vram_live_page, field)
#define DEVICE(field)  OF_DEVICE, NUMBER, offsetof(struct vram_live_page_device, field)
#define POOL(field)    OF_POOL, NUMBER, offsetof(struct vram_live_page_pool, field)
#define TAG(field)     OF_TAG, NUMBER, offsetof(struct vram_live_page_tag, field)

static const struct family families[] = {
    /* of a process */
    {{"vram_process", NULL, "A process that uses libvram or runs under vram run.", VR_METRIC_INFO},
     OF_PROCESS,
     IDENTITY,
     0},
    {{"vram_process_held_bytes", "bytes", "Device memory that the pools of a process hold.",
      VR_METRIC_GAUGE},
     PROCESS(sum.held_bytes)},
    {{"vram_process_live_bytes", "bytes", "Memory in live blocks, as requested.", VR_METRIC_GAUGE},
     PROCESS(sum.live_bytes)},
    {{"vram_process_foreign_bytes", "bytes", "Device memory of other code, as recorded.",
      VR_METRIC_GAUGE},
     PROCESS(foreign_bytes)},
    {{"vram_process_pools", NULL, "Pools that exist; the 64 largest have metrics of their own.",
      VR_METRIC_GAUGE},
     OF_PROCESS,
     NUMBER,
     SIZE_MAX},
    {{"vram_process_allocations", NULL, "Allocations that succeeded.", VR_METRIC_COUNTER},
     PROCESS(sum.allocs)},
    {{"vram_process_driver_calls", NULL, "Driver calls of pools, markers included.",
      VR_METRIC_COUNTER},
     PROCESS(sum.driver_calls)},
    {{"vram_process_refusals", NULL, "Allocations that failed because memory ran out, by cause.",
      VR_METRIC_COUNTER},
     OF_PROCESS,
     CAUSES,
     offsetof(struct vram_live_page, causes)},
    /* of a device, as one process sees it */
    {{"vram_device", NULL, "A device that a process uses.", VR_METRIC_INFO},
     OF_DEVICE,
     IDENTITY,
     0},
    {{"vram_device_memory_bytes", "bytes", "All memory of the device.", VR_METRIC_GAUGE},
     DEVICE(memory_bytes)},
    {{"vram_device_free_bytes", "bytes", "Free memory of the device, as its driver says.",
      VR_METRIC_GAUGE},
     DEVICE(free_bytes)},
    {{"vram_device_held_bytes", "bytes", "Memory of the device that the process holds.",
      VR_METRIC_GAUGE},
     DEVICE(held_bytes)},
    {{"vram_device_peak_held_bytes", "bytes", "Most that the process held.", VR_METRIC_GAUGE},
     DEVICE(peak_held_bytes)},
    {{"vram_device_limit_bytes", "bytes", "Most that the process may hold.", VR_METRIC_GAUGE},
     DEVICE(limit_bytes)},
    {{"vram_device_pressure_ratio", "ratio", "How full the device is, from 0 to 1.",
      VR_METRIC_GAUGE},
     OF_DEVICE,
     RATIO,
     offsetof(struct vram_live_page_device, pressure_millionths)},
    {{"vram_device_pressure", NULL, "Level of pressure on the device.", VR_METRIC_STATES},
     OF_DEVICE,
     LEVEL,
     offsetof(struct vram_live_page_device, pressure_level)},
    /* of a pool */
    {{"vram_pool_held_bytes", "bytes", "Memory that the pool has taken from the driver.",
      VR_METRIC_GAUGE},
     POOL(counts.held_bytes)},
    {{"vram_pool_peak_held_bytes", "bytes", "Most that the pool held.", VR_METRIC_GAUGE},
     POOL(counts.peak_held_bytes)},
    {{"vram_pool_live_bytes", "bytes", "Memory in live blocks, as requested.", VR_METRIC_GAUGE},
     POOL(counts.live_bytes)},
    {{"vram_pool_allocated_bytes", "bytes", "Memory in live blocks, after rounding.",
      VR_METRIC_GAUGE},
     POOL(counts.allocated_bytes)},
    {{"vram_pool_cached_bytes", "bytes", "Free memory in caches of the pool.", VR_METRIC_GAUGE},
     POOL(counts.cached_bytes)},
    {{"vram_pool_asleep_bytes", "bytes", "Addresses that are kept without memory.",
      VR_METRIC_GAUGE},
     POOL(counts.asleep_bytes)},
    {{"vram_pool_limit_bytes", "bytes", "Most that the pool may hold.", VR_METRIC_GAUGE},
     POOL(counts.limit_bytes)},
    {{"vram_pool_live_blocks", NULL, "Live blocks.", VR_METRIC_GAUGE}, POOL(counts.live_blocks)},
    {{"vram_pool_allocations", NULL, "Allocations that succeeded.", VR_METRIC_COUNTER},
     POOL(counts.allocs)},
    {{"vram_pool_frees", NULL, "Blocks that were freed.", VR_METRIC_COUNTER}, POOL(counts.frees)},
    {{"vram_pool_hits", NULL, "Allocations served without a driver call.", VR_METRIC_COUNTER},
     POOL(counts.hits)},
    {{"vram_pool_misses", NULL, "Allocations that needed the driver.", VR_METRIC_COUNTER},
     POOL(counts.misses)},
    {{"vram_pool_refusals", NULL,
      "Allocations that failed because memory ran out: by a limit, by a quota, or for lack of "
      "memory.",
      VR_METRIC_COUNTER},
     OF_POOL,
     REFUSED,
     offsetof(struct vram_live_page_pool, counts)},
    {{"vram_pool_fallbacks", NULL, "Allocations served by other memory than the device's.",
      VR_METRIC_COUNTER},
     POOL(counts.fallbacks)},
    {{"vram_pool_moved_bytes", "bytes", "Physical memory moved to where it was needed.",
      VR_METRIC_COUNTER},
     POOL(counts.moved_bytes)},
    {{"vram_pool_driver_calls", NULL, "Driver calls of the pool, markers included.",
      VR_METRIC_COUNTER},
     POOL(counts.driver_calls)},
    {{"vram_pool_pressure_ratio", "ratio", "How full the pool or its device is, from 0 to 1.",
      VR_METRIC_GAUGE},
     OF_POOL,
     RATIO,
     offsetof(struct vram_live_page_pool, pressure_millionths)},
    {{"vram_pool_pressure", NULL, "Level of pressure on the pool.", VR_METRIC_STATES},
     OF_POOL,
     LEVEL,
     offsetof(struct vram_live_page_pool, pressure_level)},
    /* of a tag and all below it */
    {{"vram_tag_used_bytes", "bytes", "Memory in live blocks of the tag and all below it.",
      VR_METRIC_GAUGE},
     TAG(used_bytes)},
    {{"vram_tag_peak_used_bytes", "bytes", "Most that they had.", VR_METRIC_GAUGE},
     TAG(peak_bytes)},
    {{"vram_tag_soft_quota_bytes", "bytes", "Above this a handler is called.", VR_METRIC_GAUGE},
     TAG(soft_bytes)},
    {{"vram_tag_hard_quota_bytes", "bytes", "Above this allocations are refused.", VR_METRIC_GAUGE},
     TAG(hard_bytes)},
    {{"vram_tag_refusals", NULL, "Allocations that the hard quota refused.", VR_METRIC_COUNTER},
     TAG(refusals)},
};

static const char *const levels[] = {
#define LEVEL_NAME(NAME, number, name, text) [number] = name,
    VRAM_PRESSURE_MAP(LEVEL_NAME)};

static const char *const causes[] = {
#define CAUSE_NAME(NAME, value, name, text) [value] = name,
    VRAM_OOM_CAUSE_MAP(CAUSE_NAME)};
_Static_assert(sizeof causes / sizeof *causes <= VRAM_LIVE_PAGE_CAUSES, "a page has all causes");

/* ------------------------------------------------------------------------- rows */

static uint32_t row_count(const struct vram_metrics_source *source, enum family_scope scope) {
    switch (scope) {
    case OF_DEVICE:
        return source->page->devices.count;
    case OF_POOL:
        return source->page->pools.count;
    case OF_TAG:
        return source->page->tags.count;
    default:
        return 1;
    }
}

static const void *row_at(const struct vram_metrics_source *source, enum family_scope scope,
                          uint32_t index) {
    const struct vram_live_page *page = source->page;
    switch (scope) {
    case OF_DEVICE:
        return (const char *)source->devices + (size_t)index * page->devices.stride;
    case OF_POOL:
        return (const char *)source->pools + (size_t)index * page->pools.stride;
    case OF_TAG:
        return (const char *)source->tags + (size_t)index * page->tags.stride;
    default:
        return page;
    }
}

static bool table_fits(const struct vram_live_page_table *table, const void *rows,
                       size_t row_bytes) {
    return table->count == 0 ||
           (rows && table->stride % _Alignof(uint64_t) == 0 && table->stride >= row_bytes);
}

bool vr_metrics_source_fits(const struct vram_metrics_source *source) {
    const struct vram_live_page *page = source->page;
    return page &&
           table_fits(&page->devices, source->devices, sizeof(struct vram_live_page_device)) &&
           table_fits(&page->pools, source->pools, sizeof(struct vram_live_page_pool)) &&
           table_fits(&page->tags, source->tags, sizeof(struct vram_live_page_tag));
}

/* ----------------------------------------------------------------------- labels */

/* One family, of one row of one page. */
struct sample {
    struct vr_metrics_text *text;
    const struct family *family;
    const struct vram_metrics_source *source;
    const void *row;
    uint32_t index; /* of the row */
};

#define LABEL(sample, name, field) vr_metrics_label((sample)->text, name, field, sizeof(field))

static void label_uuid(struct vr_metrics_text *text, const struct vram_live_page_device *device) {
    char uuid[40] = "";
    const uint8_t *id = device->uuid;
    if (device->uuid_known) {
        snprintf(uuid, sizeof uuid,
                 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", id[0],
                 id[1], id[2], id[3], id[4], id[5], id[6], id[7], id[8], id[9], id[10], id[11],
                 id[12], id[13], id[14], id[15]);
    }
    vr_metrics_label(text, "uuid", uuid, sizeof uuid);
}

static bool same_device(const struct vram_live_page_device *a,
                        const struct vram_live_page_device *b) {
    return a->index == b->index && strncmp(a->backend, b->backend, sizeof a->backend) == 0;
}

/* What comes behind a name that others have too: keeps (2). */
static void number_name(char *name, size_t bytes, unsigned number) {
    size_t used = strlen(name);
    if (number > 1 && used < bytes) {
        snprintf(name + used, bytes - used, "#%u", number);
    }
}

/* `index` UINT32_MAX: the page has no row of the device. Two contexts of a process may have rows of
   the same device. */
static void label_device(const struct sample *sample, uint32_t index) {
    static const struct vram_live_page_device unknown;
    const struct vram_live_page_device *device = &unknown;
    char label[sizeof device->backend + 32] = "";
    if (index < sample->source->page->devices.count) {
        unsigned number = 1;
        device = row_at(sample->source, OF_DEVICE, index);
        for (uint32_t i = 0; i < index; i++) {
            number += same_device(row_at(sample->source, OF_DEVICE, i), device);
        }
        snprintf(label, sizeof label, "%.*s:%u", (int)sizeof device->backend, device->backend,
                 (unsigned)device->index);
        number_name(label, sizeof label, number);
    }
    vr_metrics_label(sample->text, "device", label, sizeof label);
    label_uuid(sample->text, device);
}

/* Pools of one name are numbered in the order in which they were created. */
static void label_pool(const struct sample *sample) {
    const struct vram_live_page_pool *pool = sample->row;
    unsigned number = 1;
    for (uint32_t i = 0; i < sample->source->page->pools.count; i++) {
        const struct vram_live_page_pool *other = row_at(sample->source, OF_POOL, i);
        bool older = other->id < pool->id || (other->id == pool->id && i < sample->index);
        number += older && other->device == pool->device &&
                  strncmp(other->name, pool->name, sizeof pool->name) == 0;
    }
    char name[sizeof pool->name + 16];
    snprintf(name, sizeof name, "%.*s", (int)sizeof pool->name, pool->name);
    number_name(name, sizeof name, number);
    vr_metrics_label(sample->text, "pool", name, sizeof name);
}

/* Whether an earlier row has the same tag: names are truncated in pages. */
static bool tag_repeats(const struct sample *sample) {
    const struct vram_live_page_tag *tag = sample->row;
    bool repeats = false;
    for (uint32_t i = 0; i < sample->index && !repeats; i++) {
        const struct vram_live_page_tag *other = row_at(sample->source, OF_TAG, i);
        repeats =
            other->device == tag->device && strncmp(other->name, tag->name, sizeof tag->name) == 0;
    }
    return repeats;
}

static void label_row(const struct sample *sample) {
    switch (sample->family->scope) {
    case OF_DEVICE:
        label_device(sample, sample->index);
        break;
    case OF_POOL:
        label_device(sample, ((const struct vram_live_page_pool *)sample->row)->device);
        break;
    case OF_TAG:
        label_device(sample, ((const struct vram_live_page_tag *)sample->row)->device);
        break;
    case OF_PROCESS:
        break;
    }
    vr_metrics_label_number(sample->text, "pid", sample->source->page->pid);
    if (sample->family->scope == OF_POOL) {
        label_pool(sample);
    } else if (sample->family->scope == OF_TAG) {
        LABEL(sample, "tag", ((const struct vram_live_page_tag *)sample->row)->name);
    }
}

/* The labels of an info metric behind those that name the object. */
static void label_identity(const struct sample *sample) {
    if (sample->family->scope == OF_PROCESS) {
        LABEL(sample, "command", sample->source->page->command);
        vr_metrics_label(sample->text, "origin",
                         sample->source->page->origin == VRAM_LIVE_PAGE_RUN ? "run" : "library",
                         SIZE_MAX);
        LABEL(sample, "version", sample->source->page->library);
    } else {
        const struct vram_live_page_device *device = sample->row;
        LABEL(sample, "name", device->name);
        LABEL(sample, "pci", device->pci);
    }
}

/* ---------------------------------------------------------------------- samples */

static void sample_begin(const struct sample *sample) {
    vr_metrics_sample_begin(sample->text, &sample->family->head);
    label_row(sample);
}

static uint64_t number_of(const struct sample *sample) {
    uint64_t value;
    if (sample->family->offset == SIZE_MAX) {
        return sample->source->page->pools.total;
    }
    memcpy(&value, (const char *)sample->row + sample->family->offset, sizeof value);
    return value;
}

static void write_number(const struct sample *sample) {
    uint64_t value = number_of(sample);
    if (value == VRAM_LIVE_PAGE_UNKNOWN) {
        return;
    }
    sample_begin(sample);
    if (sample->family->kind == RATIO) {
        vr_metrics_sample_end_ratio(sample->text, value);
    } else {
        vr_metrics_sample_end(sample->text, value);
    }
}

/* One sample for each name of a list, `label` being the name's. */
static void write_named(const struct sample *sample, const char *label, const char *name,
                        uint64_t value) {
    sample_begin(sample);
    vr_metrics_label(sample->text, label, name, SIZE_MAX);
    vr_metrics_sample_end(sample->text, value);
}

static void write_level(const struct sample *sample) {
    uint32_t level;
    memcpy(&level, (const char *)sample->row + sample->family->offset, sizeof level);
    for (uint32_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        write_named(sample, sample->family->head.name, levels[i], i == level);
    }
}

static void write_causes(const struct sample *sample) {
    for (uint32_t i = 0; i < sizeof causes / sizeof *causes; i++) {
        write_named(sample, "cause", causes[i], sample->source->page->causes[i]);
    }
}

/* Refusals by a quota are counted as those by a limit too, and these as refusals. */
static void write_refused(const struct sample *sample) {
    const struct vram_live_page_counts *counts =
        &((const struct vram_live_page_pool *)sample->row)->counts;
    uint64_t quota = counts->quota_refusals, limit = counts->limit_refusals;
    write_named(sample, "cause", "limit", limit > quota ? limit - quota : 0);
    write_named(sample, "cause", "quota", quota);
    write_named(sample, "cause", "memory", counts->refusals > limit ? counts->refusals - limit : 0);
}

static void write_sample(const struct sample *sample) {
    switch (sample->family->kind) {
    case NUMBER:
    case RATIO:
        write_number(sample);
        break;
    case LEVEL:
        write_level(sample);
        break;
    case CAUSES:
        write_causes(sample);
        break;
    case REFUSED:
        write_refused(sample);
        break;
    case IDENTITY:
        sample_begin(sample);
        label_identity(sample);
        vr_metrics_sample_end(sample->text, 1);
        break;
    }
}

static void write_source(struct sample *sample) {
    enum family_scope scope = sample->family->scope;
    uint32_t count = row_count(sample->source, scope);
    for (sample->index = 0; sample->index < count; sample->index++) {
        sample->row = row_at(sample->source, scope, sample->index);
        if (scope != OF_TAG || !tag_repeats(sample)) {
            write_sample(sample);
        }
    }
}

void vr_metrics_families(struct vr_metrics_text *text,
                         const struct vram_metrics_source *const *sources, size_t count) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        vr_metrics_head(text, &families[i].head);
        for (size_t at = 0; at < count; at++) {
            struct sample sample = {.text = text, .family = &families[i], .source = sources[at]};
            write_source(&sample);
        }
    }
}

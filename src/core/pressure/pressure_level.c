/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pressure_level.c: how full memory is, as a number and as a level.
 */
#include "core/limit/budget.h"

#include "base/error.h"
#include "device/ops.h"

/* Where each level begins: the highest above its value, the others at it. */
static const double level_begins[] = {[VRAM_PRESSURE_UNKNOWN] = 0,
                                      [VRAM_PRESSURE_LOW] = 0,
                                      [VRAM_PRESSURE_MEDIUM] = 0.60,
                                      [VRAM_PRESSURE_HIGH] = 0.80,
                                      [VRAM_PRESSURE_CRITICAL] = 0.95};

static vram_pressure_level level_of(double value) {
    if (!(value >= 0)) { /* false for NaN, too */
        return VRAM_PRESSURE_UNKNOWN;
    }
    return value > level_begins[VRAM_PRESSURE_CRITICAL]  ? VRAM_PRESSURE_CRITICAL
           : value >= level_begins[VRAM_PRESSURE_HIGH]   ? VRAM_PRESSURE_HIGH
           : value >= level_begins[VRAM_PRESSURE_MEDIUM] ? VRAM_PRESSURE_MEDIUM
                                                         : VRAM_PRESSURE_LOW;
}

vram_pressure_level vram_pressure_level_of(double value) {
    return level_of(value);
}

double vr_pressure_level_begin(uint32_t level) {
    return level_begins[level];
}

const char *vram_pressure_level_name(vram_pressure_level level) {
    switch (level) {
#define NAME(NAME, number, name, text)                                                             \
    case VRAM_PRESSURE_##NAME:                                                                     \
        return name;
        VRAM_PRESSURE_MAP(NAME)
#undef NAME
    }
    return "unknown";
}

/* Asks the driver. What it does not report is unknown. */
static void ask_driver(struct vr_device_object *device, struct vram_pressure *p) {
    p->total_bytes = device->base.info.memory_bytes;
    p->free_bytes = (struct vram_value){.known = false};
    if ((device->base.info.caps & VRAM_CAP_MEMORY_INFO) &&
        vr_memory_info(&device->base, &p->free_bytes, &p->total_bytes) != VRAM_OK) {
        p->free_bytes = (struct vram_value){.known = false};
    }
}

/* The same from the sample that all pools of the device share. */
static void read_sample(struct vr_pool *pool, bool fresh, struct vram_pressure *p) {
    struct vr_sample sample;
    vr_sample_refresh(pool->device, fresh);
    if (vr_sample_get(pool->device, &sample)) {
        p->free_bytes = sample.free;
        p->total_bytes = sample.total;
    }
}

/* Sets the device's part. A driver may report more free memory than there is. */
static void add_device(struct vram_pressure *p) {
    uint64_t total = p->total_bytes.known ? p->total_bytes.value : 0;
    if (total && p->free_bytes.known) { /* avoids a division by 0 */
        uint64_t free = p->free_bytes.value < total ? p->free_bytes.value : total;
        p->device_known = true;
        p->device = (double)(total - free) / (double)total;
    }
}

static void add_own(struct vram_pressure *p) {
    uint64_t limit = p->limit_bytes.value;
    p->own_known = p->limit_bytes.known && (limit || p->reserved_bytes);
    if (p->own_known) { /* a limit of 0 with memory held is full */
        p->own = limit ? (double)p->reserved_bytes / (double)limit : 1;
    }
}

static void set_level(struct vram_pressure *p) {
    p->known = p->own_known || p->device_known;
    p->value = p->own > p->device ? p->own : p->device;
    p->level = p->known ? level_of(p->value) : VRAM_PRESSURE_UNKNOWN;
}

/* Memory of a provider and page-locked memory are not the device's. */
void vr_pressure_of_pool(struct vr_pool *pool, bool fresh, struct vram_pressure *p) {
    struct vram_error error;
    vr_error_save(&error);
    *p = (struct vram_pressure){.size = sizeof *p};
    p->reserved_bytes = vr_pool_reserved(pool);
    if (vr_pool_on_device(pool)) {
        read_sample(pool, fresh, p);
        add_device(p);
    }
    vr_budget_refresh(pool, false);
    uint64_t budget = vr_budget_bytes(pool);
    p->limit_bytes = (struct vram_value){.known = budget != UINT64_MAX, .value = budget};
    add_own(p);
    set_level(p);
    vr_error_restore(&error);
}

void vr_pressure_last(struct vr_pool *pool, struct vram_pressure *p) {
    struct vr_sample sample;
    *p = (struct vram_pressure){.size = sizeof *p};
    p->reserved_bytes = vr_pool_reserved(pool);
    if (vr_pool_on_device(pool) && vr_sample_get(pool->device, &sample)) {
        p->free_bytes = sample.free;
        p->total_bytes = sample.total;
        add_device(p);
    }
    uint64_t budget = vr_budget_bytes(pool);
    p->limit_bytes = (struct vram_value){.known = budget != UINT64_MAX, .value = budget};
    add_own(p);
    set_level(p);
}

void vr_pressure_of_device(struct vr_device_object *device, const struct vram_pressure *given,
                           struct vram_pressure *p) {
    struct vram_error error;
    uint64_t limit = vr_charge_limit(device);
    vr_error_save(&error);
    *p = (struct vram_pressure){.size = sizeof *p};
    if (given) {
        p->free_bytes = given->free_bytes;
        p->total_bytes = given->total_bytes;
    }
    p->reserved_bytes = vr_load(&device->slot->account->charged_bytes, VR_RELAXED);
    p->limit_bytes = (struct vram_value){.known = limit != 0, .value = limit};
    if (!given) {
        ask_driver(device, p);
    }
    add_device(p);
    add_own(p);
    set_level(p);
    vr_error_restore(&error);
}

uint32_t vr_pressure_level_after(uint32_t last, const struct vram_pressure *p, double hysteresis) {
    if (!p->known || p->level >= last) {
        return p->known ? (uint32_t)p->level : last;
    }
    while (last > (uint32_t)p->level && p->value < level_begins[last] - hysteresis) {
        last--;
    }
    return last;
}

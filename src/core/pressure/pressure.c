/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pressure.c: how near memory is to its end, and when that is looked at.
 *
 * A hit looks at nothing. A miss counts that it came by; every sixteenth, and every one that changed what
 * the pool holds, looks at the clock, and from there on it is decided what is due: a tick of the decay, a
 * look at pressure with all that follows from it.
 */
#include "core/limit/budget.h"
#include "core/pool/pool_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/option.h"
#include "device/ops.h"

enum {
    PASSES = 16, /* misses between looks at the clock, where nothing has changed */
    ROUNDS = 8   /* looks in one call, while callbacks go on changing things */
};

bool vr_pool_is_open(const struct vr_pool *pool) {
    return !vr_handle_was(VR_KIND_POOL, (const void *)(uintptr_t)pool->object.handle);
}

/* -------------------------------------------------------------------- levels */

/* Where each level begins; the highest begins above its number, the others with it. */
static const double level_begins[] = {[VRAM_PRESSURE_UNKNOWN] = 0,
                                      [VRAM_PRESSURE_LOW] = 0,
                                      [VRAM_PRESSURE_MEDIUM] = 0.60,
                                      [VRAM_PRESSURE_HIGH] = 0.80,
                                      [VRAM_PRESSURE_CRITICAL] = 0.95};

vram_pressure_level vram_pressure_level_of(double value) {
    if (!(value >= 0)) { /* no number compares */
        return VRAM_PRESSURE_UNKNOWN;
    }
    return value > level_begins[VRAM_PRESSURE_CRITICAL]  ? VRAM_PRESSURE_CRITICAL
           : value >= level_begins[VRAM_PRESSURE_HIGH]   ? VRAM_PRESSURE_HIGH
           : value >= level_begins[VRAM_PRESSURE_MEDIUM] ? VRAM_PRESSURE_MEDIUM
                                                         : VRAM_PRESSURE_LOW;
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

/* ----------------------------------------------------------------- measuring */

/* Asks the driver. What it cannot say is unknown. */
static void ask_driver(struct vr_device_object *device, struct vram_pressure *p) {
    p->total_bytes = device->base.info.memory_bytes;
    p->free_bytes = (struct vram_value){.known = false};
    if ((device->base.info.caps & VRAM_CAP_MEMORY_INFO) &&
        vr_memory_info(&device->base, &p->free_bytes, &p->total_bytes) != VRAM_OK) {
        p->free_bytes = (struct vram_value){.known = false};
    }
}

/* The same from the sample that all pools of the device share. */
static void sample(struct vr_pool *pool, bool fresh, struct vram_pressure *p) {
    struct vr_sample sample;
    vr_sample_refresh(pool->device, fresh);
    if (vr_sample_get(pool->device, &sample)) {
        p->free_bytes = sample.free;
        p->total_bytes = sample.total;
    }
}

/* Fills in the device's half. A driver may say that more is free than there is. */
static void add_device(struct vram_pressure *p) {
    uint64_t total = p->total_bytes.known ? p->total_bytes.value : 0;
    if (total && p->free_bytes.known) { /* of nothing there is no share */
        uint64_t free = p->free_bytes.value < total ? p->free_bytes.value : total;
        p->device_known = true;
        p->device = (double)(total - free) / (double)total;
    }
}

static void add_own(struct vram_pressure *p) {
    uint64_t limit = p->limit_bytes.value;
    p->own_known = p->limit_bytes.known && (limit || p->reserved_bytes);
    if (p->own_known) { /* whoever holds anything where nothing may be held is at the end */
        p->own = limit ? (double)p->reserved_bytes / (double)limit : 1;
    }
}

static void conclude(struct vram_pressure *p) {
    p->known = p->own_known || p->device_known;
    p->value = p->own > p->device ? p->own : p->device;
    p->level = p->known ? vram_pressure_level_of(p->value) : VRAM_PRESSURE_UNKNOWN;
}

/* A provider's memory is not the device's, and page-locked memory is not either. */
void vr_pressure_of_pool(struct vr_pool *pool, bool fresh, struct vram_pressure *p) {
    struct vram_error error;
    vr_error_save(&error);
    *p = (struct vram_pressure){.size = sizeof *p};
    p->reserved_bytes = vr_pool_reserved(pool);
    if (vr_pool_on_device(pool)) {
        sample(pool, fresh, p);
        add_device(p);
    }
    vr_budget_refresh(pool, false);
    uint64_t budget = vr_budget_bytes(pool);
    p->limit_bytes = (struct vram_value){.known = budget != UINT64_MAX, .value = budget};
    add_own(p);
    conclude(p);
    vr_error_restore(&error);
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
    conclude(p);
    vr_error_restore(&error);
}

/* ------------------------------------------------------------------- noting */

uint32_t vr_pressure_level_after(uint32_t last, const struct vram_pressure *p, double hysteresis) {
    if (!p->known || p->level >= last) {
        return p->known ? (uint32_t)p->level : last;
    }
    while (last > (uint32_t)p->level && p->value < level_begins[last] - hysteresis) {
        last--;
    }
    return last;
}

/* Counts the levels between the last one and this; keeps pressure_state.h (1). Levels fall with hysteresis, so
   that what is counted is what watches would be told. */
static void count_levels(struct vr_pool *pool, const struct vram_pressure *p) {
    uint32_t *level = &pool->pressure.level;
    uint32_t now = vr_pressure_level_after(*level, p, vr_rules_of(pool).hysteresis);
    for (; *level < now; ++*level) {
        if (*level >= VRAM_PRESSURE_LOW) { /* that it has become known is no rise */
            vr_tally(&pool->tally.rises[*level + 1], 1);
        }
    }
    for (; *level > now; --*level) {
        vr_tally(&pool->tally.falls[*level - 1], 1);
    }
}

static bool note_once(struct vr_pool *pool, bool fresh) {
    struct vram_pressure now, device;
    vr_store(&pool->pressure.noted, vr_load(&pool->pressure.changes, VR_RELAXED), VR_RELAXED);
    vr_pressure_of_pool(pool, fresh, &now);
    count_levels(pool, &now);
    vr_watches_tell(pool->device, pool, &now);
    if (vr_pool_on_device(pool)) {
        vr_pressure_of_device(pool->device, &now, &device);
        vr_watches_tell(pool->device, NULL, &device);
    }
    /* A callback may have destroyed the pool. */
    return vr_pool_is_open(pool) && vr_response_take(pool, &now);
}

void vr_pressure_note(struct vr_pool *pool, bool fresh) {
    struct vr_pool_pressure *state = &pool->pressure;
    struct vram_error error;
    if (vr_exchange(&state->telling, true, VR_ACQ_REL)) {
        vr_store(&state->again, true, VR_RELEASE);
        return;
    }
    vr_error_save(&error);
    bool again = true;
    for (int round = 0; again && round < ROUNDS; round++) {
        vr_store(&state->again, false, VR_RELEASE);
        bool acted = note_once(pool, fresh || round > 0);
        again = vr_pool_is_open(pool) && (acted || vr_load(&state->again, VR_ACQUIRE));
    }
    vr_store(&state->telling, false, VR_RELEASE);
    vr_error_restore(&error);
}

/* Whether `ns` have passed since *last, for one of those who ask. */
static bool is_due(vr_atomic_u64 *last, uint64_t now, uint64_t ns) {
    uint64_t seen = vr_load(last, VR_RELAXED);
    return now >= seen && now - seen >= ns && vr_cas(last, &seen, now, VR_ACQ_REL);
}

static void decay(struct vr_pool *pool) {
    uint64_t bytes = vr_decay_tick(pool);
    vr_pool_need_anew(pool);
    vr_tally(&pool->tally.response_steps[VRAM_RESPONSE_DECAY], 1);
    vr_tally(&pool->tally.response_bytes[VRAM_RESPONSE_DECAY], bytes);
}

void vr_pressure_tick(struct vr_pool *pool, bool always) {
    struct vr_pool_pressure *state = &pool->pressure;
    uint64_t now = vr_pool_now(pool);
    bool changed = vr_load(&state->changes, VR_RELAXED) != vr_load(&state->noted, VR_RELAXED);
    bool timeless = pool->flags & VRAM_POOL_DETERMINISTIC;
    if (!timeless && is_due(&state->ticked_ns, now, vr_rules_of(pool).decay_ns)) {
        decay(pool);
    }
    if (is_due(&state->looked_ns, now, vr_ledger_of(pool->device)->sample_ns) || changed ||
        always) {
        vr_pressure_note(pool, always);
    }
}

void vr_pressure_pass(struct vr_pool *pool) {
    struct vr_pool_pressure *state = &pool->pressure;
    bool changed = vr_load(&state->changes, VR_RELAXED) != vr_load(&state->noted, VR_RELAXED);
    uint64_t passes = vr_load(&state->passes, VR_RELAXED);
    if (!changed) { /* of several at once some may not count: the next do */
        vr_store(&state->passes, passes + 1, VR_RELAXED);
    }
    if (changed || passes % PASSES == 0) {
        vr_pressure_tick(pool, false);
    }
}

vram_status vr_pressure_begin(struct vr_pool *pool, const struct vram_response_options *options) {
    struct vr_pool_pressure *state = &pool->pressure;
    uint64_t now = vr_pool_now(pool);
    vram_status status = vr_rules_read(options, "vram_pool_create", &state->rules);
    vr_store(&state->ticked_ns, now, VR_RELAXED);
    vr_store(&state->looked_ns, now, VR_RELAXED);
    return status;
}

/* ------------------------------------------------------------------- public */

vram_status vram_pool_pressure_get(vram_pool *handle, vram_pressure *pressure) {
    static const char operation[] = "vram_pool_pressure_get";
    struct vram_pressure full;
    void *pool;
    vram_status status = vr_enter(VR_KIND_POOL, handle, operation, &pool);
    if (status != VRAM_OK) {
        return status;
    }
    vr_pressure_tick(pool, true);
    vr_pressure_of_pool(pool, true, &full);
    status = vr_info_give(pressure, &full, sizeof full, sizeof full, operation);
    vr_leave(pool);
    return status;
}

vram_status vram_device_pressure_get(vram_device *handle, vram_pressure *pressure) {
    static const char operation[] = "vram_device_pressure_get";
    struct vram_pressure full;
    void *device;
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, operation, &device);
    if (status != VRAM_OK) {
        return status;
    }
    vr_pressure_of_device(device, NULL, &full);
    vr_watches_tell(device, NULL, &full);
    status = vr_info_give(pressure, &full, sizeof full, sizeof full, operation);
    vr_leave(device);
    return status;
}

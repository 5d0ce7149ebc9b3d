/* SPDX-License-Identifier: Apache-2.0 */
/*
 * health.c: the health check of a device in one call: measure, clean up, log.
 */
#include "core/object/pool_object.h"
#include "core/object/walk.h"
#include "core/stats/pool_stats.h"

#include "base/error.h"
#include "base/log.h"
#include "base/option.h"
#include "base/text.h"

static vram_status read_options(const struct vram_health_options *options,
                                struct vram_health_options *taken) {
    vram_status status = vr_options_take(taken, sizeof *taken, options);
    if (status != VRAM_OK) {
        return status;
    }
    taken->warn = taken->warn != 0 ? taken->warn : vr_pressure_option(VR_OPTION_PRESSURE_WARN);
    taken->emergency =
        taken->emergency != 0 ? taken->emergency : vr_pressure_option(VR_OPTION_PRESSURE_EMERGENCY);
    return vr_pressure_thresholds(taken->warn, taken->emergency, 0);
}

/* Reads the highest pressure of the device and of its pools, whichever handle they were created by.
   With `health` also sums up the pools, for which all threads are visited. */
static void read_health(struct vr_device_object *device, struct vram_pressure *highest,
                        struct vram_health_info *health) {
    struct vr_walk walk = {.context = device->context, .slot = device->slot};
    uint64_t hits = 0, allocs = 0;
    vr_pressure_of_device(device, NULL, highest);
    for (struct vr_pool *pool; (pool = vr_walk_next(&walk)); vr_leave(pool)) {
        struct vram_pool_stats stats = {.size = sizeof stats};
        struct vram_pressure found;
        vr_pressure_of_pool(pool, false, &found);
        if (found.known && (!highest->known || found.value > highest->value)) {
            *highest = found;
        }
        if (!health) {
            continue;
        }
        double fragmentation = vr_pool_fragmentation(pool);
        vr_stats_of_pool(pool, &stats);
        health->pools++;
        health->live_bytes += stats.allocated_bytes;
        health->cached_bytes += stats.cached_bytes;
        health->reserved_bytes += stats.reserved_bytes;
        health->fragmentation =
            fragmentation > health->fragmentation ? fragmentation : health->fragmentation;
        hits += stats.hits;
        allocs += stats.allocs;
    }
    if (health) {
        health->hit_rate = allocs ? (double)hits / (double)allocs : 0;
    }
}

static vram_health_verdict health_verdict(const struct vr_device_object *device,
                                          const struct vram_health_options *options,
                                          const struct vram_pressure *p) {
    return vr_load(&device->base.lost, VR_ACQUIRE) ? VRAM_HEALTH_LOST
           : !p->known                             ? VRAM_HEALTH_UNKNOWN
           : p->value > options->emergency         ? VRAM_HEALTH_EMERGENCY
           : p->value > options->warn              ? VRAM_HEALTH_WARN
                                                   : VRAM_HEALTH_GOOD;
}

/* The first advice that applies. */
static const char *health_advice(const struct vram_health_info *health) {
    uint64_t idle = health->reserved_bytes - health->live_bytes;
    if (!health->pools) {
        return "no pool of this program is on it: others hold the memory";
    }
    return idle > health->live_bytes ? "most of what is held is not live: shrink the pools"
           : health->pressure.device > health->pressure.own
               ? "most of it is live or held by others: free blocks, or ask for less"
               : "most of it is live: free blocks, or raise the limit";
}

/* Whether the pressure comes from a limit, which what is held may exceed. */
static bool is_limited(const struct vram_pressure *p) {
    return p->own_known && p->own >= p->value;
}

/* How full it is. `verb`: "is" or "was". */
static void use_text(const struct vram_pressure *p, const char *verb, char *text, size_t bytes) {
    if (!is_limited(p)) {
        vr_text_format(text, bytes, "%.1f%% of its memory %s in use", 100 * p->value, verb);
    } else if (p->own > 1) {
        vr_text_format(text, bytes, "a limit of %llu bytes %s exceeded by %.1f%%",
                       (unsigned long long)p->limit_bytes.value, verb, 100 * (p->own - 1));
    } else {
        vr_text_format(text, bytes, "%.1f%% of a limit of %llu bytes %s in use", 100 * p->own,
                       (unsigned long long)p->limit_bytes.value, verb);
    }
}

static void put_in_words(const struct vr_device_object *device, struct vram_health_info *health) {
    char what[64], use[96], after[32];
    use_text(&health->pressure, health->cleaned ? "was" : "is", use, sizeof use);
    vr_text_format(after, sizeof after, "%.1f%% of %s", 100 * health->after.value,
                   is_limited(&health->after) ? "the limit" : "its memory");
    vr_text_format(what, sizeof what, "%s device %u", device->base.info.backend,
                   device->base.info.backend_index);
    switch (health->verdict) {
    case VRAM_HEALTH_UNKNOWN:
        vr_text_format(health->text, sizeof health->text,
                       "%s: nothing is known of its free memory, and no limit is set", what);
        break;
    case VRAM_HEALTH_LOST:
        vr_text_format(health->text, sizeof health->text,
                       "%s: lost; close it and go on with another device", what);
        break;
    case VRAM_HEALTH_GOOD:
        vr_text_format(health->text, sizeof health->text, "%s: %s", what, use);
        break;
    case VRAM_HEALTH_WARN:
    case VRAM_HEALTH_EMERGENCY:
        if (health->cleaned) {
            vr_text_format(health->text, sizeof health->text,
                           "%s: %s; a cleanup gave %llu bytes back, now %s; %s", what, use,
                           (unsigned long long)health->released_bytes, after,
                           health_advice(health));
        } else {
            vr_text_format(health->text, sizeof health->text, "%s: %s; %s", what, use,
                           health_advice(health));
        }
        break;
    }
}

static void check_health(struct vr_device_object *device, const struct vram_health_options *options,
                         struct vram_health_info *health) {
    struct vram_error error;
    vr_error_save(&error); /* errors of a lost device are reported elsewhere */
    read_health(device, &health->pressure, health);
    health->verdict = health_verdict(device, options, &health->pressure);
    health->after = health->pressure;
    if (health->verdict == VRAM_HEALTH_EMERGENCY && !options->look_only) {
        health->released_bytes = vr_device_cleanup(device);
        health->cleaned = true;
        read_health(device, &health->after, NULL);
    }
    put_in_words(device, health);
    if (health->verdict == VRAM_HEALTH_WARN) {
        vr_log(VRAM_LOG_WARN, "%s", health->text);
    } else if (health->verdict > VRAM_HEALTH_WARN) {
        vr_log(VRAM_LOG_ERROR, "%s", health->text);
    }
    vr_error_restore(&error);
}

vram_status vram_health(vram_device *handle, const vram_health_options *options,
                        vram_health_info *health) {
    VR_CALL;
    struct vram_health_options taken;
    struct vram_health_info full = {.size = sizeof full};
    void *device;
    vram_status status = read_options(options, &taken);
    if (status == VRAM_OK && !health) {
        status = vr_fail(VRAM_ERR_INVALID, "the pointer that receives the answer is NULL");
    }
    if (status == VRAM_OK) {
        status = vr_enter(VR_KIND_DEVICE, handle, &device);
    }
    if (status != VRAM_OK) {
        return status;
    }
    check_health(device, &taken, &full);
    status = vr_info_give(health, &full, sizeof full, sizeof full);
    vr_leave(device);
    return status;
}

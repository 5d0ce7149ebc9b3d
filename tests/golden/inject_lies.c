/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject_lies.c: a libvram that lies. No real device can be asked to give back wrong contents, to
 * leak or to end the process, so INJECT=lie:WHAT does.
 */
#include "inject.h"

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vram/vram.h>

bool inject_lies(const char *what) {
    const char *spec = getenv("INJECT");
    return spec != NULL && strncmp(spec, "lie:", 4) == 0 && strcmp(spec + 4, what) == 0;
}

#define COUNTER(field)                                                                             \
    { #field, offsetof(vram_pool_stats, field), sizeof(((vram_pool_stats *)0)->field) / 8 }
/* What a pool counts; each time one is asked for, it is wrong by one more. */
static const struct {
    const char *name;
    size_t offset, count;
} counters[] = {
    COUNTER(allocs),         COUNTER(live_blocks),    COUNTER(requested_bytes),
    COUNTER(reserved_bytes), COUNTER(refusals),       COUNTER(rises),
    COUNTER(falls),          COUNTER(response_steps), COUNTER(ladder_steps),
    COUNTER(ladder_rescues),
};

static void lie_in_stats(vram_pool_stats *stats) {
    static uint64_t by;
    stats->reserved_bytes += inject_lies("kept") ? ++by : 0;
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        if (inject_lies(counters[i].name)) {
            by++;
            for (size_t k = 0; k < counters[i].count; k++) {
                ((uint64_t *)(void *)((char *)stats + counters[i].offset))[k] += by;
            }
        }
    }
}

static void lie_in_report(vram_oom_report *report) {
    if (inject_lies("report")) {
        report->cause = VRAM_OOM_REFUSED;
        report->asked_bytes++, report->live_bytes++, report->reserved_bytes++;
        report->limit_bytes.value++;
        report->step_count++;
    } else if (inject_lies("report_step")) {
        report->steps[0].step = (vram_ladder_step)(report->steps[0].step + 1);
    } else if (inject_lies("report_taken")) {
        report->steps[0].taken++;
    }
}

/* Few of the cases call vram_backend_info_get. A fault of the code, not a signal that is sent. */
void inject_end(void) {
    if (inject_lies("fault")) {
        volatile int *volatile nowhere = NULL;
        *nowhere = 1;
    } else if (inject_lies("signal")) {
        raise(SIGILL);
    } else if (inject_lies("abort")) {
        abort();
    } else if (inject_lies("exit")) {
        exit(0);
    } else if (inject_lies("leave")) {
        _exit(0);
    } else if (inject_lies("late")) {
        atexit(abort);
    }
}

static void lie_of_memory(vram_memory_info *info) {
    info->held_bytes += inject_lies("leak") ? 4096 : 0;
    info->held_count += inject_lies("held_count");
    info->held_peak_bytes += inject_lies("held_peak");
}

static void lie_of_block(vram_block_info *info) {
    info->requested_bytes += inject_lies("block_size");
    info->pool = inject_lies("block_pool") ? NULL : info->pool;
}

static void lie_of_native(vram_native_info *info) {
    info->base += inject_lies("native_base");
    info->kind = inject_lies("native_kind") ? VRAM_MEMORY_PINNED : info->kind;
    info->device = inject_lies("native_device") ? NULL : info->device;
    info->bytes = inject_lies("native_bytes") ? 1 : info->bytes;
}

static void lie_of_driver(vram_sim_state *state) {
    static uint64_t asked; /* a case is judged by what is more after it */
    asked++;
    state->violations += inject_lies("violation") ? asked : 0;
    state->live_handles += inject_lies("handle") ? asked : 0;
}

/* A broker whose leases are these, or a thousand, most of them opened between two questions. */
static void lie_of_leases(vram_lease_entry *entries, uint32_t *count, vram_lease_record *records,
                          uint32_t *record_count) {
    static const vram_lease_entry some[] = {
        {.device = "sim 0",
         .name = "train",
         .process = 11,
         .priority = 5,
         .min_bytes = 1 << 20,
         .want_bytes = 8 << 20,
         .granted_bytes = 4 << 20,
         .held_bytes = 3 << 20,
         .waiting_bytes = 2 << 20,
         .capacity_bytes = 16 << 20},
        {.device = "sim 0", .name = "serve", .process = 12, .asked_bytes = 5 << 20},
        {.device = "sim 1", .name = "other", .process = 13, .priority = -1},
    };
    static const vram_lease_record log[] = {
        {.number = 1,
         .ago_ns = 9000000000,
         .happening = VRAM_LEASE_LOG_OPENED,
         .bytes = 1 << 20,
         .to = "train",
         .to_process = 11},
        {.number = 2,
         .happening = VRAM_LEASE_LOG_GAVE,
         .bytes = 1 << 20,
         .waited_ns = 2000000,
         .from = "serve",
         .from_process = 12,
         .to = "train",
         .to_process = 11},
        {.number = 3, .happening = VRAM_LEASE_LOG_KEPT, .from_process = 12, .to_process = 11},
        {.number = 4, .happening = VRAM_LEASE_LOG_DENIED, .to = "train"},
        {.number = 5, .happening = VRAM_LEASE_LOG_CLOSED, .from = "other"},
    };
    static uint32_t crowd = 300;
    uint32_t all = inject_lies("crowd")    ? crowd
                   : inject_lies("leases") ? 3
                                           : 0,
             logged = inject_lies("leases") ? 5 : 0;
    for (uint32_t i = 0; i < *count && i < all; i++) {
        entries[i] = inject_lies("leases") ? some[i] : (vram_lease_entry){.process = i};
        if (inject_lies("crowd")) {
            snprintf(entries[i].name, sizeof entries[i].name, "lease-%u.", i);
        }
    }
    memcpy(records, log, (logged < *record_count ? logged : *record_count) * sizeof *log);
    *count = all, *record_count = logged;
    crowd = 1000;
}

/* The same with names of shared memory; who opened them is INJECT_CODE. */
static long lie_of_names(int number, const long *with) {
    static uint32_t crowd = 200;
    const char *code = getenv("INJECT_CODE");
    if (number == NUMBER_vram_share_list) {
        vram_share_name *names = (vram_share_name *)with[1];
        uint32_t *count = (uint32_t *)with[2], all = code != NULL ? 1 : crowd;
        for (uint32_t i = 0; i < *count && i < all; i++) {
            names[i] = (vram_share_name){.version = i};
            snprintf(names[i].name, sizeof names[i].name, "name-%03u", 500 - i);
        }
        *count = all;
        crowd = 500;
    } else if (number == NUMBER_vram_share_open) {
        *(vram_share **)with[3] = (vram_share *)(uintptr_t)1;
        return code != NULL && inject_lies("names") ? atoi(code) : VRAM_OK;
    } else if (number == NUMBER_vram_share_info_get) {
        ((vram_share_info *)with[1])->bytes = 4096;
        return code != NULL ? atoi(code) : VRAM_OK;
    }
    return VRAM_OK;
}

bool inject_replaces(int number) {
    switch (number) {
    case NUMBER_vram_lease_list:
        return inject_lies("leases") || inject_lies("crowd") || inject_lies("nobody");
    case NUMBER_vram_share_list:
    case NUMBER_vram_share_open:
    case NUMBER_vram_share_info_get:
    case NUMBER_vram_share_close:
        return inject_lies("names") || inject_lies("silent");
    default:
        return false;
    }
}

long inject_lie(int number, const long *with, long status) {
    static unsigned char *downloaded; /* last byte of the download under way */
    switch (number) {
    case NUMBER_vram_queue_download:
        downloaded = (unsigned char *)with[1] + with[3] - 1;
        return status;
    case NUMBER_vram_transfer_download:
        downloaded = (unsigned char *)with[1] + with[3] - 1;
        return status;
    case NUMBER_vram_queue_wait:
        if (status != VRAM_OK && inject_lies("accept")) { /* an invalid queue, or one of a parent */
            return VRAM_OK;
        }
        /* fall through */
    case NUMBER_vram_async_wait:
        if (downloaded != NULL && inject_lies("contents")) {
            *downloaded ^= 1;
        }
        downloaded = NULL;
        return status;
    case NUMBER_vram_lease_list:
        if (inject_replaces(number)) {
            lie_of_leases((vram_lease_entry *)with[1], (uint32_t *)with[2],
                          (vram_lease_record *)with[3], (uint32_t *)with[4]);
        }
        return status;
    case NUMBER_vram_share_list:
    case NUMBER_vram_share_open:
    case NUMBER_vram_share_info_get:
    case NUMBER_vram_share_close:
        return inject_replaces(number) ? lie_of_names(number, with) : status;
    default:
        break;
    }
    if (status != VRAM_OK) {
        return status;
    }
    switch (number) {
    case NUMBER_vram_readback_next:
        if (inject_lies("contents")) {
            ((unsigned char *)(uintptr_t)((vram_frame *)with[2])->data)[0] ^= 1;
        }
        break;
    case NUMBER_vram_ring_receive: /* a message with a wrong bit, or one that is too short */
        if (inject_lies("contents")) {
            ((unsigned char *)with[1])[0] ^= 1;
        } else if (inject_lies("length")) {
            ((vram_ring_slot *)with[4])->bytes -= 8;
        }
        break;
    case NUMBER_vram_ring_stats_get: /* a kernel that found wrong messages */
        ((vram_ring_stats *)with[1])->kernel_errors += inject_lies("kernel");
        break;
    case NUMBER_vram_pool_stats_get:
        lie_in_stats((vram_pool_stats *)with[1]);
        break;
    case NUMBER_vram_pool_pressure_get:
        if (inject_lies("pressure")) {
            vram_pressure *pressure = (vram_pressure *)with[1];
            pressure->reserved_bytes++;
            pressure->level = (vram_pressure_level)((pressure->level + 1) % 4);
        }
        break;
    case NUMBER_vram_oom_report_get:
        lie_in_report((vram_oom_report *)with[1]);
        break;
    case NUMBER_vram_memory_info_get:
        lie_of_memory((vram_memory_info *)with[1]);
        break;
    case NUMBER_vram_block_info_get:
        lie_of_block((vram_block_info *)with[1]);
        return inject_lies("block_unknown") ? inject_fail(number, with) : status;
    case NUMBER_vram_native:
        lie_of_native((vram_native_info *)with[1]);
        break;
    case NUMBER_vram_sim_state_get:
        lie_of_driver((vram_sim_state *)with[1]);
        return inject_lies("no_state") ? inject_fail(number, with) : status;
    case NUMBER_vram_device_free: /* it fails, and has freed */
        return inject_lies("free_late") ? inject_fail(number, with) : status;
    default:
        break;
    }
    return status;
}

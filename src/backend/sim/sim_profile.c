/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_profile.c: names and costs of the entry points.
 *
 * The costs of `h200` were measured on one H200 (driver 580, CUDA 13.0). Calls of virtual memory
 * management cost about twice as much while the GPU works as on an idle one. A program that moves
 * memory has work running, so the costs under load are used. Where a pair was measured (allocate
 * and free), each half has half of it. What was not measured is marked "assumed".
 */
#include "backend/sim/sim_config.h"

#include "base/size.h"

#include <string.h>

/* ---------------------------------------------------------------------- names */

static const char *const names[VRAM_SIM_CALL_COUNT] = {
#define NAME(NAME, name) [VRAM_SIM_##NAME] = name,
    VRAM_SIM_CALL_MAP(NAME)
#undef NAME
};

const char *vr_sim_call_name(vram_sim_call call) {
    return (unsigned)call < VRAM_SIM_CALL_COUNT ? names[call] : "unknown";
}

const char *vram_sim_call_name(vram_sim_call call) {
    return vr_sim_call_name(call);
}

vram_sim_call vr_sim_call_find(const char *name, size_t bytes) {
    unsigned call = 0;
    while (call < VRAM_SIM_CALL_COUNT &&
           (strlen(names[call]) != bytes || memcmp(names[call], name, bytes) != 0)) {
        call++;
    }
    return (vram_sim_call)call;
}

bool vr_sim_call_can_lie(vram_sim_call call) {
    return call == VRAM_SIM_ALLOC || call == VRAM_SIM_PINNED_ALLOC ||
           call == VRAM_SIM_MANAGED_ALLOC || call == VRAM_SIM_RESERVE || call == VRAM_SIM_CREATE;
}

/* ---------------------------------------------------------------------- costs */

static const struct vr_sim_profile profiles[] = {
    {.name = "none", .device_name = "Simulated GPU", .memory_bytes = 8 * VR_GIB},
    {.name = "h200",
     .device_name = "Simulated H200",
     .memory_bytes = UINT64_C(150109880320), /* 139.8 GiB, as cuDeviceTotalMem says */
     .calls =
         {
             [VRAM_SIM_MEMORY_INFO] = {4200, 0, 0},
             /* 58 us a pair of 1 KiB, 94 us one of 64 MiB. */
             [VRAM_SIM_ALLOC] = {29000, 275, 0},
             [VRAM_SIM_FREE] = {29000, 275, 0},
             /* 1.2 ms a pair of 1 MiB, 27 ms one of 64 MiB, 438 ms one of 1 GiB. */
             [VRAM_SIM_PINNED_ALLOC] = {390000, 213000, 0},
             [VRAM_SIM_PINNED_FREE] = {390000, 213000, 0},
             /* 47 ms and 17 ms for 1 GiB; the cost of a call assumed. */
             [VRAM_SIM_PINNED_REGISTER] = {10000, 46000, 0},
             [VRAM_SIM_PINNED_UNREGISTER] = {10000, 17000, 0},
             [VRAM_SIM_MANAGED_ALLOC] = {29000, 275, 0}, /* assumed: as alloc */
             [VRAM_SIM_MANAGED_FREE] = {29000, 275, 0},  /* assumed */
             [VRAM_SIM_RESERVE] = {21000, 0, 0},
             [VRAM_SIM_UNRESERVE] = {21000, 0, 0}, /* assumed: as reserve */
             /* The same up to 64 MiB; 32 us for 1 GiB on the idle GPU where 2 MiB take 7, and under
                load 0.47 ms to release it. (2.8 ms, as once measured, were not seen again.) */
             [VRAM_SIM_CREATE] = {15000, 50, 64},
             [VRAM_SIM_RELEASE] = {15000, 474, 64},
             [VRAM_SIM_MAP] = {1000, 0, 0},
             [VRAM_SIM_ACCESS] = {60000, 0, 0},
             [VRAM_SIM_UNMAP] = {40000, 0, 0},
             [VRAM_SIM_SIGNAL] = {175, 0, 0},
             [VRAM_SIM_AFTER] = {128, 0, 0},
             [VRAM_SIM_POLL] = {139, 0, 0},
             [VRAM_SIM_UPLOAD] = {2000, 0, 0}, /* assumed, as all submissions below */
             [VRAM_SIM_DOWNLOAD] = {2000, 0, 0},
             [VRAM_SIM_COPY] = {2000, 0, 0},
             [VRAM_SIM_PEER_COPY] = {2000, 0, 0},
             [VRAM_SIM_FILL] = {2000, 0, 0},
             [VRAM_SIM_PREFETCH] = {2000, 0, 0},
             [VRAM_SIM_LAUNCH] = {2000, 0, 0},
         },
     .link_rate = 55200,     /* 55.2 GB/s */
     .memory_rate = 2000000, /* 2 TB/s: a copy reads and writes */
     .launch_ns = 5000},     /* assumed */
};

const struct vr_sim_profile *vr_sim_profile_find(const char *name, size_t bytes) {
    for (size_t i = 0; i < sizeof profiles / sizeof profiles[0]; i++) {
        if (strlen(profiles[i].name) == bytes && memcmp(profiles[i].name, name, bytes) == 0) {
            return &profiles[i];
        }
    }
    return NULL;
}

uint64_t vr_sim_call_ns(const struct vr_sim_profile *profile, vram_sim_call call, uint64_t bytes) {
    const struct vr_sim_cost *cost = &profile->calls[call];
    uint64_t mib = bytes / VR_MIB;
    return cost->call_ns + (mib > cost->from_mib ? (mib - cost->from_mib) * cost->mib_ns : 0);
}

/* Divides first, so that no size can overflow. */
static uint64_t transfer_ns(uint64_t bytes, uint32_t rate) {
    return rate ? bytes / rate * 1000 + bytes % rate * 1000 / rate : 0;
}

uint64_t vr_sim_work_ns(const struct vr_sim_profile *profile, vram_sim_call call, uint64_t bytes) {
    switch ((int)call) {
    case VRAM_SIM_UPLOAD:
    case VRAM_SIM_DOWNLOAD:
    case VRAM_SIM_PEER_COPY: /* assumed: over the same link */
    case VRAM_SIM_PREFETCH:
        return transfer_ns(bytes, profile->link_rate);
    case VRAM_SIM_COPY:
    case VRAM_SIM_FILL:
        return transfer_ns(bytes, profile->memory_rate);
    case VRAM_SIM_LAUNCH:
        return profile->launch_ns;
    default:
        return 0;
    }
}

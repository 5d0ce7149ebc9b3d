/* SPDX-License-Identifier: Apache-2.0 */
/* sim_config.h: the configuration of a simulation, and the cost of its calls. */
#ifndef VR_SIM_CONFIG_H
#define VR_SIM_CONFIG_H

#include "vram/sim.h"

#define VR_SIM_DEVICES_MAX 64
#define VR_SIM_MEMORY_MAX  (UINT64_C(1) << 50) /* 1 PiB: as many synthetic addresses as there are */
#define VR_SIM_GRANULE_MAX (UINT64_C(1) << 30)
#define VR_SIM_LAG_MAX     10000
#define VR_SIM_JOURNAL_MAX (1u << 20)

/* The driver's codes: X(NAME, "name", status). A code that is not here is VRAM_ERR_BACKEND. */
#define VR_SIM_CODE_MAP(X)                                                                         \
    X(INVALID_VALUE, "invalid_value", VRAM_ERR_INVALID)                                            \
    X(OUT_OF_MEMORY, "out_of_memory", VRAM_ERR_DEVICE_MEMORY)                                      \
    X(NOT_SUPPORTED, "not_supported", VRAM_ERR_UNSUPPORTED)                                        \
    X(NOT_READY, "not_ready", VRAM_ERR_NOT_READY)                                                  \
    X(HOST_MEMORY, "host_memory", VRAM_ERR_HOST_MEMORY)                                            \
    X(DEVICE_LOST, "device_lost", VRAM_ERR_DEVICE_LOST)                                            \
    X(DEINITIALIZED, "deinitialized", VRAM_ERR_SHUTDOWN)

/* ------------------------------------------------------------------- profiles */

/* What one entry point costs. */
struct vr_sim_cost {
    uint32_t call_ns;  /* each call; of access, each handle */
    uint32_t mib_ns;   /* and each MiB ... */
    uint32_t from_mib; /* ... above so many */
};

struct vr_sim_profile {
    const char *name;
    const char *device_name;                       /* with memory_bytes; see sim_backend.c */
    uint64_t memory_bytes;                         /* unless the text says otherwise */
    struct vr_sim_cost calls[VRAM_SIM_CALL_COUNT]; /* host time of a call */
    uint32_t link_rate;                            /* host to device, bytes per us; 0: no time */
    uint32_t memory_rate;                          /* within the device, bytes per us; 0: no time */
    uint32_t launch_ns;                            /* a kernel on the device */
};

/* The profile of that name, `bytes` long; NULL if there is none. */
const struct vr_sim_profile *vr_sim_profile_find(const char *name, size_t bytes);
/* The host time of a call. */
uint64_t vr_sim_call_ns(const struct vr_sim_profile *profile, vram_sim_call call, uint64_t bytes);
/* The device time of the work that a call submits. */
uint64_t vr_sim_work_ns(const struct vr_sim_profile *profile, vram_sim_call call, uint64_t bytes);

/* -------------------------------------------------------------- configuration */

struct vr_sim_config {
    uint32_t devices;
    uint64_t memory_bytes; /* of each device, a multiple of the page */
    uint64_t others_bytes; /* of it, held by other processes */
    uint64_t granule;      /* of VMM, a power of two; bytes */
    const struct vr_sim_profile *profile;
    bool vmm, alias, info, real;
    uint64_t seed;
    uint32_t lag;                /* work completes up to so many calls late */
    uint64_t lose;               /* the call of a device at which it is lost; 0: never */
    uint32_t lose_device;        /* which; VR_SIM_DEVICES_MAX: every one */
    uint32_t journal;            /* calls that are kept */
    struct vram_sim_fault fault; /* nth 0: none */
};

/* Reads "key=value,key=value". VRAM_ERR_INVALID, naming the key and what is accepted, for anything
   that cannot be read; *config is written only on success. */
vram_status vr_sim_config_read(const char *text, struct vr_sim_config *config);

/* VRAM_OK if a fault can be planned; otherwise VRAM_ERR_INVALID with the reason. */
vram_status vr_sim_fault_check(const struct vram_sim_fault *fault);

/* The name of an entry point; "unknown" for any other number. */
const char *vr_sim_call_name(vram_sim_call call);
/* The entry point of that name, `bytes` long; VRAM_SIM_CALL_COUNT if there is none. */
vram_sim_call vr_sim_call_find(const char *name, size_t bytes);

/* Whether a call returns an address or handle, and so can lie. */
bool vr_sim_call_can_lie(vram_sim_call call);

#endif

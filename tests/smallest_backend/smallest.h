/* SPDX-License-Identifier: Apache-2.0 */
/* smallest.h: the smallest backend, and how a test makes it describe itself wrongly. */
#ifndef SMALLEST_H
#define SMALLEST_H

#include "backend/backend.h"

extern const struct vr_backend_ops vr_smallest_backend;

/* All zero: a healthy backend. Read when a context is created and a device opened. */
struct smallest_plan {
    uint32_t caps;                /* claimed beside its own */
    uint32_t caps_unknown;        /* left out of caps_known */
    vram_value alloc_granule;     /* when value is not 0, instead of its own */
    vram_value vmm_granule;       /* this one it describes as it stands here */
    const struct vr_vmm_ops *vmm; /* tables that open sets */
    const struct vr_kernel_ops *kernel;
    const struct vr_handle_ops *handles;
    bool no_memory_info; /* that call is missing from its table */
};
extern struct smallest_plan smallest_plan;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry.c: the list of backends. Registering a backend is one row of a static array: there are
 * no constructors and no dependence on link order. The order is the order of preference; the host
 * is last.
 */
#include "backend/registry.h"

#include <string.h>

extern const struct vr_backend_ops vr_cuda_backend;
extern const struct vr_backend_ops vr_vulkan_backend;
extern const struct vr_backend_ops vr_hip_backend;
extern const struct vr_backend_ops vr_metal_backend;
extern const struct vr_backend_ops vr_opencl_backend;
extern const struct vr_backend_ops vr_sim_backend;
extern const struct vr_backend_ops vr_host_backend;

static const struct vr_backend_ops *const registry[] = {
    &vr_cuda_backend,   &vr_hip_backend, &vr_metal_backend, &vr_vulkan_backend,
    &vr_opencl_backend, &vr_sim_backend, &vr_host_backend,
};

enum { REGISTRY_COUNT = sizeof registry / sizeof registry[0] };

uint32_t vr_registry_count(void) {
    return REGISTRY_COUNT;
}

const struct vr_backend_ops *vr_registry_at(uint32_t index) {
    return index < REGISTRY_COUNT ? registry[index] : NULL;
}

const struct vr_backend_ops *vr_registry_find(const char *name, size_t bytes) {
    for (uint32_t i = 0; i < REGISTRY_COUNT; i++) {
        if (strlen(registry[i]->name) == bytes && memcmp(registry[i]->name, name, bytes) == 0) {
            return registry[i];
        }
    }
    return NULL;
}

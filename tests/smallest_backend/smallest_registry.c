/* SPDX-License-Identifier: Apache-2.0 */
/* smallest_registry.c: stands in the place of src/backend/registry.c, with the smallest backend. */
#include "smallest.h"

#include "backend/registry.h"

#include <string.h>

extern const struct vr_backend_ops vr_sim_backend;
extern const struct vr_backend_ops vr_host_backend;

static const struct vr_backend_ops *const registry[] = {&vr_smallest_backend, &vr_sim_backend,
                                                        &vr_host_backend};

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

/* SPDX-License-Identifier: Apache-2.0 */
/* registry.h: the backends of this build, in order of preference; the host is last. */
#ifndef VR_REGISTRY_H
#define VR_REGISTRY_H

#include "backend/backend.h"

/* The number of backends, including those not in this build. */
uint32_t vr_registry_count(void);

/* Backend `index`; NULL past the end. */
const struct vr_backend_ops *vr_registry_at(uint32_t index);

/* The backend of that name, `bytes` long; NULL if there is none. */
const struct vr_backend_ops *vr_registry_find(const char *name, size_t bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* layer_loaders.c: see layer_loaders.h. */
#include "layer_loaders.h"

#include "base/atomic.h"

#include <link.h>
#include <string.h>

static const struct {
    enum run_api api;
    const char *file; /* the beginning of its name */
} loaders[] = {{RUN_OPENCL, "libOpenCL.so"}, {RUN_VULKAN, "libvulkan.so"}};

enum { LOADERS = sizeof loaders / sizeof loaders[0] };

static vr_atomic_bool loaded[RUN_APIS];

void layer_loaded(enum run_api api) {
    vr_store(&loaded[api - 1], true, VR_RELAXED);
}

static int object_look(struct dl_phdr_info *object, size_t bytes, void *user) {
    bool *there = user;
    const char *slash = object->dlpi_name ? strrchr(object->dlpi_name, '/') : NULL;
    const char *file = slash ? slash + 1 : object->dlpi_name ? object->dlpi_name : "";
    (void)bytes;
    for (unsigned i = 0; i < LOADERS; i++) {
        there[i] = there[i] || strncmp(file, loaders[i].file, strlen(loaders[i].file)) == 0;
    }
    return 0;
}

void layer_loaders_count(struct run_page *page) {
    bool there[LOADERS] = {false};
    (void)dl_iterate_phdr(object_look, there);
    for (unsigned i = 0; i < LOADERS; i++) {
        unsigned api = loaders[i].api - 1;
        if (there[i] && !vr_load(&loaded[api], VR_RELAXED)) {
            atomic_fetch_add(&page->unlayered[api], 1);
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer_opencl.c: what an OpenCL loader calls to load the layer. A loader without layers ignores
 * OPENCL_LAYERS, and none of this runs.
 *
 * A loader may be unloaded and loaded again: then clInitLayer comes again, with other functions.
 * The newest are used; older ones stay allocated, because a thread may be in one.
 */
#include "layer_opencl.h"

#include "base/memory.h"
#include "layer_loaders.h"

#include <string.h>

#define LAYER_EXPORT __attribute__((visibility("default")))

vr_cl_int clGetLayerInfo(vr_cl_uint what, size_t bytes, void *value, size_t *needed);
vr_cl_int clInitLayer(vr_cl_uint count, void *const *target, vr_cl_uint *own_count,
                      void *const **own);

struct loader {
    struct layer_cl functions;
    void *table[LAYER_CL_PLACES]; /* what the layer replaces; NULL: the loader keeps its own */
    struct loader *older;
};

static vr_atomic_ptr loader; /* struct loader * */

const struct layer_cl *layer_cl(void) {
    return &((struct loader *)vr_load(&loader, VR_ACQUIRE))->functions;
}

/* ------------------------------------------------------------------- loading */

LAYER_EXPORT vr_cl_int clGetLayerInfo(vr_cl_uint what, size_t bytes, void *value, size_t *needed) {
    static const char name[] = "libvram: records allocations (vram run)";
    const vr_cl_uint version = LAYER_CL_API_VERSION_100;
    const void *from = what == LAYER_CL_NAME ? (const void *)name : &version;
    size_t size = what == LAYER_CL_NAME ? sizeof name : sizeof version;
    if ((what != LAYER_CL_NAME && what != LAYER_CL_API_VERSION) || (value && bytes < size)) {
        return VR_CL_INVALID_VALUE;
    }
    if (value) {
        memcpy(value, from, size);
    }
    if (needed) {
        *needed = size;
    }
    return VR_CL_SUCCESS;
}

/* A function that the loader has not cannot be asked for, nor replaced. */
static void functions_take(struct loader *to, vr_cl_uint count, void *const *target) {
#define TAKE(place, returns, name, parameters)                                                     \
    if ((place) < count) {                                                                         \
        memcpy(&to->functions.name, &target[place], sizeof target[place]);                         \
    }
#define REPLACE(place, returns, name, parameters)                                                  \
    if (to->functions.name) {                                                                      \
        returns(*own) parameters = layer_##name;                                                   \
        memcpy(&to->table[place], &own, sizeof own);                                               \
    }
    LAYER_CL_FUNCTIONS(TAKE)
    LAYER_CL_REPLACED(REPLACE)
#undef TAKE
#undef REPLACE
}

/* What the layer cannot do without; every loader since OpenCL 1.0 has it. */
static bool functions_suffice(const struct layer_cl *cl) {
    return cl->clGetPlatformIDs && cl->clGetDeviceIDs && cl->clGetDeviceInfo &&
           cl->clGetContextInfo && cl->clGetMemObjectInfo && cl->clReleaseMemObject;
}

/* The functions of the loader are then the layer's own. */
static bool listed_twice(vr_cl_uint count, void *const *target) {
    vr_cl_int (*own)(struct vr_cl_memory * memory) = layer_clReleaseMemObject;
    const vr_cl_uint place = 18;
    return count > place && !memcmp(&target[place], &own, sizeof own);
}

LAYER_EXPORT vr_cl_int clInitLayer(vr_cl_uint count, void *const *target, vr_cl_uint *own_count,
                                   void *const **own) {
    static void *const nothing[LAYER_CL_PLACES];
    if (!target || !own_count || !own) {
        return VR_CL_INVALID_VALUE;
    }
    layer_loaded(RUN_OPENCL);
    *own_count = LAYER_CL_PLACES;
    *own = nothing;
    if (!run_active() || listed_twice(count, target)) {
        return VR_CL_SUCCESS;
    }
    struct loader *made = vr_mem_alloc(1, sizeof *made, "vram run");
    if (!made) {
        return VR_CL_OUT_OF_HOST_MEMORY;
    }
    functions_take(made, count, target);
    if (!functions_suffice(&made->functions)) {
        vr_mem_free(made);
        return VR_CL_SUCCESS;
    }
    made->older = vr_load(&loader, VR_ACQUIRE);
    vr_store(&loader, made, VR_RELEASE);
    *own = made->table;
    return VR_CL_SUCCESS;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer_opencl_device.c: devices, contexts and their platforms' own functions.
 *
 * The table of devices is made by the first thread that needs it. Devices are numbered as the
 * loader lists them, platform after platform. If a device is not in it, but in a new one, the
 * loader was loaded anew in the meantime; older tables stay allocated.
 */
#include "layer_handles.h"
#include "layer_opencl.h"

#include "base/memory.h"
#include "base/text.h"

#include <string.h>

enum { PLATFORMS_MAX = 16, DEVICES_MAX = 64 };

struct device_row {
    struct vr_cl_device *device;
    uint32_t platform;
    uint64_t total;         /* bytes; 0: unknown */
    unsigned char uuid[16]; /* zeros: unknown */
    char name[RUN_NAME];
};

struct device_table {
    struct layer_cl_usm usm[PLATFORMS_MAX];
    struct device_row rows[DEVICES_MAX];
    uint32_t count;
    struct device_table *older;
};

static vr_atomic_ptr known; /* struct device_table * */
static const struct layer_cl_usm no_usm;

/* ------------------------------------------------------------------- devices */

static void usm_find(const struct layer_cl *cl, struct vr_cl_platform *platform,
                     struct layer_cl_usm *usm) {
    void *found;
    if (!cl->clGetExtensionFunctionAddressForPlatform) {
        return;
    }
#define FIND(place, returns, name, parameters)                                                     \
    found = cl->clGetExtensionFunctionAddressForPlatform(platform, #name);                         \
    memcpy(&usm->name, &found, sizeof found);
    LAYER_CL_USM_FUNCTIONS(FIND)
#undef FIND
}

static void row_fill(const struct layer_cl *cl, struct vr_cl_device *device,
                     struct device_row *row) {
    char name[256] = "";
    row->device = device;
    (void)cl->clGetDeviceInfo(device, VR_CL_DEVICE_GLOBAL_MEM_SIZE, sizeof row->total, &row->total,
                              NULL);
    (void)cl->clGetDeviceInfo(device, VR_CL_DEVICE_UUID_KHR, sizeof row->uuid, row->uuid, NULL);
    if (cl->clGetDeviceInfo(device, VR_CL_DEVICE_NAME, sizeof name - 1, name, NULL) ==
        VR_CL_SUCCESS) {
        (void)vr_text_copy(row->name, sizeof row->name, name);
    }
}

static void devices_list(const struct layer_cl *cl, struct device_table *table) {
    struct vr_cl_platform *platforms[PLATFORMS_MAX];
    struct vr_cl_device *found[DEVICES_MAX];
    vr_cl_uint platform_count = 0, count;
    if (cl->clGetPlatformIDs(PLATFORMS_MAX, platforms, &platform_count)) {
        return;
    }
    for (vr_cl_uint i = 0; i < platform_count && i < PLATFORMS_MAX; i++) {
        usm_find(cl, platforms[i], &table->usm[i]);
        if (cl->clGetDeviceIDs(platforms[i], VR_CL_DEVICE_TYPE_ALL, DEVICES_MAX, found, &count)) {
            continue;
        }
        for (vr_cl_uint k = 0; k < count && k < DEVICES_MAX && table->count < DEVICES_MAX; k++) {
            row_fill(cl, found[k], &table->rows[table->count]);
            table->rows[table->count++].platform = i;
        }
    }
}

/* The place of a device in the table; its count if it is not there. */
static uint32_t place_of(const struct device_table *table, const struct vr_cl_device *device) {
    uint32_t place = 0;
    while (place < table->count && table->rows[place].device != device) {
        place++;
    }
    return place;
}

/* Replaces `old`, which lacks the device. NULL: the loader does not list it, or no memory. */
static struct device_table *devices_renew(struct device_table *old,
                                          const struct vr_cl_device *device) {
    void *seen = old;
    struct device_table *made = vr_mem_alloc(1, sizeof *made, "vram run");
    if (!made) {
        return NULL;
    }
    devices_list(layer_cl(), made);
    made->older = old;
    if (place_of(made, device) < made->count && vr_cas(&known, &seen, made, VR_ACQ_REL)) {
        return made;
    }
    vr_mem_free(made); /* nothing new, or another thread was first */
    return seen;
}

/* A sub-device counts as the device that it is a part of. */
static struct vr_cl_device *device_whole(struct vr_cl_device *device) {
    struct vr_cl_device *parent = NULL;
    for (int depth = 0; depth < 8 &&
                        layer_cl()->clGetDeviceInfo(device, LAYER_CL_DEVICE_PARENT, sizeof parent,
                                                    &parent, NULL) == VR_CL_SUCCESS &&
                        parent;
         depth++) {
        device = parent;
    }
    return device;
}

/* The table that has the device, and its place there. NULL: no driver knows it, or no memory. */
static struct device_table *row_find(struct vr_cl_device *device, uint32_t *place) {
    struct device_table *table = vr_load(&known, VR_ACQUIRE);
    if (table && (*place = place_of(table, device)) < table->count) {
        return table;
    }
    device = device ? device_whole(device) : NULL;
    if (table && (*place = place_of(table, device)) < table->count) {
        return table;
    }
    table = device ? devices_renew(table, device) : NULL;
    return table && (*place = place_of(table, device)) < table->count ? table : NULL;
}

/* The recorder knows a device from its first memory on. */
uint32_t layer_cl_device(struct vr_cl_device *device) {
    static const unsigned char unknown[16];
    uint32_t place;
    const struct device_table *table = row_find(device, &place);
    if (!table) {
        return RUN_NO_DEVICE;
    }
    const struct device_row *row = &table->rows[place];
    uint32_t number = run_device_find(RUN_OPENCL, place, row->name, row->total);
    if (memcmp(row->uuid, unknown, sizeof unknown) != 0) {
        run_device_uuid(number, row->uuid);
    }
    return number;
}

/* ------------------------------------------------------------------ contexts */

enum { CONTEXT_BIT = 1 }; /* handles are aligned: a context's key is never that of a cl_mem */

static uint64_t context_key(const struct vr_cl_context *context) {
    return (uint64_t)(uintptr_t)context | CONTEXT_BIT;
}

/* Asks the driver for a context's first device, and keeps the answer, whatever it is: every
   allocation needs it. */
static void context_ask(struct vr_cl_context *context, struct layer_handle *handle) {
    struct vr_cl_device *own[DEVICES_MAX] = {NULL};
    const struct layer_cl_usm *usm = &no_usm;
    uint32_t place;
    const struct device_table *table = NULL;
    if (layer_cl()->clGetContextInfo(context, VR_CL_CONTEXT_DEVICES, sizeof own, own, NULL) ==
        VR_CL_SUCCESS) {
        table = row_find(own[0], &place);
    }
    if (table) {
        usm = &table->usm[table->rows[place].platform];
    }
    *handle = (struct layer_handle){.value = context_key(context),
                                    .parent = (uint64_t)(uintptr_t)usm,
                                    .references = 1,
                                    .device = table ? layer_cl_device(own[0]) : RUN_NO_DEVICE};
    if (own[0]) {
        (void)layer_handle_put(handle);
    }
}

uint32_t layer_cl_context(struct vr_cl_context *context, const struct layer_cl_usm **usm) {
    struct layer_handle handle = {.parent = (uint64_t)(uintptr_t)&no_usm, .device = RUN_NO_DEVICE};
    if (context && !layer_handle_get(context_key(context), &handle)) {
        context_ask(context, &handle);
    }
    if (usm) {
        *usm = (const struct layer_cl_usm *)(uintptr_t)handle.parent;
    }
    return handle.device;
}

/* A new context may have the value of one that has ended. */
static void context_enter(struct vr_cl_context *context) {
    struct layer_handle handle;
    if (context) {
        context_ask(context, &handle);
    }
}

struct vr_cl_context *layer_clCreateContext(const vr_cl_props *props, vr_cl_uint count,
                                            struct vr_cl_device *const *devices,
                                            vr_cl_fault_fn *fault, void *user, vr_cl_int *code) {
    struct vr_cl_context *context =
        layer_cl()->clCreateContext(props, count, devices, fault, user, code);
    context_enter(context);
    return context;
}

struct vr_cl_context *layer_clCreateContextFromType(const vr_cl_props *props, vr_cl_bits type,
                                                    vr_cl_fault_fn *fault, void *user,
                                                    vr_cl_int *code) {
    struct vr_cl_context *context =
        layer_cl()->clCreateContextFromType(props, type, fault, user, code);
    context_enter(context);
    return context;
}

/* ------------------------------------------------------- what devices answer */

/* Sizes as those of a device of the limit's size. The driver has accepted `value`. */
static void info_limit(struct vr_cl_device *device, vr_cl_uint what, size_t bytes, void *value) {
    uint64_t number;
    if ((what == VR_CL_DEVICE_GLOBAL_MEM_SIZE || what == VR_CL_DEVICE_MAX_MEM_ALLOC_SIZE) &&
        bytes >= sizeof number) {
        memcpy(&number, value, sizeof number);
        run_limit_view(RUN_NO_DEVICE, NULL, &number);
        memcpy(value, &number, sizeof number);
    } else if (what == LAYER_CL_DEVICE_FREE_MEMORY_AMD) {
        size_t *kib = value; /* all that is free, and the largest run of it */
        for (size_t i = 0; i < 2 && (i + 1) * sizeof *kib <= bytes; i++) {
            number = (uint64_t)kib[i] << 10;
            run_limit_view(layer_cl_device(device), &number, NULL);
            kib[i] = (size_t)(number >> 10);
        }
    }
}

vr_cl_int layer_clGetDeviceInfo(struct vr_cl_device *device, vr_cl_uint what, size_t bytes,
                                void *value, size_t *needed) {
    size_t filled = 0;
    vr_cl_int code = layer_cl()->clGetDeviceInfo(device, what, bytes, value, &filled);
    if (code == VR_CL_SUCCESS && value && run_limit_bytes()) {
        info_limit(device, what, filled < bytes ? filled : bytes, value);
    }
    if (needed && code == VR_CL_SUCCESS) {
        *needed = filled;
    }
    return code;
}

/* ------------------------------------------------------ functions by name */

/* The layer's own function of that name, in the place of the driver's. */
static void *own_function(const char *name, void *driver) {
    void *found = NULL;
#define OWN(place, returns, function, parameters)                                                  \
    if (!strcmp(name, #function)) {                                                                \
        returns(*own) parameters = layer_##function;                                               \
        memcpy(&found, &own, sizeof own);                                                          \
    }
    if (driver && name) {
        LAYER_CL_USM_FUNCTIONS(OWN)
    }
#undef OWN
    return found ? found : driver;
}

void *layer_clGetExtensionFunctionAddressForPlatform(struct vr_cl_platform *platform,
                                                     const char *name) {
    void *driver = layer_cl()->clGetExtensionFunctionAddressForPlatform(platform, name);
    return own_function(name, driver);
}

void *layer_clGetExtensionFunctionAddress(const char *name) {
    return own_function(name, layer_cl()->clGetExtensionFunctionAddress(name));
}

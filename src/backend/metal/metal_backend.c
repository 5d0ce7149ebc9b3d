/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metal_backend.c: loads Metal and describes its devices.
 *
 * Metal's library loads the Objective-C runtime, and symbols of both are found in it. Once loaded
 * it stays loaded: classes cannot be unloaded.
 */
#include "backend/metal/metal_backend.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/struct_tail.h"
#include "base/text.h"
#include "vram/metal.h"

#include <stdio.h>
#include <string.h>

#define FRAMEWORK "/System/Library/Frameworks/Metal.framework/Metal"

static const struct vr_symbol symbols[] = {
#define SYMBOL(symbol, returns, parameters)                                                        \
    {#symbol, NULL, offsetof(struct vr_metal_api, symbol), false},
    VR_METAL_FUNCTIONS(SYMBOL)
#undef SYMBOL
        {"_NSConcreteStackBlock", NULL, offsetof(struct vr_metal_api, _NSConcreteStackBlock),
         false},
};

static const char *const selectors[VR_METAL_MESSAGE_COUNT] = {
#define SELECTOR(name, selector, returns, parameters) selector,
    VR_METAL_MESSAGES(SELECTOR)
#undef SELECTOR
};

/* ----------------------------------------------------------------- starting */

static vram_status framework_load(struct vr_metal *metal) {
    char path[VR_OPTION_TEXT_MAX];
    vr_option_text(VR_OPTION_METAL_LIBRARY, path);
    const char *const names[] = {*path ? path : FRAMEWORK, NULL};
    vram_status status = vr_library_load(&metal->library, "metal", names, NULL);
    if (status == VRAM_OK) {
        status = vr_library_fill(&metal->library, "metal", symbols,
                                 sizeof symbols / sizeof symbols[0], &metal->api);
    } else if (!*path) {
        status = vr_error_set(status, "metal", "dlopen", 0,
                              "Metal was not found: it is a part of macOS, and nowhere else");
    }
    for (int i = 0; status == VRAM_OK && i < VR_METAL_MESSAGE_COUNT; i++) {
        metal->api.selectors[i] = metal->api.sel_registerName(selectors[i]);
        if (!metal->api.selectors[i]) {
            status = vr_metal_nil(VRAM_ERR_NO_DRIVER, "sel_registerName");
        }
    }
    return status;
}

/* Some Macs have several devices, virtual machines have none. */
static vram_status devices_find(struct vr_metal *metal) {
    const struct vr_metal_api *api = &metal->api;
    metal->devices = api->MTLCopyAllDevices();
    if (!metal->devices) {
        return vr_metal_nil(VRAM_ERR_NO_DEVICE, "MTLCopyAllDevices");
    }
    unsigned long count = VR_SEND0(api, count, metal->devices);
    if (!count || count > UINT32_MAX) {
        VR_SEND0(api, release, metal->devices);
        return vr_error_set(VRAM_ERR_NO_DEVICE, "metal", "MTLCopyAllDevices", 0,
                            "this Mac has no device for Metal");
    }
    metal->device_count = (uint32_t)count;
    return VRAM_OK;
}

static vram_status adoption_error(const char *why) {
    return vr_error_set(VRAM_ERR_INVALID, "metal", "vram_context_create", 0,
                        "vram_context_options.metal: %s", why);
}

/* The program's device is the only one. It may be an object of its own that is not in Metal's list,
   so only messages that it responds to are sent. */
static vram_status device_adopt(struct vr_metal *metal, const struct vram_metal_adoption *from) {
    const struct vr_metal_api *api = &metal->api;
    struct vram_metal_adoption adoption = {0};
    if (from->size < sizeof from->size || from->size > (1u << 16)) {
        return adoption_error("set size to sizeof(vram_metal_adoption)");
    }
    if (!vr_tail_is_zero(from, sizeof adoption)) {
        return adoption_error("it has fields that this version does not know");
    }
    memcpy(&adoption, from, from->size < sizeof adoption ? from->size : sizeof adoption);
    if (!adoption.device) {
        return adoption_error("device is NULL");
    }
    if (!VR_SEND(api, responds, adoption.device, api->selectors[VR_METAL_queue_create])) {
        return adoption_error("device is no MTLDevice");
    }
    metal->adopted = VR_SEND0(api, retain, adoption.device);
    metal->device_count = 1;
    return VRAM_OK;
}

static vram_status metal_start(struct vr_backend *backend,
                               const struct vram_context_options *options) {
    struct vr_metal *metal = vr_mem_alloc(1, sizeof *metal, "metal_start");
    if (!metal) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = framework_load(metal);
    if (status == VRAM_OK) {
        void *pool = metal->api.objc_autoreleasePoolPush();
        status =
            options && options->metal ? device_adopt(metal, options->metal) : devices_find(metal);
        metal->api.objc_autoreleasePoolPop(pool);
    }
    if (status != VRAM_OK) {
        vr_mem_free(metal);
        return status;
    }
    vr_text_format(backend->version, sizeof backend->version, "(not run on hardware)");
    backend->impl = metal;
    return VRAM_OK;
}

static void metal_stop(struct vr_backend *backend) {
    struct vr_metal *metal = backend->impl;
    VR_SEND0(&metal->api, release, metal->adopted ? metal->adopted : metal->devices);
    vr_mem_free(metal);
    backend->impl = NULL;
}

vr_mtl_id vr_metal_device_at(const struct vr_metal *metal, uint32_t index) {
    vr_mtl_id device =
        metal->adopted ? metal->adopted : VR_SEND(&metal->api, object_at, metal->devices, index);
    if (!device) {
        vr_metal_nil(VRAM_ERR_NO_DEVICE, "objectAtIndex:");
    }
    return device;
}

static uint32_t metal_count(struct vr_backend *backend) {
    const struct vr_metal *metal = backend->impl;
    return metal->device_count;
}

/* --------------------------------------------------------------- describing */

#define CAP_BIT(NAME, bit, name, text) | VRAM_CAP_##NAME
enum { ALL_CAPS = 0 VRAM_CAP_MAP(CAP_BIT) };
#undef CAP_BIT

/* The recommended working set counts as the device's memory: beyond it work fails later, without a
   reason that the program could see. */
static void describe_memory(const struct vr_metal_api *api, vr_mtl_id device,
                            struct vram_device_info *info) {
    uint64_t bytes = VR_SEND0(api, working_set, device);
    unsigned long largest = VR_SEND0(api, max_buffer, device);
    if (bytes) {
        info->memory_bytes = (vram_value){bytes, true};
        info->caps |= VRAM_CAP_MEMORY_INFO;
    }
    if (largest) {
        info->alloc_max = (vram_value){largest / VR_METAL_GRANULE * VR_METAL_GRANULE, true};
    }
}

static vram_status metal_describe(struct vr_backend *backend, uint32_t index,
                                  struct vram_device_info *info) {
    const struct vr_metal *metal = backend->impl;
    const struct vr_metal_api *api = &metal->api;
    vram_status status = VRAM_OK;
    void *pool = api->objc_autoreleasePoolPush();
    vr_mtl_id device = vr_metal_device_at(metal, index);
    vr_mtl_id name = device ? VR_SEND0(api, device_name, device) : NULL;
    const char *text = name ? VR_SEND0(api, utf8, name) : NULL;
    if (!device) {
        status = VRAM_ERR_NO_DEVICE;
    } else {
        vr_text_format(info->name, sizeof info->name, "%s", text ? text : "Metal device");
        info->kind = VRAM_DEVICE_GPU;
        info->caps_known = ALL_CAPS & ~VRAM_CAP_INTEGRATED; /* it is not asked */
        info->caps = VRAM_CAP_PINNED | VRAM_CAP_KERNELS | VRAM_CAP_HANDLES | VRAM_CAP_ADOPT;
        info->alloc_granule = (vram_value){VR_METAL_GRANULE, true};
        describe_memory(api, device, info);
    }
    api->objc_autoreleasePoolPop(pool);
    return status;
}

const struct vr_backend_ops vr_metal_backend = {
    .name = "metal",
    .start = metal_start,
    .stop = metal_stop,
    .count = metal_count,
    .describe = metal_describe,
    .device_open = vr_metal_device_open,
};

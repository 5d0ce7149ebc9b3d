/* SPDX-License-Identifier: Apache-2.0 */
/*
 * visibility.c: two small tables, one of platforms and one of devices. The weaker visibility of the
 * two applies.
 */
#include "ring/visibility_table.h"

#include "base/error.h"
#include "base/os/os.h"
#include "device/objects.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define DMA    VRAM_VISIBILITY_DMA
#define DEVICE VRAM_VISIBILITY_DEVICE
#define SYSTEM VRAM_VISIBILITY_SYSTEM

static const struct {
    vram_platform platform;
    vram_visibility own, under_wsl;
} platforms[] = {
    {VRAM_PLATFORM_UNKNOWN, DMA, DMA},
    {VRAM_PLATFORM_LINUX, SYSTEM, DEVICE},
    {VRAM_PLATFORM_WINDOWS, SYSTEM, SYSTEM},
    {VRAM_PLATFORM_MACOS, DEVICE, DEVICE},
};

/* The first row whose backend, kind and capabilities match the device has the strongest
   visibility. */
static const struct {
    const char *backend;
    bool cpu_only;  /* only for CPU devices */
    bool own;       /* independent of the platform: no driver is involved */
    uint32_t needs; /* bits of vram_cap */
    vram_visibility most;
    const char *reason; /* why not stronger; "" for SYSTEM */
} devices[] = {
    {"host", false, true, 0, SYSTEM, ""},
    {"cuda", false, false, VRAM_CAP_PINNED | VRAM_CAP_TRUE_ADDRESS | VRAM_CAP_KERNELS, SYSTEM, ""},
    {"hip", false, false, VRAM_CAP_PINNED | VRAM_CAP_TRUE_ADDRESS | VRAM_CAP_KERNELS, SYSTEM, ""},
    {"opencl", true, true, VRAM_CAP_MANAGED | VRAM_CAP_TRUE_ADDRESS | VRAM_CAP_KERNELS, SYSTEM, ""},
    {"opencl", false, false, VRAM_CAP_MANAGED | VRAM_CAP_TRUE_ADDRESS, DEVICE,
     "the OpenCL device promises no atomics between host and kernel"},
    {"opencl", false, false, 0, DMA, "the OpenCL device has no fine-grained shared memory"},
    {"sim", false, false, VRAM_CAP_HOST_ACCESS | VRAM_CAP_KERNELS, DEVICE,
     "simulated kernels run from start to end inside a call"},
    {"sim", false, false, 0, DMA, "the simulation's memory is not real (real=on makes it so)"},
    {"vulkan", false, false, 0, DMA, "Vulkan has no memory model between host and running shader"},
    {"metal", false, false, 0, DMA, "Metal has no atomics between host and running kernel"},
};

enum { PLATFORMS = sizeof platforms / sizeof platforms[0] };
enum { DEVICES = sizeof devices / sizeof devices[0] };

const char *vr_visibility_name(vram_visibility visibility) {
    static const char *const names[] = {"auto", "dma", "device", "system"};
    return (unsigned)visibility < 4 ? names[visibility] : "unknown";
}

const char *vram_visibility_name(vram_visibility visibility) {
    return vr_visibility_name(visibility);
}

static vram_platform platform_here(void) {
#if defined(__linux__)
    return VRAM_PLATFORM_LINUX;
#elif defined(_WIN32)
    return VRAM_PLATFORM_WINDOWS;
#elif defined(__APPLE__)
    return VRAM_PLATFORM_MACOS;
#else
    return VRAM_PLATFORM_UNKNOWN;
#endif
}

vram_platform vram_platform_here(void) {
    return platform_here();
}

/* Whether `text` contains `word`, which is in lower case, in any case. */
static bool has_word(const char *text, const char *word) {
    size_t length = strlen(word);
    for (; *text; text++) {
        size_t i = 0;
        while (i < length && tolower((unsigned char)text[i]) == word[i]) {
            i++;
        }
        if (i == length) {
            return true;
        }
    }
    return false;
}

static bool is_wsl(const char *kernel_text) {
    return kernel_text && (has_word(kernel_text, "microsoft") || strstr(kernel_text, "WSL"));
}

static vram_status of_platform(vram_platform platform, const char *kernel_text,
                               vram_visibility *visibility) {
    VR_OPERATION("vram_visibility_of_platform");
    if (!visibility) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the visibility is NULL");
    }
    for (int i = 0; i < PLATFORMS; i++) {
        if (platforms[i].platform == platform) {
            *visibility = is_wsl(kernel_text) ? platforms[i].under_wsl : platforms[i].own;
            return VRAM_OK;
        }
    }
    return vr_fail(VRAM_ERR_INVALID, "%d is not a platform", (int)platform);
}

vram_status vram_visibility_of_platform(vram_platform platform, const char *kernel_text,
                                        vram_visibility *visibility) {
    return of_platform(platform, kernel_text, visibility);
}

vram_visibility vr_visibility_of_device(const struct vram_device_info *info, vram_visibility most,
                                        char reason[VRAM_VISIBILITY_REASON_MAX]) {
    for (int i = 0; i < DEVICES; i++) {
        if (strcmp(devices[i].backend, info->backend) != 0 ||
            (devices[i].cpu_only && info->kind != VRAM_DEVICE_CPU) ||
            (info->caps & devices[i].needs) != devices[i].needs) {
            continue;
        }
        if (devices[i].own || devices[i].most <= most) {
            snprintf(reason, VRAM_VISIBILITY_REASON_MAX, "%s", devices[i].reason);
            return devices[i].most;
        }
        snprintf(reason, VRAM_VISIBILITY_REASON_MAX, "%s",
                 most == DEVICE
                     ? "this operating system has no coherent memory between host and GPU "
                       "(WSL, macOS)"
                     : "nothing is known of this operating system");
        return most;
    }
    snprintf(reason, VRAM_VISIBILITY_REASON_MAX,
             "the device of %s lacks what a running kernel needs", info->backend);
    return DMA;
}

vram_visibility vr_visibility_here(const struct vram_device_info *info, const char *kernel_text,
                                   char reason[VRAM_VISIBILITY_REASON_MAX]) {
    vram_visibility most = DMA;
    char text[512] = "";
    if (!kernel_text) {
        struct vram_error error;
        size_t bytes;
        vr_error_save(&error);
        if (vr_os_text_read("/proc/version", text, sizeof text - 1, &bytes) == VRAM_OK) {
            text[bytes < sizeof text ? bytes : sizeof text - 1] = 0;
        }
        vr_error_restore(&error);
        kernel_text = text;
    }
    (void)of_platform(platform_here(), kernel_text, &most);
    return vr_visibility_of_device(info, most, reason);
}

vram_status vram_visibility_detect(vram_device *handle, const char *kernel_text,
                                   vram_visibility *visibility,
                                   char reason[VRAM_VISIBILITY_REASON_MAX]) {
    VR_CALL;
    char why[VRAM_VISIBILITY_REASON_MAX];
    void *entered;
    if (!visibility) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the visibility is NULL");
    }
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    const struct vr_device_object *device = entered;
    *visibility = vr_visibility_here(&device->base.info, kernel_text, why);
    if (reason) {
        memcpy(reason, why, sizeof why);
    }
    vr_leave(entered);
    return VRAM_OK;
}

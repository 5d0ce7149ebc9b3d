/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_vulkan.h: how tests steer the shim between the Vulkan backend and the real loader.
 *
 * The shim is a shared library that exports vkGetInstanceProcAddr and passes every call of
 * VR_VULKAN_FUNCTIONS on to libvulkan.so.1. Any call can be made to fail with any code, without
 * reaching the driver; to succeed without having done anything; or not to be there at all. What the
 * driver says about its device can be changed. It counts the objects that are made and ended.
 */
#ifndef SHIM_VULKAN_H
#define SHIM_VULKAN_H

#include <stdbool.h>
#include <stdint.h>

struct vr_vk_family;
struct vr_vk_memory_properties;

/* What the device is made out to be; 0 leaves what the driver says. */
struct shim_vulkan_pretence {
    uint32_t loader_version; /* of vkEnumerateInstanceVersion */
    uint32_t device_version; /* of the physical device */
    bool gpu;                /* it is one; also by the environment variable SHIM_VULKAN_GPU */
    uint32_t max_allocations;
    uint32_t family_flags; /* of all queue families */
    bool no_devices, no_timeline, no_addresses;
    bool no_local_memory;          /* memory types that cannot be */
    uint64_t max_allocation_bytes; /* of one allocation */
    uint64_t heap_bytes;           /* of every heap */
    bool budget;                   /* has VK_EXT_memory_budget, and tells ... */
    uint64_t budget_bytes, usage_bytes;
    bool other_driver;          /* its UUID is another ... */
    const uint8_t *driver_uuid; /* ... or this one, of 16 bytes */
    bool no_export, no_import;  /* of buffers */
    bool pci;                   /* has VK_EXT_pci_bus_info, at 0001:c2:03.1 */
    uint64_t map_shift;         /* mapped memory begins so far behind the driver's pointer */
    bool integrated, no_device_scope;
    bool no_extensions;
    bool more_extensions; /* the list says that it is longer than what it was given room for */
    bool incomplete;      /* lists have become longer when they are read */
    const struct vr_vk_family *families; /* all are the driver's first one, with one queue */
    uint32_t family_count;
    const struct vr_vk_memory_properties *memory; /* all types are the driver's first one */
    uint32_t no_types;                            /* bits of the types that no buffer can have */
    uint64_t more_bytes;                          /* a buffer needs so many more */
    bool no_align;                                /* a buffer needs an alignment of 0 */
    void (*before_device)(void);                  /* called once, before a device is made */
};

struct shim_vulkan_control {
    struct shim_vulkan_pretence pretence;
    void (*reset)(void); /* no plan, no pretence, no objects; counts begin anew */
    /* The n-th call of `name`, or of any function that returns a result ("any"), answers `code`. */
    void (*refuse)(const char *name, uint64_t nth, int code, bool for_ever);
    /* The n-th call of `name` says that it succeeded, and that is all. */
    void (*lie)(const char *name, uint64_t nth);
    void (*hide)(const char *name); /* not to be found; NULL: all are */
    uint64_t (*struck)(void);
    const char *(*last_call)(void);      /* that was struck */
    uint64_t (*calls)(const char *name); /* since reset; NULL: all */
    int64_t (*live)(void);               /* objects made and not ended */
    const char *(*wrong)(void);          /* what made an object that outlived its device, or NULL */
};

typedef struct shim_vulkan_control *shim_vulkan_control_fn(void);

#endif

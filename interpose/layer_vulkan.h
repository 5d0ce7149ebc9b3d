/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer_vulkan.h: what the files of the Vulkan layer share.
 *
 * An instance or device is found by the first word of its handle, which the loader sets and which
 * physical devices have in common with their instance. What is not replaced is the next layer's
 * own function: it costs nothing.
 *
 *  (1) Records of instances and devices are never freed, only used again. So they are found without
 *      a lock, and a handle that is valid has one.
 */
#ifndef LAYER_VULKAN_H
#define LAYER_VULKAN_H

#include "base/atomic.h"
#include "layer_vulkan_abi.h"
#include "run_record.h"

#define LAYER_VK_FIELD(returns, name, parameters) returns(*name) parameters;

struct layer_vk_instance {
    vr_atomic_ptr key; /* NULL: not in use */
    struct layer_vk_instance *next;
    struct vr_vk_instance *handle;
    layer_vk_instance_get *get;
    LAYER_VK_INSTANCE_FUNCTIONS(LAYER_VK_FIELD) /* NULL: this instance has none */
    LAYER_VK_INSTANCE_CALLED(LAYER_VK_FIELD)
};

struct layer_vk_device {
    vr_atomic_ptr key;
    struct layer_vk_device *next;
    layer_vk_device_get *get;
    LAYER_VK_DEVICE_FUNCTIONS(LAYER_VK_FIELD)
    struct vr_vk_memory_properties memory; /* as the driver said */
    vr_atomic_ptr physical;
    struct layer_vk_instance *instance;
    bool budget;     /* the driver tells how much memory is free */
    uint64_t serial; /* of the device among all that were created, from 1 on */
    uint32_t number; /* the recorder's */
};

#undef LAYER_VK_FIELD

struct layer_vk_instance *layer_vk_instance_of(const void *handle);
struct layer_vk_device *layer_vk_device_of(const void *handle);

/* The recorder's number of a physical device that a device was created of. */
uint32_t layer_vk_number(const struct vr_vk_physical *physical);

/* What the layer replaces. */
#define LAYER_VK_DECLARE(returns, name, parameters) returns layer_##name parameters;
LAYER_VK_INSTANCE_FUNCTIONS(LAYER_VK_DECLARE)
LAYER_VK_DEVICE_FUNCTIONS(LAYER_VK_DECLARE)
#undef LAYER_VK_DECLARE

/* Asks the driver how much memory is free; false: it does not tell. */
bool layer_vk_free(struct layer_vk_instance *instance, struct vr_vk_physical *physical,
                   uint64_t *bytes);

/* A device ends, and what it has not freed with it; `alone`: no other of the same physical one is
   there. */
void layer_vk_memory_end(const struct layer_vk_device *device, bool alone);

#endif

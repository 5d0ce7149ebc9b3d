/* SPDX-License-Identifier: Apache-2.0 */
/*
 * provider.c: the ready-made providers, which serve the memory of a device, one kind each.
 *
 * A provider of the library's is stateless: `user` is the device's handle, and the function says
 * the kind. So it needs no memory, and any copy of it is as good.
 */
#include "core/pool/pool_calls.h"

#include "base/error.h"
#include "device/device_calls.h"

static vram_status provide_device(void *user, uint64_t bytes, vram_addr *addr) {
    return vr_device_alloc(user, bytes, VRAM_MEMORY_DEVICE, addr);
}

static vram_status provide_pinned(void *user, uint64_t bytes, vram_addr *addr) {
    return vr_device_alloc(user, bytes, VRAM_MEMORY_PINNED, addr);
}

static vram_status provide_managed(void *user, uint64_t bytes, vram_addr *addr) {
    return vr_device_alloc(user, bytes, VRAM_MEMORY_MANAGED, addr);
}

/* A device that closes ends its pools first and then frees its memory itself. */
static vram_status take_back(void *user, vram_addr addr, uint64_t bytes) {
    (void)bytes;
    return vr_handle_was(VR_KIND_DEVICE, user) ? VRAM_OK : vr_device_free(user, addr);
}

static vram_provider_alloc_fn *const provides[] = {
    [VRAM_MEMORY_DEVICE] = provide_device,
    [VRAM_MEMORY_PINNED] = provide_pinned,
    [VRAM_MEMORY_MANAGED] = provide_managed,
};

enum { KIND_COUNT = sizeof provides / sizeof provides[0] };

vram_memory_kind vr_provider_kind(const struct vram_provider *provider) {
    unsigned kind = KIND_COUNT - 1;
    while (kind > VRAM_MEMORY_DEVICE && provider->alloc != provides[kind]) {
        kind--;
    }
    return (vram_memory_kind)kind;
}

vram_status vr_provider_check(const vram_device *device, const struct vram_provider *provider) {
    return !provider || provider->free != take_back || provider->user == device
               ? VRAM_OK
               : vr_fail(VRAM_ERR_INVALID, "the provider serves memory of another device");
}

vram_status vram_provider_get(vram_device *handle, vram_memory_kind kind, vram_provider *provider) {
    VR_CALL;
    void *device;
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &device);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_memory_kind_check(device, kind);
    if (status == VRAM_OK) {
        struct vram_provider found = {.size = sizeof found,
                                      .user = handle,
                                      .alloc = provides[kind],
                                      .free = take_back,
                                      .granule = vr_memory_granule(device, kind)};
        status = vr_info_give(provider, &found, sizeof found, sizeof found);
    }
    vr_leave(device);
    return status;
}

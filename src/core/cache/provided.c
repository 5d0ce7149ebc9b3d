/* SPDX-License-Identifier: Apache-2.0 */
/*
 * provided.c: see provided.h.
 */
#include "core/cache/provided.h"

#include "base/error.h"
#include "base/os/os.h"
#include "base/size.h"
#include "base/status.h"

vram_status vr_provided_check(const struct vram_provider *provider) {
    if (provider && (provider->size != sizeof *provider || !provider->alloc || !provider->free ||
                     (provider->granule &&
                      (!vr_is_power_of_two(provider->granule) || provider->granule < 4096)))) {
        return vr_fail(VRAM_ERR_INVALID, "the provider is invalid: set size, alloc and free, and a "
                                         "granule of 0 or a power of two from 4096");
    }
    return VRAM_OK;
}

uint64_t vr_provided_granule(const struct vram_provider *provider) {
    return provider->granule ? provider->granule : 2 * VR_MIB;
}

/* A provider may return any number: one that is not a vram_status must not be returned to the
   program. */
static vram_status provider_status(vram_status status) {
    switch (status) {
#define STATUS(name, value, text) case VRAM_##name:
        VRAM_STATUS_MAP(STATUS)
#undef STATUS
        return status;
    }
    return VRAM_ERR_CORRUPT;
}

static vram_status take_into(struct vr_pool *pool, const struct vr_provided *source, uint64_t bytes,
                             struct vr_record *record) {
    VR_OPERATION("vram_provider.alloc");
    const struct vram_provider *provider = source->provider;
    vram_addr addr = 0;
    uint64_t end;
    VR_UNCANCELLED;
    vram_status status = provider_status(provider->alloc(provider->user, bytes, &addr));
    if (status != VRAM_OK) {
        return vr_fail(status, "the provider refused %llu bytes: %s", (unsigned long long)bytes,
                       vr_status_text(status));
    }
    if (!addr || addr % vr_provided_granule(provider) || !vr_add(addr, bytes, &end)) {
        return vr_fail(VRAM_ERR_CORRUPT, "the provider returned the impossible address 0x%llx",
                       (unsigned long long)addr);
    }
    vr_store(&record->pool, pool->object.handle, VR_RELEASE);
    vr_store(&record->extent, source->extent, VR_RELEASE);
    status =
        vr_record_publish_provided(record, addr, bytes, pool->device->object.handle, source->kind);
    if (status != VRAM_OK && status != VRAM_ERR_CORRUPT) {
        struct vram_error error;
        vr_error_save(&error);
        (void)provider->free(provider->user, addr, bytes);
        vr_error_restore(&error);
    }
    return status;
}

vram_status vr_provided_take(struct vr_pool *pool, const struct vr_provided *source, uint64_t bytes,
                             struct vr_record **out) {
    struct vr_record *record = vr_record_take();
    if (!record) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = take_into(pool, source, bytes, record);
    if (status == VRAM_OK) {
        *out = record;
    } else {
        vr_record_give(record);
    }
    return status;
}

vram_status vr_provided_release(const struct vram_provider *provider, vram_addr addr,
                                uint64_t bytes) {
    VR_OPERATION("vram_provider.free");
    VR_UNCANCELLED;
    vram_status status = provider_status(provider->free(provider->user, addr, bytes));
    return status == VRAM_OK ? status
                             : vr_fail(status, "the provider refused to free %llu bytes: %s",
                                       (unsigned long long)bytes, vr_status_text(status));
}

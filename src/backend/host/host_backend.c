/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_backend.c: start and stop of the host backend, and the description of its one device.
 *
 * What the system may refuse (locked pages, a file in memory) is tried once, at start. A refusal is
 * not a failure: the capability is absent, the log says why, and the rest works. Running out of
 * memory is not a refusal: it is temporary, and must not remove a capability permanently.
 */
#include "backend/host/host_backend.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/os/os.h"

#include <stdio.h>

/* ------------------------------------------------------------ start and stop */

static vram_status page_lock_try(struct vr_host *host) {
    void *page;
    vram_status status = vr_os_pages_alloc(host->page, &page);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_os_pages_lock(page, host->page);
    vram_error why;
    vr_error_save(&why);
    vr_os_pages_free(page, host->page);
    vr_error_restore(&why);
    return status;
}

/* Sets *allowed to whether `try` succeeded. A start that succeeds must not change the caller's
   error record, so a refusal is removed from it again. */
static vram_status feature_probe(struct vr_host *host, vram_status (*try)(struct vr_host *),
                                 const char *what, bool *allowed) {
    vram_error before;
    vr_error_save(&before);
    vram_status status = try(host);
    *allowed = status == VRAM_OK;
    if (status == VRAM_ERR_HOST_MEMORY) {
        return vr_host_error(VRAM_ERR_HOST_MEMORY, what);
    }
    if (status != VRAM_OK) {
        vr_log(VRAM_LOG_INFO, "host: no %s: %s", what, vr_error_get()->text);
        vr_error_restore(&before);
    }
    return VRAM_OK;
}

static void memory_measure(struct vr_host *host) {
    vram_value total, available;
    vr_os_memory(&total, &available);
    host->page = vr_os_page_bytes();
    host->total = vr_option_number(VR_OPTION_HOST_MEMORY);
    host->limited = host->total != 0;
    if (!host->limited) {
        host->total = total.known ? total.value : UINT64_MAX;
    }
}

static void host_destroy(struct vr_host *host) {
    vr_host_file_close(host);
    vr_mutex_destroy(&host->lock);
    vr_cond_destroy(&host->moved);
    vr_mem_free(host);
}

static vram_status host_start(struct vr_backend *backend,
                              const struct vram_context_options *options) {
    (void)options; /* the host's only setting, host_memory, is an option of the process */
    struct vr_host *host = vr_mem_alloc(1, sizeof *host, "host start");
    if (!host) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = vr_cond_init(&host->moved);
    if (status != VRAM_OK) {
        vr_mem_free(host);
        return status;
    }
    vr_mutex_init(&host->lock, VR_RANK_BACKEND);
    vr_os_machine(&host->machine);
    memory_measure(host);
    status = feature_probe(host, page_lock_try, "pinned memory", &host->pinned);
    if (status == VRAM_OK) {
        status = feature_probe(host, vr_host_file_open, "virtual memory management", &host->vmm);
    }
    if (status != VRAM_OK) {
        host_destroy(host);
        return status;
    }
    backend->impl = host;
    snprintf(backend->version, sizeof backend->version, "%s", host->machine.system);
    return VRAM_OK;
}

static void host_stop(struct vr_backend *backend) {
    struct vr_host *host = backend->impl;
    uint64_t held = vr_load(&host->held, VR_RELAXED);
    if (held) {
        vr_log(VRAM_LOG_WARN, "host: %llu bytes were never given back", (unsigned long long)held);
    }
    host_destroy(host);
    backend->impl = NULL;
}

/* --------------------------------------------------------------- the device */

static uint32_t host_count(struct vr_backend *backend) {
    (void)backend;
    return 1;
}

#define CAP_BIT(NAME, bit, name, text) | VRAM_CAP_##NAME
enum { ALL_CAPS = 0 VRAM_CAP_MAP(CAP_BIT) };

static uint32_t host_caps(const struct vr_host *host) {
    uint32_t caps = VRAM_CAP_MANAGED | VRAM_CAP_KERNELS | VRAM_CAP_TRUE_ADDRESS |
                    VRAM_CAP_HOST_ACCESS | VRAM_CAP_MEMORY_INFO;
    caps |= host->pinned ? VRAM_CAP_PINNED : 0;
    caps |= host->vmm ? VRAM_CAP_VMM | VRAM_CAP_ALIAS : 0;
    return caps;
}

static vram_status host_describe(struct vr_backend *backend, uint32_t index,
                                 struct vram_device_info *info) {
    (void)index;
    const struct vr_host *host = backend->impl;
    *info = (struct vram_device_info){
        .size = info->size,
        .backend = info->backend,
        .backend_index = info->backend_index,
        .kind = VRAM_DEVICE_CPU,
        .caps = host_caps(host),
        .caps_known = ALL_CAPS,
        .alloc_granule = {host->page, true},
        .vmm_granule = {host->vmm ? VR_HOST_VMM_GRANULE : 0, host->vmm},
        /* alloc_max is unknown: only the free memory limits a single allocation. */
    };
    if (host->total != UINT64_MAX) {
        info->memory_bytes = (vram_value){host->total, true};
    }
    snprintf(info->name, sizeof info->name, "%s", host->machine.cpu);
    snprintf(info->architecture, sizeof info->architecture, "%s", host->machine.architecture);
    return VRAM_OK;
}

const struct vr_backend_ops vr_host_backend = {
    .name = "host",
    .start = host_start,
    .stop = host_stop,
    .count = host_count,
    .describe = host_describe,
    .device_open = vr_host_device_open,
};

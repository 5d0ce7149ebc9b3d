/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_backend.c: start and stop of the host backend and the one device it shows.
 *
 * What the system may refuse (locked pages, a file in memory) is tried once, at start. A refusal is
 * no failure: the capability is absent, the log says why, and the rest works. Running out of memory
 * is no refusal: it passes, and a device must not have lost a capability for good when it does.
 */
#include "backend/host/host.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/os/os.h"

#include <stdio.h>

/*
 * The one table from driver codes to statuses. base/os has sorted errno into classes; what is left
 * is to say whose memory ran out. A class not known here is VRAM_ERR_BACKEND: it must not pass for
 * an exhaustion, which callers answer by freeing memory and trying again.
 */
vram_status vr_host_error(vram_status exhausted, const char *doing) {
    vram_error os;
    vr_error_save(&os);
    vram_status status;
    switch (os.status) {
    case VRAM_ERR_HOST_MEMORY:
        status = exhausted;
        break;
    case VRAM_ERR_LIMIT:
    case VRAM_ERR_IO:
        status = os.status;
        break;
    default:
        status = VRAM_ERR_BACKEND;
        break;
    }
    return vr_error_set(status, "host", os.operation, os.native_code, "%s: %s", doing, os.text);
}

/* ------------------------------------------------------------ start and stop */

static vram_status lock_a_page(struct vr_host *host) {
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

/* Notes in *allowed whether `try` worked. A start that succeeds leaves the caller's error record
   alone, so a refusal is taken out of it again. */
static vram_status probe(struct vr_host *host, vram_status (*try)(struct vr_host *),
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

static void measure(struct vr_host *host) {
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

static vram_status start(struct vr_backend *backend, const struct vram_context_options *options) {
    (void)options; /* the host's only knob, host_memory, is an option of the process */
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
    measure(host);
    status = probe(host, lock_a_page, "pinned memory", &host->pinned);
    if (status == VRAM_OK) {
        status = probe(host, vr_host_file_open, "virtual memory management", &host->vmm);
    }
    if (status != VRAM_OK) {
        host_destroy(host);
        return status;
    }
    backend->impl = host;
    snprintf(backend->version, sizeof backend->version, "%s", host->machine.system);
    return VRAM_OK;
}

static void stop(struct vr_backend *backend) {
    struct vr_host *host = backend->impl;
    uint64_t held = vr_load(&host->held, VR_RELAXED);
    if (held) {
        vr_log(VRAM_LOG_WARN, "host: %llu bytes were never given back", (unsigned long long)held);
    }
    host_destroy(host);
    backend->impl = NULL;
}

/* --------------------------------------------------------------- the device */

static uint32_t count(struct vr_backend *backend) {
    (void)backend;
    return 1;
}

#define CAP_BIT(NAME, bit, name, text) | VRAM_CAP_##NAME
enum { ALL_CAPS = 0 VRAM_CAP_MAP(CAP_BIT) };

static uint32_t caps_of(const struct vr_host *host) {
    uint32_t caps = VRAM_CAP_MANAGED | VRAM_CAP_KERNELS | VRAM_CAP_TRUE_ADDRESS |
                    VRAM_CAP_HOST_ACCESS | VRAM_CAP_MEMORY_INFO;
    caps |= host->pinned ? VRAM_CAP_PINNED : 0;
    caps |= host->vmm ? VRAM_CAP_VMM | VRAM_CAP_ALIAS : 0;
    return caps;
}

static vram_status describe(struct vr_backend *backend, uint32_t index,
                            struct vram_device_info *info) {
    (void)index;
    const struct vr_host *host = backend->impl;
    *info = (struct vram_device_info){
        .size = info->size,
        .backend = info->backend,
        .backend_index = info->backend_index,
        .kind = VRAM_DEVICE_CPU,
        .caps = caps_of(host),
        .caps_known = ALL_CAPS,
        .alloc_granule = {host->page, true},
        .vmm_granule = {host->vmm ? VR_HOST_VMM_GRANULE : 0, host->vmm},
        /* alloc_max stays unknown: only the memory itself bounds a single allocation. */
    };
    if (host->total != UINT64_MAX) {
        info->memory_bytes = (vram_value){host->total, true};
    }
    snprintf(info->name, sizeof info->name, "%s", host->machine.cpu);
    snprintf(info->architecture, sizeof info->architecture, "%s", host->machine.architecture);
    return VRAM_OK;
}

static vram_status device_open(struct vr_device *device) {
    struct vr_host *host = device->backend->impl;
    device->impl = host;
    device->ops = &vr_host_device;
    device->queue_ops = &vr_host_queue;
    device->pinned = host->pinned ? &vr_host_pinned : NULL;
    device->vmm = host->vmm ? &vr_host_vmm : NULL;
    device->managed = &vr_host_managed;
    device->peer = NULL; /* there is one device, and it reaches itself */
    device->kernel = &vr_host_kernel;
    return VRAM_OK;
}

const struct vr_backend_ops vr_host_backend = {
    .name = "host",
    .start = start,
    .stop = stop,
    .count = count,
    .describe = describe,
    .device_open = device_open,
};

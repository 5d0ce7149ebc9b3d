/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_backend.c: start and stop of a simulated machine, and the description of its devices.
 * vram/sim.h says how users configure it.
 */
#include "backend/sim/sim_backend.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/os/os.h"
#include "base/text.h"

#include <string.h>

/* --------------------------------------------------------------------- starting */

void vr_sim_free(struct vr_sim *sim) {
    if (sim->file >= 0) {
        vr_os_file_close(sim->file);
    }
    if (sim->backend) {
        sim->backend->impl = NULL;
    }
    vr_mutex_destroy(&sim->lock);
    vr_sim_map_free(&sim->ranges);
    vr_sim_map_free(&sim->mappings);
    vr_mem_free(sim->handles);
    vr_mem_free(sim->journal);
    vr_mem_free(sim->texts);
    vr_mem_free(sim->bounce);
    vr_mem_free(sim);
}

/* Creates everything but the file of contents, which only an opened device needs: a context that
   never uses its simulated devices needs no file descriptor. */
static struct vr_sim *sim_make(const struct vr_sim_config *config) {
    static const char operation[] = "start";
    struct vr_sim *sim =
        vr_mem_alloc(1, sizeof *sim + config->devices * sizeof sim->gpus[0], operation);
    if (!sim) {
        return NULL;
    }
    vr_mutex_init(&sim->lock, VR_RANK_BACKEND);
    sim->config = *config;
    sim->random = config->seed;
    sim->plan = config->fault;
    sim->file = -1;
    vr_list_init(&sim->streams);
    for (uint32_t i = 0; i < config->devices; i++) {
        sim->gpus[i].index = i;
        sim->gpus[i].others = config->others_bytes;
    }
    sim->bounce = vr_mem_alloc(1, VR_SIM_BOUNCE, operation);
    sim->texts = vr_mem_alloc(VR_SIM_TEXTS_MAX, sizeof sim->texts[0], operation);
    if (config->journal) {
        sim->journal = vr_mem_alloc(config->journal, sizeof sim->journal[0], operation);
    }
    if (!sim->bounce || !sim->texts || (config->journal && !sim->journal)) {
        vr_sim_free(sim);
        return NULL;
    }
    return sim;
}

/* The text comes from the context's options. src/device has copied the option `sim` there if
   the program set nothing; a caller that starts the backend directly may leave that to this
   function. */
static vram_status sim_start(struct vr_backend *backend,
                             const struct vram_context_options *options) {
    char text[VR_OPTION_TEXT_MAX];
    struct vr_sim_config config;
    const char *told = options ? options->sim : NULL;
    if (!told) {
        vr_option_text(VR_OPTION_SIM, text);
        told = text;
    }
    vram_status status = vr_sim_config_read(told, &config);
    if (status != VRAM_OK) {
        return status;
    }
    if (config.devices == 0) {
        return vr_error_set(VRAM_ERR_NO_DEVICE, "sim", "start", 0,
                            "the simulation was told devices=0");
    }
    struct vr_sim *sim = sim_make(&config);
    if (!sim) {
        return VRAM_ERR_HOST_MEMORY;
    }
    sim->backend = backend;
    backend->impl = sim;
    vr_text_copy(backend->version, sizeof backend->version, VRAM_VERSION_TEXT);
    return VRAM_OK;
}

/* A device that is still open keeps the machine, so that its calls can be reported as violations;
   the last one to close frees it. From here on the backend belongs to its owner again. */
static void sim_stop(struct vr_backend *backend) {
    struct vr_sim *sim = backend->impl;
    vr_mutex_lock(&sim->lock);
    uint32_t devices_open = sim->devices_open;
    sim->stopped = devices_open > 0;
    sim->backend = devices_open ? NULL : backend;
    vr_mutex_unlock(&sim->lock);
    if (devices_open) {
        vr_log(VRAM_LOG_ERROR, "simulated driver: stopped with %u devices open", devices_open);
    } else {
        vr_sim_free(sim);
    }
}

static uint32_t sim_count(struct vr_backend *backend) {
    return ((struct vr_sim *)backend->impl)->config.devices;
}

/* -------------------------------------------------------------------- describing */

/* Capabilities follow from the configuration alone, and device_open sets the groups by the same
   conditions, so the two cannot disagree. */
static uint32_t sim_caps(const struct vr_sim_config *config) {
    uint32_t caps = VRAM_CAP_PINNED | VRAM_CAP_MANAGED | VRAM_CAP_ADOPT | VRAM_CAP_SIMULATED;
    caps |= config->vmm ? VRAM_CAP_VMM : 0;
    caps |= config->vmm && config->alias ? VRAM_CAP_ALIAS : 0;
    caps |= config->info ? VRAM_CAP_MEMORY_INFO : 0;
    caps |= config->devices > 1 ? VRAM_CAP_PEERS : 0;
    if (config->real) {
        caps |= VRAM_CAP_KERNELS | VRAM_CAP_TRUE_ADDRESS | VRAM_CAP_HOST_ACCESS;
    }
    return caps;
}

/* A simulation knows everything about itself. */
static uint32_t sim_all_caps(void) {
    uint32_t caps = 0;
#define CAP(NAME, bit, name, text) caps |= VRAM_CAP_##NAME;
    VRAM_CAP_MAP(CAP)
#undef CAP
    return caps;
}

/* No UUID and no PCI address: those identify hardware. */
static vram_status sim_describe(struct vr_backend *backend, uint32_t index,
                                struct vram_device_info *info) {
    const struct vr_sim_config *config = &((struct vr_sim *)backend->impl)->config;
    (void)index; /* all devices of a simulation are alike */
    info->kind = VRAM_DEVICE_SIMULATED;
    /* A device has the name of a product if it has its memory, too. */
    bool whole = config->memory_bytes == config->profile->memory_bytes;
    vr_text_copy(info->name, sizeof info->name,
                 whole ? config->profile->device_name : "Simulated GPU");
    vr_text_copy(info->architecture, sizeof info->architecture, "sim");
    info->uuid_known = info->pci_known = false;
    memset(info->uuid, 0, sizeof info->uuid);
    memset(info->pci, 0, sizeof info->pci);
    info->caps = sim_caps(config);
    info->caps_known = sim_all_caps();
    info->memory_bytes = (vram_value){config->memory_bytes, true};
    info->alloc_granule = (vram_value){vr_os_page_bytes(), true};
    info->alloc_max = (vram_value){config->memory_bytes, true};
    info->vmm_granule = (vram_value){config->vmm ? config->granule : 0, config->vmm};
    return VRAM_OK;
}

const struct vr_backend_ops vr_sim_backend = {
    .name = "sim",
    .start = sim_start,
    .stop = sim_stop,
    .count = sim_count,
    .describe = sim_describe,
    .device_open = vr_sim_device_open,
    .sim = &vr_sim_control_ops,
};

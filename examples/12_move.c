/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 12_move: memory that changes its address without being copied. Addresses come from a range,
 * memory from a physical handle; unmapping it here and mapping it there is all a move takes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vram/vram.h>

static vram_context *context; /* all else goes with it, also when something fails */

static void must(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "%s: %s\n", vram_status_name(status), vram_error_get()->text);
        vram_context_destroy(context);
        exit(1);
    }
}

/* Opens the best device if it can move memory, else the first that can; the host always can. */
static vram_device *open_vmm(vram_device_info *info) {
    vram_device *device;
    uint32_t index;
    must(vram_device_best(context, &index));
    must(vram_device_info_get(context, index, info));
    for (uint32_t i = 0; !(info->caps & VRAM_CAP_VMM); i++) {
        must(vram_device_info_get(context, i, info));
        index = i;
    }
    must(vram_device_open(context, index, &device));
    return device;
}

int main(void) {
    vram_device_info info = {.size = sizeof info};
    vram_queue *queue;
    vram_physical *physical;
    vram_addr range;
    char sent[] = "the same memory", received[sizeof sent] = "";

    must(vram_context_create(NULL, &context));
    vram_device *device = open_vmm(&info);
    must(vram_queue_create(device, NULL, &queue));

    uint64_t granule = info.vmm_granule.value;
    must(vram_range_create(device, 4 * granule, &range)); /* addresses: cost no memory */
    must(vram_physical_create(device, granule, &physical));

    vram_addr here = range, there = range + 3 * granule;
    must(vram_range_map(device, here, &physical, 1));
    must(vram_queue_upload(queue, here, sent, sizeof sent));
    must(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT)); /* nothing uses it any more */

    must(vram_range_unmap(device, here, granule));
    must(vram_range_map(device, there, &physical, 1));
    must(vram_queue_download(queue, received, there, sizeof received));
    must(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
    printf("written at granule 0, read at granule 3: %s\n", received);

    must(vram_range_unmap(device, there, granule));
    must(vram_physical_destroy(physical));
    must(vram_range_destroy(device, range));
    vram_context_destroy(context);
    return strcmp(sent, received) != 0;
}

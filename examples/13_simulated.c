/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 13_simulated: what does my program do when the driver fails? A simulated GPU of 80 GiB, on any
 * machine, with one failure planted: its second allocation is refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <vram/vram.h>

static vram_context *context; /* all else goes with it, also when something fails */

static void must(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "%s: %s\n", vram_status_name(status), vram_error_get()->text);
        vram_context_destroy(context);
        exit(1);
    }
}

int main(void) {
    vram_context_options options = {
        .size = sizeof options, .backends = "sim", .sim = "profile=h200"};
    vram_sim_fault fault = {
        .size = sizeof fault, .call = VRAM_SIM_ALLOC, .nth = 2, .code = VRAM_SIM_OUT_OF_MEMORY};
    vram_sim_state state = {.size = sizeof state};
    vram_device *device;

    must(vram_context_create(&options, &context));
    must(vram_device_open(context, 0, &device));
    must(vram_sim_fault_set(context, &fault));

    for (int i = 1; i <= 3; i++) {
        vram_addr addr = 0;
        vram_status status =
            vram_device_alloc(device, UINT64_C(1) << 30, VRAM_MEMORY_DEVICE, &addr);
        printf("allocation %d: %s\n", i, vram_status_name(status));
        if (vram_status_is_exhausted(status)) {
            const vram_error *error = vram_error_get();
            printf("  backend %s, call %s, code %lld\n", error->backend, error->operation,
                   (long long)error->native_code);
        }
    }

    must(vram_sim_state_get(context, &state));
    printf("faults that struck: %llu\n", (unsigned long long)state.faults);
    printf("GiB held: %llu\n", (unsigned long long)(state.live_bytes >> 30));
    vram_context_destroy(context); /* gives back the two that are left */
    return 0;
}

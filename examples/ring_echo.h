/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_echo.h: the kernel of 21_ring: PTX of shaders/ring_echo.cu where the device takes that, else
 * the same lines as a C function.
 */
#ifndef RING_ECHO_H
#define RING_ECHO_H

#include "shaders/generated/ring_echo_ptx.h"

#include <vram/ring_device.h>
#include <vram/vram.h>

static void ring_echo(const vram_kernel_call *call) {
    vram_ring_peer peer;
    if (vram_ring_peer_open(*(vram_ring_control *const *)call->arguments[0], &peer) != 0) {
        return;
    }
    for (;;) {
        uint32_t bytes;
        const uint64_t *in = vram_ring_peer_take(&peer, &bytes);
        uint64_t *out = in ? vram_ring_peer_room(&peer) : NULL;
        if (out) {
            *out = *in * 2;
            vram_ring_peer_publish(&peer, sizeof *out, 0);
            vram_ring_peer_done(&peer);
        } else if (!in && vram_ring_peer_stopping(&peer)) {
            break;
        }
    }
    vram_ring_peer_end(&peer, VRAM_RING_DONE);
}

static vram_status ring_echo_load(vram_device *device, vram_kernel **kernel) {
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_PTX,
                                 .code = ring_echo_ptx,
                                 .code_bytes = sizeof ring_echo_ptx - 1,
                                 .entry = "ring_echo"};
    vram_status status = vram_kernel_create(device, &source, kernel);
    if (status == VRAM_ERR_UNSUPPORTED) {
        source.format = VRAM_KERNEL_C;
        source.code = (const void *)(uintptr_t)ring_echo;
        source.code_bytes = 0;
        status = vram_kernel_create(device, &source, kernel);
    }
    return status;
}

#endif

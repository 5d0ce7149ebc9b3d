/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c: messages between processes as bytes. See wire.h. */
#include "base/wire.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/os/os.h"
#include "base/size.h"

#define HEADER_MAGIC UINT32_C(0x48535256) /* "VRSH" */

void vr_wire_header_write(uint8_t *to, const struct vr_wire_header *header) {
    vr_wire_put(to, HEADER_MAGIC, 4);
    to[4] = header->version;
    to[5] = header->type;
    vr_wire_put(to + 6, (uint64_t)(-(int64_t)header->status), 2);
    vr_wire_put(to + 8, header->bytes, 4);
    vr_wire_put(to + 12, 0, 4);
}

bool vr_wire_header_read(const uint8_t *from, uint32_t most, struct vr_wire_header *header) {
    if (vr_wire_get(from, 4) != HEADER_MAGIC) {
        return false;
    }
    *header = (struct vr_wire_header){.version = from[4],
                                      .type = from[5],
                                      .status = (vram_status)(-(int)vr_wire_get(from + 6, 2)),
                                      .bytes = (uint32_t)vr_wire_get(from + 8, 4)};
    return header->bytes <= most;
}

/* --------------------------------------------------------------- exchanges */

/* Waits until the socket is ready. */
static vram_status exchange_wait(const struct vr_wire_exchange *exchange, bool write) {
    struct vr_os_poll poll = {.fd = exchange->fd, .read = !write, .write = write};
    uint64_t now = vr_clock_now();
    if (now >= exchange->deadline) {
        return vr_fail(VRAM_ERR_TIMEOUT, "%s", exchange->silent);
    }
    vr_os_poll(&poll, 1, vr_smaller(exchange->deadline - now, UINT64_C(1000000000)));
    return VRAM_OK;
}

vram_status vr_wire_send(const struct vr_wire_exchange *exchange, const uint8_t *data,
                         size_t bytes) {
    vram_status status = VRAM_OK;
    for (size_t done = 0; done < bytes && status == VRAM_OK;) {
        size_t some = 0;
        status = vr_os_socket_send(exchange->fd, data + done, bytes - done, NULL, 0, &some);
        done += status == VRAM_OK ? some : 0;
        status = status == VRAM_ERR_NOT_READY ? exchange_wait(exchange, true) : status;
    }
    return status;
}

vram_status vr_wire_receive(const struct vr_wire_exchange *exchange, uint8_t *data, size_t bytes,
                            int *descriptors, uint32_t *count) {
    uint32_t capacity = *count;
    vram_status status = VRAM_OK;
    *count = 0;
    for (size_t done = 0; done < bytes && status == VRAM_OK;) {
        size_t some = 0;
        uint32_t more = capacity - *count;
        status = vr_os_socket_receive(exchange->fd, data + done, bytes - done, &some,
                                      descriptors ? descriptors + *count : NULL, &more);
        done += status == VRAM_OK ? some : 0;
        *count += status == VRAM_OK ? more : 0;
        status = status == VRAM_ERR_NOT_READY ? exchange_wait(exchange, false) : status;
    }
    while (status != VRAM_OK && *count) {
        vr_os_file_close(descriptors[--*count]);
    }
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host_error.c: the one table from driver codes to statuses, contract (4) of backend.h.
 *
 * base/os has already sorted errno into classes; what is left is to say whose memory ran out. A
 * class that is not listed is VRAM_ERR_BACKEND: it must not look like an exhaustion, because
 * callers respond to an exhaustion by freeing memory and trying again.
 */
#include "backend/host/host_backend.h"

#include "base/error.h"

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
    case VRAM_ERR_INVALID:     /* of a descriptor that another process sent */
    case VRAM_ERR_UNSUPPORTED: /* a system without sealed files */
        status = os.status;
        break;
    default:
        status = VRAM_ERR_BACKEND;
        break;
    }
    return vr_error_set(status, "host", os.operation, os.native_code, "%s: %s", doing, os.text);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xfer_calls.h: public calls on transfers as the library's own code makes them; see
 * device/device_calls.h. They take handles, enter and leave by themselves, and fail with the same
 * statuses and texts as the public calls, which are thin entries to these.
 */
#ifndef VR_XFER_CALLS_H
#define VR_XFER_CALLS_H

#include "vram/async.h"
#include "vram/transfer.h"

vram_status vr_async_of_point(vram_point point, const char *operation, vram_async *async);
vram_status vr_async_close(vram_async *async); /* vram_async_end; async.c */

/* "unknown" if the value is not in the enum; metrics.c. */
const char *vr_transfer_direction_name(vram_transfer_direction direction);
const char *vr_transfer_route_name(vram_transfer_route route);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* rows_lease.c: leases beside the ends of what they use. */
#include "calls/call_table.h"

CALL(vram_lease_open, DEVICE, ROW_WAITS) {
    return TRY(vram_lease_open, w->device, call_lease_options(), &w->made.lease);
}

CALL(vram_lease_close, LEASE, 0) {
    return TRY(vram_lease_close, OR_NULL(w->lease));
}

CALL(vram_lease_pool_add, LEASE, 0) {
    return TRY(vram_lease_pool_add, w->lease, w->pool, NULL);
}

CALL(vram_lease_point, LEASE, 0) {
    return TRY(vram_lease_point, w->lease, NULL);
}

CALL(vram_lease_info_get, LEASE, 0) {
    LOOK(vram_lease_info, TRY(vram_lease_info_get, w->lease, &info));
}

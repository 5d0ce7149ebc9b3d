/* SPDX-License-Identifier: Apache-2.0 */
/* rows_lease.c: leases beside the ends of what they use. */
#include "calls/call_table.h"

CALL_WITH(vram_lease_open, DEVICE, ROW_WAITS, w->device, call_lease_options(), &w->made.lease);
CALL_WITH(vram_lease_close, LEASE, 0, OR_NULL(w->lease));
CALL_WITH(vram_lease_pool_add, LEASE, 0, w->lease, w->pool, NULL);
CALL_WITH(vram_lease_point, LEASE, 0, w->lease, NULL);
CALL_WITH(vram_lease_info_get, LEASE, 0, w->lease, TOLD(vram_lease_info));

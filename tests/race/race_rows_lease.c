/* SPDX-License-Identifier: Apache-2.0 */
/* race_rows_lease.c: leases beside the ends of what they use. */
#include "race/race_table.h"

ROW(vram_lease_open, DEVICE, 0) {
    return vram_lease_open(w->device, race_lease_options(), &w->made.lease);
}

ROW(vram_lease_close, LEASE, 0) {
    return vram_lease_close(w->lease);
}

ROW(vram_lease_pool_add, LEASE, 0) {
    return vram_lease_pool_add(w->lease, w->pool, NULL);
}

ROW(vram_lease_point, LEASE, 0) {
    return vram_lease_point(w->lease, NULL);
}

ROW(vram_lease_info_get, LEASE, 0) {
    LOOK(vram_lease_info, vram_lease_info_get(w->lease, &info));
}

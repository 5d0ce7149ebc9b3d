/* SPDX-License-Identifier: Apache-2.0 */
/* race_rows_share.c: memory of several processes, beside the ends of what it uses. Both sides are
   in this process. */
#include "race/race_table.h"

static const vram_share_options where = {.size = sizeof where, .dir = "/tmp"};

ROW(vram_share_export, SHARE, ROW_INVALID) {
    vram_addr addr;
    vram_status status = vram_alloc(w->share_pool, 4096, w->queue, &addr);
    return status ? status : vram_share_export(&addr, 1, &where, &w->made.share);
}

ROW(vram_share_token_get, SHARE, ROW_INVALID) {
    vram_share_token token;
    return vram_share_token_get(w->share, &token);
}

ROW(vram_share_open, SHARE, 0) {
    return vram_share_open(w->device, &w->token, &where, &w->made.share);
}

ROW(vram_share_close, SHARE, 0) {
    return vram_share_close(w->share);
}

ROW(vram_share_parts_get, SHARE, 0) {
    vram_share_part part;
    return vram_share_parts_get(w->share, 0, 1, &part);
}

ROW(vram_share_info_get, SHARE, 0) {
    LOOK(vram_share_info, vram_share_info_get(w->share, &info));
}

ROW(vram_share_mark, SHARE, ROW_INVALID | ROW_USES_QUEUE) {
    uint64_t value;
    return vram_share_mark(w->share, w->queue, &value);
}

ROW(vram_share_wait, SHARE, ROW_TIMEOUT) {
    return vram_share_wait(w->share, 1, 1000000);
}

ROW(vram_share_publish, SHARE, ROW_INVALID) {
    return vram_share_publish(w->share, w->share_name, NULL);
}

ROW(vram_share_open_name, SHARE, ROW_INVALID) {
    return vram_share_open_name(w->device, w->share_name, &where, &w->made.share);
}

ROW(vram_share_fabric_get, SHARE, ROW_INVALID) {
    vram_share_fabric fabric;
    return vram_share_fabric_get(w->share, &fabric);
}

ROW(vram_share_fabric_open, SHARE, 0) {
    vram_share_fabric fabric = {{0}};
    return vram_share_fabric_open(w->device, &fabric, &where, &w->made.share);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* rows_share.c: memory of several processes, beside the ends of what it uses. Both sides are
   in this process. */
#include "calls/call_table.h"

static const vram_share_options where = {.size = sizeof where, .dir = "/tmp"};

CALL(vram_share_export, SHARE, ROW_INVALID) {
    vram_addr addr;
    vram_status status = vram_alloc(w->share_pool, 4096, w->queue, &addr);
    return status ? status : TRY(vram_share_export, &addr, FIXED(1), &where, &w->made.share);
}

CALL(vram_share_token_get, SHARE, ROW_INVALID) {
    vram_share_token token;
    return TRY(vram_share_token_get, w->share, &token);
}

CALL_WITH(vram_share_open, SHARE, 0, w->device, &w->token, &where, &w->made.share);
CALL_WITH(vram_share_close, SHARE, ROW_LOSES, OR_NULL(w->share));
CALL_WITH(vram_share_parts_get, SHARE, 0, w->share, 0, FIXED(1), OUT(vram_share_part));
CALL_WITH(vram_share_info_get, SHARE, 0, w->share, TOLD(vram_share_info));
CALL_WITH(vram_share_mark, SHARE, ROW_INVALID | ROW_USES_QUEUE, w->share, w->queue, OUT(uint64_t));
CALL_WITH(vram_share_wait, SHARE, ROW_TIMEOUT, w->share, FIXED(1), FIXED(1000000));
CALL_WITH(vram_share_publish, SHARE, ROW_INVALID, w->share, w->share_name, NULL);
CALL_WITH(vram_share_open_name, SHARE, ROW_INVALID, w->device, w->share_name, &where,
          &w->made.share);

CALL(vram_share_fabric_get, SHARE, ROW_INVALID) {
    vram_share_fabric fabric;
    return TRY(vram_share_fabric_get, w->share, &fabric);
}

CALL(vram_share_fabric_open, SHARE, 0) {
    vram_share_fabric fabric = {{0}};
    return TRY(vram_share_fabric_open, w->device, &fabric, &where, &w->made.share);
}

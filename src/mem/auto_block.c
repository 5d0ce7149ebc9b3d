/* SPDX-License-Identifier: Apache-2.0 */
/* auto_block.c: the end of a vram_auto_block, which the cleanup attribute calls. */
#include "base/error.h"
#include "core/pool/pool_calls.h"
#include "vram/auto.h"

void vram_auto_block_auto_end(vram_auto_block *block) {
    if (block && block->addr) {
        vram_error error;
        vr_error_save(&error);
        if (vr_free(block->pool, block->addr, block->queue) == VRAM_ERR_STALE) {
            (void)vr_pool_free_after_queue(block->pool, block->addr, block->queue);
        }
        vr_error_restore(&error);
    }
}

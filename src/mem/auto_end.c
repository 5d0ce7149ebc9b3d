/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auto_end.c: what the cleanup attribute calls: ends that say nothing.
 */
#include "base/error.h"
#include "vram/auto.h"

/* A function that ends what a pointer points to, with the caller's error record kept; `end` uses *object. */
#define AUTO_END(type, end)                                                                        \
    void type##_auto_end(type **object) {                                                          \
        if (object && *object) {                                                                   \
            struct vram_error error;                                                               \
            vr_error_save(&error);                                                                 \
            end;                                                                                   \
            vr_error_restore(&error);                                                              \
        }                                                                                          \
    }

AUTO_END(vram_context, vram_context_destroy(*object))
AUTO_END(vram_device, vram_device_close(*object))
AUTO_END(vram_kernel, vram_kernel_destroy(*object))
AUTO_END(vram_pool, (void)vram_pool_destroy(*object))
AUTO_END(vram_buffer, (void)vram_buffer_destroy(*object))
AUTO_END(vram_scope, (void)vram_scope_end(*object))
AUTO_END(vram_batch, (void)vram_batch_destroy(*object))
AUTO_END(vram_named, (void)vram_named_destroy(*object))

/* Of the two ends the one that is not for this kind of queue does nothing. */
AUTO_END(vram_queue, {
    (void)vram_queue_end(*object);
    vram_queue_destroy(*object);
})

void vram_auto_block_auto_end(vram_auto_block *block) {
    if (block && block->addr) {
        struct vram_error error;
        vr_error_save(&error);
        (void)vram_free(block->pool, block->addr, block->queue);
        vr_error_restore(&error);
    }
}

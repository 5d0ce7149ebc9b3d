/* SPDX-License-Identifier: Apache-2.0 */
/* rows_extension.c: what libraries on top of libvram call, beside the ends of what they
   use. */
#include "calls/call_table.h"

CALL_WITH(vram_pool_attach, POOL, 0, w->pool, OR_NULL(call_ignore_end), NULL, NULL,
          &w->made.attachment);
CALL_WITH(vram_attachment_wait, ATTACHMENT, ROW_USES_QUEUE, w->attachment, FIXED(w->queue),
          ANY(VRAM_TIMEOUT_DEFAULT));
CALL_WITH_AS(vram_attachment_wait, none, ATTACHMENT, ROW_USES_QUEUE, w->attachment, FIXED(w->queue),
             ANY(0));
CALL_WITH(vram_attachment_end, ATTACHMENT, 0, OR_NULL(w->attachment));

static vram_status submit_nothing(void *user, void *native) {
    (void)user, (void)native;
    return VRAM_OK;
}

CALL_WITH(vram_queue_submit, QUEUE, 0, w->queue, submit_nothing, NULL);

CALL(vram_async_begin, DEVICE, 0) {
    vram_async_work *work;
    vram_status status = TRY(vram_async_begin, w->device, "calls", ANY(0), &w->made.async, &work);
    return status ? status : vram_async_finish(work, VRAM_OK);
}

/* It fails while its device ends, and nobody has given it up. */
CALL(vram_async_finish, DEVICE, 0) {
    vram_async_work *work;
    vram_status status = vram_async_begin(w->device, "calls", 0, &w->made.async, &work);
    return status ? status : TRY(vram_async_finish, work, ANY(VRAM_ERR_BACKEND));
}

CALL_WITH(vram_memory_handle_get, MEMORY, ROW_INVALID, w->memory, OUT(vram_addr), OUT(uint64_t));
CALL_WITH(vram_memory_check, MEMORY, ROW_INVALID, w->device, w->memory, 1);

CALL(vram_host_free_later, DEVICE, 0) {
    void *memory = vram_host_alloc(1, 64);
    vram_status status =
        memory ? TRY(vram_host_free_later, w->device, FIXED(memory)) : VRAM_ERR_HOST_MEMORY;
    if (status != VRAM_OK) {
        vram_host_free(memory);
    }
    return status;
}

/* ------------------------------------------------------------------- of no object */

CALL_WITH(vram_size_parse, CONTEXT, 0, "1K", OUT(uint64_t));

CALL(vram_option_get, CONTEXT, 0) {
    char text[64];
    return TRY(vram_option_get, "wait_timeout", OR_NULL(text), ANY(LENGTH(sizeof text)), NULL);
}

CALL_WITH(vram_option_set, CONTEXT, 0, "oom_wait", FIXED("1ms"));

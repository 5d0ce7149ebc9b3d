/* SPDX-License-Identifier: Apache-2.0 */
/* race_rows_extension.c: what libraries on top of libvram call, beside the ends of what they
   use. */
#include "race/race_table.h"

ROW(vram_pool_attach, POOL, 0) {
    return vram_pool_attach(w->pool, race_ignore_end, NULL, NULL, &w->made.attachment);
}

ROW(vram_attachment_wait, ATTACHMENT, ROW_USES_QUEUE) {
    return vram_attachment_wait(w->attachment, w->queue, VRAM_TIMEOUT_DEFAULT);
}

ROW_AS(vram_attachment_wait, _none, ATTACHMENT, ROW_USES_QUEUE) {
    return vram_attachment_wait(w->attachment, w->queue, 0);
}

ROW(vram_attachment_end, ATTACHMENT, 0) {
    return vram_attachment_end(w->attachment);
}

static vram_status submit_nothing(void *user, void *native) {
    (void)user, (void)native;
    return VRAM_OK;
}

ROW(vram_queue_submit, QUEUE, 0) {
    return vram_queue_submit(w->queue, submit_nothing, NULL);
}

ROW(vram_async_begin, DEVICE, 0) {
    vram_async_work *work;
    vram_status status = vram_async_begin(w->device, "race", 0, &w->made.async, &work);
    return status ? status : vram_async_finish(work, VRAM_OK);
}

/* It fails while its device ends, and nobody has given it up. */
ROW(vram_async_finish, DEVICE, 0) {
    vram_async_work *work;
    vram_status status = vram_async_begin(w->device, "race", 0, &w->made.async, &work);
    return status ? status : vram_async_finish(work, VRAM_ERR_BACKEND);
}

ROW(vram_memory_handle_get, MEMORY, ROW_INVALID) {
    vram_addr base;
    uint64_t bytes;
    return vram_memory_handle_get(w->memory, &base, &bytes);
}

ROW(vram_memory_check, MEMORY, ROW_INVALID) {
    return vram_memory_check(w->device, w->memory, 1);
}

ROW(vram_host_free_later, DEVICE, 0) {
    void *memory = vram_host_alloc(1, 64);
    vram_status status = memory ? vram_host_free_later(w->device, memory) : VRAM_ERR_HOST_MEMORY;
    if (status != VRAM_OK) {
        vram_host_free(memory);
    }
    return status;
}

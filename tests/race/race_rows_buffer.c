/* SPDX-License-Identifier: Apache-2.0 */
/* race_rows_buffer.c: buffers, scopes, batches and named buffers beside the ends of what they
   belong to. */
#include "race/race_table.h"
#include "trims.h"

/* ---------------------------------------------------------------------- buffers */

ROW(vram_buffer_create, POOL, ROW_USES_QUEUE) {
    return vram_buffer_create(w->pool, COPY_BYTES, w->queue, NULL, &w->made.buffer);
}

ROW_AS(vram_buffer_create, _pinned, POOL, ROW_USES_QUEUE) {
    vram_buffer_options options = {.size = sizeof options, .kind = VRAM_BUFFER_PINNED};
    return vram_buffer_create(w->pool, COPY_BYTES, w->queue, &options, &w->made.buffer);
}

ROW(vram_buffer_create_elements, POOL, ROW_USES_QUEUE) {
    return vram_buffer_create_elements(w->pool, 100, VRAM_PRECISION_FP32, w->queue, NULL,
                                       &w->made.buffer);
}

ROW(vram_buffer_destroy, BUFFER, 0) {
    return vram_buffer_destroy(w->buffer);
}

ROW_AS(vram_buffer_destroy, _mapped, MAPPED, 0) {
    return vram_buffer_destroy(w->buffer);
}

ROW(vram_buffer_use, BUFFER, 0) {
    return vram_buffer_use(w->buffer, w->other);
}

ROW_AS(vram_buffer_use, _home, BUFFER, 0) {
    return vram_buffer_use(w->buffer, w->queue);
}

ROW(vram_buffer_info_get, BUFFER, 0) {
    LOOK(vram_buffer_info, vram_buffer_info_get(w->buffer, &info));
}

ROW(vram_buffer_addr, BUFFER, 0) {
    vram_addr addr;
    return vram_buffer_addr(w->buffer, &addr);
}

ROW(vram_buffer_host, BUFFER, 0) {
    void *pointer;
    return vram_buffer_host(w->buffer, &pointer);
}

ROW(vram_buffer_span, BUFFER, 0) {
    vram_span span;
    return vram_buffer_span(w->buffer, 0, 1000, &span);
}

ROW(vram_span_addr, BUFFER, 0) {
    vram_addr addr;
    vram_span span = {w->buffer, 0, 1000};
    return vram_span_addr(span, &addr);
}

ROW(vram_span_upload, BUFFER, 0) {
    vram_span span = {w->buffer, 0, COPY_BYTES};
    return vram_span_upload(w->queue, span, w->host);
}

ROW(vram_span_download, BUFFER, 0) {
    vram_span span = {w->buffer, 0, COPY_BYTES};
    return vram_span_download(w->queue, w->host, span);
}

/* On a queue other than the buffer's home, and from the block, whose contents are known. */
ROW_AS(vram_span_download, _wrapped, POOL, ROW_USES_QUEUE | ROW_DOWNLOAD | ROW_INVALID) {
    vram_wrap wrap = {
        .size = sizeof wrap, .kind = VRAM_WRAP_ADDRESS, .address = w->block, .bytes = COPY_BYTES};
    vram_status status = vram_buffer_wrap(w->pool, &wrap, w->other, NULL, &w->made.buffer);
    vram_span span = {w->made.buffer, 0, COPY_BYTES};
    return status ? status : vram_span_download(w->queue, w->host, span);
}

ROW_AS(vram_span_upload, _wrapped, POOL, ROW_USES_QUEUE | ROW_UPLOAD | ROW_INVALID) {
    vram_wrap wrap = {
        .size = sizeof wrap, .kind = VRAM_WRAP_ADDRESS, .address = w->block, .bytes = COPY_BYTES};
    vram_status status = vram_buffer_wrap(w->pool, &wrap, w->other, NULL, &w->made.buffer);
    vram_span span = {w->made.buffer, 0, COPY_BYTES};
    return status ? status : vram_span_upload(w->queue, span, w->host);
}

ROW(vram_buffer_map, BUFFER, 0) {
    void *pointer;
    return vram_buffer_map(w->buffer, 0, COPY_BYTES, VRAM_MAP_READ | VRAM_MAP_WRITE, w->queue,
                           &pointer);
}

ROW(vram_buffer_unmap, MAPPED, 0) {
    return vram_buffer_unmap(w->buffer);
}

static vram_status fallback_made(struct world *w) {
    vram_buffer_options options = {.size = sizeof options, .kind = VRAM_BUFFER_FALLBACK};
    return vram_buffer_create(w->pool, COPY_BYTES, w->queue, &options, &w->made.buffer);
}

ROW(vram_buffer_demote, BUFFER, 0) {
    vram_status status = fallback_made(w);
    return status ? status : vram_buffer_demote(w->made.buffer, w->queue);
}

ROW(vram_buffer_promote, BUFFER, 0) {
    vram_status status = fallback_made(w);
    status = status ? status : vram_buffer_demote(w->made.buffer, w->queue);
    return status ? status : vram_buffer_promote(w->made.buffer, w->queue);
}

ROW(vram_pool_demote, BUFFER, 0) {
    uint64_t bytes;
    return vram_pool_demote(w->pool, 1 << 20, w->queue, &bytes);
}

ROW(vram_pool_promote, BUFFER, 0) {
    uint64_t bytes;
    vram_status status = vram_pool_demote(w->pool, 1 << 20, w->queue, &bytes);
    return status ? status : vram_pool_promote(w->pool, w->queue, &bytes);
}

static vram_status managed_made(struct world *w) {
    vram_buffer_options options = {.size = sizeof options, .kind = VRAM_BUFFER_MANAGED};
    return vram_buffer_create(w->pool, COPY_BYTES, w->queue, &options, &w->made.buffer);
}

ROW(vram_buffer_prefetch, POOL, ROW_USES_QUEUE) {
    vram_status status = managed_made(w);
    return status ? status
                  : vram_buffer_prefetch(w->made.buffer, 0, COPY_BYTES, VRAM_TARGET_OWN, w->queue);
}

ROW(vram_buffer_advise, POOL, ROW_USES_QUEUE) {
    vram_status status = managed_made(w);
    return status ? status
                  : vram_buffer_advise(w->made.buffer, VRAM_ADVICE_PREFER, VRAM_TARGET_HOST);
}

ROW(vram_buffer_wrap, POOL, ROW_USES_QUEUE) {
    vram_wrap wrap = {
        .size = sizeof wrap, .kind = VRAM_WRAP_HOST, .pointer = w->host, .bytes = COPY_BYTES};
    return vram_buffer_wrap(w->pool, &wrap, w->queue, NULL, &w->made.buffer);
}

/* ----------------------------------------------------------------------- growth */

ROW(vram_buffer_growth_set, BUFFER, 0) {
    return vram_buffer_growth_set(w->buffer, NULL);
}

ROW(vram_buffer_growth_get, BUFFER, 0) {
    LOOK(vram_growth_info, vram_buffer_growth_get(w->buffer, &info));
}

ROW(vram_buffer_reserve, BUFFER, 0) {
    return vram_buffer_reserve(w->buffer, 2 * COPY_BYTES, w->queue);
}

ROW_AS(vram_buffer_reserve, _other_queue, BUFFER, 0) {
    return vram_buffer_reserve(w->buffer, 2 * COPY_BYTES, w->other);
}

ROW(vram_buffer_resize, BUFFER, 0) {
    return vram_buffer_resize(w->buffer, 3 * COPY_BYTES, w->queue);
}

ROW(vram_buffer_resize_elements, BUFFER, 0) {
    return vram_buffer_resize_elements(w->buffer, COPY_BYTES / 2, w->queue);
}

ROW(vram_buffer_fit, BUFFER, 0) {
    vram_status status = vram_buffer_resize(w->buffer, 100, w->queue);
    return status ? status : vram_buffer_fit(w->buffer, w->queue);
}

ROW_AS(vram_pool_trim, _buffers, BUFFER, 0) {
    uint64_t bytes;
    vram_status status = vram_buffer_resize(w->buffer, 0, w->queue);
    return status ? status : vram_pool_trim(w->pool, TRIM(.flags = VRAM_TRIM_BUFFERS), &bytes);
}

/* ----------------------------------------------------------------------- scopes */

ROW(vram_scope_begin, SCOPE, 0) {
    return vram_scope_begin(w->pool, w->scope, &w->made.scope);
}

ROW(vram_scope_end, SCOPE, 0) {
    return vram_scope_end(w->scope);
}

ROW(vram_scope_alloc, SCOPE, 0) {
    vram_addr addr;
    return vram_scope_alloc(w->scope, COPY_BYTES, w->queue, &addr);
}

ROW(vram_scope_alloc_with, SCOPE, 0) {
    vram_alloc_options options = {.size = sizeof options, .tag = "tenant"};
    vram_addr addr;
    return vram_scope_alloc_with(w->scope, COPY_BYTES, w->queue, &options, &addr);
}

ROW(vram_scope_free, SCOPE, ROW_INVALID) {
    vram_addr addr;
    vram_status status = vram_scope_alloc(w->scope, COPY_BYTES, w->queue, &addr);
    return status ? status : vram_scope_free(w->scope, addr, w->queue);
}

ROW(vram_scope_take, SCOPE, ROW_INVALID) {
    vram_addr addr;
    vram_status status = vram_scope_alloc(w->scope, COPY_BYTES, w->queue, &addr);
    status = status ? status : vram_scope_take(w->scope, addr);
    if (status == VRAM_OK) {
        w->made.block = addr;
    }
    return status;
}

ROW(vram_scope_give, SCOPE, ROW_INVALID) {
    vram_status status = vram_alloc(w->pool, COPY_BYTES, w->queue, &w->made.block);
    return status ? status : vram_scope_give(w->scope, w->made.block, w->queue);
}

ROW(vram_scope_buffer_create, SCOPE, 0) {
    vram_buffer *buffer;
    return vram_scope_buffer_create(w->scope, COPY_BYTES, w->queue, NULL, &buffer);
}

ROW(vram_scope_buffer_take, SCOPE, ROW_INVALID) {
    vram_buffer *buffer;
    vram_status status = vram_scope_buffer_create(w->scope, COPY_BYTES, w->queue, NULL, &buffer);
    status = status ? status : vram_scope_buffer_take(w->scope, buffer);
    if (status == VRAM_OK) {
        w->made.buffer = buffer;
    }
    return status;
}

ROW(vram_scope_buffer_give, SCOPE, 0) {
    vram_status status = vram_buffer_create(w->pool, COPY_BYTES, w->queue, NULL, &w->made.buffer);
    return status ? status : vram_scope_buffer_give(w->scope, w->made.buffer);
}

ROW(vram_scope_info_get, SCOPE, 0) {
    LOOK(vram_scope_info, vram_scope_info_get(w->scope, &info));
}

/* ---------------------------------------------------------------------- batches */

ROW(vram_batch_create, POOL, ROW_USES_QUEUE) {
    return vram_batch_create(w->pool, w->queue, NULL, &w->made.batch);
}

ROW(vram_batch_destroy, BATCH, 0) {
    return vram_batch_destroy(w->batch);
}

ROW(vram_batch_add, BATCH, 0) {
    vram_batch_item items[] = {
        {.size = sizeof *items, .elements = 1000, .host = w->host, .host_bytes = 1000},
        {.size = sizeof *items, .elements = 1000, .kind = VRAM_BUFFER_PINNED}};
    uint32_t first;
    return vram_batch_add(w->batch, items, 2, &first);
}

ROW(vram_batch_give, BATCH, 0) {
    uint32_t index;
    vram_status status = vram_buffer_create(w->pool, COPY_BYTES, w->queue, NULL, &w->made.buffer);
    return status ? status : vram_batch_give(w->batch, w->made.buffer, &index);
}

ROW(vram_batch_get, BATCH, 0) {
    vram_buffer *buffer;
    return vram_batch_get(w->batch, 0, &buffer);
}

ROW(vram_batch_info_get, BATCH, 0) {
    LOOK(vram_batch_info, vram_batch_info_get(w->batch, &info));
}

/* ---------------------------------------------------------------- named buffers */

ROW(vram_named_create, POOL, ROW_USES_QUEUE) {
    return vram_named_create(w->pool, w->queue, NULL, &w->made.named);
}

ROW(vram_named_destroy, NAMED, 0) {
    return vram_named_destroy(w->named);
}

ROW(vram_named_config_set, NAMED, 0) {
    vram_named_config config = {.size = sizeof config};
    return vram_named_config_set(w->named, "a", &config);
}

ROW(vram_named_add, NAMED, 0) {
    vram_buffer *buffer;
    return vram_named_add(w->named, "b", 1000, NULL, &buffer);
}

ROW(vram_named_get, NAMED, ROW_INVALID) {
    vram_buffer *buffer;
    return vram_named_get(w->named, "a", NULL, &buffer);
}

ROW(vram_named_get_or_create, NAMED, 0) {
    vram_buffer *buffer;
    return vram_named_get_or_create(w->named, "a", 1000, NULL, &buffer);
}

ROW(vram_named_ensure, NAMED, ROW_INVALID) {
    return vram_named_ensure(w->named, "a", 5000, NULL);
}

ROW(vram_named_remove, NAMED, ROW_INVALID) {
    return vram_named_remove(w->named, "a");
}

ROW(vram_named_cleanup, NAMED, 0) {
    uint64_t bytes;
    return vram_named_cleanup(w->named, 0, &bytes);
}

ROW(vram_named_info_get, NAMED, ROW_INVALID) {
    LOOK(vram_named_info, vram_named_info_get(w->named, "a", &info));
}

ROW(vram_named_info_at, NAMED, ROW_INVALID) {
    LOOK(vram_named_info, vram_named_info_at(w->named, 0, &info));
}

ROW(vram_named_stats_get, NAMED, 0) {
    LOOK(vram_named_stats, vram_named_stats_get(w->named, &info));
}

ROW(vram_named_write, NAMED, 0) {
    return vram_named_write(w->named, VRAM_REPORT_JSON, race_ignore_text, NULL);
}

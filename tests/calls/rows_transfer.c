/* SPDX-License-Identifier: Apache-2.0 */
/* rows_transfer.c: transfers, handles of work under way, page-locked memory, stream sets,
   readbacks and feeds. */
#include "calls/call_table.h"
#include "trims.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

/* -------------------------------------------------------------------- transfers */

CALL(vram_transfer_upload, QUEUE, ROW_UPLOAD | ROW_USES_BLOCK | ROW_INVALID | ROW_UNDERWAY) {
    vram_async async = {{0}};
    vram_status status = TRY(vram_transfer_upload, w->queue, w->block, w->host, LENGTH(COPY_BYTES),
                             NULL, OR_NULL(&async));
    w->made.async = async;
    return status;
}

CALL_WITH_AS(vram_transfer_upload, sync, QUEUE,
             ROW_UPLOAD | ROW_USES_BLOCK | ROW_INVALID | ROW_UNDERWAY, w->queue, w->block, w->host,
             LENGTH(COPY_BYTES), SIZED(vram_transfer_options, .strategy = VRAM_TRANSFER_SYNC),
             NULL);
CALL_WITH(vram_transfer_download, QUEUE, ROW_DOWNLOAD | ROW_USES_BLOCK | ROW_INVALID | ROW_UNDERWAY,
          w->queue, w->host, w->block, LENGTH(COPY_BYTES), NULL, OR_NULL(&w->made.async));
CALL_WITH_AS(vram_transfer_download, sync, QUEUE,
             ROW_DOWNLOAD | ROW_USES_BLOCK | ROW_INVALID | ROW_UNDERWAY, w->queue, w->host,
             w->block, LENGTH(COPY_BYTES),
             SIZED(vram_transfer_options, .strategy = VRAM_TRANSFER_SYNC), NULL);

/* From 256 KiB on ordinary memory goes through staging. */
static vram_status staged_make(struct world *w) {
    w->host_bytes = HOST_BYTES;
    memset(w->host, UPLOAD_BYTE, HOST_BYTES);
    vram_status status = vram_alloc(w->pool, HOST_BYTES, w->queue, &w->made.block);
    return status ? status : vram_queue_fill(w->queue, w->made.block, SOURCE_BYTE, 1, HOST_BYTES);
}

CALL_AFTER_AS(vram_transfer_upload, staged, POOL,
              ROW_USES_QUEUE | ROW_INVALID | ROW_PARTIAL | ROW_WHOLE_ONCE, staged_make(w), w->queue,
              w->made.block, w->host, LENGTH(HOST_BYTES), NULL, OR_NULL(&w->made.async));

CALL_AS(vram_transfer_download, staged, POOL,
        ROW_USES_QUEUE | ROW_INVALID | ROW_PARTIAL | ROW_WHOLE_ONCE) {
    vram_status status = staged_make(w);
    status = status ? status
                    : TRY(vram_transfer_download, w->queue, w->host, w->made.block,
                          LENGTH(HOST_BYTES), NULL, OR_NULL(&w->made.async));
    return status ? status : vram_async_wait(&w->made.async, VRAM_TIMEOUT_DEFAULT);
}

CALL_WITH(vram_transfer_copy, QUEUE, ROW_USES_BLOCK | ROW_INVALID | ROW_UNDERWAY, w->queue,
          w->block, w->block + COPY_BYTES / 2, COPY_BYTES / 2, NULL, OR_NULL(&w->made.async));

/* From a device that is no peer: through host memory. */
CALL_AS(vram_transfer_copy, bridged, PEER,
        ROW_USES_QUEUE | ROW_INVALID | ROW_PARTIAL | ROW_CACHES | ROW_WAITS) {
    vram_addr from;
    vram_status status = vram_device_alloc(w->peer, COPY_BYTES, VRAM_MEMORY_DEVICE, &from);
    return status ? status
                  : TRY(vram_transfer_copy, w->queue, w->block, from, COPY_BYTES, NULL,
                        &w->made.async);
}

/* Memory of a peer, and more than one piece through the host. */
CALL_AS(vram_transfer_copy, peer, PEER, ROW_USES_QUEUE | ROW_INVALID | ROW_UNDERWAY) {
    vram_addr from;
    vram_status status = vram_device_peer_enable(w->device, w->peer);
    status = status ? status : vram_device_alloc(w->peer, COPY_BYTES, VRAM_MEMORY_DEVICE, &from);
    return status ? status
                  : TRY(vram_transfer_copy, w->queue, w->block, from, COPY_BYTES, NULL,
                        OR_NULL(&w->made.async));
}

CALL_AS(vram_transfer_copy, bridged_in_pieces, PEER,
        ROW_USES_QUEUE | ROW_INVALID | ROW_PARTIAL | ROW_CACHES | ROW_WAITS) {
    const uint64_t bytes = (4 << 20) + (24 << 10);
    vram_addr from;
    vram_status status = vram_device_alloc(w->peer, bytes, VRAM_MEMORY_DEVICE, &from);
    status =
        status ? status : vram_device_alloc(w->device, bytes, VRAM_MEMORY_DEVICE, &w->made.memory);
    return status ? status
                  : TRY(vram_transfer_copy, w->queue, w->made.memory, from, bytes, NULL,
                        &w->made.async);
}

CALL_WITH(vram_transfer_fill, QUEUE, ROW_USES_BLOCK | ROW_INVALID | ROW_UNDERWAY, w->queue,
          w->block, ANY(1), ANY(1), COPY_BYTES, NULL, OR_NULL(&w->made.async));

CALL(vram_transfer_batch, QUEUE, ROW_UPLOAD | ROW_USES_BLOCK | ROW_INVALID | ROW_PARTIAL) {
    vram_copy copies[4];
    for (uint64_t i = 0; i < 4; i++) {
        copies[i] = (vram_copy){.to = w->block + i * COPY_BYTES / 4,
                                .from_host = w->host + i * COPY_BYTES / 4,
                                .bytes = COPY_BYTES / 4};
    }
    return TRY(vram_transfer_batch, w->queue, copies, FIXED(4), NULL, OR_NULL(&w->made.async));
}

CALL_AS(vram_transfer_batch, down, QUEUE,
        ROW_DOWNLOAD | ROW_USES_BLOCK | ROW_INVALID | ROW_PARTIAL) {
    vram_copy copies[4];
    for (uint64_t i = 0; i < 4; i++) {
        copies[i] = (vram_copy){.to_host = w->host + i * COPY_BYTES / 4,
                                .from = w->block + i * COPY_BYTES / 4,
                                .bytes = COPY_BYTES / 4};
    }
    return TRY(vram_transfer_batch, w->queue, copies, FIXED(4), NULL, OR_NULL(&w->made.async));
}

CALL(vram_transfer_2d, QUEUE, ROW_USES_BLOCK | ROW_INVALID | ROW_PARTIAL | ROW_CACHES) {
    vram_copy_2d copy = {.first = {.to = w->block, .from_host = w->host},
                         .row_bytes = 100,
                         .rows = 20,
                         .to_pitch = 200,
                         .from_pitch = 300};
    return TRY(vram_transfer_2d, w->queue, &copy, NULL, OR_NULL(&w->made.async));
}

CALL_WITH(vram_transfer_stats_get, DEVICE, 0, w->device, VRAM_TRANSFER_ANY, VRAM_ROUTE_ANY,
          TOLD(vram_transfer_stats));
CALL_WITH(vram_transfer_stats_write, DEVICE, 0, w->device, VRAM_REPORT_JSON, call_ignore_text,
          NULL);

/* ----------------------------------------------------------------- async handles */

CALL_WITH(vram_async_poll, ASYNC, ROW_NOT_READY, &w->async);

CALL(vram_async_is_ready, ASYNC, 0) {
    vram_async_is_ready(&w->async);
    return VRAM_OK;
}

CALL_WITH(vram_async_state_get, ASYNC, 0, &w->async, OUT(vram_async_state));
CALL_WITH(vram_async_wait_any, ASYNC, 0, &w->async, FIXED(1), ANY(VRAM_TIMEOUT_DEFAULT),
          OUT(size_t));

CALL(vram_async_fd_open, ASYNC, 0) {
    struct pollfd wanted = {.fd = -1, .events = POLLIN};
    vram_status status = TRY(vram_async_fd_open, &w->async, FIXED(1), &wanted.fd);
    if (status == VRAM_OK) {
        status = poll(&wanted, 1, 60000) == 1 ? VRAM_OK : VRAM_ERR_TIMEOUT;
        close(wanted.fd);
    }
    return status;
}

CALL_WITH(vram_async_wait, ASYNC, 0, &w->async, ANY(VRAM_TIMEOUT_DEFAULT));
CALL_WITH(vram_async_result_get, ASYNC, ROW_NOT_READY, &w->async, OUT(uint64_t));
CALL_WITH(vram_async_error_get, ASYNC, ROW_NOT_READY, &w->async, OUT(vram_error));

static void on_async(void *user, vram_status status) {
    (void)user, (void)status;
}

CALL_WITH(vram_async_then, ASYNC, 0, &w->async, on_async, NULL);

CALL(vram_async_poll_all, DEVICE, ROW_WALKS) {
    uint64_t pending;
    vram_transfer_fill(w->queue, w->block, 1, 1, COPY_BYTES, NULL, &w->made.async);
    return TRY(vram_async_poll_all, w->device, OR_NULL(&pending));
}

CALL_WITH(vram_async_of_point, POINT, 0, w->point, OR_NULL("work"), &w->made.async);

CALL(vram_async_end, ASYNC, 0) {
    vram_async copy = w->async;
    return TRY(vram_async_end, OR_NULL(&copy));
}

/* ----------------------------------------------------------- page-locked memory */

CALL(vram_pinned_begin, REGISTERED, 0) {
    vram_status status =
        TRY(vram_pinned_begin, w->device, call_registered[0], FIXED(sizeof call_registered[0]));
    w->made.pinned = status == VRAM_OK;
    return status;
}

CALL_AFTER(vram_pinned_end, REGISTERED, ROW_INVALID,
           vram_pinned_begin(w->device, call_registered[0], sizeof call_registered[0]), w->device,
           call_registered[0], sizeof call_registered[0]);
CALL_WITH(vram_pinned_forget, REGISTERED, 0, w->device, call_registered,
          ANY(sizeof call_registered));
CALL_WITH(vram_pinned_info_get, REGISTERED, 0, w->device, TOLD(vram_pinned_info));
CALL_WITH_AS(vram_device_trim, pinned, REGISTERED, 0, w->device, TRIM(.flags = VRAM_TRIM_PINNED),
             OR_NULL(OUT(uint64_t)));

/* ------------------------------------------------------------------ stream sets */

CALL_WITH(vram_stream_set_create, DEVICE, 0, w->device, NULL, &w->made.set);
CALL_WITH_AS(vram_stream_set_create, options, DEVICE, 0, w->device, PLAIN(vram_stream_set_options),
             &w->made.set);
CALL_WITH(vram_stream_set_destroy, STREAM_SET, 0, OR_NULL(w->set));
CALL_WITH(vram_stream_set_get, STREAM_SET, 0, w->set, 0, OUT(vram_queue *));
CALL_WITH(vram_stream_set_find, STREAM_SET, 0, w->set, "memory", OUT(vram_queue *));
CALL_WITH(vram_stream_set_next, STREAM_SET, 0, w->set, OUT(vram_queue *));
CALL_WITH(vram_stream_set_transfer, STREAM_SET, 0, w->set, OUT(vram_queue *));
CALL_WITH(vram_stream_info_get, STREAM_SET, 0, w->set, 0, TOLD(vram_stream_info));
CALL_WITH(vram_stream_set_poll, STREAM_SET, ROW_NOT_READY, w->set);
CALL_WITH(vram_stream_set_wait, STREAM_SET, 0, w->set, ANY(VRAM_TIMEOUT_DEFAULT));
CALL_WITH(vram_stream_set_mark, STREAM_SET, 0, w->set, &w->point);
CALL_WITH(vram_stream_set_sync, STREAM_SET, 0, w->set, &w->made.async);
CALL_WITH(vram_stream_set_order, STREAM_SET, 0, w->set, 0, 1);

CALL(vram_stream_set_after, STREAM_SET, ROW_USES_QUEUE) {
    vram_point point = {0};
    vram_queue_mark(w->queue, &point);
    return TRY(vram_stream_set_after, w->set, point);
}

CALL_WITH(vram_stream_set_barrier, STREAM_SET, 0, w->set);

/* -------------------------------------------------------------------- readbacks */

CALL_WITH(vram_readback_create, DEVICE, 0, w->device, NULL, &w->made.readback);

/* With memory that is taken at once. */
CALL_WITH_AS(vram_readback_create, slots, DEVICE, ROW_CHOOSES | ROW_LOSES, w->device,
             SIZED(vram_readback_options, .slots = 3, .bytes = 24 << 10), &w->made.readback);
CALL_WITH(vram_readback_destroy, READBACK, 0, OR_NULL(w->readback));
CALL_WITH(vram_readback_start, READBACK, ROW_INVALID | ROW_UNDERWAY, w->readback, OR_NULL(w->queue),
          w->block, 4096, OR_NULL(OUT(uint64_t)));

CALL(vram_readback_start_spans, READBACK, ROW_UNDERWAY) {
    uint64_t number;
    vram_status status = vram_buffer_create(w->pool, COPY_BYTES, w->queue, NULL, &w->made.buffer);
    vram_span span = {w->made.buffer, 0, 4096};
    return status ? status
                  : TRY(vram_readback_start_spans, w->readback, OR_NULL(w->queue), &span, FIXED(1),
                        OR_NULL(&number));
}

CALL_WITH(vram_readback_poll, READBACK, ROW_NOT_READY, w->readback, 1);
CALL_WITH(vram_readback_wait, READBACK, 0, w->readback, 1, ANY(VRAM_TIMEOUT_DEFAULT));
CALL_WITH(vram_readback_point, READBACK, 0, w->readback, 1, OUT(vram_point));
CALL_WITH(vram_readback_async, READBACK, 0, w->readback, 1, &w->made.async);

CALL(vram_readback_latest, READBACK, ROW_NOT_READY) {
    vram_frame frame;
    vram_status status = TRY(vram_readback_latest, w->readback, &frame);
    if (status == VRAM_OK) {
        vram_readback_release(w->readback, frame.number);
    }
    return status;
}

CALL_WITH(vram_readback_next, READBACK, 0, w->readback, ANY(VRAM_TIMEOUT_DEFAULT), OUT(vram_frame));
CALL_WITH(vram_readback_release, FRAME, ROW_INVALID, w->readback, w->frame.number);
CALL_WITH(vram_readback_stats_get, READBACK, 0, w->readback, TOLD(vram_readback_stats));

/* ------------------------------------------------------------------------ feeds */

CALL_WITH(vram_feed_create, DEVICE, 0, w->device, NULL, &w->made.feed);
CALL_WITH_AS(vram_feed_create, slots, DEVICE, ROW_CHOOSES | ROW_LOSES, w->device,
             SIZED(vram_feed_options, .slots = 3, .bytes = 24 << 10), &w->made.feed);
CALL_WITH(vram_feed_destroy, FEED, 0, OR_NULL(w->feed));
CALL_WITH(vram_feed_begin, FEED, 0, w->feed, 4096, ANY(VRAM_TIMEOUT_DEFAULT), OUT(vram_feed_block));
CALL_WITH(vram_feed_submit, FEED_BLOCK, ROW_INVALID | ROW_PARTIAL, w->feed, w->queue, w->block,
          w->feed_block.number, 4096, OR_NULL(&w->made.async));
CALL_WITH(vram_feed_release, FEED_BLOCK, ROW_INVALID, w->feed, w->feed_block.number);
CALL_WITH(vram_feed_stats_get, FEED, 0, w->feed, TOLD(vram_feed_stats));

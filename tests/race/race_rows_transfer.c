/* SPDX-License-Identifier: Apache-2.0 */
/* race_rows_transfer.c: transfers, handles of work under way, page-locked memory, stream sets,
   readbacks and feeds. */
#include "race/race_table.h"
#include "trims.h"

#include <poll.h>
#include <unistd.h>

/* -------------------------------------------------------------------- transfers */

ROW(vram_transfer_upload, QUEUE, ROW_UPLOAD | ROW_USES_BLOCK | ROW_INVALID) {
    vram_async async = {{0}};
    vram_status status =
        vram_transfer_upload(w->queue, w->block, w->host, COPY_BYTES, NULL, &async);
    w->made.async = async;
    return status;
}

ROW_AS(vram_transfer_upload, _sync, QUEUE, ROW_UPLOAD | ROW_USES_BLOCK | ROW_INVALID) {
    vram_transfer_options options = {.size = sizeof options, .strategy = VRAM_TRANSFER_SYNC};
    return vram_transfer_upload(w->queue, w->block, w->host, COPY_BYTES, &options, NULL);
}

ROW(vram_transfer_download, QUEUE, ROW_DOWNLOAD | ROW_USES_BLOCK | ROW_INVALID) {
    return vram_transfer_download(w->queue, w->host, w->block, COPY_BYTES, NULL, &w->made.async);
}

ROW_AS(vram_transfer_download, _sync, QUEUE, ROW_DOWNLOAD | ROW_USES_BLOCK | ROW_INVALID) {
    vram_transfer_options options = {.size = sizeof options, .strategy = VRAM_TRANSFER_SYNC};
    return vram_transfer_download(w->queue, w->host, w->block, COPY_BYTES, &options, NULL);
}

/* From 256 KiB on ordinary memory goes through staging. */
enum { STAGED_BYTES = 512 << 10 };
static unsigned char staged[STAGED_BYTES];

ROW_AS(vram_transfer_upload, _staged, POOL, ROW_USES_QUEUE | ROW_INVALID) {
    vram_status status = vram_alloc(w->pool, STAGED_BYTES, w->queue, &w->made.block);
    return status ? status
                  : vram_transfer_upload(w->queue, w->made.block, staged, STAGED_BYTES, NULL,
                                         &w->made.async);
}

ROW_AS(vram_transfer_download, _staged, POOL, ROW_USES_QUEUE | ROW_INVALID) {
    vram_status status = vram_alloc(w->pool, STAGED_BYTES, w->queue, &w->made.block);
    status = status ? status
                    : vram_transfer_download(w->queue, staged, w->made.block, STAGED_BYTES, NULL,
                                             &w->made.async);
    return status ? status : vram_async_wait(&w->made.async, VRAM_TIMEOUT_DEFAULT);
}

ROW(vram_transfer_copy, QUEUE, ROW_USES_BLOCK | ROW_INVALID) {
    return vram_transfer_copy(w->queue, w->block, w->block + COPY_BYTES / 2, COPY_BYTES / 2, NULL,
                              &w->made.async);
}

/* From a device that is no peer: through host memory. */
ROW_AS(vram_transfer_copy, _bridged, PEER, ROW_USES_QUEUE | ROW_INVALID) {
    vram_addr from;
    vram_status status = vram_device_alloc(w->peer, COPY_BYTES, VRAM_MEMORY_DEVICE, &from);
    return status ? status
                  : vram_transfer_copy(w->queue, w->block, from, COPY_BYTES, NULL, &w->made.async);
}

ROW(vram_transfer_fill, QUEUE, ROW_USES_BLOCK | ROW_INVALID) {
    return vram_transfer_fill(w->queue, w->block, 1, 1, COPY_BYTES, NULL, &w->made.async);
}

ROW(vram_transfer_batch, QUEUE, ROW_UPLOAD | ROW_USES_BLOCK | ROW_INVALID) {
    vram_copy copies[4];
    for (uint64_t i = 0; i < 4; i++) {
        copies[i] = (vram_copy){.to = w->block + i * COPY_BYTES / 4,
                                .from_host = w->host + i * COPY_BYTES / 4,
                                .bytes = COPY_BYTES / 4};
    }
    return vram_transfer_batch(w->queue, copies, 4, NULL, &w->made.async);
}

ROW_AS(vram_transfer_batch, _down, QUEUE, ROW_DOWNLOAD | ROW_USES_BLOCK | ROW_INVALID) {
    vram_copy copies[4];
    for (uint64_t i = 0; i < 4; i++) {
        copies[i] = (vram_copy){.to_host = w->host + i * COPY_BYTES / 4,
                                .from = w->block + i * COPY_BYTES / 4,
                                .bytes = COPY_BYTES / 4};
    }
    return vram_transfer_batch(w->queue, copies, 4, NULL, &w->made.async);
}

ROW(vram_transfer_2d, QUEUE, ROW_USES_BLOCK | ROW_INVALID) {
    vram_copy_2d copy = {.first = {.to = w->block, .from_host = w->host},
                         .row_bytes = 100,
                         .rows = 20,
                         .to_pitch = 200,
                         .from_pitch = 300};
    return vram_transfer_2d(w->queue, &copy, NULL, &w->made.async);
}

ROW(vram_transfer_stats_get, DEVICE, 0) {
    LOOK(vram_transfer_stats,
         vram_transfer_stats_get(w->device, VRAM_TRANSFER_ANY, VRAM_ROUTE_ANY, &info));
}

ROW(vram_transfer_stats_write, DEVICE, 0) {
    return vram_transfer_stats_write(w->device, VRAM_REPORT_JSON, race_ignore_text, NULL);
}

/* ----------------------------------------------------------------- async handles */

ROW(vram_async_poll, ASYNC, ROW_NOT_READY) {
    return vram_async_poll(&w->async);
}

ROW(vram_async_is_ready, ASYNC, 0) {
    vram_async_is_ready(&w->async);
    return VRAM_OK;
}

ROW(vram_async_state_get, ASYNC, 0) {
    vram_async_state state;
    return vram_async_state_get(&w->async, &state);
}

ROW(vram_async_wait_any, ASYNC, 0) {
    size_t index;
    return vram_async_wait_any(&w->async, 1, VRAM_TIMEOUT_DEFAULT, &index);
}

ROW(vram_async_fd_open, ASYNC, 0) {
    struct pollfd wanted = {.fd = -1, .events = POLLIN};
    vram_status status = vram_async_fd_open(&w->async, 1, &wanted.fd);
    if (status == VRAM_OK) {
        status = poll(&wanted, 1, 60000) == 1 ? VRAM_OK : VRAM_ERR_TIMEOUT;
        close(wanted.fd);
    }
    return status;
}

ROW(vram_async_wait, ASYNC, 0) {
    return vram_async_wait(&w->async, VRAM_TIMEOUT_DEFAULT);
}

ROW(vram_async_result_get, ASYNC, ROW_NOT_READY) {
    uint64_t result;
    return vram_async_result_get(&w->async, &result);
}

ROW(vram_async_error_get, ASYNC, ROW_NOT_READY) {
    vram_error error;
    return vram_async_error_get(&w->async, &error);
}

static void on_async(void *user, vram_status status) {
    (void)user, (void)status;
}

ROW(vram_async_then, ASYNC, 0) {
    return vram_async_then(&w->async, on_async, NULL);
}

ROW(vram_async_poll_all, DEVICE, ROW_WALKS) {
    uint64_t pending;
    vram_transfer_fill(w->queue, w->block, 1, 1, COPY_BYTES, NULL, &w->made.async);
    return vram_async_poll_all(w->device, &pending);
}

ROW(vram_async_of_point, POINT, 0) {
    return vram_async_of_point(w->point, "work", &w->made.async);
}

ROW(vram_async_end, ASYNC, 0) {
    vram_async copy = w->async;
    return vram_async_end(&copy);
}

/* ----------------------------------------------------------- page-locked memory */

ROW(vram_pinned_begin, REGISTERED, 0) {
    vram_status status =
        vram_pinned_begin(w->device, race_registered[0], sizeof race_registered[0]);
    w->made.pinned = status == VRAM_OK;
    return status;
}

ROW(vram_pinned_end, REGISTERED, ROW_INVALID) {
    vram_status status =
        vram_pinned_begin(w->device, race_registered[0], sizeof race_registered[0]);
    return status ? status
                  : vram_pinned_end(w->device, race_registered[0], sizeof race_registered[0]);
}

ROW(vram_pinned_forget, REGISTERED, 0) {
    return vram_pinned_forget(w->device, race_registered, sizeof race_registered);
}

ROW(vram_pinned_info_get, REGISTERED, 0) {
    LOOK(vram_pinned_info, vram_pinned_info_get(w->device, &info));
}

ROW_AS(vram_device_trim, _pinned, REGISTERED, 0) {
    uint64_t released;
    return vram_device_trim(w->device, TRIM(.flags = VRAM_TRIM_PINNED), &released);
}

/* ------------------------------------------------------------------ stream sets */

ROW(vram_stream_set_create, DEVICE, 0) {
    return vram_stream_set_create(w->device, NULL, &w->made.set);
}

ROW(vram_stream_set_destroy, STREAM_SET, 0) {
    return vram_stream_set_destroy(w->set);
}

ROW(vram_stream_set_get, STREAM_SET, 0) {
    vram_queue *queue;
    return vram_stream_set_get(w->set, 0, &queue);
}

ROW(vram_stream_set_find, STREAM_SET, 0) {
    vram_queue *queue;
    return vram_stream_set_find(w->set, "memory", &queue);
}

ROW(vram_stream_set_next, STREAM_SET, 0) {
    vram_queue *queue;
    return vram_stream_set_next(w->set, &queue);
}

ROW(vram_stream_set_transfer, STREAM_SET, 0) {
    vram_queue *queue;
    return vram_stream_set_transfer(w->set, &queue);
}

ROW(vram_stream_info_get, STREAM_SET, 0) {
    LOOK(vram_stream_info, vram_stream_info_get(w->set, 0, &info));
}

ROW(vram_stream_set_poll, STREAM_SET, ROW_NOT_READY) {
    return vram_stream_set_poll(w->set);
}

ROW(vram_stream_set_wait, STREAM_SET, 0) {
    return vram_stream_set_wait(w->set, VRAM_TIMEOUT_DEFAULT);
}

ROW(vram_stream_set_mark, STREAM_SET, 0) {
    return vram_stream_set_mark(w->set, &w->point);
}

ROW(vram_stream_set_sync, STREAM_SET, 0) {
    return vram_stream_set_sync(w->set, &w->made.async);
}

ROW(vram_stream_set_order, STREAM_SET, 0) {
    return vram_stream_set_order(w->set, 0, 1);
}

ROW(vram_stream_set_after, STREAM_SET, ROW_USES_QUEUE) {
    vram_point point = {0};
    vram_queue_mark(w->queue, &point);
    return vram_stream_set_after(w->set, point);
}

ROW(vram_stream_set_barrier, STREAM_SET, 0) {
    return vram_stream_set_barrier(w->set);
}

/* -------------------------------------------------------------------- readbacks */

ROW(vram_readback_create, DEVICE, 0) {
    return vram_readback_create(w->device, NULL, &w->made.readback);
}

ROW(vram_readback_destroy, READBACK, 0) {
    return vram_readback_destroy(w->readback);
}

ROW(vram_readback_start, READBACK, ROW_INVALID) {
    uint64_t number;
    return vram_readback_start(w->readback, w->queue, w->block, 4096, &number);
}

ROW(vram_readback_start_spans, READBACK, 0) {
    uint64_t number;
    vram_status status = vram_buffer_create(w->pool, COPY_BYTES, w->queue, NULL, &w->made.buffer);
    vram_span span = {w->made.buffer, 0, 4096};
    return status ? status : vram_readback_start_spans(w->readback, w->queue, &span, 1, &number);
}

ROW(vram_readback_poll, READBACK, ROW_NOT_READY) {
    return vram_readback_poll(w->readback, 1);
}

ROW(vram_readback_wait, READBACK, 0) {
    return vram_readback_wait(w->readback, 1, VRAM_TIMEOUT_DEFAULT);
}

ROW(vram_readback_point, READBACK, 0) {
    vram_point point;
    return vram_readback_point(w->readback, 1, &point);
}

ROW(vram_readback_async, READBACK, 0) {
    return vram_readback_async(w->readback, 1, &w->made.async);
}

ROW(vram_readback_latest, READBACK, ROW_NOT_READY) {
    vram_frame frame;
    vram_status status = vram_readback_latest(w->readback, &frame);
    if (status == VRAM_OK) {
        vram_readback_release(w->readback, frame.number);
    }
    return status;
}

ROW(vram_readback_next, READBACK, 0) {
    vram_frame frame;
    return vram_readback_next(w->readback, VRAM_TIMEOUT_DEFAULT, &frame);
}

ROW(vram_readback_release, FRAME, ROW_INVALID) {
    return vram_readback_release(w->readback, w->frame.number);
}

ROW(vram_readback_stats_get, READBACK, 0) {
    LOOK(vram_readback_stats, vram_readback_stats_get(w->readback, &info));
}

/* ------------------------------------------------------------------------ feeds */

ROW(vram_feed_create, DEVICE, 0) {
    return vram_feed_create(w->device, NULL, &w->made.feed);
}

ROW(vram_feed_destroy, FEED, 0) {
    return vram_feed_destroy(w->feed);
}

ROW(vram_feed_begin, FEED, 0) {
    vram_feed_block block;
    return vram_feed_begin(w->feed, 4096, VRAM_TIMEOUT_DEFAULT, &block);
}

ROW(vram_feed_submit, FEED_BLOCK, ROW_INVALID) {
    return vram_feed_submit(w->feed, w->queue, w->block, w->feed_block.number, 4096,
                            &w->made.async);
}

ROW(vram_feed_release, FEED_BLOCK, ROW_INVALID) {
    return vram_feed_release(w->feed, w->feed_block.number);
}

ROW(vram_feed_stats_get, FEED, 0) {
    LOOK(vram_feed_stats, vram_feed_stats_get(w->feed, &info));
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_ring.c: rings with messages under way: none is lost, doubled or out of order. The row itself
 * is the kernel, on memory that the host may touch.
 */
#include "calls/call_table.h"
#include "vram/ring_device.h"

#include <string.h>

enum { CAPACITY = 4, NOTE_BYTES = 48 };
#define LONG UINT64_C(1000000000) /* ns */

static struct {
    vram_ring_peer peer;
    uint64_t taken, given; /* messages of the input, and of the output */
} kernel;

static unsigned char *note(struct world *w, uint64_t number) {
    return memset(w->host + number % 8 * NOTE_BYTES, (int)number + 1, NOTE_BYTES);
}

static vram_status note_send(struct world *w, uint64_t number) {
    return vram_ring_send(w->ring, note(w, number), NOTE_BYTES, (uint32_t)number, 0);
}

static bool is_note(const unsigned char *found, uint32_t bytes, uint64_t number, bool out) {
    return bytes == NOTE_BYTES && found[0] == (unsigned char)(number + (out ? 1 : 101)) &&
           memcmp(found, found + 1, NOTE_BYTES - 1) == 0;
}

static bool kernel_takes(uint64_t count) {
    for (; count; count--) {
        uint32_t bytes;
        const void *message = vram_ring_peer_take(&kernel.peer, &bytes);
        if (!message || !is_note(message, bytes, kernel.taken++, true)) {
            return false;
        }
        vram_ring_peer_done(&kernel.peer);
    }
    return true;
}

static bool kernel_gives(uint64_t count) {
    for (; count; count--) {
        void *message = vram_ring_peer_room(&kernel.peer);
        if (!message) {
            return false;
        }
        memset(message, (int)(kernel.given++ + 101), NOTE_BYTES);
        vram_ring_peer_publish(&kernel.peer, NOTE_BYTES, 0);
    }
    return true;
}

/* The kernel has taken two messages and given two, which the host does not know yet: the input
   seems full. Here the host is the kernel, where it can touch the device's memory. */
static vram_status used_ring(struct world *w, vram_ring_strategy strategy) {
    if (strcmp(w->backend, "cuda") == 0) {
        return VRAM_ERR_UNSUPPORTED;
    }
    vram_ring_options options = {.size = sizeof options,
                                 .strategy = strategy,
                                 .flags = VRAM_RING_CRC,
                                 .input_capacity = CAPACITY,
                                 .output_capacity = CAPACITY,
                                 .message_bytes = NOTE_BYTES,
                                 .queue = w->queue};
    vram_ring_info info = {.size = sizeof info};
    memset(&kernel, 0, sizeof kernel);
    vram_status status = vram_ring_create(w->pool, &options, &w->ring);
    status = status ? status : vram_ring_info_get(w->ring, &info);
    status = status ? status : vram_queue_wait(w->queue, VRAM_TIMEOUT_DEFAULT);
    if (status) {
        return status;
    }
    bool fine =
        vram_ring_peer_open((vram_ring_control *)(uintptr_t)info.control, &kernel.peer) == 0 &&
        note_send(w, 0) == VRAM_OK && note_send(w, 1) == VRAM_OK &&
        vram_ring_flush(w->ring, NULL, NULL) == VRAM_OK;
    world_drain(w);
    fine = fine && kernel_takes(2) && kernel_gives(2) && note_send(w, 2) == VRAM_OK &&
           note_send(w, 3) == VRAM_OK;
    return fine ? VRAM_OK : VRAM_ERR_CORRUPT;
}

/* It has taken all, and has ended. */
static vram_status ended_ring(struct world *w) {
    vram_status status = used_ring(w, VRAM_RING_SYNC);
    status = status ? status : vram_ring_flush(w->ring, NULL, NULL);
    if (status) {
        return status;
    }
    world_drain(w);
    bool fine = kernel_takes(2);
    vram_ring_peer_end(&kernel.peer, VRAM_RING_DONE);
    return fine ? VRAM_OK : VRAM_ERR_CORRUPT;
}

/* All that was sent arrives and all that was given is received, once and in order; then there is
   nothing more. */
static bool all_arrives(struct world *w) {
    vram_ring_stats stats = {.size = sizeof stats};
    unsigned char found[NOTE_BYTES];
    vram_ring_slot header;
    uint32_t bytes;
    if (vram_ring_stats_get(w->ring, &stats) || vram_ring_flush(w->ring, NULL, NULL)) {
        return false;
    }
    world_drain(w);
    if (!kernel_takes(stats.sent - kernel.taken) || vram_ring_peer_take(&kernel.peer, &bytes) ||
        vram_ring_drain(w->ring, LONG)) {
        return false;
    }
    for (uint64_t i = stats.received; i < kernel.given; i++) {
        if (vram_ring_receive(w->ring, found, sizeof found, LONG, &header) ||
            !is_note(found, header.bytes, i, false)) {
            return false;
        }
    }
    return vram_ring_receive(w->ring, found, sizeof found, 0, NULL) == VRAM_ERR_NOT_READY &&
           vram_ring_check(w->ring) == VRAM_OK;
}

/* The call on a ring in use; what is under way arrives afterwards. */
#define USED(make, call, ...)                                                                      \
    vram_status status = make;                                                                     \
    status = status ? status : TRY(call, w->ring, __VA_ARGS__);                                    \
    return status || all_arrives(w) ? status : VRAM_ERR_CORRUPT

CALL_AS(vram_ring_send, used, POOL, ROW_ALONE) {
    USED(used_ring(w, VRAM_RING_SYNC), vram_ring_send, note(w, 4), LENGTH(NOTE_BYTES), ANY(4),
         FIXED(LONG));
}

CALL_AS(vram_ring_send, used_async, POOL, ROW_ALONE) {
    USED(used_ring(w, VRAM_RING_ASYNC), vram_ring_send, note(w, 4), LENGTH(NOTE_BYTES), ANY(4),
         FIXED(LONG));
}

/* Of several those that the ring has not yet. */
static vram_status send_rest(struct world *w, const vram_ring_message *messages, uint64_t *sent) {
    uint64_t more = 0;
    vram_status status = vram_ring_send_many(w->ring, messages + *sent, 2 - *sent, LONG, &more);
    *sent += more;
    return status;
}

CALL_AS(vram_ring_send_many, used, POOL, ROW_ALONE | ROW_PARTIAL) {
    const vram_ring_message messages[] = {{.data = note(w, 4), .bytes = NOTE_BYTES},
                                          {.data = note(w, 5), .bytes = NOTE_BYTES}};
    uint64_t sent = 0;
    vram_status status = used_ring(w, VRAM_RING_SYNC);
    status = status ? status : TRY(send_rest, FIXED(w), messages, FIXED(&sent));
    return status || all_arrives(w) ? status : VRAM_ERR_CORRUPT;
}

CALL_AS(vram_ring_flush, used, POOL, ROW_ALONE | ROW_PARTIAL) {
    USED(used_ring(w, VRAM_RING_SYNC), vram_ring_flush, NULL, NULL);
}

CALL_AS(vram_ring_flush, used_async, POOL, ROW_ALONE | ROW_PARTIAL) {
    USED(used_ring(w, VRAM_RING_ASYNC), vram_ring_flush, NULL, OR_NULL(&w->made.async));
}

CALL_AS(vram_ring_fetch, used, POOL, ROW_ALONE | ROW_PARTIAL) {
    USED(used_ring(w, VRAM_RING_SYNC), vram_ring_fetch, NULL, NULL);
}

CALL_AS(vram_ring_fetch, used_async, POOL, ROW_ALONE) {
    USED(used_ring(w, VRAM_RING_ASYNC), vram_ring_fetch, NULL, NULL);
}

static vram_status receive_first(struct world *w, vram_ring_strategy strategy) {
    vram_ring_slot header = {0};
    vram_status status = used_ring(w, strategy);
    status = status ? status
                    : TRY(vram_ring_receive, w->ring, w->host, FIXED(COPY_BYTES), FIXED(LONG),
                          FIXED(&header));
    return status || (is_note(w->host, header.bytes, 0, false) && all_arrives(w))
               ? status
               : VRAM_ERR_CORRUPT;
}

CALL_AS(vram_ring_receive, used, POOL, ROW_ALONE) {
    return receive_first(w, VRAM_RING_SYNC);
}

CALL_AS(vram_ring_receive, used_async, POOL, ROW_ALONE) {
    return receive_first(w, VRAM_RING_ASYNC);
}

CALL_AS(vram_ring_drain, ended, POOL, ROW_ALONE) {
    USED(ended_ring(w), vram_ring_drain, FIXED(LONG));
}

CALL_AS(vram_ring_join, ended, POOL, ROW_ALONE) {
    USED(ended_ring(w), vram_ring_join, FIXED(LONG));
}

CALL_AS(vram_ring_telemetry_get, ended, POOL, ROW_ALONE) {
    vram_ring_telemetry telemetry;
    USED(ended_ring(w), vram_ring_telemetry_get, &telemetry);
}

CALL_AFTER_AS(vram_ring_destroy, used, POOL, ROW_ALONE | ROW_NEVER_FAILS,
              used_ring(w, VRAM_RING_SYNC), OR_NULL(w->ring));

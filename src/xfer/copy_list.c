/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_list.c: many copies in one call, and rectangles, which are lists of rows.
 *
 *  (1) All copies are checked before the first is submitted: each side by itself, then the ranges
 *      that are written against each other and against those that are read.
 *  (2) Pieces are sorted by destination, so that the neighbour of a piece is the next one. Pieces
 *      that are adjacent on both sides become one.
 *  (3) A run of small uploads with adjacent destinations is gathered in a block of page-locked
 *      memory and sent as one copy. The block is allocated without a queue, since the host writes
 *      it at once, and is freed in the order of the queue, behind the copy.
 *  (4) Small pieces that are not adjacent are copied together by one launch of the kernel of
 *      scatter.h, where there is one: pieces whose two sides the device can access, and uploads,
 *      gathered as in (3).
 *  (5) Pieces that cannot be gathered, because no memory can be page-locked, are sent one by one.
 *  (6) A rectangle is one driver operation where the driver has one for such rows, else a list of
 *      its rows. Small rows use (4) where possible: drivers copy them one by one, too. Rows to
 *      ordinary memory do not: there the driver's operation was 5 to 700 times as fast on an H200.
 */
#include "vram/transfer.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/size.h"
#include "core/pool/pool_calls.h"
#include "device/ops.h"
#include "xfer/flight.h"
#include "xfer/scatter.h"
#include "xfer/submission.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS_AT_ONCE = 65536 }; /* rows of a rectangle that are made into pieces at a time */

#define GATHER_PIECE (UINT64_C(64) * VR_KIB) /* the largest piece that is worth a host copy */
#define GATHER_BLOCK (UINT64_C(4) * VR_MIB)  /* the most that is gathered into one block */

enum {
    SCATTER_LEAST = 16, /* the fewest pieces that are worth a launch */
    SCATTER_MOST = 16384
};

struct list_piece {
    uint64_t to, from; /* addresses, or host pointers */
    uint64_t bytes;
    uint16_t way;     /* enum vr_way */
    uint16_t reached; /* the device can access both sides */
    uint32_t index;   /* in the caller's list, for errors */
};

/* ------------------------------------------------------------------ checking */

static int by_destination(const void *a, const void *b) {
    const struct list_piece *left = a, *right = b;
    return left->to < right->to ? -1 : left->to > right->to;
}

/* Keeps (2). Lists are mostly sorted already. */
static void sort_pieces(struct list_piece *pieces, size_t count) {
    for (size_t i = 1; i < count; i++) {
        if (pieces[i].to < pieces[i - 1].to) {
            qsort(pieces, count, sizeof *pieces, by_destination);
            return;
        }
    }
}

/* Whether any destination overlaps [from, from + bytes). Destinations are sorted and disjoint. */
static bool is_written(const struct list_piece *pieces, size_t count, uint64_t from,
                       uint64_t bytes) {
    size_t low = 0, high = count;
    while (low < high) { /* the first that ends behind `from` */
        size_t middle = low + (high - low) / 2;
        if (pieces[middle].to + (pieces[middle].bytes - 1) < from) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && vr_overlap(pieces[low].to, pieces[low].bytes, from, bytes);
}

/* Keeps (1), for sorted pieces. */
static vram_status check_apart(const struct list_piece *pieces, size_t count) {
    for (size_t i = 1; i < count; i++) {
        if (vr_overlap(pieces[i - 1].to, pieces[i - 1].bytes, pieces[i].to, pieces[i].bytes)) {
            return vr_fail(VRAM_ERR_INVALID, "copies %u and %u write the same memory",
                           pieces[i - 1].index, pieces[i].index);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (is_written(pieces, count, pieces[i].from, pieces[i].bytes)) {
            return vr_fail(VRAM_ERR_INVALID, "copy %u reads memory that a copy of the list writes",
                           pieces[i].index);
        }
    }
    return VRAM_OK;
}

/* Looks up one copy and makes it a piece. */
static vram_status piece_of(struct vr_submission *submission, const vram_copy *copy, size_t index,
                            struct list_piece *piece) {
    struct vr_route route;
    vram_status status = vr_route_find(submission->queue, copy, &route);
    if (status != VRAM_OK) {
        return vr_fail(status, "copy %zu: %s", index, vr_error_get()->text);
    }
    vr_route_leave(&route); /* a peer's memory is looked up again when it is read */
    if (route.way == VR_WAY_BRIDGE) {
        return vr_fail(VRAM_ERR_INVALID,
                       "copy %zu: 0x%llx is on a device that this one cannot read; call "
                       "vram_device_peer_enable, or use vram_transfer_copy",
                       index, (unsigned long long)copy->from);
    }
    if (submission->strategy == VRAM_TRANSFER_DIRECT) {
        return vr_submission_direct(submission, &route);
    }
    *piece = (struct list_piece){route.to,
                                 route.from,
                                 route.bytes,
                                 (uint16_t)route.way,
                                 route.pinned || route.way == VR_WAY_COPY,
                                 (uint32_t)index};
    return VRAM_OK;
}

/* ---------------------------------------------------------------- submitting */

/* Keeps (2): merges neighbours in place. Returns how many are left. */
static size_t join_pieces(struct list_piece *pieces, size_t count) {
    size_t kept = 0;
    for (size_t i = 1; i < count; i++) {
        struct list_piece *last = &pieces[kept];
        if (last->way == pieces[i].way && last->reached == pieces[i].reached &&
            last->to + last->bytes == pieces[i].to && last->from + last->bytes == pieces[i].from) {
            last->bytes += pieces[i].bytes;
        } else {
            pieces[++kept] = pieces[i];
        }
    }
    return count ? kept + 1 : 0;
}

/* How many of the first pieces can be gathered together, and their bytes. */
static size_t run_length(const struct list_piece *pieces, size_t count, uint64_t *bytes) {
    size_t length = 0;
    *bytes = 0;
    while (length < count && pieces[length].way == VR_WAY_UPLOAD &&
           pieces[length].bytes <= GATHER_PIECE && *bytes + pieces[length].bytes <= GATHER_BLOCK &&
           (length == 0 || pieces[length - 1].to + pieces[length - 1].bytes == pieces[length].to)) {
        *bytes += pieces[length++].bytes;
    }
    return length;
}

static vram_status submit_one(struct vr_queue_object *queue, const struct list_piece *piece) {
    struct vr_route route = {.way = (enum vr_way)piece->way,
                             .to = piece->to,
                             .from = piece->from,
                             .to_host = (void *)(uintptr_t)piece->to,
                             .from_host = (const void *)(uintptr_t)piece->from,
                             .bytes = piece->bytes};
    return vr_route_submit(queue, &route);
}

/* Keeps (3). False: no memory, and nothing was submitted. */
static bool submit_gathered(struct vr_queue_object *queue, const struct list_piece *pieces,
                            size_t count, uint64_t bytes, vram_status *status) {
    struct vram_error kept;
    vram_addr block = 0;
    vr_error_save(&kept);
    vram_pool *pool = vr_flight_pinned(queue->device);
    if (!pool || vr_alloc(pool, bytes, NULL, &block) != VRAM_OK) {
        vr_error_restore(&kept);
        return false;
    }
    char *at = (char *)(uintptr_t)block;
    for (size_t i = 0; i < count; i++) {
        memcpy(at, (const void *)(uintptr_t)pieces[i].from, pieces[i].bytes);
        at += pieces[i].bytes;
    }
    *status = vr_queue_upload(&queue->base, pieces[0].to, (const void *)(uintptr_t)block, bytes);
    vr_block_give(pool, block, (vram_queue *)(uintptr_t)queue->object.handle);
    return true;
}

/* How many of the first pieces one launch takes, and the bytes to gather for it. */
static size_t scatter_length(const struct list_piece *pieces, size_t count, uint64_t *bytes) {
    size_t length = 0;
    *bytes = 0;
    while (length < count && length < SCATTER_MOST && pieces[length].bytes <= GATHER_PIECE &&
           (pieces[length].reached || pieces[length].way == VR_WAY_UPLOAD)) {
        uint64_t capacity = pieces[length].reached ? 0 : (pieces[length].bytes + 15) / 16 * 16;
        if (*bytes + capacity > GATHER_BLOCK) {
            break;
        }
        *bytes += capacity;
        length++;
    }
    return length;
}

/* Writes the rows, and behind them the bytes that the device cannot access in place. */
static void fill_rows(vram_addr block, uint64_t head, const struct list_piece *pieces,
                      size_t count) {
    struct vr_scatter_row *rows = (struct vr_scatter_row *)(uintptr_t)block;
    uint64_t at = block + head;
    for (size_t i = 0; i < count; i++) {
        rows[i] = (struct vr_scatter_row){pieces[i].to, pieces[i].from, pieces[i].bytes};
        if (!pieces[i].reached) {
            memcpy((void *)(uintptr_t)at, (const void *)(uintptr_t)pieces[i].from, pieces[i].bytes);
            rows[i].from = at;
            at += (pieces[i].bytes + 15) / 16 * 16;
        }
    }
}

/* Keeps (4). False: it could not be launched, and nothing was submitted. */
static bool submit_scattered(struct vr_queue_object *queue, vram_kernel *kernel,
                             const struct list_piece *pieces, size_t count, uint64_t bytes) {
    vram_queue *handle = (vram_queue *)(uintptr_t)queue->object.handle;
    uint64_t head = (count * sizeof(struct vr_scatter_row) + 15) / 16 * 16;
    struct vram_error kept;
    vram_addr block = 0;
    bool done = false;
    vr_error_save(&kept);
    vram_pool *pool = vr_flight_pinned(queue->device);
    if (pool && vr_alloc(pool, head + bytes, NULL, &block) == VRAM_OK) {
        fill_rows(block, head, pieces, count);
        done = vr_scatter_launch(handle, kernel, block, (uint32_t)count) == VRAM_OK;
        vr_block_give(pool, block, handle);
    }
    vr_error_restore(&kept);
    return done;
}

/* How many of the first pieces one launch took; 0: none, and *kernel is NULL if it is not
   usable. */
static size_t try_scattered(struct vr_submission *submission, vram_kernel **kernel,
                            const struct list_piece *pieces, size_t count) {
    uint64_t bytes;
    size_t length = scatter_length(pieces, count, &bytes);
    if (length < SCATTER_LEAST) {
        return 0;
    }
    if (!submit_scattered(submission->queue, *kernel, pieces, length, bytes)) {
        *kernel = NULL;
        return 0;
    }
    return length;
}

/* Keeps (5): what is refused once is not tried again. */
static vram_status submit_all(struct vr_submission *submission, struct list_piece *pieces,
                              size_t count) {
    struct vr_queue_object *queue = submission->queue;
    bool gather = queue->base.device->pinned != NULL;
    vram_status status = VRAM_OK;
    count = join_pieces(pieces, count);
    vram_kernel *kernel = count >= SCATTER_LEAST ? vr_scatter_kernel(queue->device) : NULL;
    for (size_t i = 0, length; i < count && status == VRAM_OK; i += length) {
        uint64_t bytes;
        length = gather ? run_length(pieces + i, count - i, &bytes) : 0;
        submission->any = submission->parts = true;
        if (kernel && (length < SCATTER_LEAST || pieces[i].reached)) {
            size_t taken = try_scattered(submission, &kernel, pieces + i, count - i);
            if (taken) {
                length = taken;
                continue;
            }
        }
        if (length < 2 || !(gather = submit_gathered(queue, pieces + i, length, bytes, &status))) {
            length = 1;
            status = submit_one(queue, &pieces[i]);
        }
        if (status != VRAM_OK) {
            vram_error error = *vr_error_get();
            vr_error_set(status, error.backend, error.operation, error.native_code,
                         "copy %u of the list: %s", pieces[i].index, error.text);
        }
    }
    return status;
}

/* Counts a list as one transfer, in the direction of most of its bytes. */
static void count_all(struct vr_submission *submission, const struct list_piece *pieces,
                      size_t count) {
    uint64_t bytes[VR_WAY_FILL + 1] = {0};
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++) {
        bytes[pieces[i].way] += pieces[i].bytes;
        most = bytes[pieces[i].way] > bytes[most] ? pieces[i].way : most;
    }
    vr_submission_count(submission, (enum vr_way)most, VRAM_ROUTE_BATCH);
}

/* ---------------------------------------------------------------------- lists */

static vram_status list_check(struct vr_submission *submission, const vram_copy *copies,
                              size_t count, struct list_piece *pieces, size_t *used,
                              uint64_t *bytes) {
    vram_status status = VRAM_OK;
    for (size_t i = 0; i < count && status == VRAM_OK; i++) {
        if (copies[i].bytes == 0) {
            continue;
        }
        status = piece_of(submission, &copies[i], i, &pieces[*used]);
        if (status == VRAM_OK && submission->strategy != VRAM_TRANSFER_DIRECT) {
            ++*used;
            if (!vr_add(*bytes, copies[i].bytes, bytes)) {
                status =
                    vr_fail(VRAM_ERR_OVERFLOW, "the bytes of the list do not fit into 64 bits");
            }
        }
    }
    if (status == VRAM_OK) {
        sort_pieces(pieces, *used);
        status = check_apart(pieces, *used);
    }
    return status;
}

vram_status vram_transfer_batch(vram_queue *queue, const vram_copy *copies, size_t count,
                                const vram_transfer_options *options, vram_async *async) {
    VR_CALL;
    struct vr_submission submission;
    struct list_piece *pieces = NULL;
    size_t used = 0;
    uint64_t bytes = 0;
    if (count && !copies) {
        return vr_fail(VRAM_ERR_INVALID, "the list is NULL");
    }
    if (count > UINT32_MAX) {
        return vr_fail(VRAM_ERR_INVALID, "a list has at most 2^32 - 1 copies");
    }
    vram_status status = vr_submission_begin(queue, options, &submission);
    if (status != VRAM_OK) {
        return status;
    }
    if (count) {
        pieces = vr_mem_alloc(count, sizeof *pieces, vr_operation());
        status = pieces ? list_check(&submission, copies, count, pieces, &used, &bytes)
                        : VRAM_ERR_HOST_MEMORY;
    }
    if (status == VRAM_OK && used) {
        count_all(&submission, pieces, used);
        status = submit_all(&submission, pieces, used);
    }
    vr_mem_free(pieces);
    return vr_submission_end(&submission, status, bytes, async);
}

/* ---------------------------------------------------------------- rectangles */

/* Bytes from the first to the last byte of a side. */
static bool side_extent(uint64_t rows, uint64_t pitch, uint64_t row_bytes, uint64_t *bytes) {
    return vr_mul(rows - 1, pitch, bytes) && vr_add(*bytes, row_bytes, bytes);
}

/* Whether rows of two rectangles whose extents overlap share bytes; `apart` is the distance of
   their beginnings. With one pitch only the rows around that distance can, and as the extents
   overlap there are such rows. Rectangles of different pitches count as sharing bytes. */
static bool rows_meet(const vram_copy_2d *copy, uint64_t apart) {
    if (copy->to_pitch != copy->from_pitch) {
        return true;
    }
    uint64_t rest = apart % copy->to_pitch;
    return rest < copy->row_bytes || copy->to_pitch - rest < copy->row_bytes;
}

/* Looks up both sides, each from its first byte to its last. */
static vram_status rectangle_find(struct vr_submission *submission, const vram_copy_2d *copy,
                                  struct vr_route *route) {
    uint64_t to_bytes, from_bytes;
    if (copy->to_pitch < copy->row_bytes || copy->from_pitch < copy->row_bytes) {
        return vr_fail(VRAM_ERR_INVALID, "a pitch is less than the %llu bytes of a row",
                       (unsigned long long)copy->row_bytes);
    }
    if (!side_extent(copy->rows, copy->to_pitch, copy->row_bytes, &to_bytes) ||
        !side_extent(copy->rows, copy->from_pitch, copy->row_bytes, &from_bytes)) {
        return vr_fail(VRAM_ERR_OVERFLOW, "the rectangle does not fit into 64 bits");
    }
    vram_status status =
        vr_route_find_extents(submission->queue, &copy->first, to_bytes, from_bytes, route);
    if (status == VRAM_OK && route->overlap && !route->same) {
        uint64_t apart =
            route->to > route->from ? route->to - route->from : route->from - route->to;
        route->overlap = rows_meet(copy, apart);
    }
    return status;
}

/* Submits the rows in parts, so that a rectangle of any height needs little memory. */
static vram_status submit_rows(struct vr_submission *submission, const vram_copy_2d *copy,
                               const struct vr_route *route) {
    size_t capacity = copy->rows < ROWS_AT_ONCE ? (size_t)copy->rows : ROWS_AT_ONCE;
    struct list_piece *pieces = vr_mem_alloc(capacity, sizeof *pieces, vr_operation());
    vram_status status = pieces ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
    for (uint64_t row = 0; row < copy->rows && status == VRAM_OK;) {
        size_t count = 0;
        for (; count < capacity && row < copy->rows; count++, row++) {
            pieces[count] = (struct list_piece){route->to + row * copy->to_pitch,
                                                route->from + row * copy->from_pitch,
                                                copy->row_bytes,
                                                (uint16_t)route->way,
                                                route->pinned || route->way == VR_WAY_COPY,
                                                (uint32_t)row};
        }
        status = submit_all(submission, pieces, count);
    }
    vr_mem_free(pieces);
    return status;
}

/* Whether (4) can copy all rows: small ones that the device can access, or that are read from
   ordinary memory. */
static bool is_gathered(struct vr_submission *submission, const vram_copy_2d *copy,
                        const struct vr_route *route) {
    return (route->way != VR_WAY_DOWNLOAD || route->pinned) && copy->row_bytes <= GATHER_PIECE &&
           copy->rows >= SCATTER_LEAST && vr_scatter_kernel(submission->queue->device);
}

/* Keeps (6). VRAM_ERR_UNSUPPORTED, without an error record: nothing was submitted, and the rows
   must be copied one by one. */
static vram_status submit_rectangle(struct vr_submission *submission, const vram_copy_2d *copy,
                                    const struct vr_route *route) {
    const struct vr_rectangle rectangle = {.to = route->to,
                                           .from = route->from,
                                           .to_pitch = copy->to_pitch,
                                           .from_pitch = copy->from_pitch,
                                           .row_bytes = copy->row_bytes,
                                           .rows = copy->rows,
                                           .to_host = route->way == VR_WAY_DOWNLOAD,
                                           .from_host = route->way == VR_WAY_UPLOAD};
    if (route->way == VR_WAY_PEER || is_gathered(submission, copy, route)) {
        return VRAM_ERR_UNSUPPORTED;
    }
    struct vram_error kept;
    vr_error_save(&kept);
    submission->any = true;
    vram_status status = vr_queue_copy_rows(&submission->queue->base, &rectangle);
    if (status == VRAM_ERR_UNSUPPORTED) {
        vr_error_restore(&kept);
    }
    return status;
}

static vram_status copy_rectangle(struct vr_submission *submission, const vram_copy_2d *copy,
                                  uint64_t *result) {
    struct vr_route route;
    vram_status status = rectangle_find(submission, copy, &route);
    if (status != VRAM_OK) {
        return status;
    }
    bool plain = copy->rows == 1 ||
                 (copy->to_pitch == copy->row_bytes && copy->from_pitch == copy->row_bytes);
    if (plain || submission->strategy == VRAM_TRANSFER_DIRECT) {
        route.bytes = copy->rows * copy->row_bytes;
        status = vr_submission_add(submission, &route, result);
    } else if (route.overlap) {
        status = vr_fail(VRAM_ERR_INVALID, "the two rectangles overlap");
    } else if (route.way == VR_WAY_BRIDGE) {
        status = vr_fail(VRAM_ERR_INVALID,
                         "0x%llx is on a device that this one cannot read; "
                         "call vram_device_peer_enable first",
                         (unsigned long long)route.from);
    } else {
        *result = copy->rows * copy->row_bytes;
        vr_submission_count(submission, route.way, VRAM_ROUTE_ANY);
        status = submit_rectangle(submission, copy, &route);
        if (status == VRAM_ERR_UNSUPPORTED) {
            status = submit_rows(submission, copy, &route);
        }
    }
    vr_route_leave(&route);
    return status;
}

vram_status vram_transfer_2d(vram_queue *queue, const vram_copy_2d *copy,
                             const vram_transfer_options *options, vram_async *async) {
    VR_CALL;
    struct vr_submission submission;
    uint64_t result = 0;
    if (!copy) {
        return vr_fail(VRAM_ERR_INVALID, "the rectangle is NULL");
    }
    vram_copy_2d taken = *copy;
    taken.to_pitch = taken.to_pitch ? taken.to_pitch : taken.row_bytes;
    taken.from_pitch = taken.from_pitch ? taken.from_pitch : taken.row_bytes;
    vram_status status = vr_submission_begin(queue, options, &submission);
    if (status != VRAM_OK) {
        return status;
    }
    if (taken.rows && taken.row_bytes) {
        status = copy_rectangle(&submission, &taken, &result);
    }
    return vr_submission_end(&submission, status, result, async);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* fake_rows.c: the fake driver's entry points for copies of rows. */
#include "fake/fake_engine.h"

#include <stdlib.h>
#include <string.h>

/* What CU_DEVICE_ATTRIBUTE_MAX_PITCH is on every GPU of a decade. */
#define PITCH_MAX INT32_MAX

static uint64_t extent(const struct fake_op *op, uint64_t pitch) {
    return (op->rows - 1) * pitch + op->bytes;
}

/* Pageable memory is read, and written, before the call returns. */
static vr_cu_result submit_rows(struct vr_cu_stream *stream, struct fake_op *op) {
    if (!op->rows || !op->bytes || op->to_pitch < op->bytes || op->from_pitch < op->bytes ||
        op->to_pitch > PITCH_MAX || op->from_pitch > PITCH_MAX) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    const char *from = (const char *)(uintptr_t)op->from, *to = (const char *)(uintptr_t)op->to;
    if (op->kind == UPLOAD && !fake_is_pinned(from, extent(op, op->from_pitch))) {
        op->staged = malloc(op->rows * op->bytes);
        if (!op->staged) {
            return fake_leave(VR_CU_OUT_OF_MEMORY);
        }
        for (uint64_t i = 0; i < op->rows; i++) {
            memcpy(op->staged + i * op->bytes, from + i * op->from_pitch, op->bytes);
        }
        op->from = op->from_pitch = 0;
    }
    bool wait = op->kind == DOWNLOAD && !fake_is_pinned(to, extent(op, op->to_pitch));
    return fake_submit(stream, op, wait);
}

static bool good_side(const struct vr_cu_rows_side *side) {
    bool host = side->type == VR_CU_SIDE_HOST;
    return !side->x && !side->y && !side->array && (host || side->type == VR_CU_SIDE_DEVICE) &&
           (side->host != NULL) == host && (side->device != 0) == !host;
}

static uint64_t place_of(const struct vr_cu_rows_side *side) {
    return side->type == VR_CU_SIDE_HOST ? (uintptr_t)side->host : side->device;
}

vr_cu_result fake_cuMemcpy2DAsync(const struct vr_cu_rows *rows, struct vr_cu_stream *stream) {
    FAKE_ENTER(cuMemcpy2DAsync, FAKE_NEEDS_CONTEXT);
    bool up = rows->from.type == VR_CU_SIDE_HOST, down = rows->to.type == VR_CU_SIDE_HOST;
    struct fake_op op = {.kind = up     ? UPLOAD
                                 : down ? DOWNLOAD
                                        : COPY,
                         .to = place_of(&rows->to),
                         .from = place_of(&rows->from),
                         .bytes = rows->row_bytes,
                         .rows = rows->rows,
                         .to_pitch = rows->to.pitch,
                         .from_pitch = rows->from.pitch};
    if (!good_side(&rows->from) || !good_side(&rows->to) || (up && down)) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    return submit_rows(stream, &op);
}

vr_cu_result fake_hipMemcpy2DAsync(vr_cu_addr to, size_t to_pitch, vr_cu_addr from,
                                   size_t from_pitch, size_t row_bytes, size_t rows, int kind,
                                   struct vr_cu_stream *stream) {
    FAKE_ENTER(hipMemcpy2DAsync, FAKE_NEEDS_CONTEXT);
    struct fake_op op = {.kind = kind == 1   ? UPLOAD
                                 : kind == 2 ? DOWNLOAD
                                             : COPY,
                         .to = to,
                         .from = from,
                         .bytes = row_bytes,
                         .rows = rows,
                         .to_pitch = to_pitch,
                         .from_pitch = from_pitch};
    if (kind < 1 || kind > 3) {
        return fake_leave(21); /* hipErrorInvalidMemcpyDirection */
    }
    return submit_rows(stream, &op);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipeline.c: tiles of products over several queues.
 *
 *   lane 0   B ----> A0 ----> product ----------> C0
 *   lane 1            \ A1 ----> product ----------> C1       time ->
 *   lane 2             \ A2 ----> product ----------> C2
 *
 *  (1) A lane is a queue: what is submitted to it runs in order, so memory that is freed to it is
 *      used again by its next tile without anybody waiting. Lanes run beside each other.
 *  (2) A lane's result is fetched when the lane's next turn comes, not at once: a driver may hold
 *      the caller up until a result is there, and by then the other lanes have their work. Pageable
 *      memory of some size goes through the library's page-locked memory (vram/transfer.h), where
 *      that is quicker.
 *  (3) B is sent once and stays until another B is needed. Lanes other than the one that sent it
 *      wait for its point, on the device, and the pool is told that they use it.
 *  (4) Whatever happens, vr_pipeline_end waits for all lanes that have work: host memory of the
 *      program is in use until then. A wait that took too long is the answer, whatever else went
 *      wrong: it is then in use for longer than the call.
 *  (5) A result that a lane's next turn could not fetch may be that of a product before the one at
 *      hand. It stays pending, and vr_pipeline_end fetches it or fails: products that were added
 *      whole are never half there.
 */
#include "compute/scheduler_object.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "vram/transfer.h"

#include <string.h>

#define PACK_BYTES (UINT64_C(4) << 20) /* of rows that are gathered before they are sent */

vram_status vr_scheduler_wait(struct vr_scheduler *scheduler, vram_queue *queue) {
    VR_OPERATION("vram_queue_wait");
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT);
    if (status == VRAM_ERR_STALE) { /* it is ending, or has ended */
        struct vram_error stale;
        vr_error_save(&stale);
        vram_status waited =
            vram_attachment_wait(scheduler->attachment, queue, VRAM_TIMEOUT_DEFAULT);
        if (waited == VRAM_ERR_DEVICE_LOST) {
            return vr_in_operation(waited);
        }
        status = waited == VRAM_OK ? VRAM_OK : status;
        vr_error_restore(waited == VRAM_OK ? &error : &stale);
    }
    return status;
}

/* ---------------------------------------------------------------------- transfers */

static void count_up(struct vr_pipeline *pipeline, uint64_t bytes) {
    vr_counter_add(&pipeline->scheduler->counters.uploads, 1);
    vr_counter_add(&pipeline->scheduler->counters.uploaded_bytes, bytes);
}

static void count_down(struct vr_pipeline *pipeline, uint64_t bytes) {
    vr_counter_add(&pipeline->scheduler->counters.downloads, 1);
    vr_counter_add(&pipeline->scheduler->counters.downloaded_bytes, bytes);
}

/* Rows that do not lie one behind the other are gathered in host memory, some at a time, or
   scattered. */
static vram_status by_pieces(struct vr_pipeline *pipeline, uint32_t lane, vram_addr block,
                             char *host, const struct vr_part *part, bool up) {
    VR_OPERATION("vram_matmul_run");
    vram_queue *queue = vr_pipeline_queue(pipeline, lane);
    uint64_t fit = PACK_BYTES / part->row_bytes ? PACK_BYTES / part->row_bytes : 1;
    uint64_t rows = fit < part->rows ? fit : part->rows;
    char *piece = vr_scratch_alloc(rows, part->row_bytes);
    vram_status status = piece ? VRAM_OK : VRAM_ERR_HOST_MEMORY, waited = VRAM_OK;
    for (uint64_t row = 0; status == VRAM_OK && row < part->rows; row += rows) {
        uint64_t here = part->rows - row < rows ? part->rows - row : rows;
        vram_addr addr = block + row * part->row_bytes;
        for (uint64_t i = 0; up && i < here; i++) {
            memcpy(piece + i * part->row_bytes, host + (row + i) * part->stride_bytes,
                   part->row_bytes);
        }
        status = up ? vram_queue_upload(queue, addr, piece, here * part->row_bytes)
                    : vram_queue_download(queue, piece, addr, here * part->row_bytes);
        waited = vr_scheduler_wait(pipeline->scheduler, queue);
        status = status == VRAM_OK ? waited : status;
        for (uint64_t i = 0; status == VRAM_OK && !up && i < here; i++) {
            memcpy(host + (row + i) * part->stride_bytes, piece + i * part->row_bytes,
                   part->row_bytes);
        }
    }
    vr_scratch_free(pipeline->scheduler, piece, queue, waited);
    return status;
}

static vram_status send(struct vr_pipeline *pipeline, uint32_t lane, vram_addr block,
                        const void *from, const struct vr_part *part) {
    uint64_t bytes = part->rows * part->row_bytes;
    bool taken;
    count_up(pipeline, bytes);
    pipeline->used |= 1u << lane;
    vram_status status = vr_bounce_send(pipeline, lane, block, from, part, &taken);
    if (taken) {
        return status;
    }
    if (part->stride_bytes == part->row_bytes || part->rows == 1) {
        return vram_transfer_upload(vr_pipeline_queue(pipeline, lane), block, from, bytes, NULL,
                                    NULL);
    }
    return by_pieces(pipeline, lane, block, (char *)(uintptr_t)from, part, true);
}

static vram_status alloc(struct vr_pipeline *pipeline, uint32_t lane, uint64_t bytes,
                         vram_addr *block) {
    static const struct vram_alloc_options held = {.size = sizeof held,
                                                   .flags = VRAM_ALLOC_CACHED_ONLY};
    struct vr_scheduler *scheduler = pipeline->scheduler;
    vram_queue *queue = vr_pipeline_queue(pipeline, lane);
    struct vram_error error;
    *block = 0;
    vr_error_save(&error);
    vram_status status = vram_alloc_with(scheduler->pool, bytes, queue, &held, block);
    bool hit = status == VRAM_OK;
    if (vram_status_is_exhausted(status)) { /* not at hand: the pool is to get it */
        vr_error_restore(&error);
        status = vram_alloc(scheduler->pool, bytes, queue, block);
    }
    if (status == VRAM_OK) {
        vr_counter_add(hit ? &scheduler->counters.hits : &scheduler->counters.misses, 1);
    } else {
        *block = 0;
    }
    return status;
}

static void let_go(struct vr_pipeline *pipeline, uint32_t lane, vram_addr block) {
    vr_block_let_go(pipeline->scheduler->pool, block, vr_pipeline_queue(pipeline, lane));
}

vram_status vr_pipeline_alloc(struct vr_pipeline *pipeline, uint32_t lane, uint64_t bytes,
                              vram_addr *block) {
    return alloc(pipeline, lane, bytes, block);
}

void vr_pipeline_free(struct vr_pipeline *pipeline, uint32_t lane, vram_addr block) {
    if (block) {
        let_go(pipeline, lane, block);
    }
}

vram_status vr_pipeline_send(struct vr_pipeline *pipeline, uint32_t lane, vram_addr block,
                             const void *from, uint64_t bytes) {
    struct vr_part part = {1, bytes, bytes};
    return send(pipeline, lane, block, from, &part);
}

/* The lane's result is home, or not wanted any more. */
static void settle(struct vr_pipeline *pipeline, uint32_t lane) {
    struct vr_pending_result *pending = &pipeline->pending[lane];
    if (pending->block) {
        let_go(pipeline, lane, pending->block);
    }
    pending->block = 0;
}

static struct vr_part part_of(const struct vr_pending_result *pending) {
    return (struct vr_part){pending->rows, pending->columns * sizeof(float),
                            pending->stride * sizeof(float)};
}

/* A small result is fetched at once, since that keeps nobody. */
static vram_status fetch_small(struct vr_pipeline *pipeline, uint32_t lane) {
    struct vr_pending_result *pending = &pipeline->pending[lane];
    struct vr_part part = part_of(pending);
    bool taken;
    vram_status status =
        vr_bounce_fetch(pipeline, lane, pending->block, pending->to, &part, &taken);
    if (taken) {
        count_down(pipeline, part.rows * part.row_bytes);
        settle(pipeline, lane);
    }
    return status;
}

/* Fetches what the lane has ready: keeps (2). What could not be fetched stays pending: keeps
   (5). */
static vram_status fetch(struct vr_pipeline *pipeline, uint32_t lane) {
    struct vr_pending_result *pending = &pipeline->pending[lane];
    vram_status status = VRAM_OK;
    if (pending->block) {
        struct vr_part part = part_of(pending);
        uint64_t bytes = part.rows * part.row_bytes;
        count_down(pipeline, bytes);
        if (part.stride_bytes == part.row_bytes || part.rows == 1) {
            status = vram_transfer_download(vr_pipeline_queue(pipeline, lane), pending->to,
                                            pending->block, bytes, NULL, NULL);
        } else {
            status = by_pieces(pipeline, lane, pending->block, (char *)pending->to, &part, false);
        }
        if (status == VRAM_OK) {
            settle(pipeline, lane);
        }
    }
    return status;
}

/* -------------------------------------------------------------------------- B */

static void drop_b(struct vr_pipeline *pipeline) {
    if (pipeline->b_block) {
        let_go(pipeline, pipeline->b_lane, pipeline->b_block);
    }
    pipeline->b_block = 0;
    pipeline->b_of = NULL;
}

/* Columns [first, first + columns) of B: sent, or there already. */
static vram_status bring_b(struct vr_pipeline *pipeline, const struct vr_product *product,
                           uint32_t lane, uint64_t first, uint64_t columns) {
    const struct vr_product *p = product;
    if (pipeline->b_block && pipeline->b_of == p->b && pipeline->b_first == first &&
        pipeline->b_columns == columns && pipeline->b_rows == p->k &&
        pipeline->b_trans == p->trans_b && pipeline->b_precision == p->precision) {
        return VRAM_OK;
    }
    drop_b(pipeline);
    uint64_t stride = (p->trans_b ? p->k : p->n) * p->each;
    struct vr_part part = {p->trans_b ? columns : p->k, (p->trans_b ? p->k : columns) * p->each,
                           stride};
    const char *from = (const char *)p->b + first * (p->trans_b ? stride : p->each);
    vram_status status = alloc(pipeline, lane, part.rows * part.row_bytes, &pipeline->b_block);
    if (status != VRAM_OK) {
        return status;
    }
    pipeline->b_lane = lane;
    pipeline->b_of = NULL; /* known once it is on its way */
    pipeline->b_seen = 1u << lane;
    pipeline->b_point = (vram_point){0};
    status = send(pipeline, lane, pipeline->b_block, from, &part);
    if (status == VRAM_OK && pipeline->lane_count > 1 && !pipeline->alone) {
        status = vram_queue_mark(vr_pipeline_queue(pipeline, lane), &pipeline->b_point);
    }
    if (status == VRAM_OK) {
        pipeline->b_of = p->b;
        pipeline->b_first = first;
        pipeline->b_columns = columns;
        pipeline->b_rows = p->k;
        pipeline->b_trans = p->trans_b;
        pipeline->b_precision = p->precision;
    }
    return status;
}

/* Keeps (3) for a lane that did not send B. */
static vram_status await_b(struct vr_pipeline *pipeline, uint32_t lane) {
    if (!pipeline->b_block || pipeline->b_seen >> lane & 1) {
        return VRAM_OK;
    }
    pipeline->b_seen |= 1u << lane;
    return vram_queue_after(vr_pipeline_queue(pipeline, lane), pipeline->b_point);
}

/* Keeps (3), whatever became of the lane's product: when the pool cannot be told that the lane uses
   B, the lane is waited for. If that fails as well B stays where it is until the lanes are seen to
   be through. */
static vram_status tell_use(struct vr_pipeline *pipeline, uint32_t lane, vram_status status) {
    struct vram_error error;
    vr_error_save(&error);
    vram_status told = vram_use(pipeline->b_block, vr_pipeline_queue(pipeline, lane));
    if (told == VRAM_OK) {
        return status;
    }
    vram_status waited = vr_scheduler_wait(pipeline->scheduler, vr_pipeline_queue(pipeline, lane));
    if (vr_wait_leaves_work(waited)) {
        vr_scratch_keep_block(pipeline->scheduler, pipeline->b_block, pipeline->only);
        pipeline->b_block = 0;
        pipeline->b_of = NULL;
    }
    if (status != VRAM_OK || waited == VRAM_OK) {
        vr_error_restore(&error);
        return status;
    }
    return waited;
}

/* ----------------------------------------------------------------------- tiles */

struct tile {
    uint64_t row, rows, column, columns;
};

/* Brings the rows of A to the device; *block is 0 where they are there. */
static vram_status bring_a(struct vr_pipeline *pipeline, const struct vr_product *product,
                           uint32_t lane, const struct tile *tile, vram_addr *block) {
    *block = 0;
    if (!product->a) {
        return VRAM_OK;
    }
    uint64_t stride = (product->trans_a ? product->m : product->k) * product->each;
    struct vr_part part = {product->trans_a ? product->k : tile->rows,
                           (product->trans_a ? tile->rows : product->k) * product->each, stride};
    const char *from =
        (const char *)product->a + tile->row * (product->trans_a ? product->each : stride);
    vram_status status = alloc(pipeline, lane, part.rows * part.row_bytes, block);
    return status == VRAM_OK ? send(pipeline, lane, *block, from, &part) : status;
}

/* The product of a tile whose operands are on the device. */
static struct vr_device_gemm describe(const struct vr_pipeline *pipeline,
                                      const struct vr_product *product, const struct tile *tile,
                                      vram_addr a, vram_addr c) {
    struct vr_device_gemm gemm = {.m = tile->rows,
                                  .n = tile->columns,
                                  .k = product->k,
                                  .trans_a = product->trans_a,
                                  .trans_b = product->trans_b,
                                  .precision = product->precision};
    gemm.a = (struct vr_matrix){a, 0};
    gemm.lda = product->trans_a ? tile->rows : product->k;
    if (!product->a) {
        gemm.lda = product->trans_a ? product->m : product->k;
        gemm.a = (struct vr_matrix){product->a_addr, tile->row * (product->trans_a ? 1 : gemm.lda)};
    }
    gemm.b = (struct vr_matrix){pipeline->b_block, 0};
    gemm.ldb = product->trans_b ? product->k : tile->columns;
    if (!product->b) {
        gemm.ldb = product->trans_b ? product->k : product->n;
        gemm.b =
            (struct vr_matrix){product->b_addr, tile->column * (product->trans_b ? gemm.ldb : 1)};
    }
    gemm.c = (struct vr_matrix){c, 0};
    gemm.ldc = tile->columns;
    if (!product->c) {
        gemm.ldc = product->n;
        gemm.c = (struct vr_matrix){product->c_addr, tile->row * product->n + tile->column};
    }
    return gemm;
}

static vram_status add_tile(struct vr_pipeline *pipeline, const struct vr_product *product,
                            uint32_t lane, const struct tile *tile) {
    vram_addr a = 0, c = 0;
    vram_status status = fetch(pipeline, lane);
    bool submitted = false;
    if (status == VRAM_OK) {
        status = bring_a(pipeline, product, lane, tile, &a);
    }
    if (status == VRAM_OK && product->c) {
        status = alloc(pipeline, lane, tile->rows * tile->columns * sizeof(float), &c);
    }
    if (status == VRAM_OK) {
        status = await_b(pipeline, lane);
    }
    if (status == VRAM_OK) {
        VR_UNCANCELLED;
        struct vr_device_gemm gemm = describe(pipeline, product, tile, a, c);
        pipeline->used |= 1u << lane;
        submitted = true; /* a library that fails may have begun */
        status = pipeline->arithmetic->provider->submit(pipeline->arithmetic, lane,
                                                        vr_pipeline_queue(pipeline, lane), &gemm);
    }
    if (submitted && pipeline->b_block && lane != pipeline->b_lane) {
        status = tell_use(pipeline, lane, status);
    }
    let_go(pipeline, lane, a);
    if (status != VRAM_OK) {
        let_go(pipeline, lane, c);
        return status;
    }
    vr_counter_add(&pipeline->scheduler->counters.tiles, 1);
    if (c) {
        pipeline->pending[lane] =
            (struct vr_pending_result){c, product->c + tile->row * product->n + tile->column,
                                       tile->rows, tile->columns, product->n};
        status = fetch_small(pipeline, lane);
    }
    return status;
}

/* Waits for all lanes with work, and brings small results home; the first failure, but keeps
   (4). */
static vram_status wait_for_all(struct vr_pipeline *pipeline) {
    struct vram_error error;
    vram_status status = VRAM_OK;
    vr_error_save(&error);
    for (uint32_t i = 0; i < pipeline->lane_count; i++) {
        vram_status waited =
            pipeline->used >> i & 1
                ? vr_scheduler_wait(pipeline->scheduler, vr_pipeline_queue(pipeline, i))
                : VRAM_OK;
        if (waited != VRAM_OK && (status == VRAM_OK || waited == VRAM_ERR_TIMEOUT)) {
            status = waited;
            vr_error_save(&error);
        }
    }
    vr_bounces_deliver(pipeline, status);
    pipeline->lost = pipeline->lost ? pipeline->lost : status;
    vr_error_restore(&error);
    return status;
}

vram_status vr_pipeline_add(struct vr_pipeline *pipeline, const struct vr_product *product,
                            const struct vram_matmul_plan *plan) {
    vram_status status = VRAM_OK;
    for (uint64_t j = 0; status == VRAM_OK && j < product->n; j += plan->tile_n) {
        uint64_t columns = product->n - j < plan->tile_n ? product->n - j : plan->tile_n;
        if (product->b) {
            bool had = pipeline->b_of == product->b;
            status = bring_b(pipeline, product, pipeline->next, j, columns);
            vr_counter_add(&pipeline->scheduler->counters.shared_operands,
                           had && j == 0 && columns == product->n ? 1 : 0);
        } else {
            drop_b(pipeline);
        }
        for (uint64_t i = 0; status == VRAM_OK && i < product->m; i += plan->tile_m) {
            struct tile tile = {i, product->m - i < plan->tile_m ? product->m - i : plan->tile_m, j,
                                columns};
            uint32_t lane = pipeline->next;
            pipeline->next = (lane + 1) % pipeline->lane_count;
            status = add_tile(pipeline, product, lane, &tile);
            if (status == VRAM_OK && vr_bounces_are_many(pipeline)) {
                status = wait_for_all(pipeline);
            }
        }
    }
    return status;
}

/* --------------------------------------------------------------- begin and end */

void vr_pipeline_begin(struct vr_pipeline *pipeline, struct vr_scheduler *scheduler,
                       struct vr_arithmetic *arithmetic, vram_queue *only) {
    uint32_t lanes = scheduler->lane_count;
    memset(pipeline, 0, sizeof *pipeline);
    pipeline->scheduler = scheduler;
    pipeline->arithmetic = arithmetic;
    pipeline->only = only;
    pipeline->lane_count = only ? 1 : lanes;
    /* A thread begins at a lane of its own, where its caches have what it freed. */
    pipeline->next = only ? 0 : (uint32_t)(vr_os_thread_number() % lanes);
}

vram_status vr_pipeline_end(struct vr_pipeline *pipeline, vram_status status) {
    struct vram_error error;
    vr_error_save(&error);
    status = status == VRAM_OK ? pipeline->lost : status; /* keeps (5) */
    for (uint32_t i = 0; i < pipeline->lane_count; i++) {
        vram_status fetched = status == VRAM_OK ? fetch(pipeline, i) : VRAM_OK;
        if (fetched != VRAM_OK) {
            status = fetched;
            vr_error_save(&error);
        }
        settle(pipeline, i);
    }
    drop_b(pipeline);
    vram_status waited = wait_for_all(pipeline);
    if (waited != VRAM_OK && (status == VRAM_OK || waited == VRAM_ERR_TIMEOUT)) {
        status = waited; /* keeps (4) */
        vr_error_save(&error);
    }
    if (pipeline->only) {
        (void)vram_attachment_wait(pipeline->scheduler->attachment, pipeline->only, 0);
    }
    vr_error_restore(&error);
    return status;
}

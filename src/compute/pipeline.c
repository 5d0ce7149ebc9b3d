/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pipeline.c: tiles of products over several queues in rotation. A slot is one of these queues.
 *
 *   slot 0   B ----> A0 ----> product ----------> C0
 *   slot 1            \ A1 ----> product ----------> C1       time ->
 *   slot 2             \ A2 ----> product ----------> C2
 *
 *  (1) Work of a slot runs in the order of its queue, so memory that is freed there is reused by
 *      its next tile without a wait. Slots run in parallel.
 *  (2) A slot's result is fetched when the slot is used next, not at once: a driver may make the
 *      caller wait until a result is there, and by then the other slots have work. Larger pageable
 *      memory goes through the library's page-locked memory (vram/transfer.h), where that is
 *      faster.
 *  (3) B is sent once and stays until another B is needed. Slots other than the one that sent it
 *      wait for its point, on the device, and the pool is told that they use it.
 *  (4) vr_pipeline_end always waits for all slots that have work: host memory of the program is in
 *      use until then. If that wait times out, its status is returned whatever else failed: the
 *      memory is then in use for longer than the call.
 *  (5) A result that could not be fetched when its slot was used next may belong to an earlier
 *      product. It stays pending, and vr_pipeline_end fetches it or fails: a product that was added
 *      completely is never reported as done with a result missing.
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

/* Gathers rows that are not contiguous in host memory, some at a time, or scatters them. */
static vram_status copy_gathered(struct vr_pipeline *pipeline, uint32_t slot, vram_addr block,
                                 char *host, const struct vr_part *part, bool up) {
    VR_OPERATION("vram_matmul_run");
    vram_queue *queue = vr_pipeline_queue(pipeline, slot);
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

static vram_status send_part(struct vr_pipeline *pipeline, uint32_t slot, vram_addr block,
                             const void *from, const struct vr_part *part) {
    uint64_t bytes = part->rows * part->row_bytes;
    bool taken;
    count_up(pipeline, bytes);
    pipeline->used |= 1u << slot;
    vram_status status = vr_bounce_send(pipeline, slot, block, from, part, &taken);
    if (taken) {
        return status;
    }
    if (part->stride_bytes == part->row_bytes || part->rows == 1) {
        return vram_transfer_upload(vr_pipeline_queue(pipeline, slot), block, from, bytes, NULL,
                                    NULL);
    }
    return copy_gathered(pipeline, slot, block, (char *)(uintptr_t)from, part, true);
}

static vram_status alloc_block(struct vr_pipeline *pipeline, uint32_t slot, uint64_t bytes,
                               vram_addr *block) {
    static const struct vram_alloc_options held = {.size = sizeof held,
                                                   .flags = VRAM_ALLOC_CACHED_ONLY};
    struct vr_scheduler *scheduler = pipeline->scheduler;
    vram_queue *queue = vr_pipeline_queue(pipeline, slot);
    struct vram_error error;
    *block = 0;
    vr_error_save(&error);
    vram_status status = vram_alloc_with(scheduler->pool, bytes, queue, &held, block);
    bool hit = status == VRAM_OK;
    if (vram_status_is_exhausted(status)) { /* not in a cache: let the pool get memory */
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

static void free_block(struct vr_pipeline *pipeline, uint32_t slot, vram_addr block) {
    vr_block_free_after(pipeline->scheduler->pool, block, vr_pipeline_queue(pipeline, slot));
}

vram_status vr_pipeline_alloc(struct vr_pipeline *pipeline, uint32_t slot, uint64_t bytes,
                              vram_addr *block) {
    return alloc_block(pipeline, slot, bytes, block);
}

void vr_pipeline_free(struct vr_pipeline *pipeline, uint32_t slot, vram_addr block) {
    if (block) {
        free_block(pipeline, slot, block);
    }
}

vram_status vr_pipeline_send(struct vr_pipeline *pipeline, uint32_t slot, vram_addr block,
                             const void *from, uint64_t bytes) {
    struct vr_part part = {1, bytes, bytes};
    return send_part(pipeline, slot, block, from, &part);
}

/* The slot's result was fetched, or is not wanted any more. */
static void settle_result(struct vr_pipeline *pipeline, uint32_t slot) {
    struct vr_pending_result *pending = &pipeline->pending[slot];
    if (pending->block) {
        free_block(pipeline, slot, pending->block);
    }
    pending->block = 0;
}

static struct vr_part part_of(const struct vr_pending_result *pending) {
    return (struct vr_part){pending->rows, pending->columns * sizeof(float),
                            pending->stride * sizeof(float)};
}

/* Fetches a small result at once: no thread waits for it. */
static vram_status fetch_small(struct vr_pipeline *pipeline, uint32_t slot) {
    struct vr_pending_result *pending = &pipeline->pending[slot];
    struct vr_part part = part_of(pending);
    bool taken;
    vram_status status =
        vr_bounce_fetch(pipeline, slot, pending->block, pending->to, &part, &taken);
    if (taken) {
        count_down(pipeline, part.rows * part.row_bytes);
        settle_result(pipeline, slot);
    }
    return status;
}

/* Fetches the slot's pending result: keeps (2). A result that could not be fetched stays pending:
   keeps (5). */
static vram_status fetch_result(struct vr_pipeline *pipeline, uint32_t slot) {
    struct vr_pending_result *pending = &pipeline->pending[slot];
    vram_status status = VRAM_OK;
    if (pending->block) {
        struct vr_part part = part_of(pending);
        uint64_t bytes = part.rows * part.row_bytes;
        count_down(pipeline, bytes);
        if (part.stride_bytes == part.row_bytes || part.rows == 1) {
            status = vram_transfer_download(vr_pipeline_queue(pipeline, slot), pending->to,
                                            pending->block, bytes, NULL, NULL);
        } else {
            status =
                copy_gathered(pipeline, slot, pending->block, (char *)pending->to, &part, false);
        }
        if (status == VRAM_OK) {
            settle_result(pipeline, slot);
        }
    }
    return status;
}

/* -------------------------------------------------------------------------- B */

static void drop_b(struct vr_pipeline *pipeline) {
    if (pipeline->b_block) {
        free_block(pipeline, pipeline->b_slot, pipeline->b_block);
    }
    pipeline->b_block = 0;
    pipeline->b_of = NULL;
}

/* Makes columns [first, first + columns) of B available: sends them, unless they are there. */
static vram_status send_b(struct vr_pipeline *pipeline, const struct vr_product *product,
                          uint32_t slot, uint64_t first, uint64_t columns) {
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
    vram_status status =
        alloc_block(pipeline, slot, part.rows * part.row_bytes, &pipeline->b_block);
    if (status != VRAM_OK) {
        return status;
    }
    pipeline->b_slot = slot;
    pipeline->b_of = NULL; /* set once it is submitted */
    pipeline->b_seen = 1u << slot;
    pipeline->b_point = (vram_point){0};
    status = send_part(pipeline, slot, pipeline->b_block, from, &part);
    if (status == VRAM_OK && pipeline->queue_count > 1 && !pipeline->alone) {
        status = vram_queue_mark(vr_pipeline_queue(pipeline, slot), &pipeline->b_point);
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

/* Keeps (3) for a slot that did not send B. */
static vram_status await_b(struct vr_pipeline *pipeline, uint32_t slot) {
    if (!pipeline->b_block || pipeline->b_seen >> slot & 1) {
        return VRAM_OK;
    }
    pipeline->b_seen |= 1u << slot;
    return vram_queue_after(vr_pipeline_queue(pipeline, slot), pipeline->b_point);
}

/* Keeps (3), whatever became of the slot's product: if the pool cannot be told that the slot uses
   B, waits for the slot. If that fails as well, B stays where it is until the slots are known to be
   idle. */
static vram_status note_use(struct vr_pipeline *pipeline, uint32_t slot, vram_status status) {
    struct vram_error error;
    vr_error_save(&error);
    vram_status told = vram_use(pipeline->b_block, vr_pipeline_queue(pipeline, slot));
    if (told == VRAM_OK) {
        return status;
    }
    vram_status waited = vr_scheduler_wait(pipeline->scheduler, vr_pipeline_queue(pipeline, slot));
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

/* Makes the rows of A available on the device; *block is 0 if they are there already. */
static vram_status send_a(struct vr_pipeline *pipeline, const struct vr_product *product,
                          uint32_t slot, const struct tile *tile, vram_addr *block) {
    *block = 0;
    if (!product->a) {
        return VRAM_OK;
    }
    uint64_t stride = (product->trans_a ? product->m : product->k) * product->each;
    struct vr_part part = {product->trans_a ? product->k : tile->rows,
                           (product->trans_a ? tile->rows : product->k) * product->each, stride};
    const char *from =
        (const char *)product->a + tile->row * (product->trans_a ? product->each : stride);
    vram_status status = alloc_block(pipeline, slot, part.rows * part.row_bytes, block);
    return status == VRAM_OK ? send_part(pipeline, slot, *block, from, &part) : status;
}

/* The product of a tile whose operands are on the device. */
static struct vr_device_gemm tile_gemm(const struct vr_pipeline *pipeline,
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
                            uint32_t slot, const struct tile *tile) {
    vram_addr a = 0, c = 0;
    vram_status status = fetch_result(pipeline, slot);
    bool submitted = false;
    if (status == VRAM_OK) {
        status = send_a(pipeline, product, slot, tile, &a);
    }
    if (status == VRAM_OK && product->c) {
        status = alloc_block(pipeline, slot, tile->rows * tile->columns * sizeof(float), &c);
    }
    if (status == VRAM_OK) {
        status = await_b(pipeline, slot);
    }
    if (status == VRAM_OK) {
        VR_UNCANCELLED;
        struct vr_device_gemm gemm = tile_gemm(pipeline, product, tile, a, c);
        pipeline->used |= 1u << slot;
        submitted = true; /* a library that fails may have submitted work */
        status = pipeline->arithmetic->provider->submit(pipeline->arithmetic, slot,
                                                        vr_pipeline_queue(pipeline, slot), &gemm);
    }
    if (submitted && pipeline->b_block && slot != pipeline->b_slot) {
        status = note_use(pipeline, slot, status);
    }
    free_block(pipeline, slot, a);
    if (status != VRAM_OK) {
        free_block(pipeline, slot, c);
        return status;
    }
    vr_counter_add(&pipeline->scheduler->counters.tiles, 1);
    if (c) {
        pipeline->pending[slot] =
            (struct vr_pending_result){c, product->c + tile->row * product->n + tile->column,
                                       tile->rows, tile->columns, product->n};
        status = fetch_small(pipeline, slot);
    }
    return status;
}

/* Waits for all slots with work, and delivers small results. Returns the first failure, but keeps
   (4). */
static vram_status wait_for_all(struct vr_pipeline *pipeline) {
    struct vram_error error;
    vram_status status = VRAM_OK;
    vr_error_save(&error);
    for (uint32_t i = 0; i < pipeline->queue_count; i++) {
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
            status = send_b(pipeline, product, pipeline->next, j, columns);
            vr_counter_add(&pipeline->scheduler->counters.shared_operands,
                           had && j == 0 && columns == product->n ? 1 : 0);
        } else {
            drop_b(pipeline);
        }
        for (uint64_t i = 0; status == VRAM_OK && i < product->m; i += plan->tile_m) {
            struct tile tile = {i, product->m - i < plan->tile_m ? product->m - i : plan->tile_m, j,
                                columns};
            uint32_t slot = pipeline->next;
            pipeline->next = (slot + 1) % pipeline->queue_count;
            status = add_tile(pipeline, product, slot, &tile);
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
    uint32_t queues = scheduler->queue_count;
    memset(pipeline, 0, sizeof *pipeline);
    pipeline->scheduler = scheduler;
    pipeline->arithmetic = arithmetic;
    pipeline->only = only;
    pipeline->queue_count = only ? 1 : queues;
    /* Each thread begins at a slot of its own, where its caches have what it freed. */
    pipeline->next = only ? 0 : (uint32_t)(vr_os_thread_number() % queues);
}

vram_status vr_pipeline_end(struct vr_pipeline *pipeline, vram_status status) {
    struct vram_error error;
    vr_error_save(&error);
    status = status == VRAM_OK ? pipeline->lost : status; /* keeps (5) */
    for (uint32_t i = 0; i < pipeline->queue_count; i++) {
        vram_status fetched = status == VRAM_OK ? fetch_result(pipeline, i) : VRAM_OK;
        if (fetched != VRAM_OK) {
            status = fetched;
            vr_error_save(&error);
        }
        settle_result(pipeline, i);
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

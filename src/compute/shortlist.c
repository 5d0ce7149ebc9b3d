/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shortlist.c: a search on the device from end to end.
 *
 *   lane 0   queries --> turned, measured
 *   lane 0   tile 0 --> turned, measured --> product --> its best into lane 0's lists  tile 3 ...
 *   lane 1        tile 1 --> turned, measured --> product --> its best into lane 1's lists   ...
 *   lane 2             tile 2 --> ...
 *                           at the end: the lists of all lanes, merged on the host
 *
 *  (1) A lane is a queue, and has lists of its own. Its tiles come in the order of the corpus, so
 *      what is in a list has lower numbers than what comes, and wins where distances are equal.
 *  (2) All queries of a pass are on the device, in blocks; lane 0 brings them, the others wait for
 *      its point, and the pool is told that they use them. More queries than have room there take
 *      more passes.
 *  (3) The device computes in single precision with numbers whose squares and their sums are far
 *      from its ends. A kernel tells where they are not, and then the search goes the other way as
 *      if this one had never been.
 *  (4) What is not finite counts as 0 here. A kernel tells that too: where it is to be refused, the
 *      host looks for the first such number, by the rules and in the words of metric.c.
 *  (5) When device memory runs out: cleanup, tiles of half the size, as long as there are, then the
 *      other way.
 */
#include "compute/shortlist.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "compute/metric.h"
#include "vram/pressure.h"
#include "vram/transfer.h"

#include <string.h>

enum {
    QUERIES_MAX = 16384, /* of a block */
    CORPUS_MAX = 32768,  /* vectors of a tile */
    BLOCKS_MAX = 16,     /* blocks of queries of a pass */
    LINES = 64,          /* what tiles are multiples of, if they are larger */
    HALVES = 8           /* what a row of halves is a multiple of: libraries like 16 bytes */
};

#define PRODUCT_BYTES (UINT64_C(256) << 20) /* that a lane's products may have */
#define OPERAND_BYTES (UINT64_C(64) << 20)  /* that a tile or a block of vectors may have */

/* Vectors on the device. */
struct vectors {
    uint64_t first, count;
    vram_addr raw;     /* as they were sent; what products take in single precision */
    vram_addr values;  /* halves; 0: raw */
    vram_addr lengths; /* one for each */
};

/* Queries of a pass, and what each lane has found for them. */
struct block {
    struct vectors queries;
    vram_addr best[VR_LANES_MAX];
    uint32_t begun; /* bit i: the lists of lane i have something */
};

struct shortlist {
    const struct vr_search *search;
    const struct vr_shortlist_kernels *kernels;
    struct vr_pipeline pipeline;
    uint64_t query_rows, corpus_rows; /* of a block and of a tile */
    uint64_t pass_bytes;              /* that the queries of a pass may have */
    uint64_t stride;                  /* elements of a vector in products */
    vram_precision stored;
    uint32_t k;
    struct block blocks[BLOCKS_MAX];
    uint32_t block_count;
    vram_addr found[VR_LANES_MAX];
    vram_point ready; /* the queries are there; (2) */
    uint32_t seen;    /* bit i: lane i has waited for it */
    uint64_t tiles;
    bool unfit; /* (3) */
    bool odd;   /* (4) */
};

/* ------------------------------------------------------------------------ sizes */

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* As many lines as there are, or as have room, in multiples that kernels like. */
static uint64_t lines_of(uint64_t all, uint64_t room) {
    uint64_t even = room > LINES ? room / LINES * LINES : room;
    return all <= room ? all : even ? even : 1;
}

/* A quarter of the memory for products, an eighth for queries, a sixteenth for tiles, each lane its
   share. */
static void plan(struct shortlist *list, const struct vr_scheduler *scheduler) {
    const struct vram_distance *distance = list->search->distance;
    const struct vram_device_info *info = &scheduler->info;
    uint64_t all = info->memory_bytes.known && info->memory_bytes.value ? info->memory_bytes.value
                                                                        : UINT64_MAX;
    uint64_t block = info->alloc_max.known && info->alloc_max.value ? info->alloc_max.value : all;
    all = scheduler->device_bytes ? least(all, scheduler->device_bytes) : all;
    uint64_t share = all / scheduler->lane_count;
    uint64_t results = least(least(PRODUCT_BYTES, share / 4), block) / sizeof(float);
    uint64_t operand = least(least(OPERAND_BYTES, share / 16), block);
    uint64_t fit = operand / (distance->dim * sizeof(float));
    list->query_rows = lines_of(distance->queries, least(least(QUERIES_MAX, fit), results / LINES));
    list->corpus_rows =
        lines_of(list->search->count, least(least(CORPUS_MAX, fit), results / list->query_rows));
    list->pass_bytes = all / 8;
}

/* False: they are as small as they get. */
static bool shrink(struct shortlist *list) {
    if (list->query_rows <= LINES && list->corpus_rows <= LINES) {
        return false;
    }
    uint64_t *larger =
        list->query_rows > list->corpus_rows ? &list->query_rows : &list->corpus_rows;
    *larger = lines_of(*larger, *larger / 2);
    list->pass_bytes /= 2;
    return true;
}

/* ---------------------------------------------------------------------- vectors */

static vram_queue *queue_of(const struct shortlist *list, uint32_t lane) {
    return list->pipeline.scheduler->lanes[lane];
}

/* Brings vectors to the device by a lane, and has them turned and measured. */
static vram_status bring(struct shortlist *list, uint32_t lane, const float *from,
                         struct vectors *vectors) {
    struct vr_pipeline *pipeline = &list->pipeline;
    uint64_t dim = list->search->distance->dim, bytes = vectors->count * dim * sizeof(float);
    vram_status status = vr_pipeline_alloc(pipeline, lane, bytes, &vectors->raw);
    if (status == VRAM_OK && list->stored != VRAM_PRECISION_FP32) {
        status = vr_pipeline_alloc(pipeline, lane, vectors->count * list->stride * sizeof(uint16_t),
                                   &vectors->values);
    }
    if (status == VRAM_OK) {
        status = vr_pipeline_alloc(pipeline, lane, vectors->count * VR_SHORTLIST_LENGTH,
                                   &vectors->lengths);
    }
    if (status == VRAM_OK) {
        status = vr_pipeline_send(pipeline, lane, vectors->raw, from + vectors->first * dim, bytes);
    }
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_vectors_launch launch = {.from = vectors->raw,
                                       .to = vectors->values ? vectors->values : vectors->raw,
                                       .lengths = vectors->lengths,
                                       .found = list->found[lane],
                                       .rows = (uint32_t)vectors->count,
                                       .dim = (uint32_t)dim,
                                       .stride = (uint32_t)list->stride,
                                       .precision = list->search->precision,
                                       .metric = list->search->distance->metric};
    status = vr_vectors_launch(list->kernels, queue_of(list, lane), &launch);
    if (status == VRAM_OK && vectors->values) { /* halves are all that is needed from here on */
        vr_pipeline_free(pipeline, lane, vectors->raw);
        vectors->raw = 0;
    }
    return status;
}

static void drop(struct shortlist *list, uint32_t lane, struct vectors *vectors) {
    vr_pipeline_free(&list->pipeline, lane, vectors->raw);
    vr_pipeline_free(&list->pipeline, lane, vectors->values);
    vr_pipeline_free(&list->pipeline, lane, vectors->lengths);
    vectors->raw = vectors->values = vectors->lengths = 0;
}

/* A lane that has not worked yet gets words for what its kernels find. */
static vram_status open_lane(struct shortlist *list, uint32_t lane) {
    const uint64_t bytes = VR_SHORTLIST_FOUND_WORDS * sizeof(uint32_t);
    if (list->found[lane]) {
        return VRAM_OK;
    }
    vram_status status = vr_pipeline_alloc(&list->pipeline, lane, bytes, &list->found[lane]);
    if (status == VRAM_OK) {
        list->pipeline.used |= 1u << lane;
        status =
            vram_queue_fill(queue_of(list, lane), list->found[lane], 0, sizeof(uint32_t), bytes);
    }
    return status;
}

/* Queries from `first` on, as many as a pass takes, by lane 0. */
static vram_status bring_queries(struct shortlist *list, uint64_t first) {
    const struct vram_distance *distance = list->search->distance;
    uint64_t each = distance->dim * sizeof(float) + list->k * sizeof(uint64_t), bytes = 0;
    vram_status status = open_lane(list, 0);
    while (status == VRAM_OK && first < distance->queries && list->block_count < BLOCKS_MAX &&
           (!list->block_count || bytes <= list->pass_bytes)) {
        struct vectors *queries = &list->blocks[list->block_count++].queries;
        queries->first = first;
        queries->count = least(distance->queries - first, list->query_rows);
        status = bring(list, 0, distance->query, queries);
        first += queries->count;
        bytes += queries->count * each;
    }
    if (status == VRAM_OK) {
        list->seen = 1;
        status = vram_queue_mark(queue_of(list, 0), &list->ready);
    }
    return status;
}

/* ------------------------------------------------------------------------ tiles */

static struct vr_matrix matrix_of(const struct vectors *vectors) {
    return (struct vr_matrix){vectors->values ? vectors->values : vectors->raw, 0};
}

/* The products of a tile and a block, and their best into the lane's lists. */
static vram_status meet(struct shortlist *list, uint32_t lane, struct block *block,
                        const struct vectors *tile, vram_addr products) {
    struct vr_arithmetic *arithmetic = list->pipeline.arithmetic;
    vram_queue *queue = queue_of(list, lane);
    const struct vectors *queries = &block->queries;
    uint64_t stride = (list->corpus_rows + 3) / 4 * 4;
    struct vr_device_gemm gemm = {.m = queries->count,
                                  .n = tile->count,
                                  .k = list->search->distance->dim,
                                  .a = matrix_of(queries),
                                  .b = matrix_of(tile),
                                  .c = {products, 0},
                                  .lda = list->stride,
                                  .ldb = list->stride,
                                  .ldc = stride,
                                  .trans_b = true,
                                  .precision = list->stored};
    struct vr_shortlist_launch launch = {.products = products,
                                         .queries = queries->lengths,
                                         .corpus = tile->lengths,
                                         .rows = (uint32_t)queries->count,
                                         .columns = (uint32_t)tile->count,
                                         .stride = (uint32_t)stride,
                                         .k = list->k,
                                         .place = (uint32_t)(tile->first - list->search->first),
                                         .empty = !(block->begun >> lane & 1),
                                         .precision = list->search->precision,
                                         .metric = list->search->distance->metric};
    vram_status status = VRAM_OK;
    if (!block->best[lane]) {
        status = vr_pipeline_alloc(&list->pipeline, lane,
                                   queries->count * list->k * sizeof(uint64_t), &block->best[lane]);
    }
    if (status == VRAM_OK) {
        VR_UNCANCELLED;
        status = arithmetic->provider->submit(arithmetic, lane, queue, &gemm);
    }
    if (status == VRAM_OK) {
        launch.best = block->best[lane];
        status = vr_shortlist_launch(list->kernels, queue, &launch);
    }
    if (status == VRAM_OK) {
        block->begun |= 1u << lane;
        list->tiles++;
    }
    return status;
}

/* Keeps (2) for a lane that has begun, whatever became of its work: when the pool cannot be told,
   the lane is waited for. If that fails as well the queries stay where they are until the lanes are
   seen to be through. */
static vram_status share(struct shortlist *list, uint32_t lane, struct vectors *queries,
                         vram_status status) {
    const vram_addr used[] = {queries->raw, queries->values, queries->lengths};
    struct vram_error error;
    vram_status told = VRAM_OK;
    vr_error_save(&error);
    for (int i = 0; told == VRAM_OK && lane != 0 && i < 3; i++) {
        told = used[i] ? vram_use(used[i], queue_of(list, lane)) : VRAM_OK;
    }
    if (told == VRAM_OK) {
        return status;
    }
    vram_status waited = vr_scheduler_wait(list->pipeline.scheduler, queue_of(list, lane));
    if (vr_wait_leaves_work(waited)) {
        for (int i = 0; i < 3; i++) {
            vr_scratch_keep_block(list->pipeline.scheduler, used[i], NULL);
        }
        queries->raw = queries->values = queries->lengths = 0;
    }
    if (status != VRAM_OK || waited == VRAM_OK) {
        vr_error_restore(&error);
        return status;
    }
    return waited;
}

static vram_status add_tile(struct shortlist *list, uint32_t lane, struct vectors *tile) {
    uint64_t rows = list->blocks[0].queries.count, stride = (list->corpus_rows + 3) / 4 * 4;
    vram_addr products = 0;
    vram_status status = open_lane(list, lane);
    if (status == VRAM_OK) {
        status = bring(list, lane, list->search->distance->corpus, tile);
    }
    if (status == VRAM_OK) {
        status = vr_pipeline_alloc(&list->pipeline, lane, rows * stride * sizeof(float), &products);
    }
    if (status == VRAM_OK && !(list->seen >> lane & 1)) {
        list->seen |= 1u << lane;
        status = vram_queue_after(queue_of(list, lane), list->ready);
    }
    for (uint32_t i = 0; status == VRAM_OK && i < list->block_count; i++) {
        status = meet(list, lane, &list->blocks[i], tile, products);
        status = share(list, lane, &list->blocks[i].queries, status);
    }
    vr_pipeline_free(&list->pipeline, lane, products);
    drop(list, lane, tile);
    return status;
}

static vram_status add_tiles(struct shortlist *list) {
    uint64_t first = list->search->first, end = first + list->search->count;
    vram_status status = VRAM_OK;
    for (uint64_t at = first; status == VRAM_OK && at < end; at += list->corpus_rows) {
        struct vectors tile = {.first = at, .count = least(end - at, list->corpus_rows)};
        uint32_t lane = list->pipeline.next;
        list->pipeline.next = (lane + 1) % list->pipeline.lane_count;
        status = add_tile(list, lane, &tile);
    }
    return status;
}

/* ---------------------------------------------------------------------- results */

/* By scratch memory of the call's: *waited says whether it may be freed. */
static vram_status fetch(struct shortlist *list, uint32_t lane, void *to, vram_addr from,
                         uint64_t bytes, vram_status *waited) {
    vram_queue *queue = queue_of(list, lane);
    vr_counter_add(&list->pipeline.scheduler->counters.downloads, 1);
    vr_counter_add(&list->pipeline.scheduler->counters.downloaded_bytes, bytes);
    vram_status status = vram_transfer_download(queue, to, from, bytes, NULL, NULL);
    *waited = vr_scheduler_wait(list->pipeline.scheduler, queue);
    return status == VRAM_OK ? *waited : status;
}

/* What the kernels of a lane have found. */
static vram_status look(struct shortlist *list, uint32_t lane, uint32_t *found,
                        vram_status *waited) {
    vram_status status = fetch(list, lane, found, list->found[lane],
                               VR_SHORTLIST_FOUND_WORDS * sizeof *found, waited);
    if (status == VRAM_OK) {
        list->odd |= found[0] != 0;
        list->unfit |= found[1] != 0;
    }
    return status;
}

static void unpack(const struct shortlist *list, const struct vectors *queries,
                   const uint64_t *places) {
    bool largest = list->search->distance->metric == VRAM_METRIC_INNER_PRODUCT;
    for (uint64_t q = 0; q < queries->count; q++) {
        struct vr_nearest *nearest = &list->search->nearest[queries->first + q];
        for (uint32_t i = 0; i < list->k; i++) {
            uint64_t place = places[q * list->k + i];
            if (place == VR_SHORTLIST_NONE) {
                break;
            }
            vr_nearest_add(nearest, vr_shortlist_value((uint32_t)(place >> 32), largest),
                           list->search->first + (uint32_t)place);
        }
    }
}

/* The lists of all lanes become one. */
static vram_status fetch_lists(struct shortlist *list) {
    uint32_t lanes = list->pipeline.lane_count, lane = 0;
    uint64_t count = list->blocks[0].queries.count * list->k; /* no block is larger */
    uint64_t *places = vr_scratch_alloc(count, sizeof *places);
    vram_status status = places ? VRAM_OK : VRAM_ERR_HOST_MEMORY, waited = VRAM_OK;
    for (uint32_t i = 0; status == VRAM_OK && i < lanes; i++) {
        lane = i;
        status = list->found[i] ? look(list, i, (uint32_t *)places, &waited) : VRAM_OK;
    }
    for (uint32_t i = 0; status == VRAM_OK && !list->unfit && i < list->block_count * lanes; i++) {
        const struct block *block = &list->blocks[i / lanes];
        lane = i % lanes;
        if (block->begun >> lane & 1) {
            status = fetch(list, lane, places, block->best[lane],
                           block->queries.count * list->k * sizeof *places, &waited);
            if (status == VRAM_OK) {
                unpack(list, &block->queries, places);
            }
        }
    }
    vr_scratch_free(list->pipeline.scheduler, places, queue_of(list, lane), waited);
    return status;
}

/* ----------------------------------------------------------------------- passes */

static void let_go(struct shortlist *list) {
    for (uint32_t lane = 0; lane < VR_LANES_MAX; lane++) {
        for (uint32_t i = 0; i < list->block_count; i++) {
            vr_pipeline_free(&list->pipeline, lane, list->blocks[i].best[lane]);
        }
        vr_pipeline_free(&list->pipeline, lane, list->found[lane]);
    }
    for (uint32_t i = 0; i < list->block_count; i++) {
        drop(list, 0, &list->blocks[i].queries);
    }
    memset(list->blocks, 0, sizeof list->blocks);
    memset(list->found, 0, sizeof list->found);
    list->block_count = 0;
}

/* Queries from *first on, as many as have room, against all of the corpus. */
static vram_status pass(struct shortlist *list, struct vr_scheduler *scheduler,
                        struct vr_arithmetic *arithmetic, uint64_t *first) {
    vr_pipeline_begin(&list->pipeline, scheduler, arithmetic, NULL);
    list->pipeline.next = 0;
    vram_status status = bring_queries(list, *first);
    if (status == VRAM_OK) {
        status = add_tiles(list);
    }
    if (status == VRAM_OK) {
        status = fetch_lists(list);
    }
    for (uint32_t i = 0; i < list->block_count; i++) {
        *first += list->blocks[i].queries.count;
    }
    struct vram_error error;
    vr_error_save(&error);
    let_go(list);
    vr_error_restore(&error);
    return vr_pipeline_end(&list->pipeline, status);
}

static vram_status attempt(struct shortlist *list, struct vr_scheduler *scheduler,
                           struct vr_arithmetic *arithmetic) {
    const struct vr_search *search = list->search;
    vram_status status = VRAM_OK;
    for (uint64_t q = 0; q < search->distance->queries; q++) {
        search->nearest[q].count = 0;
    }
    list->tiles = 0;
    list->odd = list->unfit = false;
    for (uint64_t first = 0;
         status == VRAM_OK && !list->unfit && first < search->distance->queries;) {
        status = pass(list, scheduler, arithmetic, &first);
        if (status == VRAM_OK && list->odd &&
            search->distance->nonfinite == VRAM_NONFINITE_REJECT) {
            status = vr_search_inspect(search); /* keeps (4) */
            list->unfit = true;                 /* whoever changes vectors meanwhile */
        }
    }
    return status;
}

/* Keeps (5); *done: the nearest are found. */
static vram_status run(struct shortlist *list, struct vr_scheduler *scheduler,
                       struct vr_arithmetic *arithmetic, bool *done) {
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = attempt(list, scheduler, arithmetic);
    if (vram_status_is_exhausted(status)) {
        uint64_t bytes;
        (void)vram_device_trim(scheduler->device, NULL, &bytes);
        status = attempt(list, scheduler, arithmetic);
    }
    while (vram_status_is_exhausted(status) && shrink(list)) {
        vr_counter_add(&scheduler->counters.shrinks, 1);
        status = attempt(list, scheduler, arithmetic);
    }
    if (vram_status_is_exhausted(status) || status == VRAM_ERR_UNSUPPORTED) {
        vr_error_restore(&error);
        return VRAM_OK;
    }
    *done = status == VRAM_OK && !list->unfit;
    if (status == VRAM_OK) {
        vr_error_restore(&error);
    }
    return status;
}

/* Whether the rule has such products on the device, results that stay there. */
static vram_status decide(struct vr_scheduler *scheduler, const struct shortlist *list, bool *there,
                          vram_reason *reason) {
    const struct vram_distance *distance = list->search->distance;
    struct vram_matmul_plan plan;
    struct vr_product product = {.m = list->query_rows,
                                 .k = distance->dim,
                                 .n = list->corpus_rows,
                                 .precision = list->stored,
                                 .each = vram_precision_bytes(list->stored),
                                 .a = distance->query,
                                 .b = distance->corpus,
                                 .trans_b = true,
                                 .place = distance->place ? distance->place : scheduler->place};
    vram_status status = vr_decide(scheduler, &product, &plan);
    *there = status == VRAM_OK && plan.place == VRAM_PLACE_DEVICE;
    *reason = plan.reason;
    return status == VRAM_ERR_UNSUPPORTED ? VRAM_OK : status; /* which the other way says too */
}

vram_status vr_shortlist_run(struct vr_scheduler *scheduler, const struct vr_search *search,
                             bool *done) {
    const struct vram_distance *distance = search->distance;
    struct vr_shortlist_kernels *kernels;
    struct vr_arithmetic *arithmetic;
    struct shortlist list = {.search = search};
    vram_reason reason;
    bool there;
    if (!search->nearest || distance->distances || search->nearest[0].room > VR_SHORTLIST_MAX ||
        search->count > UINT32_MAX || distance->dim > INT32_MAX) {
        return VRAM_OK;
    }
    bool single = search->precision == VRAM_PRECISION_FP32;
    list.stored = single ? VRAM_PRECISION_FP32 : VRAM_PRECISION_FP16;
    list.stride = single ? distance->dim : (distance->dim + HALVES - 1) / HALVES * HALVES;
    list.k = (uint32_t)search->nearest[0].room;
    plan(&list, scheduler);
    vram_status status = decide(scheduler, &list, &there, &reason);
    if (status != VRAM_OK || !there) {
        return status;
    }
    status = vr_scheduler_arithmetic(scheduler, &arithmetic);
    if (status == VRAM_OK) {
        status = vr_shortlist_open(scheduler, &kernels);
    }
    if (status != VRAM_OK || !kernels->vectors) {
        return vram_status_is_exhausted(status) ? VRAM_OK : status;
    }
    list.kernels = kernels;
    status = vr_scheduler_stale(scheduler, run(&list, scheduler, arithmetic, done));
    if (*done) {
        vr_counter_add(&scheduler->counters.device_products, list.tiles);
        vr_counter_add(&scheduler->counters.tiles, list.tiles);
        vr_store(&scheduler->counters.last, (uint64_t)VRAM_PLACE_DEVICE << 8 | (uint64_t)reason,
                 VR_RELAXED);
    } else if (status != VRAM_OK) {
        vr_counter_add(&scheduler->counters.failures, 1);
    }
    return status;
}

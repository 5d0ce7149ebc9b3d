/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shortlist.c: a search that runs completely on the device.
 *
 *   slot 0   queries --> converted, measured
 *   slot 0   tile 0 --> converted, measured --> product --> its best to slot 0's lists   tile 3 ...
 *   slot 1        tile 1 --> converted, measured --> product --> its best to slot 1's lists   ...
 *   slot 2             tile 2 --> ...
 *                           at the end: the host merges the lists of all slots
 *
 *  (1) A slot is one queue of the pipeline, and has lists of its own. Its tiles are in the order of
 *      the corpus, so entries in a list have lower numbers than new ones, and win if distances are
 *      equal.
 *  (2) All queries of a pass are on the device, in blocks. Slot 0 sends them; the other slots wait
 *      for its point, and the pool is told that they use them. If not all queries fit, there are
 *      more passes.
 *  (3) The device computes in single precision with numbers whose squares and sums are far from its
 *      limits. A kernel reports if they are not; then the search is done by tiles, as if this one
 *      had not run.
 *  (4) Numbers that are not finite count as 0 here, those beyond 8 bits as the nearest that is
 *      not. A kernel reports them: if they are to be refused, the host finds the first such number,
 *      by the rules and with the text of metric.c.
 *  (5) When device memory runs out: cleanup, tiles of half the size, as long as possible, then the
 *      search by tiles.
 */
#include "compute/shortlist.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "compute/metric.h"
#include "vram/pressure.h"
#include "vram/transfer.h"

#include <assert.h>
#include <string.h>

enum {
    QUERIES_MAX = 2048, /* of a block; fewer queries and larger tiles: fewer lists are merged */
    CORPUS_MAX = 32768, /* vectors of a tile */
    BLOCKS_MAX = 128,   /* blocks of queries of a pass */
    LINES = 64,         /* larger tiles are multiples of this */
    ROW_BYTES = 16      /* a converted row is a multiple of this, which libraries prefer */
};

#define PRODUCT_BYTES (UINT64_C(256) << 20) /* the most bytes of a slot's products */
#define OPERAND_BYTES (UINT64_C(64) << 20)  /* the most bytes of a tile or a block of vectors */

/* Vectors on the device. */
struct device_vectors {
    uint64_t first, count;
    vram_addr raw;    /* as sent; used by exact distances */
    vram_addr values; /* used by products; 0: use raw */
    vram_addr terms;  /* one for each vector */
};

/* Queries of a pass, and what each slot has found for them. */
struct query_block {
    struct device_vectors queries;
    vram_addr best[VR_QUEUES_MAX];
    uint32_t begun; /* bit i: the lists of slot i are not empty */
};

struct shortlist {
    struct vr_search *search;
    const struct vr_shortlist_kernels *kernels;
    struct vr_pipeline pipeline;
    uint64_t query_rows, corpus_rows; /* of a block and of a tile */
    uint64_t pass_bytes;              /* the most bytes of the queries of a pass */
    uint64_t stride;                  /* numbers of a vector as products use it */
    uint64_t steps;                   /* of them that products sum over */
    vram_precision stored;
    uint32_t k;
    struct query_block blocks[BLOCKS_MAX];
    uint32_t block_count;
    vram_addr found[VR_QUEUES_MAX], centre[VR_QUEUES_MAX];
    vram_point ready; /* behind the upload of the queries; (2) */
    uint32_t seen;    /* bit i: slot i has waited for it */
    uint64_t tiles;
    bool out_of_range;          /* (3) */
    bool not_finite;            /* (4) */
    bool seen_corpus;           /* a pass has ended: the corpus has been counted */
    uint32_t longest, shortest; /* bits, as kernels report them */
};

/* ------------------------------------------------------------------------ sizes */

static uint64_t least_of(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* As many lines as there are or fit, in multiples that kernels prefer. */
static uint64_t lines_of(uint64_t all, uint64_t fitting) {
    uint64_t even = fitting > LINES ? fitting / LINES * LINES : fitting;
    return all <= fitting ? all : even ? even : 1;
}

/* A quarter of the memory for products, an eighth for queries, a sixteenth for tiles, shared
   equally by the slots. */
static void plan_sizes(struct shortlist *list, const struct vr_scheduler *scheduler) {
    const struct vram_distance *distance = list->search->distance;
    const struct vram_device_info *info = &scheduler->info;
    uint64_t all = info->memory_bytes.known && info->memory_bytes.value ? info->memory_bytes.value
                                                                        : UINT64_MAX;
    uint64_t block = info->alloc_max.known && info->alloc_max.value ? info->alloc_max.value : all;
    all = scheduler->device_bytes ? least_of(all, scheduler->device_bytes) : all;
    uint64_t share = all / scheduler->queue_count;
    uint64_t results = least_of(least_of(PRODUCT_BYTES, share / 4), block) / sizeof(float);
    uint64_t operand = least_of(least_of(OPERAND_BYTES, share / 16), block);
    uint64_t fit = operand / (distance->dim * sizeof(float));
    list->query_rows =
        lines_of(distance->queries, least_of(least_of(QUERIES_MAX, fit), results / LINES));
    list->corpus_rows = lines_of(list->search->count,
                                 least_of(least_of(CORPUS_MAX, fit), results / list->query_rows));
    list->pass_bytes = all / 8;
}

/* False: they cannot be smaller. */
static bool shrink_sizes(struct shortlist *list) {
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

static vram_queue *queue_of(const struct shortlist *list, uint32_t slot) {
    return list->pipeline.scheduler->queues[slot];
}

/* Sends vectors to the device by a slot, and submits their conversion. */
static vram_status send_vectors(struct shortlist *list, uint32_t slot, bool queries,
                                struct device_vectors *vectors) {
    struct vr_pipeline *pipeline = &list->pipeline;
    const struct vr_conversion *how = &list->search->how;
    const struct vram_distance *distance = list->search->distance;
    const float *from = (queries ? distance->query : distance->corpus) + vectors->first * how->dim;
    uint64_t bytes = vectors->count * how->dim * sizeof(float);
    vram_status status = vr_pipeline_alloc(pipeline, slot, bytes, &vectors->raw);
    if (status == VRAM_OK && (list->stored != VRAM_PRECISION_FP32 || how->centre)) {
        status = vr_pipeline_alloc(
            pipeline, slot, vectors->count * list->stride * vram_precision_bytes(list->stored),
            &vectors->values);
    }
    if (status == VRAM_OK) {
        status =
            vr_pipeline_alloc(pipeline, slot, vectors->count * VR_SHORTLIST_TERM, &vectors->terms);
    }
    if (status == VRAM_OK) {
        status = vr_pipeline_send(pipeline, slot, vectors->raw, from, bytes);
    }
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_vectors_launch launch = {.from = vectors->raw,
                                       .to = vectors->values ? vectors->values : vectors->raw,
                                       .terms = vectors->terms,
                                       .found = list->found[slot],
                                       .centre = list->centre[slot],
                                       .rows = (uint32_t)vectors->count,
                                       .dim = (uint32_t)how->dim,
                                       .stride = (uint32_t)list->stride,
                                       .stored = list->stored,
                                       .precision = how->precision,
                                       .metric = how->metric,
                                       .scale = how->scale,
                                       .queries = queries};
    return vr_vectors_launch(list->kernels, queue_of(list, slot), &launch);
}

static void drop_vectors(struct shortlist *list, uint32_t slot, struct device_vectors *vectors) {
    vr_pipeline_free(&list->pipeline, slot, vectors->raw);
    vr_pipeline_free(&list->pipeline, slot, vectors->values);
    vr_pipeline_free(&list->pipeline, slot, vectors->terms);
    vectors->raw = vectors->values = vectors->terms = 0;
}

/* Allocates the words for what the kernels of a slot report, and sends it the centre, at its first
   use. */
static vram_status open_slot(struct shortlist *list, uint32_t slot) {
    const uint64_t bytes = VR_SHORTLIST_FOUND_WORDS * sizeof(uint32_t);
    const struct vr_conversion *how = &list->search->how;
    if (list->found[slot]) {
        return VRAM_OK;
    }
    vram_status status = vr_pipeline_alloc(&list->pipeline, slot, bytes, &list->found[slot]);
    if (status == VRAM_OK) {
        list->pipeline.used |= 1u << slot;
        status =
            vram_queue_fill(queue_of(list, slot), list->found[slot], 0, sizeof(uint32_t), bytes);
    }
    if (status == VRAM_OK && how->centre) {
        status =
            vr_pipeline_alloc(&list->pipeline, slot, how->dim * sizeof(float), &list->centre[slot]);
        if (status == VRAM_OK) {
            status = vr_pipeline_send(&list->pipeline, slot, list->centre[slot], how->centre,
                                      how->dim * sizeof(float));
        }
    }
    return status;
}

/* Sends queries from `first` on, as many as a pass takes, by slot 0. */
static vram_status send_queries(struct shortlist *list, uint64_t first) {
    const struct vram_distance *distance = list->search->distance;
    uint64_t each = distance->dim * sizeof(float) + list->k * sizeof(uint64_t), bytes = 0;
    vram_status status = open_slot(list, 0);
    while (status == VRAM_OK && first < distance->queries && list->block_count < BLOCKS_MAX &&
           (!list->block_count || bytes <= list->pass_bytes)) {
        struct device_vectors *queries = &list->blocks[list->block_count++].queries;
        queries->first = first;
        queries->count = least_of(distance->queries - first, list->query_rows);
        status = send_vectors(list, 0, true, queries);
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

static struct vr_matrix matrix_of(const struct device_vectors *vectors) {
    return (struct vr_matrix){vectors->values ? vectors->values : vectors->raw, 0};
}

/* The products of a tile and a block, and their best into the slot's lists. */
static vram_status rank_tile(struct shortlist *list, uint32_t slot, struct query_block *block,
                             const struct device_vectors *tile, vram_addr products) {
    struct vr_arithmetic *arithmetic = list->pipeline.arithmetic;
    vram_queue *queue = queue_of(list, slot);
    const struct device_vectors *queries = &block->queries;
    uint64_t stride = (list->corpus_rows + 3) / 4 * 4;
    struct vr_device_gemm gemm = {.m = queries->count,
                                  .n = tile->count,
                                  .k = list->steps,
                                  .a = matrix_of(queries),
                                  .b = matrix_of(tile),
                                  .c = {products, 0},
                                  .lda = list->stride,
                                  .ldb = list->stride,
                                  .ldc = stride,
                                  .trans_b = true,
                                  .precision = list->stored};
    const struct vr_conversion *how = &list->search->how;
    struct vr_shortlist_launch launch = {.products = products,
                                         .queries = queries->terms,
                                         .corpus = tile->terms,
                                         .query = queries->raw,
                                         .vector = tile->raw,
                                         .centre = list->centre[slot],
                                         .rows = (uint32_t)queries->count,
                                         .columns = (uint32_t)tile->count,
                                         .stride = (uint32_t)stride,
                                         .k = list->k,
                                         .place = (uint32_t)(tile->first - list->search->first),
                                         .dim = (uint32_t)how->dim,
                                         .metric = how->metric,
                                         .precision = how->precision,
                                         .scale = how->scale,
                                         .empty = !(block->begun >> slot & 1),
                                         .integers = list->stored == VRAM_PRECISION_INT8 &&
                                                     arithmetic->provider->integers};
    vram_status status = VRAM_OK;
    if (!block->best[slot]) {
        status = vr_pipeline_alloc(&list->pipeline, slot,
                                   queries->count * list->k * sizeof(uint64_t), &block->best[slot]);
    }
    if (status == VRAM_OK) {
        VR_UNCANCELLED;
        status = arithmetic->provider->submit(arithmetic, slot, queue, &gemm);
    }
    if (status == VRAM_OK) {
        launch.best = block->best[slot];
        status = vr_shortlist_launch(list->kernels, queue, &launch);
    }
    if (status == VRAM_OK) {
        block->begun |= 1u << slot;
        list->tiles++;
    }
    return status;
}

/* Keeps (2) for a slot that has begun, whatever became of its work: if the pool cannot be told,
   waits for the slot. If that fails as well, the queries stay where they are until the slots are
   known to be idle. */
static vram_status note_use(struct shortlist *list, uint32_t slot, struct device_vectors *queries,
                            vram_status status) {
    const vram_addr used[] = {queries->raw, queries->values, queries->terms};
    struct vram_error error;
    vram_status told = VRAM_OK;
    vr_error_save(&error);
    for (int i = 0; told == VRAM_OK && slot != 0 && i < 3; i++) {
        told = used[i] ? vram_use(used[i], queue_of(list, slot)) : VRAM_OK;
    }
    if (told == VRAM_OK) {
        return status;
    }
    vram_status waited = vr_scheduler_wait(list->pipeline.scheduler, queue_of(list, slot));
    if (vr_wait_leaves_work(waited)) {
        for (int i = 0; i < 3; i++) {
            vr_scratch_keep_block(list->pipeline.scheduler, used[i], NULL);
        }
        queries->raw = queries->values = queries->terms = 0;
    }
    if (status != VRAM_OK || waited == VRAM_OK) {
        vr_error_restore(&error);
        return status;
    }
    return waited;
}

static vram_status add_tile(struct shortlist *list, uint32_t slot, struct device_vectors *tile) {
    uint64_t rows = list->blocks[0].queries.count, stride = (list->corpus_rows + 3) / 4 * 4;
    vram_addr products = 0;
    vram_status status = open_slot(list, slot);
    if (status == VRAM_OK) {
        status = send_vectors(list, slot, false, tile);
    }
    if (status == VRAM_OK) {
        status = vr_pipeline_alloc(&list->pipeline, slot, rows * stride * sizeof(float), &products);
    }
    if (status == VRAM_OK && !(list->seen >> slot & 1)) {
        list->seen |= 1u << slot;
        status = vram_queue_after(queue_of(list, slot), list->ready);
    }
    for (uint32_t i = 0; status == VRAM_OK && i < list->block_count; i++) {
        status = rank_tile(list, slot, &list->blocks[i], tile, products);
        status = note_use(list, slot, &list->blocks[i].queries, status);
    }
    vr_pipeline_free(&list->pipeline, slot, products);
    drop_vectors(list, slot, tile);
    return status;
}

static vram_status add_tiles(struct shortlist *list) {
    uint64_t first = list->search->first, end = first + list->search->count;
    vram_status status = VRAM_OK;
    for (uint64_t at = first; status == VRAM_OK && at < end; at += list->corpus_rows) {
        struct device_vectors tile = {.first = at, .count = least_of(end - at, list->corpus_rows)};
        uint32_t slot = list->pipeline.next;
        list->pipeline.next = (slot + 1) % list->pipeline.queue_count;
        status = add_tile(list, slot, &tile);
    }
    return status;
}

/* ---------------------------------------------------------------------- results */

/* Downloads to scratch memory of the call: *waited says whether it may be freed. */
static vram_status fetch_words(struct shortlist *list, uint32_t slot, void *to, vram_addr from,
                               uint64_t bytes, vram_status *waited) {
    vram_queue *queue = queue_of(list, slot);
    vr_counter_add(&list->pipeline.scheduler->counters.downloads, 1);
    vr_counter_add(&list->pipeline.scheduler->counters.downloaded_bytes, bytes);
    vram_status status = vram_transfer_download(queue, to, from, bytes, NULL, NULL);
    *waited = vr_scheduler_wait(list->pipeline.scheduler, queue);
    return status == VRAM_OK ? *waited : status;
}

/* What the kernels of a slot have reported. */
static vram_status fetch_found(struct shortlist *list, uint32_t slot, uint32_t *found,
                               vram_status *waited) {
    vram_status status = fetch_words(list, slot, found, list->found[slot],
                                     VR_SHORTLIST_FOUND_WORDS * sizeof *found, waited);
    if (status == VRAM_OK) {
        list->not_finite |= found[VR_FOUND_NOT_FINITE] != 0;
        list->out_of_range |= found[VR_FOUND_RANGE] != 0;
        list->search->query_saturated += found[VR_FOUND_QUERIES];
        list->search->saturated += list->seen_corpus ? 0 : found[VR_FOUND_CORPUS];
        list->longest =
            list->longest > found[VR_FOUND_LONGEST] ? list->longest : found[VR_FOUND_LONGEST];
        list->shortest =
            list->shortest > found[VR_FOUND_SHORTEST] ? list->shortest : found[VR_FOUND_SHORTEST];
    }
    return status;
}

/* Merges the lists of all slots; each slot's begin at a multiple of `stride` words in `lists`. */
static void merge_slots(const struct shortlist *list, const struct query_block *block,
                        const uint64_t *lists, uint64_t stride) {
    for (uint64_t q = 0; q < block->queries.count; q++) {
        const uint64_t *heads[VR_QUEUES_MAX];
        uint32_t count = 0;
        for (uint32_t slot = 0; slot < list->pipeline.queue_count; slot++) {
            if (block->begun >> slot & 1) {
                heads[count++] = lists + slot * stride + q * list->k;
            }
        }
        assert(count > 0); /* a part has vectors, and every block sees every tile */
        vr_shortlist_merge(heads, count, list->search->first,
                           &list->search->nearest[block->queries.first + q]);
    }
}

static vram_status fetch_lists(struct shortlist *list) {
    uint32_t queues = list->pipeline.queue_count, slot = 0;
    uint64_t stride = list->blocks[0].queries.count * list->k; /* no block is larger */
    uint64_t *lists = vr_scratch_alloc(queues * stride + VR_SHORTLIST_FOUND_WORDS, sizeof *lists);
    vram_status status = lists ? VRAM_OK : VRAM_ERR_HOST_MEMORY, waited = VRAM_OK;
    for (uint32_t i = 0; status == VRAM_OK && i < queues; i++) {
        slot = i;
        status = list->found[i] ? fetch_found(list, i, (uint32_t *)lists, &waited) : VRAM_OK;
    }
    for (uint32_t i = 0; status == VRAM_OK && !list->out_of_range && i < list->block_count; i++) {
        const struct query_block *block = &list->blocks[i];
        uint64_t bytes = block->queries.count * list->k * sizeof *lists;
        for (uint32_t j = 0; status == VRAM_OK && j < queues; j++) {
            if (block->begun >> j & 1) {
                slot = j;
                status = fetch_words(list, j, lists + j * stride, block->best[j], bytes, &waited);
            }
        }
        if (status == VRAM_OK) {
            merge_slots(list, block, lists, stride);
        }
    }
    vr_scratch_free(list->pipeline.scheduler, lists, queue_of(list, slot), waited);
    return status;
}

/* ----------------------------------------------------------------------- passes */

static void release_pass(struct shortlist *list) {
    for (uint32_t slot = 0; slot < VR_QUEUES_MAX; slot++) {
        for (uint32_t i = 0; i < list->block_count; i++) {
            vr_pipeline_free(&list->pipeline, slot, list->blocks[i].best[slot]);
        }
        vr_pipeline_free(&list->pipeline, slot, list->found[slot]);
        vr_pipeline_free(&list->pipeline, slot, list->centre[slot]);
    }
    for (uint32_t i = 0; i < list->block_count; i++) {
        drop_vectors(list, 0, &list->blocks[i].queries);
    }
    memset(list->blocks, 0, sizeof list->blocks);
    memset(list->found, 0, sizeof list->found);
    memset(list->centre, 0, sizeof list->centre);
    list->block_count = 0;
}

/* Runs queries from *first on, as many as fit, against all of the corpus. */
static vram_status run_pass(struct shortlist *list, struct vr_scheduler *scheduler,
                            struct vr_arithmetic *arithmetic, uint64_t *first) {
    vr_pipeline_begin(&list->pipeline, scheduler, arithmetic, NULL);
    list->pipeline.next = 0;
    vram_status status = send_queries(list, *first);
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
    release_pass(list);
    vr_error_restore(&error);
    return vr_pipeline_end(&list->pipeline, status);
}

static vram_status run_passes(struct shortlist *list, struct vr_scheduler *scheduler,
                              struct vr_arithmetic *arithmetic) {
    struct vr_search *search = list->search;
    vram_status status = VRAM_OK;
    search->query_saturated = search->saturated = 0;
    list->seen_corpus = false;
    for (uint64_t q = 0; q < search->distance->queries; q++) {
        search->nearest[q].count = 0;
    }
    list->tiles = 0;
    list->not_finite = list->out_of_range = false;
    for (uint64_t first = 0;
         status == VRAM_OK && !list->out_of_range && first < search->distance->queries;) {
        status = run_pass(list, scheduler, arithmetic, &first);
        bool saturated = search->query_saturated + search->saturated > 0;
        list->seen_corpus = true;
        if (status == VRAM_OK &&
            ((list->not_finite && search->distance->nonfinite == VRAM_NONFINITE_REJECT) ||
             (saturated && !search->distance->saturated))) {
            status = vr_search_inspect(search); /* keeps (4) */
            list->out_of_range = true;          /* the program may change vectors meanwhile */
        }
    }
    return status;
}

/* How vectors are laid out for products of this precision. */
static void plan_rows(struct shortlist *list, vram_precision stored) {
    uint64_t dim = list->search->how.dim, line = ROW_BYTES / vram_precision_bytes(stored);
    list->stored = stored;
    list->stride = stored == VRAM_PRECISION_FP32 ? dim : (dim + line - 1) / line * line;
    list->steps = stored == VRAM_PRECISION_INT8 ? list->stride : dim;
}

/* Keeps (5); *done: the nearest are found. */
static vram_status run_search(struct shortlist *list, struct vr_scheduler *scheduler,
                              struct vr_arithmetic *arithmetic, bool *done) {
    struct vram_error error;
    vr_error_save(&error);
    vram_status status = run_passes(list, scheduler, arithmetic);
    if (status == VRAM_ERR_UNSUPPORTED && list->stored == VRAM_PRECISION_INT8) {
        plan_rows(list, VRAM_PRECISION_FP16); /* the GPU is too old for a library's integers */
        status = run_passes(list, scheduler, arithmetic);
    }
    if (vram_status_is_exhausted(status)) {
        uint64_t bytes;
        (void)vram_device_trim(scheduler->device, NULL, &bytes);
        status = run_passes(list, scheduler, arithmetic);
    }
    while (vram_status_is_exhausted(status) && shrink_sizes(list)) {
        vr_counter_add(&scheduler->counters.shrinks, 1);
        status = run_passes(list, scheduler, arithmetic);
    }
    if (vram_status_is_exhausted(status) || status == VRAM_ERR_UNSUPPORTED) {
        vr_error_restore(&error);
        return VRAM_OK;
    }
    *done = status == VRAM_OK && !list->out_of_range;
    list->search->lengths.longest = (double)vr_bits_float(list->longest);
    list->search->lengths.shortest = (double)vr_bits_float(~list->shortest);
    if (status == VRAM_OK) {
        vr_error_restore(&error);
    }
    return status;
}

/* Whether the rule runs such products on the device, with results that stay there. */
static vram_status decide_place(struct vr_scheduler *scheduler, const struct shortlist *list,
                                bool *there, vram_reason *reason) {
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
    return status == VRAM_ERR_UNSUPPORTED ? VRAM_OK : status; /* search.c reports it too */
}

vram_status vr_shortlist_run(struct vr_scheduler *scheduler, struct vr_search *search, bool *done) {
    const struct vram_distance *distance = search->distance;
    struct vr_shortlist_kernels *kernels;
    struct vr_arithmetic *arithmetic;
    struct shortlist list = {.search = search};
    vram_reason reason;
    bool there;
    if (!search->nearest || distance->distances || distance->k > VRAM_NEAREST_DEVICE ||
        search->count > INT32_MAX || distance->dim > INT32_MAX / 2) {
        return VRAM_OK;
    }
    list.stored =
        search->how.precision == VRAM_PRECISION_FP32 ? VRAM_PRECISION_FP32 : VRAM_PRECISION_FP16;
    list.k = (uint32_t)search->nearest[0].capacity;
    plan_sizes(&list, scheduler);
    vram_status status = decide_place(scheduler, &list, &there, &reason);
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
    if (search->how.precision == VRAM_PRECISION_INT8 &&
        (arithmetic->provider->precisions >> VRAM_PRECISION_INT8 & 1)) {
        list.stored = VRAM_PRECISION_INT8;
    }
    plan_rows(&list, list.stored);
    status = vr_scheduler_stale(scheduler, run_search(&list, scheduler, arithmetic, done));
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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search.c: distances in tiles.
 *
 *   for each tile of the corpus      converted once, with its terms (metric.h)
 *     for each tile of the queries   one product of the scheduler: queries by corpus transposed
 *       for each result              the distance, to the matrix; if its bound is among the
 *                                    nearest, the exact distance
 *
 * The products of one tile of the corpus are a batch: the tile is sent to the device once, and
 * transfers and products overlap. Numbers of 8 bits are sent as numbers of 16 bits, which hold them
 * exactly. If only the nearest are requested, shortlist.c may run the whole search on the device,
 * and is tried first.
 */
#include "compute/search.h"

#include "base/error.h"
#include "base/memory.h"
#include "compute/half.h"
#include "compute/metric.h"
#include "compute/shortlist.h"

enum { QUERY_TILE = 256, CORPUS_TILE = 2048, BATCH = 8 };

#define OPERAND_BYTES (UINT64_C(16) << 20) /* the most bytes of a converted tile of vectors */

/* Vectors as products use them. */
struct search_vectors {
    const float *from;
    uint64_t count;
    const void *converted; /* `from` itself, or `buffer` */
    void *buffer;          /* NULL: not needed yet */
    uint64_t buffer_count; /* capacity of `buffer` in vectors */
    double *terms;         /* metric.h */
};

struct tiles {
    struct vr_scheduler *scheduler;
    struct vr_search *search;
    vram_precision stored; /* FP32 or FP16 */
    uint64_t corpus_tile, query_tile;
    struct search_vectors queries, corpus;
    float *results; /* BATCH tiles */
};

/* ------------------------------------------------------------------ converting */

/* Allocates memory for the converted vectors. */
static vram_status reserve_buffer(const struct tiles *tiles, struct search_vectors *vectors) {
    if (vectors->buffer_count < vectors->count) {
        vr_scratch_free(tiles->scheduler, vectors->buffer, NULL, VRAM_OK);
        vectors->buffer = vr_scratch_alloc(vectors->count * tiles->search->distance->dim,
                                           vram_precision_bytes(tiles->stored));
        vectors->buffer_count = vectors->buffer ? vectors->count : 0;
    }
    return vectors->buffer ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
}

/* Uses vectors of single precision in place, if all their numbers are valid. */
static bool use_in_place(const struct tiles *tiles, struct search_vectors *vectors) {
    const struct vr_conversion *how = &tiles->search->how;
    bool all = how->precision == VRAM_PRECISION_FP32 && !how->centre;
    for (uint64_t i = 0; all && i < vectors->count; i++) {
        all = vr_vector_measure(how, vectors->from + i * how->dim, &vectors->terms[i]);
    }
    vectors->converted = vectors->from;
    return all;
}

static vram_status convert_vectors(const struct tiles *tiles, struct search_vectors *vectors,
                                   bool query) {
    struct vr_search *search = tiles->search;
    struct vr_found found = {0};
    if (use_in_place(tiles, vectors)) {
        return VRAM_OK;
    }
    vram_status status = reserve_buffer(tiles, vectors);
    for (uint64_t i = 0; status == VRAM_OK && i < vectors->count; i++) {
        const struct vr_rows rows = {vectors->buffer, tiles->stored, search->how.dim};
        vectors->terms[i] = vr_vector_take(&search->how, query, vectors->from + i * search->how.dim,
                                           &rows, i, &found);
    }
    vectors->converted = vectors->buffer;
    *(query ? &search->query_saturated : &search->saturated) += found.saturated;
    bool refused = (found.not_finite && search->distance->nonfinite == VRAM_NONFINITE_REJECT) ||
                   (found.saturated && !search->distance->saturated);
    return status == VRAM_OK && refused ? vr_search_inspect(search) : status;
}

/* -------------------------------------------------------------------- distances */

/* Of a row of products: to the matrix, and to the nearest those that their bounds leave. */
static void give_row(const struct tiles *tiles, uint64_t query, uint64_t first,
                     const float *products) {
    const struct vr_search *search = tiles->search;
    const struct vram_distance *distance = search->distance;
    const struct vr_conversion *how = &search->how;
    const double *terms = tiles->corpus.terms;
    double term = tiles->queries.terms[query];
    uint64_t count = tiles->corpus.count;
    float *row =
        distance->distances ? distance->distances + query * distance->vectors + first : NULL;
    if (row) {
        vr_row_measure(search, query, first, term, terms, products, count, row);
    }
    if (search->nearest) {
        vr_row_rank(how, distance->query + query * how->dim, distance->corpus + first * how->dim,
                    first, term, terms, products, count, &search->nearest[query], row);
    }
}

/* ---------------------------------------------------------------------- tiles */

static struct vr_product product_of(const struct tiles *tiles, uint64_t query, uint64_t queries,
                                    float *results) {
    const struct vram_distance *distance = tiles->search->distance;
    uint64_t each = vram_precision_bytes(tiles->stored);
    return (struct vr_product){
        .m = queries,
        .k = distance->dim,
        .n = tiles->corpus.count,
        .precision = tiles->stored,
        .each = each,
        .a = (const char *)tiles->queries.converted + query * distance->dim * each,
        .b = tiles->corpus.converted,
        .c = results,
        .trans_b = true,
        .place = distance->place ? distance->place : tiles->scheduler->place};
}

/* All queries against the current tile of the corpus. */
static vram_status search_tile(struct tiles *tiles, uint64_t first) {
    uint64_t all = tiles->search->distance->queries, tile = tiles->query_tile;
    uint64_t columns = tiles->corpus.count;
    vram_status status = VRAM_OK;
    for (uint64_t begin = 0; status == VRAM_OK && begin < all; begin += BATCH * tile) {
        struct vr_product products[BATCH];
        size_t count = 0;
        for (uint64_t q = begin; count < BATCH && q < all; q += tile, count++) {
            products[count] = product_of(tiles, q, all - q < tile ? all - q : tile,
                                         tiles->results + count * tile * columns);
        }
        status = vr_products_run(tiles->scheduler, products, count);
        for (size_t i = 0; status == VRAM_OK && i < count; i++) {
            for (uint64_t row = 0; row < products[i].m; row++) {
                give_row(tiles, begin + i * tile + row, first, products[i].c + row * columns);
            }
        }
    }
    return status;
}

static vram_status prepare_tiles(struct tiles *tiles) {
    const struct vram_distance *distance = tiles->search->distance;
    uint64_t each = vram_precision_bytes(tiles->stored);
    uint64_t fit = OPERAND_BYTES / each / distance->dim;
    uint64_t least = fit ? fit : 1;
    tiles->corpus_tile = least < CORPUS_TILE ? least : CORPUS_TILE;
    tiles->corpus_tile =
        tiles->search->count < tiles->corpus_tile ? tiles->search->count : tiles->corpus_tile;
    tiles->query_tile = distance->queries < QUERY_TILE ? distance->queries : QUERY_TILE;
    uint64_t rows = distance->queries < BATCH * tiles->query_tile ? distance->queries
                                                                  : BATCH * tiles->query_tile;
    tiles->queries.terms = vr_mem_alloc((size_t)distance->queries, sizeof(double), vr_operation());
    tiles->corpus.terms = vr_mem_alloc((size_t)tiles->corpus_tile, sizeof(double), vr_operation());
    tiles->results = vr_scratch_alloc(rows * tiles->corpus_tile, sizeof(float));
    return tiles->queries.terms && tiles->corpus.terms && tiles->results ? VRAM_OK
                                                                         : VRAM_ERR_HOST_MEMORY;
}

vram_status vr_search_by_tiles(struct vr_scheduler *scheduler, struct vr_search *search) {
    struct tiles tiles = {.scheduler = scheduler,
                          .search = search,
                          .stored = search->how.precision == VRAM_PRECISION_FP32
                                        ? VRAM_PRECISION_FP32
                                        : VRAM_PRECISION_FP16};
    search->query_saturated = search->saturated = 0;
    for (uint64_t q = 0; search->nearest && q < search->distance->queries; q++) {
        struct vr_nearest *nearest = &search->nearest[q];
        nearest->count = 0;
        nearest->capacity =
            nearest->capacity < search->distance->k ? nearest->capacity : search->distance->k;
    }
    vram_status status = prepare_tiles(&tiles);
    if (status == VRAM_OK) {
        tiles.queries.from = search->distance->query;
        tiles.queries.count = search->distance->queries;
        status = convert_vectors(&tiles, &tiles.queries, true);
    }
    uint64_t end = search->first + search->count;
    for (uint64_t at = search->first; status == VRAM_OK && at < end; at += tiles.corpus_tile) {
        tiles.corpus.from = search->distance->corpus + at * search->distance->dim;
        tiles.corpus.count = end - at < tiles.corpus_tile ? end - at : tiles.corpus_tile;
        status = convert_vectors(&tiles, &tiles.corpus, false);
        if (status == VRAM_OK) {
            status = search_tile(&tiles, at);
        }
    }
    vr_scratch_free(scheduler, tiles.queries.buffer, NULL, status); /* late products may use it */
    vr_scratch_free(scheduler, tiles.corpus.buffer, NULL, status);
    vr_scratch_free(scheduler, tiles.results, NULL, status);
    vr_mem_free(tiles.queries.terms);
    vr_mem_free(tiles.corpus.terms);
    return status;
}

vram_status vr_search_run(struct vr_scheduler *scheduler, struct vr_search *search) {
    bool done = false;
    vram_status status = vr_shortlist_run(scheduler, search, &done);
    search->rough = done;
    return status != VRAM_OK || done ? status : vr_search_by_tiles(scheduler, search);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * distance.c: checks of a request; several devices, each with a part of the corpus; and the merge
 * of their nearest into one list.
 */
#include "compute/metric.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/size.h"
#include "base/struct_tail.h"

#include <string.h>

enum {
    PARTS_MAX = 16,
    SLACK = 3 /* more than k are kept where rounding may exchange neighbours in the order */
};

#define SCALE 127.0f /* of INT8, if there is none: for numbers from -1 to 1 */

/* --------------------------------------------------------------------- checking */

static vram_status fail_mismatch(const char *what, uint64_t given, uint64_t rows,
                                 uint64_t columns) {
    return vr_fail(VRAM_ERR_INVALID, "%s %llu numbers, and a shape of %llu x %llu needs %llu", what,
                   (unsigned long long)given, (unsigned long long)rows, (unsigned long long)columns,
                   (unsigned long long)(rows * columns));
}

static vram_status check_sizes(const struct vram_distance *distance) {
    uint64_t q, c, all;
    if (!distance->queries || !distance->vectors || !distance->dim) {
        return vr_fail(VRAM_ERR_INVALID,
                       "%llu queries and %llu vectors of %llu numbers: none may be 0",
                       (unsigned long long)distance->queries, (unsigned long long)distance->vectors,
                       (unsigned long long)distance->dim);
    }
    if (!vr_mul(distance->queries, distance->dim, &q) ||
        !vr_mul(distance->vectors, distance->dim, &c) ||
        !vr_mul(distance->queries, distance->vectors, &all) || q > SIZE_MAX / 16 ||
        c > SIZE_MAX / 16 || all > SIZE_MAX / 16) {
        return vr_fail(VRAM_ERR_OVERFLOW,
                       "%llu queries and %llu vectors of %llu numbers do not fit into 64 bits",
                       (unsigned long long)distance->queries, (unsigned long long)distance->vectors,
                       (unsigned long long)distance->dim);
    }
    if (!distance->query || !distance->corpus) {
        return vr_fail(VRAM_ERR_INVALID, "the queries or the corpus are NULL");
    }
    if (distance->query_elements && distance->query_elements != q) {
        return fail_mismatch("the queries have", distance->query_elements, distance->queries,
                             distance->dim);
    }
    if (distance->corpus_elements && distance->corpus_elements != c) {
        return fail_mismatch("the corpus has", distance->corpus_elements, distance->vectors,
                             distance->dim);
    }
    if (distance->distances && distance->distance_elements && distance->distance_elements != all) {
        return fail_mismatch("there is room for", distance->distance_elements, distance->queries,
                             distance->vectors);
    }
    return VRAM_OK;
}

static vram_status distance_check(const struct vram_distance *distance) {
    vram_precision precision = distance->precision;
    if (precision != VRAM_PRECISION_BYTES && precision != VRAM_PRECISION_FP32 &&
        precision != VRAM_PRECISION_FP16 && precision != VRAM_PRECISION_INT8) {
        return vr_fail(VRAM_ERR_INVALID, "distances are of fp32, fp16 or int8, not of %s (%d)",
                       vram_precision_name(precision), (int)precision);
    }
    if ((unsigned)distance->metric > VRAM_METRIC_COSINE ||
        (unsigned)distance->nonfinite > VRAM_NONFINITE_ZERO ||
        (unsigned)distance->place > VRAM_PLACE_DEVICE) {
        return vr_fail(VRAM_ERR_INVALID,
                       "metric %d, rule %d for non-finite numbers, or place %d is invalid",
                       (int)distance->metric, (int)distance->nonfinite, (int)distance->place);
    }
    if (!(distance->scale >= 0) || !vr_is_finite(distance->scale)) {
        return vr_fail(VRAM_ERR_INVALID, "the scale is %g: it must be a number above 0",
                       (double)distance->scale);
    }
    vram_status status = check_sizes(distance);
    if (status != VRAM_OK) {
        return status;
    }
    if (distance->k > distance->vectors) {
        return vr_fail(VRAM_ERR_INVALID, "k is %llu, more than the %llu vectors",
                       (unsigned long long)distance->k, (unsigned long long)distance->vectors);
    }
    if (!distance->k == (distance->best || distance->best_at) ||
        (distance->k && (!distance->best || !distance->best_at)) ||
        (!distance->k && !distance->distances)) {
        return vr_fail(VRAM_ERR_INVALID,
                       "no result is requested, or only some of `k` and its two results are set");
    }
    return VRAM_OK;
}

/* ------------------------------------------------------------------------ parts */

/* The share of one scheduler. */
struct distance_part {
    struct vr_thread thread;
    struct vr_scheduler *scheduler; /* pinned */
    struct vr_search search;
    struct vr_nearest *nearest; /* of all queries; NULL: not requested */
    double *values;             /* their memory */
    uint64_t *places;
    vram_status status;
    struct vram_error error;
};

static void part_run(void *argument) {
    struct distance_part *part = argument;
    part->status = vr_search_run(part->scheduler, &part->search);
    if (part->status != VRAM_OK) {
        vr_error_save(&part->error);
    }
}

/* How many of the nearest are kept for a query. */
static uint64_t kept_of(const struct vram_distance *distance, uint64_t vectors) {
    uint64_t kept = distance->k <= VRAM_NEAREST_DEVICE ? distance->k + SLACK : distance->k;
    return kept < vectors ? kept : vectors;
}

/* A heap for each query. */
static vram_status part_nearest(struct distance_part *part, const struct vram_distance *distance) {
    uint64_t capacity = kept_of(distance, part->search.count);
    uint64_t all = distance->queries * capacity; /* at most queries * vectors, checked before */
    if (!distance->k) {
        return VRAM_OK;
    }
    part->nearest = vr_mem_alloc((size_t)distance->queries, sizeof *part->nearest, vr_operation());
    part->values = vr_mem_alloc((size_t)all, sizeof *part->values, vr_operation());
    part->places = vr_mem_alloc((size_t)all, sizeof *part->places, vr_operation());
    if (!part->nearest || !part->values || !part->places) {
        return VRAM_ERR_HOST_MEMORY;
    }
    for (uint64_t q = 0; q < distance->queries; q++) {
        part->nearest[q] = (struct vr_nearest){.values = part->values + q * capacity,
                                               .places = part->places + q * capacity,
                                               .capacity = capacity};
    }
    part->search.nearest = part->nearest;
    return VRAM_OK;
}

static void part_end(struct distance_part *part) {
    vr_mem_free(part->nearest);
    vr_mem_free(part->values);
    vr_mem_free(part->places);
}

/* Equal parts; the last gets the remainder. */
static vram_status split_corpus(struct distance_part *parts, size_t count,
                                const struct vram_distance *distance,
                                const struct vr_conversion *how) {
    uint64_t each = distance->vectors / count;
    vram_status status = VRAM_OK;
    for (size_t i = 0; status == VRAM_OK && i < count; i++) {
        parts[i].search =
            (struct vr_search){.distance = distance,
                               .how = *how,
                               .first = i * each,
                               .count = i + 1 < count ? each : distance->vectors - i * each};
        status = part_nearest(&parts[i], distance);
    }
    return status;
}

/* Runs the last part on the caller's thread, the others on threads of their own. */
static vram_status run_all(struct distance_part *parts, size_t count) {
    size_t started = 0;
    vram_status status = VRAM_OK;
    while (status == VRAM_OK && started + 1 < count) {
        status =
            vr_os_thread_start(&parts[started].thread, "vram-distance", part_run, &parts[started]);
        started += status == VRAM_OK ? 1 : 0;
    }
    if (status == VRAM_OK) {
        part_run(&parts[count - 1]);
    }
    for (size_t i = 0; i < started; i++) {
        vr_os_thread_join(&parts[i].thread);
    }
    for (size_t i = 0; status == VRAM_OK && i < count; i++) {
        status = parts[i].status;
        if (status != VRAM_OK) {
            vr_error_restore(&parts[i].error);
        }
    }
    return status;
}

/* The results of a query, from a sorted list. */
static void give_nearest(const struct vr_search *search, uint64_t query,
                         const struct vr_nearest *nearest) {
    const struct vram_distance *distance = search->distance;
    double rest = vr_key_rest(&search->how, distance->query + query * distance->dim);
    for (uint64_t i = 0; i < distance->k; i++) {
        distance->best[query * distance->k + i] =
            vr_key_distance(&search->how, nearest->values[i] - rest);
        distance->best_at[query * distance->k + i] = nearest->places[i];
    }
}

/* Adds the lists of the parts to one. */
static void merge_lists(const struct distance_part *parts, size_t count, uint64_t query,
                        struct vr_nearest *whole) {
    for (size_t i = 0; i < count; i++) {
        const struct vr_nearest *part = &parts[i].nearest[query];
        for (uint64_t j = 0; j < part->count; j++) {
            vr_nearest_add(whole, part->values[j], part->places[j]);
        }
    }
}

/* Searches for some queries again, with keys computed by the host. */
static vram_status search_again(struct vr_scheduler *scheduler, const struct vr_search *whole,
                                const uint64_t *which, uint64_t count) {
    uint64_t dim = whole->distance->dim, k = whole->distance->k;
    struct vram_distance distance = *whole->distance;
    struct vr_search search = *whole;
    float *query = vr_mem_alloc((size_t)(count * dim), sizeof *query, vr_operation());
    struct distance_part part = {.search = *whole};
    distance.queries = count;
    distance.query = query;
    vram_status status = query ? part_nearest(&part, &distance) : VRAM_ERR_HOST_MEMORY;
    for (uint64_t i = 0; status == VRAM_OK && i < count; i++) {
        memcpy(query + i * dim, whole->distance->query + which[i] * dim, dim * sizeof *query);
    }
    if (status == VRAM_OK) {
        search.distance = &distance;
        search.nearest = part.nearest;
        status = vr_search_by_tiles(scheduler, &search);
    }
    for (uint64_t i = 0; status == VRAM_OK && i < count; i++) {
        distance.best = whole->distance->best + (which[i] - i) * k; /* which[i] >= i */
        distance.best_at = whole->distance->best_at + (which[i] - i) * k;
        vr_nearest_sort(&part.nearest[i]);
        give_nearest(&search, i, &part.nearest[i]);
    }
    part_end(&part);
    vr_mem_free(query);
    return status;
}

/* The nearest of all parts, the best first. */
static vram_status merge_parts(const struct distance_part *parts, size_t count,
                               const struct vr_search *search) {
    const struct vram_distance *distance = search->distance;
    uint64_t kept = kept_of(distance, distance->vectors), doubtful = 0;
    double *values = vr_mem_alloc((size_t)kept, sizeof *values, vr_operation());
    uint64_t *places = vr_mem_alloc((size_t)kept, sizeof *places, vr_operation());
    uint64_t *which = vr_mem_alloc((size_t)distance->queries, sizeof *which, vr_operation());
    vram_status status = values && places && which ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
    for (uint64_t q = 0; status == VRAM_OK && q < distance->queries; q++) {
        struct vr_nearest whole = {values, places, kept, 0};
        if (count > 1) {
            merge_lists(parts, count, q, &whole);
        } else {
            whole = parts[0].nearest[q];
        }
        if (count > 1 || !search->rough) {
            vr_nearest_sort(&whole);
        }
        if (search->rough && !vr_nearest_settle(search, q, &whole)) {
            which[doubtful++] = q;
            continue;
        }
        give_nearest(search, q, &whole);
    }
    if (status == VRAM_OK && doubtful) {
        status = search_again(parts[0].scheduler, search, which, doubtful);
    }
    vr_mem_free(values);
    vr_mem_free(places);
    vr_mem_free(which);
    return status;
}

/* What the parts have found of the whole corpus. */
static void add_found(const struct distance_part *parts, size_t count, struct vr_search *whole) {
    whole->query_saturated = parts[0].search.query_saturated;
    for (size_t i = 0; i < count; i++) {
        const struct vr_search *part = &parts[i].search;
        whole->saturated += part->saturated;
        if (part->rough) {
            const struct vr_lengths *of = &part->lengths, *all = &whole->lengths;
            bool first = !whole->rough;
            whole->lengths = (struct vr_lengths){
                first || of->longest > all->longest ? of->longest : all->longest,
                first || of->shortest < all->shortest ? of->shortest : all->shortest};
            whole->rough = true;
        }
    }
}

static vram_status run_parts(struct distance_part *parts, size_t count,
                             const struct vram_distance *distance) {
    struct vr_search whole = {
        .distance = distance,
        .how = {.dim = distance->dim,
                .precision = distance->precision ? distance->precision : VRAM_PRECISION_FP32,
                .metric = distance->metric,
                .scale = distance->scale > 0 ? distance->scale : SCALE},
        .count = distance->vectors};
    float *centre = vr_mem_alloc((size_t)distance->dim, sizeof *centre, vr_operation());
    vram_status status = centre ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
    if (status == VRAM_OK && vr_centre_find(distance, whole.how.precision, centre)) {
        whole.how.centre = centre;
    }
    if (status == VRAM_OK) {
        status = split_corpus(parts, count, distance, &whole.how);
    }
    if (status == VRAM_OK) {
        status = run_all(parts, count);
    }
    add_found(parts, count, &whole);
    if (status == VRAM_OK && distance->k) {
        status = merge_parts(parts, count, &whole);
    }
    if (status == VRAM_OK && distance->saturated) {
        *distance->saturated = whole.query_saturated + whole.saturated;
    }
    for (size_t i = 0; i < count; i++) {
        part_end(&parts[i]);
    }
    vr_mem_free(centre);
    return status;
}

/* ------------------------------------------------------------------------ calls */

static vram_status take_request(const vram_distance *from, struct vram_distance *taken) {
    if (!from) {
        return vr_fail(VRAM_ERR_INVALID, "the request is NULL");
    }
    vram_status status = vr_options_take(taken, sizeof *taken, from);
    taken->size = sizeof *taken; /* the copy has no more than this, even if the caller's had */
    return status == VRAM_OK ? distance_check(taken) : status;
}

static vram_status run_split(vram_scheduler *const *schedulers, size_t count,
                             const vram_distance *from) {
    struct distance_part parts[PARTS_MAX];
    struct vram_distance distance;
    struct vram_error before;
    size_t entered = 0;
    memset(parts, 0, sizeof parts);
    vr_error_save(&before);
    vram_status status = VRAM_OK;
    for (; entered < count; entered++) {
        void *scheduler;
        status = vr_enter(VR_KIND_SCHEDULER, schedulers[entered], &scheduler);
        if (status != VRAM_OK) {
            break;
        }
        parts[entered].scheduler = scheduler;
    }
    if (status == VRAM_OK) {
        status = take_request(from, &distance);
    }
    if (status == VRAM_OK) { /* no more parts than vectors */
        size_t used = distance.vectors < count ? (size_t)distance.vectors : count;
        status = run_parts(parts, used, &distance);
    }
    for (size_t i = 0; i < entered; i++) {
        vr_leave(parts[i].scheduler);
    }
    if (status == VRAM_OK) {
        vr_error_restore(&before); /* what was tried first is no failure of the call */
    }
    return status;
}

vram_status vram_distance_run(vram_scheduler *scheduler, const vram_distance *distance) {
    VR_CALL;
    return run_split(&scheduler, 1, distance);
}

vram_status vram_distance_split(vram_scheduler *const *schedulers, size_t count,
                                const vram_distance *distance) {
    VR_CALL;
    if (!schedulers) {
        return vr_fail(VRAM_ERR_INVALID, "the schedulers are NULL");
    }
    if (!count || count > PARTS_MAX) {
        return vr_fail(VRAM_ERR_INVALID, "%zu schedulers: the number must be 1 to %d", count,
                       PARTS_MAX);
    }
    return run_split(schedulers, count, distance);
}

vram_status vram_distance_on(vram_context *context, uint32_t index, const vram_distance *from) {
    VR_CALL;
    struct vram_distance distance;
    struct vram_error error;
    vram_device *device = NULL;
    vram_pool *pool;
    vram_scheduler *scheduler;
    vram_status status = take_request(from, &distance);
    if (status == VRAM_OK) {
        status = vram_device_open(context, index, &device);
    }
    if (status != VRAM_OK) {
        return status;
    }
    status = vram_pool_create(device, NULL, &pool);
    if (status == VRAM_OK) {
        status = vram_scheduler_create(pool, NULL, &scheduler);
    }
    if (status == VRAM_OK) {
        status = run_split(&scheduler, 1, &distance);
    }
    vr_error_save(&error);
    vram_device_close(device);
    vr_error_restore(&error);
    return status;
}

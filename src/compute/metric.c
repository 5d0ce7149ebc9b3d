/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metric.c: see metric.h.
 */
#include "compute/metric.h"

#include "base/error.h"

#include <math.h>

enum {
    SAMPLE = 256, /* vectors that a centre is found from, at most */
    LANES = 32    /* sums that kernels make of a distance */
};

#define SAMPLE_NUMBERS (UINT64_C(1) << 22) /* the same in numbers */
#define TINY           1e-30               /* squares of single precision vanish below this */
#define KEPT           (1.0 / 16)          /* less of the two lengths than this: digits are lost */

static double square_root(double value) {
    return value > 0 ? __builtin_sqrt(value) : 0;
}

/* --------------------------------------------------------------------- numbers */

static vram_status inspect_numbers(const struct vr_search *search, const float *from,
                                   uint64_t first, uint64_t count, const char *whose) {
    const struct vr_conversion *how = &search->how;
    uint64_t dim = search->distance->dim;
    for (uint64_t i = first * dim; i < (first + count) * dim; i++) {
        struct vr_found found = {0};
        (void)vr_number_take(how, from[i], &found);
        if (found.not_finite && search->distance->nonfinite == VRAM_NONFINITE_REJECT) {
            return vr_fail(VRAM_ERR_INVALID,
                           "number %llu of %s %llu is %g, which is not finite in %s",
                           (unsigned long long)(i % dim), whose, (unsigned long long)(i / dim),
                           (double)from[i], vram_precision_name(how->precision));
        }
        if (found.saturated && !search->distance->saturated) {
            return vr_fail(VRAM_ERR_INVALID,
                           "number %llu of %s %llu is %g, beyond int8 with a scale of %g: use a "
                           "smaller scale, or set `saturated` to have such numbers clamped",
                           (unsigned long long)(i % dim), whose, (unsigned long long)(i / dim),
                           (double)from[i], (double)how->scale);
        }
    }
    return VRAM_OK;
}

vram_status vr_search_inspect(const struct vr_search *search) {
    const struct vram_distance *distance = search->distance;
    vram_status status = inspect_numbers(search, distance->query, 0, distance->queries, "query");
    return status == VRAM_OK
               ? inspect_numbers(search, distance->corpus, search->first, search->count, "vector")
               : status;
}

/* ----------------------------------------------------------------------- bounds */

/* In any order of summation n products have an error of n units in the last place of the sum of
   their sizes; the factor 4 is for the lengths, the centre, and tensor cores, which truncate. */
double vr_key_error(const struct vr_conversion *how) {
    double sums = (double)(how->dim + 8) * 0x1.0p-22;
    bool halves = how->precision == VRAM_PRECISION_FP16 && how->centre;
    return halves ? sums + 0x1.0p-8 : sums; /* less a centre they are rounded again */
}

/* Products of numbers whose squares vanish say nothing: the bound is not finite then. */
static double term_of(const struct vr_conversion *how, double length, double along) {
    if (length > 0 && length < TINY) {
        return how->metric == VRAM_METRIC_COSINE ? INFINITY : -INFINITY;
    }
    switch (how->metric) {
    case VRAM_METRIC_INNER_PRODUCT:
        return -length * vr_key_error(how) / 2 - along;
    case VRAM_METRIC_COSINE:
        return length > 0 ? 1 / square_root(length) : 0;
    default:
        return length * (1 - vr_key_error(how));
    }
}

static inline void store_number(const struct vr_rows *to, vram_precision stored, uint64_t at,
                                float value) {
    if (stored == VRAM_PRECISION_FP16) {
        ((uint16_t *)to->numbers)[at] = vr_float_half(value);
    } else if (stored == VRAM_PRECISION_INT8) {
        ((int8_t *)to->numbers)[at] = (int8_t)value;
    } else {
        ((float *)to->numbers)[at] = value;
    }
}

/* Inlined for each kind of conversion: the compiler drops what one does not need. */
#define INLINED static inline __attribute__((always_inline))

INLINED double take_by(const struct vr_conversion *how, vram_precision precision,
                       vram_precision stored, bool centred, bool query, const float *from,
                       const struct vr_rows *to, uint64_t row, struct vr_found *found) {
    struct vr_conversion kind = {.precision = precision, .scale = how->scale};
    struct vr_found here = {0};
    double lengths[4] = {0}, alongs[4] = {0}; /* sums that do not wait for each other */
    for (uint64_t i = 0; i < how->dim; i += 4) {
        _Pragma("GCC unroll 4") for (uint64_t j = 0; j < 4; j++) {
            if (i + j >= how->dim) {
                break;
            }
            float value = vr_number_take(&kind, from[i + j], &here);
            if (centred) {
                value -= how->centre[i + j];
                alongs[j] += (double)value * (double)how->centre[i + j];
            }
            lengths[j] += (double)value * (double)value; /* before it is rounded again, if it is */
            store_number(to, stored, row * to->stride + i + j, value);
        }
    }
    double length = (lengths[0] + lengths[1]) + (lengths[2] + lengths[3]);
    double along = (alongs[0] + alongs[1]) + (alongs[2] + alongs[3]);
    for (uint64_t i = how->dim; i < to->stride; i++) {
        store_number(to, stored, row * to->stride + i, 0);
    }
    found->not_finite |= here.not_finite;
    found->saturated += here.saturated;
    found->length = length;
    return term_of(how, length, query ? 0 : along);
}

double vr_vector_take(const struct vr_conversion *how, bool query, const float *from,
                      const struct vr_rows *to, uint64_t row, struct vr_found *found) {
    const vram_precision single = VRAM_PRECISION_FP32, half = VRAM_PRECISION_FP16;
    const vram_precision byte = VRAM_PRECISION_INT8;
    if (how->precision == byte) {
        return to->stored == byte ? take_by(how, byte, byte, false, query, from, to, row, found)
                                  : take_by(how, byte, half, false, query, from, to, row, found);
    }
    if (how->precision == half) {
        return how->centre ? take_by(how, half, half, true, query, from, to, row, found)
                           : take_by(how, half, half, false, query, from, to, row, found);
    }
    return how->centre ? take_by(how, single, single, true, query, from, to, row, found)
                       : take_by(how, single, single, false, query, from, to, row, found);
}

bool vr_vector_measure(const struct vr_conversion *how, const float *from, double *term) {
    double length = 0;
    bool all = true;
    for (uint64_t i = 0; i < how->dim; i++) {
        length += (double)from[i] * (double)from[i];
        all &= vr_is_finite(from[i]);
    }
    *term = term_of(how, length, 0);
    return all;
}

/* ------------------------------------------------------------------------ exact */

static double number_exact(const struct vr_conversion *how, float value) {
    struct vr_found found = {0};
    return (double)vr_number_take(how, value, &found);
}

static double length_exact(const struct vr_conversion *how, const float *vector) {
    double sum = 0;
    for (uint64_t i = 0; i < how->dim; i++) {
        double value = number_exact(how, vector[i]);
        sum += value * value;
    }
    return square_root(sum);
}

/* Half of the squared distance of two unit vectors, which keeps its digits where 1 - cosine does
   not. */
static double cosine_exact(const struct vr_conversion *how, const float *query,
                           const float *vector) {
    double of_query = length_exact(how, query), of_vector = length_exact(how, vector), sum = 0;
    if (!(of_query > 0) || !(of_vector > 0)) {
        return 1;
    }
    for (uint64_t i = 0; i < how->dim; i++) {
        double gap =
            number_exact(how, query[i]) / of_query - number_exact(how, vector[i]) / of_vector;
        sum += gap * gap;
    }
    return sum / 2;
}

INLINED double part_exact(const struct vr_conversion *kind, bool products, bool centred,
                          const float *centre, float query, float vector) {
    struct vr_found found = {0};
    double q = (double)vr_number_take(kind, query, &found);
    double c = (double)vr_number_take(kind, vector, &found);
    return products ? -q * (centred ? c - (double)*centre : c) : (q - c) * (q - c);
}

/* Four sums: their additions do not wait for each other. */
INLINED double sum_exact(const struct vr_conversion *how, vram_precision precision, bool products,
                         bool centred, const float *query, const float *vector) {
    const struct vr_conversion kind = {.precision = precision, .scale = how->scale};
    const float *centre = centred ? how->centre : query;
    double a = 0, b = 0, c = 0, d = 0;
    uint64_t i = 0;
    for (; i + 4 <= how->dim; i += 4) {
        a += part_exact(&kind, products, centred, centre + i, query[i], vector[i]);
        b += part_exact(&kind, products, centred, centre + i + 1, query[i + 1], vector[i + 1]);
        c += part_exact(&kind, products, centred, centre + i + 2, query[i + 2], vector[i + 2]);
        d += part_exact(&kind, products, centred, centre + i + 3, query[i + 3], vector[i + 3]);
    }
    for (; i < how->dim; i++) {
        a += part_exact(&kind, products, centred, centre + i, query[i], vector[i]);
    }
    return (a + b) + (c + d);
}

INLINED double key_by(const struct vr_conversion *how, vram_precision precision, const float *query,
                      const float *vector) {
    bool products = how->metric == VRAM_METRIC_INNER_PRODUCT;
    return !products     ? sum_exact(how, precision, false, false, query, vector)
           : how->centre ? sum_exact(how, precision, true, true, query, vector)
                         : sum_exact(how, precision, true, false, query, vector);
}

/* Numbers of single precision, taken to be finite: if one is not, neither is the sum. */
INLINED double sum_plain(uint64_t dim, bool products, const float *query, const float *vector) {
    double sums[4] = {0};
    uint64_t i = 0;
    for (; i + 4 <= dim; i += 4) {
        _Pragma("GCC unroll 4") for (uint64_t j = 0; j < 4; j++) {
            double q = (double)query[i + j], c = (double)vector[i + j];
            sums[j] += products ? -q * c : (q - c) * (q - c);
        }
    }
    for (; i < dim; i++) {
        double q = (double)query[i], c = (double)vector[i];
        sums[0] += products ? -q * c : (q - c) * (q - c);
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

double vr_key_exact(const struct vr_conversion *how, const float *query, const float *vector) {
    bool products = how->metric == VRAM_METRIC_INNER_PRODUCT;
    if (how->precision == VRAM_PRECISION_FP32 && how->metric != VRAM_METRIC_COSINE &&
        !(products && how->centre)) {
        double sum = products ? sum_plain(how->dim, true, query, vector)
                              : sum_plain(how->dim, false, query, vector);
        if (sum - sum == 0) {
            return sum;
        }
    }
    return how->metric == VRAM_METRIC_COSINE       ? cosine_exact(how, query, vector)
           : how->precision == VRAM_PRECISION_INT8 ? key_by(how, VRAM_PRECISION_INT8, query, vector)
           : how->precision == VRAM_PRECISION_FP16
               ? key_by(how, VRAM_PRECISION_FP16, query, vector)
               : key_by(how, VRAM_PRECISION_FP32, query, vector);
}

double vr_key_rest(const struct vr_conversion *how, const float *query) {
    double sum = 0;
    for (uint64_t i = 0; how->metric == VRAM_METRIC_INNER_PRODUCT && how->centre && i < how->dim;
         i++) {
        sum += number_exact(how, query[i]) * (double)how->centre[i];
    }
    return sum;
}

float vr_key_distance(const struct vr_conversion *how, double key) {
    double scale = how->precision == VRAM_PRECISION_INT8 ? 1 / (double)how->scale : 1;
    switch (how->metric) {
    case VRAM_METRIC_COSINE:
        return (float)key;
    case VRAM_METRIC_INNER_PRODUCT:
        return (float)(0 - key * scale * scale);
    case VRAM_METRIC_L2:
        return (float)(square_root(key) * scale);
    default:
        return (float)(key * scale * scale);
    }
}

void vr_key_bounds(const struct vr_conversion *how, double term, const double *terms,
                   const float *products, uint64_t count, double *to) {
    double most = 1 - vr_key_error(how);
    switch (how->metric) {
    case VRAM_METRIC_COSINE:
        for (uint64_t i = 0; i < count; i++) {
            to[i] = most - (double)products[i] * (term * terms[i]);
        }
        break;
    case VRAM_METRIC_INNER_PRODUCT:
        for (uint64_t i = 0; i < count; i++) {
            to[i] = term + terms[i] - (double)products[i];
        }
        break;
    default:
        for (uint64_t i = 0; i < count; i++) {
            to[i] = term + terms[i] - 2 * (double)products[i];
        }
    }
}

void vr_row_rank(const struct vr_conversion *how, const float *query, const float *vectors,
                 uint64_t first, double term, const double *terms, const float *products,
                 uint64_t count, struct vr_nearest *nearest, float *row) {
    double bounds[VR_BOUNDS];
    for (uint64_t begin = 0; begin < count; begin += VR_BOUNDS) {
        uint64_t here = count - begin < VR_BOUNDS ? count - begin : VR_BOUNDS;
        vr_key_bounds(how, term, terms + begin, products + begin, here, bounds);
        for (uint64_t i = 0; i < here; i++) {
            if (vr_nearest_wants(nearest, bounds[i])) {
                uint64_t at = begin + i;
                double key = vr_key_exact(how, query, vectors + at * how->dim);
                vr_nearest_add(nearest, key, first + at);
                if (row) {
                    row[at] = vr_key_distance(how, key);
                }
            }
        }
    }
}

void vr_row_measure(const struct vr_search *search, uint64_t query, uint64_t first, double term,
                    const double *terms, const float *products, uint64_t count, float *to) {
    const struct vr_conversion *how = &search->how;
    const struct vram_distance *distance = search->distance;
    double whole = 1 / (1 - vr_key_error(how));
    for (uint64_t j = 0; j < count; j++) {
        double product = (double)products[j], key, both = 1;
        if (how->metric == VRAM_METRIC_INNER_PRODUCT) {
            to[j] = vr_key_distance(how, -product);
            continue;
        }
        if (how->metric == VRAM_METRIC_COSINE) {
            key = 1 - product * term * terms[j];
        } else {
            both = (term + terms[j]) * whole;
            key = both - 2 * product;
        }
        if (!(key > both * KEPT && key < INFINITY)) { /* not finite: see term_of */
            key = vr_key_exact(how, distance->query + query * how->dim,
                               distance->corpus + (first + j) * how->dim);
        }
        to[j] = vr_key_distance(how, key);
    }
}

/* ----------------------------------------------------------------------- centre */

/* The mean of some vectors. It helps if it is longer than the vectors are far from it. Half
   precision: a mean of halves, from which the distance of a half is mostly a half again. Integers
   have no cancellation, directions change with a centre, and a matrix of products needs none. */
bool vr_centre_find(const struct vram_distance *distance, vram_precision precision, float *to) {
    const struct vr_conversion how = {.dim = distance->dim, .precision = precision, .scale = 1};
    uint64_t dim = distance->dim, most = SAMPLE_NUMBERS / dim + 1;
    uint64_t count = distance->vectors < SAMPLE ? distance->vectors : SAMPLE;
    count = count < most ? count : most;
    uint64_t step = distance->vectors / count;
    double offset = 0, spread = 0;
    if (precision == VRAM_PRECISION_INT8 || distance->metric == VRAM_METRIC_COSINE ||
        (distance->metric == VRAM_METRIC_INNER_PRODUCT && distance->distances)) {
        return false;
    }
    for (uint64_t i = 0; i < dim; i++) {
        double sum = 0, squares = 0;
        for (uint64_t j = 0; j < count; j++) {
            double value = number_exact(&how, distance->corpus[j * step * dim + i]);
            sum += value;
            squares += value * value;
        }
        double mean = sum / (double)count, rest = squares / (double)count - mean * mean;
        to[i] = (float)number_exact(&how, (float)mean);
        offset += mean * mean;
        spread += rest > 0 ? rest : 0;
    }
    return offset > spread;
}

/* ------------------------------------------------------------------ near ties */

#define WHOLE 0x1.0p24  /* integers up to this are exact in single precision */
#define LOST  0x1.0p-14 /* a doubt that is a greater part of a result is too much */

/* How far a key of a device may be off. It is a sum of LANES sums in single precision: of squares;
   of products; or, for COSINE, of the squares of numbers x with an error by the difference of two
   vectors, which is no longer than x and the difference of their lengths. */
static double key_doubt(const struct vr_search *search, double length, double key) {
    const struct vr_conversion *how = &search->how;
    uint64_t terms = how->dim / LANES + 8;
    double error = (double)terms * 0x1.0p-22;
    if (how->metric == VRAM_METRIC_INNER_PRODUCT) {
        double size = length * square_root(search->lengths.longest);
        return how->precision == VRAM_PRECISION_INT8 && size < WHOLE ? 0 : size * error + TINY;
    }
    if (how->metric == VRAM_METRIC_COSINE) {
        double more = square_root(search->lengths.longest) - length, x = square_root(2 * key);
        double less = length - square_root(search->lengths.shortest);
        double apart = (more > less ? more : less) / length;
        double off = length > 0 ? error * (x + apart + error) : 0;
        return off * (x + off);
    }
    return how->precision == VRAM_PRECISION_INT8 && key < WHOLE ? 0 : key * error + TINY;
}

/* By insertion: nearly all are in order. */
static void sort_again(struct vr_nearest *nearest) {
    for (uint64_t i = 1; i < nearest->count; i++) {
        double value = nearest->values[i];
        uint64_t place = nearest->places[i], at = i;
        for (; at > 0 && (nearest->values[at - 1] > value ||
                          (nearest->values[at - 1] == value && nearest->places[at - 1] > place));
             at--) {
            nearest->values[at] = nearest->values[at - 1];
            nearest->places[at] = nearest->places[at - 1];
        }
        nearest->values[at] = value;
        nearest->places[at] = place;
    }
}

/* A vector that is not in the list is at most as far from the query as the last one less both
   doubts. If the first k are not below that, they may still be right: equal keys of the rest of the
   list are those of equal vectors or of integers, whose order is their numbers'. */
bool vr_nearest_settle(const struct vr_search *search, uint64_t query, struct vr_nearest *nearest) {
    const struct vr_conversion *how = &search->how;
    const struct vram_distance *distance = search->distance;
    const float *from = distance->query + query * how->dim;
    double length = how->metric >= VRAM_METRIC_INNER_PRODUCT ? length_exact(how, from) : 0;
    bool any = false;
    double rest = vr_key_rest(how, from), last = nearest->values[nearest->count - 1];
    double limit = last - key_doubt(search, length, last);
    for (uint64_t i = 0, end; i < nearest->count; i = end) {
        for (end = i + 1; end < nearest->count; end++) {
            double lower = nearest->values[end - 1], higher = nearest->values[end];
            if (higher - lower >
                key_doubt(search, length, lower) + key_doubt(search, length, higher)) {
                break;
            }
        }
        for (uint64_t j = i; j < end; j++) {
            /* A product may be much smaller than what its error goes by. */
            double value = nearest->values[j], size = value > rest ? value - rest : rest - value;
            bool lost = how->metric == VRAM_METRIC_INNER_PRODUCT && j < distance->k &&
                        size * LOST < key_doubt(search, length, value);
            if (lost || end - i > 1) {
                nearest->values[j] =
                    vr_key_exact(how, from, distance->corpus + nearest->places[j] * how->dim);
                any = true;
            }
        }
    }
    if (any) {
        sort_again(nearest);
    }
    double worst = nearest->values[distance->k - 1];
    return nearest->count == distance->vectors || worst < limit ||
           worst == nearest->values[nearest->count - 1];
}

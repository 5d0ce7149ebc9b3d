/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shortlist.cu: the nearest of many vectors, found on CUDA devices. vram_vectors turns vectors into what products
 * take, and gives each its term; vram_shortlist takes from products and terms a bound of each key, passes over what
 * is no better than the worst of a list, and computes the keys of the rest from the vectors. metric.h has the rules.
 *
 * A place in a list is a word of 64 bits: the rank of a key above, then the number of the vector; the lowest bit is
 * set where the key is only a bound. Of two the lower is the better one, so of equal keys the lower number comes
 * first. All bits set: there is nothing yet.
 */
#define GROUP 256
#define CHUNK (4 * GROUP) /* products that a group looks at together */
#define ROOM  2048        /* places for the list and for what may belong into it */
#define NONE  0xFFFFFFFFu

typedef unsigned long long word;

/* Numbers of vram/buffer.h and vram/distance.h. */
enum { SINGLE = 1, HALF = 2, INT8 = 4 };
enum { INNER = 2, COSINE = 3 };
enum { CENTRED = 1, QUERIES = 2, EMPTY = 2, INTEGERS = 4 }; /* flags */
enum { NOT_FINITE, RANGE, SATURATED, QUERIES_SATURATED, LONGEST, SHORTEST }; /* words of found */

/* ------------------------------------------------------------------ vectors */

static __device__ bool finite(float value) {
    return (__float_as_uint(value) & 0x7F800000u) != 0x7F800000u;
}

/* To the nearest half, ties to even, as a pattern of 16 bits. */
static __device__ unsigned half_of(float value) {
    unsigned word = __float_as_uint(value), twice = word + word, bias = twice & 0xFF000000u;
    float base = (__uint_as_float(word & 0x7FFFFFFFu) * 5192296858534827628530496329220096.0f) *
                 7.70371977754894341222391177033970927e-34f;
    bias = bias < 0x71000000u ? 0x71000000u : bias;
    unsigned bits = __float_as_uint(__uint_as_float((bias >> 1) + 0x07800000u) + base);
    unsigned number = ((bits >> 13) & 0x7C00u) + (bits & 0x0FFFu);
    return (word >> 16 & 0x8000u) | (twice > 0xFF000000u ? 0x7E00u : number);
}

static __device__ float of_half(unsigned bits) {
    unsigned word = bits << 16, twice = word + word;
    float normal = __uint_as_float((twice >> 4) + (0xE0u << 23)) * 1.92592994438723585305597794258492732e-34f;
    float denormal = __uint_as_float((twice >> 17) | (126u << 23)) - 0.5f;
    unsigned magnitude = twice < (1u << 27) ? __float_as_uint(denormal) : __float_as_uint(normal);
    return __uint_as_float((word & 0x80000000u) | magnitude);
}

/* A number as it is computed with. What is not finite then is told, and is 0; what is beyond 8 bits is counted. */
static __device__ float taken(float value, unsigned precision, float scale, bool *odd, unsigned *beyond) {
    if (finite(value) && precision == HALF) {
        value = of_half(half_of(value));
    } else if (finite(value) && precision == INT8) {
        value *= scale;
        value = value < 0 ? value - 0.5f : value + 0.5f;
        *beyond += value >= 128.0f || value <= -129.0f ? 1u : 0u;
        value = truncf(fminf(fmaxf(value, -128.0f), 127.0f));
    }
    *odd |= !finite(value);
    return finite(value) ? value : 0.0f;
}

static __device__ float sum_of_team(float sum) {
    for (unsigned step = 16; step > 0; step /= 2) {
        sum += __shfl_xor_sync(NONE, sum, step);
    }
    return sum;
}

/* Rounding of a sum of products, as a part of what is summed: vr_key_error without halves. */
static __device__ float rounding(unsigned dim) {
    return (float)(dim + 8) * 2.384185791015625e-07f;
}

/*
 * 32 threads take a vector. `to` has `stride` numbers of `stored` for each, or is `from` for single precision without
 * a centre. `found` has the words of the enum above.
 */
extern "C" __global__ void vram_vectors(float *from, void *to, float *terms, unsigned *found, const float *centre,
                                        unsigned rows, unsigned dim, unsigned stride, unsigned stored,
                                        unsigned precision, unsigned metric, unsigned flags, float scale) {
    unsigned row = blockIdx.x * (GROUP / 32) + threadIdx.x / 32, lane = threadIdx.x % 32, beyond = 0;
    bool odd = false, centred = (flags & CENTRED) != 0;
    float raw = 0, length = 0, along = 0, size = 0, most = 0;
    if (row >= rows) {
        return;
    }
    for (unsigned at = 4 * lane; at < stride; at += 128) {
        float *four = from + (word)row * dim + at, values[4];
        bool bad = false;
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            float value = at + i < dim ? taken(four[i], precision, scale, &bad, &beyond) : 0;
            raw += value * value;
            most = fmaxf(most, fabsf(value));
            if (centred && at + i < dim) {
                float middle = centre[at + i];
                value -= middle;
                along += value * middle;
                size += fabsf(value * middle);
                length += value * value;
            }
            values[i] = value;
        }
        odd |= bad;
        if (stored == HALF) {
            unsigned *pair = (unsigned *)to + ((word)row * stride + at) / 2;
            pair[0] = half_of(values[0]) | half_of(values[1]) << 16;
            pair[1] = half_of(values[2]) | half_of(values[3]) << 16;
        } else if (stored == INT8) {
            ((unsigned *)to)[((word)row * stride + at) / 4] =
                ((unsigned)(int)values[0] & 0xFFu) | ((unsigned)(int)values[1] & 0xFFu) << 8 |
                ((unsigned)(int)values[2] & 0xFFu) << 16 | (unsigned)(int)values[3] << 24;
        } else if (centred || bad) {
            for (unsigned i = 0; i < 4 && at + i < dim; i++) {
                ((float *)to)[(word)row * stride + at + i] = values[i];
            }
        }
    }
    raw = sum_of_team(raw);
    length = centred ? sum_of_team(length) : raw;
    for (unsigned step = 16; step > 0; step /= 2) {
        most = fmaxf(most, __shfl_xor_sync(NONE, most, step));
    }
    if (centred && metric == INNER) {
        along = sum_of_team(along);
        size = sum_of_team(size);
    }
    if (odd) {
        found[NOT_FINITE] = 1;
    }
    if (beyond) {
        atomicAdd(&found[flags & QUERIES ? QUERIES_SATURATED : SATURATED], beyond);
    }
    if (lane == 0) {
        float error = rounding(dim), all = error + (precision == HALF && centred ? 0.00390625f : 0.0f);
        if (!(raw < 1e36f) || (most > 0 && raw < 1e-30f)) {
            found[RANGE] = 1;
        }
        if (metric == INNER) {
            terms[row] = -0.5f * all * length - (centred && (flags & QUERIES) == 0 ? along + error * size : 0.0f);
        } else if (metric == COSINE) {
            terms[row] = length > 0 ? 1.0f / sqrtf(length) : 0;
        } else {
            terms[row] = length - all * length;
        }
        unsigned bits = __float_as_uint(length);
        if ((flags & QUERIES) == 0) { /* few are longer, or shorter, than all before */
            if (bits > found[LONGEST]) {
                atomicMax(&found[LONGEST], bits);
            }
            if (~bits > found[SHORTEST]) {
                atomicMax(&found[SHORTEST], ~bits);
            }
        }
    }
}

/* ---------------------------------------------------------------- shortlist */

/* Lower is better. */
static __device__ unsigned rank_of(float key) {
    unsigned bits = key == 0 ? 0 : __float_as_uint(key); /* one 0 for both */
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* The rank of the bound of a key. */
static __device__ unsigned bound_of(float product, float query, float vector, unsigned metric, float error) {
    float key = metric == COSINE  ? 1.0f - error - product * query * vector
                : metric == INNER ? query + vector - product
                                  : fmaxf(query + vector - 2.0f * product, 0.0f);
    return rank_of(key);
}

/* What a key is computed from: the vectors as they were sent. */
struct pairing {
    const float *query, *vectors, *centre;
    unsigned dim, metric, precision, flags;
    float scale;
};

/* The key of a vector, by 32 threads. 1 - cosine is |x|^2 / (2 |q|^2) with x = q - c |q| / |c|, which is
   q - c + c (|c|^2 - |q|^2) / (|c| (|c| + |q|)): differences throughout. */
static __device__ float key_of(const struct pairing *of, word column, unsigned lane) {
    const float *vector = of->vectors + column * of->dim;
    float sum = 0, gap = 0, queries = 0, vectors = 0;
    unsigned beyond = 0;
    bool odd = false;
#pragma unroll 1
    for (unsigned at = lane; at < of->dim; at += 32) {
        float q = taken(of->query[at], of->precision, of->scale, &odd, &beyond);
        float c = taken(vector[at], of->precision, of->scale, &odd, &beyond);
        if (of->metric == INNER) {
            sum -= q * (of->flags & CENTRED ? c - of->centre[at] : c);
        } else if (of->metric == COSINE) {
            gap += (c - q) * (c + q);
            queries += q * q;
            vectors += c * c;
        } else {
            sum += (q - c) * (q - c);
        }
    }
    if (of->metric != COSINE) {
        return sum_of_team(sum);
    }
    gap = sum_of_team(gap);
    queries = sum_of_team(queries);
    vectors = sum_of_team(vectors);
    if (!(queries > 0) || !(vectors > 0)) {
        return 1;
    }
    float length = sqrtf(vectors), part = gap / (length * (length + sqrtf(queries)));
#pragma unroll 1
    for (unsigned at = lane; at < of->dim; at += 32) {
        float q = taken(of->query[at], of->precision, of->scale, &odd, &beyond);
        float c = taken(vector[at], of->precision, of->scale, &odd, &beyond);
        float x = q - c + part * c;
        sum += x * x;
    }
    return 0.5f * sum_of_team(sum) / queries;
}

/* Puts [0, filled) in order; all threads of the group call it. A few words are left to one warp, which need not meet
   the others at every step. */
static __device__ void sort(word *room, unsigned filled) {
    unsigned size = 2;
    while (size < filled) {
        size *= 2;
    }
    for (unsigned i = filled + threadIdx.x; i < size; i += GROUP) {
        room[i] = ~0ull;
    }
    __syncthreads();
    bool few = size <= 64;
    for (unsigned width = 2; width <= size; width *= 2) {
        for (unsigned step = width / 2; step > 0; step /= 2) {
            for (unsigned i = threadIdx.x; i < size / 2; i += GROUP) {
                unsigned low = 2 * i - (i & (step - 1)), high = low + step;
                word a = room[low], b = room[high];
                if ((a > b) == ((low & width) == 0)) {
                    room[low] = b;
                    room[high] = a;
                }
            }
            if (few) {
                __syncwarp();
            } else {
                __syncthreads();
            }
        }
    }
    __syncthreads();
}

/*
 * Makes the first k of [0, filled) the best, in order, with keys and no bounds. Many are put in order by what they
 * have first; then the keys of the first few are computed, and these put in order. When the k-th is no worse than the
 * bound of the next behind them, no other can be better; else twice as many are looked at.
 */
static __device__ void settle(word *room, unsigned filled, unsigned k, unsigned place, const struct pairing *of) {
    unsigned end = 32, here = filled, lane = threadIdx.x % 32;
    word next = ~0ull;
    while (end < k + 8) {
        end *= 2;
    }
    for (bool many = filled > end;; many = false) {
        for (unsigned i = threadIdx.x / 32; i < here && !many; i += GROUP / 32) {
            word bound = room[i];
            if ((bound & 1) != 0 && bound != ~0ull) { /* the same for all 32 */
                float key = key_of(of, ((unsigned)bound >> 1) - place, lane);
                __syncwarp();
                if (lane == 0) {
                    room[i] = (word)rank_of(key) << 32 | ((unsigned)bound & ~1u);
                }
            }
        }
        __syncthreads();
        sort(room, here);
        if (!many && room[k - 1] <= next) {
            return;
        }
        end *= many ? 1 : 2;
        here = end < filled ? end : filled;
        next = end < filled ? room[end] : ~0ull;
        __syncthreads();
    }
}

/*
 * A group takes a query: row `query` of `products`, whose columns are vectors `place`, `place` + 1 and so on, higher
 * numbers than any in its list of k. What by its bound is no better than the worst of the list is passed over, and
 * that is nearly all; the rest is gathered behind the list and settled. `stride` is a multiple of 4.
 */
extern "C" __global__ void __launch_bounds__(GROUP, 5) /* 48 registers: with fewer the loop spills some */
    vram_shortlist(const float *products, const float *queries, const float *corpus, word *best, const float *query,
                   const float *vectors, const float *centre, unsigned columns, unsigned stride, unsigned k,
                   unsigned place, unsigned dim, unsigned metric, unsigned precision, unsigned flags, float scale) {
    __shared__ word room[ROOM];
    __shared__ unsigned count;
    const struct pairing of = {query + (word)blockIdx.x * dim, vectors, centre, dim, metric, precision, flags, scale};
    const float4 *row = (const float4 *)(products + (word)blockIdx.x * stride);
    const float4 *terms = (const float4 *)corpus;
    word *list = best + (word)blockIdx.x * k;
    float term = queries[blockIdx.x], error = rounding(dim);
    bool changed = (flags & EMPTY) != 0;
    unsigned thread = threadIdx.x, worst = changed ? NONE : (unsigned)(list[k - 1] >> 32);
    for (unsigned i = thread; i < k; i += GROUP) {
        room[i] = changed ? ~0ull : list[i];
    }
    if (thread == 0) {
        count = k;
    }
    unsigned filled = k, last = (columns - 1) / 4, at = thread;
    float4 next = row[at < last ? at : last], with = terms[at < last ? at : last];
    for (unsigned begin = 0; begin < columns; begin += CHUNK) {
        if (flags & INTEGERS) { /* a branch: conversions are slow, and seldom wanted */
            next = make_float4((float)__float_as_int(next.x), (float)__float_as_int(next.y),
                               (float)__float_as_int(next.z), (float)__float_as_int(next.w));
        }
        unsigned ranks[4] = {bound_of(next.x, term, with.x, metric, error),
                             bound_of(next.y, term, with.y, metric, error),
                             bound_of(next.z, term, with.z, metric, error),
                             bound_of(next.w, term, with.w, metric, error)};
        unsigned here = 4 * at, wanted = 0;
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            wanted |= (here + i < columns && ranks[i] < worst ? 1u : 0u) << i;
        }
        at += GROUP;
        next = row[at < last ? at : last]; /* on its way while the group meets */
        with = terms[at < last ? at : last];
        bool ending = begin + CHUNK >= columns && filled > k;
        if (!__syncthreads_or(wanted != 0) && !ending) {
            continue;
        }
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            if (wanted >> i & 1) {
                room[atomicAdd(&count, 1u)] = (word)ranks[i] << 32 | (place + here + i) << 1 | 1u;
            }
        }
        __syncthreads();
        filled = count;
        changed = true;
        if (filled + CHUNK > ROOM || begin + CHUNK >= columns) {
            settle(room, filled, k, place, &of);
            worst = (unsigned)(room[k - 1] >> 32);
            filled = k;
        }
        __syncthreads();
        if (thread == 0) {
            count = filled;
        }
        __syncthreads();
    }
    for (unsigned i = thread; changed && i < k; i += GROUP) {
        list[i] = room[i];
    }
}

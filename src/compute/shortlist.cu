/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shortlist.cu: the nearest of many vectors, found on CUDA devices. vram_vectors turns vectors into what products
 * take and measures them; vram_shortlist turns products into distances and keeps the k best of each query.
 *
 * A place in a list is a word of 64 bits: how good it is above, the number of the vector below. Of two the lower
 * is the better one, so of equal distances the lower number comes first. All bits set: there is nothing yet.
 */
#define GROUP 256
#define CHUNK (4 * GROUP) /* products that a group looks at together */
#define ROOM  2048        /* places for the list and for what may belong into it */
#define NONE  0xFFFFFFFFu

typedef unsigned long long word;

/* Numbers of vram/buffer.h and vram/distance.h. */
enum { HALF = 2, INT8 = 4 };
enum { L2 = 1, INNER = 2, COSINE = 3 };

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

/* A number as it is computed with; what is not finite then is told, and is 0. */
static __device__ float taken(float value, unsigned precision, bool *odd) {
    if (finite(value) && precision == HALF) {
        value = of_half(half_of(value));
    } else if (finite(value) && precision == INT8) {
        value = fminf(fmaxf(value * 127.0f, -128.0f), 127.0f);
        value = truncf(value < 0 ? value - 0.5f : value + 0.5f);
    }
    *odd |= !finite(value);
    return finite(value) ? value : 0.0f;
}

/*
 * 32 threads take a vector. `to` has `stride` halves for each, or is `from` for single precision. `lengths` are
 * squared, or 1 / length with flag 1. found[0]: a number was not finite; found[1]: a length is too large or
 * too small for what comes after.
 */
extern "C" __global__ void vram_vectors(float *from, void *to, float *lengths, unsigned *found,
                                        unsigned rows, unsigned dim, unsigned stride,
                                        unsigned precision, unsigned flags) {
    unsigned row = blockIdx.x * (GROUP / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    bool odd = false;
    float sum = 0, most = 0;
    if (row >= rows) {
        return;
    }
    for (unsigned at = 2 * lane; at < stride; at += 64) {
        float *pair = from + (word)row * dim + at;
        bool two = at + 1 < dim, bad = false;
        float a = at < dim ? taken(pair[0], precision, &bad) : 0;
        float b = two ? taken(pair[1], precision, &bad) : 0;
        sum += a * a + b * b;
        most = fmaxf(most, fmaxf(fabsf(a), fabsf(b)));
        odd |= bad;
        if (precision == HALF || precision == INT8) {
            ((unsigned *)to)[((word)row * stride + at) / 2] = half_of(a) | half_of(b) << 16;
        } else if (bad) {
            pair[0] = a;
            if (two) {
                pair[1] = b;
            }
        }
    }
    for (unsigned step = 16; step > 0; step /= 2) {
        sum += __shfl_xor_sync(NONE, sum, step);
        most = fmaxf(most, __shfl_xor_sync(NONE, most, step));
    }
    if (odd) {
        found[0] = 1;
    }
    if (lane == 0) {
        if (!(sum < 1e36f) || (most > 0 && sum < 1e-30f)) {
            found[1] = 1;
        }
        lengths[row] = (flags & 1) == 0 ? sum : sum > 0 ? 1.0f / sqrtf(sum) : 0;
    }
}

/* ---------------------------------------------------------------- shortlist */

/* Lower is better. */
static __device__ unsigned rank_of(float product, float query, float vector, unsigned metric,
                                   float scale) {
    float value = product * scale;
    if (metric == COSINE) {
        value = 1.0f - product * query * vector;
    } else if (metric != INNER) {
        value = fmaxf((query + vector - 2.0f * product) * scale, 0.0f);
        value = metric == L2 ? sqrtf(value) : value;
    }
    unsigned bits = value == 0 ? 0 : __float_as_uint(value); /* one 0 for both */
    bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return metric == INNER ? ~bits : bits;
}

/* Puts [0, filled) in order; all threads of the group call it. */
static __device__ void sort(word *room, unsigned filled) {
    unsigned size = 2;
    while (size < filled) {
        size *= 2;
    }
    for (unsigned i = filled + threadIdx.x; i < size; i += GROUP) {
        room[i] = ~0ull;
    }
    __syncthreads();
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
            __syncthreads();
        }
    }
}

/*
 * A group takes a query: row `query` of `products`, whose columns are vectors `place`, `place` + 1 and so on, higher
 * numbers than any in its list of k. What is no better than the worst of the list is passed over, and that
 * is nearly all; the rest is gathered behind the list and sorted into it. flags: 1 the list is empty,
 * 2 vectors are of 8 bits. `stride` is a multiple of 4.
 */
extern "C" __global__ void __launch_bounds__(GROUP)
    vram_shortlist(const float *products, const float *queries, const float *corpus, word *best,
                   unsigned columns, unsigned stride, unsigned k, unsigned place, unsigned metric,
                   unsigned flags) {
    __shared__ word room[ROOM];
    __shared__ unsigned count;
    const float4 *row = (const float4 *)(products + (word)blockIdx.x * stride);
    const float4 *vectors = (const float4 *)corpus;
    word *list = best + (word)blockIdx.x * k;
    float query = queries[blockIdx.x], scale = flags & 2 ? 1.0f / 16129.0f : 1.0f;
    bool changed = (flags & 1) != 0;
    unsigned thread = threadIdx.x, worst = changed ? NONE : (unsigned)(list[k - 1] >> 32);
    for (unsigned i = thread; i < k; i += GROUP) {
        room[i] = changed ? ~0ull : list[i];
    }
    if (thread == 0) {
        count = k;
    }
    unsigned filled = k, last = (columns - 1) / 4, at = thread;
    float4 next = row[at < last ? at : last], lengths = vectors[at < last ? at : last];
    for (unsigned begin = 0; begin < columns; begin += CHUNK) {
        unsigned ranks[4] = {rank_of(next.x, query, lengths.x, metric, scale),
                             rank_of(next.y, query, lengths.y, metric, scale),
                             rank_of(next.z, query, lengths.z, metric, scale),
                             rank_of(next.w, query, lengths.w, metric, scale)};
        unsigned here = 4 * at, wanted = 0;
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            wanted |= (here + i < columns && ranks[i] < worst ? 1u : 0u) << i;
        }
        at += GROUP;
        next = row[at < last ? at : last]; /* on its way while the group meets */
        lengths = vectors[at < last ? at : last];
        if (!__syncthreads_or(wanted != 0)) {
            continue;
        }
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            if (wanted >> i & 1) {
                room[atomicAdd(&count, 1u)] = (word)ranks[i] << 32 | (place + here + i);
            }
        }
        __syncthreads();
        filled = count;
        changed = true;
        if (filled + CHUNK > ROOM) {
            sort(room, filled);
            worst = (unsigned)(room[k - 1] >> 32);
            filled = k;
        }
        __syncthreads();
        if (thread == 0) {
            count = filled;
        }
        __syncthreads();
    }
    if (filled > k) {
        sort(room, filled);
    }
    for (unsigned i = thread; changed && i < k; i += GROUP) {
        list[i] = room[i];
    }
}

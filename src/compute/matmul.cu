/* SPDX-License-Identifier: Apache-2.0 */
/*
 * matmul.cu: C = A * B for CUDA devices without cuBLAS. A group of 16 x 16 threads computes 64 x 64 results, 4 x 4
 * each, from tiles of 16 steps in shared memory.
 */
#define TILE  64
#define STEPS 16

/* Precisions as in vram/buffer.h: 1 single, 2 half, 3 bfloat16. */
static __device__ float element(const void *matrix, unsigned precision, unsigned long long at) {
    if (precision == 1) {
        return ((const float *)matrix)[at];
    }
    unsigned bits = ((const unsigned short *)matrix)[at];
    if (precision == 3) {
        return __uint_as_float(bits << 16);
    }
    unsigned word = bits << 16, twice = word + word;
    float normal = __uint_as_float((twice >> 4) + (0xE0u << 23)) * 1.92592994438723585305597794258492732e-34f;
    float denormal = __uint_as_float((twice >> 17) | (126u << 23)) - 0.5f;
    unsigned magnitude =
        twice < (1u << 27) ? __float_as_uint(denormal) : __float_as_uint(normal);
    return __uint_as_float((word & 0x80000000u) | magnitude);
}

/* flags: 1 A is transposed, 2 B is. */
extern "C" __global__ void vram_matmul(const void *a, const void *b, float *c, unsigned m,
                                       unsigned n, unsigned k, unsigned lda, unsigned ldb,
                                       unsigned ldc, unsigned a_first, unsigned b_first,
                                       unsigned c_first, unsigned flags, unsigned precision) {
    __shared__ float tile_a[STEPS][TILE + 1], tile_b[STEPS][TILE + 1];
    unsigned row = blockIdx.y * TILE, column = blockIdx.x * TILE;
    unsigned thread = threadIdx.y * 16 + threadIdx.x;
    float sums[4][4] = {{0}};
    for (unsigned step = 0; step < k; step += STEPS) {
#pragma unroll 1
        for (unsigned side = 0; side < 2; side++) { /* A, then B */
            const void *matrix = side ? b : a;
            float(*tile)[TILE + 1] = side ? tile_b : tile_a;
            unsigned first_line = side ? column : row, lines = side ? n : m;
            unsigned long long stride = side ? ldb : lda, first = side ? b_first : a_first;
            bool by_step = side ? (flags & 2) == 0 : (flags & 1) != 0; /* stored step by step */
#pragma unroll 1
            for (unsigned i = thread; i < TILE * STEPS; i += 256) {
                unsigned p = by_step ? i / TILE : i % STEPS, line = by_step ? i % TILE : i / STEPS;
                unsigned long long across = first_line + line, along = step + p;
                unsigned long long at = by_step ? along * stride + across : across * stride + along;
                tile[p][line] =
                    across < lines && along < k ? element(matrix, precision, first + at) : 0;
            }
        }
        __syncthreads();
#pragma unroll 2
        for (unsigned p = 0; p < STEPS; p++) {
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
#pragma unroll
                for (unsigned j = 0; j < 4; j++) {
                    sums[i][j] += tile_a[p][threadIdx.y + 16 * i] * tile_b[p][threadIdx.x + 16 * j];
                }
            }
        }
        __syncthreads();
    }
    for (unsigned i = 0; i < 4; i++) {
        for (unsigned j = 0; j < 4; j++) {
            unsigned r = row + threadIdx.y + 16 * i, s = column + threadIdx.x + 16 * j;
            if (r < m && s < n) {
                c[c_first + (unsigned long long)r * ldc + s] = sums[i][j];
            }
        }
    }
}

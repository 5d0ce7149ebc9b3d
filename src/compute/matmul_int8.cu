/* SPDX-License-Identifier: Apache-2.0 */
/*
 * matmul_int8.cu: C = A * B of integers of 8 bits for CUDA devices without cuBLAS: four products an instruction, and
 * sums in 32 bits. A is stored by rows, B transposed; k and the distances of rows are multiples of 16. A group of
 * 16 x 16 threads computes 64 x 64 results, 4 x 4 each, from tiles of 16 words in shared memory.
 */
#define TILE  64
#define WORDS 16

/* The arguments of vram_matmul; those that are not used are for transposed matrices and other types. */
extern "C" __global__ void vram_matmul_int8(const int *a, const int *b, float *c, unsigned m, unsigned n, unsigned k,
                                            unsigned lda, unsigned ldb, unsigned ldc, unsigned, unsigned, unsigned,
                                            unsigned, unsigned) {
    __shared__ int tile_a[WORDS][TILE + 1], tile_b[WORDS][TILE + 1];
    unsigned row = blockIdx.y * TILE, column = blockIdx.x * TILE;
    unsigned thread = threadIdx.y * 16 + threadIdx.x;
    int sums[4][4] = {{0}};
    for (unsigned step = 0; step < k / 4; step += WORDS) {
#pragma unroll 1
        for (unsigned i = thread; i < TILE * WORDS; i += 256) {
            unsigned p = i % WORDS, line = i / WORDS;
            bool in = step + p < k / 4;
            tile_a[p][line] = in && row + line < m ? a[(row + line) * (unsigned long long)(lda / 4) + step + p] : 0;
            tile_b[p][line] =
                in && column + line < n ? b[(column + line) * (unsigned long long)(ldb / 4) + step + p] : 0;
        }
        __syncthreads();
#pragma unroll 2
        for (unsigned p = 0; p < WORDS; p++) {
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
#pragma unroll
                for (unsigned j = 0; j < 4; j++) {
                    sums[i][j] =
                        __dp4a(tile_a[p][threadIdx.y + 16 * i], tile_b[p][threadIdx.x + 16 * j], sums[i][j]);
                }
            }
        }
        __syncthreads();
    }
    for (unsigned i = 0; i < 4; i++) {
        for (unsigned j = 0; j < 4; j++) {
            unsigned r = row + threadIdx.y + 16 * i, s = column + threadIdx.x + 16 * j;
            if (r < m && s < n) {
                c[(unsigned long long)r * ldc + s] = (float)sums[i][j];
            }
        }
    }
}

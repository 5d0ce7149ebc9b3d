/* SPDX-License-Identifier: Apache-2.0 */
/*
 * direct_blas.h: the libraries for products called as a program would that knows nothing of
 * libvram, but on memory and streams that it has from there. What is not installed is not measured.
 */
#ifndef DIRECT_BLAS_H
#define DIRECT_BLAS_H

#include <vram/vram.h>

struct direct_blas {
    void *cblas, *cuda, *cublas; /* of dlopen; NULL: not there */
    void *handle;                /* cuBLAS's */
};

void direct_begin(struct direct_blas *direct);
void direct_end(struct direct_blas *direct);

/* C = A * B, all side x side; false: the library is not there, or refuses. */
bool direct_cblas(struct direct_blas *direct, uint64_t side, const float *a, const float *b,
                  float *c);
bool direct_cublas(struct direct_blas *direct, vram_queue *queue, uint64_t side,
                   const vram_addr at[3]);

#endif

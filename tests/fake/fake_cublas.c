/* SPDX-License-Identifier: Apache-2.0 */
/* fake_cublas.c: see fake_gpu_blas.h. */
#define FAKE_BLAS_CONTROL fake_cublas_control
#include "fake/fake_gpu_blas.h"

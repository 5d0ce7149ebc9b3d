/* SPDX-License-Identifier: Apache-2.0 */
/* fake_hipblas.c: see fake_gpu_blas.h. */
#define FAKE_BLAS_CONTROL fake_hipblas_control
#define FAKE_BLAS_HIP
#include "fake/fake_gpu_blas.h"

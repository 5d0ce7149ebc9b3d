/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's headers include this name for the same declarations. */
#include "cuda_runtime_api.h"

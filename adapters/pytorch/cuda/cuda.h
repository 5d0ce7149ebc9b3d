/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's headers include the driver API and use nothing of it that the adapter sees. */
#include "cuda_runtime_api.h"

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_blocking.c: CUDA's copies that end before they return. The library never calls them; `vram
 * bench copy` does, as the measure of its own.
 */
#include "fake/fake_state.h"

FAKE_API vr_cu_result cuMemcpyHtoD_v2(vr_cu_addr to, const void *from, size_t bytes);
FAKE_API vr_cu_result cuMemcpyHtoD_v2(vr_cu_addr to, const void *from, size_t bytes) {
    vr_cu_result code = fake_cuMemcpyHtoDAsync(to, from, bytes, NULL);
    return code == VR_CU_SUCCESS ? fake_cuStreamSynchronize(NULL) : code;
}

FAKE_API vr_cu_result cuMemcpyDtoH_v2(void *to, vr_cu_addr from, size_t bytes);
FAKE_API vr_cu_result cuMemcpyDtoH_v2(void *to, vr_cu_addr from, size_t bytes) {
    vr_cu_result code = fake_cuMemcpyDtoHAsync(to, from, bytes, NULL);
    return code == VR_CU_SUCCESS ? fake_cuStreamSynchronize(NULL) : code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_hip.c: what HIP has and CUDA has not: a current device for each thread in the place of
 * contexts, and an error that waits to be read. Both are there in the CUDA driver too, unused.
 */
#include "fake/fake_engine.h"

vr_cu_result fake_hipGetDevice(int *device) {
    FAKE_ENTER(hipGetDevice, FAKE_NEEDS_INIT);
    *device = fake_thread.device;
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_hipSetDevice(int device) {
    FAKE_ENTER(hipSetDevice, FAKE_NEEDS_INIT);
    if (device < 0 || device >= fake.device_count) {
        return fake_leave(VR_CU_INVALID_DEVICE);
    }
    fake_thread.device = device;
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_hipPeekAtLastError(void) {
    vr_cu_result last = fake_thread.last;
    FAKE_ENTER(hipPeekAtLastError, FAKE_NEEDS_NOTHING);
    fake_leave(VR_CU_SUCCESS);
    return last;
}

vr_cu_result fake_hipGetLastError(void) {
    vr_cu_result last = fake_thread.last;
    FAKE_ENTER(hipGetLastError, FAKE_NEEDS_NOTHING);
    fake_leave(VR_CU_SUCCESS);
    fake_thread.last = VR_CU_SUCCESS;
    return last;
}

vr_cu_result fake_hipStreamGetDevice(struct vr_cu_stream *handle, int *device) {
    FAKE_ENTER(hipStreamGetDevice, FAKE_NEEDS_CONTEXT);
    struct vr_cu_stream *stream = fake_stream_of(handle);
    if (!stream) {
        return fake_leave(VR_CU_INVALID_HANDLE);
    }
    *device = stream->device->ordinal;
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_hipStreamWaitValue64(struct vr_cu_stream *stream, vr_cu_addr addr, uint64_t value,
                                       unsigned flags, uint64_t mask) {
    FAKE_ENTER(hipStreamWaitValue64, FAKE_NEEDS_CONTEXT);
    if (flags != VR_CU_WAIT_GEQ || mask != UINT64_MAX) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    return fake_wait_value(stream, addr, value);
}

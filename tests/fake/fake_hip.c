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

/* -------------------------------------------------------------- other devices */

static bool known(int device) {
    return device >= 0 && device < fake.device_count;
}

vr_cu_result fake_hipDeviceEnablePeerAccess(int peer, unsigned flags) {
    FAKE_ENTER(hipDeviceEnablePeerAccess, FAKE_NEEDS_CONTEXT);
    if (!known(peer) || flags) {
        return fake_leave(flags ? VR_CU_INVALID_VALUE : VR_CU_INVALID_DEVICE);
    }
    return fake_peer_enable(&fake.devices[peer]);
}

vr_cu_result fake_hipMemcpyPeerAsync(vr_cu_addr to, int to_device, vr_cu_addr from, int from_device,
                                     size_t bytes, struct vr_cu_stream *stream) {
    FAKE_ENTER(hipMemcpyPeerAsync, FAKE_NEEDS_CONTEXT);
    if (!known(from_device) || to_device != fake_current_device()->ordinal) {
        return fake_leave(VR_CU_INVALID_DEVICE);
    }
    return fake_peer_copy(to, &fake.devices[from_device], from, bytes, stream);
}

vr_cu_result fake_hipMemPrefetchAsync(vr_cu_addr addr, size_t bytes, int device,
                                      struct vr_cu_stream *stream) {
    FAKE_ENTER(hipMemPrefetchAsync, FAKE_NEEDS_CONTEXT);
    return known(device) || device == -1 ? fake_prefetch(addr, bytes, device, stream)
                                         : fake_leave(VR_CU_INVALID_VALUE);
}

vr_cu_result fake_hipMemAdvise(vr_cu_addr addr, size_t bytes, enum vr_cu_advice advice,
                               int device) {
    FAKE_ENTER(hipMemAdvise, FAKE_NEEDS_SAFETY);
    bool good = fake_is_managed(addr, bytes) && advice >= VR_CU_ADVISE_READ_MOSTLY &&
                advice <= VR_CU_ADVISE_PREFER_NONE && (known(device) || device == -1);
    fake.hinted = device;
    return fake_leave(good ? VR_CU_SUCCESS : VR_CU_INVALID_VALUE);
}

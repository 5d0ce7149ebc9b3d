/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_rivals.c: calls of CUDA that the library never makes and `vram bench` measures beside it:
 * copies that end before they return, and the driver's own stream-ordered allocator; and what a
 * program does to the device behind its back.
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

/* ------------------------------------------------------- contexts and streams */

/* NULL empties the thread's stack. */
FAKE_API vr_cu_result cuCtxSetCurrent(struct vr_cu_context *context);
FAKE_API vr_cu_result cuCtxSetCurrent(struct vr_cu_context *context) {
    struct vr_cu_context *before;
    vr_cu_result code = VR_CU_SUCCESS;
    if (fake_thread.depth) {
        code = fake_cuCtxPopCurrent(&before);
    }
    return code == VR_CU_SUCCESS && context ? fake_cuCtxPushCurrent(context) : code;
}

FAKE_API vr_cu_result cuStreamCreate(struct vr_cu_stream **stream, unsigned flags);
FAKE_API vr_cu_result cuStreamCreate(struct vr_cu_stream **stream, unsigned flags) {
    return fake_cuStreamCreateWithPriority(stream, flags, 0);
}

FAKE_API vr_cu_result cuDevicePrimaryCtxReset_v2(vr_cu_device device);
FAKE_API vr_cu_result cuDevicePrimaryCtxReset_v2(vr_cu_device device) {
    if (device < 0 || device >= fake.device_count) {
        return VR_CU_INVALID_DEVICE;
    }
    fake_cuda_control()->device_reset(device);
    return VR_CU_SUCCESS;
}

/* ------------------------------------------------------ stream-ordered memory */

enum { RELEASE_THRESHOLD = 4 };

/* A device's default pool. It keeps nothing, whatever the threshold says. */
struct vr_cu_pool {
    uint64_t threshold;
};

FAKE_API vr_cu_result cuDeviceGetDefaultMemPool(struct vr_cu_pool **pool, vr_cu_device device);
FAKE_API vr_cu_result cuDeviceGetDefaultMemPool(struct vr_cu_pool **pool, vr_cu_device device) {
    static struct vr_cu_pool pools[FAKE_DEVICES_MAX];
    if (device < 0 || device >= fake.device_count) {
        return VR_CU_INVALID_DEVICE;
    }
    *pool = &pools[device];
    return VR_CU_SUCCESS;
}

FAKE_API vr_cu_result cuMemPoolSetAttribute(struct vr_cu_pool *pool, int attribute, void *value);
FAKE_API vr_cu_result cuMemPoolSetAttribute(struct vr_cu_pool *pool, int attribute, void *value) {
    if (attribute != RELEASE_THRESHOLD) {
        return VR_CU_INVALID_VALUE;
    }
    pool->threshold = *(uint64_t *)value;
    return VR_CU_SUCCESS;
}

FAKE_API vr_cu_result cuMemPoolGetAttribute(struct vr_cu_pool *pool, int attribute, void *value);
FAKE_API vr_cu_result cuMemPoolGetAttribute(struct vr_cu_pool *pool, int attribute, void *value) {
    if (!pool) {
        return VR_CU_INVALID_VALUE;
    }
    *(uint64_t *)value = attribute == RELEASE_THRESHOLD ? pool->threshold : 0;
    return VR_CU_SUCCESS;
}

FAKE_API vr_cu_result cuMemAllocAsync(vr_cu_addr *addr, size_t bytes, struct vr_cu_stream *stream);
FAKE_API vr_cu_result cuMemAllocAsync(vr_cu_addr *addr, size_t bytes, struct vr_cu_stream *stream) {
    unsigned long long id;
    vr_cu_result code = fake_cuStreamGetId(stream, &id); /* whether there is such a stream */
    return code == VR_CU_SUCCESS ? fake_cuMemAlloc(addr, bytes) : code;
}

FAKE_API vr_cu_result cuMemFreeAsync(vr_cu_addr addr, struct vr_cu_stream *stream);
FAKE_API vr_cu_result cuMemFreeAsync(vr_cu_addr addr, struct vr_cu_stream *stream) {
    vr_cu_result code = fake_cuStreamSynchronize(stream);
    return code == VR_CU_SUCCESS ? fake_cuMemFree(addr) : code;
}

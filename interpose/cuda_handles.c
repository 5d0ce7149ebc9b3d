/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_handles.c: physical memory of CUDA, its mappings, and the driver's pools.
 */
#include "cuda_run.h"
#include "mapped_handles.h"
#include "serve.h"

#define CALLER __builtin_return_address(0)

/* CUmemAllocationProp, as far as it is needed here. */
struct allocation_prop {
    int type, handle_types;
    int location_type, location_id;
};

enum { LOCATION_DEVICE = 1 };

int cuMemCreate(cuda_handle *handle, size_t bytes, const void *prop, unsigned long long flags) {
    const struct allocation_prop *about = prop;
    bool of_device = !about || about->location_type == LOCATION_DEVICE;
    enum run_kind kind = of_device ? RUN_PHYSICAL : RUN_HOST;
    uint32_t device = about && of_device ? cuda_device(about->location_id) : cuda_device_current();
    if (!run_limit_take(device, kind, bytes)) {
        run_refused(device, kind, bytes, true);
        return CUDA_OUT_OF_MEMORY;
    }
    int code = CUDA_REAL(cuMemCreate)(handle, bytes, prop, flags);
    if (code == CUDA_SUCCESS) {
        run_handle_created(&(struct run_block){.device = device,
                                               .kind = kind,
                                               .space = RUN_SPACE_PHYSICAL,
                                               .value = *handle,
                                               .bytes = bytes,
                                               .caller = CALLER});
        if (of_device) {
            cuda_figure(device);
        }
        return code;
    }
    run_limit_give(device, kind, bytes);
    if (code == CUDA_OUT_OF_MEMORY) {
        run_refused(device, kind, bytes, false);
    }
    return code;
}

/* Another process's, or another API's; how large is known when it is mapped. */
int cuMemImportFromShareableHandle(cuda_handle *handle, void *shared, int type) {
    int code = CUDA_REAL(cuMemImportFromShareableHandle)(handle, shared, type);
    if (code == CUDA_SUCCESS) {
        run_handle_created(&(struct run_block){.device = cuda_device_current(),
                                               .kind = RUN_IMPORTED,
                                               .space = RUN_SPACE_PHYSICAL,
                                               .value = *handle,
                                               .caller = CALLER});
    }
    return code;
}

int cuMemRetainAllocationHandle(cuda_handle *handle, void *addr) {
    int code = CUDA_REAL(cuMemRetainAllocationHandle)(handle, addr);
    if (code == CUDA_SUCCESS) {
        run_handle_retained(*handle);
    }
    return code;
}

int cuMemRelease(cuda_handle handle) {
    struct run_handle_end end;
    run_handle_release_begin(handle, &end);
    int code = CUDA_REAL(cuMemRelease)(handle);
    run_handle_end(&end, code == CUDA_SUCCESS);
    return code;
}

int cuMemMap(cuda_addr addr, size_t bytes, size_t offset, cuda_handle handle,
             unsigned long long flags) {
    int code = CUDA_REAL(cuMemMap)(addr, bytes, offset, handle, flags);
    if (code == CUDA_SUCCESS) {
        run_handle_mapped(handle, addr, bytes);
    }
    return code;
}

int cuMemUnmap(cuda_addr addr, size_t bytes) {
    struct run_handle_end end;
    run_handle_unmap_begin(addr, bytes, &end);
    int code = CUDA_REAL(cuMemUnmap)(addr, bytes);
    run_handle_end(&end, code == CUDA_SUCCESS);
    return code;
}

/* ----------------------------------------------------------------- pools, streams */

int cuMemPoolCreate(void **pool, const void *props) {
    int code = CUDA_REAL(cuMemPoolCreate)(pool, props);
    if (code == CUDA_SUCCESS) {
        serve_pool_created(*pool, props);
    }
    return code;
}

int cuMemPoolDestroy(void *pool) {
    serve_pool_ends(pool);
    return CUDA_REAL(cuMemPoolDestroy)(pool);
}

int cuMemPoolTrimTo(void *pool, size_t keep) {
    int code;
    return serve_pool_trim(pool, keep, &code) ? code : CUDA_REAL(cuMemPoolTrimTo)(pool, keep);
}

int cuMemPoolSetAttribute(void *pool, int attribute, void *value) {
    int code;
    return serve_pool_attribute(pool, attribute, value, true, &code)
               ? code
               : CUDA_REAL(cuMemPoolSetAttribute)(pool, attribute, value);
}

int cuMemPoolGetAttribute(void *pool, int attribute, void *value) {
    int code;
    return serve_pool_attribute(pool, attribute, value, false, &code)
               ? code
               : CUDA_REAL(cuMemPoolGetAttribute)(pool, attribute, value);
}

int cuMemPoolSetAccess(void *pool, const struct cuda_access *access, size_t count) {
    int code = CUDA_REAL(cuMemPoolSetAccess)(pool, access, count);
    for (size_t i = 0; code == CUDA_SUCCESS && access && i < count; i++) {
        if (access[i].location_type == LOCATION_DEVICE && access[i].flags != 0) {
            serve_pool_shared(pool, &access[i].location_id, 1);
        }
    }
    return code;
}

int cuStreamDestroy_v2(void *stream) {
    serve_stream_ends(stream);
    return CUDA_REAL(cuStreamDestroy_v2)(stream);
}

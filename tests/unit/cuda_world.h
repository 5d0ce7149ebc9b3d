/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_world.h: the tests' CUDA driver, or HIP's, behind the public calls, for tests of both
 * backends. A test ends with nothing left: no object of the driver's, no context on the thread's
 * stack, no breach of the driver's rules.
 */
#ifndef TEST_CUDA_WORLD_H
#define TEST_CUDA_WORLD_H

#include "base/memory.h"
#include "base/os/os.h"
#include "fake/fake_cuda.h"
#include "unit/assert_ok.h"
#include "vram/vram.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

/* Which of the two backends of this kind is tested. */
#ifdef WORLD_HIP
#define WORLD_NAME            "hip"
#define WORLD_PATH            FAKE_HIP_PATH
#define WORLD_OPTION          "hip_library"
#define WORLD_CALL(cuda, hip) hip
#define WORLD_TRIES           true /* opening a device tries what it promises */
#else
#define WORLD_NAME            "cuda"
#define WORLD_PATH            FAKE_CUDA_PATH
#define WORLD_OPTION          "cuda_library"
#define WORLD_CALL(cuda, hip) cuda
#define WORLD_TRIES           false
#endif

#define GRANULE    (UINT64_C(2) << 20)
#define PAGE       ((uint64_t)vr_os_page_bytes())
#define FOR_EVER   UINT64_C(10000000000) /* ns: longer than anything here takes */
#define PER_THREAD ((void *)(uintptr_t)VR_CU_STREAM_PER_THREAD)
#define LEGACY     ((void *)(uintptr_t)VR_CU_STREAM_LEGACY)

/* The driver's control table. The handle is kept: the backend opens the same library again. */
static const struct fake_cuda_control *fake;

static inline const struct fake_cuda_control *fake_open(const char *path) {
    const struct fake_cuda_control *(*get)(void) = NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void *found = dlsym(library, "fake_cuda_control");
    assert_non_null(found);
    memcpy(&get, &found, sizeof get);
    return get();
}

static inline uint64_t live_total(void) {
    struct fake_cuda_live live;
    fake->live(&live);
    return live.total;
}

static inline void assert_clean(void) {
    const char *text = "";
    if (fake->violations(&text)) {
        fail_msg("the driver's rules were broken: %s", text);
    }
    assert_int_equal(fake->depth(), 0);
    assert_int_equal(fake->thread_mode(), VR_CU_MODE_GLOBAL);
}

static inline void assert_cuda_error(vram_status status, const char *operation, int64_t code) {
    const vram_error *error = vram_error_get();
    assert_int_equal(error->status, status);
    assert_string_equal(error->backend, WORLD_NAME);
    assert_string_equal(error->operation, operation);
    assert_int_equal(error->native_code, code);
    assert_true(error->text[0] != 0);
}

static inline void in_a_thread(void *(*run)(void *), void *argument) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, argument), 0);
    pthread_join(thread, NULL);
}

#endif

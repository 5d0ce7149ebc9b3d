/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_world.h: what the tests of the CUDA backend share. Its tables are driven directly, with
 * objects made by hand as src/device makes them, over the fake driver of tests/fake. Every test
 * opens a world of its own and ends with nothing left: no block of bookkeeping, no object of the
 * driver's, no context on the thread's stack, no breach of the driver's rules.
 */
#ifndef TEST_CUDA_WORLD_H
#define TEST_CUDA_WORLD_H

#include "backend/hip/hip_backend.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "fake/fake_cuda.h"
#include "rig/rig.h"

#include <dlfcn.h>
#include <string.h>

/* Which of the two backends of this kind is tested. */
#ifdef WORLD_HIP
#define WORLD_BACKEND vr_hip_backend
#define WORLD_NAME    "hip"
#define WORLD_PATH    FAKE_HIP_PATH
#define WORLD_OPTION  "hip_library"
#define WORLD_TABLE   "fake/generated/table_hip.h"
#define WORLD_ENTRIES hip_entries
#define WORLD_DIALECT vr_hip_dialect
#define WORLD_FORMAT  VRAM_KERNEL_HSACO
#define WORLD_UPLOAD  "hipMemcpyHtoDAsync"
#define WORLD_ENTERS  "hipGetDevice"
#define WORLD_INDEX   1    /* not the device that is current at first */
#define WORLD_TRIES   true /* opening a device tries what it promises */
#else
#define WORLD_BACKEND vr_cuda_backend
#define WORLD_NAME    "cuda"
#define WORLD_PATH    FAKE_CUDA_PATH
#define WORLD_OPTION  "cuda_library"
#define WORLD_TABLE   "fake/generated/table_cuda.h"
#define WORLD_ENTRIES cuda_entries
#define WORLD_DIALECT vr_cuda_dialect
#define WORLD_FORMAT  VRAM_KERNEL_PTX
#define WORLD_UPLOAD  "cuMemcpyHtoDAsync"
#define WORLD_ENTERS  "cuCtxPushCurrent"
#define WORLD_INDEX   0
#define WORLD_TRIES   false
#endif

extern const struct vr_backend_ops WORLD_BACKEND;

#define GRANULE  (UINT64_C(2) << 20)
#define PAGE     ((uint64_t)vr_os_page_bytes())
#define FOR_EVER UINT64_C(10000000000) /* ns: longer than anything here takes */

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

/* ------------------------------------------------------------------- world */

struct world {
    struct vr_backend backend;
    struct vr_device device;
    uint64_t blocks_before;
    uint64_t kept_pages; /* of words that may still be written: they outlive the device */
};

static inline void open_device(struct vr_backend *backend, uint32_t index,
                               struct vr_device *device) {
    *device = (struct vr_device){.backend = backend, .index = index, .info.backend = WORLD_NAME};
    assert_int_equal(backend->ops->describe(backend, index, &device->info), VRAM_OK);
    assert_int_equal(backend->ops->device_open(device), VRAM_OK);
    assert_non_null(device->impl);
}

static inline void start_backend(struct vr_backend *backend) {
    *backend = (struct vr_backend){.ops = &WORLD_BACKEND};
    assert_int_equal(backend->ops->start(backend, NULL), VRAM_OK);
}

/* Starts the backend on the library that the option names; what it answered. */
static inline vram_status start_with(const char *path, struct vr_backend *backend) {
    *backend = (struct vr_backend){.ops = &WORLD_BACKEND};
    assert_int_equal(vram_option_set(WORLD_OPTION, path), VRAM_OK);
    vram_error_clear();
    vram_status status = backend->ops->start(backend, NULL);
    assert_int_equal(vram_option_set(WORLD_OPTION, NULL), VRAM_OK);
    if (status != VRAM_OK) {
        assert_null(backend->impl);
        assert_string_equal(backend->version, "");
        assert_int_equal(vram_error_get()->status, status);
        assert_null(strchr(vram_error_get()->text, '\n'));
    }
    return status;
}

static inline void assert_absent(const char *path, vram_status expected, const char *words) {
    struct vr_backend backend;
    uint64_t blocks = vr_mem_live_blocks();
    assert_int_equal(start_with(path, &backend), expected);
    if (!strstr(vram_error_get()->text, words)) {
        fail_msg("\"%s\" does not say \"%s\"", vram_error_get()->text, words);
    }
    assert_int_equal(vr_mem_live_blocks(), blocks);
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

/* What the wrappers do when an operation answers VRAM_ERR_DEVICE_LOST. */
static inline void note_loss(struct vr_device *device) {
    vr_store(&device->lost, true, VR_RELEASE);
}

/* Closes a device; one that is lost without a single call of the driver. */
static inline void close_device(struct vr_device *device) {
    bool lost = vr_load(&device->lost, VR_ACQUIRE);
    uint64_t before = fake->calls(NULL);
    device->ops->close(device);
    assert_null(device->impl);
    assert_true(!lost || fake->calls(NULL) == before);
}

static inline int setup(void) {
    static struct world world;
    memset(&world, 0, sizeof world);
    if (!fake) {
        fake = fake_open(WORLD_PATH);
    }
    fake->reset();
    assert_int_equal(vram_option_set(WORLD_OPTION, WORLD_PATH), VRAM_OK);
    world.blocks_before = vr_mem_live_blocks();
    start_backend(&world.backend);
    open_device(&world.backend, 0, &world.device);
    vram_error_clear();
    rig_state = &world;
    return 0;
}

static inline int teardown(void) {
    struct world *world = rig_state;
    vr_mem_fail_at(0, false);
    vr_os_fail_at(0, false, 0);
    fake->refuse(NULL, 0, 0, false);
    bool lost = vr_load(&world->device.lost, VR_ACQUIRE);
    if (world->device.impl) {
        close_device(&world->device);
    }
    world->backend.ops->stop(&world->backend);
    assert_null(world->backend.impl);
    assert_int_equal(vr_mem_live_blocks(), world->blocks_before);
    assert_true(lost || live_total() == world->kept_pages);
    assert_clean();
    assert_int_equal(vram_option_set(WORLD_OPTION, NULL), VRAM_OK);
    return 0;
}

static inline void assert_cuda_error(vram_status status, const char *operation, int64_t code) {
    const vram_error *error = vram_error_get();
    assert_int_equal(error->status, status);
    assert_string_equal(error->backend, WORLD_NAME);
    assert_string_equal(error->operation, operation);
    assert_int_equal(error->native_code, code);
    assert_true(error->text[0] != 0);
}

/* ------------------------------------------------------------------ queues */

static inline void make_queue(struct vr_device *device, struct vr_queue *queue) {
    static const struct vram_queue_options options = {.size = sizeof options};
    *queue = (struct vr_queue){.device = device};
    assert_int_equal(device->queue_ops->create(queue, &options), VRAM_OK);
    assert_non_null(queue->word);
    assert_non_null(queue->native);
}

static inline vram_status adopt(struct vr_device *device, void *native, struct vr_queue *queue) {
    *queue = (struct vr_queue){.device = device, .native = native, .adopted = true};
    return device->queue_ops->adopt(queue);
}

static inline void end_queue(struct vr_queue *queue) {
    queue->device->queue_ops->destroy(queue);
    assert_null(queue->impl);
}

static inline uint64_t word_of(const struct vr_queue *queue) {
    return vr_load(queue->word, VR_ACQUIRE);
}

/* Whether a word rises to `value` before long. */
static inline bool reaches(vr_atomic_u64 *word, uint64_t value) {
    uint64_t end = vr_os_now() + FOR_EVER;
    while (vr_load(word, VR_ACQUIRE) < value) {
        if (vr_os_now() > end) {
            return false;
        }
        vr_os_sleep(20000);
    }
    return true;
}

static inline bool passes(const struct vr_queue *queue, uint64_t value) {
    return reaches(queue->word, value);
}

/* Submits the next value and waits until it has passed. */
static inline void settle(struct vr_queue *queue) {
    uint64_t value = word_of(queue) + 1;
    assert_int_equal(queue->device->queue_ops->signal(queue, value), VRAM_OK);
    assert_true(passes(queue, value));
}

static inline vram_addr take_memory(struct vr_device *device, uint64_t bytes) {
    vram_addr addr = 0;
    assert_int_equal(device->ops->alloc(device, bytes, &addr), VRAM_OK);
    return addr;
}

static inline void give_memory(struct vr_device *device, vram_addr addr, uint64_t bytes) {
    assert_int_equal(device->ops->free(device, addr, bytes), VRAM_OK);
}

/* ---------------------------------------------------------------- failing calls */

/* Ends a plan that had one call fail; whether it did. A failure that nobody planned is none to be
   told of. */
static inline bool plan_over(vram_status status, uint64_t *failures) {
    bool struck = fake->struck() > 0;
    fake->refuse(NULL, 0, VR_CU_SUCCESS, false);
    assert_true(status == VRAM_OK || struck);
    *failures += status != VRAM_OK;
    vram_error_clear();
    return struck;
}

/* Contexts that stayed on the thread's stack because the driver refused to take them off. */
static inline void contexts_off(void) {
    while (fake->depth()) {
        fake->pop();
    }
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_backend_faults.c: a life on a device while host memory runs out at every place in its turn:
 * an allocation, a record that outlives its object, or a call of the system. The same program is
 * built for several backends; the calls of their drivers fail in tests of their own.
 */
#include "base/memory.h"
#include "base/os/os.h"
#include "unit/fault_step.h"
#include "unit/record_fault.h"
#include "vram/vram.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { KIB = 1 << 10, MIB = 1 << 20 };

/* ---------------------------------------------------------------------- a life */

struct life {
    vram_context *context;
    vram_device *device;
    vram_queue *queue, *other;
    vram_kernel *kernel;
    vram_pool *pool, *segments;
    vram_addr plain, pinned, managed;
};

#define TRY(call)                                                                                  \
    do {                                                                                           \
        vram_status tried = (call);                                                                \
        if (tried != VRAM_OK) {                                                                    \
            return tried;                                                                          \
        }                                                                                          \
    } while (0)

static vram_status life_begin(struct life *life) {
    vram_context_options options = {.size = sizeof options, .backends = BACKEND};
    vram_pool_options segments = {.size = sizeof segments, .flags = VRAM_POOL_SEGMENTS};
    TRY(vram_context_create(&options, &life->context));
    TRY(vram_device_open(life->context, 0, &life->device));
    TRY(vram_queue_create(life->device, NULL, &life->queue));
    TRY(vram_queue_create(life->device, NULL, &life->other));
    TRY(vram_device_alloc(life->device, MIB, VRAM_MEMORY_DEVICE, &life->plain));
    TRY(vram_device_alloc(life->device, 64 * KIB, VRAM_MEMORY_PINNED, &life->pinned));
    vram_status status =
        vram_device_alloc(life->device, 64 * KIB, VRAM_MEMORY_MANAGED, &life->managed);
    if (status != VRAM_ERR_UNSUPPORTED) {
        TRY(status);
    }
    TRY(vram_pool_create(life->device, NULL, &life->pool));
    return vram_pool_create(life->device, &segments, &life->segments);
}

/* Copies of every kind, by whole words and not, over two queues, and blocks of both pools. */
static vram_status life_work(struct life *life) {
    static const char code[] = "no kernel in any language";
    vram_kernel_source source = {.size = sizeof source,
                                 .format = FORMAT,
                                 .code = code,
                                 .code_bytes = sizeof code - 1,
                                 .entry = "none"};
    static char bytes[4 * KIB]; /* the driver may read it until the queues end */
    vram_native_info native = {.size = sizeof native};
    vram_point point;
    vram_addr block, cut;
    memset(bytes, 3, sizeof bytes);
    TRY(vram_queue_upload(life->queue, life->plain + 1, bytes, 1001));
    TRY(vram_queue_copy(life->queue, life->plain + 8 * KIB, life->plain, 4 * KIB));
    TRY(vram_queue_fill(life->queue, life->plain, 0xab, 1, 63));
    TRY(vram_queue_mark(life->queue, &point));
    TRY(vram_queue_after(life->other, point));
    TRY(vram_queue_download(life->other, bytes, life->plain + 1, 1001));
    TRY(vram_queue_wait(life->other, VRAM_TIMEOUT_DEFAULT));
    TRY(vram_alloc(life->pool, 3 * MIB, life->queue, &block));
    TRY(vram_alloc(life->segments, 20 * KIB, life->queue, &cut));
    TRY(vram_queue_fill(life->queue, cut, 1, 4, 20 * KIB));
    TRY(vram_native(cut, &native));
    TRY(vram_queue_wait(life->queue, VRAM_TIMEOUT_DEFAULT));
    TRY(vram_free(cut, life->queue));
    TRY(vram_free(block, life->other));
    vram_status status = vram_kernel_create(life->device, &source, &life->kernel);
    return status == VRAM_ERR_HOST_MEMORY ? status : VRAM_OK;
}

static void life_end(struct life *life) {
    (void)vram_kernel_destroy(life->kernel);
    (void)vram_pool_destroy(life->segments);
    (void)vram_pool_destroy(life->pool);
    (void)vram_queue_destroy(life->queue);
    (void)vram_queue_destroy(life->other);
    if (life->device) {
        (void)vram_device_free(life->device, life->plain);
        (void)vram_device_free(life->device, life->pinned);
        (void)vram_device_free(life->device, life->managed);
    }
    (void)vram_device_close(life->device);
    (void)vram_context_destroy(life->context);
    for (int i = 0; i < 2000 && vr_mem_live_blocks(); i++) {
        usleep(1000); /* a driver's thread may still be in a callback */
    }
    assert_int_equal(vr_mem_live_blocks(), 0);
}

static vram_status life_whole(void) {
    struct life life = {.context = NULL};
    vram_status status = life_begin(&life);
    status = status == VRAM_OK ? life_work(&life) : status;
    life_end(&life);
    return status;
}

/* --------------------------------------------------------------------- faults */

static bool backend_is_here(void) {
    struct life life = {.context = NULL};
    vram_status status = life_begin(&life);
    life_end(&life);
    return status == VRAM_OK;
}

static void every_allocation_fails(void **state) {
    (void)state;
    if (!backend_is_here()) {
        skip();
    }
    for (uint64_t nth = 1, failed = 1; failed; nth += FAULT_STEP) {
        vr_mem_fail_at(nth, false);
        vram_status status = life_whole();
        failed = vr_mem_failed();
        vr_mem_fail_at(0, false);
        assert_true(status == VRAM_OK || (failed && status == VRAM_ERR_HOST_MEMORY) ||
                    status == VRAM_ERR_NO_DEVICE);
    }
}

static void every_record_fails(void **state) {
    (void)state;
    if (!backend_is_here()) {
        skip();
    }
    record_fail_at(0);
    assert_int_equal(life_whole(), VRAM_OK);
    unsigned taken = atomic_load(&records_taken);
    for (unsigned nth = 1; nth <= taken; nth += FAULT_STEP) {
        record_fail_at(nth);
        vram_status status = life_whole();
        record_fail_at(0);
        assert_true(status == VRAM_OK || status == VRAM_ERR_HOST_MEMORY ||
                    status == VRAM_ERR_NO_DEVICE);
    }
}

static void every_system_call_fails(void **state) {
    (void)state;
    if (!backend_is_here()) {
        skip();
    }
    for (uint64_t nth = 1, failed = 1; failed; nth += FAULT_STEP) {
        vr_os_fail_at(nth, false, ENOMEM);
        (void)life_whole();
        failed = vr_os_failed();
        vr_os_fail_at(0, false, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_fails),
        cmocka_unit_test(every_record_fails),
        cmocka_unit_test(every_system_call_fails),
    };
    return cmocka_run_group_tests_name("backend_faults", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_context.c: backends that fail while a context is made. The registry of this program is its
 * own: the host, and before it a backend that is the host thrice over and fails as a test says. It
 * is taken out with a reason, and the host serves; or the call fails, and nothing is left running.
 */
#include "backend/registry.h"
#include "base/error.h"
#include "base/handle.h"
#include "base/memory.h"
#include "unit/assert_ok.h"
#include "vram/vram.h"

#include <string.h>

extern const struct vr_backend_ops vr_host_backend;

enum { ODD_DEVICES = 3 };

/* How the odd backend behaves. */
static struct {
    vram_status start;    /* what start answers */
    vram_status describe; /* what describe answers for device `which` */
    bool silent;          /* and records nothing */
    uint32_t which;
    int started; /* and not yet stopped */
} odd;

static vram_status refuse(vram_status status) {
    return odd.silent ? status : vr_error_set(status, "odd", "oddCall", 5, "an odd reason");
}

static vram_status odd_start(struct vr_backend *backend,
                             const struct vram_context_options *options) {
    if (odd.start != VRAM_OK) {
        return refuse(odd.start);
    }
    odd.started++;
    return vr_host_backend.start(backend, options);
}

static void odd_stop(struct vr_backend *backend) {
    odd.started--;
    vr_host_backend.stop(backend);
}

static uint32_t odd_count(struct vr_backend *backend) {
    (void)backend;
    return ODD_DEVICES;
}

static vram_status odd_describe(struct vr_backend *backend, uint32_t index,
                                struct vram_device_info *info) {
    vram_status status = vr_host_backend.describe(backend, 0, info);
    if (status == VRAM_OK && index == odd.which) {
        return odd.describe == VRAM_OK ? VRAM_OK : refuse(odd.describe);
    }
    return status;
}

static vram_status odd_open(struct vr_device *device) {
    return vr_host_backend.device_open(device);
}

static const struct vr_backend_ops odd_backend = {.name = "odd",
                                                  .start = odd_start,
                                                  .stop = odd_stop,
                                                  .count = odd_count,
                                                  .describe = odd_describe,
                                                  .device_open = odd_open};

static const struct vr_backend_ops *const rows[] = {&odd_backend, &vr_host_backend};

uint32_t vr_registry_count(void) {
    return 2;
}

const struct vr_backend_ops *vr_registry_at(uint32_t index) {
    return index < 2 ? rows[index] : NULL;
}

const struct vr_backend_ops *vr_registry_find(const char *name, size_t bytes) {
    for (int i = 0; i < 2; i++) {
        if (strlen(rows[i]->name) == bytes && memcmp(rows[i]->name, name, bytes) == 0) {
            return rows[i];
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------- a context */

static vram_context *context;

static int begin(void) {
    memset(&odd, 0, sizeof odd);
    vram_error_clear();
    return 0;
}

static int end(void) {
    return odd.started == 0 && vr_mem_live_bytes() == 0 && vr_handle_live(0) == 0 ? 0 : -1;
}

/* The odd backend is out, its reason has `text` in it, and the host serves as if it had never
   been. */
static void expect_absent(const char *text) {
    vram_backend_info info = {.size = sizeof info};
    vram_device_info device = {.size = sizeof device};
    vram_device *opened;
    vram_error_clear();
    assert_ok(vram_context_create(NULL, &context));
    assert_int_equal(vram_error_get()->status, VRAM_OK); /* absence is no failure */
    assert_ok(vram_backend_info_get(context, 0, &info));
    assert_string_equal(info.name, "odd");
    assert_false(info.present);
    assert_int_equal(info.device_count, 0);
    assert_non_null(strstr(info.reason, text));
    assert_int_equal(odd.started, 0);
    assert_int_equal(vram_device_count(context), 1);
    assert_ok(vram_device_info_get(context, 0, &device));
    assert_string_equal(device.backend, "host");
    assert_ok(vram_device_open(context, 0, &opened));
    vram_context_destroy(context);
}

TEST(a_sound_one_is_listed) {
    vram_device *device;
    assert_ok(vram_context_create(NULL, &context));
    assert_int_equal(vram_device_count(context), ODD_DEVICES + 1);
    assert_ok(vram_device_open(context, ODD_DEVICES - 1, &device));
    vram_device_close(device);
    vram_context_destroy(context);
}

/* --------------------------------------------------------------- descriptions */

/* With the words of the backend, or without them those of the status. */
TEST(what_cannot_start_is_absent) {
    odd.start = VRAM_ERR_NO_DRIVER;
    expect_absent("an odd reason");
    odd.silent = true;
    expect_absent(vram_status_text(VRAM_ERR_NO_DRIVER));
}

TEST(what_cannot_be_described_is_absent) {
    odd.describe = VRAM_ERR_BACKEND;
    for (odd.which = 0; odd.which < ODD_DEVICES; odd.which++) {
        odd.silent = false;
        expect_absent("an odd reason");
        odd.silent = true;
        expect_absent(vram_status_text(VRAM_ERR_BACKEND));
    }
}

/* Our own want of memory is nobody's absence: the call fails, and leaves nothing running. */
TEST(want_of_host_memory_fails_the_call) {
    vram_context *canary = (vram_context *)(uintptr_t)77;
    context = canary;
    odd.start = VRAM_ERR_HOST_MEMORY;
    assert_int_equal(vram_context_create(NULL, &context), VRAM_ERR_HOST_MEMORY);
    odd.start = VRAM_OK;
    odd.describe = VRAM_ERR_HOST_MEMORY;
    for (odd.which = 0; odd.which < ODD_DEVICES; odd.which++) {
        assert_int_equal(vram_context_create(NULL, &context), VRAM_ERR_HOST_MEMORY);
        assert_int_equal(odd.started, 0);
    }
    assert_ptr_equal(context, canary);
}

EACH_TEST(begin, end)

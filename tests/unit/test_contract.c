/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_contract.c: a backend that breaks its promises is found out when it is listed or opened, not
 * when a call lands in a table that is not there.
 */
#include "smallest_backend/smallest.h"
#include "unit/assert_ok.h"

#include <string.h>

static int reset(void) {
    smallest_plan = (struct smallest_plan){0};
    return 0;
}

static vram_context *smallest_context(void) {
    vram_context_options options = {.size = sizeof options, .backends = "smallest"};
    vram_context *context;
    assert_ok(vram_context_create(&options, &context));
    return context;
}

/* ------------------------------------------------------- what describe says */

/* The backend is absent, and its reason speaks of the device. */
static void assert_refused(const struct smallest_plan *plan) {
    vram_backend_info info = {.size = sizeof info};
    smallest_plan = *plan;
    vram_context *context = smallest_context();
    assert_int_equal(vram_device_count(context), 0);
    assert_ok(vram_backend_info_get(context, 0, &info));
    assert_false(info.present);
    assert_non_null(strstr(info.reason, "smallest device 0 reports impossible"));
    vram_context_destroy(context);
}

TEST(impossible_descriptions_make_it_absent) {
    const struct smallest_plan plans[] = {
        {.alloc_granule = {16, true}},          /* too small */
        {.alloc_granule = {12288, true}},       /* no power of two */
        {.alloc_granule = {4096, false}},       /* unknown */
        {.caps_unknown = VRAM_CAP_MEMORY_INFO}, /* claims it all the same */
        {.caps = VRAM_CAP_VMM},                 /* without a granule */
        {.caps = VRAM_CAP_VMM, .vmm_granule = {(2 << 20) + 4096, true}}, /* no power of two */
        {.caps = VRAM_CAP_VMM, .vmm_granule = {2048, true}},             /* too small */
    };
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        assert_refused(&plans[i]);
    }
}

/* ---------------------------------------------------------- what open sets */

static void assert_open(const struct smallest_plan *plan, vram_status expected) {
    vram_device *device = NULL;
    smallest_plan = *plan;
    vram_context *context = smallest_context();
    assert_int_equal(vram_device_count(context), 1);
    assert_int_equal(vram_device_open(context, 0, &device), expected);
    assert_int_equal(device != NULL, expected == VRAM_OK);
    if (expected != VRAM_OK) {
        assert_non_null(strstr(vram_error_get()->text, "do not match"));
    }
    vram_context_destroy(context);
}

TEST(tables_agree_with_capabilities) {
    static const struct vr_vmm_ops vmm;
    assert_open(&(struct smallest_plan){0}, VRAM_OK);
    const struct smallest_plan plans[] = {
        {.caps = VRAM_CAP_PINNED},
        {.caps = VRAM_CAP_MANAGED},
        {.caps = VRAM_CAP_PEERS},
        {.caps = VRAM_CAP_KERNELS},
        {.caps = VRAM_CAP_HANDLES},
        {.caps = VRAM_CAP_VMM, .vmm_granule = {2 << 20, true}},
        {.caps = VRAM_CAP_ADOPT}, /* no group, but a call */
        {.no_memory_info = true}, /* the same */
        {.vmm = &vmm},            /* a table without its capability */
    };
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        assert_open(&plans[i], VRAM_ERR_CORRUPT);
    }
}

EACH_TEST(NULL, reset)

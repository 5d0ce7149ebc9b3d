/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_struct_tail.c: option structs from a newer header than the library's: longer by fields that
 * it does not know. Each is taken while these are 0 and refused as soon as a byte of them is not.
 * These are the structs that no row of tests/calls gives to a call.
 */
#include "unit/device_world.h"

#include <vram/compute.h>
#include <vram/model.h>
#include <vram/vram.h>

enum { TAIL = 24 };

static struct { _Alignas(16) unsigned char bytes[2048]; } given;

static vram_status read_model(void) {
    vram_model model = {.size = sizeof model};
    return vram_model_read("/dev/null", (const vram_model_read_options *)&given, &model);
}

static vram_status estimate(void) {
    vram_model model = {.size = sizeof model};
    vram_estimate out = {.size = sizeof out};
    return vram_estimate_get(&model, (const vram_estimate_options *)&given, &out);
}

static bool is_refused_for_its_tail(vram_status status) {
    return status == VRAM_ERR_INVALID && strstr(vram_error_get()->text, "cannot do");
}

TEST(a_byte_that_is_not_known_is_refused) {
    static const struct {
        vram_status (*call)(void);
        size_t bytes;
    } rows[] = {{read_model, sizeof(vram_model_read_options)},
                {estimate, sizeof(vram_estimate_options)}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t size = rows[i].bytes + TAIL;
        memset(&given, 0, sizeof given);
        memcpy(&given, &size, sizeof size);
        for (size_t k = rows[i].bytes; k < size; k++) {
            given.bytes[k] = 1;
            assert_true(is_refused_for_its_tail(rows[i].call()));
            given.bytes[k] = 0;
        }
        given.bytes[size] = 1; /* beyond what the caller calls its own */
        assert_false(is_refused_for_its_tail(rows[i].call()));
    }
}

/* Those that other structs point to. */
TEST(structs_behind_structs, "sim:memory=64M,real=on") {
    struct {
        vram_calibration known;
        uint64_t unknown;
    } rates = {.known = {.size = sizeof rates,
                         .cpu_rate = 1,
                         .device_rate = 1,
                         .upload_rate = 1,
                         .download_rate = 1}};
    vram_scheduler_options options = {.size = sizeof options, .calibration = &rates.known};
    vram_scheduler *scheduler;
    vram_pool *pool;
    assert_ok(vram_pool_create(rig->device, NULL, &pool));
    assert_ok(vram_scheduler_create(pool, &options, &scheduler));
    assert_ok(vram_scheduler_destroy(scheduler));
    rates.unknown = 1;
    assert_int_equal(vram_scheduler_create(pool, &options, &scheduler), VRAM_ERR_INVALID);
}

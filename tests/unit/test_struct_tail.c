/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_struct_tail.c: option structs from a newer header than the library's: longer by fields that
 * it does not know. Each is taken while these are 0 and refused as soon as a byte of them is not,
 * whatever else is right or wrong with the call.
 */
#include "unit/device_world.h"

#include <vram/compute.h>
#include <vram/model.h>
#include <vram/vram.h>

enum { TAIL = 24 };

/* What the calls are made on. */
static struct {
    struct rig rig;
    vram_pool *pool;
} on;

static vram_model model = {.size = sizeof model};
static vram_estimate estimate = {.size = sizeof estimate};

/* Those that no row of tests/calls has, and a call that takes each as `options`. */
#define ROWS(X)                                                                                    \
    X(vram_model_read_options, vram_model_read("/dev/null", options, &model))                      \
    X(vram_estimate_options, vram_estimate_get(&model, options, &estimate))

#define CALL(type, call)                                                                           \
    static vram_status take_##type(const void *given) {                                            \
        const type *options = given;                                                               \
        return call;                                                                               \
    }
ROWS(CALL)
#undef CALL

static const struct {
    const char *name;
    size_t bytes;
    vram_status (*take)(const void *given);
} rows[] = {
#define ROW(type, call) {#type, sizeof(type), take_##type},
    ROWS(ROW)
#undef ROW
};

static bool is_refused_for_its_tail(vram_status status) {
    return status == VRAM_ERR_INVALID && strstr(vram_error_get()->text, "cannot do");
}

TEST(a_byte_that_is_not_known_is_refused) {
    may_leave("the objects are the file's");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t size = rows[i].bytes + TAIL;
        _Alignas(16) unsigned char given[2048] = {0};
        assert_true(size < sizeof given);
        memcpy(given, &size, sizeof size);
        for (size_t k = 0; k < TAIL; k++) {
            given[rows[i].bytes + k] = 1;
            vram_status status = rows[i].take(given);
            given[rows[i].bytes + k] = 0;
            if (!is_refused_for_its_tail(status)) {
                fail_msg("%s with byte %zu behind its end: %s, %s", rows[i].name, k,
                         vram_status_name(status), vram_error_get()->text);
            }
        }
        given[size] = 1; /* beyond what the caller calls its own */
        vram_error_clear();
        if (is_refused_for_its_tail(rows[i].take(given))) {
            fail_msg("%s is refused although it asks for nothing new", rows[i].name);
        }
    }
}

/* Those that other structs point to. */
TEST(structs_behind_structs) {
    may_leave("the objects are the file's");
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
    assert_ok(vram_scheduler_create(on.pool, &options, &scheduler));
    assert_ok(vram_scheduler_destroy(scheduler));
    rates.unknown = 1;
    assert_int_equal(vram_scheduler_create(on.pool, &options, &scheduler), VRAM_ERR_INVALID);
}

static int begin(void) {
    on.rig = rig_make("sim", "memory=64M,real=on");
    assert_ok(vram_pool_create(on.rig.device, NULL, &on.pool));
    return 0;
}

static int end(void) {
    vram_context_destroy(on.rig.context);
    return 0;
}

WHOLE_FILE(begin, end)

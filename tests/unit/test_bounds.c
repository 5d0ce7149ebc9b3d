/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_bounds.c: every integer that a program can hand to the API, at every bound there is: 0, 1,
 * each power of two and its neighbours, the largest. Each call answers with a status that exists
 * and a record that fits it, and what is refused changes nothing. The sanitizers watch.
 *
 * Three things are left out, since they would be lies about the caller's own memory or a request to
 * work for years: list lengths beyond the list, host memory that is not there, grids of 2^32
 * groups.
 */
#include "base/handle.h"
#include "base/memory.h"
#include "base/option.h"
#include "trims.h"
#include "unit/assert_ok.h"
#include "vram/vram.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "edge_values.h"

enum { BYTES = 65536, LIST = 64 };

/* A failure is in the record, success leaves none. */
static vram_status judge(vram_status status, const char *call) {
    const vram_error *error = vram_error_get();
    vram_status expected = status == VRAM_ERR_NOT_READY ? VRAM_OK : status;
    if (strcmp(vram_status_name(status), "VRAM_ERR_UNKNOWN") == 0 || error->status != expected) {
        fail_msg("%s: %s, the record says %s", call, vram_status_name(status),
                 vram_status_name(error->status));
    }
    return status;
}

#define TRY(call)     (vram_error_clear(), judge(call, #call))
#define REFUSED(call) assert_int_not_equal(TRY(call), VRAM_OK)
#define INVALID(call) assert_int_equal(TRY(call), VRAM_ERR_INVALID)

/* --------------------------------------------------------------------- a device */

struct world {
    vram_context *context;
    vram_device *device;
    vram_queue *queue, *other;
    vram_addr addr;
};

static unsigned char host[BYTES];

static struct world world_make(const char *backend, const char *sim) {
    struct world world;
    vram_context_options options = {.size = sizeof options, .backends = backend, .sim = sim};
    assert_ok(vram_option_set("host_memory", "256M"));
    assert_ok(vram_context_create(&options, &world.context));
    assert_ok(vram_device_open(world.context, 0, &world.device));
    assert_ok(vram_queue_create(world.device, NULL, &world.queue));
    assert_ok(vram_queue_create(world.device, NULL, &world.other));
    assert_ok(vram_device_alloc(world.device, BYTES, VRAM_MEMORY_DEVICE, &world.addr));
    return world;
}

static void world_end(struct world *world) {
    vram_memory_info info = {.size = sizeof info};
    vram_sim_state state = {.size = sizeof state};
    assert_ok(vram_queue_wait(world->queue, VRAM_TIMEOUT_DEFAULT));
    assert_ok(vram_device_free(world->device, world->addr));
    assert_ok(vram_memory_info_get(world->device, &info));
    assert_int_equal(info.held_bytes, 0);
    assert_int_equal(info.held_count, 0);
    if (vram_sim_state_get(world->context, &state) == VRAM_OK) {
        assert_int_equal(state.violations, 0);
    }
    vram_context_destroy(world->context);
    vr_option_reset();
    assert_int_equal(vr_mem_live_bytes(), 0);
    assert_int_equal(vr_handle_live(0), 0);
}

static const struct {
    const char *backend, *sim;
} places[] = {
    {"host", NULL},
    {"sim", "memory=1024T,real=off,journal=4"},
    {"sim", "memory=64K,granule=64K,real=on"},
};

#define FOR_PLACES(world)                                                                          \
    for (size_t place = 0; place < sizeof places / sizeof places[0]; place++)                      \
        for (struct world world = world_make(places[place].backend, places[place].sim),            \
                          *once = &world;                                                          \
             once; world_end(&world), once = NULL)

/* ------------------------------------------------------------------------- tests */

static void the_base(void **state) {
    char text[320], size[VRAM_SIZE_TEXT_MAX];
    (void)state;
    FOR_EACH(value) {
        assert_non_null(vram_status_name((vram_status)(int)value));
        assert_non_null(vram_status_text((vram_status)(int)value));
        vram_status_is_exhausted((vram_status)(int)value);
        assert_true(strlen(vram_size_format(value, size)) < sizeof size);
        assert_true((vram_option_at(value) != NULL) == (value < vram_option_count()));
        vram_option_problem(value, text, sizeof text);
        vram_option_problem(0, text, value);
        TRY(vram_option_get("wait_timeout", text, value, NULL));
        vram_log_set(NULL, NULL, (vram_log_level)(int)value);
        assert_non_null(vram_sim_call_name((vram_sim_call)(int)value));
    }
}

static void sizes_of_memory(void **state) {
    (void)state;
    FOR_PLACES(world) {
        for (int kind = -1; kind < 4; kind++) {
            FOR_EACH(bytes) {
                vram_addr addr = 77;
                vram_status status =
                    TRY(vram_device_alloc(world.device, bytes, (vram_memory_kind)kind, &addr));
                if (status == VRAM_OK) {
                    assert_true(bytes > 0);
                    assert_ok(TRY(vram_device_free(world.device, addr)));
                } else {
                    assert_int_equal(addr, 77);
                }
            }
        }
        FOR_EACH(kind) {
            vram_addr addr;
            if ((unsigned)kind > 2) {
                REFUSED(vram_device_alloc(world.device, 1, (vram_memory_kind)(int)kind, &addr));
            }
        }
    }
}

static void sizes_of_mappings(void **state) {
    (void)state;
    FOR_PLACES(world) {
        FOR_EACH(bytes) {
            vram_addr base = 77;
            vram_physical *physical = NULL;
            if (TRY(vram_range_create(world.device, bytes, &base)) == VRAM_OK) {
                assert_ok(TRY(vram_range_destroy(world.device, base)));
            }
            if (TRY(vram_physical_create(world.device, bytes, &physical)) == VRAM_OK) {
                assert_true(vram_physical_bytes(physical) >= bytes);
                assert_ok(TRY(vram_physical_destroy(physical)));
            }
        }
    }
}

/* Every address is tried as it is, and as a distance from live memory on both sides. */
static void addresses(void **state) {
    (void)state;
    FOR_PLACES(world) {
        FOR_EACH(value) {
            const uint64_t tried[] = {value, world.addr + value, world.addr - value};
            for (int i = 0; i < 3; i++) {
                vram_native_info info = {.size = sizeof info};
                if (TRY(vram_native(tried[i], &info)) == VRAM_OK) {
                    assert_true(info.offset < info.bytes && info.base + info.offset == tried[i]);
                }
                if (tried[i] && tried[i] != world.addr) {
                    REFUSED(vram_device_free(world.device, tried[i]));
                }
                REFUSED(vram_range_destroy(world.device, tried[i]));
                REFUSED(vram_range_unmap(world.device, tried[i], value));
                REFUSED(vram_range_unmap(world.device, tried[i], -value));
            }
        }
    }
}

/* Maps at every place in and about a range, and unmaps every span. */
static void places_in_a_range(void **state) {
    (void)state;
    FOR_PLACES(world) {
        vram_device_info info = {.size = sizeof info};
        assert_ok(vram_device_describe(world.device, &info));
        uint64_t granule = info.vmm_granule.value;
        vram_addr base;
        vram_physical *physical = NULL;
        assert_ok(vram_range_create(world.device, 4 * granule, &base));
        FOR_EACH(bytes) { /* nothing is mapped yet */
            REFUSED(vram_range_unmap(world.device, base, bytes));
            if (bytes) {
                REFUSED(vram_queue_fill(world.queue, base, 1, 1, bytes));
            }
        }
        if (vram_physical_create(world.device, granule, &physical) == VRAM_OK) {
            FOR_EACH(value) {
                const uint64_t tried[] = {value, base + value, base - value};
                for (int i = 0; i < 3; i++) {
                    if (TRY(vram_range_map(world.device, tried[i], &physical, 1)) == VRAM_OK) {
                        assert_true(tried[i] % granule == 0 && tried[i] - base < 4 * granule);
                        assert_ok(TRY(vram_range_unmap(world.device, tried[i], granule)));
                    }
                }
            }
            vram_physical *list[LIST];
            for (uint32_t i = 0; i < LIST; i++) {
                list[i] = physical;
            }
            for (uint32_t count = 0; count <= LIST; count++) {
                if (count != 1) {
                    REFUSED(vram_range_map(world.device, base, list, count));
                }
            }
            assert_ok(vram_range_map(world.device, base + granule, list, 1));
            FOR_EACH(bytes) {
                if (bytes != granule) {
                    REFUSED(vram_range_unmap(world.device, base + granule, bytes));
                }
            }
            assert_ok(vram_range_unmap(world.device, base + granule, granule));
            assert_ok(vram_physical_destroy(physical));
        }
        assert_ok(vram_range_destroy(world.device, base));
    }
}

/* Whether a span lies in the world's memory. */
static bool inside(const struct world *world, uint64_t addr, uint64_t bytes) {
    uint64_t offset = addr - world->addr;
    return offset <= BYTES && bytes <= BYTES - offset;
}

static void expect_span(const struct world *world, uint64_t addr, uint64_t bytes,
                        vram_status status) {
    bool good = bytes == 0 || inside(world, addr, bytes);
    assert_int_equal(status, good ? VRAM_OK : VRAM_ERR_INVALID);
}

static void try_spans(struct world *world, uint64_t addr, uint64_t bytes) {
    uint64_t middle = world->addr + BYTES / 2;
    expect_span(world, addr, bytes, TRY(vram_queue_upload(world->queue, addr, host, bytes)));
    expect_span(world, addr, bytes, TRY(vram_queue_fill(world->queue, addr, 1, 1, bytes)));
    if (bytes == 0 || !inside(world, addr, bytes)) {
        expect_span(world, addr, bytes, TRY(vram_queue_download(world->queue, host, addr, bytes)));
    }
    TRY(vram_queue_copy(world->queue, addr, middle, bytes));
    TRY(vram_queue_copy(world->queue, middle, addr, bytes));
    TRY(vram_queue_prefetch(world->queue, addr, bytes, VRAM_TARGET_HOST));
    TRY(vram_queue_fill(world->queue, addr, 1, 2, bytes));
    TRY(vram_queue_fill(world->queue, addr, 1, 4, bytes));
}

static void spans_of_transfers(void **state) {
    (void)state;
    FOR_PLACES(world) {
        for (size_t i = 0; i < value_count; i++) {
            /* All sizes at a few places, and all places with a few sizes. */
            const uint64_t sizes[] = {0, 1, 4096, BYTES, -values[i]};
            const uint64_t starts[] = {world.addr, world.addr + 1, world.addr + BYTES,
                                       world.addr - 1, -values[i]};
            for (int k = 0; k < 5; k++) {
                try_spans(&world, values[i], sizes[k]);
                try_spans(&world, world.addr + values[i], sizes[k]);
                try_spans(&world, starts[k], values[i]);
            }
            if (i % 16 == 0) {
                assert_ok(TRY(vram_queue_wait(world.queue, VRAM_TIMEOUT_DEFAULT)));
            }
        }
        FOR_EACH(value) {
            TRY(vram_queue_fill(world.queue, world.addr, (uint32_t)value, 4, 64));
            if ((uint32_t)value != 1 && (uint32_t)value != 2 && (uint32_t)value != 4) {
                REFUSED(vram_queue_fill(world.queue, world.addr, 1, (uint32_t)value, 64));
            }
        }
    }
}

static void points_and_deadlines(void **state) {
    (void)state;
    FOR_PLACES(world) {
        vram_point point;
        assert_ok(vram_queue_mark(world.queue, &point));
        assert_ok(vram_point_wait(point, VRAM_TIMEOUT_DEFAULT));
        FOR_EACH(value) {
            vram_point forged = {world.queue, value};
            vram_status expected = value <= point.value ? VRAM_OK : VRAM_ERR_INVALID;
            assert_int_equal(TRY(vram_point_poll(forged)), expected);
            assert_int_equal(TRY(vram_point_wait(forged, 0)), expected);
            assert_int_equal(TRY(vram_queue_after(world.other, forged)), expected);
            assert_ok(TRY(vram_point_wait(point, value)));
            vram_status waited = TRY(vram_queue_wait(world.queue, value));
            if (value > UINT64_C(10000000000)) {
                assert_ok(waited);
            }
            assert_ok(vram_queue_mark(world.queue, &point));
            assert_ok(vram_point_wait(point, VRAM_TIMEOUT_DEFAULT));
            forged = (vram_point){(vram_queue *)(uintptr_t)value, 1};
            REFUSED(vram_point_wait(forged, 0));
            vram_queue_options options = {.size = sizeof options, .priority = (int32_t)value};
            vram_queue *queue;
            assert_ok(TRY(vram_queue_create(world.device, &options, &queue)));
            vram_queue_destroy(queue);
        }
    }
}

static void indices(void **state) {
    (void)state;
    FOR_PLACES(world) {
        FOR_EACH(value) {
            uint32_t index = (uint32_t)value;
            vram_backend_info backend = {.size = sizeof backend};
            vram_device_info device = {.size = sizeof device};
            vram_device *opened;
            bool known = index < vram_backend_count(world.context);
            assert_int_equal(TRY(vram_backend_info_get(world.context, index, &backend)),
                             known ? VRAM_OK : VRAM_ERR_INVALID);
            known = index < vram_device_count(world.context);
            assert_int_equal(TRY(vram_device_info_get(world.context, index, &device)),
                             known ? VRAM_OK : VRAM_ERR_NO_DEVICE);
            if (TRY(vram_device_open(world.context, index, &opened)) == VRAM_OK) {
                assert_true(known);
                vram_device_close(opened);
            }
        }
    }
}

/* Structs of every size that a header may ever have had. The memory is as large as the largest that
   is believed. */
static void sizes_of_structs(void **state) {
    static union {
        size_t size;
        unsigned char room[1 << 17];
    } any;
    (void)state;
    FOR_PLACES(world) {
        FOR_EACH(size) {
            memset(&any, 0, sizeof any);
            any.size = size;
            TRY(vram_device_describe(world.device, (void *)&any));
            any.size = size;
            TRY(vram_memory_info_get(world.device, (void *)&any));
            any.size = size;
            TRY(vram_pinned_info_get(world.device, (void *)&any));
            any.size = size;
            TRY(vram_native(world.addr, (void *)&any));
            any.size = size;
            TRY(vram_backend_info_get(world.context, 0, (void *)&any));
            any.size = size;
            TRY(vram_sim_state_get(world.context, (void *)&any));
            memset(&any, 0, sizeof any);
            any.size = size;
            vram_queue *queue;
            if (TRY(vram_queue_create(world.device, (void *)&any, &queue)) == VRAM_OK) {
                vram_queue_destroy(queue);
            }
            vram_kernel *kernel;
            REFUSED(vram_kernel_create(world.device, (void *)&any, &kernel));
            vram_context *context;
            if (size < sizeof(size_t) || size > 1 << 16) {
                REFUSED(vram_context_create((void *)&any, &context));
            }
        }
    }
}

static void do_nothing(const vram_kernel_call *call) {
    (void)call;
}

static void launch_bounds(struct world *world, vram_kernel *kernel) {
    const void *arguments[32];
    size_t sizes[32];
    static unsigned char argument[4096];
    for (int i = 0; i < 32; i++) {
        arguments[i] = argument;
        sizes[i] = 128;
    }
    vram_launch launch = {.size = sizeof launch,
                          .groups = {1, 1, 1},
                          .group_size = {1, 1, 1},
                          .arguments = arguments,
                          .argument_bytes = sizes};
    FOR_EACH(value) {
        for (int axis = 0; axis < 3; axis++) {
            launch.group_size[axis] = (uint32_t)value;
            vram_status status = TRY(vram_queue_launch(world->queue, kernel, &launch));
            assert_int_equal(status, (uint32_t)value ? VRAM_OK : VRAM_ERR_INVALID);
            launch.group_size[axis] = 1;
            launch.groups[axis] = (uint32_t)value;
            if ((uint32_t)value <= 1024) {
                TRY(vram_queue_launch(world->queue, kernel, &launch));
            }
            launch.groups[axis] = 1;
        }
        launch.argument_count = (uint32_t)value;
        vram_status status = TRY(vram_queue_launch(world->queue, kernel, &launch));
        assert_int_equal(status, (uint32_t)value <= 32 ? VRAM_OK : VRAM_ERR_INVALID);
        launch.argument_count = 2;
        sizes[1] = value;
        status = TRY(vram_queue_launch(world->queue, kernel, &launch));
        assert_int_equal(status, value && value <= 4096 - 128 ? VRAM_OK : VRAM_ERR_INVALID);
        sizes[1] = 128;
        launch.argument_count = 0;
    }
}

static void kernels(void **state) {
    (void)state;
    FOR_PLACES(world) {
        vram_kernel *kernel = NULL;
        FOR_EACH(value) {
            vram_kernel_source source = {.size = sizeof source,
                                         .format = (vram_kernel_format)(int)value,
                                         .code = (const void *)(uintptr_t)do_nothing,
                                         .entry = "do_nothing"};
            if ((unsigned)value) {
                REFUSED(vram_kernel_create(world.device, &source, &kernel));
            }
            source.format = VRAM_KERNEL_C;
            source.code_bytes = value;
            vram_kernel_destroy(kernel);
            kernel = NULL;
            TRY(vram_kernel_create(world.device, &source, &kernel));
        }
        if (kernel) {
            launch_bounds(&world, kernel);
        }
        assert_ok(vram_queue_wait(world.queue, VRAM_TIMEOUT_DEFAULT));
    }
}

/* Numbers in the place of handles are told apart, whatever they are. */
static void made_up_handles(void **state) {
    (void)state;
    FOR_PLACES(world) {
        FOR_EACH(value) {
            void *made_up = (void *)(uintptr_t)value, *native;
            vram_addr addr;
            vram_sim_state sim = {.size = sizeof sim};
            assert_int_equal(vram_device_count(made_up), 0);
            assert_int_equal(vram_backend_count(made_up), 0);
            assert_int_equal(vram_physical_bytes(made_up), 0);
            REFUSED(vram_device_alloc(made_up, 1, VRAM_MEMORY_DEVICE, &addr));
            REFUSED(vram_device_free(made_up, world.addr));
            REFUSED(vram_device_peer_enable(world.device, made_up));
            REFUSED(vram_queue_native(made_up, &native));
            REFUSED(vram_sim_state_get(made_up, &sim));
            if (made_up) {
                REFUSED(vram_physical_destroy(made_up));
                REFUSED(vram_context_destroy(made_up));
                REFUSED(vram_device_close(made_up));
                REFUSED(vram_queue_destroy(made_up));
                REFUSED(vram_queue_end(made_up));
                REFUSED(vram_kernel_destroy(made_up));
            }
        }
    }
}

/* Wherever a result is to be put, and wherever host memory is read. */
static void null_pointers(void **state) {
    (void)state;
    FOR_PLACES(world) {
        vram_context_options nothing = {.size = sizeof nothing};
        INVALID(vram_context_create(&nothing, NULL));
        INVALID(vram_backend_info_get(world.context, 0, NULL));
        INVALID(vram_device_info_get(world.context, 0, NULL));
        INVALID(vram_device_best(world.context, NULL));
        INVALID(vram_device_select(world.context, NULL, NULL));
        assert_false(vram_device_same(NULL, NULL));
        INVALID(vram_device_open(world.context, 0, NULL));
        INVALID(vram_device_describe(world.device, NULL));
        INVALID(vram_memory_info_get(world.device, NULL));
        INVALID(vram_pinned_begin(world.device, NULL, 1));
        INVALID(vram_pinned_end(world.device, NULL, 1));
        INVALID(vram_pinned_forget(world.device, NULL, 1));
        INVALID(vram_pinned_info_get(world.device, NULL));
        assert_int_equal(vram_device_trim(world.device, TRIM(.flags = VRAM_TRIM_PINNED), NULL),
                         VRAM_OK);
        INVALID(vram_device_alloc(world.device, 1, VRAM_MEMORY_DEVICE, NULL));
        INVALID(vram_native(world.addr, NULL));
        INVALID(vram_queue_create(world.device, NULL, NULL));
        INVALID(vram_queue_adopt(world.device, NULL, NULL));
        INVALID(vram_queue_shared(world.device, NULL, NULL));
        INVALID(vram_device_shared("host", 0, NULL));
        INVALID(vram_capture_begin(world.queue, NULL));
        INVALID(vram_queue_native(world.queue, NULL));
        INVALID(vram_queue_mark(world.queue, NULL));
        INVALID(vram_queue_upload(world.queue, world.addr, NULL, 1));
        INVALID(vram_queue_download(world.queue, NULL, world.addr, 1));
        INVALID(vram_queue_launch(world.queue, NULL, NULL));
        REFUSED(vram_kernel_create(world.device, NULL, &(vram_kernel *){NULL}));
        REFUSED(vram_kernel_create(world.device, &(vram_kernel_source){0}, NULL));
        INVALID(vram_range_create(world.device, 1, NULL));
        INVALID(vram_physical_create(world.device, 1, NULL));
        INVALID(vram_range_map(world.device, 4096, NULL, 1));
        INVALID(vram_pool_create(world.device, NULL, NULL));
        INVALID(vram_pool_shared(world.device, NULL));
        INVALID(vram_provider_get(world.device, VRAM_MEMORY_DEVICE, NULL));
        INVALID(vram_size_parse("1", NULL));
        INVALID(vram_size_parse(NULL, &(uint64_t){0}));
        INVALID(vram_option_set(NULL, "1"));
        INVALID(vram_option_get(NULL, NULL, 0, NULL));
        if (place > 0) {
            INVALID(vram_sim_state_get(world.context, NULL));
            INVALID(vram_sim_journal_get(world.context, 0, NULL));
            INVALID(vram_sim_violation(world.context, 0, NULL, 8));
            assert_ok(TRY(vram_sim_clock_advance(world.context, UINT64_MAX)));
        }
        assert_ok(TRY(vram_option_get("wait_timeout", NULL, 0, NULL)));
        assert_int_equal(vram_option_problem(0, NULL, 0), 0);
    }
}

static void simulations(void **state) {
    (void)state;
    struct world world = world_make("sim", "memory=1G,journal=16");
    FOR_EACH(value) {
        char text[64];
        vram_sim_entry entry;
        vram_sim_fault fault = {.size = sizeof fault,
                                .call = (vram_sim_call)(int)value,
                                .nth = value,
                                .code = (int32_t)value,
                                .lie = VRAM_SIM_LIE_NONE};
        TRY(vram_sim_journal_get(world.context, value, &entry));
        REFUSED(vram_sim_violation(world.context, value, text, sizeof text));
        REFUSED(vram_sim_violation(world.context, 0, text, value));
        TRY(vram_sim_fault_set(world.context, &fault));
        fault.lie = (vram_sim_lie)(int)value;
        fault.code = 0;
        TRY(vram_sim_fault_set(world.context, &fault));
        assert_ok(TRY(vram_sim_fault_set(world.context, NULL)));
    }
    world_end(&world);
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_base),
        cmocka_unit_test(sizes_of_memory),
        cmocka_unit_test(sizes_of_mappings),
        cmocka_unit_test(addresses),
        cmocka_unit_test(places_in_a_range),
        cmocka_unit_test(spans_of_transfers),
        cmocka_unit_test(points_and_deadlines),
        cmocka_unit_test(indices),
        cmocka_unit_test(sizes_of_structs),
        cmocka_unit_test(kernels),
        cmocka_unit_test(made_up_handles),
        cmocka_unit_test(null_pointers),
        cmocka_unit_test(simulations),
    };
    make_values();
    cmocka_set_test_filter(count > 1 ? words[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_struct_tail.c: option structs from a newer header than the library's: longer by fields that
 * it does not know. Each is taken while these are 0 and refused as soon as a byte of them is not,
 * whatever else is right or wrong with the call.
 */
#include "unit/device_world.h"

#include <vram/compute.h>
#include <vram/distance.h>
#include <vram/feed.h>
#include <vram/foreign.h>
#include <vram/growth.h>
#include <vram/labels.h>
#include <vram/model.h>
#include <vram/named.h>
#include <vram/opencl.h>
#include <vram/readback.h>
#include <vram/ring.h>
#include <vram/stats.h>
#include <vram/stream.h>
#include <vram/trace.h>
#include <vram/transfer.h>
#include <vram/vram.h>

enum { TAIL = 24 };

/* What the calls are made on. */
static struct {
    struct rig rig;
    vram_pool *pool;
    vram_addr block;
    vram_batch *batch;
    vram_buffer *buffer;
    vram_named *named;
    vram_scope *scope;
    vram_scheduler *scheduler;
    vram_kernel *kernel;
} on;

/* What they could make. */
static union {
    vram_queue *queue;
    vram_kernel *kernel;
    vram_pool *pool;
    vram_buffer *buffer;
    vram_batch *batch;
    vram_named *named;
    vram_scheduler *scheduler;
    vram_weights *weights;
    vram_feed *feed;
    vram_readback *readback;
    vram_ring *ring;
    vram_stream_set *set;
    vram_trace *trace;
    vram_watch *watch;
    vram_monitor *monitor;
    vram_async async;
    vram_addr addr;
    uint64_t number;
    uint32_t index;
} made;

static vram_health_info health = {.size = sizeof health};
static vram_model model = {.size = sizeof model};
static vram_estimate estimate = {.size = sizeof estimate};
static vram_inference_memory memory = {.size = sizeof memory};
static vram_model_place found = {.size = sizeof found};
static vram_live_stats live = {.size = sizeof live};
static char host[64];

static void empty_kernel(const vram_kernel_call *call) {
    (void)call;
}

/* Those two end with nothing else. */
static vram_status make_context(const vram_context_options *options) {
    vram_context *context = NULL;
    vram_status status = vram_context_create(options, &context);
    vram_context_destroy(context);
    return status;
}

static vram_status make_labels(const vram_labels_options *options) {
    vram_labels *labels = NULL;
    vram_status status = vram_labels_create(options, &labels);
    vram_labels_destroy(labels);
    return status;
}

/* Every option struct of the API, and a call that takes it as `options`. */
#define ROWS(X)                                                                                    \
    X(vram_context_options, make_context(options))                                                 \
    X(vram_select_options, vram_device_select(on.rig.context, options, &made.index))               \
    X(vram_queue_options, vram_queue_create(on.rig.device, options, &made.queue))                  \
    X(vram_kernel_source, vram_kernel_create(on.rig.device, options, &made.kernel))                \
    X(vram_launch, vram_queue_launch(on.rig.queue, on.kernel, options))                            \
    X(vram_pool_options, vram_pool_create(on.rig.device, options, &made.pool))                     \
    X(vram_alloc_options, vram_alloc_with(on.pool, 64, on.rig.queue, options, &made.addr))         \
    X(vram_sleep_options, vram_pool_sleep(on.pool, options))                                       \
    X(vram_limits, vram_pool_limits_set(on.pool, options))                                         \
    X(vram_ladder_options, vram_pool_ladder_set(on.pool, options))                                 \
    X(vram_response_options, vram_pool_response_set(on.pool, options))                             \
    X(vram_watch_options, vram_pool_watch_begin(on.pool, options, &made.watch))                    \
    X(vram_health_options, vram_health(on.rig.device, options, &health))                           \
    X(vram_monitor_options, vram_monitor_begin(on.rig.context, options, &made.monitor))            \
    X(vram_foreign_options, vram_foreign_track(on.rig.device, 64, options, &made.number))          \
    X(vram_live_query, vram_live_stats_get(options, &live))                                        \
    X(vram_trace_options, vram_trace_begin(on.rig.context, options, &made.trace))                  \
    X(vram_sim_fault, vram_sim_fault_set(on.rig.context, options))                                 \
    X(vram_buffer_options, vram_buffer_create(on.pool, 64, on.rig.queue, options, &made.buffer))   \
    X(vram_wrap, vram_buffer_wrap(on.pool, options, on.rig.queue, NULL, &made.buffer))             \
    X(vram_growth, vram_buffer_growth_set(on.buffer, options))                                     \
    X(vram_batch_options, vram_batch_create(on.pool, on.rig.queue, options, &made.batch))          \
    X(vram_batch_item, vram_batch_add(on.batch, options, 1, &made.index))                          \
    X(vram_named_options, vram_named_create(on.pool, on.rig.queue, options, &made.named))          \
    X(vram_named_config, vram_named_config_set(on.named, "name", options))                         \
    X(vram_transfer_options,                                                                       \
      vram_transfer_upload(on.rig.queue, on.block, host, sizeof host, options, &made.async))       \
    X(vram_stream_set_options, vram_stream_set_create(on.rig.device, options, &made.set))          \
    X(vram_feed_options, vram_feed_create(on.rig.device, options, &made.feed))                     \
    X(vram_readback_options, vram_readback_create(on.rig.device, options, &made.readback))         \
    X(vram_ring_options, vram_ring_create(on.pool, options, &made.ring))                           \
    X(vram_scheduler_options, vram_scheduler_create(on.pool, options, &made.scheduler))            \
    X(vram_weights_options, vram_weights_create(on.scheduler, options, &made.weights))             \
    X(vram_matmul, vram_matmul_run(on.scheduler, options))                                         \
    X(vram_distance, vram_distance_run(on.scheduler, options))                                     \
    X(vram_labels_options, make_labels(options))                                                   \
    X(vram_inference_shape, vram_inference_estimate(options, &memory))                             \
    X(vram_model_read_options, vram_model_read("/dev/null", options, &model))                      \
    X(vram_estimate_options, vram_estimate_get(&model, options, &estimate))                        \
    X(vram_model_select_options, vram_model_select(on.rig.context, options, &found))

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

static void a_byte_that_is_not_known_is_refused(void **state) {
    (void)state;
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
    assert_true(sizeof rows / sizeof rows[0] >= 39);
}

/* Those that other structs point to. */
static void structs_behind_structs(void **state) {
    (void)state;
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

static int begin(void **state) {
    (void)state;
    on.rig = rig_make("sim", "memory=64M,real=on");
    assert_ok(vram_pool_create(on.rig.device, NULL, &on.pool));
    assert_ok(vram_alloc(on.pool, 64, on.rig.queue, &on.block));
    assert_ok(vram_batch_create(on.pool, on.rig.queue, NULL, &on.batch));
    assert_ok(vram_buffer_create(on.pool, 64, on.rig.queue, NULL, &on.buffer));
    assert_ok(vram_named_create(on.pool, on.rig.queue, NULL, &on.named));
    assert_ok(vram_scheduler_create(on.pool, NULL, &on.scheduler));
    vram_kernel_source source = {.size = sizeof source, .format = VRAM_KERNEL_C, .entry = "idle"};
    void (*code)(const vram_kernel_call *call) = empty_kernel;
    memcpy(&source.code, &code, sizeof code);
    assert_ok(vram_kernel_create(on.rig.device, &source, &on.kernel));
    return 0;
}

static int end(void **state) {
    (void)state;
    vram_context_destroy(on.rig.context);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structs_behind_structs),
        cmocka_unit_test(a_byte_that_is_not_known_is_refused),
    };
    return cmocka_run_group_tests_name("struct_tail", tests, begin, end);
}

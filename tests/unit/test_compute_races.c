/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_compute_races.c: products, distances, weights and labels beside the end of what they use:
 * the scheduler, the weights, the queue, the pool, the device, the context. Whatever a call
 * returns, it leaves no memory in a pool that continues.
 */
#include "unit/end_race.h"
#include "vram/compute.h"
#include "vram/distance.h"
#include "vram/labels.h"
#include "vram/vram.h"

enum { SIDE = 24, VECTORS = 40, DIM = 8 };

struct compute_world {
    struct race_world base;
    vram_scheduler *scheduler;
    vram_weights *weights;
    vram_labels *labels;
    vram_addr a, b; /* of the device's, SIDE x SIDE each */
};

static float a[SIDE * SIDE], b[SIDE * SIDE], vectors[VECTORS * DIM];

static void end_scheduler(void *argument) {
    assert_ok(vram_scheduler_destroy(((struct compute_world *)argument)->scheduler));
}

static void end_weights(void *argument) {
    assert_ok(vram_weights_destroy(((struct compute_world *)argument)->weights));
}

static void end_labels(void *argument) {
    assert_ok(vram_labels_destroy(((struct compute_world *)argument)->labels));
}

/* ------------------------------------------------------------------------- calls */

static vram_matmul product_of(float *c) {
    return (vram_matmul){
        .size = sizeof(vram_matmul), .m = SIDE, .k = SIDE, .n = SIDE, .a = a, .b = b, .c = c};
}

/* A product that returns VRAM_OK is correct; one that fails does not write C afterwards. */
static vram_status call_run(void *argument) {
    struct compute_world *world = argument;
    float c[SIDE * SIDE];
    vram_matmul product = product_of(c);
    memset(c, 0, sizeof c);
    vram_status status = vram_matmul_run(world->scheduler, &product);
    return status == VRAM_OK && c[SIDE + 1] != SIDE ? VRAM_ERR_CORRUPT : status;
}

static vram_status call_run_weights(void *argument) {
    struct compute_world *world = argument;
    float c[SIDE * SIDE];
    vram_matmul product = product_of(c);
    product.b = NULL;
    product.weights = world->weights;
    return vram_matmul_run(world->scheduler, &product);
}

static vram_status call_run_queue(void *argument) {
    struct compute_world *world = argument;
    float c[SIDE * SIDE];
    vram_matmul product = product_of(c);
    product.a = product.b = NULL;
    product.a_addr = world->a;
    product.b_addr = world->b;
    product.queue = world->base.rig.queue;
    vram_status status = vram_matmul_run(world->scheduler, &product);
    return status == VRAM_ERR_INVALID ? VRAM_OK : status; /* the device's memory has gone */
}

static vram_status call_start(void *argument) {
    struct compute_world *world = argument;
    float c[SIDE * SIDE];
    vram_async async;
    vram_matmul product = product_of(c);
    vram_status status = vram_matmul_start(world->scheduler, &product, &async);
    if (status == VRAM_OK) {
        status = vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT); /* it ends, whatever else does */
        vram_async_end(&async);
    }
    return status;
}

static vram_status call_batch(void *argument) {
    struct compute_world *world = argument;
    float c[2][SIDE * SIDE];
    vram_matmul products[2] = {product_of(c[0]), product_of(c[1])};
    return vram_matmul_batch(world->scheduler, products, 2);
}

static vram_status call_plan(void *argument) {
    struct compute_world *world = argument;
    float c[SIDE * SIDE];
    vram_matmul_plan plan = {.size = sizeof plan};
    vram_scheduler_stats stats = {.size = sizeof stats};
    vram_matmul product = product_of(c);
    vram_status status = vram_matmul_plan_get(world->scheduler, &product, &plan);
    return status == VRAM_OK ? vram_scheduler_stats_get(world->scheduler, &stats) : status;
}

static vram_status call_warm_up(void *argument) {
    return vram_matmul_warm_up(((struct compute_world *)argument)->scheduler, SIDE, SIDE, SIDE);
}

static vram_status call_weights(void *argument) {
    struct compute_world *world = argument;
    vram_weights *made;
    vram_weights_options options = {.size = sizeof options, .k = SIDE, .n = SIDE, .b = b};
    vram_status status = vram_weights_create(world->scheduler, &options, &made);
    return status == VRAM_OK ? vram_weights_destroy(made) : status;
}

static vram_status call_distance(void *argument) {
    struct compute_world *world = argument;
    float best[4];
    uint64_t best_at[4];
    vram_distance distance = {.size = sizeof distance,
                              .queries = 2,
                              .vectors = VECTORS,
                              .dim = DIM,
                              .query = vectors,
                              .corpus = vectors,
                              .k = 2,
                              .best = best,
                              .best_at = best_at};
    vram_scheduler *const both[2] = {world->scheduler, world->scheduler};
    vram_status status = vram_distance_run(world->scheduler, &distance);
    return status == VRAM_OK ? vram_distance_split(both, 2, &distance) : status;
}

static vram_status no_labels(void *user, const int32_t *labels, size_t count, int32_t *mapping,
                             size_t room, size_t *mapped) {
    (void)user, (void)labels, (void)count, (void)room;
    mapping[0] = 1;
    *mapped = 1;
    return VRAM_OK;
}

static vram_status call_labels(void *argument) {
    struct compute_world *world = argument;
    static int32_t generation;
    int32_t asked[2] = {++generation % 50, 1}, mapping[4];
    size_t mapped;
    vram_status status =
        vram_labels_get(world->labels, asked, 2, no_labels, NULL, mapping, 4, &mapped);
    return status == VRAM_OK && generation % 20 == 0 ? vram_labels_clear(world->labels, NULL)
                                                     : status;
}

static const struct {
    const char *name;
    race_call *call;
    race_end *own;
} rows[] = {
    {"matmul_run", call_run, end_scheduler},
    {"matmul_run with weights", call_run_weights, end_weights},
    {"matmul_run on a queue", call_run_queue, race_end_queue},
    {"matmul_start", call_start, end_scheduler},
    {"matmul_batch", call_batch, end_scheduler},
    {"matmul_plan_get, scheduler_stats_get", call_plan, end_scheduler},
    {"matmul_warm_up", call_warm_up, end_scheduler},
    {"weights_create and _destroy", call_weights, end_scheduler},
    {"distance_run and _split", call_distance, end_scheduler},
    {"labels_get and _clear", call_labels, end_labels},
};
enum { ROWS = sizeof rows / sizeof rows[0], DELAYS = 8 };

/* ------------------------------------------------------------------------- races */

static struct compute_world world_make(const char *backend) {
    struct compute_world world = {.base = race_world_make(backend, "memory=64M,lag=20,real=on")};
    vram_scheduler_options options = {
        .size = sizeof options, .place = VRAM_PLACE_DEVICE, .flags = VRAM_SCHEDULER_ANY_DEVICE};
    vram_weights_options matrix = {.size = sizeof matrix, .k = SIDE, .n = SIDE, .b = b};
    assert_ok(vram_scheduler_create(world.base.pool, &options, &world.scheduler));
    assert_ok(vram_weights_create(world.scheduler, &matrix, &world.weights));
    assert_ok(vram_labels_create(NULL, &world.labels));
    assert_ok(vram_device_alloc(world.base.rig.device, sizeof a, VRAM_MEMORY_DEVICE, &world.a));
    assert_ok(vram_device_alloc(world.base.rig.device, sizeof b, VRAM_MEMORY_DEVICE, &world.b));
    return world;
}

/* What is left of a world of which only the object, its queue or its weights has ended. */
static void expect_no_blocks(struct compute_world *world) {
    vram_pool_stats stats = {.size = sizeof stats};
    vram_scheduler_destroy(world->scheduler);
    vram_weights_destroy(world->weights);
    assert_ok(vram_pool_stats_get(world->base.pool, &stats));
    assert_int_equal(stats.live_blocks, 0);
}

static void race_rows(const char *backend, unsigned first, unsigned count) {
    for (unsigned c = first; c < first + count; c++) {
        race_end *const ends[4] = {rows[c].own, race_end_pool, race_end_device, race_end_context};
        for (unsigned i = 0; i < 4; i++) {
            struct compute_world world = world_make(backend);
            uint64_t delay = race_delay((c + 3 * i) % DELAYS, DELAYS, 300000);
            bool good = race_run(rows[c].name, &world, rows[c].call, ends[i], delay);
            if (i == 0) {
                expect_no_blocks(&world);
            }
            race_world_end(&world.base, ends[i]);
            (void)vram_labels_destroy(world.labels);
            assert_true(good);
        }
    }
}

static void calls_on_the_host(void **state) {
    (void)state;
    race_rows("host", 0, ROWS);
}

static void calls_on_the_simulation(void **state) {
    (void)state;
    race_rows("sim", 0, ROWS - 1);
}

/* ---------------------------------------------------------------- the first start */

/* The first vram_matmul_start starts the scheduler's threads; an end beside it stops them all. */
static void no_thread_outlasts_its_scheduler(void **state) {
    (void)state;
    for (unsigned i = 0; i < 24; i++) {
        struct compute_world world = world_make("host");
        bool good = race_run("the first matmul_start", &world, call_start, end_scheduler,
                             race_delay(i % DELAYS, DELAYS, 60000));
        vram_context_destroy(world.base.rig.context);
        (void)vram_labels_destroy(world.labels);
        assert_true(good);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, nothing_left)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(calls_on_the_host),
        TEST(calls_on_the_simulation),
        TEST(no_thread_outlasts_its_scheduler),
    };
    for (unsigned i = 0; i < SIDE * SIDE; i++) {
        a[i] = b[i] = 1;
    }
    for (unsigned i = 0; i < VECTORS * DIM; i++) {
        vectors[i] = (float)(i % 17);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

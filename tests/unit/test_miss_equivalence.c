/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_miss_equivalence.c: the fast path of a miss (shortcut.c) has the same effects as the general
 * path. Two processes run the same operations, one of them without the fast path.
 */
#include "trims.h"
#include "unit/shortcut_world.h"

#include <sys/mman.h>

enum { SLOTS = 48, QUEUES = 3, STEPS = 1200 };

/* The state of one of the two processes. */
struct instance {
    struct rig rig;
    vram_pool *pool;
    vram_queue *queues[QUEUES];
    vram_addr base, held[SLOTS], pinned[SLOTS];
    vram_queue *filled[SLOTS]; /* the queue with work on the block; NULL: none */
    bool small;                /* only a few small sizes */
    vram_status status;        /* of the last step */
    uint64_t offset;           /* of the block that it handed out */
};

/* The result of a step. */
struct outcome {
    vram_status status;
    uint64_t offset;
    vram_pool_stats stats;
    vram_sim_state driver;
};

/* A configuration, the path to use, and the results, which the parent reads. */
struct scenario {
    const char *sim;
    uint32_t flags;
    uint64_t cached_bytes;
    bool small;  /* small blocks in bins that overflow soon */
    bool shared; /* the same by a limit on the blocks of all bins: then there is no central cache */
    uint64_t seed;
    bool general_path;
    struct {
        unsigned served;
        struct outcome steps[STEPS];
    } * results;
};

static uint64_t draw(uint64_t *seed, uint64_t below) {
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*seed >> 33) % below;
}

static struct instance instance_make(const struct scenario *scenario) {
    struct instance instance = {.rig = rig_make("sim", scenario->sim), .small = scenario->small};
    instance.pool = pool_of(instance.rig.device, scenario->flags, scenario->cached_bytes);
    if (scenario->small) { /* bins that overflow soon */
        struct vr_pool *pool = vr_handle_pin(VR_KIND_POOL, instance.pool);
        vr_store(&pool->caps.small_blocks, 5, VR_RELAXED);
        vr_leave(pool);
    }
    if (scenario->shared) {
        vram_limits limits = {
            .size = sizeof limits, .tracking = VRAM_SWITCH_OFF, .cached_blocks = 16};
        assert_ok(vram_pool_limits_set(instance.pool, &limits));
    }
    for (int i = 0; i < QUEUES; i++) {
        assert_ok(vram_queue_create(instance.rig.device, NULL, &instance.queues[i]));
    }
    return instance;
}

/* Sizes in runs and sizes of all magnitudes, more large ones than small. */
static uint64_t drawn_size(uint64_t *seed) {
    static const uint64_t often[] = {40 * KIB, 300 * KIB, MIB, 2 * MIB};
    uint64_t kind = draw(seed, 8);
    return kind < 2   ? often[draw(seed, 4)]
           : kind < 3 ? draw(seed, 33 * KIB)
           : kind < 4 ? draw(seed, 12 * MIB)
                      : 33 * KIB + draw(seed, MIB);
}

static void take_into(struct instance *instance, uint64_t slot, uint64_t size, vram_queue *queue,
                      const vram_alloc_options *options) {
    instance->status = vram_alloc_with(instance->pool, size, queue, options, &instance->held[slot]);
    if (instance->status == VRAM_OK) {
        instance->base = instance->base ? instance->base : instance->held[slot];
        instance->offset = instance->held[slot] - instance->base;
        instance->filled[slot] = queue;
        if (queue) {
            assert_ok(vram_queue_fill(queue, instance->held[slot], 1, 1, 1));
        }
    }
}

/* Frees what is in the slot, pinned now and then: on the queue that the block was filled on, whose
   work the free covers, or on whatever queue. */
static void empty_slot(struct instance *instance, uint64_t slot, bool pin, vram_queue *queue) {
    if (pin && instance->held[slot] && !instance->pinned[slot]) {
        assert_ok(vram_pin(instance->held[slot]));
        instance->pinned[slot] = instance->held[slot];
    }
    queue = instance->filled[slot] ? instance->filled[slot] : queue;
    assert_ok(vram_free(instance->held[slot], queue));
    instance->held[slot] = 0;
}

/* Runs the operation that the seed selects. */
static void take_step(struct instance *instance, uint64_t seed) {
    static const vram_alloc_options tagged = {.size = sizeof tagged, .tag = "model/layer"};
    uint64_t slot = draw(&seed, SLOTS), at = draw(&seed, QUEUES), other = draw(&seed, QUEUES);
    uint64_t what = draw(&seed, 100);
    uint64_t size = instance->small ? 900 * (1 + draw(&seed, 2)) : drawn_size(&seed);
    instance->status = VRAM_OK;
    instance->offset = 0;
    if (what < 70) {
        empty_slot(instance, slot, what == 0, instance->queues[what < 30 ? at : other]);
        take_into(instance, slot, size, instance->queues[at], what == 1 ? &tagged : NULL);
    } else if (what < 80) {
        empty_slot(instance, slot, false, instance->queues[other]);
    } else if (what < 84 && instance->held[slot]) {
        assert_ok(vram_queue_fill(instance->queues[other], instance->held[slot], 2, 1, 1));
        assert_ok(vram_use(instance->held[slot], instance->queues[other]));
    } else if (what < 88 && instance->pinned[slot]) {
        assert_ok(vram_unpin(instance->pinned[slot]));
        instance->pinned[slot] = 0;
    } else if (what < 92) {
        assert_ok(vram_queue_wait(instance->queues[at], VRAM_TIMEOUT_DEFAULT));
    } else if (what < 95 && instance->held[slot]) {
        instance->status = vram_resize(instance->held[slot], size, instance->queues[at]);
    } else if (what == 95) {
        for (int i = 0; i < SLOTS; i++) {
            bool ends = instance->filled[i] == instance->queues[at];
            instance->filled[i] = ends ? NULL : instance->filled[i];
        }
        vram_queue_destroy(instance->queues[at]);
        assert_ok(vram_queue_create(instance->rig.device, NULL, &instance->queues[at]));
    } else if (what == 96) {
        assert_ok(vram_pool_trim(instance->pool, TRIM(.keep_bytes = size * 8), NULL));
    } else {
        empty_slot(instance, slot, false, instance->queues[at]);
        take_into(instance, slot, size, NULL, NULL);
    }
}

/* Handles have the same numbers in two children of one process, so only the path differs. */
static int scenario_run(void *argument) {
    const struct scenario *scenario = argument;
    uint64_t seed = scenario->seed;
    struct instance instance = instance_make(scenario);
    atomic_store(&kept_off, scenario->general_path ? instance.pool : NULL);
    forget();
    for (int step = 0; step < STEPS; step++) {
        take_step(&instance, draw(&seed, UINT64_C(1) << 31));
        scenario->results->steps[step] = (struct outcome){
            instance.status, instance.offset, stats_of(instance.pool), sim_state(&instance.rig)};
    }
    scenario->results->served = atomic_load(&served);
    rig_end_clean(&instance.rig);
    return 0;
}

/* Statuses, placement, counters and driver calls, with their virtual times, are the same at every
   step. */
static void scenario_compare(struct scenario scenario) {
    struct scenario other = scenario;
    scenario.results = mmap(NULL, 2 * sizeof *scenario.results, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(scenario.results, MAP_FAILED);
    other.results = scenario.results + 1;
    other.general_path = true;
    assert_int_equal(in_child(scenario_run, &scenario), 0);
    assert_int_equal(in_child(scenario_run, &other), 0);
    for (int step = 0; step < STEPS; step++) {
        const struct outcome *a = &scenario.results->steps[step], *b = &other.results->steps[step];
        assert_int_equal(a->status, b->status);
        assert_int_equal(a->offset, b->offset);
        assert_memory_equal(&a->stats, &b->stats, sizeof a->stats);
        assert_memory_equal(&a->driver, &b->driver, sizeof a->driver);
    }
    assert_int_equal(other.results->served, 0);
    unsigned least = scenario.small ? STEPS / 100 : STEPS / 10;
    assert_true(scenario.results->served > least ||
                scenario.shared); /* whose short way is a free */
    munmap(scenario.results, 2 * sizeof *scenario.results);
}

static void fast_path_equals_general_path(void **state) {
    (void)state;
    static const struct scenario scenarios[] = {
        {.sim = "memory=1G,lag=3", .seed = 1},
        {.sim = "memory=1G,lag=40,seed=5", .seed = 2},
        {.sim = "memory=1G,lag=100,seed=3", .seed = 3},
        {.sim = "memory=1G,lag=9", .cached_bytes = 4 * MIB, .seed = 4},
        {.sim = "memory=1G,lag=9", .flags = VRAM_POOL_SEGMENTS, .seed = 5},
        {.sim = "memory=1G,lag=30,seed=8", .flags = VRAM_POOL_SEGMENTS, .seed = 6},
        {.sim = "memory=1G,lag=3", .small = true, .seed = 7},
        {.sim = "memory=1G,lag=30,seed=2", .small = true, .seed = 8},
        {.sim = "memory=1G,lag=9,seed=4", .small = true, .shared = true, .seed = 9},
    };
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        scenario_compare(scenarios[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        HERE(fast_path_equals_general_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

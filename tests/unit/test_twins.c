/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_twins.c: nothing tells afterwards by which way of a miss a block has come. Two processes
 * live the same life, one of them off the short way (shortcut.c).
 */
#include "trims.h"
#include "unit/shortcut_world.h"

#include <sys/mman.h>

enum { SLOTS = 48, QUEUES = 3, STEPS = 1200 };

/* One of two programs that do the same. */
struct twin {
    struct rig rig;
    vram_pool *pool;
    vram_queue *queues[QUEUES];
    vram_addr base, held[SLOTS], pinned[SLOTS];
    vram_status status; /* of the last step */
    uint64_t offset;    /* of the block that it handed out */
};

static uint64_t draw(uint64_t *seed, uint64_t below) {
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*seed >> 33) % below;
}

static struct twin twin_make(const char *sim, uint32_t flags, uint64_t cached_bytes) {
    struct twin twin = {.rig = rig_make("sim", sim)};
    twin.pool = pool_of(twin.rig.device, flags, cached_bytes);
    for (int i = 0; i < QUEUES; i++) {
        assert_ok(vram_queue_create(twin.rig.device, NULL, &twin.queues[i]));
    }
    return twin;
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

static void take_into(struct twin *twin, uint64_t slot, uint64_t size, vram_queue *queue,
                      const vram_alloc_options *options) {
    twin->status = vram_alloc_with(twin->pool, size, queue, options, &twin->held[slot]);
    if (twin->status == VRAM_OK) {
        twin->base = twin->base ? twin->base : twin->held[slot];
        twin->offset = twin->held[slot] - twin->base;
        if (queue) {
            assert_ok(vram_queue_fill(queue, twin->held[slot], 1, 1, 1));
        }
    }
}

/* Frees what is in the slot, pinned now and then, on whatever queue. */
static void empty_slot(struct twin *twin, uint64_t slot, bool pin, vram_queue *queue) {
    if (pin && twin->held[slot] && !twin->pinned[slot]) {
        assert_ok(vram_pin(twin->held[slot]));
        twin->pinned[slot] = twin->held[slot];
    }
    assert_ok(vram_free(twin->held[slot], queue));
    twin->held[slot] = 0;
}

/* The step that the seed says. */
static void take_step(struct twin *twin, uint64_t seed) {
    static const vram_alloc_options tagged = {.size = sizeof tagged, .tag = "model/layer"};
    uint64_t slot = draw(&seed, SLOTS), at = draw(&seed, QUEUES), other = draw(&seed, QUEUES);
    uint64_t what = draw(&seed, 100), size = drawn_size(&seed);
    twin->status = VRAM_OK;
    twin->offset = 0;
    if (what < 70) {
        empty_slot(twin, slot, what == 0, twin->queues[what < 30 ? at : other]);
        take_into(twin, slot, size, twin->queues[at], what == 1 ? &tagged : NULL);
    } else if (what < 80) {
        empty_slot(twin, slot, false, twin->queues[other]);
    } else if (what < 84 && twin->held[slot]) {
        assert_ok(vram_queue_fill(twin->queues[other], twin->held[slot], 2, 1, 1));
        assert_ok(vram_use(twin->held[slot], twin->queues[other]));
    } else if (what < 88 && twin->pinned[slot]) {
        assert_ok(vram_unpin(twin->pinned[slot]));
        twin->pinned[slot] = 0;
    } else if (what < 92) {
        assert_ok(vram_queue_wait(twin->queues[at], VRAM_TIMEOUT_DEFAULT));
    } else if (what < 95 && twin->held[slot]) {
        twin->status = vram_resize(twin->held[slot], size, twin->queues[at]);
    } else if (what == 95) {
        vram_queue_destroy(twin->queues[at]);
        assert_ok(vram_queue_create(twin->rig.device, NULL, &twin->queues[at]));
    } else if (what == 96) {
        assert_ok(vram_pool_trim(twin->pool, TRIM(.keep_bytes = size * 8), NULL));
    } else {
        empty_slot(twin, slot, false, twin->queues[at]);
        take_into(twin, slot, size, NULL, NULL);
    }
}

/* What a step came to. */
struct outcome {
    vram_status status;
    uint64_t offset;
    vram_pool_stats stats;
    vram_sim_state driver;
};

/* Which of the worlds, which way, and what came of it, for the parent to see. */
struct life {
    const char *sim;
    uint32_t flags;
    uint64_t cached_bytes;
    uint64_t seed;
    bool long_way;
    struct {
        unsigned served;
        struct outcome steps[STEPS];
    } * told;
};

/* Handles have the same numbers in two children of one process, so that nothing else can differ. */
static int live(void *argument) {
    const struct life *life = argument;
    uint64_t seed = life->seed;
    struct twin twin = twin_make(life->sim, life->flags, life->cached_bytes);
    atomic_store(&kept_off, life->long_way ? twin.pool : NULL);
    forget();
    for (int step = 0; step < STEPS; step++) {
        take_step(&twin, draw(&seed, UINT64_C(1) << 31));
        life->told->steps[step] =
            (struct outcome){twin.status, twin.offset, stats_of(twin.pool), sim_state(&twin.rig)};
    }
    life->told->served = atomic_load(&served);
    rig_end_clean(&twin.rig);
    return 0;
}

/* Same answers, same placement, same counters, same calls of the driver at the same virtual time,
   at every step. */
static void live_both_ways(struct life life) {
    struct life other = life;
    life.told = mmap(NULL, 2 * sizeof *life.told, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(life.told, MAP_FAILED);
    other.told = life.told + 1;
    other.long_way = true;
    assert_int_equal(in_child(live, &life), 0);
    assert_int_equal(in_child(live, &other), 0);
    for (int step = 0; step < STEPS; step++) {
        const struct outcome *a = &life.told->steps[step], *b = &other.told->steps[step];
        assert_int_equal(a->status, b->status);
        assert_int_equal(a->offset, b->offset);
        assert_memory_equal(&a->stats, &b->stats, sizeof a->stats);
        assert_memory_equal(&a->driver, &b->driver, sizeof a->driver);
    }
    assert_int_equal(other.told->served, 0);
    assert_true(life.told->served > STEPS / 10);
    munmap(life.told, 2 * sizeof *life.told);
}

static void nothing_tells_which_way_it_was(void **state) {
    (void)state;
    static const struct life lives[] = {
        {.sim = "memory=1G,lag=3", .seed = 1},
        {.sim = "memory=1G,lag=40,seed=5", .seed = 2},
        {.sim = "memory=1G,lag=100,seed=3", .seed = 3},
        {.sim = "memory=1G,lag=9", .cached_bytes = 4 * MIB, .seed = 4},
        {.sim = "memory=1G,lag=9", .flags = VRAM_POOL_SEGMENTS, .seed = 5},
        {.sim = "memory=1G,lag=30,seed=8", .flags = VRAM_POOL_SEGMENTS, .seed = 6},
    };
    for (size_t i = 0; i < sizeof lives / sizeof lives[0]; i++) {
        live_both_ways(lives[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        HERE(nothing_tells_which_way_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_space_places.c: the block engine: every place and every driver step of long drawn workloads.
 *
 * The other tests of the engine look at one rule each. Here the rules meet: runs of equal blocks,
 * several queues, alignments, reserves, growth behind blocks, trims, failed steps, aging. Whatever
 * the engine decides is added to a digest, so that no rule changes unseen. A change that is meant
 * gives new digests: the failed test prints them.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/space/span.h"
#include "space_fixture.h"

enum { LIVE_MOST = 160, STEPS = 2500, QUEUES = 3 };

struct workload {
    struct fixture *fixture;
    uint64_t seed, digest, step;
    struct vr_block *live[LIVE_MOST];
    uint32_t count;
    bool segments;
};

static uint64_t draw(struct workload *work, uint64_t below) {
    uint64_t x = work->seed += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (x ^ (x >> 31)) % below;
}

static void add(struct workload *work, uint64_t value) {
    work->digest = (work->digest ^ value) * UINT64_C(0x100000001B3);
    work->digest ^= work->digest >> 29;
}

/* Runs a plan; one in twelve fails at some step and is undone. */
static struct vr_block *execute(struct workload *work, struct vr_plan *plan) {
    static const uint64_t ns[] = {90000, 4000, 6000, 30000, 50000}; /* by vr_step_kind */
    struct vr_space *space = work->fixture->space;
    uint32_t fails = draw(work, 12) ? plan->count : (uint32_t)draw(work, plan->count + 1);
    for (uint32_t i = 0; i < fails; i++) {
        struct vr_step *step = &plan->steps[i];
        driver_step(&work->fixture->driver, step, work->segments);
        step->ns = ns[step->kind] * step->handles;
        add(work, step->kind);
        add(work, step->addr);
        add(work, step->bytes);
    }
    if (fails == plan->count) {
        return vr_space_commit(space, plan);
    }
    vr_space_undo(space, plan, fails);
    for (uint32_t i = 0; i < plan->count; i++) {
        plan->steps[i].failed = draw(work, 40) == 0;
        add(work, plan->steps[i].kind);
        add(work, plan->steps[i].addr);
    }
    vr_space_abort(space, plan, NULL);
    return NULL;
}

static struct vr_block *get(struct workload *work, struct vr_want *want) {
    struct vr_answer answer = {0};
    want->now_ns = work->step * 3000000 + 1;
    vram_status status = vr_space_alloc(work->fixture->space, want, &answer);
    add(work, (uint64_t)status);
    if (status != VRAM_OK) {
        return NULL;
    }
    add(work, answer.after.queue);
    struct vr_block *block = answer.plan ? execute(work, answer.plan) : answer.block;
    if (block) {
        vr_store(&block->state, VR_BLOCK_LIVE, VR_RELAXED);
        add(work, addr_of(block));
    }
    return block;
}

/* A run of equal blocks: most sizes are small, some are hundreds of MiB. */
static void get_run(struct workload *work) {
    static const uint32_t flags[] = {VR_WANT_GATHER, VR_WANT_NO_GROWTH,
                                     VR_WANT_HELD,   VR_WANT_HELD | VR_WANT_ANY,
                                     VR_WANT_AFTER,  VR_WANT_PROBE};
    uint64_t length = 1 + draw(work, 12), bytes = VR_KIB << draw(work, draw(work, 8) ? 15 : 20);
    struct vr_want want = {.bytes = bytes + draw(work, bytes), .queue = 1 + draw(work, QUEUES)};
    if (draw(work, 5) == 0) {
        want.align = UINT64_C(512) << draw(work, 13);
    }
    if (draw(work, 4) == 0) {
        want.flags = flags[draw(work, sizeof flags / sizeof flags[0])];
        want.grow_bytes = draw(work, 64) * VR_MIB;
    }
    if (draw(work, 16) == 0) {
        want.bytes = (want.bytes + GRANULE - 1) / GRANULE * GRANULE;
        want.reserve = draw(work, 8) * GRANULE;
    }
    for (uint64_t i = 0; i < length && work->count < LIVE_MOST; i++) {
        struct vr_block *block = get(work, &want);
        if (block) {
            work->live[work->count++] = block;
        }
    }
}

/* Frees one block; or, where it is joined or cut, a part of it. */
static void put_one(struct workload *work) {
    uint64_t queue = 1 + draw(work, QUEUES);
    uint32_t i = (uint32_t)draw(work, work->count);
    struct vr_block *block = work->live[i], *tail = NULL;
    uint64_t bytes = vr_span_bytes(block);
    if (bytes > 512 && draw(work, 8) == 0) {
        assert_int_equal(vr_space_split(work->fixture->space, block,
                                        512 * (1 + draw(work, bytes / 512 - 1)), &tail),
                         VRAM_OK);
        vr_store(&tail->state, VR_BLOCK_LIVE, VR_RELAXED);
        work->live[i] = tail;
    } else {
        work->live[i] = work->live[--work->count];
    }
    vr_store(&block->state, VR_BLOCK_FREE, VR_RELAXED);
    driver_free(work->fixture->space, block, queue, work->step);
}

/* More memory behind a block. */
static void grow_one(struct workload *work) {
    struct vr_block *block = work->live[draw(work, work->count)];
    struct vr_want want = {
        .bytes = 512 * (1 + draw(work, 65536)), .queue = 1 + draw(work, QUEUES), .behind = block};
    struct vr_block *tail = get(work, &want);
    if (tail) {
        vr_store(&tail->state, VR_BLOCK_FREE, VR_RELAXED);
        vr_space_join(work->fixture->space, block, tail);
    }
}

static void look_after(struct workload *work) {
    struct vr_space *space = work->fixture->space;
    struct vr_plan *plan = NULL;
    uint64_t keep = vr_space_reserved(space) / 8 * draw(work, 9);
    uint64_t which = draw(work, 8);
    if (which == 0) {
        assert_int_equal(vr_space_trim(space, keep, &plan), VRAM_OK);
    } else if (which < 4) {
        assert_int_equal(vr_space_sweep(space, &plan), VRAM_OK);
    } else if (which < 7) {
        assert_int_equal(vr_space_tidy(space, &plan), VRAM_OK);
    } else {
        vr_space_forget(space, 1 + draw(work, QUEUES));
    }
    if (plan) {
        assert_null(execute(work, plan));
    }
}

static void one_step(struct workload *work) {
    struct driver *driver = &work->fixture->driver;
    uint64_t what = draw(work, 100);
    work->step++;
    if (what < 30 && work->count < LIVE_MOST) {
        get_run(work);
    } else if (what < 90 && work->count) {
        uint64_t times = 1 + draw(work, draw(work, 20) ? 4 : work->count);
        for (uint64_t i = 0; i < times && work->count; i++) {
            put_one(work);
        }
    } else if (what < 94 && work->count) {
        grow_one(work);
    } else if (what < 98) {
        uint64_t queue = 1 + draw(work, QUEUES);
        driver->passed[queue] = work->step - draw(work, work->step - driver->passed[queue] + 1);
    } else {
        look_after(work);
    }
}

static uint64_t run(struct fixture *fixture, uint64_t seed) {
    struct workload work = {.fixture = fixture, .seed = seed};
    work.segments = fixture->config.mode == VR_SPACE_SEGMENTS;
    fixture->driver = (struct driver){0};
    fixture_restart(fixture);
    while (work.step < STEPS) {
        one_step(&work);
        if (work.step % 100 == 0) {
            assert_sound(fixture->space);
            add(&work, vr_space_hash(fixture->space));
        }
    }
    struct vr_space_stats stats = stats_of(fixture);
    stats.metadata_bytes = 0; /* which depends on the compiler */
    const uint64_t *numbers = (const uint64_t *)&stats;
    for (size_t i = 0; i < sizeof stats / sizeof *numbers; i++) {
        add(&work, numbers[i]);
    }
    return work.digest;
}

static const struct {
    const char *name;
    uint64_t digest;
    enum vr_space_mode mode;
    bool deterministic, direct, coarse, alias;
    uint64_t limit_bytes;
    uint32_t slack_ppm, share_ppm;
} cases[] = {
    {.name = "vmm",
     .digest = UINT64_C(0xAA7AF6D9153E57BE),
     .mode = VR_SPACE_VMM,
     .slack_ppm = 20000,
     .share_ppm = 80000},
    {.name = "vmm, alias",
     .digest = UINT64_C(0x6822920ED0C8A180),
     .mode = VR_SPACE_VMM,
     .alias = true,
     .slack_ppm = 20000,
     .share_ppm = 80000},
    {.name = "vmm, tight",
     .digest = UINT64_C(0x878B4019E801DBCD),
     .mode = VR_SPACE_VMM,
     .limit_bytes = 2 * VR_GIB,
     .share_ppm = 1000000},
    {.name = "vmm, coarse",
     .digest = UINT64_C(0xFA899771DC875B76),
     .mode = VR_SPACE_VMM,
     .coarse = true,
     .slack_ppm = 50000,
     .share_ppm = 10000},
    {.name = "vmm, deterministic",
     .digest = UINT64_C(0x85EB86BE4B0756DF),
     .mode = VR_SPACE_VMM,
     .deterministic = true},
    {.name = "vmm, direct",
     .digest = UINT64_C(0xFAAAE6BA272C0689),
     .mode = VR_SPACE_VMM,
     .direct = true},
    {.name = "segments", .digest = UINT64_C(0x5A97E10818DFEF92), .mode = VR_SPACE_SEGMENTS},
    {.name = "segments, tight",
     .digest = UINT64_C(0x5E61B5F4B321A8B5),
     .mode = VR_SPACE_SEGMENTS,
     .limit_bytes = 2 * VR_GIB},
    {.name = "segments, deterministic",
     .digest = UINT64_C(0xE06FD07A096D1F10),
     .mode = VR_SPACE_SEGMENTS,
     .deterministic = true},
};

static void test_places(void **state) {
    struct fixture *fixture = *state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture->config.mode = cases[i].mode;
        fixture->config.deterministic = cases[i].deterministic;
        fixture->config.direct = cases[i].direct;
        fixture->config.coarse = cases[i].coarse;
        fixture->config.alias = cases[i].alias;
        fixture->config.limit_bytes = cases[i].limit_bytes;
        fixture->config.slack_ppm = cases[i].slack_ppm;
        fixture->config.share_ppm = cases[i].share_ppm;
        fixture->config.credit_ns = 1000000;
        uint64_t digest = run(fixture, i + 1);
        if (digest != cases[i].digest) {
            print_error("%s: the places have changed; if that is meant: 0x%" PRIX64 "\n",
                        cases[i].name, digest);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

static int begin(void **state) {
    return fixture_begin(state, 0, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_places, begin, fixture_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

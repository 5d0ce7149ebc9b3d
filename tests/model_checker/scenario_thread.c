/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scenario_thread.c: a thread inside its caches beside others that want them (core/cache/thread.c).
 * `kept` stands for the caches: plain memory that the thread and a visitor change.
 */
#include "explore_scenario.h"

#include "core/cache/thread.h"

static unsigned kept[3]; /* of each thread */
static struct vr_thread_state *states[3];
static unsigned visits;

static void first_begin(void) {
    states[0] = vr_thread_get();
}

static void second_begin(void) {
    states[1] = vr_thread_get();
}

static void two_threads(void) {
    fiber_act_as(0, first_begin);
    fiber_act_as(1, second_begin);
}

static void two_threads_without_barrier(void) {
    two_threads();
    vr_store(&vr_thread_biased, false, VR_RELAXED);
}

static void hit(unsigned self) {
    struct vr_thread_state *thread = vr_thread_get();
    CHECK(thread == states[self]);
    CHECK(vr_thread_enter_wait(thread));
    kept[self]++;
    vr_thread_leave(thread);
}

static void first_hits(void) {
    hit(0);
    hit(0);
}

static void first_hits_once(void) {
    hit(0);
}

static void second_hits_once(void) {
    hit(1);
}

static void drain(struct vr_thread_state *thread, void *user) {
    unsigned *drained = user;
    for (unsigned i = 0; i < 3; i++) {
        if (thread == states[i]) {
            *drained += kept[i];
            kept[i] = 0;
        }
    }
}

static unsigned drained;

static void second_drains(void) {
    vr_thread_visit_all(drain, &drained);
}

static void second_drains_twice(void) {
    second_drains();
    second_drains();
}

static void second_hits_and_drains(void) {
    hit(1);
    second_drains();
}

static void first_hits_and_drains(void) {
    hit(0);
    vr_thread_visit_all(drain, &visits);
}

static void second_drains_idle(void) {
    (void)vr_thread_visit_idle(drain, &drained);
}

/* What was unlinked is freed when no thread can be inside. */
static vr_atomic_ptr linked;
static unsigned unlinked_value = 1;

static void unlinked_begin(void) {
    two_threads();
    vr_store(&linked, &unlinked_value, VR_RELAXED);
}

static void unlinked_begin_without_barrier(void) {
    two_threads_without_barrier();
    vr_store(&linked, &unlinked_value, VR_RELAXED);
}

static void first_reads(void) {
    for (int i = 0; i < 2; i++) {
        struct vr_thread_state *thread = vr_thread_get();
        CHECK(vr_thread_enter_wait(thread));
        unsigned *value = vr_load(&linked, VR_ACQUIRE);
        CHECK(!value || *value == 1);
        vr_thread_leave(thread);
    }
}

static void second_frees(void) {
    vr_store(&linked, NULL, VR_RELAXED);
    vr_thread_quiesce();
    unlinked_value = 0;
}

static void two_hits_are_there(void) {
    CHECK(kept[0] + kept[1] + drained + visits == 2);
}

static void three_hits_are_there(void) {
    CHECK(kept[0] + kept[1] + drained + visits == 3);
}

static void one_hit_is_there(void) {
    CHECK(kept[0] + kept[1] + drained + visits == 1);
}

const struct scenario thread_scenarios[] = {{"thread caches",
                                             "hits beside a drain",
                                             two_threads,
                                             {first_hits, second_drains},
                                             two_hits_are_there,
                                             false},
                                            {"thread caches",
                                             "a hit beside two drains",
                                             two_threads,
                                             {first_hits_once, second_drains_twice},
                                             one_hit_is_there,
                                             true},
                                            {"thread caches",
                                             "both hit, one drains",
                                             two_threads,
                                             {first_hits_once, second_hits_and_drains},
                                             two_hits_are_there,
                                             false},
                                            {"thread caches",
                                             "both drain",
                                             two_threads,
                                             {first_hits_and_drains, second_hits_and_drains},
                                             two_hits_are_there,
                                             true},
                                            {"thread caches",
                                             "hits without barrier",
                                             two_threads_without_barrier,
                                             {first_hits, second_drains},
                                             two_hits_are_there,
                                             false},
                                            {"thread caches",
                                             "a drain of idle threads",
                                             two_threads,
                                             {first_hits_once, second_drains_idle},
                                             one_hit_is_there,
                                             false},
                                            {"thread caches",
                                             "idle, without barrier",
                                             two_threads_without_barrier,
                                             {first_hits_once, second_drains_idle},
                                             one_hit_is_there,
                                             false},
                                            {"thread caches",
                                             "freed after quiescence",
                                             unlinked_begin,
                                             {first_reads, second_frees},
                                             NULL,
                                             false},
                                            {"thread caches",
                                             "the same without barrier",
                                             unlinked_begin_without_barrier,
                                             {first_reads, second_frees},
                                             NULL,
                                             false},
                                            {"thread caches",
                                             "three threads",
                                             two_threads,
                                             {first_hits, second_hits_once, second_drains},
                                             three_hits_are_there,
                                             true},
                                            {.name = NULL}};

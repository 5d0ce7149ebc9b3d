/* SPDX-License-Identifier: Apache-2.0 */
/* The player of `vram replay`: passes, failures, threads, and contents that are really checked. */
#include "replay/generator.h"
#include "replay/player.h"
#include "replay/relay.h"
#include "replay/trace_reader.h"
#include "rig/rig.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct trace generate(const char *text) {
    struct trace trace;
    char problem[TRACE_PROBLEM_MAX] = "";
    if (!generator_run(text, &trace, problem)) {
        fail_msg("%s", problem);
    }
    return trace;
}

static struct trace read_text(const char *text) {
    struct trace trace;
    char problem[TRACE_PROBLEM_MAX] = "";
    if (!trace_read_memory("t", text, strlen(text), &trace, problem)) {
        fail_msg("%s", problem);
    }
    return trace;
}

/* Plays a trace `passes` times; the last pass is returned. */
static struct pass play(const struct session_options *options, const struct trace *trace,
                        const struct policy *policy, int passes) {
    struct session *session;
    struct pass pass;
    assert_int_equal(session_open(options, trace, policy, &session), VRAM_OK);
    for (int i = 0; i < passes; i++) {
        session_play(session, NULL, NULL, &pass);
    }
    session_close(session);
    return pass;
}

/* ---------------------------------------------------------------------- passes */

/* A cache serves a steady program without the driver once it knows it; the driver alone never. */
TEST(second_pass_needs_no_driver) {
    struct session_options options = {.place.backend = "sim",
                                      .place.sim = "memory=8G,profile=h200"};
    struct trace trace = generate("steady,steps=5");
    struct pass caching = play(&options, &trace, &policy_caching, 2);
    struct pass naive = play(&options, &trace, &policy_naive, 2);
    assert_int_equal(caching.result, PASS_DONE);
    assert_int_equal(caching.repeat, 2);
    assert_int_equal(caching.op_count, trace.op_count);
    assert_int_equal(caching.spent_ns, 0); /* no call, no price */
    for (int i = 0; i < POLICY_CALL_COUNT; i++) {
        assert_int_equal(caching.counts.calls[i], 0);
    }
    assert_int_equal(naive.counts.calls[POLICY_CALL_ALLOC], trace.alloc_count);
    assert_int_equal(naive.counts.calls[POLICY_CALL_FREE], trace.alloc_count);
    assert_true(naive.spent_ns / trace.op_count >= 29000); /* the price of one call */
    trace_free(&trace);
}

/* Contents stay whole on devices that work late and out of order, with every kind of trace. */
TEST(contents_stay_whole) {
    static const char *const traces[] = {
        "steady,steps=2,blocks=100,max=256K",
        "queues,steps=3,blocks=60,max=256K",
        "ahead,steps=3,blocks=60,max=256K,min=1",
        "threads,steps=3,blocks=60,max=256K",
    };
    static const struct policy *const models[] = {&policy_caching, &policy_naive,
                                                  &policy_expandable, &policy_async};
    struct session_options options = {.place.backend = "sim",
                                      .place.sim = "memory=8G,profile=h200,lag=30,seed=9",
                                      .verify = true};
    for (size_t i = 0; i < sizeof traces / sizeof traces[0]; i++) {
        struct trace trace = generate(traces[i]);
        for (size_t k = 0; k < sizeof models / sizeof models[0]; k++) {
            struct pass pass = play(&options, &trace, models[k], 2);
            if (pass.result != PASS_DONE) {
                fail_msg("%s: %s", traces[i], pass.reason);
            }
            assert_int_equal(pass.mismatched_bytes, 0);
        }
        trace_free(&trace);
    }
}

TEST(works_on_the_host) {
    struct session_options options = {.place.backend = "host", .verify = true, .pace = true};
    struct trace trace = generate("queues,steps=2,blocks=60,max=256K,step_us=2000");
    struct pass pass = play(&options, &trace, &policy_caching, 1);
    assert_int_equal(pass.result, PASS_DONE);
    assert_int_equal(pass.mismatched_bytes, 0);
    assert_true(pass.spent_ns > 0);
    options = (struct session_options){.place.backend = "host"};
    pass = play(&options, &trace, &policy_naive, 1);
    assert_int_equal(pass.result, PASS_DONE);
    trace_free(&trace);
}

/* The simulated clock follows the trace. */
TEST(clock_follows_the_trace) {
    static const char text[] = TRACE_HEADER "\na,1,10,0,100\nf,1,,,2000100\n";
    vram_context_options options = {.size = sizeof options, .backends = "sim", .sim = ""};
    vram_context *context;
    vram_sim_state sim = {.size = sizeof sim};
    assert_int_equal(vram_context_create(&options, &context), VRAM_OK);
    assert_int_equal(vram_sim_clock_advance(context, 500), VRAM_OK);
    assert_int_equal(vram_sim_state_get(context, &sim), VRAM_OK);
    assert_int_equal(sim.clock_ns, 500);
    assert_int_equal(vram_sim_clock_advance(context, UINT64_MAX), VRAM_OK);
    assert_int_equal(vram_sim_state_get(context, &sim), VRAM_OK);
    assert_true(sim.clock_ns == UINT64_MAX);
    vram_context_destroy(context);
    struct trace trace = read_text(text);
    struct session_options wishes = {.place.backend = "sim", .place.sim = "profile=h200"};
    struct pass pass = play(&wishes, &trace, &policy_naive, 1);
    assert_int_equal(pass.spent_ns, 58000); /* the two calls alone */
    assert_int_equal(trace_ns(&trace), UINT64_C(2000000000));
    trace_free(&trace);
}

/* -------------------------------------------------------------------- failures */

TEST(does_not_fit) {
    struct session_options options = {
        .place.backend = "sim", .place.sim = "memory=64M", .verify = true};
    struct trace trace =
        read_text(TRACE_HEADER "\na,1,40000000,0,0\na,2,50000000,0,1\nf,2,,,2\nf,1,,,3\n");
    for (int i = 0; i < 2; i++) {
        struct pass pass = play(&options, &trace, i ? &policy_naive : &policy_caching, 1);
        assert_int_equal(pass.result, PASS_EXHAUSTED);
        assert_int_equal(pass.op_count, 1);
        assert_int_equal(strncmp(pass.reason, "operation 2, 50000000 bytes: ", 29), 0);
        assert_non_null(strstr(pass.reason, "(VRAM_ERR_DEVICE_MEMORY)"));
    }
    trace_free(&trace);
}

/* The device fails at every call in turn: no crash, no leak (the sanitizer sees), a reason. */
TEST(survives_lost_devices) {
    struct trace trace = generate("threads,steps=1,blocks=12,weights=2,max=64K,threads=2,queues=2");
    for (int i = 0; i < 2; i++) {
        const struct policy *policy = i ? &policy_naive : &policy_caching;
        bool reached = true;
        for (unsigned call = 1; reached; call++) {
            char sim[64];
            snprintf(sim, sizeof sim, "lag=5,lose=%u", call);
            struct session_options options = {
                .place.backend = "sim", .place.sim = sim, .verify = true};
            struct session *session;
            struct pass pass = {.result = PASS_FAILED, .reason = "x"};
            if (session_open(&options, &trace, policy, &session) == VRAM_OK) {
                session_play(session, NULL, NULL, &pass);
                session_close(session);
            }
            reached = pass.result == PASS_FAILED && call < 5000;
            assert_true(pass.result != PASS_FAILED || pass.reason[0] != 0);
        }
    }
    trace_free(&trace);
}

TEST(unknown_device) {
    struct trace trace = generate("steady,steps=1,blocks=1");
    struct session *session = NULL;
    struct session_options options = {.place.backend = "sim", .place.device = 7};
    assert_int_equal(session_open(&options, &trace, &policy_naive, &session), VRAM_ERR_NO_DEVICE);
    options = (struct session_options){.place.backend = "sim", .place.sim = "memory=x"};
    assert_int_equal(session_open(&options, &trace, &policy_naive, &session), VRAM_ERR_INVALID);
    assert_null(session);
    session_close(NULL);
    trace_free(&trace);
}

/* --------------------------------------------------------------------- checking */

/* A policy that gives the same memory to every block: what --verify is there to find. */
static struct place *shared_place;
static vram_addr shared;

static vram_status shared_begin(struct place *place, void **state) {
    shared_place = place;
    *state = &shared;
    return vram_device_alloc(place->device, 1 << 20, VRAM_MEMORY_DEVICE, &shared);
}

static vram_status shared_alloc(void *state, uint64_t bytes, uint32_t queue,
                                struct replay_block *block) {
    (void)state, (void)bytes, (void)queue;
    block->addr = shared;
    return VRAM_OK;
}

static vram_status shared_free(void *state, struct replay_block *block, uint32_t queue) {
    (void)state, (void)block, (void)queue;
    return VRAM_OK;
}

static vram_status shared_counts(void *state, struct policy_counts *counts) {
    (void)state;
    memset(counts, 0, sizeof *counts);
    return VRAM_OK;
}

static void shared_end(void *state) {
    (void)state;
}

static const struct policy policy_shared = {
    .name = "shared",
    .begin = shared_begin,
    .alloc = shared_alloc,
    .free = shared_free,
    .counts = shared_counts,
    .end = shared_end,
};

TEST(finds_overlap) {
    struct session_options options = {
        .place.backend = "sim", .place.sim = "memory=64M", .verify = true};
    struct trace apart = read_text(TRACE_HEADER "\na,1,1001,0,0\nf,1,,,1\na,2,999,0,2\nf,2,,,3\n");
    struct trace overlap =
        read_text(TRACE_HEADER "\na,1,1001,0,0\na,2,500,0,1\nf,1,,,2\nf,2,,,3\n");
    assert_int_equal(play(&options, &apart, &policy_shared, 1).mismatched_bytes, 0);
    struct pass pass = play(&options, &overlap, &policy_shared, 1);
    assert_in_range(pass.mismatched_bytes, 400, 500); /* some bytes of two patterns are alike */
    trace_free(&apart);
    trace_free(&overlap);
}

/* The caching policy, but deaf to what other queues do with a block. */
static vram_status hasty_free(void *state, struct replay_block *block, uint32_t queue) {
    struct replay_block known = *block;
    known.used_queues = 0;
    return policy_caching.free(state, &known, queue);
}

/* Queue 1 has much to do before it writes block 2, which is freed and its memory taken
   meanwhile. */
TEST(finds_early_reuse) {
    static const char text[] = TRACE_HEADER "\na,1,80000000,1,0\na,2,1000000,0,1\n"
                                            "u,1,,1,2\nu,1,,1,3\nu,1,,1,4\nu,1,,1,5\n"
                                            "u,2,,1,6\nf,2,,,7\n"
                                            "a,3,1000000,0,8\nf,3,,,1000\nf,1,,,1001\n";
    struct session_options options = {
        .place.backend = "sim", .place.sim = "profile=h200", .verify = true};
    struct policy hasty = policy_caching;
    struct trace trace = read_text(text);
    hasty.free = hasty_free;
    assert_in_range(play(&options, &trace, &hasty, 1).mismatched_bytes, 900000, 1000000);
    assert_int_equal(play(&options, &trace, &policy_caching, 1).mismatched_bytes, 0);
    trace_free(&trace);

    options.place.sim = "memory=8G,lag=1000"; /* and a generated trace, on a device that is late */
    trace = generate("ahead");
    assert_true(play(&options, &trace, &hasty, 1).mismatched_bytes > 0);
    assert_int_equal(play(&options, &trace, &policy_caching, 1).mismatched_bytes, 0);
    trace_free(&trace);
}

TEST(compares_every_byte) {
    uint8_t memory[64];
    uint32_t pattern = 0x44332211;
    for (uint64_t bytes = 1; bytes <= sizeof memory; bytes++) {
        uint64_t body = bytes / 4 * 4;
        for (uint64_t i = 0; i < bytes; i++) {
            memory[i] = (uint8_t)(i < body ? pattern >> 8 * (i % 4) : pattern);
        }
        assert_int_equal(checker_compare(memory, bytes, body, pattern), 0);
        for (uint64_t i = 0; i < bytes; i++) {
            memory[i] ^= 0x80;
            assert_int_equal(checker_compare(memory, bytes, body, pattern), i + 1);
        }
    }
}

/* A block larger than all the buffers together goes through them in pieces. */
TEST(checks_large_blocks) {
    struct session_options options = {
        .place.backend = "sim", .place.sim = "memory=256M", .verify = true};
    struct trace trace = read_text(TRACE_HEADER "\na,1,50000003,0,0\nf,1,,,1\n");
    struct pass pass = play(&options, &trace, &policy_caching, 1);
    assert_int_equal(pass.result, PASS_DONE);
    assert_int_equal(pass.mismatched_bytes, 0);
    trace_free(&trace);
}

/* ----------------------------------------------------------------------- relay */

struct race {
    pthread_t seen[3];
    int turns, wrong;
};

/* Each number is always the same thread, and another one than the others. */
static bool run_turn(void *user, uint32_t *thread) {
    struct race *race = user;
    uint32_t me = *thread;
    if (race->turns < 3) {
        race->seen[me] = pthread_self();
    }
    race->wrong += !pthread_equal(race->seen[me], pthread_self());
    race->wrong += pthread_equal(race->seen[(me + 1) % 3], pthread_self()) != 0 && race->turns > 2;
    *thread = (me + 1) % 3;
    return ++race->turns < 3000;
}

TEST(relay_takes_turns) {
    struct race race = {.turns = 0};
    assert_int_equal(relay_run(3, 0, run_turn, &race), VRAM_OK);
    assert_int_equal(race.turns, 3000);
    assert_int_equal(race.wrong, 0);
}

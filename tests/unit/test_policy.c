/* SPDX-License-Identifier: Apache-2.0 */
/* Policies of `vram replay`: models of other allocators against the peaks that were measured. */
#include "policy_world.h"
#include "replay/inflate.h"
#include "replay/player.h"
#include "replay/size_tree.h"
#include "replay/trace_reader.h"

#include <math.h>
#include <stdlib.h>

/* ----------------------------------------------------------------------- tree */

static uint64_t draw(uint64_t *random) {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

/* Against an array that is searched from end to end. */
TEST(tree_finds_best_fit) {
    enum { NODES = 300 };
    static struct size_node nodes[NODES];
    bool in[NODES] = {false};
    struct size_tree tree = {.root = NULL};
    uint64_t random = 3;
    for (int round = 0; round < 50000; round++) {
        size_t i = draw(&random) % NODES;
        if (in[i]) {
            size_tree_remove(&tree, &nodes[i]);
        } else {
            nodes[i] = (struct size_node){
                .queue = (uint32_t)(draw(&random) % 3), .bytes = draw(&random) % 50, .addr = i};
            size_tree_add(&tree, &nodes[i]);
        }
        in[i] = !in[i];
        uint32_t queue = (uint32_t)(draw(&random) % 3);
        uint64_t bytes = draw(&random) % 60;
        struct size_node *best = NULL;
        for (size_t k = 0; k < NODES; k++) {
            bool fits = in[k] && nodes[k].queue == queue && nodes[k].bytes >= bytes;
            if (fits && (best == NULL || nodes[k].bytes < best->bytes)) {
                best = &nodes[k];
            }
        }
        assert_ptr_equal(size_tree_fit(&tree, queue, bytes), best);
    }
    const struct size_node *before = NULL;
    size_t seen = 0, all = 0;
    for (struct size_node *node = NULL; (node = size_tree_next(&tree, node)) != NULL; seen++) {
        assert_true(before == NULL || before->queue <= node->queue);
        before = node;
    }
    for (size_t i = 0; i < NODES; i++) {
        all += in[i];
    }
    assert_int_equal(seen, all);
}

/* --------------------------------------------------------------------- caching */

/* A block that queue 1 still works on is not handed out again, and then it is. */
TEST(used_blocks_wait) {
    struct bench bench;
    open_bench(&bench, &policy_caching, "memory=1G,lag=1000,seed=5");
    struct replay_block a = take(&bench, 2 * MIB, 0);
    bench.place.busy_queues = 2;
    assert_int_equal(vram_queue_fill(bench.place.queues[1], a.addr, 1, 1, MIB), VRAM_OK);
    a.used_queues = 2;
    give(&bench, &a);
    struct replay_block b = take(&bench, 2 * MIB, 0);
    assert_true(b.addr != a.addr);
    assert_int_equal(vram_queue_wait(bench.place.queues[1], VRAM_TIMEOUT_DEFAULT), VRAM_OK);
    struct replay_block c = take(&bench, 2 * MIB, 0);
    assert_int_equal(c.addr, a.addr);
    give(&bench, &b);
    give(&bench, &c);
    close_bench(&bench);
}

/* 64 MiB of device: cached segments are given back before anything fails. */
TEST(cache_is_released_when_full) {
    struct bench bench;
    struct policy_counts counts;
    open_bench(&bench, &policy_caching, "memory=64M");
    struct replay_block a = take(&bench, 30 * MIB, 0), b = take(&bench, 30 * MIB, 0);
    give(&bench, &a);
    struct replay_block c = take(&bench, 32 * MIB, 0);
    assert_int_equal(reserved(&bench), 62 * MIB);
    struct replay_block d = {.bytes = 8 * MIB};
    assert_int_equal(policy_caching.alloc(bench.state, 8 * MIB, 0, &d), VRAM_ERR_DEVICE_MEMORY);
    assert_int_equal(policy_caching.counts(bench.state, &counts), VRAM_OK);
    assert_int_equal(counts.calls[POLICY_CALL_FREE], 1);
    assert_int_equal(counts.peak_reserved_bytes, 62 * MIB);
    give(&bench, &b);
    give(&bench, &c);
    close_bench(&bench);
}

/* ------------------------------------------------------- every policy */

static const struct policy *const all[] = {&policy_caching, &policy_expandable, &policy_async,
                                           &policy_naive};
enum { POLICIES = sizeof all / sizeof all[0] };

TEST(odd_sizes) {
    for (int i = 0; i < POLICIES; i++) {
        static const uint64_t large[] = {UINT64_MAX, UINT64_C(1) << 60, 65 * MIB};
        struct bench bench;
        open_bench(&bench, all[i], "memory=64M");
        struct replay_block none = take(&bench, 0, 0);
        assert_int_equal(none.addr, 0);
        give(&bench, &none);
        for (int k = 0; k < 3; k++) {
            struct replay_block block = {.bytes = large[k]};
            vram_status status = all[i]->alloc(bench.state, large[k], 0, &block);
            assert_true(vram_status_is_exhausted(status) || status == VRAM_ERR_OVERFLOW);
        }
        assert_int_equal(reserved(&bench), 0);
        close_bench(&bench);
    }
}

/* Every call of a driver fails in turn: the policy says so, and leaves nothing behind. */
TEST(failing_calls) {
    static const vram_sim_call kinds[] = {VRAM_SIM_ALLOC, VRAM_SIM_RESERVE, VRAM_SIM_CREATE,
                                          VRAM_SIM_MAP,   VRAM_SIM_UNMAP,   VRAM_SIM_SIGNAL};
    for (size_t i = 0; i < POLICIES * sizeof kinds / sizeof kinds[0]; i++) {
        for (uint64_t n = 1; n < 6; n++) {
            struct bench bench;
            open_bench(&bench, all[i % POLICIES], "memory=128M");
            const vram_sim_fault fault = {.size = sizeof fault,
                                          .call = kinds[i / POLICIES],
                                          .nth = n,
                                          .code = VRAM_SIM_INVALID_VALUE};
            assert_int_equal(vram_sim_fault_set(bench.place.context, &fault), VRAM_OK);
            struct replay_block blocks[4] = {{0}};
            for (int k = 0; k < 8; k++) {
                struct replay_block *block = &blocks[k % 4];
                if (block->addr != 0) {
                    bench.place.busy_queues |= 2;
                    block->used_queues = k % 2 ? 2 : 0;
                    bench.policy->free(bench.state, block, 0);
                }
                *block = (struct replay_block){.bytes = 1};
                bench.policy->alloc(bench.state, (uint64_t)(k % 3 + 1) * 30 * MIB, 0, block);
            }
            for (int k = 0; k < 4; k++) {
                if (blocks[k].addr != 0) {
                    bench.policy->free(bench.state, &blocks[k], 0);
                }
            }
            assert_int_equal(vram_sim_fault_set(bench.place.context, NULL), VRAM_OK);
            close_bench(&bench);
        }
    }
}

/* ------------------------------------------------------------ PyTorch's peaks */

/*
 * What PyTorch 2.11 itself held on an H200, over what the six programs asked for
 * (docs/benchmarks.md, "Models of other allocators"). The default allocator takes the lowest
 * address among blocks of one size, and where the driver puts segments is its own affair: on
 * serve_kv_cache the opposite order alone is worth 3.6 %, on sage_subgraphs 1.2 %, on the others
 * nothing. With expandable segments all addresses are known. How far the device was behind when
 * cudaMallocAsync's pool was asked is not.
 */
static const struct {
    const char *path;
    double caching, expandable, async;
} measured[] = {
    {TRACES "/gpt2_train_varlen.csv.gz", 1.95, 1.086, 1.095},
    {TRACES "/llama1b_train_ckpt.csv.gz", 2.04, 1.135, 1.128},
    {TRACES "/resnet50_multires.csv.gz", 1.36, 1.017, 1.056},
    {TRACES "/bert_dynpad.csv.gz", 1.69, 1.0095, 1.0106},
    {TRACES "/sage_subgraphs.csv.gz", 3.31, 1.51, 1.22},
    {TRACES "/serve_kv_cache.csv.gz", 1.33, 1.099, 1.615},
};

static void expect_peak(const struct trace *trace, const struct policy *policy, double ratio,
                        double tolerance) {
    struct session_options options = {.place.backend = "sim",
                                      .place.sim = "memory=80G,profile=h200"};
    struct session *session;
    struct pass pass;
    assert_int_equal(session_open(&options, trace, policy, &session), VRAM_OK);
    session_play(session, NULL, NULL, &pass);
    session_close(session);
    double ours = (double)pass.counts.peak_reserved_bytes / (double)trace->peak_bytes;
    assert_int_equal(pass.result, PASS_DONE);
    assert_true(pass.spent_ns > 0);
    if (fabs(ours / ratio - 1) > tolerance) {
        fail_msg("%s, %s: %.4f, and %.4f was measured", trace->name, policy->name, ours, ratio);
    }
}

TEST(peaks_are_those_of_pytorch) {
    if (!inflate_built) {
        skip();
    }
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++) {
        struct trace trace;
        char problem[TRACE_PROBLEM_MAX];
        assert_true(trace_read(measured[i].path, &trace, problem));
        expect_peak(&trace, &policy_caching, measured[i].caching, 0.025);
        expect_peak(&trace, &policy_expandable, measured[i].expandable, 0.001);
        expect_peak(&trace, &policy_async, measured[i].async, 0.05);
        trace_free(&trace);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Policies of `vram replay`: the caching model by its rules, and all models against the peaks that
   were measured. */
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

TEST(segments_have_their_sizes) {
    static const struct {
        uint64_t bytes, segment;
    } rows[] = {
        {1, 2 * MIB},           {MIB, 2 * MIB},
        {MIB + 1, 20 * MIB},    {10 * MIB - 512, 20 * MIB},
        {10 * MIB, 10 * MIB},   {10 * MIB + 1, 12 * MIB},
        {100 * MIB, 100 * MIB},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bench bench;
        open_bench(&bench, &policy_caching, "memory=1G");
        struct replay_block block = take(&bench, rows[i].bytes, 0);
        assert_int_equal(reserved(&bench), rows[i].segment);
        give(&bench, &block);
        assert_int_equal(reserved(&bench), rows[i].segment); /* kept */
        close_bench(&bench);
    }
}

TEST(small_blocks_share_and_join) {
    struct bench bench;
    open_bench(&bench, &policy_caching, "memory=1G");
    struct replay_block a = take(&bench, 100, 0), b = take(&bench, 513, 0), c = take(&bench, 1, 0);
    assert_int_equal(b.addr, a.addr + 512);
    assert_int_equal(c.addr, b.addr + 1024);
    give(&bench, &a);
    give(&bench, &c);
    give(&bench, &b); /* joins both ways: the segment is whole again */
    struct replay_block d = take(&bench, MIB, 0), e = take(&bench, MIB, 0);
    assert_int_equal(d.addr, a.addr);
    assert_int_equal(e.addr, a.addr + MIB);
    assert_int_equal(reserved(&bench), 2 * MIB);
    give(&bench, &d);
    give(&bench, &e);
    close_bench(&bench);
}

/* Of 20 MiB, 19 are taken: what is left is 1 MiB and stays with the block. */
TEST(large_rest_is_not_split) {
    struct bench bench;
    open_bench(&bench, &policy_caching, "memory=1G");
    struct replay_block a = take(&bench, 20 * MIB, 0);
    give(&bench, &a);
    struct replay_block b = take(&bench, 19 * MIB, 0);
    assert_int_equal(b.addr, a.addr);
    struct replay_block c = take(&bench, 2 * MIB, 0); /* nothing to cut from: a new segment */
    assert_int_equal(reserved(&bench), 40 * MIB);
    struct replay_block d = take(&bench, 2 * MIB, 0);
    assert_int_equal(d.addr, c.addr + 2 * MIB);
    assert_int_equal(reserved(&bench), 40 * MIB);
    give(&bench, &b);
    give(&bench, &c);
    give(&bench, &d);
    close_bench(&bench);
}

TEST(queues_do_not_share) {
    struct bench bench;
    open_bench(&bench, &policy_caching, "memory=1G");
    struct replay_block a = take(&bench, MIB, 0);
    give(&bench, &a);
    struct replay_block b = take(&bench, MIB, 1);
    assert_true(b.addr != a.addr);
    assert_int_equal(reserved(&bench), 4 * MIB);
    give(&bench, &b);
    close_bench(&bench);
}

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

TEST(odd_sizes) {
    static const struct policy *const both[] = {&policy_caching, &policy_naive};
    for (int i = 0; i < 2; i++) {
        struct bench bench;
        open_bench(&bench, both[i], "memory=64M");
        struct replay_block none = take(&bench, 0, 0);
        assert_int_equal(none.addr, 0);
        give(&bench, &none);
        struct replay_block huge = {.bytes = UINT64_MAX};
        assert_true(both[i]->alloc(bench.state, UINT64_MAX, 0, &huge) != VRAM_OK);
        assert_int_equal(reserved(&bench), 0);
        close_bench(&bench);
    }
}

/* --------------------------------------------------------------------- naive */

TEST(naive_is_one_call_each) {
    struct bench bench;
    struct policy_counts counts;
    open_bench(&bench, &policy_naive, "memory=64M");
    struct replay_block a = take(&bench, 100, 0), b = take(&bench, 5 * MIB, 1);
    uint64_t held = reserved(&bench);
    give(&bench, &a);
    give(&bench, &b);
    assert_int_equal(reserved(&bench), 0);
    assert_int_equal(policy_naive.counts(bench.state, &counts), VRAM_OK);
    assert_int_equal(counts.calls[POLICY_CALL_ALLOC], 2);
    assert_int_equal(counts.calls[POLICY_CALL_FREE], 2);
    assert_int_equal(counts.peak_reserved_bytes, held);
    close_bench(&bench);
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

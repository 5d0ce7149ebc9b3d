/* SPDX-License-Identifier: Apache-2.0 */
/* Traces of `vram replay`: reading good, wrong and hostile text, and writing it back. */
#include "replay/inflate.h"
#include "replay/trace_ids.h"
#include "replay/trace_reader.h"
#include "rig/rig.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "op,id,bytes,stream,t_us\n"

static bool read_text(const char *text, struct trace *trace, char problem[TRACE_PROBLEM_MAX]) {
    return trace_read_memory("t.csv", text, strlen(text), trace, problem);
}

/* -------------------------------------------------------------------- reading */

TEST(reads_operations) {
    struct trace trace;
    char problem[TRACE_PROBLEM_MAX];
    assert_true(read_text(HEAD "a,7,100,900,50\n"
                               "a,8,30,901,60\r\n"
                               "\n"
                               "u,7,,901,61\n"
                               "u,7,10,901,61\n"
                               "f,7,,,70\n"
                               "a,7,5,901,55\n" /* the id again; time falls back */
                               "f,8,30,900,1070",
                          &trace, problem));
    assert_string_equal(trace.name, "t");
    assert_int_equal(trace.op_count, 7);
    assert_int_equal(trace.alloc_count, 3);
    assert_int_equal(trace.peak_bytes, 130);
    assert_int_equal(trace.block_slots, 2);
    assert_int_equal(trace.queue_count, 2);
    assert_int_equal(trace.thread_count, 1);
    assert_int_equal(trace_ns(&trace), 1020000);
    assert_int_equal(trace.ops[0].t_us, 0);
    assert_int_equal(trace.ops[2].kind, TRACE_USE);
    assert_int_equal(trace.ops[2].bytes, 100); /* all of it */
    assert_int_equal(trace.ops[2].queue, 1);
    assert_int_equal(trace.ops[3].bytes, 10);
    assert_int_equal(trace.ops[4].queue, 0); /* the block's own */
    assert_int_equal(trace.ops[5].block, trace.ops[4].block);
    assert_int_equal(trace.ops[5].t_us, trace.ops[4].t_us);
    assert_int_equal(trace.ops[6].queue, 0); /* 900, though allocated for 901 */
    trace_free(&trace);
}

TEST(reads_threads) {
    struct trace trace;
    char problem[TRACE_PROBLEM_MAX];
    assert_true(read_text("\xef\xbb\xbfop,id,bytes,stream,t_us,thread\na,1,1,0,0,40\nf,1,,,0,41\n",
                          &trace, problem));
    assert_int_equal(trace.thread_count, 2);
    assert_int_equal(trace.ops[0].thread, 0);
    assert_int_equal(trace.ops[1].thread, 1);
    trace_free(&trace);
}

TEST(empty_trace_is_one) {
    struct trace trace;
    char problem[TRACE_PROBLEM_MAX];
    assert_true(read_text(HEAD, &trace, problem));
    assert_int_equal(trace.op_count, 0);
    assert_int_equal(trace_ns(&trace), 0);
    trace_free(&trace);
}

#define NOT_A_TRACE                                                                                \
    "this is not a trace: neither one of libvram (VRAM_TRACE), nor a memory snapshot of PyTorch, " \
    "nor Chrome JSON, nor a log of RMM, nor CSV that begins with op,id,bytes,stream,t_us; plain, " \
    "gzip'd or zstd'd"

static const struct {
    const char *text, *problem;
} wrong[] = {
    {"", "t.csv:1: " NOT_A_TRACE},
    {"id,bytes\n", "t.csv:1: " NOT_A_TRACE},
    {"op,id,bytes,stream,t_us,color\n", "t.csv:1: " NOT_A_TRACE},
    {HEAD "a,1,1,0\n", "t.csv:2: there are not 5 fields"},
    {HEAD "a,1,1,0,0,0\n", "t.csv:2: there are not 5 fields"},
    {HEAD "a,1,1,0,0,0,0,0\n", "t.csv:2: there are not 5 fields"},
    {HEAD "\n\nx,1,1,0,0\n",
     "t.csv:4: the operation is not one of a (allocate), f (free), u (use)"},
    {HEAD "aa,1,1,0,0\n", "t.csv:2: the operation is not one of a (allocate), f (free), u (use)"},
    {HEAD "a,-1,1,0,0\n", "t.csv:2: the id is not a whole number of 64 bits"},
    {HEAD "a,,1,0,0\n", "t.csv:2: the id is not a whole number of 64 bits"},
    {HEAD "a,1,,0,0\n", "t.csv:2: the bytes are not a whole number of 64 bits"},
    {HEAD "a,1,18446744073709551616,0,0\n", "t.csv:2: the bytes are not a whole number of 64 bits"},
    {HEAD "a,1,1,,0\n", "t.csv:2: the stream is not a whole number of 64 bits"},
    {HEAD "a,1,1,0,1.5\n", "t.csv:2: the time is not a whole number of 64 bits"},
    {HEAD "a,1,1,0,0\nf,1,x,,0\n", "t.csv:3: the bytes are not a whole number of 64 bits"},
    {HEAD "f,3,,,0\n", "t.csv:2: block 3 is freed, but it is not live"},
    {HEAD "u,3,,0,0\n", "t.csv:2: block 3 is used, but it is not live"},
    {HEAD "a,1,1,0,0\nf,1,,,0\nf,1,,,0\n", "t.csv:4: block 1 is freed, but it is not live"},
    {HEAD "a,1,1,0,0\na,1,1,0,0\n", "t.csv:3: block 1 is allocated again before it is freed"},
    {HEAD "a,1,8,0,0\nu,1,9,0,0\n", "t.csv:3: block 1 has 8 bytes, but 9 are used"},
    {HEAD "a,1,18446744073709551615,0,0\na,2,1,0,0\n",
     "t.csv:3: block 2: the live bytes do not fit in 64 bits"},
};

TEST(names_line_and_mistake) {
    struct trace trace;
    char problem[TRACE_PROBLEM_MAX];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(read_text(wrong[i].text, &trace, problem));
        assert_string_equal(problem, wrong[i].problem);
        assert_null(trace.ops);
    }
}

TEST(refuses_long_lines) {
    struct trace trace;
    char problem[TRACE_PROBLEM_MAX];
    size_t bytes = 1 << 20;
    char *text = malloc(bytes);
    memcpy(text, HEAD, sizeof HEAD - 1);
    memset(text + sizeof HEAD - 1, '1', bytes - sizeof HEAD + 1);
    assert_false(trace_read_memory("t.csv", text, bytes, &trace, problem));
    assert_string_equal(problem, "t.csv:2: the line is too long for a trace");
    free(text);
}

/* One more queue, and one more thread, than there may be. */
TEST(refuses_too_many_names) {
    for (int column = 0; column < 2; column++) {
        struct trace trace;
        char problem[TRACE_PROBLEM_MAX], text[8192];
        size_t used = (size_t)sprintf(text, "op,id,bytes,stream,t_us,thread\n");
        for (int i = 0; i <= TRACE_QUEUES_MAX; i++) {
            used += (size_t)sprintf(text + used, "a,%d,1,%d,0,%d\n", i, column == 0 ? i : 0,
                                    column == 1 ? i : 0);
        }
        assert_false(read_text(text, &trace, problem));
        assert_string_equal(problem, column == 0 ? "t.csv:66: more than 64 streams"
                                                 : "t.csv:66: more than 64 threads");
    }
}

TEST(refuses_too_many_operations) {
    struct trace trace;
    struct trace_builder builder;
    struct trace_entry entry = {.kind = TRACE_ALLOC, .bytes = 8, .stream_given = true};
    assert_true(trace_builder_begin(&builder, &trace, "t"));
    assert_int_equal(builder.op_limit, TRACE_OPS_MAX);
    builder.op_limit = 5;
    for (; entry.id < 5; entry.id++) {
        assert_true(trace_builder_add(&builder, &entry));
    }
    assert_false(trace_builder_add(&builder, &entry));
    assert_string_equal(builder.problem, "more than 5 operations; split the trace");
    assert_int_equal(trace.op_count, 5);
    trace_builder_end(&builder);
    trace_free(&trace);
}

TEST(names_files_that_cannot_be_read) {
    struct trace trace;
    char problem[TRACE_PROBLEM_MAX];
    assert_false(trace_read("/nonexistent/x.csv", &trace, problem));
    assert_string_equal(problem, "/nonexistent/x.csv: No such file or directory");
    assert_false(trace_read("/", &trace, problem));
    assert_string_equal(problem, "/: Is a directory");
}

/* -------------------------------------------------------------------- writing */

TEST(writes_what_it_reads) {
    static const char text[] = "op,id,bytes,stream,t_us,thread\n"
                               "a,0,100,0,0,0\n"
                               "u,0,40,1,2,0\n"
                               "a,1,7,1,5,1\n"
                               "f,0,,0,6,1\n"
                               "a,2,9,0,7,0\n";
    struct trace trace;
    char problem[TRACE_PROBLEM_MAX], *written = NULL;
    size_t bytes = 0;
    assert_true(read_text(text, &trace, problem));
    FILE *to = open_memstream(&written, &bytes);
    assert_true(trace_write(&trace, to));
    fclose(to);
    assert_string_equal(written, text);
    free(written);
    trace_free(&trace);
}

/* ----------------------------------------------------------------------- gzip */

/* The six traces are in the repository; the smallest is read from its file. */
TEST(reads_gzip) {
    struct trace trace;
    char problem[TRACE_PROBLEM_MAX];
    bool good = trace_read(TRACES "/sage_subgraphs.csv.gz", &trace, problem);
    if (!inflate_built) {
        assert_false(good);
        assert_non_null(strstr(problem, "this build has no zlib"));
        return;
    }
    assert_true(good);
    assert_string_equal(trace.name, "sage_subgraphs");
    assert_int_equal(trace.alloc_count, 8790);
    assert_int_equal(trace.peak_bytes / 1000000, 4986);
    trace_free(&trace);
}

static uint8_t *file_bytes(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    uint8_t *text = malloc(1 << 20);
    *bytes = fread(text, 1, 1 << 20, file);
    fclose(file);
    return text;
}

TEST(refuses_broken_gzip) {
    if (!inflate_built) {
        skip();
    }
    struct trace trace;
    char problem[TRACE_PROBLEM_MAX];
    size_t bytes;
    uint8_t *text = file_bytes(TRACES "/sage_subgraphs.csv.gz", &bytes);
    assert_false(trace_read_memory("t", text, bytes / 2, &trace, problem));
    assert_string_equal(problem, "t: it ends in the middle of its gzip data");
    assert_false(trace_read_memory("t", text, 2, &trace, problem));
    assert_string_equal(problem, "t: it ends in the middle of its gzip data");
    text[bytes - 6] ^= 1; /* its checksum */
    assert_false(trace_read_memory("t", text, bytes, &trace, problem));
    assert_string_equal(problem, "t: its gzip data is damaged");
    free(text);
}

/* Two files one behind the other are one text, as for zcat: the second header is in the way. */
TEST(reads_gzip_members) {
    if (!inflate_built) {
        skip();
    }
    struct trace trace;
    char problem[TRACE_PROBLEM_MAX];
    size_t bytes;
    uint8_t *text = file_bytes(TRACES "/sage_subgraphs.csv.gz", &bytes);
    text = realloc(text, bytes * 2);
    memcpy(text + bytes, text, bytes);
    assert_false(trace_read_memory("t", text, bytes * 2, &trace, problem));
    assert_string_equal(problem,
                        "t:17579: the operation is not one of a (allocate), f (free), u (use)");
    free(text);
}

/* ------------------------------------------------------------------------ ids */

static uint64_t draw(uint64_t *random) {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

TEST(ids_come_and_go) {
    enum { IDS = 5000 };
    static uint32_t model[IDS];
    struct trace_ids *ids = trace_ids_create();
    uint64_t random = 99;
    memset(model, 0, sizeof model);
    for (uint32_t round = 1; round < 100000; round++) {
        uint64_t id = draw(&random) % IDS;
        uint32_t block = 0;
        bool found = trace_ids_find(ids, id << 32, &block);
        assert_int_equal(found, model[id] != 0);
        assert_int_equal(block, model[id]);
        if (found) {
            trace_ids_remove(ids, id << 32);
            model[id] = 0;
        } else {
            assert_true(trace_ids_add(ids, id << 32, round));
            model[id] = round;
        }
    }
    trace_ids_remove(ids, UINT64_MAX); /* not there: nothing happens */
    trace_ids_destroy(ids);
    trace_ids_destroy(NULL);
}

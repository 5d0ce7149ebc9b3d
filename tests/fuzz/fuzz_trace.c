/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_trace.c: whatever file vram replay is given, plain or gzip'd, it is refused with a line that
 * says where and why, or is a trace: then writing and reading it again gives the same, and every
 * policy can play it on a small simulated device, which sees no breach of its protocol.
 */
#include "trace_expect.h"

#include "base/memory.h"
#include "replay/player.h"

#include <string.h>

static const char fuzz_words[] =
    " op,id,bytes,stream,t_us ,thread \na,1,512,0,10 \nf,1,,0,20 \nu,1,512,1,15"
    " \na,2,1048576,1,30,1 \r\n , \n a, f, u, \x1f\x8b\x08 -";

enum { OPS_TO_PLAY = 200 };

static void play(const struct trace *trace, const struct policy *policy, bool verify) {
    struct session_options options = {.place.backend = "sim",
                                      .place.sim = verify ? "memory=8M,real=on" : "memory=256M",
                                      .verify = verify};
    struct session *session;
    static struct pass pass;
    FUZZ_EXPECT(session_open(&options, trace, policy, &session) == VRAM_OK);
    session_play(session, NULL, NULL, &pass);
    if (pass.result == PASS_FAILED) {
        fprintf(stderr, "%s: %s\n", policy->name, pass.reason);
        abort();
    }
    FUZZ_EXPECT(pass.mismatched_bytes == 0);
    session_close(session);
}

static void on_log(void *user, vram_log_level level, const char *text) {
    (void)user, (void)level;
    fprintf(stderr, "logged: %s\n", text);
    abort();
}

static int fuzz_take(const uint8_t *data, size_t bytes) {
    struct trace trace;
    char problem[TRACE_PROBLEM_MAX] = "";
    vram_log_set(on_log, NULL, VRAM_LOG_ERROR);
    if (!trace_read_memory("input", data, bytes, &trace, problem)) {
        FUZZ_EXPECT(strncmp(problem, "input", 5) == 0);
        return 0;
    }
    write_and_read(&trace);
    if (trace.op_count <= OPS_TO_PLAY) {
        for (const struct policy *const *policy = policy_table; *policy; policy++) {
            play(&trace, *policy, trace.peak_bytes < 4 << 20 && bytes % 2);
        }
    }
    trace_free(&trace);
    FUZZ_EXPECT(vr_mem_live_bytes() == 0);
    return 0;
}

/* Traces are played: the memory is that of the simulated devices and their pools. */
FUZZ_TARGET(trace, .split = fuzz_split_lines, .memory_more = 256 << 20)

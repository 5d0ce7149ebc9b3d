/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench.c: `vram bench alloc`: what an allocation and its free cost, beside its peers in the same
 * run. How it is measured is in bench/; here the contest is set up from the flags and judged. `vram
 * bench grow`, `launch`, `readback`, `track`, `copy` and `ring` are in bench/grow.c, launch.c,
 * frames.c, tracking.c, copying.c and ringing.c, `matmul` and `distance` in multiply.c and
 * neighbors.c.
 */
#include "bench/contest.h"
#include "bench/record.h"
#include "bench/scoreboard.h"
#include "bench/ways.h"
#include "target.h"
#include "verb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MARGIN_PERCENT = 15,
    LIVE_MAX = 10000000,
    LAUNCH_BYTES = 1 << 20,
    FRAME_BYTES = 64 << 20,
    COPY_LEAST_BYTES = 4096,
    MATMUL_SIDE = 1024,
    MATMUL_SIDE_MAX = 32768,
    DISTANCE_VECTORS = 100000,
    DISTANCE_LEAST = 10,
    DISTANCE_MOST = 100000000
};
enum { RING_BYTES = 64, RING_MOST_BYTES = 4096, RING_MOST_MESSAGES = 1000000000 };

#define GROW_FROM_BYTES (UINT64_C(1) << 30)

static const char pattern_choices[] = "pair burst mixed handover"; /* as in enum pattern */

/* ------------------------------------------------------------------- entries */

/* Adds an entry with the plan's size and threads; the caller may change them. */
static struct entry *enter(struct contest *contest, const struct target *target, const char *name,
                           const struct allocator *allocator, bool comparable) {
    struct entry *entry = &contest->entries[contest->entry_count++];
    *entry = (struct entry){.name = name,
                            .allocator = allocator,
                            .comparable = comparable,
                            .bytes = contest->plan.bytes,
                            .threads = contest->plan.threads,
                            .context = target->context,
                            .device_index = target->index,
                            .backend_index = target->info.backend_index};
    return entry;
}

/*
 * Allocators of host memory are the measure of ours where the device is no GPU: a hit does the same
 * work. On pairs the measure is their best size, since ours should not depend on the size and
 * theirs, when it is large, ask the system each time. malloc is shown and not compared as a rule:
 * which of the two is ahead depends on the size, and a ratio that changes sides is no ratio.
 */
static void enter_host_peers(struct contest *contest, const struct target *target,
                             bool comparable) {
    const struct contest_plan *plan = &contest->plan;
    enter(contest, target, "mimalloc", &allocator_mimalloc, comparable)->live = plan->live;
    if (plan->pattern == PATTERN_PAIR && plan->bytes != YARDSTICK_BYTES) {
        struct entry *entry =
            enter(contest, target, "mimalloc_1KiB", &allocator_mimalloc, comparable);
        entry->bytes = YARDSTICK_BYTES;
        entry->live = plan->live;
    }
    enter(contest, target, "malloc", &allocator_malloc, false)->live = plan->live;
}

/* Ours once more as it is without what the flags put on it, to see what that costs. */
static void enter_own_peers(struct contest *contest, const struct target *target) {
    if (contest->plan.live > 0) {
        enter(contest, target, "vram_empty", &allocator_pool, false);
    }
    if (contest->plan.threads > 1) {
        struct entry *entry = enter(contest, target, "vram_one_thread", &allocator_pool, false);
        entry->threads = 1;
        entry->live = contest->plan.live;
    }
}

static void enter_all(struct contest *contest, const struct target *target) {
    bool cuda = strcmp(target->info.backend, "cuda") == 0;
    bool opencl = strcmp(target->info.backend, "opencl") == 0;
    bool vulkan = strcmp(target->info.backend, "vulkan") == 0;
    enter(contest, target, "vram", &allocator_pool, false)->live = contest->plan.live;
    enter_own_peers(contest, target);
    enter_host_peers(contest, target, !cuda && !opencl && !vulkan);
    enter(contest, target, "naive", &allocator_naive, cuda || opencl || vulkan);
    if (cuda) {
        enter(contest, target, "cudaMallocAsync", &allocator_cuda_async, true);
        enter(contest, target, "cudaMalloc", &allocator_cuda, true);
    }
    if (opencl) {
        enter(contest, target, "clCreateBuffer", &allocator_opencl, true);
        enter(contest, target, "clCreateBuffer_lazy", &allocator_opencl_lazy, false);
    }
    if (vulkan) {
        enter(contest, target, "vkAllocateMemory", &allocator_vulkan, true);
    }
}

/* Where there is neither mimalloc nor a GPU's own allocator, malloc is the measure. */
static void settle_measure(struct contest *contest) {
    bool any = false;
    for (uint32_t i = 1; i < contest->entry_count; i++) {
        any = any || (contest->entries[i].comparable && contest->entries[i].measured);
    }
    for (uint32_t i = 1; i < contest->entry_count && !any; i++) {
        struct entry *entry = &contest->entries[i];
        entry->comparable = entry->comparable || entry->allocator == &allocator_malloc;
    }
}

/* --------------------------------------------------------------------- flags */

/* A number that may have a fraction; false after one line on stderr. */
static bool flag_fraction(const struct invocation *invocation, const char *name, double minimum,
                          double maximum, double *number) {
    const char *text = flag_value(invocation, name);
    char *end = NULL;
    if (text == NULL) {
        return true;
    }
    double value = strtod(text, &end);
    bool digits = (text[0] >= '0' && text[0] <= '9') || text[0] == '.';
    if (!digits || *end != 0 || !(value >= minimum && value <= maximum)) {
        say_error("--%s=%s: not a number from %g to %g", name, text, minimum, maximum);
        return false;
    }
    *number = value;
    return true;
}

static bool flag_size(const struct invocation *invocation, const char *name, uint64_t *bytes) {
    const char *text = flag_value(invocation, name);
    if (text == NULL) {
        return true;
    }
    if (vram_size_parse(text, bytes) != VRAM_OK || *bytes == 0) {
        say_error("--%s=%s: not a size like 4096, 64K or 1.5GiB", name, text);
        return false;
    }
    return true;
}

static enum pattern flag_pattern(const struct invocation *invocation) {
    const char *text = flag_value(invocation, "pattern");
    static const char *const names[] = {"pair", "burst", "mixed", "handover"};
    for (int i = 0; text != NULL && i < 4; i++) {
        if (strcmp(text, names[i]) == 0) {
            return (enum pattern)i;
        }
    }
    return PATTERN_PAIR;
}

static bool read_plan(const struct invocation *invocation, struct contest_plan *plan,
                      struct judgement *judgement) {
    uint64_t threads = 1;
    double percent = MARGIN_PERCENT;
    *plan = (struct contest_plan){
        .pattern = flag_pattern(invocation), .bytes = YARDSTICK_BYTES, .seconds = 3};
    if (!flag_size(invocation, "size", &plan->bytes) ||
        !flag_number(invocation, "threads", 1, THREADS_MAX, &threads) ||
        !flag_number(invocation, "live", 0, LIVE_MAX, &plan->live) ||
        !flag_fraction(invocation, "seconds", 0.01, 3600, &plan->seconds) ||
        !flag_fraction(invocation, "margin", 0, 10000, &percent)) {
        return false;
    }
    judgement->path = flag_value(invocation, "baseline");
    judgement->margin = percent / 100;
    plan->threads = (uint32_t)threads;
    if (plan->pattern == PATTERN_MIXED && flag_given(invocation, "size")) {
        say_error("--pattern=mixed has its own sizes; leave out --size");
        return false;
    }
    return true;
}

/* ----------------------------------------------------------------- judgement */

/* False after one line on stderr: nothing to compare with is no good result. */
static bool judge(const struct contest *contest, const char *backend, struct judgement *judgement) {
    char key[RECORD_KEY_MAX];
    const struct entry *ours = &contest->entries[0];
    for (uint32_t i = 1; i < contest->entry_count; i++) {
        const struct entry *peer = &contest->entries[i];
        if (!ours->measured || !peer->measured || !peer->comparable) {
            continue;
        }
        double before = record_find(judgement->path, record_key(contest, backend, peer, key));
        if (before < 0) {
            return false;
        }
        if (before > 0) {
            struct verdict *verdict = &judgement->verdicts[judgement->verdict_count++];
            double ratio = ours->figures.median / peer->figures.median;
            *verdict = (struct verdict){peer->name, ratio, before,
                                        ratio > before * (1 + judgement->margin)};
            judgement->worse = judgement->worse || verdict->worse;
        }
    }
    if (judgement->verdict_count == 0) {
        say_error("%s has no line for this run; --save=%s adds it", judgement->path,
                  judgement->path);
        return false;
    }
    return true;
}

/* ---------------------------------------------------------------------- verb */

static void show_progress(void *user, uint64_t done, uint64_t total) {
    terminal_progress(user, done, total, "samples");
}

/* Ours has to be measured; a peer that is missing is told and no failure. */
static int finish(struct invocation *invocation, const struct contest *contest,
                  const struct target *target, struct judgement *judgement) {
    const char *save = flag_value(invocation, "save");
    bool ours = contest->entries[0].measured;
    if (ours && judgement->path != NULL && !judge(contest, target->info.backend, judgement)) {
        return EXIT_MISUSE;
    }
    if (!invocation->json) {
        scoreboard_print(&invocation->terminal, contest, target, judgement);
    } else if (!scoreboard_write(contest, target, judgement)) {
        return EXIT_MISUSE;
    }
    if (!ours) {
        say_error("vram could not be measured: %s", contest->entries[0].reason);
        return EXIT_MISUSE;
    }
    if (save != NULL && !record_save(save, contest, target->info.backend)) {
        return EXIT_MISUSE;
    }
    return judgement->worse ? EXIT_NO : EXIT_YES;
}

static int run_contest(struct invocation *invocation, struct contest *contest,
                       const struct target *target, struct judgement *judgement) {
    enter_all(contest, target);
    bool good = contest_run(contest, show_progress, &invocation->terminal);
    terminal_progress_end(&invocation->terminal);
    if (!good) {
        say_error("cannot start %u threads: out of memory or of threads", contest->plan.threads);
        return EXIT_MISUSE;
    }
    settle_measure(contest);
    return finish(invocation, contest, target, judgement);
}

static int run_alloc(struct invocation *invocation) {
    struct contest *contest = calloc(1, sizeof *contest);
    struct judgement judgement = {.path = NULL};
    struct target target;
    int code = EXIT_MISUSE;
    if (contest == NULL) {
        say_error("out of host memory");
    } else if (read_plan(invocation, &contest->plan, &judgement)) {
        code = target_open(invocation, &target);
        if (code == EXIT_YES) {
            code = run_contest(invocation, contest, &target, &judgement);
            target_close(&target);
        }
    }
    free(contest);
    return code;
}

static int run_grow(struct invocation *invocation) {
    uint64_t from = GROW_FROM_BYTES, to = 0;
    double seconds = 3;
    struct target target;
    if (!flag_size(invocation, "from", &from) || !flag_size(invocation, "to", &to) ||
        !flag_fraction(invocation, "seconds", 0.01, 3600, &seconds)) {
        return EXIT_MISUSE;
    }
    to = to == 0 && from <= UINT64_MAX / 2 ? 2 * from : to;
    if (from < 4 || to <= from) {
        say_error("--from=%llu --to=%llu: --to must be larger than --from, and --from at least 4",
                  (unsigned long long)from, (unsigned long long)to);
        return EXIT_MISUSE;
    }
    int code = target_open(invocation, &target);
    if (code == EXIT_YES) {
        code = bench_grow(invocation, &target, from, to, seconds);
        target_close(&target);
    }
    return code;
}

typedef int sized_fn(struct invocation *invocation, const struct target *target, uint64_t bytes,
                     double seconds);

static int run_sized(struct invocation *invocation, uint64_t bytes, sized_fn *bench) {
    double seconds = 3;
    struct target target;
    if (!flag_size(invocation, "size", &bytes) ||
        !flag_fraction(invocation, "seconds", 0.01, 3600, &seconds)) {
        return EXIT_MISUSE;
    }
    int code = target_open(invocation, &target);
    if (code == EXIT_YES) {
        code = bench(invocation, &target, bytes, seconds);
        target_close(&target);
    }
    return code;
}

static int run_launch(struct invocation *invocation) {
    return run_sized(invocation, LAUNCH_BYTES, bench_launch);
}

static int run_readback(struct invocation *invocation) {
    return run_sized(invocation, FRAME_BYTES, bench_readback);
}

static int run_track(struct invocation *invocation) {
    return run_sized(invocation, YARDSTICK_BYTES, bench_track);
}

/* Sizes here count rows, not bytes: the sides of the matrices, the vectors of the corpus. */
static int run_matmul(struct invocation *invocation) {
    uint64_t side = MATMUL_SIDE;
    if (!flag_size(invocation, "size", &side)) {
        return EXIT_MISUSE;
    }
    if (side < 1 || side > MATMUL_SIDE_MAX) {
        say_error("--size=%s: not a number of rows from 1 to 32768",
                  flag_value(invocation, "size"));
        return EXIT_MISUSE;
    }
    return run_sized(invocation, side, bench_matmul);
}

static int run_distance(struct invocation *invocation) {
    uint64_t vectors = DISTANCE_VECTORS;
    if (!flag_size(invocation, "size", &vectors)) {
        return EXIT_MISUSE;
    }
    if (vectors < DISTANCE_LEAST || vectors > DISTANCE_MOST) {
        say_error("--size=%s: not a number of vectors from 10 to 100000000",
                  flag_value(invocation, "size"));
        return EXIT_MISUSE;
    }
    return run_sized(invocation, vectors, bench_distance);
}

/* Sizes up to the largest, more of them than other benches have: a second for each part. */
static int run_copy(struct invocation *invocation) {
    uint64_t largest = 0, threads = 0;
    double seconds = 10;
    struct target target;
    if (!flag_size(invocation, "size", &largest) ||
        !flag_number(invocation, "threads", 1, THREADS_MAX, &threads) ||
        !flag_fraction(invocation, "seconds", 0.01, 3600, &seconds)) {
        return EXIT_MISUSE;
    }
    if (largest > 0 && largest < COPY_LEAST_BYTES) {
        say_error("--size=%s: the largest copy must have at least 4096 bytes",
                  flag_value(invocation, "size"));
        return EXIT_MISUSE;
    }
    int code = target_open(invocation, &target);
    if (code == EXIT_YES) {
        code = bench_copy(invocation, &target, largest, (uint32_t)threads, seconds);
        target_close(&target);
    }
    return code;
}

static int run_ring(struct invocation *invocation) {
    uint64_t bytes = RING_BYTES, messages = 0;
    struct target target;
    if (!flag_size(invocation, "size", &bytes) ||
        !flag_number(invocation, "messages", 1, RING_MOST_MESSAGES, &messages)) {
        return EXIT_MISUSE;
    }
    if (bytes > RING_MOST_BYTES) {
        say_error("--size=%s: a message has at most %d bytes", flag_value(invocation, "size"),
                  RING_MOST_BYTES);
        return EXIT_MISUSE;
    }
    int code = target_open(invocation, &target);
    if (code == EXIT_YES) {
        code = bench_ring(invocation, &target, bytes, messages);
        target_close(&target);
    }
    return code;
}

/* What can be measured, and the flags that only some of it takes. */
static const struct {
    const char *name;
    int (*run)(struct invocation *invocation);
    const char *flags;
} benches[] = {
    {"alloc", run_alloc, " pattern size threads live baseline margin save seconds "},
    {"grow", run_grow, " from to seconds "},
    {"launch", run_launch, " size seconds "},
    {"readback", run_readback, " size seconds "},
    {"track", run_track, " size seconds "},
    {"copy", run_copy, " size threads seconds "},
    {"ring", run_ring, " size messages "},
    {"matmul", run_matmul, " size seconds "},
    {"distance", run_distance, " size seconds "},
};

/* A flag that means nothing here is a mistake. */
static bool flags_fit(const struct invocation *invocation, const char *name, const char *accepted) {
    static const char *const special[] = {"pattern",  "size",     "threads", "live",
                                          "baseline", "margin",   "save",    "from",
                                          "to",       "messages", "seconds"};
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
        char word[24];
        snprintf(word, sizeof word, " %s ", special[i]);
        if (flag_given(invocation, special[i]) && strstr(accepted, word) == NULL) {
            say_error("`vram bench %s` takes no --%s", name, special[i]);
            return false;
        }
    }
    return true;
}

static int run(struct invocation *invocation) {
    const char *what = invocation->operand_count == 1 ? invocation->operands[0] : "";
    for (size_t i = 0; i < sizeof benches / sizeof benches[0]; i++) {
        if (strcmp(what, benches[i].name) == 0) {
            return flags_fit(invocation, what, benches[i].flags) ? benches[i].run(invocation)
                                                                 : EXIT_MISUSE;
        }
    }
    say_error("say what to measure: vram bench alloc, copy, distance, grow, launch, matmul, "
              "readback, ring or track");
    return EXIT_MISUSE;
}

static const struct flag flags[] = {
    {.name = "pattern",
     .letter = 'p',
     .value = "NAME",
     .help = "pair (the default), burst (1000, freed in random order), mixed (sizes of real "
             "programs) or handover (freed on another thread)",
     .choices = pattern_choices},
    {.name = "size",
     .letter = 's',
     .value = "SIZE",
     .help = "size of a block (1K; launch: 1M) or frame (readback: 64M); copy: of the largest copy "
             "(1G, without a GPU 64M); matmul: rows of a matrix (1024); distance: number of "
             "vectors (100000); ring: of a message (64)"},
    {.name = "messages",
     .letter = 'm',
     .value = "N",
     .help = "ring: messages in each direction (1000000, without a GPU 100000)"},
    {.name = "from", .value = "SIZE", .help = "grow: size of the buffer before (1G)"},
    {.name = "to", .value = "SIZE", .help = "grow: size of the buffer after (twice as much)"},
    {.name = "threads",
     .letter = 't',
     .value = "N",
     .help = "threads that allocate in parallel, each with its own queue (1); copy: threads for "
             "copies by the host (all, at most 8)"},
    {.name = "live",
     .letter = 'l',
     .value = "N",
     .help = "blocks that stay allocated during the run (0)"},
    FLAG_BACKEND,
    FLAG_DEVICE,
    {.name = "seconds", .value = "S", .help = "time for all samples together (3; copy: 10)"},
    {.name = "baseline",
     .value = "FILE",
     .help = "exit with 1 if a ratio is worse than in this file by more than the margin"},
    {.name = "margin", .value = "PERCENT", .help = "how much worse a ratio may be (15)"},
    {.name = "save", .value = "FILE", .help = "write the ratios of this run to this file"},
    FLAG_END,
};

const struct verb verb_bench = {
    .name = "bench",
    .summary = "Measure allocations and copies, compared with other allocators in the same run",
    .usage = "alloc|copy|distance|grow|launch|matmul|readback|ring|track [OPTION]...",
    .examples = "vram bench alloc                           # pairs of 1 KiB on the best device\n"
                "vram bench alloc -b host -s 64M            # of 64 MiB, in host memory\n"
                "vram bench alloc -p burst -t 4             # four threads, bursts of 1000\n"
                "vram bench alloc --save ratios.txt         # save the ratios to the peers\n"
                "vram bench alloc --baseline ratios.txt     # exit code 1 if they got worse\n"
                "vram bench alloc --json                    # for programs: vram.bench/1\n"
                "vram bench copy                            # copies, compared with the driver\n"
                "vram bench grow --from 64M --to 128M       # in place and by a copy\n"
                "vram bench launch                          # kernels on buffers of a pool\n"
                "vram bench readback                        # frames of 64 MiB, double-buffered\n"
                "vram bench matmul --size 2048              # matrix products\n"
                "vram bench distance --size 1000000         # the nearest of a million vectors\n"
                "vram bench ring                            # messages to a kernel and back\n"
                "vram bench track                           # the cost of tracking blocks\n",
    .flags = flags,
    .run = run,
    .operands = "alloc copy distance grow launch matmul readback ring track",
};

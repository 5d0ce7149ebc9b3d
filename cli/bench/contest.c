/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contest.c: see contest.h.
 *
 * Each entry is warmed up and its sample made long enough for the clock; then samples of all
 * entries take turns until the time is used up. A slow entry has fewer samples, spread over the
 * whole time.
 */
#include "bench/contest.h"
#include "bench/conveyor.h"
#include "bench/team.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLE_NS = 100000, /* goal for a sample; far above the clock's grain, below a time slice */
    SAMPLE_TOGETHER_NS = 300000, /* the same with several threads, whose starts differ */
    WARM_NS = 20000000,          /* an entry runs at least so long before it counts, */
    WARM_PAIRS = 40000,          /* and then so many pairs, */
    WARM_MOST_PART = 3,          /* or, where these take too long, for this part of the time */
    TURN_NS = 50000,             /* what waking the threads for a sample costs, roughly */
    PAIRS_MOST = 1 << 24,        /* in a sample */
    SAMPLES_MIN = 5,
    PRELUDE_PART = 16 /* of a sample runs before the clock starts */
};

/* A contest under way. */
struct stage {
    struct contest *contest;
    struct team *team;
    struct choice *scripts; /* SCRIPT_STEPS for each thread that allocates */
    struct entry *entry;    /* whose turn it is */
    uint64_t pairs;         /* of each thread, in this turn */
    bool frees_only;        /* begin: the workers that free in a handover */
};

static bool hands_over(const struct contest *contest) {
    return contest->plan.pattern == PATTERN_HANDOVER;
}

/* Threads that take part in an entry: in a handover as many again free. */
static uint32_t worker_count(const struct contest *contest, const struct entry *entry) {
    return hands_over(contest) ? 2 * entry->threads : entry->threads;
}

/* ------------------------------------------------------------------- scripts */

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Thousands in which every slot is there once, each in an order of its own, and sizes by chance. */
static void write_script(struct choice *script, uint64_t seed) {
    uint64_t random = seed;
    for (uint32_t i = 0; i < SCRIPT_STEPS; i++) {
        script[i].slot = (uint16_t)(i % BURST_BLOCKS);
        script[i].size = (uint16_t)(next_random(&random) % SIZE_ROWS);
        uint32_t begin = i / BURST_BLOCKS * BURST_BLOCKS;
        uint32_t other = begin + (uint32_t)(next_random(&random) % (i - begin + 1));
        uint16_t slot = script[i].slot;
        script[i].slot = script[other].slot;
        script[other].slot = slot;
    }
}

/* ------------------------------------------------------------------- workers */

static bool is_free_side(const struct worker *worker) {
    return worker->index >= worker->entry->threads;
}

static bool begin_task(void *user, uint32_t index) {
    const struct stage *stage = user;
    struct worker *worker = &stage->entry->workers[index];
    const struct allocator *allocator = stage->entry->allocator;
    if (is_free_side(worker) != stage->frees_only) {
        return true;
    }
    if (allocator->worker_begin != NULL && !allocator->worker_begin(worker)) {
        return false;
    }
    return worker->held == NULL || allocator->hold(worker);
}

/* The side that frees ends first: what it shares is the other side's. */
static bool end_task(void *user, uint32_t index) {
    const struct stage *stage = user;
    struct worker *worker = &stage->entry->workers[index];
    const struct allocator *allocator = stage->entry->allocator;
    if (is_free_side(worker) != stage->frees_only) {
        return true;
    }
    if (stage->frees_only) {
        worker->native = NULL;
    } else {
        allocator->sweep(worker);
    }
    if (allocator->worker_end != NULL) {
        allocator->worker_end(worker);
    }
    return true;
}

static void free_workers(const struct contest *contest, struct entry *entry) {
    for (uint32_t i = 0; entry->workers != NULL && i < worker_count(contest, entry); i++) {
        struct worker *worker = &entry->workers[i];
        free(worker->blocks);
        free(worker->held);
        if (i < entry->threads) { /* the others use the same belt */
            free(worker->belt);
        }
    }
    free(entry->workers);
    free(entry->samples);
    entry->workers = NULL;
    entry->samples = NULL;
}

static bool make_worker(const struct stage *stage, struct entry *entry, uint32_t index) {
    struct worker *worker = &entry->workers[index];
    bool first = index < entry->threads;
    worker->entry = entry;
    worker->bytes = entry->bytes;
    worker->pattern = stage->contest->plan.pattern;
    worker->index = index;
    worker->script = stage->scripts + (size_t)(index % entry->threads) * SCRIPT_STEPS;
    worker->blocks = calloc(BURST_BLOCKS, sizeof worker->blocks[0]);
    bool holds = index == 0 && entry->live > 0;
    worker->held = holds ? calloc(entry->live, sizeof worker->held[0]) : NULL;
    if (hands_over(stage->contest) && first) {
        worker->belt = aligned_alloc(CONVEYOR_LINE, sizeof *worker->belt);
        if (worker->belt != NULL) {
            memset(worker->belt, 0, sizeof *worker->belt);
        }
    } else if (!first) {
        worker->belt = entry->workers[index - entry->threads].belt;
    }
    return worker->blocks != NULL && (worker->held != NULL) == holds &&
           (worker->belt != NULL) == hands_over(stage->contest);
}

static bool make_workers(const struct stage *stage, struct entry *entry) {
    uint32_t count = worker_count(stage->contest, entry);
    entry->samples = calloc(SAMPLES_MAX, sizeof entry->samples[0]);
    entry->workers = calloc(count, sizeof entry->workers[0]);
    if (entry->samples == NULL || entry->workers == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!make_worker(stage, entry, i)) {
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------- samples */

/* A thread that has slept finds its caches cold: a part of the work is done before the clock
   runs. */
static bool prelude_task(void *user, uint32_t index) {
    const struct stage *stage = user;
    struct worker *worker = &stage->entry->workers[index];
    return worker->pattern == PATTERN_HANDOVER ||
           stage->entry->allocator->run(worker, stage->pairs / PRELUDE_PART);
}

static bool sample_task(void *user, uint32_t index) {
    const struct stage *stage = user;
    struct worker *worker = &stage->entry->workers[index];
    const struct allocator *allocator = stage->entry->allocator;
    return is_free_side(worker) ? allocator->drain(worker, stage->pairs)
                                : allocator->run(worker, stage->pairs);
}

/* An entry that failed is out; the first worker that knows why says so. */
static void drop(const struct contest *contest, struct entry *entry) {
    entry->measured = false;
    for (uint32_t i = 0; i < worker_count(contest, entry) && entry->reason[0] == 0; i++) {
        memcpy(entry->reason, entry->workers[i].reason, sizeof entry->reason);
    }
    if (entry->reason[0] == 0) {
        snprintf(entry->reason, sizeof entry->reason, "it failed");
    }
}

/* Everybody runs `pairs` pairs. 0 ns, and the entry is out, when one of them failed. */
static uint64_t take_turn(struct stage *stage, struct entry *entry, uint64_t pairs) {
    uint64_t ns = 0;
    stage->entry = entry;
    stage->pairs = pairs;
    if (!team_run(stage->team, worker_count(stage->contest, entry), prelude_task, sample_task,
                  stage, &ns)) {
        drop(stage->contest, entry);
        return 0;
    }
    return ns > 0 ? ns : 1;
}

/* The quickest of a few turns: whatever else ran on the machine meanwhile only made them longer. */
static uint64_t quickest_turn(struct stage *stage, struct entry *entry, uint64_t *total) {
    uint64_t least = UINT64_MAX;
    for (uint32_t turn = 0; turn < 3; turn++) {
        uint64_t ns = take_turn(stage, entry, entry->pairs);
        if (ns == 0) {
            return 0;
        }
        *total += ns;
        least = ns < least ? ns : least;
    }
    return least;
}

/* A cache that had to give its blocks away lets thousands pass before it keeps one again, however
   long they take: on a busy machine a warm-up by the clock alone ends too early. False when it
   failed. */
static bool run_long(struct stage *stage, struct entry *entry) {
    uint64_t most_ns = (uint64_t)(stage->contest->plan.seconds * 1e9 / WARM_MOST_PART);
    uint64_t done = 0, total = 0;
    for (uint64_t pairs = entry->pairs; done < WARM_PAIRS && total < most_ns; pairs *= 2) {
        uint64_t ns = take_turn(stage, entry, pairs);
        if (ns == 0) {
            return false;
        }
        done += pairs;
        total += ns;
    }
    return true;
}

/* Finds the number of pairs that makes a sample, and leaves the entry warm. Returns the sample's
   ns. The first turns tell what starting costs (threads must be woken): it does not count. */
static uint64_t warm_up(struct stage *stage, struct entry *entry) {
    uint64_t goal = worker_count(stage->contest, entry) > 1 ? SAMPLE_TOGETHER_NS : SAMPLE_NS;
    uint64_t total = 0, pairs = stage->contest->plan.pattern == PATTERN_BURST ? BURST_BLOCKS : 1;
    entry->pairs = pairs;
    uint64_t start = quickest_turn(stage, entry, &total), ns = start;
    while (ns > 0 && entry->pairs < PAIRS_MOST && ns < start + goal / 2) {
        entry->pairs *= 2;
        ns = quickest_turn(stage, entry, &total);
    }
    if (ns > 0 && entry->pairs == 2 * pairs && start >= goal / 2) {
        entry->pairs = pairs; /* one pair is a sample already */
    }
    while (ns > 0 && total < WARM_NS) {
        ns = quickest_turn(stage, entry, &total);
    }
    return ns > 0 && run_long(stage, entry) ? ns : 0;
}

static bool begin_entry(struct stage *stage, struct entry *entry) {
    uint64_t ns;
    stage->entry = entry;
    stage->frees_only = false;
    bool good =
        team_run(stage->team, worker_count(stage->contest, entry), NULL, begin_task, stage, &ns);
    if (good && hands_over(stage->contest)) {
        for (uint32_t i = 0; i < entry->threads; i++) {
            entry->workers[entry->threads + i].native = entry->workers[i].native;
        }
        stage->frees_only = true;
        good = team_run(stage->team, worker_count(stage->contest, entry), NULL, begin_task, stage,
                        &ns);
    }
    if (!good) {
        drop(stage->contest, entry);
    }
    return good;
}

static void end_entry(struct stage *stage, struct entry *entry) {
    uint64_t ns;
    stage->entry = entry;
    for (int turn = hands_over(stage->contest) ? 0 : 1; turn < 2; turn++) {
        stage->frees_only = turn == 0;
        team_run(stage->team, worker_count(stage->contest, entry), NULL, end_task, stage, &ns);
    }
}

static int compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void summarize(struct entry *entry) {
    double *samples = entry->samples;
    uint32_t last = entry->sample_count - 1;
    qsort(samples, entry->sample_count, sizeof samples[0], compare);
    entry->figures.median = samples[last / 2];
    entry->figures.p10 = samples[last / 10];
    entry->figures.p90 = samples[last - last / 10];
    entry->pairs_per_s = 1e9 * entry->threads / entry->figures.median;
}

/* --------------------------------------------------------------------- course */

/* How many samples each entry takes: its share of the time, none too few, none too many. */
static uint32_t set_goals(struct stage *stage, const uint64_t *sample_ns) {
    struct contest *contest = stage->contest;
    uint32_t measured = 0, most = 0;
    for (uint32_t i = 0; i < contest->entry_count; i++) {
        measured += contest->entries[i].measured;
    }
    for (uint32_t i = 0; i < contest->entry_count; i++) {
        struct entry *entry = &contest->entries[i];
        if (!entry->measured) {
            continue;
        }
        double share = contest->plan.seconds * 1e9 / measured, sample = (double)sample_ns[i];
        double goal = share / (sample + sample / PRELUDE_PART + TURN_NS);
        entry->sample_goal = goal < SAMPLES_MIN   ? SAMPLES_MIN
                             : goal > SAMPLES_MAX ? SAMPLES_MAX
                                                  : (uint32_t)goal;
        most = entry->sample_goal > most ? entry->sample_goal : most;
    }
    return most;
}

/* In round r of `rounds` an entry should have r / rounds of its samples. */
static void take_samples(struct stage *stage, uint32_t rounds, contest_progress_fn *progress,
                         void *user) {
    struct contest *contest = stage->contest;
    for (uint32_t round = 1; round <= rounds; round++) {
        for (uint32_t i = 0; i < contest->entry_count; i++) {
            struct entry *entry = &contest->entries[i];
            uint64_t due = (uint64_t)entry->sample_goal * round / rounds;
            if (!entry->measured || entry->sample_count >= due) {
                continue;
            }
            uint64_t ns = take_turn(stage, entry, entry->pairs);
            if (ns > 0) {
                entry->samples[entry->sample_count++] = (double)ns / (double)entry->pairs;
            }
        }
        if (round % 64 == 0 || round == rounds) {
            progress(user, round, rounds);
        }
    }
}

/* Driver calls of each entry while it was measured: minus what was there before. */
static void count_calls(struct contest *contest, bool before) {
    for (uint32_t i = 0; i < contest->entry_count; i++) {
        struct entry *entry = &contest->entries[i];
        if (entry->measured && entry->allocator->driver_calls != NULL) {
            vram_value earlier = entry->driver_calls;
            entry->driver_calls = entry->allocator->driver_calls(entry);
            if (!before) {
                entry->driver_calls.value -= earlier.value;
                entry->driver_calls.known &= earlier.known;
            }
        }
    }
}

static void hold_contest(struct stage *stage, contest_progress_fn *progress, void *user) {
    struct contest *contest = stage->contest;
    uint64_t sample_ns[ENTRIES_MAX] = {0};
    for (uint32_t i = 0; i < contest->entry_count; i++) {
        struct entry *entry = &contest->entries[i];
        entry->entered = entry->measured = entry->allocator->open(entry);
    }
    for (uint32_t i = 0; i < contest->entry_count; i++) {
        struct entry *entry = &contest->entries[i];
        if (entry->measured && begin_entry(stage, entry)) {
            sample_ns[i] = warm_up(stage, entry);
        }
    }
    uint32_t rounds = set_goals(stage, sample_ns);
    count_calls(contest, true);
    take_samples(stage, rounds, progress, user);
    count_calls(contest, false);
    for (uint32_t i = contest->entry_count; i-- > 0;) {
        struct entry *entry = &contest->entries[i];
        if (entry->measured) {
            summarize(entry);
        }
        if (entry->entered) {
            end_entry(stage, entry);
        }
        entry->allocator->close(entry);
    }
}

bool contest_run(struct contest *contest, contest_progress_fn *progress, void *user) {
    uint32_t threads = contest->plan.threads;
    struct stage stage = {.contest = contest};
    bool good = false;
    stage.scripts = calloc((size_t)threads * SCRIPT_STEPS, sizeof stage.scripts[0]);
    stage.team = team_create(hands_over(contest) ? 2 * threads : threads);
    if (stage.scripts == NULL || stage.team == NULL) {
        goto end;
    }
    for (uint32_t i = 0; i < threads; i++) {
        write_script(stage.scripts + (size_t)i * SCRIPT_STEPS, UINT64_C(88172645463325252) + i);
    }
    good = true;
    for (uint32_t i = 0; i < contest->entry_count; i++) {
        good = make_workers(&stage, &contest->entries[i]) && good;
    }
    if (good) {
        hold_contest(&stage, progress, user);
    }
end:
    team_destroy(stage.team);
    for (uint32_t i = 0; i < contest->entry_count; i++) {
        free_workers(contest, &contest->entries[i]);
    }
    free(stage.scripts);
    return good;
}

const struct entry *contest_best_peer(const struct contest *contest) {
    const struct entry *best = NULL;
    for (uint32_t i = 1; i < contest->entry_count; i++) {
        const struct entry *entry = &contest->entries[i];
        if (contest->entries[0].measured && entry->measured && entry->comparable &&
            (best == NULL || entry->figures.median < best->figures.median)) {
            best = entry;
        }
    }
    return best;
}

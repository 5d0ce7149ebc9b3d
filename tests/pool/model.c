/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.c: random operations on the block engine, against a naive model of memory (naive_memory.h).
 *
 *     build/tests/model --ops N --mode vmm|segments|alone|coarse --seed S [--check K] [--json]
 *
 * Several queues allocate, resize and free; stamps pass at random; several plans are open at once,
 * their steps executed one by one between other operations, failing at random, undone with failures
 * of their own; host memory runs out now and then; memory is trimmed. Every block handed out and
 * every step is judged by the model, and the engine's own validator runs every K operations. Exit
 * 0: nothing was wrong.
 */
#include "naive_memory.h"
#include "unit/record_fault.h"

#include "base/memory.h"
#include "base/stable.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIVE_MOST = 2048, PLANS_MOST = 4, UNDO_MOST = 65536 };

struct live {
    struct vr_block *block;
    uint32_t owner;
    uint64_t queue;
    bool growing; /* a plan for memory behind it is open */
};

/* A plan on its way: the steps done, and of an undo which ones failed. */
struct open_plan {
    struct vr_plan *plan;
    uint32_t done;
    bool undoing;
    struct vr_want want; /* bytes 0: a trim */
    uint32_t owner;      /* the block that grows; 0: none */
    bool *failed;
};

struct counts {
    uint64_t found, plans, commits, aborts, refused, frees, trims, sweeps, tidied, host_failures,
        lost_most;
    uint64_t grown, shrunk;
};

struct session {
    struct naive_memory memory;
    struct vr_space *space;
    struct vr_space_config config;
    struct live live[LIVE_MOST];
    uint32_t live_count, owners;
    struct open_plan open[PLANS_MOST];
    uint64_t random, now_ns;
    uint64_t appetite; /* bytes the program wants live, changing slowly */
    struct counts counts;
};

/* ----------------------------------------------------------------- host memory */

/* splitmix64 */
static uint64_t random_next(struct session *session) {
    uint64_t z = session->random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static uint64_t below(struct session *session, uint64_t bound) {
    return random_next(session) % bound;
}

/* Lets host memory run out now and then, until memory_end; whether it does. */
static bool memory_begin(struct session *session) {
    uint64_t kind = below(session, 32);
    vr_mem_fail_at(kind == 0 ? 1 + below(session, 4) : 0, false);
    if (kind == 1) {
        record_fail_from(1);
    } else {
        record_fail_at(kind == 2);
    }
    return kind <= 2;
}

static void memory_end(void) {
    vr_mem_fail_at(0, false);
    record_fail_at(0);
}

static bool segments(const struct session *session) {
    return session->config.mode == VR_SPACE_SEGMENTS;
}

/* ------------------------------------------------------------------- blocks */

static void hand_out(struct session *session, struct vr_block *block, uint64_t queue,
                     struct vr_stamp after) {
    struct live *live = &session->live[session->live_count++];
    *live = (struct live){block, ++session->owners, queue, false};
    vr_store(&block->state, VR_BLOCK_LIVE, VR_RELAXED);
    naive_give(&session->memory, live->owner, vr_load(&block->addr, VR_RELAXED),
               vr_load(&block->bytes, VR_RELAXED), queue, after);
}

/* Mostly on the queue it was allocated on; on another one after that has come past it, as a program
   would that waits; now and then with no work at all. */
static struct vr_stamp free_stamp(struct session *session, const struct live *live) {
    struct naive_memory *memory = &session->memory;
    uint64_t kind = below(session, 16), queue = live->queue;
    if (kind == 0) {
        queue = 1 + below(session, NAIVE_QUEUES);
    }
    if (kind == 1 && memory->passed[queue] == memory->issued[queue]) {
        return (struct vr_stamp){0};
    }
    return (struct vr_stamp){queue, ++memory->issued[queue]};
}

static void free_one(struct session *session) {
    if (session->live_count == 0) {
        return;
    }
    uint32_t at = (uint32_t)below(session, session->live_count);
    if (below(session, 4) == 0) {
        at = session->live_count - 1; /* the latest, as scopes do */
    }
    struct live live = session->live[at];
    if (live.growing) {
        return; /* the pool keeps it until the plan has ended */
    }
    session->live[at] = session->live[--session->live_count];
    live.block->stamp = free_stamp(session, &live);
    naive_take(&session->memory, live.owner, vr_load(&live.block->addr, VR_RELAXED),
               vr_load(&live.block->bytes, VR_RELAXED), live.block->stamp);
    vr_space_free(session->space, live.block);
    session->counts.frees++;
}

static struct live *find_owner(struct session *session, uint32_t owner) {
    struct live *live = session->live;
    while (live->owner != owner) {
        live++;
    }
    return live;
}

/* Memory was found behind a block: the two are one from now on. */
static void join(struct session *session, struct live *live, struct vr_block *tail) {
    uint64_t addr = vr_load(&tail->addr, VR_RELAXED), bytes = vr_load(&tail->bytes, VR_RELAXED);
    uint64_t end = vr_load(&live->block->addr, VR_RELAXED);
    end += vr_load(&live->block->bytes, VR_RELAXED);
    if (addr != end) {
        naive_blame(&session->memory, "a tail at %" PRIx64 ", the block ends at %" PRIx64, addr,
                    end);
    }
    naive_give(&session->memory, live->owner, addr, bytes, live->queue, (struct vr_stamp){0});
    vr_space_join(session->space, live->block, tail);
    session->counts.grown++;
}

/* Cuts a block short; what it loses is freed on its queue. */
static void shrink_one(struct session *session) {
    struct live *live = &session->live[below(session, session->live_count + 1)];
    uint64_t units = live < session->live + session->live_count
                         ? vr_load(&live->block->bytes, VR_RELAXED) / 512
                         : 0;
    struct vr_block *tail;
    if (units < 2 || live->growing) {
        return;
    }
    (void)memory_begin(session);
    vram_status status =
        vr_space_split(session->space, live->block, (1 + below(session, units - 1)) * 512, &tail);
    memory_end();
    if (status != VRAM_OK) {
        session->counts.host_failures++;
        return;
    }
    tail->stamp = free_stamp(session, live);
    naive_take(&session->memory, live->owner, vr_load(&tail->addr, VR_RELAXED),
               vr_load(&tail->bytes, VR_RELAXED), tail->stamp);
    vr_space_free(session->space, tail);
    session->counts.shrunk++;
}

static uint64_t random_bytes(struct session *session) {
    static const uint64_t common[] = {512, 4096, 40000, 65536, 200000, 1 << 20, 3 << 20};
    switch (below(session, 8)) {
    case 0:
        return 1 + below(session, 2048);
    case 1:
        return 1 + below(session, NAIVE_GRANULE);
    case 2:
        return 1 + below(session, 16 * NAIVE_GRANULE);
    case 3:
        return below(session, 64) == 0 ? 1 + below(session, 128 * NAIVE_GRANULE)
                                       : 1 + below(session, 40 * NAIVE_GRANULE);
    default: /* runs of a few sizes */
        return common[session->owners / 8 % (sizeof common / sizeof common[0])];
    }
}

static void check_answer(struct session *session, const struct vr_want *want,
                         const struct vr_block *block) {
    uint64_t addr = vr_load(&block->addr, VR_RELAXED), bytes = vr_load(&block->bytes, VR_RELAXED);
    uint64_t rounded = (want->bytes + 511) / 512 * 512;
    if (addr % (want->align ? want->align : 512) || bytes != rounded) {
        naive_blame(&session->memory,
                    "asked for %" PRIu64 " on a multiple of %" PRIu64 ", got %" PRIu64
                    " at %" PRIx64,
                    want->bytes, want->align, bytes, addr);
    }
    if (!session->config.direct || want->behind) {
        return;
    }
    const struct vr_piece *piece = vr_space_piece_at(session->space, addr);
    uint64_t whole = (bytes + NAIVE_GRANULE - 1) / NAIVE_GRANULE * NAIVE_GRANULE;
    if (!piece || piece->addr != addr || piece->bytes != whole) {
        naive_blame(&session->memory, "the block at %" PRIx64 " has no handle of its own", addr);
    }
}

/* ------------------------------------------------------------------- plans */

static struct open_plan *free_slot(struct session *session) {
    for (int i = 0; i < PLANS_MOST; i++) {
        if (!session->open[i].plan) {
            return &session->open[i];
        }
    }
    return NULL;
}

static void open_begin(struct session *session, struct open_plan *open, struct vr_plan *plan,
                       const struct vr_want *want) {
    if (plan->count > UNDO_MOST) {
        naive_blame(&session->memory, "a plan of %u steps", plan->count);
    }
    bool *failed = open->failed;
    *open = (struct open_plan){.plan = plan, .want = *want, .failed = failed};
    session->counts.plans++;
}

static void open_end(struct session *session, struct open_plan *open) {
    struct vr_plan *plan = open->plan;
    struct live *grows = open->owner ? find_owner(session, open->owner) : NULL;
    open->plan = NULL;
    if (grows) {
        grows->growing = false;
    }
    if (open->undoing) {
        vr_space_abort(session->space, plan, open->failed);
        session->counts.aborts++;
        return;
    }
    struct vr_block *block = vr_space_commit(session->space, plan);
    session->counts.commits++;
    if ((open->want.bytes != 0) != (block != NULL)) {
        naive_blame(&session->memory, "a commit and no block, or one for a trim");
    } else if (block) {
        check_answer(session, &open->want, block);
        if (grows) {
            join(session, grows, block);
        } else {
            hand_out(session, block, open->want.queue, (struct vr_stamp){0});
        }
    }
}

/* A step of an undo: fails now and then; what follows for the same piece is not tried. */
static void undo_step(struct session *session, struct open_plan *open, uint64_t odds) {
    struct vr_step *step = &open->plan->steps[open->done];
    bool fails = odds && below(session, odds) == 0;
    for (uint32_t i = 0; i < open->done; i++) {
        fails |= open->failed[i] && open->plan->steps[i].piece == step->piece;
    }
    open->failed[open->done] = fails || !naive_step(&session->memory, step, segments(session));
    open->done++;
}

/* One step of one plan; odds: 1 of how many fails, 0: none. */
static void open_step(struct session *session, struct open_plan *open, uint64_t odds) {
    if (open->done == open->plan->count) {
        open_end(session, open);
    } else if (open->undoing) {
        undo_step(session, open, odds);
    } else {
        struct vr_step *step = &open->plan->steps[open->done];
        bool fails = odds && below(session, odds) == 0;
        step->ns = below(session, 2) ? below(session, 100000) : 0;
        if (!fails && naive_step(&session->memory, step, segments(session))) {
            open->done++;
            return;
        }
        vr_space_undo(session->space, open->plan, open->done);
        open->undoing = true;
        open->done = 0;
    }
}

static void run_plans(struct session *session, uint64_t steps) {
    for (; steps > 0; steps--) {
        struct open_plan *open = &session->open[below(session, PLANS_MOST)];
        if (open->plan) {
            /* Handles that are lost stay lost: few enough of them for the run to go on. */
            struct vr_space_stats stats;
            vr_space_stats_get(session->space, &stats);
            uint64_t odds = open->undoing && stats.lost >= 8 ? 0 : open->undoing ? 16 : 40;
            open_step(session, open, odds);
        }
    }
}

static void finish_plans(struct session *session) {
    for (int i = 0; i < PLANS_MOST; i++) {
        while (session->open[i].plan) {
            open_step(session, &session->open[i], 0);
        }
    }
}

/* -------------------------------------------------------------- operations */

static void alloc_one(struct session *session) {
    struct open_plan *slot = free_slot(session);
    if (session->live_count + PLANS_MOST >= LIVE_MOST || !slot) {
        return;
    }
    struct vr_want want = {.bytes = random_bytes(session),
                           .queue = 1 + below(session, NAIVE_QUEUES),
                           .now_ns = session->now_ns};
    if (below(session, 8) == 0) {
        want.align = UINT64_C(512) << below(session, 8);
    }
    want.flags = below(session, 4) ? 0 : (uint32_t)below(session, 8);
    if (below(session, 8) == 0) { /* to grow later */
        want.bytes = (1 + below(session, 8)) * NAIVE_GRANULE;
        want.reserve = (1 + below(session, 32)) * NAIVE_GRANULE;
    }
    bool fail = memory_begin(session);
    struct vr_answer answer;
    vram_status status = vr_space_alloc(session->space, &want, &answer);
    memory_end();
    if (status == VRAM_OK && answer.block) {
        check_answer(session, &want, answer.block);
        hand_out(session, answer.block, want.queue, answer.after);
        session->counts.found++;
    } else if (status == VRAM_OK) {
        if (want.flags & VR_WANT_HELD) {
            naive_blame(&session->memory, "a plan for what had to be held");
        }
        open_begin(session, slot, answer.plan, &want);
    } else if (status == VRAM_ERR_HOST_MEMORY && fail) {
        session->counts.host_failures++;
    } else if (status == VRAM_ERR_HOST_MEMORY || status == VRAM_ERR_INVALID) {
        naive_blame(&session->memory, "an allocation failed with %d", status);
    } else {
        session->counts.refused++;
    }
}

static void grow_one(struct session *session) {
    struct open_plan *slot = free_slot(session);
    struct live *live = &session->live[below(session, session->live_count + 1)];
    if (live == session->live + session->live_count || live->growing || !slot) {
        return;
    }
    struct vr_want want = {.bytes = random_bytes(session),
                           .queue = live->queue,
                           .behind = live->block,
                           .now_ns = session->now_ns};
    if (below(session, 2)) {
        want.bytes = (1 + below(session, 8)) * NAIVE_GRANULE;
    }
    want.flags = below(session, 2) ? VR_WANT_GATHER : (uint32_t)below(session, 16);
    if (want.flags & VR_WANT_GATHER && below(session, 4) == 0) {
        want.flags |= VR_WANT_NO_GROWTH;
        want.grow_bytes = below(session, 2) ? UINT64_MAX : 4 * NAIVE_GRANULE;
    }
    bool fail = memory_begin(session);
    struct vr_answer answer;
    vram_status status = vr_space_alloc(session->space, &want, &answer);
    memory_end();
    if (status == VRAM_OK && answer.block) {
        check_answer(session, &want, answer.block);
        join(session, live, answer.block);
    } else if (status == VRAM_OK) {
        open_begin(session, slot, answer.plan, &want);
        slot->owner = live->owner;
        live->growing = true;
    } else if (status == VRAM_ERR_HOST_MEMORY && fail) {
        session->counts.host_failures++;
    } else if (status == VRAM_ERR_HOST_MEMORY || status == VRAM_ERR_INVALID) {
        naive_blame(&session->memory, "growing failed with %d", status);
    } else {
        session->counts.refused++;
    }
}

static void sweep(struct session *session, bool tidies) {
    struct open_plan *slot = free_slot(session);
    struct vr_plan *plan = NULL;
    (void)memory_begin(session);
    vram_status status = !slot    ? VRAM_OK
                         : tidies ? vr_space_tidy(session->space, &plan)
                                  : vr_space_sweep(session->space, &plan);
    memory_end();
    if (status == VRAM_OK && plan) {
        open_begin(session, slot, plan, &(struct vr_want){.bytes = 0});
        session->counts.sweeps += !tidies;
        session->counts.tidied += tidies;
    }
}

static void trim(struct session *session) {
    struct open_plan *slot = free_slot(session);
    struct vr_plan *plan = NULL;
    (void)memory_begin(session);
    if (slot &&
        vr_space_trim(session->space, below(session, 64) * NAIVE_GRANULE * 4, &plan) == VRAM_OK &&
        plan) {
        open_begin(session, slot, plan, &(struct vr_want){.bytes = 0});
        session->counts.trims++;
    }
    memory_end();
}

/* A queue comes some way: never further than what was stamped on it. */
static void pass_time(struct session *session) {
    uint64_t queue = 1 + below(session, NAIVE_QUEUES);
    struct naive_memory *memory = &session->memory;
    uint64_t way = memory->issued[queue] - memory->passed[queue];
    memory->passed[queue] += below(session, 2) ? way : below(session, way + 1);
    session->now_ns += below(session, 1000000);
}

static void operate(struct session *session) {
    struct vr_space_stats stats;
    vr_space_stats_get(session->space, &stats);
    bool hungry = stats.out_bytes < session->appetite;
    uint64_t kind = below(session, 1024);
    if (kind < 2) {
        session->appetite = below(session, (uint64_t)NAIVE_GRANULES * NAIVE_GRANULE / 2);
    } else if (kind < 4) {
        trim(session);
    } else if (kind < 20) {
        sweep(session, below(session, 2));
    } else if (kind < 100) {
        pass_time(session);
    } else if (kind < 140) {
        shrink_one(session);
    } else if (kind < (hungry ? 260u : 200u)) {
        grow_one(session);
    } else if (kind < 100 + (hungry ? 600u : 300u)) {
        alloc_one(session);
    } else {
        free_one(session);
    }
    run_plans(session, below(session, 16));
}

/* ---------------------------------------------------------------- judgement */

static void judge(struct session *session) {
    char text[200];
    struct vr_space_stats stats;
    if (!vr_space_check(session->space, text, sizeof text)) {
        naive_blame(&session->memory, "%s", text);
    }
    vr_space_stats_get(session->space, &stats);
    bool open = false;
    for (int i = 0; i < PLANS_MOST; i++) {
        open |= session->open[i].plan != NULL;
    }
    if (!open && stats.reserved_bytes != session->memory.held_bytes) {
        naive_blame(&session->memory,
                    "the engine holds %" PRIu64 " bytes, the driver gave %" PRIu64,
                    stats.reserved_bytes, session->memory.held_bytes);
    }
    uint64_t limit = session->config.limit_bytes;
    if (session->memory.held_bytes > limit) {
        naive_blame(&session->memory, "%" PRIu64 " bytes are held, the limit is %" PRIu64,
                    session->memory.held_bytes, limit);
    }
    session->counts.lost_most =
        stats.lost > session->counts.lost_most ? stats.lost : session->counts.lost_most;
}

/* Everything goes back: nothing but what was lost may remain. */
static void wind_up(struct session *session) {
    struct vr_plan *plan = NULL;
    struct vr_space_stats stats;
    finish_plans(session);
    while (session->live_count) {
        free_one(session);
    }
    memcpy(session->memory.passed, session->memory.issued, sizeof session->memory.passed);
    judge(session);
    sweep(session, false);
    finish_plans(session);
    vram_status status = vr_space_trim(session->space, 0, &plan);
    if (status == VRAM_OK && plan) {
        open_begin(session, free_slot(session), plan, &(struct vr_want){.bytes = 0});
    }
    finish_plans(session);
    judge(session);
    vr_space_stats_get(session->space, &stats);
    if (stats.reserved_bytes != stats.lost_bytes || stats.hole_bytes || stats.blocks) {
        naive_blame(&session->memory, "%" PRIu64 " bytes are left at the end, %" PRIu64 " lost",
                    stats.reserved_bytes, stats.lost_bytes);
    }
}

static bool session_begin(struct session *session, const char *name, uint64_t seed) {
    enum vr_space_mode mode = strcmp(name, "segments") == 0 ? VR_SPACE_SEGMENTS : VR_SPACE_VMM;
    session->random = seed;
    session->appetite = (uint64_t)NAIVE_GRANULES * NAIVE_GRANULE / 4;
    session->config = (struct vr_space_config){
        .mode = mode,
        .alias = mode == VR_SPACE_VMM && seed % 4 < 2 && strcmp(name, "alone") != 0,
        .direct = strcmp(name, "alone") == 0,
        .coarse = strcmp(name, "coarse") == 0,
        .base = NAIVE_BASE,
        .bytes = (uint64_t)NAIVE_GRANULES * NAIVE_GRANULE,
        .granule = NAIVE_GRANULE,
        .limit_bytes = (uint64_t)NAIVE_GRANULES * NAIVE_GRANULE / (seed % 2 ? 2 : 4),
        .largest_handle = 32 * NAIVE_GRANULE,
        .slack_ppm = 10000,
        .share_ppm = seed % 3 ? 20000 : 1000000,
        .credit_ns = 10000000,
        .passed = naive_passed,
        .user = &session->memory,
    };
    session->memory.alias = session->config.alias;
    for (int i = 0; i < PLANS_MOST; i++) {
        session->open[i].failed = calloc(UNDO_MOST, sizeof(bool));
        if (!session->open[i].failed) {
            return false;
        }
    }
    return vr_space_create(&session->config, &session->space) == VRAM_OK;
}

static void session_end(struct session *session) {
    vr_space_destroy(session->space);
    for (int i = 0; i < PLANS_MOST; i++) {
        free(session->open[i].failed);
    }
    if (vr_mem_live_blocks()) {
        naive_blame(&session->memory, "%" PRIu64 " pieces of host memory leaked",
                    vr_mem_live_blocks());
    }
}

static void report(const struct session *session, const char *mode, uint64_t ops, uint64_t seed,
                   bool json) {
    const struct counts *counts = &session->counts;
    const char *form =
        json ? "{\"mode\": \"%s\", \"seed\": %" PRIu64 ", \"ops\": %" PRIu64 ", \"found\": %" PRIu64
               ", \"plans\": %" PRIu64 ", \"commits\": %" PRIu64 ", \"aborts\": %" PRIu64
               ", \"refused\": %" PRIu64 ", \"host_failures\": %" PRIu64 ", \"trims\": %" PRIu64
               ", \"sweeps\": %" PRIu64 ", \"tidied\": %" PRIu64 ", \"grown\": %" PRIu64
               ", \"shrunk\": %" PRIu64 ", \"lost\": %" PRIu64 ", \"violations\": %" PRIu64 "}\n"
             : "model %s, seed %" PRIu64 ": %" PRIu64 " operations; %" PRIu64 " found, %" PRIu64
               " planned (%" PRIu64 " committed, %" PRIu64 " aborted), %" PRIu64
               " refused, host memory failed %" PRIu64 ", %" PRIu64 " trims, %" PRIu64
               " sweeps, %" PRIu64 " tidied, %" PRIu64 " grown, %" PRIu64 " shrunk, %" PRIu64
               " handles lost: %" PRIu64 " violations\n";
    printf(form, mode, seed, ops, counts->found, counts->plans, counts->commits, counts->aborts,
           counts->refused, counts->host_failures, counts->trims, counts->sweeps, counts->tidied,
           counts->grown, counts->shrunk, counts->lost_most, session->memory.violations);
}

int main(int count, char **words) {
    uint64_t ops = 200000, seed = 1, check = 64;
    const char *mode = "vmm";
    bool json = false;
    for (int i = 1; i < count; i++) {
        const char *value = i + 1 < count ? words[i + 1] : "";
        if (strcmp(words[i], "--json") == 0) {
            json = true;
            continue;
        }
        if (strcmp(words[i], "--ops") == 0) {
            ops = strtoull(value, NULL, 10);
        } else if (strcmp(words[i], "--seed") == 0) {
            seed = strtoull(value, NULL, 10);
        } else if (strcmp(words[i], "--check") == 0) {
            check = strtoull(value, NULL, 10);
        } else if (strcmp(words[i], "--mode") == 0) {
            mode = value;
        } else {
            ops = 0;
        }
        i++;
    }
    static const char modes[] = " vmm segments alone coarse ";
    char word[16];
    snprintf(word, sizeof word, " %s ", mode);
    if (ops == 0 || check == 0 || !strstr(modes, word)) {
        fprintf(stderr, "usage: model --ops N --mode vmm|segments|alone|coarse --seed S "
                        "[--check K] [--json]\n");
        return 2;
    }
    struct session *session = calloc(1, sizeof *session);
    if (!session || !session_begin(session, mode, seed)) {
        fprintf(stderr, "model: no memory\n");
        return 2;
    }
    uint64_t done = 0;
    for (; done < ops && !session->memory.violations; done++) {
        operate(session);
        if (done % check == 0) {
            judge(session);
        }
    }
    if (!session->memory.violations) {
        wind_up(session);
        session_end(session);
    }
    report(session, mode, done, seed, json);
    if (session->memory.violations) {
        fprintf(stderr, "model: operation %" PRIu64 ": %s\n", done, session->memory.first);
    }
    int result = session->memory.violations != 0;
    free(session);
    return result;
}

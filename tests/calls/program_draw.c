/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program_draw.c: draws programs. The table says what each step uses, changes and makes; the
 * numbers of a step are drawn without a look at what came before it.
 */
#include "calls/program.h"

#include <stdlib.h>
#include <string.h>

#define D       USE_device
#define Q       USE_queue
#define P       USE_pool
#define B       USE_block
#define U       USE_buffer
#define S       USE_scope
#define A       USE_async
#define ALONE   NEED_ALONE
#define FREE    NEED_FREE
#define FAULTS  (NEED_FAULTS | NEED_NOTHING)
#define SHARING (NEED_ALONE | NEED_SHARING)
#define QUEUE   NEED_QUEUE
#define LIVE    NEED_LIVE
#define NOTHING NEED_NOTHING

/* X(name, weight, uses, writes, makes, needs) */
#define KINDS(X)                                                                                   \
    X(none, 0, 0, 0, 0, NOTHING) /* what shrinking leaves */                                       \
    X(context_create, 2, 0, 0, 0, ALONE | NOTHING)                                                 \
    X(device_open, 3, 0, 0, D, 0)                                                                  \
    X(pool_create, 4, D, 0, P, 0)                                                                  \
    X(queue_create, 5, D, 0, Q, 0)                                                                 \
    X(alloc, 40, P | Q, 0, B, 0)                                                                   \
    X(alloc_with, 20, P | Q, 0, B, 0)                                                              \
    X(free, 45, Q, B, 0, 0)                                                                        \
    X(resize, 6, Q, B, 0, 0)                                                                       \
    X(use, 3, Q, B, 0, 0)                                                                          \
    X(pin, 3, 0, B, 0, ALONE)                                                                      \
    X(block_info, 8, B, 0, 0, 0)                                                                   \
    X(upload, 14, Q, B, 0, 0)                                                                      \
    X(download, 14, Q, B, 0, 0)                                                                    \
    X(copy, 8, Q | USE_from, B | USE_from, 0, 0)                                                   \
    X(fill, 6, Q, B, 0, 0)                                                                         \
    X(transfer_upload, 5, Q, B, A, 0)                                                              \
    X(transfer_download, 4, Q, B, 0, 0)                                                            \
    X(transfer_copy, 3, Q | USE_from, B | USE_from, A, 0)                                          \
    X(transfer_fill, 2, Q, B, 0, 0)                                                                \
    X(transfer_batch, 2, Q, B, 0, 0)                                                               \
    X(async_wait, 4, A, A, 0, LIVE)                                                                \
    X(async_poll, 2, A, A, 0, LIVE)                                                                \
    X(async_end, 2, 0, A, 0, LIVE)                                                                 \
    X(queue_wait, 8, Q, 0, 0, QUEUE)                                                               \
    X(queue_poll, 2, Q, 0, 0, QUEUE)                                                               \
    X(queue_destroy, 2, 0, Q, 0, QUEUE)                                                            \
    X(mark, 3, Q, USE_point, 0, QUEUE)                                                             \
    X(point, 3, USE_point, 0, 0, NOTHING)                                                          \
    X(after, 2, Q | USE_point, 0, 0, QUEUE)                                                        \
    X(buffer_create, 10, P | Q, 0, U, 0)                                                           \
    X(buffer_destroy, 8, 0, U, 0, 0)                                                               \
    X(buffer_info, 3, U, 0, 0, 0)                                                                  \
    X(span_upload, 7, Q, U, 0, LIVE)                                                               \
    X(span_download, 7, Q, U, 0, LIVE)                                                             \
    X(buffer_map, 4, Q, U, 0, LIVE)                                                                \
    X(buffer_unmap, 5, 0, U, 0, LIVE)                                                              \
    X(buffer_resize, 6, Q, U, 0, LIVE)                                                             \
    X(buffer_fit, 2, Q, U, 0, LIVE)                                                                \
    X(buffer_move, 12, Q, U, 0, LIVE)                                                              \
    X(scope_begin, 4, P | USE_parent, 0, S, 0)                                                     \
    X(scope_end, 4, 0, S, 0, 0)                                                                    \
    X(scope_alloc, 6, Q, S, B, 0)                                                                  \
    X(scope_free, 3, Q, S | B, 0, 0)                                                               \
    X(scope_take, 3, 0, S | B, 0, 0)                                                               \
    X(scope_give, 3, Q, S | B, 0, 0)                                                               \
    X(scope_buffer, 2, Q, S, U, 0)                                                                 \
    X(batch_create, 2, P | Q, 0, USE_batch, 0)                                                     \
    X(batch_add, 4, 0, USE_batch, U, 0)                                                            \
    X(batch_destroy, 2, 0, USE_batch, 0, 0)                                                        \
    X(named_create, 2, P | Q, 0, USE_named, 0)                                                     \
    X(named_add, 3, 0, USE_named, 0, 0)                                                            \
    X(named_ensure, 4, 0, USE_named, 0, 0)                                                         \
    X(named_remove, 2, 0, USE_named, 0, 0)                                                         \
    X(named_destroy, 1, 0, USE_named, 0, 0)                                                        \
    X(ring_create, 2, P, 0, USE_ring, 0)                                                           \
    X(ring_destroy, 2, 0, USE_ring, 0, 0)                                                          \
    X(ring_send, 6, USE_ring, 0, 0, 0)                                                             \
    X(ring_flush, 4, USE_ring, 0, 0, 0)                                                            \
    X(ring_fetch, 3, USE_ring, 0, 0, 0)                                                            \
    X(ring_receive, 2, USE_ring, 0, 0, 0)                                                          \
    X(ring_stop, 1, 0, USE_ring, 0, 0)                                                             \
    X(ring_look, 2, USE_ring, 0, 0, 0)                                                             \
    X(pool_destroy, 2, 0, P, 0, 0)                                                                 \
    X(pool_trim, 4, P, 0, 0, 0)                                                                    \
    X(pool_stats, 4, P, 0, 0, 0)                                                                   \
    X(pool_warm, 1, P, 0, 0, LIVE)                                                                 \
    X(doze, 1, 0, P, 0, ALONE | LIVE)                                                              \
    X(sleep, 3, 0, P, 0, FREE)                                                                     \
    X(wake, 4, 0, P, 0, FREE)                                                                      \
    X(seal, 2, 0, P, 0, FREE)                                                                      \
    X(unseal, 3, 0, P, 0, FREE)                                                                    \
    X(rebuild, 1, 0, P, 0, FREE | ALONE)                                                           \
    X(limits, 1, 0, P, 0, FREE)                                                                    \
    X(quota, 1, D, 0, 0, 0)                                                                        \
    X(option, 1, 0, 0, 0, ALONE | NOTHING)                                                         \
    X(share_export, 6, B, 0, USE_share, SHARING)                                                   \
    X(share_open, 2, USE_share, 0, USE_opened, SHARING | LIVE)                                     \
    X(share_close, 1, 0, USE_share, 0, SHARING)                                                    \
    X(opened_close, 1, 0, USE_opened, 0, SHARING)                                                  \
    X(share_read, 2, USE_opened | Q, 0, 0, SHARING | QUEUE | LIVE)                                 \
    X(memory_info, 2, D, 0, 0, 0)                                                                  \
    X(pinned, 2, D, 0, 0, 0)                                                                       \
    X(trim_all, 1, D, 0, 0, NOTHING)                                                               \
    X(set, 1, D, USE_set, 0, ALONE)                                                                \
    X(device_close, 1, 0, D, 0, 0)                                                                 \
    X(context_destroy, 1, 0, 0, 0, ALONE | NOTHING)                                                \
    X(fault, 12, 0, 0, 0, FAULTS)                                                                  \
    X(lie, 5, 0, 0, 0, FAULTS)                                                                     \
    X(malloc_fault, 12, 0, 0, 0, FAULTS)                                                           \
    X(fault_clear, 16, 0, 0, 0, FAULTS)                                                            \
    X(cancel, 2, P | Q, 0, 0, ALONE | LIVE)                                                        \
    X(trace_begin, 1, 0, 0, USE_trace, ALONE | NOTHING)                                            \
    X(trace_end, 1, 0, USE_trace, 0, ALONE)                                                        \
    X(fork_helper, 1, 0, 0, 0, SHARING | NOTHING)                                                  \
    X(second_copy, 2, P | Q, 0, 0, ALONE | QUEUE | LIVE)

#define DECLARE(name, weight, uses, writes, makes, needs) STEP_OF(name);
KINDS(DECLARE)

const struct step_kind kinds[] = {
#define ROW_OF(name, weight, uses, writes, makes, needs)                                           \
    {#name, step_##name, weight, uses, writes, makes, needs},
    KINDS(ROW_OF)};
const unsigned kind_count = sizeof kinds / sizeof *kinds;

STEP(none) {}

/* splitmix64's finalizer */
uint64_t mix(uint64_t x) {
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

static uint64_t draw(uint64_t *random) {
    return mix((*random)++);
}

/* Mostly small; now and then whole granules, and sizes that are copied in pieces. */
static uint64_t draw_bytes(uint64_t *random) {
    uint64_t choice = draw(random) % 64, value = draw(random);
    if (settings.large) {
        uint64_t part = value % 1024;
        return part * part * part * 3 + 512;
    }
    if (choice < 2) {
        return 0;
    }
    if (choice < 30) {
        return 1 + value % 2048;
    }
    if (choice < 56) {
        return 1 + value % 65536;
    }
    if (choice < 60) {
        return (1 + value % 16) * 4096;
    }
    if (choice < 63) {
        return 1 + value % (1 << 20);
    }
    return value % 2 ? (UINT64_C(1) << 20) * (1 + value % 6) : 1 + value % (UINT64_C(5) << 20);
}

static bool kind_fits(const struct step_kind *kind, unsigned threads) {
    return !(kind->needs & NEED_ALONE && threads > 1) &&
           !(kind->needs & NEED_FAULTS &&
             (!settings.faults || threads > 1 || strcmp(settings.backend, "sim") != 0)) &&
           !(kind->step == step_cancel && !settings.cancel);
}

/* How often a kind is drawn. Several threads are there to race with ends and trims. */
static uint32_t kind_weight(const struct step_kind *kind, unsigned threads) {
    bool ends = kind->step == step_queue_destroy || kind->step == step_device_close ||
                kind->step == step_trim_all || kind->step == step_pinned ||
                kind->step == step_ring_destroy || kind->step == step_pool_destroy ||
                kind->step == step_device_open || kind->step == step_queue_create ||
                kind->step == step_pool_create;
    if (!kind_fits(kind, threads)) {
        return 0;
    }
    return kind->weight * (threads > 1 && ends ? 4 : 1);
}

bool kind_is_wanted(const char *name) {
    const char *at = strstr(settings.kinds, name);
    size_t length = strlen(name);
    return !*settings.kinds || (at && (at == settings.kinds || at[-1] == ',') &&
                                (at[length] == 0 || at[length] == ','));
}

/* Half of the programs have about half of the kinds each: what remains comes together more often.
   Those that make something are always there. */
static bool kind_chosen(uint64_t seed, unsigned kind) {
    uint64_t choice = mix(seed ^ UINT64_C(0x6b696e6473));
    if (*settings.kinds) {
        return kind_is_wanted(kinds[kind].name);
    }
    return choice % 2 || kinds[kind].makes || mix(choice ^ kind) % 2;
}

static unsigned draw_kind(uint64_t *random, uint64_t seed, unsigned threads) {
    uint32_t sum = 0;
    for (unsigned i = 0; i < kind_count; i++) {
        sum += kind_chosen(seed, i) ? kind_weight(&kinds[i], threads) : 0;
    }
    uint32_t at = (uint32_t)(draw(random) % sum);
    for (unsigned i = 0;; i++) {
        uint32_t weight = kind_chosen(seed, i) ? kind_weight(&kinds[i], threads) : 0;
        if (at < weight) {
            return i;
        }
        at -= weight;
    }
}

/* The slots that a thread fills are its own. */
static void own_slots(struct op *op, unsigned threads) {
    /* Handles of work and points are data of the program, which no two threads use at once. */
    uint32_t makes = kinds[op->kind].makes | A | USE_point;
#define OWN_SLOT(name, slots, type, own, handle)                                                   \
    if (makes & USE_##name && (slots) >= threads) {                                                \
        op->name = (uint8_t)(op->name / threads * threads + op->thread);                           \
        op->name = op->name < (slots) ? op->name : op->thread;                                     \
    }
    OP_SLOTS(OWN_SLOT)
}

/* What is made from the free pool has slots of its own: whether it is there depends on the backend,
   and must not decide what happens to the others. */
static void portable_slots(struct op *op) {
    uint32_t uses = kinds[op->kind].uses | kinds[op->kind].writes;
    uint32_t makes = kinds[op->kind].makes;
    bool from_free = uses & P ? op->pool == FREE_POOL
                              : (uses & S && op->scope == SLOTS_scope - 1) ||
                                    (uses & USE_batch && op->batch == SLOTS_batch - 1);
    if (makes & B) {
        op->block = (uint8_t)(from_free ? FREE_BLOCKS + op->block % (SLOTS_block - FREE_BLOCKS)
                                        : op->block % FREE_BLOCKS);
    }
    if (makes & U) {
        op->buffer = (uint8_t)(from_free ? FREE_BUFFERS + op->buffer % (SLOTS_buffer - FREE_BUFFERS)
                                         : op->buffer % FREE_BUFFERS);
    }
    if (makes & S) {
        op->scope = (uint8_t)(from_free ? SLOTS_scope - 1 : op->scope % (SLOTS_scope - 1));
        op->parent = (uint8_t)(from_free ? SLOTS_scope - 1 : op->parent % (SLOTS_scope - 1));
    }
    op->batch = makes & USE_batch ? from_free : op->batch;
    op->named = makes & USE_named ? from_free : op->named;
    op->ring = makes & USE_ring ? from_free : op->ring;
    bool free_block = op->block >= FREE_BLOCKS;
    if (makes & A) {
        op->async = (uint8_t)(free_block ? 2 + op->async % 2 : op->async % 2);
    }
    if (uses & USE_from) {
        op->from = (uint8_t)(free_block ? FREE_BLOCKS + op->from % (SLOTS_block - FREE_BLOCKS)
                                        : op->from % FREE_BLOCKS);
    }
    if (uses & S && uses & B) {
        op->scope = (uint8_t)(free_block ? SLOTS_scope - 1 : op->scope % (SLOTS_scope - 1));
    }
    if (kinds[op->kind].step == step_buffer_move) {
        op->buffer = (uint8_t)(FREE_BUFFERS + op->buffer % (SLOTS_buffer - FREE_BUFFERS));
    }
}

/* Half of the slots are the same for all operations of a round, so that its threads meet. */
static void focus_slots(struct op *op, uint64_t *random, uint64_t focus) {
    uint64_t same = draw(random);
    unsigned field = 0;
#define FOCUS(name, count, type, own, handle)                                                      \
    if (same >> field & 1) {                                                                       \
        op->name = (uint8_t)(mix(focus + field) % (count));                                        \
    }                                                                                              \
    field++;
    OP_SLOTS(FOCUS)
}

static void op_draw(struct op *op, uint64_t *random, unsigned kind, unsigned threads,
                    uint64_t focus) {
    memset(op, 0, sizeof *op);
    op->kind = (uint8_t)kind;
    op->thread = (uint8_t)(draw(random) % threads);
    uint64_t slots[] = {draw(random), draw(random), draw(random)};
    unsigned field = 0;
#define DRAW(name, count, type, own, handle)                                                       \
    op->name = (uint8_t)((slots[field / 8] >> field % 8 * 8 & 255) % (count));                     \
    field++;
    OP_SLOTS(DRAW)
    op->choice = (uint32_t)draw(random);
    op->flags = (uint32_t)draw(random);
    op->bytes = draw_bytes(random);
    op->offset = draw(random) % 3 ? draw(random) % 4096 : 0;
    op->seed = draw(random);
    op->nth = draw(random) >> 8;
    /* Most work is that of one device. */
    op->device = op->device && op->choice % 4 == 0;
    if (threads > 1) {
        focus_slots(op, random, focus);
    }
    if (kinds[kind].needs & NEED_FREE) {
        op->pool = FREE_POOL;
    }
    if (threads > 1) {
        own_slots(op, threads);
    } else {
        portable_slots(op);
    }
}

static unsigned kind_of(step_fn *step) {
    unsigned i = 0;
    while (kinds[i].step != step) {
        i++;
    }
    return i;
}

static void start_draw(struct program *program, uint64_t *random, unsigned threads) {
    struct {
        step_fn *step;
        unsigned count;
    } start[] = {{step_option, 1},
                 {step_context_create, 1},
                 {step_trace_begin, mix(program->seed ^ UINT64_C(0x7472616365)) % 4 == 0},
                 {step_device_open, 1},
                 {step_pool_create, SLOTS_pool},
                 {step_queue_create, SLOTS_queue}};
    for (unsigned i = 0; i < sizeof start / sizeof *start; i++) {
        for (unsigned k = 0; k < start[i].count; k++) {
            struct op *op = &program->ops[program->count++];
            op_draw(op, random, kind_of(start[i].step), threads, 0);
            op->thread = 0;
            op->device = 0;
            op->pool = (uint8_t)k;
            op->queue = (uint8_t)k;
        }
        /* A round of its own for each. */
        while (threads > 1 && program->count % (threads * ROUND_OPS)) {
            struct op *op = &program->ops[program->count++];
            op_draw(op, random, kind_of(step_none), threads, 0);
        }
    }
}

void program_draw(struct program *program, uint64_t seed, uint32_t count, unsigned threads) {
    uint64_t random = mix(seed ^ UINT64_C(0x70726f6772616d73));
    program->seed = seed;
    program->threads = threads;
    program->count = 0;
    program->ops = calloc(count + 256, sizeof *program->ops);
    if (!program->ops) {
        abort();
    }
    start_draw(program, &random, threads);
    while (program->count < count) {
        uint64_t focus = mix(seed ^ program->count / (threads * ROUND_OPS));
        op_draw(&program->ops[program->count++], &random, draw_kind(&random, seed, threads),
                threads, focus);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program_round.c: runs a program: its steps, rounds and threads.
 *
 * In a round the model changes only by steps on what no other thread uses. Steps on contended
 * objects change nothing in it: they leave a note, and after the round one thread follows the
 * notes. So the model needs no lock, and calls are not ordered by it.
 */
#include "calls/program.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

vram_context *context;
#define DEFINE_OWN(handle, name) handle name[SLOTS_##name];
#define DEFINE_ALSO(handle, name)
#define DEFINE(name, slots, type, own, handle) DEFINE_##own(handle, name)
OP_SLOTS(DEFINE)
vram_point mark[THREADS_MAX];

struct object objects[TYPE_COUNT][32];
struct settings settings;
struct told *told;
_Atomic bool faults_on;
bool faults_were;

static struct run runs[THREADS_MAX];
static pthread_barrier_t barrier;

/* --------------------------------------------------------------------- objects */

bool object_under(const struct object *object, const struct object *ancestor) {
    for (; object; object = object->parent) {
        if (object == ancestor || (object->owner && object_under(object->owner, ancestor))) {
            return true;
        }
    }
    return false;
}

struct object *object_device(struct object *object) {
    while (object && object->type != TYPE_DEVICE) {
        object = object->parent;
    }
    return object;
}

/* Other threads may walk through the slot of a device that has ended: it keeps what they read. */
struct object *object_new(struct object *object, struct object *parent) {
    size_t kept = offsetof(struct object, state);
    memset((char *)object + kept, 0, sizeof *object - kept);
    if (object->parent != parent || object->owner) {
        object->parent = parent;
        object->owner = NULL;
    }
    object->state = STATE_LIVE;
    object->portable = !parent || parent->portable;
    return object;
}

/* Stands for a home queue that has ended: its slot may have another one. */
static struct object ended_queue = {.type = TYPE_QUEUE, .state = STATE_GONE};

static void end_now(struct object *object) {
    bool leaf = object->type == TYPE_BLOCK || object->type == TYPE_BUFFER;
    for (unsigned type = 0; !leaf && type < TYPE_COUNT; type++) {
        for (unsigned i = 0; i < 32; i++) {
            struct object *other = &objects[type][i];
            if (is_live(other) && other != object && object_under(other, object)) {
                other->state = STATE_GONE;
            }
        }
    }
    object->state = STATE_GONE;
    for (unsigned type = 0; !leaf && type < TYPE_COUNT; type++) {
        for (unsigned i = 0; i < 32; i++) {
            struct object *other = &objects[type][i];
            other->last = other->last && other->last->state == STATE_GONE ? NULL : other->last;
            if (other->home && other->home->type == TYPE_QUEUE &&
                other->home->state == STATE_GONE) {
                other->home = &ended_queue;
            }
        }
    }
}

void object_end(struct run *r, struct object *object) {
    if (settings.threads == 1) {
        end_now(object);
        return;
    }
    r->ends[r->end_count++] = object;
    r->ended = true;
}

uint64_t of_objects(struct object *const *list, unsigned count, bool *skip) {
    uint64_t allowed = OK;
    for (unsigned i = 0; i < count; i++) {
        if (list[i]->state == STATE_NONE || list[i]->unsure) {
            *skip = true;
        } else if (list[i]->state == STATE_GONE) {
            /* An address that has ended is no address; a handle that has ended is stale. */
            allowed = list[i]->type == TYPE_BLOCK ? INVALID : STALE;
            *skip = *skip || list[i]->type == TYPE_BLOCK;
        }
    }
    return allowed;
}

/* ----------------------------------------------------------------------- rounds */

struct object *op_object(const struct op *op, unsigned use) {
    switch (use) {
#define USE_CASE(name, slots, type, own, handle)                                                   \
    case USE_INDEX_##name:                                                                         \
        return op->name == 0 && TYPE_##type == TYPE_QUEUE ? NULL : OBJECT(type, op->name);
        OP_SLOTS(USE_CASE)
    default:
        return NULL;
    }
}

/* The objects of a step, those behind them included: the queue that used a block last, the owner.
 */
static unsigned objects_of(const struct op *op, uint32_t uses, struct object *list[64]) {
    unsigned count = 0;
    for (unsigned use = 0; use < USE_COUNT; use++) {
        struct object *object = uses >> use & 1 ? op_object(op, use) : NULL;
        struct object *const all[] = {object, object ? object->last : NULL,
                                      object ? object->home : NULL, object ? object->owner : NULL};
        for (unsigned i = 0; i < 4; i++) {
            if (all[i]) {
                list[count++] = all[i];
            }
        }
    }
    return count;
}

/* Whether what `op` uses meets what `other`, of another thread, changes, or the other way round. */
static bool ops_meet(const struct op *op, const struct op *other) {
    struct object *mine[64], *theirs[64];
    const struct step_kind *kind = &kinds[op->kind], *other_kind = &kinds[other->kind];
    unsigned uses = objects_of(op, kind->uses | kind->writes | kind->makes, mine);
    unsigned changes = objects_of(other, other_kind->writes | other_kind->makes, theirs);
    for (unsigned i = 0; i < uses; i++) {
        for (unsigned j = 0; j < changes; j++) {
            if (object_under(mine[i], theirs[j]) || object_under(theirs[j], mine[i])) {
                return true;
            }
        }
    }
    return false;
}

/* What the plan of a round says of each of its steps. */
static struct {
    bool loose; /* it meets one of another thread */
    bool skip;  /* it makes something in a slot that another thread uses */
} plans[THREADS_MAX * ROUND_OPS];

/* What lies under something looks at it, but for devices; see object_new. */
static bool makes_used(const struct op *op, const struct op *other) {
    struct object *mine[64], *theirs[64];
    const struct step_kind *kind = &kinds[other->kind];
    unsigned makes = objects_of(op, kinds[op->kind].makes, mine);
    unsigned uses = objects_of(other, kind->uses | kind->writes | kind->makes, theirs);
    for (unsigned i = 0; i < makes * uses; i++) {
        const struct object *one = mine[i / uses], *used = theirs[i % uses];
        if (one == used || (one->type != TYPE_DEVICE && object_under(used, one))) {
            return true;
        }
    }
    return false;
}

static bool names_block(const struct op *op, const struct object *one) {
    uint32_t uses = kinds[op->kind].uses | kinds[op->kind].writes;
    return one == OBJECT(BLOCK, op->block) || (uses & USE_from && one == OBJECT(BLOCK, op->from));
}

/* Whether both copy to or from one buffer or block, perhaps in host memory: nothing orders them. */
static bool both_copy(const struct op *op, const struct op *other) {
    const uint32_t buffers = USE_queue | USE_buffer, blocks = USE_queue | USE_block;
    uint32_t mine = kinds[op->kind].uses | kinds[op->kind].writes;
    uint32_t theirs = kinds[other->kind].uses | kinds[other->kind].writes;
    if ((mine & theirs & buffers) == buffers && op->buffer == other->buffer) {
        return true;
    }
    return (mine & theirs & blocks) == blocks &&
           (names_block(other, OBJECT(BLOCK, op->block)) ||
            (mine & USE_from && names_block(other, OBJECT(BLOCK, op->from))));
}

/* Whether the step submits work on a block that another thread frees at this time, or whose
   pool it ends, which does not know the queue yet. The library cannot order the two: that would be
   a mistake of the program. */
static bool uses_freed(const struct op *op, const struct op *other) {
    struct object *freed[64];
    struct object *const blocks[] = {OBJECT(BLOCK, op->block), OBJECT(BLOCK, op->from)};
    uint32_t uses = kinds[op->kind].uses | kinds[op->kind].writes;
    unsigned count = objects_of(other, kinds[other->kind].writes, freed);
    for (unsigned i = 0; uses & USE_queue && uses & USE_block && i < 2 * count; i++) {
        struct object *one = blocks[i % 2], *end = freed[i / 2];
        if (i % 2 && !(uses & USE_from)) {
            continue;
        }
        if (one == end || (end == one->parent && one->home != OBJECT(QUEUE, op->queue)) ||
            (one->owner && object_under(one->owner, end) && end->type == TYPE_SCOPE)) {
            return true;
        }
    }
    return false;
}

/* The same of a block that its own thread makes in this round, by `maker`: the model does not know
   its pool and its queue yet. */
static bool uses_made(const struct op *op, const struct op *maker, const struct op *other) {
    const uint32_t both = USE_queue | USE_block;
    struct object *freed[64];
    uint32_t uses = kinds[op->kind].uses | kinds[op->kind].writes;
    unsigned count = objects_of(other, kinds[other->kind].writes, freed);
    bool made = kinds[maker->kind].makes & USE_block && maker->queue != op->queue &&
                names_block(op, OBJECT(BLOCK, maker->block));
    for (unsigned i = 0; (uses & both) == both && made && i < count; i++) {
        if (object_under(OBJECT(POOL, maker->pool), freed[i])) {
            return true;
        }
    }
    return false;
}

static void round_plan(const struct program *program, uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; i++) {
        const struct op *op = &program->ops[i];
        bool loose = false, skip = false;
        for (uint32_t j = first; j < end; j++) {
            const struct op *other = &program->ops[j];
            if (other->thread % settings.threads == op->thread % settings.threads) {
                continue;
            }
            if (ops_meet(op, other) || ops_meet(other, op)) {
                loose = true;
                skip =
                    skip || makes_used(op, other) || uses_freed(op, other) || both_copy(op, other);
            }
            for (uint32_t k = first; k < i; k++) {
                skip = skip || uses_made(op, &program->ops[k], other);
            }
        }
        plans[i - first].loose = loose;
        plans[i - first].skip = skip;
    }
}

/* Whether all that the step uses has the same answers everywhere. */
static bool op_portable(const struct op *op) {
    struct object *list[64];
    unsigned count = objects_of(op, kinds[op->kind].uses | kinds[op->kind].writes, list);
    bool portable = settings.threads == 1;
    for (unsigned i = 0; i < count; i++) {
        portable = portable && list[i]->portable;
    }
    return portable;
}

/* A step without a call is over before it begins: one of its objects never was, or there is one
   already where it makes another. */
static void step_make(struct run *r, const struct op *drawn) {
    const struct step_kind *kind = &kinds[drawn->kind];
    uint32_t uses = kind->uses | kind->writes;
    uint32_t of = uses & ~(uint32_t)(USE_queue | USE_other | USE_point | USE_parent | USE_set);
    struct object *list[USE_COUNT] = {OBJECT(CONTEXT, 0)};
    struct op op = *drawn;
    unsigned count = 0;
    bool skip = kind->needs & NEED_QUEUE && !op.queue;
    of |= kind->needs & NEED_QUEUE ? USE_queue : 0;
    for (unsigned use = 0; use < USE_COUNT && !(kind->needs & NEED_NOTHING); use++) {
        struct object *object = op_object(&op, use);
        skip |= kind->makes >> use & 1 && use != USE_INDEX_async && object && is_live(object);
        if (of >> use & 1 && object) {
            list[count++] = object;
        }
    }
    r->may = OK;
    if (!(kind->needs & NEED_NOTHING)) {
        r->may = of_objects(list, count ? count : 1, &skip);
    }
    if (skip || (kind->needs & NEED_LIVE && !(r->may & OK))) {
        return;
    }
    if (uses & USE_queue && !(kind->needs & NEED_QUEUE)) {
        op.queue = (uint8_t)queue_for(&op, list[0]);
    }
    kind->step(r, &op);
}

static void speak_of(const struct op *op, uint32_t number) {
    uint32_t uses = kinds[op->kind].uses | kinds[op->kind].writes | kinds[op->kind].makes;
    printf("  step %u, %s: bytes %llu, offset %llu, choice %u, flags %u, nth %llu", number,
           kinds[op->kind].name, (unsigned long long)op->bytes, (unsigned long long)op->offset,
           op->choice, op->flags, (unsigned long long)op->nth);
#define SPEAK(name, slots, type, own, handle)                                                      \
    if (uses & USE_##name) {                                                                       \
        printf(", " #name " %u", op->name);                                                        \
    }
    OP_SLOTS(SPEAK)
    printf("\n");
}

/* The steps of one thread in a round. */
static void round_run(struct run *r, const struct program *program, uint32_t first, uint32_t end) {
    struct object *list[64];
    r->ended = r->loose = false;
    for (uint32_t i = first; i < end; i++) {
        const struct op *op = &program->ops[i];
        if (op->thread % settings.threads != r->thread || r->ended) {
            continue;
        }
        if (settings.threads > 1) {
            if (plans[i - first].skip) {
                continue;
            }
            r->loose = r->loose || plans[i - first].loose;
        } else {
            r->portable = op_portable(op);
        }
        r->op = op;
        told->op = i;
        if (told->speak && op->kind) {
            speak_of(op, i);
        }
        /* Only the free pool shares: it is left out where no device shares memory. */
        if (!(kinds[op->kind].needs & NEED_SHARING) || strcmp(settings.backend, "opencl") != 0) {
            step_make(r, op);
        }
        if (settings.threads == 1) {
            told->answers[i] = r->digest;
        } else if (r->loose) {
            unsigned count = objects_of(op, kinds[op->kind].writes, list);
            for (unsigned k = 0; k < count; k++) {
                r->touched[r->touched_count++] = list[k];
            }
        }
    }
}

struct thread_start {
    const struct program *program;
    struct run *run;
};

static void settle(struct run *r);
static void settle_rest(struct run *r);

static void rounds_run(struct run *r, const struct program *program) {
    uint32_t step = settings.threads == 1 ? program->count : settings.threads * ROUND_OPS;
    for (uint32_t first = 0; first < program->count; first += step) {
        uint32_t end = first + step < program->count ? first + step : program->count;
        if (settings.threads > 1) {
            if (r->thread == 0) {
                round_plan(program, first, end);
            }
            pthread_barrier_wait(&barrier);
        }
        round_run(r, program, first, end);
        if (settings.threads > 1) {
            pthread_barrier_wait(&barrier);
            if (r->thread == 0) {
                for (unsigned i = 0; i < settings.threads; i++) {
                    settle(&runs[i]);
                }
                for (unsigned i = 0; i < settings.threads; i++) {
                    settle_rest(&runs[i]);
                }
            }
        }
        told->beats++;
    }
}

static void *thread_run(void *user) {
    struct thread_start *start = user;
    rounds_run(start->run, start->program);
    return NULL;
}

/* After a round: what ended, and what is no longer known. */
static void settle(struct run *r) {
    for (unsigned i = 0; i < r->end_count; i++) {
        struct object *ended = r->ends[i];
        end_now(ended);
        for (unsigned t = 0; t < settings.threads; t++) {
            for (unsigned k = runs[t].unsure_count; k-- > 0;) { /* it is known to be gone */
                if (runs[t].unsures[k] == ended) {
                    runs[t].unsures[k] = runs[t].unsures[--runs[t].unsure_count];
                }
            }
            for (unsigned k = 0; k < PENDING_MAX; k++) {
                struct object *of = runs[t].pending[k].queue;
                if (of && of->state == STATE_GONE) {
                    pending_finish(&runs[t], &runs[t].pending[k]);
                }
            }
        }
    }
}

/* What is no longer known, once all ends are. */
static void settle_rest(struct run *r) {
    for (unsigned i = 0; i < r->touched_count; i++) {
        struct object *touched = r->touched[i];
        touched->contents.count = 0;
        if (touched->type == TYPE_POOL) { /* it may sleep or be limited, or not */
            touched->sleeping = 3;
            touched->stopped = false;
            touched->count = 1;
            contents_forget(touched);
        }
    }
    for (unsigned i = 0; i < r->unsure_count; i++) {
        struct object *one = r->unsures[i]; /* it has left its owner, and is nobody's or gone */
        one->unsure = true;
        one->state = STATE_LIVE;
        one->owner = NULL;
    }
    r->end_count = r->touched_count = r->unsure_count = 0;
}

/* ------------------------------------------------------------------------- end */

static void world_clear(void) {
    memset(objects, 0, sizeof objects);
    for (unsigned type = 0; type < TYPE_COUNT; type++) {
        for (unsigned i = 0; i < 32; i++) {
            objects[type][i].type = (enum type)type;
            objects[type][i].portable = true;
        }
    }
    ended_queue.portable = true;
    memset(runs, 0, sizeof runs);
    memset(block, 0, sizeof block);
    memset(async, 0, sizeof async);
    memset(point, 0, sizeof point);
    faults_on = faults_were = false;
}

void program_run(const struct program *program) {
    pthread_t threads[THREADS_MAX];
    struct thread_start starts[THREADS_MAX];
    world_clear();
    told->seed = program->seed;
    if (settings.threads > 1) {
        pthread_barrier_init(&barrier, NULL, settings.threads);
    }
    for (unsigned i = 0; i < settings.threads; i++) {
        runs[i].thread = i;
        starts[i] = (struct thread_start){program, &runs[i]};
        if (i && pthread_create(&threads[i], NULL, thread_run, &starts[i]) != 0) {
            abort();
        }
    }
    thread_run(&starts[0]);
    for (unsigned i = 1; i < settings.threads; i++) {
        pthread_join(threads[i], NULL);
    }
    for (unsigned i = 1; i < settings.threads; i++) {
        for (unsigned k = 0; k < PENDING_MAX; k++) {
            if (runs[i].pending[k].queue) {
                vram_queue_wait(queue[SLOT_OF(runs[i].pending[k].queue)], VRAM_TIMEOUT_DEFAULT);
                pending_finish(&runs[i], &runs[i].pending[k]);
            }
        }
    }
    program_check_end(&runs[0]);
    uint64_t calls = 0;
    for (unsigned i = 0; i < settings.threads; i++) {
        calls += runs[i].calls;
    }
    told->digest = mix(told->digest ^ runs[0].digest);
    told->calls += calls;
    told->programs++;
}

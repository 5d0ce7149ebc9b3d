/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program.h: programs over the public API that a seed draws, and the model that judges them.
 *
 * A program is a list of steps (program_draw.c). A step is plain numbers: a kind, slots of objects,
 * sizes. It means something whatever came before it, so any part of a program is a program and a
 * failing one can be cut down. Running a step (steps_*.c) makes a few public calls on the objects
 * in its slots; DO checks the status of each against those that the headers allow in the model's
 * state.
 *
 * Several threads run in rounds (program_round.c): between two barriers each has a few steps. What
 * two threads use in a round, and one of them changes, is contended there: every status of a race
 * is allowed, and the model learns what became of it after the round.
 */
#ifndef TEST_PROGRAM_H
#define TEST_PROGRAM_H

#include "calls/calls.h"
#include "vram/vram.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* ---------------------------------------------------------------------- steps */

/* The slots of a step: X(name, slots, type of its objects, OWN, type of its handles), or ALSO for a
   second slot of the same objects. Slot 0 of a queue is always NULL. */
#define OP_SLOTS(X)                                                                                \
    X(device, 2, DEVICE, OWN, vram_device *)                                                       \
    X(queue, 5, QUEUE, OWN, vram_queue *)                                                          \
    X(other, 5, QUEUE, ALSO, )                                                                     \
    X(pool, 4, POOL, OWN, vram_pool *)                                                             \
    X(block, 24, BLOCK, OWN, vram_addr)                                                            \
    X(from, 24, BLOCK, ALSO, )                                                                     \
    X(buffer, 10, BUFFER, OWN, vram_buffer *)                                                      \
    X(scope, 3, SCOPE, OWN, vram_scope *)                                                          \
    X(parent, 3, SCOPE, ALSO, )                                                                    \
    X(batch, 2, BATCH, OWN, vram_batch *)                                                          \
    X(named, 2, NAMED, OWN, vram_named *)                                                          \
    X(ring, 2, RING, OWN, vram_ring *)                                                             \
    X(share, 3, SHARE, OWN, vram_share *)                                                          \
    X(opened, 3, OPENED, OWN, vram_share *)                                                        \
    X(async, 4, ASYNC, OWN, vram_async)                                                            \
    X(point, 4, POINT, OWN, vram_point)                                                            \
    X(set, 1, SET, OWN, vram_stream_set *)                                                         \
    X(trace, 1, TRACE, OWN, vram_trace *)

#define SLOT_FIELD(name, slots, type, own, handle)  uint8_t name;
#define SLOT_COUNT(name, slots, type, own, handle)  SLOTS_##name = (slots),
#define SLOT_INDEX(name, slots, type, own, handle)  USE_INDEX_##name,
#define SLOT_BIT(name, slots, type, own, handle)    USE_##name = 1 << USE_INDEX_##name,
#define SLOT_TYPE(name, slots, type, own, handle)   TYPE_##own(type)
#define SLOT_HANDLE(name, slots, type, own, handle) HANDLE_##own(handle, name)
#define TYPE_OWN(type)                              TYPE_##type,
#define TYPE_ALSO(type)
#define HANDLE_OWN(handle, name) extern handle name[SLOTS_##name];
#define HANDLE_ALSO(handle, name)

struct op {
    OP_SLOTS(SLOT_FIELD)
    uint8_t kind, thread;
    uint32_t choice, flags;
    uint64_t bytes, offset, seed, nth;
};

enum {
    OP_SLOTS(SLOT_COUNT) THREADS_MAX = 8,
    ROUND_OPS = 3,    /* steps of a thread between two barriers */
    FREE_POOL = 3,    /* the pool of which every flag, limit and state is drawn; see `portable` */
    FREE_BLOCKS = 16, /* slots from here on are for what is made from it, with one thread */
    FREE_BUFFERS = 6, /* the same */
    PENDING_MAX = 24, /* copies of a thread under way */
    EXTENTS_MAX = 6,  /* known parts of an object's contents */
    OPS_MAX = 1 << 16 /* steps of a program */
};

enum use_index { OP_SLOTS(SLOT_INDEX) USE_COUNT };
enum use_bit { OP_SLOTS(SLOT_BIT) };

enum need_bit {
    NEED_ALONE = 1,   /* no other thread */
    NEED_FREE = 2,    /* the free pool */
    NEED_FAULTS = 4,  /* only where faults are drawn */
    NEED_SHARING = 8, /* a device that shares memory */
    NEED_QUEUE = 16,  /* its queue is one of its objects; else only work goes there, or NULL */
    NEED_LIVE = 32,   /* makes no call on what has ended */
    NEED_NOTHING = 64 /* looks at its objects itself */
};

/* The handles; a step's slots are places in them. */
extern vram_context *context;
OP_SLOTS(SLOT_HANDLE)
extern vram_point mark[THREADS_MAX];

/* ---------------------------------------------------------------------- model */

enum type { TYPE_CONTEXT, OP_SLOTS(SLOT_TYPE) TYPE_COUNT };

/* A known part of an object's contents: bytes `at` and up of the pattern `seed`. */
struct extent {
    uint64_t offset, bytes, seed, at;
};

struct contents {
    unsigned count;
    struct extent extents[EXTENTS_MAX];
};

enum state { STATE_NONE, STATE_LIVE, STATE_GONE };

struct object {
    enum type type;
    struct object *parent; /* it ends with it */
    struct object *owner;  /* a scope, batch or manager that ends it; NULL: none */
    enum state state;      /* from here on new for each object of a slot */
    struct object *home;   /* a buffer's home queue, an async's or a point's queue */
    struct object *last;   /* the queue whose work used it last; NULL: none is under way */
    bool portable;         /* its answers are the same on every backend and in every mode */
    bool mapped, stopped;  /* buffer; ring, and a pool that sleeps as a whole */
    bool lost;             /* contents, in a sleep; a ring is damaged then */
    bool traced;           /* a pool that began in the trace that is written */
    bool unsure;           /* a race has left it, and only its end is certain */
    uint64_t bytes;        /* requested, or in use */
    uint64_t capacity;     /* of a growing buffer; messages of a ring */
    uint64_t count;        /* pins, messages that were sent, things that it owns; a pool's limit */
    uint32_t flags, kind;
    uint32_t sleeping; /* pools: 1 asleep, 2 sealed or slept in part; blocks under such are left */
    struct contents contents;
};

extern struct object objects[TYPE_COUNT][32];
#define OBJECT(type, slot) (&objects[TYPE_##type][slot])
#define SLOT_OF(object)    ((unsigned)((object)-objects[(object)->type]))

/* A copy under way, with the host memory that it uses. */
struct pending {
    struct object *queue; /* NULL: this entry is free */
    unsigned char *host;
    uint64_t bytes, offset;
    enum { PENDING_UPLOAD, PENDING_DOWNLOAD, PENDING_FAILED } what;
    struct contents expected;
};

struct run {
    unsigned thread;
    bool loose;    /* the step uses something contended */
    bool portable; /* its answers go into the digest */
    bool strict;   /* the next call may not fail, although faults are planned */
    bool ended;    /* an end was made: the thread leaves the rest of the round alone */
    uint64_t may;  /* statuses of the step's calls: OK, or what its objects that ended make of it */
    uint64_t calls, digest;
    const struct op *op;
    const char *call; /* the text of the call that runs */
    uint64_t began_ns;
    struct pending pending[PENDING_MAX];
    /* what the model learns after the round */
    struct object *ends[ROUND_OPS * 4], *touched[ROUND_OPS * 64], *unsures[ROUND_OPS * 4];
    unsigned end_count, touched_count, unsure_count;
};

/* What a process is told to do. */
struct settings {
    const char *backend; /* "host", "sim", "opencl" */
    const char *mode;    /* "vmm", "segments", "off" */
    const char *second;  /* libvram.so, a second copy of the library; NULL: none */
    const char *kinds;   /* names with commas: draw these only; "": all */
    unsigned threads;
    unsigned seconds; /* no call takes longer; the option wait_timeout is two more */
    uint32_t ops;     /* of a program */
    bool faults, delays, cancel, fresh;
    bool large; /* blocks of gigabytes on a device of 6 GiB, of which three quarters are used */
};
extern struct settings settings;

/* What it says to its parent: shared memory. */
struct told {
    _Atomic uint64_t seed; /* of the program that runs */
    _Atomic uint64_t calls, programs, beats;
    uint64_t digest;     /* over all programs so far */
    _Atomic uint32_t op; /* that failed */
    char failure[2000];
    bool speak;                /* each call is printed */
    uint64_t answers[OPS_MAX]; /* digest after each step, of one program */
};
extern struct told *told;

/* -------------------------------------------------------------------- program */

struct program {
    uint64_t seed;
    unsigned threads;
    uint32_t count;
    struct op *ops;
};

/* What a step is; program_draw.c has the table. */
typedef void step_fn(struct run *r, struct op *op);
#define MAYBE_UNUSED  __attribute__((unused))
#define STEP_OF(name) void step_##name(MAYBE_UNUSED struct run *r, MAYBE_UNUSED struct op *op)
#define STEP(name)                                                                                 \
    STEP_OF(name);                                                                                 \
    STEP_OF(name)
struct step_kind {
    const char *name;
    step_fn *step;
    uint32_t weight; /* how often it is drawn; 0: only by the start of a program */
    uint32_t uses;   /* of use_bit: slots that it looks at */
    uint32_t writes; /* of these, those that it changes */
    uint32_t makes;  /* slots that it fills */
    uint32_t needs;  /* of need_bit */
};
extern const struct step_kind kinds[];
extern const unsigned kind_count;

uint64_t mix(uint64_t x);
bool kind_is_wanted(const char *name);
void program_draw(struct program *program, uint64_t seed, uint32_t count, unsigned threads);
struct object *op_object(const struct op *op, unsigned use_index);
/* Runs it and ends everything: exits the process at the first finding. */
void program_run(const struct program *program);

/* ------------------------------------------------------------------ judgement */

#define BIT(status) (UINT64_C(1) << -(status) % 64)
#define OK          BIT(VRAM_OK)
#define STALE       BIT(VRAM_ERR_STALE)
#define INVALID     BIT(VRAM_ERR_INVALID)
#define BUSY        BIT(VRAM_ERR_BUSY)
#define UNSUPPORTED BIT(VRAM_ERR_UNSUPPORTED)
#define NOT_READY   BIT(VRAM_ERR_NOT_READY)
#define CORRUPT     BIT(VRAM_ERR_CORRUPT)
#define LIMIT       BIT(VRAM_ERR_LIMIT)
#define SHUTDOWN    BIT(VRAM_ERR_SHUTDOWN)
#define EXHAUSTED                                                                                  \
    (LIMIT | BIT(VRAM_ERR_HOST_MEMORY) | BIT(VRAM_ERR_DEVICE_MEMORY) | BIT(VRAM_ERR_FRAGMENTED))
/* What a call may return whose object another thread ends or changes. */
#define RACED (OK | STALE | INVALID | BUSY | UNSUPPORTED | NOT_READY | SHUTDOWN)
/* What it may return while the driver or host memory is made to fail. */
#define FAULTED                                                                                    \
    (OK | EXHAUSTED | INVALID | UNSUPPORTED | CORRUPT | NOT_READY | BUSY | BIT(VRAM_ERR_TIMEOUT) | \
     BIT(VRAM_ERR_BACKEND) | BIT(VRAM_ERR_IO))
/* The same of pools, while other threads put them to sleep. */
#define CROWDED (settings.threads > 1 ? OK | BUSY | INVALID | UNSUPPORTED | EXHAUSTED : 0)

void call_begin(struct run *r, const char *text);
vram_status call_end(struct run *r, uint64_t allowed, vram_status status);
/* Makes a call; `allowed` are its statuses in the model's state. */
#define DO(allowed, ...) (call_begin(r, #__VA_ARGS__), call_end(r, allowed, (__VA_ARGS__)))
/* The same, of which the digest hears nothing. */
#define QUIETLY(allowed, ...) (r->portable = false, DO(allowed, __VA_ARGS__))
__attribute__((format(printf, 2, 3), noreturn)) void fail(struct run *r, const char *format, ...);
#define EXPECT(condition, ...)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fail(r, __VA_ARGS__);                                                                  \
        }                                                                                          \
    } while (0)
/* A number is what the model has. */
void expect_number(struct run *r, const char *what, uint64_t expected, uint64_t found);
/* Puts a number into the digest. */
void answer(struct run *r, uint64_t number);

/* -------------------------------------------------------------------- objects */

/* Writes a new object into the model. */
struct object *object_new(struct object *object, struct object *parent);
/* An end was made, of the object and of all below it and owned by it. */
void object_end(struct run *r, struct object *object);
/* What the calls on these may return: OK, or STALE if one has ended. `skip` is set if one never
   was. */
uint64_t of_objects(struct object *const *list, unsigned count, bool *skip);
bool object_under(const struct object *object, const struct object *ancestor);
struct object *object_device(struct object *object);
extern _Atomic bool faults_on; /* a fault is planned, or was a moment ago */
extern bool faults_were;       /* in this program */

static inline bool is_live(const struct object *object) {
    return object->state == STATE_LIVE;
}

/* ------------------------------------------------------------------- contents */

unsigned char *pattern(uint64_t seed, uint64_t at, uint64_t bytes);
uint64_t fill_seed(uint32_t value, uint32_t width);
void contents_write(struct contents *contents, uint64_t offset, struct extent extent);
void contents_copy(struct contents *to, const struct contents *from, uint64_t offset,
                   uint64_t bytes);
void contents_cut(struct contents *contents, uint64_t bytes);
/* The first byte that differs from what is known, or UINT64_MAX. */
uint64_t contents_check(const struct contents *contents, uint64_t offset, const unsigned char *data,
                        uint64_t bytes);

/* Makes the queue in `slot` wait for the work that uses the object. False: not possible, use it
   not. */
bool order_on(struct run *r, struct object *object, unsigned slot);
/* Host memory for a copy of op->bytes from or to op->offset on the queue: the step's pattern, or
   scribble for a download. NULL: none. */
struct pending *pending_new(struct run *r, const struct op *op, unsigned queue_slot, bool upload);
/* The call has failed: the program uses the memory for something else. */
void pending_fail(struct run *r, struct pending *pending, bool read_back);
void pending_finish(struct run *r, struct pending *pending);
/* The queue has completed its work, or has ended. */
void queue_passed(struct run *r, struct object *queue);
/* A thread waits for the queue: another round knows nothing of its work. */
void queue_finish(struct run *r, unsigned slot);

/* ------------------------------------------------------------- between the steps */

STEP_OF(free);
STEP_OF(fault_clear);
STEP_OF(trace_end);

/* Ends all that is left, and looks at what must be left then. */
void program_check_end(struct run *r);
/* All but pools and devices. */
void steps_end(struct run *r);
/* Host memory of the library can be made to run out. Before the first context. */
void faults_install(void);
void faults_clear(struct run *r);
/* Blocks that a trace must have as live if it ends now. Those of a pool that was there before the
   trace may be in it or not. */
struct expected {
    uint64_t least, most;
};
struct expected trace_expected(void);
/* The trace has ended: reads its file. */
void trace_ended(struct run *r, struct expected expected);
/* Forgets the contents of all that lies in the pool. */
void contents_forget(const struct object *of);
/* Removes the pins of blocks that end with a scope or a pool, and whose own pool does not. */
void unpin_all(struct run *r, const struct object *of);
void buffer_made(struct object *made, struct object *from, uint64_t bytes, unsigned on);
/* What a pool's state adds to the statuses of calls on its blocks, and to allocations from it. */
uint64_t pool_awake(const struct object *pool_object, uint64_t asleep);
uint64_t pool_gives(const struct object *pool_object, uint64_t asleep);
/* The drawn queue if it is live and of the object's device, else 0. */
unsigned queue_for(const struct op *op, struct object *object);

#endif

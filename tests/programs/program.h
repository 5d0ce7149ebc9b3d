/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program.h: programs over the public API that a seed draws, and the model that judges them.
 *
 * A program is a list of operations (draw.c). An operation is plain numbers: a kind, slots of
 * objects, sizes. It means something whatever came before it, so any part of a program is a program
 * and a failing one can be cut down (shrink.c). Running an operation (steps_*.c) makes a few public
 * calls on the objects in its slots; DO checks the status of each against those that the headers
 * allow in the model's state, and keeps the call as a line of C. The handles below have the names
 * that those lines use.
 *
 * Several threads run in rounds (round.c): between two barriers each has a few operations. What
 * two threads use in a round, and one of them changes, is contended there: every status of a race
 * is allowed, and the model learns what became of it after the round.
 */
#ifndef TEST_PROGRAM_H
#define TEST_PROGRAM_H

#include "vram/vram.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* ---------------------------------------------------------------- operations */

/* The numbers of an operation: X(name, values). Slot 0 of a queue is always NULL. */
#define OP_FIELDS(X)                                                                               \
    X(device, 2)                                                                                   \
    X(queue, 5)                                                                                    \
    X(other, 5)                                                                                    \
    X(pool, 4)                                                                                     \
    X(block, 24)                                                                                   \
    X(from, 24)                                                                                    \
    X(buffer, 10)                                                                                  \
    X(scope, 3)                                                                                    \
    X(parent, 3)                                                                                   \
    X(batch, 2)                                                                                    \
    X(named, 2)                                                                                    \
    X(ring, 2)                                                                                     \
    X(share, 3)                                                                                    \
    X(opened, 3)                                                                                   \
    X(async, 4)                                                                                    \
    X(point, 4)                                                                                    \
    X(set, 1)                                                                                      \
    X(trace, 1)                                                                                    \
    X(feed, 1)                                                                                     \
    X(readback, 1)                                                                                 \
    X(physical, 4)

struct op {
#define OP_SLOT(name, slots) uint8_t name;
    OP_FIELDS(OP_SLOT)
#undef OP_SLOT
    uint8_t kind, thread;
    uint32_t choice, flags;
    uint64_t bytes, offset, seed, nth;
};

enum {
#define SLOTS_ENUM(name, slots) SLOTS_##name = (slots),
    OP_FIELDS(SLOTS_ENUM)
#undef SLOTS_ENUM
        THREADS_MAX = 8,
    ROUND_OPS = 3,     /* operations of a thread between two barriers */
    FREE_POOL = 3,     /* the pool of which every flag, limit and state is drawn; see `portable` */
    FREE_BLOCKS = 16,  /* slots from here on are for what is made from it, with one thread */
    FREE_BUFFERS = 6,  /* the same */
    PENDING_MAX = 24,  /* copies of a thread under way */
    EXTENTS_MAX = 6,   /* known parts of an object's contents */
    OPS_MAX = 1 << 16, /* operations of a program */
    TEXT_MAX = 1 << 20 /* bytes of the C text of a thread */
};

/* ------------------------------------------------------------------- handles */

extern vram_context *context;
extern vram_device *device[SLOTS_device];
extern vram_queue *queue[SLOTS_queue];
extern vram_pool *pool[SLOTS_pool];
extern vram_addr block[SLOTS_block];
extern vram_buffer *buffer[SLOTS_buffer];
extern vram_scope *scope[SLOTS_scope];
extern vram_batch *batch[SLOTS_batch];
extern vram_named *named[SLOTS_named];
extern vram_ring *ring[SLOTS_ring];
extern vram_share *share[SLOTS_share], *opened[SLOTS_opened];
extern vram_async async[SLOTS_async];
extern vram_point point[SLOTS_point], mark[THREADS_MAX];
extern vram_stream_set *set[SLOTS_set];
extern vram_trace *trace[SLOTS_trace];
extern vram_feed *feed[SLOTS_feed];
extern vram_readback *readback[SLOTS_readback];
extern vram_physical *physical[SLOTS_physical];
extern unsigned char *host[THREADS_MAX * PENDING_MAX];
extern const char *const tags[], *const sims[], *const names[];

/* --------------------------------------------------------------------- model */

enum type {
    TYPE_CONTEXT,
    TYPE_DEVICE,
    TYPE_QUEUE,
    TYPE_POOL,
    TYPE_BLOCK,
    TYPE_BUFFER,
    TYPE_SCOPE,
    TYPE_BATCH,
    TYPE_NAMED,
    TYPE_RING,
    TYPE_SHARE,
    TYPE_OPENED,
    TYPE_ASYNC,
    TYPE_POINT,
    TYPE_SET,
    TYPE_TRACE,
    TYPE_FEED,
    TYPE_READBACK,
    TYPE_PHYSICAL,
    TYPE_COUNT
};

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
    uint64_t count;        /* pins, messages that were sent, things that it owns */
    uint32_t flags, kind;
    uint32_t sleeping; /* pools: 1 asleep, 2 sealed or slept in part; blocks under such are left */
    struct contents contents;
};

extern struct object objects[TYPE_COUNT][32];
#define OBJECT(type, slot) (&objects[TYPE_##type][slot])

/* A copy under way, with the host memory that it uses. */
struct pending {
    struct object *queue; /* NULL: this entry is free */
    unsigned slot;        /* of `host` */
    uint64_t bytes, offset;
    enum { PENDING_UPLOAD, PENDING_DOWNLOAD, PENDING_FAILED } what;
    struct contents expected;
};

struct run {
    unsigned thread;
    bool loose;    /* the operation uses something contended */
    bool portable; /* its answers go into the digest */
    bool strict;   /* the next call may not fail, although faults are planned */
    bool ended;    /* an end was made: the thread leaves the rest of the round alone */
    uint64_t calls, digest;
    const struct op *op;
    const char *call; /* the text of the call that runs */
    uint64_t began_ns;
    struct pending pending[PENDING_MAX];
    /* what the model learns after the round */
    struct object *ends[ROUND_OPS * 4], *touched[ROUND_OPS * 64], *unsures[ROUND_OPS * 4];
    unsigned end_count, touched_count, unsure_count;
};

/* What the process was told to do, and what it says to its parent: shared memory. */
struct settings {
    const char *backend; /* "host", "sim", "opencl" */
    const char *mode;    /* "vmm", "segments", "off" */
    const char *second;  /* libvram.so, a second copy of the library; NULL: none */
    const char *kinds;   /* names with commas: draw these only; NULL: all */
    unsigned threads;
    unsigned seconds; /* no call takes longer; the option wait_timeout is two more */
    bool faults, delays, cancel;
    bool large; /* blocks of gigabytes on a device of 6 GiB, of which three quarters are used */
};
extern struct settings settings;

struct told {
    _Atomic uint64_t seed; /* of the program that runs */
    _Atomic uint64_t calls, programs, beats;
    uint64_t digest;     /* over all programs so far */
    _Atomic uint32_t op; /* that failed */
    char failure[2000];
    bool keep_text;
    uint64_t answers[OPS_MAX]; /* digest after each operation, of one program */
    size_t text_bytes[THREADS_MAX];
    char text[THREADS_MAX][TEXT_MAX];
};
extern struct told *told;

/* ------------------------------------------------------------------- program */

struct program {
    uint64_t seed;
    unsigned threads;
    uint32_t count;
    struct op *ops;
};

/* What an operation is; draw.c has the table. */
typedef void step_fn(struct run *r, const struct op *op);
struct kind {
    const char *name;
    step_fn *step;
    uint32_t weight; /* how often it is drawn; 0: only by the start of a program */
    uint32_t uses;   /* of use_bit: slots that it looks at */
    uint32_t writes; /* of these, those that it changes */
    uint32_t makes;  /* slots that it fills */
    uint32_t needs;  /* of need_bit */
};
enum need_bit { NEED_ALONE = 1, NEED_FREE = 2, NEED_FAULTS = 4, NEED_SHARING = 8, NEED_LARGE = 16 };
enum use_bit {
#define USE_ENUM(name, slots) USE_INDEX_##name,
    OP_FIELDS(USE_ENUM)
#undef USE_ENUM
#define USE_ENUM(name, slots) USE_##name = 1 << USE_INDEX_##name,
        OP_FIELDS(USE_ENUM)
#undef USE_ENUM
};
extern const struct kind kinds[];
extern const unsigned kind_count;

uint64_t mix(uint64_t x);
void program_draw(struct program *program, uint64_t seed, uint32_t count, unsigned threads);
struct object *op_object(const struct op *op, unsigned use_index);

/* Runs it and ends everything: exits the process at the first finding. */
void program_run(const struct program *program);
/* Cuts a failing program down, in processes of its own, and prints it as C. */
void program_shrink(struct program *program);
int child_run(const struct program *program, bool keep_text);

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
#define EXHAUSTED                                                                                  \
    (LIMIT | BIT(VRAM_ERR_HOST_MEMORY) | BIT(VRAM_ERR_DEVICE_MEMORY) | BIT(VRAM_ERR_FRAGMENTED))
/* What a call may return whose object another thread ends or changes. */
#define RACED (OK | STALE | INVALID | BUSY | UNSUPPORTED | NOT_READY | BIT(VRAM_ERR_SHUTDOWN))
/* What it may return while the driver or host memory is made to fail. */
#define FAULTED                                                                                    \
    (OK | EXHAUSTED | INVALID | UNSUPPORTED | CORRUPT | NOT_READY | BUSY | BIT(VRAM_ERR_TIMEOUT) | \
     BIT(VRAM_ERR_BACKEND) | BIT(VRAM_ERR_IO))

void call_begin(struct run *r, const struct op *op, const char *text);
vram_status call_end(struct run *r, uint64_t allowed, vram_status status);
/* Makes a call; `allowed` are its statuses in the model's state. */
#define DO(allowed, ...) (call_begin(r, op, #__VA_ARGS__), call_end(r, allowed, (__VA_ARGS__)))
/* A further line of the C text. */
__attribute__((format(printf, 2, 3))) void say(struct run *r, const char *format, ...);
__attribute__((format(printf, 2, 3), noreturn)) void fail(struct run *r, const char *format, ...);
#define EXPECT(condition, ...)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fail(r, __VA_ARGS__);                                                                  \
        }                                                                                          \
    } while (0)
/* Puts a number into the digest. */
void answer(struct run *r, uint64_t number);
uint64_t now_ns(void);

/* --------------------------------------------------------------------- objects */

/* Writes a new object into the model. */
struct object *object_new(struct object *object, struct object *parent);
/* An end was made, of the object and of all below it and owned by it. */
void object_end(struct run *r, struct object *object);
/* What the calls on these may return: OK, or STALE if one has ended. `skip` is set if one never
   was. NULL is no object. */
uint64_t of_objects(struct object *const *list, unsigned count, bool *skip);
#define ALLOWED(skip, ...)                                                                         \
    of_objects((struct object *const[]){__VA_ARGS__},                                              \
               sizeof((struct object *const[]){__VA_ARGS__}) / sizeof(struct object *), skip)
bool object_under(const struct object *object, const struct object *ancestor);
struct object *object_device(struct object *object);
extern _Atomic bool faults_on; /* a fault is planned, or was a moment ago */
extern bool faults_were;       /* in this program */

/* -------------------------------------------------------------------- contents */

unsigned char *pattern(uint64_t seed, uint64_t at, uint64_t bytes);
uint64_t fill_seed(uint32_t value, uint32_t width);
void contents_write(struct contents *contents, uint64_t offset, struct extent extent);
void contents_copy(struct contents *to, uint64_t to_offset, const struct contents *from,
                   uint64_t from_offset, uint64_t bytes);
void contents_cut(struct contents *contents, uint64_t bytes);
/* The first byte that differs from what is known, or UINT64_MAX. */
uint64_t contents_check(const struct contents *contents, uint64_t offset, const unsigned char *data,
                        uint64_t bytes);

/* Makes `queue` wait for the work that uses the object. False: not possible, use it not. */
bool order_on(struct run *r, const struct op *op, struct object *object, unsigned slot);
/* Host memory for a copy on the queue; `slot` of host[]. */
struct pending *pending_new(struct run *r, const struct op *op, unsigned queue_slot);
void pending_finish(struct run *r, struct pending *pending);
/* The queue has completed its work, or has ended. */
void queue_passed(struct run *r, struct object *queue);

#endif

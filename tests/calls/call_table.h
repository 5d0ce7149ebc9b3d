/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call_table.h: every public call, described once: a row of rows_*.c says how to make the call on a
 * world that has every kind of object, and what it may answer beside which circumstances.
 *
 * CALL(vram_queue_upload, QUEUE, flags) { ... } is a row, and CALL_WITH(vram_queue_wait, QUEUE,
 * flags, w->queue, 1000); one without a body; its kind says which objects it needs in the world
 * (call_world.c) and which calls can end them (call_enders.c). The engines (calls.c) do
 * with each row what they are for. tests/lint/calls.py asks for a row of every public call.
 */
#ifndef TEST_CALL_TABLE_H
#define TEST_CALL_TABLE_H

#include "calls/call_try.h"
#include "vram/auto.h"
#include "vram/compute.h"
#include "vram/extension.h"
#include "vram/foreign.h"
#include "vram/model.h"
#include "vram/oom.h"
#include "vram/pressure.h"
#include "vram/sim.h"
#include "vram/stats.h"
#include "vram/trace.h"
#include "vram/transfer.h"
#include "vram/visibility.h"
#include "vram/vmm.h"
#include "vram/vram.h"

enum {
    POOLS = 6,
    BUFFERS = 6, /* kinds of a world's pool and of its buffer: a variant is both */
    VARIANTS = POOLS * BUFFERS,
    COPY_BYTES = 16 << 10,  /* of the block and of each copy */
    HOST_BYTES = 512 << 10, /* of the host's memory, for larger ones */
    RUN_SECONDS = 20,       /* within which both calls of a run return */
    WAIT_SECONDS = 5        /* option wait_timeout: a call that takes this long has timed out */
};

/* ---------------------------------------------------------------------- world */

/* The kind of object that a row uses. A world has those that its pair needs. */
enum kind {
    KIND_CONTEXT,
    KIND_DEVICE,
    KIND_PEER,
    KIND_QUEUE,
    KIND_ADOPTED,
    KIND_CAPTURED,
    KIND_KERNEL,
    KIND_MEMORY,
    KIND_RANGE,
    KIND_PHYSICAL,
    KIND_REGISTERED,
    KIND_STREAM_SET,
    KIND_READBACK,
    KIND_FRAME,
    KIND_FEED,
    KIND_FEED_BLOCK,
    KIND_POOL,
    KIND_BLOCK,
    KIND_BUFFER,
    KIND_MAPPED,
    KIND_SCOPE,
    KIND_BATCH,
    KIND_NAMED,
    KIND_RING,
    KIND_SCHEDULER,
    KIND_WEIGHTS,
    KIND_LABELS,
    KIND_ATTACHMENT,
    KIND_ASYNC,
    KIND_POINT,
    KIND_WATCH,
    KIND_DEVICE_WATCH,
    KIND_MONITOR,
    KIND_TRACE,
    KIND_OOM_CALLBACK,
    KIND_FOREIGN,
    KIND_SHARE,
    KIND_LEASE,
};

/* What a row's call has made, to be ended with the rest. */
struct made {
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_kernel *kernel;
    vram_physical *physical;
    vram_addr memory, range, block;
    vram_stream_set *set;
    vram_readback *readback;
    vram_feed *feed;
    vram_pool *pool;
    vram_buffer *buffer;
    vram_scope *scope;
    vram_batch *batch;
    vram_named *named;
    vram_ring *ring;
    vram_scheduler *scheduler;
    vram_weights *weights;
    vram_labels *labels;
    vram_attachment *attachment;
    vram_async async;
    vram_watch *watch;
    vram_monitor *monitor;
    vram_trace *trace;
    vram_share *share;
    vram_lease *lease;
    bool pinned;
};

/* Every object that a run may need. What is not there is NULL or 0. */
struct world {
    const char *backend;
    uint32_t variant;   /* which pool, buffer and ring: see call_world.c */
    const char *failed; /* what could not be made; NULL: the world is whole */
    vram_context *context;
    vram_device *device, *peer;
    vram_queue *queue, *other; /* `other` is the world's own, for looking at results */
    vram_queue *adopted, *captured;
    vram_kernel *kernel, *busy; /* `busy` keeps a queue of the host busy */
    vram_addr memory;           /* of vram_device_alloc */
    vram_addr range;
    vram_physical *physical;
    vram_stream_set *set;
    vram_readback *readback;
    vram_frame frame;
    vram_feed *feed;
    vram_feed_block feed_block;
    vram_pool *pool;
    vram_addr block;     /* COPY_BYTES of `pool`, being filled with SOURCE_BYTE on `queue` */
    vram_addr spare;     /* another block, for calls that free or give away */
    vram_addr staged;    /* that `async` reads, if it is a large copy */
    vram_addr blocks[4]; /* more, if the row makes them */
    vram_buffer *buffer;
    vram_scope *scope;
    vram_batch *batch;
    vram_named *named;
    vram_ring *ring;
    vram_scheduler *scheduler;
    vram_weights *weights;
    vram_labels *labels;
    vram_attachment *attachment;
    vram_async async;
    vram_point point;
    vram_watch *watch;
    vram_monitor *monitor;
    vram_trace *trace;
    uint64_t callback, foreign;
    vram_pool *share_pool;
    vram_share *exported, *share; /* `share` is the export, or what was opened of it */
    vram_share_token token;
    char share_name[32]; /* under which `exported` is published */
    vram_lease *lease;
    struct made made;
    bool looks_at_device; /* what the device has given out is a part of what is seen */
    bool refused;         /* its driver did not let everything be undone: less is checked */
    unsigned char *host;  /* HOST_BYTES */
    uint64_t
        host_bytes; /* of these, that the row's call reads or writes: COPY_BYTES, if not more */
    uint64_t host_bytes_before, handles_before;
};

enum {
    SOURCE_BYTE = 0x77, /* in the block */
    UPLOAD_BYTE = 0x33, /* in host memory that is uploaded */
    FAILED_BYTE = 0x22, /* in host memory of a download that failed, from then on */
    FRESH_BYTE = 0x11   /* in host memory before a download */
};

extern _Alignas(65536) unsigned char call_registered[8][65536]; /* page-locked in place */

/* Makes what a pair needs; world->failed says what could not be. `set_queue`: the queue is one of
   the stream set's. */
void world_make(struct world *world, const char *backend, uint32_t variant, uint64_t kinds,
                bool set_queue);
/* Makes the objects of the kind anew; the old ones have ended. False: it cannot. */
bool world_renew(struct world *world, enum kind kind);
/* Ends what a row's call has made, and that alone. */
void world_end_made(struct world *world);
/* What simulated devices are made of, but for lag and granules: "memory=64M". */
extern const char *world_sim;
/* Ends everything that is left, and checks what a run must leave behind. The text of the first
   finding, or NULL. `call` is the status of the row's call; `flags` are the row's. */
const char *world_end(struct world *world, vram_status call, uint32_t flags);
/* Another thread's: the same objects, with `host`, HOST_BYTES, of its own. What its calls have made
   ends with world_end_made, before the world does. */
void world_second(const struct world *world, unsigned char *host, struct world *second);
/* Ends it without looking at what its driver has left: it is lost, or has lied. */
const char *world_drop(struct world *world);
/* What a simulated driver still has after all devices were closed, and what it saw done wrong. */
const char *world_driver_left(const char *backend, vram_context *context);
/* Waits for all work of its queues. */
void world_drain(struct world *world);
/* The host's memory as the row needs it. */
void world_fill_host(struct world *world, uint32_t flags);

/* What a lease of the world is opened with: its broker is of this process alone; call_world.c. */
const vram_lease_options *call_lease_options(void);

/* A monotonic clock; call_schedule.c. */
uint64_t calls_now_ns(void);

/* Callbacks that do nothing. */
bool call_ignore_text(void *user, const char *text, size_t bytes);
void call_ignore_end(void *user);
void call_ignore_pressure(void *user, const vram_pressure_event *event);

/* ------------------------------------------------------------------------ rows */

enum row_flag {
    ROW_DOWNLOAD = 1 << 0,   /* copies the block to `host` */
    ROW_UPLOAD = 1 << 1,     /* copies `host` to the block */
    ROW_USES_QUEUE = 1 << 2, /* uses the queue in addition to its object */
    ROW_USES_BLOCK = 1 << 3, /* uses a block of the pool */
    ROW_WALKS = 1 << 4,      /* looks at objects below its own */
    ROW_SLOW = 1 << 5,       /* long runs only */
    ROW_WAITS = 1 << 7,      /* for other threads, a while: is tried less often */
    ROW_UNTIL_END = 1 << 6,  /* waits for what never happens: only the end wakes it */
    /* Statuses that it may return in addition to OK, STALE, SHUTDOWN and UNSUPPORTED: */
    ROW_INVALID = 1 << 8, /* its address, index or name ended with its owner */
    ROW_BUSY = 1 << 9,    /* the object is in another call */
    ROW_NOT_READY = 1 << 10,
    ROW_TIMEOUT = 1 << 11, /* it has a short timeout */
    /* What may be seen when a call below it fails: */
    ROW_PARTIAL = 1 << 16,  /* a driver that fails in the middle leaves a part: errors.md */
    ROW_UNDERWAY = 1 << 17, /* work that a driver took and then failed may run on: errors.md */
    ROW_NEVER_FAILS = 1 << 18,
    ROW_LOSES = 1 << 20,      /* a driver that refuses from then on does not let it be undone */
    ROW_LOGS = 1 << 21,       /* an error, where the driver does not let a part be undone */
    ROW_CHOOSES = 1 << 22,    /* another way of the same, with other memory */
    ROW_CACHES = 1 << 23,     /* keeps memory of the device for its next call */
    ROW_WHOLE_ONCE = 1 << 25, /* memory that runs out once leaves no part */
    ROW_CHECKS = 1 << 19,     /* not beside rows: it looks at contents that another may change */
    ROW_ALONE = 1 << 24       /* not beside ends: the row itself uses the object's memory */
};

typedef vram_status call_fn(struct world *w);

struct row {
    const char *call; /* the public call's name */
    const char *as;   /* "" or what is special about this row */
    call_fn *fn;
    enum kind kind;
    uint32_t flags;      /* of row_flag */
    const char *planted; /* the engine that has to find its defect; NULL: it has none */
    unsigned points;     /* delay points that its call passes alone; measured */
    uint64_t ns;         /* how long that takes; measured */
    struct row *next;
};

void row_add(struct row *row);

/* A row; its body makes the call on the world `w` and returns its status. A second row of a call
   says what is special about it. A planted one has a defect, which the engine has to find. */
#define CALL(call, kind, flags)                ROW(call, , kind, flags, NULL)
#define CALL_AS(call, as, kind, flags)         ROW(call, as, kind, flags, NULL)
#define PLANTED(call, as, kind, flags, engine) ROW(call, as, kind, flags, engine)
#define ROW(call, as, kind, flags, planted)                                                        \
    static call_fn call##_row_##as;                                                                \
    __attribute__((constructor)) static void call##_add_##as(void) {                               \
        static struct row row = {#call, #as, call##_row_##as, KIND_##kind, flags, planted, 0,      \
                                 0,     NULL};                                                     \
        row_add(&row);                                                                             \
    }                                                                                              \
    static vram_status call##_row_##as(__attribute__((unused)) struct world *w)

/* Rows that make the call with these arguments, and do nothing else. */
#define CALL_WITH(call, kind, flags, ...) ROW_AFTER(call, , kind, flags, VRAM_OK, __VA_ARGS__)
#define CALL_WITH_AS(call, as, kind, flags, ...)                                                   \
    ROW_AFTER(call, as, kind, flags, VRAM_OK, __VA_ARGS__)
/* The same, once what stands `before` was well. */
#define CALL_AFTER(call, kind, flags, before, ...)                                                 \
    ROW_AFTER(call, , kind, flags, before, __VA_ARGS__)
#define CALL_AFTER_AS(call, as, kind, flags, before, ...)                                          \
    ROW_AFTER(call, as, kind, flags, before, __VA_ARGS__)
#define ROW_AFTER(call, as, kind, flags, before, ...)                                              \
    ROW(call, as, kind, flags, NULL) {                                                             \
        vram_status status = before;                                                               \
        return status ? status : TRY(call, __VA_ARGS__);                                           \
    }                                                                                              \
    struct row

/* ---------------------------------------------------------------------- enders */

struct ender {
    const char *call;
    call_fn *fn;
    enum kind kind;   /* what it needs in the world */
    uint32_t answers; /* of row_flag: what it may return in addition to OK, STALE and SHUTDOWN */
    unsigned points;  /* that it passes; measured */
    uint64_t ns;
};

/* Those of a row, as bits: bit i is call_enders[i]. */
extern struct ender call_enders[];
extern const unsigned call_ender_count;
uint64_t row_enders(const struct row *row);
/* Kinds that a world needs for the pair; bit KIND_... */
uint64_t pair_kinds(const struct row *row, const struct ender *ender);
/* No pool's, nor of anything above one. */
bool kind_is_of_device(enum kind kind);

/* -------------------------------------------------------------------- schedules */

/*
 * Which call goes first, and where the two are delayed. In builds with delay points `first` runs to
 * its n-th point, the other to its m-th (0: to its end), then `first` to its end, then the other.
 * No delay is longer than 0.6 ms, since the other thread may be waiting for the delayed one. In
 * builds without, n and m are nanoseconds that each waits before its call.
 */
struct schedule {
    bool ender_first;
    uint32_t n, m;
};

struct outcome {
    vram_status call, ender;
    bool late;             /* one of the two did not return, and no further run is possible */
    const char *late_call; /* which */
    unsigned call_points, ender_points;
    uint64_t call_ns, ender_ns;
    const char *first_place, *second_place; /* where they were delayed; NULL: nowhere */
    char call_text[VRAM_ERROR_TEXT_MAX], ender_text[VRAM_ERROR_TEXT_MAX]; /* why they failed */
};

/* Within which both calls have to return. */
extern unsigned schedule_seconds;
bool schedule_has_points(void);
void schedule_start(void);
/* Makes both calls (`ender` may be NULL: the row's alone). */
void schedule_run(struct world *world, const struct row *row, const struct ender *ender,
                  struct schedule schedule, struct outcome *outcome);
void schedule_stop(void);
/* Has both threads print where they are, for a call that hangs. */
void schedule_show_stacks(void);

#endif

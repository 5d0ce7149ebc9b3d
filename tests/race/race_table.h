/* SPDX-License-Identifier: Apache-2.0 */
/*
 * race_table.h: the race matrix. Every public call that names an object is run beside every call
 * that ends that object, one of its parents, or something else that it uses.
 *
 * A row is a call: ROW(vram_queue_upload, QUEUE, flags) { ... }. Its kind says which objects a
 * world needs for it and which calls can end them (race_enders.c). A pair is a row and an ender. A
 * run makes a world, has two threads make the two calls by a schedule (race_schedule.c), and then
 * checks everything (race_world.c): both statuses, the contents of host and device memory, what the
 * pool, the simulated driver and the library still hold. tests/lint/races.py reads the ROW lines: a
 * public call without one is a finding.
 */
#ifndef TEST_RACE_TABLE_H
#define TEST_RACE_TABLE_H

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
    COPY_BYTES = 16 << 10, /* of the block and of each copy */
    RACE_SECONDS = 20,     /* within which both calls of a run return */
    WAIT_SECONDS = 5       /* option wait_timeout: a call that takes this long has timed out */
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

/* Every object that a run may need. What is not there is NULL or 0. */
struct world {
    const char *backend;
    uint32_t variant;   /* which pool, buffer and ring: see race_world.c */
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
    vram_addr block; /* COPY_BYTES of `pool`, being filled with SOURCE_BYTE on `queue` */
    vram_addr spare; /* another block, for calls that free or give away */
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
    /* What the row's call has made, to be ended with the rest. */
    struct {
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
        vram_attachment *attachment;
        vram_async async;
        vram_watch *watch;
        vram_monitor *monitor;
        vram_trace *trace;
        vram_share *share;
        vram_lease *lease;
        bool pinned;
    } made;
    unsigned char *host; /* COPY_BYTES that the row's call reads or writes */
    uint64_t host_bytes_before, handles_before;
};

enum {
    SOURCE_BYTE = 0x77, /* in the block */
    UPLOAD_BYTE = 0x33, /* in host memory that is uploaded */
    FAILED_BYTE = 0x22, /* in host memory of a download that failed, from then on */
    FRESH_BYTE = 0x11   /* in host memory before a download */
};

extern _Alignas(65536) unsigned char race_registered[8][65536]; /* page-locked in place */

/* Makes what a pair needs; world->failed says what could not be. `set_queue`: the queue is one of
   the stream set's. */
void world_make(struct world *world, const char *backend, uint32_t variant, uint64_t kinds,
                bool set_queue);
/* Ends everything that is left, and checks what a run must leave behind. The text of the first
   finding, or NULL. `call` is the status of the row's call; `flags` are the row's. */
const char *world_end(struct world *world, vram_status call, uint32_t flags);

/* What a lease of the world is opened with: its broker is of this process alone; race_world.c. */
const vram_lease_options *race_lease_options(void);

/* A monotonic clock; race_schedule.c. */
uint64_t race_now_ns(void);

/* Callbacks that do nothing. */
bool race_ignore_text(void *user, const char *text, size_t bytes);
void race_ignore_end(void *user);
void race_ignore_pressure(void *user, const vram_pressure_event *event);

/* ------------------------------------------------------------------------ rows */

enum row_flag {
    ROW_DOWNLOAD = 1 << 0,   /* copies the block to `host` */
    ROW_UPLOAD = 1 << 1,     /* copies `host` to the block */
    ROW_USES_QUEUE = 1 << 2, /* uses the queue in addition to its object */
    ROW_USES_BLOCK = 1 << 3, /* uses a block of the pool */
    ROW_WALKS = 1 << 4,      /* looks at objects below its own */
    ROW_SLOW = 1 << 5,       /* long runs only */
    ROW_UNTIL_END = 1 << 6,  /* waits for what never happens: only the end wakes it */
    /* Statuses that it may return in addition to OK, STALE, SHUTDOWN and UNSUPPORTED: */
    ROW_INVALID = 1 << 8, /* its address, index or name ended with its owner */
    ROW_BUSY = 1 << 9,    /* the object is in another call */
    ROW_NOT_READY = 1 << 10,
    ROW_TIMEOUT = 1 << 11 /* it has a short timeout */
};

typedef vram_status race_fn(struct world *w);

struct row {
    const char *call; /* the public call's name */
    const char *as;   /* "" or what is special about this row */
    race_fn *fn;
    enum kind kind;
    uint32_t flags;  /* of row_flag */
    unsigned points; /* delay points that its call passes alone; measured */
    uint64_t ns;     /* how long that takes; measured */
    struct row *next;
};

void row_add(struct row *row);

/* A row of the matrix; its body makes the call on the world `w` and returns its status. */
#define ROW(call, kind, flags) ROW_AS(call, , kind, flags)
#define ROW_AS(call, as, kind, flags)                                                              \
    static race_fn call##_row##as;                                                                 \
    __attribute__((constructor)) static void call##_add##as(void) {                                \
        static struct row row = {#call, #as, call##_row##as, KIND_##kind, flags, 0, 0, NULL};      \
        row_add(&row);                                                                             \
    }                                                                                              \
    static vram_status call##_row##as(struct world *w)

/* Looks at an info struct that begins with its size. */
#define LOOK(type, call)                                                                           \
    type info = {.size = sizeof info};                                                             \
    return call

/* ---------------------------------------------------------------------- enders */

struct ender {
    const char *call;
    race_fn *fn;
    enum kind kind;   /* what it needs in the world */
    uint32_t answers; /* of row_flag: what it may return in addition to OK, STALE and SHUTDOWN */
    unsigned points;  /* that it passes; measured */
    uint64_t ns;
};

/* Those of a row, as bits: bit i is race_enders[i]. */
extern struct ender race_enders[];
extern const unsigned race_ender_count;
uint64_t row_enders(const struct row *row);
/* Kinds that a world needs for the pair; bit KIND_... */
uint64_t pair_kinds(const struct row *row, const struct ender *ender);

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

bool schedule_has_points(void);
void schedule_start(void);
/* Makes both calls (`ender` may be NULL: the row's alone). */
void schedule_run(struct world *world, const struct row *row, const struct ender *ender,
                  struct schedule schedule, struct outcome *outcome);
void schedule_stop(void);
/* Has both threads print where they are, for a call that hangs. */
void schedule_show_stacks(void);

/* -------------------------------------------------------------------- known defects */

/* Pairs that fail because of a known defect: they are printed and counted, and run only by name. */
struct known {
    const char *call, *ender, *backend; /* "*": any */
    const char *why;
};
extern const struct known race_known[];

#endif

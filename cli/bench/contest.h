/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contest.h: what `vram bench alloc` measures: allocators that enter a contest, and the rules that
 * are the same for all of them.
 *
 * An entry is one allocator. The same threads run all entries in turn, in samples of a fraction of
 * a millisecond, so that whatever disturbs the machine disturbs all of them alike. Each allocator's
 * loop is compiled of its own (loop.h) and calls it as a program calls a shared library, through
 * one pointer: nothing of the frame lies between.
 */
#ifndef CONTEST_H
#define CONTEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <vram/vram.h>

enum pattern {
    PATTERN_PAIR,  /* allocates and frees, in a loop */
    PATTERN_BURST, /* allocates BURST_BLOCKS, frees them in random order */
    /* replaces one of MIXED_SLOTS blocks by one of another size, sizes of size_table */
    PATTERN_MIXED,
    PATTERN_HANDOVER /* allocates on one thread, frees on another */
};

enum {
    BURST_BLOCKS = 1000,
    MIXED_SLOTS = 32,
    SCRIPT_STEPS = 4096, /* of a worker's random choices, made before the clock runs */
    THREADS_MAX = 256,   /* that allocate; handover has as many again that free */
    ENTRIES_MAX = 12,
    SAMPLES_MAX = 4096,    /* of one entry */
    REASON_MAX = 256,      /* bytes of a reason, the final 0 included */
    LIVE_BYTES_MAX = 1024, /* size of the blocks that --live holds: small, so that many fit */
    YARDSTICK_BYTES = 1024 /* the size that allocators of host memory are best at */
};

/* What the user asked for. */
struct contest_plan {
    enum pattern pattern;
    uint64_t bytes;   /* size of a block; not of PATTERN_MIXED */
    uint32_t threads; /* that allocate */
    uint64_t live;    /* blocks held meanwhile */
    double seconds;   /* of measuring, all entries together */
};

struct entry;
struct conveyor;

/* One random choice: which block to replace or free, and a row of size_table. */
struct choice {
    uint16_t slot, size;
};

/* What one thread works with for one entry. Nobody else touches it while a sample runs. */
struct worker {
    struct entry *entry;
    void *native;   /* the allocator's queue or stream; its own */
    uint64_t bytes; /* size of a block */
    enum pattern pattern;
    uint32_t index;              /* of the thread */
    uint32_t cursor;             /* next row of the script */
    const struct choice *script; /* SCRIPT_STEPS choices */
    uint64_t *blocks;            /* BURST_BLOCKS live blocks, 0: none */
    uint64_t *held;              /* what --live holds; only worker 0 */
    uint64_t held_count;
    struct conveyor *belt;   /* to the thread that frees, of PATTERN_HANDOVER */
    char reason[REASON_MAX]; /* why an allocation failed */
};

/* An allocator. All but open and close are called on the thread of the worker. */
struct allocator {
    /* Makes it ready. False with entry->reason when it is not to be had here. */
    bool (*open)(struct entry *entry);
    void (*close)(struct entry *entry);
    bool (*worker_begin)(struct worker *worker); /* NULL: nothing to do */
    void (*worker_end)(struct worker *worker);   /* NULL: nothing to do */
    bool (*run)(struct worker *worker,
                uint64_t pairs); /* the pattern; allocates only in a handover */
    bool (*drain)(struct worker *worker, uint64_t pairs); /* the side that frees in a handover */
    bool (*hold)(struct worker *worker);                  /* allocates what --live asks for */
    void (*sweep)(struct worker *worker);                 /* frees all that the worker still has */
    vram_value (*driver_calls)(struct entry *entry);      /* so far; NULL: not known */
};

/* ns of one pair of one thread. */
struct figures {
    double median, p10, p90;
};

struct entry {
    const char *name; /* "mimalloc" */
    const struct allocator *allocator;
    bool comparable;  /* does the same work as ours: ratios to it mean something */
    uint64_t bytes;   /* size of a block */
    uint32_t threads; /* at most the plan's */
    uint64_t live;

    vram_context *context;  /* borrowed */
    uint32_t device_index;  /* in the context */
    uint32_t backend_index; /* the driver's own number of the device */
    void *state;            /* the allocator's own */

    bool entered;            /* it was opened */
    bool measured;           /* its figures hold */
    char reason[REASON_MAX]; /* why it was not; "" */
    struct worker *workers;  /* one for each thread */
    uint64_t pairs;          /* of one thread in one sample */
    uint32_t sample_count, sample_goal;
    double *samples; /* ns of a pair each */
    struct figures figures;
    double pairs_per_s;      /* of all threads together */
    vram_value driver_calls; /* while it was measured */
};

struct contest {
    struct contest_plan plan;
    struct entry entries[ENTRIES_MAX]; /* ours first */
    uint32_t entry_count;
};

extern const struct allocator allocator_malloc;   /* the C library's */
extern const struct allocator allocator_mimalloc; /* where libmimalloc is installed */
extern const struct allocator allocator_naive;    /* vram_device_alloc: one driver call for each */
extern const struct allocator allocator_cuda;     /* cudaMalloc, through the driver */
extern const struct allocator allocator_cuda_async;  /* cudaMallocAsync, the same */
extern const struct allocator allocator_opencl;      /* clCreateBuffer, used once */
extern const struct allocator allocator_opencl_lazy; /* clCreateBuffer, which has no memory yet */
extern const struct allocator allocator_vulkan;      /* vkAllocateMemory, with its buffer */
extern const struct allocator allocator_pool;        /* ours */

/* Called when a part of the work is done, to show progress. */
typedef void contest_progress_fn(void *user, uint64_t done, uint64_t total);

/*
 * Measures all entries. An entry that cannot take part has its reason; what fails here is the
 * machine: no threads, no memory. False then.
 */
bool contest_run(struct contest *contest, contest_progress_fn *progress, void *user);

/* The comparable peer with the lowest median; NULL when there is none, or ours was not measured. */
const struct entry *contest_best_peer(const struct contest *contest);

/* Sizes as programs ask for them, all equally likely; SIZE_ROWS of them. */
enum { SIZE_ROWS = 96 };
extern const uint32_t size_table[SIZE_ROWS];

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * case.h: how cases are written.
 *
 * A case is a function that returns true at its end. Every CHECK_ macro returns false from the
 * function it stands in as soon as an expectation does not hold: the first one is recorded with its
 * place, the runner closes devices, ends contexts and frees host memory, in this order. So neither
 * cases nor their helpers have clean-up paths of their own, and none can be forgotten.
 *
 *   CHECK_OK(call)              it must succeed; else the case is ERRORED with the status
 *   CHECK_STATUS(call, status)  it must fail so; success is FAILED, another failure ERRORED
 *   CHECK_THAT(fact)            else FAILED: no fault excuses a wrong result
 *
 * A call that fails must change nothing. The helpers below know what a device holds (the ledger)
 * and what a buffer contains (the model), and compare after every failure. Helpers that take a
 * `struct check_place` are called through the macro of the same name.
 */
#ifndef CHECK_CASE_H
#define CHECK_CASE_H

#include "suite.h"

#include <pthread.h>
#include <stdint.h>

#define CHECK_DEADLINE_NS UINT64_C(30000000000)        /* longest wait of any case */
#define CHECK_CANARY      UINT64_C(0xDEADDEADDEAD0001) /* in out-parameters before a call */

enum { CHECK_DEVICES_MAX = 4, CHECK_CONTEXTS_MAX = 4, CHECK_GATES_MAX = 2, CHECK_NOTE_MAX = 96 };

/* An opened device, and what it must hold by the case's own calls. */
struct check_device {
    vram_device *device; /* NULL once closed */
    vram_device_info info;
    uint64_t held_bytes, held_peak_bytes, held_count; /* as in vram_memory_info */
    bool unledgered; /* the case calls the library directly; the ledger is not compared */
};

/* A run of a case. */
struct check {
    const struct check_target *target;
    vram_context *context; /* to open devices of; handed or made for this case */
    vram_device_info info; /* of the target device */
    struct check_device devices[CHECK_DEVICES_MAX];
    uint32_t device_count;
    vram_context *contexts[CHECK_CONTEXTS_MAX]; /* made by check_context_at; NULL once ended */
    uint32_t *gates[CHECK_GATES_MAX]; /* words of gates, opened before anything is closed */
    void *blocks;              /* host memory, freed last: copies may be under way until then */
    uint64_t random;           /* state of check_random */
    char note[CHECK_NOTE_MAX]; /* which round of a loop it is, for the reason */
    pthread_mutex_t lock;      /* guards result and blocks: expectations fail on any thread */
    struct check_result *result;
};

/* Where an expectation stands. */
struct check_place {
    const char *what; /* the expression */
    const char *file;
    int line;
};
#define CHECK_AT(what)                                                                             \
    (struct check_place) {                                                                         \
        what, __FILE__, __LINE__                                                                   \
    }

/* ------------------------------------------------------------- expectations */

/* Each returns whether it held and records when it did not. */
bool check_ok(struct check *check, vram_status status, struct check_place place);
bool check_status(struct check *check, vram_status status, vram_status expected,
                  struct check_place place);
bool check_refused(struct check *check, vram_status status, struct check_place place);
bool check_exhausted(struct check *check, vram_status status, struct check_place place);
bool check_that(struct check *check, bool holds, struct check_place place);
bool check_equal(struct check *check, uint64_t left, uint64_t right, struct check_place place);

/* Records FAILED, over an ERRORED too, with a text of the caller's. Returns false. */
bool check_fail(struct check *check, struct check_place place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Ends the case as skipped. Returns false. */
bool check_skip(struct check *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
#ifdef VR_ANALYSIS /* tools/analyze: so that it sees which of these never return true */
#define check_fail(...)                ((check_fail)(__VA_ARGS__), false)
#define check_skip(...)                ((check_skip)(__VA_ARGS__), false)
#define check_that(check, fact, place) ((fact) || check_fail(check, place, "does not hold"))
#endif
/* Says which round of a loop runs. Not in threads. */
void check_note(struct check *check, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Passes a false on: for helpers, which have recorded why. */
#define CHECK_TRY(helper)                                                                          \
    do {                                                                                           \
        if (!(helper)) {                                                                           \
            return false;                                                                          \
        }                                                                                          \
    } while (0)

#define CHECK_OK(check, call)           CHECK_TRY(check_ok(check, call, CHECK_AT(#call)))
#define CHECK_STATUS(check, call, want) CHECK_TRY(check_status(check, call, want, CHECK_AT(#call)))
/* VRAM_ERR_INVALID or VRAM_ERR_STALE: for handles that are none. */
#define CHECK_REFUSED(check, call) CHECK_TRY(check_refused(check, call, CHECK_AT(#call)))
/* Any status that vram_status_is_exhausted knows. */
#define CHECK_EXHAUSTED(check, call) CHECK_TRY(check_exhausted(check, call, CHECK_AT(#call)))
#define CHECK_THAT(check, fact)      CHECK_TRY(check_that(check, fact, CHECK_AT(#fact)))
#define CHECK_EQUAL(check, left, right)                                                            \
    CHECK_TRY(check_equal(check, left, right, CHECK_AT(#left " == " #right)))

/* The options of a trim: CHECK_TRIM(.flags = VRAM_TRIM_CACHES). */
#define CHECK_TRIM(...) (&(vram_trim_options){.size = sizeof(vram_trim_options), __VA_ARGS__})

/* Skips the case unless the device has a capability. */
bool check_needs(struct check *check, uint32_t cap);
#define CHECK_NEEDS(check, cap) CHECK_TRY(check_needs(check, cap))
/* Skips the case where host and device share one memory, so that nothing can move to the host. */
bool check_needs_own_memory(struct check *check);
#define CHECK_NEEDS_OWN_MEMORY(check) CHECK_TRY(check_needs_own_memory(check))
/* Whether the target device has it. */
bool check_has(const struct check *check, uint32_t cap);
/* Whether pools pool: the option `pool` is on. */
bool check_pools(void);
/* What a block of that size takes: a multiple of 512, or a power of two with the option of that
   name; 0: more than 64 bits hold. */
uint64_t check_block_bytes(uint64_t size);
/* Skips the case unless they do: for what only pooled memory can show. */
bool check_needs_pools(struct check *check);
#define CHECK_NEEDS_POOLS(check) CHECK_TRY(check_needs_pools(check))

/* ----------------------------------------------------- contexts and devices */

/* Another context; NULL texts mean what the target's options say. */
bool check_context_at(struct check *check, const char *backends, const char *sim,
                      vram_context **context, struct check_place place);
#define CHECK_CONTEXT(check, backends, sim, context)                                               \
    CHECK_TRY(check_context_at(check, backends, sim, context, CHECK_AT("vram_context_create")))
/* Ends a context that CHECK_CONTEXT made. */
void check_context_end(struct check *check, vram_context *context);

/* Opens the target device, or device `index` of any context. */
bool check_open_at(struct check *check, vram_context *context, uint32_t index,
                   struct check_device **device, struct check_place place);
#define CHECK_OPEN(check, opened)                                                                  \
    CHECK_TRY(check_open_at(check, (check)->context, (check)->target->device, opened,              \
                            CHECK_AT("vram_device_open")))
#define CHECK_OPEN_OF(check, context, index, opened)                                               \
    CHECK_TRY(check_open_at(check, context, index, opened, CHECK_AT("vram_device_open")))
void check_close(struct check_device *device);
/* Finds another device of the target's backend in check->context; false when there is none. */
bool check_other_device(struct check *check, uint32_t *index);

/* --------------------------------------------------------------- the ledger */

/* The device's memory info must say what the ledger says. */
bool check_ledger_at(struct check *check, struct check_device *device, struct check_place place);
/* After a failure: the device must hold what it held, peak included. Always false: the case is
   ERRORED already. Not checked when the driver does not even report its memory. */
bool check_unchanged_at(struct check *check, struct check_device *device, struct check_place place);
#define CHECK_LEDGER(check, device) CHECK_TRY(check_ledger_at(check, device, CHECK_AT("ledger")))

bool check_alloc_at(struct check *check, struct check_device *device, uint64_t bytes,
                    vram_memory_kind kind, vram_addr *addr, struct check_place place);
bool check_free_at(struct check *check, struct check_device *device, vram_addr addr,
                   struct check_place place);
bool check_range_at(struct check *check, struct check_device *device, uint64_t bytes,
                    vram_addr *base, struct check_place place);
bool check_physical_at(struct check *check, struct check_device *device, uint64_t bytes,
                       vram_physical **physical, struct check_place place);
bool check_physical_end_at(struct check *check, struct check_device *device,
                           vram_physical *physical, struct check_place place);
bool check_queue_at(struct check *check, struct check_device *device, vram_queue **queue,
                    struct check_place place);
bool check_wait_at(struct check *check, vram_queue *queue, struct check_place place);

#define CHECK_ALLOC(check, device, bytes, addr)                                                    \
    CHECK_TRY(check_alloc_at(check, device, bytes, VRAM_MEMORY_DEVICE, addr,                       \
                             CHECK_AT("vram_device_alloc(" #bytes ")")))
#define CHECK_ALLOC_KIND(check, device, bytes, kind, addr)                                         \
    CHECK_TRY(check_alloc_at(check, device, bytes, kind, addr,                                     \
                             CHECK_AT("vram_device_alloc(" #bytes ", " #kind ")")))
#define CHECK_FREE(check, device, addr)                                                            \
    CHECK_TRY(check_free_at(check, device, addr, CHECK_AT("vram_device_free(" #addr ")")))
#define CHECK_RANGE(check, device, bytes, base)                                                    \
    CHECK_TRY(check_range_at(check, device, bytes, base, CHECK_AT("vram_range_create(" #bytes ")")))
#define CHECK_PHYSICAL(check, device, bytes, physical)                                             \
    CHECK_TRY(check_physical_at(check, device, bytes, physical,                                    \
                                CHECK_AT("vram_physical_create(" #bytes ")")))
#define CHECK_PHYSICAL_END(check, device, physical)                                                \
    CHECK_TRY(check_physical_end_at(check, device, physical,                                       \
                                    CHECK_AT("vram_physical_destroy(" #physical ")")))
#define CHECK_QUEUE(check, device, queue)                                                          \
    CHECK_TRY(check_queue_at(check, device, queue, CHECK_AT("vram_queue_create")))
/* Waits until all work of the queue is done, at most CHECK_DEADLINE_NS. */
#define CHECK_WAIT(check, queue)                                                                   \
    CHECK_TRY(check_wait_at(check, queue, CHECK_AT("vram_queue_wait(" #queue ")")))

/* Whether the simulated driver has been made to fail: what it would not take back is then still
   held. False on other devices. */
bool check_driver_failed(const struct check *check);

/* ------------------------------------------------------------ host and time */

/* Frees all of it; the runner's. */
void check_host_end(struct check *check);
/* Zeroed host memory that lives until everything the case made is gone. */
bool check_host(struct check *check, size_t bytes, void **memory);
/* The same, filled with the bytes of `seed`. */
bool check_host_seeded(struct check *check, size_t bytes, uint64_t seed, uint8_t **memory);
/* Writes bytes that depend on `seed` alone. */
void check_seed(uint8_t *to, size_t bytes, uint64_t seed);
/* The next number of the case's own sequence, below `limit`. Not in threads. */
uint64_t check_random(struct check *check, uint64_t limit);
/* `full`, or about a tenth of it, at least 2, in quick runs. */
uint32_t check_rounds(const struct check *check, uint32_t full);
uint64_t check_now(void);
void check_sleep(uint64_t ns);
/* Rounds up; `step` is a power of two or any other number above 0. */
uint64_t check_round_up(uint64_t bytes, uint64_t step);
/* The device's granule, 4096 when it does not tell. */
uint64_t check_granule(const struct check_device *device);
/* The granule of a pool on the device, mapped or on segments. */
uint64_t check_pool_granule(const struct check_device *device, bool segments);

/* ----------------------------------------------------------------- threads */

/* Runs `body` on `count` threads at once, waits for all; false when any returned false. */
typedef bool check_thread_fn(struct check *check, void *argument);
bool check_threads(struct check *check, uint32_t count, check_thread_fn *body, void *arguments,
                   size_t argument_bytes);

/* ------------------------------------------------- buffers with a model */

/* Device memory, and what it must contain once all work of its queue is done. */
struct check_buffer {
    struct check_device *device;
    vram_queue *queue; /* the one queue that writes it */
    vram_addr addr;
    uint64_t bytes;
    uint8_t *model;
};

bool check_buffer_at(struct check *check, struct check_device *device, vram_queue *queue,
                     uint64_t bytes, struct check_buffer *buffer, struct check_place place);
bool check_buffer_upload_at(struct check *check, struct check_buffer *to, uint64_t offset,
                            uint64_t bytes, uint64_t seed, struct check_place place);
bool check_buffer_fill_at(struct check *check, struct check_buffer *to, uint64_t offset,
                          uint32_t pattern, uint32_t pattern_bytes, uint64_t bytes,
                          struct check_place place);
bool check_buffer_copy_at(struct check *check, struct check_buffer *to, uint64_t to_offset,
                          struct check_buffer *from, uint64_t from_offset, uint64_t bytes,
                          struct check_place place);
bool check_buffer_verify_at(struct check *check, struct check_buffer *buffer,
                            struct check_place place);

/* Memory with seeded contents. */
#define CHECK_BUFFER(check, device, queue, bytes, buffer)                                          \
    CHECK_TRY(check_buffer_at(check, device, queue, bytes, buffer, CHECK_AT("buffer")))
#define CHECK_UPLOAD(check, to, offset, bytes, seed)                                               \
    CHECK_TRY(check_buffer_upload_at(check, to, offset, bytes, seed,                               \
                                     CHECK_AT("vram_queue_upload(" #to ", " #bytes ")")))
#define CHECK_FILL(check, to, offset, pattern, pattern_bytes, bytes)                               \
    CHECK_TRY(check_buffer_fill_at(check, to, offset, pattern, pattern_bytes, bytes,               \
                                   CHECK_AT("vram_queue_fill(" #to ", " #bytes ")")))
#define CHECK_COPY(check, to, to_offset, from, from_offset, bytes)                                 \
    CHECK_TRY(check_buffer_copy_at(check, to, to_offset, from, from_offset, bytes,                 \
                                   CHECK_AT("vram_queue_copy(" #to ", " #from ", " #bytes ")")))
/* Waits, reads all of it back and compares: what was not written must be as it was. */
#define CHECK_VERIFY(check, buffer)                                                                \
    CHECK_TRY(check_buffer_verify_at(check, buffer, CHECK_AT("contents of " #buffer)))
/* Compares host memory with what it must be; says where they part. */
bool check_same_at(struct check *check, const uint8_t *found, const uint8_t *expected,
                   uint64_t bytes, struct check_place place);
#define CHECK_SAME(check, found, expected, bytes)                                                  \
    CHECK_TRY(check_same_at(check, found, expected, bytes, CHECK_AT("contents of " #found)))

/* ------------------------------------------------------- pools with a model */

enum { CHECK_STOCK_MAX = 160 };

/* A live block of a pool, and what it must contain. */
struct check_block {
    vram_addr addr;
    uint64_t size;     /* as asked for */
    vram_queue *queue; /* writes and reads it */
    uint32_t mark;     /* repeated at its beginning and its end */
};

/* A pool, and what must be in it by the case's own calls. */
struct check_stock {
    struct check_device *device;
    vram_pool *pool;
    bool foreign; /* its memory is not the device's: held by a provider */
    struct check_block blocks[CHECK_STOCK_MAX];
    uint32_t count;
    uint64_t requested_bytes; /* the sum of their sizes */
    uint32_t last_mark;
};

/* Makes a pool. Its device is compared with the pools' own sums from here on, not with the
   ledger. */
bool check_stock_at(struct check *check, struct check_device *device,
                    const vram_pool_options *options, struct check_stock *stock,
                    struct check_place place);
#define CHECK_STOCK(check, device, options, stock)                                                 \
    CHECK_TRY(check_stock_at(check, device, options, stock, CHECK_AT("vram_pool_create")))
/* Takes a block and writes its mark. NULL options: vram_alloc. */
bool check_take_at(struct check *check, struct check_stock *stock, uint64_t size, vram_queue *queue,
                   const vram_alloc_options *options, vram_addr *addr, struct check_place place);
#define CHECK_TAKE(check, stock, size, queue, addr)                                                \
    CHECK_TRY(                                                                                     \
        check_take_at(check, stock, size, queue, NULL, addr, CHECK_AT("vram_alloc(" #size ")")))
#define CHECK_TAKE_WITH(check, stock, size, queue, options, addr)                                  \
    CHECK_TRY(check_take_at(check, stock, size, queue, options, addr,                              \
                            CHECK_AT("vram_alloc_with(" #size ")")))
/* Enters a block that the case has allocated by itself, and writes its mark. */
bool check_adopt_at(struct check *check, struct check_stock *stock, uint64_t size,
                    vram_queue *queue, vram_addr addr, struct check_place place);
/* Gives a block back, on any queue. Its mark is not looked at. */
bool check_give_at(struct check *check, struct check_stock *stock, vram_addr addr,
                   vram_queue *queue, struct check_place place);
#define CHECK_GIVE(check, stock, addr, queue)                                                      \
    CHECK_TRY(check_give_at(check, stock, addr, queue, CHECK_AT("vram_free(" #addr ")")))
/* Resizes a block in place, on the queue that it was taken for; *done is false where there was no
   room for that. What both sizes have in common keeps its contents. */
bool check_resize_at(struct check *check, struct check_stock *stock, vram_addr addr, uint64_t size,
                     bool *done, struct check_place place);
#define CHECK_RESIZE(check, stock, addr, size, done)                                               \
    CHECK_TRY(check_resize_at(check, stock, addr, size, done, CHECK_AT("vram_resize(" #size ")")))
/* Everything must be as the model has it: counters, what is known of each block, contents. */
bool check_stock_verify_at(struct check *check, struct check_stock *stock,
                           struct check_place place);
#define CHECK_STOCK_VERIFY(check, stock)                                                           \
    CHECK_TRY(check_stock_verify_at(check, stock, CHECK_AT("pool")))
/* For calls on a stock that must fail and change nothing. */
#define CHECK_STOCK_REFUSES(check, stock, call, status)                                            \
    do {                                                                                           \
        CHECK_STATUS(check, call, status);                                                         \
        CHECK_STOCK_VERIFY(check, stock);                                                          \
    } while (0)
/* The pool's counters. */
bool check_stats(struct check *check, vram_pool *pool, vram_pool_stats *stats);
/* Trims the stock's pool, of which nothing is live or in use any more, until it holds nothing, and
   tells its counters. Once is enough unless the driver is late to say that a queue is idle:
   OpenCL's has to be asked. */
bool check_trim(struct check *check, struct check_stock *stock, vram_pool_stats *stats);
/* After a call on the stock's pool failed that takes or gives no block: returns false, and has
   compared everything as far as the device still answers. */
bool check_stock_failed(struct check *check, struct check_stock *stock, struct check_place place);
/* A call that must succeed and takes or gives no block; a failure must have changed nothing. */
#define CHECK_STOCK_OK(check, stock, call)                                                         \
    do {                                                                                           \
        if (!check_ok(check, call, CHECK_AT(#call))) {                                             \
            return check_stock_failed(check, stock, CHECK_AT(#call));                              \
        }                                                                                          \
    } while (0)

/* ------------------------------------------------------------------- a gate */

/*
 * Work that does not end before the case says so: the one sure way to see that a wait waits. A
 * kernel that looks at a word of host memory; it gives up by itself after a while, and the runner
 * opens it when the case ends early.
 */
struct check_gate {
    vram_kernel *kernel;
    uint32_t *word; /* 0: shut. Written through check_gate_open */
    vram_addr addr; /* of the word, where it is the device's managed memory; else 0 */
    uint64_t limit; /* ns, or turns where the kernel has no clock: when it gives up */
};

/* Makes one that is shut; skips the case where kernels do not run beside the calling thread. */
bool check_gate_make_at(struct check *check, struct check_device *device, struct check_gate *gate,
                        struct check_place place);
#define CHECK_GATE(check, device, gate)                                                            \
    CHECK_TRY(check_gate_make_at(check, device, gate, CHECK_AT("gate")))
/* Submits the wait for it. */
bool check_gate_pass_at(struct check *check, const struct check_gate *gate, vram_queue *queue,
                        struct check_place place);
#define CHECK_GATE_PASS(check, gate, queue)                                                        \
    CHECK_TRY(check_gate_pass_at(check, gate, queue, CHECK_AT("vram_queue_launch(gate)")))
void check_gate_open(const struct check_gate *gate);
void check_gate_shut(const struct check_gate *gate);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm_world.h: what the storm of test_storm.c plays with: the shared tables, the verdicts on
 * every call, and the order that a program owes the library between pieces of work.
 */
#ifndef TEST_STORM_WORLD_H
#define TEST_STORM_WORLD_H

#include "base/handle.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/os/os.h"
#include "vram/vram.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    THREADS = 4,
    CONTEXTS = 2,
    WILD_DEVICES = 2, /* the first of the devices */
    DEVICES = 6,
    QUEUES = 8,
    KERNELS = 3,
    BUFFERS = 12,
    WILD = 12,
    RANGES = 3,
    HANDLES = 12,
    POINTS = 12,
    NATIVES = 2,
    SINKS = 4096, /* targets of downloads, each used once */
    SINK_BYTES = 64,
    PAGE = 65536,
    PLACES = 8 /* pages of a range */
};

/* How long a storm lasts: longer where each step takes longer, and in make test-long. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define STORM_NS (getenv("VRAM_TEST_LONG") ? UINT64_C(6000000000) : UINT64_C(750000000))
#else
#define STORM_NS (getenv("VRAM_TEST_LONG") ? UINT64_C(3000000000) : UINT64_C(450000000))
#endif
#define SECOND UINT64_C(1000000000)

/* ------------------------------------------------------------------- tables */

/* Work that was submitted and may touch something. */
struct use {
    vram_queue *queue; /* NULL: none */
    vram_point point;
    bool marked; /* there is a point; else the queue ended before one could be made */
};

/* Memory, or a kernel, that work touches. */
struct buffer {
    pthread_mutex_t lock;
    vram_device *device;
    vram_addr addr; /* 0: none */
    vram_kernel *kernel;
    vram_physical *physical; /* not NULL: addr is a range with it mapped */
    bool on_host;            /* pinned or managed: its address may be used again by any device */
    struct use use;
};

static struct {
    const char *backends, *sim;
    bool hungry; /* host memory fails now and then */
    bool lossy;  /* devices are lost */
    bool unique; /* an address is never another device's later */
    uint64_t seed, deadline;
    _Atomic(vram_context *) contexts[CONTEXTS];
    _Atomic(vram_device *) devices[DEVICES];
    _Atomic(vram_queue *) queues[QUEUES];
    pthread_mutex_t owner_lock; /* guards the next two */
    struct owner {
        vram_queue *queue;
        vram_device *device;
    } owners[QUEUES]; /* whose each queue is */
    struct buffer buffers[BUFFERS], kernels[KERNELS];
    _Atomic(vram_addr) wild[WILD], ranges[RANGES];
    _Atomic(vram_physical *) handles[HANDLES];
    pthread_mutex_t point_lock;
    vram_point points[POINTS];
    atomic_int failures;
    atomic_uint next_sink;
    atomic_ullong calls, successes;
} storm;

static char natives[NATIVES];
static const unsigned char source[PAGE];
static unsigned char sinks[SINKS][SINK_BYTES];

/* One thread's own. */
struct sailor {
    pthread_t thread;
    uint64_t random;
    void (*op)(struct sailor *self); /* what it does now, for reports */
};

static inline uint64_t draw(struct sailor *self, uint64_t below) {
    uint64_t value = self->random += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (value ^ (value >> 31)) % below;
}

#define PICK(self, table) (&(table)[draw(self, sizeof(table) / sizeof(table)[0])])
#define ANY(self, table)  atomic_load(PICK(self, table))
#define WILD_DEVICE(self) atomic_load(&storm.devices[draw(self, WILD_DEVICES)])
#define QUIET_DEVICE(self)                                                                         \
    atomic_load(&storm.devices[WILD_DEVICES + draw(self, DEVICES - WILD_DEVICES)])

/* ------------------------------------------------------------------ verdicts */

static inline void complain(const char *what, const char *call) {
    const vram_error *error = vram_error_get();
    if (atomic_fetch_add(&storm.failures, 1) < 10) {
        fprintf(stderr, "storm: seed %llu: %s: %s; the record says %s, %s\n",
                (unsigned long long)storm.seed, call, what, vram_status_name(error->status),
                error->text);
    }
}

/* Statuses that no healthy device and no mistake of a program leads to. */
static inline bool possible(vram_status status) {
    switch (status) {
    case VRAM_ERR_CORRUPT:
    case VRAM_ERR_BACKEND:
    case VRAM_ERR_IO:
    case VRAM_ERR_FORKED:
    case VRAM_ERR_CAPTURE:
        return false;
    case VRAM_ERR_DEVICE_LOST:
        return storm.lossy;
    case VRAM_ERR_HOST_MEMORY:
        return storm.hungry;
    default:
        return true;
    }
}

static inline vram_status judge(vram_status status, const char *call) {
    vram_status recorded = vram_error_get()->status;
    atomic_fetch_add(&storm.calls, 1);
    if (status == VRAM_OK || status == VRAM_ERR_NOT_READY) {
        atomic_fetch_add(&storm.successes, status == VRAM_OK);
        if (recorded != VRAM_OK) {
            complain("no failure, but a record", call);
        }
    } else if (recorded != status || !*vram_error_get()->text) {
        complain(vram_status_name(status), call);
    } else if (!possible(status)) {
        complain("a status that cannot be", call);
    }
    return status;
}

#define TRY(call) (vram_error_clear(), judge(call, #call))

/* Calls that return nothing may note that the handle was no good, and nothing else. */
static inline void judge_end(const char *call) {
    vram_status status = vram_error_get()->status;
    if (status != VRAM_OK && status != VRAM_ERR_STALE && status != VRAM_ERR_INVALID) {
        complain("an end that failed", call);
    }
}

#define END(call) (vram_error_clear(), (call), judge_end(#call))

static inline void on_log(void *user, vram_log_level level, const char *text) {
    (void)user, (void)level;
    if (storm.lossy && strstr(text, "was lost")) {
        return;
    }
    if (atomic_fetch_add(&storm.failures, 1) < 10) {
        fprintf(stderr, "storm: seed %llu: logged: %s\n", (unsigned long long)storm.seed, text);
    }
}

/* ------------------------------------------------------------ uses and orders */

/* Waits until nothing uses the buffer any more. Its lock is held. */
static inline void settle(struct buffer *buffer) {
    struct use *use = &buffer->use;
    if (use->queue && use->marked) {
        vram_status status = TRY(vram_point_wait(use->point, 60 * SECOND));
        if (status != VRAM_OK && status != VRAM_ERR_DEVICE_LOST) {
            complain("work did not finish", vram_status_name(status));
        }
    }
    /* Without a point: the queue is ending, and ends after the work. */
    while (use->queue && !use->marked && !vr_handle_was(VR_KIND_QUEUE, use->queue)) {
        vr_os_yield();
    }
    use->queue = NULL;
}

/* Has later work of the queue come after what used the buffer last. */
static inline void order(struct sailor *self, struct buffer *buffer, vram_queue *queue) {
    const struct use *use = &buffer->use;
    if (!use->queue || use->queue == queue) {
        return;
    }
    if (!use->marked || draw(self, 4) == 0 || TRY(vram_queue_after(queue, use->point)) != VRAM_OK) {
        settle(buffer);
    }
}

/* A point behind what was just submitted; none only when the queue has ended, or when nothing of it
   runs any more since the device is lost. */
static inline struct use use_now(vram_queue *queue) {
    struct use use = {.queue = queue};
    vram_status status;
    do {
        status = TRY(vram_queue_mark(queue, &use.point));
    } while (status == VRAM_ERR_HOST_MEMORY);
    use.marked = status == VRAM_OK;
    use.queue = status == VRAM_ERR_DEVICE_LOST ? NULL : queue;
    return use;
}

/* A queue of the device, dead or alive; NULL when there is none. */
static inline vram_queue *queue_for(struct sailor *self, const vram_device *device) {
    uint64_t at = draw(self, QUEUES);
    vram_queue *queue = NULL;
    pthread_mutex_lock(&storm.owner_lock);
    for (unsigned i = 0; i < QUEUES && !queue; i++, at = (at + 1) % QUEUES) {
        queue = storm.owners[at].device == device ? storm.owners[at].queue : NULL;
    }
    pthread_mutex_unlock(&storm.owner_lock);
    return queue;
}

#endif

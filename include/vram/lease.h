/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/lease.h: device memory that processes lend each other.
 *
 * Processes of one user that share a GPU each open a lease on it. A lease is the right to hold so
 * many bytes of the device (its grant): `min_bytes` for certain, and up to `want_bytes` as far as
 * nobody else needs them. A broker, one small process for each user, hands out the grants and never
 * touches memory itself.
 *
 *   vram_lease_options options = {.size = sizeof options,
 *                                 .min_bytes = 1ull << 30, .want_bytes = 76ull << 30};
 *   vram_lease_open(device, &options, &lease);
 *   vram_lease_pool_add(lease, cache, &(vram_sleep_options){.size = sizeof(vram_sleep_options)});
 *   for (;;) {
 *       vram_lease_point(lease, &given);           nothing is running: memory may go now
 *       if (given) vram_pool_wake(cache, NULL);    when it is needed again: asks the others
 *       ...
 *   }
 *
 * How memory moves. When a request of a pool, or a vram_pool_wake, would pass the grant, its ladder
 * (vram/oom.h) takes the step `lease`: the broker is asked. If too little is free, the broker asks
 * other leases for what they hold above their minimum. A holder gives what it does not use and what
 * lies free in its pools at once. Then, at its next vram_lease_point or at once from the lease's
 * own thread (VRAM_LEASE_AT_ONCE), it calls `revoke` and puts the listed pools to sleep. The
 * waiting request then goes on. If it fails, its report (vram_oom_report.lenders) says who did not
 * give, and why.
 *
 * Revocation is cooperative: memory is given by the process that holds it, after the work on it is
 * complete, or not at all. A request waits no longer than its lease's `timeout_ns`.
 *
 * Who is asked. A request is served before those of lower priority and before later ones of its
 * own. Holders of lower priority are asked first, then those of the same priority, in each case the
 * one with most above its minimum. A holder of higher priority gives only what it does not use. A
 * request is refused as soon as nobody is left who could give.
 *
 * What a lease counts. All memory that the context holds on the device, through any of its handles,
 * as the device's hard limit does (vram/limits.h); memory opened by vram_share_open belongs to the
 * exporter. Contexts and other memory of the driver, and processes without a lease, count for
 * nobody: leases share out what was free when the first of them was opened. When the driver refuses
 * memory within a grant, the broker learns from that how much there is.
 *
 * The broker. `vram broker` serves the socket vram-b-UID in the directory that vram/share.h
 * describes. The first lease starts it: the command that the option `broker` (VRAM_BROKER) names,
 * else `vram` in PATH; where that cannot be started, or with `broker=thread`, a thread of this
 * process is the broker. If it ends, in whatever way, every process keeps what it holds; one of
 * them starts a new one, and each tells it what it holds.
 *
 * Not on Windows. Memory of a process that is stopped by a debugger or a signal cannot be revoked;
 * requests for it fail at their deadline.
 */
#ifndef VRAM_LEASE_H
#define VRAM_LEASE_H

#include <vram/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vram_lease vram_lease;

enum {
    VRAM_LEASE_NAME_MAX = 64,   /* bytes of a name, the final 0 included */
    VRAM_LEASE_DEVICE_MAX = 64, /* the same of a device */
    VRAM_LEASE_POOLS_MAX = 64   /* entries of vram_lease_pool_add */
};

/** Why a lease gave less than it was asked for: X(NAME, value, "name", "in words"). */
#define VRAM_LEASE_WHY_MAP(X)                                                                      \
    X(GAVE, 0, "gave", "it gave what it was asked for")                                            \
    X(SILENT, 1, "silent", "it did not answer before the deadline")                                \
    X(NO_POINT, 2, "no_point", "it did not reach a safe point before the deadline")                \
    X(REFUSED, 3, "refused", "its program refused")                                                \
    X(IN_USE, 4, "in_use", "its program freed less, or its pools could not sleep")                 \
    X(MINIMUM, 5, "minimum", "it holds no more than its minimum")                                  \
    X(PRIORITY, 6, "priority", "it has a higher priority and uses what it holds")                  \
    X(GONE, 7, "gone", "its process ended, or closed its lease")

typedef enum vram_lease_why {
#define VRAM_LEASE_WHY_ENUM(NAME, value, name, text) VRAM_LEASE_##NAME = (value),
    VRAM_LEASE_WHY_MAP(VRAM_LEASE_WHY_ENUM)
#undef VRAM_LEASE_WHY_ENUM
} vram_lease_why;

/** "gave", "silent", ...; "unknown" for any other number. Static storage. */
VRAM_API const char *vram_lease_why_name(vram_lease_why why);
/** The same in words. */
VRAM_API const char *vram_lease_why_text(vram_lease_why why);

/* --------------------------------------------------------------- revocation */

/** What is asked of a holder. */
typedef struct vram_lease_event {
    size_t size;         /* sizeof(vram_lease_event) of the library */
    vram_lease *lease;   /* borrowed */
    vram_device *device; /* borrowed */
    uint64_t bytes;      /* still to be given */
    uint64_t left_ns;    /* until the other side gives up */
    uint64_t process;    /* who asks: its id; 0: not visible from here */
    const char *name;    /* and the name of its lease; until the callback returns */
    int32_t priority;    /* of the one who asks */
    bool at_point;       /* on the thread that is inside vram_lease_point; else the lease's own */
} vram_lease_event;

typedef enum vram_lease_answer {
    VRAM_LEASE_DONE = 0,  /* has freed what it could; listed pools sleep next, if that is short */
    VRAM_LEASE_LATER = 1, /* ask again at the next vram_lease_point */
    VRAM_LEASE_REFUSE = 2 /* gives nothing more this time */
} vram_lease_answer;

/**
 * Frees memory, or puts pools to sleep: what is given is measured, not reported. Called with no
 * lock held. It may call the library, but an allocation inside it does not ask the broker, and on
 * the lease's own thread the lease cannot be closed.
 */
typedef vram_lease_answer vram_lease_fn(void *user, const vram_lease_event *event);

typedef enum vram_lease_flag {
    /* Memory is given from the lease's own thread as soon as it is asked for, without waiting for
       vram_lease_point. Pools that sleep wait for the work of the device's queues first; the
       program must expect at any time that they are asleep. */
    VRAM_LEASE_AT_ONCE = 1 << 0
} vram_lease_flag;

typedef struct vram_lease_options {
    size_t size;           /* sizeof(vram_lease_options) */
    uint64_t min_bytes;    /* kept in any case; 0: nothing is */
    uint64_t want_bytes;   /* most that it will ever hold; more than 0 */
    int32_t priority;      /* higher is served first; -100 to 100 */
    uint32_t flags;        /* of vram_lease_flag */
    vram_lease_fn *revoke; /* NULL: none */
    void *user;
    uint64_t timeout_ns; /* longest wait for others to give; 0: 5 seconds */
    uint64_t
        capacity_bytes; /* shared out among leases, if this is the device's first; 0: as above */
    const char *name;   /* for reports; NULL: the program's name; copied */
    const char *dir;    /* of the broker's socket; NULL: as above; copied */
} vram_lease_options;

/* ------------------------------------------------------------- opening, closing */

/**
 * Opens a lease for all memory that this context holds on the device, and starts the broker if none
 * runs. The grant is what is free, up to `want_bytes`. If that is less than `min_bytes`, or less
 * than the context holds already, others are asked, as for an allocation.
 *
 * VRAM_ERR_INVALID for a lease of 0 bytes, or a minimum above `want_bytes`. VRAM_ERR_LIMIT if it
 * asks for more than the device has, or others do not give enough for the minimum: the error record
 * names them. VRAM_ERR_BUSY if the context has a lease on the device already. VRAM_ERR_UNSUPPORTED
 * if the broker speaks another version. VRAM_ERR_TIMEOUT if it does not answer in 3 seconds,
 * VRAM_ERR_CORRUPT if its answer makes no sense, VRAM_ERR_IO if the directory cannot be used.
 */
VRAM_API vram_status vram_lease_open(vram_device *device, const vram_lease_options *options,
                                     vram_lease **lease);

/**
 * Closes a lease; NULL is allowed. Its grant goes back to the broker. Memory stays as it is, and is
 * bound by no lease from then on. Waits until `revoke` has returned, up to the option
 * `wait_timeout`: VRAM_ERR_TIMEOUT, and it is closed all the same. A device that is closed closes
 * its lease.
 */
VRAM_API vram_status vram_lease_close(vram_lease *lease);

/**
 * Lists a pool that sleeps when memory is asked for: as `options` say, all of it or a tag, with its
 * contents dropped or kept (vram_pool_sleep); NULL: all, dropped. Entries sleep in the order in
 * which they were added, until enough is given: what is cheapest to lose comes first. An entry that
 * is asleep, or cannot sleep at that moment, is passed over. The program wakes them. A destroyed
 * pool is no longer listed. VRAM_ERR_INVALID if the pool is of another device or is listed with
 * that tag already, VRAM_ERR_UNSUPPORTED if it cannot sleep, VRAM_ERR_LIMIT above
 * VRAM_LEASE_POOLS_MAX entries.
 */
VRAM_API vram_status vram_lease_pool_add(vram_lease *lease, vram_pool *pool,
                                         const vram_sleep_options *options);

/**
 * Declares a safe point: the program does not need the listed pools just now. If memory was asked
 * for, `revoke` is called and pools sleep, on this thread; otherwise it costs a few nanoseconds.
 * *given, if not NULL, is what was given here, 0 in most calls; if whoever asked has given up
 * meanwhile, what was put to sleep for that, which the lease still has. VRAM_OK also if less was
 * given than was asked for.
 */
VRAM_API vram_status vram_lease_point(vram_lease *lease, uint64_t *given);

/* -------------------------------------------------------------------- queries */

typedef struct vram_lease_info {
    size_t size;            /* in: sizeof(vram_lease_info) of the caller */
    uint64_t granted_bytes; /* that it may hold now */
    uint64_t held_bytes;    /* that the context holds on the device */
    uint64_t min_bytes, want_bytes;
    int32_t priority;
    bool connected;                  /* a broker answers; false: it goes on with what it has */
    uint64_t broker;                 /* its process; 0: none, or not visible from here */
    uint64_t brokers;                /* that it has been connected to */
    uint64_t asked_bytes;            /* still to be given by this process; 0: nothing is */
    uint64_t requests, refusals;     /* to the broker, and those that got less than they needed */
    uint64_t revocations;            /* times that it was asked */
    uint64_t given_bytes, got_bytes; /* to and from others, in all */
    uint64_t waited_ns;              /* for others, in all */
} vram_lease_info;

VRAM_API vram_status vram_lease_info_get(vram_lease *lease, vram_lease_info *info);

/** One lease of any process, as the broker has it. */
typedef struct vram_lease_entry {
    char device[VRAM_LEASE_DEVICE_MAX]; /* "GPU-8f3e..." or "sim 0" */
    char name[VRAM_LEASE_NAME_MAX];
    uint64_t process; /* 0: not visible from here */
    int32_t priority;
    uint64_t min_bytes, want_bytes, granted_bytes;
    uint64_t held_bytes;     /* as last reported, within half a second */
    uint64_t waiting_bytes;  /* that it waits for; 0: none */
    uint64_t asked_bytes;    /* that it is asked to give; 0: none */
    uint64_t capacity_bytes; /* of its device, for all leases together */
} vram_lease_entry;

/** What happened: X(NAME, value, "name"). */
#define VRAM_LEASE_LOG_MAP(X)                                                                      \
    X(OPENED, 0, "opened")   /* `to` has a lease; bytes: its grant */                              \
    X(RESUMED, 1, "resumed") /* the same, after another broker had ended */                        \
    X(CLOSED, 2, "closed")   /* `from` has none any more; bytes: what its grant was */             \
    X(GAVE, 3, "gave")       /* `from` gave bytes because `to` asked */                            \
    X(KEPT, 4, "kept")       /* `from` did not give bytes that `to` asked for: why */              \
    X(GRANTED, 5, "granted") /* `to` got bytes, after waited_ns */                                 \
    X(DENIED, 6, "denied")   /* `to` did not get bytes, after waited_ns */

typedef enum vram_lease_happening {
#define VRAM_LEASE_LOG_ENUM(NAME, value, name) VRAM_LEASE_LOG_##NAME = (value),
    VRAM_LEASE_LOG_MAP(VRAM_LEASE_LOG_ENUM)
#undef VRAM_LEASE_LOG_ENUM
} vram_lease_happening;

/** "opened", "gave", ...; "unknown" for any other number. Static storage. */
VRAM_API const char *vram_lease_happening_name(vram_lease_happening happening);

/** One line of the broker's log: who gave what to whom. */
typedef struct vram_lease_record {
    uint64_t number; /* rising by 1, from 1 */
    uint64_t ago_ns; /* how long ago */
    vram_lease_happening happening;
    vram_lease_why why; /* of KEPT */
    uint64_t bytes;
    uint64_t waited_ns;
    uint64_t from_process, to_process; /* 0: nobody, or not visible from here */
    char from[VRAM_LEASE_NAME_MAX], to[VRAM_LEASE_NAME_MAX];
} vram_lease_record;

/**
 * Asks the broker of `dir` (NULL: the default one) for all leases, and for the last lines of its
 * log, oldest first. Either list may be NULL with its count. Counts are in: how many fit; out: how
 * many there are, or were kept (the log: 256). VRAM_ERR_STALE if no broker runs: then there are no
 * leases. VRAM_ERR_TIMEOUT if it does not answer in 5 seconds. Starts none.
 */
VRAM_API vram_status vram_lease_list(const char *dir, vram_lease_entry *entries,
                                     uint32_t *entry_count, vram_lease_record *records,
                                     uint32_t *record_count);

/* --------------------------------------------------------------------- broker */

/** Asked about ten times a second; true: the broker ends. */
typedef bool vram_broker_fn(void *user);
/** Told once, as soon as it listens: the path of its socket, borrowed. */
typedef void vram_broker_started_fn(void *user, const char *path);

typedef struct vram_broker_options {
    size_t size;          /* sizeof(vram_broker_options) */
    const char *dir;      /* NULL: the default one; copied */
    uint64_t idle_ns;     /* ends after so long without a lease; 0: 10 seconds; UINT64_MAX: never */
    vram_broker_fn *stop; /* NULL: never */
    void *user;
    vram_broker_started_fn *started; /* NULL: nobody wants to know */
} vram_broker_options;

/**
 * Is the broker until it has been idle for long enough or is told to stop: what `vram broker` does.
 * VRAM_ERR_BUSY if there is one in this directory already.
 */
VRAM_API vram_status vram_broker_run(const vram_broker_options *options);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease_object.h: the object behind a vram_lease.
 *
 *   lease.c           opening, closing, pools, points and queries
 *   lease_connect.c   a connection to the broker, which is started if there is none
 *   lease_thread.c    the lease's thread: messages, and a new broker when the old one has gone
 *   lease_give.c      giving memory that others need
 *   lease_need.c      asking for memory: the ladder's step `lease`
 *   lease_list.c      what the broker knows, for other programs
 *   lease_wire.c      messages as bytes
 *   broker.h          the other side
 *
 *  (1) `grant` is changed under the lock, and the account's copy (vr_lease_limit) with it. It is
 *      lowered before the broker is told, and raised after the broker has said so: the books of the
 *      broker never show less than this process may hold.
 *  (2) A lowered grant is stored before charged_bytes is read; device/objects.h says why.
 *  (3) Only the thread reads the socket, from the moment it runs. Messages are sent under the lock,
 *      so that the order of gifts on the wire is the order in which the grant was lowered.
 *  (4) Without a broker the grant stays as it is.
 *  (5) The thread holds a reference to the object. It ends when `stop` is set, which the end of the
 *      lease waits for.
 *  (6) What a request was granted is its own until it has ended, and does not count as unused: it
 *      takes its memory after the grant, and another's question may come right behind that. While
 *      it still waits for others, nothing is kept for it, so that two who wait cannot keep each
 *      other waiting.
 */
#ifndef VR_LEASE_OBJECT_H
#define VR_LEASE_OBJECT_H

#include "base/runtime_folder.h"
#include "core/limit/limit.h"
#include "lease/lease_wire.h"

#define VR_LEASE_TIMEOUT_NS UINT64_C(5000000000) /* for others to give, if nothing is said */
#define VR_LEASE_SLACK_NS   UINT64_C(500000000)  /* for its answer, after a request's deadline */
#define VR_LEASE_HELD_NS    UINT64_C(250000000)  /* between two reports of what is held */

/* For the broker to start and to answer; for tests, which set it before they open a lease. */
extern uint64_t vr_lease_broker_ns;

enum { VR_LEASE_TAG_MAX = 256 };

/* A pool that sleeps when memory is asked for. */
struct vr_lease_pool {
    uint64_t pool; /* its handle */
    vram_sleep_contents contents;
    bool tagged;
    char tag[VR_LEASE_TAG_MAX];
};

/* What is asked of this process. */
struct vr_lease_ask {
    uint64_t number;   /* 0: nothing is */
    uint64_t bytes;    /* still to be given */
    uint64_t deadline; /* vr_clock_now */
    uint64_t process;
    int32_t priority;
    bool unused_alone; /* of what it does not use */
    bool giving;       /* a thread is at it */
    bool at_once;      /* the lease's thread has it to do */
    bool rest;         /* the same again, because a request has ended that kept something */
    bool later;        /* the program wants to be asked at its next point only */
    char name[VRAM_LEASE_NAME_MAX];
};

enum vr_lease_answer {
    VR_LEASE_IDLE,    /* nothing was asked */
    VR_LEASE_WAITING, /* for the broker */
    VR_LEASE_YES,
    VR_LEASE_NO,
    VR_LEASE_LOST /* the broker has gone: ask the next one */
};

/* What this process asks for; one request at a time. */
struct vr_lease_question {
    bool busy; /* a thread is inside */
    uint64_t number;
    enum vr_lease_answer answer;
    uint64_t need;     /* bytes that the request takes once it is granted */
    uint64_t level;    /* with VR_LEASE_YES: as in vr_lease_hold, until there is one */
    uint64_t got;      /* bytes */
    uint64_t capacity; /* of the device, with VR_LEASE_NO */
    struct vr_lease_refusal refusal;
};

struct vr_lease {
    struct vr_object object;
    struct vr_watcher watcher;
    struct vr_device_object *device; /* pinned */
    struct vram_lease_options options;
    char name[VRAM_LEASE_NAME_MAX], key[VRAM_LEASE_DEVICE_MAX], dir[VR_RUNTIME_DIR_MAX];
    uint64_t capacity; /* that it claims for the device */
    struct vr_thread thread;
    vr_atomic_u64 runner; /* the thread's number; 0: not yet */
    vr_atomic_u64 giver;  /* the number of the thread that gives; 0: none does */
    int wake[2];
    struct vr_lease_reader reader; /* (3) */
    vr_atomic_bool ending;         /* as `stop`, for waits without the lock */
    vr_atomic_bool asked;          /* whether vram_lease_point has something to do */

    struct vr_mutex lock; /* guards the rest */
    struct vr_cond changed;
    bool stop, done;   /* of the thread */
    int fd;            /* to the broker; -1: none */
    uint64_t grant;    /* (1) */
    uint64_t reported; /* held_bytes as the broker knows them */
    uint64_t numbers;  /* of requests; the last one */
    struct vr_lease_ask ask;
    struct vr_lease_question question;
    struct vr_list holds; /* of requests that were granted and go on: (6) */
    uint32_t pool_count;
    struct vr_lease_pool pools[VRAM_LEASE_POOLS_MAX];
    struct vram_lease_info counts; /* its counters, and the broker */
};

/* Memory that the context holds on the device. */
static inline uint64_t vr_lease_held(const struct vr_lease *lease) {
    return vr_load(&lease->device->slot->account->charged_bytes, VR_SEQ_CST);
}

/* Sets the grant, here and in the account. Under the lock; lease_connect.c. */
void vr_lease_grant_set(struct vr_lease *lease, uint64_t grant);

/* What the context holds, or will hold when requests that were granted have ended. Under the
   lock. */
uint64_t vr_lease_level(const struct vr_lease *lease);
/* The same with so many bytes more. */
uint64_t vr_lease_level_with(const struct vr_lease *lease, uint64_t bytes);

/* Connects, and says what this process holds. Sets fd and grant. VRAM_ERR_TIMEOUT if no broker
   could be reached in time. No lock held; one thread at a time; lease_connect.c. */
vram_status vr_lease_connect(struct vr_lease *lease, bool resumed, uint64_t deadline);
/* Sends; a failure ends the connection. Under the lock. */
bool vr_lease_tell(struct vr_lease *lease, const struct vr_lease_message *message);
/* Ends the connection. Under the lock. */
void vr_lease_disconnect(struct vr_lease *lease);

/* The thread; lease_thread.c. */
void vr_lease_run(void *argument);

/* Gives what was asked for. `free_only`: only what is not in use. `at_point`: on the program's
   thread. Returns the bytes, or if nobody wants them any more those that fell asleep. No lock held;
   lease_give.c. */
uint64_t vr_lease_give(struct vr_lease *lease, bool free_only, bool at_point);
/* Gives back what is not used at all. No lock held. */
void vr_lease_give_unused(struct vr_lease *lease);

/* lease_need.c. */
extern const struct vr_lease_ops vr_lease_ops;
vram_status vr_lease_need_more(struct vr_lease *lease, uint64_t bytes, bool refused,
                               struct vr_lease_hold *hold, uint64_t *got,
                               struct vr_lease_refusal *refusal);
void vr_lease_done(struct vr_lease_hold *hold);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_machine.h: the inside of the simulated driver.
 *
 *   vr_sim                one simulated machine, of one context
 *     +- vr_sim_gpu[]     a device as hardware: its memory, its calls, whether it is lost
 *     +- vr_sim_open      a device as vr_device_open gave it out, owner of all below
 *          +- vr_sim_block   memory and addresses of every kind
 *          +- vr_sim_queue   what src/device knows as a queue, with its word
 *          |    +- vr_sim_stream   work in order; shared by queues of one native queue
 *          |         +- vr_sim_work
 *          +- vr_sim_kernel
 *
 * Rules
 *  (1) vr_sim.lock guards everything. It is the driver's own lock: src/device never holds it, and
 *      it is let go while a user's kernel or log callback runs.
 *  (2) Every operation is a call: vr_sim_begin takes the lock, counts, charges, lets work finish
 *      and decides whether the call fails; vr_sim_end writes down the answer and lets go. Nothing
 *      else touches the machine, so no fault, loss or breach can be missed.
 *  (3) A block that submitted work touches has busy > 0 and is neither unmapped nor given back: the
 *      driver refuses. So work finds its memory where it was when it was submitted.
 *  (4) Breaches of the protocol are written down and refused, never met with an abort.
 */
#ifndef VR_SIM_MACHINE_H
#define VR_SIM_MACHINE_H

#include "backend/backend.h"
#include "backend/sim/sim_config.h"
#include "backend/sim/sim_map.h"
#include "base/list.h"
#include "base/lock.h"

#define VR_SIM_TEXT_MAX    192         /* bytes of a violation's text, the 0 included */
#define VR_SIM_TEXTS_MAX   64          /* violations kept as text */
#define VR_SIM_BOUNCE      (64 * 1024) /* bytes moved at once between two blocks */
#define VR_SIM_SPARES_MAX  32          /* address ranges kept for the next taker */
#define VR_SIM_THREADS_MAX 8           /* threads remembered that know of a loss */
#define VR_SIM_LIES_MAX    8           /* wrong addresses remembered */

/* -------------------------------------------------------------------- memory */

enum vr_sim_kind {
    VR_SIM_KIND_ALLOC = 0,    /* device memory with an address */
    VR_SIM_KIND_PINNED = 1,   /* host pages */
    VR_SIM_KIND_MANAGED = 2,  /* host pages that the device may use as its own */
    VR_SIM_KIND_RANGE = 3,    /* addresses without memory */
    VR_SIM_KIND_PHYSICAL = 4, /* memory without an address */
    VR_SIM_KIND_MAPPING = 5,  /* such memory at addresses of a range */
    VR_SIM_KIND_QUEUE = 6,    /* only as kinds of tickets */
    VR_SIM_KIND_KERNEL = 7
};

struct vr_sim_block {
    struct vr_link link; /* in vr_sim_open.blocks */
    struct vr_sim_open *open;
    enum vr_sim_kind kind;
    uint64_t addr;               /* first address; 0 for a physical */
    uint64_t bytes;              /* size */
    uint64_t offset;             /* of its contents in vr_sim.file, where it has any */
    uint64_t ticket;             /* handle of a physical */
    uint32_t busy;               /* how often submitted work touches it */
    uint32_t mappings;           /* in a range; of a physical */
    struct vr_sim_block *range;  /* that a mapping lies in */
    struct vr_sim_block *memory; /* the physical of a mapping */
    bool accessible;             /* a mapping that may be used */
    bool written;                /* the file holds something; untouched memory reads as zeros */
    bool refused;                /* giving it back met a planned fault: no leak of the library's */
    void *pages; /* host pages behind it, or the real addresses; NULL when synthetic */
};

/* A part of memory that lies in one block. */
struct vr_sim_span {
    struct vr_sim_block *block;
    uint64_t at;    /* offset in the block */
    uint64_t bytes; /* at most what was asked for */
};

struct vr_sim_spare {
    uint64_t addr, bytes;
};

/* ------------------------------------------------------------------ hardware */

struct vr_sim_gpu {
    uint32_t index;
    uint64_t used_bytes; /* of config.memory_bytes */
    uint64_t others;     /* of them, in the hands of other processes; bytes */
    uint64_t calls;      /* made on this device */
    bool lost;
    char lost_text[VR_SIM_TEXT_MAX]; /* how it was lost */
};

struct vr_sim_open {
    struct vr_sim *sim;
    struct vr_sim_gpu *gpu;
    struct vr_list blocks, queues, kernels, words, registered;
    uint64_t peers;                                /* bit i: may read the memory of device i */
    const void *told[VR_SIM_THREADS_MAX];          /* threads that were answered DEVICE_LOST */
    uint64_t lies[VR_SIM_LIES_MAX];                /* wrong addresses given out; 0: none */
    struct vr_sim_spare spares[VR_SIM_SPARES_MAX]; /* the newest at spare_next - 1 */
    uint32_t spare_next;
};

/* ------------------------------------------------------------ queues and work */

/* A queue's word. It outlives the queue and keeps its value, as backend.h demands. */
struct vr_sim_word {
    struct vr_link link; /* in vr_sim_open.words */
    vr_atomic_u64 value;
    bool taken;
};

struct vr_sim_stream {
    struct vr_link link; /* in vr_sim.streams, while it has work */
    struct vr_sim_gpu *gpu;
    void *native;        /* the program's own name of it, or our ticket */
    uint32_t users;      /* queues, and a thread that runs a kernel of it */
    struct vr_list work; /* oldest first */
    uint64_t free_ns;    /* when the last finished work was done */
    const void *runner;  /* thread that runs the first work's kernel, without the lock, or NULL */
};

struct vr_sim_queue {
    struct vr_link link; /* in vr_sim_open.queues */
    struct vr_sim_open *open;
    struct vr_sim_stream *stream;
    struct vr_sim_word *word;
    struct vr_list waiters; /* vr_sim_work.wait_link: work of others that waits for this word */
    uint64_t submitted;     /* highest value signalled so far, done or not */
    uint32_t polls;         /* in a row, without anything submitted */
    uint64_t ticket;        /* its native name, when it is our own */
};

struct vr_sim_kernel {
    struct vr_link link; /* in vr_sim_open.kernels */
    struct vr_sim_open *open;
    vram_kernel_fn *code;
    uint64_t ticket;
    uint32_t busy; /* launches that are not done */
};

#define VR_SIM_ARGUMENTS_MAX 32 /* as vram_launch has it */

/* A launch, its argument values behind it. */
struct vr_sim_launch {
    struct vr_sim_kernel *kernel;
    vram_kernel_fn *code;
    vram_kernel_call call;
    uint32_t touched; /* bit i: argument i is an address of a block, which it makes busy */
    void *arguments[VR_SIM_ARGUMENTS_MAX];
    _Alignas(16) uint8_t values[];
};

struct vr_sim_work {
    struct vr_link link; /* in vr_sim_stream.work */
    struct vr_sim_stream *stream;
    struct vr_sim_queue *queue;
    vram_sim_call kind;    /* the call that submitted it */
    uint64_t submitted_ns; /* it does not start before */
    uint64_t cost_ns;      /* how long it takes */
    uint64_t ready_tick;   /* it is not done before vr_sim.ticks reaches this */
    uint64_t tie;          /* who goes first at one moment */
    uint64_t to, from;     /* device addresses; 0 when there is none */
    uint64_t bytes;
    void *to_host;         /* download */
    const void *from_host; /* upload */
    uint32_t pattern, pattern_bytes;
    uint64_t value;           /* signal: to write */
    struct vr_link wait_link; /* in vr_sim_queue.waiters, while it waits for another queue */
    uint64_t passed_ns;       /* when the other queue's value passed */
    struct vr_sim_launch *launch;
};

/* ---------------------------------------------------------------- the machine */

struct vr_sim_ticket {
    void *object; /* NULL: free */
    enum vr_sim_kind kind;
    uint32_t generation;
    uint32_t next; /* free ticket behind this one */
};

struct vr_sim {
    struct vr_mutex lock;
    struct vr_backend *backend;
    struct vr_sim_config config;
    uint32_t opens; /* devices that are open */
    bool stopped;   /* by stop, while a device was still open */
    bool refused;   /* a signal or poll failed: the library cannot know what is done */
    uint64_t calls; /* made so far */
    uint64_t ticks; /* calls, and what waits add to them */
    uint64_t clock_ns;
    uint64_t random; /* state of vr_sim_random */
    uint64_t faults, violations;
    uint64_t live_bytes, live_handles;

    struct vram_sim_fault plan; /* nth 0: none */
    uint64_t plan_seen;         /* calls it speaks of, since it was set */

    struct vr_sim_map ranges;   /* blocks with addresses of their own */
    struct vr_sim_map mappings; /* mapped handles */
    struct vr_sim_ticket *tickets;
    uint32_t ticket_count, ticket_free; /* index of a free ticket + 1; 0: none */
    struct vr_list streams;             /* those with work */

    int file;            /* contents of device memory, sparse; -1 until a device is opened */
    uint64_t file_next;  /* where the next block's contents go; never used twice */
    uint64_t file_bytes; /* its length */
    uint8_t *bounce;     /* VR_SIM_BOUNCE bytes */

    struct vram_sim_entry *journal; /* entry n at n % config.journal */
    char (*texts)[VR_SIM_TEXT_MAX];
    struct vr_sim_gpu gpus[]; /* config.devices of them */
};

/* One call into the driver, from begin to end. */
struct vr_sim_call {
    struct vr_sim *sim;
    struct vr_sim_gpu *gpu;
    struct vr_sim_open *open; /* NULL in device_open */
    vram_sim_call kind;
    uint64_t number;    /* in the journal; 0: only bookkeeping on a lost device */
    uint64_t cost_ns;   /* what it costs the host */
    uint64_t addr;      /* address or handle it concerns */
    int32_t code;       /* what it answers */
    vram_status status; /* not OK: what failed was the system; its record stands */
    bool planned;       /* the code comes from the fault plan */
    vram_sim_lie lie;   /* not NONE: answer lie_addr and do nothing */
    uint64_t lie_addr;
    char text[VR_SIM_TEXT_MAX]; /* for the error record; "" leaves it to the code */
    char news[VR_SIM_TEXT_MAX]; /* for the log, once the lock is let go */
    vram_log_level news_level;
};

/* ------------------------------------------------------------------ sim_call.c */

/* Enters the driver. False: the call fails with call->code already. Both ways vr_sim_end must
   follow, and until then the lock is held. */
bool vr_sim_begin(struct vr_sim_call *call, struct vr_device *device, vram_sim_call kind,
                  uint64_t addr, uint64_t bytes);
/* The same for functions marked [lost]: on a lost device it is no call, and succeeds. */
bool vr_sim_begin_lost(struct vr_sim_call *call, struct vr_device *device, vram_sim_call kind,
                       uint64_t addr, uint64_t bytes);
/* Leaves the driver; turns the code into a status and a record. */
vram_status vr_sim_end(struct vr_sim_call *call);
/* The same for functions that cannot fail: logs instead. */
void vr_sim_end_void(struct vr_sim_call *call);
/* Has the call fail with `code`; always false. */
bool vr_sim_refuse(struct vr_sim_call *call, int32_t code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Has the call fail because the system did, unless `status` is VRAM_OK; whether it is. */
bool vr_sim_system(struct vr_sim_call *call, vram_status status);
/* Writes down a breach of the protocol and has the call fail; always false. */
bool vr_sim_breach(struct vr_sim_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ----------------------------------------------------------------- sim_fault.c */

/* Whether the plan strikes this call: sets its code or its lie. */
bool vr_sim_strike(struct vr_sim_call *call);
/* Whether `addr` is a wrong answer given earlier; forgets it. */
bool vr_sim_lied(struct vr_sim_open *open, uint64_t addr);
/* Loses a device: its pending work vanishes. */
void vr_sim_lose(struct vr_sim *sim, struct vr_sim_gpu *gpu, const char *why);
/* Answers DEVICE_LOST, and sees whether the caller ought to have known. Always false. */
bool vr_sim_lost_answer(struct vr_sim_call *call);
vram_status vr_sim_status_of(int32_t code);
const char *vr_sim_code_text(int32_t code);

/* ---------------------------------------------------------------- sim_ticket.c */

/* A number for an object, never 0; 0 when host memory is exhausted. */
uint64_t vr_sim_ticket_take(struct vr_sim *sim, enum vr_sim_kind kind, void *object);
/* The object, or NULL for any number that is not a live ticket of this kind. */
void *vr_sim_ticket_find(struct vr_sim *sim, enum vr_sim_kind kind, uint64_t ticket);
void vr_sim_ticket_give(struct vr_sim *sim, uint64_t ticket);

/* ----------------------------------------------------------------- sim_block.c */

/* A block in its owner's list with whatever its kind needs: memory of the device, contents,
   addresses. NULL, the call failing, when it is not to be had. */
struct vr_sim_block *vr_sim_block_make(struct vr_sim_call *call, enum vr_sim_kind kind,
                                       uint64_t bytes, uint64_t align);
/* Ends it and all it holds. Nothing is mapped of it, or in it. VRAM_OK, or the system's failure
   with the block as it was. */
vram_status vr_sim_block_end(struct vr_sim_block *block);
/* The block that has an address of its own and contains `addr`; NULL when there is none. */
struct vr_sim_block *vr_sim_range_at(struct vr_sim *sim, uint64_t addr);
/* The mapping that contains `addr`, or NULL. */
struct vr_sim_block *vr_sim_mapping_at(struct vr_sim *sim, uint64_t addr);
/* Puts a physical at a free place of a range; NULL without host memory. */
struct vr_sim_block *vr_sim_block_map(struct vr_sim_block *memory, struct vr_sim_block *range,
                                      uint64_t addr);
/* Ends a mapping. VRAM_OK, or the system's failure with all as it was. */
vram_status vr_sim_block_unmap(struct vr_sim_block *mapping);
/* What of a device's memory neither this process nor another one holds. */
uint64_t vr_sim_free_bytes(const struct vr_sim *sim, const struct vr_sim_gpu *gpu);
/* Ends a mapping's record without asking the system. */
void vr_sim_mapping_forget(struct vr_sim_block *mapping);

/* -------------------------------------------------------------- sim_contents.c */

/* The part of [addr, addr + bytes) that begins at `addr` and lies in one usable block. False: there
   is none. */
bool vr_sim_span_at(struct vr_sim *sim, uint64_t addr, uint64_t bytes, struct vr_sim_span *span);
/* Adds `change` to busy of every block in the range, which is whole. */
void vr_sim_touch(struct vr_sim *sim, uint64_t addr, uint64_t bytes, int change);
vram_status vr_sim_write(struct vr_sim *sim, uint64_t addr, const void *from, uint64_t bytes);
vram_status vr_sim_read(struct vr_sim *sim, void *to, uint64_t addr, uint64_t bytes);
vram_status vr_sim_copy(struct vr_sim *sim, uint64_t to, uint64_t from, uint64_t bytes);
vram_status vr_sim_fill(struct vr_sim *sim, uint64_t to, uint32_t pattern, uint32_t pattern_bytes,
                        uint64_t bytes);
/* Makes the file at least so long that [offset, offset + bytes) can be read and mapped. */
vram_status vr_sim_file_reach(struct vr_sim *sim, uint64_t offset, uint64_t bytes);

/* ---------------------------------------------------------------- sim_engine.c */

/* Finishes what is due now. May let go of the lock while kernels run. */
void vr_sim_advance(struct vr_sim *sim);
/* A wait's step: one tick on, and the clock at the next moment when work can be done. False: all
   there is waits for a kernel that runs. */
bool vr_sim_step(struct vr_sim *sim);
/* Finishes everything that can be, however long it takes. What is left waits for a kernel that the
   caller is inside of, or for a value that nobody has signalled since a lower one came late. */
void vr_sim_settle(struct vr_sim *sim);
/* Drops all work of a stream but what is running. */
void vr_sim_vanish(struct vr_sim *sim, struct vr_sim_stream *stream);
/* Lets go everyone who waits for a value of `queue` that is at most `value`. */
void vr_sim_pass(struct vr_sim_queue *queue, uint64_t value, uint64_t ns);
/* Numbers that depend on the seed alone. */
uint64_t vr_sim_random(struct vr_sim *sim);

/* ----------------------------------------------------------------- sim_queue.c */

/* Work for a queue, not yet submitted; NULL, the call failing, without host memory. */
struct vr_sim_work *vr_sim_work_make(struct vr_sim_call *call, struct vr_queue *queue);
/* Submits it; the memory it names becomes busy. */
void vr_sim_work_submit(struct vr_sim *sim, struct vr_sim_work *work);
/* Whether all of [addr, addr + bytes) is usable memory of device `gpu`; a breach otherwise. */
bool vr_sim_check_memory(struct vr_sim_call *call, const struct vr_sim_gpu *gpu, uint64_t addr,
                         uint64_t bytes);
/* A user of the stream goes; the last one frees it. */
void vr_sim_stream_leave(struct vr_sim_stream *stream);
/* Ends a queue without work; its word stays. */
void vr_sim_queue_free(struct vr_sim_queue *queue);
vr_managed_prefetch_fn vr_sim_prefetch;

/* ---------------------------------------------------------------- sim_memory.c */

/* Gives back a block of `kind` that begins at `addr`: free of every sort, and unreserve. */
vram_status vr_sim_give_back(struct vr_device *device, vram_sim_call call, enum vr_sim_kind kind,
                             uint64_t addr, uint64_t bytes);
/* Whether the block may be changed: owned by the caller, of this size, not in use by work. A breach
   otherwise. */
bool vr_sim_check_block(struct vr_sim_call *call, const struct vr_sim_block *block, uint64_t bytes);

/* ------------------------------------------------ sim_open.c and sim_backend.c */

vr_device_open_fn vr_sim_device_open;
vr_device_close_fn vr_sim_device_close;
vr_memory_info_fn vr_sim_memory_info;
vr_memory_others_fn vr_sim_memory_others;
/* Frees the machine; no device is open. */
void vr_sim_free(struct vr_sim *sim);

/* ---------------------------------------------------------------- sim_kernel.c */

void vr_sim_kernel_free(struct vr_sim_kernel *kernel);

/* ----------------------------------------------------------------- the tables */

extern const struct vr_device_ops vr_sim_device_ops;
extern const struct vr_queue_ops vr_sim_queue_ops;
vr_pinned_register_fn vr_sim_pinned_register; /* sim_register.c */
vr_pinned_unregister_fn vr_sim_pinned_unregister;
void vr_sim_registered_sweep(struct vr_sim_call *call);
extern const struct vr_pinned_ops vr_sim_pinned_ops;
extern const struct vr_vmm_ops vr_sim_vmm_ops;
extern const struct vr_managed_ops vr_sim_managed_ops;
extern const struct vr_peer_ops vr_sim_peer_ops;
extern const struct vr_kernel_ops vr_sim_kernel_ops;
extern const struct vr_sim_ops vr_sim_control_ops;
extern const struct vr_backend_ops vr_sim_backend;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_backend.h: what the files of the simulated driver share.
 *
 *   sim_backend.c   start, stop, description of the devices
 *   sim_config.c    reads the text that configures a simulation
 *   sim_profile.c   names of the calls, and what they cost
 *   sim_error.c     codes of the driver become statuses
 *   sim_device.c    opening and closing
 *   sim_memory.c    device, pinned and managed memory
 *   sim_vmm.c       virtual memory management
 *   sim_share.c     memory that other processes import
 *   sim_peer.c      devices that use each other's memory
 *   sim_queue.c     queues and streams
 *   sim_timeline.c  words; signals, waits, polls
 *   sim_copy.c      copies, fills, prefetches
 *   sim_kernel.c    kernels in C
 *   sim_call.c      begin and end of every call
 *   sim_fault.c     planned faults, lost devices, control of the simulation
 *   sim_engine.c    how submitted work completes
 *   sim_block.c     blocks: memory, addresses, or both
 *   sim_contents.c  the contents of memory
 *   sim_handle.c    handles
 *   sim_map.c       an ordered map of addresses
 *
 *   vr_sim                one simulated machine, of one context
 *     +- vr_sim_gpu[]     a device as hardware: its memory, its calls, whether it is lost
 *     +- vr_sim_device    an opened device; owns all below
 *          +- vr_sim_block   memory and addresses of every kind
 *          +- vr_sim_queue   what src/device knows as a queue, with its word
 *          |    +- vr_sim_stream   work in order; shared by queues of one native queue
 *          |         +- vr_sim_work
 *          +- vr_sim_kernel
 *
 * Rules
 *  (1) vr_sim.lock guards everything. It is the driver's own lock: src/device never holds it, and
 *      it is released while a kernel or log callback of the user runs.
 *  (2) Every operation is a call. vr_sim_begin takes the lock, counts, adds the cost, completes
 *      work and decides whether the call fails; vr_sim_end stores the result and unlocks. Nothing
 *      else accesses the machine, so no fault, loss or violation can be missed.
 *  (3) A block that submitted work uses has busy > 0 and is neither unmapped nor freed: the driver
 *      refuses. So work finds its memory where it was when it was submitted.
 *  (4) Violations of the protocol are recorded and refused; the driver never aborts.
 */
#ifndef VR_SIM_BACKEND_H
#define VR_SIM_BACKEND_H

#include "backend/backend.h"
#include "backend/sim/sim_config.h"
#include "backend/sim/sim_map.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/size.h"

#define VR_SIM_TEXT_MAX    192           /* bytes of a violation's text, with the 0 */
#define VR_SIM_TEXTS_MAX   64            /* violations kept as text */
#define VR_SIM_BOUNCE      (64 * VR_KIB) /* bytes moved at once between two blocks */
#define VR_SIM_SPARES_MAX  32            /* free address ranges kept for reuse */
#define VR_SIM_THREADS_MAX 8             /* threads that are known to have seen a loss */
#define VR_SIM_LIES_MAX    8             /* wrong addresses that are kept */

/* -------------------------------------------------------------------- memory */

enum vr_sim_kind {
    VR_SIM_KIND_ALLOC = 0,    /* device memory with an address */
    VR_SIM_KIND_PINNED = 1,   /* host pages */
    VR_SIM_KIND_MANAGED = 2,  /* host pages that the device may use as its own */
    VR_SIM_KIND_RANGE = 3,    /* addresses without memory */
    VR_SIM_KIND_PHYSICAL = 4, /* physical memory without an address */
    VR_SIM_KIND_MAPPING = 5,  /* physical memory mapped in a range */
    VR_SIM_KIND_QUEUE = 6,    /* only as kinds of handles */
    VR_SIM_KIND_KERNEL = 7
};

struct vr_sim_block {
    struct vr_link link; /* in vr_sim_device.blocks */
    struct vr_sim_device *device;
    enum vr_sim_kind kind;
    uint64_t addr;              /* first address; 0 for a physical */
    uint64_t bytes;             /* size */
    uint64_t offset;            /* offset of its contents in its file, if it has any */
    int file;                   /* of `shared` memory: its own; otherwise it is vr_sim.file */
    bool shared;                /* other processes may import it, or it was imported: sim_share.c */
    bool imported;              /* it takes no memory of this device */
    uint64_t handle;            /* handle of a physical */
    uint32_t busy;              /* number of uses by submitted work */
    uint32_t mappings;          /* number of mappings in a range, or of a physical */
    struct vr_sim_block *range; /* of a mapping */
    struct vr_sim_block *memory; /* the physical of a mapping */
    bool accessible;             /* a mapping with access */
    bool read_only;              /* and without writes */
    bool written;                /* otherwise it reads as zeros */
    bool refused;                /* freeing it met a planned fault: not a leak of the library */
    void *pages;                 /* host pages, or real addresses; NULL if synthetic */
};

/* A part of one block. */
struct vr_sim_span {
    struct vr_sim_block *block;
    uint64_t at;    /* offset in the block */
    uint64_t bytes; /* at most the requested bytes */
};

struct vr_sim_spare {
    uint64_t addr, bytes;
};

/* ------------------------------------------------------------------ hardware */

struct vr_sim_gpu {
    uint32_t index;
    uint64_t used_bytes; /* of config.memory_bytes */
    uint64_t others;     /* of them, held by other processes; bytes */
    uint64_t calls;      /* made on this device */
    bool lost;
    char lost_text[VR_SIM_TEXT_MAX]; /* why it was lost */
};

struct vr_sim_device {
    struct vr_sim *sim;
    struct vr_sim_gpu *gpu;
    struct vr_list blocks, queues, kernels, words, registered;
    uint64_t peers;                                /* bit i: may use the memory of device i */
    const void *told[VR_SIM_THREADS_MAX];          /* threads that have got DEVICE_LOST */
    uint64_t lies[VR_SIM_LIES_MAX];                /* wrong addresses that were returned; 0: none */
    struct vr_sim_spare spares[VR_SIM_SPARES_MAX]; /* the newest at spare_next - 1 */
    uint32_t spare_next;
};

/* ------------------------------------------------------------ queues and work */

/* The word of a queue. It outlives the queue and keeps its value, as backend.h requires. */
struct vr_sim_word {
    struct vr_link link; /* in vr_sim_device.words */
    vr_atomic_u64 value;
    bool taken;
};

struct vr_sim_stream {
    struct vr_link link; /* in vr_sim.streams, while it has work */
    struct vr_sim_gpu *gpu;
    void *native;        /* the program's pointer, or our handle */
    uint32_t users;      /* queues, and a thread that runs one of its kernels */
    struct vr_list work; /* oldest first */
    uint64_t free_ns;    /* when the last work completed */
    const void *runner;  /* thread that runs the first work's kernel without the lock, or NULL */
};

struct vr_sim_queue {
    struct vr_link link; /* in vr_sim_device.queues */
    struct vr_sim_device *device;
    struct vr_sim_stream *stream;
    struct vr_sim_word *word;
    struct vr_list
        waiters;        /* vr_sim_work.wait_link: work of other queues that waits for this word */
    uint64_t submitted; /* highest value submitted so far */
    uint32_t polls;     /* in a row, with nothing submitted in between */
    uint64_t handle;    /* its native pointer, if it is our own */
};

struct vr_sim_kernel {
    struct vr_link link; /* in vr_sim_device.kernels */
    struct vr_sim_device *device;
    vram_kernel_fn *code;
    uint64_t handle;
    uint32_t busy; /* launches that are not complete */
};

#define VR_SIM_ARGUMENTS_MAX 32 /* as in vram_launch */

/* A launch; its argument values are behind it. */
struct vr_sim_launch {
    struct vr_sim_kernel *kernel;
    vram_kernel_fn *code;
    vram_kernel_call call;
    uint32_t touched; /* bit i: argument i is an address of a block, which is busy */
    void *arguments[VR_SIM_ARGUMENTS_MAX];
    _Alignas(16) uint8_t values[];
};

struct vr_sim_work {
    struct vr_link link; /* in vr_sim_stream.work */
    struct vr_sim_stream *stream;
    struct vr_sim_queue *queue;
    vram_sim_call kind;    /* the call that submitted it */
    uint64_t submitted_ns; /* it starts no earlier */
    uint64_t cost_ns;      /* its duration */
    uint64_t ready_tick;   /* it completes when vr_sim.ticks has reached this, or later */
    uint64_t tie;          /* decides the order at the same time */
    uint64_t to, from;     /* device addresses; 0: none */
    uint64_t bytes;
    void *to_host;         /* download */
    const void *from_host; /* upload */
    uint32_t pattern, pattern_bytes;
    uint64_t value;           /* signal: the value to write */
    struct vr_link wait_link; /* in vr_sim_queue.waiters, while it waits for another queue */
    uint64_t passed_ns;       /* when the other queue reached the value */
    struct vr_sim_launch *launch;
};

/* ---------------------------------------------------------------- the machine */

struct vr_sim_handle {
    void *object; /* NULL: free */
    enum vr_sim_kind kind;
    uint32_t generation;
    uint32_t next; /* next free handle */
};

struct vr_sim {
    struct vr_mutex lock;
    struct vr_backend *backend;
    struct vr_sim_config config;
    uint32_t devices_open; /* number of open devices */
    bool stopped;          /* stop was called while a device was open */
    bool refused;          /* a signal or poll failed: the library cannot know what is complete */
    uint64_t calls;        /* made so far */
    uint64_t ticks;        /* calls, and steps of waits */
    uint64_t clock_ns;
    uint64_t random; /* state of vr_sim_random */
    uint64_t faults, violations;
    uint64_t live_bytes, live_handles;

    struct vram_sim_fault plan; /* nth 0: none */
    uint64_t plan_seen;         /* matching calls since it was set */

    struct vr_sim_map ranges;   /* blocks with addresses of their own */
    struct vr_sim_map mappings; /* mapped handles */
    struct vr_sim_handle *handles;
    uint32_t handle_count, handle_free; /* index of a free handle + 1; 0: none */
    struct vr_list streams;             /* those with work */

    int file;            /* contents of device memory, sparse; -1 until a device is opened */
    uint64_t file_next;  /* offset for the next block's contents; never reused */
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
    struct vr_sim_device *device; /* NULL in device_open */
    vram_sim_call kind;
    uint64_t number;    /* in the journal; 0: no call, on a lost device */
    uint64_t cost_ns;   /* host time that it costs */
    uint64_t addr;      /* the address or handle in question */
    int32_t code;       /* its result */
    vram_status status; /* not OK: the operating system failed; its error record stands */
    bool planned;       /* the code comes from the fault plan */
    vram_sim_lie lie;   /* not NONE: return lie_addr and do nothing */
    uint64_t lie_addr;
    char text[VR_SIM_TEXT_MAX];     /* for the error record; "": only the code */
    char log_text[VR_SIM_TEXT_MAX]; /* for the log, after the unlock */
    vram_log_level log_level;
};

/* ------------------------------------------------------------------ sim_call.c */

/* Begins a call. False: it fails with call->code. In both cases vr_sim_end must follow; until then
   the lock is held. */
bool vr_sim_begin(struct vr_sim_call *call, struct vr_device *device, vram_sim_call kind,
                  uint64_t addr, uint64_t bytes);
/* The same for functions marked [lost]: on a lost device it is not a call, and succeeds. */
bool vr_sim_begin_lost(struct vr_sim_call *call, struct vr_device *device, vram_sim_call kind,
                       uint64_t addr, uint64_t bytes);
/* Ends the call: converts the code into a status and an error record. */
vram_status vr_sim_end(struct vr_sim_call *call);
/* The same for functions that cannot fail: it logs instead. */
void vr_sim_end_void(struct vr_sim_call *call);
/* Makes the call fail with `code`; returns false. */
bool vr_sim_refuse(struct vr_sim_call *call, int32_t code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Makes the call fail with the system's error, unless `status` is VRAM_OK; returns whether it
   is. */
bool vr_sim_system(struct vr_sim_call *call, vram_status status);
/* Records a violation of the protocol and makes the call fail; returns false. */
bool vr_sim_violation(struct vr_sim_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ----------------------------------------------------------------- sim_fault.c */

/* Whether the plan applies to this call: sets its code or its lie. */
bool vr_sim_fault_inject(struct vr_sim_call *call);
/* Whether `addr` is a wrong address returned earlier; removes it from the list. */
bool vr_sim_lie_take(struct vr_sim_device *owner, uint64_t addr);
/* Loses a device: its pending work is dropped. */
void vr_sim_gpu_lose(struct vr_sim *sim, struct vr_sim_gpu *gpu, const char *why);
/* Returns DEVICE_LOST, and checks whether the caller should have known. Returns false. */
bool vr_sim_lost_result(struct vr_sim_call *call);

/* ----------------------------------------------------------------- sim_error.c */

vram_status vr_sim_status_of(int32_t code);
const char *vr_sim_code_text(int32_t code);

/* ---------------------------------------------------------------- sim_handle.c */

/* A handle for an object, never 0; 0 if host memory ran out. */
uint64_t vr_sim_handle_take(struct vr_sim *sim, enum vr_sim_kind kind, void *object);
/* The object; NULL for any number that is not a live handle of this kind. */
void *vr_sim_handle_find(struct vr_sim *sim, enum vr_sim_kind kind, uint64_t handle);
void vr_sim_handle_give(struct vr_sim *sim, uint64_t handle);

/* ----------------------------------------------------------------- sim_block.c */

/* Creates a block with what its kind needs: device memory, contents, addresses. NULL, with the call
   failing, if that is not available. */
struct vr_sim_block *vr_sim_block_make(struct vr_sim_call *call, enum vr_sim_kind kind,
                                       uint64_t bytes, uint64_t align);
/* A physical block on memory of another process, in `file`, which it then owns. */
struct vr_sim_block *vr_sim_block_import(struct vr_sim_call *call, uint64_t bytes, int file);
/* Puts the contents of a new physical block into a file of its own. */
void vr_sim_block_share(struct vr_sim_block *block, int file);
/* The file with a block's contents; sim_contents.c. */
int vr_sim_block_file(const struct vr_sim_block *block);
/* Frees it with all it has. It has no mappings. VRAM_OK, or the system's failure with the block
   unchanged. */
vram_status vr_sim_block_end(struct vr_sim_block *block);
/* The block with addresses of its own that contains `addr`; NULL if there is none. */
struct vr_sim_block *vr_sim_range_at(struct vr_sim *sim, uint64_t addr);
/* The mapping that contains `addr`, or NULL. */
struct vr_sim_block *vr_sim_mapping_at(struct vr_sim *sim, uint64_t addr);
/* Maps a physical at a free place of a range; NULL if host memory ran out. */
struct vr_sim_block *vr_sim_block_map(struct vr_sim_block *memory, struct vr_sim_block *range,
                                      uint64_t addr);
/* Unmaps. VRAM_OK, or the system's failure with everything unchanged. */
vram_status vr_sim_block_unmap(struct vr_sim_block *mapping);
/* Memory of a device that neither this process nor another one has. */
uint64_t vr_sim_free_bytes(const struct vr_sim *sim, const struct vr_sim_gpu *gpu);
/* Removes a mapping's record without a system call. */
void vr_sim_mapping_forget(struct vr_sim_block *mapping);

/* -------------------------------------------------------------- sim_contents.c */

/* The part of [addr, addr + bytes) that begins at `addr` and lies in one usable block. False: there
   is none. */
bool vr_sim_span_at(struct vr_sim *sim, uint64_t addr, uint64_t bytes, struct vr_sim_span *span);
/* Adds `change` to busy of every block in the range, which has no gaps. */
void vr_sim_busy_add(struct vr_sim *sim, uint64_t addr, uint64_t bytes, int change);
vram_status vr_sim_write(struct vr_sim *sim, uint64_t addr, const void *from, uint64_t bytes);
vram_status vr_sim_read(struct vr_sim *sim, void *to, uint64_t addr, uint64_t bytes);
vram_status vr_sim_copy(struct vr_sim *sim, uint64_t to, uint64_t from, uint64_t bytes);
vram_status vr_sim_fill(struct vr_sim *sim, uint64_t to, uint32_t pattern, uint32_t pattern_bytes,
                        uint64_t bytes);
/* Makes the file long enough that [offset, offset + bytes) can be read and mapped. */
vram_status vr_sim_file_reach(struct vr_sim *sim, uint64_t offset, uint64_t bytes);

/* ---------------------------------------------------------------- sim_engine.c */

/* Completes all work that is due. May release the lock while kernels run. */
void vr_sim_advance(struct vr_sim *sim);
/* One step of a wait: advances ticks by one, and the clock to the next time at which work
   completes. False: all work waits for a kernel that is running. */
bool vr_sim_step(struct vr_sim *sim);
/* Completes all work that can complete, however long it takes. What is left waits for a kernel
   that the caller is inside of, or for a value that was not signalled again after a lower one
   came late. */
void vr_sim_finish_all(struct vr_sim *sim);
/* Drops all work of a stream but what is running. */
void vr_sim_stream_clear(struct vr_sim *sim, struct vr_sim_stream *stream);
/* Ends all waits for a value of `queue` that is at most `value`. */
void vr_sim_waiters_release(struct vr_sim_queue *queue, uint64_t value, uint64_t ns);
/* Random numbers that depend on the seed alone. */
uint64_t vr_sim_random(struct vr_sim *sim);

/* ----------------------------------------------------------------- sim_queue.c */

/* Work for a queue, not yet submitted; NULL, with the call failing, if host memory ran out. */
struct vr_sim_work *vr_sim_work_make(struct vr_sim_call *call, struct vr_queue *queue);
/* Submits it; the memory that it uses becomes busy. */
void vr_sim_work_submit(struct vr_sim *sim, struct vr_sim_work *work);
/* Whether all of [addr, addr + bytes) is usable memory of device `gpu`, for reads or for writes; if
   not, a violation. */
bool vr_sim_check_memory(struct vr_sim_call *call, const struct vr_sim_gpu *gpu, uint64_t addr,
                         uint64_t bytes, bool write);
/* Drops a user of the stream; the last one frees it. */
void vr_sim_stream_leave(struct vr_sim_stream *stream);
/* Frees a queue without work; its word stays. */
void vr_sim_queue_free(struct vr_sim_queue *queue);

/* -------------------------------------------------------------- sim_timeline.c */

/* A word that no queue uses, or a new one; NULL without host memory. */
struct vr_sim_word *vr_sim_word_take(struct vr_sim_device *owner);
vr_queue_signal_fn vr_sim_queue_signal;
vr_queue_after_fn vr_sim_queue_after;
vr_queue_poll_fn vr_sim_queue_poll;

/* ------------------------------------------------------------------ sim_copy.c */

vr_queue_upload_fn vr_sim_queue_upload;
vr_queue_download_fn vr_sim_queue_download;
vr_queue_copy_fn vr_sim_queue_copy;
vr_queue_fill_fn vr_sim_queue_fill;
vr_managed_prefetch_fn vr_sim_prefetch;

/* ---------------------------------------------------------------- sim_memory.c */

/* Frees the block of `kind` that begins at `addr`: every kind of free, and unreserve. */
vram_status vr_sim_block_free(struct vr_device *device, vram_sim_call kind,
                              enum vr_sim_kind block_kind, uint64_t addr, uint64_t bytes);
/* Whether the block may be changed: it belongs to the caller, has this size, and no work uses it.
   If not, a violation. */
bool vr_sim_check_block(struct vr_sim_call *call, const struct vr_sim_block *block, uint64_t bytes);

/* Releases what is still registered; each is a violation. */
void vr_sim_registered_sweep(struct vr_sim_call *call);

/* ---------------------------------------------- sim_device.c and sim_backend.c */

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
extern const struct vr_pinned_ops vr_sim_pinned_ops;
extern const struct vr_vmm_ops vr_sim_vmm_ops;
extern const struct vr_share_ops vr_sim_share_ops;
extern const struct vr_managed_ops vr_sim_managed_ops;
extern const struct vr_peer_ops vr_sim_peer_ops;
extern const struct vr_kernel_ops vr_sim_kernel_ops;
extern const struct vr_sim_ops vr_sim_control_ops;
extern const struct vr_backend_ops vr_sim_backend;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/sim.h: the simulated GPU, and how to inject faults.
 *
 * A simulated device behaves like any other device. It lets a program try the library without a
 * GPU, replay traces on hardware it does not have, and test what happens if a driver fails. Text in
 * vram_context_options.sim, the option `sim` or VRAM_SIM configures it, as "key=value,key=value":
 *
 *   devices=N     how many (1; 0 to 64)                   memory=SIZE   of each (64K to 1024T; as
 *                                                         the profile: 8G, h200 139.8G)
 *   granule=SIZE  VMM granule, a power of two (2M)        profile=NAME  times: none, h200 (none)
 *   vmm=on|off    virtual memory management (on)          info=on|off   reports free memory (on)
 *   seed=N        of lag and order (1)                    journal=N     calls recorded (1024)
 *   others=SIZE   memory of each that another process holds (0; at most memory)
 *   lag=N         work completes up to N calls late (0; 0 to 10000)
 *   alias=on|off  one handle may be mapped at several addresses (on)
 *   real=on|off   addresses that the host may dereference, and kernels (off)
 *   lose=N[:D]    every device, or only device D, is lost at its n-th call
 *   fault=CALL:N[:CODE[:forever]]  as vram_sim_fault. CALL is a name of VRAM_SIM_CALL_MAP. CODE is
 *                 a number, a code of vram_sim_code in lower case (default: out_of_memory), or one
 *                 of the wrong results null, misaligned and overlap
 *
 * Unless real=on, addresses are synthetic, outside what a process can access. Contents are kept all
 * the same, in sparse host memory that grows only with what is written. Memory that was never
 * written reads as zeros.
 *
 * Time is a virtual clock. Every call advances it by the time that the call takes in the profile,
 * so that what one thread does repeats exactly, whoever reads statistics or live pages meanwhile.
 * With several threads it depends on which of them comes first.
 * Work takes effect when it is due by that clock and the lag, in the order of its queue, and never
 * inside the call that submitted it. It happens in a later call, or in a poll, which advances the
 * clock to the next work that is due.
 */
#ifndef VRAM_SIM_H
#define VRAM_SIM_H

#include <vram/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The simulated driver's entry points, for faults and the journal: X(NAME, "name"). */
#define VRAM_SIM_CALL_MAP(X)                                                                       \
    X(ANY, "any")                                                                                  \
    X(DEVICE_OPEN, "device_open")                                                                  \
    X(DEVICE_CLOSE, "device_close")                                                                \
    X(MEMORY_INFO, "memory_info")                                                                  \
    X(ALLOC, "alloc")                                                                              \
    X(FREE, "free")                                                                                \
    X(PINNED_ALLOC, "pinned_alloc")                                                                \
    X(PINNED_FREE, "pinned_free")                                                                  \
    X(MANAGED_ALLOC, "managed_alloc")                                                              \
    X(MANAGED_FREE, "managed_free")                                                                \
    X(PREFETCH, "prefetch")                                                                        \
    X(RESERVE, "reserve")                                                                          \
    X(UNRESERVE, "unreserve")                                                                      \
    X(CREATE, "create")                                                                            \
    X(RELEASE, "release")                                                                          \
    X(MAP, "map")                                                                                  \
    X(ACCESS, "access")                                                                            \
    X(UNMAP, "unmap")                                                                              \
    X(PEER_ENABLE, "peer_enable")                                                                  \
    X(PEER_COPY, "peer_copy")                                                                      \
    X(QUEUE_CREATE, "queue_create")                                                                \
    X(QUEUE_DESTROY, "queue_destroy")                                                              \
    X(UPLOAD, "upload")                                                                            \
    X(DOWNLOAD, "download")                                                                        \
    X(COPY, "copy")                                                                                \
    X(FILL, "fill")                                                                                \
    X(SIGNAL, "signal")                                                                            \
    X(AFTER, "after")                                                                              \
    X(POLL, "poll")                                                                                \
    X(KERNEL_LOAD, "kernel_load")                                                                  \
    X(KERNEL_UNLOAD, "kernel_unload")                                                              \
    X(LAUNCH, "launch")                                                                            \
    X(PINNED_REGISTER, "pinned_register")                                                          \
    X(PINNED_UNREGISTER, "pinned_unregister")                                                      \
    X(EXPORT, "export")                                                                            \
    X(IMPORT, "import")

typedef enum vram_sim_call {
#define VRAM_SIM_CALL_ENUM(NAME, name) VRAM_SIM_##NAME,
    VRAM_SIM_CALL_MAP(VRAM_SIM_CALL_ENUM)
#undef VRAM_SIM_CALL_ENUM
        VRAM_SIM_CALL_COUNT
} vram_sim_call;

/** The name in VRAM_SIM_CALL_MAP; "unknown" for any other number. Static storage. */
VRAM_API const char *vram_sim_call_name(vram_sim_call call);

/** Codes that the simulated driver returns. Any other number may be injected as well. */
typedef enum vram_sim_code {
    VRAM_SIM_SUCCESS = 0,
    VRAM_SIM_INVALID_VALUE = 1,
    VRAM_SIM_OUT_OF_MEMORY = 2,
    VRAM_SIM_NOT_SUPPORTED = 3,
    VRAM_SIM_NOT_READY = 4,
    VRAM_SIM_HOST_MEMORY = 5,
    VRAM_SIM_DEVICE_LOST = 6,  /* as a planned fault: the device of that call is lost */
    VRAM_SIM_DEINITIALIZED = 7 /* called after the driver was stopped */
} vram_sim_code;

/**
 * A wrong result that claims success, for calls that return an address or handle: alloc,
 * pinned_alloc, managed_alloc, reserve and create. Nothing is allocated, so there is nothing to
 * free.
 */
typedef enum vram_sim_lie {
    VRAM_SIM_LIE_NONE = 0,
    VRAM_SIM_LIE_NULL = 1,       /* address or handle 0 */
    VRAM_SIM_LIE_MISALIGNED = 2, /* an address off its granule; not for create */
    VRAM_SIM_LIE_OVERLAP = 3     /* an address that is in use; a correct one if none is */
} vram_sim_lie;

/** One planned failure. */
typedef struct vram_sim_fault {
    size_t size;        /* sizeof(vram_sim_fault) */
    vram_sim_call call; /* which entry point; VRAM_SIM_ANY: all, with a lie those above */
    uint64_t nth;       /* the n-th such call from now fails, n >= 1 */
    bool for_ever;      /* and at every later one */
    int32_t code;       /* the code it returns; 0 with a lie */
    vram_sim_lie lie;
} vram_sim_fault;

/**
 * Plans a fault for all simulated devices of the context, instead of the last one; NULL plans none.
 * VRAM_ERR_INVALID for an impossible fault: nth 0, both a code and a lie, or neither, or a call
 * that cannot return a wrong result. A call without a result (queue_destroy, kernel_unload,
 * device_close) takes effect even if it was to fail.
 */
VRAM_API vram_status vram_sim_fault_set(vram_context *context, const vram_sim_fault *fault);

/** What the simulated driver has recorded. */
typedef struct vram_sim_state {
    size_t size;           /* in: sizeof(vram_sim_state) of the caller */
    uint64_t calls;        /* of all kinds, since the context was created */
    uint64_t faults;       /* planned faults that happened */
    uint64_t violations;   /* of the rules of drivers; see vram_sim_violation */
    uint64_t live_bytes;   /* device memory allocated and not freed */
    uint64_t live_handles; /* native objects created and not destroyed: opened devices, memory of
                              all kinds, ranges, physical handles, queues, kernels */
    uint64_t clock_ns;     /* virtual time */
} vram_sim_state;

VRAM_API vram_status vram_sim_state_get(vram_context *context, vram_sim_state *state);

/**
 * Advances virtual time by `ns` without a call of the host: work that is due by then completes.
 * Replays use it to follow the times of a program. Stops at the end of 64 bits.
 */
VRAM_API vram_status vram_sim_clock_advance(vram_context *context, uint64_t ns);

/**
 * Sets how much of a simulated device's memory other processes hold from now on, like others=SIZE
 * at the start; `device` counts simulated devices from 0. Memory of this process stays: if both
 * together exceed the device's memory, the driver reports 0 free bytes. VRAM_ERR_INVALID for more
 * than the device's memory, VRAM_ERR_NO_DEVICE if there is no such device.
 */
VRAM_API vram_status vram_sim_others_set(vram_context *context, uint32_t device, uint64_t bytes);

/** A recorded call. */
typedef struct vram_sim_entry {
    uint64_t number;   /* 1 for the first call ever */
    uint64_t clock_ns; /* virtual time of the call */
    uint32_t device;
    vram_sim_call call;
    uint64_t addr; /* address, handle or value; 0: none */
    uint64_t bytes;
    int32_t code; /* the result */
} vram_sim_entry;

/** The recorded call `back` calls ago; 0 is the last. VRAM_ERR_INVALID if it is not recorded. */
VRAM_API vram_status vram_sim_journal_get(vram_context *context, uint64_t back,
                                          vram_sim_entry *entry);

/**
 * Text of violation `index`, oldest first; the first 64 are kept. VRAM_ERR_INVALID if there is
 * none.
 */
VRAM_API vram_status vram_sim_violation(vram_context *context, uint64_t index, char *text,
                                        size_t text_bytes);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/sim.h: the simulated GPU, and how to make it misbehave.
 *
 * Simulated devices take part like any other: try the library without a GPU, replay traces on a
 * card one does not own, and see what a program does when a driver fails. They are configured by
 * text, in vram_context_options.sim, the option `sim` or VRAM_SIM, as "key=value,key=value":
 *
 *   devices=N     how many (1; 0 to 64)                   memory=SIZE   of each (8G; 64K to 1024T)
 *   granule=SIZE  VMM granule, a power of two (2M)        profile=NAME  prices: none, h200 (none)
 *   vmm=on|off    virtual memory management (on)          info=on|off   tells free memory (on)
 *   seed=N        of lag and order (1)                    journal=N     calls remembered (1024)
 *   others=SIZE   memory of each that another process holds (0; at most memory)
 *   lag=N         work is done up to N calls late (0; 0 to 10000)
 *   alias=on|off  one handle may be mapped at several addresses (on)
 *   real=on|off   addresses that the host may dereference, and kernels (off)
 *   lose=N[:D]    every device, or only device D, is lost at its n-th call
 *   fault=CALL:N[:CODE[:forever]]  as vram_sim_fault. CALL is a name of VRAM_SIM_CALL_MAP; CODE a
 *                 number, a code of vram_sim_code in small letters (out_of_memory, which is also
 *                 the
 *                 default), or the lie null, misaligned or overlap
 *
 * Addresses are synthetic, outside what a process can touch, unless real=on; contents are kept all
 * the same, in sparse host memory that only grows with what is written. Memory that was never
 * written reads as zeros. Time is a virtual clock that every call advances by its price, so results
 * repeat exactly. Work submitted to a queue takes effect when that clock (and the lag) says it is
 * done, in the order of its queue, and never inside the call that submitted it: at a later call, or
 * at a poll, which moves the clock to the next work that can be done.
 */
#ifndef VRAM_SIM_H
#define VRAM_SIM_H

#include <vram/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The simulated driver's entry points: X(NAME, "name"). They are what faults and journal speak of.
 */
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
    X(PINNED_UNREGISTER, "pinned_unregister")

typedef enum vram_sim_call {
#define VRAM_SIM_CALL_ENUM(NAME, name) VRAM_SIM_##NAME,
    VRAM_SIM_CALL_MAP(VRAM_SIM_CALL_ENUM)
#undef VRAM_SIM_CALL_ENUM
        VRAM_SIM_CALL_COUNT
} vram_sim_call;

/** The name in VRAM_SIM_CALL_MAP; "unknown" for any other number. Static storage. */
VRAM_API const char *vram_sim_call_name(vram_sim_call call);

/** Codes the simulated driver answers with. Any other number may be injected as well. */
typedef enum vram_sim_code {
    VRAM_SIM_SUCCESS = 0,
    VRAM_SIM_INVALID_VALUE = 1,
    VRAM_SIM_OUT_OF_MEMORY = 2,
    VRAM_SIM_NOT_SUPPORTED = 3,
    VRAM_SIM_NOT_READY = 4,
    VRAM_SIM_HOST_MEMORY = 5,
    VRAM_SIM_DEVICE_LOST = 6,  /* as a planned fault it loses the device that the call was for */
    VRAM_SIM_DEINITIALIZED = 7 /* called after the driver was stopped */
} vram_sim_code;

/**
 * A result that claims success and is wrong, for the calls that return an address or handle: alloc,
 * pinned_alloc, managed_alloc, reserve and create. Nothing is taken, so there is nothing to give
 * back.
 */
typedef enum vram_sim_lie {
    VRAM_SIM_LIE_NONE = 0,
    VRAM_SIM_LIE_NULL = 1,       /* success with address or handle 0 */
    VRAM_SIM_LIE_MISALIGNED = 2, /* success with an address off its granule; not for create */
    VRAM_SIM_LIE_OVERLAP = 3 /* success with what is in use already; the truth when nothing is */
} vram_sim_lie;

/** One planned failure. */
typedef struct vram_sim_fault {
    size_t size;        /* sizeof(vram_sim_fault) */
    vram_sim_call call; /* which entry point; VRAM_SIM_ANY for all, with a lie all that can lie */
    uint64_t nth;       /* strikes at the n-th such call from now, n >= 1 */
    bool for_ever;      /* and at every later one */
    int32_t code;       /* the code it answers; 0 with a lie */
    vram_sim_lie lie;
} vram_sim_fault;

/**
 * Plans a fault for all simulated devices of the context; NULL plans none. Replaces the last.
 * VRAM_ERR_INVALID for a fault that cannot be: nth 0, a code and a lie, or neither, a call that
 * cannot lie. A call that returns nothing (queue_destroy, kernel_unload, device_close) is done even
 * when a fault strikes it.
 */
VRAM_API vram_status vram_sim_fault_set(vram_context *context, const vram_sim_fault *fault);

/** What the simulated driver has seen. */
typedef struct vram_sim_state {
    size_t size;           /* in: sizeof(vram_sim_state) of the caller */
    uint64_t calls;        /* of all kinds, since the context was made */
    uint64_t faults;       /* planned faults that struck */
    uint64_t violations;   /* breaches of the drivers' protocol; vram_sim_violation tells them */
    uint64_t live_bytes;   /* device memory taken and not given back */
    uint64_t live_handles; /* native objects made and not destroyed: opened devices, memory of all
                              kinds, ranges, physical handles, queues, kernels */
    uint64_t clock_ns;     /* virtual time */
} vram_sim_state;

VRAM_API vram_status vram_sim_state_get(vram_context *context, vram_sim_state *state);

/**
 * Lets `ns` of virtual time pass in which the host calls nothing: work that is due by then is done.
 * Replays use it to keep to the times of a program. Stops at the end of 64 bits.
 */
VRAM_API vram_status vram_sim_clock_advance(vram_context *context, uint64_t ns);

/**
 * Says how much of a simulated device's memory other processes hold from now on, as others=SIZE
 * says it at the start; `device` counts simulated devices from 0. What is held by this process
 * stays: the driver tells 0 free bytes when both together are more than there is. VRAM_ERR_INVALID
 * for more than the device's memory, VRAM_ERR_NO_DEVICE past the last device.
 */
VRAM_API vram_status vram_sim_others_set(vram_context *context, uint32_t device, uint64_t bytes);

/** One remembered call. */
typedef struct vram_sim_entry {
    uint64_t number;   /* 1 for the first call ever */
    uint64_t clock_ns; /* virtual time when it was made */
    uint32_t device;
    vram_sim_call call;
    uint64_t addr; /* address, handle or value it concerned, 0 when none */
    uint64_t bytes;
    int32_t code; /* what it answered */
} vram_sim_entry;

/**
 * The remembered call `back` calls ago; 0 is the last. VRAM_ERR_INVALID when it is not remembered.
 */
VRAM_API vram_status vram_sim_journal_get(vram_context *context, uint64_t back,
                                          vram_sim_entry *entry);

/** Text of violation `index`, oldest first; the first 64 are kept. VRAM_ERR_INVALID past them. */
VRAM_API vram_status vram_sim_violation(vram_context *context, uint64_t index, char *text,
                                        size_t text_bytes);

#ifdef __cplusplus
}
#endif

#endif

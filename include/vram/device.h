/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/device.h: contexts, backends, devices and their coarse memory.
 *
 * A context finds every backend (cuda, hip, metal, vulkan, opencl, sim, host) and every device
 * behind it. A backend that is absent is not an error: it has a reason that can be read.
 * Memory from vram_device_alloc comes straight from the driver in whole granules: it is what pools
 * are made of, and the honest base line to compare them with.
 */
#ifndef VRAM_DEVICE_H
#define VRAM_DEVICE_H

#include <vram/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vram_vulkan_adoption;

typedef struct vram_context vram_context; /* root of all objects */
typedef struct vram_device vram_device;   /* one opened device */

/**
 * An address on any device, unique in the process. 0 is no address. It is the true device address
 * where the driver shares the process's address space (VRAM_CAP_TRUE_ADDRESS); elsewhere it lies
 * in a range that libvram reserves, and arithmetic on it works all the same.
 */
typedef uint64_t vram_addr;

/* ----------------------------------------------------------------- contexts */

typedef struct vram_context_options {
    size_t size;          /* sizeof(vram_context_options) */
    const char *backends; /* only these, "cuda,host"; NULL: the option `backends`, then all */
    const char *sim;      /* simulated devices as in VRAM_SIM; NULL: the option `sim` */
    const struct vram_vulkan_adoption *vulkan; /* the program's own VkDevice; vram/vulkan.h */
    const struct vram_opencl_adoption *opencl; /* the program's own cl_context; vram/opencl.h */
    const struct vram_metal_adoption *metal;   /* the program's own MTLDevice; vram/metal.h */
} vram_context_options;

/**
 * Loads every driver that is there and finds the devices. Drivers that are missing or broken are
 * noted, not reported as failure. Costs milliseconds to seconds (drivers start up).
 * VRAM_ERR_INVALID for an unknown backend name or unreadable simulation text.
 */
VRAM_API vram_status vram_context_create(const vram_context_options *options,
                                         vram_context **context);

/**
 * Ends the context with all devices, queues, pools and memory below it, all queues before any
 * memory. Waits for submitted work up to the option `wait_timeout`; unfinished work keeps the
 * memory it may use, and the answer is VRAM_ERR_TIMEOUT, as vram_device_close says. NULL is
 * allowed. After a fork, in the child, it only forgets.
 *
 * Every destroy, close and end of an object answers alike. NULL is VRAM_OK. The handle is gone
 * whatever the status, except where the header names the failure: vram_queue_end and
 * vram_capture_end (VRAM_ERR_TIMEOUT, _CAPTURE), vram_queue_destroy of an adopted queue
 * (VRAM_ERR_INVALID), vram_physical_destroy and vram_ring_destroy (VRAM_ERR_BUSY). A handle that
 * has gone is VRAM_ERR_STALE, also while another thread is ending it; what never was one is
 * VRAM_ERR_INVALID. While the process exits, and in a forked child, nothing is freed and the answer
 * is VRAM_OK.
 */
VRAM_API vram_status vram_context_destroy(vram_context *context);

/* ----------------------------------------------------------------- backends */

typedef struct vram_backend_info {
    size_t size;           /* in: sizeof(vram_backend_info) of the caller */
    const char *name;      /* "cuda"; static storage */
    bool present;          /* whether it was started */
    uint32_t device_count; /* devices it showed; 0 when absent */
    char version[64];      /* driver version as people write it, "13.0"; "" when unknown */
    char reason[VRAM_ERROR_TEXT_MAX]; /* when absent: why, and the mend; else "" */
} vram_backend_info;

/** How many backends this build knows, present or not. 0 for a stale context. */
VRAM_API uint32_t vram_backend_count(vram_context *context);

/** Describes backend `index`, in order of preference. VRAM_ERR_INVALID past the end. */
VRAM_API vram_status vram_backend_info_get(vram_context *context, uint32_t index,
                                           vram_backend_info *info);

/* ------------------------------------------------------------------ devices */

/** Every capability: X(NAME, bit, "name", "what it means"). */
#define VRAM_CAP_MAP(X)                                                                            \
    X(VMM, 0, "vmm", "virtual memory management: reserve, map, move physical memory")              \
    X(PINNED, 1, "pinned", "page-locked host memory that the device reads at full speed")          \
    X(MANAGED, 2, "managed", "memory that migrates between host and device")                       \
    X(PEERS, 3, "peers", "reads and writes the memory of another device directly")                 \
    X(KERNELS, 4, "kernels", "launches kernels through vram_queue_launch")                         \
    X(TRUE_ADDRESS, 5, "true_address", "a vram_addr is the device's own address")                  \
    X(HOST_ACCESS, 6, "host_access", "the host may dereference device memory")                     \
    X(MEMORY_INFO, 7, "memory_info", "the driver says how much memory is free")                    \
    X(ADOPT, 8, "adopt", "takes queues that the program made itself")                              \
    X(SIMULATED, 9, "simulated", "no hardware behind it; times are those of a model")              \
    X(ALIAS, 10, "alias", "maps one handle of physical memory at several addresses")               \
    X(HANDLES, 11, "handles", "memory lies behind the driver's own objects; vram_native gives them")

typedef enum vram_cap {
#define VRAM_CAP_ENUM(NAME, bit, name, text) VRAM_CAP_##NAME = 1 << (bit),
    VRAM_CAP_MAP(VRAM_CAP_ENUM)
#undef VRAM_CAP_ENUM
} vram_cap;

typedef enum vram_device_kind {
    VRAM_DEVICE_GPU = 0,      /* discrete or integrated hardware */
    VRAM_DEVICE_CPU = 1,      /* plain host memory, or a driver that runs on the CPU */
    VRAM_DEVICE_SIMULATED = 2 /* src/backend/sim */
} vram_device_kind;

/** What is known of a device before it is opened. Unknown values say so; none is ever faked. */
typedef struct vram_device_info {
    size_t size;            /* in: sizeof(vram_device_info) of the caller */
    const char *backend;    /* "cuda"; static storage */
    uint32_t backend_index; /* the backend's own number of it */
    vram_device_kind kind;
    char name[128];             /* as the driver says it */
    char architecture[32];      /* "sm_90", "x86_64"; "" when unknown */
    bool uuid_known, pci_known; /* whether the next two fields hold anything */
    uint8_t uuid[16];           /* the same GPU has the same UUID in every backend */
    char pci[16];               /* "0000:3b:00.0" */
    uint32_t caps, caps_known;  /* bits of vram_cap; a bit outside caps_known is unknown */
    vram_value memory_bytes;    /* all memory of the device */
    vram_value alloc_granule;   /* vram_device_alloc rounds up to this; bytes */
    vram_value alloc_max;       /* largest single allocation; bytes */
    vram_value vmm_granule;     /* physical memory comes in multiples of this; bytes */
} vram_device_info;

/** Devices of all backends. 0 for a stale context. */
VRAM_API uint32_t vram_device_count(vram_context *context);

/**
 * Describes device `index` without opening it. The order is that of preference: real GPUs by
 * backend, then simulated devices, the host last. VRAM_ERR_NO_DEVICE past the end.
 */
VRAM_API vram_status vram_device_info_get(vram_context *context, uint32_t index,
                                          vram_device_info *info);

/**
 * The index of the device to use when the user did not choose: the first real GPU, else the host;
 * a simulated device only when nothing else is there or the user asked for a simulation.
 */
VRAM_API vram_status vram_device_best(vram_context *context, uint32_t *index);

/** What vram_device_select goes by. */
typedef struct vram_select_options {
    size_t size;       /* sizeof(vram_select_options) */
    uint64_t bytes;    /* of device memory that will be needed at once */
    const char *order; /* which devices, in this order: backends with or without an index,
                          "cuda:1,vulkan,host"; NULL: the option backend_order. Where that is empty,
                          real GPUs in the order of the devices, then the host; a simulation comes
                          first if the user asked for one, and else not at all. */
} vram_select_options;

/**
 * The index of the first device that has room for `bytes` now. Each device is opened to ask how
 * much is free (up to seconds with a cold driver); one that does not tell is trusted with four
 * fifths of its memory. The option device_limit counts. VRAM_ERR_DEVICE_MEMORY when none has room,
 * and the error text says what each had; _NO_DEVICE when the order names none that is there.
 */
VRAM_API vram_status vram_device_select(vram_context *context, const vram_select_options *options,
                                        uint32_t *index);

/**
 * Whether two descriptions, perhaps of two backends, are of one piece of hardware: its UUID, or the
 * PCI address where one of them has no UUID. False when that cannot be told, and for NULL.
 */
VRAM_API bool vram_device_same(const vram_device_info *a, const vram_device_info *b);

/**
 * Opens device `index`. Opening the same device twice gives two independent handles on it.
 * On CUDA this retains the primary context, the one the runtime API uses; the calling thread's
 * current context is left as it was, here and in every other call.
 */
VRAM_API vram_status vram_device_open(vram_context *context, uint32_t index, vram_device **device);

/**
 * Closes it with its queues, pools and memory, after their work and that of devices which read its
 * memory as a peer's. When that is not done within the option `wait_timeout` the handle is gone all
 * the same, but the memory is kept, since taking it away under running work would be worse: the
 * answer is VRAM_ERR_TIMEOUT, and the log says so, too. NULL is allowed.
 */
VRAM_API vram_status vram_device_close(vram_device *device);

/** The same as vram_device_info_get, of an opened device. */
VRAM_API vram_status vram_device_describe(vram_device *device, vram_device_info *info);

/**
 * Lets `device` reach the memory of `peer`, an opened device of the same backend, so that
 * vram_queue_copy may read from it. Doing so twice is fine. VRAM_ERR_UNSUPPORTED when the hardware
 * has no path between them.
 */
VRAM_API vram_status vram_device_peer_enable(vram_device *device, vram_device *peer);

/** Memory of a device at this moment. */
typedef struct vram_memory_info {
    size_t size;            /* in: sizeof(vram_memory_info) of the caller */
    vram_value total_bytes; /* the device's memory */
    vram_value free_bytes;  /* free by the driver's word: neither contiguous nor all for us */
    uint64_t held_bytes;    /* taken from the driver through this handle, all kinds, now */
    uint64_t held_peak_bytes;
    uint64_t held_count;   /* allocations and physical handles behind held_bytes */
    uint64_t driver_calls; /* operations of the backend called through this handle */
    bool lost;             /* the device was lost: nothing will work on it again */
} vram_memory_info;

/** Asks the driver (microseconds): sample it on a timer, not at every allocation. */
VRAM_API vram_status vram_memory_info_get(vram_device *device, vram_memory_info *info);

/* ------------------------------------------------------------ coarse memory */

typedef enum vram_memory_kind {
    VRAM_MEMORY_DEVICE = 0,  /* the device's own */
    VRAM_MEMORY_PINNED = 1,  /* page-locked host memory; addr is a host pointer */
    VRAM_MEMORY_MANAGED = 2, /* migrates; addr is a host pointer and a device address */
    VRAM_MEMORY_HOST = 3     /* plain host memory, of a pool that fell back (vram/oom.h) only */
} vram_memory_kind;

/**
 * Takes `bytes` from the driver, rounded up to the device's granule. Contents are undefined.
 * VRAM_ERR_INVALID for 0 bytes; _OVERFLOW when rounding does not fit; _LIMIT when the option
 * `device_limit` or alloc_max would be passed; _DEVICE_MEMORY when the device is full;
 * _UNSUPPORTED for a kind that the device lacks.
 */
VRAM_API vram_status vram_device_alloc(vram_device *device, uint64_t bytes, vram_memory_kind kind,
                                       vram_addr *addr);

/**
 * Gives memory back to the driver. `addr` is exactly what vram_device_alloc gave; 0 is allowed.
 * The caller has seen to it that no queue still uses it. Interior, foreign and already freed
 * addresses are VRAM_ERR_INVALID and change nothing.
 */
VRAM_API vram_status vram_device_free(vram_device *device, vram_addr addr);

/** How managed memory is going to be used. */
typedef enum vram_advice {
    VRAM_ADVICE_NONE = 0,          /* any way; takes back what was said before */
    VRAM_ADVICE_READ_MOSTLY = 1,   /* copies of it may be kept on both sides */
    VRAM_ADVICE_PREFER_DEVICE = 2, /* it should stay on the device */
    VRAM_ADVICE_PREFER_HOST = 3    /* it should stay in host memory */
} vram_advice;

/**
 * Says how a part of managed memory is going to be used. A hint: contents stay, and a driver that
 * knows no such thing takes it and does nothing. VRAM_ERR_UNSUPPORTED without VRAM_CAP_MANAGED,
 * VRAM_ERR_INVALID for other memory and other advice. 0 bytes do nothing.
 */
VRAM_API vram_status vram_device_advise(vram_device *device, vram_addr addr, uint64_t bytes,
                                        vram_advice advice);

/** What lies behind an address. */
typedef struct vram_native_info {
    size_t size;         /* in: sizeof(vram_native_info) of the caller */
    vram_device *device; /* borrowed */
    vram_memory_kind kind;
    vram_addr base;            /* first address of the allocation or reserved range, or of what
                                  `handle` stands for */
    uint64_t bytes;            /* its size */
    uint64_t offset;           /* addr - base: where in `handle` it lies */
    void *handle;              /* cl_mem, VkBuffer, MTLBuffer; NULL without VRAM_CAP_HANDLES, but
                                  for a cl_mem that was wrapped */
    vram_value device_address; /* what a kernel would use for addr */
    void *host_pointer;        /* for the host to dereference; NULL when it may not, and where
                                  nothing is mapped */
} vram_native_info;

/**
 * Looks an address up, interior ones too. VRAM_ERR_INVALID when no live memory of libvram is there,
 * VRAM_ERR_BUSY where a pool sleeps. No lock is taken, except to see what is mapped: in a range of
 * a device with VRAM_CAP_HOST_ACCESS, and in a pool of which a part is asleep.
 *
 * With VRAM_CAP_HANDLES the first address of a pool's block gives the handle that a kernel should
 * get: on OpenCL a sub-buffer of exactly that block, made when it is first asked for and good until
 * the block is freed; on others the buffer that the block lies in, with its offset. An address
 * inside a block gives the whole buffer of the pool's segment. Handles are borrowed: release none.
 */
VRAM_API vram_status vram_native(vram_addr addr, vram_native_info *info);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/device.h: contexts, backends, devices and their memory in whole granules.
 *
 * A context finds every backend (cuda, hip, metal, vulkan, opencl, sim, host) and its devices. A
 * missing backend is not an error: its info says why it is missing. Memory from vram_device_alloc
 * comes straight from the driver in whole granules. Pools are made of it, and it is the baseline to
 * compare them with.
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
 * An address on any device, unique in the process. 0 is not an address. With VRAM_CAP_TRUE_ADDRESS
 * it is the device's own address. Without it, it lies in a range that libvram reserves, and address
 * arithmetic works the same.
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
 * Loads every driver that is installed and finds the devices. A missing or broken driver is
 * recorded in its vram_backend_info and is not a failure. Takes milliseconds to seconds, because
 * drivers start up. VRAM_ERR_INVALID for an unknown backend name or invalid text in `sim`.
 */
VRAM_API vram_status vram_context_create(const vram_context_options *options,
                                         vram_context **context);

/**
 * Destroys the context and everything in it: all queues first, then memory, pools and devices.
 * Waits for submitted work up to the option `wait_timeout`. Memory that unfinished work may use is
 * kept, and the call returns VRAM_ERR_TIMEOUT, as vram_device_close does. NULL is allowed.
 *
 * All calls that destroy, close or end an object behave alike. NULL is VRAM_OK. The handle is gone
 * whatever the status, with these exceptions: vram_queue_end and vram_capture_end
 * (VRAM_ERR_TIMEOUT, _CAPTURE), vram_queue_destroy of an adopted queue (VRAM_ERR_INVALID),
 * vram_physical_destroy and vram_ring_destroy (VRAM_ERR_BUSY). A handle that is gone, or that
 * another thread is destroying, is VRAM_ERR_STALE; a value that never was a handle is
 * VRAM_ERR_INVALID. While the process exits, and in a forked child, nothing is freed and the call
 * returns VRAM_OK.
 */
VRAM_API vram_status vram_context_destroy(vram_context *context);

/* ----------------------------------------------------------------- backends */

typedef struct vram_backend_info {
    size_t size;                      /* in: sizeof(vram_backend_info) of the caller */
    const char *name;                 /* "cuda"; static storage */
    bool present;                     /* its driver was loaded and started */
    uint32_t device_count;            /* its devices; 0 if absent */
    char version[64];                 /* of the driver, "13.0"; "" if unknown */
    char reason[VRAM_ERROR_TEXT_MAX]; /* if absent: why, and what to do; else "" */
} vram_backend_info;

/** The number of backends in this build, present or not. 0 for a stale context. */
VRAM_API uint32_t vram_backend_count(vram_context *context);

/** Describes backend `index`, in order of preference. VRAM_ERR_INVALID if there is none. */
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
    X(HANDLES, 11, "handles",                                                                      \
      "memory lies behind the driver's own objects; vram_native gives them")                       \
    X(INTEGRATED, 12, "integrated", "a GPU that shares its memory with the host")                  \
    X(RDMA, 13, "rdma", "network cards may register its mapped memory (GPUDirect RDMA)")

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

/**
 * What is known of a device before it is opened. Values that are not known are marked so; none is
 * guessed.
 */
typedef struct vram_device_info {
    size_t size;            /* in: sizeof(vram_device_info) of the caller */
    const char *backend;    /* "cuda"; static storage */
    uint32_t backend_index; /* its number in the backend */
    vram_device_kind kind;
    char name[128];             /* from the driver */
    char architecture[32];      /* "sm_90", "x86_64"; "" if unknown */
    bool uuid_known, pci_known; /* whether the next two fields are set */
    uint8_t uuid[16];           /* the same GPU has the same UUID in every backend */
    char pci[16];               /* "0000:3b:00.0" */
    uint32_t caps, caps_known;  /* bits of vram_cap; a bit outside caps_known is unknown */
    vram_value memory_bytes;    /* all memory of the device */
    vram_value alloc_granule;   /* vram_device_alloc rounds up to this; bytes */
    vram_value alloc_max;       /* largest single allocation; bytes */
    vram_value vmm_granule;     /* physical memory comes in multiples of this; bytes */
} vram_device_info;

/** The number of devices of all backends. 0 for a stale context. */
VRAM_API uint32_t vram_device_count(vram_context *context);

/**
 * Describes device `index` without opening it. Devices are in order of preference: real GPUs by
 * backend, then simulated devices, the host last. VRAM_ERR_NO_DEVICE if there is none.
 */
VRAM_API vram_status vram_device_info_get(vram_context *context, uint32_t index,
                                          vram_device_info *info);

/**
 * The index of the device to use if the user did not choose: the first real GPU, else the host. A
 * simulated device only if there is nothing else or the user asked for a simulation.
 */
VRAM_API vram_status vram_device_best(vram_context *context, uint32_t *index);

/** What vram_device_select looks for. */
typedef struct vram_select_options {
    size_t size;       /* sizeof(vram_select_options) */
    uint64_t bytes;    /* device memory that is needed at the same time */
    const char *order; /* which devices, in this order: backends with or without an index,
                          "cuda:1,vulkan,host"; NULL: the option backend_order. If that is empty:
                          simulated devices if the user asked for a simulation, then real GPUs in
                          the order of the devices, then the host. */
} vram_select_options;

/**
 * The index of the first device that has `bytes` of free memory now. Opens each device to ask for
 * its free memory (up to seconds if the driver is not loaded yet). If a device does not report it,
 * four fifths of its memory count as free. The option device_limit applies. VRAM_ERR_DEVICE_MEMORY
 * if no device has enough, with the free memory of each in the error text; _NO_DEVICE if the order
 * names no device that is present.
 */
VRAM_API vram_status vram_device_select(vram_context *context, const vram_select_options *options,
                                        uint32_t *index);

/**
 * Whether two descriptions, perhaps of two backends, are of the same hardware. Compares the UUIDs,
 * or the PCI addresses if one of them has no UUID. False if neither can be compared, and for NULL.
 */
VRAM_API bool vram_device_same(const vram_device_info *a, const vram_device_info *b);

/**
 * Opens device `index`. Opening it twice gives two independent handles. On CUDA this retains the
 * primary context, which the runtime API uses too. No call changes the calling thread's current
 * context.
 */
VRAM_API vram_status vram_device_open(vram_context *context, uint32_t index, vram_device **device);

/**
 * Closes a device with its queues, pools and memory. First waits for their work, and for devices
 * that read its memory as a peer, up to the option `wait_timeout`. If work is unfinished then, the
 * handle is gone all the same, but the memory is kept, because releasing it under running work
 * would be worse: the call logs that and returns VRAM_ERR_TIMEOUT. NULL is allowed.
 */
VRAM_API vram_status vram_device_close(vram_device *device);

/** vram_device_info_get for an opened device. */
VRAM_API vram_status vram_device_describe(vram_device *device, vram_device_info *info);

/**
 * Lets `device` access the memory of `peer`, an opened device of the same backend, so that
 * vram_queue_copy can read from it. May be called again. VRAM_ERR_UNSUPPORTED if the hardware has
 * no path between them.
 */
VRAM_API vram_status vram_device_peer_enable(vram_device *device, vram_device *peer);

/** The memory of a device at this moment. */
typedef struct vram_memory_info {
    size_t size;            /* in: sizeof(vram_memory_info) of the caller */
    vram_value total_bytes; /* the device's memory */
    vram_value free_bytes;  /* as the driver reports it: maybe scattered, maybe not all available;
                               with VRAM_CAP_INTEGRATED, as the system does for a new program */
    uint64_t held_bytes;    /* taken from the driver through this handle now, all kinds */
    uint64_t held_peak_bytes;
    uint64_t held_count;   /* allocations and physical handles in held_bytes */
    uint64_t driver_calls; /* backend operations called through this handle */
    bool lost;             /* the device was lost and cannot be used again */
} vram_memory_info;

/** Asks the driver, which takes microseconds: call it on a timer, not at every allocation. */
VRAM_API vram_status vram_memory_info_get(vram_device *device, vram_memory_info *info);

/* ------------------------------------------------- memory in whole granules */

typedef enum vram_memory_kind {
    VRAM_MEMORY_DEVICE = 0,  /* the device's own */
    VRAM_MEMORY_PINNED = 1,  /* page-locked host memory; addr is a host pointer */
    VRAM_MEMORY_MANAGED = 2, /* migrates; addr is a host pointer and a device address */
    VRAM_MEMORY_HOST = 3     /* ordinary host memory, only of a pool that fell back (vram/oom.h) */
} vram_memory_kind;

/**
 * Allocates `bytes` from the driver, rounded up to the device's granule. Contents are undefined.
 * VRAM_ERR_INVALID for 0 bytes; _OVERFLOW if the rounded size does not fit in 64 bits; _LIMIT if it
 * would exceed the option `device_limit` or alloc_max; _DEVICE_MEMORY if the device is full;
 * _UNSUPPORTED for a kind that the device lacks.
 */
VRAM_API vram_status vram_device_alloc(vram_device *device, uint64_t bytes, vram_memory_kind kind,
                                       vram_addr *addr);

/**
 * Returns memory to the driver. `addr` is what vram_device_alloc returned; 0 is allowed. The caller
 * must have waited for all work that uses it. Other addresses (interior, foreign, already freed)
 * are VRAM_ERR_INVALID and change nothing.
 */
VRAM_API vram_status vram_device_free(vram_device *device, vram_addr addr);

/**
 * Where managed memory goes, or should stay: the index of any device of the context, as for
 * vram_device_open (it need not be open), or one of these. The index of the host device means the
 * host.
 */
typedef enum vram_target {
    VRAM_TARGET_HOST = -1, /* host memory */
    VRAM_TARGET_OWN = -2   /* the device that the call names, or whose queue it names */
} vram_target;

/** How managed memory will be used. */
typedef enum vram_advice {
    VRAM_ADVICE_NONE = 0,        /* no hint; cancels earlier advice */
    VRAM_ADVICE_READ_MOSTLY = 1, /* copies of it may be kept on both sides */
    VRAM_ADVICE_PREFER = 2       /* it should stay at the target */
} vram_advice;

/**
 * Says how a part of managed memory of the device will be used. `target` is a vram_target or an
 * index; only VRAM_ADVICE_PREFER uses it. It is a hint: contents stay the same, and a driver
 * without such hints does nothing. 0 bytes do nothing. VRAM_ERR_UNSUPPORTED without
 * VRAM_CAP_MANAGED, and for a target of another backend; _NO_DEVICE for an index that no device
 * has; _INVALID for other memory and for unknown advice.
 */
VRAM_API vram_status vram_device_advise(vram_device *device, vram_addr addr, uint64_t bytes,
                                        vram_advice advice, int32_t target);

/** The driver's view of an address. */
typedef struct vram_native_info {
    size_t size;         /* in: sizeof(vram_native_info) of the caller */
    vram_device *device; /* borrowed */
    vram_memory_kind kind;
    vram_addr base;            /* first address of the allocation, of the reserved range, or of
                                  `handle` */
    uint64_t bytes;            /* its size */
    uint64_t offset;           /* addr - base: the offset in `handle` */
    void *handle;              /* cl_mem, VkBuffer, MTLBuffer; NULL without VRAM_CAP_HANDLES,
                                  except for a wrapped cl_mem */
    vram_value device_address; /* what a kernel would use for addr */
    void *host_pointer;        /* for the host; NULL if it may not access the memory, or nothing
                                  is mapped there */
} vram_native_info;

/**
 * Looks up an address, interior ones too. VRAM_ERR_INVALID if no live memory of libvram is there,
 * VRAM_ERR_BUSY if that memory is asleep. Takes no lock, except to find out what is mapped: in a
 * range of a device with VRAM_CAP_HOST_ACCESS, and in a pool of which a part is asleep.
 *
 * With VRAM_CAP_HANDLES, the first address of a pool's block gives the handle to pass to a kernel.
 * On OpenCL that is a sub-buffer of exactly that block, created at the first request and valid
 * until the block is freed; on others it is the buffer that holds the block, with the block's
 * offset. An address inside a block gives the whole buffer of the pool's segment. Handles are
 * borrowed: do not release them.
 */
VRAM_API vram_status vram_native(vram_addr addr, vram_native_info *info);

#ifdef __cplusplus
}
#endif

#endif

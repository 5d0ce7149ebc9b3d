/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/buffer.h: memory with a name, a kind and a location, behind one handle.
 *
 * A buffer is for programs that need more than an address. It knows its size in bytes and in
 * elements, where it lies, which queue it belongs to and who it is for. Its memory comes from a
 * pool and is freed in stream order, so destroying a buffer never waits for work that still uses
 * it.
 *
 * The contents lie on the device, in host memory, or in memory that both reach;
 * vram_buffer_info.location says where. vram_buffer_addr gives the address for the device,
 * vram_buffer_host the pointer for the host. Spans are uploaded and downloaded wherever their
 * buffer lies.
 *
 * Ownership: a buffer belongs to its pool. Destroying the pool, the device or the context destroys
 * it too, and its handle is VRAM_ERR_STALE from then on.
 *
 * Threads: any call may be made from any thread. If two calls move or resize one buffer at the same
 * time, the second returns VRAM_ERR_BUSY and changes nothing.
 */
#ifndef VRAM_BUFFER_H
#define VRAM_BUFFER_H

#include <vram/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vram_buffer vram_buffer;
struct vram_growth; /* vram/growth.h */

/* ---------------------------------------------------------- kinds, precision */

typedef enum vram_buffer_kind {
    VRAM_BUFFER_DEVICE = 0,  /* the device's memory, from the pool */
    VRAM_BUFFER_PINNED = 1,  /* page-locked host memory, for copies that overlap other work */
    VRAM_BUFFER_MANAGED = 2, /* migrates between host and device, at one address */
    /* Does not migrate, and host and device both reach it at one address: the device's memory if
       the host may access it (VRAM_CAP_HOST_ACCESS), else page-locked memory that the device reads
       over the bus. */
    VRAM_BUFFER_MAPPED = 3,
    VRAM_BUFFER_FALLBACK = 4 /* the device's memory, or host memory if that is exhausted */
} vram_buffer_kind;

/** "device", "pinned", "managed", "mapped", "fallback"; "unknown" for any other number. */
VRAM_API const char *vram_buffer_kind_name(vram_buffer_kind kind);

/**
 * What one element of a buffer is. It is used to count elements; contents are never converted.
 * Elements of any other size are those of a growth policy: vram_growth.element_bytes, which then
 * counts instead.
 */
typedef enum vram_precision {
    VRAM_PRECISION_BYTES = 0, /* no element type: 1 byte */
    VRAM_PRECISION_FP32 = 1,  /* 4 bytes */
    VRAM_PRECISION_FP16 = 2,  /* 2 bytes */
    VRAM_PRECISION_BF16 = 3,  /* 2 bytes */
    VRAM_PRECISION_INT8 = 4   /* 1 byte */
} vram_precision;

/** Bytes of one element; 0 for an unknown precision. */
VRAM_API uint32_t vram_precision_bytes(vram_precision precision);

/** "bytes", "fp32", "fp16", "bf16", "int8"; "unknown" for any other number. Static storage. */
VRAM_API const char *vram_precision_name(vram_precision precision);

/**
 * The bytes of `count` elements. VRAM_ERR_OVERFLOW if they do not fit in 64 bits, VRAM_ERR_INVALID
 * for an unknown precision.
 */
VRAM_API vram_status vram_precision_size(vram_precision precision, uint64_t count, uint64_t *bytes);

/* ------------------------------------------------------- creating, destroying */

enum { VRAM_BUFFER_NAME_MAX = 64 }; /* bytes of a buffer's name, the final 0 included */

typedef enum vram_buffer_flag {
    /* PINNED: ordinary host memory if none can be page-locked; `pinned` of its info says which. */
    VRAM_BUFFER_PAGEABLE = 1 << 0
} vram_buffer_flag;

/** Why a buffer moved. */
typedef enum vram_move_cause {
    VRAM_MOVE_FALLBACK = 0, /* the device was exhausted when it was created or grew */
    VRAM_MOVE_PROMOTE = 1,  /* to the device, by vram_buffer_promote or vram_pool_promote */
    VRAM_MOVE_DEMOTE = 2    /* to host memory, by vram_buffer_demote or vram_pool_demote */
} vram_move_cause;

/** A buffer has moved. */
typedef struct vram_buffer_event {
    size_t size;         /* sizeof(vram_buffer_event) of the library */
    vram_buffer *buffer; /* borrowed */
    uint64_t id;         /* its id */
    vram_move_cause cause;
    vram_memory_kind from, to;
    uint64_t bytes; /* of contents that moved; 0 for VRAM_MOVE_FALLBACK */
} vram_buffer_event;

/**
 * Called after the buffer has moved, on the thread whose call moved it. No lock is held: it may
 * call the library, except vram_buffer_destroy of this buffer.
 */
typedef void vram_buffer_moved_fn(void *user, const vram_buffer_event *event);

typedef struct vram_buffer_options {
    size_t size; /* sizeof(vram_buffer_options) */
    vram_buffer_kind kind;
    vram_precision precision; /* what `elements` of its info counts */
    uint32_t flags;           /* bits of vram_buffer_flag */
    const char *name;         /* a label for reports; copied; need not be unique. NULL: "" */
    const char *tag; /* who it is for, as in vram_alloc_options; copied; NULL, "": no tag */
    vram_buffer_moved_fn *moved; /* FALLBACK: called when it has moved; NULL: none */
    void *user;                  /* handed to `moved` */
    /* How it grows (vram/growth.h); copied. Its capacity is then at least the policy's minimum, and
       `bytes` of it are in use. NULL: exactly to what is needed. Not for a batch or for wrapped
       memory. */
    const struct vram_growth *growth;
    /* An allocator for this buffer alone; copied, and used until the pool ends. Memory comes from
       there and not from the pool, in whole granules, and goes back there when no work uses it any
       more. `kind` says what it serves: DEVICE, PINNED or MANAGED. Not for a batch or for wrapped
       memory. NULL: the pool. */
    const vram_provider *provider;
} vram_buffer_options;

/**
 * Creates a buffer of `bytes` on the pool's device, ready for work submitted to `queue` from now
 * on. `queue` is its home queue: all work that is submitted there until the buffer is destroyed
 * counts as using it. Without one (NULL) it is ready for any queue, and only vram_buffer_use says
 * who uses it. Contents are undefined. 0 bytes are allowed: the address of such a buffer may not be
 * accessed.
 *
 * Memory of other kinds than the device's comes straight from the driver, in whole pages and no
 * more, on the device's NUMA node if the system knows it. It counts in vram_pool_stats.other_bytes,
 * and goes back to the driver when it is no longer used: nothing is cached. For PINNED buffers that
 * are created and destroyed often, use a pool of page-locked memory (vram_pool_options.kind), whose
 * blocks they are, and for MANAGED ones a pool of managed memory. The first has PINNED and MAPPED
 * buffers only, the second MANAGED ones, and a pool on a provider of device memory DEVICE and
 * FALLBACK ones (VRAM_ERR_UNSUPPORTED).
 *
 * If the device has no room, a FALLBACK buffer lies in page-locked host memory, or in ordinary
 * memory if that is exhausted too. vram_pool_stats.fallbacks counts it, and `moved` is called. If
 * the limits turn cpu_fallback off, it fails like a DEVICE buffer.
 *
 * VRAM_ERR_INVALID if `bytes` is not a whole number of elements, for a name of more than
 * VRAM_BUFFER_NAME_MAX - 1 bytes, and for an unknown kind, precision or flag; _UNSUPPORTED for a
 * kind that the device lacks. Exhaustion as for vram_alloc_with.
 */
VRAM_API vram_status vram_buffer_create(vram_pool *pool, uint64_t bytes, vram_queue *queue,
                                        const vram_buffer_options *options, vram_buffer **buffer);

/**
 * The same for `count` elements: of options->growth->element_bytes if that is set, else of
 * `precision`. The precision in the options is ignored. VRAM_ERR_OVERFLOW if the bytes do not fit
 * in 64 bits.
 */
VRAM_API vram_status vram_buffer_create_elements(vram_pool *pool, uint64_t count,
                                                 vram_precision precision, vram_queue *queue,
                                                 const vram_buffer_options *options,
                                                 vram_buffer **buffer);

/**
 * Destroys a buffer. (vram_free of its address returns VRAM_ERR_INVALID.) Its memory is reused once
 * its home queue, and every queue that vram_buffer_use named, have completed the work submitted so
 * far. Nothing waits. NULL is allowed. A second call returns VRAM_ERR_STALE.
 * VRAM_ERR_CORRUPT if a pool with safety modes finds damage; the buffer is destroyed all the same.
 */
VRAM_API vram_status vram_buffer_destroy(vram_buffer *buffer);

/**
 * Tells the library that another queue uses the buffer too, until the buffer is destroyed: whatever
 * moves, maps or frees its memory comes after all work that was submitted to that queue before.
 * Call it once, before or after submitting work. The home queue needs no such call. If the queue is
 * being captured, the buffer keeps its address from then on, because a graph may use it.
 */
VRAM_API vram_status vram_buffer_use(vram_buffer *buffer, vram_queue *queue);

/* ---------------------------------------------------------------- what it is */

typedef struct vram_buffer_info {
    size_t size;                     /* in: sizeof(vram_buffer_info) of the caller */
    uint64_t id;                     /* rises; no other buffer, tracked block or record of
                                        foreign memory of the process ever has it */
    char name[VRAM_BUFFER_NAME_MAX]; /* as given; "": none; may hold any bytes: escape it */
    const char *tag;                 /* NULL: none; valid until the context ends */
    vram_buffer_kind kind;
    vram_precision precision;
    vram_memory_kind location; /* where the contents are now */
    vram_addr addr;            /* first byte; changes if the buffer moves, or grows elsewhere */
    uint64_t capacity_bytes;   /* that fit without growing */
    uint64_t used_bytes;       /* in use, at most capacity_bytes */
    uint64_t elements;         /* used_bytes in elements */
    vram_queue *queue;         /* its home, borrowed; NULL: none */
    vram_pool *pool;           /* borrowed */
    uint64_t created_ns;       /* on the library's monotonic clock */
    uint64_t accessed_ns;      /* when a call last used it: create, use, addr, resize and others */
    uint64_t resizes;          /* times that its capacity changed */
    void *host;                /* pointer for the host; NULL: it may not access it */
    bool pinned;               /* page-locked; the driver is asked if it can tell */
    bool wrapped;              /* the program owns the memory */
    bool mapped;               /* between vram_buffer_map and vram_buffer_unmap */
    vram_value numa_node;      /* of host memory, if the system tells */
    uint64_t promotions, demotions; /* moves to the device, and away from it */
} vram_buffer_info;

/** Takes no lock that calls on other buffers take. */
VRAM_API vram_status vram_buffer_info_get(vram_buffer *buffer, vram_buffer_info *info);

/**
 * Its address now, for copies, fills and launches. Valid until the buffer is destroyed, moves or
 * grows. For host memory (location PINNED or HOST) it is the host's address of the first byte. A
 * FALLBACK buffer that lies in host memory because the device was exhausted is first promoted
 * (vram_buffer_promote) if there is memory again; one that was demoted by a call stays.
 */
VRAM_API vram_status vram_buffer_addr(vram_buffer *buffer, vram_addr *addr);

/**
 * A pointer to its first byte for the host, valid as long as vram_buffer_addr is. The caller must
 * have waited for work that writes it. VRAM_ERR_UNSUPPORTED if the host may not access it: map it.
 */
VRAM_API vram_status vram_buffer_host(vram_buffer *buffer, void **pointer);

/* ---------------------------------------------------------------------- spans */

/**
 * A part of a buffer, as plain data that may be copied. It stays valid if the buffer moves or
 * grows.
 */
typedef struct vram_span {
    vram_buffer *buffer;
    uint64_t offset, bytes;
} vram_span;

/** The span of `bytes` at `offset`. VRAM_ERR_INVALID if it does not lie in the used bytes. */
VRAM_API vram_status vram_buffer_span(vram_buffer *buffer, uint64_t offset, uint64_t bytes,
                                      vram_span *span);

/** The address of its first byte now, as vram_buffer_addr; checked like vram_buffer_span. */
VRAM_API vram_status vram_span_addr(vram_span span, vram_addr *addr);

/**
 * Copies host memory into the span, in the order of `queue` (NULL: the buffer's home). On the
 * device that is vram_queue_upload with its rules for `from`. In host memory it waits for all work
 * that uses the buffer, up to the option `wait_timeout`, and copies before it returns. On a queue
 * other than the home, a driver may accept the copy and then fail both to mark it and to wait for
 * it. The call then returns that failure, and the copy may run until the queue has completed its
 * work.
 */
VRAM_API vram_status vram_span_upload(vram_queue *queue, vram_span to, const void *from);

/**
 * Copies the span to host memory. The same rules; `to` is valid once the queue has completed it.
 */
VRAM_API vram_status vram_span_download(vram_queue *queue, void *to, vram_span from);

/* ----------------------------------------------------------- map and unmap */

typedef enum vram_map_flag {
    VRAM_MAP_READ = 1 << 0, /* the host reads the contents */
    /* The host writes: the memory at the unmap becomes the contents. Without VRAM_MAP_READ the host
       must write every byte, because the others are undefined. */
    VRAM_MAP_WRITE = 1 << 1
} vram_map_flag;

/**
 * Gives the host a pointer to `bytes` at `offset`. Waits for all work that uses the buffer, up to
 * the option `wait_timeout` (VRAM_ERR_TIMEOUT, and nothing has changed). If the host may not access
 * the memory, the pointer is to a copy in host memory, which is made and written back on `queue`
 * (NULL: the home queue). There is one mapping at a time. Until the unmap the buffer neither moves
 * nor grows (VRAM_ERR_BUSY), and the device must not use it. A pool may sleep meanwhile: until it
 * wakes, the pointer must not be used, and VRAM_SLEEP_DROP may drop what was written before.
 * VRAM_ERR_INVALID if sealed memory is to be written (vram_pool_seal).
 */
VRAM_API vram_status vram_buffer_map(vram_buffer *buffer, uint64_t offset, uint64_t bytes,
                                     uint32_t flags, vram_queue *queue, void **pointer);

/**
 * Ends the mapping. With VRAM_MAP_WRITE the host copy, if there is one, is written back in the
 * order of the queue; on a queue other than the home the call waits until that is done. After a
 * failure the buffer stays mapped and the call may be repeated; the data may be on the device
 * already. VRAM_ERR_STALE if that queue has ended: the data cannot be written back any more.
 * VRAM_ERR_INVALID if the buffer is not mapped. Destroying a mapped buffer drops what was written.
 */
VRAM_API vram_status vram_buffer_unmap(vram_buffer *buffer);

/* -------------------------------------------------------------- moving it */

/**
 * Moves a FALLBACK buffer and its contents to the device, in the order of `queue` (NULL: its home
 * queue) and after all work that uses it; the host does not wait. `queue` is its home queue from
 * then on. Its address changes. Nothing happens if it lies there already. On any failure,
 * exhaustion included, the buffer stays where it was, with its contents. VRAM_ERR_INVALID for other
 * kinds and without a queue; _BUSY while it is mapped or in another call.
 */
VRAM_API vram_status vram_buffer_promote(vram_buffer *buffer, vram_queue *queue);

/**
 * The same to host memory: page-locked, or ordinary if that is exhausted. VRAM_ERR_UNSUPPORTED with
 * VRAM_CAP_INTEGRATED, where it would free nothing.
 */
VRAM_API vram_status vram_buffer_demote(vram_buffer *buffer, vram_queue *queue);

/**
 * Promotes the pool's FALLBACK buffers that lie in host memory, the last used first, as many as
 * fit. *bytes, which may be NULL, is how much moved.
 */
VRAM_API vram_status vram_pool_promote(vram_pool *pool, vram_queue *queue, uint64_t *bytes);

/**
 * Demotes FALLBACK buffers, the least recently used first, until `wanted` bytes have left the
 * device or none is left. Busy and mapped ones stay. *bytes, which may be NULL, is how much moved.
 * `queue` may use the freed memory at once, other queues when it has completed the work submitted
 * so far. VRAM_ERR_UNSUPPORTED as vram_buffer_demote.
 */
VRAM_API vram_status vram_pool_demote(vram_pool *pool, uint64_t wanted, vram_queue *queue,
                                      uint64_t *bytes);

/**
 * Moves `bytes` at `offset` of a MANAGED buffer to `target` before they are used, as
 * vram_queue_prefetch does: VRAM_TARGET_OWN is the buffer's device. It is a hint: contents stay the
 * same. VRAM_ERR_INVALID for other kinds.
 */
VRAM_API vram_status vram_buffer_prefetch(vram_buffer *buffer, uint64_t offset, uint64_t bytes,
                                          int32_t target, vram_queue *queue);

/** Says how a MANAGED buffer will be used. It is a hint, like vram_device_advise. */
VRAM_API vram_status vram_buffer_advise(vram_buffer *buffer, vram_advice advice, int32_t target);

/* ------------------------------------------------------------------- wrapping */

/** How the program names memory of its own. */
typedef enum vram_wrap_kind {
    VRAM_WRAP_HOST = 0,    /* a host pointer */
    VRAM_WRAP_ADDRESS = 1, /* an address of the device's own API: a CUdeviceptr */
    VRAM_WRAP_HANDLE = 2   /* an object of the driver: cl_mem, VkBuffer, MTLBuffer */
} vram_wrap_kind;

typedef struct vram_wrap {
    size_t size; /* sizeof(vram_wrap) */
    vram_wrap_kind kind;
    void *pointer; /* HOST: the first byte; HANDLE: the object */
    /* ADDRESS: the first byte; HANDLE, of Vulkan: the VkBuffer's address
       (vkGetBufferDeviceAddress), for kernels; 0: no kernel uses it */
    uint64_t address;
    uint64_t bytes;  /* size of the buffer, at least 1 */
    uint64_t offset; /* HANDLE: its first byte in the object */
} vram_wrap;

/**
 * Creates a buffer over memory that the program owns. The library never frees or moves it, and it
 * must last until the buffer is destroyed. It counts in no statistics. Of the options, kind and
 * flags must be 0. The buffer's kind is DEVICE or, for HOST, PINNED with `pinned` false.
 *
 * The library trusts the program about an address, on devices with VRAM_CAP_TRUE_ADDRESS. From then
 * on it can be used in copies, fills and launches like memory of the library, which may be wrapped
 * too. Two foreign pieces that share a page of 4 KiB cannot both be wrapped at once
 * (VRAM_ERR_INVALID).
 *
 * An object gets an address from the library, which can be used like any other; vram_native gives
 * the object and the offset in it again. VRAM_ERR_INVALID if `bytes` at `offset` do not lie in it.
 *
 *   cl_mem    of the device's own context, or of the one that was adopted (vram/opencl.h). The
 *             driver is asked about that and about its size. It is retained until the buffer is
 *             destroyed. Kernels take it from offset 0 on.
 *   VkBuffer  of an adopted device (vram/vulkan.h), bound to memory, made for copies in both
 *             directions, and for all families of its queues. The driver cannot be asked about it
 *             and does not keep it: all work that uses it must be complete before it is destroyed.
 *             Its size is checked against the memory that it needs.
 *
 * VRAM_ERR_UNSUPPORTED, with the reason in the error record, for what the backend cannot adopt:
 * objects of other backends, and of a VkDevice that the library made.
 */
VRAM_API vram_status vram_buffer_wrap(vram_pool *pool, const vram_wrap *wrap, vram_queue *queue,
                                      const vram_buffer_options *options, vram_buffer **buffer);

#ifdef __cplusplus
}
#endif

#endif

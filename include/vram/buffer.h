/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/buffer.h: memory with a name, a kind and a place, behind one handle.
 *
 * A buffer is what programs hold when an address alone is too little: it knows its size in bytes and in
 * elements, where it lies, which queue it belongs to and who it is for. Its memory comes from a pool and
 * goes back to it in queue order, so destroying a buffer never waits for work that still uses it.
 *
 * Contents lie on the device, in host memory, or in memory that both reach. vram_buffer_info.location says
 * where, vram_buffer_addr is for the device's side of it, vram_buffer_host for the host's; spans are
 * uploaded and downloaded wherever their buffer lies.
 *
 * Ownership: a buffer is its pool's. Destroying the pool, the device or the context destroys it with all
 * others, and its handle is VRAM_ERR_STALE from then on.
 * Threads: any call from any thread. Two calls that move or resize one buffer at the same time are not
 * merged: the second is VRAM_ERR_BUSY and changes nothing.
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
    VRAM_BUFFER_PINNED = 1,  /* page-locked host memory, for copies that run beside other work */
    VRAM_BUFFER_MANAGED = 2, /* migrates between host and device, at one address */
    VRAM_BUFFER_MAPPED =
        3, /* does not migrate, and host and device both reach it at one address: the
                                device's memory where the host may touch that (VRAM_CAP_HOST_ACCESS),
                                else page-locked memory that the device reads over the bus */
    VRAM_BUFFER_FALLBACK = 4 /* the device's memory, or host memory when that is exhausted */
} vram_buffer_kind;

/** "device", "pinned", "managed", "mapped", "fallback"; "unknown" for a number that is none. */
VRAM_API const char *vram_buffer_kind_name(vram_buffer_kind kind);

/** What one element of a buffer is. Precision is a matter of counting: contents are never converted. */
typedef enum vram_precision {
    VRAM_PRECISION_BYTES = 0, /* no element type: 1 byte */
    VRAM_PRECISION_FP32 = 1,  /* 4 bytes */
    VRAM_PRECISION_FP16 = 2,  /* 2 bytes */
    VRAM_PRECISION_BF16 = 3,  /* 2 bytes */
    VRAM_PRECISION_INT8 = 4   /* 1 byte */
} vram_precision;

/** Bytes of one element; 0 for a number that is no precision. */
VRAM_API uint32_t vram_precision_bytes(vram_precision precision);

/** "bytes", "fp32", "fp16", "bf16", "int8"; "unknown" for a number that is none. Static storage. */
VRAM_API const char *vram_precision_name(vram_precision precision);

/**
 * The bytes of `count` elements. VRAM_ERR_OVERFLOW when they do not fit into 64 bits, VRAM_ERR_INVALID for
 * a number that is no precision.
 */
VRAM_API vram_status vram_precision_size(vram_precision precision, uint64_t count, uint64_t *bytes);

/* ------------------------------------------------------- creating, destroying */

enum { VRAM_BUFFER_NAME_MAX = 64 }; /* bytes of a buffer's name, the final 0 included */

typedef enum vram_buffer_flag {
    VRAM_BUFFER_PAGEABLE = 1 << 0 /* PINNED: ordinary host memory where none can be page-locked; the
                                     info's `pinned` says which it became */
} vram_buffer_flag;

/** Why a buffer changed its place. */
typedef enum vram_move_cause {
    VRAM_MOVE_FALLBACK = 0, /* the device was exhausted when it was created or grew */
    VRAM_MOVE_PROMOTE = 1,  /* to the device, by vram_buffer_promote or vram_pool_promote */
    VRAM_MOVE_DEMOTE = 2    /* to host memory, by vram_buffer_demote or vram_pool_demote */
} vram_move_cause;

/** A buffer changed its place. */
typedef struct vram_buffer_event {
    size_t size;         /* sizeof(vram_buffer_event) of the library */
    vram_buffer *buffer; /* borrowed */
    uint64_t id;         /* its id */
    vram_move_cause cause;
    vram_memory_kind from, to;
    uint64_t bytes; /* of contents that moved; 0 for VRAM_MOVE_FALLBACK */
} vram_buffer_event;

/**
 * Called on the thread whose call moved the buffer, after it has moved and with no lock held: it may call
 * everything but vram_buffer_destroy of this buffer.
 */
typedef void vram_buffer_moved_fn(void *user, const vram_buffer_event *event);

typedef struct vram_buffer_options {
    size_t size; /* sizeof(vram_buffer_options) */
    vram_buffer_kind kind;
    vram_precision precision; /* what `elements` of its info counts */
    uint32_t flags;           /* of vram_buffer_flag */
    const char *name;         /* a label for reports; copied. Need not be unique. NULL: "" */
    const char *tag; /* who it is for, as in vram_alloc_options; copied; NULL, "": nobody */
    vram_buffer_moved_fn *moved; /* FALLBACK: told when it changes its place; NULL: nobody is */
    void *user;                  /* handed to `moved` */
    const struct vram_growth
        *growth; /* how it grows: vram/growth.h; copied. Its capacity is then at least
                                         the policy's minimum, and `bytes` of it are in use. NULL: exactly
                                         to what is needed. Not of a batch or of wrapped memory */
} vram_buffer_options;

/**
 * A buffer of `bytes` on the pool's device, ready for work submitted to `queue` from now on. `queue` is
 * its home: the buffer counts as used by all that is submitted there until it is destroyed. Without one
 * (NULL) it is ready for any queue, and only vram_buffer_use tells who uses it. Contents are undefined.
 * 0 bytes are allowed: such a buffer has an address that may not be touched.
 *
 * Memory that is not the device's comes from the driver by itself, in whole pages and no more than that, on
 * the device's NUMA node where the system knows it, and counts in vram_pool_stats.other_bytes. It goes back
 * when it is not used any more, without being kept for later. PINNED buffers that come and go are better off in
 * a pool of page-locked memory (vram_pool_options.kind), whose blocks they are; it has PINNED and MAPPED ones
 * only (VRAM_ERR_UNSUPPORTED).
 *
 * A FALLBACK buffer lies in page-locked host memory, or in ordinary memory where that is exhausted too, when
 * the device has no room: vram_pool_stats.fallbacks counts it and `moved` is told. Where the limits say that
 * cpu_fallback is off it fails instead, as a DEVICE buffer does.
 *
 * VRAM_ERR_INVALID when `bytes` is no whole number of elements of the precision, for a name of more than
 * VRAM_BUFFER_NAME_MAX - 1 bytes, and for a kind, precision or flag that is none; _UNSUPPORTED for a kind that
 * the device lacks. Exhaustion as vram_alloc_with has it.
 */
VRAM_API vram_status vram_buffer_create(vram_pool *pool, uint64_t bytes, vram_queue *queue,
                                        const vram_buffer_options *options, vram_buffer **buffer);

/**
 * The same for `count` elements of `precision`, whatever the options say of precision. VRAM_ERR_OVERFLOW
 * when their bytes do not fit into 64 bits.
 */
VRAM_API vram_status vram_buffer_create_elements(vram_pool *pool, uint64_t count,
                                                 vram_precision precision, vram_queue *queue,
                                                 const vram_buffer_options *options,
                                                 vram_buffer **buffer);

/**
 * Destroys it, which vram_free of its address does not (VRAM_ERR_INVALID). Its memory is used again when its home queue has come as far as it is now, and every queue
 * that vram_buffer_use told of as far as it was then; nothing waits. NULL is allowed, and a second call is
 * VRAM_ERR_STALE. VRAM_ERR_CORRUPT, from a pool with safety modes that finds damage: the buffer is gone all
 * the same.
 */
VRAM_API vram_status vram_buffer_destroy(vram_buffer *buffer);

/**
 * Says that work on another queue uses the buffer. Call it after submitting that work, each time. Costs a
 * marker on that queue; the home queue needs no such call.
 */
VRAM_API vram_status vram_buffer_use(vram_buffer *buffer, vram_queue *queue);

/* ---------------------------------------------------------------- what it is */

typedef struct vram_buffer_info {
    size_t size;                     /* in: sizeof(vram_buffer_info) of the caller */
    uint64_t id;                     /* unique in the process, never used again; rises from 1 */
    char name[VRAM_BUFFER_NAME_MAX]; /* as given, "" for none; may hold any bytes: escape it */
    const char *tag;                 /* NULL: none; valid until the context ends */
    vram_buffer_kind kind;
    vram_precision precision;
    vram_memory_kind location; /* where the contents are now */
    vram_addr addr;            /* first byte; changes when the buffer moves or grows elsewhere */
    uint64_t capacity_bytes;   /* that fit without growing, as asked for */
    uint64_t used_bytes;       /* in use, at most capacity_bytes */
    uint64_t elements;         /* used_bytes in elements of the precision */
    vram_queue *queue;         /* its home, borrowed; NULL: none */
    vram_pool *pool;           /* borrowed */
    uint64_t created_ns;       /* on the library's monotonic clock */
    uint64_t accessed_ns; /* when a call last used it: create, use, addr, resize and the like */
    uint64_t resizes;     /* times that its capacity changed */
    void *host;           /* for the host to dereference; NULL when it may not */
    bool pinned;          /* page-locked: by the driver's word where it can be asked */
    bool wrapped;         /* memory that the program owns */
    bool mapped;          /* between vram_buffer_map and vram_buffer_unmap */
    vram_value numa_node; /* of host memory, where the system tells */
    uint64_t promotions, demotions; /* moves to the device, and away from it */
} vram_buffer_info;

/** Takes no lock that a call on another buffer takes. */
VRAM_API vram_status vram_buffer_info_get(vram_buffer *buffer, vram_buffer_info *info);

/**
 * Its address now, for copies, fills and launches. Good until the buffer is destroyed, moved or grown. The
 * address of host memory (location PINNED or HOST) is that of its first byte for the host.
 */
VRAM_API vram_status vram_buffer_addr(vram_buffer *buffer, vram_addr *addr);

/**
 * Its first byte for the host to dereference, as long as vram_buffer_addr is good. The caller has waited for
 * work that writes it. VRAM_ERR_UNSUPPORTED where the host may not touch it: map it.
 */
VRAM_API vram_status vram_buffer_host(vram_buffer *buffer, void **pointer);

/* ---------------------------------------------------------------------- spans */

/** A part of a buffer, plain data: copy it, keep it. It stays right when the buffer moves or grows. */
typedef struct vram_span {
    vram_buffer *buffer;
    uint64_t offset, bytes;
} vram_span;

/** The span of `bytes` at `offset`. VRAM_ERR_INVALID when it does not lie in the used bytes. */
VRAM_API vram_status vram_buffer_span(vram_buffer *buffer, uint64_t offset, uint64_t bytes,
                                      vram_span *span);

/** The address of its first byte now, as vram_buffer_addr has it. Checked as vram_buffer_span does. */
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

/** Copies the span to host memory. The same rules; `to` is right when the queue has come that far. */
VRAM_API vram_status vram_span_download(vram_queue *queue, void *to, vram_span from);

/* ----------------------------------------------------------- map and unmap */

typedef enum vram_map_flag {
    VRAM_MAP_READ = 1 << 0, /* the host reads: contents are there */
    VRAM_MAP_WRITE =
        1 << 1 /* the host writes: what is there at the unmap becomes the contents. Without
                               VRAM_MAP_READ every byte must be written, for the rest is undefined */
} vram_map_flag;

/**
 * Gives the host a pointer to `bytes` at `offset`. Waits for all work that uses the buffer, up to the option
 * `wait_timeout` (VRAM_ERR_TIMEOUT, and nothing has changed). Where the host may not touch the memory itself
 * the pointer is to a copy in host memory, made and brought back on `queue` (NULL: the buffer's home). One
 * mapping at a time; until the unmap the buffer neither moves nor grows (VRAM_ERR_BUSY), and work of the device
 * must keep off it.
 */
VRAM_API vram_status vram_buffer_map(vram_buffer *buffer, uint64_t offset, uint64_t bytes,
                                     uint32_t flags, vram_queue *queue, void **pointer);

/**
 * Ends the mapping. With VRAM_MAP_WRITE the host copy, if there is one, is written back in the
 * order of the queue; on a queue other than the home the call waits until that is done. After a
 * failure the buffer stays mapped and the call may be repeated; the data may be on the device
 * already. VRAM_ERR_INVALID when the buffer is not mapped. Destroying a mapped buffer drops what
 * was written.
 */
VRAM_API vram_status vram_buffer_unmap(vram_buffer *buffer);

/* -------------------------------------------------------------- moving it */

/**
 * Moves a FALLBACK buffer to the device, contents and all, in the order of `queue` (NULL: its home) and behind
 * all work that uses it; the host does not wait. `queue` is its home from then on. Addresses change. Nothing
 * happens when it lies there already. The strong guarantee: on any failure, exhaustion among them, the buffer
 * is where it was, with its contents. VRAM_ERR_INVALID for other kinds and when there is no queue; _BUSY while
 * it is mapped or in another call.
 */
VRAM_API vram_status vram_buffer_promote(vram_buffer *buffer, vram_queue *queue);

/** The same the other way, to host memory: page-locked, or ordinary where that is exhausted. */
VRAM_API vram_status vram_buffer_demote(vram_buffer *buffer, vram_queue *queue);

/**
 * Promotes the pool's FALLBACK buffers that lie in host memory, the one used last first, until all are on the
 * device or the next has no room. *bytes, which may be NULL, is what moved. Running out of room is no failure.
 */
VRAM_API vram_status vram_pool_promote(vram_pool *pool, vram_queue *queue, uint64_t *bytes);

/**
 * Demotes FALLBACK buffers, the one used longest ago first, until `wanted` bytes have left the device or none
 * is left. What is busy or mapped stays. *bytes, which may be NULL, is what moved. Memory that left is `queue`'s
 * at once, and everybody's when that has come so far.
 */
VRAM_API vram_status vram_pool_demote(vram_pool *pool, uint64_t wanted, vram_queue *queue,
                                      uint64_t *bytes);

/**
 * Moves `bytes` at `offset` of a MANAGED buffer to the device, or to the host, ahead of their use. A hint:
 * contents stay. VRAM_ERR_INVALID for other kinds.
 */
VRAM_API vram_status vram_buffer_prefetch(vram_buffer *buffer, uint64_t offset, uint64_t bytes,
                                          bool to_host, vram_queue *queue);

/** Says how a MANAGED buffer is going to be used. A hint, as vram_device_advise. */
VRAM_API vram_status vram_buffer_advise(vram_buffer *buffer, vram_advice advice);

/* ------------------------------------------------------------------- wrapping */

/** What memory of the program's own is known by. */
typedef enum vram_wrap_kind {
    VRAM_WRAP_HOST = 0,    /* a host pointer */
    VRAM_WRAP_ADDRESS = 1, /* an address of the device, as its own API has it: a CUdeviceptr */
    VRAM_WRAP_HANDLE = 2   /* an object of the driver's: cl_mem, VkBuffer, MTLBuffer */
} vram_wrap_kind;

typedef struct vram_wrap {
    size_t size; /* sizeof(vram_wrap) */
    vram_wrap_kind kind;
    void *pointer;    /* HOST: the first byte; HANDLE: the object */
    uint64_t address; /* ADDRESS: the first byte; HANDLE, of Vulkan: that of the VkBuffer as
                         vkGetBufferDeviceAddress has it, for kernels; 0: none is to use it */
    uint64_t bytes;   /* of it that the buffer is, at least 1 */
    uint64_t offset;  /* HANDLE: where in the object they begin */
} vram_wrap;

/**
 * A buffer over memory that the program owns: it is never freed by the library, nor moved, and must last until
 * the buffer is destroyed. It counts in no statistics. Of the options kind and flags must be 0; the kind of the
 * buffer is what it is made of, DEVICE or, for HOST, PINNED with `pinned` false.
 *
 * An address is taken by the program's word, on devices with VRAM_CAP_TRUE_ADDRESS; from then on it is as good
 * in copies, fills and launches as memory of the library's own, which may be wrapped too. Two foreign pieces
 * that share a page of 4 KiB cannot be wrapped both at once (VRAM_ERR_INVALID).
 *
 * An object gets an address of the library's own making, as good as any other: vram_native tells the object and
 * the place in it again. VRAM_ERR_INVALID when `bytes` at `offset` do not lie in it.
 *
 *   cl_mem    of the device's own context, or of the one that was adopted (vram/opencl.h); asked of the driver, as
 *             its size is. It is retained until the buffer is destroyed. Kernels take it from offset 0 on.
 *   VkBuffer  of an adopted device (vram/vulkan.h), bound to memory, made for copies in both directions, and for
 *             all families of its queues. No driver can be asked about it, nor keeps it: all work that uses it is
 *             done before it is destroyed. Its size is checked against the memory that it needs.
 *
 * VRAM_ERR_UNSUPPORTED, with the reason in the error record, for what the backend cannot adopt: objects of other
 * backends, and of a VkDevice that the library made.
 */
VRAM_API vram_status vram_buffer_wrap(vram_pool *pool, const vram_wrap *wrap, vram_queue *queue,
                                      const vram_buffer_options *options, vram_buffer **buffer);

#ifdef __cplusplus
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_backend.h: what the files of the Vulkan backend share.
 *
 *   vulkan_backend.c   loads the loader, makes or adopts an instance, says why there is none
 *   vulkan_physical.c  what each physical device is and can do
 *   vulkan_error.c     result codes become statuses and one line for people
 *   vulkan_device.c    logical devices and their native queues
 *   vulkan_memory.c    blocks: buffers bound whole to memory of their own; device and pinned memory
 *   vulkan_staging.c   host memory that copies from and to pageable memory go through
 *   vulkan_clock.c     words and timeline semaphores that tell how far a queue has come
 *   vulkan_watch.c     words that the host writes, for devices that are the CPU
 *   vulkan_batch.c     command buffers on their way to a native queue and back
 *   vulkan_queue.c     queues: making, signals, waits
 *   vulkan_copy.c      copies and fills
 *   vulkan_kernel.c    compute shaders in SPIR-V
 *
 * A vram_addr of device memory lies in a window (base/window.h): Vulkan's device addresses belong
 * to one logical device and may be those of other memory of the process. vram_native tells them.
 * Managed memory, peers and virtual memory management are known to be absent: the first two Vulkan
 * has not, the last (sparse binding) it has in the order of queues only, which the pool cannot use.
 */
#ifndef VR_VULKAN_BACKEND_H
#define VR_VULKAN_BACKEND_H

#include "backend/backend.h"
#include "backend/vulkan/vulkan_api.h"
#include "base/list.h"
#include "base/loader.h"
#include "base/lock.h"
#include "vram/vulkan.h"

/* Device memory is taken in multiples of this: the largest page that drivers align buffers to. */
#define VR_VULKAN_GRANULE (UINT64_C(64) << 10)

enum {
    VR_VULKAN_FAMILIES = 16, /* queue families of a device that are looked at */
    VR_VULKAN_LINES = 8      /* native queues that an own device gets at most */
};

/* ------------------------------------------------------------------ objects */

struct vr_vulkan_device;

/* A physical device that will do: Vulkan 1.2, timeline semaphores, a queue for compute or
   copies. */
struct vr_vulkan_physical {
    struct vr_vk_physical *handle;
    struct vr_vk_properties properties;
    struct vr_vk_memory_properties memory;
    struct vr_vk_family families[VR_VULKAN_FAMILIES];
    uint32_t family_count;
    uint64_t alloc_max; /* bytes of one allocation, a multiple of the granule */
    bool uuid_known, pci_known, budget, addresses;
    uint8_t uuid[16];
    char pci[16];
    struct vr_vk_features_2 features; /* those that own devices are made with */
    struct vr_vk_features_11 features_11;
    struct vr_vk_features_12 features_12;
    vr_atomic_u64 heap_used[VR_VK_MEMORY_HEAPS]; /* bytes that this backend holds */
    struct vr_vulkan_device *open; /* the logical device, shared by all handles; lock */
};

/* vr_backend.impl */
struct vr_vulkan {
    struct vr_library library;
    vr_vk_get_fn *get;
    struct vr_vulkan_api api; /* global and instance rows */
    struct vr_vk_instance *instance;
    vr_atomic_bool kept;  /* a lost device was left to the driver: so is the instance */
    struct vr_mutex lock; /* guards what is open and the counts of its users */
    struct vr_vulkan_physical *physicals;
    uint32_t physical_count;
    struct vram_vulkan_adoption adopted; /* device NULL: instance and devices are our own */
    struct vram_vulkan_queue *adopted_queues;
};

/* A native queue. Several queues of the library share one. */
struct vr_vulkan_line {
    struct vr_vk_queue *handle;
    uint32_t family;
    bool compute;         /* runs kernels, not only copies */
    uint32_t users;       /* queues that the library made on it; the device's lock */
    struct vr_mutex lock; /* Vulkan forbids two submissions to one queue at a time */
    void (*user_lock)(void *user);
    void (*user_unlock)(void *user);
    void *user;
};

/* A buffer with memory of its own, bound whole. In memory that stays: look-ups by address may be
   under way while it goes, and see the second part only. */
struct vr_vulkan_block {
    void *free_link; /* vr_stable's */
    struct vr_vulkan_owned {
        struct vr_link link;
        struct vr_vk_buffer *buffer;
        struct vr_vk_memory *memory;
        uint64_t bytes;   /* of the buffer */
        uint64_t held;    /* of the memory, which may be more */
        uint32_t heap;    /* that the memory is of */
        uint64_t address; /* for kernels; 0: none */
        char *mapped;     /* where the host sees the buffer; NULL: nowhere */
        uint64_t value;   /* staging: in use until its queue's clock has come this far */
    } own;
    vr_atomic_ptr device, buffer; /* the same for look-ups, ... */
    vr_atomic_u64 bytes, address; /* ... once it has a window */
};

static inline struct vr_vulkan_block *vr_vulkan_block_of(struct vr_link *link) {
    return VR_CONTAINER(link, struct vr_vulkan_block, own.link);
}

/* What lies at an address. */
struct vr_vulkan_place {
    struct vr_vk_buffer *buffer;
    uint64_t offset;  /* in the buffer */
    uint64_t bytes;   /* of the buffer */
    uint64_t address; /* of the place, for kernels; 0: none */
};

/* How far a queue has come: its word for the host, its semaphore for devices. Both outlive the
   queue, and the next one that is given them goes on counting. */
struct vr_vulkan_clock {
    struct vr_vulkan_clock *next;
    vr_atomic_u64 *word;
    struct vr_vulkan_block *page; /* the block that the word lies in, ... */
    uint64_t offset;              /* ... and where */
    struct vr_vk_semaphore *semaphore;
    vr_atomic_u64 submitted; /* highest value that the semaphore was told to reach */
    bool taken;              /* by a queue; the device's lock */
};

/* vr_device.impl: a logical device, shared by all handles on the same physical one. */
struct vr_vulkan_device {
    struct vr_vulkan *backend;
    struct vr_vulkan_physical *physical;
    struct vr_vulkan_api api; /* all rows */
    struct vr_vk_device *handle;
    uint32_t users;      /* handles on it; the backend's lock */
    vr_atomic_bool lost; /* the driver said so: no further handle is opened on it */
    bool addresses;      /* buffers have device addresses */
    struct vr_vulkan_line lines[VR_VULKAN_LINES];
    uint32_t line_count;
    uint32_t families[VR_VULKAN_FAMILIES]; /* that buffers are shared between */
    uint32_t family_count;
    vr_atomic_u64 allocations; /* VkDeviceMemory objects of ours */
    struct vr_mutex lock;      /* guards the rest, never across a driver call */
    struct vr_list pinned;     /* blocks of pinned memory */
    struct vr_list staging;    /* blocks that wait for the next copy */
    uint64_t staging_bytes;    /* in that list */
    struct vr_vulkan_clock *clocks;
    struct vr_list pages; /* blocks that hold words */
};

struct vr_vulkan_batch; /* a command buffer; vulkan_batch.c */

enum { VR_VULKAN_SIGNALS = 16 };

/* vr_queue.impl. All but the constants is guarded by the line's lock. */
struct vr_vulkan_queue {
    struct vr_vulkan_device *device;
    struct vr_vulkan_line *line;
    struct vr_vulkan_clock *clock;
    struct vr_vulkan_watch *watch; /* writes the word; NULL: the device does */
    struct vr_vk_command_pool *pool;
    struct vr_list busy, idle;     /* batches under way, oldest first, and ready for use */
    struct vr_list spent;          /* staging in use by submitted work, oldest first */
    uint64_t spent_bytes;          /* in that list */
    struct vr_vulkan_block *chunk; /* staging that small pieces are cut from */
    uint64_t chunk_used;           /* bytes of it */
    uint32_t word_high;            /* upper half of what the word was last told to be */
    uint64_t asked; /* adopted: value of the last empty batch that a poll submitted */
    struct vr_vulkan_signal {
        uint64_t word, value;     /* the clock's value behind which the word is at least `word` */
    } signals[VR_VULKAN_SIGNALS]; /* the newest, in a ring */
    uint32_t signal_count;
};

/* ------------------------------------------------------------------- errors */

/* What a code means; VRAM_ERR_BACKEND for one that the table does not know. */
vram_status vr_vulkan_status(vr_vk_result code);

/* VRAM_OK for VR_VK_SUCCESS; else records the failure of `operation` and returns its status.
   `exhausted` says what it is that ran out when the driver says "device memory". */
vram_status vr_vulkan_check(const char *operation, vr_vk_result code, vram_status exhausted);

/* The same for a logical device, which is noted when it is lost. */
vram_status vr_vulkan_device_check(struct vr_vulkan_device *device, const char *operation,
                                   vr_vk_result code, vram_status exhausted);

/* Calls a function of a logical device and checks the result. */
#define VR_VULKAN(device, function, ...)                                                           \
    vr_vulkan_device_check(device, #function, (device)->api.function(__VA_ARGS__),                 \
                           VRAM_ERR_DEVICE_MEMORY)

/* A success whose result cannot be: the driver's fault, VRAM_ERR_CORRUPT. */
vram_status vr_vulkan_lied(const char *operation, uint64_t result);

/* ----------------------------------------------------------------- starting */

/* Finds the physical devices that will do. VRAM_ERR_NO_DEVICE with the reasons of those that do
   not. */
vram_status vr_vulkan_physicals_find(struct vr_vulkan *vulkan);
/* Fills the device rows of device->api. */
vram_status vr_vulkan_find_device_rows(struct vr_vulkan_device *device);
/* Reads one; *reason (static text) says why it will not do, or is NULL. */
vram_status vr_vulkan_physical_read(const struct vr_vulkan *vulkan, struct vr_vk_physical *handle,
                                    struct vr_vulkan_physical *physical, const char **reason);

/* ------------------------------------------------------------------- memory */

enum vr_vulkan_use {
    VR_VULKAN_ON_DEVICE, /* the device's own */
    VR_VULKAN_ON_HOST    /* mapped, coherent, on a page boundary */
};

/* A new block; `bytes` > 0. */
vram_status vr_vulkan_block_make(struct vr_vulkan_device *device, uint64_t bytes,
                                 enum vr_vulkan_use use, struct vr_vulkan_block **block);
/* Ends it; without driver calls when the device is lost. */
void vr_vulkan_block_end(struct vr_vulkan_device *device, struct vr_vulkan_block *block, bool lost);
/* An empty block; NULL with the error set: out of memory. vr_vulkan_block_end ends it. */
struct vr_vulkan_block *vr_vulkan_block_take(uint64_t bytes);
/* Lets look-ups see what is in the window that is about to be opened. */
void vr_vulkan_block_show(struct vr_vulkan_device *device, struct vr_vulkan_block *block);
/* What is at `addr`, without a lock. VRAM_ERR_INVALID for memory that is not ours. */
vram_status vr_vulkan_find(const struct vr_vulkan_device *device, vram_addr addr,
                           const char *operation, struct vr_vulkan_place *place);
/* The buffer of pinned memory that [host, host + bytes) lies in; NULL: none. */
struct vr_vk_buffer *vr_vulkan_pinned_find(struct vr_vulkan_device *device, const void *host,
                                           uint64_t bytes, uint64_t *offset);

vr_memory_info_fn vr_vulkan_memory_info;
vr_memory_alloc_fn vr_vulkan_memory_alloc;
vr_memory_free_fn vr_vulkan_memory_free;
extern const struct vr_pinned_ops vr_vulkan_pinned_ops;
extern const struct vr_handle_ops vr_vulkan_handle_ops;
extern const struct vr_object_ops vr_vulkan_object_ops;
vr_memory_native_fn vr_vulkan_native;

/* ------------------------------------------------------------------ staging */

#define VR_VULKAN_PIECE (UINT64_C(8) << 20) /* bytes: longer copies go in pieces */

/* Mapped memory of at least `bytes`, which is at most a piece, for the caller alone. */
vram_status vr_vulkan_staging_take(struct vr_vulkan_device *device, uint64_t bytes,
                                   struct vr_vulkan_block **block);
/* Gives back what no submitted work uses any more. No lock is held. */
void vr_vulkan_staging_give(struct vr_vulkan_device *device, struct vr_vulkan_block *block);
/* The same for a list of blocks. */
void vr_vulkan_staging_give_all(struct vr_vulkan_device *device, struct vr_list *blocks);
void vr_vulkan_staging_end(struct vr_vulkan_device *device, bool lost);

/* ------------------------------------------------------------------- clocks */

vram_status vr_vulkan_clock_take(struct vr_vulkan_device *device, struct vr_vulkan_clock **clock);
/* Lets a later queue use it; all that was submitted with it is done. */
void vr_vulkan_clock_give(struct vr_vulkan_device *device, struct vr_vulkan_clock *clock);
void vr_vulkan_clocks_end(struct vr_vulkan_device *device, bool lost);
/* How far the semaphore is. */
vram_status vr_vulkan_clock_read(struct vr_vulkan_device *device,
                                 const struct vr_vulkan_clock *clock, uint64_t *value);
/* Waits for a value; VRAM_ERR_TIMEOUT after `ns`. */
vram_status vr_vulkan_clock_wait(struct vr_vulkan_device *device,
                                 const struct vr_vulkan_clock *clock, uint64_t value, uint64_t ns);

/* A thread that writes a clock's word; NULL where the device does. */
struct vr_vulkan_watch;
vram_status vr_vulkan_watch_make(struct vr_vulkan_device *device, struct vr_vulkan_clock *clock,
                                 struct vr_vulkan_watch **watch);
/* Ends it. When all that was submitted is `finished` the word becomes what it was told to be, else
   it stays as it is. NULL is fine. */
void vr_vulkan_watch_end(struct vr_vulkan_watch *watch, bool finished);
/* A mark is taken before the submission that it is for, and set behind it: the word becomes `word`
   when the clock reaches `value`. NULL when host memory is out. */
void *vr_vulkan_mark_take(void);
void vr_vulkan_mark_give(void *mark);
void vr_vulkan_mark_set(struct vr_vulkan_watch *watch, void *mark, uint64_t word, uint64_t value);

/* ------------------------------------------------------------------ batches */

/* A command buffer that is being written, and what it must wait for. The line is locked from begin
   to submit or cancel. */
struct vr_vulkan_recording {
    struct vr_vulkan_queue *queue;
    struct vr_vulkan_batch *batch;
    struct vr_vk_commands *commands;
    struct vr_list freed; /* staging that came back meanwhile */
    bool signals;         /* behind it the queue's word is `word` */
    uint64_t word;
    void *mark; /* for the queue's watch, which gets it in the order of submissions */
};

vram_status vr_vulkan_begin(struct vr_vulkan_recording *recording, struct vr_vulkan_queue *queue);
/* Cuts `bytes` (at most VR_VULKAN_SMALL) of staging for this recording. */
#define VR_VULKAN_SMALL (UINT64_C(16) << 10)
vram_status vr_vulkan_chunk_cut(struct vr_vulkan_recording *recording, uint64_t bytes,
                                struct vr_vk_buffer **buffer, uint64_t *offset, char **pointer);
/* Orders and makes visible all that was submitted or recorded before, for devices and the host. */
void vr_vulkan_order(const struct vr_vulkan_recording *recording);
/* Submits; *value, if not NULL, is what the clock reaches behind it. `staging`, if not NULL, is a
   block that the work uses: it is given back in time, or at once when this fails. */
vram_status vr_vulkan_submit(struct vr_vulkan_recording *recording, struct vr_vulkan_block *staging,
                             uint64_t *value);
void vr_vulkan_cancel(struct vr_vulkan_recording *recording);
/* Submits no work but a wait for another clock; NULL: none. The line is not locked by the
   caller. */
vram_status vr_vulkan_submit_wait(struct vr_vulkan_queue *queue,
                                  const struct vr_vulkan_clock *other, uint64_t other_value,
                                  uint64_t *value);
/* Frees all batches and staging of a queue whose work is done; without driver calls when it is
   lost. */
void vr_vulkan_batches_end(struct vr_vulkan_queue *queue, bool lost);

void vr_vulkan_line_lock(struct vr_vulkan_line *line);
void vr_vulkan_line_unlock(struct vr_vulkan_line *line);

/* ------------------------------------------------------------------- tables */

vr_device_open_fn vr_vulkan_device_open;
vr_queue_upload_fn vr_vulkan_upload;
vr_queue_download_fn vr_vulkan_download;
vr_queue_copy_fn vr_vulkan_copy;
vr_queue_fill_fn vr_vulkan_fill;
extern const struct vr_queue_ops vr_vulkan_queue_ops;
extern const struct vr_kernel_ops vr_vulkan_kernel_ops;

#endif

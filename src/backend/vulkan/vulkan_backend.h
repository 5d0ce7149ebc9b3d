/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan_backend.h: what the files of the Vulkan backend share.
 *
 *   vulkan_backend.c   loads the loader, creates or adopts an instance, says why there is none
 *   vulkan_physical.c  properties and features of each physical device
 *   vulkan_error.c     result codes become statuses and one line of text
 *   vulkan_device.c    logical devices and their native queues
 *   vulkan_memory.c    allocations: buffers bound to memory of their own; device and pinned memory
 *   vulkan_share.c     memory that other processes import
 *   vulkan_object.c    buffers that the program created
 *   vulkan_staging.c   staging memory for copies from and to pageable memory
 *   vulkan_queue.c     queues: creating, adopting, destroying
 *   vulkan_command.c   command buffers: recording, submitting, reusing
 *   vulkan_timeline.c  words and timeline semaphores; signals, waits, polls
 *   vulkan_copy.c      copies and fills
 *   vulkan_kernel.c    compute shaders in SPIR-V
 *
 * A vram_addr of device memory lies in a window (base/window.h): Vulkan's device addresses belong
 * to one logical device and may equal addresses of other memory of the process. vram_native returns
 * them. Managed memory, peers and virtual memory management are absent: Vulkan has no managed
 * memory and no peers, and its sparse binding is in queue order only, which the pool cannot use.
 */
#ifndef VR_VULKAN_BACKEND_H
#define VR_VULKAN_BACKEND_H

#include "backend/backend.h"
#include "backend/vulkan/vulkan_api.h"
#include "base/list.h"
#include "base/loader.h"
#include "base/lock.h"
#include "vram/vulkan.h"

/* The granule of device memory: the largest page that drivers align buffers to. */
#define VR_VULKAN_GRANULE (UINT64_C(64) << 10)

enum {
    VR_VULKAN_FAMILIES = 16,    /* queue families of a device that are read */
    VR_VULKAN_NATIVE_QUEUES = 8 /* native queues of a device that the library creates */
};

/* ------------------------------------------------------------------ objects */

struct vr_vulkan_device;

/* A usable physical device: Vulkan 1.2, timeline semaphores, a queue for compute. */
struct vr_vulkan_physical {
    struct vr_vk_physical *handle;
    struct vr_vk_properties properties;
    struct vr_vk_memory_properties memory;
    struct vr_vk_family families[VR_VULKAN_FAMILIES];
    uint32_t family_count;
    uint64_t alloc_max; /* bytes of one allocation, a multiple of the granule */
    bool uuid_known, pci_known, budget, addresses;
    bool external_fd;   /* buffers can be exported to and imported from descriptors */
    uint32_t driver_id; /* vr_device.driver_id */
    uint8_t uuid[16];
    char pci[16];
    struct vr_vk_features_2 features; /* enabled on devices that the library creates */
    struct vr_vk_features_11 features_11;
    struct vr_vk_features_12 features_12;
    vr_atomic_u64 heap_used[VR_VK_MEMORY_HEAPS]; /* bytes that this backend has allocated */
    struct vr_vulkan_device
        *open; /* the logical device, shared by all handles; the backend's lock */
};

/* vr_backend.impl */
struct vr_vulkan {
    struct vr_library library;
    vr_vk_get_fn *get;
    struct vr_vulkan_api api; /* global and instance rows */
    struct vr_vk_instance *instance;
    vr_atomic_bool keep_instance; /* a lost device was not destroyed, so the instance must stay */
    struct vr_mutex lock;         /* guards vr_vulkan_physical.open and vr_vulkan_device.users */
    struct vr_vulkan_physical *physicals;
    uint32_t physical_count;
    struct vram_vulkan_adoption adopted; /* device NULL: the library creates instance and devices */
    struct vram_vulkan_queue *adopted_queues;
};

/* A native queue. Several queues of the library share one. */
struct vr_vulkan_native_queue {
    struct vr_vk_queue *handle;
    uint32_t family;
    bool compute;         /* runs kernels, not only copies */
    uint32_t users;       /* queues of the library on it; the device's lock */
    struct vr_mutex lock; /* Vulkan forbids two submissions at a time */
    void (*user_lock)(void *user);
    void (*user_unlock)(void *user);
    void *user;
};

/* One allocation: a buffer bound to memory of its own. Type-stable: look-ups by address may run
   while it is freed, and read only the second part. */
struct vr_vulkan_memory {
    void *free_link; /* vr_stable's */
    struct vr_vulkan_owned {
        struct vr_link link;
        struct vr_vk_buffer *buffer;
        struct vr_vk_memory *memory;
        uint64_t bytes;   /* of the buffer */
        uint64_t held;    /* of the memory, which may be larger */
        uint32_t heap;    /* of the memory */
        uint64_t address; /* for kernels; 0: none */
        char *mapped;     /* where the host has it mapped; NULL: nowhere */
        bool external;    /* other processes import it, or it is imported */
        int *import_from; /* while it is made: the descriptor, -1 once it is the driver's */
        uint64_t value;   /* staging: in use until the queue's timeline reaches this */
    } own;
    vr_atomic_ptr device, buffer; /* the same for look-ups, ... */
    vr_atomic_u64 bytes, address; /* ... once it has a window */
};

static inline struct vr_vulkan_memory *vr_vulkan_memory_of(struct vr_link *link) {
    return VR_CONTAINER(link, struct vr_vulkan_memory, own.link);
}

/* The buffer behind an address. */
struct vr_vulkan_location {
    struct vr_vk_buffer *buffer;
    uint64_t offset;  /* in the buffer */
    uint64_t bytes;   /* of the buffer */
    uint64_t address; /* for kernels; 0: none */
};

/* The progress of a queue: a word for the host, a timeline semaphore for devices. Both outlive the
   queue; the next queue that uses them continues counting. */
struct vr_vulkan_timeline {
    struct vr_vulkan_timeline *next;
    vr_atomic_u64 *word;
    struct vr_vulkan_memory *page; /* the memory of the word ... */
    uint64_t offset;               /* ... and the offset in it */
    struct vr_vk_semaphore *semaphore;
    vr_atomic_u64 submitted; /* highest value submitted to the semaphore */
    bool taken;              /* a queue uses it; the device's lock */
};

/* vr_device.impl: a logical device, shared by all handles on the same physical one. */
struct vr_vulkan_device {
    struct vr_vulkan *backend;
    struct vr_vulkan_physical *physical;
    struct vr_vulkan_api api; /* all rows */
    struct vr_vk_device *handle;
    uint32_t users;      /* handles on it; the backend's lock */
    vr_atomic_bool lost; /* the driver said so: no new handle is opened on it */
    bool addresses;      /* buffers have device addresses */
    struct vr_vulkan_native_queue native_queues[VR_VULKAN_NATIVE_QUEUES];
    uint32_t native_queue_count;
    uint32_t families[VR_VULKAN_FAMILIES]; /* families that share the buffers */
    uint32_t family_count;
    vr_atomic_u64 allocations; /* VkDeviceMemory objects of the library */
    struct vr_mutex lock;      /* guards the rest, never across a driver call */
    struct vr_list pinned;     /* pinned memory */
    struct vr_list staging;    /* free staging memory */
    uint64_t staging_bytes;    /* in that list */
    struct vr_vulkan_timeline *timelines;
    struct vr_list pages; /* memory of words */
};

struct vr_vulkan_command_buffer; /* vulkan_command.c */

enum { VR_VULKAN_SIGNALS = 16 };

/* vr_queue.impl. The native queue's lock guards all but the constants. */
struct vr_vulkan_queue {
    struct vr_vulkan_device *device;
    struct vr_vulkan_native_queue *native_queue;
    struct vr_vulkan_timeline *timeline;
    struct vr_vulkan_word_thread *word_thread; /* writes the word; NULL: the device does */
    struct vr_vk_command_pool *pool;
    struct vr_list busy, idle;      /* command buffers in use, oldest first, and free */
    struct vr_list staging_busy;    /* staging memory in use by submitted work, oldest first */
    uint64_t staging_busy_bytes;    /* in that list */
    struct vr_vulkan_memory *chunk; /* staging memory for small copies */
    uint64_t chunk_used;            /* bytes of it */
    uint32_t word_high;             /* upper half of the last value written to the word */
    struct vr_vulkan_signal {
        uint64_t word, value; /* when the timeline reaches `value`, the word is at least `word` */
    } signals[VR_VULKAN_SIGNALS]; /* the newest, as a ring buffer */
    uint32_t signal_count;
};

/* ------------------------------------------------------------------- errors */

/* VRAM_OK for VR_VK_SUCCESS; otherwise records the failure of `operation` and returns its status.
   `exhausted` says what ran out if the driver says "device memory". */
vram_status vr_vulkan_check(const char *operation, vr_vk_result code, vram_status exhausted);

/* The same for a logical device; stores that it is lost. */
vram_status vr_vulkan_device_check(struct vr_vulkan_device *device, const char *operation,
                                   vr_vk_result code, vram_status exhausted);

/* Calls a function of a logical device and checks the result. */
#define VR_VULKAN(device, function, ...)                                                           \
    vr_vulkan_device_check(device, #function, (device)->api.function(__VA_ARGS__),                 \
                           VRAM_ERR_DEVICE_MEMORY)

/* A success with an impossible result: the driver's error, VRAM_ERR_CORRUPT. */
vram_status vr_vulkan_bad_result(const char *operation, uint64_t result);

/* ----------------------------------------------------------------- starting */

/* Finds the usable physical devices. VRAM_ERR_NO_DEVICE with the reason if there is none. */
vram_status vr_vulkan_physicals_find(struct vr_vulkan *vulkan);
/* Loads the device functions into device->api. */
vram_status vr_vulkan_device_functions_load(struct vr_vulkan_device *device);
/* Reads one; *reason (static text) says why it is not usable, or is NULL. */
vram_status vr_vulkan_physical_read(const struct vr_vulkan *vulkan, struct vr_vk_physical *handle,
                                    struct vr_vulkan_physical *physical, const char **reason);

/* ------------------------------------------------------------------- memory */

enum vr_vulkan_memory_kind {
    VR_VULKAN_ON_DEVICE, /* memory of the device */
    VR_VULKAN_ON_HOST    /* mapped, coherent, on a page boundary */
};

/* How buffers of the library are used: VkBufferUsageFlags. */
uint32_t vr_vulkan_usage(bool addresses);

/* Allocates memory with a buffer; `bytes` > 0. */
vram_status vr_vulkan_memory_make(struct vr_vulkan_device *device, uint64_t bytes,
                                  enum vr_vulkan_memory_kind use, struct vr_vulkan_memory **memory);
/* The same on the device, for other processes. `import_from`, if not NULL, is a descriptor of
   memory of `bytes` that another process has made so; it becomes -1 when the driver took it. */
vram_status vr_vulkan_memory_make_external(struct vr_vulkan_device *device, uint64_t bytes,
                                           int *import_from, struct vr_vulkan_memory **memory);
/* Frees it; without driver calls if the device is lost. */
void vr_vulkan_memory_end(struct vr_vulkan_device *device, struct vr_vulkan_memory *memory,
                          bool lost);
/* A record without buffer and memory; NULL with the error set if memory ran out. End it with
   vr_vulkan_memory_end. */
struct vr_vulkan_memory *vr_vulkan_memory_take(uint64_t bytes);
/* Gives it addresses, or ends it. */
vram_status vr_vulkan_memory_publish(struct vr_vulkan_device *device,
                                     struct vr_vulkan_memory *memory, vram_addr *addr);
/* Makes it visible to look-ups by address, before its window is opened. */
void vr_vulkan_memory_show(struct vr_vulkan_device *device, struct vr_vulkan_memory *memory);
/* The location of `addr`, without a lock. VRAM_ERR_INVALID for memory of others. */
vram_status vr_vulkan_find(const struct vr_vulkan_device *device, vram_addr addr,
                           const char *operation, struct vr_vulkan_location *location);
/* The buffer of the pinned memory that contains [host, host + bytes); NULL: none. */
struct vr_vk_buffer *vr_vulkan_pinned_find(struct vr_vulkan_device *device, const void *host,
                                           uint64_t bytes, uint64_t *offset);

vr_memory_info_fn vr_vulkan_memory_info;
vr_memory_alloc_fn vr_vulkan_memory_alloc;
vr_memory_free_fn vr_vulkan_memory_free;
extern const struct vr_pinned_ops vr_vulkan_pinned_ops;
extern const struct vr_handle_ops vr_vulkan_handle_ops;
extern const struct vr_object_ops vr_vulkan_object_ops;
/* Whether memory of the device can be shared; *reason says why not. */
bool vr_vulkan_can_share(const struct vr_vulkan_device *device, const char **reason);
extern const struct vr_share_ops vr_vulkan_share_ops;
vr_memory_native_fn vr_vulkan_native;

/* ------------------------------------------------------------------ staging */

#define VR_VULKAN_PIECE (UINT64_C(8) << 20) /* bytes: longer copies are split */

/* Mapped memory of at least `bytes`, which is at most VR_VULKAN_PIECE, for the caller alone. */
vram_status vr_vulkan_staging_take(struct vr_vulkan_device *device, uint64_t bytes,
                                   struct vr_vulkan_memory **memory);
/* Gives back staging memory that no submitted work uses. No lock is held. */
void vr_vulkan_staging_give(struct vr_vulkan_device *device, struct vr_vulkan_memory *memory);
/* The same for a list. */
void vr_vulkan_staging_give_all(struct vr_vulkan_device *device, struct vr_list *list);
void vr_vulkan_staging_end(struct vr_vulkan_device *device, bool lost);

/* ---------------------------------------------------------------- timelines */

vram_status vr_vulkan_timeline_take(struct vr_vulkan_device *device,
                                    struct vr_vulkan_timeline **timeline);
/* Lets a later queue use it; all work submitted with it is complete. */
void vr_vulkan_timeline_give(struct vr_vulkan_device *device, struct vr_vulkan_timeline *timeline);
void vr_vulkan_timelines_end(struct vr_vulkan_device *device, bool lost);
/* The value of the semaphore. */
vram_status vr_vulkan_timeline_read(struct vr_vulkan_device *device,
                                    const struct vr_vulkan_timeline *timeline, uint64_t *value);
/* Waits for a value; VRAM_ERR_TIMEOUT after `ns`. */
vram_status vr_vulkan_timeline_wait(struct vr_vulkan_device *device,
                                    const struct vr_vulkan_timeline *timeline, uint64_t value,
                                    uint64_t ns);

/* A thread that writes the word of a timeline; NULL if the device does. */
struct vr_vulkan_word_thread;
vram_status vr_vulkan_word_thread_start(struct vr_vulkan_device *device,
                                        struct vr_vulkan_timeline *timeline,
                                        struct vr_vulkan_word_thread **word_thread);
/* Ends it. If all submitted work is `finished`, the pending values are written to the word, else
   the word stays. NULL is allowed. */
void vr_vulkan_word_thread_end(struct vr_vulkan_word_thread *word_thread, bool finished);
/* Queues a write: the word becomes `word` when the timeline reaches `value`. `write` was allocated
   before the submission, so that this cannot fail. */
void vr_vulkan_word_write_add(struct vr_vulkan_word_thread *word_thread, void *write, uint64_t word,
                              uint64_t value);

/* ---------------------------------------------------------- command buffers */

/* A command buffer that is being recorded. The native queue is locked from begin to submit or
   cancel. */
struct vr_vulkan_recording {
    struct vr_vulkan_queue *queue;
    struct vr_vulkan_command_buffer *command_buffer;
    struct vr_vk_commands *commands;
    struct vr_list freed; /* staging memory that became free meanwhile */
    bool signals;         /* after it the queue's word is `word` */
    uint64_t word;
    void *write; /* for the word thread, which gets it in submission order */
};

vram_status vr_vulkan_begin(struct vr_vulkan_recording *recording, struct vr_vulkan_queue *queue);
/* Takes `bytes` (at most VR_VULKAN_SMALL) of staging memory for this recording. */
#define VR_VULKAN_SMALL (UINT64_C(16) << 10)
vram_status vr_vulkan_chunk_cut(struct vr_vulkan_recording *recording, uint64_t bytes,
                                struct vr_vk_buffer **buffer, uint64_t *offset, char **pointer);
/* A barrier: all work submitted or recorded before is complete and visible to devices and the
   host. */
void vr_vulkan_barrier(const struct vr_vulkan_recording *recording);
/* Submits; *value, if not NULL, is what the timeline reaches after it. `staging`, if not NULL, is
   memory that the work uses: it is given back when the work is complete, or at once on failure. */
vram_status vr_vulkan_submit(struct vr_vulkan_recording *recording,
                             struct vr_vulkan_memory *staging, uint64_t *value);
void vr_vulkan_cancel(struct vr_vulkan_recording *recording);
/* Submits only a wait for another timeline; NULL: none. The caller does not hold the native queue's
   lock. */
vram_status vr_vulkan_submit_wait(struct vr_vulkan_queue *queue,
                                  const struct vr_vulkan_timeline *other, uint64_t other_value,
                                  uint64_t *value);
/* Frees all command buffers and staging memory of a queue whose work is complete; without driver
   calls if it is lost. */
void vr_vulkan_command_buffers_end(struct vr_vulkan_queue *queue, bool lost);

void vr_vulkan_native_queue_lock(struct vr_vulkan_native_queue *native_queue);
void vr_vulkan_native_queue_unlock(struct vr_vulkan_native_queue *native_queue);

/* ------------------------------------------------------------------- tables */

vr_device_open_fn vr_vulkan_device_open;
vr_queue_upload_fn vr_vulkan_upload;
vr_queue_download_fn vr_vulkan_download;
vr_queue_copy_fn vr_vulkan_copy;
vr_queue_fill_fn vr_vulkan_fill;
vr_queue_signal_fn vr_vulkan_signal;
vr_queue_after_fn vr_vulkan_after;
vr_queue_poll_fn vr_vulkan_poll;
extern const struct vr_queue_ops vr_vulkan_queue_ops;
extern const struct vr_kernel_ops vr_vulkan_kernel_ops;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Python calls through ctypes (bindings/python/vram/torch). No exception leaves these calls: 0
 * is success; a failure is negative, a vram_status if the library has failed, and
 * vram_torch_error() says what was wrong, on the same thread.
 */
#ifndef VRAM_TORCH_CONTROL_H
#define VRAM_TORCH_CONTROL_H

#include <stdint.h>

#define VRAM_TORCH_ABI 4 /* changes with these declarations */

#ifdef __cplusplus
extern "C" {
#endif

#define VRAM_TORCH_API __attribute__((visibility("default")))

/* VRAM_TORCH_ABI of the library, and the version of PyTorch that it was compiled for, "2.11". */
VRAM_TORCH_API int vram_torch_abi(void);
VRAM_TORCH_API const char *vram_torch_built_for(void);
/* Names the class that it implements, as bindings/python/vram/torch/extension.py's class_of(). */
VRAM_TORCH_API const char *vram_torch_class(void);

/* The text of the last failure on this thread; "" before the first. */
VRAM_TORCH_API const char *vram_torch_error(void);

/* Makes the allocator PyTorch's, before its own was initialized, or changes the options of one that
   is, before memory was allocated. `moving` 0: memory in whole
   segments of the driver, which other libraries may register. `sharing` 0: tensors are not sent to
   other processes, and memory is taken from the driver without that ability. */
VRAM_TORCH_API int vram_torch_enable(int moving, int sharing);
/* PyTorch has the allocator again that it had before, if no memory was allocated. */
VRAM_TORCH_API int vram_torch_disable(void);
/* Whether this allocator is PyTorch's now. */
VRAM_TORCH_API int vram_torch_enabled(void);

/* Allocations of this thread from now on have this tag, and those of autograd's threads that work
   for it. Pairs nest. */
VRAM_TORCH_API int vram_torch_tag_push(const char *tag);
VRAM_TORCH_API int vram_torch_tag_pop(void);
/* The tag of allocations of all threads that have none; NULL: none. */
VRAM_TORCH_API int vram_torch_tag_default(const char *tag);
/* Bytes that the blocks of a tag may take together; 0: no quota. */
VRAM_TORCH_API int vram_torch_tag_quota(int device, const char *tag, uint64_t soft_bytes,
                                        uint64_t hard_bytes);
/* Now live, and the peak, in bytes. */
VRAM_TORCH_API int vram_torch_tag_bytes(int device, const char *tag, uint64_t *used,
                                        uint64_t *peak);

/* Gives the memory of a tag (NULL: all) back to the driver and keeps every address. `keep` is a
   vram_sleep_contents: 0 drops the contents, 1 keeps them on the host, 2 page-locked. */
VRAM_TORCH_API int vram_torch_sleep(int device, const char *tag, int keep);
VRAM_TORCH_API int vram_torch_wake(int device, const char *tag);

/* Memory under a tag, and where its contents lie on the host. */
typedef struct vram_torch_range {
    uint64_t addr, bytes, host;
} vram_torch_range;

/* Writes up to `most` of the blocks of exactly this tag, without `host`: blocks of tensors, and
   segments of graphs and MemPools. Returns how many there are. */
VRAM_TORCH_API int vram_torch_tag_ranges(int device, const char *tag, vram_torch_range *ranges,
                                         int most);
/* Copies to the host or back, and waits: first for the device, then for the copies. */
VRAM_TORCH_API int vram_torch_copy(int device, const vram_torch_range *ranges, int count,
                                   int to_host);
/* Page-locks memory of the program, for copies at full speed, or unlocks what was locked. */
VRAM_TORCH_API int vram_torch_host_lock(int device, void *memory, uint64_t bytes, int lock);
/* Bytes that stay free on each device: an allocation that would take from them fails. */
VRAM_TORCH_API int vram_torch_margin(uint64_t bytes);

/* A text that the caller gives back with vram_torch_text_free: everything that is counted, as JSON
   or as lines. NULL on failure. */
VRAM_TORCH_API char *vram_torch_report(int device, int json);
VRAM_TORCH_API void vram_torch_text_free(char *text);

/* vram_pool_stats of a device: requested, reserved and their peaks, allocations, hits, moved pieces,
   and ns of moving; returns how many there are, 0 before the first allocation. */
VRAM_TORCH_API int vram_torch_stats(int device, uint64_t *values, int count);

#ifdef __cplusplus
}
#endif

#endif

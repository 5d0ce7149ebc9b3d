/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/vmm.h: virtual memory management, for devices with VRAM_CAP_VMM.
 *
 * Addresses and memory are separate: a range is addresses without memory, a physical handle is
 * memory without an address, and a mapping joins them. Unmapping memory and mapping it elsewhere
 * moves it without a copy. Pools do this themselves; these calls are for programs that manage their
 * own memory, and for `vram check`.
 *
 * A handle is mapped and unmapped as a whole, at one address at a time. Sizes and offsets are
 * multiples of vram_device_info.vmm_granule.
 */
#ifndef VRAM_VMM_H
#define VRAM_VMM_H

#include <vram/device.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vram_physical vram_physical; /* memory without an address */

/** Reserves addresses, which takes no memory. `bytes` is rounded up to the granule. */
VRAM_API vram_status vram_range_create(vram_device *device, uint64_t bytes, vram_addr *base);

/** Releases the addresses. VRAM_ERR_BUSY while anything is mapped in the range. */
VRAM_API vram_status vram_range_destroy(vram_device *device, vram_addr base);

/** Allocates memory of the device. `bytes` is rounded up to the granule. */
VRAM_API vram_status vram_physical_create(vram_device *device, uint64_t bytes,
                                          vram_physical **physical);

/** Releases the memory. VRAM_ERR_BUSY while it is mapped. NULL is allowed. */
VRAM_API vram_status vram_physical_destroy(vram_physical *physical);

/** Its size after rounding; 0 for a stale handle. */
VRAM_API uint64_t vram_physical_bytes(vram_physical *physical);

/**
 * Maps `count` handles one after the other from `addr` on, and makes them readable and writable:
 * all or none. VRAM_ERR_BUSY if a handle is mapped already, or something is mapped there. If the
 * driver fails, and then fails twice to undo what it did, the first handles stay mapped but
 * unusable until vram_range_unmap.
 */
VRAM_API vram_status vram_range_map(vram_device *device, vram_addr addr,
                                    vram_physical *const *physicals, uint32_t count);

/**
 * Unmaps every handle in [addr, addr + bytes). VRAM_ERR_INVALID, and nothing is done, if that would
 * split a handle or include addresses without memory. The caller must have waited for all work that
 * uses the memory. If the driver fails in the middle, the rest stays mapped.
 */
VRAM_API vram_status vram_range_unmap(vram_device *device, vram_addr addr, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif

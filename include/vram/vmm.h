/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/vmm.h: virtual memory management, for devices with VRAM_CAP_VMM.
 *
 * Addresses and memory are taken apart: a range is addresses without memory, a physical handle is
 * memory without an address, and mapping joins them. Unmapping and mapping elsewhere moves memory
 * without copying. Pools do all this by themselves; these calls are for programs that manage
 * memory of their own, and for `vram check`.
 *
 * A handle is mapped and unmapped whole, at one place at a time. Sizes and offsets are multiples
 * of vram_device_info.vmm_granule.
 */
#ifndef VRAM_VMM_H
#define VRAM_VMM_H

#include <vram/device.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vram_physical vram_physical; /* memory without an address */

/** Reserves addresses; costs no memory. `bytes` is rounded up to the granule. */
VRAM_API vram_status vram_range_create(vram_device *device, uint64_t bytes, vram_addr *base);

/** Gives them back. VRAM_ERR_BUSY while anything is mapped in the range. */
VRAM_API vram_status vram_range_destroy(vram_device *device, vram_addr base);

/** Takes memory from the device. `bytes` is rounded up to the granule. */
VRAM_API vram_status vram_physical_create(vram_device *device, uint64_t bytes,
                                          vram_physical **physical);

/** Gives it back. VRAM_ERR_BUSY while it is mapped. NULL is allowed. */
VRAM_API vram_status vram_physical_destroy(vram_physical *physical);

/** Its size after rounding; 0 for a stale handle. */
VRAM_API uint64_t vram_physical_bytes(vram_physical *physical);

/**
 * Maps `count` handles one behind the other from `addr` on and makes them readable and writable:
 * all or none. VRAM_ERR_BUSY when a handle is mapped already or the place is taken. When the driver
 * fails and then refuses, twice, to undo what it did, the first handles stay mapped but unusable
 * until vram_range_unmap.
 */
VRAM_API vram_status vram_range_map(vram_device *device, vram_addr addr,
                                    vram_physical *const *physicals, uint32_t count);

/**
 * Unmaps every handle in [addr, addr + bytes). VRAM_ERR_INVALID, nothing done, when that would
 * split a handle or meet a hole. The caller has seen to it that no work still uses the memory.
 * When the driver fails half-way the part not yet unmapped stays mapped.
 */
VRAM_API vram_status vram_range_unmap(vram_device *device, vram_addr addr, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif

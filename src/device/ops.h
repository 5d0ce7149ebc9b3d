/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops.h: the only callers of a backend's tables. Each wrapper is declared with the type of the
 * table's field, so the two cannot diverge. A wrapper counts the call, refuses it on a lost device
 * (except the functions that backend.h marks [lost]) and while the process is exiting, detects that
 * the device is lost, and makes sure that a failure is in the error record. Callers check the
 * groups: these functions must not be called if the group is NULL.
 */
#ifndef VR_OPS_H
#define VR_OPS_H

#include "backend/backend.h"

/* VRAM_ERR_DEVICE_LOST, recorded for `operation`, if the device is known to be lost. */
vram_status vr_check_lost(const struct vr_device *device, const char *operation);

vr_device_open_fn vr_device_open;
vr_device_close_fn vr_device_close;
vr_memory_info_fn vr_memory_info;
vr_memory_alloc_fn vr_memory_alloc;
vr_memory_free_fn vr_memory_free;
vr_memory_others_fn vr_memory_others; /* unknown if the backend cannot tell */
vr_device_check_fn vr_device_check;

vr_queue_create_fn vr_queue_create;
vr_queue_adopt_fn vr_queue_adopt;
vr_queue_destroy_fn vr_queue_destroy;
vr_queue_upload_fn vr_queue_upload;
vr_queue_download_fn vr_queue_download;
vr_queue_copy_fn vr_queue_copy;
vr_queue_copy_rows_fn vr_queue_copy_rows; /* _UNSUPPORTED if the backend cannot */
vr_queue_fill_fn vr_queue_fill;
vr_queue_signal_fn vr_queue_signal;
vr_queue_after_fn vr_queue_after;
vr_queue_poll_fn vr_queue_poll;

vr_pinned_alloc_fn vr_pinned_alloc;
vr_pinned_free_fn vr_pinned_free;
vr_pinned_register_fn vr_pinned_register; /* _UNSUPPORTED if the backend cannot */
vr_pinned_unregister_fn vr_pinned_unregister;
vr_pinned_check_fn vr_pinned_check; /* unknown if the backend cannot tell */

vr_vmm_reserve_fn vr_vmm_reserve;
vr_vmm_unreserve_fn vr_vmm_unreserve;
vr_vmm_create_fn vr_vmm_create;
vr_vmm_release_fn vr_vmm_release;
vr_vmm_map_fn vr_vmm_map;
vr_vmm_access_fn vr_vmm_access;
vr_vmm_protect_fn vr_vmm_protect;
vr_vmm_unmap_fn vr_vmm_unmap;

vr_share_create_fn vr_share_create;
vr_share_export_fn vr_share_export_handle;
vr_share_import_fn vr_share_import_handle;
vr_share_create_fn vr_fabric_create;
vr_fabric_export_fn vr_fabric_export;
vr_fabric_import_fn vr_fabric_import;
vr_vmm_release_fn vr_share_release; /* of an imported handle */

vr_managed_alloc_fn vr_managed_alloc;
vr_managed_free_fn vr_managed_free;
vr_managed_prefetch_fn vr_managed_prefetch;
vr_managed_advise_fn vr_managed_advise; /* VRAM_OK if the driver takes no hints */

vr_peer_reachable_fn vr_peer_reachable;
vr_peer_enable_fn vr_peer_enable;
vr_peer_copy_fn vr_peer_copy;

vr_memory_native_fn vr_memory_native;

vr_object_adopt_fn vr_object_adopt;
vr_object_give_fn vr_object_give;
vr_memory_native_fn vr_object_native;

vr_kernel_load_fn vr_kernel_load;
vr_kernel_unload_fn vr_kernel_unload;
vr_queue_launch_fn vr_queue_launch;

#endif

/* Made by tools/rust-api from include/vram/vram.h. */
// SPDX-License-Identifier: Apache-2.0

use std::os::raw::{c_char, c_int, c_void};

pub const VRAM_TIMEOUT_NONE: u64 = 0;
pub const VRAM_TIMEOUT_DEFAULT: u64 = 18446744073709551614;
pub const VRAM_TIMEOUT_INFINITE: u64 = 18446744073709551615;
pub const VRAM_LIMIT_NONE: u64 = 18446744073709551615;
pub const VRAM_VERSION: u64 = 1000;
pub const VRAM_ERROR_TEXT_MAX: u64 = 240;
pub const VRAM_SIZE_TEXT_MAX: u64 = 24;
pub const VRAM_CACHE_LINE: u64 = 128;
pub const VRAM_RING_MAGIC: u64 = 3550892908025893444;
pub const VRAM_RING_AT_TELEMETRY: u64 = 128;
pub const VRAM_RING_AT_INPUT_HEAD: u64 = 256;
pub const VRAM_RING_AT_INPUT_TAIL: u64 = 384;
pub const VRAM_RING_AT_OUTPUT_HEAD: u64 = 512;
pub const VRAM_RING_AT_OUTPUT_TAIL: u64 = 640;
pub const VRAM_RING_AT_SLOTS: u64 = 768;
pub const VRAM_LIVE_OLD_NS: u64 = 60000000000;
pub const VRAM_MATMUL_THRESHOLD: u64 = 262144;
pub const VRAM_MODEL_LAYERS_MAX: u64 = 512;
pub const VRAM_ESTIMATE_DEVICES_MAX: u64 = 16;
pub const VRAM_CONTEXT_MOST: u64 = 18446744073709551615;
pub const VRAM_OVERHEAD_DEFAULT: u64 = 536870912;
pub type vram_status = c_int;
pub const VRAM_OK: vram_status = 0;
pub const VRAM_ERR_INVALID: vram_status = -1;
pub const VRAM_ERR_OVERFLOW: vram_status = -2;
pub const VRAM_ERR_STALE: vram_status = -3;
pub const VRAM_ERR_HOST_MEMORY: vram_status = -20;
pub const VRAM_ERR_DEVICE_MEMORY: vram_status = -21;
pub const VRAM_ERR_LIMIT: vram_status = -22;
pub const VRAM_ERR_FRAGMENTED: vram_status = -23;
pub const VRAM_ERR_UNSUPPORTED: vram_status = -40;
pub const VRAM_ERR_NO_DRIVER: vram_status = -41;
pub const VRAM_ERR_NO_DEVICE: vram_status = -42;
pub const VRAM_ERR_DEVICE_LOST: vram_status = -60;
pub const VRAM_ERR_BUSY: vram_status = -61;
pub const VRAM_ERR_CAPTURE: vram_status = -62;
pub const VRAM_ERR_NOT_READY: vram_status = -80;
pub const VRAM_ERR_TIMEOUT: vram_status = -81;
pub const VRAM_ERR_FORKED: vram_status = -82;
pub const VRAM_ERR_SHUTDOWN: vram_status = -83;
pub const VRAM_ERR_CORRUPT: vram_status = -100;
pub const VRAM_ERR_IO: vram_status = -101;
pub const VRAM_ERR_BACKEND: vram_status = -102;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_error {
    pub status: vram_status,
    pub backend: *const c_char,
    pub operation: *const c_char,
    pub native_code: i64,
    pub text: [c_char; 240],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_value {
    pub value: u64,
    pub known: bool,
}
pub type vram_report_format = c_int;
pub const VRAM_REPORT_TEXT: vram_report_format = 0;
pub const VRAM_REPORT_JSON: vram_report_format = 1;
pub type vram_write_fn = unsafe extern "C" fn(
    user: *mut c_void,
    text: *const c_char,
    bytes: usize,
) -> bool;
pub type vram_option_type = c_int;
pub const VRAM_OPTION_BOOL: vram_option_type = 0;
pub const VRAM_OPTION_INTEGER: vram_option_type = 1;
pub const VRAM_OPTION_SIZE: vram_option_type = 2;
pub const VRAM_OPTION_DURATION: vram_option_type = 3;
pub const VRAM_OPTION_TEXT: vram_option_type = 4;
pub const VRAM_OPTION_FRACTION: vram_option_type = 5;
pub const VRAM_OPTION_LIST: vram_option_type = 6;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_option_info {
    pub name: *const c_char,
    pub r#type: vram_option_type,
    pub is_limit: bool,
    pub default_text: *const c_char,
    pub minimum: u64,
    pub maximum: u64,
    pub help: *const c_char,
}
pub type vram_option_source = c_int;
pub const VRAM_OPTION_FROM_DEFAULT: vram_option_source = 0;
pub const VRAM_OPTION_FROM_ENVIRONMENT: vram_option_source = 1;
pub const VRAM_OPTION_FROM_API: vram_option_source = 2;
pub type vram_log_level = c_int;
pub const VRAM_LOG_OFF: vram_log_level = 0;
pub const VRAM_LOG_ERROR: vram_log_level = 1;
pub const VRAM_LOG_WARN: vram_log_level = 2;
pub const VRAM_LOG_INFO: vram_log_level = 3;
pub const VRAM_LOG_DEBUG: vram_log_level = 4;
pub type vram_log_fn = unsafe extern "C" fn(
    user: *mut c_void,
    level: vram_log_level,
    text: *const c_char,
);
pub type vram_host_alloc_fn = unsafe extern "C" fn(user: *mut c_void, bytes: usize) -> *mut c_void;
pub type vram_host_resize_fn = unsafe extern "C" fn(
    user: *mut c_void,
    memory: *mut c_void,
    bytes: usize,
) -> *mut c_void;
pub type vram_host_free_fn = unsafe extern "C" fn(user: *mut c_void, memory: *mut c_void);
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_host_allocator {
    pub user: *mut c_void,
    pub alloc: Option<vram_host_alloc_fn>,
    pub resize: Option<vram_host_resize_fn>,
    pub free: Option<vram_host_free_fn>,
}
pub type vram_addr = u64;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_context_options {
    pub size: usize,
    pub backends: *const c_char,
    pub sim: *const c_char,
    pub vulkan: *const vram_vulkan_adoption,
    pub opencl: *const vram_opencl_adoption,
    pub metal: *const vram_metal_adoption,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_backend_info {
    pub size: usize,
    pub name: *const c_char,
    pub present: bool,
    pub device_count: u32,
    pub version: [c_char; 64],
    pub reason: [c_char; 240],
}
pub type vram_cap = c_int;
pub const VRAM_CAP_VMM: vram_cap = 1;
pub const VRAM_CAP_PINNED: vram_cap = 2;
pub const VRAM_CAP_MANAGED: vram_cap = 4;
pub const VRAM_CAP_PEERS: vram_cap = 8;
pub const VRAM_CAP_KERNELS: vram_cap = 16;
pub const VRAM_CAP_TRUE_ADDRESS: vram_cap = 32;
pub const VRAM_CAP_HOST_ACCESS: vram_cap = 64;
pub const VRAM_CAP_MEMORY_INFO: vram_cap = 128;
pub const VRAM_CAP_ADOPT: vram_cap = 256;
pub const VRAM_CAP_SIMULATED: vram_cap = 512;
pub const VRAM_CAP_ALIAS: vram_cap = 1024;
pub const VRAM_CAP_HANDLES: vram_cap = 2048;
pub const VRAM_CAP_INTEGRATED: vram_cap = 4096;
pub const VRAM_CAP_RDMA: vram_cap = 8192;
pub type vram_device_kind = c_int;
pub const VRAM_DEVICE_GPU: vram_device_kind = 0;
pub const VRAM_DEVICE_CPU: vram_device_kind = 1;
pub const VRAM_DEVICE_SIMULATED: vram_device_kind = 2;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_device_info {
    pub size: usize,
    pub backend: *const c_char,
    pub backend_index: u32,
    pub kind: vram_device_kind,
    pub name: [c_char; 128],
    pub architecture: [c_char; 32],
    pub uuid_known: bool,
    pub pci_known: bool,
    pub uuid: [u8; 16],
    pub pci: [c_char; 16],
    pub caps: u32,
    pub caps_known: u32,
    pub memory_bytes: vram_value,
    pub alloc_granule: vram_value,
    pub alloc_max: vram_value,
    pub vmm_granule: vram_value,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_select_options {
    pub size: usize,
    pub bytes: u64,
    pub order: *const c_char,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_memory_info {
    pub size: usize,
    pub total_bytes: vram_value,
    pub free_bytes: vram_value,
    pub held_bytes: u64,
    pub held_peak_bytes: u64,
    pub held_count: u64,
    pub driver_calls: u64,
    pub lost: bool,
}
pub type vram_memory_kind = c_int;
pub const VRAM_MEMORY_DEVICE: vram_memory_kind = 0;
pub const VRAM_MEMORY_PINNED: vram_memory_kind = 1;
pub const VRAM_MEMORY_MANAGED: vram_memory_kind = 2;
pub const VRAM_MEMORY_HOST: vram_memory_kind = 3;
pub type vram_target = c_int;
pub const VRAM_TARGET_HOST: vram_target = -1;
pub const VRAM_TARGET_OWN: vram_target = -2;
pub type vram_advice = c_int;
pub const VRAM_ADVICE_NONE: vram_advice = 0;
pub const VRAM_ADVICE_READ_MOSTLY: vram_advice = 1;
pub const VRAM_ADVICE_PREFER: vram_advice = 2;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_native_info {
    pub size: usize,
    pub device: *mut vram_device,
    pub kind: vram_memory_kind,
    pub base: vram_addr,
    pub bytes: u64,
    pub offset: u64,
    pub handle: *mut c_void,
    pub device_address: vram_value,
    pub host_pointer: *mut c_void,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_queue_options {
    pub size: usize,
    pub priority: i32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_point {
    pub queue: *mut vram_queue,
    pub value: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_kernel_call {
    pub group: [u32; 3],
    pub groups: [u32; 3],
    pub group_size: [u32; 3],
    pub arguments: *const *mut c_void,
}
pub type vram_kernel_fn = unsafe extern "C" fn(call: *const vram_kernel_call);
pub type vram_kernel_format = c_int;
pub const VRAM_KERNEL_C: vram_kernel_format = 0;
pub const VRAM_KERNEL_PTX: vram_kernel_format = 1;
pub const VRAM_KERNEL_OPENCL_C: vram_kernel_format = 2;
pub const VRAM_KERNEL_SPIRV: vram_kernel_format = 3;
pub const VRAM_KERNEL_HSACO: vram_kernel_format = 4;
pub const VRAM_KERNEL_METAL: vram_kernel_format = 5;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_kernel_source {
    pub size: usize,
    pub format: vram_kernel_format,
    pub code: *const c_void,
    pub code_bytes: usize,
    pub entry: *const c_char,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_launch {
    pub size: usize,
    pub groups: [u32; 3],
    pub group_size: [u32; 3],
    pub argument_count: u32,
    pub arguments: *const *const c_void,
    pub argument_bytes: *const usize,
    pub address_mask: u32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_async {
    pub word: [u64; 4],
}
pub type vram_async_state = c_int;
pub const VRAM_ASYNC_PENDING: vram_async_state = 0;
pub const VRAM_ASYNC_READY: vram_async_state = 1;
pub const VRAM_ASYNC_ERROR: vram_async_state = 2;
pub type vram_async_fn = unsafe extern "C" fn(user: *mut c_void, status: vram_status);
pub type vram_provider_alloc_fn = unsafe extern "C" fn(
    user: *mut c_void,
    bytes: u64,
    addr: *mut vram_addr,
) -> vram_status;
pub type vram_provider_free_fn = unsafe extern "C" fn(
    user: *mut c_void,
    addr: vram_addr,
    bytes: u64,
) -> vram_status;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_provider {
    pub size: usize,
    pub user: *mut c_void,
    pub alloc: Option<vram_provider_alloc_fn>,
    pub free: Option<vram_provider_free_fn>,
    pub granule: u64,
}
pub type vram_pool_flag = c_int;
pub const VRAM_POOL_DETERMINISTIC: vram_pool_flag = 1;
pub const VRAM_POOL_SEGMENTS: vram_pool_flag = 2;
pub const VRAM_POOL_ZERO_ALLOC: vram_pool_flag = 4;
pub const VRAM_POOL_ZERO_FREE: vram_pool_flag = 8;
pub const VRAM_POOL_POISON: vram_pool_flag = 16;
pub const VRAM_POOL_RED_ZONES: vram_pool_flag = 32;
pub const VRAM_POOL_TRACKED: vram_pool_flag = 64;
pub const VRAM_POOL_POWER_OF_TWO: vram_pool_flag = 128;
pub const VRAM_POOL_SHAREABLE: vram_pool_flag = 256;
pub const VRAM_POOL_SHARE_GROUP: vram_pool_flag = 512;
pub const VRAM_POOL_SHARE_FABRIC: vram_pool_flag = 1024;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_pool_options {
    pub size: usize,
    pub flags: u32,
    pub provider: *const vram_provider,
    pub range_bytes: u64,
    pub slack_bytes: u64,
    pub name: *const c_char,
    pub limits: *const vram_limits,
    pub response: *const vram_response_options,
    pub quarantine_bytes: u64,
    pub kind: vram_memory_kind,
}
pub type vram_alloc_flag = c_int;
pub const VRAM_ALLOC_CACHED_ONLY: vram_alloc_flag = 1;
pub const VRAM_ALLOC_NO_WAIT: vram_alloc_flag = 2;
pub const VRAM_ALLOC_NO_FALLBACK: vram_alloc_flag = 4;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_alloc_options {
    pub size: usize,
    pub alignment: u64,
    pub flags: u32,
    pub tag: *const c_char,
    pub reserve_bytes: u64,
    pub name: *const c_char,
    pub elements: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_block_info {
    pub size: usize,
    pub pool: *mut vram_pool,
    pub addr: vram_addr,
    pub requested_bytes: u64,
    pub held_bytes: u64,
    pub tag: *const c_char,
    pub kind: vram_memory_kind,
}
pub type vram_trim_flag = c_int;
pub const VRAM_TRIM_MEMORY: vram_trim_flag = 1;
pub const VRAM_TRIM_CACHES: vram_trim_flag = 2;
pub const VRAM_TRIM_RARE: vram_trim_flag = 4;
pub const VRAM_TRIM_BUFFERS: vram_trim_flag = 8;
pub const VRAM_TRIM_PINNED: vram_trim_flag = 16;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_trim_options {
    pub size: usize,
    pub flags: u32,
    pub keep_bytes: u64,
    pub idle_ns: u64,
    pub interval_ns: u64,
}
pub type vram_sleep_contents = c_int;
pub const VRAM_SLEEP_DROP: vram_sleep_contents = 0;
pub const VRAM_SLEEP_HOST: vram_sleep_contents = 1;
pub const VRAM_SLEEP_PINNED: vram_sleep_contents = 2;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_sleep_options {
    pub size: usize,
    pub contents: vram_sleep_contents,
    pub tag: *const c_char,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_rebuild_options {
    pub size: usize,
    pub bytes: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_rebuild_result {
    pub size: usize,
    pub won_bytes: u64,
    pub copied_bytes: u64,
    pub handles: u64,
}
pub const VRAM_LADDER_ROOM: c_int = 16;
pub const VRAM_RESPONSE_ROOM: c_int = 8;
pub const VRAM_PRESSURE_ROOM: c_int = 8;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_pool_stats {
    pub size: usize,
    pub requested_bytes: u64,
    pub allocated_bytes: u64,
    pub cached_bytes: u64,
    pub reserved_bytes: u64,
    pub peak_requested_bytes: u64,
    pub peak_allocated_bytes: u64,
    pub peak_reserved_bytes: u64,
    pub live_blocks: u64,
    pub allocs: u64,
    pub frees: u64,
    pub hits: u64,
    pub misses: u64,
    pub cache_hits: u64,
    pub returns: u64,
    pub cache_returns: u64,
    pub moved_handles: u64,
    pub moved_bytes: u64,
    pub move_ns: u64,
    pub spare_handles: u64,
    pub driver_creates: u64,
    pub driver_releases: u64,
    pub driver_maps: u64,
    pub driver_unmaps: u64,
    pub driver_accesses: u64,
    pub driver_allocs: u64,
    pub driver_frees: u64,
    pub driver_markers: u64,
    pub metadata_bytes: u64,
    pub thread_cache_bytes: u64,
    pub hit_rate: f64,
    pub rounding_bytes: u64,
    pub active_buffers: u64,
    pub peak_scopes: u64,
    pub budget_bytes: vram_value,
    pub refusals: u64,
    pub limit_refusals: u64,
    pub quota_refusals: u64,
    pub quota_crossings: u64,
    pub fallbacks: u64,
    pub fallback_bytes: u64,
    pub ladder_runs: u64,
    pub ladder_steps: [u64; 16],
    pub ladder_bytes: [u64; 16],
    pub ladder_rescues: [u64; 16],
    pub response_steps: [u64; 8],
    pub response_bytes: [u64; 8],
    pub rises: [u64; 8],
    pub falls: [u64; 8],
    pub cleanups: u64,
    pub cleaned_bytes: u64,
    pub last_cleanup_ns: vram_value,
    pub sleeps: u64,
    pub wakes: u64,
    pub asleep_bytes: u64,
    pub asleep_host_bytes: u64,
    pub quarantine_bytes: u64,
    pub damaged_blocks: u64,
    pub other_bytes: u64,
    pub promotions: u64,
    pub promoted_bytes: u64,
    pub demotions: u64,
    pub demoted_bytes: u64,
    pub unchecked_blocks: u64,
    pub sealed_bytes: u64,
    pub shared_bytes: u64,
}
pub type vram_buffer_kind = c_int;
pub const VRAM_BUFFER_DEVICE: vram_buffer_kind = 0;
pub const VRAM_BUFFER_PINNED: vram_buffer_kind = 1;
pub const VRAM_BUFFER_MANAGED: vram_buffer_kind = 2;
pub const VRAM_BUFFER_MAPPED: vram_buffer_kind = 3;
pub const VRAM_BUFFER_FALLBACK: vram_buffer_kind = 4;
pub type vram_precision = c_int;
pub const VRAM_PRECISION_BYTES: vram_precision = 0;
pub const VRAM_PRECISION_FP32: vram_precision = 1;
pub const VRAM_PRECISION_FP16: vram_precision = 2;
pub const VRAM_PRECISION_BF16: vram_precision = 3;
pub const VRAM_PRECISION_INT8: vram_precision = 4;
pub const VRAM_BUFFER_NAME_MAX: c_int = 64;
pub type vram_buffer_flag = c_int;
pub const VRAM_BUFFER_PAGEABLE: vram_buffer_flag = 1;
pub type vram_move_cause = c_int;
pub const VRAM_MOVE_FALLBACK: vram_move_cause = 0;
pub const VRAM_MOVE_PROMOTE: vram_move_cause = 1;
pub const VRAM_MOVE_DEMOTE: vram_move_cause = 2;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_buffer_event {
    pub size: usize,
    pub buffer: *mut vram_buffer,
    pub id: u64,
    pub cause: vram_move_cause,
    pub from: vram_memory_kind,
    pub to: vram_memory_kind,
    pub bytes: u64,
}
pub type vram_buffer_moved_fn = unsafe extern "C" fn(
    user: *mut c_void,
    event: *const vram_buffer_event,
);
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_buffer_options {
    pub size: usize,
    pub kind: vram_buffer_kind,
    pub precision: vram_precision,
    pub flags: u32,
    pub name: *const c_char,
    pub tag: *const c_char,
    pub moved: Option<vram_buffer_moved_fn>,
    pub user: *mut c_void,
    pub growth: *const vram_growth,
    pub provider: *const vram_provider,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_buffer_info {
    pub size: usize,
    pub id: u64,
    pub name: [c_char; 64],
    pub tag: *const c_char,
    pub kind: vram_buffer_kind,
    pub precision: vram_precision,
    pub location: vram_memory_kind,
    pub addr: vram_addr,
    pub capacity_bytes: u64,
    pub used_bytes: u64,
    pub elements: u64,
    pub queue: *mut vram_queue,
    pub pool: *mut vram_pool,
    pub created_ns: u64,
    pub accessed_ns: u64,
    pub resizes: u64,
    pub host: *mut c_void,
    pub pinned: bool,
    pub wrapped: bool,
    pub mapped: bool,
    pub numa_node: vram_value,
    pub promotions: u64,
    pub demotions: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_span {
    pub buffer: *mut vram_buffer,
    pub offset: u64,
    pub bytes: u64,
}
pub type vram_map_flag = c_int;
pub const VRAM_MAP_READ: vram_map_flag = 1;
pub const VRAM_MAP_WRITE: vram_map_flag = 2;
pub type vram_wrap_kind = c_int;
pub const VRAM_WRAP_HOST: vram_wrap_kind = 0;
pub const VRAM_WRAP_ADDRESS: vram_wrap_kind = 1;
pub const VRAM_WRAP_HANDLE: vram_wrap_kind = 2;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_wrap {
    pub size: usize,
    pub kind: vram_wrap_kind,
    pub pointer: *mut c_void,
    pub address: u64,
    pub bytes: u64,
    pub offset: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_batch_options {
    pub size: usize,
    pub tag: *const c_char,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_batch_item {
    pub size: usize,
    pub elements: u64,
    pub precision: vram_precision,
    pub kind: vram_buffer_kind,
    pub name: *const c_char,
    pub host: *const c_void,
    pub host_bytes: u64,
    pub flags: u32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_batch_info {
    pub size: usize,
    pub pool: *mut vram_pool,
    pub queue: *mut vram_queue,
    pub count: u32,
    pub blocks: u32,
    pub shared_bytes: u64,
}
pub type vram_feed_mode = c_int;
pub const VRAM_FEED_STAGED: vram_feed_mode = 0;
pub const VRAM_FEED_DIRECT: vram_feed_mode = 1;
pub const VRAM_FEED_SLOTS_MAX: c_int = 16;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_feed_options {
    pub size: usize,
    pub slots: u32,
    pub mode: vram_feed_mode,
    pub priority: i32,
    pub bytes: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_feed_block {
    pub data: *mut c_void,
    pub bytes: u64,
    pub number: u64,
    pub slot: u32,
    pub pinned: bool,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_feed_stats {
    pub size: usize,
    pub submitted: u64,
    pub bytes: u64,
    pub stalls: u64,
    pub direct: u64,
    pub host_bytes: u64,
    pub pinned_bytes: u64,
    pub device_bytes: u64,
}
pub type vram_foreign_flag = c_int;
pub const VRAM_FOREIGN_COUNTS: vram_foreign_flag = 1;
pub const VRAM_FOREIGN_NAME_MAX: c_int = 64;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_foreign_options {
    pub size: usize,
    pub flags: u32,
    pub tag: *const c_char,
    pub name: *const c_char,
    pub kind: vram_memory_kind,
    pub elements: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_foreign_info {
    pub size: usize,
    pub id: u64,
    pub bytes: u64,
    pub counts: bool,
    pub tag: *const c_char,
    pub since_ns: u64,
    pub name: [c_char; 64],
    pub kind: vram_memory_kind,
    pub elements: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_foreign_totals {
    pub size: usize,
    pub count: u64,
    pub bytes: u64,
    pub counted_bytes: u64,
    pub peak_bytes: u64,
}
pub type vram_growth_policy = c_int;
pub const VRAM_GROWTH_EXACT: vram_growth_policy = 0;
pub const VRAM_GROWTH_FACTOR: vram_growth_policy = 1;
pub const VRAM_GROWTH_FIXED: vram_growth_policy = 2;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_growth {
    pub size: usize,
    pub policy: vram_growth_policy,
    pub factor_ppm: u32,
    pub step_bytes: u64,
    pub min_bytes: u64,
    pub max_bytes: u64,
    pub element_bytes: u32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_growth_info {
    pub size: usize,
    pub growth: vram_growth,
    pub capacity_bytes: u64,
    pub used_bytes: u64,
    pub utilisation: f64,
    pub in_place: u64,
    pub copies: u64,
    pub copied_bytes: u64,
    pub refusals: u64,
}
pub const VRAM_LEASE_NAME_MAX: c_int = 64;
pub const VRAM_LEASE_DEVICE_MAX: c_int = 64;
pub const VRAM_LEASE_POOLS_MAX: c_int = 64;
pub type vram_lease_why = c_int;
pub const VRAM_LEASE_GAVE: vram_lease_why = 0;
pub const VRAM_LEASE_SILENT: vram_lease_why = 1;
pub const VRAM_LEASE_NO_POINT: vram_lease_why = 2;
pub const VRAM_LEASE_REFUSED: vram_lease_why = 3;
pub const VRAM_LEASE_IN_USE: vram_lease_why = 4;
pub const VRAM_LEASE_MINIMUM: vram_lease_why = 5;
pub const VRAM_LEASE_PRIORITY: vram_lease_why = 6;
pub const VRAM_LEASE_GONE: vram_lease_why = 7;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_lease_event {
    pub size: usize,
    pub lease: *mut vram_lease,
    pub device: *mut vram_device,
    pub bytes: u64,
    pub left_ns: u64,
    pub process: u64,
    pub name: *const c_char,
    pub priority: i32,
    pub at_point: bool,
}
pub type vram_lease_answer = c_int;
pub const VRAM_LEASE_DONE: vram_lease_answer = 0;
pub const VRAM_LEASE_LATER: vram_lease_answer = 1;
pub const VRAM_LEASE_REFUSE: vram_lease_answer = 2;
pub type vram_lease_fn = unsafe extern "C" fn(
    user: *mut c_void,
    event: *const vram_lease_event,
) -> vram_lease_answer;
pub type vram_lease_flag = c_int;
pub const VRAM_LEASE_AT_ONCE: vram_lease_flag = 1;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_lease_options {
    pub size: usize,
    pub min_bytes: u64,
    pub want_bytes: u64,
    pub priority: i32,
    pub flags: u32,
    pub revoke: Option<vram_lease_fn>,
    pub user: *mut c_void,
    pub timeout_ns: u64,
    pub capacity_bytes: u64,
    pub name: *const c_char,
    pub dir: *const c_char,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_lease_info {
    pub size: usize,
    pub granted_bytes: u64,
    pub held_bytes: u64,
    pub min_bytes: u64,
    pub want_bytes: u64,
    pub priority: i32,
    pub connected: bool,
    pub broker: u64,
    pub brokers: u64,
    pub asked_bytes: u64,
    pub requests: u64,
    pub refusals: u64,
    pub revocations: u64,
    pub given_bytes: u64,
    pub got_bytes: u64,
    pub waited_ns: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_lease_entry {
    pub device: [c_char; 64],
    pub name: [c_char; 64],
    pub process: u64,
    pub priority: i32,
    pub min_bytes: u64,
    pub want_bytes: u64,
    pub granted_bytes: u64,
    pub held_bytes: u64,
    pub waiting_bytes: u64,
    pub asked_bytes: u64,
    pub capacity_bytes: u64,
}
pub type vram_lease_happening = c_int;
pub const VRAM_LEASE_LOG_OPENED: vram_lease_happening = 0;
pub const VRAM_LEASE_LOG_RESUMED: vram_lease_happening = 1;
pub const VRAM_LEASE_LOG_CLOSED: vram_lease_happening = 2;
pub const VRAM_LEASE_LOG_GAVE: vram_lease_happening = 3;
pub const VRAM_LEASE_LOG_KEPT: vram_lease_happening = 4;
pub const VRAM_LEASE_LOG_GRANTED: vram_lease_happening = 5;
pub const VRAM_LEASE_LOG_DENIED: vram_lease_happening = 6;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_lease_record {
    pub number: u64,
    pub ago_ns: u64,
    pub happening: vram_lease_happening,
    pub why: vram_lease_why,
    pub bytes: u64,
    pub waited_ns: u64,
    pub from_process: u64,
    pub to_process: u64,
    pub from: [c_char; 64],
    pub to: [c_char; 64],
}
pub type vram_broker_fn = unsafe extern "C" fn(user: *mut c_void) -> bool;
pub type vram_broker_started_fn = unsafe extern "C" fn(user: *mut c_void, path: *const c_char);
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_broker_options {
    pub size: usize,
    pub dir: *const c_char,
    pub idle_ns: u64,
    pub stop: Option<vram_broker_fn>,
    pub user: *mut c_void,
    pub started: Option<vram_broker_started_fn>,
}
pub type vram_switch = c_int;
pub const VRAM_SWITCH_DEFAULT: vram_switch = 0;
pub const VRAM_SWITCH_ON: vram_switch = 1;
pub const VRAM_SWITCH_OFF: vram_switch = 2;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_limits {
    pub size: usize,
    pub fraction: f64,
    pub min_free_bytes: u64,
    pub hard_bytes: u64,
    pub cached_bytes: u64,
    pub cached_blocks: u32,
    pub tracking: vram_switch,
    pub cpu_fallback: vram_switch,
}
pub type vram_preset = c_int;
pub const VRAM_PRESET_DEFAULT: vram_preset = 0;
pub const VRAM_PRESET_INFERENCE: vram_preset = 1;
pub const VRAM_PRESET_TRAINING: vram_preset = 2;
pub const VRAM_PRESET_CONSTRAINED: vram_preset = 3;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_tag_event {
    pub size: usize,
    pub device: *mut vram_device,
    pub tag: *const c_char,
    pub used_bytes: u64,
    pub soft_bytes: u64,
    pub hard_bytes: u64,
}
pub type vram_tag_fn = unsafe extern "C" fn(user: *mut c_void, event: *const vram_tag_event);
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_tag_info {
    pub size: usize,
    pub name: *const c_char,
    pub used_bytes: u64,
    pub own_bytes: u64,
    pub requested_bytes: u64,
    pub peak_bytes: u64,
    pub live_blocks: u64,
    pub allocs: u64,
    pub soft_bytes: u64,
    pub hard_bytes: u64,
    pub crossings: u64,
    pub refusals: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_metal_adoption {
    pub size: usize,
    pub device: *mut c_void,
}
pub const VRAM_LIVE_PAGE_VERSION: c_int = 1;
pub const VRAM_LIVE_PAGE_BYTES_MAX: c_int = 1048576;
pub const VRAM_LIVE_PAGE_DEVICES: c_int = 16;
pub const VRAM_LIVE_PAGE_POOLS: c_int = 64;
pub const VRAM_LIVE_PAGE_TAGS: c_int = 64;
pub const VRAM_LIVE_PAGE_REFUSALS: c_int = 8;
pub const VRAM_LIVE_PAGE_CAUSES: c_int = 16;
pub const VRAM_LIVE_PAGE_SIZES: c_int = 48;
pub const VRAM_LIVE_PAGE_LIBRARY: c_int = 0;
pub const VRAM_LIVE_PAGE_RUN: c_int = 1;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_live_page_table {
    pub offset: u32,
    pub stride: u32,
    pub count: u32,
    pub total: u32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_live_page_counts {
    pub held_bytes: u64,
    pub live_bytes: u64,
    pub allocated_bytes: u64,
    pub cached_bytes: u64,
    pub asleep_bytes: u64,
    pub limit_bytes: u64,
    pub peak_held_bytes: u64,
    pub peak_live_bytes: u64,
    pub live_blocks: u64,
    pub allocs: u64,
    pub frees: u64,
    pub hits: u64,
    pub misses: u64,
    pub cache_hits: u64,
    pub refusals: u64,
    pub limit_refusals: u64,
    pub quota_refusals: u64,
    pub fallbacks: u64,
    pub moved_bytes: u64,
    pub driver_calls: u64,
    pub alloc_rate: u64,
    pub free_rate: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_live_page_size {
    pub blocks: u64,
    pub bytes: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_live_page {
    pub magic: u64,
    pub version: u32,
    pub page_bytes: u32,
    pub pid: u64,
    pub start_ticks: u64,
    pub pid_space: u64,
    pub user: u64,
    pub begun_ns: u64,
    pub interval_ns: u64,
    pub origin: u32,
    pub reserved: u32,
    pub library: [c_char; 32],
    pub command: [c_char; 256],
    pub request: u32,
    pub answer: u32,
    pub sequence: u64,
    pub updated_ns: u64,
    pub devices: vram_live_page_table,
    pub pools: vram_live_page_table,
    pub tags: vram_live_page_table,
    pub refusals: vram_live_page_table,
    pub sum: vram_live_page_counts,
    pub tracked_pools: u64,
    pub foreign_bytes: u64,
    pub updates: u64,
    pub causes: [u64; 16],
    pub sizes_ns: u64,
    pub sizes: [vram_live_page_size; 48],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_live_page_device {
    pub backend: [c_char; 16],
    pub name: [c_char; 128],
    pub pci: [c_char; 16],
    pub uuid: [u8; 16],
    pub uuid_known: u32,
    pub kind: u32,
    pub index: u32,
    pub pressure_level: u32,
    pub pressure_millionths: u64,
    pub memory_bytes: u64,
    pub free_bytes: u64,
    pub held_bytes: u64,
    pub peak_held_bytes: u64,
    pub limit_bytes: u64,
    pub pools: u64,
}
pub const VRAM_LIVE_PAGE_TRACKED: c_int = 1;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_live_page_pool {
    pub name: [c_char; 64],
    pub id: u64,
    pub device: u32,
    pub pressure_level: u32,
    pub pressure_millionths: u64,
    pub flags: u32,
    pub reserved: u32,
    pub counts: vram_live_page_counts,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_live_page_tag {
    pub name: [c_char; 96],
    pub device: u32,
    pub reserved: u32,
    pub used_bytes: u64,
    pub own_bytes: u64,
    pub peak_bytes: u64,
    pub live_blocks: u64,
    pub allocs: u64,
    pub soft_bytes: u64,
    pub hard_bytes: u64,
    pub refusals: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_live_page_refusal {
    pub number: u64,
    pub date_ns: u64,
    pub bytes: u64,
    pub cause: u32,
    pub status: i32,
    pub pool: [c_char; 64],
    pub tag: [c_char; 64],
    pub text: [c_char; 256],
}
pub type vram_metrics_format = c_int;
pub const VRAM_METRICS_OPENMETRICS: vram_metrics_format = 0;
pub const VRAM_METRICS_PROMETHEUS: vram_metrics_format = 1;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_metrics_source {
    pub size: usize,
    pub page: *const vram_live_page,
    pub devices: *const vram_live_page_device,
    pub pools: *const vram_live_page_pool,
    pub tags: *const vram_live_page_tag,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_named_options {
    pub size: usize,
    pub limit_bytes: u64,
    pub tag: *const c_char,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_named_config {
    pub size: usize,
    pub kind: vram_buffer_kind,
    pub precision: vram_precision,
    pub growth: vram_growth,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_named_info {
    pub size: usize,
    pub name: [c_char; 64],
    pub buffer: *mut vram_buffer,
    pub kind: vram_buffer_kind,
    pub precision: vram_precision,
    pub capacity_bytes: u64,
    pub used_bytes: u64,
    pub utilisation: f64,
    pub resizes: u64,
    pub created_ns: u64,
    pub accessed_ns: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_named_stats {
    pub size: usize,
    pub buffers: u32,
    pub total_bytes: u64,
    pub used_bytes: u64,
    pub peak_bytes: u64,
    pub limit_bytes: u64,
    pub created: u64,
    pub removed: u64,
    pub resizes: u64,
    pub refusals: u64,
}
pub type vram_ladder_step = c_int;
pub const VRAM_LADDER_DRAIN: vram_ladder_step = 0;
pub const VRAM_LADDER_FINISHED: vram_ladder_step = 1;
pub const VRAM_LADDER_MOVE: vram_ladder_step = 2;
pub const VRAM_LADDER_TRIM: vram_ladder_step = 3;
pub const VRAM_LADDER_OTHERS: vram_ladder_step = 4;
pub const VRAM_LADDER_CALLBACKS: vram_ladder_step = 5;
pub const VRAM_LADDER_CLEANUP: vram_ladder_step = 6;
pub const VRAM_LADDER_RETRY: vram_ladder_step = 7;
pub const VRAM_LADDER_WAIT: vram_ladder_step = 8;
pub const VRAM_LADDER_FALLBACK: vram_ladder_step = 9;
pub const VRAM_LADDER_REBUILD: vram_ladder_step = 10;
pub const VRAM_LADDER_LEASE: vram_ladder_step = 11;
pub const VRAM_LADDER_STEPS: c_int = 12;
pub type vram_fallback = c_int;
pub const VRAM_FALLBACK_MANAGED: vram_fallback = 1;
pub const VRAM_FALLBACK_PINNED: vram_fallback = 2;
pub const VRAM_FALLBACK_HOST: vram_fallback = 4;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_ladder_options {
    pub size: usize,
    pub steps: *const c_char,
    pub fallback: u32,
    pub wait_ns: u64,
}
pub const VRAM_OOM_CALLBACKS_MAX: c_int = 16;
pub const VRAM_OOM_NESTING_MAX: c_int = 2;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_oom_event {
    pub size: usize,
    pub device: *mut vram_device,
    pub pool: *mut vram_pool,
    pub bytes: u64,
    pub status: vram_status,
    pub nesting: u32,
}
pub type vram_oom_fn = unsafe extern "C" fn(user: *mut c_void, event: *const vram_oom_event) -> u64;
pub type vram_oom_cause = c_int;
pub const VRAM_OOM_FULL: vram_oom_cause = 0;
pub const VRAM_OOM_LIMIT: vram_oom_cause = 1;
pub const VRAM_OOM_FRAGMENTED: vram_oom_cause = 2;
pub const VRAM_OOM_PENDING: vram_oom_cause = 3;
pub const VRAM_OOM_STRANDED: vram_oom_cause = 4;
pub const VRAM_OOM_OTHERS: vram_oom_cause = 5;
pub const VRAM_OOM_TOO_LARGE: vram_oom_cause = 6;
pub const VRAM_OOM_REFUSED: vram_oom_cause = 7;
pub const VRAM_OOM_HOST: vram_oom_cause = 8;
pub const VRAM_OOM_QUOTA: vram_oom_cause = 9;
pub const VRAM_OOM_PINNED: vram_oom_cause = 10;
pub const VRAM_OOM_ADDRESSES: vram_oom_cause = 11;
pub const VRAM_OOM_LEASE: vram_oom_cause = 12;
pub const VRAM_OOM_LIST_MAX: c_int = 8;
pub const VRAM_OOM_NAME_MAX: c_int = 64;
pub const VRAM_OOM_LEASE_MAX: c_int = 160;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_oom_queue {
    pub queue: *mut vram_queue,
    pub bytes: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_oom_pool {
    pub pool: *mut vram_pool,
    pub name: [c_char; 64],
    pub reserved_bytes: u64,
    pub free_bytes: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_oom_holder {
    pub tag: [c_char; 64],
    pub bytes: u64,
    pub blocks: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_oom_lender {
    pub process: u64,
    pub name: [c_char; 64],
    pub asked_bytes: u64,
    pub given_bytes: u64,
    pub why: vram_lease_why,
    pub priority: i32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_oom_reader {
    pub process: u64,
    pub bytes: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_oom_step {
    pub step: vram_ladder_step,
    pub taken: u32,
    pub bytes: u64,
    pub ns: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_oom_report {
    pub size: usize,
    pub number: u64,
    pub status: vram_status,
    pub cause: vram_oom_cause,
    pub summary: [c_char; 256],
    pub advice: [c_char; 256],
    pub error: [c_char; 240],
    pub pool: *mut vram_pool,
    pub pool_name: [c_char; 64],
    pub device_name: [c_char; 64],
    pub tag: [c_char; 64],
    pub queue: *mut vram_queue,
    pub asked_bytes: u64,
    pub needed_bytes: u64,
    pub alignment: u64,
    pub total_bytes: vram_value,
    pub free_bytes: vram_value,
    pub process_bytes: u64,
    pub others_bytes: vram_value,
    pub processes_bytes: vram_value,
    pub limit_bytes: vram_value,
    pub limit_name: [c_char; 64],
    pub quota_tag: [c_char; 64],
    pub quota_bytes: u64,
    pub quota_used_bytes: u64,
    pub reserved_bytes: u64,
    pub live_bytes: u64,
    pub asleep_bytes: u64,
    pub rounding_bytes: u64,
    pub cached_bytes: u64,
    pub unused_bytes: u64,
    pub largest_bytes: u64,
    pub elsewhere_bytes: u64,
    pub spare_bytes: u64,
    pub lost_bytes: u64,
    pub pending_bytes: u64,
    pub pinned_bytes: u64,
    pub fallback_bytes: u64,
    pub stranded_bytes: u64,
    pub queue_count: u32,
    pub pool_count: u32,
    pub holder_count: u32,
    pub step_count: u32,
    pub queues: [vram_oom_queue; 8],
    pub pools: [vram_oom_pool; 8],
    pub holders: [vram_oom_holder; 8],
    pub steps: [vram_oom_step; 16],
    pub address_bytes: u64,
    pub longest_bytes: u64,
    pub integrated: bool,
    pub lease_bytes: vram_value,
    pub lease_reason: [c_char; 160],
    pub lender_count: u32,
    pub lenders: [vram_oom_lender; 8],
    pub reader_count: u32,
    pub shared_bytes: u64,
    pub readers: [vram_oom_reader; 8],
}
pub const VRAM_ERROR_RETRIES_MAX: c_int = 3;
pub type vram_error_answer = c_int;
pub const VRAM_ERROR_FAIL: vram_error_answer = 0;
pub const VRAM_ERROR_RETRY: vram_error_answer = 1;
pub const VRAM_ERROR_FALL_BACK: vram_error_answer = 2;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_error_event {
    pub size: usize,
    pub error: *const vram_error,
    pub context: *mut vram_context,
    pub device: *mut vram_device,
    pub pool: *mut vram_pool,
    pub bytes: u64,
    pub retries: u32,
    pub total: u64,
    pub recent: f64,
}
pub type vram_error_fn = unsafe extern "C" fn(
    user: *mut c_void,
    event: *const vram_error_event,
) -> vram_error_answer;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_opencl_adoption {
    pub size: usize,
    pub context: *mut c_void,
    pub device: *mut c_void,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_pinned_info {
    pub size: usize,
    pub slot_bytes: u64,
    pub slots: u32,
    pub slots_busy: u32,
    pub slots_most: u32,
    pub workers: u32,
    pub workers_most: u32,
    pub uploads: u64,
    pub upload_bytes: u64,
    pub downloads: u64,
    pub download_bytes: u64,
    pub chunks: u64,
    pub plain: u64,
    pub plain_bytes: u64,
    pub refusals: u64,
    pub waits: u64,
    pub entries: u32,
    pub entries_used: u32,
    pub entry_bytes: u64,
    pub hits: u64,
    pub misses: u64,
    pub evictions: u64,
}
pub type vram_pressure_level = c_int;
pub const VRAM_PRESSURE_UNKNOWN: vram_pressure_level = 0;
pub const VRAM_PRESSURE_LOW: vram_pressure_level = 1;
pub const VRAM_PRESSURE_MEDIUM: vram_pressure_level = 2;
pub const VRAM_PRESSURE_HIGH: vram_pressure_level = 3;
pub const VRAM_PRESSURE_CRITICAL: vram_pressure_level = 4;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_pressure {
    pub size: usize,
    pub level: vram_pressure_level,
    pub known: bool,
    pub value: f64,
    pub own_known: bool,
    pub own: f64,
    pub device_known: bool,
    pub device: f64,
    pub reserved_bytes: u64,
    pub limit_bytes: vram_value,
    pub free_bytes: vram_value,
    pub total_bytes: vram_value,
}
pub type vram_pressure_edge = c_int;
pub const VRAM_PRESSURE_WARN: vram_pressure_edge = 1;
pub const VRAM_PRESSURE_EMERGENCY: vram_pressure_edge = 2;
pub const VRAM_PRESSURE_LEVEL: vram_pressure_edge = 4;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_pressure_event {
    pub size: usize,
    pub edge: vram_pressure_edge,
    pub up: bool,
    pub level: vram_pressure_level,
    pub last: vram_pressure_level,
    pub value: f64,
    pub threshold: f64,
    pub device: *mut vram_device,
    pub pool: *mut vram_pool,
}
pub type vram_pressure_fn = unsafe extern "C" fn(
    user: *mut c_void,
    event: *const vram_pressure_event,
);
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_watch_options {
    pub size: usize,
    pub call: Option<vram_pressure_fn>,
    pub user: *mut c_void,
    pub edges: u32,
    pub warn: f64,
    pub emergency: f64,
    pub hysteresis: f64,
}
pub type vram_response_step = c_int;
pub const VRAM_RESPONSE_HALVE: vram_response_step = 0;
pub const VRAM_RESPONSE_DROP: vram_response_step = 1;
pub const VRAM_RESPONSE_EMERGENCY: vram_response_step = 2;
pub const VRAM_RESPONSE_DECAY: vram_response_step = 3;
pub const VRAM_RESPONSE_MAINTAIN: vram_response_step = 4;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_response_options {
    pub size: usize,
    pub off: u32,
    pub emergency: f64,
    pub hysteresis: f64,
    pub interval_ns: u64,
    pub decay_ns: u64,
}
pub type vram_fragmentation_level = c_int;
pub const VRAM_FRAGMENTATION_LOW: vram_fragmentation_level = 0;
pub const VRAM_FRAGMENTATION_MEDIUM: vram_fragmentation_level = 1;
pub const VRAM_FRAGMENTATION_HIGH: vram_fragmentation_level = 2;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_fragmentation {
    pub size: usize,
    pub level: vram_fragmentation_level,
    pub scattered: f64,
    pub rare: f64,
    pub free_bytes: u64,
    pub largest_free_bytes: u64,
    pub cached_bytes: u64,
    pub rare_bytes: u64,
    pub types: u32,
    pub rare_types: u32,
}
pub type vram_health_verdict = c_int;
pub const VRAM_HEALTH_UNKNOWN: vram_health_verdict = 0;
pub const VRAM_HEALTH_GOOD: vram_health_verdict = 1;
pub const VRAM_HEALTH_WARN: vram_health_verdict = 2;
pub const VRAM_HEALTH_EMERGENCY: vram_health_verdict = 3;
pub const VRAM_HEALTH_LOST: vram_health_verdict = 4;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_health_options {
    pub size: usize,
    pub warn: f64,
    pub emergency: f64,
    pub look_only: bool,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_health_info {
    pub size: usize,
    pub verdict: vram_health_verdict,
    pub pressure: vram_pressure,
    pub after: vram_pressure,
    pub cleaned: bool,
    pub released_bytes: u64,
    pub pools: u32,
    pub live_bytes: u64,
    pub cached_bytes: u64,
    pub reserved_bytes: u64,
    pub hit_rate: f64,
    pub fragmentation: f64,
    pub text: [c_char; 200],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_monitor_options {
    pub size: usize,
    pub interval_ns: u64,
    pub maintain_ns: u64,
}
pub type vram_readback_mode = c_int;
pub const VRAM_READBACK_SNAPSHOT: vram_readback_mode = 0;
pub const VRAM_READBACK_HOLD: vram_readback_mode = 1;
pub const VRAM_READBACK_STEADY: vram_readback_mode = 2;
pub type vram_readback_policy = c_int;
pub const VRAM_READBACK_NEWEST: vram_readback_policy = 0;
pub const VRAM_READBACK_EVERY: vram_readback_policy = 1;
pub const VRAM_READBACK_SLOTS_MAX: c_int = 16;
pub const VRAM_READBACK_SPANS_MAX: c_int = 16;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_readback_options {
    pub size: usize,
    pub slots: u32,
    pub mode: vram_readback_mode,
    pub policy: vram_readback_policy,
    pub priority: i32,
    pub bytes: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_frame {
    pub data: *const c_void,
    pub bytes: u64,
    pub number: u64,
    pub slot: u32,
    pub mode: vram_readback_mode,
    pub pinned: bool,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_readback_stats {
    pub size: usize,
    pub started: u64,
    pub arrived: u64,
    pub failed: u64,
    pub dropped: u64,
    pub refused: u64,
    pub held: u64,
    pub bytes: u64,
    pub host_bytes: u64,
    pub pinned_bytes: u64,
    pub device_bytes: u64,
}
pub const VRAM_RING_RUNNING: c_int = 0;
pub const VRAM_RING_DONE: c_int = 1;
pub const VRAM_RING_RELAUNCHABLE: c_int = 2;
pub const VRAM_RING_FLAG_SYSTEM: c_int = 1;
pub const VRAM_RING_FLAG_CRC: c_int = 2;
pub const VRAM_RING_FLAG_OFFSETS: c_int = 4;
pub const VRAM_RING_FLAG_TELEMETRY: c_int = 8;
pub const VRAM_RING_FLAG_MULTI_INPUT: c_int = 16;
pub const VRAM_RING_FLAG_MULTI_OUTPUT: c_int = 32;
#[repr(C, align(128))]
#[derive(Clone, Copy)]
pub struct vram_ring_control {
    pub is_active: i32,
    pub should_terminate: i32,
    pub has_terminated: i32,
    pub errors_encountered: i32,
    pub messages_processed: i64,
    pub last_activity_ticks: i64,
    pub input_queue_head_ptr: u64,
    pub input_queue_tail_ptr: u64,
    pub input_queue_buffer_ptr: u64,
    pub input_queue_capacity: i32,
    pub input_queue_message_size: i32,
    pub output_queue_head_ptr: u64,
    pub output_queue_tail_ptr: u64,
    pub output_queue_buffer_ptr: u64,
    pub output_queue_capacity: i32,
    pub output_queue_message_size: i32,
    pub reserved: [u64; 4],
}
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct vram_ring_telemetry {
    pub messages_processed: u64,
    pub messages_dropped: u64,
    pub last_processed_timestamp: i64,
    pub queue_depth: i32,
    pub padding_: i32,
    pub total_latency_nanos: u64,
    pub max_latency_nanos: u64,
    pub min_latency_nanos: u64,
    pub error_code: i32,
    pub padding_end_: i32,
}
pub const VRAM_RING_ERROR_NONE: c_int = 0;
pub const VRAM_RING_ERROR_CONTROL: c_int = 1;
pub const VRAM_RING_ERROR_COUNTER: c_int = 2;
pub const VRAM_RING_ERROR_SEQUENCE: c_int = 3;
pub const VRAM_RING_ERROR_LENGTH: c_int = 4;
pub const VRAM_RING_ERROR_CRC: c_int = 5;
#[repr(C, align(128))]
#[derive(Clone, Copy)]
pub struct vram_ring_line {
    pub count: u64,
    pub claim: u64,
    pub padding_: [u64; 14],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_ring_slot {
    pub sequence: u64,
    pub stamp_ns: u64,
    pub bytes: u32,
    pub crc: u32,
    pub kind: u32,
    pub padding_: u32,
}
pub type vram_visibility = c_int;
pub const VRAM_VISIBILITY_AUTO: vram_visibility = 0;
pub const VRAM_VISIBILITY_DMA: vram_visibility = 1;
pub const VRAM_VISIBILITY_DEVICE: vram_visibility = 2;
pub const VRAM_VISIBILITY_SYSTEM: vram_visibility = 3;
pub type vram_platform = c_int;
pub const VRAM_PLATFORM_UNKNOWN: vram_platform = 0;
pub const VRAM_PLATFORM_LINUX: vram_platform = 1;
pub const VRAM_PLATFORM_WINDOWS: vram_platform = 2;
pub const VRAM_PLATFORM_MACOS: vram_platform = 3;
pub const VRAM_VISIBILITY_REASON_MAX: c_int = 160;
pub type vram_ring_strategy = c_int;
pub const VRAM_RING_AUTO: vram_ring_strategy = 0;
pub const VRAM_RING_SYNC: vram_ring_strategy = 1;
pub const VRAM_RING_ASYNC: vram_ring_strategy = 2;
pub const VRAM_RING_DIRECT: vram_ring_strategy = 3;
pub const VRAM_RING_DMA_POLLING: vram_ring_strategy = 4;
pub type vram_ring_flag = c_int;
pub const VRAM_RING_INPUT: vram_ring_flag = 1;
pub const VRAM_RING_OUTPUT: vram_ring_flag = 2;
pub const VRAM_RING_MULTI_INPUT: vram_ring_flag = 4;
pub const VRAM_RING_MULTI_OUTPUT: vram_ring_flag = 8;
pub const VRAM_RING_CRC: vram_ring_flag = 16;
pub const VRAM_RING_NO_TELEMETRY: vram_ring_flag = 32;
pub const VRAM_RING_CAPACITY_DEFAULT: c_int = 4096;
pub const VRAM_RING_CAPACITY_MAX: c_int = 16777216;
pub const VRAM_RING_MESSAGE_DEFAULT: c_int = 96;
pub const VRAM_RING_MESSAGE_MAX: c_int = 16777216;
pub const VRAM_RING_REASON_MAX: c_int = 160;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_ring_options {
    pub size: usize,
    pub strategy: vram_ring_strategy,
    pub flags: u32,
    pub input_capacity: u32,
    pub output_capacity: u32,
    pub message_bytes: u32,
    pub visibility: vram_visibility,
    pub poll_ns: u64,
    pub queue: *mut vram_queue,
    pub kernel_text: *const c_char,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_ring_message {
    pub data: *const c_void,
    pub bytes: u32,
    pub kind: u32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_ring_info {
    pub size: usize,
    pub control: vram_addr,
    pub bytes: u64,
    pub strategy: vram_ring_strategy,
    pub visibility: vram_visibility,
    pub live: bool,
    pub flags: u32,
    pub input_capacity: u32,
    pub output_capacity: u32,
    pub message_bytes: u32,
    pub poll_ns: u64,
    pub queue: *mut vram_queue,
    pub reason: [c_char; 160],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_ring_stats {
    pub size: usize,
    pub host_to_device_count: u64,
    pub device_to_host_count: u64,
    pub sent: u64,
    pub received: u64,
    pub taken: u64,
    pub copies: u64,
    pub copied_bytes: u64,
    pub words: u64,
    pub full_waits: u64,
    pub empty_waits: u64,
    pub crc_errors: u64,
    pub kernel_errors: u64,
    pub stopped: bool,
    pub corrupt: bool,
    pub has_terminated: i32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_scope_info {
    pub size: usize,
    pub pool: *mut vram_pool,
    pub parent: *mut vram_scope,
    pub blocks: u64,
    pub bytes: u64,
    pub buffers: u64,
    pub scopes: u64,
}
pub const VRAM_SHARE_TOKEN_BYTES: c_int = 64;
pub const VRAM_SHARE_NAME_MAX: c_int = 128;
pub const VRAM_SHARE_READERS: c_int = 16;
pub const VRAM_SHARE_FABRIC_BYTES: c_int = 128;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_share_token {
    pub bytes: [u8; 64],
}
pub type vram_share_flag = c_int;
pub const VRAM_SHARE_READ_ONLY: vram_share_flag = 1;
pub const VRAM_SHARE_USER: vram_share_flag = 2;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_share_options {
    pub size: usize,
    pub flags: u32,
    pub user: u32,
    pub dir: *const c_char,
    pub timeout_ns: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_share_part {
    pub addr: vram_addr,
    pub bytes: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_share_info {
    pub size: usize,
    pub exported: bool,
    pub read_only: bool,
    pub alive: bool,
    pub parts: u32,
    pub handles: u32,
    pub bytes: u64,
    pub version: u64,
    pub reader_count: u32,
    pub readers: [u64; 16],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_share_fabric {
    pub bytes: [u8; 128],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_share_name {
    pub name: [c_char; 128],
    pub version: u64,
    pub token: vram_share_token,
}
pub type vram_sim_call = c_int;
pub const VRAM_SIM_ANY: vram_sim_call = 0;
pub const VRAM_SIM_DEVICE_OPEN: vram_sim_call = 1;
pub const VRAM_SIM_DEVICE_CLOSE: vram_sim_call = 2;
pub const VRAM_SIM_MEMORY_INFO: vram_sim_call = 3;
pub const VRAM_SIM_ALLOC: vram_sim_call = 4;
pub const VRAM_SIM_FREE: vram_sim_call = 5;
pub const VRAM_SIM_PINNED_ALLOC: vram_sim_call = 6;
pub const VRAM_SIM_PINNED_FREE: vram_sim_call = 7;
pub const VRAM_SIM_MANAGED_ALLOC: vram_sim_call = 8;
pub const VRAM_SIM_MANAGED_FREE: vram_sim_call = 9;
pub const VRAM_SIM_PREFETCH: vram_sim_call = 10;
pub const VRAM_SIM_RESERVE: vram_sim_call = 11;
pub const VRAM_SIM_UNRESERVE: vram_sim_call = 12;
pub const VRAM_SIM_CREATE: vram_sim_call = 13;
pub const VRAM_SIM_RELEASE: vram_sim_call = 14;
pub const VRAM_SIM_MAP: vram_sim_call = 15;
pub const VRAM_SIM_ACCESS: vram_sim_call = 16;
pub const VRAM_SIM_UNMAP: vram_sim_call = 17;
pub const VRAM_SIM_PEER_ENABLE: vram_sim_call = 18;
pub const VRAM_SIM_PEER_COPY: vram_sim_call = 19;
pub const VRAM_SIM_QUEUE_CREATE: vram_sim_call = 20;
pub const VRAM_SIM_QUEUE_DESTROY: vram_sim_call = 21;
pub const VRAM_SIM_UPLOAD: vram_sim_call = 22;
pub const VRAM_SIM_DOWNLOAD: vram_sim_call = 23;
pub const VRAM_SIM_COPY: vram_sim_call = 24;
pub const VRAM_SIM_FILL: vram_sim_call = 25;
pub const VRAM_SIM_SIGNAL: vram_sim_call = 26;
pub const VRAM_SIM_AFTER: vram_sim_call = 27;
pub const VRAM_SIM_POLL: vram_sim_call = 28;
pub const VRAM_SIM_KERNEL_LOAD: vram_sim_call = 29;
pub const VRAM_SIM_KERNEL_UNLOAD: vram_sim_call = 30;
pub const VRAM_SIM_LAUNCH: vram_sim_call = 31;
pub const VRAM_SIM_PINNED_REGISTER: vram_sim_call = 32;
pub const VRAM_SIM_PINNED_UNREGISTER: vram_sim_call = 33;
pub const VRAM_SIM_EXPORT: vram_sim_call = 34;
pub const VRAM_SIM_IMPORT: vram_sim_call = 35;
pub const VRAM_SIM_CALL_COUNT: vram_sim_call = 36;
pub type vram_sim_code = c_int;
pub const VRAM_SIM_SUCCESS: vram_sim_code = 0;
pub const VRAM_SIM_INVALID_VALUE: vram_sim_code = 1;
pub const VRAM_SIM_OUT_OF_MEMORY: vram_sim_code = 2;
pub const VRAM_SIM_NOT_SUPPORTED: vram_sim_code = 3;
pub const VRAM_SIM_NOT_READY: vram_sim_code = 4;
pub const VRAM_SIM_HOST_MEMORY: vram_sim_code = 5;
pub const VRAM_SIM_DEVICE_LOST: vram_sim_code = 6;
pub const VRAM_SIM_DEINITIALIZED: vram_sim_code = 7;
pub type vram_sim_lie = c_int;
pub const VRAM_SIM_LIE_NONE: vram_sim_lie = 0;
pub const VRAM_SIM_LIE_NULL: vram_sim_lie = 1;
pub const VRAM_SIM_LIE_MISALIGNED: vram_sim_lie = 2;
pub const VRAM_SIM_LIE_OVERLAP: vram_sim_lie = 3;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_sim_fault {
    pub size: usize,
    pub call: vram_sim_call,
    pub nth: u64,
    pub for_ever: bool,
    pub code: i32,
    pub lie: vram_sim_lie,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_sim_state {
    pub size: usize,
    pub calls: u64,
    pub faults: u64,
    pub violations: u64,
    pub live_bytes: u64,
    pub live_handles: u64,
    pub clock_ns: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_sim_entry {
    pub number: u64,
    pub clock_ns: u64,
    pub device: u32,
    pub call: vram_sim_call,
    pub addr: u64,
    pub bytes: u64,
    pub code: i32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_peaks {
    pub size: usize,
    pub requested_bytes: u64,
    pub allocated_bytes: u64,
    pub reserved_bytes: u64,
}
pub const VRAM_LIVE_NAME_MAX: c_int = 64;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_live_block {
    pub size: usize,
    pub id: u64,
    pub pool: *mut vram_pool,
    pub device: *mut vram_device,
    pub queue: *mut vram_queue,
    pub addr: vram_addr,
    pub requested_bytes: u64,
    pub held_bytes: u64,
    pub elements: u64,
    pub kind: vram_memory_kind,
    pub stack: u32,
    pub thread: u64,
    pub created_ns: u64,
    pub age_ns: u64,
    pub tag: *const c_char,
    pub name: [c_char; 64],
    pub foreign: bool,
}
pub type vram_live_order = c_int;
pub const VRAM_LIVE_ANY: vram_live_order = 0;
pub const VRAM_LIVE_LARGEST: vram_live_order = 1;
pub const VRAM_LIVE_OLDEST: vram_live_order = 2;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_live_query {
    pub size: usize,
    pub pool: *mut vram_pool,
    pub device: *mut vram_device,
    pub context: *mut vram_context,
    pub tag: *const c_char,
    pub older_ns: u64,
    pub stack: u32,
    pub most: u32,
    pub order: vram_live_order,
}
pub type vram_live_fn = unsafe extern "C" fn(
    user: *mut c_void,
    block: *const vram_live_block,
) -> bool;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_live_stats {
    pub size: usize,
    pub pools: u64,
    pub live_blocks: u64,
    pub live_bytes: u64,
    pub held_bytes: u64,
    pub peak_bytes: u64,
    pub peak_blocks: u64,
    pub peak_ns: vram_value,
    pub allocs: u64,
    pub frees: u64,
    pub resizes: u64,
    pub lost_records: u64,
    pub record_bytes: u64,
    pub metadata_bytes: u64,
    pub foreign_blocks: u64,
    pub foreign_bytes: u64,
}
pub type vram_live_by = c_int;
pub const VRAM_LIVE_BY_TAG: vram_live_by = 0;
pub const VRAM_LIVE_BY_STACK: vram_live_by = 1;
pub const VRAM_LIVE_BY_QUEUE: vram_live_by = 2;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_live_group {
    pub size: usize,
    pub tag: *const c_char,
    pub stack: u32,
    pub queue: *mut vram_queue,
    pub live_blocks: u64,
    pub live_bytes: u64,
    pub peak_blocks: u64,
    pub peak_bytes: u64,
    pub foreign_blocks: u64,
    pub foreign_bytes: u64,
}
pub type vram_live_group_fn = unsafe extern "C" fn(
    user: *mut c_void,
    group: *const vram_live_group,
) -> bool;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_leak_summary {
    pub size: usize,
    pub blocks: u64,
    pub bytes: u64,
    pub groups: u64,
    pub suppressed_blocks: u64,
    pub suppressed_bytes: u64,
    pub lost_records: u64,
    pub foreign_blocks: u64,
    pub foreign_bytes: u64,
}
pub type vram_stream = c_int;
pub const VRAM_STREAM_COMPUTE: vram_stream = 0;
pub const VRAM_STREAM_MEMORY: vram_stream = 1;
pub const VRAM_STREAM_ANALYSIS: vram_stream = 2;
pub const VRAM_STREAM_COUNT: vram_stream = 3;
pub const VRAM_STREAM_NAME_MAX: c_int = 32;
pub const VRAM_STREAMS_MAX: c_int = 64;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_stream_plan {
    pub name: *const c_char,
    pub priority: i32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_stream_set_options {
    pub size: usize,
    pub count: u32,
    pub streams: *const vram_stream_plan,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_stream_info {
    pub size: usize,
    pub index: u32,
    pub priority: i32,
    pub queue: *mut vram_queue,
    pub turns: u64,
    pub name: [c_char; 32],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_trace_options {
    pub size: usize,
    pub path: *const c_char,
    pub ring_bytes: u64,
    pub sample_ns: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_trace_info {
    pub size: usize,
    pub events: u64,
    pub lost_events: u64,
    pub file_bytes: u64,
    pub stopped: vram_status,
    pub path: [c_char; 256],
}
pub type vram_transfer_strategy = c_int;
pub const VRAM_TRANSFER_AUTO: vram_transfer_strategy = 0;
pub const VRAM_TRANSFER_SYNC: vram_transfer_strategy = 1;
pub const VRAM_TRANSFER_ASYNC: vram_transfer_strategy = 2;
pub const VRAM_TRANSFER_DIRECT: vram_transfer_strategy = 3;
pub const VRAM_TRANSFER_DMA_POLLING: vram_transfer_strategy = 4;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_transfer_options {
    pub size: usize,
    pub strategy: vram_transfer_strategy,
    pub poll_ns: u64,
    pub timeout_ns: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_copy {
    pub to: vram_addr,
    pub to_host: *mut c_void,
    pub from: vram_addr,
    pub from_host: *const c_void,
    pub bytes: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_copy_2d {
    pub first: vram_copy,
    pub row_bytes: u64,
    pub rows: u64,
    pub to_pitch: u64,
    pub from_pitch: u64,
}
pub type vram_transfer_direction = c_int;
pub const VRAM_TRANSFER_TO_DEVICE: vram_transfer_direction = 0;
pub const VRAM_TRANSFER_TO_HOST: vram_transfer_direction = 1;
pub const VRAM_TRANSFER_ON_DEVICE: vram_transfer_direction = 2;
pub const VRAM_TRANSFER_PEER: vram_transfer_direction = 3;
pub const VRAM_TRANSFER_FILL: vram_transfer_direction = 4;
pub const VRAM_TRANSFER_ANY: vram_transfer_direction = 5;
pub type vram_transfer_route = c_int;
pub const VRAM_ROUTE_SYNC: vram_transfer_route = 0;
pub const VRAM_ROUTE_ASYNC: vram_transfer_route = 1;
pub const VRAM_ROUTE_DIRECT: vram_transfer_route = 2;
pub const VRAM_ROUTE_DMA_POLLING: vram_transfer_route = 3;
pub const VRAM_ROUTE_STAGED: vram_transfer_route = 4;
pub const VRAM_ROUTE_REGISTERED: vram_transfer_route = 5;
pub const VRAM_ROUTE_BATCH: vram_transfer_route = 6;
pub const VRAM_ROUTE_READBACK: vram_transfer_route = 7;
pub const VRAM_ROUTE_FEED: vram_transfer_route = 8;
pub const VRAM_ROUTE_RING: vram_transfer_route = 9;
pub const VRAM_ROUTE_ANY: vram_transfer_route = 10;
pub const VRAM_TRANSFER_BUCKETS: c_int = 40;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_transfer_stats {
    pub size: usize,
    pub started: u64,
    pub operations: u64,
    pub failures: u64,
    pub bytes: u64,
    pub busy_ns: u64,
    pub waited_ns: u64,
    pub stalls: u64,
    pub stall_ns: u64,
    pub latency_ns: u64,
    pub min_latency_ns: u64,
    pub max_latency_ns: u64,
    pub bytes_per_second: f64,
    pub overlap: f64,
    pub histogram: [u64; 40],
}
pub type vram_vulkan_lock_fn = unsafe extern "C" fn(user: *mut c_void);
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_vulkan_queue {
    pub queue: *mut c_void,
    pub family: u32,
    pub lock: Option<vram_vulkan_lock_fn>,
    pub unlock: Option<vram_vulkan_lock_fn>,
    pub user: *mut c_void,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_vulkan_adoption {
    pub size: usize,
    pub get_proc: *mut c_void,
    pub instance: *mut c_void,
    pub physical_device: *mut c_void,
    pub device: *mut c_void,
    pub addresses: bool,
    pub queues: *const vram_vulkan_queue,
    pub queue_count: u32,
}
pub type vram_pool_ended_fn = unsafe extern "C" fn(user: *mut c_void);
pub type vram_submit_fn = unsafe extern "C" fn(
    user: *mut c_void,
    native: *mut c_void,
) -> vram_status;
pub type vram_place = c_int;
pub const VRAM_PLACE_AUTO: vram_place = 0;
pub const VRAM_PLACE_CPU: vram_place = 1;
pub const VRAM_PLACE_DEVICE: vram_place = 2;
pub type vram_reason = c_int;
pub const VRAM_REASON_NONE: vram_reason = 0;
pub const VRAM_REASON_ASKED: vram_reason = 1;
pub const VRAM_REASON_NO_GPU: vram_reason = 2;
pub const VRAM_REASON_NO_ARITHMETIC: vram_reason = 3;
pub const VRAM_REASON_RESIDENT: vram_reason = 4;
pub const VRAM_REASON_ONE_ROW: vram_reason = 5;
pub const VRAM_REASON_MEASURED: vram_reason = 6;
pub const VRAM_REASON_SMALL: vram_reason = 7;
pub const VRAM_REASON_LARGE: vram_reason = 8;
pub const VRAM_REASON_MEMORY: vram_reason = 9;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_calibration {
    pub size: usize,
    pub cpu_rate: f64,
    pub device_rate: f64,
    pub upload_rate: f64,
    pub download_rate: f64,
    pub device_seconds: f64,
}
pub type vram_scheduler_flag = c_int;
pub const VRAM_SCHEDULER_NO_FALLBACK: vram_scheduler_flag = 1;
pub const VRAM_SCHEDULER_ANY_DEVICE: vram_scheduler_flag = 2;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_scheduler_options {
    pub size: usize,
    pub place: vram_place,
    pub flags: u32,
    pub threshold: u64,
    pub queues: u32,
    pub cpu_threads: u32,
    pub device_bytes: u64,
    pub calibration: *const vram_calibration,
}
pub type vram_matmul_flag = c_int;
pub const VRAM_MATMUL_TRANSPOSED_A: vram_matmul_flag = 1;
pub const VRAM_MATMUL_TRANSPOSED_B: vram_matmul_flag = 2;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_weights_options {
    pub size: usize,
    pub k: u64,
    pub n: u64,
    pub b: *const c_void,
    pub b_elements: u64,
    pub precision: vram_precision,
    pub flags: u32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_matmul {
    pub size: usize,
    pub m: u64,
    pub k: u64,
    pub n: u64,
    pub a: *const c_void,
    pub b: *const c_void,
    pub c: *mut f32,
    pub a_elements: u64,
    pub b_elements: u64,
    pub c_elements: u64,
    pub a_addr: vram_addr,
    pub b_addr: vram_addr,
    pub c_addr: vram_addr,
    pub weights: *mut vram_weights,
    pub precision: vram_precision,
    pub flags: u32,
    pub place: vram_place,
    pub queue: *mut vram_queue,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_matmul_plan {
    pub size: usize,
    pub place: vram_place,
    pub reason: vram_reason,
    pub tile_m: u64,
    pub tile_n: u64,
    pub tiles: u64,
    pub device_bytes: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_scheduler_stats {
    pub size: usize,
    pub products: u64,
    pub cpu_products: u64,
    pub device_products: u64,
    pub cpu_fallbacks: u64,
    pub failures: u64,
    pub tiles: u64,
    pub uploads: u64,
    pub uploaded_bytes: u64,
    pub downloads: u64,
    pub downloaded_bytes: u64,
    pub hits: u64,
    pub misses: u64,
    pub hit_rate: f64,
    pub shared_operands: u64,
    pub shrinks: u64,
    pub pending: u64,
    pub threshold: u64,
    pub calibrated: bool,
    pub last_place: vram_place,
    pub last_reason: vram_reason,
    pub weights: u64,
    pub weight_bytes: u64,
    pub cpu_arithmetic: *const c_char,
    pub device_arithmetic: *const c_char,
    pub pool_hits: u64,
    pub pool_misses: u64,
    pub pool_reserved_bytes: u64,
    pub pool_driver_allocs: u64,
}
pub type vram_metric = c_int;
pub const VRAM_METRIC_L2_SQUARED: vram_metric = 0;
pub const VRAM_METRIC_L2: vram_metric = 1;
pub const VRAM_METRIC_INNER_PRODUCT: vram_metric = 2;
pub const VRAM_METRIC_COSINE: vram_metric = 3;
pub type vram_nonfinite = c_int;
pub const VRAM_NONFINITE_REJECT: vram_nonfinite = 0;
pub const VRAM_NONFINITE_ZERO: vram_nonfinite = 1;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_distance {
    pub size: usize,
    pub queries: u64,
    pub vectors: u64,
    pub dim: u64,
    pub query: *const f32,
    pub corpus: *const f32,
    pub query_elements: u64,
    pub corpus_elements: u64,
    pub metric: vram_metric,
    pub precision: vram_precision,
    pub nonfinite: vram_nonfinite,
    pub place: vram_place,
    pub distances: *mut f32,
    pub distance_elements: u64,
    pub k: u64,
    pub best: *mut f32,
    pub best_at: *mut u64,
    pub scale: f32,
    pub saturated: *mut u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_labels_options {
    pub size: usize,
    pub entries: u64,
    pub max_bytes: u64,
}
pub type vram_labels_fn = unsafe extern "C" fn(
    user: *mut c_void,
    labels: *const i32,
    count: usize,
    mapping: *mut i32,
    room: usize,
    mapped: *mut usize,
) -> vram_status;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_labels_info {
    pub size: usize,
    pub hits: u64,
    pub misses: u64,
    pub hit_rate: f64,
    pub entries: u64,
    pub bytes: u64,
    pub evictions: u64,
    pub unkept: u64,
    pub entries_max: u64,
    pub bytes_max: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_inference_shape {
    pub size: usize,
    pub hidden: u64,
    pub intermediate: u64,
    pub layers: u64,
    pub vocabulary: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub tokens: u64,
    pub element_bytes: u64,
    pub experts: u64,
    pub shared_experts: u64,
    pub experts_used: u64,
    pub expert_intermediate: u64,
    pub first_expert_layer: u64,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_inference_memory {
    pub size: usize,
    pub parameters: u64,
    pub active_parameters: u64,
    pub model_bytes: u64,
    pub kv_bytes: u64,
    pub activation_bytes: u64,
    pub total_bytes: u64,
    pub total_gb: f64,
    pub model_mb: f64,
    pub kv_mb: f64,
    pub activation_mb: f64,
}
pub type vram_model_format = c_int;
pub const VRAM_MODEL_GGUF: vram_model_format = 1;
pub const VRAM_MODEL_SAFETENSORS: vram_model_format = 2;
pub const VRAM_MODEL_CONFIG: vram_model_format = 3;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_model_layer {
    pub weight_bytes: u64,
    pub parameters: u64,
    pub expert_bytes: u64,
    pub k_elements: u32,
    pub v_elements: u32,
    pub window: u32,
    pub state_elements: u32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_model {
    pub size: usize,
    pub format: vram_model_format,
    pub architecture: [c_char; 64],
    pub name: [c_char; 128],
    pub weight_type: [c_char; 16],
    pub quantization: [c_char; 32],
    pub family_known: bool,
    pub tied: bool,
    pub kv_known: bool,
    pub kv_guessed: bool,
    pub files: u32,
    pub layer_count: u32,
    pub missing_files: u32,
    pub tensors: u64,
    pub context_most: u64,
    pub hidden: u64,
    pub vocabulary: u64,
    pub heads: u64,
    pub kv_heads: u64,
    pub head_elements: u64,
    pub intermediate: u64,
    pub experts: u64,
    pub experts_used: u64,
    pub parameters: u64,
    pub active_parameters: u64,
    pub tower_parameters: u64,
    pub weight_bytes: u64,
    pub input_bytes: u64,
    pub output_bytes: u64,
    pub other_bytes: u64,
    pub projector_bytes: u64,
    pub layers: [vram_model_layer; 512],
    pub defaults: [c_char; 256],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_model_read_options {
    pub size: usize,
    pub weight_type: *const c_char,
    pub projector: *const c_char,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_estimate_device {
    pub free_bytes: u64,
    pub overhead_bytes: vram_value,
    pub share: f64,
}
pub type vram_input_place = c_int;
pub const VRAM_INPUT_DEFAULT: vram_input_place = 0;
pub const VRAM_INPUT_ON_HOST: vram_input_place = 1;
pub const VRAM_INPUT_ON_DEVICE: vram_input_place = 2;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_estimate_options {
    pub size: usize,
    pub context: u64,
    pub sequences: u64,
    pub micro_batch: u64,
    pub layers: vram_value,
    pub k_type: *const c_char,
    pub v_type: *const c_char,
    pub no_flash_attention: bool,
    pub swa_full: bool,
    pub host_expert_layers: u64,
    pub activation_bytes: u64,
    pub outputs: u64,
    pub input: vram_input_place,
    pub devices: *const vram_estimate_device,
    pub device_count: u32,
    pub host_free_bytes: vram_value,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_estimate_part {
    pub weight_bytes: u64,
    pub kv_bytes: u64,
    pub compute_bytes: u64,
    pub overhead_bytes: u64,
    pub total_bytes: u64,
    pub free_bytes: u64,
    pub first_layer: u32,
    pub layers: u32,
    pub expert_layers: u32,
    pub has_input: bool,
    pub has_output: bool,
    pub fits: bool,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_estimate {
    pub size: usize,
    pub fits: bool,
    pub context: u64,
    pub sequences: u64,
    pub micro_batch: u64,
    pub token_bytes: u64,
    pub weight_bytes: u64,
    pub kv_bytes: u64,
    pub compute_bytes: u64,
    pub overhead_bytes: u64,
    pub total_bytes: u64,
    pub layers_on_devices: u32,
    pub device_count: u32,
    pub devices: [vram_estimate_part; 16],
    pub host: vram_estimate_part,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_fit {
    pub size: usize,
    pub context: u64,
    pub layers: vram_value,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_model_select_options {
    pub size: usize,
    pub shape: *const vram_inference_shape,
    pub bytes: u64,
    pub order: *const c_char,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct vram_model_place {
    pub size: usize,
    pub backend: *const c_char,
    pub backend_index: u32,
    pub device: u32,
    pub bytes: u64,
}
#[repr(C)]
pub struct vram_async_work {
    private: [u8; 0],
}
#[repr(C)]
pub struct vram_attachment {
    private: [u8; 0],
}
#[repr(C)]
pub struct vram_batch {
    private: [u8; 0],
}
#[repr(C)]
pub struct vram_buffer {
    private: [u8; 0],
}
#[repr(C)]
pub struct vram_context {
    private: [u8; 0],
}
#[repr(C)]
pub struct vram_device {
    private: [u8; 0],
}
#[repr(C)]
pub struct vram_feed {
    private: [u8; 0],
}
#[repr(C)]
pub struct vram_kernel {
    private: [u8; 0],
}
#[repr(C)]
pub struct vram_labels {
    private: [u8; 0],
}
#[repr(C)]
pub struct vram_lease {
    private: [u8; 0],
}
#[repr(C)]
pub struct vram_monitor {
    private: [u8; 0],
}
#[repr(C)]
pub struct vram_named {
    private: [u8; 0],
}
#[repr(C)]
pub struct vram_physical {
    private: [u8; 0],
}
#[repr(C)]
pub struct vram_pool {
    private: [u8; 0],
}
#[repr(C)]
pub struct vram_queue {
    private: [u8; 0],
}
#[repr(C)]
pub struct vram_readback {
    private: [u8; 0],
}
#[repr(C)]
pub struct vram_ring {
    private: [u8; 0],
}
#[repr(C)]
pub struct vram_scheduler {
    private: [u8; 0],
}
#[repr(C)]
pub struct vram_scope {
    private: [u8; 0],
}
#[repr(C)]
pub struct vram_share {
    private: [u8; 0],
}
#[repr(C)]
pub struct vram_stream_set {
    private: [u8; 0],
}
#[repr(C)]
pub struct vram_trace {
    private: [u8; 0],
}
#[repr(C)]
pub struct vram_watch {
    private: [u8; 0],
}
#[repr(C)]
pub struct vram_weights {
    private: [u8; 0],
}

/// A struct whose first field is its size. All of its other bytes may be 0.
///
/// # Safety
/// The struct must begin with `size: usize`, and all zeros must be a value of it.
pub unsafe trait Record: Copy {}
unsafe impl Record for vram_context_options {}
unsafe impl Record for vram_backend_info {}
unsafe impl Record for vram_device_info {}
unsafe impl Record for vram_select_options {}
unsafe impl Record for vram_memory_info {}
unsafe impl Record for vram_native_info {}
unsafe impl Record for vram_queue_options {}
unsafe impl Record for vram_kernel_source {}
unsafe impl Record for vram_launch {}
unsafe impl Record for vram_provider {}
unsafe impl Record for vram_pool_options {}
unsafe impl Record for vram_alloc_options {}
unsafe impl Record for vram_block_info {}
unsafe impl Record for vram_trim_options {}
unsafe impl Record for vram_sleep_options {}
unsafe impl Record for vram_rebuild_options {}
unsafe impl Record for vram_rebuild_result {}
unsafe impl Record for vram_pool_stats {}
unsafe impl Record for vram_buffer_event {}
unsafe impl Record for vram_buffer_options {}
unsafe impl Record for vram_buffer_info {}
unsafe impl Record for vram_wrap {}
unsafe impl Record for vram_batch_options {}
unsafe impl Record for vram_batch_item {}
unsafe impl Record for vram_batch_info {}
unsafe impl Record for vram_feed_options {}
unsafe impl Record for vram_feed_stats {}
unsafe impl Record for vram_foreign_options {}
unsafe impl Record for vram_foreign_info {}
unsafe impl Record for vram_foreign_totals {}
unsafe impl Record for vram_growth {}
unsafe impl Record for vram_growth_info {}
unsafe impl Record for vram_lease_event {}
unsafe impl Record for vram_lease_options {}
unsafe impl Record for vram_lease_info {}
unsafe impl Record for vram_broker_options {}
unsafe impl Record for vram_limits {}
unsafe impl Record for vram_tag_event {}
unsafe impl Record for vram_tag_info {}
unsafe impl Record for vram_metal_adoption {}
unsafe impl Record for vram_metrics_source {}
unsafe impl Record for vram_named_options {}
unsafe impl Record for vram_named_config {}
unsafe impl Record for vram_named_info {}
unsafe impl Record for vram_named_stats {}
unsafe impl Record for vram_ladder_options {}
unsafe impl Record for vram_oom_event {}
unsafe impl Record for vram_oom_report {}
unsafe impl Record for vram_error_event {}
unsafe impl Record for vram_opencl_adoption {}
unsafe impl Record for vram_pinned_info {}
unsafe impl Record for vram_pressure {}
unsafe impl Record for vram_pressure_event {}
unsafe impl Record for vram_watch_options {}
unsafe impl Record for vram_response_options {}
unsafe impl Record for vram_fragmentation {}
unsafe impl Record for vram_health_options {}
unsafe impl Record for vram_health_info {}
unsafe impl Record for vram_monitor_options {}
unsafe impl Record for vram_readback_options {}
unsafe impl Record for vram_readback_stats {}
unsafe impl Record for vram_ring_options {}
unsafe impl Record for vram_ring_info {}
unsafe impl Record for vram_ring_stats {}
unsafe impl Record for vram_scope_info {}
unsafe impl Record for vram_share_options {}
unsafe impl Record for vram_share_info {}
unsafe impl Record for vram_sim_fault {}
unsafe impl Record for vram_sim_state {}
unsafe impl Record for vram_peaks {}
unsafe impl Record for vram_live_block {}
unsafe impl Record for vram_live_query {}
unsafe impl Record for vram_live_stats {}
unsafe impl Record for vram_live_group {}
unsafe impl Record for vram_leak_summary {}
unsafe impl Record for vram_stream_set_options {}
unsafe impl Record for vram_stream_info {}
unsafe impl Record for vram_trace_options {}
unsafe impl Record for vram_trace_info {}
unsafe impl Record for vram_transfer_options {}
unsafe impl Record for vram_transfer_stats {}
unsafe impl Record for vram_vulkan_adoption {}
unsafe impl Record for vram_calibration {}
unsafe impl Record for vram_scheduler_options {}
unsafe impl Record for vram_weights_options {}
unsafe impl Record for vram_matmul {}
unsafe impl Record for vram_matmul_plan {}
unsafe impl Record for vram_scheduler_stats {}
unsafe impl Record for vram_distance {}
unsafe impl Record for vram_labels_options {}
unsafe impl Record for vram_labels_info {}
unsafe impl Record for vram_inference_shape {}
unsafe impl Record for vram_inference_memory {}
unsafe impl Record for vram_model {}
unsafe impl Record for vram_model_read_options {}
unsafe impl Record for vram_estimate_options {}
unsafe impl Record for vram_estimate {}
unsafe impl Record for vram_fit {}
unsafe impl Record for vram_model_select_options {}
unsafe impl Record for vram_model_place {}

extern "C" {
    pub fn vram_version() -> u32;
    pub fn vram_version_text() -> *const c_char;
    pub fn vram_status_name(status: vram_status) -> *const c_char;
    pub fn vram_status_text(status: vram_status) -> *const c_char;
    pub fn vram_status_is_exhausted(status: vram_status) -> bool;
    pub fn vram_error_get() -> *const vram_error;
    pub fn vram_error_clear();
    pub fn vram_error_set(error: *const vram_error) -> vram_status;
    pub fn vram_size_parse(text: *const c_char, bytes: *mut u64) -> vram_status;
    pub fn vram_size_format(bytes: u64, text: *mut c_char) -> *const c_char;
    pub fn vram_option_count() -> usize;
    pub fn vram_option_at(index: usize) -> *const vram_option_info;
    pub fn vram_option_set(name: *const c_char, text: *const c_char) -> vram_status;
    pub fn vram_option_get(
        name: *const c_char,
        text: *mut c_char,
        text_bytes: usize,
        source: *mut vram_option_source,
    ) -> vram_status;
    pub fn vram_option_problem(index: usize, text: *mut c_char, text_bytes: usize) -> usize;
    pub fn vram_log_set(log: Option<vram_log_fn>, user: *mut c_void, level: vram_log_level);
    pub fn vram_host_allocator_set(allocator: *const vram_host_allocator) -> vram_status;
    pub fn vram_host_bytes() -> u64;
    pub fn vram_host_alloc(count: usize, bytes: usize) -> *mut c_void;
    pub fn vram_host_free(memory: *mut c_void);
    pub fn vram_context_create(
        options: *const vram_context_options,
        context: *mut *mut vram_context,
    ) -> vram_status;
    pub fn vram_context_destroy(context: *mut vram_context) -> vram_status;
    pub fn vram_backend_count(context: *mut vram_context) -> u32;
    pub fn vram_backend_info_get(
        context: *mut vram_context,
        index: u32,
        info: *mut vram_backend_info,
    ) -> vram_status;
    pub fn vram_device_count(context: *mut vram_context) -> u32;
    pub fn vram_device_info_get(
        context: *mut vram_context,
        index: u32,
        info: *mut vram_device_info,
    ) -> vram_status;
    pub fn vram_device_best(context: *mut vram_context, index: *mut u32) -> vram_status;
    pub fn vram_device_select(
        context: *mut vram_context,
        options: *const vram_select_options,
        index: *mut u32,
    ) -> vram_status;
    pub fn vram_device_same(a: *const vram_device_info, b: *const vram_device_info) -> bool;
    pub fn vram_device_open(
        context: *mut vram_context,
        index: u32,
        device: *mut *mut vram_device,
    ) -> vram_status;
    pub fn vram_device_close(device: *mut vram_device) -> vram_status;
    pub fn vram_device_describe(
        device: *mut vram_device,
        info: *mut vram_device_info,
    ) -> vram_status;
    pub fn vram_device_peer_enable(device: *mut vram_device, peer: *mut vram_device) -> vram_status;
    pub fn vram_memory_info_get(
        device: *mut vram_device,
        info: *mut vram_memory_info,
    ) -> vram_status;
    pub fn vram_device_alloc(
        device: *mut vram_device,
        bytes: u64,
        kind: vram_memory_kind,
        addr: *mut vram_addr,
    ) -> vram_status;
    pub fn vram_device_free(device: *mut vram_device, addr: vram_addr) -> vram_status;
    pub fn vram_device_advise(
        device: *mut vram_device,
        addr: vram_addr,
        bytes: u64,
        advice: vram_advice,
        target: i32,
    ) -> vram_status;
    pub fn vram_native(addr: vram_addr, info: *mut vram_native_info) -> vram_status;
    pub fn vram_queue_create(
        device: *mut vram_device,
        options: *const vram_queue_options,
        queue: *mut *mut vram_queue,
    ) -> vram_status;
    pub fn vram_queue_destroy(queue: *mut vram_queue) -> vram_status;
    pub fn vram_queue_adopt(
        device: *mut vram_device,
        native: *mut c_void,
        queue: *mut *mut vram_queue,
    ) -> vram_status;
    pub fn vram_queue_end(queue: *mut vram_queue) -> vram_status;
    pub fn vram_capture_begin(
        queue: *mut vram_queue,
        captured: *mut *mut vram_queue,
    ) -> vram_status;
    pub fn vram_capture_end(captured: *mut vram_queue) -> vram_status;
    pub fn vram_queue_native(queue: *mut vram_queue, native: *mut *mut c_void) -> vram_status;
    pub fn vram_queue_poll(queue: *mut vram_queue) -> vram_status;
    pub fn vram_queue_wait(queue: *mut vram_queue, timeout: u64) -> vram_status;
    pub fn vram_queue_mark(queue: *mut vram_queue, point: *mut vram_point) -> vram_status;
    pub fn vram_point_poll(point: vram_point) -> vram_status;
    pub fn vram_point_wait(point: vram_point, timeout: u64) -> vram_status;
    pub fn vram_queue_after(queue: *mut vram_queue, point: vram_point) -> vram_status;
    pub fn vram_queue_upload(
        queue: *mut vram_queue,
        to: vram_addr,
        from: *const c_void,
        bytes: u64,
    ) -> vram_status;
    pub fn vram_queue_download(
        queue: *mut vram_queue,
        to: *mut c_void,
        from: vram_addr,
        bytes: u64,
    ) -> vram_status;
    pub fn vram_queue_copy(
        queue: *mut vram_queue,
        to: vram_addr,
        from: vram_addr,
        bytes: u64,
    ) -> vram_status;
    pub fn vram_queue_fill(
        queue: *mut vram_queue,
        to: vram_addr,
        pattern: u32,
        pattern_bytes: u32,
        bytes: u64,
    ) -> vram_status;
    pub fn vram_queue_prefetch(
        queue: *mut vram_queue,
        addr: vram_addr,
        bytes: u64,
        target: i32,
    ) -> vram_status;
    pub fn vram_kernel_create(
        device: *mut vram_device,
        source: *const vram_kernel_source,
        kernel: *mut *mut vram_kernel,
    ) -> vram_status;
    pub fn vram_kernel_destroy(kernel: *mut vram_kernel) -> vram_status;
    pub fn vram_queue_launch(
        queue: *mut vram_queue,
        kernel: *mut vram_kernel,
        launch: *const vram_launch,
    ) -> vram_status;
    pub fn vram_async_poll(r#async: *const vram_async) -> vram_status;
    pub fn vram_async_is_ready(r#async: *const vram_async) -> bool;
    pub fn vram_async_state_get(
        r#async: *const vram_async,
        state: *mut vram_async_state,
    ) -> vram_status;
    pub fn vram_async_wait(r#async: *const vram_async, timeout: u64) -> vram_status;
    pub fn vram_async_wait_any(
        asyncs: *const vram_async,
        count: usize,
        timeout: u64,
        index: *mut usize,
    ) -> vram_status;
    pub fn vram_async_fd_open(
        asyncs: *const vram_async,
        count: usize,
        fd: *mut c_int,
    ) -> vram_status;
    pub fn vram_async_result_get(r#async: *const vram_async, result: *mut u64) -> vram_status;
    pub fn vram_async_error_get(r#async: *const vram_async, error: *mut vram_error) -> vram_status;
    pub fn vram_async_then(
        r#async: *const vram_async,
        call: Option<vram_async_fn>,
        user: *mut c_void,
    ) -> vram_status;
    pub fn vram_async_poll_all(device: *mut vram_device, pending: *mut u64) -> vram_status;
    pub fn vram_async_of_point(
        point: vram_point,
        operation: *const c_char,
        r#async: *mut vram_async,
    ) -> vram_status;
    pub fn vram_async_end(r#async: *mut vram_async) -> vram_status;
    pub fn vram_provider_get(
        device: *mut vram_device,
        kind: vram_memory_kind,
        provider: *mut vram_provider,
    ) -> vram_status;
    pub fn vram_pool_create(
        device: *mut vram_device,
        options: *const vram_pool_options,
        pool: *mut *mut vram_pool,
    ) -> vram_status;
    pub fn vram_pool_destroy(pool: *mut vram_pool) -> vram_status;
    pub fn vram_alloc(
        pool: *mut vram_pool,
        size: u64,
        queue: *mut vram_queue,
        addr: *mut vram_addr,
    ) -> vram_status;
    pub fn vram_free(addr: vram_addr, queue: *mut vram_queue) -> vram_status;
    pub fn vram_alloc_with(
        pool: *mut vram_pool,
        size: u64,
        queue: *mut vram_queue,
        options: *const vram_alloc_options,
        addr: *mut vram_addr,
    ) -> vram_status;
    pub fn vram_resize(addr: vram_addr, new_size: u64, queue: *mut vram_queue) -> vram_status;
    pub fn vram_use(addr: vram_addr, queue: *mut vram_queue) -> vram_status;
    pub fn vram_pin(addr: vram_addr) -> vram_status;
    pub fn vram_unpin(addr: vram_addr) -> vram_status;
    pub fn vram_block_info_get(addr: vram_addr, info: *mut vram_block_info) -> vram_status;
    pub fn vram_pool_warm(
        pool: *mut vram_pool,
        size: u64,
        count: u32,
        queue: *mut vram_queue,
    ) -> vram_status;
    pub fn vram_pool_trim(
        pool: *mut vram_pool,
        options: *const vram_trim_options,
        released: *mut u64,
    ) -> vram_status;
    pub fn vram_device_trim(
        device: *mut vram_device,
        options: *const vram_trim_options,
        released: *mut u64,
    ) -> vram_status;
    pub fn vram_context_trim(
        context: *mut vram_context,
        options: *const vram_trim_options,
        released: *mut u64,
    ) -> vram_status;
    pub fn vram_pool_sleep(pool: *mut vram_pool, options: *const vram_sleep_options) -> vram_status;
    pub fn vram_pool_wake(pool: *mut vram_pool, tag: *const c_char) -> vram_status;
    pub fn vram_pool_seal(pool: *mut vram_pool, tag: *const c_char) -> vram_status;
    pub fn vram_pool_unseal(pool: *mut vram_pool, tag: *const c_char) -> vram_status;
    pub fn vram_pool_rebuild(
        pool: *mut vram_pool,
        options: *const vram_rebuild_options,
        result: *mut vram_rebuild_result,
    ) -> vram_status;
    pub fn vram_pool_stats_get(pool: *mut vram_pool, stats: *mut vram_pool_stats) -> vram_status;
    pub fn vram_buffer_kind_name(kind: vram_buffer_kind) -> *const c_char;
    pub fn vram_precision_bytes(precision: vram_precision) -> u32;
    pub fn vram_precision_name(precision: vram_precision) -> *const c_char;
    pub fn vram_precision_size(
        precision: vram_precision,
        count: u64,
        bytes: *mut u64,
    ) -> vram_status;
    pub fn vram_buffer_create(
        pool: *mut vram_pool,
        bytes: u64,
        queue: *mut vram_queue,
        options: *const vram_buffer_options,
        buffer: *mut *mut vram_buffer,
    ) -> vram_status;
    pub fn vram_buffer_create_elements(
        pool: *mut vram_pool,
        count: u64,
        precision: vram_precision,
        queue: *mut vram_queue,
        options: *const vram_buffer_options,
        buffer: *mut *mut vram_buffer,
    ) -> vram_status;
    pub fn vram_buffer_destroy(buffer: *mut vram_buffer) -> vram_status;
    pub fn vram_buffer_use(buffer: *mut vram_buffer, queue: *mut vram_queue) -> vram_status;
    pub fn vram_buffer_info_get(
        buffer: *mut vram_buffer,
        info: *mut vram_buffer_info,
    ) -> vram_status;
    pub fn vram_buffer_addr(buffer: *mut vram_buffer, addr: *mut vram_addr) -> vram_status;
    pub fn vram_buffer_host(buffer: *mut vram_buffer, pointer: *mut *mut c_void) -> vram_status;
    pub fn vram_buffer_span(
        buffer: *mut vram_buffer,
        offset: u64,
        bytes: u64,
        span: *mut vram_span,
    ) -> vram_status;
    pub fn vram_span_addr(span: vram_span, addr: *mut vram_addr) -> vram_status;
    pub fn vram_span_upload(
        queue: *mut vram_queue,
        to: vram_span,
        from: *const c_void,
    ) -> vram_status;
    pub fn vram_span_download(
        queue: *mut vram_queue,
        to: *mut c_void,
        from: vram_span,
    ) -> vram_status;
    pub fn vram_buffer_map(
        buffer: *mut vram_buffer,
        offset: u64,
        bytes: u64,
        flags: u32,
        queue: *mut vram_queue,
        pointer: *mut *mut c_void,
    ) -> vram_status;
    pub fn vram_buffer_unmap(buffer: *mut vram_buffer) -> vram_status;
    pub fn vram_buffer_promote(buffer: *mut vram_buffer, queue: *mut vram_queue) -> vram_status;
    pub fn vram_buffer_demote(buffer: *mut vram_buffer, queue: *mut vram_queue) -> vram_status;
    pub fn vram_pool_promote(
        pool: *mut vram_pool,
        queue: *mut vram_queue,
        bytes: *mut u64,
    ) -> vram_status;
    pub fn vram_pool_demote(
        pool: *mut vram_pool,
        wanted: u64,
        queue: *mut vram_queue,
        bytes: *mut u64,
    ) -> vram_status;
    pub fn vram_buffer_prefetch(
        buffer: *mut vram_buffer,
        offset: u64,
        bytes: u64,
        target: i32,
        queue: *mut vram_queue,
    ) -> vram_status;
    pub fn vram_buffer_advise(
        buffer: *mut vram_buffer,
        advice: vram_advice,
        target: i32,
    ) -> vram_status;
    pub fn vram_buffer_wrap(
        pool: *mut vram_pool,
        wrap: *const vram_wrap,
        queue: *mut vram_queue,
        options: *const vram_buffer_options,
        buffer: *mut *mut vram_buffer,
    ) -> vram_status;
    pub fn vram_batch_create(
        pool: *mut vram_pool,
        queue: *mut vram_queue,
        options: *const vram_batch_options,
        batch: *mut *mut vram_batch,
    ) -> vram_status;
    pub fn vram_batch_destroy(batch: *mut vram_batch) -> vram_status;
    pub fn vram_batch_add(
        batch: *mut vram_batch,
        items: *const vram_batch_item,
        count: u32,
        first: *mut u32,
    ) -> vram_status;
    pub fn vram_batch_give(
        batch: *mut vram_batch,
        buffer: *mut vram_buffer,
        index: *mut u32,
    ) -> vram_status;
    pub fn vram_batch_get(
        batch: *mut vram_batch,
        index: u32,
        buffer: *mut *mut vram_buffer,
    ) -> vram_status;
    pub fn vram_batch_info_get(batch: *mut vram_batch, info: *mut vram_batch_info) -> vram_status;
    pub fn vram_feed_create(
        device: *mut vram_device,
        options: *const vram_feed_options,
        feed: *mut *mut vram_feed,
    ) -> vram_status;
    pub fn vram_feed_destroy(feed: *mut vram_feed) -> vram_status;
    pub fn vram_feed_begin(
        feed: *mut vram_feed,
        bytes: u64,
        timeout: u64,
        block: *mut vram_feed_block,
    ) -> vram_status;
    pub fn vram_feed_submit(
        feed: *mut vram_feed,
        consumer: *mut vram_queue,
        to: vram_addr,
        number: u64,
        bytes: u64,
        r#async: *mut vram_async,
    ) -> vram_status;
    pub fn vram_feed_release(feed: *mut vram_feed, number: u64) -> vram_status;
    pub fn vram_feed_stats_get(feed: *mut vram_feed, stats: *mut vram_feed_stats) -> vram_status;
    pub fn vram_foreign_track(
        device: *mut vram_device,
        bytes: u64,
        options: *const vram_foreign_options,
        id: *mut u64,
    ) -> vram_status;
    pub fn vram_foreign_untrack(device: *mut vram_device, id: u64) -> vram_status;
    pub fn vram_foreign_info_get(
        device: *mut vram_device,
        id: u64,
        info: *mut vram_foreign_info,
    ) -> vram_status;
    pub fn vram_foreign_info_after(
        device: *mut vram_device,
        last: u64,
        info: *mut vram_foreign_info,
    ) -> vram_status;
    pub fn vram_foreign_totals_get(
        device: *mut vram_device,
        totals: *mut vram_foreign_totals,
    ) -> vram_status;
    pub fn vram_growth_next(
        growth: *const vram_growth,
        capacity: u64,
        needed: u64,
        bytes: *mut u64,
    ) -> vram_status;
    pub fn vram_buffer_growth_set(
        buffer: *mut vram_buffer,
        growth: *const vram_growth,
    ) -> vram_status;
    pub fn vram_buffer_reserve(
        buffer: *mut vram_buffer,
        bytes: u64,
        queue: *mut vram_queue,
    ) -> vram_status;
    pub fn vram_buffer_resize(
        buffer: *mut vram_buffer,
        bytes: u64,
        queue: *mut vram_queue,
    ) -> vram_status;
    pub fn vram_buffer_resize_elements(
        buffer: *mut vram_buffer,
        count: u64,
        queue: *mut vram_queue,
    ) -> vram_status;
    pub fn vram_buffer_fit(buffer: *mut vram_buffer, queue: *mut vram_queue) -> vram_status;
    pub fn vram_buffer_growth_get(
        buffer: *mut vram_buffer,
        info: *mut vram_growth_info,
    ) -> vram_status;
    pub fn vram_lease_why_name(why: vram_lease_why) -> *const c_char;
    pub fn vram_lease_why_text(why: vram_lease_why) -> *const c_char;
    pub fn vram_lease_open(
        device: *mut vram_device,
        options: *const vram_lease_options,
        lease: *mut *mut vram_lease,
    ) -> vram_status;
    pub fn vram_lease_close(lease: *mut vram_lease) -> vram_status;
    pub fn vram_lease_pool_add(
        lease: *mut vram_lease,
        pool: *mut vram_pool,
        options: *const vram_sleep_options,
    ) -> vram_status;
    pub fn vram_lease_point(lease: *mut vram_lease, given: *mut u64) -> vram_status;
    pub fn vram_lease_info_get(lease: *mut vram_lease, info: *mut vram_lease_info) -> vram_status;
    pub fn vram_lease_happening_name(happening: vram_lease_happening) -> *const c_char;
    pub fn vram_lease_list(
        dir: *const c_char,
        entries: *mut vram_lease_entry,
        entry_count: *mut u32,
        records: *mut vram_lease_record,
        record_count: *mut u32,
    ) -> vram_status;
    pub fn vram_broker_run(options: *const vram_broker_options) -> vram_status;
    pub fn vram_preset_get(preset: vram_preset, limits: *mut vram_limits) -> vram_status;
    pub fn vram_pool_limits_set(pool: *mut vram_pool, limits: *const vram_limits) -> vram_status;
    pub fn vram_pool_limits_get(pool: *mut vram_pool, limits: *mut vram_limits) -> vram_status;
    pub fn vram_device_limits_set(
        device: *mut vram_device,
        limits: *const vram_limits,
    ) -> vram_status;
    pub fn vram_device_limits_get(
        device: *mut vram_device,
        limits: *mut vram_limits,
    ) -> vram_status;
    pub fn vram_tag_quota_set(
        device: *mut vram_device,
        tag: *const c_char,
        soft_bytes: u64,
        hard_bytes: u64,
    ) -> vram_status;
    pub fn vram_tag_handler_set(
        device: *mut vram_device,
        handler: Option<vram_tag_fn>,
        user: *mut c_void,
    ) -> vram_status;
    pub fn vram_tag_info_get(
        device: *mut vram_device,
        tag: *const c_char,
        info: *mut vram_tag_info,
    ) -> vram_status;
    pub fn vram_tag_count(device: *mut vram_device) -> u32;
    pub fn vram_tag_info_at(
        device: *mut vram_device,
        rank: u32,
        info: *mut vram_tag_info,
    ) -> vram_status;
    pub fn vram_metrics_write(
        context: *mut vram_context,
        write: Option<vram_write_fn>,
        user: *mut c_void,
    ) -> vram_status;
    pub fn vram_metrics_write_as(
        context: *mut vram_context,
        format: vram_metrics_format,
        write: Option<vram_write_fn>,
        user: *mut c_void,
    ) -> vram_status;
    pub fn vram_metrics_pages_write(
        sources: *const *const vram_metrics_source,
        count: usize,
        format: vram_metrics_format,
        write: Option<vram_write_fn>,
        user: *mut c_void,
    ) -> vram_status;
    pub fn vram_named_create(
        pool: *mut vram_pool,
        queue: *mut vram_queue,
        options: *const vram_named_options,
        named: *mut *mut vram_named,
    ) -> vram_status;
    pub fn vram_named_destroy(named: *mut vram_named) -> vram_status;
    pub fn vram_named_config_set(
        named: *mut vram_named,
        name: *const c_char,
        config: *const vram_named_config,
    ) -> vram_status;
    pub fn vram_named_add(
        named: *mut vram_named,
        name: *const c_char,
        elements: u64,
        config: *const vram_named_config,
        buffer: *mut *mut vram_buffer,
    ) -> vram_status;
    pub fn vram_named_get(
        named: *mut vram_named,
        name: *const c_char,
        config: *const vram_named_config,
        buffer: *mut *mut vram_buffer,
    ) -> vram_status;
    pub fn vram_named_get_or_create(
        named: *mut vram_named,
        name: *const c_char,
        elements: u64,
        config: *const vram_named_config,
        buffer: *mut *mut vram_buffer,
    ) -> vram_status;
    pub fn vram_named_ensure(
        named: *mut vram_named,
        name: *const c_char,
        elements: u64,
        buffer: *mut *mut vram_buffer,
    ) -> vram_status;
    pub fn vram_named_remove(named: *mut vram_named, name: *const c_char) -> vram_status;
    pub fn vram_named_cleanup(named: *mut vram_named, idle_ns: u64, bytes: *mut u64) -> vram_status;
    pub fn vram_named_info_get(
        named: *mut vram_named,
        name: *const c_char,
        info: *mut vram_named_info,
    ) -> vram_status;
    pub fn vram_named_info_at(
        named: *mut vram_named,
        index: u32,
        info: *mut vram_named_info,
    ) -> vram_status;
    pub fn vram_named_stats_get(
        named: *mut vram_named,
        stats: *mut vram_named_stats,
    ) -> vram_status;
    pub fn vram_named_write(
        named: *mut vram_named,
        format: vram_report_format,
        write: Option<vram_write_fn>,
        user: *mut c_void,
    ) -> vram_status;
    pub fn vram_ladder_step_name(step: vram_ladder_step) -> *const c_char;
    pub fn vram_pool_ladder_set(
        pool: *mut vram_pool,
        options: *const vram_ladder_options,
    ) -> vram_status;
    pub fn vram_oom_callback_add(
        device: *mut vram_device,
        call: Option<vram_oom_fn>,
        user: *mut c_void,
        id: *mut u64,
    ) -> vram_status;
    pub fn vram_oom_callback_remove(device: *mut vram_device, id: u64) -> vram_status;
    pub fn vram_oom_cause_name(cause: vram_oom_cause) -> *const c_char;
    pub fn vram_oom_report_get(pool: *mut vram_pool, report: *mut vram_oom_report) -> vram_status;
    pub fn vram_oom_report_write(
        report: *const vram_oom_report,
        format: vram_report_format,
        write: Option<vram_write_fn>,
        user: *mut c_void,
    ) -> vram_status;
    pub fn vram_error_handler_set(
        context: *mut vram_context,
        handler: Option<vram_error_fn>,
        user: *mut c_void,
    ) -> vram_status;
    pub fn vram_pinned_begin(
        device: *mut vram_device,
        memory: *mut c_void,
        bytes: u64,
    ) -> vram_status;
    pub fn vram_pinned_end(
        device: *mut vram_device,
        memory: *mut c_void,
        bytes: u64,
    ) -> vram_status;
    pub fn vram_pinned_forget(
        device: *mut vram_device,
        memory: *mut c_void,
        bytes: u64,
    ) -> vram_status;
    pub fn vram_pinned_info_get(
        device: *mut vram_device,
        info: *mut vram_pinned_info,
    ) -> vram_status;
    pub fn vram_pressure_level_of(value: f64) -> vram_pressure_level;
    pub fn vram_pressure_level_name(level: vram_pressure_level) -> *const c_char;
    pub fn vram_pool_pressure_get(
        pool: *mut vram_pool,
        pressure: *mut vram_pressure,
    ) -> vram_status;
    pub fn vram_device_pressure_get(
        device: *mut vram_device,
        pressure: *mut vram_pressure,
    ) -> vram_status;
    pub fn vram_pool_watch_begin(
        pool: *mut vram_pool,
        options: *const vram_watch_options,
        watch: *mut *mut vram_watch,
    ) -> vram_status;
    pub fn vram_device_watch_begin(
        device: *mut vram_device,
        options: *const vram_watch_options,
        watch: *mut *mut vram_watch,
    ) -> vram_status;
    pub fn vram_watch_end(watch: *mut vram_watch) -> vram_status;
    pub fn vram_pool_response_set(
        pool: *mut vram_pool,
        options: *const vram_response_options,
    ) -> vram_status;
    pub fn vram_pool_fragmentation_get(
        pool: *mut vram_pool,
        fragmentation: *mut vram_fragmentation,
    ) -> vram_status;
    pub fn vram_health(
        device: *mut vram_device,
        options: *const vram_health_options,
        health: *mut vram_health_info,
    ) -> vram_status;
    pub fn vram_monitor_begin(
        context: *mut vram_context,
        options: *const vram_monitor_options,
        monitor: *mut *mut vram_monitor,
    ) -> vram_status;
    pub fn vram_monitor_end(monitor: *mut vram_monitor) -> vram_status;
    pub fn vram_readback_create(
        device: *mut vram_device,
        options: *const vram_readback_options,
        readback: *mut *mut vram_readback,
    ) -> vram_status;
    pub fn vram_readback_destroy(readback: *mut vram_readback) -> vram_status;
    pub fn vram_readback_start(
        readback: *mut vram_readback,
        producer: *mut vram_queue,
        from: vram_addr,
        bytes: u64,
        number: *mut u64,
    ) -> vram_status;
    pub fn vram_readback_start_spans(
        readback: *mut vram_readback,
        producer: *mut vram_queue,
        spans: *const vram_span,
        count: u32,
        number: *mut u64,
    ) -> vram_status;
    pub fn vram_readback_poll(readback: *mut vram_readback, number: u64) -> vram_status;
    pub fn vram_readback_wait(
        readback: *mut vram_readback,
        number: u64,
        timeout: u64,
    ) -> vram_status;
    pub fn vram_readback_point(
        readback: *mut vram_readback,
        number: u64,
        point: *mut vram_point,
    ) -> vram_status;
    pub fn vram_readback_async(
        readback: *mut vram_readback,
        number: u64,
        r#async: *mut vram_async,
    ) -> vram_status;
    pub fn vram_readback_latest(
        readback: *mut vram_readback,
        frame: *mut vram_frame,
    ) -> vram_status;
    pub fn vram_readback_next(
        readback: *mut vram_readback,
        timeout: u64,
        frame: *mut vram_frame,
    ) -> vram_status;
    pub fn vram_readback_release(readback: *mut vram_readback, number: u64) -> vram_status;
    pub fn vram_readback_stats_get(
        readback: *mut vram_readback,
        stats: *mut vram_readback_stats,
    ) -> vram_status;
    pub fn vram_visibility_name(visibility: vram_visibility) -> *const c_char;
    pub fn vram_platform_here() -> vram_platform;
    pub fn vram_visibility_of_platform(
        platform: vram_platform,
        kernel_text: *const c_char,
        visibility: *mut vram_visibility,
    ) -> vram_status;
    pub fn vram_visibility_detect(
        device: *mut vram_device,
        kernel_text: *const c_char,
        visibility: *mut vram_visibility,
        reason: *mut c_char,
    ) -> vram_status;
    pub fn vram_ring_strategy_name(strategy: vram_ring_strategy) -> *const c_char;
    pub fn vram_ring_create(
        pool: *mut vram_pool,
        options: *const vram_ring_options,
        ring: *mut *mut vram_ring,
    ) -> vram_status;
    pub fn vram_ring_destroy(ring: *mut vram_ring) -> vram_status;
    pub fn vram_ring_send(
        ring: *mut vram_ring,
        data: *const c_void,
        bytes: u32,
        kind: u32,
        timeout: u64,
    ) -> vram_status;
    pub fn vram_ring_send_many(
        ring: *mut vram_ring,
        messages: *const vram_ring_message,
        count: u64,
        timeout: u64,
        sent: *mut u64,
    ) -> vram_status;
    pub fn vram_ring_receive(
        ring: *mut vram_ring,
        data: *mut c_void,
        room: u32,
        timeout: u64,
        header: *mut vram_ring_slot,
    ) -> vram_status;
    pub fn vram_ring_flush(
        ring: *mut vram_ring,
        messages: *mut u64,
        r#async: *mut vram_async,
    ) -> vram_status;
    pub fn vram_ring_fetch(
        ring: *mut vram_ring,
        messages: *mut u64,
        r#async: *mut vram_async,
    ) -> vram_status;
    pub fn vram_ring_stop(ring: *mut vram_ring) -> vram_status;
    pub fn vram_ring_drain(ring: *mut vram_ring, timeout: u64) -> vram_status;
    pub fn vram_ring_join(ring: *mut vram_ring, timeout: u64) -> vram_status;
    pub fn vram_ring_info_get(ring: *mut vram_ring, info: *mut vram_ring_info) -> vram_status;
    pub fn vram_ring_stats_get(ring: *mut vram_ring, stats: *mut vram_ring_stats) -> vram_status;
    pub fn vram_ring_telemetry_get(
        ring: *mut vram_ring,
        telemetry: *mut vram_ring_telemetry,
    ) -> vram_status;
    pub fn vram_ring_check(ring: *mut vram_ring) -> vram_status;
    pub fn vram_scope_begin(
        pool: *mut vram_pool,
        parent: *mut vram_scope,
        scope: *mut *mut vram_scope,
    ) -> vram_status;
    pub fn vram_scope_end(scope: *mut vram_scope) -> vram_status;
    pub fn vram_scope_alloc(
        scope: *mut vram_scope,
        size: u64,
        queue: *mut vram_queue,
        addr: *mut vram_addr,
    ) -> vram_status;
    pub fn vram_scope_alloc_with(
        scope: *mut vram_scope,
        size: u64,
        queue: *mut vram_queue,
        options: *const vram_alloc_options,
        addr: *mut vram_addr,
    ) -> vram_status;
    pub fn vram_scope_free(
        scope: *mut vram_scope,
        addr: vram_addr,
        queue: *mut vram_queue,
    ) -> vram_status;
    pub fn vram_scope_take(scope: *mut vram_scope, addr: vram_addr) -> vram_status;
    pub fn vram_scope_give(
        scope: *mut vram_scope,
        addr: vram_addr,
        queue: *mut vram_queue,
    ) -> vram_status;
    pub fn vram_scope_buffer_create(
        scope: *mut vram_scope,
        bytes: u64,
        queue: *mut vram_queue,
        options: *const vram_buffer_options,
        buffer: *mut *mut vram_buffer,
    ) -> vram_status;
    pub fn vram_scope_buffer_take(scope: *mut vram_scope, buffer: *mut vram_buffer) -> vram_status;
    pub fn vram_scope_buffer_give(scope: *mut vram_scope, buffer: *mut vram_buffer) -> vram_status;
    pub fn vram_scope_info_get(scope: *mut vram_scope, info: *mut vram_scope_info) -> vram_status;
    pub fn vram_share_export(
        blocks: *const vram_addr,
        count: u32,
        options: *const vram_share_options,
        share: *mut *mut vram_share,
    ) -> vram_status;
    pub fn vram_share_token_get(
        share: *mut vram_share,
        token: *mut vram_share_token,
    ) -> vram_status;
    pub fn vram_share_open(
        device: *mut vram_device,
        token: *const vram_share_token,
        options: *const vram_share_options,
        share: *mut *mut vram_share,
    ) -> vram_status;
    pub fn vram_share_close(share: *mut vram_share) -> vram_status;
    pub fn vram_share_parts_get(
        share: *mut vram_share,
        first: u32,
        count: u32,
        parts: *mut vram_share_part,
    ) -> vram_status;
    pub fn vram_share_info_get(share: *mut vram_share, info: *mut vram_share_info) -> vram_status;
    pub fn vram_share_fabric_get(
        share: *mut vram_share,
        fabric: *mut vram_share_fabric,
    ) -> vram_status;
    pub fn vram_share_fabric_open(
        device: *mut vram_device,
        fabric: *const vram_share_fabric,
        options: *const vram_share_options,
        share: *mut *mut vram_share,
    ) -> vram_status;
    pub fn vram_share_mark(
        share: *mut vram_share,
        queue: *mut vram_queue,
        value: *mut u64,
    ) -> vram_status;
    pub fn vram_share_wait(share: *mut vram_share, value: u64, timeout_ns: u64) -> vram_status;
    pub fn vram_share_publish(
        share: *mut vram_share,
        name: *const c_char,
        version: *mut u64,
    ) -> vram_status;
    pub fn vram_share_open_name(
        device: *mut vram_device,
        name: *const c_char,
        options: *const vram_share_options,
        share: *mut *mut vram_share,
    ) -> vram_status;
    pub fn vram_share_list(
        options: *const vram_share_options,
        names: *mut vram_share_name,
        count: *mut u32,
    ) -> vram_status;
    pub fn vram_device_shared(
        backend: *const c_char,
        backend_index: u32,
        device: *mut *mut vram_device,
    ) -> vram_status;
    pub fn vram_pool_shared(device: *mut vram_device, pool: *mut *mut vram_pool) -> vram_status;
    pub fn vram_queue_shared(
        device: *mut vram_device,
        native: *mut c_void,
        queue: *mut *mut vram_queue,
    ) -> vram_status;
    pub fn vram_sim_call_name(call: vram_sim_call) -> *const c_char;
    pub fn vram_sim_fault_set(
        context: *mut vram_context,
        fault: *const vram_sim_fault,
    ) -> vram_status;
    pub fn vram_sim_state_get(
        context: *mut vram_context,
        state: *mut vram_sim_state,
    ) -> vram_status;
    pub fn vram_sim_clock_advance(context: *mut vram_context, ns: u64) -> vram_status;
    pub fn vram_sim_others_set(context: *mut vram_context, device: u32, bytes: u64) -> vram_status;
    pub fn vram_sim_journal_get(
        context: *mut vram_context,
        back: u64,
        entry: *mut vram_sim_entry,
    ) -> vram_status;
    pub fn vram_sim_violation(
        context: *mut vram_context,
        index: u64,
        text: *mut c_char,
        text_bytes: usize,
    ) -> vram_status;
    pub fn vram_device_stats_get(
        device: *mut vram_device,
        stats: *mut vram_pool_stats,
    ) -> vram_status;
    pub fn vram_context_stats_get(
        context: *mut vram_context,
        stats: *mut vram_pool_stats,
    ) -> vram_status;
    pub fn vram_pool_stats_write(
        pool: *mut vram_pool,
        format: vram_report_format,
        write: Option<vram_write_fn>,
        user: *mut c_void,
    ) -> vram_status;
    pub fn vram_device_stats_write(
        device: *mut vram_device,
        format: vram_report_format,
        write: Option<vram_write_fn>,
        user: *mut c_void,
    ) -> vram_status;
    pub fn vram_context_stats_write(
        context: *mut vram_context,
        format: vram_report_format,
        write: Option<vram_write_fn>,
        user: *mut c_void,
    ) -> vram_status;
    pub fn vram_tag_stats_get(
        device: *mut vram_device,
        tag: *const c_char,
        stats: *mut vram_pool_stats,
    ) -> vram_status;
    pub fn vram_pool_peaks_begin(pool: *mut vram_pool) -> vram_status;
    pub fn vram_pool_peaks_end(pool: *mut vram_pool, peaks: *mut vram_peaks) -> vram_status;
    pub fn vram_device_peaks_begin(device: *mut vram_device) -> vram_status;
    pub fn vram_device_peaks_end(device: *mut vram_device, peaks: *mut vram_peaks) -> vram_status;
    pub fn vram_context_peaks_begin(context: *mut vram_context) -> vram_status;
    pub fn vram_context_peaks_end(
        context: *mut vram_context,
        peaks: *mut vram_peaks,
    ) -> vram_status;
    pub fn vram_pool_peaks_reset(pool: *mut vram_pool) -> vram_status;
    pub fn vram_device_peaks_reset(device: *mut vram_device) -> vram_status;
    pub fn vram_context_peaks_reset(context: *mut vram_context) -> vram_status;
    pub fn vram_live_visit(
        query: *const vram_live_query,
        visit: Option<vram_live_fn>,
        user: *mut c_void,
    ) -> vram_status;
    pub fn vram_live_get(addr: vram_addr, block: *mut vram_live_block) -> vram_status;
    pub fn vram_live_stats_get(
        query: *const vram_live_query,
        stats: *mut vram_live_stats,
    ) -> vram_status;
    pub fn vram_live_groups(
        query: *const vram_live_query,
        by: vram_live_by,
        visit: Option<vram_live_group_fn>,
        user: *mut c_void,
    ) -> vram_status;
    pub fn vram_stack_text(stack: u32, text: *mut c_char, text_bytes: usize) -> usize;
    pub fn vram_leaks_write(
        query: *const vram_live_query,
        format: vram_report_format,
        write: Option<vram_write_fn>,
        user: *mut c_void,
        summary: *mut vram_leak_summary,
    ) -> vram_status;
    pub fn vram_stream_set_create(
        device: *mut vram_device,
        options: *const vram_stream_set_options,
        set: *mut *mut vram_stream_set,
    ) -> vram_status;
    pub fn vram_stream_set_destroy(set: *mut vram_stream_set) -> vram_status;
    pub fn vram_stream_set_get(
        set: *mut vram_stream_set,
        index: u32,
        queue: *mut *mut vram_queue,
    ) -> vram_status;
    pub fn vram_stream_set_find(
        set: *mut vram_stream_set,
        name: *const c_char,
        queue: *mut *mut vram_queue,
    ) -> vram_status;
    pub fn vram_stream_set_next(
        set: *mut vram_stream_set,
        queue: *mut *mut vram_queue,
    ) -> vram_status;
    pub fn vram_stream_set_transfer(
        set: *mut vram_stream_set,
        queue: *mut *mut vram_queue,
    ) -> vram_status;
    pub fn vram_stream_info_get(
        set: *mut vram_stream_set,
        index: u32,
        info: *mut vram_stream_info,
    ) -> vram_status;
    pub fn vram_stream_set_poll(set: *mut vram_stream_set) -> vram_status;
    pub fn vram_stream_set_wait(set: *mut vram_stream_set, timeout: u64) -> vram_status;
    pub fn vram_stream_set_mark(set: *mut vram_stream_set, point: *mut vram_point) -> vram_status;
    pub fn vram_stream_set_sync(set: *mut vram_stream_set, r#async: *mut vram_async) -> vram_status;
    pub fn vram_stream_set_order(
        set: *mut vram_stream_set,
        earlier: u32,
        later: u32,
    ) -> vram_status;
    pub fn vram_stream_set_after(set: *mut vram_stream_set, point: vram_point) -> vram_status;
    pub fn vram_stream_set_barrier(set: *mut vram_stream_set) -> vram_status;
    pub fn vram_trace_begin(
        context: *mut vram_context,
        options: *const vram_trace_options,
        trace: *mut *mut vram_trace,
    ) -> vram_status;
    pub fn vram_trace_end(trace: *mut vram_trace) -> vram_status;
    pub fn vram_trace_mark(trace: *mut vram_trace, text: *const c_char) -> vram_status;
    pub fn vram_trace_info_get(trace: *mut vram_trace, info: *mut vram_trace_info) -> vram_status;
    pub fn vram_transfer_strategy_name(strategy: vram_transfer_strategy) -> *const c_char;
    pub fn vram_transfer_upload(
        queue: *mut vram_queue,
        to: vram_addr,
        from: *const c_void,
        bytes: u64,
        options: *const vram_transfer_options,
        r#async: *mut vram_async,
    ) -> vram_status;
    pub fn vram_transfer_download(
        queue: *mut vram_queue,
        to: *mut c_void,
        from: vram_addr,
        bytes: u64,
        options: *const vram_transfer_options,
        r#async: *mut vram_async,
    ) -> vram_status;
    pub fn vram_transfer_copy(
        queue: *mut vram_queue,
        to: vram_addr,
        from: vram_addr,
        bytes: u64,
        options: *const vram_transfer_options,
        r#async: *mut vram_async,
    ) -> vram_status;
    pub fn vram_transfer_fill(
        queue: *mut vram_queue,
        to: vram_addr,
        pattern: u32,
        pattern_bytes: u32,
        bytes: u64,
        options: *const vram_transfer_options,
        r#async: *mut vram_async,
    ) -> vram_status;
    pub fn vram_transfer_batch(
        queue: *mut vram_queue,
        copies: *const vram_copy,
        count: usize,
        options: *const vram_transfer_options,
        r#async: *mut vram_async,
    ) -> vram_status;
    pub fn vram_transfer_2d(
        queue: *mut vram_queue,
        copy: *const vram_copy_2d,
        options: *const vram_transfer_options,
        r#async: *mut vram_async,
    ) -> vram_status;
    pub fn vram_transfer_direction_name(direction: vram_transfer_direction) -> *const c_char;
    pub fn vram_transfer_route_name(route: vram_transfer_route) -> *const c_char;
    pub fn vram_transfer_stats_get(
        device: *mut vram_device,
        direction: vram_transfer_direction,
        route: vram_transfer_route,
        stats: *mut vram_transfer_stats,
    ) -> vram_status;
    pub fn vram_transfer_stats_percentile(stats: *const vram_transfer_stats, percent: u32) -> u64;
    pub fn vram_transfer_stats_write(
        device: *mut vram_device,
        format: vram_report_format,
        write: Option<vram_write_fn>,
        user: *mut c_void,
    ) -> vram_status;
    pub fn vram_range_create(
        device: *mut vram_device,
        bytes: u64,
        base: *mut vram_addr,
    ) -> vram_status;
    pub fn vram_range_destroy(device: *mut vram_device, base: vram_addr) -> vram_status;
    pub fn vram_physical_create(
        device: *mut vram_device,
        bytes: u64,
        physical: *mut *mut vram_physical,
    ) -> vram_status;
    pub fn vram_physical_destroy(physical: *mut vram_physical) -> vram_status;
    pub fn vram_physical_bytes(physical: *mut vram_physical) -> u64;
    pub fn vram_range_map(
        device: *mut vram_device,
        addr: vram_addr,
        physicals: *const *mut vram_physical,
        count: u32,
    ) -> vram_status;
    pub fn vram_range_unmap(device: *mut vram_device, addr: vram_addr, bytes: u64) -> vram_status;
    pub fn vram_pool_attach(
        pool: *mut vram_pool,
        ended: Option<vram_pool_ended_fn>,
        user: *mut c_void,
        device: *mut *mut vram_device,
        attachment: *mut *mut vram_attachment,
    ) -> vram_status;
    pub fn vram_attachment_wait(
        attachment: *mut vram_attachment,
        queue: *mut vram_queue,
        timeout: u64,
    ) -> vram_status;
    pub fn vram_attachment_end(attachment: *mut vram_attachment) -> vram_status;
    pub fn vram_queue_submit(
        queue: *mut vram_queue,
        submit: Option<vram_submit_fn>,
        user: *mut c_void,
    ) -> vram_status;
    pub fn vram_async_begin(
        device: *mut vram_device,
        operation: *const c_char,
        result: u64,
        r#async: *mut vram_async,
        work: *mut *mut vram_async_work,
    ) -> vram_status;
    pub fn vram_async_finish(work: *mut vram_async_work, status: vram_status) -> vram_status;
    pub fn vram_memory_check(device: *mut vram_device, addr: vram_addr, bytes: u64) -> vram_status;
    pub fn vram_memory_handle_get(
        addr: vram_addr,
        base: *mut vram_addr,
        bytes: *mut u64,
    ) -> vram_status;
    pub fn vram_memory_is_known(host: *const c_void) -> bool;
    pub fn vram_host_free_later(device: *mut vram_device, memory: *mut c_void) -> vram_status;
}

#[cfg(feature = "compute")]
extern "C" {
    pub fn vram_reason_text(reason: vram_reason) -> *const c_char;
    pub fn vram_scheduler_create(
        pool: *mut vram_pool,
        options: *const vram_scheduler_options,
        scheduler: *mut *mut vram_scheduler,
    ) -> vram_status;
    pub fn vram_scheduler_destroy(scheduler: *mut vram_scheduler) -> vram_status;
    pub fn vram_scheduler_calibrate(
        scheduler: *mut vram_scheduler,
        calibration: *mut vram_calibration,
    ) -> vram_status;
    pub fn vram_weights_create(
        scheduler: *mut vram_scheduler,
        options: *const vram_weights_options,
        weights: *mut *mut vram_weights,
    ) -> vram_status;
    pub fn vram_weights_destroy(weights: *mut vram_weights) -> vram_status;
    pub fn vram_matmul_run(
        scheduler: *mut vram_scheduler,
        product: *const vram_matmul,
    ) -> vram_status;
    pub fn vram_matmul_start(
        scheduler: *mut vram_scheduler,
        product: *const vram_matmul,
        r#async: *mut vram_async,
    ) -> vram_status;
    pub fn vram_matmul_batch(
        scheduler: *mut vram_scheduler,
        products: *const vram_matmul,
        count: usize,
    ) -> vram_status;
    pub fn vram_matmul_plan_get(
        scheduler: *mut vram_scheduler,
        product: *const vram_matmul,
        plan: *mut vram_matmul_plan,
    ) -> vram_status;
    pub fn vram_matmul_warm_up(
        scheduler: *mut vram_scheduler,
        m: u64,
        k: u64,
        n: u64,
    ) -> vram_status;
    pub fn vram_scheduler_stats_get(
        scheduler: *mut vram_scheduler,
        stats: *mut vram_scheduler_stats,
    ) -> vram_status;
    pub fn vram_distance_run(
        scheduler: *mut vram_scheduler,
        distance: *const vram_distance,
    ) -> vram_status;
    pub fn vram_distance_split(
        schedulers: *const *mut vram_scheduler,
        count: usize,
        distance: *const vram_distance,
    ) -> vram_status;
    pub fn vram_distance_on(
        context: *mut vram_context,
        device: u32,
        distance: *const vram_distance,
    ) -> vram_status;
    pub fn vram_labels_create(
        options: *const vram_labels_options,
        cache: *mut *mut vram_labels,
    ) -> vram_status;
    pub fn vram_labels_destroy(cache: *mut vram_labels) -> vram_status;
    pub fn vram_labels_get(
        cache: *mut vram_labels,
        labels: *const i32,
        count: usize,
        compute: Option<vram_labels_fn>,
        user: *mut c_void,
        mapping: *mut i32,
        room: usize,
        mapped: *mut usize,
    ) -> vram_status;
    pub fn vram_labels_clear(cache: *mut vram_labels, bytes: *mut u64) -> vram_status;
    pub fn vram_labels_info_get(
        cache: *mut vram_labels,
        info: *mut vram_labels_info,
    ) -> vram_status;
}

#[cfg(feature = "model")]
extern "C" {
    pub fn vram_inference_estimate(
        shape: *const vram_inference_shape,
        memory: *mut vram_inference_memory,
    ) -> vram_status;
    pub fn vram_model_read(
        path: *const c_char,
        options: *const vram_model_read_options,
        model: *mut vram_model,
    ) -> vram_status;
    pub fn vram_model_token_bytes(
        model: *const vram_model,
        k_type: *const c_char,
        v_type: *const c_char,
        bytes: *mut u64,
    ) -> vram_status;
    pub fn vram_estimate_get(
        model: *const vram_model,
        options: *const vram_estimate_options,
        estimate: *mut vram_estimate,
    ) -> vram_status;
    pub fn vram_fit_get(
        model: *const vram_model,
        options: *const vram_estimate_options,
        fit: *mut vram_fit,
    ) -> vram_status;
    pub fn vram_model_select(
        context: *mut vram_context,
        options: *const vram_model_select_options,
        place: *mut vram_model_place,
    ) -> vram_status;
}

# Made by tools/python-api from include/vram/vram.h and include/vram/extension.h.
# SPDX-License-Identifier: Apache-2.0
"""The C API as ctypes knows it: enums, structs and the types of functions."""
from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_int, c_int32, c_int64,
                    c_size_t, c_uint8, c_uint32, c_uint64, c_void_p)


class vram_status(c_int):
    """The result of a function that can fail: 0, or a negative VRAM_ERR_."""


VRAM_TIMEOUT_NONE = 0
VRAM_TIMEOUT_DEFAULT = 18446744073709551614
VRAM_TIMEOUT_INFINITE = 18446744073709551615
VRAM_LIMIT_NONE = 18446744073709551615
VRAM_VERSION = 1000
VRAM_ERROR_TEXT_MAX = 240
VRAM_SIZE_TEXT_MAX = 24
VRAM_OK = 0
VRAM_ERR_INVALID = -1
VRAM_ERR_OVERFLOW = -2
VRAM_ERR_STALE = -3
VRAM_ERR_HOST_MEMORY = -20
VRAM_ERR_DEVICE_MEMORY = -21
VRAM_ERR_LIMIT = -22
VRAM_ERR_FRAGMENTED = -23
VRAM_ERR_UNSUPPORTED = -40
VRAM_ERR_NO_DRIVER = -41
VRAM_ERR_NO_DEVICE = -42
VRAM_ERR_DEVICE_LOST = -60
VRAM_ERR_BUSY = -61
VRAM_ERR_CAPTURE = -62
VRAM_ERR_NOT_READY = -80
VRAM_ERR_TIMEOUT = -81
VRAM_ERR_FORKED = -82
VRAM_ERR_SHUTDOWN = -83
VRAM_ERR_CORRUPT = -100
VRAM_ERR_IO = -101
VRAM_ERR_BACKEND = -102


class vram_error(Structure):
    _fields_ = [
        ("status", c_int),
        ("backend", c_char_p),
        ("operation", c_char_p),
        ("native_code", c_int64),
        ("text", c_char * 240),
    ]


class vram_value(Structure):
    _fields_ = [
        ("value", c_uint64),
        ("known", c_bool),
    ]


VRAM_REPORT_TEXT = 0
VRAM_REPORT_JSON = 1
vram_write_fn = CFUNCTYPE(c_bool, c_void_p, c_char_p, c_size_t)
VRAM_OPTION_BOOL = 0
VRAM_OPTION_INTEGER = 1
VRAM_OPTION_SIZE = 2
VRAM_OPTION_DURATION = 3
VRAM_OPTION_TEXT = 4
VRAM_OPTION_FRACTION = 5
VRAM_OPTION_LIST = 6


class vram_option_info(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("type", c_int),
        ("is_limit", c_bool),
        ("default_text", c_char_p),
        ("minimum", c_uint64),
        ("maximum", c_uint64),
        ("help", c_char_p),
    ]


VRAM_OPTION_FROM_DEFAULT = 0
VRAM_OPTION_FROM_ENVIRONMENT = 1
VRAM_OPTION_FROM_API = 2
VRAM_LOG_OFF = 0
VRAM_LOG_ERROR = 1
VRAM_LOG_WARN = 2
VRAM_LOG_INFO = 3
VRAM_LOG_DEBUG = 4
vram_log_fn = CFUNCTYPE(None, c_void_p, c_int, c_char_p)
vram_host_alloc_fn = CFUNCTYPE(c_void_p, c_void_p, c_size_t)
vram_host_resize_fn = CFUNCTYPE(c_void_p, c_void_p, c_void_p, c_size_t)
vram_host_free_fn = CFUNCTYPE(None, c_void_p, c_void_p)


class vram_host_allocator(Structure):
    _fields_ = [
        ("user", c_void_p),
        ("alloc", vram_host_alloc_fn),
        ("resize", vram_host_resize_fn),
        ("free", vram_host_free_fn),
    ]


class vram_context_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("backends", c_char_p),
        ("sim", c_char_p),
        ("vulkan", c_void_p),
        ("opencl", c_void_p),
        ("metal", c_void_p),
    ]


class vram_backend_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("present", c_bool),
        ("device_count", c_uint32),
        ("version", c_char * 64),
        ("reason", c_char * 240),
    ]


VRAM_CAP_VMM = 1
VRAM_CAP_PINNED = 2
VRAM_CAP_MANAGED = 4
VRAM_CAP_PEERS = 8
VRAM_CAP_KERNELS = 16
VRAM_CAP_TRUE_ADDRESS = 32
VRAM_CAP_HOST_ACCESS = 64
VRAM_CAP_MEMORY_INFO = 128
VRAM_CAP_ADOPT = 256
VRAM_CAP_SIMULATED = 512
VRAM_CAP_ALIAS = 1024
VRAM_CAP_HANDLES = 2048
VRAM_CAP_INTEGRATED = 4096
VRAM_CAP_RDMA = 8192
VRAM_DEVICE_GPU = 0
VRAM_DEVICE_CPU = 1
VRAM_DEVICE_SIMULATED = 2


class vram_device_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("backend", c_char_p),
        ("backend_index", c_uint32),
        ("kind", c_int),
        ("name", c_char * 128),
        ("architecture", c_char * 32),
        ("uuid_known", c_bool),
        ("pci_known", c_bool),
        ("uuid", c_uint8 * 16),
        ("pci", c_char * 16),
        ("caps", c_uint32),
        ("caps_known", c_uint32),
        ("memory_bytes", vram_value),
        ("alloc_granule", vram_value),
        ("alloc_max", vram_value),
        ("vmm_granule", vram_value),
    ]


class vram_select_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("bytes", c_uint64),
        ("order", c_char_p),
    ]


class vram_memory_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("total_bytes", vram_value),
        ("free_bytes", vram_value),
        ("held_bytes", c_uint64),
        ("held_peak_bytes", c_uint64),
        ("held_count", c_uint64),
        ("driver_calls", c_uint64),
        ("lost", c_bool),
    ]


VRAM_MEMORY_DEVICE = 0
VRAM_MEMORY_PINNED = 1
VRAM_MEMORY_MANAGED = 2
VRAM_MEMORY_HOST = 3
VRAM_TARGET_HOST = -1
VRAM_TARGET_OWN = -2
VRAM_ADVICE_NONE = 0
VRAM_ADVICE_READ_MOSTLY = 1
VRAM_ADVICE_PREFER = 2


class vram_native_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("device", c_void_p),
        ("kind", c_int),
        ("base", c_uint64),
        ("bytes", c_uint64),
        ("offset", c_uint64),
        ("handle", c_void_p),
        ("device_address", vram_value),
        ("host_pointer", c_void_p),
    ]


class vram_queue_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("priority", c_int32),
    ]


class vram_point(Structure):
    _fields_ = [
        ("queue", c_void_p),
        ("value", c_uint64),
    ]


class vram_kernel_call(Structure):
    _fields_ = [
        ("group", c_uint32 * 3),
        ("groups", c_uint32 * 3),
        ("group_size", c_uint32 * 3),
        ("arguments", c_void_p),
    ]


vram_kernel_fn = CFUNCTYPE(None, POINTER(vram_kernel_call))
VRAM_KERNEL_C = 0
VRAM_KERNEL_PTX = 1
VRAM_KERNEL_OPENCL_C = 2
VRAM_KERNEL_SPIRV = 3
VRAM_KERNEL_HSACO = 4
VRAM_KERNEL_METAL = 5


class vram_kernel_source(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("format", c_int),
        ("code", c_void_p),
        ("code_bytes", c_size_t),
        ("entry", c_char_p),
    ]


class vram_launch(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("groups", c_uint32 * 3),
        ("group_size", c_uint32 * 3),
        ("argument_count", c_uint32),
        ("arguments", c_void_p),
        ("argument_bytes", c_void_p),
        ("address_mask", c_uint32),
    ]


class vram_async(Structure):
    _fields_ = [
        ("word", c_uint64 * 4),
    ]


VRAM_ASYNC_PENDING = 0
VRAM_ASYNC_READY = 1
VRAM_ASYNC_ERROR = 2
vram_async_fn = CFUNCTYPE(None, c_void_p, c_int)
vram_provider_alloc_fn = CFUNCTYPE(c_int, c_void_p, c_uint64, POINTER(c_uint64))
vram_provider_free_fn = CFUNCTYPE(c_int, c_void_p, c_uint64, c_uint64)


class vram_provider(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("user", c_void_p),
        ("alloc", vram_provider_alloc_fn),
        ("free", vram_provider_free_fn),
        ("granule", c_uint64),
    ]


VRAM_POOL_DETERMINISTIC = 1
VRAM_POOL_SEGMENTS = 2
VRAM_POOL_ZERO_ALLOC = 4
VRAM_POOL_ZERO_FREE = 8
VRAM_POOL_POISON = 16
VRAM_POOL_RED_ZONES = 32
VRAM_POOL_TRACKED = 64
VRAM_POOL_POWER_OF_TWO = 128
VRAM_POOL_SHAREABLE = 256
VRAM_POOL_SHARE_GROUP = 512
VRAM_POOL_SHARE_FABRIC = 1024


class vram_pool_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("flags", c_uint32),
        ("provider", c_void_p),
        ("range_bytes", c_uint64),
        ("slack_bytes", c_uint64),
        ("name", c_char_p),
        ("limits", c_void_p),
        ("response", c_void_p),
        ("quarantine_bytes", c_uint64),
        ("kind", c_int),
    ]


VRAM_ALLOC_CACHED_ONLY = 1
VRAM_ALLOC_NO_WAIT = 2
VRAM_ALLOC_NO_FALLBACK = 4


class vram_alloc_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("alignment", c_uint64),
        ("flags", c_uint32),
        ("tag", c_char_p),
        ("reserve_bytes", c_uint64),
        ("name", c_char_p),
        ("elements", c_uint64),
    ]


class vram_block_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("pool", c_void_p),
        ("addr", c_uint64),
        ("requested_bytes", c_uint64),
        ("held_bytes", c_uint64),
        ("tag", c_char_p),
        ("kind", c_int),
    ]


VRAM_TRIM_MEMORY = 1
VRAM_TRIM_CACHES = 2
VRAM_TRIM_RARE = 4
VRAM_TRIM_BUFFERS = 8
VRAM_TRIM_PINNED = 16


class vram_trim_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("flags", c_uint32),
        ("keep_bytes", c_uint64),
        ("idle_ns", c_uint64),
        ("interval_ns", c_uint64),
    ]


VRAM_SLEEP_DROP = 0
VRAM_SLEEP_HOST = 1
VRAM_SLEEP_PINNED = 2


class vram_sleep_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("contents", c_int),
        ("tag", c_char_p),
    ]


class vram_rebuild_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("bytes", c_uint64),
    ]


class vram_rebuild_result(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("won_bytes", c_uint64),
        ("copied_bytes", c_uint64),
        ("handles", c_uint64),
    ]


VRAM_LADDER_ROOM = 16
VRAM_RESPONSE_ROOM = 8
VRAM_PRESSURE_ROOM = 8


class vram_pool_stats(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("requested_bytes", c_uint64),
        ("allocated_bytes", c_uint64),
        ("cached_bytes", c_uint64),
        ("reserved_bytes", c_uint64),
        ("peak_requested_bytes", c_uint64),
        ("peak_allocated_bytes", c_uint64),
        ("peak_reserved_bytes", c_uint64),
        ("live_blocks", c_uint64),
        ("allocs", c_uint64),
        ("frees", c_uint64),
        ("hits", c_uint64),
        ("misses", c_uint64),
        ("cache_hits", c_uint64),
        ("returns", c_uint64),
        ("cache_returns", c_uint64),
        ("moved_handles", c_uint64),
        ("moved_bytes", c_uint64),
        ("move_ns", c_uint64),
        ("spare_handles", c_uint64),
        ("driver_creates", c_uint64),
        ("driver_releases", c_uint64),
        ("driver_maps", c_uint64),
        ("driver_unmaps", c_uint64),
        ("driver_accesses", c_uint64),
        ("driver_allocs", c_uint64),
        ("driver_frees", c_uint64),
        ("driver_markers", c_uint64),
        ("metadata_bytes", c_uint64),
        ("thread_cache_bytes", c_uint64),
        ("hit_rate", c_double),
        ("rounding_bytes", c_uint64),
        ("active_buffers", c_uint64),
        ("peak_scopes", c_uint64),
        ("budget_bytes", vram_value),
        ("refusals", c_uint64),
        ("limit_refusals", c_uint64),
        ("quota_refusals", c_uint64),
        ("quota_crossings", c_uint64),
        ("fallbacks", c_uint64),
        ("fallback_bytes", c_uint64),
        ("ladder_runs", c_uint64),
        ("ladder_steps", c_uint64 * 16),
        ("ladder_bytes", c_uint64 * 16),
        ("ladder_rescues", c_uint64 * 16),
        ("response_steps", c_uint64 * 8),
        ("response_bytes", c_uint64 * 8),
        ("rises", c_uint64 * 8),
        ("falls", c_uint64 * 8),
        ("cleanups", c_uint64),
        ("cleaned_bytes", c_uint64),
        ("last_cleanup_ns", vram_value),
        ("sleeps", c_uint64),
        ("wakes", c_uint64),
        ("asleep_bytes", c_uint64),
        ("asleep_host_bytes", c_uint64),
        ("quarantine_bytes", c_uint64),
        ("damaged_blocks", c_uint64),
        ("other_bytes", c_uint64),
        ("promotions", c_uint64),
        ("promoted_bytes", c_uint64),
        ("demotions", c_uint64),
        ("demoted_bytes", c_uint64),
        ("unchecked_blocks", c_uint64),
        ("sealed_bytes", c_uint64),
        ("shared_bytes", c_uint64),
    ]


VRAM_BUFFER_DEVICE = 0
VRAM_BUFFER_PINNED = 1
VRAM_BUFFER_MANAGED = 2
VRAM_BUFFER_MAPPED = 3
VRAM_BUFFER_FALLBACK = 4
VRAM_PRECISION_BYTES = 0
VRAM_PRECISION_FP32 = 1
VRAM_PRECISION_FP16 = 2
VRAM_PRECISION_BF16 = 3
VRAM_PRECISION_INT8 = 4
VRAM_BUFFER_NAME_MAX = 64
VRAM_BUFFER_PAGEABLE = 1
VRAM_MOVE_FALLBACK = 0
VRAM_MOVE_PROMOTE = 1
VRAM_MOVE_DEMOTE = 2


class vram_buffer_event(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("buffer", c_void_p),
        ("id", c_uint64),
        ("cause", c_int),
        ("from", c_int),
        ("to", c_int),
        ("bytes", c_uint64),
    ]


vram_buffer_moved_fn = CFUNCTYPE(None, c_void_p, POINTER(vram_buffer_event))


class vram_buffer_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("kind", c_int),
        ("precision", c_int),
        ("flags", c_uint32),
        ("name", c_char_p),
        ("tag", c_char_p),
        ("moved", vram_buffer_moved_fn),
        ("user", c_void_p),
        ("growth", c_void_p),
        ("provider", c_void_p),
    ]


class vram_buffer_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("id", c_uint64),
        ("name", c_char * 64),
        ("tag", c_char_p),
        ("kind", c_int),
        ("precision", c_int),
        ("location", c_int),
        ("addr", c_uint64),
        ("capacity_bytes", c_uint64),
        ("used_bytes", c_uint64),
        ("elements", c_uint64),
        ("queue", c_void_p),
        ("pool", c_void_p),
        ("created_ns", c_uint64),
        ("accessed_ns", c_uint64),
        ("resizes", c_uint64),
        ("host", c_void_p),
        ("pinned", c_bool),
        ("wrapped", c_bool),
        ("mapped", c_bool),
        ("numa_node", vram_value),
        ("promotions", c_uint64),
        ("demotions", c_uint64),
    ]


class vram_span(Structure):
    _fields_ = [
        ("buffer", c_void_p),
        ("offset", c_uint64),
        ("bytes", c_uint64),
    ]


VRAM_MAP_READ = 1
VRAM_MAP_WRITE = 2
VRAM_WRAP_HOST = 0
VRAM_WRAP_ADDRESS = 1
VRAM_WRAP_HANDLE = 2


class vram_wrap(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("kind", c_int),
        ("pointer", c_void_p),
        ("address", c_uint64),
        ("bytes", c_uint64),
        ("offset", c_uint64),
    ]


class vram_batch_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("tag", c_char_p),
    ]


class vram_batch_item(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("elements", c_uint64),
        ("precision", c_int),
        ("kind", c_int),
        ("name", c_char_p),
        ("host", c_void_p),
        ("host_bytes", c_uint64),
        ("flags", c_uint32),
    ]


class vram_batch_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("pool", c_void_p),
        ("queue", c_void_p),
        ("count", c_uint32),
        ("blocks", c_uint32),
        ("shared_bytes", c_uint64),
    ]


VRAM_FEED_STAGED = 0
VRAM_FEED_DIRECT = 1
VRAM_FEED_SLOTS_MAX = 16


class vram_feed_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("slots", c_uint32),
        ("mode", c_int),
        ("priority", c_int32),
        ("bytes", c_uint64),
    ]


class vram_feed_block(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("bytes", c_uint64),
        ("number", c_uint64),
        ("slot", c_uint32),
        ("pinned", c_bool),
    ]


class vram_feed_stats(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("submitted", c_uint64),
        ("bytes", c_uint64),
        ("stalls", c_uint64),
        ("direct", c_uint64),
        ("host_bytes", c_uint64),
        ("pinned_bytes", c_uint64),
        ("device_bytes", c_uint64),
    ]


VRAM_FOREIGN_COUNTS = 1
VRAM_FOREIGN_NAME_MAX = 64


class vram_foreign_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("flags", c_uint32),
        ("tag", c_char_p),
        ("name", c_char_p),
        ("kind", c_int),
        ("elements", c_uint64),
    ]


class vram_foreign_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("id", c_uint64),
        ("bytes", c_uint64),
        ("counts", c_bool),
        ("tag", c_char_p),
        ("since_ns", c_uint64),
        ("name", c_char * 64),
        ("kind", c_int),
        ("elements", c_uint64),
    ]


class vram_foreign_totals(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("count", c_uint64),
        ("bytes", c_uint64),
        ("counted_bytes", c_uint64),
        ("peak_bytes", c_uint64),
    ]


VRAM_GROWTH_EXACT = 0
VRAM_GROWTH_FACTOR = 1
VRAM_GROWTH_FIXED = 2


class vram_growth(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("policy", c_int),
        ("factor_ppm", c_uint32),
        ("step_bytes", c_uint64),
        ("min_bytes", c_uint64),
        ("max_bytes", c_uint64),
        ("element_bytes", c_uint32),
    ]


class vram_growth_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("growth", vram_growth),
        ("capacity_bytes", c_uint64),
        ("used_bytes", c_uint64),
        ("utilisation", c_double),
        ("in_place", c_uint64),
        ("copies", c_uint64),
        ("copied_bytes", c_uint64),
        ("refusals", c_uint64),
    ]


VRAM_LEASE_NAME_MAX = 64
VRAM_LEASE_DEVICE_MAX = 64
VRAM_LEASE_POOLS_MAX = 64
VRAM_LEASE_GAVE = 0
VRAM_LEASE_SILENT = 1
VRAM_LEASE_NO_POINT = 2
VRAM_LEASE_REFUSED = 3
VRAM_LEASE_IN_USE = 4
VRAM_LEASE_MINIMUM = 5
VRAM_LEASE_PRIORITY = 6
VRAM_LEASE_GONE = 7


class vram_lease_event(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("lease", c_void_p),
        ("device", c_void_p),
        ("bytes", c_uint64),
        ("left_ns", c_uint64),
        ("process", c_uint64),
        ("name", c_char_p),
        ("priority", c_int32),
        ("at_point", c_bool),
    ]


VRAM_LEASE_DONE = 0
VRAM_LEASE_LATER = 1
VRAM_LEASE_REFUSE = 2
vram_lease_fn = CFUNCTYPE(c_int, c_void_p, POINTER(vram_lease_event))
VRAM_LEASE_AT_ONCE = 1


class vram_lease_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("min_bytes", c_uint64),
        ("want_bytes", c_uint64),
        ("priority", c_int32),
        ("flags", c_uint32),
        ("revoke", vram_lease_fn),
        ("user", c_void_p),
        ("timeout_ns", c_uint64),
        ("capacity_bytes", c_uint64),
        ("name", c_char_p),
        ("dir", c_char_p),
    ]


class vram_lease_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("granted_bytes", c_uint64),
        ("held_bytes", c_uint64),
        ("min_bytes", c_uint64),
        ("want_bytes", c_uint64),
        ("priority", c_int32),
        ("connected", c_bool),
        ("broker", c_uint64),
        ("brokers", c_uint64),
        ("asked_bytes", c_uint64),
        ("requests", c_uint64),
        ("refusals", c_uint64),
        ("revocations", c_uint64),
        ("given_bytes", c_uint64),
        ("got_bytes", c_uint64),
        ("waited_ns", c_uint64),
    ]


class vram_lease_entry(Structure):
    _fields_ = [
        ("device", c_char * 64),
        ("name", c_char * 64),
        ("process", c_uint64),
        ("priority", c_int32),
        ("min_bytes", c_uint64),
        ("want_bytes", c_uint64),
        ("granted_bytes", c_uint64),
        ("held_bytes", c_uint64),
        ("waiting_bytes", c_uint64),
        ("asked_bytes", c_uint64),
        ("capacity_bytes", c_uint64),
    ]


VRAM_LEASE_LOG_OPENED = 0
VRAM_LEASE_LOG_RESUMED = 1
VRAM_LEASE_LOG_CLOSED = 2
VRAM_LEASE_LOG_GAVE = 3
VRAM_LEASE_LOG_KEPT = 4
VRAM_LEASE_LOG_GRANTED = 5
VRAM_LEASE_LOG_DENIED = 6


class vram_lease_record(Structure):
    _fields_ = [
        ("number", c_uint64),
        ("ago_ns", c_uint64),
        ("happening", c_int),
        ("why", c_int),
        ("bytes", c_uint64),
        ("waited_ns", c_uint64),
        ("from_process", c_uint64),
        ("to_process", c_uint64),
        ("from", c_char * 64),
        ("to", c_char * 64),
    ]


vram_broker_fn = CFUNCTYPE(c_bool, c_void_p)
vram_broker_started_fn = CFUNCTYPE(None, c_void_p, c_char_p)


class vram_broker_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("dir", c_char_p),
        ("idle_ns", c_uint64),
        ("stop", vram_broker_fn),
        ("user", c_void_p),
        ("started", vram_broker_started_fn),
    ]


VRAM_SWITCH_DEFAULT = 0
VRAM_SWITCH_ON = 1
VRAM_SWITCH_OFF = 2


class vram_limits(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("fraction", c_double),
        ("min_free_bytes", c_uint64),
        ("hard_bytes", c_uint64),
        ("cached_bytes", c_uint64),
        ("cached_blocks", c_uint32),
        ("tracking", c_int),
        ("cpu_fallback", c_int),
    ]


VRAM_PRESET_DEFAULT = 0
VRAM_PRESET_INFERENCE = 1
VRAM_PRESET_TRAINING = 2
VRAM_PRESET_CONSTRAINED = 3


class vram_tag_event(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("device", c_void_p),
        ("tag", c_char_p),
        ("used_bytes", c_uint64),
        ("soft_bytes", c_uint64),
        ("hard_bytes", c_uint64),
    ]


vram_tag_fn = CFUNCTYPE(None, c_void_p, POINTER(vram_tag_event))


class vram_tag_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("used_bytes", c_uint64),
        ("own_bytes", c_uint64),
        ("requested_bytes", c_uint64),
        ("peak_bytes", c_uint64),
        ("live_blocks", c_uint64),
        ("allocs", c_uint64),
        ("soft_bytes", c_uint64),
        ("hard_bytes", c_uint64),
        ("crossings", c_uint64),
        ("refusals", c_uint64),
    ]


class vram_metal_adoption(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("device", c_void_p),
    ]


VRAM_LIVE_PAGE_VERSION = 1
VRAM_LIVE_PAGE_BYTES_MAX = 1048576
VRAM_LIVE_PAGE_DEVICES = 16
VRAM_LIVE_PAGE_POOLS = 64
VRAM_LIVE_PAGE_TAGS = 64
VRAM_LIVE_PAGE_REFUSALS = 8
VRAM_LIVE_PAGE_CAUSES = 16
VRAM_LIVE_PAGE_SIZES = 48
VRAM_LIVE_PAGE_LIBRARY = 0
VRAM_LIVE_PAGE_RUN = 1


class vram_live_page_table(Structure):
    _fields_ = [
        ("offset", c_uint32),
        ("stride", c_uint32),
        ("count", c_uint32),
        ("total", c_uint32),
    ]


class vram_live_page_counts(Structure):
    _fields_ = [
        ("held_bytes", c_uint64),
        ("live_bytes", c_uint64),
        ("allocated_bytes", c_uint64),
        ("cached_bytes", c_uint64),
        ("asleep_bytes", c_uint64),
        ("limit_bytes", c_uint64),
        ("peak_held_bytes", c_uint64),
        ("peak_live_bytes", c_uint64),
        ("live_blocks", c_uint64),
        ("allocs", c_uint64),
        ("frees", c_uint64),
        ("hits", c_uint64),
        ("misses", c_uint64),
        ("cache_hits", c_uint64),
        ("refusals", c_uint64),
        ("limit_refusals", c_uint64),
        ("quota_refusals", c_uint64),
        ("fallbacks", c_uint64),
        ("moved_bytes", c_uint64),
        ("driver_calls", c_uint64),
        ("alloc_rate", c_uint64),
        ("free_rate", c_uint64),
    ]


class vram_live_page_size(Structure):
    _fields_ = [
        ("blocks", c_uint64),
        ("bytes", c_uint64),
    ]


class vram_live_page(Structure):
    _fields_ = [
        ("magic", c_uint64),
        ("version", c_uint32),
        ("page_bytes", c_uint32),
        ("pid", c_uint64),
        ("start_ticks", c_uint64),
        ("pid_space", c_uint64),
        ("user", c_uint64),
        ("begun_ns", c_uint64),
        ("interval_ns", c_uint64),
        ("origin", c_uint32),
        ("reserved", c_uint32),
        ("library", c_char * 32),
        ("command", c_char * 256),
        ("request", c_uint32),
        ("answer", c_uint32),
        ("sequence", c_uint64),
        ("updated_ns", c_uint64),
        ("devices", vram_live_page_table),
        ("pools", vram_live_page_table),
        ("tags", vram_live_page_table),
        ("refusals", vram_live_page_table),
        ("sum", vram_live_page_counts),
        ("tracked_pools", c_uint64),
        ("foreign_bytes", c_uint64),
        ("updates", c_uint64),
        ("causes", c_uint64 * 16),
        ("sizes_ns", c_uint64),
        ("sizes", vram_live_page_size * 48),
    ]


class vram_live_page_device(Structure):
    _fields_ = [
        ("backend", c_char * 16),
        ("name", c_char * 128),
        ("pci", c_char * 16),
        ("uuid", c_uint8 * 16),
        ("uuid_known", c_uint32),
        ("kind", c_uint32),
        ("index", c_uint32),
        ("pressure_level", c_uint32),
        ("pressure_millionths", c_uint64),
        ("memory_bytes", c_uint64),
        ("free_bytes", c_uint64),
        ("held_bytes", c_uint64),
        ("peak_held_bytes", c_uint64),
        ("limit_bytes", c_uint64),
        ("pools", c_uint64),
    ]


VRAM_LIVE_PAGE_TRACKED = 1


class vram_live_page_pool(Structure):
    _fields_ = [
        ("name", c_char * 64),
        ("id", c_uint64),
        ("device", c_uint32),
        ("pressure_level", c_uint32),
        ("pressure_millionths", c_uint64),
        ("flags", c_uint32),
        ("reserved", c_uint32),
        ("counts", vram_live_page_counts),
    ]


class vram_live_page_tag(Structure):
    _fields_ = [
        ("name", c_char * 96),
        ("device", c_uint32),
        ("reserved", c_uint32),
        ("used_bytes", c_uint64),
        ("own_bytes", c_uint64),
        ("peak_bytes", c_uint64),
        ("live_blocks", c_uint64),
        ("allocs", c_uint64),
        ("soft_bytes", c_uint64),
        ("hard_bytes", c_uint64),
        ("refusals", c_uint64),
    ]


class vram_live_page_refusal(Structure):
    _fields_ = [
        ("number", c_uint64),
        ("date_ns", c_uint64),
        ("bytes", c_uint64),
        ("cause", c_uint32),
        ("status", c_int32),
        ("pool", c_char * 64),
        ("tag", c_char * 64),
        ("text", c_char * 256),
    ]


VRAM_METRICS_OPENMETRICS = 0
VRAM_METRICS_PROMETHEUS = 1


class vram_metrics_source(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("page", c_void_p),
        ("devices", c_void_p),
        ("pools", c_void_p),
        ("tags", c_void_p),
    ]


class vram_named_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("limit_bytes", c_uint64),
        ("tag", c_char_p),
    ]


class vram_named_config(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("kind", c_int),
        ("precision", c_int),
        ("growth", vram_growth),
    ]


class vram_named_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char * 64),
        ("buffer", c_void_p),
        ("kind", c_int),
        ("precision", c_int),
        ("capacity_bytes", c_uint64),
        ("used_bytes", c_uint64),
        ("utilisation", c_double),
        ("resizes", c_uint64),
        ("created_ns", c_uint64),
        ("accessed_ns", c_uint64),
    ]


class vram_named_stats(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("buffers", c_uint32),
        ("total_bytes", c_uint64),
        ("used_bytes", c_uint64),
        ("peak_bytes", c_uint64),
        ("limit_bytes", c_uint64),
        ("created", c_uint64),
        ("removed", c_uint64),
        ("resizes", c_uint64),
        ("refusals", c_uint64),
    ]


VRAM_LADDER_DRAIN = 0
VRAM_LADDER_FINISHED = 1
VRAM_LADDER_MOVE = 2
VRAM_LADDER_TRIM = 3
VRAM_LADDER_OTHERS = 4
VRAM_LADDER_CALLBACKS = 5
VRAM_LADDER_CLEANUP = 6
VRAM_LADDER_RETRY = 7
VRAM_LADDER_WAIT = 8
VRAM_LADDER_FALLBACK = 9
VRAM_LADDER_REBUILD = 10
VRAM_LADDER_LEASE = 11
VRAM_LADDER_STEPS = 12
VRAM_FALLBACK_MANAGED = 1
VRAM_FALLBACK_PINNED = 2
VRAM_FALLBACK_HOST = 4


class vram_ladder_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("steps", c_char_p),
        ("fallback", c_uint32),
        ("wait_ns", c_uint64),
    ]


VRAM_OOM_CALLBACKS_MAX = 16
VRAM_OOM_NESTING_MAX = 2


class vram_oom_event(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("device", c_void_p),
        ("pool", c_void_p),
        ("bytes", c_uint64),
        ("status", c_int),
        ("nesting", c_uint32),
    ]


vram_oom_fn = CFUNCTYPE(c_uint64, c_void_p, POINTER(vram_oom_event))
VRAM_OOM_FULL = 0
VRAM_OOM_LIMIT = 1
VRAM_OOM_FRAGMENTED = 2
VRAM_OOM_PENDING = 3
VRAM_OOM_STRANDED = 4
VRAM_OOM_OTHERS = 5
VRAM_OOM_TOO_LARGE = 6
VRAM_OOM_REFUSED = 7
VRAM_OOM_HOST = 8
VRAM_OOM_QUOTA = 9
VRAM_OOM_PINNED = 10
VRAM_OOM_ADDRESSES = 11
VRAM_OOM_LEASE = 12
VRAM_OOM_LIST_MAX = 8
VRAM_OOM_NAME_MAX = 64
VRAM_OOM_LEASE_MAX = 160


class vram_oom_queue(Structure):
    _fields_ = [
        ("queue", c_void_p),
        ("bytes", c_uint64),
    ]


class vram_oom_pool(Structure):
    _fields_ = [
        ("pool", c_void_p),
        ("name", c_char * 64),
        ("reserved_bytes", c_uint64),
        ("free_bytes", c_uint64),
    ]


class vram_oom_holder(Structure):
    _fields_ = [
        ("tag", c_char * 64),
        ("bytes", c_uint64),
        ("blocks", c_uint64),
    ]


class vram_oom_lender(Structure):
    _fields_ = [
        ("process", c_uint64),
        ("name", c_char * 64),
        ("asked_bytes", c_uint64),
        ("given_bytes", c_uint64),
        ("why", c_int),
        ("priority", c_int32),
    ]


class vram_oom_reader(Structure):
    _fields_ = [
        ("process", c_uint64),
        ("bytes", c_uint64),
    ]


class vram_oom_step(Structure):
    _fields_ = [
        ("step", c_int),
        ("taken", c_uint32),
        ("bytes", c_uint64),
        ("ns", c_uint64),
    ]


class vram_oom_report(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("number", c_uint64),
        ("status", c_int),
        ("cause", c_int),
        ("summary", c_char * 256),
        ("advice", c_char * 256),
        ("error", c_char * 240),
        ("pool", c_void_p),
        ("pool_name", c_char * 64),
        ("device_name", c_char * 64),
        ("tag", c_char * 64),
        ("queue", c_void_p),
        ("asked_bytes", c_uint64),
        ("needed_bytes", c_uint64),
        ("alignment", c_uint64),
        ("total_bytes", vram_value),
        ("free_bytes", vram_value),
        ("process_bytes", c_uint64),
        ("others_bytes", vram_value),
        ("processes_bytes", vram_value),
        ("limit_bytes", vram_value),
        ("limit_name", c_char * 64),
        ("quota_tag", c_char * 64),
        ("quota_bytes", c_uint64),
        ("quota_used_bytes", c_uint64),
        ("reserved_bytes", c_uint64),
        ("live_bytes", c_uint64),
        ("asleep_bytes", c_uint64),
        ("rounding_bytes", c_uint64),
        ("cached_bytes", c_uint64),
        ("unused_bytes", c_uint64),
        ("largest_bytes", c_uint64),
        ("elsewhere_bytes", c_uint64),
        ("spare_bytes", c_uint64),
        ("lost_bytes", c_uint64),
        ("pending_bytes", c_uint64),
        ("pinned_bytes", c_uint64),
        ("fallback_bytes", c_uint64),
        ("stranded_bytes", c_uint64),
        ("queue_count", c_uint32),
        ("pool_count", c_uint32),
        ("holder_count", c_uint32),
        ("step_count", c_uint32),
        ("queues", vram_oom_queue * 8),
        ("pools", vram_oom_pool * 8),
        ("holders", vram_oom_holder * 8),
        ("steps", vram_oom_step * 16),
        ("address_bytes", c_uint64),
        ("longest_bytes", c_uint64),
        ("integrated", c_bool),
        ("lease_bytes", vram_value),
        ("lease_reason", c_char * 160),
        ("lender_count", c_uint32),
        ("lenders", vram_oom_lender * 8),
        ("reader_count", c_uint32),
        ("shared_bytes", c_uint64),
        ("readers", vram_oom_reader * 8),
    ]


VRAM_ERROR_RETRIES_MAX = 3
VRAM_ERROR_FAIL = 0
VRAM_ERROR_RETRY = 1
VRAM_ERROR_FALL_BACK = 2


class vram_error_event(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("error", c_void_p),
        ("context", c_void_p),
        ("device", c_void_p),
        ("pool", c_void_p),
        ("bytes", c_uint64),
        ("retries", c_uint32),
        ("total", c_uint64),
        ("recent", c_double),
    ]


vram_error_fn = CFUNCTYPE(c_int, c_void_p, POINTER(vram_error_event))


class vram_opencl_adoption(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("context", c_void_p),
        ("device", c_void_p),
    ]


class vram_pinned_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("slot_bytes", c_uint64),
        ("slots", c_uint32),
        ("slots_busy", c_uint32),
        ("slots_most", c_uint32),
        ("workers", c_uint32),
        ("workers_most", c_uint32),
        ("uploads", c_uint64),
        ("upload_bytes", c_uint64),
        ("downloads", c_uint64),
        ("download_bytes", c_uint64),
        ("chunks", c_uint64),
        ("plain", c_uint64),
        ("plain_bytes", c_uint64),
        ("refusals", c_uint64),
        ("waits", c_uint64),
        ("entries", c_uint32),
        ("entries_used", c_uint32),
        ("entry_bytes", c_uint64),
        ("hits", c_uint64),
        ("misses", c_uint64),
        ("evictions", c_uint64),
    ]


VRAM_PRESSURE_UNKNOWN = 0
VRAM_PRESSURE_LOW = 1
VRAM_PRESSURE_MEDIUM = 2
VRAM_PRESSURE_HIGH = 3
VRAM_PRESSURE_CRITICAL = 4


class vram_pressure(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("level", c_int),
        ("known", c_bool),
        ("value", c_double),
        ("own_known", c_bool),
        ("own", c_double),
        ("device_known", c_bool),
        ("device", c_double),
        ("reserved_bytes", c_uint64),
        ("limit_bytes", vram_value),
        ("free_bytes", vram_value),
        ("total_bytes", vram_value),
    ]


VRAM_PRESSURE_WARN = 1
VRAM_PRESSURE_EMERGENCY = 2
VRAM_PRESSURE_LEVEL = 4


class vram_pressure_event(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("edge", c_int),
        ("up", c_bool),
        ("level", c_int),
        ("last", c_int),
        ("value", c_double),
        ("threshold", c_double),
        ("device", c_void_p),
        ("pool", c_void_p),
    ]


vram_pressure_fn = CFUNCTYPE(None, c_void_p, POINTER(vram_pressure_event))


class vram_watch_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("call", vram_pressure_fn),
        ("user", c_void_p),
        ("edges", c_uint32),
        ("warn", c_double),
        ("emergency", c_double),
        ("hysteresis", c_double),
    ]


VRAM_RESPONSE_HALVE = 0
VRAM_RESPONSE_DROP = 1
VRAM_RESPONSE_EMERGENCY = 2
VRAM_RESPONSE_DECAY = 3
VRAM_RESPONSE_MAINTAIN = 4


class vram_response_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("off", c_uint32),
        ("emergency", c_double),
        ("hysteresis", c_double),
        ("interval_ns", c_uint64),
        ("decay_ns", c_uint64),
    ]


VRAM_FRAGMENTATION_LOW = 0
VRAM_FRAGMENTATION_MEDIUM = 1
VRAM_FRAGMENTATION_HIGH = 2


class vram_fragmentation(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("level", c_int),
        ("scattered", c_double),
        ("rare", c_double),
        ("free_bytes", c_uint64),
        ("largest_free_bytes", c_uint64),
        ("cached_bytes", c_uint64),
        ("rare_bytes", c_uint64),
        ("types", c_uint32),
        ("rare_types", c_uint32),
    ]


VRAM_HEALTH_UNKNOWN = 0
VRAM_HEALTH_GOOD = 1
VRAM_HEALTH_WARN = 2
VRAM_HEALTH_EMERGENCY = 3
VRAM_HEALTH_LOST = 4


class vram_health_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("warn", c_double),
        ("emergency", c_double),
        ("look_only", c_bool),
    ]


class vram_health_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("verdict", c_int),
        ("pressure", vram_pressure),
        ("after", vram_pressure),
        ("cleaned", c_bool),
        ("released_bytes", c_uint64),
        ("pools", c_uint32),
        ("live_bytes", c_uint64),
        ("cached_bytes", c_uint64),
        ("reserved_bytes", c_uint64),
        ("hit_rate", c_double),
        ("fragmentation", c_double),
        ("text", c_char * 200),
    ]


class vram_monitor_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("interval_ns", c_uint64),
        ("maintain_ns", c_uint64),
    ]


VRAM_READBACK_SNAPSHOT = 0
VRAM_READBACK_HOLD = 1
VRAM_READBACK_STEADY = 2
VRAM_READBACK_NEWEST = 0
VRAM_READBACK_EVERY = 1
VRAM_READBACK_SLOTS_MAX = 16
VRAM_READBACK_SPANS_MAX = 16


class vram_readback_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("slots", c_uint32),
        ("mode", c_int),
        ("policy", c_int),
        ("priority", c_int32),
        ("bytes", c_uint64),
    ]


class vram_frame(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("bytes", c_uint64),
        ("number", c_uint64),
        ("slot", c_uint32),
        ("mode", c_int),
        ("pinned", c_bool),
    ]


class vram_readback_stats(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("started", c_uint64),
        ("arrived", c_uint64),
        ("failed", c_uint64),
        ("dropped", c_uint64),
        ("refused", c_uint64),
        ("held", c_uint64),
        ("bytes", c_uint64),
        ("host_bytes", c_uint64),
        ("pinned_bytes", c_uint64),
        ("device_bytes", c_uint64),
    ]


VRAM_VISIBILITY_AUTO = 0
VRAM_VISIBILITY_DMA = 1
VRAM_VISIBILITY_DEVICE = 2
VRAM_VISIBILITY_SYSTEM = 3
VRAM_PLATFORM_UNKNOWN = 0
VRAM_PLATFORM_LINUX = 1
VRAM_PLATFORM_WINDOWS = 2
VRAM_PLATFORM_MACOS = 3
VRAM_VISIBILITY_REASON_MAX = 160


class vram_scope_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("pool", c_void_p),
        ("parent", c_void_p),
        ("blocks", c_uint64),
        ("bytes", c_uint64),
        ("buffers", c_uint64),
        ("scopes", c_uint64),
    ]


VRAM_SHARE_TOKEN_BYTES = 64
VRAM_SHARE_NAME_MAX = 128
VRAM_SHARE_READERS = 16
VRAM_SHARE_FABRIC_BYTES = 128


class vram_share_token(Structure):
    _fields_ = [
        ("bytes", c_uint8 * 64),
    ]


VRAM_SHARE_READ_ONLY = 1
VRAM_SHARE_USER = 2


class vram_share_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("flags", c_uint32),
        ("user", c_uint32),
        ("dir", c_char_p),
        ("timeout_ns", c_uint64),
    ]


class vram_share_part(Structure):
    _fields_ = [
        ("addr", c_uint64),
        ("bytes", c_uint64),
    ]


class vram_share_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("exported", c_bool),
        ("read_only", c_bool),
        ("alive", c_bool),
        ("parts", c_uint32),
        ("handles", c_uint32),
        ("bytes", c_uint64),
        ("version", c_uint64),
        ("reader_count", c_uint32),
        ("readers", c_uint64 * 16),
    ]


class vram_share_fabric(Structure):
    _fields_ = [
        ("bytes", c_uint8 * 128),
    ]


class vram_share_name(Structure):
    _fields_ = [
        ("name", c_char * 128),
        ("version", c_uint64),
        ("token", vram_share_token),
    ]


VRAM_SIM_ANY = 0
VRAM_SIM_DEVICE_OPEN = 1
VRAM_SIM_DEVICE_CLOSE = 2
VRAM_SIM_MEMORY_INFO = 3
VRAM_SIM_ALLOC = 4
VRAM_SIM_FREE = 5
VRAM_SIM_PINNED_ALLOC = 6
VRAM_SIM_PINNED_FREE = 7
VRAM_SIM_MANAGED_ALLOC = 8
VRAM_SIM_MANAGED_FREE = 9
VRAM_SIM_PREFETCH = 10
VRAM_SIM_RESERVE = 11
VRAM_SIM_UNRESERVE = 12
VRAM_SIM_CREATE = 13
VRAM_SIM_RELEASE = 14
VRAM_SIM_MAP = 15
VRAM_SIM_ACCESS = 16
VRAM_SIM_UNMAP = 17
VRAM_SIM_PEER_ENABLE = 18
VRAM_SIM_PEER_COPY = 19
VRAM_SIM_QUEUE_CREATE = 20
VRAM_SIM_QUEUE_DESTROY = 21
VRAM_SIM_UPLOAD = 22
VRAM_SIM_DOWNLOAD = 23
VRAM_SIM_COPY = 24
VRAM_SIM_FILL = 25
VRAM_SIM_SIGNAL = 26
VRAM_SIM_AFTER = 27
VRAM_SIM_POLL = 28
VRAM_SIM_KERNEL_LOAD = 29
VRAM_SIM_KERNEL_UNLOAD = 30
VRAM_SIM_LAUNCH = 31
VRAM_SIM_PINNED_REGISTER = 32
VRAM_SIM_PINNED_UNREGISTER = 33
VRAM_SIM_EXPORT = 34
VRAM_SIM_IMPORT = 35
VRAM_SIM_CALL_COUNT = 36
VRAM_SIM_SUCCESS = 0
VRAM_SIM_INVALID_VALUE = 1
VRAM_SIM_OUT_OF_MEMORY = 2
VRAM_SIM_NOT_SUPPORTED = 3
VRAM_SIM_NOT_READY = 4
VRAM_SIM_HOST_MEMORY = 5
VRAM_SIM_DEVICE_LOST = 6
VRAM_SIM_DEINITIALIZED = 7
VRAM_SIM_LIE_NONE = 0
VRAM_SIM_LIE_NULL = 1
VRAM_SIM_LIE_MISALIGNED = 2
VRAM_SIM_LIE_OVERLAP = 3


class vram_sim_fault(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("call", c_int),
        ("nth", c_uint64),
        ("for_ever", c_bool),
        ("code", c_int32),
        ("lie", c_int),
    ]


class vram_sim_state(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("calls", c_uint64),
        ("faults", c_uint64),
        ("violations", c_uint64),
        ("live_bytes", c_uint64),
        ("live_handles", c_uint64),
        ("clock_ns", c_uint64),
    ]


class vram_sim_entry(Structure):
    _fields_ = [
        ("number", c_uint64),
        ("clock_ns", c_uint64),
        ("device", c_uint32),
        ("call", c_int),
        ("addr", c_uint64),
        ("bytes", c_uint64),
        ("code", c_int32),
    ]


class vram_peaks(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("requested_bytes", c_uint64),
        ("allocated_bytes", c_uint64),
        ("reserved_bytes", c_uint64),
    ]


VRAM_LIVE_NAME_MAX = 64


class vram_live_block(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("id", c_uint64),
        ("pool", c_void_p),
        ("device", c_void_p),
        ("queue", c_void_p),
        ("addr", c_uint64),
        ("requested_bytes", c_uint64),
        ("held_bytes", c_uint64),
        ("elements", c_uint64),
        ("kind", c_int),
        ("stack", c_uint32),
        ("thread", c_uint64),
        ("created_ns", c_uint64),
        ("age_ns", c_uint64),
        ("tag", c_char_p),
        ("name", c_char * 64),
        ("foreign", c_bool),
    ]


VRAM_LIVE_ANY = 0
VRAM_LIVE_LARGEST = 1
VRAM_LIVE_OLDEST = 2


class vram_live_query(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("pool", c_void_p),
        ("device", c_void_p),
        ("context", c_void_p),
        ("tag", c_char_p),
        ("older_ns", c_uint64),
        ("stack", c_uint32),
        ("most", c_uint32),
        ("order", c_int),
    ]


vram_live_fn = CFUNCTYPE(c_bool, c_void_p, POINTER(vram_live_block))


class vram_live_stats(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("pools", c_uint64),
        ("live_blocks", c_uint64),
        ("live_bytes", c_uint64),
        ("held_bytes", c_uint64),
        ("peak_bytes", c_uint64),
        ("peak_blocks", c_uint64),
        ("peak_ns", vram_value),
        ("allocs", c_uint64),
        ("frees", c_uint64),
        ("resizes", c_uint64),
        ("lost_records", c_uint64),
        ("record_bytes", c_uint64),
        ("metadata_bytes", c_uint64),
        ("foreign_blocks", c_uint64),
        ("foreign_bytes", c_uint64),
    ]


VRAM_LIVE_BY_TAG = 0
VRAM_LIVE_BY_STACK = 1
VRAM_LIVE_BY_QUEUE = 2


class vram_live_group(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("tag", c_char_p),
        ("stack", c_uint32),
        ("queue", c_void_p),
        ("live_blocks", c_uint64),
        ("live_bytes", c_uint64),
        ("peak_blocks", c_uint64),
        ("peak_bytes", c_uint64),
        ("foreign_blocks", c_uint64),
        ("foreign_bytes", c_uint64),
    ]


vram_live_group_fn = CFUNCTYPE(c_bool, c_void_p, POINTER(vram_live_group))


class vram_leak_summary(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("blocks", c_uint64),
        ("bytes", c_uint64),
        ("groups", c_uint64),
        ("suppressed_blocks", c_uint64),
        ("suppressed_bytes", c_uint64),
        ("lost_records", c_uint64),
        ("foreign_blocks", c_uint64),
        ("foreign_bytes", c_uint64),
    ]


VRAM_STREAM_COMPUTE = 0
VRAM_STREAM_MEMORY = 1
VRAM_STREAM_ANALYSIS = 2
VRAM_STREAM_COUNT = 3
VRAM_STREAM_NAME_MAX = 32
VRAM_STREAMS_MAX = 64


class vram_stream_plan(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("priority", c_int32),
    ]


class vram_stream_set_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("count", c_uint32),
        ("streams", c_void_p),
    ]


class vram_stream_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("index", c_uint32),
        ("priority", c_int32),
        ("queue", c_void_p),
        ("turns", c_uint64),
        ("name", c_char * 32),
    ]


class vram_trace_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("path", c_char_p),
        ("ring_bytes", c_uint64),
        ("sample_ns", c_uint64),
    ]


class vram_trace_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("events", c_uint64),
        ("lost_events", c_uint64),
        ("file_bytes", c_uint64),
        ("stopped", c_int),
        ("path", c_char * 256),
    ]


VRAM_TRANSFER_AUTO = 0
VRAM_TRANSFER_SYNC = 1
VRAM_TRANSFER_ASYNC = 2
VRAM_TRANSFER_DIRECT = 3
VRAM_TRANSFER_DMA_POLLING = 4


class vram_transfer_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("strategy", c_int),
        ("poll_ns", c_uint64),
        ("timeout_ns", c_uint64),
    ]


class vram_copy(Structure):
    _fields_ = [
        ("to", c_uint64),
        ("to_host", c_void_p),
        ("from", c_uint64),
        ("from_host", c_void_p),
        ("bytes", c_uint64),
    ]


class vram_copy_2d(Structure):
    _fields_ = [
        ("first", vram_copy),
        ("row_bytes", c_uint64),
        ("rows", c_uint64),
        ("to_pitch", c_uint64),
        ("from_pitch", c_uint64),
    ]


VRAM_TRANSFER_TO_DEVICE = 0
VRAM_TRANSFER_TO_HOST = 1
VRAM_TRANSFER_ON_DEVICE = 2
VRAM_TRANSFER_PEER = 3
VRAM_TRANSFER_FILL = 4
VRAM_TRANSFER_ANY = 5
VRAM_ROUTE_SYNC = 0
VRAM_ROUTE_ASYNC = 1
VRAM_ROUTE_DIRECT = 2
VRAM_ROUTE_DMA_POLLING = 3
VRAM_ROUTE_STAGED = 4
VRAM_ROUTE_REGISTERED = 5
VRAM_ROUTE_BATCH = 6
VRAM_ROUTE_READBACK = 7
VRAM_ROUTE_FEED = 8
VRAM_ROUTE_RING = 9
VRAM_ROUTE_ANY = 10
VRAM_TRANSFER_BUCKETS = 40


class vram_transfer_stats(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("started", c_uint64),
        ("operations", c_uint64),
        ("failures", c_uint64),
        ("bytes", c_uint64),
        ("busy_ns", c_uint64),
        ("waited_ns", c_uint64),
        ("stalls", c_uint64),
        ("stall_ns", c_uint64),
        ("latency_ns", c_uint64),
        ("min_latency_ns", c_uint64),
        ("max_latency_ns", c_uint64),
        ("bytes_per_second", c_double),
        ("overlap", c_double),
        ("histogram", c_uint64 * 40),
    ]


vram_vulkan_lock_fn = CFUNCTYPE(None, c_void_p)


class vram_vulkan_queue(Structure):
    _fields_ = [
        ("queue", c_void_p),
        ("family", c_uint32),
        ("lock", vram_vulkan_lock_fn),
        ("unlock", vram_vulkan_lock_fn),
        ("user", c_void_p),
    ]


class vram_vulkan_adoption(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("get_proc", c_void_p),
        ("instance", c_void_p),
        ("physical_device", c_void_p),
        ("device", c_void_p),
        ("addresses", c_bool),
        ("queues", c_void_p),
        ("queue_count", c_uint32),
    ]


vram_pool_ended_fn = CFUNCTYPE(None, c_void_p)
vram_submit_fn = CFUNCTYPE(c_int, c_void_p, c_void_p)

# Every function: its result, and its parameters.
FUNCTIONS = {
    "vram_version": (c_uint32, []),
    "vram_version_text": (c_char_p, []),
    "vram_status_name": (c_char_p, [c_int]),
    "vram_status_text": (c_char_p, [c_int]),
    "vram_status_is_exhausted": (c_bool, [c_int]),
    "vram_error_get": (POINTER(vram_error), []),
    "vram_error_clear": (None, []),
    "vram_error_set": (vram_status, [POINTER(vram_error)]),
    "vram_size_parse": (vram_status, [c_char_p, POINTER(c_uint64)]),
    "vram_size_format": (c_char_p, [c_uint64, c_char_p]),
    "vram_option_count": (c_size_t, []),
    "vram_option_at": (POINTER(vram_option_info), [c_size_t]),
    "vram_option_set": (vram_status, [c_char_p, c_char_p]),
    "vram_option_get": (vram_status, [c_char_p, c_char_p, c_size_t, POINTER(c_int)]),
    "vram_option_problem": (c_size_t, [c_size_t, c_char_p, c_size_t]),
    "vram_log_set": (None, [vram_log_fn, c_void_p, c_int]),
    "vram_host_allocator_set": (vram_status, [POINTER(vram_host_allocator)]),
    "vram_host_bytes": (c_uint64, []),
    "vram_host_alloc": (c_void_p, [c_size_t, c_size_t]),
    "vram_host_free": (None, [c_void_p]),
    "vram_context_create": (vram_status, [POINTER(vram_context_options), POINTER(c_void_p)]),
    "vram_context_destroy": (vram_status, [c_void_p]),
    "vram_backend_count": (c_uint32, [c_void_p]),
    "vram_backend_info_get": (vram_status, [c_void_p, c_uint32, POINTER(vram_backend_info)]),
    "vram_device_count": (c_uint32, [c_void_p]),
    "vram_device_info_get": (vram_status, [c_void_p, c_uint32, POINTER(vram_device_info)]),
    "vram_device_best": (vram_status, [c_void_p, POINTER(c_uint32)]),
    "vram_device_select": (vram_status, [c_void_p, POINTER(vram_select_options), POINTER(c_uint32)]),
    "vram_device_same": (c_bool, [POINTER(vram_device_info), POINTER(vram_device_info)]),
    "vram_device_open": (vram_status, [c_void_p, c_uint32, POINTER(c_void_p)]),
    "vram_device_close": (vram_status, [c_void_p]),
    "vram_device_describe": (vram_status, [c_void_p, POINTER(vram_device_info)]),
    "vram_device_peer_enable": (vram_status, [c_void_p, c_void_p]),
    "vram_memory_info_get": (vram_status, [c_void_p, POINTER(vram_memory_info)]),
    "vram_device_alloc": (vram_status, [c_void_p, c_uint64, c_int, POINTER(c_uint64)]),
    "vram_device_free": (vram_status, [c_void_p, c_uint64]),
    "vram_device_advise": (vram_status, [c_void_p, c_uint64, c_uint64, c_int, c_int32]),
    "vram_native": (vram_status, [c_uint64, POINTER(vram_native_info)]),
    "vram_queue_create": (vram_status, [c_void_p, POINTER(vram_queue_options), POINTER(c_void_p)]),
    "vram_queue_destroy": (vram_status, [c_void_p]),
    "vram_queue_adopt": (vram_status, [c_void_p, c_void_p, POINTER(c_void_p)]),
    "vram_queue_end": (vram_status, [c_void_p]),
    "vram_capture_begin": (vram_status, [c_void_p, POINTER(c_void_p)]),
    "vram_capture_end": (vram_status, [c_void_p]),
    "vram_queue_native": (vram_status, [c_void_p, POINTER(c_void_p)]),
    "vram_queue_poll": (vram_status, [c_void_p]),
    "vram_queue_wait": (vram_status, [c_void_p, c_uint64]),
    "vram_queue_mark": (vram_status, [c_void_p, POINTER(vram_point)]),
    "vram_point_poll": (vram_status, [vram_point]),
    "vram_point_wait": (vram_status, [vram_point, c_uint64]),
    "vram_queue_after": (vram_status, [c_void_p, vram_point]),
    "vram_queue_upload": (vram_status, [c_void_p, c_uint64, c_void_p, c_uint64]),
    "vram_queue_download": (vram_status, [c_void_p, c_void_p, c_uint64, c_uint64]),
    "vram_queue_copy": (vram_status, [c_void_p, c_uint64, c_uint64, c_uint64]),
    "vram_queue_fill": (vram_status, [c_void_p, c_uint64, c_uint32, c_uint32, c_uint64]),
    "vram_queue_prefetch": (vram_status, [c_void_p, c_uint64, c_uint64, c_int32]),
    "vram_kernel_create": (vram_status, [c_void_p, POINTER(vram_kernel_source), POINTER(c_void_p)]),
    "vram_kernel_destroy": (vram_status, [c_void_p]),
    "vram_queue_launch": (vram_status, [c_void_p, c_void_p, POINTER(vram_launch)]),
    "vram_async_poll": (vram_status, [POINTER(vram_async)]),
    "vram_async_is_ready": (c_bool, [POINTER(vram_async)]),
    "vram_async_state_get": (vram_status, [POINTER(vram_async), POINTER(c_int)]),
    "vram_async_wait": (vram_status, [POINTER(vram_async), c_uint64]),
    "vram_async_wait_any": (vram_status, [POINTER(vram_async), c_size_t, c_uint64, POINTER(c_size_t)]),
    "vram_async_fd_open": (vram_status, [POINTER(vram_async), c_size_t, POINTER(c_int)]),
    "vram_async_result_get": (vram_status, [POINTER(vram_async), POINTER(c_uint64)]),
    "vram_async_error_get": (vram_status, [POINTER(vram_async), POINTER(vram_error)]),
    "vram_async_then": (vram_status, [POINTER(vram_async), vram_async_fn, c_void_p]),
    "vram_async_poll_all": (vram_status, [c_void_p, POINTER(c_uint64)]),
    "vram_async_of_point": (vram_status, [vram_point, c_char_p, POINTER(vram_async)]),
    "vram_async_end": (vram_status, [POINTER(vram_async)]),
    "vram_provider_get": (vram_status, [c_void_p, c_int, POINTER(vram_provider)]),
    "vram_pool_create": (vram_status, [c_void_p, POINTER(vram_pool_options), POINTER(c_void_p)]),
    "vram_pool_destroy": (vram_status, [c_void_p]),
    "vram_alloc": (vram_status, [c_void_p, c_uint64, c_void_p, POINTER(c_uint64)]),
    "vram_free": (vram_status, [c_uint64, c_void_p]),
    "vram_alloc_with": (vram_status, [c_void_p, c_uint64, c_void_p, POINTER(vram_alloc_options), POINTER(c_uint64)]),
    "vram_resize": (vram_status, [c_uint64, c_uint64, c_void_p]),
    "vram_use": (vram_status, [c_uint64, c_void_p]),
    "vram_pin": (vram_status, [c_uint64]),
    "vram_unpin": (vram_status, [c_uint64]),
    "vram_block_info_get": (vram_status, [c_uint64, POINTER(vram_block_info)]),
    "vram_pool_warm": (vram_status, [c_void_p, c_uint64, c_uint32, c_void_p]),
    "vram_pool_trim": (vram_status, [c_void_p, POINTER(vram_trim_options), POINTER(c_uint64)]),
    "vram_device_trim": (vram_status, [c_void_p, POINTER(vram_trim_options), POINTER(c_uint64)]),
    "vram_context_trim": (vram_status, [c_void_p, POINTER(vram_trim_options), POINTER(c_uint64)]),
    "vram_pool_sleep": (vram_status, [c_void_p, POINTER(vram_sleep_options)]),
    "vram_pool_wake": (vram_status, [c_void_p, c_char_p]),
    "vram_pool_seal": (vram_status, [c_void_p, c_char_p]),
    "vram_pool_unseal": (vram_status, [c_void_p, c_char_p]),
    "vram_pool_rebuild": (vram_status, [c_void_p, POINTER(vram_rebuild_options), POINTER(vram_rebuild_result)]),
    "vram_pool_stats_get": (vram_status, [c_void_p, POINTER(vram_pool_stats)]),
    "vram_buffer_kind_name": (c_char_p, [c_int]),
    "vram_precision_bytes": (c_uint32, [c_int]),
    "vram_precision_name": (c_char_p, [c_int]),
    "vram_precision_size": (vram_status, [c_int, c_uint64, POINTER(c_uint64)]),
    "vram_buffer_create": (vram_status, [c_void_p, c_uint64, c_void_p, POINTER(vram_buffer_options), POINTER(c_void_p)]),
    "vram_buffer_create_elements": (vram_status, [c_void_p, c_uint64, c_int, c_void_p, POINTER(vram_buffer_options),
        POINTER(c_void_p)]),
    "vram_buffer_destroy": (vram_status, [c_void_p]),
    "vram_buffer_use": (vram_status, [c_void_p, c_void_p]),
    "vram_buffer_info_get": (vram_status, [c_void_p, POINTER(vram_buffer_info)]),
    "vram_buffer_addr": (vram_status, [c_void_p, POINTER(c_uint64)]),
    "vram_buffer_host": (vram_status, [c_void_p, POINTER(c_void_p)]),
    "vram_buffer_span": (vram_status, [c_void_p, c_uint64, c_uint64, POINTER(vram_span)]),
    "vram_span_addr": (vram_status, [vram_span, POINTER(c_uint64)]),
    "vram_span_upload": (vram_status, [c_void_p, vram_span, c_void_p]),
    "vram_span_download": (vram_status, [c_void_p, c_void_p, vram_span]),
    "vram_buffer_map": (vram_status, [c_void_p, c_uint64, c_uint64, c_uint32, c_void_p, POINTER(c_void_p)]),
    "vram_buffer_unmap": (vram_status, [c_void_p]),
    "vram_buffer_promote": (vram_status, [c_void_p, c_void_p]),
    "vram_buffer_demote": (vram_status, [c_void_p, c_void_p]),
    "vram_pool_promote": (vram_status, [c_void_p, c_void_p, POINTER(c_uint64)]),
    "vram_pool_demote": (vram_status, [c_void_p, c_uint64, c_void_p, POINTER(c_uint64)]),
    "vram_buffer_prefetch": (vram_status, [c_void_p, c_uint64, c_uint64, c_int32, c_void_p]),
    "vram_buffer_advise": (vram_status, [c_void_p, c_int, c_int32]),
    "vram_buffer_wrap": (vram_status, [c_void_p, POINTER(vram_wrap), c_void_p, POINTER(vram_buffer_options),
        POINTER(c_void_p)]),
    "vram_batch_create": (vram_status, [c_void_p, c_void_p, POINTER(vram_batch_options), POINTER(c_void_p)]),
    "vram_batch_destroy": (vram_status, [c_void_p]),
    "vram_batch_add": (vram_status, [c_void_p, POINTER(vram_batch_item), c_uint32, POINTER(c_uint32)]),
    "vram_batch_give": (vram_status, [c_void_p, c_void_p, POINTER(c_uint32)]),
    "vram_batch_get": (vram_status, [c_void_p, c_uint32, POINTER(c_void_p)]),
    "vram_batch_info_get": (vram_status, [c_void_p, POINTER(vram_batch_info)]),
    "vram_feed_create": (vram_status, [c_void_p, POINTER(vram_feed_options), POINTER(c_void_p)]),
    "vram_feed_destroy": (vram_status, [c_void_p]),
    "vram_feed_begin": (vram_status, [c_void_p, c_uint64, c_uint64, POINTER(vram_feed_block)]),
    "vram_feed_submit": (vram_status, [c_void_p, c_void_p, c_uint64, c_uint64, c_uint64, POINTER(vram_async)]),
    "vram_feed_release": (vram_status, [c_void_p, c_uint64]),
    "vram_feed_stats_get": (vram_status, [c_void_p, POINTER(vram_feed_stats)]),
    "vram_foreign_track": (vram_status, [c_void_p, c_uint64, POINTER(vram_foreign_options), POINTER(c_uint64)]),
    "vram_foreign_untrack": (vram_status, [c_void_p, c_uint64]),
    "vram_foreign_info_get": (vram_status, [c_void_p, c_uint64, POINTER(vram_foreign_info)]),
    "vram_foreign_info_after": (vram_status, [c_void_p, c_uint64, POINTER(vram_foreign_info)]),
    "vram_foreign_totals_get": (vram_status, [c_void_p, POINTER(vram_foreign_totals)]),
    "vram_growth_next": (vram_status, [POINTER(vram_growth), c_uint64, c_uint64, POINTER(c_uint64)]),
    "vram_buffer_growth_set": (vram_status, [c_void_p, POINTER(vram_growth)]),
    "vram_buffer_reserve": (vram_status, [c_void_p, c_uint64, c_void_p]),
    "vram_buffer_resize": (vram_status, [c_void_p, c_uint64, c_void_p]),
    "vram_buffer_resize_elements": (vram_status, [c_void_p, c_uint64, c_void_p]),
    "vram_buffer_fit": (vram_status, [c_void_p, c_void_p]),
    "vram_buffer_growth_get": (vram_status, [c_void_p, POINTER(vram_growth_info)]),
    "vram_lease_why_name": (c_char_p, [c_int]),
    "vram_lease_why_text": (c_char_p, [c_int]),
    "vram_lease_open": (vram_status, [c_void_p, POINTER(vram_lease_options), POINTER(c_void_p)]),
    "vram_lease_close": (vram_status, [c_void_p]),
    "vram_lease_pool_add": (vram_status, [c_void_p, c_void_p, POINTER(vram_sleep_options)]),
    "vram_lease_point": (vram_status, [c_void_p, POINTER(c_uint64)]),
    "vram_lease_info_get": (vram_status, [c_void_p, POINTER(vram_lease_info)]),
    "vram_lease_happening_name": (c_char_p, [c_int]),
    "vram_lease_list": (vram_status, [c_char_p, POINTER(vram_lease_entry), POINTER(c_uint32), POINTER(vram_lease_record),
        POINTER(c_uint32)]),
    "vram_broker_run": (vram_status, [POINTER(vram_broker_options)]),
    "vram_preset_get": (vram_status, [c_int, POINTER(vram_limits)]),
    "vram_pool_limits_set": (vram_status, [c_void_p, POINTER(vram_limits)]),
    "vram_pool_limits_get": (vram_status, [c_void_p, POINTER(vram_limits)]),
    "vram_device_limits_set": (vram_status, [c_void_p, POINTER(vram_limits)]),
    "vram_device_limits_get": (vram_status, [c_void_p, POINTER(vram_limits)]),
    "vram_tag_quota_set": (vram_status, [c_void_p, c_char_p, c_uint64, c_uint64]),
    "vram_tag_handler_set": (vram_status, [c_void_p, vram_tag_fn, c_void_p]),
    "vram_tag_info_get": (vram_status, [c_void_p, c_char_p, POINTER(vram_tag_info)]),
    "vram_tag_count": (c_uint32, [c_void_p]),
    "vram_tag_info_at": (vram_status, [c_void_p, c_uint32, POINTER(vram_tag_info)]),
    "vram_metrics_write": (vram_status, [c_void_p, vram_write_fn, c_void_p]),
    "vram_metrics_write_as": (vram_status, [c_void_p, c_int, vram_write_fn, c_void_p]),
    "vram_metrics_pages_write": (vram_status, [POINTER(c_void_p), c_size_t, c_int, vram_write_fn, c_void_p]),
    "vram_named_create": (vram_status, [c_void_p, c_void_p, POINTER(vram_named_options), POINTER(c_void_p)]),
    "vram_named_destroy": (vram_status, [c_void_p]),
    "vram_named_config_set": (vram_status, [c_void_p, c_char_p, POINTER(vram_named_config)]),
    "vram_named_add": (vram_status, [c_void_p, c_char_p, c_uint64, POINTER(vram_named_config), POINTER(c_void_p)]),
    "vram_named_get": (vram_status, [c_void_p, c_char_p, POINTER(vram_named_config), POINTER(c_void_p)]),
    "vram_named_get_or_create": (vram_status, [c_void_p, c_char_p, c_uint64, POINTER(vram_named_config),
        POINTER(c_void_p)]),
    "vram_named_ensure": (vram_status, [c_void_p, c_char_p, c_uint64, POINTER(c_void_p)]),
    "vram_named_remove": (vram_status, [c_void_p, c_char_p]),
    "vram_named_cleanup": (vram_status, [c_void_p, c_uint64, POINTER(c_uint64)]),
    "vram_named_info_get": (vram_status, [c_void_p, c_char_p, POINTER(vram_named_info)]),
    "vram_named_info_at": (vram_status, [c_void_p, c_uint32, POINTER(vram_named_info)]),
    "vram_named_stats_get": (vram_status, [c_void_p, POINTER(vram_named_stats)]),
    "vram_named_write": (vram_status, [c_void_p, c_int, vram_write_fn, c_void_p]),
    "vram_ladder_step_name": (c_char_p, [c_int]),
    "vram_pool_ladder_set": (vram_status, [c_void_p, POINTER(vram_ladder_options)]),
    "vram_oom_callback_add": (vram_status, [c_void_p, vram_oom_fn, c_void_p, POINTER(c_uint64)]),
    "vram_oom_callback_remove": (vram_status, [c_void_p, c_uint64]),
    "vram_oom_cause_name": (c_char_p, [c_int]),
    "vram_oom_report_get": (vram_status, [c_void_p, POINTER(vram_oom_report)]),
    "vram_oom_report_write": (vram_status, [POINTER(vram_oom_report), c_int, vram_write_fn, c_void_p]),
    "vram_error_handler_set": (vram_status, [c_void_p, vram_error_fn, c_void_p]),
    "vram_pinned_begin": (vram_status, [c_void_p, c_void_p, c_uint64]),
    "vram_pinned_end": (vram_status, [c_void_p, c_void_p, c_uint64]),
    "vram_pinned_forget": (vram_status, [c_void_p, c_void_p, c_uint64]),
    "vram_pinned_info_get": (vram_status, [c_void_p, POINTER(vram_pinned_info)]),
    "vram_pressure_level_of": (c_int, [c_double]),
    "vram_pressure_level_name": (c_char_p, [c_int]),
    "vram_pool_pressure_get": (vram_status, [c_void_p, POINTER(vram_pressure)]),
    "vram_device_pressure_get": (vram_status, [c_void_p, POINTER(vram_pressure)]),
    "vram_pool_watch_begin": (vram_status, [c_void_p, POINTER(vram_watch_options), POINTER(c_void_p)]),
    "vram_device_watch_begin": (vram_status, [c_void_p, POINTER(vram_watch_options), POINTER(c_void_p)]),
    "vram_watch_end": (vram_status, [c_void_p]),
    "vram_pool_response_set": (vram_status, [c_void_p, POINTER(vram_response_options)]),
    "vram_pool_fragmentation_get": (vram_status, [c_void_p, POINTER(vram_fragmentation)]),
    "vram_health": (vram_status, [c_void_p, POINTER(vram_health_options), POINTER(vram_health_info)]),
    "vram_monitor_begin": (vram_status, [c_void_p, POINTER(vram_monitor_options), POINTER(c_void_p)]),
    "vram_monitor_end": (vram_status, [c_void_p]),
    "vram_readback_create": (vram_status, [c_void_p, POINTER(vram_readback_options), POINTER(c_void_p)]),
    "vram_readback_destroy": (vram_status, [c_void_p]),
    "vram_readback_start": (vram_status, [c_void_p, c_void_p, c_uint64, c_uint64, POINTER(c_uint64)]),
    "vram_readback_start_spans": (vram_status, [c_void_p, c_void_p, POINTER(vram_span), c_uint32, POINTER(c_uint64)]),
    "vram_readback_poll": (vram_status, [c_void_p, c_uint64]),
    "vram_readback_wait": (vram_status, [c_void_p, c_uint64, c_uint64]),
    "vram_readback_point": (vram_status, [c_void_p, c_uint64, POINTER(vram_point)]),
    "vram_readback_async": (vram_status, [c_void_p, c_uint64, POINTER(vram_async)]),
    "vram_readback_latest": (vram_status, [c_void_p, POINTER(vram_frame)]),
    "vram_readback_next": (vram_status, [c_void_p, c_uint64, POINTER(vram_frame)]),
    "vram_readback_release": (vram_status, [c_void_p, c_uint64]),
    "vram_readback_stats_get": (vram_status, [c_void_p, POINTER(vram_readback_stats)]),
    "vram_visibility_name": (c_char_p, [c_int]),
    "vram_platform_here": (c_int, []),
    "vram_visibility_of_platform": (vram_status, [c_int, c_char_p, POINTER(c_int)]),
    "vram_visibility_detect": (vram_status, [c_void_p, c_char_p, POINTER(c_int), c_char_p]),
    "vram_scope_begin": (vram_status, [c_void_p, c_void_p, POINTER(c_void_p)]),
    "vram_scope_end": (vram_status, [c_void_p]),
    "vram_scope_alloc": (vram_status, [c_void_p, c_uint64, c_void_p, POINTER(c_uint64)]),
    "vram_scope_alloc_with": (vram_status, [c_void_p, c_uint64, c_void_p, POINTER(vram_alloc_options), POINTER(c_uint64)]),
    "vram_scope_free": (vram_status, [c_void_p, c_uint64, c_void_p]),
    "vram_scope_take": (vram_status, [c_void_p, c_uint64]),
    "vram_scope_give": (vram_status, [c_void_p, c_uint64, c_void_p]),
    "vram_scope_buffer_create": (vram_status, [c_void_p, c_uint64, c_void_p, POINTER(vram_buffer_options),
        POINTER(c_void_p)]),
    "vram_scope_buffer_take": (vram_status, [c_void_p, c_void_p]),
    "vram_scope_buffer_give": (vram_status, [c_void_p, c_void_p]),
    "vram_scope_info_get": (vram_status, [c_void_p, POINTER(vram_scope_info)]),
    "vram_share_export": (vram_status, [POINTER(c_uint64), c_uint32, POINTER(vram_share_options), POINTER(c_void_p)]),
    "vram_share_token_get": (vram_status, [c_void_p, POINTER(vram_share_token)]),
    "vram_share_open": (vram_status, [c_void_p, POINTER(vram_share_token), POINTER(vram_share_options),
        POINTER(c_void_p)]),
    "vram_share_close": (vram_status, [c_void_p]),
    "vram_share_parts_get": (vram_status, [c_void_p, c_uint32, c_uint32, POINTER(vram_share_part)]),
    "vram_share_info_get": (vram_status, [c_void_p, POINTER(vram_share_info)]),
    "vram_share_fabric_get": (vram_status, [c_void_p, POINTER(vram_share_fabric)]),
    "vram_share_fabric_open": (vram_status, [c_void_p, POINTER(vram_share_fabric), POINTER(vram_share_options),
        POINTER(c_void_p)]),
    "vram_share_mark": (vram_status, [c_void_p, c_void_p, POINTER(c_uint64)]),
    "vram_share_wait": (vram_status, [c_void_p, c_uint64, c_uint64]),
    "vram_share_publish": (vram_status, [c_void_p, c_char_p, POINTER(c_uint64)]),
    "vram_share_open_name": (vram_status, [c_void_p, c_char_p, POINTER(vram_share_options), POINTER(c_void_p)]),
    "vram_share_list": (vram_status, [POINTER(vram_share_options), POINTER(vram_share_name), POINTER(c_uint32)]),
    "vram_device_shared": (vram_status, [c_char_p, c_uint32, POINTER(c_void_p)]),
    "vram_pool_shared": (vram_status, [c_void_p, POINTER(c_void_p)]),
    "vram_queue_shared": (vram_status, [c_void_p, c_void_p, POINTER(c_void_p)]),
    "vram_sim_call_name": (c_char_p, [c_int]),
    "vram_sim_fault_set": (vram_status, [c_void_p, POINTER(vram_sim_fault)]),
    "vram_sim_state_get": (vram_status, [c_void_p, POINTER(vram_sim_state)]),
    "vram_sim_clock_advance": (vram_status, [c_void_p, c_uint64]),
    "vram_sim_others_set": (vram_status, [c_void_p, c_uint32, c_uint64]),
    "vram_sim_journal_get": (vram_status, [c_void_p, c_uint64, POINTER(vram_sim_entry)]),
    "vram_sim_violation": (vram_status, [c_void_p, c_uint64, c_char_p, c_size_t]),
    "vram_device_stats_get": (vram_status, [c_void_p, POINTER(vram_pool_stats)]),
    "vram_context_stats_get": (vram_status, [c_void_p, POINTER(vram_pool_stats)]),
    "vram_pool_stats_write": (vram_status, [c_void_p, c_int, vram_write_fn, c_void_p]),
    "vram_device_stats_write": (vram_status, [c_void_p, c_int, vram_write_fn, c_void_p]),
    "vram_context_stats_write": (vram_status, [c_void_p, c_int, vram_write_fn, c_void_p]),
    "vram_tag_stats_get": (vram_status, [c_void_p, c_char_p, POINTER(vram_pool_stats)]),
    "vram_pool_peaks_begin": (vram_status, [c_void_p]),
    "vram_pool_peaks_end": (vram_status, [c_void_p, POINTER(vram_peaks)]),
    "vram_device_peaks_begin": (vram_status, [c_void_p]),
    "vram_device_peaks_end": (vram_status, [c_void_p, POINTER(vram_peaks)]),
    "vram_context_peaks_begin": (vram_status, [c_void_p]),
    "vram_context_peaks_end": (vram_status, [c_void_p, POINTER(vram_peaks)]),
    "vram_pool_peaks_reset": (vram_status, [c_void_p]),
    "vram_device_peaks_reset": (vram_status, [c_void_p]),
    "vram_context_peaks_reset": (vram_status, [c_void_p]),
    "vram_live_visit": (vram_status, [POINTER(vram_live_query), vram_live_fn, c_void_p]),
    "vram_live_get": (vram_status, [c_uint64, POINTER(vram_live_block)]),
    "vram_live_stats_get": (vram_status, [POINTER(vram_live_query), POINTER(vram_live_stats)]),
    "vram_live_groups": (vram_status, [POINTER(vram_live_query), c_int, vram_live_group_fn, c_void_p]),
    "vram_stack_text": (c_size_t, [c_uint32, c_char_p, c_size_t]),
    "vram_leaks_write": (vram_status, [POINTER(vram_live_query), c_int, vram_write_fn, c_void_p,
        POINTER(vram_leak_summary)]),
    "vram_stream_set_create": (vram_status, [c_void_p, POINTER(vram_stream_set_options), POINTER(c_void_p)]),
    "vram_stream_set_destroy": (vram_status, [c_void_p]),
    "vram_stream_set_get": (vram_status, [c_void_p, c_uint32, POINTER(c_void_p)]),
    "vram_stream_set_find": (vram_status, [c_void_p, c_char_p, POINTER(c_void_p)]),
    "vram_stream_set_next": (vram_status, [c_void_p, POINTER(c_void_p)]),
    "vram_stream_set_transfer": (vram_status, [c_void_p, POINTER(c_void_p)]),
    "vram_stream_info_get": (vram_status, [c_void_p, c_uint32, POINTER(vram_stream_info)]),
    "vram_stream_set_poll": (vram_status, [c_void_p]),
    "vram_stream_set_wait": (vram_status, [c_void_p, c_uint64]),
    "vram_stream_set_mark": (vram_status, [c_void_p, POINTER(vram_point)]),
    "vram_stream_set_sync": (vram_status, [c_void_p, POINTER(vram_async)]),
    "vram_stream_set_order": (vram_status, [c_void_p, c_uint32, c_uint32]),
    "vram_stream_set_after": (vram_status, [c_void_p, vram_point]),
    "vram_stream_set_barrier": (vram_status, [c_void_p]),
    "vram_trace_begin": (vram_status, [c_void_p, POINTER(vram_trace_options), POINTER(c_void_p)]),
    "vram_trace_end": (vram_status, [c_void_p]),
    "vram_trace_mark": (vram_status, [c_void_p, c_char_p]),
    "vram_trace_info_get": (vram_status, [c_void_p, POINTER(vram_trace_info)]),
    "vram_transfer_strategy_name": (c_char_p, [c_int]),
    "vram_transfer_upload": (vram_status, [c_void_p, c_uint64, c_void_p, c_uint64, POINTER(vram_transfer_options),
        POINTER(vram_async)]),
    "vram_transfer_download": (vram_status, [c_void_p, c_void_p, c_uint64, c_uint64, POINTER(vram_transfer_options),
        POINTER(vram_async)]),
    "vram_transfer_copy": (vram_status, [c_void_p, c_uint64, c_uint64, c_uint64, POINTER(vram_transfer_options),
        POINTER(vram_async)]),
    "vram_transfer_fill": (vram_status, [c_void_p, c_uint64, c_uint32, c_uint32, c_uint64, POINTER(vram_transfer_options),
        POINTER(vram_async)]),
    "vram_transfer_batch": (vram_status, [c_void_p, POINTER(vram_copy), c_size_t, POINTER(vram_transfer_options),
        POINTER(vram_async)]),
    "vram_transfer_2d": (vram_status, [c_void_p, POINTER(vram_copy_2d), POINTER(vram_transfer_options),
        POINTER(vram_async)]),
    "vram_transfer_direction_name": (c_char_p, [c_int]),
    "vram_transfer_route_name": (c_char_p, [c_int]),
    "vram_transfer_stats_get": (vram_status, [c_void_p, c_int, c_int, POINTER(vram_transfer_stats)]),
    "vram_transfer_stats_percentile": (c_uint64, [POINTER(vram_transfer_stats), c_uint32]),
    "vram_transfer_stats_write": (vram_status, [c_void_p, c_int, vram_write_fn, c_void_p]),
    "vram_range_create": (vram_status, [c_void_p, c_uint64, POINTER(c_uint64)]),
    "vram_range_destroy": (vram_status, [c_void_p, c_uint64]),
    "vram_physical_create": (vram_status, [c_void_p, c_uint64, POINTER(c_void_p)]),
    "vram_physical_destroy": (vram_status, [c_void_p]),
    "vram_physical_bytes": (c_uint64, [c_void_p]),
    "vram_range_map": (vram_status, [c_void_p, c_uint64, POINTER(c_void_p), c_uint32]),
    "vram_range_unmap": (vram_status, [c_void_p, c_uint64, c_uint64]),
    "vram_pool_attach": (vram_status, [c_void_p, vram_pool_ended_fn, c_void_p, POINTER(c_void_p), POINTER(c_void_p)]),
    "vram_attachment_wait": (vram_status, [c_void_p, c_void_p, c_uint64]),
    "vram_attachment_end": (vram_status, [c_void_p]),
    "vram_queue_submit": (vram_status, [c_void_p, vram_submit_fn, c_void_p]),
    "vram_async_begin": (vram_status, [c_void_p, c_char_p, c_uint64, POINTER(vram_async), POINTER(c_void_p)]),
    "vram_async_finish": (vram_status, [c_void_p, c_int]),
    "vram_memory_check": (vram_status, [c_void_p, c_uint64, c_uint64]),
    "vram_memory_handle_get": (vram_status, [c_uint64, POINTER(c_uint64), POINTER(c_uint64)]),
    "vram_memory_is_known": (c_bool, [c_void_p]),
    "vram_host_free_later": (vram_status, [c_void_p, c_void_p]),
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * option.h: the options table, one row per option. The rows below are the only place where an
 * option is declared; VR_OPTION_* , the environment names, help texts and `vram info --options`
 * all come from them.
 */
#ifndef VR_OPTION_H
#define VR_OPTION_H

#include "base/atomic.h"
#include "vram/base.h"

/* X(ID, "name", TYPE, "default", minimum, maximum, is_limit, "choices", "help")
   A text with choices is empty or one of them; a bool may also be one of its choices. */
#define VR_OPTION_MAP(X)                                                                           \
    X(BACKENDS, "backends", TEXT, "", 0, 0, false, "",                                             \
      "backends to start, by name and comma; empty: all")                                          \
    X(BACKEND_ORDER, "backend_order", TEXT, "", 0, 0, false, "",                                   \
      "backends that vram_device_select tries, in order, \"cuda:1,vulkan,host\"; empty: GPUs "     \
      "first")                                                                                     \
    X(SIM, "sim", TEXT, "", 0, 0, false, "",                                                       \
      "simulated devices, \"devices=2,profile=h200\"; see vram/sim.h")                             \
    X(CUDA_LIBRARY, "cuda_library", TEXT, "", 0, 0, false, "",                                     \
      "path of the CUDA driver library; empty: libcuda.so.1")                                      \
    X(VULKAN_LIBRARY, "vulkan_library", TEXT, "", 0, 0, false, "",                                 \
      "path of the Vulkan loader library; empty: libvulkan.so.1")                                  \
    X(NVML_LIBRARY, "nvml_library", TEXT, "", 0, 0, false, "",                                     \
      "path of NVIDIA's management library; empty: libnvidia-ml.so.1")                             \
    X(HIP_LIBRARY, "hip_library", TEXT, "", 0, 0, false, "",                                       \
      "path of the HIP runtime library; empty: libamdhip64.so.7, .6 or .5")                        \
    X(OPENCL_LIBRARY, "opencl_library", TEXT, "", 0, 0, false, "",                                 \
      "path of the OpenCL loader; empty: libOpenCL.so.1")                                          \
    X(OPENCL_MEMORY, "opencl_memory", TEXT, "", 0, 0, false, "auto, usm, svm, buffer",             \
      "how OpenCL memory is allocated: usm, svm or buffer; empty or auto: the first available")    \
    X(METAL_LIBRARY, "metal_library", TEXT, "", 0, 0, false, "",                                   \
      "path of the Metal library; empty: the framework of macOS")                                  \
    X(BLAS_LIBRARY, "blas_library", TEXT, "", 0, 0, false, "",                                     \
      "path of a CPU library with cblas_sgemm; none: our own; empty: OpenBLAS, BLIS or our own")   \
    X(CUBLAS_LIBRARY, "cublas_library", TEXT, "", 0, 0, false, "",                                 \
      "path of cuBLAS; none: our own kernel; empty: libcublas.so.13, .12 or .11, or our own")      \
    X(HIPBLAS_LIBRARY, "hipblas_library", TEXT, "", 0, 0, false, "",                               \
      "path of hipBLAS; none: no products on AMD GPUs; empty: libhipblas.so.3, .2 or .1")          \
    X(CLBLAST_LIBRARY, "clblast_library", TEXT, "", 0, 0, false, "",                               \
      "path of CLBlast; none: our own kernel; empty: libclblast.so.1 on GPUs, or our own")         \
    X(CALIBRATION_CACHE, "calibration_cache", TEXT, "", 0, 0, false, "",                           \
      "folder that measured rates are kept in; off: nowhere; empty: vram in the user's cache "     \
      "folder")                                                                                    \
    X(DEVICE_LIMIT, "device_limit", SIZE, "0", 0, UINT64_MAX, true, "",                            \
      "most bytes to take from any one device; 0: no limit")                                       \
    X(PRESET, "preset", TEXT, "", 0, 0, false, "default, inference, training, constrained",        \
      "limits that pools begin with: default, inference, training or constrained")                 \
    X(MEMORY_FRACTION, "memory_fraction", FRACTION, "0", 100000, 1000000, true, "",                \
      "most of a device's memory that pools fill it to, 0.1 to 1; 0: as the preset says")          \
    X(MIN_FREE, "min_free", SIZE, "0", 0, UINT64_MAX, false, "",                                   \
      "memory that pools leave free on a device, at least; 0: as the preset says")                 \
    X(POOL_LIMIT, "pool_limit", SIZE, "0", 0, UINT64_MAX, true, "",                                \
      "most bytes that any one pool holds; 0: no limit")                                           \
    X(CACHED_LIMIT, "cached_limit", SIZE, "0", 0, UINT64_MAX, true, "",                            \
      "most bytes that a pool keeps free for later; 0: no limit")                                  \
    X(CACHED_BLOCKS, "cached_blocks", INTEGER, "0", 0, 16, true, "",                               \
      "most blocks of one size that a pool caches; 0: as the preset says")                         \
    X(QUOTAS, "quotas", TEXT, "", 0, 0, true, "",                                                  \
      "most that tags may take, as \"tenant=4G:6G,tenant/model=2G\": soft:hard, or hard")          \
    X(MEMORY_SAMPLE, "memory_sample", DURATION, "100ms", 0, UINT64_C(3600000000000), false, "",    \
      "shortest time between two queries of a device's free memory")                               \
    X(HOST_MEMORY, "host_memory", SIZE, "0", 0, UINT64_MAX, true, "",                              \
      "memory of the host device; 0: what the machine has")                                        \
    X(SHARE_DIR, "share_dir", TEXT, "", 0, 0, false, "",                                           \
      "directory of sockets and names of shared memory; empty: XDG_RUNTIME_DIR, or /tmp/vram-UID") \
    X(BROKER, "broker", TEXT, "", 0, 0, false, "",                                                 \
      "command that is started as the broker of leases; thread: none is; empty: vram, by PATH")    \
    X(SYSTEM_ROOT, "system_root", TEXT, "", 0, 0, false, "",                                       \
      "folder in which proc/meminfo and sys/fs/cgroup are read; empty: /")                         \
    X(POOL, "pool", BOOL, "on", 0, 1, false, "",                                                   \
      "off: each allocation of a pool is a driver allocation, which its free returns")             \
    X(RANGE_BYTES, "range_bytes", SIZE, "0", 0, UINT64_MAX, false, "",                             \
      "addresses a pool reserves at first, for small and for large blocks each; 0: 2 and 64 "      \
      "times "                                                                                     \
      "the memory")                                                                                \
    X(EXPORTABLE, "exportable", BOOL, "off", 0, 1, false, "",                                      \
      "pools take memory that other processes may open, where the device has such memory")         \
    X(RDMA, "rdma", TEXT, "", 0, 0, false, "auto, on, off",                                        \
      "network cards may register device memory, and pools map none of it elsewhere: auto: where " \
      "cards are and libibverbs is loaded; off: memory that cannot be registered")                 \
    X(POWER_OF_TWO, "power_of_two", BOOL, "off", 0, 1, false, "",                                  \
      "pools round every request up to a power of two, for programs built on such buckets")        \
    X(ZERO_ALLOC, "zero_alloc", BOOL, "off", 0, 1, false, "",                                      \
      "pools hand out memory filled with zeros")                                                   \
    X(ZERO_FREE, "zero_free", BOOL, "off", 0, 1, false, "",                                        \
      "pools fill freed memory with zeros, in the order of its queue")                             \
    X(POISON, "poison", BOOL, "off", 0, 1, false, "stream",                                        \
      "pools fill new and freed memory with patterns and check for late writes; stream: they "     \
      "fill new memory in the order of its queue, and do nothing else")                            \
    X(RED_ZONES, "red_zones", BOOL, "off", 0, 1, false, "",                                        \
      "pools put zones around blocks and check them when a block is freed")                        \
    X(QUARANTINE, "quarantine", SIZE, "16M", 0, UINT64_MAX, false, "",                             \
      "freed memory that a pool with poison keeps apart, to catch late writes")                    \
    X(TRACKING, "tracking", TEXT, "", 0, 0, false, "auto, on, off",                                \
      "pools keep a record of every live block: on or off; empty or auto: in debug builds")        \
    X(TRACK_STACKS, "track_stacks", INTEGER, "0", 0, 1000000, false, "",                           \
      "tracked pools take the call stack of every n-th allocation; 0: of none")                    \
    X(NVTX, "nvtx", BOOL, "on", 0, 1, false, "",                                                   \
      "off: tools such as compute-sanitizer are not told which memory of a pool is in blocks")     \
    X(LIVE, "live", BOOL, "on", 0, 1, false, "",                                                   \
      "off: the process writes no live page, for vram top and others to read")                     \
    X(LEAKS, "leaks", TEXT, "", 0, 0, false, "off, text, json",                                    \
      "report of blocks still live when a pool ends, with tracking: text or json; empty or off: "  \
      "none")                                                                                      \
    X(LEAK_FILE, "leak_file", TEXT, "", 0, 0, false, "",                                           \
      "file that such reports are added to; empty: standard error")                                \
    X(LEAK_EXIT, "leak_exit", BOOL, "off", 0, 1, false, "",                                        \
      "the same report for pools that exist when the process ends")                                \
    X(LEAK_SUPPRESSIONS, "leak_suppressions", TEXT, "", 0, 0, false, "",                           \
      "file of lines \"leak:PATTERN\": tags, functions and modules that are not reported")         \
    X(POOL_SLACK, "pool_slack", INTEGER, "8000", 0, 1000000, false, "",                            \
      "what a pool may hold beyond its peak need before it moves memory, in millionths of it")     \
    X(POOL_MOVE_SHARE, "move_share", INTEGER, "80000", 0, 1000000, false, "",                      \
      "share of the time a pool may spend on moving memory, in millionths; then it grows instead") \
    X(POOL_MOVE_CREDIT, "move_credit", DURATION, "250ms", 0, UINT64_C(3600000000000), false, "",   \
      "time budget for moving memory that a pool starts with")                                     \
    X(LADDER, "ladder", LIST, "", 0, 0, false,                                                     \
      "none, drain, finished, move, trim, others, callbacks, cleanup, lease, retry, wait, "        \
      "fallback, rebuild",                                                                         \
      "steps a pool takes when memory is short, by name and comma; none; empty: see vram/oom.h")   \
    X(OOM_WAIT, "oom_wait", DURATION, "100ms", 0, UINT64_C(3600000000000), false, "",              \
      "longest wait for other threads to free memory when it is short; 0ns: none")                 \
    X(ERROR_HALF_LIFE, "error_half_life", DURATION, "60s", 1, UINT64_C(3600000000000), false, "",  \
      "time after which an error counts half as much for a context's error handler")               \
    X(WAIT_TIMEOUT, "wait_timeout", DURATION, "60s", 1, UINT64_C(3600000000000), false, "",        \
      "longest wait of a call that was given no deadline of its own")                              \
    X(PRESSURE_WARN, "pressure_warn", FRACTION, "0.7", 1, 1000000, false, "",                      \
      "pressure above which watches and the health check warn")                                    \
    X(PRESSURE_EMERGENCY, "pressure_emergency", FRACTION, "0.9", 1, 1000000, false, "",            \
      "pressure above which a device is cleaned up")                                               \
    X(PRESSURE_HYSTERESIS, "pressure_hysteresis", FRACTION, "0.05", 0, 500000, false, "",          \
      "how far pressure must fall below a threshold to count as below")                            \
    X(RESPONSE_HALVE, "response_halve", BOOL, "on", 0, 1, false, "",                               \
      "at high pressure a pool halves what it has cached")                                         \
    X(RESPONSE_DROP, "response_drop", BOOL, "on", 0, 1, false, "",                                 \
      "at high pressure a pool drops rarely used sizes from its caches")                           \
    X(RESPONSE_EMERGENCY, "response_emergency", BOOL, "on", 0, 1, false, "",                       \
      "above pressure_emergency a device's pools return what is not needed to the driver")         \
    X(RESPONSE_DECAY, "response_decay", BOOL, "on", 0, 1, false, "",                               \
      "caches that are not used shrink with time")                                                 \
    X(RESPONSE_INTERVAL, "response_interval", DURATION, "1s", 0, UINT64_C(3600000000000), false,   \
      "", "shortest time between two responses of one kind to pressure")                           \
    X(DECAY_INTERVAL, "decay_interval", DURATION, "10s", 1, UINT64_C(3600000000000), false, "",    \
      "time after which half of an unused cache is released")                                      \
    X(MONITOR_INTERVAL, "monitor_interval", DURATION, "1s", 1000000, UINT64_C(3600000000000),      \
      false, "", "time between two samples of a monitor")                                          \
    X(STAGING_SLOT, "staging_slot", SIZE, "4M", 65536, UINT64_C(1) << 30, false, "",               \
      "page-locked memory that a part of a copy of pageable memory goes through")                  \
    X(STAGING_SLOTS, "staging_slots", INTEGER, "8", 0, 64, false, "",                              \
      "how many of these a device may have; 0: none, the driver copies pageable memory itself")    \
    X(STAGING_THREADS, "staging_threads", INTEGER, "0", 0, 64, false, "",                          \
      "threads that copy for one device, the caller's among them; 0: half the processors, up to "  \
      "8, and for sleeping pools all, up to 12")                                                   \
    X(STAGING_IDLE, "staging_idle", DURATION, "10s", 0, UINT64_C(3600000000000), false, "",        \
      "time after which slots that no copy has used are freed; 0ns: never")                        \
    X(PINNED_LIMIT, "pinned_limit", SIZE, "0", 0, UINT64_MAX, true, "",                            \
      "most bytes of the program's own memory that a device has page-locked in place; 0: no "      \
      "limit")                                                                                     \
    X(PINNED_ENTRIES, "pinned_entries", INTEGER, "256", 1, 65536, false, "",                       \
      "most ranges of such memory")                                                                \
    X(TRACE, "trace", TEXT, "", 0, 0, false, "",                                                   \
      "file for a trace of all pools, for vram report; %p in it is the process's number")          \
    X(TRACE_RING, "trace_ring", SIZE, "0", 0, UINT64_MAX, false, "",                               \
      "size of a trace's file that keeps the last events only, up to 256M; 0: it keeps all")       \
    X(TRACE_SAMPLE, "trace_sample", DURATION, "100ms", 1, UINT64_C(3600000000000), false, "",      \
      "shortest time between two samples of the pools in a trace")                                 \
    X(STRICT, "strict", BOOL, "on", 0, 1, false, "",                                               \
      "on: a context is refused while a variable or VRAM_CONF has a value that cannot be used")    \
    X(LOG, "log", TEXT, "", 0, 0, false, "off, error, warn, info, debug",                          \
      "messages on standard error: error, warn, info or debug; empty: none")

enum vr_option {
#define VR_OPTION_ENUM(ID, name, type, def, min, max, limit, choices, help) VR_OPTION_##ID,
    VR_OPTION_MAP(VR_OPTION_ENUM)
#undef VR_OPTION_ENUM
        VR_OPTION_COUNT
};

/* The current value of a number, size, duration or bool; for a text with choices, its index among
   them, or 0 if it is empty; for a bool's choices, the same from VR_OPTION_CHOICE on. 0 means no
   limit. */
uint64_t vr_option_number(enum vr_option option);
#define VR_OPTION_CHOICE 2

/* The environment's value, whatever the API has set since; false: none. */
bool vr_option_environment(enum vr_option option, uint64_t *number);

/* Copies the current value of a text option, always terminated; at most 255 bytes and the 0. The
   second copies the environment's value, whatever the API has set since; empty if there is none. */
#define VR_OPTION_TEXT_MAX 256
void vr_option_text(enum vr_option option, char text[VR_OPTION_TEXT_MAX]);
void vr_option_environment_text(enum vr_option option, char text[VR_OPTION_TEXT_MAX]);

/* What vram_option_problem does. */
size_t vr_option_problem(size_t index, char *text, size_t text_bytes);
/* True for one caller since the options were read, which logs the problems. */
bool vr_option_problems_claim(void);

/* VRAM_ERR_INVALID if the environment has a value that cannot be used, and the option `strict` is
   on. The error text says which. */
vram_status vr_option_check(void);

/* Rises with every call that may have changed a value. */
extern vr_atomic_u64 vr_option_changes;

/* For tests: discards everything set by the API and reads the environment again at the next use. */
void vr_option_reset(void);

#endif

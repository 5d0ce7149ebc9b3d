/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_cuda.h: a CUDA driver and a HIP runtime for tests, real shared objects over host memory.
 *
 * libvram loads them like any driver (the option cuda_library, or VRAM_CUDA_LIBRARY). Both are made
 * of the same sources; which symbols they export says the table, see tools/driver-table. Device
 * memory is addresses without access, backed by a file in memory that only the fake's engine thread
 * reads and writes, so a device pointer followed by the host faults as it would with a GPU. Streams
 * run beside each other and behind the caller; contexts, captures and sticky errors behave as
 * NVIDIA documents them.
 *
 * Environment, read at the first call; FAKE_HIP_ for HIP:
 *   FAKE_CUDA_DEVICES=N     devices (1; 0 makes cuInit answer "no device")
 *   FAKE_CUDA_MEMORY=BYTES  of each device (4 GiB)
 *   FAKE_CUDA_NAME=TEXT     what devices are called, a number behind it (Fake GPU)
 *   FAKE_CUDA_INTEGRATED=1  the memory is the host's: fake_machine.c
 *   FAKE_CUDA_CACHE=BYTES, FAKE_CUDA_HOST=BYTES  of it, in the page cache, in the host's programs
 *   FAKE_CUDA_AHEAD=BYTES   taken ahead: free memory falls once more than that is in use (0)
 *   FAKE_CUDA_MEMINFO=PATH  where the machine's /proc/meminfo is written
 *   FAKE_CUDA_VERSION=N     what cuDriverGetVersion tells (13000)
 *   FAKE_CUDA_FABRIC=0|1    memory has fabric handles, which processes of one machine import (0)
 *   FAKE_CUDA_VMM=0|1, FAKE_CUDA_MEMORY_OPS=0|1, FAKE_CUDA_MAJOR, _MINOR, _UNIFIED: attributes
 *   FAKE_CUDA_FUNCTIONS=0|1 streams call functions of the host (1)
 *   FAKE_CUDA_DELAY=US      the engine rests that long before each operation (0)
 *   FAKE_CUDA_EXPORT_DELAY=US  what a descriptor for another process takes (0)
 *   FAKE_CUDA_FAIL=NAME:N:CODE[:forever]   as refuse() below; NAME may be any
 *   FAKE_CUDA_JOURNAL=PATH  calls after exit began, or in a forked child, are appended here
 *
 * A test that wants more takes the control table: dlopen the same path, dlsym fake_cuda_control.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include "backend/cuda/cuda_api.h"

#include <stdbool.h>

/* What was made and not given back. */
struct fake_cuda_live {
    uint64_t allocations, reservations, physicals, mappings, pinned, managed;
    uint64_t streams, events, retains, modules;
    uint64_t total; /* of all above */
    uint64_t device_bytes;
    uint64_t rdma;       /* of the physicals: network cards can register them */
    uint64_t rdma_moved; /* times that one of these was mapped elsewhere than before */
};

/* Results that claim success and are wrong. */
enum fake_cuda_lie { FAKE_CUDA_TRUE, FAKE_CUDA_NULL, FAKE_CUDA_MISALIGNED };

struct fake_cuda_control {
    /* Back to the start, with the environment's settings: no plan, nothing lost, captured or held;
       what was made and not given back is forgotten. */
    void (*reset)(void);
    /* Devices that cuDeviceGetCount tells from now on, at most 8. */
    void (*devices)(int count);
    /* Bytes of each device. */
    void (*capacity)(uint64_t bytes);
    void (*version)(int version);
    /* What cuDeviceGetAttribute answers; a negative value makes the call fail. */
    void (*attribute)(enum vr_cu_attribute attribute, int value);

    /* The n-th call of `name` from now on ("any" for every call; the list's name, without a version
       suffix) answers `code`, once or for ever; NULL ends the plan. */
    void (*refuse)(const char *name, uint64_t nth, vr_cu_result code, bool for_ever);
    /* The same with a success that lies. */
    void (*lie)(const char *name, uint64_t nth, enum fake_cuda_lie lie, bool for_ever);
    /* How often the plan struck, and calls since it was set: of one name, or of all with NULL. */
    uint64_t (*struck)(void);
    uint64_t (*calls)(const char *name);
    const char *(*last_call)(void); /* the one that the plan struck last; "" when none */

    /* Answers `code` to every call on the device until it is 0 again. */
    void (*lose)(int device, vr_cu_result code);
    /* As cudaDeviceReset: the primary context is destroyed, its users are not asked. */
    void (*device_reset)(int device);

    /* Streams as a program would make them, in the primary or in another context. */
    struct vr_cu_stream *(*stream_make)(int device, bool blocking, bool other_context);
    void (*stream_end)(struct vr_cu_stream *stream);
    int (*stream_priority)(struct vr_cu_stream *stream);
    /* As when a program destroys a stream and the next one gets its handle. */
    void (*stream_renew)(struct vr_cu_stream *stream);
    /* The stream's capture state; a program's cuStreamBeginCapture and EndCapture. */
    void (*capture)(struct vr_cu_stream *stream, enum vr_cu_capture_status status);
    enum vr_cu_capture_status (*capture_status)(struct vr_cu_stream *stream);
    /* Operations that went into captures instead of being run. */
    uint64_t (*captured)(void);
    /* The engine runs nothing while held; what is submitted waits. */
    void (*hold)(bool held);
    /* Whether streams call functions of the host; they do. */
    void (*host_functions)(bool are_called);
    /* Small pinned blocks start that many bytes inside a page, as behind somebody else's. */
    void (*pinned_offset)(unsigned bytes);
    /* Giving page-locked memory back takes a millisecond, and waits for the kernels of all devices,
       as drivers do: that it had to is a violation. */
    void (*free_waits)(bool waits);
    /* Page-locked memory that is given back is held up until this is called with false, as behind a
       stream of the program's own that waits for something. */
    void (*free_held)(bool held);

    /* The calling thread's context stack: NULL when empty. push_other pushes the program's own. */
    struct vr_cu_context *(*current)(void);
    unsigned (*depth)(void);
    void (*push_other)(int device);
    void (*pop)(void);
    enum vr_cu_capture_mode (*thread_mode)(void);
    /* HIP's error of the calling thread that waits to be read. */
    vr_cu_result (*last_error)(void);

    void (*live)(struct fake_cuda_live *live);
    /* Things that no correct caller does: markers captured, captures spoiled, memory given back
       under unfinished work. `text` receives the last one. */
    uint64_t (*violations)(const char **text);
    /* Reads device memory past all streams. */
    bool (*peek)(vr_cu_addr addr, void *to, size_t bytes);
    /* Whether kernels of a device may use memory at an address; whether they may write it. */
    bool (*reaches)(int device, vr_cu_addr addr);
    bool (*writable)(int device, vr_cu_addr addr);
    /* Where the last prefetch or advice wanted managed memory: a device's ordinal, -1 for the
       host. */
    int (*hinted)(void);
    /* `call` is called once, before the next call of `name` begins: what another thread might do
       at that moment. */
    void (*meanwhile)(const char *name, void (*call)(void));
};

/* The one symbol beside the driver's. */
const struct fake_cuda_control *fake_cuda_control(void);

#endif

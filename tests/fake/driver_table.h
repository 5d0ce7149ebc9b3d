/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver_table.h: the drivers' entry points and their documented codes, for tests.
 *
 * Written by tools/driver-table; change the table, not this file.
 */
#ifndef DRIVER_TABLE_H
#define DRIVER_TABLE_H

#include <stddef.h>

/* clang-format off */

struct driver_entry {
    const char *name;
    const char *symbol, *older; /* the latter NULL when there is none */
    const char *without;        /* what is missing without it; NULL: it is required */
    unsigned code_count;
    const int *codes;           /* documented failures */
};

static const struct driver_entry cuda_entries[] = {
    {"cuInit", "cuInit", NULL, NULL, 15,
     (const int[]){1, 101, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 803, 804, 999}},
    {"cuDriverGetVersion", "cuDriverGetVersion", NULL, NULL, 12,
     (const int[]){1, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuGetErrorName", "cuGetErrorName", NULL, NULL, 1,
     (const int[]){1}},
    {"cuGetErrorString", "cuGetErrorString", NULL, NULL, 1,
     (const int[]){1}},
    {"cuDeviceGet", "cuDeviceGet", NULL, NULL, 16,
     (const int[]){1, 3, 4, 101, 201, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuDeviceGetCount", "cuDeviceGetCount", NULL, NULL, 15,
     (const int[]){1, 3, 4, 201, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuDeviceGetName", "cuDeviceGetName", NULL, NULL, 16,
     (const int[]){1, 3, 4, 101, 201, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuDeviceGetUuid", "cuDeviceGetUuid_v2", "cuDeviceGetUuid", "identity", 15,
     (const int[]){1, 3, 4, 101, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuDeviceGetPCIBusId", "cuDeviceGetPCIBusId", NULL, "identity", 15,
     (const int[]){1, 3, 4, 101, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuDeviceGetAttribute", "cuDeviceGetAttribute", NULL, NULL, 16,
     (const int[]){1, 3, 4, 101, 201, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuDeviceTotalMem", "cuDeviceTotalMem_v2", NULL, NULL, 16,
     (const int[]){1, 3, 4, 101, 201, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", NULL, NULL, 17,
     (const int[]){1, 2, 3, 4, 101, 201, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease", NULL, 15,
     (const int[]){3, 4, 101, 201, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuCtxPushCurrent", "cuCtxPushCurrent_v2", NULL, NULL, 15,
     (const int[]){1, 3, 4, 201, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuCtxPopCurrent", "cuCtxPopCurrent_v2", NULL, NULL, 14,
     (const int[]){3, 4, 201, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuThreadExchangeStreamCaptureMode", "cuThreadExchangeStreamCaptureMode", NULL, "relaxed calls", 14,
     (const int[]){1, 3, 4, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuMemGetInfo", "cuMemGetInfo_v2", NULL, NULL, 15,
     (const int[]){1, 3, 4, 201, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuMemAlloc", "cuMemAlloc_v2", NULL, NULL, 16,
     (const int[]){1, 2, 3, 4, 201, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuMemFree", "cuMemFree_v2", NULL, NULL, 15,
     (const int[]){1, 3, 4, 201, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuMemHostAlloc", "cuMemHostAlloc", NULL, NULL, 16,
     (const int[]){1, 2, 3, 4, 201, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuMemFreeHost", "cuMemFreeHost", NULL, NULL, 15,
     (const int[]){1, 3, 4, 201, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuMemGetAllocationGranularity", "cuMemGetAllocationGranularity", NULL, "vmm", 5,
     (const int[]){1, 3, 4, 800, 801}},
    {"cuMemAddressReserve", "cuMemAddressReserve", NULL, "vmm", 6,
     (const int[]){1, 2, 3, 4, 800, 801}},
    {"cuMemAddressFree", "cuMemAddressFree", NULL, "vmm", 5,
     (const int[]){1, 3, 4, 800, 801}},
    {"cuMemCreate", "cuMemCreate", NULL, "vmm", 18,
     (const int[]){1, 2, 3, 4, 101, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 800, 801, 999}},
    {"cuMemRelease", "cuMemRelease", NULL, "vmm", 16,
     (const int[]){1, 3, 4, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 800, 801, 999}},
    {"cuMemMap", "cuMemMap", NULL, "vmm", 19,
     (const int[]){1, 2, 3, 4, 101, 214, 401, 700, 702, 710, 714, 715, 716, 717, 718, 719, 800, 801, 999}},
    {"cuMemSetAccess", "cuMemSetAccess", NULL, "vmm", 14,
     (const int[]){1, 101, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 801, 999}},
    {"cuMemUnmap", "cuMemUnmap", NULL, "vmm", 16,
     (const int[]){1, 3, 4, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 800, 801, 999}},
    {"cuStreamCreateWithPriority", "cuStreamCreateWithPriority", NULL, NULL, 16,
     (const int[]){1, 2, 3, 4, 201, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuStreamDestroy", "cuStreamDestroy_v2", NULL, NULL, 16,
     (const int[]){1, 3, 4, 201, 214, 400, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuStreamSynchronize", "cuStreamSynchronize", NULL, NULL, 15,
     (const int[]){3, 4, 201, 214, 400, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuStreamQuery", "cuStreamQuery", NULL, NULL, 16,
     (const int[]){3, 4, 201, 214, 400, 600, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuStreamGetCtx", "cuStreamGetCtx", NULL, "stream contexts", 16,
     (const int[]){3, 4, 201, 214, 400, 700, 702, 710, 714, 715, 716, 717, 718, 719, 801, 999}},
    {"cuStreamIsCapturing", "cuStreamIsCapturing", NULL, NULL, 15,
     (const int[]){1, 3, 4, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 906, 999}},
    {"cuStreamWriteValue64", "cuStreamWriteValue64_v2", "cuStreamWriteValue64", "memory operations", 13,
     (const int[]){1, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 801, 999}},
    {"cuStreamWaitValue64", "cuStreamWaitValue64_v2", "cuStreamWaitValue64", "memory operations", 13,
     (const int[]){1, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 801, 999}},
    {"cuStreamWaitEvent", "cuStreamWaitEvent", NULL, NULL, 15,
     (const int[]){3, 4, 201, 214, 400, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuEventCreate", "cuEventCreate", NULL, NULL, 16,
     (const int[]){1, 2, 3, 4, 201, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuEventRecord", "cuEventRecord", NULL, NULL, 16,
     (const int[]){1, 3, 4, 201, 214, 400, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuEventDestroy", "cuEventDestroy_v2", NULL, NULL, 15,
     (const int[]){3, 4, 201, 214, 400, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuLaunchHostFunc", "cuLaunchHostFunc", NULL, NULL, 16,
     (const int[]){3, 4, 201, 214, 400, 700, 702, 710, 714, 715, 716, 717, 718, 719, 801, 999}},
    {"cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2", NULL, NULL, 16,
     (const int[]){1, 3, 4, 201, 214, 400, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuMemcpyDtoHAsync", "cuMemcpyDtoHAsync_v2", NULL, NULL, 16,
     (const int[]){1, 3, 4, 201, 214, 400, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuMemcpyDtoDAsync", "cuMemcpyDtoDAsync_v2", NULL, NULL, 16,
     (const int[]){1, 3, 4, 201, 214, 400, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuMemsetD8Async", "cuMemsetD8Async", NULL, NULL, 15,
     (const int[]){1, 3, 4, 201, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuMemsetD16Async", "cuMemsetD16Async", NULL, NULL, 15,
     (const int[]){1, 3, 4, 201, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
    {"cuMemsetD32Async", "cuMemsetD32Async", NULL, NULL, 15,
     (const int[]){1, 3, 4, 201, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999}},
};

static const struct driver_entry hip_entries[] = {
};

/* clang-format on */

#endif

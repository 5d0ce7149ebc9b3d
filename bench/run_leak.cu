/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_leak.cu: leaks three blocks of 1, 2 and 3 MiB in leak_three, for bench/run_device.py. Built by
 * nvcc, whose cudart is static.
 */
#include <cstdio>
#include <cuda_runtime.h>

extern "C" __attribute__((noinline, visibility("default"))) int leak_three() {
    for (size_t i = 1; i <= 3; i++) {
        void *memory;
        if (cudaMalloc(&memory, i << 20) != cudaSuccess) {
            return 1;
        }
    }
    return 0;
}

int main() {
    void *kept;
    size_t free, total;
    int failed = cudaMalloc(&kept, (size_t)1 << 30) != cudaSuccess || leak_three();
    failed = failed || cudaMemGetInfo(&free, &total) != cudaSuccess;
    failed = failed || cudaFree(kept) != cudaSuccess;
    std::printf("{\"used_bytes\": %zu, \"seconds\": 0}\n", total - free);
    return failed;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * writer_kernel.cuh: what the device does with blocks that handout_cuda was handed.
 *
 * One group of threads per block. It is first an owner: it writes its tag to the whole block, waits, and
 * looks whether every word still is its own. Then it is a late writer: the program has given the
 * block back long ago, and it goes on writing until the kernel's last moment, which is what the
 * queue's point in time stands behind. If anybody else is handed the block before that point, either
 * this one finds a foreign tag as an owner or the next one does.
 */
#ifndef WRITER_KERNEL_CUH
#define WRITER_KERNEL_CUH

#include <cuda_runtime.h>

constexpr unsigned batch_blocks = 256; /* most blocks of one launch */
constexpr unsigned group_threads = 64;

/* The blocks of one launch, all of one size; passed by value. */
struct Batch {
    unsigned long long blocks[batch_blocks];
    unsigned count;
    unsigned words; /* of 4 bytes, in each block */
    unsigned tag;   /* of the first block; the next ones count on */
    unsigned ticks; /* of the processor's clock, from start to end */
};

struct Verdict {
    unsigned long long early; /* blocks in which an owner found a foreign tag */
    unsigned long long done;  /* blocks whose late writer has ended */
};

__global__ void write_and_look(const __grid_constant__ Batch batch, Verdict *verdict) {
    /* Volatile: every access goes to the cache that all processors of the device share. */
    volatile unsigned *block = reinterpret_cast<volatile unsigned *>(batch.blocks[blockIdx.x]);
    const unsigned tag = batch.tag + blockIdx.x;
    const long long start = clock64(), end = start + batch.ticks, look = start + batch.ticks / 2;
    for (unsigned i = threadIdx.x; i < batch.words; i += blockDim.x) {
        block[i] = tag;
    }
    __syncthreads();
    while (clock64() < look) {
        __nanosleep(500);
    }
    int foreign = 0;
    for (unsigned i = threadIdx.x; i < batch.words; i += blockDim.x) {
        foreign |= block[i] != tag;
    }
    if (__syncthreads_or(foreign) && threadIdx.x == 0) {
        atomicAdd(&verdict->early, 1ull);
    }
    do {
        for (unsigned i = threadIdx.x; i < batch.words; i += blockDim.x) {
            block[i] = tag;
        }
        __nanosleep(1000);
    } while (clock64() < end);
    if (threadIdx.x == 0) {
        atomicAdd(&verdict->done, 1ull);
    }
}

inline cudaError_t launch_writers(const Batch &batch, Verdict *verdict, cudaStream_t stream) {
    write_and_look<<<batch.count, group_threads, 0, stream>>>(batch, verdict);
    return cudaGetLastError();
}

#endif

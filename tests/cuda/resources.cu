/* SPDX-License-Identifier: Apache-2.0 */
/* resources.cu: Thrust, CUB and a user of cuda::mr on pools of libvram, on a real CUDA device.
   nvcc -std=c++17 resources.cu -lvram; prints a line for each part, "resources: good" last. */
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE /* before CCCL 3.1 */
#include <vram/cuda.hpp>

#include <cub/cub.cuh>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

static int failures;

static void say(const char *what, bool good) {
    std::printf("%-52s %s\n", what, good ? "passed" : "FAILED");
    failures += !good;
}

static std::vector<unsigned> random_keys(size_t count) {
    std::mt19937 generator(7);
    std::vector<unsigned> keys(count);
    for (unsigned &key : keys) {
        key = generator();
    }
    return keys;
}

/* Thrust's containers and its temporary memory, each run in the same stream. */
static void thrust_sorts(vram::stream_resource &resource, cudaStream_t stream) {
    using allocator = vram::thrust_allocator<unsigned>;
    vram::thrust_allocator<char> scratch(resource, stream);
    bool good = true;
    for (size_t count : {1u, 1000u, 1000000u, 4000000u}) {
        std::vector<unsigned> keys = random_keys(count), sorted(count);
        thrust::device_vector<unsigned, allocator> there(count, allocator(resource, stream));
        cudaMemcpyAsync(thrust::raw_pointer_cast(there.data()), keys.data(), count * sizeof keys[0],
                        cudaMemcpyHostToDevice, stream);
        thrust::sort(thrust::cuda::par(scratch).on(stream), there.begin(), there.end());
        cudaMemcpyAsync(sorted.data(), thrust::raw_pointer_cast(there.data()),
                        count * sizeof keys[0], cudaMemcpyDeviceToHost, stream);
        cudaStreamSynchronize(stream);
        std::sort(keys.begin(), keys.end());
        good &= keys == sorted;
    }
    say("thrust::sort, containers and scratch of a pool", good);
}

/* CUB with its temporary storage of the pool: a sum, and a sort of pairs. */
static void cub_sums(vram::stream_resource &resource, cudaStream_t stream) {
    const size_t count = 1 << 20;
    size_t bytes = 0;
    unsigned long long sum = 0;
    auto *in = static_cast<unsigned *>(resource.allocate_on(stream, count * sizeof(unsigned)));
    auto *out = static_cast<unsigned long long *>(resource.allocate_on(stream, sizeof sum));
    std::vector<unsigned> keys = random_keys(count);
    cudaMemcpyAsync(in, keys.data(), count * sizeof(unsigned), cudaMemcpyHostToDevice, stream);
    cub::DeviceReduce::Reduce(nullptr, bytes, in, out, (int)count, cuda::std::plus<>{}, 0ull,
                              stream);
    void *scratch = resource.allocate_on(stream, bytes);
    cub::DeviceReduce::Reduce(scratch, bytes, in, out, (int)count, cuda::std::plus<>{}, 0ull,
                              stream);
    resource.deallocate_on(stream, scratch);
    cudaMemcpyAsync(&sum, out, sizeof sum, cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    say("cub::DeviceReduce, its storage of a pool",
        sum == std::accumulate(keys.begin(), keys.end(), 0ull));
    resource.deallocate_on(stream, in);
    resource.deallocate_on(stream, out);
}

/* Code that knows cuda::mr alone. */
#if VRAM_CCCL >= 3
static bool known_only_as_resource(cuda::mr::resource_ref<cuda::mr::device_accessible> resource,
                                   cuda::stream_ref stream) {
    void *one = resource.allocate(stream, 1000, 256), *two = resource.allocate_sync(5000, 256);
#else
static bool
known_only_as_resource(cuda::mr::async_resource_ref<cuda::mr::device_accessible> resource,
                       cuda::stream_ref stream) {
    void *one = resource.allocate_async(1000, 256, stream), *two = resource.allocate(5000, 256);
#endif
    std::vector<char> back(1000);
    cudaMemsetAsync(one, 42, 1000, stream.get());
    cudaMemcpyAsync(back.data(), one, 1000, cudaMemcpyDeviceToHost, stream.get());
    cudaStreamSynchronize(stream.get());
#if VRAM_CCCL >= 3
    resource.deallocate(stream, one, 1000, 256);
    resource.deallocate_sync(two, 5000, 256);
#else
    resource.deallocate_async(one, 1000, 256, stream);
    resource.deallocate(two, 5000, 256);
#endif
    return one != two && std::count(back.begin(), back.end(), 42) == 1000;
}

static void cuda_mr(vram::stream_resource &resource, cudaStream_t stream) {
    say("cuda::mr: a reference to a resource over a pool",
        known_only_as_resource(resource, cuda::stream_ref(stream)));
}

static void pinned_containers() {
    vram_context_options options = vram::sized<vram_context_options>();
    options.backends = "cuda";
    vram::context context(options);
    vram::device device(context);
    bool good = true;
    for (vram_memory_kind kind : {VRAM_MEMORY_PINNED, VRAM_MEMORY_MANAGED}) {
        vram::memory_resource resource(device, kind);
        std::pmr::vector<int> numbers(1000, 3, &resource);
        cudaPointerAttributes attributes = {};
        cudaPointerGetAttributes(&attributes, numbers.data());
        good &= numbers[999] == 3 &&
                attributes.type ==
                    (kind == VRAM_MEMORY_PINNED ? cudaMemoryTypeHost : cudaMemoryTypeManaged);
    }
    say("std::pmr::vector in page-locked and managed memory", good);
}

static void exhausted(vram::stream_resource &resource, cudaStream_t stream) {
    bool caught = false;
    try {
        thrust::device_vector<char, vram::thrust_allocator<char>> much(
            size_t(1) << 42, vram::thrust_allocator<char>(resource, stream));
    } catch (const std::bad_alloc &) {
        caught = true;
    }
    void *after = resource.allocate_on(stream, 1000);
    resource.deallocate_on(stream, after);
    say("4 TiB are std::bad_alloc, and the pool goes on", caught && after != nullptr);
}

int main() {
    cudaStream_t stream = nullptr;
    if (cudaStreamCreate(&stream) != cudaSuccess) {
        std::printf("resources: no CUDA device\n");
        return 1;
    }
    vram::stream_resource resource(0, "cpp");
    thrust_sorts(resource, stream);
    cub_sums(resource, stream);
    cuda_mr(resource, stream);
    pinned_containers();
    exhausted(resource, stream);
    resource.forget(stream);
    cudaStreamDestroy(stream);
    std::printf("resources: %s\n", failures == 0 ? "good" : "failed");
    return failures != 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cub_peer: CUB's CachingDeviceAllocator with its default bins, measured as pairs.hpp says.
 */
#include "pairs.hpp"

#include <cub/util_allocator.cuh>
#include <cuda_runtime_api.h>

namespace {

void must(cudaError_t code) {
    if (code != cudaSuccess) {
        throw std::runtime_error(cudaGetErrorString(code));
    }
}

class Cub {
  public:
    explicit Cub(int threads) : streams_(static_cast<size_t>(threads)) {}

    void begin(int thread) {
        must(cudaSetDevice(0));
        must(cudaStreamCreateWithFlags(&streams_[static_cast<size_t>(thread)],
                                       cudaStreamNonBlocking));
    }

    void *take(int thread, size_t bytes) {
        void *block = nullptr;
        must(allocator_.DeviceAllocate(&block, bytes, streams_[static_cast<size_t>(thread)]));
        return block;
    }

    void give(int, void *block) { must(allocator_.DeviceFree(block)); }

  private:
    cub::CachingDeviceAllocator allocator_;
    std::vector<cudaStream_t> streams_;
};

} // namespace

int main(int count, char **words) {
    pairs::Plan plan;
    if (!pairs::parse(count, words, plan)) {
        std::fprintf(stderr, "usage: cub_peer [--pattern pair|burst] [--size BYTES] [--threads N] "
                             "[--seconds S]\n");
        return 2;
    }
    Cub cub(plan.threads);
    return pairs::Contest<Cub>(cub, plan).run("cub") ? 0 : 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch_peer: PyTorch's caching allocator, called from C++ as tensors call it, measured as
 * pairs.hpp says. PYTORCH_ALLOC_CONF chooses its settings as usual.
 */
#include "pairs.hpp"

#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>

namespace {

void must(cudaError_t code) {
    if (code != cudaSuccess) {
        throw std::runtime_error(cudaGetErrorString(code));
    }
}

class Torch {
  public:
    explicit Torch(int threads) : streams_(static_cast<size_t>(threads)) {}

    void begin(int thread) {
        must(cudaSetDevice(0));
        must(cudaStreamCreateWithFlags(&streams_[static_cast<size_t>(thread)],
                                       cudaStreamNonBlocking));
    }

    void *take(int thread, size_t bytes) {
        return c10::cuda::CUDACachingAllocator::raw_alloc_with_stream(
            bytes, streams_[static_cast<size_t>(thread)]);
    }

    void give(int, void *block) { c10::cuda::CUDACachingAllocator::raw_delete(block); }

  private:
    std::vector<cudaStream_t> streams_;
};

} // namespace

int main(int count, char **words) {
    pairs::Plan plan;
    int devices = 0;
    if (!pairs::parse(count, words, plan)) {
        std::fprintf(stderr, "usage: torch_peer [--pattern pair|burst] [--size BYTES] "
                             "[--threads N] [--seconds S]\n");
        return 2;
    }
    /* torch.cuda initialises the allocator for all devices; without Python it is ours to do. */
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::printf("{\"name\": \"torch\", \"found\": false, \"reason\": \"no CUDA device\"}\n");
        return 1;
    }
    c10::cuda::CUDACachingAllocator::init(devices);
    Torch torch(plan.threads);
    return pairs::Contest<Torch>(torch, plan).run("torch") ? 0 : 1;
}

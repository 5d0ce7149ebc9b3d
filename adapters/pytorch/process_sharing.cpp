/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch.multiprocessing with CUDA tensors. CUDA's own handles for other processes do not work for
 * mapped memory, of which the pool consists.
 */
#include "allocator.h"

namespace vram_torch {

[[noreturn]] static void refuse() {
    throw c10::NotImplementedError(
        {__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
        "vram.torch: CUDA tensors cannot be sent to other processes yet. Send a CPU copy "
        "(tensor.cpu()), or do not enable vram.torch in this program.");
}

cca::ShareableHandle Allocator::shareIpcHandle(void *) {
    refuse();
}

std::shared_ptr<void> Allocator::getIpcDevPtr(std::string) {
    refuse();
}

} // namespace vram_torch

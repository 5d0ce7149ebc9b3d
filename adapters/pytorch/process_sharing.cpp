/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch.multiprocessing with CUDA tensors. PyTorch counts who uses a tensor and orders the work of
 * the processes by events; what it asks of its allocator is a name for memory, and memory for a
 * name.
 *
 * A name is a string of bytes
 *
 *     0    1    2
 *     'v'  't'  token of an export (64), number of the part (4, little endian)
 *     'v'  'c'  cudaIpcMemHandle_t (64): memory of cudaMalloc, and of a pool with moving="off"
 *     1-9  'c'  the same, from PyTorch's own allocator in a process without vram.torch
 *
 * PyTorch's own allocator refuses names that begin with 'v' as those of a later version.
 */
#include <cstring>

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>

#include "allocator.h"

namespace vram_torch {

static const size_t PREFIX_BYTES = 2;
static const size_t INDEX_BYTES = 4;

[[noreturn]] static void refuse(const std::string &text) {
    throw c10::Error({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, "vram.torch: " + text);
}

/* --------------------------------------------------------------------- sending */

static std::string name_of(const SharedPart &part) {
    std::string name = "vt";
    name.append(reinterpret_cast<const char *>(part.token.bytes), sizeof part.token.bytes);
    for (size_t i = 0; i < INDEX_BYTES; i++) {
        name.push_back(static_cast<char>(part.index >> (8 * i) & 0xff));
    }
    return name;
}

/* The allocation of the driver that the address lies in. */
static uintptr_t driver_base(const Block &block) {
    vram_native_info native = {};
    native.size = sizeof native;
    bool known = block.source != Source::DRIVER && vram_native(block.addr, &native) == VRAM_OK;
    return known ? static_cast<uintptr_t>(native.base) : block.addr;
}

static cca::ShareableHandle share_driver_memory(const Block &block, uintptr_t addr) {
    uintptr_t base = driver_base(block);
    cudaIpcMemHandle_t handle;
    cudaError_t error = cudaIpcGetMemHandle(&handle, reinterpret_cast<void *>(base));
    if (error != cudaSuccess) {
        cudaGetLastError(); /* it is reported here */
        refuse("this tensor cannot be sent to another process: its memory is neither exportable "
               "(VRAM_EXPORTABLE=0, or a pool that existed before vram.torch.enable()) nor known "
               "to CUDA's own calls (" +
               std::string(cudaGetErrorString(error)) + "). Send a CPU copy (tensor.cpu()).");
    }
    std::string name = "vc";
    name.append(reinterpret_cast<const char *>(&handle), sizeof handle);
    return {static_cast<ptrdiff_t>(addr - base), std::move(name)};
}

/* Live blocks of the pool behind `base`, which are likely to be sent next. */
static std::vector<Neighbour> neighbours_of(const Block &block, uintptr_t base) {
    std::vector<Neighbour> neighbours;
    for (const Block &one : Heap::table().blocks(block.device)) {
        if (one.addr > base && one.source == Source::POOL) {
            neighbours.push_back(Neighbour{one.addr, one.held});
        }
    }
    return neighbours;
}

cca::ShareableHandle Allocator::shareIpcHandle(void *pointer) {
    Block block;
    uintptr_t addr = reinterpret_cast<uintptr_t>(pointer);
    if (!Heap::table().find(addr, &block) && !Heap::table().find_around(addr, &block)) {
        refuse("no live block is at this address: memory that was received from another process "
               "cannot be sent on. Send a copy (tensor.clone()).");
    }
    uintptr_t base = block.addr;
    uint64_t bytes = block.held;
    if (block.source == Source::PRIVATE) {
        block.owner->segment_of(block.addr, &base, &bytes);
    }
    SharedPart part;
    vram_status status = VRAM_ERR_INVALID;
    if (block.source != Source::DRIVER) {
        status = exported_.send(
            base, bytes, [&] { return neighbours_of(block, base); }, &part);
    }
    if (status == VRAM_ERR_INVALID) { /* not memory that libvram can export */
        return share_driver_memory(block, addr);
    }
    if (status != VRAM_OK) {
        throw_error("cannot share a tensor with other processes");
    }
    return {static_cast<ptrdiff_t>(addr - base), name_of(part)};
}

/* ------------------------------------------------------------------- receiving */

/* Memory of cudaMalloc in another process, which can be opened once in each. */
static std::shared_ptr<void> open_driver_memory(const std::string &name) {
    static std::mutex *mutex = new std::mutex();
    static auto *opened = new std::map<std::string, std::weak_ptr<void>>();
    std::string key = name.substr(PREFIX_BYTES);
    std::lock_guard<std::mutex> guard(*mutex);
    std::shared_ptr<void> memory = (*opened)[key].lock();
    if (memory == nullptr) {
        cudaIpcMemHandle_t handle;
        void *pointer = nullptr;
        std::memcpy(&handle, key.data(), sizeof handle);
        C10_CUDA_CHECK(cudaIpcOpenMemHandle(&pointer, handle, cudaIpcMemLazyEnablePeerAccess));
        c10::DeviceIndex device = 0;
        C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
        memory = std::shared_ptr<void>(pointer, [device](void *mapped) {
            int before = 0;
            cudaGetDevice(&before);
            cudaSetDevice(device);
            cudaIpcCloseMemHandle(mapped);
            cudaSetDevice(before);
            cudaGetLastError(); /* at exit the driver may have gone */
        });
        (*opened)[key] = memory;
    }
    return memory;
}

std::shared_ptr<void> Allocator::getIpcDevPtr(std::string name) {
    size_t rest = name.size() < PREFIX_BYTES ? 0 : name.size() - PREFIX_BYTES;
    bool ours = rest != 0 && name[0] == 'v', theirs = rest != 0 && name[0] > 0 && name[0] < 10;
    if ((ours || theirs) && name[1] == 'c' && rest == sizeof(cudaIpcMemHandle_t)) {
        return open_driver_memory(name);
    }
    if (!ours || name[1] != 't' || rest != VRAM_SHARE_TOKEN_BYTES + INDEX_BYTES) {
        refuse("a tensor arrived whose memory vram.torch cannot open. Both processes need the same "
               "version of vram.torch, or neither has it; PyTorch's expandable_segments cannot be "
               "opened here.");
    }
    SharedPart part = {};
    std::memcpy(part.token.bytes, name.data() + PREFIX_BYTES, sizeof part.token.bytes);
    for (size_t i = 0; i < INDEX_BYTES; i++) {
        part.index |= static_cast<uint32_t>(static_cast<unsigned char>(
                          name[PREFIX_BYTES + VRAM_SHARE_TOKEN_BYTES + i]))
                      << (8 * i);
    }
    c10::DeviceIndex device = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
    vram_status status = VRAM_OK;
    std::shared_ptr<void> memory = opened_.open(heap(device).device(), part, &status);
    if (memory == nullptr) {
        throw_error("cannot open a tensor of another process");
    }
    return memory;
}

} // namespace vram_torch

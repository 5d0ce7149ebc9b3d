/* SPDX-License-Identifier: Apache-2.0 */
#include "allocator.h"

#include <cstdlib>
#include <cstring>

#include <dlfcn.h>

#include <c10/core/impl/GPUTrace.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>

namespace vram_torch {

/* Beyond this PyTorch does not ask its own allocator either. */
static const size_t SIZE_MAX_TORCH = size_t(1) << 60;

/* Never destroyed: tensors are freed until the very end of the process. */
Allocator &Allocator::get() {
    static Allocator *allocator = new Allocator();
    return *allocator;
}

void throw_error(const std::string &what) {
    const vram_error *error = vram_error_get();
    throw c10::Error({__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
                     "vram.torch: " + what + ": " + error->text + " (" +
                         vram_status_name(error->status) + ")");
}

void throw_text(const std::string &text) {
    throw c10::Error({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, "vram.torch: " + text);
}

/* Calls of the driver that a capture on any thread forbids are allowed on this one meanwhile: none
   of them touches the stream that is captured. */
class RelaxedCapture {
  public:
    explicit RelaxedCapture(const Heap &heap) {
        if (heap.capturing()) {
            guard_.emplace(cudaStreamCaptureModeRelaxed);
        }
    }

  private:
    std::optional<c10::cuda::CUDAStreamCaptureModeGuard> guard_;
};

/* ----------------------------------------------------------------------- heaps */

static bool run_free_callbacks() {
    bool freed = false;
    for (const auto &name : c10::FreeCudaMemoryCallbacksRegistry()->Keys()) {
        freed |= c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
    }
    return freed;
}

/* Called from destructors too (MemPool's, at the end of the process), so it does not throw. After a
   failure the device is lost or unloaded, and no work can run. */
static void synchronize_device(int device) {
    int before = 0;
    cudaError_t error = cudaGetDevice(&before);
    if (error == cudaSuccess) {
        error = cudaSetDevice(device);
    }
    if (error == cudaSuccess) {
        error = cudaDeviceSynchronize();
        cudaSetDevice(before);
    }
    if (error != cudaSuccess) {
        cudaGetLastError(); /* it is not the program's */
    }
}

static const char SAVER_PREFIX[] = "memory_saver/"; /* of tags of vram.torch.memory_saver */

/* Other tags are those of tensors, and one segment has tensors of several. */
static const char *segment_tag() {
    const char *tag = current_tag();
    bool saved = tag != nullptr && std::strncmp(tag, SAVER_PREFIX, std::strlen(SAVER_PREFIX)) == 0;
    return saved ? tag : nullptr;
}

/* With mutex_ held. PYTORCH_NO_CUDA_MEMORY_CACHING means for PyTorch what VRAM_POOL=off does here.
 */
Heap *Allocator::make_heap(int device) {
    if (secure_getenv("PYTORCH_NO_CUDA_MEMORY_CACHING") != nullptr) {
        vram_option_set("pool", "off");
    }
    if (sharing_ && secure_getenv("VRAM_EXPORTABLE") == nullptr) {
        vram_option_set("exportable", "on"); /* nobody says beforehand what will be sent */
    }
    HeapOptions heap_options;
    heap_options.moving = moving_;
    heap_options.synchronize = [device] { synchronize_device(device); };
    heap_options.reclaim = run_free_callbacks;
    heap_options.segment_tag = segment_tag;
    heap_options.releasing = [this, device](PoolId pool, uintptr_t segment, uint64_t bytes) {
        if (history_.active()) {
            history_.segment_freed(device, segment, bytes, pool);
        }
        exported_.freed(segment);
    };
    heap_options.graph = capture_graph();
    vram_status status = VRAM_OK;
    std::unique_ptr<Heap> heap = Heap::create(device, heap_options, &status);
    if (heap == nullptr) {
        throw_error("cannot make a pool on device " + std::to_string(device));
    }
    if (history_.tracked()) {
        heap->segments_pin();
    }
    double fraction = configured_fraction();
    if (fraction < 1 && heap->fraction_set(fraction) != VRAM_OK) {
        throw_error("cannot set the memory fraction");
    }
    if (margin_ != 0 && heap->margin_set(margin_) != VRAM_OK) {
        throw_error("cannot set the margin");
    }
    return heap.release();
}

vram_status Allocator::margin_set(uint64_t bytes) {
    std::lock_guard<std::mutex> guard(mutex_);
    margin_ = bytes;
    vram_status status = VRAM_OK;
    for (int device = 0; device < DEVICES_MAX && status == VRAM_OK; device++) {
        Heap *heap = heap_if_made(device);
        status = heap == nullptr ? VRAM_OK : heap->margin_set(bytes);
    }
    return status;
}

Heap &Allocator::heap(int device) {
    if (C10_UNLIKELY(device < 0 || device >= DEVICES_MAX)) {
        throw_text("device " + std::to_string(device) + " is out of range");
    }
    Heap *heap = heap_if_made(device);
    if (heap == nullptr) {
        std::lock_guard<std::mutex> guard(mutex_);
        heap = heap_if_made(device);
        if (heap == nullptr) {
            heap = make_heap(device);
            heaps_[device].store(heap, std::memory_order_release);
        }
    }
    return *heap;
}

bool Allocator::used() {
    for (int device = 0; device < DEVICES_MAX; device++) {
        if (heap_if_made(device) != nullptr) {
            return true;
        }
    }
    return false;
}

bool Allocator::choose(bool moving, bool sharing) {
    std::lock_guard<std::mutex> guard(mutex_);
    if (used() && (moving != moving_ || sharing != sharing_)) {
        return false;
    }
    moving_ = moving;
    sharing_ = sharing;
    return true;
}

void Allocator::init(int device_count) {
    int before = device_count_.load();
    while (before < device_count && !device_count_.compare_exchange_weak(before, device_count)) {
    }
}

/* ------------------------------------------------------------------ allocation */

void Allocator::report_use(const Block &block, Heap &heap, bool allocated) {
    if (C10_UNLIKELY(c10::memoryProfilingEnabled())) {
        int64_t size = static_cast<int64_t>(block.held);
        Counts counts = heap.statistics().get();
        c10::reportMemoryUsageToProfiler(
            reinterpret_cast<void *>(block.addr), allocated ? size : -size,
            static_cast<size_t>(counts.allocated_bytes[ALL].current),
            static_cast<size_t>(heap.reserved().bytes.current),
            c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(block.device)));
    }
    const c10::impl::PyInterpreter *interpreter = c10::impl::GPUTrace::get_trace();
    if (C10_UNLIKELY(interpreter != nullptr)) {
        uintptr_t addr = block.addr;
        if (allocated) {
            (*interpreter)->trace_gpu_memory_allocation(c10::kCUDA, addr);
        } else {
            (*interpreter)->trace_gpu_memory_deallocation(c10::kCUDA, addr);
        }
    }
}

/* The setting roundup_power2_divisions:N: sizes between two powers of two become multiples of the
   N-th part of the lower one. */
static size_t rounded_size(size_t size) {
    size_t divisions = configured_divisions(size), below = 1;
    if (C10_LIKELY(divisions <= 1 || size <= 512 * divisions)) {
        return size;
    }
    while (below <= size / 2) {
        below *= 2;
    }
    size_t step = below / divisions;
    return (size + step - 1) / step * step;
}

/* The default stream is 0, the others are odd, and the id of an ExternalStream is its handle. */
bool stream_lasts(const c10::cuda::CUDAStream &stream) {
    return stream.id() == 0 || (stream.id() & 1) != 0;
}

bool is_captured(void *stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status) != cudaSuccess) {
        cudaGetLastError(); /* it is not the program's */
        return false;
    }
    return status != cudaStreamCaptureStatusNone;
}

/* What no later stream has, although the driver may give one the same handle. CUDA 12 and later
   have it. The question would end a capture of the stream. */
static void *stream_id(void *stream) {
    using Call = cudaError_t (*)(cudaStream_t, unsigned long long *);
    static const Call call = reinterpret_cast<Call>(dlsym(RTLD_DEFAULT, "cudaStreamGetId"));
    unsigned long long id = 0;
    if (call == nullptr || is_captured(stream)) {
        return stream;
    }
    if (call(static_cast<cudaStream_t>(stream), &id) != cudaSuccess) {
        cudaGetLastError(); /* it is not the program's */
        return stream;
    }
    return reinterpret_cast<void *>(static_cast<uintptr_t>(id));
}

void *Allocator::alloc(int device, size_t size, const c10::cuda::CUDAStream &stream) {
    return alloc(device, size, stream.stream(), stream_lasts(stream));
}

void *Allocator::alloc(int device, size_t size, void *stream, bool lasting) {
    Heap &heap = this->heap(device);
    if (C10_UNLIKELY(size >= SIZE_MAX_TORCH)) {
        throw c10::OutOfMemoryError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
                                    "CUDA out of memory. Tried to allocate more than 1EB memory.");
    }
    if (C10_UNLIKELY(!enabled_.load(std::memory_order_relaxed))) {
        return alloc_uncached(device, size, stream);
    }
    Context context;
    if (C10_UNLIKELY(history_.active())) {
        context = history_.gather(RecordContext::STATE);
    }
    Block block;
    vram_status status;
    {
        RelaxedCapture relaxed(heap);
        status = C10_LIKELY(lasting)
                     ? heap.alloc(size, stream, current_tag(), &block, rounded_size(size))
                     : heap.alloc_external(size, stream, stream_id(stream), &block);
    }
    if (C10_UNLIKELY(status != VRAM_OK)) {
        fail(heap, size, status);
    }
    if (C10_UNLIKELY(history_.active())) {
        try {
            history_.allocated(block, std::move(context));
        } catch (...) { /* NCCL could not register the segment */
            Heap::table().remove(block.addr, &block);
            heap.free(block);
            throw;
        }
    }
    report_use(block, heap, true);
    return reinterpret_cast<void *>(block.addr);
}

/* torch.cuda.caching_allocator_enable(False). Such blocks are in no counter, as in PyTorch. */
void *Allocator::alloc_uncached(int device, size_t size, void *stream) {
    void *pointer = nullptr;
    C10_CUDA_CHECK(cudaMalloc(&pointer, size));
    Block block;
    block.addr = reinterpret_cast<uintptr_t>(pointer);
    block.requested = block.held = size;
    block.stream = stream;
    block.device = device;
    block.source = Source::DRIVER;
    Heap::table().insert(block);
    return pointer;
}

void Allocator::raw_delete(void *pointer) {
    Block block;
    if (pointer == nullptr) {
        return;
    }
    if (C10_UNLIKELY(!Heap::table().remove(reinterpret_cast<uintptr_t>(pointer), &block))) {
        throw_text("invalid device pointer: it was not allocated here, or is freed already");
    }
    if (C10_UNLIKELY(block.source == Source::DRIVER)) {
        C10_CUDA_CHECK(cudaFree(pointer));
        return;
    }
    Heap &heap = *heap_if_made(block.device);
    if (C10_UNLIKELY(exported_.any() && block.source == Source::POOL)) {
        exported_.freed(block.addr);
    }
    if (C10_UNLIKELY(history_.active())) {
        history_.freed(block, history_.gather(RecordContext::ALL));
    }
    {
        RelaxedCapture relaxed(heap);
        heap.free(block);
    }
    report_use(block, heap, false);
}

static void delete_block(void *pointer) {
    Allocator::get().raw_delete(pointer);
}

c10::DeleterFnPtr Allocator::raw_deleter() const {
    return delete_block;
}

c10::DataPtr Allocator::allocate(size_t size) {
    c10::DeviceIndex device = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
    void *pointer = nullptr;
    if (size != 0) {
        pointer = alloc(device, size, c10::cuda::getCurrentCUDAStream(device));
    }
    return {pointer, pointer, delete_block, c10::Device(c10::DeviceType::CUDA, device)};
}

void *Allocator::raw_alloc(size_t size) {
    if (size == 0) {
        return nullptr;
    }
    c10::DeviceIndex device = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
    return alloc(device, size, c10::cuda::getCurrentCUDAStream(device));
}

void *Allocator::raw_alloc_with_stream(size_t size, cudaStream_t stream) {
    if (size == 0) {
        return nullptr;
    }
    c10::DeviceIndex device = 0;
    C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
    c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream(device);
    if (stream == current.stream()) {
        return alloc(device, size, current);
    }
    /* The device's default stream is 0 and 1; 2 is a thread's own, and ends with it. */
    bool lasting = reinterpret_cast<uintptr_t>(stream) < 2 || heap(device).streams().knows(stream);
    return alloc(device, size, stream, lasting);
}

/* Memory of others (received from another process, wrapped) is left alone, as in PyTorch. */
void Allocator::recordStream(const c10::DataPtr &pointer, c10::cuda::CUDAStream stream) {
    Block block;
    if (pointer.get() == nullptr || pointer.get_deleter() != delete_block) {
        return;
    }
    if (!Heap::table().find(reinterpret_cast<uintptr_t>(pointer.get()), &block)) {
        throw_text("record_stream: no live block is at this address");
    }
    if (block.source == Source::DRIVER) {
        return;
    }
    Heap &heap = *heap_if_made(block.device);
    RelaxedCapture relaxed(heap);
    if (heap.use(block, stream.stream(), stream_lasts(stream)) != VRAM_OK) {
        throw_error("cannot record a stream");
    }
}

/* --------------------------------------------------------------- limits and copies */

double Allocator::getMemoryFraction(c10::DeviceIndex device) {
    return heap(device).fraction();
}

void Allocator::setMemoryFraction(double fraction, c10::DeviceIndex device) {
    if (!(fraction >= 0 && fraction <= 1)) {
        throw_text("invalid fraction: " + std::to_string(fraction) + "; it has to be from 0 to 1");
    }
    if (heap(device).fraction_set(fraction) != VRAM_OK) {
        throw_error("cannot set the memory fraction");
    }
}

/* What stays: the granules of live blocks and of segments of private pools. */
static std::vector<std::pair<uintptr_t, uintptr_t>> kept_ranges(Heap &heap) {
    std::vector<std::pair<uintptr_t, uintptr_t>> ranges;
    for (const Block &block : Heap::table().blocks(heap.ordinal())) {
        ranges.emplace_back(block.addr, block.addr + block.held);
    }
    for (const auto &pool : heap.pools()) {
        for (const SegmentInfo &segment : pool->segments()) {
            ranges.emplace_back(segment.addr, segment.addr + segment.size);
        }
    }
    return ranges;
}

void Allocator::emptyCache(MempoolId id) {
    Context context = history_.active() ? history_.gather(RecordContext::ALL) : nullptr;
    for (int device = 0; device < DEVICES_MAX; device++) {
        Heap *heap = heap_if_made(device);
        if (heap == nullptr) {
            continue;
        }
        heap->trim(id);
        if (history_.active()) {
            history_.trimmed(device, kept_ranges(*heap), context);
        }
    }
}

void Allocator::cacheInfo(c10::DeviceIndex device, size_t *largest) {
    size_t available = heap(device).largest();
    *largest = *largest > available ? *largest : available;
}

/* A block of libvram has memory of its own from its first to its last byte; a block of a private
   pool lies in a segment. */
void *Allocator::getBaseAllocation(void *pointer, size_t *size) {
    Block block;
    uintptr_t addr = reinterpret_cast<uintptr_t>(pointer);
    if (!Heap::table().find(addr, &block) && !Heap::table().find_around(addr, &block)) {
        throw_text("no live block is at this address");
    }
    uintptr_t base = block.addr;
    uint64_t bytes = block.held;
    if (block.source == Source::PRIVATE) {
        block.owner->segment_of(block.addr, &base, &bytes);
    }
    if (size != nullptr) {
        *size = bytes;
    }
    return reinterpret_cast<void *>(base);
}

void Allocator::enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex peer) {
    if (vram_device_peer_enable(heap(device).device(), heap(peer).device()) != VRAM_OK) {
        throw_error("cannot access device " + std::to_string(peer) + " from device " +
                    std::to_string(device));
    }
}

cudaError_t Allocator::memcpyAsync(void *to, int to_device, const void *from, int from_device,
                                   size_t count, cudaStream_t stream, bool peer) {
    if (peer || to_device == from_device) {
        return cudaMemcpyAsync(to, from, count, cudaMemcpyDeviceToDevice, stream);
    }
    return cudaMemcpyPeerAsync(to, to_device, from, from_device, count, stream);
}

void Allocator::copy_data(void *to, const void *from, size_t count) const {
    C10_CUDA_CHECK(cudaMemcpy(to, from, count, cudaMemcpyDeviceToDevice));
}

} // namespace vram_torch

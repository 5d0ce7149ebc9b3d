/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/cuda.hpp: pools of CUDA devices for CCCL: a stream-ordered resource (cuda::mr), an allocator
 * for Thrust's containers and algorithms.
 *
 *   vram::stream_resource resource;                          the process's own pool of device 0
 *   void *memory = resource.allocate(stream, bytes, 256);    ordered in the stream
 *   resource.deallocate(stream, memory, bytes, 256);
 *
 *   vram::thrust_allocator<int> allocator(resource, stream);
 *   thrust::device_vector<int, vram::thrust_allocator<int>> keys(1000000, allocator);
 *   thrust::sort(thrust::cuda::par(allocator).on(stream), keys.begin(), keys.end());
 *
 * Needs C++17. What belongs to CCCL is there if its headers are: cuda::mr by
 * <cuda/memory_resource> (CCCL 3.1 in CUDA 13.1 and later; before that the program defines
 * LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE), Thrust by <thrust/device_malloc_allocator.h>,
 * which nvcc compiles. Without them stream_resource takes streams as `void *` or cudaStream_t.
 */
#ifndef VRAM_CUDA_HPP
#define VRAM_CUDA_HPP

#include <vram/hpp/resource.hpp>
#include <vram/shared.h>

/* 0: CCCL is not there or has no cuda::mr, which was experimental before 3.1; 2: resources have the
   names allocate_async and deallocate_async; 3: they take the stream first. */
#define VRAM_CCCL 0
#if __has_include(<cuda/memory_resource>) && !defined(VRAM_NO_CCCL)
#include <cuda/std/version>
#if CCCL_VERSION >= 3001000 || defined(LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE)
#include <cuda/memory_resource>
#include <cuda/stream_ref>
#undef VRAM_CCCL
#define VRAM_CCCL (CCCL_VERSION >= 3001000 ? 3 : 2)
#endif
#endif

namespace vram {

/**
 * Device memory in stream order. A copy refers to the same pool, and compares equal. Freeing in a
 * stream never waits; memory is reused at once by later work of that stream, by others once that
 * stream has completed its work so far.
 *
 * The calls without a stream give memory that is ready for any stream, and take memory that no
 * unfinished work uses. Before a stream is destroyed, call forget() with it: the library may
 * otherwise ask the driver about a stream that is gone.
 *
 * Allocation throws vram::bad_alloc; freeing does not throw.
 */
class stream_resource {
  public:
    /** On the process's own pool (vram/shared.h). The tag is kept, not copied. */
    explicit stream_resource(std::uint32_t device = 0, const char *tag = nullptr) : tag_(tag) {
        check(vram_device_shared("cuda", device, &device_));
        check(vram_pool_shared(device_, &pool_));
    }
    /** On any pool of a device that can adopt native queues. Both stay the caller's. */
    stream_resource(vram_device *device, vram_pool *pool, const char *tag = nullptr) noexcept
        : device_(device), pool_(pool), tag_(tag) {}

    vram_pool *get() const noexcept { return pool_; }

    void *allocate_on(void *stream, std::size_t bytes, std::size_t alignment = 256) {
        vram_queue *queue = queue_of(stream);
        try {
            return pointer(alloc_or_throw(pool_, bytes, alignment, queue, tag_));
        } catch (const bad_alloc &failure) {
            if (failure.status() != VRAM_ERR_STALE) {
                throw;
            }
        }
        last() = {}; /* the stream was forgotten, and there is another one at its address */
        return pointer(alloc_or_throw(pool_, bytes, alignment, queue_of(stream), tag_));
    }
    void deallocate_on(void *stream, void *memory) noexcept {
        vram_addr addr = reinterpret_cast<std::uintptr_t>(memory);
        try {
            if (vram_free(addr, queue_of(stream)) != VRAM_ERR_STALE) {
                return;
            }
            last() = {};
            (void)vram_free(addr, queue_of(stream));
        } catch (const std::exception &) {
            /* No queue could be made for the stream: the block stays allocated, which is safe. */
        }
    }
    /** Waits for the stream's work, and does not use the stream afterwards. */
    void forget(void *stream) {
        vram_queue *queue = queue_of(stream);
        last() = {};
        check(vram_queue_end(queue));
    }

    void *allocate_sync(std::size_t bytes, std::size_t alignment = 256) {
        return pointer(alloc_or_throw(pool_, bytes, alignment, nullptr, tag_));
    }
    void deallocate_sync(void *memory, std::size_t, std::size_t = 256) noexcept {
        (void)vram_free(reinterpret_cast<std::uintptr_t>(memory), nullptr);
    }

#if VRAM_CCCL
    void *allocate(::cuda::stream_ref stream, std::size_t bytes, std::size_t alignment = 256) {
        return allocate_on(stream.get(), bytes, alignment);
    }
    void deallocate(::cuda::stream_ref stream, void *memory, std::size_t,
                    std::size_t = 256) noexcept {
        deallocate_on(stream.get(), memory);
    }
    friend constexpr void get_property(const stream_resource &,
                                       ::cuda::mr::device_accessible) noexcept {}

    /* The names before CCCL 3.1. */
    void *allocate(std::size_t bytes, std::size_t alignment = 256) {
        return allocate_sync(bytes, alignment);
    }
    void deallocate(void *memory, std::size_t bytes, std::size_t alignment = 256) noexcept {
        deallocate_sync(memory, bytes, alignment);
    }
    void *allocate_async(std::size_t bytes, std::size_t alignment, ::cuda::stream_ref stream) {
        return allocate_on(stream.get(), bytes, alignment);
    }
    void *allocate_async(std::size_t bytes, ::cuda::stream_ref stream) {
        return allocate_on(stream.get(), bytes);
    }
    void deallocate_async(void *memory, std::size_t, std::size_t,
                          ::cuda::stream_ref stream) noexcept {
        deallocate_on(stream.get(), memory);
    }
    void deallocate_async(void *memory, std::size_t, ::cuda::stream_ref stream) noexcept {
        deallocate_on(stream.get(), memory);
    }
#endif

    friend bool operator==(const stream_resource &one, const stream_resource &other) noexcept {
        return one.pool_ == other.pool_;
    }
    friend bool operator!=(const stream_resource &one, const stream_resource &other) noexcept {
        return !(one == other);
    }

  private:
    struct found {
        vram_device *device = nullptr;
        void *stream = nullptr;
        vram_queue *queue = nullptr;
    };
    /* What this thread asked for last: most threads use one stream. */
    static found &last() noexcept {
        static thread_local found one;
        return one;
    }
    static void *pointer(vram_addr addr) noexcept {
        return reinterpret_cast<void *>(static_cast<std::uintptr_t>(addr));
    }
    vram_queue *queue_of(void *stream) const {
        found &one = last();
        if (one.queue == nullptr || one.device != device_ || one.stream != stream) {
            vram_queue *queue = nullptr;
            check(vram_queue_shared(device_, stream, &queue));
            one.device = device_;
            one.stream = stream;
            one.queue = queue;
        }
        return one.queue;
    }

    vram_device *device_ = nullptr;
    vram_pool *pool_ = nullptr;
    const char *tag_ = nullptr;
};

#if VRAM_CCCL >= 3
static_assert(::cuda::mr::resource_with<stream_resource, ::cuda::mr::device_accessible>,
              "stream_resource must satisfy cuda::mr::resource");
#elif VRAM_CCCL
static_assert(::cuda::mr::async_resource_with<stream_resource, ::cuda::mr::device_accessible>,
              "stream_resource must satisfy cuda::mr::async_resource");
#endif

} // namespace vram

#if defined(__CUDACC__) && __has_include(<thrust/device_malloc_allocator.h>)
#include <thrust/device_malloc_allocator.h>
#include <thrust/device_ptr.h>

namespace vram {

/**
 * For thrust::device_vector, and for the temporary memory of Thrust's algorithms. All of it is
 * ordered in one stream, in which the container must be used.
 */
template <typename T> class thrust_allocator : public thrust::device_malloc_allocator<T> {
  public:
    using base = thrust::device_malloc_allocator<T>;
    using pointer = typename base::pointer;
    using size_type = typename base::size_type;
    template <typename U> struct rebind { using other = thrust_allocator<U>; };

    explicit thrust_allocator(const stream_resource &resource, void *stream = nullptr)
        : resource_(resource), stream_(stream) {}
    template <typename U>
    thrust_allocator(const thrust_allocator<U> &other)
        : resource_(other.resource()), stream_(other.stream()) {}

    pointer allocate(size_type count) {
        if (count > std::size_t(-1) / sizeof(T)) {
            throw bad_alloc(VRAM_ERR_OVERFLOW);
        }
        return thrust::device_pointer_cast(
            static_cast<T *>(resource_.allocate_on(stream_, count * sizeof(T))));
    }
    void deallocate(pointer memory, size_type) noexcept {
        resource_.deallocate_on(stream_, thrust::raw_pointer_cast(memory));
    }

    const stream_resource &resource() const noexcept { return resource_; }
    void *stream() const noexcept { return stream_; }
    friend bool operator==(const thrust_allocator &one, const thrust_allocator &other) noexcept {
        return one.resource_ == other.resource_ && one.stream_ == other.stream_;
    }
    friend bool operator!=(const thrust_allocator &one, const thrust_allocator &other) noexcept {
        return !(one == other);
    }

  private:
    stream_resource resource_;
    void *stream_;
};

} // namespace vram
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/hpp/resource.hpp: pools behind the standard library's interface for allocators. Part of
 * vram/vram.hpp.
 *
 *   vram::memory_resource pinned(device, VRAM_MEMORY_PINNED);
 *   std::pmr::vector<float> staging(1000000, &pinned);      page-locked, copied at full speed
 */
#ifndef VRAM_HPP_RESOURCE_HPP
#define VRAM_HPP_RESOURCE_HPP

#include <vram/hpp/objects.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <new>
#include <string>

namespace vram {

/**
 * An allocation that failed, as code that knows only the standard library expects it. what() is the
 * error record's text. Copying it does not allocate.
 */
class bad_alloc : public std::bad_alloc {
  public:
    explicit bad_alloc(vram_status status) noexcept : status_(status) {
        try {
            text_ = std::make_shared<std::string>(error(status).what());
        } catch (...) { /* the host's memory is used up too: the status's own text is left */
        }
    }
    vram_status status() const noexcept { return status_; }
    const char *what() const noexcept override {
        return text_ ? text_->c_str() : vram_status_text(status_);
    }

  private:
    vram_status status_;
    std::shared_ptr<std::string> text_;
};

/** `bytes` of a pool, aligned; throws vram::bad_alloc. `queue` and `tag` may be nullptr. */
inline vram_addr alloc_or_throw(vram_pool *pool, std::size_t bytes, std::size_t alignment,
                                vram_queue *queue, const char *tag) {
    vram_alloc_options options = sized<vram_alloc_options>();
    vram_addr addr = 0;
    options.alignment = alignment > 512 ? alignment : 0;
    options.tag = tag;
    bool plain = options.alignment == 0 && tag == nullptr;
    vram_status status = plain ? vram_alloc(pool, bytes, queue, &addr)
                               : vram_alloc_with(pool, bytes, queue, &options, &addr);
    if (status != VRAM_OK) {
        throw bad_alloc(status);
    }
    return addr;
}

/**
 * Memory that the host can access, for std::pmr containers: of a pool of page-locked or managed
 * memory, or of a pool on the host backend. Thread-safe as the pool is. Blocks are allocated and
 * freed without a queue, so work that uses one must be complete before its container frees it.
 *
 * Allocation throws vram::bad_alloc. Freeing never fails: an address that is not a live block of
 * the library changes nothing.
 */
class memory_resource : public std::pmr::memory_resource {
  public:
    /**
     * With a pool of its own, of VRAM_MEMORY_PINNED or _MANAGED, or of _DEVICE on the host backend.
     * Containers that use it must end before it does.
     */
    explicit memory_resource(const device &device, vram_memory_kind kind = VRAM_MEMORY_PINNED)
        : own_(make(device, kind)), pool_(own_.get()) {
        probe();
    }
    /** Over a pool that stays the caller's. VRAM_ERR_INVALID if the host cannot access it. */
    explicit memory_resource(vram_pool *pool) : pool_(pool) { probe(); }
    explicit memory_resource(const pool &pool) : memory_resource(pool.get()) {}

    vram_pool *get() const noexcept { return pool_; }

  private:
    static pool make(const device &device, vram_memory_kind kind) {
        vram_pool_options options = sized<vram_pool_options>();
        options.kind = kind;
        options.name = "std::pmr";
        return pool(device, &options);
    }
    /* One block says whether the host can access the pool's memory. */
    void probe() const {
        vram_native_info info = sized<vram_native_info>();
        vram_addr addr = 0;
        check(vram_alloc(pool_, 1, nullptr, &addr));
        vram_status status = vram_native(addr, &info);
        (void)vram_free(addr, nullptr);
        check(status == VRAM_OK && info.host_pointer == nullptr ? VRAM_ERR_INVALID : status);
    }

    void *do_allocate(std::size_t bytes, std::size_t alignment) override {
        return reinterpret_cast<void *>(
            static_cast<std::uintptr_t>(alloc_or_throw(pool_, bytes, alignment, nullptr, nullptr)));
    }
    void do_deallocate(void *memory, std::size_t, std::size_t) override {
        (void)vram_free(reinterpret_cast<std::uintptr_t>(memory), nullptr);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        const memory_resource *same = dynamic_cast<const memory_resource *>(&other);
        return same != nullptr && same->pool_ == pool_;
    }

    pool own_;
    vram_pool *pool_;
};

} // namespace vram

#endif

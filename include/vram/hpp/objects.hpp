/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/hpp/objects.hpp: contexts, devices, queues, kernels, pools and all owners of memory as C++
 * objects. Part of vram/vram.hpp.
 */
#ifndef VRAM_HPP_OBJECTS_HPP
#define VRAM_HPP_OBJECTS_HPP

#include <vram/hpp/owner.hpp>

namespace vram {

namespace ends {
struct context {
    vram_status operator()(vram_context *handle) const noexcept {
        return vram_context_destroy(handle);
    }
};
struct device {
    vram_status operator()(vram_device *handle) const noexcept { return vram_device_close(handle); }
};
struct queue {
    vram_status operator()(vram_queue *handle) const noexcept { return vram_queue_destroy(handle); }
};
struct kernel {
    vram_status operator()(vram_kernel *handle) const noexcept {
        return vram_kernel_destroy(handle);
    }
};
struct pool {
    vram_status operator()(vram_pool *handle) const noexcept { return vram_pool_destroy(handle); }
};
struct buffer {
    vram_status operator()(vram_buffer *handle) const noexcept {
        return vram_buffer_destroy(handle);
    }
};
struct scope {
    vram_status operator()(vram_scope *handle) const noexcept { return vram_scope_end(handle); }
};
struct batch {
    vram_status operator()(vram_batch *handle) const noexcept { return vram_batch_destroy(handle); }
};
struct named {
    vram_status operator()(vram_named *handle) const noexcept { return vram_named_destroy(handle); }
};
} // namespace ends

/* ------------------------------------------------------------ devices and queues */

class context : public owner<vram_context, ends::context> {
  public:
    using owner::owner;
    context() { check(vram_context_create(nullptr, &handle_)); }
    explicit context(const vram_context_options &options) {
        check(vram_context_create(&options, &handle_));
    }
};

class device : public owner<vram_device, ends::device> {
  public:
    using owner::owner;
    device(const context &context, uint32_t index) {
        check(vram_device_open(context.get(), index, &handle_));
    }
    /** The best device: vram_device_best. */
    explicit device(const context &context) {
        uint32_t best = 0;
        check(vram_device_best(context.get(), &best));
        check(vram_device_open(context.get(), best, &handle_));
    }
};

class queue : public owner<vram_queue, ends::queue> {
  public:
    using owner::owner;
    explicit queue(const device &device, const vram_queue_options *options = nullptr) {
        check(vram_queue_create(device.get(), options, &handle_));
    }
    void upload(vram_addr to, const void *from, uint64_t bytes) const {
        check(vram_queue_upload(get(), to, from, bytes));
    }
    void download(void *to, vram_addr from, uint64_t bytes) const {
        check(vram_queue_download(get(), to, from, bytes));
    }
    void copy(vram_addr to, vram_addr from, uint64_t bytes) const {
        check(vram_queue_copy(get(), to, from, bytes));
    }
    void wait(uint64_t timeout = VRAM_TIMEOUT_DEFAULT) const {
        check(vram_queue_wait(get(), timeout));
    }
};

/** An argument for calls: a queue object, or a borrowed C handle, such as one of a stream set. */
class queue_ref {
  public:
    queue_ref(const queue &queue) noexcept : handle_(queue.get()) {}
    queue_ref(vram_queue *queue) noexcept : handle_(queue) {}
    vram_queue *get() const noexcept { return handle_; }

  private:
    vram_queue *handle_;
};

class kernel : public owner<vram_kernel, ends::kernel> {
  public:
    using owner::owner;
    kernel(const device &device, const vram_kernel_source &source) {
        check(vram_kernel_create(device.get(), &source, &handle_));
    }
    void launch(queue_ref queue, const vram_launch &launch) const {
        check(vram_queue_launch(queue.get(), get(), &launch));
    }
};

/* ---------------------------------------------------------------------- memory */

/** A block of a pool, freed in the order of its queue. The pool's handle is borrowed. */
class block {
  public:
    block() noexcept = default;
    block(vram_pool *pool, vram_addr addr, vram_queue *queue) noexcept
        : pool_(pool), queue_(queue), addr_(addr) {}
    block(block &&other) noexcept : pool_(other.pool_), queue_(other.queue_), addr_(other.take()) {}
    block &operator=(block &&other) noexcept {
        if (this != &other) {
            (void)end();
            pool_ = other.pool_;
            queue_ = other.queue_;
            addr_ = other.take();
        }
        return *this;
    }
    block(const block &) = delete;
    block &operator=(const block &) = delete;
    ~block() { (void)end(); }

    vram_addr addr() const noexcept { return addr_; }
    explicit operator bool() const noexcept { return addr_ != 0; }
    /** Releases ownership: the caller frees the block. */
    vram_addr take() noexcept { return std::exchange(addr_, 0); }
    vram_status end() noexcept {
        vram_addr addr = take();
        return addr != 0 ? vram_free(addr, queue_) : VRAM_OK;
    }

  private:
    vram_pool *pool_ = nullptr;
    vram_queue *queue_ = nullptr;
    vram_addr addr_ = 0;
};

class pool : public owner<vram_pool, ends::pool> {
  public:
    using owner::owner;
    explicit pool(const device &device, const vram_pool_options *options = nullptr) {
        check(vram_pool_create(device.get(), options, &handle_));
    }
    block alloc(uint64_t bytes, const queue &queue) const { return alloc(bytes, queue.get()); }
    /** For no queue pass nullptr. */
    block alloc(uint64_t bytes, vram_queue *queue) const {
        vram_addr addr = 0;
        check(vram_alloc(get(), bytes, queue, &addr));
        return block(get(), addr, queue);
    }
    vram_pool_stats stats() const {
        vram_pool_stats stats = {};
        stats.size = sizeof stats;
        check(vram_pool_stats_get(get(), &stats));
        return stats;
    }
};

class buffer : public owner<vram_buffer, ends::buffer> {
  public:
    using owner::owner;
    /** `bytes` of the kind and precision in the options. */
    buffer(const pool &pool, uint64_t bytes, const queue &queue,
           const vram_buffer_options *options = nullptr) {
        check(vram_buffer_create(pool.get(), bytes, queue.get(), options, &handle_));
    }
    buffer(const pool &pool, uint64_t elements, vram_precision precision, const queue &queue,
           const vram_buffer_options *options = nullptr) {
        check(vram_buffer_create_elements(pool.get(), elements, precision, queue.get(), options,
                                          &handle_));
    }
    /** Over memory that the program owns. */
    buffer(const pool &pool, const vram_wrap &wrap, const queue &queue,
           const vram_buffer_options *options = nullptr) {
        check(vram_buffer_wrap(pool.get(), &wrap, queue.get(), options, &handle_));
    }
    vram_addr addr() const {
        vram_addr addr = 0;
        check(vram_buffer_addr(get(), &addr));
        return addr;
    }
    vram_buffer_info info() const {
        vram_buffer_info info = {};
        info.size = sizeof info;
        check(vram_buffer_info_get(get(), &info));
        return info;
    }
    void use(const queue &queue) const { check(vram_buffer_use(get(), queue.get())); }
};

/* ----------------------------------------------------- things that go together */

/** Frees what was allocated in it when it ends, also if an exception ends its block. */
class scope : public owner<vram_scope, ends::scope> {
  public:
    using owner::owner;
    explicit scope(const pool &pool) { check(vram_scope_begin(pool.get(), nullptr, &handle_)); }
    scope(const pool &pool, const scope &parent) {
        check(vram_scope_begin(pool.get(), parent.get(), &handle_));
    }
    vram_addr alloc(uint64_t bytes, const queue &queue) const {
        vram_addr addr = 0;
        check(vram_scope_alloc(get(), bytes, queue.get(), &addr));
        return addr;
    }
    /** Moves a block out; it is then freed on `queue`. */
    block take_block(vram_addr addr, const queue &queue) const {
        vram_scope_info info = {};
        info.size = sizeof info;
        check(vram_scope_info_get(get(), &info));
        check(vram_scope_take(get(), addr));
        return block(info.pool, addr, queue.get());
    }
};

/** Buffers that are created and destroyed together. */
class batch : public owner<vram_batch, ends::batch> {
  public:
    using owner::owner;
    batch(const pool &pool, const queue &queue, const vram_batch_options *options = nullptr) {
        check(vram_batch_create(pool.get(), queue.get(), options, &handle_));
    }
    /** Adds all or none; returns the index of the first. */
    uint32_t add(const vram_batch_item *items, uint32_t count) const {
        uint32_t first = 0;
        check(vram_batch_add(get(), items, count, &first));
        return first;
    }
    /** Borrowed. */
    vram_buffer *operator[](uint32_t index) const {
        vram_buffer *buffer = nullptr;
        check(vram_batch_get(get(), index, &buffer));
        return buffer;
    }
};

/** Buffers by name. */
class named : public owner<vram_named, ends::named> {
  public:
    using owner::owner;
    named(const pool &pool, const queue &queue, const vram_named_options *options = nullptr) {
        check(vram_named_create(pool.get(), queue.get(), options, &handle_));
    }
    /** Borrowed; created if there is none of that name. */
    vram_buffer *get_or_create(const char *name, uint64_t elements,
                               const vram_named_config *config = nullptr) const {
        vram_buffer *buffer = nullptr;
        check(vram_named_get_or_create(get(), name, elements, config, &buffer));
        return buffer;
    }
};

} // namespace vram

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/hpp/moving.hpp: async handles and everything that moves data, as C++ objects. Part of
 * vram/vram.hpp.
 *
 * Borrowed things (a frame, a block to fill, memory that is locked in place) are objects, too, and
 * are released by their destructors. Their owner must outlive them: declare it first.
 */
#ifndef VRAM_HPP_MOVING_HPP
#define VRAM_HPP_MOVING_HPP

#include <vram/hpp/objects.hpp>

#include <optional>

namespace vram {

namespace ends {
struct stream_set {
    vram_status operator()(vram_stream_set *handle) const noexcept {
        return vram_stream_set_destroy(handle);
    }
};
struct readback {
    vram_status operator()(vram_readback *handle) const noexcept {
        return vram_readback_destroy(handle);
    }
};
struct feed {
    vram_status operator()(vram_feed *handle) const noexcept { return vram_feed_destroy(handle); }
};
struct ring {
    vram_status operator()(vram_ring *handle) const noexcept { return vram_ring_destroy(handle); }
};
} // namespace ends

/* -------------------------------------------------------------- work under way */

/** Work in progress. Destroying it releases the handle; the work continues. */
class async {
  public:
    async() noexcept = default; /* ready */
    async(async &&other) noexcept : handle_(other.take()) {}
    async &operator=(async &&other) noexcept {
        if (this != &other) {
            end();
            handle_ = other.take();
        }
        return *this;
    }
    async(const async &) = delete;
    async &operator=(const async &) = delete;
    ~async() { end(); }

    /** For calls of the C API that poll or wait. */
    const vram_async *get() const noexcept { return &handle_; }
    /** For calls of the C API that begin work; releases the present handle. */
    vram_async *put() noexcept {
        end();
        return &handle_;
    }
    /** Releases ownership: the caller ends the handle. */
    vram_async take() noexcept { return std::exchange(handle_, vram_async{}); }
    void end() noexcept { vram_async_end(&handle_); }

    /** Whether it is complete. Throws its error if it failed. */
    bool poll() const { return done(vram_async_poll(&handle_)); }
    /** Waits for it. Throws its error if it failed, and VRAM_ERR_TIMEOUT. */
    void wait(uint64_t timeout = VRAM_TIMEOUT_DEFAULT) const {
        check(vram_async_wait(&handle_, timeout));
    }
    /** Waits, and returns the bytes or messages that were moved, or the address of a product. */
    uint64_t result(uint64_t timeout = VRAM_TIMEOUT_DEFAULT) const {
        uint64_t result = 0;
        wait(timeout);
        check(vram_async_result_get(&handle_, &result));
        return result;
    }
    /** The result if it is complete, without waiting. Throws its error if it failed. */
    std::optional<uint64_t> try_get() const {
        uint64_t result = 0;
        return done(vram_async_result_get(&handle_, &result)) ? std::optional<uint64_t>(result)
                                                              : std::nullopt;
    }
    /** Calls `call` once when it is complete or has failed. It must not throw. */
    void then(vram_async_fn *call, void *user) const {
        check(vram_async_then(&handle_, call, user));
    }

  private:
    vram_async handle_ = {};
};

/* ------------------------------------------------------------------- transfers */

inline async upload(queue_ref queue, vram_addr to, const void *from, uint64_t bytes,
                    const vram_transfer_options *options = nullptr) {
    async started;
    check(vram_transfer_upload(queue.get(), to, from, bytes, options, started.put()));
    return started;
}
inline async download(queue_ref queue, void *to, vram_addr from, uint64_t bytes,
                      const vram_transfer_options *options = nullptr) {
    async started;
    check(vram_transfer_download(queue.get(), to, from, bytes, options, started.put()));
    return started;
}
inline async copy(queue_ref queue, vram_addr to, vram_addr from, uint64_t bytes,
                  const vram_transfer_options *options = nullptr) {
    async started;
    check(vram_transfer_copy(queue.get(), to, from, bytes, options, started.put()));
    return started;
}
inline async fill(queue_ref queue, vram_addr to, uint32_t pattern, uint32_t pattern_bytes,
                  uint64_t bytes, const vram_transfer_options *options = nullptr) {
    async started;
    check(
        vram_transfer_fill(queue.get(), to, pattern, pattern_bytes, bytes, options, started.put()));
    return started;
}
/** A list of copies with one handle. */
inline async copy_all(queue_ref queue, const vram_copy *copies, size_t count,
                      const vram_transfer_options *options = nullptr) {
    async started;
    check(vram_transfer_batch(queue.get(), copies, count, options, started.put()));
    return started;
}

/** Memory of the program, page-locked in place. The device's handle is borrowed. */
class pinned {
  public:
    pinned() noexcept = default;
    pinned(const device &device, void *memory, uint64_t bytes) {
        check(vram_pinned_begin(device.get(), memory, bytes));
        device_ = device.get();
        memory_ = memory;
        bytes_ = bytes;
    }
    pinned(pinned &&other) noexcept
        : device_(other.device_), memory_(std::exchange(other.memory_, nullptr)),
          bytes_(other.bytes_) {}
    pinned &operator=(pinned &&other) noexcept {
        if (this != &other) {
            (void)end();
            device_ = other.device_;
            bytes_ = other.bytes_;
            memory_ = std::exchange(other.memory_, nullptr);
        }
        return *this;
    }
    pinned(const pinned &) = delete;
    pinned &operator=(const pinned &) = delete;
    ~pinned() { (void)end(); }

    explicit operator bool() const noexcept { return memory_ != nullptr; }
    void *memory() const noexcept { return memory_; }
    /** Ends its use. It may stay locked for the next time. */
    vram_status end() noexcept {
        void *memory = std::exchange(memory_, nullptr);
        return memory != nullptr ? vram_pinned_end(device_, memory, bytes_) : VRAM_OK;
    }

  private:
    vram_device *device_ = nullptr;
    void *memory_ = nullptr;
    uint64_t bytes_ = 0;
};

/* --------------------------------------------------------------------- streams */

class stream_set : public owner<vram_stream_set, ends::stream_set> {
  public:
    using owner::owner;
    explicit stream_set(const device &device, const vram_stream_set_options *options = nullptr) {
        check(vram_stream_set_create(device.get(), options, &handle_));
    }
    /** Borrowed, like all queues of a set. */
    vram_queue *operator[](uint32_t index) const {
        vram_queue *queue = nullptr;
        check(vram_stream_set_get(get(), index, &queue));
        return queue;
    }
    vram_queue *find(const char *name) const {
        vram_queue *queue = nullptr;
        check(vram_stream_set_find(get(), name, &queue));
        return queue;
    }
    vram_queue *next() const {
        vram_queue *queue = nullptr;
        check(vram_stream_set_next(get(), &queue));
        return queue;
    }
    vram_queue *transfer() const {
        vram_queue *queue = nullptr;
        check(vram_stream_set_transfer(get(), &queue));
        return queue;
    }
    bool poll() const { return done(vram_stream_set_poll(get())); }
    void wait(uint64_t timeout = VRAM_TIMEOUT_DEFAULT) const {
        check(vram_stream_set_wait(get(), timeout));
    }
    async sync() const {
        async started;
        check(vram_stream_set_sync(get(), started.put()));
        return started;
    }
    void order(uint32_t earlier, uint32_t later) const {
        check(vram_stream_set_order(get(), earlier, later));
    }
    void barrier() const { check(vram_stream_set_barrier(get())); }
};

/* ----------------------------------------------------------- readback and feed */

/** A borrowed frame, or none. */
class frame {
  public:
    frame() noexcept = default;
    frame(vram_readback *readback, const vram_frame &frame) noexcept
        : readback_(readback), frame_(frame) {}
    frame(frame &&other) noexcept : readback_(other.readback_), frame_(other.take()) {}
    frame &operator=(frame &&other) noexcept {
        if (this != &other) {
            (void)end();
            readback_ = other.readback_;
            frame_ = other.take();
        }
        return *this;
    }
    frame(const frame &) = delete;
    frame &operator=(const frame &) = delete;
    ~frame() { (void)end(); }

    explicit operator bool() const noexcept { return frame_.number != 0; }
    const void *data() const noexcept { return frame_.data; }
    uint64_t bytes() const noexcept { return frame_.bytes; }
    uint64_t number() const noexcept { return frame_.number; }
    const vram_frame &info() const noexcept { return frame_; }
    /** Releases ownership: the caller releases the frame. */
    vram_frame take() noexcept { return std::exchange(frame_, vram_frame{}); }
    /** Releases the frame. */
    vram_status end() noexcept {
        vram_frame frame = take();
        return frame.number != 0 ? vram_readback_release(readback_, frame.number) : VRAM_OK;
    }

  private:
    vram_readback *readback_ = nullptr;
    vram_frame frame_ = {};
};

class readback : public owner<vram_readback, ends::readback> {
  public:
    using owner::owner;
    explicit readback(const device &device, const vram_readback_options *options = nullptr) {
        check(vram_readback_create(device.get(), options, &handle_));
    }
    /** The number of the frame. */
    uint64_t start(queue_ref producer, vram_addr from, uint64_t bytes) const {
        uint64_t number = 0;
        check(vram_readback_start(get(), producer.get(), from, bytes, &number));
        return number;
    }
    uint64_t start(queue_ref producer, const vram_span *spans, uint32_t count) const {
        uint64_t number = 0;
        check(vram_readback_start_spans(get(), producer.get(), spans, count, &number));
        return number;
    }
    bool poll(uint64_t number = 0) const { return done(vram_readback_poll(get(), number)); }
    void wait(uint64_t number = 0, uint64_t timeout = VRAM_TIMEOUT_DEFAULT) const {
        check(vram_readback_wait(get(), number, timeout));
    }
    /** The newest frame that has arrived, without waiting, or none. */
    frame latest() const {
        vram_frame found = {};
        return done(vram_readback_latest(get(), &found)) ? frame(get(), found) : frame();
    }
    /** The oldest frame that was not returned yet; none if no further one was started. */
    frame next(uint64_t timeout = VRAM_TIMEOUT_DEFAULT) const {
        vram_frame found = {};
        return done(vram_readback_next(get(), timeout, &found)) ? frame(get(), found) : frame();
    }
    vram_readback_stats stats() const {
        auto stats = sized<vram_readback_stats>();
        check(vram_readback_stats_get(get(), &stats));
        return stats;
    }
};

/** A block that is being filled. The destructor releases it if it was not submitted. */
class feed_block {
  public:
    feed_block() noexcept = default;
    feed_block(vram_feed *feed, const vram_feed_block &block) noexcept
        : feed_(feed), block_(block) {}
    feed_block(feed_block &&other) noexcept : feed_(other.feed_), block_(other.take()) {}
    feed_block &operator=(feed_block &&other) noexcept {
        if (this != &other) {
            (void)end();
            feed_ = other.feed_;
            block_ = other.take();
        }
        return *this;
    }
    feed_block(const feed_block &) = delete;
    feed_block &operator=(const feed_block &) = delete;
    ~feed_block() { (void)end(); }

    explicit operator bool() const noexcept { return block_.number != 0; }
    void *data() const noexcept { return block_.data; }
    uint64_t bytes() const noexcept { return block_.bytes; }
    uint64_t number() const noexcept { return block_.number; }
    /** Sends all of it to `to`. If this throws, it is still being filled. */
    async submit(queue_ref consumer, vram_addr to) { return submit(consumer, to, block_.bytes); }
    async submit(queue_ref consumer, vram_addr to, uint64_t bytes) {
        async started;
        check(vram_feed_submit(feed_, consumer.get(), to, block_.number, bytes, started.put()));
        (void)take();
        return started;
    }
    /** Releases ownership: the caller submits or releases the block. */
    vram_feed_block take() noexcept { return std::exchange(block_, vram_feed_block{}); }
    vram_status end() noexcept {
        vram_feed_block block = take();
        return block.number != 0 ? vram_feed_release(feed_, block.number) : VRAM_OK;
    }

  private:
    vram_feed *feed_ = nullptr;
    vram_feed_block block_ = {};
};

class feed : public owner<vram_feed, ends::feed> {
  public:
    using owner::owner;
    explicit feed(const device &device, const vram_feed_options *options = nullptr) {
        check(vram_feed_create(device.get(), options, &handle_));
    }
    feed_block begin(uint64_t bytes, uint64_t timeout = VRAM_TIMEOUT_DEFAULT) const {
        vram_feed_block block = {};
        check(vram_feed_begin(get(), bytes, timeout, &block));
        return feed_block(get(), block);
    }
    vram_feed_stats stats() const {
        auto stats = sized<vram_feed_stats>();
        check(vram_feed_stats_get(get(), &stats));
        return stats;
    }
};

/* ----------------------------------------------------------------------- rings */

/** Messages between the host and a kernel. */
class ring : public owner<vram_ring, ends::ring> {
  public:
    using owner::owner;
    explicit ring(const pool &pool, const vram_ring_options *options = nullptr) {
        check(vram_ring_create(pool.get(), options, &handle_));
    }
    /** False if it is full and timeout is 0. */
    bool send(const void *data, uint32_t bytes, uint32_t kind = 0,
              uint64_t timeout = VRAM_TIMEOUT_DEFAULT) const {
        return done(vram_ring_send(get(), data, bytes, kind, timeout));
    }
    /** False if there is none and timeout is 0. */
    bool receive(void *data, uint32_t room, vram_ring_slot *header = nullptr,
                 uint64_t timeout = VRAM_TIMEOUT_DEFAULT) const {
        return done(vram_ring_receive(get(), data, room, timeout, header));
    }
    async flush() const {
        async started;
        check(vram_ring_flush(get(), nullptr, started.put()));
        return started;
    }
    async fetch() const {
        async started;
        check(vram_ring_fetch(get(), nullptr, started.put()));
        return started;
    }
    void stop() const { check(vram_ring_stop(get())); }
    void drain(uint64_t timeout = VRAM_TIMEOUT_DEFAULT) const {
        check(vram_ring_drain(get(), timeout));
    }
    void join(uint64_t timeout = VRAM_TIMEOUT_DEFAULT) const {
        check(vram_ring_join(get(), timeout));
    }
    vram_ring_info info() const {
        auto info = sized<vram_ring_info>();
        check(vram_ring_info_get(get(), &info));
        return info;
    }
    vram_ring_stats stats() const {
        auto stats = sized<vram_ring_stats>();
        check(vram_ring_stats_get(get(), &stats));
        return stats;
    }
};

} // namespace vram

#endif

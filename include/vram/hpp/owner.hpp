/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/hpp/owner.hpp: what the objects of vram/vram.hpp stand on: failures as exceptions, and
 * handles that have one owner.
 */
#ifndef VRAM_HPP_OWNER_HPP
#define VRAM_HPP_OWNER_HPP

#include <vram/vram.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace vram {

/* -------------------------------------------------------------------- failures */

/** What a call answered that was not VRAM_OK. what() is the error record's text. */
class error : public std::runtime_error {
  public:
    explicit error(vram_status status)
        : std::runtime_error(text_of(status)), status_(status),
          operation_(told(status) ? vram_error_get()->operation : "") {}

    vram_status status() const noexcept { return status_; }
    /** The call of libvram or of the driver that failed; "" when unknown. */
    const char *operation() const noexcept { return operation_; }
    /** Memory of any kind has run out, or a limit was met. */
    bool exhausted() const noexcept { return vram_status_is_exhausted(status_); }

  private:
    static bool told(vram_status status) {
        return vram_error_get()->status == status && vram_error_get()->text[0] != '\0';
    }
    static std::string text_of(vram_status status) {
        return told(status) ? vram_error_get()->text : vram_status_text(status);
    }

    vram_status status_;
    const char *operation_; /* static storage */
};

/** Throws vram::error unless all is well. */
inline void check(vram_status status) {
    if (status != VRAM_OK) {
        throw error(status);
    }
}

/* ---------------------------------------------------------------------- owners */

/** What all owners share: one handle, moved and not copied. `End` is called with it at the end. */
template <typename Handle, typename End> class owner {
  public:
    owner() noexcept = default;
    /** Takes what a call of C has made. */
    explicit owner(Handle *handle) noexcept : handle_(handle) {}
    owner(owner &&other) noexcept : handle_(other.take()) {}
    owner &operator=(owner &&other) noexcept {
        if (this != &other) {
            (void)end();
            handle_ = other.take();
        }
        return *this;
    }
    owner(const owner &) = delete;
    owner &operator=(const owner &) = delete;
    ~owner() { (void)end(); }

    /** For calls of C; borrowed. */
    Handle *get() const noexcept { return handle_; }
    explicit operator bool() const noexcept { return handle_ != nullptr; }
    /** Hands the handle out: it is the caller's from then on. */
    Handle *take() noexcept { return std::exchange(handle_, nullptr); }
    /** Ends it now, with the answer. */
    vram_status end() noexcept {
        Handle *handle = take();
        return handle != nullptr ? End()(handle) : VRAM_OK;
    }

  protected:
    Handle *handle_ = nullptr;
};

/** A struct that the library fills, with its size set. */
template <typename Struct> Struct sized() noexcept {
    Struct made = {};
    made.size = sizeof made;
    return made;
}

/**
 * Whether the work of a call is done: false for VRAM_ERR_NOT_READY, an exception for what went
 * wrong.
 */
inline bool done(vram_status status) {
    if (status != VRAM_ERR_NOT_READY) {
        check(status);
    }
    return status == VRAM_OK;
}

} // namespace vram

#endif

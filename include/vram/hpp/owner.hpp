/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/hpp/owner.hpp: the base of the objects of vram/vram.hpp: failures as exceptions, and
 * handles with one owner.
 */
#ifndef VRAM_HPP_OWNER_HPP
#define VRAM_HPP_OWNER_HPP

#include <vram/vram.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace vram {

/* -------------------------------------------------------------------- failures */

/** A status that was not VRAM_OK. what() is the error record's text. */
class error : public std::runtime_error {
  public:
    explicit error(vram_status status)
        : std::runtime_error(text_of(status)), status_(status),
          operation_(told(status) ? vram_error_get()->operation : "") {}

    vram_status status() const noexcept { return status_; }
    /** The call of libvram or of the driver that failed; "" if unknown. */
    const char *operation() const noexcept { return operation_; }
    /** Whether memory of any kind ran out, or a limit was reached. */
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

/** Throws vram::error unless the status is VRAM_OK. */
inline void check(vram_status status) {
    if (status != VRAM_OK) {
        throw error(status);
    }
}

/* ---------------------------------------------------------------------- owners */

/** The base of all owners: one handle, moved and not copied. `End` destroys it. */
template <typename Handle, typename End> class owner {
  public:
    owner() noexcept = default;
    /** Takes ownership of a handle from a call of the C API. */
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

    /** For calls of the C API; borrowed. */
    Handle *get() const noexcept { return handle_; }
    explicit operator bool() const noexcept { return handle_ != nullptr; }
    /** Releases ownership: the caller owns the handle from then on. */
    Handle *take() noexcept { return std::exchange(handle_, nullptr); }
    /** Destroys it now and returns the status. */
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
 * Whether work is complete: false for VRAM_ERR_NOT_READY, an exception for any other failure.
 */
inline bool done(vram_status status) {
    if (status != VRAM_ERR_NOT_READY) {
        check(status);
    }
    return status == VRAM_OK;
}

} // namespace vram

#endif

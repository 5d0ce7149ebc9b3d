/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/model.hpp: models and their memory as C++ objects. The rules of vram/vram.hpp apply; link
 * libvram-model.
 */
#ifndef VRAM_MODEL_HPP
#define VRAM_MODEL_HPP

#include <vram/hpp/owner.hpp>
#include <vram/model.h>

#include <memory>

namespace vram {

/** A model, as its files describe it; on the heap, because it is large. Empty after a move. */
class model {
  public:
    explicit model(const char *path, const vram_model_read_options *options = nullptr)
        : model_(std::make_unique<vram_model>()) {
        model_->size = sizeof *model_;
        check(vram_model_read(path, options, model_.get()));
    }

    const vram_model *get() const noexcept { return model_.get(); }
    const vram_model *operator->() const noexcept { return model_.get(); }
    const vram_model &operator*() const noexcept { return *model_; }
    /** Whether it fits, and on which devices. */
    vram_estimate estimate(const vram_estimate_options *options = nullptr) const {
        auto estimate = sized<vram_estimate>();
        check(vram_estimate_get(get(), options, &estimate));
        return estimate;
    }
    /** The most that fits. */
    vram_fit fit(const vram_estimate_options *options = nullptr) const {
        auto fit = sized<vram_fit>();
        check(vram_fit_get(get(), options, &fit));
        return fit;
    }

  private:
    std::unique_ptr<vram_model> model_;
};

} // namespace vram

#endif

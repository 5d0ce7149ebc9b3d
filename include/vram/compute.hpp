/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/compute.hpp: products, distances and labels as C++ objects. The rules of vram/vram.hpp
 * apply; link libvram-compute.
 */
#ifndef VRAM_COMPUTE_HPP
#define VRAM_COMPUTE_HPP

#include <vram/compute.h>
#include <vram/hpp/moving.hpp>

namespace vram {

namespace ends {
struct scheduler {
    vram_status operator()(vram_scheduler *handle) const noexcept {
        return vram_scheduler_destroy(handle);
    }
};
struct weights {
    vram_status operator()(vram_weights *handle) const noexcept {
        return vram_weights_destroy(handle);
    }
};
struct labels {
    vram_status operator()(vram_labels *handle) const noexcept {
        return vram_labels_destroy(handle);
    }
};
} // namespace ends

/** Computes on the CPU or on a device, with memory of a pool. */
class scheduler : public owner<vram_scheduler, ends::scheduler> {
  public:
    using owner::owner;
    explicit scheduler(const pool &pool, const vram_scheduler_options *options = nullptr) {
        check(vram_scheduler_create(pool.get(), options, &handle_));
    }
    /** One that makes context, device, pool and queues itself. */
    static scheduler own(const vram_scheduler_options *options = nullptr) {
        scheduler made;
        check(vram_scheduler_create(nullptr, options, &made.handle_));
        return made;
    }
    void run(const vram_matmul &product) const { check(vram_matmul_run(get(), &product)); }
    /** Its memory must stay unchanged until the handle is ready. The result is the address of C. */
    async start(const vram_matmul &product) const {
        async started;
        check(vram_matmul_start(get(), &product, started.put()));
        return started;
    }
    void run(const vram_matmul *products, size_t count) const {
        check(vram_matmul_batch(get(), products, count));
    }
    vram_matmul_plan plan(const vram_matmul &product) const {
        auto plan = sized<vram_matmul_plan>();
        check(vram_matmul_plan_get(get(), &product, &plan));
        return plan;
    }
    void warm_up(uint64_t m, uint64_t k, uint64_t n) const {
        check(vram_matmul_warm_up(get(), m, k, n));
    }
    void run(const vram_distance &distance) const { check(vram_distance_run(get(), &distance)); }
    vram_scheduler_stats stats() const {
        auto stats = sized<vram_scheduler_stats>();
        check(vram_scheduler_stats_get(get(), &stats));
        return stats;
    }
};

/** A matrix that stays where products need it. */
class weights : public owner<vram_weights, ends::weights> {
  public:
    using owner::owner;
    weights(const scheduler &scheduler, const vram_weights_options &options) {
        check(vram_weights_create(scheduler.get(), &options, &handle_));
    }
};

/** A cache of label mappings. */
class labels : public owner<vram_labels, ends::labels> {
  public:
    using owner::owner;
    explicit labels(const vram_labels_options *options = nullptr) {
        check(vram_labels_create(options, &handle_));
    }
    /** Returns how many numbers are in `mapping`. `compute` must not throw. */
    size_t map(const int32_t *labels, size_t count, vram_labels_fn *compute, void *user,
               int32_t *mapping, size_t room) const {
        size_t mapped = 0;
        check(vram_labels_get(get(), labels, count, compute, user, mapping, room, &mapped));
        return mapped;
    }
    vram_labels_info info() const {
        auto info = sized<vram_labels_info>();
        check(vram_labels_info_get(get(), &info));
        return info;
    }
};

} // namespace vram

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lock for sections of some nanoseconds that call nothing: one exchange, no system call unless
 * another thread holds it. std::lock_guard works with it.
 */
#ifndef VRAM_TORCH_SPIN_LOCK_H
#define VRAM_TORCH_SPIN_LOCK_H

#include <atomic>
#include <thread>

namespace vram_torch {

class SpinLock {
  public:
    void lock() {
        while (held_.exchange(true, std::memory_order_acquire)) {
            for (int tries = 0; held_.load(std::memory_order_relaxed); tries++) {
                if (tries > 64) {
                    std::this_thread::yield();
                }
            }
        }
    }
    void unlock() { held_.store(false, std::memory_order_release); }

  private:
    std::atomic<bool> held_{false};
};

} // namespace vram_torch

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "stream_table.h"

#include <cstdio>

namespace vram_torch {

vram_status StreamTable::adopt(vram_device *device, void *native, vram_queue **queue) {
    std::lock_guard<std::mutex> guard(mutex_);
    vram_queue *made = find(native); /* another thread may have been faster */
    if (made != nullptr) {
        *queue = made;
        return VRAM_OK;
    }
    if (used_ == ROWS / 2) {
        vram_error error = {};
        error.status = VRAM_ERR_LIMIT;
        error.backend = "";
        error.operation = "vram_torch";
        std::snprintf(error.text, sizeof error.text, "more than %d CUDA streams allocate memory",
                      ROWS / 2);
        return vram_error_set(&error);
    }
    vram_status status = vram_queue_shared(device, native, &made);
    if (status != VRAM_OK) {
        return status;
    }
    size_t i = row_of(key_of(native));
    while (rows_[i].key.load(std::memory_order_relaxed) != 0) {
        i = (i + 1) & (ROWS - 1);
    }
    rows_[i].queue = made;
    rows_[i].key.store(key_of(native), std::memory_order_release);
    used_++;
    *queue = made;
    return VRAM_OK;
}

std::vector<vram_queue *> StreamTable::queues() {
    std::vector<vram_queue *> all;
    for (const Row &row : rows_) {
        if (row.key.load(std::memory_order_acquire) != 0) {
            all.push_back(row.queue);
        }
    }
    return all;
}

} // namespace vram_torch

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program sees when memory ran out: torch.OutOfMemoryError with the line that PyTorch's own
 * allocator has, and the report of libvram after it.
 */
#include "allocator.h"

#include <cinttypes>
#include <cstdio>

#include <c10/cuda/CUDAFunctions.h>

namespace vram_torch {

/* As PyTorch writes sizes, "20.00 MiB", so that programs that read the text still can. */
static std::string size_text(uint64_t bytes) {
    static const char *units[] = {"KiB", "MiB", "GiB"};
    char text[64];
    if (bytes <= 1024) {
        snprintf(text, sizeof text, "%" PRIu64 " bytes", bytes);
        return text;
    }
    double value = static_cast<double>(bytes) / 1024;
    int unit = 0;
    for (; unit < 2 && value > 1024; unit++) {
        value /= 1024;
    }
    snprintf(text, sizeof text, "%.2f %s", value, units[unit]);
    return text;
}

static bool append(void *user, const char *text, size_t bytes) {
    static_cast<std::string *>(user)->append(text, bytes);
    return true;
}

static std::string report_text() {
    vram_oom_report report = {};
    report.size = sizeof report;
    std::string text;
    if (vram_oom_report_get(nullptr, &report) == VRAM_OK) {
        vram_oom_report_write(&report, VRAM_REPORT_TEXT, append, &text);
    }
    return text;
}

/* Sticky errors of the device, a fork, and the like are not exhaustion. */
void Allocator::fail(Heap &heap, size_t size, vram_status status) {
    if (!vram_status_is_exhausted(status) && status != VRAM_ERR_OVERFLOW) {
        throw_error("cannot allocate " + size_text(size));
    }
    out_of_memory(heap, size);
}

void Allocator::out_of_memory(Heap &heap, size_t size) {
    std::string report = report_text(); /* before anything else fails on this thread */
    size_t device_free = 0, device_total = 0;
    vram_memory_info memory = {};
    memory.size = sizeof memory;
    if (vram_memory_info_get(heap.device(), &memory) == VRAM_OK) {
        device_free = memory.free_bytes.value;
        device_total = memory.total_bytes.value;
    }
    heap.statistics().out_of_memory();
    Counts counts = heap.statistics().get();
    uint64_t allocated = static_cast<uint64_t>(counts.allocated_bytes[ALL].current);
    uint64_t in_pools = static_cast<uint64_t>(counts.private_bytes.current);
    uint64_t reserved = static_cast<uint64_t>(heap.reserved().bytes.current);
    c10::DeviceIndex device = static_cast<c10::DeviceIndex>(heap.ordinal());
    c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(size), allocated, reserved,
                                     c10::Device(c10::DeviceType::CUDA, device));
    if (history_.active()) {
        history_.event(
            HistoryEvent{TraceEntry::OOM, heap.ordinal(), device_free, size, nullptr, PoolId(0, 0)},
            history_.gather(RecordContext::ALL));
    }
    std::vector<cca::OutOfMemoryObserver> observers;
    {
        std::lock_guard<std::mutex> guard(mutex_);
        observers = observers_;
    }
    for (const cca::OutOfMemoryObserver &observer : observers) {
        observer(device, size, device_total, device_free);
    }
    std::string text = "CUDA out of memory. Tried to allocate " + size_text(size) + ". GPU " +
                       std::to_string(heap.ordinal()) + " has a total capacity of " +
                       size_text(device_total) + " of which " + size_text(device_free) +
                       " is free. ";
    if (heap.fraction() < 1) {
        text += size_text(heap.allowed_bytes()) + " allowed; ";
    }
    text += "Of the allocated memory " + size_text(allocated) + " is allocated by PyTorch, ";
    if (in_pools != 0) {
        text += "with " + size_text(in_pools) + " allocated in private pools (e.g., CUDA Graphs), ";
    }
    text += "and " + size_text(reserved > allocated ? reserved - allocated : 0) +
            " is reserved by PyTorch but unallocated.";
    throw c10::OutOfMemoryError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
                                report.empty() ? text : text + "\n" + report);
}

void Allocator::attachOutOfMemoryObserver(cca::OutOfMemoryObserver observer) {
    std::lock_guard<std::mutex> guard(mutex_);
    observers_.push_back(std::move(observer));
}

} // namespace vram_torch

/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"

#include <cstdlib>
#include <cstring>

#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>
#include <vram/pinned.h>
#include <vram/transfer.h>

#include "allocator.h"

#define VERSION_TEXT_(x) #x
#define VERSION_TEXT(x)  VERSION_TEXT_(x)

using namespace vram_torch;

static std::string &error_text() {
    static thread_local std::string text;
    return text;
}

static const int FAILED = -1000; /* no vram_status */

static int fail_with(const std::string &text, int status = FAILED) {
    error_text() = text;
    return status;
}

static int fail_status(const char *what) {
    const vram_error *error = vram_error_get();
    return fail_with(std::string(what) + ": " + error->text + " (" +
                         vram_status_name(error->status) + ")",
                     error->status);
}

/* Runs `call`, which returns a status of this interface; exceptions become a text. */
template <typename F> static int guarded(F call) {
    try {
        return call();
    } catch (const c10::Error &error) {
        return fail_with(error.what_without_backtrace());
    } catch (const std::exception &error) {
        return fail_with(error.what());
    }
}

/* ------------------------------------------------------------------------ tags */

/*
 * PyTorch carries its thread-local debug info to the threads of autograd, which work for the thread
 * that called backward(). A tag travels with it. The kind is one that PyTorch keeps for tests, so
 * that nothing else in a program uses it.
 */
namespace {
struct TagInfo : public c10::DebugInfoBase {
    explicit TagInfo(const char *tag) : tag(tag) {}
    std::string tag;
};
} // namespace

static const c10::DebugInfoKind TAG_KIND = c10::DebugInfoKind::TEST_INFO_2;
static std::atomic<bool> tags_used{false}; /* ever: programs without tags pay one load */
static std::atomic<const char *> default_tag{nullptr};

namespace vram_torch {

const char *current_tag() {
    if (!tags_used.load(std::memory_order_relaxed)) {
        return nullptr;
    }
    auto *info = dynamic_cast<TagInfo *>(c10::ThreadLocalDebugInfo::get(TAG_KIND));
    return info == nullptr ? default_tag.load() : info->tag.c_str();
}

} // namespace vram_torch

/* The library says what is wrong with a tag when it is used; better now than at an allocation. */
int vram_torch_tag_push(const char *tag) {
    return guarded([=] {
        size_t length = tag == nullptr ? 0 : std::strlen(tag);
        if (length == 0 || length > 255) {
            return fail_with("a tag has 1 to 255 bytes");
        }
        tags_used.store(true);
        c10::ThreadLocalDebugInfo::_push(TAG_KIND, std::make_shared<TagInfo>(tag));
        return 0;
    });
}

int vram_torch_tag_pop(void) {
    return guarded([] {
        c10::ThreadLocalDebugInfo::_pop(TAG_KIND);
        return 0;
    });
}

/* Another thread may just have read the one before: it stays. */
int vram_torch_tag_default(const char *tag) {
    return guarded([=] {
        default_tag.store(tag == nullptr ? nullptr : (new std::string(tag))->c_str());
        tags_used.store(true);
        return 0;
    });
}

int vram_torch_tag_quota(int device, const char *tag, uint64_t soft_bytes, uint64_t hard_bytes) {
    return guarded([=] {
        vram_status status =
            vram_tag_quota_set(Allocator::get().heap(device).device(), tag, soft_bytes, hard_bytes);
        return status == VRAM_OK ? 0 : fail_status("cannot set the quota");
    });
}

int vram_torch_tag_bytes(int device, const char *tag, uint64_t *used, uint64_t *peak) {
    return guarded([=] {
        vram_tag_info info = {};
        info.size = sizeof info;
        if (vram_tag_info_get(Allocator::get().heap(device).device(), tag, &info) != VRAM_OK) {
            *used = *peak = 0; /* never used on this device */
            return 0;
        }
        *used = info.used_bytes;
        *peak = info.peak_bytes;
        return 0;
    });
}

/* A capture does not survive that somebody waits for the device. */
static bool is_capturing(Heap &heap) {
    for (void *stream : heap.route_streams()) {
        if (stream != nullptr && is_captured(stream)) {
            return true;
        }
    }
    return false;
}

static const char CAPTURING[] =
    "a graph is being captured; end the capture first (VRAM_ERR_CAPTURE)";

/* ------------------------------------------------------------- contents of a tag */

/* Segments of private pools are blocks of the device's pool too; those of other allocators are
   not. */
static std::vector<vram_torch_range> tag_ranges(Heap &heap, const char *tag) {
    std::vector<vram_torch_range> ranges;
    std::vector<uintptr_t> starts;
    for (const Block &block : Heap::table().blocks(heap.ordinal())) {
        if (block.source == Source::POOL) {
            starts.push_back(block.addr);
        }
    }
    for (const auto &pool : heap.pools()) {
        for (const SegmentInfo &segment : pool->segments()) {
            starts.push_back(segment.addr);
        }
    }
    for (uintptr_t start : starts) {
        vram_block_info info = {};
        info.size = sizeof info;
        if (vram_block_info_get(start, &info) == VRAM_OK && info.tag != nullptr &&
            std::strcmp(info.tag, tag) == 0) {
            ranges.push_back({start, info.requested_bytes, 0});
        }
    }
    return ranges;
}

int vram_torch_tag_ranges(int device, const char *tag, vram_torch_range *ranges, int most) {
    return guarded([=] {
        std::vector<vram_torch_range> all = tag_ranges(Allocator::get().heap(device), tag);
        for (size_t i = 0; i < all.size() && i < static_cast<size_t>(most); i++) {
            ranges[i] = all[i];
        }
        return static_cast<int>(all.size());
    });
}

static vram_status copy_ranges(vram_queue *queue, const vram_torch_range *ranges, int count,
                               bool to_host) {
    vram_status status = VRAM_OK;
    for (int i = 0; i < count && status == VRAM_OK; i++) {
        void *host = reinterpret_cast<void *>(static_cast<uintptr_t>(ranges[i].host));
        status = to_host ? vram_transfer_download(queue, host, ranges[i].addr, ranges[i].bytes,
                                                  nullptr, nullptr)
                         : vram_transfer_upload(queue, ranges[i].addr, host, ranges[i].bytes,
                                                nullptr, nullptr);
    }
    /* Also after a failure: nothing may write to the host's memory any more. */
    vram_error error = *vram_error_get();
    vram_status waited = vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT);
    if (status != VRAM_OK) {
        vram_error_set(&error);
    }
    return status != VRAM_OK ? status : waited;
}

int vram_torch_copy(int device, const vram_torch_range *ranges, int count, int to_host) {
    return guarded([=] {
        Heap &heap = Allocator::get().heap(device);
        vram_queue *queue = nullptr;
        if (is_capturing(heap) || !heap.wait_for_device()) {
            return fail_with(std::string("cannot copy contents: ") + CAPTURING, VRAM_ERR_CAPTURE);
        }
        vram_status status = vram_queue_create(heap.device(), nullptr, &queue);
        if (status == VRAM_OK) {
            status = copy_ranges(queue, ranges, count, to_host != 0);
            vram_error error = *vram_error_get();
            vram_queue_destroy(queue);
            vram_error_set(&error);
        }
        return status == VRAM_OK ? 0 : fail_status("cannot copy contents");
    });
}

int vram_torch_host_lock(int device, void *memory, uint64_t bytes, int lock) {
    return guarded([=] {
        vram_device *there = Allocator::get().heap(device).device();
        vram_status status = VRAM_OK;
        if (lock != 0) {
            status = vram_pinned_begin(there, memory, bytes);
        } else if ((status = vram_pinned_end(there, memory, bytes)) == VRAM_OK) {
            status = vram_pinned_forget(there, memory, bytes);
        }
        return status == VRAM_OK ? 0 : fail_status("cannot page-lock host memory");
    });
}

int vram_torch_margin(uint64_t bytes) {
    return guarded([=] {
        vram_status status = Allocator::get().margin_set(bytes);
        return status == VRAM_OK ? 0 : fail_status("cannot set the margin");
    });
}

/* --------------------------------------------------------------------- enabling */

int vram_torch_abi(void) {
    return VRAM_TORCH_ABI;
}

const char *vram_torch_built_for(void) {
    return VERSION_TEXT(TORCH_VERSION_MAJOR) "." VERSION_TEXT(TORCH_VERSION_MINOR);
}

const char *vram_torch_class(void) {
    return VRAM_TORCH_CLASS;
}

const char *vram_torch_error(void) {
    return error_text().c_str();
}

static std::atomic<cca::CUDAAllocator *> allocator_before{nullptr};

int vram_torch_enable(int moving, int sharing) {
    return guarded([=] {
        Allocator &allocator = Allocator::get();
        if (!allocator.choose(moving != 0, sharing != 0)) {
            return fail_with("memory was allocated with other options already");
        }
        if (cca::allocator.load() == &allocator) {
            return 0;
        }
        cca::CUDAAllocator *before = cca::allocator.load();
        /* Not owned: the allocator outlives everything. Throws if PyTorch's own is in use. */
        std::shared_ptr<cca::CUDAAllocator> shared(&allocator, [](cca::CUDAAllocator *) {});
        torch::cuda::CUDAPluggableAllocator::changeCurrentAllocator(shared);
        /* torch.accelerator asks the table of allocators by type, where PyTorch's own is. */
        c10::SetAllocator(c10::DeviceType::CUDA, &allocator, 1);
        allocator_before.store(before);
        return 0;
    });
}

int vram_torch_disable(void) {
    return guarded([] {
        Allocator &allocator = Allocator::get();
        if (cca::allocator.load() != &allocator || allocator.used()) {
            return fail_with("PyTorch does not use this allocator, or has memory from it");
        }
        cca::allocator.store(allocator_before.load());
        c10::SetAllocator(c10::DeviceType::CUDA, allocator_before.load(), 1);
        return 0;
    });
}

int vram_torch_enabled(void) {
    return cca::allocator.load() == &Allocator::get();
}

/* --------------------------------------------------------------- sleep and reports */

int vram_torch_sleep(int device, const char *tag, int keep) {
    return guarded([=] {
        Heap &heap = Allocator::get().heap(device);
        if (is_capturing(heap)) {
            return fail_with(std::string("cannot sleep: ") + CAPTURING, VRAM_ERR_CAPTURE);
        }
        vram_sleep_options options = {};
        options.size = sizeof options;
        options.contents = static_cast<vram_sleep_contents>(keep);
        options.tag = tag;
        vram_status status = heap.sleep(options);
        return status == VRAM_OK ? 0 : fail_status("cannot sleep");
    });
}

int vram_torch_wake(int device, const char *tag) {
    return guarded([=] {
        vram_status status = vram_pool_wake(Allocator::get().heap(device).pool(), tag);
        return status == VRAM_OK ? 0 : fail_status("cannot wake");
    });
}

static bool append_text(void *user, const char *text, size_t bytes) {
    static_cast<std::string *>(user)->append(text, bytes);
    return true;
}

char *vram_torch_report(int device, int json) {
    std::string text;
    int failed = guarded([&] {
        vram_report_format format = json != 0 ? VRAM_REPORT_JSON : VRAM_REPORT_TEXT;
        vram_status status = vram_device_stats_write(Allocator::get().heap(device).device(), format,
                                                     append_text, &text);
        return status == VRAM_OK ? 0 : fail_status("cannot write the report");
    });
    return failed != 0 ? nullptr : strdup(text.c_str());
}

void vram_torch_text_free(char *text) {
    std::free(text);
}

int vram_torch_stats(int device, uint64_t *values, int count) {
    Heap *heap =
        device >= 0 && device < DEVICES_MAX ? Allocator::get().heap_if_made(device) : nullptr;
    if (heap == nullptr) {
        return 0;
    }
    vram_pool_stats pool = heap->reserved().now;
    Counts counts = heap->statistics().get();
    const uint64_t all[] = {static_cast<uint64_t>(counts.requested_bytes[ALL].peak),
                            pool.peak_reserved_bytes,
                            static_cast<uint64_t>(counts.requested_bytes[ALL].current),
                            pool.reserved_bytes,
                            pool.allocs,
                            pool.hits,
                            pool.moved_handles,
                            pool.move_ns,
                            pool.driver_creates,
                            pool.driver_releases,
                            pool.driver_maps,
                            pool.driver_unmaps};
    int there = static_cast<int>(sizeof all / sizeof all[0]);
    for (int i = 0; i < count && i < there; i++) {
        values[i] = all[i];
    }
    return there;
}

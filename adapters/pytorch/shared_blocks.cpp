/* SPDX-License-Identifier: Apache-2.0 */
#include "shared_blocks.h"

#include <algorithm>

namespace vram_torch {

static const uint64_t MORE_LEAST = UINT64_C(2) << 20; /* a reader sees whole pieces of 2 MiB */
static const uint64_t MORE_MOST = UINT64_C(64) << 20;

/* ---------------------------------------------------------------------- exports */

/* With mutex_ held. */
bool ExportedBlocks::find(uintptr_t addr, SharedPart *part) {
    auto found = places_.find(addr);
    if (found == places_.end()) {
        return false;
    }
    Export &one = *found->second.where;
    uint32_t index = found->second.index;
    if (!one.sent[index]) {
        one.sent[index] = true;
        one.sent_count++;
    }
    *part = SharedPart{one.token, index};
    return true;
}

/* Exports blocks, the first of which is sent. With mutex_ held. */
vram_status ExportedBlocks::export_list(std::vector<uintptr_t> blocks) {
    std::vector<vram_addr> addresses(blocks.begin(), blocks.end());
    auto made = std::make_shared<Export>();
    vram_status status = vram_share_export(
        addresses.data(), static_cast<uint32_t>(addresses.size()), nullptr, &made->share);
    if (status != VRAM_OK) {
        return status;
    }
    status = vram_share_token_get(made->share, &made->token);
    if (status != VRAM_OK) {
        vram_error error = *vram_error_get();
        vram_share_close(made->share);
        vram_error_set(&error);
        return status;
    }
    made->sent.assign(blocks.size(), false);
    made->sent[0] = true;
    made->sent_count = 1;
    for (size_t i = 0; i < blocks.size(); i++) {
        places_[blocks[i]] = Place{made, static_cast<uint32_t>(i)};
    }
    made->blocks = std::move(blocks);
    count_.store(places_.size(), std::memory_order_release);
    return VRAM_OK;
}

/* With mutex_ held. */
vram_status ExportedBlocks::export_new(uintptr_t addr, uint64_t bytes,
                                       const std::vector<Neighbour> &neighbours, SharedPart *part) {
    uint64_t left = std::min(std::max(sent_bytes_ / 4, MORE_LEAST), MORE_MOST);
    std::vector<uintptr_t> blocks = {addr};
    for (const Neighbour &one : neighbours) {
        if (one.bytes > left) {
            break;
        }
        if (places_.count(one.addr) == 0) {
            blocks.push_back(one.addr);
            left -= one.bytes;
        }
    }
    vram_status status = export_list(blocks);
    if (status != VRAM_OK && blocks.size() > 1) { /* a neighbour was freed meanwhile, or sleeps */
        status = export_list({addr});
    }
    if (status == VRAM_OK) {
        sent_bytes_ += bytes;
        find(addr, part);
    }
    return status;
}

void ExportedBlocks::freed(uintptr_t addr) {
    std::shared_ptr<Export> ended;
    {
        std::lock_guard<std::mutex> guard(mutex_);
        auto found = places_.find(addr);
        if (found == places_.end() || !found->second.where->sent[found->second.index]) {
            return;
        }
        std::shared_ptr<Export> one = found->second.where;
        one->sent[found->second.index] = false;
        if (--one->sent_count == 0) {
            for (uintptr_t block : one->blocks) {
                places_.erase(block);
            }
            count_.store(places_.size(), std::memory_order_release);
            ended = one;
        }
    }
    if (ended != nullptr) {
        vram_share_close(ended->share); /* a failure leaves nothing to do */
    }
}

size_t ExportedBlocks::exports() {
    std::lock_guard<std::mutex> guard(mutex_);
    std::vector<Export *> all;
    for (const auto &entry : places_) {
        all.push_back(entry.second.where.get());
    }
    std::sort(all.begin(), all.end());
    return static_cast<size_t>(std::unique(all.begin(), all.end()) - all.begin());
}

/* ----------------------------------------------------------------------- opened */

struct OpenedBlocks::Opened {
    explicit Opened(vram_share *share) : share(share) {}
    ~Opened() { vram_share_close(share); } /* at exit the driver may have gone: nothing to do */
    Opened(const Opened &) = delete;
    Opened &operator=(const Opened &) = delete;

    vram_share *share;
};

std::shared_ptr<void> OpenedBlocks::open(vram_device *device, const SharedPart &part,
                                         vram_status *status) {
    std::vector<uint8_t> key(part.token.bytes, part.token.bytes + VRAM_SHARE_TOKEN_BYTES);
    std::lock_guard<std::mutex> guard(mutex_);
    for (auto it = opened_.begin(); it != opened_.end();) {
        it = it->second.expired() ? opened_.erase(it) : std::next(it);
    }
    auto found = opened_.find(key);
    std::shared_ptr<Opened> opened = found == opened_.end() ? nullptr : found->second.lock();
    vram_share_part where = {};
    *status = VRAM_OK;
    if (opened == nullptr) {
        vram_share *share = nullptr;
        *status = vram_share_open(device, &part.token, nullptr, &share);
        if (*status != VRAM_OK) {
            return nullptr;
        }
        opened = std::make_shared<Opened>(share);
        opened_[key] = opened;
    }
    *status = vram_share_parts_get(opened->share, part.index, 1, &where);
    if (*status != VRAM_OK) {
        return nullptr;
    }
    return std::shared_ptr<void>(opened, reinterpret_cast<void *>(where.addr));
}

} // namespace vram_torch

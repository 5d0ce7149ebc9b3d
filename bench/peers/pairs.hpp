/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pairs.hpp: how `vram bench alloc` measures, for allocators that only C++ can reach.
 *
 * The same patterns, samples and JSON keys: pairs of an allocation and its free, or bursts of 1000
 * freed in random order, by threads with a stream each that start together, in samples of a
 * fraction of a millisecond; ns of a sample are from the first start to the last end. Nothing is
 * allocated while the clock runs but by the allocator that is measured.
 *
 * An allocator is a class with
 *     void begin(int thread);                 on the thread: device and stream
 *     void *take(int thread, size_t bytes);   NULL or an exception: failure
 *     void give(int thread, void *block);
 */
#ifndef PAIRS_HPP
#define PAIRS_HPP

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace pairs {

constexpr size_t burst_blocks = 1000;
constexpr uint64_t sample_ns = 100000, together_ns = 300000;
constexpr size_t samples_max = 4096, samples_min = 5;

struct Plan {
    std::string pattern = "pair";
    size_t bytes = 1024;
    int threads = 1;
    double seconds = 2;
};

inline uint64_t now_ns() {
    auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

/* --pattern pair|burst --size BYTES --threads N --seconds S; false: something else was said. */
inline bool parse(int count, char **words, Plan &plan) {
    for (int i = 1; i + 1 < count; i += 2) {
        const std::string flag = words[i], value = words[i + 1];
        if (flag == "--pattern" && (value == "pair" || value == "burst")) {
            plan.pattern = value;
        } else if (flag == "--size") {
            plan.bytes = std::strtoull(value.c_str(), nullptr, 10);
        } else if (flag == "--threads") {
            plan.threads = std::atoi(value.c_str());
        } else if (flag == "--seconds") {
            plan.seconds = std::atof(value.c_str());
        } else {
            return false;
        }
    }
    return count % 2 == 1 && plan.bytes > 0 && plan.threads > 0 && plan.seconds > 0;
}

template <class Allocator> class Contest {
  public:
    Contest(Allocator &allocator, const Plan &plan)
        : allocator_(allocator), plan_(plan), slots_(static_cast<size_t>(plan.threads)) {}

    /* Prints one JSON object on one line; false when it could not be measured. */
    bool run(const char *name) {
        std::vector<std::thread> threads;
        for (int i = 0; i < plan_.threads; i++) {
            threads.emplace_back([this, i] { live(i); });
        }
        measure();
        ending_ = true;
        round_++;
        for (std::thread &thread : threads) {
            thread.join();
        }
        print(name);
        return failure_.empty();
    }

  private:
    struct alignas(128) Slot {
        uint64_t start = 0, end = 0;
        std::string failure;
    };

    void live(int index) {
        Slot &slot = slots_[static_cast<size_t>(index)];
        std::vector<void *> blocks(burst_blocks, nullptr);
        std::vector<size_t> order(burst_blocks);
        std::iota(order.begin(), order.end(), size_t{0});
        std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<unsigned>(index) + 1));
        bool ready = guarded(slot, [&] { allocator_.begin(index); });
        for (uint64_t seen = 0;;) {
            for (uint32_t spins = 1; round_.load() == seen; spins++) {
                if (spins % 256 == 0) {
                    std::this_thread::yield();
                }
            }
            seen = round_.load();
            if (ending_) {
                return;
            }
            at_gate_++;
            while (at_gate_.load() < plan_.threads) {
            }
            slot.start = now_ns();
            if (ready) {
                ready = guarded(slot, [&] { work(index, blocks, order); });
            }
            slot.end = now_ns();
            done_++;
        }
    }

    template <class Work> static bool guarded(Slot &slot, Work work) {
        try {
            work();
            return true;
        } catch (const std::exception &error) {
            slot.failure = error.what();
            return false;
        }
    }

    void *take(int index) {
        void *block = allocator_.take(index, plan_.bytes);
        if (block == nullptr) {
            throw std::runtime_error("an allocation failed");
        }
        return block;
    }

    void work(int index, std::vector<void *> &blocks, const std::vector<size_t> &order) {
        const uint64_t pairs = pairs_;
        if (plan_.pattern == "pair") {
            for (uint64_t i = 0; i < pairs; i++) {
                allocator_.give(index, take(index));
            }
            return;
        }
        for (uint64_t i = 0; i < pairs; i += burst_blocks) {
            for (void *&block : blocks) {
                block = take(index);
            }
            for (size_t slot : order) {
                allocator_.give(index, blocks[slot]);
            }
        }
    }

    /* All threads run `pairs_` pairs; ns from the first start to the last end, 0 after a
       failure. */
    uint64_t sample() {
        at_gate_ = 0;
        done_ = 0;
        round_++;
        while (done_.load() < plan_.threads) {
            std::this_thread::yield();
        }
        uint64_t start = UINT64_MAX, end = 0;
        for (const Slot &slot : slots_) {
            if (!slot.failure.empty()) {
                failure_ = slot.failure;
                return 0;
            }
            start = std::min(start, slot.start);
            end = std::max(end, slot.end);
        }
        return std::max<uint64_t>(end - start, 1);
    }

    void measure() {
        const uint64_t goal = plan_.threads > 1 ? together_ns : sample_ns;
        uint64_t total = 0, ns = 0;
        pairs_ = plan_.pattern == "burst" ? burst_blocks : 1;
        for (int turn = 0; turn < 3 || (total < 20000000 && turn < 4096); turn++) {
            ns = sample();
            if (ns == 0) {
                return;
            }
            total += ns;
            pairs_ = ns < goal / 2 ? pairs_ * 2 : pairs_.load();
        }
        const uint64_t deadline = now_ns() + static_cast<uint64_t>(plan_.seconds * 1e9);
        while (samples_.size() < samples_max &&
               (samples_.size() < samples_min || now_ns() < deadline)) {
            ns = sample();
            if (ns == 0) {
                return;
            }
            samples_.push_back(static_cast<double>(ns) / static_cast<double>(pairs_));
        }
        std::sort(samples_.begin(), samples_.end());
    }

    void print(const char *name) const {
        std::printf(
            "{\"name\": \"%s\", \"pattern\": \"%s\", \"size_bytes\": %zu, \"threads\": %d, ", name,
            plan_.pattern.c_str(), plan_.bytes, plan_.threads);
        if (!failure_.empty() || samples_.empty()) {
            std::string reason;
            for (char letter : failure_.substr(0, 200)) {
                reason += letter >= ' ' && letter != '"' && letter != '\\' ? letter : ' ';
            }
            std::printf("\"found\": false, \"reason\": \"%s\"}\n", reason.c_str());
            return;
        }
        const size_t last = samples_.size() - 1;
        const double median = samples_[last / 2];
        std::printf("\"found\": true, \"reason\": null, \"ns_median\": %.3f, \"ns_p10\": %.3f, "
                    "\"ns_p90\": %.3f, \"pairs_per_s\": %.0f, \"samples\": %zu, "
                    "\"pairs_per_sample\": %" PRIu64 "}\n",
                    median, samples_[last / 10], samples_[last - last / 10],
                    1e9 * plan_.threads / median, samples_.size(), pairs_.load());
    }

    Allocator &allocator_;
    const Plan plan_;
    std::vector<Slot> slots_;
    std::vector<double> samples_;
    std::string failure_;
    std::atomic<uint64_t> round_{0}, pairs_{1};
    std::atomic<int> at_gate_{0}, done_{0};
    std::atomic<bool> ending_{false};
};

} // namespace pairs

#endif

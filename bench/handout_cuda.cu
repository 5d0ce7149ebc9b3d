/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handout_cuda: memory is handed out while earlier owners' kernels are still writing it, and the next
 * owner, on another stream, must never see them.
 *
 *   handout_cuda [--handouts N] [--seconds S] [--threads T] [--streams Q] [--depth D] [--ticks C]
 *                [--memory MIB] [--seed S] [--broken]
 *
 * Each thread takes a batch of small blocks from one pool for one of its streams, launches a kernel
 * that writes them to its last moment (writer_kernel.cuh), and gives them back at once, while the
 * kernel runs. The pool has less memory than the streams want, so most of what it hands out was
 * another stream's just before: after that stream's point has passed, or behind a wait on the
 * device. The device itself compares and counts.
 *
 * The test is over when N blocks have gone from one stream to another; those that the same stream got
 * again are counted in `handouts` alone.
 *
 * --broken gives the blocks back on a queue that has nothing to do, as a careless program would. Early
 * reuse must then be found, and the test fails when it is not: that proves that it can. The pool may also
 * map the memory elsewhere under a kernel that still writes it: then the device is lost, which finds it too.
 *
 * Prints one JSON object. Exit code 0 when the test passed, 1 when not, 2 for misuse or a failure.
 */
#include "writer_kernel.cuh"

#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>
#include <vram/pool.h>
#include <vram/vram.h>

namespace {

constexpr unsigned unit_shift = 9;        /* blocks start at multiples of 512 bytes */
constexpr size_t units = size_t{1} << 22; /* of the table of owners: 2 GiB of addresses */
constexpr unsigned sizes[] = {512, 1024, 1536, 2048, 4096, 6144, 8192, 16384};
constexpr unsigned size_count = sizeof sizes / sizeof sizes[0];

struct Options {
    uint64_t handouts = 10000000; /* from one stream to another */
    uint64_t seconds = 170, threads = 4, streams = 8, depth = 4;
    uint64_t ticks = 300000; /* 150 us at 2 GHz */
    uint64_t memory = 24, seed = 1;
    bool broken = false;
    const char *backend = "cuda";
};

struct Lane {
    vram_queue *queue = nullptr;
    cudaStream_t stream = nullptr;
    uint32_t number = 0; /* from 1; 0 is nobody */
};

bool faults_expected; /* --broken; set before there are threads */

[[noreturn]] void die(const char *what, const char *why) {
    std::fprintf(stderr, "handout_cuda: %s: %s\n", what, why);
    std::exit(2);
}

/* A kernel wrote memory that was taken from under it. The first thread that is told ends the test. */
void find_by_fault() {
    static std::atomic<bool> told{false};
    if (!faults_expected) {
        return;
    }
    if (!told.exchange(true)) {
        std::printf("{\"schema\": \"vram.handout/1\", \"broken\": true, \"device_lost\": true, "
                    "\"passed\": true}\n");
        std::fflush(stdout);
        std::_Exit(0);
    }
    for (;;) {
        std::this_thread::yield();
    }
}

void must(vram_status status, const char *what) {
    if (status == VRAM_ERR_DEVICE_LOST) {
        find_by_fault();
    }
    if (status != VRAM_OK) {
        std::fprintf(stderr, "handout_cuda: %s\n", vram_status_name(status));
        die(what, vram_error_get()->text);
    }
}

void must(cudaError_t code, const char *what) {
    if (code == cudaErrorIllegalAddress) {
        find_by_fault();
    }
    if (code != cudaSuccess) {
        die(what, cudaGetErrorString(code));
    }
}

double now_seconds() {
    auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
}

class Test {
  public:
    explicit Test(const Options &options)
        : options_(options), owners_(new std::atomic<uint32_t>[units]()) {}

    void begin() {
        char limit[32];
        std::snprintf(limit, sizeof limit, "%" PRIu64, options_.memory << 20);
        must(vram_option_set("device_limit", limit), "vram_option_set");
        vram_context_options wishes = {};
        wishes.size = sizeof wishes;
        wishes.backends = options_.backend;
        must(vram_context_create(&wishes, &context_), "vram_context_create");
        must(vram_device_open(context_, 0, &device_), "vram_device_open");
        must(vram_pool_create(device_, nullptr, &pool_), "vram_pool_create");
        must(vram_queue_create(device_, nullptr, &idle_), "vram_queue_create");
        must(cudaSetDevice(0), "cudaSetDevice");
        must(cudaMalloc(&verdict_, sizeof *verdict_), "cudaMalloc");
        must(cudaMemset(verdict_, 0, sizeof *verdict_), "cudaMemset");
        must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        lanes_.resize(options_.threads * options_.streams);
        for (size_t i = 0; i < lanes_.size(); i++) {
            must(vram_queue_create(device_, nullptr, &lanes_[i].queue), "vram_queue_create");
            void *native = nullptr;
            must(vram_queue_native(lanes_[i].queue, &native), "vram_queue_native");
            lanes_[i].stream = static_cast<cudaStream_t>(native);
            lanes_[i].number = static_cast<uint32_t>(i) + 1;
        }
    }

    void run() {
        std::vector<std::thread> threads;
        start_ = now_seconds();
        for (uint64_t i = 0; i < options_.threads; i++) {
            threads.emplace_back([this, i] { live(i); });
        }
        for (std::thread &thread : threads) {
            thread.join();
        }
        for (const Lane &lane : lanes_) {
            must(vram_queue_wait(lane.queue, VRAM_TIMEOUT_DEFAULT), "vram_queue_wait");
        }
        seconds_ = now_seconds() - start_;
    }

    /* Whether the test passed. */
    bool end() {
        Verdict verdict = {};
        vram_pool_stats stats = {};
        stats.size = sizeof stats;
        must(cudaMemcpy(&verdict, verdict_, sizeof verdict, cudaMemcpyDeviceToHost), "cudaMemcpy");
        must(vram_pool_stats_get(pool_, &stats), "vram_pool_stats_get");
        bool complete = verdict.done == handouts_ && other_stream_ >= options_.handouts;
        bool passed = options_.broken ? verdict.early > 0 : complete && verdict.early == 0;
        std::printf(
            "{\"schema\": \"vram.handout/1\", \"broken\": %s, \"handouts\": %" PRIu64
            ", \"early_reuse\": %llu, \"seconds\": %.3f, \"to_another_stream\": %" PRIu64
            ", \"freed_while_running\": %" PRIu64 ", \"writers_done\": %llu, "
            "\"launches\": %" PRIu64 ", \"refused\": %" PRIu64 ", \"threads\": %" PRIu64
            ", \"streams\": %zu, \"memory_bytes\": %" PRIu64 ", \"peak_reserved_bytes\": %" PRIu64
            ", \"moved_handles\": %" PRIu64 ", \"driver_markers\": %" PRIu64 ", \"passed\": %s}\n",
            options_.broken ? "true" : "false", handouts_.load(), verdict.early, seconds_,
            other_stream_.load(), running_.load(), verdict.done, launches_.load(), refused_.load(),
            options_.threads, lanes_.size(), options_.memory << 20, stats.peak_reserved_bytes,
            stats.moved_handles, stats.driver_markers, passed ? "true" : "false");
        vram_pool_destroy(pool_);
        cudaFree(verdict_);
        vram_context_destroy(context_);
        return passed;
    }

  private:
    bool is_over() const {
        return other_stream_.load(std::memory_order_relaxed) >= options_.handouts ||
               now_seconds() - start_ > static_cast<double>(options_.seconds);
    }

    /* Notes the new owner of a block; true when another stream had it before. */
    bool hand_over(vram_addr addr, unsigned bytes, const Lane &lane) {
        uint32_t before = 0;
        for (unsigned at = 0; at < bytes; at += 1u << unit_shift) {
            uint32_t last = owners_[((addr + at) >> unit_shift) % units].exchange(
                lane.number, std::memory_order_relaxed);
            before = last != 0 && last != lane.number ? last : before;
        }
        return before != 0;
    }

    /* Fills the batch as far as there is memory. */
    void take(Batch &batch, unsigned bytes, const Lane &lane, uint64_t &from_others) {
        for (batch.count = 0; batch.count < batch_blocks; batch.count++) {
            vram_addr addr = 0;
            vram_status status = vram_alloc(pool_, bytes, lane.queue, &addr);
            if (vram_status_is_exhausted(status)) {
                refused_++;
                return;
            }
            must(status, "vram_alloc");
            from_others += hand_over(addr, bytes, lane);
            batch.blocks[batch.count] = addr;
        }
    }

    void give(const Batch &batch, const Lane &lane) {
        vram_queue *queue = options_.broken ? idle_ : lane.queue;
        for (unsigned i = 0; i < batch.count; i++) {
            must(vram_free(batch.blocks[i], queue), "vram_free");
        }
    }

    void work(const Lane &lane, unsigned bytes, vram_point &point) {
        Batch batch = {};
        uint64_t from_others = 0;
        take(batch, bytes, lane, from_others);
        if (batch.count == 0) {
            std::this_thread::yield(); /* the others have it all */
            return;
        }
        batch.words = bytes / 4;
        batch.tag = tags_.fetch_add(batch.count);
        batch.ticks = static_cast<unsigned>(options_.ticks);
        must(launch_writers(batch, verdict_, lane.stream), "launch");
        give(batch, lane);
        cudaError_t state = cudaStreamQuery(lane.stream);
        if (state != cudaErrorNotReady) {
            must(state, "cudaStreamQuery");
        }
        running_ += state == cudaErrorNotReady ? batch.count : 0;
        handouts_ += batch.count;
        other_stream_ += from_others;
        launches_++;
        must(vram_queue_mark(lane.queue, &point), "vram_queue_mark");
    }

    void live(uint64_t index) {
        uint64_t random = (options_.seed * 1000 + index) * UINT64_C(0x9e3779b97f4a7c15) | 1;
        std::vector<vram_point> points(options_.depth, vram_point{nullptr, 0});
        must(cudaSetDevice(0), "cudaSetDevice");
        for (uint64_t turn = 0; !is_over(); turn++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            const Lane &lane = lanes_[index * options_.streams + random % options_.streams];
            vram_point &point = points[turn % points.size()];
            must(vram_point_wait(point, VRAM_TIMEOUT_DEFAULT), "vram_point_wait");
            work(lane, sizes[(random >> 32) % size_count], point);
        }
    }

    const Options options_;
    std::unique_ptr<std::atomic<uint32_t>[]> owners_;
    std::vector<Lane> lanes_;
    vram_context *context_ = nullptr;
    vram_device *device_ = nullptr;
    vram_pool *pool_ = nullptr;
    vram_queue *idle_ = nullptr;
    Verdict *verdict_ = nullptr;
    std::atomic<uint64_t> handouts_{0}, other_stream_{0}, running_{0}, refused_{0}, launches_{0};
    std::atomic<uint32_t> tags_{1};
    double start_ = 0, seconds_ = 0;
};

bool parse(int count, char **words, Options &options) {
    const struct {
        const char *flag;
        uint64_t *place;
    } numbers[] = {{"--handouts", &options.handouts}, {"--seconds", &options.seconds},
                   {"--threads", &options.threads},   {"--streams", &options.streams},
                   {"--depth", &options.depth},       {"--ticks", &options.ticks},
                   {"--memory", &options.memory},     {"--seed", &options.seed}};
    for (int i = 1; i < count; i++) {
        bool known = std::strcmp(words[i], "--broken") == 0;
        options.broken = options.broken || known;
        if (std::strcmp(words[i], "--backend") == 0 && i + 1 < count) {
            options.backend = words[++i];
            known = true;
        }
        for (const auto &number : numbers) {
            if (!known && i + 1 < count && std::strcmp(words[i], number.flag) == 0) {
                char *rest = nullptr;
                *number.place = std::strtoull(words[++i], &rest, 10);
                known = *rest == 0 && *number.place > 0;
                break;
            }
        }
        if (!known) {
            return false;
        }
    }
    return true;
}

} // namespace

int main(int count, char **words) {
    Options options;
    if (!parse(count, words, options)) {
        std::fprintf(stderr, "usage: handout_cuda [--handouts N] [--seconds S] [--threads T] "
                             "[--streams Q] [--depth D] [--ticks C] [--memory MIB] [--seed S] "
                             "[--broken]\n");
        return 2;
    }
    faults_expected = options.broken;
    auto test = std::make_unique<Test>(options);
    test->begin();
    test->run();
    return test->end() ? 0 : 1;
}

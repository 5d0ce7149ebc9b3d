/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared_blocks_test: blocks that other processes open (adapters/pytorch/shared_blocks.h), without
 * PyTorch and without a GPU. The tests open what they export in the same process.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <unistd.h>
#include <vram/vram.h>

#include "shared_blocks.h"

using namespace vram_torch;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "%s:%d: %s is false; last error: %s\n", __FILE__, __LINE__,       \
                         #condition, vram_error_get()->text);                                      \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

static const uint64_t MIB = UINT64_C(1) << 20;

/* A pool whose memory can be exported, and its live blocks in the order of addresses. */
struct World {
    vram_context *context = nullptr;
    vram_device *device = nullptr;
    vram_queue *queue = nullptr;
    vram_pool *pool = nullptr;
    std::map<uintptr_t, uint64_t> live;
    ExportedBlocks exported;
    OpenedBlocks opened;

    explicit World(bool exportable) {
        vram_context_options options = {};
        options.size = sizeof options;
        options.backends = "host";
        CHECK(vram_option_set("exportable", exportable ? "on" : "off") == VRAM_OK);
        CHECK(vram_context_create(&options, &context) == VRAM_OK);
        CHECK(vram_device_open(context, 0, &device) == VRAM_OK);
        CHECK(vram_queue_create(device, nullptr, &queue) == VRAM_OK);
        CHECK(vram_pool_create(device, nullptr, &pool) == VRAM_OK);
    }
    ~World() { vram_context_destroy(context); }

    uintptr_t alloc(uint64_t bytes) {
        vram_addr addr = 0;
        CHECK(vram_alloc(pool, bytes, queue, &addr) == VRAM_OK);
        live[static_cast<uintptr_t>(addr)] = bytes;
        return static_cast<uintptr_t>(addr);
    }
    void free(uintptr_t addr) {
        exported.freed(addr);
        CHECK(vram_free(addr, queue) == VRAM_OK);
        live.erase(addr);
    }
    vram_status send(uintptr_t addr, SharedPart *part) {
        auto neighbours = [&] {
            std::vector<Neighbour> list;
            for (auto it = live.upper_bound(addr); it != live.end(); ++it) {
                list.push_back(Neighbour{it->first, it->second});
            }
            return list;
        };
        return exported.send(addr, live[addr], neighbours, part);
    }
    std::shared_ptr<void> open(const SharedPart &part) {
        vram_status status = VRAM_OK;
        std::shared_ptr<void> memory = opened.open(device, part, &status);
        CHECK(status == VRAM_OK && memory != nullptr);
        return memory;
    }
    uint64_t shared_bytes() {
        vram_pool_stats stats = {};
        stats.size = sizeof stats;
        CHECK(vram_pool_stats_get(pool, &stats) == VRAM_OK);
        return stats.shared_bytes;
    }
};

static void many_blocks_are_few_exports() {
    World world(true);
    std::vector<uintptr_t> blocks;
    std::vector<std::shared_ptr<void>> memory;
    for (size_t i = 0; i < 1000; i++) {
        blocks.push_back(world.alloc(512 + i * 97));
        std::memset(reinterpret_cast<void *>(blocks[i]), static_cast<int>(i), 512);
    }
    for (uintptr_t block : blocks) {
        SharedPart part, again;
        CHECK(world.send(block, &part) == VRAM_OK && world.send(block, &again) == VRAM_OK);
        CHECK(part.index == again.index && std::memcmp(&part.token, &again.token, 64) == 0);
        memory.push_back(world.open(part));
    }
    CHECK(world.exported.exports() < 40 && world.exported.any());
    for (size_t i = 0; i < 1000; i++) { /* the same pages at another address */
        CHECK(memory[i].get() != reinterpret_cast<void *>(blocks[i]));
        CHECK(static_cast<unsigned char *>(memory[i].get())[511] == static_cast<unsigned char>(i));
    }
    for (uintptr_t block : blocks) {
        world.free(block);
    }
    CHECK(!world.exported.any() && world.exported.exports() == 0);
    CHECK(static_cast<unsigned char *>(memory[7].get())[511] == 7); /* its readers keep it */
    memory.clear();
    CHECK(world.shared_bytes() == 0);
}

/* An export lasts as long as what was sent, not as long as its neighbours. */
static void neighbours_do_not_hold_an_export() {
    World world(true);
    uintptr_t first = world.alloc(4096), second = world.alloc(4096), third = world.alloc(4096);
    SharedPart part;
    CHECK(world.send(std::min(first, second), &part) == VRAM_OK);
    CHECK(world.exported.exports() == 1);
    world.free(third);
    CHECK(world.exported.exports() == 1);
    CHECK(world.send(std::max(first, second), &part) == VRAM_OK); /* it is there already */
    CHECK(world.exported.exports() == 1);
    world.free(first);
    CHECK(world.exported.exports() == 1);
    world.free(second);
    CHECK(world.exported.exports() == 0 && world.shared_bytes() == 0);
}

static void what_cannot_be_shared_says_so() {
    World plain(false);
    SharedPart part = {};
    vram_status status = VRAM_OK;
    uintptr_t block = plain.alloc(MIB);
    CHECK(plain.send(block, &part) == VRAM_ERR_INVALID && !plain.exported.any());
    CHECK(plain.opened.open(plain.device, part, &status) == nullptr && status == VRAM_ERR_INVALID);
    World world(true);
    block = world.alloc(MIB);
    CHECK(world.send(block, &part) == VRAM_OK);
    part.index = 1000;
    CHECK(world.opened.open(world.device, part, &status) == nullptr && status == VRAM_ERR_INVALID);
    world.free(block);
    part.index = 0;
    CHECK(world.opened.open(world.device, part, &status) == nullptr && status == VRAM_ERR_STALE);
    plain.free(plain.live.begin()->first);
}

static void threads_send_and_free() {
    World world(true);
    auto work = [&] {
        for (int i = 0; i < 200; i++) {
            vram_addr addr = 0;
            SharedPart part;
            CHECK(vram_alloc(world.pool, 4096, nullptr, &addr) == VRAM_OK);
            auto none = [] { return std::vector<Neighbour>(); };
            CHECK(world.exported.send(addr, 4096, none, &part) == VRAM_OK);
            world.open(part);
            world.exported.freed(addr);
            CHECK(vram_free(addr, nullptr) == VRAM_OK);
        }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++) {
        threads.emplace_back(work);
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    CHECK(!world.exported.any() && world.shared_bytes() == 0);
}

int shared_blocks_test();

int shared_blocks_test() {
    char folder[] = "/tmp/vram-test-XXXXXX";
    CHECK(mkdtemp(folder) != nullptr && setenv("VRAM_SHARE_DIR", folder, 1) == 0);
    many_blocks_are_few_exports();
    neighbours_do_not_hold_an_export();
    what_cannot_be_shared_says_so();
    threads_send_and_free();
    std::string command = std::string("rm -rf ") + folder;
    CHECK(std::system(command.c_str()) == 0);
    std::puts("shared_blocks_test: all passed");
    return 0;
}

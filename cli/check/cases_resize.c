/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_resize.c: blocks of a pool grow and shrink where they are.
 */
#include "case.h"

#define MIB (UINT64_C(1) << 20)

static const uint32_t kinds[] = {0, VRAM_POOL_SEGMENTS, VRAM_POOL_DETERMINISTIC};

/* A block grows by what is mapped behind it, gives it back, and has it again: the address stays,
   and so does what it contains. */
static bool in_place(struct check *check) {
    static const uint64_t sizes[] = {5 * MIB + 4, 900, 9 * MIB, 9 * MIB + 1, 3 * MIB};
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_addr addr, small;
    bool done;

    CHECK_NEEDS(check, VRAM_CAP_VMM);
    CHECK_NEEDS_POOLS(check);
    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_STOCK(check, device, NULL, &stock);
    CHECK_TAKE(check, &stock, 4096, queue, &small);
    CHECK_TAKE(check, &stock, MIB, queue, &addr);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_note(check, "size %llu", (unsigned long long)sizes[i]);
        CHECK_RESIZE(check, &stock, addr, sizes[i], &done);
        CHECK_THAT(check, done); /* nothing else is there */
        CHECK_STOCK_VERIFY(check, &stock);
    }
    CHECK_GIVE(check, &stock, addr, queue);
    CHECK_WAIT(check, queue);
    CHECK_STOCK_OK(check, &stock, vram_pool_trim(stock.pool, NULL, NULL));
    CHECK_STOCK_VERIFY(check, &stock);
    return true;
}

/* Among other blocks it grows where there is room, and is untouched where there is none. */
static bool among_others(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_addr addr;
    bool done;

    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
        vram_pool_options options = {.size = sizeof options, .flags = kinds[kind]};
        uint32_t rounds = check_rounds(check, 60), grown = 0;
        check_note(check, "pool %u", (unsigned)kind);
        CHECK_OPEN(check, &device);
        CHECK_QUEUE(check, device, &queue);
        CHECK_STOCK(check, device, &options, &stock);
        for (uint32_t i = 0; i < 6; i++) {
            CHECK_TAKE(check, &stock, i % 2 ? 700 + i : 200000 + i, queue, &addr);
        }
        for (uint32_t i = 0; i < rounds; i++) {
            const struct check_block *block = &stock.blocks[check_random(check, stock.count)];
            uint64_t size = 1 + check_random(check, i % 4 ? 4096 : 3 * MIB);
            bool grows = size > block->size;
            CHECK_RESIZE(check, &stock, block->addr, size, &done);
            grown += done && grows;
        }
        CHECK_STOCK_VERIFY(check, &stock);
        CHECK_THAT(check, grown > 0 || rounds < 20);
        while (stock.count > 0) {
            CHECK_GIVE(check, &stock, stock.blocks[0].addr, queue);
        }
        CHECK_STOCK_VERIFY(check, &stock);
        check_close(device);
    }
    return true;
}

/* What cannot be resized says so and is as it was. */
static bool mistakes(struct check *check) {
    struct check_device *device;
    struct check_stock stock;
    vram_queue *queue;
    vram_addr addr;
    bool done;

    CHECK_OPEN(check, &device);
    CHECK_QUEUE(check, device, &queue);
    CHECK_STOCK(check, device, NULL, &stock);
    CHECK_TAKE(check, &stock, 8192, queue, &addr);
    CHECK_STOCK_REFUSES(check, &stock, vram_resize(addr + 512, 100, queue), VRAM_ERR_INVALID);
    CHECK_STOCK_REFUSES(check, &stock, vram_resize(0, 100, queue), VRAM_ERR_INVALID);
    CHECK_STOCK_REFUSES(check, &stock, vram_resize(addr, UINT64_MAX, queue), VRAM_ERR_OVERFLOW);
    CHECK_OK(check, vram_pin(addr));
    CHECK_RESIZE(check, &stock, addr, 100, &done); /* keeps its memory, and is smaller */
    vram_block_info info = {.size = sizeof info};
    CHECK_OK(check, vram_block_info_get(addr, &info));
    CHECK_EQUAL(check, info.held_bytes, 8192);
    CHECK_OK(check, vram_unpin(addr));
    CHECK_GIVE(check, &stock, addr, queue);
    CHECK_STOCK_REFUSES(check, &stock, vram_resize(addr, 100, queue), VRAM_ERR_INVALID);
    return true;
}

const struct check_case check_cases_resize[] = {
    {"resize.in_place", "a block grows and shrinks where it is, and keeps its contents", in_place},
    {"resize.among_others", "blocks grow among others where there is room, and nowhere else",
     among_others},
    {"resize.mistakes", "only live blocks are resized, and pinned memory stays", mistakes},
    {NULL, NULL, NULL},
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_live_page.c: whatever a live page contains, it is refused with a reason, or what its reader
 * shows is safe: rows inside, texts that end and have no control characters, numbers in their
 * bounds. The first eight bytes of a page are set, so that the mutations get further.
 */
#include "fuzz.h"

#include "live/page_view.h"

#include <string.h>
#include <vram/pressure.h>

static const char fuzz_words[] =
    " \x10\x06 \xff\xff\xff\xff \xf8\x00 \x10\x01 \xa8\x00 \x40 \x1b[2J";

static void text_check(const char *text, size_t capacity) {
    FUZZ_EXPECT(memchr(text, 0, capacity) != NULL);
    for (; *text; text++) {
        FUZZ_EXPECT((unsigned char)*text >= 0x20 && *text != 0x7f);
    }
}

static void numbers_check(const uint64_t *first, const uint64_t *last) {
    for (; first <= last; first++) {
        FUZZ_EXPECT(*first <= PAGE_NUMBER_MAX || *first == VRAM_LIVE_PAGE_UNKNOWN);
    }
}

static void rows_check(const struct page_view *view) {
    const vram_live_page *head = &view->head;
    for (uint32_t i = 0; i < head->devices.count; i++) {
        const vram_live_page_device *device = &view->devices[i];
        text_check(device->name, sizeof device->name);
        text_check(device->backend, sizeof device->backend);
        text_check(device->pci, sizeof device->pci);
        numbers_check(&device->pressure_millionths, &device->pools);
        FUZZ_EXPECT(vram_pressure_level_name((vram_pressure_level)device->pressure_level)[0]);
    }
    for (uint32_t i = 0; i < head->pools.count; i++) {
        const vram_live_page_pool *pool = &view->pools[i];
        text_check(pool->name, sizeof pool->name);
        numbers_check(&pool->counts.held_bytes, &pool->counts.free_rate);
        FUZZ_EXPECT(pool->device < head->devices.count || pool->device == UINT32_MAX);
    }
    for (uint32_t i = 0; i < head->tags.count; i++) {
        const vram_live_page_tag *tag = &view->tags[i];
        text_check(tag->name, sizeof tag->name);
        numbers_check(&tag->used_bytes, &tag->refusals);
        FUZZ_EXPECT(tag->device < head->devices.count || tag->device == UINT32_MAX);
    }
    for (uint32_t i = 0; i < head->refusals.count; i++) {
        const vram_live_page_refusal *refusal = &view->refusals[i];
        text_check(refusal->pool, sizeof refusal->pool);
        text_check(refusal->tag, sizeof refusal->tag);
        text_check(refusal->text, sizeof refusal->text);
    }
}

/* A page whose table descriptions come from the input. */
static void page_check(const uint8_t *data, size_t bytes) {
    static uint8_t page[1 << 16];
    struct page_view view;
    const char *problem;
    vram_live_page head;
    bytes = bytes < sizeof page ? bytes : sizeof page;
    memcpy(page, data, bytes);
    if (bytes >= sizeof head) {
        memcpy(&head, page, sizeof head);
        head.magic = data[0] & 1 ? VRAM_LIVE_PAGE_MAGIC : head.magic;
        head.version = data[0] & 2 ? VRAM_LIVE_PAGE_VERSION : head.version;
        head.page_bytes = data[0] & 4 ? (uint32_t)bytes : head.page_bytes;
        memcpy(page, &head, sizeof head);
    }
    enum page_state state = page_take(page, bytes, &view, &problem);
    FUZZ_EXPECT((state == PAGE_WRONG || state == PAGE_FAILED) == (problem != NULL));
    if (state == PAGE_READ) {
        text_check(view.head.command, sizeof view.head.command);
        text_check(view.head.library, sizeof view.head.library);
        numbers_check(&view.head.sum.held_bytes, &view.head.sum.free_rate);
        numbers_check(view.head.causes, view.head.causes + VRAM_LIVE_PAGE_CAUSES - 1);
        rows_check(&view);
    }
    page_view_free(&view);
}

static int fuzz_take(const uint8_t *data, size_t bytes) {
    if (bytes > 0) {
        page_check(data, bytes);
    }
    return 0;
}

FUZZ_TARGET(live_page, .most = 1 << 16)

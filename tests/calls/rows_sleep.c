/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_sleep.c: pools that sleep and wake with blocks of several tags: one that could not fall
 * asleep is awake with its contents, and one that could not wake is asleep with them.
 */
#include "calls/call_table.h"

#include <string.h>

enum { BLOCKS = 4, MOST = 130 * 1024 };

static const uint64_t sizes[BLOCKS] = {96 * 1024, 20 * 1024, MOST, 64 * 1024};
static const char *const tags[BLOCKS] = {"model/a", "cache", "model/b", NULL};

static vram_status four_blocks(struct world *w) {
    vram_status status = VRAM_OK;
    for (int i = 0; i < BLOCKS && status == VRAM_OK; i++) {
        vram_alloc_options options = {.size = sizeof options, .tag = tags[i]};
        status = vram_alloc_with(w->pool, sizes[i], w->queue, &options, &w->blocks[i]);
        status = status ? status
                        : vram_queue_fill(w->queue, w->blocks[i], 0x40 + (uint32_t)i, 1, sizes[i]);
    }
    return status ? status : vram_queue_wait(w->queue, VRAM_TIMEOUT_DEFAULT);
}

static vram_status four_asleep(struct world *w, vram_sleep_contents contents, const char *tag) {
    vram_sleep_options options = {.size = sizeof options, .contents = contents, .tag = tag};
    vram_status status = four_blocks(w);
    return status ? status : vram_pool_sleep(w->pool, &options);
}

/* Awake, with their contents, except those that were dropped. */
static vram_status blocks_hold(struct world *w, const char *dropped) {
    static unsigned char found[MOST];
    vram_status status = VRAM_OK;
    for (int i = 0; i < BLOCKS && status == VRAM_OK; i++) {
        if (dropped && tags[i] && strncmp(tags[i], dropped, strlen(dropped)) == 0) {
            continue;
        }
        status = vram_queue_download(w->queue, found, w->blocks[i], sizes[i]);
        status = status ? status : vram_queue_wait(w->queue, VRAM_TIMEOUT_DEFAULT);
        if (status == VRAM_OK &&
            (found[0] != 0x40 + i || memcmp(found, found + 1, sizes[i] - 1) != 0)) {
            status = VRAM_ERR_CORRUPT;
        }
    }
    return status;
}

enum { ANSWERS = ROW_USES_QUEUE | ROW_BUSY | ROW_INVALID | ROW_CHECKS };

static vram_status sleep_and_wake(struct world *w, vram_sleep_contents contents, const char *tag) {
    vram_sleep_options options = {.size = sizeof options, .contents = contents, .tag = tag};
    vram_status status = four_blocks(w);
    status = status ? status : TRY(vram_pool_sleep, w->pool, &options);
    vram_status woken = vram_pool_wake(w->pool, NULL);
    status = status ? status : woken;
    return status ? status : blocks_hold(w, contents == VRAM_SLEEP_DROP ? tag : NULL);
}

CALL_AS(vram_pool_sleep, contents, POOL, ANSWERS | ROW_LOSES) {
    return sleep_and_wake(w, VRAM_SLEEP_HOST, NULL);
}

CALL_AS(vram_pool_sleep, pinned, POOL, ANSWERS | ROW_LOSES) {
    return sleep_and_wake(w, VRAM_SLEEP_PINNED, NULL);
}

CALL_AS(vram_pool_sleep, tag, POOL, ANSWERS | ROW_LOSES) {
    return sleep_and_wake(w, VRAM_SLEEP_HOST, "model");
}

CALL_AS(vram_pool_sleep, dropped, POOL, ANSWERS | ROW_LOSES) {
    return sleep_and_wake(w, VRAM_SLEEP_DROP, "model");
}

CALL_AS(vram_pool_wake, contents, POOL, ANSWERS) {
    vram_status status = four_asleep(w, VRAM_SLEEP_HOST, NULL);
    status = status ? status : TRY(vram_pool_wake, w->pool, NULL);
    return status ? status : blocks_hold(w, NULL);
}

CALL_AS(vram_pool_wake, pinned, POOL, ANSWERS) {
    vram_status status = four_asleep(w, VRAM_SLEEP_PINNED, NULL);
    status = status ? status : TRY(vram_pool_wake, w->pool, NULL);
    return status ? status : blocks_hold(w, NULL);
}

CALL_AS(vram_pool_wake, tag, POOL, ANSWERS) {
    vram_status status = four_asleep(w, VRAM_SLEEP_HOST, NULL);
    status = status ? status : TRY(vram_pool_wake, w->pool, OR_NULL("model"));
    vram_status woken = vram_pool_wake(w->pool, NULL);
    status = status ? status : woken == VRAM_ERR_INVALID ? VRAM_OK : woken;
    return status ? status : blocks_hold(w, NULL);
}

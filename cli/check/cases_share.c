/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_share.c: memory that several processes use. Both sides are in this process, on two handles
 * of the device, so that the suite needs no second program; the library does not tell one process
 * from two.
 */
#include "case.h"

#include <stdio.h>

enum { PATTERN = 0x51525354, CANARY = 0x0badcafe, BYTES = 70000 };

/* One side that exports, and one that opens. */
struct sides {
    struct check_device *owner, *reader;
    vram_queue *queue, *other;
    vram_pool *pool;
    uint64_t granule;
};

static bool sides_make(struct check *check, uint32_t flags, struct sides *sides) {
    vram_pool_options options = {.size = sizeof options, .flags = flags, .name = "shared"};
    CHECK_OPEN(check, &sides->owner);
    CHECK_OPEN(check, &sides->reader);
    CHECK_QUEUE(check, sides->owner, &sides->queue);
    CHECK_QUEUE(check, sides->reader, &sides->other);
    sides->owner->unledgered = sides->reader->unledgered = true;
    const vram_device_info *info = &sides->owner->info;
    bool maps = info->caps & info->caps_known & VRAM_CAP_VMM;
    sides->granule = maps ? info->vmm_granule.value : info->alloc_granule.value;
    vram_status status = vram_pool_create(sides->owner->device, &options, &sides->pool);
    if (status == VRAM_ERR_UNSUPPORTED) {
        return check_skip(check, "the driver exports no memory");
    }
    CHECK_OK(check, status);
    return true;
}

static bool block_make(struct check *check, struct sides *sides, uint64_t bytes, uint32_t pattern,
                       vram_addr *addr) {
    CHECK_OK(check, vram_alloc(sides->pool, bytes, sides->queue, addr));
    CHECK_OK(check, vram_queue_fill(sides->queue, *addr, pattern, 4, bytes / 4 * 4));
    CHECK_WAIT(check, sides->queue);
    return true;
}

/* Whether a directory for sockets can be used is the machine's affair. */
static bool share_make(struct check *check, const vram_addr *blocks, uint32_t count, uint32_t flags,
                       vram_share **share, vram_share_token *token) {
    vram_share_options options = {.size = sizeof options, .flags = flags};
    vram_status status = vram_share_export(blocks, count, &options, share);
    if (status == VRAM_ERR_IO && !check_driver_failed(check)) {
        return check_skip(check, "%s", vram_error_get()->text);
    }
    CHECK_OK(check, status);
    CHECK_OK(check, vram_share_token_get(*share, token));
    return true;
}

/* How many words there are that `value`. */
static bool words_count(struct check *check, vram_queue *queue, vram_addr addr, uint64_t bytes,
                        uint32_t value, uint64_t *count) {
    void *memory;
    CHECK_TRY(check_host(check, bytes, &memory));
    CHECK_OK(check, vram_queue_download(queue, memory, addr, bytes));
    CHECK_WAIT(check, queue);
    const uint32_t *words = memory;
    *count = 0;
    for (uint64_t i = 0; i < bytes / 4; i++) {
        *count += words[i] == value;
    }
    return true;
}

/* -------------------------------------------------------------------- cases */

static bool contents(struct check *check) {
    struct sides sides;
    vram_share *share, *opened;
    vram_share_token token;
    vram_share_part part;
    vram_addr addr;
    uint64_t count;

    CHECK_TRY(sides_make(check, VRAM_POOL_SHAREABLE, &sides));
    uint64_t bytes = sides.granule + BYTES;
    CHECK_TRY(block_make(check, &sides, bytes, PATTERN, &addr));
    CHECK_TRY(share_make(check, &addr, 1, 0, &share, &token));
    CHECK_OK(check, vram_share_open(sides.reader->device, &token, NULL, &opened));
    CHECK_OK(check, vram_share_parts_get(opened, 0, 1, &part));
    CHECK_EQUAL(check, part.bytes, bytes);
    CHECK_TRY(words_count(check, sides.other, part.addr, bytes, PATTERN, &count));
    CHECK_EQUAL(check, count, bytes / 4);
    CHECK_OK(check, vram_queue_fill(sides.other, part.addr, ~(uint32_t)PATTERN, 4, bytes));
    CHECK_WAIT(check, sides.other);
    CHECK_TRY(words_count(check, sides.queue, addr, bytes, ~(uint32_t)PATTERN, &count));
    CHECK_EQUAL(check, count, bytes / 4);
    CHECK_OK(check, vram_share_close(opened));
    CHECK_STATUS(check, vram_queue_fill(sides.other, part.addr, 0, 4, 4), VRAM_ERR_INVALID);
    CHECK_OK(check, vram_share_close(share));
    return true;
}

/* What lies before, behind and earlier in the memory of a block is not in what is opened. */
static bool whole_handles(struct check *check) {
    struct sides sides;
    vram_share *share, *opened;
    vram_share_token token;
    vram_share_part part;
    vram_share_info info = {.size = sizeof info};
    vram_addr before, addr, behind;
    uint64_t count;

    CHECK_TRY(sides_make(check, VRAM_POOL_SHAREABLE, &sides));
    CHECK_TRY(block_make(check, &sides, sides.granule, (uint32_t)CANARY, &before));
    CHECK_OK(check, vram_free(before, sides.queue));
    CHECK_OK(check, vram_pool_trim(sides.pool, NULL, NULL));
    CHECK_TRY(block_make(check, &sides, BYTES, (uint32_t)CANARY, &before));
    CHECK_TRY(block_make(check, &sides, BYTES, PATTERN, &addr));
    CHECK_TRY(block_make(check, &sides, BYTES, (uint32_t)CANARY, &behind));
    CHECK_TRY(share_make(check, &addr, 1, 0, &share, &token));
    CHECK_OK(check, vram_share_open(sides.reader->device, &token, NULL, &opened));
    CHECK_OK(check, vram_share_parts_get(opened, 0, 1, &part));
    CHECK_OK(check, vram_share_info_get(opened, &info));
    CHECK_EQUAL(check, info.handles, 1);
    CHECK_EQUAL(check, info.bytes, (BYTES + sides.granule - 1) / sides.granule * sides.granule);
    vram_addr base = part.addr / sides.granule * sides.granule;
    CHECK_TRY(words_count(check, sides.other, base, info.bytes, (uint32_t)CANARY, &count));
    CHECK_EQUAL(check, count, 0);
    CHECK_TRY(words_count(check, sides.other, part.addr, BYTES, PATTERN, &count));
    CHECK_EQUAL(check, count, BYTES / 4);
    return true;
}

static bool group(struct check *check) {
    enum { BLOCKS = 300 };
    struct sides sides;
    vram_share *share, *opened;
    vram_share_token token;
    static vram_addr blocks[BLOCKS];
    static vram_share_part parts[BLOCKS];
    vram_share_info info = {.size = sizeof info};

    CHECK_TRY(sides_make(check, VRAM_POOL_SHARE_GROUP, &sides));
    for (uint32_t i = 0; i < BLOCKS; i++) {
        CHECK_OK(check, vram_alloc(sides.pool, 600 + i, sides.queue, &blocks[i]));
        CHECK_OK(check, vram_queue_fill(sides.queue, blocks[i], i, 4, 600));
    }
    CHECK_WAIT(check, sides.queue);
    CHECK_TRY(share_make(check, blocks, BLOCKS, 0, &share, &token));
    CHECK_OK(check, vram_share_open(sides.reader->device, &token, NULL, &opened));
    CHECK_OK(check, vram_share_parts_get(opened, 0, BLOCKS, parts));
    CHECK_OK(check, vram_share_info_get(opened, &info));
    CHECK_THAT(check, !check_pools() || info.handles < BLOCKS / 4);
    for (uint32_t i = 0; i < BLOCKS; i += check_rounds(check, 30) < 30 ? 60 : 7) {
        uint64_t count;
        CHECK_EQUAL(check, parts[i].bytes, 600 + i);
        CHECK_TRY(words_count(check, sides.other, parts[i].addr, 600, i, &count));
        CHECK_EQUAL(check, count, 150);
    }
    CHECK_OK(check, vram_share_close(opened));
    return true;
}

/* What is exported stays awake, and what sleeps comes back as it was. */
static bool sleeps(struct check *check) {
    const vram_sleep_options keep = {.size = sizeof keep, .contents = VRAM_SLEEP_HOST};
    struct sides sides;
    vram_share *share, *opened, *none = NULL;
    vram_share_token token;
    vram_share_part part;
    vram_addr addr, beside;
    uint64_t count;

    CHECK_NEEDS(check, VRAM_CAP_VMM);
    CHECK_NEEDS_OWN_MEMORY(check);
    CHECK_TRY(sides_make(check, VRAM_POOL_SHAREABLE, &sides));
    CHECK_TRY(block_make(check, &sides, BYTES, PATTERN, &addr));
    CHECK_TRY(block_make(check, &sides, BYTES, (uint32_t)CANARY, &beside));
    CHECK_TRY(share_make(check, &addr, 1, 0, &share, &token));
    CHECK_OK(check, vram_share_open(sides.reader->device, &token, NULL, &opened));
    CHECK_OK(check, vram_share_parts_get(opened, 0, 1, &part));
    CHECK_STATUS(check, vram_pool_seal(sides.pool, NULL), VRAM_ERR_BUSY);
    CHECK_OK(check, vram_pool_sleep(sides.pool, &keep));
    CHECK_TRY(words_count(check, sides.other, part.addr, BYTES, PATTERN, &count));
    CHECK_EQUAL(check, count, BYTES / 4);
    CHECK_STATUS(check, vram_share_export(&beside, 1, NULL, &none), VRAM_ERR_BUSY);
    CHECK_STATUS(check, vram_queue_fill(sides.queue, beside, 0, 4, 4), VRAM_ERR_INVALID);
    CHECK_OK(check, vram_queue_fill(sides.other, part.addr, ~(uint32_t)PATTERN, 4, BYTES));
    CHECK_WAIT(check, sides.other);
    CHECK_OK(check, vram_pool_wake(sides.pool, NULL));
    CHECK_TRY(words_count(check, sides.queue, addr, BYTES, ~(uint32_t)PATTERN, &count));
    CHECK_EQUAL(check, count, BYTES / 4);
    CHECK_TRY(words_count(check, sides.queue, beside, BYTES, (uint32_t)CANARY, &count));
    CHECK_EQUAL(check, count, BYTES / 4);
    return true;
}

static bool read_only(struct check *check) {
    struct sides sides;
    vram_share *share, *opened;
    vram_share_token token;
    vram_share_part part;
    vram_addr addr;
    uint64_t count;

    CHECK_TRY(sides_make(check, VRAM_POOL_SHAREABLE, &sides));
    CHECK_TRY(block_make(check, &sides, BYTES, PATTERN, &addr));
    CHECK_TRY(share_make(check, &addr, 1, VRAM_SHARE_READ_ONLY, &share, &token));
    CHECK_OK(check, vram_share_open(sides.reader->device, &token, NULL, &opened));
    CHECK_OK(check, vram_share_parts_get(opened, 0, 1, &part));
    CHECK_STATUS(check, vram_queue_fill(sides.other, part.addr, 0, 4, 4), VRAM_ERR_INVALID);
    CHECK_STATUS(check, vram_queue_upload(sides.other, part.addr, &count, 4), VRAM_ERR_INVALID);
    CHECK_OK(check, vram_queue_fill(sides.queue, addr, ~(uint32_t)PATTERN, 4, BYTES));
    CHECK_WAIT(check, sides.queue);
    CHECK_TRY(words_count(check, sides.other, part.addr, BYTES, ~(uint32_t)PATTERN, &count));
    CHECK_EQUAL(check, count, BYTES / 4);
    return true;
}

/* The exporter goes first, with its pool: what was opened stays as it was. */
static bool any_order(struct check *check) {
    struct sides sides;
    vram_share *share, *opened, *again = NULL;
    vram_share_token token;
    vram_share_part part;
    vram_addr addr;
    uint64_t count;

    CHECK_TRY(sides_make(check, VRAM_POOL_SHAREABLE, &sides));
    CHECK_TRY(block_make(check, &sides, BYTES, PATTERN, &addr));
    CHECK_TRY(share_make(check, &addr, 1, 0, &share, &token));
    CHECK_OK(check, vram_share_open(sides.reader->device, &token, NULL, &opened));
    CHECK_OK(check, vram_share_parts_get(opened, 0, 1, &part));
    CHECK_OK(check, vram_share_close(share));
    CHECK_STATUS(check, vram_share_open(sides.reader->device, &token, NULL, &again),
                 VRAM_ERR_STALE);
    CHECK_OK(check, vram_pool_destroy(sides.pool));
    CHECK_TRY(words_count(check, sides.other, part.addr, BYTES, PATTERN, &count));
    CHECK_EQUAL(check, count, BYTES / 4);
    CHECK_OK(check, vram_share_close(opened));
    CHECK_THAT(check, again == NULL);
    return true;
}

/* Every byte of a token counts; one of a closed export is worth nothing. */
static bool tokens(struct check *check) {
    struct sides sides;
    vram_share *share, *opened = NULL;
    vram_share_token token;
    vram_addr addr;

    CHECK_TRY(sides_make(check, VRAM_POOL_SHAREABLE, &sides));
    CHECK_TRY(block_make(check, &sides, BYTES, PATTERN, &addr));
    CHECK_TRY(share_make(check, &addr, 1, 0, &share, &token));
    for (int i = 0; i < VRAM_SHARE_TOKEN_BYTES; i++) {
        vram_share_token bad = token;
        bad.bytes[i] ^= (uint8_t)(1 + check_random(check, 255));
        check_note(check, "byte %d", i);
        CHECK_STATUS(check, vram_share_open(sides.reader->device, &bad, NULL, &opened),
                     VRAM_ERR_INVALID);
    }
    CHECK_OK(check, vram_share_close(share));
    CHECK_STATUS(check, vram_share_open(sides.reader->device, &token, NULL, &opened),
                 VRAM_ERR_STALE);
    CHECK_THAT(check, opened == NULL);
    return true;
}

static bool time_passes(struct check *check) {
    struct sides sides;
    vram_share *share, *opened;
    vram_share_token token;
    vram_addr addr;
    uint64_t value = 0;

    CHECK_TRY(sides_make(check, VRAM_POOL_SHAREABLE, &sides));
    CHECK_TRY(block_make(check, &sides, BYTES, PATTERN, &addr));
    CHECK_TRY(share_make(check, &addr, 1, 0, &share, &token));
    CHECK_OK(check, vram_share_open(sides.reader->device, &token, NULL, &opened));
    CHECK_STATUS(check, vram_share_wait(opened, 1, 0), VRAM_ERR_TIMEOUT);
    for (uint32_t i = 1; i <= 5; i++) {
        CHECK_OK(check, vram_queue_fill(sides.queue, addr, i, 4, BYTES));
        CHECK_OK(check, vram_share_mark(share, sides.queue, &value));
        CHECK_EQUAL(check, value, i);
        CHECK_OK(check, vram_share_wait(opened, value, CHECK_DEADLINE_NS));
    }
    CHECK_OK(check, vram_share_wait(opened, 0, 0));
    return true;
}

static bool names(struct check *check) {
    struct sides sides;
    vram_share *share, *newer, *opened;
    vram_share_token token;
    vram_share_info info = {.size = sizeof info};
    vram_addr addr;
    char name[64];
    uint64_t first = 0, second = 0;

    snprintf(name, sizeof name, "vram.check/%llx", (unsigned long long)check_now());
    CHECK_TRY(sides_make(check, VRAM_POOL_SHAREABLE, &sides));
    CHECK_TRY(block_make(check, &sides, BYTES, PATTERN, &addr));
    CHECK_TRY(share_make(check, &addr, 1, 0, &share, &token));
    CHECK_TRY(share_make(check, &addr, 1, 0, &newer, &token));
    CHECK_STATUS(check, vram_share_open_name(sides.reader->device, name, NULL, &opened),
                 VRAM_ERR_INVALID);
    CHECK_OK(check, vram_share_publish(share, name, &first));
    CHECK_OK(check, vram_share_publish(newer, name, &second));
    CHECK_EQUAL(check, second, first + 1);
    CHECK_OK(check, vram_share_close(share));
    CHECK_OK(check, vram_share_open_name(sides.reader->device, name, NULL, &opened));
    CHECK_OK(check, vram_share_info_get(opened, &info));
    CHECK_EQUAL(check, info.version, second);
    CHECK_OK(check, vram_share_close(newer));
    CHECK_STATUS(check, vram_share_open_name(sides.reader->device, name, NULL, &opened),
                 VRAM_ERR_INVALID);
    return true;
}

/* --------------------------------------------------------- handles that are none */

static bool refuses(struct check *check, void *bad) {
    vram_share *share = bad;
    vram_share_token token = {{0}};
    vram_share_part part;
    vram_share_fabric fabric = {{0}};
    vram_share_info info = {.size = sizeof info};
    uint64_t value = 77;

    CHECK_REFUSED(check, vram_share_token_get(share, &token));
    CHECK_REFUSED(check, vram_share_parts_get(share, 0, 1, &part));
    CHECK_REFUSED(check, vram_share_info_get(share, &info));
    CHECK_REFUSED(check, vram_share_mark(share, NULL, &value));
    CHECK_REFUSED(check, vram_share_wait(share, 1, 0));
    CHECK_REFUSED(check, vram_share_publish(share, "name", &value));
    CHECK_REFUSED(check, vram_share_open(bad, &token, NULL, &share));
    CHECK_REFUSED(check, vram_share_fabric_get(bad, &fabric));
    CHECK_REFUSED(check, vram_share_fabric_open(bad, &fabric, NULL, &share));
    CHECK_REFUSED(check, vram_share_open_name(bad, "vram.check.none", NULL, &share));
    CHECK_EQUAL(check, vram_share_close(bad) == VRAM_OK, bad == NULL);
    CHECK_EQUAL(check, value, 77);
    return true;
}

static bool handles(struct check *check) {
    struct sides sides;
    vram_share *share;
    vram_share_token token;
    vram_addr addr;

    CHECK_TRY(refuses(check, NULL));
    CHECK_TRY(refuses(check, (void *)(uintptr_t)CHECK_CANARY));
    CHECK_TRY(refuses(check, check));
    CHECK_TRY(sides_make(check, VRAM_POOL_SHAREABLE, &sides));
    CHECK_TRY(refuses(check, sides.queue));
    CHECK_TRY(block_make(check, &sides, BYTES, PATTERN, &addr));
    CHECK_TRY(share_make(check, &addr, 1, 0, &share, &token));
    CHECK_OK(check, vram_share_close(share));
    CHECK_TRY(refuses(check, share));
    return true;
}

const struct check_case check_cases_share[] = {
    {"share.contents", "what one side writes the other reads, both ways", contents},
    {"share.whole_handles", "no byte of a neighbour is in what is opened", whole_handles},
    {"share.group", "small blocks of a group are opened in one call", group},
    {"share.sleep", "a pool sleeps around what is exported", sleeps},
    {"share.read_only", "what was exported read-only is not written", read_only},
    {"share.any_order", "the exporter ends first, and the memory stays", any_order},
    {"share.tokens", "changed and used-up tokens open nothing", tokens},
    {"share.time", "a marked point is reached when its work is complete", time_passes},
    {"share.names", "a name leads to its newest version and goes with it", names},
    {"share.handles", "handles that are none are refused", handles},
    {NULL, NULL, NULL},
};

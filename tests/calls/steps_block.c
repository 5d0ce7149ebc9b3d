/* SPDX-License-Identifier: Apache-2.0 */
/* steps_block.c: blocks of pools, and shares of them. */
#include "calls/program.h"

#include <stdlib.h>
#include <string.h>

#define LARGE_LIVE ((UINT64_C(46) << 30) / 10)
#define MIB        (UINT64_C(1) << 20)

enum {
    CEILING = 8 << 20,
    GUARDS = VRAM_POOL_ZERO_ALLOC | VRAM_POOL_ZERO_FREE | VRAM_POOL_POISON | VRAM_POOL_RED_ZONES
};

/* Tags of which the third has a quota and the fourth a ceiling of the environment's. */
enum { QUOTA = 3, CEILED = 4 };
static const char *const tags[] = {"", "a", "a/b", "quota", "ceiling"};

/* What is in a new block. */
static void contents_new(struct object *made) {
    uint32_t flags = made->parent->flags;
    bool poison = flags & VRAM_POOL_POISON;
    bool zeros = flags & VRAM_POOL_ZERO_ALLOC ||
                 (flags & VRAM_POOL_ZERO_FREE && strcmp(settings.backend, "opencl") != 0);
    if (poison ? !(flags & (VRAM_POOL_ZERO_ALLOC | VRAM_POOL_ZERO_FREE)) : zeros) {
        contents_write(&made->contents, 0,
                       (struct extent){0, made->bytes, fill_seed(poison ? 0xCD : 0, 1), 0});
    }
}

/* No live block has any of its bytes. */
static void check_place(struct run *r, unsigned slot) {
    struct object *made = OBJECT(BLOCK, slot);
    EXPECT(block[slot] && block[slot] % 256 == 0, "the address %llx is not aligned",
           (unsigned long long)block[slot]);
    for (unsigned i = 0; settings.threads == 1 && i < SLOTS_block; i++) {
        struct object *other = OBJECT(BLOCK, i);
        uint64_t bytes = other->bytes ? other->bytes : 1, mine = made->bytes ? made->bytes : 1;
        EXPECT(i == slot || !is_live(other) || block[i] >= block[slot] + mine ||
                   block[slot] >= block[i] + bytes,
               "blocks %u and %u overlap", i, slot);
    }
}

static uint64_t tag_bytes(unsigned tag, uint64_t more_each) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < SLOTS_block; i++) {
        struct object *one = OBJECT(BLOCK, i);
        sum += is_live(one) && one->kind == tag ? one->bytes + more_each : 0;
    }
    return sum;
}

static void block_made(struct run *r, const struct op *op, unsigned tag) {
    struct object *made = object_new(OBJECT(BLOCK, op->block), OBJECT(POOL, op->pool));
    made->bytes = op->bytes;
    made->home = made->last = op->queue ? OBJECT(QUEUE, op->queue) : NULL;
    made->kind = tag;
    check_place(r, op->block);
    contents_new(made);
}

/* What an allocation may return while the pool is as the model says. */
static uint64_t alloc_may(const struct run *r, const struct object *from) {
    if (!(r->may & OK)) {
        return r->may;
    }
    return from->stopped ? BUSY : r->may | pool_gives(from, BUSY);
}

/* Makes room for a large block: three quarters of the device may be live, in one pool. */
static void room_make(struct run *r, uint64_t bytes) {
    for (unsigned i = 0;; i++) {
        uint64_t live = bytes;
        for (unsigned k = 0; k < SLOTS_block; k++) {
            live += is_live(OBJECT(BLOCK, k)) ? OBJECT(BLOCK, k)->bytes : 0;
        }
        if (live <= LARGE_LIVE) {
            return;
        }
        struct op room = {.block = (uint8_t)(mix(bytes + i) % SLOTS_block)};
        if (is_live(OBJECT(BLOCK, room.block))) {
            r->may = OK;
            step_free(r, &room);
        }
    }
}

STEP(alloc) {
    uint64_t may = alloc_may(r, OBJECT(POOL, op->pool));
    if (settings.large && op->pool) {
        return;
    }
    if (settings.large) {
        room_make(r, op->bytes);
    }
    if (DO(may, vram_alloc(pool[op->pool], op->bytes, queue[op->queue], &block[op->block])) ==
        VRAM_OK) {
        block_made(r, op, 0);
    }
}

STEP(alloc_with) {
    struct object *from = OBJECT(POOL, op->pool);
    uint64_t may = alloc_may(r, from);
    unsigned tag = op->choice % (op->pool == FREE_POOL ? 5 : 3);
    bool limited = tag >= QUOTA && settings.threads == 1;
    vram_alloc_options options = {.size = sizeof options,
                                  .alignment = op->nth % 3 ? 0 : 256u << op->nth / 3 % 5,
                                  .tag = tags[tag]};
    op->bytes = tag < QUOTA ? op->bytes : op->bytes * 64 % (CEILING / 2); /* to the quota */
    may |= tag >= QUOTA && may & (OK | BUSY) ? LIMIT : 0;
    vram_status status = DO(may, vram_alloc_with(pool[op->pool], op->bytes, queue[op->queue],
                                                 &options, &block[op->block]));
    if (status == VRAM_OK) {
        block_made(r, op, tag);
        EXPECT(!options.alignment || block[op->block] % options.alignment == 0,
               "not aligned to %llu", (unsigned long long)options.alignment);
        EXPECT(!limited || tag != CEILED || tag_bytes(tag, 0) <= CEILING,
               "the tag has %llu bytes, above the environment's ceiling",
               (unsigned long long)tag_bytes(tag, 0));
    } else if (status == VRAM_ERR_LIMIT && limited && !from->count && !faults_on) {
        uint64_t most = tag_bytes(tag, 4 * MIB) + op->bytes + 4 * MIB;
        EXPECT(most > CEILING, "refused at %llu bytes of the tag", (unsigned long long)most);
    }
}

STEP(free) {
    struct object *one = OBJECT(BLOCK, op->block);
    for (; one->count && !r->loose; one->count--) {
        DO(OK, vram_unpin(block[op->block]));
    }
    /* The library knows the queues that use it: a free on one of them need not wait for the others.
     */
    bool trusts = op->queue && op->flags & 2 && settings.threads == 1;
    if (one->last && is_live(one->last) && one->last != OBJECT(QUEUE, op->queue) && !trusts) {
        if (op->queue && !order_on(r, one, op->queue)) {
            return;
        }
        if (!op->queue) {
            if (DO(OK, vram_queue_wait(queue[SLOT_OF(one->last)], VRAM_TIMEOUT_DEFAULT))) {
                return;
            }
            queue_passed(r, one->last);
        }
    }
    r->strict = strcmp(settings.mode, "off") != 0; /* no free fails because something ran out */
    vram_status status =
        DO(one->owner ? INVALID : r->may, vram_free(block[op->block], queue[op->queue]));
    r->strict = false;
    if (status == VRAM_OK) {
        object_end(r, one);
        if (settings.threads == 1 && op->flags & 1) {
            DO(INVALID, vram_free(block[op->block], queue[op->queue]));
        }
    }
}

STEP(resize) {
    struct object *one = OBJECT(BLOCK, op->block);
    bool grows = op->bytes > one->bytes;
    if (r->loose || (grows && one->portable) || !order_on(r, one, op->queue) ||
        (!op->queue && one->last && is_live(one->last))) {
        return;
    }
    uint64_t may = r->may | (one->parent->flags & GUARDS ? UNSUPPORTED : 0) |
                   (grows ? BUSY | UNSUPPORTED | EXHAUSTED : 0) | pool_awake(one->parent, BUSY);
    may = one->owner ? INVALID : may;
    if (DO(may, vram_resize(block[op->block], op->bytes, queue[op->queue])) == VRAM_OK) {
        one->bytes = op->bytes;
        contents_cut(&one->contents, one->bytes);
        one->last = op->queue ? OBJECT(QUEUE, op->queue) : one->last;
    }
}

STEP(use) {
    if (op->queue) {
        DO(r->may, vram_use(block[op->block], queue[op->queue]));
    }
}

STEP(pin) {
    struct object *one = OBJECT(BLOCK, op->block);
    if (r->loose) {
        return;
    }
    if (one->count) {
        DO(r->may, vram_unpin(block[op->block]));
        one->count--;
    } else if (DO(r->may | pool_awake(one->parent, BUSY), vram_pin(block[op->block])) == VRAM_OK) {
        one->count++;
    }
}

STEP(block_info) {
    struct object *one = OBJECT(BLOCK, op->block);
    vram_block_info info = {.size = sizeof info};
    vram_native_info native = {.size = sizeof native};
    if (DO(r->may, vram_block_info_get(block[op->block], &info)) == VRAM_OK && !r->loose) {
        expect_number(r, "bytes of the block", one->bytes, info.requested_bytes);
        EXPECT(info.held_bytes >= one->bytes && info.addr == block[op->block] &&
                   info.pool == pool[SLOT_OF(one->parent)],
               "the block is said to be another");
        answer(r, info.requested_bytes);
    }
    if (DO(r->may | pool_awake(one->parent, BUSY), vram_native(block[op->block], &native)) ==
            VRAM_OK &&
        !r->loose) {
        EXPECT(native.base <= block[op->block] && native.offset == block[op->block] - native.base,
               "vram_native has another place");
    }
}

/* --------------------------------------------------- exported, and opened again here */

STEP(share_export) {
    struct object *one = OBJECT(BLOCK, op->block);
    bool can = one->parent->flags & (VRAM_POOL_SHAREABLE | VRAM_POOL_SHARE_GROUP);
    if (op->choice % 4) {
        return;
    }
    if (QUIETLY(can ? OK | pool_awake(one->parent, BUSY) : INVALID | UNSUPPORTED,
                vram_share_export(&block[op->block], 1, NULL, &share[op->share])) == VRAM_OK) {
        struct object *made = object_new(OBJECT(SHARE, op->share), one->parent);
        made->home = one;
        made->bytes = one->bytes;
    }
}

STEP(share_open) {
    struct object *from = OBJECT(SHARE, op->share), *on = object_device(from);
    vram_share_token token;
    if (QUIETLY(OK, vram_share_token_get(share[op->share], &token)) == VRAM_OK &&
        DO(OK, vram_share_open(device[SLOT_OF(on)], &token, NULL, &opened[op->opened])) ==
            VRAM_OK) {
        struct object *made = object_new(OBJECT(OPENED, op->opened), on);
        made->home = from->home;
        made->bytes = from->bytes;
        made->portable = false;
    }
}

STEP(share_close) {
    if (DO(r->may, vram_share_close(share[op->share])) == VRAM_OK) {
        object_end(r, OBJECT(SHARE, op->share));
    }
}

STEP(opened_close) {
    if (DO(r->may, vram_share_close(opened[op->opened])) == VRAM_OK) {
        object_end(r, OBJECT(OPENED, op->opened));
    }
}

/* What was opened is the same memory: it has the contents of the block. */
STEP(share_read) {
    struct object *from = OBJECT(OPENED, op->opened), *one = from->home;
    vram_share_part part;
    if (OBJECT(QUEUE, op->queue)->parent != object_device(from) || r->loose ||
        QUIETLY(OK, vram_share_parts_get(opened[op->opened], 0, 1, &part)) != VRAM_OK) {
        return;
    }
    expect_number(r, "bytes of the part", from->bytes, part.bytes);
    if (!is_live(one) || one->bytes != from->bytes || one->bytes == 0 || one->bytes > MIB ||
        !order_on(r, one, op->queue)) {
        return;
    }
    unsigned char *bytes = malloc(one->bytes);
    if (bytes &&
        DO(OK, vram_queue_download(queue[op->queue], bytes, part.addr, part.bytes)) == VRAM_OK &&
        DO(OK, vram_queue_wait(queue[op->queue], VRAM_TIMEOUT_DEFAULT)) == VRAM_OK) {
        uint64_t bad = contents_check(&one->contents, 0, bytes, one->bytes);
        EXPECT(bad == UINT64_MAX, "what was opened differs at byte %llu", (unsigned long long)bad);
    }
    free(bytes);
}

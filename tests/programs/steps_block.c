/* SPDX-License-Identifier: Apache-2.0 */
/* steps_block.c: blocks of pools. */
#include "programs/steps.h"

#include <string.h>

#define LARGE_LIVE ((UINT64_C(46) << 30) / 10)

enum {
    CEILING = 8 << 20,
    GUARDS = VRAM_POOL_ZERO_ALLOC | VRAM_POOL_ZERO_FREE | VRAM_POOL_POISON | VRAM_POOL_RED_ZONES
};

/* What is in a new block. */
static void contents_new(struct object *made) {
    uint32_t flags = made->parent->flags;
    bool zeros = flags & VRAM_POOL_ZERO_ALLOC;
    bool fresh = flags & VRAM_POOL_ZERO_FREE && strcmp(settings.backend, "opencl") != 0;
    if (flags & VRAM_POOL_POISON && flags & (VRAM_POOL_ZERO_ALLOC | VRAM_POOL_ZERO_FREE)) {
        return;
    }
    if (flags & VRAM_POOL_POISON || zeros || fresh) {
        struct extent extent = {0, made->bytes, fill_seed(flags & VRAM_POOL_POISON ? 0xCD : 0, 1),
                                0};
        contents_write(&made->contents, 0, extent);
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
        EXPECT(i == slot || other->state != STATE_LIVE || block[i] >= block[slot] + mine ||
                   block[slot] >= block[i] + bytes,
               "blocks %u and %u overlap", i, slot);
    }
}

static uint64_t tag_bytes(unsigned tag, bool upper) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < SLOTS_block; i++) {
        struct object *one = OBJECT(BLOCK, i);
        if (one->state == STATE_LIVE && one->kind == tag) {
            sum += one->bytes + (upper ? UINT64_C(4) << 20 : 0);
        }
    }
    return sum;
}

static void block_made(struct run *r, const struct op *op, struct object *parent, unsigned on,
                       unsigned tag) {
    struct object *made = object_new(OBJECT(BLOCK, op->block), parent);
    made->bytes = op->bytes;
    made->home = made->last = on ? OBJECT(QUEUE, on) : NULL;
    made->kind = tag;
    check_place(r, op->block);
    contents_new(made);
}

/* What an allocation may return while the pool is as the model says. */
static uint64_t alloc_allowed(const struct object *from, uint64_t allowed) {
    if (!(allowed & OK)) {
        return allowed;
    }
    if (from->stopped) {
        return BUSY;
    }
    return allowed | (from->count ? EXHAUSTED : 0) | pool_awake(from, BUSY);
}

/* Makes room for a large block: three quarters of the device may be live, in one pool. */
static void room_make(struct run *r, uint64_t bytes) {
    for (unsigned i = 0;; i++) {
        uint64_t live = bytes;
        for (unsigned k = 0; k < SLOTS_block; k++) {
            live += OBJECT(BLOCK, k)->state == STATE_LIVE ? OBJECT(BLOCK, k)->bytes : 0;
        }
        if (live <= LARGE_LIVE) {
            return;
        }
        struct op room = {.block = (uint8_t)(mix(bytes + i) % SLOTS_block)};
        step_free(r, &room);
    }
}

void step_alloc(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *from = OBJECT(POOL, op->pool), *made = OBJECT(BLOCK, op->block);
    uint64_t allowed = alloc_allowed(from, ALLOWED(&skip, from));
    struct op drawn = *op;
    drawn.queue = (uint8_t)queue_for(op, from);
    op = &drawn;
    if (skip || made->state == STATE_LIVE || (settings.large && op->pool)) {
        return;
    }
    if (settings.large) {
        room_make(r, op->bytes);
    }
    if (DO(allowed, vram_alloc(pool[op->pool], op->bytes, queue[op->queue], &block[op->block])) ==
        VRAM_OK) {
        block_made(r, op, from, op->queue, 0);
    }
}

void step_alloc_with(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *from = OBJECT(POOL, op->pool), *made = OBJECT(BLOCK, op->block);
    uint64_t allowed = alloc_allowed(from, ALLOWED(&skip, from));
    struct op drawn = *op;
    drawn.queue = (uint8_t)queue_for(op, from);
    drawn.choice = op->choice % (op->pool == FREE_POOL ? 5 : 3);
    drawn.nth = op->nth % 3 ? 0 : 256u << op->nth / 3 % 5;
    drawn.bytes = drawn.choice < 3 ? op->bytes : op->bytes * 64 % (CEILING / 2); /* to the quota */
    op = &drawn;
    if (skip || made->state == STATE_LIVE) {
        return;
    }
    bool limited = op->choice >= 3 && settings.threads == 1;
    allowed |= op->choice >= 3 && allowed & (OK | BUSY) ? LIMIT : 0;
    vram_status status =
        DO(allowed, vram_alloc_with(pool[op->pool], op->bytes, queue[op->queue],
                                    &(vram_alloc_options){.size = sizeof(vram_alloc_options),
                                                          .alignment = op->nth,
                                                          .tag = tags[op->choice]},
                                    &block[op->block]));
    if (status == VRAM_OK) {
        block_made(r, op, from, op->queue, op->choice);
        EXPECT(op->nth == 0 || block[op->block] % op->nth == 0, "not aligned to %llu",
               (unsigned long long)op->nth);
        EXPECT(!limited || op->choice != 4 || tag_bytes(4, false) <= CEILING,
               "the tag has %llu bytes, above the environment's ceiling",
               (unsigned long long)tag_bytes(4, false));
    } else if (status == VRAM_ERR_LIMIT && limited && !from->count && !faults_on) {
        uint64_t most = tag_bytes(op->choice, true) + op->bytes + (UINT64_C(4) << 20);
        EXPECT(most > CEILING, "refused at %llu bytes of the tag", (unsigned long long)most);
    }
}

void step_free(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *one = OBJECT(BLOCK, op->block);
    uint64_t allowed = ALLOWED(&skip, one);
    struct op drawn = *op;
    if (skip) {
        return;
    }
    drawn.queue = (uint8_t)queue_for(op, one->parent);
    op = &drawn;
    while (one->count && !r->loose) {
        DO(OK, vram_unpin(block[op->block]));
        one->count--;
    }
    if (one->last && one->last->state == STATE_LIVE && one->last != OBJECT(QUEUE, op->queue)) {
        if (op->queue && !order_on(r, op, one, op->queue)) {
            return;
        }
        if (!op->queue) {
            drawn.other = (uint8_t)(one->last - objects[TYPE_QUEUE]);
            if (DO(OK, vram_queue_wait(queue[op->other], VRAM_TIMEOUT_DEFAULT)) != VRAM_OK) {
                return;
            }
            queue_passed(r, one->last);
        }
    }
    if (one->owner) {
        allowed = INVALID;
    }
    r->strict = strcmp(settings.mode, "off") != 0; /* no free fails because something ran out */
    vram_status status = DO(allowed, vram_free(block[op->block], queue[op->queue]));
    r->strict = false;
    if (status == VRAM_OK) {
        object_end(r, one);
        if (settings.threads == 1 && op->flags & 1) {
            DO(INVALID, vram_free(block[op->block], queue[op->queue]));
        }
    }
}

void step_resize(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *one = OBJECT(BLOCK, op->block);
    uint64_t allowed = ALLOWED(&skip, one);
    struct op drawn = *op;
    if (skip || r->loose) {
        return;
    }
    bool grows = op->bytes > one->bytes, guarded = one->parent->flags & GUARDS;
    drawn.queue = (uint8_t)queue_for(op, one->parent);
    op = &drawn;
    if ((grows && one->portable) || !order_on(r, op, one, op->queue)) {
        return;
    }
    if (!op->queue && one->last && one->last->state == STATE_LIVE) {
        return;
    }
    allowed |= guarded ? UNSUPPORTED : 0;
    allowed |= grows ? BUSY | UNSUPPORTED | EXHAUSTED : 0;
    allowed |= pool_awake(one->parent, BUSY);
    allowed = one->owner ? INVALID : allowed;
    if (DO(allowed, vram_resize(block[op->block], op->bytes, queue[op->queue])) == VRAM_OK) {
        one->bytes = op->bytes;
        contents_cut(&one->contents, one->bytes);
        one->last = op->queue ? OBJECT(QUEUE, op->queue) : one->last;
    }
}

void step_use(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *one = OBJECT(BLOCK, op->block);
    uint64_t allowed = ALLOWED(&skip, one);
    struct op drawn = *op;
    if (skip || !queue_for(op, one->parent)) {
        return;
    }
    op = &drawn;
    DO(allowed, vram_use(block[op->block], queue[op->queue]));
}

void step_pin(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *one = OBJECT(BLOCK, op->block);
    uint64_t allowed = ALLOWED(&skip, one);
    if (skip || r->loose) {
        return;
    }
    if (one->count) {
        DO(allowed, vram_unpin(block[op->block]));
        one->count--;
    } else if (DO(allowed | pool_awake(one->parent, BUSY), vram_pin(block[op->block])) == VRAM_OK) {
        one->count++;
    }
}

void step_block_info(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *one = OBJECT(BLOCK, op->block);
    uint64_t allowed = ALLOWED(&skip, one);
    vram_block_info info = {.size = sizeof info};
    vram_native_info native = {.size = sizeof native};
    if (skip) {
        return;
    }
    say(r, "vram_block_info info = {.size = sizeof info};");
    say(r, "vram_native_info native = {.size = sizeof native};");
    if (DO(allowed, vram_block_info_get(block[op->block], &info)) == VRAM_OK && !r->loose) {
        EXPECT(info.requested_bytes == one->bytes && info.held_bytes >= one->bytes &&
                   info.addr == block[op->block] &&
                   info.pool == pool[one->parent - objects[TYPE_POOL]],
               "the block of %llu bytes is said to have %llu, %llu held",
               (unsigned long long)one->bytes, (unsigned long long)info.requested_bytes,
               (unsigned long long)info.held_bytes);
        answer(r, info.requested_bytes);
    }
    if (DO(allowed | pool_awake(one->parent, BUSY), vram_native(block[op->block], &native)) ==
            VRAM_OK &&
        !r->loose) {
        EXPECT(native.base <= block[op->block] && native.offset == block[op->block] - native.base,
               "vram_native has another place");
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* steps_ring.c: rings whose kernel never comes: messages are sent until the ring is full. */
#include "programs/steps.h"

enum { CAPACITY = 8 };

void step_ring_create(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *made = OBJECT(RING, op->ring), *from = OBJECT(POOL, op->pool);
    uint64_t allowed = ALLOWED(&skip, from);
    struct op drawn = *op;
    drawn.choice = op->choice % 8 == 7   ? VRAM_RING_DMA_POLLING
                   : op->choice % 2 == 0 ? VRAM_RING_SYNC
                                         : VRAM_RING_ASYNC;
    drawn.nth = op->nth % 8 ? 64 : 65536;
    op = &drawn;
    if (skip || made->state == STATE_LIVE) {
        return;
    }
    allowed |= allowed & OK ? pool_awake(from, BUSY | INVALID) | (from->count ? EXHAUSTED : 0) : 0;
    if (DO(allowed,
           vram_ring_create(pool[op->pool],
                            &(vram_ring_options){.size = sizeof(vram_ring_options),
                                                 .strategy = (vram_ring_strategy)op->choice,
                                                 .flags = VRAM_RING_MULTI_INPUT,
                                                 .input_capacity = 8,
                                                 .output_capacity = 8,
                                                 .message_bytes = (uint32_t)op->nth},
                            &ring[op->ring])) == VRAM_OK) {
        object_new(made, from)->capacity = op->nth;
        made->kind = op->choice;
        made->portable = made->portable && op->choice != VRAM_RING_DMA_POLLING;
    }
}

static bool ring_ready(const struct op *op, uint64_t *allowed) {
    bool skip = false;
    struct object *one = OBJECT(RING, op->ring);
    *allowed = ALLOWED(&skip, one);
    *allowed |= *allowed & OK ? pool_awake(one->parent, BUSY | INVALID) : 0;
    *allowed |= *allowed & OK && one->lost ? CORRUPT : 0;
    *allowed |= *allowed & OK && faults_were ? FAULTED : 0; /* of its thread, earlier */
    return !skip;
}

void step_ring_destroy(struct run *r, const struct op *op) {
    uint64_t allowed;
    struct object *one = OBJECT(RING, op->ring);
    if (ring_ready(op, &allowed) &&
        DO(allowed & (OK | STALE), vram_ring_destroy(ring[op->ring])) == VRAM_OK) {
        object_end(r, one);
    }
}

void step_ring_send(struct run *r, const struct op *op) {
    static const unsigned char message[65536];
    uint64_t allowed;
    struct object *one = OBJECT(RING, op->ring);
    struct op drawn = *op;
    if (!ring_ready(op, &allowed)) {
        return;
    }
    drawn.bytes = op->bytes % (one->capacity + 1);
    op = &drawn;
    if (allowed & OK) {
        allowed = one->stopped ? BIT(VRAM_ERR_SHUTDOWN) : one->count >= CAPACITY ? NOT_READY : OK;
        allowed |=
            pool_awake(one->parent, BUSY | INVALID | OK | NOT_READY | BIT(VRAM_ERR_SHUTDOWN));
        allowed |= one->lost ? CORRUPT | OK | NOT_READY : 0;
        allowed |= settings.threads > 1 ? OK | NOT_READY | BIT(VRAM_ERR_SHUTDOWN) : 0;
    }
    if (DO(allowed, vram_ring_send(ring[op->ring], message, (uint32_t)op->bytes, op->choice, 0)) ==
            VRAM_OK &&
        settings.threads == 1) {
        one->count++;
    }
}

void step_ring_flush(struct run *r, const struct op *op) {
    uint64_t allowed;
    if (ring_ready(op, &allowed)) {
        DO(allowed, vram_ring_flush(ring[op->ring], NULL, NULL));
    }
}

void step_ring_fetch(struct run *r, const struct op *op) {
    uint64_t allowed;
    if (ring_ready(op, &allowed)) {
        DO(allowed, vram_ring_fetch(ring[op->ring], NULL, NULL));
    }
}

void step_ring_receive(struct run *r, const struct op *op) {
    static _Thread_local unsigned char message[65536];
    uint64_t allowed;
    if (ring_ready(op, &allowed)) {
        allowed = allowed & OK ? (allowed & ~OK) | NOT_READY : allowed;
        allowed |= settings.threads > 1 ? BUSY : 0; /* another thread is receiving */
        DO(allowed, vram_ring_receive(ring[op->ring], message, 65536, 0, NULL));
    }
}

void step_ring_stop(struct run *r, const struct op *op) {
    uint64_t allowed;
    struct object *one = OBJECT(RING, op->ring);
    if (!ring_ready(op, &allowed) || op->choice % 4) {
        return;
    }
    vram_status status = DO(allowed, vram_ring_stop(ring[op->ring]));
    if (status != VRAM_ERR_STALE && !r->loose) {
        one->stopped = true; /* after a failure, too */
    }
}

void step_ring_look(struct run *r, const struct op *op) {
    uint64_t allowed;
    struct object *one = OBJECT(RING, op->ring);
    vram_ring_stats stats = {.size = sizeof stats};
    if (!ring_ready(op, &allowed)) {
        return;
    }
    say(r, "vram_ring_stats stats = {.size = sizeof stats};");
    if (DO(allowed & (OK | STALE), vram_ring_stats_get(ring[op->ring], &stats)) == VRAM_OK &&
        !r->loose && settings.threads == 1 && !faults_were && !one->lost) {
        EXPECT(stats.sent == one->count && !stats.corrupt &&
                   stats.host_to_device_count <= stats.sent,
               "%llu messages were sent, the ring counts %llu", (unsigned long long)one->count,
               (unsigned long long)stats.sent);
    }
    DO(allowed, vram_ring_check(ring[op->ring]));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* steps_device.c: contexts, devices, queues, points, and the end of a program. */
#include "programs/steps.h"

#include <stdlib.h>
#include <string.h>

/* Texts for the simulated device: memory, and work that completes late. */
const char *const sims[] = {"memory=2G", "memory=2G,lag=20", "memory=2G,lag=200,seed=7",
                            "memory=2G,lag=50"};
static const char *const sims_segments[] = {"memory=2G,vmm=off", "memory=2G,vmm=off,lag=20",
                                            "memory=2G,vmm=off,lag=200,seed=7",
                                            "memory=2G,vmm=off,lag=50"};
#define LARGE_SIM "memory=6G"

static const char *sim_text(uint32_t choice) {
    if (settings.large) {
        return LARGE_SIM;
    }
    return strcmp(settings.mode, "segments") == 0 ? sims_segments[choice % 4] : sims[choice % 4];
}

void step_context_create(struct run *r, const struct op *op) {
    struct object *made = OBJECT(CONTEXT, 0);
    if (made->state == STATE_LIVE) {
        return;
    }
    say(r, "sim = \"%s\";", sim_text(op->choice));
    const char *sim = sim_text(op->choice), *backend = settings.backend;
    say(r, "backend = \"%s\";", backend);
    if (DO(OK, vram_context_create(&(vram_context_options){.size = sizeof(vram_context_options),
                                                           .backends = backend,
                                                           .sim = sim},
                                   &context)) == VRAM_OK) {
        object_new(made, NULL);
    }
}

void step_context_destroy(struct run *r, const struct op *op) {
    struct object *ended = OBJECT(CONTEXT, 0);
    if (ended->state == STATE_NONE || (op->choice % 16 && settings.threads == 1)) {
        return; /* rare: all else ends with it */
    }
    bool traced = OBJECT(TRACE, 0)->state == STATE_LIVE;
    struct expected expected = trace_expected(); /* the trace ends first */
    DO(ended->state == STATE_LIVE ? OK : STALE, vram_context_destroy(context));
    for (unsigned i = 1; i < SLOTS_queue && ended->state == STATE_LIVE && !r->loose; i++) {
        queue_passed(r, OBJECT(QUEUE, i));
    }
    object_end(r, ended);
    if (traced) {
        trace_ended(r, expected);
    }
}

void step_device_open(struct run *r, const struct op *op) {
    bool skip = false;
    uint64_t allowed = ALLOWED(&skip, OBJECT(CONTEXT, 0));
    struct object *made = OBJECT(DEVICE, op->device);
    if (skip || made->state == STATE_LIVE) {
        return;
    }
    if (DO(allowed, vram_device_open(context, 0, &device[op->device])) == VRAM_OK) {
        object_new(made, OBJECT(CONTEXT, 0));
    }
}

/* Copies of a thread on queues of what has just ended have completed. */
static void passed_below(struct run *r, const struct object *ended) {
    for (unsigned i = 1; i < SLOTS_queue && settings.threads == 1; i++) {
        if (object_under(OBJECT(QUEUE, i), ended)) {
            queue_passed(r, OBJECT(QUEUE, i));
        }
    }
}

void step_device_close(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *ended = OBJECT(DEVICE, op->device);
    uint64_t allowed = ALLOWED(&skip, ended);
    if (skip || op->choice % (settings.threads > 1 ? 2 : 8)) {
        return;
    }
    vram_status status = DO(allowed, vram_device_close(device[op->device]));
    if (status == VRAM_OK || settings.threads > 1) {
        passed_below(r, ended);
        object_end(r, ended);
    }
}

void step_queue_create(struct run *r, const struct op *op) {
    bool skip = op->queue == 0;
    struct object *made = OBJECT(QUEUE, op->queue), *on = OBJECT(DEVICE, op->device);
    uint64_t allowed = ALLOWED(&skip, on);
    if (skip || made->state == STATE_LIVE) {
        return;
    }
    if (DO(allowed, vram_queue_create(device[op->device], NULL, &queue[op->queue])) == VRAM_OK) {
        object_new(made, on);
    }
}

void step_queue_destroy(struct run *r, const struct op *op) {
    bool skip = op->queue == 0;
    struct object *ended = OBJECT(QUEUE, op->queue);
    uint64_t allowed = ALLOWED(&skip, ended);
    if (skip) {
        return;
    }
    vram_status status = DO(allowed, vram_queue_destroy(queue[op->queue]));
    if (status == VRAM_OK && !r->loose) {
        queue_passed(r, ended);
    }
    object_end(r, ended);
}

void step_queue_wait(struct run *r, const struct op *op) {
    bool skip = op->queue == 0;
    struct object *on = OBJECT(QUEUE, op->queue);
    uint64_t allowed = ALLOWED(&skip, on);
    if (skip) {
        return;
    }
    if (DO(allowed, vram_queue_wait(queue[op->queue], VRAM_TIMEOUT_DEFAULT)) == VRAM_OK) {
        queue_passed(r, on);
        for (unsigned i = 0; settings.threads == 1 && i < 32; i++) {
            objects[TYPE_BLOCK][i].last =
                objects[TYPE_BLOCK][i].last == on ? NULL : objects[TYPE_BLOCK][i].last;
        }
    }
}

void step_queue_poll(struct run *r, const struct op *op) {
    bool skip = op->queue == 0, portable = r->portable;
    uint64_t allowed = ALLOWED(&skip, OBJECT(QUEUE, op->queue));
    if (skip) {
        return;
    }
    r->portable = false; /* how far the device is, is no answer of the program's */
    DO(allowed | (allowed & OK ? NOT_READY : 0), vram_queue_poll(queue[op->queue]));
    r->portable = portable;
}

void step_mark(struct run *r, const struct op *op) {
    bool skip = op->queue == 0;
    struct object *on = OBJECT(QUEUE, op->queue);
    uint64_t allowed = ALLOWED(&skip, on);
    if (skip) {
        return;
    }
    if (DO(allowed, vram_queue_mark(queue[op->queue], &point[op->point])) == VRAM_OK) {
        object_new(OBJECT(POINT, op->point), NULL)->home = on;
    }
}

/* Points of a queue that has ended have passed. */
void step_point(struct run *r, const struct op *op) {
    struct object *at = OBJECT(POINT, op->point);
    if (at->state == STATE_NONE) {
        return;
    }
    bool alive = OBJECT(CONTEXT, 0)->state == STATE_LIVE;
    uint64_t gone = alive ? 0 : STALE | INVALID;
    if (op->choice % 2) {
        r->portable = false;
        DO(OK | NOT_READY | gone, vram_point_poll(point[op->point]));
    } else if (alive) {
        DO(OK, vram_point_wait(point[op->point], VRAM_TIMEOUT_DEFAULT));
    }
}

void step_after(struct run *r, const struct op *op) {
    struct object *at = OBJECT(POINT, op->point);
    bool skip = op->queue == 0;
    uint64_t allowed = ALLOWED(&skip, OBJECT(QUEUE, op->queue));
    if (skip || at->state == STATE_NONE || OBJECT(CONTEXT, 0)->state != STATE_LIVE) {
        return;
    }
    DO(allowed, vram_queue_after(queue[op->queue], point[op->point]));
}

void step_memory_info(struct run *r, const struct op *op) {
    bool skip = false;
    uint64_t allowed = ALLOWED(&skip, OBJECT(DEVICE, op->device));
    vram_memory_info info = {.size = sizeof info};
    vram_device_info described = {.size = sizeof described};
    if (skip) {
        return;
    }
    say(r, "vram_memory_info info = {.size = sizeof info};");
    say(r, "vram_device_info described = {.size = sizeof described};");
    if (DO(allowed, vram_memory_info_get(device[op->device], &info)) == VRAM_OK) {
        EXPECT((info.held_bytes <= info.held_peak_bytes || settings.threads > 1) && !info.lost,
               "memory info makes no sense");
    }
    DO(allowed, vram_device_describe(device[op->device], &described));
}

/* Pages of a program, locked and left locked for the next time. */
void step_pinned(struct run *r, const struct op *op) {
    static _Alignas(65536) unsigned char pages[THREADS_MAX][8][65536];
    bool skip = false;
    struct object *on = OBJECT(DEVICE, op->device);
    uint64_t allowed = ALLOWED(&skip, on);
    void *memory = pages[r->thread][op->choice % 8];
    if (skip) {
        return;
    }
    say(r, "memory = pages[%u];", r->thread * 8 + op->choice % 8);
    r->portable = false;
    vram_status status = DO(allowed | UNSUPPORTED | LIMIT | BIT(VRAM_ERR_HOST_MEMORY) | BUSY,
                            vram_pinned_begin(device[op->device], memory, 4096));
    if (status == VRAM_OK) {
        DO(OK, vram_pinned_end(device[op->device], memory, 4096));
    }
}

void step_trim_all(struct run *r, const struct op *op) {
    bool skip = false;
    uint64_t allowed = op->choice % 2 ? ALLOWED(&skip, OBJECT(CONTEXT, 0))
                                      : ALLOWED(&skip, OBJECT(DEVICE, op->device));
    if (skip) {
        return;
    }
    if (op->choice % 2) {
        DO(allowed | CORRUPT, vram_context_trim(context, NULL, NULL));
    } else {
        DO(allowed | CORRUPT, vram_device_trim(device[op->device], NULL, NULL));
    }
}

/* What a stream set lends is not drawn; its own calls are. */
void step_set(struct run *r, const struct op *op) {
    bool skip = false;
    struct object *self = OBJECT(SET, op->set), *on = OBJECT(DEVICE, op->device);
    uint64_t allowed = ALLOWED(&skip, on);
    if (skip) {
        return;
    }
    if (self->state != STATE_LIVE) {
        if (DO(allowed, vram_stream_set_create(device[op->device], NULL, &set[op->set])) ==
            VRAM_OK) {
            object_new(self, on);
        }
        return;
    }
    switch (op->choice % 4) {
    case 0:
        DO(OK, vram_stream_set_wait(set[op->set], VRAM_TIMEOUT_DEFAULT));
        break;
    case 1:
        DO(OK, vram_stream_set_barrier(set[op->set]));
        break;
    case 2:
        DO(OK, vram_stream_set_order(set[op->set], 0, 1));
        break;
    default:
        DO(OK, vram_stream_set_destroy(set[op->set]));
        object_end(r, self);
        break;
    }
}

/* ------------------------------------------------------------------------ the end */

#define END_ALL(TYPE, name, call)                                                                  \
    for (unsigned i = 0; i < SLOTS_##name; i++) {                                                  \
        struct op end_op = {.name = (uint8_t)i};                                                   \
        const struct op *op = &end_op;                                                             \
        if (OBJECT(TYPE, i)->state == STATE_LIVE) {                                                \
            DO(OK | STALE | (OBJECT(TYPE, i)->unsure ? INVALID : 0), call);                        \
            end_one(OBJECT(TYPE, i));                                                              \
        }                                                                                          \
    }

static void end_one(struct object *object) {
    object->state = STATE_GONE;
}

void steps_end(struct run *r) {
    for (unsigned i = 1; i < SLOTS_queue; i++) {
        struct op wait_op = {.queue = (uint8_t)i};
        const struct op *op = &wait_op;
        if (OBJECT(QUEUE, i)->state == STATE_LIVE) {
            DO(OK, vram_queue_wait(queue[op->queue], VRAM_TIMEOUT_DEFAULT));
            queue_passed(r, OBJECT(QUEUE, i));
        }
    }
    for (unsigned i = 0; i < SLOTS_pool; i++) {
        struct op wake_op = {.pool = (uint8_t)i};
        const struct op *op = &wake_op;
        if (OBJECT(POOL, i)->state == STATE_LIVE && OBJECT(POOL, i)->sleeping) {
            DO(OK | LIMIT,
               vram_pool_limits_set(pool[op->pool], &(vram_limits){.size = sizeof(vram_limits)}));
            DO(OK | INVALID | BUSY | UNSUPPORTED, vram_pool_wake(pool[op->pool], NULL));
            DO(OK | INVALID | BUSY | UNSUPPORTED | CORRUPT, vram_pool_unseal(pool[op->pool], NULL));
        }
    }
    if (OBJECT(TRACE, 0)->state == STATE_LIVE) {
        step_trace_end(r, &(struct op){.trace = 0});
        end_one(OBJECT(TRACE, 0));
    }
    END_ALL(OPENED, opened, vram_share_close(opened[op->opened]))
    END_ALL(SHARE, share, vram_share_close(share[op->share]))
    END_ALL(SET, set, vram_stream_set_destroy(set[op->set]))
    END_ALL(FEED, feed, vram_feed_destroy(feed[op->feed]))
    END_ALL(READBACK, readback, vram_readback_destroy(readback[op->readback]))
    END_ALL(RING, ring, vram_ring_destroy(ring[op->ring]))
    END_ALL(NAMED, named, vram_named_destroy(named[op->named]))
    END_ALL(BATCH, batch, vram_batch_destroy(batch[op->batch]))
    END_ALL(SCOPE, scope, vram_scope_end(scope[op->scope]))
    END_ALL(BUFFER, buffer, vram_buffer_destroy(buffer[op->buffer]))
    for (unsigned i = 0; i < SLOTS_block; i++) {
        struct op free_op = {.block = (uint8_t)i};
        const struct op *op = &free_op;
        struct object *object = OBJECT(BLOCK, i);
        while (object->state == STATE_LIVE && object->count) {
            DO(OK | (object->unsure ? INVALID : 0), vram_unpin(block[op->block]));
            object->count--;
        }
        if (object->state == STATE_LIVE && !object->owner) {
            DO(OK | (object->unsure ? INVALID : 0), vram_free(block[op->block], NULL));
        }
        object->state = STATE_GONE;
    }
    for (unsigned i = 0; i < SLOTS_async; i++) {
        vram_async_end(&async[i]);
    }
}

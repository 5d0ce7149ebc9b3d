/* SPDX-License-Identifier: Apache-2.0 */
/* steps_device.c: contexts, devices, queues, points, and the end of a program. */
#include "calls/program.h"

#include <stdio.h>
#include <string.h>

/* Texts for the simulated device: memory, and work that completes late. */
static const char *sim_text(uint32_t choice) {
    static const char *const late[] = {"", ",lag=20", ",lag=200,seed=7", ",lag=50"};
    static char text[60];
    bool segments = strcmp(settings.mode, "segments") == 0;
    snprintf(text, sizeof text, "memory=2G%s%s", segments ? ",vmm=off" : "", late[choice % 4]);
    return settings.large ? "memory=6G" : text;
}

STEP(context_create) {
    vram_context_options options = {.size = sizeof options, .backends = settings.backend};
    options.sim = sim_text(op->choice);
    if (!is_live(OBJECT(CONTEXT, 0)) &&
        DO(OK, vram_context_create(&options, &context)) == VRAM_OK) {
        object_new(OBJECT(CONTEXT, 0), NULL);
    }
}

STEP(context_destroy) {
    struct object *ended = OBJECT(CONTEXT, 0);
    if (ended->state == STATE_NONE || (op->choice % 16 && settings.threads == 1)) {
        return; /* rare: all else ends with it */
    }
    bool traced = is_live(OBJECT(TRACE, 0));
    struct expected expected = trace_expected(); /* the trace ends first */
    DO(is_live(ended) ? OK : STALE, vram_context_destroy(context));
    for (unsigned i = 1; i < SLOTS_queue && is_live(ended) && !r->loose; i++) {
        queue_passed(r, OBJECT(QUEUE, i));
    }
    object_end(r, ended);
    if (traced) {
        trace_ended(r, expected);
    }
}

STEP(device_open) {
    if (DO(r->may, vram_device_open(context, 0, &device[op->device])) == VRAM_OK) {
        object_new(OBJECT(DEVICE, op->device), OBJECT(CONTEXT, 0));
    }
}

/* Copies on queues of what ends have completed. */
STEP(device_close) {
    struct object *ended = OBJECT(DEVICE, op->device);
    if (op->choice % (settings.threads > 1 ? 2 : 8)) {
        return;
    }
    if (DO(r->may, vram_device_close(device[op->device])) != VRAM_OK && settings.threads == 1) {
        return;
    }
    for (unsigned i = 1; i < SLOTS_queue && settings.threads == 1; i++) {
        if (object_under(OBJECT(QUEUE, i), ended)) {
            queue_passed(r, OBJECT(QUEUE, i));
        }
    }
    object_end(r, ended);
}

STEP(queue_create) {
    if (op->queue &&
        DO(r->may, vram_queue_create(device[op->device], NULL, &queue[op->queue])) == VRAM_OK) {
        object_new(OBJECT(QUEUE, op->queue), OBJECT(DEVICE, op->device));
    }
}

STEP(queue_destroy) {
    struct object *ended = OBJECT(QUEUE, op->queue);
    if (DO(r->may, vram_queue_destroy(queue[op->queue])) == VRAM_OK && !r->loose) {
        queue_passed(r, ended);
    }
    object_end(r, ended);
}

STEP(queue_wait) {
    struct object *on = OBJECT(QUEUE, op->queue);
    if (DO(r->may, vram_queue_wait(queue[op->queue], VRAM_TIMEOUT_DEFAULT)) != VRAM_OK) {
        return;
    }
    queue_passed(r, on);
    for (unsigned i = 0; settings.threads == 1 && i < SLOTS_block; i++) {
        OBJECT(BLOCK, i)->last = OBJECT(BLOCK, i)->last == on ? NULL : OBJECT(BLOCK, i)->last;
    }
}

/* How far the device is, is no answer of the program's. */
STEP(queue_poll) {
    QUIETLY(r->may | (r->may & OK ? NOT_READY : 0), vram_queue_poll(queue[op->queue]));
}

STEP(mark) {
    if (DO(r->may, vram_queue_mark(queue[op->queue], &point[op->point])) == VRAM_OK) {
        object_new(OBJECT(POINT, op->point), NULL)->home = OBJECT(QUEUE, op->queue);
    }
}

/* Points of a queue that has ended have passed. */
STEP(point) {
    bool alive = is_live(OBJECT(CONTEXT, 0));
    if (OBJECT(POINT, op->point)->state == STATE_NONE) {
        return;
    }
    if (op->choice % 2) {
        QUIETLY(OK | NOT_READY | (alive ? 0 : STALE | INVALID), vram_point_poll(point[op->point]));
    } else if (alive) {
        DO(OK, vram_point_wait(point[op->point], VRAM_TIMEOUT_DEFAULT));
    }
}

STEP(after) {
    if (OBJECT(POINT, op->point)->state != STATE_NONE && is_live(OBJECT(CONTEXT, 0))) {
        DO(r->may, vram_queue_after(queue[op->queue], point[op->point]));
    }
}

STEP(memory_info) {
    vram_memory_info info = {.size = sizeof info};
    vram_device_info described = {.size = sizeof described};
    if (DO(r->may, vram_memory_info_get(device[op->device], &info)) == VRAM_OK) {
        EXPECT((info.held_bytes <= info.held_peak_bytes || settings.threads > 1) && !info.lost,
               "memory info makes no sense");
    }
    DO(r->may, vram_device_describe(device[op->device], &described));
}

/* Pages of a program, locked and left locked for the next time. */
STEP(pinned) {
    static _Alignas(65536) unsigned char pages[THREADS_MAX][8][65536];
    void *memory = pages[r->thread][op->choice % 8];
    uint64_t may = r->may | UNSUPPORTED | LIMIT | BIT(VRAM_ERR_HOST_MEMORY) | BUSY;
    if (QUIETLY(may, vram_pinned_begin(device[op->device], memory, 4096)) == VRAM_OK) {
        DO(OK, vram_pinned_end(device[op->device], memory, 4096));
    }
}

STEP(trim_all) {
    bool skip = false, all = op->choice % 2;
    struct object *of = all ? OBJECT(CONTEXT, 0) : OBJECT(DEVICE, op->device);
    uint64_t may = of_objects(&of, 1, &skip) | CORRUPT;
    if (!skip) {
        DO(may, all ? vram_context_trim(context, NULL, NULL)
                    : vram_device_trim(device[op->device], NULL, NULL));
    }
}

/* What a stream set lends is not drawn; its own calls are. */
STEP(set) {
    struct object *self = OBJECT(SET, op->set), *on = OBJECT(DEVICE, op->device);
    if (!is_live(self)) {
        if (DO(r->may, vram_stream_set_create(device[op->device], NULL, &set[op->set])) ==
            VRAM_OK) {
            object_new(self, on);
        }
    } else if (op->choice % 4 == 0) {
        DO(OK, vram_stream_set_wait(set[op->set], VRAM_TIMEOUT_DEFAULT));
    } else if (op->choice % 4 == 1) {
        DO(OK, vram_stream_set_barrier(set[op->set]));
    } else if (op->choice % 4 == 2) {
        DO(OK, vram_stream_set_order(set[op->set], 0, 1));
    } else {
        DO(OK, vram_stream_set_destroy(set[op->set]));
        object_end(r, self);
    }
}

/* -------------------------------------------------------------------- the end */

#define END_ALL(TYPE, name, call)                                                                  \
    for (unsigned i = 0; i < SLOTS_##name; i++) {                                                  \
        if (is_live(OBJECT(TYPE, i))) {                                                            \
            DO(OK | STALE | (OBJECT(TYPE, i)->unsure ? INVALID : 0), call(name[i]));               \
            OBJECT(TYPE, i)->state = STATE_GONE;                                                   \
        }                                                                                          \
    }

static void pools_wake(struct run *r) {
    const vram_limits none = {.size = sizeof none};
    for (unsigned i = 0; i < SLOTS_pool; i++) {
        if (is_live(OBJECT(POOL, i)) && OBJECT(POOL, i)->sleeping) {
            DO(OK | LIMIT, vram_pool_limits_set(pool[i], &none));
            DO(OK | INVALID | BUSY | UNSUPPORTED, vram_pool_wake(pool[i], NULL));
            DO(OK | INVALID | BUSY | UNSUPPORTED | CORRUPT, vram_pool_unseal(pool[i], NULL));
        }
    }
}

static void block_end(struct run *r, unsigned slot) {
    struct object *one = OBJECT(BLOCK, slot);
    uint64_t may = OK | (one->unsure ? INVALID : 0);
    for (; is_live(one) && one->count; one->count--) {
        DO(may, vram_unpin(block[slot]));
    }
    if (is_live(one) && !one->owner) {
        DO(may, vram_free(block[slot], NULL));
    }
    one->state = STATE_GONE;
}

void steps_end(struct run *r) {
    for (unsigned i = 1; i < SLOTS_queue; i++) {
        if (is_live(OBJECT(QUEUE, i))) {
            queue_finish(r, i);
            queue_passed(r, OBJECT(QUEUE, i));
        }
    }
    pools_wake(r);
    if (is_live(OBJECT(TRACE, 0))) {
        struct op op = {.trace = 0};
        r->may = OK;
        step_trace_end(r, &op);
        OBJECT(TRACE, 0)->state = STATE_GONE;
    }
    END_ALL(OPENED, opened, vram_share_close)
    END_ALL(SHARE, share, vram_share_close)
    END_ALL(SET, set, vram_stream_set_destroy)
    END_ALL(RING, ring, vram_ring_destroy)
    END_ALL(NAMED, named, vram_named_destroy)
    END_ALL(BATCH, batch, vram_batch_destroy)
    END_ALL(SCOPE, scope, vram_scope_end)
    END_ALL(BUFFER, buffer, vram_buffer_destroy)
    for (unsigned i = 0; i < SLOTS_block; i++) {
        block_end(r, i);
    }
    for (unsigned i = 0; i < SLOTS_async; i++) {
        vram_async_end(&async[i]);
    }
}

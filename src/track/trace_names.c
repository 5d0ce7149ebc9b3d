/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_names.c: see trace_names.h.
 */
#include "track/trace_names.h"

#include "base/error.h"
#include "base/memory.h"

#include <string.h>

_Static_assert(VR_TRACE_EVENT_MAX +
                       (VR_REF_COUNT + VR_TRACE_FRAMES_MAX) *
                           (VR_TRACE_TEXT_MAX + 4 * VR_TRACE_NUMBER_MAX) +
                       VR_TRACE_FRAMES_MAX * VR_TRACE_NUMBER_MAX <
                   VR_TRACE_RESERVE_MAX,
               "an event and all it speaks of fit in a fresh chunk");

static uint8_t *put_text(uint8_t *to, const char *text) {
    size_t bytes = strnlen(text, VR_TRACE_TEXT_MAX);
    to = vr_trace_number(to, bytes);
    memcpy(to, text, bytes);
    return to + bytes;
}

/* ---------------------------------------------------------- what is referred to */

static uint32_t number_of(struct vr_trace_names *names, uint8_t kind, const void *key,
                          size_t key_bytes, const void *body, size_t body_bytes) {
    uint32_t number = vr_trace_table_find(&names->table, kind, key, key_bytes);
    return number ? number
                  : vr_trace_table_add(&names->table, kind, key, key_bytes, body, body_bytes);
}

/* A queue has only its handle. 0 is none. */
static uint32_t queue_number(struct vr_trace_names *names, uint64_t handle) {
    uint8_t body[VR_TRACE_NUMBER_MAX];
    if (!handle) {
        return 0;
    }
    size_t bytes = (size_t)(vr_trace_number(body, handle) - body);
    return number_of(names, VR_RECORD_QUEUE, body, bytes, body, bytes);
}

static uint32_t text_number(struct vr_trace_names *names, uint8_t kind, const char *text) {
    uint8_t body[VR_TRACE_NUMBER_MAX + VR_TRACE_TEXT_MAX];
    if (!text || !*text) {
        return 0;
    }
    size_t bytes = (size_t)(put_text(body, text) - body);
    return number_of(names, kind, body, bytes, body, bytes);
}

/* A pool is identified by its handle; device and name come with its first event. */
static uint32_t pool_number(struct vr_trace_names *names, uint64_t pool, uint64_t device,
                            const char *name) {
    uint8_t body[3 * VR_TRACE_NUMBER_MAX + VR_TRACE_TEXT_MAX];
    if (!pool) {
        return 0;
    }
    uint8_t *at = put_text(vr_trace_number(vr_trace_number(body, pool), device), name ? name : "");
    return number_of(names, VR_RECORD_POOL, &pool, sizeof pool, body, (size_t)(at - body));
}

/* -------------------------------------------------------------------- stacks */

/* Texts of frames, formatted without the lock. */
struct frame_texts {
    uint32_t count;
    uint64_t frames[VR_TRACE_FRAMES_MAX];
    char texts[VR_TRACE_FRAMES_MAX][VR_TRACE_TEXT_MAX + 1];
};

static uint32_t find_stack(const struct vr_trace_names *names, uint32_t stack) {
    return vr_trace_table_find(&names->table, VR_RECORD_STACK, &stack, sizeof stack);
}

static void add_stack(struct vr_trace_names *names, uint32_t stack,
                      const struct frame_texts *frame_texts) {
    uint8_t body[(VR_TRACE_FRAMES_MAX + 1) * VR_TRACE_NUMBER_MAX];
    uint8_t *at = vr_trace_number(body, frame_texts->count);
    for (uint32_t i = 0; i < frame_texts->count; i++) {
        at = vr_trace_number(at, text_number(names, VR_RECORD_FRAME, frame_texts->texts[i]));
    }
    (void)number_of(names, VR_RECORD_STACK, &stack, sizeof stack, body, (size_t)(at - body));
}

void vr_trace_names_stack(struct vr_trace_names *names, uint32_t stack) {
    VR_OPERATION("vram_trace_begin");
    vr_mutex_lock(&names->lock);
    bool known = !names->stacks.frames || find_stack(names, stack);
    vr_mutex_unlock(&names->lock);
    struct frame_texts *frame_texts =
        known ? NULL : vr_mem_alloc(1, sizeof *frame_texts, vr_operation());
    if (!frame_texts) {
        return;
    }
    frame_texts->count = names->stacks.frames(stack, frame_texts->frames, VR_TRACE_FRAMES_MAX);
    for (uint32_t i = 0; i < frame_texts->count; i++) {
        names->stacks.describe(frame_texts->frames[i], frame_texts->texts[i],
                               sizeof frame_texts->texts[i]);
    }
    vr_mutex_lock(&names->lock);
    add_stack(names, stack, frame_texts);
    vr_mutex_unlock(&names->lock);
    vr_mem_free(frame_texts);
}

/* --------------------------------------------------------------- definitions */

/* Bytes that the definition of a number may need in the shard's chunk; 0: it is defined. */
static uint32_t definition_cost(struct vr_trace_names *names, const struct vr_trace_shard *shard,
                                uint32_t number) {
    return !number || vr_trace_is_defined(shard, number)
               ? 0
               : 1 + VR_TRACE_NUMBER_MAX + vr_trace_table_at(&names->table, number)->body_bytes;
}

static void definition_write(struct vr_trace_names *names, struct vr_trace_shard *shard,
                             uint32_t number) {
    if (!number || vr_trace_is_defined(shard, number)) {
        return;
    }
    const struct vr_trace_entry *entry = vr_trace_table_at(&names->table, number);
    uint8_t *at = vr_trace_number(vr_trace_shard_at(shard) + 1, number);
    memcpy(at, names->table.bytes + entry->body, entry->body_bytes);
    vr_trace_shard_commit(shard, entry->kind, at + entry->body_bytes);
    vr_trace_set_defined(shard, number);
}

/* The next frame of a stack, whose body is at *at; 0 after the last. The body is our own, and
   valid. */
static uint64_t next_number(const uint8_t **at) {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            return value;
        }
    }
}

static void define_stack(struct vr_trace_names *names, struct vr_trace_shard *shard,
                         uint32_t stack) {
    if (!definition_cost(names, shard, stack)) {
        return;
    }
    const uint8_t *at = names->table.bytes + vr_trace_table_at(&names->table, stack)->body;
    for (uint64_t left = next_number(&at); left > 0; left--) {
        definition_write(names, shard, (uint32_t)next_number(&at));
    }
    definition_write(names, shard, stack);
}

static uint32_t stack_cost(struct vr_trace_names *names, const struct vr_trace_shard *shard,
                           uint32_t stack) {
    uint32_t bytes = definition_cost(names, shard, stack);
    if (bytes) {
        const uint8_t *at = names->table.bytes + vr_trace_table_at(&names->table, stack)->body;
        for (uint64_t left = next_number(&at); left > 0; left--) {
            bytes += definition_cost(names, shard, (uint32_t)next_number(&at));
        }
    }
    return bytes;
}

uint32_t vr_trace_names_refer(struct vr_trace_names *names, const struct vr_trace_shard *shard,
                              const struct vr_trace_mention *about, struct vr_trace_refs *refs) {
    vr_mutex_lock(&names->lock);
    refs->of[VR_REF_POOL] = pool_number(names, about->pool, about->device, about->pool_name);
    refs->of[VR_REF_QUEUE] = queue_number(names, about->queue);
    refs->of[VR_REF_TAG] = text_number(names, VR_RECORD_TEXT, about->tag);
    refs->of[VR_REF_NAME] = text_number(names, VR_RECORD_TEXT, about->name);
    refs->of[VR_REF_STACK] = about->stack ? find_stack(names, about->stack) : 0;
    uint32_t bytes = VR_TRACE_EVENT_MAX + stack_cost(names, shard, refs->of[VR_REF_STACK]);
    for (uint32_t i = 0; i < VR_REF_STACK; i++) {
        bytes += definition_cost(names, shard, refs->of[i]);
    }
    vr_mutex_unlock(&names->lock);
    return bytes;
}

void vr_trace_names_define(struct vr_trace_names *names, struct vr_trace_shard *shard,
                           const struct vr_trace_refs *refs) {
    vr_mutex_lock(&names->lock);
    for (uint32_t i = 0; i < VR_REF_STACK; i++) {
        definition_write(names, shard, refs->of[i]);
    }
    define_stack(names, shard, refs->of[VR_REF_STACK]);
    vr_mutex_unlock(&names->lock);
}

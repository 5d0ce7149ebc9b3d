/* SPDX-License-Identifier: Apache-2.0 */
/* fake_metal_encode.c: encoders, and what they put into a command buffer. */
#include "fake/fake_metal_work.h"

#include <stdlib.h>
#include <string.h>

static struct op *add_op(struct commands *commands, enum op_kind kind) {
    struct op *op = calloc(1, sizeof *op);
    op->kind = kind;
    *commands->last = op;
    commands->last = &op->next;
    if (commands->committed) {
        fake_metal_breach("something was added behind a commit");
    }
    return op;
}

static void add_event(struct commands *commands, enum op_kind kind, void *event, uint64_t value) {
    if (fake_metal_is(commands, FAKE_COMMANDS) && fake_metal_is(event, FAKE_EVENT)) {
        struct op *op = add_op(commands, kind);
        op->event = event;
        op->number = value;
        fake_metal_keep(event);
        if (commands->encoding) {
            fake_metal_breach("an event was encoded inside an encoder");
        }
    }
}

void fake_metal_encode_signal(vr_mtl_id receiver, vr_mtl_selector message, vr_mtl_id event,
                              uint64_t value) {
    (void)message;
    add_event(receiver, OP_SIGNAL, event, value);
}

void fake_metal_encode_wait(vr_mtl_id receiver, vr_mtl_selector message, vr_mtl_id event,
                            uint64_t value) {
    (void)message;
    add_event(receiver, OP_WAIT, event, value);
}

static void encoder_end(struct fake_object *object) {
    struct encoder *encoder = (struct encoder *)object;
    if (!encoder->ended) {
        fake_metal_breach("an encoder was never ended");
    }
    if (encoder->pipeline) {
        fake_metal_drop(encoder->pipeline);
    }
    if (encoder->pending) {
        fake_metal_op_free(encoder->pending);
    }
}

static vr_mtl_id make_encoder(struct commands *commands, bool compute) {
    if (!fake_metal_is(commands, FAKE_COMMANDS) || commands->encoding || commands->committed) {
        fake_metal_breach("two encoders at a time, or one behind a commit");
        return NULL;
    }
    struct encoder *encoder =
        (struct encoder *)fake_metal_object(FAKE_ENCODER, sizeof *encoder, encoder_end);
    encoder->commands = commands;
    encoder->compute = compute;
    commands->encoding = true;
    if (compute) {
        encoder->pending = calloc(1, sizeof *encoder->pending);
    }
    return fake_metal_later(encoder);
}

vr_mtl_id fake_metal_blit_encoder(vr_mtl_id receiver, vr_mtl_selector message) {
    (void)message;
    return make_encoder(receiver, false);
}

vr_mtl_id fake_metal_compute_encoder(vr_mtl_id receiver, vr_mtl_selector message) {
    (void)message;
    return make_encoder(receiver, true);
}

void fake_metal_end_encoding(vr_mtl_id receiver, vr_mtl_selector message) {
    (void)message;
    struct encoder *encoder = receiver;
    if (fake_metal_is(encoder, FAKE_ENCODER)) {
        encoder->ended = true;
        encoder->commands->encoding = false;
    }
}

static bool may_encode(const struct encoder *encoder, bool compute) {
    bool good =
        fake_metal_is(encoder, FAKE_ENCODER) && encoder->compute == compute && !encoder->ended;
    if (!good) {
        fake_metal_breach("the wrong encoder, or one that was ended");
    }
    return good;
}

static bool inside(const struct fake_buffer *buffer, unsigned long offset, unsigned long bytes) {
    bool good = fake_metal_is(buffer, FAKE_BUFFER) && offset <= buffer->bytes &&
                bytes <= buffer->bytes - offset;
    if (!good) {
        fake_metal_breach("outside a buffer");
    }
    return good;
}

void fake_metal_copy_buffer(vr_mtl_id receiver, vr_mtl_selector message, vr_mtl_id from,
                            unsigned long from_offset, vr_mtl_id to, unsigned long to_offset,
                            unsigned long bytes) {
    (void)message;
    struct encoder *encoder = receiver;
    if ((from_offset | to_offset | bytes) % 4 || !bytes) {
        fake_metal_breach("a copy of parts of words");
    }
    if (may_encode(encoder, false) && inside(from, from_offset, bytes) &&
        inside(to, to_offset, bytes)) {
        struct op *op = add_op(encoder->commands, OP_COPY);
        op->from = from;
        op->from_offset = from_offset;
        op->to = to;
        op->to_offset = to_offset;
        op->bytes = bytes;
        fake_metal_keep(from);
        fake_metal_keep(to);
    }
}

void fake_metal_fill_buffer(vr_mtl_id receiver, vr_mtl_selector message, vr_mtl_id to,
                            struct vr_mtl_range range, uint8_t value) {
    (void)message;
    struct encoder *encoder = receiver;
    if ((range.location | range.length) % 4 || !range.length) {
        fake_metal_breach("a fill of parts of words");
    }
    if (may_encode(encoder, false) && inside(to, range.location, range.length)) {
        struct op *op = add_op(encoder->commands, OP_FILL);
        op->to = to;
        op->to_offset = range.location;
        op->bytes = range.length;
        op->value = value;
        fake_metal_keep(to);
    }
}

void fake_metal_set_pipeline(vr_mtl_id receiver, vr_mtl_selector message, vr_mtl_id pipeline) {
    (void)message;
    struct encoder *encoder = receiver;
    if (may_encode(encoder, true) && fake_metal_is(pipeline, FAKE_PIPELINE) && !encoder->pipeline) {
        encoder->pipeline = pipeline;
        fake_metal_keep(pipeline);
    }
}

void fake_metal_set_buffer(vr_mtl_id receiver, vr_mtl_selector message, vr_mtl_id buffer,
                           unsigned long offset, unsigned long index) {
    (void)message;
    struct encoder *encoder = receiver;
    if (may_encode(encoder, true) && inside(buffer, offset, 1) && index < ARGUMENTS_MAX) {
        struct argument *argument = &encoder->pending->arguments[index];
        argument->buffer = buffer;
        argument->data = argument->buffer->contents + offset;
        fake_metal_keep(buffer);
    }
}

void fake_metal_set_bytes(vr_mtl_id receiver, vr_mtl_selector message, const void *bytes,
                          unsigned long length, unsigned long index) {
    (void)message;
    struct encoder *encoder = receiver;
    struct op *op = may_encode(encoder, true) ? encoder->pending : NULL;
    if (op && index < ARGUMENTS_MAX && length <= BYTES_MAX - op->used) {
        op->arguments[index].data = op->storage + op->used;
        op->arguments[index].length = length;
        memcpy(op->arguments[index].data, bytes, length);
        op->used += length;
    } else {
        fake_metal_breach("more bytes of arguments than Metal takes");
    }
}

void fake_metal_dispatch(vr_mtl_id receiver, vr_mtl_selector message, struct vr_mtl_size groups,
                         struct vr_mtl_size size) {
    (void)message;
    struct encoder *encoder = receiver;
    if (!groups.width || !groups.height || !groups.depth ||
        size.width * size.height * size.depth > GROUP_MAX ||
        size.width * size.height * size.depth == 0) {
        fake_metal_breach("an empty grid, or a group that is too large");
    }
    if (may_encode(encoder, true) && encoder->pipeline && encoder->pending) {
        struct op *op = encoder->pending;
        encoder->pending = NULL;
        op->kind = OP_KERNEL;
        op->pipeline = encoder->pipeline;
        op->groups = groups;
        op->size = size;
        encoder->pipeline = NULL;
        *encoder->commands->last = op;
        encoder->commands->last = &op->next;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* fake_metal_work.h: what a command buffer is made of; see fake_metal.h. */
#ifndef FAKE_METAL_WORK_H
#define FAKE_METAL_WORK_H

#include "fake/fake_metal.h"

enum { ARGUMENTS_MAX = 32, BYTES_MAX = 4096, GROUP_MAX = 1024 }; /* as Metal has them */

enum op_kind { OP_COPY, OP_FILL, OP_KERNEL, OP_SIGNAL, OP_WAIT };

struct argument {
    struct fake_buffer *buffer; /* kept; NULL: bytes */
    char *data;
    unsigned long length; /* of bytes */
};

struct pipeline;

struct op {
    struct op *next;
    enum op_kind kind;
    struct fake_buffer *from, *to; /* kept */
    unsigned long from_offset, to_offset, bytes;
    uint8_t value;
    struct event *event; /* kept */
    uint64_t number;
    struct pipeline *pipeline; /* kept */
    struct argument arguments[ARGUMENTS_MAX];
    char storage[BYTES_MAX]; /* of the arguments' bytes */
    unsigned long used;
    struct vr_mtl_size groups, size;
};

struct event {
    struct fake_object object;
    uint64_t value;
};

struct handler {
    struct handler *next;
    struct vr_mtl_block block;
};

struct commands {
    struct fake_object object;
    struct queue *queue; /* kept */
    struct op *first, **last;
    struct handler *handlers;
    struct commands *next;
    bool committed, encoding;
    int code; /* of its end */
    struct fake_object *error;
};

struct queue {
    struct fake_object object;
    struct fake_device *device;
    struct commands *first, **last; /* committed, not run */
    bool running;                   /* a thread is at work for it */
};

struct encoder {
    struct fake_object object;
    struct commands *commands; /* not kept: it goes before */
    struct pipeline *pipeline; /* kept; of a computing encoder */
    struct op *pending;        /* arguments so far */
    bool compute, ended;
};

struct library {
    struct fake_object object;
    char *text;
};

struct function {
    struct fake_object object;
    char name[64];
};

struct pipeline {
    struct fake_object object;
    char name[64];
};

/* Frees a step with what it keeps; fake_metal_work.c. */
void fake_metal_op_free(struct op *op);
/* Does what the text of the kernel says; fake_metal_kernel.c. */
void fake_metal_run_kernel(const struct op *op);
/* Counts a breach of Metal's rules; fake_metal_work.c. */
void fake_metal_breach(const char *text);

#endif

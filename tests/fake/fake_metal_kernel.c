/* SPDX-License-Identifier: Apache-2.0 */
/* fake_metal_kernel.c: libraries, functions and pipelines, and the kernels that the tests know, in
   C. */
#include "fake/fake_forces.h"
#include "fake/fake_metal_work.h"

#include <stdlib.h>
#include <string.h>

static uint64_t number_of(const struct op *op, int index) {
    uint64_t value = 0; /* of 4 bytes or 8 */
    memcpy(&value, op->arguments[index].data, op->arguments[index].length == 4 ? 4 : sizeof value);
    return value;
}

/* What the texts of these kernels say, in C. */
void fake_metal_run_kernel(const struct op *op) {
    char *const *data = &op->arguments[0].data;
    if (strcmp(op->pipeline->name, "vram_copy_bytes") == 0) {
        memmove(op->arguments[1].data, data[0], number_of(op, 2));
    } else if (strcmp(op->pipeline->name, "vram_fill_bytes") == 0) {
        uint32_t what[2];
        memcpy(what, op->arguments[1].data, sizeof what);
        /* The part that is filled doubles: byte by byte it is half of a suite's time under
           sanitizers. */
        uint64_t count = number_of(op, 2);
        for (uint64_t done = 0, next; done < count; done += next) {
            next = done ? done : what[1];
            next = next < count - done ? next : count - done;
            memcpy(data[0] + done, done ? data[0] : (const char *)what, next);
        }
    } else if (strcmp(op->pipeline->name, "saxpy") == 0) { /* (y, x, a, count), groups of items */
        float a, *y = (float *)(void *)op->arguments[0].data;
        const float *x = (const float *)(const void *)op->arguments[1].data;
        memcpy(&a, op->arguments[2].data, sizeof a);
        uint64_t items = op->groups.width * op->size.width, count = number_of(op, 3);
        for (uint64_t i = 0; i < items && i < count; i++) {
            y[i] += a * x[i];
        }
    } else if (strcmp(op->pipeline->name, "forces") == 0) {
        void *pointers[7];
        for (int i = 0; i < 7; i++) {
            pointers[i] = op->arguments[i].data;
        }
        fake_forces_run(pointers, (unsigned)(op->groups.width * op->size.width),
                        (unsigned)number_of(op, 7), (unsigned)number_of(op, 8),
                        (unsigned)number_of(op, 9));
    } else if (strcmp(op->pipeline->name, "vram_check_scale") ==
               0) { /* (to, from, factor, count) */
        uint32_t *to = (uint32_t *)(void *)op->arguments[0].data;
        const uint32_t *from = (const uint32_t *)(const void *)op->arguments[1].data;
        uint64_t items = op->groups.width * op->size.width, count = number_of(op, 3);
        uint32_t factor = (uint32_t)number_of(op, 2);
        for (uint64_t i = 0; i < items && i < count; i++) {
            to[i] = from[i] * factor + (uint32_t)i;
        }
    } else {
        fake_metal_breach("a kernel that the tests' driver does not know was launched");
    }
}

static void library_end(struct fake_object *object) {
    free(((struct library *)object)->text);
}

vr_mtl_id fake_metal_library_create(vr_mtl_id receiver, vr_mtl_selector message, vr_mtl_id source,
                                    vr_mtl_id options, vr_mtl_id *error) {
    (void)message;
    (void)options;
    const char *text = fake_metal_text(source);
    const char *end = strrchr(text, '}'); /* cut off text is no program */
    if (!fake_metal_is(receiver, FAKE_DEVICE) || !strstr(text, "kernel void ") || !end ||
        strspn(end + 1, " \n") != strlen(end + 1)) {
        *error = fake_metal_error(3, "program_source:1:1: error: unknown type name");
        return NULL;
    }
    struct library *library =
        (struct library *)fake_metal_object(FAKE_LIBRARY, sizeof *library, library_end);
    library->text = strdup(text);
    return library;
}

vr_mtl_id fake_metal_function_create(vr_mtl_id receiver, vr_mtl_selector message, vr_mtl_id name) {
    (void)message;
    struct library *library = receiver;
    const char *text = fake_metal_text(name);
    size_t bytes = strlen(text);
    const char *at = fake_metal_is(library, FAKE_LIBRARY) ? library->text : "";
    while ((at = strstr(at, "kernel void "))) {
        at += sizeof "kernel void " - 1;
        if (strncmp(at, text, bytes) == 0 && at[bytes] == '(') {
            struct function *function =
                (struct function *)fake_metal_object(FAKE_FUNCTION, sizeof *function, NULL);
            strncpy(function->name, text, sizeof function->name - 1);
            return function;
        }
    }
    return NULL;
}

vr_mtl_id fake_metal_pipeline_create(vr_mtl_id receiver, vr_mtl_selector message,
                                     vr_mtl_id function, vr_mtl_id *error) {
    (void)message;
    (void)error;
    if (!fake_metal_is(receiver, FAKE_DEVICE) || !fake_metal_is(function, FAKE_FUNCTION)) {
        return NULL;
    }
    struct pipeline *pipeline =
        (struct pipeline *)fake_metal_object(FAKE_PIPELINE, sizeof *pipeline, NULL);
    memcpy(pipeline->name, ((struct function *)function)->name, sizeof pipeline->name);
    return pipeline;
}

unsigned long fake_metal_max_threads(vr_mtl_id receiver, vr_mtl_selector message) {
    (void)message;
    return fake_metal_is(receiver, FAKE_PIPELINE) ? GROUP_MAX : 0;
}

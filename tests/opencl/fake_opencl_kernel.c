/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_opencl_kernel.c: programs and kernels. The text of a program is not compiled: it has the
 * kernels whose names are in it, and fails to build when it says so ("#error") or does not end with
 * a brace.
 */
#include "opencl/fake_opencl.h"

#include "bench/ring_kernel.h"
#include "fake/fake_matmul.h"
#include "fake/fake_shortlist.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ------------------------------------------------------------------ kernels */

static void *pointer_of(const struct fake_argument *argument) {
    void *pointer = NULL;
    if (argument->memory) {
        return fake_memory_at(argument->memory);
    }
    memcpy(&pointer, argument->value, sizeof pointer);
    return pointer;
}

static uint64_t number_of(const struct fake_argument *argument) {
    uint64_t number = 0;
    memcpy(&number, argument->value, argument->bytes < 8 ? argument->bytes : 8);
    return number;
}

static void gate(const struct fake_argument *arguments, const size_t items[3],
                 const size_t group[3]) {
    const uint32_t *word = pointer_of(&arguments[0]);
    (void)items, (void)group;
    for (int turn = 0; turn < 100000 && __atomic_load_n(word, __ATOMIC_ACQUIRE) == 0; turn++) {
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
}

/* (y, x, a, count) */
static void saxpy(const struct fake_argument *arguments, const size_t items[3],
                  const size_t group[3]) {
    float *y = pointer_of(&arguments[0]), a;
    const float *x = pointer_of(&arguments[1]);
    (void)group;
    memcpy(&a, arguments[2].value, sizeof a);
    for (size_t i = 0; i < items[0] && i < number_of(&arguments[3]); i++) {
        y[i] = a * x[i] + y[i];
    }
}

/* (cells, index, value) */
static void store(const struct fake_argument *arguments, const size_t items[3],
                  const size_t group[3]) {
    (void)items, (void)group;
    uint64_t *cells = pointer_of(&arguments[0]);
    cells[number_of(&arguments[1])] = number_of(&arguments[2]);
}

/* (cells): one more for each group */
static void tally(const struct fake_argument *arguments, const size_t items[3],
                  const size_t group[3]) {
    uint32_t *cells = pointer_of(&arguments[0]);
    size_t groups = 1;
    for (int axis = 0; axis < 3; axis++) {
        groups *= items[axis] / group[axis];
    }
    for (size_t i = 0; i < groups; i++) {
        cells[i]++;
    }
}

/* (out, scratch, count): what local memory is for does not matter here. */
static void scratch(const struct fake_argument *arguments, const size_t items[3],
                    const size_t group[3]) {
    (void)items, (void)group;
    *(uint64_t *)pointer_of(&arguments[0]) = arguments[1].bytes;
}

/* (to, from, factor, count) */
static void scale(const struct fake_argument *arguments, const size_t items[3],
                  const size_t group[3]) {
    uint32_t *to = pointer_of(&arguments[0]);
    const uint32_t *from = pointer_of(&arguments[1]);
    uint64_t factor = number_of(&arguments[2]), count = number_of(&arguments[3]);
    (void)group;
    for (size_t i = 0; i < items[0] && i < count; i++) {
        to[i] = from[i] * (uint32_t)factor + (uint32_t)i;
    }
}

/* (a, b, c, numbers...), as src/compute/matmul_opencl.h has it, which wants its own group size. */
static void matmul(const struct fake_argument *arguments, const size_t items[3],
                   const size_t group[3]) {
    uint64_t numbers[MATMUL_NUMBERS];
    for (int i = 0; i < MATMUL_NUMBERS; i++) {
        numbers[i] = number_of(&arguments[3 + i]);
    }
    if (group[0] == 16 && group[1] == 16) {
        fake_matmul_run(pointer_of(&arguments[0]), pointer_of(&arguments[1]),
                        pointer_of(&arguments[2]), numbers, items[0] / 16, items[1] / 16);
    }
}

/* (from, to, terms, found, centre, numbers...), as src/compute/shortlist_opencl.h has it. */
static void vectors(const struct fake_argument *arguments, const size_t items[3],
                    const size_t group[3]) {
    uint64_t numbers[VECTORS_NUMBERS];
    for (int i = 0; i < VECTORS_NUMBERS; i++) {
        numbers[i] = number_of(&arguments[VECTORS_ADDRESSES + i]);
    }
    if (group[0] == 256) {
        fake_vectors_run(pointer_of(&arguments[0]), pointer_of(&arguments[1]),
                         pointer_of(&arguments[2]), pointer_of(&arguments[3]),
                         pointer_of(&arguments[4]), numbers, items[0] / 256);
    }
}

/* (products, queries, corpus, best, query, vectors, centre, numbers...), the same. */
static void shortlist(const struct fake_argument *arguments, const size_t items[3],
                      const size_t group[3]) {
    uint64_t numbers[SHORTLIST_NUMBERS];
    void *at[SHORTLIST_ADDRESSES];
    for (int i = 0; i < SHORTLIST_ADDRESSES; i++) {
        at[i] = pointer_of(&arguments[i]);
    }
    for (int i = 0; i < SHORTLIST_NUMBERS; i++) {
        numbers[i] = number_of(&arguments[SHORTLIST_ADDRESSES + i]);
    }
    if (group[0] == 256) {
        fake_shortlist_run(at, numbers, items[0] / 256);
    }
}

/* (control, patience, unused): it stays, as cli/bench/ring_opencl_code.h has it, in a ring that is
   live. A turn is 50 us here, and after ten seconds without a message it leaves whatever its
   patience. */
static void echo(const struct fake_argument *arguments, const size_t items[3],
                 const size_t group[3]) {
    vram_ring_peer peer;
    uint64_t patience = number_of(&arguments[1]);
    (void)items, (void)group;
    if (vram_ring_peer_open(pointer_of(&arguments[0]), &peer) != 0) {
        return;
    }
    bool live = (peer.flags & VRAM_RING_FLAG_SYSTEM) != 0;
    for (uint64_t idle = 0; idle < patience && idle < 200000; idle++) {
        if (ring_echo_one(&peer) > 0) {
            idle = 0;
        } else if (!live || vram_ring_peer_stopping(&peer)) {
            break;
        } else {
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        }
    }
    vram_ring_peer_end(&peer, live ? VRAM_RING_DONE : VRAM_RING_RELAUNCHABLE);
}

struct fake_kernel {
    const char *name;
    fake_kernel_fn *run;
    const char *kinds; /* of its arguments: g global, l local, v value */
};

static const struct fake_kernel kernels[] = {
    {"gate", gate, "gv"},
    {"saxpy", saxpy, "ggvv"},
    {"store", store, "gvv"},
    {"tally", tally, "g"},
    {"scratch", scratch, "glv"},
    {"vram_check_scale", scale, "ggvv"},
    {"vram_matmul", matmul, "gggvvvvvvvvvvv"},
    {"vram_vectors", vectors, "gggggvvvvvvvv"},
    {"vram_shortlist", shortlist, "gggggggvvvvvvvvv"},
    {"vram_ring_echo", echo, "gvv"},
};

/* ----------------------------------------------------------------- programs */

static struct vr_cl_program *create_program(struct vr_cl_context *context, vr_cl_uint count,
                                            const char **texts, const size_t *lengths,
                                            vr_cl_int *code) {
    (void)count;
    fake_lock();
    struct vr_cl_program *program = fake_new(sizeof *program, 'g');
    program->context = context;
    program->text = calloc(1, lengths[0] + 1);
    memcpy(program->text, texts[0], lengths[0]);
    fake_unlock();
    *code = VR_CL_SUCCESS;
    return program;
}

static vr_cl_int build_program(struct vr_cl_program *program, vr_cl_uint count,
                               struct vr_cl_device *const *devices, const char *options,
                               vr_cl_built_fn *built, void *user) {
    (void)count, (void)devices, (void)options, (void)built, (void)user;
    size_t length = strlen(program->text);
    while (length && strchr("\n ", program->text[length - 1])) {
        length--;
    }
    program->built = !strstr(program->text, "#error") && strstr(program->text, "__kernel") &&
                     length && program->text[length - 1] == '}';
    return program->built ? VR_CL_SUCCESS : VR_CL_BUILD_PROGRAM_FAILURE;
}

static vr_cl_int get_build_info(struct vr_cl_program *program, struct vr_cl_device *device,
                                vr_cl_uint what, size_t bytes, void *value, size_t *needed) {
    static const char words[] = "1: this is no program";
    (void)program, (void)device, (void)what;
    if (needed) {
        *needed = sizeof words;
    }
    if (value && bytes >= sizeof words) {
        memcpy(value, words, sizeof words);
    }
    return VR_CL_SUCCESS;
}

static void program_drop(struct vr_cl_program *program) {
    if (fake_drop(program, 'g')) {
        free(program->text);
        fake_gone(program);
    }
}

static vr_cl_int release_program(struct vr_cl_program *program) {
    fake_lock();
    program_drop(program);
    fake_unlock();
    return VR_CL_SUCCESS;
}

static struct vr_cl_kernel *create_kernel(struct vr_cl_program *program, const char *name,
                                          vr_cl_int *code) {
    struct vr_cl_kernel *kernel = NULL;
    *code = VR_CL_INVALID_KERNEL_NAME;
    fake_lock();
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        if (strcmp(kernels[i].name, name) == 0 && strstr(program->text, name)) {
            kernel = fake_new(sizeof *kernel, 'k');
            kernel->program = program;
            kernel->code = &kernels[i];
            fake_keep(&program->head);
            *code = VR_CL_SUCCESS;
        }
    }
    fake_unlock();
    return kernel;
}

static void forget_argument(struct fake_argument *argument) {
    if (argument->memory) {
        fake_memory_drop(argument->memory);
    }
    *argument = (struct fake_argument){.bytes = 0};
}

static vr_cl_int release_kernel(struct vr_cl_kernel *kernel) {
    fake_lock();
    if (fake_drop(kernel, 'k')) {
        for (int i = 0; i < FAKE_ARGUMENTS; i++) {
            forget_argument(&kernel->arguments[i]);
        }
        program_drop(kernel->program);
        fake_gone(kernel);
    }
    fake_unlock();
    return VR_CL_SUCCESS;
}

static vr_cl_int get_kernel_info(struct vr_cl_kernel *kernel, vr_cl_uint what, size_t bytes,
                                 void *value, size_t *needed) {
    vr_cl_uint count = (vr_cl_uint)strlen(kernel->code->kinds);
    (void)what, (void)bytes, (void)needed;
    memcpy(value, &count, sizeof count);
    return VR_CL_SUCCESS;
}

static vr_cl_int get_argument_info(struct vr_cl_kernel *kernel, vr_cl_uint index, vr_cl_uint what,
                                   size_t bytes, void *value, size_t *needed) {
    char kind = kernel->code->kinds[index];
    vr_cl_uint qualifier = kind == 'g'   ? VR_CL_ARG_GLOBAL
                           : kind == 'l' ? VR_CL_ARG_LOCAL
                                         : VR_CL_ARG_PRIVATE;
    (void)what, (void)bytes, (void)needed;
    if (!fake_settings.arg_info) {
        return VR_CL_KERNEL_ARG_INFO_NOT_AVAILABLE;
    }
    memcpy(value, &qualifier, sizeof qualifier);
    return VR_CL_SUCCESS;
}

/* ---------------------------------------------------------------- arguments */

static vr_cl_int set_argument(struct vr_cl_kernel *kernel, vr_cl_uint index, size_t bytes,
                              const void *value) {
    vr_cl_int code = VR_CL_SUCCESS;
    fake_lock();
    char kind = kernel->code->kinds[index];
    struct fake_argument *argument = &kernel->arguments[index];
    struct vr_cl_memory *memory = NULL;
    if (kind == 'g' && value) {
        memcpy(&memory, value, sizeof memory);
    }
    if ((kind == 'l') != !value || (kind != 'l' && bytes > sizeof argument->value)) {
        code = VR_CL_INVALID_ARG_VALUE;
    } else if (memory && !fake_is(memory, 'm')) {
        code = VR_CL_INVALID_MEM_OBJECT;
    } else {
        forget_argument(argument);
        argument->bytes = bytes;
        argument->set = true;
        argument->memory = memory;
        if (memory) {
            fake_keep(&memory->head);
        } else if (value) {
            memcpy(argument->value, value, bytes);
        }
    }
    fake_unlock();
    return code;
}

static vr_cl_int set_pointer(struct vr_cl_kernel *kernel, vr_cl_uint index, const void *pointer) {
    fake_lock();
    struct fake_argument *argument = &kernel->arguments[index];
    forget_argument(argument);
    argument->bytes = sizeof pointer;
    argument->set = argument->pointer = true;
    memcpy(argument->value, &pointer, sizeof pointer);
    fake_unlock();
    return VR_CL_SUCCESS;
}

/* Undefined by the standard, whatever it does on a driver. */
static void check_overlap(const struct vr_cl_kernel *kernel) {
    for (int i = 0; i < FAKE_ARGUMENTS; i++) {
        for (int j = 0; j < FAKE_ARGUMENTS; j++) {
            const struct vr_cl_memory *one = kernel->arguments[i].memory;
            const struct vr_cl_memory *other = kernel->arguments[j].memory;
            if (one && other && one->parent == other) {
                fake_violate("a kernel got a buffer beside a sub-buffer of it");
            }
        }
    }
}

static vr_cl_int launch(struct vr_cl_queue *queue, struct vr_cl_kernel *kernel, vr_cl_uint axes,
                        const size_t *offset, const size_t *items, const size_t *group,
                        vr_cl_uint count, struct vr_cl_event *const *events,
                        struct vr_cl_event **event) {
    struct fake_command command = {.kernel = kernel->code->run};
    vr_cl_int code = VR_CL_SUCCESS;
    (void)axes, (void)offset;
    memcpy(command.items, items, sizeof command.items);
    memcpy(command.group, group, sizeof command.group);
    fake_lock();
    check_overlap(kernel);
    for (size_t i = 0; i < strlen(kernel->code->kinds); i++) {
        struct fake_argument *argument = &kernel->arguments[i];
        if (!argument->set) {
            code = VR_CL_INVALID_KERNEL_ARGS;
        } else if (argument->memory && !fake_memory_back(argument->memory)) {
            code = VR_CL_MEM_OBJECT_ALLOCATION_FAILURE;
        }
    }
    memcpy(command.arguments, kernel->arguments, sizeof command.arguments);
    for (int i = 0; code == VR_CL_SUCCESS && i < FAKE_ARGUMENTS; i++) {
        if (command.arguments[i].memory) {
            fake_keep(&command.arguments[i].memory->head);
        }
    }
    fake_unlock();
    return code ? code : fake_submit(queue, &command, false, count, events, event);
}

void fake_fill_kernel_calls(struct vr_opencl_api *api) {
    api->clCreateProgramWithSource = create_program;
    api->clBuildProgram = build_program;
    api->clGetProgramBuildInfo = get_build_info;
    api->clReleaseProgram = release_program;
    api->clCreateKernel = create_kernel;
    api->clReleaseKernel = release_kernel;
    api->clGetKernelInfo = get_kernel_info;
    api->clGetKernelArgInfo = get_argument_info;
    api->clSetKernelArg = set_argument;
    api->clSetKernelArgSVMPointer = set_pointer;
    api->clEnqueueNDRangeKernel = launch;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scanner.c: see scanner.h.
 */
#include "scanner.h"

#include <stdlib.h>
#include <string.h>

enum { GROUP_THREADS = 256, GROUPS_MAX = 2048, TRIAL_BYTES = 65536 };

struct scanner {
    struct place *place;
    vram_kernel *kernel;
    vram_addr counter; /* 8 bytes on the device */
    uint64_t count;    /* its copy, which may arrive after a wait that failed */
};

/* --------------------------------------------------------------------- kernel */

/* Adds to %count how many bytes of a word are not the pattern's: a byte that differs carries into
   its own highest bit. */
#define PTX_COUNT(word)                                                                            \
    "xor.b32 " word ", " word ", %pattern;\n"                                                      \
    "and.b32 %t, " word ", 0x7f7f7f7f;\n"                                                          \
    "add.u32 %t, %t, 0x7f7f7f7f;\n"                                                                \
    "or.b32 %t, %t, " word ";\n"                                                                   \
    "and.b32 %t, %t, 0x80808080;\n"                                                                \
    "popc.b32 %t, %t;\n"                                                                           \
    "cvt.u64.u32 %n, %t;\n"                                                                        \
    "add.u64 %count, %count, %n;\n"

/*
 * Each thread takes every step-th 16 bytes of the body, then every step-th byte of the rest:
 *
 *   for (i = first; i < body / 16; i += step)             count the 4 words at addr + 16 * i
 *   for (i = body / 16 * 16 + first; i < bytes; i += step)
 *       count += byte[i] != (uint8_t)(pattern >> (i < body ? i % 4 * 8 : 0))
 *   *wrong += count
 */
/* clang-format off */
static const char kernel[] =
    ".version 6.0\n"
    ".target sm_60\n"
    ".address_size 64\n"
    ".visible .entry vram_scan(.param .u64 p_addr, .param .u64 p_bytes, .param .u64 p_body,\n"
    "                          .param .u64 p_wrong, .param .u32 p_pattern)\n"
    "{\n"
    ".reg .pred %done, %inside;\n"
    ".reg .b32 %x, %y, %z, %w, %t, %u, %pattern;\n"
    ".reg .b64 %addr, %bytes, %body, %wrong, %first, %step, %quads, %i, %at, %n, %count;\n"
    "ld.param.u64 %addr, [p_addr];\n"
    "ld.param.u64 %bytes, [p_bytes];\n"
    "ld.param.u64 %body, [p_body];\n"
    "ld.param.u64 %wrong, [p_wrong];\n"
    "ld.param.u32 %pattern, [p_pattern];\n"
    "cvta.to.global.u64 %addr, %addr;\n"
    "cvta.to.global.u64 %wrong, %wrong;\n"
    "mov.u32 %t, %ntid.x;\n"
    "mov.u32 %u, %nctaid.x;\n"
    "mul.wide.u32 %step, %t, %u;\n"
    "mov.u32 %u, %ctaid.x;\n"
    "mul.wide.u32 %first, %t, %u;\n"
    "mov.u32 %u, %tid.x;\n"
    "cvt.u64.u32 %n, %u;\n"
    "add.u64 %first, %first, %n;\n"
    "mov.u64 %count, 0;\n"
    "shr.u64 %quads, %body, 4;\n"
    "mov.u64 %i, %first;\n"
    "quad:\n"
    "setp.ge.u64 %done, %i, %quads;\n"
    "@%done bra rest;\n"
    "shl.b64 %at, %i, 4;\n"
    "add.u64 %at, %at, %addr;\n"
    "ld.global.v4.u32 {%x, %y, %z, %w}, [%at];\n"
    PTX_COUNT("%x")
    PTX_COUNT("%y")
    PTX_COUNT("%z")
    PTX_COUNT("%w")
    "add.u64 %i, %i, %step;\n"
    "bra quad;\n"
    "rest:\n"
    "shl.b64 %i, %quads, 4;\n"
    "add.u64 %i, %i, %first;\n"
    "byte:\n"
    "setp.ge.u64 %done, %i, %bytes;\n"
    "@%done bra sum;\n"
    "cvt.u32.u64 %t, %i;\n"
    "and.b32 %t, %t, 3;\n"
    "shl.b32 %t, %t, 3;\n"
    "setp.lt.u64 %inside, %i, %body;\n"
    "selp.b32 %t, %t, 0, %inside;\n"
    "shr.u32 %t, %pattern, %t;\n"
    "and.b32 %t, %t, 0xff;\n"
    "add.u64 %at, %addr, %i;\n"
    "ld.global.u8 %u, [%at];\n"
    "setp.ne.u32 %inside, %t, %u;\n"
    "selp.u64 %n, 1, 0, %inside;\n"
    "add.u64 %count, %count, %n;\n"
    "add.u64 %i, %i, %step;\n"
    "bra byte;\n"
    "sum:\n"
    "setp.eq.u64 %done, %count, 0;\n"
    "@%done bra end;\n"
    "red.global.add.u64 [%wrong], %count;\n"
    "end:\n"
    "ret;\n"
    "}\n";
/* clang-format on */

/* -------------------------------------------------------------------- looking */

vram_status scanner_look(struct scanner *scanner, uint32_t queue, vram_addr addr, uint64_t bytes,
                         uint64_t body, uint32_t pattern) {
    enum { ADDRESSES = 1 << 0 | 1 << 3 };
    uint64_t groups = bytes / 16 / GROUP_THREADS + 1;
    const void *arguments[] = {&addr, &bytes, &body, &scanner->counter, &pattern};
    const size_t argument_bytes[] = {8, 8, 8, 8, 4};
    const vram_launch launch = {
        .size = sizeof launch,
        .groups = {groups < GROUPS_MAX ? (uint32_t)groups : GROUPS_MAX, 1, 1},
        .group_size = {GROUP_THREADS, 1, 1},
        .argument_count = 5,
        .arguments = arguments,
        .argument_bytes = argument_bytes,
        .address_mask = ADDRESSES};
    if (bytes == 0) {
        return VRAM_OK;
    }
    scanner->place->busy_queues |= UINT64_C(1) << queue;
    return vram_queue_launch(scanner->place->queues[queue], scanner->kernel, &launch);
}

vram_status scanner_read(struct scanner *scanner, uint64_t *wrong_bytes) {
    vram_queue *queue = scanner->place->queues[0];
    vram_status status = place_wait(scanner->place, UINT64_MAX);
    if (status == VRAM_OK) {
        status =
            vram_queue_download(queue, &scanner->count, scanner->counter, sizeof scanner->count);
    }
    if (status == VRAM_OK) {
        status = vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT);
    }
    if (status == VRAM_OK) {
        *wrong_bytes = scanner->count;
    }
    return status;
}

/* -------------------------------------------------------------------- opening */

/*
 * Three bytes are spoilt where the kernel must find them and one where it must not look: inside the
 * body, in the rest, and behind the end.
 */
static vram_status trial(struct scanner *scanner, vram_addr memory, uint64_t *found) {
    vram_queue *queue = scanner->place->queues[0];
    const uint32_t pattern = 0x04030201;
    const uint64_t body = TRIAL_BYTES - 8, bytes = body + 3;
    vram_status status = vram_queue_fill(queue, scanner->counter, 0, 4, sizeof(uint64_t));
    if (status == VRAM_OK) {
        status = vram_queue_fill(queue, memory, pattern, 4, TRIAL_BYTES);
    }
    if (status == VRAM_OK) {
        status = vram_queue_fill(queue, memory + 5, 0xff, 1, 1);
    }
    if (status == VRAM_OK) {
        status = vram_queue_fill(queue, memory + body + 1, 0xff, 1, 3);
    }
    if (status == VRAM_OK) {
        status = scanner_look(scanner, 0, memory, bytes, body, pattern);
    }
    if (status == VRAM_OK) {
        status = scanner_read(scanner, found);
    }
    return status == VRAM_OK ? vram_queue_fill(queue, scanner->counter, 0, 4, sizeof(uint64_t))
                             : status;
}

static bool prove(struct scanner *scanner) {
    vram_device *device = scanner->place->device;
    vram_addr memory = 0;
    uint64_t found = 0;
    if (vram_device_alloc(device, 4096, VRAM_MEMORY_DEVICE, &scanner->counter) != VRAM_OK ||
        vram_device_alloc(device, TRIAL_BYTES, VRAM_MEMORY_DEVICE, &memory) != VRAM_OK) {
        return false;
    }
    vram_status status = trial(scanner, memory, &found);
    vram_status after = vram_queue_wait(scanner->place->queues[0], VRAM_TIMEOUT_DEFAULT);
    vram_device_free(device, memory);
    return status == VRAM_OK && after == VRAM_OK && found == 3;
}

struct scanner *scanner_open(struct place *place) {
    const vram_kernel_source source = {.size = sizeof source,
                                       .format = VRAM_KERNEL_PTX,
                                       .code = kernel,
                                       .code_bytes = sizeof kernel - 1,
                                       .entry = "vram_scan"};
    struct scanner *scanner = calloc(1, sizeof *scanner);
    if (scanner == NULL) {
        return NULL;
    }
    scanner->place = place;
    if (vram_kernel_create(place->device, &source, &scanner->kernel) != VRAM_OK ||
        !prove(scanner)) {
        scanner_close(scanner);
        return NULL;
    }
    return scanner;
}

void scanner_close(struct scanner *scanner) {
    if (scanner == NULL) {
        return;
    }
    if (scanner->counter != 0) {
        vram_device_free(scanner->place->device, scanner->counter);
    }
    vram_kernel_destroy(scanner->kernel);
    free(scanner);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_kernel.c: modules, which are texts with entries in them, and kernels, which the fake knows
 * by name: nobody here can run a GPU's code.
 */
#include "bench/ring_kernel.h"
#include "fake/fake_engine.h"
#include "fake/fake_forces.h"
#include "fake/fake_matmul.h"
#include "fake/fake_shortlist.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct vr_cu_function {
    struct vr_cu_function *next;
    const struct fake_kernel *kernel;
};

struct vr_cu_module {
    struct vr_cu_module *next;
    char *text;
    struct vr_cu_function *functions;
};

static struct vr_cu_module *modules;

static uint64_t fake_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* ------------------------------------------------------------------ kernels */

/* to[i] = from[i] * factor + i; (to, from, factor, count). */
static bool scale(struct fake_device *device, const struct fake_launch *launch) {
    uint64_t items = (uint64_t)launch->groups[0] * launch->items[0];
    uint64_t count = launch->values[3] < items ? launch->values[3] : items;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t value = 0;
        if (!fake_access(device, launch->values[1] + 4 * i, &value, 4, false)) {
            return false;
        }
        value = value * (uint32_t)launch->values[2] + (uint32_t)i;
        if (!fake_access(device, launch->values[0] + 4 * i, &value, 4, true)) {
            return false;
        }
    }
    return true;
}

/* Waits until the word is not 0, or its time is over; (word, ns). The engine looks again and
   again. */
static bool gate_is_open(const struct fake_launch *launch) {
    const uint32_t *word = (const uint32_t *)(uintptr_t)launch->values[0];
    return __atomic_load_n(word, __ATOMIC_ACQUIRE) != 0 ||
           fake_now() - launch->start_ns >= launch->values[1];
}

static bool gate(struct fake_device *device, const struct fake_launch *launch) {
    (void)device;
    (void)launch;
    return true;
}

/* y[i] += a * x[i]; (y, x, a, count), as examples/shaders/saxpy.cu has it. */
static bool saxpy(struct fake_device *device, const struct fake_launch *launch) {
    uint64_t items = (uint64_t)launch->groups[0] * launch->items[0];
    uint64_t count = launch->values[3] < items ? launch->values[3] : items;
    uint32_t bits = (uint32_t)launch->values[2];
    float a, x, y;
    memcpy(&a, &bits, sizeof a);
    for (uint64_t i = 0; i < count; i++) {
        if (!fake_access(device, launch->values[1] + 4 * i, &x, 4, false) ||
            !fake_access(device, launch->values[0] + 4 * i, &y, 4, false)) {
            return false;
        }
        y += a * x;
        if (!fake_access(device, launch->values[0] + 4 * i, &y, 4, true)) {
            return false;
        }
    }
    return true;
}

/* A list of copies; (rows, count), as src/xfer/scatter.cu has it. */
static bool scatter(struct fake_device *device, const struct fake_launch *launch) {
    for (uint64_t i = 0; i < launch->values[1]; i++) {
        uint64_t row[3], done = 0; /* to, from, bytes */
        char part[4096];
        if (!fake_access(device, launch->values[0] + i * sizeof row, row, sizeof row, false)) {
            return false;
        }
        for (uint64_t bytes; done < row[2]; done += bytes) {
            bytes = row[2] - done < sizeof part ? row[2] - done : sizeof part;
            if (!fake_access(device, row[1] + done, part, bytes, false) ||
                !fake_access(device, row[0] + done, part, bytes, true)) {
                return false;
            }
        }
    }
    return true;
}

/* Gives back what it takes, as cli/bench/ring_code.cu does; (control, ns, unused). The ring lies in
   memory of the host. The engine looks again and again, and each time all that is there is worked
   off. */
static bool ring_may_end(const struct fake_launch *launch) {
    vram_ring_peer peer;
    if (vram_ring_peer_open((vram_ring_control *)(uintptr_t)launch->values[0], &peer) != 0) {
        return true;
    }
    while (ring_echo_one(&peer) > 0) {
    }
    bool over =
        vram_ring_peer_stopping(&peer) || fake_now() - launch->start_ns >= launch->values[1];
    if (over) {
        vram_ring_peer_end(&peer, VRAM_RING_DONE);
    }
    return over;
}

/*
 * examples/forces: what a stage reads is taken out of device memory, and what it writes is put
 * back, so that a stray address is found as it is for the others.
 */
static bool forces(struct fake_device *device, const struct fake_launch *launch) {
    enum { READS = 0, WRITES = 1, POINTERS = 7 };
    static const unsigned char uses[4][2] = {
        {0x21, 0x20}, {0x3d, 0x04}, {0x07, 0x03}, {0x41, 0x40}}; /* bit i: argument i, by stage */
    uint64_t count = launch->values[7], bits = launch->values[8], stage = launch->values[9];
    uint64_t bytes[POINTERS] = {
        count * 8, count * 8, count * 8, count * 4 + 4, 0, UINT64_C(12) << 2 * bits, 8};
    void *pointers[POINTERS] = {NULL};
    bool good = stage < 4;
    for (int i = 0; i < POINTERS && good; i++) {
        bool wanted = uses[stage][READS] >> i & 1;
        if (i == 4 && wanted) { /* as many edges as the last offset says */
            bytes[i] = (uint64_t)((const uint32_t *)pointers[3])[count] * 4;
        }
        pointers[i] = wanted ? malloc(bytes[i]) : NULL;
        good = !wanted || (pointers[i] &&
                           fake_access(device, launch->values[i], pointers[i], bytes[i], false));
    }
    if (good) {
        fake_forces_run(pointers, launch->groups[0] * launch->items[0], (unsigned)count,
                        (unsigned)bits, (unsigned)stage);
    }
    for (int i = 0; i < POINTERS; i++) {
        if (good && uses[stage][WRITES] >> i & 1) {
            good = fake_access(device, launch->values[i], pointers[i], bytes[i], true);
        }
        free(pointers[i]);
    }
    return good;
}

/* Lines of a matrix, to or from memory of the program's in which they lie one behind the other. */
static bool lines(struct fake_device *device, uint64_t addr, uint64_t stride, void *matrix,
                  uint64_t count, uint64_t bytes, bool write) {
    for (uint64_t i = 0; i < count; i++) {
        if (!fake_access(device, addr + i * stride, (char *)matrix + i * bytes, bytes, write)) {
            return false;
        }
    }
    return true;
}

/* C = A * B; (a, b, c, numbers...), as src/compute/matmul.cu has it. */
static bool matmul(struct fake_device *device, const struct fake_launch *launch) {
    uint64_t dense[MATMUL_NUMBERS];
    const uint64_t *numbers = launch->values + 3;
    uint64_t m = numbers[MATMUL_M], n = numbers[MATMUL_N], k = numbers[MATMUL_K];
    uint64_t each = numbers[MATMUL_PRECISION] == 1 ? 4 : numbers[MATMUL_PRECISION] >= 4 ? 1 : 2;
    bool turned_a = numbers[MATMUL_FLAGS] & 1, turned_b = numbers[MATMUL_FLAGS] & 2;
    uint64_t row_a = turned_a ? m : k, row_b = turned_b ? k : n; /* elements of a line */
    uint64_t at_a = launch->values[0] + numbers[MATMUL_A_FIRST] * each;
    uint64_t at_b = launch->values[1] + numbers[MATMUL_B_FIRST] * each;
    uint64_t at_c = launch->values[2] + numbers[MATMUL_C_FIRST] * 4;
    char *a = malloc(m * k * each), *b = malloc(k * n * each);
    float *c = malloc(m * n * sizeof *c);
    bool good =
        launch->items[0] == 16 && launch->items[1] == 16 && a && b && c &&
        lines(device, at_a, numbers[MATMUL_LDA] * each, a, turned_a ? k : m, row_a * each, false) &&
        lines(device, at_b, numbers[MATMUL_LDB] * each, b, turned_b ? n : k, row_b * each, false) &&
        lines(device, at_c, numbers[MATMUL_LDC] * 4, c, m, n * 4, false);
    if (good) {
        memcpy(dense, numbers, sizeof dense);
        dense[MATMUL_LDA] = row_a;
        dense[MATMUL_LDB] = row_b;
        dense[MATMUL_LDC] = n;
        dense[MATMUL_A_FIRST] = dense[MATMUL_B_FIRST] = dense[MATMUL_C_FIRST] = 0;
        fake_matmul_run(a, b, c, dense, launch->groups[0], launch->groups[1]);
        good = lines(device, at_c, numbers[MATMUL_LDC] * 4, c, m, n * 4, true);
    }
    free(a);
    free(b);
    free(c);
    return good;
}

/* Pieces of device memory, taken out, given to a kernel, and those that it writes put back. */
struct pieces {
    int count;
    void *at[SHORTLIST_ADDRESSES];
    uint64_t bytes[SHORTLIST_ADDRESSES];
};

static bool pieces_take(struct fake_device *device, const struct fake_launch *launch,
                        struct pieces *pieces) {
    bool good = true;
    for (int i = 0; i < pieces->count && good; i++) {
        pieces->at[i] = malloc(pieces->bytes[i]);
        good = pieces->at[i] &&
               fake_access(device, launch->values[i], pieces->at[i], pieces->bytes[i], false);
    }
    return good;
}

static bool pieces_give(struct fake_device *device, const struct fake_launch *launch,
                        struct pieces *pieces, bool good, unsigned written) {
    for (int i = 0; i < pieces->count; i++) {
        if (good && written >> i & 1) {
            good = fake_access(device, launch->values[i], pieces->at[i], pieces->bytes[i], true);
        }
        free(pieces->at[i]);
    }
    return good;
}

/* (from, to, terms, found, centre, numbers...), as src/compute/shortlist.cu has it. */
static bool vectors(struct fake_device *device, const struct fake_launch *launch) {
    const uint64_t *numbers = launch->values + VECTORS_ADDRESSES;
    uint64_t rows = numbers[VECTORS_ROWS], dim = numbers[VECTORS_DIM];
    uint64_t stored = numbers[VECTORS_STORED], each = stored == 1 ? 4 : stored == 4 ? 1 : 2;
    struct pieces pieces = {.count = VECTORS_ADDRESSES,
                            .bytes = {rows * dim * 4, rows * numbers[VECTORS_STRIDE] * each,
                                      rows * 4, FAKE_FOUND * 4, dim * 4}};
    bool good = launch->items[0] == 256 && pieces_take(device, launch, &pieces);
    if (good) {
        fake_vectors_run(pieces.at[0], pieces.at[1], pieces.at[2], pieces.at[3], pieces.at[4],
                         numbers, launch->groups[0]);
    }
    return pieces_give(device, launch, &pieces, good, 14);
}

/* (products, queries, corpus, best, query, vectors, centre, numbers...), the same. */
static bool shortlist(struct fake_device *device, const struct fake_launch *launch) {
    const uint64_t *numbers = launch->values + SHORTLIST_ADDRESSES;
    uint64_t rows = launch->groups[0], dim = numbers[SHORTLIST_DIM];
    uint64_t columns = numbers[SHORTLIST_COLUMNS];
    struct pieces pieces = {.count = SHORTLIST_ADDRESSES,
                            .bytes = {rows * numbers[SHORTLIST_STRIDE] * 4, rows * 4, columns * 4,
                                      rows * numbers[SHORTLIST_K] * 8, rows * dim * 4,
                                      columns * dim * 4, dim * 4}};
    bool good = launch->items[0] == 256 && numbers[SHORTLIST_STRIDE] % 4 == 0 &&
                pieces_take(device, launch, &pieces);
    if (good) {
        fake_shortlist_run(pieces.at, numbers, rows);
    }
    return pieces_give(device, launch, &pieces, good, 8);
}

/* Adds up how many bytes are not the pattern's; (addr, bytes, body, wrong, pattern), as
   cli/replay/scanner.c has it. */
static bool scan(struct fake_device *device, const struct fake_launch *launch) {
    uint64_t bytes = launch->values[1], body = launch->values[2], wrong = 0;
    uint8_t *block = malloc(bytes);
    bool good = block && fake_access(device, launch->values[0], block, bytes, false) &&
                fake_access(device, launch->values[3], &wrong, sizeof wrong, false);
    for (uint64_t i = 0; i < bytes && good; i++) {
        wrong += block[i] != (uint8_t)(launch->values[4] >> (i < body ? i % 4 * 8 : 0));
    }
    free(block);
    return good && fake_access(device, launch->values[3], &wrong, sizeof wrong, true);
}

static const struct fake_kernel {
    const char *name;
    unsigned char bytes[FAKE_VALUES]; /* of each argument; 0 behind the last */
    bool (*run)(struct fake_device *device, const struct fake_launch *launch);
    bool (*may_end)(const struct fake_launch *launch); /* NULL: it waits for nothing */
} kernels[] = {
    {"vram_check_scale", {8, 8, 8, 8}, scale, NULL},
    {"vram_check_gate", {8, 8}, gate, gate_is_open},
    {"saxpy", {8, 8, 4, 4}, saxpy, NULL},
    {"vram_scatter", {8, 8}, scatter, NULL},
    {"vram_scan", {8, 8, 8, 8, 4}, scan, NULL},
    {"vram_ring_echo", {8, 8, 8}, gate, ring_may_end},
    {"forces", {8, 8, 8, 8, 8, 8, 8, 4, 4, 4}, forces, NULL},
    {"vram_matmul", {8, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4}, matmul, NULL},
    {"vram_matmul_int8", {8, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4}, matmul, NULL},
    {"vram_vectors", {8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4}, vectors, NULL},
    {"vram_shortlist", {8, 8, 8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4, 4}, shortlist, NULL},
};

static const struct fake_kernel *kernel_named(const char *name) {
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++) {
        if (strcmp(kernels[i].name, name) == 0) {
            return &kernels[i];
        }
    }
    return NULL;
}

bool fake_launch_may_end(struct fake_launch *launch) {
    launch->start_ns = launch->start_ns ? launch->start_ns : fake_now();
    return !launch->kernel->may_end || launch->kernel->may_end(launch);
}

bool fake_launch_run(struct fake_device *device, const struct fake_launch *launch) {
    return launch->kernel->run(device, launch);
}

/* ------------------------------------------------------------------ modules */

vr_cu_result fake_cuModuleLoadData(struct vr_cu_module **module, const void *image) {
    FAKE_ENTER(cuModuleLoadData, FAKE_NEEDS_CONTEXT);
    const char *end = strrchr(image, '}');
    if (!strstr(image, ".entry") || !end || strspn(end + 1, " \n") != strlen(end + 1)) {
        return fake_leave(strncmp(image, ".version", 8) == 0 ? VR_CU_INVALID_PTX
                                                             : VR_CU_INVALID_IMAGE);
    }
    struct vr_cu_module *made = calloc(1, sizeof *made);
    char *text = strdup(image);
    if (!made || !text) {
        free(made);
        free(text);
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    made->text = text;
    made->next = modules;
    modules = made;
    fake.live.modules++;
    *module = made;
    return fake_leave(VR_CU_SUCCESS);
}

static struct vr_cu_module **module_at(const struct vr_cu_module *module) {
    struct vr_cu_module **link = &modules;
    while (*link && *link != module) {
        link = &(*link)->next;
    }
    return link;
}

static void module_end(struct vr_cu_module **link) {
    struct vr_cu_module *module = *link;
    *link = module->next;
    while (module->functions) {
        struct vr_cu_function *function = module->functions;
        module->functions = function->next;
        free(function);
    }
    free(module->text);
    free(module);
}

vr_cu_result fake_cuModuleUnload(struct vr_cu_module *module) {
    FAKE_ENTER(cuModuleUnload, FAKE_NEEDS_SAFETY);
    struct vr_cu_module **link = module_at(module);
    if (!*link) {
        return fake_leave(VR_CU_INVALID_HANDLE);
    }
    module_end(link);
    fake.live.modules--;
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_cuModuleGetFunction(struct vr_cu_function **function, struct vr_cu_module *module,
                                      const char *name) {
    FAKE_ENTER(cuModuleGetFunction, FAKE_NEEDS_CONTEXT);
    char needle[96] = ".entry ";
    strncat(needle, name, sizeof needle - strlen(needle) - 2);
    strcat(needle, "(");
    const struct fake_kernel *kernel = kernel_named(name);
    if (!*module_at(module) || !kernel || !strstr(module->text, needle)) {
        return fake_leave(*module_at(module) ? VR_CU_NOT_FOUND : VR_CU_INVALID_HANDLE);
    }
    struct vr_cu_function *made = calloc(1, sizeof *made);
    if (!made) {
        return fake_leave(VR_CU_OUT_OF_MEMORY);
    }
    made->kernel = kernel;
    made->next = module->functions;
    module->functions = made;
    *function = fake_thread.lie == FAKE_CUDA_NULL ? NULL : made;
    return fake_leave(VR_CU_SUCCESS);
}

vr_cu_result fake_cuLaunchKernel(struct vr_cu_function *function, unsigned groups_x,
                                 unsigned groups_y, unsigned groups_z, unsigned items_x,
                                 unsigned items_y, unsigned items_z, unsigned shared_bytes,
                                 struct vr_cu_stream *stream, void **parameters, void **extra) {
    FAKE_ENTER(cuLaunchKernel, FAKE_NEEDS_CONTEXT);
    struct fake_op op = {.kind = LAUNCH,
                         .launch = {.kernel = function->kernel,
                                    .groups = {groups_x, groups_y, groups_z},
                                    .items = {items_x, items_y, items_z}}};
    if (shared_bytes || extra || !groups_x || !groups_y || !groups_z || !items_x || !items_y ||
        !items_z) {
        return fake_leave(VR_CU_INVALID_VALUE);
    }
    if ((uint64_t)items_x * items_y * items_z > 1024) {
        return fake_leave(VR_CU_LAUNCH_OUT_OF_RESOURCES);
    }
    for (unsigned i = 0; i < FAKE_VALUES && function->kernel->bytes[i]; i++) {
        memcpy(&op.launch.values[i], parameters[i], function->kernel->bytes[i]);
    }
    return fake_submit(stream, &op, false);
}

void fake_modules_reset(void) {
    while (modules) {
        module_end(&modules);
    }
}

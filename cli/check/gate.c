/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate.c: work that ends when the case says so.
 *
 * Timing proves nothing on a busy machine: a copy may be done before anyone looks. A kernel that
 * waits for a word is certainly not done while the word is 0, so "not ready", "timeout", "queues
 * run beside each other" and "after" can be shown for sure. That takes kernels that are C functions
 * run by another thread, PTX and pinned memory, or OpenCL C on a CPU and memory that a kernel and
 * the host see at the same time. Simulated devices run kernels inside the caller's own calls, where
 * waiting would be for ever: there, and where the host cannot reach a running kernel, the cases
 * that need a gate are skipped.
 */
#include "case.h"
#include "generated/device_code_ptx.h"

#define GATE_LIMIT_NS (CHECK_DEADLINE_NS / 2)
#define GPU_LIMIT_NS                                                                               \
    UINT64_C(5000000000) /* a driver that makes calls wait for kernels holds them that long */

static void gate_kernel(const vram_kernel_call *call) {
    const uint32_t *word = *(uint32_t *const *)call->arguments[0];
    uint64_t deadline = check_now() + *(const uint64_t *)call->arguments[1];
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0 && check_now() < deadline) {
        check_sleep(50000);
    }
}

/* It counts, since it has no clock: a turn takes about a nanosecond. */
static const char gate_text[] = "__kernel void gate(volatile __global uint *word, ulong turns) {\n"
                                "    for (ulong i = 0; i < turns && *word == 0; i++) {\n"
                                "    }\n"
                                "}\n";

static bool list_word(struct check *check, uint32_t *word, struct check_place place) {
    for (uint32_t i = 0; i < CHECK_GATES_MAX; i++) {
        if (check->gates[i] == NULL) {
            check->gates[i] = word;
            return true;
        }
    }
    return check_fail(check, place, "too many gates");
}

static bool make_c(struct check *check, struct check_device *device, struct check_gate *gate,
                   vram_status *status) {
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_C,
                                 .code = (const void *)(uintptr_t)gate_kernel,
                                 .entry = "gate"};
    void *memory;
    *status = vram_kernel_create(device->device, &source, &gate->kernel);
    if (*status == VRAM_OK) {
        CHECK_TRY(check_host(check, sizeof *gate->word, &memory));
        gate->word = memory;
    }
    return true;
}

/* Pinned memory is what a running kernel and the host see alike on every GPU that runs PTX. */
static bool make_ptx(struct check *check, struct check_device *device, struct check_gate *gate,
                     vram_status *status) {
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_PTX,
                                 .code = device_code_ptx,
                                 .code_bytes = sizeof device_code_ptx - 1,
                                 .entry = "vram_check_gate"};
    CHECK_NEEDS(check, VRAM_CAP_PINNED);
    *status = vram_kernel_create(device->device, &source, &gate->kernel);
    if (*status == VRAM_ERR_UNSUPPORTED) {
        return check_skip(check, "needs kernels that run beside the calling thread and see its "
                                 "memory");
    }
    if (*status == VRAM_OK) {
        vram_addr pinned; /* an address of the host's, which goes to the kernel as it is */
        CHECK_ALLOC_KIND(check, device, sizeof *gate->word, VRAM_MEMORY_PINNED, &pinned);
        gate->word = (uint32_t *)(uintptr_t)pinned;
        gate->limit = GPU_LIMIT_NS;
        check_gate_shut(gate);
    }
    return true;
}

static bool make_opencl(struct check *check, struct check_device *device, struct check_gate *gate,
                        vram_status *status) {
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_OPENCL_C,
                                 .code = gate_text,
                                 .code_bytes = sizeof gate_text - 1,
                                 .entry = "gate"};
    CHECK_NEEDS(check, VRAM_CAP_MANAGED);
    *status = vram_kernel_create(device->device, &source, &gate->kernel);
    if (*status == VRAM_ERR_UNSUPPORTED) {
        return check_skip(check, "needs kernels in C or OpenCL C");
    }
    if (*status == VRAM_OK) {
        CHECK_ALLOC_KIND(check, device, sizeof *gate->word, VRAM_MEMORY_MANAGED, &gate->addr);
        gate->word = (uint32_t *)(uintptr_t)gate->addr;
        check_gate_shut(gate);
    }
    return true;
}

bool check_gate_make_at(struct check *check, struct check_device *device, struct check_gate *gate,
                        struct check_place place) {
    vram_status status;
    *gate = (struct check_gate){.limit = GATE_LIMIT_NS};
    CHECK_NEEDS(check, VRAM_CAP_KERNELS);
    if (check->info.kind == VRAM_DEVICE_SIMULATED) {
        return check_skip(check, "needs kernels that run beside the calling thread and see its "
                                 "memory");
    }
    if (check->info.kind == VRAM_DEVICE_GPU) {
        CHECK_TRY(make_ptx(check, device, gate, &status));
    } else {
        CHECK_TRY(make_c(check, device, gate, &status));
        if (status == VRAM_ERR_UNSUPPORTED) {
            CHECK_TRY(make_opencl(check, device, gate, &status));
        }
    }
    CHECK_TRY(check_ok(check, status, place));
    return list_word(check, gate->word, place);
}

bool check_gate_pass_at(struct check *check, const struct check_gate *gate, vram_queue *queue,
                        struct check_place place) {
    uint64_t word = (uintptr_t)gate->word, limit = gate->limit; /* of ns, or of turns */
    vram_launch launch = {.size = sizeof launch,
                          .groups = {1, 1, 1},
                          .group_size = {1, 1, 1},
                          .argument_count = 2,
                          .arguments = (const void *const[]){&word, &limit},
                          .argument_bytes = (const size_t[]){sizeof word, sizeof limit},
                          .address_mask = gate->addr ? 1 : 0};
    uint64_t start = check_now();
    CHECK_TRY(check_ok(check, vram_queue_launch(queue, gate->kernel, &launch), place));
    /* CUDA_LAUNCH_BLOCKING, some debuggers. */
    if (check_now() - start >= gate->limit) {
        return check_skip(check,
                          "launches return when the kernel has ended: nothing runs beside it");
    }
    return true;
}

void check_gate_open(const struct check_gate *gate) {
    __atomic_store_n(gate->word, 1, __ATOMIC_RELEASE);
}

void check_gate_shut(const struct check_gate *gate) {
    __atomic_store_n(gate->word, 0, __ATOMIC_RELEASE);
}

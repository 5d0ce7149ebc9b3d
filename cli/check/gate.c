/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gate.c: work that ends when the case says so.
 *
 * Timing proves nothing on a busy machine: a copy may be done before anyone looks. A kernel that
 * waits for a word is certainly not done while the word is 0, so "not ready", "timeout", "queues
 * run beside each other" and "after" can be shown for sure. That takes kernels that are C functions
 * run by another thread. Simulated devices run kernels inside the caller's own calls, where waiting
 * would be for ever, and GPUs run no C: there the cases that need a gate are skipped.
 */
#include "case.h"

#define GATE_LIMIT_NS (CHECK_DEADLINE_NS / 2)

static void gate_kernel(const vram_kernel_call *call) {
    const uint32_t *word = *(uint32_t *const *)call->arguments[0];
    uint64_t deadline = check_now() + *(const uint64_t *)call->arguments[1];
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0 && check_now() < deadline) {
        check_sleep(50000);
    }
}

static bool make_word(struct check *check, uint32_t **word, struct check_place place) {
    void *memory;

    CHECK_TRY(check_host(check, sizeof **word, &memory));
    *word = memory;
    for (uint32_t i = 0; i < CHECK_GATES_MAX; i++) {
        if (check->gates[i] == NULL) {
            check->gates[i] = *word;
            return true;
        }
    }
    return check_fail(check, place, "too many gates");
}

bool check_gate_make_at(struct check *check, struct check_device *device, struct check_gate *gate,
                        struct check_place place) {
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_C,
                                 .code = (const void *)(uintptr_t)gate_kernel,
                                 .entry = "gate"};

    CHECK_NEEDS(check, VRAM_CAP_KERNELS);
    if (check->info.kind != VRAM_DEVICE_CPU) {
        return check_skip(check, "needs C kernels that run beside the calling thread");
    }
    vram_status status = vram_kernel_create(device->device, &source, &gate->kernel);
    if (status == VRAM_ERR_UNSUPPORTED) { /* a GPU's API, on the CPU */
        return check_skip(check, "needs C kernels that run beside the calling thread");
    }
    return check_ok(check, status, place) && make_word(check, &gate->word, place);
}

bool check_gate_pass_at(struct check *check, const struct check_gate *gate, vram_queue *queue,
                        struct check_place place) {
    uint64_t word = (uintptr_t)gate->word, limit = GATE_LIMIT_NS;
    vram_launch launch = {.size = sizeof launch,
                          .groups = {1, 1, 1},
                          .group_size = {1, 1, 1},
                          .argument_count = 2,
                          .arguments = (const void *const[]){&word, &limit},
                          .argument_bytes = (const size_t[]){sizeof word, sizeof limit}};
    return check_ok(check, vram_queue_launch(queue, gate->kernel, &launch), place);
}

void check_gate_open(const struct check_gate *gate) {
    __atomic_store_n(gate->word, 1, __ATOMIC_RELEASE);
}

void check_gate_shut(const struct check_gate *gate) {
    __atomic_store_n(gate->word, 0, __ATOMIC_RELEASE);
}

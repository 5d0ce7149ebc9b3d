/* SPDX-License-Identifier: Apache-2.0 */
/*
 * precision.c: element types, their sizes in bytes, and names of buffer kinds.
 */
#include "base/error.h"
#include "base/size.h"
#include "mem/mem_calls.h"

static const struct {
    const char *name;
    uint32_t bytes;
} precisions[] = {
    [VRAM_PRECISION_BYTES] = {"bytes", 1}, [VRAM_PRECISION_FP32] = {"fp32", 4},
    [VRAM_PRECISION_FP16] = {"fp16", 2},   [VRAM_PRECISION_BF16] = {"bf16", 2},
    [VRAM_PRECISION_INT8] = {"int8", 1},
};

enum { PRECISION_COUNT = sizeof precisions / sizeof precisions[0] };

uint32_t vr_precision_bytes(vram_precision precision) {
    return (unsigned)precision < PRECISION_COUNT ? precisions[precision].bytes : 0;
}

uint32_t vram_precision_bytes(vram_precision precision) {
    return vr_precision_bytes(precision);
}

const char *vr_precision_name(vram_precision precision) {
    return (unsigned)precision < PRECISION_COUNT ? precisions[precision].name : "unknown";
}

const char *vram_precision_name(vram_precision precision) {
    return vr_precision_name(precision);
}

vram_status vr_precision_size(vram_precision precision, uint64_t count, uint64_t *bytes) {
    VR_OPERATION("vram_precision_size");
    uint32_t each = vr_precision_bytes(precision);
    if (!bytes) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the bytes is NULL");
    }
    if (!each) {
        return vr_fail(VRAM_ERR_INVALID, "%d is not a vram_precision", (int)precision);
    }
    return vr_elements_size(each, count, bytes);
}

vram_status vr_elements_size(uint32_t each, uint64_t count, uint64_t *bytes) {
    return vr_mul(count, each, bytes)
               ? VRAM_OK
               : vr_fail(VRAM_ERR_OVERFLOW, "%llu elements of %u bytes do not fit into 64 bits",
                         (unsigned long long)count, each);
}

vram_status vram_precision_size(vram_precision precision, uint64_t count, uint64_t *bytes) {
    return vr_precision_size(precision, count, bytes);
}

const char *vr_buffer_kind_name(vram_buffer_kind kind) {
    static const char *const names[] = {
        [VRAM_BUFFER_DEVICE] = "device",     [VRAM_BUFFER_PINNED] = "pinned",
        [VRAM_BUFFER_MANAGED] = "managed",   [VRAM_BUFFER_MAPPED] = "mapped",
        [VRAM_BUFFER_FALLBACK] = "fallback",
    };
    return (unsigned)kind < sizeof names / sizeof names[0] ? names[kind] : "unknown";
}

const char *vram_buffer_kind_name(vram_buffer_kind kind) {
    return vr_buffer_kind_name(kind);
}

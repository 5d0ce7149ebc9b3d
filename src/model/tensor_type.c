/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensor_type.c: the table of tensor_type.h. Numbers of GGUF that are missing here (4, 5, 31 to 33,
 * 36 to 38) were removed from the format.
 */
#include "model/tensor_type.h"

#include "base/text.h"

#include <string.h>

static const struct vr_tensor_type table[] = {
    /* name, safetensors, gguf, elements and bytes of a block, for caches */
    {"f32", "F32", 0, 1, 4, true},           {"f16", "F16", 1, 1, 2, true},
    {"bf16", "BF16", 30, 1, 2, true},        {"q8_0", NULL, 8, 32, 34, true},
    {"q4_0", NULL, 2, 32, 18, true},         {"q4_1", NULL, 3, 32, 20, true},
    {"iq4_nl", NULL, 20, 32, 18, true},      {"q5_0", NULL, 6, 32, 22, true},
    {"q5_1", NULL, 7, 32, 24, true},         {"q8_1", NULL, 9, 32, 36, false},
    {"q2_K", NULL, 10, 256, 84, false},      {"q3_K", NULL, 11, 256, 110, false},
    {"q4_K", NULL, 12, 256, 144, false},     {"q5_K", NULL, 13, 256, 176, false},
    {"q6_K", NULL, 14, 256, 210, false},     {"q8_K", NULL, 15, 256, 292, false},
    {"iq2_xxs", NULL, 16, 256, 66, false},   {"iq2_xs", NULL, 17, 256, 74, false},
    {"iq3_xxs", NULL, 18, 256, 98, false},   {"iq1_s", NULL, 19, 256, 50, false},
    {"iq3_s", NULL, 21, 256, 110, false},    {"iq2_s", NULL, 22, 256, 82, false},
    {"iq4_xs", NULL, 23, 256, 136, false},   {"iq1_m", NULL, 29, 256, 56, false},
    {"tq1_0", NULL, 34, 256, 54, false},     {"tq2_0", NULL, 35, 256, 66, false},
    {"mxfp4", NULL, 39, 32, 17, false},      {"nvfp4", NULL, 40, 64, 36, false},
    {"q1_0", NULL, 41, 128, 18, false},      {"i8", "I8", 24, 1, 1, false},
    {"i16", "I16", 25, 1, 2, false},         {"i32", "I32", 26, 1, 4, false},
    {"i64", "I64", 27, 1, 8, false},         {"f64", "F64", 28, 1, 8, false},
    {"u8", "U8", -1, 1, 1, false},           {"u16", "U16", -1, 1, 2, false},
    {"u32", "U32", -1, 1, 4, false},         {"u64", "U64", -1, 1, 8, false},
    {"bool", "BOOL", -1, 1, 1, false},       {"f8_e4m3", "F8_E4M3", -1, 1, 1, false},
    {"f8_e5m2", "F8_E5M2", -1, 1, 1, false}, {"f8_e8m0", "F8_E8M0", -1, 1, 1, false},
    {"f6_e2m3", "F6_E2M3", -1, 4, 3, false}, {"f6_e3m2", "F6_E3M2", -1, 4, 3, false},
    {"f4", "F4", -1, 2, 1, false},           {"c64", "C64", -1, 1, 8, false},
    {"q2_0", NULL, 42, 64, 18, false},
};

enum { TYPES = sizeof table / sizeof table[0] };

const struct vr_tensor_type *vr_tensor_type_at(size_t index) {
    return index < TYPES ? &table[index] : NULL;
}

const struct vr_tensor_type *vr_tensor_type_of_gguf(uint32_t number) {
    for (size_t i = 0; i < TYPES && number <= INT32_MAX; i++) {
        if (table[i].gguf == (int32_t)number) {
            return &table[i];
        }
    }
    return NULL;
}

const struct vr_tensor_type *vr_tensor_type_of_safetensors(const char *name, size_t bytes) {
    for (size_t i = 0; i < TYPES; i++) {
        const char *own = table[i].safetensors;
        if (own && strlen(own) == bytes && memcmp(own, name, bytes) == 0) {
            return &table[i];
        }
    }
    return NULL;
}

static bool same_name(const char *a, const char *b) {
    while (*a && vr_text_lower(*a) == vr_text_lower(*b)) {
        a++, b++;
    }
    return *a == *b;
}

const struct vr_tensor_type *vr_tensor_type_of_name(const char *name) {
    for (size_t i = 0; i < TYPES; i++) {
        if (same_name(table[i].name, name)) {
            return &table[i];
        }
    }
    return NULL;
}

bool vr_tensor_type_bytes(const struct vr_tensor_type *type, uint64_t elements, uint64_t rows,
                          uint64_t *bytes) {
    return elements % type->block_elements == 0 &&
           vr_mul(elements / type->block_elements, type->block_bytes, &elements) &&
           vr_mul(elements, rows, bytes);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_maker.h: GGUF and safetensors files, made in memory piece by piece, right or wrong, and a
 * folder to put them in.
 */
#ifndef TEST_MODEL_MAKER_H
#define TEST_MODEL_MAKER_H

#include "vram/vram.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAKER_MAX = 1 << 20 };

struct maker {
    uint8_t data[MAKER_MAX];
    size_t bytes;
};

static inline void put(struct maker *maker, const void *data, size_t bytes) {
    assert_true(maker->bytes + bytes <= MAKER_MAX);
    memcpy(maker->data + maker->bytes, data, bytes);
    maker->bytes += bytes;
}

/* Little-endian. */
static inline void put_number(struct maker *maker, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) {
        uint8_t byte = (uint8_t)(value >> 8 * i);
        put(maker, &byte, 1);
    }
}

static inline void put_zeros(struct maker *maker, size_t bytes) {
    assert_true(maker->bytes + bytes <= MAKER_MAX);
    memset(maker->data + maker->bytes, 0, bytes);
    maker->bytes += bytes;
}

/* ---------------------------------------------------------------------- GGUF */

static inline void gguf_begin(struct maker *maker, uint64_t tensors, uint64_t pairs) {
    maker->bytes = 0;
    put(maker, "GGUF", 4);
    put_number(maker, 3, 4);
    put_number(maker, tensors, 8);
    put_number(maker, pairs, 8);
}

static inline void gguf_text(struct maker *maker, const char *text) {
    put_number(maker, strlen(text), 8);
    put(maker, text, strlen(text));
}

static inline void gguf_u32(struct maker *maker, const char *key, uint32_t value) {
    gguf_text(maker, key);
    put_number(maker, 4, 4);
    put_number(maker, value, 4);
}

static inline void gguf_string(struct maker *maker, const char *key, const char *value) {
    gguf_text(maker, key);
    put_number(maker, 8, 4);
    gguf_text(maker, value);
}

static inline void gguf_array(struct maker *maker, const char *key, const uint32_t *values,
                              uint64_t count) {
    gguf_text(maker, key);
    put_number(maker, 9, 4);
    put_number(maker, 4, 4);
    put_number(maker, count, 8);
    for (uint64_t i = 0; i < count; i++) {
        put_number(maker, values[i], 4);
    }
}

static inline void gguf_tensor(struct maker *maker, const char *name, uint64_t columns,
                               uint64_t rows, uint32_t type, uint64_t offset) {
    gguf_text(maker, name);
    put_number(maker, 2, 4);
    put_number(maker, columns, 8);
    put_number(maker, rows, 8);
    put_number(maker, type, 4);
    put_number(maker, offset, 8);
}

/* Padding up to the data, and that many bytes of it. */
static inline void gguf_data(struct maker *maker, size_t bytes) {
    put_zeros(maker, (32 - maker->bytes % 32) % 32 + bytes);
}

/* --------------------------------------------------------------- safetensors */

static inline void safetensors_make(struct maker *maker, const char *header, size_t data_bytes) {
    maker->bytes = 0;
    put_number(maker, strlen(header), 8);
    put(maker, header, strlen(header));
    put_zeros(maker, data_bytes);
}

/* -------------------------------------------------------------------- folder */

static char maker_folder[64];

static inline void folder_make(void) {
    snprintf(maker_folder, sizeof maker_folder, "/tmp/vram-model-XXXXXX");
    assert_non_null(mkdtemp(maker_folder));
}

static inline const char *folder_path(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", maker_folder, name);
    return path;
}

static inline void folder_write(const char *name, const void *data, size_t bytes) {
    FILE *file = fopen(folder_path(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static inline void folder_remove(const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++) {
        unlink(folder_path(names[i]));
    }
    assert_int_equal(rmdir(maker_folder), 0);
}

#endif

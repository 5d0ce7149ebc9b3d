/* SPDX-License-Identifier: Apache-2.0 */
/* A stranger's program on libvram-model. Its failures are in libvram's error record, and its memory
   comes from libvram's allocator. */
#include <vram/model.h>
#include <vram/vram.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int allocations;

static void *count_alloc(void *user, size_t bytes) {
    (void)user;
    allocations++;
    return malloc(bytes);
}

static void *count_resize(void *user, void *memory, size_t bytes) {
    (void)user;
    return realloc(memory, bytes);
}

static void count_free(void *user, void *memory) {
    (void)user;
    free(memory);
}

int main(void) {
    static const vram_host_allocator counting = {NULL, count_alloc, count_resize, count_free};
    vram_inference_shape shape = {.size = sizeof shape, .hidden = 64, .intermediate = 128};
    vram_inference_memory memory = {.size = sizeof memory};
    static vram_model model = {.size = sizeof model};
    shape.layers = shape.heads = shape.kv_heads = shape.vocabulary = shape.element_bytes = 1;
    if (vram_host_allocator_set(&counting) != VRAM_OK ||
        vram_inference_estimate(&shape, &memory) != VRAM_OK || memory.total_bytes == 0) {
        printf("%s\n", vram_error_get()->text);
        return 1;
    }
    shape.hidden = 0;
    if (vram_inference_estimate(&shape, &memory) != VRAM_ERR_INVALID ||
        strcmp(vram_error_get()->operation, "vram_inference_estimate") != 0) {
        printf("the error record is not of vram_inference_estimate\n");
        return 1;
    }
    if (vram_model_read("/nonexistent/model.gguf", NULL, &model) == VRAM_OK || allocations == 0 ||
        vram_host_bytes() != 0) {
        printf("%d allocations, %llu bytes are left\n", allocations,
               (unsigned long long)vram_host_bytes());
        return 1;
    }
    printf("libvram %s, devices: 1\n", vram_version_text());
    return 0;
}

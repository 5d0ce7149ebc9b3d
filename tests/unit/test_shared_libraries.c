/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_shared_libraries.c: the libraries on top of libvram as shared libraries, without host
 * memory: call 1, 2, 3 ... of the program's allocator fails until none is left. libvram's error
 * record names the call of theirs that needed the memory.
 */
#include "unit/assert_ok.h"

#include <stdlib.h>
#include <string.h>
#include <vram/labels.h>
#include <vram/model.h>
#include <vram/vram.h>

static uint64_t calls;   /* of the allocator since it was last armed */
static uint64_t fail_at; /* the call that fails; 0: none */

static bool strikes(void) {
    return ++calls == fail_at;
}

static void *program_alloc(void *user, size_t bytes) {
    (void)user;
    return strikes() ? NULL : malloc(bytes);
}

static void *program_resize(void *user, void *memory, size_t bytes) {
    (void)user;
    return strikes() ? NULL : realloc(memory, bytes);
}

static void program_free(void *user, void *memory) {
    (void)user;
    free(memory);
}

static int begin(void) {
    static const vram_host_allocator allocator = {NULL, program_alloc, program_resize,
                                                  program_free};
    fail_at = 0;
    return vram_host_allocator_set(&allocator) == VRAM_OK ? 0 : -1;
}

static int end(void) {
    return vram_host_bytes() == 0 && vram_host_allocator_set(NULL) == VRAM_OK ? 0 : -1;
}

/* Runs `step` with one failing call after the other; how many made it fail. */
static uint64_t fail_each(vram_status (*step)(void), const char *operation) {
    uint64_t failures = 0;
    vram_status status;
    for (uint64_t nth = 1; nth < 1000; nth++) {
        uint64_t before = vram_host_bytes();
        calls = 0;
        fail_at = nth;
        vram_error_clear();
        status = step();
        fail_at = 0;
        assert_int_equal(vram_host_bytes(), before);
        if (status != VRAM_OK) {
            assert_int_equal(status, VRAM_ERR_HOST_MEMORY);
            assert_int_equal(vram_error_get()->status, VRAM_ERR_HOST_MEMORY);
            assert_string_equal(vram_error_get()->operation, operation);
            failures++;
        } else if (calls < nth) {
            return failures;
        }
    }
    fail_msg("%s asks for memory for ever", operation);
    return 0;
}

static vram_status make_labels(void) {
    vram_labels *labels = NULL;
    vram_status status = vram_labels_create(NULL, &labels);
    assert_int_equal(status == VRAM_OK, labels != NULL);
    vram_labels_destroy(labels);
    return status;
}

TEST(labels_without_memory) {
    assert_true(fail_each(make_labels, "vram_labels_create") > 0);
    assert_ok(make_labels());
}

static vram_status read_model(void) {
    vram_model model = {.size = sizeof model};
    return vram_model_read(MODEL, NULL, &model);
}

TEST(model_without_memory) {
    assert_true(fail_each(read_model, "vram_model_read") > 0);
    assert_ok(read_model());
}

EACH_TEST(begin, end)

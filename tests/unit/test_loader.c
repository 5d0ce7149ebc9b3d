/* SPDX-License-Identifier: Apache-2.0 */
/* test_loader.c: opening libraries by list of names and symbols, whole or not at all. */
#include "base/loader.h"
#include "rig/rig.h"

#include <string.h>

#define MATH "libm.so.6"

struct table {
    double (*cosine)(double);
    double (*root)(double);
    void (*extra)(void);
};

/* What the rows of a driver's list look like: there, there under an older name, left out. */
static const struct vr_symbol symbols[] = {
    {"cos", NULL, offsetof(struct table, cosine), false},
    {"sqrt_v2", "sqrt", offsetof(struct table, root), false},
    {"cos_of_the_next_release", NULL, offsetof(struct table, extra), true},
};
#define SYMBOLS (sizeof symbols / sizeof symbols[0])

static void unused(void) {}

TEST(a_library_fills_its_table) {
    const char *const names[] = {MATH, NULL};
    struct vr_library library = {.native = NULL};
    struct table table = {.extra = unused};
    assert_int_equal(vr_library_open(&library, "test", names, symbols, SYMBOLS, &table), VRAM_OK);
    assert_non_null(library.native);
    assert_string_equal(library.name, MATH);
    assert_true(table.cosine(0.0) == 1.0);
    assert_true(table.root(9.0) == 3.0);
    assert_true(table.extra == NULL);
    vr_library_close(&library);
    assert_null(library.native);
    assert_string_equal(library.name, "");
    vr_library_close(&library);
}

TEST(the_first_name_that_loads_wins) {
    const char *const names[] = {"libnot_there.so.1", MATH, "libc.so.6", NULL};
    struct vr_library library = {.native = NULL};
    struct table table = {.extra = NULL};
    assert_int_equal(vr_library_open(&library, "test", names, symbols, SYMBOLS, &table), VRAM_OK);
    assert_string_equal(library.name, MATH);
    vr_library_close(&library);
}

/* Fails and has changed nothing. */
static const char *refused(const char *const *names, const struct vr_symbol *list, size_t count,
                           const char *operation) {
    struct vr_library library = {.native = NULL};
    struct table table = {.extra = unused};
    vram_error_clear();
    assert_int_equal(vr_library_open(&library, "test", names, list, count, &table),
                     VRAM_ERR_NO_DRIVER);
    assert_null(library.native);
    assert_string_equal(library.name, "");
    assert_true(table.cosine == NULL && table.root == NULL && table.extra == unused);
    const vram_error *error = vram_error_get();
    assert_int_equal(error->status, VRAM_ERR_NO_DRIVER);
    assert_string_equal(error->backend, "test");
    assert_string_equal(error->operation, operation);
    return error->text;
}

TEST(missing_libraries_are_named) {
    const char *const names[] = {"libnot_there.so.1", "libnot_there.so", NULL};
    const char *text = refused(names, symbols, SYMBOLS, "dlopen");
    assert_non_null(strstr(text, "libnot_there.so.1, libnot_there.so: cannot open"));
    const char *const empty[] = {"", NULL};
    assert_string_equal(refused(empty, symbols, SYMBOLS, "dlopen"), "no file name");
    const char *const none[] = {NULL};
    assert_string_equal(refused(none, symbols, SYMBOLS, "dlopen"), "no name to open");
}

/* Names with the same reason share it, and each reason is told. */
TEST(every_reason_is_told) {
    const char *const names[] = {"libnot_there.so.2", "libnot_there.so.1", "/proc/self/status",
                                 "libnot_there.so", NULL};
    const char *text = refused(names, symbols, SYMBOLS, "dlopen");
    assert_non_null(strstr(text, "libnot_there.so.2, libnot_there.so.1: cannot open"));
    assert_non_null(strstr(text, "; /proc/self/status: "));
    assert_non_null(strstr(text, "; libnot_there.so: cannot open"));
}

TEST(the_mend_is_never_cut) {
    char name[1000];
    struct vr_library library = {.native = NULL};
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = 0;
    const char *const names[] = {name, NULL}, *const brief[] = {"libnot_there.so", NULL};
    assert_int_equal(vr_library_load(&library, "test", names, "install it"), VRAM_ERR_NO_DRIVER);
    const char *text = vram_error_get()->text;
    assert_int_equal(strlen(text), VRAM_ERROR_TEXT_MAX - 1);
    assert_string_equal(text + strlen(text) - strlen("x; install it"), "x; install it");
    assert_int_equal(vr_library_load(&library, "test", brief, name), VRAM_ERR_NO_DRIVER);
    assert_int_equal(strncmp(vram_error_get()->text, "; xxx", 5), 0);
    assert_null(library.native);
}

/* A file that is there but no library, as a truncated driver is. */
TEST(broken_libraries_are_told) {
    const char *const names[] = {"/proc/self/status", "/dev/null", NULL};
    const char *text = refused(names, symbols, SYMBOLS, "dlopen");
    assert_non_null(strstr(text, "/proc/self/status: "));
    assert_non_null(strstr(text, "; /dev/null: "));
}

TEST(long_names_are_cut) {
    char name[1000];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = 0;
    const char *const names[] = {name, "libnot_there.so", NULL};
    assert_true(strlen(refused(names, symbols, SYMBOLS, "dlopen")) < VRAM_ERROR_TEXT_MAX);
}

TEST(missing_symbols_are_named) {
    static const struct vr_symbol wanting[] = {
        {"cos", NULL, offsetof(struct table, cosine), false},
        {"cosine_v2", "cosine", offsetof(struct table, root), false},
    };
    const char *const names[] = {MATH, NULL};
    const char *text = refused(names, wanting, 2, "dlsym");
    assert_non_null(strstr(text, MATH " has no symbol cosine_v2"));
}

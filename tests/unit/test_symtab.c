/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_symtab.c: names of functions that no module exports, and files that lie about them; and
 * libraries opened by a list of names and symbols, whole or not at all.
 */
#include "base/loader.h"
#include "base/os/platform.h"
#include "rig/rig.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---------------------------------------------------------------- this program */

static uint64_t frames[32];
static volatile uint32_t depth;

__attribute__((noinline)) static void well_hidden(void) {
    depth = vr_os_callers(frames, 32);
}

__attribute__((noinline)) static void hidden_too(void) {
    well_hidden();
    depth = depth + 0; /* so that the call above is one */
}

static const char *name_of(uint64_t frame, struct vr_code *code) {
    vr_os_code_at(frame, code);
    return code->function ? code->function : "";
}

/* Twice: the second time they are remembered. */
TEST(static_functions_have_names) {
    hidden_too();
    for (int round = 0; round < 2; round++) {
        struct vr_code first, second;
        uint32_t at = 0;
        while (at < depth && strcmp(name_of(frames[at], &first), "well_hidden") != 0) {
            at++;
        }
        assert_true(at + 1 < depth);
        assert_in_range(first.function_offset, 1, 4096);
        assert_string_equal(name_of(frames[at + 1], &second), "hidden_too");
        assert_true(first.ours && second.ours && first.module && first.module_offset);
    }
}

/* What the loader knows is asked of the loader, and what nobody knows has no name. */
TEST(other_names_are_as_before) {
    struct vr_code code;
    assert_string_equal(name_of((uintptr_t)&strtoull + 1, &code), "strtoull");
    assert_false(code.ours);
    assert_string_equal(name_of((uintptr_t)&code, &code), "");
    assert_string_equal(name_of(0, &code), "");
    assert_string_equal(name_of(UINT64_MAX, &code), "");
}

/* ----------------------------------------------------------------- made-up files */

/* A module with one function in its second segment, at 0x5010. */
struct module {
    Elf64_Ehdr header;
    Elf64_Phdr segments[2];
    Elf64_Shdr sections[3];
    Elf64_Sym symbols[4];
    char names[32];
    char code[64];
};

enum { PLACE = (int)offsetof(struct module, code) + 0x20 };

static struct module module_make(void) {
    struct module module = {.header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
                                       .e_phoff = offsetof(struct module, segments),
                                       .e_shoff = offsetof(struct module, sections),
                                       .e_phentsize = sizeof(Elf64_Phdr),
                                       .e_phnum = 2,
                                       .e_shentsize = sizeof(Elf64_Shdr),
                                       .e_shnum = 3},
                            .segments = {{.p_type = PT_LOAD, .p_filesz = 16},
                                         {.p_type = PT_LOAD,
                                          .p_offset = offsetof(struct module, code),
                                          .p_vaddr = 0x5000,
                                          .p_filesz = 64}},
                            .sections = {{.sh_type = SHT_NULL},
                                         {.sh_type = SHT_SYMTAB,
                                          .sh_offset = offsetof(struct module, symbols),
                                          .sh_size = sizeof module.symbols,
                                          .sh_link = 2},
                                         {.sh_type = SHT_STRTAB,
                                          .sh_offset = offsetof(struct module, names),
                                          .sh_size = sizeof module.names}},
                            .symbols = {{0},
                                        {.st_name = 1,
                                         .st_info = ELF64_ST_INFO(STB_LOCAL, STT_OBJECT),
                                         .st_shndx = 1,
                                         .st_value = 0x5000,
                                         .st_size = 64},
                                        {.st_name = 6,
                                         .st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
                                         .st_shndx = 1,
                                         .st_value = 0x5010,
                                         .st_size = 0x18},
                                        {.st_name = 12,
                                         .st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
                                         .st_shndx = 1,
                                         .st_value = 0x5028,
                                         .st_size = 8}},
                            .names = "\0data\0there\0behind"};
    return module;
}

static bool look(const void *bytes, size_t count, uint64_t place, struct vr_code_source *source) {
    int fd = memfd_create("module", 0);
    char path[64];
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, count, 0), count);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    memset(source, 'x', sizeof *source);
    bool found = vr_os_source_in(path, 0, place, source);
    assert_int_equal(close(fd), 0);
    return found;
}

TEST(a_file_names_its_functions) {
    struct module module = module_make();
    struct vr_code_source source;
    assert_true(look(&module, sizeof module, PLACE, &source));
    assert_string_equal(source.function, "there");
    assert_int_equal(source.function_offset, 0x10);
    assert_true(look(&module, sizeof module, PLACE + 8, &source));
    assert_string_equal(source.function, "behind");
    assert_false(look(&module, sizeof module, PLACE + 16, &source)); /* no function */
    assert_false(look(&module, sizeof module, 20, &source));         /* in no segment */
    assert_false(vr_os_source_in("/", 0, PLACE, &source));           /* a folder */
    assert_false(vr_os_source_in("/nowhere/at/all", 0, PLACE, &source));
    assert_false(look("not a module", 12, PLACE, &source));
    assert_false(look("", 0, PLACE, &source));
    /* A name without an end ends with its table. */
    memset(module.names + 6, 'y', sizeof module.names - 6);
    assert_true(look(&module, sizeof module, PLACE, &source));
    assert_int_equal(strlen(source.function), sizeof module.names - 6);
    module.symbols[2].st_name = sizeof module.names;
    assert_false(look(&module, sizeof module, PLACE, &source));
}

/* Functions of 16 bytes, 24 apart, in no order; every tenth contains a smaller one. */
enum { MANY = 60000, APART = 24, NAME = 8 };
struct many {
    struct module module;
    Elf64_Sym symbols[MANY];
    char names[MANY][NAME];
};

static void many_fill(struct many *many) {
    many->module = module_make();
    many->module.segments[1].p_filesz = (uint64_t)MANY * APART;
    many->module.sections[1].sh_offset = offsetof(struct many, symbols);
    many->module.sections[1].sh_size = sizeof many->symbols;
    many->module.sections[2].sh_offset = offsetof(struct many, names);
    many->module.sections[2].sh_size = sizeof many->names;
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t number = (uint32_t)((uint64_t)i * 7919 % MANY); /* a prime: each once */
        bool inner = number % 10 == 9;
        many->symbols[i] = (Elf64_Sym){
            .st_name = number * NAME,
            .st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
            .st_shndx = 1,
            .st_value = 0x5000 + (uint64_t)(inner ? number - 1 : number) * APART + (inner ? 4 : 0),
            .st_size = inner ? 4 : 16};
        snprintf(many->names[number], NAME, "f%u", number);
    }
}

/* The name at an offset of the functions; "" if there is none. */
static const char *name_among(const char *path, uint64_t offset) {
    static struct vr_code_source source;
    memset(&source, 'x', sizeof source);
    bool found = vr_os_source_in(path, 0, offsetof(struct module, code) + offset, &source);
    return found ? source.function : "";
}

TEST(a_large_table_is_searched) {
    struct many *many = malloc(sizeof *many);
    char path[64];
    assert_non_null(many);
    many_fill(many);
    int fd = memfd_create("many", 0);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, many, sizeof *many, 0), sizeof *many);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (uint64_t number = 0; number < MANY; number += 997) {
        char expected[NAME];
        bool inner = number % 10 == 9;
        snprintf(expected, NAME, "f%u", (unsigned)number);
        assert_string_equal(name_among(path, number * APART + 15), inner ? "" : expected);
        assert_string_equal(name_among(path, number * APART), inner ? "" : expected);
        assert_string_equal(name_among(path, number * APART + 16), "");
    }
    assert_string_equal(name_among(path, 8 * APART + 3), "f8");
    assert_string_equal(name_among(path, 8 * APART + 4), "f9");
    assert_string_equal(name_among(path, 8 * APART + 8), "f8");
    assert_int_equal(close(fd), 0);
    free(many);
}

/* Another file by that name is another file. */
TEST(a_file_is_known_by_its_inode) {
    struct module module = module_make();
    struct vr_code_source source;
    struct stat is;
    char path[] = "/tmp/vram-symtab-XXXXXX";
    int fd = mkstemp(path);
    assert_int_equal(pwrite(fd, &module, sizeof module, 0), sizeof module);
    assert_int_equal(fstat(fd, &is), 0);
    assert_true(vr_os_source_in(path, is.st_ino, PLACE, &source));
    assert_false(vr_os_source_in(path, is.st_ino + 1, PLACE, &source));
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path), 0);
}

/* What has the file's name by now may be no file: nobody waits for one who writes to a pipe. */
TEST(a_pipe_is_not_waited_for) {
    struct vr_code_source source;
    char path[] = "/tmp/vram-symtab-XXXXXX", pipe[sizeof path + 5];
    assert_non_null(mkdtemp(path));
    snprintf(pipe, sizeof pipe, "%s/pipe", path);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    alarm(5);
    assert_false(vr_os_source_in(pipe, 0, PLACE, &source));
    alarm(0);
    assert_int_equal(unlink(pipe), 0);
    assert_int_equal(rmdir(path), 0);
}

/* ----------------------------------------------------------------------- libraries */

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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_line_table.c: files and lines of code, by debug information of every version, and by tables
 * that no compiler wrote.
 */
#include "base/os/elf_file.h"
#include "base/os/line_table.h"
#include "base/os/platform.h"
#include "base/size.h"
#include "rig/rig.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int call_fn(void (*back)(void));

/* ------------------------------------------------------------- compiled modules */

/* One function for each version; in RELINED_PATH lined_4 is of another file, and of lined_5 nothing
   is known. */
static const char *const functions[] = {"lined_2", "lined_3", "lined_4", "lined_5"};

static uint64_t frames[32];
static volatile uint32_t depth;

static void take_stack(void) {
    depth = vr_os_callers(frames, 32);
}

/* What is known of the call inside the function; *expected is its line. */
static void look_at_call(const char *path, const char *function, int *expected,
                         struct vr_code *code) {
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(module);
    void *symbol = dlsym(module, function);
    assert_non_null(symbol);
    call_fn *call;
    memcpy(&call, &symbol, sizeof call);
    *expected = call(take_stack);
    uint32_t at = 0;
    do {
        assert_true(at < depth);
        vr_os_code_at(frames[at++], code);
    } while (!code->function || strcmp(code->function, function) != 0);
    assert_int_equal(dlclose(module), 0);
}

TEST(every_version_has_lines) {
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        struct vr_code code;
        int expected;
        look_at_call(LINED_PATH, functions[i], &expected, &code);
        assert_string_equal(code.source.file, "lined.c");
        assert_int_equal(code.source.line, expected);
    }
}

TEST(a_name_has_no_folder) {
    struct vr_code code;
    int expected;
    look_at_call(RELINED_PATH, "lined_4", &expected, &code);
    assert_string_equal(code.source.file, "elsewhere.h");
    assert_int_equal(code.source.line, expected);
    assert_true(expected > 70000);
}

TEST(code_without_information_has_no_line) {
    struct vr_code code;
    int expected;
    look_at_call(RELINED_PATH, "lined_5", &expected, &code);
    assert_string_equal(code.source.file, "");
    assert_int_equal(code.source.line, 0);
}

/* ------------------------------------------------------------- changed modules */

struct copy {
    char path[32];
    struct vr_elf_file file;
};

/* Replaces what the file contains and keeps its inode. */
static void copy_write(const struct copy *copy, const char *module) {
    char command[512];
    snprintf(command, sizeof command, "cat '%s' >'%s'", module, copy->path);
    assert_int_equal(system(command), 0);
}

static void copy_begin(struct copy *copy, const char *module) {
    strcpy(copy->path, "/tmp/vram-lines-XXXXXX");
    int fd = mkstemp(copy->path);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    copy_write(copy, module);
}

static void copy_end(const struct copy *copy) {
    assert_int_equal(unlink(copy->path), 0);
}

/* The address of a function in a file. */
static uint64_t address_of(const struct vr_elf_file *file, const char *name) {
    Elf64_Shdr symbols, names;
    assert_true(vr_elf_section_named(file, ".symtab", &symbols));
    assert_true(vr_elf_section(file, symbols.sh_link, &names));
    for (uint64_t at = 0; at < symbols.sh_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        char found[32] = "";
        assert_true(vr_elf_read(file, symbols.sh_offset + at, &symbol, sizeof symbol));
        if (vr_elf_read(file, names.sh_offset + symbol.st_name, found, strlen(name) + 1) &&
            memcmp(found, name, strlen(name) + 1) == 0) {
            return symbol.st_value;
        }
    }
    fail();
    return 0;
}

static bool copy_look(struct copy *copy, const char *function, struct vr_code_source *source) {
    *source = (struct vr_code_source){.line = 0};
    assert_true(vr_elf_open(&copy->file, copy->path, 0));
    bool found = vr_elf_line(&copy->file, address_of(&copy->file, function), source);
    vr_elf_close(&copy->file);
    return found;
}

/* The second file of a unit, and its second sequence. */
TEST(a_unit_has_several_files) {
    struct vr_code_source source;
    struct copy copy;
    copy_begin(&copy, LINED_PATH);
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s_elsewhere", functions[i]);
        assert_true(copy_look(&copy, name, &source));
        assert_string_equal(source.file, "another.c");
        assert_int_equal(source.line, 7);
    }
    copy_end(&copy);
}

/* Also when it is the same file by name and inode. */
TEST(a_changed_file_is_read_again) {
    struct vr_code_source source;
    struct copy copy;
    copy_begin(&copy, LINED_PATH);
    assert_true(copy_look(&copy, "lined_5", &source));
    assert_string_equal(source.file, "lined.c");
    copy_write(&copy, RELINED_PATH);
    assert_true(copy_look(&copy, "lined_4", &source));
    assert_string_equal(source.file, "elsewhere.h");
    assert_false(copy_look(&copy, "lined_5", &source));
    copy_end(&copy);
}

/* More files than lists are kept of, and the first one again. */
TEST(many_files_take_turns) {
    struct copy copies[20];
    struct vr_code_source source;
    for (size_t i = 0; i < 20; i++) {
        copy_begin(&copies[i], i % 2 ? LINED_PATH : RELINED_PATH);
    }
    for (size_t i = 0; i < 60; i++) {
        assert_true(copy_look(&copies[i % 20], "lined_4", &source));
        assert_string_equal(source.file, i % 2 ? "lined.c" : "elsewhere.h");
    }
    for (size_t i = 0; i < 20; i++) {
        copy_end(&copies[i]);
    }
}

TEST(compressed_lines_are_none) {
    struct vr_code_source source;
    struct copy copy;
    Elf64_Shdr section;
    copy_begin(&copy, LINED_PATH);
    assert_true(vr_elf_open(&copy.file, copy.path, 0));
    assert_true(vr_elf_section_named(&copy.file, ".debug_line", &section));
    uint64_t offset = section.sh_offset, at = copy.file.header.e_shoff;
    for (uint32_t i = 0; vr_elf_section(&copy.file, i, &section); i++, at += sizeof section) {
        if (section.sh_offset == offset && section.sh_type == SHT_PROGBITS) {
            break;
        }
    }
    vr_elf_close(&copy.file);
    section.sh_flags |= SHF_COMPRESSED;
    FILE *stream = fopen(copy.path, "r+");
    assert_non_null(stream);
    assert_int_equal(fseek(stream, (long)at, SEEK_SET), 0);
    assert_int_equal(fwrite(&section, sizeof section, 1, stream), 1);
    assert_int_equal(fclose(stream), 0);
    assert_false(copy_look(&copy, "lined_5", &source));
    copy_end(&copy);
}

/* --------------------------------------------------------------- made-up tables */

static struct {
    uint8_t bytes[512];
    size_t used;
} made;

static bool made_read(const void *file, uint64_t offset, void *to, uint64_t bytes) {
    (void)file;
    assert_true(vr_inside(offset, bytes, 0, made.used));
    memcpy(to, made.bytes + offset, bytes);
    return true;
}

static void put(const void *bytes, size_t count) {
    assert_true(made.used + count <= sizeof made.bytes);
    memcpy(made.bytes + made.used, bytes, count);
    made.used += count;
}

#define PUT(...) put((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void put_number(uint64_t value, size_t bytes) {
    put(&value, bytes); /* little-endian machines */
}

/* The header of a unit of version 5 in 64-bit DWARF, up to its lists. Returns where its size is. */
static size_t unit_begin(void) {
    put_number(UINT32_MAX, 4);
    size_t begin = made.used;
    put_number(0, 8);
    PUT(5, 0, 8, 0);
    put_number(0, 8); /* of the header */
    PUT(4, 1, 1, (uint8_t)-3, 12, 14, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 2);
    return begin;
}

static void lists_end(size_t begin) {
    uint64_t bytes = made.used - (begin + 20);
    memcpy(made.bytes + begin + 12, &bytes, 8);
}

static void unit_end(size_t begin) {
    uint64_t bytes = made.used - (begin + 8);
    memcpy(made.bytes + begin, &bytes, 8);
}

static void put_address(uint64_t address) {
    PUT(0, 9, 2);
    put_number(address, 8);
}

static struct vr_line_table table_made(size_t names) {
    return (struct vr_line_table){.source = {.read = made_read},
                                  .lines = {.bytes = names},
                                  .line_names = {.offset = names, .bytes = made.used - names},
                                  .names = {.offset = names, .bytes = made.used - names}};
}

/* A unit with two files, whose lists have every form. The name of the second is used. */
static size_t rich_unit(void) {
    made.used = 0;
    size_t begin = unit_begin();
    PUT(2, 1, 0x08, 5, 0x1e, 2); /* two folders: a name and 16 bytes each */
    PUT('/', 'a', 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
    PUT('b', 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16);
    PUT(8, 0x40, 0x05, 0x41, 0x06, 0x42, 0x07, 0x43, 0x09, 0x44, 0x0a, 0x45, 0x0b, 1, 0x1f, 2, 0x0f,
        2 /* files */);
    for (int i = 0; i < 2; i++) {
        PUT(1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 2, 'b', 'b', 1, 'b', 5);
        put_number(i ? 6 : 0, 8);
        PUT(0x81, 0);
    }
    lists_end(begin);
    put_address(0x1000);
    PUT(13, 1, 0x7F);         /* unknown opcode 13 with two operands */
    PUT(3, 0x9C, 1, 1);       /* line 157 */
    PUT(8, 14 + 3 + 12);      /* + 20 * 4 + 4: line 157 */
    PUT(9, 8, 0, 3, 0x7D, 1); /* + 8: line 154 */
    PUT(4, 0, 5, 200, 1, 6, 7, 10, 11, 12, 1, 3, 0xE6, 0x7E, 1); /* file 0, line 0 */
    PUT(0, 2, 4, 9, 0, 0, 2, 2, 0, 1, 1); /* discriminator, nothing; +8, end */
    put_address(0);                       /* dropped by the linker */
    PUT(1, 2, 100, 0, 1, 1);
    put_address(0x9000);
    PUT(20, 2, 1, 0, 1, 1);
    unit_end(begin);
    return made.used;
}

static void check_line(const struct vr_line_table *table, const struct vr_line_sequence *in,
                       uint64_t address, const char *file, uint32_t line) {
    struct vr_code_source source = {.line = 0};
    bool found = vr_line_find(table, in, address, &source);
    assert_int_equal(found, line > 0);
    assert_string_equal(source.file, file);
    assert_int_equal(source.line, line);
}

TEST(every_instruction_is_known) {
    struct vr_line_sequence list[4];
    size_t names = rich_unit();
    put("x.cpp\0y/z.c", 12);
    struct vr_line_table table = table_made(names);
    assert_int_equal(vr_line_sequences(&table, list, 4), 2);
    assert_int_equal(list[0].low, 0x1000);
    assert_int_equal(list[0].high, 0x1000 + 84 + 8 + 8);
    check_line(&table, &list[0], 0xFFF, "", 0);
    check_line(&table, &list[0], 0x1000, "z.c", 157);
    check_line(&table, &list[0], 0x1000 + 83, "z.c", 157);
    check_line(&table, &list[0], 0x1000 + 84, "z.c", 157);
    check_line(&table, &list[0], 0x1000 + 92, "", 0); /* line 0 is none */
    check_line(&table, &list[0], 0x1000 + 100, "", 0);
    assert_int_equal(list[1].low, 0x9000);
    check_line(&table, &list[1], 0x9000, "z.c", 4);
    assert_int_equal(vr_line_sequences(&table, list, 1), 1); /* the list is full */
}

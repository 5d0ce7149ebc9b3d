/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symtab.c: names of functions that the loader does not know, from the symbol table of their file,
 * on Linux.
 *
 * The loader knows what a module exports. Static functions, and all functions of a program that was
 * not linked with -rdynamic, are only in the file's .symtab, unless it was stripped. At most
 * SYMBOL_BYTES of a table are read.
 */
#include "base/os/elf_file.h"
#include "base/size.h"

enum {
    SYMBOL_BYTES = 16 << 20, /* searched in a symbol table */
    AT_ONCE = 128            /* symbols read at a time */
};

/* The table of all symbols, and that of their names. */
static bool find_tables(const struct vr_elf_file *file, Elf64_Shdr *symbols, Elf64_Shdr *names) {
    for (uint32_t i = 0; vr_elf_section(file, i, symbols); i++) {
        if (symbols->sh_type == SHT_SYMTAB) {
            return vr_elf_section(file, symbols->sh_link, names);
        }
    }
    return false;
}

/* The function that `address` lies in. */
static bool find_symbol(const struct vr_elf_file *file, const Elf64_Shdr *table, uint64_t address,
                        Elf64_Sym *found) {
    Elf64_Sym symbols[AT_ONCE];
    uint64_t bytes = table->sh_size < SYMBOL_BYTES ? table->sh_size : SYMBOL_BYTES;
    uint64_t count = bytes / sizeof symbols[0];
    for (uint64_t first = 0; first < count; first += AT_ONCE) {
        uint64_t part = count - first < AT_ONCE ? count - first : AT_ONCE;
        if (!vr_elf_read(file, table->sh_offset + first * sizeof symbols[0], symbols,
                         part * sizeof symbols[0])) {
            return false;
        }
        for (uint64_t i = 0; i < part; i++) {
            if (ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC && symbols[i].st_shndx != SHN_UNDEF &&
                vr_inside(address, 1, symbols[i].st_value, symbols[i].st_size)) {
                *found = symbols[i];
                return true;
            }
        }
    }
    return false;
}

/* Truncates a name that does not fit. */
static bool read_name(const struct vr_elf_file *file, const Elf64_Shdr *names, uint32_t at,
                      struct vr_code_source *source) {
    uint64_t capacity = sizeof source->function - 1;
    if (at >= names->sh_size) {
        return false;
    }
    uint64_t bytes = names->sh_size - at < capacity ? names->sh_size - at : capacity;
    if (!vr_elf_read(file, names->sh_offset + at, source->function, bytes)) {
        return false;
    }
    source->function[bytes] = '\0';
    return source->function[0] != '\0';
}

bool vr_elf_function(const struct vr_elf_file *file, uint64_t address,
                     struct vr_code_source *source) {
    Elf64_Shdr symbols = {0}, names = {0};
    Elf64_Sym symbol = {0};
    if (!find_tables(file, &symbols, &names) || !find_symbol(file, &symbols, address, &symbol) ||
        !read_name(file, &names, symbol.st_name, source)) {
        source->function[0] = '\0';
        return false;
    }
    source->function_offset = address - symbol.st_value;
    return true;
}

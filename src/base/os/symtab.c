/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symtab.c: names of functions that the loader does not know, from the symbol table of their file,
 * on Linux.
 *
 * The loader knows what a module exports. Static functions, and all functions of a program that was
 * not linked with -rdynamic, are only in the file's .symtab, unless it was stripped. At most
 * SYMBOL_BYTES of a table are read. The functions of a LARGE one are sorted, once; those of the
 * last FILES files are kept. A file is known again by its device, inode, size and time of change.
 */
#include "base/lock.h"
#include "base/os/elf_file.h"
#include "base/size.h"

#include <stdlib.h>
#include <sys/mman.h>

enum {
    SYMBOL_BYTES = 32 << 20, /* searched in a symbol table */
    AT_ONCE = 128,           /* symbols read at a time */
    LARGE = 1 << 20,         /* bytes of a table */
    FILES = 4,
    NESTED = 16 /* functions that may begin inside another one */
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

/* ------------------------------------------------------------------- tables */

/* Shows the functions of a table, in its order, until `visit` returns true. */
static bool functions_visit(const struct vr_elf_file *file, const Elf64_Shdr *table,
                            bool (*visit)(const Elf64_Sym *symbol, void *user), void *user) {
    Elf64_Sym symbols[AT_ONCE];
    uint64_t count = vr_smaller(table->sh_size, SYMBOL_BYTES) / sizeof symbols[0];
    for (uint64_t first = 0; first < count; first += AT_ONCE) {
        uint64_t part = vr_smaller(count - first, AT_ONCE);
        if (!vr_elf_read(file, table->sh_offset + first * sizeof symbols[0], symbols,
                         part * sizeof symbols[0])) {
            return false;
        }
        for (uint64_t i = 0; i < part; i++) {
            if (ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC && symbols[i].st_shndx != SHN_UNDEF &&
                visit(&symbols[i], user)) {
                return true;
            }
        }
    }
    return false;
}

struct function {
    uint64_t address, bytes;
    uint32_t name; /* its place in the names */
};

struct wanted {
    uint64_t address;
    struct function found;
};

static bool function_match(const Elf64_Sym *symbol, void *user) {
    struct wanted *wanted = user;
    wanted->found = (struct function){symbol->st_value, symbol->st_size, symbol->st_name};
    return vr_inside(wanted->address, 1, symbol->st_value, symbol->st_size);
}

/* ------------------------------------------------------------------- sorted */

struct sorted_file {
    dev_t device;
    ino_t inode; /* 0: unused */
    off_t bytes;
    struct timespec changed;
    struct function *list; /* by address */
    uint64_t list_bytes;
    uint64_t count;
};

static struct {
    struct vr_mutex lock;
    uint32_t oldest;
    struct sorted_file files[FILES];
} sorted = {.lock = VR_MUTEX_INIT(VR_RANK_SHORT)};

static bool function_append(const Elf64_Sym *symbol, void *user) {
    struct sorted_file *to = user;
    if (symbol->st_size) {
        to->list[to->count++] =
            (struct function){symbol->st_value, symbol->st_size, symbol->st_name};
    }
    return false;
}

static int function_compare(const void *a, const void *b) {
    uint64_t first = ((const struct function *)a)->address;
    uint64_t second = ((const struct function *)b)->address;
    return first < second ? -1 : first > second;
}

/* Replaces the oldest. NULL: memory ran out. Under the lock. */
static struct sorted_file *sorted_add(const struct vr_elf_file *file, const Elf64_Shdr *table) {
    struct sorted_file made = {.device = file->status.st_dev,
                               .inode = file->status.st_ino,
                               .bytes = file->status.st_size,
                               .changed = file->status.st_mtim};
    uint64_t capacity = vr_smaller(table->sh_size, SYMBOL_BYTES) / sizeof(Elf64_Sym);
    made.list_bytes = capacity * sizeof *made.list;
    void *list = mmap(NULL, made.list_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (list == MAP_FAILED) {
        return NULL;
    }
    made.list = list;
    (void)functions_visit(file, table, function_append, &made);
    qsort(made.list, made.count, sizeof *made.list, function_compare);
    struct sorted_file *place = &sorted.files[sorted.oldest++ % FILES];
    if (place->list) {
        (void)munmap(place->list, place->list_bytes);
    }
    *place = made;
    return place;
}

static struct sorted_file *sorted_get(const struct vr_elf_file *file, const Elf64_Shdr *table) {
    const struct stat *status = &file->status;
    for (uint32_t i = 0; i < FILES; i++) {
        struct sorted_file *known = &sorted.files[i];
        if (known->inode && known->inode == status->st_ino && known->device == status->st_dev &&
            known->bytes == status->st_size && known->changed.tv_sec == status->st_mtim.tv_sec &&
            known->changed.tv_nsec == status->st_mtim.tv_nsec) {
            return known;
        }
    }
    return sorted_add(file, table);
}

/* The last function that contains the address, of those that begin before it. */
static bool sorted_search(const struct sorted_file *known, struct wanted *wanted) {
    uint64_t low = 0, high = known->count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (known->list[middle].address <= wanted->address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (uint64_t back = 1; back <= low && back <= NESTED; back++) {
        wanted->found = known->list[low - back];
        if (vr_inside(wanted->address, 1, wanted->found.address, wanted->found.bytes)) {
            return true;
        }
    }
    return false;
}

static bool function_find(const struct vr_elf_file *file, const Elf64_Shdr *table,
                          struct wanted *wanted) {
    if (table->sh_size < LARGE) {
        return functions_visit(file, table, function_match, wanted);
    }
    vr_mutex_lock(&sorted.lock);
    const struct sorted_file *known = sorted_get(file, table);
    bool found = known && sorted_search(known, wanted);
    vr_mutex_unlock(&sorted.lock);
    return found;
}

/* --------------------------------------------------------------------- names */

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
    struct wanted wanted = {.address = address};
    if (!find_tables(file, &symbols, &names) || !function_find(file, &symbols, &wanted) ||
        !read_name(file, &names, wanted.found.name, source)) {
        source->function[0] = '\0';
        return false;
    }
    source->function_offset = address - wanted.found.address;
    return true;
}

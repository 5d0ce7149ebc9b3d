/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symtab.c: names of functions that the loader does not know, from the symbol table of their file,
 * on Linux.
 *
 * The loader knows what a module exports. Static functions, and all functions of a program that was
 * not linked with -rdynamic, are only in the file's .symtab, unless it was stripped. A lookup takes
 * these steps:
 *
 *      pc  ->  /proc/self/maps: file, place in it  ->  program headers: address  ->  .symtab:
 *          function  ->  .strtab
 *
 *  (1) It runs only when a stack is printed, and its result is cached: stacks repeat the same
 *      functions.
 *  (2) A file is untrusted data: every number in it is checked against the file's size before it is
 *      used, at most SYMBOL_BYTES of a table are read, and nothing is allocated.
 *  (3) It must be the file that is mapped, not a newer one of the same name: the inodes are
 *      compared.
 */
#include "base/lock.h"
#include "base/os/platform.h"
#include "base/size.h"

#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SYMBOL_BYTES = 16 << 20, /* searched in a symbol table */
    HEADERS = 4096,          /* at most, of sections and of segments */
    AT_ONCE = 128,           /* symbols read at a time */
    CACHED_NAMES = 256       /* names in the cache */
};

/* ------------------------------------------------------------------------ files */

/* An open file, read in pieces. */
struct file {
    int fd;
    uint64_t bytes;
};

/* Reads all of it, or fails. */
static bool read_at(const struct file *file, uint64_t offset, void *to, uint64_t bytes) {
    if (!vr_inside(offset, bytes, 0, file->bytes)) {
        return false;
    }
    for (uint64_t done = 0; done < bytes;) {
        ssize_t got = pread(file->fd, (char *)to + done, bytes - done, (off_t)(offset + done));
        if (got <= 0) {
            return false;
        }
        done += (uint64_t)got;
    }
    return true;
}

static bool read_header(const struct file *file, Elf64_Ehdr *header) {
    return read_at(file, 0, header, sizeof *header) &&
           memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_phentsize == sizeof(Elf64_Phdr) &&
           header->e_phnum <= HEADERS && header->e_shentsize == sizeof(Elf64_Shdr) &&
           header->e_shnum <= HEADERS;
}

/* The address of a file offset, before the module is relocated to its load address. */
static bool address_of(const struct file *file, const Elf64_Ehdr *header, uint64_t place,
                       uint64_t *address) {
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;
        if (!read_at(file, header->e_phoff + i * sizeof segment, &segment, sizeof segment)) {
            return false;
        }
        if (segment.p_type == PT_LOAD && vr_inside(place, 1, segment.p_offset, segment.p_filesz)) {
            *address = place - segment.p_offset + segment.p_vaddr;
            return true;
        }
    }
    return false;
}

/* The table of all symbols, and that of their names. */
static bool find_tables(const struct file *file, const Elf64_Ehdr *header, Elf64_Shdr *symbols,
                        Elf64_Shdr *names) {
    for (unsigned i = 0; i < header->e_shnum; i++) {
        if (!read_at(file, header->e_shoff + i * sizeof *symbols, symbols, sizeof *symbols)) {
            return false;
        }
        if (symbols->sh_type == SHT_SYMTAB) {
            return symbols->sh_link < header->e_shnum &&
                   read_at(file, header->e_shoff + symbols->sh_link * sizeof *names, names,
                           sizeof *names);
        }
    }
    return false;
}

/* The function that `address` lies in. */
static bool find_symbol(const struct file *file, const Elf64_Shdr *table, uint64_t address,
                        Elf64_Sym *found) {
    Elf64_Sym symbols[AT_ONCE];
    uint64_t bytes = table->sh_size < SYMBOL_BYTES ? table->sh_size : SYMBOL_BYTES;
    uint64_t count = bytes / sizeof symbols[0];
    for (uint64_t first = 0; first < count; first += AT_ONCE) {
        uint64_t part = count - first < AT_ONCE ? count - first : AT_ONCE;
        if (!read_at(file, table->sh_offset + first * sizeof symbols[0], symbols,
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
static bool read_name(const struct file *file, const Elf64_Shdr *names, uint32_t at,
                      struct vr_function *function) {
    uint64_t capacity = sizeof function->name - 1;
    if (at >= names->sh_size) {
        return false;
    }
    uint64_t bytes = names->sh_size - at < capacity ? names->sh_size - at : capacity;
    if (!read_at(file, names->sh_offset + at, function->name, bytes)) {
        return false;
    }
    function->name[bytes] = '\0';
    return function->name[0] != '\0';
}

static bool function_find_in(const struct file *file, uint64_t place,
                             struct vr_function *function) {
    Elf64_Ehdr header;
    Elf64_Shdr symbols = {0}, names = {0};
    Elf64_Sym symbol = {0};
    uint64_t address = 0;
    if (!read_header(file, &header) || !address_of(file, &header, place, &address) ||
        !find_tables(file, &header, &symbols, &names) ||
        !find_symbol(file, &symbols, address, &symbol) ||
        !read_name(file, &names, symbol.st_name, function)) {
        return false;
    }
    function->offset = address - symbol.st_value;
    return true;
}

bool vr_os_function_in(const char *path, uint64_t inode, uint64_t place,
                       struct vr_function *function) {
    VR_UNCANCELLED;
    struct file file = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
    struct stat is;
    bool found = false;
    if (file.fd < 0) {
        return false;
    }
    if (fstat(file.fd, &is) == 0 && S_ISREG(is.st_mode) && is.st_size > 0 &&
        (!inode || is.st_ino == inode)) { /* keeps (3) */
        file.bytes = (uint64_t)is.st_size;
        found = function_find_in(&file, place, function);
    }
    (void)close(file.fd);
    return found;
}

/* ------------------------------------------------------------------------- maps */

/* One line of maps, "first-end rwxp offset device inode   path": the file offset of `pc`. */
static bool read_line(const char *line, uint64_t pc, uint64_t *place, uint64_t *inode,
                      const char **path) {
    uint64_t first, end, offset;
    int at = 0;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*4s %" SCNx64 " %*s %" SCNu64 " %n", &first, &end,
               &offset, inode, &at) != 4 ||
        pc < first || pc >= end || line[at] != '/') {
        return false;
    }
    *place = pc - first + offset;
    *path = line + at;
    return true;
}

/* Reads the mappings through a buffer of fixed size; a longer line is skipped. */
static bool find_mapping(uint64_t pc, struct vr_function *function) {
    VR_UNCANCELLED;
    char text[8192];
    size_t kept = 0;
    bool found = false;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && !found) {
        ssize_t got = read(fd, text + kept, sizeof text - 1 - kept);
        if (got <= 0) {
            break;
        }
        size_t end = kept + (size_t)got, line = 0;
        text[end] = '\0';
        for (char *stop; !found && (stop = memchr(text + line, '\n', end - line));
             line = (size_t)(stop - text) + 1) {
            uint64_t place = 0, inode = 0;
            const char *path = NULL;
            *stop = '\0';
            found = read_line(text + line, pc, &place, &inode, &path);
            if (found && !vr_os_function_in(path, inode, place, function)) {
                function->name[0] = '\0';
            }
        }
        kept = line ? end - line : 0;
        memmove(text, text + line, kept);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return found && function->name[0] != '\0';
}

/* ------------------------------------------------------------------- remembering */

/* Another function may have been at this address in a module that was unloaded, so `module` is part
   of the key. */
static struct {
    struct vr_mutex lock;
    struct {
        uint64_t pc, module;
        struct vr_function function; /* empty name: the function has none */
    } entries[CACHED_NAMES];
} memory = {.lock = VR_MUTEX_INIT(VR_RANK_SHORT)};

bool vr_os_function_at(uint64_t pc, uint64_t module, struct vr_function *function) {
    uint64_t at = pc * UINT64_C(0x9E3779B97F4A7C15) >> 56;
    _Static_assert(CACHED_NAMES == 1 << 8, "the upper 8 bits of a product");
    vr_mutex_lock(&memory.lock);
    bool known = memory.entries[at].pc == pc && memory.entries[at].module == module;
    *function = memory.entries[at].function;
    vr_mutex_unlock(&memory.lock);
    if (known) {
        return function->name[0] != '\0';
    }
    *function = (struct vr_function){.offset = 0};
    bool found = find_mapping(pc, function);
    if (!found) {
        *function = (struct vr_function){.offset = 0};
    }
    vr_mutex_lock(&memory.lock);
    memory.entries[at].pc = pc;
    memory.entries[at].module = module;
    memory.entries[at].function = *function;
    vr_mutex_unlock(&memory.lock);
    return found;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code_source.c: function, file and line of a code address, from the file of its module, on Linux.
 * A lookup takes these steps:
 *
 *      pc  ->  /proc/self/maps: file, place in it  ->  program headers: address
 *          ->  symtab.c: function
 *          ->  line_index.c: file, line
 *
 *  (1) It runs only when a stack is printed, and its result is cached: stacks repeat the same
 *      functions.
 *  (2) It reads the file that is mapped, not a newer one of the same name: the inodes are compared.
 *      So a name or a line is right or absent. A trace contains these texts and no addresses to be
 *      looked up later, when the program may have changed.
 */
#include "base/lock.h"
#include "base/os/elf_file.h"
#include "base/os/platform.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CACHED_SOURCES = 256 };

bool vr_os_source_in(const char *path, uint64_t inode, uint64_t place,
                     struct vr_code_source *source) {
    VR_UNCANCELLED;
    struct vr_elf_file file;
    uint64_t address;
    bool found = false;
    *source = (struct vr_code_source){.line = 0};
    if (!vr_elf_open(&file, path, inode)) {
        return false;
    }
    if (vr_elf_address(&file, place, &address)) {
        bool named = vr_elf_function(&file, address, source);
        found = vr_elf_line(&file, address, source) || named;
    }
    vr_elf_close(&file);
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
static void find_mapping(uint64_t pc, struct vr_code_source *source) {
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
            if (found) {
                (void)vr_os_source_in(path, inode, place, source);
            }
        }
        kept = line ? end - line : 0;
        memmove(text, text + line, kept);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
}

/* ------------------------------------------------------------------------ cache */

/* Other code may have been at this address in a module that was unloaded, so `module` is part of
   the key. */
static struct {
    struct vr_mutex lock;
    struct {
        uint64_t pc, module;
        struct vr_code_source source;
    } entries[CACHED_SOURCES];
} memory = {.lock = VR_MUTEX_INIT(VR_RANK_SHORT)};

void vr_os_source_at(uint64_t pc, uint64_t module, struct vr_code_source *source) {
    uint64_t at = pc * UINT64_C(0x9E3779B97F4A7C15) >> 56;
    _Static_assert(CACHED_SOURCES == 1 << 8, "the upper 8 bits of a product");
    vr_mutex_lock(&memory.lock);
    bool known = memory.entries[at].pc == pc && memory.entries[at].module == module;
    *source = memory.entries[at].source;
    vr_mutex_unlock(&memory.lock);
    if (known) {
        return;
    }
    *source = (struct vr_code_source){.line = 0};
    find_mapping(pc, source);
    vr_mutex_lock(&memory.lock);
    memory.entries[at].pc = pc;
    memory.entries[at].module = module;
    memory.entries[at].source = *source;
    vr_mutex_unlock(&memory.lock);
}

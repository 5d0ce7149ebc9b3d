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
#include "base/text.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
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

enum { MAPPINGS = 32, PATH_BYTES = 1024 };

/* A part of a file in memory; a file with a longer path has no names. */
struct mapping {
    uint64_t first, end, offset, inode;
    char path[PATH_BYTES];
};

static bool mapping_has(const struct mapping *mapping, uint64_t pc) {
    return pc >= mapping->first && pc < mapping->end;
}

/* One line of maps, "first-end rwxp offset device inode   path". */
static bool read_line(const char *line, uint64_t pc, struct mapping *mapping) {
    int at = 0;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*4s %" SCNx64 " %*s %" SCNu64 " %n", &mapping->first,
               &mapping->end, &mapping->offset, &mapping->inode, &at) != 4) {
        return false;
    }
    return mapping_has(mapping, pc) && line[at] == '/' &&
           vr_text_copy(mapping->path, sizeof mapping->path, line + at);
}

/* Reads the mappings through a buffer of fixed size, which leaves room on the smallest stacks; a
   longer line is skipped. A frame of its own: the debug information is read after it. */
__attribute__((noinline)) static bool find_mapping(uint64_t pc, struct mapping *mapping) {
    VR_UNCANCELLED;
    char text[PATH_BYTES + 512];
    size_t kept = 0;
    bool found = false, skips = false;
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
            *stop = '\0';
            found = !skips && read_line(text + line, pc, mapping);
            skips = false;
        }
        skips = skips || (!line && end == sizeof text - 1);
        kept = skips ? 0 : end - line;
        memmove(text, text + line, kept);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return found;
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
    struct {
        uint64_t module;
        struct mapping mapping;
    } mappings[MAPPINGS];
} memory = {.lock = VR_MUTEX_INIT(VR_RANK_SHORT)};

/* The mapping that was found for another address of the module. A file that was replaced since may
   be the one that is mapped now. */
static bool mapping_known(uint64_t pc, uint64_t module, struct mapping *mapping) {
    struct stat status;
    uint64_t at = module % MAPPINGS;
    vr_mutex_lock(&memory.lock);
    bool known =
        memory.mappings[at].module == module && mapping_has(&memory.mappings[at].mapping, pc);
    *mapping = memory.mappings[at].mapping;
    vr_mutex_unlock(&memory.lock);
    return known && stat(mapping->path, &status) == 0 && status.st_ino == mapping->inode;
}

static void source_look_up(uint64_t pc, uint64_t module, struct vr_code_source *source) {
    struct mapping mapping;
    *source = (struct vr_code_source){.line = 0};
    if (!mapping_known(pc, module, &mapping)) {
        if (!find_mapping(pc, &mapping)) {
            return;
        }
        vr_mutex_lock(&memory.lock);
        memory.mappings[module % MAPPINGS].module = module;
        memory.mappings[module % MAPPINGS].mapping = mapping;
        vr_mutex_unlock(&memory.lock);
    }
    (void)vr_os_source_in(mapping.path, mapping.inode, pc - mapping.first + mapping.offset, source);
}

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
    source_look_up(pc, module, source);
    vr_mutex_lock(&memory.lock);
    memory.entries[at].pc = pc;
    memory.entries[at].module = module;
    memory.entries[at].source = *source;
    vr_mutex_unlock(&memory.lock);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elf_file.h: the file of a module, read in pieces, on Linux.
 *
 * A file is untrusted data: every number in it is checked against the file's size before it is
 * used, and nothing is allocated.
 */
#ifndef VR_ELF_FILE_H
#define VR_ELF_FILE_H

#include "base/os/os.h"

#include <elf.h>
#include <sys/stat.h>

struct vr_elf_file {
    int fd;
    struct stat status;
    Elf64_Ehdr header;
};

/* `inode` is that of the mapped file: a newer file of the same name is refused. 0 accepts any. */
bool vr_elf_open(struct vr_elf_file *file, const char *path, uint64_t inode);
void vr_elf_close(struct vr_elf_file *file);

/* Reads all of it, or fails. */
bool vr_elf_read(const struct vr_elf_file *file, uint64_t offset, void *to, uint64_t bytes);

/* The address of a file offset, before the module is relocated to its load address. */
bool vr_elf_address(const struct vr_elf_file *file, uint64_t place, uint64_t *address);

bool vr_elf_section(const struct vr_elf_file *file, uint32_t index, Elf64_Shdr *section);
/* A section with contents that are not compressed. */
bool vr_elf_section_named(const struct vr_elf_file *file, const char *name, Elf64_Shdr *section);

/* symtab.c: the function at an address. False: unknown. */
bool vr_elf_function(const struct vr_elf_file *file, uint64_t address,
                     struct vr_code_source *source);

/* line_index.c: the line of an address. False: unknown. */
bool vr_elf_line(const struct vr_elf_file *file, uint64_t address, struct vr_code_source *source);

#endif

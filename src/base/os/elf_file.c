/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elf_file.c: see elf_file.h.
 */
#include "base/os/elf_file.h"

#include "base/size.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { HEADERS = 4096 /* at most, of sections and of segments */ };

bool vr_elf_read(const struct vr_elf_file *file, uint64_t offset, void *to, uint64_t bytes) {
    if (!vr_inside(offset, bytes, 0, (uint64_t)file->status.st_size)) {
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

static bool header_read(struct vr_elf_file *file) {
    Elf64_Ehdr *header = &file->header;
    return vr_elf_read(file, 0, header, sizeof *header) &&
           memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_phentsize == sizeof(Elf64_Phdr) &&
           header->e_phnum <= HEADERS && header->e_shentsize == sizeof(Elf64_Shdr) &&
           header->e_shnum <= HEADERS;
}

bool vr_elf_open(struct vr_elf_file *file, const char *path, uint64_t inode) {
    file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file->fd < 0) {
        return false;
    }
    bool good = fstat(file->fd, &file->status) == 0 && S_ISREG(file->status.st_mode) &&
                (!inode || file->status.st_ino == inode) && header_read(file);
    if (!good) {
        vr_elf_close(file);
    }
    return good;
}

void vr_elf_close(struct vr_elf_file *file) {
    (void)close(file->fd);
}

bool vr_elf_address(const struct vr_elf_file *file, uint64_t place, uint64_t *address) {
    for (unsigned i = 0; i < file->header.e_phnum; i++) {
        Elf64_Phdr segment;
        if (!vr_elf_read(file, file->header.e_phoff + i * sizeof segment, &segment,
                         sizeof segment)) {
            return false;
        }
        if (segment.p_type == PT_LOAD && vr_inside(place, 1, segment.p_offset, segment.p_filesz)) {
            *address = place - segment.p_offset + segment.p_vaddr;
            return true;
        }
    }
    return false;
}

bool vr_elf_section(const struct vr_elf_file *file, uint32_t index, Elf64_Shdr *section) {
    return index < file->header.e_shnum &&
           vr_elf_read(file, file->header.e_shoff + index * sizeof *section, section,
                       sizeof *section);
}

bool vr_elf_section_named(const struct vr_elf_file *file, const char *name, Elf64_Shdr *section) {
    size_t bytes = strlen(name) + 1;
    char found[32];
    Elf64_Shdr names;
    if (bytes > sizeof found || !vr_elf_section(file, file->header.e_shstrndx, &names)) {
        return false;
    }
    for (uint32_t i = 0; vr_elf_section(file, i, section); i++) {
        if (vr_inside(section->sh_name, bytes, 0, names.sh_size) &&
            vr_elf_read(file, names.sh_offset + section->sh_name, found, bytes) &&
            memcmp(found, name, bytes) == 0) {
            return section->sh_type != SHT_NOBITS && !(section->sh_flags & SHF_COMPRESSED);
        }
    }
    return false;
}

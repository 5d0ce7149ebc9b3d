/* SPDX-License-Identifier: Apache-2.0 */
/*
 * line_index.c: the line of an address in a file, by a list of the file's sequences, on Linux.
 *
 * Only a run of all its programs tells which sequence of a file holds an address (line_table.h), so
 * the lists of the last FILES files are kept. A file is known again by its device, inode, size and
 * time of change.
 *
 * A file has no lines if its .debug_line is missing, compressed (-gz) or larger than LINES_BYTES.
 * Separate files of debug information are not looked for.
 */
#include "base/lock.h"
#include "base/os/elf_file.h"
#include "base/os/line_table.h"
#include "base/size.h"

#include <string.h>
#include <sys/mman.h>

enum {
    FILES = 16,
    LINES_BYTES = 64 << 20,
    SEQUENCE_BYTES = 16 /* in a file, as compilers write them: an address, two rows, an end */
};

struct indexed_file {
    dev_t device;
    ino_t inode; /* 0: unused */
    off_t bytes;
    struct timespec changed;
    struct vr_line_table table;
    struct vr_line_sequence *list;
    uint64_t list_bytes;
    uint32_t count;
};

static struct {
    struct vr_mutex lock;
    uint32_t oldest;
    struct indexed_file files[FILES];
} lines = {.lock = VR_MUTEX_INIT(VR_RANK_SHORT)};

static bool file_read(const void *file, uint64_t offset, void *to, uint64_t bytes) {
    return vr_elf_read(file, offset, to, bytes);
}

static struct vr_dwarf_section section_of(const struct vr_elf_file *file, const char *name) {
    Elf64_Shdr section;
    struct vr_dwarf_section found = {0};
    if (vr_elf_section_named(file, name, &section)) {
        found = (struct vr_dwarf_section){.offset = section.sh_offset, .bytes = section.sh_size};
    }
    return found;
}

static struct indexed_file *file_find(const struct stat *status) {
    for (uint32_t i = 0; i < FILES; i++) {
        struct indexed_file *known = &lines.files[i];
        if (known->inode && known->inode == status->st_ino && known->device == status->st_dev &&
            known->bytes == status->st_size && known->changed.tv_sec == status->st_mtim.tv_sec &&
            known->changed.tv_nsec == status->st_mtim.tv_nsec) {
            return known;
        }
    }
    return NULL;
}

/* Memory for the longest list is reserved first; what the list does not use is returned. */
static bool list_make(struct indexed_file *to) {
    uint64_t capacity = to->table.lines.bytes / SEQUENCE_BYTES;
    void *list = capacity ? mmap(NULL, capacity * sizeof *to->list, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                          : MAP_FAILED;
    if (list == MAP_FAILED) {
        return false;
    }
    to->count = vr_line_sequences(&to->table, list, (uint32_t)capacity);
    to->list_bytes = (to->count + 1) * sizeof *to->list;
    to->list = mremap(list, capacity * sizeof *to->list, to->list_bytes, 0); /* cannot fail */
    return true;
}

/* Replaces the oldest. NULL: the file has no lines. */
static struct indexed_file *file_add(const struct vr_elf_file *file) {
    struct indexed_file made = {.device = file->status.st_dev,
                                .inode = file->status.st_ino,
                                .bytes = file->status.st_size,
                                .changed = file->status.st_mtim,
                                .table = {.source = {.read = file_read, .file = file},
                                          .lines = section_of(file, ".debug_line")}};
    if (made.table.lines.bytes == 0 || made.table.lines.bytes > LINES_BYTES || !list_make(&made)) {
        return NULL;
    }
    made.table.line_names = section_of(file, ".debug_line_str");
    made.table.names = section_of(file, ".debug_str");
    struct indexed_file *place = &lines.files[lines.oldest++ % FILES];
    if (place->list) {
        (void)munmap(place->list, place->list_bytes);
    }
    *place = made;
    return place;
}

static const struct vr_line_sequence *sequence_of(const struct indexed_file *known,
                                                  uint64_t address) {
    const struct vr_line_sequence *found = NULL;
    for (uint32_t i = 0; i < known->count && !found; i++) {
        const struct vr_line_sequence *it = &known->list[i];
        found = address >= it->low && address < it->high ? it : NULL;
    }
    return found;
}

bool vr_elf_line(const struct vr_elf_file *file, uint64_t address, struct vr_code_source *source) {
    struct vr_line_table table = {0};
    struct vr_line_sequence sequence = {0};
    vr_mutex_lock(&lines.lock);
    struct indexed_file *known = file_find(&file->status);
    if (!known) {
        known = file_add(file);
    }
    const struct vr_line_sequence *found = known ? sequence_of(known, address) : NULL;
    if (found) {
        table = known->table;
        sequence = *found;
    }
    vr_mutex_unlock(&lines.lock);
    table.source.file = file;
    return found && vr_line_find(&table, &sequence, address, source);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_elf_file.c: whatever is called a program's file, functions and lines of addresses in it are
 * found or not, in bounded time, from its bytes alone.
 */
#include "fuzz.h"

#include "base/os/elf_file.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char fuzz_words[] =
    " \177ELF\x02\x01\x01 .symtab .strtab .debug_line .debug_line_str .eh_frame_hdr"
    " \x02 \xff\xff\xff\xff\xff\xff\xff\xff";

enum { PLACES = 16, EACH = 4 /* of them for an input: every look reads all headers again */ };

static void address_try(const struct vr_elf_file *file, uint64_t address) {
    struct vr_code_source source;
    memset(&source, 0, sizeof source);
    if (vr_elf_function(file, address, &source)) {
        FUZZ_EXPECT(memchr(source.function, 0, sizeof source.function) != NULL);
    }
    memset(&source, 0, sizeof source);
    if (vr_elf_line(file, address, &source)) {
        FUZZ_EXPECT(memchr(source.file, 0, sizeof source.file) != NULL && source.line > 0);
    }
}

/* A file of its own for each input: what was found in one is kept for its inode. */
static int fuzz_take(const uint8_t *data, size_t bytes) {
    char path[64];
    struct vr_elf_file file;
    uint64_t address;
    int memory = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_EXPECT(memory >= 0 && write(memory, data, bytes) == (ssize_t)bytes);
    snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
    if (vr_elf_open(&file, path, 0)) {
        uint64_t first = fuzz_choice(data, bytes, PLACES / EACH);
        for (uint64_t place = first; place < PLACES; place += PLACES / EACH) {
            address_try(&file, place * 32);
            if (vr_elf_address(&file, place * 32, &address)) {
                address_try(&file, address);
            }
        }
        vr_elf_close(&file);
    }
    close(memory);
    return 0;
}

FUZZ_TARGET(elf_file, .memory_times = 0)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine.c: uname and /proc/cpuinfo. Without the latter (every Unix but Linux), or if the kernel
 * names no model there (most on aarch64), the architecture is the name.
 */
#include "base/os/machine.h"

#include "base/atomic.h"
#include "base/os/os.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The first processor's entry ends well before this; all processors of a supported machine have the
   same name. */
enum { CPUINFO_BYTES = 4096 };

static const char *skip_spaces(const char *text, const char *end) {
    while (text < end && (*text == ' ' || *text == '\t')) {
        text++;
    }
    return text;
}

/* The value after "key :" in one line, up to its end; NULL if the line has another key. */
static const char *value_of(const char *line, const char *end, const char *key) {
    size_t key_bytes = strlen(key);
    if ((size_t)(end - line) < key_bytes || memcmp(line, key, key_bytes) != 0) {
        return NULL;
    }
    const char *colon = skip_spaces(line + key_bytes, end);
    return colon < end && *colon == ':' ? skip_spaces(colon + 1, end) : NULL;
}

bool vr_machine_cpu_find(const char *text, size_t bytes, char *name, size_t name_bytes) {
    const char *end = text + bytes;
    for (const char *line = text; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *stop = newline ? newline : end;
        const char *value = value_of(line, stop, "model name");
        if (value && value < stop) {
            snprintf(name, name_bytes, "%.*s", (int)(stop - value), value);
            return true;
        }
        line = newline ? newline + 1 : end;
    }
    return false;
}

static size_t read_beginning(const char *path, char *text, size_t text_bytes) {
    VR_UNCANCELLED;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return 0;
    }
    ssize_t got;
    do {
        got = read(file, text, text_bytes);
    } while (got < 0 && errno == EINTR);
    close(file);
    return got > 0 ? (size_t)got : 0;
}

void vr_os_machine(struct vr_machine *machine) {
    struct utsname system;
    memset(machine, 0, sizeof *machine);
    if (uname(&system) == 0) {
        snprintf(machine->architecture, sizeof machine->architecture, "%.31s", system.machine);
        snprintf(machine->system, sizeof machine->system, "%.24s %.38s", system.sysname,
                 system.release);
    }
    char text[CPUINFO_BYTES];
    size_t bytes = read_beginning("/proc/cpuinfo", text, sizeof text);
    if (!vr_machine_cpu_find(text, bytes, machine->cpu, sizeof machine->cpu)) {
        snprintf(machine->cpu, sizeof machine->cpu, "%s%sprocessor", machine->architecture,
                 machine->architecture[0] ? " " : "");
    }
}

/* Not by __builtin_cpu_supports, for which zig's compiler has no library. */
static uint32_t vectors_ask(void) {
    uint32_t found = VR_MACHINE_ASKED;
#if defined(__x86_64__)
    enum { YMM_SAVED = 0x06, ZMM_SAVED = 0xe6 }; /* bits of XCR0: what the system saves */
    uint32_t a, b = 0, c, d, first, saved, high;
    if (!__get_cpuid(1, &a, &b, &first, &d) || (first & bit_OSXSAVE) == 0 ||
        !__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        return found;
    }
    __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
    if ((saved & YMM_SAVED) == YMM_SAVED && (b & bit_AVX2) != 0 && (first & bit_FMA) != 0) {
        found |= VR_MACHINE_AVX2;
    }
    if ((saved & ZMM_SAVED) == ZMM_SAVED && (b & bit_AVX512F) != 0) {
        found |= VR_MACHINE_AVX512;
    }
#endif
    return found;
}

uint32_t vr_machine_vectors(void) {
    static vr_atomic_u32 known; /* asking leaves a virtual machine, for microseconds */
    uint32_t found = vr_load(&known, VR_RELAXED);
    if (found == 0) {
        found = vectors_ask();
        vr_store(&known, found, VR_RELAXED);
    }
    return found;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meminfo.c: how much memory a Linux process may use. /proc/meminfo has the machine's; the control
 * group (version 2) of the process and each group above it may allow less. Any of these files may
 * be missing or malformed: an unreadable limit is ignored, and an unreadable total is unknown.
 */
#include "base/option.h"
#include "base/os/platform.h"
#include "base/size.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 1024
#define FILE_BYTES 8192 /* read of each file; the keys are well before this */

/* Reads the beginning of a small file as text; false if it cannot be read. */
static bool read_text(const char *path, char text[FILE_BYTES]) {
    VR_UNCANCELLED;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    size_t length = 0;
    while (length < FILE_BYTES - 1) {
        ssize_t got = read(fd, text + length, FILE_BYTES - 1 - length);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            break;
        }
        length += got > 0 ? (size_t)got : 0;
    }
    (void)close(fd);
    text[length] = 0;
    return length > 0;
}

/* The number after `key` at the start of a line, times `unit`. */
static vram_value number_after(const char *text, const char *key, uint64_t unit) {
    size_t length = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, length) == 0) {
            char *end;
            errno = 0;
            unsigned long long number = strtoull(line + length, &end, 10);
            uint64_t bytes;
            bool good = end != line + length && errno == 0 && vr_mul(number, unit, &bytes);
            return good ? (vram_value){bytes, true} : (vram_value){0, false};
        }
    }
    return (vram_value){0, false};
}

static void value_bound(vram_value *value, uint64_t most) {
    if (value->known && value->value > most) {
        value->value = most;
    }
}

/* The only number in file `name` of `group`; unknown for "max" and other words. */
static vram_value group_number(const char *group, const char *name, const char *key) {
    char path[2 * PATH_BYTES + 32];
    char text[FILE_BYTES];
    snprintf(path, sizeof path, "%s/%s", group, name);
    return read_text(path, text) ? number_after(text, key, 1) : (vram_value){0, false};
}

/* Applies one group's limit. Inactive file cache counts as used by the group but is reclaimed under
   memory pressure, as MemAvailable assumes. */
static void bound_by_group(const char *group, vram_value *total, vram_value *available) {
    vram_value limit = group_number(group, "memory.max", "");
    vram_value used = group_number(group, "memory.current", "");
    vram_value cached = group_number(group, "memory.stat", "inactive_file ");
    if (!limit.known) {
        return;
    }
    value_bound(total, limit.value);
    value_bound(available, limit.value);
    if (used.known) {
        uint64_t held = used.value > cached.value ? used.value - cached.value : 0;
        value_bound(available, limit.value > held ? limit.value - held : 0);
    }
}

/* The path of the process's group below the mount, "" for the root; false without version 2. */
static bool own_group(const char *root, char path[PATH_BYTES]) {
    char file[PATH_BYTES];
    char text[FILE_BYTES];
    snprintf(file, sizeof file, "%s/proc/self/cgroup", root);
    if (!read_text(file, text)) {
        return false;
    }
    const char *line = strncmp(text, "0::/", 4) == 0 ? text : strstr(text, "\n0::/");
    if (!line) {
        return false;
    }
    line = strchr(line, '/');
    size_t length = strcspn(line, "\n");
    /* A process cannot name a group outside its namespace. */
    if (length >= PATH_BYTES || strncmp(line, "/..", 3) == 0) {
        length = 0;
    }
    memcpy(path, line, length);
    path[length] = 0;
    return true;
}

static void bound_by_groups(const char *root, vram_value *total, vram_value *available) {
    char own[PATH_BYTES];
    char group[2 * PATH_BYTES];
    if (!own_group(root, own)) {
        return;
    }
    int length = snprintf(group, PATH_BYTES, "%s/sys/fs/cgroup", root);
    if (length >= PATH_BYTES) {
        return;
    }
    snprintf(group + length, sizeof group - (size_t)length, "%s", own);
    for (;;) {
        bound_by_group(group, total, available);
        char *slash = strrchr(group + length, '/');
        if (!slash) {
            return;
        }
        *slash = 0;
    }
}

static void machine_memory(const char *root, vram_value *total, vram_value *available) {
    char path[PATH_BYTES];
    char text[FILE_BYTES];
    *total = *available = (vram_value){0, false};
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    if (read_text(path, text)) {
        *total = number_after(text, "MemTotal:", VR_KIB);
        *available = number_after(text, "MemAvailable:", VR_KIB);
    }
}

void vr_os_memory_under(const char *root, vram_value *total, vram_value *available) {
    machine_memory(root, total, available);
    bound_by_groups(root, total, available);
}

void vr_os_memory(vram_value *total, vram_value *available) {
    char root[VR_OPTION_TEXT_MAX];
    vr_option_text(VR_OPTION_SYSTEM_ROOT, root);
    vr_os_memory_under(root, total, available);
}

vram_value vr_os_memory_installed(void) {
    char root[VR_OPTION_TEXT_MAX];
    vram_value total, available;
    vr_option_text(VR_OPTION_SYSTEM_ROOT, root);
    machine_memory(root, &total, &available);
    return total;
}

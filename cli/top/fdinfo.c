/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fdinfo.c: memory of processes by /proc/PID/fdinfo, where the kernel's graphics drivers say what
 * each open file of theirs has (Documentation/gpu/drm-usage-stats.rst of the kernel):
 *
 *     drm-driver:         amdgpu
 *     drm-client-id:      42
 *     drm-pdev:           0000:03:00.0
 *     drm-memory-vram:    1048576 KiB        newer: drm-resident-vram0, drm-total-local0
 *
 * A file that was duplicated or inherited appears several times with the same client id, and counts
 * once in a process. NVIDIA's driver writes none of this: nvml.c.
 */
#include "top/outsider.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CLIENTS_MAX = 256, PATH_BYTES = 512, LINE_BYTES = 256 };

/* A region of memory by the three keys that may say how much of it is used, the best last. */
struct region {
    uint64_t total, memory, resident;
};

/* What one file says. */
struct client {
    char pci[16];
    uint64_t id;
    bool graphics;             /* it has a line of a graphics driver */
    struct region own, shared; /* the device's memory; the host's */
};

/* A process whose files are being read. */
struct reading {
    const char *root;
    uint64_t pid;
    struct outsiders *outsiders;
    struct {
        char pci[16];
        uint64_t id;
    } seen[CLIENTS_MAX];
    size_t seen_count;
};

/* "1048576 KiB" in bytes; OUTSIDER_UNKNOWN if it is no such number. */
static uint64_t bytes_of(const char *text) {
    char *end;
    unsigned long long number = strtoull(text, &end, 10);
    if (end == text || text[strspn(text, " \t")] == '-') {
        return OUTSIDER_UNKNOWN;
    }
    end += strspn(end, " \t");
    unsigned shift = strncmp(end, "KiB", 3) == 0 ? 10 : strncmp(end, "MiB", 3) == 0 ? 20 : 0;
    return number > UINT64_MAX >> (shift + 3) ? OUTSIDER_UNKNOWN : (uint64_t)number << shift;
}

/* The region of a key's end, "vram0" or "gtt"; NULL: neither. */
static struct region *region_of(struct client *client, const char *name) {
    if (strncmp(name, "vram", 4) == 0 || strncmp(name, "local", 5) == 0) {
        return &client->own;
    }
    bool shared = strncmp(name, "gtt", 3) == 0 || strncmp(name, "system", 6) == 0;
    return shared ? &client->shared : NULL;
}

static void region_add(uint64_t *sum, uint64_t bytes) {
    if (bytes != OUTSIDER_UNKNOWN) {
        *sum = *sum == OUTSIDER_UNKNOWN ? bytes : *sum + bytes;
    }
}

static void memory_line(struct client *client, const char *key, const char *value) {
    static const char *const kinds[] = {"drm-total-", "drm-memory-", "drm-resident-"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t bytes = strlen(kinds[i]);
        struct region *region =
            strncmp(key, kinds[i], bytes) == 0 ? region_of(client, key + bytes) : NULL;
        if (region != NULL) {
            uint64_t *sums[] = {&region->total, &region->memory, &region->resident};
            region_add(sums[i], bytes_of(value));
        }
    }
}

static void client_line(struct client *client, char *line) {
    char *colon = strchr(line, ':');
    if (colon == NULL || strncmp(line, "drm-", 4) != 0) {
        return;
    }
    *colon = 0;
    char *value = colon + 1 + strspn(colon + 1, " \t");
    value[strcspn(value, "\r\n")] = 0;
    if (strcmp(line, "drm-driver") == 0) {
        client->graphics = true;
    } else if (strcmp(line, "drm-pdev") == 0 && strlen(value) < sizeof client->pci) {
        snprintf(client->pci, sizeof client->pci, "%s", value);
    } else if (strcmp(line, "drm-client-id") == 0) {
        client->id = strtoull(value, NULL, 10);
    } else {
        memory_line(client, line, value);
    }
}

static bool client_read(const char *path, struct client *client) {
    const struct region unknown = {OUTSIDER_UNKNOWN, OUTSIDER_UNKNOWN, OUTSIDER_UNKNOWN};
    char line[LINE_BYTES];
    FILE *file = fopen(path, "re");
    *client = (struct client){.own = unknown, .shared = unknown};
    if (file == NULL) {
        return false;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        client_line(client, line);
    }
    (void)fclose(file);
    return client->graphics && client->pci[0] != 0;
}

static bool client_is_new(struct reading *reading, const struct client *client) {
    for (size_t i = 0; i < reading->seen_count; i++) {
        if (reading->seen[i].id == client->id && strcmp(reading->seen[i].pci, client->pci) == 0) {
            return false;
        }
    }
    if (reading->seen_count == CLIENTS_MAX) {
        reading->outsiders->cut = true;
        return false;
    }
    reading->seen[reading->seen_count].id = client->id;
    memcpy(reading->seen[reading->seen_count++].pci, client->pci, sizeof client->pci);
    return true;
}

static uint64_t region_bytes(const struct region *region) {
    return region->resident != OUTSIDER_UNKNOWN ? region->resident
           : region->memory != OUTSIDER_UNKNOWN ? region->memory
                                                : region->total;
}

/* A number in a file of /sys; OUTSIDER_UNKNOWN. */
static uint64_t sys_number(const char *root, const char *pci, const char *name) {
    char path[PATH_BYTES], line[64] = "";
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/%s", root, pci, name);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return OUTSIDER_UNKNOWN;
    }
    uint64_t value = fgets(line, sizeof line, file) != NULL ? bytes_of(line) : OUTSIDER_UNKNOWN;
    (void)fclose(file);
    return value;
}

/* amdgpu says how large the memory is and how much of it is used; others do not. */
static void device_describe(const char *root, struct outsider_device *device) {
    uint64_t total = sys_number(root, device->pci, "mem_info_vram_total");
    uint64_t used = sys_number(root, device->pci, "mem_info_vram_used");
    device->total_bytes = total;
    if (total != OUTSIDER_UNKNOWN && used != OUTSIDER_UNKNOWN) {
        device->free_bytes = used < total ? total - used : 0;
    }
}

static void client_count(struct reading *reading, const struct client *client) {
    struct outsiders *outsiders = reading->outsiders;
    size_t known = outsiders->device_count;
    size_t device = outsiders_device(outsiders, client->pci);
    if (device == SIZE_MAX) {
        return;
    }
    if (device == known) {
        device_describe(reading->root, &outsiders->devices[device]);
    }
    outsiders_add(outsiders, device, reading->pid, region_bytes(&client->own),
                  region_bytes(&client->shared));
}

/* A link to /dev/dri is what tells a driver's file from others without opening all of them. */
static bool is_graphics_file(const char *root, uint64_t pid, const char *name) {
    char path[PATH_BYTES], target[64];
    snprintf(path, sizeof path, "%s/proc/%llu/fd/%s", root, (unsigned long long)pid, name);
    ssize_t bytes = readlink(path, target, sizeof target - 1);
    target[bytes > 0 ? bytes : 0] = 0;
    return strncmp(target, "/dev/dri/", 9) == 0;
}

static void process_read(const char *root, uint64_t pid, struct outsiders *outsiders) {
    char path[PATH_BYTES];
    struct reading reading = {.root = root, .pid = pid, .outsiders = outsiders};
    snprintf(path, sizeof path, "%s/proc/%llu/fd", root, (unsigned long long)pid);
    DIR *files = opendir(path);
    for (struct dirent *entry; files != NULL && (entry = readdir(files)) != NULL;) {
        struct client client;
        if (!isdigit((unsigned char)entry->d_name[0]) || strlen(entry->d_name) > 20 ||
            !is_graphics_file(root, pid, entry->d_name)) {
            continue;
        }
        snprintf(path, sizeof path, "%s/proc/%llu/fdinfo/%.20s", root, (unsigned long long)pid,
                 entry->d_name);
        if (client_read(path, &client) && client_is_new(&reading, &client)) {
            client_count(&reading, &client);
        }
    }
    if (files != NULL) {
        (void)closedir(files);
    }
}

void fdinfo_read(const char *root, struct outsiders *outsiders) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/proc", root);
    DIR *processes = opendir(path);
    for (struct dirent *entry; processes != NULL && (entry = readdir(processes)) != NULL;) {
        char *end;
        unsigned long long pid = strtoull(entry->d_name, &end, 10);
        if (isdigit((unsigned char)entry->d_name[0]) && *end == 0 && pid <= INT32_MAX) {
            process_read(root, pid, outsiders);
        }
    }
    if (processes != NULL) {
        (void)closedir(processes);
    }
}

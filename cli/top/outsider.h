/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outsider.h: what drivers say about devices and about processes that may know nothing of libvram:
 * NVIDIA's management library, and the fdinfo files of the kernel's graphics drivers (AMD, Intel
 * and others).
 */
#ifndef OUTSIDER_H
#define OUTSIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <vram/live_page.h>

#define OUTSIDER_UNKNOWN VRAM_LIVE_PAGE_UNKNOWN

/* A device as its driver sees it. */
struct outsider_device {
    char name[128];
    char pci[16]; /* "0000:3b:00.0"; "": unknown */
    uint8_t uuid[16];
    bool uuid_known;
    uint64_t total_bytes, free_bytes; /* OUTSIDER_UNKNOWN */
};

/* Memory of one process on one device. */
struct outsider_use {
    size_t device; /* in the list of devices */
    uint64_t pid;
    uint64_t bytes;       /* of the device's own memory; OUTSIDER_UNKNOWN */
    uint64_t other_bytes; /* of the host's, mapped for the device; OUTSIDER_UNKNOWN */
};

enum { OUTSIDER_DEVICES_MAX = 64, OUTSIDER_USES_MAX = 4096 };

struct outsiders {
    struct outsider_device devices[OUTSIDER_DEVICES_MAX];
    size_t device_count;
    struct outsider_use *uses;
    size_t use_count, use_room;
    bool cut;    /* there were more than fit */
    bool silent; /* NVIDIA's library is there and does not answer */
};

/* Adds memory of a process; sums with what it has on that device already. */
void outsiders_add(struct outsiders *outsiders, size_t device, uint64_t pid, uint64_t bytes,
                   uint64_t other_bytes);
bool outsiders_has(const struct outsiders *outsiders, size_t device, uint64_t pid);
void outsiders_free(struct outsiders *outsiders);

/* The device at that PCI address, added if there is none or the address is ""; SIZE_MAX: no
   room. */
size_t outsiders_device(struct outsiders *outsiders, const char *pci);

/* NVIDIA's devices and their processes, into an empty list; nothing where the library is missing,
   fails, or does not answer within a second. */
struct nvml;
struct nvml *nvml_open(void);
void nvml_read(struct nvml *nvml, struct outsiders *outsiders);
void nvml_close(struct nvml *nvml);

/* The identity in its text, "GPU-01020304-0506-..."; false: there is none. */
bool nvml_uuid_read(const char *text, uint8_t uuid[16]);

/* All processes with an open file of a graphics driver. `root` is "" or a tree with its own /proc
   and /sys, for tests. */
void fdinfo_read(const char *root, struct outsiders *outsiders);

#endif

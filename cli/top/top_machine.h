/* SPDX-License-Identifier: Apache-2.0 */
/*
 * top_machine.h: all devices and processes of the machine at one moment: live pages first, then
 * what drivers say of devices and of processes without a page.
 */
#ifndef TOP_MACHINE_H
#define TOP_MACHINE_H

#include "live/page_folder.h"
#include "top/outsider.h"

#include <sys/types.h>

#define UNKNOWN VRAM_LIVE_PAGE_UNKNOWN /* of any number here */

enum { MACHINE_DEVICES_MAX = 256, MACHINE_PROCESSES_MAX = 8192, LABEL_BYTES = 40 };

struct machine_device {
    char label[LABEL_BYTES]; /* "cuda:0", or its PCI address if no process with a page uses it */
    char name[128];
    char pci[16];
    uint8_t uuid[16];
    bool uuid_known;
    bool simulated;                   /* each process has its own */
    uint64_t owner;                   /* the process that has it, if it is simulated; else 0 */
    uint64_t total_bytes, free_bytes; /* UNKNOWN */
    uint64_t held_bytes;              /* of it, by processes with a page */
    uint32_t number;                  /* in the order of discovery */
};

/* What a process has on one device. */
struct machine_use {
    uint32_t device;       /* in machine.devices */
    uint64_t held_bytes;   /* through libvram; UNKNOWN: it has no page */
    uint64_t driver_bytes; /* by the driver; UNKNOWN */
    uint64_t other_bytes;  /* of the host's memory, by the driver; UNKNOWN */
};

enum { USES_MAX = VRAM_LIVE_PAGE_DEVICES };

struct machine_process {
    uint64_t pid;
    uid_t user;
    bool user_known;
    bool paged;            /* it has a live page, which `view` is */
    char command[256];     /* "": unknown */
    struct page_view view; /* zero without a page */
    struct machine_use uses[USES_MAX];
    uint32_t use_count;
    /* UNKNOWN where there is no page, except held_bytes, which then is the driver's figure */
    uint64_t held_bytes, live_bytes, cached_bytes, peak_bytes, limit_bytes, driver_bytes;
    uint64_t alloc_rate;     /* per 1,000 seconds */
    uint64_t ratio_hundreds; /* 100 * held / live */
    uint32_t level;          /* vram_pressure_level: the highest of its pools */
    const char *top_tag;     /* "": none */
};

struct machine {
    struct machine_device *devices;
    uint32_t device_count;
    struct machine_process *processes;
    uint32_t process_count, process_room;
    struct pages_met met;
    bool cut;        /* there were more than fit */
    bool silent;     /* NVIDIA's library does not answer */
    uint64_t now_ns; /* since 1970 */
};

struct machine_sources {
    struct nvml *nvml; /* NULL: not there */
    const char *root;  /* of fdinfo_read */
    bool pages_only;   /* ask no driver */
    const char *pages; /* the one folder that is read; NULL: those of the user */
};

/* Reads everything; machine_free afterwards. False: out of host memory. */
bool machine_read(const struct machine_sources *sources, struct machine *machine);
void machine_free(struct machine *machine);

/* The process's row for that device; NULL: it has none. */
const struct machine_use *machine_use_of(const struct machine_process *process, uint32_t device);

/* Bytes of a device that are used, at least those that pages hold; and how many of them are held by
   none of the pages; UNKNOWN. */
uint64_t machine_used(const struct machine_device *device);
uint64_t machine_others(const struct machine_device *device);

/* The name of a user, or its number. Returns `text`. */
#define USER_TEXT_MAX 33
const char *user_format(const struct machine_process *process, char text[USER_TEXT_MAX]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* run_live_pages.c: the live pages of programs under `vram run`. See run_live_pages.h. */
#include "run/run_live_pages.h"
#include "live/page_folder.h"
#include "run/run_report.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <vram/vram.h>

#define RATE_NS UINT64_C(1000000000)

/* A page as it is written, with the rows that are in use. */
struct page_image {
    vram_live_page head;
    vram_live_page_device devices[RUN_DEVICES];
    vram_live_page_pool pools[VRAM_LIVE_PAGE_POOLS];
};

/* The page of one process. */
struct process_page {
    int64_t pid;   /* 0: none yet */
    bool given_up; /* the process has a page of its own, or it cannot be made */
    dev_t device;  /* of the file that was made, */
    ino_t inode;   /* which is never written if it is another one */
    struct page_name owner;
    char name[PAGE_NAME_MAX];                               /* of the file: the owner's */
    uint64_t rate_ns, allocs, frees, alloc_rate, free_rate; /* as of about a second ago */
    vram_live_page head; /* its constant part, and its counts of updates */
};

struct run_live_pages {
    struct run_page *page;
    int folder;
    struct process_page processes[RUN_SLOTS];
    struct page_image image;
};

static uint64_t now_ns(void) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ------------------------------------------------------------------ contents */

static const vram_live_page_counts unknown_counts = {
    .cached_bytes = VRAM_LIVE_PAGE_UNKNOWN,
    .asleep_bytes = VRAM_LIVE_PAGE_UNKNOWN,
    .limit_bytes = VRAM_LIVE_PAGE_UNKNOWN,
    .live_blocks = VRAM_LIVE_PAGE_UNKNOWN,
    .allocs = VRAM_LIVE_PAGE_UNKNOWN,
    .frees = VRAM_LIVE_PAGE_UNKNOWN,
    .hits = VRAM_LIVE_PAGE_UNKNOWN,
    .misses = VRAM_LIVE_PAGE_UNKNOWN,
    .cache_hits = VRAM_LIVE_PAGE_UNKNOWN,
    .refusals = VRAM_LIVE_PAGE_UNKNOWN,
    .limit_refusals = VRAM_LIVE_PAGE_UNKNOWN,
    .quota_refusals = VRAM_LIVE_PAGE_UNKNOWN,
    .fallbacks = VRAM_LIVE_PAGE_UNKNOWN,
    .moved_bytes = VRAM_LIVE_PAGE_UNKNOWN,
    .driver_calls = VRAM_LIVE_PAGE_UNKNOWN,
    .alloc_rate = VRAM_LIVE_PAGE_UNKNOWN,
    .free_rate = VRAM_LIVE_PAGE_UNKNOWN,
};

static void counts_set(vram_live_page_counts *counts, uint64_t live, uint64_t peak) {
    *counts = unknown_counts;
    counts->held_bytes = counts->live_bytes = counts->allocated_bytes = live;
    counts->peak_held_bytes = counts->peak_live_bytes = peak;
}

/* One row for each kind of memory that the process has had on the device. */
static void kinds_add(struct page_image *image, struct run_device *from, uint32_t row) {
    for (unsigned kind = 0; kind < RUN_KINDS; kind++) {
        uint64_t live = atomic_load(&from->live[kind]), peak = atomic_load(&from->peak[kind]);
        vram_live_page_table *table = &image->head.pools;
        table->total += peak > 0;
        if (peak == 0 || table->count == VRAM_LIVE_PAGE_POOLS) {
            continue;
        }
        vram_live_page_pool *pool = &image->pools[table->count++];
        *pool = (vram_live_page_pool){.id = row * RUN_KINDS + kind + 1,
                                      .device = row,
                                      .pressure_millionths = VRAM_LIVE_PAGE_UNKNOWN};
        snprintf(pool->name, sizeof pool->name, "%s", run_kind_name(kind));
        counts_set(&pool->counts, live, peak);
    }
}

static uint64_t or_unknown(uint64_t bytes) {
    return bytes ? bytes : VRAM_LIVE_PAGE_UNKNOWN;
}

static void device_add(struct run_live_pages *pages, struct run_device *from) {
    static const char *const apis[] = {"", "cuda", "hip", "opencl", "vulkan"};
    static const unsigned char none[16];
    struct page_image *image = &pages->image;
    uint32_t api = atomic_load(&from->api), row = image->head.devices.count;
    if (api == 0 || api > RUN_APIS) {
        return;
    }
    image->head.devices.count = image->head.devices.total = row + 1;
    vram_live_page_device *device = &image->devices[row];
    *device = (vram_live_page_device){
        .uuid_known = memcmp(from->uuid, none, sizeof none) != 0,
        .index = from->ordinal,
        .pressure_millionths = VRAM_LIVE_PAGE_UNKNOWN,
        .memory_bytes = or_unknown(atomic_load(&from->total)),
        .free_bytes = atomic_load(&from->last.time_ns) ? atomic_load(&from->last.free)
                                                       : VRAM_LIVE_PAGE_UNKNOWN,
        .held_bytes = atomic_load(&from->counted),
        .peak_held_bytes = atomic_load(&from->counted_peak),
        .limit_bytes = or_unknown(pages->page->settings.limit_bytes),
    };
    memcpy(device->uuid, from->uuid, sizeof device->uuid);
    snprintf(device->backend, sizeof device->backend, "%s", apis[api]);
    snprintf(device->name, sizeof device->name, "%.*s", RUN_NAME - 1, from->name);
    image->head.sum.held_bytes += device->held_bytes;
    image->head.sum.peak_held_bytes += device->peak_held_bytes;
    uint32_t before = image->head.pools.count;
    kinds_add(image, from, row);
    device->pools = image->head.pools.count - before;
}

/* Per 1,000 seconds. The counts are the program's to write: they may fall, or jump. */
static uint64_t rate_of(uint64_t now, uint64_t before, double seconds) {
    double rate = now > before ? (double)(now - before) * 1e3 / seconds : 0;
    return rate < (double)PAGE_NUMBER_MAX ? (uint64_t)rate : VRAM_LIVE_PAGE_UNKNOWN;
}

static void rates_set(struct process_page *process, vram_live_page_counts *sum, uint64_t now) {
    if (process->rate_ns && now - process->rate_ns >= RATE_NS) {
        double seconds = (double)(now - process->rate_ns) / 1e9;
        process->alloc_rate = rate_of(sum->allocs, process->allocs, seconds);
        process->free_rate = rate_of(sum->frees, process->frees, seconds);
    }
    if (!process->rate_ns || now - process->rate_ns >= RATE_NS) {
        process->rate_ns = now;
        process->allocs = sum->allocs;
        process->frees = sum->frees;
    }
    sum->alloc_rate = process->alloc_rate;
    sum->free_rate = process->free_rate;
}

/* Fills the image; returns its bytes, with the rows in use one after the other. */
static size_t image_fill(struct run_live_pages *pages, struct process_page *process,
                         struct run_slot *slot) {
    struct page_image *image = &pages->image;
    uint64_t now = now_ns(), allocs = atomic_load(&slot->allocs), frees = atomic_load(&slot->frees);
    process->head.updates++;
    image->head = process->head;
    image->head.updated_ns = now;
    counts_set(&image->head.sum, 0, 0);
    for (int i = 0; i < RUN_DEVICES; i++) {
        device_add(pages, &slot->devices[i]);
    }
    vram_live_page_counts *sum = &image->head.sum;
    sum->live_bytes = sum->allocated_bytes = sum->held_bytes;
    sum->peak_live_bytes = sum->peak_held_bytes;
    sum->allocs = allocs;
    sum->frees = frees;
    sum->live_blocks = allocs > frees ? allocs - frees : 0;
    sum->refusals = atomic_load(&slot->refusals);
    sum->limit_refusals = atomic_load(&slot->limit_refusals);
    rates_set(process, sum, now);
    size_t devices = image->head.devices.count * sizeof image->devices[0];
    size_t pools = image->head.pools.count * sizeof image->pools[0];
    memmove((char *)image->devices + devices, image->pools, pools);
    image->head.devices.offset = sizeof image->head;
    image->head.devices.stride = sizeof image->devices[0];
    image->head.pools.offset = (uint32_t)(sizeof image->head + devices);
    image->head.pools.stride = sizeof image->pools[0];
    return sizeof image->head + devices + pools;
}

/* --------------------------------------------------------------------- files */

static bool bytes_write(int file, const void *bytes, size_t count, size_t offset) {
    return pwrite(file, bytes, count, (off_t)offset) == (ssize_t)count;
}

/* The sequence is odd while the rest is written: rule (2) of the layout. */
static bool image_write(struct run_live_pages *pages, struct process_page *process, int file,
                        size_t bytes) {
    const size_t at = offsetof(vram_live_page, sequence), behind = at + sizeof(uint64_t);
    uint64_t *sequence = &process->head.sequence;
    ++*sequence;
    bool good = bytes_write(file, sequence, sizeof *sequence, at);
    __sync_synchronize();
    good = good && bytes_write(file, (char *)&pages->image + behind, bytes - behind, behind);
    __sync_synchronize();
    ++*sequence;
    return good && bytes_write(file, sequence, sizeof *sequence, at);
}

/* Makes the file, unless the process has one. */
static bool file_make(struct run_live_pages *pages, struct process_page *process,
                      const struct run_slot *slot) {
    struct page_name *owner = &process->owner;
    struct stat about;
    if (!page_owner_describe((uint64_t)process->pid, owner)) {
        return false;
    }
    page_name_write(owner, "page", process->name);
    int file = openat(pages->folder, process->name,
                      O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) {
        return false;
    }
    process->head = (vram_live_page){.magic = VRAM_LIVE_PAGE_MAGIC,
                                     .version = VRAM_LIVE_PAGE_VERSION,
                                     .page_bytes = sizeof(struct page_image),
                                     .pid = owner->pid,
                                     .start_ticks = owner->start_ticks,
                                     .pid_space = owner->pid_space,
                                     .user = geteuid(),
                                     .begun_ns = now_ns(),
                                     .interval_ns = RUN_LIVE_INTERVAL,
                                     .origin = VRAM_LIVE_PAGE_RUN};
    snprintf(process->head.library, sizeof process->head.library, "%s", VRAM_VERSION_TEXT);
    snprintf(process->head.command, sizeof process->head.command, "%.*s", RUN_NAME - 1,
             slot->command);
    bool good =
        posix_fallocate(file, 0, sizeof(struct page_image)) == 0 && fstat(file, &about) == 0 &&
        bytes_write(file, (char *)&process->head + 8, offsetof(vram_live_page, request) - 8, 8) &&
        bytes_write(file, &process->head, 8, 0);
    (void)close(file);
    if (!good) {
        (void)unlinkat(pages->folder, process->name, 0);
        return false;
    }
    process->device = about.st_dev;
    process->inode = about.st_ino;
    return true;
}

/* The file that was made; -1: it is gone, or the process has put its own in its place. */
static int file_open(const struct run_live_pages *pages, const struct process_page *process) {
    struct stat about;
    int file = openat(pages->folder, process->name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file >= 0 && (fstat(file, &about) != 0 || about.st_dev != process->device ||
                      about.st_ino != process->inode)) {
        (void)close(file);
        file = -1;
    }
    return file;
}

static void page_remove(struct run_live_pages *pages, struct process_page *process) {
    int file = process->inode ? file_open(pages, process) : -1;
    if (file >= 0) {
        (void)unlinkat(pages->folder, process->name, 0);
        (void)close(file);
    }
    process->inode = 0;
    process->given_up = true;
}

static void page_update(struct run_live_pages *pages, struct process_page *process,
                        struct run_slot *slot) {
    if (process->pid == 0) {
        process->pid = atomic_load(&slot->pid);
        process->given_up = process->pid <= 0 ||
                            slot->pid_space != pages->page->settings.pid_space ||
                            !file_make(pages, process, slot);
    }
    if (process->given_up) {
        return;
    }
    int file = file_open(pages, process);
    bool goes_on = file >= 0 && atomic_load(&slot->state) != RUN_ENDED &&
                   !page_owner_ended(&process->owner) &&
                   image_write(pages, process, file, image_fill(pages, process, slot));
    if (file >= 0) {
        (void)close(file);
    }
    if (!goes_on) {
        page_remove(pages, process);
    }
}

/* ------------------------------------------------------------------------ all */

struct run_live_pages *run_live_pages_begin(struct run_page *page) {
    char text[16] = "";
    (void)vram_option_get("live", text, sizeof text, NULL);
    if (strcasecmp(text, "on") != 0) {
        return NULL;
    }
    int folder = page_folder_make();
    struct run_live_pages *pages = folder < 0 ? NULL : calloc(1, sizeof *pages);
    if (!pages) {
        if (folder >= 0) {
            (void)close(folder);
        }
        return NULL;
    }
    pages->page = page;
    pages->folder = folder;
    return pages;
}

void run_live_pages_update(struct run_live_pages *pages) {
    for (int i = 0; pages && i < RUN_SLOTS; i++) {
        struct run_slot *slot = &pages->page->slots[i];
        if (atomic_load(&slot->pid) != 0 && atomic_load(&slot->state) != 0) {
            page_update(pages, &pages->processes[i], slot);
        }
    }
}

void run_live_pages_end(struct run_live_pages *pages) {
    if (!pages) {
        return;
    }
    for (int i = 0; i < RUN_SLOTS; i++) {
        page_remove(pages, &pages->processes[i]);
    }
    (void)close(pages->folder);
    free(pages);
}

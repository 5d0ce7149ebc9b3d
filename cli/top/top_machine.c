/* SPDX-License-Identifier: Apache-2.0 */
/* top_machine.c: see top_machine.h. */
#include "top/top_machine.h"

#include "terminal.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <vram/vram.h>

/* ---------------------------------------------------------------------- devices */

static struct machine_device *device_new(struct machine *machine) {
    if (machine->device_count == MACHINE_DEVICES_MAX) {
        machine->cut = true;
        return NULL;
    }
    struct machine_device *device = &machine->devices[machine->device_count++];
    *device = (struct machine_device){.total_bytes = UNKNOWN, .free_bytes = UNKNOWN};
    return device;
}

/* The same hardware in two processes, or in two backends. A simulated device is its process's. */
static bool device_matches(const struct machine_device *device, const vram_live_page_device *row,
                           uint64_t pid, const char *label) {
    bool simulated = row->kind == VRAM_DEVICE_SIMULATED;
    if (device->simulated || simulated) {
        return device->simulated && simulated && device->owner == pid &&
               strcmp(device->label, label) == 0;
    }
    if (device->uuid_known && row->uuid_known) {
        return memcmp(device->uuid, row->uuid, sizeof row->uuid) == 0;
    }
    if (device->pci[0] != 0 && row->pci[0] != 0) {
        return strcasecmp(device->pci, row->pci) == 0;
    }
    return strcmp(device->label, label) == 0 && strcmp(device->name, row->name) == 0;
}

/* Numbers of pages are as old as the page; the first that are known are taken. */
static uint32_t device_of_row(struct machine *machine, const vram_live_page_device *row,
                              uint64_t pid) {
    char label[LABEL_BYTES];
    snprintf(label, sizeof label, "%.15s:%u", row->backend, (unsigned)row->index);
    uint32_t at = 0;
    while (at < machine->device_count && !device_matches(&machine->devices[at], row, pid, label)) {
        at++;
    }
    struct machine_device *device =
        at < machine->device_count ? &machine->devices[at] : device_new(machine);
    if (device == NULL) {
        return UINT32_MAX;
    }
    if (device->label[0] == 0) {
        memcpy(device->label, label, sizeof label);
        memcpy(device->name, row->name, sizeof device->name);
        device->simulated = row->kind == VRAM_DEVICE_SIMULATED;
        device->owner = device->simulated ? pid : 0;
    }
    if (device->pci[0] == 0) {
        memcpy(device->pci, row->pci, sizeof device->pci);
    }
    if (!device->uuid_known && row->uuid_known) {
        device->uuid_known = true;
        memcpy(device->uuid, row->uuid, sizeof device->uuid);
    }
    device->total_bytes = device->total_bytes == UNKNOWN ? row->memory_bytes : device->total_bytes;
    device->free_bytes = device->free_bytes == UNKNOWN ? row->free_bytes : device->free_bytes;
    return at;
}

/* The driver's device in the list of all. What it says now replaces what pages said. */
static uint32_t device_of_outsider(struct machine *machine, const struct outsider_device *from) {
    uint32_t at = 0;
    for (; at < machine->device_count; at++) {
        const struct machine_device *device = &machine->devices[at];
        bool same_uuid = device->uuid_known && from->uuid_known;
        if (!device->simulated &&
            (same_uuid ? memcmp(device->uuid, from->uuid, sizeof from->uuid) == 0
                       : from->pci[0] != 0 && strcasecmp(device->pci, from->pci) == 0)) {
            break;
        }
    }
    struct machine_device *device =
        at < machine->device_count ? &machine->devices[at] : device_new(machine);
    if (device == NULL) {
        return UINT32_MAX;
    }
    if (device->label[0] == 0) {
        snprintf(device->label, sizeof device->label, "%s", from->pci);
        snprintf(device->name, sizeof device->name, "%s", from->name);
        text_sanitize(device->name);
        snprintf(device->pci, sizeof device->pci, "%s", from->pci);
        device->uuid_known = from->uuid_known;
        memcpy(device->uuid, from->uuid, sizeof device->uuid);
    }
    if (from->total_bytes != UNKNOWN && from->free_bytes != UNKNOWN) {
        device->total_bytes = from->total_bytes;
        device->free_bytes = from->free_bytes;
    }
    return at;
}

/* What the driver said last may be older than what pools hold now. */
uint64_t machine_used(const struct machine_device *device) {
    if (device->total_bytes == UNKNOWN || device->free_bytes == UNKNOWN ||
        device->free_bytes > device->total_bytes) {
        return UNKNOWN;
    }
    uint64_t used = device->total_bytes - device->free_bytes;
    uint64_t held =
        device->held_bytes < device->total_bytes ? device->held_bytes : device->total_bytes;
    return used > held ? used : held;
}

uint64_t machine_others(const struct machine_device *device) {
    uint64_t used = machine_used(device);
    return used == UNKNOWN ? UNKNOWN : used > device->held_bytes ? used - device->held_bytes : 0;
}

/* -------------------------------------------------------------------- processes */

static struct machine_process *process_new(struct machine *machine, uint64_t pid) {
    if (machine->process_count == machine->process_room) {
        uint32_t room = machine->process_room > 0 ? machine->process_room * 2 : 64;
        struct machine_process *grown =
            room <= MACHINE_PROCESSES_MAX
                ? realloc(machine->processes, room * sizeof *machine->processes)
                : NULL;
        if (grown == NULL) {
            machine->cut = true;
            return NULL;
        }
        machine->processes = grown;
        machine->process_room = room;
    }
    struct machine_process *process = &machine->processes[machine->process_count++];
    *process = (struct machine_process){.pid = pid,
                                        .held_bytes = UNKNOWN,
                                        .live_bytes = UNKNOWN,
                                        .cached_bytes = UNKNOWN,
                                        .peak_bytes = UNKNOWN,
                                        .limit_bytes = UNKNOWN,
                                        .driver_bytes = UNKNOWN,
                                        .alloc_rate = UNKNOWN,
                                        .ratio_hundreds = UNKNOWN,
                                        .top_tag = ""};
    return process;
}

/* Known numbers alone: a process of which one device is unknown has at least the rest. */
static void sum_into(uint64_t *sum, uint64_t bytes) {
    *sum = *sum == UNKNOWN ? bytes : bytes == UNKNOWN ? *sum : page_sum(*sum, bytes);
}

const struct machine_use *machine_use_of(const struct machine_process *process, uint32_t device) {
    for (uint32_t i = 0; i < process->use_count; i++) {
        if (process->uses[i].device == device) {
            return &process->uses[i];
        }
    }
    return NULL;
}

/* The same, made if there is none; NULL: there is no room for it. */
static struct machine_use *use_take(struct machine *machine, struct machine_process *process,
                                    uint32_t device) {
    struct machine_use *use = (struct machine_use *)machine_use_of(process, device);
    if (use != NULL) {
        return use;
    }
    if (process->use_count == USES_MAX) {
        machine->cut = true;
        return NULL;
    }
    use = &process->uses[process->use_count++];
    *use = (struct machine_use){
        .device = device, .held_bytes = UNKNOWN, .driver_bytes = UNKNOWN, .other_bytes = UNKNOWN};
    return use;
}

static void process_devices(struct machine *machine, struct machine_process *process) {
    for (uint32_t i = 0; i < process->view.head.devices.count; i++) {
        const vram_live_page_device *row = &process->view.devices[i];
        uint32_t device = device_of_row(machine, row, process->pid);
        if (device != UINT32_MAX) { /* a page has no more devices than a process has uses */
            sum_into(&use_take(machine, process, device)->held_bytes, row->held_bytes);
            sum_into(&machine->devices[device].held_bytes, row->held_bytes);
        }
    }
}

static void process_figures(struct machine_process *process) {
    const struct page_view *view = &process->view;
    const vram_live_page_counts *sum = &view->head.sum;
    process->held_bytes = sum->held_bytes;
    process->live_bytes = sum->live_bytes;
    process->cached_bytes = sum->cached_bytes;
    process->peak_bytes = sum->peak_held_bytes;
    process->limit_bytes = sum->limit_bytes;
    process->alloc_rate = sum->alloc_rate;
    if (sum->held_bytes != UNKNOWN && sum->live_bytes != UNKNOWN && sum->live_bytes > 0) {
        double ratio = (double)sum->held_bytes / (double)sum->live_bytes * 100.0 + 0.5;
        process->ratio_hundreds = ratio < 1e12 ? (uint64_t)ratio : UNKNOWN;
    }
    for (uint32_t i = 0; i < view->head.pools.count; i++) {
        uint32_t level = view->pools[i].pressure_level;
        process->level = level > process->level ? level : process->level;
    }
    process->top_tag = view->head.tags.count > 0 ? view->tags[0].name : "";
}

static bool page_add(void *user, const char *folder, struct page_view *view) {
    struct machine *machine = user;
    struct machine_process *process = process_new(machine, view->head.pid);
    (void)folder;
    if (process == NULL) {
        page_view_free(view);
        return true;
    }
    process->paged = true;
    process->view = *view;
    process->user = (uid_t)view->head.user;
    process->user_known = view->head.user < UINT32_MAX;
    memcpy(process->command, view->head.command, sizeof process->command);
    process_figures(process);
    process_devices(machine, process);
    return true;
}

/* ---------------------------------------------------- processes without a page */

static void command_read(const char *root, struct machine_process *process) {
    char path[256];
    struct stat about;
    snprintf(path, sizeof path, "%s/proc/%llu/cmdline", root, (unsigned long long)process->pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return;
    }
    size_t bytes = fread(process->command, 1, sizeof process->command - 1, file);
    for (size_t i = 0; i < bytes; i++) {
        process->command[i] = process->command[i] != 0 ? process->command[i] : ' ';
    }
    while (bytes > 0 && process->command[bytes - 1] == ' ') {
        bytes--;
    }
    process->command[bytes] = 0;
    text_sanitize(process->command);
    if (fstat(fileno(file), &about) == 0) {
        process->user = about.st_uid;
        process->user_known = true;
    }
    (void)fclose(file);
}

/* The id is one of here. A process of another container may have a page and appear again: nothing
   tells. */
static struct machine_process *process_find(struct machine *machine, uint64_t pid) {
    for (uint32_t i = 0; i < machine->process_count; i++) {
        struct machine_process *process = &machine->processes[i];
        if (process->pid == pid && (!process->paged || page_is_of_here(&process->view))) {
            return process;
        }
    }
    return NULL;
}

static void use_add(struct machine *machine, const char *root, uint32_t device,
                    const struct outsider_use *from) {
    struct machine_process *process = process_find(machine, from->pid);
    if (process == NULL && (process = process_new(machine, from->pid)) != NULL) {
        command_read(root, process);
    }
    if (process == NULL || device == UINT32_MAX) {
        return;
    }
    struct machine_use *use = use_take(machine, process, device);
    if (use != NULL) {
        sum_into(&use->driver_bytes, from->bytes);
        sum_into(&use->other_bytes, from->other_bytes);
    }
    sum_into(&process->driver_bytes, from->bytes);
    if (!process->paged) {
        process->held_bytes = process->driver_bytes;
    }
}

static void outsiders_take(const struct machine_sources *sources, struct machine *machine) {
    struct outsiders *outsiders = calloc(1, sizeof *outsiders);
    uint32_t devices[OUTSIDER_DEVICES_MAX];
    const char *root = sources->root != NULL ? sources->root : "";
    if (outsiders == NULL) {
        machine->cut = true;
        return;
    }
    nvml_read(sources->nvml, outsiders);
    fdinfo_read(root, outsiders);
    for (size_t i = 0; i < outsiders->device_count; i++) {
        devices[i] = device_of_outsider(machine, &outsiders->devices[i]);
    }
    for (size_t i = 0; i < outsiders->use_count; i++) {
        use_add(machine, root, devices[outsiders->uses[i].device], &outsiders->uses[i]);
    }
    machine->cut = machine->cut || outsiders->cut;
    machine->silent = outsiders->silent;
    outsiders_free(outsiders);
    free(outsiders);
}

/* ------------------------------------------------------------------------ order */

static int compare_devices(const void *left, const void *right) {
    const struct machine_device *a = left, *b = right;
    int order = a->simulated - b->simulated;
    order = order != 0 ? order : strcmp(a->label, b->label);
    return order != 0 ? order : (a->owner > b->owner) - (a->owner < b->owner);
}

/* Folders list pages in any order; a device must not jump about on the screen. */
static void devices_sort(struct machine *machine) {
    uint32_t places[MACHINE_DEVICES_MAX] = {0};
    for (uint32_t i = 0; i < machine->device_count; i++) {
        machine->devices[i].number = i;
    }
    qsort(machine->devices, machine->device_count, sizeof *machine->devices, compare_devices);
    for (uint32_t i = 0; i < machine->device_count; i++) {
        places[machine->devices[i].number] = i;
    }
    for (uint32_t i = 0; i < machine->process_count; i++) {
        struct machine_process *process = &machine->processes[i];
        for (uint32_t use = 0; use < process->use_count; use++) {
            process->uses[use].device = places[process->uses[use].device];
        }
    }
}

bool machine_read(const struct machine_sources *sources, struct machine *machine) {
    struct timespec now = {0};
    *machine = (struct machine){.devices = calloc(MACHINE_DEVICES_MAX, sizeof *machine->devices)};
    if (machine->devices == NULL) {
        return false;
    }
    (void)clock_gettime(CLOCK_REALTIME, &now);
    machine->now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    if (sources->pages != NULL) {
        pages_visit_in(sources->pages, page_add, machine, &machine->met);
    } else {
        pages_visit(page_add, machine, &machine->met);
    }
    if (!sources->pages_only) {
        outsiders_take(sources, machine);
    }
    devices_sort(machine);
    return true;
}

void machine_free(struct machine *machine) {
    for (uint32_t i = 0; i < machine->process_count; i++) {
        page_view_free(&machine->processes[i].view);
    }
    free(machine->processes);
    free(machine->devices);
    *machine = (struct machine){0};
}

static void user_look_up(uid_t user, char text[USER_TEXT_MAX]) {
    struct passwd entry, *found = NULL;
    char room[1024];
    (void)getpwuid_r(user, &entry, room, sizeof room, &found); /* NULL if it fails */
    if (found != NULL) {
        snprintf(text, USER_TEXT_MAX, "%s", found->pw_name);
    } else {
        snprintf(text, USER_TEXT_MAX, "%lu", (unsigned long)user);
    }
}

/* Names are kept: a look-up may ask the network, and sorting by user asks for thousands. */
const char *user_format(const struct machine_process *process, char text[USER_TEXT_MAX]) {
    static struct {
        bool known;
        uid_t user;
        char name[USER_TEXT_MAX];
    } names[64];
    if (!process->user_known) {
        snprintf(text, USER_TEXT_MAX, "-");
        return text;
    }
    size_t at = process->user % (sizeof names / sizeof names[0]);
    if (!names[at].known || names[at].user != process->user) {
        user_look_up(process->user, names[at].name);
        names[at].user = process->user;
        names[at].known = true;
    }
    memcpy(text, names[at].name, USER_TEXT_MAX);
    return text;
}

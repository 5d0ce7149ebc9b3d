/* SPDX-License-Identifier: Apache-2.0 */
/* outsider.c: the lists of outsider.h. */
#include "top/outsider.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static uint64_t sum_of(uint64_t a, uint64_t b) {
    if (a == OUTSIDER_UNKNOWN || b == OUTSIDER_UNKNOWN) {
        return a == OUTSIDER_UNKNOWN ? b : a;
    }
    return a > UINT64_MAX / 4 - b ? UINT64_MAX / 4 : a + b;
}

static bool uses_grow(struct outsiders *outsiders) {
    if (outsiders->use_count < outsiders->use_room) {
        return true;
    }
    size_t room = outsiders->use_room > 0 ? outsiders->use_room * 2 : 64;
    struct outsider_use *grown =
        room <= OUTSIDER_USES_MAX ? realloc(outsiders->uses, room * sizeof *grown) : NULL;
    if (grown == NULL) {
        outsiders->cut = true;
        return false;
    }
    outsiders->uses = grown;
    outsiders->use_room = room;
    return true;
}

void outsiders_add(struct outsiders *outsiders, size_t device, uint64_t pid, uint64_t bytes,
                   uint64_t other_bytes) {
    for (size_t i = 0; i < outsiders->use_count; i++) {
        struct outsider_use *use = &outsiders->uses[i];
        if (use->device == device && use->pid == pid) {
            use->bytes = sum_of(use->bytes, bytes);
            use->other_bytes = sum_of(use->other_bytes, other_bytes);
            return;
        }
    }
    if (uses_grow(outsiders)) {
        outsiders->uses[outsiders->use_count++] = (struct outsider_use){
            .device = device, .pid = pid, .bytes = bytes, .other_bytes = other_bytes};
    }
}

size_t outsiders_device(struct outsiders *outsiders, const char *pci) {
    for (size_t i = 0; i < outsiders->device_count; i++) {
        if (pci[0] != 0 && strcasecmp(outsiders->devices[i].pci, pci) == 0) {
            return i;
        }
    }
    if (outsiders->device_count == OUTSIDER_DEVICES_MAX) {
        outsiders->cut = true;
        return SIZE_MAX;
    }
    struct outsider_device *device = &outsiders->devices[outsiders->device_count];
    *device =
        (struct outsider_device){.total_bytes = OUTSIDER_UNKNOWN, .free_bytes = OUTSIDER_UNKNOWN};
    snprintf(device->pci, sizeof device->pci, "%s", pci);
    return outsiders->device_count++;
}

bool outsiders_has(const struct outsiders *outsiders, size_t device, uint64_t pid) {
    bool found = false;
    for (size_t i = 0; i < outsiders->use_count && !found; i++) {
        found = outsiders->uses[i].device == device && outsiders->uses[i].pid == pid;
    }
    return found;
}

void outsiders_free(struct outsiders *outsiders) {
    free(outsiders->uses);
    *outsiders = (struct outsiders){0};
}

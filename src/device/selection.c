/* SPDX-License-Identifier: Apache-2.0 */
/*
 * selection.c: which device to use when what is known is how much memory it takes.
 *
 * Devices are looked at in order until one has room. Free memory is what the driver says at this
 * moment, so each device is opened for the question. A driver that does not tell what is free is
 * trusted with four fifths of what it has; one that tells nothing is passed by. The text of the
 * refusal says what each had.
 */
#include "device/objects.h"

#include "backend/registry.h"
#include "base/error.h"
#include "base/option.h"
#include "base/status.h"
#include "base/text.h"
#include "device/device_calls.h"

#include <string.h>

#define GIB (1024.0 * 1024.0 * 1024.0)

enum { FRAME_BYTES = 72 }; /* of the refusal, around what each device had */

struct search {
    struct vr_context *context;
    uint64_t bytes;                              /* needed */
    uint32_t found;                              /* index of the device; slot_count: none yet */
    uint32_t seen;                               /* devices that were asked, all in vain */
    char had[VRAM_ERROR_TEXT_MAX - FRAME_BYTES]; /* what they had, for people */
    bool full;                                   /* no more goes into that */
    vram_status ended; /* not VRAM_OK: context or process is ending, and the call returns this */
};

bool vr_device_same(const vram_device_info *a, const vram_device_info *b) {
    if (!a || !b) {
        return false;
    }
    /* Parts of one card that are lent out apart have its PCI address, and UUIDs of their own. */
    if (a->uuid_known && b->uuid_known) {
        return memcmp(a->uuid, b->uuid, sizeof a->uuid) == 0;
    }
    return a->pci_known && b->pci_known && strcmp(a->pci, b->pci) == 0;
}

bool vram_device_same(const vram_device_info *a, const vram_device_info *b) {
    return vr_device_same(a, b);
}

/* ------------------------------------------------------------------ one device */

/* Free and total memory by the driver's word now. False: it cannot be opened or asked, and the
   error record says why. */
static bool ask(const struct search *search, uint32_t index, struct vram_memory_info *memory) {
    vram_device *device;
    vram_context *context = (vram_context *)(uintptr_t)search->context->object.handle;
    if (vr_device_make(context, index, &device) != VRAM_OK) {
        return false;
    }
    memory->size = sizeof *memory;
    bool told = vr_memory_info_get(device, memory) == VRAM_OK;
    struct vram_error error;
    vr_error_save(&error);
    vr_device_end(device);
    vr_error_restore(&error);
    return told;
}

/* What may be taken from a device: by the driver's word, and by the option device_limit. */
static struct vram_value room(const struct search *search, uint32_t index,
                              const struct vram_memory_info *memory) {
    struct vr_slot *slot = &search->context->slots[index];
    struct vram_value room = memory->free_bytes;
    uint64_t limit = search->context->limit_bytes;
    uint64_t charged = vr_load(&slot->account->charged_bytes, VR_RELAXED);
    uint64_t left = limit > charged ? limit - charged : 0;
    if (!room.known && memory->total_bytes.known) {
        room = (struct vram_value){memory->total_bytes.value / 5 * 4, true};
    }
    if (limit && room.known && room.value > left) {
        room.value = left;
    }
    return room;
}

static void add_text(struct search *search, const char *text) {
    size_t used = strlen(search->had);
    search->full = search->full || !vr_text_format(search->had + used, sizeof search->had - used,
                                                   "%s%s", search->seen ? "; " : "", text);
    if (search->full) {
        search->had[used] = '\0';
    }
}

static void note(struct search *search, uint32_t index, const struct vram_memory_info *memory,
                 struct vram_value room) {
    const struct vram_device_info *info = &search->context->slots[index].info;
    char text[VRAM_ERROR_TEXT_MAX];
    if (!memory) {
        vr_text_format(text, sizeof text, "%s:%u cannot be asked (%s)", info->backend,
                       info->backend_index, vr_status_name(vr_error_get()->status));
    } else if (!room.known) {
        vr_text_format(text, sizeof text, "%s:%u does not tell its memory", info->backend,
                       info->backend_index);
    } else {
        vr_text_format(text, sizeof text, "%s:%u has %.2f of %.2f GB", info->backend,
                       info->backend_index, (double)room.value / GIB,
                       (double)memory->total_bytes.value / GIB);
    }
    add_text(search, text);
    search->seen++;
}

static void consider(struct search *search, uint32_t index) {
    struct vram_memory_info memory;
    struct vram_value left = {0, false};
    if (search->found < search->context->slot_count) {
        return;
    }
    bool told = ask(search, index, &memory);
    if (told) {
        left = room(search, index, &memory);
    } else if (vr_error_get()->status == VRAM_ERR_STALE ||
               vr_error_get()->status == VRAM_ERR_SHUTDOWN) {
        search->ended = vr_error_get()->status; /* no other thread has the handle of `ask` */
    }
    if (told && left.known && left.value >= search->bytes) {
        search->found = index;
    } else {
        note(search, index, told ? &memory : NULL, left);
    }
}

/* ------------------------------------------------------------------- the order */

/* Real GPUs as they are listed, behind a simulation that the user asked for; then the host, which
   is itself better than a driver that runs on it. */
static void in_usual_order(struct search *search) {
    const struct vr_context *context = search->context;
    const vram_device_kind kinds[] = {
        context->sim_wanted ? VRAM_DEVICE_SIMULATED : VRAM_DEVICE_GPU,
        context->sim_wanted ? VRAM_DEVICE_GPU : VRAM_DEVICE_CPU,
        VRAM_DEVICE_CPU,
    };
    const size_t count = context->sim_wanted ? 3 : 2;
    for (size_t k = 0; k < count; k++) {
        for (uint32_t pass = 0; pass < 2; pass++) { /* of CPUs the host first */
            for (uint32_t i = 0; i < context->slot_count; i++) {
                const struct vram_device_info *info = &context->slots[i].info;
                bool later = info->kind == VRAM_DEVICE_CPU && strcmp(info->backend, "host") != 0;
                if (info->kind == kinds[k] && later == (pass == 1)) {
                    consider(search, i);
                }
            }
        }
    }
}

/* Reads ":N" at `at`, up to `end`. *index is UINT32_MAX where there is none. */
static bool read_index(const char *at, const char *end, uint32_t *index) {
    *index = UINT32_MAX;
    if (at == end) {
        return true;
    }
    uint64_t number = 0;
    for (at++; at < end && *at >= '0' && *at <= '9' && number < 1000000; at++) {
        number = number * 10 + (uint64_t)(*at - '0');
    }
    *index = (uint32_t)number;
    return at == end && end[-1] != ':';
}

/* One entry of an order, "cuda" or "cuda:1"; with `search` its devices are considered. */
static vram_status entry(struct search *search, const char *at, size_t bytes) {
    size_t name = strcspn(at, ":,");
    const struct vr_backend_ops *ops = vr_registry_find(at, name);
    uint32_t index;
    if (!ops || !read_index(at + name, at + bytes, &index)) {
        return vr_fail(VRAM_ERR_INVALID,
                       "\"%.*s\" in the order is no backend; an order is names with or without an "
                       "index, \"cuda:1,vulkan,host\"",
                       (int)(bytes < 32 ? bytes : 32), at);
    }
    for (uint32_t i = 0; search && i < search->context->slot_count; i++) {
        const struct vr_slot *slot = &search->context->slots[i];
        if (slot->backend->ops == ops && (index == UINT32_MAX || slot->backend_index == index)) {
            consider(search, i);
        }
    }
    return VRAM_OK;
}

/* Goes through an order; without `search` only to see that it can be read. */
static vram_status in_order(struct search *search, const char *order) {
    vram_status status = VRAM_OK;
    for (const char *at = order; *at && status == VRAM_OK;) {
        size_t bytes = strcspn(at, ",");
        status = entry(search, at, bytes);
        at += bytes + (at[bytes] == ',');
    }
    return status;
}

static vram_status conclude(const struct search *search) {
    if (search->found < search->context->slot_count) {
        return VRAM_OK;
    }
    if (search->ended != VRAM_OK) {
        return vr_fail(search->ended, "the context was destroyed meanwhile");
    }
    if (!search->seen) {
        return vr_fail(VRAM_ERR_NO_DEVICE, "no device is in the order; `vram info` lists them");
    }
    return vr_fail(VRAM_ERR_DEVICE_MEMORY, "No backend has enough memory (%.2f GB required): %s%s",
                   (double)search->bytes / GIB, search->had, search->full ? "; ..." : "");
}

vram_status vram_device_select(vram_context *handle, const vram_select_options *options,
                               uint32_t *index) {
    VR_CALL;
    struct vram_select_options taken;
    char order[VR_OPTION_TEXT_MAX];
    void *entered;
    vram_status status = vr_options_take(&taken, sizeof taken, options);
    if (status == VRAM_OK && !index) {
        status = vr_fail(VRAM_ERR_INVALID, "the place for the index is NULL");
    }
    if (status != VRAM_OK) {
        return status;
    }
    vr_option_text(VR_OPTION_BACKEND_ORDER, order);
    const char *wanted = taken.order ? taken.order : order;
    if ((status = in_order(NULL, wanted)) != VRAM_OK ||
        (status = vr_enter(VR_KIND_CONTEXT, handle, &entered)) != VRAM_OK) {
        return status;
    }
    struct vr_context *context = entered;
    struct search search = {.context = context, .bytes = taken.bytes, .found = context->slot_count};
    struct vram_error error;
    vr_error_save(&error);
    if (*wanted) {
        in_order(&search, wanted);
    } else {
        in_usual_order(&search);
    }
    vr_error_restore(&error); /* a device that could not be asked is in the text, if anywhere */
    status = conclude(&search);
    if (status == VRAM_OK) {
        *index = search.found;
    }
    vr_leave(context);
    return status;
}

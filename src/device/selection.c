/* SPDX-License-Identifier: Apache-2.0 */
/*
 * selection.c: selects a device by the amount of memory needed.
 *
 * Devices are queried in order until one has enough memory. Free memory is what the driver reports
 * now, so each device is opened for the query. If a driver does not report free memory, four fifths
 * of the total are assumed; a device that reports neither is skipped. The error text lists what
 * each device had.
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

enum { FRAME_BYTES = 72 }; /* of the error text, around what each device had */

struct device_search {
    struct vr_context *context;
    uint64_t bytes; /* needed */
    uint32_t found; /* index of the device; slot_count: none yet */
    uint32_t seen;  /* devices that were queried, none of them sufficient */
    char available_text[VRAM_ERROR_TEXT_MAX - FRAME_BYTES]; /* what they had, for the error text */
    bool full;                                              /* the text is full */
    vram_status ended; /* not VRAM_OK: context or process is ending, and the call returns this */
};

bool vr_device_same(const vram_device_info *a, const vram_device_info *b) {
    if (!a || !b) {
        return false;
    }
    /* Partitions of one card have its PCI address, but their own UUIDs. */
    if (a->uuid_known && b->uuid_known) {
        return memcmp(a->uuid, b->uuid, sizeof a->uuid) == 0;
    }
    return a->pci_known && b->pci_known && strcmp(a->pci, b->pci) == 0;
}

bool vram_device_same(const vram_device_info *a, const vram_device_info *b) {
    return vr_device_same(a, b);
}

/* ------------------------------------------------------------------ one device */

/* Free and total memory as the driver reports them now. False: the device cannot be opened or
   queried, and the error record says why. */
static bool device_query(const struct device_search *search, uint32_t index,
                         struct vram_memory_info *memory) {
    vram_device *device;
    vram_context *context = (vram_context *)(uintptr_t)search->context->object.handle;
    if (vr_device_make(context, index, &device) != VRAM_OK) {
        return false;
    }
    memory->size = sizeof *memory;
    bool answered = vr_memory_info_get(device, memory) == VRAM_OK;
    struct vram_error error;
    vr_error_save(&error);
    vr_device_end(device);
    vr_error_restore(&error);
    return answered;
}

/* What may be allocated from a device, by the driver's report and the option device_limit. */
static struct vram_value memory_available(const struct device_search *search, uint32_t index,
                                          const struct vram_memory_info *memory) {
    struct vr_slot *slot = &search->context->slots[index];
    struct vram_value available = memory->free_bytes;
    uint64_t limit = search->context->limit_bytes;
    uint64_t charged = vr_load(&slot->account->charged_bytes, VR_RELAXED);
    uint64_t left = limit > charged ? limit - charged : 0;
    if (!available.known && memory->total_bytes.known) {
        available = (struct vram_value){memory->total_bytes.value / 5 * 4, true};
    }
    if (limit && available.known && available.value > left) {
        available.value = left;
    }
    return available;
}

static void add_text(struct device_search *search, const char *text) {
    size_t used = strlen(search->available_text);
    search->full = search->full || !vr_text_format(search->available_text + used,
                                                   sizeof search->available_text - used, "%s%s",
                                                   search->seen ? "; " : "", text);
    if (search->full) {
        search->available_text[used] = '\0';
    }
}

static void device_note(struct device_search *search, uint32_t index,
                        const struct vram_memory_info *memory, struct vram_value available) {
    const struct vram_device_info *info = &search->context->slots[index].info;
    char text[VRAM_ERROR_TEXT_MAX];
    if (!memory) {
        vr_text_format(text, sizeof text, "%s:%u cannot be queried (%s)", info->backend,
                       info->backend_index, vr_status_name(vr_error_get()->status));
    } else if (!available.known) {
        vr_text_format(text, sizeof text, "%s:%u does not report its memory", info->backend,
                       info->backend_index);
    } else {
        vr_text_format(text, sizeof text, "%s:%u has %.2f of %.2f GB", info->backend,
                       info->backend_index, (double)available.value / GIB,
                       (double)memory->total_bytes.value / GIB);
    }
    add_text(search, text);
    search->seen++;
}

static void device_consider(struct device_search *search, uint32_t index) {
    struct vram_memory_info memory;
    struct vram_value left = {0, false};
    if (search->found < search->context->slot_count) {
        return;
    }
    bool answered = device_query(search, index, &memory);
    if (answered) {
        left = memory_available(search, index, &memory);
    } else if (vr_error_get()->status == VRAM_ERR_STALE ||
               vr_error_get()->status == VRAM_ERR_SHUTDOWN) {
        search->ended =
            vr_error_get()->status; /* no other thread has the handle of `device_query` */
    }
    if (answered && left.known && left.value >= search->bytes) {
        search->found = index;
    } else {
        device_note(search, index, answered ? &memory : NULL, left);
    }
}

/* ------------------------------------------------------------------- the order */

/* A simulation that the user asked for, then real GPUs as they are listed, then the host, which is
   preferred to a driver that runs on it. */
static void search_default_order(struct device_search *search) {
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
                    device_consider(search, i);
                }
            }
        }
    }
}

/* Reads ":N" at `at`, up to `end`. *index is UINT32_MAX if there is none. */
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
static vram_status order_entry(struct device_search *search, const char *at, size_t bytes) {
    size_t name = strcspn(at, ":,");
    const struct vr_backend_ops *ops = vr_registry_find(at, name);
    uint32_t index;
    if (!ops || !read_index(at + name, at + bytes, &index)) {
        return vr_fail(
            VRAM_ERR_INVALID,
            "\"%.*s\" in the order is not a backend; an order is names with or without an "
            "index, \"cuda:1,vulkan,host\"",
            (int)(bytes < 32 ? bytes : 32), at);
    }
    for (uint32_t i = 0; search && i < search->context->slot_count; i++) {
        const struct vr_slot *slot = &search->context->slots[i];
        if (slot->backend->ops == ops && (index == UINT32_MAX || slot->backend_index == index)) {
            device_consider(search, i);
        }
    }
    return VRAM_OK;
}

/* Processes an order; without `search` it only checks the syntax. */
static vram_status search_order(struct device_search *search, const char *order) {
    vram_status status = VRAM_OK;
    for (const char *at = order; *at && status == VRAM_OK;) {
        size_t bytes = strcspn(at, ",");
        status = order_entry(search, at, bytes);
        at += bytes + (at[bytes] == ',');
    }
    return status;
}

static vram_status search_conclude(const struct device_search *search) {
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
                   (double)search->bytes / GIB, search->available_text,
                   search->full ? "; ..." : "");
}

vram_status vram_device_select(vram_context *handle, const vram_select_options *options,
                               uint32_t *index) {
    VR_CALL;
    struct vram_select_options taken;
    char order[VR_OPTION_TEXT_MAX];
    void *entered;
    vram_status status = vr_options_take(&taken, sizeof taken, options);
    if (status == VRAM_OK && !index) {
        status = vr_fail(VRAM_ERR_INVALID, "the pointer that receives the index is NULL");
    }
    if (status != VRAM_OK) {
        return status;
    }
    vr_option_text(VR_OPTION_BACKEND_ORDER, order);
    const char *wanted = taken.order ? taken.order : order;
    if ((status = search_order(NULL, wanted)) != VRAM_OK ||
        (status = vr_enter(VR_KIND_CONTEXT, handle, &entered)) != VRAM_OK) {
        return status;
    }
    struct vr_context *context = entered;
    struct device_search search = {
        .context = context, .bytes = taken.bytes, .found = context->slot_count};
    struct vram_error error;
    vr_error_save(&error);
    if (*wanted) {
        search_order(&search, wanted);
    } else {
        search_default_order(&search);
    }
    vr_error_restore(
        &error); /* the error text, if any, mentions a device that could not be queried */
    status = search_conclude(&search);
    if (status == VRAM_OK) {
        *index = search.found;
    }
    vr_leave(context);
    return status;
}

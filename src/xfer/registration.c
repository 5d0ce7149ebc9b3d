/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registration.c: see registration.h.
 */
#include "xfer/registration.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/option.h"
#include "base/os/os.h"
#include "base/size.h"
#include "device/ops.h"
#include "device/quiesce.h"

struct registration {
    struct vr_link link;
    uint64_t addr, bytes; /* whole pages */
    uint32_t uses;
    bool moving; /* (2) */
};

#define ENTRY(link_) VR_CONTAINER(link_, struct registration, link)

/* --------------------------------------------------------------------- finding */

/* The whole pages that contain the memory. */
static vram_status pages_of(uint64_t addr, uint64_t bytes, struct registration *pages) {
    uint64_t page = vr_os_page_bytes(), end;
    if (!addr || !bytes) {
        return vr_fail(VRAM_ERR_INVALID, "there is no memory to page-lock");
    }
    if (!vr_add(addr, bytes, &end) || !vr_round_up(end, page, &end)) {
        return vr_fail(VRAM_ERR_OVERFLOW, "0x%llx + %llu bytes pass the end of memory",
                       (unsigned long long)addr, (unsigned long long)bytes);
    }
    pages->addr = addr / page * page;
    pages->bytes = end - pages->addr;
    return VRAM_OK;
}

/* The first entry that overlaps the pages. Under the lock. */
static struct registration *find_overlapping(struct vr_registrations *all,
                                             const struct registration *pages) {
    for (struct vr_link *link = vr_list_first(&all->entries); link;
         link = vr_list_next(&all->entries, link)) {
        if (vr_overlap(ENTRY(link)->addr, ENTRY(link)->bytes, pages->addr, pages->bytes)) {
            return ENTRY(link);
        }
    }
    return NULL;
}

static bool entry_contains(const struct registration *entry, const struct registration *pages) {
    return vr_inside(pages->addr, pages->bytes, entry->addr, entry->bytes);
}

/* The least recently used entry without uses. Under the lock. */
static struct registration *oldest_unused(struct vr_registrations *all) {
    for (struct vr_link *link = vr_list_first(&all->entries); link;
         link = vr_list_next(&all->entries, link)) {
        if (!ENTRY(link)->uses && !ENTRY(link)->moving) {
            return ENTRY(link);
        }
    }
    return NULL;
}

/* ---------------------------------------------------------------- unregistering */

/* Takes an entry off the list. Under the lock. */
static void take_off(struct vr_registrations *all, struct registration *entry) {
    vr_link_remove(&entry->link);
    all->bytes -= entry->bytes;
    all->count--;
}

/* Unregisters an entry without uses. The lock is held at the call and at its return, not in
   between. If the driver refuses, the entry stays. The driver of a lost device is not called: the
   entry is removed, but its pages may stay locked, which the returned error says. */
static vram_status unregister_entry(struct vr_registrations *all, struct registration *entry) {
    entry->moving = true;
    vr_mutex_unlock(&all->lock);
    vram_status status = vr_pinned_unregister(&all->device->base, entry->addr, entry->bytes);
    bool unanswered = status == VRAM_OK && vr_load(&all->device->base.lost, VR_ACQUIRE);
    vr_mutex_lock(&all->lock);
    entry->moving = false;
    if (status == VRAM_OK) {
        take_off(all, entry);
        vr_mem_free(entry);
    }
    vr_cond_broadcast(&all->changed);
    return unanswered
               ? vr_fail(VRAM_ERR_DEVICE_LOST,
                         "the device is lost: its driver may keep these pages locked until the "
                         "process ends; do not page-lock them again")
               : status;
}

/* Waits until no other thread is registering or unregistering an overlapping range; releases the
   lock while it waits. *entry is the first overlapping entry, or NULL. VRAM_ERR_TIMEOUT: the driver
   has kept that thread for longer than the option wait_timeout. */
static vram_status wait_settled(struct vr_registrations *all, const struct registration *pages,
                                struct registration **entry) {
    uint64_t begun = vr_os_now(), most = all->device->context->wait_ns;
    while ((*entry = find_overlapping(all, pages)) && (*entry)->moving) {
        uint64_t waited = vr_os_now() - begun;
        if (waited >= most) {
            return vr_fail(
                VRAM_ERR_TIMEOUT,
                "another thread is page-locking or unlocking a part of it and has not finished");
        }
        (void)vr_cond_wait(&all->changed, &all->lock, most - waited);
    }
    return VRAM_OK;
}

/* Unregisters all entries that overlap. VRAM_ERR_BUSY: one of them is used. */
static vram_status clear_overlapping(struct vr_registrations *all, const struct registration *pages,
                                     bool counts) {
    struct registration *entry;
    vram_status status;
    while ((status = wait_settled(all, pages, &entry)) == VRAM_OK && entry) {
        if (entry->uses) {
            return vr_fail(
                VRAM_ERR_BUSY,
                "a part of it is page-locked for a vram_pinned_begin that has not ended");
        }
        status = unregister_entry(all, entry);
        vr_fetch_add(&all->evictions, counts, VR_RELAXED);
        if (status != VRAM_OK) {
            return status;
        }
    }
    return status;
}

/* Unregisters unused entries until `bytes` fit within the limits. */
static vram_status evict_for(struct vr_registrations *all, uint64_t bytes) {
    uint64_t most = vr_option_number(VR_OPTION_PINNED_LIMIT);
    uint64_t entries = vr_option_number(VR_OPTION_PINNED_ENTRIES);
    most = most ? most : UINT64_MAX;
    while (bytes > most || all->bytes > most - bytes || all->count >= entries) {
        struct registration *oldest = bytes > most ? NULL : oldest_unused(all);
        if (!oldest) {
            return vr_fail(VRAM_ERR_LIMIT,
                           "%llu bytes more would pass the options pinned_limit or pinned_entries; "
                           "%llu bytes in %u ranges are page-locked",
                           (unsigned long long)bytes, (unsigned long long)all->bytes, all->count);
        }
        vram_status status = unregister_entry(all, oldest);
        if (status != VRAM_OK) {
            return status;
        }
        vr_fetch_add(&all->evictions, 1, VR_RELAXED);
    }
    return VRAM_OK;
}

/* ----------------------------------------------------------------------- using */

/* Registers pages. The entry is in the list before the driver is called: keeps (1) and (3). Under
   the lock, which it releases meanwhile. */
static vram_status register_pages(struct vr_registrations *all, struct registration *fresh) {
    fresh->moving = true;
    fresh->uses = 1;
    vr_list_append(&all->entries, &fresh->link);
    all->bytes += fresh->bytes;
    all->count++;
    vr_mutex_unlock(&all->lock);
    vram_status status = vr_pinned_register(&all->device->base, fresh->addr, fresh->bytes);
    vr_mutex_lock(&all->lock);
    fresh->moving = false;
    if (status != VRAM_OK) {
        take_off(all, fresh);
    }
    vr_cond_broadcast(&all->changed);
    return status;
}

/* Adds a use to an entry that contains the whole range; *found: there is one. Under the lock. */
static vram_status use_existing(struct vr_registrations *all, const struct registration *pages,
                                bool *found) {
    struct registration *entry;
    vram_status status = wait_settled(all, pages, &entry);
    *found = status == VRAM_OK && entry && entry_contains(entry, pages);
    if (*found) {
        entry->uses++;
        vr_link_remove(&entry->link);
        vr_list_append(&all->entries, &entry->link);
    }
    return status;
}

vram_status vr_registration_use(struct vr_registrations *all, uint64_t addr, uint64_t bytes) {
    struct registration *fresh = vr_mem_alloc(1, sizeof *fresh, vr_operation());
    if (!fresh) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = pages_of(addr, bytes, fresh);
    if (status != VRAM_OK) {
        vr_mem_free(fresh);
        return status;
    }
    bool found;
    vr_mutex_lock(&all->lock);
    status = use_existing(all, fresh, &found);
    vr_fetch_add(found ? &all->hits : &all->misses, 1, VR_RELAXED);
    while (!found && status == VRAM_OK) {
        status = clear_overlapping(all, fresh, true);
        if (status == VRAM_OK) {
            status = evict_for(all, fresh->bytes);
        }
        if (status == VRAM_OK) { /* the lock was released: another thread may have registered it */
            status = use_existing(all, fresh, &found);
        }
        if (status == VRAM_OK && !found && !find_overlapping(all, fresh)) {
            status = register_pages(all, fresh);
            if (status == VRAM_OK) {
                vr_mutex_unlock(&all->lock);
                return VRAM_OK;
            }
        }
    }
    vr_mutex_unlock(&all->lock);
    vr_mem_free(fresh);
    return status;
}

vram_status vr_registration_unuse(struct vr_registrations *all, uint64_t addr, uint64_t bytes) {
    struct registration pages = {.addr = 0};
    vram_status status = pages_of(addr, bytes, &pages);
    if (status != VRAM_OK) {
        return status;
    }
    struct registration *entry;
    vr_mutex_lock(&all->lock);
    status = wait_settled(all, &pages, &entry);
    bool good = status == VRAM_OK && entry && entry_contains(entry, &pages) && entry->uses;
    if (good) {
        entry->uses--;
    }
    vr_mutex_unlock(&all->lock);
    return good || status != VRAM_OK
               ? status
               : vr_fail(VRAM_ERR_INVALID, "no vram_pinned_begin is open for 0x%llx",
                         (unsigned long long)addr);
}

vram_status vr_registration_forget(struct vr_registrations *all, uint64_t addr, uint64_t bytes) {
    struct registration pages = {.addr = 0};
    vram_status status = bytes ? pages_of(addr, bytes, &pages) : VRAM_OK;
    if (status != VRAM_OK || !bytes) {
        return status;
    }
    vr_mutex_lock(&all->lock);
    for (struct vr_link *link = vr_list_first(&all->entries); link && status == VRAM_OK;
         link = vr_list_next(&all->entries, link)) {
        if (ENTRY(link)->uses &&
            vr_overlap(ENTRY(link)->addr, ENTRY(link)->bytes, pages.addr, pages.bytes)) {
            status =
                vr_fail(VRAM_ERR_BUSY,
                        "a part of it is page-locked for a vram_pinned_begin that has not ended");
        }
    }
    if (status == VRAM_OK) {
        status = clear_overlapping(all, &pages, false);
    }
    vr_mutex_unlock(&all->lock);
    return status;
}

/* --------------------------------------------------------------------- reading */

bool vr_registration_covers(struct vr_registrations *all, uint64_t addr, uint64_t bytes) {
    struct registration pages = {.addr = addr, .bytes = bytes};
    uint64_t end;
    if (!bytes || !vr_add(addr, bytes, &end)) {
        return false;
    }
    vr_mutex_lock(&all->lock);
    struct registration *entry = find_overlapping(all, &pages);
    bool covers = entry && entry->uses && !entry->moving && entry_contains(entry, &pages);
    vr_mutex_unlock(&all->lock);
    return covers;
}

void vr_registration_count(struct vr_registrations *all, uint32_t *entries, uint32_t *used,
                           uint64_t *bytes) {
    vr_mutex_lock(&all->lock);
    *entries = all->count;
    *bytes = all->bytes;
    *used = 0;
    for (struct vr_link *link = vr_list_first(&all->entries); link;
         link = vr_list_next(&all->entries, link)) {
        *used += ENTRY(link)->uses > 0;
    }
    vr_mutex_unlock(&all->lock);
}

/* Unregisters one unused entry and returns its bytes; 0: there is none, or the driver refused. */
static uint64_t trim_one(struct vr_registrations *all) {
    VR_OPERATION("pinned_unregister");
    vr_mutex_lock(&all->lock);
    struct registration *entry = oldest_unused(all);
    uint64_t bytes = entry ? entry->bytes : 0;
    bytes = entry && unregister_entry(all, entry) == VRAM_OK ? bytes : 0;
    vr_mutex_unlock(&all->lock);
    return bytes;
}

uint64_t vr_registration_trim(struct vr_registrations *all, bool always) {
    struct vram_error error;
    uint64_t given = 0, bytes = 1;
    vr_error_save(&error);
    while (bytes && (always || vr_quiesce_begin(all->device))) {
        bytes = trim_one(all);
        given += bytes;
        if (!always) {
            vr_quiesce_end(all->device);
        }
    }
    vr_error_restore(&error);
    return given;
}

/* --------------------------------------------------------------- begin and end */

vram_status vr_registrations_begin(struct vr_registrations *all, struct vr_device_object *device) {
    vram_status status = vr_cond_init(&all->changed);
    if (status == VRAM_OK) {
        vr_mutex_init(&all->lock, VR_RANK_STAGING);
        vr_list_init(&all->entries);
        all->device = device;
    }
    return status;
}

/* Tries twice, since a driver may refuse for a transient reason. */
void vr_registrations_end(struct vr_registrations *all) {
    struct vr_device *device = &all->device->base;
    for (struct vr_link *link = vr_list_first(&all->entries); link;
         link = vr_list_next(&all->entries, link)) {
        struct registration *entry = ENTRY(link);
        if (vr_pinned_unregister(device, entry->addr, entry->bytes) != VRAM_OK &&
            vr_pinned_unregister(device, entry->addr, entry->bytes) != VRAM_OK) {
            vr_log(VRAM_LOG_ERROR, "the driver refused to unlock %llu bytes at 0x%llx",
                   (unsigned long long)entry->bytes, (unsigned long long)entry->addr);
        }
    }
}

void vr_registrations_destroy(struct vr_registrations *all) {
    struct vr_link *link;
    while ((link = vr_list_first(&all->entries))) {
        vr_link_remove(link);
        vr_mem_free(ENTRY(link));
    }
    vr_cond_destroy(&all->changed);
    vr_mutex_destroy(&all->lock);
}

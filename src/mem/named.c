/* SPDX-License-Identifier: Apache-2.0 */
/*
 * named.c: buffers by name: creating, finding and growing them. The invariants are in
 * named_object.h.
 */
#include "mem/named_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/size.h"
#include "base/status.h"
#include "core/ladder/handler.h"
#include "core/limit/limit.h"
#include "mem/mem_calls.h"

#include <string.h>

enum { CAPACITY_FIRST = 16, WAIT_NS = 20000 };

/* --------------------------------------------------------------------- names */

vram_status vr_named_check(const char *name) {
    size_t bytes = name ? strnlen(name, VRAM_BUFFER_NAME_MAX) : 0;
    if (!bytes || bytes == VRAM_BUFFER_NAME_MAX) {
        return vr_fail(VRAM_ERR_INVALID, "a name has 1 to %d bytes", VRAM_BUFFER_NAME_MAX - 1);
    }
    return VRAM_OK;
}

bool vr_named_find(const struct vr_named *named, const char *name, size_t *at) {
    size_t from = 0, to = named->count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        bool below = strcmp(named->entries[middle]->name, name) < 0;
        from = below ? middle + 1 : from;
        to = below ? to : middle;
    }
    *at = from;
    return from < named->count && strcmp(named->entries[from]->name, name) == 0;
}

struct vram_buffer_info vr_named_buffer(uint64_t buffer) {
    struct vram_buffer_info info = {.size = sizeof info};
    struct vram_error error;
    vr_error_save(&error);
    if (!buffer || vr_buffer_info_get((vram_buffer *)(uintptr_t)buffer, &info) != VRAM_OK) {
        info = (struct vram_buffer_info){0};
    }
    vr_error_restore(&error);
    return info;
}

uint64_t vr_named_live(const struct vr_named_entry *entry) {
    uint64_t buffer = entry ? entry->buffer : 0;
    return buffer && !vr_handle_was(VR_KIND_BUFFER, (void *)(uintptr_t)buffer) ? buffer : 0;
}

/* Entries stay, so only the list is read under the lock. */
void vr_named_refresh(struct vr_named *named) {
    for (size_t i = 0;; i++) {
        vr_mutex_lock(&named->lock);
        struct vr_named_entry *entry = i < named->count ? named->entries[i] : NULL;
        uint64_t buffer = vr_named_live(entry);
        vr_mutex_unlock(&named->lock);
        if (!entry) {
            return;
        }
        uint64_t capacity = vr_named_buffer(buffer).capacity_bytes;
        vr_mutex_lock(&named->lock);
        if (entry->buffer == buffer || !buffer) {
            entry->capacity_bytes = vr_named_live(entry) ? capacity : 0;
        }
        vr_mutex_unlock(&named->lock);
    }
}

uint64_t vr_named_total(const struct vr_named *named) {
    uint64_t total = 0;
    for (size_t i = 0; i < named->count; i++) {
        total += vr_named_live(named->entries[i]) ? named->entries[i]->capacity_bytes : 0;
    }
    return total;
}

/* The entry of a name, created if needed. `fresh` is a record that it may take. Under the lock. */
static struct vr_named_entry *entry_of(struct vr_named *named, const char *name,
                                       struct vr_named_entry **fresh) {
    size_t at;
    if (vr_named_find(named, name, &at)) {
        return named->entries[at];
    }
    if (named->count == named->capacity) {
        size_t capacity = named->capacity ? named->capacity * 2 : CAPACITY_FIRST;
        void *entries =
            vr_mem_resize(named->entries, capacity, sizeof *named->entries, vr_operation());
        if (!entries) {
            return NULL;
        }
        named->entries = entries;
        named->capacity = capacity;
    }
    memmove(&named->entries[at + 1], &named->entries[at],
            (named->count++ - at) * sizeof *named->entries);
    memcpy((*fresh)->name, name, strlen(name));
    named->entries[at] = *fresh;
    *fresh = NULL;
    return named->entries[at];
}

static vram_status no_buffer(const char *name) {
    return vr_fail(VRAM_ERR_INVALID, "there is no buffer \"%s\"", name);
}

/* ------------------------------------------------------------------- configs */

static vram_status take_config(const struct vram_named_config *from,
                               struct vram_named_config *taken) {
    uint64_t bytes;
    vram_status status = vr_options_take(taken, sizeof *taken, from);
    taken->size = sizeof *taken;
    if (status == VRAM_OK && !taken->growth.size) {
        taken->growth = (struct vram_growth){.size = sizeof taken->growth};
    }
    if (status == VRAM_OK) {
        status = vr_growth_next_given(&taken->growth, 0, 0, &bytes); /* checks the policy */
    }
    if (status == VRAM_OK) {
        struct vram_buffer_options options = {.kind = taken->kind, .precision = taken->precision};
        status = vr_buffer_options_check(&options, 0);
    }
    return status;
}

static bool same_type(const struct vram_named_config *a, const struct vram_named_config *b) {
    return a->kind == b->kind && a->precision == b->precision;
}

static vram_status check_type(const char *name, const struct vram_named_config *is,
                              const struct vram_named_config *wanted) {
    return same_type(is, wanted)
               ? VRAM_OK
               : vr_fail(VRAM_ERR_INVALID,
                         "buffer \"%s\" is %s of kind %d, and %s of kind %d was asked for", name,
                         vr_precision_name(is->precision), (int)is->kind,
                         vr_precision_name(wanted->precision), (int)wanted->kind);
}

/* Stores a config. *buffer: the buffer of that name. */
static vram_status keep_config(struct vr_named *named, const char *name,
                               const struct vram_named_config *config, uint64_t *buffer) {
    struct vr_named_entry *fresh = vr_mem_alloc(1, sizeof *fresh, vr_operation());
    if (!fresh) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vr_mutex_lock(&named->lock);
    bool ended = named->ended;
    struct vr_named_entry *entry = ended ? NULL : entry_of(named, name, &fresh);
    struct vram_named_config is = entry ? entry->config : *config;
    *buffer = vr_named_live(entry);
    bool other = *buffer && !same_type(&is, config);
    if (entry && !other) {
        entry->config = *config;
    }
    vr_mutex_unlock(&named->lock);
    vr_mem_free(fresh);
    if (ended) {
        return vr_fail(VRAM_ERR_STALE, "the manager was destroyed meanwhile");
    }
    if (!entry) {
        return VRAM_ERR_HOST_MEMORY;
    }
    return other ? check_type(name, &is, config) : VRAM_OK;
}

vram_status vram_named_config_set(vram_named *handle, const char *name,
                                  const vram_named_config *config) {
    VR_CALL;
    struct vram_named_config taken;
    uint64_t buffer = 0;
    void *named;
    vram_status status = vr_named_check(name);
    if (status == VRAM_OK && !config) {
        status = vr_fail(VRAM_ERR_INVALID, "the config is NULL");
    }
    if (status == VRAM_OK) {
        status = take_config(config, &taken);
    }
    if (status == VRAM_OK) {
        status = vr_enter(VR_KIND_NAMED, handle, &named);
    }
    if (status != VRAM_OK) {
        return status;
    }
    status = keep_config(named, name, &taken, &buffer);
    if (status == VRAM_OK && buffer) {
        status = vr_buffer_growth_set((vram_buffer *)(uintptr_t)buffer, &taken.growth);
    }
    vr_leave(named);
    return status;
}

/* --------------------------------------------------------------------- limit */

/* Asks the error handler about a refusal for `bytes` that is not the pool's, which asks by itself;
   true: once more. No lock held. */
static bool is_retried(struct vr_named *named, uint64_t bytes, vram_status status,
                       uint32_t retries) {
    struct vr_pool *pool = vr_handle_pin(VR_KIND_POOL, (void *)(uintptr_t)named->pool);
    struct vr_request request = {.size = bytes};
    bool again = pool && status == VRAM_ERR_LIMIT &&
                 vr_handler_ask(pool, &request, status, retries) == VRAM_ERROR_RETRY;
    if (pool) {
        vr_leave(pool);
    }
    return again;
}

/* Keeps (3): counts bytes that are about to be allocated, or VRAM_ERR_LIMIT. Takes the lock. */
static vram_status try_reserve(struct vr_named *named, uint64_t bytes) {
    vr_named_refresh(named);
    vr_mutex_lock(&named->lock);
    uint64_t held = 0, sum;
    bool fits = vr_add(vr_named_total(named), named->pending_bytes, &held) &&
                vr_add(held, bytes, &sum) && (!named->limit_bytes || sum <= named->limit_bytes);
    if (fits) {
        named->pending_bytes += bytes;
        named->peak_bytes = sum > named->peak_bytes ? sum : named->peak_bytes;
    }
    vr_mutex_unlock(&named->lock);
    if (fits || !named->limit_bytes) {
        return fits ? VRAM_OK : vr_fail(VRAM_ERR_OVERFLOW, "the bytes of named buffers overflow");
    }
    return vr_fail(VRAM_ERR_LIMIT,
                   "%llu bytes more would pass the limit of %llu bytes for named buffers "
                   "(limit_bytes); %llu are held",
                   (unsigned long long)bytes, (unsigned long long)named->limit_bytes,
                   (unsigned long long)held);
}

static vram_status reserve_bytes(struct vr_named *named, uint64_t bytes) {
    uint32_t retries = 0;
    vram_status status;
    struct vram_error error;
    vr_error_save(&error);
    do {
        status = try_reserve(named, bytes);
    } while (is_retried(named, bytes, status, retries++));
    if (status == VRAM_OK) {
        vr_error_restore(&error);
    }
    return status;
}

static void unreserve_bytes(struct vr_named *named, uint64_t bytes) {
    vr_mutex_lock(&named->lock);
    named->pending_bytes -= bytes;
    vr_mutex_unlock(&named->lock);
}

static vram_status count_refusal(struct vr_named *named, vram_status status) {
    if (vr_status_is_exhausted(status)) {
        vr_mutex_lock(&named->lock);
        named->refusals++;
        vr_mutex_unlock(&named->lock);
    }
    return status;
}

static vram_status bytes_of(const struct vram_growth *growth, vram_precision precision,
                            uint64_t elements, uint64_t *bytes) {
    return vr_elements_size(vr_element_bytes(growth, precision), elements, bytes);
}

/* ------------------------------------------------------------------ creating */

/* A buffer that is not in the list yet, with its policy. */
static vram_status make_buffer(struct vr_named *named, const char *name, uint64_t used,
                               uint64_t capacity, const struct vram_named_config *config,
                               vram_buffer **out) {
    struct vram_buffer_options options = {.size = sizeof options,
                                          .kind = config->kind,
                                          .precision = config->precision,
                                          .name = name,
                                          .tag = named->tag};
    vram_buffer *buffer;
    vram_status status = vr_buffer_create((vram_pool *)(uintptr_t)named->pool, capacity,
                                          named->queue, &options, &buffer);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_buffer_growth_set(buffer, &config->growth);
    if (status == VRAM_OK) {
        status = vr_buffer_resize(buffer, used, named->queue);
    }
    if (status != VRAM_OK) {
        struct vram_error error;
        vr_error_save(&error);
        (void)vr_buffer_destroy(buffer);
        vr_error_restore(&error);
        return status;
    }
    *out = buffer;
    return VRAM_OK;
}

/* Keeps (4): adds `made` under its name, unless a buffer is there. *there: the buffer of that name
   then. */
static vram_status put_entry(struct vr_named *named, const char *name, uint64_t made,
                             uint64_t capacity, const struct vram_named_config *config,
                             uint64_t *there) {
    struct vr_named_entry *fresh = vr_mem_alloc(1, sizeof *fresh, vr_operation());
    if (!fresh) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vr_mutex_lock(&named->lock);
    bool ended = named->ended;
    struct vr_named_entry *entry = ended ? NULL : entry_of(named, name, &fresh);
    if (entry && !vr_named_live(entry)) {
        entry->buffer = made;
        entry->config = *config;
        entry->capacity_bytes = capacity;
        named->created++;
        named->pending_bytes -= capacity;
    }
    *there = entry ? entry->buffer : 0;
    vr_mutex_unlock(&named->lock);
    vr_mem_free(fresh);
    return ended   ? vr_fail(VRAM_ERR_STALE, "the manager was destroyed meanwhile")
           : entry ? VRAM_OK
                   : VRAM_ERR_HOST_MEMORY;
}

/* Creates a buffer and adds it under its name, or returns the one that another thread has added. */
static vram_status make_and_put(struct vr_named *named, const char *name, uint64_t elements,
                                const struct vram_named_config *config, bool *was_there,
                                vram_buffer **buffer) {
    uint64_t used = 0, capacity = 0, there = 0;
    vram_buffer *made = NULL;
    vram_status status = bytes_of(&config->growth, config->precision, elements, &used);
    if (status == VRAM_OK) {
        status = vr_growth_next_given(&config->growth, 0, used, &capacity);
        (void)is_retried(named, used, status, 0); /* the config stays the same, and its answer */
    }
    if (status == VRAM_OK) {
        status = reserve_bytes(named, capacity);
    }
    if (status != VRAM_OK) {
        return status;
    }
    status = make_buffer(named, name, used, capacity, config, &made);
    if (status == VRAM_OK) {
        status = put_entry(named, name, (uintptr_t)made, capacity, config, &there);
    }
    if (status == VRAM_OK && there == (uintptr_t)made) {
        *was_there = false;
        *buffer = made;
        return VRAM_OK;
    }
    struct vram_error error;
    vr_error_save(&error);
    (void)vr_buffer_destroy(made);
    vr_error_restore(&error);
    unreserve_bytes(named, capacity);
    *was_there = true;
    return status;
}

/* The buffer of a name, 0 for none. *is: its config, size 0 for none. */
static uint64_t config_of(struct vr_named *named, const char *name, struct vram_named_config *is) {
    size_t at;
    vr_mutex_lock(&named->lock);
    const struct vr_named_entry *entry =
        vr_named_find(named, name, &at) ? named->entries[at] : NULL;
    uint64_t buffer = vr_named_live(entry);
    is->size = 0;
    if (entry) {
        *is = entry->config;
    }
    vr_mutex_unlock(&named->lock);
    return buffer;
}

static vram_status find_or_make(struct vr_named *named, const char *name, uint64_t elements,
                                const struct vram_named_config *given, bool may_be_there,
                                vram_buffer **buffer) {
    struct vram_named_config config, is;
    vram_buffer *made = NULL;
    bool was_there = true;
    vram_status status = take_config(given, &config);
    if (status != VRAM_OK) {
        return status;
    }
    uint64_t there = config_of(named, name, &is);
    while (!there && status == VRAM_OK) { /* again if it was made and destroyed meanwhile */
        const struct vram_named_config *used = !given && is.size ? &is : &config;
        status = make_and_put(named, name, elements, used, &was_there, &made);
        if (status != VRAM_OK && config_of(named, name, &is)) {
            status = VRAM_OK; /* another thread has created it meanwhile */
            was_there = true;
        }
        there = status == VRAM_OK && was_there ? config_of(named, name, &is) : (uintptr_t)made;
    }
    if (status == VRAM_OK && was_there) {
        status = !may_be_there ? vr_fail(VRAM_ERR_INVALID, "there is a buffer \"%s\" already", name)
                 : given       ? check_type(name, &is, &config)
                               : VRAM_OK;
    }
    if (status == VRAM_OK) {
        *buffer = (vram_buffer *)(uintptr_t)there;
    }
    return count_refusal(named, status);
}

static vram_status enter_named(vram_named *handle, const char *name, const void *place,
                               struct vr_named **named) {
    void *entered;
    if (!place) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the buffer is NULL");
    }
    vram_status status = vr_named_check(name);
    if (status == VRAM_OK) {
        status = vr_enter(VR_KIND_NAMED, handle, &entered);
    }
    if (status == VRAM_OK) {
        *named = entered;
    }
    return status;
}

vram_status vram_named_add(vram_named *handle, const char *name, uint64_t elements,
                           const vram_named_config *config, vram_buffer **buffer) {
    VR_CALL;
    struct vr_named *named = NULL;
    vram_status status = enter_named(handle, name, buffer, &named);
    if (status == VRAM_OK) {
        status = find_or_make(named, name, elements, config, false, buffer);
        vr_leave(named);
    }
    return status;
}

vram_status vram_named_get_or_create(vram_named *handle, const char *name, uint64_t elements,
                                     const vram_named_config *config, vram_buffer **buffer) {
    VR_CALL;
    struct vr_named *named = NULL;
    vram_status status = enter_named(handle, name, buffer, &named);
    if (status == VRAM_OK) {
        status = find_or_make(named, name, elements, config, true, buffer);
        vr_leave(named);
    }
    return status;
}

vram_status vram_named_get(vram_named *handle, const char *name, const vram_named_config *config,
                           vram_buffer **buffer) {
    VR_CALL;
    struct vram_named_config taken, is;
    struct vr_named *named = NULL;
    vram_status status = enter_named(handle, name, buffer, &named);
    if (status != VRAM_OK) {
        return status;
    }
    status = take_config(config, &taken);
    if (status == VRAM_OK) {
        uint64_t there = config_of(named, name, &is);
        status = !there ? no_buffer(name) : config ? check_type(name, &is, &taken) : VRAM_OK;
        if (status == VRAM_OK) {
            *buffer = (vram_buffer *)(uintptr_t)there;
        }
    }
    vr_leave(named);
    return status;
}

/* ------------------------------------------------------------------- growing */

/* Makes the caller the only thread that grows the buffer of that name; keeps (5). */
static vram_status begin_growing(struct vr_named *named, const char *name,
                                 struct vr_named_entry **out, vram_buffer **buffer) {
    uint64_t self = vr_os_thread_number(), deadline = vr_deadline_in(named->wait_ns);
    size_t at;
    for (;;) {
        vr_mutex_lock(&named->lock);
        struct vr_named_entry *entry = vr_named_find(named, name, &at) ? named->entries[at] : NULL;
        bool there = vr_named_live(entry);
        uint64_t grower = there ? entry->grower : 0;
        if (there && !grower) {
            entry->grower = self;
            *buffer = (vram_buffer *)(uintptr_t)entry->buffer;
        }
        vr_mutex_unlock(&named->lock);
        if (!there) {
            return no_buffer(name);
        }
        if (!grower) {
            *out = entry;
            return VRAM_OK;
        }
        if (grower == self || vr_deadline_passed(deadline)) {
            return vr_fail(VRAM_ERR_BUSY, "buffer \"%s\" is being grown", name);
        }
        vr_clock_sleep(WAIT_NS);
    }
}

static void end_growing(struct vr_named *named, struct vr_named_entry *entry, uint64_t reserved,
                        bool grown) {
    if (grown) {
        vr_named_refresh(named); /* before the reservation ends: the sum is never too small */
    }
    vr_mutex_lock(&named->lock);
    entry->grower = 0;
    named->pending_bytes -= reserved;
    named->resizes += grown;
    vr_mutex_unlock(&named->lock);
}

/* Waits while another call moves or maps the buffer. */
static vram_status resize_buffer(struct vr_named *named, vram_buffer *buffer, uint64_t bytes,
                                 bool in_place_only) {
    return vr_buffer_resize_within(buffer, bytes, named->queue, named->wait_ns, in_place_only);
}

/* In place, only the additional bytes count against the limit. Otherwise old and new memory exist
   at once, and the limit is checked for the rest of the new memory, too. */
static vram_status grow_capacity(struct vr_named *named, vram_buffer *buffer, uint64_t bytes,
                                 uint64_t before, uint64_t after, uint64_t *reserved) {
    vram_status status = reserve_bytes(named, after - before);
    if (status != VRAM_OK) {
        return status;
    }
    *reserved = after - before;
    status = resize_buffer(named, buffer, bytes, true);
    if (status != VRAM_ERR_UNSUPPORTED) {
        return status;
    }
    status = reserve_bytes(named, before);
    if (status != VRAM_OK) {
        return status;
    }
    *reserved = after;
    return resize_buffer(named, buffer, bytes, false);
}

static vram_status grow_buffer(struct vr_named *named, vram_buffer *buffer, uint64_t elements,
                               uint64_t *reserved) {
    struct vram_growth_info info = {.size = sizeof info};
    struct vram_buffer_info before = vr_named_buffer((uintptr_t)buffer);
    uint64_t bytes = 0, capacity = 0;
    uint32_t retries = 0;
    vram_status status;
    struct vram_error error;
    vr_error_save(&error);
    do { /* the handler may have set another policy */
        status = vr_buffer_growth_get(buffer, &info);
        if (status == VRAM_OK) {
            status = bytes_of(&info.growth, before.precision, elements, &bytes);
        }
        if (status == VRAM_OK && bytes <= before.used_bytes) {
            return VRAM_OK;
        }
        if (status == VRAM_OK) {
            status = vr_growth_next_given(&info.growth, before.capacity_bytes, bytes, &capacity);
        }
    } while (is_retried(named, bytes, status, retries++));
    if (status == VRAM_OK) {
        vr_error_restore(&error);
    }
    if (status == VRAM_OK && capacity > before.capacity_bytes) {
        return grow_capacity(named, buffer, bytes, before.capacity_bytes, capacity, reserved);
    }
    return status == VRAM_OK ? resize_buffer(named, buffer, bytes, false) : status;
}

vram_status vram_named_ensure(vram_named *handle, const char *name, uint64_t elements,
                              vram_buffer **buffer) {
    VR_CALL;
    struct vr_named_entry *entry = NULL;
    struct vr_named *named = NULL;
    vram_buffer *found = NULL;
    uint64_t reserved = 0;
    vram_status status = enter_named(handle, name, vr_operation(), &named);
    if (status != VRAM_OK) {
        return status;
    }
    status = begin_growing(named, name, &entry, &found);
    if (status == VRAM_OK) {
        uint64_t before = vr_named_buffer((uintptr_t)found).resizes;
        status = grow_buffer(named, found, elements, &reserved);
        end_growing(named, entry, reserved, vr_named_buffer((uintptr_t)found).resizes != before);
        if (status == VRAM_OK && buffer) {
            *buffer = found;
        }
    }
    status = count_refusal(named, status);
    vr_leave(named);
    return status;
}

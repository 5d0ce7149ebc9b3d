/* SPDX-License-Identifier: Apache-2.0 */
/*
 * window.c: windows are pages without access, and a radix tree from addresses to them.
 *
 * A record is type-stable, and its sequence number is odd while it belongs to no window: a reader
 * that finds the same even number before and after has read one window's values.
 */
#include "base/window.h"

#include "base/error.h"
#include "base/log.h"
#include "base/os/os.h"
#include "base/radix.h"
#include "base/size.h"
#include "base/stable.h"

struct window {
    void *free_link;        /* used by vr_stable */
    vr_atomic_u64 sequence; /* even: open */
    vr_atomic_u64 base, bytes;
    vr_atomic_ptr object;
};

static struct vr_radix windows = VR_RADIX_INIT;
static struct vr_stable window_memory = VR_STABLE_INIT(struct window);

static void window_publish(struct window *window, uint64_t base, uint64_t bytes, void *object) {
    if (vr_load(&window->sequence, VR_RELAXED) % 2 == 0) {
        vr_store(&window->sequence, 1, VR_RELAXED); /* new from the system: all zero */
    }
    vr_store(&window->base, base, VR_RELEASE);
    vr_store(&window->bytes, bytes, VR_RELEASE);
    vr_store(&window->object, object, VR_RELEASE);
    vr_fetch_add(&window->sequence, 1, VR_RELEASE);
}

static void window_retire(struct window *window) {
    vr_fetch_add(&window->sequence, 1, VR_ACQ_REL);
}

vram_status vr_window_open(uint64_t bytes, uint64_t align, void *object, const char *operation,
                           vram_addr *addr) {
    void *pages;
    struct window *window = vr_stable_take(&window_memory, operation);
    if (!window) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = vr_os_pages_reserve(bytes, align, &pages);
    if (status == VRAM_OK) {
        window_publish(window, (uintptr_t)pages, bytes, object);
        status = vr_radix_insert(&windows, (uintptr_t)pages, bytes, window);
        if (status == VRAM_OK) {
            *addr = (uintptr_t)pages;
            return VRAM_OK;
        }
        window_retire(window);
        vram_error error;
        vr_error_save(&error);
        (void)vr_os_pages_free(pages, bytes);
        vr_error_restore(&error);
    }
    vr_stable_give(&window_memory, window);
    return status;
}

/* If the system cannot release the addresses, they stay reserved, which costs only address
   space. */
void vr_window_close(vram_addr addr, uint64_t bytes) {
    struct window *window = vr_radix_find(&windows, addr);
    vram_error error;
    vr_error_save(&error);
    if (window && vr_radix_remove(&windows, addr, bytes, window) == VRAM_OK) {
        window_retire(window);
        vr_stable_give(&window_memory, window);
        if (vr_os_pages_free((void *)(uintptr_t)addr, bytes) != VRAM_OK) {
            vr_log(VRAM_LOG_WARN, "%llu addresses at 0x%llx stay reserved: %s",
                   (unsigned long long)bytes, (unsigned long long)addr, vr_error_get()->text);
        }
    }
    vr_error_restore(&error);
}

void *vr_window_find(vram_addr addr, uint64_t *offset) {
    struct window *window = vr_radix_find(&windows, addr);
    if (!window) {
        return NULL;
    }
    uint64_t before = vr_load(&window->sequence, VR_ACQUIRE);
    uint64_t base = vr_load(&window->base, VR_ACQUIRE);
    uint64_t bytes = vr_load(&window->bytes, VR_ACQUIRE);
    void *object = vr_load(&window->object, VR_ACQUIRE);
    if (before != vr_load(&window->sequence, VR_ACQUIRE) || before % 2 ||
        !vr_inside(addr, 1, base, bytes)) {
        return NULL;
    }
    *offset = addr - base;
    return object;
}

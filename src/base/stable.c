/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stable.c: memory that keeps one type for ever.
 *
 *   blocks -> [object | object | ... | fresh ... fresh | link] -> [ ... | link] -> NULL
 */
#include "base/stable.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/size.h"

#include <assert.h>
#include <string.h>

#define BLOCK_BYTES                                                                                \
    (UINT64_C(256) * VR_KIB) /* of an ordinary block; untouched pages cost nothing */

/* Takes a block from the OS. Objects are handed out in address order instead of through a free
   list: building that list would touch pages that are not needed yet. */
static vram_status stable_grow(struct vr_stable *stable, const char *operation) {
    uint64_t need = 0, bytes = 0;
    void *block = NULL;
    vram_error why;
    vram_status status = VRAM_ERR_OVERFLOW;
    if (vr_add(stable->object_bytes, sizeof(void *), &need) &&
        vr_round_up(need > BLOCK_BYTES ? need : BLOCK_BYTES, vr_os_page_bytes(), &bytes)) {
        status = vr_os_pages_alloc(bytes, &block);
    }
    if (status != VRAM_OK) {
        vr_error_save(&why);
        return vr_error_set(VRAM_ERR_HOST_MEMORY, "os", operation, why.native_code,
                            "cannot map pages for metadata: %s", why.text);
    }
    if (stable->wiped) {
        vr_os_pages_wipe(block, bytes);
    }
    memcpy((char *)block + bytes - sizeof(void *), &stable->blocks, sizeof(void *));
    stable->blocks = block;
    stable->fresh = block;
    stable->fresh_count = (size_t)((bytes - sizeof(void *)) / stable->object_bytes);
    stable->page_bytes += bytes;
    return VRAM_OK;
}

void *vr_stable_take(struct vr_stable *stable, const char *operation) {
    assert(stable->object_bytes >= sizeof(void *));
    void *object = NULL;
    vr_mutex_lock(&stable->lock);
    if (stable->free) {
        object = stable->free;
        memcpy(&stable->free, object, sizeof(void *));
    } else if (stable->fresh_count || stable_grow(stable, operation) == VRAM_OK) {
        object = stable->fresh;
        stable->fresh += stable->object_bytes;
        stable->fresh_count--;
    }
    vr_mutex_unlock(&stable->lock);
    return object;
}

void vr_stable_give(struct vr_stable *stable, void *object) {
    vr_mutex_lock(&stable->lock);
    memcpy(object, &stable->free, sizeof(void *));
    stable->free = object;
    vr_mutex_unlock(&stable->lock);
}

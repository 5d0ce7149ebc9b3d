/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kept_memory.c: see kept_memory.h.
 */
#include "track/kept_memory.h"

#include "base/os/os.h"

enum { PIECE = 256 << 10 /* bytes from the system at a time */ };

struct vr_kept {
    struct vr_kept *next; /* older */
    size_t used;          /* bytes, these two among them */
};

void *vr_kept_alloc(struct vr_kept **latest, size_t bytes) {
    void *fresh;
    if (!*latest || (*latest)->used + bytes > PIECE) {
        if (vr_os_pages_alloc(PIECE, &fresh) != VRAM_OK) {
            return NULL;
        }
        struct vr_kept *piece = fresh;
        *piece = (struct vr_kept){.next = *latest, .used = sizeof *piece};
        *latest = piece;
    }
    (*latest)->used += bytes;
    return (char *)*latest + (*latest)->used - bytes;
}

void vr_kept_free(struct vr_kept **latest) {
    for (struct vr_kept *next; *latest; *latest = next) {
        next = (*latest)->next;
        (void)vr_os_pages_free(*latest, PIECE);
    }
}

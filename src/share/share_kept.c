/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share_kept.c: descriptors of exported handles that were made before somebody asks for them.
 *
 * Some drivers need more than half of the time of an open to make a descriptor (0.6 ms for 1 GiB on
 * an H200). The server's thread therefore makes one after the other as soon as there is an export,
 * between its other work, and keeps what it has sent for the next reader.
 *
 *  (1) A process keeps at most MOST descriptors, and no more than a sixteenth of what the system
 *      allows it. What was not used for the longest time is closed for one that is asked for, but
 *      not for one that is made ahead: of 10,000 exports only the first are made ahead.
 *  (2) Where a call of src/share gets no descriptor, all that are kept are closed first, and it
 *      tries again.
 *  (3) What is sent is taken out of the table meanwhile, so that nothing closes it.
 *  (4) An export that was closed keeps none: vr_kept_give refuses it, and vr_kept_drop is called
 *      when no call can be under way that gave one.
 *  (5) A forked child closes its copies, as they are no reader of its own.
 */
#include "share/share_server.h"

#include "base/os/os.h"
#include "device/ops.h"

enum { MOST = 64, OF_LIMIT = 16 };

/* Under vr_share_lock. */
static struct kept {
    struct vr_share *share; /* whose; NULL: the entry is free */
    uint32_t handle;        /* its index */
    int fd;
    uint64_t used; /* a larger number: later */
} table[MOST];
static uint64_t uses; /* so far */

/* keeps (4). An export that is not closed has its pool. Under the lock. */
static bool may_keep(const struct vr_share *share) {
    const struct vr_share_export *state = &share->export_state;
    return !state->closed && state->pool->device->base.share->export_is_slow;
}

static uint32_t kept_most(void) {
    uint64_t limit = vr_os_descriptors_most() / OF_LIMIT;
    return limit < MOST ? (uint32_t)limit : MOST;
}

/* The entry of that handle, or a free one for NULL; NULL: none. Under the lock. */
static struct kept *kept_find(const struct vr_share *share, uint32_t handle) {
    for (uint32_t i = 0, most = share ? MOST : kept_most(); i < most; i++) {
        if (table[i].share == share && (!share || table[i].handle == handle)) {
            return &table[i];
        }
    }
    return NULL;
}

/* The entry that was not used for the longest time; NULL: none may be kept. Under the lock. */
static struct kept *kept_oldest(void) {
    uint32_t most = kept_most();
    struct kept *oldest = most ? &table[0] : NULL;
    for (uint32_t i = 1; i < most; i++) {
        oldest = table[i].used < oldest->used ? &table[i] : oldest;
    }
    return oldest;
}

/* Empties an entry; the descriptor is the caller's. Under the lock. */
static int kept_remove(struct kept *entry) {
    int fd = entry->fd;
    *entry = (struct kept){.fd = -1};
    return fd;
}

int vr_kept_take(const struct vr_share *share, uint32_t handle) {
    vr_mutex_lock(&vr_share_lock);
    struct kept *entry = kept_find(share, handle);
    int fd = entry ? kept_remove(entry) : -1;
    vr_mutex_unlock(&vr_share_lock);
    return fd;
}

void vr_kept_give(struct vr_share *share, uint32_t handle, int fd, bool asked_for) {
    vr_mutex_lock(&vr_share_lock);
    bool keep = may_keep(share) && !kept_find(share, handle);
    struct kept *entry = keep ? kept_find(NULL, 0) : NULL;
    if (keep && !entry && asked_for) {
        entry = kept_oldest(); /* keeps (1) */
    }
    if (entry) {
        int other = entry->share ? entry->fd : -1;
        *entry = (struct kept){.share = share, .handle = handle, .fd = fd, .used = ++uses};
        fd = other;
    }
    vr_mutex_unlock(&vr_share_lock);
    if (fd >= 0) {
        vr_os_file_close(fd);
    }
}

/* Closes those of one export, or of all for NULL; returns whether there were some. */
static bool kept_close(const struct vr_share *share) {
    bool any = false;
    for (int i = 0; i < MOST; i++) {
        vr_mutex_lock(&vr_share_lock);
        bool match = table[i].share && (!share || table[i].share == share);
        int fd = match ? kept_remove(&table[i]) : -1;
        vr_mutex_unlock(&vr_share_lock);
        if (match) {
            vr_os_file_close(fd);
        }
        any = any || match;
    }
    return any;
}

void vr_kept_drop(const struct vr_share *share) {
    (void)kept_close(share);
}

bool vr_kept_close_all(void) {
    return kept_close(NULL);
}

/* In the child, which has one thread; keeps (5). */
void vr_kept_forget(void) {
    for (int i = 0; i < MOST; i++) {
        if (table[i].share) {
            vr_os_file_close(kept_remove(&table[i]));
        }
    }
}

/* ------------------------------------------------------------- making them ahead */

/* The next handle that has no descriptor yet, of an export that is in use until vr_export_end:
   whoever closes it waits for that, so that its handles live. NULL: none. Under the lock. */
static struct vr_share *unprepared_find(struct vr_share_server *server, uint32_t *handle) {
    for (uint32_t i = 0; i < server->slot_count && kept_find(NULL, 0); i++) {
        struct vr_share *share = server->slots[i];
        if (share && share->export_state.ready && may_keep(share) &&
            share->export_state.prepared < share->handle_count) {
            *handle = share->export_state.prepared++;
            share->export_state.using_handles++;
            return share;
        }
    }
    return NULL;
}

bool vr_kept_prepare(struct vr_share_server *server) {
    uint32_t handle = 0;
    int fd;
    vr_mutex_lock(&vr_share_lock);
    struct vr_share *share = server->unprepared ? unprepared_find(server, &handle) : NULL;
    server->unprepared = share != NULL;
    vr_mutex_unlock(&vr_share_lock);
    if (!share) {
        return false;
    }
    const struct vr_share_handle *made = &share->handles[handle];
    if (vr_share_export_handle(&share->export_state.pool->device->base, made->native, made->bytes,
                               share->read_only, &fd) == VRAM_OK) {
        vr_kept_give(share, handle, fd, false);
    } /* otherwise it is made, or refused, when somebody asks */
    vr_export_end(share);
    return true;
}

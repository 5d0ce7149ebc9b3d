/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote_region.c: regions: blocks that other processes may access, their tables for peers, and
 * their marks.
 *
 * The table of a region, as numbers (remote_wire.h):
 *
 *     flags, parts, pieces, keys
 *     for each part:   bytes, pieces
 *     for each piece:  address, bytes, key       a piece lies in one handle
 *     for each key:    bytes of the network's, bytes of shared memory's, and both
 *
 * A served region has no pieces and no keys: peers learn no address of this process.
 */
#include "adapters/ucx/remote_object.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/struct_tail.h"

#include <sys/random.h>

enum { TABLE_SERVED = 1, TABLE_READ_ONLY = 2 };

/* -------------------------------------------------------------------- ending */

static void region_free(void *memory) {
    struct vr_region *region = memory;
    struct vr_remote *remote = region->remote;
    vr_mem_free(region->registrations);
    vr_mem_free(region->parts);
    vr_mem_free(region);
    vr_leave(remote);
}

/* Gives back registrations and pins. */
static void region_release(struct vr_region *region) {
    struct vram_error error;
    vr_error_save(&error);
    for (uint32_t i = 0; i < region->registration_count; i++) {
        vr_registration_put(region->remote, region->registrations[i]);
    }
    region->registration_count = 0;
    for (uint32_t i = 0; i < region->pinned; i++) {
        (void)vram_unpin(region->parts[i].addr);
    }
    region->pinned = 0;
    vr_error_restore(&error);
}

void vr_holder_end(struct vr_holder *holder) {
    holder->region->holders--;
    vr_link_remove(&holder->link);
    vr_handle_unpin(holder->region->object.handle);
    vr_mem_free(holder);
}

/* Tells all peers that have the region to let go. */
static void region_revoke(struct vr_region *region) {
    struct vr_remote *remote = region->remote;
    for (struct vr_link *link = vr_list_first(&remote->peers); link;
         link = vr_list_next(&remote->peers, link)) {
        struct vr_peer *peer = VR_CONTAINER(link, struct vr_peer, link);
        for (struct vr_link *held = vr_list_first(&peer->holders); held;
             held = vr_list_next(&peer->holders, held)) {
            if (VR_CONTAINER(held, struct vr_holder, link)->region == region) {
                vr_mail_send(peer, (struct vr_message){.type = VR_REMOTE_REVOKE,
                                                       .key.region = region->key.region});
            }
        }
    }
}

/* Disconnects peers that have not let go in time. */
static void region_force(struct vr_region *region) {
    struct vr_remote *remote = region->remote;
    struct vr_link *link = vr_list_first(&remote->peers);
    while (link) {
        struct vr_peer *peer = VR_CONTAINER(link, struct vr_peer, link);
        link = vr_list_next(&remote->peers, link);
        struct vr_link *held = vr_list_first(&peer->holders);
        while (held) {
            struct vr_holder *holder = VR_CONTAINER(held, struct vr_holder, link);
            held = vr_list_next(&peer->holders, held);
            if (holder->region == region) {
                for (uint32_t i = 0; i < region->registration_count; i++) {
                    region->near_lost |= region->registrations[i]->near != NULL;
                }
                (void)vr_fail(VRAM_ERR_TIMEOUT, "the peer did not let go of a region");
                vr_peer_break(peer);
                break; /* its holders have ended */
            }
        }
    }
}

/* Ends a region that nobody uses any more. */
static void region_end(struct vr_region *region) {
    struct vr_remote *remote = region->remote;
    struct vr_command *closing = region->closing;
    vram_status status = VRAM_OK;
    vr_link_remove(&region->link);
    if (region->near_lost) { /* the blocks stay pinned, until the device ends */
        region->pinned = 0;
        status = vr_fail(VRAM_ERR_TIMEOUT, "a peer with shared memory did not let go of the "
                                           "region; its blocks stay pinned");
    }
    region_release(region);
    vr_fetch_sub(&remote->region_count, 1, VR_RELAXED);
    if (closing) {
        vr_command_end(remote, closing, status);
    }
    vr_handle_unpin(region->object.handle); /* the owner's */
}

static void region_close(struct vr_region *region, struct vr_command *closing) {
    region->closing = closing;
    region->listed = false;
    region->close_deadline = vr_deadline_in(region->remote->timeout_ns);
    region_revoke(region);
    region->remote->busy = true;
}

void vr_regions_step(struct vr_remote *remote) {
    struct vr_link *link = vr_list_first(&remote->regions);
    while (link) {
        struct vr_region *region = VR_CONTAINER(link, struct vr_region, link);
        link = vr_list_next(&remote->regions, link);
        if (region->listed) {
            continue;
        }
        if (region->holders && vr_deadline_passed(region->close_deadline)) {
            region_force(region);
            link = vr_list_first(&remote->regions);
        }
        if (!region->holders && !region->serving) {
            region_end(region);
            link = vr_list_first(&remote->regions);
        } else {
            vr_remote_wake_in(remote, 1000000);
        }
    }
}

/* Keeps the promise that a remote's regions end with it: their handles are dead from now on. */
void vr_regions_end(struct vr_remote *remote) {
    for (struct vr_link *link = vr_list_first(&remote->regions); link;
         link = vr_list_next(&remote->regions, link)) {
        struct vr_region *region = VR_CONTAINER(link, struct vr_region, link);
        if (region->listed) {
            (void)vr_handle_retire(region->object.handle);
            region_close(region, NULL);
        }
    }
}

struct close_command {
    struct vr_command command;
    struct vr_region *region;
};

static void close_run(struct vr_remote *remote, struct vr_command *command) {
    (void)remote;
    region_close(((struct close_command *)command)->region, command);
}

vram_status vram_remote_region_close(vram_remote_region *handle) {
    VR_CALL;
    void *entered;
    vram_status status = vr_end_enter(VR_KIND_REMOTE_REGION, handle, &entered);
    if (!entered) {
        return status;
    }
    struct vr_region *region = entered;
    struct close_command close = {{.run = close_run}, region};
    if (vr_os_thread_number() == vr_load(&region->remote->thread_number, VR_ACQUIRE)) {
        status = vr_fail(VRAM_ERR_BUSY, "a callback on the remote's own thread cannot close it");
    } else if (!vr_handle_retire(region->object.handle)) {
        status = vr_fail(VRAM_ERR_STALE, "the region is being closed already");
    } else {
        status = vr_remote_call(region->remote, &close.command);
        status = status == VRAM_ERR_SHUTDOWN ? VRAM_OK : status; /* it ends with its remote */
    }
    vr_leave(region);
    return status;
}

/* ------------------------------------------------------------------- opening */

static vram_status part_take(struct vr_region *region, vram_addr addr, bool *staged) {
    struct vram_block_info block = {.size = sizeof block};
    struct vr_region_part *part = &region->parts[region->pinned];
    vram_status status = vram_block_info_get(addr, &block);
    if (status == VRAM_OK) {
        status = vram_pin(addr);
    }
    if (status != VRAM_OK) {
        return status;
    }
    *part = (struct vr_region_part){.addr = addr, .bytes = block.requested_bytes};
    region->pinned++;
    status = vr_memory_find(region->remote, addr, part->bytes, &part->host);
    *staged |= !part->host;
    return status;
}

/* Registers the handles under a part; a block may lie in several. */
static vram_status part_register(struct vr_region *region, const struct vr_region_part *part) {
    for (uint64_t at = 0; at < part->bytes;) {
        struct vr_registration *registration;
        vram_status status = vr_registration_get(region->remote, part->addr + at, &registration);
        if (status != VRAM_OK) {
            return status;
        }
        at = registration->base + registration->bytes - part->addr;
        uint32_t count = region->registration_count;
        if (count && region->registrations[count - 1] == registration) {
            vr_registration_put(region->remote, registration); /* as of the part before */
            continue;
        }
        if ((count & (count - 1)) == 0) { /* room for a power of two */
            struct vr_registration **more =
                vr_mem_alloc(count ? 2 * (size_t)count : 1, sizeof *more, vr_operation());
            if (!more) {
                vr_registration_put(region->remote, registration);
                return VRAM_ERR_HOST_MEMORY;
            }
            for (uint32_t i = 0; i < count; i++) {
                more[i] = region->registrations[i];
            }
            vr_mem_free(region->registrations);
            region->registrations = more;
        }
        region->registrations[region->registration_count++] = registration;
    }
    return VRAM_OK;
}

struct open_command {
    struct vr_command command;
    struct vr_region *region;
    const vram_addr *blocks;
};

static void open_run(struct vr_remote *remote, struct vr_command *command) {
    struct open_command *open = (struct open_command *)command;
    struct vr_region *region = open->region;
    bool staged = false;
    vram_status status = VRAM_OK;
    for (uint32_t i = 0; status == VRAM_OK && i < region->part_count; i++) {
        status = part_take(region, open->blocks[i], &staged);
    }
    region->served = staged || (region->flags & VRAM_REMOTE_CHECKED);
    for (uint32_t i = 0; status == VRAM_OK && !region->served && i < region->part_count; i++) {
        status = part_register(region, &region->parts[i]);
    }
    if (status == VRAM_OK) {
        region->key.region = ++remote->next_region;
        region->listed = true;
        vr_list_append(&remote->regions, &region->link);
        vr_fetch_add(&remote->region_count, 1, VR_RELAXED);
    } else {
        region_release(region);
    }
    vr_command_end(remote, command, status);
}

static vram_status region_open(struct vr_remote *remote, const vram_addr *blocks, uint32_t count,
                               uint32_t flags, vram_remote_region **out) {
    struct vr_region *region = vr_mem_alloc(1, sizeof *region, vr_operation());
    if (!region) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vr_handle_ref(remote->object.handle); /* keeps (3) */
    region->remote = remote;
    region->flags = flags;
    region->part_count = count;
    region->object.process = vr_os_process_generation();
    region->parts = vr_mem_alloc(count, sizeof *region->parts, vr_operation());
    vram_status status = region->parts ? VRAM_OK : VRAM_ERR_HOST_MEMORY;
    if (status == VRAM_OK &&
        getrandom(region->key.secret, sizeof region->key.secret, 0) != sizeof region->key.secret) {
        status = vr_fail(VRAM_ERR_IO, "the system has no random numbers");
    }
    if (status == VRAM_OK) {
        status =
            vr_handle_publish(VR_KIND_REMOTE_REGION, region, region_free, &region->object.handle);
    }
    if (status != VRAM_OK) {
        region_free(region);
        return status;
    }
    uint64_t handle = region->object.handle;
    struct open_command open = {{.run = open_run}, region, blocks};
    vr_handle_ref(handle); /* it may end with its remote during the call */
    status = vr_remote_call(remote, &open.command);
    if (status == VRAM_OK) {
        *out = (vram_remote_region *)(uintptr_t)handle;
    } else if (vr_handle_retire(handle)) {
        vr_handle_unpin(handle);
    }
    vr_handle_unpin(handle);
    return status;
}

vram_status vram_remote_region_open(vram_remote *handle, const vram_addr *blocks, uint32_t count,
                                    const vram_remote_region_options *options,
                                    vram_remote_region **region) {
    VR_CALL;
    struct vram_remote_region_options taken;
    void *remote;
    vram_status status = vr_options_take(&taken, sizeof taken, options);
    if (status != VRAM_OK) {
        return status;
    }
    if (!region || !blocks || count == 0 || count > VRAM_REMOTE_PARTS_MAX) {
        return !region || !blocks ? vr_fail(VRAM_ERR_INVALID, "the blocks or the region is NULL")
                                  : vr_fail(VRAM_ERR_INVALID, "a region has 1 to %d blocks, not %u",
                                            VRAM_REMOTE_PARTS_MAX, count);
    }
    if (taken.flags & ~(uint32_t)(VRAM_REMOTE_READ_ONLY | VRAM_REMOTE_CHECKED)) {
        return vr_fail(VRAM_ERR_INVALID, "unknown flags of a region: 0x%x", taken.flags);
    }
    status = vr_enter(VR_KIND_REMOTE, handle, &remote);
    if (status == VRAM_OK) {
        status = region_open(remote, blocks, count, taken.flags, region);
        vr_leave(remote);
    }
    return status;
}

vram_status vram_remote_token_get(vram_remote_region *handle, vram_remote_token *token) {
    VR_CALL;
    void *region;
    if (!token) {
        return vr_fail(VRAM_ERR_INVALID, "the pointer that receives the token is NULL");
    }
    vram_status status = vr_enter(VR_KIND_REMOTE_REGION, handle, &region);
    if (status == VRAM_OK) {
        vr_token_write(&((struct vr_region *)region)->key, token);
        vr_leave(region);
    }
    return status;
}

/* ----------------------------------------------------------------- for peers */

vram_status vr_region_find(struct vr_remote *remote, const struct vr_remote_key *key,
                           struct vr_region **out) {
    for (struct vr_link *link = vr_list_first(&remote->regions); link;
         link = vr_list_next(&remote->regions, link)) {
        struct vr_region *region = VR_CONTAINER(link, struct vr_region, link);
        if (region->key.region == key->region && region->listed) {
            uint64_t differs =
                (region->key.secret[0] ^ key->secret[0]) | (region->key.secret[1] ^ key->secret[1]);
            *out = region;
            return differs ? VRAM_ERR_INVALID : VRAM_OK;
        }
    }
    return key->region && key->region <= remote->next_region ? VRAM_ERR_STALE : VRAM_ERR_INVALID;
}

/* Index of the registration that contains `addr`. */
static uint32_t registration_of(const struct vr_region *region, vram_addr addr, uint32_t from) {
    for (uint32_t i = 0; i < region->registration_count; i++) {
        uint32_t at = (from + i) % region->registration_count; /* parts often follow each other */
        if (addr >= region->registrations[at]->base &&
            addr - region->registrations[at]->base < region->registrations[at]->bytes) {
            return at;
        }
    }
    return 0;
}

/* The pieces of a part: written, or with `cursor` NULL counted. */
static uint32_t part_pieces(const struct vr_region *region, const struct vr_region_part *part,
                            uint32_t *hint, struct vr_cursor *cursor) {
    uint32_t count = 0;
    for (uint64_t at = 0; at < part->bytes; count++) {
        uint32_t key = registration_of(region, part->addr + at, *hint);
        const struct vr_registration *registration = region->registrations[key];
        uint64_t left = registration->base + registration->bytes - (part->addr + at);
        uint64_t bytes = left < part->bytes - at ? left : part->bytes - at;
        if (cursor) {
            vr_cursor_number(cursor, part->addr + at);
            vr_cursor_number(cursor, bytes);
            vr_cursor_number(cursor, key);
        }
        at += bytes;
        *hint = key;
    }
    return count;
}

static void table_write(const struct vr_region *region, bool near, uint32_t pieces,
                        struct vr_cursor *cursor) {
    uint32_t hint = 0;
    vr_cursor_number(cursor, (region->served ? TABLE_SERVED : 0) |
                                 (region->flags & VRAM_REMOTE_READ_ONLY ? TABLE_READ_ONLY : 0));
    vr_cursor_number(cursor, region->part_count);
    vr_cursor_number(cursor, pieces);
    vr_cursor_number(cursor, region->registration_count);
    for (uint32_t i = 0; i < region->part_count; i++) {
        vr_cursor_number(cursor, region->parts[i].bytes);
        vr_cursor_number(cursor,
                         region->served ? 0 : part_pieces(region, &region->parts[i], &hint, NULL));
    }
    hint = 0;
    for (uint32_t i = 0; !region->served && i < region->part_count; i++) {
        (void)part_pieces(region, &region->parts[i], &hint, cursor);
    }
    for (uint32_t i = 0; i < region->registration_count; i++) {
        const struct vr_registration *at = region->registrations[i];
        size_t near_bytes = near ? at->near_key_bytes : 0;
        vr_cursor_number(cursor, at->net_key_bytes);
        vr_cursor_number(cursor, near_bytes);
        vr_cursor_bytes(cursor, at->net_key, at->net_key_bytes);
        vr_cursor_bytes(cursor, at->near_key, near_bytes);
    }
}

vram_status vr_region_table(struct vr_region *region, bool near, uint8_t **table, size_t *bytes) {
    uint32_t pieces = 0, hint = 0;
    for (uint32_t i = 0; !region->served && i < region->part_count; i++) {
        pieces += part_pieces(region, &region->parts[i], &hint, NULL);
    }
    struct vr_cursor counting = {0};
    table_write(region, near, pieces, &counting);
    if (counting.bytes > VR_REMOTE_TABLE_MAX) {
        return VRAM_ERR_LIMIT;
    }
    struct vr_cursor writing = {.at = vr_mem_alloc(1, counting.bytes, vr_operation())};
    if (!writing.at) {
        return VRAM_ERR_HOST_MEMORY;
    }
    table_write(region, near, pieces, &writing);
    *table = writing.at;
    *bytes = writing.bytes;
    return VRAM_OK;
}

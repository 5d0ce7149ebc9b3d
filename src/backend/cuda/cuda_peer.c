/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_peer.c: devices that use each other's memory.
 *
 * Enabling a peer gives a device access to all allocations of the peer, now and later, but not to
 * its mappings: those need access one by one. So a device keeps a list of its readers, the devices
 * that use its memory, and a list of its mappings, one for each handle, with their access:
 *
 *  (1) Whoever changes the access of a mapping first notes it and then reads the list of readers.
 *  (2) Whoever adds a reader first lists it and then reads the list of mappings. It looks at each
 *      mapping again after the driver call, and repeats the call if its access has changed.
 *
 * So each mapping becomes accessible to each reader by one of the two, or by both, which does no
 * harm, and one that was made read-only stays so. The lock is never held across a driver call: a
 * mapping that is gone by the time it is made accessible is skipped.
 */
#include "backend/cuda/cuda_backend.h"

#include "base/error.h"
#include "base/memory.h"

#include <string.h>

struct vr_cuda_mapping {
    vram_addr addr;
    uint64_t bytes;
    bool accessible;
    bool read_only; /* for all devices */
};

/* ----------------------------------------------------------------- mappings */

/* The position of a mapping in the list, or where it would be inserted. */
static size_t mapping_find(const struct vr_cuda_peers *peers, vram_addr addr) {
    size_t low = 0, high = peers->mapping_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (peers->mappings[middle].addr < addr) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool mapping_is_listed(const struct vr_cuda_peers *peers, size_t at, vram_addr addr) {
    return at < peers->mapping_count && peers->mappings[at].addr == addr;
}

/* Makes space for one more. Memory is allocated without the lock; if another thread was faster, the
   new array is freed. */
static vram_status mappings_grow(struct vr_cuda_peers *peers) {
    for (;;) {
        vr_mutex_lock(&peers->lock);
        size_t room = peers->mapping_capacity, count = peers->mapping_count;
        vr_mutex_unlock(&peers->lock);
        if (count < room) {
            return VRAM_OK;
        }
        size_t larger = room ? 2 * room : 64;
        struct vr_cuda_mapping *made = vr_mem_alloc(larger, sizeof *made, "map"), *old = made;
        if (!made) {
            return VRAM_ERR_HOST_MEMORY;
        }
        vr_mutex_lock(&peers->lock);
        if (peers->mapping_capacity == room) {
            old = peers->mappings;
            if (old) {
                memcpy(made, old, peers->mapping_count * sizeof *made);
            }
            peers->mappings = made;
            peers->mapping_capacity = larger;
        }
        vr_mutex_unlock(&peers->lock);
        vr_mem_free(old);
    }
}

vram_status vr_cuda_mapping_add(struct vr_cuda_device *device, vram_addr addr, uint64_t bytes) {
    struct vr_cuda_peers *peers = &device->peers;
    bool done = !peers->possible;
    while (!done) {
        vram_status status = mappings_grow(peers);
        if (status != VRAM_OK) {
            return status;
        }
        vr_mutex_lock(&peers->lock);
        size_t at = mapping_find(peers, addr);
        if (peers->mapping_count < peers->mapping_capacity) {
            memmove(&peers->mappings[at + 1], &peers->mappings[at],
                    (peers->mapping_count - at) * sizeof *peers->mappings);
            peers->mappings[at] = (struct vr_cuda_mapping){.addr = addr, .bytes = bytes};
            peers->mapping_count++;
            done = true;
        }
        vr_mutex_unlock(&peers->lock);
    }
    return VRAM_OK;
}

void vr_cuda_mapping_note(struct vr_cuda_device *device, vram_addr addr, uint64_t bytes,
                          bool accessible, bool read_only) {
    struct vr_cuda_peers *peers = &device->peers;
    if (!peers->possible) {
        return;
    }
    vr_mutex_lock(&peers->lock);
    for (size_t at = mapping_find(peers, addr);
         at < peers->mapping_count && peers->mappings[at].addr - addr < bytes; at++) {
        peers->mappings[at].accessible = accessible;
        peers->mappings[at].read_only = read_only;
    }
    vr_mutex_unlock(&peers->lock);
}

void vr_cuda_mapping_remove(struct vr_cuda_device *device, vram_addr addr, uint64_t bytes) {
    struct vr_cuda_peers *peers = &device->peers;
    if (!peers->possible) {
        return;
    }
    vr_mutex_lock(&peers->lock);
    size_t from = mapping_find(peers, addr), to = from;
    while (to < peers->mapping_count && peers->mappings[to].addr - addr < bytes) {
        to++;
    }
    memmove(&peers->mappings[from], &peers->mappings[to],
            (peers->mapping_count - to) * sizeof *peers->mappings);
    peers->mapping_count -= to - from;
    vr_mutex_unlock(&peers->lock);
}

/* Adds or removes a reader; returns whether it was one before. */
static bool reader_set(struct vr_cuda_peers *peers, int ordinal, bool reads) {
    uint64_t bit = UINT64_C(1) << ordinal;
    vr_mutex_lock(&peers->lock);
    bool before = peers->readers & bit;
    peers->readers = reads ? peers->readers | bit : peers->readers & ~bit;
    vr_mutex_unlock(&peers->lock);
    return before;
}

size_t vr_cuda_readers(struct vr_cuda_device *device,
                       struct vr_cu_access access[VR_CUDA_PEERS_MAX]) {
    size_t count = 0;
    vr_mutex_lock(&device->peers.lock);
    uint64_t readers = device->peers.readers;
    vr_mutex_unlock(&device->peers.lock);
    for (int ordinal = 0; ordinal < VR_CUDA_PEERS_MAX; ordinal++) {
        if (ordinal == device->ordinal || readers >> ordinal & 1) {
            access[count++] = (struct vr_cu_access){.location = {VR_CU_LOCATION_DEVICE, ordinal},
                                                    .flags = VR_CU_ACCESS_READWRITE};
        }
    }
    return count;
}

void vr_cuda_peers_init(struct vr_cuda_device *device, bool possible) {
    device->peers.possible = possible && device->ordinal < VR_CUDA_PEERS_MAX;
    vr_mutex_init(&device->peers.lock, VR_RANK_BACKEND);
}

void vr_cuda_peers_end(struct vr_cuda_device *device) {
    vr_mem_free(device->peers.mappings);
    vr_mutex_destroy(&device->peers.lock);
}

/* ----------------------------------------------------------------- enabling */

static bool peer_reachable(struct vr_device *device, struct vr_device *peer) {
    const struct vr_cuda_device *cuda = device->impl, *other = peer->impl;
    int can = 0;
    return cuda->peers.possible && other->peers.possible &&
           cuda->api->cuDeviceCanAccessPeer(&can, cuda->ordinal, other->ordinal) == VR_CU_SUCCESS &&
           can;
}

/* The first mapping at or after an address; false if there is none. */
static bool mapping_from(struct vr_cuda_peers *peers, vram_addr addr,
                         struct vr_cuda_mapping *mapping) {
    vr_mutex_lock(&peers->lock);
    size_t at = mapping_find(peers, addr);
    bool found = at < peers->mapping_count;
    if (found) {
        *mapping = peers->mappings[at];
    }
    vr_mutex_unlock(&peers->lock);
    return found;
}

/* Whether the mapping is still listed with that access. *gone: it is not accessible any more. */
static bool mapping_is_same(struct vr_cuda_peers *peers, const struct vr_cuda_mapping *mapping,
                            bool *gone) {
    vr_mutex_lock(&peers->lock);
    size_t at = mapping_find(peers, mapping->addr);
    *gone = !mapping_is_listed(peers, at, mapping->addr) || !peers->mappings[at].accessible;
    bool same = !*gone && peers->mappings[at].read_only == mapping->read_only;
    vr_mutex_unlock(&peers->lock);
    return same;
}

static vr_cu_result mapping_open(struct vr_cuda_device *peer,
                                 const struct vr_cuda_mapping *mapping) {
    struct vr_cu_access access[VR_CUDA_PEERS_MAX];
    size_t count = vr_cuda_readers(peer, access);
    for (size_t i = 0; i < count && mapping->read_only; i++) {
        access[i].flags = VR_CU_ACCESS_READ;
    }
    return peer->api->cuMemSetAccess(mapping->addr, mapping->bytes, access, count);
}

/* keeps (2). Mappings that are added during the loop become accessible by (1). */
static vram_status mappings_open(struct vr_cuda_device *peer) {
    struct vr_cuda_mapping mapping;
    for (vram_addr at = 0; mapping_from(&peer->peers, at, &mapping);) {
        vr_cu_result code = mapping.accessible ? mapping_open(peer, &mapping) : VR_CU_SUCCESS;
        bool gone = !mapping.accessible;
        if (!gone && !mapping_is_same(&peer->peers, &mapping, &gone) && !gone) {
            continue; /* its access has changed meanwhile */
        }
        if (code != VR_CU_SUCCESS && !gone) {
            return vr_cuda_check(peer->api, VR_CU_CALL_cuMemSetAccess, code,
                                 VRAM_ERR_DEVICE_MEMORY);
        }
        at = mapping.addr + mapping.bytes;
    }
    return VRAM_OK;
}

static vram_status peer_enable(struct vr_device *device, struct vr_device *peer) {
    struct vr_cuda_device *cuda = device->impl, *other = peer->impl;
    const struct vr_cuda_dialect *dialect = cuda->api->dialect;
    struct vr_cuda_scope scope;
    vram_status status = vr_cuda_enter(&scope, cuda, VR_CUDA_RELAXED);
    if (status != VRAM_OK) {
        return status;
    }
    vr_cu_result code = dialect->peer_enable(cuda, other);
    if (code != VR_CU_PEER_ACCESS_ALREADY_ENABLED) {
        status = vr_cuda_check(cuda->api, dialect->peer_call, code, VRAM_ERR_DEVICE_MEMORY);
    }
    vr_cuda_leave(&scope);
    if (status != VRAM_OK || !peer->vmm) {
        return status;
    }
    bool before = reader_set(&other->peers, cuda->ordinal, true);
    status = vr_cuda_enter(&scope, other, VR_CUDA_RELAXED);
    if (status == VRAM_OK) {
        status = mappings_open(other);
        vr_cuda_leave(&scope);
    }
    if (status != VRAM_OK && !before) {
        reader_set(&other->peers, cuda->ordinal, false);
    }
    return status;
}

static vram_status peer_copy(struct vr_queue *queue, vram_addr to, struct vr_device *peer,
                             vram_addr from, uint64_t bytes) {
    const struct vr_cuda_device *cuda = queue->device->impl, *other = peer->impl;
    const struct vr_cuda_dialect *dialect = cuda->api->dialect;
    struct vr_cuda_scope scope;
    vram_status status = vr_cuda_mark_begin(queue, &scope, dialect->peer_copy_call);
    if (status == VRAM_OK) {
        vr_cu_result code = dialect->peer_copy(cuda, vr_cuda_stream(queue), to, other, from, bytes);
        status = vr_cuda_check(cuda->api, dialect->peer_copy_call, code, VRAM_ERR_DEVICE_MEMORY);
        vr_cuda_leave(&scope);
    }
    return status;
}

const struct vr_peer_ops vr_cuda_peer_ops = {
    .reachable = peer_reachable,
    .enable = peer_enable,
    .copy = peer_copy,
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_file.c: see trace_file.h.
 */
#include "track/trace_file.h"

#include "base/atomic.h"
#include "base/error.h"
#include "base/os/os.h"
#include "track/crc32.h"
#include "track/trace_format.h"

#include <string.h>

/* ------------------------------------------------------------------- numbers */

static void put(uint8_t *to, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) {
        to[i] = (uint8_t)(value >> 8 * i);
    }
}

/* One store, after all before it: keeps (2). `to` is a multiple of 8. */
static void seal(uint8_t *to, uint64_t value) {
    uint8_t bytes[8];
    uint64_t little;
    put(bytes, value, 8);
    memcpy(&little, bytes, sizeof little);
    vr_store((vr_atomic_u64 *)(void *)to, little, VR_RELEASE);
}

/* -------------------------------------------------------------------- chunks */

static uint64_t place(const struct vr_trace_file *file, uint64_t sequence) {
    uint64_t slot = file->slots ? sequence % file->slots : sequence;
    return file->header_bytes + slot * VR_TRACE_CHUNK_BYTES;
}

/* The CRC is of the head without its first 16 bytes, and of the records. */
static void seal_chunk(struct vr_trace_file *file) {
    uint32_t records = file->used - VR_TRACE_CHUNK_HEAD;
    uint32_t crc = vr_crc32(0, file->chunk + VR_TRACE_AT_SEQUENCE,
                            VR_TRACE_CHUNK_HEAD - VR_TRACE_AT_SEQUENCE + records);
    seal(file->chunk + VR_TRACE_AT_SEAL, (uint64_t)crc << 32 | VR_TRACE_CHUNK_MARK | records);
}

static void drop_chunk(struct vr_trace_file *file) {
    if (file->chunk) {
        (void)vr_os_pages_free(file->chunk, VR_TRACE_CHUNK_BYTES);
        file->chunk = NULL;
    }
}

static void stop(struct vr_trace_file *file, vram_status status) {
    drop_chunk(file);
    file->stopped = status;
}

/* Void while it is neither the chunk of a ring that was there before nor the new one. */
static void write_head(struct vr_trace_file *file, uint8_t *chunk) {
    seal(chunk + VR_TRACE_AT_SEAL, VR_TRACE_VOID_SEAL);
    if (file->slots && file->sequence >= file->slots) {
        memset(chunk + VR_TRACE_AT_SEQUENCE, 0, VR_TRACE_CHUNK_BYTES - VR_TRACE_AT_SEQUENCE);
    }
    put(chunk + VR_TRACE_AT_SEQUENCE, file->sequence, 8);
    put(chunk + VR_TRACE_AT_TIME, file->time_ns, 8);
    put(chunk + VR_TRACE_AT_LIVE_BLOCKS, file->live_blocks, 8);
    put(chunk + VR_TRACE_AT_LIVE_BYTES, file->live_bytes, 8);
    memcpy(chunk, "VRTC", 4);
    seal(chunk + VR_TRACE_AT_SEAL, 0);
}

static bool begin_chunk(struct vr_trace_file *file) {
    uint64_t at = place(file, file->sequence);
    void *pages;
    if (file->chunk) {
        seal_chunk(file);
        drop_chunk(file);
    }
    vram_error before;
    vr_error_save(&before);
    vram_status status =
        file->slots ? VRAM_OK : vr_os_disk_grow(file->fd, at, VR_TRACE_CHUNK_BYTES);
    if (status == VRAM_OK) {
        status = vr_os_disk_map(file->fd, at, VR_TRACE_CHUNK_BYTES, &pages);
    }
    vr_error_restore(&before);
    if (status != VRAM_OK) {
        stop(file, status);
        return false;
    }
    write_head(file, pages);
    file->chunk = pages;
    file->used = VR_TRACE_CHUNK_HEAD;
    file->sequence++;
    return true;
}

uint8_t *vr_trace_file_room(struct vr_trace_file *file, uint32_t bytes, bool *fresh) {
    *fresh = false;
    if (file->stopped != VRAM_OK) {
        return NULL;
    }
    if (!file->chunk || bytes > VR_TRACE_CHUNK_BYTES - file->used) {
        if (!begin_chunk(file)) {
            return NULL;
        }
        *fresh = true;
    }
    return file->chunk + file->used;
}

void vr_trace_file_commit(struct vr_trace_file *file, uint8_t kind, uint32_t bytes) {
    _Atomic(uint8_t) *first = (_Atomic(uint8_t) *)(void *)(file->chunk + file->used);
    vr_store(first, kind, VR_RELEASE);
    file->used += bytes;
}

/* ---------------------------------------------------------- opening, closing */

static void write_header(struct vr_trace_file *file) {
    uint8_t *header = file->header;
    memcpy(header, VR_TRACE_MAGIC, 8);
    put(header + VR_TRACE_AT_VERSION, VR_TRACE_VERSION, 4);
    put(header + VR_TRACE_AT_HEADER_BYTES, file->header_bytes, 4);
    put(header + VR_TRACE_AT_CHUNK_BYTES, VR_TRACE_CHUNK_BYTES, 4);
    put(header + VR_TRACE_AT_SLOTS, file->slots, 4);
    put(header + VR_TRACE_AT_DATE, vr_os_date(), 8);
    put(header + VR_TRACE_AT_PROCESS, vr_os_process_id(), 8);
    put(header + VR_TRACE_AT_CRC, vr_crc32(0, header, VR_TRACE_AT_CRC), 4);
}

static uint32_t slots_of(uint64_t ring_bytes) {
    uint64_t slots = ring_bytes / VR_TRACE_CHUNK_BYTES;
    if (!ring_bytes) {
        return 0;
    }
    slots = slots < VR_TRACE_RING_SLOTS_MIN ? VR_TRACE_RING_SLOTS_MIN : slots;
    return (uint32_t)(slots > VR_TRACE_RING_SLOTS_MAX ? VR_TRACE_RING_SLOTS_MAX : slots);
}

/* A ring takes all its room at once: it will not find the disk full later. */
vram_status vr_trace_file_open(struct vr_trace_file *file, const char *path, uint64_t ring_bytes) {
    void *pages = NULL;
    *file = (struct vr_trace_file){.fd = -1};
    vram_status status = vr_os_disk_open(path, &file->fd);
    if (status != VRAM_OK) {
        file->fd = -1;
        return status;
    }
    file->slots = slots_of(ring_bytes);
    file->header_bytes = (uint32_t)vr_os_page_bytes();
    uint64_t chunks = (uint64_t)file->slots * VR_TRACE_CHUNK_BYTES;
    status = vr_os_disk_grow(file->fd, 0, file->header_bytes + chunks);
    if (status == VRAM_OK) {
        status = vr_os_disk_map(file->fd, 0, file->header_bytes, &pages);
    }
    if (status != VRAM_OK) {
        vr_os_file_close(file->fd);
        file->fd = -1;
        return status;
    }
    file->header = pages;
    write_header(file);
    return VRAM_OK;
}

static void write_end(struct vr_trace_file *file, uint64_t file_bytes) {
    uint8_t *header = file->header;
    put(header + VR_TRACE_AT_EVENTS, file->events, 8);
    put(header + VR_TRACE_AT_LOST, file->lost, 8);
    put(header + VR_TRACE_AT_CHUNKS, file->sequence, 8);
    put(header + VR_TRACE_AT_END_TIME, file->time_ns, 8);
    put(header + VR_TRACE_AT_FILE_BYTES, file_bytes, 8);
    uint64_t crc =
        vr_crc32(0, header + VR_TRACE_AT_EVENTS, VR_TRACE_HEADER_USED - VR_TRACE_AT_EVENTS);
    uint64_t mark = file->stopped == VRAM_OK ? VR_TRACE_ENDED_MARK : VR_TRACE_STOPPED_MARK;
    seal(header + VR_TRACE_AT_END_SEAL, crc << 32 | mark);
}

void vr_trace_file_abandon(struct vr_trace_file *file) {
    if (file->fd >= 0) {
        vr_os_file_close(file->fd);
        file->fd = -1;
    }
}

void vr_trace_file_close(struct vr_trace_file *file) {
    if (file->fd < 0) {
        return;
    }
    vram_error before;
    vr_error_save(&before);
    uint64_t end = file->header_bytes + (uint64_t)file->slots * VR_TRACE_CHUNK_BYTES;
    if (!file->slots && file->sequence) {
        end = place(file, file->sequence - 1) + file->used;
    }
    if (file->chunk) {
        seal_chunk(file);
        drop_chunk(file);
    }
    write_end(file, end);
    (void)vr_os_pages_free(file->header, file->header_bytes);
    if (!file->slots) {
        (void)vr_os_file_resize(file->fd, end);
    }
    vr_trace_file_abandon(file);
    vr_error_restore(&before);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_file.c: see trace_file.h.
 */
#include "track/trace_file.h"

#include "base/error.h"
#include "base/os/os.h"
#include "base/text.h"
#include "track/crc32.h"
#include "track/trace_format.h"

#include <string.h>

enum { PAGE = 4096 };

/* ------------------------------------------------------------------- numbers */

static void number_put(uint8_t *to, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) {
        to[i] = (uint8_t)(value >> 8 * i);
    }
}

/* -------------------------------------------------------------------- chunks */

static uint64_t chunk_offset(const struct vr_trace_file *file, uint64_t sequence) {
    uint64_t slot = file->slots ? sequence % file->slots : sequence;
    return file->header_bytes + slot * VR_TRACE_CHUNK_BYTES;
}

static uint64_t seal_of_chunk(const struct vr_trace_file *file) {
    uint32_t records = file->used - VR_TRACE_CHUNK_HEAD;
    uint32_t crc = vr_crc32(0, file->chunk + VR_TRACE_AT_SEQUENCE,
                            VR_TRACE_CHUNK_HEAD - VR_TRACE_AT_SEQUENCE + records);
    return (uint64_t)crc << 32 | VR_TRACE_CHUNK_MARK | records;
}

static bool write_part(struct vr_trace_file *file, uint32_t from, uint32_t to) {
    return from == to || vr_os_disk_put(file->memory_fd, from, file->target + from, to - from);
}

/* Eight bytes at once: keeps (2). */
static bool write_seal(struct vr_trace_file *file, uint64_t value) {
    number_put(file->memory + VR_TRACE_AT_SEAL, value, 8);
    return write_part(file, VR_TRACE_AT_SEAL, VR_TRACE_AT_SEQUENCE);
}

static bool seal_chunk(struct vr_trace_file *file) {
    if (file->chunk && write_seal(file, seal_of_chunk(file))) {
        file->chunk = NULL;
    }
    return !file->chunk;
}

static void make_head(struct vr_trace_file *file, uint64_t seal) {
    uint8_t *chunk = file->memory;
    memset(chunk, 0, VR_TRACE_CHUNK_BYTES);
    memcpy(chunk, "VRTC", 4);
    number_put(chunk + VR_TRACE_AT_SEAL, seal, 8);
    number_put(chunk + VR_TRACE_AT_SEQUENCE, file->sequence, 8);
    number_put(chunk + VR_TRACE_AT_TIME, file->time_ns, 8);
    number_put(chunk + VR_TRACE_AT_LIVE_BLOCKS, file->live_blocks, 8);
    number_put(chunk + VR_TRACE_AT_LIVE_BYTES, file->live_bytes, 8);
}

/* In a ring, the slot is marked void while it is neither the old chunk nor the new one. */
static bool write_head(struct vr_trace_file *file) {
    if (!file->slots || file->sequence < file->slots) {
        make_head(file, 0);
        return write_part(file, 0, VR_TRACE_CHUNK_HEAD);
    }
    make_head(file, VR_TRACE_VOID_SEAL);
    return write_seal(file, VR_TRACE_VOID_SEAL) && write_part(file, 0, VR_TRACE_CHUNK_BYTES) &&
           write_seal(file, 0);
}

static void drop_target(struct vr_trace_file *file) {
    if (file->target) {
        (void)vr_os_pages_free(file->target, VR_TRACE_CHUNK_BYTES);
        file->target = NULL;
    }
}

/* Keeps (3). */
static bool chunk_allocate(struct vr_trace_file *file) {
    uint64_t at = chunk_offset(file, file->sequence);
    void *pages = NULL;
    vram_error before;
    vr_error_save(&before);
    drop_target(file);
    bool there = file->slots ? vr_os_disk_reaches(file->fd, at + VR_TRACE_CHUNK_BYTES)
                             : vr_os_disk_grow(file->fd, at, VR_TRACE_CHUNK_BYTES) == VRAM_OK;
    there = there && vr_os_disk_map(file->fd, at, VR_TRACE_CHUNK_BYTES, &pages) == VRAM_OK;
    vr_error_restore(&before);
    file->target = pages;
    return there;
}

static bool begin_chunk(struct vr_trace_file *file) {
    if (!seal_chunk(file) || !chunk_allocate(file) || !write_head(file)) {
        file->stopped = VRAM_ERR_IO;
        return false;
    }
    file->chunk = file->memory;
    file->used = file->written = VR_TRACE_CHUNK_HEAD;
    file->sequence++;
    return true;
}

uint8_t *vr_trace_file_reserve(struct vr_trace_file *file, uint32_t bytes, bool *fresh) {
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
    file->chunk[file->used] = kind;
    file->used += bytes;
}

/* Bytes behind the first page are written first: keeps (2). After a failure a part may be in the
   file, so its first byte is set to 0. */
bool vr_trace_file_flush(struct vr_trace_file *file) {
    uint32_t page = file->written - file->written % PAGE + PAGE;
    uint32_t first = file->used < page ? file->used : page;
    if (write_part(file, first, file->used) && write_part(file, file->written, first)) {
        file->written = file->used;
        return true;
    }
    file->chunk[file->written] = 0;
    (void)write_part(file, file->written, file->written + 1);
    file->used = file->written;
    file->stopped = VRAM_ERR_IO;
    return false;
}

/* ---------------------------------------------------------- opening, closing */

static vram_status write_header(struct vr_trace_file *file) {
    uint8_t header[VR_TRACE_HEADER_USED] = {0};
    memcpy(header, VR_TRACE_MAGIC, 8);
    number_put(header + VR_TRACE_AT_VERSION, VR_TRACE_VERSION, 4);
    number_put(header + VR_TRACE_AT_HEADER_BYTES, file->header_bytes, 4);
    number_put(header + VR_TRACE_AT_CHUNK_BYTES, VR_TRACE_CHUNK_BYTES, 4);
    number_put(header + VR_TRACE_AT_SLOTS, file->slots, 4);
    number_put(header + VR_TRACE_AT_DATE, vr_os_date(), 8);
    number_put(header + VR_TRACE_AT_PROCESS, vr_os_process_id(), 8);
    number_put(header + VR_TRACE_AT_CRC, vr_crc32(0, header, VR_TRACE_AT_CRC), 4);
    if (vr_os_file_write(file->fd, 0, header, sizeof header) != VRAM_OK) {
        char why[sizeof((vram_error *)0)->text];
        vr_text_copy(why, sizeof why, vr_error_get()->text);
        return vr_fail(VRAM_ERR_IO, "the trace cannot be written: %s", why);
    }
    return VRAM_OK;
}

static uint32_t slots_of(uint64_t ring_bytes) {
    uint64_t slots = ring_bytes / VR_TRACE_CHUNK_BYTES;
    if (!ring_bytes) {
        return 0;
    }
    slots = slots < VR_TRACE_RING_SLOTS_MIN ? VR_TRACE_RING_SLOTS_MIN : slots;
    return (uint32_t)(slots > VR_TRACE_RING_SLOTS_MAX ? VR_TRACE_RING_SLOTS_MAX : slots);
}

/* Memory for a chunk, which the kernel can copy from. */
static vram_status make_memory(struct vr_trace_file *file) {
    void *pages = NULL;
    vram_status status = vr_os_file_create("vram-trace", &file->memory_fd);
    if (status != VRAM_OK) {
        file->memory_fd = -1;
        return status;
    }
    status = vr_os_file_resize(file->memory_fd, VR_TRACE_CHUNK_BYTES);
    if (status == VRAM_OK) {
        status = vr_os_disk_map(file->memory_fd, 0, VR_TRACE_CHUNK_BYTES, &pages);
        file->memory = pages;
    }
    return status;
}

/* A ring allocates all its disk blocks at once, so the disk cannot be full later. */
static vram_status begin_file(struct vr_trace_file *file, const char *path) {
    uint64_t chunks = (uint64_t)file->slots * VR_TRACE_CHUNK_BYTES;
    vram_status status = vr_os_disk_open(path, &file->fd);
    if (status != VRAM_OK) {
        file->fd = -1;
        return status;
    }
    status = vr_os_disk_grow(file->fd, 0, file->header_bytes + chunks);
    return status == VRAM_OK ? write_header(file) : status;
}

static void drop_memory(struct vr_trace_file *file) {
    drop_target(file);
    if (file->memory) {
        (void)vr_os_pages_free(file->memory, VR_TRACE_CHUNK_BYTES);
    }
    if (file->memory_fd >= 0) {
        vr_os_file_close(file->memory_fd);
    }
    *file = (struct vr_trace_file){.fd = -1, .memory_fd = -1};
}

vram_status vr_trace_file_open(struct vr_trace_file *file, const char *path, uint64_t ring_bytes) {
    *file = (struct vr_trace_file){.fd = -1, .memory_fd = -1};
    file->slots = slots_of(ring_bytes);
    file->header_bytes = (uint32_t)vr_os_page_bytes();
    vram_status status = begin_file(file, path);
    if (status == VRAM_OK) {
        status = make_memory(file);
    }
    if (status != VRAM_OK) {
        if (file->fd >= 0) {
            vr_os_disk_close(file->fd);
        }
        drop_memory(file);
    }
    return status;
}

static void write_end(struct vr_trace_file *file, uint64_t file_bytes) {
    uint8_t end[VR_TRACE_HEADER_USED] = {0}, *from = end + VR_TRACE_AT_EVENTS;
    number_put(end + VR_TRACE_AT_EVENTS, file->events, 8);
    number_put(end + VR_TRACE_AT_LOST, file->lost, 8);
    number_put(end + VR_TRACE_AT_CHUNKS, file->sequence, 8);
    number_put(end + VR_TRACE_AT_END_TIME, file->time_ns, 8);
    number_put(end + VR_TRACE_AT_FILE_BYTES, file_bytes, 8);
    uint64_t crc = vr_crc32(0, from, VR_TRACE_HEADER_USED - VR_TRACE_AT_EVENTS);
    uint64_t mark = file->stopped == VRAM_OK ? VR_TRACE_ENDED_MARK : VR_TRACE_STOPPED_MARK;
    number_put(end + VR_TRACE_AT_END_SEAL, crc << 32 | mark, 8);
    if (vr_os_file_write(file->fd, VR_TRACE_AT_EVENTS, from,
                         VR_TRACE_HEADER_USED - VR_TRACE_AT_EVENTS) == VRAM_OK) {
        (void)vr_os_file_write(file->fd, VR_TRACE_AT_END_SEAL, end + VR_TRACE_AT_END_SEAL, 8);
    }
}

/* A truncated file is left as it is: it may belong to another process now. Without the seal of its
   last chunk the file has no end record, and is read like that of a killed program. */
static void end_file(struct vr_trace_file *file) {
    uint64_t end = file->header_bytes + (uint64_t)file->slots * VR_TRACE_CHUNK_BYTES;
    if (!file->slots && file->sequence) {
        end = chunk_offset(file, file->sequence - 1) + file->used;
    }
    if (vr_os_disk_reaches(file->fd, end) && seal_chunk(file)) {
        drop_target(file);
        write_end(file, end);
        if (!file->slots) {
            (void)vr_os_file_resize(file->fd, end);
        }
    }
}

void vr_trace_file_close(struct vr_trace_file *file) {
    if (file->fd < 0) {
        return;
    }
    vram_error before;
    vr_error_save(&before);
    end_file(file);
    vr_os_disk_close(file->fd);
    drop_memory(file);
    vr_error_restore(&before);
}

/* The child has inherited neither mapping. */
void vr_trace_file_abandon(struct vr_trace_file *file) {
    if (file->fd >= 0) {
        vr_os_disk_abandon(file->fd);
        file->target = file->memory = NULL;
        drop_memory(file);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_file.c: see trace_file.h.
 */
#include "track/trace_file.h"

#include "base/clock.h"
#include "base/delay.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/text.h"
#include "track/crc32.h"
#include "track/trace_format.h"
#include "track/xxh64.h"

#include <assert.h>
#include <string.h>

enum {
    GROW_MAX = 16,    /* chunks that the disk makes room for at once, at most */
    PATIENCE_MS = 100 /* that a thread waits for another one's call to the disk */
};

/* ------------------------------------------------------------------- numbers */

static void number_put(uint8_t *to, uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) {
        to[i] = (uint8_t)(value >> 8 * i);
    }
}

/* Eight bytes of mapped memory at once, behind all that was stored before: keeps (2). */
static void word_store(uint8_t *to, uint64_t value) {
    uint8_t bytes[8];
    uint64_t word;
    assert((uintptr_t)to % 8 == 0);
    number_put(bytes, value, 8);
    memcpy(&word, bytes, 8);
    vr_store((vr_atomic_u64 *)(void *)to, word, VR_RELEASE);
}

/* -------------------------------------------------------------------- places */

static uint64_t slot_offset(const struct vr_trace_file *file, uint64_t slot) {
    return file->header_bytes + slot * VR_TRACE_CHUNK_BYTES;
}

static vram_status file_stop(struct vr_trace_file *file) {
    vr_store(&file->stopped, (uint32_t)-VRAM_ERR_IO, VR_RELAXED);
    return VRAM_ERR_IO;
}

/* Keeps (3). More and more at once, so that few threads wait for the disk. */
static bool file_grow(struct vr_trace_file *file) {
    uint64_t more = file->allocated / 2 + 1, have = file->allocated;
    if (file->sequence < have) {
        return vr_os_disk_reaches(file->fd, slot_offset(file, have));
    }
    more = more < GROW_MAX ? more : GROW_MAX;
    vr_store(&file->growing_since, vr_clock_ticks_ordered() | 1, VR_RELAXED);
    VR_DELAY_POINT("trace growing");
    while (more > 0 && vr_os_disk_grow(file->fd, slot_offset(file, have),
                                       more * VR_TRACE_CHUNK_BYTES) != VRAM_OK) {
        more /= 2;
    }
    vr_store(&file->growing_since, 0, VR_RELAXED);
    file->allocated += more;
    return more > 0;
}

static uint64_t patience_ms = PATIENCE_MS;

void vr_trace_patience_set(uint64_t ms) {
    patience_ms = ms ? ms : PATIENCE_MS;
}

/* Whether a thread has been waiting for the disk for long: keeps (7). */
static bool file_is_slow(const struct vr_trace_file *file) {
    uint64_t since = vr_load(&file->growing_since, VR_RELAXED);
    uint64_t patience = since ? vr_clock_tick_rate() / 1000 * patience_ms : 0;
    while (since && (int64_t)(vr_clock_ticks_ordered() - since - patience) < 0) {
        vr_os_sleep(50000);
        since = vr_load(&file->growing_since, VR_RELAXED);
    }
    return since != 0;
}

/* Keeps (5). There are more slots than shards. */
static uint32_t slot_oldest(const struct vr_trace_file *file) {
    uint32_t oldest = UINT32_MAX;
    for (uint32_t i = 0; i < file->slots; i++) {
        const struct vr_trace_slot *slot = &file->ring[i];
        if (!slot->open && !slot->used) {
            return i;
        }
        if (!slot->open && (oldest == UINT32_MAX || slot->last < file->ring[oldest].last)) {
            oldest = i;
        }
    }
    return oldest;
}

static bool slot_take(struct vr_trace_file *file, struct vr_trace_chunk *chunk) {
    chunk->slot = slot_oldest(file);
    if (chunk->slot == UINT32_MAX ||
        !vr_os_disk_reaches(file->fd, slot_offset(file, file->slots))) {
        return false;
    }
    struct vr_trace_slot *slot = &file->ring[chunk->slot];
    if (slot->used) {
        file->gone.blocks += slot->blocks;
        file->gone.live_bytes += slot->live_bytes;
        file->gone.last = slot->last > file->gone.last ? slot->last : file->gone.last;
        file->gone_chunks++;
    }
    slot->open = true;
    return true;
}

/* -------------------------------------------------------------------- chunks */

uint64_t vr_trace_file_now(const struct vr_trace_file *file) {
    return vr_clock_ticks_ordered() - file->start;
}

/* What the head of a new chunk says. */
struct chunk_head {
    uint64_t begin, gone_chunks;
    struct vr_trace_slot gone;
    bool used; /* its place had a chunk before */
};

/* A number, a place and a begin, not before `after`: keeps (4). */
static bool chunk_reserve(struct vr_trace_file *file, struct vr_trace_chunk *chunk, uint64_t after,
                          struct chunk_head *head) {
    vram_error before;
    vr_error_save(&before);
    vr_mutex_lock(&file->lock);
    bool there = vr_trace_file_stopped(file) == VRAM_OK &&
                 (file->slots ? slot_take(file, chunk) : file_grow(file));
    if (there) {
        uint64_t now = vr_trace_file_now(file);
        now = now > after ? now : after;
        now = now > file->next_begin ? now : file->next_begin;
        file->next_begin = now + 1;
        chunk->sequence = file->sequence++;
        chunk->slot = file->slots ? chunk->slot : (uint32_t)chunk->sequence;
        *head = (struct chunk_head){now, file->gone_chunks, file->gone,
                                    file->slots && file->ring[chunk->slot].used};
    }
    vr_mutex_unlock(&file->lock);
    vr_error_restore(&before);
    return there;
}

/* A ring is mapped already, and its places are used over and over. */
static bool chunk_map(struct vr_trace_file *file, struct vr_trace_chunk *chunk, bool used) {
    uint64_t at = slot_offset(file, chunk->slot);
    void *pages = NULL;
    vram_error before;
    vr_error_save(&before);
    if (file->slots) {
        pages = file->header + at;
    } else if (vr_os_disk_map(file->fd, at, VR_TRACE_CHUNK_BYTES, &pages) != VRAM_OK) {
        pages = NULL;
    }
    vr_error_restore(&before);
    if (pages && !used) {
        vr_os_disk_populate(pages, VR_TRACE_CHUNK_BYTES);
    }
    chunk->bytes = pages;
    return pages != NULL;
}

static void chunk_unmap(const struct vr_trace_file *file, struct vr_trace_chunk *chunk) {
    if (!file->slots) {
        vr_os_disk_unmap(chunk->bytes, VR_TRACE_CHUNK_BYTES);
    }
    chunk->bytes = NULL;
}

/* The place is marked void while it is neither empty, or the old chunk, nor the new one. */
static void head_write(const struct vr_trace_file *file, const struct vr_trace_chunk *chunk,
                       const struct chunk_head *head) {
    uint8_t *to = chunk->bytes;
    word_store(to + VR_TRACE_AT_SEAL, VR_TRACE_VOID_SEAL);
    if (file->slots) {
        memset(to + VR_TRACE_AT_SEQUENCE, 0, VR_TRACE_CHUNK_BYTES - VR_TRACE_AT_SEQUENCE);
    }
    number_put(to + VR_TRACE_AT_SHARD, chunk->shard, 4);
    number_put(to + VR_TRACE_AT_SEQUENCE, chunk->sequence, 8);
    number_put(to + VR_TRACE_AT_BEGIN, head->begin, 8);
    number_put(to + VR_TRACE_AT_GONE_BLOCKS, (uint64_t)head->gone.blocks, 8);
    number_put(to + VR_TRACE_AT_GONE_BYTES, (uint64_t)head->gone.live_bytes, 8);
    number_put(to + VR_TRACE_AT_GONE_UNTIL, head->gone.last, 8);
    number_put(to + VR_TRACE_AT_GONE_CHUNKS, head->gone_chunks, 8);
    memcpy(to, "VRTC", 4);
    word_store(to + VR_TRACE_AT_SEAL, 0);
}

static uint64_t seal_of_chunk(const struct vr_trace_chunk *chunk) {
    uint32_t records = chunk->used - VR_TRACE_CHUNK_HEAD;
    uint64_t sum = vr_xxh64(chunk->bytes + VR_TRACE_AT_SEQUENCE,
                            VR_TRACE_CHUNK_HEAD - VR_TRACE_AT_SEQUENCE + records, chunk->shard);
    return sum << 32 | VR_TRACE_CHUNK_MARK | records;
}

void vr_trace_chunk_end(struct vr_trace_file *file, struct vr_trace_chunk *chunk) {
    if (!chunk->bytes) {
        return;
    }
    word_store(chunk->bytes + VR_TRACE_AT_SEAL, seal_of_chunk(chunk));
    chunk_unmap(file, chunk);
    vr_mutex_lock(&file->lock);
    if (file->slots) {
        file->ring[chunk->slot] = (struct vr_trace_slot){.used = true,
                                                         .last = chunk->last,
                                                         .blocks = chunk->blocks,
                                                         .live_bytes = chunk->live_bytes};
    } else if (chunk->slot >= file->end_slot) {
        file->end_slot = chunk->slot;
        file->end_used = chunk->used;
    }
    vr_mutex_unlock(&file->lock);
}

/* The old chunk is sealed before the new one begins: of each shard only the last is unfinished. */
vram_status vr_trace_chunk_next(struct vr_trace_file *file, uint32_t shard,
                                struct vr_trace_chunk *chunk) {
    struct chunk_head head;
    struct vr_trace_chunk next = {.used = VR_TRACE_CHUNK_HEAD, .shard = shard};
    if (file_is_slow(file)) {
        return VRAM_ERR_BUSY;
    }
    bool there = chunk_reserve(file, &next, chunk->last, &head);
    vr_trace_chunk_end(file, chunk);
    if (!there || !chunk_map(file, &next, head.used)) {
        chunk->used = VR_TRACE_CHUNK_BYTES; /* no space, ever */
        return file_stop(file);
    }
    next.last = head.begin;
    head_write(file, &next, &head);
    *chunk = next;
    vr_fetch_add(&file->chunks, 1, VR_RELAXED);
    word_store(file->header + VR_TRACE_AT_RATE_NOW, vr_clock_tick_rate());
    return VRAM_OK;
}

void vr_trace_chunk_forget(const struct vr_trace_file *file, struct vr_trace_chunk *chunk) {
    if (chunk->bytes && !file->slots) {
        vr_os_disk_forget(chunk->bytes);
    }
    chunk->bytes = NULL;
}

/* Threads may lose events at the same time; the last one to store has seen all. */
void vr_trace_file_lose(struct vr_trace_file *file, uint64_t events) {
    uint64_t sum = vr_fetch_add(&file->lost, events, VR_SEQ_CST) + events, stored;
    do {
        stored = sum;
        word_store(file->header + VR_TRACE_AT_LOST_NOW, stored);
        sum = vr_load(&file->lost, VR_SEQ_CST);
    } while (sum != stored);
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
    number_put(header + VR_TRACE_AT_RATE_NOW, vr_clock_tick_rate(), 8);
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

/* A ring allocates all its disk blocks at once, so the disk cannot be full later. */
static vram_status begin_file(struct vr_trace_file *file, const char *path) {
    uint64_t chunks = (uint64_t)file->slots * VR_TRACE_CHUNK_BYTES;
    void *pages = NULL;
    vram_status status = vr_os_disk_open(path, &file->fd);
    if (status != VRAM_OK) {
        file->fd = -1;
        return status;
    }
    file->mapped_bytes = file->header_bytes + chunks;
    status = vr_os_disk_grow(file->fd, 0, file->mapped_bytes);
    status = status == VRAM_OK ? write_header(file) : status;
    status = status == VRAM_OK ? vr_os_disk_map(file->fd, 0, file->mapped_bytes, &pages) : status;
    file->header = pages;
    return status;
}

static void file_drop(struct vr_trace_file *file) {
    vr_mem_free(file->ring);
    vr_mutex_destroy(&file->lock);
    file->ring = NULL;
    file->header = NULL;
    file->fd = -1;
}

vram_status vr_trace_file_open(struct vr_trace_file *file, const char *path, uint64_t ring_bytes) {
    *file = (struct vr_trace_file){.fd = -1, .slots = slots_of(ring_bytes)};
    file->header_bytes = (uint32_t)vr_os_page_bytes();
    if (file->slots) {
        file->ring = vr_mem_alloc(file->slots, sizeof *file->ring, vr_operation());
        if (!file->ring) {
            return VRAM_ERR_HOST_MEMORY;
        }
    }
    vr_mutex_init(&file->lock, VR_RANK_PLACES);
    vr_clock_ticks_start();
    vram_status status = begin_file(file, path);
    if (status != VRAM_OK) {
        if (file->fd >= 0) {
            vr_os_disk_close(file->fd);
        }
        file_drop(file);
        return status;
    }
    file->start = vr_clock_ticks_ordered();
    return VRAM_OK;
}

static void write_end(struct vr_trace_file *file, const struct vr_trace_end *about,
                      uint64_t file_bytes) {
    uint8_t end[VR_TRACE_HEADER_USED] = {0}, *from = end + VR_TRACE_AT_EVENTS;
    const size_t bytes = VR_TRACE_AT_RATE + 8 - VR_TRACE_AT_EVENTS;
    number_put(end + VR_TRACE_AT_EVENTS, about->events, 8);
    number_put(end + VR_TRACE_AT_LOST, about->lost, 8);
    number_put(end + VR_TRACE_AT_CHUNKS, vr_load(&file->chunks, VR_RELAXED), 8);
    number_put(end + VR_TRACE_AT_END_TIME, about->last, 8);
    number_put(end + VR_TRACE_AT_FILE_BYTES, file_bytes, 8);
    number_put(end + VR_TRACE_AT_RATE, vr_clock_tick_rate(), 8);
    uint64_t crc = vr_crc32(0, from, bytes);
    uint64_t mark =
        vr_trace_file_stopped(file) == VRAM_OK ? VR_TRACE_ENDED_MARK : VR_TRACE_STOPPED_MARK;
    number_put(end + VR_TRACE_AT_END_SEAL, crc << 32 | mark, 8);
    if (vr_os_file_write(file->fd, VR_TRACE_AT_EVENTS, from, bytes) == VRAM_OK) {
        (void)vr_os_file_write(file->fd, VR_TRACE_AT_END_SEAL, end + VR_TRACE_AT_END_SEAL, 8);
    }
}

/* A truncated file is left as it is: it may belong to another process now. */
static void end_file(struct vr_trace_file *file, const struct vr_trace_end *about) {
    uint64_t end = slot_offset(file, file->slots);
    if (file->end_used) {
        end = slot_offset(file, file->end_slot) + file->end_used;
    }
    if (vr_os_disk_reaches(file->fd, end)) {
        write_end(file, about, end);
        if (!file->slots) {
            (void)vr_os_file_resize(file->fd, end);
        }
    }
}

void vr_trace_file_close(struct vr_trace_file *file, const struct vr_trace_end *end) {
    if (file->fd < 0) {
        return;
    }
    vram_error before;
    vr_error_save(&before);
    end_file(file, end);
    vr_os_disk_unmap(file->header, file->mapped_bytes);
    vr_os_disk_close(file->fd);
    file_drop(file);
    vr_error_restore(&before);
}

/* The child has inherited no mapping. */
void vr_trace_file_abandon(struct vr_trace_file *file) {
    if (file->fd >= 0) {
        vr_os_disk_forget(file->header);
        vr_os_disk_abandon(file->fd);
        file_drop(file);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_file.h: the file of a trace: a header and chunks of records.
 *
 *  (1) A chunk is composed in private memory. Every event is copied to the file's pages, which the
 *      kernel owns, before the next: a killed process loses only the event that it was writing. The
 *      kernel does the copying (vr_os_disk_put), so that a file truncated by another process does
 *      not raise SIGBUS.
 *  (2) A record is valid as soon as its first byte is not 0. The kernel finishes a copy within one
 *      page even if the process is killed, so a record within a page is written at once, and the
 *      first page of a longer one is written last. Writing eight bytes seals a chunk or ends the
 *      trace. So a reader finds the old or the new state, whenever the writer died.
 *  (3) Disk blocks are allocated before they are written. If the disk is full, the file was
 *      truncated, or any other call fails, the file is stopped for good: later events are lost and
 *      counted.
 *  (4) Its functions are called by one thread at a time, under the writer's lock. Only
 *      vr_trace_file_open changes the thread's error record.
 */
#ifndef VR_TRACE_FILE_H
#define VR_TRACE_FILE_H

#include "vram/base.h"

struct vr_trace_file {
    int fd; /* -1: not open */
    uint32_t header_bytes;
    uint32_t slots;        /* of a ring; 0: the file grows */
    int memory_fd;         /* a memory file of one chunk, */
    uint8_t *memory;       /* and its pages */
    uint8_t *chunk;        /* the one being written: `memory`; NULL: none yet, or it is sealed */
    uint8_t *target;       /* its pages of the file, accessed only by vr_os_disk_put; see (1) */
    uint32_t used;         /* bytes used in it, */
    uint32_t written;      /* and bytes of it that are in the file */
    uint64_t sequence;     /* chunks begun */
    uint64_t events, lost; /* written and not */
    uint64_t live_blocks, live_bytes; /* of all pools, for the heads of chunks */
    uint64_t time_ns;                 /* of the last record */
    vram_status stopped;              /* why nothing more is written; VRAM_OK: it is not stopped */
};

/* Creates the file. ring_bytes 0: it grows; otherwise it keeps about the last ring_bytes. After a
   failure there is nothing to close. */
vram_status vr_trace_file_open(struct vr_trace_file *file, const char *path, uint64_t ring_bytes);

/* Space for `bytes` bytes, at most VR_TRACE_RESERVE_MAX, in a chunk. *fresh: it is a new chunk,
   without definitions. NULL: the file is stopped. */
#define VR_TRACE_RESERVE_MAX (VR_TRACE_CHUNK_BYTES - VR_TRACE_CHUNK_HEAD)
uint8_t *vr_trace_file_reserve(struct vr_trace_file *file, uint32_t bytes, bool *fresh);

/* Commits a record of `bytes` bytes at the start of the reserved space. Everything except its first
   byte, `kind`, is written already. */
void vr_trace_file_commit(struct vr_trace_file *file, uint8_t kind, uint32_t bytes);

/* Writes what was committed. Keeps (1) and (2). False: none of it is valid, and the file is
   stopped. */
bool vr_trace_file_flush(struct vr_trace_file *file);

/* Seals, writes the end into the header, truncates unused space, and closes. Accepts a file that
   was never opened. */
void vr_trace_file_close(struct vr_trace_file *file);

/* Closes without writing: the file belongs to the parent process. */
void vr_trace_file_abandon(struct vr_trace_file *file);

#endif

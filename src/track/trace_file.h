/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_file.h: the file under a trace: a header and chunks of records.
 *
 *  (1) A chunk is composed in private memory. Every event is copied to the file's pages, which the
 *      kernel owns, before the next: a killed process loses only the event that it was writing. The
 *      kernel does the copying (vr_os_disk_put), so that a file truncated by another process does
 *      not raise SIGBUS.
 *  (2) A record counts from the moment its first byte is not 0. The kernel finishes a copy within
 *      one page even if the process is killed, so a record within a page is written at once, and
 *      the first page of a longer one is written last. A chunk is sealed, and the trace ended, by
 *      writing eight bytes. So a reader finds the old or the new state, whenever the writer died.
 *  (3) Disk blocks are allocated before they are written. If there are none, the file was
 *      truncated, or any other call fails, the file is stopped for good: later events are lost and
 *      counted.
 *  (4) Its functions are called by one thread at a time: the writer's lock sees to that. No
 *      function touches the thread's error record but vr_trace_file_open.
 */
#ifndef VR_TRACE_FILE_H
#define VR_TRACE_FILE_H

#include "vram/base.h"

struct vr_trace_file {
    int fd; /* -1: not open */
    uint32_t header_bytes;
    uint32_t slots;        /* of a ring; 0: the file grows */
    int memory_fd;         /* a file in memory, of one chunk, */
    uint8_t *memory;       /* and its pages */
    uint8_t *chunk;        /* the one being written: `memory`; NULL: none yet, or it is sealed */
    uint8_t *target;       /* its pages of the file, accessed only by vr_os_disk_put; see (1) */
    uint32_t used;         /* bytes of it, */
    uint32_t written;      /* and those that the file has */
    uint64_t sequence;     /* chunks that were begun */
    uint64_t events, lost; /* written and not */
    uint64_t live_blocks, live_bytes; /* of all pools, for the heads of chunks */
    uint64_t time_ns;                 /* of the last record */
    vram_status stopped;              /* why nothing more is written; VRAM_OK: it is not */
};

/* Makes the file. ring_bytes 0: it grows; else it keeps about that many, the last ones. On failure
   there is nothing to close. */
vram_status vr_trace_file_open(struct vr_trace_file *file, const char *path, uint64_t ring_bytes);

/* Room for `bytes` bytes, at most VR_TRACE_ROOM_MAX, in a chunk. *fresh: it is a new chunk, in
   which nothing is defined. NULL: the file is stopped. */
#define VR_TRACE_ROOM_MAX (VR_TRACE_CHUNK_BYTES - VR_TRACE_CHUNK_HEAD)
uint8_t *vr_trace_file_room(struct vr_trace_file *file, uint32_t bytes, bool *fresh);

/* A record was put at the front of the room, all but its first byte, which is `kind`. */
void vr_trace_file_commit(struct vr_trace_file *file, uint8_t kind, uint32_t bytes);

/* Writes what was committed. Keeps (1) and (2). False: none of it counts, and the file is
   stopped. */
bool vr_trace_file_flush(struct vr_trace_file *file);

/* Seals, writes the end into the header, cuts off what was not used, and closes. Fine for one that
   was never opened. */
void vr_trace_file_close(struct vr_trace_file *file);

/* Closes without writing: the file belongs to the parent process. */
void vr_trace_file_abandon(struct vr_trace_file *file);

#endif

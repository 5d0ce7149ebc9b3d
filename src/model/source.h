/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source.h: the bytes of a file that is not trusted, read from its start to its end through a
 * window of 64 KiB; or bytes in memory, for those who test readers.
 */
#ifndef VR_SOURCE_H
#define VR_SOURCE_H

#include "vram/base.h"

#define VR_PATH_MAX 4096

struct vr_source {
    uint64_t bytes; /* of the file */
    uint64_t at;    /* the cursor, at most `bytes` */
    const uint8_t *memory;
    int fd; /* -1: none */
    uint8_t *window;
    uint64_t window_at, window_bytes;
    const char *path; /* for error texts; borrowed */
};

/* Opens a plain file. VRAM_ERR_INVALID and *folder where it is a folder (`folder` may be NULL),
   VRAM_ERR_IO where it cannot be read. On VRAM_OK vr_source_close is due. */
vram_status vr_source_open(struct vr_source *source, const char *path, bool *folder);
void vr_source_memory(struct vr_source *source, const void *data, size_t bytes);
void vr_source_close(struct vr_source *source);

/* The file's name without its folders. */
const char *vr_source_name(const struct vr_source *source);

/* Takes the next bytes; little-endian numbers. VRAM_ERR_CORRUPT, "is cut off", past the end. */
vram_status vr_source_take(struct vr_source *source, void *to, size_t bytes);
vram_status vr_source_u32(struct vr_source *source, uint32_t *value);
vram_status vr_source_u64(struct vr_source *source, uint64_t *value);
/* Passes over bytes without reading them. */
vram_status vr_source_skip(struct vr_source *source, uint64_t bytes);

/* The next `bytes` bytes in memory of their own, for vr_mem_free; checked against the file
   first. */
vram_status vr_source_text(struct vr_source *source, uint64_t bytes, char **text);

/* Says what is wrong with the file, and where: "NAME: TEXT". */
vram_status vr_source_bad(const struct vr_source *source, vram_status status, const char *format,
                          ...) __attribute__((format(printf, 3, 4)));

#endif

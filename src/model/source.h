/* SPDX-License-Identifier: Apache-2.0 */
/*
 * source.h: the bytes of an untrusted file, read from start to end through a window of 64 KiB; or
 * bytes in memory, for tests of readers.
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

/* Opens a plain file. VRAM_ERR_INVALID and *folder if it is a folder (`folder` may be NULL),
   VRAM_ERR_IO if it cannot be read. After VRAM_OK the caller calls vr_source_close. */
vram_status vr_source_open(struct vr_source *source, const char *path, bool *folder);
void vr_source_memory(struct vr_source *source, const void *data, size_t bytes);
void vr_source_close(struct vr_source *source);

/* The file's name without its folders. */
const char *vr_source_name(const struct vr_source *source);

/* Takes the next bytes; little-endian numbers. VRAM_ERR_CORRUPT, "is truncated", past the end. */
vram_status vr_source_take(struct vr_source *source, void *to, size_t bytes);
vram_status vr_source_u32(struct vr_source *source, uint32_t *value);
vram_status vr_source_u64(struct vr_source *source, uint64_t *value);
/* Skips bytes without reading them. */
vram_status vr_source_skip(struct vr_source *source, uint64_t bytes);

/* Copies the next `bytes` bytes to new memory, for vr_mem_free; checks the length of the file
   first. */
vram_status vr_source_text(struct vr_source *source, uint64_t bytes, char **text);

/* Records what is wrong with the file: "NAME: TEXT". */
vram_status vr_source_bad(const struct vr_source *source, vram_status status, const char *format,
                          ...) __attribute__((format(printf, 3, 4)));

#endif

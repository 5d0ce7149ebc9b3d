/* SPDX-License-Identifier: Apache-2.0 */
/* source.c: see source.h. */
#include "model/source.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>

enum { WINDOW_BYTES = 64 * 1024 };

vram_status vr_source_open(struct vr_source *source, const char *path, bool *folder) {
    *source = (struct vr_source){.fd = -1, .path = path};
    if (folder) {
        *folder = false;
    }
    vram_status status = vr_os_disk_read_open(path, &source->fd, &source->bytes);
    if (status != VRAM_OK) {
        struct vram_error error;
        vr_error_save(&error);
        bool is_folder = status == VRAM_ERR_INVALID && error.native_code == EISDIR;
        if (folder) {
            *folder = is_folder;
        }
        return vr_error_set(status, "os", vr_operation(), error.native_code, "%.120s: %s", path,
                            is_folder                     ? "this is a folder"
                            : status == VRAM_ERR_INVALID  ? "this is not a plain file"
                            : error.native_code == ENOENT ? "there is no such file"
                            : error.native_code == EACCES ? "permission denied"
                                                          : "the file cannot be opened");
    }
    source->window = vr_mem_alloc(1, WINDOW_BYTES, vr_operation());
    if (!source->window) {
        vr_source_close(source);
        return VRAM_ERR_HOST_MEMORY;
    }
    return VRAM_OK;
}

void vr_source_memory(struct vr_source *source, const void *data, size_t bytes) {
    *source = (struct vr_source){.bytes = bytes, .memory = data, .fd = -1, .path = "memory"};
}

void vr_source_close(struct vr_source *source) {
    if (source->fd >= 0) {
        vr_os_file_close(source->fd);
    }
    vr_mem_free(source->window);
    source->fd = -1;
    source->window = NULL;
}

const char *vr_source_name(const struct vr_source *source) {
    const char *slash = strrchr(source->path, '/');
    return slash && slash[1] ? slash + 1 : source->path;
}

vram_status vr_source_bad(const struct vr_source *source, vram_status status, const char *format,
                          ...) {
    char text[VRAM_ERROR_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vr_text_format_list(text, sizeof text, format, arguments);
    va_end(arguments);
    return vr_fail(status, "%.80s: %s", vr_source_name(source), text);
}

static vram_status cut_off(const struct vr_source *source, uint64_t bytes) {
    return vr_source_bad(source, VRAM_ERR_CORRUPT,
                         "the file is truncated: %llu bytes are needed at offset %llu of %llu",
                         (unsigned long long)bytes, (unsigned long long)source->at,
                         (unsigned long long)source->bytes);
}

/* Reads from the file itself. If it has shrunk meanwhile, that is an I/O error. */
static vram_status read_at(struct vr_source *source, uint64_t at, void *to, uint64_t bytes) {
    vram_status status = vr_os_file_read(source->fd, at, to, bytes);
    return status == VRAM_OK
               ? status
               : vr_source_bad(source, status, "the file cannot be read at offset %llu",
                               (unsigned long long)at);
}

vram_status vr_source_take(struct vr_source *source, void *to, size_t bytes) {
    if (bytes > source->bytes - source->at) {
        return cut_off(source, bytes);
    }
    uint8_t *out = to;
    while (bytes > 0) {
        if (source->memory) {
            memcpy(out, source->memory + source->at, bytes);
            source->at += bytes;
            return VRAM_OK;
        }
        uint64_t inside = source->at - source->window_at;
        if (inside >= source->window_bytes) { /* `at` only grows, and the window with it */
            uint64_t left = source->bytes - source->at;
            uint64_t wanted = left < WINDOW_BYTES ? left : WINDOW_BYTES;
            vram_status status = read_at(source, source->at, source->window, wanted);
            if (status != VRAM_OK) {
                source->window_bytes = 0;
                return status;
            }
            source->window_at = source->at;
            source->window_bytes = wanted;
            inside = 0;
        }
        uint64_t ready = source->window_bytes - inside;
        size_t part = ready < bytes ? (size_t)ready : bytes;
        memcpy(out, source->window + inside, part);
        out += part;
        source->at += part;
        bytes -= part;
    }
    return VRAM_OK;
}

static vram_status take_number(struct vr_source *source, unsigned bytes, uint64_t *value) {
    uint8_t raw[8] = {0};
    vram_status status = vr_source_take(source, raw, bytes);
    if (status == VRAM_OK) {
        *value = 0;
        for (unsigned i = 0; i < bytes; i++) {
            *value |= (uint64_t)raw[i] << 8 * i;
        }
    }
    return status;
}

vram_status vr_source_u32(struct vr_source *source, uint32_t *value) {
    uint64_t wide;
    vram_status status = take_number(source, 4, &wide);
    if (status == VRAM_OK) {
        *value = (uint32_t)wide;
    }
    return status;
}

vram_status vr_source_u64(struct vr_source *source, uint64_t *value) {
    return take_number(source, 8, value);
}

vram_status vr_source_skip(struct vr_source *source, uint64_t bytes) {
    if (bytes > source->bytes - source->at) {
        return cut_off(source, bytes);
    }
    source->at += bytes;
    return VRAM_OK;
}

vram_status vr_source_text(struct vr_source *source, uint64_t bytes, char **text) {
    if (bytes > source->bytes - source->at) {
        return cut_off(source, bytes);
    }
    char *got = vr_mem_alloc(bytes ? (size_t)bytes : 1, 1, vr_operation());
    if (!got) {
        return VRAM_ERR_HOST_MEMORY;
    }
    vram_status status = VRAM_OK;
    if (source->memory) {
        memcpy(got, source->memory + source->at, (size_t)bytes);
    } else {
        status = read_at(source, source->at, got, bytes);
    }
    if (status != VRAM_OK) {
        vr_mem_free(got);
        return status;
    }
    source->at += bytes;
    *text = got;
    return VRAM_OK;
}

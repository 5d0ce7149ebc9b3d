/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_image.c: writes a page's image to its file. See page_image.h.
 *
 * The file is written, not mapped: whoever truncates it cannot raise SIGBUS here, and what was cut
 * is there again with the next update.
 */
#include "core/live/page_image.h"

#include "base/os/os.h"
#include "base/text.h"

#include <stddef.h>
#include <string.h>

#define FIELD_END(field) (offsetof(vram_live_page, field) + sizeof(((vram_live_page *)0)->field))

static vram_status part_write(const struct vr_page_image *image, int fd, size_t from, size_t to) {
    return vr_os_file_write(fd, from, (const char *)image + from, to - from);
}

/* Everything but the magic, which comes last, and the sequence. */
static vram_status constants_write(struct vr_page_image *image, int fd) {
    vram_status status = part_write(image, fd, FIELD_END(magic), FIELD_END(answer));
    __sync_synchronize();
    return status == VRAM_OK ? part_write(image, fd, 0, FIELD_END(magic)) : status;
}

vram_status vr_page_image_create(struct vr_page_image *image, struct vr_page_file *file,
                                 uint64_t interval_ns) {
    int fd;
    image->head = (vram_live_page){
        .magic = VRAM_LIVE_PAGE_MAGIC,
        .version = VRAM_LIVE_PAGE_VERSION,
        .page_bytes = sizeof *image,
        .pid = file->process.pid,
        .start_ticks = file->process.start_ticks,
        .pid_space = file->process.pid_space,
        .user = file->process.user,
        .begun_ns = vr_os_now(),
        .interval_ns = interval_ns,
        .origin = VRAM_LIVE_PAGE_LIBRARY,
        .library = VRAM_VERSION_TEXT,
    };
    vr_os_command_line(image->head.command, sizeof image->head.command);
    vr_text_clean(image->head.command);
    vram_status status = vr_page_file_create(file, sizeof *image);
    if (status != VRAM_OK || (status = vr_page_file_open(file, &fd)) != VRAM_OK) {
        return status;
    }
    status = constants_write(image, fd);
    vr_os_file_close(fd);
    return status;
}

static vram_status sequence_write(struct vr_page_image *image, int fd, uint64_t sequence) {
    image->head.sequence = sequence;
    __sync_synchronize();
    vram_status status =
        part_write(image, fd, offsetof(vram_live_page, sequence), FIELD_END(sequence));
    __sync_synchronize();
    return status;
}

/* Puts the rows that are in use behind the head, one table after the other: a page with few of them
   is short, and written at once. Returns its bytes. */
static size_t image_pack(const struct vr_page_image *image, struct vr_page_image *packed) {
    vram_live_page_table *tables = &packed->head.devices;
    size_t end = sizeof image->head;
    packed->head = image->head;
    for (int i = 0; i < 4; i++) {
        size_t bytes = (size_t)tables[i].count * tables[i].stride;
        memcpy((char *)packed + end, (const char *)image + tables[i].offset, bytes);
        tables[i].offset = (uint32_t)end;
        end += bytes;
    }
    return end;
}

/* Rule (2) of the layout: the sequence is odd while the rest changes. */
static vram_status changes_write(struct vr_page_image *image, struct vr_page_image *packed,
                                 int fd) {
    uint64_t sequence = image->head.sequence;
    size_t end = image_pack(image, packed);
    vram_status status = sequence_write(image, fd, sequence + 1);
    if (status == VRAM_OK) {
        status = part_write(packed, fd, FIELD_END(sequence), end);
    }
    /* After a failure it stays odd: readers take the page as busy. */
    return status == VRAM_OK ? sequence_write(image, fd, sequence + 2) : status;
}

vram_status vr_page_image_write(struct vr_page_image *image, struct vr_page_image *packed,
                                const struct vr_page_file *file, uint32_t *request) {
    int fd;
    vram_status status = vr_page_file_open(file, &fd);
    if (status != VRAM_OK) {
        return status;
    }
    status = vr_os_file_read(fd, offsetof(vram_live_page, request), request, sizeof *request);
    if (status == VRAM_OK && *request != image->head.answer) {
        image->head.answer = *request;
        status = part_write(image, fd, offsetof(vram_live_page, answer), FIELD_END(answer));
    } else {
        *request = 0;
    }
    status = status == VRAM_OK ? changes_write(image, packed, fd) : status;
    vr_os_file_close(fd);
    return status;
}

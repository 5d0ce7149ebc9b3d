/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page_image.h: writes a page's image to its file, so that a reader sees all of it or none.
 */
#ifndef VR_PAGE_IMAGE_H
#define VR_PAGE_IMAGE_H

#include "base/os/page_file.h"
#include "core/live/page_rows.h"

/* Creates the file, and writes the constant part of the page. */
vram_status vr_page_image_create(struct vr_page_image *image, struct vr_page_file *file,
                                 uint64_t interval_ns);
/* Writes the rest; `packed` is memory to work with. *request is the number that a reader has
   written; 0: none. VRAM_ERR_STALE if the file was removed or cut. */
vram_status vr_page_image_write(struct vr_page_image *image, struct vr_page_image *packed,
                                const struct vr_page_file *file, uint32_t *request);

#endif

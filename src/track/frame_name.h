/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame_name.h: frames of stacks that have no address, but a name, each stored once.
 */
#ifndef VR_FRAME_NAME_H
#define VR_FRAME_NAME_H

#include <stdint.h>

enum {
    VR_FRAME_TEXT = 256,          /* bytes of the text of any frame, the final 0 included */
    VR_FRAME_NAMES_MOST = 1 << 17 /* keys and texts */
};

/* The frame with that name, whatever key it was added with before; from now on `key` finds it. 0:
   memory ran out, or there are too many. Valid until the process ends. */
uint64_t vr_frame_name_add(uint64_t key, const char *text);
/* The frame that was added with that key; 0: none was. */
uint64_t vr_frame_name_find(uint64_t key);
/* The name of such a frame; NULL: it is an address. */
const char *vr_frame_name(uint64_t frame);

/* For tests: discards all names. */
void vr_frame_names_reset(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_frames.h: the frames of a stack and their names, without the cost that dladdr has in large
 * libraries: it looks at every symbol, which takes milliseconds in those of PyTorch.
 */
#ifndef RUN_FRAMES_H
#define RUN_FRAMES_H

#include <stddef.h>
#include <stdint.h>

/* As vr_stack_frames (track/stack.h): without the leading frames of this library. */
uint32_t run_frames(uint32_t stack, uint64_t *frames, uint32_t capacity);

/* As vr_frame_text; `text` has VR_FRAME_TEXT bytes. Of a library with many symbols only exported
   functions are named, and no lines. */
void run_frame_text(uint64_t frame, char *text);

/* File name, without its folder, of the module at a return address, for Python code of the
   interpreter's; NULL: unknown. */
const char *run_frame_module(uint64_t frame);

#endif

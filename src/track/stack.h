/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack.h: call stacks, each stored once and referred to by a number.
 *
 *  (1) A number is valid until the process ends; 0 is no stack. There are at most VR_STACKS_MOST:
 *      after that, and if memory ran out, new ones are 0.
 *  (2) Only addresses are stored. Their names are looked up when a stack is printed. Frames of an
 *      interpreter (python_stack.h) have a name alone (frame_name.h).
 *  (3) A thread that executes Python has the Python code's frames in place of the interpreter's and
 *      all beyond: as a traceback has them.
 */
#ifndef VR_STACK_H
#define VR_STACK_H

#include "base/os/os.h"
#include "track/frame_name.h"

enum {
    VR_STACK_NATIVE = 32, /* return addresses, some of them the library's own */
    VR_STACK_PYTHON = 32,
    VR_STACK_DEPTH = VR_STACK_NATIVE + VR_STACK_PYTHON,
    VR_STACKS_MOST = 1 << 16
};

/* The number of the calling thread's stack. Not inside caches, no lock held. */
uint32_t vr_stack_take(void);

/* The same for every n-th call of a thread, else 0. `every` 0: never. */
uint32_t vr_stack_sample(uint32_t every);

/* Its frames, innermost first, without the leading ones of this library; returns their number. */
uint32_t vr_stack_frames(uint32_t stack, uint64_t frames[VR_STACK_DEPTH]);

/* All its frames, those of this library too, at most `capacity`. */
uint32_t vr_stack_all(uint32_t stack, uint64_t *frames, uint32_t capacity);

/* "function+0x1f (main.c:42, module+0x2a3f)", or the known parts of it; always terminated. */
void vr_frame_text(uint64_t frame, char text[VR_FRAME_TEXT]);

/* For tests: discards all stacks. */
void vr_stacks_reset(void);

#endif

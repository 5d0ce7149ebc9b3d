/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack.h: call stacks, each stored once and referred to by a number.
 *
 *  (1) A number is valid until the process ends; 0 is no stack. There are at most VR_STACKS_MOST:
 *      after that, and if memory ran out, new ones are 0.
 *  (2) Only addresses are stored. Their names are looked up when a stack is printed.
 */
#ifndef VR_STACK_H
#define VR_STACK_H

#include "base/os/os.h"

enum { VR_STACK_DEPTH = 24, VR_STACKS_MOST = 1 << 16 };

/* The number of the calling thread's stack. Not inside caches, no lock held. */
uint32_t vr_stack_take(void);

/* The same for every n-th call of a thread, else 0. `every` 0: never. */
uint32_t vr_stack_sample(uint32_t every);

/* Its frames, innermost first, without the leading ones of this library; returns their number. */
uint32_t vr_stack_frames(uint32_t stack, uint64_t frames[VR_STACK_DEPTH]);

/* All its frames, those of this library too, at most `capacity`. */
uint32_t vr_stack_all(uint32_t stack, uint64_t *frames, uint32_t capacity);

/* "function+0x1f (main.c:42, module+0x2a3f)", or the known parts of it; always terminated. */
enum { VR_FRAME_TEXT = 256 };
void vr_frame_text(uint64_t frame, char text[VR_FRAME_TEXT]);

/* For tests: discards all stacks. */
void vr_stacks_reset(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack.h: call stacks, each kept once and called by a number.
 *
 *  (1) A number is good until the process ends; 0 is no stack. There are at most VR_STACKS_MOST:
 *      after that, and without memory, new ones are 0.
 *  (2) Only addresses are kept. What they are called is looked up when somebody prints them.
 */
#ifndef VR_STACK_H
#define VR_STACK_H

#include "base/os/os.h"

enum { VR_STACK_DEPTH = 24, VR_STACKS_MOST = 1 << 16 };

/* The number of the calling thread's stack. Not inside caches, no lock held. */
uint32_t vr_stack_take(void);

/* The same of every n-th call of a thread, else 0; 0: never. */
uint32_t vr_stack_sample(uint32_t every);

/* Its frames, innermost first, without those of this library in front; how many. */
uint32_t vr_stack_frames(uint32_t stack, uint64_t frames[VR_STACK_DEPTH]);

/* "function+0x1f (module+0x2a3f)" or what of it is known; always terminated. */
enum { VR_FRAME_TEXT = 256 };
void vr_frame_text(uint64_t frame, char text[VR_FRAME_TEXT]);

/* Tests: forgets all. */
void vr_stacks_reset(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_stack.h: the number of the calling thread's stack, cheaply when the same code asks again.
 */
#ifndef RUN_STACK_H
#define RUN_STACK_H

#include <stdint.h>

/* As vr_stack_take (track/stack.h). */
uint32_t run_stack_take(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * python_stack.h: the frames of the Python code that the calling thread executes.
 */
#ifndef VR_PYTHON_STACK_H
#define VR_PYTHON_STACK_H

#include "track/python_layout.h"

/* The frames, the innermost first, as frame_name.h has them; returns their number. 0: the
   thread executes none, or they cannot be read with certainty. Sets errno. */
uint32_t vr_python_frames(const struct vr_python *python, uint64_t *frames, uint32_t capacity);

#endif

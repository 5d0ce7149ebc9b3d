/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_forces.h: the kernel of examples/forces for drivers that know kernels by name: its own text,
 * compiled as C. Arguments: positions, velocities, forces, offsets, edges, cells, result, count,
 * bits, stage.
 */
#ifndef FAKE_FORCES_H
#define FAKE_FORCES_H

#define FORCES_CODE(...) __VA_ARGS__
#define FORCES_FN        static
#define FORCES_GLOBAL
#define FORCES_ADD(p, v) (*(p) += (v)) /* items run one after the other here */
#include "../examples/forces/forces_body.h"

static inline void fake_forces_run(void *const pointers[7], unsigned items, unsigned count,
                                   unsigned bits, unsigned stage) {
    for (unsigned i = 0; i < items && i < count; i++) {
        forces_stage(i, pointers[0], pointers[1], pointers[2], pointers[3], pointers[4],
                     pointers[5], pointers[6], bits, stage);
    }
}

#endif

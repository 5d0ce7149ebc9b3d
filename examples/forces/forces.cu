/* SPDX-License-Identifier: Apache-2.0 */
/* forces.cu: a step of the layout for CUDA. tools/ptx compiles it into generated/forces_ptx.h. */
#define FORCES_CODE(...) __VA_ARGS__
#define FORCES_FN static __device__
#define FORCES_GLOBAL
#define FORCES_ADD(p, v) atomicAdd(p, v)
#include "forces_body.h"

extern "C" __global__ void forces(int *positions, int *velocities, int *forces,
                                  const unsigned *offsets, const unsigned *edges, unsigned *cells,
                                  unsigned *result, unsigned count, unsigned bits, unsigned stage) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        forces_stage(i, positions, velocities, forces, offsets, edges, cells, result, bits, stage);
    }
}

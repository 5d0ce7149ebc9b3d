/* SPDX-License-Identifier: Apache-2.0 */
/* growth_state.h: a buffer's growth policy and counters; guarded by the buffer's lock. */
#ifndef VR_GROWTH_STATE_H
#define VR_GROWTH_STATE_H

#include "mem/mem_calls.h"

struct vr_growth_state {
    struct vram_growth growth; /* its policy */
    uint64_t in_place, copies, copied_bytes, refusals;
};

/* Bytes of one element of a buffer with that policy, which was read. */
static inline uint32_t vr_element_bytes(const struct vram_growth *growth,
                                        vram_precision precision) {
    return growth->element_bytes ? growth->element_bytes : vr_precision_bytes(precision);
}

/* Reads a policy of the program's; NULL: EXACT. VRAM_ERR_INVALID: the policy is invalid. */
vram_status vr_growth_take(const struct vram_growth *given, struct vram_growth *growth);

/* Reads a policy for a buffer that is created with `bytes` in use, and computes its first capacity.
   VRAM_ERR_LIMIT: more than its maximum. */
vram_status vr_growth_first(const struct vram_growth *given, uint64_t bytes,
                            struct vram_growth *growth, uint64_t *capacity);

/* vram_growth_next of a policy that was read; its size field is not checked. */
vram_status vr_growth_next(const struct vram_growth *growth, uint64_t capacity, uint64_t needed,
                           uint64_t *bytes);

#endif

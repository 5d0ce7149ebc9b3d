/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rates.h: how long copies from and to ordinary memory kept their callers, the driver's way and
 * through staging, by direction and size; and which way the next copy takes.
 *
 * What is measured is the time inside the call, which staging is there to shorten. A driver that
 * accepts pageable memory and returns at once cannot be improved on; one that copies it piece by
 * piece on one thread can.
 *
 *  (1) Sizes fall into classes, a factor of four each. The first copies of a class go through
 *      staging, the next ones the driver's way, and after that the faster way is chosen. One in 64
 *      tries the other way again; staging is at first tried one time in 8.
 *  (2) A copy larger than TRY_BYTES is never a trial: it uses what smaller ones have shown.
 *  (3) A way is judged by the median of its last eight copies: that is what its callers get. Until
 *      it has made sixteen it is judged by the fastest of the last eight, because the first copies
 *      allocate slots and start threads, which takes many times as long as a copy.
 *  (4) The chosen way stays chosen until the other is faster by 1/32: two similar ways do
 *      not alternate.
 *
 * Numbers are kept without a lock: two threads that record at once may lose a sample, which does no
 * harm.
 */
#ifndef VR_RATES_H
#define VR_RATES_H

#include "base/atomic.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    VR_RATE_CLASSES = 10, /* below 16 KiB, 64 KiB, 256 KiB ... and all above 1 GiB */
    VR_RATE_WINDOW = 8    /* samples that count: (3) */
};

/* One way and class; ns per MiB. */
struct vr_rate {
    vr_atomic_u64 recent[VR_RATE_WINDOW]; /* the last samples */
    vr_atomic_u64 typical;                /* of these: (3); 0: none yet */
    vr_atomic_u64 samples;                /* recorded */
};

struct vr_rates {
    struct vr_rate cells[2][2][VR_RATE_CLASSES]; /* [to the host][staged][class] */
    vr_atomic_u64 asked[2][VR_RATE_CLASSES];     /* choices made */
    vr_atomic_bool plain[2][VR_RATE_CLASSES];    /* the driver's way was faster: (4) */
};

/* Whether a copy of `bytes`, to the host or from it, is to be staged. */
bool vr_rates_choose(struct vr_rates *rates, bool to_host, uint64_t bytes);
/* Records how long a copy kept its caller. */
void vr_rates_note(struct vr_rates *rates, bool to_host, bool staged, uint64_t bytes, uint64_t ns);

#endif

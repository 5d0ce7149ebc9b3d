/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rates.h: how long copies from and to ordinary memory kept their callers, the driver's way and
 * through staging, by direction and size; and which way the next one goes.
 *
 * What counts is the time inside the call, since that is what staging is for: a driver that takes
 * pageable memory and returns at once is as good as it gets, one that copies it piece by piece on
 * one thread is not.
 *
 *  (1) Sizes fall into classes, a factor of four each. The first copies of a class go through
 *      staging, the next ones the driver's way, and from then on the quicker way is taken; one in
 *      64 tries the other again, and staging at first one in 8.
 *  (2) A copy that is larger than TRY_BYTES is never a trial: it goes by what smaller ones have
 *      shown.
 *  (3) A way is judged by its quickest copy of the last few, not by their mean: the first copies
 *      make slots and start threads, which takes many times as long as a copy, and a machine is
 *      disturbed to one side only. What is known wears out: of a way that got slower the old best
 *      is gone after two windows.
 *  (4) The way that is taken stays taken until the other is quicker by a sixteenth: two that are
 *      alike do not alternate.
 *
 * Numbers are kept without a lock: two threads that note at once may lose a sample, which changes
 * nothing.
 */
#ifndef VR_RATES_H
#define VR_RATES_H

#include "base/atomic.h"

#include <stdbool.h>
#include <stdint.h>

enum { VR_RATE_CLASSES = 10 }; /* below 16 KiB, 64 KiB, 256 KiB ... and all above 1 GiB */

/* Of one way and class; ns for a MiB, 0: none yet. */
struct vr_rate {
    vr_atomic_u64 best;    /* of this window of samples, */
    vr_atomic_u64 before;  /* and of the one before it */
    vr_atomic_u64 samples; /* noted */
};

struct vr_rates {
    struct vr_rate cells[2][2][VR_RATE_CLASSES]; /* [to the host][staged][class] */
    vr_atomic_u64 asked[2][VR_RATE_CLASSES];     /* choices made */
    vr_atomic_bool plain[2][VR_RATE_CLASSES];    /* the driver's way was the quicker one: (4) */
};

/* Whether a copy of so many bytes, to the host or from it, is to be staged. */
bool vr_rates_choose(struct vr_rates *rates, bool to_host, uint64_t bytes);
/* It kept its caller for so long. */
void vr_rates_note(struct vr_rates *rates, bool to_host, bool staged, uint64_t bytes, uint64_t ns);

#endif

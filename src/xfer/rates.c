/* SPDX-License-Identifier: Apache-2.0 */
/* rates.c: two ways and what each was seen to cost. */
#include "xfer/rates.h"

#include "base/size.h"

enum {
    STAGED_FIRST = 2, /* copies of a class that are staged before the driver's way is tried */
    AGAIN = 64,       /* one in so many tries the way that is not taken */
    WEIGHT = 4        /* a sample counts a quarter of what is known */
};

#define TRY_BYTES (UINT64_C(16) * VR_MIB) /* the largest copy that may be a trial */

static unsigned class_of(uint64_t bytes) {
    unsigned found = 0;
    for (uint64_t limit = VR_MIB; bytes >= limit && found < VR_RATE_CLASSES - 1; limit *= 4) {
        found++;
    }
    return found;
}

/* What is known of a way, of this class or the nearest smaller one; 0: nothing. */
static uint64_t known_ns(struct vr_rates *rates, bool to_host, bool staged, unsigned class) {
    uint64_t ns = 0;
    for (unsigned i = class + 1; i-- > 0 && !ns;) {
        ns = vr_load(&rates->cells[to_host][staged][i].ns, VR_RELAXED);
    }
    return ns;
}

/* Keeps (1) and (2). */
bool vr_rates_choose(struct vr_rates *rates, bool to_host, uint64_t bytes) {
    unsigned class = class_of(bytes);
    uint64_t staged = known_ns(rates, to_host, true, class);
    uint64_t plain = known_ns(rates, to_host, false, class);
    bool better = !staged || !plain || staged < plain;
    if (bytes > TRY_BYTES) {
        return better;
    }
    uint64_t turn = vr_fetch_add(&rates->asked[to_host][class], 1, VR_RELAXED);
    if (vr_load(&rates->cells[to_host][true][class].samples, VR_RELAXED) < STAGED_FIRST) {
        return true;
    }
    if (!vr_load(&rates->cells[to_host][false][class].samples, VR_RELAXED)) {
        return false;
    }
    return better != (turn % AGAIN == AGAIN - 1);
}

void vr_rates_note(struct vr_rates *rates, bool to_host, bool staged, uint64_t bytes, uint64_t ns) {
    struct vr_rate *cell = &rates->cells[to_host][staged][class_of(bytes)];
    double per_mib = (double)ns * (double)VR_MIB / (double)bytes;
    uint64_t sample = per_mib < 1      ? 1
                      : per_mib > 1e15 ? UINT64_C(1000000000000000)
                                       : (uint64_t)per_mib;
    uint64_t before = vr_load(&cell->ns, VR_RELAXED);
    vr_store(&cell->ns, before ? before - before / WEIGHT + sample / WEIGHT + 1 : sample,
             VR_RELAXED);
    vr_fetch_add(&cell->samples, 1, VR_RELAXED);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* rates.c: measures two ways to copy and chooses between them. */
#include "xfer/rates.h"

#include "base/size.h"

enum {
    STAGED_FIRST = 4, /* copies of a class that are staged before the driver's way is tried */
    PLAIN_FIRST = 2,  /* copies that then try the driver's way */
    AGAIN = 64,       /* one in so many tries the way that is not chosen */
    AGAIN_EARLY = 8,  /* the same for staging in the first AGAIN choices: slots may exist now */
    MARGIN = 32       /* the other way must be faster by this part: (4) */
};

#define TRY_BYTES (UINT64_C(16) * VR_MIB) /* the largest copy that may be a trial */

static unsigned class_of(uint64_t bytes) {
    unsigned found = 0;
    for (uint64_t limit = 16 * VR_KIB; bytes >= limit && found < VR_RATE_CLASSES - 1; limit *= 4) {
        found++;
    }
    return found;
}

/* What is known of a way, from this class or the nearest smaller one; 0: nothing. */
static uint64_t known_ns(const struct vr_rates *rates, bool to_host, bool staged, unsigned class) {
    uint64_t ns = 0;
    for (unsigned i = class + 1; i-- > 0 && !ns;) {
        ns = vr_load(&rates->cells[to_host][staged][i].typical, VR_RELAXED);
    }
    return ns;
}

/* Whether the driver's way is faster. Keeps (4). */
static bool is_plain(struct vr_rates *rates, bool to_host, unsigned class) {
    uint64_t staged = known_ns(rates, to_host, true, class);
    uint64_t plain = known_ns(rates, to_host, false, class);
    bool was = vr_load(&rates->plain[to_host][class], VR_RELAXED), now = was;
    if (!staged || !plain) {
        return false;
    }
    if (was ? staged < plain - plain / MARGIN : plain < staged - staged / MARGIN) {
        now = !was;
        vr_store(&rates->plain[to_host][class], now, VR_RELAXED);
    }
    return now;
}

static uint64_t samples_of(const struct vr_rates *rates, bool to_host, bool staged,
                           unsigned class) {
    return vr_load(&rates->cells[to_host][staged][class].samples, VR_RELAXED);
}

/* Keeps (1) and (2). */
bool vr_rates_choose(struct vr_rates *rates, bool to_host, uint64_t bytes) {
    unsigned class = class_of(bytes);
    if (bytes > TRY_BYTES) {
        return !is_plain(rates, to_host, class);
    }
    uint64_t choice = vr_fetch_add(&rates->asked[to_host][class], 1, VR_RELAXED);
    if (samples_of(rates, to_host, true, class) < STAGED_FIRST) {
        return true;
    }
    if (samples_of(rates, to_host, false, class) < PLAIN_FIRST) {
        return false;
    }
    bool plain = is_plain(rates, to_host, class);
    uint64_t again = plain && choice < AGAIN ? AGAIN_EARLY : AGAIN;
    return plain == (choice % again == again - 1);
}

/* Of the last samples, sorted: the first, or the lower median. Keeps (3). */
static uint64_t typical_of(const struct vr_rate *cell, uint64_t samples) {
    uint64_t sorted[VR_RATE_WINDOW] = {0};
    unsigned count = samples < VR_RATE_WINDOW ? (unsigned)samples : VR_RATE_WINDOW;
    for (unsigned i = 0; i < count; i++) {
        uint64_t sample = vr_load(&cell->recent[i], VR_RELAXED);
        unsigned at = i;
        for (; at > 0 && sorted[at - 1] > sample; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = sample;
    }
    return sorted[samples < UINT64_C(2) * VR_RATE_WINDOW ? 0 : (count - 1) / 2];
}

void vr_rates_note(struct vr_rates *rates, bool to_host, bool staged, uint64_t bytes, uint64_t ns) {
    struct vr_rate *cell = &rates->cells[to_host][staged][class_of(bytes)];
    double per_mib = (double)ns * (double)VR_MIB / (double)bytes;
    uint64_t sample = per_mib < 1      ? 1
                      : per_mib > 1e15 ? UINT64_C(1000000000000000)
                                       : (uint64_t)per_mib;
    uint64_t samples = vr_fetch_add(&cell->samples, 1, VR_RELAXED);
    vr_store(&cell->recent[samples % VR_RATE_WINDOW], sample, VR_RELAXED);
    vr_store(&cell->typical, typical_of(cell, samples + 1), VR_RELAXED);
}

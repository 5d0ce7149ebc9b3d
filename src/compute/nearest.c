/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.c: see nearest.h. */
#include "compute/nearest.h"

static bool worse(const struct vr_nearest *nearest, float value, uint64_t place, float other,
                  uint64_t other_place) {
    if (value != other) {
        return nearest->largest ? value < other : value > other;
    }
    return place > other_place;
}

static void swap(struct vr_nearest *nearest, uint64_t i, uint64_t j) {
    float value = nearest->values[i];
    uint64_t place = nearest->places[i];
    nearest->values[i] = nearest->values[j];
    nearest->places[i] = nearest->places[j];
    nearest->values[j] = value;
    nearest->places[j] = place;
}

static bool worse_at(const struct vr_nearest *nearest, uint64_t i, uint64_t j) {
    return worse(nearest, nearest->values[i], nearest->places[i], nearest->values[j],
                 nearest->places[j]);
}

/* Lets the one at the top of [0, count) sink to where it belongs. */
static void sink(struct vr_nearest *nearest, uint64_t count) {
    for (uint64_t at = 0;;) {
        uint64_t worst = at, left = 2 * at + 1;
        if (left < count && worse_at(nearest, left, worst)) {
            worst = left;
        }
        if (left + 1 < count && worse_at(nearest, left + 1, worst)) {
            worst = left + 1;
        }
        if (worst == at) {
            return;
        }
        swap(nearest, at, worst);
        at = worst;
    }
}

static void rise(struct vr_nearest *nearest, uint64_t at) {
    while (at > 0 && worse_at(nearest, at, (at - 1) / 2)) {
        swap(nearest, at, (at - 1) / 2);
        at = (at - 1) / 2;
    }
}

void vr_nearest_add(struct vr_nearest *nearest, float value, uint64_t place) {
    if (nearest->count < nearest->room) {
        nearest->values[nearest->count] = value;
        nearest->places[nearest->count] = place;
        rise(nearest, nearest->count++);
    } else if (worse(nearest, nearest->values[0], nearest->places[0], value, place)) {
        nearest->values[0] = value;
        nearest->places[0] = place;
        sink(nearest, nearest->count);
    }
}

/* The worst goes to the end, again and again. */
void vr_nearest_sort(struct vr_nearest *nearest) {
    for (uint64_t left = nearest->count; left > 1; left--) {
        swap(nearest, 0, left - 1);
        sink(nearest, left - 1);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.c: see nearest.h. */
#include "compute/nearest.h"

static bool is_worse(double value, uint64_t place, double other, uint64_t other_place) {
    return value != other ? value > other : place > other_place;
}

static void heap_swap(struct vr_nearest *nearest, uint64_t i, uint64_t j) {
    double value = nearest->values[i];
    uint64_t place = nearest->places[i];
    nearest->values[i] = nearest->values[j];
    nearest->places[i] = nearest->places[j];
    nearest->values[j] = value;
    nearest->places[j] = place;
}

static bool worse_at(const struct vr_nearest *nearest, uint64_t i, uint64_t j) {
    return is_worse(nearest->values[i], nearest->places[i], nearest->values[j], nearest->places[j]);
}

/* Moves the entry at the top of the heap [0, count) down to its place. */
static void heap_sink(struct vr_nearest *nearest, uint64_t count) {
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
        heap_swap(nearest, at, worst);
        at = worst;
    }
}

static void heap_rise(struct vr_nearest *nearest, uint64_t at) {
    while (at > 0 && worse_at(nearest, at, (at - 1) / 2)) {
        heap_swap(nearest, at, (at - 1) / 2);
        at = (at - 1) / 2;
    }
}

void vr_nearest_add(struct vr_nearest *nearest, double value, uint64_t place) {
    if (nearest->count < nearest->capacity) {
        nearest->values[nearest->count] = value;
        nearest->places[nearest->count] = place;
        heap_rise(nearest, nearest->count++);
    } else if (is_worse(nearest->values[0], nearest->places[0], value, place)) {
        nearest->values[0] = value;
        nearest->places[0] = place;
        heap_sink(nearest, nearest->count);
    }
}

/* Moves the worst to the end, repeatedly. */
void vr_nearest_sort(struct vr_nearest *nearest) {
    for (uint64_t left = nearest->count; left > 1; left--) {
        heap_swap(nearest, 0, left - 1);
        heap_sink(nearest, left - 1);
    }
}

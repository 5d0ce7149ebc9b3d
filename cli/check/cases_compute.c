/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases_compute.c: work on memory: mappings of labels, and handles of such things that are none.
 */
#include "case.h"

#include <string.h>

static vram_status reversed(void *user, const int32_t *labels, size_t count, int32_t *mapping,
                            size_t room, size_t *mapped) {
    (void)user;
    for (size_t i = 0; i < count && i < room; i++) {
        mapping[i] = labels[count - 1 - i];
    }
    *mapped = count;
    return VRAM_OK;
}

/* The status that a battery wants; VRAM_OK: VRAM_ERR_INVALID or VRAM_ERR_STALE, either. */
static bool refuses(struct check *check, vram_status status, vram_status want,
                    struct check_place place) {
    return want == VRAM_OK ? check_refused(check, status, place)
                           : check_status(check, status, want, place);
}
#define REFUSES(call) CHECK_TRY(refuses(check, call, want, CHECK_AT(#call)))

static bool as_labels(struct check *check, void *bad, vram_status want) {
    vram_labels *cache = bad;
    vram_labels_info info = {.size = sizeof info};
    int32_t label = 1, mapping = 0;
    size_t mapped;

    REFUSES(vram_labels_get(cache, &label, 1, reversed, NULL, &mapping, 1, &mapped));
    REFUSES(vram_labels_clear(cache, NULL));
    REFUSES(vram_labels_info_get(cache, &info));
    if (cache != NULL) { /* destroying NULL is allowed */
        REFUSES(vram_labels_destroy(cache));
    }
    return true;
}

static bool handles(struct check *check) {
    vram_labels *cache;
    CHECK_TRY(as_labels(check, NULL, VRAM_ERR_INVALID));
    CHECK_TRY(as_labels(check, check->context, VRAM_OK));
    CHECK_TRY(as_labels(check, check, VRAM_OK));
    CHECK_OK(check, vram_labels_create(NULL, &cache));
    CHECK_OK(check, vram_labels_destroy(cache));
    CHECK_TRY(as_labels(check, cache, VRAM_ERR_STALE));
    for (uint32_t i = 0; i < check_rounds(check, 100); i++) {
        void *number = (void *)(uintptr_t)check_random(check, UINT64_MAX);
        CHECK_TRY(as_labels(check, number, VRAM_OK));
    }
    return true;
}

static bool labels(struct check *check) {
    vram_labels *cache;
    vram_labels_info info = {.size = sizeof info};
    int32_t list[3] = {3, 1, 2}, mapping[3];
    size_t mapped = 0;

    CHECK_OK(check, vram_labels_create(NULL, &cache));
    for (uint64_t round = 0; round < 2; round++) {
        memset(mapping, 0, sizeof mapping);
        CHECK_OK(check, vram_labels_get(cache, list, 3, reversed, NULL, mapping, 3, &mapped));
        CHECK_EQUAL(check, mapped, 3);
        CHECK_THAT(check, mapping[0] == 2 && mapping[1] == 1 && mapping[2] == 3);
    }
    CHECK_OK(check, vram_labels_info_get(cache, &info));
    CHECK_EQUAL(check, info.hits, 1);
    CHECK_EQUAL(check, info.misses, 1);
    CHECK_OK(check, vram_labels_destroy(cache));
    return true;
}

const struct check_case check_cases_compute[] = {
    {"compute.handles", "calls of compute.h and its kin refuse handles that are none", handles},
    {"compute.labels", "a mapping of labels is computed once and found again", labels},
    {NULL, NULL, NULL},
};

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy.c: see policy.h.
 */
#include "policy.h"

#include <string.h>

const char *const policy_call_names[POLICY_CALL_COUNT] = {
#define CALL_NAME(NAME, name) [POLICY_CALL_##NAME] = name,
    POLICY_CALL_MAP(CALL_NAME)
#undef CALL_NAME
};

/* The pool comes first: it is what `vram replay` shows when nobody chooses. */
const struct policy *const policy_table[] = {
#ifdef REPLAY_HAS_POOL
    &policy_vram,
#endif
    &policy_expandable, &policy_async, &policy_caching, &policy_naive, NULL,
};

const struct policy *policy_find(const char *name) {
    for (size_t i = 0; policy_table[i] != NULL; i++) {
        if (strcmp(policy_table[i]->name, name) == 0) {
            return policy_table[i];
        }
    }
    return NULL;
}

vram_status place_wait(struct place *place, uint64_t queues) {
    vram_status status = VRAM_OK;
    for (uint32_t i = 0; i < place->queue_count && status == VRAM_OK; i++) {
        uint64_t bit = UINT64_C(1) << i;
        if (queues & place->busy_queues & bit) {
            status = vram_queue_wait(place->queues[i], VRAM_TIMEOUT_DEFAULT);
            place->busy_queues &= status == VRAM_OK ? ~bit : UINT64_MAX;
        }
    }
    return status;
}

vram_status place_order(struct place *place, uint32_t first, uint32_t later) {
    vram_point point;
    if (first == later || !(place->busy_queues & UINT64_C(1) << first)) {
        return VRAM_OK;
    }
    vram_status status = vram_queue_mark(place->queues[first], &point);
    return status == VRAM_OK ? vram_queue_after(place->queues[later], point) : status;
}

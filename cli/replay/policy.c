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

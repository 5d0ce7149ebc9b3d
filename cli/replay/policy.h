/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy.h: ways to serve a trace's allocations, and the table of them.
 *
 * The player calls one at a time, in the order of the trace, from whichever thread the trace says.
 * A policy submits no work of its own: the player tells the place which queues have been given
 * some, and a policy that gives memory back to the driver waits for those first.
 */
#ifndef REPLAY_POLICY_H
#define REPLAY_POLICY_H

#include "place.h"

/* One block of the trace while it lives. */
struct replay_block {
    vram_addr addr;
    uint64_t bytes;       /* as asked for */
    void *note;           /* the policy's own */
    uint64_t serial;      /* which allocation it is, from 1; 0: not live */
    uint64_t used_queues; /* bit q: queue q was given work on it, its own not counted */
    uint32_t queue;       /* allocated for */
};

/* Kinds of driver calls: X(NAME, "name"). */
#define POLICY_CALL_MAP(X)                                                                         \
    X(ALLOC, "alloc")                                                                              \
    X(FREE, "free")                                                                                \
    X(CREATE, "create")                                                                            \
    X(RELEASE, "release")                                                                          \
    X(MAP, "map")                                                                                  \
    X(ACCESS, "access")                                                                            \
    X(UNMAP, "unmap")                                                                              \
    X(MARKER, "marker")

enum policy_call {
#define POLICY_CALL_ENUM(NAME, name) POLICY_CALL_##NAME,
    POLICY_CALL_MAP(POLICY_CALL_ENUM)
#undef POLICY_CALL_ENUM
        POLICY_CALL_COUNT
};
extern const char *const policy_call_names[POLICY_CALL_COUNT];

/* What a policy has done since it began; all but the first only rise. */
struct policy_counts {
    uint64_t reserved_bytes;      /* held from the driver now */
    uint64_t peak_reserved_bytes; /* most it ever held from the driver */
    uint64_t moved_handles;       /* physical handles taken from one place to another */
    uint64_t move_ns;             /* what that took, by the device's clock */
    uint64_t calls[POLICY_CALL_COUNT];
};

struct policy {
    const char *name;
    bool needs_vmm; /* runs only on devices with VRAM_CAP_VMM */
    /* Starts on a place that outlives it. */
    vram_status (*begin)(struct place *place, void **state);
    /* Sets addr and note; 0 bytes may give address 0. */
    vram_status (*alloc)(void *state, uint64_t bytes, uint32_t queue, struct replay_block *block);
    /* Work submitted to `queue` and to block->used_queues so far may still use it. */
    vram_status (*free)(void *state, struct replay_block *block, uint32_t queue);
    /* Work on another queue than the block's own has been submitted; NULL: nothing to do. */
    vram_status (*use)(void *state, struct replay_block *block, uint32_t queue);
    vram_status (*counts)(void *state, struct policy_counts *counts);
    /* Gives all memory back. */
    void (*end)(void *state);
};

extern const struct policy policy_naive, policy_caching, policy_expandable, policy_async,
    policy_vram;

/* The policies of this build, best first, NULL at the end. */
extern const struct policy *const policy_table[];

/* The policy of that name; NULL when this build has none. */
const struct policy *policy_find(const char *name);

#endif

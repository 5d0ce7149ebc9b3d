/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target.h: which device a verb works on: --backend and --device made into an opened context.
 */
#ifndef TARGET_H
#define TARGET_H

#include "verb.h"

struct target {
    vram_context *context;
    uint32_t index;        /* of the chosen device in the context */
    vram_device_info info; /* what is known of it */
};

/*
 * Makes a context with the backends of --backend (all without it) and chooses device --device, or
 * the best one. The verb must have both flags. Returns EXIT_YES, or EXIT_MISUSE after one line on
 * stderr that says why there is no such device.
 */
int target_open(const struct invocation *invocation, struct target *target);

/* A context with these backends, "cuda,host"; NULL: all, or what the options say. */
vram_status target_context(const char *backends, vram_context **context);

/* Destroys the context. A target whose open failed, or that is all zero, is allowed. */
void target_close(struct target *target);

/* The name of a kind for people and JSON: "gpu", "cpu", "simulated". */
const char *device_kind_name(vram_device_kind kind);

#endif

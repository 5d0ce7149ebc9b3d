/* SPDX-License-Identifier: Apache-2.0 */
/*
 * name_pattern.h: whether a module of a model is one of those that a quantization names.
 *
 *   "lm_head", "mlp.gate"            whole components of the name, anywhere in it
 *   "model.layers.*.self_attn*"      with wildcards, from the start to the end of a component
 *   "re:.*mlp\.(gate|up)_proj.*"     a regular expression, from the start
 *
 * Layers are compared from "layers." on: what stands before differs from one program to the next.
 */
#ifndef VR_NAME_PATTERN_H
#define VR_NAME_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

/* `steps` is what all matching together may still take, and is lowered; at 0 nothing matches. */
bool vr_name_matches(const char *pattern, const char *name, uint64_t *steps);

/* The layer of "a.layers.12.b": its number, and what follows it in *rest. False: not one layer. */
bool vr_name_layer(const char *name, uint32_t *layer, const char **rest);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_list.h: lists in a config.json that say what each layer is, in the words of many families.
 */
#ifndef VR_CONFIG_LIST_H
#define VR_CONFIG_LIST_H

#include "model/json_reader.h"
#include "model/model_config.h"

/* Reads the list that `word` names. False: it names none, and nothing was read; else *good says
   whether the JSON is valid. */
bool vr_config_list(struct vr_json_reader *reader, struct vr_config *config, const char *word,
                    struct vr_json_token token, bool *good);

/* hybrid_override_pattern: a letter for each layer, "M*E-". */
void vr_config_pattern(struct vr_config *config, struct vr_json_token token);

/* block_configs: attention and feed-forward of each layer. False: invalid JSON. */
bool vr_config_blocks(struct vr_json_reader *reader, struct vr_config *config,
                      struct vr_json_token token);

/* A decimal number in millionths; 0: it is not such a number. */
uint32_t vr_config_millionths(struct vr_json_token token);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_ids.h: from the ids of a trace, which may be any numbers, to the blocks that are live.
 */
#ifndef REPLAY_TRACE_IDS_H
#define REPLAY_TRACE_IDS_H

#include <stdbool.h>
#include <stdint.h>

struct trace_ids;

/* NULL: no memory. */
struct trace_ids *trace_ids_create(void);
void trace_ids_destroy(struct trace_ids *ids);

/* The block of a live id. */
bool trace_ids_find(const struct trace_ids *ids, uint64_t id, uint32_t *block);

/* Adds an id that is not there. False: no memory. */
bool trace_ids_add(struct trace_ids *ids, uint64_t id, uint32_t block);

/* Takes out an id that is there. */
void trace_ids_remove(struct trace_ids *ids, uint64_t id);

#endif

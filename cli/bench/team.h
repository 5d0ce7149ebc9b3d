/* SPDX-License-Identifier: Apache-2.0 */
/*
 * team.h: the threads of a contest. They live as long as it does, one to a processor where the
 * system allows it, and do one thing at a time together.
 */
#ifndef TEAM_H
#define TEAM_H

#include <stdbool.h>
#include <stdint.h>

struct team;

/* What member `index` does; false: it failed. */
typedef bool team_task_fn(void *user, uint32_t index);

/* NULL when there is no memory or no thread to be had. */
struct team *team_create(uint32_t size);
void team_destroy(struct team *team);

/*
 * Members 0 to `count` - 1 run `before` and then, all starting at once, `task`. *ns is the time
 * from the first start to the last end of `task`. False when any of them failed. `before` may be
 * NULL.
 */
bool team_run(struct team *team, uint32_t count, team_task_fn *before, team_task_fn *task,
              void *user, uint64_t *ns);

#endif

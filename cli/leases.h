/* SPDX-License-Identifier: Apache-2.0 */
/* leases.h: `vram info --leases`. */
#ifndef LEASES_H
#define LEASES_H

#include "verb.h"

/* Prints the leases of this user and the broker's log; returns an exit_code. */
int leases_show(const struct invocation *invocation);

#endif

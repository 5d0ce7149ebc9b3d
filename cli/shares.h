/* SPDX-License-Identifier: Apache-2.0 */
/* shares.h: `vram info --shares`. */
#ifndef SHARES_H
#define SHARES_H

#include "verb.h"

/* Prints the names under which processes of this user share memory; returns an exit_code. */
int shares_show(const struct invocation *invocation);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* failing.h: whether a call of the library, made at this place, is one that must fail. */
#ifndef FAILING_H
#define FAILING_H

#include <stdbool.h>
#include <vram/base.h>

/* Counts the call; `place` is the address that it returns to. */
bool failing_strikes(const char *name, const void *place);

/* What such a call returns, with a record that names it. */
vram_status failing_status(const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * help.h: what --help prints.
 */
#ifndef HELP_H
#define HELP_H

#include "verb.h"

/* Flags that stand before any verb: --help, --version. */
extern const struct flag command_flags[];

void help_print_command(const struct terminal *terminal);
void help_print_verb(const struct terminal *terminal, const struct verb *verb);

#endif

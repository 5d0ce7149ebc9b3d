/* SPDX-License-Identifier: Apache-2.0 */
/* tools.h: main functions that are called by name, in tables that CMake makes; NULL ends one. */
#ifndef TEST_TOOLS_H
#define TEST_TOOLS_H

#include <stddef.h>

struct named_main {
    const char *name;
    int (*main)(int count, char **words);
};

extern const struct named_main tools[];
extern const struct named_main examples[];

#endif

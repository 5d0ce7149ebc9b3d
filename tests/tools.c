/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tools.c: programs of the tests' own in one, so that a build links the library once for all of
 * them. `tools NAME [WORD...]` is what the program NAME would be.
 */
#include "tools.h"

#include <stdio.h>
#include <string.h>

int main(int count, char **words) {
    const struct named_main *tool = tools;
    while (count > 1 && tool->name && strcmp(words[1], tool->name) != 0) {
        tool++;
    }
    if (count > 1 && tool->name) {
        return tool->main(count - 1, words + 1);
    }
    fprintf(stderr, "usage: tools NAME [WORD...], where NAME is one of\n");
    for (tool = tools; tool->name; tool++) {
        fprintf(stderr, "  %s\n", tool->name);
    }
    return 2;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* screen_none.c: screen.h in a build without ncursesw. */
#include "top/screen.h"

#include <stdio.h>

bool screen_begin(bool color, char problem[SCREEN_PROBLEM_MAX]) {
    (void)color;
    snprintf(problem, SCREEN_PROBLEM_MAX,
             "this build has no screen: ncursesw (libncurses-dev) was not there when it was made; "
             "--once works without");
    return false;
}

void screen_end(void) {}

void screen_size(int *rows, int *columns) {
    *rows = 24;
    *columns = 80;
}

void screen_show(const struct canvas *canvas) {
    (void)canvas;
}

bool screen_key(int wait_ms, uint32_t *key) {
    (void)wait_ms;
    (void)key;
    return false;
}

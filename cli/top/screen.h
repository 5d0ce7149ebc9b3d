/* SPDX-License-Identifier: Apache-2.0 */
/* screen.h: the terminal of `vram top`: ncursesw, or in a build without it a sentence that says
   so. */
#ifndef SCREEN_H
#define SCREEN_H

#include "top/canvas.h"
#include "top/view.h"

enum { SCREEN_PROBLEM_MAX = 200 };

/* Takes the terminal over, which standard output is. False after one sentence in `problem`. */
bool screen_begin(bool color, char problem[SCREEN_PROBLEM_MAX]);

/* Gives it back as it was. */
void screen_end(void);

/* Its size now. */
void screen_size(int *rows, int *columns);

void screen_show(const struct canvas *canvas);

/* Waits for a key, at most so long. False: none came, or the terminal changed its size. */
bool screen_key(int wait_ms, uint32_t *key);

#endif

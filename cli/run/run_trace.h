/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_trace.h: where the trace of `vram run` goes. The program writes it; whether it can is found
 * out before the program starts, as far as that can be known then.
 */
#ifndef RUN_TRACE_H
#define RUN_TRACE_H

#include "run_page.h"

#include <stdbool.h>

/*
 * Writes the absolute path, with %p and %h in it: `wanted`, or a name after the program where NULL.
 * Without `wanted` it is in the working folder, or where that takes no files in another one, after
 * a warning. False after one line on stderr: a file that was wanted cannot be written. /dev/null
 * can be wanted: no trace.
 */
bool run_trace_choose(char to[RUN_PATH], const char *wanted, const char *program);

#endif

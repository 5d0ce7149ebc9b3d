/* SPDX-License-Identifier: Apache-2.0 */
/* call_try.c: hands the arguments of a row's call to the engine; see call_try.h. */
#include "calls/call_try.h"

static _Thread_local unsigned marks; /* of the argument that comes next */
const struct call_hooks *call_hooks;

void call_mark(unsigned mark) {
    marks |= mark;
}

void *call_argument(void *value, struct call_argument argument) {
    argument.marks = marks;
    marks = 0;
    if (call_hooks && call_hooks->argument) {
        call_hooks->argument(value, &argument);
    }
    return value;
}

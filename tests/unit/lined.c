/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lined.c: a part of a module, with debug information, one for each version of DWARF; LINED is the
 * name of its function. See test_line_table.c.
 */
__attribute__((visibility("default"))) int LINED(void (*back)(void));
int ELSEWHERE(void);

#ifdef MOVED
#line 70000 "/folder of/elsewhere.h"
#endif
int LINED(void (*back)(void)) {
    back();
    return __LINE__ - 1;
}

/* So that there are more sequences, and more files, than one. */
#line 7 "another.c"
__attribute__((section(".text.apart"))) int ELSEWHERE(void) {
    return __LINE__;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lined.c: a module with debug information, one for each version of DWARF; see test_line_table.c.
 */
__attribute__((visibility("default"))) int lined_call(void (*back)(void));
int lined_elsewhere(void);

#ifdef MOVED
#line 70000 "/folder of/elsewhere.h"
#endif
int lined_call(void (*back)(void)) {
    back();
    return __LINE__ - 1;
}

/* So that there are more sequences, and more files, than one. */
#line 7 "another.c"
__attribute__((section(".text.apart"))) int lined_elsewhere(void) {
    return __LINE__;
}

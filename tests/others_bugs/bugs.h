/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bugs.h: bugs of other allocators, each as a test that shows it absent here. docs/others-bugs.md
 * lists all of them with their origin.
 *
 * CMake makes one test of each line BUG(number, name) of a file, which runs
 * `others_bugs FILE.number_name`: every bug has a process of its own.
 */
#ifndef BUGS_H
#define BUGS_H

#include "unit/assert_ok.h"

#include <stdio.h>
#include <string.h>

#define BUG(number, name)                                                                          \
    static void name(void);                                                                        \
    RIG_ADD(__COUNTER__, #number "_" #name, name, &rig_each, false)                                \
    static void name(void)

/* Threads of a storm do less where every access is watched. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BUGS_WATCHED 1
#else
#define BUGS_WATCHED 0
#endif

#endif

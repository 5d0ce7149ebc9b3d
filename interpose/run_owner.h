/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_owner.h: which library of the program a call comes from: the innermost module that is neither
 * a driver, nor a vendor's runtime on top of it, nor this library.
 */
#ifndef RUN_OWNER_H
#define RUN_OWNER_H

#include <stdbool.h>
#include <stdint.h>

/* File name of the module, without its folder; valid until the process ends. Never NULL. */
const char *run_owner_of_stack(uint32_t stack);
const char *run_owner_of_caller(const void *caller);

/* Names the owner of what the calling thread takes from now on; NULL: the library that calls. The
   text stays. */
void run_owner_as(const char *name);
const char *run_owner_set(void);

/* Whether a module is a driver or a runtime, by its file name. */
bool run_owner_is_driver(const char *module);

#endif

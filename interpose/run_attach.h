/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_attach.h: how a process finds the page of `vram run`.
 */
#ifndef RUN_ATTACH_H
#define RUN_ATTACH_H

#include "run_page.h"

/* Where the page is, before anything attaches to it; the text stays. Else the environment says. */
void run_page_path(const char *path);
void run_trace_path(const char *path);
/* The page, which may be written; NULL: none. */
struct run_page *run_page_attach(void);
/* Where the trace goes, with %p and %h in it; NULL: none is wanted. Once there is a page. */
const char *run_trace_wanted(void);

#endif

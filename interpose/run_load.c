/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_load.c: what happens when this library is loaded into a process, and when the process exits.
 */
#include "layer_loaders.h"
#include "run_process.h"

#include <string.h>

/* Linked to run first, before the C library knows its environment: it is handed in. */
__attribute__((constructor)) static void run_begins(int count, char **words, char **environment) {
    static const char name[] = RUN_PAGE_VARIABLE "=", trace[] = RUN_TRACE_VARIABLE "=";
    (void)count;
    (void)words;
    for (; environment && *environment; environment++) {
        if (strncmp(*environment, name, sizeof name - 1) == 0) {
            run_page_path(*environment + sizeof name - 1);
        } else if (strncmp(*environment, trace, sizeof trace - 1) == 0) {
            run_trace_path(*environment + sizeof trace - 1);
        }
    }
    struct run_page *page = run_page_attach();
    if (page) {
        atomic_fetch_add(&page->processes, 1);
    }
}

/* Linked to run last. A process that is killed, or calls _exit, leaves its trace without an end,
   which readers accept. */
__attribute__((destructor)) static void run_ends(void) {
    struct run_page *page = run_page_attach();
    if (page) {
        layer_loaders_count(page);
    }
    run_record_end();
}

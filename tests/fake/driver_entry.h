/* SPDX-License-Identifier: Apache-2.0 */
/* driver_entry.h: an entry point of a driver, as the tables say it; see tools/driver-table. */
#ifndef FAKE_DRIVER_ENTRY_H
#define FAKE_DRIVER_ENTRY_H

#include <stddef.h>

struct driver_entry {
    const char *name;
    const char *twin;           /* the CUDA entry that it stands in for, or itself */
    const char *symbol, *older; /* the latter NULL when there is none */
    const char *without;        /* what is missing without it; NULL: it is required */
    unsigned code_count;
    const int *codes; /* documented failures */
};

#endif

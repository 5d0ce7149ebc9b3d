/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader.h: opening a driver is a list of symbols and one loop. A table row has the symbol, where
 * its address is stored, and whether the backend works without it.
 */
#ifndef VR_LOADER_H
#define VR_LOADER_H

#include "vram/base.h"

struct vr_symbol {
    const char *name;     /* as exported, "cuMemAlloc_v2" */
    const char *fallback; /* older name to try next; NULL when there is none */
    size_t offset;        /* of the function pointer in the backend's table */
    bool optional;        /* absent: the pointer stays NULL */
};

struct vr_library {
    void *native;   /* dlopen's handle; NULL when not open */
    char name[256]; /* what was opened */
};

/*
 * Opens the first of `sonames` (NULL-terminated, versioned name first) that loads, with RTLD_NOW |
 * RTLD_LOCAL. If none does: VRAM_ERR_NO_DRIVER with the names, the system's reasons, and `hint`,
 * which says what to do about it (NULL: no hint).
 *
 * A missing file and a file that does not load are not distinguished. dlopen has no code for it,
 * and its text says "No such file" also for a library that exists but needs one that is missing.
 * The search path, including the cache of ld.so, cannot be queried. So the text quotes the system's
 * words, which name the file, and `hint` must fit both cases.
 */
vram_status vr_library_load(struct vr_library *library, const char *backend,
                            const char *const *sonames, const char *hint);

/* Fills `table` from a loaded library, or changes nothing: VRAM_ERR_NO_DRIVER with a text that
   names the missing symbol, and the library is closed. */
vram_status vr_library_fill(struct vr_library *library, const char *backend,
                            const struct vr_symbol *symbols, size_t symbol_count, void *table);

/* vr_library_load, then vr_library_fill. */
vram_status vr_library_open(struct vr_library *library, const char *backend,
                            const char *const *sonames, const struct vr_symbol *symbols,
                            size_t symbol_count, void *table);

/* Closes it; accepts a zeroed or closed library. */
void vr_library_close(struct vr_library *library);

#endif

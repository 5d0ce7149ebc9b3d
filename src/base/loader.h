/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader.h: opening a driver is a list of symbols and one loop. A table row says the symbol, where
 * its address goes, and whether the backend can live without it.
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
 * Opens the first of `sonames` (NULL-terminated, versioned name first) that loads, with
 * RTLD_NOW | RTLD_LOCAL. If none does: VRAM_ERR_NO_DRIVER with the names, the system's reasons, and
 * `mend`, which says what to do about it; NULL: nothing.
 *
 * No difference is made between a file that is not there and one that is there and does not load.
 * dlopen has no code for it, and its text says "No such file" also for a library that is there and
 * needs another one that is not. Where it looks, the cache of ld.so included, cannot be asked. So
 * the text has the system's words, which name the file, and `mend` must fit both.
 */
vram_status vr_library_load(struct vr_library *library, const char *backend,
                            const char *const *sonames, const char *mend);

/* Fills `table` from a loaded library. All or nothing: VRAM_ERR_NO_DRIVER with a text that names
   the symbol missing, the library closed again, the table untouched. */
vram_status vr_library_fill(struct vr_library *library, const char *backend,
                            const struct vr_symbol *symbols, size_t symbol_count, void *table);

/* Both. */
vram_status vr_library_open(struct vr_library *library, const char *backend,
                            const char *const *sonames, const struct vr_symbol *symbols,
                            size_t symbol_count, void *table);

/* Closes it; a zeroed or closed library is fine. */
void vr_library_close(struct vr_library *library);

#endif

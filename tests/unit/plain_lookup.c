/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plain_lookup.c: what the recorder of vram run needs of interpose/dl_entry.c, for tests that have
 * no part of that file: it would stand in front of the test's own dlsym.
 */
#include "dl_entry.h"

#include <dlfcn.h>
#include <string.h>

void *run_dlsym_real(void *handle, const char *name) {
    return dlsym(handle, name);
}

const char *run_module_of(const void *address) {
    Dl_info info;
    if (!dladdr(address, &info) || !info.dli_fname) {
        return NULL;
    }
    const char *file = strrchr(info.dli_fname, '/');
    return file ? file + 1 : info.dli_fname;
}

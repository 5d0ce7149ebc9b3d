/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader.c: drivers are opened by their names and a list of symbols. The list is walked twice, to
 * see that all is there and then to fill the table, so that a driver that lacks one symbol leaves
 * the table as it was.
 */
#include "base/loader.h"

#include "base/error.h"
#include "base/os/os.h"
#include "base/text.h"

#include <string.h>

/* Adds one name's failure to the text of all. The system's reason nearly always begins with the
   name; where it does not, the name is put in front. */
static void add_reason(char *text, size_t text_bytes, const char *name, const char *reason) {
    size_t length = strlen(text);
    bool named = strncmp(reason, name, strlen(name)) == 0;
    (void)vr_text_format(text + length, text_bytes - length, "%s%s%s%s", length ? "; " : "",
                         named ? "" : name, named ? "" : ": ", reason);
}

/* The first name that loads, or an error that names all. */
static vram_status open_first(struct vr_library *library, const char *backend,
                              const char *const *sonames) {
    char tried[VRAM_ERROR_TEXT_MAX] = "";
    for (; *sonames; sonames++) {
        char reason[VRAM_ERROR_TEXT_MAX] = "";
        library->native = vr_os_library_open(*sonames, reason, sizeof reason);
        if (library->native) {
            (void)vr_text_copy(library->name, sizeof library->name, *sonames);
            return VRAM_OK;
        }
        add_reason(tried, sizeof tried, *sonames, reason);
    }
    return vr_error_set(VRAM_ERR_NO_DRIVER, backend, "dlopen", 0, "%s",
                        *tried ? tried : "no name to open");
}

static void *find(const struct vr_library *library, const struct vr_symbol *symbol) {
    void *address = vr_os_library_symbol(library->native, symbol->name);
    if (!address && symbol->fallback) {
        address = vr_os_library_symbol(library->native, symbol->fallback);
    }
    return address;
}

/* The first symbol that the driver must have and has not; NULL when it has all. */
static const char *missing(const struct vr_library *library, const struct vr_symbol *symbols,
                           size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!symbols[i].optional && !find(library, &symbols[i])) {
            return symbols[i].name;
        }
    }
    return NULL;
}

vram_status vr_library_open(struct vr_library *library, const char *backend,
                            const char *const *sonames, const struct vr_symbol *symbols,
                            size_t symbol_count, void *table) {
    struct vr_library opened = {.native = NULL};
    vram_status status = open_first(&opened, backend, sonames);
    if (status != VRAM_OK) {
        return status;
    }
    const char *absent = missing(&opened, symbols, symbol_count);
    if (absent) {
        status = vr_error_set(VRAM_ERR_NO_DRIVER, backend, "dlsym", 0,
                              "%s has no %s: the driver is too old or not what its name says",
                              opened.name, absent);
        vr_library_close(&opened);
        return status;
    }
    for (size_t i = 0; i < symbol_count; i++) {
        void *address = find(&opened, &symbols[i]);
        memcpy((char *)table + symbols[i].offset, &address, sizeof address);
    }
    *library = opened;
    return VRAM_OK;
}

void vr_library_close(struct vr_library *library) {
    vr_os_library_close(library->native);
    *library = (struct vr_library){.native = NULL};
}

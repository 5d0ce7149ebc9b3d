/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loader.c: opens drivers by name and resolves a list of symbols. The first pass over the list
 * checks that all symbols exist, the second fills the table, so a driver that lacks a symbol leaves
 * the table unchanged.
 */
#include "base/loader.h"

#include "base/error.h"
#include "base/os/os.h"
#include "base/text.h"

#include <string.h>

/* The names that were tried, and why each did not load. */
struct failures {
    size_t count;                     /* of the names */
    char text[VRAM_ERROR_TEXT_MAX];   /* "name, name: reason; name: reason", as far as it fits */
    char reason[VRAM_ERROR_TEXT_MAX]; /* of the last name; not in `text` yet */
};

static void failures_append(struct failures *failures, const char *before, const char *words) {
    size_t length = strlen(failures->text);
    (void)vr_text_format(failures->text + length, sizeof failures->text - length, "%s%s", before,
                         words);
}

/* Adds one name's failure. Names with the same reason share it. */
static void failures_add(struct failures *failures, const char *name, const char *reason) {
    size_t length = strlen(name);
    if (strncmp(reason, name, length) == 0 && strncmp(reason + length, ": ", 2) == 0) {
        reason += length + 2; /* the system's reason nearly always begins with the name */
    }
    if (failures->count++ == 0) {
        failures_append(failures, "", name);
    } else if (strcmp(reason, failures->reason) == 0) {
        failures_append(failures, ", ", name);
    } else {
        failures_append(failures, ": ", failures->reason);
        failures_append(failures, "; ", name);
    }
    (void)vr_text_copy(failures->reason, sizeof failures->reason, reason);
}

/* The hint is always complete; the reasons are cut to make space for it. */
static vram_status failures_report(struct failures *failures, const char *backend,
                                   const char *hint) {
    size_t rest = hint ? strlen(hint) + sizeof "; " : 1;
    size_t reason_bytes = rest < VRAM_ERROR_TEXT_MAX ? VRAM_ERROR_TEXT_MAX - rest : 0;
    if (failures->count == 0) {
        failures_append(failures, "", "no name to open");
    } else {
        failures_append(failures, *failures->text ? ": " : "", failures->reason);
    }
    return vr_error_set(VRAM_ERR_NO_DRIVER, backend, "dlopen", 0, "%.*s%s%s", (int)reason_bytes,
                        failures->text, hint ? "; " : "", hint ? hint : "");
}

vram_status vr_library_load(struct vr_library *library, const char *backend,
                            const char *const *sonames, const char *hint) {
    struct failures failures = {.count = 0};
    for (; *sonames; sonames++) {
        char reason[VRAM_ERROR_TEXT_MAX] = "";
        void *native = vr_os_library_open(*sonames, reason, sizeof reason);
        if (native) {
            library->native = native;
            (void)vr_text_copy(library->name, sizeof library->name, *sonames);
            return VRAM_OK;
        }
        failures_add(&failures, *sonames, reason);
    }
    return failures_report(&failures, backend, hint);
}

static void *symbol_find(const struct vr_library *library, const struct vr_symbol *symbol) {
    void *address = vr_os_library_symbol(library->native, symbol->name);
    if (!address && symbol->fallback) {
        address = vr_os_library_symbol(library->native, symbol->fallback);
    }
    return address;
}

/* The first required symbol that the driver lacks; NULL if it has all. */
static const char *symbol_missing(const struct vr_library *library, const struct vr_symbol *symbols,
                                  size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!symbols[i].optional && !symbol_find(library, &symbols[i])) {
            return symbols[i].name;
        }
    }
    return NULL;
}

vram_status vr_library_fill(struct vr_library *library, const char *backend,
                            const struct vr_symbol *symbols, size_t symbol_count, void *table) {
    const char *absent = symbol_missing(library, symbols, symbol_count);
    if (absent) {
        vram_status status = vr_error_set(
            VRAM_ERR_NO_DRIVER, backend, "dlsym", 0,
            "%s has no symbol %s: the driver is too old, or the file is another library",
            library->name, absent);
        vr_library_close(library);
        return status;
    }
    for (size_t i = 0; i < symbol_count; i++) {
        void *address = symbol_find(library, &symbols[i]);
        memcpy((char *)table + symbols[i].offset, &address, sizeof address);
    }
    return VRAM_OK;
}

vram_status vr_library_open(struct vr_library *library, const char *backend,
                            const char *const *sonames, const struct vr_symbol *symbols,
                            size_t symbol_count, void *table) {
    vram_status status = vr_library_load(library, backend, sonames, NULL);
    return status == VRAM_OK ? vr_library_fill(library, backend, symbols, symbol_count, table)
                             : status;
}

void vr_library_close(struct vr_library *library) {
    vr_os_library_close(library->native);
    *library = (struct vr_library){.native = NULL};
}

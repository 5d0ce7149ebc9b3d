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

/* The names that were tried, and why each did not load. */
struct failures {
    size_t count;                     /* of the names */
    char text[VRAM_ERROR_TEXT_MAX];   /* "name, name: reason; name: reason", as far as it fits */
    char reason[VRAM_ERROR_TEXT_MAX]; /* of the last name; not in `text` yet */
};

static void append(struct failures *failures, const char *before, const char *words) {
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
        append(failures, "", name);
    } else if (strcmp(reason, failures->reason) == 0) {
        append(failures, ", ", name);
    } else {
        append(failures, ": ", failures->reason);
        append(failures, "; ", name);
    }
    (void)vr_text_copy(failures->reason, sizeof failures->reason, reason);
}

/* The mend is whole, whatever the reasons' length. */
static vram_status failures_report(struct failures *failures, const char *backend,
                                   const char *mend) {
    size_t rest = mend ? strlen(mend) + sizeof "; " : 1;
    size_t room = rest < VRAM_ERROR_TEXT_MAX ? VRAM_ERROR_TEXT_MAX - rest : 0;
    if (failures->count == 0) {
        append(failures, "", "no name to open");
    } else {
        append(failures, *failures->text ? ": " : "", failures->reason);
    }
    return vr_error_set(VRAM_ERR_NO_DRIVER, backend, "dlopen", 0, "%.*s%s%s", (int)room,
                        failures->text, mend ? "; " : "", mend ? mend : "");
}

vram_status vr_library_load(struct vr_library *library, const char *backend,
                            const char *const *sonames, const char *mend) {
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
    return failures_report(&failures, backend, mend);
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

vram_status vr_library_fill(struct vr_library *library, const char *backend,
                            const struct vr_symbol *symbols, size_t symbol_count, void *table) {
    const char *absent = missing(library, symbols, symbol_count);
    if (absent) {
        vram_status status = vr_error_set(
            VRAM_ERR_NO_DRIVER, backend, "dlsym", 0,
            "%s has no %s: the driver is too old or not what its name says", library->name, absent);
        vr_library_close(library);
        return status;
    }
    for (size_t i = 0; i < symbol_count; i++) {
        void *address = find(library, &symbols[i]);
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

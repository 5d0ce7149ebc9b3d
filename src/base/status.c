/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status.c: names and texts of the statuses. Both switches are generated from VRAM_STATUS_MAP, the
 * list that also makes the enum, so every status has a name.
 */
#include "base/status.h"

const char *vr_status_name(vram_status status) {
    switch (status) {
#define STATUS_NAME(name, value, text)                                                             \
    case VRAM_##name:                                                                              \
        return "VRAM_" #name;
        VRAM_STATUS_MAP(STATUS_NAME)
#undef STATUS_NAME
    }
    return "VRAM_ERR_UNKNOWN";
}

const char *vram_status_name(vram_status status) {
    return vr_status_name(status);
}

const char *vr_status_text(vram_status status) {
    switch (status) {
#define STATUS_TEXT(name, value, text)                                                             \
    case VRAM_##name:                                                                              \
        return text;
        VRAM_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
    }
    /* Programs may pass numbers of newer libraries; a text that says so is better than NULL. */
    return "a status that this version of the library does not know";
}

const char *vram_status_text(vram_status status) {
    return vr_status_text(status);
}

bool vram_status_is_exhausted(vram_status status) {
    return vr_status_is_exhausted(status);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/quota_list.h"

#include "base/size_text.h"
#include "base/text.h"

#include <string.h>

bool vr_tag_name_is_valid(const char *name, size_t bytes) {
    size_t levels = 1;
    bool good = bytes > 0 && bytes < VR_TAG_BYTES && name[0] != '/' && name[bytes - 1] != '/';
    for (size_t i = 0; good && i < bytes; i++) {
        unsigned char c = (unsigned char)name[i];
        levels += c == '/';
        good = c >= 0x20 && c != 0x7F && !(c == '/' && name[i + 1] == '/');
    }
    return good && levels <= VR_TAG_LEVELS;
}

/* "4G:6G" or "6G", `bytes` long. */
static bool read_sizes(const char *sizes, size_t bytes, uint64_t *soft, uint64_t *hard) {
    char text[64];
    if (bytes >= sizeof text) {
        return false;
    }
    memcpy(text, sizes, bytes);
    text[bytes] = '\0';
    char *second = strchr(text, ':');
    *soft = 0;
    if (second) {
        *second++ = '\0';
        if (vr_size_read(text, soft) != VRAM_OK) {
            return false;
        }
    }
    return vr_size_read(second ? second : text, hard) == VRAM_OK;
}

bool vr_quota_next(const char **text, struct vr_quota_entry *entry, const char **why) {
    const char *begin = *text;
    size_t bytes = strcspn(begin, ","), name = 0;
    *why = NULL;
    if (!*begin) {
        return false;
    }
    *text = begin + bytes + (begin[bytes] == ',');
    while (name < bytes && begin[name] != '=') {
        name++;
    }
    *entry = (struct vr_quota_entry){.name = begin, .name_bytes = bytes};
    if (name == bytes) {
        *why = "has no quota";
    } else if (!vr_tag_name_is_valid(begin, name)) {
        *why = "has no valid tag";
    } else if (!read_sizes(begin + name + 1, bytes - name - 1, &entry->soft, &entry->hard)) {
        *why = "has an unreadable size";
    } else if (entry->hard && entry->soft > entry->hard) {
        *why = "has a soft quota above its hard quota";
    } else {
        entry->name_bytes = name;
    }
    return !*why;
}

bool vr_quota_list_check(const char *text, char *clause, size_t clause_bytes) {
    struct vr_quota_entry entry;
    const char *why;
    while (vr_quota_next(&text, &entry, &why)) {
    }
    if (why) {
        vr_text_format(
            clause, clause_bytes,
            "\"%.*s\" %s; write tenant=4G:6G,tenant/model=2G, where 4G is the soft quota",
            (int)(entry.name_bytes < 48 ? entry.name_bytes : 48), entry.name, why);
    }
    return !why;
}

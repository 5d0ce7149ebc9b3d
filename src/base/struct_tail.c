/* SPDX-License-Identifier: Apache-2.0 */
/* struct_tail.c: option and info structs of any header version. */
#include "base/struct_tail.h"

#include "base/error.h"

vram_status vr_info_give(void *to, const void *from, size_t bytes, size_t oldest) {
    size_t size;
    if (!to) {
        return vr_fail(VRAM_ERR_INVALID, "the struct to fill is NULL");
    }
    memcpy(&size, to, sizeof size);
    if (size < oldest || size > (1u << 16)) {
        return vr_fail(VRAM_ERR_INVALID,
                       "the struct's size field is %zu; set it to sizeof the struct (%zu)", size,
                       bytes);
    }
    /* Fields that only a newer caller has read as zero, which means unknown; an older caller gets
       the fields that its struct has. */
    memset(to, 0, size);
    memcpy(to, from, size < bytes ? size : bytes);
    memcpy(to, &size, sizeof size);
    return VRAM_OK;
}

vram_status vr_options_take(void *to, size_t bytes, const void *from) {
    memset(to, 0, bytes);
    if (!from) {
        return VRAM_OK;
    }
    size_t size;
    memcpy(&size, from, sizeof size);
    if (size < sizeof size || size > (1u << 16)) {
        return vr_fail(VRAM_ERR_INVALID,
                       "the options' size field is %zu; set it to sizeof the struct (%zu)", size,
                       bytes);
    }
    if (!vr_tail_is_zero(from, bytes)) {
        return vr_fail(VRAM_ERR_INVALID,
                       "the options have %zu bytes, of which this version knows %zu, and the "
                       "others are not 0: they ask for something that this version cannot do",
                       size, bytes);
    }
    memcpy(to, from, size < bytes ? size : bytes);
    return VRAM_OK;
}

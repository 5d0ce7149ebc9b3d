/* SPDX-License-Identifier: Apache-2.0 */
/* setting.c: libvram's options by name. */
#include "compute/setting.h"

#include <assert.h>

void vr_setting_text(const char *name, char text[VR_SETTING_MAX]) {
    vram_status status = vram_option_get(name, text, VR_SETTING_MAX, NULL);
    assert(status == VRAM_OK && "there is no such option");
    (void)status;
}

uint64_t vr_setting_number(const char *name) {
    char text[VR_SETTING_MAX];
    uint64_t number = 0;
    vr_setting_text(name, text);
    (void)vram_size_parse(text, &number);
    return number;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* setting.h: libvram's options, as this library reads them: by name. */
#ifndef VR_SETTING_H
#define VR_SETTING_H

#include "vram/base.h"

enum { VR_SETTING_MAX = 256 }; /* bytes of a text, the final 0 included */

/* The present value of an option that there is: its text, or the number that it says. */
void vr_setting_text(const char *name, char text[VR_SETTING_MAX]);
uint64_t vr_setting_number(const char *name);

#endif

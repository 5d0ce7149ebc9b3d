/* SPDX-License-Identifier: Apache-2.0 */
/* setting.h: libvram's options, which this library reads by name. */
#ifndef VR_SETTING_H
#define VR_SETTING_H

#include "vram/base.h"

enum { VR_SETTING_MAX = 256 }; /* bytes of a text, the final 0 included */

/* The current value of an existing option: its text, or its number. */
void vr_setting_text(const char *name, char text[VR_SETTING_MAX]);
uint64_t vr_setting_number(const char *name);

#endif

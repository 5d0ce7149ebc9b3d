/* SPDX-License-Identifier: Apache-2.0 */
/* option_value.h: reads an option's text by the option's type. */
#ifndef VR_OPTION_VALUE_H
#define VR_OPTION_VALUE_H

#include "vram/base.h"

/*
 * Reads `text` as a value of the option `row`. `choices` lists the words that a text option
 * accepts, "off, error, warn", and is "" for all others. The number of a bool is 0 or 1, of a
 * choice its index in the list, of any other text 0.
 *
 * False if it cannot be used; then `why` is a clause that says what would be accepted. Records no
 * error: the caller knows where the text came from.
 */
bool vr_option_value_read(const vram_option_info *row, const char *choices, const char *text,
                          uint64_t *number, char *why, size_t why_bytes);

#endif

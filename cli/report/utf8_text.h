/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utf8_text.h: texts for formats that demand UTF-8. Names in a trace come from anywhere.
 */
#ifndef REPORT_UTF8_TEXT_H
#define REPORT_UTF8_TEXT_H

#include <stddef.h>

/* Copies a text; each byte that is not UTF-8 becomes '?'. At most `bytes` bytes, without a zero
   behind them, and no half characters. How many. */
size_t utf8_copy(const char *text, char *to, size_t bytes);

#endif

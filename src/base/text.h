/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.h: text for people, in buffers of fixed size. Drivers, environments and file names may
 * contain any bytes; what leaves the library is one line of valid UTF-8, never cut inside a
 * character.
 */
#ifndef VR_TEXT_H
#define VR_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the valid UTF-8 character at the start of `text`, 1 to 4, and its code; 0 if there is
   none: no bytes, overlong, a surrogate, above U+10FFFF, or incomplete. */
size_t vr_text_char(const char *text, size_t bytes, uint32_t *code);

/* Whether a character would move the cursor, end the line or turn its direction: C0, DEL, C1,
   U+2028 to U+202E, U+2066 to U+2069. */
bool vr_text_is_control(uint32_t code);

/* ASCII letters only, in every locale. */
char vr_text_lower(char c);
char vr_text_upper(char c);

/* Replaces each control character and each byte that is not UTF-8 by '?', in place. */
void vr_text_clean(char *text);

/* printf into `to`, always terminated, cleaned, and truncated at a whole character. False if
   truncated. */
bool vr_text_format(char *to, size_t to_bytes, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool vr_text_format_list(char *to, size_t to_bytes, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

/* Copies `from` unchanged, always terminated, truncated at a whole character. False if
   truncated. */
bool vr_text_copy(char *to, size_t to_bytes, const char *from);

/* The number of single-character changes (replace, delete, insert, swap two) from the first `bytes`
   bytes of `text` to `name`; for "did you mean". UINT32_MAX for anything over 63 bytes. */
uint32_t vr_text_distance(const char *text, size_t bytes, const char *name);

#endif

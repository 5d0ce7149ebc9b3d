/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.h: data goes to stdout and is checked, messages go to stderr.
 *
 * Verbs print with printf, terminal.h or the JSON writer and need not look at results: stdio keeps
 * the first failure, and main turns it into one line and exit code 2 through output_finish.
 */
#ifndef OUTPUT_H
#define OUTPUT_H

#include "json_out.h"

#include <stdbool.h>
#include <stdio.h>
#include <vram/vram.h>

/*
 * Makes descriptors 0, 1 and 2 safe before anything opens a file: a closed one is taken by a
 * descriptor that fails every read or write, so that no device file can land in its place. And a
 * write past the limit on file sizes fails from then on, as one to a full disk does, instead of
 * ending the process by SIGXFSZ. And the
 * exit code of a child is kept for this process, even if its parent ignored SIGCHLD.
 */
void output_start(void);

/* In a child that becomes another program: gives it these signals as this command found them. */
void output_start_program(void);

/* The exit code is another program's from now on: what is written is lost where nobody takes it. */
void output_beside_program(void);

/* Flushes stdout. False after one line on stderr when any of it could not be written or made,
   unless it stands beside a program. */
bool output_finish(void);

/* Zeroed memory for what is about to be written. NULL after output_cut. */
void *output_alloc(size_t count, size_t bytes);

/* Host memory ran out, and what is written lacks a part: says so, once, on stderr. The command goes
   on, and output_finish fails. */
void output_cut(void);

/* False after output_cut. */
bool output_is_whole(void);

/* One line on stderr: "vram: ...". Format without a line break. */
void say_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One line on stderr: "vram: warning: ...". */
void say_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The error record's text when it belongs to `status`, else the status's own. Borrowed. */
const char *failure_text(vram_status status);

/*
 * One line on stderr for a library call that failed: what was being done, the failure's text
 * and its name. Always returns EXIT_MISUSE.
 */
int say_failure(const char *doing, vram_status status);

/* Opens a file to write it anew. One that does not exist is made for this user alone, whatever the
   umask: what it tells about a program is for its owner to publish. NULL: errno says why. */
FILE *output_create(const char *path);

/* Starts a verb's JSON document on stdout: {"schema": schema, "version": the library's. */
void output_json_begin(struct json_out *json, const char *schema);

/* Ends it with } and a line break. False after one line on stderr when it is not whole. */
bool output_json_end(struct json_out *json);

/* Whether two paths are one regular file: what is read while it is written would be neither. */
bool is_same_file(const char *one, const char *other);

/* Why no new file may be renamed to this path; NULL: it names a plain file, or nothing. A device or
   a link would be gone: /dev/null for all programs. */
const char *replace_problem(const char *path);

/* Removes a file that is not whole; a device stays. */
void remove_file(const char *path);

#endif

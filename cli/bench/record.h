/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h: ratios of an earlier run, in a file that people and version control can read.
 *
 * One line for each kind of run and peer, "alloc pair 1024 1 0 host mimalloc 1.234": bench,
 * pattern, bytes, threads, live blocks, backend, peer, ratio. Times of two machines cannot be
 * compared, ratios to a peer of the same run can.
 */
#ifndef RECORD_H
#define RECORD_H

#include "bench/contest.h"

enum { RECORD_KEY_MAX = 160, RECORD_LINES_MAX = 4096 };

/* What a run is called in the file, without the ratio. Returns `key`. */
const char *record_key(const struct contest *contest, const char *backend, const struct entry *peer,
                       char key[RECORD_KEY_MAX]);

/*
 * Puts the ratios of all comparable peers into the file, in the place of those of the same keys;
 * other lines stay. False after one line on stderr.
 */
bool record_save(const char *path, const struct contest *contest, const char *backend);

/* The ratio under a key. 0: there is none. Negative after one line on stderr: no such file. */
double record_find(const char *path, const char *key);

#endif

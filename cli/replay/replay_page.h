/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay_page.h: replayed traces as an HTML page (viewer/page.h), with what each policy held.
 */
#ifndef REPLAY_PAGE_H
#define REPLAY_PAGE_H

#include "replay/picture.h"

/* The file that a trace came from; NULL: it was generated, or is one GPU of a snapshot. */
typedef const char *replay_file_fn(void *user, const struct trace *trace);

/* False after one line on stderr. A page that is not whole is removed. */
bool replay_page_write(const struct replay_report *report, const char *path,
                       const struct terminal *terminal, replay_file_fn *file_of, void *user);

#endif

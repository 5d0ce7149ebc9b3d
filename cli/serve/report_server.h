/* SPDX-License-Identifier: Apache-2.0 */
/* report_server.h: `vram report --serve`: a page in a browser, of a process or of a trace. */
#ifndef REPORT_SERVER_H
#define REPORT_SERVER_H

#include "verb.h"

/* Serves the live page of a process until it ends, or SIGINT or SIGTERM comes; `pid` 0: of the only
   one that has a live page. `port` 0: any that is free. Returns an exit_code. */
int serve_process(const struct invocation *invocation, uint64_t pid, uint64_t port);

/* Serves a file that `vram report --html` has written, which it removes, until either signal. */
int serve_file(const struct invocation *invocation, const char *path, uint64_t port);

#endif

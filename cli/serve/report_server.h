/* SPDX-License-Identifier: Apache-2.0 */
/* report_server.h: `vram report --serve`: a page in a browser, of a process or of a trace. */
#ifndef REPORT_SERVER_H
#define REPORT_SERVER_H

#include "verb.h"

/* Serves the live page of a process until it ends, or SIGINT or SIGTERM comes; `pid` 0: of the only
   one that has a live page. `port` 0: any that is free. Returns an exit_code. */
int serve_process(const struct invocation *invocation, uint64_t pid, uint64_t port);

/* Serves what `vram report --html` has written to this descriptor, until either signal comes. */
int serve_file(const struct invocation *invocation, int file, uint64_t port);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* server_none.c: server.h in a build without civetweb. */
#include "exporter/server.h"

#include <stdio.h>

struct server *server_begin(const char *listen, const struct exporter_options *options,
                            char problem[SERVER_PROBLEM_MAX]) {
    (void)listen;
    (void)options;
    snprintf(problem, SERVER_PROBLEM_MAX,
             "this build has no HTTP server: civetweb (libcivetweb-dev) was not there when it was "
             "made; --textfile works without");
    return NULL;
}

int server_port(const struct server *server) {
    (void)server;
    return 0;
}

void server_end(struct server *server) {
    (void)server;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* http_server_none.c: http_server.h in a build without civetweb. */
#include "http/http_server.h"

#include <stdio.h>

struct http_server *http_server_begin(const char *listen, http_answer_fn *answer, void *user,
                                      char problem[SERVER_PROBLEM_MAX]) {
    (void)listen;
    (void)answer;
    (void)user;
    snprintf(problem, SERVER_PROBLEM_MAX,
             "this build has no HTTP server: civetweb (libcivetweb-dev) was not there when it was "
             "made");
    return NULL;
}

int http_server_port(const struct http_server *server) {
    (void)server;
    return 0;
}

void http_server_end(struct http_server *server) {
    (void)server;
}

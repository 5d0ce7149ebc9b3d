/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h: the HTTP server of `vram exporter`: civetweb, or in a build without it a sentence that
 * says so.
 */
#ifndef SERVER_H
#define SERVER_H

#include "exporter/answer.h"

struct server;

enum { SERVER_PROBLEM_MAX = 384 };

/*
 * Starts to answer at "127.0.0.1:9865". NULL after one sentence in `problem`. The options must stay
 * valid until server_end.
 */
struct server *server_begin(const char *listen, const struct exporter_options *options,
                            char problem[SERVER_PROBLEM_MAX]);

/* The port that it listens on, which the system chose if it was 0. */
int server_port(const struct server *server);

/* Waits for requests that are being answered. NULL is allowed. */
void server_end(struct server *server);

#endif

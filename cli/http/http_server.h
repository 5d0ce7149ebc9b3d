/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_server.h: the HTTP server of `vram exporter` and `vram report --serve`: civetweb, or in a
 * build without it a sentence that says so.
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include "http/http_answer.h"

struct http_server;

enum { SERVER_PROBLEM_MAX = 384 };

/*
 * Starts to answer at "127.0.0.1:9865", by several threads. NULL after one sentence in `problem`.
 * `user` must stay valid until http_server_end.
 */
struct http_server *http_server_begin(const char *listen, http_answer_fn *answer, void *user,
                                      char problem[SERVER_PROBLEM_MAX]);

/* The port that it listens on, which the system chose if it was 0. */
int http_server_port(const struct http_server *server);

/* Waits for requests that are being answered. NULL is allowed. */
void http_server_end(struct http_server *server);

#endif

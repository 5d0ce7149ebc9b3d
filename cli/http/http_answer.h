/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_answer.h: a request, its answer, and what every server of the command checks. Knows nothing
 * of sockets, so that fuzzers can drive the answers.
 *
 * Everything a client sends is hostile. A web page that the user opens may have its name resolve to
 * 127.0.0.1 and then read what a local server answers (DNS rebinding); so a server answers only
 * requests whose header Host names an address, or a name that it expects.
 */
#ifndef HTTP_ANSWER_H
#define HTTP_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

enum { HTTP_HOST_MAX = 256 };

/* A request, as far as it matters. NULL: the client did not send it. */
struct http_request {
    const char *method; /* "GET" */
    const char *path;   /* without the query */
    const char *query;  /* behind the question mark */
    const char *host;   /* the header Host */
    const char *origin; /* the header Origin */
    const char *accept; /* the header Accept */
};

struct http_answer {
    int code;            /* of HTTP: 200, 404 */
    const char *type;    /* the media type; static */
    const char *allow;   /* the header Allow; NULL: none; static */
    const char *headers; /* more lines, each ended by \r\n; NULL: none; borrowed */
    const char *body;    /* NULL: out of memory */
    size_t body_bytes;
    char *owned; /* the body if it is of malloc; NULL: it is borrowed */
};

/* Answers a request. Called by several threads at the same time. http_answer_free is due. */
typedef void http_answer_fn(void *user, const struct http_request *request,
                            struct http_answer *answer);

/* A text that grows. After a failure it takes no more. */
struct http_body {
    char *text;
    size_t used, room;
    bool failed;
};

/* Adds to the body, `user`, a struct http_body. False: it failed, now or before. */
bool http_body_add(void *user, const char *text, size_t bytes);
/* Makes the body that of the answer; a body that failed becomes 500 and one line. */
void http_answer_body(struct http_answer *answer, const char *type, struct http_body *body);
/* One line of text. */
void http_answer_text(struct http_answer *answer, int code, const char *text);
/* Refuses every method but GET and HEAD. True: it was refused, and answered. */
bool http_answer_method(const struct http_request *request, struct http_answer *answer);
void http_answer_free(struct http_answer *answer);

/* The name in a header Host, without brackets and port. False: too long, or it is not one. */
bool http_host_name(const char *host, char name[HTTP_HOST_MAX]);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve_answer.h: what `vram report --serve` answers to a request (http/http_answer.h).
 *
 * The server shows command lines and call stacks, so it answers this user's browser alone:
 *
 *  (1) Only processes of this machine reach it: it listens at a loopback address.
 *  (2) Other users of the machine do not know the token, 128 random bits in the URL.
 *  (3) Pages of the web cannot use its name for their own: Host must be a loopback address or
 *      localhost, and Origin, where the browser sends one, the server itself.
 *  (4) Other pages can neither frame what it answers nor read it.
 */
#ifndef SERVE_ANSWER_H
#define SERVE_ANSWER_H

#include "http/http_answer.h"

#include <stdint.h>
#include <stdio.h>

enum { SERVE_TOKEN_MAX = 33 }; /* 32 digits and the final 0 */

struct serve_options {
    char token[SERVE_TOKEN_MAX];
    const char *page; /* HTML */
    size_t page_bytes;
    const char *headers; /* that the page is sent with; each ended by \r\n */
    /* Writes what the page asks for each second, JSON; NULL: it asks for nothing. False: it failed.
       See live_document_write for the numbers. */
    bool (*live)(void *user, uint64_t generation, uint64_t from, FILE *to);
    void *user;
};

/* Sent with every answer: (4). */
#define SERVE_HEADERS                                                                              \
    "Referrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\n"                                    \
    "Cross-Origin-Resource-Policy: same-origin\r\nCross-Origin-Opener-Policy: same-origin\r\n"

/* Chooses a token. False: the system gave no random numbers. */
bool serve_token_make(char token[SERVE_TOKEN_MAX]);

/* Answers a request: an http_answer_fn whose `user` is a `const struct serve_options *`. */
void serve_answer(void *user, const struct http_request *request, struct http_answer *answer);

#endif

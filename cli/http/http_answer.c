/* SPDX-License-Identifier: Apache-2.0 */
/* http_answer.c: see http_answer.h. */
#include "http/http_answer.h"

#include <stdlib.h>
#include <string.h>

enum { BODY_MAX = 256 << 20 };

bool http_body_add(void *user, const char *text, size_t bytes) {
    struct http_body *body = user;
    if (body->failed || bytes > BODY_MAX - body->used) {
        body->failed = true;
        return false;
    }
    if (body->used + bytes > body->room) {
        size_t room = body->room * 2 > body->used + bytes ? body->room * 2 : body->used + bytes;
        char *grown = realloc(body->text, room);
        if (grown == NULL) {
            body->failed = true;
            return false;
        }
        body->text = grown;
        body->room = room;
    }
    if (bytes > 0) { /* else there may be no memory yet */
        memcpy(body->text + body->used, text, bytes);
        body->used += bytes;
    }
    return true;
}

void http_answer_body(struct http_answer *answer, const char *type, struct http_body *body) {
    if (body->failed) {
        free(body->text);
        *body = (struct http_body){0};
        http_answer_text(answer, 500, "out of host memory");
        return;
    }
    answer->code = 200;
    answer->type = type;
    answer->body = answer->owned = body->text;
    answer->body_bytes = body->used;
}

void http_answer_text(struct http_answer *answer, int code, const char *text) {
    struct http_body body = {0};
    http_body_add(&body, text, strlen(text));
    http_body_add(&body, "\n", 1);
    if (body.failed) {
        free(body.text);
        body = (struct http_body){0};
    }
    answer->code = code;
    answer->type = "text/plain; charset=utf-8";
    answer->body = answer->owned = body.text;
    answer->body_bytes = body.used;
}

bool http_answer_method(const struct http_request *request, struct http_answer *answer) {
    const char *method = request->method != NULL ? request->method : "";
    if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0) {
        return false;
    }
    http_answer_text(answer, 405, "Only GET and HEAD are answered");
    answer->allow = "GET, HEAD";
    return true;
}

void http_answer_free(struct http_answer *answer) {
    free(answer->owned);
    *answer = (struct http_answer){0};
}

bool http_host_name(const char *host, char name[HTTP_HOST_MAX]) {
    bool bracket = host[0] == '[';
    const char *begin = bracket ? host + 1 : host;
    size_t bytes = strcspn(begin, bracket ? "]" : ":");
    const char *end = begin + bytes;
    if (bytes == 0 || bytes >= HTTP_HOST_MAX || (bracket && *end != ']')) {
        return false;
    }
    memcpy(name, begin, bytes);
    name[bytes] = 0;
    end += bracket;
    return *end == 0 || (*end == ':' && end[1 + strspn(end + 1, "0123456789")] == 0);
}

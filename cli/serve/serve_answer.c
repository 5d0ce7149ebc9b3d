/* SPDX-License-Identifier: Apache-2.0 */
/* serve_answer.c: see serve_answer.h. */
#include "serve/serve_answer.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#ifdef __APPLE__
#include <sys/random.h>
#endif

#define AGAIN "; use the URL that vram report --serve has printed"

bool serve_token_make(char token[SERVE_TOKEN_MAX]) {
    unsigned char bytes[(SERVE_TOKEN_MAX - 1) / 2];
    if (getentropy(bytes, sizeof bytes) != 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    }
    return true;
}

/* ----------------------------------------------------------------------- checks */

static bool is_loopback(const char *name) {
    static const unsigned char one[16] = {[15] = 1};
    unsigned char address[16];
    return strcasecmp(name, "localhost") == 0 ||
           (inet_pton(AF_INET, name, address) == 1 && address[0] == 127) ||
           (inet_pton(AF_INET6, name, address) == 1 && memcmp(address, one, sizeof one) == 0);
}

static bool host_is_ours(const char *host) {
    char name[HTTP_HOST_MAX];
    return host != NULL && http_host_name(host, name) && is_loopback(name);
}

/* Host may be that of a tunnel, with another port than ours; a page of ours has the same. */
static bool origin_is_ours(const char *origin, const char *host) {
    static const char scheme[] = "http://";
    return origin == NULL || (strncasecmp(origin, scheme, sizeof scheme - 1) == 0 &&
                              strcasecmp(origin + sizeof scheme - 1, host) == 0);
}

/* Takes the same time wherever they differ. NULL, or what follows the token and its slash. */
static const char *behind_token(const char *path, const char *token) {
    size_t bytes = strlen(token);
    unsigned char differ = 0;
    if (path == NULL || path[0] != '/' || strlen(path) < bytes + 2 || path[bytes + 1] != '/') {
        return NULL;
    }
    for (size_t i = 0; i < bytes; i++) {
        differ |= (unsigned char)(path[i + 1] ^ token[i]);
    }
    return differ == 0 ? path + bytes + 2 : NULL;
}

/* ----------------------------------------------------------------------- routes */

/* "generation=3&from=17", in any order; others are left alone. False: a value is not a number. */
static bool query_number(const char *query, const char *key, uint64_t *value) {
    size_t bytes = strlen(key);
    for (const char *at = query; at != NULL; at = strchr(at, '&')) {
        at += *at == '&';
        if (strncmp(at, key, bytes) == 0 && at[bytes] == '=') {
            const char *digits = at + bytes + 1;
            size_t count = strspn(digits, "0123456789");
            if (count == 0 || count > 18 || (digits[count] != 0 && digits[count] != '&')) {
                return false;
            }
            *value = strtoull(digits, NULL, 10);
            return true;
        }
    }
    return true;
}

static void answer_live(const struct serve_options *options, const char *query,
                        struct http_answer *answer) {
    uint64_t generation = 0, from = 0;
    char *text = NULL;
    size_t bytes = 0;
    if (!query_number(query, "generation", &generation) || !query_number(query, "from", &from)) {
        http_answer_text(answer, 400, "generation and from are numbers");
        return;
    }
    FILE *to = open_memstream(&text, &bytes);
    bool good = to != NULL && options->live(options->user, generation, from, to);
    good = to != NULL && fclose(to) == 0 && good;
    if (!good) {
        free(text);
        http_answer_text(answer, 500, "out of host memory");
        return;
    }
    answer->code = 200;
    answer->type = "application/json";
    answer->body = answer->owned = text;
    answer->body_bytes = bytes;
}

static void answer_route(const struct serve_options *options, const struct http_request *request,
                         const char *route, struct http_answer *answer) {
    if (route[0] == 0) {
        answer->code = 200;
        answer->type = "text/html; charset=utf-8";
        answer->body = options->page;
        answer->body_bytes = options->page_bytes;
        answer->headers = options->headers;
    } else if (strcmp(route, "live.json") == 0 && options->live != NULL) {
        answer_live(options, request->query, answer);
    } else {
        http_answer_text(answer, 404, "Not found" AGAIN);
    }
}

void serve_answer(void *user, const struct http_request *request, struct http_answer *answer) {
    const struct serve_options *options = user;
    const char *route = behind_token(request->path, options->token);
    *answer = (struct http_answer){0};
    if (!host_is_ours(request->host)) {
        http_answer_text(answer, 403, "This Host is not a loopback address" AGAIN);
    } else if (!origin_is_ours(request->origin, request->host)) {
        http_answer_text(answer, 403, "Pages of other servers are not answered" AGAIN);
    } else if (!http_answer_method(request, answer)) {
        if (route == NULL) {
            http_answer_text(answer, 403, "The token in the URL is missing or wrong" AGAIN);
        } else {
            answer_route(options, request, route, answer);
        }
    }
    answer->headers = answer->headers != NULL ? answer->headers : SERVE_HEADERS;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_serve.c: what `vram report --serve` answers to any request. The input is five lines: method,
 * path, query, Host and Origin; TOKEN in the path stands for the token.
 */
#include "fuzz.h"
#include "serve/serve_answer.h"

#include <string.h>
#include <strings.h>

static const char fuzz_words[] =
    " GET HEAD POST /TOKEN/ /TOKEN/live.json generation= from= & 18446744073709551616 localhost"
    " 127.0.0.1:80 [::1]:80 evil.example http:// http://localhost null \n ..";

enum { METHOD, PATH, QUERY, HOST, ORIGIN, FIELDS };

static const char page[] = "<p>page</p>";
static const char secret[] = "{\"secret\": 1}";
static bool live_asked;

/* Fails for one generation. */
static bool live(void *user, uint64_t generation, uint64_t from, FILE *to) {
    (void)user;
    live_asked = true;
    FUZZ_EXPECT(generation < UINT64_C(1000000000000000000) && from < UINT64_C(1000000000000000000));
    return fputs(secret, to) >= 0 && generation != 7;
}

/* Written anew, not as the server does it: an attacker's name for the same machine is refused. */
static bool host_is_local(const char *host) {
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; host != NULL && i < sizeof names / sizeof names[0]; i++) {
        size_t bytes = strlen(names[i]);
        if (strncasecmp(host, names[i], bytes) == 0 && (host[bytes] == 0 || host[bytes] == ':')) {
            return true;
        }
    }
    return host != NULL && (strncmp(host, "127.", 4) == 0 || host[0] == '[');
}

static void expect(const struct serve_options *options, const struct http_request *request) {
    struct http_answer answer;
    char path[SERVE_TOKEN_MAX + 16];
    live_asked = false;
    serve_answer((void *)(uintptr_t)options, request, &answer);
    FUZZ_EXPECT(answer.type != NULL && answer.body != NULL && answer.body_bytes > 0);
    FUZZ_EXPECT(answer.headers != NULL && strstr(answer.headers, "X-Frame-Options: DENY") != NULL);
    bool read = request->method != NULL &&
                (strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0);
    bool allowed =
        read && host_is_local(request->host) &&
        (request->origin == NULL || (strncasecmp(request->origin, "http://", 7) == 0 &&
                                     strcasecmp(request->origin + 7, request->host) == 0));
    snprintf(path, sizeof path, "/%s/", options->token);
    bool told = request->path != NULL && strncmp(request->path, path, strlen(path)) == 0;
    FUZZ_EXPECT(answer.code != 200 || (allowed && told));
    FUZZ_EXPECT(!live_asked || (allowed && told));
    if (answer.code == 200) {
        FUZZ_EXPECT(live_asked ? strncmp(answer.body, secret, sizeof secret - 1) == 0
                               : answer.body == page);
    }
    http_answer_free(&answer);
}

/* The field with the token where TOKEN stands. */
static void token_put(const char *token, const char *from, char to[FUZZ_FIELD_BYTES * 2]) {
    const char *at = strstr(from, "TOKEN");
    size_t before = at != NULL ? (size_t)(at - from) : strlen(from);
    snprintf(to, FUZZ_FIELD_BYTES * 2, "%.*s%s%s", (int)before, from, at != NULL ? token : "",
             at != NULL ? at + 5 : "");
}

static int fuzz_take(const uint8_t *data, size_t bytes) {
    static struct fuzz_field fields[FIELDS];
    char path[FUZZ_FIELD_BYTES * 2];
    fuzz_fields(data, bytes, fields, FIELDS);
    struct serve_options options = {
        .page = page, .page_bytes = sizeof page - 1, .headers = SERVE_HEADERS, .live = live};
    FUZZ_EXPECT(serve_token_make(options.token) && strlen(options.token) == SERVE_TOKEN_MAX - 1);
    token_put(options.token, fields[PATH].text, path);
    struct http_request request = {.method = fields[METHOD].given,
                                   .path = fields[PATH].given ? path : NULL,
                                   .query = fields[QUERY].given,
                                   .host = fields[HOST].given,
                                   .origin = fields[ORIGIN].given};
    expect(&options, &request);
    options.token[0] = options.token[0] == '0' ? '1' : '0'; /* the client knows another */
    expect(&options, &request);
    options.live = NULL;
    expect(&options, &request);
    return 0;
}

FUZZ_TARGET(serve, .split = fuzz_split_lines)

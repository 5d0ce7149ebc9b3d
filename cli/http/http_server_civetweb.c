/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_server_civetweb.c: http_server.h with civetweb.
 *
 * No document root is set, and every request is answered before civetweb would look for a file: it
 * serves none and lists none. Each connection has one of a few threads, one request and a deadline;
 * further ones wait in a short queue, and then in the kernel's.
 */
#include "http/http_server.h"

#include <civetweb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define THREADS       "128"   /* connections at the same time: silent ones hold a thread each */
#define QUEUE         "32"    /* that wait for a thread */
#define REQUEST_BYTES "16384" /* of a request's line and headers */
#define DEADLINE_MS   "1500"  /* for a client to send its request, and to take a piece */

enum {
    PIECE_BYTES = 64 << 10, /* of an answer */
    ANSWER_SECONDS = 60     /* for a client to take all of it */
};

struct http_server {
    struct mg_context *context;
    http_answer_fn *answer;
    void *user;
    char failure[128]; /* the first message while it starts: the cause of the others */
    bool started;
};

static const char *reason_of(int code) {
    switch (code) {
    case 200:
        return "OK";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    default:
        return "Internal Server Error";
    }
}

static void send_answer(struct mg_connection *connection, const struct http_answer *answer,
                        bool head_only) {
    mg_printf(connection,
              "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s%s%s%s"
              "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
              "Connection: close\r\n\r\n",
              answer->code, reason_of(answer->code), answer->type, answer->body_bytes,
              answer->allow != NULL ? "Allow: " : "", answer->allow != NULL ? answer->allow : "",
              answer->allow != NULL ? "\r\n" : "", answer->headers != NULL ? answer->headers : "");
    time_t end = time(NULL) + ANSWER_SECONDS;
    for (size_t sent = 0; !head_only && sent < answer->body_bytes && time(NULL) < end;) {
        size_t left = answer->body_bytes - sent;
        size_t piece = left < PIECE_BYTES ? left : PIECE_BYTES;
        if (mg_write(connection, answer->body + sent, piece) != (int)piece) {
            return; /* the client is gone, or takes nothing */
        }
        sent += piece;
    }
}

/* A header that the answer depends on. One that is there twice is a text that nobody accepts: a
   proxy in front may have looked at the other one. */
static const char *header_of(const struct mg_request_info *info, const char *name) {
    const char *found = NULL;
    for (int i = 0; i < info->num_headers; i++) {
        if (strcasecmp(info->http_headers[i].name, name) == 0) {
            found = found == NULL ? info->http_headers[i].value : ",";
        }
    }
    return found;
}

/* Not 0: the request was answered. */
static int on_request(struct mg_connection *connection) {
    const struct mg_request_info *info = mg_get_request_info(connection);
    const struct http_server *server = mg_get_user_data(mg_get_context(connection));
    struct http_request request = {.method = info->request_method,
                                   .path = info->local_uri,
                                   .query = info->query_string,
                                   .host = header_of(info, "Host"),
                                   .origin = header_of(info, "Origin"),
                                   .accept = mg_get_header(connection, "Accept")};
    struct http_answer answer;
    server->answer(server->user, &request, &answer);
    send_answer(connection, &answer,
                info->request_method != NULL && strcmp(info->request_method, "HEAD") == 0);
    int code = answer.code;
    http_answer_free(&answer);
    return code;
}

/* What civetweb refuses by itself, such as a request that is too large, gets a plain answer too. */
static int on_error(struct mg_connection *connection, int code, const char *text) {
    (void)text;
    mg_printf(connection, "HTTP/1.1 %d Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
              code);
    return 0;
}

/* civetweb's messages about clients are no concern of the user, and it writes a file else. Why it
   does not start it says in a message alone: "cannot bind to 80: 13 (Permission denied)". */
static int on_message(const struct mg_connection *connection, const char *message) {
    struct http_server *server = mg_get_user_data(mg_get_context(connection));
    if (!server->started && server->failure[0] == 0) {
        const char *reason = strrchr(message, '(');
        size_t bytes = reason != NULL ? strcspn(reason + 1, ")") : strlen(message);
        snprintf(server->failure, sizeof server->failure, "%.*s", (int)bytes,
                 reason != NULL ? reason + 1 : message);
    }
    return 1;
}

struct http_server *http_server_begin(const char *listen, http_answer_fn *answer, void *user,
                                      char problem[SERVER_PROBLEM_MAX]) {
    static const struct mg_callbacks callbacks = {
        .begin_request = on_request, .http_error = on_error, .log_message = on_message};
    const char *settings[] = {"listening_ports",
                              listen,
                              "num_threads",
                              THREADS,
                              "connection_queue",
                              QUEUE,
                              "max_request_size",
                              REQUEST_BYTES,
                              "request_timeout_ms",
                              DEADLINE_MS,
                              "enable_keep_alive",
                              "no",
                              "enable_directory_listing",
                              "no",
                              NULL};
    struct http_server *server = calloc(1, sizeof *server);
    if (server == NULL) {
        snprintf(problem, SERVER_PROBLEM_MAX, "out of host memory");
        return NULL;
    }
    server->answer = answer;
    server->user = user;
    struct mg_init_data start = {
        .callbacks = &callbacks, .user_data = server, .configuration_options = settings};
    mg_init_library(0);
    server->context = mg_start2(&start, NULL);
    if (server->context == NULL) {
        snprintf(problem, SERVER_PROBLEM_MAX, "cannot listen at %.100s: %s", listen,
                 server->failure[0] != 0 ? server->failure : "the port may be in use");
        mg_exit_library();
        free(server);
        return NULL;
    }
    server->started = true;
    return server;
}

int http_server_port(const struct http_server *server) {
    struct mg_server_port port;
    return mg_get_server_ports(server->context, 1, &port) == 1 ? port.port : 0;
}

void http_server_end(struct http_server *server) {
    if (server != NULL) {
        mg_stop(server->context);
        mg_exit_library();
        free(server);
    }
}

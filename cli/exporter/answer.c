/* SPDX-License-Identifier: Apache-2.0 */
/* answer.c: see answer.h. */
#include "exporter/answer.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { HOST_MAX = 256, BODY_MAX = 256 << 20 };

/* ------------------------------------------------------------------------- body */

/* A text that grows. After a failure it has no bytes and takes no more. */
struct body {
    char *text;
    size_t used, room;
    bool failed;
};

static bool body_add(void *user, const char *text, size_t bytes) {
    struct body *body = user;
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
    memcpy(body->text + body->used, text, bytes);
    body->used += bytes;
    return true;
}

static void answer_text(struct exporter_answer *answer, int code, const char *text) {
    struct body body = {0};
    body_add(&body, text, strlen(text));
    body_add(&body, "\n", 1);
    if (body.failed) {
        free(body.text);
        body = (struct body){0};
    }
    answer->code = code;
    answer->type = "text/plain; charset=utf-8";
    answer->body = body.text;
    answer->body_bytes = body.used;
}

void exporter_answer_free(struct exporter_answer *answer) {
    free(answer->body);
    answer->body = NULL;
    answer->body_bytes = 0;
}

/* ------------------------------------------------------------------------- host */

static bool is_address(const char *name) {
    unsigned char address[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

/* The name without brackets and port. False: too long, or what follows is no port. */
static bool host_name(const char *host, char name[HOST_MAX]) {
    bool bracket = host[0] == '[';
    const char *begin = bracket ? host + 1 : host;
    size_t bytes = strcspn(begin, bracket ? "]" : ":");
    const char *end = begin + bytes;
    if (bytes == 0 || bytes >= HOST_MAX || (bracket && *end != ']')) {
        return false;
    }
    memcpy(name, begin, bytes);
    name[bytes] = 0;
    end += bracket;
    return *end == 0 || (*end == ':' && end[1 + strspn(end + 1, "0123456789")] == 0);
}

bool exporter_host_allowed(const struct exporter_options *options, const char *host) {
    char name[HOST_MAX];
    if (host == NULL || !host_name(host, name)) {
        return false;
    }
    bool allowed = is_address(name) || strcasecmp(name, "localhost") == 0;
    for (size_t i = 0; i < options->host_count && !allowed; i++) {
        allowed = strcmp(options->hosts[i], "*") == 0 || strcasecmp(options->hosts[i], name) == 0;
    }
    return allowed;
}

/* --------------------------------------------------------------------- requests */

/* Prometheus sends "application/openmetrics-text;version=1.0.0;q=0.5,...;q=0.2,*" if it reads
   both, and always prefers OpenMetrics. */
vram_metrics_format exporter_format(const char *accept) {
    return accept != NULL && strstr(accept, "application/openmetrics-text") != NULL
               ? VRAM_METRICS_OPENMETRICS
               : VRAM_METRICS_PROMETHEUS;
}

static void answer_metrics(const struct exporter_options *options, const char *accept,
                           struct exporter_answer *answer) {
    vram_metrics_format format = exporter_format(accept);
    char problem[256] = "out of host memory";
    struct body body = {0};
    bool good = options->metrics(options->user, format, body_add, &body, problem, sizeof problem);
    if (!good || body.failed) {
        free(body.text);
        answer_text(answer, 500, problem);
        return;
    }
    answer->code = 200;
    answer->type = format == VRAM_METRICS_OPENMETRICS ? VRAM_METRICS_OPENMETRICS_TYPE
                                                      : VRAM_METRICS_PROMETHEUS_TYPE;
    answer->body = body.text;
    answer->body_bytes = body.used;
}

static const char front_page[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>vram exporter</title>"
    "</head>\n<body><h1>vram exporter</h1>\n<p><a href=\"/metrics\">Metrics</a> of every process "
    "that uses libvram.</p></body></html>";

void exporter_answer(const struct exporter_options *options, const struct exporter_request *request,
                     struct exporter_answer *answer) {
    *answer = (struct exporter_answer){0};
    const char *path = request->path != NULL ? request->path : "";
    const char *method = request->method != NULL ? request->method : "";
    if (!exporter_host_allowed(options, request->host)) {
        answer_text(answer, 403,
                    "This Host is not allowed. Use an address, or start vram exporter with --host");
    } else if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        answer_text(answer, 405, "Only GET and HEAD are answered");
        answer->allow = "GET, HEAD";
    } else if (strcmp(path, "/metrics") == 0) {
        answer_metrics(options, request->accept, answer);
    } else if (strcmp(path, "/-/healthy") == 0) {
        answer_text(answer, 200, "OK");
    } else if (strcmp(path, "/") == 0) {
        answer_text(answer, 200, front_page);
        answer->type = "text/html; charset=utf-8";
    } else {
        answer_text(answer, 404, "Not found. The metrics are at /metrics");
    }
}

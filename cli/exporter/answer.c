/* SPDX-License-Identifier: Apache-2.0 */
/* answer.c: see answer.h. */
#include "exporter/answer.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ------------------------------------------------------------------------- host */

static bool is_address(const char *name) {
    unsigned char address[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

bool exporter_host_allowed(const struct exporter_options *options, const char *host) {
    char name[HTTP_HOST_MAX];
    if (host == NULL || !http_host_name(host, name)) {
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
                           struct http_answer *answer) {
    vram_metrics_format format = exporter_format(accept);
    char problem[256] = "out of host memory";
    struct http_body body = {0};
    if (!options->metrics(options->user, format, http_body_add, &body, problem, sizeof problem)) {
        free(body.text);
        http_answer_text(answer, 500, problem);
        return;
    }
    http_answer_body(answer,
                     format == VRAM_METRICS_OPENMETRICS ? VRAM_METRICS_OPENMETRICS_TYPE
                                                        : VRAM_METRICS_PROMETHEUS_TYPE,
                     &body);
}

static const char front_page[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>vram exporter</title>"
    "</head>\n<body><h1>vram exporter</h1>\n<p><a href=\"/metrics\">Metrics</a> of every process "
    "that uses libvram.</p></body></html>";

void exporter_answer(void *user, const struct http_request *request, struct http_answer *answer) {
    const struct exporter_options *options = user;
    *answer = (struct http_answer){0};
    const char *path = request->path != NULL ? request->path : "";
    if (!exporter_host_allowed(options, request->host)) {
        http_answer_text(
            answer, 403,
            "This Host is not allowed. Use an address, or start vram exporter with --host");
    } else if (http_answer_method(request, answer)) {
        return;
    } else if (strcmp(path, "/metrics") == 0) {
        answer_metrics(options, request->accept, answer);
    } else if (strcmp(path, "/-/healthy") == 0) {
        http_answer_text(answer, 200, "OK");
    } else if (strcmp(path, "/") == 0) {
        http_answer_text(answer, 200, front_page);
        answer->type = "text/html; charset=utf-8";
    } else {
        http_answer_text(answer, 404, "Not found. The metrics are at /metrics");
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer.h: what the exporter answers to a request (http/http_answer.h). The header Host must name
 * an address, localhost, this machine, or a name that the user has allowed.
 */
#ifndef ANSWER_H
#define ANSWER_H

#include "http/http_answer.h"

#include <vram/metrics.h>

enum { ALLOWED_HOSTS_MAX = 32 };

struct exporter_options {
    const char *hosts[ALLOWED_HOSTS_MAX]; /* names besides addresses; "*": any */
    size_t host_count;
    /* Writes all metrics. False: it failed, and `problem` says why. */
    bool (*metrics)(void *user, vram_metrics_format format, vram_write_fn *write, void *to,
                    char *problem, size_t problem_bytes);
    void *user;
};

/* Answers a request: an http_answer_fn whose `user` is a `const struct exporter_options *`. */
void exporter_answer(void *user, const struct http_request *request, struct http_answer *answer);

/* Whether a request with this header Host may be answered. */
bool exporter_host_allowed(const struct exporter_options *options, const char *host);

/* The format that the header Accept asks for; NULL: Prometheus' own. */
vram_metrics_format exporter_format(const char *accept);

#endif

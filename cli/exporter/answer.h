/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer.h: what the exporter answers to a request. Knows nothing of sockets, so that a fuzzer can
 * drive it.
 *
 * Everything a client sends is hostile. A web page that the user opens may have its name resolve to
 * 127.0.0.1 and then read what a local server answers; so a request must name, in its header Host,
 * an address, localhost, this machine, or a name that the user has allowed.
 */
#ifndef ANSWER_H
#define ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <vram/metrics.h>

/* A request, as far as it matters. NULL: the client did not send it. */
struct exporter_request {
    const char *method; /* "GET" */
    const char *path;   /* without the query */
    const char *host;   /* the header Host */
    const char *accept; /* the header Accept */
};

enum { ALLOWED_HOSTS_MAX = 32 };

struct exporter_options {
    const char *hosts[ALLOWED_HOSTS_MAX]; /* names besides addresses; "*": any */
    size_t host_count;
    /* Writes all metrics. False: it failed, and `problem` says why. */
    bool (*metrics)(void *user, vram_metrics_format format, vram_write_fn *write, void *to,
                    char *problem, size_t problem_bytes);
    void *user;
};

struct exporter_answer {
    int code;          /* of HTTP: 200, 404 */
    const char *type;  /* the media type; static */
    const char *allow; /* the header Allow; NULL: none */
    char *body;        /* of malloc; NULL: out of memory */
    size_t body_bytes;
};

/* Answers a request; exporter_answer_free afterwards. */
void exporter_answer(const struct exporter_options *options, const struct exporter_request *request,
                     struct exporter_answer *answer);
void exporter_answer_free(struct exporter_answer *answer);

/* Whether a request with this header Host may be answered. */
bool exporter_host_allowed(const struct exporter_options *options, const char *host);

/* The format that the header Accept asks for; NULL: Prometheus' own. */
vram_metrics_format exporter_format(const char *accept);

#endif

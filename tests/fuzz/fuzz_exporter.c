/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_exporter.c: what the exporter answers to any request. The input is four lines: method, path,
 * Host and Accept.
 */
#include "exporter/answer.h"
#include "fuzz.h"

#include <string.h>

static const char fuzz_words[] =
    " GET HEAD POST /metrics /-/healthy / localhost [::1]:9865 127.0.0.1:9865 a.example \n"
    " application/openmetrics-text .. :";

enum { METHOD, PATH, HOST, ACCEPT, FIELDS };

static const char body[] = "vram_process_pools{pid=\"1\"} 1\n";

/* Fails now and then, as reading pages may. */
static bool metrics(void *user, vram_metrics_format format, vram_write_fn *write, void *to,
                    char *problem, size_t problem_bytes) {
    const bool *fail = user;
    FUZZ_EXPECT(format == VRAM_METRICS_OPENMETRICS || format == VRAM_METRICS_PROMETHEUS);
    snprintf(problem, problem_bytes, "it failed");
    return write(to, body, sizeof body - 1) && !*fail;
}

/* The answer is whole, and metrics go out for one path and allowed hosts alone. */
static void expect(struct exporter_options *options, const struct http_request *request,
                   bool fail) {
    struct http_answer answer;
    exporter_answer(options, request, &answer);
    FUZZ_EXPECT(answer.type != NULL && answer.body != NULL && answer.body_bytes > 0);
    bool served = answer.code == 200 && answer.body_bytes == sizeof body - 1 &&
                  memcmp(answer.body, body, sizeof body - 1) == 0;
    bool allowed = exporter_host_allowed(options, request->host);
    bool asked = request->path && strcmp(request->path, "/metrics") == 0 && request->method &&
                 (strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0);
    FUZZ_EXPECT(served == (allowed && asked && !fail));
    FUZZ_EXPECT(allowed || answer.code == 403);
    http_answer_free(&answer);
}

static int fuzz_take(const uint8_t *data, size_t bytes) {
    static struct fuzz_field fields[FIELDS];
    bool fail = bytes > 0 && data[0] == '!';
    struct exporter_options options = {
        .hosts = {"a.example"}, .host_count = 1, .metrics = metrics, .user = &fail};
    fuzz_fields(data, bytes, fields, FIELDS);
    struct http_request request = {.method = fields[METHOD].given,
                                   .path = fields[PATH].given,
                                   .host = fields[HOST].given,
                                   .accept = fields[ACCEPT].given};
    expect(&options, &request, fail);
    /* A name that merely ends or begins as an allowed one is another name. */
    FUZZ_EXPECT(!exporter_host_allowed(&options, "a.example.evil") &&
                !exporter_host_allowed(&options, "xa.example"));
    return 0;
}

FUZZ_TARGET(exporter, .split = fuzz_split_lines)

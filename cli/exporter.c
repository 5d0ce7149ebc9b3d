/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exporter.c: `vram exporter`: the metrics of every process that uses libvram, over HTTP, or in a
 * file for node_exporter.
 */
#include "ending.h"
#include "exporter/answer.h"
#include "exporter/page_metrics.h"
#include "http/http_server.h"
#include "verb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LISTEN_DEFAULT "127.0.0.1:9865"
#define SECOND_NS      UINT64_C(1000000000)

enum { INTERVAL_DEFAULT_S = 15, INTERVAL_MAX_S = 86400, LISTEN_MAX = 128 };

/* Civetweb takes all of "127.0.0.1:80", "[::1]:80" and "80"; the last would be every address. */
static bool listen_address(const char *given, char address[LISTEN_MAX]) {
    bool port_only = given[0] != 0 && given[strspn(given, "0123456789")] == 0;
    const char *colon = strrchr(given, ':');
    const char *port = port_only ? given : colon != NULL && colon != given ? colon + 1 : "";
    bool bare_v6 = colon != NULL && strchr(given, ':') != colon && given[0] != '[';
    char *end;
    unsigned long number = strtoul(port, &end, 10);
    if (bare_v6 || port[0] < '0' || port[0] > '9' || *end != 0 || number > 65535 ||
        given[strcspn(given, ", ")] != 0 ||
        snprintf(address, LISTEN_MAX, "%s%s", port_only ? "127.0.0.1:" : "", given) >= LISTEN_MAX) {
        say_error("--listen takes ADDRESS:PORT, such as %s, not \"%.80s\"", LISTEN_DEFAULT, given);
        return false;
    }
    return true;
}

static bool is_loopback(const char *address) {
    return strncmp(address, "127.", 4) == 0 || strncmp(address, "[::1]:", 6) == 0;
}

/* The folder of --pages; NULL: all folders of the user. It is only read. */
static void *pages_folder(const struct invocation *invocation) {
    return (void *)(uintptr_t)flag_value(invocation, "pages");
}

/* Where the metrics are: at an address, of which `bytes` count, or in a file. */
static void say_started(const struct invocation *invocation, int bytes, const char *address,
                        int port, const char *path) {
    char url[LISTEN_MAX + 32];
    snprintf(url, sizeof url, "http://%.*s:%d/metrics", bytes, address, port);
    if (invocation->json) {
        struct json_out json;
        output_json_begin(&json, "vram.exporter/1");
        json_text(&json, "url", path == NULL ? url : NULL);
        json_text(&json, "file", path);
        output_json_end(&json);
    } else if (path == NULL) {
        printf("metrics at %s\n", url);
    }
    fflush(stdout);
}

static int serve(const struct invocation *invocation, const sigset_t *ending) {
    static char own_name[256];
    struct exporter_options options = {.metrics = page_metrics_write,
                                       .user = pages_folder(invocation)};
    const char *hosts[REPEATED_MAX];
    const char *given = flag_value(invocation, "listen");
    char address[LISTEN_MAX], problem[SERVER_PROBLEM_MAX];
    if (!listen_address(given != NULL ? given : LISTEN_DEFAULT, address)) {
        return EXIT_MISUSE;
    }
    size_t count = flag_values(invocation, "host", hosts);
    for (size_t i = 0; i < count && options.host_count < ALLOWED_HOSTS_MAX - 1; i++) {
        options.hosts[options.host_count++] = hosts[i];
    }
    if (gethostname(own_name, sizeof own_name - 1) == 0 && own_name[0] != 0) {
        options.hosts[options.host_count++] = own_name;
    }
    struct http_server *server = http_server_begin(address, exporter_answer, &options, problem);
    if (server == NULL) {
        say_error("%s; --listen takes another address and port, and --textfile needs none",
                  problem);
        return EXIT_MISUSE;
    }
    char *colon = strrchr(address, ':');
    if (!is_loopback(address)) {
        say_warning("everyone who reaches %s can read the command lines and figures of processes",
                    address);
    }
    say_started(invocation, (int)(colon - address), address, http_server_port(server), NULL);
    while (!ending_wait(ending, INTERVAL_MAX_S * SECOND_NS)) {
    }
    http_server_end(server);
    return EXIT_YES;
}

/* Once, or again and again: a failure then is said and may pass, as a full disk does. */
static int save(const struct invocation *invocation, const sigset_t *ending, uint64_t interval) {
    const char *path = flag_value(invocation, "textfile");
    bool once = flag_given(invocation, "once"), first = true, good;
    size_t bytes = strlen(path);
    char problem[256];
    if (bytes < 5 || strcmp(path + bytes - 5, ".prom") != 0) {
        say_warning("node_exporter reads only files whose names end in .prom");
    }
    do {
        const char *kept = replace_problem(path);
        good = kept == NULL &&
               page_metrics_save(path, pages_folder(invocation), problem, sizeof problem);
        if (!good) {
            say_error("cannot write %.200s: %s", path, kept != NULL ? kept : problem);
        } else if (first) {
            say_started(invocation, 0, "", 0, path);
            first = false;
        }
    } while (!once && !ending_wait(ending, interval * SECOND_NS));
    return good || !once ? EXIT_YES : EXIT_MISUSE;
}

static bool write_stdout(void *user, const char *text, size_t bytes) {
    (void)user;
    return fwrite(text, 1, bytes, stdout) == bytes;
}

static int print_once(const struct invocation *invocation) {
    char problem[256];
    if (!page_metrics_write(pages_folder(invocation), VRAM_METRICS_PROMETHEUS, write_stdout, NULL,
                            problem, sizeof problem)) {
        say_error("cannot write the metrics: %s", problem);
        return EXIT_MISUSE;
    }
    return EXIT_YES;
}

static int run(struct invocation *invocation) {
    uint64_t interval = INTERVAL_DEFAULT_S;
    bool file = flag_given(invocation, "textfile");
    if (!flag_number(invocation, "interval", 1, INTERVAL_MAX_S, &interval)) {
        return EXIT_MISUSE;
    }
    if (invocation->json && flag_given(invocation, "once") && !file) {
        say_error("metrics are not JSON; `vram top --json` writes the same figures as JSON");
        return EXIT_MISUSE;
    }
    if (file && (flag_given(invocation, "listen") || flag_given(invocation, "host"))) {
        say_error("--textfile writes a file and serves nothing: leave out --listen and --host");
        return EXIT_MISUSE;
    }
    if (flag_given(invocation, "once") && !file) {
        return print_once(invocation);
    }
    sigset_t ending;
    ending_begin(&ending);
    return file ? save(invocation, &ending, interval) : serve(invocation, &ending);
}

static const struct flag flags[] = {
    {.name = "listen",
     .letter = 'l',
     .value = "ADDRESS:PORT",
     .help = "answer at this address, " LISTEN_DEFAULT " if not given; port 0: any that is free"},
    {.name = "host",
     .value = "NAME",
     .help = "answer requests for this host name too, or with \"*\" for any; may be repeated",
     .repeats = true},
    {.name = "textfile",
     .letter = 'f',
     .value = "PATH",
     .help = "serve nothing; write this file for node_exporter, and replace it at each interval"},
    FLAG_PAGES,
    {.name = "interval",
     .letter = 'i',
     .value = "SECONDS",
     .help = "how often the file is written, 15 if not given"},
    {.name = "once",
     .letter = '1',
     .help = "write the metrics once, to the file or to standard output, and end"},
    FLAG_END,
};

const struct verb verb_exporter = {
    .name = "exporter",
    .summary = "Export the metrics of every process that uses libvram, for Prometheus",
    .usage = "[OPTION]...",
    .examples = "vram exporter                         # http://127.0.0.1:9865/metrics\n"
                "vram exporter --once | grep vram_pool_held_bytes\n"
                "vram exporter --listen 0.0.0.0:9865 --host gpu1.example.org\n"
                "vram exporter --textfile /var/lib/prometheus/node-exporter/vram.prom\n",
    .flags = flags,
    .run = run,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* report_server.c: see report_server.h. */
#include "serve/report_server.h"

#include "ending.h"
#include "http/http_server.h"
#include "serve/live_watch.h"
#include "serve/serve_answer.h"
#include "viewer/generated/serve_page.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)
#define SAMPLE_NS (SECOND_NS / 10)
#define LINGER_NS (5 * SECOND_NS / 2) /* pages ask each second: time to be told of the end */

enum { FILE_BYTES_MAX = 1 << 30 };

/* ------------------------------------------------------------------------ serving */

static void say_url(const struct invocation *invocation, const struct http_server *server,
                    const struct serve_options *options, uint64_t pid) {
    char url[128];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/%s/", http_server_port(server), options->token);
    if (invocation->json) {
        struct json_out json;
        output_json_begin(&json, "vram.report.serve/1");
        json_text(&json, "url", url);
        json_value(&json, "pid", (vram_value){.value = pid, .known = pid != 0});
        output_json_end(&json);
    } else {
        printf("%s\n", url);
    }
}

/* Starts the server. NULL after one line on stderr. */
static struct http_server *serve_begin(struct serve_options *options, uint64_t port) {
    char listen[32], problem[SERVER_PROBLEM_MAX];
    if (!serve_token_make(options->token)) {
        say_error("the system gives no random numbers: %s", strerror(errno));
        return NULL;
    }
    snprintf(listen, sizeof listen, "127.0.0.1:%" PRIu64, port);
    struct http_server *server = http_server_begin(listen, serve_answer, options, problem);
    if (server == NULL) {
        say_error("%s", problem);
    }
    return server;
}

/* -------------------------------------------------------------------- live pages */

/* Pages of running processes. */
struct page_count {
    uint64_t pid; /* of the first */
    uint64_t count;
    char list[120]; /* of the first few ids */
};

static bool page_note(void *user, const char *folder, struct page_view *view) {
    struct page_count *found = user;
    size_t used = strlen(found->list);
    (void)folder;
    if (found->count++ == 0) {
        found->pid = view->head.pid;
    }
    if (found->count <= 8) {
        snprintf(found->list + used, sizeof found->list - used, "%s%" PRIu64, used > 0 ? ", " : "",
                 view->head.pid);
    }
    page_view_free(view);
    return true;
}

/* The only process that can be meant; 0 after one line on stderr. */
static uint64_t choose_process(void) {
    struct page_count found = {0};
    struct pages_met met;
    pages_visit(page_note, &found, &met);
    if (found.count == 1) {
        return found.pid;
    }
    if (found.count == 0) {
        say_error("no process of this user has a live page: start a program that uses libvram, or "
                  "any by `vram run -- PROGRAM`; or name a trace");
    } else {
        say_error("%" PRIu64 " processes have live pages, choose one by --pid: %s%s (`vram top` "
                  "shows them)",
                  found.count, found.list, found.count > 8 ? ", ..." : "");
    }
    return 0;
}

/* The page as one text; NULL: out of memory. */
static char *page_join(size_t *bytes) {
    struct http_body body = {0};
    for (size_t i = 0; serve_page_text[i] != NULL; i++) {
        http_body_add(&body, serve_page_text[i], strlen(serve_page_text[i]));
    }
    *bytes = body.used;
    if (body.failed) {
        free(body.text);
        return NULL;
    }
    return body.text;
}

/* A process that is served. */
struct process_job {
    const struct invocation *invocation;
    uint64_t pid;
    char command[sizeof((vram_live_page *)0)->command];
    struct live_watch *watch;
    sigset_t ending;
};

static void say_ended(const struct process_job *job) {
    char size[VRAM_SIZE_TEXT_MAX], time[DURATION_TEXT_MAX];
    uint64_t since_ns, peak = live_watch_peak(job->watch, &since_ns);
    if (!job->invocation->json) {
        printf("process %" PRIu64 " has ended, %s after this began; it held %s at most\n", job->pid,
               duration_format(since_ns, time),
               peak == VRAM_LIVE_PAGE_UNKNOWN ? "an unknown amount" : vram_size_format(peak, size));
    }
    fflush(stdout);
}

/* Looks at the process until it ends, or a signal comes. */
static void watch_until_end(const struct process_job *job) {
    enum live_state state = LIVE_RUNS;
    while (state != LIVE_ENDED) {
        if (ending_wait(&job->ending, SAMPLE_NS)) {
            return;
        }
        state = live_watch_sample(job->watch);
    }
    say_ended(job);
    if (live_watch_is_read(job->watch)) {
        ending_wait(&job->ending, LINGER_NS);
    }
}

static int serve_watch(const struct process_job *job, uint64_t port) {
    struct serve_options options = {
        .headers = SERVE_HEADERS SERVE_PAGE_POLICY, .live = live_watch_write, .user = job->watch};
    char *page = page_join(&options.page_bytes);
    if (page == NULL) {
        say_error("out of host memory");
        return EXIT_MISUSE;
    }
    options.page = page;
    struct http_server *server = serve_begin(&options, port);
    if (server != NULL) {
        say_url(job->invocation, server, &options, job->pid);
        if (!job->invocation->json) {
            printf("process %" PRIu64 ": %s; Ctrl-C ends\n", job->pid, job->command);
        }
        if (fflush(stdout) == 0) { /* else nobody knows where; what ends the command says so */
            watch_until_end(job);
        }
    }
    http_server_end(server);
    free(page);
    return server != NULL ? EXIT_YES : EXIT_MISUSE;
}

int serve_process(const struct invocation *invocation, uint64_t pid, uint64_t port) {
    struct process_job job = {.invocation = invocation, .pid = pid != 0 ? pid : choose_process()};
    char problem[ATTACH_PROBLEM_MAX];
    struct attach_place place;
    struct page_view view;
    if (job.pid == 0) {
        return EXIT_MISUSE;
    }
    if (attach_find(job.pid, &place, &view, problem)) {
        memcpy(job.command, view.head.command, sizeof job.command);
        ending_begin(&job.ending);
        job.watch = live_watch_begin(&place, &view, problem);
    }
    if (job.watch == NULL) {
        say_error("%s", problem);
        return EXIT_MISUSE;
    }
    int code = serve_watch(&job, port);
    live_watch_end(job.watch);
    return code;
}

/* ------------------------------------------------------------------------ traces */

/* The whole file; NULL after one line on stderr. */
static char *file_take(int file, size_t *bytes) {
    struct stat about;
    char *text = NULL;
    size_t done = 0;
    *bytes = 0;
    if (fstat(file, &about) == 0 && about.st_size > 0 && about.st_size <= FILE_BYTES_MAX) {
        *bytes = (size_t)about.st_size;
        text = malloc(*bytes);
    }
    for (ssize_t some = 1; text != NULL && done < *bytes && some > 0;) {
        some = pread(file, text + done, *bytes - done, (off_t)done);
        done += some > 0 ? (size_t)some : 0;
        some = some < 0 && errno == EINTR ? 1 : some;
    }
    if (text == NULL || done < *bytes) {
        say_error("the page cannot be read back, or host memory ran out");
        free(text);
        return NULL;
    }
    return text;
}

int serve_file(const struct invocation *invocation, int file, uint64_t port) {
    /* The page itself says which script it allows; what its header says comes on top. */
    struct serve_options options = {.headers = SERVE_HEADERS
                                    "Content-Security-Policy: frame-ancestors 'none'\r\n"};
    sigset_t ending;
    char *page = file_take(file, &options.page_bytes);
    if (page == NULL) {
        return EXIT_MISUSE;
    }
    options.page = page;
    ending_begin(&ending);
    struct http_server *server = serve_begin(&options, port);
    if (server != NULL) {
        say_url(invocation, server, &options, 0);
        if (!invocation->json) {
            printf("Ctrl-C ends\n");
        }
        bool said = fflush(stdout) == 0; /* else nobody knows where */
        while (said && !ending_wait(&ending, 3600 * SECOND_NS)) {
        }
    }
    http_server_end(server);
    free(page);
    return server != NULL ? EXIT_YES : EXIT_MISUSE;
}

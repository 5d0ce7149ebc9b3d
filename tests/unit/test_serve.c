/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_serve.c: what `vram report --serve` and `vram exporter` answer to requests of all kinds, and
 * how a process is watched.
 */
#include "exporter/answer.h"
#include "page_maker.h"
#include "rig/rig.h"
#include "serve/live_watch.h"
#include "serve/serve_answer.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---------------------------------------------------------------- the system */

static bool threads = true, random_numbers = true;
static _Atomic uint64_t later_s; /* what the clock is ahead */

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *user);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *user);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *user) {
    return threads ? __real_pthread_create(thread, attributes, run, user) : EAGAIN;
}

int __real_getentropy(void *to, size_t bytes);
int __wrap_getentropy(void *to, size_t bytes);
int __wrap_getentropy(void *to, size_t bytes) {
    return random_numbers ? __real_getentropy(to, bytes) : -1;
}

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
    int code = __real_clock_gettime(clock, now);
    now->tv_sec += (time_t)later_s;
    return code;
}

/* ------------------------------------------------------------------------- serving */

static struct {
    uint64_t generation, from;
    bool fails;
} asked;

static bool live(void *user, uint64_t generation, uint64_t from, FILE *to) {
    (void)user;
    asked.generation = generation;
    asked.from = from;
    fputs("{}", to);
    return !asked.fails;
}

static struct serve_options options = {
    .page = "page", .page_bytes = 4, .headers = "X: y\r\n", .live = live};

static int code_of(const char *path, const char *query, const char *host, const char *origin) {
    struct http_request request = {
        .method = "GET", .path = path, .query = query, .host = host, .origin = origin};
    struct http_answer answer;
    serve_answer(&options, &request, &answer);
    int code = answer.code;
    assert_non_null(answer.headers);
    http_answer_free(&answer);
    return code;
}

TEST(only_the_url_is_answered) {
    snprintf(options.token, sizeof options.token, "secret");
    static const struct {
        const char *path, *host, *origin;
        int code;
    } cases[] = {
        {"/secret/", "localhost:1", NULL, 200},
        {"/secret/", "127.9.9.9", NULL, 200},
        {"/secret/", "[::1]:80", NULL, 200},
        {"/secret/", "[::2]:80", NULL, 403},
        {"/secret/", "[::1%lo]", NULL, 403},
        {"/secret/", "10.0.0.1", NULL, 403},
        {"/secret/", "example.org", NULL, 403},
        {"/secret/", NULL, NULL, 403},
        {"/secret/", "[", NULL, 403},
        {"/secret/", "localhost:1", "http://LOCALHOST:1", 200},
        {"/secret/", "localhost:1", "http://localhost:2", 403},
        {"/secret/", "localhost:1", "https://localhost:1", 403},
        {"/secret/none", "localhost", NULL, 404},
        {"/secret/live.json", "localhost", NULL, 200},
        {"/secreT/", "localhost", NULL, 403},
        {"/secret", "localhost", NULL, 403},
        {"/secretx", "localhost", NULL, 403},
        {"secret//", "localhost", NULL, 403},
        {"/", "localhost", NULL, 403},
        {NULL, "localhost", NULL, 403},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (code_of(cases[i].path, NULL, cases[i].host, cases[i].origin) != cases[i].code) {
            fail_msg("%s at %s of %s", cases[i].path, cases[i].host, cases[i].origin);
        }
    }
    struct http_request request = {.method = "POST", .path = "/secret/", .host = "localhost"};
    struct http_answer answer;
    serve_answer(&options, &request, &answer);
    assert_int_equal(answer.code, 405);
    http_answer_free(&answer);
    options.live = NULL;
    assert_int_equal(code_of("/secret/live.json", NULL, "localhost", NULL), 404);
    options.live = live;
}

TEST(questions_are_read) {
    static const struct {
        const char *query;
        int code;
        uint64_t generation, from;
    } cases[] = {
        {"generation=3&from=17", 200, 3, 17},
        {"from=17&generation=3", 200, 3, 17},
        {"x=y&from=1", 200, 0, 1},
        {"fromage=9", 200, 0, 0},
        {"", 200, 0, 0},
        {"from=", 400, 0, 0},
        {"from=x", 400, 0, 0},
        {"from=1x", 400, 0, 0},
        {"generation=-1", 400, 0, 0},
        {"from=999999999999999999", 200, 0, UINT64_C(999999999999999999)},
        {"from=9999999999999999999", 400, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (code_of("/secret/live.json", cases[i].query, "localhost", NULL) != cases[i].code) {
            fail_msg("%s", cases[i].query);
        }
        if (cases[i].code == 200) {
            assert_int_equal(asked.generation, cases[i].generation);
            assert_int_equal(asked.from, cases[i].from);
        }
    }
    asked.fails = true;
    assert_int_equal(code_of("/secret/live.json", NULL, "localhost", NULL), 500);
    asked.fails = false;
}

TEST(tokens_differ) {
    char one[SERVE_TOKEN_MAX], other[SERVE_TOKEN_MAX];
    assert_true(serve_token_make(one) && serve_token_make(other));
    assert_int_equal(strlen(one), SERVE_TOKEN_MAX - 1);
    assert_string_not_equal(one, other);
    random_numbers = false;
    assert_false(serve_token_make(one));
    random_numbers = true;
}

/* ---------------------------------------------------------------------- exporting */

static bool metrics(void *user, vram_metrics_format format, vram_write_fn *write, void *to,
                    char *problem, size_t problem_bytes) {
    snprintf(problem, problem_bytes, "no metrics");
    return user == NULL && write(to, format == VRAM_METRICS_OPENMETRICS ? "open" : "plain", 4);
}

TEST(exporters_answer) {
    struct exporter_options exporter = {
        .hosts = {"first.example", "second.example"}, .host_count = 2, .metrics = metrics};
    static const struct {
        const char *path, *host, *accept;
        int code;
    } cases[] = {{"/metrics", "10.0.0.1:9", NULL, 200},
                 {"/metrics", "[::1]", "application/openmetrics-text;version=1.0.0", 200},
                 {"/metrics", "localhost", "text/plain", 200},
                 {"/metrics", "second.EXAMPLE:80", NULL, 200},
                 {"/metrics", "third.example", NULL, 403},
                 {"/metrics", NULL, NULL, 403},
                 {"/metrics", "[", NULL, 403},
                 {"/-/healthy", "localhost", NULL, 200},
                 {"/", "localhost", NULL, 200},
                 {"/none", "localhost", NULL, 404},
                 {NULL, "localhost", NULL, 404}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct http_request request = {.method = "GET",
                                       .path = cases[i].path,
                                       .host = cases[i].host,
                                       .accept = cases[i].accept};
        struct http_answer answer;
        exporter_answer(&exporter, &request, &answer);
        assert_int_equal(answer.code, cases[i].code);
        assert_int_equal(i == 1, answer.code == 200 && strncmp(answer.body, "open", 4) == 0);
        http_answer_free(&answer);
    }
    struct http_request request = {.method = "PUT", .path = "/metrics", .host = "localhost"};
    struct http_answer answer;
    exporter_answer(&exporter, &request, &answer);
    assert_int_equal(answer.code, 405);
    http_answer_free(&answer);
    exporter.hosts[1] = "*";
    assert_true(exporter_host_allowed(&exporter, "third.example"));
    exporter.user = &exporter;
    request.method = "GET";
    exporter_answer(&exporter, &request, &answer);
    assert_int_equal(answer.code, 500);
    assert_non_null(memmem(answer.body, answer.body_bytes, "no metrics", 10));
    http_answer_free(&answer);
}

/* ----------------------------------------------------------------------- watching */

static char runtime[64], folder[80], path[256];
static struct page_maker page;
static struct attach_place place;

static void page_write(void) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(&page, 1, sizeof page, file), sizeof page);
    assert_int_equal(fclose(file), 0);
}

static struct live_watch *watch_begin(void) {
    struct page_view view;
    char problem[ATTACH_PROBLEM_MAX], name[PAGE_NAME_MAX];
    assert_true(page_owner_describe((uint64_t)getpid(), &place.name));
    page_name_write(&place.name, "page", name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    page_make(&page, place.name.pid, place.name.start_ticks, place.name.pid_space);
    page.head.updated_ns = UINT64_MAX / 2;
    page_write();
    assert_true(attach_find((uint64_t)getpid(), &place, &view, problem));
    struct live_watch *watch = live_watch_begin(&place, &view, problem);
    assert_int_equal(watch == NULL, !threads);
    if (watch == NULL) {
        assert_string_equal(problem, "no thread can be started");
    }
    return watch;
}

/* What a page in a browser gets. */
static const char *document_of(struct live_watch *watch, uint64_t generation, uint64_t from) {
    static char text[1 << 16];
    FILE *file = fmemopen(text, sizeof text, "w");
    assert_non_null(file);
    assert_true(live_watch_write(watch, generation, from, file));
    assert_int_equal(fclose(file), 0);
    return text;
}

TEST(a_process_is_watched) {
    uint64_t since;
    struct live_watch *watch = watch_begin();
    assert_false(live_watch_is_read(watch)); /* nobody has asked yet */
    assert_non_null(strstr(document_of(watch, 0, 0), "\"state\": \"running\""));
    assert_true(live_watch_is_read(watch));
    later_s += 10; /* and has not for ten seconds */
    assert_false(live_watch_is_read(watch));
    page.head.refusals.count = 1;
    page.refusals[0].number = VRAM_LIVE_PAGE_UNKNOWN;
    page_write();
    assert_int_equal(live_watch_sample(watch), LIVE_RUNS);
    assert_non_null(strstr(document_of(watch, 1, 1000000), "\"from\": 0"));
    page.head.updated_ns = 1; /* it has not written for long */
    page_write();
    assert_int_equal(live_watch_sample(watch), LIVE_SILENT);
    assert_non_null(strstr(document_of(watch, 0, 0), "The process says nothing"));
    page.head.sequence = 3;
    page_write();
    assert_int_equal(live_watch_sample(watch), LIVE_SILENT);
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(live_watch_sample(watch), LIVE_SILENT);
    assert_non_null(strstr(document_of(watch, 0, 0), "cannot be read: "));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(live_watch_sample(watch), LIVE_SILENT);
    assert_non_null(strstr(document_of(watch, 0, 0), "it has closed its pools"));
    assert_int_equal(live_watch_peak(watch, &since), 0);
    assert_true(since >= UINT64_C(10000000000));
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    setbuf(full, NULL);
    assert_false(live_watch_write(watch, 0, 0, full));
    (void)fclose(full);
    live_watch_end(watch);
    live_watch_end(NULL);
    threads = false;
    assert_null(watch_begin());
    threads = true;
    assert_int_equal(unlink(path), 0);
}

/* Blocks may be older than the clock was when they were asked for. */
TEST(blocks_have_an_age) {
    static struct live_document now;
    static char text[1 << 16];
    assert_true(live_past_begin(&now.past));
    for (uint64_t ns = 50; ns <= 150; ns += 100) {
        now.blocks_known = true;
        now.blocks_ns = 100;
        FILE *file = fmemopen(text, sizeof text, "w");
        assert_non_null(file);
        assert_true(live_document_write(&now, ns, 0, 0, file));
        assert_int_equal(fclose(file), 0);
        assert_non_null(strstr(text, ns < 100 ? "\"age_ns\": 0" : "\"age_ns\": 50"));
    }
    live_document_free(&now);
}

static int folder_make(void) {
    snprintf(runtime, sizeof runtime, "/tmp/vram_serve_XXXXXX");
    if (mkdtemp(runtime) == NULL) {
        return -1;
    }
    snprintf(folder, sizeof folder, "%s/vram", runtime);
    return mkdir(folder, 0700) != 0 || setenv("XDG_RUNTIME_DIR", runtime, 1) != 0;
}

static int folder_remove(void) {
    return rmdir(folder) != 0 || rmdir(runtime) != 0;
}

WHOLE_FILE(folder_make, folder_remove)

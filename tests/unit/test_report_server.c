/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_report_server.c: `vram report --serve` without a network: which process it chooses, what it
 * says, and pages that cannot be read back.
 */
#include "ending.h"
#include "http/http_server.h"
#include "page_maker.h"
#include "printed_text.h"
#include "serve/live_watch.h"
#include "serve/report_server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ------------------------------------------------------ the server and the system */

static bool server_fails, random_numbers = true;
static unsigned waits_left; /* until a signal comes */
static void (*at_wait)(void);
static off_t size_said; /* of the file; 0: what it has */
static int read_error;  /* of the next call; 0: none */
static bool reads_nothing;

struct http_server {
    http_answer_fn *answer;
    void *user;
};

struct http_server *http_server_begin(const char *listen, http_answer_fn *answer, void *user,
                                      char problem[SERVER_PROBLEM_MAX]) {
    static struct http_server server;
    assert_non_null(strstr(listen, "127.0.0.1:"));
    server = (struct http_server){answer, user};
    snprintf(problem, SERVER_PROBLEM_MAX, "the port is taken");
    return server_fails ? NULL : &server;
}

int http_server_port(const struct http_server *server) {
    (void)server;
    return 4711;
}

void http_server_end(struct http_server *server) {
    (void)server;
}

void ending_begin(sigset_t *ending) {
    sigemptyset(ending);
}

bool ending_wait(const sigset_t *ending, uint64_t ns) {
    (void)ending, (void)ns;
    if (at_wait != NULL) {
        at_wait();
    }
    return waits_left-- == 0;
}

int __real_getentropy(void *to, size_t bytes);
int __wrap_getentropy(void *to, size_t bytes);
int __wrap_getentropy(void *to, size_t bytes) {
    errno = ENOSYS;
    return random_numbers ? __real_getentropy(to, bytes) : -1;
}

/* A user who has no live pages elsewhere on this machine. */
enum { NOBODY = 54321 };
uid_t __wrap_geteuid(void);
uid_t __wrap_geteuid(void) {
    return NOBODY;
}

int __real_fstat(int file, struct stat *about);
int __wrap_fstat(int file, struct stat *about);
int __wrap_fstat(int file, struct stat *about) {
    int code = __real_fstat(file, about);
    about->st_size = size_said != 0 ? size_said : about->st_size;
    about->st_uid = NOBODY;
    return size_said < 0 ? -1 : code;
}

ssize_t __real_pread(int file, void *to, size_t bytes, off_t at);
ssize_t __wrap_pread(int file, void *to, size_t bytes, off_t at);
ssize_t __wrap_pread(int file, void *to, size_t bytes, off_t at) {
    if (read_error != 0) {
        errno = read_error;
        read_error = read_error == EINTR ? 0 : read_error;
        return -1;
    }
    return reads_nothing ? 0 : __real_pread(file, to, bytes < 3 ? bytes : 3, at);
}

/* ------------------------------------------------------------------------- files */

static struct invocation text, json = {.json = true};

static int serve(const struct invocation *invocation, const char *contents) {
    FILE *file = tmpfile();
    assert_non_null(file);
    fputs(contents, file);
    fflush(file);
    printed_begin();
    int code = serve_file(invocation, fileno(file), 0);
    printed_end();
    fclose(file);
    return code;
}

TEST(files_are_served) {
    waits_left = 2; /* the wait has a limit, and goes on */
    assert_int_equal(serve(&text, "<html>"), 0);
    printed_has("http://127.0.0.1:4711/");
    printed_has("Ctrl-C ends");
    waits_left = 0;
    assert_int_equal(serve(&json, "<html>"), 0);
    printed_has("\"schema\": \"vram.report.serve/1\"");
    printed_has("\"pid\": null");
    printed_lacks("Ctrl-C");
    server_fails = true;
    assert_int_equal(serve(&text, "<html>"), 2);
    printed_has("the port is taken");
    server_fails = false;
    random_numbers = false;
    assert_int_equal(serve(&text, "<html>"), 2);
    printed_has("the system gives no random numbers");
    random_numbers = true;
}

TEST(files_that_cannot_be_read_back) {
    assert_int_equal(serve(&text, ""), 2);
    printed_has("the page cannot be read back");
    size_said = (off_t)1 << 40;
    assert_int_equal(serve(&text, "x"), 2);
    size_said = -1;
    assert_int_equal(serve(&text, "x"), 2);
    size_said = 0;
    reads_nothing = true; /* it was cut since */
    assert_int_equal(serve(&text, "x"), 2);
    reads_nothing = false;
    read_error = EIO;
    assert_int_equal(serve(&text, "x"), 2);
    read_error = EINTR; /* tried again */
    waits_left = 0;
    assert_int_equal(serve(&text, "<html>"), 0);
    assert_int_equal(read_error, 0);
}

/* --------------------------------------------------------------------- processes */

static char runtime[64], folder[80];

static void page_write(uint64_t pid, uint64_t start, uint64_t space) {
    struct page_maker page;
    char path[256];
    page_make(&page, pid, start, space);
    page.head.updated_ns = UINT64_MAX / 2;
    page.head.sum.peak_held_bytes = pid % 2 ? VRAM_LIVE_PAGE_UNKNOWN : 1 << 20;
    snprintf(path, sizeof path, "%s/%llu-%llu-%llu.page", folder, (unsigned long long)pid,
             (unsigned long long)start, (unsigned long long)space);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(&page, 1, sizeof page, file), sizeof page);
    assert_int_equal(fclose(file), 0);
}

static int process(const struct invocation *invocation, uint64_t pid) {
    printed_begin();
    int code = serve_process(invocation, pid, 0);
    printed_end();
    return code;
}

TEST(one_process_is_chosen) {
    assert_int_equal(process(&text, INT32_MAX), 2);
    printed_has("there is no process 2147483647");
    assert_int_equal(process(&text, 0), 2);
    printed_has("no process of this user has a live page");
    page_write(1, 5, 1); /* of another container */
    waits_left = 0;
    assert_int_equal(process(&text, 0), 0);
    printed_has("process 1: ");
    page_write(2, 5, 1);
    assert_int_equal(process(&text, 0), 2);
    printed_has("2 processes have live pages, choose one by --pid: ");
    printed_lacks("...");
    for (uint64_t pid = 3; pid <= 9; pid++) {
        page_write(pid, 5, 1);
    }
    assert_int_equal(process(&text, 0), 2);
    printed_has("9 processes have live pages, choose one by --pid: ");
    printed_has(", ... (`vram top` shows them)");
    for (uint64_t pid = 3; pid <= 9; pid++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%u-5-1.page", folder, (unsigned)pid);
        assert_int_equal(unlink(path), 0);
    }
    waits_left = 0;
    assert_int_equal(process(&text, 2), 0);
    printed_has("process 2: ./train --steps 10; Ctrl-C ends");
    server_fails = true;
    assert_int_equal(process(&text, 2), 2);
    server_fails = false;
}

static pid_t child;

static void child_end(void) {
    if (child > 0) {
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        child = 0;
    }
}

/* The process ends while it is served; and nobody, or somebody, looks at it. */
TEST(a_process_ends) {
    for (int i = 0; i < 4; i++) {
        struct page_name name;
        child = fork();
        if (child == 0) {
            for (;;) {
                pause();
            }
        }
        uint64_t pid = (uint64_t)child;
        assert_true(page_owner_describe(pid, &name));
        page_write(pid, name.start_ticks, name.pid_space);
        at_wait = child_end;
        waits_left = 9;
        assert_int_equal(process(i % 2 ? &json : &text, pid), 0);
        at_wait = NULL;
        if (i % 2) {
            printed_lacks("has ended");
        } else {
            printed_has(pid % 2 ? "it held an unknown amount at most" : "it held 1.00 MiB at most");
        }
    }
}

static int folder_make(void) {
    snprintf(runtime, sizeof runtime, "/tmp/vram_server_XXXXXX");
    if (mkdtemp(runtime) == NULL) {
        return -1;
    }
    snprintf(folder, sizeof folder, "%s/vram", runtime);
    return mkdir(folder, 0700) != 0 || setenv("XDG_RUNTIME_DIR", runtime, 1) != 0;
}

static int folder_remove(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", runtime);
    return system(command);
}

WHOLE_FILE(folder_make, folder_remove)

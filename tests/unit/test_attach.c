/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_attach.c: `vram report --pid` and processes that answer late, wrongly, or not at all; and
 * what it shows of an answer.
 */
#include "live/attach_view.h"
#include "page_maker.h"
#include "printed_text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

static char runtime[64], folder[80];

/* ---------------------------------------------------------------- the system */

static bool write_fails, stat_fails, socket_fails, clock_stands, others_process;
static int recv_error; /* of the next call; 0: none */

ssize_t __real_pwrite(int file, const void *from, size_t bytes, off_t at);
ssize_t __wrap_pwrite(int file, const void *from, size_t bytes, off_t at);
ssize_t __wrap_pwrite(int file, const void *from, size_t bytes, off_t at) {
    return write_fails ? -1 : __real_pwrite(file, from, bytes, at);
}

int __real_fstat(int file, struct stat *about);
int __wrap_fstat(int file, struct stat *about);
int __wrap_fstat(int file, struct stat *about) {
    return stat_fails ? -1 : __real_fstat(file, about);
}

int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol) {
    return socket_fails ? -1 : __real_socket(domain, type, protocol);
}

ssize_t __real_recv(int peer, void *to, size_t bytes, int flags);
ssize_t __wrap_recv(int peer, void *to, size_t bytes, int flags);
ssize_t __wrap_recv(int peer, void *to, size_t bytes, int flags) {
    if (recv_error != 0) {
        errno = recv_error;
        recv_error = 0;
        return -1;
    }
    return __real_recv(peer, to, bytes, flags);
}

int __real_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number) {
    errno = EPERM;
    return others_process ? -1 : __real_kill(pid, number);
}

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
    if (clock_stands) {
        *now = (struct timespec){.tv_nsec = 6};
        return 0;
    }
    return __real_clock_gettime(clock, now);
}

/* ------------------------------------------------------------------ a process */

static struct page_maker page;
static struct attach_place place;
static struct page_view view;
static char problem[ATTACH_PROBLEM_MAX];

static void path_of(const char *ending, char path[256]) {
    char name[PAGE_NAME_MAX];
    page_name_write(&place.name, ending, name);
    snprintf(path, 256, "%s/%s", folder, name);
}

static void page_write(void) {
    char path[256];
    path_of("page", path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(&page, 1, sizeof page, file), sizeof page);
    assert_int_equal(fclose(file), 0);
}

static int process_begin(void) {
    assert_true(page_owner_describe((uint64_t)getpid(), &place.name));
    page_make(&page, place.name.pid, place.name.start_ticks, place.name.pid_space);
    page.head.updated_ns = UINT64_MAX / 2;
    page_write();
    snprintf(place.folder, sizeof place.folder, "%s", folder);
    assert_true(attach_find((uint64_t)getpid(), &place, &view, problem));
    assert_string_equal(place.folder, folder);
    return 0;
}

static int process_end(void) {
    char path[256];
    path_of("page", path);
    (void)unlink(path);
    (void)rmdir(path);
    path_of("sock", path);
    (void)unlink(path);
    page_view_free(&view);
    return 0;
}

/* What the process says to whoever connects. */
struct server {
    pthread_t thread;
    int listener;
    const char *text;
    size_t repeats;  /* of the text */
    bool stays;      /* it does not hang up */
    unsigned before; /* connections that are closed at once */
};

static void *server_run(void *user) {
    struct server *server = user;
    for (unsigned i = 0; i < server->before; i++) {
        (void)close(accept(server->listener, NULL, NULL));
    }
    int peer = accept(server->listener, NULL, NULL);
    bool good = peer >= 0;
    for (size_t i = 0; i < server->repeats && good; i++) {
        size_t bytes = strlen(server->text);
        good = send(peer, server->text, bytes, MSG_NOSIGNAL) == (ssize_t)bytes;
    }
    struct pollfd ended = {.fd = peer, .events = POLLIN};
    if (server->stays) {
        (void)poll(&ended, 1, 30000);
    }
    (void)close(peer);
    return NULL;
}

static void server_begin(struct server *server) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char path[256];
    path_of("sock", path);
    (void)unlink(path);
    assert_true(strlen(path) < sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    server->listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(server->listener >= 0);
    assert_int_equal(bind(server->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(server->listener, 4), 0);
    assert_int_equal(pthread_create(&server->thread, NULL, server_run, server), 0);
}

static void server_end(struct server *server) {
    (void)shutdown(server->listener, SHUT_RDWR);
    assert_int_equal(pthread_join(server->thread, NULL), 0);
    (void)close(server->listener);
}

/* Asks, and is answered so. */
static bool ask(struct server server, atomic_bool *stop) {
    struct attach_answer answer;
    server_begin(&server);
    bool good = attach_blocks(&place, &view, &answer, stop, problem);
    server_end(&server);
    attach_free(&answer);
    return good;
}

/* ------------------------------------------------------------------- answers */

TEST(answers_come) {
    static const char whole[] = "vram-live 1\nsum 1 2 3 4\nend\n";
    assert_true(ask((struct server){.text = whole, .repeats = 1}, NULL));
    assert_true(ask((struct server){.text = whole, .repeats = 1, .before = 2}, NULL));
    recv_error = EINTR;
    assert_true(ask((struct server){.text = whole, .repeats = 1}, NULL));
    recv_error = EAGAIN;
    assert_true(ask((struct server){.text = whole, .repeats = 1}, NULL));
    assert_false(ask((struct server){.text = "vram-live 1\nsum 1 2 3 4\n", .repeats = 1}, NULL));
    assert_non_null(strstr(problem, "does not answer completely"));
    assert_false(ask((struct server){.text = "vram-live 2\nend\n", .repeats = 1}, NULL));
    assert_non_null(strstr(problem, "is not valid: it does not begin as one"));
}

/* Without an end it would fill the memory. */
TEST(an_answer_has_a_bound) {
    static char much[1 << 20];
    memset(much, 'x', sizeof much - 1);
    assert_false(ask((struct server){.text = much, .repeats = 200}, NULL));
    assert_non_null(strstr(problem, "does not answer completely"));
}

TEST(nothing_comes) {
    atomic_bool stop = true;
    struct attach_answer answer;
    assert_false(attach_blocks(&place, &view, &answer, NULL, problem)); /* no socket at all */
    assert_non_null(strstr(problem, "does not answer within a second"));
    assert_false(ask((struct server){.text = "", .repeats = 0, .stays = true}, NULL));
    assert_non_null(strstr(problem, "does not answer within a second"));
    assert_false(ask((struct server){.text = "", .repeats = 0, .stays = true}, &stop));
    socket_fails = true;
    assert_false(attach_blocks(&place, &view, &answer, &stop, problem));
    socket_fails = false;
    recv_error = ECONNRESET;
    assert_false(ask((struct server){.text = "", .repeats = 0, .stays = true}, &stop));
    recv_error = 0;
}

TEST(the_request_cannot_be_written) {
    struct attach_answer answer;
    char path[256];
    path_of("page", path);
    write_fails = true;
    assert_false(attach_blocks(&place, &view, &answer, NULL, problem));
    write_fails = false;
    stat_fails = true;
    assert_false(attach_blocks(&place, &view, &answer, NULL, problem));
    stat_fails = false;
    assert_int_equal(truncate(path, 10), 0);
    assert_false(attach_blocks(&place, &view, &answer, NULL, problem));
    assert_int_equal(unlink(path), 0);
    assert_false(attach_blocks(&place, &view, &answer, NULL, problem));
    assert_non_null(strstr(problem, "does not answer within a second"));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(attach_blocks(&place, &view, &answer, NULL, problem));
}

/* The number of a request is never 0, nor that of the last one. */
TEST(requests_differ) {
    static const uint32_t taken[][2] = {{0, 0}, {7, 0}, {0, 7}};
    char path[256];
    atomic_bool stop = true;
    struct attach_answer answer;
    path_of("page", path);
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        vram_live_page head;
        view.head.request = taken[i][0];
        view.head.answer = taken[i][1];
        clock_stands = true; /* at 6, of which 7 is made */
        assert_false(attach_blocks(&place, &view, &answer, &stop, problem));
        clock_stands = false;
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        assert_int_equal(fread(&head, 1, sizeof head, file), sizeof head);
        fclose(file);
        assert_int_equal(head.request, i == 0 ? 7 : 9);
    }
}

TEST(paths_have_a_bound) {
    struct attach_answer answer;
    struct attach_place far = place;
    char path[256];
    memset(far.folder, 0, sizeof far.folder);
    snprintf(far.folder, sizeof far.folder, "%s/%0*d", folder, 100 - (int)strlen(folder), 0);
    assert_int_equal(mkdir(far.folder, 0700), 0);
    page_name_write(&far.name, "page", path + 128);
    snprintf(path, 128, "%s", far.folder);
    char whole[400];
    snprintf(whole, sizeof whole, "%s/%s", path, path + 128);
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(&page, 1, sizeof page, file), sizeof page);
    fclose(file);
    assert_false(attach_blocks(&far, &view, &answer, NULL, problem)); /* too long for a socket */
    assert_int_equal(unlink(whole), 0);
    assert_int_equal(rmdir(far.folder), 0);
}

/* ------------------------------------------------------------------- finding */

TEST(processes_are_found) {
    struct page_view other;
    struct attach_answer answer;
    struct attach_place there;
    char path[256];
    snprintf(path, sizeof path, "%s/1-0-%llu.page", folder,
             (unsigned long long)place.name.pid_space);
    struct page_maker first;
    page_make(&first, 1, 0, place.name.pid_space);
    first.head.updated_ns = UINT64_MAX / 2;
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(&first, 1, sizeof first, file), sizeof first);
    fclose(file);
    assert_true(attach_find(1, &there, &other, problem)); /* whichever comes first */
    page_view_free(&other);
    assert_true(attach_find((uint64_t)getpid(), &there, &other, problem));
    page_view_free(&other);
    assert_false(attach_find(INT32_MAX, &there, &other, problem));
    assert_string_equal(problem, "there is no process 2147483647");
    others_process = true;
    assert_false(attach_find(2, &there, &other, problem));
    assert_non_null(strstr(problem, "process 2 has no live page"));
    assert_int_equal(truncate(path, 100), 0);
    assert_false(attach_find(2, &there, &other, problem));
    assert_non_null(strstr(problem, "a page that cannot: "));
    others_process = false;
    assert_int_equal(unlink(path), 0);

    page.head.origin = VRAM_LIVE_PAGE_RUN;
    page_write();
    assert_false(attach_ask((uint64_t)getpid(), &other, &answer, problem));
    assert_non_null(strstr(problem, "SIGUSR1"));
    page_view_free(&other);
}

TEST(pages_are_read_again) {
    struct page_view again;
    const char *why;
    struct attach_place there = place;
    assert_int_equal(attach_read(&there, &again, &why), PAGE_READ);
    page_view_free(&again);
    page.head.start_ticks++;
    page_write();
    assert_int_equal(attach_read(&there, &again, &why), PAGE_WRONG);
    assert_string_equal(why, "it claims to be of another process");
    snprintf(there.folder, sizeof there.folder, "%s/none", folder);
    assert_int_equal(attach_read(&there, &again, &why), PAGE_GONE);
    snprintf(there.folder, sizeof there.folder, "/dev/null");
    assert_int_equal(attach_read(&there, &again, &why), PAGE_FAILED);
    assert_non_null(why);
}

/* -------------------------------------------------------------------- showing */

static const struct terminal plain = {.width = 100};

static const char *show(const char *text, bool leaks, size_t top, bool json) {
    struct attach_answer answer;
    const char *why;
    char *copy = malloc(strlen(text) + 1);
    assert_non_null(copy);
    memcpy(copy, text, strlen(text));
    assert_true(attach_take(copy, strlen(text), &answer, &why));
    const struct attach_view shown = {
        .page = &view, .answer = &answer, .terminal = &plain, .leaks = leaks, .top = top};
    printed_begin();
    if (json) {
        assert_true(attach_write(&shown));
    } else {
        attach_print(&shown);
    }
    printed_end();
    attach_free(&answer);
    return printed;
}

TEST(answers_are_shown) {
    static const char one[] = "vram-live 1\nsum 100 1 1 0\n"
                              "group 100 1 0 0 5 100 0 \nend\n";
    static const char many[] = "vram-live 1\nsum 900 9 3 5\n"
                               "group 400 4 400 1 70000000000 100 0 model\n"
                               "frame a\nframe b\nframe c\nframe d\nframe e\nframe f\nframe g\n"
                               "frame h\nframe i\n"
                               "group 300 3 0 0 5 100 1 data\n"
                               "group 100 1 0 0 5 100 0 other\n"
                               "rest 100 1 0 0 5 100 0 \n"
                               "block 1 2 100 128 70000000000 3\ntag model\npool main\nname w\n"
                               "block 2 3 90 128 5 3\ntag \npool main\nname \nend\n";
    view.head.pools.total = 1;
    view.head.sum.live_blocks = 1;
    show(one, false, 10, false);
    printed_has("  tracked     100 B in 1 block of 1 pool\n");
    printed_has("  held        6.00 MiB by 1 pool, 0 B cached, 0 B at most\n");
    printed_has("  live        0 B in 1 block\n");
    printed_has("(no tag)");
    printed_has("No stacks were taken");
    view.head.pools.total = 3;
    view.head.sum.live_blocks = VRAM_LIVE_PAGE_UNKNOWN;
    view.head.sum.live_bytes = VRAM_LIVE_PAGE_UNKNOWN;
    show(many, false, 3, false);
    printed_has("  live        - in - blocks\n");
    printed_has("  lost        5 records: blocks may be missing here\n");
    printed_has("data (foreign)");
    printed_has("    h\n");
    printed_lacks("    i\n");
    printed_has("  and 1 more\n");
    printed_has("pool \"main\", tag \"model\", \"w\"\n");
    printed_has("5 ns old, pool \"main\"\n");
    printed_lacks("No stacks");
    show(many, false, 10, false);
    printed_has("(all others)");
    show(many, true, 10, false);
    printed_has("1 block is a minute old or older");
    printed_lacks("data");
    printed_lacks("5 ns old");
    show("vram-live 1\nsum 9 2 3 0\ngroup 9 2 9 2 70000000000 9 0 x\nend\n", true, 10, false);
    printed_has("2 blocks are a minute old or older");
    show("vram-live 1\nsum 0 0 4 0\nend\n", true, 10, false);
    printed_has("no block is a minute old");
    printed_lacks("stacks");
    show(many, true, 10, true);
    printed_has("\"tag\": \"model\"");
    printed_lacks("\"data\"");
    printed_has("\"live_blocks\": null");
    printed_lacks("\"age_ns\": 5,");
    show(many, false, 10, true);
    printed_has("\"foreign\": true");
    printed_has("\"rest\": true");
    show("vram-live 1\nsum 0 0 1 0\nend\n", false, 10, false);
    printed_has("Pools that are not tracked know no blocks");
}

static int folder_make(void) {
    snprintf(runtime, sizeof runtime, "/tmp/vram_attach_XXXXXX");
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
EACH_TEST(process_begin, process_end)

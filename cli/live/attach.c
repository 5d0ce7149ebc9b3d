/* SPDX-License-Identifier: Apache-2.0 */
/* attach.c: asks a running process for its live blocks. See attach.h. */
#include "live/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)
#define ANSWER_NS (15 * SECOND_NS) /* for the whole answer, once it has begun */
#define RETRY_MS  5

enum { ANSWER_BYTES_MAX = 64 << 20 };

/* What attach_find looks for. */
struct attach_search {
    uint64_t pid;
    struct attach_place *place;
    struct page_view *view;
    bool found;
};

static uint64_t now_ns(void) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

static bool is_stopped(atomic_bool *stop) {
    return stop && atomic_load(stop);
}

static bool search_match(void *user, const char *folder, struct page_view *view) {
    struct attach_search *search = user;
    bool here = page_is_of_here(view); /* the id is one of here, or else of the first that has it */
    if (view->head.pid != search->pid || (search->found && !here)) {
        page_view_free(view);
        return true;
    }
    if (search->found) {
        page_view_free(search->view);
    }
    *search->view = *view;
    search->found = true;
    search->place->name = page_name_of(view);
    snprintf(search->place->folder, sizeof search->place->folder, "%s", folder);
    return !here;
}

static void stem_write(const struct attach_place *place, const char *ending,
                       char path[PAGE_FOLDER_MAX + PAGE_NAME_MAX]) {
    char name[PAGE_NAME_MAX];
    page_name_write(&place->name, ending, name);
    snprintf(path, PAGE_FOLDER_MAX + PAGE_NAME_MAX, "%s/%s", place->folder, name);
}

/* Writes the request: a number that is neither 0 nor the one that is there. */
static bool request_write(const struct attach_place *place, const struct page_view *view) {
    char path[PAGE_FOLDER_MAX + PAGE_NAME_MAX];
    struct stat about;
    uint32_t request = (uint32_t)now_ns() | 1;
    request += request == view->head.request || request == view->head.answer ? 2 : 0;
    stem_write(place, "page", path);
    int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) {
        return false;
    }
    bool written = fstat(file, &about) == 0 && S_ISREG(about.st_mode) &&
                   about.st_size == (off_t)view->head.page_bytes &&
                   pwrite(file, &request, sizeof request, offsetof(vram_live_page, request)) ==
                       (ssize_t)sizeof request;
    (void)close(file);
    return written;
}

/* Connects to the socket that the process opens; -1: it did not before the deadline. */
static int socket_connect(const struct attach_place *place, uint64_t deadline, atomic_bool *stop) {
    char path[PAGE_FOLDER_MAX + PAGE_NAME_MAX];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    stem_write(place, "sock", path);
    if (strlen(path) >= sizeof address.sun_path) {
        return -1;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    do {
        int peer = socket(AF_UNIX, SOCK_STREAM, 0);
        if (peer >= 0) {
            (void)fcntl(peer, F_SETFD, FD_CLOEXEC);
            (void)fcntl(peer, F_SETFL, O_NONBLOCK);
        }
        if (peer >= 0 && connect(peer, (struct sockaddr *)&address, sizeof address) == 0) {
            return peer;
        }
        if (peer >= 0) {
            (void)close(peer);
        }
        (void)poll(NULL, 0, RETRY_MS);
    } while (now_ns() < deadline && !is_stopped(stop));
    return -1;
}

/* Whether what was read so far ends with the answer's last line. */
static bool text_has_ended(const char *text, size_t bytes) {
    return bytes >= 5 && memcmp(text + bytes - 5, "\nend\n", 5) == 0;
}

/* The answer up to its last line, in memory with room for one byte more; NULL: it did not come. Its
   first line comes at once from a process that runs. */
static char *answer_receive(int peer, uint64_t first_deadline, atomic_bool *stop, size_t *bytes) {
    uint64_t deadline = now_ns() + ANSWER_NS;
    size_t capacity = 1 << 16;
    char *text = malloc(capacity + 1);
    *bytes = 0;
    if (!text) {
        return NULL;
    }
    while (!text_has_ended(text, *bytes) && !is_stopped(stop) &&
           now_ns() < (*bytes ? deadline : first_deadline)) {
        struct pollfd ready = {.fd = peer, .events = POLLIN};
        if (*bytes == capacity) {
            char *larger = capacity < ANSWER_BYTES_MAX ? realloc(text, capacity * 2 + 1) : NULL;
            if (!larger) {
                break;
            }
            text = larger;
            capacity *= 2;
        }
        (void)poll(&ready, 1, 100);
        ssize_t some = recv(peer, text + *bytes, capacity - *bytes, MSG_DONTWAIT);
        if (some == 0 || (some < 0 && errno != EAGAIN && errno != EINTR)) {
            break;
        }
        *bytes += some > 0 ? (size_t)some : 0;
    }
    if (!text_has_ended(text, *bytes)) {
        free(text);
        text = NULL;
    }
    return text;
}

/* Asks, and asks again if the socket was that of an earlier request, which is closed. *bytes is 0
   if nothing came within a second. */
static char *answer_get(const struct attach_place *place, const struct page_view *view,
                        atomic_bool *stop, size_t *bytes) {
    uint64_t deadline = now_ns() + SECOND_NS;
    char *text = NULL;
    *bytes = 0;
    if (!request_write(place, view)) {
        return NULL;
    }
    for (int peer; !text && *bytes == 0 && (peer = socket_connect(place, deadline, stop)) >= 0;) {
        text = answer_receive(peer, deadline, stop, bytes);
        (void)close(peer);
    }
    return text;
}

/* Why there is no page. */
static void absence_explain(uint64_t pid, const struct pages_met *met,
                            char problem[ATTACH_PROBLEM_MAX]) {
    unsigned long long number = pid;
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH) {
        snprintf(problem, ATTACH_PROBLEM_MAX, "there is no process %llu", number);
    } else if (met->problem[0]) {
        snprintf(problem, ATTACH_PROBLEM_MAX,
                 "process %llu has no live page that can be read; a page that cannot: %s", number,
                 met->problem);
    } else {
        snprintf(problem, ATTACH_PROBLEM_MAX,
                 "process %llu has no live page: it has no pool of libvram, runs with "
                 "VRAM_LIVE=off, or belongs to another user",
                 number);
    }
}

bool attach_find(uint64_t pid, struct attach_place *place, struct page_view *view,
                 char problem[ATTACH_PROBLEM_MAX]) {
    struct attach_search search = {.pid = pid, .place = place, .view = view};
    struct pages_met met;
    *view = (struct page_view){0};
    pages_visit(search_match, &search, &met);
    if (!search.found) {
        absence_explain(pid, &met, problem);
    }
    return search.found;
}

enum page_state attach_read(const struct attach_place *place, struct page_view *view,
                            const char **problem) {
    char name[PAGE_NAME_MAX];
    int folder = open(place->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    *view = (struct page_view){0};
    *problem = NULL;
    if (folder < 0) {
        *problem = strerror(errno);
        return errno == ENOENT ? PAGE_GONE : PAGE_FAILED;
    }
    page_name_write(&place->name, "page", name);
    enum page_state state = page_read(folder, name, view, problem);
    (void)close(folder);
    if (state == PAGE_READ && !page_view_matches(view, &place->name)) {
        page_view_free(view);
        *problem = "it claims to be of another process";
        state = PAGE_WRONG;
    }
    return state;
}

bool attach_blocks(const struct attach_place *place, const struct page_view *view,
                   struct attach_answer *answer, atomic_bool *stop,
                   char problem[ATTACH_PROBLEM_MAX]) {
    unsigned long long pid = view->head.pid;
    const char *why;
    size_t bytes;
    *answer = (struct attach_answer){0};
    if (view->head.origin == VRAM_LIVE_PAGE_RUN) {
        snprintf(problem, ATTACH_PROBLEM_MAX,
                 "process %llu runs under `vram run` and has no pool of libvram: send SIGUSR1 to "
                 "`vram run` for a report",
                 pid);
        return false;
    }
    char *text = answer_get(place, view, stop, &bytes);
    if (!text) {
        snprintf(problem, ATTACH_PROBLEM_MAX,
                 "process %llu does not answer%s: it may be stopped, or starved of processor time",
                 pid, bytes == 0 ? " within a second" : " completely");
        return false;
    }
    if (!attach_take(text, bytes, answer, &why)) {
        snprintf(problem, ATTACH_PROBLEM_MAX, "the answer of process %llu is not valid: %s", pid,
                 why);
        return false;
    }
    return true;
}

bool attach_ask(uint64_t pid, struct page_view *view, struct attach_answer *answer,
                char problem[ATTACH_PROBLEM_MAX]) {
    struct attach_place place;
    *answer = (struct attach_answer){0};
    return attach_find(pid, &place, view, problem) &&
           attach_blocks(&place, view, answer, NULL, problem);
}

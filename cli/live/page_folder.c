/* SPDX-License-Identifier: Apache-2.0 */
/* page_folder.c: finds live pages and removes stale ones. See page_folder.h. */
#include "live/page_folder.h"
#include "environment.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A page whose process cannot be seen from here is taken as stale after a day without an update. */
#define FORGOTTEN_NS UINT64_C(86400000000000)

/* -------------------------------------------------------------------- names */

/* A decimal number up to `stop`, which is skipped. */
static bool number_read(const char **text, char stop, uint64_t *number) {
    uint64_t value = 0;
    const char *at = *text;
    for (; isdigit((unsigned char)*at) && at - *text < 20; at++) {
        if (value > (UINT64_MAX - 9) / 10) {
            return false;
        }
        value = value * 10 + (uint64_t)(*at - '0');
    }
    if (at == *text || *at != stop) {
        return false;
    }
    *text = at + 1;
    *number = value;
    return true;
}

bool page_name_read(const char *name, struct page_name *parts) {
    const char *at = name;
    struct page_name read = {0};
    if (!number_read(&at, '-', &read.pid) || !number_read(&at, '-', &read.start_ticks) ||
        !number_read(&at, '.', &read.pid_space) || read.pid == 0 || read.pid > INT_MAX) {
        return false;
    }
    read.socket = strcmp(at, "sock") == 0;
    if (!read.socket && strcmp(at, "page") != 0) {
        return false;
    }
    *parts = read;
    return true;
}

void page_name_write(const struct page_name *parts, const char *ending, char name[PAGE_NAME_MAX]) {
    snprintf(name, PAGE_NAME_MAX, "%llu-%llu-%llu.%s", (unsigned long long)parts->pid,
             (unsigned long long)parts->start_ticks, (unsigned long long)parts->pid_space, ending);
}

struct page_name page_name_of(const struct page_view *view) {
    return (struct page_name){.pid = view->head.pid,
                              .start_ticks = view->head.start_ticks,
                              .pid_space = view->head.pid_space};
}

bool page_view_matches(const struct page_view *view, const struct page_name *parts) {
    return view->head.pid == parts->pid && view->head.start_ticks == parts->start_ticks &&
           view->head.pid_space == parts->pid_space;
}

/* ------------------------------------------------------------------ processes */

static uint64_t own_pid_space(void) {
    struct stat about;
    return stat("/proc/self/ns/pid", &about) == 0 ? (uint64_t)about.st_ino : 0;
}

/* The start of a process, field 22 of its stat, and whether it has ended and was not waited for:
   its state is Z, and no other thread is left. False: not to be had. */
static bool process_read(uint64_t pid, uint64_t *start_ticks, bool *ended) {
    char path[40], line[1024];
    snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)pid);
    FILE *file = fopen(path, "re");
    if (!file) {
        return false;
    }
    size_t bytes = fread(line, 1, sizeof line - 1, file);
    (void)fclose(file);
    line[bytes] = 0;
    const char *at = strrchr(line, ')'); /* the name before it may have any characters */
    const char *state = at;
    for (int field = 2; at && field < 20; field++) {
        at = strchr(at + 1, ' ');
    }
    unsigned long long start = 0;
    long threads;
    if (!at || sscanf(at, "%ld %*d %llu", &threads, &start) != 2) {
        return false;
    }
    *start_ticks = start;
    *ended = state[2] == 'Z' && threads <= 1;
    return true;
}

bool page_owner_ended(const struct page_name *parts) {
    uint64_t start;
    bool ended;
    if (parts->pid_space != own_pid_space()) {
        return false;
    }
    if (kill((pid_t)parts->pid, 0) != 0 && errno == ESRCH) {
        return true;
    }
    if (!process_read(parts->pid, &start, &ended)) {
        return false;
    }
    return ended || (parts->start_ticks && start != parts->start_ticks);
}

bool page_owner_describe(uint64_t pid, struct page_name *parts) {
    bool ended;
    *parts = (struct page_name){.pid = pid, .pid_space = own_pid_space()};
    return pid > 0 && pid <= INT_MAX && process_read(pid, &parts->start_ticks, &ended) && !ended;
}

/* Whether a user may speak for a process of this space: root for any, others for their own. Who
   reads its own folder believes itself. */
static bool process_is_of(uint64_t pid, uid_t user) {
    char path[40], line[128];
    unsigned effective;
    bool is = user == 0 || user == geteuid();
    snprintf(path, sizeof path, "/proc/%llu/status", (unsigned long long)pid);
    FILE *file = is ? NULL : fopen(path, "re");
    while (file && !is && fgets(line, sizeof line, file)) {
        is = sscanf(line, "Uid: %*u %u", &effective) == 1 && effective == user;
    }
    if (file) {
        (void)fclose(file);
    }
    return is;
}

bool page_is_of_here(const struct page_view *view) {
    return view->head.pid_space == own_pid_space();
}

/* -------------------------------------------------------------------- folders */

/* Opens a folder that belongs to `user` and that no one else may write; -1: there is none. */
static int folder_open(const char *path, uid_t user) {
    struct stat about;
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (folder < 0) {
        return -1;
    }
    if (fstat(folder, &about) == 0 && about.st_uid == user &&
        (about.st_mode & (S_IWGRP | S_IWOTH)) == 0) {
        return folder;
    }
    (void)close(folder);
    return -1;
}

struct pages_visit {
    page_fn *each;
    void *user;
    struct pages_met *met;
    const char *path; /* of the folder, */
    uid_t owner;      /* and whose it is */
    bool going;
};

static void problem_note(struct pages_visit *visit, const char *name, const char *problem) {
    struct pages_met *met = visit->met;
    if (met->wrong++ == 0) {
        snprintf(met->problem, sizeof met->problem, "%s/%s: %s", visit->path, name, problem);
    }
}

static void entry_visit(struct pages_visit *visit, int folder, const char *name) {
    struct page_name parts;
    struct page_view view;
    const char *problem;
    if (!page_name_read(name, &parts)) {
        return;
    }
    if (page_owner_ended(&parts)) {
        visit->met->removed += unlinkat(folder, name, 0) == 0 && !parts.socket;
        return;
    }
    if (parts.socket) {
        return;
    }
    switch (page_read(folder, name, &view, &problem)) {
    case PAGE_READ:
        if (!page_view_matches(&view, &parts)) {
            page_view_free(&view);
            problem_note(visit, name, "it claims to be of another process");
        } else if (page_is_of_here(&view) && !process_is_of(parts.pid, visit->owner)) {
            page_view_free(&view);
            if (!page_owner_ended(&parts)) { /* else it has ended just now, and is nobody's */
                problem_note(visit, name, "the process is another user's");
            }
        } else if (view.age_ns > FORGOTTEN_NS && !page_is_of_here(&view)) {
            page_view_free(&view);
            visit->met->removed += unlinkat(folder, name, 0) == 0;
        } else {
            visit->met->read++;
            view.head.user = visit->owner == geteuid() ? view.head.user : visit->owner;
            visit->going = visit->each(visit->user, visit->path, &view);
        }
        break;
    case PAGE_BUSY:
        visit->met->busy++;
        break;
    case PAGE_GONE:
        break;
    default:
        problem_note(visit, name, problem);
    }
}

static void folder_visit(struct pages_visit *visit, const char *path, uid_t user) {
    int folder = visit->going ? folder_open(path, user) : -1;
    int listed = folder < 0 ? -1 : dup(folder);
    DIR *list = listed < 0 ? NULL : fdopendir(listed);
    visit->path = path;
    visit->owner = user;
    for (struct dirent *entry; list && visit->going && (entry = readdir(list));) {
        entry_visit(visit, folder, entry->d_name);
    }
    if (list) {
        (void)closedir(list);
    } else if (listed >= 0) {
        (void)close(listed);
    }
    if (folder >= 0) {
        (void)close(folder);
    }
    visit->path = NULL;
}

/* The folders of all users, for root: PARENT/PREFIXuserSUFFIX. */
static void users_visit(struct pages_visit *visit, const char *parent, const char *prefix,
                        const char *suffix) {
    DIR *list = opendir(parent);
    for (struct dirent *entry; list && visit->going && (entry = readdir(list));) {
        const char *name = entry->d_name;
        char path[PAGE_FOLDER_MAX];
        char *end;
        if (strncmp(name, prefix, strlen(prefix)) != 0 ||
            !isdigit((unsigned char)name[strlen(prefix)])) {
            continue;
        }
        unsigned long user = strtoul(name + strlen(prefix), &end, 10);
        int bytes = snprintf(path, sizeof path, "%s/%s%s", parent, name, suffix);
        if (*end == 0 && user != 0 && user < UINT_MAX && bytes < (int)sizeof path) {
            folder_visit(visit, path, (uid_t)user);
        }
    }
    if (list) {
        (void)closedir(list);
    }
}

void pages_visit(page_fn *each, void *user, struct pages_met *met) {
    struct pages_visit visit = {.each = each, .user = user, .met = met, .going = true};
    const char *runtime = environment_get("XDG_RUNTIME_DIR");
    char path[PAGE_FOLDER_MAX];
    *met = (struct pages_met){0};
    if (runtime && runtime[0] == '/' &&
        snprintf(path, sizeof path, "%s/vram", runtime) < (int)sizeof path) {
        folder_visit(&visit, path, geteuid());
    }
    snprintf(path, sizeof path, "/dev/shm/vram-%lu", (unsigned long)geteuid());
    folder_visit(&visit, path, geteuid());
    if (geteuid() == 0) {
        users_visit(&visit, "/run/user", "", "/vram");
        users_visit(&visit, "/dev/shm", "vram-", "");
    }
}

/* The parent must be safe as well: its owner could put another folder in the place of ours. */
static bool parent_is_safe(const char *path) {
    struct stat about;
    return lstat(path, &about) == 0 && S_ISDIR(about.st_mode) &&
           (about.st_uid == geteuid() || about.st_uid == 0) &&
           (!(about.st_mode & (S_IWGRP | S_IWOTH)) || about.st_mode & S_ISVTX);
}

static int folder_make(const char *parent, const char *path) {
    if (!parent_is_safe(parent)) {
        return -1;
    }
    (void)mkdir(path, 0700); /* if it fails, so does the opening */
    return folder_open(path, geteuid());
}

int page_folder_make(void) {
    const char *runtime = environment_get("XDG_RUNTIME_DIR");
    char path[PAGE_FOLDER_MAX];
    int folder = -1;
    if (runtime && runtime[0] == '/' &&
        snprintf(path, sizeof path, "%s/vram", runtime) < (int)sizeof path) {
        folder = folder_make(runtime, path);
    }
    if (folder < 0) {
        snprintf(path, sizeof path, "/dev/shm/vram-%lu", (unsigned long)geteuid());
        folder = folder_make("/dev/shm", path);
    }
    return folder;
}

void pages_visit_in(const char *path, page_fn *each, void *user, struct pages_met *met) {
    struct pages_visit visit = {.each = each, .user = user, .met = met, .going = true};
    struct stat about;
    *met = (struct pages_met){0};
    if (stat(path, &about) == 0) {
        folder_visit(&visit, path, about.st_uid);
    }
}

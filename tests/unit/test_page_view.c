/* SPDX-License-Identifier: Apache-2.0 */
/* test_page_view.c: pages are read as they were written, and nothing in a page is trusted. */
#include "live/page_folder.h"
#include "page_maker.h"
#include "rig/rig.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64], pages[80]; /* XDG_RUNTIME_DIR, and `vram` in it */
static int pages_fd;

/* ------------------------------------------------------------------ one page */

static enum page_state take(const struct page_maker *page, struct page_view *view) {
    const char *problem;
    enum page_state state = page_take(page, sizeof *page, view, &problem);
    assert_int_equal(state == PAGE_WRONG, problem != NULL);
    return state;
}

TEST(a_page_is_read_as_it_was_written) {
    struct page_maker page;
    struct page_view view;
    page_make(&page, 7, 8, 9);
    assert_int_equal(take(&page, &view), PAGE_READ);
    assert_memory_equal(&view.head, &page.head, sizeof page.head);
    assert_memory_equal(view.devices, page.devices, sizeof page.devices);
    assert_memory_equal(view.pools, page.pools, sizeof page.pools);
    assert_memory_equal(view.tags, page.tags, sizeof page.tags);
    assert_memory_equal(view.refusals, page.refusals, sizeof page.refusals);
    page_view_free(&view);
}

TEST(rows_of_a_later_version_may_be_longer) {
    struct page_maker page;
    struct page_view view;
    page_make(&page, 7, 8, 9);
    page.head.pools.stride = 2 * sizeof page.pools[0];
    page.head.pools.count = page.head.pools.total = 2;
    assert_int_equal(take(&page, &view), PAGE_READ);
    assert_string_equal(view.pools[1].name, "pool 2");
    page_view_free(&view);
}

TEST(wrong_heads_are_refused) {
    struct page_maker good, page;
    struct page_view view;
    const char *problem;
    page_make(&good, 7, 8, 9);
    assert_int_equal(page_take(&good, sizeof good.head - 1, &view, &problem), PAGE_WRONG);
    assert_int_equal(page_take(&good, sizeof good - 8, &view, &problem), PAGE_WRONG);
    assert_int_equal(page_take(&good, VRAM_LIVE_PAGE_BYTES_MAX + 1, &view, &problem), PAGE_WRONG);
    page = good, page.head.magic = 0;
    assert_int_equal(take(&page, &view), PAGE_BUSY);
    page = good, page.head.magic++;
    assert_int_equal(take(&page, &view), PAGE_WRONG);
    page = good, page.head.version++;
    assert_int_equal(take(&page, &view), PAGE_WRONG);
    page = good, page.head.page_bytes++;
    assert_int_equal(take(&page, &view), PAGE_WRONG);
}

TEST(wrong_tables_are_refused) {
    static const struct {
        uint32_t offset, stride, count, total;
    } wrong[] = {
        {UINT32_MAX - 7, 1024, 1, 1},
        {0, 1024, 1, 1},
        {sizeof(vram_live_page) + 4, 1024, 1, 1},
        {sizeof(vram_live_page), 8, 1, 1},
        {sizeof(vram_live_page), 0, 3, 3},
        {sizeof(vram_live_page), 1028, 1, 1},
        {sizeof(vram_live_page), UINT32_MAX - 7, 2, 2},
        {sizeof(vram_live_page), 1024, UINT32_MAX, UINT32_MAX},
        {sizeof(vram_live_page), 1024, 65, 65},
        {sizeof(vram_live_page), 1024, 2, 1},
    };
    struct page_maker page;
    struct page_view view;
    for (size_t i = 0; i < 4 * sizeof wrong / sizeof wrong[0]; i++) {
        page_make(&page, 7, 8, 9);
        memcpy(&(&page.head.devices)[i % 4], &wrong[i / 4], sizeof wrong[0]);
        assert_int_equal(take(&page, &view), PAGE_WRONG);
    }
}

TEST(lies_become_harmless) {
    struct page_maker page;
    struct page_view view;
    page_make(&page, 7, 8, 9);
    memset(page.pools[0].name, 'x', sizeof page.pools[0].name); /* no end */
    memcpy(page.pools[1].name, "a\033[2Jb\nc\xff\xc3", 11);
    memcpy(page.pools[2].name,
           "\xc3\xa9 \xe2\x82\xac \xed\xa0\x80 \xc2\x9b \xe2\x80\xae \xe2\x81\xa6", 22);
    memcpy(page.tags[0].name, "\xef\xbc\xa1 \xf0\x9f\x98\x80 \xf4\x90\x80\x80", 14);
    page.pools[0].device = 2;
    page.pools[0].pressure_level = 77;
    page.pools[0].counts.allocs = UINT64_MAX - 1;
    page.head.sum.held_bytes = PAGE_NUMBER_MAX + 1;
    assert_int_equal(take(&page, &view), PAGE_READ);
    assert_int_equal(strlen(view.pools[0].name), sizeof view.pools[0].name - 1);
    assert_string_equal(view.pools[1].name, "a?[2Jb?c??");
    assert_string_equal(view.pools[2].name, "\xc3\xa9 \xe2\x82\xac ??? ?? ??? ???");
    assert_string_equal(view.tags[0].name, "\xef\xbc\xa1 \xf0\x9f\x98\x80 ????");
    assert_int_equal(view.pools[0].device, UINT32_MAX);
    assert_int_not_equal(view.pools[0].pressure_level, 77);
    assert_true(view.pools[0].counts.allocs == VRAM_LIVE_PAGE_UNKNOWN);
    assert_true(view.head.sum.held_bytes == VRAM_LIVE_PAGE_UNKNOWN);
    page_view_free(&view);
}

TEST(sums_neither_overflow_nor_invent) {
    assert_true(page_sum(1, 2) == 3);
    assert_true(page_sum(PAGE_NUMBER_MAX, PAGE_NUMBER_MAX) == PAGE_NUMBER_MAX);
    assert_true(page_sum(1, VRAM_LIVE_PAGE_UNKNOWN) == VRAM_LIVE_PAGE_UNKNOWN);
    assert_true(page_sum(VRAM_LIVE_PAGE_UNKNOWN, 1) == VRAM_LIVE_PAGE_UNKNOWN);
}

/* -------------------------------------------------------------------- folders */

/* The name of the file for the process `pid`, as its stat says. */
static void own_name(pid_t pid, struct page_name *parts, char name[PAGE_NAME_MAX]) {
    char path[64];
    struct stat space;
    unsigned long long start = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file,
                            "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u "
                            "%*d %*d %*d %*d %*d %*d %llu",
                            &start),
                     1);
    fclose(file);
    assert_int_equal(stat("/proc/self/ns/pid", &space), 0);
    *parts = (struct page_name){
        .pid = (uint64_t)pid, .start_ticks = start, .pid_space = (uint64_t)space.st_ino};
    snprintf(name, PAGE_NAME_MAX, "%d-%llu-%llu.page", (int)pid, start,
             (unsigned long long)space.st_ino);
}

static void file_write(const char *name, const void *bytes, size_t count) {
    int fd = openat(pages_fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, count), (ssize_t)count);
    close(fd);
}

static bool view_keep(void *user, const char *path, struct page_view *view) {
    assert_string_equal(path, pages);
    assert_string_equal(view->head.command, "./train --steps 10");
    ++*(int *)user;
    page_view_free(view);
    return true;
}

static struct pages_met look(int *seen) {
    struct pages_met met;
    *seen = 0;
    pages_visit_in(pages, view_keep, seen, &met); /* the user's own folders may have pages */
    assert_int_equal(*seen, (int)met.read);
    return met;
}

TEST(a_page_of_a_running_process_is_found) {
    struct page_maker page;
    struct page_name parts;
    char name[PAGE_NAME_MAX];
    int seen;
    own_name(getpid(), &parts, name);
    page_make(&page, parts.pid, parts.start_ticks, parts.pid_space);
    file_write(name, &page, sizeof page);
    assert_int_equal(look(&seen).read, 1);

    page.head.sequence = 3; /* killed or stopped while it wrote */
    file_write(name, &page, sizeof page);
    assert_int_equal(look(&seen).busy, 1);
    file_write(name, &page, 100); /* truncated */
    assert_int_equal(look(&seen).wrong, 1);
    file_write(name, "", 0); /* just created */
    assert_int_equal(look(&seen).busy, 1);

    page.head.sequence = 4, page.head.magic = 0; /* not complete yet */
    file_write(name, &page, sizeof page);
    assert_int_equal(look(&seen).busy, 1);

    page.head.magic = VRAM_LIVE_PAGE_MAGIC, page.head.pid++; /* a lie */
    file_write(name, &page, sizeof page);
    struct pages_met met = look(&seen);
    assert_int_equal(met.wrong, 1);
    assert_non_null(strstr(met.problem, "another process"));
    assert_int_equal(unlinkat(pages_fd, name, 0), 0);
}

TEST(pages_of_ended_processes_are_removed) {
    struct page_maker page;
    struct page_name parts;
    char name[PAGE_NAME_MAX];
    int seen, ended;
    pid_t child = fork();
    if (child == 0) {
        alarm(30); /* should the test fail */
        pause();
        _exit(0);
    }
    own_name(child, &parts, name);
    page_make(&page, parts.pid, parts.start_ticks, parts.pid_space);
    file_write(name, &page, sizeof page);
    assert_int_equal(look(&seen).read, 1);
    kill(child, SIGKILL);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(look(&seen).removed, 1); /* not waited for yet */
    assert_int_equal(waitpid(child, &ended, 0), child);
    file_write(name, &page, sizeof page);
    assert_int_equal(look(&seen).removed, 1);
    assert_int_equal(look(&seen).removed, 0);

    /* A process id that was used again, and a page of processes that cannot be seen from here. */
    own_name(getpid(), &parts, name);
    snprintf(name, sizeof name, "%d-%llu-%llu.page", (int)getpid(),
             (unsigned long long)parts.start_ticks - 1, (unsigned long long)parts.pid_space);
    file_write(name, &page, sizeof page);
    assert_int_equal(look(&seen).removed, 1);
    snprintf(name, sizeof name, "1-1-%llu.page", (unsigned long long)parts.pid_space + 1);
    page_make(&page, 1, 1, parts.pid_space + 1);
    page.head.updated_ns = UINT64_MAX / 2;
    file_write(name, &page, sizeof page);
    assert_int_equal(look(&seen).read, 1);
    assert_int_equal(unlinkat(pages_fd, name, 0), 0);
}

static void *thread_stay(void *nothing) {
    pause();
    return nothing;
}

/* The state of a process, as its stat says. */
static char state_of(pid_t pid) {
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
    fclose(file);
    return state;
}

/* Its first thread has ended and another goes on, which the system shows as an ended process. */
TEST(a_process_without_its_first_thread_goes_on) {
    struct page_maker page;
    struct page_name parts;
    char name[PAGE_NAME_MAX];
    int seen, ended;
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        alarm(30); /* should the test fail */
        if (pthread_create(&thread, NULL, thread_stay, NULL) == 0) {
            pthread_exit(NULL);
        }
        _exit(1);
    }
    own_name(child, &parts, name);
    page_make(&page, parts.pid, parts.start_ticks, parts.pid_space);
    file_write(name, &page, sizeof page);
    while (state_of(child) != 'Z') {
        usleep(1000);
    }
    assert_int_equal(look(&seen).read, 1);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(look(&seen).removed, 1);
}

TEST(what_is_not_a_page_is_left_alone) {
    static const char *const names[] = {"notes",      "1-2-3.txt",
                                        "1-2.page",   "-1-2-3.page",
                                        "0-0-0.page", "1-2-99999999999999999999999.page"};
    int seen;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        file_write(names[i], "x", 1);
    }
    struct pages_met met = look(&seen);
    assert_int_equal(met.read + met.removed + met.busy + met.wrong, 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(unlinkat(pages_fd, names[i], 0), 0);
    }
    /* Neither a link nor a pipe is opened, and nothing waits for its other end. */
    struct page_name parts;
    char name[PAGE_NAME_MAX];
    own_name(getpid(), &parts, name);
    assert_int_equal(symlinkat("/etc/passwd", pages_fd, name), 0);
    assert_int_equal(look(&seen).wrong, 1);
    assert_int_equal(unlinkat(pages_fd, name, 0), 0);
    assert_int_equal(mkfifoat(pages_fd, name, 0600), 0);
    assert_int_equal(look(&seen).wrong, 1);
    assert_int_equal(unlinkat(pages_fd, name, 0), 0);
    /* A folder that others may write is not looked at. */
    file_write(name, "", 0);
    assert_int_equal(fchmod(pages_fd, 0777), 0);
    assert_int_equal(look(&seen).busy, 0);
    assert_int_equal(fchmod(pages_fd, 0700), 0);
    assert_int_equal(look(&seen).busy, 1);
    assert_int_equal(unlinkat(pages_fd, name, 0), 0);
}

static int folder_make(void) {
    /* In memory, where files are made and removed quickly. */
    snprintf(folder, sizeof folder, "%s/vram-pages-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(folder));
    snprintf(pages, sizeof pages, "%s/vram", folder);
    assert_int_equal(mkdir(pages, 0700), 0);
    pages_fd = open(pages, O_RDONLY | O_DIRECTORY);
    return setenv("XDG_RUNTIME_DIR", folder, 1) || pages_fd < 0;
}

static int folder_remove(void) {
    close(pages_fd);
    return rmdir(pages) || rmdir(folder); /* nothing is left in it */
}

WHOLE_FILE(folder_make, folder_remove)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_page_folder.c: which folders and files are taken for live pages: names that lie, processes
 * whose state cannot be had, folders of others, and those of all users for root.
 */
#include "live/page_folder.h"
#include "page_maker.h"
#include "rig/rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char root[64];     /* /dev/shm and /run/user are below it */
static char runtime[128]; /* and so is XDG_RUNTIME_DIR */

/* ---------------------------------------------------------------- the system */

static uid_t user;            /* who runs this */
static uid_t owner;           /* of all folders; 0: the same */
static int kill_error;        /* 0: the process is there */
static const char *stat_text; /* what /proc says of a process; NULL: nothing */
static bool ends_meanwhile;   /* the process, before it is asked whose it is */
static bool has_space = true; /* the kernel has namespaces of processes */
static bool list_fails, unlink_fails, about_fails;
static bool owner_is_other, owner_is_root, parent_is_link; /* of folders, */
static mode_t rights;                                      /* and their rights; 0: as they are */

/* The path in the folders of this test. */
static const char *moved(const char *path) {
    static char to[512];
    if (strncmp(path, "/dev/shm", 8) != 0 && strncmp(path, "/run/user", 9) != 0) {
        return path;
    }
    snprintf(to, sizeof to, "%s%s", root, path);
    return to;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
    return __real_open(moved(path), flags, 0600);
}

DIR *__real_opendir(const char *path);
DIR *__wrap_opendir(const char *path);
DIR *__wrap_opendir(const char *path) {
    return __real_opendir(moved(path));
}

DIR *__real_fdopendir(int file);
DIR *__wrap_fdopendir(int file);
DIR *__wrap_fdopendir(int file) {
    return list_fails ? NULL : __real_fdopendir(file);
}

int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode) {
    return __real_mkdir(moved(path), mode);
}

static int about_changed(int code, struct stat *about) {
    about->st_uid = owner_is_other ? user + 1 : owner_is_root ? 0 : owner != 0 ? owner : user;
    about->st_mode = rights != 0 ? (about->st_mode & S_IFMT) | rights : about->st_mode;
    about->st_mode = parent_is_link ? S_IFLNK : about->st_mode;
    return about_fails ? -1 : code;
}

int __real_fstat(int file, struct stat *about);
int __wrap_fstat(int file, struct stat *about);
int __wrap_fstat(int file, struct stat *about) {
    return about_changed(__real_fstat(file, about), about);
}

int __real_lstat(const char *path, struct stat *about);
int __wrap_lstat(const char *path, struct stat *about);
int __wrap_lstat(const char *path, struct stat *about) {
    return about_changed(__real_lstat(moved(path), about), about);
}

int __real_stat(const char *path, struct stat *about);
int __wrap_stat(const char *path, struct stat *about);
int __wrap_stat(const char *path, struct stat *about) {
    if (strcmp(path, "/proc/self/ns/pid") == 0) {
        about->st_ino = 77;
        return has_space ? 0 : -1;
    }
    int code = __real_stat(path, about);
    about->st_uid = user;
    return code;
}

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode) {
    if (strncmp(path, "/proc/", 6) != 0) {
        return __real_fopen(path, mode);
    }
    if (ends_meanwhile && strstr(path, "/status") != NULL) {
        kill_error = ESRCH;
        return NULL;
    }
    FILE *file = stat_text != NULL ? tmpfile() : NULL;
    if (file != NULL) {
        fputs(stat_text, file);
        rewind(file);
    }
    return file;
}

int __wrap_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number) {
    (void)pid, (void)number;
    errno = kill_error;
    return kill_error != 0 ? -1 : 0;
}

uid_t __wrap_geteuid(void);
uid_t __wrap_geteuid(void) {
    return user;
}

int __real_unlinkat(int folder, const char *name, int flags);
int __wrap_unlinkat(int folder, const char *name, int flags);
int __wrap_unlinkat(int folder, const char *name, int flags) {
    return unlink_fails ? -1 : __real_unlinkat(folder, name, flags);
}

/* The machine has run for some days. */
int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
    int code = __real_clock_gettime(clock, now);
    now->tv_sec += 1000000;
    return code;
}

#define STAT_OF(state, threads)                                                                    \
    "7 (a) b) " state " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 " threads " 0 500 18\n"

/* --------------------------------------------------------------------- names */

TEST(names_are_checked) {
    static const struct {
        const char *name;
        bool good;
    } cases[] = {{"1-2-3.page", true},
                 {"1-2-3.sock", true},
                 {"1-2-3.text", false},
                 {"1-2-3.", false},
                 {"0-2-3.page", false},
                 {"2147483647-2-3.page", true},
                 {"2147483648-2-3.page", false},
                 {"99999999999999999999-2-3.page", false},
                 {"000000000000000000001-2-3.page", false},
                 {"1-2.page", false},
                 {"1-x-3.page", false},
                 {"-1-2-3.page", false},
                 {"", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct page_name parts = {0};
        if (page_name_read(cases[i].name, &parts) != cases[i].good) {
            fail_msg("%s", cases[i].name);
        }
        assert_int_equal(parts.socket, cases[i].good && strstr(cases[i].name, "sock") != NULL);
    }
}

/* ----------------------------------------------------------------- processes */

TEST(processes_are_looked_at) {
    static const struct {
        int error;
        const char *text;
        uint64_t start;
        bool ended, described;
    } cases[] = {
        {ESRCH, NULL, 500, true, false},
        {EPERM, STAT_OF("S", "3"), 500, false, true}, /* of another user */
        {0, NULL, 500, false, false},                 /* nothing to be had */
        {0, "", 500, false, false},
        {0, "7 (a S", 500, false, false},
        {0, "7 (a) S 1 2 3", 500, false, false},
        {0, "7 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 x 0 y", 500, false, false},
        {0, STAT_OF("S", "3"), 500, false, true},
        {0, STAT_OF("S", "3"), 0, false, true},  /* its start is not known to the page */
        {0, STAT_OF("S", "3"), 499, true, true}, /* another one with the same id */
        {0, STAT_OF("Z", "1"), 500, true, false},
        {0, STAT_OF("Z", "2"), 500, false, true}, /* its other threads go on */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct page_name parts = {.pid = 7, .start_ticks = cases[i].start, .pid_space = 77};
        kill_error = cases[i].error;
        stat_text = cases[i].text;
        assert_int_equal(page_owner_ended(&parts), cases[i].ended);
        assert_int_equal(page_owner_describe(7, &parts), cases[i].described);
        parts.pid_space = 78; /* cannot be seen from here */
        assert_false(page_owner_ended(&parts));
    }
    struct page_name parts;
    kill_error = 0;
    stat_text = STAT_OF("S", "3");
    assert_false(page_owner_describe(0, &parts));
    assert_false(page_owner_describe((uint64_t)INT_MAX + 1, &parts));
    has_space = false;
    assert_true(page_owner_describe(7, &parts));
    assert_int_equal(parts.pid_space, 0);
    has_space = true;
}

/* ------------------------------------------------------------------- visiting */

static uint64_t user_shown; /* by the last page */

static bool view_count(void *counted, const char *path, struct page_view *view) {
    (void)path;
    user_shown = view->head.user;
    page_view_free(view);
    return --*(int *)counted > 0;
}

static struct pages_met visit(int most) {
    struct pages_met met;
    pages_visit(view_count, &most, &met);
    return met;
}

static void page_write(const char *folder, const char *name, const struct page_maker *page) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = __real_fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(page, 1, sizeof *page, file), sizeof *page);
    assert_int_equal(fclose(file), 0);
}

/* A page of process 7 that is as old as that. */
static struct page_maker page_of(uint64_t pid, uint64_t start, uint64_t space) {
    struct page_maker page;
    page_make(&page, pid, start, space);
    page.head.updated_ns = UINT64_MAX / 2;
    return page;
}

static void make_folder(const char *below, char path[256]) {
    snprintf(path, 256, "%s%s", root, below);
    for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        (void)__real_mkdir(path, 0700);
        *slash = '/';
    }
    (void)__real_mkdir(path, 0700);
}

TEST(pages_that_are_others) {
    char folder[256];
    make_folder("/runtime/vram", folder);
    assert_int_equal(setenv("XDG_RUNTIME_DIR", runtime, 1), 0);
    struct page_maker page = page_of(7, 500, 77);
    page_write(folder, "7-500-77.page", &page);
    page_write(folder, "7-500-77.sock", &page); /* of a process that runs: it stays */
    assert_int_equal(visit(9).read, 1);
    page_write(folder, "7-501-78.page", &page); /* each of them claims to be 7-500-77 */
    page_write(folder, "7-500-78.page", &page);
    page_write(folder, "8-500-77.page", &page);
    struct pages_met met = visit(9);
    assert_int_equal(met.wrong, 3);
    assert_int_equal(met.read, 1);
    assert_non_null(strstr(met.problem, "it claims to be of another process"));

    page = page_of(9, 500, 78);
    page.head.updated_ns = 1; /* nobody has written it for a day, and nobody here sees who it is */
    page_write(folder, "9-500-78.page", &page);
    page.head.pid_space = 77;
    page_write(folder, "9-500-77.page", &page);
    unlink_fails = true;
    assert_int_equal(visit(9).removed, 0);
    unlink_fails = false;
    met = visit(9);
    assert_int_equal(met.removed, 1);
    kill_error = ESRCH;
    unlink_fails = true;
    assert_int_equal(visit(9).removed, 0);
    unlink_fails = false;
    met = visit(9);
    assert_int_equal(met.removed, 3); /* 7-500-77, 8-500-77 and 9-500-77, and the socket */
    assert_int_equal(visit(9).removed, 0);
    kill_error = 0;
}

TEST(folders_that_are_others) {
    char folder[256], far[512];
    make_folder("/runtime/vram", folder);
    struct page_maker page = page_of(7, 500, 77);
    page_write(folder, "7-500-77.page", &page);
    assert_int_equal(setenv("XDG_RUNTIME_DIR", runtime, 1), 0);
    assert_int_equal(visit(9).read, 1);
    list_fails = true;
    assert_int_equal(visit(9).read, 0);
    list_fails = false;
    owner_is_other = true;
    assert_int_equal(visit(9).read, 0);
    owner_is_other = false;
    rights = 0770;
    assert_int_equal(visit(9).read, 0);
    rights = 0;
    about_fails = true;
    assert_int_equal(visit(9).read, 0);
    about_fails = false;
    assert_int_equal(setenv("XDG_RUNTIME_DIR", "runtime", 1), 0); /* not from the root on */
    assert_int_equal(visit(9).read, 0);
    snprintf(far, sizeof far, "/%0*d", PAGE_FOLDER_MAX, 0);
    assert_int_equal(setenv("XDG_RUNTIME_DIR", far, 1), 0);
    assert_int_equal(visit(9).read, 0);
    assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
    assert_int_equal(visit(9).read, 0);
    struct pages_met met;
    int most = 9;
    pages_visit_in("/nonexistent", view_count, &most, &met);
    assert_int_equal(met.read, 0);
}

TEST(root_sees_all_users) {
    static const char *const folders[] = {"/run/user/1000/vram", "/run/user/x/vram",
                                          "/dev/shm/vram-1000",  "/dev/shm/vram-12x",
                                          "/dev/shm/vram-0",     "/dev/shm/vram-4294967295",
                                          "/dev/shm/other-1000", "/dev/shm/vram-"};
    char folder[256], name[64];
    uid_t before = user;
    user = 0;
    assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
    assert_int_equal(visit(99).read, 0); /* neither is there */
    for (unsigned i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        make_folder(folders[i], folder);
        struct page_maker page = page_of(i + 1, 500, 77);
        snprintf(name, sizeof name, "%u-500-77.page", i + 1);
        page_write(folder, name, &page);
    }
    char far[320];
    snprintf(far, sizeof far, "%s/dev/shm/vram-%0*d", root, PAGE_FOLDER_MAX, 7);
    assert_int_equal(__real_mkdir(far, 0700), 0);
    user = 1000; /* whose all of them seem to be */
    assert_int_equal(visit(99).read, 1);
    user = 0;
    assert_int_equal(visit(99).read, 1); /* that of root itself; the others' owner is another */
    assert_int_equal(user_shown, 0);
    owner = 1000;
    stat_text = STAT_OF("S", "3") "Uid:\t5\t1000\t5\t5\n";
    assert_int_equal(visit(99).read, 2);
    assert_int_equal(visit(1).read, 1);
    assert_int_equal(user_shown, 1000); /* whatever the page says */
    static const char *const others[] = {STAT_OF("S", "3"),
                                         STAT_OF("S", "3") "Uid:\t1000\t0\t1000\n",
                                         STAT_OF("S", "3") "Uid:\t1000\n"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        stat_text = others[i]; /* whose processes they are not */
        struct pages_met met = visit(99);
        assert_int_equal(met.read, 0);
        assert_int_equal(met.wrong, 2);
        assert_non_null(strstr(met.problem, "the process is another user's"));
    }
    ends_meanwhile = true;
    assert_int_equal(visit(99).wrong, 0);
    ends_meanwhile = false;
    kill_error = 0;
    owner = 0;
    user = before;
}

/* -------------------------------------------------------------------- making */

TEST(folders_are_made) {
    char folder[256], far[512];
    make_folder("/runtime", folder);
    make_folder("/dev/shm", folder);
    assert_int_equal(setenv("XDG_RUNTIME_DIR", runtime, 1), 0);
    int made = page_folder_make();
    assert_true(made >= 0);
    (void)close(made);
    snprintf(far, sizeof far, "/%0*d", PAGE_FOLDER_MAX, 0);
    const char *const others[] = {"runtime", far, "/nonexistent/runtime", NULL};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (others[i] != NULL) {
            assert_int_equal(setenv("XDG_RUNTIME_DIR", others[i], 1), 0);
        } else {
            assert_int_equal(unsetenv("XDG_RUNTIME_DIR"), 0);
        }
        made = page_folder_make(); /* in /dev/shm */
        assert_true(made >= 0);
        (void)close(made);
    }
    about_fails = true;
    assert_int_equal(page_folder_make(), -1);
    about_fails = false;
    parent_is_link = true;
    assert_int_equal(page_folder_make(), -1);
    parent_is_link = false;
    owner_is_other = true;
    assert_int_equal(page_folder_make(), -1);
    owner_is_other = false;
    owner_is_root = true; /* as good for a parent, but not for the folder itself */
    assert_int_equal(page_folder_make(), -1);
    owner_is_root = false;
    rights = 01777; /* the same */
    assert_int_equal(page_folder_make(), -1);
    rights = 0777;
    assert_int_equal(page_folder_make(), -1);
    rights = 0;
}

static int tree_begin(void) {
    user = 1000;
    kill_error = 0;
    stat_text = STAT_OF("S", "3");
    snprintf(root, sizeof root, "/tmp/vram_folder_XXXXXX");
    if (mkdtemp(root) == NULL) {
        return -1;
    }
    snprintf(runtime, sizeof runtime, "%s/runtime", root);
    return 0;
}

static int tree_end(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

EACH_TEST(tree_begin, tree_end)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_page_metrics.c: metrics of live pages for `vram exporter`: processes with the same id, and a
 * file that cannot be written.
 */
#include "exporter/page_metrics.h"
#include "http/http_answer.h"
#include "page_maker.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64], file_path[96];

/* ---------------------------------------------------------------- the system */

static const char *failing; /* the call that fails; NULL: none */

static bool fails(const char *name) {
    errno = EIO;
    return failing != NULL && strcmp(failing, name) == 0;
}

FILE *__real_fdopen(int file, const char *mode);
FILE *__wrap_fdopen(int file, const char *mode);
FILE *__wrap_fdopen(int file, const char *mode) {
    return fails("fdopen") ? NULL : __real_fdopen(file, mode);
}
int __real_fchmod(int file, mode_t mode);
int __wrap_fchmod(int file, mode_t mode);
int __wrap_fchmod(int file, mode_t mode) {
    return fails("fchmod") ? -1 : __real_fchmod(file, mode);
}
int __real_fsync(int file);
int __wrap_fsync(int file);
int __wrap_fsync(int file) {
    return fails("fsync") ? -1 : __real_fsync(file);
}
int __real_fflush(FILE *file);
int __wrap_fflush(FILE *file);
int __wrap_fflush(FILE *file) {
    return fails("fflush") ? -1 : __real_fflush(file);
}
int __real_fclose(FILE *file);
int __wrap_fclose(FILE *file);
int __wrap_fclose(FILE *file) {
    int code = __real_fclose(file);
    return fails("fclose") ? -1 : code;
}
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to) {
    return fails("rename") ? -1 : __real_rename(from, to);
}
size_t __real_fwrite(const void *from, size_t bytes, size_t count, FILE *to);
size_t __wrap_fwrite(const void *from, size_t bytes, size_t count, FILE *to);
size_t __wrap_fwrite(const void *from, size_t bytes, size_t count, FILE *to) {
    return fails("fwrite") ? 0 : __real_fwrite(from, bytes, count, to);
}

/* --------------------------------------------------------------------- tests */

/* Its start is not known: any process with that id is meant. */
static void page_write(uint64_t pid, uint64_t space) {
    struct page_maker page;
    char path[160];
    page_make(&page, pid, 0, space);
    vram_live_page head = page.head;
    head.updated_ns = UINT64_MAX / 2;
    snprintf(head.command, sizeof head.command, "%s", space > 2 ? "here" : "elsewhere");
    head.page_bytes = sizeof head;
    head.devices = head.pools = head.tags = head.refusals = (vram_live_page_table){0};
    snprintf(path, sizeof path, "%s/%llu-0-%llu.page", folder, (unsigned long long)pid,
             (unsigned long long)space);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(__real_fwrite(&head, 1, sizeof head, file), sizeof head);
    assert_int_equal(__real_fclose(file), 0);
}

static bool has_text(const struct http_body *body, const char *text) {
    return memmem(body->text, body->used, text, strlen(text)) != NULL;
}

static void processes_of_the_same_id_count_once(void **state) {
    (void)state;
    struct http_body body = {0};
    char problem[256];
    page_write(11, 1);
    page_write(11, 2);
    page_write(12, 2);
    assert_true(page_metrics_write(folder, VRAM_METRICS_PROMETHEUS, http_body_add, &body, problem,
                                   sizeof problem));
    assert_true(has_text(&body, "vram_exporter_pages{state=\"read\"} 2\n"));
    assert_true(has_text(&body, "vram_exporter_pages{state=\"left_out\"} 1\n"));
    free(body.text);
}

/* What another container says of an id does not hide the process that has it here. */
static void the_process_of_here_counts(void **state) {
    (void)state;
    struct stat space;
    char mine[80], problem[256];
    assert_int_equal(stat("/proc/self/ns/pid", &space), 0);
    snprintf(mine, sizeof mine, "pid=\"%d\",command=\"here\"", getpid());
    for (uint64_t other = 1; other <= 2; other++) { /* a folder lists them in any order */
        struct http_body body = {0};
        page_write((uint64_t)getpid(), other);
        page_write((uint64_t)getpid(), space.st_ino);
        assert_true(page_metrics_write(folder, VRAM_METRICS_PROMETHEUS, http_body_add, &body,
                                       problem, sizeof problem));
        assert_true(has_text(&body, mine));
        free(body.text);
    }
}

static int writes_left;

static bool write_some(void *user, const char *text, size_t bytes) {
    (void)user, (void)text, (void)bytes;
    return writes_left-- > 0;
}

static void writers_may_fail(void **state) {
    (void)state;
    char problem[256] = "";
    page_write(11, 1);
    for (int i = 0; i < 2; i++) {
        writes_left = i;
        assert_false(page_metrics_write(folder, VRAM_METRICS_PROMETHEUS, write_some, NULL, problem,
                                        sizeof problem));
        assert_string_not_equal(problem, "");
    }
}

static void files_are_whole_or_not_there(void **state) {
    (void)state;
    static const char *const calls[] = {"fdopen", "fwrite", "fflush", "fchmod",
                                        "fsync",  "fclose", "rename"};
    static char far[5000];
    char problem[256] = "", kept[256];
    struct stat about;
    page_write(11, 1);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        problem[0] = 0;
        failing = calls[i];
        bool saved = page_metrics_save(file_path, folder, problem, sizeof problem);
        failing = NULL;
        assert_false(saved);
        assert_string_not_equal(problem, "");
        assert_int_not_equal(stat(file_path, &about), 0);
    }
    snprintf(kept, sizeof kept, "ls -A %s/out", folder);
    FILE *list = popen(kept, "r"); /* nothing is left behind */
    assert_non_null(list);
    assert_null(fgets(kept, sizeof kept, list));
    assert_int_equal(pclose(list), 0);
    memset(far, 'x', sizeof far - 1);
    assert_false(page_metrics_save(far, folder, problem, sizeof problem));
    assert_string_equal(problem, "the path is too long");
    assert_false(page_metrics_save("/nonexistent/x", folder, problem, sizeof problem));
    assert_true(page_metrics_save(file_path, folder, problem, sizeof problem));
    assert_int_equal(stat(file_path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0644);
}

static int folder_begin(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/vram_metrics_XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(file_path, sizeof file_path, "%s/out", folder);
    int code = mkdir(file_path, 0700);
    snprintf(file_path, sizeof file_path, "%s/out/metrics", folder);
    return code;
}

static int folder_end(void **state) {
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_begin, folder_end)
        TEST(processes_of_the_same_id_count_once),
        TEST(the_process_of_here_counts),
        TEST(writers_may_fail),
        TEST(files_are_whole_or_not_there),
    };
    return cmocka_run_group_tests_name("page_metrics", tests, NULL, NULL);
}

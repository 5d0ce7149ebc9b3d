/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_page_metrics.c: metrics of live pages for `vram exporter`: processes with the same id.
 * golden.injected has what cannot be written.
 */
#include "exporter/page_metrics.h"
#include "http/http_answer.h"
#include "page_maker.h"
#include "rig/rig.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], file_path[96];

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
    assert_int_equal(fwrite(&head, 1, sizeof head, file), sizeof head);
    assert_int_equal(fclose(file), 0);
}

static bool has_text(const struct http_body *body, const char *text) {
    return memmem(body->text, body->used, text, strlen(text)) != NULL;
}

TEST(processes_of_the_same_id_count_once) {
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
TEST(the_process_of_here_counts) {
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

TEST(writers_may_fail) {
    char problem[256] = "";
    page_write(11, 1);
    for (int i = 0; i < 2; i++) {
        writes_left = i;
        assert_false(page_metrics_write(folder, VRAM_METRICS_PROMETHEUS, write_some, NULL, problem,
                                        sizeof problem));
        assert_string_not_equal(problem, "");
    }
}

TEST(files_are_readable_by_all) {
    static char far[5000];
    char problem[256] = "";
    struct stat about;
    page_write(11, 1);
    memset(far, 'x', sizeof far - 1);
    assert_false(page_metrics_save(far, folder, problem, sizeof problem));
    assert_string_equal(problem, "the path is too long");
    assert_false(page_metrics_save("/nonexistent/x", folder, problem, sizeof problem));
    assert_true(page_metrics_save(file_path, folder, problem, sizeof problem));
    assert_int_equal(stat(file_path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0644);
}

static int folder_begin(void) {
    snprintf(folder, sizeof folder, "/tmp/vram_metrics_XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    snprintf(file_path, sizeof file_path, "%s/out", folder);
    int code = mkdir(file_path, 0700);
    snprintf(file_path, sizeof file_path, "%s/out/metrics", folder);
    return code;
}

static int folder_end(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

EACH_TEST(folder_begin, folder_end)

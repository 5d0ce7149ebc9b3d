/* SPDX-License-Identifier: Apache-2.0 */
/* page_metrics.c: see page_metrics.h. */
#include "exporter/page_metrics.h"

#include "live/page_folder.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The pages that were read. */
struct page_set {
    struct page_view *views;
    size_t count, room;
    uint64_t left_out; /* too many, of the same id, or no memory for them */
};

/* Two processes of different containers may have the same id, which is what names them in metrics:
   the one of here counts, or else the first. */
static bool set_has(struct page_set *set, struct page_view *view) {
    size_t at = 0;
    while (at < set->count && set->views[at].head.pid != view->head.pid) {
        at++;
    }
    if (at < set->count && page_is_of_here(view) && !page_is_of_here(&set->views[at])) {
        struct page_view other = set->views[at];
        set->views[at] = *view;
        *view = other;
    }
    return at < set->count;
}

static bool set_grow(struct page_set *set) {
    if (set->count < set->room) {
        return true;
    }
    size_t room = set->room > 0 ? set->room * 2 : 16;
    struct page_view *grown = realloc(set->views, room * sizeof *set->views);
    if (grown == NULL) {
        return false;
    }
    set->room = room;
    set->views = grown;
    return true;
}

static bool set_add(void *user, const char *folder, struct page_view *view) {
    struct page_set *set = user;
    (void)folder;
    if (set->count == EXPORTED_PROCESSES_MAX || set_has(set, view) || !set_grow(set)) {
        set->left_out++;
        page_view_free(view);
        return true;
    }
    set->views[set->count++] = *view;
    return true;
}

static void set_free(struct page_set *set) {
    for (size_t i = 0; i < set->count; i++) {
        page_view_free(&set->views[i]);
    }
    free(set->views);
}

/* The view's rows are as long as its structs, whatever they were in the page. */
static void source_of(struct page_view *view, vram_metrics_source *source) {
    view->head.devices.stride = sizeof *view->devices;
    view->head.pools.stride = sizeof *view->pools;
    view->head.tags.stride = sizeof *view->tags;
    *source = (vram_metrics_source){.size = sizeof *source,
                                    .page = &view->head,
                                    .devices = view->devices,
                                    .pools = view->pools,
                                    .tags = view->tags};
}

/* The exporter's own metrics; gauges look the same in both formats. */
static bool write_own(const struct page_set *set, const struct pages_met *met, vram_write_fn *write,
                      void *to) {
    char text[640];
    int bytes =
        snprintf(text, sizeof text,
                 "# HELP vram_exporter_pages Live pages of processes, by what became of them.\n"
                 "# TYPE vram_exporter_pages gauge\n"
                 "vram_exporter_pages{state=\"read\"} %zu\n"
                 "vram_exporter_pages{state=\"busy\"} %" PRIu64 "\n"
                 "vram_exporter_pages{state=\"invalid\"} %" PRIu64 "\n"
                 "vram_exporter_pages{state=\"left_out\"} %" PRIu64 "\n",
                 set->count, met->busy, met->wrong, set->left_out);
    return write(to, text, (size_t)bytes);
}

static vram_status write_all(struct page_set *set, const struct pages_met *met,
                             vram_metrics_format format, vram_write_fn *write, void *to) {
    vram_metrics_source *sources = calloc(set->count + 1, sizeof *sources);
    const vram_metrics_source **list = calloc(set->count + 1, sizeof *list);
    vram_status status = VRAM_ERR_HOST_MEMORY;
    if (sources != NULL && list != NULL) {
        for (size_t i = 0; i < set->count; i++) {
            source_of(&set->views[i], &sources[i]);
            list[i] = &sources[i];
        }
        status = write_own(set, met, write, to)
                     ? vram_metrics_pages_write(list, set->count, format, write, to)
                     : VRAM_ERR_IO;
    }
    free(list);
    free(sources);
    return status;
}

bool page_metrics_write(void *user, vram_metrics_format format, vram_write_fn *write, void *to,
                        char *problem, size_t problem_bytes) {
    struct page_set set = {0};
    struct pages_met met;
    if (user != NULL) {
        pages_visit_in(user, set_add, &set, &met);
    } else {
        pages_visit(set_add, &set, &met);
    }
    vram_status status = write_all(&set, &met, format, write, to);
    set_free(&set);
    if (status != VRAM_OK) {
        snprintf(problem, problem_bytes, "%s", vram_status_text(status));
    }
    return status == VRAM_OK;
}

/* ------------------------------------------------------------------------- file */

static bool file_write(void *user, const char *text, size_t bytes) {
    return fwrite(text, 1, bytes, user) == bytes;
}

/* node_exporter runs as another user: everyone may read the metrics. */
static bool file_finish(FILE *file) {
    bool good = fflush(file) == 0 && fchmod(fileno(file), 0644) == 0 && fsync(fileno(file)) == 0;
    return fclose(file) == 0 && good;
}

bool page_metrics_save(const char *path, const char *folder, char *problem, size_t problem_bytes) {
    char made[4096];
    if (snprintf(made, sizeof made, "%s.XXXXXX", path) >= (int)sizeof made) {
        snprintf(problem, problem_bytes, "the path is too long");
        return false;
    }
    int descriptor = mkstemp(made);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    if (file == NULL) {
        snprintf(problem, problem_bytes, "%s", strerror(errno));
        if (descriptor >= 0) {
            close(descriptor);
            unlink(made);
        }
        return false;
    }
    bool written = page_metrics_write((void *)(uintptr_t)folder, VRAM_METRICS_PROMETHEUS,
                                      file_write, file, problem, problem_bytes);
    if (!written && ferror(file)) {
        snprintf(problem, problem_bytes, "%s", strerror(errno));
    }
    errno = 0;
    bool good = file_finish(file) && written && rename(made, path) == 0;
    if (!good) {
        if (written || errno != 0) {
            snprintf(problem, problem_bytes, "%s", strerror(errno));
        }
        unlink(made);
    }
    return good;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sites.c: see sites.h.
 */
#include "sites.h"

#include <stdlib.h>
#include <string.h>

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* Frames that every allocation has. */
static bool is_internal(const char *frame) {
    static const char *const internal[] = {"torch::unwind",
                                           "torch::CapturedTraceback",
                                           "torch::cuda::(anonymous namespace)::gather",
                                           "by_unwinder",
                                           "libffi",
                                           "ffi_call",
                                           "_ctypes",
                                           "PyCFuncPtr_call",
                                           "vr_",
                                           "vram_",
                                           "c10::cuda::CUDACachingAllocator",
                                           "c10::CachingAllocator",
                                           "c10::cuda::cuda_check",
                                           "at::detail::empty",
                                           "at::detail::make_tensor"};
    for (size_t i = 0; i < sizeof internal / sizeof internal[0]; i++) {
        if (begins(frame, internal[i])) {
            return true;
        }
    }
    return false;
}

bool site_is_python(const char *frame) {
    static const char *const marks[] = {".py:",       ".ipynb:",  "<ipython",
                                        "(<string>:", "(<stdin>", "(<frozen "};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        if (strstr(frame, marks[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/* Not of a package that was installed, nor of Python itself. */
static bool is_own(const char *frame) {
    return site_is_python(frame) && strstr(frame, "site-packages/") == NULL &&
           strstr(frame, "dist-packages/") == NULL && strstr(frame, "/torch/") == NULL &&
           strstr(frame, "<frozen") == NULL && strstr(frame, "lib/python") == NULL;
}

uint32_t site_first_frame(struct report_input *input, uint32_t stack) {
    const char *frame;
    uint32_t i = 0;
    while ((frame = report_input_frame(input, stack, i)) != NULL && is_internal(frame)) {
        i++;
    }
    return frame != NULL ? i : 0;
}

uint32_t site_next_frame(struct report_input *input, uint32_t stack, uint32_t last,
                         uint32_t shown) {
    const char *frame;
    uint32_t next = last + 1;
    if (shown != SITE_NATIVE || site_is_python(report_input_frame(input, stack, last))) {
        return next;
    }
    for (uint32_t i = next; (frame = report_input_frame(input, stack, i)) != NULL; i++) {
        if (site_is_python(frame)) {
            return i;
        }
    }
    return next;
}

/* "forward (torch/nn/modules/linear.py:134)": without the folder of installed packages. */
static const char *shorter(char *frame) {
    static const char *const folders[] = {"site-packages/", "dist-packages/"};
    char *path = strrchr(frame, '(');
    for (size_t i = 0; path != NULL && i < sizeof folders / sizeof folders[0]; i++) {
        char *at = strstr(path, folders[i]);
        if (at != NULL) {
            at += strlen(folders[i]);
            memmove(path + 1, at, strlen(at) + 1);
        }
    }
    return frame;
}

void site_name(struct report_input *input, const struct history_group *group,
               char site[SITE_TEXT_MAX]) {
    enum { PART = STACK_TABLE_TEXT_MAX + 1 };
    char own[PART] = "", python[PART] = "", first[PART] = "";
    const char *frame;
    uint32_t begin = site_first_frame(input, group->stack);
    for (uint32_t i = begin; (frame = report_input_frame(input, group->stack, i)) != NULL; i++) {
        if (i == begin) {
            snprintf(first, PART, "%s", frame);
        }
        if (python[0] == 0 && site_is_python(frame)) {
            snprintf(python, PART, "%s", frame);
        }
        if (own[0] == 0 && is_own(frame)) {
            snprintf(own, PART, "%s", frame);
        }
    }
    if (own[0] != 0 && strcmp(own, python) != 0) {
        snprintf(site, SITE_TEXT_MAX, "%.150s, from %.150s", shorter(python), own);
    } else if (python[0] != 0 || first[0] != 0) {
        snprintf(site, SITE_TEXT_MAX, "%.255s", shorter(python[0] != 0 ? python : first));
    } else {
        snprintf(site, SITE_TEXT_MAX, "%.200s", group->tag[0] != 0 ? group->tag : "(no stack)");
    }
}

static int by_name(const void *one, const void *other) {
    return strcmp(((const struct site *)one)->name, ((const struct site *)other)->name);
}

static int by_bytes(const void *one, const void *other) {
    const struct site *a = one, *b = other;
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : strcmp(a->name, b->name);
}

bool sites_find(const struct history *history, struct report_input *input, bool end,
                struct site *list, size_t most, size_t *found) {
    struct site *all = calloc(history->group_count + 1, sizeof *all);
    size_t count = 0, kept = 0;
    *found = 0;
    if (all == NULL) {
        return false;
    }
    for (size_t i = 0; i < history->group_count; i++) {
        const struct history_group *group = &history->groups[i];
        uint64_t bytes = end ? group->bytes + group->lost_bytes : group->peak_bytes;
        if (bytes > 0) {
            all[count].bytes = bytes;
            all[count].blocks = end ? group->blocks + group->lost_blocks : group->peak_blocks;
            site_name(input, group, all[count++].name);
        }
    }
    qsort(all, count, sizeof *all, by_name);
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && strcmp(all[kept - 1].name, all[i].name) == 0) {
            all[kept - 1].bytes += all[i].bytes;
            all[kept - 1].blocks += all[i].blocks;
        } else {
            all[kept++] = all[i];
        }
    }
    qsort(all, kept, sizeof *all, by_bytes);
    *found = kept < most ? kept : most;
    memcpy(list, all, *found * sizeof *list);
    free(all);
    return true;
}

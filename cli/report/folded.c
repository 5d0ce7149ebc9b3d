/* SPDX-License-Identifier: Apache-2.0 */
/*
 * folded.c: a history as collapsed stacks for flame graphs; see report_view.h.
 */
#include "report_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t report_depth(const struct report_view *view, uint32_t stack) {
    uint32_t depth = 0;
    while (report_input_frame(view->input, stack, depth) != NULL) {
        depth++;
    }
    return depth;
}

static void cut_text(char *from, const char *to) {
    memmove(from, to, strlen(to) + 1);
}

/* Without the offset in a function, and in its module: "f+0x1f (main.c:42, m+0x2a3f)" becomes
   "f (main.c:42, m)" for the innermost frame, which allocated, and "f (m)" for its callers, so that
   all calls from one function are one frame. An offset in a module whose functions are not known
   stays: it is all there is. */
static void fold_frame(char *text, bool innermost) {
    char *function = strstr(text, "+0x"), *module = strstr(text, " (");
    char *inside = module != NULL ? strstr(module, "+0x") : strchr(text, '`');
    if (function == NULL || inside == NULL) {
        return;
    }
    if (module == NULL) {
        *function = 0;
        return;
    }
    cut_text(inside, inside + strcspn(inside, ")"));
    char *line = innermost ? NULL : strstr(module, ", ");
    if (line != NULL) {
        cut_text(module + 2, line + 2);
    }
    if (function < module) { /* else the function itself has no offset */
        cut_text(function, module);
    }
}

/* Semicolons and line breaks mean something in this format. */
static void clean_frame(char *text) {
    for (; *text != 0; text++) {
        *text = *text == ';' ? ':' : *text;
    }
}

const char *report_stack(const struct report_view *view, const struct history_group *group,
                         char *text, size_t bytes) {
    uint32_t depth = report_depth(view, group->stack);
    size_t used = 0;
    text[0] = 0;
    for (uint32_t i = depth; i-- > 0 && used + 1 < bytes;) {
        char frame[RECORDING_TEXT_MAX + 1];
        snprintf(frame, sizeof frame, "%s", report_input_frame(view->input, group->stack, i));
        fold_frame(frame, i == 0);
        clean_frame(frame);
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", used > 0 ? ";" : "", frame);
    }
    if (depth == 0) {
        char tag[RECORDING_TEXT_MAX + 1];
        snprintf(tag, sizeof tag, "%s", group->tag[0] != 0 ? group->tag : "no tag");
        clean_frame(tag);
        snprintf(text, bytes, "(no stack);%s", tag);
    }
    return text;
}

enum { STACK_TEXT_MAX = STACK_TABLE_FRAMES_MAX * (RECORDING_TEXT_MAX + 1) };

/* A line of that format. */
struct folded {
    char *text; /* NULL: added to another one */
    uint64_t weight;
};

static int by_text(const void *one, const void *other) {
    const struct folded *a = one, *b = other;
    return strcmp(a->text, b->text);
}

static int by_weight(const void *one, const void *other) {
    const struct folded *a = one, *b = other;
    return (a->weight < b->weight) - (a->weight > b->weight);
}

/* Lines with the same text become one, the heaviest first; returns how many are left. */
static size_t merge_folded(struct folded *lines, size_t count) {
    size_t kept = 0;
    qsort(lines, count, sizeof *lines, by_text);
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && strcmp(lines[kept - 1].text, lines[i].text) == 0) {
            lines[kept - 1].weight += lines[i].weight;
            free(lines[i].text);
        } else {
            lines[kept++] = lines[i];
        }
    }
    qsort(lines, kept, sizeof *lines, by_weight);
    return kept;
}

bool report_write_folded(const struct report_view *view, enum folded_weight weight, FILE *to) {
    static const enum report_order orders[] = {ORDER_PEAK, ORDER_END, ORDER_CHURN};
    size_t count = 0, made = 0;
    enum report_order order = orders[weight];
    const struct history_group **groups = report_order(view->history, order, &count);
    struct folded *lines = calloc(count + 1, sizeof *lines);
    char *text = malloc(STACK_TEXT_MAX);
    bool good = groups != NULL && lines != NULL && text != NULL;
    for (; good && made < count; made += good) {
        report_stack(view, groups[made], text, STACK_TEXT_MAX);
        text_sanitize(text);
        lines[made] = (struct folded){strdup(text), weight == FOLDED_COUNT
                                                        ? groups[made]->allocs
                                                        : report_weight(groups[made], order)};
        good = lines[made].text != NULL;
    }
    size_t kept = made > 0 ? merge_folded(lines, made) : 0;
    for (size_t i = 0; i < kept; i++) {
        if (good) {
            fprintf(to, "%s %" PRIu64 "\n", lines[i].text, lines[i].weight);
        }
        free(lines[i].text);
    }
    free(lines);
    free(text);
    free(groups);
    return good;
}

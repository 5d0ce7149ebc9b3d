/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.c: see record.h.
 */
#include "bench/record.h"
#include "output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char heading[] = "# vram bench: bench pattern bytes threads live backend peer ratio\n";

static const char *const pattern_names[] = {"pair", "burst", "mixed", "handover"};

const char *record_key(const struct contest *contest, const char *backend, const struct entry *peer,
                       char key[RECORD_KEY_MAX]) {
    const struct contest_plan *plan = &contest->plan;
    uint64_t bytes = plan->pattern == PATTERN_MIXED ? 0 : plan->bytes;
    snprintf(key, RECORD_KEY_MAX, "alloc %s %" PRIu64 " %" PRIu32 " %" PRIu64 " %s %s",
             pattern_names[plan->pattern], bytes, plan->threads, plan->live, backend, peer->name);
    return key;
}

/* The number behind a line's last blank when what stands before it is the key; else 0. */
static double line_ratio(const char *line, const char *key) {
    const char *blank = strrchr(line, ' ');
    size_t bytes = strlen(key);
    if (blank == NULL || (size_t)(blank - line) != bytes || memcmp(line, key, bytes) != 0) {
        return 0;
    }
    double ratio = strtod(blank + 1, NULL);
    return ratio > 0 ? ratio : 0;
}

double record_find(const char *path, const char *key) {
    char line[RECORD_KEY_MAX + 64];
    double found = 0;
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        say_error("cannot read %s: %s", path, strerror(errno));
        return -1;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        double ratio = line_ratio(line, key);
        found = ratio > 0 ? ratio : found;
    }
    fclose(file);
    return found;
}

/* Whether a line is one that this run writes anew. */
static bool is_replaced(const char *line, const struct contest *contest, const char *backend) {
    char key[RECORD_KEY_MAX];
    for (uint32_t i = 1; i < contest->entry_count; i++) {
        const struct entry *peer = &contest->entries[i];
        if (peer->measured && peer->comparable &&
            line_ratio(line, record_key(contest, backend, peer, key)) > 0) {
            return true;
        }
    }
    return false;
}

/* Lines of the file as it is that are to stay; a file that is not there yet has none. */
static void copy_lines(FILE *to, const char *path, const struct contest *contest,
                       const char *backend) {
    char line[RECORD_KEY_MAX + 64];
    FILE *from = fopen(path, "r");
    fputs(heading, to);
    while (from != NULL && fgets(line, sizeof line, from) != NULL) {
        if (line[0] != '#' && !is_replaced(line, contest, backend)) {
            fputs(line, to);
        }
    }
    if (from != NULL) {
        fclose(from);
    }
}

/* A new file takes the place of the old one when it is whole, so that no failure loses the old. */
bool record_save(const char *path, const struct contest *contest, const char *backend) {
    char key[RECORD_KEY_MAX], fresh[4096];
    snprintf(fresh, sizeof fresh, "%s.new", path);
    const char *problem = replace_problem(path);
    FILE *to = problem == NULL ? output_create(fresh) : NULL;
    if (to == NULL) {
        say_error("cannot write %s: %s", path, problem != NULL ? problem : strerror(errno));
        return false;
    }
    copy_lines(to, path, contest, backend);
    for (uint32_t i = 1; i < contest->entry_count; i++) {
        const struct entry *peer = &contest->entries[i];
        if (contest->entries[0].measured && peer->measured && peer->comparable) {
            fprintf(to, "%s %.4f\n", record_key(contest, backend, peer, key),
                    contest->entries[0].figures.median / peer->figures.median);
        }
    }
    bool good = ferror(to) == 0;
    good = fclose(to) == 0 && good;
    if (!good || rename(fresh, path) != 0) {
        say_error("cannot write %s: %s", path, strerror(errno));
        remove(fresh);
        return false;
    }
    return true;
}

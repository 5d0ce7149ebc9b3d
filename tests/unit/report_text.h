/* SPDX-License-Identifier: Apache-2.0 */
/* report_text.h: a report taken into memory. Refuses what goes past `room`, and whatever comes
   after it. */
#ifndef TESTS_REPORT_TEXT_H
#define TESTS_REPORT_TEXT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vram/base.h>

enum { REPORT_TEXT_MAX = 1 << 15 };

struct report_text {
    char text[REPORT_TEXT_MAX]; /* always terminated */
    size_t bytes;
    size_t room; /* 0: all */
    bool refused;
    unsigned calls_after_refusal;
};

static inline bool report_text_take(void *user, const char *text, size_t bytes) {
    struct report_text *to = user;
    size_t room = to->room ? to->room : sizeof to->text - 1;
    to->calls_after_refusal += to->refused;
    if (to->refused || bytes > room - to->bytes) {
        to->refused = true;
        return false;
    }
    memcpy(to->text + to->bytes, text, bytes);
    to->bytes += bytes;
    to->text[to->bytes] = '\0';
    return true;
}

/* For golden/reports_test.py, which holds the document against its schema. */
static inline void report_text_give(const char *name, const char *document) {
    const char *folder = getenv("REPORT_JSON");
    char path[512];
    snprintf(path, sizeof path, "%s/%s.json", folder ? folder : "", name);
    FILE *file = folder ? fopen(path, "w") : NULL;
    if (file) {
        fputs(document, file);
        fclose(file);
    }
}

#endif

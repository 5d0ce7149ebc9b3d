/* SPDX-License-Identifier: Apache-2.0 */
/* attach_answer.c: reads what a process answers about its live blocks. See attach.h. */
#include "live/attach.h"
#include "terminal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS_MAX = 8192, LARGEST_MAX = 1000, FRAMES_MAX = 65536 };

/* A cursor in the text, which is cut into lines as it goes. */
struct answer_reader {
    struct attach_answer *answer;
    char *at, *end;
    size_t *frames; /* count of the group or block that the next frames belong to; NULL: none */
    const char *problem;
};

/* The next line, without its break and made harmless; NULL: none is left. */
static char *line_next(struct answer_reader *reader) {
    char *line = reader->at;
    char *stop = line < reader->end ? memchr(line, '\n', (size_t)(reader->end - line)) : NULL;
    if (!stop) {
        return NULL;
    }
    *stop = 0;
    reader->at = stop + 1;
    text_sanitize(line);
    return line;
}

/* What follows "word " in the line; NULL: it does not begin so. */
static char *line_after(char *line, const char *word) {
    size_t bytes = strlen(word);
    return strncmp(line, word, bytes) == 0 && line[bytes] == ' ' ? line + bytes + 1 : NULL;
}

/* Reads numbers that are parted by one blank; what follows them begins at *rest. */
static bool numbers_read(char *text, uint64_t *numbers, size_t count, char **rest) {
    for (size_t i = 0; i < count; i++) {
        uint64_t value = 0;
        char *at = text;
        for (; isdigit((unsigned char)*at); at++) {
            if (value > (UINT64_MAX - 9) / 10) {
                return false;
            }
            value = value * 10 + (uint64_t)(*at - '0');
        }
        if (at == text || (*at != ' ' && *at != 0)) {
            return false;
        }
        numbers[i] = value;
        text = at + (*at == ' ');
    }
    *rest = text;
    return true;
}

static bool reader_fail(struct answer_reader *reader, const char *problem) {
    reader->problem = problem;
    return false;
}

/* Room for one more of `bytes` in a list that grows by doubling. */
static bool list_grow(struct answer_reader *reader, void **list, size_t count, size_t bytes,
                      size_t most) {
    if (count == most) {
        return reader_fail(reader, "it is too long");
    }
    if ((count & (count - 1)) == 0) {
        void *larger = realloc(*list, (count ? count * 2 : 1) * bytes);
        if (!larger) {
            return reader_fail(reader, "host memory ran out");
        }
        *list = larger;
    }
    return true;
}

static bool group_read(struct answer_reader *reader, char *text, bool rest) {
    struct attach_answer *answer = reader->answer;
    uint64_t n[7];
    char *tag;
    if (!numbers_read(text, n, 7, &tag) || n[6] > 1) {
        return reader_fail(reader, "a group is not one");
    }
    if (!list_grow(reader, (void **)&answer->groups, answer->group_count, sizeof *answer->groups,
                   GROUPS_MAX)) {
        return false;
    }
    struct attach_group *group = &answer->groups[answer->group_count++];
    *group = (struct attach_group){.bytes = n[0],
                                   .blocks = n[1],
                                   .old_bytes = n[2],
                                   .old_blocks = n[3],
                                   .oldest_ns = n[4],
                                   .largest_bytes = n[5],
                                   .foreign = n[6] != 0,
                                   .rest = rest,
                                   .tag = tag,
                                   .first_frame = answer->frame_count};
    reader->frames = &group->frames;
    return true;
}

/* A block has three lines more. */
static bool block_read(struct answer_reader *reader, char *text) {
    struct attach_answer *answer = reader->answer;
    static const char *const words[] = {"tag", "pool", "name"};
    const char *texts[3];
    uint64_t n[6];
    char *rest;
    bool good = numbers_read(text, n, 6, &rest);
    for (size_t i = 0; i < 3 && good; i++) {
        char *line = line_next(reader);
        texts[i] = line ? line_after(line, words[i]) : NULL;
        good = texts[i] != NULL;
    }
    if (!good) {
        return reader_fail(reader, "a block is not one");
    }
    if (!list_grow(reader, (void **)&answer->largest, answer->largest_count,
                   sizeof *answer->largest, LARGEST_MAX)) {
        return false;
    }
    struct attach_block *block = &answer->largest[answer->largest_count++];
    *block = (struct attach_block){.id = n[0],
                                   .addr = n[1],
                                   .requested_bytes = n[2],
                                   .held_bytes = n[3],
                                   .age_ns = n[4],
                                   .thread = n[5],
                                   .tag = texts[0],
                                   .pool = texts[1],
                                   .name = texts[2],
                                   .first_frame = answer->frame_count};
    reader->frames = &block->frames;
    return true;
}

static bool frame_read(struct answer_reader *reader, char *text) {
    struct attach_answer *answer = reader->answer;
    if (!reader->frames) {
        return reader_fail(reader, "a frame belongs to nothing");
    }
    if (!list_grow(reader, (void **)&answer->frames, answer->frame_count, sizeof *answer->frames,
                   FRAMES_MAX)) {
        return false;
    }
    answer->frames[answer->frame_count++] = text;
    ++*reader->frames;
    return true;
}

static bool head_read(struct answer_reader *reader) {
    struct attach_answer *answer = reader->answer;
    char *line = line_next(reader), *rest;
    uint64_t n[4];
    if (!line || strcmp(line, "vram-live 1") != 0) {
        return reader_fail(reader, "it does not begin as one");
    }
    line = line_next(reader);
    line = line ? line_after(line, "sum") : NULL;
    if (!line || !numbers_read(line, n, 4, &rest)) {
        return reader_fail(reader, "its sum is not one");
    }
    answer->bytes = n[0];
    answer->blocks = n[1];
    answer->tracked_pools = n[2];
    answer->lost_records = n[3];
    return true;
}

/* Lines that are not known are of a later version. */
static bool line_read(struct answer_reader *reader, char *line) {
    char *text;
    return (text = line_after(line, "frame"))   ? frame_read(reader, text)
           : (text = line_after(line, "group")) ? group_read(reader, text, false)
           : (text = line_after(line, "rest"))  ? group_read(reader, text, true)
           : (text = line_after(line, "block")) ? block_read(reader, text)
                                                : true;
}

bool attach_take(char *text, size_t bytes, struct attach_answer *answer, const char **problem) {
    struct answer_reader reader = {.answer = answer, .at = text, .end = text + bytes};
    *answer = (struct attach_answer){.text = text};
    text[bytes] = 0;
    bool good = head_read(&reader), ended = false;
    for (char *line; good && !ended && (line = line_next(&reader));) {
        ended = strcmp(line, "end") == 0;
        good = ended || line_read(&reader, line);
    }
    *problem = reader.problem ? reader.problem : "it ends too early";
    if (!ended) {
        attach_free(answer);
    }
    return ended;
}

void attach_free(struct attach_answer *answer) {
    free(answer->groups);
    free(answer->largest);
    free(answer->frames);
    free(answer->text);
    *answer = (struct attach_answer){0};
}

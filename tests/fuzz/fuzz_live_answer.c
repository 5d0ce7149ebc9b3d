/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_live_answer.c: whatever a process answers to `vram report --pid`, it is refused with a
 * reason, or every text ends and every frame that a group or block names exists.
 */
#include "fuzz.h"

#include "live/attach.h"

#include <string.h>

static const char fuzz_words[] =
    "|vram-live 1\nsum 1 2 3 4\n|group 1 1 1 1 1 1 0 |rest |block 1 2 3 4 5 6\n|tag |pool |name "
    "|frame |\nend\n|18446744073709551615";

static void frames_check(const struct attach_answer *answer, size_t first, size_t count) {
    FUZZ_EXPECT(first <= answer->frame_count && count <= answer->frame_count - first);
    for (size_t i = 0; i < count; i++) {
        FUZZ_EXPECT(strlen(answer->frames[first + i]) < 1 << 20);
    }
}

static int fuzz_take(const uint8_t *data, size_t bytes) {
    struct attach_answer answer;
    const char *problem;
    char *text = malloc(bytes + 1);
    FUZZ_EXPECT(text != NULL);
    memcpy(text, data, bytes);
    if (!attach_take(text, bytes, &answer, &problem)) {
        FUZZ_EXPECT(problem != NULL);
    }
    for (size_t i = 0; i < answer.group_count; i++) {
        FUZZ_EXPECT(strlen(answer.groups[i].tag) < bytes);
        frames_check(&answer, answer.groups[i].first_frame, answer.groups[i].frames);
    }
    for (size_t i = 0; i < answer.largest_count; i++) {
        const struct attach_block *block = &answer.largest[i];
        FUZZ_EXPECT(strlen(block->tag) + strlen(block->pool) + strlen(block->name) < bytes);
        frames_check(&answer, block->first_frame, block->frames);
    }
    attach_free(&answer);
    return 0;
}

FUZZ_TARGET(live_answer, .split = fuzz_split_lines)

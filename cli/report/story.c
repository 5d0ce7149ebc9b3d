/* SPDX-License-Identifier: Apache-2.0 */
/*
 * story.c: see story.h.
 */
#include "story.h"
#include "output.h"
#include "terminal.h"

#include <vram/vram.h>

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

const char *commas(uint64_t number, char text[COMMAS_TEXT_MAX]) {
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, number), used = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) {
            text[used++] = ',';
        }
        text[used++] = digits[i];
    }
    text[used] = 0;
    return text;
}

__attribute__((format(printf, 2, 3))) static void say(struct story *story, const char *format,
                                                      ...) {
    va_list arguments;
    if (story->count < STORY_SENTENCES_MAX) {
        va_start(arguments, format);
        vsnprintf(story->sentences[story->count++], STORY_SENTENCE_BYTES, format, arguments);
        va_end(arguments);
    }
}

static double percent(uint64_t part, uint64_t whole) {
    return whole > 0 ? (double)part / (double)whole * 100 : 0;
}

static const char *plural(uint64_t count) {
    return count == 1 ? "" : "s";
}

/* The sites that had the most, as a list. */
static void list_sites(const struct site *sites, size_t count, uint64_t whole, char *text,
                       size_t bytes) {
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < count && used + 1 < bytes; i++) {
        char size[VRAM_SIZE_TEXT_MAX];
        bool known = strcmp(sites[i].name, "(no stack)") != 0;
        int wrote =
            snprintf(text + used, bytes - used, "%s%s (%.0f %%) %s%.180s", i > 0 ? "; " : "",
                     vram_size_format(sites[i].bytes, size), percent(sites[i].bytes, whole),
                     known ? "at " : "without a stack", known ? sites[i].name : "");
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}

/* Whether any of them says more than that there is no stack. */
static bool are_known(const struct site *sites, size_t count) {
    return count > 1 || (count == 1 && strcmp(sites[0].name, "(no stack)") != 0);
}

static void tell_peak(struct story *story, const struct history *history,
                      struct report_input *input) {
    char size[VRAM_SIZE_TEXT_MAX], duration[DURATION_TEXT_MAX], list[800];
    struct site sites[3];
    if (history->peak_bytes == 0) {
        say(story, "Nothing was ever live.");
        return;
    }
    say(story, "At the peak, %s after the start, %s were live in %" PRIu64 " block%s.",
        duration_format(history->peak_ns, duration), vram_size_format(history->peak_bytes, size),
        history->peak_blocks, plural(history->peak_blocks));
    size_t count;
    if (!sites_find(history, input, false, sites, 3, &count)) {
        output_cut();
    }
    if (are_known(sites, count)) {
        list_sites(sites, count, history->peak_bytes, list, sizeof list);
        say(story, "Most of it: %s.", list);
    }
}

/* What PyTorch's own counters say, and the gap between them. */
static void tell_torch(struct story *story, const struct history *history,
                       struct report_input *input) {
    char requested[COMMAS_TEXT_MAX], held[COMMAS_TEXT_MAX], reserved[COMMAS_TEXT_MAX];
    char size[VRAM_SIZE_TEXT_MAX];
    if (history->format != FORMAT_SNAPSHOT || history->peak_held == 0) {
        return;
    }
    bool known = history->peak_reserved > 0;
    uint64_t gpus = event_reader_gpus(&input->events);
    say(story,
        "PyTorch's own peaks%s: %s bytes allocated and %s bytes reserved. %s bytes were requested; "
        "allocated adds rounding and what is too small to cut off.",
        (gpus & (gpus - 1)) != 0 ? ", all GPUs together" : "", commas(history->peak_held, held),
        known ? commas(history->peak_reserved, reserved) : "an unknown number of",
        commas(history->peak_bytes, requested));
    uint64_t gap = history->peak_reserved > history->peak_held
                       ? history->peak_reserved - history->peak_held
                       : 0;
    if (percent(gap, history->peak_reserved) >= 5) {
        say(story,
            "%s of the reserved memory (%.0f %%) is more than was ever allocated at once: it was "
            "cached, or free in pieces that did not fit. `vram replay FILE -b sim -p caching -p "
            "expandable -p vram` shows what other allocators hold for the same requests.",
            vram_size_format(gap, size), percent(gap, history->peak_reserved));
    }
}

static void tell_growth(struct story *story, const struct history *history,
                        struct report_input *input) {
    struct history_growth list[STORY_GROWTH_MAX];
    size_t count = history_find_growth(history, list, STORY_GROWTH_MAX);
    for (size_t i = 0; i < count; i++) {
        const struct history_growth *grown = &list[i];
        char site[SITE_TEXT_MAX], size[VRAM_SIZE_TEXT_MAX];
        char from[DURATION_TEXT_MAX], to[DURATION_TEXT_MAX];
        const struct history_group *group = grown->group;
        bool freed = group->blocks + group->lost_blocks < grown->span.blocks;
        site_name(input, group, site);
        say(story,
            "Growth: blocks from %.255s pile up. Between %s and %s there were ever more of them, a "
            "few at a time and never fewer, up to %" PRIu64 " at once of %s each, while other "
            "memory came and went. %s",
            site, duration_format(grown->span.from * history->slice_ns, from),
            duration_format((grown->span.to + 1) * history->slice_ns, to), group->most_blocks,
            vram_size_format(group->allocs > 0 ? group->alloc_bytes / group->allocs : 0, size),
            freed ? "They were freed before the trace ends, so a list of leaks does not show "
                    "them."
                  : "They are still live at the end.");
    }
}

static void tell_end(struct story *story, const struct history *history,
                     struct report_input *input) {
    char size[VRAM_SIZE_TEXT_MAX], list[800];
    struct site sites[2];
    uint64_t blocks = history->live_blocks + history->lost_blocks;
    uint64_t bytes = history->live_bytes + history->lost_bytes;
    if (blocks == 0) {
        if (!history_is_empty(history)) {
            say(story, "Everything was freed.");
        }
        return;
    }
    size_t count;
    if (!sites_find(history, input, true, sites, 2, &count)) {
        output_cut();
    }
    bool known = are_known(sites, count);
    if (known) {
        list_sites(sites, count, bytes, list, sizeof list);
    }
    say(story, "At the end %" PRIu64 " block%s of %s %s not freed%s%s.", blocks, plural(blocks),
        vram_size_format(bytes, size), blocks == 1 ? "was" : "were", known ? ": " : "",
        known ? list : "");
}

void story_tell(struct story *story, const struct history *history, struct report_input *input) {
    char size[VRAM_SIZE_TEXT_MAX];
    story->count = 0;
    tell_peak(story, history, input);
    tell_torch(story, history, input);
    if (history->refusals > 0) {
        uint64_t largest = 0;
        for (size_t i = 0; i < history->status_count; i++) {
            largest = history->statuses[i].bytes > largest ? history->statuses[i].bytes : largest;
        }
        say(story, "%" PRIu64 " request%s failed for lack of memory, the largest of %s.",
            history->refusals, plural(history->refusals), vram_size_format(largest, size));
    }
    tell_growth(story, history, input);
    tell_end(story, history, input);
    if (history->partial) {
        say(story, "Partial: %s.", history->missing);
    }
}

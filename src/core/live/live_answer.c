/* SPDX-License-Identifier: Apache-2.0 */
/* live_answer.c: the live blocks of a process, for another one. See live_answer.h. */
#include "core/live/live_answer.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/text.h"
#include "core/limit/limit.h"
#include "track/stack.h"
#include "track/tracks.h"
#include "vram/stats.h"

#include <stdlib.h>
#include <string.h>

enum {
    GROUPS = 4096,  /* a power of two; what does not fit is one group more */
    LARGEST = 100,  /* blocks that are listed one by one */
    TAG_BYTES = 128 /* of a tag, truncated */
};

/* Blocks of one tag and stack, or foreign records of one tag. */
struct answer_group {
    bool used, foreign;
    uint32_t stack;
    const char *key;                /* the tag as its ledger has it: compared, not read later */
    uint64_t blocks, bytes;         /* live, before rounding */
    uint64_t old_blocks, old_bytes; /* of these, older than VRAM_LIVE_OLD_NS */
    uint64_t oldest_ns;             /* age of the oldest */
    uint64_t largest_bytes;
    char tag[TAG_BYTES]; /* "": none */
};

/* One of the largest blocks. */
struct answer_block {
    uint64_t id, addr, requested, held, age_ns, thread;
    uint32_t stack;
    char tag[TAG_BYTES], pool[VR_TRACK_NAME], name[VR_TRACK_NAME];
};

struct vr_live_answer {
    uint64_t now_ns;
    uint64_t tracked, lost; /* pools; records */
    uint64_t blocks, bytes;
    uint32_t group_count, largest_count;
    struct answer_group groups[GROUPS];
    struct answer_group rest; /* of groups that did not fit */
    struct answer_block largest[LARGEST];
};

struct vr_live_answer *vr_live_answer_make(void) {
    struct vr_live_answer *answer = vr_mem_alloc(1, sizeof *answer, vr_operation());
    if (answer) {
        answer->now_ns = vr_clock_coarse();
    }
    return answer;
}

void vr_live_answer_free(struct vr_live_answer *answer) {
    vr_mem_free(answer);
}

/* --------------------------------------------------------------- collecting */

static struct answer_group *group_find(struct vr_live_answer *answer,
                                       const struct vr_track_view *view) {
    uint64_t mixed = (uint64_t)(uintptr_t)view->site.tag * UINT64_C(0x9E3779B97F4A7C15);
    mixed = (mixed ^ mixed >> 29 ^ view->site.stack) * UINT64_C(0xBF58476D1CE4E5B9);
    for (uint32_t i = 0; i < GROUPS; i++) {
        struct answer_group *group = &answer->groups[((mixed >> 32) + i) % GROUPS];
        if (!group->used) {
            if (answer->group_count >= GROUPS / 4 * 3) { /* long searches would follow */
                break;
            }
            answer->group_count++;
            group->used = true;
            group->foreign = view->foreign;
            group->stack = view->site.stack;
            group->key = view->site.tag;
            vr_text_format(group->tag, sizeof group->tag, "%s",
                           view->site.tag ? view->site.tag : "");
            return group;
        }
        if (group->key == view->site.tag && group->stack == view->site.stack &&
            group->foreign == view->foreign) {
            return group;
        }
    }
    answer->rest.used = true;
    return &answer->rest;
}

static void largest_add(struct vr_live_answer *answer, const struct vr_track_view *view,
                        const char *pool, uint64_t age_ns) {
    struct answer_block *list = answer->largest;
    uint32_t at = answer->largest_count;
    if (at == LARGEST && list[LARGEST - 1].requested >= view->requested) {
        return;
    }
    at = at == LARGEST ? LARGEST - 1 : at;
    answer->largest_count = at + 1;
    for (; at > 0 && list[at - 1].requested < view->requested; at--) {
        list[at] = list[at - 1];
    }
    list[at] = (struct answer_block){.id = view->id,
                                     .addr = view->addr,
                                     .requested = view->requested,
                                     .held = view->held,
                                     .age_ns = age_ns,
                                     .thread = view->thread,
                                     .stack = view->site.stack};
    vr_text_format(list[at].tag, sizeof list[at].tag, "%s", view->site.tag ? view->site.tag : "");
    vr_text_format(list[at].pool, sizeof list[at].pool, "%s", pool);
    vr_text_format(list[at].name, sizeof list[at].name, "%s", view->name);
}

static void block_add(struct vr_live_answer *answer, const struct vr_track_view *view,
                      const char *pool) {
    struct answer_group *group = group_find(answer, view);
    uint64_t age = answer->now_ns > view->time_ns ? answer->now_ns - view->time_ns : 0;
    bool old = age >= VRAM_LIVE_OLD_NS;
    answer->blocks++;
    answer->bytes += view->requested;
    group->blocks++;
    group->bytes += view->requested;
    group->old_blocks += old;
    group->old_bytes += old ? view->requested : 0;
    group->oldest_ns = age > group->oldest_ns ? age : group->oldest_ns;
    group->largest_bytes =
        view->requested > group->largest_bytes ? view->requested : group->largest_bytes;
    largest_add(answer, view, pool, age);
}

static void track_add(struct vr_live_answer *answer, struct vr_track *track) {
    struct vr_track_view views[16];
    struct vr_track_totals totals;
    uint32_t at = 0;
    vr_track_totals_get(track, &totals);
    answer->tracked++;
    answer->lost += totals.lost;
    do {
        uint32_t found = vr_track_list(track, &at, views, 16);
        for (uint32_t i = 0; i < found; i++) {
            block_add(answer, &views[i], vr_track_about(track)->name);
        }
    } while (at);
}

/* Adds the records of foreign memory of each physical device once. */
static void foreign_add(struct vr_live_answer *answer, struct vr_context *context,
                        struct vr_tracks *tracks) {
    for (uint32_t i = 0; i < context->slot_count; i++) {
        const struct vr_slot *slot = &context->slots[i];
        struct vr_ledger *ledger = vr_load(&slot->account->ledger, VR_ACQUIRE);
        if (slot->account != &slot->own || !ledger) {
            continue;
        }
        vr_mutex_lock(&ledger->lock);
        (void)vr_foreigns_copy(&ledger->foreigns, tracks); /* as many as there is memory for */
        vr_mutex_unlock(&ledger->lock);
    }
    for (uint32_t i = 0; i < tracks->foreign_count; i++) {
        block_add(answer, &tracks->foreign[i], "");
    }
}

void vr_live_answer_add(struct vr_live_answer *answer, struct vr_context *context) {
    struct vr_tracks_filter filter = {.context = context->object.handle};
    struct vr_tracks tracks;
    if (!vr_tracks_find(&filter, &tracks)) {
        answer->lost++;
        return;
    }
    for (uint32_t i = 0; i < tracks.count; i++) {
        track_add(answer, tracks.all[i]);
    }
    foreign_add(answer, context, &tracks);
    vr_tracks_let_go(&tracks);
}

/* ------------------------------------------------------------------ writing */

/* Most bytes first; unused ones last. */
static int by_bytes(const void *one, const void *other) {
    const struct answer_group *a = one, *b = other;
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1)
                                : (a->blocks < b->blocks) - (a->blocks > b->blocks);
}

static void frames_write(struct vr_writer *writer, uint32_t stack, uint64_t deadline) {
    uint64_t frames[VR_STACK_DEPTH];
    uint32_t depth = vr_stack_frames(stack, frames);
    for (uint32_t i = 0; i < depth && !writer->refused; i++) {
        char text[VR_FRAME_TEXT];
        if (vr_os_now() < deadline) {
            vr_frame_text(frames[i], text);
        } else {
            vr_text_format(text, sizeof text, "0x%llx", (unsigned long long)frames[i]);
        }
        vr_writer_line(writer, "frame %s", text);
    }
}

static void group_write(struct vr_writer *writer, const char *word,
                        const struct answer_group *group, uint64_t deadline) {
    vr_writer_line(writer, "%s %llu %llu %llu %llu %llu %llu %d %s", word,
                   (unsigned long long)group->bytes, (unsigned long long)group->blocks,
                   (unsigned long long)group->old_bytes, (unsigned long long)group->old_blocks,
                   (unsigned long long)group->oldest_ns, (unsigned long long)group->largest_bytes,
                   group->foreign, group->tag);
    frames_write(writer, group->stack, deadline);
}

static void block_write(struct vr_writer *writer, const struct answer_block *block,
                        uint64_t deadline) {
    vr_writer_line(writer, "block %llu %llu %llu %llu %llu %llu", (unsigned long long)block->id,
                   (unsigned long long)block->addr, (unsigned long long)block->requested,
                   (unsigned long long)block->held, (unsigned long long)block->age_ns,
                   (unsigned long long)block->thread);
    vr_writer_line(writer, "tag %s", block->tag);
    vr_writer_line(writer, "pool %s", block->pool);
    vr_writer_line(writer, "name %s", block->name);
    frames_write(writer, block->stack, deadline);
}

bool vr_live_answer_write(struct vr_live_answer *answer, struct vr_writer *writer,
                          uint64_t deadline) {
    qsort(answer->groups, GROUPS, sizeof answer->groups[0], by_bytes);
    vr_writer_line(writer, "sum %llu %llu %llu %llu", (unsigned long long)answer->bytes,
                   (unsigned long long)answer->blocks, (unsigned long long)answer->tracked,
                   (unsigned long long)answer->lost);
    for (uint32_t i = 0; i < GROUPS && answer->groups[i].used && !writer->refused; i++) {
        group_write(writer, "group", &answer->groups[i], deadline);
    }
    if (answer->rest.used) {
        group_write(writer, "rest", &answer->rest, deadline);
    }
    for (uint32_t i = 0; i < answer->largest_count && !writer->refused; i++) {
        block_write(writer, &answer->largest[i], deadline);
    }
    vr_writer_line(writer, "end");
    return !writer->refused;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_scene.c: what the page of `vram report --html` has of a trace, where the trace has more of
 * something than the page has room for, or less than one would think.
 */
#include "printed_text.h"
#include "unit/trace_world.h"
#include "viewer/page.h"
#include "viewer/payload.h"
#include "viewer/scene_blocks.h"
#include "viewer/scene_notes.h"

#include <vram/oom.h>

/* ------------------------------------------------------------------------ ranges */

#define GAP UINT64_C(0x1000000) /* more than is joined */

TEST_IN(NULL, NULL, ranges_are_joined) {
    struct address_ranges ranges = {0};
    assert_true(ranges_add(&ranges, 10 * GAP, 100));
    assert_true(ranges_add(&ranges, 5 * GAP, 100)); /* before it */
    assert_int_equal(ranges.count, 2);
    assert_true(ranges_add(&ranges, 5 * GAP, 50)); /* inside */
    assert_true(ranges_add(&ranges, 5 * GAP + 50, 100));
    assert_true(ranges_add(&ranges, 5 * GAP + 150 + ADDRESS_GAP - 1, 10)); /* a small gap */
    assert_int_equal(ranges.count, 2);
    assert_true(ranges.all[0].end == 5 * GAP + 150 + ADDRESS_GAP + 9);
    assert_true(ranges_add(&ranges, 6 * GAP, 4 * GAP + 50));     /* up to, and into, the next */
    assert_true(ranges_add(&ranges, 5 * GAP + 1, 5 * GAP + 10)); /* over both */
    assert_int_equal(ranges.count, 1);
    assert_true(ranges_add(&ranges, UINT64_MAX - 5, 100)); /* up to the end of all addresses */
    assert_true(ranges.all[1].end == UINT64_MAX);
    ranges_place(&ranges);
    assert_int_equal(ranges_find(&ranges, 1), 0); /* before the first */
    assert_int_equal(ranges_find(&ranges, 5 * GAP + 3), 3);
    assert_int_equal(ranges_find(&ranges, 50 * GAP), ranges.all[1].place); /* behind a range */
    free(ranges.all);
}

TEST_IN(NULL, NULL, ranges_are_bounded) {
    struct address_ranges ranges = {0};
    for (uint64_t i = 0; i < ADDRESS_RANGES_MAX; i++) {
        assert_true(ranges_add(&ranges, (i + 1) * GAP, i == 2 ? GAP / 2 : 100));
    }
    assert_int_equal(ranges.count, ADDRESS_RANGES_MAX);
    assert_true(ranges_add(&ranges, (ADDRESS_RANGES_MAX + 9) * GAP, 100));
    assert_int_equal(ranges.count, ADDRESS_RANGES_MAX); /* the two with the smallest gap are one */
    assert_true(ranges.all[2].end == 4 * GAP + 100);
    free(ranges.all);
}

/* ---------------------------------------------------------------------- live sets */

static struct {
    unsigned begun, ended, left;
    uint64_t bytes;
    uint32_t stack;
} told;

static void block_begun(void *user, const struct live_block *block) {
    (void)user;
    told.begun++;
    told.bytes = block->bytes;
    told.stack = block->stack;
}

static void block_ended(void *user, const struct live_block *block, uint64_t end_ns, bool left) {
    (void)user, (void)block, (void)end_ns;
    told.ended++;
    told.left += left;
}

TEST_IN(NULL, NULL, sets_follow_blocks) {
    static const struct live_watcher watcher = {NULL, block_begun, block_ended};
    struct live_set set;
    struct recorded event = {.kind = RECORDED_FREE, .id = 1, .pool = 5};
    assert_true(live_set_begin(&set));
    memset(&told, 0, sizeof told);
    assert_true(live_set_add(&set, &event, &watcher)); /* of what was never seen */
    event.kind = RECORDED_RESIZE;
    assert_true(live_set_add(&set, &event, &watcher));
    assert_int_equal(told.begun + told.ended, 0);
    event = (struct recorded){.kind = RECORDED_ALLOC, .id = 1, .bytes = 10, .stack = 3, .pool = 5};
    assert_true(live_set_add(&set, &event, &watcher));
    event.bytes = 20; /* once more: its free was lost */
    assert_true(live_set_add(&set, &event, &watcher));
    assert_int_equal(told.begun, 2);
    assert_int_equal(told.ended, 1);
    event = (struct recorded){.kind = RECORDED_RESIZE, .id = 1, .bytes = 30, .pool = 5};
    assert_true(live_set_add(&set, &event, &watcher));
    assert_int_equal(told.bytes, 30);
    assert_int_equal(told.stack, 3); /* it keeps what the event does not say */
    event = (struct recorded){.kind = RECORDED_RESIZE,
                              .id = 1,
                              .bytes = 40,
                              .pool = 5,
                              .stack = 4,
                              .tag_number = 2,
                              .addr = 9};
    assert_true(live_set_add(&set, &event, &watcher));
    assert_int_equal(told.stack, 4);
    event = (struct recorded){.kind = RECORDED_POOL_END, .pool = 6};
    assert_true(live_set_add(&set, &event, &watcher)); /* another pool */
    assert_int_equal(told.left, 0);
    event.pool = 5;
    assert_true(live_set_add(&set, &event, &watcher));
    assert_int_equal(told.left, 1);
    for (uint64_t i = 1; i <= 1025; i++) { /* more than there is room for at first */
        event = (struct recorded){.kind = RECORDED_ALLOC, .id = i, .bytes = 1};
        assert_true(live_set_add(&set, &event, &watcher));
    }
    live_set_finish(&set, &watcher);
    assert_int_equal(told.left, 1026);
    live_set_free(&set);
}

/* Blocks of one time are in the order of their places; without any place all are in one cell. */
TEST_IN(NULL, NULL, blocks_have_an_order) {
    static struct scene few;
    few = (struct scene){.kept_max = 4};
    assert_true(blocks_begin(&few));
    for (uint64_t i = 0; i < 7; i++) {
        blocks_add(&few, &(struct scene_block){.begin_ns = i == 6 ? 0 : 5,
                                               .end_ns = 9,
                                               .place = i * 7 % 5,
                                               .bytes = 1,
                                               .area = (double)(i + 1)});
    }
    blocks_finish(&few);
    assert_int_equal(few.kept_count, 4);
    assert_int_equal(few.merged, 3);
    assert_int_equal(few.kept[0].begin_ns, 0);
    for (size_t i = 2; i < 4; i++) {
        assert_true(few.kept[i - 1].place <= few.kept[i].place);
    }
    free(few.kept);
    free(few.grid);
}

/* ------------------------------------------------------------------------ payload */

TEST_IN(NULL, NULL, payloads_without_zlib_are_whole) {
    static struct payload payload;
    static char data[3 * PAYLOAD_BUFFER], text[8 * PAYLOAD_BUFFER];
    FILE *to = fmemopen(text, sizeof text, "w");
    assert_non_null(to);
    memset(data, 'M', sizeof data);
    assert_true(payload_begin(&payload, to));
    if (payload.deflater != NULL) {
        deflater_destroy(payload.deflater);
        payload.deflater = NULL;
    }
    payload_write(&payload, data, 100);
    payload_write(&payload, data, 2 * PAYLOAD_BUFFER);
    payload_write(&payload, data, 0);
    assert_true(payload_end(&payload));
    assert_int_equal(fclose(to), 0);
    size_t bytes = 2 * PAYLOAD_BUFFER + 100;
    assert_int_equal(strlen(text), (bytes + 2) / 3 * 4);
    assert_memory_equal(text, "TU1N", 4);
    assert_string_equal(text + strlen(text) - 4, "TQ==");
    deflater_destroy(NULL);
}

/* -------------------------------------------------------------------------- scenes */

static uint32_t frames_of(uint32_t stack, uint64_t *frames, uint32_t capacity) {
    assert_true(capacity > 0);
    frames[0] = stack;
    return stack == 9 ? 0 : 1; /* one has none */
}

static void frame_describe(uint64_t frame, char *text, size_t bytes) {
    snprintf(text, bytes, "function_%llu", (unsigned long long)frame);
}

static const struct vr_trace_stacks stacks = {frames_of, frame_describe};
static struct vr_trace_writer *writer;

static void write_begin(void) {
    assert_ok(vr_trace_writer_open(trace_path, 0, &stacks, &writer));
}

static void write_event(enum vr_event_kind kind, uint64_t id, uint64_t bytes, uint64_t queue,
                        const char *tag, uint32_t stack) {
    struct vr_event event = event_of(kind, id, bytes);
    event.queue = queue;
    event.tag = tag;
    event.stack = stack;
    vr_trace_write_event(writer, &event);
}

static struct scene scene;
static struct report_input input;

static bool scene_of_trace(size_t blocks) {
    const struct report_source source = {.path = trace_path};
    return scene_read(&scene, &source, blocks, &input);
}

static void scene_end(void) {
    scene_free(&scene);
    report_input_close(&input);
}

/* A page of what was read, with what its text says; the data is compressed. */
static void page_of_scene(const struct page_policy *policies, size_t count) {
    static char text[1 << 22];
    struct history history;
    static const struct terminal plain = {.width = 80};
    assert_true(history_begin(&history, "t"));
    history_finish(&history);
    const struct report_view view = {
        .history = &history, .input = &input, .terminal = &plain, .top = 5};
    const struct page_trace trace = {.scene = &scene,
                                     .input = &input,
                                     .view = &view,
                                     .policies = policies,
                                     .policy_count = count};
    FILE *to = fmemopen(text, sizeof text, "w");
    assert_non_null(to);
    assert_true(page_add(to, &trace));
    assert_int_equal(fclose(to), 0);
    assert_true(strlen(text) > 1000);
    history_free(&history);
}

/* More of everything than a page shows: what is left out becomes "all others". */
TEST(scenes_are_bounded) {
    enum { MANY = 3500 };
    write_begin();
    for (uint64_t pool = 1; pool <= 300; pool++) {
        struct vr_trace_sample sample = {.pool = pool, .reserved_bytes = 10, .limit_bytes = pool};
        vr_trace_write_sample(writer, &sample);
    }
    for (uint32_t i = 1; i <= MANY; i++) {
        char tag[32];
        snprintf(tag, sizeof tag, "tag %u", i % 100);
        write_event(VR_EVENT_ALLOC, i, 1000 + i, i % 400, i % 7 == 0 ? NULL : tag, i);
    }
    for (uint32_t i = 1; i <= MANY; i += 2) {
        write_event(VR_EVENT_FREE, i, 1000 + i, 0, NULL, 0);
    }
    for (uint32_t i = 1; i <= MANY; i++) { /* once more: changes from moment to moment */
        write_event(VR_EVENT_ALLOC, MANY + i, 1000 + i, 0, NULL, i);
    }
    for (int i = 0; i < SCENE_NOTES_MAX + 5; i++) {
        vr_trace_write_mark(writer, "a mark");
    }
    vr_trace_writer_close(writer);
    assert_true(scene_of_trace(50));
    assert_int_equal(scene.blocks, 2 * MANY);
    assert_int_equal(scene.kept_count, 50);
    assert_int_equal(scene.merged, 2 * MANY - 50);
    assert_int_equal(scene.stack_count, SCENE_STACKS + 1);
    assert_int_equal(scene.grouped[SCENE_STREAMS].count, 256);
    assert_int_equal(scene.grouped[SCENE_SITES].count, 3072);
    assert_int_equal(scene.grouped[SCENE_TAGS].column_count, SCENE_COLUMNS + 1);
    assert_int_equal(scene.note_count, SCENE_NOTES_MAX);
    assert_int_equal(scene.notes_left_out, 5);
    uint64_t bytes = 0;
    for (size_t i = 0; i < scene.stack_count; i++) {
        bytes += scene.stacks[i].left;
    }
    uint64_t all = 0;
    for (size_t i = 0; i < scene.grouped[SCENE_SITES].count; i++) {
        all += scene.grouped[SCENE_SITES].groups[i].left;
    }
    assert_int_equal(bytes, all); /* nothing is lost */
    page_of_scene(NULL, 0);
    scene_end();
}

TEST(refusals_are_notes) {
    write_begin();
    write_event(VR_EVENT_REFUSED, 0, 1 << 20, 0, NULL, 0); /* before anything is live */
    for (uint32_t i = 1; i <= REFUSAL_STACKS + 6; i++) {   /* equal ones, smaller and larger ones */
        write_event(VR_EVENT_ALLOC, i, i < 5 ? 4096 : i * 512, 0, "tag", i);
    }
    for (uint32_t i = 1; i <= 3; i++) { /* stacks that once had the most, and have little now */
        write_event(VR_EVENT_ALLOC, 500 + i, 1 << 20, 0, "tag", i);
        write_event(VR_EVENT_FREE, 500 + i, 1 << 20, 0, NULL, 0);
    }
    write_event(VR_EVENT_REFUSED, 0, 1 << 20, 0, "tag", 3);
    write_event(VR_EVENT_ALLOC, 900, 1, 0, "tag", 900);
    write_event(VR_EVENT_REFUSED, 0, 1 << 20, 0, "tag", 3);
    vr_trace_write_mark(writer, "step 1");
    vr_trace_writer_close(writer);
    assert_true(scene_of_trace(0));
    assert_int_equal(scene.note_count, 4);
    assert_null(scene.notes[3].refusal);
    const struct scene_refusal *refusal = scene.notes[2].refusal;
    assert_int_equal(refusal->stack_count, REFUSAL_STACKS);
    for (size_t i = 1; i < REFUSAL_STACKS; i++) {
        assert_true(refusal->bytes[i - 1] >= refusal->bytes[i]);
    }
    /* What the library itself said, with what it did not know, and of a later version. */
    struct scene_refusal *changed = scene.notes[2].refusal;
    changed->reported = true;
    changed->report = (struct refusal_report){
        .cause = 999, .total = REFUSAL_NOT_KNOWN, .step_count = 1, .holder_count = 1};
    scene.notes[1].refusal->reported = true;
    scene.notes[1].refusal->report.cause = VRAM_OOM_LIMIT;
    page_of_scene(NULL, 0);
    scene_end();
}

TEST(policies_are_curves) {
    static struct curve whole, part;
    write_begin();
    write_event(VR_EVENT_ALLOC, 1, 4096, 0, "tag", 9);
    write_event(VR_EVENT_ALLOC, 2, 0, 0, "tag", 9); /* of no bytes */
    write_event(VR_EVENT_RESIZE, 1, 8192, 0, NULL, 0);
    vr_trace_writer_close(writer);
    assert_true(scene_of_trace(SCENE_BLOCKS + 1)); /* as many as a page may have */
    assert_int_equal(scene.kept_max, SCENE_BLOCKS);
    scene_end();
    assert_true(scene_of_trace(1));
    assert_int_equal(scene.merged, 2); /* a block with another size is another block */
    curve_note(&part, 10, 5, 5);
    curve_note(&whole, 10, 5, 5);
    curve_finish(&whole);
    const struct page_policy policies[] = {{.name = "part", .problem = "failed", .curve = &part},
                                           {.name = "whole", .curve = &whole},
                                           {.name = "part", .problem = "failed", .curve = &part}};
    page_of_scene(policies, 3);
    struct page_policy many[PAGE_POLICIES_MAX + 1];
    for (size_t i = 0; i <= PAGE_POLICIES_MAX; i++) {
        many[i] = policies[i % 3];
    }
    page_of_scene(many, PAGE_POLICIES_MAX + 1);
    scene_end();
}

TEST(one_event_is_a_scene) {
    write_begin();
    write_event(VR_EVENT_ALLOC, 1, 4096, 0, "tag", 1);
    vr_trace_writer_close(writer);
    assert_true(scene_of_trace(0));
    assert_true(scene.begin_ns == scene.end_ns);
    page_of_scene(NULL, 0);
    scene_end();
}

TEST(pools_that_end_hold_nothing) {
    struct vr_trace_sample sample = {.pool = 0x106, .reserved_bytes = 1 << 20};
    write_begin();
    write_event(VR_EVENT_ALLOC, 1, 4096, 0, "tag", 1);
    vr_trace_write_sample(writer, &sample); /* without a limit */
    write_event(VR_EVENT_POOL_END, 0, 0, 0, NULL, 0);
    struct vr_event copied = {.kind = VR_EVENT_TRANSFER, .bytes = 100, .held = 5};
    vr_trace_write_event(writer, &copied); /* no part of a scene */
    vr_trace_writer_close(writer);
    assert_true(scene_of_trace(0));
    assert_int_equal(scene.grouped[SCENE_TAGS].groups[1].left, 4096);
    float most = 0;
    for (size_t i = 0; i < SCENE_BINS; i++) {
        most = scene.held[i] > most ? scene.held[i] : most;
    }
    assert_true(most == 1 << 20);
    assert_true(scene.limit[SCENE_BINS - 1] != scene.limit[SCENE_BINS - 1]); /* not a number */
    page_of_scene(NULL, 0);
    scene_end();
}

TEST(traces_that_cannot_be_read) {
    assert_false(scene_of_trace(0)); /* it is not there */
    assert_null(scene.problem);
    assert_non_null(strstr(input.problem, "No such file"));
    scene_end();
    write_begin();
    for (uint64_t i = 1; i <= 50; i++) {
        write_event(VR_EVENT_ALLOC, i, 4096, 0, "tag", (uint32_t)i);
    }
    vr_trace_writer_close(writer);
    size_t bytes;
    uint8_t *data = file_bytes(trace_path, &bytes);
    for (size_t i = 0; i < bytes; i += 1 + bytes / 12) {
        FILE *file = fopen(trace_path, "wb");
        assert_non_null(file);
        data[i] ^= 0x55;
        assert_int_equal(fwrite(data, 1, bytes, file), bytes);
        data[i] ^= 0x55;
        fclose(file);
        if (!scene_of_trace(0)) {
            assert_true(scene.problem != NULL || input.problem[0] != 0);
        }
        scene_end();
    }
    free(data);
}

EACH_TEST(trace_world_begin, trace_world_end)

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_top_view.c: the canvas, the sizes, the history and the keys of `vram top`, where the tests
 * in tmux do not reach.
 */
#include "page_maker.h"
#include "printed_text.h"
#include "rig/rig.h"
#include "top/view.h"

#include <vram/vram.h>

#include <locale.h>
#include <stdlib.h>
#include <string.h>

static void line_of(const struct canvas *canvas, int row, char *text) {
    *text = 0;
    for (int i = 0; i < canvas->columns; i++) {
        char one[5];
        uint32_t character = canvas->cells[row * canvas->columns + i].character;
        character_encode(character ? character : ' ', one);
        strcat(text, one);
    }
}

TEST(text_stays_in_its_cells) {
    struct canvas canvas;
    char text[128];
    assert_true(canvas_begin(&canvas, 2, 10, true));
    canvas_text(&canvas, 0, 0, 10, PAINT_PLAIN, "a\xc3\xa4\xe2\x82\xac\xff\x1b\xe4\xb8\xad");
    line_of(&canvas, 0, text);
    assert_string_equal(text, "a\xc3\xa4\xe2\x82\xac???    "); /* a wide one is not one column */
    canvas_text(&canvas, 1, 2, 4, PAINT_PLAIN, "abcdefgh");
    canvas_right(&canvas, 1, 6, 4, PAINT_PLAIN, "xy");
    line_of(&canvas, 1, text);
    assert_string_equal(text, "  abc~  xy");
    canvas_put(&canvas, 5, 5, PAINT_PLAIN, 'x'); /* outside */
    canvas_put(&canvas, -1, 0, PAINT_PLAIN, 'x');
    canvas_put(&canvas, 0, -1, PAINT_PLAIN, 'x');
    canvas_paint_row(&canvas, -1, PAINT_HEAD);
    canvas_paint_row(&canvas, 2, PAINT_HEAD);
    canvas_text(&canvas, 0, 8, 20, PAINT_PLAIN, "0123456789");
    line_of(&canvas, 1, text);
    assert_string_equal(text, "  abc~  xy");
    canvas_end(&canvas);
    /* Of characters that are cut, too long or too large, one question mark each. */
    assert_true(canvas_begin(&canvas, 1, 10, true));
    canvas_text(&canvas, 0, 0, 10, PAINT_PLAIN,
                "\xc0\xaf\xe2\x82x\xf5\x80\xf4\x90\x80\x80\xc2\xa9");
    line_of(&canvas, 0, text);
    assert_string_equal(text, "???x???\xc2\xa9  ");
    canvas_end(&canvas);
    assert_true(canvas_begin(&canvas, 0, 1000000, false));
    assert_int_equal(canvas.rows, 1);
    assert_int_equal(canvas.columns, 2000);
    canvas_end(&canvas);
    assert_true(canvas_begin(&canvas, 1, 0, false));
    assert_int_equal(canvas.columns, 1);
    canvas_text(&canvas, 0, 0, 1, PAINT_PLAIN, "\xc3\xa4"); /* not in ASCII */
    line_of(&canvas, 0, text);
    assert_string_equal(text, "?");
    canvas_end(&canvas);
    character_encode(0x1d11e, text);
    assert_string_equal(text, "\xf0\x9d\x84\x9e");
}

TEST(sizes_fit) {
    static const struct {
        uint64_t bytes;
        const char *text;
    } sizes[] = {{0, "0B"},
                 {999, "999B"},
                 {1000, "1.0K"},
                 {1536, "1.5K"},
                 {102400, "100K"},
                 {UINT64_C(24) << 30, "24.0G"},
                 {UINT64_C(139) << 30, "139G"},
                 {UINT64_C(1) << 56, "64.0P"},
                 {UINT64_MAX - 1, "16.0E"},
                 {UNKNOWN, "-"}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char text[SHORT_SIZE_MAX];
        assert_string_equal(short_size(sizes[i].bytes, text), sizes[i].text);
        assert_true(strlen(text) <= 6);
    }
}

TEST(the_past_is_a_ring) {
    static struct past past;
    struct machine_device devices[2] = {{.label = "cuda:0", .total_bytes = 1000},
                                        {.label = "sim:0", .owner = 7, .total_bytes = UNKNOWN}};
    struct machine machine = {.devices = devices, .device_count = 2};
    for (uint64_t i = 0; i < HISTORY_SAMPLES + 10; i++) {
        devices[0].free_bytes = i % 1000;
        past_add(&past, &machine);
    }
    assert_int_equal(past_sample(&past, &devices[0], 0), 1000 - (HISTORY_SAMPLES + 9));
    assert_int_equal(past_sample(&past, &devices[0], 9), 1000 - HISTORY_SAMPLES);
    assert_int_equal(past_sample(&past, &devices[0], HISTORY_SAMPLES), HISTORY_UNKNOWN);
    assert_int_equal(past_sample(&past, &devices[1], 0), HISTORY_UNKNOWN);
    /* More devices over time than there are places: those that are gone make room. */
    for (uint64_t i = 0; i < HISTORY_DEVICES * 3; i++) {
        devices[1] = (struct machine_device){
            .label = "sim:0", .owner = 100 + i, .total_bytes = 10, .free_bytes = 5};
        past_add(&past, &machine);
        assert_int_equal(past_sample(&past, &devices[1], 0), 500);
    }
}

/* More devices at once than places: those that find none have no past. */
TEST(the_past_has_bounds) {
    static struct past past;
    static struct machine_device devices[HISTORY_DEVICES + 1];
    struct machine machine = {.devices = devices, .device_count = HISTORY_DEVICES + 1};
    for (uint32_t i = 0; i <= HISTORY_DEVICES; i++) {
        devices[i] = (struct machine_device){.total_bytes = i > 0 ? 10 : 0, .free_bytes = 0};
        snprintf(devices[i].label, sizeof devices[i].label, "cuda:%u", i);
    }
    past_add(&past, &machine);
    assert_int_equal(past_sample(&past, &devices[0], 0), HISTORY_UNKNOWN);
    assert_int_equal(past_sample(&past, &devices[1], 0), 1000);
    assert_int_equal(past_sample(&past, &devices[HISTORY_DEVICES], 0), HISTORY_UNKNOWN);
}

static struct view view;

/* ------------------------------------------------------------------- one process */

static struct machine_device one_device = {
    .label = "cuda:0", .total_bytes = 1000, .free_bytes = 400, .held_bytes = 100};

/* The screen of a process, as text. */
static const char *draw(const struct machine_process *process, int columns, bool utf8) {
    static const struct terminal plain = {.width = 80};
    struct machine machine = {.devices = &one_device,
                              .device_count = 1,
                              .processes = (struct machine_process *)(uintptr_t)process,
                              .process_count = 1};
    struct canvas canvas;
    view = (struct view){.utf8 = utf8, .thresholds = {30, 60, 90}};
    assert_true(process_draw(&view, &machine, process, columns, &canvas));
    printed_begin();
    canvas_write(&canvas, canvas.rows, &plain);
    printed_end();
    canvas_end(&canvas);
    return printed;
}

static struct page_maker page;

static struct machine_process process_of_page(void) {
    page_make(&page, 7, 8, 9);
    struct machine_process process = {.pid = 7, .paged = true, .command = "./train"};
    process.view = (struct page_view){.head = page.head,
                                      .devices = page.devices,
                                      .pools = page.pools,
                                      .tags = page.tags,
                                      .refusals = page.refusals};
    process.uses[0] = (struct machine_use){.device = 0, .held_bytes = 50, .driver_bytes = UNKNOWN};
    process.use_count = 1;
    return process;
}

TEST(pools_of_a_process) {
    struct machine_process process = process_of_page();
    vram_live_page_counts *counts = &page.pools[0].counts;
    counts->allocs = 1000;
    counts->hits = 995;
    counts->refusals = UNKNOWN;
    counts->alloc_rate = UNKNOWN;
    page.pools[0].pressure_level = VRAM_PRESSURE_CRITICAL;
    page.pools[1].counts.allocs = UNKNOWN;
    page.pools[1].device = UINT32_MAX;
    page.pools[2].counts = (vram_live_page_counts){.hits = 5000, .allocs = 100, .refusals = 12};
    process.view.head.pools.total = 9;
    snprintf(page.devices[0].backend, sizeof page.devices[0].backend, "cuda");
    draw(&process, 100, true);
    printed_has("libvram 1.0.0\n");
    printed_has("cuda:0 pool 0      3.0M");
    printed_has("99.5%");
    printed_has("999%");
    printed_has("     12\n");
    printed_has("and 6 smaller ones");
    page.pools[0].counts.hits = UNKNOWN;
    process.view.silent = true;
    process.view.head.tracked_pools = 2;
    process.view.head.origin = VRAM_LIVE_PAGE_RUN;
    draw(&process, 100, true);
    printed_has("under vram run, libvram 1.0.0, stopped: its figures are old, tracked\n");
    printed_lacks("99.5%");
    process.view.head.tracked_pools = UNKNOWN;
    process.paged = false;
    process.command[0] = 0;
    draw(&process, 100, true);
    printed_has("7  -  -\n");
    printed_has("It has no live page");
    process.paged = true;
    draw(&process, 100, true);
    printed_lacks("tracked");
}

TEST(tags_of_a_process) {
    struct machine_process process = process_of_page();
    static vram_live_page_tag tags[8];
    static const char *const names[] = {
        "model", "model", "model/weights/deep", "model2", "data", "model/weights", "a", "b"};
    for (size_t i = 0; i < 8; i++) {
        tags[i] = (vram_live_page_tag){
            .used_bytes = 512, .hard_bytes = UNKNOWN, .soft_bytes = UNKNOWN, .device = i == 0};
        snprintf(tags[i].name, sizeof tags[i].name, "%s", names[i]);
    }
    tags[5].hard_bytes = 1024;
    tags[1].soft_bytes = 256;
    tags[2].hard_bytes = 0;
    tags[3].hard_bytes = 100;
    tags[3].used_bytes = UNKNOWN;
    process.view.tags = tags;
    process.view.head.tags.count = 8;
    process.view.head.tags.total = 10;
    draw(&process, 100, false);
    printed_has("\na                                512B");
    printed_has("\nmodel                            512B     0B  [################] of 256B soft\n"
                "  weights                        512B     0B  [########........] of 1.0K hard\n"
                "    deep                         512B     0B\n"
                "model2                              -     0B\n"
                "model                            512B");
    printed_has("and 2 smaller ones");
    process.view.head.tags.count = process.view.head.tags.total = 0;
    draw(&process, 100, true);
    printed_has("QUOTA\nnone\n");
}

TEST(sizes_of_a_process) {
    struct machine_process process = process_of_page();
    vram_live_page_size *sizes = process.view.head.sizes;
    draw(&process, 80, false);
    printed_has("not counted yet");
    process.view.head.sizes_ns = 1;
    sizes[2] = (vram_live_page_size){.blocks = 3, .bytes = UNKNOWN};
    draw(&process, 80, false);
    printed_has("SIZES OF LIVE BLOCKS\nnone\n");
    sizes[3] = (vram_live_page_size){.blocks = 1, .bytes = 8};
    sizes[4] = (vram_live_page_size){.blocks = 100, .bytes = 1600};
    sizes[5] = (vram_live_page_size){.blocks = UNKNOWN, .bytes = 5};
    draw(&process, 80, false);
    printed_has("up to     8B  #                         8B in 1 block\n");
    printed_has("up to    16B  ####################    1.6K in 100 blocks\n");
    printed_lacks("up to    32B");
    draw(&process, 80, true);
    printed_has("\xe2\x96\x88");
}

TEST(refusals_of_a_process) {
    struct machine_process process = process_of_page();
    vram_live_page_refusal *refusal = &page.refusals[0];
    refusal->date_ns = UNKNOWN;
    snprintf(refusal->text, sizeof refusal->text,
             "one two three four five six seven eight nine ten eleven twelve thirteen fourteen");
    draw(&process, 42, false);
    printed_has("\n-  0B in pool : ");
    printed_has("\n  one two three four five six seven eight\n  nine ten eleven twelve thirteen "
                "fourteen\n");
    snprintf(refusal->tag, sizeof refusal->tag, "model");
    refusal->date_ns = UINT64_C(3600000000000);
    draw(&process, 12, false); /* more lines than are shown; words that are longer than a line */
    printed_has("\n  eight nine\n  ten eleven\n  twelve\n");
    printed_lacks("fourteen");
    draw(&process, 42, false);
    printed_has(" for model: ");
    process.view.head.refusals.count = 0;
    draw(&process, 42, false);
    printed_has("LAST REFUSALS\nnone\n");
}

/* What the bar shows of a process that only the driver knows, or not even that. */
TEST(bars_of_processes) {
    static const struct {
        uint64_t held, driver;
        const char *bar;
    } cases[] = {{UNKNOWN, 300, "[################=====-----------.....................]"},
                 {UNKNOWN, UNKNOWN, "[=====---------------------------.....................]"},
                 {UNKNOWN, 100000, "[###########################=====.....................]"},
                 {50, UNKNOWN, "[###==---------------------------.....................]"},
                 {1, UNKNOWN, "[#====---------------------------.....................]"}};
    struct machine_process process = {.pid = 7, .use_count = 1};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        process.uses[0] = (struct machine_use){0, cases[i].held, cases[i].driver, UNKNOWN};
        draw(&process, 103, false);
        printed_has(cases[i].bar);
    }
}

/* ----------------------------------------------------------------------- the table */

static const char *screen_of(struct machine *machine, int rows, int columns) {
    static const struct terminal plain = {.width = 80};
    struct canvas canvas;
    assert_true(canvas_begin(&canvas, rows, columns, view.utf8));
    view_arrange(&view, machine);
    view_draw(&view, machine, &canvas);
    printed_begin();
    canvas_write(&canvas, canvas.rows, &plain);
    printed_end();
    canvas_end(&canvas);
    return printed;
}

TEST(what_is_missing_is_said) {
    struct machine_process process = {.pid = 7, .top_tag = ""};
    struct machine machine = {.devices = &one_device,
                              .device_count = 1,
                              .processes = &process,
                              .process_count = 1,
                              .now_ns = UINT64_C(3600000000000)};
    view = (struct view){.thresholds = {30, 60, 90}};
    screen_of(&machine, 10, 100);
    printed_has("1 process, 0 with libvram  ");
    machine.cut = true;
    screen_of(&machine, 10, 100);
    printed_has(", not all shown");
    machine.silent = true;
    screen_of(&machine, 10, 100);
    printed_has(", NVML does not answer");
    machine.cut = false;
    screen_of(&machine, 10, 100);
    printed_has(", NVML does not answer");
    screen_of(&machine, 3, 100); /* room for one row alone */
    printed_has("PID");
    view = (struct view){.thresholds = {30, 60, 90}, .mode = VIEW_HELP};
    screen_of(&machine, 3, 100);
    printed_has("Memory bars");
    view.mode = VIEW_PROCESS;
    view.chosen = 8; /* not there */
    assert_int_equal(view_rows(&view, &machine, 80), 3);
    screen_of(&machine, 5, 100);
    printed_has("process 8 has ended");
    view = (struct view){.thresholds = {30, 60, 90}};
    assert_int_equal(view_rows(&view, &machine, 80), 4); /* a line says that there is none */
    process.pid = 0;                                     /* one that is chosen by nobody */
    view = (struct view){.thresholds = {30, 60, 90}, .row = 5};
    screen_of(&machine, 10, 100);
    assert_int_equal(view.row, 0);
}

/* A device that holds next to nothing still shows that it was there. */
TEST(plots_show_the_smallest) {
    struct machine_device device = {.label = "cuda:0", .total_bytes = 1000, .free_bytes = 999};
    struct machine machine = {.devices = &device, .device_count = 1};
    for (int utf8 = 0; utf8 < 2; utf8++) {
        view = (struct view){
            .interactive = true, .plots = true, .utf8 = utf8, .thresholds = {30, 60, 90}};
        device.free_bytes = 1000; /* nothing at all is blank */
        past_add(&view.past, &machine);
        device.free_bytes = 999;
        past_add(&view.past, &machine);
        screen_of(&machine, 40, 100);
        printed_has(utf8 ? "\xe2\x96\x81" : ":\n");
    }
}

TEST(cells_of_a_process) {
    struct machine_device devices[3] = {{.label = "cuda:0"}, {.label = "cuda:1"}, {.label = "x"}};
    struct machine machine = {.devices = devices, .device_count = 3};
    struct machine_process process = {.pid = 1, .top_tag = "", .ratio_hundreds = 123456};
    char text[CELL_BYTES];
    assert_string_equal(column_format(&machine, &process, COLUMN_DEVICE, text), "-");
    process.use_count = 3;
    process.uses[0] = (struct machine_use){.device = 0, .held_bytes = UNKNOWN};
    process.uses[1] = (struct machine_use){.device = 1, .held_bytes = 5};
    process.uses[2] = (struct machine_use){.device = 2, .held_bytes = UNKNOWN};
    assert_string_equal(column_format(&machine, &process, COLUMN_DEVICE, text), "cuda:1+2");
    process.uses[2].held_bytes = 6;
    assert_string_equal(column_format(&machine, &process, COLUMN_DEVICE, text), "x+2");
    process.uses[2].held_bytes = 4;
    assert_string_equal(column_format(&machine, &process, COLUMN_DEVICE, text), "cuda:1+2");
    assert_string_equal(column_format(&machine, &process, COLUMN_RATIO, text), "1234");
    process.ratio_hundreds = 1234;
    assert_string_equal(column_format(&machine, &process, COLUMN_RATIO, text), "12.34");
}

/* Every key, on every screen, with and without processes, at every size of a terminal. */
TEST(any_key_at_any_size) {
    static struct machine_device devices[3] = {
        {.label = "cuda:0", .total_bytes = 100, .free_bytes = 40, .held_bytes = 200},
        {.label = "cuda:1", .total_bytes = UNKNOWN, .free_bytes = 40},
        {.label = "cuda:2", .total_bytes = 0, .free_bytes = 0}};
    static struct machine_process processes[5];
    for (uint32_t i = 0; i < 5; i++) {
        processes[i] = (struct machine_process){.pid = 10 + i, .top_tag = "", .held_bytes = i};
        processes[i].use_count = 1;
        processes[i].uses[0] = (struct machine_use){i % 3, i * 30, UNKNOWN, UNKNOWN};
        processes[i].paged = i % 2;
    }
    struct machine machine = {.devices = devices, .processes = processes};
    view = (struct view){.interactive = true, .plots = true, .interval_s = 2, .utf8 = true};
    srand(23);
    for (int i = 0; i < 20000; i++) {
        struct canvas canvas;
        uint32_t key =
            rand() % 3 ? (uint32_t)(rand() % 128) : (uint32_t)VIEW_KEY_UP + (uint32_t)(rand() % 24);
        machine.process_count = (uint32_t)(i / 100 % 6);
        machine.device_count = (uint32_t)(i / 70 % 4);
        for (uint32_t p = 0; p < 5; p++) {
            processes[p].use_count = machine.device_count == 3;
        }
        view_arrange(&view, &machine);
        (void)view_press(&view, &machine, key);
        assert_true(canvas_begin(&canvas, 1 + rand() % 40, 1 + rand() % 120, true));
        view_arrange(&view, &machine);
        view_draw(&view, &machine, &canvas);
        canvas_end(&canvas);
        assert_true(memchr(view.filter, 0, sizeof view.filter) != NULL);
    }
}

static int begin_file(void) {
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    return 0;
}
WHOLE_FILE(begin_file, NULL)

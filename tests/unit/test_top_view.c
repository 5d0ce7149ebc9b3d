/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_top_view.c: the canvas, the sizes, the history and the keys of `vram top`, where the tests
 * in tmux do not reach.
 */
#include "top/view.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void line_of(const struct canvas *canvas, int row, char *text) {
    *text = 0;
    for (int i = 0; i < canvas->columns; i++) {
        char one[5];
        uint32_t character = canvas->cells[row * canvas->columns + i].character;
        character_encode(character ? character : ' ', one);
        strcat(text, one);
    }
}

static void text_stays_in_its_cells(void **state) {
    (void)state;
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
    canvas_text(&canvas, 0, 8, 20, PAINT_PLAIN, "0123456789");
    canvas_end(&canvas);
}

static void sizes_fit(void **state) {
    (void)state;
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

static void the_past_is_a_ring(void **state) {
    (void)state;
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

static struct view view;

/* Every key, on every screen, with and without processes, at every size of a terminal. */
static void any_key_at_any_size(void **state) {
    (void)state;
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

int main(void) {
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_stays_in_its_cells),
        cmocka_unit_test(sizes_fit),
        cmocka_unit_test(the_past_is_a_ring),
        cmocka_unit_test(any_key_at_any_size),
    };
    return cmocka_run_group_tests_name("top_view", tests, NULL, NULL);
}

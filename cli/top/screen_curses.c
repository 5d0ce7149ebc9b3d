/* SPDX-License-Identifier: Apache-2.0 */
/* screen_curses.c: screen.h with ncursesw. */
#define NCURSES_WIDECHAR 1
#include "environment.h"
#include "top/screen.h"

#include <curses.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CELLS_MOST = 1000 }; /* rows or columns of a terminal that a variable may ask for */

static SCREEN *screen;
static attr_t attributes[PAINT_COUNT];

/* Plain attributes tell apart what colours would, where there are none. */
static void paints_choose(bool color) {
    static const struct {
        short pair, ink;
        attr_t plain, colored;
    } paints[PAINT_COUNT] = {
        [PAINT_BOLD] = {0, 0, A_BOLD, A_BOLD},
        [PAINT_DIM] = {0, 0, A_DIM, A_DIM},
        [PAINT_HEAD] = {0, 0, A_REVERSE, A_REVERSE},
        [PAINT_CHOSEN] = {1, COLOR_CYAN, A_REVERSE | A_BOLD, A_REVERSE},
        [PAINT_KEY] = {1, COLOR_CYAN, A_REVERSE, A_REVERSE},
        [PAINT_LOW] = {2, COLOR_GREEN, A_NORMAL, A_NORMAL},
        [PAINT_MEDIUM] = {1, COLOR_CYAN, A_NORMAL, A_NORMAL},
        [PAINT_HIGH] = {3, COLOR_YELLOW, A_BOLD, A_NORMAL},
        [PAINT_FULL] = {4, COLOR_RED, A_BOLD | A_UNDERLINE, A_BOLD},
        [PAINT_OTHERS] = {5, COLOR_BLUE, A_DIM, A_NORMAL},
    };
    bool able = color && has_colors() && start_color() == OK && use_default_colors() == OK;
    for (int i = 0; i < PAINT_COUNT; i++) {
        attributes[i] = able ? paints[i].colored : paints[i].plain;
        if (able && paints[i].pair > 0) {
            (void)init_pair(paints[i].pair, paints[i].ink, -1);
            attributes[i] |= (attr_t)COLOR_PAIR(paints[i].pair);
        }
    }
}

/* ncurses takes the size from these variables and allocates every cell of it. A size that no
   terminal has is left out, so that it asks the terminal. */
static void size_distrust(const char *variable) {
    const char *text = environment_get(variable);
    char *end;
    long cells = text != NULL ? strtol(text, &end, 10) : 0;
    if (text != NULL && (*end != 0 || cells < 1 || cells > CELLS_MOST)) {
        unsetenv(variable);
    }
}

bool screen_begin(bool color, char problem[SCREEN_PROBLEM_MAX]) {
    const char *term = environment_get("TERM");
    if (!isatty(STDIN_FILENO)) {
        snprintf(problem, SCREEN_PROBLEM_MAX, "this is not a terminal; --once works without one");
        return false;
    }
    set_escdelay(25); /* a terminal sends the keys of F1 and the like at once */
    size_distrust("COLUMNS");
    size_distrust("LINES");
    screen = newterm(NULL, stdout, stdin);
    if (screen == NULL) {
        snprintf(problem, SCREEN_PROBLEM_MAX,
                 "the terminal \"%.60s\" is not known: set TERM, or use --once",
                 term != NULL ? term : "");
        return false;
    }
    set_term(screen);
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    curs_set(0);
    paints_choose(color);
    return true;
}

void screen_end(void) {
    endwin();
    delscreen(screen);
    screen = NULL;
}

void screen_size(int *rows, int *columns) {
    *rows = LINES;
    *columns = COLS;
}

/* Cells of one paint go out together; ncurses sends what has changed. */
void screen_show(const struct canvas *canvas) {
    erase();
    for (int row = 0; row < canvas->rows; row++) {
        const struct cell *cells = canvas->cells + (size_t)row * (size_t)canvas->columns;
        for (int column = 0; column < canvas->columns; column++) {
            const struct cell *cell = &cells[column];
            if (cell->character == 0 && cell->paint == PAINT_PLAIN) {
                continue;
            }
            wchar_t text[2] = {cell->character != 0 ? (wchar_t)cell->character : L' ', 0};
            attrset(attributes[cell->paint]);
            mvaddwstr(row, column, text);
        }
    }
    attrset(A_NORMAL);
    refresh();
}

static bool function_key(wint_t code, uint32_t *key) {
    static const struct {
        int code;
        uint32_t key;
    } keys[] = {{KEY_UP, VIEW_KEY_UP},         {KEY_DOWN, VIEW_KEY_DOWN},
                {KEY_PPAGE, VIEW_KEY_PAGE_UP}, {KEY_NPAGE, VIEW_KEY_PAGE_DOWN},
                {KEY_HOME, VIEW_KEY_HOME},     {KEY_END, VIEW_KEY_END},
                {KEY_LEFT, VIEW_KEY_LEFT},     {KEY_RIGHT, VIEW_KEY_RIGHT},
                {KEY_ENTER, VIEW_KEY_ENTER},   {KEY_BACKSPACE, VIEW_KEY_BACKSPACE}};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if ((int)code == keys[i].code) {
            *key = keys[i].key;
            return true;
        }
    }
    if ((int)code >= KEY_F(1) && (int)code <= KEY_F(12)) {
        *key = VIEW_KEY_F1 + (uint32_t)((int)code - KEY_F(1));
        return true;
    }
    return false; /* KEY_RESIZE among them: the caller draws again */
}

bool screen_key(int wait_ms, uint32_t *key) {
    wint_t code;
    timeout(wait_ms < 0 ? 0 : wait_ms);
    int got = get_wch(&code);
    if (got == KEY_CODE_YES) {
        return function_key(code, key);
    }
    if (got != OK) {
        return false;
    }
    *key = code == '\r' || code == '\n'  ? (uint32_t)VIEW_KEY_ENTER
           : code == 27                  ? (uint32_t)VIEW_KEY_ESCAPE
           : code == 127 || code == '\b' ? (uint32_t)VIEW_KEY_BACKSPACE
                                         : (uint32_t)code;
    return true;
}

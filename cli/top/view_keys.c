/* SPDX-License-Identifier: Apache-2.0 */
/* view_keys.c: what keys do: those of htop and nvtop, and those of vi. */
#include "top/view.h"

#include <string.h>

/* ------------------------------------------------------------------------ typing */

static void filter_backspace(struct view *view) {
    size_t bytes = strlen(view->filter);
    while (bytes > 0 && ((unsigned char)view->filter[--bytes] & 0xc0) == 0x80) {
    }
    view->filter[bytes] = 0;
}

static void filter_add(struct view *view, uint32_t character) {
    char text[5];
    character_encode(character, text);
    size_t used = strlen(view->filter), bytes = strlen(text);
    if (used + bytes < sizeof view->filter) {
        memcpy(view->filter + used, text, bytes + 1);
    }
}

static void filter_press(struct view *view, uint32_t key) {
    if (key == VIEW_KEY_ENTER) {
        view->typing = false;
    } else if (key == VIEW_KEY_ESCAPE) {
        view->typing = false;
        view->filter[0] = 0;
    } else if (key == VIEW_KEY_BACKSPACE) {
        filter_backspace(view);
    } else if (key >= 0x20 && key < VIEW_KEY_UP && key != 0x7f) {
        filter_add(view, key);
    }
    view->first = 0;
}

/* ------------------------------------------------------------------------ moving */

/* How far a key moves; 0: it does not. */
static int64_t steps_of(const struct view *view, uint32_t key) {
    int64_t page = view->page > 1 ? view->page - 1 : 1;
    switch (key) {
    case VIEW_KEY_UP:
    case 'k':
        return -1;
    case VIEW_KEY_DOWN:
    case 'j':
        return 1;
    case VIEW_KEY_PAGE_UP:
    case 'B' - '@':
    case 'U' - '@':
        return -page;
    case VIEW_KEY_PAGE_DOWN:
    case 'F' - '@':
    case 'D' - '@':
        return page;
    case VIEW_KEY_HOME:
    case 'g':
        return -INT32_MAX;
    case VIEW_KEY_END:
    case 'G':
        return INT32_MAX;
    default:
        return 0;
    }
}

static uint32_t moved(uint32_t from, int64_t steps, uint32_t count) {
    int64_t to = (int64_t)from + steps;
    to = to >= (int64_t)count ? (int64_t)count - 1 : to;
    return to < 0 ? 0 : (uint32_t)to;
}

static void table_move(struct view *view, const struct machine *machine, int64_t steps) {
    if (view->row_count > 0) {
        view->row = moved(view->row, steps, view->row_count);
        view->chosen = machine->processes[view->order[view->row]].pid;
    }
}

/* ------------------------------------------------------------------------- modes */

static void sort_next(struct view *view, unsigned steps) {
    view->sort = (enum column_id)((view->sort + steps) % COLUMN_COUNT);
    view->reversed = false;
}

static void sort_by(struct view *view, enum column_id column) {
    view->reversed = view->sort == column && !view->reversed;
    view->sort = column;
}

static void mode_set(struct view *view, enum view_mode mode) {
    view->mode = mode;
    view->first = 0;
}

/* Keys that mean the same on every screen. False: none of them. */
static bool common_press(struct view *view, uint32_t key, enum view_action *action) {
    *action = ACTION_NONE;
    switch (key) {
    case 'h':
    case '?':
    case VIEW_KEY_F1:
        view->back = view->mode == VIEW_HELP ? view->back : view->mode;
        mode_set(view, VIEW_HELP);
        return true;
    case 'r':
    case 'L' - '@':
    case VIEW_KEY_F1 + 4:
        *action = ACTION_REFRESH;
        return true;
    case ' ':
    case 'Z':
        view->paused = !view->paused;
        return true;
    case VIEW_KEY_F1 + 9:
        *action = ACTION_QUIT;
        return true;
    default:
        return false;
    }
}

static enum view_action table_press(struct view *view, const struct machine *machine,
                                    uint32_t key) {
    switch (key) {
    case 'q':
    case VIEW_KEY_ESCAPE:
        if (key == VIEW_KEY_ESCAPE && view->filter[0] != 0) {
            view->filter[0] = 0;
            return ACTION_NONE;
        }
        return ACTION_QUIT;
    case VIEW_KEY_ENTER:
    case 'l':
    case VIEW_KEY_RIGHT:
        if (view_process(view, machine) != NULL) {
            view->chosen = view_process(view, machine)->pid;
            mode_set(view, VIEW_PROCESS);
        }
        break;
    case '/':
    case '\\':
    case VIEW_KEY_F1 + 2:
    case VIEW_KEY_F1 + 3:
        view->typing = true;
        break;
    case '>':
    case '.':
    case VIEW_KEY_F1 + 5:
        sort_next(view, 1);
        break;
    case '<':
    case ',':
        sort_next(view, COLUMN_COUNT - 1);
        break;
    case 'I':
        view->reversed = !view->reversed;
        break;
    case '+':
    case '-':
        view->reversed = top_columns[view->sort].rises == (key == '-');
        break;
    case 'M':
        sort_by(view, COLUMN_HELD);
        break;
    case 'N':
        sort_by(view, COLUMN_PID);
        break;
    case 'A':
        sort_by(view, COLUMN_RATE);
        break;
    case 'p':
        view->plots = !view->plots;
        break;
    default:
        table_move(view, machine, steps_of(view, key));
        break;
    }
    return ACTION_NONE;
}

static enum view_action page_press(struct view *view, uint32_t key) {
    bool leave = key == 'q' || key == VIEW_KEY_ESCAPE || key == VIEW_KEY_ENTER ||
                 key == VIEW_KEY_LEFT || key == VIEW_KEY_BACKSPACE;
    if (leave) {
        mode_set(view, view->mode == VIEW_HELP ? view->back : VIEW_TABLE);
        return ACTION_NONE;
    }
    uint32_t last = view->row_count > view->page ? view->row_count - view->page + 1 : 1;
    view->first = moved(view->first, steps_of(view, key), last);
    return ACTION_NONE;
}

enum view_action view_press(struct view *view, const struct machine *machine, uint32_t key) {
    enum view_action action;
    if (key == 'C' - '@') {
        return ACTION_QUIT;
    }
    if (view->typing) {
        filter_press(view, key);
        return ACTION_NONE;
    }
    if (common_press(view, key, &action)) {
        return action;
    }
    return view->mode == VIEW_TABLE ? table_press(view, machine, key) : page_press(view, key);
}

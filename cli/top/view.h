/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view.h: the screens of `vram top`, drawn on a canvas from a machine and the state of the view.
 *
 *   view.c          the devices, their plots and the table of processes; the help
 *   process_view.c  one process: its pools, tags, sizes and refusals
 *   view_keys.c     what keys do
 */
#ifndef VIEW_H
#define VIEW_H

#include "top/canvas.h"
#include "top/column.h"
#include "top/device_past.h"

enum view_mode { VIEW_TABLE, VIEW_PROCESS, VIEW_HELP };

enum { FILTER_BYTES = 64, THRESHOLDS = 3 };

struct view {
    enum view_mode mode;
    enum view_mode back; /* where the help returns to */
    bool typing;         /* the filter is being typed */
    bool paused;
    bool plots;       /* plots are shown */
    bool utf8;        /* of the canvas */
    bool interactive; /* keys and a selection are shown */
    enum column_id sort;
    bool reversed;
    char filter[FILTER_BYTES];
    uint64_t chosen;         /* id of the selected process; 0: the first */
    uint32_t first;          /* row of the table, or line of the process, at the top */
    uint32_t row, row_count; /* the selected one, of how many; set by drawing */
    uint32_t page;           /* rows that fit; set by drawing */
    double interval_s;
    unsigned thresholds[THRESHOLDS]; /* percent, from which a colour is the next */
    struct past past;
    uint32_t order[MACHINE_PROCESSES_MAX]; /* processes in the order shown; set by view_arrange */
};

/* Sorts and filters, and finds the selected process again. Before each drawing. */
void view_arrange(struct view *view, const struct machine *machine);

/* Rows that a screen needs that leaves nothing out, for `--once`. */
int view_rows(const struct view *view, const struct machine *machine, int columns);

void view_draw(struct view *view, const struct machine *machine, struct canvas *canvas);

/* The process that is selected; NULL: there is none. */
const struct machine_process *view_process(const struct view *view, const struct machine *machine);

/* One process, all its lines on a canvas of its own, of which the caller shows a part. False: out
   of host memory. */
bool process_draw(const struct view *view, const struct machine *machine,
                  const struct machine_process *process, int columns, struct canvas *canvas);

/* The bar of a device in one row, split into the process (NULL: none), other processes with a page,
   others and free. */
void view_device(const struct view *view, const struct machine *machine, uint32_t index,
                 const struct machine_process *process, struct canvas *canvas, int row);

/* The colour of a share, 0 to 1. */
enum paint view_paint(const struct view *view, double share);

/* ------------------------------------------------------------------------- keys */

enum view_key {
    KEYS_CHARACTERS = 0, /* below: the character itself */
    VIEW_KEY_UP = 0x110000,
    VIEW_KEY_DOWN,
    VIEW_KEY_PAGE_UP,
    VIEW_KEY_PAGE_DOWN,
    VIEW_KEY_HOME,
    VIEW_KEY_END,
    VIEW_KEY_LEFT,
    VIEW_KEY_RIGHT,
    VIEW_KEY_ENTER,
    VIEW_KEY_ESCAPE,
    VIEW_KEY_BACKSPACE,
    VIEW_KEY_F1 /* and so on, to F12 */
};

enum view_action {
    ACTION_NONE,    /* draw again */
    ACTION_REFRESH, /* look at the machine now */
    ACTION_QUIT
};

enum view_action view_press(struct view *view, const struct machine *machine, uint32_t key);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach_view.h: what a running process holds, as text for people and as JSON
 * (docs/schema/vram.report.live-1.schema.json).
 */
#ifndef ATTACH_VIEW_H
#define ATTACH_VIEW_H

#include "live/attach.h"
#include "terminal.h"

struct attach_view {
    const struct page_view *page;
    const struct attach_answer *answer;
    const struct terminal *terminal;
    bool leaks; /* only blocks that are a minute old or older */
    size_t top; /* rows of a table, at most */
};

void attach_print(const struct attach_view *view);
/* False: stdout could not take it. */
bool attach_write(const struct attach_view *view);
/* Blocks that are a minute old or older. */
uint64_t attach_old_blocks(const struct attach_answer *answer);

#endif

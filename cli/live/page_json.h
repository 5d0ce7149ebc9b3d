/* SPDX-License-Identifier: Apache-2.0 */
/* page_json.h: the rows of a live page as JSON, for `vram top` and `vram report --serve`. */
#ifndef PAGE_JSON_H
#define PAGE_JSON_H

#include "json_out.h"
#include "live/page_view.h"

/* null if it is unknown. */
void page_json_number(struct json_out *json, const char *key, uint64_t value);
/* The same, in units of that size. */
void page_json_share(struct json_out *json, const char *key, uint64_t value, double unit);
/* Keys and values inside an object. */
void page_json_counts(struct json_out *json, const vram_live_page_counts *counts);
/* Arrays "pools", "tags" and "refusals". */
void page_json_pools(struct json_out *json, const struct page_view *view);
void page_json_tags(struct json_out *json, const struct page_view *view);
void page_json_refusals(struct json_out *json, const struct page_view *view);

#endif

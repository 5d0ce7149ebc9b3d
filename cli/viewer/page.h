/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page.h: a scene as one HTML file that needs nothing else: the viewer (viewer/, built into
 * generated/viewer_page.h) and its data.
 *
 * The data is one text, base64 of gzip of:
 *
 *     bytes of the JSON, 4 bytes; 4 bytes 0     all numbers are little-endian
 *     JSON, filled up with spaces to a multiple of 8
 *     the arrays that the JSON lists, in that order, each filled up with zeros to a multiple of 8
 *
 * So no name of a trace is ever part of the HTML. The JSON has "schema": "vram.page/1"; the viewer
 * in the same file is the only reader, so the format may change with each version.
 */
#ifndef VIEWER_PAGE_H
#define VIEWER_PAGE_H

#include "report/report_view.h"
#include "scene.h"

#include <stdio.h>

/* False: out of host memory. The stream keeps its own failures. */
bool page_write(FILE *to, const struct scene *scene, struct report_input *input,
                const struct report_view *view);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* page_metrics.h: the metrics of every process that has a live page. */
#ifndef PAGE_METRICS_H
#define PAGE_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <vram/metrics.h>

enum { EXPORTED_PROCESSES_MAX = 4096 };

/*
 * Reads all pages and writes their metrics, and how many pages there were. The signature is that of
 * exporter_options.metrics; `user` is a `const char *`, the one folder that is read, or NULL for
 * those of the user. Any thread.
 */
bool page_metrics_write(void *user, vram_metrics_format format, vram_write_fn *write, void *to,
                        char *problem, size_t problem_bytes);

/*
 * Writes the metrics, of pages in `folder` or of all (NULL), as Prometheus' text to a new file
 * beside `path`, and renames it to `path`: a reader sees the old text or the new one.
 */
bool page_metrics_save(const char *path, const char *folder, char *problem, size_t problem_bytes);

#endif

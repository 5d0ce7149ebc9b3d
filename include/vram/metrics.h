/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vram/metrics.h: the figures of a context as metrics, for programs that have an HTTP server of
 * their own. `vram exporter` serves the same metrics of all processes of a user.
 *
 *   static bool send_part(void *user, const char *text, size_t bytes) {...}
 *
 *   header("Content-Type: " VRAM_METRICS_OPENMETRICS_TYPE);
 *   vram_metrics_write(context, send_part, client);
 *
 * docs/monitoring.md lists the metrics.
 */
#ifndef VRAM_METRICS_H
#define VRAM_METRICS_H

#include <vram/device.h>
#include <vram/live_page.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The media types of the two forms of text, for the header Content-Type. */
#define VRAM_METRICS_OPENMETRICS_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define VRAM_METRICS_PROMETHEUS_TYPE  "text/plain; version=0.0.4; charset=utf-8"

typedef enum vram_metrics_format {
    VRAM_METRICS_OPENMETRICS = 0, /* OpenMetrics 1.0 */
    VRAM_METRICS_PROMETHEUS = 1   /* Prometheus text 0.0.4, for programs that know no other, such as
                                     node_exporter and promtool: the same names and samples, but no
                                     units, info metrics and state sets */
} vram_metrics_format;

/**
 * Writes the metrics of a context as OpenMetrics: of the devices that have a pool, of the 64
 * largest pools and the 64 largest tags. Refusals by cause are those of the whole process. A figure
 * that is not known is left out. Calls no driver: the free memory of a device is what the driver
 * said when it was last asked. `write` is called with no lock held, on the calling thread.
 * VRAM_ERR_IO if it refuses; VRAM_ERR_HOST_MEMORY.
 *
 * Pools of one device that have the same name are told apart by "#2", "#3" and so on behind it.
 */
VRAM_API vram_status vram_metrics_write(vram_context *context, vram_write_fn *write, void *user);

/** The same in either form. */
VRAM_API vram_status vram_metrics_write_as(vram_context *context, vram_metrics_format format,
                                           vram_write_fn *write, void *user);

/** A copy of a live page, whose rows may lie anywhere: `stride` bytes apart, as its head says. */
typedef struct vram_metrics_source {
    size_t size; /* sizeof(vram_metrics_source) */
    const vram_live_page *page;
    const vram_live_page_device *devices;
    const vram_live_page_pool *pools;
    const vram_live_page_tag *tags;
} vram_metrics_source;

/**
 * Writes the metrics of other processes from copies of their live pages, at most one of each
 * process. Counts, offsets and strides must be valid; names and numbers may be anything.
 * VRAM_ERR_INVALID for a page without a head, or with rows that are missing or too short.
 */
VRAM_API vram_status vram_metrics_pages_write(const vram_metrics_source *const *sources,
                                              size_t count, vram_metrics_format format,
                                              vram_write_fn *write, void *user);

#ifdef __cplusplus
}
#endif

#endif

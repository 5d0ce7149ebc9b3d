/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer_counts.c: bytes and times of transfers, by direction and route.
 *
 * A device has one table, created by the first transfer and freed with the device object. A
 * transfer is counted in three of its cells: of its direction and route, of its direction, and of
 * all.
 *
 *              sync  async  ...  ring   any
 *   to_device   [.]   [x]                [x]     <- a copy to the device, asynchronous
 *   to_host
 *   ...
 *   any                                  [x]
 *
 *  (1) All fields are relaxed atomics that only increase, except `under_way`; a reader sees each as
 *      it was at some moment of its call.
 *  (2) `under_way` is a word of two parts that change together, so that the time with at least one
 *      transfer is exact without a lock: 16 bits count the transfers, 48 bits hold since when, in
 *      steps of 64 ns from the creation of the table (208 days; after that busy_ns is wrong, and
 *      nothing else). The thread that changes the count from 0 to 1 sets the time; the one that
 *      changes it to 0 adds the time that has passed. A transfer that finds the 16 bits full is not
 *      counted there, and its token says so.
 */
#include "xfer/transfer_counts.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/os/os.h"
#include "base/size_text.h"
#include "track/event.h"
#include "xfer/xfer_calls.h"

#include <assert.h>

enum {
    DIRECTIONS = VRAM_TRANSFER_ANY + 1,
    ROUTES = VRAM_ROUTE_ANY + 1,
    CELLS_OF_ONE = 3,
    COUNT_BITS = 16,
    STEP_BITS = 6
};

#define COUNT_MASK ((UINT64_C(1) << COUNT_BITS) - 1)

struct cell {
    vr_atomic_u64 started, operations, failures, bytes;
    vr_atomic_u64 busy_ns, waited_ns, stalls, stall_ns, latency_ns;
    vr_atomic_u64 min_latency_ns; /* plus 1; 0: none yet */
    vr_atomic_u64 max_latency_ns;
    vr_atomic_u64 under_way; /* (2) */
    vr_atomic_u64 histogram[VRAM_TRANSFER_BUCKETS];
};

struct vr_metrics {
    struct vr_device_object *device; /* that the table belongs to */
    uint64_t born_ns;
    struct cell cells[DIRECTIONS][ROUTES];
};

/* --------------------------------------------------------------------- table */

/* The device's table, or NULL. `make`: creates it if there is none; of two threads one wins. */
static struct vr_metrics *metrics_of(struct vr_device_object *device, bool make) {
    VR_OPERATION("vram_transfer_stats_get");
    struct vr_metrics *metrics = vr_load(&device->transfers, VR_ACQUIRE);
    if (metrics || !make) {
        return metrics;
    }
    struct vram_error error;
    vr_error_save(&error); /* a transfer that cannot be counted is not a failure */
    metrics = vr_mem_alloc(1, sizeof *metrics, vr_operation());
    vr_error_restore(&error);
    if (!metrics) {
        return NULL;
    }
    metrics->device = device;
    metrics->born_ns = vr_clock_now();
    void *there = NULL;
    if (!vr_cas(&device->transfers, &there, metrics, VR_ACQ_REL)) {
        vr_mem_free(metrics);
        metrics = there;
    }
    return metrics;
}

static struct cell *cell_of(struct vr_metrics *metrics, uint32_t direction, uint32_t route,
                            int which) {
    return which == 0   ? &metrics->cells[direction][route]
           : which == 1 ? &metrics->cells[direction][VRAM_ROUTE_ANY]
                        : &metrics->cells[VRAM_TRANSFER_ANY][VRAM_ROUTE_ANY];
}

static void counter_add(vr_atomic_u64 *number, uint64_t value) {
    vr_fetch_add(number, value, VR_RELAXED);
}

/* ------------------------------------------------------------------ under way */

/* Counts one more transfer under way; false when the count is full, keeps (2). */
static bool cell_enter(struct cell *cell, uint64_t steps) {
    uint64_t word = vr_load(&cell->under_way, VR_RELAXED), next;
    do {
        if ((word & COUNT_MASK) == COUNT_MASK) {
            return false;
        }
        next = word & COUNT_MASK ? word + 1 : steps << COUNT_BITS | 1;
    } while (!vr_cas_weak(&cell->under_way, &word, next, VR_RELAXED));
    return true;
}

static void cell_leave(struct cell *cell, uint64_t steps) {
    uint64_t word = vr_load(&cell->under_way, VR_RELAXED);
    while (!vr_cas_weak(&cell->under_way, &word, word - 1, VR_RELAXED)) {
    }
    assert(word & COUNT_MASK);
    uint64_t since = word >> COUNT_BITS;
    if ((word & COUNT_MASK) == 1 && steps > since) {
        counter_add(&cell->busy_ns, (steps - since) << STEP_BITS);
    }
}

/* ------------------------------------------------------------------- counting */

void vr_transfer_begin(struct vr_device_object *device, vram_transfer_direction direction,
                       vram_transfer_route route, struct vr_transfer_count *count) {
    assert(direction < VRAM_TRANSFER_ANY && route < VRAM_ROUTE_ANY);
    struct vr_metrics *metrics = metrics_of(device, true);
    *count = (struct vr_transfer_count){
        .metrics = metrics, .direction = (uint8_t)direction, .route = (uint8_t)route};
    if (!metrics) {
        return;
    }
    count->start_ns = vr_clock_now();
    uint64_t steps = (count->start_ns - metrics->born_ns) >> STEP_BITS;
    for (int i = 0; i < CELLS_OF_ONE; i++) {
        struct cell *cell = cell_of(metrics, direction, route, i);
        counter_add(&cell->started, 1);
        count->busy |= (uint8_t)(cell_enter(cell, steps) << i);
    }
}

static uint32_t bucket_of(uint64_t ns) {
    uint32_t bucket = 0;
    while (ns > 1 && bucket < VRAM_TRANSFER_BUCKETS - 1) {
        ns >>= 1;
        bucket++;
    }
    return bucket;
}

static void note_latency(struct cell *cell, uint64_t ns) {
    uint64_t least = vr_load(&cell->min_latency_ns, VR_RELAXED);
    while ((least == 0 || ns + 1 < least) &&
           !vr_cas_weak(&cell->min_latency_ns, &least, ns + 1, VR_RELAXED)) {
    }
    vr_atomic_max(&cell->max_latency_ns, ns);
    counter_add(&cell->latency_ns, ns);
    counter_add(&cell->histogram[bucket_of(ns)], 1);
}

/* Writes an event to the trace, if there is one. */
static void trace_transfer(const struct vr_metrics *metrics, const struct vr_transfer_count *count,
                           uint64_t bytes, uint64_t ns, vram_status status) {
    struct vr_event event = {.source = metrics->device->context,
                             .kind = VR_EVENT_TRANSFER,
                             .memory = count->direction,
                             .stack = count->route,
                             .device = metrics->device->object.handle,
                             .bytes = bytes,
                             .held = ns,
                             .thread = vr_os_thread_number(),
                             .status = status};
    vr_event_tell(&event);
}

void vr_transfer_end(struct vr_transfer_count *count, uint64_t bytes, vram_status status) {
    struct vr_metrics *metrics = count->metrics;
    if (!metrics) {
        return;
    }
    uint64_t now = vr_clock_now(), steps = (now - metrics->born_ns) >> STEP_BITS;
    for (int i = 0; i < CELLS_OF_ONE; i++) {
        struct cell *cell = cell_of(metrics, count->direction, count->route, i);
        if (count->busy >> i & 1) {
            cell_leave(cell, steps);
        }
        note_latency(cell, now - count->start_ns);
        counter_add(&cell->failures, status != VRAM_OK);
        counter_add(&cell->bytes, status == VRAM_OK ? bytes : 0);
        counter_add(&cell->operations, 1);
    }
    count->metrics = NULL; /* a second end counts nothing */
    if (vr_events_wanted()) {
        trace_transfer(metrics, count, bytes, now - count->start_ns, status);
    }
}

void vr_transfer_stalled(struct vr_device_object *device, vram_transfer_direction direction,
                         vram_transfer_route route, uint64_t ns) {
    struct vr_metrics *metrics = metrics_of(device, true);
    for (int i = 0; metrics && i < CELLS_OF_ONE; i++) {
        struct cell *cell = cell_of(metrics, direction, route, i);
        counter_add(&cell->stalls, 1);
        counter_add(&cell->stall_ns, ns);
    }
}

void vr_transfer_waited(struct vr_device_object *device, vram_transfer_direction direction,
                        vram_transfer_route route, uint64_t ns) {
    struct vr_metrics *metrics = metrics_of(device, true);
    for (int i = 0; metrics && i < CELLS_OF_ONE; i++) {
        counter_add(&cell_of(metrics, direction, route, i)->waited_ns, ns);
    }
}

/* -------------------------------------------------------------------- reading */

static uint64_t counter_read(vr_atomic_u64 *number) {
    return vr_load(number, VR_RELAXED);
}

/* Time with transfers until now, including those still under way. */
static uint64_t busy_of(const struct vr_metrics *metrics, struct cell *cell) {
    uint64_t word = counter_read(&cell->under_way), busy = counter_read(&cell->busy_ns);
    uint64_t steps = (vr_clock_now() - metrics->born_ns) >> STEP_BITS, since = word >> COUNT_BITS;
    return busy + (word & COUNT_MASK && steps > since ? (steps - since) << STEP_BITS : 0);
}

static void read_cell(const struct vr_metrics *metrics, struct cell *cell,
                      struct vram_transfer_stats *stats) {
    stats->operations = counter_read(&cell->operations);
    stats->started = counter_read(&cell->started);
    stats->failures = counter_read(&cell->failures);
    stats->bytes = counter_read(&cell->bytes);
    stats->busy_ns = busy_of(metrics, cell);
    stats->waited_ns = counter_read(&cell->waited_ns);
    stats->stalls = counter_read(&cell->stalls);
    stats->stall_ns = counter_read(&cell->stall_ns);
    stats->latency_ns = counter_read(&cell->latency_ns);
    uint64_t least = counter_read(&cell->min_latency_ns);
    stats->min_latency_ns = least ? least - 1 : 0;
    stats->max_latency_ns = counter_read(&cell->max_latency_ns);
    for (int i = 0; i < VRAM_TRANSFER_BUCKETS; i++) {
        stats->histogram[i] = counter_read(&cell->histogram[i]);
    }
    if (stats->busy_ns) {
        double busy = (double)stats->busy_ns, waited = (double)stats->waited_ns;
        stats->bytes_per_second = (double)stats->bytes * 1e9 / busy;
        stats->overlap = waited < busy ? 1 - waited / busy : 0;
    }
}

vram_status vram_transfer_stats_get(vram_device *handle, vram_transfer_direction direction,
                                    vram_transfer_route route, vram_transfer_stats *stats) {
    VR_CALL;
    struct vram_transfer_stats full = {.size = sizeof full};
    void *entered;
    vram_status status = vr_enter(VR_KIND_DEVICE, handle, &entered);
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_device_object *device = entered;
    if ((uint32_t)direction >= DIRECTIONS || (uint32_t)route >= ROUTES ||
        (direction == VRAM_TRANSFER_ANY && route != VRAM_ROUTE_ANY)) {
        status = vr_fail(VRAM_ERR_INVALID, "direction %d and route %d are not counted together",
                         (int)direction, (int)route);
    } else {
        struct vr_metrics *metrics = metrics_of(device, false);
        if (metrics) {
            read_cell(metrics, &metrics->cells[direction][route], &full);
        }
        status = vr_info_give(stats, &full, sizeof full, sizeof full);
    }
    vr_leave(device);
    return status;
}

static uint64_t latency_percentile(const struct vram_transfer_stats *stats, uint32_t percent) {
    uint64_t total = 0, below = 0;
    for (int i = 0; i < VRAM_TRANSFER_BUCKETS; i++) {
        total += stats->histogram[i];
    }
    percent = percent < 100 ? percent : 100;
    for (int i = 0; i < VRAM_TRANSFER_BUCKETS - 1; i++) {
        below += stats->histogram[i];
        uint64_t upper = (UINT64_C(2) << i) - 1;
        if (below && (double)below * 100 >= (double)total * percent) {
            return upper < stats->max_latency_ns ? upper : stats->max_latency_ns;
        }
    }
    return stats->max_latency_ns;
}

uint64_t vram_transfer_stats_percentile(const vram_transfer_stats *stats, uint32_t percent) {
    return stats && stats->size >= sizeof *stats ? latency_percentile(stats, percent) : 0;
}

/* --------------------------------------------------------------------- report */

static void cell_json(struct vr_json *json, uint32_t direction, uint32_t route,
                      const struct vram_transfer_stats *stats) {
    vr_json_object_begin(json, NULL);
    vr_json_text(json, "direction", vr_transfer_direction_name((vram_transfer_direction)direction));
    vr_json_text(json, "route", vr_transfer_route_name((vram_transfer_route)route));
    vr_json_unsigned(json, "started", stats->started);
    vr_json_unsigned(json, "operations", stats->operations);
    vr_json_unsigned(json, "failures", stats->failures);
    vr_json_unsigned(json, "bytes", stats->bytes);
    vr_json_unsigned(json, "busy_ns", stats->busy_ns);
    vr_json_unsigned(json, "waited_ns", stats->waited_ns);
    vr_json_unsigned(json, "stalls", stats->stalls);
    vr_json_unsigned(json, "stall_ns", stats->stall_ns);
    vr_json_unsigned(json, "latency_ns", stats->latency_ns);
    vr_json_unsigned(json, "min_latency_ns", stats->min_latency_ns);
    vr_json_unsigned(json, "max_latency_ns", stats->max_latency_ns);
    vr_json_number(json, "bytes_per_second", stats->bytes_per_second);
    vr_json_number(json, "overlap", stats->overlap);
    vr_json_array_begin(json, "histogram");
    for (int i = 0; i < VRAM_TRANSFER_BUCKETS; i++) {
        if (stats->histogram[i]) {
            vr_json_object_begin(json, NULL);
            vr_json_value(json, "below_ns",
                          (vram_value){UINT64_C(2) << i, i < VRAM_TRANSFER_BUCKETS - 1});
            vr_json_unsigned(json, "operations", stats->histogram[i]);
            vr_json_object_end(json);
        }
    }
    vr_json_array_end(json);
    vr_json_object_end(json);
}

static void cell_text(struct vr_writer *writer, uint32_t direction, uint32_t route,
                      const struct vram_transfer_stats *stats) {
    char size[VRAM_SIZE_TEXT_MAX];
    vr_writer_line(writer,
                   "  %-9s  %-11s  %llu of %llu ended, %llu failed; %s at %.3g GB/s, overlap "
                   "%.0f %%; %llu ns at 50 %%, %llu ns at 99 %%, %llu ns at most; %llu stalls",
                   vr_transfer_direction_name((vram_transfer_direction)direction),
                   vr_transfer_route_name((vram_transfer_route)route),
                   (unsigned long long)stats->operations, (unsigned long long)stats->started,
                   (unsigned long long)stats->failures, vr_size_format(stats->bytes, size),
                   stats->bytes_per_second / 1e9, stats->overlap * 100,
                   (unsigned long long)latency_percentile(stats, 50),
                   (unsigned long long)latency_percentile(stats, 99),
                   (unsigned long long)stats->max_latency_ns, (unsigned long long)stats->stalls);
}

/* Writes each cell that has counted something; `json` NULL: as text. Returns their number. */
static uint32_t write_cells(struct vr_metrics *metrics, struct vr_writer *writer,
                            struct vr_json *json) {
    uint32_t count = 0;
    for (uint32_t i = 0; metrics && i < DIRECTIONS * ROUTES; i++) {
        struct vram_transfer_stats stats = {.size = sizeof stats};
        read_cell(metrics, &metrics->cells[i / ROUTES][i % ROUTES], &stats);
        if (stats.started || stats.stalls || stats.waited_ns) {
            count++;
            if (json) {
                cell_json(json, i / ROUTES, i % ROUTES, &stats);
            } else {
                cell_text(writer, i / ROUTES, i % ROUTES, &stats);
            }
        }
    }
    return count;
}

static vram_status write_json(struct vr_metrics *metrics, struct vr_writer *writer) {
    struct vr_json json;
    vr_json_document_begin(&json, writer);
    vr_json_object_begin(&json, NULL);
    vr_json_text(&json, "schema", "vram.transfers/1");
    vr_json_array_begin(&json, "transfers");
    write_cells(metrics, writer, &json);
    vr_json_array_end(&json);
    vr_json_object_end(&json);
    return vr_json_document_end(&json, vr_operation());
}

static vram_status write_text(struct vr_metrics *metrics, struct vr_writer *writer) {
    vr_writer_line(writer, "transfers by direction and route:");
    if (!write_cells(metrics, writer, NULL)) {
        vr_writer_line(writer, "  none");
    }
    return vr_writer_end(writer, vr_operation());
}

vram_status vram_transfer_stats_write(vram_device *handle, vram_report_format format,
                                      vram_write_fn *write, void *user) {
    VR_CALL;
    struct vr_writer writer;
    void *entered;
    vram_status status = vr_writer_begin(&writer, format, write, user, vr_operation());
    if (status == VRAM_OK) {
        status = vr_enter(VR_KIND_DEVICE, handle, &entered);
    }
    if (status != VRAM_OK) {
        return status;
    }
    struct vr_device_object *device = entered;
    struct vr_metrics *metrics = metrics_of(device, false);
    status =
        format == VRAM_REPORT_JSON ? write_json(metrics, &writer) : write_text(metrics, &writer);
    vr_leave(device);
    return status;
}

/* ---------------------------------------------------------------------- names */

const char *vr_transfer_direction_name(vram_transfer_direction direction) {
    static const char *const names[] = {
#define ROW(NAME, number, name) [number] = (name),
        VRAM_TRANSFER_DIRECTION_MAP(ROW)
#undef ROW
    };
    return (uint32_t)direction < DIRECTIONS ? names[direction] : "unknown";
}

const char *vram_transfer_direction_name(vram_transfer_direction direction) {
    return vr_transfer_direction_name(direction);
}

const char *vr_transfer_route_name(vram_transfer_route route) {
    static const char *const names[] = {
#define ROW(NAME, number, name) [number] = (name),
        VRAM_TRANSFER_ROUTE_MAP(ROW)
#undef ROW
    };
    return (uint32_t)route < ROUTES ? names[route] : "unknown";
}

const char *vram_transfer_route_name(vram_transfer_route route) {
    return vr_transfer_route_name(route);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracking.c: `vram bench track`: what it costs to know every live block.
 *
 * Pairs of an allocation and its free, in a pool that is tracked and in one that is not, without a
 * tag and with one, with a call stack each, and in one that is not tracked with a trace that is
 * being written, a ring of the last megabyte in the folder for files that nobody keeps; then the
 * memory that records take while many blocks are live. A round is a thousand pairs, so its
 * microseconds are nanoseconds of one pair.
 */
#include "bench/ways.h"
#include "environment.h"
#include "survey.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    WAYS = 6,
    PAIRS = 1000,
    LIVE = 100000,
    RATE = 10000 /* allocations a second, for the share */
};
enum { OFF, ON, OFF_TAG, ON_TAG, STACKS, TRACED };

struct tracking {
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    const char *tag; /* NULL: none */
    uint64_t bytes;  /* of a block */
    uint64_t live;   /* blocks whose records were weighed; 0: could not be */
    uint64_t metadata_bytes, record_bytes;
};

static struct way ways[WAYS] = {
    [OFF] = {.name = "off", .about = "not tracked"},
    [ON] = {.name = "on", .about = "tracked: id, size, queue, thread and time"},
    [OFF_TAG] = {.name = "off_tag", .about = "not tracked, with a tag"},
    [ON_TAG] = {.name = "on_tag", .about = "tracked, with a tag"},
    [STACKS] = {.name = "stacks", .about = "tracked, with a call stack each"},
    [TRACED] = {.name = "traced", .about = "not tracked, but written to a trace"},
};

static bool round_pairs(void *user, struct way *way, uint64_t *ns) {
    struct tracking *tracking = user;
    vram_alloc_options options = {.size = sizeof options, .tag = tracking->tag};
    vram_status status = VRAM_OK;
    uint64_t before = ways_now();
    for (uint32_t i = 0; i < PAIRS && status == VRAM_OK; i++) {
        vram_addr addr;
        status =
            tracking->tag
                ? vram_alloc_with(tracking->pool, tracking->bytes, tracking->queue, &options, &addr)
                : vram_alloc(tracking->pool, tracking->bytes, tracking->queue, &addr);
        if (status == VRAM_OK) {
            status = vram_free(addr, tracking->queue);
        }
    }
    *ns = ways_now() - before;
    return way_good(way, status);
}

static vram_status make_pool(struct tracking *tracking, bool on, bool stacks) {
    vram_limits limits = {.size = sizeof limits, .tracking = on ? VRAM_SWITCH_ON : VRAM_SWITCH_OFF};
    vram_pool_options options = {.size = sizeof options, .limits = &limits};
    vram_status status = vram_option_set("track_stacks", stacks ? "1" : "0");
    return status == VRAM_OK ? vram_pool_create(tracking->device, &options, &tracking->pool)
                             : status;
}

/* The environment may say otherwise than the pool. */
static bool is_as_asked(struct tracking *tracking, bool on, struct way *way) {
    vram_live_query query = {.size = sizeof query, .pool = tracking->pool};
    vram_live_stats stats = {.size = sizeof stats};
    vram_status status = vram_live_stats_get(&query, &stats);
    if (status != VRAM_OK) {
        return way_fail(way, status);
    }
    if ((stats.pools == 1) != on) {
        snprintf(way->reason, sizeof way->reason, "VRAM_TRACKING decides otherwise");
        return false;
    }
    return true;
}

/* False: a pool could not be made. */
static bool measure_way(struct tracking *tracking, uint32_t i, double seconds) {
    bool on = i == ON || i == ON_TAG || i == STACKS;
    tracking->tag = i == OFF_TAG || i == ON_TAG ? "model/layer" : NULL;
    vram_status status = make_pool(tracking, on, i == STACKS);
    if (status != VRAM_OK) {
        say_failure("cannot create a pool", status);
        return false;
    }
    if (is_as_asked(tracking, on, &ways[i])) {
        way_measure(&ways[i], round_pairs, tracking, seconds);
    }
    vram_pool_destroy(tracking->pool);
    return true;
}

/* The same while a trace is written, to a file that goes again. */
static bool measure_traced(struct tracking *tracking, double seconds) {
    const char *asked = environment_get("TMPDIR"), *folder = asked && *asked ? asked : "/tmp";
    char path[256];
    vram_trace *trace;
    vram_trace_options options = {.size = sizeof options, .path = path, .ring_bytes = 1 << 20};
    snprintf(path, sizeof path, "%.200s/vram-bench-XXXXXX", folder);
    int file = mkstemp(path);
    if (file < 0) {
        snprintf(ways[TRACED].reason, sizeof ways[TRACED].reason, "cannot create a file at %.200s",
                 path);
        return true;
    }
    close(file);
    vram_status status = vram_trace_begin(tracking->context, &options, &trace);
    bool good = true;
    if (status == VRAM_OK) {
        good = measure_way(tracking, TRACED, seconds);
        vram_trace_end(trace);
    } else {
        way_fail(&ways[TRACED], status);
    }
    remove(path);
    return good;
}

static bool measure(struct tracking *tracking, struct terminal *terminal, double seconds) {
    for (uint32_t i = 0; i < WAYS; i++) {
        if (!(i == TRACED ? measure_traced(tracking, seconds / WAYS)
                          : measure_way(tracking, i, seconds / WAYS))) {
            return false;
        }
        terminal_progress(terminal, i + 1, WAYS, "ways");
    }
    terminal_progress_end(terminal);
    return true;
}

/* What records of many live blocks take, beside what the pool keeps of each anyway. */
static void weigh(struct tracking *tracking) {
    vram_addr *live = calloc(LIVE, sizeof *live);
    vram_alloc_options options = {.size = sizeof options, .tag = "model/layer"};
    uint64_t count = 0;
    if (live == NULL || make_pool(tracking, true, false) != VRAM_OK) {
        free(live);
        return;
    }
    while (count < LIVE && vram_alloc_with(tracking->pool, 512, tracking->queue, &options,
                                           &live[count]) == VRAM_OK) {
        count++;
    }
    vram_live_query query = {.size = sizeof query, .pool = tracking->pool};
    vram_live_stats stats = {.size = sizeof stats};
    if (vram_live_stats_get(&query, &stats) == VRAM_OK && stats.live_blocks == count &&
        stats.lost_records == 0) {
        tracking->live = count;
        tracking->metadata_bytes = stats.metadata_bytes;
        tracking->record_bytes = stats.record_bytes;
    }
    while (count > 0) {
        vram_free(live[--count], tracking->queue);
    }
    free(live);
    vram_pool_destroy(tracking->pool);
}

/* ------------------------------------------------------------------- results */

static bool both(uint32_t one, uint32_t other) {
    return way_measured(&ways[one]) && way_measured(&ways[other]);
}

/* Nanoseconds of one pair. */
static double extra(uint32_t with, uint32_t without) {
    return (ways[with].median_ns - ways[without].median_ns) / PAIRS;
}

static double weight(const struct tracking *tracking) {
    return (double)tracking->metadata_bytes / (double)tracking->live;
}

static void print(const struct terminal *terminal, const struct target *target,
                  const struct tracking *tracking) {
    char size[VRAM_SIZE_TEXT_MAX], label[DEVICE_LABEL_MAX];
    terminal_print(terminal, STYLE_BOLD, "track");
    printf(": %d pairs of %s a round, on %s, ", PAIRS, vram_size_format(tracking->bytes, size),
           device_label(&target->info, label));
    terminal_print(terminal, STYLE_PLAIN, "%s", target->info.name);
    printf("\n\n");
    ways_print(terminal, ways, WAYS);
    if (both(ON, OFF) && both(ON_TAG, OFF_TAG)) {
        printf("\nTracking adds %.1f ns to a pair, %.1f ns to one with a tag: %.3f %% of a CPU at "
               "%d allocations a second.\n",
               extra(ON, OFF), extra(ON_TAG, OFF_TAG), extra(ON_TAG, OFF_TAG) * RATE / 1e7, RATE);
    }
    if (both(STACKS, ON)) {
        printf("A call stack adds %.0f ns.\n", extra(STACKS, ON));
    }
    if (both(TRACED, OFF)) {
        printf("A trace adds %.1f ns to a pair, which is two events.\n", extra(TRACED, OFF));
    }
    if (tracking->live) {
        printf("%llu live blocks have records of %.1f bytes each.\n",
               (unsigned long long)tracking->live, weight(tracking));
    }
}

static void write_extra(struct json_out *json, const char *key, uint32_t with, uint32_t without,
                        double factor) {
    if (both(with, without)) {
        json_number(json, key, extra(with, without) * factor);
    } else {
        json_null(json, key);
    }
}

static bool write_json(const struct target *target, const struct tracking *tracking) {
    struct json_out json;
    output_json_begin(&json, "vram.bench.track/1");
    json_text(&json, "bench", "track");
    ways_write_device(&json, target);
    json_unsigned(&json, "bytes", tracking->bytes);
    json_unsigned(&json, "pairs", PAIRS);
    ways_write(&json, ways, WAYS);
    write_extra(&json, "pair_extra_ns", ON, OFF, 1);
    write_extra(&json, "tagged_pair_extra_ns", ON_TAG, OFF_TAG, 1);
    write_extra(&json, "stack_extra_ns", STACKS, ON, 1);
    write_extra(&json, "trace_extra_ns", TRACED, OFF, 1);
    json_unsigned(&json, "allocations_per_second", RATE);
    write_extra(&json, "cpu_share", ON_TAG, OFF_TAG, RATE / 1e9);
    json_unsigned(&json, "live_blocks", tracking->live);
    json_unsigned(&json, "record_bytes", tracking->record_bytes);
    json_unsigned(&json, "metadata_bytes", tracking->metadata_bytes);
    if (tracking->live) {
        json_number(&json, "bytes_per_block", weight(tracking));
    } else {
        json_null(&json, "bytes_per_block");
    }
    return output_json_end(&json);
}

int bench_track(struct invocation *invocation, const struct target *target, uint64_t bytes,
                double seconds) {
    struct tracking tracking = {.context = target->context, .bytes = bytes};
    vram_status status = vram_device_open(target->context, target->index, &tracking.device);
    if (status == VRAM_OK) {
        status = vram_queue_create(tracking.device, NULL, &tracking.queue);
    }
    if (status != VRAM_OK) {
        vram_device_close(tracking.device);
        return say_failure("cannot open the device", status);
    }
    bool good = measure(&tracking, &invocation->terminal, seconds);
    if (good) {
        weigh(&tracking);
    }
    vram_queue_destroy(tracking.queue);
    vram_device_close(tracking.device);
    if (good && invocation->json) {
        good = write_json(target, &tracking);
    } else if (good) {
        print(&invocation->terminal, target, &tracking);
    }
    return good ? EXIT_YES : EXIT_MISUSE;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frames.c: `vram bench readback`: device data that changes, brought to the host frame by frame.
 *
 * For each frame a kernel writes it, it is copied back, and the host works on it. These run one
 * after the other, with pageable and with page-locked memory, as in simple programs; and with a
 * vram_readback, where the three overlap. They are balanced first. The longest of the three sets
 * the time: the kernel is launched as often, and the host computes as many steps on what it has
 * read, as takes that long. The host reads a frame once: work that reads a frame again and again
 * would compete with the copy for memory instead of overlapping it.
 *
 * The host sums up every frame and compares the sum with what the kernel must have written. The
 * words of two frames differ by the same odd number, so that any mixture of two has a different
 * sum.
 */
#include "bench/team.h"
#include "bench/ways.h"
#include "check/scale_kernel.h"
#include "survey.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    WAYS = 3,
    FACTOR = 3,
    ROUND_FRAMES = 4,
    REPEATS_MAX = 4096,
    TRIES = 5,
    STEPS = 4,
    THREADS_MOST = 8
};
enum { DOUBLE, PINNED, PAGEABLE };

struct frames {
    vram_device *device;
    vram_queue *queue; /* of the kernels */
    vram_kernel *kernel;
    vram_readback *readback;
    struct team *team; /* of the host's work */
    vram_addr source;
    void *pageable;
    vram_addr pinned; /* 0: the device has none */
    uint64_t bytes;   /* of a frame */
    uint32_t words;   /* of it */
    uint32_t group;   /* items of a group that the device takes */
    uint32_t repeats; /* launches for a frame */
    uint32_t threads; /* of the host's work */
    uint64_t extra;   /* steps that each of them computes besides, to take as long as the others */
    uint32_t made;    /* frames so far: the number of the last */
    bool primed;      /* the readback is full */
    uint64_t checked, wrong;
    double kernel_ns, copy_ns, host_ns; /* each alone */
    double submit_ns;                   /* of the host's thread, to have a frame made */
    uint64_t waited_ns, submitted_ns, worked_ns, looped; /* double-buffered, in all; its frames */
};

/* ---------------------------------------------------------------------- kernel */

static void scale(const vram_kernel_call *call) {
    uint32_t *to = *(uint32_t *const *)call->arguments[0];
    const uint32_t *from = *(uint32_t *const *)call->arguments[1];
    uint32_t factor = (uint32_t) * (const uint64_t *)call->arguments[2];
    uint64_t count = *(const uint64_t *)call->arguments[3];
    uint64_t first = (uint64_t)call->group[0] * call->group_size[0];
    uint64_t end = first + call->group_size[0] < count ? first + call->group_size[0] : count;
    for (uint64_t i = first; i < end; i++) {
        to[i] = from[i] * factor + (uint32_t)i;
    }
}

/* The next frame: all words are its number, and then scaled in place over and over. */
static vram_status produce(struct frames *frames) {
    static const size_t bytes[] = {8, 8, 8, 8};
    const uint64_t values[] = {frames->source, frames->source, FACTOR, frames->words};
    const void *const arguments[] = {&values[0], &values[1], &values[2], &values[3]};
    const vram_launch launch = {
        .size = sizeof launch,
        .groups = {(frames->words + frames->group - 1) / frames->group, 1, 1},
        .group_size = {frames->group, 1, 1},
        .argument_count = 4,
        .arguments = arguments,
        .argument_bytes = bytes,
        .address_mask = 3};
    vram_status status =
        vram_queue_fill(frames->queue, frames->source, ++frames->made, 4, frames->bytes);
    for (uint32_t i = 0; i < frames->repeats && status == VRAM_OK; i++) {
        status = vram_queue_launch(frames->queue, frames->kernel, &launch);
    }
    return status;
}

/* The sum of a frame's words, by the kernel's arithmetic. */
static uint32_t expected_sum(const struct frames *frames, uint32_t number) {
    uint32_t indices = (uint32_t)((uint64_t)frames->words * (frames->words - 1) / 2);
    uint32_t sum = number * frames->words;
    for (uint32_t i = 0; i < frames->repeats; i++) {
        sum = sum * FACTOR + indices;
    }
    return sum;
}

/* ------------------------------------------------------------- the host's work */

struct summing {
    const struct frames *frames;
    const uint32_t *words;
    uint32_t sums[THREADS_MOST];
    uint32_t others[THREADS_MOST]; /* of what was computed to take time */
};

static uint32_t sum_of(const uint32_t *words, uint64_t count) {
    uint32_t sums[8] = {0};
    uint64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        for (int lane = 0; lane < 8; lane++) {
            sums[lane] += words[i + (uint64_t)lane];
        }
    }
    for (; i < count; i++) {
        sums[0] += words[i];
    }
    return sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
}

/* Work that needs no memory: each step waits for the one before. */
static uint32_t compute(uint32_t from, uint64_t steps) {
    for (uint64_t i = 0; i < steps; i++) {
        from = from * 1664525u + 1013904223u;
    }
    return from;
}

static bool sum_part(void *user, uint32_t index) {
    struct summing *summing = user;
    const struct frames *frames = summing->frames;
    uint64_t share = frames->words / frames->threads;
    uint64_t first = index * share;
    uint64_t count = index + 1 == frames->threads ? frames->words - first : share;
    summing->sums[index] = sum_of(summing->words + first, count);
    summing->others[index] = compute(summing->sums[index], frames->extra);
    return true;
}

static uint32_t work_on(struct frames *frames, const void *data) {
    struct summing summing = {.frames = frames, .words = data};
    uint32_t sum = 0;
    uint64_t ns;
    team_run(frames->team, frames->threads, NULL, sum_part, &summing, &ns);
    for (uint32_t i = 0; i < frames->threads; i++) {
        sum += summing.sums[i];
    }
    return sum;
}

/* Works on a frame and holds its sum against what it must be. */
static void take_in(struct frames *frames, const void *data, uint32_t number) {
    frames->checked++;
    frames->wrong += work_on(frames, data) != expected_sum(frames, number);
}

/* ---------------------------------------------------------------------- rounds */

static bool round_blocking(struct frames *frames, struct way *way, void *to, uint64_t *ns) {
    uint64_t before = ways_now();
    for (int i = 0; i < ROUND_FRAMES; i++) {
        vram_status status = produce(frames);
        if (status == VRAM_OK) {
            status = vram_queue_download(frames->queue, to, frames->source, frames->bytes);
        }
        if (status == VRAM_OK) {
            status = vram_queue_wait(frames->queue, VRAM_TIMEOUT_DEFAULT);
        }
        if (status != VRAM_OK) {
            return way_fail(way, status);
        }
        take_in(frames, to, frames->made);
    }
    *ns = (ways_now() - before) / ROUND_FRAMES;
    return true;
}

static bool round_pageable(void *user, struct way *way, uint64_t *ns) {
    struct frames *frames = user;
    return round_blocking(frames, way, frames->pageable, ns);
}

static bool round_pinned(void *user, struct way *way, uint64_t *ns) {
    struct frames *frames = user;
    if (frames->pinned == 0) {
        snprintf(way->reason, sizeof way->reason,
                 "no page-locked memory: the device has none, or ulimit -l is too low");
        return false;
    }
    return round_blocking(frames, way, (void *)(uintptr_t)frames->pinned, ns);
}

/* A frame that was produced, asked for; and the kernel of the one after it. */
static vram_status advance(struct frames *frames) {
    vram_status status =
        vram_readback_start(frames->readback, frames->queue, frames->source, frames->bytes, NULL);
    return status == VRAM_OK ? produce(frames) : status;
}

/* Kernel k + 2, copy k + 1 and the host's work on k are under way at the same time. */
static bool round_double(void *user, struct way *way, uint64_t *ns) {
    struct frames *frames = user;
    vram_status status = VRAM_OK;
    uint64_t before = ways_now();
    if (!frames->primed) {
        frames->made = 0; /* from here on the numbers of frames are the readback's */
        frames->primed = true;
        status = produce(frames);
        status = status == VRAM_OK ? advance(frames) : status;
    }
    for (int i = 0; i < ROUND_FRAMES && status == VRAM_OK; i++) {
        vram_frame frame;
        uint64_t start = ways_now();
        status = vram_readback_next(frames->readback, VRAM_TIMEOUT_DEFAULT, &frame);
        uint64_t arrived = ways_now();
        if (status == VRAM_OK) {
            status = advance(frames);
        }
        uint64_t submitted = ways_now();
        if (status == VRAM_OK) {
            take_in(frames, frame.data, (uint32_t)frame.number);
            status = vram_readback_release(frames->readback, frame.number);
        }
        frames->waited_ns += arrived - start;
        frames->submitted_ns += submitted - arrived;
        frames->worked_ns += ways_now() - submitted;
        frames->looped++;
    }
    *ns = (ways_now() - before) / ROUND_FRAMES;
    return way_good(way, status);
}

/* ------------------------------------------------------------------- balancing */

typedef vram_status part_fn(struct frames *frames);

static vram_status part_kernel(struct frames *frames) {
    uint64_t before = ways_now();
    vram_status status = produce(frames);
    frames->submit_ns = (double)(ways_now() - before);
    return status == VRAM_OK ? vram_queue_wait(frames->queue, VRAM_TIMEOUT_DEFAULT) : status;
}

static void *best_memory(const struct frames *frames) {
    return frames->pinned ? (void *)(uintptr_t)frames->pinned : frames->pageable;
}

static vram_status part_copy(struct frames *frames) {
    vram_status status =
        vram_queue_download(frames->queue, best_memory(frames), frames->source, frames->bytes);
    return status == VRAM_OK ? vram_queue_wait(frames->queue, VRAM_TIMEOUT_DEFAULT) : status;
}

static vram_status part_host(struct frames *frames) {
    (void)work_on(frames, best_memory(frames));
    return VRAM_OK;
}

/* The time of one part alone: the median of a few runs after a warm-up. `before_it` prepares the
   part as in the loop and is not counted; NULL: nothing. */
static vram_status alone(struct frames *frames, part_fn *before_it, part_fn *part, double *ns) {
    double times[TRIES];
    vram_status status = part(frames);
    for (int i = 0; i < TRIES && status == VRAM_OK; i++) {
        status = before_it ? before_it(frames) : VRAM_OK;
        if (status != VRAM_OK) {
            break;
        }
        uint64_t before = ways_now();
        status = part(frames);
        double took = (double)(ways_now() - before);
        int at = i;
        for (; at > 0 && times[at - 1] > took; at--) {
            times[at] = times[at - 1];
        }
        times[at] = took;
    }
    if (status == VRAM_OK) {
        *ns = times[TRIES / 2];
    }
    return status;
}

/* A frame that has just arrived is in none of the processors' caches. */
static vram_status alone_host(struct frames *frames) {
    return alone(frames, part_copy, part_host, &frames->host_ns);
}

static vram_status measure_parts(struct frames *frames) {
    vram_status status = alone(frames, NULL, part_kernel, &frames->kernel_ns);
    status = status == VRAM_OK ? alone(frames, NULL, part_copy, &frames->copy_ns) : status;
    return status == VRAM_OK ? alone_host(frames) : status;
}

static double longest(const struct frames *frames) {
    double most = frames->kernel_ns > frames->copy_ns ? frames->kernel_ns : frames->copy_ns;
    return most > frames->host_ns ? most : frames->host_ns;
}

/* Groups of a size that the device takes for a frame of this size. */
static vram_status choose_group(struct frames *frames) {
    vram_status status = VRAM_ERR_INVALID;
    for (frames->group = 128; status != VRAM_OK && frames->group < 1024;) {
        frames->group *= 2;
        status = part_kernel(frames);
    }
    return status;
}

/* Whether a part takes about as long as it should. */
static bool fits(double ns, double goal) {
    return ns > 0.93 * goal && ns < 1.07 * goal;
}

/* Of the host's computing, in nanoseconds. */
static double price_of_step(void) {
    enum { SAMPLE = 1000000 };
    uint64_t before = ways_now();
    volatile uint32_t kept = compute((uint32_t)before, SAMPLE); /* so that it is computed */
    (void)kept;
    uint64_t ns = ways_now() - before;
    return (double)(ns + 1) / SAMPLE; /* never 0, which it is divided by */
}

/* Makes kernel and host take as long as the longest part, in a few steps: more of either takes
   longer, but not in proportion. The time to submit a frame's launches counts as the host's. */
static vram_status balance(struct frames *frames) {
    vram_status status = choose_group(frames);
    status = status == VRAM_OK ? measure_parts(frames) : status;
    double goal = longest(frames);
    for (int i = 0; i < STEPS && status == VRAM_OK && !fits(frames->kernel_ns, goal); i++) {
        double wanted = frames->repeats * goal / frames->kernel_ns + 0.5;
        frames->repeats = wanted < 1 ? 1 : wanted < REPEATS_MAX ? (uint32_t)wanted : REPEATS_MAX;
        status = alone(frames, NULL, part_kernel, &frames->kernel_ns);
    }
    double rest = frames->submit_ns < goal / 2 ? goal - frames->submit_ns : goal / 2;
    double step_ns = price_of_step();
    for (int i = 0; i < STEPS && status == VRAM_OK && !fits(frames->host_ns, rest); i++) {
        double wanted = (double)frames->extra + (rest - frames->host_ns) / step_ns;
        frames->extra = wanted > 0 ? (uint64_t)wanted : 0;
        status = alone_host(frames);
    }
    return status == VRAM_OK ? measure_parts(frames) : status;
}

/* ------------------------------------------------------------------------ verb */

static struct way ways[WAYS] = {
    [DOUBLE] = {.name = "double", .about = "double-buffered: vram_readback, two slots"},
    [PINNED] = {.name = "pinned", .about = "one after the other, into page-locked memory"},
    [PAGEABLE] = {.name = "pageable", .about = "one after the other, into ordinary memory"},
};

/* Of what could run beside something longer, the share that did; below 0: unknown. */
static double overlap_share(const struct frames *frames) {
    double sum = frames->kernel_ns + frames->copy_ns + frames->host_ns;
    double share = (sum - ways[DOUBLE].median_ns) / (sum - longest(frames));
    if (!way_measured(&ways[DOUBLE])) {
        return -1;
    }
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

static double loop_us(const struct frames *frames, uint64_t ns) {
    return frames->looped ? (double)ns / (double)frames->looped / 1e3 : 0;
}

static void measure(struct frames *frames, struct terminal *terminal, double seconds) {
    static way_fn *const rounds[WAYS] = {round_double, round_pinned, round_pageable};
    for (uint64_t i = 0; i < WAYS; i++) {
        way_measure(&ways[i], rounds[i], frames, seconds / WAYS);
        terminal_progress(terminal, i + 1, WAYS, "ways");
    }
    terminal_progress_end(terminal);
}

static void print(const struct terminal *terminal, const struct target *target,
                  const struct frames *frames) {
    char size[VRAM_SIZE_TEXT_MAX], label[DEVICE_LABEL_MAX];
    terminal_print(terminal, STYLE_BOLD, "readback");
    printf(" of frames of %s, on %s, ", vram_size_format(frames->bytes, size),
           device_label(&target->info, label));
    terminal_print(terminal, STYLE_PLAIN, "%s", target->info.name);
    printf(
        "\n\nalone: kernel %.1f us (%u launches, submitted in %.1f us), copy %.1f us, host %.1f us "
        "(%u threads)\n\n",
        frames->kernel_ns / 1e3, frames->repeats, frames->submit_ns / 1e3, frames->copy_ns / 1e3,
        frames->host_ns / 1e3, frames->threads);
    ways_print(terminal, ways, WAYS);
    if (way_measured(&ways[DOUBLE]) && way_measured(&ways[PAGEABLE])) {
        printf("\nDouble-buffered frames come %.2f times as fast as the pageable loop's",
               ways_ratio(&ways[PAGEABLE], &ways[DOUBLE]));
        if (way_measured(&ways[PINNED])) {
            printf(" and %.2f times as fast as the pinned one's",
                   ways_ratio(&ways[PINNED], &ways[DOUBLE]));
        }
        printf(";\n%.0f %% of what can overlap did.\n", 100 * overlap_share(frames));
    }
    if (frames->looped > 0) {
        printf("Of a double-buffered frame's time %.0f us went into waiting for it, %.0f us into\n"
               "submitting the next and %.0f us into the host's work.\n",
               loop_us(frames, frames->waited_ns), loop_us(frames, frames->submitted_ns),
               loop_us(frames, frames->worked_ns));
    }
    printf("%llu frames checked, %llu wrong.\n", (unsigned long long)frames->checked,
           (unsigned long long)frames->wrong);
}

static bool write_json(const struct target *target, const struct frames *frames) {
    struct json_out json;
    output_json_begin(&json, "vram.bench.readback/1");
    json_text(&json, "bench", "readback");
    ways_write_device(&json, target);
    json_unsigned(&json, "size_bytes", frames->bytes);
    json_unsigned(&json, "launches", frames->repeats);
    json_unsigned(&json, "host_threads", frames->threads);
    json_number(&json, "kernel_ns", frames->kernel_ns);
    json_number(&json, "submit_ns", frames->submit_ns);
    json_number(&json, "copy_ns", frames->copy_ns);
    json_number(&json, "host_ns", frames->host_ns);
    ways_write(&json, ways, WAYS);
    ways_write_ratio(&json, "ratio_pageable", &ways[PAGEABLE], &ways[DOUBLE]);
    ways_write_ratio(&json, "ratio_pinned", &ways[PINNED], &ways[DOUBLE]);
    if (way_measured(&ways[DOUBLE])) {
        json_number(&json, "overlap_share", overlap_share(frames));
    } else {
        json_null(&json, "overlap_share");
    }
    json_number(&json, "loop_waited_ns", 1e3 * loop_us(frames, frames->waited_ns));
    json_number(&json, "loop_submitted_ns", 1e3 * loop_us(frames, frames->submitted_ns));
    json_number(&json, "loop_worked_ns", 1e3 * loop_us(frames, frames->worked_ns));
    json_unsigned(&json, "frames_checked", frames->checked);
    json_unsigned(&json, "frames_wrong", frames->wrong);
    return output_json_end(&json);
}

static vram_status open(const struct target *target, struct frames *frames) {
    const vram_readback_options options = {
        .size = sizeof options, .policy = VRAM_READBACK_EVERY, .bytes = frames->bytes};
    vram_status status = vram_device_open(target->context, target->index, &frames->device);
    if (status == VRAM_OK) {
        status = vram_queue_create(frames->device, NULL, &frames->queue);
    }
    if (status == VRAM_OK) {
        status =
            vram_device_alloc(frames->device, frames->bytes, VRAM_MEMORY_DEVICE, &frames->source);
    }
    if (status == VRAM_OK) {
        status = vram_readback_create(frames->device, &options, &frames->readback);
    }
    if (status == VRAM_OK && vram_device_alloc(frames->device, frames->bytes, VRAM_MEMORY_PINNED,
                                               &frames->pinned) != VRAM_OK) {
        frames->pinned = 0; /* that way is shown as not measured */
    }
    return status == VRAM_OK ? scale_kernel_create(frames->device, scale, &frames->kernel) : status;
}

static void close_all(struct frames *frames) {
    vram_readback_destroy(frames->readback);
    vram_kernel_destroy(frames->kernel);
    vram_queue_destroy(frames->queue);
    vram_device_close(frames->device);
    team_destroy(frames->team);
    free(frames->pageable);
}

/* As many threads as there are processors, up to what memory keeps busy. */
static uint32_t host_threads(void) {
    long found = sysconf(_SC_NPROCESSORS_ONLN);
    return found < 1 ? 1 : found < THREADS_MOST ? (uint32_t)found : THREADS_MOST;
}

int bench_readback(struct invocation *invocation, const struct target *target, uint64_t bytes,
                   double seconds) {
    struct frames frames = {.bytes = bytes / 4 * 4, .repeats = 1, .threads = host_threads()};
    frames.words = (uint32_t)(frames.bytes / 4);
    if (bytes < 4096 || bytes / 4 > INT32_MAX) {
        say_error("--size=%llu: a frame must have 4096 bytes to 8 GiB", (unsigned long long)bytes);
        return EXIT_MISUSE;
    }
    frames.team = team_create(frames.threads);
    frames.pageable = calloc(1, frames.bytes);
    if (frames.team == NULL || frames.pageable == NULL) {
        close_all(&frames);
        say_error("out of host memory");
        return EXIT_MISUSE;
    }
    vram_status status = open(target, &frames);
    status = status == VRAM_OK ? balance(&frames) : status;
    if (status != VRAM_OK) {
        int code = say_failure("cannot read frames back from this device", status);
        close_all(&frames);
        return code;
    }
    measure(&frames, &invocation->terminal, seconds);
    close_all(&frames);
    bool good = true;
    if (invocation->json) {
        good = write_json(target, &frames);
    } else {
        print(&invocation->terminal, target, &frames);
    }
    return !good ? EXIT_MISUSE : frames.wrong != 0 ? EXIT_NO : EXIT_YES;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ringing.c: `vram bench ring`: messages between the host and a kernel, with every strategy: how
 * many per second to the kernel, how many from it, and the time of a round trip. Every byte is
 * checked when it arrives.
 *
 * If a kernel can run at the same time as the host, it is launched once and keeps running.
 * Otherwise it is launched again for each flush, and the output says so.
 */
#include "bench/generated/ring_code_ptx.h"
#include "bench/ring_kernel.h"
#include "bench/ring_opencl_code.h"
#include "bench/ways.h"
#include "survey.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STRATEGIES = 4, BATCH = 256, CAPACITY = 4096, WORDS_MAX = 512 };
enum { SINK, SOURCE, ECHO, KERNELS };

#define PATIENCE_NS UINT64_C(20000000000)

struct ringing {
    vram_device *device;
    vram_pool *pool;
    vram_queue *queue; /* for kernels that stay */
    vram_kernel *kernels[KERNELS];
    uint64_t messages; /* each way */
    uint32_t bytes;    /* of a message */
};

/* What a strategy came to. */
struct row {
    vram_ring_strategy strategy;
    bool live;                 /* the kernel stayed */
    double to_device, to_host; /* messages a second; 0: not measured */
    struct way trip;           /* there and back; its reason is the row's */
};

static struct row rows[STRATEGIES] = {{.strategy = VRAM_RING_DIRECT},
                                      {.strategy = VRAM_RING_DMA_POLLING},
                                      {.strategy = VRAM_RING_ASYNC},
                                      {.strategy = VRAM_RING_SYNC}};

/* -------------------------------------------------------------------- kernels */

static vram_ring_control *control_of(const vram_kernel_call *call) {
    return *(vram_ring_control *const *)call->arguments[0];
}

static void sink(const vram_kernel_call *call) {
    ring_sink(control_of(call));
}

static void source(const vram_kernel_call *call) {
    ring_source(control_of(call), *(const uint64_t *)call->arguments[1],
                (uint32_t) * (const uint64_t *)call->arguments[2]);
}

static void echo(const vram_kernel_call *call) {
    ring_echo(control_of(call), *(const uint64_t *)call->arguments[1]);
}

/* The first language that the device takes. */
static vram_status load(struct ringing *ringing, int which) {
    static vram_kernel_fn *const functions[KERNELS] = {sink, source, echo};
    static const char *const entries[KERNELS] = {"vram_ring_sink", "vram_ring_source",
                                                 "vram_ring_echo"};
    vram_kernel_source code = {.size = sizeof code,
                               .format = VRAM_KERNEL_C,
                               .code = (const void *)(uintptr_t)functions[which],
                               .entry = entries[which]};
    vram_status status = vram_kernel_create(ringing->device, &code, &ringing->kernels[which]);
    if (status == VRAM_ERR_UNSUPPORTED) {
        code.format = VRAM_KERNEL_PTX;
        code.code = ring_code_ptx;
        code.code_bytes = sizeof ring_code_ptx - 1;
        status = vram_kernel_create(ringing->device, &code, &ringing->kernels[which]);
    }
    if (status == VRAM_ERR_UNSUPPORTED) {
        code.format = VRAM_KERNEL_OPENCL_C;
        code.code = ring_opencl_code;
        code.code_bytes = sizeof ring_opencl_code - 1;
        status = vram_kernel_create(ringing->device, &code, &ringing->kernels[which]);
    }
    return status;
}

static vram_status launch(const struct ringing *ringing, vram_queue *queue, int which,
                          const vram_ring_info *info) {
    uint64_t values[] = {info->control, which == ECHO ? PATIENCE_NS : ringing->messages,
                         ringing->bytes};
    vram_launch call = {.size = sizeof call,
                        .groups = {1, 1, 1},
                        .group_size = {1, 1, 1},
                        .argument_count = 3,
                        .arguments = (const void *[]){&values[0], &values[1], &values[2]},
                        .argument_bytes = (size_t[]){8, 8, 8},
                        .address_mask = 1};
    return vram_queue_launch(queue, ringing->kernels[which], &call);
}

/* ----------------------------------------------------------------------- rings */

/* A ring with its kernel; a kernel that stays is launched. */
static vram_status begin(const struct ringing *ringing, struct row *row, uint32_t flags, int which,
                         vram_ring **ring, vram_ring_info *info) {
    vram_ring_options options = {.size = sizeof options,
                                 .strategy = row->strategy,
                                 .flags = flags,
                                 .input_capacity = CAPACITY,
                                 .output_capacity = CAPACITY,
                                 .message_bytes = ringing->bytes};
    *info = (vram_ring_info){.size = sizeof *info};
    vram_status status = vram_ring_create(ringing->pool, &options, ring);
    if (status == VRAM_OK) {
        status = vram_ring_info_get(*ring, info);
    }
    row->live = info->live;
    return status == VRAM_OK && info->live ? launch(ringing, ringing->queue, which, info) : status;
}

/* Tells the kernel to end, and looks what it found. */
static vram_status end(const struct ringing *ringing, vram_ring *ring, const vram_ring_info *info,
                       vram_status status) {
    vram_ring_stats stats = {.size = sizeof stats};
    if (!ring) {
        return status;
    }
    vram_status ended = vram_ring_stop(ring);
    if (ended == VRAM_OK && info->live) {
        ended = vram_ring_join(ring, PATIENCE_NS);
    }
    if (info->live) {
        (void)vram_queue_wait(ringing->queue, PATIENCE_NS);
    }
    if (ended == VRAM_OK) {
        ended = vram_ring_fetch(ring, NULL, NULL);
    }
    if (ended == VRAM_OK) {
        ended = vram_ring_stats_get(ring, &stats);
    }
    (void)vram_ring_destroy(ring);
    status = status == VRAM_OK ? ended : status;
    return status == VRAM_OK && stats.kernel_errors ? VRAM_ERR_CORRUPT : status;
}

/* Puts as many as go in, from number `sent` on, into the ring. */
static vram_status send_batch(const struct ringing *ringing, vram_ring *ring, uint64_t timeout,
                              uint64_t *sent) {
    static uint64_t words[BATCH][WORDS_MAX];
    vram_ring_message batch[BATCH];
    uint64_t left = ringing->messages - *sent, count = left < BATCH ? left : BATCH, done = 0;
    for (uint64_t i = 0; i < count; i++) {
        ring_write(words[i], ringing->bytes, *sent + i);
        batch[i] = (vram_ring_message){.data = words[i], .bytes = ringing->bytes};
    }
    vram_status status = vram_ring_send_many(ring, batch, count, timeout, &done);
    *sent += done;
    return status;
}

/* Without a kernel that stays: fills the ring, has it worked off, and so on. */
static vram_status send_in_turns(const struct ringing *ringing, vram_ring *ring,
                                 const vram_ring_info *info) {
    vram_status status = VRAM_OK;
    for (uint64_t sent = 0; status == VRAM_OK && sent < ringing->messages;) {
        while (status == VRAM_OK && sent < ringing->messages) {
            status = send_batch(ringing, ring, 0, &sent);
        }
        status = status == VRAM_ERR_NOT_READY ? VRAM_OK : status;
        status = status == VRAM_OK ? vram_ring_flush(ring, NULL, NULL) : status;
        status = status == VRAM_OK ? launch(ringing, info->queue, SINK, info) : status;
        status = status == VRAM_OK ? vram_ring_drain(ring, PATIENCE_NS) : status;
    }
    return status;
}

static vram_status send_all(const struct ringing *ringing, vram_ring *ring,
                            const vram_ring_info *info) {
    vram_status status = VRAM_OK;
    if (!info->live) {
        return send_in_turns(ringing, ring, info);
    }
    for (uint64_t sent = 0; status == VRAM_OK && sent < ringing->messages;) {
        status = send_batch(ringing, ring, PATIENCE_NS, &sent);
        if (status == VRAM_OK && info->strategy != VRAM_RING_DMA_POLLING) {
            status = vram_ring_flush(ring, NULL, NULL);
        }
    }
    return status == VRAM_OK ? vram_ring_drain(ring, PATIENCE_NS) : status;
}

static vram_status receive_all(const struct ringing *ringing, vram_ring *ring,
                               const vram_ring_info *info) {
    static uint64_t words[WORDS_MAX];
    vram_ring_slot header;
    vram_status status = VRAM_OK;
    for (uint64_t i = 0; status == VRAM_OK && i < ringing->messages;) {
        status =
            vram_ring_receive(ring, words, ringing->bytes, info->live ? PATIENCE_NS : 0, &header);
        if (status == VRAM_OK) {
            bool whole = header.bytes == ringing->bytes && ring_is_whole(words, header.bytes, i);
            status = whole ? VRAM_OK : VRAM_ERR_CORRUPT;
            i++;
        } else if (status == VRAM_ERR_NOT_READY) {
            status = launch(ringing, info->queue, SOURCE, info);
        }
    }
    return status;
}

/* --------------------------------------------------------------------- figures */

static vram_status measure_way(const struct ringing *ringing, struct row *row, bool out,
                               double *per_second) {
    vram_ring *ring = NULL;
    vram_ring_info info;
    vram_status status = begin(ringing, row, out ? VRAM_RING_INPUT : VRAM_RING_OUTPUT,
                               out ? SINK : SOURCE, &ring, &info);
    uint64_t before = ways_now();
    if (status == VRAM_OK) {
        status = out ? send_all(ringing, ring, &info) : receive_all(ringing, ring, &info);
    }
    uint64_t ns = ways_now() - before;
    status = end(ringing, ring, &info, status);
    *per_second = status == VRAM_OK ? (double)ringing->messages * 1e9 / (double)(ns + 1) : 0;
    return status;
}

static vram_status one_trip(const struct ringing *ringing, vram_ring *ring,
                            const vram_ring_info *info, uint64_t number) {
    uint64_t words[WORDS_MAX];
    vram_ring_slot header;
    ring_write(words, ringing->bytes, number);
    vram_status status = vram_ring_send(ring, words, ringing->bytes, 0, PATIENCE_NS);
    if (status == VRAM_OK && (!info->live || info->strategy != VRAM_RING_DMA_POLLING)) {
        status = vram_ring_flush(ring, NULL, NULL);
    }
    if (status == VRAM_OK && !info->live) {
        status = launch(ringing, info->queue, ECHO, info);
    }
    if (status == VRAM_OK) {
        status = vram_ring_receive(ring, words, ringing->bytes, PATIENCE_NS, &header);
    }
    if (status != VRAM_OK) {
        return status;
    }
    /* The words were sent from here: a shorter message would leave some of them. */
    bool whole = header.bytes == ringing->bytes && ring_is_whole(words, header.bytes, number);
    return whole ? VRAM_OK : VRAM_ERR_CORRUPT;
}

static vram_status measure_trips(const struct ringing *ringing, struct row *row) {
    vram_ring *ring = NULL;
    vram_ring_info info;
    uint64_t trips = ringing->messages < WAY_SAMPLES ? ringing->messages : WAY_SAMPLES;
    vram_status status = begin(ringing, row, 0, ECHO, &ring, &info);
    for (uint64_t i = 0; status == VRAM_OK && i < trips; i++) {
        uint64_t before = ways_now();
        status = one_trip(ringing, ring, &info, i);
        row->trip.samples[i] = (double)(ways_now() - before);
    }
    status = end(ringing, ring, &info, status);
    if (status == VRAM_OK) {
        row->trip.count = (uint32_t)trips;
        way_sum_up(&row->trip);
    }
    return status;
}

static void measure(const struct ringing *ringing, struct row *row) {
    vram_error_clear();
    vram_status status = measure_way(ringing, row, true, &row->to_device);
    if (status == VRAM_OK) {
        status = measure_way(ringing, row, false, &row->to_host);
    }
    if (status == VRAM_OK) {
        status = measure_trips(ringing, row);
    }
    if (status != VRAM_OK) {
        (void)way_fail(&row->trip, status);
        row->trip.wrong = status == VRAM_ERR_CORRUPT; /* a message is not what was sent */
    }
}

/* ------------------------------------------------------------------------ verb */

static void print(const struct terminal *terminal, const struct target *target,
                  const struct ringing *ringing) {
    char label[DEVICE_LABEL_MAX];
    terminal_print(terminal, STYLE_BOLD, "ring");
    printf(" of %d messages of %u bytes, %llu each way, on %s, ", CAPACITY, ringing->bytes,
           (unsigned long long)ringing->messages, device_label(&target->info, label));
    terminal_print(terminal, STYLE_PLAIN, "%s", target->info.name);
    printf("\n\n%-12s  %13s  %13s  %12s  %12s  %s\n", "strategy", "to device/s", "to host/s",
           "round trip", "90 % below", "the kernel");
    for (int i = 0; i < STRATEGIES; i++) {
        const struct row *row = &rows[i];
        printf("%-12s  ", vram_ring_strategy_name(row->strategy));
        if (row->trip.reason[0]) {
            terminal_print(terminal, STYLE_PLAIN, "%s", row->trip.reason);
            printf("\n");
            continue;
        }
        printf("%13.0f  %13.0f  %9.2f us  %9.2f us  %s\n", row->to_device, row->to_host,
               row->trip.median_ns / 1e3, row->trip.p90_ns / 1e3,
               row->live ? "stays" : "is launched anew");
    }
}

static void write_figure(struct json_out *json, const char *key, const struct row *row,
                         double figure) {
    if (row->trip.reason[0]) {
        json_null(json, key);
    } else {
        json_number(json, key, figure);
    }
}

static void write_row(struct json_out *json, const struct row *row) {
    json_object_begin(json, NULL);
    json_text(json, "strategy", vram_ring_strategy_name(row->strategy));
    if (row->trip.reason[0]) {
        json_text(json, "reason", row->trip.reason);
        json_null(json, "kernel_stays");
    } else {
        json_null(json, "reason");
        json_bool(json, "kernel_stays", row->live);
    }
    write_figure(json, "to_device_per_second", row, row->to_device);
    write_figure(json, "to_host_per_second", row, row->to_host);
    write_figure(json, "round_trip_median_ns", row, row->trip.median_ns);
    write_figure(json, "round_trip_p10_ns", row, row->trip.p10_ns);
    write_figure(json, "round_trip_p90_ns", row, row->trip.p90_ns);
    json_object_end(json);
}

static bool write(const struct target *target, const struct ringing *ringing) {
    struct json_out json;
    output_json_begin(&json, "vram.bench.ring/1");
    json_text(&json, "bench", "ring");
    ways_write_device(&json, target);
    json_unsigned(&json, "messages", ringing->messages);
    json_unsigned(&json, "message_bytes", ringing->bytes);
    json_unsigned(&json, "capacity", CAPACITY);
    json_array_begin(&json, "strategies");
    for (int i = 0; i < STRATEGIES; i++) {
        write_row(&json, &rows[i]);
    }
    json_array_end(&json);
    return output_json_end(&json);
}

static vram_status open(const struct target *target, struct ringing *ringing) {
    vram_status status = vram_device_open(target->context, target->index, &ringing->device);
    if (status == VRAM_OK) {
        status = vram_queue_create(ringing->device, NULL, &ringing->queue);
    }
    if (status == VRAM_OK) {
        status = vram_pool_create(ringing->device, NULL, &ringing->pool);
    }
    for (int i = 0; i < KERNELS && status == VRAM_OK; i++) {
        status = load(ringing, i);
    }
    return status;
}

static void close(struct ringing *ringing) {
    for (int i = 0; i < KERNELS; i++) {
        vram_kernel_destroy(ringing->kernels[i]);
    }
    vram_pool_destroy(ringing->pool);
    vram_queue_destroy(ringing->queue);
    vram_device_close(ringing->device);
}

int bench_ring(struct invocation *invocation, const struct target *target, uint64_t bytes,
               uint64_t messages) {
    bool gpu = target->info.kind == VRAM_DEVICE_GPU;
    struct ringing ringing = {.messages = messages ? messages
                                          : gpu    ? 1000000
                                                   : 100000,
                              .bytes = (uint32_t)(bytes + 7) / 8 * 8};
    vram_status status = open(target, &ringing);
    if (status != VRAM_OK) {
        int code = say_failure("cannot load a kernel on this device", status);
        close(&ringing);
        return code;
    }
    bool wrong = false;
    for (int i = 0; i < STRATEGIES; i++) {
        terminal_progress(&invocation->terminal, (uint64_t)i, STRATEGIES, "strategies");
        measure(&ringing, &rows[i]);
        wrong |= rows[i].trip.wrong;
    }
    terminal_progress_end(&invocation->terminal);
    close(&ringing);
    if (!invocation->json) {
        print(&invocation->terminal, target, &ringing);
    } else if (!write(target, &ringing)) {
        return EXIT_MISUSE;
    }
    return wrong ? EXIT_NO : EXIT_YES;
}

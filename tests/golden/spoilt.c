/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spoilt.c: stands between the command and the library in a build of the command that must notice.
 * No real device can be asked to give back wrong contents, to leak or to end the process, so the
 * linker's --wrap puts these in the place of some calls; SPOIL in the environment says which one
 * misbehaves, and how. Each of them can be made to fail, too: see failing.c.
 *
 * In a coverage build a process that dies writes its counts first.
 */
#include "failing.h"

#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vram/vram.h>

/* WRAPPED(name, parameters): declares both. FAILS(name) is at the head of the second. */
#define WRAPPED(name, ...)                                                                         \
    vram_status __real_##name(__VA_ARGS__);                                                        \
    vram_status __wrap_##name(__VA_ARGS__)
#define FAILS(name)                                                                                \
    do {                                                                                           \
        if (failing_strikes(#name, __builtin_return_address(0))) {                                 \
            return failing_status(#name);                                                          \
        }                                                                                          \
    } while (0)

WRAPPED(vram_queue_wait, vram_queue *queue, uint64_t timeout);
WRAPPED(vram_queue_download, vram_queue *queue, void *to, vram_addr from, uint64_t bytes);
WRAPPED(vram_transfer_download, vram_queue *queue, void *to, vram_addr from, uint64_t bytes,
        const vram_transfer_options *options, vram_async *async);
WRAPPED(vram_async_wait, const vram_async *async, uint64_t timeout);
WRAPPED(vram_readback_next, vram_readback *readback, uint64_t timeout, vram_frame *frame);
WRAPPED(vram_ring_receive, vram_ring *ring, void *data, uint32_t room, uint64_t timeout,
        vram_ring_slot *header);
WRAPPED(vram_ring_stats_get, vram_ring *ring, vram_ring_stats *stats);
WRAPPED(vram_memory_info_get, vram_device *device, vram_memory_info *info);
WRAPPED(vram_pool_stats_get, vram_pool *pool, vram_pool_stats *stats);
WRAPPED(vram_pool_pressure_get, vram_pool *pool, vram_pressure *pressure);
WRAPPED(vram_oom_report_get, vram_pool *pool, vram_oom_report *report);
WRAPPED(vram_backend_info_get, vram_context *context, uint32_t index, vram_backend_info *info);

void __real__exit(int code) __attribute__((noreturn));
void __wrap__exit(int code) __attribute__((noreturn));
void __gcov_dump(void) __attribute__((weak));

static unsigned char *downloaded; /* last byte of the download under way */

static bool spoils(const char *what) {
    const char *wish = getenv("SPOIL");
    return wish != NULL && strcmp(wish, what) == 0;
}

/* ------------------------------------------------------------------- contents */

vram_status __wrap_vram_queue_download(vram_queue *queue, void *to, vram_addr from,
                                       uint64_t bytes) {
    FAILS(vram_queue_download);
    downloaded = (unsigned char *)to + bytes - 1;
    return __real_vram_queue_download(queue, to, from, bytes);
}

vram_status __wrap_vram_transfer_download(vram_queue *queue, void *to, vram_addr from,
                                          uint64_t bytes, const vram_transfer_options *options,
                                          vram_async *async) {
    FAILS(vram_transfer_download);
    downloaded = (unsigned char *)to + bytes - 1;
    return __real_vram_transfer_download(queue, to, from, bytes, options, async);
}

/* One bit of the last byte, once the copy is done. */
static void spoil_download(void) {
    if (downloaded != NULL && spoils("contents")) {
        *downloaded ^= 1;
    }
    downloaded = NULL;
}

/* Or a library that does not refuse what it must: an invalid queue, and calls in the child of a
   fork. */
vram_status __wrap_vram_queue_wait(vram_queue *queue, uint64_t timeout) {
    FAILS(vram_queue_wait);
    vram_status status = __real_vram_queue_wait(queue, timeout);
    if (status != VRAM_OK && spoils("accept")) {
        return VRAM_OK;
    }
    spoil_download();
    return status;
}

vram_status __wrap_vram_async_wait(const vram_async *async, uint64_t timeout) {
    FAILS(vram_async_wait);
    vram_status status = __real_vram_async_wait(async, timeout);
    spoil_download();
    return status;
}

/* The same of a frame. */
vram_status __wrap_vram_readback_next(vram_readback *readback, uint64_t timeout,
                                      vram_frame *frame) {
    FAILS(vram_readback_next);
    vram_status status = __real_vram_readback_next(readback, timeout, frame);
    if (status == VRAM_OK && spoils("contents")) {
        ((unsigned char *)(uintptr_t)frame->data)[0] ^= 1;
    }
    return status;
}

/* A message with a wrong bit, or one that is too short. */
vram_status __wrap_vram_ring_receive(vram_ring *ring, void *data, uint32_t room, uint64_t timeout,
                                     vram_ring_slot *header) {
    FAILS(vram_ring_receive);
    vram_status status = __real_vram_ring_receive(ring, data, room, timeout, header);
    if (status == VRAM_OK && spoils("contents")) {
        ((unsigned char *)data)[0] ^= 1;
    } else if (status == VRAM_OK && spoils("length")) {
        header->bytes -= 8;
    }
    return status;
}

/* A kernel that found wrong messages. */
vram_status __wrap_vram_ring_stats_get(vram_ring *ring, vram_ring_stats *stats) {
    FAILS(vram_ring_stats_get);
    vram_status status = __real_vram_ring_stats_get(ring, stats);
    if (status == VRAM_OK && spoils("kernel")) {
        stats->kernel_errors++;
    }
    return status;
}

/* ------------------------------------------------------------------- counters */

#define COUNTER(field)                                                                             \
    { #field, offsetof(vram_pool_stats, field), 1 }
#define COUNTERS(field)                                                                            \
    {                                                                                              \
#field, offsetof(vram_pool_stats, field),                                                  \
            sizeof((vram_pool_stats *)0)->field / sizeof(uint64_t)                                 \
    }

/* What the pool counts; each time one is asked for, it is wrong by one more. */
static const struct {
    const char *name; /* what SPOIL says */
    size_t offset, count;
} counters[] = {
    COUNTER(allocs),          COUNTER(live_blocks),     COUNTER(requested_bytes),
    COUNTER(reserved_bytes),  COUNTER(refusals),        COUNTERS(rises),
    COUNTERS(falls),          COUNTERS(response_steps), COUNTERS(ladder_steps),
    COUNTERS(ladder_rescues),
};

vram_status __wrap_vram_pool_stats_get(vram_pool *pool, vram_pool_stats *stats) {
    static uint64_t lies;
    FAILS(vram_pool_stats_get);
    vram_status status = __real_vram_pool_stats_get(pool, stats);
    for (size_t i = 0; i < sizeof counters / sizeof counters[0] && status == VRAM_OK; i++) {
        if (spoils(counters[i].name)) {
            uint64_t *counted = (uint64_t *)((char *)stats + counters[i].offset);
            lies++;
            for (size_t k = 0; k < counters[i].count; k++) {
                counted[k] += lies;
            }
        }
    }
    return status;
}

vram_status __wrap_vram_pool_pressure_get(vram_pool *pool, vram_pressure *pressure) {
    FAILS(vram_pool_pressure_get);
    vram_status status = __real_vram_pool_pressure_get(pool, pressure);
    if (status == VRAM_OK && spoils("pressure")) {
        pressure->reserved_bytes++;
        pressure->level = (vram_pressure_level)((pressure->level + 1) % 4);
    }
    return status;
}

vram_status __wrap_vram_oom_report_get(vram_pool *pool, vram_oom_report *report) {
    FAILS(vram_oom_report_get);
    vram_status status = __real_vram_oom_report_get(pool, report);
    if (status == VRAM_OK && spoils("report")) {
        report->cause = VRAM_OOM_REFUSED;
        report->asked_bytes++;
        report->live_bytes++;
        report->reserved_bytes++;
        report->limit_bytes.value++;
        report->step_count++;
    } else if (status == VRAM_OK && spoils("report_step")) {
        report->steps[0].step = (vram_ladder_step)(report->steps[0].step + 1);
    } else if (status == VRAM_OK && spoils("report_taken")) {
        report->steps[0].taken++;
    }
    return status;
}

vram_status __wrap_vram_memory_info_get(vram_device *device, vram_memory_info *info) {
    FAILS(vram_memory_info_get);
    vram_status status = __real_vram_memory_info_get(device, info);
    if (status == VRAM_OK && spoils("leak")) {
        info->held_bytes += 4096;
    }
    return status;
}

/* ----------------------------------------------------------------- sudden ends */

/* A fault of the code itself, not a signal that is sent. */
__attribute__((no_sanitize("undefined"))) static void fault(void) {
    volatile int *volatile nowhere = NULL;
    *nowhere = 1;
}

/* Few of the cases call this. */
vram_status __wrap_vram_backend_info_get(vram_context *context, uint32_t index,
                                         vram_backend_info *info) {
    if (spoils("fault")) {
        fault();
    } else if (spoils("signal")) {
        raise(SIGILL);
    } else if (spoils("abort")) {
        abort();
    } else if (spoils("exit")) {
        exit(0);
    } else if (spoils("leave")) {
        _exit(0);
    } else if (spoils("late")) {
        atexit(abort);
    }
    return __real_vram_backend_info_get(context, index, info);
}

/* -------------------------------------------------------------------- coverage */

void __wrap__exit(int code) {
    if (__gcov_dump != NULL) {
        __gcov_dump();
    }
    __real__exit(code);
}

static void on_death(int number) {
    __gcov_dump();
    signal(number, SIG_DFL);
    raise(number);
}

/* Before main, so that the command's own handler finds these, and gives way to them. */
__attribute__((constructor)) static void watch_deaths(void) {
    static const int numbers[] = {SIGSEGV, SIGILL, SIGABRT};
    for (size_t i = 0; i < 3 && __gcov_dump != NULL; i++) {
        signal(numbers[i], on_death);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stop.c: the steps of `vram tour`, in order. Each is a few calls of the library, kept as plain as
 * a program of one's own would write them. What a step took and did not give back, tour_end frees.
 */
#include "tour.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_BYTES = 16 << 20,      /* of each block, where the device has room */
    BLOCK_BYTES_LEAST = 4 << 10, /* of a very small device */
    MOVE_BYTES = 1 << 20,        /* moved by the VMM step, rounded up to the granule */
    POOL_PAIRS = 10000,          /* blocks taken from a pool and given back, in turn of ... */
    POOL_SIZES = 7,              /* ... so many sizes, each twice the one before ... */
    POOL_BYTES_LEAST = 1 << 10,  /* ... from this one on */
    RACE_BYTES = 4 << 20,        /* of a frame of the race, at most */
    GROUP_ITEMS = 256            /* numbers that one group of the kernel works on */
};

static const uint32_t fill_pattern = 0x5a5aa5a5;

/* Sets the remark and passes the result on, so that a step can end with it. */
static enum stop_result remark(struct tour *tour, enum stop_result result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static enum stop_result remark(struct tour *tour, enum stop_result result, const char *format,
                               ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(tour->remark, sizeof tour->remark, format, arguments);
    va_end(arguments);
    return result;
}

/* The result of a step that made library calls: done, or failed with the library's own words. */
static enum stop_result finish(struct tour *tour, vram_status status) {
    if (status == VRAM_OK) {
        return STOP_DONE;
    }
    return remark(tour, STOP_FAILED, "%s (%s)", failure_text(status), vram_status_name(status));
}

/* Number i of the pattern: neighbours differ in many bits, so a shifted copy cannot pass. */
static uint32_t pattern_at(uint64_t i) {
    return (uint32_t)(i * 2654435761u) ^ 0x9e3779b9u;
}

/* ------------------------------------------------------- device and memory */

/* Two queues, so that a later step can show one waiting for the other. */
static enum stop_result open_device(struct tour *tour) {
    const struct target *target = tour->target;
    vram_status status = vram_device_open(target->context, target->index, &tour->device);
    for (int i = 0; i < 2 && status == VRAM_OK; i++) {
        status = vram_queue_create(tour->device, NULL, &tour->queues[i]);
    }
    return finish(tour, status);
}

/* An eighth of a small device, so that the later steps have room as well. */
static uint64_t block_bytes(vram_value memory) {
    uint64_t bytes = BLOCK_BYTES;
    if (memory.known && memory.value / 8 < bytes) {
        bytes = memory.value / 8 / BLOCK_BYTES_LEAST * BLOCK_BYTES_LEAST;
    }
    return bytes > 0 ? bytes : BLOCK_BYTES_LEAST;
}

static enum stop_result allocate(struct tour *tour) {
    tour->bytes = block_bytes(tour->target->info.memory_bytes);
    tour->sent = malloc(tour->bytes);
    tour->received = malloc(tour->bytes);
    if (tour->sent == NULL || tour->received == NULL) {
        return finish(tour, VRAM_ERR_HOST_MEMORY);
    }
    memset(tour->received, 0, tour->bytes); /* touched now, so that no download pays for it */
    tour_clock_restart(tour);
    vram_status status =
        vram_device_alloc(tour->device, tour->bytes, VRAM_MEMORY_DEVICE, &tour->first);
    if (status == VRAM_OK) {
        status = vram_device_alloc(tour->device, tour->bytes, VRAM_MEMORY_DEVICE, &tour->second);
    }
    char size[VRAM_SIZE_TEXT_MAX];
    remark(tour, STOP_DONE, "2 x %s", vram_size_format(tour->bytes, size));
    return finish(tour, status);
}

/* ------------------------------------------------------------------- copies */

static enum stop_result upload(struct tour *tour) {
    for (uint64_t i = 0; i < tour->bytes / sizeof *tour->sent; i++) {
        tour->sent[i] = pattern_at(i);
    }
    tour_clock_restart(tour); /* making up the pattern is no part of the upload */
    vram_status status = vram_queue_upload(tour->queues[0], tour->first, tour->sent, tour->bytes);
    if (status == VRAM_OK) {
        status = vram_queue_wait(tour->queues[0], VRAM_TIMEOUT_DEFAULT);
    }
    tour->moved_bytes = tour->bytes;
    return finish(tour, status);
}

/* Nothing is waited for here: the point is all that the next step needs. */
static enum stop_result copy(struct tour *tour) {
    vram_status status = vram_queue_copy(tour->queues[0], tour->second, tour->first, tour->bytes);
    if (status == VRAM_OK) {
        status = vram_queue_mark(tour->queues[0], &tour->copied);
    }
    return finish(tour, status);
}

/*
 * Compares what came down with what is expected, and clears it, so that contents which never came
 * cannot pass at the next step. The clock is stopped before.
 */
static enum stop_result compare(struct tour *tour, uint64_t count,
                                uint32_t (*expected)(uint64_t i)) {
    tour_clock_stop(tour);
    for (uint64_t i = 0; i < count; i++) {
        if (tour->received[i] != expected(i)) {
            return remark(tour, STOP_DIFFERED,
                          "number %" PRIu64 " is %08" PRIx32 " and should be %08" PRIx32, i,
                          tour->received[i], expected(i));
        }
    }
    memset(tour->received, 0, count * sizeof *tour->received);
    return remark(tour, STOP_DONE, "contents are equal");
}

/* Brings `bytes` of device memory into `received` and waits for it. */
static vram_status fetch(struct tour *tour, int queue, vram_addr from, uint64_t bytes) {
    vram_status status = vram_queue_download(tour->queues[queue], tour->received, from, bytes);
    return status == VRAM_OK ? vram_queue_wait(tour->queues[queue], VRAM_TIMEOUT_DEFAULT) : status;
}

/* Without the first call the two queues would race: only a point orders one after the other. */
static enum stop_result download(struct tour *tour) {
    vram_status status = vram_queue_after(tour->queues[1], tour->copied);
    if (status == VRAM_OK) {
        status = fetch(tour, 1, tour->second, tour->bytes);
    }
    return status == VRAM_OK ? compare(tour, tour->bytes / sizeof(uint32_t), pattern_at)
                             : finish(tour, status);
}

static uint32_t filled_at(uint64_t i) {
    (void)i;
    return fill_pattern;
}

static enum stop_result fill(struct tour *tour) {
    vram_status status =
        vram_queue_fill(tour->queues[0], tour->first, fill_pattern, 4, tour->bytes);
    if (status == VRAM_OK) {
        status = fetch(tour, 0, tour->first, tour->bytes);
    }
    return status == VRAM_OK ? compare(tour, tour->bytes / sizeof(uint32_t), filled_at)
                             : finish(tour, status);
}

/* ----------------------------------------------------------- virtual memory */

/* Writes through the first half of the range, reads through the second; same physical memory. */
static vram_status move_physical(struct tour *tour, uint64_t physical_bytes, uint64_t bytes) {
    vram_addr here = tour->range, there = tour->range + physical_bytes;
    vram_status status = vram_range_map(tour->device, here, &tour->physical, 1);
    if (status == VRAM_OK) {
        status = vram_queue_upload(tour->queues[0], here, tour->sent, bytes);
    }
    if (status == VRAM_OK) {
        status = vram_queue_wait(tour->queues[0], VRAM_TIMEOUT_DEFAULT);
    }
    if (status == VRAM_OK) {
        status = vram_range_unmap(tour->device, here, physical_bytes);
    }
    if (status == VRAM_OK) {
        status = vram_range_map(tour->device, there, &tour->physical, 1);
    }
    return status == VRAM_OK ? fetch(tour, 0, there, bytes) : status;
}

/*
 * A device too full for one more handle is no reason to call the tour a failure. The handle stays
 * mapped at no address when this returns, as give_back needs it.
 */
static enum stop_result move(struct tour *tour) {
    const vram_device_info *info = &tour->target->info;
    if ((info->caps & info->caps_known & VRAM_CAP_VMM) == 0 || !info->vmm_granule.known ||
        info->vmm_granule.value == 0) {
        return remark(tour, STOP_SKIPPED, "the device has no virtual memory management");
    }
    vram_status status = vram_physical_create(tour->device, MOVE_BYTES, &tour->physical);
    if (vram_status_is_exhausted(status)) {
        return remark(tour, STOP_SKIPPED, "%s", failure_text(status));
    }
    uint64_t physical_bytes = status == VRAM_OK ? vram_physical_bytes(tour->physical) : 0;
    if (status == VRAM_OK) {
        status = vram_range_create(tour->device, 2 * physical_bytes, &tour->range);
    }
    uint64_t bytes = physical_bytes < tour->bytes ? physical_bytes : tour->bytes;
    if (status == VRAM_OK) {
        status = move_physical(tour, physical_bytes, bytes);
    }
    if (status != VRAM_OK) {
        return finish(tour, status);
    }
    enum stop_result result = compare(tour, bytes / sizeof(uint32_t), pattern_at);
    status = vram_range_unmap(tour->device, tour->range + physical_bytes, physical_bytes);
    return status == VRAM_OK ? result : finish(tour, status);
}

/* -------------------------------------------------------------------- pools */

static vram_status take_and_give(struct tour *tour, vram_pool *pool, int count) {
    vram_status status = VRAM_OK;
    for (int i = 0; i < count && status == VRAM_OK; i++) {
        vram_addr addr;
        uint64_t bytes = (uint64_t)POOL_BYTES_LEAST << i % POOL_SIZES;
        status = vram_alloc(pool, bytes, tour->queues[0], &addr);
        if (status == VRAM_OK) {
            status = vram_free(addr, tour->queues[0]);
        }
    }
    return status;
}

/* What one block cost, where the clock is the wall's: a simulated one counts driver calls alone. */
static void remark_pool(struct tour *tour, const vram_pool_stats *before,
                        const vram_pool_stats *after) {
    char price[64] = "";
    if (tour->target->info.kind != VRAM_DEVICE_SIMULATED) {
        snprintf(price, sizeof price, ", %.0f ns each",
                 (double)(tour->stopped_ns - tour->started_ns) / POOL_PAIRS);
    }
    remark(tour, STOP_DONE, "%d blocks%s, %" PRIu64 " of them from that cache", POOL_PAIRS, price,
           after->cache_hits - before->cache_hits);
}

/* The first rounds, which are not timed, have the driver give the memory and fill the cache. */
static vram_status measure_pool(struct tour *tour, vram_pool *pool) {
    vram_pool_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    vram_status status = take_and_give(tour, pool, 2 * POOL_SIZES);
    if (status == VRAM_OK) {
        status = vram_pool_stats_get(pool, &before);
    }
    if (status == VRAM_OK) {
        tour_clock_restart(tour);
        status = take_and_give(tour, pool, POOL_PAIRS);
        tour_clock_stop(tour);
    }
    if (status == VRAM_OK) {
        status = vram_pool_stats_get(pool, &after);
    }
    if (status == VRAM_OK) {
        remark_pool(tour, &before, &after);
    }
    return status;
}

/* As for the step before, a device that is too full is no reason to call the tour a failure. */
static enum stop_result use_pool(struct tour *tour) {
    vram_pool *pool = NULL;
    vram_status status = vram_pool_create(tour->device, NULL, &pool);
    if (status == VRAM_OK) {
        status = measure_pool(tour, pool);
    }
    enum stop_result result = vram_status_is_exhausted(status)
                                  ? remark(tour, STOP_SKIPPED, "%s", failure_text(status))
                                  : finish(tour, status);
    status = vram_pool_destroy(pool);
    return result == STOP_DONE ? finish(tour, status) : result;
}

/* ------------------------------------------------------------------ kernels */

/*
 * Adds one to each number. Called once for each group, from any thread; groups share no number, so
 * nothing needs a lock. Arguments arrive as pointers to their values.
 */
static void add_one(const vram_kernel_call *call) {
    vram_addr addr = *(const vram_addr *)call->arguments[0];
    uint64_t count = *(const uint64_t *)call->arguments[1];
    uint32_t *numbers = (uint32_t *)(uintptr_t)addr;
    uint64_t start = (uint64_t)call->group[0] * call->group_size[0];
    for (uint64_t i = start; i < start + call->group_size[0] && i < count; i++) {
        numbers[i]++;
    }
}

/* A kernel in C touches the memory itself, so the host must be able to reach it. */
static bool runs_c_kernels(const vram_device_info *info) {
    uint32_t needed = VRAM_CAP_KERNELS | VRAM_CAP_HOST_ACCESS;
    return (info->caps & info->caps_known & needed) == needed;
}

static uint32_t added_at(uint64_t i) {
    return pattern_at(i) + 1;
}

/* Works on the second block, which still holds the pattern; the first one was filled over. */
static enum stop_result launch(struct tour *tour) {
    if (!runs_c_kernels(&tour->target->info)) {
        return remark(tour, STOP_SKIPPED, "the device runs no kernels written in C");
    }
    vram_kernel_source source = {.size = sizeof source,
                                 .format = VRAM_KERNEL_C,
                                 .code = (const void *)(uintptr_t)add_one,
                                 .entry = "add_one"};
    vram_status status = vram_kernel_create(tour->device, &source, &tour->kernel);
    uint64_t count = tour->bytes / sizeof(uint32_t);
    vram_launch work = {
        .size = sizeof work,
        .groups = {(uint32_t)((count + GROUP_ITEMS - 1) / GROUP_ITEMS), 1, 1},
        .group_size = {GROUP_ITEMS, 1, 1},
        .argument_count = 2,
        .arguments = (const void *const[]){&tour->second, &count},
        .argument_bytes = (const size_t[]){sizeof tour->second, sizeof count},
    };
    if (status == VRAM_OK) {
        status = vram_queue_launch(tour->queues[0], tour->kernel, &work);
    }
    if (status == VRAM_OK) {
        status = fetch(tour, 0, tour->second, tour->bytes);
    }
    return status == VRAM_OK ? compare(tour, count, added_at) : finish(tour, status);
}

/* --------------------------------------------------------------------- race */

/* Works on what the downloads came to, which is not needed any more. Where the processor is the
   device it would copy to itself: the four ways differ by how threads get in each other's way, and
   the one for GPUs would come last. */
static enum stop_result run_race(struct tour *tour) {
    struct race *race = &tour->race;
    char size[VRAM_SIZE_TEXT_MAX];
    vram_status status;
    if (tour->target->info.kind == VRAM_DEVICE_CPU) {
        return remark(tour, STOP_SKIPPED,
                      "the processor is the device, nothing travels (try --backend sim)");
    }
    race->context = tour->target->context;
    race->index = tour->target->index;
    race->host = tour->received;
    race->bytes = tour->bytes < RACE_BYTES ? tour->bytes : RACE_BYTES;
    race->simulated = tour->target->info.kind == VRAM_DEVICE_SIMULATED;
    race->now = tour_now;
    race->user = tour;
    bool good = race_run(race, &status);
    tour->moved_bytes = 0;
    if (!good && status == VRAM_ERR_CORRUPT) {
        return remark(tour, STOP_DIFFERED, "the sum of a frame is wrong");
    }
    if (!good && vram_status_is_exhausted(status)) {
        return remark(tour, STOP_SKIPPED, "%s", failure_text(status));
    }
    if (good) {
        remark(tour, STOP_DONE, "4 x %d frames of %s", RACE_FRAMES,
               vram_size_format(race->bytes, size));
    }
    return finish(tour, status);
}

/* ---------------------------------------------------------------------- end */

/* Gives back in the reverse order of taking, and asks the device what is left. */
static enum stop_result give_back(struct tour *tour) {
    vram_kernel_destroy(tour->kernel);
    tour->kernel = NULL;
    vram_status status = vram_physical_destroy(tour->physical);
    if (status == VRAM_OK && tour->range != 0) {
        status = vram_range_destroy(tour->device, tour->range);
    }
    if (status == VRAM_OK) {
        status = vram_device_free(tour->device, tour->second);
    }
    if (status == VRAM_OK) {
        status = vram_device_free(tour->device, tour->first);
    }
    for (int i = 0; i < 2; i++) {
        vram_queue_destroy(tour->queues[i]);
        tour->queues[i] = NULL;
    }
    tour->left.size = sizeof tour->left;
    if (status == VRAM_OK) {
        status = vram_memory_info_get(tour->device, &tour->left);
    }
    if (status == VRAM_OK) {
        remark(tour, STOP_DONE, "%" PRIu64 " driver calls in all", tour->left.driver_calls);
    }
    return finish(tour, status);
}

void tour_end(struct tour *tour) {
    vram_device_close(tour->device); /* with all that a failed step left on it */
    tour->device = NULL;
    free(tour->sent);
    free(tour->received);
    tour->sent = tour->received = NULL;
}

const struct stop stops[] = {
    {"open", "Open the device and make two queues. Work on one queue runs in order.", open_device,
     true},
    {"allocate", "Allocate two blocks of memory straight from the driver.", allocate, true},
    {"upload", "Send a pattern from host memory to the first block.", upload, false},
    {"copy",
     "Copy it to the second block, on the device. The call returns at once; a point marks where "
     "the copy ends.",
     copy, false},
    {"download",
     "Tell the second queue to begin after that point, and read the copy back there. The device "
     "waits for the copy; the host waits only for the end.",
     download, false},
    {"fill", "Fill the first block with one repeated number, and check it.", fill, false},
    {"move",
     "Map physical memory at one address, write through it, map it at another, and read there: "
     "moved, not copied.",
     move, false},
    {"pool",
     "Allocate blocks of seven sizes from a pool and free them. After the first rounds they come "
     "from the cache of this thread, without a driver call.",
     use_pool, false},
    {"launch", "Run a kernel that adds one to every number of the second block.", launch, false},
    {"race",
     "Bring frames to the host in four ways: computed on the device, copied, summed up. All four "
     "run twice; the second run counts.",
     run_race, true},
    {"free", "Free everything.", give_back, true},
};
const size_t stop_count = sizeof stops / sizeof stops[0];

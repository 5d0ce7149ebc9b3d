/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strided.c: rows with gaps, as one rectangle (vram_transfer_2d: the driver's own call where it has
 * one) and as a list of the same rows (vram_transfer_batch: the library's kernel for small ones,
 * else a copy for each).
 *
 *     strided [BACKEND [MIB]]
 *
 * Rows of several widths, 16,384 of them at most, lie twice their width and 8 bytes apart on one
 * side, and without gaps on the other. The two ways are interleaved, round by round, so that
 * whatever else the machine does meets both alike. Printed are medians in GB/s, from the call to
 * the end of the handle's wait, after the bytes of one round of each way were compared.
 */
#include <vram/vram.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 9, SIDES = 5, ROWS_MAX = 16384 }; /* more would only take longer, one by one */

static const char *const sides[SIDES] = {"up, page-locked", "down, page-locked", "across",
                                         "up, ordinary", "down, ordinary"};

static struct {
    vram_queue *queue;
    vram_addr device, other, locked; /* room for the rows with their gaps, each */
    unsigned char *ordinary, *check; /* the same */
    vram_copy *list;
    uint64_t room;
} here;

static void need(vram_status status, const char *what) {
    if (status != VRAM_OK) {
        fprintf(stderr, "strided: %s: %s\n", what, vram_error_get()->text);
        exit(2);
    }
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The rectangle of a side: gaps where the rows come from. */
static vram_copy_2d rectangle_of(int side, uint64_t row, uint64_t rows) {
    vram_copy_2d copy = {
        .row_bytes = row, .rows = rows, .to_pitch = row, .from_pitch = 2 * row + 8};
    copy.first.to = side == 1 ? here.locked : side == 4 ? 0 : here.device;
    copy.first.to_host = side == 4 ? here.ordinary : NULL;
    copy.first.from = side == 0 ? here.locked : side == 3 ? 0 : here.other;
    copy.first.from_host = side == 3 ? here.ordinary : NULL;
    return copy;
}

static void list_make(const vram_copy_2d *copy) {
    for (uint64_t i = 0; i < copy->rows; i++) {
        vram_copy *one = &here.list[i];
        *one = copy->first;
        one->bytes = copy->row_bytes;
        one->to += one->to ? i * copy->to_pitch : 0;
        one->from += one->from ? i * copy->from_pitch : 0;
        one->to_host = one->to_host ? (char *)one->to_host + i * copy->to_pitch : NULL;
        one->from_host =
            one->from_host ? (const char *)one->from_host + i * copy->from_pitch : NULL;
    }
}

static double measure(const vram_copy_2d *copy, bool list) {
    vram_async async;
    double begin = seconds();
    if (list) {
        need(vram_transfer_batch(here.queue, here.list, copy->rows, NULL, &async), "a list");
    } else {
        need(vram_transfer_2d(here.queue, copy, NULL, &async), "a rectangle");
    }
    need(vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT), "a wait");
    double took = seconds() - begin;
    vram_async_end(&async);
    return took;
}

/* Fills the source anew, so that what the other way left is not taken for right, and compares. */
static void compare(const vram_copy_2d *copy, bool list, unsigned seed) {
    bool up = copy->first.from_host || copy->first.from == here.locked;
    unsigned char *from = copy->first.from_host ? here.ordinary
                          : up                  ? (unsigned char *)(uintptr_t)here.locked
                                                : here.check;
    for (uint64_t i = 0; i < here.room; i++) {
        from[i] = (unsigned char)(i * 131 + i / 251 + seed);
    }
    if (!up) {
        need(vram_queue_upload(here.queue, here.other, here.check, here.room), "an upload");
        need(vram_queue_wait(here.queue, VRAM_TIMEOUT_DEFAULT), "a wait");
    }
    (void)measure(copy, list);
    uint64_t bytes = copy->rows * copy->row_bytes;
    const unsigned char *found = copy->first.to_host ? here.ordinary
                                 : copy->first.to == here.locked
                                     ? (unsigned char *)(uintptr_t)here.locked
                                     : here.check;
    if (found == here.check) {
        need(vram_queue_download(here.queue, here.check, here.device, bytes), "a download");
        need(vram_queue_wait(here.queue, VRAM_TIMEOUT_DEFAULT), "a wait");
    }
    for (uint64_t i = 0; i < bytes; i++) {
        uint64_t at = i / copy->row_bytes * copy->from_pitch + i % copy->row_bytes;
        if (found[i] != (unsigned char)(at * 131 + at / 251 + seed)) {
            fprintf(stderr, "strided: byte %llu is wrong\n", (unsigned long long)i);
            exit(1);
        }
    }
}

static int by_size(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static void contest(int side, uint64_t row, uint64_t bytes) {
    uint64_t rows = bytes / row < ROWS_MAX ? bytes / row : ROWS_MAX;
    vram_copy_2d copy = rectangle_of(side, row, rows);
    double took[2][ROUNDS];
    list_make(&copy);
    for (int way = 0; way < 2; way++) {
        compare(&copy, way, (unsigned)(side * 2 + way));
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int way = 0; way < 2; way++) {
            took[way][round] = measure(&copy, way);
        }
    }
    double moved = (double)(copy.rows * row) * 1e-9;
    for (int way = 0; way < 2; way++) {
        qsort(took[way], ROUNDS, sizeof(double), by_size);
    }
    printf("%-18s %8llu %9llu %12.2f %9.2f %8.2f\n", sides[side], (unsigned long long)row,
           (unsigned long long)copy.rows, moved / took[0][ROUNDS / 2], moved / took[1][ROUNDS / 2],
           took[1][ROUNDS / 2] / took[0][ROUNDS / 2]);
    fflush(stdout);
}

int main(int argc, char **argv) {
    static const uint64_t widths[] = {64, 333, 1024, 4096, 16384, 65536, 262144};
    vram_context_options options = {.size = sizeof options,
                                    .backends = argc > 1 ? argv[1] : "cuda"};
    uint64_t bytes = (argc > 2 ? strtoull(argv[2], NULL, 10) : 32) << 20;
    vram_context *context;
    vram_device *device;
    uint32_t best;
    here.room = 2 * bytes + bytes / 64 * 8;
    need(vram_context_create(&options, &context), "a context");
    need(vram_device_best(context, &best), "a device");
    need(vram_device_open(context, best, &device), "a device");
    need(vram_queue_create(device, NULL, &here.queue), "a queue");
    need(vram_device_alloc(device, here.room, VRAM_MEMORY_DEVICE, &here.device), "memory");
    need(vram_device_alloc(device, here.room, VRAM_MEMORY_DEVICE, &here.other), "memory");
    need(vram_device_alloc(device, here.room, VRAM_MEMORY_PINNED, &here.locked), "locked memory");
    here.ordinary = malloc(here.room);
    here.check = malloc(here.room);
    here.list = calloc(ROWS_MAX, sizeof *here.list);
    if (bytes < 262144 || !here.ordinary || !here.check || !here.list) {
        fprintf(stderr, "strided: no memory, or less than 1 MiB asked for\n");
        return 2;
    }
    printf("%-18s %8s %9s %12s %9s %8s\n", "GB/s", "row", "rows", "rectangle", "list", "times");
    for (int side = 0; side < SIDES; side++) {
        for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
            contest(side, widths[i], bytes);
        }
    }
    free(here.ordinary);
    free(here.check);
    free(here.list);
    vram_context_destroy(context);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * share_bench: what opening memory of another process costs, on the best device or the backend that
 * VRAM_BACKENDS names. The exporter starts itself again as the reader.
 *
 *   share_bench [--rounds N] [--tensors N] [--mib N] [--kills N]
 *
 * One block of --mib MiB (1024) is opened and closed --rounds times (50); then --tensors blocks
 * (20000) of 64 to 800 KiB of one group, in one call; then --kills readers (100) are killed at
 * random moments, and the exporter's descriptors counted. Goals: 1 ms, 500 ms, none left.
 *
 * An open is the whole call: connect, ask, receive, reserve, import, map, allow access. Exporters
 * make descriptors of up to 64 handles ahead (share_kept.c), from the export on, so that time is no
 * part of it; of the tensors' handles the others are made while the reader waits.
 *
 * With the shim (driver_spent.h) it also says what of an open is the driver's: on the side of the
 * reader, and cuMemExportToShareableHandle on that of the exporter, ahead and for opens. The rest
 * is ours: sockets, messages, and the switches between the two processes.
 */
#include "driver_spent.h"

#include <dirent.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <vram/vram.h>

static vram_context *context;
static vram_device *device;
static vram_queue *queue;
static bool failed;
extern char **environ;

static void must(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "%s: %s\n", vram_status_name(status), vram_error_get()->text);
        exit(1);
    }
}

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int number_order(const void *a, const void *b) {
    double first = *(const double *)a, second = *(const double *)b;
    return first < second ? -1 : first > second;
}

static uint32_t descriptors_open(void) {
    DIR *folder = opendir("/proc/self/fd");
    uint32_t count = 0;
    while (folder && readdir(folder)) {
        count++;
    }
    if (folder) {
        closedir(folder);
    }
    return count;
}

/* What of each open is the driver's, in ms; known with the shim. The last row is the rest. */
static const char *const open_calls[] = {"cuMemImportFromShareableHandle", "cuMemAddressReserve",
                                         "cuMemMap", "cuMemSetAccess"};
enum { OPEN_CALLS = sizeof open_calls / sizeof open_calls[0], OPENS_MAX = 1000 };
static double open_parts[OPEN_CALLS + 1][OPENS_MAX];

static void open_note(int at, double open_ms) {
    static double before[OPEN_CALLS];
    double rest = open_ms;
    for (int i = 0; i < OPEN_CALLS; i++) {
        double all = driver_spent_ms(open_calls[i]);
        open_parts[i][at] = all - before[i];
        rest -= all - before[i];
        before[i] = all;
    }
    open_parts[OPEN_CALLS][at] = rest;
}

/* Medians. */
static void opens_explain(int opens) {
    if (!driver_spent()) {
        return;
    }
    printf("  medians:");
    for (int i = 0; i <= OPEN_CALLS; i++) {
        qsort(open_parts[i], (size_t)opens, sizeof open_parts[i][0], number_order);
        printf(" %s %.3f ms%s", i < OPEN_CALLS ? open_calls[i] : "the rest",
               open_parts[i][opens / 2], i < OPEN_CALLS ? "," : ", with the exporter's part\n");
    }
}

/* ------------------------------------------------------------------- the reader */

/* Opens and closes; the first word of the first and the last part must be its number + 1. */
static int read_name(const char *name, int rounds) {
    double *opens = calloc((size_t)rounds, sizeof *opens);
    double *closes = calloc((size_t)rounds, sizeof *closes);
    vram_share_info info = {.size = sizeof info};
    uint32_t before = descriptors_open();
    open_note(0, 0); /* what was spent until now */
    for (int i = 0; i < rounds; i++) {
        vram_share *share;
        double start = now_ms();
        must(vram_share_open_name(device, name, NULL, &share));
        opens[i] = now_ms() - start;
        open_note(i, opens[i]);
        must(vram_share_info_get(share, &info));
        for (uint32_t k = 0; i == 0 && k<info.parts; k += info.parts> 1 ? info.parts - 1 : 1) {
            vram_share_part part;
            uint32_t word = 0;
            must(vram_share_parts_get(share, k, 1, &part));
            must(vram_queue_download(queue, &word, part.addr, 4));
            must(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
            if (word != k + 1) {
                fprintf(stderr, "part %u begins with %u\n", k, word);
                return 1;
            }
        }
        start = now_ms();
        must(vram_share_close(share));
        closes[i] = now_ms() - start;
    }
    double first = opens[0];
    qsort(opens, (size_t)rounds, sizeof *opens, number_order);
    qsort(closes, (size_t)rounds, sizeof *closes, number_order);
    printf(
        "%u parts, %u handles, %.0f MiB: open %.3f ms (median of %d; first %.3f, most %.3f), close "
        "%.3f ms, descriptors left %d\n",
        info.parts, info.handles, (double)info.bytes / 1048576, opens[rounds / 2], rounds, first,
        opens[rounds - 1], closes[rounds / 2], (int)descriptors_open() - (int)before);
    opens_explain(rounds);
    bool good = info.parts == 1 ? opens[rounds / 2] < 1 : opens[rounds / 2] < 500;
    free(opens);
    free(closes);
    return good && descriptors_open() == before ? 0 : 1;
}

static int hold_name(const char *name) {
    vram_share *share;
    must(vram_share_open_name(device, name, NULL, &share));
    return pause();
}

/* ----------------------------------------------------------------- the exporter */

static double exported_ms; /* cuMemExportToShareableHandle, until the export was made ahead */

static pid_t reader_start(const char *program, const char *part, const char *name, int rounds) {
    char count[16];
    pid_t child;
    snprintf(count, sizeof count, "%d", rounds);
    char *const arguments[] = {"share_bench", (char *)part, (char *)name, count, NULL};
    fflush(stdout);
    if (posix_spawn(&child, program, NULL, NULL, arguments, environ) != 0) {
        fprintf(stderr, "the reader does not start\n");
        exit(1);
    }
    return child;
}

static void reader_wait(pid_t child, int opens) {
    int status = 0;
    waitpid(child, &status, 0);
    failed = failed || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    double ms = driver_spent_ms("cuMemExportToShareableHandle");
    if (driver_spent()) {
        printf("  and of the rest, in the mean, cuMemExportToShareableHandle %.3f ms\n",
               (ms - exported_ms) / opens);
    }
}

static vram_share *publish(vram_pool *pool, uint32_t count, uint64_t mib, char *name) {
    vram_addr *blocks = calloc(count, sizeof *blocks);
    vram_share *share;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bytes = count == 1 ? mib << 20 : (64 + i * 37 % 737) << 10;
        must(vram_alloc(pool, bytes, queue, &blocks[i]));
        must(vram_queue_fill(queue, blocks[i], i + 1, 4, 4));
    }
    must(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
    double start = now_ms(), before = driver_spent_ms("cuMemExportToShareableHandle");
    must(vram_share_export(blocks, count, NULL, &share));
    printf("export of %u blocks: %.3f ms\n", count, now_ms() - start);
    sprintf(name, "share_bench-%d-%u", (int)getpid(), count);
    must(vram_share_publish(share, name, NULL));
    usleep(200000); /* descriptors are made ahead */
    exported_ms = driver_spent_ms("cuMemExportToShareableHandle");
    if (driver_spent()) {
        printf("  cuMemExportToShareableHandle ahead: %.3f ms\n", exported_ms - before);
    }
    free(blocks);
    return share;
}

static void kill_readers(const char *program, const char *name, vram_share *share, int kills) {
    vram_share_info info = {.size = sizeof info};
    uint32_t before = descriptors_open();
    for (int i = 0; i < kills; i++) {
        pid_t child = reader_start(program, "hold", name, 0);
        usleep((unsigned)(rand() % 300000));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    double start = now_ms();
    do {
        usleep(1000);
        must(vram_share_info_get(share, &info));
    } while ((info.reader_count || descriptors_open() > before) && now_ms() - start < 3000);
    printf("%d readers killed: %u readers and %d descriptors left\n", kills, info.reader_count,
           (int)descriptors_open() - (int)before);
    failed = failed || info.reader_count || descriptors_open() > before;
}

static int option(int count, char **arguments, const char *name, int otherwise) {
    for (int i = 1; i + 1 < count; i++) {
        if (strcmp(arguments[i], name) == 0) {
            return atoi(arguments[i + 1]);
        }
    }
    return otherwise;
}

int main(int count, char **arguments) {
    vram_pool_options one = {.size = sizeof one, .flags = VRAM_POOL_SHAREABLE};
    vram_pool_options many = {.size = sizeof many, .flags = VRAM_POOL_SHARE_GROUP};
    char first[64], second[64];
    uint32_t index;
    must(vram_context_create(NULL, &context));
    must(vram_device_best(context, &index));
    must(vram_device_open(context, index, &device));
    must(vram_queue_create(device, NULL, &queue));
    if (count == 4 && arguments[1][0] != '-') {
        int code = strcmp(arguments[1], "hold") == 0 ? hold_name(arguments[2])
                                                     : read_name(arguments[2], atoi(arguments[3]));
        vram_context_destroy(context);
        return code;
    }
    int rounds = option(count, arguments, "--rounds", 50);
    rounds = rounds < 1 ? 1 : rounds < OPENS_MAX ? rounds : OPENS_MAX;
    vram_pool *pool, *group;
    must(vram_pool_create(device, &one, &pool));
    must(vram_pool_create(device, &many, &group));
    vram_share *block = publish(pool, 1, (uint64_t)option(count, arguments, "--mib", 1024), first);
    reader_wait(reader_start("/proc/self/exe", "read", first, rounds), rounds);
    vram_share *tensors =
        publish(group, (uint32_t)option(count, arguments, "--tensors", 20000), 0, second);
    int less = rounds > 10 ? 10 : rounds;
    reader_wait(reader_start("/proc/self/exe", "read", second, less), less);
    kill_readers("/proc/self/exe", first, block, option(count, arguments, "--kills", 100));
    must(vram_share_close(block));
    must(vram_share_close(tensors));
    must(vram_context_destroy(context));
    printf("%s\n", failed ? "a goal was missed" : "every goal was reached");
    return failed;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease_bench: two processes take turns with a device that is too small for both, and how long a
 * switch takes: from the request to the first work done by the process that gets the memory.
 *
 *   lease_bench [--switches N] [--weights-mib N] [--cache-mib N] [--parts N] [--capacity-mib N]
 *               [--together 0|1] [--way WAY]
 *
 * Each process has --weights-mib of weights (16384), sealed, and --cache-mib of cache (61440),
 * whose contents may be dropped, each of --parts blocks (16). With --together 1 two threads wake
 * both at the same time. There are --switches (100). Three ways, or the one --way names:
 *
 *   lease       vram/lease.h: the holder drops its cache and releases its weights at a safe point
 *   copy        as sleep modes do it: weights are copied to page-locked memory by one thread and
 *               one stream, all is unmapped and released, then created, mapped and copied back
 *   checkpoint  the driver's process checkpoint (cuCheckpointProcess...), where the driver has it
 *
 * The way lease also says when each step of a switch was reached (lease_steps.h), and with the shim
 * how long the driver took (driver_spent.h).
 *
 * --capacity-mib is what leases share out; without it what one process has, so that a switch moves
 * all of it. Simulated devices of two processes know nothing of each other, so there only the way
 * is shown, not the speed.
 *
 * Goals on an H200: 1000 ms for the first switch, 600 ms for the others; beside its context a
 * process that sleeps holds at most 64 MiB on the device, and in host memory 1.02 times its
 * weights. Exit code 1: contents differ, or a way failed; 2: misuse.
 */
#include "lease_steps.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vram/vmm.h>

enum { PARTS_MAX = 4096, SWITCHES_MAX = 10000 };

#define MIB (UINT64_C(1) << 20)

extern char **environ;

static struct settings {
    uint64_t switches, weights, cache, capacity; /* bytes but for the first */
    uint64_t parts;                              /* blocks of the weights, and of the cache */
    bool together;                               /* both pools wake at the same time */
    const char *way;
} settings = {100, 16384 * MIB, 61440 * MIB, 0, 16, false, NULL};

static void must(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "%s: %s\n", vram_status_name(status), vram_error_get()->text);
        exit(1);
    }
}

/* -------------------------------------------------------------------- a worker */

static struct worker {
    uint32_t pattern; /* of its weights */
    vram_context *context;
    vram_device *device;
    vram_queue *queue;
    vram_lease *lease;             /* way lease, as the pools */
    vram_pool *pools[2];           /* weights, cache */
    vram_physical *memory[2];      /* way copy: the same two, */
    vram_addr base[2];             /* their addresses, */
    vram_addr staging;             /* and page-locked memory for the weights */
    vram_addr parts[2][PARTS_MAX]; /* of both */
    double marks[MARKS];
} worker;

static void worker_open(const char *name) {
    vram_limits limits = {.size = sizeof limits, .fraction = 1, .min_free_bytes = VRAM_LIMIT_NONE};
    uint32_t index;
    worker.pattern = name[0] * 0x01010101u;
    must(vram_context_create(NULL, &worker.context));
    must(vram_device_best(worker.context, &index));
    must(vram_device_open(worker.context, index, &worker.device));
    must(vram_device_limits_set(worker.device, &limits));
    must(vram_queue_create(worker.device, NULL, &worker.queue));
}

/* The device's memory that no context of ours accounts for: the driver's word. */
static uint64_t unaccounted(void) {
    vram_memory_info info = {.size = sizeof info};
    must(vram_memory_info_get(worker.device, &info));
    uint64_t held = info.held_bytes - (worker.staging ? settings.weights : 0); /* host memory */
    uint64_t used = info.total_bytes.value - info.free_bytes.value;
    return info.total_bytes.known && info.free_bytes.known && used > held ? used - held : 0;
}

static uint64_t part_bytes(int kind) {
    return (kind ? settings.cache : settings.weights) / settings.parts;
}

static void weights_fill(void) {
    for (int i = 0; i < (int)settings.parts; i++) {
        must(vram_queue_fill(worker.queue, worker.parts[0][i], worker.pattern + (uint32_t)i, 4,
                             part_bytes(0)));
    }
    must(vram_queue_wait(worker.queue, VRAM_TIMEOUT_DEFAULT));
}

/* The first work after a switch: it writes the cache and reads the weights. */
static void first_work(void) {
    uint32_t word;
    must(vram_queue_fill(worker.queue, worker.parts[1][0], 1, 4, part_bytes(1)));
    must(vram_queue_download(worker.queue, &word, worker.parts[0][settings.parts - 1], 4));
    must(vram_queue_wait(worker.queue, VRAM_TIMEOUT_DEFAULT));
    if (word != worker.pattern + (uint32_t)settings.parts - 1) {
        fprintf(stderr, "the weights differ\n");
        exit(1);
    }
}

/* Every word of the weights. */
static void weights_check(void) {
    uint64_t bytes = part_bytes(0);
    uint32_t *words = malloc(bytes);
    for (int i = 0; words && i < (int)settings.parts; i++) {
        must(vram_queue_download(worker.queue, words, worker.parts[0][i], bytes));
        must(vram_queue_wait(worker.queue, VRAM_TIMEOUT_DEFAULT));
        for (uint64_t n = 0; n < bytes / 4; n++) {
            if (words[n] != worker.pattern + (uint32_t)i) {
                fprintf(stderr, "word %llu of part %d of the weights differs\n",
                        (unsigned long long)n, i);
                exit(1);
            }
        }
    }
    free(words);
}

/* ------------------------------------------------------------------- way: lease */

static void lease_make(const char *name) {
    vram_sleep_options drop = {.size = sizeof drop},
                       keep = {.size = sizeof keep, .contents = VRAM_SLEEP_HOST};
    uint64_t whole = settings.weights + settings.cache + 32 * MIB; /* with what pools round up */
    vram_lease_options options = {.size = sizeof options,
                                  .want_bytes = whole,
                                  .capacity_bytes = settings.capacity ? settings.capacity : whole,
                                  .timeout_ns = UINT64_C(60000000000),
                                  .name = name};
    vram_device_info info = {.size = sizeof info};
    uint32_t index;
    must(vram_device_best(worker.context, &index));
    must(vram_device_info_get(worker.context, index, &info));
    if (info.memory_bytes.known && options.want_bytes > info.memory_bytes.value) {
        options.want_bytes = info.memory_bytes.value;
    }
    must(vram_lease_open(worker.device, &options, &worker.lease));
    for (int kind = 0; kind < 2; kind++) {
        must(vram_pool_create(worker.device, NULL, &worker.pools[kind]));
        for (int i = 0; i < (int)settings.parts; i++) {
            must(vram_alloc(worker.pools[kind], part_bytes(kind), worker.queue,
                            &worker.parts[kind][i]));
        }
    }
    weights_fill();
    must(vram_pool_seal(worker.pools[0], NULL));
    must(vram_lease_pool_add(worker.lease, worker.pools[1], &drop));
    must(vram_lease_pool_add(worker.lease, worker.pools[0], &keep));
}

static void *pool_wake(void *argument) {
    int kind = *(const int *)argument;
    vram_pool_stats stats = {.size = sizeof stats};
    must(vram_pool_stats_get(worker.pools[kind], &stats));
    if (stats.asleep_bytes) {
        must(vram_pool_wake(worker.pools[kind], NULL));
    }
    worker.marks[MARK_WEIGHTS + kind] = lease_now_ms();
    return NULL;
}

/* Pools that sleep are woken, weights first, or both together. */
static void lease_wake(void) {
    static int kinds[] = {0, 1};
    pthread_t thread;
    bool beside = settings.together && pthread_create(&thread, NULL, pool_wake, &kinds[1]) == 0;
    pool_wake(&kinds[0]);
    if (beside) {
        pthread_join(thread, NULL);
    } else {
        pool_wake(&kinds[1]);
    }
}

/* -------------------------------------------------------------------- way: copy */

static void copy_map(void) {
    for (int kind = 0; kind < 2; kind++) {
        must(vram_physical_create(worker.device, part_bytes(kind) * settings.parts,
                                  &worker.memory[kind]));
        must(vram_range_map(worker.device, worker.base[kind], &worker.memory[kind], 1));
    }
}

static void copy_make(void) {
    must(vram_device_alloc(worker.device, settings.weights, VRAM_MEMORY_PINNED, &worker.staging));
    for (int kind = 0; kind < 2; kind++) {
        must(vram_range_create(worker.device, part_bytes(kind) * settings.parts,
                               &worker.base[kind]));
        for (int i = 0; i < (int)settings.parts; i++) {
            worker.parts[kind][i] = worker.base[kind] + (uint64_t)i * part_bytes(kind);
        }
    }
    copy_map();
    weights_fill();
}

static void copy_sleep(void) {
    void *staging = (void *)(uintptr_t)worker.staging;
    must(vram_queue_download(worker.queue, staging, worker.base[0], settings.weights));
    must(vram_queue_wait(worker.queue, VRAM_TIMEOUT_DEFAULT));
    for (int kind = 0; kind < 2; kind++) {
        must(vram_range_unmap(worker.device, worker.base[kind], part_bytes(kind) * settings.parts));
        must(vram_physical_destroy(worker.memory[kind]));
    }
}

static void copy_wake(void) {
    copy_map();
    must(vram_queue_upload(worker.queue, worker.base[0], (void *)(uintptr_t)worker.staging,
                           settings.weights));
}

/* -------------------------------------------------------------------- commands */

/* Resident host memory of this process. */
static uint64_t resident(void) {
    unsigned long long pages = 0, all = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file) {
        (void)!fscanf(file, "%llu %llu", &all, &pages);
        fclose(file);
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void command_take(char command, const char *name) {
    double begin = lease_now_ms();
    uint64_t answer = 0;
    bool leased = strcmp(settings.way, "lease") == 0;
    if (command == 'b') { /* the breakdown */
        lease_marks_write(worker.marks, worker.pools, stdout);
        return;
    }
    switch (command) {
    case 'm': /* make */
        if (leased) {
            lease_make(name);
        } else {
            copy_make();
        }
        first_work();
        break;
    case 's': /* sleep */
        copy_sleep();
        break;
    case 'w': /* wake, and the first work */
        if (leased) {
            lease_wake();
        } else {
            copy_wake();
        }
        first_work();
        worker.marks[MARK_WORK] = lease_now_ms();
        break;
    case 'f': /* first work: the driver has brought the rest back */
        first_work();
        break;
    case 'c': /* check */
        weights_check();
        break;
    case 'u':
        answer = unaccounted();
        break;
    case 'r':
        answer = resident();
        break;
    default:
        break;
    }
    printf("%.3f %llu\n", lease_now_ms() - begin, (unsigned long long)answer);
    fflush(stdout);
}

static void point_reach(void) {
    uint64_t given = 0;
    double begin = lease_now_ms();
    must(vram_lease_point(worker.lease, &given));
    if (given) {
        lease_marks_point(worker.marks, begin);
    }
}

/* Between two commands the worker is at a safe point. */
static int work(const char *name) {
    struct pollfd input = {.fd = 0, .events = POLLIN};
    char command;
    worker_open(name);
    for (;;) {
        if (worker.lease) {
            point_reach();
        }
        if (poll(&input, 1, worker.lease ? 0 : -1) == 0) {
            usleep(100);
        } else if (read(0, &command, 1) != 1) {
            break;
        } else if (command != '\n') {
            command_take(command, name);
        }
    }
    return vram_context_destroy(worker.context) == VRAM_OK ? 0 : 1;
}

/* ------------------------------------------------------------------ the parent */

struct child {
    pid_t pid;
    int to;
    FILE *from;
};

static void child_start(struct child *child, const char *name, int count, char **words) {
    int in[2], out[2];
    posix_spawn_file_actions_t actions;
    char **list = calloc((size_t)count + 3, sizeof *list);
    if (!list || pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) {
        exit(1);
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    memcpy(list, words, (size_t)count * sizeof *list);
    list[count] = "--worker";
    list[count + 1] = (char *)(uintptr_t)name;
    setenv("LEASE_BENCH_WAY", settings.way, 1);
    if (posix_spawn(&child->pid, "/proc/self/exe", &actions, NULL, list, environ) != 0) {
        exit(1);
    }
    posix_spawn_file_actions_destroy(&actions);
    free(list);
    close(in[0]);
    close(out[1]);
    child->to = in[1];
    child->from = fdopen(out[0], "r");
}

/* Sends a command; its time in ms, and its number. A worker that has failed ends the run. */
static double child_ask(struct child *child, char command, uint64_t *number) {
    double ms = -1;
    unsigned long long answer = 0;
    if (write(child->to, &command, 1) != 1 || fscanf(child->from, "%lf %llu", &ms, &answer) != 2) {
        fprintf(stderr, "%s: a worker has failed\n", settings.way);
        exit(1);
    }
    if (number) {
        *number = answer;
    }
    return ms;
}

/* Takes the marks of both sides of a switch, if the way has any; lease_steps_take says the rest. */
static void steps_take(int at, double request, struct child *from, struct child *to) {
    if (strcmp(settings.way, "lease") == 0 &&
        (write(from->to, "b", 1) != 1 || write(to->to, "b", 1) != 1 ||
         !lease_steps_take(at, request, from->from, to->from))) {
        fprintf(stderr, "%s: a worker has failed\n", settings.way);
        exit(1);
    }
}

static bool child_end(struct child *child) {
    int status = 1;
    close(child->to);
    waitpid(child->pid, &status, 0);
    fclose(child->from);
    return status == 0;
}

/* ----------------------------------------------------------------- checkpoints */

typedef int checkpoint_fn(int pid, void *options);

static struct { checkpoint_fn *lock, *checkpoint, *restore, *unlock; } driver;

/* Whether the driver has them; a reason otherwise. */
static const char *driver_find(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    int (*init)(unsigned);
    if (!library) {
        return "no CUDA driver";
    }
    *(void **)&init = dlsym(library, "cuInit");
    *(void **)&driver.lock = dlsym(library, "cuCheckpointProcessLock");
    *(void **)&driver.checkpoint = dlsym(library, "cuCheckpointProcessCheckpoint");
    *(void **)&driver.restore = dlsym(library, "cuCheckpointProcessRestore");
    *(void **)&driver.unlock = dlsym(library, "cuCheckpointProcessUnlock");
    if (!driver.lock || !driver.checkpoint || !driver.restore || !driver.unlock) {
        return "this driver has no process checkpoint";
    }
    return init && init(0) == 0 ? NULL : "the driver does not start";
}

static void driver_must(int code, const char *call) {
    if (code != 0) {
        fprintf(stderr, "%s: %d\n", call, code);
        exit(1);
    }
}

static void checkpoint_take(struct child *child) {
    driver_must(driver.lock((int)child->pid, NULL), "cuCheckpointProcessLock");
    driver_must(driver.checkpoint((int)child->pid, NULL), "cuCheckpointProcessCheckpoint");
}

static void checkpoint_restore(struct child *child) {
    driver_must(driver.restore((int)child->pid, NULL), "cuCheckpointProcessRestore");
    driver_must(driver.unlock((int)child->pid, NULL), "cuCheckpointProcessUnlock");
}

/* --------------------------------------------------------------------- switches */

/* Gives the memory of `from` to `to`; ms from the request to the first work. */
static double switch_once(struct child *from, struct child *to) {
    double begin = lease_now_ms();
    if (strcmp(settings.way, "lease") == 0) {
        child_ask(to, 'w', NULL);
    } else if (strcmp(settings.way, "copy") == 0) {
        child_ask(from, 's', NULL);
        child_ask(to, 'w', NULL);
    } else {
        checkpoint_take(from);
        checkpoint_restore(to);
        child_ask(to, 'f', NULL);
    }
    return lease_now_ms() - begin;
}

static int compare_ms(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

/* Both have made their memory, and the second is awake. */
static void both_make(struct child children[2]) {
    child_ask(&children[0], 'm', NULL);
    if (strcmp(settings.way, "copy") == 0) {
        child_ask(&children[0], 's', NULL);
    } else if (strcmp(settings.way, "checkpoint") == 0) {
        checkpoint_take(&children[0]);
    }
    child_ask(&children[1], 'm', NULL);
}

static bool way_run(int count, char **words) {
    static double ms[SWITCHES_MAX];
    struct child children[2];
    uint64_t before, held = 0, host_before = 0, host = 0;
    child_start(&children[0], "trainer", count, words);
    child_start(&children[1], "server", count, words);
    child_ask(&children[0], 'u', NULL);
    child_ask(&children[1], 'u', &before); /* both have their contexts */
    child_ask(&children[0], 'r', &host_before);
    both_make(children);
    steps_take(-1, 0, &children[0], &children[1]);
    for (uint64_t i = 0; i < settings.switches; i++) {
        struct child *from = &children[(i + 1) % 2], *to = &children[i % 2];
        double request = lease_now_ms();
        ms[i] = switch_once(from, to);
        steps_take((int)i, request, from, to);
    }
    struct child *awake = &children[(settings.switches + 1) % 2];
    struct child *asleep = &children[settings.switches % 2];
    child_ask(awake, 'u', &held);
    if (strcmp(settings.way, "checkpoint") != 0) {
        child_ask(asleep, 'r', &host);
    }
    child_ask(awake, 'c', NULL);
    (void)switch_once(awake, asleep);
    child_ask(asleep, 'c', NULL);
    if (strcmp(settings.way, "checkpoint") == 0) {
        checkpoint_restore(awake);
    }
    double first = ms[0];
    qsort(ms + 1, settings.switches - 1, sizeof ms[0], compare_ms);
    double median = ms[1 + (settings.switches - 1) / 2], worst = ms[settings.switches - 1];
    printf("%-10s  first %8.1f ms  median %8.1f ms  worst %8.1f ms  asleep on the device %6.1f "
           "MiB  in host memory %.3f of the weights  contents equal\n",
           settings.way, first, median, worst,
           held > before ? (double)(held - before) / (double)MIB : 0.0,
           host > host_before ? (double)(host - host_before) / (double)settings.weights : 0.0);
    if (strcmp(settings.way, "lease") == 0) {
        lease_steps_print(settings.way, (int)settings.switches);
    }
    fflush(stdout);
    bool first_ended = child_end(&children[0]), second_ended = child_end(&children[1]);
    return first_ended && second_ended;
}

static int misused(const char *word) {
    fprintf(stderr,
            "lease_bench: what is \"%s\"? usage: lease_bench [--switches N] [--weights-mib N] "
            "[--cache-mib N] [--parts N] [--capacity-mib N] [--together 0|1] [--way WAY]\n",
            word);
    return 2;
}

int main(int count, char **words) {
    static const char *const ways[] = {"lease", "copy", "checkpoint"};
    const char *name = NULL, *only = NULL;
    bool good = true;
    for (int i = 1; i < count; i += 2) {
        uint64_t number = i + 1 < count ? strtoull(words[i + 1], NULL, 10) : 0;
        if (i + 1 == count) {
            return misused(words[i]);
        }
        if (strcmp(words[i], "--switches") == 0) {
            settings.switches = number < 2 ? 2 : number < SWITCHES_MAX ? number : SWITCHES_MAX;
        } else if (strcmp(words[i], "--weights-mib") == 0) {
            settings.weights = number * MIB;
        } else if (strcmp(words[i], "--cache-mib") == 0) {
            settings.cache = number * MIB;
        } else if (strcmp(words[i], "--capacity-mib") == 0) {
            settings.capacity = number * MIB;
        } else if (strcmp(words[i], "--parts") == 0) {
            settings.parts = number < 1 ? 1 : number < PARTS_MAX ? number : PARTS_MAX;
        } else if (strcmp(words[i], "--together") == 0) {
            settings.together = number;
        } else if (strcmp(words[i], "--way") == 0) {
            only = words[i + 1];
        } else if (strcmp(words[i], "--worker") == 0) {
            name = words[i + 1];
        } else {
            return misused(words[i]);
        }
    }
    if (name) {
        settings.way = getenv("LEASE_BENCH_WAY");
        return work(name);
    }
    printf(
        "two processes, %.0f MiB of weights and %.0f MiB of cache each, %llu switches, woken %s\n",
        (double)settings.weights / (double)MIB, (double)settings.cache / (double)MIB,
        (unsigned long long)settings.switches,
        settings.together ? "together" : "one after the other");
    for (int i = 0; i < 3; i++) {
        const char *why = i == 2 ? driver_find() : NULL;
        settings.way = ways[i];
        if (only && strcmp(only, ways[i]) != 0) {
            continue;
        }
        if (why) {
            printf("%-10s  left out: %s\n", ways[i], why);
        } else {
            good = way_run(count, words) && good;
        }
    }
    return good ? 0 : 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_program.c: the program that the tests of `vram run` run: it uses CUDA as nvcc's programs do.
 *
 * Built twice: with RUN_LINKED it is linked with the driver; without, it finds the driver as a
 * static cudart does: dlopen, dlsym of cuGetProcAddress_v2, and everything else by that.
 *
 *   run_program STEP...   each step is one of those in `steps` below, in this order
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef unsigned long long device_addr;

struct prop {
    int type, handle_types, location_type, location_id;
    void *meta;
    unsigned char flags[8];
};

#define FUNCTIONS(X)                                                                               \
    X(cuInit, cuInit, (unsigned))                                                                  \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (void **, int))                          \
    X(cuCtxSetCurrent, cuCtxSetCurrent, (void *))                                                  \
    X(cuMemAlloc, cuMemAlloc_v2, (device_addr *, size_t))                                          \
    X(cuMemFree, cuMemFree_v2, (device_addr))                                                      \
    X(cuMemAllocPitch, cuMemAllocPitch_v2, (device_addr *, size_t *, size_t, size_t, unsigned))    \
    X(cuMemAllocManaged, cuMemAllocManaged, (device_addr *, size_t, unsigned))                     \
    X(cuMemAllocAsync, cuMemAllocAsync, (device_addr *, size_t, void *))                           \
    X(cuMemFreeAsync, cuMemFreeAsync, (device_addr, void *))                                       \
    X(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, (device_addr *, size_t, void *, void *))   \
    X(cuMemPoolCreate, cuMemPoolCreate, (void **, const void *))                                   \
    X(cuMemPoolDestroy, cuMemPoolDestroy, (void *))                                                \
    X(cuMemPoolTrimTo, cuMemPoolTrimTo, (void *, size_t))                                          \
    X(cuMemPoolGetAttribute, cuMemPoolGetAttribute, (void *, int, void *))                         \
    X(cuMemPoolSetAttribute, cuMemPoolSetAttribute, (void *, int, void *))                         \
    X(cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, (void **, int))                        \
    X(cuMemHostAlloc, cuMemHostAlloc, (void **, size_t, unsigned))                                 \
    X(cuMemFreeHost, cuMemFreeHost, (void *))                                                      \
    X(cuMemHostRegister, cuMemHostRegister_v2, (void *, size_t, unsigned))                         \
    X(cuMemHostUnregister, cuMemHostUnregister, (void *))                                          \
    X(cuMemCreate, cuMemCreate, (unsigned long long *, size_t, const void *, unsigned long long))  \
    X(cuMemRelease, cuMemRelease, (unsigned long long))                                            \
    X(cuMemAddressReserve, cuMemAddressReserve,                                                    \
      (device_addr *, size_t, size_t, device_addr, unsigned long long))                            \
    X(cuMemAddressFree, cuMemAddressFree, (device_addr, size_t))                                   \
    X(cuMemMap, cuMemMap, (device_addr, size_t, size_t, unsigned long long, unsigned long long))   \
    X(cuMemUnmap, cuMemUnmap, (device_addr, size_t))                                               \
    X(cuMemGetInfo, cuMemGetInfo_v2, (size_t *, size_t *))                                         \
    X(cuDeviceTotalMem, cuDeviceTotalMem_v2, (size_t *, int))                                      \
    X(cuArrayCreate, cuArrayCreate_v2, (void **, const void *))                                    \
    X(cuArrayDestroy, cuArrayDestroy, (void *))                                                    \
    X(cuStreamCreate, cuStreamCreate, (void **, unsigned))                                         \
    X(cuStreamDestroy, cuStreamDestroy_v2, (void *))

#define FIELD(name, symbol, parameters) int(*name) parameters;
static struct { FUNCTIONS(FIELD) } cuda;

#ifdef RUN_LINKED
#define DECLARE(name, symbol, parameters) int symbol parameters;
FUNCTIONS(DECLARE)
static void driver_find(void) {
#define TAKE(name, symbol, parameters) cuda.name = symbol;
    FUNCTIONS(TAKE)
}
#else
typedef int get_fn(const char *name, void **entry, int version, unsigned long long flags,
                   int *result);

static void function_find(get_fn *get, const char *name, void *to) {
    void *entry = NULL;
    int result;
    const char *version = getenv("RUN_VERSION");
    if (get(name, &entry, version ? atoi(version) : 12080, 0, &result) != 0) {
        fprintf(stderr, "the driver has no %s\n", name);
        exit(3);
    }
    memcpy(to, &entry, sizeof entry);
}

static void driver_find(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *found;
    get_fn *get;
    found = library ? dlsym(library, "cuGetProcAddress_v2") : NULL;
    if (!found) {
        fprintf(stderr, "no driver: %s\n", dlerror());
        exit(3);
    }
    memcpy(&get, &found, sizeof get);
    /* A runtime asks for cuGetProcAddress by itself once more. */
    int result;
    if (get("cuGetProcAddress", &found, 12080, 0, &result) == 0) {
        memcpy(&get, &found, sizeof get);
    }
#define TAKE(name, symbol, parameters) function_find(get, #name, &cuda.name);
    FUNCTIONS(TAKE)
}
#endif

#define MIB ((size_t)1 << 20)

static int failures;
static void check(int good, const char *what) {
    if (!good) {
        printf("failed: %s\n", what);
        failures++;
    }
}
#define CHECK(condition) check(condition, #condition)

static void context_use(void) {
    void *context;
    CHECK(cuda.cuInit(0) == 0);
    CHECK(cuda.cuDevicePrimaryCtxRetain(&context, 0) == 0);
    CHECK(cuda.cuCtxSetCurrent(context) == 0);
}

/* Named, so that a stack shows it. */
__attribute__((noinline)) static void leak_three(void) {
    for (size_t i = 1; i <= 3; i++) {
        device_addr addr;
        CHECK(cuda.cuMemAlloc(&addr, i * MIB) == 0);
        __asm__ volatile("");
    }
}

/* All kinds, freed again. */
static void step_kinds(void) {
    const struct {
        size_t width, height;
        int format;
        unsigned channels;
    } shape = {64, 64, 0x20, 4};
    device_addr addr, pitched, managed, ordered;
    void *host, *own = NULL, *array;
    size_t pitch;
    CHECK(cuda.cuMemAlloc(&addr, 8 * MIB) == 0);
    CHECK(cuda.cuMemAllocPitch(&pitched, &pitch, 1000, 100, 4) == 0 && pitch >= 1000);
    CHECK(cuda.cuMemAllocManaged(&managed, MIB, 1) == 0);
    CHECK(cuda.cuMemAllocAsync(&ordered, 2 * MIB, NULL) == 0);
    CHECK(cuda.cuMemHostAlloc(&host, MIB, 0) == 0);
    CHECK(posix_memalign(&own, 4096, MIB) == 0 && cuda.cuMemHostRegister(own, MIB, 0) == 0);
    CHECK(cuda.cuArrayCreate(&array, &shape) == 0);
    CHECK(cuda.cuArrayDestroy(array) == 0);
    CHECK(cuda.cuMemHostUnregister(own) == 0);
    free(own);
    CHECK(cuda.cuMemFreeHost(host) == 0);
    CHECK(cuda.cuMemFreeAsync(ordered, NULL) == 0);
    CHECK(cuda.cuMemFree(managed) == 0);
    CHECK(cuda.cuMemFree(pitched) == 0);
    CHECK(cuda.cuMemFree(addr) == 0);
    CHECK(cuda.cuMemFree(addr) != 0); /* twice: the driver refuses, the recorder counts */
}

/* The handle is released while it is mapped: the memory goes with the mapping. */
static void step_virtual(void) {
    struct prop prop = {.type = 1, .location_type = 1};
    unsigned long long handle;
    device_addr range;
    CHECK(cuda.cuMemCreate(&handle, 2 * MIB, &prop, 0) == 0);
    CHECK(cuda.cuMemAddressReserve(&range, 2 * MIB, 0, 0, 0) == 0);
    CHECK(cuda.cuMemMap(range, 2 * MIB, 0, handle, 0) == 0);
    CHECK(cuda.cuMemUnmap(range, 2 * MIB) == 0);
    CHECK(cuda.cuMemRelease(handle) == 0);
    CHECK(cuda.cuMemAddressFree(range, 2 * MIB) == 0);
}

static void step_leak(void) {
    leak_three();
}

/* With a limit of 8 MiB on a device of 4 GiB. */
static void step_limit(void) {
    size_t free_bytes, total, nothing;
    device_addr addr, more;
    CHECK(cuda.cuMemGetInfo(&free_bytes, &total) == 0);
    CHECK(total == 8 * MIB && free_bytes <= total);
    CHECK(cuda.cuDeviceTotalMem(&total, 0) == 0 && total == 8 * MIB);
    CHECK(cuda.cuMemAlloc(&addr, 6 * MIB) == 0);
    CHECK(cuda.cuMemGetInfo(&nothing, &total) == 0 && nothing <= 2 * MIB && total == 8 * MIB);
    CHECK(cuda.cuMemAlloc(&more, 6 * MIB) == 2);
    CHECK(cuda.cuMemAllocAsync(&more, 6 * MIB, NULL) == 2);
    CHECK(cuda.cuMemAllocManaged(&more, (size_t)-1, 1) == 2);
    CHECK(cuda.cuMemFree(addr) == 0);
    CHECK(cuda.cuMemAlloc(&more, 7 * MIB) == 0);
    CHECK(cuda.cuMemFree(more) == 0);
}

/* For --tree with 8 MiB: a child has 6, so the parent gets no 6 until the child was killed. */
static void step_tree(void) {
    int ready[2];
    char byte;
    CHECK(pipe(ready) == 0);
    pid_t child = fork();
    if (child == 0) {
        device_addr addr;
        context_use();
        byte = cuda.cuMemAlloc(&addr, 6 * MIB) == 0 ? 'y' : 'n';
        CHECK(write(ready[1], &byte, 1) == 1);
        for (;;) {
            pause();
        }
    }
    CHECK(read(ready[0], &byte, 1) == 1 && byte == 'y');
    context_use();
    device_addr addr;
    CHECK(cuda.cuMemAlloc(&addr, 6 * MIB) == 2);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    CHECK(cuda.cuMemAlloc(&addr, 6 * MIB) == 0);
    CHECK(cuda.cuMemFree(addr) == 0);
}

static void step_use(void) {
    context_use();
}

/* A child that uses the device, and one that starts another program. */
static void step_fork(void) {
    pid_t child = fork();
    if (child == 0) {
        device_addr addr;
        context_use();
        CHECK(cuda.cuMemAlloc(&addr, 5 * MIB) == 0);
        exit(failures);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* A thread that still allocates while main returns. */
static void *thread_run(void *unused) {
    context_use();
    for (;;) {
        device_addr addr;
        if (cuda.cuMemAlloc(&addr, MIB) != 0 || cuda.cuMemFree(addr) != 0) {
            return unused;
        }
    }
}

static void step_thread(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, thread_run, NULL) == 0);
    pthread_detach(thread);
    usleep(50000);
}

static void *small_run(void *context) {
    device_addr addr;
    CHECK(cuda.cuCtxSetCurrent(context) == 0);
    CHECK(cuda.cuMemAlloc(&addr, MIB) == 0);
    CHECK(cuda.cuMemFree(addr) == 0);
    return NULL;
}

/* On the smallest stack that a thread may have, which the driver itself does with. */
static void step_small(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    void *context;
    CHECK(cuda.cuDevicePrimaryCtxRetain(&context, 0) == 0);
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN)) == 0);
    CHECK(pthread_create(&thread, &attributes, small_run, context) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void step_kill(void) {
    leak_three();
    kill(getpid(), SIGKILL);
}

/* Says that it is ready, then waits for a line. */
static void step_wait(void) {
    char line[16];
    printf("ready\n");
    fflush(stdout);
    CHECK(fgets(line, sizeof line, stdin) != NULL);
}

/* Prints the CPU time of a pair in ns. */
static void step_pairs(void) {
    enum { PAIRS = 5000 };
    struct timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    for (int i = 0; i < PAIRS; i++) {
        device_addr addr;
        CHECK(cuda.cuMemAlloc(&addr, MIB) == 0);
        CHECK(cuda.cuMemFree(addr) == 0);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    printf("%.0f\n",
           ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / PAIRS);
}

static void *pairs_run(void *unused) {
    context_use();
    for (int i = 0; i < 200; i++) {
        device_addr addr;
        CHECK(cuda.cuMemAlloc(&addr, MIB) == 0);
        CHECK(cuda.cuMemFree(addr) == 0);
    }
    return unused;
}

static void step_threads(void) {
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) {
        CHECK(pthread_create(&threads[i], NULL, pairs_run, NULL) == 0);
    }
    for (int i = 0; i < 8; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
}

static void step_forever(void) {
    thread_run(NULL);
}

/* Stream-ordered memory as --serve has it: reuse, the program's own pool, trims, attributes. */
static void step_serve(void) {
    enum { RESERVED = 5, USED = 7, THRESHOLD = 4 };
    struct prop props = {.type = 1, .location_type = 1};
    void *stream, *pool, *standard;
    device_addr one, two, three;
    unsigned long long used = 0, reserved = 0, keep = 1 << 30;
    CHECK(cuda.cuStreamCreate(&stream, 1) == 0);
    CHECK(cuda.cuDeviceGetDefaultMemPool(&standard, 0) == 0);
    CHECK(cuda.cuMemPoolSetAttribute(standard, THRESHOLD, &keep) == 0);
    CHECK(cuda.cuMemAllocAsync(&one, MIB, stream) == 0);
    CHECK(cuda.cuMemAllocAsync(&two, 3 * MIB, stream) == 0);
    CHECK(one != two);
    CHECK(cuda.cuMemPoolGetAttribute(standard, USED, &used) == 0);
    CHECK(cuda.cuMemPoolGetAttribute(standard, RESERVED, &reserved) == 0);
    printf("used %llu reserved %llu\n", used, reserved);
    /* CuPy's pool sets its limit so before it allocates, and asks for it later. */
    CHECK(cuda.cuMemPoolGetAttribute(standard, THRESHOLD, &used) == 0 && used == keep);
    CHECK(cuda.cuMemFreeAsync(one, stream) == 0);
    CHECK(cuda.cuMemAllocAsync(&three, MIB, stream) == 0);
    printf("%s\n", three == one ? "reused" : "another");
    CHECK(cuda.cuMemFree(three) == 0); /* as CUDA allows */
    CHECK(cuda.cuMemFreeAsync(two, stream) == 0);
    CHECK(cuda.cuMemPoolCreate(&pool, &props) == 0);
    CHECK(cuda.cuMemAllocFromPoolAsync(&one, MIB, pool, stream) == 0);
    CHECK(cuda.cuMemFreeAsync(one, stream) == 0);
    CHECK(cuda.cuMemPoolTrimTo(standard, 0) == 0);
    CHECK(cuda.cuStreamDestroy(stream) == 0);
    CHECK(cuda.cuMemPoolDestroy(pool) == 0);
    CHECK(cuda.cuMemAlloc(&one, MIB) == 0 && cuda.cuMemFree(one) == 0);
}

#define PER_THREAD ((void *)2)

/* Allocates on its own default stream, and frees there what another thread allocated on its own. */
static void *exchange_run(void *memory) {
    device_addr *two = memory, one = *two;
    context_use();
    CHECK(cuda.cuMemAllocAsync(two, MIB, PER_THREAD) == 0);
    CHECK(*two != one);
    CHECK(cuda.cuMemFreeAsync(one, PER_THREAD) == 0);
    return NULL;
}

static void step_default(void) {
    enum { USED = 7, THREADS = 8 };
    void *standard;
    unsigned long long used = 0;
    pthread_t thread;
    device_addr block;
    CHECK(cuda.cuDeviceGetDefaultMemPool(&standard, 0) == 0);
    CHECK(cuda.cuMemAllocAsync(&block, MIB, PER_THREAD) == 0);
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&thread, NULL, exchange_run, &block) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    CHECK(cuda.cuMemPoolGetAttribute(standard, USED, &used) == 0);
    printf("used %llu\n", used);
    CHECK(cuda.cuMemFreeAsync(block, PER_THREAD) == 0);
}

/* Takes all that there is, frees it, and takes some of it again. */
static void step_refill(void) {
    enum { MANY = 256, EACH = 2 };
    device_addr blocks[MANY], again;
    int count = 0;
    while (count < MANY && cuda.cuMemAllocAsync(&blocks[count], EACH * MIB, NULL) == 0) {
        count++;
    }
    for (int i = 0; i < count; i++) {
        CHECK(cuda.cuMemFreeAsync(blocks[i], NULL) == 0);
    }
    CHECK(count > 0 && count < MANY);
    CHECK(cuda.cuMemAllocAsync(&again, EACH * MIB, NULL) == 0);
    CHECK(cuda.cuMemFreeAsync(again, NULL) == 0);
    printf("took %d MiB\n", count * EACH);
}

static const struct {
    const char *name;
    void (*run)(void);
} steps[] = {
    {"use", step_use},         {"kinds", step_kinds},     {"virtual", step_virtual},
    {"leak", step_leak},       {"limit", step_limit},     {"tree", step_tree},
    {"fork", step_fork},       {"thread", step_thread},   {"kill", step_kill},
    {"wait", step_wait},       {"pairs", step_pairs},     {"serve", step_serve},
    {"threads", step_threads}, {"forever", step_forever}, {"refill", step_refill},
    {"default", step_default}, {"small", step_small},
};

#ifndef RUN_LINKED
int layer_main(int count, char **words);
int bugs_main(int count, char **words);
#endif

int main(int count, char **words) {
#ifndef RUN_LINKED
    if (count > 1 && strcmp(words[1], "layers") == 0) {
        return layer_main(count - 1, words + 1);
    }
    if (count > 1 && strcmp(words[1], "bugs") == 0) {
        return bugs_main(count - 1, words + 1);
    }
#endif
    driver_find();
    for (int i = 1; i < count; i++) {
        size_t at = 0;
        while (at < sizeof steps / sizeof steps[0] && strcmp(steps[at].name, words[i]) != 0) {
            at++;
        }
        if (at == sizeof steps / sizeof steps[0]) {
            return words[i][0] == '=' ? atoi(words[i] + 1) : 4;
        }
        steps[at].run();
    }
    return failures ? 5 : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_reset: what becomes of libvram when the program resets the device under it, as
 * cudaDeviceReset and numba.cuda.close() do. The reset is of this process's context, not of the
 * GPU.
 *
 * Each case is a process of its own: with a queue of the library's and with the default stream,
 * with a context that something else in the program has created again since, and with each call
 * that needs the device as the first after the reset. Frees and ends must succeed or say that the
 * device is lost, everything else must say so, nothing may crash, and the device can be opened
 * again, as what the process shares is by itself. VRAM_CUDA_LIBRARY names another driver than the
 * system's.
 */
#include "vram/vram.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

static int failures;

static void must(vram_status status, const char *what) {
    if (status != VRAM_OK) {
        printf("  FAILED: %s returned %s: %s\n", what, vram_status_name(status),
               vram_error_get()->text);
        exit(1);
    }
}

static void expect(bool good, const char *what, vram_status status) {
    if (!good) {
        printf("  FAILED: %s returned %s: %s\n", what, vram_status_name(status),
               vram_error_get()->text);
        failures++;
    }
}

#define LOST(call)                                                                                 \
    do {                                                                                           \
        vram_status found = (call);                                                                \
        expect(found == VRAM_ERR_DEVICE_LOST, #call, found);                                       \
    } while (0)
#define ENDS(call)                                                                                 \
    do {                                                                                           \
        vram_status found = (call);                                                                \
        expect(found == VRAM_OK || found == VRAM_ERR_DEVICE_LOST, #call, found);                   \
    } while (0)

typedef int reset_fn(int device);
typedef int retain_fn(void **context, int device);

static void device_reset(bool used_again) {
    const char *library = getenv("VRAM_CUDA_LIBRARY");
    void *context, *driver = dlopen(library && *library ? library : "libcuda.so.1", RTLD_NOW);
    __extension__ reset_fn *reset =
        driver ? (reset_fn *)dlsym(driver, "cuDevicePrimaryCtxReset_v2") : NULL;
    __extension__ retain_fn *retain =
        driver ? (retain_fn *)dlsym(driver, "cuDevicePrimaryCtxRetain") : NULL;
    int code = reset && retain ? reset(0) : -1;
    if (code == 0 && used_again) {
        code = retain(&context, 0);
    }
    if (code != 0) {
        printf("  FAILED: the driver refuses the reset: %d\n", code);
        exit(1);
    }
}

static void round_trip(vram_device *device) {
    vram_queue *queue;
    vram_pool *pool;
    vram_addr addr;
    char sent[] = "hello", received[sizeof sent] = "";
    must(vram_queue_create(device, NULL, &queue), "vram_queue_create");
    must(vram_pool_create(device, NULL, &pool), "vram_pool_create");
    must(vram_alloc(pool, MIB, queue, &addr), "vram_alloc");
    must(vram_queue_upload(queue, addr, sent, sizeof sent), "vram_queue_upload");
    must(vram_queue_download(queue, received, addr, sizeof sent), "vram_queue_download");
    must(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT), "vram_queue_wait");
    expect(strcmp(sent, received) == 0, "a round trip after the reset", VRAM_OK);
    must(vram_free(addr, queue), "vram_free");
    must(vram_pool_destroy(pool), "vram_pool_destroy");
    must(vram_queue_destroy(queue), "vram_queue_destroy");
}

enum { FIRST_CALLS = 8, BYTES = 4 << 20 };

static char bytes[BYTES];

/* Calls that need the device, beginning with the `first`, which is the one that meets the reset. */
static void all_refused(vram_pool *pool, vram_queue *queue, vram_addr addr, int first) {
    vram_addr none;
    for (int i = first; i < first + FIRST_CALLS; i++) {
        switch (i % FIRST_CALLS) {
        case 0:
            LOST(vram_queue_fill(queue, addr, 0, 4, BYTES));
            break;
        case 1:
            LOST(vram_alloc(pool, 200 * MIB, queue, &none));
            break;
        case 2:
            LOST(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
            break;
        case 3:
            LOST(vram_queue_upload(queue, addr, bytes, BYTES));
            break;
        case 4:
            LOST(vram_queue_download(queue, bytes, addr, BYTES));
            break;
        case 5:
            LOST(vram_transfer_upload(queue, addr, bytes, BYTES, NULL, NULL));
            break;
        case 6:
            LOST(vram_transfer_download(queue, bytes, addr, BYTES, NULL, NULL));
            break;
        default:
            LOST(vram_pool_sleep(pool, NULL));
        }
    }
}

/* What the process shares is created anew once the loss is known. */
static void shared_again(vram_device *before) {
    vram_memory_info memory = {.size = sizeof memory};
    vram_device *device;
    vram_pool *pool;
    vram_addr addr;
    must(vram_memory_info_get(before, &memory), "vram_memory_info_get");
    expect(memory.lost, "vram_memory_info_get: not lost", VRAM_OK);
    must(vram_device_shared("cuda", 0, &device), "vram_device_shared, after the reset");
    expect(device != before, "vram_device_shared: the lost device", VRAM_OK);
    round_trip(device);
    must(vram_pool_shared(device, &pool), "vram_pool_shared, after the reset");
    must(vram_alloc(pool, 40, NULL, &addr), "vram_alloc, after the reset");
    must(vram_free(addr, NULL), "vram_free");
    LOST(vram_pool_create(before, NULL, &pool));
    vram_device_close(before); /* nobody else uses them here */
    vram_device_close(device);
}

/* Only where memory_left.c is linked. */
extern bool memory_left_shared __attribute__((weak));

static int run(bool own_queue, bool used_again, int first_call) {
    vram_context_options options = {.size = sizeof options, .backends = "cuda"};
    vram_context *context;
    vram_device *device, *again, *shared;
    vram_queue *queue;
    vram_pool *pool, *small;
    vram_addr freed, first, second;
    must(vram_context_create(&options, &context), "vram_context_create");
    must(vram_device_open(context, 0, &device), "vram_device_open");
    must(own_queue ? vram_queue_create(device, NULL, &queue)
                   : vram_queue_adopt(device, NULL, &queue),
         "queue");
    must(vram_pool_create(device, NULL, &pool), "vram_pool_create");
    must(vram_alloc(pool, MIB, queue, &first), "vram_alloc");
    must(vram_alloc(pool, BYTES, queue, &second), "vram_alloc");
    must(vram_alloc(pool, 100 * MIB, queue, &freed), "vram_alloc");
    must(vram_transfer_upload(queue, second, bytes, BYTES, NULL, NULL), "vram_transfer_upload");
    must(vram_free(freed, queue), "vram_free");
    must(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT), "vram_queue_wait");

    must(vram_device_shared("cuda", 0, &shared), "vram_device_shared");
    if (&memory_left_shared) {
        memory_left_shared = true;
    }
    must(vram_pool_shared(shared, &small), "vram_pool_shared");
    must(vram_alloc(small, 40, NULL, &freed), "vram_alloc");
    must(vram_free(freed, NULL), "vram_free");

    device_reset(used_again);
    ENDS(vram_free(first, queue));
    all_refused(pool, queue, second, first_call);
    ENDS(vram_free(second, queue));
    ENDS(vram_pool_destroy(pool));
    ENDS(own_queue ? vram_queue_destroy(queue) : vram_queue_end(queue));
    vram_device_close(device);

    must(vram_device_open(context, 0, &again), "vram_device_open, after the reset");
    round_trip(again);
    vram_device_close(again);
    vram_context_destroy(context);
    shared_again(shared);
    return failures != 0;
}

int main(int argc, char **argv) {
    int good = 0, cases = 4 * FIRST_CALLS;
    if (argc == 2) {
        int number = atoi(argv[1]);
        return run(number & 1, number & 2, number / 4);
    }
    for (int i = 0; i < cases; i++) {
        char number[12];
        int status = 0;
        snprintf(number, sizeof number, "%d", i);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            alarm(60); /* a hang is a finding, too */
            execl("/proc/self/exe", "tools", argv[0], number, NULL);
            _exit(127);
        }
        if (child < 0 || waitpid(child, &status, 0) != child) {
            perror("device_reset");
            return 2;
        }
        good += status == 0;
        if (status != 0) {
            printf("case %d, %s queue%s, call %d first: %s %d\n", i, i & 1 ? "own" : "adopted",
                   i & 2 ? ", the context was created again" : "", i / 4,
                   WIFSIGNALED(status) ? "signal" : "exit code",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        }
    }
    printf("resets survived: %d of %d\n", good, cases);
    return good != cases;
}

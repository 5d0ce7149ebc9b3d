/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 25_lease: two processes that take turns with the memory of a device. Each wants all of it. The
 * one that works calls vram_lease_point between two steps; when the other needs memory, its cache
 * goes to sleep there. Without arguments the program starts the second process itself.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vram/vram.h>

#define BYTES (UINT64_C(64) << 20)
static vram_context *context;
static vram_device *device;
static vram_queue *queue;
static vram_pool *cache;
static vram_lease *lease;
extern char **environ;

static void must(vram_status status) {
    if (status != VRAM_OK) {
        fprintf(stderr, "%s: %s\n", vram_status_name(status), vram_error_get()->text);
        vram_context_destroy(context);
        exit(1);
    }
}

/* A lease on 64 MiB of the device, of which each of the two wants 48. */
static void begin(const char *name) {
    vram_lease_options options = {
        .size = sizeof options, .want_bytes = BYTES / 4 * 3, .capacity_bytes = BYTES, .name = name};
    uint32_t index;
    must(vram_context_create(NULL, &context));
    must(vram_device_best(context, &index));
    must(vram_device_open(context, index, &device));
    must(vram_queue_create(device, NULL, &queue));
    must(vram_pool_create(device, NULL, &cache));
    must(vram_lease_open(device, &options, &lease));
    must(vram_lease_pool_add(lease, cache, NULL)); /* all of it, and its contents are lost */
}

static void work(vram_addr *addr) {
    must(vram_alloc(cache, BYTES / 8 * 5, queue, addr));
    must(vram_queue_fill(queue, *addr, 1, 4, BYTES / 8 * 5));
    must(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
}

int main(int count, char **arguments) {
    char *second[] = {"25_lease", "second", NULL};
    uint64_t given = 0;
    vram_addr addr;
    pid_t child;
    begin(count > 1 ? "second" : "first");
    work(&addr);
    if (count > 1) {
        printf("the second has 40 MiB, and ends\n");
        return vram_context_destroy(context) == VRAM_OK ? 0 : 1;
    }
    printf("the first has 40 MiB\n");
    fflush(stdout);
    if (posix_spawn(&child, arguments[0], NULL, NULL, second, environ) != 0) {
        return 1;
    }
    while (!given && waitpid(child, NULL, WNOHANG) == 0) { /* its work, and a point */
        must(vram_queue_fill(queue, addr, 2, 4, BYTES / 8));
        must(vram_queue_wait(queue, VRAM_TIMEOUT_DEFAULT));
        must(vram_lease_point(lease, &given));
    }
    if (given) {
        must(vram_pool_wake(cache, NULL)); /* asks for the memory, which the second gives back */
    }
    waitpid(child, NULL, 0);
    printf("the first gave %s, and has it again\n", given ? "what was asked" : "nothing");
    must(vram_lease_close(lease));
    return vram_context_destroy(context) == VRAM_OK ? 0 : 1;
}

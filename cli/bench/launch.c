/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch.c: `vram bench launch`: from the wish to run a kernel on two buffers to the end of its
 * work.
 *
 * With buffers that are kept, from a pool each time, and from the driver each time. The kernel
 * touches a few words, so that what is measured is all that lies around it.
 */
#include "bench/ways.h"
#include "check/scale_kernel.h"
#include "survey.h"

#include <stdio.h>

enum { WAYS = 3, COUNT = 64, GROUP = 64 };
enum { POOLED, KEPT, DRIVER };

struct launching {
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool;
    vram_kernel *kernel;
    vram_addr kept[2];
    uint64_t bytes; /* of a buffer */
};

/* --------------------------------------------------------------------- kernel */

static void scale(const vram_kernel_call *call) {
    uint32_t *to = *(uint32_t *const *)call->arguments[0];
    const uint32_t *from = *(uint32_t *const *)call->arguments[1];
    uint32_t factor = (uint32_t) * (const uint64_t *)call->arguments[2];
    for (uint32_t i = 0; i < COUNT; i++) {
        to[i] = from[i] * factor + i;
    }
}

static vram_status run_kernel(const struct launching *launching, const vram_addr buffers[2]) {
    static const size_t bytes[] = {8, 8, 8, 8};
    const uint64_t values[] = {buffers[0], buffers[1], 3, COUNT};
    const void *const arguments[] = {&values[0], &values[1], &values[2], &values[3]};
    const vram_launch launch = {.size = sizeof launch,
                                .groups = {COUNT / GROUP, 1, 1},
                                .group_size = {GROUP, 1, 1},
                                .argument_count = 4,
                                .arguments = arguments,
                                .argument_bytes = bytes,
                                .address_mask = 3};
    vram_status status = vram_queue_launch(launching->queue, launching->kernel, &launch);
    return status == VRAM_OK ? vram_queue_wait(launching->queue, VRAM_TIMEOUT_DEFAULT) : status;
}

/* ---------------------------------------------------------------------- rounds */

static vram_status take(const struct launching *launching, bool pooled, vram_addr *addr) {
    return pooled
               ? vram_alloc(launching->pool, launching->bytes, launching->queue, addr)
               : vram_device_alloc(launching->device, launching->bytes, VRAM_MEMORY_DEVICE, addr);
}

static vram_status give(const struct launching *launching, bool pooled, vram_addr addr) {
    if (!addr) {
        return VRAM_OK;
    }
    return pooled ? vram_free(addr, launching->queue) : vram_device_free(launching->device, addr);
}

static bool round_each(const struct launching *launching, struct way *way, bool pooled,
                       uint64_t *ns) {
    vram_addr buffers[2] = {0, 0};
    uint64_t before = ways_now();
    vram_status status = take(launching, pooled, &buffers[0]);
    if (status == VRAM_OK) {
        status = take(launching, pooled, &buffers[1]);
    }
    if (status == VRAM_OK) {
        status = run_kernel(launching, buffers);
    }
    if (status != VRAM_OK && vram_queue_wait(launching->queue, VRAM_TIMEOUT_DEFAULT) != VRAM_OK) {
        return way_good(way, status); /* the kernel may still use them: they stay */
    }
    vram_status given = give(launching, pooled, buffers[0]);
    vram_status other = give(launching, pooled, buffers[1]);
    *ns = ways_now() - before;
    given = given == VRAM_OK ? other : given;
    status = status == VRAM_OK ? given : status;
    return way_good(way, status);
}

static bool round_pooled(void *user, struct way *way, uint64_t *ns) {
    return round_each(user, way, true, ns);
}

static bool round_driver(void *user, struct way *way, uint64_t *ns) {
    return round_each(user, way, false, ns);
}

static bool round_kept(void *user, struct way *way, uint64_t *ns) {
    struct launching *launching = user;
    vram_status status = VRAM_OK;
    for (int i = 0; i < 2 && status == VRAM_OK; i++) {
        status = launching->kept[i] ? VRAM_OK : take(launching, true, &launching->kept[i]);
    }
    uint64_t before = ways_now();
    if (status == VRAM_OK) {
        status = run_kernel(launching, launching->kept);
    }
    *ns = ways_now() - before;
    return way_good(way, status);
}

/* ------------------------------------------------------------------------ verb */

static struct way ways[WAYS] = {
    [POOLED] = {.name = "pooled", .about = "two buffers from a pool, launch, wait, free"},
    [KEPT] = {.name = "kept", .about = "launch and wait, with buffers that are kept"},
    [DRIVER] = {.name = "driver", .about = "two buffers from the driver, launch, wait, free"},
};

static void measure(struct launching *launching, double seconds) {
    static way_fn *const rounds[WAYS] = {round_pooled, round_kept, round_driver};
    for (int i = 0; i < WAYS; i++) {
        way_measure(&ways[i], rounds[i], launching, seconds / WAYS);
    }
}

static void print(const struct terminal *terminal, const struct target *target,
                  const struct launching *launching) {
    char size[VRAM_SIZE_TEXT_MAX], label[DEVICE_LABEL_MAX];
    terminal_print(terminal, STYLE_BOLD, "launch");
    printf(" with two buffers of %s, on %s, ", vram_size_format(launching->bytes, size),
           device_label(&target->info, label));
    terminal_print(terminal, STYLE_PLAIN, "%s", target->info.name);
    printf("\n\n");
    ways_print(terminal, ways, WAYS);
    if (way_measured(&ways[POOLED]) && way_measured(&ways[KEPT]) && way_measured(&ways[DRIVER])) {
        printf("\nBuffers of a pool add %.2f us to a launch, the driver's own add %.2f us.\n",
               (ways[POOLED].median_ns - ways[KEPT].median_ns) / 1e3,
               (ways[DRIVER].median_ns - ways[KEPT].median_ns) / 1e3);
    }
}

static bool write(const struct target *target, const struct launching *launching) {
    struct json_out json;
    output_json_begin(&json, "vram.bench.launch/1");
    json_text(&json, "bench", "launch");
    ways_write_device(&json, target);
    json_unsigned(&json, "size_bytes", launching->bytes);
    ways_write(&json, ways, WAYS);
    ways_write_ratio(&json, "ratio_driver", &ways[DRIVER], &ways[POOLED]);
    ways_write_ratio(&json, "ratio_kept", &ways[POOLED], &ways[KEPT]);
    return output_json_end(&json);
}

static vram_status open(const struct target *target, struct launching *launching) {
    vram_status status = vram_device_open(target->context, target->index, &launching->device);
    if (status == VRAM_OK) {
        status = vram_queue_create(launching->device, NULL, &launching->queue);
    }
    if (status == VRAM_OK) {
        status = vram_pool_create(launching->device, NULL, &launching->pool);
    }
    return status == VRAM_OK ? scale_kernel_create(launching->device, scale, &launching->kernel)
                             : status;
}

static void close(struct launching *launching) {
    vram_kernel_destroy(launching->kernel);
    vram_pool_destroy(launching->pool);
    vram_queue_destroy(launching->queue);
    vram_device_close(launching->device);
}

int bench_launch(struct invocation *invocation, const struct target *target, uint64_t bytes,
                 double seconds) {
    uint64_t least = COUNT * sizeof(uint32_t);
    struct launching launching = {.bytes = bytes > least ? bytes : least};
    vram_status status = open(target, &launching);
    if (status != VRAM_OK) {
        int code = say_failure("cannot load a kernel on this device", status);
        close(&launching);
        return code;
    }
    measure(&launching, seconds);
    close(&launching);
    if (invocation->json) {
        return write(target, &launching) ? EXIT_YES : EXIT_MISUSE;
    }
    print(&invocation->terminal, target, &launching);
    return EXIT_YES;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grow.c: `vram bench grow`: what it costs to make a buffer larger, in place and by a copy.
 *
 * In place four times: over memory that the pool has mapped behind the block already, with memory
 * that another block had grown by before, with free memory of an ordinary block, and with memory
 * that the driver has to give. By a copy twice: within a pool that has all it needs at hand, and
 * with the driver's own allocation and free, as a program without a pool does. The last word of
 * what the buffer had is looked at after each growth.
 */
#include "bench/ways.h"
#include "survey.h"

#include <stdio.h>
#include <string.h>
#include <vram/sim.h>

enum { WAYS = 6, MARK = 0x6702 };
enum { HELD, CACHED, MOVED, FRESH, COPY, DRIVER };
enum scene { BARE, LARGE_HANDLES, SMALL_HANDLES };

struct growth {
    vram_context *context;
    bool simulated;
    vram_device *device;
    vram_queue *queue;
    vram_pool *pool; /* of the ways that keep one from round to round */
    vram_addr addr;
    uint64_t from, to;
    uint32_t word; /* read back; a copy whose wait failed may end late */
};

/* On a simulated device by its own clock, which the prices of its profile move. */
static uint64_t now(const struct growth *growth) {
    vram_sim_state state = {.size = sizeof state};
    if (!growth->simulated) {
        return ways_now();
    }
    (void)vram_sim_state_get(growth->context, &state); /* a context that has the device has it */
    return state.clock_ns;
}

/* ------------------------------------------------------------------ contents */

static vram_status put_mark(const struct growth *growth, vram_addr addr) {
    return vram_queue_fill(growth->queue, addr + growth->from / 4 * 4 - 4, MARK, 4, 4);
}

static bool mark_is_there(struct growth *growth, struct way *way, vram_addr addr) {
    growth->word = 0;
    vram_status status =
        vram_queue_download(growth->queue, &growth->word, addr + growth->from / 4 * 4 - 4, 4);
    if (status == VRAM_OK) {
        status = vram_queue_wait(growth->queue, VRAM_TIMEOUT_DEFAULT);
    }
    if (status != VRAM_OK) {
        return way_fail(way, status);
    }
    if (growth->word != MARK) {
        return way_differs(way, "the buffer has lost its contents");
    }
    return true;
}

/* Grows a marked block, timed. */
static bool grow(struct growth *growth, struct way *way, vram_addr addr, uint64_t *ns) {
    vram_status status = put_mark(growth, addr);
    if (status == VRAM_OK) {
        status = vram_queue_wait(growth->queue, VRAM_TIMEOUT_DEFAULT);
    }
    uint64_t before = now(growth);
    if (status == VRAM_OK) {
        status = vram_resize(addr, growth->to, growth->queue);
    }
    *ns = now(growth) - before;
    return status == VRAM_OK ? mark_is_there(growth, way, addr) : way_fail(way, status);
}

/* -------------------------------------------------------------------- in place */

/* What the block gave back lies behind it, mapped. */
static bool round_held(void *user, struct way *way, uint64_t *ns) {
    struct growth *growth = user;
    vram_status status = VRAM_OK;
    if (!growth->addr) {
        status = vram_alloc(growth->pool, growth->from, growth->queue, &growth->addr);
    } else {
        status = vram_resize(growth->addr, growth->from, growth->queue);
    }
    return status == VRAM_OK ? grow(growth, way, growth->addr, ns) : way_fail(way, status);
}

/* As much as the block will need, free in front of it: in the handles of an ordinary block, or in
   those of one that had grown. */
static vram_status leave_free(const struct growth *growth, vram_pool *pool, bool grown,
                              vram_addr *other) {
    const uint64_t mib = UINT64_C(1) << 20;
    uint64_t bytes = growth->to - growth->from;
    vram_addr wall;
    vram_status status = vram_alloc(pool, grown ? 64 * mib : bytes, NULL, other);
    if (status == VRAM_OK && grown) {
        status = vram_resize(*other, 64 * mib + bytes, NULL);
    }
    return status == VRAM_OK ? vram_alloc(pool, mib, NULL, &wall) : status;
}

/* A pool with a block at the end of its addresses. */
static vram_status set_scene(const struct growth *growth, vram_pool *pool, enum scene scene,
                             vram_addr *addr) {
    vram_addr other = 0;
    vram_status status =
        scene == BARE ? VRAM_OK : leave_free(growth, pool, scene == LARGE_HANDLES, &other);
    if (status == VRAM_OK) {
        status = vram_alloc(pool, growth->from, growth->queue, addr);
    }
    return status == VRAM_OK ? vram_free(other, NULL) : status;
}

static bool round_apart(struct growth *growth, struct way *way, enum scene scene, uint64_t *ns) {
    vram_pool *pool;
    vram_addr addr;
    vram_status status = vram_pool_create(growth->device, NULL, &pool);
    if (status != VRAM_OK) {
        return way_fail(way, status);
    }
    status = set_scene(growth, pool, scene, &addr);
    bool good = status == VRAM_OK ? grow(growth, way, addr, ns) : way_fail(way, status);
    status = vram_pool_destroy(pool);
    if (!good) {
        return false;
    }
    return way_good(way, status);
}

static bool round_cached(void *user, struct way *way, uint64_t *ns) {
    return round_apart(user, way, LARGE_HANDLES, ns);
}

static bool round_moved(void *user, struct way *way, uint64_t *ns) {
    return round_apart(user, way, SMALL_HANDLES, ns);
}

static bool round_fresh(void *user, struct way *way, uint64_t *ns) {
    return round_apart(user, way, BARE, ns);
}

/* ------------------------------------------------------------------ by a copy */

/* Allocate, copy, free: in the pool, or with the driver alone. */
static vram_status take(const struct growth *growth, bool pooled, uint64_t bytes, vram_addr *addr) {
    return pooled ? vram_alloc(growth->pool, bytes, growth->queue, addr)
                  : vram_device_alloc(growth->device, bytes, VRAM_MEMORY_DEVICE, addr);
}

static vram_status give(const struct growth *growth, bool pooled, vram_addr addr) {
    return pooled ? vram_free(addr, growth->queue) : vram_device_free(growth->device, addr);
}

static bool round_by_copy(struct growth *growth, struct way *way, bool pooled, uint64_t *ns) {
    vram_addr old, fresh = 0;
    vram_status status = take(growth, pooled, growth->from, &old);
    if (status == VRAM_OK) {
        status = put_mark(growth, old);
    }
    if (status == VRAM_OK) {
        status = vram_queue_wait(growth->queue, VRAM_TIMEOUT_DEFAULT);
    }
    uint64_t before = now(growth);
    if (status == VRAM_OK) {
        status = take(growth, pooled, growth->to, &fresh);
    }
    if (status == VRAM_OK) {
        status = vram_queue_copy(growth->queue, fresh, old, growth->from);
    }
    if (status == VRAM_OK) {
        status = vram_queue_wait(growth->queue, VRAM_TIMEOUT_DEFAULT);
    }
    if (status == VRAM_OK) {
        status = give(growth, pooled, old);
    }
    *ns = now(growth) - before;
    bool good = status == VRAM_OK ? mark_is_there(growth, way, fresh) : way_fail(way, status);
    status = fresh ? give(growth, pooled, fresh) : VRAM_OK;
    if (!good) {
        return false;
    }
    return way_good(way, status);
}

static bool round_copy(void *user, struct way *way, uint64_t *ns) {
    return round_by_copy(user, way, true, ns);
}

static bool round_driver(void *user, struct way *way, uint64_t *ns) {
    return round_by_copy(user, way, false, ns);
}

/* ------------------------------------------------------------------------ verb */

static struct way ways[WAYS] = {
    [HELD] = {.name = "held", .about = "in place, with memory that the pool holds after it"},
    [CACHED] = {.name = "cached", .about = "in place, with memory that another block grew by"},
    [MOVED] = {.name = "moved", .about = "in place, next to free memory of an ordinary block"},
    [FRESH] = {.name = "fresh", .about = "in place, with memory from the driver"},
    [COPY] = {.name = "copy", .about = "allocate, copy and free, in a pool that has it all"},
    [DRIVER] = {.name = "driver", .about = "allocate, copy and free, without a pool"},
};

/* Each way by itself, so that none is short of what another one holds. */
static bool measure(struct growth *growth, struct terminal *terminal, double seconds) {
    static way_fn *const rounds[WAYS] = {round_held,  round_cached, round_moved,
                                         round_fresh, round_copy,   round_driver};
    for (uint64_t i = 0; i < WAYS; i++) {
        growth->addr = 0;
        vram_status status = vram_pool_create(growth->device, NULL, &growth->pool);
        if (status != VRAM_OK) {
            say_failure("cannot create a pool", status);
            return false;
        }
        way_measure(&ways[i], rounds[i], growth, seconds / WAYS);
        vram_pool_destroy(growth->pool);
        terminal_progress(terminal, i + 1, WAYS, "ways");
    }
    terminal_progress_end(terminal);
    return true;
}

/* A simulated driver may take none. */
static bool took_time(const struct way *way) {
    return way_measured(way) && way->median_ns >= 1;
}

static void print(const struct terminal *terminal, const struct target *target,
                  const struct growth *growth) {
    char from[VRAM_SIZE_TEXT_MAX], to[VRAM_SIZE_TEXT_MAX], label[DEVICE_LABEL_MAX];
    terminal_print(terminal, STYLE_BOLD, "grow");
    printf(" from %s to %s, on %s, ", vram_size_format(growth->from, from),
           vram_size_format(growth->to, to), device_label(&target->info, label));
    terminal_print(terminal, STYLE_PLAIN, "%s", target->info.name);
    printf("%s\n\n", growth->simulated ? ", in simulated time" : "");
    ways_print(terminal, ways, WAYS);
    bool held = took_time(&ways[HELD]) && way_measured(&ways[DRIVER]) && way_measured(&ways[COPY]);
    bool cached = took_time(&ways[CACHED]) && way_measured(&ways[DRIVER]);
    printf("%s", held || cached ? "\n" : "");
    if (held) {
        printf("Growing over held memory is %.0f times as fast as the driver's allocate, copy and "
               "free, and %.0f times as fast as a pool's.\n",
               ways_ratio(&ways[DRIVER], &ways[HELD]), ways_ratio(&ways[COPY], &ways[HELD]));
    }
    if (cached) {
        printf("With large handles that lie free elsewhere it is %.0f times as fast as the "
               "driver's.\n",
               ways_ratio(&ways[DRIVER], &ways[CACHED]));
    }
}

static bool write(const struct target *target, const struct growth *growth) {
    struct json_out json;
    output_json_begin(&json, "vram.bench.grow/1");
    json_text(&json, "bench", "grow");
    ways_write_device(&json, target);
    json_text(&json, "clock", growth->simulated ? "simulated" : "real");
    json_unsigned(&json, "from_bytes", growth->from);
    json_unsigned(&json, "to_bytes", growth->to);
    ways_write(&json, ways, WAYS);
    ways_write_ratio(&json, "ratio_driver", &ways[DRIVER], &ways[HELD]);
    ways_write_ratio(&json, "ratio_copy", &ways[COPY], &ways[HELD]);
    ways_write_ratio(&json, "ratio_cached", &ways[DRIVER], &ways[CACHED]);
    ways_write_ratio(&json, "ratio_moved", &ways[DRIVER], &ways[MOVED]);
    ways_write_ratio(&json, "ratio_fresh", &ways[DRIVER], &ways[FRESH]);
    return output_json_end(&json);
}

int bench_grow(struct invocation *invocation, const struct target *target, uint64_t from,
               uint64_t to, double seconds) {
    struct growth growth = {.context = target->context,
                            .simulated = strcmp(target->info.backend, "sim") == 0,
                            .from = from,
                            .to = to};
    vram_status status = vram_device_open(target->context, target->index, &growth.device);
    if (status == VRAM_OK) {
        status = vram_queue_create(growth.device, NULL, &growth.queue);
    }
    if (status != VRAM_OK) {
        vram_device_close(growth.device);
        return say_failure("cannot open the device", status);
    }
    bool good = measure(&growth, &invocation->terminal, seconds);
    vram_queue_destroy(growth.queue);
    vram_device_close(growth.device);
    if (good && invocation->json) {
        good = write(target, &growth);
    } else if (good) {
        print(&invocation->terminal, target, &growth);
    }
    return !good ? EXIT_MISUSE : ways_differ(ways, WAYS) ? EXIT_NO : EXIT_YES;
}

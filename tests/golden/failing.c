/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failing.c: lets one call of the library fail in a build of the command that must say so.
 *
 * The linker's --wrap puts these functions in the place of the library's. A call that fails does
 * nothing else. The environment says which one it is:
 *   FAIL_PLACE  the n-th place of the program, in the order in which they are reached first
 *   FAIL_TURN   the n-th call of that place; 1 without it
 *   FAIL_CALL   the n-th call of all places, instead of the two above
 *   FAIL_EVERY  every n-th call
 *   FAIL_STATUS what it returns; VRAM_ERR_BACKEND without it
 *   FAIL_REPORT a file; at the end it has a line "PLACES CALLS NAME": how many there were, and what
 *               failed, "-" if nothing did
 */
#include "failing.h"

#include "base/error.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <vram/compute.h>
#include <vram/vram.h>

enum { PLACES_MAX = 400 };

struct place {
    const void *address;
    uint64_t calls;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static struct place places[PLACES_MAX];
static uint64_t place_count, call_count;
static const char *struck = "-";

static uint64_t wish(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static uint64_t number_of(const void *address) {
    uint64_t i = 0;
    while (i < place_count && places[i].address != address) {
        i++;
    }
    if (i == PLACES_MAX) {
        abort();
    }
    places[i].address = address;
    place_count += i == place_count;
    return i;
}

bool failing_strikes(const char *name, const void *place) {
    pthread_mutex_lock(&lock);
    uint64_t number = number_of(place), turn = ++places[number].calls;
    bool strikes = ++call_count == wish("FAIL_CALL", 0) ||
                   call_count % wish("FAIL_EVERY", UINT64_MAX) == 0 ||
                   (number + 1 == wish("FAIL_PLACE", 0) && turn == wish("FAIL_TURN", 1));
    if (strikes) {
        struck = name;
    }
    pthread_mutex_unlock(&lock);
    return strikes;
}

vram_status failing_status(const char *name) {
    vram_status status = (vram_status)wish("FAIL_STATUS", VRAM_ERR_BACKEND);
    return vr_error_set(status, "", name, 0, "planted in %s", name);
}

__attribute__((destructor)) static void report(void) {
    const char *path = getenv("FAIL_REPORT");
    FILE *file = path != NULL ? fopen(path, "w") : NULL;
    if (file != NULL) {
        fprintf(file, "%llu %llu %s\n", (unsigned long long)place_count,
                (unsigned long long)call_count, struck);
        fclose(file);
    }
}

/* ---------------------------------------------------------------------- calls */

/* A call that fails, or is `otherwise`. */
#define WRAPPED(name, parameters, otherwise)                                                       \
    vram_status __real_##name parameters;                                                          \
    vram_status __wrap_##name parameters;                                                          \
    vram_status __wrap_##name parameters {                                                         \
        if (failing_strikes(#name, __builtin_return_address(0))) {                                 \
            return failing_status(#name);                                                          \
        }                                                                                          \
        return otherwise;                                                                          \
    }
/* FAILING(name, (types and names of its parameters), (their names)) */
#define FAILING(name, parameters, arguments) WRAPPED(name, parameters, __real_##name arguments)

FAILING(vram_device_open, (vram_context * a, uint32_t b, vram_device **c), (a, b, c))
FAILING(vram_device_alloc, (vram_device * a, uint64_t b, vram_memory_kind c, vram_addr *d),
        (a, b, c, d))
FAILING(vram_device_free, (vram_device * a, vram_addr b), (a, b))
FAILING(vram_device_pressure_get, (vram_device * a, vram_pressure *b), (a, b))
FAILING(vram_health, (vram_device * a, const vram_health_options *b, vram_health_info *c),
        (a, b, c))

FAILING(vram_queue_create, (vram_device * a, const vram_queue_options *b, vram_queue **c),
        (a, b, c))
FAILING(vram_queue_mark, (vram_queue * a, vram_point *b), (a, b))
FAILING(vram_queue_after, (vram_queue * a, vram_point b), (a, b))
FAILING(vram_queue_native, (vram_queue * a, void **b), (a, b))
FAILING(vram_queue_upload, (vram_queue * a, vram_addr b, const void *c, uint64_t d), (a, b, c, d))
FAILING(vram_queue_copy, (vram_queue * a, vram_addr b, vram_addr c, uint64_t d), (a, b, c, d))
FAILING(vram_queue_fill, (vram_queue * a, vram_addr b, uint32_t c, uint32_t d, uint64_t e),
        (a, b, c, d, e))
FAILING(vram_queue_launch, (vram_queue * a, vram_kernel *b, const vram_launch *c), (a, b, c))
FAILING(vram_kernel_create, (vram_device * a, const vram_kernel_source *b, vram_kernel **c),
        (a, b, c))

FAILING(vram_range_create, (vram_device * a, uint64_t b, vram_addr *c), (a, b, c))
FAILING(vram_range_destroy, (vram_device * a, vram_addr b), (a, b))
FAILING(vram_range_map, (vram_device * a, vram_addr b, vram_physical *const *c, uint32_t d),
        (a, b, c, d))
FAILING(vram_range_unmap, (vram_device * a, vram_addr b, uint64_t c), (a, b, c))
FAILING(vram_physical_create, (vram_device * a, uint64_t b, vram_physical **c), (a, b, c))
FAILING(vram_physical_destroy, (vram_physical * a), (a))

FAILING(vram_pool_create, (vram_device * a, const vram_pool_options *b, vram_pool **c), (a, b, c))
FAILING(vram_alloc, (vram_pool * a, uint64_t b, vram_queue *c, vram_addr *d), (a, b, c, d))
FAILING(vram_alloc_with,
        (vram_pool * a, uint64_t b, vram_queue *c, const vram_alloc_options *d, vram_addr *e),
        (a, b, c, d, e))
FAILING(vram_free, (vram_addr a, vram_queue *b), (a, b))
FAILING(vram_resize, (vram_addr a, uint64_t b, vram_queue *c), (a, b, c))
FAILING(vram_pool_trim, (vram_pool * a, const vram_trim_options *b, uint64_t *c), (a, b, c))
FAILING(vram_pool_fragmentation_get, (vram_pool * a, vram_fragmentation *b), (a, b))
FAILING(vram_pool_watch_begin, (vram_pool * a, const vram_watch_options *b, vram_watch **c),
        (a, b, c))
FAILING(vram_pool_response_set, (vram_pool * a, const vram_response_options *b), (a, b))
FAILING(vram_pool_ladder_set, (vram_pool * a, const vram_ladder_options *b), (a, b))
FAILING(vram_oom_callback_add, (vram_device * a, vram_oom_fn *b, void *c, uint64_t *d),
        (a, b, c, d))
FAILING(vram_oom_callback_remove, (vram_device * a, uint64_t b), (a, b))

FAILING(vram_transfer_upload,
        (vram_queue * a, vram_addr b, const void *c, uint64_t d, const vram_transfer_options *e,
         vram_async *f),
        (a, b, c, d, e, f))
FAILING(vram_transfer_batch,
        (vram_queue * a, const vram_copy *b, size_t c, const vram_transfer_options *d,
         vram_async *e),
        (a, b, c, d, e))

FAILING(vram_readback_create, (vram_device * a, const vram_readback_options *b, vram_readback **c),
        (a, b, c))
FAILING(vram_readback_start,
        (vram_readback * a, vram_queue *b, vram_addr c, uint64_t d, uint64_t *e), (a, b, c, d, e))
FAILING(vram_readback_release, (vram_readback * a, uint64_t b), (a, b))

FAILING(vram_ring_create, (vram_pool * a, const vram_ring_options *b, vram_ring **c), (a, b, c))
FAILING(vram_ring_info_get, (vram_ring * a, vram_ring_info *b), (a, b))
FAILING(vram_ring_send, (vram_ring * a, const void *b, uint32_t c, uint32_t d, uint64_t e),
        (a, b, c, d, e))
FAILING(vram_ring_send_many,
        (vram_ring * a, const vram_ring_message *b, uint64_t c, uint64_t d, uint64_t *e),
        (a, b, c, d, e))
FAILING(vram_ring_flush, (vram_ring * a, uint64_t *b, vram_async *c), (a, b, c))
FAILING(vram_ring_fetch, (vram_ring * a, uint64_t *b, vram_async *c), (a, b, c))
FAILING(vram_ring_stop, (vram_ring * a), (a))
FAILING(vram_ring_drain, (vram_ring * a, uint64_t b), (a, b))
FAILING(vram_ring_join, (vram_ring * a, uint64_t b), (a, b))

FAILING(vram_scheduler_create, (vram_pool * a, const vram_scheduler_options *b, vram_scheduler **c),
        (a, b, c))
FAILING(vram_scheduler_calibrate, (vram_scheduler * a, vram_calibration *b), (a, b))
FAILING(vram_scheduler_stats_get, (vram_scheduler * a, vram_scheduler_stats *b), (a, b))
/* Nobody looks at the products: where calls are counted, none is made. */
#define IDLE(name, parameters, arguments)                                                          \
    WRAPPED(name, parameters, getenv("FAIL_REPORT") != NULL ? VRAM_OK : __real_##name arguments)
IDLE(vram_matmul_run, (vram_scheduler * a, const vram_matmul *b), (a, b))
IDLE(vram_matmul_batch, (vram_scheduler * a, const vram_matmul *b, size_t c), (a, b, c))
IDLE(vram_distance_run, (vram_scheduler * a, const vram_distance *b), (a, b))

FAILING(vram_trace_begin, (vram_context * a, const vram_trace_options *b, vram_trace **c),
        (a, b, c))
FAILING(vram_live_stats_get, (const vram_live_query *a, vram_live_stats *b), (a, b))
FAILING(vram_sim_clock_advance, (vram_context * a, uint64_t b), (a, b))

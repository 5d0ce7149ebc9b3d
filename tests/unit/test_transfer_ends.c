/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_transfer_ends.c: calls on stream sets, readbacks, feeds, copies, their handles and
 * page-locked memory beside the end of the object itself, its queue, its device and its context,
 * with queues that are late.
 */
#include "trims.h"
#include "unit/end_race.h"
#include "vram/vram.h"

#include <stdlib.h>

enum { BYTES = 512 << 10, SMALL = 4096, ENTRIES = 16 };

struct transfer_world {
    struct race_world base;
    vram_addr addr; /* BYTES of the device's */
    vram_buffer *buffer;
    vram_stream_set *set;
    vram_readback *readback;
    vram_feed *feed;
    vram_async async; /* of a copy that is late */
    vram_point point; /* the same */
};

static _Alignas(65536) unsigned char pages[ENTRIES][65536];
static unsigned char source[BYTES], target[BYTES];
static bool target_failed; /* the last copy to `target` did, and `target` was overwritten then */

static vram_status ok_if(vram_status status, vram_status also) {
    return status == also ? VRAM_OK : status;
}

/* For calls that use memory by its address, which is invalid once its device or pool has ended. */
static vram_status ok_if_address_is_gone(vram_status status) {
    return ok_if(status, VRAM_ERR_INVALID);
}

/* -------------------------------------------------------------------------- ends */

static void end_set(void *argument) {
    vram_stream_set_destroy(((struct transfer_world *)argument)->set);
}

static void end_readback(void *argument) {
    vram_readback_destroy(((struct transfer_world *)argument)->readback);
}

static void end_feed(void *argument) {
    vram_feed_destroy(((struct transfer_world *)argument)->feed);
}

/* ----------------------------------------------------------- page-locked memory */

static vram_status call_pinned(void *argument) {
    struct transfer_world *world = argument;
    vram_status status = vram_pinned_begin(world->base.rig.device, pages[3], SMALL);
    if (status == VRAM_OK) {
        status = vram_pinned_end(world->base.rig.device, pages[3], SMALL);
    }
    return status;
}

static vram_status call_pinned_forget(void *argument) {
    struct transfer_world *world = argument;
    return vram_pinned_forget(world->base.rig.device, pages, sizeof pages);
}

static vram_status call_pinned_trim(void *argument) {
    return vram_device_trim(((struct transfer_world *)argument)->base.rig.device,
                            TRIM(.flags = VRAM_TRIM_PINNED), NULL);
}

static vram_status call_pinned_info(void *argument) {
    vram_pinned_info info = {.size = sizeof info};
    return vram_pinned_info_get(((struct transfer_world *)argument)->base.rig.device, &info);
}

static vram_status call_device_cleanup(void *argument) {
    uint64_t bytes;
    return vram_device_trim(((struct transfer_world *)argument)->base.rig.device, NULL, &bytes);
}

static vram_status call_context_cleanup(void *argument) {
    uint64_t bytes;
    return vram_context_trim(((struct transfer_world *)argument)->base.rig.context, NULL, &bytes);
}

/* ------------------------------------------------------------------- stream sets */

static vram_status call_set_queues(void *argument) {
    struct transfer_world *world = argument;
    vram_stream_info info = {.size = sizeof info};
    vram_queue *queue;
    vram_status status = vram_stream_set_get(world->set, 1, &queue);
    status = status == VRAM_OK ? vram_stream_set_find(world->set, "memory", &queue) : status;
    status = status == VRAM_OK ? vram_stream_set_next(world->set, &queue) : status;
    return status == VRAM_OK ? vram_stream_info_get(world->set, 2, &info) : status;
}

static vram_status call_set_transfer(void *argument) {
    vram_queue *queue;
    return vram_stream_set_transfer(((struct transfer_world *)argument)->set, &queue);
}

static vram_status call_set_poll(void *argument) {
    return vram_stream_set_poll(((struct transfer_world *)argument)->set);
}

static vram_status call_set_wait(void *argument) {
    return vram_stream_set_wait(((struct transfer_world *)argument)->set, VRAM_TIMEOUT_DEFAULT);
}

static vram_status call_set_mark(void *argument) {
    vram_point point;
    return vram_stream_set_mark(((struct transfer_world *)argument)->set, &point);
}

static vram_status call_set_sync(void *argument) {
    vram_async async;
    vram_status status = vram_stream_set_sync(((struct transfer_world *)argument)->set, &async);
    if (status == VRAM_OK) {
        vram_async_end(&async);
    }
    return status;
}

static vram_status call_set_barrier(void *argument) {
    struct transfer_world *world = argument;
    vram_status status = vram_stream_set_order(world->set, 0, 1);
    status = status == VRAM_OK ? vram_stream_set_after(world->set, world->point) : status;
    return status == VRAM_OK ? vram_stream_set_barrier(world->set) : status;
}

/* --------------------------------------------------------------------- readbacks */

static vram_status call_readback_start(void *argument) {
    struct transfer_world *world = argument;
    vram_status status =
        vram_readback_start(world->readback, world->base.rig.queue, world->addr, SMALL, NULL);
    return ok_if(ok_if_address_is_gone(status), VRAM_ERR_BUSY);
}

static vram_status call_readback_spans(void *argument) {
    struct transfer_world *world = argument;
    vram_span spans[2] = {{world->buffer, 0, SMALL}, {world->buffer, SMALL, SMALL}};
    return ok_if(vram_readback_start_spans(world->readback, world->base.rig.queue, spans, 2, NULL),
                 VRAM_ERR_BUSY);
}

static vram_status call_readback_wait(void *argument) {
    struct transfer_world *world = argument;
    (void)call_readback_start(world);
    return vram_readback_wait(world->readback, 0, VRAM_TIMEOUT_DEFAULT);
}

static vram_status call_readback_handle(void *argument) {
    struct transfer_world *world = argument;
    vram_async async;
    vram_point point;
    vram_status status = vram_readback_poll(world->readback, 0);
    status = vram_readback_point(world->readback, 0, &point);
    if (status == VRAM_OK &&
        (status = vram_readback_async(world->readback, 0, &async)) == VRAM_OK) {
        vram_async_end(&async);
    }
    return status;
}

static vram_status call_readback_next(void *argument) {
    struct transfer_world *world = argument;
    vram_frame frame;
    (void)call_readback_start(world);
    vram_status status = vram_readback_next(world->readback, VRAM_TIMEOUT_DEFAULT, &frame);
    return status == VRAM_OK ? vram_readback_release(world->readback, frame.number) : status;
}

static vram_status call_readback_latest(void *argument) {
    struct transfer_world *world = argument;
    vram_readback_stats stats = {.size = sizeof stats};
    vram_frame frame;
    vram_status status = vram_readback_latest(world->readback, &frame);
    if (status == VRAM_OK) {
        status = vram_readback_release(world->readback, frame.number);
    }
    return status == VRAM_OK ? vram_readback_stats_get(world->readback, &stats) : status;
}

/* ------------------------------------------------------------------------- feeds */

static vram_status call_feed(void *argument) {
    struct transfer_world *world = argument;
    vram_feed_block block;
    vram_status status = vram_feed_begin(world->feed, SMALL, VRAM_TIMEOUT_DEFAULT, &block);
    if (status == VRAM_OK) {
        status = vram_feed_submit(world->feed, world->base.rig.queue, world->addr, block.number,
                                  SMALL, NULL);
        if (status != VRAM_OK) {
            (void)vram_feed_release(world->feed, block.number);
        }
    }
    return ok_if_address_is_gone(status);
}

static vram_status call_feed_handle(void *argument) {
    struct transfer_world *world = argument;
    vram_feed_stats stats = {.size = sizeof stats};
    vram_feed_block block;
    vram_async async;
    vram_status status = vram_feed_begin(world->feed, SMALL, VRAM_TIMEOUT_DEFAULT, &block);
    if (status == VRAM_OK) {
        status = vram_feed_submit(world->feed, world->base.rig.queue, world->addr, block.number,
                                  SMALL, &async);
        if (status == VRAM_OK) {
            vram_async_end(&async);
        } else {
            (void)vram_feed_release(world->feed, block.number);
        }
    }
    return status == VRAM_OK ? vram_feed_stats_get(world->feed, &stats)
                             : ok_if_address_is_gone(status);
}

/* ------------------------------------------------------------------------ copies */

static const vram_transfer_options sync_options = {.size = sizeof sync_options,
                                                   .strategy = VRAM_TRANSFER_SYNC};

/* A copy that has failed writes nothing any more. */
static vram_status poison_failed_target(vram_status status) {
    target_failed = status != VRAM_OK;
    if (target_failed) {
        memset(target, 0xEE, sizeof target);
    }
    return ok_if_address_is_gone(status);
}

static vram_status call_upload(void *argument) {
    struct transfer_world *world = argument;
    vram_async async;
    vram_status status =
        vram_transfer_upload(world->base.rig.queue, world->addr, source, BYTES, NULL, &async);
    if (status == VRAM_OK) {
        vram_async_end(&async);
    }
    return ok_if_address_is_gone(status);
}

static vram_status call_upload_sync(void *argument) {
    struct transfer_world *world = argument;
    return ok_if_address_is_gone(vram_transfer_upload(world->base.rig.queue, world->addr, source,
                                                      BYTES, &sync_options, NULL));
}

static vram_status call_download(void *argument) {
    struct transfer_world *world = argument;
    return poison_failed_target(vram_transfer_download(world->base.rig.queue, target, world->addr,
                                                       BYTES, &sync_options, NULL));
}

static vram_status call_download_small(void *argument) {
    struct transfer_world *world = argument;
    return poison_failed_target(vram_transfer_download(world->base.rig.queue, target, world->addr,
                                                       SMALL, &sync_options, NULL));
}

static vram_status call_download_handle(void *argument) {
    struct transfer_world *world = argument;
    vram_async async;
    vram_status status =
        vram_transfer_download(world->base.rig.queue, target, world->addr, BYTES, NULL, &async);
    if (status == VRAM_OK) {
        status = vram_async_wait(&async, VRAM_TIMEOUT_DEFAULT);
        vram_async_end(&async);
    }
    return poison_failed_target(status);
}

static vram_status call_copy(void *argument) {
    struct transfer_world *world = argument;
    vram_status status = vram_transfer_copy(world->base.rig.queue, world->addr, world->addr + SMALL,
                                            SMALL, &sync_options, NULL);
    if (status == VRAM_OK) {
        status = vram_transfer_fill(world->base.rig.queue, world->addr, 7, 1, SMALL, &sync_options,
                                    NULL);
    }
    return ok_if_address_is_gone(status);
}

static vram_status call_batch(void *argument) {
    struct transfer_world *world = argument;
    vram_copy copies[40];
    for (unsigned i = 0; i < 40; i++) { /* small ones, neighbours and not */
        copies[i] = (vram_copy){.to = world->addr + i * 512 + (i % 3 == 0 ? 64 : 0),
                                .from_host = source + i * 640,
                                .bytes = 256};
    }
    return ok_if_address_is_gone(
        vram_transfer_batch(world->base.rig.queue, copies, 40, &sync_options, NULL));
}

static vram_status call_rectangle(void *argument) {
    struct transfer_world *world = argument;
    vram_copy_2d copy = {.first = {.to_host = target, .from = world->addr},
                         .rows = 32,
                         .row_bytes = 1024,
                         .to_pitch = 2048,
                         .from_pitch = 4096};
    return poison_failed_target(
        vram_transfer_2d(world->base.rig.queue, &copy, &sync_options, NULL));
}

/* ----------------------------------------------------------------------- handles */

static void nothing(void *user, vram_status status) {
    (void)user, (void)status;
}

static vram_status call_async_look(void *argument) {
    struct transfer_world *world = argument;
    struct vram_error error;
    vram_async_state state;
    uint64_t result;
    (void)vram_async_is_ready(&world->async);
    vram_status status = vram_async_state_get(&world->async, &state);
    status = status == VRAM_OK ? vram_async_result_get(&world->async, &result) : status;
    return status == VRAM_OK ? vram_async_error_get(&world->async, &error) : status;
}

static vram_status call_async_wait(void *argument) {
    struct transfer_world *world = argument;
    vram_status status = vram_async_wait(&world->async, VRAM_TIMEOUT_DEFAULT);
    return status == VRAM_OK ? vram_async_poll(&world->async) : status;
}

static vram_status call_async_then(void *argument) {
    struct transfer_world *world = argument;
    return vram_async_then(&world->async, nothing, NULL);
}

static vram_status call_async_of_point(void *argument) {
    struct transfer_world *world = argument;
    vram_async async;
    vram_point point;
    vram_status status = vram_queue_mark(world->base.rig.queue, &point);
    if (status == VRAM_OK && (status = vram_async_of_point(point, "work", &async)) == VRAM_OK) {
        status = vram_async_then(&async, nothing, NULL);
        vram_async_end(&async);
    }
    return status;
}

static vram_status call_async_poll_all(void *argument) {
    return vram_async_poll_all(((struct transfer_world *)argument)->base.rig.device, NULL);
}

static vram_status call_stats(void *argument) {
    vram_transfer_stats stats = {.size = sizeof stats};
    return vram_transfer_stats_get(((struct transfer_world *)argument)->base.rig.device,
                                   VRAM_TRANSFER_TO_HOST, VRAM_ROUTE_ANY, &stats);
}

/* ------------------------------------------------------------------------- races */

/* `locked`: with memory of the program's own that was page-locked and is kept so. */
static struct transfer_world world_make(const char *backend, bool locked) {
    struct transfer_world world = {.base = race_world_make(backend, "memory=64M,lag=20")};
    vram_buffer_options options = {.size = sizeof options};
    vram_readback_options two = {.size = sizeof two, .policy = VRAM_READBACK_EVERY};
    assert_ok(vram_device_alloc(world.base.rig.device, BYTES, VRAM_MEMORY_DEVICE, &world.addr));
    assert_ok(vram_buffer_create(world.base.pool, 4 * SMALL, world.base.rig.queue, &options,
                                 &world.buffer));
    assert_ok(vram_stream_set_create(world.base.rig.device, NULL, &world.set));
    assert_ok(vram_readback_create(world.base.rig.device, &two, &world.readback));
    assert_ok(vram_feed_create(world.base.rig.device, NULL, &world.feed));
    for (int i = 0; i < ENTRIES && locked; i++) {
        assert_ok(vram_pinned_begin(world.base.rig.device, pages[i], SMALL));
        assert_ok(vram_pinned_end(world.base.rig.device, pages[i], SMALL));
    }
    assert_ok(vram_queue_fill(world.base.rig.queue, world.addr, 7, 1, BYTES));
    assert_ok(vram_readback_start(world.readback, world.base.rig.queue, world.addr, SMALL, NULL));
    assert_ok(
        vram_transfer_upload(world.base.rig.queue, world.addr, source, SMALL, NULL, &world.async));
    assert_ok(vram_queue_mark(world.base.rig.queue, &world.point));
    target_failed = false;
    return world;
}

struct row {
    const char *name;
    race_call *call;
    race_end *own; /* the object's own end, beside those of device and context */
};

enum { DELAYS = 8 };

static void race_rows(const char *backend, unsigned rounds, const struct row *rows,
                      unsigned count) {
    for (unsigned c = 0; c < count; c++) {
        race_end *const ends[3] = {rows[c].own, race_end_device, race_end_context};
        for (unsigned i = 0; i < 3 * rounds; i++) {
            struct transfer_world world = world_make(backend, rounds > 1);
            uint64_t delay = race_delay((c + 3 * i) % DELAYS, DELAYS, 150000);
            bool good = race_run(rows[c].name, &world, rows[c].call, ends[i % 3], delay);
            vram_async_end(&world.async);
            race_world_end(&world.base, ends[i % 3]);
            for (unsigned k = 0; target_failed && k < sizeof target; k++) {
                assert_int_equal(target[k], 0xEE);
            }
            assert_true(good);
        }
    }
}

static const struct row pinned_rows[] = {
    {"pinned_begin and _end", call_pinned, race_end_device},
    {"pinned_forget", call_pinned_forget, race_end_device},
    {"pinned_trim", call_pinned_trim, race_end_device},
    {"pinned_info_get", call_pinned_info, race_end_device},
    {"device_cleanup", call_device_cleanup, race_end_device},
    {"context_cleanup", call_context_cleanup, race_end_device},
};

static const struct row object_rows[] = {
    {"stream_set_get, _find, _next", call_set_queues, end_set},
    {"stream_set_transfer", call_set_transfer, end_set},
    {"stream_set_poll", call_set_poll, end_set},
    {"stream_set_wait", call_set_wait, end_set},
    {"stream_set_mark", call_set_mark, end_set},
    {"stream_set_sync", call_set_sync, end_set},
    {"stream_set_order, _after, _barrier", call_set_barrier, end_set},
    {"readback_start", call_readback_start, end_readback},
    {"readback_start", call_readback_start, race_end_queue},
    {"readback_start_spans", call_readback_spans, end_readback},
    {"readback_start_spans", call_readback_spans, race_end_pool},
    {"readback_wait", call_readback_wait, end_readback},
    {"readback_poll, _point, _async", call_readback_handle, end_readback},
    {"readback_next and _give", call_readback_next, end_readback},
    {"readback_latest, _stats_get", call_readback_latest, end_readback},
    {"feed_begin, _submit, _give", call_feed, end_feed},
    {"feed_begin, _submit, _give", call_feed, race_end_queue},
    {"feed_submit with a handle", call_feed_handle, end_feed},
};

static const struct row copy_rows[] = {
    {"transfer_upload", call_upload, race_end_queue},
    {"transfer_upload, sync", call_upload_sync, race_end_queue},
    {"transfer_download", call_download, race_end_queue},
    {"transfer_download, small", call_download_small, race_end_queue},
    {"transfer_download with a handle", call_download_handle, race_end_queue},
    {"transfer_copy and _fill", call_copy, race_end_queue},
    {"transfer_batch", call_batch, race_end_queue},
    {"transfer_2d", call_rectangle, race_end_queue},
    {"async_state_get, _result_get, _error_get", call_async_look, race_end_queue},
    {"async_wait and _poll", call_async_wait, race_end_queue},
    {"async_then", call_async_then, race_end_queue},
    {"async_of_point", call_async_of_point, race_end_queue},
    {"async_poll_all", call_async_poll_all, race_end_queue},
    {"transfer_stats_get", call_stats, race_end_queue},
};

#define ROWS(rows) rows, sizeof rows / sizeof rows[0]

static void calls_on_locked_memory(void **state) {
    (void)state;
    race_rows("sim", 2, ROWS(pinned_rows));
}

static void calls_on_transfer_objects(void **state) {
    (void)state;
    race_rows("sim", 1, ROWS(object_rows));
}

static void calls_of_copies(void **state) {
    (void)state;
    race_rows("sim", 1, ROWS(copy_rows));
}

static void calls_on_the_host_backend(void **state) {
    (void)state;
    race_rows("host", 1, ROWS(object_rows));
    race_rows("host", 1, ROWS(copy_rows));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, nothing_left)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(calls_on_locked_memory),
        TEST(calls_on_transfer_objects),
        TEST(calls_of_copies),
        TEST(calls_on_the_host_backend),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

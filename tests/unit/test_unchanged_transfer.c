/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_unchanged_transfer.c: a transfer that fails has changed nothing, or a part of its target
 * where errors.md says so. Every call below it fails in turn; trial_world.h says what holds after
 * each.
 */
#include "unit/trial_world.h"

#include "vram/feed.h"
#include "vram/readback.h"
#include "vram/stream.h"
#include "vram/transfer.h"

/* Waits for the handle as a program does. A question that the driver does not answer is asked
   again; that the device is lost later on is no failure of the call that submitted. */
static vram_status finish(struct scene *scene, vram_status status, vram_async *async) {
    if (status != VRAM_OK) {
        return status;
    }
    status = vram_async_wait(async, VRAM_TIMEOUT_DEFAULT);
    if (status != VRAM_OK) {
        (void)trial_disarm(scene);
        if (status != VRAM_ERR_DEVICE_LOST) {
            assert_ok(vram_async_wait(async, VRAM_TIMEOUT_DEFAULT));
        }
        vram_error_clear();
    }
    vram_async_end(async);
    return VRAM_OK;
}

/* -------------------------------------------------------------------- transfers */

static vram_status call_upload(struct scene *scene) {
    vram_async async;
    return finish(scene,
                  vram_transfer_upload(scene->rig.queue, scene->target, scene->host, scene->bytes,
                                       NULL, &async),
                  &async);
}
static vram_status call_download(struct scene *scene) {
    vram_async async;
    return finish(scene,
                  vram_transfer_download(scene->rig.queue, scene->host, scene->area, scene->bytes,
                                         NULL, &async),
                  &async);
}
static vram_status call_copy(struct scene *scene) {
    vram_async async;
    return finish(scene,
                  vram_transfer_copy(scene->rig.queue, scene->target, scene->area, scene->bytes,
                                     NULL, &async),
                  &async);
}
static vram_status call_fill(struct scene *scene) {
    vram_async async;
    return finish(
        scene,
        vram_transfer_fill(scene->rig.queue, scene->target, 0x77, 1, scene->bytes, NULL, &async),
        &async);
}
static vram_status call_sync(struct scene *scene) {
    vram_transfer_options sync = {.size = sizeof sync, .strategy = VRAM_TRANSFER_SYNC};
    return vram_transfer_upload(scene->rig.queue, scene->target, scene->host, scene->bytes, &sync,
                                NULL);
}
static vram_status call_2d(struct scene *scene) {
    vram_copy_2d copy = {.first = {.to = scene->target, .from_host = scene->host},
                         .row_bytes = 256,
                         .rows = 16,
                         .to_pitch = 512,
                         .from_pitch = 1024};
    vram_async async;
    return finish(scene, vram_transfer_2d(scene->rig.queue, &copy, NULL, &async), &async);
}
static vram_status call_batch(struct scene *scene) {
    vram_copy copies[12];
    vram_async async;
    for (uint64_t i = 0; i < 12; i++) {
        copies[i] = i % 3 ? (vram_copy){.to = scene->target + i * 1024,
                                        .from_host = scene->host + (11 - i) * 700,
                                        .bytes = 512}
                          : (vram_copy){.to = scene->target + i * 1024,
                                        .from = scene->area + i * 600,
                                        .bytes = 512};
    }
    return finish(scene, vram_transfer_batch(scene->rig.queue, copies, 12, NULL, &async), &async);
}

/* Small ones, which are one call of the driver's each: it is taken or it is not. */
static void small_transfers(void **state) {
    static const struct trial trials[] = {
        MARKED("upload", NULL, call_upload, NULL, NULL, TRIAL_UNDERWAY),
        MARKED("upload, waited for", NULL, call_sync, NULL, NULL, TRIAL_UNDERWAY),
        MARKED("download", NULL, call_download, NULL, NULL, TRIAL_UNDERWAY | TRIAL_WRITES_HOST),
        MARKED("copy", NULL, call_copy, NULL, NULL, TRIAL_UNDERWAY),
        MARKED("fill", NULL, call_fill, NULL, NULL, TRIAL_UNDERWAY),
    };
    (void)state;
    TRIALS(trials);
}

/* In several pieces: once the driver fails in the middle, a part is there. Memory of the host's
   that runs out once is no such failure: the call succeeds, or nothing has changed. */
static void transfers_in_pieces(void **state) {
    static const struct trial trials[] = {
        {.name = "staged upload",
         .call = call_upload,
         .marks = TRIAL_PARTIAL,
         .bytes = SCENE_BYTES,
         .sim = "memory=64M,lag=20"},
        {.name = "staged download",
         .call = call_download,
         .marks = TRIAL_PARTIAL | TRIAL_WRITES_HOST,
         .bytes = SCENE_BYTES,
         .sim = "memory=64M,lag=20"},
        MARKED("2d", NULL, call_2d, NULL, NULL, TRIAL_PARTIAL),
        MARKED("batch", NULL, call_batch, NULL, NULL, TRIAL_PARTIAL),
    };
    (void)state;
    TRIALS(trials);
}

/* The memory of the host or of the driver runs out once, while a transfer is in several pieces: it
   succeeds, or nothing has changed. */
static void memory_that_runs_out_once_leaves_no_part(void **state) {
    static const struct trial trials[] = {{.name = "staged upload",
                                           .call = call_upload,
                                           .bytes = SCENE_BYTES,
                                           .sim = "memory=64M,lag=20"},
                                          {.name = "staged download",
                                           .call = call_download,
                                           .bytes = SCENE_BYTES,
                                           .sim = "memory=64M,lag=20"}};
    (void)state;
    trials_wrong = 0;
    for (int i = 0; i < 2; i++) {
        struct scene scene = scene_make(&trials[i]);
        assert_ok(trials[i].call(&scene));
        struct object_state whole = scene_look(&trials[i], &scene, true);
        scene_end(&trials[i], &scene, true);
        for (size_t fault = TRIAL_MEMORY_ONCE; fault <= TRIAL_DRIVER_MEMORY_ONCE; fault += 2) {
            uint64_t nth = 1;
            while (trial_run(&trials[i], &trial_faults[fault], nth, &whole)) {
                assert_true(++nth < 500);
            }
        }
    }
    assert_int_equal(trials_wrong, 0);
}

/* ------------------------------------------------------------------ other devices */

#define TWO_DEVICES "memory=64M,granule=64K,lag=5,devices=2"

enum { LONG_BYTES = 4 * 1024 * 1024 + 24 * 1024 }; /* two pieces of a copy through the host */

/* Memory of the other device. */
static void make_source(struct scene *scene, uint64_t bytes) {
    assert_ok(vram_device_alloc(scene->rig.other, bytes, VRAM_MEMORY_DEVICE, &scene->addr));
    assert_ok(vram_queue_fill(scene->rig.other_queue, scene->addr, 0x55, 1, bytes));
    assert_ok(vram_queue_wait(scene->rig.other_queue, VRAM_TIMEOUT_DEFAULT));
}
static void make_other(struct scene *scene) {
    make_source(scene, scene->bytes);
}
static void make_peer(struct scene *scene) {
    make_other(scene);
    assert_ok(vram_device_peer_enable(scene->rig.device, scene->rig.other));
}
/* What is read stays as it is, too. */
static void look_other(struct scene *scene, struct object_state *state) {
    state_memory(state, "source", scene->rig.other_queue, scene->addr, scene->bytes);
}
static void end_other(struct scene *scene) {
    assert_ok(vram_device_free(scene->rig.other, scene->addr));
}
static vram_status call_copy_over(struct scene *scene) {
    vram_async async;
    return finish(scene,
                  vram_transfer_copy(scene->rig.queue, scene->target, scene->addr, scene->bytes,
                                     NULL, &async),
                  &async);
}
static vram_status call_queue_copy_over(struct scene *scene) {
    vram_status status =
        vram_queue_copy(scene->rig.queue, scene->target, scene->addr, scene->bytes);
    if (status == VRAM_OK) {
        (void)trial_disarm(scene);
        (void)vram_queue_wait(scene->rig.queue, VRAM_TIMEOUT_DEFAULT);
        vram_error_clear();
    }
    return status;
}

/* In two pieces, into memory of its own, of which the ends of the pieces are looked at. */
static vram_addr long_target;
static void make_long(struct scene *scene) {
    make_source(scene, LONG_BYTES);
    assert_ok(vram_device_alloc(scene->rig.device, LONG_BYTES, VRAM_MEMORY_DEVICE, &long_target));
}
static void look_long(struct scene *scene, struct object_state *state) {
    static const uint64_t places[] = {0, LONG_BYTES - 28 * 1024, LONG_BYTES - 4 * 1024};
    for (int i = 0; i < 3; i++) {
        state_memory(state, "source", scene->rig.other_queue, scene->addr + places[i], 4 * KIB);
        state_memory(state, "~long", scene->rig.queue, long_target + places[i], 4 * KIB);
    }
}
static void end_long(struct scene *scene) {
    end_other(scene);
    assert_ok(vram_device_free(scene->rig.device, long_target));
}
static vram_status call_copy_long(struct scene *scene) {
    vram_async async;
    return finish(
        scene,
        vram_transfer_copy(scene->rig.queue, long_target, scene->addr, LONG_BYTES, NULL, &async),
        &async);
}

static void other_devices(void **state) {
    static const struct trial trials[] = {
        {.name = "vram_queue_copy from a peer",
         .make = make_peer,
         .call = call_queue_copy_over,
         .look = look_other,
         .end = end_other,
         .sim = TWO_DEVICES},
        {.name = "copy from a peer",
         .make = make_peer,
         .call = call_copy_over,
         .look = look_other,
         .end = end_other,
         .marks = TRIAL_UNDERWAY,
         .sim = TWO_DEVICES},
        {.name = "copy through the host",
         .make = make_other,
         .call = call_copy_over,
         .look = look_other,
         .end = end_other,
         .marks = TRIAL_PARTIAL,
         .sim = TWO_DEVICES},
        {.name = "copy through the host in pieces",
         .make = make_long,
         .call = call_copy_long,
         .look = look_long,
         .end = end_long,
         .marks = TRIAL_PARTIAL,
         .sim = TWO_DEVICES},
    };
    (void)state;
    TRIALS(trials);
}

/* ------------------------------------------------------------------------ handles */

/* What a callback was told. */
static struct { uint64_t calls, failures; } heard;

static void on_done(void *user, vram_status status) {
    (void)user;
    heard.calls++;
    heard.failures += status != VRAM_OK;
}
static void make_quiet(struct scene *scene) {
    (void)scene;
    heard.calls = heard.failures = 0;
}
static void look_heard(struct scene *scene, struct object_state *state) {
    if (state->contents) {
        assert_ok(vram_async_poll_all(scene->rig.device, NULL));
    }
    state_number(state, "heard.calls", heard.calls);
    state_number(state, "heard.failures", heard.failures);
}
/* A handle of what is under way: the mark that the handle is of. */
static vram_status point_handle(struct scene *scene, vram_async *async) {
    vram_point point;
    vram_status status = vram_queue_mark(scene->side, &point);
    return status == VRAM_OK ? vram_async_of_point(point, "mark", async) : status;
}
static vram_status call_of_point(struct scene *scene) {
    vram_async async;
    return finish(scene, point_handle(scene, &async), &async);
}
static vram_status call_then(struct scene *scene) {
    vram_async async = {{0}};
    vram_status status = point_handle(scene, &async);
    if (status == VRAM_OK) {
        status = vram_async_then(&async, on_done, NULL);
    }
    if (status != VRAM_OK) {
        vram_async_end(&async);
    }
    return finish(scene, status, &async);
}

static void handles(void **state) {
    static const struct trial trials[] = {
        TRIAL("vram_async_of_point", make_quiet, call_of_point, look_heard, NULL),
        TRIAL("vram_async_then", make_quiet, call_then, look_heard, NULL),
    };
    (void)state;
    TRIALS(trials);
}

/* ------------------------------------------------------------ readbacks and feeds */

static void make_readback(struct scene *scene) {
    vram_readback *readback;
    assert_ok(vram_readback_create(scene->rig.device, NULL, &readback));
    scene->object = readback;
}
static void look_readback(struct scene *scene, struct object_state *state) {
    vram_readback_stats stats = {.size = sizeof stats};
    assert_ok(vram_readback_stats_get(scene->object, &stats));
    state_number(state, "readback.started", stats.started);
    state_number(state, "readback.arrived", stats.arrived);
    state_number(state, "readback.failed", stats.failed);
    state_number(state, "readback.bytes", stats.bytes);
}
static void end_readback(struct scene *scene) {
    vram_frame frame;
    assert_ok(vram_readback_next(scene->object, SECOND, &frame));
    for (uint64_t i = 0; i < scene->bytes; i++) {
        assert_int_equal(((const unsigned char *)frame.data)[i], 0x77);
    }
    assert_ok(vram_readback_release(scene->object, frame.number));
    vram_readback_destroy(scene->object);
}
static vram_status call_readback(struct scene *scene) {
    uint64_t number;
    vram_status status =
        vram_readback_start(scene->object, scene->rig.queue, scene->area, scene->bytes, &number);
    if (status == VRAM_OK) {
        (void)trial_disarm(scene);
        status = vram_readback_wait(scene->object, number, VRAM_TIMEOUT_DEFAULT);
    }
    return status;
}

static void make_feed(struct scene *scene) {
    vram_feed *feed;
    vram_feed_block block;
    assert_ok(vram_feed_create(scene->rig.device, NULL, &feed));
    scene->object = feed;
    assert_ok(vram_feed_begin(feed, scene->bytes, SECOND, &block));
    memcpy(block.data, scene->host, scene->bytes);
    scene->addr = block.number;
}
static void look_feed(struct scene *scene, struct object_state *state) {
    vram_feed_stats stats = {.size = sizeof stats};
    assert_ok(vram_feed_stats_get(scene->object, &stats));
    state_number(state, "feed.submitted", stats.submitted);
    state_number(state, "feed.bytes", stats.bytes);
}
static void end_feed(struct scene *scene) {
    vram_feed_destroy(scene->object);
}
static vram_status call_feed(struct scene *scene) {
    vram_async async;
    return finish(scene,
                  vram_feed_submit(scene->object, scene->rig.queue, scene->target, scene->addr,
                                   scene->bytes, &async),
                  &async);
}

/* With memory that is taken at once. */
static vram_status call_feed_create(struct scene *scene) {
    vram_feed_options options = {.size = sizeof options, .slots = 3, .bytes = 24 * KIB};
    vram_feed *feed = NULL;
    vram_status status = vram_feed_create(scene->rig.device, &options, &feed);
    scene->object = feed;
    return status;
}
static vram_status call_readback_create(struct scene *scene) {
    vram_readback_options options = {.size = sizeof options, .slots = 3, .bytes = 24 * KIB};
    vram_readback *readback = NULL;
    vram_status status = vram_readback_create(scene->rig.device, &options, &readback);
    scene->object = readback;
    return status;
}
static void end_new_readback(struct scene *scene) {
    vram_readback_destroy(scene->object);
}

static vram_status call_stream_set(struct scene *scene) {
    vram_stream_set *set = NULL;
    vram_status status = vram_stream_set_create(scene->rig.device, NULL, &set);
    scene->object = set;
    return status;
}
static void end_stream_set(struct scene *scene) {
    vram_stream_set_destroy(scene->object);
}
static void make_stream_set(struct scene *scene) {
    assert_ok(call_stream_set(scene));
}
static vram_status call_stream_transfer(struct scene *scene) {
    vram_queue *queue;
    return vram_stream_set_transfer(scene->object, &queue);
}
static vram_status call_stream_sync(struct scene *scene) {
    vram_async async;
    return finish(scene, vram_stream_set_sync(scene->object, &async), &async);
}

static void objects(void **state) {
    static const struct trial trials[] = {
        TRIAL("vram_readback_create", NULL, call_readback_create, look_made, end_new_readback),
        MARKED("vram_readback_start", make_readback, call_readback, look_readback, end_readback,
               TRIAL_UNDERWAY),
        TRIAL("vram_feed_create", NULL, call_feed_create, look_made, end_feed),
        MARKED("vram_feed_submit", make_feed, call_feed, look_feed, end_feed, TRIAL_PARTIAL),
        TRIAL("vram_stream_set_create", NULL, call_stream_set, look_made, end_stream_set),
        TRIAL("vram_stream_set_transfer", make_stream_set, call_stream_transfer, look_made,
              end_stream_set),
        TRIAL("vram_stream_set_sync", make_stream_set, call_stream_sync, NULL, end_stream_set),
    };
    (void)state;
    TRIALS(trials);
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, start, nothing_left)

int main(void) {
    const struct CMUnitTest tests[] = {HERE(small_transfers),
                                       HERE(transfers_in_pieces),
                                       HERE(memory_that_runs_out_once_leaves_no_part),
                                       HERE(other_devices),
                                       HERE(handles),
                                       HERE(objects)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
